// SPDX-License-Identifier: Apache-2.0

// One job: why it is where it is, its life, its runs, and what can be done about it.

import { actionButton, act, show } from './act.js';
import { ApiError, get, query, stream } from './api.js';
import { comesBack, redrawWhenFree } from './live.js';
import { hasRight, may } from './rights.js';
import { badge, duration, empty, enqueuedAt, facts, h, heading, number, svg, time, warningList } from './dom.js';
import { kindsOf, timeline } from './timeline.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));
const json = (value) => JSON.stringify(value, null, 2);

// --- actions ---

function patchDialog(job) {
    const path = `/jobs/${job.id}`;
    return show('Patch', (close) => {
        const wrong = h('p', { class: 'error', role: 'alert' });
        const text = h('textarea', { id: 'patch', rows: '8', spellcheck: 'false', autofocus: true }, json({
            queue: job.queue, priority: job.priority }));
        const form = h('form', { onsubmit: (event) => {
            event.preventDefault();
            try {
                close(JSON.parse(text.value));
            } catch (err) {
                wrong.textContent = err.message;
            }
        } }, h('label', { for: 'patch' }, 'What is to change, as JSON'), text, wrong, h('div', { class: 'buttons' },
            h('button', { type: 'button', class: 'quiet', onclick: () => close(null) }, 'Not now'),
            h('button', { type: 'submit', class: 'primary' }, 'Show the request')));
        return form;
    }).then(async (body) => body && await act({ title: 'Patch', method: 'PATCH', path, body }) && redraw());
}

function actions(job) {
    const path = `/jobs/${job.id}`;
    const ended = job.status === 'completed' || job.status === 'dead';
    const waits = job.status === 'scheduled' || job.status === 'blocked';
    const patch = h('button', { type: 'button', class: 'action' }, 'Patch');
    patch.addEventListener('click', () => patchDialog(job));
    return h('div', { class: 'actions' },
        job.status === 'scheduled' && actionButton('Run now', 'patchJob', { method: 'PATCH', path, body: { ready_at: null },
            text: 'It becomes ready at once.', done: redraw }),
        job.status === 'blocked' && actionButton('Free it', 'patchJob', { method: 'PATCH', path, body: { depends_on: null },
            text: 'It waits for no other job any more, and is not held.', done: redraw }),
        job.status === 'dead' && actionButton('Retry', 'retryJob', { method: 'POST', path: `${path}/retry`,
            text: 'It becomes ready again, with all its retries.', done: redraw }, { key: 'r' }),
        !ended && may('patchJob') && patch,
        !ended && actionButton('Cancel', 'cancelJob', { method: 'POST', path: `${path}/cancel`,
            text: waits ? 'It will not run.' : 'It ends; its worker learns of it when it reports.', done: redraw },
        { key: 'c', danger: true }),
        actionButton('Delete', 'deleteJob', { method: 'DELETE', path, text: 'The job and its runs are gone.',
            done: () => { location.hash = '#/jobs'; } }, { key: 'd', danger: true }));
}

// --- parts ---

function why(explanation) {
    return h('section', { class: 'card', 'aria-labelledby': 'why' }, h('h2', { id: 'why' }, 'Why it is here'),
        explanation.waits_for.length === 0 ? h('p', { class: 'summary' }, explanation.summary) : h('ul', { class: 'obstacles' }, explanation.waits_for.map((o) =>
            h('li', null, h('span', { class: `chip k-${o.kind}` }, o.kind.replaceAll('_', ' ')), ' ', o.reason,
                o.until && h('span', { class: 'hint' }, ' until ', time(o.until))))),
        explanation.remedy && h('p', { class: 'hint' }, explanation.remedy),
        explanation.hint && h('p', { class: 'hint' }, explanation.hint));
}

function life(job, runs, explanation) {
    const { line, marks, parts } = timeline(job, runs, explanation);
    return h('section', { class: 'card', 'aria-labelledby': 'life' }, h('h2', { id: 'life' }, 'Its life'),
        line, marks, h('ul', { class: 'legend' }, [...kindsOf(parts)].map(([name, cls]) =>
            h('li', null, swatch(cls), name))));
}

function swatch(cls) {
    return svg('svg', { class: 'swatch', viewBox: '0 0 12 12', 'aria-hidden': 'true' },
        svg('rect', { width: 12, height: 12, rx: 3, class: cls }));
}

function failureOf(run) {
    const parts = [];
    if (run.exit_code !== undefined)
        parts.push(`exit ${run.exit_code}`);
    if (run.signal !== undefined)
        parts.push(`signal ${run.signal}`);
    return [...parts, run.condition, run.category, run.error_type].filter(Boolean).join(' · ');
}

function runCard(run, error) {
    const span = run.taken_at && run.ended_at ? duration(run.ended_at - run.taken_at) : null;
    const log = error?.backtrace ?? run.termination_message;
    return h('li', { class: 'run-card' },
        h('div', { class: 'run-head' }, h('h3', null, `Run ${run.run}`),
            h('span', { class: `badge o-${run.outcome}` }, run.outcome), span && h('span', { class: 'hint' }, span),
            h('span', { class: 'hint' }, failureOf(run))),
        run.reason && h('p', { class: 'reason' }, run.reason),
        run.culprit && h('p', { class: 'hint' }, `Culprit: ${run.culprit} (${run.culprit_evidence})`),
        facts([['worker', run.worker], ['node', run.node], ['taken', run.taken_at && time(run.taken_at)],
            ['ended', run.ended_at && time(run.ended_at)],
            ['lease', run.lease_expires_at && !run.ended_at && time(run.lease_expires_at)]]),
        run.message && h('pre', { class: 'log', tabindex: '0', 'aria-label': 'Message' }, run.message),
        log && h('details', null, h('summary', null, 'End of its output'),
            h('pre', { class: 'log', tabindex: '0' }, log)));
}

function runList(runs, errors) {
    const byRun = new Map(errors.map((error) => [error.run, error]));
    return h('section', { class: 'card', 'aria-labelledby': 'runs' }, h('h2', { id: 'runs' }, `Runs (${runs.length})`),
        runs.length ? h('ol', { class: 'runs' }, [...runs].reverse().map((run) => runCard(run, byRun.get(run.run))))
            : empty('It has not run yet'));
}

function progress(job) {
    const p = job.progress;
    if (!p)
        return null;
    const value = typeof p.value === 'number' ? h('progress', { max: '1', value: String(p.value),
        'aria-label': 'Progress' }) : null;
    return h('span', null, value, ` ${typeof p.value === 'number' ? `${Math.round(p.value * 100)} %` : ''} ${p.note ?? ''}`);
}

// The retry policies in the order in which they are asked, if any are; who judges, in words, where that says more.
function judges({ retry_policies: names, judged_by: words }) {
    const link = (name) => (may('listRetryPolicies') ? h('a', { href: `#/policies/${encodeURIComponent(name)}` }, name) : name);
    return words && h('div', { class: 'judges' }, words !== names.join(', then ') && h('p', null, words),
        names.length > 0 && h('ol', null, names.map((name) => h('li', null, link(name)))));
}

function about(job, explanation) {
    return h('section', { class: 'card', 'aria-labelledby': 'about' }, h('h2', { id: 'about' }, 'The job'), facts([
        ['queue', h('a', { href: `#/queue/${encodeURIComponent(job.queue)}` }, job.queue)], ['type', job.type],
        ['priority', String(job.priority)], ['enqueued', time(enqueuedAt(job.id))], ['ready', time(job.ready_at)],
        ['attempts', String(job.attempts)], ['resolution', job.resolution], ['decided', job.reason],
        ['failures judged by', judges(explanation)],
        ['warnings', warningList(explanation.warnings)],
        ['progress', progress(job)], ['concurrency key', job.concurrency_key], ['group', job.group],
        ['alias', job.alias], ['gang', job.gang && `${job.gang.id} (${number(job.gang.members ?? 0)} of ${number(job.gang.cardinality)})`],
        ['deleted', job.purge_at && time(job.purge_at)],
        ['flow', (job.depends_on || job.gang) && h('a', { href: `#/flow/${job.id}` }, 'what it waits for')],
    ]), !hasRight('payloads') && h('p', { class: 'hint' }, 'Its payload, checkpoint and result, and what its containers wrote, are not shown: these credentials lack the right “payloads”.'),
    job.payload !== undefined && h('details', { open: true }, h('summary', null, 'Payload'),
        h('pre', { class: 'log', tabindex: '0', 'aria-label': 'Payload' }, json(job.payload))),
    job.checkpoint !== undefined && h('details', null, h('summary', null, 'Checkpoint'),
        h('pre', { class: 'log', tabindex: '0' }, json(job.checkpoint))),
    job.result !== undefined && h('details', null, h('summary', null, 'Result'),
        h('pre', { class: 'log', tabindex: '0' }, json(job.result))));
}

// --- the view ---

// Draws again when something happens to the job.
function follow(id, signal) {
    const once = (event) => {
        // Of a job that is gone its last state stays on the page.
        if (!signal.aborted && event.to && !event.removed && !document.getElementById('dialog').open)
            redraw();
    };
    stream(`/events${query({ job: id })}`, once, signal).catch(() => {}).then(() => comesBack(signal)).then(() => redrawWhenFree(signal));
}

export async function job([id], params, signal) {
    const path = `/jobs/${encodeURIComponent(id)}`;
    const [it, runs, explanation, errors] = await Promise.all([get(path, signal),
        get(`${path}/runs?order=desc&limit=50`, signal), get(`${path}/explain`, signal),
        get(`${path}/errors?order=desc&limit=50`, signal).catch((err) => {
            if (err instanceof ApiError)
                return { errors: [] };
            throw err;
        })]);
    const inOrder = [...runs.runs].sort((a, b) => a.run - b.run);
    follow(it.id, signal);
    return h('section', { class: 'view job' },
        heading(it.type, badge(it.status), h('code', { class: 'id' }, it.id), actions(it)),
        h('div', { class: 'columns' }, h('div', null, why(explanation), life(it, inOrder, explanation),
            runList(inOrder, errors.errors ?? [])), h('div', null, about(it, explanation))));
}
