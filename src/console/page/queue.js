// SPDX-License-Identifier: Apache-2.0

// One queue: its counts and limits, and why nothing moves.

import { actionButton } from './act.js';
import { gather, get, query } from './api.js';
import { STATUSES, count, duration, empty, facts, h, heading, number, statusName, time, warningList } from './dom.js';
import { redrawOn } from './live.js';
import { limitsOf } from './now.js';
import { UNDO, UNDOABLE, watched } from './operations.js';
import { jobTable } from './jobs.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));

export function reasonList(backlog) {
    const most = Math.max(1, ...backlog.waits_for.map(({ jobs }) => jobs));
    if (backlog.waits_for.length === 0)
        return empty('Nothing waits here');
    return h('ul', { class: 'reasons' }, backlog.waits_for.map((r) => {
        const bar = h('span', { class: `reason-bar k-${r.kind}`, 'aria-hidden': 'true' });
        bar.style.width = `${Math.max(1, (100 * r.jobs) / most)}%`;
        return h('li', null, bar, h('span', { class: 'reason-kind' }, r.kind.replaceAll('_', ' ')),
            h('span', { class: 'reason-text' }, r.reason), r.until && h('span', { class: 'reason-until' }, 'until ',
                time(r.until)));
    }));
}

function actions(q) {
    const path = `/queues/${encodeURIComponent(q.name)}`;
    return h('div', { class: 'actions' },
        actionButton(q.paused ? 'Resume the queue' : 'Pause the queue', 'patchQueue', { method: 'PATCH', path,
            body: { paused: !q.paused }, text: q.paused ? `Jobs of ${q.name} are handed out again.`
                : `Jobs of ${q.name} wait until it is resumed; those in flight go on.`, done: redraw }, { key: 's' }),
        q.jobs.dead > 0 && actionButton('Retry dead jobs', 'retryJobs', { method: 'POST',
            path: `/jobs/retry${query({ queue: q.name, rate: 10, undo: UNDO })}`, plain: `/jobs/retry${query({ queue: q.name, rate: 10 })}`,
            text: `${number(q.jobs.dead)} dead jobs become ready again, ten a second. ${UNDOABLE}`, ...watched() },
        { key: 'r' }));
}

export async function queue([name], params, signal) {
    redrawOn({ queue: name }, signal, { pause: 1500 });
    const [q, why, dead] = await Promise.all([get(`/queues/${encodeURIComponent(name)}`, signal),
        get(`/explain${query({ queue: name })}`, signal),
        gather({ queue: name, status: 'dead', order: 'desc' }, { limit: 10, requests: 3, signal })]);
    const backlog = why.queues[0];
    return h('section', { class: 'view' }, heading(name, actions(q)),
        h('ul', { class: 'totals', 'aria-label': 'Jobs' }, STATUSES.map((status) =>
            h('li', { class: `total s-${status}` }, h('a', { href: `#/jobs${query({ queue: name, status })}` },
                h('span', { class: 'total-value' }, count(q.jobs[status])),
                h('span', { class: 'total-name' }, statusName(status)))))),
        h('section', { class: 'card', 'aria-labelledby': 'why' }, h('h2', { id: 'why' }, 'What its jobs wait for'),
            reasonList(backlog)),
        h('section', { class: 'card', 'aria-labelledby': 'set' }, h('h2', { id: 'set' }, 'The queue'), facts([
            ['limits', limitsOf(q) || 'none'],
            ['workers', `${number(backlog.workers.asking)} ask for its jobs, ${number(backlog.workers.with_room)} with room; ${number(backlog.workers.busy)} busy with ${number(backlog.workers.in_flight)} of them`],
            ['oldest ready', q.oldest_ready_age_ms === null ? 'none' : duration(q.oldest_ready_age_ms)],
            ['retry policies', q.retry_policies.join(', ')],
            ['warnings', warningList(q.warnings)],
            ['retry limit', q.retry_limit === null ? 'the server’s' : String(q.retry_limit)],
        ])),
        dead.jobs.length > 0 && h('section', { class: 'card', 'aria-labelledby': 'dead' },
            h('h2', { id: 'dead' }, 'Its newest dead jobs'), jobTable(dead.jobs)));
}
