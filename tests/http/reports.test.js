// SPDX-License-Identifier: Apache-2.0
'use strict';

// POST /jobs/reports: outcomes, renewals and progress of many runs by one request.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { assertError, queueName, useServer } = require('./harness');
const { pack, unpack } = require('./msgpack');

const UNKNOWN = '03fr82s077azjmurys29qjch4';
const WRONG = '0123456789abcdef';
const KEPT = { completed_ms: 3_600_000, dead_ms: 3_600_000 };

async function claimMany(server, count, more = { retention: KEPT }) {
    const queue = queueName();
    const jobs = Array.from({ length: count }, () => ({ queue, type: 't', payload: 1, ...more }));
    await server.post('/jobs/bulk', { jobs });
    return server.claim({ queues: [queue], count, lease_ms: 30_000 });
}

const of = (job, outcome, more) => ({ id: job.id, token: job.token, outcome, ...more });
const codes = (res) => res.json.reports.map((r) => r.code);

describe('reports of many runs', () => {
    const server = useServer();
    const send = (reports) => server.post('/jobs/reports', { reports });
    const status = async (job) => (await server.job(job.id)).status;

    it('are_each_done_as_a_report_of_its_own_is', async () => {
        const [a, b, c, d, e, f, g] = await claimMany(server, 7);
        const res = await send([
            of(a, 'success', { result: { pages: 3 } }), of(b, 'failure', { message: 'no', exit_code: 7 }),
            of(c, 'failure', { message: 'never', kill: true }), of(d, 'release', { message: 'later', delay_ms: 600_000 }),
            of(e, 'progress', { progress: { value: 0.5, note: 'half' }, checkpoint: [1] }),
            of(f, 'renew', { lease_ms: 3_600_000 }), of(g, 'success'),
        ]);
        assert.equal(res.status, 200, res.text);
        const { reports } = res.json;
        assert.deepEqual(reports.map((r) => r.id), [a, b, c, d, e, f, g].map((job) => job.id));
        assert.deepEqual(reports[0], { id: a.id });
        assert.equal(reports[1].status, 'scheduled');
        assert.equal(reports[1].attempts, 1);
        assert.match(reports[1].reason, /^retry 1 of 25/);
        assert.equal(reports[2].status, 'dead');
        assert.ok(reports[5].lease_expires_at > f.lease_expires_at + 3_000_000);
        assert.deepEqual((await server.job(a.id)).result, { pages: 3 });
        const failed = await server.job(b.id);
        assert.equal(failed.ready_at, reports[1].ready_at);
        assert.equal((await server.get(`/jobs/${b.id}/runs`)).json.runs[0].exit_code, 7);
        const released = await server.job(d.id);
        assert.equal(released.status, 'scheduled');
        assert.match(released.reason, /gave it back: later/);
        const held = await server.job(e.id);
        assert.equal(held.progress.note, 'half');
        assert.deepEqual(held.checkpoint, [1]);
        assert.equal(await status(g), 'completed');
    });

    it('are_refused_one_by_one_and_say_why', async () => {
        const [a, over, b, large] = await claimMany(server, 4);
        await server.post(`/jobs/${over.id}/release`, { token: over.token });
        const res = await send([of(a, 'success'), of(over, 'success'), of({ id: UNKNOWN, token: WRONG }, 'failure', { message: 'm' }),
            of({ id: b.id, token: WRONG }, 'renew'), { id: b.id, outcome: 'success' },
            of(large, 'success', { result: 'x'.repeat(70_000) }),
            of(b, 'failure', { message: 'm', grace_period_ms: 5 }), of(b, 'success')]);
        assertError(res, 422, 'unprocessable', /6 of these/);
        assert.deepEqual(codes(res), [undefined, 'stale_token', 'not_found', 'stale_token', 'run_token_required',
            'too_large', 'unprocessable', undefined]);
        for (const one of res.json.reports)
            assert.equal(one.code === undefined, one.error === undefined);
        assert.equal(await status(large), 'in_flight');
        assert.equal(await status(b), 'completed');
    });

    it('count_once_of_each_run_and_a_repetition_is_answered_as_the_first_time', async () => {
        const [a, b, c] = await claimMany(server, 3);
        const reports = [of(a, 'success'), of(a, 'failure', { message: 'm' }), of(a, 'success'),
            of(b, 'failure', { message: 'm' }), of(b, 'failure', { message: 'm' }), of(b, 'success'),
            of(c, 'progress', { checkpoint: 1 }), of(c, 'renew'), of(c, 'release'), of(c, 'release')];
        const res = await send(reports);
        assert.deepEqual(codes(res), [undefined, 'stale_token', undefined, undefined, undefined, 'stale_token',
            undefined, undefined, undefined, undefined]);
        assert.deepEqual(res.json.reports[4], res.json.reports[3]);
        const again = await send([reports[0], reports[3]]);
        assert.equal(again.status, 200, again.text);
        assert.deepEqual(again.json.reports, [res.json.reports[0], res.json.reports[3]]);
        assert.equal((await server.job(b.id)).attempts, 1);
        const [gone] = await claimMany(server, 1, { retention: { completed_ms: 0 } });
        const twice = await send([of(gone, 'success'), of(gone, 'success')]);
        assert.equal(twice.status, 200, twice.text);
    });

    it('are_refused_as_a_whole_if_one_is_malformed', async () => {
        const [a] = await claimMany(server, 1);
        const bad = async (reports, code, message) =>
            assertError(await send(reports), 400, code, message);
        await bad([], 'bad_value', /reports: must not be empty/);
        await bad(undefined, 'missing_field', /reports/);
        await bad([of(a, 'success'), { id: a.id, token: a.token }], 'missing_field', /reports\[1\]: outcome/);
        await bad([of(a, 'success'), of(a, 'done')], 'bad_value', /reports\[1\]: outcome.*not 'done'/);
        await bad([of({ id: 'x', token: a.token }, 'success')], 'bad_id', /reports\[0\]/);
        await bad([of(a, 'renew', { lease_ms: 1 })], 'bad_value', /lease_ms/);
        await bad([of(a, 'success', { reslut: 1 })], 'unknown_field', /did you mean 'result'/);
        await bad([of(a, 'success', { token: 'x' })], 'bad_value', /token/);
        assert.equal(await status(a), 'in_flight', 'nothing is partly applied');
        const many = Array.from({ length: 10_001 }, () => of(a, 'renew'));
        await bad(many, 'too_many', /at most 10000/);
        assert.equal((await send([of(a, 'success', { message: null })])).status, 200, 'null is as absent');
    });

    it('are_refused_one_by_one_for_what_does_not_go_with_their_outcome', async () => {
        const [a, b] = await claimMany(server, 2);
        const cases = [[of(a, 'failure'), /message is required/], [of(a, 'progress'), /progress or checkpoint/],
            [of(a, 'success', { message: 'm' }), /message: not with the outcome 'success'/],
            [of(a, 'release', { ready_at: 1, delay_ms: 1 }), /exclude/]];
        const res = await send([...cases.map(([report]) => report), of(b, 'success')]);
        assert.equal(res.status, 422, res.text);
        cases.forEach(([, words], i) => {
            assert.equal(res.json.reports[i].code, 'unprocessable');
            assert.match(res.json.reports[i].error, words);
        });
        assert.equal(res.json.reports.at(-1).code, undefined);
        assert.equal(await status(a), 'in_flight');
    });

    it('are_taken_as_messagepack', async () => {
        const [a, b] = await claimMany(server, 2);
        const type = 'application/msgpack';
        const res = await fetch(`${server.url()}/jobs/reports`, { method: 'POST',
            headers: { 'content-type': type, accept: type },
            body: pack({ reports: [of(a, 'success', { result: [1, 'two'] }), of(b, 'failure', { message: 'm' })] }) });
        assert.equal(res.status, 200);
        const { reports } = unpack(Buffer.from(await res.arrayBuffer()));
        assert.deepEqual(reports.map((r) => [r.id, r.status]), [[a.id, undefined], [b.id, 'scheduled']]);
        assert.deepEqual((await server.job(a.id)).result, [1, 'two']);
    });

    it('survive_a_restart', async () => {
        const [a, b, c] = await claimMany(server, 3);
        await send([of(a, 'success', { result: 1 }), of(b, 'failure', { message: 'm' }), of(c, 'renew', { lease_ms: 600_000 })]);
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual(await Promise.all([a, b, c].map(status)), ['completed', 'scheduled', 'in_flight']);
        const again = await send([of(a, 'success', { result: 1 }), of(b, 'failure', { message: 'm' }), of(c, 'success')]);
        assert.equal(again.status, 200, again.text);
    });

    // Of processor time, since any clock runs on under load: the server's threads together.
    it('cost_less_than_a_tenth_of_reports_one_by_one', async () => {
        const cpu = () => fs.readdirSync(`/proc/${server.child.pid}/task`).reduce((sum, id) =>
            sum + Number(fs.readFileSync(`/proc/${server.child.pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]), 0);
        const spent = async (run) => {
            const before = cpu();
            await run();
            return cpu() - before;
        };
        const [first, second] = [await claimMany(server, 1000), await claimMany(server, 1000)];
        const singly = await spent(async () => {
            for (const job of first)
                await server.post(`/jobs/${job.id}/success`, { token: job.token });
        });
        const together = await spent(() => send(second.map((job) => of(job, 'success'))));
        console.log(`# together ${(together / 1e6).toFixed(1)} ms, one by one ${(singly / 1e6).toFixed(1)} ms`);
        assert.ok(together < singly / 10);
    });
});
