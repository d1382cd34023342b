// SPDX-License-Identifier: Apache-2.0
'use strict';

// Gangs: jobs that are handed out together or not at all, and tried again together.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, until, useServer } = require('./harness');

let gangs = 0;
const newGang = (cardinality) => ({ id: `gang-${++gangs}`, cardinality });
const NO_BACKOFF = { base_ms: 0, exponent: 0, jitter_ms: 0 };

function specs(queue, gang, count, fields = {}) {
    return Array.from({ length: count }, () => ({
        queue, type: 't', payload: null, gang, ...fields,
    }));
}

async function enqueue(server, queue, gang, count, fields) {
    const res = await server.post('/jobs/bulk', { jobs: specs(queue, gang, count, fields) });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs.map((job) => job.id);
}

const idsOf = (jobs) => jobs.map((job) => job.id).sort();
const claim = (server, queue, count, fields) =>
    server.claim({ queues: [queue], count, ...fields });

async function outcomes(server, id) {
    return (await server.runs(id)).map((run) => run.outcome);
}

describe('a gang', () => {
    const server = useServer();

    it('is_handed_out_once_it_is_complete', async () => {
        const queue = queueName();
        const gang = newGang(3);
        const first = await enqueue(server, queue, gang, 2);
        assert.deepEqual(await claim(server, queue, 9), []);
        const waiting = await server.job(first[0]);
        assert.equal(waiting.status, 'ready');
        assert.deepEqual(waiting.gang, { ...gang, generation: 0, members: 2, active: 0 });
        const why = await server.get(`/jobs/${first[0]}/explain`);
        assert.match(why.json.summary, /its gang has 2 of its 3 members/);
        const last = await enqueue(server, queue, gang, 1);
        const still = await server.get(`/jobs/${first[0]}/explain`);
        assert.match(still.json.summary, /the 3 members of its gang are handed out together/);
        const jobs = await claim(server, queue, 9);
        assert.deepEqual(idsOf(jobs), [...first, ...last].sort());
        assert.deepEqual(jobs[0].gang, { ...gang, generation: 0 });
        assert.equal((await server.job(first[0])).gang.active, 3);
    });

    it('goes_to_a_claim_that_does_not_wait_whatever_older_jobs_there_are', async () => {
        const queue = queueName();
        const unwanted = await server.enqueue({ queue: queueName() }); // nobody takes it
        const older = await server.enqueue({ queue });
        const ids = await enqueue(server, queue, newGang(2), 2);
        const jobs = await claim(server, queue, 3, { wait_ms: 0 });
        assert.deepEqual(idsOf(jobs), [older.id, ...ids].sort());
        assert.equal((await server.job(unwanted.id)).status, 'ready');
    });

    it('is_not_handed_out_in_part', async () => {
        const queue = queueName();
        const ids = await enqueue(server, queue, newGang(3), 3);
        assert.deepEqual(await claim(server, queue, 2), []);
        const other = await server.enqueue({ queue });
        assert.deepEqual(idsOf(await claim(server, queue, 2)), [other.id]);
        assert.deepEqual(idsOf(await claim(server, queue, 3)), ids.sort());
    });

    it('goes_to_several_takers_that_have_room_together', async () => {
        const queue = queueName();
        const waits = claim(server, queue, 1, { wait_ms: 60000 });
        const stream = await server.take(`?queue=${queue}&prefetch=2`);
        const ids = await enqueue(server, queue, newGang(3), 3);
        const got = [...(await waits).map((job) => job.id), ...(await stream.nextIds(2))];
        assert.deepEqual(got.sort(), ids.sort());
        stream.close();
    });

    it('is_tried_again_as_a_whole_and_counted_once', async () => {
        const queue = queueName();
        const gang = newGang(3);
        const ids = await enqueue(server, queue, gang, 3, { backoff: NO_BACKOFF });
        const [a, b, c] = await claim(server, queue, 3);
        const res = await server.post(`/jobs/${b.id}/failure`, { message: 'm', token: b.token });
        assert.equal(res.status, 200, res.text);
        for (const job of [a, b, c]) {
            const now = await server.job(job.id);
            assert.deepEqual(now.gang, { ...gang, generation: 1, members: 3, active: 0 });
            assert.equal(now.attempts, 1, 'a gang has one account');
            assert.deepEqual(await outcomes(server, job.id),
                [job === b ? 'failed' : 'gang-retried']);
        }
        const [run] = await server.runs(a.id);
        assert.match(run.reason, /another member of its gang is retried$/);
        // Nobody knows yet that the runs of the others have ended: their workers say so, too late or not.
        assert.deepEqual(await claim(server, queue, 9), []);
        assert.match((await server.get(`/jobs/${c.id}/explain`)).json.summary, /its old run, which may still go on/);
        const failed = await server.post(`/jobs/${c.id}/failure`, { token: c.token, message: 'as well' });
        assert.equal(failed.status, 200, failed.text);
        assert.match(failed.json.reason, /another member of its gang is retried; it failed as well; it has ended$/);
        for (const [verb, body] of [['success', {}], ['renew', {}], ['release', {}],
            ['failure', { message: 'm' }]]) {
            const late = await server.post(`/jobs/${a.id}/${verb}`, { token: a.token, ...body });
            assertError(late, 409, 'stale_gang', /as generation 1$/);
        }
        // `b` ended by itself.
        assertError(await server.post(`/jobs/${b.id}/success`, { token: b.token }), 409,
            'stale_token');
        const again = await claim(server, queue, 9, { wait_ms: 30000 });
        assert.deepEqual(idsOf(again), ids.sort());
        assertError(await server.post(`/jobs/${a.id}/success`, { token: a.token }), 409,
            'stale_gang');
        for (const job of again) {
            assert.equal(job.gang.generation, 1);
            const done = await server.post(`/jobs/${job.id}/success`, { token: job.token });
            assert.equal(done.status, 204, done.text);
        }
    });

    it('is_dead_with_the_first_of_it_that_is', async () => {
        const queue = queueName(), gang = newGang(3);
        await enqueue(server, queue, gang, 3, { retention: { dead_ms: 60000 } });
        const [a, b, c] = await claim(server, queue, 3);
        await server.post(`/jobs/${a.id}/success`, { token: a.token });
        const res = await server.post(`/jobs/${b.id}/failure`, { token: b.token, message: 'm', kill: true });
        assert.equal(res.status, 200, res.text);
        const mate = await server.job(c.id);
        assert.deepEqual([mate.status, mate.resolution], ['dead', 'gang-dead']);
        assert.match(mate.reason, new RegExp(`^dead: ${b.id}, another member of its gang '${gang.id}', is: dead`));
        const [run] = await server.runs(c.id);
        assert.deepEqual([run.outcome, run.culprit], ['gang-retried', 'gang']);
        const list = await server.get(`/jobs?queue=${queue}&resolution=gang-dead`);
        assert.deepEqual(list.json.jobs.map((job) => job.id), [c.id]);
    });

    it('whose_stream_breaks_is_tried_again_as_a_whole', async () => {
        const queue = queueName();
        const ids = await enqueue(server, queue, newGang(3), 3);
        const stream = await server.take(`?queue=${queue}&prefetch=2`);
        const [claimed] = await claim(server, queue, 1, { wait_ms: 30000 });
        await stream.nextIds(2);
        stream.close();
        await until(async () => (await server.job(claimed.id)).status === 'scheduled', 'it is back');
        await server.post(`/jobs/${claimed.id}/terminated`, { token: claimed.token, run: 0 });
        assert.equal((await server.job(claimed.id)).status, 'ready');
        assert.deepEqual(await outcomes(server, claimed.id), ['gang-retried']);
        const again = await claim(server, queue, 3);
        assert.deepEqual(idsOf(again), ids.sort());
        assert.deepEqual(again.map((job) => job.gang.generation), [1, 1, 1]);
    });

    it('outlives_a_crash_whole', async () => {
        const queue = queueName();
        const waiting = newGang(2);
        await enqueue(server, queue, newGang(2), 2, { type: 'claimed' });
        const held = await claim(server, queue, 2);
        const streamed = await enqueue(server, queue, newGang(2), 2);
        const stream = await server.take(`?queue=${queue}&prefetch=2`);
        await stream.nextIds(2);
        const [lonely] = await enqueue(server, queue, waiting, 1);
        await server.signal('SIGKILL');
        await server.start();
        // Claims are held on; the streams are cut off, and their gang comes back together.
        for (const job of held) {
            const res = await server.post(`/jobs/${job.id}/success`, { token: job.token });
            assert.equal(res.status, 204, res.text);
        }
        const again = await claim(server, queue, 9);
        assert.deepEqual(idsOf(again), streamed.sort());
        assert.deepEqual(again.map((job) => job.gang.generation), [1, 1]);
        assert.equal((await server.job(lonely)).status, 'ready');
        const [late] = await enqueue(server, queue, waiting, 1);
        assert.deepEqual(idsOf(await claim(server, queue, 9)), [lonely, late].sort());
    });

    it('has_as_many_seats_as_its_cardinality', async () => {
        const queue = queueName();
        const gang = newGang(2);
        const bulk = (list) => server.post('/jobs/bulk', { jobs: list });
        assertError(await bulk(specs(queue, gang, 3)), 422, 'unprocessable', /all of its 2/);
        const count = await server.get(`/jobs/count?queue=${queue}`);
        assert.equal(count.json.count, 0, 'all or none');
        await enqueue(server, queue, gang, 1);
        assertError(await bulk(specs(queue, { ...gang, cardinality: 3 }, 1)), 422,
            'unprocessable', /cardinality of 2, not 3/);
        await enqueue(server, queue, gang, 1);
        assertError(await bulk(specs(queue, gang, 1)), 422, 'unprocessable', /all of its 2/);
        const jobs = await claim(server, queue, 2);
        await server.post(`/jobs/${jobs[0].id}/success`);
        assertError(await bulk(specs(queue, gang, 1)), 422, 'unprocessable', /handed out/);
        await server.post(`/jobs/${jobs[1].id}/success`);
        await enqueue(server, queue, { ...gang, cardinality: 5 }, 1);
    });

    it('waits_as_a_whole_for_a_member_that_is_given_back_for_later', async () => {
        const queue = queueName(), later = Date.now() + 3600000;
        const gang = newGang(2);
        const ids = await enqueue(server, queue, gang, 2);
        const jobs = await claim(server, queue, 9);
        const [one, other] = jobs;
        await server.post(`/jobs/${one.id}/release`, { token: one.token, ready_at: later });
        assertError(await server.post(`/jobs/${other.id}/release`, { token: other.token }), 409, 'stale_gang');
        for (const signal of [null, 'SIGKILL']) {
            if (signal) {
                await server.signal(signal);
                await server.start();
            }
            for (const { id } of jobs) {
                const job = await server.job(id);
                assert.deepEqual([job.status, job.ready_at, job.attempts], ['scheduled', later, 0]);
            }
            assert.deepEqual(await claim(server, queue, 9), []);
        }
        await server.patch(`/jobs?id=${ids.join(',')}`, { ready_at: null });
        assert.deepEqual(idsOf(await claim(server, queue, 9)), ids.sort());
    });

    it('is_refused_where_it_makes_no_sense', async () => {
        const post = (fields) => server.post('/jobs', {
            queue: 'q', type: 't', payload: null, ...fields,
        });
        const gang = newGang(2);
        for (const [fields, code, where] of [
            [{ gang: { id: 'x' } }, 'missing_field', /^gang: cardinality/],
            [{ gang: { cardinality: 2 } }, 'missing_field', /^gang: id/],
            [{ gang: { id: 'x', cardinality: 0 } }, 'bad_value', /^gang: cardinality/],
            [{ gang: { id: 'x', cardinality: 1001 } }, 'bad_value', /^gang: cardinality/],
            [{ gang: { id: '', cardinality: 2 } }, 'bad_name', /^gang: id/],
            [{ gang: 'x' }, 'wrong_type', /^gang/],
            [{ gang, unique_key: 'k' }, 'bad_value', /^gang: /],
            [{ gang, batch: { key: 'k', when: '1', fold: '2' } }, 'bad_value', /^gang: /],
        ])
            assertError(await post(fields), 400, code, where);
        const res = await server.request('PUT', '/crons/with-gang', {
            entries: [{
                name: 'e', expression: '0 0 1 1 *',
                job: { queue: 'q', type: 't', payload: null, gang },
            }],
        });
        assertError(res, 400, 'bad_value', /gang: /);
    });
});

describe('a wait that nobody ends', () => {
    const server = new Server({ args: ['--default-dead-job-retention', '1h'] });
    before(() => server.start());
    after(() => server.clean());

    async function ended(id) {
        const job = await until(async () => {
            const now = await server.job(id);
            return now.status === 'dead' && now;
        }, 'it is dead');
        assert.equal(job.resolution, 'wait-exceeded');
        return job.reason;
    }

    it('says_how_long_it_lasts_and_ends_when_the_next_server_knows_a_limit', async () => {
        const [queue, gang] = [queueName(), newGang(3)];
        const members = await enqueue(server, queue, gang, 2);
        const held = await server.enqueue({ queue, hold: true });
        const why = async (id) => (await server.get(`/jobs/${id}/explain`)).json.summary;
        assert.match(await why(members[0]),
            /^ready: .*its gang has 2 of its 3 members, and those are dead if no others come in /);
        assert.match(await why(held.id), /^blocked: it is held until somebody frees it, and is dead if /);
        await server.stop();
        await server.start({ args: [...server.args, '--gang-wait-max', '1s', '--hold-max', '1s'] });
        for (const id of members)
            assert.match(await ended(id), /its gang '.*' had 2 of its 3 members, and no others came/);
        assert.match(await ended(held.id), /it was held, and nobody freed it within 1 s/);
        const list = await server.get('/jobs?resolution=wait-exceeded');
        assert.equal(list.json.jobs.length, 3);
    });

    it('is_not_begun_by_members_that_would_wait_for_each_other', async () => {
        const [queue, gang] = [queueName(), newGang(2)];
        const jobs = specs(queue, gang, 2);
        jobs[1].depends_on = [0];
        assertError(await server.post('/jobs/bulk', { jobs }), 422, 'unprocessable', /could never run/);
    });
});
