// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who may do what: every operation of docs/openapi.json, asked by every role and by nobody. Which
// right an operation needs and which a role has is written by hand, so that it can disagree with the
// document.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { document, operations } = require('./openapi');
const { RIGHTS, guarded, statusOf } = require('./access');
const { ABOUT_ALL, ABOUT_NONE, IN_QUEUES, NEEDED, may } = require('./rights');
const { Server, notOn } = require('./harness');

// On the admin listener alone.
const ADMIN_ONLY = ['makeBackup', 'compactTables'];

// What changes much comes last, and by the admin at the very end.
const LAST = ['reset', 'resetClock'];

function rightOf(operation) {
    return operation.security[0]?.token[0] ?? null;
}

function fill(target) {
    return target.replace('/jobs/{id}', '/jobs/03fr82s077azjmurys29qjch4')
        .replace('{attempt}', '1').replace(/\{\w+\}/g, 'sample');
}

describe('every operation', () => {
    it('says_which_right_it_needs', () => {
        const known = new Set(Object.values(RIGHTS).flat());
        for (const { operation } of operations) {
            assert.ok(Array.isArray(operation.security), operation.operationId);
            assert.ok(operation.security.length === 0 || known.has(rightOf(operation)),
                operation.operationId);
        }
        for (const { method, operation } of operations) {
            const { operationId } = operation;
            const rights = Object.keys(NEEDED).filter((word) => NEEDED[word].includes(operationId));
            assert.deepEqual(rights, [rightOf(operation) ?? 'none'], `${operationId} is in the table, once`);
            const [right] = rights;
            assert.ok(right !== 'see' || method === 'GET' || operationId === 'simulateRetryPolicies', operationId);
        }
        const all = operations.map((op) => op.operation.operationId).sort();
        assert.deepEqual(Object.values(NEEDED).flat().sort(), all, 'and nothing else is');
        assert.deepEqual([...IN_QUEUES, ...ABOUT_NONE, ...ABOUT_ALL, ...NEEDED.administer].sort(), all);
        assert.equal(new Set(operations.map((op) => op.operation.operationId)).size, operations.length);
        assert.equal(document.components.securitySchemes.token.scheme, 'bearer');
        assert.deepEqual(operations.filter((op) => !rightOf(op.operation))
            .map((op) => op.operation.operationId).sort(), ['getHealth', 'getLanding']);
    });

    it('is_refused_to_nobody_in_particular_and_to_roles_without_its_right',
        notOn('standby', 'it answers GET /metrics itself, to anybody'), async (t) => {
        const roles = Object.keys(RIGHTS);
        const { server, as } = await guarded(t,
            Object.fromEntries(roles.filter((r) => r !== 'admin').map((r) => [r, { roles: [r] }])));
        const said = {};
        for (const role of roles)
            said[role] = (await server.admin('GET', '/rights', undefined, as(role).headers)).json;
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
                    assert.deepEqual(said[who].refused.find((op) => op.operation === operation.operationId),
                        { operation: operation.operationId, why: JSON.parse(res.text).error }, 'GET /rights says the same');
                } else {
                    assert.ok(![401, 403, 405, 500].includes(res.status), `${what}: ${res.status} ${res.text}`);
                    assert.ok(!who || said[who].allowed.includes(operation.operationId), `GET /rights: ${what}`);
                }
            }
        assert.equal(asked, operations.length * (roles.length + 1));
        for (const role of roles)
            assert.equal(said[role].allowed.length + said[role].refused.length, operations.length, role);
        // They outlive a reset, which was among them.
        assert.equal((await as('viewer').get('/version')).status, 200);
    });

    it('is_about_their_queues_for_who_is_limited_to_some_or_refused',
        notOn('standby', 'it answers GET /metrics itself, to anybody'), async (t) => {
        const { server, as } = await guarded(t, { some: { roles: ['operator', 'viewer'], queues: ['mine-*'] } });
        for (const { method, path: target, operation: { operationId, security, requestBody } } of operations) {
            const body = requestBody?.content['application/json'].example;
            const res = await statusOf(server.adminUrl, method, fill(target), body, as('some').headers);
            const what = `${operationId}: ${res.status} ${res.text}`;
            if (security[0]?.token[0] === 'administer')
                assert.ok(res.status === 403 && /'administer'/.test(res.text), what);
            else if (ABOUT_NONE.includes(operationId))
                assert.ok(res.status === 200 || /missing_field/.test(res.text), what);
            else if (ABOUT_ALL.includes(operationId))
                assert.ok(res.status === 403 && /this is about all/.test(res.text), what);
            else // The examples and paths name other queues, or a job that is not there.
                assert.ok([200, 400, 404, 422].includes(res.status) || (res.status === 403 && (
                    /limited to (other )?queues|only runs that it holds/.test(res.text))), what);
        }
    });

    it('is_said_to_whoever_asks_what_it_may_do', async (t) => {
        const { server, tokens, as } = await guarded(t, { some: { roles: ['worker', 'viewer'], queues: ['mine-*'], name: 'miners' } });
        const { allowed, refused, ...who } = (await as('some').get('/rights')).json;
        assert.deepEqual(who, { kind: 'token', id: tokens.some.slice(4, 20), name: 'miners', roles: ['viewer', 'worker'], queues: ['mine-*'],
            rights: ['known', 'see', 'payloads', 'work'] });
        const told = operations.map(({ operation }) => operation.operationId);
        assert.deepEqual(allowed.toSorted(), told.filter((name) => may({ roles: ['worker'], queues: true }, name) && !ADMIN_ONLY.includes(name)).sort());
        assert.equal(refused.find(({ operation }) => operation === 'getMetrics').why,
            'these credentials are limited to some queues, and this is about all');
        assert.equal((await server.get('/rights')).status, 401);
        // Of what is on the admin listener alone the primary one says so.
        const { refused: elsewhere } = (await as('admin').get('/rights')).json;
        assert.deepEqual(elsewhere, ADMIN_ONLY.map((operation) => ({ operation, why: 'this is on the admin listener only' })));
    });

    it('is_all_allowed_while_nobody_needs_credentials_but_for_tokens',
        notOn('standby', 'whose admin listener is not that of the owner'), async (t) => {
        const server = await new Server().start();
        t.after(() => server.clean());
        const { kind, roles, queues, rights, refused } = (await server.get('/rights')).json;
        assert.deepEqual({ kind, roles, queues, rights }, { kind: 'anonymous', roles: [], queues: [], rights: RIGHTS.admin });
        assert.deepEqual(refused.map(({ operation }) => operation), ['createToken', 'listTokens', 'deleteToken', ...ADMIN_ONLY]);
        assert.match(refused[0].why, /managed over an admin listener on the loopback/);
        assert.deepEqual((await server.admin('GET', '/rights')).json.refused, []);
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
