// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of HTTP/2 and TLS share: a server, and one way to ask it over HTTP/1.1 and
// HTTP/2, with and without TLS.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const harness = require('./harness');

const { BIN, environment, running, within } = harness;

// A folder that goes with the test.
function makeDir(t) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-transport-'));
    t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
    return dir;
}

// Runs the binary to its end: {code, stdout, stderr}.
function run(args, input = '') {
    return harness.run(args, {}, input);
}

// Starts a server that is stopped with the test: {url, admin, child, lines, stderr()}.
async function serve(t, args = [], { adminPort = '0' } = {}) {
    const child = spawn(BIN, ['serve', '--root-dir', path.join(makeDir(t), 'root'), '--port', '0',
        ...(adminPort === null ? [] : ['--admin-port', adminPort]), ...args],
    { env: environment(), stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(child);
    let stdout = '', stderr = '';
    child.stderr.on('data', (bytes) => { stderr += bytes; });
    const exit = new Promise((resolve) => child.on('close', (code, signal) => {
        running.delete(child);
        resolve({ code, signal });
    }));
    const server = { child, exit, stderr: () => stderr };
    await within(new Promise((resolve, reject) => {
        child.stdout.on('data', (bytes) => {
            stdout += bytes;
            const match = /^Listening on (http\S+)$/m.exec(stdout);
            if (!match)
                return;
            server.url = match[1];
            server.admin = /^Listening on (http\S+) \(admin\)$/m.exec(stdout)?.[1];
            server.lines = stdout.trim().split('\n');
            resolve();
        });
        exit.then(() => reject(new Error(`the server ended: ${stderr}`)));
    }), 'the server is up');
    t.after(async () => {
        child.kill('SIGTERM');
        const end = await within(exit, 'the server ends');
        assert.deepEqual(end, { code: 0, signal: null }, stderr);
    });
    return server;
}

// Waits until the server has logged something like that.
function logged(server, pattern) {
    return within(new Promise((resolve) => {
        const look = () => pattern.test(server.stderr()) && resolve();
        server.child.stderr.on('data', look);
        look();
    }), `${pattern} in the log`);
}

function collect(readable) {
    return new Promise((resolve, reject) => {
        const parts = [];
        readable.on('data', (part) => parts.push(part));
        readable.on('end', () => resolve(Buffer.concat(parts).toString()));
        readable.on('error', reject);
    });
}

// A client on one connection: ask(method, path, body, headers) → {status, headers, body}.
function client1(t, url, tls = {}) {
    const lib = url.startsWith('https') ? https : http;
    const agent = new lib.Agent({ keepAlive: true, maxSockets: 1, ...tls });
    t.after(() => agent.destroy());
    const ask = (method, target, body, headers = {}) => within(new Promise((resolve, reject) => {
        const req = lib.request(url + target, { method, headers, agent }, async (res) => {
            resolve({ status: res.statusCode, headers: res.headers, body: await collect(res) });
        });
        req.on('error', reject);
        req.end(body);
    }), `${method} ${target}`);
    return { ask };
}

function client2(t, url, tls = {}) {
    const session = http2.connect(url, tls);
    t.after(() => session.destroy());
    const broken = new Promise((resolve, reject) => session.on('error', reject));
    broken.catch(() => {});
    const ask = (method, target, body, headers = {}) => within(Promise.race([broken,
        new Promise((resolve, reject) => {
            const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
            const req = session.request(
                { ':method': method, ':path': target, ...length, ...headers },
                { endStream: body === undefined });
            req.on('response', async ({ ':status': status, ...rest }) => {
                resolve({ status, headers: rest, body: await collect(req) });
            });
            req.on('error', reject);
            if (body !== undefined)
                req.end(body);
        })]), `${method} ${target}`);
    return { ask, session, broken };
}

module.exports = { BIN, client1, client2, collect, logged, makeDir, run, serve, within };
