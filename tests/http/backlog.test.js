// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the waiting jobs of queues wait for, counted.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, repeat, run, until, useServer } = require('./harness');

describe('GET /explain', () => {
    const server = useServer();

    async function backlog(queue) {
        const res = await server.get(`/explain?queue=${queue}`);
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.queues.length, 1);
        assert.equal(res.json.pages.next, null);
        return res.json.queues[0];
    }

    it('counts_what_the_jobs_of_a_queue_wait_for', async () => {
        const queue = queueName();
        await server.patch(`/queues/${queue}`, { concurrency_per_key: 1 });
        const job = { queue, type: 't', payload: 1, concurrency_key: 'acme' };
        const made = await server.post('/jobs/bulk', { jobs: repeat(13, job) });
        assert.equal(made.status, 201, made.text);
        await server.post('/jobs', { queue, type: 't', payload: 1, ready_at: Date.now() + 3600000 });
        const claim = await server.post('/jobs/claim', { queues: [queue], count: 5, worker: 'w' });
        assert.equal(claim.json.jobs.length, 1, claim.text);
        const answer = await until(async () => {
            const now = await backlog(queue);
            return now.waits_for.some(({ kind }) => kind === 'concurrency_key') && now;
        }, 'the others are parked');
        assert.deepEqual([answer.ready, answer.scheduled, answer.blocked], [12, 1, 0]);
        const key = answer.waits_for.find(({ kind }) => kind === 'concurrency_key');
        assert.deepEqual(key, { kind: 'concurrency_key', jobs: 12, name: 'acme', until: null,
            reason: '12 wait for concurrency_key=acme' });
        assert.equal(answer.waits_for.find(({ kind }) => kind === 'time').reason, '1 waits for its time');
        assert.deepEqual([answer.workers.asking, answer.workers.busy, answer.workers.in_flight], [0, 1, 1]);
        const shown = await run(['explain', '--queue', queue], { TENAX_URL: server.url() });
        assert.equal(shown.code, 0, shown.stderr);
        assert.match(shown.stdout, /jobs {7}12 ready, 1 scheduled, 0 blocked\n/);
        assert.match(shown.stdout, /why {8}12 wait for concurrency_key=acme\n/);
    });

    it('has_pages_of_the_queues_in_which_jobs_wait', async () => {
        const names = ['p-a', 'p-b', 'p-c'];
        for (const queue of names)
            await server.enqueue({ queue });
        await server.patch('/queues/p-empty', { paused: true });
        const seen = [];
        for (let at = '/explain?limit=2&from=p'; at;) {
            const { status, json, text } = await server.get(at);
            assert.equal(status, 200, text);
            assert.ok(json.queues.length <= 2);
            seen.push(...json.queues.map(({ queue }) => queue));
            at = json.pages.next;
        }
        assert.deepEqual(seen.filter((name) => name.startsWith('p-')), names);
        const shown = await run(['explain', '--all-queues', '--output', 'json'], { TENAX_URL: server.url() });
        assert.equal(shown.code, 0, shown.stderr);
        const listed = JSON.parse(shown.stdout).map(({ queue }) => queue);
        for (const name of names)
            assert.ok(listed.includes(name), name);
    });

    it('knows_queues_without_jobs_too', async () => {
        assert.deepEqual((await backlog('nowhere')).waits_for, []);
    });

    it('refuses_what_makes_no_sense', async () => {
        assertError(await server.get('/explain?limit=0'), 400, 'bad_value');
        assertError(await server.get('/explain?who=1'), 400, 'unknown_field');
        assertError(await server.post('/explain'), 405, 'method_not_allowed');
        for (const args of [['--queue', 'q', '--all-queues'], ['x', '--queue', 'q'], []])
            assert.equal((await run(['explain', ...args], { TENAX_URL: server.url() })).code, 2);
    });
});
