// SPDX-License-Identifier: Apache-2.0
'use strict';

// How long ended jobs are kept; that they are gone at once then, and swept up in the background.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, until, useServer } = require('./harness');

const MANY = 5000;

// That many jobs of a queue, all completed at about the same moment; their ids.
async function completeMany(server, queue, retention) {
    const made = await server.post('/jobs/bulk', {
        jobs: Array.from({ length: MANY }, (_, i) => ({ queue, type: 't', payload: i, retention })),
    });
    for (let done = 0; done < MANY;) {
        const jobs = await server.claim({ queues: [queue], count: 1000, lease_ms: 600000 });
        const res = await server.post('/jobs/success', { jobs: jobs.map(({ id, token }) => ({ id, token })) });
        assert.equal(res.status, 204, res.text);
        done += jobs.length;
    }
    return made.json.jobs.map((job) => job.id);
}

async function count(server, query) {
    return (await server.get(`/jobs/count?${query}`)).json.count;
}

describe('retention by default', () => {
    const server = useServer({
        args: ['--default-completed-job-retention', '150ms', '--default-dead-job-retention', '150ms'],
    });

    async function end(fields = {}) {
        const ended = {};
        for (const [status, verb] of [['completed', 'success'], ['dead', 'failure']]) {
            const { id, queue } = await server.enqueue({ queue: queueName(), ...fields });
            await server.claimOne(queue);
            const body = verb === 'failure' ? { message: 'm', kill: true } : undefined;
            const res = await server.post(`/jobs/${id}/${verb}`, body);
            assert.ok(res.status === 200 || res.status === 204, res.text);
            ended[status] = { id, queue };
        }
        return ended;
    }

    it('is_what_the_settings_say_and_hides_the_job_everywhere_afterwards', async () => {
        const ended = await end();
        for (const { id, queue } of Object.values(ended)) {
            await until(async () => (await server.get(`/jobs/${id}`)).status === 404, 'it expires');
            for (const path of ['/runs', '/errors', '/errors/1'])
                assertError(await server.get(`/jobs/${id}${path}`), 404, 'not_found');
            for (const verb of ['retry', 'cancel'])
                assertError(await server.post(`/jobs/${id}/${verb}`), 404, 'not_found');
            assertError(await server.patch(`/jobs/${id}`, {}), 404, 'not_found');
            assertError(await server.delete(`/jobs/${id}`), 404, 'not_found');
            assert.deepEqual((await server.get(`/jobs?id=${id}`)).json.jobs, []);
            assert.deepEqual((await server.delete(`/jobs?id=${id}`)).json, { deleted: 0 });
            await until(async () => await count(server, `queue=${queue}`) === 0, 'it is purged');
            assert.ok(!(await server.get('/queues')).json.queues.includes(queue));
        }
    });

    it('gives_way_to_the_jobs_own_for_either_end', async () => {
        const long = await end({ retention: { completed_ms: 600000, dead_ms: 600000 } });
        const short = await end({ retention: { completed_ms: 1 } });
        await until(async () => (await server.get(`/jobs/${short.dead.id}`)).status === 404,
            'the dead one by default');
        assertError(await server.get(`/jobs/${short.completed.id}`), 404, 'not_found');
        for (const [status, { id }] of Object.entries(long))
            assert.equal((await server.job(id)).status, status);
    });
});

describe('thousands of jobs that expire together', () => {
    const server = new Server();
    before(() => server.start());
    after(() => server.clean());
    const gone = async (queue) => await count(server, `queue=${queue}`) === 0;

    it('are_purged_while_other_requests_are_answered', async () => {
        const queue = queueName();
        const ids = await completeMany(server, queue, { completed_ms: 1500 });
        await until(async () => {
            await server.enqueue({ queue: 'other' });
            await server.claimOne('other');
            return gone(queue);
        }, 'all of them are purged');
        for (const id of [ids[0], ids[MANY - 1]])
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
        assert.ok(!(await server.get('/queues')).json.queues.includes(queue));
    });

    it('while_the_server_is_down_are_hidden_and_purged_once_it_is_back', async () => {
        const queue = queueName();
        await completeMany(server, queue, { completed_ms: 1 });
        const kept = await server.enqueue({ queue: queueName() });
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.get(`/jobs?queue=${queue}`)).json.jobs, []);
        await until(() => gone(queue), 'all of them are purged');
        assert.equal((await server.job(kept.id)).status, 'ready');
    });
});

describe('a server that nothing is said to about completed jobs', () => {
    // The harness says something; these are what the server says to itself.
    const server = useServer({
        args: ['--default-completed-job-retention', '1h', '--default-completed-job-limit', '2'],
    });

    async function complete(fields = {}) {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, ...fields });
        await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
        return id;
    }

    it('keeps_them_for_an_hour_but_not_without_end', async () => {
        const kept = [await complete(), await complete()];
        for (const id of kept) {
            const job = await server.job(id);
            assert.equal(job.purge_at - job.completed_at, 3600000);
        }
        const newest = await complete();
        assert.equal((await server.job(newest)).status, 'completed', 'the newest are kept');
        const gone = await server.get(`/jobs/${kept[0]}`);
        assertError(gone, 404, 'not_found', /has ended and is no longer kept/);
        const asked = await complete({ retention: { completed_ms: 60000 } });
        assert.equal((await server.job(asked)).status, 'completed', 'whoever asks for it gets it');
        await server.delete(`/jobs/${asked}`);
        await server.delete(`/jobs/${newest}`);
        await complete();
        assert.equal((await server.job(kept[1])).status, 'completed', 'there is room again');
    });
});
