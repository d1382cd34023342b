// SPDX-License-Identifier: Apache-2.0
'use strict';

// Why a job is not running, and what became of it.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, until, useServer } = require('./harness');

const HOUR = 3600000;
const UNKNOWN = '03fr82s077azjmurys29qjch4';

async function explain(server, id) {
    const res = await server.get(`/jobs/${id}/explain`);
    assert.equal(res.status, 200, res.text);
    assert.equal(res.json.id, id);
    return res.json;
}

const kinds = (answer) => answer.waits_for.map((obstacle) => obstacle.kind);

async function fail(server, id, fields) {
    const res = await server.post(`/jobs/${id}/failure`, { message: 'it broke', ...fields });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

describe('a ready job', () => {
    const server = useServer();

    it('waits_for_a_worker_if_nobody_asks', async () => {
        const queue = queueName();
        const job = await server.enqueue({ queue });
        const answer = await explain(server, job.id);
        assert.deepEqual([answer.status, answer.queue], ['ready', queue]);
        assert.deepEqual(kinds(answer), ['no_worker']);
        assert.deepEqual(answer.workers, { asking: 0, with_room: 0, busy: 0, in_flight: 0,
            busy_elsewhere: 0, run_ms: null, room_in_ms: null });
        assert.equal(answer.waits_for[0].until, null);
        assert.equal(answer.earliest_at, null);
        assert.deepEqual([answer.position, answer.position_exact], [1, true]);
        assert.equal(answer.since, job.ready_at);
        assert.equal(answer.summary, `ready: ${answer.waits_for[0].reason}`);
        assert.match(answer.summary, /no stream is open for its queue and no claim waits/);
    });

    it('knows_its_place_in_its_queue', async () => {
        const queue = queueName();
        const jobs = [];
        for (const priority of [5, 1, 5, 9])
            jobs.push(await server.enqueue({ queue, priority }));
        await server.enqueue({ queue: queueName(), priority: 0 });
        const places = await Promise.all(jobs.map(async ({ id }) => {
            const answer = await explain(server, id);
            return [answer.position, kinds(answer).includes('place')];
        }));
        assert.deepEqual(places, [[2, true], [1, false], [3, true], [4, true]]);
        const last = await explain(server, jobs[3].id);
        assert.match(last.summary, /; 3 jobs of its queue come first$/);
        await server.patch(`/jobs/${jobs[3].id}`, { priority: 0 });
        assert.equal((await explain(server, jobs[3].id)).position, 1);
        assert.match((await explain(server, jobs[1].id)).summary, /; 1 job of its queue comes first$/);
    });

    it('is_not_counted_to_the_end_of_a_very_long_queue', async () => {
        const queue = queueName();
        const jobs = Array.from({ length: 5001 }, () => ({ queue, type: 't', payload: null }));
        const first = (await server.post('/jobs/bulk', { jobs })).json.jobs;
        const second = (await server.post('/jobs/bulk', { jobs })).json.jobs;
        const middle = await explain(server, first[5000].id);
        assert.deepEqual([middle.position, middle.position_exact], [5001, true]);
        const last = await explain(server, second[5000].id);
        assert.deepEqual([last.position, last.position_exact], [10001, false]);
        assert.match(last.summary, /at least 10000 jobs of its queue come first/);
    });

    it('waits_for_workers_that_have_as_many_jobs_as_they_asked_for', async () => {
        const queue = queueName();
        const taker = await server.take(`?queue=${queue}&prefetch=1`);
        const held = await server.enqueue({ queue });
        assert.equal((await taker.next()).id, held.id);
        const { id } = await server.enqueue({ queue });
        const answer = await explain(server, id);
        assert.deepEqual(kinds(answer), ['busy_workers']);
        assert.deepEqual([answer.workers.asking, answer.workers.with_room, answer.workers.busy], [1, 0, 1]);
        assert.match(answer.summary, /the only stream for its queue has as many jobs/);
        const other = await server.take(`?queue=${queue}&prefetch=1`);
        assert.equal((await other.next()).id, id);
        const { id: third } = await server.enqueue({ queue });
        assert.match((await explain(server, third)).summary, /all 2 streams for its queue have/);
        taker.close();
        other.close();
    });

    it('is_ready_since_its_last_run_ended_if_it_was_given_back', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const { token } = await server.claimOne(queue);
        await server.post(`/jobs/${id}/release`, { token });
        const [ended] = await server.runs(id);
        const answer = await explain(server, id);
        assert.equal(answer.since, ended.ended_at);
        assert.deepEqual(answer.newest_run, ended);
        assert.match(answer.reason, /the worker gave it back/);
    });
});

describe('workers without a free slot', () => {
    const server = useServer();

    async function busyOf(queue) {
        const { id } = await server.enqueue({ queue });
        const answer = await explain(server, id);
        const { json } = await server.get(`/explain?queue=${queue}`);
        const [all] = json.queues;
        for (const each of ['asking', 'with_room', 'busy', 'in_flight', 'busy_elsewhere', 'run_ms'])
            assert.equal(all.workers[each], answer.workers[each], each); // room_in_ms goes on
        return { answer, all, kinds: [kinds(answer)[0], all.waits_for[0].kind] };
    }

    it('are_what_its_jobs_wait_for_though_no_claim_waits', async () => {
        const queue = queueName();
        await server.enqueueMany([{ queue }, { queue }, { queue }]);
        await server.claim({ queues: [queue], worker: 'one', count: 2 });
        const one = await busyOf(queue);
        assert.deepEqual(one.kinds, ['busy_workers', 'busy_workers']);
        assert.match(one.answer.summary, /^ready: worker 'one' is busy with 2 jobs of its queue, the longest since .* ago; no run of the queue has ended since/);
        assert.match(one.all.waits_for[0].reason, /^2 wait for a worker with room: worker 'one' is busy with 2/);
        await server.claim({ queues: [queue], count: 1 }); // by somebody without a name
        const two = await busyOf(queue);
        assert.match(two.answer.summary, /^ready: 2 workers are busy with 3 jobs/);
        assert.deepEqual([two.answer.workers.busy, two.answer.workers.in_flight], [2, 3]);
    });

    it('should_have_room_when_a_run_has_taken_as_long_as_those_before', async () => {
        const queue = queueName();
        await server.enqueueMany([{ queue }, { queue }]);
        const { id, token } = await server.claimOne(queue, { worker: 'one' });
        await server.post(`/jobs/${id}/success`, { token });
        await server.claimOne(queue, { worker: 'one' });
        const { answer } = await busyOf(queue);
        assert.ok(answer.workers.run_ms >= 0);
        assert.match(answer.summary, /; a run takes about [^,]*, (so a slot should come free in about|and all of them have taken longer)/);
    });

    it('are_known_by_the_queues_that_they_asked_for_while_they_work_on_others', async () => {
        const [queue, other] = [queueName(), queueName()];
        await server.enqueueMany([{ queue: other }, { queue: other }]);
        await server.claim({ queues: [queue, other], worker: 'both', count: 2 });
        const both = await busyOf(queue);
        assert.deepEqual(both.kinds, ['busy_workers', 'busy_workers']);
        assert.match(both.answer.summary, /^ready: 1 worker of its queue is busy with 2 jobs of other queues/);
        assert.equal(both.answer.workers.busy_elsewhere, 1);
    });

    it('are_told_from_those_that_asked_and_went_away', async () => {
        const queue = queueName();
        await server.claim({ queues: [queue], worker: 'gone', count: 1, wait_ms: 0 });
        const gone = await busyOf(queue);
        assert.deepEqual(gone.kinds, ['no_worker', 'no_worker']);
        assert.match(gone.answer.summary, /no claim waits for it; worker 'gone' asked last, .* ago/);
    });

    it('are_known_after_a_restart', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        await server.claim({ queues: [queue], worker: 'lasting', lease_ms: HOUR });
        await server.stop();
        await server.start();
        const { answer } = await busyOf(queue);
        assert.match(answer.summary, /^ready: worker 'lasting' is busy with 1 job of its queue, since .* ago/);
        const { json } = await server.get('/workers/lasting');
        assert.deepEqual([json.queues, json.in_flight], [[queue], 1]);
    });
});

describe('a job that is to stay off a node', () => {
    const server = useServer({ args: ['--retry-policy-enabled', '--avoid-node-for', '10m'] });

    it('waits_for_a_worker_elsewhere', async () => {
        const queue = queueName();
        await server.request('PUT', '/retry-policies/away', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'away' },
            spec: { rules: [{ action: 'Retry', onConditions: ['Evicted'],
                antiAffinity: { mode: 'node' } }] },
        });
        await server.enqueue({ queue, retry_policies: ['away'] });
        const { id } = await server.claimOne(queue, { node: 'n1' });
        const retried = await fail(server, id, { condition: 'Evicted' });
        const waiting = server.claim({ queues: [queue], node: 'n1', wait_ms: 60000 });
        const answer = await until(async () => {
            const now = await explain(server, id);
            return now.workers.asking === 1 && now;
        }, 'the claim waits');
        assert.deepEqual(kinds(answer), ['node']);
        assert.equal(answer.waits_for[0].until, retried.avoid_until);
        assert.equal(answer.earliest_at, retried.avoid_until);
        assert.match(answer.summary, /must stay off node 'n1' for another .*, and whoever has room/);
        assert.equal(answer.position, 1);
        const other = await server.enqueue({ queue });
        assert.deepEqual((await waiting).map((job) => job.id), [other.id]);
        const behind = await server.enqueue({ queue });
        assert.equal((await explain(server, behind.id)).position, 2);
    });
});

describe('a job that waits for its time', () => {
    const server = useServer();

    it('says_when_it_comes', async () => {
        const job = await server.enqueue({ queue: queueName(), ready_at: Date.now() + HOUR });
        const answer = await explain(server, job.id);
        assert.equal(answer.status, 'scheduled');
        assert.deepEqual(answer.waits_for.map(({ kind, until: at }) => [kind, at]),
            [['time', job.ready_at]]);
        assert.equal(answer.earliest_at, job.ready_at);
        assert.ok(answer.since < job.ready_at);
        assert.match(answer.summary, /^scheduled: its time comes in (59 min|1 h)[^,;]*$/);
        assert.ok(!('position' in answer));
    });

    it('says_what_was_decided_after_its_last_run', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue, { worker: 'w' });
        const failed = await fail(server, id, { exit_code: 3 });
        const answer = await explain(server, id);
        assert.equal(answer.reason, failed.reason);
        assert.match(answer.reason, /^retry 1 of 25/);
        assert.match(answer.summary, /^scheduled: its time comes in [^,;]*$/);
        assert.equal(answer.since, failed.failed_at);
        assert.equal(answer.earliest_at, failed.ready_at);
        assert.deepEqual(answer.newest_run, (await server.runs(id))[0]);
    });

    it('says_that_the_end_of_a_preempted_run_may_bring_it_forward', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        const job = await fail(server, id,
            { condition: 'Preempted', grace_period_ms: HOUR, retry_at: Date.now() });
        const answer = await explain(server, id);
        assert.equal(answer.earliest_at, job.ready_at);
        if (job.status === 'scheduled')
            assert.match(answer.summary, /or earlier if its old run, which may still go on, is reported/);
        else
            assert.deepEqual(kinds(answer), ['no_worker']);
    });
});

describe('a blocked job', () => {
    const server = useServer();

    it('names_what_it_waits_for_and_a_dead_one_first', async () => {
        const queue = queueName(), own = queueName();
        const [a, b] = [await server.enqueue({ queue }), await server.enqueue({ queue })];
        const one = await server.enqueue({ queue: own, depends_on: [a.id] });
        const two = await server.enqueue({ queue: own, depends_on: [a.id, b.id],
            when: 'all_completed' });
        const answer = await explain(server, one.id);
        assert.deepEqual(kinds(answer), ['dependency']);
        assert.equal(answer.earliest_at, null);
        assert.equal(answer.summary,
            `blocked: it waits until job ${a.id} has completed, which is ready`);
        await server.claim({ queues: [queue], count: 2 });
        await fail(server, b.id, { kill: true });
        assert.equal((await explain(server, two.id)).summary,
            `blocked: it waits until 2 jobs have completed, among them ${b.id}, which is dead`);
    });
});

describe('a job of a queue with limits', () => {
    const server = useServer();

    async function limit(settings) {
        const queue = queueName();
        const res = await server.request('PUT', `/queues/${queue}`, settings);
        assert.equal(res.status, 200, res.text);
        return queue;
    }

    it('waits_for_the_end_of_a_pause', async () => {
        const queue = await limit({ paused: true });
        const waiting = server.claim({ queues: [queue], wait_ms: 60000 });
        const { id } = await server.enqueue({ queue });
        const answer = await until(async () => {
            const now = await explain(server, id);
            return now.workers.with_room === 1 && now;
        }, 'the claim waits');
        assert.deepEqual(kinds(answer), ['pause']);
        assert.equal(answer.summary, 'ready: its queue is paused');
        assert.equal(answer.earliest_at, null);
        const later = await server.enqueue({ queue, ready_at: Date.now() + HOUR });
        assert.deepEqual(kinds(await explain(server, later.id)), ['time', 'pause']);
        assert.equal((await explain(server, later.id)).earliest_at, null);
        await server.request('PUT', `/queues/${queue}`, { paused: false });
        assert.deepEqual((await waiting).map((job) => job.id), [id]);
    });

    it('waits_for_one_in_flight_to_end', async () => {
        const queue = await limit({ concurrency: 1 });
        const first = await server.enqueue({ queue });
        await server.claimOne(queue);
        const { id } = await server.enqueue({ queue });
        const answer = await explain(server, id);
        assert.deepEqual(kinds(answer), ['concurrency', 'busy_workers']);
        assert.match(answer.summary, /1 of its queue are in flight, and its limit is 1/);
        await server.post(`/jobs/${first.id}/success`);
        assert.deepEqual(kinds(await explain(server, id)), ['no_worker']);
    });

    it('waits_for_one_of_its_key_to_end', async () => {
        const queue = await limit({ concurrency_per_key: 1 });
        const made = [];
        for (let i = 0; i < 3; i++)
            made.push(await server.enqueue({ queue, concurrency_key: 'ada' }));
        const other = await server.enqueue({ queue, concurrency_key: 'bob' });
        const stream = await server.take(`?queue=${queue}&prefetch=9`);
        assert.deepEqual(await stream.nextIds(2), [made[0].id, other.id]);
        const [next, last] = [await explain(server, made[1].id), await explain(server, made[2].id)];
        assert.deepEqual(kinds(next), ['concurrency_key']);
        assert.equal(next.summary, "ready: 1 with its concurrency key 'ada' are in flight, and the " +
            'limit of its queue is 1 per key');
        assert.deepEqual([next.earliest_at, next.position, last.position], [null, 1, 2]);
        assert.deepEqual(kinds(last), ['concurrency_key', 'place']);
        await server.request('PUT', `/queues/${queue}`, { concurrency_per_key: 2 });
        assert.deepEqual(await stream.nextIds(1), [made[1].id]);
        assert.match((await explain(server, made[2].id)).summary,
            /^ready: 2 with its concurrency key 'ada' are in flight, and .* is 2 per key$/);
        stream.close();
    });

    it('waits_for_the_rate_to_allow_another', async () => {
        const queue = await limit({ rate: { count: 1, per_ms: HOUR, burst: 1 } });
        await server.enqueue({ queue });
        await server.claimOne(queue);
        const waiting = server.claim({ queues: [queue], wait_ms: 60000 });
        const { id } = await server.enqueue({ queue });
        const answer = await until(async () => {
            const now = await explain(server, id);
            return now.workers.with_room === 1 && now;
        }, 'the claim waits');
        assert.deepEqual(kinds(answer), ['rate']);
        assert.equal(answer.earliest_at, answer.waits_for[0].until);
        assert.ok(answer.earliest_at > Date.now() + HOUR / 2);
        await server.request('PUT', `/queues/${queue}`, { rate: null });
        assert.deepEqual((await waiting).map((job) => job.id), [id]);
    });
});

describe('a job in flight', () => {
    const server = useServer();

    it('is_held_by_whom_and_until_when', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id, lease_expires_at: end } = await server.claimOne(queue,
            { worker: 'w-7', lease_ms: HOUR });
        const answer = await explain(server, id);
        assert.equal(answer.status, 'in_flight');
        assert.deepEqual([answer.waits_for, answer.earliest_at], [[], null]);
        assert.equal(answer.newest_run.worker, 'w-7');
        assert.equal(answer.newest_run.lease_expires_at, end);
        assert.equal(answer.since, answer.newest_run.taken_at);
        assert.match(answer.summary,
            /^in flight: run 0 is held by 'w-7', whose lease ends in .* unless it renews it$/);
    });

    it('of_a_stream_has_no_end', async () => {
        const queue = queueName();
        const taker = await server.take(`?queue=${queue}`);
        const { id } = await server.enqueue({ queue });
        await taker.next();
        assert.match((await explain(server, id)).summary,
            /held by a worker without a name on a stream, as long as that is open$/);
        taker.close();
    });
});

describe('a job that has ended', () => {
    const server = useServer({ args: ['--default-completed-job-retention', '1h'] });

    it('completed_says_so', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        await server.post(`/jobs/${id}/success`);
        const answer = await explain(server, id);
        assert.deepEqual([answer.status, answer.summary], ['completed', 'completed at attempt 1']);
        assert.equal(answer.since, (await server.job(id)).completed_at);
        assert.ok(!('remedy' in answer));
    });

    it('dead_says_why_and_what_would_bring_it_back', async () => {
        const queue = queueName();
        await server.request('PUT', '/failure-categories/hints', {
            apiVersion: 'tenax.dev/v1', kind: 'FailureCategories', metadata: { name: 'hints' },
            spec: { rules: [{ category: 'user', hint: 'mend the payload',
                onExitCodes: { operator: 'In', values: [65] } }] },
        });
        await server.enqueue({ queue, retry_limit: 0 });
        const { id } = await server.claimOne(queue);
        const dead = await fail(server, id, { exit_code: 65 });
        const answer = await explain(server, id);
        assert.equal(answer.summary, 'dead: no retries are allowed (failed)');
        assert.deepEqual([answer.resolution, answer.reason, answer.purge_at],
            ['failed', dead.reason, dead.purge_at]);
        assert.equal(answer.hint, 'mend the payload');
        assert.match(answer.remedy, /POST \/jobs\/\{id\}\/retry/);
        assert.equal(answer.since, dead.failed_at);
        await server.post(`/jobs/${id}/retry`);
        assert.equal((await explain(server, id)).status, 'ready');
    });

    it('canceled_before_it_ever_ran_has_no_run_to_show', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        await server.post(`/jobs/${id}/cancel`);
        const answer = await explain(server, id);
        assert.equal(answer.resolution, 'canceled');
        assert.equal(answer.since, null);
        assert.ok(!('newest_run' in answer));
    });
});

describe('explaining', () => {
    const server = useServer();

    it('is_refused_for_jobs_that_there_are_not', async () => {
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.get(`/jobs/${id}/explain`), 404, 'not_found');
        assertError(await server.post(`/jobs/${UNKNOWN}/explain`), 405, 'method_not_allowed');
    });

    it('says_the_same_on_the_command_line', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.enqueue({ queue });
        const tenax = (...args) => run(args, { TENAX_URL: server.url() });
        const shown = await tenax('explain', id);
        assert.equal(shown.code, 0, shown.stderr);
        for (const line of [`job        ${id}`, 'status     ready', 'place      2 in its queue',
            'workers    0 ask for jobs of its queue, 0 of them with room; 0 busy with 0 of them',
            'waits for  no stream is open for its queue and no claim waits for it',
            'waits for  1 job of its queue comes first'])
            assert.ok(shown.stdout.includes(`${line}\n`), `${line}\n${shown.stdout}`);
        const failed = await server.enqueue({ queue: queueName(), retry_limit: 0 });
        const { token } = await server.claimOne(failed.queue);
        await server.post(`/jobs/${failed.id}/failure`, { token, message: 'smtp is\ndown', error_type: 'Oops' });
        const why = await tenax('explain', failed.id);
        assert.match(why.stdout, /^why +dead: no retries are allowed.*\n(.+\n)*error +Oops: smtp is.down$/m);
        const json = await tenax('explain', id, '--output', 'json');
        assert.deepEqual(JSON.parse(json.stdout), await explain(server, id));
        assert.equal((await tenax('explain', UNKNOWN)).code, 4);
        assert.equal((await tenax('explain')).code, 2);
    });
});

describe('who judges the failures of a job', () => {
    const server = useServer();
    const put = async (name, spec) => {
        const res = await server.request('PUT', `/retry-policies/${name}`, {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name }, spec });
        assert.ok(res.status < 300, res.text);
        return res.json;
    };
    const settings = (body) => server.request('PUT', '/settings/retry', body);
    const rule = { action: 'Retry', onConditions: ['Evicted'] };

    it('is_said_in_the_order_in_which_policies_are_asked', async () => {
        const queue = queueName();
        for (const name of ['of-queue', 'of-job', 'of-server'])
            await put(name, { rules: [rule] });
        const plain = await server.enqueue({ queue: queueName() });
        let concerned = false;
        const said = async (job) => {
            const { retry_policies: names, judged_by: words } = await explain(server, job.id);
            const shown = await server.job(job.id);
            assert.deepEqual([shown.effective_policies ?? [], shown.judged_by],
                concerned ? [names, words] : [[], undefined]);
            return [names, words];
        };
        const off = 'its own backoff and limit: retry policies are not enabled';
        assert.deepEqual(await said(plain), [[], off]);
        assert.deepEqual(await said(await server.enqueue({ queue: queueName(), when_no_policy: 'fail' })),
            [[], 'no retry, as its when_no_policy says: retry policies are not enabled']);
        concerned = true;
        await server.request('PUT', `/queues/${queue}`, { retry_policies: ['of-queue'] });
        const job = await server.enqueue({ queue, retry_policies: ['of-job'] });
        assert.deepEqual(await said(job), [['of-queue', 'of-job'], `${off}; they would be of-queue, then of-job`]);
        const twice = await server.enqueue({ queue, retry_policies: ['of-job', 'of-queue'] });
        assert.deepEqual((await said(twice))[0], ['of-queue', 'of-job']);
        await settings({ enabled: true });
        assert.deepEqual(await said(job), [['of-queue', 'of-job'], 'of-queue, then of-job']);
        const listed = (await server.get(`/jobs?queue=${queue}`)).json.jobs;
        assert.ok(listed.length && listed.every((one) => one.judged_by === undefined));
        assert.match((await run(['job', job.id, '--url', server.url()])).stdout, /^judged by +of-queue, then of-job$/m);
        assert.match((await run(['explain', job.id, '--url', server.url()])).stdout, /^judged by +of-queue, then of-job$/m);
        assert.deepEqual(await said(plain), [[], 'no retry policy; its own backoff and limit, as whenNoPolicy says']);
        const none = await server.enqueue({ queue: plain.queue, when_no_policy: 'fail' });
        assert.deepEqual(await said(none), [[], 'no retry policy; no retry, as its when_no_policy says']);
        await settings({ defaultPolicyName: 'of-server' });
        assert.deepEqual(await said(plain), [['of-server'], 'of-server']);
        assert.deepEqual(await said(job), [['of-queue', 'of-job'], 'of-queue, then of-job']);
        assert.doesNotMatch(server.stderr, /is missing/);
    });

    it('is_warned_of_when_a_policy_is_written_that_does_less_than_it_says', async () => {
        const warned = async (spec) => (await put('warned', spec)).warnings ?? [];
        const good = { initialDelay: '5s', jitter: '2s' };
        await settings({ globalMaxRetries: 4 });
        assert.deepEqual(await warned({ backoff: good, retryLimit: 4, rules: [{ ...rule, retryLimit: 4 }] }), []);
        assert.deepEqual(await warned({ backoff: good, retryLimit: 7, rules: [{ ...rule, retryLimit: 5 }] }), [
            'rules[0] may never reach its retryLimit: globalMaxRetries is 4, for all retries of a job',
            'retryLimit 7 is never reached: globalMaxRetries is 4, for all retries of a job']);
        assert.deepEqual(await warned({ rules: [{ ...rule, backoff: good }, { ...rule, onConditions: ['OOMKilled'] }] }),
            ['rules[1] retries at once: there is neither a delay nor a jitter in its backoff']);
        assert.deepEqual(await warned({ backoff: { initialDelay: '5s', jitter: 'none' }, rules: [rule] }),
            ['rules[0] retries without jitter: jobs that failed together are tried again together']);
        assert.deepEqual(await warned({ backoff: { initialDelay: '5s', jitter: 'none' }, defaultAction: 'Retry' }),
            ['defaultAction retries without jitter: jobs that failed together are tried again together']);
        assert.deepEqual(await warned({ backoff: { initialDelay: '5s' }, defaultAction: 'Retry', rules: [rule] }), []);
        assert.deepEqual(await warned({ rules: [{ action: 'Fail', onConditions: ['Evicted'] }] }), []);
        assert.equal((await server.get('/retry-policies/warned')).json.warnings, undefined);
    });

    it('is_warned_of_when_the_maximum_is_lowered_below_a_limit', async () => {
        const warned = async (most) => (await settings({ globalMaxRetries: most })).json.warnings;
        const backoff = { initialDelay: '5s', jitter: '2s' };
        await put('low', { backoff, rules: [{ ...rule, retryLimit: 15 }] });
        await put('warned', { backoff, retryLimit: 12, rules: [rule] });
        assert.equal(await warned(15), undefined);
        assert.deepEqual(await warned(14), ["globalMaxRetries: 1 retry policy states a retryLimit above 14, 'low' first; "
            + 'their jobs may never reach it']);
        assert.match((await warned(11))[0], /2 retry policies state a retryLimit above 11, 'low' first/);
        assert.equal(await warned(0), undefined); // an emergency stop
        assert.match(server.stderr, /globalMaxRetries is now 11: 2 retry policies state a retryLimit above it, 'low' first/);
        assert.equal((await server.get('/settings/retry')).json.warnings, undefined);
    });
});
