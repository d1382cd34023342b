// SPDX-License-Identifier: Apache-2.0
'use strict';

// What workers and clients of the queue ask of Taskcluster's other services, by its own client; and
// what they hear of those that are not there.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { HOUR, assertRefused, assertSchema, client, definition, slugid, taskQueueId, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };
const token = 'a'.repeat(44);
const of = (clientId) => ({ clientId, accessToken: token });
const clients = [
    { ...of('root'), scopes: ['*'] },
    { ...of('some'), scopes: ['queue:status:*', 'assume:team:x', 'auth:expand-scopes'] },
    { ...of('pool'), scopes: ['purge-cache:prov/Type_1:cache', 'purge-cache:prov/Type_12:cache',
        'purge-cache:purge-requests::prov/*', 'queue:pending-count:prov/*',
        'queue:claimed-count:prov/a'] },
    { roleId: 'team:*', scopes: ['queue:cancel-task-in-project:<..>'] },
    { roleId: 'anonymous', scopes: ['queue:ping'] },
];
const server = useTaskcluster({ clients });

async function service(name, credentials) {
    const api = (await client)[name];
    return new api({ rootUrl: server.url(), retries: 0, credentials });
}

describe('auth', () => {
    it('says_which_scopes_a_client_has', async () => {
        const { scopes } = await (await service('Auth', of('some'))).currentScopes();
        assert.deepEqual(scopes.sort(), ['assume:anonymous', 'assume:team:x', 'auth:expand-scopes',
            'queue:cancel-task-in-project:x', 'queue:ping', 'queue:status:*']);
        assert.deepEqual((await (await service('Auth')).currentScopes()).scopes,
            ['assume:anonymous', 'queue:ping']);
    });

    it('says_which_scopes_a_task_has', async () => {
        const root = await server.queue(of('root'));
        const id = await slugid();
        await root.createTask(id, definition({ scopes: ['assume:team:y'] }));
        const { credentials } = await root.claimTask(id, 0, WORKER);
        const { scopes } = await (await service('Auth', credentials)).currentScopes();
        assert.ok(scopes.includes(`queue:resolve-task:${id}/0`));
        assert.ok(scopes.includes('queue:cancel-task-in-project:y'));
    });

    it('expands_scopes', async () => {
        const auth = await service('Auth', of('some'));
        const { scopes } = await auth.expandScopes({ scopes: ['x', 'x:*', 'assume:team:z'] });
        assert.deepEqual(scopes.sort(), ['assume:anonymous', 'assume:team:z',
            'queue:cancel-task-in-project:z', 'queue:ping', 'x', 'x:*']);
        await assertRefused(auth.expandScopes({ scopes: ['a**'] }), 400, 'InputError', /scopes/);
        await assertRefused((await service('Auth')).expandScopes({ scopes: [] }), 403,
            'InsufficientScopes');
    });
});

describe('purge-cache', () => {
    it('keeps_what_the_workers_of_a_pool_must_drop', async () => {
        const pool = await service('PurgeCache', of('pool'));
        assert.deepEqual(await pool.purgeRequests('prov/none', {}), { requests: [] });
        const from = Date.now();
        await pool.purgeCache('prov/Type_1', { cacheName: 'cache' });
        await pool.purgeCache('prov/Type_12', { cacheName: 'cache' });
        const { requests } = await pool.purgeRequests('prov/Type_1', {});
        assert.deepEqual(requests.map(({ before, ...rest }) => rest),
            [{ provisionerId: 'prov', workerType: 'Type_1', cacheName: 'cache' }]);
        assert.ok(Math.abs(Date.parse(requests[0].before) - from) < HOUR);
        const since = (ms) => ({ since: new Date(Date.parse(requests[0].before) + ms).toJSON() });
        assert.equal((await pool.purgeRequests('prov/Type_1', since(0))).requests.length, 1);
        assert.deepEqual(await pool.purgeRequests('prov/Type_1', since(1)), { requests: [] });
        await server.stop('SIGKILL');
        await server.start();
        assert.deepEqual((await (await service('PurgeCache', of('pool')))
            .purgeRequests('prov/Type_1', {})).requests, requests);
    });

    it('refuses_what_it_cannot_keep_or_who_may_not', async () => {
        const pool = await service('PurgeCache', of('pool'));
        await assertRefused(pool.purgeCache('prov/a', { cacheName: 'other' }), 403,
            'InsufficientScopes', /purge-cache:prov\/a:other/);
        await assertRefused(pool.purgeRequests('other/a', {}), 403, 'InsufficientScopes');
        await assertRefused(pool.purgeRequests('prov/a', { since: 'yesterday' }), 400,
            'InvalidRequestArguments', /since/);
        await assertRefused(pool.purgeCache('prov', { cacheName: 'cache' }), 400,
            'InvalidRequestArguments', /workerPoolId/);
        await assertRefused((await service('PurgeCache', of('root'))).purgeCache('prov/a',
            { cacheName: 'x'.repeat(5000) }), 400, 'InputError', /name of a cache/);
    });
});

describe('counts of many task queues', () => {
    const counts = async (who, taskQueueIds) => {
        const { createClient } = await client; // of the reference: the package is older than the method
        const { json } = await server.fetch('/references/queue/v1/api.json');
        const Queue = createClient(json);
        return new Queue({ rootUrl: server.url(), retries: 0, credentials: of(who) })
            .taskQueueCountsBatch({ taskQueueIds });
    };

    it('are_in_one_answer', async () => {
        const root = await server.queue(of('root'));
        const [a, b, none] = [taskQueueId(), taskQueueId(), taskQueueId()];
        for (const queue of [a, a, b])
            await root.createTask(await slugid(), definition({ taskQueueId: queue }));
        await root.claimWork(a, { ...WORKER, tasks: 1 });
        const answer = await counts('root', [a, none, b]);
        assertSchema('task-queue-counts-batch-response', answer);
        assert.deepEqual(answer.taskQueueCounts.map((c) => [c.taskQueueId, c.pendingTasks,
            c.claimedTasks]), [[a, 1, 1], [none, 0, 0], [b, 1, 0]]);
        assert.deepEqual(await counts('root', []), { taskQueueCounts: [] });
    });

    it('need_the_scopes_of_each', async () => {
        assert.equal((await counts('pool', ['prov/a'])).taskQueueCounts.length, 1);
        await assertRefused(counts('pool', ['prov/a', 'prov/b']), 403, 'InsufficientScopes',
            /queue:claimed-count:prov\/b/);
    });
});

describe('a service that is not there', () => {
    it('is_404_in_words', async () => {
        for (const [name, call, word] of [['Hooks', (api) => api.listHookGroups(), /'hooks'/],
            ['Secrets', (api) => api.get('x'), /'secrets'/],
            ['Auth', (api) => api.listClients(), /Unknown route.*auth/]])
            await assertRefused(call(await service(name, of('root'))), 404, 'ResourceNotFound', word);
        for (const path of ['/api', '/api/', '/api/queue/v2/ping'])
            assert.equal((await server.fetch(path)).json.code, 'ResourceNotFound', path);
    });
});
