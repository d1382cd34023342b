// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker --broker tenax`: the same builds, without RabbitMQ.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { until, useBed } = require('./harness.js');
const { BAD_IMAGE, NO_NODE, RUNS, steps } = require('./steps.js');

const bed = useBed({ tenax: true });

test('builds run, fail fast, find no node, pull slowly', () => bed.with({ VERIFY_LIMIT: '1000' }, async (site) => {
    const worker = site.worker();
    const runs = site.build(RUNS);
    const bad = site.build(BAD_IMAGE);
    const homeless = site.build([{ do: 'unschedulable' }]);
    const slow = site.build([{ do: 'pulling' }]);
    for (const build of [slow, homeless, bad, runs])
        await site.start(build);
    await site.runs(runs);
    await site.fails(bad, /check if your image is valid/);
    await site.fails(homeless, /^Pod scheduling timeout exceeded$/);
    await site.podGone(homeless);
    await until('it was looked at three times', () => worker.delays(slow.id).length >= 3);
    assert.deepEqual(worker.delays(slow.id).slice(0, 3), [150, 200, 250]);
    bed.double.phase('default', site.pods(slow)[0].metadata.name, 'running');
    await site.runs(slow);
    await site.empty();
    assert.ok([runs, slow].every((build) => build.finals.length === 0));
}));

test('a stop deletes the pods of its build', () => bed.with({ SCHEDULING_TIMEOUT: '1h',
    VERIFY_LIMIT: '1000' }, async (site) => {
    site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    await site.start(build);
    await site.podThere(build);
    await site.stop(build);
    await site.podGone(build);
    await site.empty();
    assert.deepEqual(build.finals, []);
}));

test('an API that fails is asked again, and one that refuses ends the build', () => bed.with({}, async (site) => {
    site.worker();
    const [build, refused] = [site.build(RUNS), site.build(RUNS)];
    bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 2, status: 500 });
    await site.start(build);
    await site.runs(build);
    bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, status: 403, message: 'quota' });
    await site.start(refused);
    await site.fails(refused, /403.*quota/);
    await site.empty();
    assert.deepEqual(build.finals, []);
}));

test('a worker that is killed again and again', () => bed.with({ VERIFY_LIMIT: '1000' }, async (site) => {
    site.worker();
    const all = [];
    for (let i = 0; i < 20; i++) {
        all.push(site.build(i % 2 ? RUNS : BAD_IMAGE));
        await site.start(all[i]);
    }
    for (let round = 0; round < 6; round++) {
        const worker = site.workers.at(-1);
        await worker.says(/health on/);
        await new Promise((done) => setTimeout(done, 20 + round * 30));
        await worker.kill();
        site.worker();
    }
    for (const [i, build] of all.entries())
        if (i % 2)
            await site.runs(build);
        else
            await site.fails(build, /check if your image is valid/);
    await site.empty();
    await site.workers.at(-1).says(/health on/); // all may be over before it is there to be stopped
    for (const [i, build] of all.entries()) {
        assert.equal(site.pods(build).length, 1);
        assert.deepEqual(build.finals, i % 2 ? [] : ['FAILURE']);
    }
}));

// All at once, because the jobs of a worker that is killed come again after their leases only.
test('killed at each of its steps', () => bed.with({ VERIFY_LIMIT: '1000', CIRCUIT_TIMEOUT: '120000',
    SCHEDULING_TIMEOUT: '300ms' }, async (site) => {
    const worker = site.worker();
    const all = [];
    for (const [what, script, hold, reached, ends] of steps(bed).STEPS) {
        bed.double.clearFaults(); // those that hang stay so
        const build = site.build(script);
        hold(build);
        await site.start(build);
        await until(() => `${what}:\n${site.log}`, () => reached(build));
        all.push({ build, script, ends });
    }
    await worker.kill();
    bed.double.clearFaults();
    bed.api.clearFaults();
    site.worker();
    for (const { build, ends } of all)
        if (ends)
            await site.fails(build, ends);
        else
            await site.runs(build);
    await site.empty();
    for (const { build, script, ends } of all) {
        assert.deepEqual(build.finals, ends ? ['FAILURE'] : []);
        assert.equal(site.pods(build).length, script === NO_NODE ? 0 : 1);
    }
}));
