// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who may do what: every operation of docs/openapi.json, asked by every role and by nobody. Which
// right an operation needs is in the document; which rights a role has is written here by hand.

const assert = require('node:assert/strict');
const http = require('node:http');
const { describe, it } = require('node:test');
const { document, operations } = require('./openapi');
const { guarded } = require('./access');

const RIGHTS = {
    viewer: ['known', 'see'],
    producer: ['known', 'see', 'payloads', 'enqueue'],
    worker: ['known', 'see', 'payloads', 'work'],
    operator: ['known', 'see', 'payloads', 'enqueue', 'work', 'operate'],
    admin: ['known', 'see', 'payloads', 'enqueue', 'work', 'operate', 'administer'],
};

// What changes much comes last, and by the admin at the very end.
const LAST = ['reset', 'resetClock'];

function rightOf(operation) {
    return operation.security[0]?.token[0] ?? null;
}

function fill(target) {
    return target.replace('/jobs/{id}', '/jobs/03fr82s077azjmurys29qjch4')
        .replace('{attempt}', '1').replace(/\{\w+\}/g, 'sample');
}

// The status alone: some answers are streams.
function statusOf(base, method, target, body, headers) {
    return new Promise((resolve, reject) => {
        const text = body === undefined ? undefined : JSON.stringify(body);
        const all = text === undefined ? headers : { ...headers, 'content-type': 'application/json' };
        const req = http.request(new URL(target, base), { method, headers: all, agent: false }, (res) => {
            const chunks = [];
            const done = () => {
                resolve({ status: res.statusCode, headers: res.headers,
                    text: Buffer.concat(chunks).toString() });
                req.destroy();
            };
            if (res.statusCode === 200 && /stream|ndjson/.test(res.headers['content-type'] ?? '')) {
                done();
                return;
            }
            res.on('data', (chunk) => chunks.push(chunk));
            res.on('end', done);
            res.on('error', reject);
        });
        req.on('error', reject);
        req.end(text);
    });
}

describe('every operation', () => {
    it('says_which_right_it_needs', () => {
        const known = new Set(Object.values(RIGHTS).flat());
        for (const { operation } of operations) {
            assert.ok(Array.isArray(operation.security), operation.operationId);
            assert.ok(operation.security.length === 0 || known.has(rightOf(operation)),
                operation.operationId);
        }
        assert.equal(document.components.securitySchemes.token.scheme, 'bearer');
        assert.deepEqual(operations.filter((op) => !rightOf(op.operation))
            .map((op) => op.operation.operationId), ['getHealth']);
    });

    it('is_refused_to_nobody_in_particular_and_to_roles_without_its_right', async (t) => {
        const roles = Object.keys(RIGHTS);
        const { server, as } = await guarded(t,
            Object.fromEntries(roles.filter((r) => r !== 'admin').map((r) => [r, { roles: [r] }])));
        const sorted = [...operations].sort((a, b) =>
            LAST.indexOf(a.operation.operationId) - LAST.indexOf(b.operation.operationId));
        let asked = 0;
        for (const { method, path: target, operation } of sorted)
            for (const who of [null, ...roles]) {
                const what = `${operation.operationId} by ${who}`;
                const body = operation.requestBody?.content['application/json'].example;
                const res = await statusOf(server.adminUrl, method, fill(target), body,
                    as(who).headers);
                const right = rightOf(operation);
                asked++;
                if (right && !who) {
                    assert.equal(res.status, 401, `${what}: ${res.text}`);
                    assert.equal(JSON.parse(res.text).code, 'credentials_required');
                    assert.match(res.headers['www-authenticate'], /^Bearer /);
                } else if (right && !RIGHTS[who].includes(right)) {
                    assert.equal(res.status, 403, `${what}: ${res.text}`);
                    assert.equal(JSON.parse(res.text).code, 'insufficient_rights');
                    assert.ok(JSON.parse(res.text).error.includes(`'${right}'`), res.text);
                } else {
                    assert.ok(![401, 403, 405, 500].includes(res.status), `${what}: ${res.status} ${res.text}`);
                }
            }
        assert.ok(asked > 450, `${asked}`);
        // They outlive a reset, which was among them.
        assert.equal((await as('viewer').get('/version')).status, 200);
    });

    it('is_refused_with_a_wrong_token', async (t) => {
        const { server, tokens } = await guarded(t);
        const wrong = ['', 'x', `${tokens.admin}x`, tokens.admin.slice(0, -1), tokens.admin.toUpperCase(),
            `tnx_0123456789abcdef_${'A'.repeat(43)}`];
        for (const token of wrong)
            for (const target of ['/jobs', '/version', '/tokens']) {
                const res = await server.get(target, { authorization: `Bearer ${token}` });
                assert.equal(res.status, 401, `${target} ${token}`);
                assert.ok(!res.text.includes(tokens.admin.slice(21)), 'no secret in the answer');
            }
        assert.equal((await server.get('/health', { authorization: 'Bearer x' })).status, 200);
        assert.equal((await server.get('/jobs', { authorization: `Basic ${tokens.admin}` })).status, 401);
        assert.ok(!server.stderr.includes(tokens.admin.slice(21)), 'no secret in the log');
    });

    it('is_answered_in_MessagePack_if_asked_for', async (t) => {
        const { server } = await guarded(t);
        const res = await server.get('/jobs', { accept: 'application/msgpack' });
        assert.equal(res.status, 401);
        assert.equal(res.headers['content-type'], 'application/msgpack');
    });
});

describe('Taskcluster\'s front end', () => {
    it('knows_the_same_tokens', async (t) => {
        const { server, as } = await guarded(t, { viewer: { roles: ['viewer'] },
            worker: { roles: ['worker'] }, some: { roles: ['worker'], queues: ['x'] } });
        const base = '/api/queue/v1';
        const ask = (who, method, target, body) =>
            statusOf(server.url(), method, base + target, body, as(who).headers);
        assert.equal((await ask(null, 'GET', '/ping')).status, 200);
        assert.equal((await ask(null, 'GET', '/task-queues')).status, 401);
        assert.equal((await ask('viewer', 'GET', '/task-queues')).status, 200);
        assert.equal((await ask('some', 'GET', '/task-queues')).status, 403);
        const claim = { tasks: 1, workerGroup: 'g', workerId: 'w' };
        assert.equal((await ask('viewer', 'POST', '/claim-work/a/b', claim)).status, 403);
        const wrong = await statusOf(server.url(), 'GET', `${base}/task-queues`, undefined,
            { authorization: 'Bearer x' });
        assert.equal(wrong.status, 401);
    });
});
