// SPDX-License-Identifier: Apache-2.0
'use strict';

// Until when a job is retried, by what it says itself: retry_for_ms and its deadline.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, useServer } = require('./harness');

const HOUR = 3600000;
// A retry waits for half an hour.
const LATER = { base_ms: HOUR / 2 - 1000, exponent: 0, jitter_ms: 0 };

describe('a job that states until when it is retried', () => {
    const server = useServer();

    const enqueue = (fields) => server.enqueue({ queue: queueName(), type: 't', payload: 1, backoff: LATER, ...fields });

    async function fails({ id, queue }, fields) {
        await server.claimOne(queue);
        const res = await server.post(`/jobs/${id}/failure`, { message: 'm', ...fields });
        assert.equal(res.status, 200, res.text);
        return res.json;
    }

    it('is_retried_within_the_time_and_dead_before_a_retry_beyond_it', async () => {
        const within = await enqueue({ retry_for_ms: HOUR });
        assert.equal(within.retry_for_ms, HOUR);
        assert.equal((await fails(within)).status, 'scheduled');
        const beyond = await enqueue({ retry_for_ms: HOUR / 4 });
        const dead = await fails(beyond);
        assert.deepEqual([dead.status, dead.resolution], ['dead', 'failed']);
        assert.match(dead.reason, /^dead: the retry would begin in 30 min; the job, by its retry_for_ms, retries for no longer than 15 min$/);
        assert.equal((await server.get(`/jobs/${beyond.id}/explain`)).json.reason, dead.reason);
    });

    it('is_patched_and_keeps_it_over_a_restart', async () => {
        const job = await enqueue({ retry_for_ms: 1000 });
        const patch = async (retry_for_ms) => (await server.request('PATCH', `/jobs/${job.id}`, { retry_for_ms })).json;
        assert.equal((await patch(null)).retry_for_ms, undefined);
        assert.equal((await patch(HOUR / 4)).retry_for_ms, HOUR / 4);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(job.id)).retry_for_ms, HOUR / 4);
        assert.equal((await fails(job)).status, 'dead');
    });

    it('is_stated_in_bulk_in_crons_and_by_the_command', async () => {
        const queue = queueName();
        const [one] = (await server.post('/jobs/bulk', { jobs: [{ queue, type: 't', payload: 1, retry_for_ms: HOUR }] })).json.jobs;
        assert.equal((await server.job(one.id)).retry_for_ms, HOUR);
        const name = queueName();
        const cron = await server.request('PUT', `/crons/${name}`, { entries: [{ name: 'e', expression: '0 0 1 1 *',
            job: { queue, type: 't', payload: 1, retry_for_ms: HOUR } }] });
        assert.equal(cron.status, 200, cron.text);
        assert.equal(cron.json.entries[0].job.retry_for_ms, HOUR);
        const end = await run(['enqueue', '--queue', queue, '--type', 't', '--retry-for', '3d', '-o', 'name', '{}'], { TENAX_URL: server.url() });
        assert.equal(end.code, 0, end.stderr);
        const id = end.stdout.trim().replace(/^.*\//, '');
        assert.equal((await server.job(id)).retry_for_ms, 72 * HOUR);
        const shown = await run(['job', id], { TENAX_URL: server.url() });
        assert.match(shown.stdout, /^retry for +3 d after its first failure$/m);
    });

    it('refuses_what_is_no_time', async () => {
        for (const retry_for_ms of [0, -1, 1.5, 'x', 2 ** 60])
            assert.equal((await server.post('/jobs', { queue: 'q', type: 't', payload: 1, retry_for_ms })).status, 400);
        const { id } = await enqueue({});
        assertError(await server.request('PATCH', `/jobs/${id}`, { retry_for_ms: 0 }), 400, 'bad_value', /retry_for_ms/);
    });

    it('is_dead_at_once_if_its_retry_would_begin_after_its_deadline', async () => {
        const in_time = await enqueue({ deadline: Date.now() + HOUR });
        assert.equal((await fails(in_time)).status, 'scheduled');
        const late = await enqueue({ deadline: Date.now() + HOUR / 4 });
        const dead = await fails(late);
        assert.deepEqual([dead.status, dead.resolution], ['dead', 'deadline-exceeded']);
        assert.match(dead.reason, /^dead: the retry would begin at \d+-.*Z, and the job's deadline is \d+-.*Z$/);
        const metrics = (await server.get('/metrics')).text;
        assert.match(metrics, /decided_by="deadline"[^\n]* 1\n/);
    });
});
