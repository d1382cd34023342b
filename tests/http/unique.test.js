// SPDX-License-Identifier: Apache-2.0
'use strict';

// Unique keys: who is kept out, by whom, and for how long. A lock must never outlive its job.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, jobOf, queueName, until, useServer } = require('./harness');

const HOUR = 3600000;
const KEEP = { completed_ms: HOUR, dead_ms: HOUR };

function spec(key, fields = {}) {
    return { queue: queueName(), type: 't', payload: null, unique_key: key, ...fields };
}

// The id of the job that keeps another one with this key out, or null. The other one asks for
// the narrowest scope, since only the holder's counts, and is deleted again.
async function holder(server, key) {
    const res = await server.post('/jobs', spec(key, { queue: 'probe' }));
    assert.ok(res.status === 200 || res.status === 201, res.text);
    assert.equal(res.json.duplicate, res.status === 200);
    if (res.json.duplicate)
        return res.json.id;
    assert.equal((await server.delete(`/jobs/${res.json.id}`)).status, 204);
    return null;
}

// A job with this key in that status.
async function make(server, key, scope, status, fields = {}) {
    const later = status === 'scheduled' ? { ready_at: Date.now() + HOUR } : {};
    const job = await server.enqueue({
        ...spec(key, { unique_while: scope, retention: KEEP }), ...later, ...fields,
    });
    if (['in_flight', 'completed', 'dead'].includes(status))
        await server.claimOne(job.queue);
    if (status === 'completed')
        assert.equal((await server.post(`/jobs/${job.id}/success`)).status, 204);
    if (status === 'dead')
        assert.equal((await server.post(`/jobs/${job.id}/failure`,
            { message: 'm', kill: true })).status, 200);
    assert.equal((await server.job(job.id)).status, status);
    return job;
}

const SCOPES = {
    queued: ['scheduled', 'ready'],
    active: ['scheduled', 'ready', 'in_flight'],
    exists: ['scheduled', 'ready', 'in_flight', 'completed', 'dead'],
};
const STATUSES = SCOPES.exists;

describe('a unique key', () => {
    const server = useServer();

    it('makes_the_second_enqueue_answer_200_with_the_first_job', async () => {
        const body = spec('answer', { payload: { a: 1 }, priority: 7 });
        const first = await server.post('/jobs', body);
        assert.equal(first.status, 201);
        assert.equal(first.json.duplicate, false);
        assert.equal(first.json.unique_key, 'answer');
        assert.equal(first.json.unique_while, 'queued');
        const second = await server.post('/jobs', {
            ...body, queue: 'elsewhere', type: 'other', payload: 2, priority: 9,
        });
        assert.equal(second.status, 200);
        assert.deepEqual(second.json, { ...first.json, duplicate: true });
        assert.equal((await server.get('/jobs/count?queue=elsewhere')).json.count, 0);
        const job = jobOf(first.json);
        assert.equal(first.json.folded, false);
        assert.deepEqual(await server.job(job.id), { ...job, payload: { a: 1 } });
    });

    it('is_not_told_of_jobs_that_have_none', async () => {
        const { json: job } = await server.post('/jobs', { queue: 'q', type: 't', payload: 1 });
        for (const member of ['unique_key', 'unique_while'])
            assert.ok(!(member in job), member);
        assert.equal(job.duplicate, false);
        assert.ok(!('unique_key' in await server.enqueue({
            queue: queueName(), unique_key: null, unique_while: null,
        })));
    });

    it('is_compared_byte_for_byte', async () => {
        await server.enqueue(spec('é bytes'));
        for (const other of ['É bytes', 'é bytes ', 'e\u0301 bytes', 'é bytes\u0000'])
            assert.equal(await holder(server, other), null, JSON.stringify(other));
    });

    it('may_be_1024_bytes_long_and_no_longer', async () => {
        const key = 'é'.repeat(512);
        const { id } = await server.enqueue(spec(key));
        assert.equal(await holder(server, key), id);
        assert.equal((await server.job(id)).unique_key, key);
        for (const bad of ['', key + 'x'])
            assertError(await server.post('/jobs', spec(bad)), 400, 'bad_value', /^unique_key: /);
        for (const bad of [7, true, [], {}])
            assertError(await server.post('/jobs', spec(bad)), 400, 'wrong_type', /^unique_key: /);
    });

    it('has_one_of_three_scopes', async () => {
        const bad = (scope) => server.post('/jobs', spec('scoped', { unique_while: scope }));
        for (const scope of ['', 'forever', 'Queued', 'queued '])
            assertError(await bad(scope), 400, 'bad_value', /^unique_while: queued, active or exists/);
        assertError(await bad(1), 400, 'wrong_type', /^unique_while: /);
        const alone = { queue: 'q', type: 't', payload: 1, unique_while: 'active' };
        assertError(await server.post('/jobs', alone), 400, 'missing_field', /unique_key/);
        assert.equal(await holder(server, 'scoped'), null);
    });

    for (const [scope, held] of Object.entries(SCOPES))
        for (const status of STATUSES) {
            const holds = held.includes(status);
            it(`of_scope_${scope}_is_${holds ? 'held' : 'free'}_while_${status}`, async () => {
                const key = `${scope} ${status}`;
                const { id } = await make(server, key, scope, status);
                assert.equal(await holder(server, key), holds ? id : null);
                assert.equal((await server.delete(`/jobs/${id}`)).status, 204);
                assert.equal(await holder(server, key), null);
            });
        }

    it('is_held_through_a_whole_life', async () => {
        const { id, queue } = await make(server, 'life', 'active', 'scheduled');
        const steps = [
            () => server.patch(`/jobs/${id}`, { ready_at: null }),
            () => server.patch(`/jobs/${id}`, { queue: `${queue}-2`, priority: 3 }),
            () => server.claimOne(`${queue}-2`),
            () => server.post(`/jobs/${id}/failure`, { message: 'm', retry_at: 0 }),
            () => server.claimOne(`${queue}-2`),
            () => server.post(`/jobs/${id}/release`),
            () => server.claimOne(`${queue}-2`),
            () => server.post(`/jobs/${id}/failure`, { message: 'm', retry_at: Date.now() + HOUR }),
        ];
        for (const step of steps) {
            await step();
            assert.equal(await holder(server, 'life'), id, `after ${step}`);
        }
        assert.equal((await server.job(id)).status, 'scheduled');
    });

    it('comes_back_with_a_dead_job_that_is_retried', async () => {
        const { id } = await make(server, 'rerun', 'queued', 'dead');
        assert.equal(await holder(server, 'rerun'), null);
        assert.equal((await server.post(`/jobs/${id}/retry`)).status, 200);
        assert.equal(await holder(server, 'rerun'), id);
        assert.equal((await server.post(`/jobs/${id}/cancel`)).status, 200);
        assert.equal(await holder(server, 'rerun'), null);
    });

    it('is_let_go_when_its_job_is_canceled_in_flight', async () => {
        for (const scope of ['active', 'exists']) {
            const { id } = await make(server, `cancel ${scope}`, scope, 'in_flight');
            await server.post(`/jobs/${id}/cancel`);
            assert.equal(await holder(server, `cancel ${scope}`), scope === 'exists' ? id : null);
        }
    });

    it('is_let_go_when_nothing_of_the_job_is_kept', async () => {
        const nothing = { retention: { completed_ms: 0, dead_ms: 0 } };
        for (const verb of ['success', 'failure', 'cancel']) {
            const { id } = await make(server, `nothing ${verb}`, 'exists', 'in_flight', nothing);
            assert.equal(await holder(server, `nothing ${verb}`), id);
            const body = verb === 'failure' ? { message: 'm', kill: true } : undefined;
            await server.post(`/jobs/${id}/${verb}`, body);
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
            assert.equal(await holder(server, `nothing ${verb}`), null);
        }
    });

    it('is_let_go_at_the_very_end_of_the_retention', async () => {
        const job = await make(server, 'over', 'exists', 'in_flight', {
            retention: { completed_ms: 150 },
        });
        await server.post(`/jobs/${job.id}/success`);
        await until(async () => (await server.get(`/jobs/${job.id}`)).status === 404, 'expired');
        assert.equal(await holder(server, 'over'), null);
    });

    it('is_let_go_when_a_claim_expires_for_the_last_time', async () => {
        const job = await server.enqueue(spec('lease', { unique_while: 'active', retry_limit: 0 }));
        const { token } = await server.claimOne(job.queue, { lease_ms: 600000 });
        assert.equal(await holder(server, 'lease'), job.id);
        await server.post(`/jobs/${job.id}/renew`, { token, lease_ms: 100 });
        await until(async () => (await server.job(job.id)).status === 'dead', 'the lease ends');
        assert.equal(await holder(server, 'lease'), null);
    });

    it('is_held_again_by_a_job_that_a_broken_stream_gave_back', async () => {
        const job = await server.enqueue(spec('stream'));
        const taker = await server.take(`?queue=${job.queue}`);
        await taker.next();
        assert.equal(await holder(server, 'stream'), null);
        taker.close();
        await until(async () => (await server.job(job.id)).status === 'ready', 'given back');
        assert.equal(await holder(server, 'stream'), job.id);
    });

    it('is_taken_by_exactly_one_of_many_at_the_same_moment', async () => {
        const all = await Promise.all(Array.from({ length: 64 }, () =>
            server.post('/jobs', spec('race'))));
        assert.equal(all.filter((res) => res.status === 201).length, 1);
        assert.equal(new Set(all.map((res) => res.json.id)).size, 1);
    });

    it('is_let_go_by_bulk_deletes_and_by_a_reset', async () => {
        for (const status of STATUSES)
            await make(server, `gone ${status}`, 'exists', status, { type: 'gone' });
        const res = await server.delete('/jobs?type=gone');
        assert.deepEqual(res.json, { deleted: STATUSES.length });
        for (const status of STATUSES)
            assert.equal(await holder(server, `gone ${status}`), null, status);
        for (const status of STATUSES)
            await make(server, `gone ${status}`, 'exists', status);
        assert.equal((await server.post('/reset')).status, 204);
        for (const status of STATUSES)
            assert.equal(await holder(server, `gone ${status}`), null, status);
    });
});

describe('unique keys in a bulk enqueue', () => {
    const server = useServer();

    it('mark_each_duplicate_and_answer_201_if_any_job_is_new', async () => {
        const old = await server.enqueue(spec('a'));
        const res = await server.post('/jobs/bulk', {
            jobs: [spec('a'), spec('b'), spec('b'), { queue: 'x', type: 't', payload: 1 }],
        });
        assert.equal(res.status, 201);
        const { jobs } = res.json;
        assert.deepEqual(jobs.map((job) => job.duplicate), [true, false, true, false]);
        assert.equal(jobs[0].id, old.id);
        assert.equal(jobs[2].id, jobs[1].id);
        assert.equal((await server.get('/jobs/count')).json.count, 3);
    });

    it('answer_200_if_every_job_is_a_duplicate', async () => {
        const first = await server.post('/jobs/bulk', { jobs: [spec('c'), spec('d')] });
        assert.equal(first.status, 201);
        const res = await server.post('/jobs/bulk', { jobs: [spec('d'), spec('c')] });
        assert.equal(res.status, 200);
        assert.deepEqual(res.json.jobs.map((job) => job.id),
            first.json.jobs.map((job) => job.id).reverse());
        assert.ok(res.json.jobs.every((job) => job.duplicate));
    });

    it('are_not_taken_by_a_bulk_that_is_refused', async () => {
        const res = await server.post('/jobs/bulk', {
            jobs: [spec('never'), { queue: 'x', type: 't' }],
        });
        assertError(res, 400, 'missing_field', /jobs\[1\]/);
        assert.equal(await holder(server, 'never'), null);
    });
});

for (const signal of ['SIGTERM', 'SIGKILL'])
    describe(`unique keys after ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());

        it('are_held_by_the_same_jobs_and_by_no_others', async () => {
            const held = {};
            for (const [scope, statuses] of Object.entries(SCOPES))
                for (const status of STATUSES) {
                    const key = `${scope} ${status}`;
                    const { id } = await make(server, key, scope, status);
                    held[key] = statuses.includes(status) ? id : null;
                }
            const deleted = await make(server, 'deleted', 'exists', 'ready');
            await server.delete(`/jobs/${deleted.id}`);
            const canceled = await make(server, 'canceled', 'active', 'ready');
            await server.post(`/jobs/${canceled.id}/cancel`);
            held.deleted = held.canceled = null;
            await server.signal(signal);
            await server.start();
            for (const [key, id] of Object.entries(held))
                assert.equal(await holder(server, key), id, key);
        });

        it('are_held_again_by_a_job_that_was_cut_off', async () => {
            const job = await server.enqueue(spec('cut off'));
            const taker = await server.take(`?queue=${job.queue}`);
            await taker.next();
            assert.equal(await holder(server, 'cut off'), null);
            await server.signal(signal);
            await taker.ended();
            await server.start();
            assert.equal(await holder(server, 'cut off'), job.id);
        });

        it('do_not_outlive_jobs_that_expired_while_the_server_was_down', async () => {
            const job = await make(server, 'expired', 'exists', 'in_flight', {
                retention: { completed_ms: 1 },
            });
            await server.post(`/jobs/${job.id}/success`);
            await server.signal(signal);
            await server.start();
            assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
            assert.equal(await holder(server, 'expired'), null);
        });
    });
