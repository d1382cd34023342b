// SPDX-License-Identifier: Apache-2.0
'use strict';

// Bodies that are wrong: each gets an error that says what and where, and changes nothing.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, useServer } = require('./harness');

const GOOD = { queue: 'never', type: 't', payload: 1 };

describe('a body', () => {
    const server = useServer();

    // No test of this block may leave a job.
    async function assertNothing() {
        assert.equal((await server.get('/jobs/count')).json.count, 0);
        await server.assertServes();
    }

    // Text, and the byte at which it goes wrong.
    const broken = [
        ['', 0],
        ['   ', 3],
        ['{', 1],
        ['{"queue":"q",}', 13],
        ['{"queue":"q" "type":"t"}', 13],
        ['{"queue":"q","type":"t","payload":}', 34],
        ['{"queue":"q","type":"t","payload":01}', 35],
        ['{"queue":"q","type":"t","payload":1}x', 36],
        ['{"queue":"q","type":"t","payload":1}{}', 36],
        ["{'queue':'q'}", 1],
        ['{"queue":"q","type":"t","payload":[1,]}', 37],
        ['{"queue":"q","type":"t","payload":nul}', 37],
        ['{"queue":"q","type":"t","payload":NaN}', 34],
        ['{"queue":"q","type":"t","payload":+1}', 34],
        ['{"queue":"q","type":"t","payload":.5}', 34],
        ['{"queue":"q","type":"t","payload":"a\nb"}', 36],
        ['{"queue":"q","type":"t","payload":"\\x"}', 36],
        ['{"queue":"q","type":"t","payload":"\\u12g4"}', 39],
        ['{"queue":"q","type":"t","payload":"', 35],
        ['\ufeff{}', 0],
        ['{"queue":"q","type":"t","payload":1}\0', 36],
    ];
    for (const [body, offset] of broken)
        it(`that_is_broken_at_byte_${offset}_is_refused: ${JSON.stringify(body)}`, async () => {
            const res = await server.post('/jobs', body);
            assertError(res, 400, 'bad_json');
            assert.equal(res.json.offset, offset, res.text);
        });

    it('that_is_another_value_than_an_object_is_refused', async () => {
        for (const body of ['[]', '1', 'null', '"x"', 'true'])
            for (const target of ['/jobs', '/jobs/bulk', '/jobs/success', '/jobs/claim'])
                assertError(await server.post(target, body), 400, 'wrong_type');
    });

    const wrongTypes = {
        queue: [null, 7, true, [], {}], type: [null, 7, {}], priority: ['1', true, [], {}],
        ready_at: ['2030-01-01', true, {}], retry_limit: ['3', false], backoff: [7, 'x', []],
        retention: [7, 'x', [1]],
    };
    for (const [name, values] of Object.entries(wrongTypes))
        it(`with_a_${name}_of_a_wrong_type_is_refused`, async () => {
            for (const value of values) {
                const body = JSON.stringify({ ...GOOD, [name]: value });
                const res = await server.post('/jobs', body);
                assertError(res, 400, 'wrong_type', new RegExp(`^${name}: `));
                const at = body.indexOf(`"${name}":`) + name.length + 3;
                assert.equal(res.json.offset, at, res.text);
            }
        });

    it('with_wrong_types_inside_is_refused_with_the_path', async () => {
        const curve = { base_ms: 1, exponent: 2, jitter_ms: 3 };
        const cases = [
            ['backoff', { ...curve, base_ms: '1' }, 'wrong_type', /^backoff: base_ms: /],
            ['backoff', { ...curve, exponent: null }, 'wrong_type', /^backoff: exponent: /],
            ['backoff', { ...curve, jitter_ms: -1 }, 'bad_value', /^backoff: jitter_ms: /],
            ['backoff', { ...curve, exponent: 101 }, 'bad_value', /^backoff: exponent: /],
            ['backoff', { ...curve, exponent: -1 }, 'bad_value', /^backoff: exponent: /],
            ['backoff', { ...curve, base_ms: 1.5 }, 'bad_value', /^backoff: base_ms: /],
            ['backoff', { base_ms: 1, exponent: 2 }, 'missing_field', /^backoff: jitter_ms/],
            ['backoff', {}, 'missing_field', /^backoff: /],
            ['retention', { completed_ms: 'x' }, 'wrong_type', /^retention: completed_ms: /],
            ['retention', { dead_ms: -1 }, 'bad_value', /^retention: dead_ms: /],
            ['retention', { dead_ms: 1e16 }, 'bad_value', /^retention: dead_ms: /],
        ];
        for (const [name, value, code, sentence] of cases)
            assertError(await server.post('/jobs', { ...GOOD, [name]: value }), 400, code,
                sentence);
    });

    for (const name of Object.keys(GOOD))
        it(`without_${name}_is_refused`, async () => {
            const body = { ...GOOD };
            delete body[name];
            assertError(await server.post('/jobs', body), 400, 'missing_field', new RegExp(name));
        });

    const outOfRange = {
        priority: ['-1', '65536', '1.5', '1e400', '-1e400', '1e5', '99999999999999999999', '0.1e0',
            '123456789'.repeat(50)],
        ready_at: ['-1', '1e300', '281474976710657', '9223372036854775808', '1700000000000.5'],
        retry_limit: ['-1', '4294967296', '0.5'],
    };
    for (const [name, values] of Object.entries(outOfRange))
        it(`with_a_${name}_out_of_range_is_refused`, async () => {
            for (const value of values) {
                const body = `{"queue":"q","type":"t","payload":1,"${name}":${value}}`;
                const res = await server.post('/jobs', body);
                assertError(res, 400, 'bad_value', new RegExp(`^${name}: `));
                assert.equal(res.json.offset, body.indexOf(value, 34));
            }
        });

    for (const c of [',', '*', '?', '[', ']', '{', '}', '\\', '\u0000', '\n', '\u001f', '\u007f'])
        it(`with_${JSON.stringify(c)}_in_a_name_is_refused`, async () => {
            for (const name of ['queue', 'type']) {
                const body = { ...GOOD, [name]: `a${c}b` };
                assertError(await server.post('/jobs', body), 400, 'bad_name',
                    new RegExp(`^${name}: .*byte 1`));
            }
        });

    it('with_an_empty_name_is_refused', async () => {
        for (const name of ['queue', 'type'])
            assertError(await server.post('/jobs', { ...GOOD, [name]: '' }), 400, 'bad_name',
                /empty/);
    });

    it('with_a_field_given_twice_is_refused', async () => {
        const cases = [
            ['/jobs', '{"queue":"q","queue":"q","type":"t","payload":1}', 14],
            ['/jobs', '{"payload":1,"queue":"q","type":"t","payload":1}', 37],
            ['/jobs', '{"priority":null,"priority":1}', 18],
            ['/jobs/claim', '{"count":1,"count":1}', 12],
            ['/jobs/success', '{"ids":[],"ids":[]}', 11],
        ];
        for (const [target, body, offset] of cases) {
            const res = await server.post(target, body);
            assertError(res, 400, 'duplicate_field', /twice/);
            assert.equal(res.json.offset, offset);
        }
        const inside = '{"queue":"q","type":"t","payload":1,"retention":{"dead_ms":1,"dead_ms":2}}';
        assertError(await server.post('/jobs', inside), 400, 'duplicate_field', /^retention: /);
    });

    const malformed = {
        a_lone_byte: [0xff], a_cut_off_character: [0xc3], a_long_form: [0xc0, 0xaf],
        a_surrogate: [0xed, 0xa0, 0x80], more_than_there_are: [0xf4, 0x90, 0x80, 0x80],
        a_stray_continuation: [0x80],
    };
    for (const [name, bytes] of Object.entries(malformed))
        it(`with_${name}_is_not_UTF-8_and_refused`, async () => {
            for (const field of ['queue', 'type', 'payload', 'unknown']) {
                const parts = { ...GOOD, [field]: '\u0001' };
                const [head, tail] = JSON.stringify(parts).split('\\u0001');
                const body = Buffer.concat([Buffer.from(head), Buffer.from(bytes),
                    Buffer.from(tail)]);
                const res = await server.post('/jobs', body);
                assertError(res, 400, 'bad_utf8');
                assert.equal(res.json.offset, Buffer.byteLength(head), res.text);
            }
        });

    it('with_a_lone_surrogate_in_a_name_is_refused', async () => {
        const res = await server.post('/jobs', '{"queue":"a\\ud800","type":"t","payload":1}');
        assertError(res, 400, 'bad_utf8', /^queue: /);
    });

    it('of_an_unsupported_media_type_is_refused', async () => {
        for (const type of ['application/xml', 'text/html', 'multipart/form-data; boundary=x',
            'nonsense'])
            for (const target of ['/jobs', '/jobs/bulk', '/jobs/claim', '/jobs/success'])
                assertError(await server.post(target, GOOD, { 'content-type': type }), 415,
                    'unsupported_media_type');
        const { json } = await server.post('/jobs', GOOD, { 'content-type': 'text/html' });
        assert.deepEqual(json.supported, ['application/json', 'application/msgpack']);
    });

    it('is_not_asked_for_an_answer_that_cannot_be_given', async () => {
        for (const accept of ['text/html', 'application/xml, text/*', 'image/png'])
            for (const target of ['/jobs', '/jobs/count', '/queues', '/health', '/jobs/take'])
                assertError(await server.get(target, { accept }), 406, 'not_acceptable');
        for (const [target, supported] of [['/jobs', ['application/json', 'application/msgpack']],
            ['/jobs/take', ['application/x-ndjson', 'text/event-stream', 'application/vnd.zizq.msgpack-stream']]])
            assert.deepEqual((await server.get(target, { accept: 'image/png' })).json.supported, supported);
        assertError(await server.post('/jobs', GOOD, { accept: 'text/html' }), 406,
            'not_acceptable');
        for (const accept of ['*/*', 'application/*', 'application/json;q=0.1',
            'text/html, APPLICATION/JSON'])
            assert.equal((await server.get('/queues', { accept })).status, 200);
    });

    it('after_all_that_the_server_has_no_job_and_serves', assertNothing);
});

describe('a body that is right', () => {
    const server = useServer();

    it('may_have_fields_that_are_not_known', async () => {
        const queue = queueName();
        const res = await server.post('/jobs', {
            ...GOOD, queue, colour: { deep: [1, { a: null }] }, Priority: 5, '': 1,
            retention: { dead_ms: 1, other: 2 },
            backoff: { base_ms: 1, exponent: 1, jitter_ms: 1, other: [] },
        });
        assert.equal(res.status, 201, res.text);
        assert.equal(res.json.priority, 32768);
        assert.ok(!('colour' in res.json));
        assert.deepEqual(res.json.retention, { dead_ms: 1 });
        const twice = await server.post('/jobs',
            `{"queue":"${queue}","x":1,"x":2,"type":"t","payload":1}`);
        assert.equal(twice.status, 201, 'what is not known is not compared');
    });

    for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON',
        'application/vnd.api+json'])
        it(`may_be_called_${type}`, async () => {
            const res = await server.post('/jobs', GOOD, { 'content-type': type });
            assert.equal(res.status, 201, res.text);
        });

    it('may_have_white_space_around_it', async () => {
        const res = await server.post('/jobs', ` \r\n\t${JSON.stringify(GOOD)}\n \t\r`);
        assert.equal(res.status, 201, res.text);
    });

    it('of_a_report_may_be_absent', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/renew`)).status, 200);
        assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
    });
});

describe('a strict server', () => {
    const server = useServer({ env: { TENAX_STRICT: '1' } });

    it('refuses_fields_that_are_not_known', async () => {
        const queue = queueName();
        const curve = { base_ms: 1, exponent: 1, jitter_ms: 1 };
        const bodies = [
            ['/jobs', { ...GOOD, queue, colour: 1 }, /colour/],
            ['/jobs', { ...GOOD, queue, retention: { dead: 1 } }, /^retention: .*dead/],
            ['/jobs', { ...GOOD, queue, backoff: { ...curve, base: 1 } }, /^backoff: .*base/],
            ['/jobs/bulk', { jobs: [{ ...GOOD, queue }, { ...GOOD, queue, x: 1 }] },
                /jobs\[1\]: .*x/],
            ['/jobs/bulk', { jobs: [], job: [] }, /'job'/],
            ['/jobs/claim', { queue }, /queue/],
            ['/jobs/success', { ids: [], id: 1 }, /'id'/],
        ];
        for (const [target, body, sentence] of bodies) {
            const res = await server.post(target, body);
            assertError(res, 400, 'unknown_field', sentence);
            assert.equal(typeof res.json.offset, 'number');
        }
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
    });

    it('refuses_them_in_reports_too', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        for (const verb of ['success', 'failure', 'renew', 'release'])
            assertError(await server.post(`/jobs/${id}/${verb}`, { message: 'm', nope: 1 }), 400,
                'unknown_field');
        assert.equal((await server.job(id)).status, 'in_flight');
    });

    it('accepts_what_is_known', async () => {
        const res = await server.post('/jobs', {
            ...GOOD, priority: 1, ready_at: 1, retry_limit: 1,
            retention: { dead_ms: 1, completed_ms: 1 },
            backoff: { base_ms: 1, exponent: 1, jitter_ms: 1 },
        });
        assert.equal(res.status, 201, res.text);
    });
});

describe('a server that is not strict', () => {
    const server = useServer();

    it('refuses_changes_and_claims_with_members_that_it_does_not_know', async () => {
        const budget = { allocation: 1, strategy: { type: 'while_in_flight' } };
        const entry = { name: 'e', expression: '0 0 * * *', job: { queue: 'q', type: 't', payload: 1 } };
        const rate = { count: 1, per_ms: 1000 };
        for (const [method, target, body, sentence] of [
            ['PUT', '/queues/q', { pasued: true }, /'pasued'/],
            ['PATCH', '/queues/q', { rate: { ...rate, burts: 1 } }, /^rate: .*'burts'/],
            ['PATCH', '/queues/q', { retention: { dead: 1 } }, /^retention: .*'dead'/],
            ['POST', '/queues', { name: 'q', concurency: 1 }, /'concurency'/],
            ['PUT', '/budgets/b', { ...budget, alocation: 2 }, /'alocation'/],
            ['POST', '/budgets/b', { ...budget, strategy: { type: 'while_in_flight', bursts: 1 } }, /'bursts'/],
            ['PUT', '/crons/c', { entries: [{ ...entry, timezon: 'UTC' }] }, /'timezon'/],
            ['PUT', '/crons/c', { entries: [{ ...entry, job: { ...entry.job, prio: 1 } }] }, /job: .*'prio'/],
            ['POST', '/crons/c/entries', { ...entry, pause: true }, /'pause'/],
            ['PUT', '/settings/retry', { enabeld: true }, /enabeld/],
            ['POST', '/jobs/claim', { queue: 'q', worker: 'w' }, /'queue'/],
        ])
            assertError(await server.request(method, target, body), 400, 'unknown_field', sentence);
        assert.deepEqual((await server.get('/crons')).json.crons, []);
        assert.deepEqual((await server.get('/budgets')).json.budgets, []);
    });

    it('refuses_a_release_with_a_member_of_another_report', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        const { token } = await server.claimOne((await server.job(id)).queue);
        assertError(await server.post(`/jobs/${id}/release`, { token, retry_at: 1 }), 400, 'unknown_field',
            /'retry_at'/);
        assert.equal((await server.job(id)).status, 'in_flight');
    });

    it('takes_its_own_answers_about_crons_back', async () => {
        const job = { queue: 'q', type: 't', payload: 1, retention: { dead_ms: 5 } };
        await server.request('PUT', '/crons/back', {
            entries: [{ name: 'e', expression: '0 0 * * *', timezone: 'UTC', paused: true, job }],
        });
        await server.patch('/crons/back/entries/e', { paused: false });
        const was = (await server.get('/crons/back')).json;
        assert.ok(was.entries[0].resumed_at);
        const res = await server.request('PUT', '/crons/back', was);
        assert.equal(res.status, 200, res.text);
        assert.equal((await server.request('PUT', '/crons/back/entries/e', was.entries[0])).status, 200);
    });
});

describe('a request that asks for strictness', () => {
    const server = useServer();
    const STRICT = { 'tenax-strict': 'true' };

    it('is_refused_for_fields_and_parameters_that_are_not_known', async () => {
        const queue = queueName();
        const body = { ...GOOD, queue, colour: 1 };
        assertError(await server.post('/jobs', body, STRICT), 400, 'unknown_field', /colour/);
        for (const target of ['/jobs?colour=1', '/queues?colour=1', '/version?colour=1'])
            assertError(await server.get(target, STRICT), 400, 'unknown_field', /colour/);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
    });

    it('says_nothing_about_the_next_one', async () => {
        for (const headers of [{}, { 'tenax-strict': 'false' }]) {
            await server.post('/jobs', { ...GOOD, colour: 1 }, STRICT);
            assert.equal((await server.post('/jobs', { ...GOOD, colour: 1 }, headers)).status, 201);
        }
    });

    it('says_true_or_false', async () => {
        for (const word of ['yes', '1', 'TRUE'])
            assertError(await server.get('/version', { 'tenax-strict': word }), 400, 'bad_value',
                /Tenax-Strict is true or false/);
    });
});

describe('a request that asks a strict server for less strictness', () => {
    const server = useServer({ args: ['--strict'] });

    it('does_not_get_it', async () => {
        assertError(await server.post('/jobs', { ...GOOD, colour: 1 }, { 'tenax-strict': 'false' }),
            400, 'unknown_field', /colour/);
    });
});
