// SPDX-License-Identifier: Apache-2.0
'use strict';

// POST /jobs and POST /jobs/bulk: what is accepted, and what comes back.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, jobOf, queueName, useServer } = require('./harness');

const ID = /^[0-9a-z]{25}$/;

describe('one job is enqueued', () => {
    const server = useServer();

    it('with_the_defaults_of_the_server', async () => {
        const from = Date.now();
        const res = await server.post('/jobs', { queue: 'mail', type: 'welcome', payload: {} });
        assert.equal(res.status, 201);
        const { id, ready_at: readyAt, ...rest } = res.json;
        assert.match(id, ID);
        assert.ok(readyAt >= from && readyAt <= Date.now(), `ready now: ${readyAt}`);
        assert.deepEqual(rest,
            { queue: 'mail', type: 'welcome', priority: 32768, status: 'ready', attempts: 0,
                duplicate: false, folded: false });
    });

    it('with_every_optional_field', async () => {
        const fields = {
            queue: queueName(), type: 'report', priority: 7, ready_at: Date.now() + 3600000,
            retry_limit: 3, backoff: { base_ms: 100, exponent: 2.5, jitter_ms: 50 },
            retention: { completed_ms: 60000, dead_ms: 120000 },
        };
        const res = await server.post('/jobs', { ...fields, payload: [1] });
        assert.equal(res.status, 201);
        const { id, ...rest } = jobOf(res.json);
        assert.deepEqual(rest, { ...fields, status: 'scheduled', attempts: 0 });
        assert.deepEqual(await server.job(id), { ...jobOf(res.json), payload: [1] });
    });

    it('with_as_many_retries_as_a_client_can_say', async () => {
        const retry_limit = 4294967295;
        const job = await server.enqueue({ queue: queueName(), retry_limit });
        assert.equal(job.retry_limit, retry_limit);
        const other = await server.enqueue({ queue: queueName() });
        const patched = await server.patch(`/jobs/${other.id}`, { retry_limit });
        assert.equal(patched.json.retry_limit, retry_limit, patched.text);
        const queue = await server.request('PUT', `/queues/${queueName()}`, { retry_limit });
        assert.equal(queue.json.retry_limit, retry_limit, queue.text);
    });

    it('with_null_for_every_optional_field', async () => {
        const res = await server.post('/jobs', {
            queue: 'mail', type: 't', payload: null, priority: null, ready_at: null,
            retry_limit: null, backoff: null, retention: null, unique_key: null,
            unique_while: null, batch: null,
        });
        assert.equal(res.status, 201, res.text);
        assert.deepEqual(Object.keys(res.json).sort(),
            ['attempts', 'duplicate', 'folded', 'id', 'priority', 'queue', 'ready_at', 'status',
                'type']);
        assert.equal(res.json.priority, 32768);
        assert.equal(res.json.status, 'ready');
    });

    it('with_one_of_the_two_retentions', async () => {
        for (const retention of [{ completed_ms: 1000 }, { dead_ms: 0 }]) {
            const job = await server.enqueue({ queue: queueName(), retention });
            assert.deepEqual(job.retention, retention);
        }
        const other = await server.enqueue({
            queue: queueName(), retention: { completed_ms: null, dead_ms: 5 },
        });
        assert.deepEqual(other.retention, { dead_ms: 5 });
    });

    it('with_the_outermost_priorities', async () => {
        for (const priority of [0, 65535])
            assert.equal((await server.enqueue({ queue: queueName(), priority })).priority,
                priority);
    });

    it('whose_ready_at_is_past_is_ready', async () => {
        const job = await server.enqueue({ queue: queueName(), ready_at: 1000 });
        assert.equal(job.status, 'ready');
        assert.equal(job.ready_at, 1000);
    });

    it('whose_ready_at_comes_is_ready_by_itself', async () => {
        let queue, job, early;
        for (let ahead = 300; ; ahead *= 2) { // until it is asked for in time, on a slow machine
            queue = queueName();
            job = await server.enqueue({ queue, ready_at: Date.now() + ahead });
            early = await server.claim({ queues: [queue] });
            if (Date.now() < job.ready_at)
                break;
        }
        assert.equal(job.status, 'scheduled');
        assert.deepEqual(early, []);
        const claimed = await server.claimOne(queue);
        assert.equal(claimed.id, job.id);
        assert.ok(claimed.dequeued_at >= job.ready_at, 'not before its time');
    });

    it('with_names_of_any_script_and_spaces', async () => {
        const queue = 'Отчёты/日本 «1»:é😀.';
        const job = await server.enqueue({ queue, type: 'a b' });
        assert.equal(job.queue, queue);
        assert.equal(job.type, 'a b');
        const list = await server.get(`/jobs?queue=${encodeURIComponent(queue)}`);
        assert.deepEqual(list.json.jobs.map((j) => j.id), [job.id]);
    });

    it('with_a_name_written_in_escapes', async () => {
        const res = await server.post('/jobs',
            '{"queue": "caf\\u00e9 \\ud83d\\ude00 \\"x\\"", "type": "t\\/u", "payload": 1}');
        assert.equal(res.status, 201, res.text);
        assert.equal(res.json.queue, 'café 😀 "x"');
        assert.equal(res.json.type, 't/u');
    });

    it('with_names_of_255_bytes_and_no_longer', async () => {
        await server.enqueue({ queue: 'q'.repeat(255), type: 't'.repeat(255) });
        for (const fields of [{ queue: 'é'.repeat(128), type: 't' },
            { queue: 'q', type: 't'.repeat(256) }])
            assertError(await server.post('/jobs', { ...fields, payload: 1 }), 400, 'bad_name',
                /255/);
    });

    it('and_ids_grow', async () => {
        const queue = queueName();
        const ids = [];
        for (let i = 0; i < 50; i++)
            ids.push((await server.enqueue({ queue })).id);
        const more = await server.post('/jobs/bulk', {
            jobs: Array.from({ length: 500 }, () => ({ queue, type: 't', payload: 0 })),
        });
        ids.push(...more.json.jobs.map((job) => job.id));
        assert.deepEqual(ids, [...ids].sort(), 'as text, too');
        assert.equal(new Set(ids).size, 550);
        assert.ok(ids.every((id) => ID.test(id)));
    });

    it('and_whole_numbers_may_be_written_as_fractions', async () => {
        const res = await server.post('/jobs',
            '{"queue":"q","type":"t","payload":1,"priority":1.0,"retry_limit":1e1}');
        assert.equal(res.status, 201, res.text);
        assert.equal(res.json.priority, 1);
        assert.equal(res.json.retry_limit, 10);
    });
});

describe('a payload comes back byte for byte', () => {
    const server = useServer();

    const payloads = {
        spaces: '{ "a" :\t1 ,\r\n  "b":[ ]\n, "c" : { } }',
        big_numbers: '[123456789012345678901234567890, 1e400, -0, -0.0, 1E+2, 0.10, 1.0e-999]',
        escapes: '"\\u0041\\u00e9\\ud83d\\ude00\\/\\b\\u0000 é😀"',
        lone_surrogate: '"\\ud800"',
        duplicate_keys: '{"a":1,"a":2}',
        empty_text: '""',
        null: 'null',
        true: 'true',
        deep: '['.repeat(100) + ']'.repeat(100),
        large: JSON.stringify('x'.repeat(1 << 20)),
    };

    for (const [name, payload] of Object.entries(payloads)) {
        it(`with_${name}`, async () => {
            const queue = queueName();
            const res = await server.post('/jobs',
                `{"payload":${payload}, "queue":"${queue}","type":"t"}`);
            assert.equal(res.status, 201, res.text);
            const bytes = Buffer.from(payload);
            const read = await server.get(`/jobs/${res.json.id}`);
            assert.ok(read.bytes.includes(Buffer.concat([Buffer.from('"payload":'), bytes])),
                'read');
            const list = await server.get(`/jobs?queue=${queue}`);
            assert.ok(list.bytes.includes(bytes), 'listed');
            const claim = await server.post('/jobs/claim', { queues: [queue], wait_ms: 0 });
            assert.ok(claim.bytes.includes(bytes), 'claimed');
        });
    }

    it('but_not_deeper_than_the_limit', async () => {
        const payload = '['.repeat(200) + ']'.repeat(200);
        const res = await server.post('/jobs', `{"queue":"q","type":"t","payload":${payload}}`);
        assertError(res, 400, 'too_deep');
        assert.equal(typeof res.json.offset, 'number');
        const huge = '['.repeat(1000000);
        assertError(await server.post('/jobs', `{"x":${huge}`), 400, 'too_deep');
        await server.assertServes();
    });
});

describe('many jobs are enqueued at once', () => {
    const server = useServer();

    it('in_the_order_given', async () => {
        const queue = queueName();
        const jobs = [3, 1, 2].map((n) => ({ queue, type: `t${n}`, payload: n, priority: n }));
        const res = await server.post('/jobs/bulk', { jobs });
        assert.equal(res.status, 201);
        assert.deepEqual(res.json.jobs.map((job) => job.type), ['t3', 't1', 't2']);
        assert.deepEqual(res.json.jobs.map((job) => job.priority), [3, 1, 2]);
        for (const job of res.json.jobs) {
            assert.match(job.id, ID);
            assert.equal(job.status, 'ready');
            assert.ok(!('payload' in job));
        }
    });

    it('each_with_fields_of_its_own', async () => {
        const queue = queueName();
        const readyAt = Date.now() + 3600000;
        const res = await server.post('/jobs/bulk', {
            jobs: [
                { queue, type: 'a', payload: 1, ready_at: readyAt, retry_limit: 0 },
                { queue: `${queue}x`, type: 'b', payload: 2,
                    backoff: { base_ms: 1, exponent: 0, jitter_ms: 0 } },
            ],
        });
        assert.equal(res.status, 201);
        const [a, b] = res.json.jobs;
        assert.equal(a.status, 'scheduled');
        assert.equal(a.ready_at, readyAt);
        assert.equal(a.retry_limit, 0);
        assert.equal(b.status, 'ready');
        assert.equal(b.queue, `${queue}x`);
        assert.deepEqual(b.backoff, { base_ms: 1, exponent: 0, jitter_ms: 0 });
    });

    it('or_none_at_all', async () => {
        const queue = queueName();
        const good = { queue, type: 't', payload: 1 };
        const cases = [
            [{ ...good, priority: -1 }, 'bad_value'],
            [{ ...good, queue: 'a,b' }, 'bad_name'],
            [{ queue, type: 't' }, 'missing_field'],
            [{ ...good, retry_limit: 'x' }, 'wrong_type'],
            [7, 'wrong_type'],
            [{ ...good, batch: { key: 'k', when: 'true', fold: '.[' } }, 'unprocessable'],
        ];
        for (const [bad, code] of cases) {
            const res = await server.post('/jobs/bulk', { jobs: [good, good, bad, good] });
            assertError(res, code === 'unprocessable' ? 422 : 400, code, /jobs\[2\]/);
        }
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
    });

    it('and_an_error_says_at_which_byte', async () => {
        const body = '{"jobs":[{"queue":"q","type":"t","payload":1},{"queue":7}]}';
        const res = await server.post('/jobs/bulk', body);
        assertError(res, 400, 'wrong_type', /jobs\[1\]: queue/);
        assert.equal(res.json.offset, body.indexOf('7'));
    });

    it('and_none_is_a_number_too', async () => {
        const res = await server.post('/jobs/bulk', { jobs: [] });
        assert.equal(res.status, 201);
        assert.deepEqual(res.json, { jobs: [] });
    });

    it('and_the_list_is_required', async () => {
        assertError(await server.post('/jobs/bulk', {}), 400, 'missing_field', /jobs/);
        assertError(await server.post('/jobs/bulk', { jobs: null }), 400, 'wrong_type');
        assertError(await server.post('/jobs/bulk', { jobs: {} }), 400, 'wrong_type');
        assertError(await server.post('/jobs/bulk', '{"jobs":[],"jobs":[]}'), 400,
            'duplicate_field');
    });

    it('and_all_of_them_are_there', async () => {
        const queue = queueName();
        const jobs = Array.from({ length: 5000 }, (_, i) => ({ queue, type: 't', payload: i }));
        const res = await server.post('/jobs/bulk', { jobs });
        assert.equal(res.json.jobs.length, 5000);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 5000);
        const last = res.json.jobs[4999];
        assert.equal((await server.job(last.id)).payload, 4999);
    });

    it('and_they_are_not_too_many', async () => {
        const queue = queueName();
        const some = (length, fields = {}) => ({ jobs: Array.from({ length },
            () => ({ queue, type: 't', payload: 1, ...fields })) });
        assertError(await server.post('/jobs/bulk', some(20001)), 400, 'too_many',
            /^jobs: at most 20000 in one request/);
        const { id } = await server.enqueue({ queue: queueName() });
        assertError(await server.post('/jobs/bulk', some(501, { depends_on: Array(100).fill(id) })),
            400, 'too_many', /^jobs\[500\]: depends_on: at most 50000 in one request/);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
        const { status, json } = await server.post('/jobs/bulk',
            some(500, { depends_on: Array(100).fill(id) }));
        assert.equal(status, 201);
        assert.deepEqual((await server.job(json.jobs[499].id)).waits_for, [id]);
    });
});
