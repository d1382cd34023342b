// SPDX-License-Identifier: Apache-2.0

// Events: what happens, live or from any number on.

import { isAway, query, stream } from './api.js';
import { comesBack } from './live.js';
import { clock, h, heading, number, setText, shortId } from './dom.js';

const KEPT = 500;   // lines on the page
const DRAW_MS = 100;

function line(event) {
    if (event.event === 'gap')
        return h('li', { class: 'event gap' }, event.to
            ? `Events ${number(event.from)} to ${number(event.to)} are not kept any more.` : event.reason);
    return h('li', { class: 'event' },
        h('span', { class: 'event-number' }, `${event.number}`),
        h('time', { class: 'event-at', datetime: new Date(event.at).toISOString() }, clock(event.at)),
        h('span', { class: `event-name e-${event.event}` }, event.event.replace('job_', '')),
        event.id ? h('a', { href: `#/job/${event.id}`, class: 'mono', 'data-row': true, title: event.id }, shortId(event.id))
            : h('span', null, event.group ?? ''),
        h('span', { class: 'event-queue' }, event.queue ?? ''),
        h('span', { class: 'event-reason' }, event.reason ?? event.worker ?? ''));
}

function controls(params) {
    const field = (name, label, more) => h('div', { class: 'field' }, h('label', { for: `e-${name}` }, label),
        h('input', { id: `e-${name}`, name, value: params.get(name) ?? '', autocomplete: 'off', ...more }));
    const form = h('form', { class: 'filters', 'aria-label': 'Which events', onsubmit: (event) => {
        event.preventDefault();
        location.hash = `#/events${query(Object.fromEntries(['since', 'queue', 'type', 'event'].map((name) =>
            [name, form.elements[name].value.trim()])))}`;
    } }, field('since', 'After number', { placeholder: 'now', pattern: '([0-9a-f]{16}-)?[0-9]+' }),
    field('queue', 'Queue', { 'data-search': true }), field('type', 'Type'), field('event', 'Kind', { placeholder: 'job_dead' }),
    h('button', { type: 'submit', class: 'primary' }, 'Replay'));
    return form;
}

export async function events(parts, params, signal) {
    const list = h('ol', { class: 'events', 'aria-label': 'Events, the newest first' });
    const state = h('p', { class: 'hint', role: 'status' }, 'waiting for events');
    const pause = h('button', { type: 'button', class: 'quiet', 'aria-pressed': 'false' }, 'Hold');
    let waiting = [], held = false, seen = 0, timer = null;

    const draw = () => {
        timer = null;
        if (held)
            return;
        const lines = waiting.slice(-KEPT).reverse().map(line);
        waiting = [];
        list.prepend(...lines);
        while (list.childElementCount > KEPT)
            list.lastElementChild.remove();
        setText(state, `${number(seen)} ${seen === 1 ? 'event' : 'events'}`);
    };
    let since = params.get('since'); // where the stream goes on after the server was away
    const onEvent = (event) => {
        since = event.cursor ?? since;
        seen++;
        waiting.push(event);
        if (waiting.length > 2 * KEPT)
            waiting = waiting.slice(-KEPT);
        timer ??= setTimeout(draw, DRAW_MS);
    };
    pause.addEventListener('click', () => {
        held = !held;
        pause.setAttribute('aria-pressed', String(held));
        setText(pause, held ? 'Go on' : 'Hold');
        if (!held)
            draw();
    });
    const follow = async () => {
        for (;;) {
            const filter = { queue: params.get('queue'), type: params.get('type'), event: params.get('event') };
            const err = await stream(`/events${query({ since, ...filter })}`, onEvent, signal).catch((why) => why);
            if (signal.aborted)
                return;
            setText(state, `the stream has ended${err ? `: ${err.message}` : ''}`);
            if (err && !isAway(err))
                return;
            await comesBack(signal);
        }
    };
    follow();
    return h('section', { class: 'view' }, heading('Events'), controls(params), h('div', { class: 'row' }, state, pause),
        list);
}
