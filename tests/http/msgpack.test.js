// SPDX-License-Identifier: Apache-2.0
'use strict';

// The Jobs API in MessagePack: the same requests in both formats get the same answers.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, describe, it } = require('node:test');
const { Server, queueName, useServer, within } = require('./harness');
const { Float, pack, plain, unpack } = require('./msgpack');

const TYPE = 'application/msgpack';
const STREAM = 'application/vnd.zizq.msgpack-stream';

// A request in MessagePack, both ways: {status, headers, bytes, value}.
async function ask(server, method, target, body, headers = {}) {
    const res = await server.request(method, target, body === undefined ? undefined : pack(body), {
        accept: TYPE, ...(body === undefined ? {} : { 'content-type': TYPE }), ...headers,
    });
    if (res.bytes.length) {
        assert.equal(res.headers['content-type'], TYPE, res.text);
        res.value = unpack(res.bytes);
    }
    return res;
}

async function askRaw(server, target, bytes, headers = {}) {
    const res = await server.post(target, Buffer.from(bytes), {
        accept: TYPE, 'content-type': TYPE, ...headers,
    });
    res.value = unpack(res.bytes);
    return res;
}

function assertRefused(res, status, code, offset) {
    assert.equal(res.status, status, JSON.stringify(res.value));
    assert.equal(res.headers['content-type'], TYPE);
    assert.equal(res.value.code, code);
    assert.ok(res.value.error.length > 0);
    if (offset !== undefined)
        assert.equal(res.value.offset, offset, res.value.error);
}

// The messages of a stream of length-prefixed MessagePack.
class PackedTaker {
    constructor(server, query) {
        this.seen = Buffer.alloc(0);
        this.jobs = [];
        this.beats = 0;
        this.wakeups = [];
        this.req = http.get({
            host: '127.0.0.1', port: server.port, path: `/jobs/take${query}`, agent: false,
            headers: { accept: STREAM },
        });
        this.req.on('error', () => {});
        this.opened = within(new Promise((resolve) => this.req.on('response', (res) => {
            this.headers = res.headers;
            this.status = res.statusCode;
            res.on('error', () => {});
            res.on('data', (bytes) => this.input(bytes));
            resolve();
        })), 'the stream is open');
    }

    input(bytes) {
        this.seen = Buffer.concat([this.seen, bytes]);
        while (this.seen.length >= 4 && this.seen.length >= 4 + this.seen.readUInt32BE()) {
            const n = this.seen.readUInt32BE();
            if (n)
                this.jobs.push(unpack(this.seen.subarray(4, 4 + n)));
            else
                this.beats++;
            this.seen = this.seen.subarray(4 + n);
        }
        for (const wakeup of this.wakeups.splice(0))
            wakeup();
    }

    async until(condition, what) {
        const came = async () => {
            while (!condition())
                await new Promise((resolve) => this.wakeups.push(resolve));
        };
        await within(came(), what);
    }

    async next() {
        await this.until(() => this.jobs.length, 'a job comes');
        return this.jobs.shift();
    }

    close() {
        this.req.destroy();
    }
}

// Everything a client does in the life of some jobs. Each step is one request; `call` sends
// it in one format and gives {status, value}.
async function transcript(call) {
    const answers = [];
    const ids = [], tokens = [];
    const step = async (method, target, body) => {
        const { status, value } = await call(method, target, body);
        answers.push([method, target.replace(/[0-9a-z]{25}/g, 'ID'), status, value]);
        return value;
    };
    const add = (job) => ids.push(job.id);
    add(await step('POST', '/jobs', {
        queue: 'a', type: 't', priority: 5, payload: { n: 1, f: 2.5, big: 123456789012, t: 'ä€😀\n"', l: [null, true, false, []] },
        backoff: { base_ms: 10, exponent: 1.5, jitter_ms: 0 }, retention: { completed_ms: 60000 }, retry_limit: 3,
    }));
    (await step('POST', '/jobs/bulk', {
        jobs: Array.from({ length: 20 }, (_, i) => ({ queue: 'b', type: 't', payload: i - 10 })),
    })).jobs.forEach(add);
    const claim = async (queue, count) => {
        const { jobs } = await step('POST', '/jobs/claim', { queues: [queue], count, lease_ms: 60000 });
        jobs.forEach((job) => tokens.push(job.token));
        return jobs;
    };
    const [job] = await claim('a', 1);
    await step('POST', `/jobs/${job.id}/renew`, { token: job.token, lease_ms: 60000 });
    await step('POST', `/jobs/${job.id}/failure`, { token: job.token, message: 'no', error_type: 'E', backtrace: 'at\nb', exit_code: 3, retry_at: 0 });
    const [again] = await claim('a', 1);
    await step('POST', `/jobs/${again.id}/success`, { token: job.token });
    await step('POST', `/jobs/${again.id}/success`, { token: again.token });
    const more = await claim('b', 3);
    await step('POST', `/jobs/${more[0].id}/release`, { token: more[0].token });
    await step('POST', '/jobs/success', { ids: ['nonsense', more[0].id], jobs: more.slice(1).map(({ id, token }) => ({ id, token })) });
    for (const target of ['', '/runs', '/errors', '/errors/1', '/errors/7'])
        await step('GET', `/jobs/${job.id}${target}`);
    await step('GET', '/jobs?queue=b&limit=3');
    await step('GET', '/jobs/count?queue=b');
    await step('GET', '/queues');
    await step('GET', '/health');
    await step('GET', '/version');
    await step('GET', '/nowhere');
    await step('PUT', '/jobs');
    await step('GET', '/jobs?limit=0');
    await step('POST', '/jobs', { queue: 'a' });
    await step('POST', '/jobs', { queue: 'a', type: 't', payload: 1, priority: 'high' });
    await step('POST', '/jobs/bulk', { jobs: [{ queue: 'a,b', type: 't', payload: 1 }] });
    await step('DELETE', `/jobs/${ids[5]}`);
    await step('DELETE', `/jobs/${ids[5]}`);
    await step('DELETE', '/jobs?queue=b');
    return { answers, ids, tokens };
}

// Ids, tokens, times and sizes differ from run to run, and places from format to format.
function comparable({ answers, ids, tokens }) {
    let text = JSON.stringify(answers, (key, value) =>
        (/_at$|^offset$|_bytes$|^time$|^system$|^ahead_ms$/.test(key) && typeof value === 'number' ? 'N' : value));
    ids.forEach((id, i) => { text = text.replaceAll(id, `id${i}`); });
    tokens.forEach((token, i) => { text = text.replaceAll(token, `token${i}`); });
    return JSON.parse(text.replace(/for (no |)\d+ ms|\d{13}/g, 'TIME'));
}

describe('MessagePack', () => {
    const servers = [];
    after(async () => {
        for (const server of servers)
            await server.clean();
    });

    async function fresh() {
        const server = new Server();
        servers.push(server);
        return server.start();
    }

    it('gets_the_same_answers_as_json', async () => {
        const [one, two] = [await fresh(), await fresh()];
        const json = await transcript(async (method, target, body) => {
            const res = await one.request(method, target, body);
            return { status: res.status, value: res.json };
        });
        const packed = await transcript(async (method, target, body) => {
            const res = await ask(two, method, target, body);
            return { status: res.status, value: plain(res.value) };
        });
        assert.ok(json.answers.length > 25);
        assert.deepEqual(comparable(packed), comparable(json));
    });

    const server = useServer({ args: ['--heartbeat-interval', '50ms'] });

    it('keeps_payloads_whichever_way_they_come_and_go', async () => {
        const payloads = [null, true, 0, -1, 2 ** 31, -(2 ** 40), 18446744073709551615n,
            -9223372036854775808n, new Float(1), new Float(-0), new Float(1e300), new Float(5e-324),
            'text', '', 'ä€😀', '\u0000\u001f', [], {}, [[[1]], { a: { b: [new Float(2)] } }],
            'x'.repeat(70000), Array(70000).fill(1)];
        for (const payload of payloads) {
            const queue = queueName();
            const { value } = await ask(server, 'POST', '/jobs', { queue, type: 't', payload });
            const back = await ask(server, 'GET', `/jobs/${value.id}`);
            assert.deepEqual(back.value.payload, payload);
            const json = await server.job(value.id);
            if (typeof payload !== 'bigint')
                assert.deepEqual(json.payload, plain(payload));
        }
    });

    it('reads_what_came_as_json', async () => {
        const payload = '{"whole":1.0,"int":1,"big":18446744073709551615,"esc":"\\u00e4\\ud83d\\ude00","e":1e2}';
        const res = await server.post('/jobs', `{"queue":"${queueName()}","type":"t","payload":${payload}}`);
        const { value } = await ask(server, 'GET', `/jobs/${res.json.id}`);
        assert.deepEqual(value.payload, {
            whole: new Float(1), int: 1, big: 18446744073709551615n, esc: 'ä😀', e: new Float(100),
        });
    });

    it('may_go_one_way_only', async () => {
        const queue = queueName(), job = { queue, type: 't', payload: [1] };
        const there = await server.post('/jobs', pack(job), { 'content-type': TYPE });
        assert.equal(there.status, 201, there.text);
        assert.equal(there.json.queue, queue);
        const back = await server.post('/jobs', job, { accept: TYPE });
        assert.equal(back.headers['content-type'], TYPE);
        assert.equal(unpack(back.bytes).queue, queue);
    });

    it('is_sent_only_where_it_is_preferred', async () => {
        for (const [accept, type] of [['*/*', 'application/json'], ['application/json, application/msgpack', 'application/json'],
            ['application/msgpack;q=0.9, application/json;q=0.8', TYPE], ['application/msgpack;q=0, application/json', 'application/json']])
            assert.equal((await server.get('/version', { accept })).headers['content-type'], type, accept);
    });

    it('comes_as_a_stream_with_lengths_and_empty_heartbeats', async () => {
        const queue = queueName();
        const taker = new PackedTaker(server, `?queue=${queue}&prefetch=5`);
        await taker.opened;
        assert.equal(taker.status, 200);
        assert.equal(taker.headers['content-type'], STREAM);
        const payload = { a: [1, new Float(1), 'x'.repeat(300)], b: '\n' };
        const { value } = await ask(server, 'POST', '/jobs', { queue, type: 't', payload });
        await server.enqueue({ queue, payload: 'second' });
        const first = await taker.next(), second = await taker.next();
        assert.equal(first.id, value.id);
        assert.deepEqual(first.payload, payload);
        assert.match(first.token, /^[0-9a-f]{16}$/);
        assert.equal(second.payload, 'second');
        const beats = taker.beats;
        await taker.until(() => taker.beats >= beats + 2, 'two heartbeats');
        assert.equal((await ask(server, 'POST', `/jobs/${first.id}/success`, { token: first.token })).status, 204);
        taker.close();
    });

    it('carries_the_errors_of_a_stream_too', async () => {
        const res = await server.get('/jobs/take?prefetch=x', { accept: STREAM });
        res.value = unpack(res.bytes);
        assertRefused(res, 400, 'bad_value');
    });

    it('refuses_what_json_has_not_and_says_where', async () => {
        const head = [0x83, 0xa5, ...Buffer.from('queue'), 0xa1, 0x71, 0xa4, ...Buffer.from('type'), 0xa1, 0x74,
            0xa7, ...Buffer.from('payload')];
        const at = head.length;
        for (const [payload, code, offset] of [
            [[0xc4, 1, 0], 'wrong_type', at], [[0xd4, 1, 0], 'wrong_type', at],
            [[0xd6, 0xff, 0, 0, 0, 0], 'wrong_type', at], [[0x81, 1, 2], 'wrong_type', at + 1],
            [[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], 'bad_value', at], [[0x91, 0xca, 0x7f, 0x80, 0, 0], 'bad_value', at + 1],
            [[0xa2, 0x61, 0xff], 'bad_utf8', at + 2], [[0xc1], 'bad_msgpack', at],
            [[0xa5, 0x61], 'bad_msgpack', at + 2], [[1, 1], 'bad_msgpack', at + 1],
            [[0xdd, 0xff, 0xff, 0xff, 0xff], 'bad_msgpack', at + 5],
            [[...Array(130).fill(0x91), 1], 'too_deep', at + 127]])
            assertRefused(await askRaw(server, '/jobs', [...head, ...payload]), 400, code, offset);
        await server.assertServes();
    });

    it('says_where_in_the_body_a_field_is_wrong', async () => {
        const queue = pack('queue'), type = pack('type');
        const body = Buffer.concat([Buffer.from([0x83]), queue, pack('q'), type, pack('t'),
            pack('priority'), pack('high')]);
        const res = await askRaw(server, '/jobs', body);
        assertRefused(res, 400, 'wrong_type', body.length - pack('high').length);
        assert.match(res.value.error, /^priority: /);
    });

    it('refuses_an_empty_or_a_foreign_body', async () => {
        assertRefused(await askRaw(server, '/jobs', []), 400, 'bad_json');
        assertRefused(await askRaw(server, '/jobs', Buffer.from('{"queue":"q"}')), 400, 'bad_msgpack', 1);
        const res = await server.post('/jobs', '<a/>', { accept: TYPE, 'content-type': 'text/xml' });
        res.value = unpack(res.bytes);
        assertRefused(res, 415, 'unsupported_media_type');
    });

    it('counts_against_the_limit_of_a_body_as_sent_and_as_json', async () => {
        const small = await new Server({ args: ['--max-body', '1KiB'] }).start();
        const enqueue = (payload) =>
            ask(small, 'POST', '/jobs', { queue: 'q', type: 't', payload });
        try {
            assert.equal((await enqueue('x'.repeat(900))).status, 201);
            // Control characters are six times as long in JSON.
            const payload = '\u0001'.repeat(160);
            const res = await enqueue(payload);
            assert.equal(res.status, 201);
            assert.equal((await ask(small, 'GET', `/jobs/${res.value.id}`)).value.payload, payload);
            const large = await enqueue('\u0001'.repeat(180));
            assertRefused(large, 413, 'body_too_large');
            assert.match(large.value.error, /as JSON .*1024/);
            const floats = await enqueue(Array.from({ length: 100 }, () => new Float(1 / 3)));
            assertRefused(floats, 413, 'body_too_large');
        } finally {
            await small.clean();
        }
    });

    it('of_fifteen_megabytes_does_not_become_ninety', async () => {
        const payload = '\u0001'.repeat(15 << 20);
        const res = await ask(server, 'POST', '/jobs', { queue: 'q', type: 't', payload });
        assertRefused(res, 413, 'body_too_large');
        assert.equal((await server.post('/jobs', { queue: 'q', type: 't', payload: 1 })).status, 201);
    });
});
