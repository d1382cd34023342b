// SPDX-License-Identifier: Apache-2.0
'use strict';

// How long a run may take: the limits of a job, of its queue and of who takes it.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, until, useServer } = require('./harness');

const HOUR = 3600000;

function spec(fields) {
    return { queue: queueName(), type: 't', payload: 1, ...fields };
}

async function claim(server, queue, fields) {
    const res = await server.post('/jobs/claim', { queues: [queue], worker: 'w', lease_ms: 30000, ...fields });
    assert.equal(res.status, 200, res.text);
    return res.json.jobs[0];
}

const ended = (server, id) => until(async () => {
    const job = await server.job(id);
    return job.status !== 'in_flight' && job;
}, `the run of ${id} is over`);

describe('max_run_ms', () => {
    const server = useServer();

    it('ends_a_run_as_a_failure_that_time_is_to_blame_for', async () => {
        const { id, queue, max_run_ms: limit } = await server.enqueue(spec({ max_run_ms: 300, retry_limit: 0 }));
        assert.equal(limit, 300);
        const run = await claim(server, queue);
        assert.equal(run.max_run_ms, 300);
        assert.equal(run.lease_expires_at, run.dequeued_at + 300);
        const job = await ended(server, id);
        assert.equal(job.status, 'dead');
        assert.equal(job.resolution, 'failed');
        const [last] = (await server.get(`/jobs/${id}/runs`)).json.runs;
        assert.equal(last.culprit, 'deadline');
        assert.equal(last.culprit_evidence, 'the run took longer than 300 ms, the max_run_ms of the job');
        assert.equal(last.condition, 'DeadlineExceeded');
        assert.ok(last.ended_at >= run.dequeued_at + 300);
        for (const what of ['renew', 'success', 'progress'])
            assertError(await server.post(`/jobs/${id}/${what}`, { token: run.token, progress: { value: 1 } }), 409,
                'run_limit', /max_run_ms/);
        assertError(await server.post(`/jobs/${id}/failure`, { token: run.token, message: 'm' }), 409, 'run_limit');
        const many = await server.post('/jobs/renew', { jobs: [{ id, token: run.token }] });
        assert.equal(many.json.jobs[0].code, 'run_limit');
    });

    it('is_not_moved_by_renewals_and_the_job_is_tried_again', async () => {
        const backoff = { base_ms: 0, exponent: 0, jitter_ms: 0 };
        const { id, queue } = await server.enqueue(spec({ max_run_ms: 1500, retry_limit: 1, backoff }));
        const run = await claim(server, queue, { lease_ms: 1000 });
        const renewed = await server.post(`/jobs/${id}/renew`, { token: run.token, lease_ms: HOUR });
        assert.equal(renewed.json.lease_expires_at, run.dequeued_at + 1500);
        const job = await ended(server, id);
        assert.equal(job.attempts, 1);
        assert.match(job.reason, /^retry 1 of 1/);
        assertError(await server.post(`/jobs/${id}/renew`, { token: run.token }), 409, 'run_limit');
    });

    it('counts_for_a_stream_too', async () => {
        const { id, queue } = await server.enqueue(spec({ max_run_ms: 200, retry_limit: 0 }));
        const stream = await server.take(`?queue=${queue}&prefetch=1`);
        const run = await stream.next();
        assert.equal(run.max_run_ms, 200);
        assert.equal((await ended(server, id)).status, 'dead');
        const { id: second } = await server.enqueue(spec({ queue }));
        assert.equal((await stream.next()).id, second);
        stream.close();
    });

    it('is_the_shortest_of_the_jobs_the_queues_and_the_workers', async () => {
        const queue = queueName();
        const set = await server.request('PATCH', `/queues/${queue}`, { max_run_ms: 2 * HOUR });
        assert.equal(set.json.max_run_ms, 2 * HOUR);
        const limits = async (job, worker) => {
            await server.enqueue(spec({ queue, ...job }));
            return (await claim(server, queue, worker)).max_run_ms;
        };
        assert.equal(await limits({}, {}), 2 * HOUR);
        assert.equal(await limits({ max_run_ms: HOUR }, {}), HOUR);
        assert.equal(await limits({ max_run_ms: 3 * HOUR }, {}), 2 * HOUR);
        assert.equal(await limits({ max_run_ms: 3 * HOUR }, { max_run_ms: 1000000 }), 1000000);
        const one = await server.enqueue(spec({ queue }));
        const res = await server.post(`/jobs/${one.id}/claim`, { worker: 'w', max_run_ms: 5000 });
        assert.equal(res.json.max_run_ms, 5000);
        const off = await server.request('PATCH', `/queues/${queue}`, { max_run_ms: null });
        assert.equal(off.json.max_run_ms, null);
        assert.equal(await limits({}, {}), undefined);
    });

    it('is_changed_by_a_patch_for_runs_that_begin_after_it', async () => {
        const { id, queue } = await server.enqueue(spec({ max_run_ms: HOUR }));
        assert.equal((await server.request('PATCH', `/jobs/${id}`, { max_run_ms: 5000 })).json.max_run_ms, 5000);
        assert.equal((await claim(server, queue)).max_run_ms, 5000);
        const patched = await server.request('PATCH', `/jobs/${id}`, { max_run_ms: null });
        assert.equal(patched.status, 200);
        assert.equal(patched.json.max_run_ms, undefined);
    });

    it('is_an_option_of_commands_and_ends_that_of_a_worker', async () => {
        const queue = queueName();
        const tenax = async (...args) => {
            const res = await run(args, { TENAX_URL: server.url() });
            assert.equal(res.code, 0, res.stderr);
            return res.stdout.trim();
        };
        const id = await tenax('enqueue', '--queue', queue, '--type', 't', '--max-run', '1h', '--retry-limit', '0', '1');
        assert.equal((await server.job(id)).max_run_ms, HOUR);
        assert.match(await tenax('job', id), /^max run +1 h$/m);
        await tenax('queue', queue, '--max-run', '2h');
        assert.equal((await server.get(`/queues/${queue}`)).json.max_run_ms, 2 * HOUR);
        const worked = await run(['work', '--queue', queue, '--once', '--max-run', '300ms', '--', 'sleep', '600'],
            { TENAX_URL: server.url() });
        assert.match(worked.stderr, /FAIL.*it took longer than its max_run_ms, 300 ms; ending the command/);
        const job = await ended(server, id);
        const [last] = (await server.get(`/jobs/${id}/runs`)).json.runs;
        assert.deepEqual([job.status, last.culprit], ['dead', 'deadline']);
        assert.match(last.culprit_evidence, /the max_run_ms of its worker$/);
        await tenax('queue', queue, '--max-run', 'none');
        assert.equal((await server.get(`/queues/${queue}`)).json.max_run_ms, null);
    });

    it('is_a_number_of_milliseconds', async () => {
        for (const bad of [0, -1, 'x', 1.5]) {
            const res = await server.post('/jobs', spec({ max_run_ms: bad }));
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, /max_run_ms/);
        }
    });
});

describe('a limit of run time', () => {
    const server = useServer({ args: ['--lease-grace', '1h'] });

    it('counts_from_the_begin_of_the_run_after_a_restart', async () => {
        const { id, queue } = await server.enqueue(spec({ max_run_ms: 4000, retry_limit: 0 }));
        const run = await claim(server, queue, { lease_ms: HOUR });
        assert.equal((await server.post(`/jobs/${id}/renew`, { token: run.token, lease_ms: HOUR })).status, 200);
        await server.signal('SIGKILL');
        await server.start();
        const job = await ended(server, id);
        const [last] = (await server.get(`/jobs/${id}/runs`)).json.runs;
        assert.equal(job.status, 'dead');
        assert.equal(last.culprit, 'deadline');
        assert.equal(last.lease_expires_at, run.dequeued_at + 4000);
        assertError(await server.post(`/jobs/${id}/renew`, { token: run.token }), 409, 'run_limit');
    });
});
