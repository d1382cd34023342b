// SPDX-License-Identifier: Apache-2.0
'use strict';

// Clients that send most of a large request and then nothing: what the server keeps of it is
// bounded over all of them, and others are served all the while.

const assert = require('node:assert/strict');
const { execSync } = require('node:child_process');
const fs = require('node:fs');
const http2 = require('node:http2');
const net = require('node:net');
const { describe, it } = require('node:test');
const { Server, queueName, until } = require('./harness');

const MIB = 1 << 20;
const LIMIT = 48 * MIB; // of requests
// Twice the limit, the largest request of each thread, a read of each connection, what the
// connections take themselves, and the rest of the server. Without a limit it would be gigabytes.
const BOUND = 640 * MIB;
const BODY = 15 * MIB;

// As many as the limit of open files lets both sides have; each raises its own to the hard one.
const FILES_MAX = Number(execSync('ulimit -Hn', { encoding: 'utf8' }).replace('unlimited', '1e9'));
const CLIENTS = Math.min(400, Math.floor((FILES_MAX - 400) / 2));

function peak(server) {
    const status = fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
}

// Peaks, for whoever wants to know: TENAX_PEAKS=1.
function note(server, what) {
    if (process.env.TENAX_PEAKS)
        console.log(`${what}: ${Math.round(peak(server) / MIB)} MiB`);
}

async function requestMemory(server) {
    const { text } = await server.get('/metrics');
    return Number(/^tenax_request_memory_bytes (\S+)$/m.exec(text)[1]);
}

const PATIENCE_MS = 300000;

const PART = Buffer.alloc(256 * 1024, 'x');

// Sends so much of the body, as fast as the server takes it, and then nothing.
function pump(stream, total) {
    let left = total;
    const more = () => {
        while (left > 0 && !stream.destroyed) {
            const part = PART.subarray(0, Math.min(left, PART.length));
            left -= part.length;
            if (!stream.write(part)) {
                stream.once('drain', more);
                return;
            }
        }
    };
    more();
}

class Stalled {
    constructor() {
        this.clients = [];
        this.sessions = [];
    }

    http1(server) {
        const client = { answer: '', over: false };
        const socket = net.connect({ host: server.host, port: server.port });
        const end = () => { client.over = true; };
        socket.on('error', end);
        socket.on('close', end);
        socket.on('data', (bytes) => { client.answer += bytes; });
        socket.on('connect', () => {
            socket.write('POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n' +
                `Content-Length: ${BODY + MIB}\r\n\r\n`);
            pump(socket, BODY);
        });
        client.socket = socket;
        this.clients.push(client);
    }

    http2(server) {
        const client = { answer: '', over: false };
        const session = http2.connect(server.url());
        const end = () => { client.over = true; };
        session.on('error', end);
        session.on('close', end);
        const req = session.request({ ':method': 'POST', ':path': '/jobs',
            'content-type': 'application/json', 'content-length': String(BODY + MIB) });
        req.on('response', (headers) => { client.answer += `HTTP/2 ${headers[':status']} `; });
        req.on('error', end);
        req.on('close', end);
        req.on('data', () => {});
        pump(req, BODY);
        this.sessions.push(session);
        this.clients.push(client);
    }

    close() {
        for (const { socket } of this.clients)
            socket?.destroy();
        for (const session of this.sessions)
            session.destroy();
    }
}

// Small requests get through.
async function serves(server) {
    const queue = queueName();
    const { id } = await server.enqueue({ queue, payload: 'small' });
    const job = await server.claimOne(queue);
    assert.equal(job.id, id);
    const done = await server.post(`/jobs/${id}/success`, { lease: job.lease });
    assert.equal(done.status < 300, true, done.text);
}

async function bounded(open, threads) {
    const server = new Server({
        args: ['--request-memory', '48MiB', '--cache-size', '16MiB', '--body-timeout', '5s'],
        env: threads ? { TENAX_IO_THREADS: String(threads) } : {},
    });
    const stalled = new Stalled();
    await server.start();
    try {
        for (let i = 0; i < CLIENTS; i++)
            open(stalled, server, i);
        await until(async () => await requestMemory(server) > LIMIT / 2, 'the memory is in use');
        for (let i = 0; i < 20; i++)
            await serves(server);
        await until(() => stalled.clients.some((c) => /^HTTP\/\S+ (408|503) /.test(c.answer)),
            'one is refused');
        for (const end = Date.now() + PATIENCE_MS; !stalled.clients.every((c) => c.over); await serves(server))
            assert.ok(Date.now() < end, 'all are refused');
        note(server, `${CLIENTS} clients`);
        assert.ok(peak(server) < BOUND, `${Math.round(peak(server) / MIB)} MiB`);
        await until(async () => await requestMemory(server) === 0, 'nothing is held any more');
        await server.enqueue({ queue: queueName(), payload: 'x'.repeat(BODY) });
        await server.assertServes();
    } finally {
        stalled.close();
        await server.clean();
    }
}

describe('requests that stall', () => {
    for (const threads of [0, 2]) {
        const where = threads ? 'on_two_threads_' : '';
        it(`${where}in_HTTP_1_take_bounded_memory_and_end`, () =>
            bounded((stalled, server) => stalled.http1(server), threads));
        it(`${where}in_HTTP_2_take_bounded_memory_and_end`, () =>
            bounded((stalled, server) => stalled.http2(server), threads));
    }
});
