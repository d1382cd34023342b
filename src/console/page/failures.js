// SPDX-License-Identifier: Apache-2.0

// Failures: groups of those that are alike, over time; retry one as a canary, then the rest.

import { act, actionButton, show } from './act.js';
import { ApiError, change, gather, get, query } from './api.js';
import { redrawOn } from './live.js';
import { UNDO, watched } from './operations.js';
import { ago, count, empty, facts, h, heading, number, shortId, svg, time } from './dom.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));
const RATE = 10; // jobs a second that a retry of the rest lets become ready, unless one says otherwise

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

function trend(group) {
    return h('span', { class: `badge t-${group.trend}` }, group.trend);
}

function card(group) {
    return h('li', { class: 'card failure' },
        h('div', { class: 'failure-text' },
            h('a', { href: linkOf(group), class: 'failure-message', 'data-row': true }, group.message || kindOf(group) || 'no message'),
            h('p', { class: 'hint' }, `${group.queue} · ${group.type}${kindOf(group) ? ` · ${kindOf(group)}` : ''}`)),
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
    const canary = dead[0];
    const filter = query({ failure_group: group.group, status: 'dead' });
    return h('div', { class: 'actions' },
        canary && actionButton('Retry one', { method: 'POST', path: `/jobs/${canary.id}/retry`,
            text: 'One of the dead jobs is tried again, as a canary. Its page follows what becomes of it.',
            done: () => { location.hash = `#/job/${canary.id}`; } }),
        canary && h('button', { type: 'button', class: 'action', 'data-key': 'r', title: 'Retry the rest (r)',
            onclick: () => retryRest(group) }, 'Retry the rest'),
        canary && h('a', { class: 'button', href: `#/jobs${filter}` }, 'Its dead jobs'),
        h('a', { class: 'button', href: `#/policies/new${query({ queue: group.queue, simulate: 1 })}` }, 'Try a policy'));
}

function askRate() {
    return show('Retry the rest', (close) => {
        const rate = h('input', { id: 'rate', type: 'number', min: '1', max: '1000000', value: String(RATE), required: true, autofocus: true });
        return h('form', { onsubmit: (event) => {
            event.preventDefault();
            close(Number(rate.value));
        } }, h('label', { for: 'rate' }, 'How many a second become ready'), rate, h('div', { class: 'buttons' },
            h('button', { type: 'button', class: 'quiet', onclick: () => close(null) }, 'Not now'),
            h('button', { type: 'submit', class: 'primary' }, 'Show the request')));
    });
}

async function retryRest(group) {
    const rate = await askRate();
    if (!rate)
        return;
    const values = { failure_group: group.group, rate };
    const dry = await change('POST', `/jobs/retry${query({ ...values, dry_run: 'true' })}`);
    const answer = await act({ title: 'Retry the rest', method: 'POST', path: `/jobs/retry${query({ ...values, undo: UNDO })}`,
        plain: `/jobs/retry${query(values)}`,
        text: `${number(dry.count)} dead jobs become ready again, ${number(rate)} a second. It can be undone for an hour.`, ...watched });
    if (answer)
        watched.done(answer);
}

// What was decided about the samples that are still there.
async function decisions(group, signal) {
    const seen = await Promise.all(group.samples.map(async (sample) => {
        try {
            const { runs } = await get(`/jobs/${sample.job}/runs?limit=50`, signal);
            return { sample, run: runs.find(({ run }) => run === sample.run) };
        } catch (err) {
            if (err instanceof ApiError)
                return { sample, run: null };
            throw err;
        }
    }));
    return seen;
}

// "retry 2 of 5 by rule 1 of policy infra": how much of the budget is burnt.
function burnt(reason) {
    const [, used, of] = /\b(\d+) of (\d+)\b/.exec(reason ?? '') ?? [];
    return used && Number(of) > 0 && h('meter', { class: 'burnt', min: '0', max: of, value: used, 'aria-label': `Budget burnt: ${used} of ${of}`,
        title: `${used} of ${of}` });
}

function sampleRow({ sample, run }) {
    return h('li', null, run ? h('a', { href: `#/job/${sample.job}`, class: 'mono', 'data-row': true }, shortId(sample.job))
        : h('span', { class: 'mono hint' }, shortId(sample.job)), h('span', { class: 'hint' }, ` run ${sample.run}, ${ago(sample.failed_at)} `),
    run ? h('span', null, run.message, run.reason && h('span', { class: 'hint' }, ` – ${run.reason} `), burnt(run.reason))
        : h('span', { class: 'hint' }, 'the job is gone'));
}

async function one(id, signal) {
    const group = await get(`/failure-groups/${encodeURIComponent(id)}`, signal);
    redrawOn({ queue: group.queue, type: group.type }, signal, { pause: 2000, most: 30000 });
    const [samples, dead] = await Promise.all([decisions(group, signal),
        gather({ failure_group: group.group, status: 'dead', order: 'desc' }, { limit: 1, requests: 5, signal })]);
    return h('section', { class: 'view' }, heading(group.message || kindOf(group) || 'Failure', trend(group), actions(group, dead.jobs)),
        h('section', { class: 'card', 'aria-labelledby': 'over' }, h('h2', { id: 'over' }, 'Over time'),
            chart(group.per_minute, 'By minute, the last hour'), h('p', { class: 'hint' }, 'by minute, the last hour'),
            chart(group.per_hour, 'By hour, the last week'), h('p', { class: 'hint' }, 'by hour, the last week')),
        h('section', { class: 'card', 'aria-labelledby': 'group' }, h('h2', { id: 'group' }, 'The group'), facts([
            ['queue', h('a', { href: `#/queue/${encodeURIComponent(group.queue)}` }, group.queue)], ['type', group.type],
            ['kind', kindOf(group)], ['failures', number(group.count)], ['last hour', number(group.last_hour)],
            ['last day', number(group.last_day)], ['first seen', time(group.first_seen)], ['last seen', time(group.last_seen)],
        ], true)),
        h('section', { class: 'card', 'aria-labelledby': 'samples' }, h('h2', { id: 'samples' }, 'Samples, and what was decided'),
            h('ul', { class: 'plain' }, samples.map(sampleRow))));
}

export function failures([id], params, signal) {
    return id ? one(id, signal) : list(params, signal);
}
