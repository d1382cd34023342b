// SPDX-License-Identifier: Apache-2.0
'use strict';

// A retry that is to stay off the node where its run failed, and the takers that say where they
// are.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, until, useServer } = require('./harness');

async function putPolicy(server, name, antiAffinity) {
    const res = await server.request('PUT', `/retry-policies/${name}`, {
        apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name },
        spec: { rules: [{ action: 'Retry', onConditions: ['Evicted'], antiAffinity }] },
    });
    assert.equal(res.status, 200, res.text);
}

// A job that is ready again after its run on node n1 was evicted.
async function evicted(server, policy) {
    const queue = queueName();
    await server.enqueue({ queue, retry_policies: [policy] });
    const { id } = await server.claimOne(queue, { node: 'n1' });
    const res = await server.post(`/jobs/${id}/failure`, { message: 'm', condition: 'Evicted' });
    assert.equal(res.status, 200, res.text);
    return { queue, id, job: res.json };
}

const claim = (server, queue, fields) => server.claim({ queues: [queue], count: 9, ...fields });

describe('a retry that is to stay off a node', () => {
    const server = useServer({ args: ['--retry-policy-enabled', '--avoid-node-for', '10m'] });

    it('is_not_handed_to_a_claim_from_there', async () => {
        await putPolicy(server, 'default-time', { mode: 'node' });
        const { queue, id, job } = await evicted(server, 'default-time');
        assert.deepEqual(job.avoid_nodes, ['n1']);
        assert.equal(job.avoid_until - job.ready_at, 600000);
        assert.match(job.reason, /, not on the same node$/);
        const [run] = await server.runs(id);
        assert.equal(run.node, 'n1');
        assert.equal(run.reason, job.reason);
        assert.deepEqual(await claim(server, queue, { node: 'n1' }), []);
        const [taken] = await claim(server, queue, { node: 'n2' });
        assert.equal(taken.id, id);
        assert.deepEqual(taken.avoid_nodes, ['n1']);
        assert.equal(taken.avoid_until, job.avoid_until);
        assert.equal((await server.runs(id))[1].node, 'n2');
    });

    it('is_handed_to_a_waiting_claim_from_elsewhere_at_once', async () => {
        await putPolicy(server, 'default-time', { mode: 'node' });
        const { queue, id } = await evicted(server, 'default-time');
        const there = claim(server, queue, { node: 'n1', wait_ms: 60000 });
        const elsewhere = claim(server, queue, { node: 'n2', wait_ms: 60000 });
        assert.deepEqual((await elsewhere).map((job) => job.id), [id]);
        const other = await server.enqueue({ queue });
        assert.deepEqual((await there).map((job) => job.id), [other.id]);
    });

    it('is_handed_to_a_claim_that_does_not_say_where_it_is', async () => {
        await putPolicy(server, 'default-time', { mode: 'node' });
        const { queue, id } = await evicted(server, 'default-time');
        const [taken] = await claim(server, queue);
        assert.equal(taken.id, id);
        assert.deepEqual(taken.avoid_nodes, ['n1']);
    });

    it('is_kept_off_a_stream_from_there_while_jobs_behind_it_pass', async () => {
        await putPolicy(server, 'default-time', { mode: 'node' });
        const { queue, id } = await evicted(server, 'default-time');
        const there = await server.take(`?queue=${queue}&prefetch=9&node=n1`);
        const other = await server.enqueue({ queue });
        assert.equal((await there.next()).id, other.id);
        const elsewhere = await server.take(`?queue=${queue}&node=n2`);
        assert.equal((await elsewhere.next()).id, id);
        there.close();
        elsewhere.close();
    });

    it('goes_there_too_once_the_stated_time_is_over', async () => {
        await putPolicy(server, 'short', { mode: 'node', requiredFor: '1s' });
        const { queue, id, job } = await evicted(server, 'short');
        assert.equal(job.avoid_until - job.ready_at, 1000);
        const [taken] = await claim(server, queue, { node: 'n1', wait_ms: 30000 });
        assert.equal(taken.id, id);
        assert.ok(taken.dequeued_at >= job.avoid_until);
    });

    it('goes_there_at_once_if_no_time_is_required', async () => {
        await putPolicy(server, 'wish', { mode: 'node', requiredFor: '0s' });
        const { queue, id } = await evicted(server, 'wish');
        const [taken] = await claim(server, queue, { node: 'n1' });
        assert.equal(taken.id, id);
        assert.deepEqual(taken.avoid_nodes, ['n1']);
    });

    it('outlives_a_crash', async () => {
        await putPolicy(server, 'default-time', { mode: 'node' });
        const { queue, id } = await evicted(server, 'default-time');
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual(await claim(server, queue, { node: 'n1' }), []);
        await until(async () => (await server.job(id)).status === 'ready', 'the job is there');
        assert.equal((await claim(server, queue, { node: 'n2' }))[0].id, id);
    });

    it('has_a_policy_that_is_shown_as_it_was_given', async () => {
        await putPolicy(server, 'shown', { mode: 'node', requiredFor: '90s' });
        const { spec } = (await server.get('/retry-policies/shown')).json;
        assert.deepEqual(spec.rules[0].antiAffinity, { mode: 'node', requiredFor: '1m30s' });
    });
});

describe('a node', () => {
    const server = useServer();

    it('has_a_name_of_1_to_255_bytes', async () => {
        const long = 'n'.repeat(256);
        assertError(await server.post('/jobs/claim', { node: long }), 400, 'bad_value', /^node: /);
        assertError(await server.post('/jobs/claim', { node: 7 }), 400, 'wrong_type', /^node: /);
        assertError(await server.get(`/jobs/take?node=${long}`), 400, 'bad_value');
        assertError(await server.get('/jobs/take?node=a&node=b'), 400, 'duplicate_field');
    });

    it('is_that_of_the_report_where_the_two_differ', async () => {
        const queue = queueName();
        await server.enqueue({ queue, retry_limit: 1 });
        const { id } = await server.claimOne(queue, { node: 'n1' });
        assert.equal((await server.runs(id))[0].node, 'n1');
        await server.post(`/jobs/${id}/failure`, { message: 'm', node: 'n9' });
        assert.equal((await server.runs(id))[0].node, 'n9');
    });
});
