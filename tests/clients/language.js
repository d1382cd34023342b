// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the client of every language has to do, against the real server. A language that is absent
// fails: `tools/setup test` installs all of them.
//
// testClient(name, {tests, counted, example, whole, fence, prepare, worker, cwd, env}):
//   tests    [command, arguments…] that runs the language's own tests in cwd; they find the server
//            (behind proxy.js) in TENAX_URL, one with TLS and tokens in TEST_SECURE_URL, its CA in
//            TEST_CA_CERT and a token of an operator in TEST_TOKEN_FILE
//   counted  what its output says if tests were run and none was skipped
//   example  (text, dir) → [command, arguments…] that runs the first sample of the README
//   whole    (text) → the program of the lines in the README of all, if they are none by themselves
//   fence    how that README calls its language, if not by name
//   prepare  (dir) → [command, arguments…] to be run before all else, if anything
//   worker   (dir) → [command, arguments…]: a program that is given QUEUE CONCURRENCY LEASE_MS
//            GRACE_MS LEDGER. It adds "TYPE ID RUN" to the ledger and, of a job of type
//              work   before that sleeps payload.ms and is done after it;
//              hold   after that waits until its worker ends, saves {"run": RUN} and gives it back;
//              deaf   after that sleeps for a minute, whatever happens;
//              fail   after that fails with the message "it failed";
//              tell   before that tells its progress and saves a checkpoint;
//              more   enqueues a job to payload.queue, for which it tries for payload.retry_ms, adds
//                     nothing to the ledger, and has "enqueued" as its result, or the text of the
//                     error that says that something in between answered;
//              many   reports payload.ids as successful by one request; its result is the list of
//                     those that were not found.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const harness = require('../http/harness');
const transport = require('../http/transport');
const { create } = require('../http/access');
const { Proxy } = require('./proxy');

const { Server, environment, makeDir, ownAddress, running, until, within } = harness;
const CLIENTS = path.join(__dirname, '../../clients');

// Runs a command to its end: {code, said}.
function finish(child, what) {
    running.add(child);
    let said = '';
    child.stdout.on('data', (bytes) => { said += bytes; });
    child.stderr.on('data', (bytes) => { said += bytes; });
    return within(new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => {
            running.delete(child);
            resolve({ code, signal, said });
        });
    }), () => `${what} ends; so far ${said}`, 400000);
}

function linesOf(file) {
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
}

function testClient(name, {
    tests, counted, example, whole = (text) => text, fence = name, prepare, worker,
    cwd = path.join(CLIENTS, name), env = {},
}) {
    describe(`the client for ${name}`, () => {
        let dir;

        before(async () => {
            dir = makeDir();
            if (prepare) {
                const { code, said } = await finish(start(prepare(dir)), 'its preparation');
                assert.equal(code, 0, said);
            }
        });
        after(() => fs.rmSync(dir, { recursive: true, force: true }));

        // Starts a command; its end is awaited by finish().
        function start([command, ...args], more = {}) {
            const all = { ...environment(), ...env, ...more };
            delete all.NODE_TEST_CONTEXT; // it would believe to be a part of this test
            return spawn(command, args, { cwd, env: all, stdio: ['ignore', 'pipe', 'pipe'] });
        }

        // A worker of the queue; its ledger; and its end.
        function startWorker(url, queue, { concurrency = 2, lease = 60000, grace = 30000 } = {}) {
            const ledger = path.join(dir, `${queue}.ledger`);
            const args = [queue, concurrency, lease, grace, ledger].map(String);
            const child = start([...worker(dir), ...args], { TENAX_URL: url });
            return { child, ledger: () => linesOf(ledger), ended: finish(child, 'the worker') };
        }

        it('passes_its_own_tests', async (t) => {
            const secureDir = path.join(dir, 'tls');
            const made = await transport.run(['tls', 'init', '--out-dir', secureDir]);
            assert.equal(made.code, 0, made.stderr);
            const file = (which) => path.join(secureDir, which);
            const secure = await transport.serve(t, ['--tls-cert', file('server-cert.pem'),
                '--tls-key', file('server-key.pem')]);
            const api = new Server(); // only asks; the server above is the one that runs
            api.adminUrl = secure.admin;
            const token = await create(api, { roles: ['operator', 'worker', 'producer'] }, {});
            await create(api, { roles: ['admin'] }, {});
            await api.clean();
            fs.writeFileSync(file('token'), `${token}\n`, { mode: 0o600 });

            const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
            await server.start();
            const proxy = new Proxy(server);
            await proxy.start();
            try {
                const { code, said } = await finish(start(tests, {
                    TENAX_URL: proxy.url(), TEST_SECURE_URL: secure.url,
                    TEST_CA_CERT: file('ca-cert.pem'), TEST_TOKEN_FILE: file('token'),
                }), 'its tests');
                assert.equal(code, 0, said);
                assert.match(said, counted);
                assert.ok(!said.includes(token), 'a token is in no output');
            } finally {
                await proxy.close();
                await server.clean();
            }
        });

        // It enqueues a job and does it.
        async function runsSample(command) {
            const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
            await server.start();
            try {
                const { code, said } = await finish(start(command, { TENAX_URL: server.url() }), 'the sample');
                assert.equal(code, 0, said);
                const { jobs } = (await server.get('/jobs?queue=mail')).json;
                assert.equal(jobs.length, 1);
                assert.equal(jobs[0].status, 'completed');
                assert.equal((await server.job(jobs[0].id)).result, 'sent to ada');
            } finally {
                await server.clean();
            }
        }

        it('runs_the_sample_of_its_README', async () => {
            const readme = fs.readFileSync(path.join(CLIENTS, name, 'README.md'), 'utf8');
            const [, sample] = /^```\w+\n([^]*?)^```$/m.exec(readme);
            assert.ok(sample.split('\n').length <= 40, 'it is short');
            await runsSample(example(sample, dir));
        });

        it('runs_its_start_of_the_README_of_all', async () => {
            const readme = fs.readFileSync(path.join(CLIENTS, '../README.md'), 'utf8');
            const [, sample] = new RegExp(`^\\x60{3}${fence}\\n([^]*?)^\\x60{3}$`, 'm').exec(readme);
            assert.equal(sample.trim().split('\n').length, 5);
            const folder = path.join(dir, 'start');
            fs.mkdirSync(folder);
            await runsSample(example(whole(sample), folder));
        });

        it('gives_its_jobs_back_at_SIGTERM_at_once', async () => {
            const server = new Server();
            await server.start();
            try {
                const [hold, deaf] = await server.enqueueMany(
                    [{ queue: 'stop', type: 'hold' }, { queue: 'stop', type: 'deaf' }]);
                const one = startWorker(server.url(), 'stop', { concurrency: 3, grace: 5000 });
                await until(() => one.ledger().length === 2, 'both are under way');
                one.child.kill('SIGTERM');
                const { code, said } = await one.ended;
                assert.equal(code, 0, said);
                for (const id of [hold, deaf]) { // long before their leases of a minute are over
                    const job = await server.job(id);
                    assert.equal(job.status, 'ready', said);
                    assert.equal(job.attempts, 0);
                    assert.equal((await server.runs(id))[0].outcome, 'returned');
                }
                const [next] = await server.claim({ queues: ['stop'] });
                assert.deepEqual([next.id, next.run, next.checkpoint], [hold, 1, { run: 0 }]);

                // One that waits for a job is handed none while it ends.
                const idle = startWorker(server.url(), 'idle');
                const quick = { queue: 'idle', type: 'work', payload: { ms: 0 } };
                await server.enqueue(quick);
                await until(async () => (await server.get('/jobs/count?queue=idle')).json.count === 0);
                idle.child.kill('SIGTERM');
                assert.equal((await idle.ended).code, 0);
                assert.equal((await server.job((await server.enqueue(quick)).id)).status, 'ready');
            } finally {
                await server.clean();
            }
        });

        it('takes_what_a_proxy_says_for_no_answer', async () => {
            const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
            await server.start();
            const proxy = new Proxy(server);
            await proxy.start();
            // The proxy answers the next requests to the path by itself, with one status after another.
            const foreign = (where, statuses, late) => statuses.forEach((status) => proxy.control(
                'foreign', undefined, JSON.stringify({ path: where, status, late })));
            const enqueue = (type, fields) => server.enqueue({ queue: 'foreign', type, ...fields });
            let one;
            try {
                const statuses = [200, 201, 202, 301, 302, 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503];
                const quick = await server.enqueueMany(statuses.map(() => (
                    { queue: 'foreign', type: 'work', payload: { ms: 0 } })));
                quick.forEach((id, i) => foreign(`/jobs/${id}/success`, [statuses[i], 200, 403]));
                foreign(`/jobs/${quick[0]}/success`, [403, 404], true);
                foreign('/jobs/reports', [403], true);
                foreign('/jobs/reports', statuses); // then they are sent one by one
                const long = await enqueue('work', { payload: { ms: 3500 } });
                foreign('/jobs/renew', [404, 409, 401, 422]);
                const tell = await enqueue('tell');
                foreign(`/jobs/${tell.id}/progress`, [404, 409, 403, 200]);
                const fail = await enqueue('fail', { retry_limit: 0 });
                foreign(`/jobs/${fail.id}/failure`, [404, 413, 401]);
                const more = await enqueue('more', { payload: { queue: 'much', retry_ms: 20000 } });
                foreign('/jobs', [429, 404, 200]);
                foreign('/jobs', [502], true);
                foreign('/jobs/claim', [401, 301, 200]);

                one = startWorker(proxy.url(), 'foreign', { concurrency: 30, lease: 3000 });
                const completed = [...quick, long.id, tell.id, more.id];
                for (const id of completed) {
                    await until(async () => ['completed', 'dead'].includes((await server.job(id)).status),
                        'it has ended');
                    assert.deepEqual((await server.runs(id)).map((run) => run.outcome), ['completed']);
                }
                assert.ok(one.ledger().includes(`tell ${tell.id} 0`), 'its checkpoint was saved');
                assert.equal((await server.job(more.id)).result, 'enqueued');
                assert.equal((await server.get('/jobs/count?queue=much')).json.count, 1);
                await until(async () => (await server.job(fail.id)).status === 'dead');
                const { errors } = (await server.get(`/jobs/${fail.id}/errors`)).json;
                assert.deepEqual(errors.map((error) => error.message), ['it failed']);

                // An enqueue that never reaches the server ends, and says why.
                foreign('/jobs', Array.from({ length: 100 }, () => 403));
                foreign('/jobs/claim', [403, 502]);
                const bounded = await enqueue('more', { payload: { queue: 'none', retry_ms: 500 } });
                await until(async () => (await server.job(bounded.id)).status === 'completed');
                assert.match((await server.job(bounded.id)).result, /HTTP 403 .*such as a proxy/);
                assert.equal((await server.get('/jobs/count?queue=none')).json.count, 0);

                const hold = await enqueue('hold');
                await until(() => one.ledger().some((line) => line.startsWith('hold')));
                foreign(`/jobs/${hold.id}/progress`, [404]);
                foreign(`/jobs/${hold.id}/release`, [404, 403]);
                one.child.kill('SIGTERM');
                const { code, said } = await one.ended;
                assert.equal(code, 0, said);
                assert.match(said, /no jobs for now.*such as a proxy/);
                assert.match(said, /the report of its success is sent again.*such as a proxy/);
                assert.match(said, /leases cannot be renewed.*such as a proxy/);
                assert.match(said, /POST \/jobs: .*such as a proxy; it is asked again/);
                assert.equal((await server.job(hold.id)).status, 'ready');
                assert.deepEqual((await server.runs(hold.id)).map((run) => run.outcome), ['returned']);
            } finally {
                one?.child.kill('SIGKILL');
                await proxy.close();
                await server.clean();
            }
        });

        it('learns_what_became_of_each_of_many', async () => {
            const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
            await server.start();
            const proxy = new Proxy(server);
            await proxy.start();
            const renewals = () => proxy.control('count', new URLSearchParams('path=/jobs/renew')).count;
            let one;
            try {
                const [lost, kept] = await server.enqueueMany(
                    [{ queue: 'many', type: 'hold' }, { queue: 'many', type: 'hold' }]);
                for (const where of ['/jobs/renew', '/jobs/success']) {
                    proxy.control('bare', undefined,
                        JSON.stringify({ path: where, count: 1000 }));
                }
                one = startWorker(proxy.url(), 'many', { concurrency: 3, lease: 3000 });
                await until(() => one.ledger().length === 2, 'both are under way');
                assert.equal((await server.request('DELETE', `/jobs/${lost}`)).status, 204);
                const seen = renewals(); // the next but one comes after the answer to the next
                await until(() => renewals() >= seen + 3, 'the leases are renewed');

                const nobody = '0'.repeat(lost.length);
                const many = await server.enqueue(
                    { queue: 'many', type: 'many', payload: { ids: [nobody, 'nonsense'] } });
                await until(async () => (await server.job(many.id)).status === 'completed');
                assert.deepEqual((await server.job(many.id)).result, [nobody, 'nonsense']);

                one.child.kill('SIGTERM');
                const { code, said } = await one.ended;
                assert.equal(code, 0, said);
                assert.match(said, new RegExp(`job ${lost} is lost`));
                assert.doesNotMatch(said, new RegExp(`job ${kept} is lost|such as a proxy`));
                assert.equal((await server.job(kept)).status, 'ready');
            } finally {
                one?.child.kill('SIGKILL');
                await proxy.close();
                await server.clean();
            }
        });

        it('loses_nothing_and_does_nothing_twice_when_the_server_is_killed', async () => {
            const server = new Server({ args: ['--host', ownAddress(),
                '--default-completed-job-retention', '1h'] });
            await server.start();
            const args = [...server.args, '--port', String(server.port)];
            try {
                const [long, ...ids] = await server.enqueueMany(Array.from({ length: 60 }, (_, i) => (
                    { queue: 'kill', type: 'work', payload: { ms: i === 0 ? 2500 : 40 } })));
                const one = startWorker(server.url(), 'kill', { concurrency: 4, lease: 6000 });
                for (const done of [8, 25]) {
                    await until(() => one.ledger().length >= done, () => `${done} are done`);
                    await server.signal('SIGKILL');
                    await server.start({ args });
                }
                await until(async () => (await server.get('/jobs/count?queue=kill&status=completed'))
                    .json.count === 60, 'all are completed');
                one.child.kill('SIGTERM');
                const { code, said } = await one.ended;
                assert.equal(code, 0, said);
                let once = 0;
                for (const id of [long, ...ids]) {
                    const runs = await server.runs(id);
                    const outcomes = runs.map((run) => run.outcome);
                    const done = one.ledger().filter((line) => line.split(' ')[1] === id).length;
                    assert.equal(outcomes.at(-1), 'completed', outcomes.join());
                    // A run before the last has lost its lease, or was not begun.
                    assert.ok(outcomes.slice(0, -1).every((outcome) => outcome === 'claim-expired'),
                        outcomes.join());
                    assert.ok(done >= 1 && done <= runs.length, `${id}: done ${done} times`);
                    once += runs.length === 1 ? 1 : 0;
                }
                // What was handed out by answers that the kill cut off: one claim for each.
                assert.ok(once >= 60 - 2 * 4, `${once} of 60 had one run`);
            } finally {
                await server.clean();
            }
        });
    });
}

module.exports = { CLIENTS, testClient };
