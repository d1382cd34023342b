// SPDX-License-Identifier: Apache-2.0
'use strict';

// The life of tasks with the default time-outs: the clock is moved instead of waiting. The server's
// clock and that of its clients here move together, for clients sign what they send with the time.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { before, describe, it } = require('node:test');

const realNow = Date.now;
let offset = 0;
Date.now = () => realNow() + offset; // before the client is loaded, which keeps the function

const { run, until } = require('./harness');
const { assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');
const { useWrongClock } = require('./wrong_clock');

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const CLAIM = 20 * MINUTE; // --taskcluster-claim-timeout
const SKEW = 5 * MINUTE; // between clocks, which certificates allow for
const SLACK = 10 * SECOND; // for this machine to be slow

const WORKER = { workerGroup: 'group', workerId: 'worker' };
const OTHER = { workerGroup: 'group', workerId: 'other' };

const at = (ms) => new Date(Date.now() + ms).toJSON();
const untilThen = (date) => new Date(date).getTime() - Date.now();

// As useTaskcluster, and server.pass(ms): time passes.
function useServerInTime(options) {
    const clock = useWrongClock();
    // No turn of the loop is late, by this clock.
    const server = useTaskcluster({ ...options, env: { ...clock.env, TENAX_TEST_TIME_PASSES: '1' },
        args: [...options?.args ?? [], '--lease-grace', '0s'] });
    server.move = (ms) => {
        offset = ms;
        clock.set(ms);
    };
    before(() => server.move(0));
    server.pass = (ms) => server.move(offset + ms);
    server.task = async (fields) => {
        const queue = await server.queue();
        const id = await slugid();
        const task = definition(fields);
        await queue.createTask(id, task);
        return { queue, id, task };
    };
    server.running = async (fields, worker = WORKER) => {
        const made = await server.task(fields);
        const { tasks: [claim] } = await made.queue.claimWork(made.task.taskQueueId,
            { ...worker, tasks: 1 });
        assert.equal(claim.status.taskId, made.id);
        return { ...made, claim };
    };
    return server;
}

// [[state, reasonCreated, reasonResolved], …]
function runsOf(status) {
    assertSchema('task-status-response', { status });
    return status.runs.map((r) => [r.state, r.reasonCreated, r.reasonResolved]);
}

describe('a claim', () => {
    const server = useServerInTime();

    it('lasts_twenty_minutes', async () => {
        const { claim } = await server.running();
        const left = untilThen(claim.takenUntil);
        assert.ok(left <= CLAIM && left > CLAIM - SLACK, `${left} ms`);
    });

    it('is_renewed_just_before_it_expires', async () => {
        const { queue, id, claim } = await server.running();
        server.pass(CLAIM - SLACK);
        const { takenUntil, status } = await queue.reclaimTask(id, 0);
        assert.equal(status.state, 'running');
        assert.ok(untilThen(takenUntil) > CLAIM - SLACK);
        server.pass(CLAIM - SLACK);
        assert.ok(untilThen(claim.takenUntil) < 0, 'the claim before is over');
        const done = (await queue.reportCompleted(id, 0)).status;
        assert.deepEqual(runsOf(done), [['completed', 'scheduled', 'completed']]);
        assert.equal(done.retriesLeft, 5);
    });

    it('is_over_just_after_it_expired', async () => {
        // What comes first after that moment is refused: nothing else has told the server of it.
        const late = {
            reclaimTask: (queue, id) => queue.reclaimTask(id, 0),
            reportCompleted: (queue, id) => queue.reportCompleted(id, 0),
            reportFailed: (queue, id) => queue.reportFailed(id, 0),
            reportException: (queue, id) =>
                queue.reportException(id, 0, { reason: 'worker-shutdown' }),
        };
        for (const call of Object.values(late)) {
            const { queue, id } = await server.running();
            await queue.reclaimTask(id, 0); // else it would use no retry
            server.pass(CLAIM + SECOND);
            await assertRefused(call(queue, id), 409, 'RequestConflict',
                /resolved or not running/);
            const { status } = await queue.status(id);
            assert.deepEqual(runsOf(status), [['exception', 'scheduled', 'claim-expired'],
                ['pending', 'retry', undefined]]);
            assert.equal(status.retriesLeft, 4);
        }
    });

    it('expires_as_often_as_there_are_retries', async () => {
        const { queue, id, task } = await server.running({ deadline: at(DAY) });
        for (let run = 0; run <= 5; run++) {
            await queue.reclaimTask(id, run);
            server.pass(CLAIM + SECOND);
            const { status } = await queue.status(id);
            assert.equal(status.retriesLeft, Math.max(0, 4 - run));
            assert.equal(status.state, run < 5 ? 'pending' : 'exception');
            if (run < 5)
                assert.equal((await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1 }))
                    .tasks[0].runId, run + 1);
        }
        const { status } = await queue.status(id);
        assert.deepEqual(runsOf(status), Array.from({ length: 6 }, (_, run) =>
            ['exception', run ? 'retry' : 'scheduled', 'claim-expired']));
        await assertRefused(queue.claimTask(id, 5, WORKER), 409, 'RequestConflict');
        await assertRefused(queue.claimTask(id, 6, WORKER), 404, 'ResourceNotFound');
        assert.equal((await queue.rerunTask(id)).status.retriesLeft, 5);
    });

    it('goes_to_one_of_two_workers_when_it_has_expired', async () => {
        const { queue, id, task } = await server.running();
        server.pass(CLAIM + SECOND);
        const claims = await Promise.allSettled([
            queue.claimTask(id, 1, OTHER), queue.claimTask(id, 1, { ...OTHER, workerId: 'third' }),
            queue.claimTask(id, 1, WORKER)]);
        assert.deepEqual(claims.map((c) => c.status).sort(), ['fulfilled', 'rejected', 'rejected']);
        for (const { reason } of claims.filter((c) => c.status === 'rejected'))
            assert.equal(reason.statusCode, 409);
        const winner = claims.find((c) => c.status === 'fulfilled').value.workerId;
        await assertRefused(queue.reportCompleted(id, 0), 409, 'RequestConflict');
        const { status } = await queue.status(id);
        assert.deepEqual(runsOf(status), [['exception', 'scheduled', 'claim-expired'],
            ['running', 'retry', undefined]]);
        assert.equal(status.runs[1].workerId, winner);
        const { tasks } = await queue.listClaimedTasks(task.taskQueueId);
        assert.deepEqual(tasks.map((t) => [t.taskId, t.runId, t.workerId]), [[id, 1, winner]]);
    });

    it('that_waits_gets_the_run_when_it_expires', async () => {
        const { queue, id, task } = await server.running();
        server.pass(CLAIM - SLACK);
        const waits = queue.claimWork(task.taskQueueId, { ...OTHER, tasks: 1 });
        await until(async () => (await queue.listWorkers(...task.taskQueueId.split('/')))
            .workers.length === 2, 'the second worker waits');
        server.pass(SLACK + SECOND);
        const { tasks } = await waits;
        assert.deepEqual(tasks.map((t) => [t.status.taskId, t.runId, t.workerId]),
            [[id, 1, 'other']]);
    });
});

describe('a deadline', () => {
    const server = useServerInTime();

    it('resolves_tasks_within_seconds_though_nobody_asks', async () => {
        const deadline = at(DAY);
        const { queue, id: pending } = await server.task({ deadline });
        const { id: unscheduled } = await server.task({ deadline, dependencies: [pending] });
        server.pass(untilThen(deadline) - CLAIM / 2);
        const { id: running } = await server.running({ deadline });
        const events = await server.events('?event=job_dead');
        server.pass(CLAIM / 2 + SECOND);
        const began = realNow();
        for (let i = 0; i < 3; i++)
            await events.next();
        assert.ok(realNow() - began < SLACK);
        events.close();
        for (const [id, state, created] of [[unscheduled, 'unscheduled', 'exception'],
            [pending, 'pending', 'scheduled'], [running, 'running', 'scheduled']]) {
            const { status } = await queue.status(id);
            assert.deepEqual(runsOf(status), [['exception', created, 'deadline-exceeded']], state);
            const late = new Date(status.runs[0].resolved) - new Date(deadline);
            assert.ok(late >= 0 && late < SLACK, `${late} ms late`);
        }
    });

    it('is_the_end_of_every_method_that_changes_the_task', async () => {
        const { queue, id, task } = await server.running();
        server.pass(untilThen(task.deadline) + SECOND);
        const calls = [queue.reclaimTask(id, 0), queue.claimTask(id, 0, WORKER),
            queue.scheduleTask(id), queue.rerunTask(id), queue.cancelTask(id)];
        await Promise.all(calls.map((call) =>
            assertRefused(call, 409, 'RequestConflict', /past its deadline/)));
        const { status, json } = await server.fetch(`/api/queue/v1/task/${id}/priority`, {
            method: 'POST', headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ newPriority: 'high' }) });
        assert.equal(status, 409);
        assert.match(json.message, /past its deadline/);
        await assertRefused(queue.reportCompleted(id, 0), 409, 'RequestConflict');
        await assertRefused(queue.createTask(await slugid(), task), 400, 'InputError',
            /`deadline` cannot be in the past|`created` cannot be in the past/);
    });

    it('does_not_keep_a_createTask_from_being_repeated', async () => {
        const { queue, id, task } = await server.task();
        server.pass(untilThen(task.deadline) + SECOND);
        const { status } = await queue.createTask(id, task);
        assert.equal(status.state, 'exception');
        assert.equal(status.runs.at(-1).reasonResolved, 'deadline-exceeded');
        await assertRefused(queue.createTask(id, { ...task, payload: { other: 1 } }), 400,
            'InputError', /cannot be in the past/);
    });

    it('outlives_a_server_that_was_down_meanwhile', async () => {
        const { id, task } = await server.running();
        await server.signal('SIGKILL');
        server.pass(untilThen(task.deadline) + DAY);
        await server.start();
        const { status } = await (await server.queue()).status(id);
        assert.equal(status.state, 'exception');
        assert.equal(status.runs.at(-1).reasonResolved, 'deadline-exceeded');
    });
});

describe('a task that expires', () => {
    const server = useServerInTime();

    it('is_gone_with_its_artifacts', async () => {
        const expires = at(3 * DAY);
        const { id, task, ...made } = await server.running({ expires });
        let { queue } = made;
        const { putUrl } = await queue.createArtifact(id, 0, 'public/a', { storageType: 's3',
            expires: at(2 * DAY), contentType: 'text/plain' });
        const { pathname, search } = new URL(putUrl);
        assert.equal((await server.fetch(pathname + search, { method: 'PUT', body: 'hello',
            headers: { 'content-type': 'text/plain' } })).status, 200);
        await queue.reportCompleted(id, 0);
        const folder = path.join(server.dir, 'root', 'artifacts');
        assert.equal(fs.readdirSync(folder).length, 1);
        server.pass(untilThen(expires) - SLACK);
        assert.equal((await queue.status(id)).status.state, 'completed');
        assert.deepEqual((await queue.listArtifacts(id, 0)).artifacts, [], 'it expired before');
        await server.stop();
        await server.start(); // it looks for such files then, and every few minutes
        await until(() => fs.readdirSync(folder).length === 0, 'its file is removed');
        queue = await server.queue();
        server.pass(SLACK + SECOND);
        await until(async () => (await queue.status(id).catch((err) => err)).statusCode === 404);
        await assertRefused(queue.task(id), 404, 'ResourceNotFound');
        await assertRefused(queue.getTaskGroup(id), 404, 'ResourceNotFound');
        await assertRefused(queue.artifact(id, 0, 'public/a'), 410, 'ResourceExpired');
        server.pass(4 * DAY);
        await until(async () => (await queue.artifact(id, 0, 'public/a').catch((err) => err)).statusCode === 404);
        const now = { created: at(0), deadline: at(MINUTE) };
        const again = await queue.createTask(id, { ...task, ...now, expires: undefined });
        assert.equal(again.status.state, 'pending', 'the id is free');
    });
});

describe('poll URLs', () => {
    const server = useServerInTime();

    async function urls(task) {
        const { status, json } = await server.fetch(`/api/queue/v1/poll-task-url/${task.taskQueueId}`);
        assert.equal(status, 200);
        return { ...json.queues[6], expires: json.expires };
    }

    // [{id, receipt, count}, …]
    async function poll(url) {
        const { pathname, search } = new URL(url);
        const res = await server.fetch(pathname + search);
        assert.equal(res.status, 200, res.text);
        const value = (xml, name) => new RegExp(`<${name}>(.*?)</${name}>`).exec(xml)[1];
        return [...res.text.matchAll(/<QueueMessage>.*?<\/QueueMessage>/g)].map(([xml]) => ({
            id: value(xml, 'MessageId'), receipt: value(xml, 'PopReceipt'),
            count: Number(value(xml, 'DequeueCount')) }));
    }

    async function remove(url, message) {
        const full = new URL(url.replace('{{messageId}}', message.id)
            .replace('{{popReceipt}}', encodeURIComponent(message.receipt)));
        return (await server.fetch(full.pathname + full.search, { method: 'DELETE' })).status;
    }

    it('are_good_for_45_minutes', async () => {
        const { queue, id, task } = await server.task();
        const first = await urls(task);
        assert.ok(Math.abs(untilThen(first.expires) - 45 * MINUTE) < SLACK);
        server.pass(45 * MINUTE - SLACK);
        const [message] = await poll(first.signedPollUrl);
        server.pass(SLACK + SECOND);
        const { pathname, search } = new URL(first.signedPollUrl);
        const res = await server.fetch(pathname + search);
        assert.equal(res.status, 403);
        assert.match(res.text, /<Code>AuthenticationFailed<\/Code>.*expired/);
        assert.equal(await remove(first.signedDeleteUrl, message), 403);
        const second = await urls(task);
        assert.equal(await remove(second.signedDeleteUrl, message), 204);
        assert.equal((await queue.status(id)).status.state, 'pending');
    });

    it('show_a_message_every_five_minutes_until_the_deadline_of_its_task', async () => {
        const { queue, id, task } = await server.task();
        await queue.claimTask(id, 0, WORKER);
        await queue.reportException(id, 0, { reason: 'worker-shutdown' });
        let seen = 0, last;
        while (untilThen(task.deadline) > 6 * MINUTE) {
            const { signedPollUrl, signedDeleteUrl } = await urls(task);
            const [message, ...more] = await poll(signedPollUrl);
            assert.deepEqual(more, []);
            assert.equal(message.count, ++seen);
            if (last) {
                assert.equal(message.id, last.id);
                assert.equal(await remove(signedDeleteUrl, last), 400, 'a stale receipt');
            }
            last = message;
            assert.deepEqual(await poll(signedPollUrl), []);
            server.pass(5 * MINUTE - SLACK);
            assert.deepEqual(await poll(signedPollUrl), []);
            server.pass(SLACK + SECOND);
        }
        assert.ok(seen > 8, `${seen} times`);
        server.pass(untilThen(task.deadline) + SECOND);
        const { signedPollUrl, signedDeleteUrl } = await urls(task);
        assert.deepEqual(await poll(signedPollUrl), []);
        assert.equal(await remove(signedDeleteUrl, last), 404);
        assert.match(server.stderr, new RegExp(`${id}, run 1, was dequeued more than 10 times`));
    });
});

describe('temporary credentials', () => {
    const accessToken = 'a'.repeat(44);
    const server = useServerInTime({ clients: [{ clientId: 'root', accessToken, scopes: ['*'] }] });

    it('end_with_the_claim', async () => {
        const root = await server.queue({ clientId: 'root', accessToken });
        const id = await slugid();
        const task = definition();
        await root.createTask(id, task);
        const { credentials } = await root.claimTask(id, 0, WORKER);
        const first = await server.queue(credentials);
        server.pass(CLAIM - SLACK);
        const second = await server.queue((await first.reclaimTask(id, 0)).credentials);
        server.pass(SLACK + SKEW + SECOND);
        await assertRefused(first.reclaimTask(id, 0), 401, 'AuthenticationFailed', /expired/);
        await assertRefused(first.reportCompleted(id, 0), 401, 'AuthenticationFailed', /expired/);
        assert.equal((await second.reportCompleted(id, 0)).status.state, 'completed');
    });
});

describe('a clock that was far ahead', () => {
    const server = useServerInTime();

    it('is_corrected_and_tasks_live_by_the_right_one', async () => {
        const { queue, id, task, claim } = await server.running({ deadline: at(4 * DAY) });
        const waits = (await server.task({ dependencies: [id], deadline: at(4 * DAY) })).id;
        const ended = (await server.task()).id;
        server.move(2 * DAY); // the server and the client agree, both wrong
        assert.deepEqual(runsOf((await queue.status(id)).status)[0],
            ['exception', 'scheduled', 'claim-expired']);
        assert.deepEqual(runsOf((await queue.status(ended)).status),
            [['exception', 'scheduled', 'deadline-exceeded']]);
        const { tasks: [held] } = await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1 });
        assert.equal(held.runId, 1);

        server.move(0);
        const end = await run(['crons', '--reset-clock'], { TENAX_URL: server.url() });
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, /^The time of jobs and cron entries was set back from \d{4}-.* to \d{4}-.*\.\n\d+ jobs? had times that were yet to come\.\n$/);
        const { status } = await queue.status(id);
        assert.deepEqual(runsOf(status), [['exception', 'scheduled', 'claim-expired'],
            ['running', 'retry', undefined]]);
        assert.equal((await queue.status(ended)).status.state, 'exception', 'what ended stays so');
        const renewed = await queue.reclaimTask(id, 1);
        assert.ok(Math.abs(untilThen(renewed.takenUntil) - CLAIM) < SLACK, renewed.takenUntil);
        assert.ok(untilThen(claim.takenUntil) > 0);
        server.move(CLAIM - SLACK);
        assert.equal((await queue.reclaimTask(id, 1)).status.state, 'running');
        await queue.reportCompleted(id, 1);
        assert.equal((await queue.status(waits)).status.state, 'pending');
        server.move(4 * DAY + SECOND);
        assert.deepEqual(runsOf((await queue.status(waits)).status),
            [['exception', 'scheduled', 'deadline-exceeded']]);
    });
});

describe('a clock that was two months ahead', () => {
    const server = useServerInTime();

    it('is_put_right_and_the_server_goes_on_by_the_time_before', async () => {
        server.move(60 * DAY);
        const { queue, id, task } = await server.task({ deadline: at(DAY) });
        server.move(0);
        const early = await server.task();
        assert.deepEqual(runsOf((await queue.status(early.id)).status),
            [['exception', 'scheduled', 'deadline-exceeded']], 'its deadline is over for the server');
        const { tasks: [claim] } = await queue.claimWork(task.taskQueueId, { ...WORKER, tasks: 1 });
        const { start, expiry } = JSON.parse(claim.credentials.certificate);
        assert.ok(expiry - start <= CLAIM && expiry - start > CLAIM - SLACK,
            'its credentials are good as long as the claim');
        assert.equal((await queue.reclaimTask(id, 0)).status.state, 'running');
        assert.equal((await queue.reportCompleted(id, 0)).status.state, 'completed');
    });
});
