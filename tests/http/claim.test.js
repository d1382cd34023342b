// SPDX-License-Identifier: Apache-2.0
'use strict';

// POST /jobs/claim: leases, their renewal and their end, and the long poll.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, notOn, queueName, rawPost, repeat, run, until, useServer } = require('./harness');

function ids(jobs) {
    return jobs.map((job) => job.id);
}

describe('a claim', () => {
    const server = useServer();

    it('gives_a_job_with_its_payload_run_token_and_lease', async () => {
        const queue = queueName();
        const sent = await server.enqueue({ queue, payload: { a: 1 } });
        const from = Date.now();
        const res = await server.post('/jobs/claim', {
            queues: [queue], count: 5, lease_ms: 45000, worker: 'anna', wait_ms: 0,
        });
        assert.equal(res.status, 200);
        assert.equal(res.json.jobs.length, 1);
        const { token, dequeued_at: at, lease_expires_at: end, ...job } = res.json.jobs[0];
        assert.deepEqual(job, { ...sent, status: 'in_flight', payload: { a: 1 }, run: 0 });
        assert.match(token, /^[0-9a-f]{16}$/);
        assert.ok(at >= from && at <= Date.now());
        assert.equal(end - at, 45000);
        const [run] = await server.runs(sent.id);
        assert.equal(run.worker, 'anna');
        assert.equal(run.outcome, 'running');
    });

    it('gives_as_many_as_asked_for_in_order', async () => {
        const queue = queueName();
        const late = await server.enqueueMany(repeat(3, { queue, priority: 9 }));
        const early = await server.enqueueMany(repeat(3, { queue, priority: 1 }));
        const first = await server.claim({ queues: [queue], count: 4 });
        assert.deepEqual(ids(first), [...early, late[0]]);
        assert.equal(new Set(first.map((job) => job.token)).size, 4, 'a token each');
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 100 })), late.slice(1));
        assert.deepEqual(await server.claim({ queues: [queue], count: 100 }), []);
    });

    it('gives_one_for_thirty_seconds_unless_it_says_otherwise', async () => {
        const queue = queueName();
        const [id] = await server.enqueueMany(repeat(2, { queue }));
        const [job, ...more] = await server.claim({ queues: [queue] });
        assert.equal(job.id, id);
        assert.deepEqual(more, []);
        assert.equal(job.lease_expires_at - job.dequeued_at, 30000);
    });

    it('gives_jobs_of_its_queues_only', async () => {
        const [a, b, c] = [queueName(), queueName(), queueName()];
        const [inA] = await server.enqueueMany(repeat(1, { queue: a }));
        await server.enqueueMany(repeat(1, { queue: b }));
        const [inC] = await server.enqueueMany(repeat(1, { queue: c }));
        assert.deepEqual(ids(await server.claim({ queues: [c, a, c], count: 9 })), [inA, inC]);
    });

    it('goes_by_priority_and_age_whatever_order_its_queues_are_named_in', async () => {
        const [a, b] = [queueName(), queueName()];
        const [first] = await server.enqueueMany(repeat(1, { queue: a }));
        const [second] = await server.enqueueMany(repeat(1, { queue: b }));
        const [third] = await server.enqueueMany(repeat(1, { queue: a }));
        const [urgent] = await server.enqueueMany(repeat(1, { queue: b, priority: 1 }));
        const one = async (queues) => ids(await server.claim({ queues, count: 1 }))[0];
        assert.equal(await one([a, b]), urgent);
        assert.equal(await one([b, a]), first);
        assert.equal(await one([a, b]), second);
        assert.equal(await one([b, a]), third);
    });

    it('takes_the_worker_of_the_header_unless_the_body_names_one', async () => {
        const queue = queueName();
        const jobs = await server.enqueueMany(repeat(2, { queue }));
        const claim = (worker) => server.post('/jobs/claim',
            { queues: [queue], wait_ms: 0, worker }, { 'worker-id': 'of-header' });
        await claim(undefined);
        await claim('of-body');
        assert.equal((await server.runs(jobs[0]))[0].worker, 'of-header');
        assert.equal((await server.runs(jobs[1]))[0].worker, 'of-body');
    });

    it('may_have_null_for_every_field', async () => {
        const res = await server.post('/jobs/claim', {
            queues: null, count: null, lease_ms: null, wait_ms: null, worker: null,
        });
        assert.equal(res.status, 200, res.text);
        for (const job of res.json.jobs)
            await server.post(`/jobs/${job.id}/release`);
    });

    const refused = {
        count: [0, -1, 1001, 1.5, 1e400], lease_ms: [0, 99, -1, 7 * 24 * 3600 * 1000 + 1, 1e300],
        wait_ms: [-1, 300001],
    };
    for (const [name, values] of Object.entries(refused))
        it(`is_refused_with_a_${name}_out_of_range`, async () => {
            const queue = queueName();
            await server.enqueue({ queue });
            for (const value of values) {
                const number = value === Infinity ? '1e400' : value;
                const body = `{"queues":["${queue}"],"${name}":${number}}`;
                assertError(await server.post('/jobs/claim', body), 400, 'bad_value',
                    new RegExp(name));
            }
            assert.equal((await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count,
                1);
        });

    it('is_refused_with_fields_of_wrong_types', async () => {
        const cases = {
            queues: ['a', 7, {}, [7], [null]], count: ['1', true], lease_ms: ['1'], wait_ms: [[]],
            worker: [7],
        };
        for (const [name, values] of Object.entries(cases))
            for (const value of values)
                assertError(await server.post('/jobs/claim', { [name]: value }), 400, 'wrong_type',
                    new RegExp(`^${name}: `));
        for (const [name, value] of [['queues', ['a*']], ['queues', ['']], ['worker', 'a,b']])
            assertError(await server.post('/jobs/claim', { [name]: value }), 400, 'bad_name');
    });

    it('is_refused_with_more_than_a_thousand_queues', async () => {
        const queues = Array.from({ length: 1001 }, (_, i) => `q${i}`);
        assertError(await server.post('/jobs/claim', { queues }), 400, 'too_many', /queues/);
    });
});

describe('a claim that waits', () => {
    const server = useServer();

    it('ends_at_the_word_of_its_worker', async () => {
        const queue = queueName();
        const claim = (worker) => server.post('/jobs/claim',
            { queues: [queue], wait_ms: 60000, worker });
        const [mine, another] = [claim('w 1'), claim('w2')];
        await until(async () =>
            (await server.delete('/jobs/claim?worker=w%201')).json.withdrawn === 1, 'it waits');
        assert.deepEqual((await mine).json, { jobs: [] });
        const { id } = await server.enqueue({ queue });
        assert.equal((await another).json.jobs[0].id, id, 'that of another worker goes on');
        assert.deepEqual((await server.delete('/jobs/claim?worker=w2')).json, { withdrawn: 0 });
    });

    it('is_named_by_its_worker', async () => {
        assertError(await server.delete('/jobs/claim'), 400, 'missing_field', /worker/);
        assertError(await server.delete('/jobs/claim?worker='), 400, 'bad_name');
        assertError(await server.delete('/jobs/claim?worker=a&worker=b'), 400, 'duplicate_field');
        assertError(await server.delete('/jobs/claim?queue=a'), 400, 'unknown_field');
    });
});

describe('a claim of all queues', () => {
    const server = useServer();

    it('gives_jobs_by_priority_and_age', async () => {
        const [a] = await server.enqueueMany(repeat(1, { queue: 'a', priority: 2 }));
        const [b] = await server.enqueueMany(repeat(1, { queue: 'b', priority: 1 }));
        const [c] = await server.enqueueMany(repeat(1, { queue: 'c', priority: 2 }));
        const res = await server.post('/jobs/claim', { count: 10 });
        assert.deepEqual(ids(res.json.jobs), [b, a, c]);
        assert.deepEqual((await server.post('/jobs/claim')).json, { jobs: [] },
            'a body is no must');
    });
});

// How many claims wait for jobs.
async function countWaiting(server) {
    const { text } = await server.get('/metrics');
    return Number(/^tenax_claims_waiting (\d+)$/m.exec(text)[1]);
}

describe('a long poll', () => {
    const server = useServer();

    // Sends a claim on a connection of its own; resolves once it waits.
    async function pollOn(wire, fields) {
        const before = await countWaiting(server);
        await wire.sendAll(rawPost('/jobs/claim', JSON.stringify({ wait_ms: 60000, ...fields })));
        await until(async () => await countWaiting(server) > before, 'the claim waits');
    }

    it('wakes_up_when_a_job_arrives', async () => {
        const queue = queueName();
        const wire = await server.wire();
        await pollOn(wire, { queues: [queue], count: 5 });
        const { id } = await server.enqueue({ queue });
        const res = await wire.response();
        assert.equal(res.status, 200);
        assert.deepEqual(ids(res.json.jobs), [id]);
        wire.close();
    });

    it('wakes_up_when_a_jobs_time_comes', async () => {
        const queue = queueName();
        const sent = await server.enqueue({ queue, ready_at: Date.now() + 150 });
        const job = await server.claimOne(queue);
        assert.equal(job.id, sent.id);
        assert.ok(job.dequeued_at >= sent.ready_at);
    });

    it('wakes_up_when_a_job_is_given_back', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        const second = server.claimOne(queue);
        await server.post(`/jobs/${id}/release`);
        assert.equal((await second).run, 1);
    });

    it('ends_empty_when_its_time_is_over', async () => {
        const from = Date.now();
        const jobs = await server.claim({ queues: [queueName()], wait_ms: 200 });
        assert.deepEqual(jobs, []);
        assert.ok(Date.now() - from >= 199, 'not before');
    });

    it('waits_no_longer_than_the_server_lets_it', async (t) => {
        const own = new Server({ args: ['--claim-wait-max', '200ms'] });
        await own.start();
        t.after(() => own.clean());
        assert.deepEqual(await own.claim({ queues: ['q'], wait_ms: 300000 }), []);
        const { code, stderr } = await run(['serve', '--claim-wait-max', '0s']);
        assert.equal(code, 2);
        assert.match(stderr, /--claim-wait-max must be longer than 0/);
    });

    it('of_no_wait_answers_at_once', async () => {
        const res = await server.post('/jobs/claim', { queues: [queueName()], wait_ms: 0 });
        assert.deepEqual(res.json, { jobs: [] });
    });

    it('shares_jobs_that_arrive_one_by_one', async () => {
        const queue = queueName();
        const polls = [1, 2, 3].map(() => server.claimOne(queue));
        const sent = await server.enqueueMany(repeat(3, { queue }));
        assert.deepEqual(ids(await Promise.all(polls)).sort(), sent);
    });

    it('of_a_client_that_hung_up_takes_no_job', async () => {
        const queue = queueName();
        for (const leave of ['close', 'end']) {
            const wire = await server.wire();
            await pollOn(wire, { queues: [queue] });
            wire[leave]();
            if (leave === 'end') {
                const res = await wire.response();
                assert.deepEqual(res.json, { jobs: [] }, 'who only shut down its side is told');
                await wire.assertEnds();
            }
            const { id } = await server.enqueue({ queue });
            await until(async () => {
                const [job] = await server.claim({ queues: [queue] });
                return job && job.id === id;
            }, 'somebody else gets the job');
            await server.post(`/jobs/${id}/success`);
            wire.close();
        }
    });

    it('is_answered_when_the_server_stops', notOn('standby', 'it is the owner that stops'), async () => {
        const other = new Server();
        try {
            await other.start();
            const wire = await other.wire();
            await wire.sendAll(rawPost('/jobs/claim', '{"wait_ms":60000}'));
            await until(() => countWaiting(other), 'the claim waits');
            other.child.kill('SIGTERM');
            const res = await wire.response();
            if (res.status === 200)
                assert.deepEqual(res.json, { jobs: [] });
            else
                assertError(res, 503, 'stopping');
            await wire.assertEnds();
            wire.close();
            assert.deepEqual(await other.exit, { code: 0, signal: null });
        } finally {
            await other.clean();
        }
    });
});

describe('a lease', () => {
    const server = useServer();

    async function claimShort(fields = {}) {
        const queue = queueName();
        await server.enqueue({ queue, ...fields });
        return server.claimConfirmed(queue, { lease_ms: 100, worker: 'slow' });
    }

    // A short claim that was renewed before its end was reached, however slow this machine is.
    async function renewShort(renewal) {
        for (let lease = 100; ; lease *= 2) {
            const queue = queueName();
            await server.enqueue({ queue });
            const claimed = await server.claimOne(queue, { lease_ms: lease });
            const res = await server.post(`/jobs/${claimed.id}/renew`,
                renewal && { token: claimed.token, ...renewal });
            if (res.status === 200)
                return { claimed, renewed: res.json };
            assert.ok(Date.now() >= claimed.lease_expires_at, res.text);
        }
    }

    async function expired(id) {
        return until(async () => {
            const job = await server.job(id);
            return job.status !== 'in_flight' && job;
        }, 'the lease runs out');
    }

    it('that_runs_out_consumes_a_retry_and_makes_the_job_ready_at_once', async () => {
        const claimed = await claimShort({ retry_limit: 2 });
        const job = await expired(claimed.id);
        assert.equal(job.status, 'ready');
        assert.equal(job.attempts, 1);
        assert.ok(job.failed_at >= claimed.lease_expires_at, 'not before its end');
        assert.match(job.reason, /^retry 1 of 2, the lease ran out, at once$/);
        const [run] = await server.runs(claimed.id);
        assert.equal(run.outcome, 'claim-expired');
        assert.equal(run.attempt, 1);
        assert.equal(run.worker, 'slow');
        const [error] = (await server.get(`/jobs/${claimed.id}/errors`)).json.errors;
        assert.equal(error.error_type, 'claim-expired');
        assert.match(error.message, /'slow'/);
        const again = await server.claimOne(claimed.queue);
        assert.equal(again.run, 1);
        assert.equal(again.attempts, 1);
    });

    it('that_runs_out_before_any_word_of_its_worker_is_charged_to_nobody', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        await server.claimOne(queue, { lease_ms: 100 });
        const job = await expired(id);
        assert.equal(job.status, 'ready');
        assert.equal(job.attempts, 0);
        assert.equal(job.losses, 1);
        const [run] = await server.runs(id);
        assert.equal(run.outcome, 'claim-expired');
        assert.equal(run.attempt, undefined);
        assert.match(run.reason, /before its worker said anything/);
        const again = await server.claimOne(queue, { lease_ms: 60000 });
        assert.equal((await server.post(`/jobs/${id}/success`, { token: again.token })).status, 204);
    });

    it('that_runs_out_after_the_last_retry_makes_the_job_dead', async () => {
        const { id } = await claimShort({ retry_limit: 0 });
        const job = await expired(id);
        assert.equal(job.status, 'dead');
        assert.equal(job.resolution, 'claim-expired');
        assert.equal(job.reason, 'dead: the lease ran out and no retries are allowed');
    });

    it('that_ran_out_makes_every_report_stale', async () => {
        const { id, token, queue } = await claimShort({ retention: { completed_ms: 60000 } });
        await expired(id);
        const reports = () => [
            ['success', { token }], ['failure', { token, message: 'm' }], ['renew', { token }],
            ['release', { token }],
        ];
        for (const [verb, body] of reports())
            assertError(await server.post(`/jobs/${id}/${verb}`, body), 409, 'stale_token');
        assertError(await server.post(`/jobs/${id}/success`, { token: null }), 404, 'not_in_flight');
        const other = await server.claimOne(queue);
        for (const [verb, body] of reports())
            assertError(await server.post(`/jobs/${id}/${verb}`, body), 409, 'stale_token');
        assert.equal((await server.post(`/jobs/${id}/success`, { token: other.token })).status,
            204);
        for (const [verb, body] of reports())
            assertError(await server.post(`/jobs/${id}/${verb}`, body), 409, 'stale_token',
                /completed/);
        assert.equal((await server.job(id)).status, 'completed', 'nothing changed');
    });

    it('that_is_renewed_goes_on', async () => {
        const { claimed, renewed } = await renewShort({ lease_ms: 60000 });
        const { id, token, lease_expires_at: end } = claimed;
        assert.deepEqual(Object.keys(renewed), ['lease_expires_at']);
        assert.ok(renewed.lease_expires_at > end);
        assert.equal((await server.runs(id))[0].lease_expires_at, renewed.lease_expires_at);
        await until(() => Date.now() > end + 50, 'its first end is past');
        assert.equal((await server.job(id)).status, 'in_flight');
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
    });

    it('may_be_renewed_without_token_and_for_the_default_time', async () => {
        const from = Date.now();
        const { renewed } = await renewShort();
        const end = renewed.lease_expires_at;
        assert.ok(end >= from + 30000 && end <= Date.now() + 30000);
    });

    it('may_be_renewed_to_end_sooner', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id, token } = await server.claimOne(queue, { lease_ms: 3600000 });
        assert.equal((await server.post(`/jobs/${id}/renew`, { token, lease_ms: 100 })).status,
            200);
        assert.equal((await expired(id)).attempts, 1);
    });

    it('is_not_renewed_by_a_bad_request', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id, token } = await server.claimOne(queue);
        for (const lease of [0, 99, 7 * 24 * 3600 * 1000 + 1, -5])
            assertError(await server.post(`/jobs/${id}/renew`, { token, lease_ms: lease }), 400,
                'bad_value');
        assertError(await server.post(`/jobs/${id}/renew`, { token: '0123456789abcdef' }), 409,
            'stale_token');
        assertError(await server.post('/jobs/x/renew', {}), 404, 'not_found');
        const { id: waiting } = await server.enqueue({ queue });
        assertError(await server.post(`/jobs/${waiting}/renew`), 404, 'not_in_flight');
    });

    it('is_nothing_that_a_job_of_a_stream_has', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const taker = await server.take(`?queue=${queue}`);
        const { id, token } = await taker.next();
        assertError(await server.post(`/jobs/${id}/renew`, { token }), 422, 'unprocessable',
            /stream/);
        taker.close();
    });

    it('ends_by_a_failure_as_that_of_a_stream_does', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id, token } = await server.claimOne(queue);
        const res = await server.post(`/jobs/${id}/failure`, { token, message: 'm' });
        assert.equal(res.status, 200);
        assert.equal(res.json.status, 'scheduled');
    });
});

describe('giving back', () => {
    const server = useServer();

    it('makes_the_job_ready_with_attempts_unchanged', async () => {
        const queue = queueName();
        const [id] = await server.enqueueMany(repeat(2, { queue }));
        const { token } = await server.claimOne(queue);
        const res = await server.post(`/jobs/${id}/release`, { token });
        assert.equal(res.status, 204);
        const job = await server.job(id);
        assert.equal(job.status, 'ready');
        assert.equal(job.attempts, 0);
        assert.equal((await server.runs(id))[0].outcome, 'returned');
        assert.equal((await server.claimOne(queue)).id, id, 'in its old place');
        assertError(await server.post(`/jobs/${id}/release`, { token }), 409, 'stale_token');
    });

    it('says_why_in_the_workers_words_as_far_as_they_fit', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        for (const [message, reason] of [
            ['no GPU is free', 'ready again: the worker gave it back: no GPU is free'],
            ['', 'ready again: the worker gave it back'],
            ['a' + 'é'.repeat(300), `ready again: the worker gave it back: a${'é'.repeat(199)}...`],
        ]) {
            const { run, token } = await server.claimOne(queue);
            assert.equal((await server.post(`/jobs/${id}/release`, { token, message })).status, 204);
            assert.equal((await server.job(id)).reason, reason);
            assert.equal((await server.runs(id))[run].reason, reason);
        }
        const { token } = await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/release`, { token, message: 7 })).status, 400);
    });

    it('of_a_streams_job_lets_the_stream_have_another', async () => {
        const queue = queueName();
        const [a, b] = [await server.enqueue({ queue }),
            await server.enqueue({ queue, priority: 0 })];
        const taker = await server.take(`?queue=${queue}&prefetch=2`);
        assert.deepEqual(await taker.nextIds(2), [b.id, a.id]);
        assert.equal((await server.post(`/jobs/${a.id}/release`)).status, 204);
        const again = await taker.next();
        assert.equal(again.id, a.id);
        assert.equal(again.run, 1);
        taker.close();
    });

    it('is_refused_for_what_nobody_holds', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        assertError(await server.post(`/jobs/${id}/release`), 404, 'not_in_flight');
        assertError(await server.post('/jobs/x/release'), 404, 'not_found');
    });
});

describe('a claim of one given job', () => {
    const server = useServer();

    it('leases_that_job_and_no_other', async () => {
        const queue = queueName();
        const [first, second] = await server.enqueueMany(repeat(2, { queue, payload: { a: 1 } }));
        const body = { run: 0, worker: 'anna', lease_ms: 45000 };
        const res = await server.post(`/jobs/${second}/claim`, body);
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.id, second);
        assert.equal(res.json.status, 'in_flight');
        assert.equal(res.json.run, 0);
        assert.deepEqual(res.json.payload, { a: 1 });
        assert.equal(res.json.lease_expires_at - res.json.dequeued_at, 45000);
        assert.equal((await server.job(first)).status, 'ready');
        const [run] = await server.runs(second);
        assert.equal(run.worker, 'anna');
        const { token } = res.json;
        assert.equal((await server.post(`/jobs/${second}/success`, { token })).status, 204);
    });

    it('is_answered_again_if_its_worker_repeats_it', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        const claim = (body, headers) => server.post(`/jobs/${id}/claim`, body, headers);
        const first = await claim({ worker: 'anna' });
        const again = await claim({ worker: 'anna', run: 0 });
        assert.equal(again.status, 200);
        assert.equal(again.json.token, first.json.token);
        assert.equal(again.json.lease_expires_at, first.json.lease_expires_at);
        assertError(await claim({ worker: 'bert', run: 0 }), 409, 'conflict');
        assertError(await claim({ worker: 'anna', run: 1 }), 409, 'stale_token');
        assertError(await claim(), 409, 'conflict');
    });

    it('is_refused_with_what_keeps_the_job_back', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, alias: `a${queue}` });
        await server.request('PUT', `/queues/${queue}`, { paused: true });
        const refused = await server.post(`/jobs/alias:a${queue}/claim`, { worker: 'anna' });
        assertError(refused, 422, 'unprocessable');
        assert.match(refused.json.error, /paused/);
        await server.request('PUT', `/queues/${queue}`, { paused: false });
        await server.post(`/jobs/${id}/cancel`);
        assertError(await server.post(`/jobs/${id}/claim`, {}), 409, 'conflict');
        assertError(await server.post(`/jobs/${'0'.repeat(24)}1/claim`, {}), 404, 'not_found');
        assertError(await server.post(`/jobs/${id}/claim`, { lease_ms: 1 }), 400, 'bad_value');
        assertError(await server.post(`/jobs/${id}/claim`, { worker: 'a,b' }), 400, 'bad_name');
    });
});

describe('a claim that is sent again', () => {
    const server = useServer();
    const claim = (fields) => server.claim({ worker: 'w', wait_ms: 0, ...fields });

    it('gets_the_same_runs_and_their_leases_begin_anew', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(3, { queue }));
        const spec = { queues: [queue], count: 2, claim_id: queue, lease_ms: 60000 };
        const first = await claim(spec);
        const again = await claim({ ...spec, count: 3 });
        const bare = (jobs) => jobs.map(({ lease_expires_at: end, ...job }) => [typeof end, job]);
        assert.equal(first.length, 2);
        assert.deepEqual(bare(again), bare(first), 'and not the third');
        assert.ok(again[0].lease_expires_at >= first[0].lease_expires_at);
        for (const { id, token } of first)
            assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
        const [third, ...more] = await claim(spec);
        assert.deepEqual([third.run, more], [0, []], 'all were reported: it is a new claim');
        assert.ok(!ids(first).includes(third.id));
    });

    it('gets_no_run_that_was_renewed', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(2, { queue }));
        const spec = { queues: [queue], count: 2, claim_id: queue };
        const [a, b] = await claim(spec);
        assert.equal((await server.post(`/jobs/${a.id}/renew`, { token: a.token })).status, 200);
        assert.deepEqual(ids(await claim(spec)), [b.id]);
    });

    it('takes_the_place_of_the_first_which_is_answered_with_nothing', async () => {
        const queue = queueName();
        const spec = { queues: [queue], claim_id: queue, wait_ms: 20000 };
        const first = claim(spec);
        await until(async () => (await server.get('/workers')).json.workers
            .some((w) => w.name === 'w' && w.claims === 1), 'it waits');
        const second = claim(spec);
        assert.deepEqual(await first, []);
        const { id } = await server.enqueue({ queue });
        assert.deepEqual(ids(await second), [id]);
    });

    it('is_that_of_its_worker_only', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(2, { queue }));
        const spec = { queues: [queue], claim_id: queue };
        const [a] = await claim(spec);
        const [b] = await claim({ ...spec, worker: 'another' });
        assert.notEqual(a.id, b.id);
    });

    it('gets_them_after_the_server_was_killed', async (t) => {
        const own = await new Server().start();
        t.after(() => own.clean());
        const spec = { queues: ['q'], count: 2, worker: 'w', claim_id: 'c1', lease_ms: 60000 };
        await own.enqueueMany(repeat(3, { queue: 'q' }));
        const first = await own.claim(spec);
        await own.stop('SIGKILL');
        await own.start();
        const again = await own.claim(spec);
        assert.deepEqual(again.map((job) => [job.id, job.token, job.run]),
            first.map((job) => [job.id, job.token, job.run]));
    });

    it('has_an_id_of_at_most_255_bytes', async () => {
        const res = await server.post('/jobs/claim', { claim_id: 'x'.repeat(256) });
        assertError(res, 400, 'bad_value', /claim_id/);
    });
});
