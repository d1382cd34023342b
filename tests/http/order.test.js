// SPDX-License-Identifier: Apache-2.0
'use strict';

// The order in which ready jobs are handed out: retries that policies granted before other jobs of
// their priority, up to a share; all others by age.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, repeat, useServer } = require('./harness');

describe('a retry that a policy grants', () => {
    const server = new Server({ args: ['--retry-policy-enabled', '--retry-when-no-policy', 'default',
        '--retries-share', '50'] });
    before(async () => {
        await server.start();
        const res = await server.request('PUT', '/retry-policies/again', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'again' },
            spec: { defaultAction: 'Retry', backoff: { initialDelay: '0s' } },
        });
        assert.equal(res.status, 200, res.text);
    });
    after(() => server.clean());

    const take = async (queue) => (await server.claimOne(queue)).id;
    const withPolicy = async (queue) => {
        const res = await server.request('PUT', `/queues/${queue}`, { retry_policies: ['again'] });
        assert.equal(res.status, 200, res.text);
    };
    const fail = async (id, fields) => {
        const res = await server.post(`/jobs/${id}/failure`, { message: 'm', ...fields });
        assert.equal(res.status, 200, res.text);
        return res.json;
    };

    // An older job that has never run, and one that is about to be retried.
    async function older(queue) {
        const [old, again] = await server.enqueueMany(
            [{ queue, priority: 5 }, { queue, priority: 1 }]);
        assert.equal(await take(queue), again);
        const res = await server.request('PATCH', `/jobs/${again}`, { priority: 5 });
        assert.equal(res.status, 200, res.text);
        return [old, again];
    }

    it('comes_before_an_older_job_that_never_ran_also_after_a_crash', async () => {
        const queue = queueName();
        await withPolicy(queue);
        const [old, again] = await older(queue);
        assert.equal((await fail(again)).status, 'ready');
        const position = async (id) => (await server.get(`/jobs/${id}/explain`)).json.position;
        assert.deepEqual([await position(again), await position(old)], [1, 2]);
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual([await position(again), await position(old)], [1, 2]);
        assert.equal(await take(queue), again);
        assert.equal(await take(queue), old);
    });

    it('is_not_what_a_job_gets_by_its_own_backoff_or_its_workers_word', async () => {
        const queue = queueName();
        const [old, again] = await older(queue);
        await fail(again);
        const now = await server.request('PATCH', `/jobs/${again}`, { ready_at: null });
        assert.equal(now.json.status, 'ready', now.text);
        assert.equal(await take(queue), old);
        const policed = queueName();
        await withPolicy(policed);
        const [first, second] = await older(policed);
        await fail(second, { retry_at: 1 });
        assert.equal(await take(policed), first);
    });

    it('leaves_other_jobs_their_share', async () => {
        const queue = queueName();
        await withPolicy(queue);
        const again = await server.enqueueMany(repeat(4, { queue, priority: 5 }));
        await server.claim({ queues: [queue], count: 4 });
        const fresh = await server.enqueueMany(repeat(4, { queue, priority: 5 }));
        for (const id of again)
            await fail(id);
        const jobs = await server.claim({ queues: [queue], count: 8 });
        const kinds = jobs.map((job) => (again.includes(job.id) ? 'again' : 'fresh'));
        assert.equal(kinds.length, 8);
        const alone = kinds.slice(2, 6);
        assert.equal(alone.filter((kind) => kind === 'fresh').length, 2, kinds.join());
        assert.deepEqual(jobs.filter((job) => fresh.includes(job.id)).map((job) => job.id), fresh);
    });
});

describe('what is next in a queue', () => {
    const server = useServer();

    it('is_listed_page_by_page_and_not_handed_out', async () => {
        const queue = `${queueName()}/a b`;
        const low = await server.enqueue({ queue, priority: 9, payload: { n: 1 } });
        const ids = [];
        for (let i = 0; i < 4; i++)
            ids.push((await server.enqueue({ queue, priority: 1 })).id);
        await server.enqueue({ queue, ready_at: Date.now() + 3600000 });
        const path = `/queues/${encodeURIComponent(queue)}/next`;
        const all = (await server.get(path)).json;
        assert.deepEqual(all.jobs.map((job) => job.id), [...ids, low.id]);
        assert.deepEqual(all.jobs[4].payload, { n: 1 });
        assert.equal(all.next, null);
        const seen = [];
        for (let at = `${path}?limit=2`; at;) {
            const page = (await server.get(at)).json;
            seen.push(...page.jobs.map((job) => job.id));
            at = page.next;
        }
        assert.deepEqual(seen, [...ids, low.id]);
        assert.equal((await server.job(ids[0])).status, 'ready');
        assert.equal((await server.claimOne(queue)).id, ids[0]);
        assert.equal((await server.get(path)).json.jobs[0].id, ids[1]);
        assert.deepEqual((await server.get('/queues/none/next')).json, { jobs: [], next: null });
    });

    it('refuses_what_it_does_not_know', async () => {
        for (const query of ['limit=0', 'limit=101', 'from=x', `from=zzzzzzzz-${'0'.repeat(25)}`])
            assertError(await server.get(`/queues/q/next?${query}`), 400, 'bad_value');
        assertError(await server.get('/queues/q/next?order=asc'), 400, 'unknown_field');
        assertError(await server.get('/queues/q/next?limit=1&limit=2'), 400, 'duplicate_field');
    });
});
