// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /jobs/take: which jobs a stream gives, in which order, and what its end means.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, notOn, queueName, rawGet, repeat, until, useServer } = require('./harness');

const BEAT = ['--heartbeat-interval', '100ms'];

async function succeed(server, id) {
    const res = await server.post(`/jobs/${id}/success`);
    assert.equal(res.status, 204, res.text);
}

describe('a stream of jobs', () => {
    const server = useServer({ args: BEAT });

    it('gives_a_job_with_its_payload_and_its_run', async () => {
        const queue = queueName();
        const sent = await server.enqueue({ queue, payload: { a: [1] }, retry_limit: 2 });
        const from = Date.now();
        const taker = await server.take(`?queue=${queue}`);
        assert.equal(taker.status, 200);
        assert.equal(taker.headers['content-type'], 'application/x-ndjson');
        const { token, dequeued_at: at, ...job } = await taker.next();
        assert.deepEqual(job, { ...sent, status: 'in_flight', payload: { a: [1] }, run: 0 });
        assert.match(token, /^[0-9a-f]{16}$/);
        assert.ok(at >= from && at <= Date.now());
        taker.close();
    });

    it('gives_lower_priorities_first_and_each_in_the_order_of_enqueueing', async () => {
        const queue = queueName();
        const priorities = [500, 100, 500, 0, 100, 65535, 500];
        const ids = await server.enqueueMany(priorities.map((priority) => ({ queue, priority })));
        const taker = await server.take(`?queue=${queue}&prefetch=10`);
        assert.equal(taker.headers['x-accel-buffering'], 'no');
        assert.deepEqual(await taker.nextIds(7), [3, 1, 4, 0, 2, 6, 5].map((i) => ids[i]));
        taker.close();
    });

    it('gives_a_new_job_of_lower_priority_before_those_that_wait', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(3, { queue, priority: 900 }));
        const taker = await server.take(`?queue=${queue}`);
        assert.equal((await taker.next()).id, ids[0]);
        const urgent = await server.enqueue({ queue, priority: 500 });
        await succeed(server, ids[0]);
        assert.equal((await taker.next()).id, urgent.id);
        await succeed(server, urgent.id);
        assert.equal((await taker.next()).id, ids[1]);
        taker.close();
    });

    it('gives_everything_there_is_with_a_prefetch_of_0_or_of_very_many', async () => {
        for (const prefetch of ['0', '100001', '9007199254740993']) {
            const queue = queueName();
            const ids = await server.enqueueMany(repeat(1500, { queue }));
            const taker = await server.take(`?queue=${queue}&prefetch=${prefetch}`);
            assert.deepEqual(await taker.nextIds(1500), ids);
            taker.close();
        }
    });

    it('gives_no_more_than_prefetch_without_a_report', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(5, { queue }));
        const taker = await server.take(`?queue=${queue}&prefetch=2`);
        assert.deepEqual(await taker.nextIds(2), ids.slice(0, 2));
        await taker.assertQuiet();
        await succeed(server, ids[1]);
        assert.deepEqual(await taker.nextIds(1), [ids[2]]);
        await taker.assertQuiet();
        const failed = await server.post(`/jobs/${ids[0]}/failure`, { message: 'x' });
        assert.equal(failed.status, 200);
        assert.deepEqual(await taker.nextIds(1), [ids[3]]);
        taker.close();
    });

    it('gives_one_at_a_time_unless_asked_for_more', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(2, { queue }));
        const taker = await server.take(`?queue=${queue}`);
        assert.equal((await taker.next()).id, ids[0]);
        await taker.assertQuiet();
        taker.close();
    });

    it('gives_jobs_of_the_queues_it_names_only', async () => {
        const [a, b, c] = [queueName(), queueName(), queueName('не латиница')];
        const ids = await server.enqueueMany(
            [{ queue: a }, { queue: b }, { queue: c }, { queue: b }]);
        const taker = await server.take(`?queue=${a},${encodeURIComponent(c)}&prefetch=9`);
        assert.deepEqual(await taker.nextIds(2), [ids[0], ids[2]]);
        await taker.assertQuiet();
        taker.close();
    });

    it('orders_several_queues_by_priority_and_age_as_if_they_were_one', async () => {
        const [a, b] = [queueName(), queueName()];
        const ids = await server.enqueueMany([
            { queue: a, priority: 5 }, { queue: b, priority: 5 }, { queue: b, priority: 1 },
            { queue: a, priority: 9 }, { queue: a, priority: 5 },
        ]);
        const taker = await server.take(`?queue=${a},${b},${a}&prefetch=9`);
        assert.deepEqual(await taker.nextIds(5), [2, 0, 1, 4, 3].map((i) => ids[i]));
        taker.close();
    });

    it('gives_a_job_as_soon_as_it_is_enqueued', async () => {
        const queue = queueName();
        const taker = await server.take(`?queue=${queue}`);
        const job = await server.enqueue({ queue });
        assert.equal((await taker.next()).id, job.id);
        taker.close();
    });

    it('gives_a_scheduled_job_when_its_time_comes', async () => {
        const queue = queueName();
        const taker = await server.take(`?queue=${queue}`);
        const sent = await server.enqueue({ queue, ready_at: Date.now() + 150 });
        const job = await taker.next();
        assert.equal(job.id, sent.id);
        assert.ok(job.dequeued_at >= sent.ready_at);
        taker.close();
    });

    it('puts_a_payload_with_line_breaks_on_one_line', async () => {
        const queue = queueName();
        const payload = '{\r\n  "a":\n [1,\r\r2],\n"b": "x\\ny"}';
        const res = await server.post('/jobs',
            `{"queue":"${queue}","type":"t","payload":${payload}}`);
        assert.equal(res.status, 201);
        const taker = await server.take(`?queue=${queue}`);
        assert.deepEqual((await taker.next()).payload, JSON.parse(payload));
        const line = taker.lines[0];
        assert.ok(line.includes(payload.replace(/[\r\n]/g, ' ')), 'the same but for line breaks');
        assert.equal(taker.lines.length, 1);
        taker.close();
    });

    it('says_that_it_is_alive_by_blank_lines', async () => {
        const taker = await server.take(`?queue=${queueName()}`);
        await taker.until(() => taker.beats >= 3, 'three heartbeats');
        assert.deepEqual(taker.lines, []);
        taker.close();
    });

    it('shares_the_jobs_of_a_queue_with_another', async () => {
        const queue = queueName();
        const takers = [await server.take(`?queue=${queue}`), await server.take(`?queue=${queue}`)];
        const ids = await server.enqueueMany(repeat(4, { queue }));
        const first = await Promise.all(takers.map((taker) => taker.next()));
        assert.deepEqual(first.map((job) => job.id).sort(), ids.slice(0, 2));
        for (const job of first)
            await succeed(server, job.id);
        const second = await Promise.all(takers.map((taker) => taker.next()));
        assert.deepEqual(second.map((job) => job.id).sort(), ids.slice(2));
        takers.forEach((taker) => taker.close());
    });

    it('goes_on_after_its_job_was_deleted', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(2, { queue }));
        const taker = await server.take(`?queue=${queue}`);
        assert.equal((await taker.next()).id, ids[0]);
        assert.equal((await server.delete(`/jobs/${ids[0]}`)).status, 204);
        assert.equal((await taker.next()).id, ids[1]);
        assertError(await server.post(`/jobs/${ids[0]}/success`), 404, 'not_found');
        taker.close();
    });

    it('carries_thousands_of_jobs_in_order', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(3000, { queue, payload: 'x'.repeat(300) }));
        const taker = await server.take(`?queue=${queue}&prefetch=500`);
        for (let from = 0; from < ids.length; from += 500) {
            const part = await taker.nextIds(500);
            assert.deepEqual(part, ids.slice(from, from + 500));
            assert.equal((await server.post('/jobs/success', { ids: part })).status, 204);
        }
        await taker.assertQuiet();
        taker.close();
    });

    it('of_a_reader_that_pauses_loses_nothing', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(400, { queue, payload: 'x'.repeat(30000) }));
        const taker = await server.take(`?queue=${queue}&prefetch=1000`);
        taker.res.pause();
        const held = async () =>
            (await server.get(`/jobs/count?queue=${queue}&status=in_flight`)).json;
        await until(async () => (await held()).count > 0, 'jobs are on their way');
        await server.assertServes();
        taker.res.resume();
        assert.deepEqual(await taker.nextIds(400), ids);
        taker.close();
    });
});

describe('a stream that names no queue', () => {
    const server = useServer({ args: BEAT });

    it('gives_jobs_of_all_by_priority_and_age', async () => {
        const ids = await server.enqueueMany([
            { queue: 'a', priority: 2 }, { queue: 'b', priority: 1 }, { queue: 'c', priority: 2 },
            { queue: 'b', priority: 3 }, { queue: 'a', priority: 1 },
        ]);
        const taker = await server.take('?prefetch=100');
        assert.deepEqual(await taker.nextIds(5), [1, 4, 0, 2, 3].map((i) => ids[i]));
        const later = await server.enqueue({ queue: 'new' });
        assert.equal((await taker.next()).id, later.id);
        taker.close();
    });
});

describe('a closed stream', () => {
    const server = useServer({ args: BEAT });

    async function ready(id) {
        return until(async () => {
            const job = await server.job(id);
            return job.status === 'ready' && job;
        }, 'the job is ready again');
    }

    it('returns_its_jobs_with_attempts_unchanged', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(3, { queue }));
        const taker = await server.take(`?queue=${queue}&prefetch=2`, { 'worker-id': 'w-1' });
        await taker.nextIds(2);
        taker.close();
        const job = await ready(ids[0]);
        assert.equal(job.attempts, 0);
        assert.match(job.reason, /stream closed/);
        const runs = await server.runs(ids[0]);
        assert.equal(runs.length, 1);
        assert.equal(runs[0].run, 0);
        assert.equal(runs[0].worker, 'w-1');
        assert.equal(runs[0].outcome, 'worker-lost');
        assert.match(runs[0].reason, /stream closed/);
        assert.ok(runs[0].ended_at >= runs[0].taken_at);
        assert.equal(runs[0].lease_expires_at, null);
        assert.ok(!('attempt' in runs[0]), 'it does not count as a failure');
        const errors = await server.get(`/jobs/${ids[0]}/errors`);
        assert.deepEqual(errors.json.errors, []);
        await ready(ids[1]);
        const again = await server.take(`?queue=${queue}&prefetch=3`);
        assert.deepEqual(await again.nextIds(3), ids, 'in their old places');
        again.close();
    });

    it('gives_its_jobs_to_another_at_once', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const first = await server.take(`?queue=${queue}`);
        const one = await first.next();
        const second = await server.take(`?queue=${queue}`);
        first.close();
        const two = await second.next();
        assert.equal(two.id, id);
        assert.equal(two.run, 1);
        assert.notEqual(two.token, one.token);
        assertError(await server.post(`/jobs/${id}/success`, { token: one.token }), 409,
            'stale_token');
        assert.equal((await server.job(id)).status, 'in_flight', 'a stale report changes nothing');
        assert.equal((await server.post(`/jobs/${id}/success`, { token: two.token })).status, 204);
        second.close();
    });

    it('is_one_whose_client_shut_down_its_side', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const wire = await server.wire();
        wire.send(rawGet(`/jobs/take?queue=${queue}`));
        await wire.before(id);
        wire.end();
        const job = await ready(id);
        assert.equal(job.attempts, 0);
        wire.close();
    });

    it('makes_a_report_of_its_job_a_report_of_no_run', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const taker = await server.take(`?queue=${queue}`);
        const { token } = await taker.next();
        taker.close();
        await ready(id);
        assertError(await server.post(`/jobs/${id}/success`), 404, 'not_in_flight');
        assertError(await server.post(`/jobs/${id}/success`, { token }), 409, 'stale_token');
        assertError(await server.post(`/jobs/${id}/failure`, { message: 'm', token }), 409,
            'stale_token');
    });

    it('is_ended_in_good_order_by_a_server_that_stops',
        notOn('standby', 'it is the owner that stops'), async () => {
        const other = new Server({ args: BEAT });
        try {
            await other.start();
            const { id } = await other.enqueue({ queue: 'q' });
            const taker = await other.take();
            await taker.next();
            await other.stop();
            await taker.ended();
            assert.ok(taker.inGoodOrder, 'with the last chunk');
            await other.start();
            const job = await other.job(id);
            assert.equal(job.status, 'ready');
            assert.equal(job.attempts, 0);
            assert.equal((await other.runs(id))[0].outcome, 'worker-lost');
        } finally {
            await other.clean();
        }
    });
});

describe('asking for a stream', () => {
    const server = useServer({ args: BEAT });

    for (const prefetch of ['-1', '1.5', 'x', '99999999999999999999', '1e400'])
        it(`is_refused_with_prefetch_${prefetch}`, async () => {
            const res = await server.get(`/jobs/take?prefetch=${prefetch}`);
            assertError(res, 400, 'bad_value', /prefetch/);
        });

    it('is_refused_with_a_name_that_is_none', async () => {
        for (const queue of ['a*', 'a%5Bb', '%00', 'x'.repeat(256)])
            assertError(await server.get(`/jobs/take?queue=${queue}`), 400, 'bad_name', /queue/);
    });

    it('is_refused_with_a_parameter_given_twice', async () => {
        assertError(await server.get('/jobs/take?queue=a&queue=b'), 400, 'duplicate_field',
            /queue/);
        assertError(await server.get('/jobs/take?prefetch=1&prefetch=2'), 400, 'duplicate_field');
    });

    it('is_refused_with_more_than_a_thousand_queues', async () => {
        const names = Array.from({ length: 1001 }, (_, i) => i.toString(36));
        assertError(await server.get(`/jobs/take?queue=${names}`), 400, 'too_many');
        const taker = await server.take(`?queue=${names.slice(1)}`);
        assert.equal(taker.status, 200);
        taker.close();
    });

    it('is_refused_with_a_worker_that_has_no_proper_name', async () => {
        assertError(await server.get('/jobs/take', { 'worker-id': 'a*b' }), 400, 'bad_name',
            /Worker-Id/);
    });

    it('comes_as_server_sent_events_to_who_asks_for_them', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, payload: { text: 'a\nb' } });
        const wire = await server.wire();
        wire.send(rawGet(`/jobs/take?queue=${queue}`, 'Accept: text/event-stream\r\n'));
        const head = await wire.head();
        assert.equal(head.status, 200);
        assert.equal(head.headers['content-type'], 'text/event-stream');
        let text = '';
        while (!/^: heartbeat\n\n/m.test(text)) {
            text += await wire.bytes(parseInt(await wire.before('\r\n'), 16));
            await wire.before('\r\n');
        }
        const [, data] = /^data: (.*)\n\n/.exec(text);
        const job = JSON.parse(data);
        assert.equal(job.id, id);
        assert.deepEqual(job.payload, { text: 'a\nb' });
        assert.match(job.token, /^[0-9a-f]{16}$/);
        wire.close();
    });

    it('is_refused_with_HEAD_which_could_not_show_the_jobs', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const res = await server.request('HEAD', `/jobs/take?queue=${queue}`);
        assert.equal(res.status, 405);
        assert.equal(res.headers.allow, 'GET');
        const job = await server.job(id);
        assert.equal(job.status, 'ready');
        assert.ok(!('dequeued_at' in job), 'nobody had it');
    });

    it('is_answered_with_the_content_type_asked_for', async () => {
        for (const accept of ['application/x-ndjson', 'application/json', '*/*',
            'Application/*;q=0.5']) {
            const taker = await server.take(`?queue=${queueName()}`, { accept });
            assert.equal(taker.status, 200);
            taker.close();
        }
        assertError(await server.get('/jobs/take', { accept: 'text/html' }), 406, 'not_acceptable');
    });
});
