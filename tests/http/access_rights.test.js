// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who may do what: every operation of docs/openapi.json, asked by every role and by nobody. Which
// right an operation needs and which a role has is written by hand, so that it can disagree with the
// document.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { document, operations } = require('./openapi');
const { RIGHTS, guarded, statusOf } = require('./access');
const { notOn } = require('./harness');

// Which right an operation needs. An operation of the document that is not here fails the tests.
const NEEDED = {
    none: ['getLanding', 'getHealth'],
    see: ['getJob', 'listJobs', 'countJobs', 'listRuns', 'listErrors', 'getError', 'explainJob', 'explainQueues',
        'listFailureGroups', 'getFailureGroup', 'streamEvents', 'listQueues', 'getQueue', 'listNextJobs', 'listWorkers',
        'getWorker', 'getGroup', 'listBudgets', 'getBudget', 'listCronGroups', 'getCronGroup', 'getCronEntry',
        'listRetryPolicies', 'getRetryPolicy', 'listFailureCategories', 'getFailureCategories', 'getRetrySettings',
        'simulateRetryPolicies', 'getMetrics', 'listServers'],
    known: ['getVersion', 'getDescription'],
    enqueue: ['enqueueJob', 'enqueueJobs', 'sealGroup'],
    work: ['takeJobs', 'claimJobs', 'claimJob', 'putWorkerNotice', 'withdrawClaims', 'reportSuccess', 'reportSuccesses',
        'reportFailure', 'reportTermination', 'reportProgress', 'renewLease', 'renewLeases', 'releaseJob'],
    operate: ['listOperations', 'getOperation', 'stopOperation', 'undoOperation', 'listCanaryRetries', 'getCanaryRetry', 'stopCanaryRetry', 'quietWorker', 'resumeWorker', 'stopWorker',
        'patchJob', 'patchJobs', 'cancelJob', 'cancelJobs', 'retryJob', 'retryJobs', 'deleteJob',
        'deleteJobs', 'createQueue', 'putQueue', 'patchQueue', 'deleteQueue', 'createBudget', 'putBudget',
        'patchBudget', 'deleteBudget', 'putCronGroup', 'patchCronGroup', 'deleteCronGroup',
        'deleteCronGroups', 'addCronEntry', 'putCronEntry', 'patchCronEntry', 'deleteCronEntry',
        'createRetryPolicy', 'putRetryPolicy', 'deleteRetryPolicy', 'createFailureCategories',
        'putFailureCategories', 'deleteFailureCategories', 'putRetrySettings'],
    administer: ['reset', 'resetClock', 'createToken', 'listTokens', 'deleteToken', 'getAudit', 'makeBackup',
        'compactTables', 'stepDown'],
};
// Who is limited to queues may ask these about what is in its own; of all others only those that are
// about no queue.
const IN_QUEUES = ['getJob', 'listJobs', 'countJobs', 'listRuns', 'listErrors', 'getError', 'explainJob',
    'explainQueues', 'listFailureGroups', 'getFailureGroup', 'streamEvents', 'listQueues', 'getQueue',
    'listNextJobs', 'listWorkers', 'getWorker', 'enqueueJob', 'enqueueJobs', 'takeJobs', 'claimJobs', 'claimJob', 'putWorkerNotice', 'reportSuccess',
    'reportSuccesses', 'reportFailure', 'reportTermination', 'reportProgress', 'renewLease', 'renewLeases',
    'releaseJob', 'patchJob', 'patchJobs', 'cancelJob', 'cancelJobs', 'retryJob', 'retryJobs', 'deleteJob',
    'deleteJobs', 'createQueue', 'putQueue', 'patchQueue', 'deleteQueue'];
const ABOUT_NONE = ['getLanding', 'getHealth', 'getVersion', 'getDescription', 'getRetrySettings', 'withdrawClaims'];

// What is about all queues, and so refused to who is limited to some.
const ABOUT_ALL = ['getGroup', 'sealGroup', 'listBudgets', 'getBudget', 'createBudget', 'putBudget', 'patchBudget',
    'deleteBudget', 'listCronGroups', 'getCronGroup', 'getCronEntry', 'putCronGroup', 'patchCronGroup',
    'deleteCronGroup', 'deleteCronGroups', 'addCronEntry', 'putCronEntry', 'patchCronEntry', 'deleteCronEntry',
    'listRetryPolicies', 'getRetryPolicy', 'createRetryPolicy', 'putRetryPolicy', 'deleteRetryPolicy',
    'simulateRetryPolicies', 'listFailureCategories', 'getFailureCategories', 'createFailureCategories',
    'putFailureCategories', 'deleteFailureCategories', 'putRetrySettings', 'getMetrics', 'listServers', 'listOperations', 'getOperation',
    'stopOperation', 'undoOperation', 'listCanaryRetries', 'getCanaryRetry', 'stopCanaryRetry', 'quietWorker', 'resumeWorker', 'stopWorker'];

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
        assert.equal(asked, operations.length * (roles.length + 1));
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
