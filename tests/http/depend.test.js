// SPDX-License-Identifier: Apache-2.0
'use strict';

// Jobs that wait for other jobs.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, until, useServer } = require('./harness');
const { pack, plain, unpack } = require('./msgpack');

const HOUR = 3600000;
const UNKNOWN = '03fr82s077azjmurys29qjch4';

async function succeed(server, id, fields) {
    const res = await server.post(`/jobs/${id}/success`, fields);
    assert.equal(res.status, 204, res.text);
}

async function kill(server, id) {
    const res = await server.post(`/jobs/${id}/failure`, { message: 'no', kill: true });
    assert.equal(res.status, 200, res.text);
}

async function statusOf(server, id) {
    const res = await server.get(`/jobs/${id}`);
    return res.status === 404 ? 'gone' : res.json.status;
}

async function bulk(server, jobs) {
    const res = await server.post('/jobs/bulk',
        { jobs: jobs.map((job) => ({ type: 'test', payload: null, ...job })) });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs;
}

describe('a job that waits for others', () => {
    const server = useServer();

    it('is_blocked_and_says_for_what', async () => {
        const queue = queueName();
        const a = await server.enqueue({ queue });
        const b = await server.enqueue({ queue, depends_on: [a.id] });
        assert.equal(b.status, 'blocked');
        const { status, depends_on: on, when, on_dependency_death: death, waits_for: left } =
            await server.job(b.id);
        assert.deepEqual([status, on, when, death, left],
            ['blocked', [a.id], 'all_completed', 'block', [a.id]]);
        const page = await server.get(`/jobs?queue=${queue}&status=blocked`);
        assert.deepEqual(page.json.jobs.map((job) => job.id), [b.id]);
        assert.equal((await server.get(`/jobs/count?queue=${queue}&status=blocked`)).json.count, 1);
        assert.deepEqual((await server.claim({ queues: [queue], count: 9 })).map((j) => j.id), [a.id]);
    });

    it('is_handed_out_once_the_last_of_them_has_completed', async () => {
        const queue = queueName();
        const [a, b, c] = await bulk(server,
            [{ queue }, { queue }, { queue, depends_on: [0, 1] }]);
        assert.deepEqual(c.depends_on, [a.id, b.id]);
        assert.equal((await server.claim({ queues: [queue], count: 9 })).length, 2);
        const waiting = server.claimOne(queue);
        await succeed(server, b.id);
        assert.deepEqual((await server.job(c.id)).waits_for, [a.id]);
        await succeed(server, a.id);
        assert.equal((await waiting).id, c.id, 'a claim that waits for it gets it');
        const { waits_for: left, depends_on: on } = await server.job(c.id);
        assert.deepEqual([left, on], [undefined, [a.id, b.id]]);
    });

    it('may_be_part_of_a_graph_in_one_request', async () => {
        const queue = queueName();
        const jobs = await bulk(server, [{ queue }, { queue, depends_on: [0] },
            { queue, depends_on: [0] }, { queue, depends_on: [1, 2] }]);
        const order = [];
        for (let i = 0; i < 4; i++) {
            const job = await server.claimOne(queue);
            order.push(job.id);
            await succeed(server, job.id, { token: job.token });
        }
        assert.deepEqual(order, jobs.map((job) => job.id));
    });

    it('waits_for_its_ready_at_afterwards', async () => {
        const queue = queueName();
        const [a, b] = await bulk(server,
            [{ queue }, { queue, depends_on: [0], ready_at: Date.now() + HOUR }]);
        await server.claimOne(queue);
        await succeed(server, a.id);
        assert.equal(await statusOf(server, b.id), 'scheduled');
    });

    it('follows_what_it_was_told_when_one_of_them_dies', async () => {
        const queue = queueName();
        const [a, block, go, die, ended, heir] = await bulk(server, [{ queue },
            { queue, depends_on: [0] },
            { queue, depends_on: [0], on_dependency_death: 'run' },
            { queue, depends_on: [0], on_dependency_death: 'die' },
            { queue, depends_on: [0], when: 'all_ended' },
            { queue, depends_on: [3], on_dependency_death: 'die' }]);
        await server.claimOne(queue);
        await kill(server, a.id);
        const jobs = await Promise.all([block, go, die, ended, heir].map((j) => server.job(j.id)));
        assert.deepEqual(jobs.map((job) => job.status),
            ['blocked', 'ready', 'dead', 'ready', 'dead']);
        assert.equal(jobs[0].reason, `blocked: job ${a.id}, which it waits for, is dead`);
        assert.equal(jobs[2].reason, `dead: job ${a.id}, which it waited for, is dead`);
        assert.equal(jobs[4].reason, `dead: job ${die.id}, which it waited for, is dead`);
        assert.equal(jobs[2].resolution, 'dependency-dead');
        // Brought back, it has another chance to let the blocked one go.
        assert.equal((await server.post(`/jobs/${a.id}/retry`)).status, 200);
        assert.equal((await server.post(`/jobs/${die.id}/retry`)).json.status, 'blocked');
        const again = (await server.claim({ queues: [queue], count: 9 })).map((job) => job.id);
        assert.deepEqual(again, [a.id, go.id, ended.id]);
        await succeed(server, a.id);
        assert.equal(await statusOf(server, block.id), 'ready');
        assert.equal(await statusOf(server, die.id), 'ready');
        assert.equal((await server.job(block.id)).reason, undefined);
    });

    it('takes_a_deleted_one_for_dead', async () => {
        const queue = queueName();
        const [a, block, die] = await bulk(server, [{ queue }, { queue, depends_on: [0] },
            { queue, depends_on: [0], on_dependency_death: 'die' }]);
        assert.equal((await server.delete(`/jobs/${a.id}`)).status, 204);
        const ended = await server.job(block.id);
        assert.equal(ended.reason,
            `dead: job ${a.id}, which it waited for, has not completed and is no longer there`);
        assert.equal(ended.resolution, 'dependency-dead');
        assert.equal(await statusOf(server, die.id), 'dead');
        assert.equal((await server.post(`/jobs/${block.id}/retry`)).json.status, 'ready');
    });

    it('waits_for_a_deleted_one_until_that_cannot_be_undone', async () => {
        const queue = queueName();
        const [a, block] = await bulk(server, [{ queue }, { queue, depends_on: [0] }]);
        const removed = await server.delete(`/jobs?id=${a.id}&undo=1h`);
        assert.equal(removed.status, 200, removed.text);
        assert.equal((await server.job(block.id)).reason,
            `blocked: job ${a.id}, which it waits for, was deleted`);
        const freed = await server.patch(`/jobs/${block.id}`, { depends_on: null });
        assert.equal(freed.status, 200, freed.text);
        assert.equal(freed.json.status, 'ready');
        const [b, other] = await bulk(server, [{ queue }, { queue, depends_on: [0] }]);
        await server.delete(`/jobs?id=${b.id}&undo=1s`);
        await until(async () => await statusOf(server, other.id) === 'dead');
    });

    it('ends_when_the_undo_cannot_bring_the_deleted_one_back', async () => {
        const queue = queueName(), unique_key = `key-${queue}`;
        const [a, other] = await bulk(server, [{ queue, unique_key }, { queue, depends_on: [0] }]);
        const removed = await server.delete(`/jobs?id=${a.id}&undo=1h`);
        assert.equal(removed.status, 200, removed.text);
        await server.enqueue({ queue, unique_key });
        const undone = await server.post(`/operations/${removed.json.operation}/undo`);
        assert.deepEqual([undone.status, undone.json.undo.undone], [200, 0], undone.text);
        await until(async () => await statusOf(server, other.id) === 'dead');
    });

    it('may_be_changed_canceled_and_deleted', async () => {
        const [queue, other] = [queueName(), queueName()];
        const [a, b, c, d] = await bulk(server, [{ queue }, { queue, depends_on: [0] },
            { queue, depends_on: [0] }, { queue, depends_on: [0] }]);
        const patched = await server.patch(`/jobs/${b.id}`, { queue: other, priority: 1 });
        assert.deepEqual([patched.json.status, patched.json.queue, patched.json.priority],
            ['blocked', other, 1]);
        assert.equal((await server.post(`/jobs/${c.id}/cancel`)).json.status, 'dead');
        assert.equal((await server.delete(`/jobs/${d.id}`)).status, 204);
        await server.claimOne(queue);
        await succeed(server, a.id);
        assert.equal((await server.claimOne(other)).id, b.id);
        assert.equal(await statusOf(server, c.id), 'dead');
        assertError(await server.patch(`/jobs/${c.id}`, { depends_on: null }), 422, 'unprocessable');
        assertError(await server.patch(`/jobs/${b.id}`, { depends_on: [a.id] }), 400,
            'bad_value', /^depends_on: only null/);
    });

    it('may_wait_for_one_that_has_completed_and_is_kept', async () => {
        const queue = queueName();
        const a = await server.enqueue({ queue, retention: { completed_ms: HOUR } });
        await server.claimOne(queue);
        await succeed(server, a.id);
        assert.equal((await server.enqueue({ queue, depends_on: [a.id] })).status, 'ready');
    });

    it('is_refused_if_one_of_them_is_unknown', async () => {
        const queue = queueName();
        const a = await server.enqueue({ queue });
        await server.claimOne(queue);
        await succeed(server, a.id);
        const job = { queue, type: 't', payload: 1 };
        for (const id of [a.id, UNKNOWN, 'nonsense', ''])
            assertError(await server.post('/jobs', { ...job, depends_on: [id] }), 422,
                'unprocessable', /^depends_on\[0\]: there is no job/);
        assertError(await server.post('/jobs', { ...job, depends_on: [a.id] }), 422,
            'unprocessable', /retention was over when it ended is gone, too/);
        assertError(await server.post('/jobs/bulk',
            { jobs: [job, { ...job, depends_on: [0, UNKNOWN] }] }), 422, 'unprocessable',
        /^jobs\[1\]: depends_on\[1\]: there is no job/);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0,
            'nothing of it was stored');
    });

    it('is_refused_if_it_waits_for_itself_or_a_later_one', async () => {
        const queue = queueName();
        const job = { queue, type: 't', payload: 1 };
        assertError(await server.post('/jobs', { ...job, depends_on: [0] }), 422, 'unprocessable',
            /^depends_on\[0\]: 0 is not an earlier job of this request/);
        assertError(await server.post('/jobs/bulk',
            { jobs: [{ ...job, depends_on: [1] }, { ...job, depends_on: [0] }] }), 422,
        'unprocessable', /^jobs\[0\]: depends_on\[0\]: 1 is not an earlier job/);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 0);
    });

    const bad = [
        [{ depends_on: 'x' }, 'wrong_type', /^depends_on: /],
        [{ depends_on: [null] }, 'wrong_type', /^depends_on\[0\]: /],
        [{ depends_on: [-1] }, 'bad_value', /^depends_on\[0\]: /],
        [{ depends_on: [0.5] }, 'bad_value', /^depends_on\[0\]: /],
        [{ depends_on: Array(101).fill(0) }, 'too_many', /^depends_on: at most 100 jobs/],
        [{ depends_on: [0], when: 'never' }, 'bad_value', /^when: all_completed or all_ended/],
        [{ depends_on: [0], on_dependency_death: 'weep' }, 'bad_value', /^on_dependency_death: /],
        [{ depends_on: [0], when: 'all_ended', on_dependency_death: 'die' }, 'bad_value',
            /^on_dependency_death: /],
        [{ depends_on: [0], batch: { key: 'k', when: 'true', fold: '$new' } }, 'bad_value',
            /cannot be batched/],
    ];
    for (const [fields, code, sentence] of bad)
        it(`is_refused_with_${JSON.stringify(fields).slice(0, 60)}`, async () => {
            assertError(await server.post('/jobs',
                { queue: 'q', type: 't', payload: 1, ...fields }), 400, code, sentence);
        });

    it('cannot_be_that_of_a_cron_entry', async () => {
        const a = await server.enqueue({ queue: queueName() });
        assertError(await server.request('PUT', '/crons/g/entries/e', {
            name: 'e', expression: '0 0 * * *',
            job: { queue: 'q', type: 't', payload: 1, depends_on: [a.id] },
        }), 400, 'bad_value', /depends_on/);
    });

    it('may_wait_for_the_holder_of_a_unique_key', async () => {
        const queue = queueName();
        const first = await server.enqueue({ queue, unique_key: queue });
        const res = await server.post('/jobs/bulk', { jobs: [
            { queue, type: 't', payload: 1, unique_key: queue },
            { queue, type: 't', payload: 1, depends_on: [0] }] });
        assert.equal(res.json.jobs[0].duplicate, true);
        assert.deepEqual(res.json.jobs[1].depends_on, [first.id]);
    });

    it('survives_a_crash_at_any_moment', async () => {
        const queue = queueName();
        const [a, b, c] = await bulk(server, [{ queue }, { queue },
            { queue, depends_on: [0, 1] }]);
        await server.claim({ queues: [queue], count: 2, lease_ms: 60000 });
        await succeed(server, a.id);
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.job(c.id)).waits_for, [b.id]);
        await succeed(server, b.id);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal(await statusOf(server, b.id), 'gone');
        assert.equal((await server.claimOne(queue)).id, c.id);
    });

    it('may_be_one_of_very_many', async () => {
        const queue = queueName();
        const many = 2500; // more than are told in one turn
        const [a] = await bulk(server, [{ queue },
            ...Array.from({ length: many }, () => ({ queue, depends_on: [0] }))]);
        await server.claimOne(queue);
        await succeed(server, a.id);
        await server.signal('SIGKILL');
        await server.start();
        await until(async () =>
            (await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count === many,
        'all are ready');
    });

    it('is_the_same_in_MessagePack', async () => {
        const queue = queueName();
        const a = await server.enqueue({ queue });
        const type = 'application/msgpack';
        const res = await server.post('/jobs', pack({
            queue, type: 't', payload: 1, depends_on: [a.id], on_dependency_death: 'run',
        }), { accept: type, 'content-type': type });
        assert.equal(res.status, 201, res.text);
        const job = plain(unpack(res.bytes));
        assert.deepEqual([job.status, job.waits_for, job.on_dependency_death],
            ['blocked', [a.id], 'run']);
    });
});

describe('tenax with jobs that wait', () => {
    const server = useServer();

    async function tenax(args, code = 0, input = '') {
        const end = await run(args, { TENAX_URL: server.url() }, input);
        assert.equal(end.code, code, end.stderr);
        return end;
    }

    it('enqueues_and_shows_them', async () => {
        const queue = queueName();
        const [a, b] = [await server.enqueue({ queue }), await server.enqueue({ queue })];
        const { stdout } = await tenax(['enqueue', '--queue', queue, '--type', 't', '--depends-on',
            `${a.id},${b.id}`, '--depends-when', 'all_completed', '--on-dependency-death', 'die',
            '1']);
        const id = stdout.trim();
        const job = await server.job(id);
        assert.deepEqual([job.status, job.depends_on, job.on_dependency_death],
            ['blocked', [a.id, b.id], 'die']);
        assert.match((await tenax(['job', id])).stdout,
            new RegExp(`^waits for +${a.id} ${b.id}$`, 'm'));
        const [row] = JSON.parse((await tenax(['queues', '--output', 'json'])).stdout)
            .filter((line) => line.queue === queue);
        assert.deepEqual([row.blocked, row.ready], [1, 2]);
    });

    it('refuses_what_is_no_id', async () => {
        assert.match((await tenax(['enqueue', '--queue', 'q', '--type', 't', '--depends-on', '7',
            '1'], 2)).stderr, /'7' is not a job id, .*the first 6 may do/);
        assert.match((await tenax(['enqueue', '--queue', 'q', '--type', 't', '--depends-when',
            'all_ended', '1'], 2)).stderr, /need --depends-on/);
        assert.match((await tenax(['enqueue', '--bulk', '--queue', 'q', '--type', 't'], 2,
            '{"payload": 1}\n{"payload": 1, "depends_on": [0]}\n')).stderr,
        /line 2, column 31: depends_on: lines can name jobs only by their ids/);
    });

    it('shows_progress_checkpoint_and_result', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        await server.post(`/jobs/${id}/progress`,
            { progress: { value: 0.25, note: 'a quarter' }, checkpoint: { at: 1 } });
        const { stdout } = await tenax(['job', id]);
        assert.match(stdout, /^progress +25 % a quarter$/m);
        assert.match(stdout, /^checkpoint +\{\n +"at": 1\n/m);
    });
});
