// SPDX-License-Identifier: Apache-2.0
'use strict';

// A preempted run that goes on for a while: its retry waits for its end, or for the grace period.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, useServer } = require('./harness');

const backoff = (ms) => ({ base_ms: ms - 1000, exponent: 1, jitter_ms: 0 });

// A job whose run 0 was preempted just now, with its token.
async function preempted(server, grace, fields = {}, more = {}) {
    const queue = queueName();
    await server.enqueue({ queue, ...fields });
    const { id, token } = await server.claimOne(queue);
    const res = await server.post(`/jobs/${id}/failure`, {
        token, message: 'preempted', condition: 'Preempted', grace_period_ms: grace, ...more,
    });
    assert.equal(res.status, 200, res.text);
    return { queue, id, token, job: res.json };
}

const terminated = (server, id, body) => server.post(`/jobs/${id}/terminated`, body);

describe('a preempted run', () => {
    const server = useServer();

    it('is_waited_for_until_its_grace_period_is_over', async () => {
        const { id, job } = await preempted(server, 3600000, { backoff: backoff(60000) });
        assert.equal(job.status, 'scheduled');
        assert.equal(job.ready_at - job.failed_at, 3600000);
        assert.deepEqual(job.grace, {
            run: 0, until: job.ready_at, backoff_until: job.failed_at + 60000,
        });
        assert.match(job.reason,
            /^retry 1 of 20 that cost the job nothing \(culprit disruption\), in 1 min, but not before the preempted run has ended /);
        const [run] = await server.runs(id);
        assert.equal(run.grace_ends_at, job.ready_at);
        assert.equal(run.retry_at, job.ready_at);
        assert.equal(run.reason, job.reason);
    });

    it('makes_way_when_it_has_ended_and_the_backoff_is_over', async () => {
        const { queue, id, token, job } = await preempted(server, 3600000,
            { backoff: backoff(1000) });
        // The backoff is waited for in any case.
        const ended = await terminated(server, id, { run: 0, token });
        assert.equal(ended.status, 200, ended.text);
        assert.ok(ended.json.ready_at >= job.grace.backoff_until);
        assert.ok(ended.json.ready_at < job.grace.until);
        assert.ok(ended.json.grace.terminated_at >= job.failed_at);
        assert.match(ended.json.reason, /; it has ended$/);
        const next = await server.claimOne(queue, { wait_ms: 30000 });
        assert.equal(next.id, id);
        assert.ok(next.dequeued_at >= job.grace.backoff_until);
        assert.equal(next.grace, undefined);
        assertError(await terminated(server, id, { run: 0, token }), 409, 'stale_token');
        assertError(await terminated(server, id, { run: 1, token: next.token }), 422,
            'unprocessable');
    });

    it('may_say_so_twice', async () => {
        const { id, token } = await preempted(server, 3600000, { backoff: backoff(60000) });
        const first = await terminated(server, id, { run: 0, token });
        const second = await terminated(server, id, { run: 0, token });
        assert.equal(second.status, 200, second.text);
        assert.deepEqual(second.json, first.json);
    });

    it('is_known_by_its_number_and_its_token', async () => {
        const { id, token, job } = await preempted(server, 3600000);
        assertError(await terminated(server, id, { run: 1, token }), 409, 'stale_token');
        assertError(await terminated(server, id, { run: 0, token: '00000000000000aa' }), 409,
            'stale_token');
        assertError(await terminated(server, id, { run: 0 }), 400, 'missing_field', /^token/);
        assertError(await terminated(server, id, { token }), 400, 'missing_field', /^run/);
        assertError(await terminated(server, id, { run: -1, token }), 400, 'bad_value', /^run: /);
        assert.equal((await server.job(id)).ready_at, job.ready_at);
    });

    it('whose_end_is_awaited_is_known_after_a_crash', async () => {
        const { id, token, job } = await preempted(server, 3600000, { backoff: backoff(60000) });
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(id)).ready_at, job.ready_at);
        const ended = await terminated(server, id, { run: 0, token });
        assert.equal(ended.status, 200, ended.text);
        assert.equal(ended.json.ready_at, job.grace.backoff_until);
    });

    it('is_not_waited_for_if_the_job_is_dead', async () => {
        const { id, token, job } = await preempted(server, 3600000, {}, { kill: true });
        assert.equal(job.status, 'dead');
        assert.equal(job.grace, undefined);
        assertError(await terminated(server, id, { run: 0, token }), 409, 'stale_token');
    });
});

describe('a grace period', () => {
    const server = useServer();

    it('is_for_preempted_runs_only_and_at_most_a_week', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        for (const fields of [
            { grace_period_ms: 5 },
            { grace_period_ms: 5, condition: 'Evicted' },
            { grace_period_ms: 7 * 86400000 + 1, condition: 'Preempted' },
            { grace_period_ms: -1, condition: 'Preempted' },
        ]) {
            const res = await server.post(`/jobs/${id}/failure`, { message: 'm', ...fields });
            const apart = fields.condition !== 'Preempted';
            assertError(res, apart ? 422 : 400, apart ? 'unprocessable' : 'bad_value', /^grace_period_ms: /);
        }
        assert.equal((await server.job(id)).status, 'in_flight');
    });
});
