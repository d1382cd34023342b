// SPDX-License-Identifier: Apache-2.0

// Workers: who works, what they hold; making one quiet, stopping one.

import { actionButton } from './act.js';
import { get, query } from './api.js';
import { redrawOn } from './live.js';
import { ago, empty, h, heading, number } from './dom.js';

const REFRESH_MS = 3000; // when a worker was seen last is no event
const redraw = () => dispatchEvent(new Event('tenax-redraw'));

function actions(worker) {
    const path = `/workers/${encodeURIComponent(worker.name)}`;
    return h('div', { class: 'actions' },
        actionButton(worker.quiet ? 'Resume' : 'Quiet', worker.quiet ? 'resumeWorker' : 'quietWorker', { method: 'POST', path: `${path}/${worker.quiet ? 'resume' : 'quiet'}`,
            text: worker.quiet ? `${worker.name} is given jobs again.` : `${worker.name} finishes what it has, and is given nothing more.`,
            done: redraw }),
        actionButton('Stop', 'stopWorker', { method: 'POST', path: `${path}/stop`,
            text: `${worker.name} is given nothing more, and its ${number(worker.in_flight)} jobs go back to their queues.`,
            done: redraw }, { danger: true }));
}

function row(worker) {
    return h('tr', null,
        h('td', null, h('strong', null, worker.name), worker.node && h('div', { class: 'hint' }, worker.node)),
        h('td', null, worker.quiet ? h('span', { class: 'badge s-scheduled' }, 'quiet')
            : h('span', { class: `badge ${worker.in_flight ? 's-in_flight' : 's-completed'}` }, worker.in_flight ? 'working' : 'waiting')),
        h('td', { class: 'num' }, h('a', { href: `#/jobs${query({ worker: worker.name, status: 'in_flight' })}`, 'data-row': true },
            number(worker.in_flight))),
        h('td', null, worker.queues.length ? worker.queues.map((name, i) => [i > 0 && ', ',
            h('a', { href: `#/queue/${encodeURIComponent(name)}` }, name)]) : 'all'),
        h('td', { class: 'nowrap' }, worker.last_seen === null ? 'not since the start' : ago(worker.last_seen)),
        h('td', { class: 'nowrap' }, worker.since === null ? '–' : ago(worker.since)),
        h('td', null, worker.address ?? '', worker.version && h('div', { class: 'hint' }, worker.version)),
        h('td', { class: 'acts' }, actions(worker)));
}

export async function workers(parts, params, signal) {
    const page = await get(`/workers${query({ limit: 100, after: params.get('after') })}`, signal);
    const after = page.next && new URLSearchParams(page.next.split('?')[1]).get('after');
    redrawOn({ event: 'job_taken,job_completed,job_returned,job_requeued,job_dead' }, signal, { pause: 1000, most: REFRESH_MS });
    return h('section', { class: 'view' }, heading('Workers'),
        page.workers.length ? h('div', { class: 'table', role: 'region', 'aria-label': 'Workers', tabindex: '0' }, h('table', null,
            h('thead', null, h('tr', null, ['Worker', 'State', 'In flight', 'Queues', 'Last seen', 'Since', 'From', 'Actions'].map((name) =>
                h('th', { scope: 'col', class: { 'In flight': 'num', Actions: 'acts' }[name] }, name)))),
            h('tbody', null, page.workers.map(row)))) : empty('No workers', 'A worker is known by its name from when it first asks for jobs: tenax work --queue mail -- ./send-mail'),
        after && h('nav', { class: 'pages', 'aria-label': 'Pages' }, h('span'),
            h('a', { class: 'button', 'data-page': 'n', href: `#/workers${query({ after })}` }, 'More →')));
}
