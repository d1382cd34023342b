// SPDX-License-Identifier: Apache-2.0
'use strict';

// Workers that register by a static secret, with Taskcluster's own client of worker-manager.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { HOUR, assertRefused, assertSchema, client, definition, slugid, useTaskcluster } = require('./taskcluster');
const { until } = require('./harness');

const token = 'a'.repeat(44), POOL = 'prov/linux', DAY = 24 * HOUR;
const secretOf = (name) => name.padEnd(44, '-_9');
const worker = (workerId, more = {}) => ({ workerPoolId: POOL, workerGroup: 'rack-1', workerId,
    staticSecret: secretOf(workerId), ...more });
const clients = [
    { clientId: 'root', accessToken: token, scopes: ['*'] },
    { clientId: 'none', accessToken: token, scopes: [] },
    { roleId: 'worker-pool:prov/*', scopes: ['queue:get-artifact:of-<..>'] },
    ...['anew', 'removed', 'renewed', 'gone', 'killed', 'far', 'wrong'].map((id) => worker(id)),
    worker('configured', { providerId: 'own', workerConfig: { size: [1, { a: null }] } }),
];
const server = useTaskcluster({ clients });

async function manager(credentials) {
    const { WorkerManager } = await client;
    return new WorkerManager({ rootUrl: server.url(), retries: 0, credentials });
}
// The package is older than the method: by the server's reference.
async function shouldTerminate(credentials, workerId) {
    const { createClient } = await client;
    const { json } = await server.fetch('/references/worker-manager/v1/api.json');
    const Manager = createClient(json);
    return new Manager({ rootUrl: server.url(), retries: 0, credentials }).shouldWorkerTerminate(POOL, 'rack-1', workerId);
}
const root = { clientId: 'root', accessToken: token };

async function register(workerId, more = {}) {
    const answer = await (await manager()).registerWorker({ workerPoolId: POOL, providerId: 'static',
        workerGroup: 'rack-1', workerId, workerIdentityProof: { staticSecret: secretOf(workerId) }, ...more });
    assertSchema('register-worker-response', answer, 'worker-manager/v1');
    return answer;
}

// A worker that has registered and holds a task.
async function busy(workerId) {
    const registered = await register(workerId);
    const taskId = await slugid(), queue = await server.queue(root);
    await queue.createTask(taskId, definition({ taskQueueId: POOL }));
    const { tasks } = await (await server.queue(registered.credentials)).claimWork(POOL,
        { workerGroup: 'rack-1', workerId, tasks: 1 });
    assert.deepEqual(tasks.map((t) => t.status.taskId), [taskId]);
    return { ...registered, taskId, queue, task: tasks[0] };
}

async function retried(queue, taskId) {
    const { status } = await queue.status(taskId);
    assert.deepEqual(status.runs.map((r) => [r.state, r.reasonResolved]),
        [['exception', 'worker-shutdown'], ['pending', undefined]]);
    assert.equal(status.retriesLeft, 4);
    await queue.cancelTask(taskId);
}

describe('registerWorker', () => {
    it('gives_credentials_for_the_pool_and_the_worker_alone', async () => {
        const from = Date.now();
        const { credentials, expires, workerConfig, secret } = await register('configured', { providerId: 'own',
            systemBootTime: new Date(from - HOUR).toJSON() });
        assert.ok(Math.abs(Date.parse(expires) - from - 4 * DAY) < 60e3);
        assert.deepEqual(workerConfig, { size: [1, { a: null }] });
        assert.match(secret, /^[\w-]{44}$/);
        assert.equal(credentials.clientId, 'worker/own/prov/linux/rack-1/configured');
        assert.ok(Math.abs(JSON.parse(credentials.certificate).expiry - Date.parse(expires)) < 2);
        const { Auth } = await client;
        const { scopes } = await new Auth({ rootUrl: server.url(), retries: 0, credentials }).currentScopes();
        const name = `${POOL}/rack-1/configured`;
        assert.deepEqual(scopes.sort(), ['assume:anonymous', 'assume:worker-id:rack-1/configured',
            `assume:worker-pool:${POOL}`, `assume:worker-type:${POOL}`, `queue:claim-work:${POOL}`,
            'queue:get-artifact:of-linux', 'queue:worker-id:rack-1/configured', `secrets:get:worker-pool:${POOL}`,
            `secrets:get:worker-type:${POOL}`, `worker-manager:remove-worker:${name}`,
            `worker-manager:reregister-worker:${name}`, `worker-manager:should-worker-terminate:${name}`]);
        const other = { workerGroup: 'rack-1', workerId: 'other', tasks: 1 };
        await assertRefused((await server.queue(credentials)).claimWork(POOL, other), 403, 'InsufficientScopes');
    });

    it('refuses_who_does_not_know_the_secret', async () => {
        const refused = (more, ...as) => assertRefused(register('wrong', more), ...as);
        await refused({ workerIdentityProof: { staticSecret: secretOf('anew') } }, 400, 'InputError', /bad staticSecret/);
        await refused({ workerIdentityProof: { staticSecret: 'short' } }, 400, 'InputValidationError', /staticSecret/);
        await refused({ workerIdentityProof: { token: 'x' } }, 400, 'InputError', /no other proof/);
        await refused({ workerIdentityProof: {} }, 400, 'InputError', /missing staticSecret/);
        await refused({ workerIdentityProof: undefined }, 400, 'InputValidationError', /workerIdentityProof/);
        await refused({ providerId: 'other' }, 400, 'InputError', /provider other/);
        await refused({ workerId: 'nobody' }, 404, 'ResourceNotFound', /rack-1\/nobody of worker pool prov\/linux/);
        await refused({ workerPoolId: 'prov/other' }, 404, 'ResourceNotFound', /--taskcluster-clients/);
        await refused({ workerPoolId: 'prov' }, 400, 'InputValidationError', /workerPoolId/);
        await refused({ more: 1 }, 400, 'InputValidationError', /more/);
        await assertRefused(shouldTerminate(root, 'wrong'), 404,
            'ResourceNotFound');
        const send = (body) => server.fetch('/api/worker-manager/v1/worker/register', { method: 'POST', body,
            headers: { 'Content-Type': 'application/json' } });
        const body = { workerPoolId: POOL, providerId: 'static', workerGroup: 'rack-1', workerId: 'wrong',
            workerIdentityProof: { staticSecret: secretOf('anew') } };
        for (const twice of ['"staticSecret":"x",', `"staticSecret":"${secretOf('anew')}",`]) {
            const text = JSON.stringify(body).replace('"staticSecret"', `${twice}"staticSecret"`);
            assert.equal((await send(text)).status, 400);
        }
        const text = JSON.stringify(body);
        assert.equal((await send(text.replace('"workerId"', '"workerId":"x","workerId"'))).status, 400);
    });

    it('ends_the_claims_that_the_worker_had_before', async () => {
        const { queue, taskId, task } = await busy('anew');
        const waiting = await slugid();
        await register('anew');
        await retried(queue, taskId);
        await assertRefused((await server.queue(task.credentials)).reportCompleted(taskId, 0), 409, 'RequestConflict');
        await queue.createTask(waiting, definition({ taskQueueId: POOL }));
        const other = await queue.claimWork(POOL, { workerGroup: 'rack-2', workerId: 'anew', tasks: 1 });
        assert.equal(other.tasks.length, 1);
        await register('anew'); // another worker of a like name is not touched
        assert.equal((await queue.status(waiting)).status.state, 'running');
        await queue.cancelTask(waiting);
    });

    it('ends_more_claims_than_a_page_has', async () => {
        const { credentials } = await register('far');
        const queue = await server.queue(root), own = await server.queue(credentials);
        const ids = [];
        for (let i = 0; i < 120; i++)
            ids.push(await slugid());
        await Promise.all(ids.map((id) => queue.createTask(id, definition({ taskQueueId: POOL }))));
        for (let held = 0; held < 120;)
            held += (await own.claimWork(POOL, { workerGroup: 'rack-1', workerId: 'far', tasks: 30 })).tasks.length;
        await register('far');
        for (const id of ids)
            await retried(queue, id);
    });
});

describe('reregisterWorker', () => {
    const renew = async (workerId, secret, credentials) => {
        const answer = await (await manager(credentials)).reregisterWorker({ workerPoolId: POOL,
            workerGroup: 'rack-1', workerId, secret });
        assertSchema('reregister-worker-response', answer, 'worker-manager/v1');
        return answer;
    };

    it('renews_credentials_once_or_again_if_the_answer_was_lost', async () => {
        const { credentials, secret, queue, taskId } = await busy('renewed');
        const second = await renew('renewed', secret, credentials);
        assert.notEqual(second.secret, secret);
        assert.equal((await renew('renewed', secret, credentials)).secret, second.secret);
        await server.stop('SIGKILL');
        await server.start();
        const third = await renew('renewed', second.secret, second.credentials);
        assert.ok(![secret, second.secret].includes(third.secret));
        const words = /Could not generate credentials/;
        await assertRefused(renew('renewed', secret, credentials), 400, 'InputError', words);
        await assertRefused(renew('renewed', secretOf('renewed'), credentials), 400, 'InputError', words);
        await assertRefused(renew('gone', secret, root), 400, 'InputError', words);
        await assertRefused(renew('gone', secret, credentials), 403, 'InsufficientScopes');
        const after = await server.queue(root);
        assert.equal((await after.status(taskId)).status.state, 'running', 'it goes on working');
        await after.cancelTask(taskId);
        const again = await register('renewed');
        await assertRefused(renew('renewed', third.secret, third.credentials), 400, 'InputError', words);
        await renew('renewed', again.secret, again.credentials);
    });
});

describe('removeWorker', () => {
    it('ends_its_claims_and_tells_it_to_terminate', async () => {
        const { credentials, secret, queue, taskId } = await busy('removed');
        const own = await manager(credentials);
        const ask = async () => {
            const answer = await shouldTerminate(credentials, 'removed');
            assertSchema('should-worker-terminate-response', answer, 'worker-manager/v1');
            return answer;
        };
        assert.deepEqual(await ask(), { terminate: false, reason: 'none' });
        await assertRefused((await manager({ clientId: 'none', accessToken: token })).removeWorker(POOL, 'rack-1',
            'removed'), 403, 'InsufficientScopes', /worker-manager:remove-worker:prov\/linux\/rack-1\/removed/);
        assert.deepEqual(await own.removeWorker(POOL, 'rack-1', 'removed'), {});
        await retried(queue, taskId);
        assert.deepEqual(await ask(), { terminate: true, reason: 'the worker was removed' });
        await server.stop('SIGKILL');
        await server.start();
        assert.equal((await shouldTerminate(root, 'removed')).terminate, true);
        await assertRefused((await manager(root)).reregisterWorker({ workerPoolId: POOL, workerGroup: 'rack-1',
            workerId: 'removed', secret }), 400, 'InputError');
        await assertRefused((await manager(root)).removeWorker(POOL, 'rack-1', 'nobody'), 404, 'ResourceNotFound',
            /rack-1\/nobody/);
        await register('removed');
        assert.equal((await shouldTerminate(root, 'removed')).terminate, false);
    });

    it('answers_a_claim_that_waits', async () => {
        const { credentials } = await register('killed');
        const from = Date.now();
        const claim = (await server.queue(credentials)).claimWork('prov/linux', { workerGroup: 'rack-1',
            workerId: 'killed', tasks: 1 });
        await until(async () => {
            const { workers } = await (await server.queue(root)).listWorkers('prov', 'linux');
            return workers.some((w) => w.workerId === 'killed');
        });
        await (await manager(root)).removeWorker(POOL, 'rack-1', 'killed');
        assert.deepEqual((await claim).tasks, []);
        assert.ok(Date.now() - from < 10e3);
    });

    it('is_not_needed_of_a_worker_that_the_file_does_not_name_any_more', async () => {
        const { credentials, secret } = await register('gone');
        server.writeClients(clients.filter((c) => c.workerId !== 'gone'));
        server.child.kill('SIGHUP');
        const own = await manager(credentials);
        await until(async () => (await shouldTerminate(credentials, 'gone')).terminate);
        assert.match((await shouldTerminate(credentials, 'gone')).reason, /no longer in the file/);
        await assertRefused(own.reregisterWorker({ workerPoolId: POOL, workerGroup: 'rack-1', workerId: 'gone',
            secret }), 404, 'ResourceNotFound');
        await assertRefused(register('gone'), 404, 'ResourceNotFound');
    });
});
