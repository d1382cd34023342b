// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /jobs?look_max=N: pages that end after some jobs were looked at.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { assertError, useServer } = require('./harness');

describe('a page that looks at no more than some jobs', () => {
    const server = useServer();
    const ids = [];
    before(async () => {
        const jobs = Array.from({ length: 1200 }, (_, i) => ({ queue: i % 100 === 50 ? 'rare' : 'many',
            type: i === 7 ? 'first' : 't', payload: { i }, ...(i % 300 === 0 ? { hold: true } : {}) }));
        for (let at = 0; at < jobs.length; at += 400) {
            const res = await server.post('/jobs/bulk', { jobs: jobs.slice(at, at + 400) });
            assert.equal(res.status, 201, res.text);
            ids.push(...res.json.jobs.map((job) => job.id));
        }
        const last = await server.enqueue({ queue: 'many', type: 'after', depends_on: [ids[7]] });
        ids.push(last.id);
    });

    // All pages from there on: the jobs' places, and how many pages there were.
    async function walk(target) {
        const found = [];
        let pages = 0;
        for (let at = target; at; pages++) {
            const res = await server.get(at);
            assert.equal(res.status, 200, res.text);
            found.push(...res.json.jobs.map((job) => ids.indexOf(job.id)));
            at = res.json.pages.next;
        }
        return { found, pages };
    }

    for (const order of ['asc', 'desc'])
        for (const [filter, matches] of [['queue=rare', (i) => i % 100 === 50 && i < 1200], ['type=first', (i) => i === 7],
            ['type=none', () => false], ['queue=rare&status=ready', (i) => i % 100 === 50 && i < 1200],
            ['priority=..0', () => false], ['filter=.i%20%25%20400%20%3D%3D%20399', (i) => i % 400 === 399 && i < 1200],
            ['', () => true]])
            it(`leads_to_all_that_match_${filter || 'everything'}_${order}`, async () => {
                const all = ids.map((_, i) => i).filter(matches);
                if (order === 'desc')
                    all.reverse();
                for (const [look, limit] of [[100, 50], [37, 5], [1, 2000], [5000, 3]]) {
                    if (look === 1 && filter.startsWith('filter'))
                        continue;
                    const { found, pages } = await walk(`/jobs?order=${order}&limit=${limit}&look_max=${look}&${filter}`);
                    assert.deepEqual(found, all, `${look} ${limit}`);
                    assert.ok(pages >= Math.floor(ids.length / look), `${pages} pages`);
                }
            });

    it('says_where_to_go_on_and_repeats_itself', async () => {
        const { json } = await server.get('/jobs?order=asc&look_max=10&queue=rare');
        assert.deepEqual(json.jobs, []);
        assert.equal(json.pages.next, `/jobs?from=${ids[9]}&order=asc&limit=50&look_max=10&queue=rare`);
        assert.equal(json.pages.prev, null);
        const at = await server.get(`/jobs?from=${ids[40]}&order=asc&limit=50&look_max=10&queue=rare`);
        assert.deepEqual(at.json.jobs.map((job) => job.id), [ids[50]]);
        assert.equal(at.json.pages.prev, `/jobs?from=${ids[50]}&order=desc&limit=50&look_max=10&queue=rare`);
    });

    it('ends_with_the_last_job', async () => {
        const { json } = await server.get(`/jobs?order=asc&from=${ids[1190]}&look_max=100`);
        assert.equal(json.jobs.length, 10);
        assert.equal(json.pages.next, null);
    });

    it('finds_those_that_wait_for_a_job', async () => {
        const res = await server.get(`/jobs?depends_on=${ids[7]}&status=blocked&look_max=10`);
        assert.deepEqual(res.json.jobs.map((job) => job.id), [ids[1200]]);
        assert.equal(res.json.pages.next, null, 'blocked jobs are found without the others');
        const { found } = await walk(`/jobs?depends_on=${ids[7]}&order=asc&look_max=500`);
        assert.deepEqual(found, [1200]);
    });

    it('finds_blocked_jobs_and_no_others', async () => {
        for (const order of ['asc', 'desc']) {
            const { found } = await walk(`/jobs?status=blocked&order=${order}&limit=2`);
            const all = [0, 300, 600, 900, 1200];
            assert.deepEqual(found, order === 'asc' ? all : all.reverse());
        }
        assert.equal((await server.post(`/jobs/cancel?id=${ids[300]}`)).status, 200);
        assert.deepEqual((await walk('/jobs?status=blocked&order=asc')).found, [0, 600, 900, 1200]);
    });

    it('is_refused_for_numbers_that_are_none', async () => {
        for (const look of ['0', '-1', 'x', '1000001'])
            assertError(await server.get(`/jobs?look_max=${look}`), 400, 'bad_value');
        assert.equal((await server.get('/jobs/count?look_max=5')).status, 400);
    });
});
