// SPDX-License-Identifier: Apache-2.0
'use strict';

// Task groups, dependencies and priorities over Taskcluster's API.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { until } = require('./harness');
const { assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker', tasks: 1 };

async function group(server, count, fields = {}) {
    const queue = await server.queue();
    const task = definition({ taskGroupId: await slugid(), ...fields });
    const ids = [];
    for (let i = 0; i < count; i++) {
        ids.push(await slugid());
        await queue.createTask(ids[i], task);
    }
    return { queue, task, ids, id: task.taskGroupId };
}

async function all(list) {
    const tasks = [];
    let query = { limit: 2 };
    do {
        const page = await list(query);
        tasks.push(...page.tasks);
        query = { limit: 2, continuationToken: page.continuationToken };
    } while (query.continuationToken);
    return tasks;
}

describe('a task group', () => {
    const server = useTaskcluster();

    it('lists_its_tasks_in_pages', async () => {
        const { queue, ids, id, task } = await group(server, 5);
        await group(server, 2);
        const read = await queue.getTaskGroup(id);
        assertSchema('task-group-response', read);
        assert.equal(read.schedulerId, task.schedulerId);
        assert.equal(read.sealed, undefined);
        assertSchema('list-task-group-response', await queue.listTaskGroup(id));
        const tasks = await all((query) => queue.listTaskGroup(id, query));
        assert.deepEqual(tasks.map((t) => t.status.taskId), ids);
        assert.deepEqual(tasks[0].task.metadata, task.metadata);
        for (const call of ['getTaskGroup', 'listTaskGroup', 'sealTaskGroup', 'cancelTaskGroup'])
            await assertRefused(queue[call](await slugid()), 404, 'ResourceNotFound');
    });

    it('has_one_scheduler', async () => {
        const { queue, task } = await group(server, 1);
        await assertRefused(queue.createTask(await slugid(), { ...task, schedulerId: 'other' }),
            409, 'RequestConflict', /schedulerId/);
    });

    it('takes_no_more_tasks_once_it_is_sealed', async () => {
        const { queue, ids, id, task } = await group(server, 1);
        const { sealed } = await queue.sealTaskGroup(id);
        assert.ok(sealed);
        assertSchema('task-group-response', await queue.sealTaskGroup(id));
        assert.equal((await queue.sealTaskGroup(id)).sealed, sealed);
        await assertRefused(queue.createTask(await slugid(), task), 409, 'RequestConflict', /sealed/);
        await queue.createTask(ids[0], task); // which it has
    });

    it('is_canceled_only_once_it_is_sealed', async () => {
        const { queue, ids, id, task } = await group(server, 3);
        await queue.claimWork(task.taskQueueId, WORKER);
        await queue.reportCompleted(ids[0], 0);
        await assertRefused(queue.cancelTaskGroup(id), 409, 'RequestConflict', /unsealed/);
        await queue.sealTaskGroup(id);
        const answer = await queue.cancelTaskGroup(id);
        assertSchema('cancel-task-group-response', answer);
        assert.deepEqual(answer, { taskGroupId: id, taskGroupSize: 3, cancelledCount: 2,
            taskIds: ids.slice(1) });
        assert.equal((await queue.status(ids[0])).status.state, 'completed');
        const { status } = await queue.status(ids[1]);
        assert.deepEqual(status.runs.map((r) => [r.state, r.reasonCreated, r.reasonResolved]),
            [['exception', 'scheduled', 'canceled']]);
    });

    it('is_given_another_priority', async () => {
        const { queue, ids, id, task } = await group(server, 3);
        await queue.claimWork(task.taskQueueId, WORKER);
        await queue.reportCompleted(ids[0], 0);
        const path = `/api/queue/v1/task-group/${id}/priority`;
        const { status, json } = await server.fetch(path, { method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ newPriority: 'high' }) });
        assert.equal(status, 200);
        assertSchema('task-group-priority-change-response', json);
        assert.deepEqual(json, { taskGroupId: id, schedulerId: 'tests', newPriority: 'high',
            tasksAffected: 2, taskIds: ids.slice(1) });
        assert.equal((await queue.task(ids[1])).priority, 'high');
        assert.equal((await queue.status(ids[0])).status.priority, 'lowest');
    });
});

describe('a task', () => {
    const server = useTaskcluster();

    it('is_given_another_priority_while_it_is_unresolved', async () => {
        const { queue, ids } = await group(server, 1);
        const change = (newPriority) => server.fetch(`/api/queue/v1/task/${ids[0]}/priority`, {
            method: 'POST', headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ newPriority }) });
        assert.equal((await change('highest')).json.status.priority, 'highest');
        assert.equal((await queue.task(ids[0])).priority, 'highest');
        assert.equal((await change('urgent')).status, 400);
        await queue.cancelTask(ids[0]);
        assert.equal((await change('low')).json.code, 'RequestConflict');
    });

    it('lists_the_tasks_that_depend_on_it', async () => {
        const { queue, ids, task } = await group(server, 1);
        const dependents = [];
        for (let i = 0; i < 3; i++)
            await queue.createTask(dependents[i] = await slugid(),
                { ...task, dependencies: [ids[0]] });
        assertSchema('list-dependent-tasks-response', await queue.listDependentTasks(ids[0]));
        const listed = await all((query) => queue.listDependentTasks(ids[0], query));
        assert.deepEqual(listed.map((t) => t.status.taskId), dependents);
        assert.deepEqual((await queue.listDependentTasks(dependents[0])).tasks, []);
        await assertRefused(queue.listDependentTasks(await slugid()), 404, 'ResourceNotFound');
    });

    it('has_a_run_that_never_began_when_it_is_canceled_before', async () => {
        const { queue, ids: [first], task } = await group(server, 1);
        const second = await slugid();
        await queue.createTask(second, { ...task, dependencies: [first] });
        const { status } = await queue.cancelTask(second);
        assertSchema('task-status-response', { status });
        assert.deepEqual(status.runs.map((r) => [r.runId, r.state, r.reasonCreated,
            r.reasonResolved]), [[0, 'exception', 'exception', 'canceled']]);
        assert.deepEqual((await queue.cancelTask(second)).status, status);
        const again = (await queue.rerunTask(second)).status;
        assert.deepEqual(again.runs.map((r) => [r.runId, r.state, r.reasonCreated]),
            [[0, 'exception', 'exception'], [1, 'pending', 'rerun']]);
        const { tasks } = await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 2 });
        assert.deepEqual(tasks.map((t) => [t.status.taskId, t.runId]), [[first, 0], [second, 1]]);
        await queue.reportCompleted(second, 1);
        const rerun = (await queue.rerunTask(second)).status;
        assert.deepEqual(rerun.runs.map((r) => r.state), ['exception', 'completed', 'pending']);
    });

    it('is_resolved_by_its_deadline', async () => {
        const queue = await server.queue();
        const task = definition({ deadline: new Date(Date.now() + 5000).toJSON() });
        const [pending, running] = [await slugid(), await slugid()];
        for (const id of [running, pending])
            await queue.createTask(id, task);
        await queue.claimWork(task.taskQueueId, WORKER);
        for (const [id, started] of [[pending, false], [running, true]]) {
            const { status } = await until(async () => {
                const answer = await queue.status(id);
                return answer.status.state === 'exception' && answer;
            });
            assertSchema('task-status-response', { status });
            assert.equal(status.runs.length, 1);
            assert.equal(status.runs[0].reasonResolved, 'deadline-exceeded');
            assert.equal('started' in status.runs[0], started);
        }
        await assertRefused(queue.rerunTask(pending), 409, 'RequestConflict', /past its deadline/);
        await assertRefused(queue.reclaimTask(running, 0), 409, 'RequestConflict');
    });

    it('is_scheduled_by_hand_or_by_the_end_of_what_it_waits_for', async () => {
        const { queue, ids: [first], task } = await group(server, 1);
        const ids = {};
        for (const requires of ['all-completed', 'all-resolved'])
            await queue.createTask(ids[requires] = await slugid(),
                { ...task, dependencies: [first], requires });
        await queue.claimWork(task.taskQueueId, WORKER);
        await queue.reportFailed(first, 0);
        assert.equal((await queue.status(ids['all-resolved'])).status.state, 'pending');
        assert.equal((await queue.status(ids['all-completed'])).status.state, 'unscheduled');
        assert.equal((await queue.scheduleTask(ids['all-completed'])).status.state, 'pending');
        assert.equal((await queue.scheduleTask(ids['all-completed'])).status.runs.length, 1);
    });
});
