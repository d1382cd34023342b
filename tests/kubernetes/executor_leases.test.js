// SPDX-License-Identifier: Apache-2.0
'use strict';

// The leases of one executor are renewed together, with a proxy before the server that sees it; and it
// holds no more of a queue than it may.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { queueName, until } = require('../http/harness');
const { Recorder } = require('../http/recorder');
const { pod, useBed } = require('./executor_harness');

const PODS = 4;

describe('the leases of an executor', () => {
    const bed = useBed();
    let proxy;
    before(async () => { proxy = await new Recorder(bed.server).start(); });
    after(() => proxy.stop());

    it('are_renewed_by_one_request', async () => {
        const executor = bed.executor({ server: proxy, args: ['--lease', '12s'] });
        const ids = [];
        for (let i = 0; i < PODS; i++)
            ids.push((await bed.enqueue(executor, pod({ steps: ['running', 'pause'] }))).id);
        executor.start(); // they are there by now: one claim takes them all, whose leases are due together
        for (const id of ids)
            await bed.pod(id, 0, 'Running');
        const count = proxy.bodies('/jobs/renew').length;
        const first = await bed.run(ids[0]);
        await until(() => proxy.bodies('/jobs/renew').slice(count).some((r) => r.jobs.length === PODS),
            'all are renewed together');
        await until(async () => (await bed.run(ids[0])).lease_expires_at > first.lease_expires_at,
            'the lease is longer');
        await bed.server.post(`/jobs/${ids[0]}/cancel`);
        await bed.gone(ids[0]);
        for (const id of ids.slice(1))
            assert.equal((await bed.server.job(id)).status, 'in_flight');
        await executor.stop();
    });
});

describe('a limit of one pod', () => {
    const bed = useBed();

    it('of_a_queue_is_kept_and_holds_up_no_other_queue', async () => {
        const queue = queueName(), other = queueName();
        const executor = bed.executor({ queue,
            args: ['--queue', other, '--queue-limit', `${queue}=1`] }).start();
        const limited = [], free = [];
        for (let i = 0; i < 3; i++) {
            limited.push((await bed.enqueue(executor, pod({ steps: ['running', 'pause'] }))).id);
            free.push((await bed.enqueue(executor, pod({ steps: ['running', 'pause'] }), { queue: other })).id);
        }
        for (const id of free)
            await bed.pod(id, 0, 'Running');
        const statuses = async () => (await Promise.all(limited.map((id) => bed.server.job(id))))
            .map((job) => job.status).sort();
        await until(async () => (await statuses())[0] === 'in_flight', 'one of them runs');
        assert.deepEqual(await statuses(), ['in_flight', 'ready', 'ready']);
        await executor.stop();
    });
});
