// SPDX-License-Identifier: Apache-2.0

// Audit: who changed what.

import { get, query } from './api.js';
import { empty, h, heading, number, retellTimes, time } from './dom.js';
import { inUse, reread } from './live.js';

const KEPT = 1000; // rows, before the view begins anew
const FILTERS = [['actor', 'Actor'], ['operation', 'Operation']];

function actorOf(actor) {
    return h('span', null, actor.name ?? actor.id ?? actor.kind, actor.kind !== actor.name
        && h('span', { class: 'hint' }, ` ${actor.kind}`));
}

function row(entry) {
    return h('tr', null, h('td', { class: 'num' }, String(entry.number)), h('td', { class: 'nowrap' }, time(entry.at)),
        h('td', null, h('a', { href: `#/audit${query({ operation: entry.operation })}` }, entry.operation)),
        h('td', null, actorOf(entry.actor)), h('td', null, entry.address ?? ''),
        h('td', { class: 'why' }, h('code', { class: 'wrap' }, `${entry.path ?? ''}${entry.query ? `?${entry.query}` : ''}`),
            entry.body && h('details', null, h('summary', null, 'Body'), h('pre', { class: 'log', tabindex: '0' }, typeof entry.body
                === 'string' ? entry.body : JSON.stringify(entry.body, null, 2)))),
        h('td', { class: 'num' }, entry.count === undefined ? '' : number(entry.count), entry.finished === false && ' …'));
}

function filters(params) {
    const form = h('form', { class: 'filters', 'aria-label': 'Filters', onsubmit: (event) => {
        event.preventDefault();
        location.hash = `#/audit${query(Object.fromEntries(FILTERS.map(([name]) => [name, form.elements[name].value.trim()])))}`;
    } }, FILTERS.map(([name, label], i) => h('div', { class: 'field' }, h('label', { for: `a-${name}` }, label),
        h('input', { id: `a-${name}`, name, value: params.get(name) ?? '', autocomplete: 'off', 'data-search': i === 0 }))),
    h('button', { type: 'submit', class: 'primary' }, 'Show'));
    return form;
}

// Rows of entries, the newest first. What a row has opened, selected or focused stays: only new
// entries, and those that have changed, are drawn.
function table() {
    const body = h('tbody'), rows = new Map(); // by number: {text, element}
    return { body, rows, add(entries) {
        for (const entry of [...entries].reverse()) {
            const text = JSON.stringify(entry), known = rows.get(entry.number);
            if (known?.text === text)
                continue;
            const element = row(entry);
            if (known)
                known.element.replaceWith(element);
            else
                body.prepend(element);
            rows.set(entry.number, { text, element });
        }
    } };
}

// No event tells of an entry.
function follow(path, { body, rows, add }, signal) {
    reread(async () => {
        const { entries } = await get(path, signal);
        if (rows.size < KEPT && entries.some((entry) => rows.has(entry.number)))
            add(entries);
        else if (entries.length && !inUse())
            dispatchEvent(new Event('tenax-redraw')); // there may be others between these and those
        retellTimes(body);
    }, signal);
}

export async function audit(parts, params, signal) {
    const values = { actor: params.get('actor'), operation: params.get('operation') }, before = params.get('before');
    const path = `/audit${query({ ...values, before, limit: 100 })}`;
    const page = await get(path, signal);
    const shown = table();
    shown.add(page.entries);
    if (!before)
        follow(path, shown, signal);
    return h('section', { class: 'view' }, heading('Audit'), filters(params),
        page.entries.length ? h('div', { class: 'table', role: 'region', 'aria-label': 'Changes', tabindex: '0' }, h('table', null,
            h('thead', null, h('tr', null, ['Number', 'When', 'Operation', 'Who', 'From', 'What', 'Jobs'].map((name) =>
                h('th', { scope: 'col' }, name)))),
            shown.body)) : empty('Nothing was changed', 'What people and programs change, other than jobs’ normal lives, is recorded here.'),
        page.next !== null && h('nav', { class: 'pages', 'aria-label': 'Pages' }, h('span'), h('a', { class: 'button', 'data-page': 'n',
            href: `#/audit${query({ ...values, before: page.next })}` }, 'Older →')));
}
