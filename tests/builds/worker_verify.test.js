// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker`, the retry queue: each box of seed 000's verification.

const assert = require('node:assert/strict');
const { after, test } = require('node:test');
const { Client, killAll } = require('./broker_harness.js');
const { until, useBed } = require('./harness.js');

const bed = useBed();
after(killAll);
const IMAGE = /^Build failed to start\. Please check if your image is valid\./;
const ADMIN = /^Build failed to start\. Please reach out to your cluster admin for help\./;

// What lies in the wait queue: {body, looks, started, expires}.
async function waiting(client, n) {
    const [line] = (await client.saw(`delivered ${n} `)).slice(-1);
    const [headers] = (await client.saw(`headers ${n} `)).slice(-1);
    const match = /x-build-start-time:l=(\d+) x-retry-count:I=(\d+) mode=2 type=application\/json expires=(\d+)$/
        .exec(headers);
    assert.ok(match, headers);
    return { body: JSON.parse(line.slice(line.indexOf('{'))), started: Number(match[1]), looks: Number(match[2]),
        expires: Number(match[3]) };
}

test('the times are seed 000\'s unless they are set', () => bed.with(
    { VERIFY_DELAY: '', VERIFY_STEP: '', SCHEDULING_TIMEOUT: '', RABBITMQ_RETRYQUEUE: 'unset-times' }, async (site) => {
        const client = new Client(bed.broker.port, ['unset-times-wait']);
        await site.worker().well();
        const slow = site.build([{ do: 'pulling' }]);
        const began = Date.now();
        await site.start(slow);
        const first = await waiting(client, 1);
        assert.deepEqual(first.body, { job: 'verify', buildConfig: site.config(slow) });
        assert.deepEqual([first.looks, first.expires], [0, 30000]);
        assert.ok(first.started >= began && first.started <= Date.now(), `${began} ${first.started}`);
        const stuck = site.build([{ do: 'unschedulable' }]);
        await site.start(stuck);
        assert.deepEqual((await waiting(client, 2)).expires, 30000);
        // What the wait queue hands over: the looks grow, and the time of the start stays.
        const look = (build, looks, started) => client.post('build', 'unset-times',
            JSON.stringify({ job: 'verify', buildConfig: site.config(build) }),
            `x-build-start-time:l=${started},x-retry-count:l=${looks}`);
        let n = 2;
        for (const [looks, expires] of [[0, 30000], [1, 40000], [5, 80000]]) {
            await look(slow, looks, began - 3600000);
            const next = await waiting(client, ++n);
            assert.deepEqual([next.looks, next.expires, next.started], [looks + 1, expires, began - 3600000]);
        }
        await look(stuck, 5, Date.now() - 120000);
        const next = await waiting(client, ++n);
        assert.deepEqual([next.looks, next.expires], [6, 30000]);
        await look(stuck, 1, Date.now() - 180000);
        await site.fails(stuck, /^Pod scheduling timeout exceeded$/);
        await look(slow, 6, began);
        await site.fails(slow, /not ready in time/);
        await client.close();
    }));

test('no node in time: the build fails, and its pod is deleted', () => bed.with({ SCHEDULING_TIMEOUT: '4s',
    VERIFY_LIMIT: '1000' }, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    const began = Date.now();
    await site.start(build);
    await site.fails(build, /^Pod scheduling timeout exceeded$/);
    assert.ok(build.updates.at(-1).at - began >= 4000, 'not before the time limit');
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

test('a build whose pod is gone before it ran fails', () => bed.with({ VERIFY_DELAY: '4s' }, async (site) => {
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

test('a build that was stopped meanwhile needs nothing', () => bed.with({ VERIFY_DELAY: '2s',
    SCHEDULING_TIMEOUT: '1h' }, async (site) => {
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
