// SPDX-License-Identifier: Apache-2.0
'use strict';

// Groups of failures that are alike, and the filters that find their jobs.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, queueName, run, useServer } = require('./harness');
const { guarded } = require('./access');

const UNKNOWN = '0123456789abcdef';

// A job of the queue that has failed so, for good unless told otherwise.
async function failOne(server, queue, failure = {}) {
    const { id } = await server.enqueue({ queue });
    const { token } = await server.claimOne(queue, { worker: 'w' });
    const res = await server.post(`/jobs/${id}/failure`,
        { token, message: 'boom', kill: true, ...failure });
    assert.equal(res.status, 200, res.text);
    return id;
}

async function groupsOf(server, query) {
    const res = await server.get(`/failure-groups?${query}`);
    assert.equal(res.status, 200, res.text);
    return res.json.failure_groups;
}

async function count(server, query) {
    const res = await server.get(`/jobs/count?${query}`);
    assert.equal(res.status, 200, res.text);
    return res.json.count;
}

function sum(list) {
    return list.reduce((a, b) => a + b, 0);
}

describe('failures that are alike', () => {
    const server = useServer();

    it('are_one_group_with_counts_and_samples', async () => {
        const queue = queueName();
        const began = Date.now();
        const ids = [];
        for (const n of [3, 45, 600])
            ids.push(await failOne(server, queue, {
                message: `no answer from /run/a${n}.sock in ${n} s`, error_type: 'Timeout',
                exit_code: 7,
            }));
        const groups = await groupsOf(server, `queue=${queue}`);
        assert.equal(groups.length, 1);
        const [g] = groups;
        assert.match(g.group, /^[0-9a-f]{16}$/);
        assert.equal(g.message, 'no answer from <path> in <n> s');
        assert.deepEqual([g.queue, g.type, g.outcome, g.error_type, g.exit_code, g.count],
            [queue, 'test', 'failed', 'Timeout', 7, 3]);
        assert.ok(g.first_seen >= began - 1 && g.last_seen >= g.first_seen);
        assert.deepEqual([g.last_hour, g.last_day, g.trend], [3, 3, 'new']);
        assert.deepEqual([g.per_minute.length, g.per_hour.length], [60, 168]);
        assert.deepEqual([sum(g.per_minute), sum(g.per_hour)], [3, 3]);
        assert.deepEqual(g.samples.map((s) => s.job), ids.reverse());
        const one = await server.get(`/failure-groups/${g.group}`);
        assert.equal(one.json.group, g.group);
        assert.equal(one.json.count, 3);
    });

    it('are_told_apart_by_what_matters', async () => {
        const queue = queueName();
        for (const failure of [{}, { error_type: 'E' }, { exit_code: 1 }, { signal: 9 },
            { category: 'infra' }, { message: 'bang' }, { condition: 'OOMKilled' }])
            await failOne(server, queue, failure);
        assert.equal((await groupsOf(server, `queue=${queue}`)).length, 7);
    });

    it('are_found_by_queue_type_error_type_and_time', async () => {
        const [a, b] = [queueName(), queueName()];
        await failOne(server, a, { error_type: 'A' });
        await failOne(server, b, { error_type: 'B' });
        await failOne(server, b, { error_type: 'B' });
        const both = `queue=${a},${b}`;
        const types = async (query) => (await groupsOf(server, query)).map((g) => g.error_type);
        assert.deepEqual(await types(`${both}&order=count`), ['B', 'A']);
        assert.deepEqual((await types(`${both}&order=last_hour`)), ['B', 'A']);
        assert.deepEqual((await types(`${both}&order=first_seen`)).sort(), ['A', 'B']);
        assert.deepEqual(await types(`${both}&error_type=A`), ['A']);
        assert.deepEqual(await types(`${both}&type=other`), []);
        assert.deepEqual(await types(`${both}&since=${Date.now() + 60000}`), []);
        const page = await server.get(`/failure-groups?${both}&limit=1`);
        assert.deepEqual([page.json.failure_groups.length, page.json.total], [1, 2]);
    });

    it('say_whose_fault_they_were_and_are_found_by_it_and_metrics_count_them', async () => {
        const queue = queueName();
        const counted = async () => Number(/^tenax_runs_failed_total\{culprit="dependency"\} (\d+)$/m
            .exec((await server.get('/metrics')).text)[1]);
        const before = await counted();
        for (const culprit of ['dependency', 'node', 'dependency'])
            await failOne(server, queue, { message: 'm', culprit });
        await failOne(server, queue, { message: 'other', exit_code: 1 });
        const [g, ...more] = await groupsOf(server, `queue=${queue}&culprit=node`);
        assert.deepEqual(g.culprits, [{ culprit: 'dependency', count: 2 },
            { culprit: 'node', count: 1 }]);
        assert.deepEqual(more, []);
        assert.deepEqual((await groupsOf(server, `queue=${queue}&culprit=job`))[0].culprits,
            [{ culprit: 'job', count: 1 }]);
        assert.equal(await counted() - before, 2);
        assertError(await server.get('/failure-groups?culprit=nod'), 400, 'bad_value',
            /no.*'nod'; did you mean node/);
        const list = await run(['failures', '--url', server.url(), '--queue', queue, '--culprit',
            'dependency']);
        assert.match(list.stdout, / CULPRIT +ERROR\n.* dependency 2, node 1 +m\n$/, list.stderr);
        const one = await run(['failures', g.group, '--url', server.url()]);
        assert.match(one.stdout, /^culprit +dependency 2, node 1$/m);
        const events = await run(['events', '--url', server.url(), '--queue', queue, '--since', '0']);
        assert.match(events.stdout, / by w: dead: .*; culprit node$/m, events.stderr);
    });

    it('are_refused_to_questions_that_make_no_sense', async () => {
        assertError(await server.get(`/failure-groups/${UNKNOWN}`), 404, 'not_found');
        assertError(await server.get('/failure-groups/x'), 404, 'not_found');
        for (const query of ['order=size', 'limit=0', 'limit=1001', 'since=x'])
            assertError(await server.get(`/failure-groups?${query}`), 400, 'bad_value');
        assertError(await server.get('/failure-groups?colour=red'), 400, 'unknown_field');
        assertError(await server.get('/failure-groups?limit=1&limit=2'), 400, 'duplicate_field');
        assertError(await server.get('/jobs?failure_group=x'), 400, 'bad_value');
    });

    it('include_leases_that_ran_out', async () => {
        const queue = queueName();
        await server.enqueue({ queue, retry_limit: 1 });
        await server.claimConfirmed(queue, { worker: 'one', lease_ms: 100 });
        await server.claimOne(queue, { worker: 'two' });
        const [g] = await groupsOf(server, `queue=${queue}`);
        assert.deepEqual([g.outcome, g.error_type], ['claim-expired', 'claim-expired']);
        assert.equal(g.message, 'claim expired: worker <text> did not renew its lease');
    });
});

describe('jobs', () => {
    const server = useServer();

    it('are_filtered_by_group_error_type_and_times', async () => {
        const queue = queueName();
        const first = await failOne(server, queue, { message: 'after 3 s', error_type: 'Slow' });
        const second = await failOne(server, queue, { message: 'after 4 s', error_type: 'Slow' });
        await failOne(server, queue, { message: 'after 4 s', error_type: 'Slower' });
        const fresh = await server.enqueue({ queue });
        const [g] = await groupsOf(server, `queue=${queue}&error_type=Slow`);
        const listed = await server.get(`/jobs?failure_group=${g.group}`);
        assert.deepEqual(listed.json.jobs.map((job) => job.id), [first, second]);
        assert.equal(await count(server, `queue=${queue}&error_type=Slow`), 2);
        assert.equal(await count(server, `queue=${queue}&error_type=slow`), 0);
        const { failed_at: failed } = await server.job(second);
        assert.ok(await count(server, `queue=${queue}&failed_at=${failed}`) >= 1);
        assert.equal(await count(server, `queue=${queue}&failed_at=..${failed + 60000}`), 3);
        assert.equal(await count(server, `queue=${queue}&failed_at=${failed + 60000}..`), 0);
        assert.equal(await count(server, `queue=${queue}&enqueued_at=${fresh.ready_at}..`) >= 1,
            true);
        assert.equal(await count(server, `queue=${queue}&enqueued_at=..1000`), 0);
        assert.equal(await count(server, `queue=${queue}&resolution=failed&worker=w`), 3);
    });

    it('of_a_group_are_retried_together_and_leave_it', async () => {
        const queue = queueName();
        for (const message of ['a 1', 'a 2', 'b'])
            await failOne(server, queue, { message });
        const [g] = (await groupsOf(server, `queue=${queue}`)).filter((x) => x.count === 2);
        const dry = await server.post(`/jobs/retry?failure_group=${g.group}&dry_run=true`);
        assert.deepEqual([dry.json.count, dry.json.sample.length], [2, 2]);
        const res = await server.post(`/jobs/retry?failure_group=${g.group}`);
        assert.equal(res.json.retried, 2);
        assert.equal(await count(server, `queue=${queue}&status=dead`), 1);
        assert.equal(await count(server, `queue=${queue}&status=ready`), 2);
    });
});

describe('tenax failures', () => {
    const server = useServer();

    it('lists_groups_and_shows_one', async () => {
        const queue = queueName();
        await failOne(server, queue, { message: 'no answer in 3 s', error_type: 'Timeout' });
        const list = await run(['failures', '--url', server.url(), '--queue', queue, '--since',
            '1h', '--order', 'count']);
        assert.equal(list.code, 0, list.stderr);
        assert.match(list.stdout, /^GROUP +COUNT +LAST HOUR +TREND/);
        assert.match(list.stdout, /Timeout: no answer in <n> s/);
        const [g] = await groupsOf(server, `queue=${queue}`);
        const one = await run(['failures', g.group, '--url', server.url()]);
        assert.equal(one.code, 0, one.stderr);
        assert.match(one.stdout, new RegExp(`group +${g.group}\n`));
        assert.match(one.stdout, /minutes +▁{59}█ {2}at most 1\n/);
        assert.match(one.stdout, new RegExp(`job +${g.samples[0].job}\n`));
        const json = await run(['failures', '--url', server.url(), '-o', 'json']);
        assert.ok(JSON.parse(json.stdout).length >= 1);
        const jobs = await run(['jobs', '--failure-group', g.group, '--error-type', 'Timeout',
            '--failed-at', '1..', '--enqueued-at', '1..', '--url', server.url(), '-o', 'json']);
        assert.equal(JSON.parse(jobs.stdout)[0].id, g.samples[0].job);
    });

    it('says_when_there_is_nothing', async () => {
        const none = await run(['failures', '--url', server.url(), '--queue', queueName()]);
        assert.deepEqual([none.code, none.stdout], [0, '']);
        assert.match(none.stderr, /no such failures/);
        const unknown = await run(['failures', UNKNOWN, '--url', server.url()]);
        assert.notEqual(unknown.code, 0);
    });
});

describe('groups of failures', () => {
    it('survive_a_kill', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        await failOne(server, 'q', { message: 'a 1' });
        await failOne(server, 'q', { message: 'a 2' });
        const [before] = await groupsOf(server, 'queue=q');
        await server.signal('SIGKILL');
        await server.start();
        const [after] = await groupsOf(server, 'queue=q');
        assert.deepEqual([after.group, after.count, after.samples],
            [before.group, 2, before.samples]);
        assert.deepEqual([sum(after.per_minute), sum(after.per_hour)], [2, 2]);
        await failOne(server, 'q', { message: 'a 3' });
        const [more] = await groupsOf(server, 'queue=q');
        assert.deepEqual([more.count, sum(more.per_minute), sum(more.per_hour)], [3, 3, 3]);
        assert.equal((await server.post('/reset')).status, 204);
        assert.deepEqual(await groupsOf(server, ''), []);
    });

    it('are_never_more_than_the_limit', async (t) => {
        const server = new Server({ args: ['--failure-groups', '2'] });
        await server.start();
        t.after(() => server.clean());
        for (const message of ['a', 'b', 'c'])
            await failOne(server, 'q', { message });
        const res = await server.get('/failure-groups');
        assert.deepEqual([res.json.total, res.json.dropped], [2, 1]);
    });

    it('are_seen_in_ones_own_queues_alone', async (t) => {
        const { server, as } = await guarded(t, {
            mail: { roles: ['viewer'], queues: ['mail'] }, all: { roles: ['operator'] },
        });
        for (const queue of ['mail', 'sms']) {
            const { json: { id } } = await as('all').post('/jobs',
                { queue, type: 't', payload: null });
            const { json: { jobs: [{ token }] } } = await as('all').post('/jobs/claim',
                { queues: [queue], count: 1, wait_ms: 20000 });
            await as('all').post(`/jobs/${id}/failure`, { token, message: 'm', kill: true });
        }
        const all = (await as('all').get('/failure-groups')).json.failure_groups;
        assert.equal(all.length, 2);
        const own = (await as('mail').get('/failure-groups')).json;
        assert.deepEqual([own.failure_groups.map((g) => g.queue), own.total], [['mail'], 1]);
        const sms = all.find((g) => g.queue === 'sms');
        assertError(await as('mail').get(`/failure-groups/${sms.group}`), 404, 'not_found');
        assertError(await as('mail').get('/failure-groups?queue=sms'), 403,
            'insufficient_rights');
        assert.equal((await server.get('/failure-groups')).status, 401);
    });
});
