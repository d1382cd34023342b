// SPDX-License-Identifier: Apache-2.0
'use strict';

// Whose fault a failure was: in runs, errors and events, by reports and by what the server itself
// sees, and after a restart.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, notOn, queueName, run, until, useServer } = require('./harness');

async function claimed(server, fields = {}) {
    const queue = queueName();
    const { id } = await server.enqueue({ queue, ...fields });
    return { queue, id, ...await server.claimOne(queue) };
}

async function failed(server, report) {
    const job = await claimed(server, { retry_limit: 0 });
    const res = await server.post(`/jobs/${job.id}/failure`,
        { message: 'it broke', token: job.token, ...report });
    assert.equal(res.status, 200, res.text);
    return job.id;
}

const culpritOf = ({ culprit, culprit_evidence: evidence }) => [culprit, evidence];

describe('the culprit of a failure', () => {
    const server = useServer();

    it('is_who_its_reporter_names', async () => {
        const said = { culprit: 'dependency', culprit_evidence: '503 from payments' };
        const id = await failed(server, { ...said, exit_code: 1 });
        const [ran] = await server.runs(id);
        assert.deepEqual(culpritOf(ran), ['dependency', '503 from payments']);
        const [error] = (await server.get(`/jobs/${id}/errors`)).json.errors;
        assert.deepEqual(culpritOf(error), ['dependency', '503 from payments']);
        const events = await server.history(`&job=${id}`);
        assert.deepEqual(culpritOf(events.at(-1)), ['dependency', '503 from payments']);
        assert.deepEqual(events.slice(0, -1).map(culpritOf),
            events.slice(0, -1).map(() => [undefined, undefined]));
        const [bare] = await server.runs(await failed(server, { culprit: 'access' }));
        assert.deepEqual(culpritOf(bare), ['access', 'its worker says so']);
    });

    it('is_told_by_conditions_exceptions_categories_and_exit_codes', async () => {
        for (const [report, culprit, words] of [
            [{ condition: 'Preempted', grace_period_ms: 0 }, 'disruption', /Preempted/],
            [{ condition: 'OOMKilled', exit_code: 137 }, 'job', /memory/],
            [{ exception: 'malformed-payload' }, 'input', /payload/],
            [{ category: 'node', exit_code: 1 }, 'node', /category/],
            [{ exit_code: 143 }, 'disruption', /SIGTERM/],
            [{ exit_code: 1 }, 'job', /exit code 1$/],
            [{ error_type: 'TypeError' }, 'job', /by itself/],
            [{ containers: [{ name: 'main', init: false, exit_code: 77 }] }, 'access', /EX_NOPERM/],
        ]) {
            const [ran] = await server.runs(await failed(server, report));
            assert.equal(ran.culprit, culprit, JSON.stringify(report));
            assert.match(ran.culprit_evidence, words);
        }
    });

    it('must_be_one_of_the_table_and_evidence_needs_one', async () => {
        const job = await claimed(server);
        const report = (fields) => server.post(`/jobs/${job.id}/failure`,
            { message: 'm', token: job.token, ...fields });
        assertError(await report({ culprit: 'boss' }), 400, 'bad_value', /culprit.*dependency/);
        assertError(await report({ culprit_evidence: 'he was late' }), 422, 'unprocessable',
            /only with culprit/);
        assert.equal((await report({ culprit: 'unknown', culprit_evidence: 'é'.repeat(1000) }))
            .status, 200);
        const [ran] = await server.runs(job.id);
        assert.equal(ran.culprit_evidence, 'é'.repeat(512), 'cut between characters');
    });

    it('is_shown_by_tenax_job_and_by_explain', async () => {
        const said = { culprit: 'dependency', culprit_evidence: '503 from payments' };
        const id = await failed(server, said);
        const { newest_run: newest } = (await server.get(`/jobs/${id}/explain`)).json;
        assert.deepEqual(culpritOf(newest), ['dependency', '503 from payments']);
        const job = await run(['job', id, '--url', server.url()]);
        assert.match(job.stdout, /^ {4}culprit dependency: 503 from payments$/m, job.stderr);
        const why = await run(['explain', id, '--url', server.url()]);
        assert.match(why.stdout, /^culprit +dependency: 503 from payments$/m, why.stderr);
        const bare = await server.enqueue({ queue: queueName() });
        const none = await run(['explain', bare.id, '--url', server.url()]);
        assert.equal(none.code, 0, none.stderr);
        assert.doesNotMatch(none.stdout, /culprit/);
    });

    it('is_nobody_where_nothing_failed', async () => {
        const job = await claimed(server, { retention: { completed_ms: 60000 } });
        await server.post(`/jobs/${job.id}/release`, { token: job.token });
        const again = await server.claimOne(job.queue);
        await server.post(`/jobs/${job.id}/success`, { token: again.token });
        const runs = await server.runs(job.id);
        assert.deepEqual(runs.map((r) => r.outcome), ['returned', 'completed']);
        assert.ok(runs.every((r) => !('culprit' in r) && !('culprit_evidence' in r)));
    });

    it('is_the_worker_whose_stream_closed_or_whose_lease_ran_out', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const taker = await server.take(`?queue=${queue}`);
        await taker.next();
        taker.close();
        await server.claimConfirmed(queue, { lease_ms: 100 });
        await server.claimOne(queue);
        const runs = await server.runs(id);
        assert.deepEqual(runs.slice(0, 2).map((r) => [r.outcome, ...culpritOf(r)]), [
            ['worker-lost', 'worker', "the worker's stream closed"],
            ['claim-expired', 'worker',
                'condition LeaseExpired: its worker did not renew its lease'],
        ]);
    });

    it('is_the_deadline_that_came', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, deadline: Date.now() + 1500 });
        await server.claimOne(queue);
        await until(async () => (await server.job(id)).status === 'dead', 'the deadline comes');
        const [ran] = await server.runs(id);
        assert.deepEqual([ran.outcome, ran.culprit], ['deadline-exceeded', 'deadline']);
    });

    it('is_the_gang_of_those_whose_mate_failed', async () => {
        const queue = queueName();
        const gang = { id: queue, cardinality: 2 };
        const ids = await server.enqueueMany([{ queue, gang }, { queue, gang }]);
        const jobs = await server.claim({ queues: [queue], count: 2, wait_ms: 20000 });
        assert.equal(jobs.length, 2);
        await server.post(`/jobs/${jobs[0].id}/failure`,
            { message: 'm', exit_code: 1, token: jobs[0].token });
        const other = ids.find((id) => id !== jobs[0].id);
        assert.equal((await server.runs(jobs[0].id))[0].culprit, 'job');
        assert.deepEqual(culpritOf((await server.runs(other))[0]),
            ['gang', 'another member of its gang is retried']);
    });
});

describe('the culprit of a run that a stop of the server cut off', () => {
    it('is_the_server', notOn('standby', 'the owner sees its workers leave'), async () => {
        const server = new Server();
        try {
            await server.start();
            const [held, stopped, killed] = [queueName(), queueName(), queueName()];
            const { id } = await server.enqueue({ queue: held });
            const unheard = await server.enqueue({ queue: killed });
            const { id: cut } = await server.enqueue({ queue: stopped });
            const taker = await server.take(`?queue=${held}`);
            await taker.next();
            await server.signal('SIGTERM');
            await server.start();
            assert.deepEqual(culpritOf((await server.runs(id))[0]),
                ['server', 'the server stopped while a worker held it']);
            await (await server.take(`?queue=${stopped}`)).next();
            await server.claimOne(killed, { lease_ms: 100 });
            await server.signal('SIGKILL');
            await server.start();
            assert.deepEqual(culpritOf((await server.runs(cut))[0]),
                ['server', 'the server stopped while a worker held it']);
            await server.claimOne(killed);
            assert.deepEqual(culpritOf((await server.runs(unheard.id))[0]),
                ['server', 'the server was started again before its worker said anything']);
            assert.deepEqual(culpritOf((await server.runs(id))[0]),
                ['server', 'the server stopped while a worker held it'], 'it is stored');
        } finally {
            await server.clean();
        }
    });
});

describe('a failure that others are to blame for', () => {
    const backoff = { exponent: 0, base_ms: 0, jitter_ms: 0 };
    const report = (server, job, fields) => server.post(`/jobs/${job.id}/failure`,
        { message: 'it broke', token: job.token, ...fields });
    async function claimFail(server, queue, id, fields) {
        const job = await server.claimOne(queue, { wait_ms: 20000 });
        assert.equal(job.id, id);
        const res = await report(server, job, fields);
        assert.equal(res.status, 200, res.text);
        return (await server.runs(id)).at(-1).reason;
    }

    it('is_retried_for_free_up_to_a_bound_over_restarts', async () => {
        const server = new Server({ args: ['--free-retries', 'disruption=2,cluster=1'] });
        try {
            await server.start();
            const queue = queueName();
            const { id } = await server.enqueue({ queue, retry_limit: 0, backoff });
            const preempted = { condition: 'Preempted', grace_period_ms: 0 };
            assert.match(await claimFail(server, queue, id, preempted),
                /^retry 1 of 2 that cost the job nothing \(culprit disruption\), in /);
            await server.signal('SIGKILL');
            await server.start();
            assert.match(await claimFail(server, queue, id, { exit_code: 143 }),
                /^retry 2 of 2 that cost the job nothing \(culprit disruption\), in /);
            assert.match(await claimFail(server, queue, id, { condition: 'Unschedulable' }),
                /^retry 1 of 1 that cost the job nothing \(culprit cluster\), in /);
            assert.equal(await claimFail(server, queue, id, preempted),
                'dead: no retries are allowed; all 2 free retries after failures of culprit ' +
                'disruption are used up');
            const { attempts, free_retries } = await server.job(id);
            assert.deepEqual([attempts, free_retries], [4, 3]);
            const told = (await server.history(`&job=${id}`)).filter((e) => e.decided_by);
            assert.deepEqual(told.map((e) => [e.decided_by, e.count, e.limit]),
                [['culprit', 1, 2], ['culprit', 2, 2], ['culprit', 1, 1], ['retry_limit', 0, 0]]);
            assert.equal((await server.post(`/jobs/${id}/retry`)).status, 200);
            assert.match(await claimFail(server, queue, id, preempted), /^retry 1 of 2 that cost/);
        } finally {
            await server.clean();
        }
    });

    it('is_charged_where_the_job_is_to_blame_and_by_the_old_bounds', async () => {
        const server = new Server({ args: ['--free-retries', 'disruption=0'] });
        try {
            await server.start();
            for (const fields of [{ exit_code: 1 }, { exit_code: 143 }, { culprit: 'unknown' },
                { culprit: 'dependency' }, { culprit: 'input' }, { culprit: 'deadline' }]) {
                const queue = queueName();
                const { id } = await server.enqueue({ queue, retry_limit: 0, backoff });
                assert.equal(await claimFail(server, queue, id, fields),
                    'dead: no retries are allowed', JSON.stringify(fields));
            }
        } finally {
            await server.clean();
        }
    });
});

describe('a rule that names culprits', () => {
    const server = useServer();
    const document = (name, spec) => ({ apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
        metadata: { name }, spec });
    const put = (name, rules) => server.request('PUT', `/retry-policies/${name}`,
        document(name, { retryLimit: 2, backoff: { initialDelay: '0s', jitter: '1ms' }, rules }));
    const outage = [{ action: 'Retry', onCulprit: ['node', 'dependency', 'worker'] },
        { action: 'Fail', onExitCodes: { operator: 'NotIn', values: [0] } }];

    it('is_stored_and_read_back_and_a_wrong_name_is_refused', async () => {
        const typo = await put('typo', [{ action: 'Retry', onCulprit: ['dependancy'] }]);
        assertError(typo, 400, 'bad_value',
            /rules\[0\]\.onCulprit\[0\]: expected job, input.*\(did you mean dependency\?\)/);
        assert.equal((await put('stored', outage)).status, 200);
        const { spec } = (await server.get('/retry-policies/stored')).json;
        assert.deepEqual(spec.rules[0].onCulprit, ['worker', 'node', 'dependency']);
        const { warnings } = (await put('stored', [...outage,
            { action: 'Retry', onCulprit: ['node'], onConditions: ['Evicted'] }])).json;
        assert.ok(warnings.some((w) => /rules\[2\] can never match: spec\.rules\[0\]/.test(w)),
            JSON.stringify(warnings));
    });

    it('decides_about_failures_of_these_and_about_expired_leases', async () => {
        await put('outage', outage);
        await server.request('PUT', '/settings/retry', { enabled: true });
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0, retry_policies: ['outage'] });
        const ends = [{ exit_code: 69 }, { exit_code: 1, culprit: 'node' }, { exit_code: 69 }];
        for (const fields of ends) {
            const job = await server.claimOne(queue, { wait_ms: 20000 });
            await server.post(`/jobs/${id}/failure`, { message: 'm', token: job.token, ...fields });
        }
        const told = (await server.runs(id)).map((r) => r.reason);
        assert.match(told[0], /^retry 1 of 2 by rule 1 of policy outage \(culprit worker, node, dep/);
        assert.match(told[1], /^retry 2 of 2 by rule 1/);
        assert.match(told[2], /^dead: rule 1 of policy outage .* allows 2 retries/);
        const own = await claimed(server, { retry_policies: ['outage'] });
        await server.post(`/jobs/${own.id}/failure`,
            { message: 'm', token: own.token, exit_code: 1 });
        assert.match((await server.runs(own.id))[0].reason, /^dead: rule 2 of policy outage/);
        const lost = await server.enqueue({ queue, retry_policies: ['outage'] });
        await server.claimConfirmed(queue, { lease_ms: 100 });
        await server.claimOne(queue, { wait_ms: 20000 });
        assert.match((await server.runs(lost.id))[0].reason, /^retry 1 of 2 by rule 1/);
    });

    it('is_simulated_also_about_failures_that_are_only_given', async () => {
        const failures = [69, 1, 74].map((exit_code) => ({ failure: { message: 'm', exit_code } }));
        const { json: { jobs } } = await server.post('/retry-policies/simulate',
            { policies: [document('draft', { rules: outage })], failures });
        assert.deepEqual(jobs.map(({ failures: [f] }) => [f.culprit, f.draft.rule]),
            [['dependency', 1], ['job', 2], ['node', 1]]);
        assert.equal(jobs[0].failures[0].culprit_evidence,
            'exit code 69, EX_UNAVAILABLE: a service is not available');
    });
});

describe('a retry that would come too late', () => {
    const server = useServer();

    it('is_not_made_and_its_job_is_dead_at_once', async () => {
        await server.request('PUT', '/settings/retry', { enabled: true, whenNoPolicy: 'default' });
        const spec = { retryFor: '1h', rules: [{ action: 'Retry', onCulprit: ['job'], retryLimit: 9,
            backoff: { initialDelay: '40m', multiplier: 2, maxDelay: '80m', jitter: '1ms' } }] };
        const put = await server.request('PUT', '/retry-policies/hour', { apiVersion: 'tenax.dev/v1',
            kind: 'RetryPolicy', metadata: { name: 'hour' }, spec });
        assert.equal(put.json.spec.retryFor, '1h', put.text);
        const { id, token, queue } = await claimed(server, { retry_policies: ['hour'] });
        const fail = (run) => server.post(`/jobs/${id}/failure`, { message: 'm', token: run.token });
        await fail({ token });
        await server.request('PATCH', `/jobs/${id}`, { ready_at: 1 });
        await fail(await server.claimOne(queue));
        const [first, last] = await server.history(`&job=${id}&event=job_dead,job_requeued`);
        assert.deepEqual([first.event, first.decided_by, first.count], ['job_requeued', 'rule', 1]);
        assert.deepEqual([last.event, last.decided_by, last.policy, last.rule, last.count, last.limit],
            ['job_dead', 'retry_for', 'hour', 1, 1, 9]);
        const words = new RegExp('^dead: (failed for .*, and )?the retry would begin in 1 h 20 min; '
            + 'rule 1 of policy hour retries for no longer than 1 h$');
        for (const text of [last.reason, (await server.runs(id)).at(-1).reason])
            assert.match(text, words);
        assert.match((await server.get(`/jobs/${id}/explain`)).json.summary, /retries for no longer than 1 h/);
        assert.match((await server.get('/metrics')).text, /tenax_policy_decisions_total\{policy="hour",rule="1",decision="retry_for"\} 1\n/);
    });

    it('is_foreseen_by_simulations', async () => {
        const failures = [{ failure: { message: 'm' }, retry_policies: ['hour'] }];
        const { json: { jobs: [{ draft }] } } = await server.post('/retry-policies/simulate', { policies: [], failures });
        assert.deepEqual([draft.retries, draft.dead], [1, true]);
    });
});

describe('the bounds of free retries', () => {
    it('name_the_culprit_that_was_meant', async () => {
        const typo = await run(['serve', '--free-retries', 'nod=1']);
        assert.match(typo.stderr, /--free-retries: unknown culprit 'nod'; did you mean 'node'\?/);
    });
});

describe('the maximum of retries', () => {
    const server = useServer();
    it('does_not_concern_culprits_that_are_exempt', async () => {
        const queue = queueName();
        const set = (body) => server.request('PUT', '/settings/retry', body);
        const wrong = await set({ globalMaxRetriesExempt: ['job'] });
        assertError(wrong, 400, 'bad_value', /disruption/);
        const res = await set({ enabled: true, whenNoPolicy: 'default', globalMaxRetries: 1,
            globalMaxRetriesExempt: ['disruption'] });
        assert.deepEqual(res.json.globalMaxRetriesExempt, ['disruption'], res.text);
        const { id } = await server.enqueue({ queue,
            backoff: { exponent: 0, base_ms: 0, jitter_ms: 0 } });
        const seeds = await set({ globalMaxRetriesExempt: ['evicted', 'preempted', 'disruption'] });
        assert.deepEqual(seeds.json.globalMaxRetriesExempt, ['disruption', 'preempted', 'evicted']);
        await set({ globalMaxRetriesExempt: ['disruption'] });
        for (const [exit_code, status] of [[143, 'retry 1'], [143, 'retry 2'], [1, 'retry 1 of 25'],
            [143, 'retry 3'], [1, 'dead: 1 retry in all']]) {
            const job = await server.claimOne(queue, { wait_ms: 20000 });
            await server.post(`/jobs/${id}/failure`, { message: 'm', token: job.token, exit_code });
            assert.ok((await server.runs(id)).at(-1).reason.startsWith(status), status);
        }
    });
});
