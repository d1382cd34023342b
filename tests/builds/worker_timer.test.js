// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker --verification timer`: each box of seed 001's diagram.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { until, useBed } = require('./harness.js');

const bed = useBed();
const SOON = '0.012'; // minutes
const ENV = { VERIFICATION: 'timer', RABBITMQ_BUILD_INIT_TIMEOUT: SOON, SCHEDULING_TIMEOUT: '1h' };
const DELAYED = 'Build initialization delayed';

test('a pod that runs when its timer fires is not called delayed', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'running' }]);
    await site.start(build);
    await site.runs(build);
    await until('its timer has fired, and is gone', async () => await worker.metric('timers_fired_total') === 1 &&
        await worker.metric('timers') === 0);
    await site.empty();
    assert.ok(!build.messages.includes(DELAYED));
    assert.deepEqual(build.finals, []);
}));

test('a pod without a node is called delayed, and still healthy', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    await site.start(build);
    await until('it is called delayed', () => build.messages.includes(DELAYED));
    await until('it was verified', async () => await worker.metric('verifies_total') >= 1);
    await site.stop(build);
    await site.podGone(build);
    await site.empty();
    assert.deepEqual(build.finals, []);
}));

test('a pod that is being initialized counts as healthy', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'pulling' }]);
    await site.start(build);
    await until('it was verified', async () => await worker.metric('verifies_total') >= 1);
    await until('the message is acknowledged', async () => (await site.counts())[site.retry] === 0);
    assert.deepEqual(build.finals, []);
    assert.ok(build.messages.includes(DELAYED));
    bed.double.phase('default', site.pods(build)[0].metadata.name, 'running');
    await site.runs(build);
    await site.empty();
}));

for (const reason of ['ErrImagePull', 'CrashLoopBackOff'])
    test(`${reason} when the timer fires ends the build`, () => bed.with(ENV, async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'pulling' }, { do: 'waiting', after: 300, reason, message: 'no' }]);
        await site.start(build);
        await site.fails(build, new RegExp(reason));
        await site.empty();
        assert.equal(await worker.metric('timers'), 0);
        assert.ok(build.messages.indexOf(DELAYED) < build.messages.length - 1);
    }));

test('a pod that fails at once is verified at once', () => bed.with({ ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '60' },
    async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'failed', code: 1 }]);
        // The worker's first look comes after the pod has failed.
        bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 1, delay: 500 });
        await site.start(build);
        await site.fails(build, /^Build failed to start/);
        await site.empty();
        assert.equal(await worker.metric('timers'), 0);
    }));

test('an API that fails: five more tries, then FAILURE', () => bed.with({ ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '60',
    RABBITMQ_MSG_REPROCESS_LIMIT: '5' }, async (site) => {
    const worker = site.worker();
    const [build, lucky] = [site.build([{ do: 'running' }]), site.build([{ do: 'running' }])];
    bed.double.requests({ clear: true });
    bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 6, status: 503 });
    await site.start(build);
    await site.fails(build, /Failed to create pod.*503/);
    assert.equal(bed.double.requests()['create pods 503'], 6);
    bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 5, status: 503 });
    await site.start(lucky);
    await site.podThere(lucky);
    await until('one timer is left, of the build that has a pod', async () => await worker.metric('timers') === 1);
    await site.empty();
    assert.deepEqual(lucky.finals, []);
}));

test('verification that finds no API is tried again, then fails', () => bed.with(
    { ...ENV, RABBITMQ_MSG_REPROCESS_LIMIT: '2' },
    async (site) => {
        site.worker();
        const build = site.build([{ do: 'pulling' }]);
        // The looks after the creation and at the timer's time are answered.
        bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 2, delay: 1 });
        bed.double.fault({ match: { verb: 'list', resource: 'pods' }, status: 500 });
        await site.start(build);
        await site.fails(build, /Failed to get pod status.*500/);
        await site.empty();
    }));

test('a stop before the timer fires: nothing more is told', () => bed.with(
    { ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '0.1' },
    async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'unschedulable' }]);
        await site.start(build);
        await site.podThere(build);
        await site.stop(build);
        await site.podGone(build);
        await until('no timer is left', async () => await worker.metric('timers') === 0);
        await site.empty();
        assert.ok(!build.messages.includes(DELAYED));
    }));

test('timers survive a worker that is killed', () => bed.with({ ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '0.15' },
    async (site) => {
        const builds = [];
        const worker = site.worker();
        for (let i = 0; i < 5; i++) {
            builds.push(site.build([{ do: 'pulling' }]));
            await site.start(builds[i]);
        }
        await until('all timers are set', async () => await worker.metric('timers') === 5 &&
            (await site.counts())[site.queue] === 0);
        await worker.kill();
        const next = site.worker();
        await until('each is called delayed', () => builds.every((build) => build.messages.includes(DELAYED)));
        for (const build of builds)
            bed.double.phase('default', site.pods(build)[0].metadata.name, 'running');
        for (const build of builds)
            await site.runs(build);
        await until('no timer is left', async () => await next.metric('timers') === 0);
        await site.empty();
        assert.ok(builds.every((build) => build.finals.length === 0 && site.pods(build).length === 1));
    }));

// What verification finds, each box of it: the message is acknowledged, and nothing follows.
for (const [what, script, ends] of [
    ['running', [{ do: 'running' }], null],
    ['succeeded', [{ do: 'succeeded' }], null],
    ['being initialized', [{ do: 'pulling' }], null],
    ['failed', [{ do: 'failed', code: 3 }], /^Build failed to start/],
    ['unknown', [{ do: 'running' }, { do: 'status', status: { phase: 'Unknown' } }], /^Build failed to start/],
    ['ErrImagePull', [{ do: 'waiting', reason: 'ErrImagePull', message: 'no' }], /check if your image is valid/],
    ['CrashLoopBackOff', [{ do: 'waiting', reason: 'CrashLoopBackOff', message: 'no' }], /your cluster admin/],
])
    test(`verified: a pod that is ${what}`, () => bed.with({ ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '60' },
        async (site) => {
            const build = site.build(script);
            await bed.createPod({ metadata: { name: `${build.id}-x7k2q`, labels: { sdbuild: `${build.id}` } },
                spec: { containers: [{ name: 'build', image: 'node:20' }] } });
            const [pod] = site.pods(build);
            await until('the pod is so far', () => site.pods(build)[0].metadata.resourceVersion !==
                pod.metadata.resourceVersion);
            const worker = site.worker();
            await bed.publisher.publish('build', site.retry,
                JSON.stringify({ job: 'verify', buildConfig: site.config(build) }));
            if (ends)
                await site.fails(build, ends);
            else
                await site.runs(build);
            await until('it was verified', async () => await worker.metric('verifies_total') >= 1);
            await site.empty();
            assert.deepEqual(build.finals, ends ? ['FAILURE'] : []);
            assert.equal(await worker.metric('timers'), 0);
        }));

for (const [what, script, fault, ends] of [
    ['a pod of an unknown phase', [{ do: 'running' }, { do: 'status', status: { phase: 'Unknown' } }],
        { delay: 500 }, /^Build failed to start/],
    ['an API that says nothing of the pod', [{ do: 'running' }], { status: 500 }, null],
])
    test(`${what} after the creation: verified at once`, () => bed.with(
        { ...ENV, RABBITMQ_BUILD_INIT_TIMEOUT: '60' }, async (site) => {
            const worker = site.worker();
            const build = site.build(script);
            bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times: 1, ...fault });
            await site.start(build);
            if (ends)
                await site.fails(build, ends);
            else
                await site.runs(build);
            await site.empty();
            assert.equal(await worker.metric('verifies_total'), 1);
            assert.equal(await worker.metric('timers_fired_total'), 0);
            assert.equal(await worker.metric('timers'), 0);
        }));

test('a timer takes five minutes unless it is set', () => bed.with(
    { VERIFICATION: '', RABBITMQ_BUILD_INIT_TIMEOUT: '' }, async (site) => {
        const worker = site.worker({ args: ['--verification', 'timer'] });
        const build = site.build([{ do: 'pulling' }]);
        const began = Date.now();
        await site.start(build);
        await site.podThere(build);
        await site.empty();
        assert.equal(await worker.metric('timers'), 1);
        const folder = path.join(site.env.TENAX_STATE_DIR, 'timers');
        const kept = fs.readdirSync(folder).map((name) => fs.readFileSync(path.join(folder, name), 'utf8')).join();
        const [, at] = /"at":(\d+),"length":300000,/.exec(kept) || [];
        assert.ok(at >= began + 300000 && at <= Date.now() + 300000, kept);
        assert.deepEqual(build.messages.filter((one) => one === DELAYED), []);
    }));

// Killed at each step; whoever comes next goes on. The n-th look at the pod is the one that hangs.
const hang = (verb) => bed.double.fault({ match: { verb, resource: 'pods' }, times: 1, hang: true });
const pass = (times) => bed.double.fault({ match: { verb: 'list', resource: 'pods' }, times, delay: 1 });
const all = (verb) => bed.double.faults.rules.filter((rule) => rule.match.verb === verb)
    .every((rule) => rule.times === 0);
const isTold = (build, word) => build.updates.some((update) => update.body.statusMessage === word);
for (const [what, hold, reached] of [
    ['the pod is being asked for', () => hang('create'), () => all('create')],
    ['the pod is there, the answer is not',
        () => bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, lost: true }),
        () => all('create')],
    ['the pod is being looked at after its creation', () => hang('list'), () => all('list')],
    ['its timer is running', () => {}, (build, site) => site.pods(build).length === 1],
    ['its timer has fired, and the pod is being looked at', () => { pass(1); hang('list'); }, () => all('list')],
    ['Screwdriver is being told that it is delayed',
        (build) => bed.api.fault({ match: { id: build.id }, mute: true }), (build) => isTold(build, DELAYED)],
    ['the pod is being verified', () => { pass(2); hang('list'); }, () => all('list')],
])
    test(`killed while ${what}`, () => bed.with({ ...ENV, RABBITMQ_MSG_REPROCESS_LIMIT: '1000' }, async (site) => {
        const worker = site.worker();
        const build = site.build([{ do: 'pulling' }]);
        hold(build);
        await site.start(build);
        await until(() => `the step is reached:\n${site.log}`, () => reached(build, site));
        await worker.kill();
        bed.double.clearFaults();
        bed.api.clearFaults();
        const next = site.worker();
        await until(() => `it is called delayed:\n${site.log}`, () => build.messages.includes(DELAYED));
        bed.double.phase('default', site.pods(build)[0].metadata.name, 'running');
        await site.runs(build);
        await until('no timer is left', async () => await next.metric('timers') === 0);
        await site.empty();
        assert.deepEqual(build.finals, []);
        assert.equal(site.pods(build).length, 1);
    }));
