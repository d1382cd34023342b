// SPDX-License-Identifier: Apache-2.0
'use strict';

// Workers and task queues as Taskcluster's API shows them, and the claims of single runs.

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { notOn, until } = require('./harness');
const { HOUR, assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };

async function tasks(queue, task, count) {
    const ids = [];
    for (let i = 0; i < count; i++) {
        ids.push(await slugid());
        await queue.createTask(ids[i], task);
    }
    return ids;
}

describe('claimTask', () => {
    const server = useTaskcluster();

    it('gives_the_same_claim_again_to_the_same_worker', async () => {
        const queue = await server.queue();
        const [id] = await tasks(queue, definition(), 1);
        const claim = await queue.claimTask(id, 0, WORKER);
        assertSchema('task-claim-response', claim);
        const again = await queue.claimTask(id, 0, WORKER);
        assert.equal(again.takenUntil, claim.takenUntil);
        assert.deepEqual(again.status, claim.status);
        await assertRefused(queue.claimTask(id, 0, { ...WORKER, workerId: 'other' }), 409,
            'RequestConflict', /held by another worker/);
    });

    it('needs_a_run_that_is_pending', async () => {
        const queue = await server.queue();
        const [id] = await tasks(queue, definition(), 1);
        await assertRefused(queue.claimTask(id, 1, WORKER), 404, 'ResourceNotFound');
        await assertRefused(queue.claimTask(await slugid(), 0, WORKER), 404, 'ResourceNotFound');
        await queue.claimTask(id, 0, WORKER);
        await queue.reportCompleted(id, 0);
        await assertRefused(queue.claimTask(id, 0, WORKER), 409, 'RequestConflict');
    });
});

// Claims by a connection whose answer is never read, and ends that by a reset, or reads it and ends in order.
async function claimAlone(server, queue, task, id, { reads }) {
    const body = JSON.stringify({ ...WORKER, tasks: 1 });
    const socket = net.connect(server.port, '127.0.0.1');
    const read = new Promise((resolve) => socket.once('data', resolve));
    socket.on('error', () => {});
    await new Promise((resolve) => socket.once('connect', resolve));
    if (!reads)
        socket.pause();
    socket.write(`POST /api/queue/v1/claim-work/${encodeURIComponent(task.taskQueueId)} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n`
        + `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await until(async () => (await queue.status(id)).status.state === 'running', 'it is claimed');
    if (reads)
        await read.then(() => socket.end());
    else
        socket.resetAndDestroy();
    await new Promise((resolve) => socket.once('close', resolve));
}

// What waits in order there; a standby or threads of their own in between hide how a connection ended.
describe('a claim whose answer was lost', notOn('standby', 'it reads the answer'), () => {
    const server = useTaskcluster();
    const claim = async (queue, task, fields) =>
        (await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1, ...fields })).tasks.map((t) => t.status.taskId);

    async function lost(how = {}) {
        const queue = await server.queue();
        const task = definition();
        const [id, other] = await tasks(queue, task, 2);
        await claimAlone(server, queue, task, id, how);
        return { queue, task, id, other };
    }

    it('gives_the_same_worker_the_same_run', async () => {
        const { queue, task, id, other } = await lost();
        assert.deepEqual(await claim(queue, task, { workerId: 'another' }), [other]);
        const [again] = (await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 2 })).tasks;
        assert.deepEqual([again.status.taskId, again.runId, again.status.runs.length], [id, 0, 1]);
        const its = await server.queue(again.credentials);
        assert.equal((await its.reclaimTask(id, 0)).runId, 0);
        assert.equal((await its.reportCompleted(id, 0)).status.state, 'completed');
    });

    it('gives_it_once_more_if_that_is_lost_too_and_not_after_it_was_read', async () => {
        const { queue, task, id, other } = await lost();
        await claimAlone(server, queue, task, id, {});
        assert.deepEqual(await claim(queue, task), [id]);
        assert.deepEqual(await claim(queue, task), [other]);
    });

    it('gives_nothing_again_that_was_read', async () => {
        const { queue, task, other } = await lost({ reads: true });
        assert.deepEqual(await claim(queue, task), [other]);
    });

    it('gives_nothing_again_that_somebody_uses', async () => {
        const { queue, task, id, other } = await lost();
        await queue.reclaimTask(id, 0);
        assert.deepEqual(await claim(queue, task), [other]);
        const second = await lost();
        await second.queue.createArtifact(second.id, 0, 'public/log', { storageType: 'reference', url: 'https://example.org/',
            contentType: 'text/plain', expires: new Date(Date.now() + HOUR).toJSON() });
        assert.deepEqual(await claim(second.queue, second.task), [second.other]);
        const third = await lost();
        await third.queue.cancelTask(third.id);
        assert.deepEqual(await claim(third.queue, third.task), [third.other]);
    });
});

describe('what waits in a task queue', () => {
    const server = useTaskcluster();

    it('is_counted_and_listed_in_pages', async () => {
        const queue = await server.queue();
        const task = definition();
        const id = task.taskQueueId;
        const ids = await tasks(queue, task, 5);
        const { tasks: claimed } = await queue.claimWork(id, { ...WORKER, tasks: 2 });
        assert.equal((await queue.pendingTasks(id)).pendingTasks, 3);
        const counts = await queue.taskQueueCounts(id);
        assertSchema('task-queue-counts-response', counts);
        assert.deepEqual([counts.pendingTasks, counts.claimedTasks], [3, 2]);

        const pending = [];
        let continuationToken;
        do {
            const page = await queue.listPendingTasks(id,
                { limit: 2, ...(continuationToken && { continuationToken }) });
            assertSchema('list-pending-tasks-response', page);
            pending.push(...page.tasks.map((t) => t.taskId));
            ({ continuationToken } = page);
        } while (continuationToken);
        assert.deepEqual(pending, ids.slice(2));
        const listed = await queue.listClaimedTasks(id);
        assertSchema('list-claimed-tasks-response', listed);
        assert.deepEqual(listed.tasks.map((t) => t.taskId), claimed.map((t) => t.status.taskId));
        assert.deepEqual([listed.tasks[0].workerGroup, listed.tasks[0].workerId],
            ['group', 'worker']);
        await assertRefused(queue.listPendingTasks(id, { continuationToken: 'x' }), 400,
            'InvalidRequestArguments');
    });
});

describe('workers', () => {
    const server = useTaskcluster();

    it('are_known_with_their_queue_once_they_have_claimed', async () => {
        const queue = await server.queue();
        const task = definition();
        const [provisionerId, workerType] = task.taskQueueId.split('/');
        await assertRefused(queue.getTaskQueue(task.taskQueueId), 404, 'ResourceNotFound');
        const [id] = await tasks(queue, task, 1);
        await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1 });
        const worker = await until(async () => {
            const w = await queue.getWorker(provisionerId, workerType, 'group', 'worker');
            return w.recentTasks.length && w;
        });
        assertSchema('worker-response', worker);
        assert.deepEqual(worker.recentTasks, [{ taskId: id, runId: 0 }]);
        assertSchema('list-workers-response', await queue.listWorkers(provisionerId, workerType));
        assertSchema('taskqueue-response', await queue.getTaskQueue(task.taskQueueId));
        assertSchema('workertype-response', await queue.getWorkerType(provisionerId, workerType));
        assertSchema('provisioner-response', await queue.getProvisioner(provisionerId));
        const lists = [['list-taskqueues-response', await queue.listTaskQueues()],
            ['list-workertypes-response', await queue.listWorkerTypes(provisionerId)],
            ['list-provisioners-response', await queue.listProvisioners()]];
        for (const [name, list] of lists) {
            assertSchema(name, list);
            assert.ok(Object.values(list)[0].length > 0);
        }
    });

    it('are_given_nothing_in_quarantine', { timeout: 60000 }, async () => {
        const queue = await server.queue();
        const task = definition();
        const parts = [...task.taskQueueId.split('/'), 'group', 'worker'];
        const until = (ms) => new Date(Date.now() + ms).toJSON();
        await assertRefused(queue.quarantineWorker(...parts, { quarantineUntil: until(HOUR) }), 404,
            'ResourceNotFound');
        const declared = await queue.declareWorker(...parts, { expires: until(2 * HOUR) });
        assertSchema('worker-response', declared);
        const worker = await queue.quarantineWorker(...parts,
            { quarantineUntil: until(HOUR), quarantineInfo: 'a "bad" disk' });
        assertSchema('worker-response', worker);
        assert.equal(worker.quarantineDetails[0].quarantineInfo, 'a "bad" disk');
        const [id] = await tasks(queue, task, 1);
        assert.deepEqual(await queue.claimTask(id, 0, WORKER), {});
        const pages = await Promise.all([true, false].map((quarantined) =>
            queue.listWorkers(parts[0], parts[1], { quarantined })));
        assert.deepEqual(pages.map((p) => p.workers.length), [1, 0]);
        await queue.quarantineWorker(...parts, { quarantineUntil: until(-HOUR) });
        assert.equal((await queue.claimTask(id, 0, WORKER)).runId, 0);
    });

    it('are_given_nothing_once_quarantined_while_they_wait', async () => {
        const queue = await server.queue();
        const task = definition();
        const parts = [...task.taskQueueId.split('/'), 'group'];
        const claims = ['sick', 'well'].map((workerId) => queue.claimWork(task.taskQueueId,
            { workerGroup: 'group', workerId, tasks: 1 }));
        for (const id of ['sick', 'well'])
            await until(() => queue.getWorker(...parts, id).catch(() => null), 'it waits');
        await queue.quarantineWorker(...parts, 'sick',
            { quarantineUntil: new Date(Date.now() + HOUR).toJSON() });
        assert.deepEqual(await claims[0], { tasks: [] });
        const [id] = await tasks(queue, task, 1);
        assert.equal((await claims[1]).tasks[0].status.taskId, id);
    });

    it('do_not_hold_up_a_stop_in_quarantine', notOn('standby', 'it is the owner that stops'), async () => {
        const queue = await server.queue();
        const task = definition();
        const parts = [...task.taskQueueId.split('/'), 'group', 'worker'];
        const expires = new Date(Date.now() + HOUR).toJSON();
        await queue.declareWorker(...parts, { expires });
        await queue.quarantineWorker(...parts, { quarantineUntil: expires });
        const claim = queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1 });
        await until(async () => {
            const { lastDateActive, firstClaim } = await queue.getWorker(...parts);
            return lastDateActive > firstClaim;
        });
        await server.stop();
        assert.deepEqual(await claim, { tasks: [] });
        assert.doesNotMatch(server.stderr, /did not end within/);
        await server.start();
    });

    it('survive_a_restart', async () => {
        const queue = await server.queue();
        const task = definition();
        const parts = [...task.taskQueueId.split('/'), 'group', 'worker'];
        await queue.declareWorker(...parts, { expires: new Date(Date.now() + HOUR).toJSON() });
        const before = await queue.getWorker(...parts);
        await server.stop();
        await server.start();
        assert.deepEqual(await (await server.queue()).getWorker(...parts), before);
    });
});
