// SPDX-License-Identifier: Apache-2.0
'use strict';

// Retry policies about pods, from what happened to a pod to what the server makes of it: conditions,
// exit codes, termination messages, categories; what has none of them goes by defaultAction; and the
// memory that a retry really has.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { pod, useBed } = require('./executor_harness');

const CONDITIONS = ['OOMKilled', 'Evicted', 'Preempted', 'DeadlineExceeded', 'Unschedulable'];
const AT_ONCE = { initialDelay: '0s' };

async function put(bed, kind, path, name, spec) {
    const res = await bed.server.request('PUT', path,
        { apiVersion: 'tenax.dev/v1', kind, metadata: { name }, spec });
    assert.ok(res.status === 200 || res.status === 201, res.text);
}

function policy(bed, name, spec) {
    return put(bed, 'RetryPolicy', `/retry-policies/${name}`, name, spec);
}

async function policiesOn(bed) {
    const res = await bed.server.request('PUT', '/settings/retry', { enabled: true });
    assert.equal(res.status, 200, res.text);
}

// A job whose pods all do that; dead in the end.
async function ends(bed, executor, payload, policies) {
    const { id } = await bed.enqueue(executor, payload, { retry_policies: policies });
    await bed.status(id, 'dead');
    return { id, runs: await bed.server.runs(id) };
}

describe('a rule about a condition', () => {
    const bed = useBed();
    let executor;
    before(async () => {
        await policiesOn(bed);
        for (const condition of CONDITIONS)
            await policy(bed, `on-${condition.toLowerCase()}`, { defaultAction: 'Fail', backoff: AT_ONCE,
                rules: [{ action: 'Retry', onConditions: [condition], retryLimit: 1 }] });
        executor = bed.executor({ args: ['--scheduling-timeout', '4s'] }).start();
    });

    for (const [condition, script] of [
        ['OOMKilled', ['running', 'oom']],
        ['Evicted', ['running', { do: 'evicted', message: 'the node was low on memory' }]],
        ['Preempted', ['running', { do: 'preempted' }]],
        ['DeadlineExceeded', ['running', 'deadline']],
        ['Unschedulable', ['unschedulable', 'pause']],
    ])
        it(`retries_what_is_${condition}_and_only_that`, async () => {
            const name = `on-${condition.toLowerCase()}`;
            const { runs } = await ends(bed, executor, pod(script), [name]);
            assert.deepEqual(runs.map((run) => run.condition), [condition, condition]);
            assert.match(runs[0].reason, new RegExp(`^retry 1 of 1 by rule 1 of policy ${name}`));
            const others = CONDITIONS.filter((one) => one !== condition)
                .map((one) => `on-${one.toLowerCase()}`);
            const once = await ends(bed, executor, pod(script), others);
            assert.equal(once.runs.length, 1, once.runs[0].reason);
        });
});

describe('what a pod leaves', () => {
    const bed = useBed();
    let executor;
    before(async () => {
        await policiesOn(bed);
        executor = bed.executor().start();
    });

    // The first run by that rule is retried, the second is one too many.
    async function matches(rule, payload) {
        const name = `rule-${Math.random().toString(36).slice(2)}`;
        await policy(bed, name, { defaultAction: 'Fail', backoff: AT_ONCE,
            rules: [{ action: 'Retry', retryLimit: 1, ...rule }] });
        const { runs } = await ends(bed, executor, payload, [name]);
        assert.equal(runs.length, 2, runs[0].reason);
        assert.match(runs[0].reason, new RegExp(`by rule 1 of policy ${name}`));
    }

    const two = (script) => pod(script, { spec: {
        initContainers: [{ name: 'fetch', image: 'registry.example/work:1' }],
        containers: [{ name: 'side', image: 'registry.example/work:1' },
            { name: 'main', image: 'registry.example/work:1' }] } });

    it('is_matched_by_the_exit_code_of_a_container_by_name', async () => {
        await matches({ onExitCodes: { operator: 'In', values: [74] }, containerName: 'main' },
            two(['running', { do: 'exited', container: 'side', code: 1 },
                { do: 'exited', container: 'main', code: 74 }]));
    });

    it('is_matched_by_the_exit_code_of_an_init_container', async () => {
        await matches({ onExitCodes: { operator: 'In', values: [75] }, includeInitContainers: true },
            two(['scheduled', { do: 'running', container: 'fetch' },
                { do: 'exited', container: 'fetch', code: 75 }]));
    });

    it('is_matched_by_a_termination_message', async () => {
        await matches({ onTerminationMessage: { pattern: 'no license' } },
            pod(['running', { do: 'exited', code: 1, message: 'there was no license left' }]));
    });

    it('is_matched_by_the_category_that_the_server_finds_from_events_and_errors', async () => {
        await put(bed, 'FailureCategories', '/failure-categories/pods', 'pods', { rules: [
            { category: 'image', onPodError: { pattern: 'ErrImagePull' } }] });
        await matches({ onFailureCategory: ['image'] }, pod(['scheduled',
            { do: 'waiting', reason: 'ErrImagePull', message: 'no such image' }, 'pause']));
    });

    for (const [what, happens, type] of [
        ['whose_node_is_lost', 'nodeLost', 'PodNodeLost'],
        ['that_somebody_deletes', 'deleted', 'PodDeleted'],
    ])
        for (const action of ['Retry', 'Fail'])
            it(`of_a_pod_${what}_goes_by_a_default_action_of_${action}`, async () => {
                const name = `${happens.toLowerCase()}-${action.toLowerCase()}`;
                await policy(bed, name, { defaultAction: action, retryLimit: 3, backoff: AT_ONCE,
                    rules: [{ action: 'Fail', onConditions: CONDITIONS }] });
                const { id } = await bed.enqueue(executor, pod(['running', 'pause']),
                    { retry_policies: [name] });
                await bed.phase(await bed.pod(id, 0, 'Running'), happens);
                if (action === 'Retry') {
                    await bed.phase(await bed.pod(id, 1, 'Running'), 'succeeded');
                    await bed.status(id, 'completed');
                } else {
                    await bed.status(id, 'dead');
                }
                assert.equal((await bed.run(id)).error_type, type);
            });
});

describe('a rule that gives a retry more', () => {
    const bed = useBed();

    it('of_memory_up_to_a_limit_which_later_runs_have_too', async () => {
        await policiesOn(bed);
        await policy(bed, 'more', { backoff: AT_ONCE, rules: [
            { action: 'Retry', onConditions: ['OOMKilled'], retryLimit: 3,
                mutate: { resources: { memory: { factor: 2, max: '320Mi' } } } },
            { action: 'Retry', onConditions: ['Evicted'], retryLimit: 1 }] });
        const executor = bed.executor().start();
        const payload = pod(['running', 'pause'], { spec: { containers: [{ name: 'main',
            image: 'registry.example/work:1', resources: { limits: { cpu: '100m', memory: '128Mi' },
                requests: { cpu: '50m', memory: '64Mi' } } }] } });
        const { id } = await bed.enqueue(executor, payload,
            { retry_policies: ['more'], resources: { memory: '128Mi' } });
        const seen = [];
        for (const [run, happens] of ['oom', 'oom', 'evicted', 'succeeded'].entries()) {
            const p = await bed.pod(id, run, 'Running');
            const { limits, requests } = p.spec.containers[0].resources;
            seen.push([limits.memory, requests.memory, limits.cpu]);
            await bed.phase(p, happens);
        }
        await bed.status(id, 'completed');
        assert.deepEqual(seen, [['128Mi', '64Mi', '100m'], ['256Mi', '128Mi', '100m'],
            ['320Mi', '160Mi', '100m'], ['320Mi', '160Mi', '100m']]);
    });

    it('of_processors_and_memory_by_a_fixed_amount_in_every_container_that_states_them', async () => {
        await policiesOn(bed);
        await policy(bed, 'fixed', { backoff: AT_ONCE, rules: [
            { action: 'Retry', onConditions: ['OOMKilled'], retryLimit: 3, mutate: { resources: {
                memory: { static: '64Mi', max: '1Gi' }, cpu: { factor: 2, max: '300m' } } } }] });
        const executor = bed.executor().start();
        const states = (cpu, memory) => ({ image: 'registry.example/work:1',
            resources: { limits: { cpu, memory } } });
        const payload = pod(['running', 'pause'], { spec: {
            initContainers: [{ name: 'fetch', ...states('50m', '64Mi') }],
            containers: [{ name: 'main', ...states('100m', '128Mi') }, { name: 'side',
                image: 'registry.example/work:1' }] } });
        const { id } = await bed.enqueue(executor, payload,
            { retry_policies: ['fixed'], resources: { memory: '128Mi', cpu: '100m' } });
        const seen = [];
        for (const [run, happens] of ['oom', 'oom', 'succeeded'].entries()) {
            const p = await bed.pod(id, run, 'Running');
            seen.push([...p.spec.initContainers, ...p.spec.containers].map(({ resources: { limits } }) =>
                limits && `${limits.cpu} ${limits.memory}`));
            await bed.phase(p, happens);
        }
        const job = await bed.status(id, 'completed');
        assert.deepEqual(seen, [['50m 64Mi', '100m 128Mi', undefined],
            ['100m 96Mi', '200m 192Mi', undefined], ['150m 128Mi', '300m 256Mi', undefined]]);
        assert.deepEqual(job.resources, { memory: '256Mi', cpu: '300m' });
        assert.match((await bed.run(id)).reason, /memory from 128Mi to 192Mi/);
        await executor.stop();
    });
});
