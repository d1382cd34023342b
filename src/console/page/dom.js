// SPDX-License-Identifier: Apache-2.0

// Elements, and values as people read them.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name.startsWith('on'))
            element.addEventListener(name.slice(2), value);
        else
            element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}

// h('a', { href }, 'text', h('b', …)): null and false among attributes and children are left out.
export function h(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Sets the text only if it differs: an element that stays as it is costs no layout.
export function setText(element, text) {
    if (element.textContent !== text)
        element.textContent = text;
}

export const STATUSES = ['blocked', 'scheduled', 'ready', 'in_flight', 'completed', 'dead'];

const NAMES = { in_flight: 'in flight' };
export const statusName = (status) => NAMES[status] ?? status;

export function badge(status) {
    return h('span', { class: `badge s-${status}` }, statusName(status));
}

// Warnings that stand, if there are any.
export const warningList = (texts) => texts?.length > 0 && h('ul', { class: 'warnings' }, texts.map((text) => h('li', null, text)));

const exact = new Intl.NumberFormat('en');

// 1,234; 12.3k; 4.5M
export function count(n) {
    if (n < 10000)
        return exact.format(n);
    return n < 1e6 ? `${(n / 1000).toFixed(n < 1e5 ? 1 : 0)}k` : `${(n / 1e6).toFixed(n < 1e8 ? 1 : 0)}M`;
}

export const number = (n) => exact.format(n);

const UNITS = [['d', 86400000], ['h', 3600000], ['m', 60000], ['s', 1000]];

// "3d 4h", "2m 5s", "1.3s", "40ms"
export function duration(ms) {
    if (ms < 1000)
        return `${Math.max(0, Math.round(ms))}ms`;
    if (ms < 10000)
        return `${(ms / 1000).toFixed(1).replace('.0', '')}s`;
    for (let i = 0; i < UNITS.length; i++) {
        const [unit, size] = UNITS[i];
        if (ms < size)
            continue;
        const rest = UNITS[i + 1] && Math.floor((ms % size) / UNITS[i + 1][1]);
        return `${Math.floor(ms / size)}${unit}${rest ? ` ${rest}${UNITS[i + 1][0]}` : ''}`;
    }
    return '0s';
}

export function ago(at, now = Date.now()) {
    const ms = now - at;
    return ms >= 0 ? `${duration(ms)} ago` : `in ${duration(-ms)}`;
}

const pad = (n, width = 2) => String(n).padStart(width, '0');

// Local time, with the date unless it is today's.
export function clock(at) {
    const d = new Date(at);
    const time = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
    return d.toDateString() === new Date().toDateString() ? time
        : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${time}`;
}

export function time(at) {
    if (at === null || at === undefined)
        return '–';
    return h('time', { datetime: new Date(at).toISOString(), title: new Date(at).toISOString() },
        `${clock(at)} (${ago(at)})`);
}

// Says of each time in there anew how long ago it was.
export function retellTimes(element) {
    for (const one of element.querySelectorAll('time[title]')) {
        const at = Date.parse(one.dateTime);
        setText(one, `${clock(at)} (${ago(at)})`);
    }
}

// When a job was enqueued: its id begins with that, in milliseconds.
export function enqueuedAt(id) {
    let value = 0n;
    for (const digit of id)
        value = value * 36n + BigInt(parseInt(digit, 36));
    return Number(value >> 80n);
}

export const shortId = (id) => `${id.slice(0, 4)}…${id.slice(-6)}`;

export function facts(rows, wide) {
    return h('dl', { class: wide ? 'facts wide' : 'facts' }, rows.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '')
        .map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

export function empty(title, text) {
    return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), text && h('p', null, text));
}

export function heading(title, ...more) {
    return h('div', { class: 'heading' }, h('h1', { tabindex: '-1' }, title), ...more);
}

// Tells it to people who hear the page instead of seeing it.
export function announce(text) {
    setText(document.getElementById('live'), text);
}
