// SPDX-License-Identifier: Apache-2.0
'use strict';

// Pages of other origins, and other host names: whatever a browser can be made to send.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const path = require('node:path');
const { describe, it, before, after } = require('node:test');
const { Server, assertError, notOn, queueName, run, useServer, within } = require('./harness');

// One request with headers of its own, Host included: {status, json}.
function ask(base, method, target, headers = {}, body = undefined) {
    return within(new Promise((resolve, reject) => {
        const req = http.request(base + target, { method, headers, agent: false }, (res) => {
            const parts = [];
            res.on('data', (part) => parts.push(part));
            res.on('end', () => resolve({
                status: res.statusCode, headers: res.headers, text: Buffer.concat(parts).toString(),
                get json() { return JSON.parse(this.text); },
            }));
        });
        req.on('error', reject);
        req.end(body);
    }), `${method} ${target}`);
}

function ask2(base, headers, body = undefined) {
    const session = http2.connect(base);
    return within(new Promise((resolve, reject) => {
        session.on('error', reject);
        const req = session.request(headers, { endStream: body === undefined });
        let text = '', status, type;
        req.on('response', (h) => { status = h[':status']; type = h['content-type']; });
        req.on('data', (part) => { text += part; });
        req.on('error', reject);
        req.on('end', () => resolve({
            status, headers: { 'content-type': type }, text,
            get json() { return JSON.parse(this.text); },
        }));
        if (body !== undefined)
            req.end(body);
    }), 'an answer over HTTP/2').finally(() => session.destroy());
}

const JSON_TYPE = { 'content-type': 'application/json' };
const JOB = JSON.stringify({ queue: 'q', type: 't', payload: 'secret' });

describe('a page of another origin', () => {
    const server = useServer();

    it('changes_nothing_and_reads_nothing', async () => {
        await server.enqueue({ queue: queueName() });
        const { count } = (await server.get('/jobs/count')).json;
        assert.ok(count > 0);
        for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' },
            { origin: 'http://localhost:3000' }, { origin: `https://localhost:${server.port}` },
            { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }])
            for (const base of [server.url(), server.adminUrl]) {
                for (const [method, target] of [['POST', '/reset'], ['GET', '/jobs'],
                    ['POST', '/backup'], ['DELETE', '/jobs'], ['GET', '/jobs/take'],
                    ['OPTIONS', '/jobs'], ['GET', '/no/such/path']])
                    for (const type of [{}, { 'content-type': 'text/plain' }])
                        assertError(await ask(base, method, target, { ...headers, ...type }), 403, 'origin_not_allowed');
                assertError(await ask(base, 'POST', '/jobs', { ...headers, ...JSON_TYPE }, JOB), 403,
                    'origin_not_allowed');
                assertError(await ask2(base, { ':path': '/reset', ':method': 'POST', ...headers }),
                    403, 'origin_not_allowed');
            }
        assert.deepEqual((await server.get('/jobs/count')).json, { count });
    });

    it('cannot_send_a_body_without_asking_first', async () => {
        const types = ['text/plain', 'text/plain;application/json', 'text/plain; yaml',
            'application/x-www-form-urlencoded', 'multipart/form-data; boundary=application/json'];
        for (const type of types)
            for (const target of ['/jobs', '/reset', '/retry-policies', '/jobs/claim'])
                assertError(await ask(server.url(), 'POST', target, { 'content-type': type }, JOB),
                    415, 'unsupported_media_type');
        // Every browser says of what a page sends where it comes from; programs do not.
        for (const header of [{ origin: server.url().replace(/\/$/, '') }, { 'sec-fetch-site': 'same-origin' },
            { 'sec-fetch-mode': 'no-cors' }, { 'sec-fetch-dest': 'empty' }, { 'sec-fetch-user': '?1' }])
            assertError(await ask(server.url(), 'POST', '/jobs', header, JOB), 415,
                'unsupported_media_type', /none/);
        assert.equal((await ask(server.url(), 'POST', '/jobs', {}, JOB)).status, 201);
        for (const coding of ['gzip', 'br', 'gzip, identity'])
            for (const type of ['application/json', 'application/msgpack'])
                assertError(await ask(server.url(), 'POST', '/jobs',
                    { 'content-type': type, 'content-encoding': coding }, JOB), 415,
                'unsupported_media_type');
        assert.equal((await ask(server.url(), 'POST', '/jobs',
            { ...JSON_TYPE, 'content-encoding': 'identity' }, JOB)).status, 201);
    });

    it('cannot_act_without_a_body_either', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        for (const type of ['text/plain', 'text/plain;charset=UTF-8', 'multipart/form-data; boundary=x'])
            for (const target of ['/reset', `/jobs/${id}/cancel`, '/jobs/retry', '/jobs/claim', '/jobs/take'])
                assertError(await ask(server.url(), target === '/jobs/take' ? 'GET' : 'POST', target,
                    { 'content-type': type }), 415, 'unsupported_media_type');
        assert.equal((await server.job(id)).status, 'ready');
    });

    it('is_told_from_one_of_this_server', async () => {
        const { host } = new URL(server.url());
        for (const headers of [{}, { origin: `http://${host}` }, { 'sec-fetch-site': 'none' },
            { origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }]) {
            assert.equal((await ask(server.url(), 'GET', '/jobs/count', headers)).status, 200);
            assert.equal((await ask(server.url(), 'POST', '/jobs', { ...headers, ...JSON_TYPE },
                JOB)).status, 201);
            assert.equal((await ask(server.url(), 'POST', '/reset?dry_run=true', headers)).status,
                200);
        }
    });
});

describe('a host name', () => {
    const server = useServer();

    it('that_is_not_the_servers_reads_nothing', async () => {
        for (const host of ['evil.example', `evil.example:${server.port}`, '192.0.2.1',
            'localhost.evil.example'])
            for (const base of [server.url(), server.adminUrl])
                for (const [method, target] of [['GET', '/jobs'], ['POST', '/backup'],
                    ['POST', '/reset'], ['GET', '/health']]) {
                    const res = await ask(base, method, target, { host });
                    assertError(res, 421, 'host_not_allowed', /--allowed-hosts/);
                }
        for (const authority of ['evil.example', '192.0.2.1:80'])
            assertError(await ask2(server.url(), { ':path': '/jobs', ':authority': authority }), 421,
                'host_not_allowed');
        const wire = await server.wire();
        wire.send('GET /jobs HTTP/1.1\r\nHost:\r\n\r\n');
        assertError(await wire.response(), 421, 'host_not_allowed');
        wire.close();
        const two = await ask2(server.url(),
            { ':path': '/jobs', ':authority': 'localhost', host: 'evil.example' });
        assertError(two, 400, 'bad_request');
    });

    it('of_the_loopback_is_the_servers', async () => {
        for (const host of ['localhost', `LOCALHOST:${server.port}`, '127.0.0.1', '[::1]:9'])
            assert.equal((await ask(server.url(), 'GET', '/health', { host })).status, 200, host);
        assert.equal((await ask2(server.url(), { ':path': '/health', ':authority': 'localhost' }))
            .status, 200);
    });

    it('in_the_address_goes_before_that_of_the_header', async () => {
        for (const [target, host, status] of [['http://evil.example/version', 'localhost', 421],
            ['http://localhost:1/version', 'evil.example', 200]]) {
            const wire = await server.wire();
            wire.send(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
            assert.equal((await wire.response()).status, status);
            wire.close();
        }
    });
});

describe('a server for others', notOn('postgres', 'it needs --advertise'), () => {
    let server;
    before(async () => {
        server = new Server({ args: ['--host', '0.0.0.0', '--insecure', '--allowed-hosts',
            'tenax,*.svc.cluster.local'] });
        await server.start();
    });
    after(() => server.clean());

    it('has_addresses_and_the_names_that_it_was_given', async () => {
        const base = `http://127.0.0.1:${server.port}`;
        for (const host of ['tenax', 'tenax:7890', 'tenax.default.svc.cluster.local', '10.0.0.7',
            '[2001:db8::7]:7890', 'localhost'])
            assert.equal((await ask(base, 'GET', '/health', { host })).status, 200, host);
        for (const host of ['evil.example', 'tenax.example', 'svc.cluster.local'])
            assertError(await ask(base, 'GET', '/health', { host }), 421, 'host_not_allowed');
        const origin = 'https://tenax';
        assert.equal((await ask(base, 'GET', '/health', { host: 'tenax', origin })).status, 200);
        assertError(await ask(base, 'GET', '/health', { host: 'other.svc.cluster.local', origin }),
            403, 'origin_not_allowed');
    });

    it('refuses_names_that_are_none', async () => {
        const { code, stderr } = await run(['serve', '--allowed-hosts', 'http://tenax']);
        assert.equal(code, 2);
        assert.match(stderr, /--allowed-hosts: 'http:\/\/tenax' is not a host name/);
    });
});

describe('the examples of the documents', () => {
    it('say_what_type_their_bodies_are_of', () => {
        const root = path.join(__dirname, '../..');
        const files = ['README.md', ...fs.readdirSync(path.join(root, 'docs'))
            .filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
        for (const file of files)
            for (const line of fs.readFileSync(path.join(root, file), 'utf8').split('\n'))
                if (/\bcurl .* (-d|--data)/.test(line))
                    assert.match(line, /--json|content-type/i, `${file}: ${line}`);
    });
});
