// SPDX-License-Identifier: Apache-2.0

// Operations: changes of many jobs, how far they are; stopping one, and undoing one.

import { actionButton } from './act.js';
import { get, query } from './api.js';
import { duration, empty, facts, h, heading, number, time } from './dom.js';
import { redrawOn } from './live.js';

// For how long changes that the console makes can be undone.
export const UNDO = '1h';
export const UNDOABLE = 'It can be undone for an hour.';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));
const STATES = { running: 's-in_flight', done: 's-completed', stopped: 's-scheduled', failed: 's-dead' };
const UNDO_STATES = { available: 'can be undone', running: 'is being undone', done: 'undone', expired: 'no more' };

function who(by) {
    return by ? `${by.name ?? by.id ?? by.kind}${by.address ? ` from ${by.address}` : ''}` : '';
}

function what(op) {
    const { by } = op;
    return op.of ? h('span', null, 'undoes ', h('a', { href: `#/operations/${op.of}` }, String(op.of)))
        : h('code', { class: 'wrap' }, by ? `${by.path ?? ''}${by.query ? `?${by.query}` : ''}` : '');
}

function actions(op) {
    const path = `/operations/${op.id}`;
    return h('div', { class: 'actions' },
        op.state === 'running' && actionButton('Stop', 'stopOperation', { method: 'POST', path: `${path}/stop`,
            text: `It ends where it is: ${number(op.changed)} jobs so far stay changed.`, done: redraw }, { key: 'x', danger: true }),
        op.undo?.state === 'available' && op.state !== 'running' && actionButton('Undo', 'undoOperation', { method: 'POST', path: `${path}/undo`,
            text: `What it did to ${number(op.changed)} jobs is taken back, but for those that have gone on since.`, done: redraw,
            slow: redraw }, { key: 'u' }));
}

function undoOf(op) {
    return op.undo ? h('span', null, UNDO_STATES[op.undo.state] ?? op.undo.state,
        op.undo.state === 'available' && op.undo.until && h('span', { class: 'hint' }, ' until ', time(op.undo.until))) : '';
}

const took = (op) => duration((op.ended_at ?? Date.now()) - op.began_at);

function row(op) {
    return h('tr', null,
        h('td', { class: 'num' }, h('a', { href: `#/operations/${op.id}`, 'data-row': true }, String(op.id))),
        h('td', null, h('strong', null, op.kind)), h('td', null, h('span', { class: `badge ${STATES[op.state]}` }, op.state)),
        h('td', { class: 'num' }, number(op.changed)), h('td', { class: 'num' }, number(op.looked_at)),
        h('td', { class: 'nowrap' }, time(op.began_at), h('div', { class: 'hint' }, op.state === 'running' ? `for ${took(op)}` : took(op))),
        h('td', null, who(op.by)), h('td', { class: 'why' }, what(op)), h('td', null, undoOf(op)), h('td', { class: 'acts' }, actions(op)));
}

const HEADS = ['Number', 'Kind', 'State', 'Changed', 'Looked at', 'Began', 'Who', 'What', 'Undo', 'Actions'];
const CLASSES = { Number: 'num', Changed: 'num', 'Looked at': 'num', Actions: 'acts' };

async function list(signal) {
    redrawOn({}, signal, { pause: 1000, most: 2000 });
    const { operations } = await get('/operations', signal);
    return h('section', { class: 'view' }, heading('Operations'), operations.length
        ? h('div', { class: 'table', role: 'region', 'aria-label': 'Operations', tabindex: '0' }, h('table', null,
            h('thead', null, h('tr', null, HEADS.map((name) => h('th', { scope: 'col', class: CLASSES[name] }, name)))),
            h('tbody', null, operations.map(row))))
        : empty('No operations', 'Changes of many jobs are listed here while they go on, and afterwards.'));
}

function undoCard({ undo }) {
    return h('section', { class: 'card', 'aria-labelledby': 'undo' }, h('h2', { id: 'undo' }, 'Undo'), facts([
        ['state', UNDO_STATES[undo.state] ?? undo.state], ['until', undo.until && time(undo.until)],
        ['undone', number(undo.undone)], ['left as they are', number(undo.not_undone)],
        ['kept for it', `${number(undo.bytes)} bytes`]], true),
    undo.reasons?.length > 0 && h('ul', { class: 'plain' }, undo.reasons.map(({ reason, jobs }) =>
        h('li', null, `${number(jobs)}: ${reason.replaceAll('_', ' ')}`))));
}

// How far it is: of how many is not known before it ends.
function progress(op) {
    return op.state === 'running' ? h('progress', { 'aria-label': 'Progress' }) : h('progress', { max: '1', value: op.state === 'done' ? '1' : '0.5',
        'aria-label': `Progress: ${op.state}` });
}

async function one(id, signal) {
    const op = await get(`/operations/${encodeURIComponent(id)}`, signal);
    redrawOn({}, signal, op.state === 'running' || op.undo?.state === 'running' ? { pause: 500, most: 500 } : { pause: 2000, most: 5000 });
    const jobs = op.by?.query && new URLSearchParams(op.by.query);
    for (const name of ['rate', 'undo', 'dry_run', 'status'])
        jobs?.delete(name);
    return h('section', { class: 'view' }, heading(`Operation ${op.id}: ${op.kind}`, h('span', { class: `badge ${STATES[op.state]}` }, op.state),
        actions(op)),
    h('section', { class: 'card', 'aria-labelledby': 'far' }, h('h2', { id: 'far' }, 'How far it is'), progress(op), facts([
        ['changed', number(op.changed)], ['looked at', number(op.looked_at)], ['began', time(op.began_at)], ['ended', op.ended_at && time(op.ended_at)],
        ['took', took(op)], ['who', who(op.by)], ['what', what(op)],
        ['jobs', jobs && op.kind !== 'delete' && h('a', { href: `#/jobs${query(Object.fromEntries(jobs))}` }, 'those of its filters')]], true)),
    op.undo && undoCard(op));
}

export function operations([id], params, signal) {
    return id ? one(id, signal) : list(signal);
}

// What to do when a change of many jobs is over, or takes longer: its operation is shown. Whoever may begin one may see it.
export function watched() {
    return { done: (answer) => { location.hash = answer.operation ? `#/operations/${answer.operation}` : '#/operations'; },
        slow: () => { location.hash = '#/operations'; } };
}
