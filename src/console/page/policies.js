// SPDX-License-Identifier: Apache-2.0

// Retry policies: an editor whose draft is tried on recent failures, and the kill switch.

import { act, actionButton } from './act.js';
import { ApiError, change, get, pages } from './api.js';
import { duration, empty, facts, h, heading, number, retellTimes, setText, shortId, time, warningList } from './dom.js';
import { reread } from './live.js';
import { may, whyNot } from './rights.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));

const DRAFT = {
    apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'new-policy' },
    spec: { retryLimit: 3, rules: [{ action: 'Retry', onConditions: ['Preempted', 'Evicted'] }] },
};

// --- the settings ---

const OFF = 'Retry policies are not enabled on this server: until they are switched on, none of them has any effect.';

async function queuesWithout() {
    const bare = [];
    for await (const { queues } of pages('/queues?details=true&limit=2000'))
        bare.push(...queues.filter((q) => q.retry_policies.length === 0).map((q) => q.name));
    return bare;
}

// Before they are switched on: what the last failures would have become, and which queues have none.
async function switchOn(s, done) {
    // Who may switch, but not this, or gets no answer, is told so and may switch all the same.
    const answer = await change('POST', '/retry-policies/simulate', { policies: [], settings: { enabled: true }, limit: 100 })
        .catch((err) => ({ failed: err.message }));
    const bare = await queuesWithout().catch(() => []);
    const fate = s.defaultPolicyName ? `to which ${s.defaultPolicyName} applies`
        : s.whenNoPolicy === 'fail' ? 'whose jobs die at their first failure unless they name one' : 'whose jobs keep their own retries';
    return { method: 'PUT', path: '/settings/retry', body: { enabled: true }, done,
        text: 'From the next failure on retry policies decide. The last failures would have become:',
        detail: [h('div', { class: 'simulation' }, answer.failed ? h('p', { class: 'error' }, answer.failed) : answer.jobs.length ? simulated(answer, 'Policies on').filter(Boolean)
            : h('p', { class: 'hint' }, 'There are no failures to evaluate.')),
        bare.length > 0 && h('p', null, `Queues without a policy, ${fate}: ${bare.slice(0, 50).join(', ')}${
            bare.length > 50 ? ` and ${number(bare.length - 50)} more` : ''}`)].filter(Boolean) };
}

// done is called when the switch was thrown.
function settingsCard(s, done) {
    const last = s.lastChange;
    return h('section', { class: 'card', 'aria-labelledby': 'switch' },
        h('div', { class: 'card-head' }, h('h2', { id: 'switch' }, 'Kill switch'),
            h('span', { class: `badge ${s.enabled ? 's-completed' : 's-dead'}` }, s.enabled ? 'policies on' : 'policies off'),
            h('div', { class: 'actions' }, s.enabled
                ? actionButton('Switch policies off', 'putRetrySettings', { method: 'PUT', path: '/settings/retry', body: { enabled: false },
                    text: 'From the next failure on no retry policy decides.', done }, { danger: true })
                : actionButton('Switch policies on', 'putRetrySettings', () => switchOn(s, done)))),
        !s.enabled && h('p', { class: 'error off' }, OFF),
        facts([['most retries of a job', number(s.globalMaxRetries)], ['without a policy', s.whenNoPolicy],
            ['default policy', s.defaultPolicyName || 'none'],
            ['last change', last ? h('span', null, time(last.at), ` by ${last.by ?? 'unknown'}`) : 'never']], true));
}

// --- a simulation ---

function verdict(v) {
    return v ? h('span', { title: v.reason }, v.action ?? '', v.delay_ms === undefined ? '' : ` in ${duration(v.delay_ms)}`) : '–';
}

function simulated(answer, drafted = 'Draft') {
    const { summary, jobs } = answer;
    const row = (name, draft, today) => h('tr', null, h('th', { scope: 'row' }, name), h('td', { class: 'num' }, draft),
        h('td', { class: 'num' }, today));
    return [h('table', { class: 'compare' }, h('caption', null, `${number(summary.failures)} failures of ${number(summary.jobs)} jobs${
        summary.truncated ? ', and there are more' : ''}`),
    h('thead', null, h('tr', null, h('td', null), h('th', { scope: 'col' }, drafted), h('th', { scope: 'col' }, 'Today'))),
    h('tbody', null, row('retries', number(summary.draft.retries), number(summary.today.retries)),
        row('dead jobs', number(summary.draft.dead), number(summary.today.dead)),
        row('longest window', duration(summary.draft.window_ms), duration(summary.today.window_ms)))),
    summary.lost_completions > 0 && h('p', { class: 'error' },
        `${number(summary.lost_completions)} jobs that completed would be dead ${drafted === 'Draft' ? 'under the draft' : 'with policies on'}.`),
    jobs.length > 0 && h('ul', { class: 'sim-jobs' }, jobs.slice(0, 50).map((job) => h('li', null,
        job.job && !job.deleted ? h('a', { href: `#/job/${job.job}`, class: 'mono' }, shortId(job.job))
            : h('span', { class: 'mono hint' }, job.job ? shortId(job.job) : 'given'), ' ', job.queue,
        job.extra_attempts !== 0 && h('span', { class: 'hint' }, ` ${job.extra_attempts > 0 ? '+' : ''}${job.extra_attempts} attempts`),
        h('ol', null, job.failures.slice(0, 5).map((f) => h('li', null, h('span', { class: 'sim-message' },
            f.message ?? f.condition ?? `failure ${f.failure}`), ' – draft: ', verdict(f.draft), ', today: ', verdict(f.today)))))))];
}

// --- the editor ---

// "line 9, column 19: …" selects that place.
function point(text, message) {
    const at = /line (\d+), column (\d+)/.exec(message);
    if (!at)
        return;
    const lines = text.value.split('\n');
    const before = lines.slice(0, Number(at[1]) - 1).reduce((n, l) => n + l.length + 1, 0);
    text.focus();
    text.setSelectionRange(before + Number(at[2]) - 1, before + (lines[Number(at[1]) - 1]?.length ?? 0));
}

const versionOf = (policy) => policy?.metadata.resourceVersion ?? null;
const textOf = (policy) => {
    const { warnings, ...document } = policy ?? DRAFT; // these are the server's
    return JSON.stringify(document, null, 2);
};

// queue: only failures of that queue are simulated; null: all. Returns {element, update}: the latter takes the policy
// as it is now, null if it is gone. isOn: whether policies are enabled. A draft that somebody has begun to change is left alone.
function editor(policy, queue, simulates, isOn) {
    const news = h('p', { class: 'hint', role: 'status' });
    const wrong = h('p', { class: 'error', role: 'alert' });
    const result = h('div', { class: 'simulation', 'aria-live': 'polite' }, empty('Not tried yet',
        'Simulate evaluates recent failures by the draft and by the policies of today.'));
    const text = h('textarea', { id: 'policy', class: 'code', rows: '22', spellcheck: 'false' },
        textOf(policy));
    const fail = (err) => {
        setText(wrong, err instanceof ApiError ? err.message : String(err.message ?? err));
        point(text, wrong.textContent);
    };
    const simulate = async () => {
        setText(wrong, '');
        try {
            // The draft as it is, on lines of its own: places in messages are then one line off.
            const queues = queue ? `"queues":[${JSON.stringify(queue)}],` : '';
            const body = `{"limit":100,${queues}"policies":[\n${text.value}\n]}`;
            const answer = await change('POST', '/retry-policies/simulate', body, 'application/json');
            result.replaceChildren(...simulated(answer).filter(Boolean));
        } catch (err) {
            if (err instanceof ApiError)
                err.message = err.message.replace(/line (\d+)/, (all, n) => `line ${n - 1}`);
            fail(err);
        }
    };
    const apply = async () => {
        setText(wrong, '');
        const name = /"?name"?\s*:\s*"?([^"\s,}]+)/.exec(text.value)?.[1] ?? policy?.metadata.name ?? 'new-policy';
        // As YAML, of which JSON is a part: so errors have a line and a column.
        const answer = await act({ title: 'Apply', method: 'PUT', path: `/retry-policies/${encodeURIComponent(name)}`,
            body: text.value, type: 'application/yaml',
            text: `Replaces the policy ${name}${policy?.metadata.resourceVersion ? `, if it still is version ${policy.metadata.resourceVersion}` : ''}.${isOn() ? '' : ` ${OFF}`}`,
            refused: fail });
        if (answer?.metadata)
            location.hash = `#/policies/${encodeURIComponent(answer.metadata.name)}`;
        if (answer)
            redraw();
    };
    if (simulates)
        simulate();
    const applyButton = h('button', { type: 'button', class: 'action', onclick: apply }, 'Apply');
    const take = (now) => {
        policy = now;
        text.value = textOf(now);
        setText(wrong, '');
        news.replaceChildren(`Somebody has changed it; this is version ${now.metadata.resourceVersion}.`);
    };
    let seen = versionOf(policy);
    const warned = drawn(policy?.warnings ?? [], (texts) => h('div', { class: 'hint' }, warningList(texts) || null));
    const update = (now) => {
        warned.update(now?.warnings ?? []); // the settings may have changed, too
        if (versionOf(now) === seen)
            return;
        seen = versionOf(now);
        if (!now)
            news.replaceChildren('Somebody has deleted it meanwhile.');
        else if (text.value === textOf(policy))
            take(now);
        else
            news.replaceChildren(`Somebody has changed it meanwhile: it is version ${seen} now. `,
                h('button', { type: 'button', class: 'quiet small', onclick: () => take(now) }, 'Take that instead'));
    };
    const element = h('div', { class: 'columns even' },
        h('section', { class: 'card', 'aria-labelledby': 'draft' }, h('h2', { id: 'draft' }, 'Draft'),
            h('label', { for: 'policy', class: 'hidden' }, 'The policy, as JSON or YAML'), warned.element, text, wrong, news,
            h('div', { class: 'buttons left' }, h('button', { type: 'button', class: 'primary', onclick: simulate }, 'Simulate'), may('putRetryPolicy') && applyButton)),
        h('section', { class: 'card', 'aria-labelledby': 'result' }, h('h2', { id: 'result' }, queue ? `On recent failures of ${queue}` : 'On recent failures'), result));
    return { element, update };
}

// --- the view ---

async function read(signal) {
    const [{ items }, settings] = await Promise.all([get('/retry-policies', signal), get('/settings/retry', signal)]);
    return { items, settings };
}

function tabsOf(items, name) {
    return h('nav', { class: 'tabs', 'aria-label': 'Policies' }, items.map((item) =>
        h('a', { href: `#/policies/${encodeURIComponent(item.metadata.name)}`, 'data-row': true,
            'aria-current': item.metadata.name === name ? 'page' : null }, item.metadata.name)),
    h('a', { href: '#/policies/new', 'aria-current': name ? null : 'page' }, 'New policy'));
}

// What is drawn from a value, and drawn again when that has changed; the focus stays in its place.
function drawn(value, build) {
    let element = build(value), text = JSON.stringify(value);
    return { get element() { return element; }, update(now) {
        if (JSON.stringify(now) === text) {
            retellTimes(element);
            return;
        }
        const old = element, at = [...old.querySelectorAll('a, button')].indexOf(document.activeElement);
        element = build(now);
        text = JSON.stringify(now);
        old.replaceWith(element);
        element.querySelectorAll('a, button')[at]?.focus({ preventScroll: true });
    } };
}

// Credentials that are limited to queues see the switch, but no policies: these are about all queues.
async function settingsAlone(signal) {
    const read = () => get('/settings/retry', signal);
    const card = drawn(await read(), (s) => settingsCard(s));
    reread(async () => card.update(await read()), signal);
    return h('section', { class: 'view' }, heading('Policies'), card.element,
        h('p', { class: 'hint' }, `Retry policies themselves are not shown: ${whyNot('listRetryPolicies')}.`));
}

export async function policies([name], params, signal) {
    if (!may('listRetryPolicies'))
        return settingsAlone(signal);
    const { items, settings } = await read(signal);
    const find = (all) => all.find((item) => item.metadata.name === name) ?? null;
    const chosen = find(items);
    if (name && !chosen && name !== 'new')
        throw new Error(`There is no policy “${name}”.`);
    let { enabled } = settings;
    const refresh = async () => {
        const now = await read(signal);
        enabled = now.settings.enabled;
        card.update(now.settings);
        tabs.update(now.items);
        if (chosen)
            edited.update(find(now.items));
    };
    const card = drawn(settings, (s) => settingsCard(s, () => refresh().catch(() => {}))), tabs = drawn(items, (all) => tabsOf(all, chosen && name));
    const edited = editor(chosen, params.get('queue'), params.has('simulate'), () => enabled);
    reread(refresh, signal); // no event tells of policies and settings
    return h('section', { class: 'view' }, heading('Policies'), card.element, tabs.element, edited.element);
}
