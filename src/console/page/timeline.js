// SPDX-License-Identifier: Apache-2.0

// The life of a job as a line: waiting, shaded by what it waited for, and its runs.

import { clock, duration, enqueuedAt, h, svg } from './dom.js';

const WIDTH = 1000, HEIGHT = 52, TOP = 6, BAND = 40;

// What a job waits for now, by its explanation.
function waitsFor(explanation) {
    return explanation.waits_for[0]?.kind ?? 'place';
}

// Segments of waiting and running, in order: {from, to, kind, run}. `now` ends the last of them.
export function segments(job, runs, explanation, now) {
    const parts = [];
    let at = enqueuedAt(job.id);
    const add = (from, to, kind, run) => {
        if (to > from || run)
            parts.push({ from, to: Math.max(from, to), kind, run });
    };
    for (const run of runs) {
        const begin = run.taken_at ?? at, ready = Math.min(begin, Math.max(at, run.ready_at ?? at));
        add(at, ready, run.run === 0 && job.depends_on ? 'dependency' : 'time');
        add(ready, begin, 'queue');
        at = Math.max(begin, run.ended_at ?? now);
        add(begin, at, run.outcome, run);
    }
    if (['blocked', 'scheduled', 'ready'].includes(job.status)) {
        const ready = Math.min(now, Math.max(at, job.ready_at));
        if (job.status === 'ready')
            add(at, ready, 'time');
        add(job.status === 'ready' ? ready : at, job.status === 'scheduled' ? Math.max(now, job.ready_at) : now,
            waitsFor(explanation));
    }
    return parts;
}

const isBad = (outcome) => !['running', 'completed', 'returned'].includes(outcome);

function describe(part) {
    const span = duration(part.to - part.from);
    return part.run ? `Run ${part.run.run}: ${part.kind} after ${span}${part.run.reason ? `, ${part.run.reason}` : ''}`
        : `${span} waiting: ${part.kind.replaceAll('_', ' ')}`;
}

// Waits may be days and runs milliseconds: the length on the line grows with the square root of the
// time, so that neither vanishes.
function scale(parts) {
    const weights = parts.map(({ from, to }) => 4 + Math.sqrt(to - from));
    const sum = weights.reduce((a, b) => a + b, 0);
    let x = 0;
    return parts.map((part, i) => {
        const width = (weights[i] / sum) * WIDTH;
        x += width;
        return { ...part, x: x - width, width };
    });
}

export function timeline(job, runs, explanation) {
    const now = Date.now();
    const parts = scale(segments(job, runs, explanation, now));
    const last = parts[parts.length - 1];
    const label = `Its life from ${clock(enqueuedAt(job.id))}: ${parts.map(describe).join('; ')}`;
    const line = svg('svg', { class: 'timeline', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label,
        preserveAspectRatio: 'none' });
    line.append(...parts.map((part) => svg('g', null, svg('title', null, describe(part)),
        svg('rect', { x: part.x, y: part.run ? TOP : TOP + 12, width: Math.max(2, part.width - 2),
            height: part.run ? BAND : BAND - 24, rx: 4,
            class: part.run ? `run ${isBad(part.kind) ? 'bad' : part.kind}` : `wait k-${part.kind}` }))));
    const ends = last && Math.abs(last.to - now) < 1000 ? 'now' : clock(last?.to ?? now);
    const marks = h('p', { class: 'timeline-ends hint', 'aria-hidden': 'true' }, h('span', null, clock(enqueuedAt(job.id))),
        h('span', null, ends));
    return { line, marks, parts };
}

// What its shades mean, of those that are there.
export function kindsOf(parts) {
    const kinds = new Map();
    for (const part of parts) {
        const name = part.run ? (isBad(part.kind) ? 'failed run' : `${part.kind === 'running' ? 'running' : 'run'}`)
            : `waits: ${part.kind.replaceAll('_', ' ')}`;
        kinds.set(name, part.run ? `run ${isBad(part.kind) ? 'bad' : part.kind}` : `wait k-${part.kind}`);
    }
    return kinds;
}
