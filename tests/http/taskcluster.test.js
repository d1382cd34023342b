// SPDX-License-Identifier: Apache-2.0
'use strict';

// Tasks over Taskcluster's API, from their creation to their end.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { until } = require('./harness');
const { assertRefused, assertSchema, client, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };

function claim(queue, task, tasks = 1) {
    return queue.claimWork(task.taskQueueId, { ...WORKER, tasks });
}

describe('a job that is no task in a task queue', () => {
    const server = useTaskcluster();

    it('stops_no_claim_counts_as_no_task_and_is_explained', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition();
        const foreign = (await server.post('/jobs', { queue: task.taskQueueId, type: 't', payload: {} })).json;
        await queue.createTask(id, task);
        assert.equal((await queue.pendingTasks(task.taskQueueId)).pendingTasks, 1);
        const { tasks } = await claim(queue, task, 4);
        assert.deepEqual(tasks.map((t) => t.status.taskId), [id]);
        assert.equal((await queue.pendingTasks(task.taskQueueId)).pendingTasks, 0);
        const waiting = claim(queue, task);
        const explained = await until(async () => {
            const { text } = await server.get(`/jobs/${foreign.id}/explain`);
            return /it is no task/.test(text) ? text : null;
        });
        assert.match(explained, /a worker of the Jobs API could take it/);
        const target = `/explain?queue=${encodeURIComponent(task.taskQueueId)}`;
        assert.match((await server.get(target)).text, /all who ask for jobs of the queue take only tasks/);
        const given = (await server.post('/jobs/claim', { queues: [task.taskQueueId], worker: 'w' })).json;
        assert.deepEqual(given.jobs.map((j) => j.id), [foreign.id]);
        await queue.createTask(await slugid(), { ...task, created: definition().created });
        assert.equal((await waiting).tasks.length, 1);
    });

    it('is_what_workers_of_the_jobs_api_are_given_and_tasks_are_not', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition();
        await queue.createTask(id, task);
        const job = (await server.post('/jobs', { queue: task.taskQueueId, type: 't', payload: {} })).json;
        const { jobs } = (await server.post('/jobs/claim',
            { queues: [task.taskQueueId], worker: 'w', count: 5 })).json;
        assert.deepEqual(jobs.map((j) => j.id), [job.id]);
        assert.equal((await queue.status(id)).status.state, 'pending');
        const moved = await server.patch(`/jobs/alias:${id}`, { queue: 'elsewhere' });
        assert.equal(moved.status, 422);
    });

    it('that_has_the_type_of_tasks_but_no_definition_ends_with_the_reason', async () => {
        const queue = await server.queue();
        const task = definition();
        const alias = await slugid();
        await server.post('/jobs', { queue: task.taskQueueId, type: 'taskcluster-task', alias, payload: {} });
        const id = await slugid();
        await queue.createTask(id, task);
        const { tasks } = await claim(queue, task, 4);
        assert.deepEqual(tasks.map((t) => t.status.taskId), [id]);
        const job = await until(async () => {
            const { json } = await server.get(`/jobs/alias:${alias}`);
            return json.status === 'dead' ? json : null;
        });
        assert.equal(job.resolution, 'malformed-payload');
    });
});

describe('createTask', () => {
    const server = useTaskcluster();

    it('makes_a_pending_task_that_is_a_job', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition({ priority: 'high' });
        const { status } = await queue.createTask(id, task);
        assertSchema('task-status-response', { status });
        assert.equal(status.state, 'pending');
        assert.equal(status.retriesLeft, 5);
        assert.equal(status.runs.length, 1);
        assert.equal(status.runs[0].reasonCreated, 'scheduled');
        const { json } = await server.get(`/jobs/alias:${id}`);
        assert.equal(json.queue, task.taskQueueId);
        assert.equal(json.status, 'ready');
    });

    it('fills_in_defaults', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const given = definition();
        await queue.createTask(id, given);
        const task = await queue.task(id);
        assertSchema('task', task);
        const year = new Date(given.deadline);
        year.setFullYear(year.getFullYear() + 1);
        assert.deepEqual(task, { ...given, provisionerId: 'prov',
            workerType: given.taskQueueId.split('/')[1], projectId: 'none', taskGroupId: id,
            dependencies: [], requires: 'all-completed', routes: [], priority: 'lowest', retries: 5,
            expires: year.toJSON(), scopes: [], tags: {}, extra: {} });
    });

    it('is_idempotent_for_an_equal_definition', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition({ payload: { a: 1, b: [1, 2.5, { c: '\u00e9' }] } });
        await queue.createTask(id, task);
        const again = { ...task, payload: { b: [1.0, 2.5, { c: 'é' }], a: 1 } };
        const { status } = await queue.createTask(id, again);
        assert.equal(status.runs.length, 1);
        await assertRefused(queue.createTask(id, { ...task, payload: { a: 2 } }), 409,
            'RequestConflict', /already used by another task/);
    });

    it('is_repeated_though_its_group_is_sealed', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition({ schedulerId: 's' });
        await queue.createTask(id, task);
        await queue.sealTaskGroup(id);
        assert.equal((await queue.createTask(id, task)).status.state, 'pending');
        await assertRefused(queue.createTask(await slugid(), { ...task, taskGroupId: id }), 409,
            'RequestConflict', /is sealed/);
    });

    it('is_repeated_though_what_it_depends_on_is_gone', async () => {
        const queue = await server.queue();
        const [first, id] = [await slugid(), await slugid()];
        await queue.createTask(first, definition());
        const task = definition({ dependencies: [first] });
        await queue.createTask(id, task);
        const { json } = await server.get(`/jobs/alias:${first}`);
        assert.equal((await server.delete(`/jobs/${json.id}`)).status, 204);
        assert.equal((await queue.createTask(id, task)).status.taskId, id);
        await assertRefused(queue.createTask(await slugid(), task), 400, 'InputError',
            /there is no task/);
    });

    it('names_the_member_that_breaks_the_schema', async () => {
        const queue = await server.queue();
        const wrong = [
            [{ metadata: { name: 'x' } }, /data\/metadata must have required property 'owner'/],
            [{ retries: 50 }, /data\/retries must be <= 49/],
            [{ priority: 'urgent' }, /data\/priority/],
            [{ taskQueueId: 'no slash' }, /data\/taskQueueId/],
            [{ dependencies: ['x'] }, /data\/dependencies\/0/],
            [{ scopes: ['\u0001'] }, /data\/scopes\/0/],
            [{ routes: ['a', 'a'] }, /duplicate items/],
            [{ deadline: 'tomorrow' }, /data\/deadline must match format "date-time"/],
            [{ payload: [] }, /data\/payload must be object/],
            [{ unknown: 1 }, /additional properties: 'unknown'/],
        ];
        for (const [fields, words] of wrong)
            await assertRefused(queue.createTask(await slugid(), definition(fields)), 400,
                'InputValidationError', words);
    });

    it('refuses_what_no_schema_can_say', async () => {
        const queue = await server.queue();
        const at = (ms) => new Date(Date.now() + ms).toJSON();
        const wrong = [
            [{ created: at(-3600e3) }, /created. cannot be in the past/],
            [{ created: at(3600e3) }, /created. cannot be in the future/],
            [{ deadline: at(-60e3), created: at(-120e3) }, /deadline. cannot be in the past/],
            [{ deadline: at(6 * 24 * 3600e3) }, /more than 5 days/],
            [{ expires: at(60e3) }, /expires. cannot be before/],
            [{ provisionerId: 'other', workerType: 'x' }, /taskQueueId must match/],
            [{ taskQueueId: undefined }, /must be provided/],
            [{ scopes: ['a**'] }, /must not end with/],
            [{ scopes: Array.from({ length: 4094 }, (_, i) => `a${i}`) }, /more than the maximum of 4093/],
            [{ scopes: ['a'.repeat(2049)] }, /./],
            [{ dependencies: [await slugid()] }, /task.dependencies: there is no task/],
        ];
        for (const [fields, words] of wrong)
            await assertRefused(queue.createTask(await slugid(), definition(fields)), 400,
                'InputError', words);
    });

    it('waits_for_the_tasks_it_depends_on', async () => {
        const queue = await server.queue();
        const [first, second] = [await slugid(), await slugid()];
        const task = definition();
        await queue.createTask(first, task);
        const { status } = await queue.createTask(second, definition({ dependencies: [first] }));
        assert.equal(status.state, 'unscheduled');
        assert.deepEqual(status.runs, []);
        await claim(queue, task);
        await queue.reportCompleted(first, 0);
        assert.equal((await queue.status(second)).status.state, 'pending');
    });
});

describe('a run', () => {
    const server = useTaskcluster();

    async function running(fields) {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition(fields);
        await queue.createTask(id, task);
        const work = await claim(queue, task);
        assertSchema('claim-work-response', work);
        assert.equal(work.tasks.length, 1);
        return { queue, id, task, claimed: work.tasks[0],
            worker: await server.queue(work.tasks[0].credentials) };
    }

    it('is_completed_by_its_worker_and_only_once', async () => {
        const { id, worker, claimed } = await running();
        assert.equal(claimed.runId, 0);
        const { status } = await worker.reportCompleted(id, 0);
        assertSchema('task-status-response', { status });
        assert.equal(status.state, 'completed');
        assert.equal(status.runs[0].reasonResolved, 'completed');
        assert.equal((await worker.reportCompleted(id, 0)).status.state, 'completed');
        await assertRefused(worker.reportFailed(id, 0), 409, 'RequestConflict');
    });

    it('is_failed_for_good', async () => {
        const { id, queue, worker } = await running();
        const { status } = await worker.reportFailed(id, 0);
        assert.equal(status.state, 'failed');
        assert.equal(status.retriesLeft, 5);
        assert.equal((await queue.status(id)).status.runs.length, 1);
    });

    it('is_followed_by_another_after_a_shutdown_of_its_worker', async () => {
        for (const [reason, created] of [['worker-shutdown', 'retry'],
            ['intermittent-task', 'task-retry']]) {
            const { id, task, queue, worker } = await running();
            const { status } = await worker.reportException(id, 0, { reason });
            assertSchema('task-status-response', { status });
            assert.equal(status.state, 'pending');
            assert.equal(status.retriesLeft, 4);
            assert.deepEqual(status.runs.map((r) => [r.state, r.reasonCreated, r.reasonResolved]),
                [['exception', 'scheduled', reason], ['pending', created, undefined]]);
            const { tasks } = await claim(queue, task);
            assertSchema('claim-work-response', { tasks });
            assert.equal(tasks[0].runId, 1);
        }
    });

    it('is_the_last_one_after_other_exceptions', async () => {
        for (const reason of ['malformed-payload', 'internal-error', 'resource-unavailable',
            'superseded']) {
            const { id, worker } = await running();
            const { status } = await worker.reportException(id, 0, { reason });
            assert.equal(status.state, 'exception');
            assert.equal(status.runs.length, 1);
            assert.equal(status.runs[0].reasonResolved, reason);
        }
    });

    it('is_the_last_one_when_no_retries_are_left', async () => {
        const { id, worker } = await running({ retries: 0 });
        const { status } = await worker.reportException(id, 0, { reason: 'worker-shutdown' });
        assert.equal(status.state, 'exception');
        assert.equal(status.retriesLeft, 0);
        assert.equal(status.runs.length, 1);
    });

    it('is_kept_by_reclaiming_it', async () => {
        const { id, worker, claimed } = await running();
        const again = await worker.reclaimTask(id, 0);
        assertSchema('task-reclaim-response', again);
        assert.ok(again.takenUntil >= claimed.takenUntil);
        assert.equal(again.status.state, 'running');
        const fresh = await server.queue(again.credentials);
        await fresh.reportCompleted(id, 0);
        await assertRefused(fresh.reclaimTask(id, 0), 409, 'RequestConflict');
    });

    it('must_be_there', async () => {
        const { id, queue } = await running();
        await assertRefused(queue.reportCompleted(id, 1), 404, 'ResourceNotFound', /Run 1 not found/);
        await assertRefused(queue.reportCompleted(await slugid(), 0), 404, 'ResourceNotFound');
        await assertRefused(queue.status('not-a-slugid'), 400, 'InvalidRequestArguments', /taskId/);
    });
});

describe('credentials', () => {
    const token = 'a'.repeat(44);
    const clients = [
        { clientId: 'root', accessToken: token, scopes: ['*'] },
        { clientId: 'worker', accessToken: token,
            scopes: ['queue:claim-work:prov/*', 'queue:worker-id:group/*'] },
    ];
    const server = useTaskcluster({ clients });
    const open = useTaskcluster();
    const as = (clientId, accessToken = token) => server.queue({ clientId, accessToken });

    it('are_asked_for_where_clients_are_configured', async () => {
        const queue = await server.queue();
        await assertRefused(queue.createTask(await slugid(), definition()), 403,
            'InsufficientScopes', /needs credentials/);
        assert.ok((await queue.ping()).alive);
    });

    it('must_be_right', async () => {
        await assertRefused((await as('root', 'b'.repeat(44))).status(await slugid()), 401,
            'AuthenticationFailed');
        await assertRefused((await as('nobody')).status(await slugid()), 401,
            'AuthenticationFailed', /no client 'nobody'/);
    });

    it('limit_a_worker_to_its_queue_and_a_run_to_itself', async () => {
        const [root, worker] = [await as('root'), await as('worker')];
        const id = await slugid();
        const task = definition({ scopes: ['some:scope'] });
        await root.createTask(id, task);
        await assertRefused(worker.status(id), 403, 'InsufficientScopes', /queue:status/);
        await assertRefused(worker.claimWork('other/wt', { ...WORKER, tasks: 1 }), 403,
            'InsufficientScopes', /queue:claim-work:other\/wt/);
        const { tasks: [{ credentials }] } = await claim(worker, task);
        assert.deepEqual(JSON.parse(credentials.certificate).scopes.slice(3), ['some:scope']);
        const run = await server.queue(credentials);
        const { createTemporaryCredentials } = await client;
        assert.ok(createTemporaryCredentials);
        await assertRefused(run.reportCompleted(await slugid(), 0), 403, 'InsufficientScopes');
        assert.equal((await run.reportCompleted(id, 0)).status.state, 'completed');
    });

    it('include_those_of_roles', async () => {
        const plain = { clientId: 'plain', accessToken: token, scopes: ['assume:project:x'] };
        server.writeClients([...clients, plain,
            { roleId: 'anonymous', scopes: ['queue:get-artifact:public/*'] },
            { roleId: 'project:*', scopes: ['queue:status:*', 'assume:creator:<..>', 'some:scope'] },
            { roleId: 'creator:*', scopes: ['queue:create-task:*', 'queue:scheduler-id:*',
                'queue:claim-task:prov/*', 'queue:worker-id:*', 'get:<..>:*',
                'assume:project:<..>'] }]);
        server.child.kill('SIGHUP');
        const id = await slugid();
        await until(async () => (await as('plain')).status(id).catch((err) => err.statusCode === 404),
            'the roles are known');
        const of = await as('plain');
        await of.createTask(id, definition({ scopes: ['get:x:y', 'assume:project:x'] }));
        await assertRefused(of.createTask(await slugid(), definition({ scopes: ['get:y:y'] })), 403,
            'InsufficientScopes', /get:y:y/);
        const { credentials } = await of.claimTask(id, 0, WORKER);
        const run = await server.queue(credentials);
        assert.equal((await run.status(id)).status.state, 'running', 'a run has them, too');
        const { Queue } = await client;
        const limited = new Queue({ rootUrl: server.url(), retries: 0, credentials: plain,
            authorizedScopes: ['queue:status:nothing', 'some:scope'] });
        await assertRefused(limited.status(id), 403, 'InsufficientScopes');
        const artifact = { storageType: 'reference', url: 'http://localhost/x',
            contentType: 'a/b', expires: new Date(Date.now() + 60e3).toJSON() };
        for (const name of ['public/x', 'private/x'])
            await run.createArtifact(id, 0, name, artifact);
        const get = async (queue, name) => (await fetch(queue.buildUrl(queue.getLatestArtifact, id,
            name), { redirect: 'manual' })).status;
        assert.equal(await get(await server.queue(), 'public/x'), 303);
        assert.equal(await get(await server.queue(), 'private/x'), 403);
        const signed = await limited.buildSignedUrl(limited.getLatestArtifact, id, 'public/x');
        assert.equal((await fetch(signed, { redirect: 'manual' })).status, 303);
    });

    it('are_not_looked_at_where_nobody_needs_any', async () => {
        const task = definition();
        const id = await slugid();
        const free = await open.queue();
        await free.createTask(id, task);
        const signed = await open.queue({ clientId: 'static/worker', accessToken: 'unknown' });
        const { credentials } = await signed.claimTask(id, 0, WORKER);
        const { accessToken, ...rest } = credentials;
        assert.ok(accessToken);
        for (const queue of [signed, await open.queue(credentials),
            await open.queue({ ...rest, accessToken: 'another' })])
            assert.equal((await queue.status(id)).status.state, 'running');
        const artifact = { storageType: 'reference', url: 'http://localhost/x',
            contentType: 'a/b', expires: task.deadline };
        await signed.createArtifact(id, 0, 'public/x', artifact);
        const url = await signed.buildSignedUrl(signed.getLatestArtifact, id, 'public/x');
        assert.equal((await fetch(url, { redirect: 'manual' })).status, 303);
    });

    it('are_read_again_at_sighup', async () => {
        const late = { clientId: 'late', accessToken: token, scopes: ['queue:status:*'] };
        await assertRefused((await as('late')).status(await slugid()), 401, 'AuthenticationFailed');
        server.writeClients([...clients, late]);
        server.child.kill('SIGHUP');
        const asked = async () => (await as('late')).status(await slugid()).catch((err) => err);
        await until(async () => (await asked()).statusCode === 404, 'the client is known');
    });
});

describe('a server that others can reach by its admin listener', () => {
    // An address of the loopback that does not count as one: it stands for any other.
    const server = useTaskcluster({ args: ['--admin-host', '::ffff:127.0.0.1', '--insecure'] });

    it('asks_for_clients', async () => {
        const queue = await server.queue();
        await assertRefused(queue.createTask(await slugid(), definition()), 401,
            'AuthenticationFailed', /no clients are configured/);
    });
});
