// SPDX-License-Identifier: Apache-2.0
'use strict';

// Leases of many jobs of one worker are renewed together: `tenax work` against a real server, with
// a proxy in between that sees the requests.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, before, describe, it } = require('node:test');
const { Server, begin, queueName, until } = require('./harness');

const JOBS = 5;

describe('tenax work renews leases', () => {
    const server = new Server();
    let proxy;
    let requests;
    let old; // what is in between does not know POST /jobs/renew
    before(async () => {
        await server.start();
        proxy = http.createServer((req, res) => {
            let body = '';
            req.on('data', (bytes) => { body += bytes; });
            req.on('end', () => pass(req, res, body));
        });
        await new Promise((done) => { proxy.listen(0, '127.0.0.1', done); });
    });
    after(async () => {
        proxy.closeAllConnections();
        proxy.close();
        await server.clean();
    });

    function pass(req, res, body) {
        requests.push({ path: req.url, body });
        if (old && req.url === '/jobs/renew') {
            res.writeHead(405, { allow: 'GET, DELETE, PATCH' });
            res.end('{"error":"this path has no such method","code":"method_not_allowed"}');
            return;
        }
        const to = http.request(server.url() + req.url, { method: req.method, headers: req.headers },
            (from) => {
                res.writeHead(from.statusCode, from.headers);
                from.pipe(res);
            });
        to.on('error', () => res.destroy());
        to.end(body);
    }

    // A worker holds JOBS jobs, whose command takes longer than the test, during which that happens.
    async function work({ isOld, during }) {
        const queue = queueName();
        const ids = [];
        requests = [];
        old = isOld;
        for (let i = 0; i < JOBS; i++)
            ids.push((await server.enqueue({ queue, type: 't', payload: i,
                retention: { completed_ms: 3600000 } })).id);
        const worker = begin(['work', '--queue', queue, '--concurrency', String(JOBS), '--lease', '1500ms',
            '--grace', '100ms', '--', 'sleep', '60'], { TENAX_URL: `http://127.0.0.1:${proxy.address().port}` });
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

    const together = () => requests.filter((r) => r.path === '/jobs/renew').map((r) => JSON.parse(r.body));
    const alone = () => requests.filter((r) => /^\/jobs\/[0-9a-z]{25}\/renew$/.test(r.path));

    it('those_of_one_worker_by_one_request_and_one_that_is_over_is_lost_alone', async () => {
        const { worker, queue } = await work({
            during: async (w, ids) => {
                await until(() => together().some((r) => r.jobs.length === JOBS), 'all are renewed together');
                const began = Date.now(); // it goes on past the end of the first lease
                await until(() => Date.now() > began + 2000 && together().length >= 3, 'and again');
                assert.equal((await server.post(`/jobs/${ids[0]}/cancel`)).status, 200);
                await w.says(new RegExp(`LOST +${ids[0]}`));
                const count = together().length;
                await until(() => together().slice(count).some((r) => r.jobs.length === JOBS - 1),
                    'the others are renewed');
            },
        });
        assert.equal(worker.stderr.match(/LOST/g).length, 1, worker.stderr);
        assert.ok(together().every((r) => r.jobs.every((job) => job.token && job.lease_ms === 1500)));
        assert.equal((await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count, JOBS - 1);
    });

    it('each_by_itself_at_a_server_that_knows_no_other_way', async () => {
        const { worker } = await work({
            isOld: true,
            during: async (w, ids) => {
                const renewed = (id) => alone().filter((r) => r.path === `/jobs/${id}/renew`).length;
                await until(() => ids.every((id) => renewed(id) >= 3), 'each is renewed');
            },
        });
        assert.equal(together().length, 1);
        assert.doesNotMatch(worker.stderr, /LOST/);
    });
});
