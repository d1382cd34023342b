// SPDX-License-Identifier: Apache-2.0
'use strict';

// Pages of other origins that the operator lets use Taskcluster's API, and those that it does not.

const assert = require('node:assert/strict');
const http = require('node:http');
const http2 = require('node:http2');
const { describe, it } = require('node:test');
const { assertError, run, within } = require('./harness');
const { HOUR, definition, slugid, useTaskcluster } = require('./taskcluster');

const TOOLS = 'https://tools.example', LOCAL = 'http://localhost:3000';
const OPENED = ['/api/queue/v1/ping', '/references/manifest.json', '/schemas/queue/v1/task.json', '/__version__',
    '/api/hooks/v1/ping'];

// One request as a browser sends it for a page: {status, headers, text}.
function ask(base, method, target, headers = {}, body = undefined) {
    return within(new Promise((resolve, reject) => {
        const req = http.request(base + target, { method, headers, agent: false }, (res) => {
            const parts = [];
            res.on('data', (part) => parts.push(part));
            res.on('end', () => resolve({ status: res.statusCode, headers: res.headers,
                text: Buffer.concat(parts).toString(), get json() { return JSON.parse(this.text); } }));
        });
        req.on('error', reject);
        req.end(body);
    }), `${method} ${target}`);
}
const of = (origin) => ({ origin, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' });
const preflight = (origin) => ({ ...of(origin), 'access-control-request-method': 'PUT',
    'access-control-request-headers': 'authorization,content-type' });
const base = (server) => server.url().replace(/\/$/, '');

for (const args of [[], ['--io-threads', '2']])
    describe(`pages of named origins ${args.join(' ')}`, () => {
        const server = useTaskcluster({ args: ['--allowed-origins', `${TOOLS},${LOCAL}`, ...args] });

        it('ask_first_and_are_let_in', async () => {
            for (const origin of [TOOLS, LOCAL])
                for (const target of OPENED) {
                    const asked = await ask(base(server), 'OPTIONS', target, preflight(origin));
                    assert.equal(asked.status, 204, target);
                    assert.equal(asked.headers['access-control-allow-origin'], origin);
                    assert.equal(asked.headers.vary, 'Origin');
                    assert.match(asked.headers['access-control-allow-methods'], /PUT/);
                    assert.match(asked.headers['access-control-allow-headers'], /Authorization.*Content-Type/);
                    assert.equal(asked.headers['access-control-allow-credentials'], undefined);
                    const answer = await ask(base(server), 'GET', target, of(origin));
                    assert.equal(answer.status, target.includes('hooks') ? 404 : 200, target);
                    assert.equal(answer.headers['access-control-allow-origin'], origin, 'refusals can be read, too');
                }
        });

        it('make_tasks_and_read_their_artifacts', async () => {
            const id = await slugid(), page = of(TOOLS);
            const json = { ...page, 'content-type': 'application/json' };
            const send = async (method, target, body) => {
                const res = await ask(base(server), method, `/api/queue/v1${target}`, json, JSON.stringify(body));
                assert.equal(res.status, 200, res.text);
                assert.equal(res.headers['access-control-allow-origin'], TOOLS);
                return res.json;
            };
            await send('PUT', `/task/${id}`, definition());
            await send('POST', `/task/${id}/runs/0/claim`, { workerGroup: 'g', workerId: 'w' });
            const { putUrl } = await send('POST', `/task/${id}/runs/0/artifacts/public/x`, { storageType: 's3',
                expires: new Date(Date.now() + HOUR).toJSON(), contentType: 'text/plain' });
            const put = await ask('', 'PUT', putUrl, { ...page, 'content-type': 'text/plain' }, 'x'.repeat(300000));
            assert.equal(put.status, 200, put.text);
            assert.equal(put.headers['access-control-allow-origin'], TOOLS);
            const found = await ask(base(server), 'GET', `/api/queue/v1/task/${id}/artifacts/public/x`, page);
            assert.equal(found.status, 303);
            assert.equal(found.headers['access-control-allow-origin'], TOOLS);
            assert.match(found.headers['access-control-expose-headers'], /Location/);
            const content = await ask('', 'GET', found.headers.location, page);
            assert.equal(content.text.length, 300000);
            assert.equal(content.headers['access-control-allow-origin'], TOOLS);
            assert.equal(content.headers['content-security-policy'], 'sandbox');
        });

        it('have_nothing_else_and_others_have_nothing', async () => {
            const id = await slugid();
            for (const origin of [TOOLS, LOCAL])
                for (const [method, target] of [['GET', '/jobs'], ['OPTIONS', '/jobs'], ['POST', '/reset'], ['GET', '/'],
                    ['OPTIONS', '/apix'], ['GET', '/referencesx/'], ['GET', '/console']]) {
                    const res = await ask(base(server), method, target, of(origin));
                    assertError(res, 403, 'origin_not_allowed');
                    assert.equal(res.headers['access-control-allow-origin'], undefined);
                }
            for (const origin of ['https://evil.example', 'null', 'http://tools.example', `${TOOLS}.evil.example`,
                `${TOOLS}:8443`, LOCAL.toUpperCase(), `${TOOLS}, ${LOCAL}`])
                for (const target of OPENED)
                    for (const method of ['OPTIONS', 'GET']) {
                        const res = await ask(base(server), method, target, preflight(origin));
                        assertError(res, 403, 'origin_not_allowed');
                        assert.equal(res.headers['access-control-allow-origin'], undefined);
                    }
            // An image or a frame says no origin; another host name is refused to every page.
            assertError(await ask(base(server), 'GET', OPENED[0], { 'sec-fetch-site': 'cross-site',
                'sec-fetch-dest': 'image' }), 403, 'origin_not_allowed');
            assertError(await ask(base(server), 'GET', OPENED[0], { ...of(TOOLS), host: 'evil.example' }), 421,
                'host_not_allowed');
            assertError(await ask(base(server), 'PUT', `/api/queue/v1/task/${id}`, { ...of('https://evil.example'),
                'content-type': 'application/json' }, JSON.stringify(definition())), 403, 'origin_not_allowed');
            const plain = await ask(base(server), 'GET', OPENED[0]);
            assert.equal(plain.headers['access-control-allow-origin'], undefined);
            assert.equal((await ask(base(server), 'OPTIONS', OPENED[0])).status, 405);
        });

        it('are_let_in_over_http2', async () => {
            const session = http2.connect(server.url());
            const send = (headers) => within(new Promise((resolve, reject) => {
                const req = session.request(headers);
                req.on('response', (h) => { req.resume(); req.on('end', () => resolve(h)); });
                req.on('error', reject);
                req.end();
            }), 'an answer');
            for (const method of ['GET', 'OPTIONS']) {
                const head = await send({ ':path': OPENED[0], ':method': method, ...of(TOOLS) });
                assert.equal(head[':status'], method === 'GET' ? 200 : 204);
                assert.equal(head['access-control-allow-origin'], TOOLS);
            }
            const head = await send({ ':path': OPENED[0], ':method': 'GET', ...of('https://evil.example') });
            assert.equal(head[':status'], 403);
            session.destroy();
        });
    });

describe('without named origins', () => {
    const server = useTaskcluster();
    it('no_page_is_let_in', async () => {
        for (const target of OPENED)
            assertError(await ask(base(server), 'OPTIONS', target, preflight(TOOLS)), 403, 'origin_not_allowed');
    });

    it('wrong_ones_are_named_at_the_start', async () => {
        for (const wrong of ['*', 'tools.example', `${TOOLS}/`]) {
            const { code, stderr } = await run(['serve', '--allowed-origins', wrong]);
            assert.equal(code, 2);
            assert.match(stderr, /--allowed-origins: '.*' is not an origin/);
        }
    });
});
