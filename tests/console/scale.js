#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// How fast the web console is on a server with very much in it: node tests/console/scale.js
//
// Enqueues JOBS (1,000,000) in QUEUES (10,000), lets some of them run, fail and die, opens each view in
// chromium while jobs come and go, scrolls the list of queues, and prints how long each request took
// the server (from the last byte of the request to the first of the answer, as the browser sees it),
// the worst first, how many rounds of the server's loop took more than 50 ms, and how long frames were.
// Exits with 1 if a request took REQUEST_MS (100) or more, or more than one in a hundred frames of
// scrolling came late. It measures; the tests of the console do not.

const assert = require('node:assert/strict');
const { Server, until } = require('../http/harness');
const { launch } = require('./browser');
const { ok } = require('./scene');

const JOBS = Number(process.env.JOBS ?? 1000000), QUEUES = Number(process.env.QUEUES ?? 10000);
const REQUEST_MS = Number(process.env.REQUEST_MS ?? 100);
const BULK = 1000, TYPES = ['send', 'resize', 'import', 'report', 'sync'];
const FRAME_MS = 1000 / 60;

const queueOf = (n) => `customer-${String(n).padStart(5, '0')}`;

async function fill(server) {
    const begun = Date.now();
    let next = 0;
    const lane = async () => {
        for (let at; (at = next) < JOBS;) {
            next += BULK;
            const jobs = Array.from({ length: Math.min(BULK, JOBS - at) }, (_, i) => {
                const n = at + i, job = { queue: queueOf(n % QUEUES), type: TYPES[n % 5], payload: { n, to: 'ada@example.org' } };
                if (n % 10 === 3)
                    job.ready_at = begun + 86400000 + n;
                if (n % 10 === 7)
                    job.concurrency_key = `key-${n % 100}`;
                return n % 50 === 1 ? { ...job, retry_limit: 0 } : job;
            });
            await ok(server.post('/jobs/bulk', { jobs }));
        }
    };
    await Promise.all([lane(), lane()]);
    return (Date.now() - begun) / 1000;
}

// Claims jobs, and ends some of them in each way.
async function work(server, rounds, of) {
    for (let round = 0; round < rounds; round++) {
        const queues = Array.from({ length: 32 }, (_, i) => queueOf((round * 37 + i * 211) % QUEUES));
        const { jobs } = await ok(server.post('/jobs/claim', { queues, count: 100, worker: `worker-${of}-${round % 8}`, wait_ms: 0,
            lease_ms: 600000 }));
        for (let i = 0; i < jobs.length; i++) {
            const { id, token } = jobs[i];
            if (i % 10 < 2)
                await ok(server.post(`/jobs/${id}/failure`, { token, message: `no answer from 10.0.0.${i} after ${round} s`,
                    error_type: ['Timeout', 'ConnectError', 'Refused'][i % 3], exit_code: i % 7 }));
            else if (i % 10 < 8)
                await ok(server.post(`/jobs/${id}/success`, { token }));
        }
    }
}

// What the server took for each request of the page; streams are none.
function listen(page, times) {
    const hear = page.hear.bind(page), asked = new Map();
    page.hear = (method, params) => {
        hear(method, params);
        if (method === 'Network.requestWillBeSent') {
            const { pathname, search } = new URL(params.request.url);
            asked.set(params.requestId, `${params.request.method} ${pathname}${search}`);
        } else if (method === 'Network.responseReceived' && params.response.timing) {
            const { sendEnd, receiveHeadersEnd } = params.response.timing;
            const path = asked.get(params.requestId);
            if (path && !/ \/(events|console)/.test(path))
                times.push({ path, ms: receiveHeadersEnd - sendEnd });
        }
    };
}

// Rounds of the server's loop so far, and those of more than 50 ms.
async function rounds(server) {
    const { text } = await server.get('/metrics');
    const upto = (le) => Number(text.match(new RegExp(`^tenax_loop_seconds_bucket\\{le="${le}"\\} (\\d+)$`, 'm'))[1]);
    return { all: upto('\\+Inf'), long: upto('\\+Inf') - upto('0.05') };
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

// Scrolls for that many frames, by that many pixels each: times between frames, and their own work.
async function scroll(page, frames, step) {
    await page.send('Performance.enable');
    const metric = async (name) => (await page.send('Performance.getMetrics')).metrics.find((m) => m.name === name).value;
    const before = await metric('TaskDuration');
    const gaps = await page.run(async (count, by) => {
        const main = document.getElementById('main');
        const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });
        const all = [];
        let last = await frame();
        for (let i = 0; i < count; i++) {
            main.scrollTop += by;
            const at = await frame();
            all.push(at - last);
            last = at;
        }
        return all;
    }, frames, step);
    const busy = (await metric('TaskDuration') - before) * 1000;
    const sorted = [...gaps].sort((a, b) => a - b);
    const late = gaps.filter((gap) => gap > 1.5 * FRAME_MS).length;
    const total = gaps.reduce((a, b) => a + b, 0);
    return { late, text: `${(1000 * frames / total).toFixed(1)} frames a second, ${late} of ${frames} late, the longest ${
        sorted.at(-1).toFixed(1)} ms; ${(busy / frames).toFixed(2)} ms of work for each` };
}

async function main() {
    const server = new Server({ args: ['--default-completed-job-retention', '1h', '--default-dead-job-retention', '1h'] });
    await server.start();
    const browser = await launch();
    const times = [];
    let bad = 0;
    try {
        const seconds = await fill(server);
        await work(server, 40, 'a');
        const { jobs } = (await server.get('/health')).json;
        console.log(`${JOBS} jobs in ${QUEUES} queues after ${seconds.toFixed(1)} s: ${JSON.stringify(jobs)}`);
        const { json: { failure_groups: groups } } = await server.get('/failure-groups?limit=1');
        const dead = (await server.get('/jobs?status=dead&limit=1')).json.jobs[0];
        const page = await browser.page(server.url());
        // The start of the browser, which takes all processors, is not measured.
        await page.open('#/audit');
        await new Promise((resolve) => { setTimeout(resolve, 1500); });
        listen(page, times);
        // Jobs come and go meanwhile.
        let over = false;
        const busy = (async () => {
            while (!over) {
                await work(server, 1, 'b');
                await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: 100 }, (_, i) =>
                    ({ queue: queueOf(i * 97), type: 'send', payload: i })) }));
                await new Promise((resolve) => { setTimeout(resolve, 100); });
            }
        })();
        const before = await rounds(server);
        const views = ['#/now', '#/now?order=waiting', `#/queue/${queueOf(0)}`, '#/jobs', ...['ready', 'scheduled', 'in_flight', 'completed',
            'dead', 'blocked'].map((status) => `#/jobs?status=${status}`), `#/jobs?queue=${queueOf(1)}&status=ready`,
        '#/jobs?type=send', '#/jobs?error=Timeout', '#/jobs?worker=worker-a-1', `#/job/${dead.id}`, '#/failures',
        `#/failures/${groups[0].group}`, '#/policies', '#/crons', '#/flow', `#/flow/${dead.id}`, '#/workers', '#/events?since=0',
        '#/operations', '#/audit'];
        for (const view of views) {
            const from = times.length, begun = Date.now(), { long } = await rounds(server);
            await page.open(view);
            const opened = Date.now() - begun;
            await new Promise((resolve) => { setTimeout(resolve, 1500); }); // its refreshes, too
            const worst = times.slice(from).sort((a, b) => b.ms - a.ms)[0];
            console.log(`${view}: open after ${opened} ms; ${times.length - from} requests, ${worst ?
                `the slowest ${worst.ms.toFixed(1)} ms ${worst.path}; ` : ''}${(await rounds(server)).long - long} long rounds`);
        }
        await page.open('#/now');
        await until(async () => /queues/.test(await page.text()), 'the queues are there');
        for (const [what, step] of [['slow scrolling', 60], ['fast scrolling', 4000]]) {
            const { late, text } = await scroll(page, 600, step);
            console.log(`${what}: ${text}`);
            bad += late > 6;
        }
        over = true;
        await busy;
        const { all, long } = await rounds(server);
        console.log(`${long - before.long} of ${all - before.all} rounds of the server's loop took more than 50 ms`);
        const sorted = times.map(({ ms }) => ms).sort((a, b) => a - b);
        console.log(`${sorted.length} requests: median ${quantile(sorted, 0.5).toFixed(1)} ms, 99 % within ${quantile(sorted, 0.99).toFixed(1)} ms`);
        for (const { path, ms } of times.sort((a, b) => b.ms - a.ms).slice(0, 12))
            console.log(`  ${ms.toFixed(1)} ms  ${path}`);
        bad += times[0].ms >= REQUEST_MS;
        assert.deepEqual(page.complaints, []);
    } finally {
        await browser.close();
        await server.clean();
    }
    process.exitCode = bad ? 1 : 0;
}

main().catch((err) => {
    console.error(err);
    process.exitCode = 1;
});
