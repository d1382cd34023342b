// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker` killed at each of its steps, or cut off from RabbitMQ there: whoever comes
// next finishes the build, with one pod at most and one final status at most.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Wire, gate, until, useBed } = require('./harness.js');
const { BAD_IMAGE, NO_NODE, RUNS, steps } = require('./steps.js');

const bed = useBed();
const { STEPS, asked, hang } = steps(bed);
const ENV = { WAIT_QUEUES: 'true', VERIFY_LIMIT: '1000', RABBITMQ_MSG_REPROCESS_LIMIT: '1000' };

for (const [what, script, hold, reached, ends] of STEPS)
    test(`killed while ${what}`, () => bed.with(ENV, async (site) => {
        const worker = site.worker();
        const build = site.build(script);
        hold(build);
        await site.start(build);
        await until(() => `the step is reached:\n${site.log}`, () => reached(build));
        await worker.kill();
        bed.double.clearFaults();
        bed.api.clearFaults();
        site.worker();
        if (ends)
            await site.fails(build, ends);
        else
            await site.runs(build);
        await site.empty();
        assert.deepEqual(build.finals, ends ? ['FAILURE'] : []);
        assert.equal(site.pods(build).length, script === NO_NODE ? 0 : 1);
    }));

test('killed while a stop deletes the pods', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const build = site.build(RUNS);
    await site.start(build);
    await site.runs(build);
    hang('deletecollection');
    await site.stop(build);
    await until('it is deleting', () => asked('deletecollection'));
    await worker.kill();
    bed.double.clearFaults();
    site.worker();
    await site.podGone(build);
    await site.empty();
    assert.deepEqual(build.finals, []);
}));

// What the worker sends is lost: acknowledgements, verify messages. Then it is killed, or cut off.
for (const end of ['killed', 'cut off'])
    for (const [step, script, reached, ends] of [
        ['the pod was made', RUNS, (site, build) => site.pods(build).length === 1, null],
        ['the failure was told', BAD_IMAGE, (site, build) => build.finals.length === 1, /check if your image/],
    ])
        test(`${end} after ${step}, before RabbitMQ hears of it`, async () => {
            const wire = await new Wire(bed.broker.port).listen();
            try {
                await bed.with({ ...ENV, RABBITMQ_HOST: `127.0.0.1:${wire.port}` }, async (site) => {
                    const worker = site.worker();
                    await worker.well();
                    const build = site.build(script);
                    const slow = ends ? 'list' : 'create';
                    const { hold, goOn } = gate();
                    bed.double.fault({ match: { verb: slow, resource: 'pods' }, times: 1, hold });
                    await site.start(build);
                    await until('it is being asked', () => asked(slow));
                    wire.freeze('up');
                    goOn();
                    await until(() => `the step is reached:\n${site.log}`, () => reached(site, build));
                    if (end === 'killed')
                        await worker.kill();
                    wire.cut();
                    wire.thaw();
                    if (end === 'killed')
                        site.worker();
                    if (ends)
                        await site.fails(build, ends);
                    else
                        await site.runs(build);
                    await site.empty();
                    assert.deepEqual(build.finals, ends ? ['FAILURE'] : []);
                    assert.equal(site.pods(build).length, 1);
                });
            } finally {
                await wire.close();
            }
        });
