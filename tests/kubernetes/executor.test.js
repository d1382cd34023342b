// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax executor`: jobs as pods, from the job to the run that says what happened.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { run, until } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');

describe('a job becomes a pod', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });

    it('that_succeeds', async () => {
        const { id } = await bed.enqueue(executor, pod(['running', { do: 'succeeded', after: 50 }]));
        const job = await bed.status(id, 'completed');
        assert.equal(job.attempts, 0);
        const p = await bed.podOf(id);
        assert.equal(p.metadata.name, `tenax-${id}-0`);
        assert.equal(p.spec.restartPolicy, 'Never');
        assert.equal(p.metadata.labels['tenax.dev/run'], '0');
        const run = await bed.run(id);
        assert.equal(run.outcome, 'completed');
        assert.match(run.worker, /^executor-[0-9a-f]{16}$/);
        assert.equal(p.metadata.labels['tenax.dev/executor'], run.worker);
    });

    // The watch tells of some of these before their creation is answered.
    it('also_if_it_ends_at_once', async () => {
        const jobs = [];
        for (let i = 0; i < 40; i++)
            jobs.push(await bed.enqueue(executor, pod(['running', 'succeeded'])));
        for (const { id } of jobs)
            assert.equal((await bed.status(id, 'completed')).attempts, 0);
    });

    it('that_fails_with_an_exit_code_a_node_and_its_log', async () => {
        const { id } = await bed.enqueue(executor, pod({
            steps: ['running', { do: 'log', text: 'one\ntwo\nthe disk is full\n' },
                { do: 'exited', code: 3, message: 'out of disk' }] }), { retry_limit: 0 });
        await bed.status(id, 'dead');
        const run = await bed.run(id);
        assert.equal(run.outcome, 'failed');
        assert.equal(run.exit_code, 3);
        assert.ok(bed.cluster.nodes.includes(run.node), run.node);
        assert.match(run.message, /main/);
        assert.deepEqual(run.containers.map((c) => [c.name, c.init, c.exit_code, c.message]),
            [['main', false, 3, 'out of disk']]);
    });

    it('whose_log_is_kept_without_its_secrets', { skip: onlyDouble }, async () => {
        const payload = pod({ steps: ['running', { do: 'log', text: 'one\nlogin with hunter2-hunter2\n' },
            { do: 'exited', code: 3 }] });
        payload.podSpec.containers[0].env = [{ name: 'DB_PASSWORD', value: 'hunter2-hunter2' }];
        const { id } = await bed.enqueue(executor, payload, { retry_limit: 0 });
        await bed.status(id, 'dead');
        const res = await bed.server.get(`/jobs/${id}/errors/1`);
        assert.equal(res.json.containers[0].log, 'one\nlogin with ***\n');
    });

    it('that_runs_out_of_memory', async () => {
        const { id } = await bed.enqueue(executor, pod(['running', 'oom']), { retry_limit: 0 });
        await bed.status(id, 'dead');
        const run = await bed.run(id);
        assert.equal(run.condition, 'OOMKilled');
        assert.equal(run.exit_code, 137);
    });

    it('that_is_evicted', async () => {
        const { id } = await bed.enqueue(executor, pod(['running', 'evicted']),
            { when_no_policy: 'fail' });
        await bed.status(id, 'dead');
        assert.equal((await bed.run(id)).condition, 'Evicted');
    });

    it('whose_image_cannot_be_pulled_fails_fast_and_is_gone_before_the_failure_is_told', async () => {
        const { id } = await bed.enqueue(executor,
            pod(['scheduled', 'pulling', { do: 'waiting', reason: 'ErrImagePull' }]),
            { retry_limit: 0 });
        await bed.status(id, 'dead');
        const run = await bed.run(id);
        assert.match(run.pod_error, /ErrImagePull/);
        assert.match(run.message, /check your image/);
        assert.equal(await bed.podOf(id), undefined);
    });

    it('whose_phase_is_the_progress_of_the_job', async () => {
        const { id } = await bed.enqueue(executor,
            pod(['unschedulable', { do: 'pause' }]));
        const explained = async () => (await bed.server.get(`/jobs/${id}/explain`)).json;
        await until(async () =>
            /^waiting/.test((await bed.server.job(id)).progress?.note), 'waiting');
        await until(async () => /^waiting: .*nodes?/.test((await explained()).progress?.note), 'why');
        assert.match((await explained()).summary, /; it says: waiting: /);
        await bed.phase(await bed.podOf(id), 'creating');
        await until(async () =>
            /^initializing: .*on node /.test((await explained()).progress?.note), 'initializing');
        await bed.phase(await bed.podOf(id), 'running');
        await until(async () =>
            /^running: on node /.test((await bed.server.job(id)).progress?.note), 'running');
        const { stdout } = await run(['explain', id], { TENAX_URL: bed.server.url() });
        assert.match(stdout, /^progress +running: on node \S+$/m);
        const events = await bed.server.history(`&job=${id}&event=job_progress`);
        const phases = events.map((e) => e.reason.split(':')[0]);
        assert.deepEqual([...new Set(phases)], ['waiting', 'initializing', 'running']);
        for (const e of events)
            assert.deepEqual([e.to, e.run, e.worker], ['in_flight', 0, (await bed.run(id)).worker]);
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id);
    });

    it('each_phase_of_which_is_told_however_quickly_they_follow', async () => {
        const { id } = await bed.enqueue(executor, pod(['running', 'pause']));
        await until(async () =>
            /^running/.test((await bed.server.job(id)).progress?.note), 'running');
        const events = await bed.server.history(`&job=${id}&event=job_progress`);
        assert.equal(events.at(-1).reason.split(':')[0], 'running');
        assert.equal(events[0].reason.split(':')[0], 'waiting');
        await bed.server.post(`/jobs/${id}/cancel`);
        await bed.gone(id);
    });
});
