// SPDX-License-Identifier: Apache-2.0
'use strict';

// Taskcluster's messages in GET /events: each held against the schema that the server serves, its
// routing key against the bindings that the real client makes.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, until } = require('./harness');
const { unpack } = require('./msgpack');
const { HOUR, assertSchema, client, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'wgroup', workerId: 'w-1', tasks: 1 };
const TOLD = '&messages=taskcluster';
const PREFIX = 'exchange/taskcluster-queue/v1/';
const soon = (ms) => new Date(Date.now() + ms).toJSON();

// Whether a routing key is one of those that a topic exchange gives to that binding.
function isBound(pattern, key) {
    const [first, ...rest] = pattern;
    if (first === undefined)
        return key.length === 0;
    if (first === '#')
        return key.some((_, i) => isBound(rest, key.slice(i))) || isBound(rest, []);
    return key.length > 0 && (first === '*' || first === key[0]) && isBound(rest, key.slice(1));
}

// The client's bindings, made from what the server says it publishes: the package knows nothing of
// priorities.
async function bindings(server) {
    const { createClient } = await client;
    const { json } = await server.fetch('/references/queue/v1/exchanges.json');
    const QueueEvents = createClient(json);
    return { events: new QueueEvents({ rootUrl: 'https://tc.example.com' }), entries: json.entries };
}

// What a client would bind with to get just this message.
function wordsOf({ payload: p }) {
    const s = p.status ?? p;
    const { taskId, provisionerId, workerType, schedulerId, taskGroupId } = s;
    const { runId, workerGroup, workerId } = p;
    return p.status ? { taskId, runId, workerGroup, workerId, provisionerId, workerType, schedulerId,
        taskGroupId } : { schedulerId, taskGroupId };
}

function assertMessage(m, { events, entries }) {
    assert.deepEqual(Object.keys(m), ['exchange', 'routingKey', 'cc', 'payload']);
    assert.ok(m.exchange.startsWith(PREFIX), m.exchange);
    const entry = entries.find((e) => e.exchange === m.exchange.slice(PREFIX.length));
    assert.ok(entry, m.exchange);
    assertSchema(entry.schema.replace(/^v1\//, '').replace('.json#', ''), m.payload);
    const key = m.routingKey.split('.');
    assert.equal(key.length, entry.routingKey.length);
    for (const words of [{}, wordsOf(m)]) {
        const bound = events[entry.name](words);
        assert.equal(bound.exchange, m.exchange);
        assert.ok(isBound(bound.routingKeyPattern.split('.'), key),
            `${m.routingKey} is bound by ${bound.routingKeyPattern}`);
    }
    const other = events[entry.name]({ ...wordsOf(m), taskGroupId: 'x'.repeat(22) });
    assert.ok(!isBound(other.routingKeyPattern.split('.'), key));
    // Gaps are where there is nothing to say, and only where the reference has them.
    entry.routingKey.forEach((word, i) => {
        if (word.required)
            assert.notEqual(key[i], '_', word.name);
        if (word.constant)
            assert.equal(key[i], word.constant);
    });
}

// All messages so far of what the filter lets through, in order; each is checked.
async function messages(server, pick = () => true) {
    const list = (await server.history(TOLD)).flatMap((e) => e.messages ?? []).filter(pick);
    const bound = await bindings(server);
    for (const m of list)
        assertMessage(m, bound);
    return list;
}

const of = (id) => ({ payload: p }) => p.status?.taskId === id;
const ofGroup = (id) => ({ payload: p }) => p.taskGroupId === id;
const names = (list) => list.map((m) => m.exchange.slice(PREFIX.length));

// A client of what the server says it has: the package knows no methods of priorities.
async function queueOf(server) {
    const { createClient } = await client;
    const { json } = await server.fetch('/references/queue/v1/api.json');
    const Queue = createClient(json);
    return new Queue({ rootUrl: `http://127.0.0.1:${server.port}`, retries: 0 });
}

async function task(server, fields = {}) {
    const queue = await queueOf(server);
    const id = await slugid();
    const given = definition(fields);
    const { status } = await queue.createTask(id, given);
    return { queue, id, given, status };
}

async function running(server, fields) {
    const t = await task(server, fields);
    const { tasks } = await t.queue.claimWork(t.given.taskQueueId, WORKER);
    return { ...t, claim: tasks[0] };
}

describe('messages about a task', () => {
    const server = useTaskcluster();

    it('follow_it_from_its_definition_to_its_end', async () => {
        const tags = { kind: 'test', text: 'a "b"\nc' };
        const t = await running(server, { tags, routes: ['index.a.b', 'notify "x"'] });
        const { status: done } = await t.queue.reportCompleted(t.id, 0);
        const [defined, pending, claimed, completed, ...rest] = await messages(server, of(t.id));
        assert.deepEqual(names([defined, pending, claimed, completed, ...rest]),
            ['task-defined', 'task-pending', 'task-running', 'task-completed']);
        const [prov, type] = t.given.taskQueueId.split('/');
        const end = `${prov}.${type}.tests.${t.id}._`;
        assert.equal(defined.routingKey, `primary.${t.id}._._._.${end}`);
        assert.equal(pending.routingKey, `primary.${t.id}.0._._.${end}`);
        assert.equal(claimed.routingKey, `primary.${t.id}.0.wgroup.w-1.${end}`);
        assert.equal(completed.routingKey, `primary.${t.id}.0.wgroup.w-1.${end}`);
        for (const m of [defined, pending, claimed, completed]) {
            assert.deepEqual(m.cc, ['route.index.a.b', 'route.notify "x"']);
            assert.deepEqual(m.payload.task, { tags });
            assert.equal(m.payload.version, 1);
        }
        assert.deepEqual(defined.payload.status, { ...t.status, state: 'unscheduled', runs: [] });
        assert.deepEqual(pending.payload.status, t.status);
        assert.equal(pending.payload.runId, 0);
        assert.deepEqual(claimed.payload.status, t.claim.status);
        assert.equal(claimed.payload.takenUntil, t.claim.takenUntil);
        assert.deepEqual(completed.payload.status, done);
    });

    it('say_of_a_failure_that_it_is_one', async () => {
        const t = await running(server);
        const { status } = await t.queue.reportFailed(t.id, 0);
        const last = (await messages(server, of(t.id))).at(-1);
        assert.deepEqual(names([last]), ['task-failed']);
        assert.deepEqual(last.payload.status, status);
        assert.equal(last.payload.workerId, 'w-1');
    });

    for (const reason of ['malformed-payload', 'resource-unavailable', 'internal-error'])
        it(`say_of_${reason.replace('-', '_')}_that_it_is_final`, async () => {
            const t = await running(server);
            const { status } = await t.queue.reportException(t.id, 0, { reason });
            const list = (await messages(server, of(t.id))).slice(3);
            assert.deepEqual(names(list), ['task-exception']);
            assert.deepEqual(list[0].payload.status, status);
            assert.equal(list[0].payload.status.runs[0].reasonResolved, reason);
        });

    for (const [reason, created] of [['worker-shutdown', 'retry'],
        ['intermittent-task', 'task-retry']])
        it(`say_of_${reason.replace('-', '_')}_that_it_is_tried_again`, async () => {
            const t = await running(server, { retries: 1 });
            const { status } = await t.queue.reportException(t.id, 0, { reason });
            await t.queue.claimWork(t.given.taskQueueId, WORKER);
            const { status: last } = await t.queue.reportException(t.id, 1, { reason });
            const list = (await messages(server, of(t.id))).slice(3);
            assert.deepEqual(names(list),
                ['task-exception', 'task-pending', 'task-running', 'task-exception']);
            assert.deepEqual(list[0].payload.status, status);
            assert.deepEqual(list[1].payload.status, status);
            assert.equal(status.runs[1].reasonCreated, created);
            assert.deepEqual(list.map((m) => m.payload.runId), [0, 1, 1, 1]);
            assert.deepEqual(list[3].payload.status, last);
            assert.equal(last.state, 'exception');
        });

    it('say_who_had_the_run_that_was_canceled_if_anybody', async () => {
        const blocker = await task(server);
        const unscheduled = await task(server, { dependencies: [blocker.id] });
        const pending = await task(server);
        const held = await running(server);
        for (const t of [unscheduled, pending, held]) {
            const { status } = await t.queue.cancelTask(t.id);
            const last = (await messages(server, of(t.id))).filter(
                (m) => m.exchange.endsWith('task-exception'));
            assert.equal(last.length, 1);
            assert.deepEqual(last[0].payload.status, status);
            assert.equal(last[0].payload.runId, 0);
            assert.equal(last[0].payload.workerId, t === held ? 'w-1' : undefined);
        }
    });

    it('come_when_its_deadline_has_passed', async () => {
        const fields = { deadline: soon(1500), expires: soon(HOUR) };
        const blocker = await task(server);
        const all = [await task(server, { ...fields, dependencies: [blocker.id] }),
            await task(server, fields), await running(server, fields)];
        for (const t of all) {
            await until(async () => (await t.queue.status(t.id)).status.state === 'exception');
            const last = (await messages(server, of(t.id))).at(-1);
            assert.deepEqual(names([last]), ['task-exception']);
            const { status } = await t.queue.status(t.id);
            assert.deepEqual(last.payload.status, status);
            assert.equal(status.runs[0].reasonResolved, 'deadline-exceeded');
            assert.equal(last.payload.runId, 0);
            assert.equal(last.payload.workerId, undefined);
        }
    });

    it('tell_when_it_need_not_wait_any_more', async () => {
        const first = await running(server);
        const waits = await task(server, { dependencies: [first.id] });
        const freed = await task(server, { dependencies: [first.id] });
        const ran = await task(server, { dependencies: [first.id] });
        for (const t of [waits, freed, ran])
            assert.deepEqual(names(await messages(server, of(t.id))), ['task-defined']);
        const { status } = await freed.queue.scheduleTask(freed.id);
        const { status: rerun } = await ran.queue.rerunTask(ran.id);
        await first.queue.reportCompleted(first.id, 0);
        for (const t of [waits, freed, ran]) {
            const list = await messages(server, of(t.id));
            assert.deepEqual(names(list), ['task-defined', 'task-pending']);
            const expected = t === freed ? status : t === ran ? rerun
                : (await t.queue.status(t.id)).status;
            assert.deepEqual(list[1].payload.status, expected);
        }
    });

    it('tell_of_a_rerun', async () => {
        const first = await task(server);
        const t = await running(server, { dependencies: [] });
        await t.queue.reportFailed(t.id, 0);
        const { status } = await t.queue.rerunTask(t.id);
        const list = await messages(server, of(t.id));
        assert.deepEqual(names(list).slice(3), ['task-failed', 'task-pending']);
        assert.deepEqual(list[4].payload.status, status);
        assert.equal(list[4].payload.runId, 1);
        assert.equal(list[4].payload.status.runs[1].reasonCreated, 'rerun');
        // Canceled while it waited, and run again although what it waits for has not ended.
        const waits = await task(server, { dependencies: [first.id] });
        await waits.queue.cancelTask(waits.id);
        await waits.queue.rerunTask(waits.id);
        assert.deepEqual(names(await messages(server, of(waits.id))),
            ['task-defined', 'task-exception', 'task-pending']);
    });

    it('tell_of_another_priority', async () => {
        const t = await task(server, { priority: 'low' });
        const { status } = await t.queue.changeTaskPriority(t.id, { newPriority: 'high' });
        await t.queue.changeTaskPriority(t.id, { newPriority: 'high' });
        await t.queue.claimWork(t.given.taskQueueId, WORKER);
        await t.queue.changeTaskPriority(t.id, { newPriority: 'lowest' });
        const list = await messages(server, of(t.id));
        assert.deepEqual(names(list), ['task-defined', 'task-pending', 'task-priority-changed',
            'task-running', 'task-priority-changed']);
        const { payload } = list[2];
        assert.deepEqual([payload.oldPriority, payload.newPriority], ['low', 'high']);
        assert.deepEqual(payload.status, status);
        assert.equal(payload.task, undefined);
        assert.deepEqual(list.map((m) => m.payload.status.priority),
            ['low', 'low', 'high', 'high', 'lowest']);
        assert.equal(list[4].payload.status.state, 'running');
        assert.match(list[2].routingKey, new RegExp(`^primary\\.${t.id}\\._\\._\\._\\.prov\\.`));
    });

    it('name_workers_of_the_jobs_api_as_they_can', async () => {
        const t = await task(server);
        // Only by its id: what takes jobs of a queue there takes no tasks.
        const claim = await server.post(`/jobs/alias:${t.id}/claim`,
            { worker: `héllo:${'x'.repeat(50)}`, lease_ms: 60000 });
        assert.equal(claim.status, 200, claim.text);
        const [held] = (await messages(server, of(t.id))).slice(2);
        assert.equal(held.payload.workerGroup, '-');
        assert.match(held.payload.workerId, /^h--llo-x{31}$/);
    });
});

describe('messages about claims', () => {
    const server = useTaskcluster({ args: ['--taskcluster-claim-timeout', '300ms'] });
    const other = useTaskcluster();

    it('tell_of_those_that_expire', async () => {
        const t = await running(server, { retries: 1 });
        await until(async () => (await t.queue.status(t.id)).status.runs.length === 2);
        await t.queue.claimWork(t.given.taskQueueId, WORKER);
        await until(async () => (await t.queue.status(t.id)).status.state === 'exception');
        const list = (await messages(server, of(t.id))).slice(2);
        assert.deepEqual(names(list), ['task-running', 'task-exception', 'task-pending',
            'task-running', 'task-exception']);
        assert.deepEqual(list.map((m) => m.payload.status.retriesLeft), [1, 0, 0, 0, 0]);
        assert.equal(list[1].payload.status.runs[0].reasonResolved, 'claim-expired');
        assert.equal(list[1].payload.workerGroup, 'wgroup');
    });

    it('use_no_retry_if_a_start_of_the_server_cut_them_off', async () => {
        for (const reclaimed of [false, true]) {
            const t = await running(server, { retries: 1 });
            if (reclaimed)
                await t.queue.reclaimTask(t.id, 0);
            await server.signal('SIGKILL');
            await server.start();
            const queue = await server.queue();
            await until(async () => (await queue.status(t.id)).status.runs.length === 2);
            const { status } = await queue.status(t.id);
            assert.equal(status.runs[0].reasonResolved, 'claim-expired');
            assert.equal(status.retriesLeft, reclaimed ? 0 : 1);
        }
    });

    it('say_until_when_they_were_taken_at_first', async () => {
        const t = await running(other);
        const { takenUntil } = await t.queue.reclaimTask(t.id, 0);
        await t.queue.reportCompleted(t.id, 0);
        const list = (await messages(other, of(t.id))).slice(2);
        assert.equal(list[0].payload.takenUntil, t.claim.takenUntil);
        assert.equal(list[0].payload.status.runs[0].takenUntil, t.claim.takenUntil);
        assert.equal(list[1].payload.status.runs[0].takenUntil, takenUntil);
    });
});

describe('messages about a task group', () => {
    const server = useTaskcluster();

    it('tell_when_it_is_resolved_sealed_and_given_another_priority', async () => {
        const taskGroupId = await slugid();
        const a = await running(server, { taskGroupId });
        const b = await task(server, { taskGroupId });
        await a.queue.reportCompleted(a.id, 0);
        const changed = await a.queue.changeTaskGroupPriority(taskGroupId, { newPriority: 'high' });
        await a.queue.cancelTask(b.id);
        const group = await a.queue.sealTaskGroup(taskGroupId);
        await a.queue.sealTaskGroup(taskGroupId);
        const list = await messages(server, ofGroup(taskGroupId));
        assert.deepEqual(names(list), ['task-group-priority-changed', 'task-group-resolved',
            'task-group-sealed']);
        for (const m of list) {
            assert.equal(m.routingKey, `primary.${taskGroupId}.tests._`);
            assert.deepEqual(m.cc, []);
        }
        delete changed.taskIds;
        assert.deepEqual(list[0].payload, { version: 1, ...changed });
        assert.equal(list[0].payload.tasksAffected, 1);
        const { sealed, ...open } = group;
        assert.deepEqual(list[1].payload, { version: 1, ...open });
        assert.deepEqual(list[2].payload, { version: 1, ...open, sealed });
    });

    it('are_not_about_groups_of_the_jobs_api', async () => {
        const queue = queueName();
        const name = await slugid();
        for (const group of ['tests', name]) {
            await server.enqueue({ queue, group });
            await server.post(`/groups/${group}/seal`);
            await server.patch(`/jobs?group=${group}`, { priority: 7 });
            await server.delete(`/jobs?queue=${queue}`);
        }
        const all = (await server.history(TOLD)).filter((e) => e.queue === queue ||
            ['tests', name].includes(e.group));
        assert.ok(all.length >= 8);
        assert.ok(all.every((e) => e.messages === undefined));
    });
});

describe('messages about artifacts', () => {
    const server = useTaskcluster();

    it('tell_of_all_that_are_there_but_those_of_s3', async () => {
        const t = await running(server, { expires: soon(2 * HOUR), routes: ['r'] });
        const expires = soon(HOUR);
        const contentType = 'text/plain';
        const create = (name, fields) => t.queue.createArtifact(t.id, 0, name,
            { expires, contentType, ...fields });
        await create('a/ref "1"', { storageType: 'reference', url: 'https://example.com/a' });
        await create('error', { storageType: 'error', reason: 'file-missing-on-worker',
            message: 'gone', contentType: undefined });
        await create('link', { storageType: 'link', artifact: 'error' });
        await create('s3', { storageType: 's3' });
        const object = await create('object', { storageType: 'object' });
        const { Object: ObjectService } = await client;
        const objects = new ObjectService({ rootUrl: `http://127.0.0.1:${server.port}`, retries: 0 });
        const { status } = await t.queue.status(t.id);
        const held = await messages(server, of(t.id));
        assert.equal(held.length, 6);
        await objects.createUpload(object.name, { projectId: object.projectId,
            uploadId: object.uploadId, expires: object.expires,
            proposedUploadMethods: { dataInline: { contentType, objectData: 'aGVsbG8=' } } });
        await objects.finishUpload(object.name,
            { projectId: object.projectId, uploadId: object.uploadId });
        await t.queue.finishArtifact(t.id, 0, 'object', { uploadId: object.uploadId });
        await t.queue.reportCompleted(t.id, 0);
        const list = (await messages(server, of(t.id)))
            .filter((m) => m.exchange.endsWith('artifact-created'));
        assert.deepEqual(list.map((m) => m.payload.artifact), [
            { storageType: 'reference', name: 'a/ref "1"', expires, contentType },
            { storageType: 'error', name: 'error', expires, contentType: 'application/binary' },
            { storageType: 'link', name: 'link', expires, contentType },
            { storageType: 'object', name: 'object', expires, contentType },
        ]);
        for (const m of list) {
            assert.deepEqual(m.payload.status, status);
            assert.match(m.routingKey, /\.0\.wgroup\.w-1\./);
            assert.deepEqual(m.cc, ['route.r']);
        }
        const told = (await server.history()).filter((e) => e.event === 'artifact_created');
        assert.deepEqual(told.map((e) => [e.artifact, e.run, e.from, e.to]),
            ['a/ref "1"', 'error', 'link', 'object'].map((name) => [name, 0, 'in_flight', 'in_flight']));
    });

    it('are_about_the_task_as_it_was', async () => {
        const t = await running(server);
        await t.queue.reportException(t.id, 0, { reason: 'worker-shutdown' });
        await t.queue.createArtifact(t.id, 0, 'late', { storageType: 'reference', expires: soon(1000),
            contentType: 'text/plain', url: 'https://example.com/a' });
        const { status } = await t.queue.status(t.id);
        await t.queue.claimWork(t.given.taskQueueId, WORKER);
        await t.queue.reportCompleted(t.id, 1);
        const late = (await messages(server, of(t.id)))
            .find((m) => m.exchange.endsWith('artifact-created'));
        assert.equal(late.payload.status.runs[1].state, 'pending');
        assert.deepEqual(late.payload.status, status);
        // Once it has expired nobody knows any more what it was.
        await until(async () => !(await messages(server, of(t.id)))
            .some((m) => m.exchange.endsWith('artifact-created')));
        const event = (await server.history(TOLD)).find((e) => e.artifact === 'late');
        assert.equal(event.messages, undefined);
    });
});

describe('the stream', () => {
    const server = useTaskcluster();

    async function lives() {
        const taskGroupId = await slugid();
        const a = await running(server, { taskGroupId, retries: 2, tags: { a: 'b' } });
        await a.queue.reportException(a.id, 0, { reason: 'worker-shutdown' });
        await a.queue.changeTaskPriority(a.id, { newPriority: 'highest' });
        const b = await task(server, { taskGroupId, dependencies: [a.id] });
        await a.queue.claimWork(a.given.taskQueueId, WORKER);
        await a.queue.changeTaskGroupPriority(taskGroupId, { newPriority: 'medium' });
        await a.queue.createArtifact(a.id, 1, 'log', { storageType: 'reference', expires: soon(HOUR),
            contentType: 'text/plain', url: 'https://example.com/a' });
        await a.queue.reportFailed(a.id, 1);
        await a.queue.rerunTask(a.id);
        await a.queue.claimWork(a.given.taskQueueId, WORKER);
        await a.queue.reportCompleted(a.id, 2);
        await b.queue.claimWork(b.given.taskQueueId, WORKER);
        await b.queue.cancelTask(b.id);
        await b.queue.rerunTask(b.id);
        await b.queue.cancelTask(b.id);
        await a.queue.sealTaskGroup(taskGroupId);
    }

    it('has_the_same_live_and_later_and_after_a_restart', async () => {
        const live = await server.events(`?since=0${TOLD}`);
        const plain = await server.events('?since=0');
        await lives();
        await lives();
        const events = await server.history(TOLD);
        assert.ok(events.length > 40);
        await live.until(() => live.jobs.length >= events.length, 'all of it');
        assert.deepEqual(live.jobs, events);
        await messages(server); // are as the schemas say
        // Without being asked for they are not there, and change nothing else.
        await plain.until(() => plain.jobs.length >= events.length, 'all of it');
        assert.ok(plain.jobs.every((e) => e.messages === undefined));
        assert.deepEqual(plain.jobs, events.map(({ messages: told, ...e }) => e));
        live.close();
        plain.close();
        for (const stop of [() => server.stop(), () => server.signal('SIGKILL')]) {
            await stop();
            await server.start();
            assert.deepEqual(await server.history(TOLD), events);
        }
        const part = await server.history(`${TOLD}&event=job_taken,group_sealed`);
        assert.deepEqual(part, events.filter((e) => ['job_taken', 'group_sealed'].includes(e.event)));
        assert.ok(part.every((e) => e.messages.length === 1));
        const one = events.find((e) => e.event === 'job_enqueued');
        assert.deepEqual(await server.history(`${TOLD}&job=${one.id}`),
            events.filter((e) => e.id === one.id));
    });

    it('has_them_in_each_of_its_forms', async () => {
        await lives();
        const events = await server.history(TOLD);
        const path = `/events?since=0&follow=false${TOLD}`;
        const sse = await server.get(path, { accept: 'text/event-stream' });
        const data = sse.text.split('\n').filter((line) => line.startsWith('data: '))
            .map((line) => JSON.parse(line.slice(6)));
        assert.deepEqual(data, events);
        const { bytes } = await server.get(path, { accept: 'application/msgpack' });
        const list = [];
        for (let at = 0; at < bytes.length;) {
            const length = bytes.readUInt32BE(at);
            list.push(unpack(bytes.subarray(at + 4, at + 4 + length)));
            at += 4 + length;
        }
        assert.deepEqual(list, events);
    });

    it('goes_on_without_those_of_a_task_that_is_gone', async () => {
        const t = await running(server, { deadline: soon(1000), expires: soon(1000) });
        await t.queue.reportCompleted(t.id, 0);
        assert.equal((await messages(server, of(t.id))).length, 4);
        const { id } = (await server.get(`/jobs/alias:${t.id}`)).json;
        await until(async () => (await server.get(`/jobs/${id}`)).status === 404);
        await until(async () => (await server.history(`&job=${id}`)).at(-1).event === 'job_deleted');
        const left = await server.history(`${TOLD}&job=${id}`);
        assert.deepEqual(left.map((e) => e.event), ['job_enqueued', 'job_taken', 'job_completed',
            'group_resolved', 'job_deleted']);
        assert.ok(left.every((e) => e.messages === undefined));
    });

    it('refuses_what_nobody_publishes', async () => {
        assertError(await server.get('/events?messages=rabbit'), 400, 'bad_value', /taskcluster/);
        assertError(await server.get('/events?messages=taskcluster&messages=taskcluster'), 400,
            'duplicate_field', /messages/);
    });
});
