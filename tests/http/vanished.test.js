// SPDX-License-Identifier: Apache-2.0
'use strict';

// A host that vanishes sends no FIN and no RST. Whatever it had open is given up when nothing sent to
// it was acknowledged for --tcp-user-timeout, and the jobs of its streams are handed out again. The
// server and the host are network namespaces with a router between them, which drops their packets.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it, before, after } = require('node:test');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { makeDir, until } = require('./harness');
const { inOwnNetwork, Network } = require('../postgres/network.js');

inOwnNetwork(__filename);

const BIN = path.resolve(process.env.TENAX_BIN || path.join(__dirname, '../../build/tenax'));

describe('a host that vanishes', () => {
    let network, here, far, server, url, dir;
    const clients = [];

    async function ask(method, target, body) {
        const res = await fetch(url + target, { method, body: body && JSON.stringify(body),
            headers: body ? { 'content-type': 'application/json' } : {} });
        return res.json();
    }

    // curl on the far host; what it has received is in .said.
    function curl(...args) {
        const child = spawn(...far.enter('curl', ['-sSN', '--no-keepalive', ...args]), { stdio: ['ignore', 'pipe', 'inherit'] });
        const client = { child, said: '' };
        child.stdout.on('data', (bytes) => { client.said += bytes; });
        clients.push(client);
        return client;
    }

    async function connections() {
        const text = await (await fetch(url + '/metrics')).text();
        return Number(/^tenax_connections\{listener="primary"\} (\d+)$/m.exec(text)[1]);
    }

    before(async () => {
        network = await Network.start('here', 'far');
        ({ here, far } = network.machines);
        dir = makeDir();
        server = spawn(...here.enter(BIN, ['serve', '--root-dir', path.join(dir, 'root'), '--host', here.address,
            '--port', '0', '--admin-port', '0', '--insecure', '--tcp-user-timeout', '3s',
            '--heartbeat-interval', '1s', '--io-threads', process.env.TEST_IO_THREADS || '1']),
            { stdio: ['ignore', 'pipe', 'inherit'] });
        let said = '';
        server.stdout.on('data', (bytes) => { said += bytes; });
        url = (await until(() => /^Listening on (\S+:\d+)$/m.exec(said), () => `it listens: ${said}`))[1];
    });

    after(async () => {
        for (const { child } of clients)
            child.kill('SIGKILL');
        const ended = new Promise((resolve) => server.on('exit', (code) => resolve(code)));
        server.kill('SIGTERM');
        assert.equal(await ended, 0);
        network.stop();
        fs.rmSync(dir, { recursive: true });
    });

    it('its_streams_long_polls_and_idle_connections_are_given_up', async () => {
        await fetch(url + '/health');
        const before = await connections();
        const held = {};
        for (const queue of ['one', 'two', 'three', 'four'])
            held[queue] = (await ask('POST', '/jobs', { queue, type: 't', payload: 1 })).id;
        const streams = [
            curl(`${url}/jobs/take?queue=one`),
            curl('--http2-prior-knowledge', '--no-progress-meter', '--parallel', '--parallel-immediate', '--parallel-max', '10',
                ...['two', 'three', 'four'].map((queue) => `${url}/jobs/take?queue=${queue}`)),
            curl('-H', 'Accept: text/event-stream', `${url}/events`),
        ];
        const waits = ['60000', '60001'].map((ms) => curl('--json', JSON.stringify(
            { queues: ['later'], count: 1, lease_ms: 60000, wait_ms: Number(ms) }), `${url}/jobs/claim`));
        // Half of a request: the server waits for the rest.
        const upload = curl('-T', '-', '-H', 'Content-Length: 100', `${url}/jobs`);
        const all = [...streams, ...waits, upload];
        await until(async () => await connections() >= before + all.length, 'all are connected');
        for (const id of Object.values(held))
            await until(async () => (await ask('GET', `/jobs/${id}`)).status === 'in_flight', 'the streams hold their jobs');

        network.cut(here, far);
        for (const id of Object.values(held))
            await until(async () => (await ask('GET', `/jobs/${id}`)).status === 'ready', 'its jobs are handed back');
        await until(async () => await connections() === before, 'nothing of it is left');

        // A job that is enqueued now goes to nobody who is gone.
        const late = (await ask('POST', '/jobs', { queue: 'later', type: 't', payload: 1 })).id;
        assert.equal((await ask('GET', `/jobs/${late}`)).status, 'ready');
        assert.equal((await ask('GET', `/jobs/${held.one}`)).attempts, 0);
    });
});
