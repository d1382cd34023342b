// SPDX-License-Identifier: Apache-2.0
'use strict';

// What workers and clients of the queue ask of Taskcluster's other services, by its own client; and
// what they hear of those that are not there.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const hawk = require('hawk');
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
    { ...of('reader'), scopes: ['index:find-task:a.*', 'index:list-tasks:a.*', 'index:insert-task:a.b',
        'queue:get-artifact:public/*'] },
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

describe('requests to other services', () => {
    // What a service asks of a request to it that hawk signed.
    async function sent(method, resource, credentials, options = {}) {
        const { id = credentials.clientId, ...more } = options;
        const { header } = hawk.client.header(`http://tools.example:8080${resource}`, method, {
            credentials: { id, key: credentials.accessToken, algorithm: 'sha256' }, ...more });
        return { method: method.toLowerCase(), resource, host: 'tools.example', port: 8080, authorization: header };
    }
    const ext = (value) => Buffer.from(JSON.stringify(value)).toString('base64');
    const authenticate = async (request) => {
        const answer = await (await service('Auth')).authenticateHawk(request);
        assertSchema('authenticate-hawk-response', answer, 'auth/v1');
        return answer;
    };

    it('are_judged_by_their_signature_as_often_as_they_are_asked_about', async () => {
        const request = await sent('POST', '/x?b=1&a=2', of('some'), { payload: '{}', contentType: 'application/json' });
        const answer = await authenticate({ ...request, sourceIp: '192.0.2.1' });
        assert.deepEqual({ ...answer, scopes: answer.scopes.sort() }, { status: 'auth-success', scheme: 'hawk',
            clientId: 'some', expires: '3000-01-01T00:00:00.000Z',
            hash: hawk.crypto.calculatePayloadHash(Buffer.from('{}'), 'sha256', 'application/json'),
            scopes: ['assume:anonymous', 'assume:team:x', 'auth:expand-scopes', 'queue:cancel-task-in-project:x',
                'queue:ping', 'queue:status:*'] });
        assert.equal((await authenticate(request)).status, 'auth-success');
        for (const wrong of [{ method: 'put' }, { resource: '/x?a=2&b=1' }, { host: 'other' }, { port: 80 }]) {
            const refused = await authenticate({ ...request, ...wrong });
            assert.equal(refused.status, 'auth-failed', JSON.stringify(wrong));
            assert.match(refused.message, /MAC/);
        }
        for (const [authorization, words] of [['Bearer x', /Hawk/], ['Hawk id="a"', /needs id/]])
            assert.match((await authenticate({ ...request, authorization })).message, words);
        const stranger = await sent('GET', '/', { clientId: 'stranger', accessToken: token });
        assert.match((await authenticate(stranger)).message, /no client 'stranger'/);
        const old = await sent('GET', '/', of('some'), { timestamp: Math.floor(Date.now() / 1000) - 3600 });
        assert.match((await authenticate(old)).message, /time/);
        assert.match((await authenticate({ ...request, resource: 'x' })).message, /'\/'/);
    });

    it('may_still_be_sent_here', async () => {
        const { port } = new URL(server.url());
        const { header } = hawk.client.header(`${server.url()}/api/auth/v1/scopes/current`, 'GET', {
            credentials: { id: 'some', key: token, algorithm: 'sha256' } });
        const asked = { method: 'get', resource: '/api/auth/v1/scopes/current', host: '127.0.0.1', port: +port,
            authorization: header };
        const send = () => server.fetch(asked.resource, { headers: { authorization: header } });
        assert.equal((await authenticate(asked)).status, 'auth-success');
        assert.equal((await send()).status, 200);
        assert.equal((await send()).status, 401);
        assert.equal((await authenticate(asked)).status, 'auth-success');
    });

    it('may_be_signed_by_temporary_credentials_some_scopes_of_theirs_or_their_url', async () => {
        const { createTemporaryCredentials } = await client;
        const expiry = new Date(Date.now() + HOUR);
        const temporary = createTemporaryCredentials({ clientId: 'some/temp', start: new Date(Date.now() - 1000),
            expiry, scopes: ['queue:status:a*'], credentials: of('root') });
        const certificate = JSON.parse(temporary.certificate);
        const answer = await authenticate(await sent('GET', '/', temporary, { ext: ext({ certificate }) }));
        assert.deepEqual([answer.status, answer.clientId, answer.expires, answer.scopes.sort()], ['auth-success',
            'some/temp', expiry.toJSON(), ['assume:anonymous', 'queue:ping', 'queue:status:a*']]);
        const less = await authenticate(await sent('GET', '/', temporary, { ext: ext({ certificate,
            authorizedScopes: ['queue:status:ab'] }) }));
        assert.deepEqual(less.scopes.sort(), ['assume:anonymous', 'queue:ping', 'queue:status:ab']);
        assert.match((await authenticate(await sent('GET', '/', temporary, { ext: ext({ certificate,
            authorizedScopes: ['queue:status:b'] }) }))).message, /authorizedScopes/);
        assert.equal((await authenticate(await sent('GET', '/', temporary))).status, 'auth-failed');
        const bewit = hawk.uri.getBewit('http://tools.example:8080/x?y=1', { credentials: { id: 'some', key: token,
            algorithm: 'sha256' }, ttlSec: 60 });
        const url = { method: 'head', resource: `/x?y=1&bewit=${bewit}`, host: 'tools.example', port: 8080 };
        assert.equal((await authenticate(url)).clientId, 'some');
        assert.match((await authenticate({ ...url, method: 'post' })).message, /GET and HEAD/);
        assert.match((await authenticate({ ...url, resource: url.resource.replace('y=1', 'y=2') })).message, /MAC/);
    });

    it('need_no_signature_to_have_the_scopes_of_everybody', async () => {
        const answer = await authenticate({ method: 'get', resource: '/', host: '::1', port: 443 });
        assert.deepEqual([answer.status, answer.scheme, answer.scopes], ['no-auth', 'none', ['assume:anonymous',
            'queue:ping']]);
        assert.ok(Math.abs(Date.parse(answer.expires) - Date.now() - HOUR / 4) < 60e3);
        const auth = await service('Auth');
        for (const wrong of [{ method: 'GET' }, { port: 65536 }, { port: '80' }, { more: 1 }, { host: 'a b' }])
            await assertRefused(auth.authenticateHawk({ method: 'get', resource: '/', host: 'h', port: 1, ...wrong }),
                400, 'InputValidationError', new RegExp(Object.keys(wrong)[0]));
    });

    const open = useTaskcluster();
    it('are_whose_they_say_they_are_where_nobody_needs_credentials', async () => {
        const { Auth } = await client;
        const auth = new Auth({ rootUrl: open.url(), retries: 0 });
        const request = await sent('GET', '/x', of('any'));
        const answer = await auth.authenticateHawk(request);
        assert.deepEqual([answer.status, answer.clientId, answer.scopes], ['auth-success', 'any', ['*']]);
        assert.equal((await auth.authenticateHawk({ ...request, authorization: 'Hawk x' })).status, 'auth-failed');
        const { authorization, ...unsigned } = request;
        assert.deepEqual((await auth.authenticateHawk(unsigned)).scopes, ['*']);
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

describe('index', () => {
    const expires = (ms = HOUR) => new Date(Date.now() + ms).toJSON();
    const entry = (taskId, more = {}) => ({ taskId, rank: 0, data: {}, expires: expires(), ...more });
    // A task that is running, and an index of all scopes.
    async function running(fields) {
        const queue = await server.queue(of('root'));
        const id = await slugid();
        await queue.createTask(id, definition(fields));
        await queue.claimTask(id, 0, WORKER);
        return { id, queue, index: await service('Index', of('root')) };
    }
    const many = async (who, indexes) => {
        const { createClient } = await client; // of the reference: the package is older than the method
        const { json } = await server.fetch('/references/index/v1/api.json');
        const Index = createClient(json);
        return new Index({ rootUrl: server.url(), retries: 0, credentials: of(who) }).findTasksAtIndex({ indexes });
    };

    it('keeps_the_task_of_the_highest_rank_and_of_equal_ones_the_last', async () => {
        const { index } = await running();
        const [a, b, c, d] = await Promise.all([slugid(), slugid(), slugid(), slugid()]);
        const path = `ranks.${a.slice(0, 5)}`;
        const first = entry(a, { rank: 1.5, data: { list: [1, '"', null] } });
        assert.deepEqual(await index.insertTask(path, first), { namespace: path, ...first });
        assert.equal((await index.insertTask(path, entry(b, { rank: 1.4 }))).taskId, a);
        assert.deepEqual(await index.findTask(path), { namespace: path, ...first });
        assert.equal((await index.insertTask(path, entry(c, { rank: 1.5 }))).taskId, c);
        await Promise.all([1, 2, 3, 4, 5, 6].map((rank) => index.insertTask(path, entry(d, { rank: 10 * rank }))));
        assert.equal((await index.findTask(path)).rank, 60);
        await server.stop('SIGKILL');
        await server.start();
        assert.equal((await (await service('Index', of('root'))).findTask(path)).rank, 60);
    });

    it('indexes_completed_tasks_by_their_routes', async () => {
        const name = (await slugid()).slice(0, 8);
        const routes = [`index.done.${name}`, 'notify.none', `index.done.more.${name}`];
        const extra = { index: { rank: 7, data: { sha: 'x' }, expires: expires(2 * HOUR) } };
        const { id, queue, index } = await running({ routes, extra });
        await assertRefused(index.findTask(`done.${name}`), 404, 'ResourceNotFound', /Indexed task not found/);
        const answer = await queue.reportCompleted(id, 0);
        assert.equal(answer.status.state, 'completed');
        for (const path of [`done.${name}`, `done.more.${name}`])
            assert.deepEqual(await index.findTask(path), { namespace: path, taskId: id, rank: 7, data: { sha: 'x' }, expires: extra.index.expires });
        assert.equal((await queue.reportCompleted(id, 0)).status.state, 'completed'); // again: its answer was lost
        const failed = await running({ routes: [`index.failed.${name}`] });
        await failed.queue.reportFailed(failed.id, 0);
        await assertRefused(index.findTask(`failed.${name}`), 404, 'ResourceNotFound');
        const plain = await running({ routes: [`index.plain.${name}`], extra: { index: 'of another form' } });
        await plain.queue.reportCompleted(plain.id, 0);
        const found = await index.findTask(`plain.${name}`);
        assert.deepEqual([found.taskId, found.rank, found.data], [plain.id, 0, {}]);
        assert.equal(found.expires, (await plain.queue.task(plain.id)).expires);
    });

    it('finds_many_and_lists_those_directly_below', async () => {
        const { index, id } = await running();
        const top = `t${id.replace(/[^a-z]/gi, '')}`;
        for (const path of ['a', 'b', 'b.c', 'bc'])
            await index.insertTask(`${top}.${path}`, entry(id));
        await index.insertTask(top, entry(id));
        const names = ({ tasks }) => tasks.map((t) => t.namespace);
        assert.deepEqual(names(await many('root', [`${top}.b.c`, `${top}.none`, 'no path', top])), [`${top}.b.c`, top]);
        assert.deepEqual(await many('root', []), { tasks: [] });
        assert.deepEqual(names(await index.listTasks(top, {})), [`${top}.a`, `${top}.b`, `${top}.bc`]);
        assert.deepEqual(names(await index.listTasks(`${top}.b`, {})), [`${top}.b.c`]);
        const page = await index.listTasks(top, { limit: 2 });
        assert.equal(page.tasks.length, 2);
        assert.deepEqual(names(await index.listTasks(top, { continuationToken: page.continuationToken })), [`${top}.bc`]);
    });

    it('leads_to_artifacts_and_forgets_what_has_expired', async () => {
        const { id, queue, index } = await running();
        const name = (await slugid()).slice(0, 8);
        const artifact = { storageType: 'reference', url: 'https://example.org/x', contentType: 'text/plain', expires: expires() };
        for (const of of ['public/x', 'private/x'])
            await queue.createArtifact(id, 0, of, artifact);
        await index.insertTask(`art.${name}`, entry(id));
        const get = (path) => server.fetch(`/api/index/v1/task/art.${name}/artifacts/${path}`, { redirect: 'manual' });
        assert.equal((await get('public/x')).status, 403); // anonymous has no such role here
        const signed = async (who, path) => {
            const api = await service('Index', of(who));
            const url = api.buildSignedUrl(api.findArtifactFromTask, `art.${name}`, path);
            return server.fetch(url.replace(server.url(), ''), { redirect: 'manual' });
        };
        const found = await signed('reader', 'public/x');
        assert.equal(found.status, 303, found.text);
        assert.equal(found.headers.get('location'), 'https://example.org/x');
        assert.equal((await signed('reader', 'private/x')).status, 403);
        assert.equal((await signed('root', 'public/none')).status, 404);
        await index.insertTask(`art.${name}.old`, entry(id, { expires: expires(-1000) }));
        await assertRefused(index.findTask(`art.${name}.old`), 404, 'ResourceNotFound');
        assert.deepEqual((await many('root', [`art.${name}.old`])).tasks, []);
    });

    it('refuses_who_may_not_and_what_cannot_be', async () => {
        const index = await service('Index', of('reader'));
        const id = await slugid();
        assert.equal((await index.insertTask('a.b', entry(id))).taskId, id);
        await assertRefused(index.insertTask('a.c', entry(id)), 403, 'InsufficientScopes', /index:insert-task:a\.c/);
        await assertRefused(index.findTask('b'), 403, 'InsufficientScopes');
        await assertRefused(many('reader', ['a.b', 'b']), 403, 'InsufficientScopes', /index:find-task:b/);
        await assertRefused(index.listTasks('b', {}), 403, 'InsufficientScopes');
        const root = await service('Index', of('root'));
        for (const path of ['a..b', '.a', 'a.', 'a b', 'x'.repeat(256)])
            await assertRefused(root.findTask(path), 400, 'InvalidRequestArguments', /indexPath/);
        await assertRefused(root.insertTask('a.d', entry('no id')), 400, 'InputValidationError', /taskId/);
        await assertRefused(root.insertTask('a.d', entry(id, { data: { x: 'x'.repeat(33000) } })), 400, 'InputError', /data/);
        await assertRefused(root.insertTask('a.d', entry(id, { more: 1 })), 400, 'InputValidationError', /more/);
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
