// SPDX-License-Identifier: Apache-2.0
'use strict';

// Behind a reverse proxy that is set up as docs/proxies.md says: nothing is held back, nothing is done
// twice, and silence ends nothing. PROXY_TIMES=1 has the times of the page, which takes minutes.

const assert = require('node:assert/strict');
const http = require('node:http');
const { json } = require('node:stream/consumers');
const { after, before, describe, it } = require('node:test');
const { bearer } = require('./access');
const { Server, jobOf, queueName, run, until, useServer, within } = require('./harness');
const { PROXIES, SHORTER, shorter, startProxy } = require('./proxies');

const PUBLIC = 'queue.example.org';
const trusting = ['--allowed-hosts', PUBLIC, '--trusted-proxies', '127.0.0.1', '--wrong-credentials', '3'];
const options = { args: [...trusting, '--claim-wait-max', shorter(45), '--heartbeat-interval', shorter(3),
    '--idle-timeout', shorter(75)] };

// The server as it is seen through the proxy; shared: no connections of its own.
function through(server, proxy) {
    const seen = Object.create(server, { host: { value: proxy.host }, port: { value: proxy.port },
        standby: { value: null } });
    seen.agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
    return seen;
}

// The status of Tenax's answer to a request from an address of this machine's own.
async function from(localAddress, proxy, target, headers) {
    const res = await within(new Promise((resolve, reject) => {
        http.get({ host: proxy.host, port: proxy.port, path: target, headers, localAddress, agent: false }, resolve)
            .on('error', reject);
    }), 'an answer');
    const { jobs, code } = await json(res);
    assert.ok(jobs || code, 'the answer is the server\'s');
    return res.statusCode;
}

async function handleAll(seen, taker, handled, count) {
    while (handled.length < count) {
        await taker.until(() => taker.jobs.length || handled.length >= count, 'a job comes');
        for (const job of taker.jobs.splice(0)) {
            const res = await seen.post(`/jobs/${job.id}/success`, { token: job.token });
            assert.equal(res.status, 204, res.text);
            handled.push(job.id);
        }
        if (handled.length >= count)
            for (const other of handled.takers)
                other.wake();
    }
}

async function claimAll(seen, queue, handled, count) {
    while (handled.length < count)
        for (const job of await seen.claim({ queues: [queue], count: 10, wait_ms: 100 })) {
            assert.equal((await seen.post(`/jobs/${job.id}/success`, { token: job.token })).status, 204);
            handled.push(job.id);
        }
}

// They wait most of their time.
describe('a server', { concurrency: 3 }, () => {
    for (const [name, isBare] of Object.keys(PROXIES).map((key) => [key, key.endsWith('alone')]))
        describe(`behind ${name}`, () => {
            const server = useServer(options);
            let proxy, seen;

            before(async () => {
                proxy = await startProxy(name, server, SHORTER);
                seen = through(server, proxy);
            });
            after(async () => {
                seen?.agent.destroy();
                await proxy?.stop();
            });

            it('what_waits_outlasts_silence', async () => {
                const queue = queueName();
                const jobs = await seen.take(`?queue=${queue}`);
                const events = await seen.events(`?queue=${queue}`);
                // Two claims are longer than any timeout of the proxy's, and each is answered.
                for (let i = 0; i < 2; i++)
                    assert.deepEqual(await seen.claim({ queues: [`${queue}-none`], wait_ms: 300000 }), []);
                const { id } = await seen.enqueue({ queue });
                assert.equal((await jobs.next()).id, id);
                assert.equal((await events.next()).id, id);
                jobs.close();
                events.close();
                await until(async () => (await server.job(id)).status === 'ready', 'the job is given back');
            });

            it('work_in_many_shapes_is_done_once', async () => {
                const queue = queueName(), handled = [];
                handled.takers = await Promise.all(Array.from({ length: 3 },
                    () => seen.take(`?queue=${queue}&prefetch=10`)));
                const count = 600;
                const bulk = seen.enqueueMany(Array.from({ length: 400 }, () => ({ queue })));
                const single = Promise.all(Array.from({ length: 200 }, () => seen.enqueue({ queue })));
                const work = [...handled.takers.map((taker) => handleAll(seen, taker, handled, count)),
                    claimAll(seen, queue, handled, count)];
                const made = [...await bulk, ...(await single).map(({ id }) => id)];
                await Promise.all(work);
                assert.deepEqual(handled.slice().sort(), made.sort());
                for (const taker of handled.takers)
                    taker.close();
            });

            it('reads_the_console', async () => {
                const res = await fetch(`${proxy.url}/console`);
                assert.equal(res.status, 200);
            });

            if (isBare)
                return;

            it('takes_bodies_as_large_as_the_server_does', async () => {
                const payload = 'x'.repeat(15 * 1024 * 1024);
                const { id } = await seen.enqueue({ queue: queueName(), payload });
                const job = await seen.job(id);
                assert.equal(job.payload.length, payload.length);
            });

            it('has_the_public_name_and_a_prefix', async () => {
                const own = { host: PUBLIC };
                assert.equal(await from('127.0.0.1', proxy, '/jobs', own), 200);
                assert.equal(await from('127.0.0.1', proxy, '/jobs', { host: 'elsewhere.example.org' }), 421);
                // Pages that the proxy serves may use the API.
                assert.equal(await from('127.0.0.1', proxy, '/jobs', { ...own, origin: `http://${PUBLIC}` }), 200);
                const port = { host: `${PUBLIC}:8080`, origin: `http://${PUBLIC}:8080` };
                assert.equal(await from('127.0.0.1', proxy, '/jobs', port), 200);
                const queue = queueName();
                const { code, stdout, stderr } = await run(['enqueue', '--url', `${proxy.url}/tenax`, '--queue', queue,
                    '--type', 't', '1']);
                assert.equal(code, 0, stderr);
                assert.equal((await server.job(stdout.trim())).queue, queue);
                const page = await (await fetch(`${proxy.url}/tenax/console`)).text();
                const base = new URL(/<base[^>]*href="([^"]+)"/.exec(page)?.[1] ?? '', `${proxy.url}/tenax/console`);
                const parts = [...page.matchAll(/<(?:link|script)[^>]*(?:href|src)="([^"#]+)"/g)];
                assert.ok(parts.length > 1);
                for (const [, part] of parts)
                    assert.equal((await fetch(new URL(part, base))).status, 200, part);
            });
        });
});

for (const name of Object.keys(PROXIES))
    it(`behind_${name.replaceAll(' ', '_')}_a_claim_whose_client_leaves_gets_no_job`, async (t) => {
        const server = await new Server({ args: ['--claim-wait-max', '300s'] }).start();
        t.after(() => server.clean());
        const proxy = await startProxy(name, server);
        t.after(() => proxy.stop());
        const waiting = http.request({ host: proxy.host, port: proxy.port, path: '/jobs/claim', method: 'POST',
            agent: false, headers: { 'content-type': 'application/json' } });
        waiting.on('error', () => undefined);
        waiting.end(JSON.stringify({ queues: ['q'], worker: 'w', wait_ms: 300000, lease_ms: 3600000 }));
        const waits = async () => (await server.get('/workers')).json.workers.some((worker) => worker.claims === 1);
        await until(waits, 'the claim waits');
        const left = Date.now();
        waiting.destroy();
        await until(async () => !await waits(), 'it is withdrawn');
        assert.ok(Date.now() - left < 40000, 'no timeout ended it');
        const { id } = await server.enqueue({ queue: 'q' });
        assert.equal((await server.claimOne('q')).id, id);
    });

for (const name of Object.keys(PROXIES).filter((key) => !key.endsWith('alone')))
    it(`behind_${name}_wrong_credentials_are_counted_by_the_client`, async (t) => {
        const server = await new Server(options).start();
        t.after(() => server.clean());
        const made = await server.admin('POST', '/tokens', { roles: ['admin'] });
        assert.equal(made.status, 201, made.text);
        const proxy = await startProxy(name, server);
        t.after(() => proxy.stop());
        const wrong = (i) => ({ ...bearer(`tnx_${'0'.repeat(16)}_${'a'.repeat(43)}`), 'x-forwarded-for': `192.0.2.${i}` });
        const statuses = [];
        for (let i = 0; i < 5; i++)
            statuses.push(await from('127.0.0.9', proxy, '/jobs', wrong(i)));
        assert.deepEqual([statuses.filter((s) => s === 401).length, statuses.at(-1)], [3, 429]);
        assert.equal(await from('127.0.0.8', proxy, '/jobs', wrong(9)), 401, 'another client is none of it');
        assert.equal(await from('127.0.0.9', proxy, '/jobs', bearer(made.json.token)), 200);
    });
