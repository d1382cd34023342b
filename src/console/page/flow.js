// SPDX-License-Identifier: Apache-2.0

// Flow: what a job waits for, what waits for it, and the members of its gang, as a graph.

import { ApiError, gather, get } from './api.js';
import { redrawOn } from './live.js';
import { STATUSES, badge, empty, h, heading, shortId, statusName, svg } from './dom.js';

const NODES_MAX = 80;
const COLUMN = 230, ROW = 64, BOX_WIDTH = 180, BOX_HEIGHT = 44;

async function read(id, signal) {
    try {
        return await get(`/jobs/${encodeURIComponent(id)}`, signal);
    } catch (err) {
        if (err instanceof ApiError && err.status === 404)
            return { id, status: 'gone', type: 'gone', queue: '' };
        throw err;
    }
}

// Those that still wait are found at once; others come soon after the job, if they are found at all.
async function dependants(job, signal) {
    const filter = { depends_on: job.id, order: 'asc' };
    const [waiting, all] = await Promise.all([gather({ ...filter, status: 'blocked' }, { limit: 50, requests: 2, signal }),
        gather({ ...filter, from: job.id }, { limit: 50, requests: 3, signal })]);
    return [...new Map([...waiting.jobs, ...all.jobs].map((other) => [other.id, other])).values()];
}

const idOf = (dependency) => (typeof dependency === 'string' ? dependency : dependency.id);

// Jobs by id and edges, from what the first waits for to what waits for it.
async function explore(first, signal) {
    const graph = { jobs: new Map([[first.id, { job: first }]]), edges: [] };
    const add = (job) => {
        if (!graph.jobs.has(job.id) && graph.jobs.size < NODES_MAX)
            graph.jobs.set(job.id, { job });
        return graph.jobs.has(job.id);
    };
    for (let todo = [first]; todo.length && graph.jobs.size < NODES_MAX;) {
        const next = [];
        for (const job of todo) {
            for (const id of (job.depends_on ?? []).map(idOf)) {
                const known = graph.jobs.has(id);
                const other = known ? graph.jobs.get(id).job : await read(id, signal);
                if (!known && add(other))
                    next.push(other);
                graph.edges.push([id, job.id]);
            }
        }
        todo = next;
    }
    for (let todo = [first]; todo.length && graph.jobs.size < NODES_MAX;) {
        const next = [];
        for (const job of todo) {
            if (job.status === 'gone')
                continue;
            for (const other of await dependants(job, signal)) {
                const known = graph.jobs.has(other.id);
                if (!known && add(other))
                    next.push(other);
                graph.edges.push([job.id, other.id]);
            }
        }
        todo = next;
    }
    return graph;
}

// Members of the same gang, as far as they are among the jobs of the queue that came shortly before or after.
async function addGang(graph, first, signal) {
    if (!first.gang)
        return;
    const near = await Promise.all(['asc', 'desc'].map((order) => gather({ queue: first.queue, from: first.id, order },
        { limit: 100, requests: 2, signal })));
    for (const job of near.flatMap(({ jobs }) => jobs))
        if (job.gang?.id === first.gang.id && !graph.jobs.has(job.id) && graph.jobs.size < NODES_MAX)
            graph.jobs.set(job.id, { job });
}

// Each job stands after all that it waits for, as far as they are shown.
function setLayers(graph) {
    for (const node of graph.jobs.values())
        node.layer = 0;
    for (let round = 0, moved = true; moved && round < NODES_MAX; round++) {
        moved = false;
        for (const [from, to] of graph.edges) {
            const before = graph.jobs.get(from), after = graph.jobs.get(to);
            if (before && after && after.layer <= before.layer) {
                after.layer = before.layer + 1;
                moved = true;
            }
        }
    }
}

function layOut(graph) {
    const layers = new Map();
    setLayers(graph);
    for (const node of graph.jobs.values()) {
        if (!layers.has(node.layer))
            layers.set(node.layer, []);
        layers.get(node.layer).push(node);
    }
    const order = [...layers.keys()].sort((a, b) => a - b);
    const tallest = Math.max(...[...layers.values()].map((l) => l.length));
    order.forEach((layer, column) => {
        const nodes = layers.get(layer);
        nodes.forEach((node, i) => {
            node.x = column * COLUMN;
            node.y = (tallest - nodes.length) * ROW / 2 + i * ROW;
        });
    });
    return { width: (order.length - 1) * COLUMN + BOX_WIDTH, height: (tallest - 1) * ROW + BOX_HEIGHT };
}

function nodeOf({ job, x, y }, chosen) {
    const box = svg('a', { href: `#/job/${job.id}`, 'data-row': true,
        'aria-label': `${job.type}, ${statusName(job.status)}, ${job.id}` },
    svg('rect', { x, y, width: BOX_WIDTH, height: BOX_HEIGHT, rx: 8, class: `node ${job.id === chosen ? 'chosen' : ''}` }),
    svg('rect', { x, y: y + 8, width: 5, height: BOX_HEIGHT - 16, rx: 2.5, class: `mark s-${job.status}` }),
    svg('text', { x: x + 14, y: y + 19, class: 'node-title' }, job.type.length > 20 ? `${job.type.slice(0, 19)}…` : job.type),
    svg('text', { x: x + 14, y: y + 35, class: 'node-text' }, `${statusName(job.status)} · ${shortId(job.id)}`));
    return box;
}

function edgeOf(from, to) {
    const x1 = from.x + BOX_WIDTH, y1 = from.y + BOX_HEIGHT / 2, x2 = to.x, y2 = to.y + BOX_HEIGHT / 2;
    const bend = Math.max(30, (x2 - x1) / 2);
    return svg('path', { class: 'edge', d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` });
}

function picture(graph, chosen) {
    const { width, height } = layOut(graph);
    const seen = new Set();
    const edges = graph.edges.filter(([from, to]) => graph.jobs.has(from) && graph.jobs.has(to) && !seen.has(`${from} ${to}`)
        && seen.add(`${from} ${to}`));
    return h('div', { class: 'graph', role: 'region', 'aria-label': 'Graph', tabindex: '0' },
        svg('svg', { viewBox: `-4 -4 ${width + 8} ${height + 8}`, width: width + 8, height: height + 8, role: 'group',
            'aria-label': `${graph.jobs.size} jobs, ${edges.length} dependencies` },
        edges.map(([from, to]) => edgeOf(graph.jobs.get(from), graph.jobs.get(to))),
        [...graph.jobs.values()].map((node) => nodeOf(node, chosen))));
}

// Without a job: those that wait for others.
async function start(signal) {
    // New ones are job_enqueued as all others are; all of these are not worth a stream.
    redrawOn({ event: 'job_blocked,job_unblocked,job_dead' }, signal, { pause: 2000, most: 5000 });
    const page = await gather({ status: 'blocked', order: 'desc' }, { limit: 30, requests: 3, signal });
    return h('section', { class: 'view' }, heading('Flow'),
        h('p', null, 'Jobs that wait for others. Open one to see what it waits for and what waits for it.'),
        page.jobs.length ? h('ul', { class: 'plain' }, page.jobs.map((job) => h('li', null,
            h('a', { href: `#/flow/${job.id}`, 'data-row': true }, h('span', { class: 'mono' }, shortId(job.id)), ` ${job.type}`),
            ' ', badge(job.status), ` ${job.queue}`)))
            : empty('No job is blocked', 'A job with depends_on waits here until the others have ended.'));
}

export async function flow([id], params, signal) {
    if (!id)
        return start(signal);
    const first = await get(`/jobs/${encodeURIComponent(id)}`, signal);
    const graph = await explore(first, signal);
    await addGang(graph, first, signal);
    redrawOn({ job: [...graph.jobs.values()].filter(({ job }) => job.status !== 'gone').map(({ job }) => job.id).join() }, signal, { most: 30000 });
    const statuses = STATUSES.filter((status) => [...graph.jobs.values()].some(({ job }) => job.status === status));
    return h('section', { class: 'view' }, heading('Flow', h('a', { href: `#/job/${first.id}`, class: 'mono' }, shortId(first.id))),
        h('p', { class: 'legend-row' }, statuses.map((status) => badge(status))),
        picture(graph, first.id),
        graph.jobs.size >= NODES_MAX && h('p', { class: 'hint' }, `Only the first ${NODES_MAX} jobs are shown.`));
}
