// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of the Jobs API share. They run against the real binary and need
// nothing but Node 18 or newer:
//
//     node --test tests/http/*.test.js
//
// TENAX_BIN names another binary than build/tenax; TEST_IO_THREADS=2 has every server that is not
// told otherwise serve its connections on so many threads; TEST_POSTGRES=owner has it keep its jobs in
// a PostgreSQL (tests/http/postgres.js), and TEST_POSTGRES=standby asks another server that passes
// requests on to it. Every file starts servers of its own,
// each on a free port of the loopback and in a folder of its own. A server is ended by
// SIGTERM and must then exit with 0; whatever is left when a file ends is killed by pid.
//
// Nothing here sleeps for a fixed time: what has to happen is awaited, up to a deadline.
// Tests of one server keep out of each other's way by using a queue each (queueName).

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { before, after } = require('node:test');

const BIN = path.resolve(process.env.TENAX_BIN || path.join(__dirname, '../../build/tenax'));
const DEADLINE_MS = 120000; // ends what hangs; nothing that works comes near it

// The document of the API: every answer has to be as it says. Not checked would look like checked.
function loadOpenapi() {
    try {
        return require('./openapi');
    } catch (err) {
        if (err.code !== 'MODULE_NOT_FOUND')
            throw err;
        throw new Error('modules of the tests are missing: run tools/setup test', { cause: err });
    }
}

const openapi = loadOpenapi();

const postgres = process.env.TEST_POSTGRES ? require('./postgres') : null;
const running = new Set();
process.on('exit', () => {
    for (const child of running)
        child.kill('SIGKILL');
});

// Rejects if the promise takes longer than the deadline; what says what was awaited.
function within(promise, what, ms = DEADLINE_MS) {
    let timer;
    const late = new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${text(what)}`)), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function text(what) {
    return typeof what === 'function' ? what() : what;
}

// Asks again until the answer is true, and returns it.
async function until(ask, what) {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
        const answer = await ask();
        if (answer)
            return answer;
        assert.ok(Date.now() < end, `never came true: ${text(what) || ask}`);
        await new Promise((resolve) => setTimeout(resolve, 5));
    }
}

// The environment without settings that whoever runs the tests may have.
function environment(extra) {
    const env = { ...extra };
    if (process.env.TEST_IO_THREADS)
        env.TENAX_IO_THREADS ??= process.env.TEST_IO_THREADS;
    env.XDG_CONFIG_HOME ??= '/dev/null/none'; // where contexts are; nobody can make it
    for (const [name, value] of Object.entries(process.env))
        if (!/^(TENAX|ZIZQ|TASKCLUSTER|OTEL|XDG)_/.test(name) && !(name === 'HOME' && name in env))
            env[name] = value;
    return env;
}

function makeDir() {
    return fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-http-'));
}

// Starts the binary. ended resolves with {code, signal}; says(pattern) awaits words on
// standard error.
function begin(args, env = {}) {
    const child = spawn(BIN, args, { env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(child);
    const process = { child, stdout: '', stderr: '', running: () => running.has(child) };
    child.stdout.on('data', (bytes) => { process.stdout += bytes; });
    child.stderr.on('data', (bytes) => { process.stderr += bytes; });
    process.ended = within(new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => {
            running.delete(child);
            resolve({ code, signal });
        });
    }), () => `tenax ${args.join(' ')} ends; so far ${process.stderr}`, 3 * DEADLINE_MS);
    process.ended.catch(() => {}); // whoever awaits it hears of it
    process.says = (pattern) => until(() => pattern.test(process.stderr), `it says ${pattern}`);
    return process;
}

// Runs the binary to its end: {code, signal, stdout, stderr}.
function run(args, env = {}, input = '') {
    const child = spawn(BIN, args, { env: environment(env), stdio: ['pipe', 'pipe', 'pipe'] });
    child.stdin.on('error', () => {}); // it may end without having read
    child.stdin.end(input);
    running.add(child);
    const out = { stdout: '', stderr: '' };
    child.stdout.on('data', (bytes) => { out.stdout += bytes; });
    child.stderr.on('data', (bytes) => { out.stderr += bytes; });
    const ended = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => {
            running.delete(child);
            resolve({ code, signal, ...out });
        });
    });
    return within(ended, () => `tenax ${args.join(' ')} ends; so far ${JSON.stringify(out)}`);
}

// An address of the loopback that only this process listens on: a port that was free a moment
// ago is still free there, though others on this machine ask for ports all the time.
function ownAddress() {
    const pid = process.pid;
    return `127.${1 + (pid >> 15) % 250}.${(pid >> 7) & 255}.${1 + (pid & 127)}`;
}

// The job that the answer to an enqueue shows, without what only such an answer says.
function jobOf({ duplicate, folded, ...job }) {
    return job;
}

// Options of a test, or of a describe block, that makes no sense everywhere: on 'postgres', where jobs
// are kept in a PostgreSQL, or through a 'standby'. There the runner passes it over and says why; this
// is the one way in which a test may differ between them.
function notOn(where, why) {
    const on = process.env.TEST_POSTGRES;
    const there = on && (where === 'postgres' || where === on);
    return there ? { skip: `not on ${where === 'postgres' ? 'PostgreSQL' : 'a standby'}: ${why}` } : {};
}

const REPORT = /^\/jobs\/([^/]+)\/(success|failure|renew|release|progress)$/;

let names = 0;

// A name that no other test of this file uses.
function queueName(prefix = 'queue') {
    return `${prefix}-${++names}`;
}

function repeat(count, job) {
    return Array.from({ length: count }, () => job);
}

// Tests say themselves which completed jobs are kept; a server that nothing is said to keeps some.
function withRetention(env) {
    return 'ZIZQ_DEFAULT_COMPLETED_JOB_RETENTION' in env ? env
        : { TENAX_DEFAULT_COMPLETED_JOB_RETENTION: '0', ...env };
}

// What a standby says of itself is in tests/postgres; here it is to pass on what it is asked.
function ofOwner(target) {
    return target === '/metrics' || target === '/health' ? `${target}?from=owner` : target;
}

class Server {
    // args and env are further ones; dir is made if it is not given. Requests share
    // connections unless keepAlive is false. bare: no flags but args.
    constructor({ args = [], env = {}, dir = null, keepAlive = true, bare = false } = {}) {
        this.bare = bare;
        this.args = args;
        this.env = env;
        this.dir = dir;
        this.ownsDir = !dir;
        this.child = null;
        this.agent = new http.Agent({ keepAlive, maxSockets: 32 });
        this.tokens = new Map(); // of claimed jobs; see withToken
    }

    async start({ args = this.args, env = this.env } = {}) {
        assert.equal(this.child, null, 'the server runs already');
        this.dir ??= makeDir();
        const own = this.bare ? [] : ['--root-dir', path.join(this.dir, 'root'), '--port', '0',
            '--admin-port', '0'];
        if (process.env.TEST_POSTGRES && !this.bare) {
            this.database ??= await postgres.database();
            own.push('--postgres', this.database, '--lease', '3s');
        }
        const all = ['serve', ...own, ...args];
        const child = spawn(BIN, all, {
            env: environment(withRetention(env)), stdio: ['ignore', 'pipe', 'pipe'],
        });
        this.child = child;
        running.add(child);
        this.stderr = '';
        child.stderr.on('data', (bytes) => { this.stderr += bytes; });
        this.exit = new Promise((resolve, reject) => {
            child.on('error', reject);
            child.on('close', (code, signal) => {
                running.delete(child);
                resolve({ code, signal });
            });
        });
        const lines = await within(this.listening(child),
            () => `the server is up: ${this.stderr}`);
        this.line = lines.primary;
        this.adminUrl = /^Listening on (\S+) \(admin\)$/.exec(lines.admin)?.[1];
        const match = /^Listening on http:\/\/\[?([^\]/]+)\]?:(\d+)$/.exec(this.line);
        assert.ok(match, `the line that says where: ${this.line}`);
        this.host = match[1];
        this.port = Number(match[2]);
        if (this.database)
            await this.join(args, env);
        return this;
    }

    // What the server itself says; on a connection that does not stay, as tests count theirs.
    async ownHealth() {
        return (await this.ask(this.url(), 'GET', '/health', undefined, { connection: 'close' })).json;
    }

    // Until it has the jobs; and, if that is what is tested, a standby is asked instead of it.
    async join(args, env) {
        await until(async () => (await this.ownHealth())?.role === 'owner', 'it owns the jobs');
        if (process.env.TEST_POSTGRES !== 'standby')
            return;
        this.standby = new Server({ args: [...args, '--root-dir', path.join(this.dir, 'standby'), '--port', '0',
            '--admin-port', '0', '--postgres', this.database, '--lease', '3s'], env, dir: this.dir, bare: true });
        await this.standby.start();
        this.owner = this.url();
        ({ host: this.host, port: this.port, adminUrl: this.adminUrl } = this.standby);
        await until(async () => (await this.ownHealth())?.owner, 'the standby knows the owner');
    }

    listening(child) {
        return new Promise((resolve, reject) => {
            let seen = '';
            child.stdout.on('data', (bytes) => {
                seen += bytes;
                // The admin listener's line, if there is one, comes before.
                const lines = seen.split('\n').slice(0, -1);
                const primary = lines.find((line) => !line.endsWith(' (admin)'));
                if (primary !== undefined)
                    resolve({ primary, admin: lines.find((line) => line.endsWith(' (admin)')) });
            });
            this.exit.then(({ code, signal }) =>
                reject(new Error(`exit ${code} ${signal}: ${this.stderr}`)));
        });
    }

    url() {
        return `http://${this.host}:${this.port}`;
    }

    // Sends the signal and waits for the end: {code, signal}.
    async signal(name) {
        await this.standby?.signal('SIGKILL'); // before it takes the jobs over
        this.standby = null;
        this.child.kill(name);
        const end = await within(this.exit, () => `the server ends: ${this.stderr}`);
        this.child = null;
        this.agent.destroy(); // its connections are dead; it makes new ones
        return end;
    }

    // In good order.
    async stop() {
        const end = await this.signal('SIGTERM');
        assert.deepEqual(end, { code: 0, signal: null }, this.stderr);
    }

    async clean() {
        try {
            if (this.child)
                await this.stop();
        } finally {
            this.agent.destroy();
            if (this.ownsDir && this.dir)
                fs.rmSync(this.dir, { recursive: true, force: true });
        }
    }

    // Resolves with {status, headers, bytes, text, json}. A body that is neither text nor
    // bytes is sent as JSON.
    request(method, target, body, headers = {}) {
        return this.ask(this.url(), method, this.standby ? ofOwner(target) : target, body, headers);
    }

    // The same of the admin listener.
    admin(method, target, body, headers = {}) {
        return this.ask(this.adminUrl, method, this.standby ? ofOwner(target) : target, body, headers);
    }

    // A report names the run that was claimed last, as a worker's does, unless it has a token of its
    // own; `token: null` has it sent without.
    withToken(method, target, body) {
        const [, id, verb] = (method === 'POST' && REPORT.exec(target)) || [];
        const none = body === undefined && verb !== 'failure' && verb !== 'progress';
        const isObject = none || Object.getPrototypeOf(body ?? '') === Object.prototype;
        if (!this.tokens.has(id) || !isObject || 'token' in (body ?? {}))
            return body;
        return { ...body, token: this.tokens.get(id) };
    }

    noteTokens(method, target, res) {
        const [, id, verb] = (method === 'POST' && res.status < 300 && REPORT.exec(target)) || [];
        if (verb && verb !== 'renew' && verb !== 'progress')
            this.tokens.delete(id);
        if (method === 'POST' && res.status === 200 && /^\/jobs\/([^/]+\/)?claim$/.test(target))
            for (const job of res.json?.jobs ?? [res.json ?? {}])
                this.tokens.set(job.id, job.token);
    }

    ask(base, method, target, given, headers) {
        const body = this.withToken(method, target, given);
        const bytes = typeof body === 'string' || Buffer.isBuffer(body) || body === undefined
            ? body : JSON.stringify(body);
        const all = { ...headers };
        if (bytes !== undefined) {
            all['content-type'] ??= 'application/json';
            all['content-length'] ??= Buffer.byteLength(bytes);
        }
        const answer = new Promise((resolve, reject) => {
            const { hostname, port } = new URL(base);
            const req = http.request({
                host: hostname.replace(/^\[|\]$/g, ''), port, method, path: target, headers: all,
                agent: this.agent,
            });
            req.on('error', reject);
            req.on('response', (res) => resolve(collect(res)));
            req.end(bytes);
        });
        return within(answer, `${method} ${target} is answered`).then((res) => {
            openapi.check(method, target, res);
            openapi.checkRequest(method, target, all['content-type'], bytes, res);
            this.noteTokens(method, target, res);
            return res;
        });
    }

    get(target, headers) {
        return this.request('GET', target, undefined, headers);
    }

    post(target, body, headers) {
        return this.request('POST', target, body, headers);
    }

    patch(target, body, headers) {
        return this.request('PATCH', target, body, headers);
    }

    delete(target, headers) {
        return this.request('DELETE', target, undefined, headers);
    }

    // Enqueues one job and returns it.
    async enqueue(fields) {
        const res = await this.post('/jobs', { type: 'test', payload: null, ...fields });
        assert.equal(res.status, 201, res.text);
        return jobOf(res.json);
    }

    // Enqueues them in one request and returns their ids.
    async enqueueMany(jobs) {
        const res = await this.post('/jobs/bulk', {
            jobs: jobs.map((job) => ({ type: 'test', payload: null, ...job })),
        });
        assert.equal(res.status, 201, res.text);
        return res.json.jobs.map((job) => job.id);
    }

    // Claims up to count jobs of a queue and returns them.
    async claim(fields) {
        const res = await this.post('/jobs/claim', { wait_ms: 0, ...fields });
        assert.equal(res.status, 200, res.text);
        return res.json.jobs;
    }

    // Its lease, which ends after lease_ms, was renewed: whoever lets it expire is charged.
    async claimConfirmed(queue, fields) {
        const job = await this.claimOne(queue, { ...fields, lease_ms: 60000 });
        const res = await this.post(`/jobs/${job.id}/renew`, { token: job.token, lease_ms: fields.lease_ms });
        return { ...job, ...res.json };
    }

    async claimOne(queue, fields = {}) {
        const jobs = await this.claim({ queues: [queue], count: 1, wait_ms: 20000, ...fields });
        assert.equal(jobs.length, 1, `a job to claim in ${queue}`);
        return jobs[0];
    }

    async job(id) {
        const res = await this.get(`/jobs/${id}`);
        assert.equal(res.status, 200, res.text);
        return res.json;
    }

    async runs(id) {
        const res = await this.get(`/jobs/${id}/runs`);
        assert.equal(res.status, 200, res.text);
        return res.json.runs;
    }

    // Opens a stream of jobs; see Taker.
    async take(query = '', headers = {}) {
        const taker = new Taker(this, query, headers);
        await taker.opened;
        return taker;
    }

    // Opens a stream of events, which come in the place of jobs.
    async events(query = '', headers = {}) {
        const stream = new Taker(this, query, headers, '/events');
        await stream.opened;
        return stream;
    }

    // All events that there are, of those that the query lets through.
    async history(query = '') {
        const res = await this.get(`/events?since=0&follow=false${query}`);
        assert.equal(res.status, 200, res.text);
        return res.text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    }

    // A bare connection; see Wire.
    async wire() {
        const wire = new Wire(this);
        await wire.opened;
        return wire;
    }

    // The server answers, whatever was done to it before.
    async assertServes() {
        const res = await this.get('/health');
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.status, 'ok');
    }
}

function collect(res) {
    return new Promise((resolve, reject) => {
        const chunks = [];
        res.on('data', (chunk) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => resolve(shape(res.statusCode, res.headers, Buffer.concat(chunks))));
    });
}

function shape(status, headers, bytes) {
    const answer = { status, headers, bytes, text: bytes.toString('utf8') };
    if (bytes.length && /json$/.test(headers['content-type']) &&
        !/ndjson/.test(headers['content-type']))
        answer.json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return answer;
}

// Every error is JSON with a sentence and a code.
function assertError(res, status, code, sentence) {
    assert.equal(res.status, status, `status of ${res.text}`);
    assert.equal(res.headers['content-type'], 'application/json');
    assert.equal(typeof res.json.error, 'string');
    assert.ok(res.json.error.length > 0, 'a sentence');
    assert.equal(res.json.code, code, res.text);
    if (sentence)
        assert.match(res.json.error, sentence);
}

// The jobs of one GET /jobs/take as they come, or what else comes in lines.
class Taker {
    constructor(server, query, headers, target = '/jobs/take') {
        this.server = server;
        this.jobs = []; // not asked for yet
        this.lines = []; // of all jobs
        this.beats = 0;
        this.wakeups = [];
        this.rest = '';
        this.over = false;
        this.req = http.get({
            host: server.host, port: server.port, path: target + query, agent: false, headers,
        });
        this.opened = within(new Promise((resolve, reject) => {
            this.req.on('error', (err) => { this.end(); reject(err); });
            this.req.on('response', (res) => { this.listen(res); resolve(); });
        }), 'the stream is open');
    }

    listen(res) {
        this.res = res;
        this.status = res.statusCode;
        this.headers = res.headers;
        res.setEncoding('utf8');
        res.on('data', (chunk) => this.input(chunk));
        res.on('error', () => this.end());
        res.on('close', () => this.end());
        res.on('end', () => { this.inGoodOrder = true; });
    }

    input(chunk) {
        const lines = (this.rest + chunk).split('\n');
        this.rest = lines.pop();
        for (const line of lines) {
            if (line === '') {
                this.beats++;
            } else {
                const job = JSON.parse(line);
                this.lines.push(line);
                this.jobs.push(job);
                this.server.tokens.delete(job.id); // its reports go without
            }
        }
        this.wake();
    }

    end() {
        this.over = true;
        this.wake();
    }

    wake() {
        for (const wakeup of this.wakeups.splice(0))
            wakeup();
    }

    async until(condition, what) {
        const came = async () => {
            while (!condition() && !this.over)
                await new Promise((resolve) => this.wakeups.push(resolve));
        };
        await within(came(), what);
        assert.ok(condition(), `${what}, but the stream ended`);
    }

    async next() {
        await this.until(() => this.jobs.length > 0, 'a job comes');
        return this.jobs.shift();
    }

    async nextIds(count) {
        const ids = [];
        while (ids.length < count)
            ids.push((await this.next()).id);
        return ids;
    }

    // Awaits two heartbeats: what was to come before them has come.
    async assertQuiet() {
        const enough = this.beats + 2;
        await this.until(() => this.beats >= enough, 'two heartbeats');
        assert.deepEqual(this.jobs.map((job) => job.id), [], 'no further job');
    }

    async ended() {
        const end = async () => {
            while (!this.over)
                await new Promise((resolve) => this.wakeups.push(resolve));
        };
        await within(end(), 'the stream ends');
    }

    close() {
        this.req.destroy();
    }
}

// A connection for requests that no HTTP client would send.
class Wire {
    constructor(server) {
        this.seen = Buffer.alloc(0);
        this.over = false;
        this.wakeups = [];
        this.socket = net.connect({ host: server.host, port: server.port, allowHalfOpen: true });
        this.socket.setNoDelay(true);
        this.opened = new Promise((resolve) => this.socket.on('connect', resolve));
        this.socket.on('data', (bytes) => {
            this.seen = Buffer.concat([this.seen, bytes]);
            this.wake();
        });
        const ended = () => { this.over = true; this.wake(); };
        this.socket.on('end', ended);
        this.socket.on('error', ended); // a reset is an end too
        this.socket.on('close', ended);
    }

    wake() {
        for (const wakeup of this.wakeups.splice(0))
            wakeup();
    }

    send(bytes) {
        this.socket.write(bytes);
        return this;
    }

    // Once this has resolved, a reply to any later request on another connection is proof
    // that the server has read these bytes, if it had accepted this connection before: they
    // were in its socket before that request.
    sendAll(bytes) {
        return new Promise((resolve) => this.socket.write(bytes, resolve));
    }

    // Shuts down this side only.
    end() {
        this.socket.end();
        return this;
    }

    close() {
        this.socket.destroy();
    }

    more() {
        return within(new Promise((resolve) => this.wakeups.push(resolve)),
            () => `bytes or an end; so far ${JSON.stringify(this.seen.toString())}`);
    }

    // Takes n bytes.
    async bytes(n) {
        while (this.seen.length < n) {
            assert.ok(!this.over,
                `the connection ended after ${JSON.stringify(this.seen.toString())}`);
            await this.more();
        }
        const taken = this.seen.subarray(0, n);
        this.seen = this.seen.subarray(n);
        return taken;
    }

    // Takes what comes before the mark, and drops the mark.
    async before(mark) {
        let at;
        while ((at = this.seen.indexOf(mark)) < 0) {
            assert.ok(!this.over,
                `the connection ended after ${JSON.stringify(this.seen.toString())}`);
            await this.more();
        }
        const taken = (await this.bytes(at)).toString('latin1');
        await this.bytes(mark.length);
        return taken;
    }

    async chunks() {
        const parts = [];
        for (;;) {
            const size = parseInt(await this.before('\r\n'), 16);
            parts.push(await this.bytes(size));
            await this.before('\r\n');
            if (size === 0)
                return Buffer.concat(parts);
        }
    }

    async head() {
        const lines = (await this.before('\r\n\r\n')).split('\r\n');
        const match = /^HTTP\/1\.1 (\d{3}) /.exec(lines[0]);
        assert.ok(match, `a status line: ${lines[0]}`);
        const headers = {};
        for (const line of lines.slice(1)) {
            const colon = line.indexOf(':');
            headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
        }
        return { status: Number(match[1]), headers };
    }

    // The next response; of one to HEAD there is no body.
    async response({ head = false } = {}) {
        const { status, headers } = await this.head();
        let body = Buffer.alloc(0);
        if (head || status < 200 || status === 204 || status === 304)
            return shape(status, head ? { ...headers, 'content-type': undefined } : headers, body);
        if (headers['transfer-encoding'] === 'chunked')
            body = await this.chunks();
        else
            body = await this.bytes(Number(headers['content-length']));
        return shape(status, headers, body);
    }

    // The server has closed its side, and has sent nothing beyond what was taken.
    async assertEnds() {
        while (!this.over)
            await this.more();
        assert.equal(this.seen.toString(), '', 'nothing but what was asked for');
    }
}

// Bytes of a request with a body, Content-Length included.
function rawPost(target, body, headers = '') {
    const bytes = Buffer.from(body);
    return Buffer.concat([
        Buffer.from(`POST ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
                    `${headers}Content-Length: ${bytes.length}\r\n\r\n`),
        bytes,
    ]);
}

function rawGet(target, headers = '') {
    return `GET ${target} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`;
}

// A server for all tests of a describe block.
function useServer(options) {
    const server = new Server(options);
    before(() => server.start());
    after(() => server.clean());
    return server;
}

module.exports = {
    BIN, Server, Taker, Wire, assertError, begin, environment, makeDir, notOn, ownAddress, queueName, rawGet, rawPost,
    repeat, run, running, until, useServer, within,
    jobOf,
};
