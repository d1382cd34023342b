// SPDX-License-Identifier: Apache-2.0

// Jobs: a list by filters, page by page.

import { actionButton } from './act.js';
import { change, gather, query } from './api.js';
import { UNDO, UNDOABLE, watched } from './operations.js';
import { redrawOn } from './live.js';
import { hasRight } from './rights.js';
import { STATUSES, ago, badge, empty, enqueuedAt, h, heading, number, setText, shortId, statusName } from './dom.js';

const FILTERS = ['queue', 'type', 'status', 'resolution', 'error', 'worker', 'failure_group', 'filter'];
const LIMIT = 50; // jobs of a page

function newest(job) {
    const at = job.completed_at ?? job.failed_at ?? job.dequeued_at ?? enqueuedAt(job.id);
    return ago(at);
}

export function jobTable(jobs) {
    return h('div', { class: 'table', role: 'region', 'aria-label': 'Jobs', tabindex: '0' }, h('table', null,
        h('thead', null, h('tr', null, ['Job', 'Status', 'Queue', 'Type', 'Attempts', 'Last', 'Why'].map((name) =>
            h('th', { scope: 'col', class: name === 'Attempts' ? 'num' : null }, name)))),
        h('tbody', null, jobs.map((job) => h('tr', null,
            h('td', null, h('a', { href: `#/job/${job.id}`, class: 'mono', 'data-row': true, title: job.id },
                shortId(job.id))),
            h('td', null, badge(job.status)),
            h('td', null, h('a', { href: `#/queue/${encodeURIComponent(job.queue)}` }, job.queue)),
            h('td', null, job.type),
            h('td', { class: 'num' }, String(job.attempts)),
            h('td', { class: 'nowrap' }, newest(job)),
            h('td', { class: 'why' }, job.reason ?? ''))))));
}

function filters(params) {
    const goTo = (values) => { location.hash = `#/jobs${query(values)}`; };
    const valueOf = (form) => Object.fromEntries(FILTERS.map((name) => [name, form.elements[name]?.value ?? '']));
    const field = (name, label, more) => h('div', { class: 'field' }, h('label', { for: `f-${name}` }, label),
        h('input', { id: `f-${name}`, name, value: params.get(name) ?? '', autocomplete: 'off', ...more }));
    const status = h('select', { id: 'f-status', name: 'status' }, h('option', { value: '' }, 'any'),
        STATUSES.map((name) => h('option', { value: name, selected: params.get('status') === name }, statusName(name))));
    const form = h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (event) => {
        event.preventDefault();
        goTo(valueOf(form));
    } }, field('queue', 'Queue', { 'data-search': true }), field('type', 'Type'),
    h('div', { class: 'field' }, h('label', { for: 'f-status' }, 'Status'), status),
    field('resolution', 'Resolution'), field('error', 'Error'), field('worker', 'Worker'),
    hasRight('payloads') && field('filter', 'Payload (jq)', { placeholder: '.to == "ada"' }),
    h('button', { type: 'submit', class: 'primary' }, 'Show'));
    status.addEventListener('change', () => goTo(valueOf(form)));
    return form;
}

// An action on all jobs of the filters: how many those are is asked first.
function bulk(label, needs, verb, method, path, values, options) {
    return actionButton(label, needs, async () => {
        const target = `${path}${query({ ...values, undo: UNDO })}`;
        const dry = await change(method, `${path}${query({ ...values, dry_run: 'true' })}`);
        return { method, path: target, plain: `${path}${query(values)}`, text: `${number(dry.count)} ${dry.count === 1 ? 'job' : 'jobs'} would be ${verb}. ${UNDOABLE}`,
            ...watched() };
    }, options);
}

function actions(values) {
    const { status } = values;
    return h('div', { class: 'actions' },
        (!status || status === 'dead') && bulk('Retry all', 'retryJobs', 'retried', 'POST', '/jobs/retry', { ...values, status: '' },
            { key: 'r' }),
        status !== 'dead' && status !== 'completed' && bulk('Cancel all', 'cancelJobs', 'canceled', 'POST', '/jobs/cancel', values,
            { key: 'c', danger: true }),
        bulk('Delete all', 'deleteJobs', 'deleted', 'DELETE', '/jobs', values, { key: 'd', danger: true }));
}

function turn(label, values, place) {
    return place ? h('a', { class: 'button', href: `#/jobs${query({ ...values, ...place })}`, 'data-page': label.startsWith('←') ? 'p' : 'n' },
        label) : h('span', { class: 'button off', 'aria-disabled': 'true' }, label);
}

const SOON_MS = 400; // after that the page is shown while it is still being looked for

// The jobs of the list, filled in as they are found: {element, begun, filled}.
function results(values, place, signal) {
    const stop = new AbortController();
    signal.addEventListener('abort', () => stop.abort());
    const element = h('div', { class: 'results' });
    const text = h('span');
    const looking = h('p', { class: 'hint looking', role: 'status' }, text, h('button', { type: 'button', class: 'quiet small',
        onclick: () => stop.abort() }, 'Stop'));
    let shown = -1;
    const show = ({ jobs, looked }, over) => {
        setText(text, `${jobs.length ? `${number(jobs.length)} found` : 'None'} among ${number(looked)} jobs so far. `);
        if (jobs.length === shown && !over)
            return;
        shown = jobs.length;
        // Newest first, whichever way the list was read.
        const list = place.order === 'asc' ? [...jobs].reverse() : jobs;
        element.replaceChildren(...[list.length > 0 && jobTable(list), !over && looking].filter(Boolean));
    };
    const end = ({ jobs, prev, next }) => {
        const [newer, older] = place.order === 'asc' ? [next, prev] : [prev, next];
        element.append(jobs.length ? '' : empty('No job matches', 'Jobs that have ended are kept for as long as their retention says.'),
            h('nav', { class: 'pages', 'aria-label': 'Pages' }, turn('← Newer', values, newer), turn('Older →', values, older)));
    };
    let newest = { jobs: [], looked: 0, prev: null, next: null }, begin;
    const begun = new Promise((resolve) => { begin = resolve; });
    const filled = gather({ ...values, ...place }, { limit: LIMIT, signal: stop.signal, tell: (found) => {
        show(newest = found, false);
        begin();
    } })
        .catch((err) => {
            if (err.name !== 'AbortError' || signal.aborted)
                throw err;
            return newest; // it was stopped; the rest can be had by its link
        }).then((found) => {
            show(found, true);
            end(found);
        });
    return { element, begun, filled };
}

export async function jobs(parts, params, signal) {
    const values = Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? '']));
    const place = { from: params.get('from'), order: params.get('order') ?? 'desc' };
    const { element, begun, filled } = results(values, place, signal);
    await Promise.race([filled, begun.then(() => new Promise((resolve) => { setTimeout(resolve, SOON_MS); }))]);
    filled.catch((err) => {
        if (err.name !== 'AbortError')
            element.replaceChildren(h('p', { class: 'error', role: 'alert' }, err.message));
    });
    const follow = { queue: values.queue, type: values.type };
    if (!place.from)
        filled.then(() => redrawOn(follow, signal, { pause: 2000, most: 30000 }), () => {});
    const title = values.status ? `Jobs: ${statusName(values.status)}` : 'Jobs';
    return h('section', { class: 'view' }, heading(title, actions(values)), filters(params), element);
}
