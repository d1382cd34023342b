// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a proxy or a sign-in page answers in the server's place is no answer: to `tenax work`, and to
// the commands, which say so.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, begin, run, until } = require('./harness');
const { Proxy } = require('../clients/proxy');

describe('answers of others', () => {
    const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
    const proxy = new Proxy(server);
    before(async () => {
        await server.start();
        await proxy.start();
    });
    after(async () => {
        await proxy.close();
        await server.clean();
    });

    // The proxy answers the next requests to the path by itself, with one status after another.
    function foreign(path, statuses) {
        for (const status of statuses)
            proxy.control('foreign', undefined, JSON.stringify({ path, status, html: status === 200 }));
    }

    const outcomes = async (id) => (await server.runs(id)).map((run) => run.outcome);

    it('end_no_worker_and_lose_no_run', async () => {
        const enqueue = (type, fields) => server.enqueue({ queue: 'work', type, ...fields });
        const statuses = [200, 301, 401, 403, 404, 409, 413, 429, 502];
        const quick = [];
        for (const status of statuses) {
            const { id } = await enqueue('quick');
            foreign(`/jobs/${id}/success`, [status]);
            quick.push(id);
        }
        const { id: long } = await enqueue('long');
        foreign(`/jobs/${long}/renew`, [404, 409, 401]);
        const { id: fail } = await enqueue('fail', { retry_limit: 0 });
        foreign(`/jobs/${fail}/failure`, [404, 413]);
        foreign('/jobs/claim', [401, 404, 429, 301, 200]);
        foreign('/jobs/renew', [404, 409, 401]);
        const worker = begin(['work', '--queue', 'work', '--concurrency', '20', '--lease', '2s', '--',
            'sh', '-c', 'case $TENAX_JOB_TYPE in long) sleep 3;; fail) exit 7;; esac'],
        { TENAX_URL: proxy.url() });
        for (const id of [...quick, long]) {
            await until(async () => (await server.job(id)).status === 'completed', 'it is completed');
            assert.deepEqual(await outcomes(id), ['completed']);
        }
        await until(async () => (await server.job(fail)).status === 'dead');
        assert.equal((await server.get(`/jobs/${fail}/errors`)).json.errors[0].exit_code, 7);
        worker.child.kill('SIGTERM');
        const { code } = await worker.ended;
        const { stderr } = worker;
        assert.equal(code, 0, stderr);
        assert.match(stderr, /answered HTTP 401, but not as Tenax does; .*proxy in between/);
    });

    const ok = (path, rule) =>
        proxy.control('foreign', undefined, JSON.stringify({ path, status: 200, ok: true, ...rule }));

    // Once before the request reaches the server, and once after it has carried it out.
    const twice = (path) => [false, true].forEach((late) => ok(path, { late }));

    it('of_2xx_are_not_what_the_server_says_to_a_worker', async () => {
        const enqueue = (type, fields) => server.enqueue({ queue: 'ok', type, ...fields });
        const good = [await enqueue('quick'), await enqueue('quick'), await enqueue('long')];
        const bad = await enqueue('fail', { retry_limit: 0 });
        for (const path of ['/jobs/claim', '/jobs/renew', '*/renew', '*/success', '*/failure', '*/progress'])
            twice(path);
        const worker = begin(['work', '--queue', 'ok', '--concurrency', '20', '--lease', '2s', '--',
            'sh', '-c', 'echo ran >&2; case $TENAX_JOB_TYPE in long) sleep 3;; fail) exit 7;; esac'],
        { TENAX_URL: proxy.url() });
        for (const { id } of good)
            await until(async () => (await server.job(id)).status === 'completed', 'it is completed');
        await until(async () => (await server.job(bad.id)).status === 'dead');
        worker.child.kill('SIGTERM');
        const { code } = await worker.ended;
        const { stderr } = worker;
        assert.equal(code, 0, stderr);
        for (const { id } of good)
            assert.deepEqual(await outcomes(id), ['completed']);
        assert.deepEqual(await outcomes(bad.id), ['failed']);
        assert.equal(stderr.match(/ran$/gm).length, 4, stderr);
        assert.match(stderr, /answered HTTP 200, but not as Tenax does; .*proxy in between/);
        assert.ok(!proxy.rules.some((rule) => rule.count && /claim|success|failure/.test(rule.path)));
        proxy.rules.length = 0;
    });

    it('of_2xx_are_not_what_the_server_says_to_a_command', async () => {
        const { id } = await server.enqueue({ queue: 'asked' });
        const commands = {
            '/jobs': [['enqueue', '--queue', 'asked', '--type', 't', '1'], ['jobs']],
            [`/jobs/${id}`]: [['job', id], ['job', id, '--delete']],
            '/jobs/cancel': [['cancel', '--queue', 'asked']],
            [`/jobs/${id}/cancel`]: [['cancel', id]],
            '/queues/asked': [['queue', 'asked']],
            '/queues': [['queues']],
            '/workers': [['workers']],
            '/crons': [['crons']],
            '/version': [['version', '--server']],
        };
        for (const [path, list] of Object.entries(commands))
            for (const args of list) {
                ok(path);
                const { code, stdout, stderr } = await run(args, { TENAX_URL: proxy.url() });
                assert.equal(proxy.rules.at(-1).count, 0, `${args}: asks for ${path}: ${stderr}`);
                assert.equal(code, 3, `${args}: ${stdout}${stderr}`);
                assert.match(stderr, /answered HTTP 200, but not as Tenax does/);
            }
        assert.equal((await server.job(id)).status, 'ready');
        proxy.rules.length = 0;
    });

    const drop = (path, count) => proxy.control('drop', undefined, JSON.stringify({ path, count }));

    it('a_claim_whose_answer_is_lost_is_asked_again', async () => {
        const { id } = await server.enqueue({ queue: 'lost', retry_limit: 0 });
        drop('/jobs/claim', 2);
        const { code, stderr } = await run(['work', '--queue', 'lost', '--drain', '--', 'true'],
            { TENAX_URL: proxy.url() });
        assert.equal(code, 0, stderr);
        assert.deepEqual(await outcomes(id), ['completed']);
    });

    it('what_it_got_is_given_back_by_a_worker_that_stops', async () => {
        const { id } = await server.enqueue({ queue: 'stop' });
        drop('/jobs/claim', 1);
        // And no other answer comes before the worker is told to stop.
        proxy.control('refuse', undefined, JSON.stringify({ path: '/jobs/claim', count: 100, status: 503 }));
        const worker = begin(['work', '--queue', 'stop', '--lease', '1h', '--', 'true'],
            { TENAX_URL: proxy.url() });
        await until(() => proxy.rules.some((rule) => rule.status === 503 && rule.count < 100), 'it asks again');
        proxy.rules.length = 0;
        worker.child.kill('SIGTERM');
        const { code } = await worker.ended;
        assert.equal(code, 0, worker.stderr);
        const job = await server.job(id);
        assert.deepEqual([job.status, job.attempts], ['ready', 0]);
        assert.deepEqual(await outcomes(id), ['returned']);
    });

    it('are_told_apart_from_the_servers_by_commands', async () => {
        const { id } = await server.enqueue({ queue: 'cli' });
        const ask = (args) => run(args, { TENAX_URL: proxy.url() });
        for (const status of [200, 302, 403, 404, 409, 422, 502]) {
            foreign(`/jobs/${id}`, [status]);
            const { code, stderr } = await ask(['job', id]);
            assert.equal(code, 3, `${status}: ${stderr}`);
            assert.match(stderr, new RegExp(`answered HTTP ${status}, but not as Tenax does`));
        }
        const { code } = await ask(['job', '0'.repeat(25)]);
        assert.notEqual(code, 3, 'a refusal by the server stays one');
        foreign('/events', [200]);
        const events = await ask(['events']);
        assert.equal(events.code, 3);
        assert.match(events.stderr, /answered HTTP 200, but not as Tenax does/);
    });
});
