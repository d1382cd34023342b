// SPDX-License-Identifier: Apache-2.0
'use strict';

// No spelling of a path, a method or a header leads past the question who asks, and no connection is
// anybody's: each request says it for itself.

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { guarded, statusOf } = require('./access');
const { notOn, within } = require('./harness');
const { client1, client2 } = require('./transport.js');

// Sends bytes, and reads until the peer closes: the statuses of the answers, and all of the text.
function exchange(url, bytes) {
    const { hostname, port } = new URL(url);
    return within(new Promise((resolve, reject) => {
        let text = '';
        const socket = net.connect(port, hostname, () => socket.write(bytes));
        socket.on('data', (part) => { text += part; });
        socket.on('error', reject);
        socket.on('close', () => resolve({ text,
            statuses: [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((m) => Number(m[1])) }));
    }), 'the peer closes');
}

function request(line, headers = [], body = '') {
    return [line, 'Host: 127.0.0.1', 'Connection: close', ...headers, '', body].join('\r\n');
}

describe('a request without credentials', () => {
    it('gets_nothing_by_another_spelling',
        notOn('standby', 'it answers GET /metrics itself, to anybody'), async (t) => {
        const { server } = await guarded(t, { v: { roles: ['viewer'] } });
        const spellings = ['//jobs', '/jobs/', '/./jobs', '/health/../jobs', '/health/%2e%2e/jobs', '/%6aobs',
            '/JOBS', '/jobs;x', '/jobs%2f', '/jobs%00', '/health%2f..%2fjobs', '/health/../../jobs', '/health/jobs',
            '/jobs?x=/health', '/jobs#/health', '/console/../jobs', '/console/%2e%2e/jobs', '/console//jobs',
            '/api/queue/v1/../../../jobs', '/api/queue/v1/ping/../task-queues', '/api/queue/v1/ping%2f..%2ftask-queues',
            '/api/object/v1/content/../metadata/x', '/tokens', '/metrics', '/openapi.json', '/events', '/audit'];
        for (const listener of [server.url(), server.adminUrl])
            for (const target of spellings)
                for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS', 'PUT', 'PATCH']) {
                    const { text, statuses: [status] } = await exchange(listener, request(`${method} ${target} HTTP/1.1`));
                    assert.ok([400, 401, 404, 405].includes(status), `${method} ${target}: ${text}`);
                }
        for (const target of ['/backup', '/compact'])
            assert.equal((await statusOf(server.adminUrl, 'POST', target, undefined, {})).status, 401);
        for (const method of ['get', 'Get', 'QUERY', 'CONNECT', 'TRACE']) {
            const { text, statuses: [status] } = await exchange(server.url(), request(`${method} /jobs HTTP/1.1`));
            assert.ok([400, 401, 405, 501].includes(status), `${method}: ${text}`);
        }
    });

    it('is_nobody_whatever_its_other_headers_say', async (t) => {
        const { server, tokens } = await guarded(t, { v: { roles: ['viewer'] } });
        const good = `Bearer ${tokens.admin}`;
        const cases = {
            'X-Forwarded-User': ['X-Forwarded-User: admin', 'X-Remote-User: admin', 'Remote-User: admin'],
            'a certificate in a header': ['X-SSL-Client-S-DN: CN=boss', 'X-Forwarded-Client-Cert: Subject="CN=boss"'],
            'another address': ['X-Forwarded-For: 127.0.0.1', 'Forwarded: for=127.0.0.1'],
            'another path': ['X-Original-URL: /health', 'X-Rewrite-URL: /health'],
            'another method': ['X-HTTP-Method-Override: GET'],
            'a cookie': [`Cookie: token=${tokens.admin}; Authorization=${good}`],
            'another header': [`Proxy-Authorization: ${good}`, `X-Authorization: ${good}`, `Authorization-: ${good}`],
            'no scheme': [`Authorization: ${tokens.admin}`],
            'another scheme': [`Authorization: Basic ${Buffer.from(`x:${tokens.admin}`).toString('base64')}`],
        };
        for (const [what, headers] of Object.entries(cases)) {
            const { statuses: [status], text } = await exchange(server.url(), request('GET /jobs HTTP/1.1', headers));
            assert.equal(status, 401, `${what}: ${text}`);
        }
        for (const query of [`access_token=${tokens.admin}`, `token=${tokens.admin}`]) {
            const res = await statusOf(server.url(), 'GET', `/jobs?${query}`, undefined, {});
            assert.equal(res.status, 401);
            assert.ok(!res.text.includes(tokens.admin));
        }
        assert.ok(!server.stderr.includes(tokens.admin.slice(21)));
    });

    it('is_not_let_in_by_who_was_before_it_on_its_connection', async (t) => {
        const { server, as } = await guarded(t);
        for (const client of [client1(t, server.url()), client2(t, server.url())]) {
            assert.equal((await client.ask('GET', '/jobs', undefined, as('admin').headers)).status, 200);
            assert.equal((await client.ask('GET', '/jobs')).status, 401);
            assert.equal((await client.ask('GET', '/jobs', undefined, as('admin').headers)).status, 200);
        }
    });
});

describe('credentials', () => {
    it('that_come_twice_or_malformed_are_refused', async (t) => {
        const { server, tokens } = await guarded(t, { v: { roles: ['viewer'] } });
        const v = `Bearer ${tokens.v}`, admin = `Bearer ${tokens.admin}`;
        for (const headers of [[`Authorization: ${v}`, `Authorization: ${admin}`],
            [`Authorization: ${admin}`, `authorization: ${v}`], [`Authorization : ${admin}`],
            [` Authorization: ${admin}`], ['Authorization:', ` ${admin}`]]) {
            const { statuses: [status], text } = await exchange(server.url(),
                request('DELETE /jobs HTTP/1.1', headers));
            assert.equal(status, 400, `${headers}: ${text}`);
        }
        const joined = await exchange(server.url(),
            request('DELETE /jobs HTTP/1.1', [`Authorization: ${v}, ${admin}`]));
        assert.deepEqual(joined.statuses, [401]);
        const h2 = client2(t, server.url());
        const both = await h2.ask('DELETE', '/jobs', undefined, { authorization: v });
        assert.equal(both.status, 403, 'the same by HTTP/2');
    });

    it('behind_a_body_count_for_nothing', async (t) => {
        const { server, tokens } = await guarded(t);
        const admin = `Bearer ${tokens.admin}`;
        const chunked = request('POST /jobs/cancel HTTP/1.1', ['Transfer-Encoding: chunked', 'Trailer: Authorization'],
            `0\r\nAuthorization: ${admin}\r\n\r\n`);
        const { statuses, text } = await exchange(server.url(), chunked);
        assert.ok(statuses.length === 1 && [400, 401].includes(statuses[0]), text);
        const { session } = client2(t, server.url());
        const stream = session.request({ ':method': 'POST', ':path': '/jobs/cancel' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ authorization: admin }));
        const status = new Promise((resolve) => {
            stream.on('response', (headers) => resolve(headers[':status']));
            stream.on('error', () => resolve('reset'));
        });
        stream.end('');
        assert.ok([400, 401, 'reset'].includes(await within(status, 'an answer')));
    });

    it('of_one_request_do_not_reach_into_another', async (t) => {
        const { server, tokens } = await guarded(t);
        // What stands before this server may see one request where this one must not see two.
        const hidden = `DELETE /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tokens.admin}\r\n\r\n`;
        const n = hidden.length;
        for (const headers of [[`Content-Length: ${n}`, 'Transfer-Encoding: chunked'],
            ['Transfer-Encoding: chunked', `Content-Length: ${n}`], ['Transfer-Encoding: chunked, identity'],
            ['Transfer-Encoding: xchunked'], ['Transfer-Encoding: identity'], ['Transfer-Encoding:\x0bchunked'],
            ['Transfer-Encoding : chunked'], ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
            ['Transfer-Encoding:', ' chunked'], ['X: y\nTransfer-Encoding: chunked'], ['X: y\rTransfer-Encoding: chunked'],
            ['Content-Length: 0', `Content-Length: ${n}`], [`Content-Length: ${n}, ${n}`], [`Content-Length: +${n}`],
            [`Content-Length: 0x${n.toString(16)}`], [`Content-Length: -${n}`], ['Content-Length: 1e1'], ['Content-Length: '],
            [`Content-Length: ${n}\0`], ['Content-Length: 18446744073709551617'], ['X\0: y']]) {
            const { statuses, text } = await exchange(server.url(),
                request('POST /jobs/cancel HTTP/1.1', headers, hidden));
            assert.ok(statuses.length === 1 && statuses[0] >= 400, `${JSON.stringify(headers)}: ${text}`);
        }
        for (const body of [`5;${'x'.repeat(10)}\n${hidden}`, `0\n\n${hidden}`, `+0\r\n\r\n${hidden}`, `0x0\r\n\r\n${hidden}`,
            `fffffffffffffffff\r\n${hidden}`, `-1\r\n${hidden}`, ` 0\r\n\r\n${hidden}`, `1\r\n{}\r\n0\r\n\r\n${hidden}`]) {
            const { statuses, text } = await exchange(server.url(),
                request('POST /jobs/cancel HTTP/1.1', ['Transfer-Encoding: chunked'], body));
            assert.ok(statuses.length === 1 && statuses[0] >= 400, `${JSON.stringify(body)}: ${text}`);
        }
    });

    it('of_one_request_do_not_count_for_those_that_follow_at_once', async (t) => {
        const { server, tokens } = await guarded(t);
        const of = (line, ...headers) => [line, 'Host: 127.0.0.1', ...headers, '', ''].join('\r\n');
        const admin = `Authorization: Bearer ${tokens.admin}`;
        const all = of('GET /jobs HTTP/1.1', admin) + of('GET /jobs HTTP/1.1') + of('GET /jobs HTTP/1.1', admin) +
            of('DELETE /jobs HTTP/1.1', 'Connection: close');
        assert.deepEqual((await exchange(server.url(), all)).statuses, [200, 401, 200, 401]);
        // A body that the first request says it has is no request.
        const hidden = of('DELETE /jobs HTTP/1.1', admin);
        const one = of('GET /jobs HTTP/1.1', `Content-Length: ${hidden.length}`) + hidden + of('GET /jobs HTTP/1.1', 'Connection: close');
        const { statuses } = await exchange(server.url(), one);
        assert.ok(statuses.every((status) => [400, 401].includes(status)), `${statuses}`);
    });

    it('in_a_request_that_asks_for_another_protocol_or_host_count_for_nothing_else', async (t) => {
        const { server, tokens } = await guarded(t);
        const admin = `Authorization: Bearer ${tokens.admin}`;
        const cases = {
            'an upgrade to HTTP/2': [[admin, 'Connection: Upgrade, HTTP2-Settings, close', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'], [200, 400, 401]],
            'an upgrade to a web socket': [['Connection: Upgrade, close', 'Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='], [400, 401]],
            'two hosts': [[admin, 'Host: other.example'], [400]],
            'credentials named as of the connection': [['Connection: close, Authorization'], [401]],
        };
        for (const [what, [headers, expected]] of Object.entries(cases)) {
            const { statuses: [status], text } = await exchange(server.url(), request('GET /jobs HTTP/1.1', headers));
            assert.ok(expected.includes(status), `${what}: ${text}`);
        }
        for (const target of ['http://127.0.0.1/jobs', 'http://other.example/jobs', '*', '127.0.0.1:80']) {
            const { statuses: [status], text } = await exchange(server.url(), request(`GET ${target} HTTP/1.1`));
            assert.ok([400, 401, 404, 421].includes(status), `${target}: ${text}`);
        }
        for (const version of ['HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'HTTP/1.10', 'http/1.1', '']) {
            const { statuses, text } = await exchange(server.url(), request(`GET /jobs ${version}`));
            assert.ok(statuses.every((status) => status >= 400), `${version}: ${text}`);
        }
    });

    it('in_HTTP_2_come_once_and_in_the_head_alone', async (t) => {
        const { server, tokens } = await guarded(t, { v: { roles: ['viewer'] } });
        const { session } = client2(t, server.url());
        const ask = (headers) => within(new Promise((resolve) => {
            let stream;
            try {
                stream = session.request({ ':method': 'DELETE', ':path': '/jobs', ...headers });
            } catch (err) {
                resolve(err.code); // the client itself refuses it
                return;
            }
            stream.on('response', (answer) => resolve(answer[':status']));
            stream.on('error', (err) => resolve(err.code));
            stream.on('close', () => resolve('closed'));
            stream.end();
        }), 'an answer');
        const admin = `Bearer ${tokens.admin}`, viewer = `Bearer ${tokens.v}`;
        assert.equal(await ask({}), 401);
        assert.equal(await ask({ authorization: viewer }), 403);
        assert.equal(await ask({ authorization: admin }), 200);
        for (const headers of [{ authorization: [viewer, admin] }, { ':path': '/health/../jobs' }, { ':path': '//jobs' },
            { ':path': 'jobs' }, { ':method': 'delete' }, { 'x-http-method-override': 'GET' }, { cookie: `authorization=${admin}` },
            { 'content-length': '5', authorization: 'x' }, { host: 'other.example' }, { ':path': '/jobs\r\nauthorization: x' }]) {
            const answer = await ask(headers);
            assert.notEqual(answer, 200, JSON.stringify(headers));
            assert.ok(typeof answer === 'string' || answer < 500 || answer === 501, `${JSON.stringify(headers)}: ${answer}`);
        }
        assert.equal(await ask({ authorization: admin }), 200, 'the connection goes on');
    });
});
