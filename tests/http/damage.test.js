// SPDX-License-Identifier: Apache-2.0
'use strict';

// A table of the store that is damaged on the disk: what it held is set apart, the rest goes on.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { BIN, Server, assertError, run, until } = require('./harness');

const TOOL = path.join(path.dirname(BIN), 'tests/store/damage_table');

function damage(server, how) {
    return execFileSync(TOOL, [path.join(server.dir, 'root'), how], { encoding: 'utf8' }).trim();
}

async function withServer(test) {
    const server = new Server();
    await server.start();
    try {
        await test(server);
    } finally {
        await server.clean();
    }
}

async function enqueue(server, count, bytes) {
    const ids = [];
    for (let left = count; left > 0; left -= 500) {
        const jobs = Array.from({ length: Math.min(left, 500) }, () => ({
            queue: 'q', type: 't', payload: crypto.randomBytes(bytes / 2).toString('hex'),
        }));
        const res = await server.request('POST', '/jobs/bulk', { jobs });
        assert.equal(res.status, 201, res.text);
        ids.push(...res.json.jobs.map((job) => job.id));
    }
    return ids;
}

async function health(server) {
    const res = await server.request('GET', '/health');
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function listAll(server) {
    const jobs = new Map();
    let target = '/jobs?limit=2000';
    while (target) {
        const res = await server.request('GET', target);
        assert.equal(res.status, 200, res.text);
        for (const job of res.json.jobs)
            jobs.set(job.id, job);
        target = res.json.pages.next;
    }
    return jobs;
}

// Takes what there is, and reports it as done.
async function workAll(server) {
    const done = new Set();
    for (;;) {
        const res = await server.request('POST', '/jobs/claim',
            { queues: ['q'], worker: 'w', count: 500, lease_ms: 60000, wait_ms: 0 });
        assert.equal(res.status, 200, res.text);
        if (!res.json.jobs.length)
            return done;
        for (const job of res.json.jobs)
            done.add(job.id);
        const end = await server.request('POST', '/jobs/success',
            { jobs: res.json.jobs.map(({ id, token }) => ({ id, token })) });
        assert.equal(end.status, 204, end.text);
    }
}

async function check(server) {
    const end = await run(['check', '--output', 'json', path.join(server.dir, 'root')]);
    return JSON.parse(end.stdout);
}

describe('damage to a table', () => {
    it('sets apart the jobs that were in a damaged block, and serves the rest', async () => {
        await withServer(async (server) => {
            const ledger = await enqueue(server, 4000, 400);
            await server.stop();
            const table = damage(server, 'block');
            await server.start();
            const { damaged } = await health(server);
            assert.equal(damaged.tables, 1);
            assert.match(server.stderr, new RegExp(`${path.basename(table)} is damaged`));
            assert.ok(fs.existsSync(path.join(server.dir, 'root/damaged', path.basename(table))));

            const there = await listAll(server);
            const missing = ledger.filter((id) => !there.has(id));
            assert.ok(missing.length > 0 && missing.length < 400, `${missing.length} are missing`);
            assert.equal(damaged.jobs, missing.length);
            for (const id of missing) {
                const res = await server.request('GET', `/jobs/${id}`);
                assertError(res, 500, 'job_damaged');
            }
            assert.match(server.stderr, new RegExp(missing[0]));
            const metrics = await server.request('GET', '/metrics');
            assert.match(metrics.text, new RegExp(`^tenax_store_damaged_jobs ${missing.length}$`, 'm'));

            const more = await enqueue(server, 100, 400);
            const done = await workAll(server);
            const expected = new Set([...there.keys(), ...more]);
            assert.deepEqual(done, expected);
            const gone = await server.request('DELETE', `/jobs/${missing[0]}`);
            assert.equal(gone.status, 204, gone.text);
            const deleted = await server.request('DELETE', `/jobs?id=${missing[1]},${missing[2]}`);
            assert.equal(deleted.json.deleted, 2, deleted.text);
            for (const id of missing.slice(0, 3))
                assertError(await server.request('GET', `/jobs/${id}`), 404, 'not_found');
            await server.stop();

            // All of it can be compacted, and nothing new is found.
            damage(server, 'make');
            const found = await check(server);
            assert.deepEqual(new Set(found.problems.map((p) => p.code)), new Set(['set_apart']));
            assert.equal(found.problem_count, missing.length - 3);
            await server.start();
            assert.doesNotMatch(server.stderr, /damaged|set apart/);
            assert.deepEqual((await health(server)).damaged,
                { jobs: missing.length - 3, tables: 1 });
            await enqueue(server, 10, 400);
            assert.equal((await workAll(server)).size, 10);
            await server.request('POST', '/reset');
            assert.deepEqual((await health(server)).damaged, { jobs: 0, tables: 1 });
            await server.stop();
            assert.deepEqual((await check(server)).problems, []);
        });
    });

    it('sets a table apart of which nothing can be read', async () => {
        await withServer(async (server) => {
            const old = await enqueue(server, 2000, 400);
            await server.stop();
            damage(server, 'make');
            await server.start();
            // What becomes of these is only in the younger table; of more of them there would be so
            // many deletions that the tables would be made one at once.
            const claimed = await server.request('POST', '/jobs/claim',
                { queues: ['q'], worker: 'w', count: 400, lease_ms: 60000, wait_ms: 0 });
            await enqueue(server, 6000, 400);
            await server.request('POST', '/jobs/success',
                { jobs: claimed.json.jobs.map(({ id, token }) => ({ id, token })) });
            await server.stop();
            damage(server, 'end');
            await server.start();
            const state = await health(server);
            assert.equal(state.damaged.tables, 1);
            const there = await listAll(server);
            // Whether they were done nobody knows: none of them is handed out again.
            for (const job of claimed.json.jobs)
                assert.ok(!there.has(job.id));
            assert.equal(there.size + old.filter((id) => !there.has(id)).length, old.length);
            assert.equal(state.damaged.jobs, old.length - there.size);
            await enqueue(server, 10, 400);
            await workAll(server);
            await server.stop();
            await server.start();
            assert.doesNotMatch(server.stderr, /is damaged/);
            assert.deepEqual((await health(server)).damaged, state.damaged);
        });
    });

    it('goes on when it meets the damage while it serves', async () => {
        await withServer(async (server) => {
            const ledger = await enqueue(server, 400, 6000);
            await server.stop();
            damage(server, 'block');
            await server.start();
            assert.deepEqual((await health(server)).damaged, { jobs: 0, tables: 0 });
            const { pid } = server.child;
            const lost = [];
            for (const id of ledger) {
                let res;
                await until(async () => {
                    res = await server.request('GET', `/jobs/${id}`);
                    return res.status !== 503;
                }, `job ${id} is answered`);
                if (res.status !== 200) {
                    assertError(res, 500, 'job_damaged');
                    lost.push(id);
                }
            }
            assert.ok(lost.length > 0 && lost.length < 40, `${lost.length} are lost`);
            assert.equal(server.child.pid, pid);
            assert.deepEqual((await health(server)).damaged, { jobs: lost.length, tables: 1 });
            const done = await workAll(server);
            assert.deepEqual(done, new Set(ledger.filter((id) => !lost.includes(id))));
            await server.stop();
            await server.start();
            assert.doesNotMatch(server.stderr, /damaged|set apart/);
        });
    });

    it('goes on when it is about to hand out what is damaged', async () => {
        await withServer(async (server) => {
            const ledger = await enqueue(server, 400, 6000);
            await server.stop();
            damage(server, 'block');
            await server.start();
            const done = new Set();
            const { pid } = server.child;
            await until(async () => {
                const res = await server.request('POST', '/jobs/claim',
                    { queues: ['q'], worker: 'w', count: 20, lease_ms: 600000, wait_ms: 0 });
                if (res.status !== 200)
                    assert.equal(res.status, 503, res.text);
                for (const job of res.json.jobs ?? [])
                    done.add(job.id);
                return res.status === 200 && res.json.jobs.length === 0;
            }, 'all are claimed');
            const { damaged } = await health(server);
            assert.equal(server.child.pid, pid);
            assert.equal(damaged.tables, 1);
            assert.ok(damaged.jobs > 0 && damaged.jobs < 40);
            assert.equal(done.size, ledger.length - damaged.jobs);
        });
    });
});
