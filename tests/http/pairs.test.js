// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every pair of options of a job: it is refused, or both are shown as each alone is, they outlive a
// restart, and the job fails, is tried again and ends as they say.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, useServer } = require('./harness');

const HOUR = 3600000;
const SOON = Date.now() + HOUR;
const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const NOW_AGAIN = { base_ms: -1000, exponent: 0, jitter_ms: 0 };

// Name: what it adds to a job; n tells names of one job from those of others.
const OPTIONS = {
    priority: () => ({ priority: 7 }),
    ready_at: () => ({ ready_at: 1000 }),
    retry_limit: () => ({ retry_limit: 1 }),
    backoff: () => ({ backoff: NOW_AGAIN }),
    retention: () => ({ retention: { completed_ms: HOUR, dead_ms: HOUR } }),
    retain_until: () => ({ retain_until: SOON }),
    unique_key: (n) => ({ unique_key: `key-${n}` }),
    unique_while: (n) => ({ unique_key: `key-${n}`, unique_while: 'exists' }),
    batch: (n) => ({ batch: { key: `batch-${n}`, when: 'false', fold: '.' } }),
    resources: () => ({ resources: { memory: '1Gi', cpu: '500m' } }),
    gang: (n) => ({ gang: { id: `gang-${n}`, cardinality: 1 } }),
    budgets: (n) => ({
        budgets: [{
            key: `budget-${n}`, cost: 2,
            create_with: { allocation: 3, strategy: { type: 'while_in_flight' } },
        }],
    }),
    retry_policies: () => ({ retry_policies: ['again'] }),
    concurrency_key: (n) => ({ concurrency_key: `concurrency-${n}` }),
    alias: (n) => ({ alias: `alias-${n}` }),
    deadline: () => ({ deadline: SOON }),
    when_no_policy: () => ({ when_no_policy: 'fail' }),
    max_run_ms: () => ({ max_run_ms: HOUR }),
    retry_for_ms: () => ({ retry_for_ms: HOUR }),
    group: (n) => ({ group: `group-${n}` }),
    group_owner: (n) => ({ group: `group-${n}`, group_owner: 'somebody' }),
    traceparent: () => ({ traceparent: PARENT }),
    tracestate: () => ({ traceparent: PARENT, tracestate: 'a=b' }),
    pending_runs: () => ({ pending_runs: true }),
    hold: () => ({ hold: true }),
    depends_on: (n, first) => ({ depends_on: [first] }),
    when: (n, first) => ({ depends_on: [first], when: 'all_ended' }),
    on_dependency_death: (n, first) => ({ depends_on: [first], on_dependency_death: 'run' }),
};
const NAMES = Object.keys(OPTIONS);

// By hand, so that it can disagree with the table of the server.
const REFUSED = new Set([
    'unique_key batch', 'unique_while batch', 'unique_key gang', 'unique_while gang', 'batch gang',
    'batch alias', 'batch deadline', 'batch group', 'batch group_owner', 'batch hold', 'batch depends_on',
    'batch when', 'batch on_dependency_death', 'gang concurrency_key',
]);

// What the job shows of an option alone, but for the names that are its own.
function shownOf(job, member, n) {
    return JSON.parse(JSON.stringify(job[member] ?? null).replaceAll(`-${n}"`, '"'));
}

describe('each pair of options of a job', () => {
    const server = useServer({
        args: ['--default-backoff-base', '0', '--default-backoff-exponent', '0', '--default-backoff-jitter', '0'],
        env: { TENAX_DEFAULT_COMPLETED_JOB_RETENTION: '1h' },
    });
    const jobs = []; // as they were shown, with their names
    let first; // the job that others wait for
    let serial = 0;

    async function enqueue(names) {
        const n = ++serial;
        const fields = Object.assign({}, ...names.map((name) => OPTIONS[name](n, first)));
        const res = await server.post('/jobs', { queue: 'pairs', type: 't', payload: n, ...fields });
        return { n, fields, res };
    }

    async function showAlone() {
        const shown = {};
        for (const name of NAMES) {
            const { n, fields, res } = await enqueue([name]);
            assert.equal(res.status, 201, `${name}: ${res.text}`);
            shown[name] = {};
            for (const member of Object.keys(fields))
                shown[name][member] = shownOf(await server.job(res.json.id), member, n);
        }
        assert.equal((await server.delete('/jobs?queue=pairs')).status, 200);
        return shown;
    }

    it('is_refused_or_shown_as_each_alone_is', async () => {
        const put = await server.request('PUT', '/retry-policies/again', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'again' },
            spec: { defaultAction: 'Retry', retryLimit: 1, backoff: { initialDelay: '1ms', maxDelay: '1ms' } },
        });
        assert.equal(put.status, 200, put.text);
        const set = await server.request('PUT', '/settings/retry', { enabled: true });
        assert.equal(set.status, 200, set.text);
        first = (await server.enqueue({ queue: 'first' })).id;
        const alone = await showAlone();
        for (const [i, one] of NAMES.entries())
            for (const other of NAMES.slice(i + 1)) {
                const { n, fields, res } = await enqueue([one, other]);
                if (REFUSED.has(`${one} ${other}`)) {
                    assertError(res, 400, 'bad_value');
                    continue;
                }
                assert.equal(res.status, 201, `${one}, ${other}: ${res.text}`);
                const shown = await server.job(res.json.id);
                for (const member of Object.keys(fields))
                    assert.deepEqual(shownOf(shown, member, n), alone[member in alone[other] ? other : one][member],
                        `${one}, ${other}: ${member}`);
                jobs.push({ names: [one, other], shown });
            }
        assert.ok(jobs.length > 300);
    });

    it('outlives_a_restart', async () => {
        await server.stop();
        await server.start();
        await Promise.all(jobs.map(async ({ names, shown }) =>
            assert.deepEqual(await server.job(shown.id), shown, `${names}`)));
    });

    it('is_tried_again_and_ends_as_they_say', async () => {
        const { token } = await server.claimOne('first');
        const done = await server.post(`/jobs/${first}/success`, { token });
        assert.equal(done.status, 204, done.text);
        for (const { names, shown } of jobs.filter((job) => job.names.includes('hold'))) {
            const free = await server.patch(`/jobs/${shown.id}`, { depends_on: null });
            assert.equal(free.status, 200, `${names}: ${free.text}`);
        }
        const left = new Map(jobs.map((job) => [job.shown.id, { ...job, tries: 0 }]));
        while (left.size) {
            const claimed = await server.claim({ queues: ['pairs'], count: 100, wait_ms: 10000 });
            assert.ok(claimed.length, `nobody has them: ${[...left.values()].map((job) => job.names).join('; ')}`);
            await Promise.all(claimed.map(async ({ id, token: own }) => {
                const job = left.get(id);
                const [report, more] = job.tries++ ? ['success', {}] : ['failure', { message: 'once' }];
                const res = await server.post(`/jobs/${id}/${report}`, { token: own, ...more });
                assert.ok(res.status < 300, `${job.names}: ${res.text}`);
                if (report === 'success' || res.json.status === 'dead')
                    left.delete(id);
            }));
        }
        await Promise.all(jobs.map(async ({ names, shown }) => {
            const job = await server.job(shown.id);
            const fails = names.includes('when_no_policy') && !names.includes('retry_policies');
            assert.equal(job.status, fails ? 'dead' : 'completed', `${names}`);
            assert.equal(job.attempts, 1, `${names}`);
            assert.equal((await server.runs(shown.id)).length, fails ? 1 : 2, `${names}`);
        }));
    });
});
