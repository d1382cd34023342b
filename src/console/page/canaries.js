// SPDX-License-Identifier: Apache-2.0

// Retries with canaries: some of the dead jobs first, and the rest only if these succeed.

import { act, actionButton, show } from './act.js';
import { change, get, query } from './api.js';
import { empty, facts, h, heading, number, shortId, time } from './dom.js';
import { redrawOn } from './live.js';
import { may } from './rights.js';

const redraw = () => dispatchEvent(new Event('tenax-redraw'));
const linkOf = (retry) => `#/canaries/${retry.id}`;
const STATES = { canary: ['s-in_flight', 'waits for canaries'], rest: ['s-ready', 'retries the rest'], done: ['s-completed', 'done'],
    failed: ['s-dead', 'failed'], stopped: ['s-scheduled', 'stopped'] };
const OUTCOMES = { waiting: 's-ready', succeeded: 's-completed', failed: 's-dead' };

export const isOver = (retry) => retry.ended_at !== null;

const badge = ({ state }) => h('span', { class: `badge ${STATES[state]?.[0] ?? ''}` }, STATES[state]?.[1] ?? state);

// --- begin one ---

// Asks for whole numbers: [{id, label, value, max}] → {id: number}, or null.
export function ask(title, fields) {
    return show(title, (close) => {
        const inputs = fields.map(({ id, value, max }, i) => h('input', { id, type: 'number', min: '1', max: String(max), value: String(value),
            required: true, autofocus: i === 0 }));
        return h('form', { onsubmit: (event) => {
            event.preventDefault();
            close(Object.fromEntries(inputs.map((input) => [input.id, Number(input.value)])));
        } }, fields.map(({ id, label }, i) => [h('label', { for: id }, label), inputs[i]]), h('div', { class: 'buttons' },
            h('button', { type: 'button', class: 'quiet', onclick: () => close(null) }, 'Not now'),
            h('button', { type: 'submit', class: 'primary' }, 'Show the request')));
    });
}

// filter: which dead jobs, as parameters; rate: what is proposed.
export async function retryWithCanaries(filter, rate) {
    const title = 'Retry with canaries';
    const asked = await ask(title, [{ id: 'canary', label: 'How many are canaries', value: 1, max: 100 },
        { id: 'rate', label: 'Of the rest, how many a second become ready', value: rate, max: 1000000 }]);
    if (!asked)
        return;
    const values = { ...filter, ...asked };
    const { count } = await change('POST', `/jobs/retry${query({ ...values, dry_run: 'true' })}`);
    const first = Math.min(asked.canary, count);
    const answer = await act({ title, method: 'POST', path: `/jobs/retry${query(values)}`,
        text: `${number(first)} of ${number(count)} dead jobs become ready again. If each of them succeeds at its next run, the rest follows, ${
            number(asked.rate)} a second; if one fails, the rest stays dead.` });
    if (answer)
        location.hash = linkOf(answer);
}

// --- show one ---

// Which of the canaries has failed, only the reason says.
function outcomeOf(retry, { id, outcome }) {
    if (outcome === 'waiting' && retry.state === 'failed' && retry.reason?.startsWith(`canary ${id}:`))
        return 'failed';
    return outcome === 'waiting' && isOver(retry) ? 'not waited for' : outcome;
}

function restOf(retry) {
    const rate = retry.rate ? `, ${number(retry.rate)} a second` : '';
    const { state, retried } = retry;
    if (state === 'canary')
        return `dead until they have succeeded${rate && `; then retried${rate}`}`;
    if (state === 'rest')
        return `being retried${rate}: ${number(retried)} so far`;
    return state === 'done' ? `${number(retried)} retried` : 'stays dead';
}

function stopButton(retry, key) {
    return retry.state === 'canary' && actionButton('Stop', 'stopCanaryRetry', { method: 'POST', path: `/canary-retries/${retry.id}/stop`,
        text: 'The canaries that were retried stay so; the rest stays dead.', done: redraw }, { danger: true, key });
}

function canaryRow(retry, canary) {
    const outcome = outcomeOf(retry, canary);
    return h('li', null, h('a', { href: `#/job/${canary.id}`, class: 'mono', 'data-row': true, title: canary.id }, shortId(canary.id)), ' ',
        h('span', { class: `badge ${OUTCOMES[outcome] ?? 's-scheduled'}` }, outcome));
}

function body(retry) {
    const good = retry.canaries.filter(({ outcome }) => outcome === 'succeeded').length;
    const jobs = query(Object.fromEntries(new URLSearchParams(retry.filter)));
    return [retry.reason && h('p', { class: 'error' }, retry.reason),
        facts([['canaries', `${number(good)} of ${number(retry.canaries.length)} succeeded`], ['the rest', restOf(retry)],
            ['jobs', h('a', { href: `#/jobs${jobs}` }, h('code', { class: 'wrap' }, retry.filter || 'all'))],
            ['began', time(retry.began_at)], ['ended', isOver(retry) && time(retry.ended_at)],
            ['who', retry.by && `${retry.by.name ?? retry.by.id ?? retry.by.kind}${retry.by.address ? ` from ${retry.by.address}` : ''}`]], true),
        h('ul', { class: 'plain canaries', 'aria-label': 'Canaries' }, retry.canaries.map((canary) => canaryRow(retry, canary)))];
}

export function canaryCard(retry, stops) {
    const id = `canary-${retry.id}`;
    return h('section', { class: 'card', 'aria-labelledby': id }, h('div', { class: 'card-head' },
        h('h2', { id }, h('a', { href: linkOf(retry) }, `Retry with canaries ${retry.id}`)), badge(retry),
        stops && h('div', { class: 'actions' }, stopButton(retry))), body(retry));
}

// --- of a group ---

// The newest of a group of failures; null if there is none, or one may not see it.
export async function ofGroup(group, signal) {
    if (!may('listCanaryRetries'))
        return null;
    const { canary_retries: all } = await get('/canary-retries', signal);
    return all.find(({ filter }) => new URLSearchParams(filter).get('failure_group') === group) ?? null;
}

// --- the view ---

async function list(signal) {
    redrawOn({}, signal, { pause: 2000, most: 5000 });
    const { canary_retries: all } = await get('/canary-retries', signal);
    return h('section', { class: 'view' }, heading('Retries with canaries'), all.length ? all.map((retry) => canaryCard(retry, true))
        : empty('None', 'A group of failures can be retried with canaries.'));
}

async function one(id, signal) {
    const retry = await get(`/canary-retries/${encodeURIComponent(id)}`, signal);
    const group = new URLSearchParams(retry.filter).get('failure_group');
    if (!isOver(retry))
        redrawOn({ job: retry.canaries.map((canary) => canary.id).join(',') }, signal, { pause: 500, most: retry.state === 'rest' ? 1000 : 3000 });
    return h('section', { class: 'view' }, heading(`Retry with canaries ${retry.id}`, badge(retry), h('div', { class: 'actions' },
        stopButton(retry, 'x'), group && h('a', { class: 'button', href: `#/failures/${encodeURIComponent(group)}` }, 'Its failures'))),
    h('section', { class: 'card', 'aria-labelledby': 'far' }, h('h2', { id: 'far' }, 'How far it is'), body(retry)));
}

export function canaries([id], params, signal) {
    return id ? one(id, signal) : list(signal);
}
