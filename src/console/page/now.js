// SPDX-License-Identifier: Apache-2.0

// Now: a lane for each queue, and why nothing moves.

import { get, getText, pages, query } from './api.js';
import { STATUSES, count, duration, empty, h, heading, setText, statusName } from './dom.js';
import { lanes } from './lanes.js';
import { happens } from './live.js';
import { limits, may, whyNot } from './rights.js';

const PERIOD_MS = 2000; // at least between two looks
const SWEEP_MS = 15000; // between looks at all queues, where they are many
const FEW = 200;        // queues of which all are asked for each time
const LIVE = ['blocked', 'scheduled', 'ready', 'in_flight', 'dead'];

const waitingOf = (q) => q.jobs.blocked + q.jobs.scheduled + q.jobs.ready;

// "paused · 20 at once · 2 per key · 100 per 1s"
export function limitsOf(q) {
    const parts = [];
    if (q.paused)
        parts.push('paused');
    if (q.concurrency)
        parts.push(`${count(q.concurrency)} at once`);
    if (q.concurrency_per_key)
        parts.push(`${count(q.concurrency_per_key)} per key`);
    if (q.rate)
        parts.push(`${count(q.rate.count)} per ${duration(q.rate.per_ms)}`);
    return parts.join(' · ');
}

// --- what is known ---

// Queues by name, in the order of their names; with `why` what their jobs wait for.
class Model {
    constructor() {
        this.queues = new Map();
        this.why = new Map();
        this.rates = new Map();
        this.counters = null;
        this.swept = 0;
    }

    async sweep(signal) {
        const queues = new Map();
        for await (const page of pages('/queues?details=true&limit=1000', signal))
            for (const q of page.queues)
                queues.set(q.name, q);
        const why = new Map();
        for await (const page of pages('/explain?limit=1000', signal))
            for (const q of page.queues)
                why.set(q.queue, q);
        this.queues = queues;
        this.why = why;
        this.swept = Date.now();
    }

    // Of many queues only those in sight are asked for, between sweeps.
    async refresh(shown, signal) {
        if (this.queues.size <= FEW || Date.now() - this.swept > SWEEP_MS) {
            await this.sweep(signal);
            return;
        }
        for (const { name } of shown.slice(0, 40)) {
            const [q, why] = await Promise.all([get(`/queues/${encodeURIComponent(name)}`, signal),
                get(`/explain${query({ queue: name })}`, signal)]);
            this.queues.set(name, q);
            this.why.set(name, why.queues[0]);
        }
    }

    // Jobs by status, of all queues that are known.
    sum() {
        const all = Object.fromEntries(STATUSES.map((status) => [status, 0]));
        for (const { jobs } of this.queues.values())
            for (const status of STATUSES)
                all[status] += jobs[status];
        return all;
    }

    // Jobs completed a second, by queue, from the difference to the time before.
    async readRates(signal) {
        const text = await getText('/metrics?from=owner', signal);
        const seen = new Map();
        for (const [, kind, name, value] of text.matchAll(
            /^tenax_jobs_(completed|failed|enqueued)_total\{queue="((?:[^"\\]|\\.)*)"\} (\d+)/gm)) {
            const of = seen.get(name) ?? { completed: 0, failed: 0, enqueued: 0 };
            of[kind] = Number(value);
            seen.set(name, of);
        }
        const at = Date.now(), before = this.counters;
        if (before) {
            const seconds = Math.max(0.5, (at - before.at) / 1000);
            for (const [name, of] of seen) {
                const was = before.seen.get(name);
                const rate = (kind) => Math.max(0, (of[kind] - (was?.[kind] ?? 0)) / seconds);
                this.rates.set(name, { completed: rate('completed'), failed: rate('failed'),
                    enqueued: rate('enqueued') });
            }
        }
        this.counters = { at, seen };
    }
}

function perSecond(rate) {
    return rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1);
}

// --- a lane ---

function makeLane() {
    const part = (name, tag = 'span') => h(tag, { class: `lane-${name}` });
    const row = h('div', { class: 'lane' });
    const refs = { name: h('a', { class: 'lane-name', 'data-row': true }), limits: part('limits'), rate: part('rate'),
        age: part('age'), workers: part('workers'), why: part('why', 'p'), segments: {}, counts: {} };
    const bar = h('div', { class: 'bar', 'aria-hidden': 'true' });
    const counts = h('div', { class: 'lane-counts' });
    for (const status of LIVE) {
        refs.segments[status] = h('span', { class: `segment s-${status}` });
        refs.counts[status] = h('a', { class: `lane-count s-${status}` });
        bar.append(refs.segments[status]);
        counts.append(refs.counts[status]);
    }
    row.append(h('div', { class: 'lane-head' }, refs.name, refs.limits), bar, counts,
        h('div', { class: 'lane-side' }, refs.age, refs.workers, refs.rate), refs.why);
    row.refs = refs;
    return row;
}

function showCounts(refs, q) {
    let total = 0;
    for (const status of LIVE)
        total += q.jobs[status];
    for (const status of LIVE) {
        const n = q.jobs[status];
        refs.segments[status].style.flexGrow = total ? n / total : 0;
        refs.segments[status].hidden = n === 0;
        setText(refs.counts[status], `${count(n)} ${statusName(status)}`);
        refs.counts[status].classList.toggle('zero', n === 0);
        refs.counts[status].setAttribute('href', `#/jobs${query({ queue: q.name, status })}`);
    }
}

function showLane(model, row, q) {
    const refs = row.refs;
    const rate = model.rates.get(q.name);
    const why = model.why.get(q.name);
    setText(refs.name, q.name);
    refs.name.setAttribute('href', `#/queue/${encodeURIComponent(q.name)}`);
    setText(refs.limits, limitsOf(q));
    refs.limits.classList.toggle('paused', q.paused);
    showCounts(refs, q);
    setText(refs.age, q.oldest_ready_age_ms === null ? '' : `oldest ready ${duration(q.oldest_ready_age_ms)}`);
    setText(refs.workers, !why ? '' : why.workers.asking ? `${count(why.workers.asking)} asking`
        : why.workers.busy ? `${count(why.workers.busy)} busy` : '');
    refs.workers.title = why ? `${why.workers.asking} ask for its jobs, ${why.workers.with_room} of them with room; ` +
        `${why.workers.busy} busy with ${why.workers.in_flight} of them` : '';
    setText(refs.rate, rate ? `${perSecond(rate.completed)}/s done${rate.failed >= 0.05
        ? `, ${perSecond(rate.failed)}/s failed` : ''}` : '');
    const reasons = why?.waits_for.filter(({ kind }) => kind !== 'time' || q.jobs.ready === 0) ?? [];
    setText(refs.why, q.jobs.ready + q.jobs.blocked + q.jobs.scheduled === 0 ? ''
        : reasons.slice(0, 2).map(({ reason }) => reason).join('; '));
}

// --- the view ---

const ORDERS = {
    name: null, // as they are asked for
    waiting: (a, b) => waitingOf(b) - waitingOf(a),
    dead: (a, b) => b.jobs.dead - a.jobs.dead,
    oldest: (a, b) => (b.oldest_ready_age_ms ?? -1) - (a.oldest_ready_age_ms ?? -1),
};

function totals(label) {
    const element = h('ul', { class: 'totals', 'aria-label': label });
    const values = {};
    for (const status of STATUSES) {
        values[status] = h('span', { class: 'total-value' }, '–');
        element.append(h('li', { class: `total s-${status}` }, h('a', { href: `#/jobs?status=${status}` },
            values[status], h('span', { class: 'total-name' }, statusName(status)))));
    }
    return { element, show(jobs) {
        for (const status of STATUSES)
            setText(values[status], count(jobs[status]));
    } };
}

function controls(params, changed) {
    const search = h('input', { type: 'search', id: 'now-search', placeholder: 'Filter by name', 'data-search': true,
        value: params.get('q') ?? '' });
    const order = h('select', { id: 'now-order' }, Object.keys(ORDERS).map((name) =>
        h('option', { value: name, selected: params.get('order') === name }, name)));
    const moved = () => {
        history.replaceState(null, '', `#/now${query({ q: search.value, order: order.value === 'name' ? '' : order.value })}`);
        changed();
    };
    search.addEventListener('input', moved);
    order.addEventListener('change', moved);
    return { search, order, element: h('div', { class: 'controls' },
        h('label', { for: 'now-search', class: 'hidden' }, 'Filter queues by name'), search,
        h('label', { for: 'now-order' }, 'Order by'), order) };
}

const narrow = matchMedia('(max-width: 700px)');

export async function now(parts, params, signal) {
    const model = new Model();
    const own = limits();
    const summary = totals(own.length ? 'Your queues' : 'All queues');
    const part = own.length > 0 && h('p', { class: 'hint' }, `You see the queues ${own.join(', ')}, and the counts are theirs. `
        + `Rates are not shown: ${whyNot('getMetrics')}.`);
    const shownCount = h('p', { class: 'hint', role: 'status' });
    const nothing = empty('No jobs in any queue', 'A queue is there while it has jobs or settings.');
    const list = lanes({ scroller: document.getElementById('main'), height: () => (narrow.matches ? 160 : 104),
        make: makeLane, show: (row, q) => showLane(model, row, q), label: 'Queues', signal });
    const control = controls(params, () => apply());

    function apply() {
        const text = control.search.value.toLowerCase();
        const all = [...model.queues.values()];
        const items = text ? all.filter(({ name }) => name.toLowerCase().includes(text)) : all;
        if (ORDERS[control.order.value])
            items.sort(ORDERS[control.order.value]);
        list.set(items);
        nothing.hidden = items.length > 0;
        setText(shownCount, `${count(items.length)} ${items.length === 1 ? 'queue' : 'queues'}`);
    }

    async function round() {
        const [health] = await Promise.all([own.length ? null : get('/health?from=owner', signal),
            model.refresh(list.shown(), signal), may('getMetrics') && model.readRates(signal)]);
        summary.show(health ? health.jobs : model.sum());
        apply();
    }

    async function follow() {
        while (!signal.aborted) {
            await Promise.all([happens({}, signal, SWEEP_MS), new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); })]);
            if (!document.hidden && !signal.aborted)
                await round().catch(() => {}); // the header says that the server is gone
        }
    }

    await round();
    follow();
    return h('section', { class: 'view now' }, heading('Now'), summary.element, part, h('div', { class: 'row' },
        control.element, shownCount), nothing, list.element);
}
