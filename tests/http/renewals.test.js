// SPDX-License-Identifier: Apache-2.0
'use strict';

// Leases of many jobs of one worker are renewed together: `tenax work` against a real server, with
// a proxy in between that sees the requests.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, begin, queueName, until } = require('./harness');
const { Recorder } = require('./recorder');

const JOBS = 5;

describe('tenax work renews leases', () => {
    const server = new Server();
    let proxy;
    before(async () => {
        await server.start();
        proxy = await new Recorder(server).start();
    });
    after(async () => {
        proxy.stop();
        await server.clean();
    });

    // A worker holds JOBS jobs, whose command takes longer than the test, during which that happens.
    async function work({ isOld, during }) {
        const queue = queueName();
        const ids = [];
        proxy.requests = [];
        proxy.isOld = isOld;
        for (let i = 0; i < JOBS; i++)
            ids.push((await server.enqueue({ queue, type: 't', payload: i,
                retention: { completed_ms: 3600000 } })).id);
        const worker = begin(['work', '--queue', queue, '--concurrency', String(JOBS), '--lease', '6s',
            '--grace', '100ms', '--', 'sleep', '60'], { TENAX_URL: proxy.url() });
        await until(async () => (await server.get(`/jobs/count?queue=${queue}&status=in_flight`)).json.count === JOBS,
            'all are in flight');
        try {
            await during(worker, ids);
        } finally {
            worker.child.kill('SIGTERM');
            await worker.ended;
        }
        return { worker, queue, ids };
    }

    const together = () => proxy.bodies('/jobs/renew');

    it('those_of_one_worker_by_one_request_and_one_that_is_over_is_lost_alone', async () => {
        const { worker, queue } = await work({
            during: async (w, ids) => {
                await until(() => together().some((r) => r.jobs.length === JOBS), 'all are renewed together');
                const began = Date.now(); // it goes on past the end of the first lease
                await until(() => Date.now() > began + 7000 && together().length >= 3, 'and again');
                assert.equal((await server.post(`/jobs/${ids[0]}/cancel`)).status, 200);
                await w.says(new RegExp(`LOST +${ids[0]}`));
                const count = together().length;
                await until(() => together().slice(count).some((r) => r.jobs.length === JOBS - 1),
                    'the others are renewed');
            },
        });
        assert.equal(worker.stderr.match(/LOST/g).length, 1, worker.stderr);
        assert.ok(together().every((r) => r.jobs.every((job) => job.token && job.lease_ms === 6000)));
        assert.equal((await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count, JOBS - 1);
    });

    it('each_by_itself_at_a_server_that_knows_no_other_way', async () => {
        const { worker } = await work({
            isOld: true,
            during: async (w, ids) => {
                const renewed = (id) => proxy.bodies(`/jobs/${id}/renew`).length;
                await until(() => ids.every((id) => renewed(id) >= 3), 'each is renewed');
            },
        });
        assert.equal(together().length, 1);
        assert.doesNotMatch(worker.stderr, /LOST/);
    });
});
