#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// How long the server's one loop is held up while very many jobs are changed, and while that is undone:
// node bench/undo.js
//
// Changes JOBS (100,000) among OTHERS (1,000,000) in each of the ways in which that can be undone, undoes
// it, and prints the longest round of the loop meanwhile, in time of the processor and by the clock, and
// how many rounds took more than 50 ms by the clock. If only the clock's are long, the machine had other
// things to do.

const { Server } = require('../tests/http/harness');

const JOBS = Number(process.env.JOBS ?? 100000), OTHERS = Number(process.env.OTHERS ?? 1000000);
const QUEUES = 10000, BULK = 1000;

async function ok(answer) {
    const res = await answer;
    if (res.status >= 300)
        throw new Error(`${res.status} ${res.text.slice(0, 300)}`);
    return res.json;
}

async function enqueue(server, count, job) {
    for (let at = 0; at < count; at += BULK)
        await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: Math.min(BULK, count - at) }, (_, i) =>
            ({ queue: `customer-${(at + i) % QUEUES}`, payload: { n: at + i, text: 'x'.repeat(200) }, ...job })) }));
}

// Of the loop since this was asked last.
async function rounds(server) {
    const { text } = await server.get('/metrics');
    const value = (name) => Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))[1]);
    const upto = (le) => value(`tenax_loop_seconds_bucket\\{le="${le}"\\}`);
    const longest = (clock) => 1000 * value(`tenax_loop_longest_seconds\\{clock="${clock}"\\}`);
    return { cpu: longest('cpu'), wall: longest('wall'), long: upto('\\+Inf') - upto('0.05') };
}

async function watch(server, what, run) {
    await rounds(server);
    const { long } = await rounds(server);
    const begun = Date.now();
    await run();
    const seconds = (Date.now() - begun) / 1000, r = await rounds(server);
    console.log(`${what.padEnd(24)} ${seconds.toFixed(1)} s; longest round ${r.cpu.toFixed(1)} ms of the processor, ${
        r.wall.toFixed(1)} ms by the clock; ${r.long - long} of more than 50 ms`);
}

async function change(server, what, method, path, body) {
    await watch(server, what, () => ok(server.request(method, `${path}type=changed&undo=1h`, body)));
    const [{ id }] = (await ok(server.get('/operations'))).operations;
    await watch(server, `undo of ${what}`, () => ok(server.post(`/operations/${id}/undo`)));
}

async function kill(server) {
    for (let left = JOBS; left > 0;) {
        const { jobs } = await ok(server.post('/jobs/claim', { queues: ['moved'], count: BULK, lease_ms: 600000, wait_ms: 0 }));
        await Promise.all(jobs.map(({ id, token }) => ok(server.post(`/jobs/${id}/failure`, { token, message: 'broken' }))));
        left -= jobs.length;
    }
}

async function main() {
    const server = new Server({ args: ['--default-dead-job-retention', '1h', '--undo-max-bytes', '4000000000'] });
    await server.start();
    try {
        await enqueue(server, OTHERS, { type: 'other' });
        await enqueue(server, JOBS, { type: 'changed', retry_limit: 0 });
        await change(server, 'patch of priority', 'PATCH', '/jobs?', { priority: 7 });
        await change(server, 'patch of queue', 'PATCH', '/jobs?', { queue: 'moved' });
        await change(server, 'delete', 'DELETE', '/jobs?');
        await change(server, 'cancel', 'POST', '/jobs/cancel?');
        await ok(server.patch('/jobs?type=changed', { queue: 'moved' }));
        await kill(server);
        await change(server, 'retry', 'POST', '/jobs/retry?');
        await change(server, 'delete of dead jobs', 'DELETE', '/jobs?status=dead&');
    } finally {
        await server.clean();
    }
}

main().catch((err) => {
    console.error(err);
    process.exitCode = 1;
});
