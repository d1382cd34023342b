// SPDX-License-Identifier: Apache-2.0
'use strict';

// Budgets: named pools of tokens that jobs of any queue draw on.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, run, until, useServer } = require('./harness');

let names = 0;
const budgetKey = () => `budget-${++names}`;
const FLYING = { type: 'while_in_flight' };
const HOURLY = { type: 'time_based', duration_ms: 3600000 };

const path = (key) => `/budgets/${encodeURIComponent(key)}`;

async function create(server, key, allocation, strategy = FLYING) {
    const res = await server.post(path(key), { allocation, strategy });
    assert.equal(res.status, 201, res.text);
    return res.json;
}

async function read(server, key) {
    const res = await server.get(path(key));
    assert.equal(res.status, 200, res.text);
    return res.json;
}

const put = (server, key, body) => server.request('PUT', path(key), body);
const remove = (server, key) => server.request('DELETE', path(key));
const enqueue = (server, queue, budgets, fields) =>
    server.enqueue({ queue, type: 't', payload: null, budgets, ...fields });
const claim = (server, queue, count = 10) => server.claim({ queues: [queue], count });
const idsOf = (jobs) => jobs.map((job) => job.id).sort();

function tryEnqueue(server, budgets) {
    return server.post('/jobs', { queue: queueName(), type: 't', payload: null, budgets });
}

describe('a budget', () => {
    const server = useServer();

    it('is_created_once_and_read', async () => {
        const key = budgetKey();
        const made = await create(server, key, 20);
        assert.deepEqual(made, {
            key, allocation: 20, strategy: FLYING, created_at: made.created_at,
            updated_at: made.created_at,
            usage: { available: 20, in_flight: 0, jobs: 0, cron_entries: 0 },
        });
        assert.deepEqual(await read(server, key), made);
        const again = await server.post(path(key), { allocation: 5, strategy: FLYING });
        assertError(again, 409, 'conflict', /exists already/);
        assert.equal((await read(server, key)).allocation, 20);
    });

    it('is_replaced_and_keeps_its_time_of_creation', async () => {
        const key = budgetKey();
        const res = await put(server, key, { allocation: 100, strategy: { ...HOURLY, burst: 10 } });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.strategy, { ...HOURLY, burst: 10 });
        assert.equal(res.json.usage.available, 10);
        const changed = await put(server, key, { allocation: 3, strategy: FLYING });
        assert.equal(changed.json.created_at, res.json.created_at);
        assert.deepEqual(changed.json.strategy, FLYING);
        const back = await put(server, key, changed.json); // an answer may be sent back
        assert.equal(back.status, 200, back.text);
    });

    it('is_changed_field_by_field', async () => {
        const key = budgetKey();
        await create(server, key, 100, HOURLY);
        let res = await server.patch(path(key), { strategy: { burst: 500 } });
        assert.deepEqual(res.json.strategy, { ...HOURLY, burst: 500 });
        res = await server.patch(path(key), { allocation: 50, strategy: { burst: null } });
        assert.deepEqual(res.json.strategy, HOURLY);
        assert.equal(res.json.allocation, 50);
        res = await server.patch(path(key), { strategy: FLYING });
        assert.deepEqual(res.json.strategy, FLYING);
        res = await server.patch(path(key), {});
        assert.equal(res.status, 200, res.text);
        assertError(await server.patch(path(key), { strategy: { type: 'time_based' } }), 422,
            'unprocessable', /needs a duration_ms/);
        assertError(await server.patch(path(key), { allocation: null }), 422, 'unprocessable',
            /allocation: cannot be null/);
        assertError(await server.patch(path(budgetKey()), { allocation: 1 }), 404, 'not_found');
    });

    it('that_contradicts_itself_is_refused', async () => {
        const refused = async (status, code, body, sentence) =>
            assertError(await put(server, budgetKey(), body), status, code, sentence);
        await refused(422, 'unprocessable', { allocation: 1, strategy: { type: 'time_based' } },
            /needs a duration_ms/);
        await refused(422, 'unprocessable', { allocation: 1, strategy: { ...FLYING, burst: 1 } },
            /has no burst/);
        await refused(422, 'unprocessable',
            { allocation: 1, strategy: { ...FLYING, duration_ms: 5 } }, /has no duration_ms/);
        await refused(400, 'missing_field', { strategy: FLYING });
        await refused(400, 'missing_field', { allocation: 1 });
        await refused(400, 'missing_field', { allocation: 1, strategy: {} }, /strategy/);
        await refused(400, 'bad_value', { allocation: 0, strategy: FLYING });
        await refused(400, 'bad_value', { allocation: 2 ** 31, strategy: FLYING });
        await refused(400, 'bad_value', { allocation: 1, strategy: { type: 'sometimes' } },
            /while_in_flight or time_based, not 'sometimes'/);
        await refused(400, 'bad_value', { allocation: 1, strategy: { ...HOURLY, duration_ms: 0 } });
        await refused(400, 'bad_value',
            { allocation: 1, strategy: { ...HOURLY, duration_ms: 2678400001 } });
        assertError(await put(server, 'a*b', { allocation: 1, strategy: FLYING }), 422,
            'unprocessable', /reserved character/);
    });

    it('is_listed_with_the_others_by_key', async () => {
        const keys = [budgetKey(), budgetKey()];
        for (const key of keys)
            await create(server, key, 1);
        const res = await server.get('/budgets');
        assert.equal(res.status, 200, res.text);
        const all = res.json.budgets.map((budget) => budget.key);
        assert.deepEqual(all, [...all].sort());
        assert.ok(keys.every((key) => all.includes(key)));
        assertError(await server.get('/budgets?limit=1'), 400, 'unknown_field');
    });

    it('is_deleted_when_no_unfinished_job_draws_on_it', async () => {
        const key = budgetKey();
        const queue = queueName();
        await create(server, key, 4);
        const job = await enqueue(server, queue, [{ key, cost: 3 }]);
        assertError(await remove(server, key), 409, 'conflict',
            /1 unfinished job draws on budget/);
        assertError(await server.patch(path(key), { allocation: 2 }), 422, 'unprocessable',
            /of 1 unfinished job one draws 3 tokens/);
        const [held] = await claim(server, queue);
        assert.equal((await remove(server, key)).status, 409);
        await server.post(`/jobs/${job.id}/success`, { token: held.token });
        assert.equal((await remove(server, key)).status, 204);
        assertError(await remove(server, key), 404, 'not_found');
        assertError(await server.get(path(key)), 404, 'not_found', /there is no budget/);
    });
});

describe('a job that draws on budgets', () => {
    const server = useServer();

    it('says_so_wherever_it_is_shown', async () => {
        const [one, two] = [budgetKey(), budgetKey()];
        const queue = queueName();
        await create(server, one, 2);
        await create(server, two, 2);
        const budgets = [{ key: one, cost: 2 }, { key: two, cost: 1 }];
        const job = await enqueue(server, queue, [{ key: one, cost: 2 }, { key: two }]);
        assert.deepEqual(job.budgets, budgets);
        assert.deepEqual((await server.job(job.id)).budgets, budgets);
        assert.deepEqual((await claim(server, queue))[0].budgets, budgets);
        const plain = await server.enqueue({ queue, type: 't', payload: null });
        assert.ok(!('budgets' in plain));
    });

    it('waits_until_they_can_pay_and_others_pass_it', async () => {
        const key = budgetKey();
        const queue = queueName();
        await create(server, key, 1);
        const first = await enqueue(server, queue, [{ key }]);
        const second = await enqueue(server, queue, [{ key }]);
        const free = await server.enqueue({ queue, type: 't', payload: null });
        const held = await claim(server, queue);
        assert.deepEqual(idsOf(held), [first.id, free.id].sort());
        assert.deepEqual((await read(server, key)).usage,
            { available: 0, in_flight: 1, jobs: 2, cron_entries: 0 });
        const why = (await server.get(`/jobs/${second.id}/explain`)).json;
        assert.ok(why.waits_for.some((o) => o.kind === 'budget'), JSON.stringify(why));
        assert.match(why.summary, /it draws 1 on budget '.*', which has 0 of its 1 tokens left/);
        const waiting = server.claim({ queues: [queue], count: 1, wait_ms: 20000 });
        await server.post(`/jobs/${first.id}/failure`, { message: 'm', retry_at: 2 ** 47 });
        assert.deepEqual(idsOf(await waiting), [second.id]);
    });

    it('is_delivered_by_a_stream_when_time_has_brought_tokens', async () => {
        const key = budgetKey();
        const queue = queueName();
        await create(server, key, 1000, { type: 'time_based', duration_ms: 60000, burst: 1 });
        const ids = [];
        for (let i = 0; i < 3; i++)
            ids.push((await enqueue(server, queue, [{ key }])).id);
        const stream = await server.take(`?queue=${queue}&prefetch=10`);
        assert.deepEqual(await stream.nextIds(3), ids);
        stream.close();
    });

    it('must_name_budgets_that_are_there_and_can_pay', async () => {
        const key = budgetKey();
        await create(server, key, 10, { ...HOURLY, burst: 3 });
        const refused = async (status, code, budgets, sentence) =>
            assertError(await tryEnqueue(server, budgets), status, code, sentence);
        await refused(422, 'unprocessable', [{ key: budgetKey() }], /there is no budget/);
        await refused(422, 'unprocessable', [{ key, cost: 4 }], /a burst of 3: .* draw 4 tokens/);
        await refused(422, 'unprocessable', [{ key }, { key }], /budgets\[1\]: .* named twice/);
        await refused(422, 'unprocessable', [{ key: 'a,b' }], /budgets\[0\]: key: .*reserved/);
        await refused(400, 'bad_value', [{ key, cost: 0 }], /budgets\[0\]: cost/);
        await refused(400, 'missing_field', [{ cost: 1 }]);
        await refused(400, 'wrong_type', { key });
        await refused(400, 'too_many', Array.from({ length: 17 }, (_, i) => ({ key: `k${i}` })));
        const bulk = await server.post('/jobs/bulk', { jobs: [
            { queue: 'q', type: 't', payload: null },
            { queue: 'q', type: 't', payload: null, budgets: [{ key: budgetKey() }] },
        ] });
        assertError(bulk, 422, 'unprocessable', /^jobs\[1\]: there is no budget/);
        assert.equal((await read(server, key)).usage.jobs, 0);
    });

    it('may_create_what_is_not_there', async () => {
        const [key, old] = [budgetKey(), budgetKey()];
        await create(server, old, 7);
        const with5 = (key_) => ({ key: key_, cost: 2,
            create_with: { allocation: 5, strategy: FLYING } });
        const job = await enqueue(server, queueName(), [with5(key), with5(old)]);
        assert.deepEqual(job.budgets, [{ key, cost: 2 }, { key: old, cost: 2 }]);
        assert.equal((await read(server, key)).allocation, 5);
        assert.equal((await read(server, old)).allocation, 7);
        const res = await tryEnqueue(server, [{ key: budgetKey(),
            create_with: { allocation: 5, strategy: { type: 'time_based' } } }]);
        assertError(res, 422, 'unprocessable', /create_with: a time_based budget needs/);
        const two = budgetKey();
        const bulk = await server.post('/jobs/bulk', { jobs: [
            { queue: 'q', type: 't', payload: null, budgets: [with5(two)] },
            { queue: 'q', type: 't', payload: null, budgets: [{ key: two, cost: 5 }] },
        ] });
        assert.equal(bulk.status, 201, bulk.text);
        assert.equal((await read(server, two)).usage.jobs, 2);
    });

    it('is_found_counted_and_deleted_by_them', async () => {
        const [one, two] = [budgetKey(), budgetKey()];
        const queue = queueName();
        await create(server, one, 2);
        await create(server, two, 2);
        const a = await enqueue(server, queue, [{ key: one }]);
        const b = await enqueue(server, queue, [{ key: two }, { key: one }]);
        const c = await enqueue(server, queue, [{ key: two }]);
        await enqueue(server, queue, undefined);
        const list = async (query) => idsOf((await server.get(`/jobs?${query}`)).json.jobs);
        assert.deepEqual(await list(`budgets.key=${one}`), [a.id, b.id].sort());
        assert.deepEqual(await list(`budgets.key=${one},${two}`), [a.id, b.id, c.id].sort());
        assert.deepEqual(await list(`budgets.key=${two}&status=dead`), []);
        assert.equal((await server.get(`/jobs/count?budgets.key=${two}`)).json.count, 2);
        assertError(await server.delete('/jobs?budgets.key='), 400, 'bad_value');
        const gone = await server.request('DELETE', `/jobs?budgets.key=${one}`);
        assert.equal(gone.json.deleted, 2);
        assert.equal((await remove(server, one)).status, 204);
        assert.equal((await server.job(c.id)).status, 'ready');
    });

    it('is_not_brought_back_when_a_budget_is_gone', async () => {
        const key = budgetKey();
        const queue = queueName();
        await create(server, key, 2);
        const job = await enqueue(server, queue, [{ key }], { retry_limit: 0 });
        await claim(server, queue);
        await server.post(`/jobs/${job.id}/failure`, { message: 'm' });
        assert.equal((await server.job(job.id)).status, 'dead');
        assert.equal((await remove(server, key)).status, 204);
        assertError(await server.post(`/jobs/${job.id}/retry`), 422, 'unprocessable',
            /there is no budget/);
        const many = await server.post(`/jobs/retry?queue=${queue}`);
        assert.equal(many.json.retried, 0);
        await create(server, key, 2);
        assert.equal((await server.post(`/jobs/retry?queue=${queue}`)).json.retried, 1);
    });

    it('may_be_batched', async () => {
        const key = budgetKey();
        const queue = queueName();
        const batch = { key: queue, when: 'true', fold: '$existing + $new' };
        const create_with = { allocation: 1, strategy: FLYING };
        const first = await enqueue(server, queue, [{ key, create_with }],
            { payload: [1], batch });
        const fold = async (payload, budgets) => (await server.post('/jobs',
            { queue, type: 't', payload, batch, budgets })).json;
        const second = await fold([2], [{ key }]);
        assert.equal(second.id, first.id);
        assert.equal(second.folded, true);
        assert.equal((await read(server, key)).usage.jobs, 1);
        const other = budgetKey();
        assertError(await tryEnqueue(server, [{ key: other }]), 422, 'unprocessable');
        assert.equal((await fold([3], [{ key: other, create_with }])).folded, true);
        assert.equal((await read(server, other)).usage.jobs, 0); // it is there all the same
        assert.deepEqual((await claim(server, queue))[0].payload, [1, 2, 3]);
    });
});

describe('a cron entry', () => {
    const server = useServer();

    it('may_draw_on_budgets_and_holds_them', async () => {
        const key = budgetKey();
        const job = { queue: queueName(), type: 't', payload: null,
            budgets: [{ key, cost: 2, create_with: { allocation: 3, strategy: FLYING } }] };
        const res = await server.request('PUT', '/crons/g/entries/e',
            { name: 'e', expression: '0 0 1 1 *', job });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.job.budgets, [{ key, cost: 2 }]);
        assert.equal((await read(server, key)).usage.cron_entries, 1);
        assertError(await remove(server, key), 409, 'conflict', /1 cron entry draws/);
        assertError(await server.patch(path(key), { allocation: 1 }), 422, 'unprocessable');
        assertError(await server.request('PUT', '/crons/g/entries/f',
            { name: 'f', expression: '0 0 1 1 *',
                job: { ...job, budgets: [{ key: budgetKey() }] } }), 422, 'unprocessable');
        await server.request('DELETE', '/crons/g');
        assert.equal((await remove(server, key)).status, 204);
    });

    it('enqueues_jobs_that_draw_on_them', async () => {
        const key = budgetKey();
        const queue = queueName();
        const job = { queue, type: 't', payload: null,
            budgets: [{ key, create_with: { allocation: 1, strategy: FLYING } }] };
        const res = await server.request('PUT', '/crons/h',
            { entries: [{ name: 'e', expression: '* * * * * *', job }] });
        assert.equal(res.status, 200, res.text);
        const [held] = [await server.claimOne(queue)];
        assert.deepEqual(held.budgets, [{ key, cost: 1 }]);
        await until(async () => (await read(server, key)).usage.jobs >= 2, 'a further job waits');
        assert.equal((await read(server, key)).usage.available, 0);
        await server.request('DELETE', '/crons/h');
    });
});

describe('a server with budgets', () => {
    const server = new Server();
    before(() => server.start());
    after(() => server.clean());

    it('has_them_after_a_restart_with_all_that_draws_on_them', async () => {
        const [key, timed] = [budgetKey(), budgetKey()];
        const queue = queueName();
        const made = await create(server, key, 3);
        await create(server, timed, 2, HOURLY);
        const budgets = [{ key, cost: 2 }, { key: timed }];
        const a = await enqueue(server, queue, budgets);
        await enqueue(server, queue, budgets);
        const [held] = await claim(server, queue);
        assert.equal(held.id, a.id);
        await server.stop();
        await server.start();
        const { usage, ...policy } = await read(server, key);
        const { usage: fresh, ...before_ } = made;
        assert.deepEqual(policy, before_);
        assert.equal(fresh.available, 3);
        assert.deepEqual(usage, { available: 1, in_flight: 2, jobs: 2, cron_entries: 0 });
        assert.equal((await read(server, timed)).usage.available, 2); // full again
        assert.deepEqual(await claim(server, queue), []);
        await server.post(`/jobs/${a.id}/success`, { token: held.token });
        assert.equal((await claim(server, queue)).length, 1);
    });

    it('forgets_them_with_a_reset', async () => {
        const key = budgetKey();
        await create(server, key, 1);
        await enqueue(server, queueName(), [{ key }]);
        assert.equal((await server.post('/reset')).status, 204);
        assert.deepEqual((await server.get('/budgets')).json, { budgets: [] });
    });

    it('counts_them_in_metrics', async () => {
        const key = budgetKey();
        const queue = queueName();
        await create(server, key, 4);
        await enqueue(server, queue, [{ key, cost: 3 }]);
        await claim(server, queue);
        const { text } = await server.get('/metrics');
        const value = (name) => new RegExp(`^${name}\\{budget="${key}"\\} (\\S+)$`, 'm')
            .exec(text)?.[1];
        assert.equal(value('tenax_budget_allocation'), '4');
        assert.equal(value('tenax_budget_available_tokens'), '1');
        assert.equal(value('tenax_budget_in_flight_tokens'), '3');
        assert.equal(value('tenax_budget_jobs'), '1');
    });

    it('has_at_most_so_many', async () => {
        const few = new Server({ args: ['--max-budgets', '1'] });
        await few.start();
        try {
            await create(few, 'one', 1);
            assertError(await put(few, 'two', { allocation: 1, strategy: FLYING }), 400,
                'too_many', /--max-budgets/);
            assertError(await tryEnqueue(few, [{ key: 'two',
                create_with: { allocation: 1, strategy: FLYING } }]), 400, 'too_many');
        } finally {
            await few.clean();
        }
    });
});

describe('tenax budgets', () => {
    const server = useServer();
    const tenax = (...args) => run([...args, '--url', server.url()]);

    it('sets_shows_lists_and_deletes_them', async () => {
        let res = await tenax('budgets', 'set', 'mail', '--allocation', '100', '--per', '1m',
            '--burst', '10');
        assert.equal(res.code, 0, res.stderr);
        assert.deepEqual((await read(server, 'mail')).strategy,
            { type: 'time_based', duration_ms: 60000, burst: 10 });
        res = await tenax('budgets', 'set', 'cpu', '--allocation', '8', '--while-in-flight');
        assert.equal(res.code, 0, res.stderr);
        res = await tenax('budgets', 'set', 'mail', '--allocation', '50');
        assert.equal(res.code, 0, res.stderr);
        assert.equal((await read(server, 'mail')).allocation, 50);
        res = await tenax('budgets');
        assert.equal(res.code, 0, res.stderr);
        assert.match(res.stdout, /KEY +ALLOCATION/);
        assert.match(res.stdout, /cpu +8 +while in flight/);
        assert.match(res.stdout, /mail +50 +per 1 min, burst 10/);
        res = await tenax('budgets', 'show', 'mail');
        assert.match(res.stdout, /per 1 min, burst 10 +10/);
        res = await tenax('budgets', 'show', 'mail', '-o', 'json');
        assert.equal(JSON.parse(res.stdout).allocation, 50);
        res = await tenax('budgets', 'delete', 'mail');
        assert.equal(res.code, 0, res.stderr);
        res = await tenax('budgets', 'show', 'mail');
        assert.equal(res.code, 4);
        assert.match(res.stderr, /there is no budget 'mail'/);
    });

    it('are_drawn_on_by_enqueue', async () => {
        await create(server, 'a', 5);
        await create(server, 'b', 5);
        const res = await tenax('enqueue', '--queue', 'q', '--type', 't', '--budget', 'a=3', '--budget', 'b', '-o', 'json', 'null');
        assert.equal(res.code, 0, res.stderr);
        const { id } = JSON.parse(res.stdout);
        assert.deepEqual((await server.job(id)).budgets,
            [{ key: 'a', cost: 3 }, { key: 'b', cost: 1 }]);
        const bad = await tenax('enqueue', '--queue', 'q', '--type', 't', '--budget', 'a=x', 'null');
        assert.notEqual(bad.code, 0);
        assert.match(bad.stderr, /--budget/);
    });
});
