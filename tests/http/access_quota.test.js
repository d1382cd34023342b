// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a token may have at most: its own, and nobody else's, across every way in and a restart.

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { Server, assertError, jobOf, makeDir, run, until } = require('./harness');
const { bearer, create, guarded } = require('./access');

const job = (fields = {}) => ({ queue: 'q', type: 't', payload: null, ...fields });
const bulk = (count, fields = {}) => ({ jobs: Array.from({ length: count }, () => job(fields)) });
const refused = (res) => assertError(res, 429, 'quota_exceeded');

async function made(res) {
    const answer = await res;
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
}

const PRODUCER = { roles: ['producer'], quota: { waiting: 5 } };

it('waiting_jobs_are_counted_by_the_token_that_made_them', async (t) => {
    const { server, as } = await guarded(t, { a: PRODUCER, b: PRODUCER, w: { roles: ['worker'] } });
    const free = as('admin');
    await made(free.post('/jobs/bulk', bulk(20))); // nobody else's
    const { jobs } = await made(as('a').post('/jobs/bulk', bulk(4)));
    refused(await as('a').post('/jobs/bulk', bulk(2)));
    await made(as('a').post('/jobs', job({ ready_at: Date.now() + 3600000 })));
    refused(await as('a').post('/jobs', job()));
    assert.match((await as('a').post('/jobs', job())).json.error, /5 jobs of these credentials wait.*quota of 5/);
    await made(as('b').post('/jobs/bulk', bulk(5))); // in the same queue
    refused(await as('b').post('/jobs', job()));
    // A job that has begun waits no longer; one that comes back does again.
    const claimed = await free.post(`/jobs/${jobs[0].id}/claim`, {});
    await made(as('a').post('/jobs', job()));
    assert.equal((await free.post(`/jobs/${jobs[0].id}/release`, { token: claimed.json.token })).status, 204);
    refused(await as('a').post('/jobs', job()));
    for (const { id } of jobs.slice(0, 2))
        assert.equal((await free.delete(`/jobs/${id}`)).status, 204);
    await made(as('a').post('/jobs', job()));
    refused(await as('a').post('/jobs', job()));
    await server.assertServes();
});

it('jobs_that_wait_for_others_or_were_moved_count_too', async (t) => {
    const { as } = await guarded(t, { a: PRODUCER });
    const first = await made(as('a').post('/jobs', job()));
    const ids = Array.from({ length: 4 }, () => first.id);
    const waits = await made(as('a').post('/jobs/bulk', { jobs: ids.map((id) => job({ depends_on: [id] })) }));
    assert.deepEqual(waits.jobs.map((one) => one.status), Array(4).fill('blocked'));
    assert.equal((await as('admin').patch(`/jobs/${first.id}`, { queue: 'elsewhere' })).status, 200);
    refused(await as('a').post('/jobs', job()));
    // Those that look at very many others over several turns, side by side: no more than fit get in.
    const { json } = await as('admin').post('/jobs/bulk', bulk(100));
    assert.equal((await as('admin').delete('/jobs?queue=elsewhere')).status, 200);
    await until(async () => (await as('admin').get('/jobs/count?queue=elsewhere')).json.count === 0, 'it is gone');
    assert.equal((await as('admin').delete(`/jobs?id=${waits.jobs.map(({ id }) => id)}`)).status, 200);
    const long = { depends_on: json.jobs.map(({ id }) => id) };
    const answers = await Promise.all([0, 1, 2].map(() => as('a').post('/jobs/bulk', bulk(3, long))));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 429, 429]);
});

it('a_repeated_request_and_one_whose_key_is_held_go_on_at_the_limit', async (t) => {
    const { server, tokens, as } = await guarded(t, { a: { roles: ['producer'], quota: { waiting: 2, keys: 2 } } });
    const once = { ...bearer(tokens.a), 'idempotency-key': 'k' };
    const { status, json } = await server.post('/jobs', job(), once);
    assert.equal(status, 201);
    const unique = job({ unique_key: 'u', unique_while: 'exists', alias: 'x' });
    await made(as('a').post('/jobs', unique));
    refused(await as('a').post('/jobs', job()));
    const again = await server.post('/jobs', job(), once);
    assert.deepEqual([again.status, again.json.id], [201, json.id]);
    const duplicate = await as('a').post('/jobs', unique);
    assert.deepEqual([duplicate.status, duplicate.json.duplicate], [200, true], duplicate.text);
});

it('keys_are_counted_for_as_long_as_jobs_hold_them', async (t) => {
    const { as } = await guarded(t, { a: { roles: ['producer'], quota: { keys: 2 } } });
    const kept = await made(as('a').post('/jobs', job({ unique_key: 'u', unique_while: 'queued', alias: 'x' })));
    refused(await as('a').post('/jobs', job({ alias: 'y' })));
    await made(as('a').post('/jobs', job()));
    const claimed = await as('admin').post(`/jobs/${kept.id}/claim`, {});
    assert.equal(claimed.status, 200);
    await made(as('a').post('/jobs', job({ alias: 'y' }))); // the unique key is free, the alias is not
    refused(await as('a').post('/jobs', job({ alias: 'z' })));
    assert.equal((await as('admin').delete(`/jobs/${kept.id}`)).status, 204);
    await made(as('a').post('/jobs', job({ alias: 'z' })));
});

it('budgets_are_counted_by_those_with_the_same_queues', async (t) => {
    const { as } = await guarded(t, { a: { roles: ['producer'], queues: ['q'], quota: { budgets: 2 } },
        b: { roles: ['producer'], queues: ['q', 'r'] } });
    const draws = (key) => job({ budgets: [{ key, tokens: 1,
        create_with: { allocation: 5, strategy: { type: 'while_in_flight' } } }] });
    for (const key of ['one', 'two', 'one'])
        await made(as('a').post('/jobs', draws(key)));
    refused(await as('a').post('/jobs', draws('three')));
    for (const key of ['one', 'two', 'three'])
        await made(as('b').post('/jobs', draws(key)));
});

it('ticks_of_a_cron_entry_are_its_makers_and_are_never_kept_back', async (t) => {
    const { as } = await guarded(t, { a: { roles: ['operator'], quota: { waiting: 1 } } });
    const entry = { name: 'e', expression: '* * * * * *', job: { queue: 'q', type: 't', payload: null } };
    const put = await as('a').put('/crons/g', { entries: [entry] });
    assert.equal(put.status, 200, put.text);
    await until(async () => (await as('admin').get('/jobs/count?queue=q')).json.count >= 2, 'two ticks');
    refused(await as('a').post('/jobs', job()));
    assert.equal((await as('admin').delete('/crons/g')).status, 204);
});

for (const io of ['SIGTERM', 'SIGKILL'])
    it(`a_quota_outlives_${io}`, async (t) => {
        const { server, as } = await guarded(t, { a: PRODUCER });
        await made(as('a').post('/jobs/bulk', bulk(4)));
        await server.signal(io);
        await server.start();
        refused(await as('a').post('/jobs/bulk', bulk(2)));
        await made(as('a').post('/jobs', job()));
        refused(await as('a').post('/jobs', job()));
    });

it('is_shown_in_lists_and_refused_where_it_makes_no_sense', async (t) => {
    const { server, tokens, as } = await guarded(t, { a: { ...PRODUCER, quota: { waiting: 5, keys: 7 } } });
    const { json } = await as('admin').get('/tokens');
    assert.deepEqual(json.tokens.map(({ quota }) => quota), [undefined, { waiting: 5, keys: 7 }]);
    for (const quota of [{ waiting: 0 }, { waiting: -1 }, { keys: 1.5 }, { waiting: 1e10 }, { jobs: 5 }, 5,
        { budgets: 5 }])
        assert.equal((await as('admin').post('/tokens', { roles: ['producer'], quota })).status, 400,
            JSON.stringify(quota));
    assertError(await as('admin').post('/tokens', { roles: ['admin'], quota: { keys: 5 } }), 400, 'bad_value', /admin/);
    const env = { TENAX_URL: server.url(), TENAX_ADMIN_URL: server.adminUrl, TENAX_TOKEN: tokens.admin };
    const tenax = (args) => run(['token', ...args, '--url', server.url()], env);
    const new_ = await tenax(['create', '--role', 'producer', '--queues', 'q', '--max-waiting', '1', '--max-budgets', '2']);
    assert.equal(new_.code, 0, new_.stderr);
    const list = await tenax(['list']);
    assert.match(list.stdout, /QUOTA/);
    assert.match(list.stdout, /waiting 5, keys 7/);
    assert.match(list.stdout, /waiting 1, budgets 2/);
    const own = bearer(new_.stdout.trim());
    assert.equal((await server.post('/jobs', job(), own)).status, 201);
    refused(await server.post('/jobs', job(), own));
});
