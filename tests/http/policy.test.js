// SPDX-License-Identifier: Apache-2.0
'use strict';

// Retry policies: as resources, what they make of failures, and what outlives the server.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, makeDir, queueName, run, until, useServer } = require('./harness');

const put = (server, target, body, headers) => server.request('PUT', target, body, headers);

function policy(name, spec, metadata = {}) {
    return {
        apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name, ...metadata }, spec,
    };
}

// Retries evictions twice, on another node, and nothing else.
const EVICTED = {
    defaultAction: 'Fail',
    rules: [{
        action: 'Retry', onConditions: ['Evicted'], retryLimit: 2,
        antiAffinity: { mode: 'node' },
    }],
};

// As the specification writes it.
const ML_TRAINING = `apiVersion: armadaproject.io/v1
kind: RetryPolicy
metadata:
  name: ml-training
spec:
  retryLimit: 5
  defaultAction: Fail
  backoff:
    initialDelay: 0s
  antiAffinity:
    mode: none
  rules:
    - action: Retry
      onConditions:
        - Preempted
        - Evicted
      antiAffinity:
        mode: node
    - action: Retry
      onConditions:
        - OOMKilled
      retryLimit: 3
    - action: Retry
      onExitCodes:
        operator: In
        values: [137]
    - action: Retry
      onFailureCategory: [cuda_error, infiniband_error]
`;

async function putPolicy(server, name, spec) {
    const res = await put(server, `/retry-policies/${name}`, policy(name, spec));
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function attach(server, queue, names) {
    const res = await put(server, `/queues/${queue}`, { retry_policies: names });
    assert.equal(res.status, 200, res.text);
}

async function change(server, fields, headers) {
    const res = await put(server, '/settings/retry', fields, headers);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function fail(server, id, fields = {}) {
    const res = await server.post(`/jobs/${id}/failure`, { message: 'it broke', ...fields });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

const evicted = (server, id) => fail(server, id, { condition: 'Evicted', node: 'n1' });

describe('what a worker says of a failure', () => {
    const server = useServer();
    const what = {
        condition: 'Evicted', node: 'n1', termination_message: 'tm', category: 'gpu',
        subcategory: 'xid', exit_code: 7,
        containers: [
            {
                name: 'main', init: false, exit_code: 137, signal: 9, reason: 'OOMKilled',
                message: 'm', log: 'one\ntwo\n',
            },
            { name: 'setup', init: true, exit_code: 0 },
        ],
    };

    it('is_shown_with_the_run_and_the_error', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        await fail(server, id, what);
        const [run] = await server.runs(id);
        const [error] = (await server.get(`/jobs/${id}/errors`)).json.errors;
        for (const [key, value] of Object.entries(what)) {
            assert.deepEqual(run[key], value, key);
            assert.deepEqual(error[key], value, key);
        }
    });

    it('has_the_end_of_long_logs', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        const line = `${'x'.repeat(99)}\n`;
        const log = line.repeat(300);
        const containers = Array.from({ length: 6 }, (_, i) => ({
            name: `c${i}`, exit_code: 1, log: i === 1 ? 'ü'.repeat(10000) : log,
        }));
        await fail(server, id, { containers });
        const [run] = await server.runs(id);
        const logs = run.containers.map((c) => c.log ?? '');
        assert.equal(logs[0], line.repeat(163)); // whole lines of at most 16 KiB
        assert.equal(logs[1], 'ü'.repeat(8192));
        const total = logs.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
        assert.ok(total <= 65536 && total > 65000, `${total} bytes in all`);
        assert.equal(logs[4], line.repeat(2));
        assert.ok(logs[5].length < 100);
    });

    it('is_refused_whole_where_it_is_wrong', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id } = await server.claimOne(queue);
        for (const [fields, where] of [
            [{ condition: 'evicted' }, /^condition: /],
            [{ containers: [{ name: 'a' }, { exit_code: 1 }] }, /^containers\[1\]: name/],
            [{ containers: {} }, /^containers: /],
            [{ node: 'n'.repeat(256) }, /^node: /],
        ]) {
            const res = await server.post(`/jobs/${id}/failure`, { message: 'm', ...fields });
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, where);
        }
        assert.equal((await server.job(id)).status, 'in_flight');
    });
});

describe('a retry policy', () => {
    const server = useServer();

    it('is_made_read_listed_replaced_and_deleted', async () => {
        const made = await server.post('/retry-policies', policy('crud', EVICTED));
        assert.equal(made.status, 201, made.text);
        assert.equal(made.json.metadata.name, 'crud');
        assertError(await server.post('/retry-policies', policy('crud', EVICTED)), 409, 'conflict');
        assert.match(made.json.warnings.join(), /^rules\[0\] retries at once/);
        assert.deepEqual((await server.get('/retry-policies/crud')).json, made.json);
        const { items } = (await server.get('/retry-policies')).json;
        assert.deepEqual(items.map((p) => p.metadata.name), ['crud']);
        const replaced = await putPolicy(server, 'crud', { defaultAction: 'Retry' });
        assert.ok(replaced.metadata.resourceVersion > made.json.metadata.resourceVersion);
        assert.equal((await server.delete('/retry-policies/crud')).status, 204);
        assertError(await server.get('/retry-policies/crud'), 404, 'not_found');
        assertError(await server.delete('/retry-policies/crud'), 404, 'not_found');
    });

    it('is_read_from_yaml', async () => {
        const yaml = 'apiVersion: tenax.dev/v1\nkind: RetryPolicy\nmetadata: {name: yam}\n'
            + 'spec:\n  defaultAction: Retry\n  retryLimit: 3\n';
        const res = await put(server, '/retry-policies/yam', yaml,
            { 'content-type': 'application/yaml' });
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.spec.retryLimit, 3);
        assertError(await put(server, '/retry-policies/yam', yaml,
            { 'content-type': 'application/json' }), 400, 'bad_json');
    });

    it('is_only_replaced_in_the_version_that_was_meant', async () => {
        const first = await putPolicy(server, 'versions', EVICTED);
        const second = await putPolicy(server, 'versions', EVICTED);
        const stale = policy('versions', EVICTED,
            { resourceVersion: first.metadata.resourceVersion });
        assertError(await put(server, '/retry-policies/versions', stale), 409, 'conflict');
        const fresh = policy('versions', EVICTED,
            { resourceVersion: second.metadata.resourceVersion });
        assert.equal((await put(server, '/retry-policies/versions', fresh)).status, 200);
        const gone = policy('never', EVICTED, { resourceVersion: 1 });
        assertError(await put(server, '/retry-policies/never', gone), 409, 'conflict');
    });

    it('is_refused_whole_with_the_path_of_the_fault', async () => {
        await putPolicy(server, 'bad', EVICTED);
        const before_ = (await server.get('/retry-policies/bad')).json;
        for (const [spec, where] of [
            [{}, /spec/],
            [{ rules: [{ action: 'Retry', onConditions: ['evicted'] }] },
                /spec\.rules\[0\]\.onConditions/],
            [{ rules: [{ action: 'Maybe', onConditions: ['Evicted'] }] },
                /spec\.rules\[0\]\.action/],
            [{ defaultAction: 'Fail', retryLimits: 3 }, /spec\.retryLimits/],
            [{ rules: [{ action: 'Retry', onTerminationMessage: { pattern: '(' } }] },
                /spec\.rules\[0\]\.onTerminationMessage\.pattern/],
        ]) {
            const res = await put(server, '/retry-policies/bad', policy('bad', spec));
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, where);
        }
        assertError(await put(server, '/retry-policies/bad', policy('other', EVICTED)), 400,
            'bad_value');
        assert.equal((await put(server, '/retry-policies/bad', '{"a":')).status, 400);
        assert.deepEqual((await server.get('/retry-policies/bad')).json, before_);
    });

    it('cannot_be_deleted_while_it_is_in_use', async () => {
        const queue = queueName();
        await putPolicy(server, 'used', EVICTED);
        await attach(server, queue, ['used']);
        assert.deepEqual((await server.get(`/queues/${queue}`)).json.retry_policies, ['used']);
        assertError(await server.delete('/retry-policies/used'), 409, 'conflict');
        await attach(server, queue, []);
        await change(server, { defaultPolicyName: 'used' });
        assertError(await server.delete('/retry-policies/used'), 409, 'conflict');
        await change(server, { defaultPolicyName: '' });
        assert.equal((await server.delete('/retry-policies/used')).status, 204);
    });

    it('must_exist_where_it_is_named', async () => {
        const queue = queueName();
        assertError(await put(server, `/queues/${queue}`, { retry_policies: ['none'] }), 422,
            'unprocessable');
        assertError(await server.post('/jobs',
            { queue, type: 't', payload: 1, retry_policies: ['none'] }), 422, 'unprocessable');
        assertError(await put(server, '/settings/retry', { defaultPolicyName: 'none' }), 422,
            'unprocessable');
        assert.equal((await server.get('/jobs/count?queue=' + queue)).json.count, 0);
    });
});

describe('a job with retry policies', () => {
    const server = useServer({ args: ['--retry-policy-enabled', '--retry-when-no-policy', 'fail'] });

    it('is_retried_by_a_rule_until_its_limit_away_from_the_node', async () => {
        const queue = queueName();
        await putPolicy(server, 'evicted', EVICTED);
        await attach(server, queue, ['evicted']);
        const { id } = await server.enqueue({ queue });
        assert.equal((await server.claimOne(queue)).avoid_nodes, undefined);
        for (let n = 1; n <= 2; n++) {
            const job = await evicted(server, id);
            assert.equal(job.status, 'ready');
            assert.match(job.reason, new RegExp(`^retry ${n} of 2 by rule 1 of policy evicted`));
            const [count] = job.retry_counts;
            assert.deepEqual([count.policy, count.count], ['evicted', n]);
            assert.deepEqual((await server.claimOne(queue)).avoid_nodes, ['n1']);
        }
        const dead = await evicted(server, id);
        assert.equal(dead.status, 'dead');
        assert.equal(dead.resolution, 'failed');
        const runs = await server.runs(id);
        assert.match(runs[2].reason, /^dead: rule 1 of policy evicted .* allows 2 retries$/);
        assert.equal((await server.job(id)).retry_counts[0].count, 2);
        const again = await server.post(`/jobs/${id}/retry`);
        assert.equal(again.status, 200, again.text);
        assert.equal(again.json.retry_counts, undefined);
    });

    it('that_it_adds_itself_comes_after_those_of_the_queue', async () => {
        const queue = queueName();
        await putPolicy(server, 'queues', {
            rules: [{ action: 'Fail', onExitCodes: { operator: 'In', values: [1] } }],
        });
        await putPolicy(server, 'added', {
            rules: [{ action: 'Retry', onExitCodes: { operator: 'In', values: [1, 2] } }],
        });
        await attach(server, queue, ['queues']);
        for (const [code, status] of [[1, 'dead'], [2, 'ready'], [3, 'dead']]) {
            const made = await server.enqueue({ queue, retry_policies: ['added'] });
            assert.deepEqual(made.retry_policies, ['added']);
            await server.claimOne(queue);
            assert.equal((await fail(server, made.id, { exit_code: code })).status, status);
            await server.delete(`/jobs/${made.id}`);
        }
    });

    it('obeys_its_worker_first', async () => {
        const queue = queueName();
        await putPolicy(server, 'always', { defaultAction: 'Retry' });
        await attach(server, queue, ['always']);
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        assert.equal((await fail(server, id, { kill: true })).status, 'dead');
        await putPolicy(server, 'never', { defaultAction: 'Fail' });
        await attach(server, queue, ['never']);
        const other = await server.enqueue({ queue });
        await server.claimOne(queue);
        const later = await fail(server, other.id, { retry_at: Date.now() + 3600000 });
        assert.equal(later.status, 'scheduled');
        assert.equal(later.retry_counts, undefined);
    });

    it('has_those_of_the_specification_in_their_order_with_their_own_counts', async () => {
        await putPolicy(server, 'infra', {
            retryLimit: 10,
            rules: [{ action: 'Retry', onConditions: ['Preempted', 'Evicted'] }],
        });
        await put(server, '/retry-policies/ml-training', ML_TRAINING,
            { 'content-type': 'application/yaml' });
        await putPolicy(server, 'extra-retry', {
            rules: [
                { action: 'Retry', onConditions: ['OOMKilled'], retryLimit: 100 },
                { action: 'Retry', onConditions: ['Unschedulable'], retryLimit: 1 },
            ],
        });
        const queue = queueName();
        await attach(server, queue, ['infra', 'ml-training']);
        const { id } = await server.enqueue({ queue, retry_policies: ['extra-retry'] });
        // Retries until it is dead, by failures of these kinds in turn; each in its words.
        async function failures(condition, times, words) {
            for (let n = 1; n <= times; n++) {
                await server.claimOne(queue);
                const ended = condition === 'Preempted' ? { grace_period_ms: 0 } : {};
                const job = await fail(server, id, { condition, ...ended });
                assert.equal(job.status, 'ready', job.reason);
                assert.ok(job.reason.startsWith(`retry ${n} of ${words}`), job.reason);
            }
        }
        await failures('Preempted', 10, '10 by rule 1 of policy infra');
        await failures('OOMKilled', 3, '3 by rule 2 of policy ml-training');
        await failures('Unschedulable', 1, '1 by rule 2 of policy extra-retry');
        assert.deepEqual((await server.job(id)).retry_counts.map((c) => [c.policy, c.count]),
            [['infra', 10], ['ml-training', 3], ['extra-retry', 1]]);
        await server.claimOne(queue);
        assert.match((await fail(server, id, { condition: 'OOMKilled' })).reason,
            /^dead: rule 2 of policy ml-training \(OOMKilled\) allows 3 retries$/);
        assert.equal((await server.post(`/jobs/${id}/retry`)).status, 200);
        await server.claimOne(queue);
        assert.match((await fail(server, id, { exit_code: 1 })).reason,
            /^dead: no rule matched and policy ml-training says Fail$/);
    });

    it('has_a_sidecar_that_is_not_worth_it_and_a_main_container_that_is', async () => {
        await putPolicy(server, 'sidecar', {
            rules: [
                { action: 'Retry', containerName: 'main',
                    onExitCodes: { operator: 'In', values: [137] } },
                { action: 'Fail', containerName: 'log-shipper', onConditions: ['OOMKilled'] },
                { action: 'Retry', onConditions: ['OOMKilled'] },
            ],
        });
        const queue = queueName();
        await attach(server, queue, ['sidecar']);
        const killed = { exit_code: 137, reason: 'OOMKilled' };
        for (const [containers, words] of [
            [[{ name: 'main', ...killed }, { name: 'log-shipper', exit_code: 0 }],
                /^retry 1 of 20 by rule 1 /],
            [[{ name: 'log-shipper', ...killed }, { name: 'main', exit_code: 0 }],
                /^dead: rule 2 .* says Fail/],
            [[{ name: 'proxy', ...killed }, { name: 'main', exit_code: 1 }],
                /^retry 1 of 20 by rule 3 /],
            [[{ name: 'setup', init: true, ...killed }], /^dead: no rule matched/],
        ]) {
            const { id } = await server.enqueue({ queue });
            await server.claimOne(queue);
            const job = await fail(server, id, { containers });
            assert.match(job.reason, words);
            await server.delete(`/jobs/${id}`);
        }
    });

    it('may_have_been_ended_by_a_signal', async () => {
        await putPolicy(server, 'signals', {
            rules: [{ action: 'Retry', onExitCodes: { operator: 'In', values: [137] } }],
        });
        const queue = queueName();
        await attach(server, queue, ['signals']);
        for (const [signal, status] of [[9, 'ready'], [11, 'dead']]) {
            const { id } = await server.enqueue({ queue });
            await server.claimOne(queue);
            assert.equal((await fail(server, id, { signal })).status, status);
            await server.delete(`/jobs/${id}`);
        }
    });

    it('dies_at_its_next_failure_once_the_kill_switch_is_thrown', async () => {
        const queue = queueName();
        await putPolicy(server, 'always', { defaultAction: 'Retry' });
        await attach(server, queue, ['always']);
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        assert.equal((await fail(server, id)).status, 'ready');
        await server.claimOne(queue);
        const now = await change(server, { globalMaxRetries: 0 }, { 'worker-id': 'operator' });
        assert.equal(now.globalMaxRetries, 0);
        assert.equal(now.lastChange.by, 'operator');
        assert.equal(now.lastChange.old.globalMaxRetries, 20);
        assert.equal(now.lastChange.new.globalMaxRetries, 0);
        const dead = await fail(server, id);
        assert.equal(dead.status, 'dead');
        assert.match(dead.reason, /globalMaxRetries is 0/);
        await change(server, { globalMaxRetries: 20 });
    });

    it('has_settings_that_only_somebody_with_a_name_changes', async () => {
        const before_ = (await server.get('/settings/retry')).json;
        for (const name of ['\xff', 'a,b', 'n'.repeat(256)]) {
            const headers = { 'worker-id': name, 'content-type': 'application/json' };
            const res = await put(server, '/settings/retry',
                Buffer.from('{"globalMaxRetries": 1}'), headers);
            assert.equal(res.status, 400, res.text);
            assert.match(res.json.error, /^Worker-Id /);
        }
        assert.deepEqual((await server.get('/settings/retry')).json, before_);
    });

    it('has_the_default_policy_if_there_is_no_other', async () => {
        const queue = queueName();
        await putPolicy(server, 'default', { defaultAction: 'Fail' });
        await change(server, { defaultPolicyName: 'default' });
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        assert.match((await fail(server, id)).reason, /policy default says Fail/);
        await change(server, { defaultPolicyName: null });
    });

    // Whatever there is of policies: while they are off, everything is as if they were not there.
    it('behaves_as_if_there_were_none_while_they_are_switched_off', async () => {
        const none = queueName(), all = queueName();
        await putPolicy(server, 'everything', {
            retryLimit: 9, defaultAction: 'Retry', antiAffinity: { mode: 'node' },
            rules: [{ action: 'Fail', onExitCodes: { operator: 'In', values: [7] } },
                { action: 'Retry', onConditions: ['OOMKilled'],
                    mutations: { memory: { factor: 2, max: '8Gi' } } }],
        });
        await attach(server, all, ['everything']);
        await change(server, { enabled: false, globalMaxRetries: 0, defaultPolicyName: 'everything' });
        const fields = { backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 }, retry_limit: 2,
            resources: { memory: '1Gi' } };
        const reports = [{ exit_code: 7 }, { condition: 'OOMKilled', node: 'n1' },
            { condition: 'Evicted', node: 'n1' }, { condition: 'Preempted', node: 'n1', grace_period_ms: 0 },
            { exit_code: 8 }];
        // All that is told of a job and its runs, but for what differs between any two jobs. That both
        // name the same policy, once, is part of it.
        async function story(queue, more) {
            const told = [];
            const { id } = await server.enqueue({ queue, ...fields, ...more });
            const strip = (value) => JSON.parse(JSON.stringify(value), (key, v) => (
                /_at$|^id$|^queue$|^token$|^retry_policies$/.test(key) ? undefined : v));
            for (const report of reports) {
                const job = await server.claimOne(queue, { node: 'n1', wait_ms: 20000 });
                told.push(strip(job), strip(await fail(server, id, report)));
            }
            told.push(strip(await server.runs(id)), strip(await server.job(id)));
            return told;
        }
        const [plain, other] = await Promise.all(
            [story(none), story(all, { retry_policies: ['everything'] })]);
        assert.equal(plain.at(-1).status, 'dead');
        assert.match(plain.at(-1).reason,
            /^dead: all 2 retries are used up; policy everything would have said Fail, but policies are off$/);
        assert.deepEqual(other, plain);
        await change(server, { enabled: true, globalMaxRetries: 20, defaultPolicyName: null });
    });

    it('is_a_plain_job_while_policies_are_switched_off', async () => {
        const queue = queueName();
        await putPolicy(server, 'never', { defaultAction: 'Fail' });
        await attach(server, queue, ['never']);
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        await change(server, { enabled: false });
        const job = await fail(server, id);
        assert.equal(job.status, 'scheduled');
        assert.equal(job.retry_counts, undefined);
        await change(server, { enabled: true });
    });

    const ended = async (id, attempts, status) => until(async () => {
        const job = await server.job(id);
        return job.status === status && job.attempts === attempts && job;
    }, `attempt ${attempts} is over`);

    it('that_has_none_in_effect_fails_or_is_left_to_the_usual_retries', async () => {
        const queue = queueName();
        async function reason() {
            const { id } = await server.enqueue({ queue, retry_policies: ['fleeting'] });
            await server.claimOne(queue);
            await server.delete('/retry-policies/fleeting');
            const from = server.stderr.length;
            const job = await fail(server, id);
            await server.delete(`/jobs/${id}`);
            return [job.status, job.reason, server.stderr.slice(from)];
        }
        const again = () => putPolicy(server, 'fleeting', { defaultAction: 'Retry' });
        await again();
        const [status, words, log] = await reason();
        assert.equal(status, 'dead');
        assert.equal(words, 'dead: no retry policy is in effect, and whenNoPolicy says fail; '
            + 'retry policy fleeting is missing');
        assert.match(log, /warn {2}.*retry policy 'fleeting' is missing.*queue '/);
        const metrics = (await server.get('/metrics')).text;
        assert.match(metrics, /^tenax_policy_missing_total\{policy="fleeting"\} 1$/m);

        await again();
        assert.equal((await server.request('PATCH', `/queues/${queue}`,
            { when_no_policy: 'default' })).json.when_no_policy, 'default');
        assert.match((await reason())[1],
            /^retry 1 of 25, default backoff, .*; retry policy fleeting is missing$/);
        await again();
        await server.request('PATCH', `/queues/${queue}`, { when_no_policy: null });
        await change(server, { whenNoPolicy: 'default' });
        assert.match((await reason())[1], /^retry 1 of 25, default backoff/);
        await again();
        await server.request('PATCH', `/queues/${queue}`, { when_no_policy: 'fail' });
        assert.match((await reason())[1], /^dead: no retry policy is in effect/);
        await change(server, { whenNoPolicy: 'fail' });
        assertError(await server.request('PATCH', `/queues/${queue}`, { when_no_policy: 'never' }),
            400, 'bad_value');
        assertError(await put(server, '/settings/retry', { whenNoPolicy: 'never' }),
            400, 'bad_value');
    });

    it('has_no_retry_by_whomever_once_the_maximum_is_reached', async () => {
        const queue = queueName();
        const quick = { backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 } };
        const now = await change(server, { globalMaxRetries: 2, whenNoPolicy: 'default' });
        assert.deepEqual([now.globalMaxRetriesExempt, now.globalMaxRetriesInForce], [[], true]);
        const { id } = await server.enqueue({ queue, ...quick });
        await server.claimOne(queue);
        const at = Date.now() - 1000;
        assert.match((await fail(server, id, { retry_at: at })).reason, /when the worker asked/);
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        await ended(id, 2, 'ready');
        const { token } = await server.claimOne(queue);
        const dead = await fail(server, id, { retry_at: at, token });
        assert.equal(dead.reason, 'dead: 2 retries in all, as many as globalMaxRetries allows');

        await change(server, { globalMaxRetries: 0 });
        const stopped = await server.enqueue({ queue, ...quick });
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        const expired = await ended(stopped.id, 1, 'dead');
        assert.equal(expired.resolution, 'claim-expired');
        assert.match(expired.reason, /the lease ran out and globalMaxRetries is 0/);

        const exempt = await change(server, { globalMaxRetriesExempt: ['defaultBackoff'] });
        assert.deepEqual(exempt.globalMaxRetriesExempt, ['defaultBackoff']);
        const free = await server.enqueue({ queue, ...quick });
        await server.claimOne(queue);
        assert.match((await fail(server, free.id)).reason, /^retry 1 of 25, own backoff/);
        await server.claimOne(queue, { wait_ms: 20000 });
        assert.match((await fail(server, free.id, { retry_at: at })).reason, /globalMaxRetries is 0/);
        await change(server, {
            globalMaxRetries: 20, globalMaxRetriesExempt: [], whenNoPolicy: 'fail' });
    });

    it('is_judged_when_its_claim_expires_by_a_rule_that_names_it', async () => {
        const queue = queueName();
        await putPolicy(server, 'leases', {
            defaultAction: 'Fail', rules: [{ action: 'Retry', onConditions: ['LeaseExpired'],
                retryLimit: 1, antiAffinity: { mode: 'node' } }],
        });
        await attach(server, queue, ['leases']);
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        await server.claimConfirmed(queue, { lease_ms: 1000, node: 'n1' });
        const again = await ended(id, 1, 'ready');
        assert.match(again.reason,
            /^retry 1 of 1 by rule 1 of policy leases \(LeaseExpired\), at once, not on the same node$/);
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        const dead = await ended(id, 2, 'dead');
        assert.equal(dead.resolution, 'claim-expired');
        assert.match(dead.reason, /^dead: rule 1 of policy leases \(LeaseExpired\) allows 1 retry$/);
        const runs = await server.runs(id);
        assert.deepEqual(runs.map((r) => [r.outcome, r.condition]),
            [['claim-expired', 'LeaseExpired'], ['claim-expired', 'LeaseExpired']]);
        // It is not a worker's to say.
        const other = await server.enqueue({ queue });
        await server.claimOne(queue);
        assertError(await server.post(`/jobs/${other.id}/failure`,
            { message: 'm', condition: 'LeaseExpired' }), 400, 'bad_value');
    });

    it('waits_for_a_preempted_run_as_long_as_the_settings_say_if_nobody_else_does', async () => {
        const queue = queueName();
        await putPolicy(server, 'preempted', {
            rules: [{ action: 'Retry', onConditions: ['Preempted'] }] });
        await attach(server, queue, ['preempted']);
        assert.equal((await server.get('/settings/retry')).json.preemptedGracePeriod, '30s');
        await change(server, { preemptedGracePeriod: '1h' });
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        const waits = await fail(server, id, { condition: 'Preempted' });
        assert.equal(waits.status, 'scheduled');
        assert.match(waits.reason, /not before the preempted run has ended or 1 h are over$/);
        assert.ok(waits.ready_at - waits.failed_at === 3600000, JSON.stringify(waits));
        await change(server, { preemptedGracePeriod: '30s' });
    });

    it('is_not_judged_when_its_claim_expires', async () => {
        const queue = queueName();
        await putPolicy(server, 'expiry', {
            defaultAction: 'Fail', rules: [{ action: 'Retry', onConditions: ['Evicted'] }],
        });
        await attach(server, queue, ['expiry']);
        const { id } = await server.enqueue({ queue, retry_limit: 1 });
        await server.claimOne(queue);
        assert.equal((await fail(server, id, { condition: 'Evicted' })).status, 'ready');
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        const again = await ended(id, 2, 'ready');
        assert.match(again.reason, /^retry 1 of 1, the lease ran out, at once/);
        await server.claimConfirmed(queue, { lease_ms: 1000 });
        const dead = await ended(id, 3, 'dead');
        assert.equal(dead.resolution, 'claim-expired');
        assert.match(dead.reason, /the lease ran out and the only retry is used up/);
    });
});

for (const signal of ['SIGTERM', 'SIGKILL'])
    describe(`after ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());

        it('policies_attachments_settings_and_counts_are_as_they_were', async () => {
            const queue = queueName();
            await putPolicy(server, 'kept', EVICTED);
            await attach(server, queue, ['kept']);
            await change(server, {
                enabled: true, globalMaxRetries: 5, defaultPolicyName: 'kept',
                defaultBackoff: { initialDelay: '10m' }, // nothing happens meanwhile
            });
            const { id } = await server.enqueue({ queue, retry_policies: ['kept'] });
            await server.claimOne(queue);
            const look = async () => Promise.all(['/retry-policies', `/queues/${queue}`,
                '/settings/retry'].map(async (target) => (await server.get(target)).json));
            assert.equal((await evicted(server, id)).retry_counts[0].count, 1);
            const before_ = await look();
            const job = await server.job(id);
            await server.signal(signal);
            await server.start();
            assert.deepEqual(await look(), before_);
            const now = await server.job(id);
            assert.deepEqual(now.retry_counts, job.retry_counts);
            assert.deepEqual(now.retry_policies, ['kept']);
            const next = await putPolicy(server, 'kept', EVICTED);
            assert.ok(next.metadata.resourceVersion > before_[0].items[0].metadata.resourceVersion);
            const gone = await putPolicy(server, 'gone', EVICTED);
            assert.equal((await server.delete('/retry-policies/gone')).status, 204);
            await server.signal(signal);
            await server.start();
            const again = await putPolicy(server, 'gone', EVICTED);
            assert.ok(again.metadata.resourceVersion > gone.metadata.resourceVersion);
        });
    });

describe('tenax policy and queue', () => {
    const server = useServer();
    const cli = (...args) => run([...args, '--url', server.url()]);

    it('apply_get_attach_and_delete', async () => {
        const dir = makeDir();
        const file = path.join(dir, 'two.yaml');
        fs.writeFileSync(file, ['one', 'two'].map((name) => 'apiVersion: tenax.dev/v1\n'
            + `kind: RetryPolicy\nmetadata: {name: ${name}}\nspec: {defaultAction: Retry}\n`)
            .join('---\n'));
        let end = await cli('policy', 'apply', '--file', file);
        fs.rmSync(dir, { recursive: true });
        assert.equal(end.code, 0, end.stderr);
        assert.equal(end.stdout, 'retrypolicy/one created\nretrypolicy/two created\n');
        end = await cli('policy', 'get', 'two', '--output', 'json');
        assert.equal(JSON.parse(end.stdout).spec.defaultAction, 'Retry');
        end = await cli('queue', 'a/b', '--retry-policy', 'two,one');
        assert.equal(end.code, 0, end.stderr);
        end = await cli('queue', 'a/b', '--output', 'json');
        assert.deepEqual(JSON.parse(end.stdout).retry_policies, ['two', 'one']);
        end = await cli('policy', 'delete', 'one');
        assert.equal(end.code, 1, end.stderr);
        assert.match(end.stderr, /the queue 'a\/b' has this retry policy/);
        end = await cli('queue', 'a/b', '--retry-policy', '');
        assert.equal(end.code, 0, end.stderr);
        end = await cli('policy', 'delete', 'one');
        assert.equal(end.code, 0, end.stderr);
        end = await cli('policy', 'get', 'one');
        assert.equal(end.code, 4);
    });

    it('retry_settings_change_what_they_name', async () => {
        let end = await cli('retry-settings', '--enabled', 'true', '--global-max-retries', '3');
        assert.equal(end.code, 0, end.stderr);
        end = await cli('retry-settings', '--output', 'json');
        const now = JSON.parse(end.stdout);
        assert.deepEqual([now.enabled, now.globalMaxRetries], [true, 3]);
        assert.match(now.lastChange.by, /^[\w.+-]+@[\w.+-]*$/); // who pulled the emergency stop
        for (const [given, delay] of [['10s', '10s'], ['{"initialDelay": "5s"}', '5s']]) {
            end = await cli('retry-settings', '--default-backoff', given, '-o', 'json');
            assert.equal(JSON.parse(end.stdout).defaultBackoff.initialDelay, delay);
        }
        end = await cli('retry-settings', '--default-backoff', 'null', '-ojson');
        assert.equal(JSON.parse(end.stdout).defaultBackoff, undefined);
        end = await cli('retry-settings', '--default-backoff', 'soon');
        assert.equal(end.code, 1);
        assert.match(end.stderr, /defaultBackoff/);
        end = await cli('retry-settings', '--enabled', 'maybe');
        assert.equal(end.code, 1);
        assert.match(end.stderr, /enabled/);
    });

    it('say_what_is_wrong', async () => {
        let end = await cli('policy', 'apply');
        assert.equal(end.code, 2);
        end = await cli('policy', 'apply', '--file', '/dev/null');
        assert.equal(end.code, 2);
        end = await cli('queue');
        assert.equal(end.code, 2);
    });
});

describe('a policy without effect', () => {
    const quick = { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'quick' },
        spec: { rules: [{ action: 'Fail', onExitCodes: { operator: 'In', values: [65] } }] } };

    it('is_said_to_be_switched_off_where_it_is_written_and_where_it_would_have_decided', async (t) => {
        const server = await new Server().start();
        t.after(() => server.clean());
        const apply = () => run(['apply', '-f', '-'], { TENAX_URL: server.url() }, JSON.stringify(quick));
        assert.match((await apply()).stderr, /warning: retry policies are not enabled on this server/);
        const { id } = await server.enqueue({ queue: 'q', retry_policies: ['quick'] });
        const { token } = await server.claimOne('q');
        const failed = await server.post(`/jobs/${id}/failure`, { token, message: 'm', exit_code: 65 });
        assert.match(failed.json.reason, /^retry 1 of 25, .*; policy quick would have said Fail, but policies are off$/);
        assert.equal((await server.get(`/jobs/${id}/explain`)).json.reason, failed.json.reason);
        assert.equal((await server.request('PUT', '/settings/retry', { enabled: true })).status, 200);
        assert.equal((await apply()).stderr, '');
    });

    // What stands is said everywhere, and where it no longer stands nowhere.
    const views = {
        log: (server) => server.stderr,
        health: async (server) => (await server.get('/health')).json.warnings.join('\n'),
        policy: async (server) => ((await server.get('/retry-policies/high')).json.warnings ?? []).join('\n'),
        list: async (server) => (await server.get('/retry-policies')).json.items.map((p) => p.warnings ?? []).join('\n'),
        command: async (server) => (await run(['get', 'retrypolicies'], { TENAX_URL: server.url() })).stderr,
        queue: async (server) => ((await server.get('/queues/q')).json.warnings ?? []).join('\n'),
        queueExplained: async (server) => (await server.get('/explain?queue=q')).json.queues[0].warnings.join('\n'),
        job: async (server, id) => (await server.get(`/jobs/${id}/explain`)).json.warnings.join('\n'),
        inWords: async (server, id) => (await run(['explain', id], { TENAX_URL: server.url() })).stdout,
    };
    const seenIn = async (server, id, what) => {
        const seen = [];
        for (const [name, view] of Object.entries(views))
            if (what.test(await view(server, id)))
                seen.push(name);
        return seen;
    };

    it('spreads_retries_over_their_delay_unless_it_says_otherwise', async (t) => {
        const server = await new Server({ args: ['--retry-policy-enabled'] }).start();
        t.after(() => server.clean());
        const waits = async (name, backoff, apiVersion = quick.apiVersion) => {
            const put = await server.request('PUT', `/retry-policies/${name}`, { ...quick, apiVersion, metadata: { name },
                spec: { defaultAction: 'Retry', retryLimit: 3, backoff: { initialDelay: '1m', ...backoff } } });
            assert.equal(put.status, 200, put.text);
            await server.request('PUT', `/queues/${name}`, { retry_policies: [name] });
            const found = [];
            for (let i = 0; i < 30; i++) {
                const { id } = await server.enqueue({ queue: name });
                await server.claimOne(name);
                const { json } = await server.post(`/jobs/${id}/failure`, { message: 'm' });
                const [{ ended_at }] = (await server.get(`/jobs/${id}/runs`)).json.runs;
                found.push(json.ready_at - ended_at);
            }
            return { jitter: put.json.spec.backoff.jitter, least: Math.min(...found), most: Math.max(...found) };
        };
        for (const [name, backoff] of [['unsaid', {}], ['said', { jitter: 'full' }]]) {
            const { jitter, least, most } = await waits(name, backoff);
            assert.equal(jitter, 'full');
            assert.ok(least > 0 && least < 20000 && most > 40000 && most <= 60000, `${name}: ${least} ${most}`);
        }
        assert.deepEqual(await waits('exact', { jitter: 'none' }), { jitter: '0s', least: 60000, most: 60000 });
        assert.deepEqual(await waits('armada', {}, 'armadaproject.io/v1'), { jitter: '0s', least: 60000, most: 60000 });
        const added = await waits('added', { jitter: '10s' });
        assert.ok(added.least >= 60000 && added.most > 61000 && added.most <= 70000, `${added.least} ${added.most}`);
        const bad = await server.request('PUT', '/retry-policies/bad', { ...quick, metadata: { name: 'bad' },
            spec: { defaultAction: 'Retry', backoff: { initialDelay: '1m', jitter: 'some' } } });
        assert.equal(bad.status, 400);
        assert.match(bad.json.error, /spec\.backoff\.jitter: expected full, none or a duration/);
    });

    it('is_warned_of_as_long_as_it_stands_also_after_a_restart', async (t) => {
        const server = await new Server({ args: ['--retry-policy-enabled'] }).start();
        t.after(() => server.clean());
        const rules = [{ action: 'Retry', onConditions: ['Evicted'], retryLimit: 9, backoff: { initialDelay: '1s', jitter: '1s' } }];
        const made = await server.request('PUT', '/retry-policies/high', { ...quick, metadata: { name: 'high' }, spec: { rules } });
        assert.equal(made.json.warnings, undefined);
        await server.request('PUT', '/queues/q', { retry_policies: ['high'] });
        const { id } = await server.enqueue({ queue: 'q' });
        const limit = /retryLimit: globalMaxRetries is 3/, off = /policies are not enabled/;
        assert.deepEqual(await seenIn(server, id, /globalMaxRetries/), []);
        const log = () => { const from = server.stderr.length; return () => server.stderr.slice(from); };
        const lowered = log();
        await server.request('PUT', '/settings/retry', { globalMaxRetries: 3 });
        await until(() => lowered().includes('high'));
        await server.stop();
        server.stderr = '';
        await server.start();
        assert.deepEqual(await seenIn(server, id, limit), Object.keys(views));
        const health = await server.get('/health');
        assert.deepEqual([health.status, health.json.status, health.json.warning_count], [200, 'ok', 1]);
        assert.match(health.json.warnings[0], /^retry policy 'high': /);
        const shown = (await server.get('/retry-policies/high')).json; // an answer can be sent back
        assert.equal((await server.request('PUT', '/retry-policies/high', shown)).status, 200);
        await server.request('PUT', '/settings/retry', { enabled: false });
        assert.deepEqual(await seenIn(server, id, off), ['health', 'command', 'queue', 'queueExplained', 'job', 'inWords']);
        await server.request('PUT', '/settings/retry', { enabled: true, globalMaxRetries: 20 });
        assert.deepEqual((await seenIn(server, id, /globalMaxRetries|not enabled/)).filter((view) => view !== 'log'), []);
        assert.equal((await server.get('/health')).json.warning_count, 0);
    });

    it('is_said_of_queues_whose_jobs_have_none_and_die', async (t) => {
        const server = await new Server({ args: ['--retry-policy-enabled'] }).start();
        t.after(() => server.clean());
        const { id } = await server.enqueue({ queue: 'q' });
        const dies = /no retry policy applies, and whenNoPolicy is fail: a job is dead at its first failure/;
        assert.deepEqual(await seenIn(server, id, dies), []);
        await server.request('PUT', '/settings/retry', { whenNoPolicy: 'fail' });
        assert.deepEqual(await seenIn(server, id, dies), ['queue', 'queueExplained', 'job', 'inWords']);
        await server.request('PATCH', '/queues/q', { when_no_policy: 'default' });
        assert.deepEqual(await seenIn(server, id, dies), []);
    });

    it('is_named_by_health_to_those_who_may_know_its_name', async (t) => {
        const server = await new Server({ args: ['--retry-policy-enabled'] }).start();
        t.after(() => server.clean());
        const rules = [{ action: 'Retry', onConditions: ['Evicted'] }];
        await server.request('PUT', '/retry-policies/secret', { ...quick, metadata: { name: 'secret' }, spec: { rules } });
        const named = (await server.get('/health')).json.warnings;
        await server.admin('POST', '/tokens', { name: 'a', roles: ['admin'] });
        const bare = (await server.get('/health')).json.warnings;
        assert.deepEqual(bare, named.map((text) => text.replace("retry policy 'secret'", 'a retry policy')));
    });

    it('names_its_rules_that_could_not_be_asked', async (t) => {
        const server = await new Server({ args: ['--retry-policy-enabled'] }).start();
        t.after(() => server.clean());
        const rule = (pattern) => ({ action: 'Retry', onTerminationMessage: { pattern } });
        const rules = Array.from({ length: 40 }, (_, i) => rule(`.*TRANSIENT${i}.*`));
        await server.request('PUT', '/retry-policies/quick', { ...quick, spec: { rules } });
        const { id } = await server.enqueue({ queue: 'q', retry_policies: ['quick'] });
        const { token } = await server.claimOne('q');
        const trace = Array.from({ length: 560 }, (_, i) => `  File "/srv/app/module${i % 17}.py", line ${i}, ` +
            'in handle_request: result = self.backend.execute(statement, parameters)').join('\n').slice(0, 63000);
        const failed = await server.post(`/jobs/${id}/failure`,
            { token, message: 'm', termination_message: trace });
        assert.match(failed.json.reason, /; rule \d+ to rule 40 of policy quick could not be asked in full: too much text/);
    });
});
