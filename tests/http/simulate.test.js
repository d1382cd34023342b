// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a draft of a retry policy would make of failures: POST /retry-policies/simulate and
// `tenax policy simulate` and `schedule`.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { Server, assertError, makeDir, notOn, queueName, run, until, useServer } = require('./harness');

const policy = (name, spec) => ({
    apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name }, spec,
});
const OOM = policy('memory', {
    backoff: { initialDelay: '10s', maxDelay: '1m', jitter: '0s' },
    rules: [
        { action: 'Retry', onConditions: ['OOMKilled'], retryLimit: 3 },
        { action: 'Fail', onExitCodes: { operator: 'In', values: [86] } },
    ],
});

describe('a simulation', () => {
    const server = useServer();
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    async function simulate(body) {
        const res = await server.post('/retry-policies/simulate', body);
        assert.equal(res.status, 200, res.text);
        return res.json;
    }

    // A job that fails with each of these reports in turn.
    async function failing(queue, reports, fields = {}) {
        const { id } = await server.enqueue({ queue, ...fields });
        for (const report of reports) {
            await server.claimOne(queue);
            const res = await server.post(`/jobs/${id}/failure`,
                { message: 'm', retry_at: 0, ...report });
            assert.equal(res.status, 200, res.text);
        }
        return id;
    }

    it('of_very_many_large_failures_is_answered_whole', async () => {
        const queue = queueName();
        for (let i = 0; i < 40; i++)
            await failing(queue, [{ termination_message: 'x'.repeat(60000), retry_at: undefined,
                kill: true }]);
        const { jobs, summary } = await simulate({ policies: [policy('p', {
            rules: Array.from({ length: 200 }, (_, i) => ({ action: 'Retry',
                onTerminationMessage: { pattern: 'x'.repeat(1000 + i) } })) })],
        queues: [queue] });
        assert.deepEqual([jobs.length, summary.jobs, summary.failures], [40, 40, 40]);
    });

    it('leaves_claims_that_expired_to_the_limits_of_the_job', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        await until(async () => (await server.job(id)).status === 'dead', 'its claim expires');
        const stored = await simulate({
            policies: [policy('all', { defaultAction: 'Retry' })], queues: [queue],
        });
        const [{ draft, today }] = stored.jobs[0].failures;
        assert.deepEqual(draft, {
            action: 'Fail', reason: 'dead: the lease ran out and no retries are allowed',
        });
        assert.deepEqual(draft, today);
    });

    it('judges_stored_failures_beside_today_and_changes_nothing', async () => {
        const queue = queueName();
        const oom = await failing(queue, [{ condition: 'OOMKilled', exit_code: 137 },
            { condition: 'OOMKilled', exit_code: 137 }]);
        const fatal = await failing(queue, [{ exit_code: 86 }], { retry_limit: 2, priority: 1 });
        const before = await server.runs(oom);
        const { jobs, summary } = await simulate({ policies: [OOM], queues: [queue] });
        assert.deepEqual(jobs.map((job) => job.job), [fatal, oom]); // the newest first
        const [first, second] = jobs[1].failures;
        assert.deepEqual([first.run, first.condition, first.exit_code], [0, 'OOMKilled', 137]);
        assert.equal(first.recorded, before[0].reason);
        assert.deepEqual([first.draft.action, first.draft.policy, first.draft.rule,
            first.draft.count, first.draft.limit, first.draft.delay_ms],
        ['Retry', 'memory', 1, 1, 3, 10000]);
        assert.match(first.draft.reason, /^retry 1 of 3 by rule 1 of policy memory \(OOMKilled\)/);
        assert.match(first.today.reason, /^retry 1 of 25, default backoff, in /);
        assert.equal(second.draft.delay_ms, 20000);
        // If it goes on: 10 + 20 + 40 s and dead, against the server's 25 retries in 25 days.
        assert.deepEqual(jobs[1].draft, { retries: 3, more: false, dead: true, window_ms: 70000 });
        assert.equal(jobs[1].today.retries, 25);
        assert.ok(jobs[1].today.window_ms > 24 * 86400000);
        assert.equal(jobs[1].extra_attempts, -22);
        assert.equal(jobs[0].failures[0].draft.action, 'Fail');
        assert.equal(jobs[0].today.retries, 2);
        assert.deepEqual([summary.jobs, summary.failures, summary.truncated], [2, 3, false]);
        assert.deepEqual([summary.draft.retries, summary.today.retries, summary.extra_attempts],
            [3, 27, -24]);
        assert.deepEqual(await server.runs(oom), before);
        assert.deepEqual((await server.get('/retry-policies')).json.items, []);
    });

    it('tells_of_completed_jobs_that_would_have_been_given_up', async () => {
        const queue = queueName();
        const id = await failing(queue, [{ exit_code: 86 }, { exit_code: 86 }],
            { retention: { completed_ms: 600000 } });
        await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
        const { jobs, summary } = await simulate({ policies: [OOM], queues: [queue] });
        assert.equal(jobs[0].completed, true);
        assert.equal(jobs[0].failures[1].draft, null); // it would not have come so far
        assert.deepEqual(jobs[0].today.retries, 2); // and needed no more
        assert.equal(summary.lost_completions, 1);
    });

    it('takes_the_draft_for_the_policy_of_its_name_or_behind_those_of_the_queue', async () => {
        const queue = queueName();
        const put = async (name, spec) => assert.equal((await server.request('PUT',
            `/retry-policies/${name}`, policy(name, spec))).status, 200);
        await put('first', { rules: [{ action: 'Retry', onExitCodes: { operator: 'In',
            values: [1] }, retryLimit: 5 }] });
        await server.request('PUT', `/queues/${queue}`, { retry_policies: ['first'] });
        await server.request('PUT', '/settings/retry', { enabled: true });
        const failures = [1, 2].map((exit_code) => ({ queue, failure: { message: 'm', exit_code } }));
        const behind = policy('behind', { rules: [{ action: 'Retry', retryLimit: 7,
            onExitCodes: { operator: 'In', values: [1, 2] } }] });
        const added = await simulate({ policies: [behind], failures });
        assert.deepEqual(added.jobs.map((job) => job.failures[0].draft.policy), ['first', 'behind']);
        assert.deepEqual(added.jobs.map((job) => job.draft.retries), [5, 7]);
        assert.deepEqual(added.jobs.map((job) => job.today.retries), [5, 0]);
        assert.equal(added.summary.extra_attempts, 7);
        const instead = await simulate({ policies: [policy('first', { defaultAction: 'Fail' })],
            failures });
        assert.deepEqual(instead.jobs.map((job) => job.draft.retries), [0, 0]);
        const capped = await simulate({ policies: [behind], failures,
            settings: { globalMaxRetries: 3 } });
        assert.deepEqual(capped.jobs.map((job) => job.draft.retries), [3, 3]);
        assert.deepEqual(capped.jobs.map((job) => job.today.retries), [5, 0]);
        const named = await simulate({ policies: [behind],
            failures: [{ queue: 'other', retry_policies: ['first'], ...failures[0] }] });
        assert.equal(named.jobs[0].failures[0].today.policy, 'first');
        await server.request('PUT', '/settings/retry', { enabled: false });
    });

    it('names_failures_that_are_given_as_a_report_would_be_named', async () => {
        const categories = {
            apiVersion: 'tenax.dev/v1', kind: 'FailureCategories', metadata: { name: 'gpu' },
            spec: { rules: [{ category: 'gpu', onExitCodes: { operator: 'In', values: [74] } }] },
        };
        assert.equal((await server.post('/failure-categories', categories)).status, 201);
        const draft = policy('devices', { retryLimit: 2,
            rules: [{ action: 'Retry', onFailureCategory: ['gpu'] }] });
        const { jobs } = await simulate({ policies: [draft], failures: [
            { failure: { message: 'm', exit_code: 74 } },
            { failure: { message: 'm', exit_code: 74, category: 'mine' } }] });
        assert.deepEqual(jobs.map((job) => [job.failures[0].category, job.draft.retries]),
            [['gpu', 2], ['mine', 0]]);
        // Stored ones keep what they were given when they happened.
        const queue = queueName();
        await failing(queue, [{ exit_code: 74 }]);
        assert.equal((await server.delete('/failure-categories/gpu')).status, 204);
        const stored = await simulate({ policies: [draft], queues: [queue] });
        assert.equal(stored.jobs[0].draft.retries, 2);
    });

    it('agrees_with_what_the_engine_then_does', async () => {
        const queue = queueName();
        const reports = [{ condition: 'OOMKilled' }, { condition: 'OOMKilled' }, { exit_code: 86 }];
        await failing(queue, reports);
        const draft = policy('real', { ...OOM.spec, backoff: { initialDelay: '0s' } });
        const { jobs } = await simulate({ policies: [draft], queues: [queue] });
        const wanted = jobs[0].failures.map((failure) => failure.draft.reason);
        const real = queueName();
        await server.request('PUT', '/retry-policies/real', draft);
        await server.request('PUT', `/queues/${real}`, { retry_policies: ['real'] });
        await server.request('PUT', '/settings/retry', { enabled: true });
        const { id } = await server.enqueue({ queue: real });
        for (const report of reports) {
            await server.claimOne(real);
            await server.post(`/jobs/${id}/failure`, { message: 'm', ...report });
        }
        assert.deepEqual((await server.runs(id)).map((r) => r.reason), wanted);
        await server.request('PUT', '/settings/retry', { enabled: false });
    });

    it('is_bounded', async () => {
        const queue = queueName();
        for (let i = 0; i < 3; i++)
            await failing(queue, [{}, {}], { priority: 10 - i });
        const { jobs, summary } = await simulate({ policies: [OOM], queues: [queue], limit: 3 });
        assert.deepEqual([jobs.length, summary.failures, summary.truncated], [2, 3, true]);
        const much = policy('much', { defaultAction: 'Retry', retryLimit: 1000000 });
        const endless = await simulate({ policies: [much],
            settings: { globalMaxRetries: 1000000 }, failures: [{ failure: { message: 'm' } }] });
        assert.equal(endless.jobs[0].draft.more, true);
        assert.equal(endless.jobs[0].draft.retries, 101);
    });

    it('is_refused_with_the_path_of_the_fault', async () => {
        for (const [body, words] of [
            [{}, /^policies is required/],
            [{ policies: {} }, /^policies: /],
            [{ policies: [OOM, OOM] }, /^policies\[1\]: .*same name/],
            [{ policies: [policy('x', { rules: [{ action: 'Maybe' }] })] },
                /^policies\[0\]: spec\.rules\[0\]\.action/],
            [{ policies: [OOM], settings: { globalMaxRetries: -1 } },
                /^settings\.globalMaxRetries/],
            [{ policies: [OOM], limit: 0 }, /^limit/],
            [{ policies: [OOM], failures: [{}] }, /^failures\[0\]: failure is required/],
            [{ policies: [OOM], failures: [{ failure: {} }] }, /^failures\[0\]: message/],
            [{ policies: [OOM], failures: [{ failure: { message: 'm', condition: 'x' } }] },
                /^failures\[0\]: condition/],
            [{ policies: [OOM], failures: {} }, /^failures/],
            [{ policies: [OOM], failures: [], queues: ['q'] }, /^queues and types/],
        ]) {
            const res = await server.post('/retry-policies/simulate', body);
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, words);
        }
        assertError(await server.post('/retry-policies/simulate', '{"policies":'), 400, 'bad_json');
        const none = await simulate({ policies: [OOM], failures: [] });
        assert.deepEqual([none.jobs, none.summary.failures], [[], 0]);
    });

    const cli = (args, input = '') =>
        run(['policy', ...args], { TENAX_URL: server.url() }, input);
    const write = (name, text) => {
        const file = path.join(dir, name);
        fs.writeFileSync(file, text);
        return file;
    };

    it('is_printed_as_a_table', async () => {
        const queue = queueName();
        const id = await failing(queue, [{ condition: 'OOMKilled' }, { exit_code: 86 }]);
        const file = write('memory.json', JSON.stringify(OOM));
        let end = await cli(['simulate', '-f', file, '--queue', queue]);
        assert.equal(end.code, 0, end.stderr);
        const lines = end.stdout.split('\n');
        assert.match(lines[0], /^JOB +QUEUE +RUN +FAILURE +TODAY +DRAFT$/);
        assert.match(lines[1], new RegExp(`^${id} +${queue} +0 +OOMKilled, culprit job: m +retry in .*`
            + 'retry 1 of 3 in 10 s, memory rule 1$'));
        assert.match(lines[2], / 1 +exit 86, culprit job: m +retry .* dead, memory rule 2$/);
        assert.match(end.stdout, /2 failures of 1 job\. If they keep failing/);
        assert.match(end.stdout, /That is 24 attempts fewer\./);
        end = await cli(['simulate', '-f', file, '--queue', queue, '-o', 'json']);
        assert.equal(JSON.parse(end.stdout).summary.failures, 2);
        end = await cli(['simulate', '-f', file, '--failures', '-', '--global-max-retries', '0'],
            JSON.stringify([{ failure: { message: 'm', condition: 'OOMKilled' } }]));
        assert.match(end.stdout, /dead, memory rule 1/);
        end = await cli(['simulate', '-f', file, '--queue', 'nobodys']);
        assert.match(end.stderr, /no failures to evaluate/);
        assert.equal((await cli(['simulate'])).code, 2);
    });

    it('of_a_schedule_needs_no_server', async () => {
        const file = write('schedule.yaml', `apiVersion: tenax.dev/v1
kind: RetryPolicy
metadata: {name: p}
spec:
  defaultAction: Retry
  retryLimit: 40
  backoff: {initialDelay: 30s, maxDelay: 5m, multiplier: 3, jitter: none}
  rules:
    - {action: Retry, onConditions: [Evicted], retryLimit: 2, backoff: {initialDelay: 0s}}
    - {action: Fail, onConditions: [OOMKilled]}
    - {action: Retry, onConditions: [Preempted], retryFor: 1m}
`);
        const offline = (...args) => run(['policy', 'schedule', ...args, '--url',
            'http://127.0.0.1:1']);
        let end = await offline('-f', file, '--global-max-retries', '35');
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, /^p, rule 1 \(Evicted\): 2 retries\nRETRY +WAIT +IN ALL\n +1 +0 ms/);
        assert.match(end.stdout, /^p, rule 2 \(OOMKilled\): 0 retries$/m);
        assert.match(end.stdout, /^p, default action .*: 35 retries$/m);
        assert.match(end.stdout, /^ +3 +4 min 30 s +6 min 30 s$/m);
        assert.match(end.stdout, /^and 5 more; in total 2 h 47 min$/m);
        end = await offline('-f', file, '-o', 'json');
        const [rule, fail, timed, rest] = JSON.parse(end.stdout);
        assert.deepEqual([timed.limit, timed.delays_ms], [1, [[30000, 30000]]]);
        assert.deepEqual([rule.rule, rule.delays_ms], [1, [[0, 0], [0, 0]]]);
        assert.deepEqual([fail.limit, fail.delays_ms], [0, []]);
        assert.deepEqual([rest.rule, rest.limit, rest.delays_ms.length], [0, 20, 20]);
        end = await offline('--backoff', '15s,4,30s');
        assert.match(end.stdout, /^a job's own backoff: 25 retries$/m);
        assert.match(end.stdout, /^ +1 +16 s +46 s +16 s +46 s$/m);
        assert.match(end.stdout, /^ +25 +.* 24 d .* 2[56] d /m);
        assert.equal((await offline()).code, 2);
        assert.equal((await offline('--backoff', '1')).code, 2);
    });
});

describe('tenax policy lint', () => {
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));
    const lint = (...args) => run(['policy', 'lint', ...args, '--url', 'http://127.0.0.1:1']);

    function write(name, ...specs) {
        const file = path.join(dir, `${name}.json`);
        const policies = specs.map((spec, n) => ({ apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
            metadata: { name: `${name}${n}` }, spec }));
        fs.writeFileSync(file, JSON.stringify(policies.length === 1 ? policies[0]
            : { apiVersion: 'v1', kind: 'List', items: policies }));
        return file;
    }

    async function warnings(spec, ...args) {
        const end = await lint('-f', write('one', spec), '-o', 'json', ...args);
        assert.equal(end.code, 0, end.stderr);
        return JSON.parse(end.stdout).map((each) => {
            assert.equal(each.policy, 'one0');
            return each.warning;
        });
    }

    const MANY = ['--global-max-retries', '100000'];
    const fast = { initialDelay: '1s', maxDelay: '10s' };

    it('names_what_is_valid_but_probably_not_meant_without_a_server', async () => {
        const file = write('p', { retryLimit: 60, defaultAction: 'Retry', backoff: fast, rules: [
            { action: 'Retry', onConditions: ['Evicted'], backoff: { ...fast, jitter: 'none' }, retryLimit: 3 },
            { action: 'Fail', onConditions: ['Evicted'] }] });
        const end = await lint('-f', file, ...MANY);
        assert.deepEqual([end.code, end.stderr], [0, '']);
        const lines = end.stdout.trim().split('\n');
        assert.equal(lines.length, 3, end.stdout);
        for (const why of [/spec\.rules\[1\] can never match/, /rules\[0\] retries without jitter/,
            /defaultAction may retry very often at short intervals/])
            assert.ok(lines.some((line) => line.startsWith(`${file}, line 1: p0: `) && why.test(line)), end.stdout);
        assert.equal((await lint('-f', file, '--strict')).code, 1);
        assert.match((await lint('-f', file)).stdout, /retryLimit 60 is never reached: globalMaxRetries is 20/);
    });

    it('says_so_where_there_are_none', async () => {
        const end = await lint('--strict', '-f', write('q', { retryLimit: 3, defaultAction: 'Retry', backoff: fast }));
        assert.deepEqual([end.code, end.stdout], [0, 'no warnings about 1 policy\n'], end.stderr);
    });

    it('warns_of_storms_by_how_often_and_how_fast', async () => {
        const storm = /very often at short intervals/, spec = { retryLimit: 50, defaultAction: 'Retry', backoff: fast };
        const count = async (change) => (await warnings({ ...spec, ...change }, ...MANY)).filter((w) => storm.test(w)).length;
        assert.equal(await count({}), 1);
        assert.equal(await count({ retryLimit: 49 }), 0);
        assert.equal(await count({ backoff: { initialDelay: '1s', maxDelay: '11s' } }), 0);
        assert.equal(await count({ retryFor: '1h' }), 0);
        assert.equal(await count({ defaultAction: 'Fail', rules: [{ action: 'Retry', onConditions: ['Evicted'] }] }), 1);
    });

    it('warns_of_retries_that_go_on_for_a_month', async () => {
        const spec = (retryLimit) => ({ retryLimit, defaultAction: 'Retry', backoff: { initialDelay: '1h', maxDelay: '1d' } });
        const endless = ['defaultAction may retry for more than 30 days: a smaller retryLimit or a retryFor ends it sooner'];
        assert.deepEqual(await warnings(spec(40), ...MANY), endless);
        assert.deepEqual(await warnings(spec(30), ...MANY), []);
        assert.deepEqual(await warnings({ ...spec(40), retryFor: '40d' }, ...MANY), []);
    });

    it('refuses_what_is_no_policy_and_options_of_others', async () => {
        const file = path.join(dir, 'queue.yaml');
        fs.writeFileSync(file, 'apiVersion: tenax.dev/v1\nkind: Queue\nmetadata: {name: q}\nspec: {}\n');
        const queue = await lint('-f', file);
        assert.equal(queue.code, 2);
        assert.match(queue.stderr, /cannot be tried out/);
        assert.match((await lint()).stderr, /which file\?/);
        const schedule = await run(['policy', 'schedule', '--strict', '--backoff', '1s,2,1s']);
        assert.deepEqual([schedule.code, /--strict is for lint/.test(schedule.stderr)], [2, true]);
    });
});

describe('the failure history', () => {
    // A job that fails with each of these exit codes in turn and then succeeds, and is gone.
    async function recovering(server, queue, codes, fields = {}) {
        const { id } = await server.enqueue({ queue, retention: { completed_ms: 0 }, ...fields });
        await fails(server, queue, id, codes);
        await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
        assert.equal((await server.get(`/jobs/${id}`)).status, 404);
        return id;
    }

    async function fails(server, queue, id, codes) {
        for (const exit_code of codes) {
            await server.claimOne(queue);
            const res = await server.post(`/jobs/${id}/failure`,
                { message: `exit ${exit_code}`, exit_code, retry_at: 0 });
            assert.equal(res.status, 200, res.text);
        }
    }

    async function simulate(server, body) {
        const res = await server.post('/retry-policies/simulate', { policies: [OOM], ...body });
        assert.equal(res.status, 200, res.text);
        return res.json;
    }

    async function within(args, body) {
        const server = new Server({ args });
        try {
            await server.start();
            await body(server);
        } finally {
            await server.clean();
        }
    }

    const ids = (answer) => answer.jobs.map((job) => job.job);

    describe('of a server', () => {
        const server = useServer();

        it('shows_jobs_that_failed_succeeded_and_were_deleted', async () => {
            const queue = queueName();
            const id = await recovering(server, queue, [86, 7], { type: 'render', retry_limit: 5 });
            const { jobs, summary } = await simulate(server, { queues: [queue] });
            assert.deepEqual(ids({ jobs }), [id]);
            const [job] = jobs;
            assert.deepEqual([job.queue, job.type, job.completed, job.deleted],
                [queue, 'render', true, true]);
            assert.deepEqual(job.failures.map((f) => [f.run, f.exit_code, f.message]),
                [[0, 86, 'exit 86'], [1, 7, 'exit 7']]);
            assert.match(job.failures[1].recorded, /worker asked/);
            assert.ok(job.failures[0].ended_at <= job.failures[1].ended_at);
            // Its own limit: 5 retries; the draft gives it up at its first failure.
            assert.match(job.failures[0].today.reason, /^retry 1 of 5/);
            assert.equal(job.failures[0].draft.action, 'Fail');
            assert.equal(job.failures[1].draft, null);
            assert.equal(summary.lost_completions, 1);
            assert.equal(summary.history.deleted, 1);
            assert.equal(summary.history.cut, 0);
            assert.equal(summary.history.kept, summary.history.looked_at);
        });

        it('counts_no_job_twice', async () => {
            const queue = queueName();
            const kept = await recovering(server, queue, [86]);
            const { id: waiting } = await server.enqueue({ queue, type: 'other' });
            await fails(server, queue, waiting, [3, 86]);
            const { id: stored } = await server.enqueue(
                { queue, priority: 1, retention: { completed_ms: 600000 } });
            await fails(server, queue, stored, [3]);
            await server.claimOne(queue);
            assert.equal((await server.post(`/jobs/${stored}/success`)).status, 204);
            const all = await simulate(server, { queues: [queue] });
            assert.deepEqual(ids(all), [stored, waiting, kept]);
            assert.deepEqual(all.jobs.map((job) => job.failures.length), [1, 2, 1]);
            assert.deepEqual(all.jobs.map((job) => [job.completed, job.deleted ?? false]),
                [[true, false], [false, false], [true, true]]);
            assert.deepEqual([all.summary.jobs, all.summary.failures, all.summary.truncated],
                [3, 4, false]);
            assert.equal(all.summary.history.deleted, 1);
            const some = await simulate(server, { queues: [queue], types: ['other'] });
            assert.deepEqual(ids(some), [waiting]);
            const few = await simulate(server, { queues: [queue], limit: 2 });
            assert.deepEqual(ids(few), [stored, waiting]);
            assert.deepEqual([few.summary.failures, few.summary.truncated], [2, true]);
        });

        it('is_told_of_on_the_command_line', async () => {
            const queue = queueName();
            const dir = makeDir();
            const id = await recovering(server, queue, [86, 86]);
            const file = path.join(dir, 'p.json');
            fs.writeFileSync(file, JSON.stringify(OOM));
            const end = await run(['policy', 'simulate', '-f', file, '--queue', queue],
                { TENAX_URL: server.url() });
            fs.rmSync(dir, { recursive: true });
            assert.equal(end.code, 0, end.stderr);
            assert.match(end.stdout, new RegExp(`^${id} `, 'm'));
            assert.match(end.stdout, /^1 of the jobs is deleted by now\. Evaluated \d+ of \d+ entries of the failure history\.$/m);
            assert.match(end.stdout, /^1 completed job would have been dead before\.$/m);
        });

        it('goes_with_a_reset', async () => {
            const queue = queueName();
            await recovering(server, queue, [1]);
            assert.equal((await server.post('/reset')).status, 204);
            const { jobs, summary } = await simulate(server, {});
            assert.deepEqual([jobs, summary.history.kept], [[], 0]);
        });
    });

    it('is_bounded_and_leaves_out_jobs_whose_first_failures_are_gone', async () => {
        await within(['--failure-history', '4'], async (server) => {
            const first = await recovering(server, 'q', [1, 2]); // 3 entries
            assert.deepEqual(ids(await simulate(server)), [first]);
            const second = await recovering(server, 'q', [3]);
            const { jobs, summary } = await simulate(server);
            assert.deepEqual(ids({ jobs }), [second]);
            assert.deepEqual(summary.history, { kept: 4, looked_at: 4, deleted: 1, cut: 1 });
        });
    });

    it('is_not_kept_if_nobody_wants_it', async () => {
        await within(['--failure-history', '0'], async (server) => {
            await recovering(server, 'q', [1]);
            const { jobs, summary } = await simulate(server);
            assert.deepEqual([jobs, summary.history.kept], [[], 0]);
            const { id } = await server.enqueue({ queue: 'q' });
            await fails(server, 'q', id, [1]);
            assert.deepEqual(ids(await simulate(server)), [id]); // it is stored
        });
    });

    it('outlives_a_restart_a_kill_and_a_backup_and_shrinks_with_its_limit',
        notOn('postgres', 'a backup becomes a root directory'), async () => {
        await within([], async (server) => {
            const first = await recovering(server, 'q', [1, 2]);
            const second = await recovering(server, 'q', [3]);
            const before = await simulate(server);
            assert.deepEqual(ids(before), [second, first]);
            for (const signal of ['SIGKILL', 'SIGTERM']) {
                await server.signal(signal);
                await server.start();
                assert.deepEqual(await simulate(server), before);
            }
            const copy = makeDir();
            const file = path.join(copy, 'backup');
            let end = await run(['backup', '--url', server.adminUrl, file]);
            assert.equal(end.code, 0, end.stderr);
            end = await run(['restore', file, '--root-dir', path.join(copy, 'root')]);
            assert.equal(end.code, 0, end.stderr);
            end = await run(['check', path.join(copy, 'root')]);
            assert.equal(end.code, 0, end.stdout);
            const restored = new Server({ dir: copy });
            await restored.start();
            assert.deepEqual(await simulate(restored), before);
            await restored.clean();
            fs.rmSync(copy, { recursive: true });
            await server.signal('SIGTERM');
            await server.start({ args: ['--failure-history', '2'] });
            const after = await simulate(server);
            assert.deepEqual(ids(after), [second]);
            assert.equal(after.summary.history.kept, 2);
        });
    });

    it('has_texts_of_bounded_size', async () => {
        await within([], async (server) => {
            const { id } = await server.enqueue({ queue: 'q', retention: { completed_ms: 0 } });
            await server.claimOne('q');
            const long = 'x'.repeat(100000);
            const match = (pattern) => policy('texts', { rules: [
                { action: 'Fail', onTerminationMessage: { pattern } }] });
            assert.equal((await server.post(`/jobs/${id}/failure`, { message: long, backtrace: long,
                termination_message: `begin${long}end`, exit_code: 3, retry_at: 0 })).status, 200);
            await server.claimOne('q');
            assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
            const reasons = [];
            for (const pattern of ['^begin', 'end$']) {
                const { jobs } = await simulate(server, { policies: [match(pattern)] });
                reasons.push(jobs[0].failures[0].draft.policy);
            }
            assert.deepEqual(reasons, ['texts', undefined]);
        });
    });
});

describe('switching policies on', () => {
    const server = useServer();

    it('is_tried_out_without_a_change_and_names_queues_without', async () => {
        const [queue, bare] = [queueName(), queueName()];
        assert.ok((await server.request('PUT', '/retry-policies/quick', policy('quick',
            { rules: [{ action: 'Fail', onExitCodes: { operator: 'In', values: [65] } }] }))).status < 300);
        assert.ok((await server.request('PUT', `/queues/${queue}`, { retry_policies: ['quick'] })).status < 300);
        const fail = async (name) => {
            const { id } = await server.enqueue({ queue: name });
            await server.claimOne(name);
            await server.post(`/jobs/${id}/failure`, { message: 'm', exit_code: 65 });
            return id;
        };
        const tell = async (body) => (await server.post('/retry-policies/simulate', body)).json;
        const id = await fail(queue);
        await fail(bare);
        const of = (answer, name) => answer.jobs.find((job) => job.queue === name).failures[0];
        const answer = await tell({ policies: [], queues: [queue, bare] });
        assert.match(of(answer, queue).draft.reason, /rule 1 of policy quick/);
        assert.equal(of(answer, queue).today.action, 'Retry');
        assert.equal(of(answer, bare).draft.action, 'Retry');
        const fallback = await tell({ policies: [], queues: [bare], settings: { defaultPolicyName: 'quick' } });
        assert.match(of(fallback, bare).draft.reason, /rule 1 of policy quick/);
        const cli = (...more) => run(['retry-settings', '--enabled', 'true', '--dry-run', ...more],
            { TENAX_URL: server.url() });
        const tried = await cli();
        assert.equal(tried.code, 0, tried.stderr);
        assert.match(tried.stdout, new RegExp(`${id}.*dead, quick rule 1`));
        assert.match(tried.stdout, new RegExp(`without a policy, whose jobs keep their own retries: .*${bare}`));
        assert.doesNotMatch(tried.stdout, new RegExp(`own retries: .*${queue}`));
        assert.match((await cli('--when-no-policy', 'fail')).stdout,
            /without a policy, whose jobs die at their first failure unless they name one: /);
        assert.match((await cli('--default-policy', 'quick')).stdout, /without a policy, to which quick applies: /);
        assert.equal((await server.get('/settings/retry')).json.enabled, false);
    });
});
