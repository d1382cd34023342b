// SPDX-License-Identifier: Apache-2.0

// Crons: which entries there are, when they tick next, and when they did last.

import { actionButton } from './act.js';
import { get } from './api.js';
import { redrawOn } from './live.js';
import { may } from './rights.js';
import { ago, clock, empty, h, heading } from './dom.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));
const LATE_MS = 5000;

function nextTick(group, entry) {
    if (group.paused || entry.paused)
        return h('span', { class: 'badge s-scheduled' }, 'paused');
    const late = entry.next_enqueue_at < Date.now() - LATE_MS;
    return h('span', { class: late ? 'late' : '' }, `${clock(entry.next_enqueue_at)} (${ago(entry.next_enqueue_at)})`,
        late && ' overdue');
}

// Tasks of Taskcluster's are made there, but by operators.
const mayEnqueue = (job) => job.type !== 'taskcluster-task' || may('patchCronEntry');

function entryRow(group, entry) {
    const path = `/crons/${encodeURIComponent(group.name)}/entries/${encodeURIComponent(entry.name)}`;
    return h('tr', null,
        h('td', null, h('strong', null, entry.name)),
        h('td', null, h('code', null, entry.expression), entry.timezone && h('span', { class: 'hint' }, ` ${entry.timezone}`)),
        h('td', { class: 'nowrap' }, nextTick(group, entry)),
        h('td', { class: 'nowrap' }, entry.last_enqueue_at ? `${clock(entry.last_enqueue_at)} (${ago(entry.last_enqueue_at)})` : 'never'),
        h('td', null, h('a', { href: `#/queue/${encodeURIComponent(entry.job.queue)}` }, entry.job.queue),
            h('div', { class: 'hint' }, entry.job.type)),
        h('td', { class: 'acts' }, h('div', { class: 'actions' },
            mayEnqueue(entry.job) && actionButton('Run now', 'enqueueJob', { method: 'POST', path: '/jobs', body: entry.job,
                text: `Enqueues the job of ${entry.name} once; its clock goes on as it is.`, done: redraw }),
            actionButton(entry.paused ? 'Resume' : 'Pause', 'patchCronEntry', { method: 'PATCH', path, body: { paused: !entry.paused },
                done: redraw }))));
}

function groupCard(group) {
    const path = `/crons/${encodeURIComponent(group.name)}`;
    return h('section', { class: 'card', 'aria-label': group.name },
        h('div', { class: 'card-head' }, h('h2', null, group.name), group.timezone && h('span', { class: 'hint' }, group.timezone),
            group.paused && h('span', { class: 'badge s-scheduled' }, 'paused'), h('div', { class: 'actions' },
                actionButton(group.paused ? 'Resume the group' : 'Pause the group', 'patchCronGroup', { method: 'PATCH', path,
                    body: { paused: !group.paused }, done: redraw }))),
        h('div', { class: 'table', role: 'region', 'aria-label': `Entries of ${group.name}`, tabindex: '0' }, h('table', null,
            h('thead', null, h('tr', null, ['Entry', 'When', 'Next tick', 'Last tick', 'Enqueues', 'Actions'].map((name) =>
                h('th', { scope: 'col', class: name === 'Actions' ? 'acts' : null }, name)))),
            h('tbody', null, group.entries.map((entry) => entryRow(group, entry))))));
}

export async function crons(parts, params, signal) {
    redrawOn({ event: 'job_enqueued' }, signal, { pause: 2000, most: 10000 });
    const { crons: names } = await get('/crons', signal);
    const groups = await Promise.all(names.map((name) => get(`/crons/${encodeURIComponent(name)}`, signal)));
    return h('section', { class: 'view' }, heading('Crons'), groups.length ? groups.map(groupCard)
        : empty('No crons', 'PUT /crons/{group} makes some; docs/cron.md shows how.'));
}
