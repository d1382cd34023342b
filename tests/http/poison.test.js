// SPDX-License-Identifier: Apache-2.0
'use strict';

// A job that takes its worker down, run after run, ends; a server that goes down does not end it.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, notOn, queueName, until, useServer } = require('./harness');

// The job is on a stream whose connection then breaks.
async function breakStream(server, queue, id) {
    const before = (await server.job(id)).losses ?? 0;
    const taker = await server.take(`?queue=${queue}`);
    assert.equal((await taker.next()).id, id);
    taker.close();
    await until(async () => (await server.job(id)).losses === before + 1, 'the loss is noticed');
}

async function letLeaseExpire(server, queue, id) {
    const job = await server.claimConfirmed(queue, { lease_ms: 100 });
    assert.equal(job.id, id);
    await until(async () => (await server.job(id)).status !== 'in_flight', 'the lease runs out');
}

const REASON = /^dead: its worker was lost in (\d) runs in a row$/;

describe('a client that just stops', () => {
    const server = useServer();

    it('does_not_kill_its_job_however_often_it_breaks_a_young_stream', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        for (let i = 0; i < 6; i++) {
            const taker = await server.take(`?queue=${queue}`);
            assert.equal((await taker.next()).id, id);
            taker.close();
            await until(async () => (await server.job(id)).status === 'ready', 'it is back');
        }
        assert.equal((await server.job(id)).losses, undefined);
        const runs = await server.runs(id);
        assert.deepEqual(runs.map((run) => run.outcome), Array(6).fill('worker-lost'));
    });
});

const COUNT_ALL = ['--lost-worker-min-held', '0s'];

describe('a job that loses its workers', () => {
    const server = useServer({ args: COUNT_ALL });

    it('is_dead_after_five_broken_streams_in_a_row', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        for (let i = 0; i < 5; i++) {
            assert.equal((await server.job(id)).status, 'ready');
            await breakStream(server, queue, id);
        }
        const job = await server.job(id);
        assert.equal(job.status, 'dead');
        assert.equal(job.resolution, 'poison');
        assert.equal(REASON.exec(job.reason)[1], '5');
        assert.equal(job.attempts, 0);
        const runs = await server.runs(id);
        assert.deepEqual(runs.map((run) => run.outcome), Array(5).fill('worker-lost'));
        assert.equal(runs[3].reason, "ready again: the worker's stream closed");
        assert.equal(runs[4].reason, job.reason);
    });

    it('is_dead_after_five_expired_claims_in_a_row_however_many_retries_are_left', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 100 });
        for (let i = 0; i < 5; i++)
            await letLeaseExpire(server, queue, id);
        const job = await server.job(id);
        assert.equal(job.status, 'dead');
        assert.equal(job.resolution, 'poison');
        assert.match(job.reason, REASON);
        assert.equal(job.attempts, 5);
        const errors = (await server.get(`/jobs/${id}/errors`)).json.errors;
        assert.equal(errors[4].reason, job.reason);
    });

    it('goes_on_if_a_run_in_between_ends_in_another_way', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        for (let i = 0; i < 4; i++)
            await breakStream(server, queue, id);
        const { token } = await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/release`, { token })).status, 204);
        assert.equal((await server.job(id)).losses, undefined);
        await breakStream(server, queue, id);
        assert.equal((await server.job(id)).status, 'ready');
    });

    it('has_all_its_runs_again_once_it_is_brought_back', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        for (let i = 0; i < 5; i++)
            await breakStream(server, queue, id);
        const back = await server.post(`/jobs/${id}/retry`);
        assert.equal(back.json.status, 'ready');
        assert.equal(back.json.resolution, undefined);
        await breakStream(server, queue, id);
        assert.equal((await server.job(id)).status, 'ready');
    });
});

describe('the limit of lost workers', () => {
    it('does_not_count_what_a_stop_or_a_crash_of_the_server_cuts_off',
        notOn('standby', 'the owner sees its workers leave'), async () => {
        const server = new Server({ args: [...COUNT_ALL, '--lost-worker-limit', '1'] });
        const queue = queueName();
        await server.start();
        const { id } = await server.enqueue({ queue });
        for (const signal of ['SIGTERM', 'SIGKILL']) {
            const taker = await server.take(`?queue=${queue}`);
            assert.equal((await taker.next()).id, id);
            await server.signal(signal);
            await server.start();
            const job = await server.job(id);
            assert.equal(job.status, 'ready');
            assert.equal(job.losses, undefined);
        }
        const outcomes = (await server.runs(id)).map((run) => run.outcome);
        assert.deepEqual(outcomes, ['worker-lost', 'worker-lost']);
        await breakStream(server, queue, id);
        assert.equal((await server.job(id)).resolution, 'poison');
        assert.match((await server.job(id)).reason, /^dead: its worker was lost in 1 run$/);
        await server.clean();
    });

    it('may_be_switched_off', async () => {
        const server = new Server({ args: [...COUNT_ALL, '--lost-worker-limit', '0'] });
        await server.start();
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        for (let i = 0; i < 7; i++)
            await breakStream(server, queue, id);
        assert.equal((await server.job(id)).status, 'ready');
        await server.clean();
    });
});
