// SPDX-License-Identifier: Apache-2.0
'use strict';

// What people change: patch, cancel, retry, reset, one job or many; dry runs and ranges.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, until, useServer } = require('./harness');

const UNKNOWN = '0'.repeat(24) + '1';
const HOUR = 3600000;
const KEEP = { completed_ms: HOUR, dead_ms: HOUR };

async function patch(server, target, body) {
    const res = await server.patch(target, body);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function post(server, target, body) {
    const res = await server.post(target, body);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function fail(server, id, fields = {}) {
    return post(server, `/jobs/${id}/failure`, { message: 'it broke', ...fields });
}

async function makeDead(server, fields = {}) {
    const job = await server.enqueue({ queue: queueName(), retention: KEEP, ...fields });
    await server.claimOne(job.queue);
    return fail(server, job.id, { kill: true });
}

async function makeCompleted(server, fields = {}) {
    const job = await server.enqueue({ queue: queueName(), retention: KEEP, ...fields });
    await server.claimOne(job.queue);
    assert.equal((await server.post(`/jobs/${job.id}/success`)).status, 204);
    return job;
}

async function listIds(server, query) {
    const res = await server.get(`/jobs${query}`);
    assert.equal(res.status, 200, res.text);
    return res.json.jobs.map((job) => job.id);
}

async function count(server, query) {
    return (await server.get(`/jobs/count${query}`)).json.count;
}

function without(job, ...names) {
    return Object.fromEntries(Object.entries(job).filter(([name]) => !names.includes(name)));
}

describe('a patch', () => {
    const server = useServer();

    it('changes_only_what_it_names', async () => {
        const job = await server.enqueue({ queue: queueName(), payload: { a: [1, 'é'] } });
        const to = queueName();
        const patched = await patch(server, `/jobs/${job.id}`, { queue: to, priority: 100 });
        assert.deepEqual(patched, { ...job, queue: to, priority: 100 });
        assert.deepEqual(await server.job(job.id), { ...patched, payload: { a: [1, 'é'] } });
        assert.deepEqual(await patch(server, `/jobs/${job.id}`, {}), patched);
    });

    it('sets_and_clears_what_the_server_has_defaults_for', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        const set = {
            retry_limit: 3, backoff: { base_ms: 1, exponent: 1.5, jitter_ms: 2 },
            retention: { completed_ms: 5000, dead_ms: 6000 },
        };
        const { retry_limit, backoff, retention } = await patch(server, `/jobs/${id}`, set);
        assert.deepEqual({ retry_limit, backoff, retention }, set);
        const cleared = await patch(server, `/jobs/${id}`,
            { retry_limit: null, backoff: null, retention: null });
        for (const name of Object.keys(set))
            assert.ok(!(name in cleared), name);
        assert.deepEqual(without(await server.job(id), 'payload'), cleared);
    });

    it('merges_retention_member_by_member', async () => {
        const { id } = await server.enqueue({ queue: queueName(), retention: KEEP });
        const steps = [
            [{ completed_ms: 1000 }, { completed_ms: 1000, dead_ms: HOUR }],
            [{ dead_ms: null }, { completed_ms: 1000 }],
            [{}, { completed_ms: 1000 }],
            [{ completed_ms: null, dead_ms: 7 }, { dead_ms: 7 }],
        ];
        for (const [retention, want] of steps)
            assert.deepEqual((await patch(server, `/jobs/${id}`, { retention })).retention, want);
    });

    it('of_ready_at_schedules_a_ready_job_and_frees_a_scheduled_one', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const later = Date.now() + HOUR;
        const scheduled = await patch(server, `/jobs/${id}`, { ready_at: later });
        assert.equal(scheduled.status, 'scheduled');
        assert.equal(scheduled.ready_at, later);
        assert.deepEqual(await server.claim({ queues: [queue] }), []);
        const before = Date.now();
        const ready = await patch(server, `/jobs/${id}`, { ready_at: null });
        assert.equal(ready.status, 'ready');
        assert.ok(ready.ready_at >= before && ready.ready_at <= Date.now());
        assert.equal((await server.claimOne(queue)).id, id);
    });

    it('of_ready_at_to_soon_makes_the_job_ready_then', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName(), ready_at: Date.now() + HOUR });
        const soon = Date.now() + 100;
        await patch(server, `/jobs/${id}`, { ready_at: soon });
        const job = await server.claimOne(queue);
        assert.equal(job.id, id);
        assert.ok(job.dequeued_at >= soon);
    });

    it('of_the_priority_moves_the_job_within_its_queue', async () => {
        const queue = queueName();
        const jobs = [];
        for (let i = 0; i < 3; i++)
            jobs.push((await server.enqueue({ queue, priority: 10 })).id);
        await patch(server, `/jobs/${jobs[2]}`, { priority: 0 });
        await patch(server, `/jobs/${jobs[0]}`, { priority: 65535 });
        const got = await server.claim({ queues: [queue], count: 3 });
        assert.deepEqual(got.map((job) => job.id), [jobs[2], jobs[1], jobs[0]]);
    });

    it('of_the_queue_keeps_the_order_of_enqueue_in_the_new_one', async () => {
        const [from, to] = [queueName(), queueName()];
        const ids = [];
        for (const queue of [to, from, to, from])
            ids.push((await server.enqueue({ queue })).id);
        assert.deepEqual(await patch(server, `/jobs?queue=${from}`, { queue: to }), { patched: 2 });
        assert.ok(!(await server.get('/queues')).json.queues.includes(from));
        const got = await server.claim({ queues: [to], count: 4 });
        assert.deepEqual(got.map((job) => job.id), ids);
    });

    it('wakes_who_waits_for_the_new_queue', async () => {
        const to = queueName();
        const taker = await server.take(`?queue=${to}`);
        const { id } = await server.enqueue({ queue: queueName() });
        await patch(server, `/jobs/${id}`, { queue: to });
        assert.equal((await taker.next()).id, id);
        taker.close();
    });

    it('leaves_a_large_payload_byte_for_byte', async () => {
        const payload = `{"n": 1.50, "s":"${'x'.repeat(20000)}", "e" : [ ] }`;
        const body = `{"queue":"large","type":"t","payload":${payload}}`;
        const { id } = (await server.post('/jobs', body)).json;
        for (const change of [{ queue: 'larger' }, { priority: 1 }, { retry_limit: 2 }]) {
            await patch(server, `/jobs/${id}`, change);
            assert.ok((await server.get(`/jobs/${id}`)).text.includes(payload));
        }
        const claimed = await server.post('/jobs/claim', { queues: ['larger'] });
        assert.ok(claimed.text.includes(payload));
        await server.post(`/jobs/${id}/release`);
        assert.ok((await server.get(`/jobs/${id}`)).text.includes(payload));
        assert.equal((await server.delete(`/jobs/${id}`)).status, 204);
    });

    it('is_refused_once_the_job_has_ended', async () => {
        for (const make of [makeDead, makeCompleted]) {
            const { id } = await make(server);
            const was = await server.job(id);
            assertError(await server.patch(`/jobs/${id}`, { priority: 1 }), 422, 'unprocessable',
                new RegExp(was.status));
            assert.deepEqual(await server.job(id), was);
        }
    });

    it('of_a_job_that_is_not_there_is_404', async () => {
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.patch(`/jobs/${id}`, {}), 404, 'not_found');
    });

    const MISSING = 'missing_field', VALUE = 'bad_value', TYPE = 'wrong_type';
    for (const [name, body, status, code, sentence] of [
        ['a_null_queue', { queue: null }, 422, 'unprocessable', /^queue: /],
        ['a_reserved_queue', { queue: 'a*' }, 422, 'unprocessable', /^queue: /],
        ['an_empty_queue', { queue: '' }, 422, 'unprocessable', /^queue: /],
        ['a_number_as_queue', { queue: 7 }, 400, TYPE, /^queue: /],
        ['a_null_priority', { priority: null }, 422, 'unprocessable', /^priority: /],
        ['a_priority_out_of_range', { priority: 65536 }, 400, VALUE, /^priority: /],
        ['a_negative_ready_at', { ready_at: -1 }, 400, VALUE, /^ready_at: /],
        ['a_text_as_ready_at', { ready_at: 'now' }, 400, TYPE, /^ready_at: /],
        ['a_negative_retry_limit', { retry_limit: -1 }, 400, VALUE, /^retry_limit: /],
        ['a_retry_limit_of_33_bits', { retry_limit: 2 ** 32 }, 400, VALUE, /^retry_limit: /],
        ['a_backoff_with_a_member_missing', { backoff: { base_ms: 1, exponent: 2 } }, 400, MISSING,
            /^backoff: /],
        ['a_backoff_of_another_type', { backoff: 7 }, 400, TYPE, /^backoff: /],
        ['a_retention_of_another_type', { retention: [] }, 400, TYPE, /^retention: /],
        ['a_negative_retention', { retention: { dead_ms: -1 } }, 400, VALUE,
            /^retention: dead_ms: /],
        ['a_list_as_the_body', [], 400, TYPE, null],
    ])
        it(`with_${name}_is_refused_and_changes_nothing`, async () => {
            const job = await server.enqueue({ queue: queueName(), payload: 0 });
            for (const target of [`/jobs/${job.id}`, `/jobs?id=${job.id}`])
                assertError(await server.patch(target, body), status, code, sentence);
            assert.deepEqual(await server.job(job.id), { ...job, payload: 0 });
        });

    it('that_is_no_JSON_or_no_patch_at_all_is_400', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        for (const target of [`/jobs/${id}`, `/jobs?id=${id}`]) {
            for (const body of ['{"priority":', '{priority:1}', '{} x'])
                assertError(await server.patch(target, body), 400, 'bad_json');
            assertError(await server.patch(target, '{"priority":1,"priority":2}'), 400,
                'duplicate_field');
            assertError(await server.patch(target, ''), 400, 'bad_json');
        }
        assert.equal((await server.job(id)).priority, 32768);
    });

    it('refuses_what_a_job_has_and_a_patch_does_not_change', async () => {
        const job = await server.enqueue({ queue: queueName(), payload: 'kept' });
        const fixed = {
            id: UNKNOWN, status: 'dead', attempts: 9, type: 'x', payload: 'y', unique_key: 'k', unique_while: 'active',
            retry_policies: ['p'], when_no_policy: 'fail', batch: {}, resources: {}, gang: {}, budgets: [], annotations: {},
            concurrency_key: 'c', alias: 'a', deadline: 1, retain_until: 1, group: 'g', group_owner: 'o',
            traceparent: '', tracestate: '', pending_runs: true, hold: true, when: 'all_ended', on_dependency_death: 'run',
        };
        for (const name in fixed)
            for (const path of [`/jobs/${job.id}`, `/jobs?queue=${job.queue}`])
                for (const value of [fixed[name], null])
                    assertError(await server.patch(path, { priority: 7, [name]: value }), 422, 'unprocessable',
                        new RegExp(`${name}: a patch cannot change it`));
        assert.deepEqual(await server.job(job.id), { ...job, payload: 'kept' });
    });

    it('refuses_members_that_nobody_knows_however_deep_they_lie', async () => {
        const job = await server.enqueue({ queue: queueName(), payload: 'kept' });
        const backoff = { base_ms: 1, exponent: 1, jitter_ms: 1 };
        for (const [body, sentence] of [
            [{ priority: 7, colour: 'red' }, /'colour'/],
            [{ priority: 7, retention: { dead: 1 } }, /^retention: .*'dead'/],
            [{ retention: { dead_ms: 5, retention: { dead_ms: 1 } } }, /^retention: .*'retention'/],
            [{ backoff: { ...backoff, base: 1 } }, /^backoff: .*'base'/],
        ])
            for (const path of [`/jobs/${job.id}`, `/jobs?queue=${job.queue}`])
                assertError(await server.patch(path, body), 400, 'unknown_field', sentence);
        assert.deepEqual(await server.job(job.id), { ...job, payload: 'kept' });
    });
});

describe('a patch in strict mode', () => {
    const server = useServer({ args: ['--strict'] });

    it('names_only_what_can_be_changed', async () => {
        const { id } = await server.enqueue({ queue: 'q' });
        for (const body of [{ type: 'x' }, { payload: 1 }])
            assertError(await server.patch(`/jobs/${id}`, body), 422, 'unprocessable');
        for (const body of [{ colour: 1 }, { retention: { dead: 1 } }])
            assertError(await server.patch(`/jobs/${id}`, body), 400, 'unknown_field');
    });
});

describe('a patch of a job in flight', () => {
    const server = useServer();

    // A job that is in flight, and what ends its run without a report.
    async function hold(how) {
        const job = await server.enqueue({ queue: queueName(), priority: 10, payload: 'p' });
        if (how === 'lease') {
            const { token } = await server.claimOne(job.queue, { lease_ms: 600000 });
            return { ...job, token, drop: () => server.post(`/jobs/${job.id}/release`, { token }) };
        }
        const taker = await server.take(`?queue=${job.queue}`);
        const { token } = await taker.next();
        return { ...job, token, drop: () => taker.close() };
    }

    for (const how of ['stream', 'lease']) {
        it(`leaves_the_run_of_a_${how}_alone`, async () => {
            const { id, queue, token, drop } = await hold(how);
            const to = queueName();
            const job = await patch(server, `/jobs/${id}`, { queue: to, priority: 1 });
            assert.deepEqual([job.status, job.queue, job.priority], ['in_flight', to, 1]);
            assert.equal(await count(server, `?queue=${to}&status=in_flight`), 1);
            assert.equal(await count(server, `?queue=${queue}`), 0);
            assert.deepEqual((await server.runs(id)).map((run) => run.outcome), ['running']);
            assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
            await drop();
        });

        it(`counts_when_a_${how}_gives_it_back`, async () => {
            const { id, drop } = await hold(how);
            const to = queueName();
            const rival = await server.enqueue({ queue: to, priority: 5 });
            await patch(server, `/jobs/${id}`, { queue: to, priority: 1 });
            await drop();
            await until(async () => (await server.job(id)).status === 'ready', 'given back');
            const got = await server.claim({ queues: [to], count: 2 });
            assert.deepEqual(got.map((job) => job.id), [id, rival.id]);
            assert.deepEqual([got[0].priority, got[0].payload, got[0].run], [1, 'p', 1]);
        });

        it(`counts_when_the_run_of_a_${how}_fails`, async () => {
            const { id, token, drop } = await hold(how);
            const to = queueName();
            await patch(server, `/jobs/${id}`, {
                queue: to, priority: 2, retry_limit: 1,
                backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 },
            });
            const failed = await fail(server, id, { token });
            assert.deepEqual([failed.queue, failed.priority, failed.attempts], [to, 2, 1]);
            assert.equal(failed.reason, 'retry 1 of 1, own backoff, in 1 s');
            const again = await server.claimOne(to);
            assert.equal(again.id, id);
            assert.equal((await fail(server, id)).reason, 'dead: the only retry is used up');
            await drop();
        });

        it(`counts_for_the_retention_after_a_${how}`, async () => {
            const { id, drop } = await hold(how);
            await patch(server, `/jobs/${id}`, { retention: { completed_ms: 12345 } });
            await server.post(`/jobs/${id}/success`);
            const job = await server.job(id);
            assert.equal(job.purge_at - job.completed_at, 12345);
            await drop();
        });

        it(`holds_back_a_job_that_a_${how}_gives_back_before_its_new_time`, async () => {
            const { id, queue, drop } = await hold(how);
            const later = Date.now() + HOUR;
            assert.equal((await patch(server, `/jobs/${id}`, { ready_at: later })).status,
                'in_flight');
            await drop();
            await until(async () => (await server.job(id)).status !== 'in_flight', 'given back');
            const job = await server.job(id);
            assert.deepEqual([job.status, job.ready_at], ['scheduled', later]);
            assert.deepEqual(await server.claim({ queues: [queue] }), []);
            assert.equal((await patch(server, `/jobs/${id}`, { ready_at: null })).status, 'ready');
            assert.equal((await server.claimOne(queue)).id, id);
        });
    }

    it('leaves_the_lease_as_it_is', async () => {
        const { id, token } = await hold('lease');
        const [run] = await server.runs(id);
        await patch(server, `/jobs/${id}`, { queue: queueName(), priority: 1 });
        assert.deepEqual(await server.runs(id), [run]);
        const { lease_expires_at: end } = await post(server, `/jobs/${id}/renew`,
            { token, lease_ms: 900000 });
        assert.equal((await server.runs(id))[0].lease_expires_at, end);
    });

    it('counts_when_its_lease_runs_out', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        const to = queueName();
        await patch(server, `/jobs/${id}`, { queue: to, priority: 7 });
        const job = await server.claimOne(to);
        assert.deepEqual([job.id, job.run, job.priority, job.attempts], [id, 1, 7, 1]);
    });
});

for (const signal of ['SIGTERM', 'SIGKILL'])
    describe(`changes before ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());

        it('are_there_after_it', async () => {
            const jobs = {
                ready: await server.enqueue({ queue: queueName() }),
                scheduled: await server.enqueue({ queue: queueName(), ready_at: Date.now() + HOUR }),
                leased: await server.enqueue({ queue: queueName() }),
            };
            const { token } = await server.claimOne(jobs.leased.queue, { lease_ms: 600000 });
            const to = queueName();
            const body = {
                queue: to, priority: 3, retry_limit: 2, retention: { dead_ms: 99 },
                backoff: { base_ms: 1, exponent: 2, jitter_ms: 3 },
            };
            for (const { id } of Object.values(jobs))
                await patch(server, `/jobs/${id}`, body);
            await patch(server, `/jobs/${jobs.scheduled.id}`, { ready_at: Date.now() + 2 * HOUR });
            const canceled = await server.enqueue({ queue: queueName() });
            await post(server, `/jobs/${canceled.id}/cancel`);
            const rerun = await makeDead(server);
            await post(server, `/jobs/${rerun.id}/retry`);
            const ids = [...Object.values(jobs), canceled, rerun].map((job) => job.id);
            const were = await Promise.all(ids.map((id) => server.job(id)));
            await server.signal(signal);
            await server.start();
            assert.deepEqual(await Promise.all(ids.map((id) => server.job(id))), were);
            assert.deepEqual(were.map((job) => job.status),
                ['ready', 'scheduled', 'in_flight', 'dead', 'ready']);
            const failed = await fail(server, jobs.leased.id, { token });
            assert.match(failed.reason, /^retry 1 of 2, own backoff/);
            assert.equal((await server.claimOne(to)).id, jobs.ready.id);
        });

        it('count_for_a_job_that_a_stream_held', async () => {
            const { id, queue } = await server.enqueue({ queue: queueName(), payload: 'p' });
            const held = await server.enqueue({ queue, payload: 'q' });
            const taker = await server.take(`?queue=${queue}&prefetch=2`);
            await taker.nextIds(2);
            const to = queueName();
            const later = Date.now() + HOUR;
            await patch(server, `/jobs/${id}`, { queue: to, priority: 4 });
            await patch(server, `/jobs/${held.id}`, { ready_at: later });
            await server.signal(signal);
            await taker.ended();
            for (let i = 0; i < 2; i++) { // what recovery wrote must be read alike
                await server.start();
                const job = await server.job(id);
                assert.deepEqual([job.status, job.queue, job.priority], ['ready', to, 4]);
                const other = await server.job(held.id);
                assert.deepEqual([other.status, other.ready_at], ['scheduled', later]);
                assert.deepEqual((await server.runs(id)).map((run) => run.outcome),
                    ['worker-lost']);
                await server.signal(signal);
            }
            await server.start();
            assert.deepEqual(await server.claim({ queues: [queue] }), []);
            const job = await server.claimOne(to);
            assert.deepEqual([job.id, job.run, job.payload], [id, 1, 'p']);
        });
    });

describe('a cancel', () => {
    const server = useServer();

    it('makes_a_waiting_job_dead_and_says_so', async () => {
        for (const fields of [{}, { ready_at: Date.now() + HOUR }]) {
            const { id, queue } = await server.enqueue({ queue: queueName(), payload: 1, ...fields });
            const job = await post(server, `/jobs/${id}/cancel`);
            assert.equal(job.status, 'dead');
            assert.equal(job.resolution, 'canceled');
            assert.equal(job.reason, 'dead: canceled by a command');
            assert.equal(job.attempts, 0);
            assert.ok(job.purge_at > Date.now() + 6 * 24 * HOUR);
            assert.deepEqual(await server.job(id), { ...job, payload: 1 });
            assert.deepEqual(await server.runs(id), []);
            assert.deepEqual(await server.claim({ queues: [queue] }), []);
            assert.equal(await count(server, `?queue=${queue}&status=dead`), 1);
        }
    });

    it('ends_the_run_of_a_leased_job_whose_reports_are_stale_then', async () => {
        const { queue } = await server.enqueue({ queue: queueName() });
        const { id, token } = await server.claimOne(queue);
        assert.equal((await post(server, `/jobs/${id}/cancel`)).status, 'dead');
        const [run] = await server.runs(id);
        assert.equal(run.outcome, 'canceled');
        assert.equal(run.reason, 'dead: canceled by a command');
        assert.ok(run.ended_at >= run.taken_at);
        assert.ok(!('attempt' in run));
        for (const verb of ['success', 'renew', 'release', 'failure'])
            assertError(await server.post(`/jobs/${id}/${verb}`, {
                token, ...(verb === 'failure' ? { message: 'm' } : {}),
                ...(verb === 'renew' ? { lease_ms: 5000 } : {}),
            }), 409, 'stale_token');
        assertError(await server.post(`/jobs/${id}/success`, { token: null }), 404, 'not_in_flight');
        assert.deepEqual((await server.get(`/jobs/${id}/errors`)).json.errors, []);
    });

    it('makes_room_in_the_stream_that_held_the_job', async () => {
        const queue = queueName();
        const first = await server.enqueue({ queue });
        const second = await server.enqueue({ queue });
        const taker = await server.take(`?queue=${queue}`);
        assert.equal((await taker.next()).id, first.id);
        await post(server, `/jobs/${first.id}/cancel`);
        assert.equal((await taker.next()).id, second.id);
        taker.close();
        await until(async () => (await server.job(second.id)).status === 'ready', 'given back');
        assert.equal((await server.job(first.id)).status, 'dead');
    });

    it('keeps_nothing_if_nothing_is_retained', async () => {
        for (const claim of [false, true]) {
            const job = await server.enqueue({ queue: queueName(), retention: { dead_ms: 0 } });
            if (claim)
                await server.claimOne(job.queue);
            assert.equal((await post(server, `/jobs/${job.id}/cancel`)).status, 'dead');
            assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
            assert.ok(!(await server.get('/queues')).json.queues.includes(job.queue));
        }
    });

    it('is_refused_once_the_job_has_ended', async () => {
        for (const make of [makeDead, makeCompleted]) {
            const { id } = await make(server);
            const was = await server.job(id);
            assertError(await server.post(`/jobs/${id}/cancel`), 422, 'unprocessable',
                new RegExp(`${was.status} already`));
            assert.deepEqual(await server.job(id), was);
        }
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.post(`/jobs/${id}/cancel`), 404, 'not_found');
    });
});

describe('a retry of a dead job', () => {
    const server = useServer();

    it('makes_it_ready_with_its_history', async () => {
        const dead = await makeDead(server, { payload: { p: 1 } });
        const before = Date.now();
        const job = await post(server, `/jobs/${dead.id}/retry`);
        assert.equal(job.status, 'ready');
        assert.equal(job.reason, 'brought back by a command');
        assert.equal(job.attempts, 1);
        assert.ok(job.ready_at >= before);
        for (const name of ['purge_at', 'resolution'])
            assert.ok(!(name in job), name);
        const claimed = await server.claimOne(dead.queue);
        assert.deepEqual([claimed.id, claimed.run, claimed.payload], [dead.id, 1, { p: 1 }]);
        await server.post(`/jobs/${dead.id}/success`);
        assert.deepEqual((await server.runs(dead.id)).map((run) => run.outcome),
            ['failed', 'completed']);
        assert.equal((await server.get(`/jobs/${dead.id}/errors`)).json.errors.length, 1);
    });

    it('gives_a_whole_new_budget_while_attempts_count_on', async () => {
        const { id, queue } = await server.enqueue({
            queue: queueName(), retry_limit: 2, backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 },
        });
        const reasons = [];
        for (let round = 0; round < 2; round++) {
            for (let i = 0; i < 3; i++) {
                await server.claimOne(queue);
                reasons.push((await fail(server, id)).reason);
                await patch(server, `/jobs/${id}`, { ready_at: null }).catch(() => {});
            }
            const dead = await server.job(id);
            assert.deepEqual([dead.status, dead.attempts], ['dead', 3 * (round + 1)]);
            if (round === 0)
                await post(server, `/jobs/${id}/retry`);
        }
        const budget = ['retry 1 of 2, own backoff, in 1 s', 'retry 2 of 2, own backoff, in 1 s',
            'dead: all 2 retries are used up'];
        assert.deepEqual(reasons, [...budget, ...budget]);
        const { errors } = (await server.get(`/jobs/${id}/errors`)).json;
        assert.deepEqual(errors.map((error) => error.attempt), [1, 2, 3, 4, 5, 6]);
    });

    it('brings_back_what_was_canceled_too', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await post(server, `/jobs/${id}/cancel`);
        await post(server, `/jobs/${id}/retry`);
        const job = await server.claimOne(queue);
        assert.deepEqual([job.id, job.run, job.attempts], [id, 0, 0]);
    });

    it('is_refused_for_any_other', async () => {
        const jobs = {
            ready: await server.enqueue({ queue: queueName() }),
            scheduled: await server.enqueue({ queue: queueName(), ready_at: Date.now() + HOUR }),
            in_flight: await server.enqueue({ queue: queueName() }),
            completed: await makeCompleted(server),
        };
        await server.claimOne(jobs.in_flight.queue);
        for (const [status, { id }] of Object.entries(jobs)) {
            const was = await server.job(id);
            assertError(await server.post(`/jobs/${id}/retry`), 422, 'unprocessable',
                new RegExp(status));
            assert.deepEqual(await server.job(id), was);
        }
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.post(`/jobs/${id}/retry`), 404, 'not_found');
    });
});

// Dead jobs, made fast: canceled.
async function enqueueDead(server, queue, howMany) {
    const { jobs } = (await server.post('/jobs/bulk', {
        jobs: Array.from({ length: howMany }, (_, i) => ({ queue, type: 't', payload: i })),
    })).json;
    const held = await server.claim({ queues: [queue], count: howMany });
    await Promise.all(held.map(({ id }) =>
        post(server, `/jobs/${id}/failure`, { message: 'm', kill: true })));
    return jobs.map((job) => job.id);
}

describe('a retry of a completed job', () => {
    const server = useServer();

    it('runs_it_once_more_if_that_is_asked_for', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retention: { completed_ms: 3600000 } });
        await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/success`, { result: 1 })).status, 204);
        assertError(await server.post(`/jobs/${id}/retry`), 422, 'unprocessable');
        assertError(await server.post(`/jobs/${id}/retry?completed=false`), 422, 'unprocessable');
        assertError(await server.post(`/jobs/${id}/retry?completed=1`), 400, 'bad_value');
        const job = await post(server, `/jobs/${id}/retry?completed=true`);
        assert.equal(job.status, 'ready');
        for (const member of ['completed_at', 'purge_at', 'result'])
            assert.ok(!(member in job), member);
        const again = await server.claimOne(queue);
        assert.equal(again.run, 1);
        assertError(await server.post(`/jobs/${id}/retry?completed=true`), 422, 'unprocessable');
    });

    it('of_a_dead_one_is_the_usual_retry', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        await post(server, `/jobs/${id}/cancel`);
        assert.equal((await post(server, `/jobs/${id}/retry?completed=true`)).status, 'ready');
    });
});

describe('a retry of many', () => {
    const server = useServer();

    it('brings_back_all_dead_jobs_that_match_and_no_others', async () => {
        const [queue, other] = [queueName(), queueName()];
        const ids = await enqueueDead(server, queue, 20);
        await enqueueDead(server, other, 2);
        const alive = await server.enqueue({ queue, ready_at: Date.now() + HOUR });
        assert.deepEqual(await post(server, `/jobs/retry?status=dead&queue=${queue}`),
            { retried: 20 });
        assert.deepEqual(await listIds(server, `?queue=${queue}&status=ready`), ids);
        assert.equal((await server.job(alive.id)).status, 'scheduled');
        assert.equal(await count(server, `?queue=${other}&status=dead`), 2);
        assert.deepEqual(await post(server, `/jobs/retry?queue=${queue}`), { retried: 0 });
    });

    it('spreads_them_at_the_rate_that_is_asked_for', async () => {
        const queue = queueName();
        const ids = await enqueueDead(server, queue, 30);
        const before = Date.now();
        assert.deepEqual(await post(server, `/jobs/retry?status=dead&queue=${queue}&rate=1`),
            { retried: 30 });
        const after = Date.now();
        const times = (await Promise.all(ids.map((id) => server.job(id))))
            .map((job) => job.ready_at);
        assert.ok(times[0] >= before && times[0] <= after);
        for (const [i, at] of times.entries()) /* the n-th is due after n / rate seconds */
            assert.ok(at >= times[0] && at - (before + i * 1000) <= after - before, `${i}: ${at}`);
        assert.equal(times[29] - times[19], 10000);
        assert.ok(await count(server, `?queue=${queue}&status=scheduled`) > 0);
    });

    it('is_about_dead_jobs_only', async () => {
        for (const status of ['ready', 'completed', 'dead,completed'])
            assertError(await server.post(`/jobs/retry?status=${status}`), 422, 'unprocessable',
                /status=dead/);
    });

    it('has_a_sane_rate', async () => {
        for (const rate of ['0', '-1', '1.5', 'x', '1000001', ''])
            assertError(await server.post(`/jobs/retry?rate=${rate}`), 400, 'bad_value', /rate/);
    });
});

describe('a change of many', () => {
    const server = useServer();
    const verbs = {
        deleted: (query) => server.delete(`/jobs${query}`),
        patched: (query) => server.patch(`/jobs${query}`, { priority: 1 }),
        retried: (query) => server.post(`/jobs/retry${query}`),
    };

    it('runs_dry_with_a_count_and_a_sample', async () => {
        const queue = queueName();
        for (const [name, verb] of Object.entries(verbs)) {
            await server.delete(`/jobs?queue=${queue}`);
            if (name === 'retried')
                await enqueueDead(server, queue, 12);
            else
                await server.post('/jobs/bulk', {
                    jobs: Array.from({ length: 12 }, (_, i) => ({ queue, type: 't', payload: i })),
                });
            const were = (await server.get(`/jobs?queue=${queue}`)).json.jobs;
            const res = await verb(`?queue=${queue}&dry_run=true`);
            assert.equal(res.status, 200, res.text);
            assert.deepEqual(res.json, { dry_run: true, count: 12, sample: were.slice(0, 10) });
            assert.deepEqual((await server.get(`/jobs?queue=${queue}`)).json.jobs, were);
            assert.deepEqual((await verb(`?queue=${queue}&dry_run=false`)).json, { [name]: 12 });
        }
    });

    it('runs_dry_when_nothing_matches', async () => {
        for (const verb of Object.values(verbs))
            assert.deepEqual((await verb(`?queue=${queueName()}&dry_run=true`)).json,
                { dry_run: true, count: 0, sample: [] });
    });

    it('refuses_parameters_that_it_does_not_know', async () => {
        const job = await server.enqueue({ queue: queueName() });
        for (const verb of Object.values(verbs)) {
            for (const query of ['?dry_run=1', '?dry_run=', '?dry_run=TRUE', '?status=', '?queue=',
                '?status=x', '?priority='])
                assertError(await verb(query), 400, 'bad_value');
            assertError(await verb('?id=x'), 400, 'bad_id');
            for (const name of ['que', 'limit', 'order', 'from', 'dryrun'])
                assertError(await verb(`?${name}=1`), 400, 'unknown_field', new RegExp(name));
            assertError(await verb('?queue=a&queue=b'), 400, 'duplicate_field');
        }
        assert.deepEqual(without(await server.job(job.id), 'payload'), job);
    });

    it('has_a_rate_only_where_that_means_something', async () => {
        const job = await server.enqueue({ queue: queueName() });
        for (const name of ['deleted', 'patched'])
            assertError(await verbs[name](`?queue=${job.queue}&rate=5`), 400, 'unknown_field', /rate/);
        assert.deepEqual(without(await server.job(job.id), 'payload'), job);
    });

    it('is_about_the_jobs_with_these_ids_if_they_also_match', async () => {
        const queue = queueName();
        const jobs = [];
        for (let i = 0; i < 4; i++)
            jobs.push((await server.enqueue({ queue, priority: i })).id);
        const ids = [jobs[2], jobs[0], jobs[2], UNKNOWN].join();
        assert.deepEqual(await patch(server, `/jobs?id=${ids}&priority=1..`, { priority: 9 }),
            { patched: 1 });
        assert.deepEqual(await listIds(server, `?queue=${queue}&priority=9`), [jobs[2]]);
    });

    it('skips_what_has_ended_unless_it_is_asked_for', async () => {
        const queue = queueName();
        const dead = await makeDead(server, { queue });
        const done = await makeCompleted(server, { queue });
        const open = await server.enqueue({ queue });
        assert.deepEqual(await patch(server, `/jobs?queue=${queue}`, { priority: 1 }),
            { patched: 1 });
        assert.equal((await server.job(open.id)).priority, 1);
        for (const { id } of [dead, done])
            assert.equal((await server.job(id)).priority, 32768);
        for (const status of ['dead', 'completed', 'ready,dead'])
            assertError(await server.patch(`/jobs?queue=${queue}&status=${status}`, { priority: 2 }),
                422, 'unprocessable', /completed and dead/);
    });

    it('moves_thousands_of_jobs_once_each', async () => {
        const [from, to] = [queueName(), queueName()];
        await server.post('/jobs/bulk', {
            jobs: Array.from({ length: 3000 }, (_, i) => ({ queue: from, type: 't', payload: i })),
        });
        assert.deepEqual(await patch(server, `/jobs?queue=${from}`, { queue: to, priority: 2 }),
            { patched: 3000 });
        assert.equal(await count(server, `?queue=${from}`), 0);
        assert.equal(await count(server, `?queue=${to}&priority=2`), 3000);
        const got = await server.claim({ queues: [to], count: 100 });
        assert.deepEqual(got.map((job) => job.payload), [...got.keys()]);
        assert.deepEqual((await server.delete(`/jobs?queue=${to}`)).json, { deleted: 3000 });
    });
});

describe('a range', () => {
    const server = useServer();
    const ids = [];
    before(async () => {
        for (let i = 0; i < 5; i++)
            ids.push((await server.enqueue({ queue: 'r', priority: i * 10, ready_at: 1000 + i })).id);
        for (const [i, failures] of [[3, 1], [4, 2]])
            for (let n = 0; n < failures; n++) {
                await patch(server, `/jobs/${ids[i]}`, { priority: 0, queue: 'flying' });
                await server.claimOne('flying');
                await fail(server, ids[i], { retry_at: 1000 + i });
                await patch(server, `/jobs/${ids[i]}`, { priority: i * 10, queue: 'r' });
            }
    });

    for (const [query, want] of [
        ['priority=10', [1]], ['priority=10..30', [1, 2, 3]], ['priority=..10', [0, 1]],
        ['priority=30..', [3, 4]], ['priority=11..19', []], ['priority=0..65535', [0, 1, 2, 3, 4]],
        ['priority=..', [0, 1, 2, 3, 4]], ['ready_at=..&attempts=..', [0, 1, 2, 3, 4]],
        ['priority=65535..', []], ['attempts=..4294967295', [0, 1, 2, 3, 4]],
        ['ready_at=1002', [2]], ['ready_at=1001..1003', [1, 2, 3]], ['ready_at=..1000', [0]],
        ['ready_at=1004..', [4]],
        ['attempts=0', [0, 1, 2]], ['attempts=1..', [3, 4]], ['attempts=..1', [0, 1, 2, 3]],
        ['attempts=2..2', [4]],
        ['priority=..30&attempts=1..', [3]], ['ready_at=..1002&priority=10..', [1, 2]],
        ['priority=10..40&status=ready&type=test&queue=r', [1, 2, 3, 4]],
    ])
        it(`of_${query}_selects_${want.length}`, async () => {
            assert.deepEqual(await listIds(server, `?${query}`), want.map((i) => ids[i]));
            assert.equal(await count(server, `?${query}`), want.length);
            assert.equal((await server.delete(`/jobs?${query}&dry_run=true`)).json.count,
                want.length);
        });

    it('stays_in_the_links_of_pages', async () => {
        const first = (await server.get('/jobs?priority=..30&attempts=0..0&limit=2')).json;
        assert.deepEqual(first.jobs.map((job) => job.id), [ids[0], ids[1]]);
        const second = (await server.get(first.pages.next)).json;
        assert.deepEqual(second.jobs.map((job) => job.id), [ids[2]]);
        assert.equal(second.pages.next, null);
    });

    it('that_begins_after_its_end_is_refused', async () => {
        for (const name of ['priority', 'ready_at', 'attempts'])
            assertError(await server.get(`/jobs?${name}=5..4`), 422, 'unprocessable', /begins after/);
        assertError(await server.delete('/jobs?priority='), 400, 'bad_value');
    });

    for (const range of ['x', '1..x', 'x..1', '1...2', '1..2..3', '-1', '-5..5',
        '1.5', '1e2', '+1', '0x10', '%201', '1,2', '99999999999999999999', '01'])
        it(`of_'${range}'_is_refused`, async () => {
            for (const name of ['priority', 'ready_at', 'attempts']) {
                for (const target of ['/jobs', '/jobs/count'])
                    assertError(await server.get(`${target}?${name}=${range}`), 400, 'bad_value',
                        new RegExp(name));
                assertError(await server.delete(`/jobs?${name}=${range}`), 400, 'bad_value');
            }
            assert.equal(await count(server, ''), 5);
        });
});

describe('filters in a body', () => {
    const server = useServer();

    it('are_refused_where_they_would_go_unseen', async () => {
        const { id } = await makeDead(server);
        const body = { queue: 'another' };
        for (const res of [await server.request('DELETE', '/jobs', body),
            await server.post('/jobs/retry', body)])
            assertError(res, 400, 'unknown_field', /'queue' belongs into the query of the URL/);
        assertError(await server.post('/jobs/retry', [1]), 400, 'wrong_type');
        assert.equal((await server.job(id)).status, 'dead');
        assert.equal((await server.post('/jobs/retry', {})).json.retried, 1);
    });
});

describe('a reset', () => {
    const server = useServer();

    it('leaves_nothing_whatever_there_was', async () => {
        const taker = await server.take('?queue=held');
        await server.enqueue({ queue: 'held' });
        const held = await taker.next();
        await server.enqueue({ queue: 'leased' });
        const leased = await server.claimOne('leased');
        await server.enqueue({ queue: 'later', ready_at: Date.now() + HOUR });
        await makeDead(server);
        await makeCompleted(server);
        await server.post('/jobs/bulk', {
            jobs: Array.from({ length: 1000 }, () => ({ queue: 'many', type: 't', payload: 1 })),
        });
        const res = await server.post('/reset');
        assert.equal(res.status, 204);
        assert.equal(res.text, '');
        assert.equal(await count(server, ''), 0);
        assert.deepEqual((await server.get('/jobs')).json.jobs, []);
        assert.deepEqual((await server.get('/queues')).json.queues, []);
        for (const { id, token } of [held, leased])
            assertError(await server.post(`/jobs/${id}/success`, { token }), 404, 'not_found');
        const { id } = await server.enqueue({ queue: 'held' });
        assert.equal((await taker.next()).id, id); // the stream goes on
        taker.close();
    });

    it('shows_what_would_go_in_a_dry_run', async () => {
        const jobs = Array.from({ length: 12 }, () => ({ queue: 'kept', type: 't', payload: 1 }));
        assert.equal((await server.post('/jobs/bulk', { jobs })).status, 201);
        const before = (await server.get('/jobs/count')).json.count;
        const { status, json } = await server.post('/reset?dry_run=true');
        assert.equal(status, 200);
        assert.deepEqual([json.dry_run, json.count, json.sample.length], [true, before, 10]);
        assert.equal((await server.get('/jobs/count')).json.count, before);
    });

    it('has_no_filters', async () => {
        for (const name of ['queue', 'status', 'id', 'rate'])
            assertError(await server.post(`/reset?${name}=1`), 400, 'unknown_field');
        assertError(await server.post('/reset', { queue: 'q' }), 400, 'unknown_field', /'queue'/);
        assert.notEqual((await server.get('/jobs/count')).json.count, 0);
        assert.equal((await server.post('/reset', {})).status, 204);
    });

    it('of_nothing_is_fine_too', async () => {
        assert.equal((await server.post('/reset')).status, 204);
        assert.equal((await server.post('/reset')).status, 204);
    });
});
