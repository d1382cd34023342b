// SPDX-License-Identifier: Apache-2.0
'use strict';

// Clients that ask and do not read: what is made for them stays within bounds, and others are
// served all the while.

const assert = require('node:assert/strict');
const { execSync } = require('node:child_process');
const fs = require('node:fs');
const http2 = require('node:http2');
const net = require('node:net');
const { describe, it } = require('node:test');
const { Server, queueName, rawGet, rawPost, until, within } = require('./harness');

const MIB = 1 << 20;
// Of the bound, what --reply-memory says is for answers; the rest is the store, what a batch and a
// page in the making take, and what the allocator keeps.
const BOUND = 600 * MIB;

// As many as the limit of open files lets both sides have; each raises its own to the hard one.
const FILES_MAX = Number(execSync('ulimit -Hn', { encoding: 'utf8' }).replace('unlimited', '1e9'));
const CONSUMERS = Math.min(5000, FILES_MAX - 400);

function peak(server) {
    const status = fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
}

// Peaks, for whoever wants to know: TENAX_PEAKS=1.
function note(server, what) {
    if (process.env.TENAX_PEAKS)
        console.log(`${what}: ${Math.round(peak(server) / MIB)} MiB`);
}

async function serving(body, memory = '96MiB') {
    const server = new Server({ args: ['--reply-memory', memory, '--cache-size', '16MiB'] });
    const sockets = [];
    await server.start();
    try {
        await body(server, sockets);
        await server.assertServes();
        note(server, 'at the end');
        assert.ok(peak(server) < BOUND, `${Math.round(peak(server) / MIB)} MiB`);
    } finally {
        for (const socket of sockets)
            socket.destroy();
        await server.clean();
    }
}

// A connection that never reads.
function mute(server, sockets) {
    return within(new Promise((resolve, reject) => {
        const socket = net.connect({ host: server.host, port: server.port });
        socket.pause();
        socket.on('connect', () => resolve(socket));
        socket.on('error', () => reject);
        socket.on('error', () => {});
        sockets.push(socket);
    }), 'a connection');
}

// The server has read all that these connections sent and can be read.
async function settle(server) {
    for (let i = 0; i < 20; i++)
        await server.assertServes();
}

const LARGE = 15 * MIB;

async function enqueueLarge(server, count = 1) {
    const queue = queueName();
    const ids = [];
    for (let i = 0; i < count; i++)
        ids.push((await server.enqueue({ queue, payload: 'x'.repeat(LARGE) })).id);
    note(server, 'before');
    return { queue, ids };
}

describe('answers that nobody reads', () => {
    it('of_pipelined_requests_are_bounded', () => serving(async (server, sockets) => {
        const { ids } = await enqueueLarge(server);
        for (let i = 0; i < 20; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet(`/jobs/${ids[0]}`).repeat(100));
        }
        await settle(server);
    }));

    it('of_pages_on_a_hundred_connections_are_bounded', () => serving(async (server, sockets) => {
        const { queue } = await enqueueLarge(server);
        for (let i = 0; i < 100; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet(`/jobs?queue=${queue}`));
        }
        await settle(server);
        // Who reads gets a page all the same, once those who do not are gone.
        const page = await server.get(`/jobs?queue=${queue}`);
        assert.equal(page.json.jobs.length, 1);
    }, '192MiB'));

    it('of_an_HTTP_2_connection_with_a_shut_window_are_bounded', () =>
        serving(async (server, sockets) => {
            const { queue, ids } = await enqueueLarge(server);
            const sessions = [];
            for (let i = 0; i < 10; i++) {
                const session = http2.connect(server.url(), { settings: { initialWindowSize: 0 } });
                session.on('error', () => {});
                session.on('close', () => {});
                sessions.push(session);
                sockets.push(session);
                for (let n = 0; n < 100; n++) {
                    const target = n % 2 ? `/jobs/${ids[0]}` : `/jobs?queue=${queue}`;
                    const req = session.request({ ':path': target });
                    req.on('error', () => {});
                    req.pause();
                }
            }
            await until(() => sessions.every((s) => s.closed || s.state.outboundQueueSize === 0),
                'all was sent');
            await settle(server);
        }));

    it('of_claims_are_bounded_and_their_jobs_go_back', () => serving(async (server, sockets) => {
        const { queue } = await enqueueLarge(server, 6);
        for (let i = 0; i < 3; i++) {
            const socket = await mute(server, sockets);
            const claim = JSON.stringify({ queues: [queue], count: 1, lease_ms: 1000, wait_ms: 60000 });
            socket.write(Buffer.concat(Array.from({ length: 40 }, () =>
                rawPost('/jobs/claim', claim))));
        }
        await settle(server);
        for (const socket of sockets.splice(0))
            socket.destroy();
        const job = await server.claimOne(queue);
        assert.equal(job.payload.length, LARGE);
    }));
});

describe('streams that nobody reads', () => {
    it('of_events_are_bounded', () => serving(async (server, sockets) => {
        for (let i = 0; i < 10; i++)
            await server.enqueueMany(Array.from({ length: 1000 },
                () => ({ queue: 'q'.repeat(200), type: 't'.repeat(200) })));
        for (let i = 0; i < CONSUMERS; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet('/events?since=0'));
        }
        await settle(server);
        // Who reads is told all the same.
        const history = await server.history();
        assert.ok(history.length >= 10000, `${history.length} events`);
    }));

    it('of_events_to_come_are_bounded', () => serving(async (server, sockets) => {
        for (let i = 0; i < CONSUMERS; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet('/events?heartbeat_ms=1000'));
        }
        await settle(server);
        for (let i = 0; i < 10; i++)
            await server.enqueueMany(Array.from({ length: 1000 },
                () => ({ queue: 'q'.repeat(200), type: 't'.repeat(200) })));
        await settle(server);
        const history = await server.history();
        assert.ok(history.length >= 10000, `${history.length} events`);
    }));

    it('of_jobs_are_bounded', () => serving(async (server, sockets) => {
        const { queue } = await enqueueLarge(server, 10);
        for (let i = 0; i < 20; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet(`/jobs/take?queue=${queue}&prefetch=1000`));
        }
        await settle(server);
    }));

    // Each has read all there was, and so none is known not to read.
    it('of_jobs_to_come_are_bounded', () => serving(async (server, sockets) => {
        const queue = queueName();
        for (let i = 0; i < 40; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawGet(`/jobs/take?queue=${queue}`));
        }
        await settle(server);
        for (let i = 0; i < 20; i++)
            await server.enqueue({ queue, payload: 'x'.repeat(LARGE) });
        await settle(server);
        for (const socket of sockets.splice(0))
            socket.destroy();
        const job = await server.claimOne(queue);
        assert.equal(job.payload.length, LARGE);
    }));

    it('of_claims_that_wait_for_jobs_are_bounded', () => serving(async (server, sockets) => {
        const queue = queueName();
        const claim = JSON.stringify({ queues: [queue], count: 1, lease_ms: 1000, wait_ms: 300000 });
        for (let i = 0; i < 40; i++) {
            const socket = await mute(server, sockets);
            socket.write(rawPost('/jobs/claim', claim));
        }
        await settle(server);
        for (let i = 0; i < 20; i++)
            await server.enqueue({ queue, payload: 'x'.repeat(LARGE) });
        await settle(server);
        for (const socket of sockets.splice(0))
            socket.destroy();
        const job = await server.claimOne(queue);
        assert.equal(job.payload.length, LARGE);
    }));
});
