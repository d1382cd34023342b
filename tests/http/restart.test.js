// SPDX-License-Identifier: Apache-2.0
'use strict';

// What was acknowledged is there again after the server was stopped or killed.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, until } = require('./harness');

const KEEP = { completed_ms: 3600000, dead_ms: 3600000 };

// A job in every state that there is, with all that can be asked of it.
async function fill(server) {
    const made = {};
    const later = Date.now() + 3600000;
    made.ready = await server.enqueue({
        queue: queueName(), payload: { a: [1, 'é'] }, priority: 3, retry_limit: 4, retention: KEEP,
        backoff: { base_ms: 1, exponent: 1.5, jitter_ms: 2 },
    });
    made.scheduled = await server.enqueue({ queue: queueName(), ready_at: later });
    for (const [name, verb, body] of [
        ['completed', 'success', undefined],
        ['dead', 'failure', { message: 'm', error_type: 'E', backtrace: 'b', exit_code: 3,
            kill: true }],
        ['retried', 'failure', { message: 'm', retry_at: later }],
        ['released', 'release', undefined],
    ]) {
        made[name] = await server.enqueue({ queue: queueName(), retention: KEEP });
        await server.claimOne(made[name].queue, { worker: 'w' });
        const res = await server.post(`/jobs/${made[name].id}/${verb}`, body);
        assert.ok(res.status === 200 || res.status === 204, res.text);
    }
    made.large = await server.enqueue({ queue: queueName(), payload: 'x'.repeat(300000) });
    const { id, queue } = await server.enqueue({ queue: queueName(), retention: KEEP });
    made.leased = await server.claimOne(queue, { worker: 'w', lease_ms: 600000 });
    assert.equal(made.leased.id, id);
    const gone = await server.enqueue({ queue: queueName() });
    await server.delete(`/jobs/${gone.id}`);
    return { made, gone };
}

async function everything(server) {
    const { jobs } = (await server.get('/jobs?limit=2000')).json;
    const all = {};
    for (const job of jobs)
        all[job.id] = {
            job,
            runs: await server.runs(job.id),
            errors: (await server.get(`/jobs/${job.id}/errors`)).json.errors,
        };
    const { queues } = (await server.get('/queues')).json;
    return { all, queues: queues.sort(), count: (await server.get('/jobs/count')).json.count };
}

for (const signal of ['SIGTERM', 'SIGKILL']) {
    describe(`after ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());
        let made, gone, state;

        async function restart() {
            const end = await server.signal(signal);
            if (signal === 'SIGTERM')
                assert.deepEqual(end, { code: 0, signal: null }, server.stderr);
            else
                assert.equal(end.signal, 'SIGKILL');
            await server.start();
        }

        it('every_job_run_and_error_is_as_it_was', async () => {
            ({ made, gone } = await fill(server));
            state = await everything(server);
            assert.equal(state.count, 8);
            await restart();
            assert.deepEqual(await everything(server), state);
            assertError(await server.get(`/jobs/${gone.id}`), 404, 'not_found');
        });

        it('a_second_time_too', async () => {
            await restart();
            assert.deepEqual(await everything(server), state);
        });

        it('a_lease_goes_on_with_its_token', async () => {
            const { id, token, lease_expires_at: end } = made.leased;
            const [run] = await server.runs(id);
            assert.ok(run.lease_expires_at >= end, 'or later, by a grace');
            assert.equal(run.worker, 'w');
            assert.equal(run.outcome, 'running');
            assert.deepEqual(await server.claim({ queues: [made.leased.queue] }), [],
                'nobody else gets it');
            assertError(await server.post(`/jobs/${id}/success`, { token: '1'.repeat(16) }), 409,
                'stale_token');
            assert.equal((await server.post(`/jobs/${id}/renew`,
                { token, lease_ms: 700000 })).status, 200);
            await restart();
            assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
            assert.equal((await server.job(id)).status, 'completed');
        });

        it('a_claim_that_nobody_confirmed_is_charged_to_nobody', async () => {
            const { id, queue } = await server.enqueue({ queue: queueName(), retry_limit: 0 });
            await server.claimOne(queue, { lease_ms: 100 });
            await restart();
            const job = await until(async () => {
                const now = await server.job(id);
                return now.status !== 'in_flight' && now;
            }, 'the lease is over');
            assert.equal(job.status, 'ready');
            assert.equal(job.attempts, 0);
            assert.equal((await server.runs(id))[0].outcome, 'claim-expired');
        });

        it('a_lease_that_is_over_can_be_renewed_when_the_server_answers_again', async () => {
            const { id, queue } = await server.enqueue({ queue: queueName(), retry_limit: 0 });
            const claimed = await server.claimConfirmed(queue, { lease_ms: 2000 });
            await server.signal(signal);
            await until(() => Date.now() > claimed.lease_expires_at, 'the lease is over');
            await server.start();
            assert.equal((await server.post(`/jobs/${id}/renew`,
                { token: claimed.token, lease_ms: 60000 })).status, 200);
            assert.equal((await server.post(`/jobs/${id}/success`, { token: claimed.token })).status, 204);
        });

        it('a_lease_that_ran_out_meanwhile_has_expired', async () => {
            const { id, queue } = await server.enqueue({ queue: queueName() });
            const claimed = await server.claimConfirmed(queue, { lease_ms: 100 });
            const end = server.signal(signal);
            await until(() => Date.now() > claimed.lease_expires_at, 'the lease is over');
            await end;
            await server.start();
            const job = await until(async () => {
                const now = await server.job(id);
                return now.status === 'ready' && now;
            }, 'the job is ready');
            assert.equal(job.attempts, 1);
            assert.equal((await server.runs(id))[0].outcome, 'claim-expired');
            assertError(await server.post(`/jobs/${id}/success`, { token: claimed.token }), 409,
                'stale_token');
        });

        it('the_jobs_of_a_stream_are_ready_again', async () => {
            const { id, queue } = await server.enqueue({ queue: queueName() });
            const taker = await server.take(`?queue=${queue}`, { 'worker-id': 'w' });
            const { token } = await taker.next();
            await restart();
            const job = await server.job(id);
            assert.equal(job.status, 'ready');
            assert.equal(job.attempts, 0);
            const [run] = await server.runs(id);
            assert.equal(run.outcome, 'worker-lost');
            assertError(await server.post(`/jobs/${id}/success`, { token }), 409, 'stale_token');
            const again = await server.claimOne(queue);
            assert.equal(again.run, 1);
            assert.equal((await server.post(`/jobs/${id}/success`, { token: again.token })).status,
                204);
            taker.close();
        });

        it('jobs_come_in_the_same_order_as_before', async () => {
            const queue = queueName();
            const sent = await server.post('/jobs/bulk', {
                jobs: [5, 1, 5, 1, 3].map((priority) =>
                    ({ queue, type: 't', payload: 0, priority })),
            });
            await restart();
            const newer = await server.enqueue({ queue, priority: 1 });
            const ids = sent.json.jobs.map((job) => job.id);
            assert.ok(newer.id > ids[4], 'ids still grow');
            const claimed = await server.claim({ queues: [queue], count: 9 });
            assert.deepEqual(claimed.map((job) => job.id),
                [ids[1], ids[3], newer.id, ids[4], ids[0], ids[2]]);
        });

        it('a_job_whose_time_came_meanwhile_is_ready', async () => {
            const { id, queue, ready_at: at } = await server.enqueue({
                queue: queueName(), ready_at: Date.now() + 100,
            });
            const end = server.signal(signal);
            await until(() => Date.now() > at, 'its time has come');
            await end;
            await server.start();
            assert.equal((await server.claimOne(queue)).id, id);
        });

        it('a_job_whose_retention_ended_meanwhile_is_gone', async () => {
            const { id, queue } = await server.enqueue({
                queue: queueName(), retention: { completed_ms: 100 },
            });
            await server.claimOne(queue);
            await server.post(`/jobs/${id}/success`);
            const end = server.signal(signal);
            const over = Date.now() + 100;
            await until(() => Date.now() > over, 'its retention is over');
            await end;
            await server.start();
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
        });
    });
}

describe('a server that is killed while it enqueues', () => {
    const server = new Server();
    before(() => server.start());
    after(() => server.clean());

    it('has_every_job_it_acknowledged', async () => {
        const acknowledged = [];
        let going = true;
        const enqueue = async () => {
            while (going) {
                const res = await server.post('/jobs', { queue: 'q', type: 't', payload: 1 })
                    .catch(() => null);
                if (!res)
                    return;
                assert.equal(res.status, 201);
                acknowledged.push(res.json.id);
            }
        };
        const clients = Array.from({ length: 8 }, enqueue);
        await until(() => acknowledged.length >= 200, 'some were acknowledged');
        await server.signal('SIGKILL');
        going = false;
        await Promise.all(clients);
        await server.start();
        const { jobs } = (await server.get('/jobs?limit=2000')).json;
        const there = new Set(jobs.map((job) => job.id));
        assert.deepEqual(acknowledged.filter((id) => !there.has(id)), []);
    });
});
