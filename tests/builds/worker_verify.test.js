// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker`, the retry queue: each box of seed 000's verification.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { until, useBed } = require('./harness.js');

const bed = useBed();
const IMAGE = /^Build failed to start\. Please check if your image is valid\./;
const ADMIN = /^Build failed to start\. Please reach out to your cluster admin for help\./;

test('no node in time: the build fails, and its pod is deleted', () => bed.with({}, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    const began = Date.now();
    await site.start(build);
    await site.fails(build, /^Pod scheduling timeout exceeded$/);
    assert.ok(build.updates.at(-1).at - began >= 900, 'not before the time limit');
    await site.podGone(build);
    await site.empty();
    // Waiting has a fixed delay.
    assert.ok(worker.delays(build.id).length >= 2);
    assert.ok(worker.delays(build.id).every((ms) => ms === 150), worker.log);
}));

test('a node before the time is over: the build goes on', () => bed.with(
    { SCHEDULING_TIMEOUT: '1h', VERIFY_LIMIT: '1000' },
    async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'unschedulable' }]);
        await site.start(build);
        await until('it was looked at three times', () => worker.delays(build.id).length >= 3);
        bed.double.phase('default', site.pods(build)[0].metadata.name, 'running');
        await site.runs(build);
        await site.empty();
        assert.deepEqual(build.finals, []);
    }));

test('a slow pull has no deadline, but growing delays', () => bed.with(
    { VERIFY_DELAY: '100ms', SCHEDULING_TIMEOUT: '1ms' },
    async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'pulling' }]);
        await site.start(build);
        await until('it was looked at four times', () => worker.delays(build.id).length >= 4);
        bed.double.phase('default', site.pods(build)[0].metadata.name, 'running');
        await site.runs(build);
        await site.empty();
        assert.deepEqual(worker.delays(build.id).slice(0, 4), [100, 150, 200, 250]);
        assert.deepEqual(build.finals, []);
    }));

test('after so many looks the build fails', () => bed.with({ VERIFY_LIMIT: '2' }, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'pulling' }]);
    await site.start(build);
    await site.fails(build, /not ready in time/);
    await site.empty();
    assert.equal(worker.delays(build.id).length, 2);
}));

for (const [reason, words] of [
    ['ErrImagePull', IMAGE], ['ImagePullBackOff', IMAGE], ['InvalidImageName', IMAGE],
    ['CrashLoopBackOff', ADMIN], ['CreateContainerError', ADMIN], ['CreateContainerConfigError', ADMIN],
    ['StartError', ADMIN],
])
    test(`${reason} fails at the first look`, () => bed.with({}, async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'waiting', reason, message: 'in its own words' }]);
        await site.start(build);
        await site.fails(build, words);
        assert.ok(build.statusMessage.includes(reason), build.statusMessage);
        await site.empty();
        assert.equal(await worker.metric('verifies_total'), 1);
        assert.equal(await worker.metric('builds_failed_total'), 1);
    }));

test('a pod that has failed fails the build; one that has succeeded is done', () => bed.with({}, async (site) => {
    site.worker();
    const [bad, good, unknown] = [site.build([{ do: 'failed', code: 3 }]), site.build([{ do: 'succeeded' }]),
        site.build([{ do: 'running' }, { do: 'status', status: { phase: 'Unknown' } }])];
    for (const build of [bad, good, unknown])
        await site.start(build);
    await site.fails(bad, /^Build failed to start/);
    await site.fails(unknown, /^Build failed to start/);
    await site.runs(good);
    assert.deepEqual(good.finals, []);
    await site.empty();
}));

test('a build whose pod is gone before it ran fails', () => bed.with({ VERIFY_DELAY: '300ms' }, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'running' }]);
    await site.start(build);
    await site.podThere(build);
    bed.double.request('DELETE', `/api/v1/namespaces/default/pods/${site.pods(build)[0].metadata.name}` +
        '?gracePeriodSeconds=0');
    await worker.says(/fails: .*its pod is gone/);
    await site.empty();
    assert.deepEqual(build.updates.filter((update) => update.body.status).map((update) => update.body.status),
        ['FAILURE']);
}));

test('a build that was stopped meanwhile needs nothing', () => bed.with({ VERIFY_DELAY: '2s' }, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    await site.start(build);
    await site.podThere(build);
    await site.stop(build);
    await worker.says(/has no pod any more/);
    await site.empty();
    assert.deepEqual(build.updates.filter((update) => update.body.status), []);
}));

test('errors of the API: looked at again, up to the limit', () => bed.with({ RABBITMQ_MSG_REPROCESS_LIMIT: '2' },
    async (site) => {
        const worker = site.worker();
        const [build, lost] = [site.build([{ do: 'running' }]), site.build([{ do: 'running' }])];
        bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 2, status: 500 });
        await site.start(build);
        await site.runs(build);
        await site.empty();
        assert.deepEqual(build.finals, []);
        bed.double.requests({ clear: true });
        bed.double.fault({ match: { verb: 'list', resource: 'pods' }, status: 500, message: 'no leader' });
        await site.start(lost);
        await site.fails(lost, /Failed to get pod status.*500.*no leader/);
        await site.empty();
        assert.equal(bed.double.requests()['list pods 500'], 3);
        assert.ok(await worker.metric('retries_total') >= 4);
    }));

test('a connection to the API that breaks is an error of the API', () => bed.with({}, async (site) => {
    site.worker();
    const build = site.build([{ do: 'running' }]);
    bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 1, drop: true });
    bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 1, half: true });
    await site.start(build);
    await site.runs(build);
    await site.empty();
}));

test('verify messages of the original, without headers, are looked at', () => bed.with({ VERIFY_DELAY: '1h' },
    async (site) => {
        site.worker();
        const build = site.build([{ do: 'running' }]);
        await site.start(build);
        await site.podThere(build);
        await bed.publisher.publish('build', site.retry,
            JSON.stringify({ job: 'verify', buildConfig: site.config(build) }));
        await site.runs(build);
    }));

test('a slow one does not hold up those behind it, with a wait queue for each delay', () => bed.with(
    { VERIFY_DELAY: '100ms', VERIFY_STEP: '30s', VERIFY_LIMIT: '100' }, async (site) => {
        const worker = site.worker({ args: ['--wait-queues'] });
        const slow = site.build([{ do: 'pulling' }]);
        await site.start(slow);
        await until('it waits for long', () => worker.delays(slow.id).length === 2);
        assert.deepEqual(worker.delays(slow.id), [100, 30100]);
        for (let i = 0; i < 5; i++) {
            const quick = site.build([{ do: 'running' }]);
            await site.start(quick);
            await site.runs(quick);
        }
        assert.equal(slow.stats.hostname, undefined);
        await site.stop(slow);
        await site.podGone(slow);
    }));
