// SPDX-License-Identifier: Apache-2.0
'use strict';

// What workers report, what becomes of the job, and what is kept of it.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, queueName, until, useServer } = require('./harness');

const UNKNOWN = '0'.repeat(24) + '1';

// Enqueues a job and claims it.
async function claimNew(server, fields = {}) {
    const queue = queueName();
    await server.enqueue({ queue, ...fields });
    return server.claimOne(queue);
}

async function fail(server, id, fields = {}) {
    const res = await server.post(`/jobs/${id}/failure`, { message: 'it broke', ...fields });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

// Fails the job and claims it anew, as often as said.
async function failAndClaim(server, job, times) {
    for (let i = 0; i < times; i++) {
        const failed = await fail(server, job.id, { retry_at: 0 });
        assert.equal(failed.status, 'scheduled');
        await server.claimOne(job.queue);
    }
}

describe('a success', () => {
    const server = useServer();

    it('ends_the_job_which_is_gone_if_nothing_is_retained', async () => {
        const { id, queue } = await claimNew(server);
        const res = await server.post(`/jobs/${id}/success`);
        assert.equal(res.status, 204);
        assert.equal(res.text, '');
        assert.ok(!('content-length' in res.headers));
        assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
        assertError(await server.post(`/jobs/${id}/success`), 404, 'not_found');
    });

    it('of_a_claimed_run_needs_its_token_even_of_the_first', async () => {
        const { id, token } = await claimNew(server);
        const bare = { token: null };
        for (const [verb, body] of [['success', bare], ['success', { ...bare, result: 1 }], ['release', bare],
            ['success', { ...bare, run: 0 }], ['failure', { ...bare, message: 'm' }], ['renew', bare],
            ['progress', { ...bare, checkpoint: 1 }]])
            assertError(await server.post(`/jobs/${id}/${verb}`, body), 422, 'run_token_required',
                /the answer to its claim has as 'token'/);
        const { status, attempts } = await server.job(id);
        assert.deepEqual([status, attempts], ['in_flight', 0]);
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
    });

    it('of_a_streams_run_needs_none_unless_it_names_another_worker', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const one = await server.take(`?queue=${queue}`, { 'worker-id': 'one' });
        await one.next();
        one.close();
        const two = await server.take(`?queue=${queue}`, { 'worker-id': 'two' });
        await two.next();
        assertError(await server.post(`/jobs/${id}/success`, {}, { 'worker-id': 'one' }), 409, 'stale_token',
            /which another worker has/);
        assert.deepEqual((await server.post('/jobs/success', { ids: [id] }, { 'worker-id': 'one' })).json.not_found, [id]);
        assert.equal((await server.job(id)).status, 'in_flight');
        assert.equal((await server.post(`/jobs/${id}/success`, {}, { 'worker-id': 'two' })).status, 204);
        const next = await server.enqueue({ queue });
        await two.next();
        assert.equal((await server.post('/jobs/success', { ids: [next.id] })).status, 204);
        two.close();
    });

    it('may_name_its_run_by_its_index', async () => {
        const job = await claimNew(server);
        const path = `/jobs/${job.id}`;
        const progress = { value: 0.1 };
        assertError(await server.post(`${path}/success`, { run: 1 }), 409, 'stale_token');
        assertError(await server.post(`${path}/failure`, { message: 'm', run: 1 }), 409,
            'stale_token');
        assertError(await server.post(`${path}/renew`, { run: 1 }), 409, 'stale_token');
        assertError(await server.post(`${path}/release`, { run: 1, token: job.token }), 409,
            'stale_token');
        assertError(await server.post(`${path}/progress`, { run: 1, progress }), 409,
            'stale_token');
        for (const run of [-1, 4294967296, 0.5])
            assertError(await server.post(`${path}/success`, { run }), 400, 'bad_value');
        assertError(await server.post(`${path}/success`, { run: '0' }), 400, 'wrong_type');
        assert.equal((await server.post(`${path}/renew`, { run: 0 })).status, 200);
        assert.equal((await server.post(`${path}/progress`, { run: 0, progress })).status, 204);
        assert.equal((await fail(server, job.id, { run: 0, retry_at: 0 })).attempts, 1);
        assertError(await server.post(`${path}/success`, { run: 0 }), 409, 'stale_token');
        await server.claimOne(job.queue);
        assert.equal((await server.post(`${path}/success`, { run: 1 })).status, 204);
    });

    it('may_have_an_empty_object_as_its_body', async () => {
        const { id } = await claimNew(server);
        assert.equal((await server.post(`/jobs/${id}/success`, {})).status, 204);
    });

    it('carries_the_token_of_its_run_if_it_wants_to_be_sure', async () => {
        const { id, token } = await claimNew(server);
        const other = (token[0] === 'f' ? '0' : 'f') + token.slice(1);
        assertError(await server.post(`/jobs/${id}/success`, { token: other }), 409, 'stale_token');
        assert.equal((await server.job(id)).status, 'in_flight');
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
    });

    it('is_refused_with_what_is_no_token', async () => {
        const { id } = await claimNew(server);
        for (const token of ['', 'x', '0'.repeat(16), 'F'.repeat(16), '1'.repeat(15),
            '1'.repeat(17)])
            assertError(await server.post(`/jobs/${id}/success`, { token }), 400, 'bad_value',
                /token/);
        assertError(await server.post(`/jobs/${id}/success`, { token: 1 }), 400, 'wrong_type');
        assert.equal((await server.job(id)).status, 'in_flight');
    });

    it('of_a_job_that_nobody_holds_is_refused', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        assertError(await server.post(`/jobs/${id}/success`), 404, 'not_in_flight', /ready/);
        const later = await server.enqueue({ queue: queueName(), ready_at: Date.now() + 60000 });
        assertError(await server.post(`/jobs/${later.id}/success`), 404, 'not_in_flight',
            /scheduled/);
    });

    it('of_an_unknown_job_is_refused', async () => {
        for (const id of [UNKNOWN, 'x', '~', 'A'.repeat(25), '0'.repeat(26), '%20'])
            assertError(await server.post(`/jobs/${id}/success`), 404, 'not_found');
    });
});

describe('many successes', () => {
    const server = useServer();

    async function claimMany(count) {
        const queue = queueName();
        const jobs = Array.from({ length: count }, () => ({ queue, type: 't', payload: 1 }));
        await server.post('/jobs/bulk', { jobs });
        const claimed = await server.claim({ queues: [queue], count });
        assert.equal(claimed.length, count);
        return claimed.map(({ id, token }) => ({ id, token }));
    }

    it('end_all_the_jobs', async () => {
        const jobs = await claimMany(10);
        const ids = jobs.map((job) => job.id);
        const res = await server.post('/jobs/success', { jobs });
        assert.equal(res.status, 204);
        assert.equal(res.text, '');
        for (const id of ids)
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
    });

    it('end_those_that_are_in_flight_and_name_the_others', async () => {
        const [a, b] = await claimMany(2);
        const waiting = await server.enqueue({ queue: queueName() });
        const bad = [waiting.id, UNKNOWN, 'x', 'é"\\'];
        const res = await server.post('/jobs/success', { ids: bad, jobs: [a, b] });
        assertError(res, 422, 'unprocessable');
        assert.deepEqual([...res.json.not_found].sort(), [...bad].sort());
        assert.deepEqual(res.json.jobs.map((job) => [job.id, job.code]),
            [[waiting.id, 'not_in_flight'], [UNKNOWN, 'not_found']]);
        for (const { id } of [a, b])
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
        assert.equal((await server.job(waiting.id)).status, 'ready');
    });

    it('count_an_id_that_comes_twice_once', async () => {
        const [a, b] = await claimMany(2);
        const res = await server.post('/jobs/success', { jobs: [a, b, a, a] });
        assert.equal(res.status, 204, res.text);
        const again = await server.post('/jobs/success', { ids: [a.id, a.id] });
        assertError(again, 422, 'unprocessable');
        assert.deepEqual(again.json.not_found, [a.id]);
    });

    it('take_the_first_runs_of_jobs_by_their_ids_alone', async () => {
        const [a, b, c] = await claimMany(3);
        assert.equal((await server.post('/jobs/success', { ids: [a.id, b.id] })).status, 204);
        await server.post(`/jobs/${c.id}/release`, { token: c.token });
        const [again] = await server.claim({ queues: [(await server.job(c.id)).queue], count: 1 });
        assert.equal(again.id, c.id);
        const late = await server.post('/jobs/success', { ids: [c.id] }); // of the first run, it may be
        assert.deepEqual([late.status, late.json.not_found], [422, [c.id]]);
        assert.deepEqual(late.json.jobs.map((job) => job.code), ['run_token_required']);
    });

    it('need_the_tokens_of_later_claimed_runs_and_say_so', async () => {
        const first = await claimMany(3);
        for (const { id, token } of first)
            await server.post(`/jobs/${id}/release`, { token });
        const { queue } = await server.job(first[0].id);
        const [a, b, c] = (await server.claim({ queues: [queue], count: 3 })).map(({ id, token }) => ({ id, token }));
        const wrong = { id: b.id, token: c.token };
        const res = await server.post('/jobs/success', { ids: [a.id], jobs: [wrong, { ...c, run: 1 }] });
        assertError(res, 422, 'unprocessable', /1 reports lack the token .*"jobs"/);
        assert.deepEqual(res.json.not_found, [a.id, b.id]);
        assert.deepEqual(res.json.jobs.map((job) => [job.id, job.code]),
            [[a.id, 'run_token_required'], [b.id, 'stale_token']]);
        assert.match(res.json.jobs[0].error, /the answer to its claim has as 'token'/);
        for (const { id } of [a, b])
            assert.equal((await server.job(id)).status, 'in_flight');
        assertError(await server.post('/jobs/success', { jobs: [{ id: a.id, run: 1 }] }), 422, 'unprocessable');
        assertError(await server.get(`/jobs/${c.id}`), 404, 'not_found');
        assert.equal((await server.post('/jobs/success', { jobs: [a, b] })).status, 204);
    });

    it('take_a_repetition_as_a_single_report_does', async () => {
        const queue = queueName();
        await server.enqueue({ queue, retention: { completed_ms: 60000 } });
        const [{ id, token }] = await server.claim({ queues: [queue] });
        for (let i = 0; i < 2; i++)
            assert.equal((await server.post('/jobs/success', { jobs: [{ id, token }] })).status, 204);
    });

    it('name_the_place_of_what_is_malformed', async () => {
        const [a] = await claimMany(1);
        for (const [job, sentence] of [[{ id: 'x', token: a.token }, /jobs\[1\]/], [{ token: a.token }, /jobs\[1\].*id/],
            [{ id: a.id, token: 'x' }, /jobs\[1\].*token/]]) {
            const res = await server.post('/jobs/success', { jobs: [a, job] });
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, sentence);
        }
        assert.equal((await server.job(a.id)).status, 'in_flight', 'nothing is partly applied');
    });

    it('are_refused_if_they_are_none', async () => {
        for (const none of [{ ids: [] }, { jobs: [] }, { ids: [UNKNOWN], jobs: [] }])
            assertError(await server.post('/jobs/success', none), 400, 'bad_value', /(ids|jobs): must not be empty/);
    });

    it('need_a_list_of_texts', async () => {
        const [a] = await claimMany(1);
        assertError(await server.post('/jobs/success', {}), 400, 'missing_field', /ids/);
        assertError(await server.post('/jobs/success'), 400, 'bad_json');
        assertError(await server.post('/jobs/success', { ids: null }), 400, 'missing_field', /ids or jobs/);
        for (const ids of ['x', 7, {}, [a.id, 7], [a.id, null]])
            assertError(await server.post('/jobs/success', { ids }), 400, 'wrong_type', /ids/);
        for (const jobs of ['x', 7, {}, [a, 7], [a, null]])
            assertError(await server.post('/jobs/success', { jobs }), 400, 'wrong_type', /jobs/);
        assert.equal((await server.job(a.id)).status, 'in_flight', 'nothing is partly applied');
    });
});

describe('renewals of many leases', () => {
    const server = useServer();

    async function claimMany(count, lease_ms = 30_000) {
        const queue = queueName();
        const jobs = Array.from({ length: count }, () => ({ queue, type: 't', payload: 1 }));
        await server.post('/jobs/bulk', { jobs });
        return server.claim({ queues: [queue], count, lease_ms });
    }
    const refOf = (job) => ({ id: job.id, token: job.token });

    it('give_each_its_new_end', async () => {
        const claimed = await claimMany(5);
        const jobs = claimed.map(refOf);
        jobs[2].lease_ms = 7_200_000;
        jobs[3].run = 0;
        const res = await server.post('/jobs/renew', { jobs, lease_ms: 3_600_000 });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.jobs.map((job) => job.id), claimed.map((job) => job.id));
        const ends = res.json.jobs.map((job) => job.lease_expires_at);
        for (const [i, end] of ends.entries()) {
            assert.equal(end - ends[0], i === 2 ? 3_600_000 : 0);
            assert.ok(end > claimed[i].lease_expires_at);
        }
        for (const job of claimed)
            assert.equal((await server.post(`/jobs/${job.id}/success`, { token: job.token })).status, 204);
    });

    it('renew_those_that_may_be_renewed_and_say_why_the_others_are_not', async () => {
        const [a, ended, b] = await claimMany(3);
        await server.post(`/jobs/${ended.id}/release`, { token: ended.token });
        const unknown = { id: UNKNOWN, token: a.token };
        const stale = { id: a.id, token: '0123456789abcdef' };
        const res = await server.post('/jobs/renew',
            { jobs: [refOf(a), refOf(ended), unknown, stale, refOf(b)], lease_ms: 3_600_000 });
        assertError(res, 422, 'unprocessable', /3 of these/);
        const codes = res.json.jobs.map((job) => job.code);
        assert.deepEqual(codes, [undefined, 'stale_token', 'not_found', 'stale_token', undefined]);
        for (const job of res.json.jobs)
            assert.equal(job.code === undefined, typeof job.lease_expires_at === 'number');
        for (const job of res.json.jobs)
            assert.equal(job.code === undefined, job.error === undefined);
    });

    it('survive_a_restart', async () => {
        const claimed = await claimMany(3);
        const res = await server.post('/jobs/renew',
            { jobs: claimed.map(refOf).slice(1), lease_ms: 3_600_000 });
        await server.signal('SIGKILL');
        await server.start();
        for (const [i, job] of claimed.entries()) {
            const run = (await server.get(`/jobs/${job.id}/runs`)).json.runs[0];
            // or later, by a grace
            assert.ok(run.lease_expires_at >=
                (i ? res.json.jobs[i - 1].lease_expires_at : job.lease_expires_at));
            assert.equal((await server.job(job.id)).status, 'in_flight');
            assert.equal((await server.post(`/jobs/${job.id}/success`, { token: job.token })).status, 204);
        }
    });

    it('are_refused_as_a_whole_if_one_is_malformed', async () => {
        const [a] = await claimMany(1);
        const bad = async (jobs, code, message, more) =>
            assertError(await server.post('/jobs/renew', { jobs, ...more }), 400, code, message);
        await bad([], 'bad_value', /jobs/);
        await bad([refOf(a), { id: a.id }], 'missing_field', /jobs\[1\].*token/);
        await bad([refOf(a), { id: 'x', token: a.token }], 'bad_id', /jobs\[1\]/);
        await bad([{ ...refOf(a), lease_ms: 1 }], 'bad_value', /lease_ms/);
        await bad([refOf(a)], 'bad_value', /lease_ms/, { lease_ms: 1 });
        await bad(undefined, 'missing_field', /jobs/);
    });
});

describe('a failure', () => {
    const server = useServer();

    it('schedules_the_job_anew_by_the_default_backoff', async () => {
        const { id } = await claimNew(server);
        const job = await fail(server, id);
        assert.equal(job.status, 'scheduled');
        assert.equal(job.attempts, 1);
        assert.ok(!('payload' in job));
        const delay = job.ready_at - job.failed_at;
        assert.ok(delay >= 16000 && delay <= 46000, `15 s + 1 s + up to 30 s: ${delay}`);
        assert.match(job.reason, /^retry 1 of 25, default backoff, in [0-9.]+ s$/);
        const { payload, ...read } = await server.job(id);
        assert.equal(payload, null);
        assert.deepEqual(read, job);
    });

    it('schedules_the_job_anew_by_its_own_backoff', async () => {
        const backoff = { base_ms: 100, exponent: 2, jitter_ms: 0 };
        const job = await claimNew(server, { backoff });
        await failAndClaim(server, job, 2);
        const failed = await fail(server, job.id);
        assert.equal(failed.attempts, 3);
        assert.equal(failed.ready_at - failed.failed_at, 100 + 9000);
        assert.match(failed.reason, /^retry 3 of 25, own backoff, in 9\.1 s$/);
    });

    it('adds_chance_within_the_bounds_of_the_jitter', async () => {
        const delays = [];
        for (let i = 0; i < 20; i++) {
            const { id } = await claimNew(server, {
                backoff: { base_ms: 0, exponent: 1, jitter_ms: 10000 },
            });
            const job = await fail(server, id);
            delays.push(job.ready_at - job.failed_at);
        }
        assert.ok(delays.every((delay) => delay >= 1000 && delay <= 11000), `${delays}`);
        assert.ok(new Set(delays).size > 10, `not all the same: ${delays}`);
    });

    it('is_the_last_if_no_retries_are_allowed', async () => {
        const { id } = await claimNew(server, { retry_limit: 0 });
        const job = await fail(server, id);
        assert.equal(job.status, 'dead');
        assert.equal(job.attempts, 1);
        assert.equal(job.resolution, 'failed');
        assert.equal(job.reason, 'dead: no retries are allowed');
        assert.equal(job.purge_at - job.failed_at, 7 * 24 * 3600 * 1000);
    });

    for (const limit of [1, 3]) {
        it(`is_the_last_after_${limit}_of_${limit}_retries`, async () => {
            const queue = queueName();
            // A second is the least wait there is, so the clock is helped by retry_at.
            await server.enqueue({ queue, retry_limit: limit });
            for (let n = 1; n <= limit; n++) {
                const { id } = await server.claimOne(queue);
                const failed = await fail(server, id, { retry_at: 1 });
                assert.equal(failed.status, 'scheduled');
                assert.equal(failed.attempts, n);
            }
            const { id } = await server.claimOne(queue);
            const dead = await fail(server, id);
            assert.equal(dead.status, 'dead');
            assert.equal(dead.attempts, limit + 1);
            assert.equal(dead.reason, limit === 1 ? 'dead: the only retry is used up'
                : 'dead: all 3 retries are used up');
        });

        it(`is_not_the_last_within_${limit}_retries`, async () => {
            const job = await claimNew(server, { retry_limit: limit });
            await failAndClaim(server, job, limit - 1);
            const failed = await fail(server, job.id);
            assert.equal(failed.status, 'scheduled');
            assert.match(failed.reason, new RegExp(`^retry ${limit} of ${limit}, `));
        });
    }

    it('may_name_the_time_of_the_retry_even_past_the_limit', async () => {
        const { id } = await claimNew(server, { retry_limit: 0 });
        const retryAt = Date.now() + 3600000;
        const job = await fail(server, id, { retry_at: retryAt });
        assert.equal(job.status, 'scheduled');
        assert.equal(job.ready_at, retryAt);
        assert.match(job.reason, /^retry 1, when the worker asked, in /);
    });

    it('with_a_retry_time_in_the_past_is_answered_as_scheduled_and_ready_at_once', async () => {
        const { id, queue } = await claimNew(server, { retry_limit: 0 });
        const retryAt = Date.now() - 1000;
        const job = await fail(server, id, { retry_at: retryAt });
        assert.equal(job.status, 'scheduled');
        assert.equal(job.ready_at, retryAt);
        assert.equal((await server.job(id)).status, 'ready');
        assert.equal(job.reason, 'retry 1, when the worker asked, at once');
        assert.equal((await server.claimOne(queue)).attempts, 1);
    });

    it('may_kill_the_job', async () => {
        const { id } = await claimNew(server);
        const job = await fail(server, id, { kill: true, retry_at: Date.now() + 1000 });
        assert.equal(job.status, 'dead');
        assert.equal(job.reason, 'dead: killed by the worker');
    });

    it('that_does_not_kill_may_still_be_the_last', async () => {
        const { id } = await claimNew(server, { retry_limit: 0 });
        assert.equal((await fail(server, id, { kill: false })).status, 'dead');
    });

    it('carries_a_token_if_it_wants_to_be_sure', async () => {
        const { id, token } = await claimNew(server);
        const body = { message: 'm', token: '0123456789abcdef' };
        assertError(await server.post(`/jobs/${id}/failure`, body), 409, 'stale_token');
        assert.equal((await server.job(id)).status, 'in_flight');
        assert.equal((await fail(server, id, { token })).attempts, 1);
        assertError(await server.post(`/jobs/${id}/success`, { token }), 409, 'stale_token');
        assertError(await server.post(`/jobs/${id}/failure`, { message: 'm' }), 404,
            'not_in_flight');
    });

    it('of_an_unknown_job_is_refused', async () => {
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.post(`/jobs/${id}/failure`, { message: 'm' }), 404,
                'not_found');
    });

    it('needs_a_message_and_fields_of_their_types', async () => {
        const { id } = await claimNew(server);
        const post = (body) => server.post(`/jobs/${id}/failure`, body);
        assertError(await post({}), 400, 'missing_field', /message/);
        assertError(await post(), 400, 'bad_json');
        const cases = {
            message: [null, 7, []], error_type: [7], backtrace: [{}], kill: ['true', 1],
            retry_at: ['now', true], exit_code: ['1'], signal: ['9'], run_ms: ['5'], token: [5],
        };
        for (const [name, values] of Object.entries(cases))
            for (const value of values)
                assertError(await post({ message: 'm', [name]: value }), 400, 'wrong_type',
                    new RegExp(`^${name}: `));
        for (const [name, value] of [['retry_at', -1], ['retry_at', 1e300], ['exit_code', 1.5],
            ['exit_code', 4294967296], ['run_ms', -1]])
            assertError(await post({ message: 'm', [name]: value }), 400, 'bad_value',
                new RegExp(`^${name}: `));
        assert.equal((await server.job(id)).status, 'in_flight');
    });

    it('may_have_null_for_every_optional_field', async () => {
        const { id } = await claimNew(server);
        const job = await fail(server, id, {
            error_type: null, backtrace: null, exit_code: null, signal: null, run_ms: null,
            retry_at: null, kill: null, run: null,
        });
        assert.equal(job.status, 'scheduled');
    });
});

describe('the errors of a job', () => {
    const server = useServer();

    it('are_kept_with_all_that_was_reported', async () => {
        const job = await claimNew(server, { retry_limit: 0 });
        const report = {
            message: 'no such host\n"é"', error_type: 'DnsError', backtrace: 'a\n  b\n\tc',
            exit_code: 75, run_ms: 1234,
        };
        const failed = await fail(server, job.id, report);
        const res = await server.get(`/jobs/${job.id}/errors`);
        assert.equal(res.status, 200);
        const error = {
            ...report, attempt: 1, run: 0, dequeued_at: job.dequeued_at,
            failed_at: failed.failed_at, reason: 'dead: no retries are allowed',
            culprit: 'dependency', culprit_evidence: 'exit code 75, EX_TEMPFAIL: try again later',
        };
        assert.deepEqual(res.json.errors, [error]);
        assert.deepEqual((await server.get(`/jobs/${job.id}/errors/1`)).json, error);
    });

    it('tell_an_exit_code_from_a_signal', async () => {
        const job = await claimNew(server);
        await fail(server, job.id, { signal: 9, retry_at: 0, run_ms: 0 });
        await server.claimOne(job.queue);
        await fail(server, job.id, { exit_code: -1, error_type: '' });
        const { errors } = (await server.get(`/jobs/${job.id}/errors`)).json;
        assert.deepEqual(errors.map((e) => [e.attempt, e.run, e.signal, e.exit_code, e.run_ms]),
            [[1, 0, 9, undefined, 0], [2, 1, undefined, -1, undefined]]);
        assert.ok(!('error_type' in errors[1]), 'what was not said is not there');
        const runs = await server.runs(job.id);
        assert.deepEqual(runs.map((r) => [r.run, r.signal, r.exit_code]),
            [[0, 9, undefined], [1, undefined, -1]]);
    });

    it('come_in_pages_in_both_directions', async () => {
        const job = await claimNew(server);
        await failAndClaim(server, job, 7);
        const seen = [];
        let next = `/jobs/${job.id}/errors?limit=3`;
        let last;
        for (; next; next = last.pages.next) {
            last = (await server.get(next)).json;
            seen.push(last.errors.map((e) => e.attempt));
        }
        assert.deepEqual(seen, [[1, 2, 3], [4, 5, 6], [7]]);
        const back = (await server.get(last.pages.prev)).json;
        assert.deepEqual(back.errors.map((e) => e.attempt).sort(), [4, 5, 6]);
        const desc = (await server.get(`/jobs/${job.id}/errors?order=desc&limit=5`)).json;
        assert.deepEqual(desc.errors.map((e) => e.attempt), [7, 6, 5, 4, 3]);
        assert.equal(desc.pages.prev, null);
        assert.deepEqual((await server.get(desc.pages.next)).json.errors.map((e) => e.attempt),
            [2, 1]);
    });

    it('are_asked_for_by_a_number_that_is_one', async () => {
        const job = await claimNew(server);
        await failAndClaim(server, job, 1);
        assertError(await server.get(`/jobs/${job.id}/errors/2`), 404, 'not_found', /attempt 2/);
        for (const attempt of ['0', '-1', 'x', '1.5', '99999999999'])
            assertError(await server.get(`/jobs/${job.id}/errors/${attempt}`), 400, 'bad_value',
                /attempt/);
        for (const id of [UNKNOWN, 'x'])
            for (const tail of ['errors', 'errors/1', 'runs'])
                assertError(await server.get(`/jobs/${id}/${tail}`), 404, 'not_found');
    });

    it('refuse_bad_parameters', async () => {
        const { id } = await claimNew(server);
        for (const tail of ['errors', 'runs'])
            for (const query of ['limit=0', 'limit=2001', 'limit=x', 'order=up', 'from=x',
                'from=-1'])
                assertError(await server.get(`/jobs/${id}/${tail}?${query}`), 400, 'bad_value');
    });
});

describe('many successes', () => {
    const server = useServer();

    it('that_are_refused_are_named_as_their_own_sender_named_them', async () => {
        const asked = Array.from({ length: 40 }, (_, i) => [`nonsense-${i}`, `no id ${'x'.repeat(i)}`]);
        const answers = await Promise.all(asked.map((ids) => server.post('/jobs/success', { ids })));
        assert.deepEqual(answers.map((answer) => answer.json.not_found), asked);
    });
});

describe('the runs of a job', () => {
    const server = useServer();

    it('that_is_given_back_for_later_is_scheduled_for_then', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const first = await server.claimOne(queue), later = Date.now() + 3600000;
        const early = await server.post(`/jobs/${id}/release`, { token: first.token, ready_at: 'soon' });
        assertError(early, 400, 'wrong_type', /ready_at/);
        const back = await server.post(`/jobs/${id}/release`, { token: first.token, ready_at: later });
        assert.equal(back.status, 204);
        const job = await server.job(id);
        assert.deepEqual([job.status, job.ready_at, job.attempts], ['scheduled', later, 0]);
        assert.deepEqual((await server.get(`/jobs?queue=${queue}&status=ready`)).json.jobs, []);
        await server.patch(`/jobs/${id}`, { ready_at: null });
        const again = await server.claimOne(queue);
        await server.post(`/jobs/${id}/release`, { token: again.token, ready_at: 1 });
        assert.equal((await server.job(id)).status, 'ready', 'a time that is over is now');
    });

    it('that_is_given_back_for_a_while_is_scheduled_by_the_clock_of_the_server', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const first = await server.claimOne(queue), before = Date.now();
        const both = { token: first.token, delay_ms: 1, ready_at: 1 };
        assertError(await server.post(`/jobs/${id}/release`, both), 400, 'bad_value', /exclude/);
        assertError(await server.post(`/jobs/${id}/release`, { token: first.token, delay_ms: -1 }), 400, 'bad_value');
        await server.post(`/jobs/${id}/release`, { token: first.token, delay_ms: 3600000 });
        const job = await server.job(id);
        assert.deepEqual([job.status, job.attempts], ['scheduled', 0]);
        assert.ok(job.ready_at >= before + 3600000 && job.ready_at <= Date.now() + 3600000);
        await server.patch(`/jobs/${id}`, { ready_at: null });
        const again = await server.claimOne(queue);
        await server.post(`/jobs/${id}/release`, { token: again.token, delay_ms: 0 });
        assert.equal((await server.job(id)).status, 'ready');
    });

    for (const how of ['lease', 'stream'])
        it(`that_is_given_back_for_later_waits_over_a_restart_if_a_${how}_held_it`, async () => {
            const queue = queueName(), later = Date.now() + 3600000;
            const { id } = await server.enqueue({ queue });
            const taker = how === 'stream' && await server.take(`?queue=${queue}`);
            const { token } = taker ? await taker.next() : await server.claimOne(queue);
            assert.equal((await server.post(`/jobs/${id}/release`, { token, ready_at: later })).status, 204);
            taker?.close?.();
            for (const signal of [null, 'SIGKILL']) {
                if (signal) {
                    await server.signal(signal);
                    await server.start();
                }
                const job = await server.job(id);
                assert.deepEqual([job.status, job.ready_at, job.attempts], ['scheduled', later, 0]);
                assert.equal((await server.runs(id))[0].outcome, 'returned');
            }
            await server.patch(`/jobs/${id}`, { ready_at: Date.now() + 300 });
            assert.equal((await server.claimOne(queue, { wait_ms: 20000 })).id, id);
        });

    it('tell_every_attempt_its_outcome_and_why', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retention: { completed_ms: 60000 } });
        assert.deepEqual(await server.runs(id), []);
        const first = await server.claimOne(queue, { worker: 'anna', lease_ms: 60000 });
        const open = await server.runs(id);
        assert.deepEqual(open, [{
            run: 0, worker: 'anna', ready_at: first.ready_at, taken_at: first.dequeued_at,
            lease_expires_at: first.lease_expires_at, ended_at: null, outcome: 'running',
                reason: null,
        }]);
        assert.equal(first.lease_expires_at - first.dequeued_at, 60000);
        const failed = await fail(server, id, { message: 'm', error_type: 'E', retry_at: 5 });
        await server.claimOne(queue, { worker: 'bert' });
        await server.post(`/jobs/${id}/release`);
        await server.claimOne(queue);
        await server.post(`/jobs/${id}/success`);
        const runs = await server.runs(id);
        assert.deepEqual(runs.map((r) => [r.run, r.worker, r.outcome, r.reason]), [
            [0, 'anna', 'failed', 'retry 1, when the worker asked, at once'],
            [1, 'bert', 'returned', 'ready again: the worker gave it back'],
            [2, null, 'completed', 'completed at attempt 2'],
        ]);
        assert.equal(runs[0].attempt, 1);
        assert.equal(runs[0].message, 'm');
        assert.equal(runs[0].error_type, 'E');
        assert.equal(runs[0].retry_at, 5);
        assert.equal(runs[0].ended_at, failed.failed_at);
        for (const run of runs)
            assert.ok(run.ready_at <= run.taken_at && run.taken_at <= run.ended_at);
        assert.ok(runs[1].ready_at >= runs[0].ended_at);
        assert.equal(runs[2].ready_at, runs[1].ended_at, 'since it was given back');
    });

    it('come_with_the_job_if_asked_for', async () => {
        const job = await claimNew(server);
        await failAndClaim(server, job, 2);
        const read = (await server.get(`/jobs/${job.id}?runs=true`)).json;
        assert.deepEqual(read.runs, await server.runs(job.id));
        assert.equal(read.runs.length, 3);
        assert.deepEqual(read.payload, job.payload);
        assert.ok(!('runs' in (await server.get(`/jobs/${job.id}?runs=false`)).json));
        assert.ok(!('runs' in await server.job(job.id)));
        const { id } = await server.enqueue({ queue: queueName() });
        assert.deepEqual((await server.get(`/jobs/${id}?runs=true`)).json.runs, []);
        const at = `/jobs/${id}`;
        assertError(await server.get(`${at}?runs=yes`), 400, 'bad_value');
        assertError(await server.get(`${at}?run=true`), 400, 'unknown_field');
        assertError(await server.get(`${at}?runs=true&runs=true`), 400, 'duplicate_field');
    });

    it('come_in_pages_in_both_directions', async () => {
        const job = await claimNew(server);
        await failAndClaim(server, job, 4);
        const page = (await server.get(`/jobs/${job.id}/runs?limit=2`)).json;
        assert.deepEqual(page.runs.map((r) => r.run), [0, 1]);
        const next = (await server.get(page.pages.next)).json;
        assert.deepEqual(next.runs.map((r) => r.run), [2, 3]);
        const last = (await server.get(next.pages.next)).json;
        assert.deepEqual(last.runs.map((r) => [r.run, r.outcome]), [[4, 'running']]);
        assert.equal(last.pages.next, null);
        const back = (await server.get(last.pages.prev)).json;
        assert.deepEqual(back.runs.map((r) => r.run), [3, 2]);
        const desc = (await server.get(`/jobs/${job.id}/runs?order=desc`)).json;
        assert.deepEqual(desc.runs.map((r) => r.run), [4, 3, 2, 1, 0]);
    });
});

describe('retention', () => {
    const server = useServer({
        args: ['--default-completed-job-retention', '1h', '--default-dead-job-retention', '2h'],
    });

    it('keeps_a_completed_job_with_its_times', async () => {
        const { id, dequeued_at: taken } = await claimNew(server, {
            payload: 'p', retention: { completed_ms: 60000 },
        });
        await server.post(`/jobs/${id}/success`);
        const job = await server.job(id);
        assert.equal(job.status, 'completed');
        assert.equal(job.payload, 'p');
        assert.ok(job.completed_at >= taken && job.completed_at <= Date.now());
        assert.equal(job.purge_at, job.completed_at + 60000);
        assertError(await server.post(`/jobs/${id}/success`), 404, 'not_in_flight', /completed/);
    });

    it('is_the_servers_unless_the_job_has_its_own', async () => {
        const done = await claimNew(server);
        await server.post(`/jobs/${done.id}/success`);
        const completed = await server.job(done.id);
        assert.equal(completed.purge_at - completed.completed_at, 3600000);
        const broken = await claimNew(server, { retention: { completed_ms: 5 } });
        const dead = await fail(server, broken.id, { kill: true });
        assert.equal(dead.purge_at - dead.failed_at, 7200000);
    });

    it('of_zero_keeps_nothing', async () => {
        const done = await claimNew(server, { retention: { completed_ms: 0 } });
        await server.post(`/jobs/${done.id}/success`);
        assertError(await server.get(`/jobs/${done.id}`), 404, 'not_found');
        const broken = await claimNew(server, { retention: { dead_ms: 0 } });
        assert.equal((await fail(server, broken.id, { kill: true })).status, 'dead');
        assertError(await server.get(`/jobs/${broken.id}`), 404, 'not_found');
    });

    it('shows_nothing_that_has_expired', async () => {
        const done = await claimNew(server, { retention: { completed_ms: 100 } });
        await server.post(`/jobs/${done.id}/success`);
        const broken = await claimNew(server, { retention: { dead_ms: 100 } });
        const { purge_at: purgeAt } = await fail(server, broken.id, { kill: true });
        await until(() => Date.now() > purgeAt, 'both are over');
        for (const job of [done, broken]) {
            assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
            assertError(await server.get(`/jobs/${job.id}/runs`), 404, 'not_found');
            assert.deepEqual((await server.get(`/jobs?queue=${job.queue}`)).json.jobs, []);
            assert.equal((await server.get(`/jobs/count?queue=${job.queue}`)).json.count, 0);
            assert.ok(!(await server.get('/queues')).json.queues.includes(job.queue));
        }
    });

    it('lets_the_dead_be_listed_with_the_reason', async () => {
        const job = await claimNew(server, { retry_limit: 0, payload: [1] });
        const dead = await fail(server, job.id);
        const { jobs } = (await server.get(`/jobs?status=dead&queue=${job.queue}`)).json;
        const { error, ...rest } = jobs[0];
        assert.deepEqual(rest, { ...dead, payload: [1] });
        assert.equal(error.message, 'it broke');
        assert.equal(jobs[0].reason, 'dead: no retries are allowed');
        assert.equal(jobs[0].resolution, 'failed');
        assertError(await server.post(`/jobs/${job.id}/failure`, { message: 'm' }), 404,
            'not_in_flight', /dead/);
    });
});

describe('the defaults of the server', () => {
    const server = useServer({
        args: ['--default-retry-limit', '1', '--default-backoff-base', '0.25s',
            '--default-backoff-exponent', '3', '--default-backoff-jitter', '0'],
    });

    it('are_what_its_settings_say', async () => {
        const { id } = await claimNew(server);
        const job = await fail(server, id);
        assert.equal(job.ready_at - job.failed_at, 1250);
        assert.equal(job.reason, 'retry 1 of 1, default backoff, in 1.3 s');
    });

    it('give_way_to_what_a_job_says_of_itself', async () => {
        const job = await claimNew(server, {
            retry_limit: 2, backoff: { base_ms: 10, exponent: 0, jitter_ms: 0 },
        });
        await failAndClaim(server, job, 1);
        const failed = await fail(server, job.id);
        assert.equal(failed.ready_at - failed.failed_at, 1010);
        assert.match(failed.reason, /^retry 2 of 2, own backoff, /);
    });
});

describe('a report that is repeated by the run that made it', () => {
    const server = useServer();

    it('is_answered_as_before_and_changes_nothing', async () => {
        const retention = { completed_ms: 60000 };
        const { id, token } = await claimNew(server, { retention });
        const body = { token, result: { pages: 3 } };
        assert.equal((await server.post(`/jobs/${id}/success`, body)).status, 204);
        const [job, events] = [await server.job(id), await server.history()];
        assert.equal((await server.post(`/jobs/${id}/success`, { token, result: 4 })).status, 204);
        assert.deepEqual(await server.job(id), job);
        assert.equal((await server.history()).length, events.length);
        assertError(await server.post(`/jobs/${id}/failure`, { token, message: 'm' }), 409,
            'stale_token');
        assertError(await server.post(`/jobs/${id}/success`), 404, 'not_in_flight');
    });

    it('tells_of_the_job_as_it_is_by_now', async () => {
        const { id, token, queue } = await claimNew(server);
        const said = { message: 'm', token, retry_at: Date.now() - 1 };
        const first = await fail(server, id, said);
        assert.equal(first.status, 'scheduled');
        assert.deepEqual(await fail(server, id, said), { ...first, status: 'ready' });
        const next = await server.claimOne(queue);
        const now = await fail(server, id, said);
        assert.deepEqual([now.status, now.attempts], ['in_flight', 1]);
        assert.equal((await server.post(`/jobs/${id}/success`, { token: next.token })).status, 204);
    });

    it('is_known_after_a_restart', async (t) => {
        const other = new Server();
        await other.start();
        t.after(() => other.clean());
        const { id, token } = await claimNew(other, { retry_limit: 0 });
        await fail(other, id, { token });
        await other.signal('SIGKILL');
        await other.start();
        assert.equal((await fail(other, id, { token })).status, 'dead');
        assert.equal((await other.runs(id)).length, 1);
    });

    it('is_stale_once_the_job_was_brought_back', async () => {
        const { id, token } = await claimNew(server, { retry_limit: 0 });
        await fail(server, id, { token });
        await server.post(`/jobs/${id}/retry`);
        assertError(await server.post(`/jobs/${id}/failure`, { message: 'm', token }), 409,
            'stale_token');
    });
});

describe('an exception', () => {
    const server = useServer();

    it('that_may_pass_is_tried_again_at_once_while_retries_are_left', async () => {
        const { id, queue } = await claimNew(server, { retry_limit: 1 });
        const job = await fail(server, id, { exception: 'worker-shutdown' });
        assert.equal(job.status, 'ready');
        assert.match(job.reason, /^retry 1 of 20 that cost the job nothing/);
        await server.claimOne(queue);
        const charged = await fail(server, id, { exception: 'intermittent-task' });
        assert.deepEqual([charged.status, charged.reason],
            ['ready', 'retry 1 of 1, intermittent-task, at once']);
        await server.claimOne(queue);
        const dead = await fail(server, id, { exception: 'intermittent-task' });
        assert.deepEqual([dead.status, dead.resolution], ['dead', 'intermittent-task']);
        assert.deepEqual((await server.runs(id)).map((run) => run.outcome),
            ['worker-shutdown', 'intermittent-task', 'intermittent-task']);
    });

    it('that_is_final_kills_the_job_which_says_why', async () => {
        for (const exception of ['malformed-payload', 'resource-unavailable', 'internal-error',
            'superseded']) {
            const { id, token } = await claimNew(server);
            const job = await fail(server, id, { exception, token });
            assert.deepEqual([job.status, job.resolution], ['dead', exception]);
            assert.match(job.reason, new RegExp(exception));
            assert.equal((await fail(server, id, { exception, token })).resolution, exception);
        }
    });

    it('has_one_of_six_names', async () => {
        const { id } = await claimNew(server);
        for (const exception of ['canceled', 'deadline-exceeded', 'failed', ''])
            assertError(await server.post(`/jobs/${id}/failure`, { message: 'm', exception }), 400,
                'bad_value', /exception/);
    });
});
