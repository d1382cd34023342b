// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a job says itself of its end: until when it is kept, and what a failure means.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, useServer } = require('./harness');

const HOUR = 3600000;

function spec(fields) {
    return { queue: queueName(), type: 't', payload: 1, ...fields };
}

describe('retain_until', () => {
    const server = useServer();

    it('says_exactly_until_when_an_ended_job_is_kept', async () => {
        const until = Date.now() + 7 * HOUR;
        const retention = { completed_ms: 1, dead_ms: 1 };
        const done = await server.enqueue(spec({ retain_until: until, retention }));
        const dead = await server.enqueue(spec({ retain_until: until, retention }));
        assert.equal(done.retain_until, until);
        await server.claimOne(done.queue);
        await server.post(`/jobs/${done.id}/success`);
        await server.post(`/jobs/${dead.id}/cancel`);
        assert.equal((await server.job(done.id)).purge_at, until);
        assert.equal((await server.job(dead.id)).purge_at, until);
    });

    it('in_the_past_lets_a_job_go_when_it_ends', async () => {
        const { id } = await server.enqueue(spec({ retain_until: 1, retention: { dead_ms: HOUR } }));
        assert.equal((await server.job(id)).status, 'ready');
        assert.equal((await server.post(`/jobs/${id}/cancel`)).status, 200);
        assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
    });

    it('is_a_time_and_not_for_crons', async () => {
        for (const bad of [0, -1])
            assertError(await server.post('/jobs', spec({ retain_until: bad })), 400, 'bad_value',
                /retain_until/);
        const entry = { name: 'e', expression: '* * * * *', job: spec({ retain_until: 1 }) };
        const res = await server.request('PUT', `/crons/${queueName()}`, { entries: [entry] });
        assertError(res, 400, 'bad_value', /retain_until/);
    });
});

describe('when_no_policy', () => {
    const server = useServer({ args: ['--lost-worker-limit', '1'] });
    const failed = async (fields, failure) => {
        const job = await server.enqueue(spec({ retry_limit: 1, ...fields }));
        await server.claimOne(job.queue);
        const res = await server.post(`/jobs/${job.id}/failure`, { message: 'm', ...failure });
        assert.equal(res.status, 200, res.text);
        return res.json;
    };

    it('lets_a_job_fail_for_good_though_it_has_retries_left', async () => {
        const job = await failed({ when_no_policy: 'fail' });
        assert.equal(job.status, 'dead');
        assert.equal(job.when_no_policy, 'fail');
        assert.match(job.reason, /when_no_policy says fail/);
        assert.equal((await failed({ when_no_policy: 'default' })).status, 'scheduled');
        assert.equal((await failed()).status, 'scheduled');
    });

    it('leaves_its_retries_to_exceptions', async () => {
        const another = { exception: 'intermittent-task' };
        const job = await failed({ when_no_policy: 'fail' }, another);
        assert.equal(job.status, 'ready');
        await server.claimOne(job.queue);
        const res = await server.post(`/jobs/${job.id}/failure`, { message: 'm', ...another });
        assert.equal(res.json.resolution, 'intermittent-task');
        const final = await failed({ when_no_policy: 'fail' }, { exception: 'malformed-payload' });
        assert.equal(final.resolution, 'malformed-payload');
    });

    it('is_one_of_two_words', async () => {
        assertError(await server.post('/jobs', spec({ when_no_policy: 'retry' })), 400, 'bad_value',
            /default or fail/);
    });
});

describe('pending_runs', () => {
    const server = useServer();

    it('records_the_run_of_a_job_that_ends_before_a_worker_has_it', async () => {
        const fields = { pending_runs: true, retention: { dead_ms: HOUR } };
        const job = await server.enqueue(spec(fields));
        assert.equal(job.pending_runs, true);
        await server.post(`/jobs/${job.id}/cancel`);
        const [first, ...more] = await server.runs(job.id);
        assert.deepEqual(more, []);
        assert.equal(first.outcome, 'canceled');
        assert.equal(first.taken_at, null);
        assert.equal(first.worker, null);
        assert.equal(first.ready_at, job.ready_at);
        assert.ok(first.ended_at >= job.ready_at);
        const { json } = await server.get(`/jobs/${job.id}/explain`);
        assert.equal(json.newest_run.outcome, 'canceled');
        const { stdout, code } = await run(['job', job.id], { TENAX_URL: server.url() });
        assert.equal(code, 0);
        assert.match(stdout, /canceled/);
        const plain = await server.enqueue(spec({ ...fields, pending_runs: false }));
        assert.ok(!('pending_runs' in plain));
        await server.post(`/jobs/${plain.id}/cancel`);
        assert.deepEqual(await server.runs(plain.id), []);
    });
});

describe('hold', () => {
    const server = useServer();

    it('keeps_a_job_blocked_until_it_is_freed', async () => {
        const job = await server.enqueue(spec({ hold: true }));
        assert.equal(job.status, 'blocked');
        assert.equal(job.hold, true);
        assert.deepEqual(job.waits_for, []);
        const { json } = await server.get(`/jobs/${job.id}/explain`);
        assert.deepEqual(json.waits_for.map((obstacle) => obstacle.kind), ['hold']);
        assert.match(json.summary, /held/);
        const freed = await server.patch(`/jobs/${job.id}`, { depends_on: null });
        assert.equal(freed.json.status, 'ready');
        assert.ok(!('hold' in freed.json));
        assert.equal((await server.claimOne(job.queue)).id, job.id);
    });

    it('is_not_for_batches_or_crons', async () => {
        const batch = { key: 'k', when: 'true', fold: '$new' };
        assertError(await server.post('/jobs', spec({ hold: true, batch })), 400, 'bad_value',
            /hold/);
        const entry = { name: 'e', expression: '* * * * *', job: spec({ hold: true }) };
        const res = await server.request('PUT', `/crons/${queueName()}`, { entries: [entry] });
        assertError(res, 400, 'bad_value', /hold/);
    });
});
