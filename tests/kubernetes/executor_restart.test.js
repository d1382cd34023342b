// SPDX-License-Identifier: Apache-2.0
'use strict';

// Executors and servers that go away, in good order and by SIGKILL, at every moment: no pod twice,
// no pod orphaned, no job lost, and no report either.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { ownAddress, until } = require('../http/harness');
const { pod, useBed } = require('./executor_harness');

const FOREVER = ['running', 'pause'];
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The server comes back where it was.
const options = { server: { args: ['--host', ownAddress()] } };

async function restartServer(bed) {
    await bed.server.signal('SIGKILL');
    await bed.server.start({ args: [...bed.server.args, '--port', String(bed.server.port)] });
}

describe('a restarted executor', () => {
    const bed = useBed(options);

    it('takes_its_pods_over_also_with_other_limits', async () => {
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(FOREVER));
        const before = await bed.pod(id, 0, 'Running');
        await executor.stop();
        assert.ok(await bed.podOf(id), 'the pod goes on');
        const run = await bed.run(id);
        executor.start({ args: ['--max-pods', '7', '--keep-failed', '1h'] });
        // Its lease is renewed.
        await until(async () => (await bed.run(id)).lease_expires_at > run.lease_expires_at, 'renewed');
        await bed.phase(before, 'succeeded');
        const job = await bed.status(id, 'completed');
        assert.equal(job.attempts, 0);
        assert.equal((await bed.server.runs(id)).length, 1);
        assert.equal((await bed.podOf(id)).metadata.uid, before.metadata.uid);
        await executor.stop();
    });

    it('reports_a_pod_that_ended_while_it_was_away', async () => {
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(FOREVER), { retry_limit: 0 });
        const { metadata } = await bed.pod(id, 0, 'Running');
        await executor.kill();
        await bed.phase({ metadata }, 'failed', { code: 4 });
        executor.start();
        await bed.status(id, 'dead');
        assert.equal((await bed.run(id)).exit_code, 4);
        await executor.stop();
    });

    it('does_not_create_a_pod_again_that_was_deleted_while_it_was_away', async () => {
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(FOREVER), { retry_limit: 0 });
        const { metadata } = await bed.pod(id, 0, 'Running');
        await bed.server.get('/health');
        await until(async () => /^running/.test((await bed.server.job(id)).progress?.note), 'running');
        await executor.written(new RegExp(`"pod"[^\n]*${id}`));
        await executor.kill();
        await bed.phase({ metadata }, 'deleted', { grace: 0, force: true });
        await bed.gone(id);
        executor.start();
        const run = await bed.ended(id);
        assert.equal(run.error_type, 'PodDeleted');
        assert.equal(await bed.podOf(id, 0), undefined);
        await executor.stop();
    });

    it('deletes_the_pod_of_a_job_that_was_canceled_while_it_was_away', async () => {
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(FOREVER));
        await bed.pod(id, 0, 'Running');
        await executor.kill();
        await bed.server.post(`/jobs/${id}/cancel`);
        executor.start();
        await bed.gone(id);
        await executor.stop();
    });

    it('refuses_to_run_twice_at_once', async () => {
        const executor = bed.executor().start();
        await executor.says(/runs jobs of/);
        const second = bed.executor({ queue: executor.queue, dir: executor.dir }).start();
        const end = await second.ended;
        assert.equal(end.code, 1);
        assert.match(second.stderr, /another process with these flags is running/);
        await executor.stop();
    });
});

describe('a server that is away', () => {
    const bed = useBed(options);

    it('is_told_of_the_phases_that_it_has_missed', async () => {
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(['unschedulable', 'pause']));
        await until(async () =>
            /^waiting/.test((await bed.server.job(id)).progress?.note), 'waiting');
        await bed.server.signal('SIGKILL');
        await bed.phase(await bed.podOf(id), 'creating');
        await bed.phase(await bed.podOf(id), 'running');
        await executor.says(/pods go on/);
        await bed.server.start({ args: [...bed.server.args, '--port', String(bed.server.port)] });
        await until(async () =>
            /^running/.test((await bed.server.job(id)).progress?.note), 'running');
        const events = await bed.server.history(`&job=${id}&event=job_progress`);
        assert.deepEqual([...new Set(events.map((e) => e.reason.split(':')[0]))],
            ['waiting', 'initializing', 'running']);
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id);
        await executor.stop();
    });

    it('leaves_pods_alone_and_gets_its_reports_later', async () => {
        const executor = bed.executor().start();
        const good = await bed.enqueue(executor, pod(FOREVER));
        const bad = await bed.enqueue(executor, pod(FOREVER), { retry_limit: 0 });
        const goodPod = await bed.pod(good.id, 0, 'Running');
        const badPod = await bed.pod(bad.id, 0, 'Running');
        await bed.server.signal('SIGKILL');
        await bed.phase(goodPod, 'succeeded');
        await bed.phase(badPod, 'failed', { code: 5 });
        await executor.says(/pods go on/);
        // The reports survive the executor, and the pods.
        for (const { id } of [good, bad])
            await executor.written(new RegExp(`"report"[^\n]*${id}`));
        await executor.kill();
        for (const p of [goodPod, badPod])
            await bed.phase(p, 'deleted', { grace: 0, force: true });
        executor.start();
        await executor.says(/pods go on[^]*pods go on/);
        await bed.server.start({ args: [...bed.server.args, '--port', String(bed.server.port)] });
        assert.equal((await bed.status(good.id, 'completed')).attempts, 0);
        await bed.status(bad.id, 'dead');
        assert.equal((await bed.run(bad.id)).exit_code, 5);
        await executor.stop();
    });
});

describe('executor and server that are killed at any moment', () => {
    const bed = useBed({ ...options, cluster: { history: 100000 } });

    it('create_no_pod_twice_and_lose_no_job', async () => {
        const executor = bed.executor({ args: ['--max-pods', '8', '--keep-finished', '200ms'] })
            .start();
        const jobs = 60;
        const ids = [];
        for (let i = 0; i < jobs; i++) {
            const { id } = await bed.enqueue(executor,
                pod(['running', { do: 'succeeded', after: 20 + (i * 37) % 200 }]));
            ids.push(id);
        }
        const uids = new Map();
        const end = bed.observe((pods) => {
            for (const p of pods)
                uids.set(p.metadata.uid, p.metadata.labels['tenax.dev/job']);
        });
        for (let kill = 0; kill < 14; kill++) {
            await wait(40 + (kill * 97) % 260);
            if (kill % 4 === 3) {
                await restartServer(bed);
            } else {
                await executor.kill();
                executor.start();
            }
        }
        for (const id of ids) {
            const job = await bed.status(id, 'completed');
            assert.equal(job.attempts, 0);
            // The server takes back what it hands to an executor that has just died.
            const outcomes = (await bed.server.runs(id)).map((r) => r.outcome);
            assert.deepEqual(outcomes.filter((word) => word !== 'returned'), ['completed']);
        }
        await end();
        if (bed.double)
            assert.equal(bed.double.requests()['create pods 201'], jobs);
        assert.ok(uids.size <= jobs);
        assert.equal(new Set(uids.values()).size, uids.size);
        // What has ended is cleared away.
        await until(async () => (await bed.pods()).length === 0, 'all pods are gone');
        await executor.stop();
    });
});
