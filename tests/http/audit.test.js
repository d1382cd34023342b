// SPDX-License-Identifier: Apache-2.0
'use strict';

// The audit: who changed what, recorded with the change.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, assertError, notOn, run } = require('./harness');
const { bearer, guarded, idOf, rootOf, statusOf } = require('./access');
const { operations: described } = require('./openapi');
const { definition, slugid, taskQueueId, useTaskcluster } = require('./taskcluster');

async function started(t, options = {}) {
    const server = new Server(options);
    await server.start();
    t.after(() => server.clean());
    return server;
}

const job = (fields = {}) => ({ queue: 'a', type: 't', payload: { secret: 'pay' }, ...fields });

async function entries(server, query = '', headers = {}) {
    const res = await server.get(`/audit${query}`, headers);
    assert.equal(res.status, 200, res.text);
    return res.json.entries;
}

async function operations(server, query, headers) {
    return (await entries(server, query, headers)).map((e) => e.operation);
}

// What is no job's normal life, with an example of each kind.
const CHANGES = [
    ['patchJob', 'PATCH', '/jobs/ID', { priority: 7 }],
    ['patchJobs', 'PATCH', '/jobs?queue=a', { priority: 8 }],
    ['cancelJob', 'POST', '/jobs/ID/cancel'],
    ['retryJob', 'POST', '/jobs/ID/retry'],
    ['cancelJobs', 'POST', '/jobs/cancel?queue=a'],
    ['retryJobs', 'POST', '/jobs/retry?id=ID'],
    ['deleteJob', 'DELETE', '/jobs/ID'],
    ['deleteJobs', 'DELETE', '/jobs?queue=a'],
    ['createQueue', 'POST', '/queues', { name: 'b', paused: true }],
    ['putQueue', 'PUT', '/queues/b', { paused: false }],
    ['patchQueue', 'PATCH', '/queues/b', { paused: true }],
    ['deleteQueue', 'DELETE', '/queues/b'],
    ['createBudget', 'POST', '/budgets/x', { allocation: 2, strategy: { type: 'while_in_flight' } }],
    ['deleteBudget', 'DELETE', '/budgets/x'],
    ['putCronGroup', 'PUT', '/crons/g', { entries: [{ name: 'e', expression: '0 3 * * *', job: job() }] }],
    ['patchCronGroup', 'PATCH', '/crons/g', { paused: true }],
    ['deleteCronGroup', 'DELETE', '/crons/g'],
    ['putRetrySettings', 'PUT', '/settings/retry', { enabled: true }],
    ['createToken', 'POST', '/tokens', { roles: ['viewer'], name: 'look' }],
    ['resetClock', 'POST', '/clock/reset'],
    ['reset', 'POST', '/reset'],
];

describe('the audit', () => {
    it('has_each_change_by_somebody_with_who_and_from_where', async (t) => {
        const { server, as, tokens } = await guarded(t, { o: { roles: ['admin'], name: 'Ada' } });
        const { json: { id } } = await as('admin').post('/jobs', job());
        await as('admin').post('/jobs', job());
        const paths = JSON.parse(fs.readFileSync(path.join(__dirname, '../../docs/openapi.json'))).paths;
        for (const [operation, method, target, body] of CHANGES) {
            const known = Object.entries(paths).find(([, item]) =>
                item[method.toLowerCase()]?.operationId === operation);
            assert.ok(known, operation);
            const spelt = known[0].includes('{') || !target.startsWith('/') ? target
                : known[0] + (target.includes('?') ? target.slice(target.indexOf('?')) : '');
            const res = await server.request(method, spelt.replace('ID', id), body, bearer(tokens.o));
            assert.ok(res.status < 300, `${operation}: ${res.status} ${res.text}`);
        }
        const found = await entries(server, '?limit=500', bearer(tokens.admin));
        const own = found.filter((e) => e.actor.id === idOf(tokens.o)).reverse();
        assert.deepEqual(own.map((e) => e.operation), CHANGES.map(([operation]) => operation));
        for (const e of own) {
            assert.deepEqual(e.actor, { kind: 'token', id: idOf(tokens.o), name: 'Ada' });
            assert.equal(e.address, '127.0.0.1');
            assert.equal(e.finished, true, e.operation);
            assert.ok(Math.abs(e.at - Date.now()) < 600000);
        }
        assert.deepEqual(found.map((e) => e.number), found.map((_, i) => found.length - i));
        const of = (name) => own.find((e) => e.operation === name);
        assert.equal(of('patchJobs').count, 1 + 1);
        assert.equal(of('deleteJobs').count, 1);
        assert.deepEqual(JSON.parse(of('patchQueue').body), { paused: true });
        assert.equal(of('putCronGroup').body, undefined, 'it has payloads');
        assert.match(of('createToken').path, /^\/tokens\/[0-9a-f]{16}$/);
        assert.ok(!JSON.stringify(found).includes('pay'), 'no payload');
    });

    it('has_every_operation_that_is_no_jobs_normal_life', async (t) => {
        // Those of many jobs are over too soon to be stopped, and are not undone unless that is wanted;
        // operations.test.js stops one, undo.test.js undoes some; canary.test.js stops a retry with canaries.
        // There is no other server: tests/postgres steps down.
        const passed = ['stopOperation', 'undoOperation', 'stopCanaryRetry', 'stepDown'];
        const first = ['createQueue', 'putQueue', 'createBudget', 'putBudget', 'putCronGroup', 'addCronEntry',
            'putCronEntry', 'createRetryPolicy', 'putRetryPolicy', 'createFailureCategories',
            'putFailureCategories', 'createToken', 'patchJob', 'cancelJob', 'retryJob', 'deleteJob'];
        const last = ['deleteCronEntry', 'deleteCronGroup', 'deleteCronGroups', 'reset', 'resetClock'];
        const place = ({ operation: { operationId: name } }) => first.indexOf(name) + 1 ||
            100 * (1 + name.startsWith('delete') + name.startsWith('reset')) + last.indexOf(name);
        const expected = described.filter(({ method, operation }) => method !== 'GET' &&
            ['operate', 'administer'].includes(operation.security[0]?.token[0]) &&
            !passed.includes(operation.operationId)).sort((a, b) => place(a) - place(b));
        assert.ok(expected.length >= 38);
        const { server, tokens } = await guarded(t);
        const admin = bearer(tokens.admin);
        const { json: { id } } = await server.post('/jobs', job(), admin);
        let made;
        for (const { method, path: target, operation: { operationId, requestBody } } of expected) {
            const spelt = target.replace('{id}', target.startsWith('/tokens') ? made : id)
                .replace('{entry}', 'sample').replace(/\{\w+\}/, 'sample');
            const body = requestBody?.content['application/json'].example;
            const res = await statusOf(server.adminUrl, method, spelt, body, admin);
            assert.ok(res.status < 300, `${operationId}: ${res.status} ${res.text}`);
            made = operationId === 'createToken' ? JSON.parse(res.text).id : made;
        }
        const found = (await operations(server, '?limit=500', admin)).reverse();
        assert.deepEqual(found, ['createToken', ...expected.map(({ operation }) => operation.operationId)]);
    });

    it('has_nothing_of_what_was_refused_changed_nothing_or_is_a_jobs_normal_life', async (t) => {
        const server = await started(t);
        const { json: { id } } = await server.post('/jobs', job());
        await server.post('/jobs/claim', { queues: ['a'], worker: 'w' });
        await server.post(`/jobs/${id}/success`, {});
        assert.ok((await server.post(`/jobs/${id}/cancel`)).status >= 400);
        assert.equal((await server.delete('/jobs/03fr82s077azjmurys29qjch4')).status, 404);
        assert.equal((await server.delete('/jobs?dry_run=true')).status, 200);
        assert.equal((await server.request('PUT', '/queues/b', { paused: 7 })).status, 400);
        assert.deepEqual(await entries(server), []);
        const { json: { id: other } } = await server.post('/jobs', job());
        await server.delete(`/jobs/${other}`);
        const [e] = await entries(server);
        assert.deepEqual({ ...e, at: 0 }, { number: 1, at: 0, operation: 'deleteJob',
            actor: { kind: 'anonymous' }, address: '127.0.0.1', path: `/jobs/${other}`, finished: true });
    });

    it('outlives_kill_and_reset_and_is_in_backups',
        notOn('postgres', 'a backup becomes a root directory'), async (t) => {
        const server = await started(t);
        await server.request('PUT', '/queues/b', { paused: true });
        await server.signal('SIGKILL');
        await server.start();
        await server.post('/reset');
        assert.deepEqual(await operations(server), ['reset', 'putQueue']);
        const archive = path.join(server.dir, 'backup');
        assert.equal((await run(['backup', archive, '--url', server.adminUrl])).code, 0);
        assert.deepEqual(await operations(server), ['makeBackup', 'reset', 'putQueue']);
        await server.stop();
        fs.rmSync(rootOf(server), { recursive: true });
        const restored = await run(['restore', archive, '--root-dir', rootOf(server)]);
        assert.equal(restored.code, 0, restored.stderr);
        await server.start();
        assert.deepEqual(await operations(server), ['makeBackup', 'reset', 'putQueue']);
        await server.request('DELETE', '/queues/b');
        assert.deepEqual((await entries(server)).map((e) => e.number), [4, 3, 2, 1]);
    });

    it('is_for_who_administers_alone', async (t) => {
        const { as } = await guarded(t, { o: { roles: ['operator'] }, v: { roles: ['viewer'] } });
        assertError(await as().get('/audit'), 401, 'credentials_required');
        assertError(await as('o').get('/audit'), 403, 'insufficient_rights', /administer/);
        assertError(await as('v').get('/audit'), 403, 'insufficient_rights');
        assert.deepEqual((await as('admin').get('/audit?actor=anonymous')).json.entries
            .map((e) => e.operation), ['createToken']);
    });

    it('comes_in_pages_and_by_actor_operation_and_time', async (t) => {
        const server = await started(t);
        for (let i = 0; i < 7; i++)
            await server.request(i % 2 ? 'PUT' : 'PATCH', `/queues/q${i}`, { paused: true });
        const seen = [];
        for (let next = ''; next !== null;) {
            const { json } = await server.get(`/audit?limit=3${next}`);
            assert.ok(json.entries.length <= 3);
            seen.push(...json.entries.map((e) => e.path));
            next = json.next && `&before=${json.next}`;
        }
        assert.deepEqual(seen, [6, 5, 4, 3, 2, 1, 0].map((i) => `/queues/q${i}`));
        assert.equal((await entries(server, '?operation=putQueue')).length, 3);
        assert.equal((await entries(server, '?actor=anonymous')).length, 7);
        assert.equal((await entries(server, '?actor=nobody')).length, 0);
        const [{ at }] = await entries(server, '?limit=1');
        assert.equal((await entries(server, `?since=${at + 1}`)).length, 0);
        assert.equal((await entries(server, `?until=${at + 1}`)).length, 7);
        assertError(await server.get('/audit?limit=0'), 400, 'bad_value');
        assertError(await server.get('/audit?limit=1&limit=2'), 400, 'duplicate_field');
        assertError(await server.get('/audit?who=me'), 400, 'unknown_field');
    });

    it('is_kept_for_its_time_and_up_to_its_number', async (t) => {
        const server = await started(t, { args: ['--audit-max', '100', '--audit-retention', '1h'] });
        for (let i = 0; i < 130; i++)
            await server.request('PUT', '/queues/q', { paused: i % 2 === 0 });
        const found = await entries(server, '?limit=500');
        assert.equal(found.length, 100);
        assert.equal(found[0].number, 130);
        await server.stop();
        server.args = ['--audit-retention', '1ms'];
        await server.start();
        await server.request('PUT', '/queues/q', { paused: false });
        await server.get('/audit');
        await server.stop();
        await server.start();
        assert.ok(!(await entries(server)).some((e) => e.number === 131));
    });

    it('has_the_beginning_of_what_is_long', async (t) => {
        const server = await started(t);
        const settings = `{"enabled":true${' '.repeat(5000)}}`;
        const res = await server.request('PUT', '/settings/retry', settings);
        assert.equal(res.status, 200, res.text);
        const [{ body }] = await entries(server);
        assert.equal(Buffer.byteLength(body), 3072);
        assert.ok(settings.startsWith(body.slice(0, -1)) && body.endsWith('\u2026'), body);
    });

    it('is_listed_by_tenax_audit', async (t) => {
        const { server, tokens } = await guarded(t);
        await server.request('PUT', '/queues/b', { paused: true }, bearer(tokens.admin));
        const env = { TENAX_TOKEN: tokens.admin };
        const { code, stdout, stderr } = await run(['audit', '--url', server.url()], env);
        assert.equal(code, 0, stderr);
        assert.match(stdout, new RegExp(`putQueue +token ${idOf(tokens.admin)} +127\\.0\\.0\\.1 +/queues/b \\{"paused":true\\}`));
        const json = JSON.parse((await run(['audit', '--url', server.url(), '--operation', 'createToken',
            '--since', '1h', '-o', 'json'], env)).stdout);
        assert.deepEqual(json.map((e) => e.actor.kind), ['anonymous']);
        assert.equal((await run(['audit', '--url', server.url()])).code, 1);
    });

    it('names_the_file_of_a_token_that_was_made_without_the_server', async (t) => {
        const server = await started(t);
        const made = await run(['token', 'create', '--role', 'admin', '--root-dir', rootOf(server)]);
        assert.equal(made.code, 0, made.stderr);
        await server.stop();
        await server.start();
        const [e] = await entries(server, '', bearer(made.stdout.trim()));
        assert.deepEqual(e.actor, { kind: 'server', id: 'new-tokens' });
        assert.equal(e.operation, 'createToken');
    });
});

describe('the audit of Taskcluster\'s front end', () => {
    const accessToken = 'a'.repeat(44);
    const server = useTaskcluster({ clients: [{ clientId: 'ops/ada', accessToken, scopes: ['*'] }],
        args: ['--log-format', 'json', '--log-level', 'info'] });

    it('names_the_client', async () => {
        const queue = await server.queue({ clientId: 'ops/ada', accessToken });
        const group = await slugid(), ids = [await slugid(), await slugid(), await slugid()];
        for (const id of ids)
            await queue.createTask(id, definition({ taskGroupId: group }));
        await queue.cancelTask(ids[0]);
        await queue.rerunTask(ids[0]);
        await queue.sealTaskGroup(group);
        await queue.cancelTaskGroup(group);
        const worker = [...taskQueueId().split('/'), 'g', 'w'];
        const quarantineUntil = new Date(Date.now() + 3600e3).toJSON();
        await queue.declareWorker(...worker, { expires: quarantineUntil });
        await queue.quarantineWorker(...worker, { quarantineUntil, quarantineInfo: 'odd' });
        const found = (await entries(server)).reverse();
        assert.deepEqual(found.map((e) => [e.operation, e.actor]),
            ['cancelTask', 'rerunTask', 'cancelTaskGroup', 'quarantineWorker']
                .map((name) => [name, { kind: 'hawk', id: 'ops/ada' }]));
        assert.ok(found[0].path.endsWith(`/task/${ids[0]}/cancel`));
        const lines = server.stderr.split('\n').filter((line) => /change asked for/.test(line));
        const { operation, actor, id, address, path: target } = JSON.parse(lines[0]);
        assert.deepEqual({ operation, actor, id, address, target }, { operation: 'cancelTask', actor: 'hawk',
            id: 'ops/ada', address: '127.0.0.1', target: found[0].path });
    });
});
