// SPDX-License-Identifier: Apache-2.0

// Audit: who changed what.

import { get, query } from './api.js';
import { empty, h, heading, number, time } from './dom.js';

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

export async function audit(parts, params, signal) {
    const values = { actor: params.get('actor'), operation: params.get('operation') };
    const page = await get(`/audit${query({ ...values, before: params.get('before'), limit: 100 })}`, signal);
    return h('section', { class: 'view' }, heading('Audit'), filters(params),
        page.entries.length ? h('div', { class: 'table', role: 'region', 'aria-label': 'Changes', tabindex: '0' }, h('table', null,
            h('thead', null, h('tr', null, ['Number', 'When', 'Operation', 'Who', 'From', 'What', 'Jobs'].map((name) =>
                h('th', { scope: 'col' }, name)))),
            h('tbody', null, page.entries.map(row)))) : empty('Nothing was changed', 'What people and programs change, other than jobs’ normal lives, is recorded here.'),
        page.next !== null && h('nav', { class: 'pages', 'aria-label': 'Pages' }, h('span'), h('a', { class: 'button', 'data-page': 'n',
            href: `#/audit${query({ ...values, before: page.next })}` }, 'Older →')));
}
