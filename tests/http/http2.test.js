// SPDX-License-Identifier: Apache-2.0
'use strict';

// HTTP/2 against the real binary, without TLS.

const assert = require('node:assert/strict');
const net = require('node:net');
const test = require('node:test');
const { client1, client2, logged, serve, within } = require('./transport.js');

const JSON_TYPE = { 'content-type': 'application/json' };

// Each step gets the ids and tokens that came before, and says what to ask.
const transcript = [
    () => ['GET', '/version'],
    () => ['GET', '/health'],
    () => ['HEAD', '/version'],
    () => ['GET', '/nothing/here'],
    () => ['PUT', '/jobs'],
    () => ['OPTIONS', '/jobs/take'],
    () => ['GET', '/jobs/%zz'],
    () => ['POST', '/jobs', '{"queue": "a", "type": "t", "payload": {"n": [1, 2.50, "ü"]}}'],
    () => ['POST', '/jobs', '{"queue": "a", "type": "t", "payload": null, "priority": 7}'],
    () => ['POST', '/jobs', '{"queue": "a", "type": "t", "payload": 1, "ready_at": 4000000000000}'],
    () => ['POST', '/jobs', '{"queue": "a", "type": "t", "payload": }'],
    () => ['POST', '/jobs', '{"queue": "a"}'],
    () => ['POST', '/jobs', '{"queues": "a"}', { 'tenax-strict': 'true' }],
    () => ['POST', '/jobs', '<queue>', { 'content-type': 'application/xml' }],
    () => ['POST', '/jobs', ''],
    () => ['POST', '/jobs', JSON.stringify({ queue: 'b', type: 't', payload: 'x'.repeat(400000) })],
    () => ['POST', '/jobs', 'x'.repeat(600000)],
    () => ['POST', '/jobs/bulk', JSON.stringify({
        jobs: Array.from({ length: 30 }, (_, i) => ({ queue: 'c', type: 't', payload: i })),
    })],
    () => ['GET', '/jobs?queue=c&limit=10'],
    () => ['GET', '/jobs/count?queue=a,c'],
    ({ ids }) => ['GET', `/jobs/${ids[0]}`],
    () => ['GET', '/jobs/0000000000000000000000000'],
    () => ['POST', '/jobs/claim', '{"queues": ["a"], "count": 5, "lease_ms": 60000, "worker": "w"}'],
    ({ ids, tokens }) => ['POST', `/jobs/${ids[1]}/success`, JSON.stringify({ token: tokens[0] })],
    ({ ids }) => ['POST', `/jobs/${ids[0]}/failure`, '{"message": "no", "kill": true}'],
    ({ ids }) => ['POST', `/jobs/${ids[0]}/failure`, '{"message": "no"}'],
    ({ ids }) => ['GET', `/jobs/${ids[0]}/errors`],
    ({ ids }) => ['GET', `/jobs/${ids[0]}/runs`],
    () => ['POST', '/jobs/claim', '{"queues": ["none"], "wait_ms": 50}'],
    () => ['GET', '/queues'],
    ({ ids }) => ['DELETE', `/jobs/${ids[0]}`],
    () => ['GET', '/jobs/take?prefetch=x'],
    () => ['GET', '/version', undefined, { 'x-large': 'y'.repeat(40000) }],
];

// What differs from run to run gets a name by the order in which it appears.
function normaliser() {
    const seen = new Map();
    const name = (kind) => (text) => {
        if (!seen.has(text))
            seen.set(text, `<${kind} ${seen.size}>`);
        return seen.get(text);
    };
    return (text) => text
        .replace(/\b0[0-9a-z]{24}\b/g, name('id'))
        .replace(/\b[0-9a-f]{16}\b/g, name('token'))
        .replace(/("(?:\w+_at|time|system)":)\d{13}/g, '$1<time>');
}

async function play(client) {
    const known = { ids: [], tokens: [] };
    const normalise = normaliser();
    const answers = [];
    for (const step of transcript) {
        const [method, target, body, headers] = step(known);
        const a = await client.ask(method, target, body,
            headers || (body === undefined ? {} : JSON_TYPE));
        for (const [, id] of a.body.matchAll(/"id":"(\w{25})"/g))
            if (!known.ids.includes(id))
                known.ids.push(id);
        for (const [, token] of a.body.matchAll(/"token":"(\w{16})"/g))
            known.tokens.push(token);
        answers.push({
            asked: normalise(`${method} ${target}`.slice(0, 100)),
            status: a.status,
            type: a.headers['content-type'],
            length: a.headers['content-length'],
            allow: a.headers.allow,
            body: normalise(a.body),
        });
    }
    return answers;
}

test('every answer is the same over HTTP/1.1 and HTTP/2', async (t) => {
    const args = ['--max-body', '500000', '--default-completed-job-retention', '1h'];
    const one = await serve(t, args), two = await serve(t, args);
    const over1 = await play(client1(t, one.url));
    const over2 = await play(client2(t, two.url));
    assert.equal(over1.length, transcript.length);
    for (let i = 0; i < over1.length; i++)
        assert.deepEqual(over2[i], over1[i]);
    const statuses = new Set(over1.map((a) => a.status));
    for (const status of [200, 201, 204, 400, 404, 405, 413, 415, 431])
        assert.ok(statuses.has(status), `the transcript provokes ${status}`);
});

// A request whose body comes in frames of those sizes, without its length announced.
function inFrames(session, sizes) {
    return new Promise((resolve, reject) => {
        const req = session.request({ ':method': 'POST', ':path': '/jobs', ...JSON_TYPE });
        const frames = [...sizes];
        let status;
        const next = () => {
            if (frames.length)
                req.write(' '.repeat(frames.shift()), next);
            else
                req.end('{"queue": "q", "type": "t", "payload": 1}');
        };
        req.on('response', (headers) => { status = headers[':status']; });
        req.on('data', () => {});
        req.on('end', () => resolve(status));
        req.on('error', (err) => (status ? resolve(status) : reject(err)));
        next();
    });
}

test('the limit of a body is that of all its frames together', async (t) => {
    const { url } = await serve(t, ['--max-body', '200000']);
    const { session } = client2(t, url);
    assert.equal(await within(inFrames(session, Array(19).fill(10000)), 'just below'), 201);
    for (const sizes of [Array(40).fill(10000), [150000, 150000], [199999, 1, 1]])
        assert.equal(await within(inFrames(session, sizes), `${sizes}`), 413, `${sizes}`);
});

// Lines of a take stream, as they come.
function take(session, target, onJob) {
    const req = session.request({ ':path': target, accept: 'application/x-ndjson' });
    let rest = '';
    req.setEncoding('utf8');
    req.on('data', (text) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop();
        for (const line of lines)
            if (line)
                onJob(JSON.parse(line));
    });
    req.on('error', () => {});
    return req;
}

test('a stream and its reports share a connection', async (t) => {
    const { url } = await serve(t);
    const { ask, session } = client2(t, url);
    const jobs = Array.from({ length: 1000 }, (_, i) => ({ queue: 'q', type: 't', payload: i }));
    await ask('POST', '/jobs/bulk', JSON.stringify({ jobs }), JSON_TYPE);
    const reports = [];
    await within(new Promise((resolve) => {
        take(session, '/jobs/take?queue=q&prefetch=200', (job) => {
            reports.push(ask('POST', `/jobs/${job.id}/success`));
            if (reports.length === jobs.length)
                resolve();
        });
    }), 'all jobs are taken');
    for (const answer of await Promise.all(reports))
        assert.equal(answer.status, 204);
    const { body } = await ask('GET', '/jobs/count?status=ready,in_flight');
    assert.deepEqual(JSON.parse(body), { count: 0 });
});

test('jobs of a stream that is reset are ready again', async (t) => {
    const { url } = await serve(t);
    const { ask, session } = client2(t, url);
    await ask('POST', '/jobs', '{"queue": "q", "type": "t", "payload": 1}', JSON_TYPE);
    const got = () => {
        let req;
        const job = within(new Promise((resolve) => {
            req = take(session, '/jobs/take?queue=q', resolve);
        }), 'the job is taken');
        return job.then((j) => ({ j, req }));
    };
    const first = await got();
    first.req.close();
    const second = await got();
    assert.equal(second.j.id, first.j.id);
    assert.equal(second.j.attempts, 0);
});

test('a claim that waits is given up when its stream is reset', async (t) => {
    const { url } = await serve(t);
    const { ask, session } = client2(t, url);
    const req = session.request({ ':method': 'POST', ':path': '/jobs/claim', ...JSON_TYPE });
    req.on('error', () => {});
    req.end('{"queues": ["q"], "wait_ms": 60000, "lease_ms": 600000}');
    await ask('GET', '/version'); // the claim is there before this
    req.close();
    await ask('POST', '/jobs', '{"queue": "q", "type": "t", "payload": 1}', JSON_TYPE);
    const { body } = await ask('POST', '/jobs/claim', '{"queues": ["q"], "wait_ms": 15000}',
        JSON_TYPE);
    assert.equal(JSON.parse(body).jobs.length, 1);
});

test('the admin listener serves the whole API on a port of its own', async (t) => {
    const { url, admin, lines } = await serve(t);
    assert.notEqual(admin, url);
    assert.deepEqual(lines, [`Listening on ${admin} (admin)`, `Listening on ${url}`]);
    const answers = [await client1(t, url).ask('GET', '/version'),
        await client1(t, admin).ask('GET', '/version'),
        await client2(t, admin).ask('GET', '/version')];
    for (const a of answers)
        assert.equal(a.body, answers[0].body);
});

test('two servers start without a word about their admin ports', async (t) => {
    const one = await serve(t, [], { adminPort: null });
    const two = await serve(t, [], { adminPort: null });
    // One of them has it, or whoever else on this machine.
    const without = [one, two].filter(({ admin }) => admin === undefined);
    assert.ok(without.length > 0);
    for (const server of without)
        await logged(server, /no admin listener: .*--admin-port gives it another/);
    for (const { url } of [one, two])
        assert.equal((await client1(t, url).ask('GET', '/health')).status, 200);
});

test('an admin port that was asked for and is taken ends the start', async (t) => {
    const taken = net.createServer().listen(0, '127.0.0.1');
    t.after(() => taken.close());
    await new Promise((resolve) => taken.on('listening', resolve));
    const port = String(taken.address().port);
    await assert.rejects(serve(t, [], { adminPort: port }), new RegExp(`port ${port}: address`));
});

test('SIGTERM ends HTTP/2 connections with GOAWAY after their replies', async (t) => {
    const server = await serve(t);
    const { ask, session } = client2(t, server.url);
    await ask('GET', '/version');
    const goaway = new Promise((resolve) => session.on('goaway', resolve));
    const closed = new Promise((resolve) => session.on('close', resolve));
    const waiting = ask('POST', '/jobs/claim', '{"wait_ms": 60000}', JSON_TYPE);
    await ask('GET', '/version');
    server.child.kill('SIGTERM');
    assert.equal(await within(goaway, 'GOAWAY'), 0);
    assert.ok([200, 503].includes((await waiting).status));
    await within(closed, 'the connection ends');
});
