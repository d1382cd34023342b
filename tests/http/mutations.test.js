// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rules that give a retry more memory, for jobs that say how much they need.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, useServer } = require('./harness');

async function putPolicy(server, name, memory) {
    const res = await server.request('PUT', `/retry-policies/${name}`, {
        apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name },
        spec: {
            rules: [
                { action: 'Retry', onConditions: ['OOMKilled'], mutations: { memory } },
                { action: 'Retry', onConditions: ['Preempted'] },
            ],
        },
    });
    return res;
}

async function fail(server, id, condition) {
    const ended = condition === 'Preempted' ? { grace_period_ms: 0 } : {};
    const res = await server.post(`/jobs/${id}/failure`, { message: 'm', condition, ...ended });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

describe('a job that says how much memory it needs', () => {
    const server = useServer({ args: ['--retry-policy-enabled'] });

    it('has_more_at_each_retry_up_to_the_most_and_keeps_it', async () => {
        await putPolicy(server, 'oom', { factor: 2, max: '12Gi' });
        const queue = queueName();
        const { id, resources } = await server.enqueue({
            queue, retry_policies: ['oom'], resources: { memory: '4Gi' },
        });
        assert.deepEqual(resources, { memory: '4Gi' });
        const handedOut = async () => (await server.claimOne(queue)).resources.memory;
        assert.equal(await handedOut(), '4Gi');
        const job = await fail(server, id, 'OOMKilled');
        assert.deepEqual(job.resources, { memory: '8Gi' });
        assert.deepEqual(job.grown_from, { memory: '4Gi' });
        assert.match(job.reason, /, memory from 4Gi to 8Gi$/);
        assert.equal((await server.runs(id))[0].reason, job.reason);
        assert.equal(await handedOut(), '8Gi');
        assert.deepEqual((await fail(server, id, 'Preempted')).resources, { memory: '8Gi' });
        await server.signal('SIGKILL');
        await server.start();
        assert.equal(await handedOut(), '8Gi');
        assert.match((await fail(server, id, 'OOMKilled')).reason, /, memory from 8Gi to 12Gi$/);
        assert.equal(await handedOut(), '12Gi');
        assert.match((await fail(server, id, 'OOMKilled')).reason, /, memory stays 12Gi, the most$/);
        assert.deepEqual((await server.job(id)).resources, { memory: '12Gi' });
    });

    it('loses_what_is_not_sticky_at_a_retry_by_another_rule', async () => {
        await putPolicy(server, 'loose', { add: '1Gi', max: '12Gi', sticky: false });
        const queue = queueName();
        const { id } = await server.enqueue({
            queue, retry_policies: ['loose'], resources: { memory: '4Gi' },
        });
        await server.claimOne(queue);
        assert.deepEqual((await fail(server, id, 'OOMKilled')).resources, { memory: '5Gi' });
        await server.claimOne(queue);
        const job = await fail(server, id, 'Preempted');
        assert.deepEqual(job.resources, { memory: '4Gi' });
        assert.equal(job.grown_from, undefined);
    });

    it('says_it_as_kubernetes_does', async () => {
        const queue = queueName();
        for (const [given, shown] of [
            ['1.5Gi', '1536Mi'], ['500M', '500M'], ['4096Mi', '4Gi'], [1048576, '1Mi'], [77, '77'],
        ]) {
            const job = await server.enqueue({ queue, resources: { memory: given } });
            assert.deepEqual(job.resources, { memory: shown });
        }
        assert.equal((await server.enqueue({ queue, resources: {} })).resources, undefined);
        assert.equal((await server.enqueue({ queue, resources: null })).resources, undefined);
        const end = await run(['enqueue', '--url', server.url(), '--queue', queue, '--type', 't',
            '--memory', '2 GiB', '{}']);
        assert.equal(end.code, 0, end.stderr);
        assert.deepEqual((await server.job(end.stdout.trim())).resources, { memory: '2Gi' });
    });

    it('is_refused_with_an_amount_that_is_none', async () => {
        for (const memory of ['', '0', '4GB', '-1', '1e30', 'much', true, {}, 1.5e30]) {
            const res = await server.post('/jobs', {
                queue: 'q', type: 't', payload: null, resources: { memory },
            });
            assertError(res, 400, 'bad_value', /^resources: memory: /);
        }
        const res = await server.post('/jobs/bulk', {
            jobs: [{ queue: 'q', type: 't', payload: null, resources: 7 }],
        });
        assertError(res, 400, 'wrong_type', /^jobs\[0\]: resources: /);
    });

    it('is_shown_in_a_cron_entry', async () => {
        const job = { queue: 'q', type: 't', payload: null, resources: { memory: '3Gi' } };
        const res = await server.request('PUT', '/crons/with-memory', {
            entries: [{ name: 'e', expression: '0 0 1 1 *', job }],
        });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.entries[0].job.resources, { memory: '3Gi' });
    });
});

describe('a job that says how many processors it needs', () => {
    const server = useServer({ args: ['--retry-policy-enabled'] });

    it('has_more_at_each_retry_beside_memory_and_keeps_it', async () => {
        const res = await server.request('PUT', '/retry-policies/both', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'both' },
            spec: {
                rules: [
                    {
                        action: 'Retry', onConditions: ['OOMKilled'],
                        mutate: {
                            resources: {
                                memory: { static: '1Gi', max: '8Gi' }, cpu: { factor: 1.5, max: 2 },
                            },
                        },
                    },
                    { action: 'Retry', onConditions: ['Preempted'] },
                ],
            },
        });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.spec.rules[0].mutations, {
            memory: { add: '1Gi', max: '8Gi' }, cpu: { factor: 1.5, max: '2' },
        });
        const queue = queueName();
        const { id, resources } = await server.enqueue({
            queue, retry_policies: ['both'], resources: { memory: '1Gi', cpu: 1 },
        });
        assert.deepEqual(resources, { memory: '1Gi', cpu: '1' });
        await server.claimOne(queue);
        const job = await fail(server, id, 'OOMKilled');
        assert.deepEqual(job.resources, { memory: '2Gi', cpu: '1500m' });
        assert.deepEqual(job.grown_from, { memory: '1Gi', cpu: '1' });
        assert.match(job.reason, /, memory from 1Gi to 2Gi, cpu from 1 to 1500m$/);
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.claimOne(queue)).resources, { memory: '2Gi', cpu: '1500m' });
        assert.deepEqual((await fail(server, id, 'Preempted')).grown_from,
            { memory: '1Gi', cpu: '1' });
        await server.claimOne(queue);
        assert.match((await fail(server, id, 'OOMKilled')).reason, /, cpu from 1500m to 2$/);
        await server.claimOne(queue);
        assert.match((await fail(server, id, 'OOMKilled')).reason, /, cpu stays 2, the most$/);
        const sim = await server.post('/retry-policies/simulate', {
            policies: [{
                apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'both' },
                spec: {
                    rules: [{
                        action: 'Retry', onConditions: ['OOMKilled'],
                        mutations: { cpu: { add: '250m', max: 4 } },
                    }],
                },
            }],
        });
        assert.equal(sim.status, 200, sim.text);
        assert.match(sim.json.jobs[0].failures[0].draft.reason, /, cpu from 1 to 1250m$/);
    });

    it('may_say_only_that', async () => {
        const queue = queueName();
        const { resources } = await server.enqueue({ queue, resources: { cpu: '0.25' } });
        assert.deepEqual(resources, { cpu: '250m' });
        const end = await run(['enqueue', '--url', server.url(), '--queue', queue, '--type', 't',
            '--cpu', '1500m', '--memory', '2Gi', '{}']);
        assert.equal(end.code, 0, end.stderr);
        assert.deepEqual((await server.job(end.stdout.trim())).resources,
            { memory: '2Gi', cpu: '1500m' });
        const bad = await run(['enqueue', '--url', server.url(), '--queue', queue, '--type', 't',
            '--cpu', '2Gi', '{}']);
        assert.equal(bad.code, 2);
        assert.match(bad.stderr, /--cpu.*an amount of CPUs/);
        for (const cpu of ['', '0', '1Gi', '-1', '2000000', true, {}]) {
            const res = await server.post('/jobs', {
                queue: 'q', type: 't', payload: null, resources: { cpu },
            });
            assertError(res, 400, 'bad_value', /^resources: cpu: /);
        }
    });
});

describe('a mutation', () => {
    const server = useServer();

    it('is_refused_with_its_path', async () => {
        for (const [memory, where] of [
            [{ factor: 2 }, /rules\[0\]\.mutations\.memory\.max: /],
            [{ max: '1Gi' }, /rules\[0\]\.mutations\.memory: expected factor or add/],
            [{ factor: 0.5, max: '1Gi' }, /rules\[0\]\.mutations\.memory\.factor: /],
            [{ add: '1XB', max: '1Gi' }, /rules\[0\]\.mutations\.memory\.add: /],
        ])
            assertError(await putPolicy(server, 'bad', memory), 400,
                memory.max && memory.factor !== 2 ? 'bad_value' : 'missing_field', where);
    });
});
