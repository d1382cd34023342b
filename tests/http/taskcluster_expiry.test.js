// SPDX-License-Identifier: Apache-2.0
'use strict';

// Claims of Taskcluster's API that are not renewed.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { until } = require('./harness');
const { assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker', tasks: 1 };

describe('a claim that expires', () => {
    const server = useTaskcluster({ args: ['--taskcluster-claim-timeout', '300ms'] });

    async function task(fields) {
        const queue = await server.queue();
        const id = await slugid();
        const given = definition(fields);
        await queue.createTask(id, given);
        return { queue, id, given };
    }

    it('is_followed_by_a_retry_while_there_are_any', async () => {
        const { queue, id, given } = await task({ retries: 7 });
        const runs = [];
        for (let run = 0; run < 8; run++) {
            const { tasks } = await queue.claimWork(given.taskQueueId, WORKER);
            assert.equal(tasks[0].runId, run);
            await queue.reclaimTask(id, run); // or its worker may never have got the claim
            runs.push('claim-expired');
            await until(async () => (await queue.status(id)).status.state !== 'running');
        }
        const { status } = await queue.status(id);
        assertSchema('task-status-response', { status });
        assert.equal(status.state, 'exception');
        assert.equal(status.retriesLeft, 0);
        assert.deepEqual(status.runs.map((r) => r.reasonResolved), runs);
        assert.deepEqual(status.runs.map((r) => r.reasonCreated),
            ['scheduled', ...Array(7).fill('retry')]);
    });

    it('uses_a_retry_also_if_it_was_never_reclaimed', async () => {
        const { queue, id, given } = await task({ retries: 1 });
        await queue.claimWork(given.taskQueueId, WORKER);
        await until(async () => (await queue.status(id)).status.state !== 'running');
        const { status } = await queue.status(id);
        assertSchema('task-status-response', { status });
        assert.equal(status.state, 'pending');
        assert.equal(status.retriesLeft, 0);
        assert.deepEqual(status.runs.map((r) => [r.reasonCreated, r.reasonResolved]),
            [['scheduled', 'claim-expired'], ['retry', undefined]]);
        const { tasks: [again] } = await queue.claimWork(given.taskQueueId, WORKER);
        assert.equal(again.runId, 1);
        await queue.reportCompleted(id, 1);
    });

    it('refuses_the_reports_of_its_worker', async () => {
        const { queue, id, given } = await task();
        await queue.claimWork(given.taskQueueId, WORKER);
        await until(async () => (await queue.status(id)).status.runs.length === 2);
        await assertRefused(queue.reclaimTask(id, 0), 409, 'RequestConflict');
        await assertRefused(queue.reportCompleted(id, 0), 409, 'RequestConflict');
        await assertRefused(queue.reportException(id, 0, { reason: 'worker-shutdown' }), 409,
            'RequestConflict');
    });

    it('goes_to_one_worker_of_two', async () => {
        const { queue, id } = await task();
        const claims = await Promise.allSettled(['a', 'b'].map((workerId) =>
            queue.claimTask(id, 0, { workerGroup: 'group', workerId })));
        assert.deepEqual(claims.map((c) => c.status).sort(), ['fulfilled', 'rejected']);
        assert.equal(claims.find((c) => c.status === 'rejected').reason.statusCode, 409);
    });
});

describe('a claim that is renewed', () => {
    const server = useTaskcluster({ args: ['--taskcluster-claim-timeout', '5s'] });

    it('does_not_expire', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const given = definition();
        await queue.createTask(id, given);
        const { tasks: [claim] } = await queue.claimWork(given.taskQueueId, WORKER);
        const end = new Date(claim.takenUntil).getTime();
        while (Date.now() <= end) {
            const { takenUntil } = await queue.reclaimTask(id, 0);
            assert.ok(takenUntil >= claim.takenUntil);
        }
        assert.equal((await queue.reportCompleted(id, 0)).status.runs.length, 1);
    });
});

describe('a task that depends on itself', () => {
    const server = useTaskcluster();

    it('waits_until_it_is_scheduled', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition({ dependencies: [id] });
        assert.equal((await queue.createTask(id, task)).status.state, 'unscheduled');
        assert.equal((await queue.createTask(id, task)).status.state, 'unscheduled');
        assert.equal((await queue.scheduleTask(id)).status.state, 'pending');
        const { tasks } = await queue.claimWork(task.taskQueueId, WORKER);
        assert.equal(tasks[0].status.taskId, id);
    });
});
