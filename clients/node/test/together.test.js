// SPDX-License-Identifier: Apache-2.0

// What comes up while a request is under way goes with the next one.

import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import * as tenax from '../src/index.js';
import { apiError } from '../src/errors.js';
import { Enqueues, Reports } from '../src/together.js';

const log = { info() {}, warn() {}, error() {} };
const turn = () => new Promise((resolve) => { setImmediate(resolve); });

// Requests that are answered when the test says so.
function rig() {
    const asked = [];
    const reports = new Reports({
        _send: (method, path, content) => new Promise((resolve, reject) => {
            asked.push({ path, body: JSON.parse(content), resolve, reject });
        }),
    });
    const send = (id, outcome = 'success', more = {}) =>
        reports.send(id, outcome, JSON.stringify({ token: `t${id}`, ...more }));
    const paths = (from) => asked.slice(from).map(({ path }) => path);
    return { asked, send, paths };
}

// Three reports, of which two are under way together.
async function rigOfTwo() {
    const it = rig();
    it.answers = [it.send('a')];
    await turn();
    it.answers.push(it.send('b'), it.send('c'));
    it.answers.forEach((one) => one.catch(() => {})); // looked at later
    it.asked[0].resolve(null);
    await turn();
    await turn();
    return it;
}

describe('reports', () => {
    it('go_at_once_alone_and_together_with_what_came_meanwhile', async () => {
        const { asked, answers } = await rigOfTwo();
        assert.deepEqual([asked[0].path, asked[0].body], ['/jobs/a/success', { token: 'ta' }]);
        assert.equal(await answers[0], null);
        assert.equal(asked[1].path, '/jobs/reports');
        assert.deepEqual(asked[1].body, { reports: [
            { id: 'b', outcome: 'success', token: 'tb' }, { id: 'c', outcome: 'success', token: 'tc' }] });
        asked[1].resolve({ reports: [{ id: 'b', reason: 'x' }, { id: 'c' }] });
        assert.deepEqual(await answers[1], { id: 'b', reason: 'x' });
        assert.deepEqual(await answers[2], { id: 'c' });
    });

    it('of_one_turn_go_together_at_once', async () => {
        const { asked, send } = rig();
        send('a');
        send('b');
        await turn();
        assert.deepEqual(asked.map(({ body }) => body.reports.map(({ id }) => id)), [['a', 'b']]);
    });

    it('that_are_refused_hear_why_by_a_request_of_their_own', async () => {
        const { asked, answers } = await rigOfTwo();
        asked[1].reject(apiError(422, { code: 'unprocessable', error: '1 of these reports were refused',
            reports: [{ id: 'b', code: 'stale_token', error: 'over' }, { id: 'c' }] }));
        assert.deepEqual(await answers[2], { id: 'c' });
        assert.equal(asked[2].path, '/jobs/b/success');
        asked[2].reject(apiError(409, { code: 'stale_token', error: 'over' }));
        await assert.rejects(answers[1], tenax.StaleToken);
    });

    it('all_fail_if_there_is_no_answer', async () => {
        const { asked, answers } = await rigOfTwo();
        asked[1].reject(new tenax.ConnectionFailed('cut', true));
        for (const one of answers.slice(1))
            await assert.rejects(one, tenax.ConnectionFailed);
        assert.equal(asked.length, 2);
    });

    it('are_sent_one_by_one_if_the_request_for_many_is_refused_or_answered_by_others', async () => {
        const cases = [
            ({ reject }) => reject(apiError(400, { code: 'bad_value', error: 'reports[0]: no' })),
            ({ reject }) => reject(new tenax.ForeignAnswer('POST', '/jobs/reports', 404)),
            ({ resolve }) => resolve({ reports: [] }), // others' words for it
            ({ resolve }) => resolve({ reports: [{ id: 'c' }, { id: 'b' }] }),
        ];
        for (const answer of cases) {
            const { asked, answers, paths } = await rigOfTwo();
            answer(asked[1]);
            await turn();
            assert.deepEqual(paths(2), ['/jobs/b/success', '/jobs/c/success']);
            asked[2].reject(apiError(400, { code: 'bad_value', error: 'no' }));
            asked[3].resolve(3);
            await assert.rejects(answers[1], /no/);
            assert.equal(await answers[2], 3);
        }
    });

    it('are_not_sent_together_again_to_a_server_that_does_not_know_it', async () => {
        for (const code of ['no_such_path', 'method_not_allowed']) {
            const { asked, send, answers, paths } = await rigOfTwo();
            const later = ['d', 'e'].map((id) => send(id)); // which wait
            asked[1].reject(apiError(404, { code, error: 'no such path' }));
            await turn();
            asked.slice(2).forEach(({ resolve }) => resolve(2));
            assert.deepEqual(await Promise.all(answers), [null, 2, 2]);
            await turn();
            await turn();
            ['f', 'g'].forEach((id) => send(id));
            asked.slice(4).forEach(({ resolve }) => resolve(2));
            await Promise.all(later);
            assert.deepEqual(paths(4), ['d', 'e', 'f', 'g'].map((id) => `/jobs/${id}/success`));
        }
    });

    it('of_one_job_keep_their_order_also_one_by_one', async () => {
        const { asked, send, paths } = rig();
        const answers = [send('a')];
        await turn();
        answers.push(send('b', 'progress'), send('b'), send('c'));
        asked[0].resolve(null);
        await turn();
        await turn();
        asked[1].reject(new tenax.ForeignAnswer('POST', '/jobs/reports', 502));
        await turn();
        assert.deepEqual(paths(2), ['/jobs/b/progress', '/jobs/c/success']);
        asked[2].resolve(null);
        await turn();
        assert.deepEqual(paths(4), ['/jobs/b/success']);
        asked.slice(3).forEach(({ resolve }) => resolve(null));
        await Promise.all(answers);
    });

    it('are_bounded_in_number_and_bytes', async () => {
        const { asked, send } = rig();
        send('first');
        await turn();
        for (let i = 0; i < 1500; i++)
            send(`${i}`);
        for (let i = 0; i < 10; i++)
            send(`large${i}`, 'success', { result: '\u00e4'.repeat(100000) });
        const next = async () => {
            const { body, resolve } = asked.at(-1);
            resolve(body.reports ? { reports: body.reports.map(({ id }) => ({ id })) } : null);
            await turn();
            await turn();
            return asked.at(-1).body.reports.length;
        };
        assert.deepEqual([await next(), await next(), await next(), await next()], [1000, 502, 2, 2]);
    });

    it('keep_their_order_and_a_release_is_alone', async () => {
        const { asked, send, paths } = rig();
        send('a', 'progress');
        await turn();
        send('b', 'progress');
        send('c', 'progress');
        send('b', 'release');
        send('c', 'release');
        send('d', 'failure', { message: 'no' });
        assert.deepEqual(paths(0), ['/jobs/a/progress']);
        asked[0].resolve(null);
        await turn();
        await turn();
        assert.deepEqual(asked[1].body.reports.map(({ id }) => id), ['b', 'c']);
        asked[1].resolve({ reports: [{ id: 'b' }, { id: 'c' }] });
        await turn();
        await turn();
        assert.deepEqual(paths(2), ['/jobs/b/release', '/jobs/c/release', '/jobs/d/failure'], 'none waits for a release');
    });

    it('do_not_wait_for_a_request_that_hangs', async (t) => {
        const due = [];
        t.mock.method(globalThis, 'setTimeout', (then) => { due.push(then); });
        const { send, paths } = rig();
        send('a');
        await turn();
        send('b');
        send('c');
        await turn();
        assert.deepEqual(paths(0), ['/jobs/a/success']);
        due[0]();
        await turn();
        assert.deepEqual(paths(1), ['/jobs/reports']);
    });
});

describe('enqueues', () => {
    // The first is under way, and two wait for it.
    async function enqueueThree() {
        const asked = [];
        const enqueues = new Enqueues((path, content) => new Promise((resolve, reject) => {
            asked.push({ path, body: JSON.parse(content), resolve, reject });
        }));
        const answers = [enqueues.send('1')];
        await turn();
        answers.push(enqueues.send('2'), enqueues.send('3'));
        answers.forEach((one) => one.catch(() => {})); // looked at later
        asked[0].resolve({ id: 'a' });
        await turn();
        await turn();
        assert.deepEqual(asked.map(({ path, body }) => [path, body]), [['/jobs', 1], ['/jobs/bulk', { jobs: [2, 3] }]]);
        return { asked, answers, enqueues };
    }

    it('have_each_an_answer_of_their_own', async () => {
        const { asked, answers } = await enqueueThree();
        asked[1].resolve({ jobs: [{ id: 'b' }, { id: 'c' }] });
        assert.deepEqual(await Promise.all(answers), [{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
    });

    it('have_each_an_error_of_their_own_if_all_are_refused', async () => {
        const { asked, answers } = await enqueueThree();
        asked[1].reject(apiError(400, { code: 'bad_value', error: 'jobs[0]: priority: no' }));
        await turn();
        assert.deepEqual(asked.slice(2).map(({ path, body }) => [path, body]), [['/jobs', 2], ['/jobs', 3]]);
        asked[2].reject(apiError(400, { code: 'bad_value', error: 'priority: no' }));
        asked[3].resolve({ id: 'c' });
        await assert.rejects(answers[1], (err) => err.where === 'priority');
        assert.deepEqual(await answers[2], { id: 'c' });
    });

    it('are_not_sent_again_if_nobody_knows_what_became_of_them', async () => {
        const errors = [new tenax.ConnectionFailed('cut', true), new tenax.ForeignAnswer('POST', '/jobs/bulk', 502),
            apiError(503, { code: 'store_failed', error: 'no' })];
        for (const error of errors) {
            const { asked, answers, enqueues } = await enqueueThree();
            asked[1].reject(error);
            await assert.rejects(answers[1], error);
            await assert.rejects(answers[2], error);
            assert.equal(asked.length, 2);
            ['4', '5'].forEach((text) => { enqueues.send(text); });
            await turn();
            const isForeign = error instanceof tenax.ForeignAnswer; // then bulks do not get through
            assert.deepEqual(asked.slice(2).map(({ path }) => path), isForeign ? ['/jobs', '/jobs'] : ['/jobs/bulk']);
        }
    });
});

describe('many callers', () => {
    it('enqueue_together_and_each_job_is_there_once', async () => {
        const client = new tenax.Client();
        const queue = `callers-${process.pid}`;
        const asked = async () => (await client.request('GET', '/proxy/count?path=/jobs/bulk')).count;
        const before = await asked();
        const enqueue = (n) => client.enqueue(queue, 't', n, n % 10 === 9 ? { priority: 70000 } : { priority: n });
        const all = await Promise.allSettled(Array.from({ length: 100 }, (_, n) => enqueue(n)));
        const alone = await client.enqueue(queue, 't', 'alone');
        for (const [n, { value, reason }] of all.entries()) {
            if (n % 10 === 9) {
                assert.equal(reason.where, 'priority');
                continue;
            }
            assert.deepEqual([value.priority, value.duplicate], [n, false]);
            assert.deepEqual(Object.keys(value), Object.keys(alone));
            assert.equal((await client.job(value.id)).payload, n);
        }
        await client.request('POST', '/proxy/drop', { path: '/jobs/bulk', count: 2 }); // with the same key again
        await Promise.all(Array.from({ length: 50 }, (_, n) => client.enqueue(queue, 't', n)));
        assert.equal((await client.request('GET', `/jobs/count?queue=${queue}`)).count, 141);
        assert.ok(await asked() > before);
        client.close();
    });
});

describe('a worker of many jobs', () => {
    const client = new tenax.Client();
    after(() => client.close());

    it('reports_them_together_and_each_has_its_own_outcome', async () => {
        const count = 200, sent = [];
        const queue = `together-${process.pid}`;
        const jobs = await client.enqueueBulk(Array.from({ length: count }, (_, n) =>
            ({ queue, type: 't', payload: n, retry_limit: 0 })));
        const send = client._send.bind(client);
        client._send = (method, path, ...more) => {
            sent.push(path);
            return send(method, path, ...more);
        };
        await client.request('POST', '/proxy/drop', { path: '/jobs/reports', count: 1 });
        await client.request('POST', '/proxy/foreign', { path: '/jobs/reports', status: 403 });
        await new tenax.Worker(client, queue, async (job) => {
            job.progress(0.5); // its order is kept, although it is not awaited
            await turn();
            if (job.payload % 4 === 1)
                throw new tenax.Failure('odd', { kill: true });
            if (job.payload % 4 === 3)
                throw new tenax.Failure('misspelt', { retryAt: 1 });
            return job.payload % 4 === 0 ? { n: job.payload } : 'x'.repeat(70000);
        }, { log, concurrency: 100 }).run({ drain: true });
        delete client._send;
        const want = [
            (job) => assert.deepEqual([job.status, job.result], ['completed', { n: job.payload }]),
            (job) => assert.equal(job.status, 'dead'),
            (job) => assert.match(job.result.result_omitted, /at most/),
            (job) => assert.match(job.runs[0].message, /misspelt .*did you mean 'retry_at'/),
        ];
        for (const [n, { id }] of jobs.entries()) {
            const job = await client.job(id, { runs: true });
            want[n % 4](job);
            assert.equal(job.runs.length, 1);
        }
        const reports = sent.filter((path) => path === '/jobs/reports').length;
        assert.ok(reports >= 3 && reports < count, `${reports} of ${sent.length} requests`);
    });
});
