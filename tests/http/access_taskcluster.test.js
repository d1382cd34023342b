// SPDX-License-Identifier: Apache-2.0
'use strict';

// Taskcluster's front end under access control: every method of its references by every role of a
// token; and that no detour over tasks gives more than the roles do.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, until } = require('./harness');
const { RIGHTS, bearer, guarded, idOf, statusOf } = require('./access');
const { client, definition, slugid, taskQueueId } = require('./taskcluster');

const BASE = { queue: '/api/queue/v1', object: '/api/object/v1', auth: '/api/auth/v1',
    'purge-cache': '/api/purge-cache/v1', index: '/api/index/v1',
    'worker-manager': '/api/worker-manager/v1' };
const OPEN = ['ping', 'lbheartbeat', 'heartbeat', 'version'];

// Which right a method needs, written here by hand; `open`: none.
const NEEDED = {
    queue: {
        see: ['statuses', 'status', 'getTaskGroup', 'listProvisioners', 'getProvisioner', 'pendingTasks',
            'taskQueueCounts', 'taskQueueCountsBatch', 'listWorkerTypes', 'getWorkerType', 'listTaskQueues', 'getTaskQueue',
            'listWorkers', 'getWorker', 'listArtifacts', 'listLatestArtifacts', 'artifactInfo',
            'latestArtifactInfo'],
        payloads: ['task', 'tasks', 'listTaskGroup', 'listDependentTasks', 'listPendingTasks',
            'listClaimedTasks', 'getArtifact', 'getLatestArtifact', 'artifact', 'latestArtifact'],
        enqueue: ['createTask', 'scheduleTask', 'sealTaskGroup'],
        work: ['claimWork', 'claimTask', 'reclaimTask', 'reportCompleted', 'reportFailed',
            'reportException', 'pollTaskUrls', 'declareWorker', 'createArtifact', 'finishArtifact'],
        operate: ['rerunTask', 'cancelTask', 'changeTaskPriority', 'cancelTaskGroup',
            'changeTaskGroupPriority', 'quarantineWorker'],
    },
    object: {
        see: ['object'], payloads: ['startDownload', 'download'],
        work: ['createUpload', 'finishUpload'],
    },
    auth: { open: ['authenticateHawk'], see: ['expandScopes', 'currentScopes'] },
    'purge-cache': { operate: ['purgeCache'], work: ['purgeRequests'] },
    'worker-manager': { open: ['registerWorker'], work: ['reregisterWorker', 'shouldWorkerTerminate'],
        operate: ['removeWorker'] },
    index: { payloads: ['findTask', 'findTasksAtIndex', 'listTasks', 'findArtifactFromTask'], work: ['insertTask'] },
};
// They are about a run: a worker needs what its claim gave.
const OF_A_RUN = ['reclaimTask', 'reportCompleted', 'reportFailed', 'reportException', 'createArtifact',
    'finishArtifact'];

const VALUES = { taskId: 'fN1SbArXTPSVFUUvaOlinQ', taskGroupId: 'fN1SbArXTPSVFUUvaOlinQ', runId: '0',
    taskQueueId: 'prov/wt', workerPoolId: 'prov/wt', name: 'public/x', indexPath: 'a.b', namespace: 'a.b', provisionerId: 'prov', workerType: 'wt', workerGroup: 'g',
    workerId: 'w' };

function fill(route) {
    return route.replace(/<(\w+)>/g, (_, name) => {
        assert.ok(VALUES[name], name);
        return /^\/(task-queues|workers)/.test(route) && VALUES[name].includes('/')
            ? encodeURIComponent(VALUES[name]) : VALUES[name];
    });
}

async function pair(t, more = {}) {
    const all = await guarded(t, { p: { roles: ['producer'] }, w: { roles: ['worker'] },
        w2: { roles: ['worker'] }, o: { roles: ['operator'] }, ...more });
    const ask = (who, method, target, body) => statusOf(all.server.url(), method,
        BASE.queue + target, body, who ? bearer(all.tokens[who]) : {});
    return { ...all, ask, json: async (...args) => {
        const res = await ask(...args);
        assert.equal(res.status, 200, res.text);
        return JSON.parse(res.text);
    } };
}

const claimBody = { tasks: 1, workerGroup: 'g', workerId: 'w' };

describe('every method of Taskcluster\'s front end', () => {
    it('is_refused_to_nobody_in_particular_and_to_roles_without_its_right', async (t) => {
        const roles = Object.keys(RIGHTS);
        const { server, tokens } = await guarded(t, Object.fromEntries([
            ...roles.filter((r) => r !== 'admin').map((r) => [r, { roles: [r] }]),
            ['some', { roles: ['operator'], queues: ['*/*'] }]]));
        let asked = 0;
        for (const [service, base] of Object.entries(BASE)) {
            const { entries } = await (await fetch(`${server.url()}/references/${service}/v1/api.json`)).json();
            const rightOf = (name) => Object.keys(NEEDED[service])
                .find((right) => right !== 'open' && NEEDED[service][right].includes(name));
            const known = [...OPEN, ...Object.values(NEEDED[service]).flat()].sort();
            assert.deepEqual(entries.map((e) => e.name).sort(), known, service);
            for (const { name, method, route, input } of entries)
                for (const who of [null, 'some', ...roles]) {
                    const what = `${service} ${name} by ${who}`, right = rightOf(name);
                    const res = await statusOf(server.url(), method.toUpperCase(), base + fill(route),
                        input ? {} : undefined, who ? bearer(tokens[who]) : {});
                    asked++;
                    if (right && !who) {
                        assert.equal(res.status, 401, `${what}: ${res.text}`);
                    } else if (right && (who === 'some' || !RIGHTS[who].includes(right))) {
                        assert.equal(res.status, 403, `${what}: ${res.text}`);
                        assert.match(res.text, who === 'some' ? /about all/ : new RegExp(`'${right}'`));
                    } else if (who === 'worker' && OF_A_RUN.includes(name) && !input) {
                        assert.match(res.text, /only runs that it holds/, what);
                    } else {
                        assert.ok(![401, 403, 405, 500].includes(res.status), `${what}: ${res.status} ${res.text}`);
                    }
                }
        }
        assert.ok(asked > 400, `${asked}`);
    });

    it('knows_the_same_wrong_tokens', async (t) => {
        const { server } = await guarded(t);
        const res = await statusOf(server.url(), 'GET', `${BASE.queue}/task-queues`, undefined, bearer('x'));
        assert.equal(res.status, 401);
    });
});

describe('a worker with a token', () => {
    it('reports_only_runs_that_it_holds', async (t) => {
        const { server, ask, json } = await pair(t);
        const queue = taskQueueId(), id = await slugid(), other = await slugid();
        await json('p', 'PUT', `/task/${id}`, definition({ taskQueueId: queue }));
        const { tasks: [{ credentials }] } = await json('w', 'POST', `/claim-work/${queue}`, claimBody);
        for (const [method, verb, body] of [['POST', 'completed'], ['POST', 'failed'], ['POST', 'reclaim'],
            ['POST', 'exception', { reason: 'worker-shutdown' }],
            ['POST', 'artifacts/public/x', { storageType: 'link', expires: new Date(Date.now() + 60000).toJSON(),
                contentType: 'text/plain', artifact: 'public/y' }],
            ['PUT', 'artifacts/public/x', { uploadId: other }]])
            for (const task of [id, other]) {
                const res = await ask('w2', method, `/task/${task}/runs/0/${verb}`, body);
                assert.equal(res.status, 403, `${verb}: ${res.text}`);
                assert.match(res.text, /only runs that it holds/, 'whether it exists or not');
            }
        // By the name of the worker that holds it nobody gets its credentials.
        const again = await ask('w2', 'POST', `/task/${id}/runs/0/claim`, { workerGroup: 'g', workerId: 'w' });
        assert.equal(again.status, 409, again.text);
        assert.ok(!again.text.includes('accessToken'));
        await json('w', 'POST', `/task/${id}/runs/0/claim`, { workerGroup: 'g', workerId: 'w' });
        await json('w', 'POST', `/task/${id}/runs/0/reclaim`);
        // Whoever has the credentials of the claim holds the run.
        const { Queue } = await client;
        await new Queue({ rootUrl: server.url(), retries: 0, credentials }).reportCompleted(id, 0);
        await json('w', 'POST', `/task/${id}/runs/0/completed`);
    });

    it('gets_no_task_by_a_claim_that_waited_when_its_token_was_deleted', async (t) => {
        const { as, tokens, ask, json } = await pair(t);
        const queue = taskQueueId(), id = await slugid();
        const claim = json('w', 'POST', `/claim-work/${queue}`, claimBody);
        await until(async () => /^tenax_claims_waiting 1$/m.test((await as('admin').get('/metrics')).text),
            'the claim waits');
        assert.equal((await as('admin').delete(`/tokens/${idOf(tokens.w)}`)).status, 204);
        await json('p', 'PUT', `/task/${id}`, definition({ taskQueueId: queue }));
        assert.deepEqual(await claim, { tasks: [] });
        assert.equal((await json('p', 'GET', `/task/${id}/status`)).status.state, 'pending');
        assert.equal((await ask('w', 'POST', `/claim-work/${queue}`, claimBody)).status, 401);
    });
});

describe('a task', () => {
    it('hands_on_no_scopes_of_this_server_that_its_creators_roles_do_not_allow', async (t) => {
        const { ask, json } = await pair(t);
        const create = async (who, scope) => ask(who, 'PUT', `/task/${await slugid()}`,
            definition({ scopes: [scope] }));
        for (const scope of ['*', 'q*', 'queue:*', 'queue:cancel-task:s/g/t', 'queue:cancel-*', 'object:upload:*',
            'auth:create-client:root', 'worker-manager:remove-worker:*', 'assume:*', 'assume:scheduler-id:s/g']) {
            const res = await create('p', scope);
            assert.equal(res.status, 403, `${scope}: ${res.text}`);
            assert.match(res.text, /lack the right 'operate'/);
            assert.equal((await create('o', scope)).status, 200, scope);
        }
        for (const scope of ['secrets:get:x', 'assume:project:x', 'queue', 'x*'])
            assert.equal((await create('p', scope)).status, 200, scope);
        assert.deepEqual((await json('p', 'GET', '/task-queues')).taskQueues, []);
    });

    it('cannot_be_made_by_the_Jobs_API_without_the_right_to_operate', async (t) => {
        const { as, ask } = await pair(t, { some: { roles: ['operator'], queues: ['prov/*'] } });
        const id = await slugid(), queue = taskQueueId();
        const job = { queue, type: 'taskcluster-task', alias: id, payload: { taskQueueId: queue,
            provisionerId: 'prov', workerType: queue.slice(5), schedulerId: 's', projectId: 'none',
            taskGroupId: id, scopes: ['*'] } };
        for (const who of ['p', 'some']) {
            assertError(await as(who).post('/jobs', job), 403, 'insufficient_rights', /Taskcluster's API/);
            assertError(await as(who).post('/jobs/bulk', { jobs: [job] }), 403, 'insufficient_rights');
        }
        assert.equal((await as('p').post('/jobs', { ...job, type: 'other' })).status, 201);
        const claimed = await ask('w', 'POST', `/claim-work/${queue}`, claimBody);
        assert.deepEqual(JSON.parse(claimed.text), { tasks: [] }, 'it is no task');
        assert.equal((await as('o').post('/jobs', { ...job, alias: await slugid() })).status, 201);
    });
});

