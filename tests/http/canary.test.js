// SPDX-License-Identifier: Apache-2.0
'use strict';

// Retries with canaries: some of the dead jobs first, and the rest only if these succeed.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { guarded } = require('./access');
const { Server, assertError, queueName, run, until, useServer } = require('./harness');

const LONG = { retention: { completed_ms: 600000 } };

// So many dead jobs of a queue, in the order of their ids.
async function die(server, queue, count, fields = {}) {
    const ids = await server.enqueueMany(Array.from({ length: count },
        () => ({ queue, ...LONG, ...fields })));
    for (const job of await server.claim({ queues: [queue], count }))
        await server.post(`/jobs/${job.id}/failure`,
            { token: job.token, message: 'no', error_type: 'E', kill: true });
    return ids;
}

async function begin(server, queue, query = '&canary=2') {
    const res = await server.post(`/jobs/retry?queue=${queue}${query}`);
    assert.equal(res.status, 202, res.text);
    return res.json;
}

async function canary(server, id) {
    const res = await server.get(`/canary-retries/${id}`);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

function becomes(server, id, state) {
    return until(async () => {
        const now = await canary(server, id);
        return now.state === state && now;
    }, () => `canary retry ${id} is ${state}`);
}

async function statuses(server, ids) {
    return Promise.all(ids.map(async (id) => (await server.job(id)).status));
}

// The next job of the queue, reported on.
async function report(server, queue, what = 'success', body = {}) {
    const job = await server.claimOne(queue, { worker: 'w' }); // who may repeat the claim
    const res = await server.post(`/jobs/${job.id}/${what}`, { token: job.token, ...body });
    assert.ok(res.status < 300, res.text);
    return job.id;
}

describe('a retry with canaries', () => {
    const server = useServer();

    it('retries_the_rest_when_all_of_them_have_succeeded', async () => {
        const queue = queueName();
        const ids = await die(server, queue, 5);
        const begun = await begin(server, queue);
        assert.equal(begun.state, 'canary');
        assert.deepEqual(begun.canaries,
            ids.slice(0, 2).map((id) => ({ id, outcome: 'waiting' })));
        assert.deepEqual([begun.filter, begun.ended_at, begun.retried],
            [`queue=${queue}`, null, 0]);
        assert.deepEqual(await statuses(server, ids), ['ready', 'ready', 'dead', 'dead', 'dead']);
        await report(server, queue);
        await until(async () => (await canary(server, begun.id)).canaries[0].outcome === 'succeeded');
        assert.deepEqual(await statuses(server, ids.slice(1)), ['ready', 'dead', 'dead', 'dead']);
        await report(server, queue);
        const done = await becomes(server, begun.id, 'done');
        assert.deepEqual(done.canaries.map(({ outcome }) => outcome), ['succeeded', 'succeeded']);
        assert.equal(done.retried, 3);
        assert.ok(done.ended_at >= done.began_at);
        assert.deepEqual(await statuses(server, ids.slice(2)), ['ready', 'ready', 'ready']);
    });

    it('leaves_the_rest_if_one_of_them_fails_though_it_is_tried_again', async () => {
        const queue = queueName();
        const ids = await die(server, queue, 4);
        const { id } = await begin(server, queue);
        await report(server, queue);
        const bad = await report(server, queue, 'failure', { message: 'still\nnot' });
        const failed = await becomes(server, id, 'failed');
        assert.match(failed.reason, new RegExp(`^canary ${bad}: job_requeued: `));
        assert.deepEqual([failed.retried, failed.canaries.map(({ outcome }) => outcome)],
            [0, ['succeeded', 'waiting']]);
        assert.deepEqual(await statuses(server, ids),
            ['completed', 'scheduled', 'dead', 'dead']);
    });

    it('leaves_the_rest_if_one_of_them_is_canceled_or_deleted', async () => {
        for (const end of [(id) => server.post(`/jobs/${id}/cancel`),
            (id) => server.delete(`/jobs/${id}`)]) {
            const queue = queueName();
            const ids = await die(server, queue, 2);
            const { id } = await begin(server, queue, '&canary=1');
            await end(ids[0]);
            await becomes(server, id, 'failed');
            assert.equal((await server.job(ids[1])).status, 'dead');
        }
    });

    it('takes_only_jobs_as_canaries_that_can_be_retried', async () => {
        const queue = queueName(), budget = `b-${queue}`;
        const budgets = [{ key: budget, create_with: { strategy: { type: 'while_in_flight' }, allocation: 5 } }];
        const stuck = await die(server, queue, 2, { budgets });
        const gone = await server.delete(`/budgets/${budget}`);
        assert.equal(gone.status, 204, gone.text);
        assertError(await server.post(`/jobs/retry?queue=${queue}&canary=1`), 422, 'unprocessable');
        const { remedy } = (await server.get(`/jobs/${stuck[0]}/explain`)).json;
        assert.match(remedy, new RegExp(`a retry is refused: there is no budget '${budget}'`));
        const ids = await die(server, queue, 2);
        const { id, canaries } = await begin(server, queue, '&canary=1');
        assert.equal(canaries[0].id, ids[0]);
        await report(server, queue);
        assert.equal((await becomes(server, id, 'done')).retried, 1);
        assert.deepEqual(await statuses(server, stuck), ['dead', 'dead']);
    });

    it('ends_if_a_canary_is_deleted_at_any_moment', async () => {
        for (let n = 0; n < 20; n++) {
            const queue = queueName();
            const [id] = await die(server, queue, 1);
            const [begun] = await Promise.all([
                server.post(`/jobs/retry?queue=${queue}&canary=1`), server.delete(`/jobs/${id}`)]);
            if (begun.status !== 202)
                assertError(begun, 422, 'unprocessable');
            else
                assert.match((await becomes(server, begun.json.id, 'failed')).reason, /delete/);
        }
    });

    it('counts_a_run_that_was_given_back_neither_way', async () => {
        const queue = queueName();
        await die(server, queue, 2);
        const { id } = await begin(server, queue, '&canary=1');
        await report(server, queue, 'release');
        assert.equal((await canary(server, id)).state, 'canary');
        await report(server, queue);
        await becomes(server, id, 'done');
    });

    it('goes_by_the_whole_filter_and_rate_for_the_rest', async () => {
        const queue = queueName();
        const ids = await die(server, queue, 4, { payload: { n: 1 } });
        const others = await die(server, queue, 2, { payload: { n: 2 } });
        const { id, rate } = await begin(server, queue,
            `&canary=1&rate=2&filter=${encodeURIComponent('.n == 1')}&error_type=E`);
        assert.equal(rate, 2);
        await report(server, queue);
        assert.equal((await becomes(server, id, 'done')).retried, 3);
        assert.deepEqual(await statuses(server, others), ['dead', 'dead']);
        const at = await Promise.all(ids.slice(1).map(async (one) => (await server.job(one)).ready_at));
        assert.ok(at[2] - at[0] >= 900, `${at}`);
    });

    it('can_be_stopped_before_the_rest_and_not_later', async () => {
        const queue = queueName();
        const ids = await die(server, queue, 3);
        const { id } = await begin(server, queue, '&canary=1');
        const stopped = await server.post(`/canary-retries/${id}/stop`);
        assert.deepEqual([stopped.status, stopped.json.state], [200, 'stopped']);
        await report(server, queue);
        assertError(await server.post(`/canary-retries/${id}/stop`), 409, 'conflict');
        assert.deepEqual(await statuses(server, ids), ['completed', 'dead', 'dead']);
        assert.equal((await canary(server, id)).state, 'stopped');
        const list = (await server.get('/canary-retries')).json.canary_retries;
        assert.equal(list[0].id, id);
    });

    it('refuses_what_makes_no_sense', async () => {
        const queue = queueName();
        assertError(await server.post(`/jobs/retry?queue=${queue}&canary=1`), 422, 'unprocessable');
        for (const wrong of ['0', '101', 'x', ''])
            assertError(await server.post(`/jobs/retry?queue=${queue}&canary=${wrong}`), 400, 'bad_value');
        assertError(await server.post(`/jobs/retry?queue=${queue}&canary=1&undo=1h`), 422, 'unprocessable');
        assertError(await server.post(`/jobs/retry?queue=${queue}&canary=1&filter=%5B`), 400, 'bad_value');
        for (const id of ['0', 'x', '999999'])
            assertError(await server.get(`/canary-retries/${id}`), 404, 'not_found');
        const ids = await die(server, queue, 2);
        const dry = await server.post(`/jobs/retry?queue=${queue}&canary=1&dry_run=true`);
        assert.deepEqual([dry.status, dry.json.count], [200, 2]);
        assert.deepEqual(await statuses(server, ids), ['dead', 'dead']);
    });

    it('is_begun_by_the_command_line', async () => {
        const queue = queueName();
        const ids = await die(server, queue, 3);
        const out = await run(['retry', '--url', server.url(), '--queue', queue, '--canary', '2']);
        assert.equal(out.code, 0, out.stderr);
        const [, id] = /^canary retry (\d+): the rest follows if these succeed\n/.exec(out.stdout);
        assert.deepEqual(out.stdout.split('\n').slice(1, 3), ids.slice(0, 2).map((one) => `  ${one}`));
        assert.equal((await canary(server, id)).state, 'canary');
        for (const more of [[ids[0]], ['--queue', queue, '--undo', '1h']]) {
            const wrong = await run(['retry', '--url', server.url(), '--canary', '2', ...more]);
            assert.equal(wrong.code, 2, wrong.stdout);
        }
    });
});

describe('retries with canaries over a kill', () => {
    it('go_on_and_know_what_became_of_their_canaries', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        const good = await die(server, 'good', 4), bad = await die(server, 'bad', 3);
        const over = await die(server, 'over', 1);
        const { id: goodId } = await begin(server, 'good');
        const { id: badId } = await begin(server, 'bad', '&canary=1');
        const { id: overId } = await begin(server, 'over', '&canary=1');
        await report(server, 'over');
        await becomes(server, overId, 'done');
        await report(server, 'good');
        const held = await server.claimOne('bad', { lease_ms: 60000 });
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await canary(server, overId)).state, 'done');
        assert.equal((await server.job(over[0])).status, 'completed');
        await until(async () => (await canary(server, goodId)).canaries[0].outcome === 'succeeded');
        assert.equal((await canary(server, goodId)).state, 'canary');
        await server.post(`/jobs/${held.id}/failure`, { token: held.token, message: 'no', kill: true });
        await becomes(server, badId, 'failed');
        assert.equal((await server.job(bad[1])).status, 'dead');
        await report(server, 'good');
        assert.equal((await becomes(server, goodId, 'done')).retried, 2);
        assert.deepEqual(await statuses(server, good.slice(2)), ['ready', 'ready']);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await canary(server, badId)).state, 'failed');
        const next = await begin(server, 'bad', '&canary=1');
        assert.equal(next.id, overId + 1);
    });

    it('lose_nothing_wherever_it_comes', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        for (let n = 0; n < 6; n++) {
            const queue = `q${n}`;
            const ids = await die(server, queue, 4);
            const { id } = await begin(server, queue, '&canary=1');
            const done = report(server, queue).catch(() => null);
            await new Promise((resolve) => setTimeout(resolve, n));
            await server.signal('SIGKILL');
            await done;
            await server.start();
            const [first] = await statuses(server, ids);
            if (first !== 'completed') {
                const { json } = await server.post(`/jobs/${ids[0]}/claim`, { worker: 'w' });
                await server.post(`/jobs/${ids[0]}/success`, { token: json.token });
            }
            assert.equal((await becomes(server, id, 'done')).retried, 3);
            assert.deepEqual(await statuses(server, ids), ['completed', 'ready', 'ready', 'ready']);
        }
    });
});

describe('rights to retries with canaries', () => {
    it('are_those_of_an_operator_of_all_queues', async (t) => {
        const { server, as } = await guarded(t, { all: { roles: ['operator'] },
            some: { roles: ['operator'], queues: ['q-*'] }, viewer: { roles: ['viewer'] } });
        const res = await as('all').post('/jobs', { queue: 'q-1', type: 't', payload: null });
        const taken = (await as('admin').post('/jobs/claim', { queues: ['q-1'] })).json.jobs[0];
        await as('admin').post(`/jobs/${taken.id}/failure`, { token: taken.token, message: 'm', kill: true });
        for (const who of ['some', 'viewer']) {
            assertError(await as(who).post('/jobs/retry?queue=q-1&canary=1'), 403, 'insufficient_rights');
            assertError(await as(who).get('/canary-retries'), 403, 'insufficient_rights');
        }
        assert.equal((await server.get('/health')).status, 200);
        const begun = await as('all').post('/jobs/retry?queue=q-1&canary=1');
        assert.equal(begun.status, 202, begun.text);
        assert.equal(begun.json.canaries[0].id, res.json.id);
        assert.match(JSON.stringify(begun.json.by), /retryJobs/);
        const stopped = await as('all').post(`/canary-retries/${begun.json.id}/stop`);
        assert.equal(stopped.json.state, 'stopped');
        const { text } = await as('admin').get('/audit?limit=10');
        assert.match(text, /retryJobs/);
        assert.match(text, /stopCanaryRetry/);
    });
});
