// SPDX-License-Identifier: Apache-2.0

// The worker's loop, against the server of TENAX_URL, which is behind a proxy that loses answers.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tenax from '../src/index.js';

const client = new tenax.Client();
after(() => client.close());
const log = { info() {}, warn() {}, error() {} };

describe('a worker', () => {
    let queue;
    let queues = 0;
    beforeEach(() => { queue = `work-${++queues}`; });

    const enqueue = async (payload, options) => (await client.enqueue(queue, 't', payload, options)).id;
    const get = (id) => client.job(id, { runs: true });
    const drain = (handler, options) => new tenax.Worker(client, queue, handler, { log, ...options })
        .run({ drain: true });

    it('leaves_results', async () => {
        const ids = await Promise.all([0, 1, 2, 3, 4].map((n) => enqueue(n)));
        await drain((job) => ({ twice: 2 * job.payload }), { concurrency: 3, name: 'w-results' });
        for (const [n, id] of ids.entries()) {
            const job = await get(id);
            assert.deepEqual([job.status, job.result], ['completed', { twice: 2 * n }]);
            assert.equal(job.runs[0].worker, 'w-results');
        }
    });

    it('runs_handlers_side_by_side', async () => {
        await Promise.all([1, 2, 3].map(() => enqueue()));
        let here = 0;
        let open;
        const all = new Promise((resolve) => { open = resolve; });
        await drain(async () => {
            if (++here === 3)
                open();
            await all;
        }, { concurrency: 3 });
        assert.equal(here, 3);
    });

    it('ends_a_run_that_takes_longer_than_it_may', async () => {
        const ids = [await enqueue(null, { retry_limit: 0, max_run_ms: 500 }), await enqueue(null, { retry_limit: 0 })];
        const limits = [];
        await drain(async (job) => {
            limits.push(job.max_run_ms);
            await new Promise((resolve) => { job.signal.addEventListener('abort', resolve); });
            assert.ok(job.lost);
            job.check();
        }, { maxRunMs: 600, leaseMs: 1000 });
        assert.deepEqual(limits, [500, 600]);
        for (const id of ids) {
            let job = await get(id);
            while (job.status === 'in_flight')
                job = await get(id);
            assert.deepEqual([job.status, job.runs[0].culprit], ['dead', 'deadline']);
        }
    });

    it('has_handlers_by_type', async () => {
        const { id } = await client.enqueue(queue, 'known');
        const unknown = await client.enqueue(queue, 'toString', null, { retry_limit: 0 });
        await drain({ known: () => 'done' });
        assert.equal((await get(id)).result, 'done');
        assert.equal((await get(unknown.id)).runs[0].error_type, 'NoHandler');
    });

    it('reports_an_exception_as_a_failure', async () => {
        const id = await enqueue(null, { retry_limit: 0 });
        await drain((job) => job.payload.missing);
        const job = await get(id);
        assert.deepEqual([job.status, job.runs[0].error_type], ['dead', 'TypeError']);
        assert.ok(job.runs[0].run_ms >= 0);
        const { errors } = await client.request('GET', `/jobs/${id}/errors`);
        assert.match(errors[0].backtrace, /worker\.test\.js/);
    });

    it('reports_what_is_known_about_a_failure', async () => {
        const id = await enqueue();
        await drain(() => {
            throw new tenax.Failure('no texture', {
                error_type: 'TextureError', exit_code: 75, category: 'storage', subcategory: 'textures',
                termination_message: 'gone', kill: true,
            });
        });
        const job = await get(id);
        const [run] = job.runs;
        assert.equal(job.status, 'dead');
        assert.deepEqual([run.message, run.error_type, run.exit_code, run.category, run.subcategory,
            run.termination_message],
        ['no texture', 'TextureError', 75, 'storage', 'textures', 'gone']);
    });

    it('reports_when_to_try_again', async () => {
        const id = await enqueue(null, { retry_limit: 0 });
        await drain(() => {
            throw new tenax.Failure('later', { retry_at: new Date('2100-01-02T00:00:00Z') });
        });
        const job = await get(id);
        assert.deepEqual([job.status, job.ready_at], ['scheduled', 4102531200000]);
    });

    it('hands_a_checkpoint_to_the_next_run', async () => {
        const seen = [];
        const id = await enqueue();
        await drain(async (job) => {
            seen.push([job.run, job.attempts, job.checkpoint]);
            if (job.run > 0)
                return job.checkpoint.page;
            await job.progress(0.4, 'page 40');
            assert.equal((await client.job(job.id)).progress.value, 0.4);
            await job.save({ page: 40 });
            throw new tenax.Failure('half way', { retry_at: 1 });
        });
        assert.deepEqual(seen, [[0, 0, undefined], [1, 1, { page: 40 }]]);
        assert.equal((await get(id)).result, 40);
    });

    it('gives_back_without_a_failure', async () => {
        const id = await enqueue();
        await drain((job) => {
            if (job.run === 0)
                throw new tenax.GiveBack();
        });
        const job = await get(id);
        assert.deepEqual([job.status, job.attempts], ['completed', 0]);
        assert.deepEqual(job.runs.map((run) => run.outcome), ['returned', 'completed']);
    });

    it('gives_back_for_later', async () => {
        const id = await enqueue();
        await drain(() => {
            throw new tenax.GiveBack('no disk', { ready_at: new Date('2100-01-02T00:00:00Z') });
        });
        const job = await get(id);
        assert.deepEqual([job.status, job.ready_at, job.attempts], ['scheduled', 4102531200000, 0]);
        assert.match(job.runs[0].reason, /gave it back: no disk/);
    });

    it('gives_back_also_with_a_time_that_is_refused', async () => {
        const times = ['soon', new Date(NaN)];
        const id = await enqueue();
        while ((await get(id)).status !== 'completed') // the second time only after a pause
            await drain((job) => {
                if (job.run < times.length)
                    throw new tenax.GiveBack(undefined, { ready_at: times[job.run] });
            }, { leaseMs: 600000 });
        assert.deepEqual((await get(id)).runs.map((run) => run.outcome), ['returned', 'returned', 'completed']);
    });

    it('lets_a_trace_go_on', async () => {
        const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
        const seen = [];
        await enqueue('first', { traceparent: trace, tracestate: 'a=1' });
        await drain(async (job) => {
            seen.push([job.traceparent, job.tracestate]);
            if (job.payload === 'first')
                await enqueue('second', { traceparent: job.traceparent });
        });
        assert.deepEqual(seen, [[trace, 'a=1'], [trace, undefined]]);
    });

    it('repeats_a_report_whose_answer_is_lost', async () => {
        const good = await enqueue('good');
        const bad = await enqueue('bad', { retry_limit: 0 });
        for (const [id, verb] of [[good, 'success'], [bad, 'failure']])
            await client.request('POST', '/proxy/drop', { path: `/jobs/${id}/${verb}`, count: 2 });
        await drain((job) => {
            if (job.payload === 'bad')
                throw new Error('bad');
            return 1;
        });
        const [one, two] = [await get(good), await get(bad)];
        assert.deepEqual([one.result, one.runs.length], [1, 1]);
        assert.deepEqual([two.status, two.attempts], ['dead', 1]);
    });

    it('asks_again_for_what_a_claim_got_whose_answer_is_lost', async () => {
        const ids = [await enqueue(1, { retry_limit: 0 }), await enqueue(2, { retry_limit: 0 })];
        await client.request('POST', '/proxy/drop', { path: '/jobs/claim', count: 2 });
        await drain((job) => job.payload, { concurrency: 2 });
        for (const id of ids) {
            const job = await get(id);
            assert.deepEqual([job.status, job.attempts, job.runs.length], ['completed', 0, 1]);
        }
    });

    it('leaves_a_job_done_whose_result_cannot_be_kept', async () => {
        const circle = {};
        circle.self = circle;
        const results = [circle, 10n, NaN, { a: [new Date('soon')] }, { toJSON() { throw new Error('no'); } },
            'x'.repeat(70000), Buffer.alloc(40000)];
        const ids = await Promise.all(results.map((_, n) => enqueue(n)));
        const said = [];
        await drain((job) => results[job.payload], { log: { ...log, warn: (text) => said.push(text) } });
        for (const id of ids) {
            const job = await get(id);
            assert.deepEqual([job.status, job.runs.length], ['completed', 1]);
            assert.ok(job.result.result_omitted);
            assert.equal(said.filter((text) => text.includes(id)).length, 1);
        }
    });

    it('says_each_failure', async () => {
        const id = await enqueue(null, { retry_limit: 0 });
        const said = [];
        await drain(() => [][0].name, { log: { ...log, warn: (text) => said.push(text) } });
        assert.match(said[0], new RegExp(`${id} .t. failed: Cannot read prop`));
    });

    it('knows_a_failure_with_a_mistake_by_its_words', async () => {
        for (const [members, words] of [
            [{ retryAt: 1 }, /no texture .*did you mean 'retry_at'/],
            [{ retry_at: Date.now() / 1000 }, /no texture .retry_at is in milliseconds/],
            [{ retry_at: new Date('soon') }, /no texture .retry_at is a Date that is none/],
        ]) {
            const id = await enqueue(null, { retry_limit: 0 });
            await drain(() => { throw new tenax.Failure('no texture', members); });
            assert.match((await get(id)).runs[0].message, words);
        }
    });

    it('pauses_before_a_job_that_is_given_back_again', async () => {
        const id = await enqueue();
        for (let i = 0; i < 3; i++) {
            await drain(() => { throw new tenax.GiveBack('not now'); }); // until it waits
            const { ready_at: readyAt, attempts, runs } = await get(id);
            assert.deepEqual([readyAt - runs.at(-1).ended_at, attempts], [100 * 2 ** (runs.length - 2), 0]);
            await client.request('PATCH', `/jobs/${id}`, { ready_at: null });
        }
    });

    it('gives_back_for_a_while', async () => {
        const id = await enqueue();
        await drain(() => { throw new tenax.GiveBack('no disk', { delay_ms: 3600000 }); });
        const job = await get(id);
        assert.deepEqual([job.status, job.ready_at - job.runs[0].ended_at], ['scheduled', 3600000]);
    });

    it('renews_leases_while_a_handler_keeps_the_event_loop_busy', async () => {
        const id = await enqueue();
        await drain(() => {
            for (const end = Date.now() + 3000; Date.now() < end;);
        }, { leaseMs: 1500 });
        const job = await get(id);
        assert.deepEqual([job.status, job.runs.length], ['completed', 1]);
    });

    it('renews_all_leases_by_one_request', async () => {
        const ids = await Promise.all([1, 2, 3, 4].map(() => enqueue()));
        const asked = async () => (await client.request('GET', '/proxy/count?path=/jobs/renew')).count;
        const before = await asked();
        const begun = performance.now();
        await drain(() => sleep(9000), { concurrency: 4, leaseMs: 6000 });
        const ticks = (performance.now() - begun) / 2000;
        const renewals = await asked() - before;
        assert.ok(renewals >= 3 && renewals <= ticks + 1, `${renewals} renewals`);
        for (const id of ids)
            assert.deepEqual((await get(id)).runs.map((run) => run.outcome), ['completed']);
    });

    it('tells_a_handler_that_its_lease_is_lost', async () => {
        const id = await enqueue();
        const told = [];
        await drain(async (job) => {
            await client.request('POST', `/jobs/${job.id}/cancel`);
            await assert.rejects(job.wait(30000), tenax.LeaseLost);
            told.push(job.lost, job.signal.aborted);
            job.check();
        }, { leaseMs: 600 });
        assert.deepEqual(told, [true, true]);
        assert.equal((await get(id)).resolution, 'canceled');
    });

    it('tells_it_also_when_it_saves', async () => {
        await enqueue();
        const told = [];
        await drain(async (job) => {
            await client.request('POST', `/jobs/${job.id}/cancel`);
            await assert.rejects(job.save(1), tenax.LeaseLost);
            told.push(job.lost);
        });
        assert.deepEqual(told, [true]);
    });

    it('waits_for_handlers_within_the_grace_when_it_stops', async () => {
        const id = await enqueue();
        const worker = new tenax.Worker(client, queue, async (job) => {
            worker.stop();
            while (!job.stopping)
                await sleep(10);
            await sleep(200);
            return job.signal.aborted ? 'too late' : 'in time';
        }, { log });
        await worker.run();
        assert.equal((await get(id)).result, 'in time');
    });

    it('asks_again_when_a_claim_fails', async () => {
        const id = await enqueue();
        for (const status of [503, 200, 500]) // the second is an answer without jobs in it
            await client.request('POST', '/proxy/refuse', { path: '/jobs/claim', status });
        await drain(() => 'done');
        assert.equal((await get(id)).result, 'done');
    });

    it('ends_when_its_claim_is_refused', async () => {
        await assert.rejects(new tenax.Worker(client, 'not,a,name', () => {}).run({ drain: true }),
            tenax.BadRequest);
    });
});
