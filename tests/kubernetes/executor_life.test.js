// SPDX-License-Identifier: Apache-2.0
'use strict';

// The life of pods and leases: cancellations, preemptions, gangs, retries that wait for the end of
// the pod before them, deadlines, limits.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { until } = require('../http/harness');
const { pod, useBed } = require('./executor_harness');

const FOREVER = ['running', 'pause'];
const at = (t) => Date.parse(t);

// A pod that takes a while to end when it is told to.
const slow = (ms, steps = FOREVER) => pod({ steps, onDelete: { after: ms } },
    { spec: { terminationGracePeriodSeconds: 30 } });

async function policy(bed, name, spec) {
    const res = await bed.server.request('PUT', `/retry-policies/${name}`,
        { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name }, spec });
    assert.equal(res.status, 200, res.text);
}

// Records when pods of a job were seen to be alive, to find overlaps.
function watchPods(bed, id) {
    let most = 0;
    const end = bed.observe((pods) => {
        const alive = pods.filter((p) => p.metadata.labels['tenax.dev/job'] === id &&
            !['Succeeded', 'Failed'].includes(p.status.phase));
        most = Math.max(most, alive.length);
    });
    return async () => { await end(); return most; };
}

describe('a pod that is not wanted any more', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });

    it('is_deleted_with_its_grace_period_when_its_job_is_canceled', async () => {
        const { id } = await bed.enqueue(executor, slow(300));
        await bed.pod(id, 0, 'Running');
        await bed.server.post(`/jobs/${id}/cancel`);
        const p = await until(async () => {
            const now = await bed.podOf(id);
            return now?.metadata.deletionTimestamp && now;
        }, 'it is being deleted');
        assert.equal(p.metadata.deletionGracePeriodSeconds, 30);
        await bed.gone(id);
        assert.equal((await bed.run(id)).outcome, 'canceled');
        await executor.says(new RegExp(`${id}: run 0 is over for the server`));
        await executor.says(new RegExp(`pod tenax-${id}-0 is gone`));
    });

    it('also_when_its_job_is_deleted', async () => {
        const { id } = await bed.enqueue(executor, slow(0));
        await bed.pod(id, 0, 'Running');
        await bed.server.delete(`/jobs/${id}`);
        await bed.gone(id);
    });

    it('also_when_it_has_no_node_yet', async () => {
        const { id } = await bed.enqueue(executor, pod(['unschedulable', 'pause']));
        await bed.pod(id, 0, 'Pending');
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id);
    });

    it('is_deleted_after_a_while_when_it_has_ended', async () => {
        const other = bed.executor({ args: ['--keep-finished', '300ms', '--keep-failed', '6s'] })
            .start();
        const good = await bed.enqueue(other, pod(['running', 'succeeded']));
        const bad = await bed.enqueue(other, pod(['running', 'failed']), { retry_limit: 0 });
        await bed.status(good.id, 'completed');
        await bed.status(bad.id, 'dead');
        assert.ok(await bed.podOf(bad.id));
        await bed.gone(good.id);
        const [run] = await bed.server.runs(good.id);
        assert.ok(Date.now() - run.ended_at >= 200);
        await bed.gone(bad.id);
        const [failed] = await bed.server.runs(bad.id);
        assert.ok(Date.now() - failed.ended_at >= 5900);
        await other.stop();
    });
});

describe('a pod that something happens to', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor({ args: ['--scheduling-timeout', '4s'] }).start(); });

    it('that_finds_no_node_in_time_is_unschedulable_and_gone', async () => {
        const { id } = await bed.enqueue(executor, pod(['unschedulable', 'pause']),
            { when_no_policy: 'fail' });
        await bed.status(id, 'dead');
        const run = await bed.run(id);
        assert.equal(run.condition, 'Unschedulable');
        assert.ok(run.ended_at - run.taken_at >= 3900);
        assert.equal(await bed.podOf(id), undefined);
    });

    it('that_pulls_an_image_for_long_is_waited_for', async () => {
        const { id } = await bed.enqueue(executor, pod(['scheduled', 'pulling',
            { do: 'running', after: 1200 }, 'succeeded']), { retry_limit: 0 });
        assert.equal((await bed.status(id, 'completed')).attempts, 0);
    });

    it('that_is_preempted_is_told_of_at_once_and_its_end_later', async () => {
        const { id } = await bed.enqueue(executor, slow(5000), { retry_limit: 3,
            backoff: { base_ms: 1, exponent: 0, jitter_ms: 0 } });
        const p = await bed.pod(id, 0, 'Running');
        const overlaps = watchPods(bed, id);
        await bed.phase(p, 'preempted');
        const job = await bed.status(id, 'scheduled');
        assert.equal(job.grace.run, 0);
        assert.ok(await bed.podOf(id), 'it is still ending');
        const run = await bed.run(id);
        assert.equal(run.condition, 'Preempted');
        assert.ok(run.grace_ends_at - run.ended_at >= 29000);
        // The retry begins when the pod has ended, and not when the grace period is over.
        await bed.pod(id, 1);
        assert.equal(await overlaps(), 1);
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id, 1);
    });

    it('that_is_deleted_by_others_is_a_failure_that_says_so', async () => {
        const { id } = await bed.enqueue(executor, slow(50), { retry_limit: 0 });
        const p = await bed.pod(id, 0, 'Running');
        await bed.phase(p, 'deleted', { grace: 0 });
        const run = await bed.ended(id);
        assert.match(run.message, /deleted/);
        assert.equal(run.error_type, 'PodDeleted');
        assert.equal(run.culprit, 'disruption');
        assert.deepEqual([run.category, run.subcategory], ['internal', 'pod-missing']);
    });

    it('that_is_deleted_by_others_is_no_failure_of_its_own_although_its_node_writes_the_end', async () => {
        const { id } = await bed.enqueue(executor, pod({ steps: FOREVER, onDelete: { code: 143 } }), { retry_limit: 0 });
        const p = await bed.pod(id, 0, 'Running');
        await bed.phase(p, 'deleted', { grace: 30 });
        const run = await bed.ended(id);
        assert.equal(run.error_type, 'PodDeleted');
        assert.equal(run.culprit, 'disruption');
        assert.deepEqual([run.category, run.subcategory], ['internal', 'externally-deleted']);
    });

    it('whose_registry_is_away_waits_for_it', async () => {
        const away = { do: 'waiting', reason: 'ErrImagePull', message: 'unexpected status: 503 Service Unavailable' };
        const { id } = await bed.enqueue(executor, pod(['scheduled', away,
            { do: 'waiting', reason: 'ImagePullBackOff', message: 'Back-off pulling image' }, 'running', 'succeeded']),
        { retry_limit: 0 });
        await bed.status(id, 'completed');
        assert.equal((await bed.server.runs(id)).length, 1);
        const hasty = bed.executor({ args: ['--image-patience', '200ms'] }).start();
        const other = await bed.enqueue(hasty, pod(['scheduled', away, 'pause']), { retry_limit: 0 });
        const run = await bed.ended(other.id);
        assert.equal(run.error_type, 'PodStartFailed');
        assert.equal(run.culprit, 'dependency');
        await hasty.stop();
    });

    it('whose_node_refuses_it_has_that_node_as_its_culprit', async () => {
        const { id } = await bed.enqueue(executor, pod(['scheduled',
            { do: 'rejected', reason: 'OutOfcpu', message: 'Node has no cpu' }]), { retry_limit: 0 });
        const run = await bed.ended(id);
        assert.equal(run.culprit, 'node');
        assert.match(run.pod_error, /^OutOfcpu/);
    });

    it('whose_node_is_lost_is_a_failure_that_names_the_node', async () => {
        const { id } = await bed.enqueue(executor, pod(FOREVER), { retry_limit: 0 });
        const p = await bed.pod(id, 0, 'Running');
        await bed.phase(p, 'nodeLost');
        const run = await bed.ended(id);
        assert.equal(run.culprit, 'node');
        assert.equal(run.error_type, 'PodNodeLost');
        assert.match(run.message, new RegExp(p.spec.nodeName));
    });
});

describe('a retry', () => {
    const bed = useBed();
    let executor;
    const now = { base_ms: 1, exponent: 0, jitter_ms: 0 };
    const fails = { steps: ['running', { do: 'exited', code: 1 }] };

    before(() => { executor = bed.executor().start(); });

    it('has_the_same_name_while_policies_are_off_and_the_old_pod_is_deleted_first', async () => {
        const { id } = await bed.enqueue(executor, pod(fails), { retry_limit: 2, backoff: now });
        const names = new Set();
        const end = bed.observe((pods) => {
            for (const p of pods)
                if (p.metadata.labels['tenax.dev/job'] === id)
                    names.add(p.metadata.name);
        });
        await bed.status(id, 'dead');
        await end();
        assert.deepEqual([...names], [`tenax-${id}-0`]);
        assert.equal((await bed.server.runs(id)).length, 3);
        assert.equal((await bed.podOf(id, 2)).metadata.name, `tenax-${id}-0`);
    });

    it('waits_until_a_pod_that_cannot_start_is_gone', async () => {
        const { id } = await bed.enqueue(executor, pod({ steps: ['scheduled', 'running',
            { do: 'waiting', reason: 'CrashLoopBackOff' }], onDelete: { after: 300 } },
            { spec: { terminationGracePeriodSeconds: 30 } }), { retry_limit: 1, backoff: now });
        const overlaps = watchPods(bed, id);
        await bed.status(id, 'dead');
        assert.equal(await overlaps(), 1);
        assert.equal((await bed.server.runs(id)).length, 2);
    });

    it('is_numbered_while_policies_are_on', async () => {
        await bed.server.request('PUT', '/settings/retry', { enabled: true });
        await policy(bed, 'twice', { retryLimit: 2, defaultAction: 'Retry',
            backoff: { initialDelay: '0s' }, rules: [{ action: 'Retry',
                onExitCodes: { operator: 'In', values: [1] } }] });
        const { id } = await bed.enqueue(executor, pod(fails), { retry_policies: ['twice'] });
        await bed.status(id, 'dead');
        await bed.server.request('PUT', '/settings/retry', { enabled: false });
        const names = (await bed.podsOf(id)).map((p) => p.metadata.name).sort();
        assert.deepEqual(names, [`tenax-${id}-0`, `tenax-${id}-0-1`, `tenax-${id}-0-2`]);
    });

    it('waits_until_the_pod_that_another_executor_left_is_gone', async () => {
        const first = bed.executor({ queue: 'left', args: ['--name', 'first', '--lease', '5s'] })
            .start();
        const { id } = await bed.enqueue(first, slow(200), { retry_limit: 3, backoff: now });
        await bed.pod(id, 0, 'Running');
        await first.kill();
        const overlaps = watchPods(bed, id);
        const second = bed.executor({ queue: 'left', args: ['--name', 'second'] }).start();
        await bed.pod(id, 1, 'Running');
        assert.equal(await overlaps(), 1);
        assert.equal((await bed.podOf(id, 1)).metadata.labels['tenax.dev/executor'], 'second');
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id, 1);
        await second.stop();
    });
});

describe('a gang', () => {
    const bed = useBed();

    it('starts_and_ends_together', async () => {
        const executor = bed.executor().start();
        const gang = { id: 'train', cardinality: 3 };
        const ids = [];
        for (let i = 0; i < 3; i++) {
            const { id } = await bed.enqueue(executor, slow(0), { gang, retry_limit: 5,
                backoff: { base_ms: 1, exponent: 0, jitter_ms: 0 } });
            ids.push(id);
            if (i < 2)
                assert.equal((await bed.pods()).length, 0);
        }
        for (const id of ids)
            await bed.pod(id, 0, 'Running');
        const created = [];
        for (const id of ids)
            created.push(at((await bed.podOf(id)).metadata.creationTimestamp));
        assert.ok(Math.max(...created) - Math.min(...created) <= 20000);
        // One fails: the pods of the others go, and all come back.
        await bed.phase(await bed.podOf(ids[0]), 'failed', { code: 9 });
        for (const id of ids)
            await bed.pod(id, 1, 'Running');
        for (const id of ids.slice(1)) {
            assert.equal(await bed.podOf(id, 0), undefined);
            assert.equal((await bed.run(id)).outcome, 'gang-retried');
        }
        for (const id of ids)
            await bed.server.post(`/jobs/${id}/cancel`);
        for (const id of ids)
            await bed.gone(id, 1);
    });
});

describe('a limit', () => {
    const bed = useBed();

    const alive = async (queue) => (await bed.pods()).filter((p) =>
        p.metadata.annotations['tenax.dev/queue'] === queue).length;

    it('of_pods_is_kept', async () => {
        const executor = bed.executor({ args: ['--max-pods', '2', '--keep-finished', '0s'] })
            .start();
        const jobs = [];
        for (let i = 0; i < 6; i++)
            jobs.push(await bed.enqueue(executor, pod(['running', { do: 'succeeded', after: 150 }])));
        let most = 0;
        const end = bed.observe((pods) => { most = Math.max(most, pods.filter((p) =>
            p.status.phase === 'Running' || p.status.phase === 'Pending').length); });
        for (const { id } of jobs)
            await bed.status(id, 'completed');
        await end();
        assert.equal(most, 2);
        await executor.stop();
    });

    it('of_a_queue_does_not_hold_up_others', async () => {
        const executor = bed.executor({ queue: 'wide', args: ['--queue', 'narrow',
            '--queue-limit', 'narrow=1'] }).start();
        for (let i = 0; i < 3; i++)
            await bed.enqueue({ queue: 'narrow' }, pod(FOREVER));
        const { id } = await bed.enqueue(executor, pod(['running', 'succeeded']));
        await bed.status(id, 'completed');
        assert.equal(await alive('narrow'), 1);
        await bed.server.post('/jobs/cancel?queue=narrow');
        await until(async () => await alive('narrow') === 0, 'canceled');
        await executor.stop();
    });

    // Pods state 100m and 64Mi.
    for (const [what, args] of [['memory', ['--max-memory', '128Mi']], ['processors', ['--max-cpu', '0.2']]])
        it(`of_${what}_leases_no_more_than_fits`, async () => {
            const executor = bed.executor({ args: [...args, '--keep-finished', '0s'] }).start();
            const jobs = [];
            for (let i = 0; i < 5; i++)
                jobs.push(await bed.enqueue(executor, pod(['running', { do: 'succeeded', after: 100 }])));
            let most = 0;
            const end = bed.observe((pods) => { most = Math.max(most, pods.filter((p) =>
                p.status.phase === 'Running' || p.status.phase === 'Pending').length); });
            for (const { id } of jobs)
                assert.equal((await bed.status(id, 'completed')).attempts, 0);
            await end();
            assert.equal(most, 2);
            await executor.stop();
        });
});

describe('a node that a retry is to stay off', () => {
    const bed = useBed({ cluster: { nodes: 1 } });

    it('is_taken_after_all_when_no_other_fits_and_it_says_so', async () => {
        const executor = bed.executor().start();
        await bed.server.request('PUT', '/settings/retry', { enabled: true });
        await policy(bed, 'elsewhere', { rules: [{ action: 'Retry', retryLimit: 1,
            onExitCodes: { operator: 'In', values: [1] }, backoff: { initialDelay: '0s' },
            antiAffinity: { mode: 'node' } }] });
        const { id } = await bed.enqueue(executor, pod({ steps: ['running', { do: 'exited', code: 1 }] }),
            { retry_policies: ['elsewhere'] });
        const first = await bed.pod(id, 1);
        assert.match(first.metadata.annotations['tenax.dev/avoid-node'], / \(required\)$/);
        await executor.says(/no node fits but the one/);
        await bed.status(id, 'dead');
        const second = await bed.podOf(id, 1);
        assert.notEqual(second.metadata.uid, first.metadata.uid);
        assert.match(second.metadata.annotations['tenax.dev/avoid-node'], / \(preferred\)$/);
        assert.equal((await bed.server.runs(id)).length, 2);
    });
});
