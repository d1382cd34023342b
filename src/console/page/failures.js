// SPDX-License-Identifier: Apache-2.0

// Failures: groups of those that are alike, over time; what was decided about them; retries of them.

import { act } from './act.js';
import { ask, canaryCard, isOver, ofGroup, retryWithCanaries } from './canaries.js';
import { ApiError, change, gather, get, query, stream } from './api.js';
import { redrawOn } from './live.js';
import { UNDO, UNDOABLE, watched } from './operations.js';
import { limits, may } from './rights.js';
import { ago, count, empty, facts, h, heading, number, shortId, svg, time } from './dom.js';

const RATE = 10; // jobs a second that a retry lets become ready, unless one says otherwise

// Bars of counts, the present last.
function chart(counts, label) {
    const most = Math.max(1, ...counts), width = 6;
    return svg('svg', { class: 'chart', viewBox: `0 0 ${counts.length * width} 40`, preserveAspectRatio: 'none', role: 'img',
        'aria-label': `${label}: ${number(counts.reduce((a, b) => a + b, 0))}, at most ${number(most)} at a time` },
    counts.map((n, i) => svg('rect', { x: i * width, width: width - 1.5, y: n ? 40 - Math.max(3, (38 * n) / most) : 39,
        height: n ? Math.max(3, (38 * n) / most) : 1, class: n ? 'chart-bar' : 'chart-none' })));
}

const linkOf = (group) => `#/failures/${group.group}`;

function kindOf(group) {
    return [group.error_type, group.exit_code !== undefined && `exit ${group.exit_code}`,
        group.signal !== undefined && `signal ${group.signal}`, group.condition, group.category,
        group.outcome !== 'failed' && group.outcome].filter(Boolean).join(' · ');
}

// "dependency", or "dependency 7 · job 2" if there are several.
function blamed({ culprits }) {
    return culprits.map(({ culprit, count: n }) => (culprits.length > 1 ? `${culprit} ${number(n)}` : culprit)).join(' · ');
}

function trend(group) {
    return h('span', { class: `badge t-${group.trend}` }, group.trend);
}

function card(group) {
    return h('li', { class: 'card failure' },
        h('div', { class: 'failure-text' },
            h('a', { href: linkOf(group), class: 'failure-message', 'data-row': true }, group.message || kindOf(group) || 'no message'),
            h('p', { class: 'hint' }, `${group.queue} · ${group.type}${kindOf(group) ? ` · ${kindOf(group)}` : ''}`),
            group.culprits.length > 0 && h('p', { class: 'hint' }, `Culprit: ${blamed(group)}`)),
        h('div', { class: 'failure-counts' }, trend(group), h('strong', null, count(group.count)),
            h('span', { class: 'hint' }, `${count(group.last_hour)} in the last hour, last ${ago(group.last_seen)}`)),
        chart(group.per_minute, 'Failures by minute, the last hour'));
}

async function list(params, signal) {
    const order = params.get('order') ?? 'last_seen';
    redrawOn({ queue: params.get('queue'), event: 'job_requeued,job_dead' }, signal, { pause: 2000, most: 30000 });
    const page = await get(`/failure-groups${query({ order, queue: params.get('queue'), limit: 100 })}`, signal);
    const choose = h('select', { id: 'failures-order' }, [['last_seen', 'seen last'], ['first_seen', 'seen first'],
        ['count', 'most'], ['last_hour', 'most in the last hour']].map(([value, name]) =>
        h('option', { value, selected: value === order }, name)));
    const queue = h('input', { type: 'search', id: 'failures-queue', value: params.get('queue') ?? '', placeholder: 'any queue',
        'data-search': true });
    const moved = () => { location.hash = `#/failures${query({ order: choose.value, queue: queue.value })}`; };
    choose.addEventListener('change', moved);
    queue.addEventListener('change', moved);
    return h('section', { class: 'view' }, heading('Failures'),
        h('div', { class: 'row' }, h('div', { class: 'controls' }, h('label', { for: 'failures-queue' }, 'Queue'), queue,
            h('label', { for: 'failures-order' }, 'Order by'), choose),
        h('p', { class: 'hint' }, `${number(page.total)} ${page.total === 1 ? 'group' : 'groups'}`)),
        page.failure_groups.length ? h('ul', { class: 'plain' }, page.failure_groups.map(card))
            : empty('No failures', 'What fails is gathered here, alike with alike.'));
}

// --- one group ---

function actions(group, dead) {
    const some = dead.length > 0;
    const filter = query({ failure_group: group.group, status: 'dead' });
    return h('div', { class: 'actions' },
        some && may('retryJobs') && !limits().length && h('button', { type: 'button', class: 'action', 'data-key': 'r', title: 'Retry with canaries (r)',
            onclick: () => retryWithCanaries({ failure_group: group.group }, RATE) }, 'Retry with canaries'),
        some && may('retryJobs') && h('button', { type: 'button', class: 'action', onclick: () => retryAll(group) }, 'Retry all'),
        some && h('a', { class: 'button', href: `#/jobs${filter}` }, 'Its dead jobs'),
        may('simulateRetryPolicies') && h('a', { class: 'button', href: `#/policies/new${query({ queue: group.queue, simulate: 1 })}` }, 'Try a policy'));
}

async function retryAll(group) {
    const asked = await ask('Retry all', [{ id: 'rate', label: 'How many a second become ready', value: RATE, max: 1000000 }]);
    if (!asked)
        return;
    const values = { failure_group: group.group, rate: asked.rate };
    const dry = await change('POST', `/jobs/retry${query({ ...values, dry_run: 'true' })}`);
    const answer = await act({ title: 'Retry all', method: 'POST', path: `/jobs/retry${query({ ...values, undo: UNDO })}`,
        plain: `/jobs/retry${query(values)}`,
        text: `${number(dry.count)} dead jobs become ready again, ${number(asked.rate)} a second. ${UNDOABLE}`, ...watched() });
    if (answer)
        watched().done(answer);
}

// The runs of the samples that are still there.
function runsOf(group, signal) {
    return Promise.all(group.samples.map(async (sample) => {
        try {
            const { runs } = await get(`/jobs/${sample.job}/runs?limit=50`, signal);
            return { sample, run: runs.find(({ run }) => run === sample.run) };
        } catch (err) {
            if (err instanceof ApiError)
                return { sample, run: null };
            throw err;
        }
    }));
}

// --- who decided ---

const DECIDERS = { no_policy: 'the settings, as no policy is in effect', no_rule: 'the policies, of which no rule matches',
    retry_limit: 'the limit of the job, its queue or the server', global_max: 'the most retries of any job', kill: 'the worker, which said kill',
    retry_at: 'the worker, which said when', culprit: 'whose fault it was, which cost the job nothing',
    fail_fast: 'the job, whose first failure is final',
    retry_for: 'the time for retries that the job states', deadline: 'the deadline of the job' };
const DECISIONS_KEPT = 1000;
const decisions = new Map(); // by sample: its event, or null if that is not kept any more. It never changes.

const keyOf = (job, run) => `${job} ${run}`;

// Reads the events of samples that were not read before. All events may have to be looked at for
// that, so nothing waits for it.
async function readDecisions(samples, signal) {
    const wanted = samples.filter(({ job, run }) => !decisions.has(keyOf(job, run)));
    if (!wanted.length)
        return;
    const found = new Map(wanted.map(({ job, run }) => [keyOf(job, run), null]));
    await stream(`/events${query({ job: [...new Set(wanted.map(({ job }) => job))].join(','), event: 'job_requeued,job_dead', since: 0,
        follow: 'false' })}`, (event) => {
        if (found.has(keyOf(event.id, event.run)) && event.decided_by)
            found.set(keyOf(event.id, event.run), event);
    }, signal);
    if (decisions.size > DECISIONS_KEPT)
        decisions.clear();
    for (const [key, event] of found)
        decisions.set(key, event);
}

function decider({ decided_by: by, policy, rule }) {
    if (!policy)
        return DECIDERS[by] ?? by;
    const link = may('listRetryPolicies') ? h('a', { href: `#/policies/${encodeURIComponent(policy)}` }, policy) : policy;
    if (by === 'no_rule')
        return ['policy ', link, ', of which no rule matches'];
    return [rule ? `rule ${rule} of policy ` : 'the default action of policy ', link, by === 'rule_limit' && ', which has no retries left',
        by === 'retry_for' && ', whose time for retries is over'];
}

function burnt({ count: used, limit }) {
    return limit > 0 && h('meter', { class: 'burnt', min: '0', max: limit, value: used, 'aria-label': `Budget burnt: ${used} of ${limit}` });
}

function decision(sample) {
    const event = decisions.get(keyOf(sample.job, sample.run));
    if (event === undefined)
        return [];
    if (!event)
        return ['who decided is not kept any more'];
    return ['decided by ', decider(event), event.limit !== undefined && `: ${number(event.count)} of ${number(event.limit)} retries `,
        burnt(event)].flat().filter(Boolean);
}

function sampleRow({ sample, run }) {
    return h('li', null, run ? h('a', { href: `#/job/${sample.job}`, class: 'mono', 'data-row': true }, shortId(sample.job))
        : h('span', { class: 'mono hint' }, shortId(sample.job)), h('span', { class: 'hint' }, ` run ${sample.run}, ${ago(sample.failed_at)} `),
    run ? h('span', null, run.message, run.reason && h('span', { class: 'hint' }, ` – ${run.reason}`))
        : h('span', { class: 'hint' }, 'the job is gone'),
    h('div', { class: 'hint decision' }, decision(sample)));
}

function sampleList(samples, signal) {
    const list = h('ul', { class: 'plain' }, samples.map(sampleRow));
    readDecisions(samples.map(({ sample }) => sample), signal).then(() => {
        list.querySelectorAll('.decision').forEach((element, i) => {
            if (!element.hasChildNodes())
                element.append(...decision(samples[i].sample));
        });
    }, () => {}); // what the runs say is there all the same
    return list;
}

async function one(id, signal) {
    const group = await get(`/failure-groups/${encodeURIComponent(id)}`, signal);
    const [samples, dead, retry] = await Promise.all([runsOf(group, signal),
        gather({ failure_group: group.group, status: 'dead', order: 'desc' }, { limit: 1, requests: 5, signal }), ofGroup(group.group, signal)]);
    redrawOn({ queue: group.queue, type: group.type }, signal, retry && !isOver(retry) ? { pause: 1000, most: 3000 } : { pause: 2000, most: 30000 });
    return h('section', { class: 'view' }, heading(group.message || kindOf(group) || 'Failure', trend(group), actions(group, dead.jobs)),
        retry && canaryCard(retry, true),
        h('section', { class: 'card', 'aria-labelledby': 'over' }, h('h2', { id: 'over' }, 'Over time'),
            chart(group.per_minute, 'By minute, the last hour'), h('p', { class: 'hint' }, 'by minute, the last hour'),
            chart(group.per_hour, 'By hour, the last week'), h('p', { class: 'hint' }, 'by hour, the last week')),
        h('section', { class: 'card', 'aria-labelledby': 'group' }, h('h2', { id: 'group' }, 'The group'), facts([
            ['queue', h('a', { href: `#/queue/${encodeURIComponent(group.queue)}` }, group.queue)], ['type', group.type],
            ['kind', kindOf(group)], ['culprit', blamed(group)], ['failures', number(group.count)], ['last hour', number(group.last_hour)],
            ['last day', number(group.last_day)], ['first seen', time(group.first_seen)], ['last seen', time(group.last_seen)],
        ], true)),
        h('section', { class: 'card', 'aria-labelledby': 'samples' }, h('h2', { id: 'samples' }, 'Samples, and what was decided'),
            sampleList(samples, signal)));
}

export function failures([id], params, signal) {
    return id ? one(id, signal) : list(params, signal);
}
