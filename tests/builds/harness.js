// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the end-to-end tests of `tenax build-worker` share: a real RabbitMQ (or, with the option
// `tenax`, a real Tenax server, whose jobs are the messages), the Kubernetes double,
// an API that stands in for Screwdriver's (screwdriver.js), and real workers. A test has a site of
// its own: queues, a state directory, and builds whose ids nobody else has. Times are scaled by
// settings; nothing sleeps for a fixed time.

const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before } = require('node:test');
const { caught, startBroker, until, Wire } = require('../amqp/broker.js');
const { Server } = require('../http/harness.js');
const { startDouble } = require('../kubernetes/double');
const { startScrewdriver, SECRET } = require('./screwdriver.js');

const BIN = path.resolve(process.env.TENAX_BIN || 'build/tenax');
const PROBE = path.join(path.dirname(BIN), 'tests', 'amqp', 'amqp_probe');
const DEADLINE_MS = 160000; // ends what hangs; nothing that works comes near it
const NOBODY = 65534;

const running = new Set();
process.on('exit', () => {
    for (const child of running)
        child.kill('SIGKILL');
});

function await_(what, check) {
    return until(what, check, DEADLINE_MS);
}

// What is held until it may go on: fault({…, hold}), and goOn().
function gate() {
    let goOn;
    const hold = new Promise((resolve) => { goOn = resolve; });
    return { hold, goOn };
}

function run(args, env) {
    return new Promise((resolve) => {
        execFile(BIN, ['build-worker', ...args], { env },
            (err, out, errors) => resolve({ code: err ? err.code : 0, out, errors }));
    });
}

// Publishes with confirms, as Screwdriver's queue service does.
class Publisher {
    constructor(port) {
        this.count = 0;
        this.lines = '';
        this.child = spawn(PROBE, [`127.0.0.1:${port}`, '1', '60000'], { stdio: ['pipe', 'pipe', 'inherit'] });
        this.child.stdout.on('data', (bytes) => { this.lines += bytes; });
        this.child.stdin.on('error', () => {});
        running.add(this.child);
        this.ended = new Promise((resolve) => this.child.on('exit', (code) => {
            running.delete(this.child);
            resolve(code);
        }));
    }

    async publish(exchange, key, body) {
        const id = ++this.count;
        this.child.stdin.write(`post ${id} ${exchange} ${key} -1 - ${body}\n`);
        await await_(`message ${id} is published`, () => this.lines.includes(`published ${id} `));
        assert.ok(this.lines.includes(`published ${id} confirmed`), `nobody takes ${key}`);
    }

    async close() {
        this.child.stdin.write('close\n');
        assert.equal(await this.ended, 0);
    }
}

class Worker {
    // wrap: a command that runs the worker, as ['nice']
    constructor(site, { args = [], env = {}, uid, wrap = [] } = {}) {
        this.site = site;
        this.log = '';
        const options = { env: { ...site.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'], cwd: site.folder };
        if (uid !== undefined)
            Object.assign(options, { uid, gid: uid });
        const [file, ...rest] = [...wrap, BIN, 'build-worker', ...args];
        const child = spawn(file, rest, options);
        this.child = child;
        running.add(child);
        child.stderr.on('data', (bytes) => { this.log += bytes; });
        this.ended = new Promise((resolve) => child.on('close', (code, signal) => {
            running.delete(child);
            this.over = { code, signal };
            resolve(this.over);
        }));
    }

    says(pattern) {
        return await_(() => `the worker says ${pattern}:\n${this.log}`, () => {
            assert.ok(!this.over || pattern.test(this.log), `it has ended:\n${this.log}`);
            return pattern.test(this.log);
        });
    }

    // What GET answers, once the listener is there.
    async get(target) {
        await this.says(/health on http:\/\/127\.0\.0\.1:\d+/);
        const [, port] = /health on http:\/\/127\.0\.0\.1:(\d+)/.exec(this.log);
        const answer = await fetch(`http://127.0.0.1:${port}${target}`);
        return { status: answer.status, text: await answer.text() };
    }

    health() {
        return this.get('/health');
    }

    well() {
        return await_(() => `the worker is well:\n${this.log}`, async () => {
            assert.ok(!this.over, `it has ended:\n${this.log}`);
            return (await this.health()).status === 200;
        });
    }

    async metric(name) {
        const { text } = await this.get('/metrics');
        const match = new RegExp(`^tenax_builds_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text);
        assert.ok(match, `there is no ${name}:\n${text}`);
        return Number(match[1]);
    }

    // The n-th delays that it says of a build: [200, 250, …].
    delays(id) {
        const pattern = new RegExp(`build ${id} is \\w+.*again in (\\d+) ms`, 'g');
        return [...this.log.matchAll(pattern)].map((match) => Number(match[1]));
    }

    async stop() {
        if (!this.over)
            await caught(this.child.pid, 'SIGTERM');
        if (!this.over)
            this.child.kill('SIGTERM');
        assert.deepEqual(await this.ended, { code: 0, signal: null }, this.log);
    }

    async kill() {
        if (!this.over)
            this.child.kill('SIGKILL');
        await this.ended;
    }
}

// Queues, a state directory and workers of a test.
class Site {
    constructor(bed, number, env) {
        this.bed = bed;
        this.queue = `sd${number}`;
        this.retry = `retry${number}`;
        this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-site-'));
        this.workers = [];
        fs.copyFileSync(bed.ca, path.join(this.folder, 'ca.pem'));
        this.env = {
            PATH: process.env.PATH, HOME: this.folder, LANG: 'C.UTF-8',
            RABBITMQ_QUEUE: this.queue, RABBITMQ_RETRYQUEUE: this.retry,
            RABBITMQ_RETRYQUEUE_ENABLED: 'true', ...bed.brokerSettings(number),
            RABBITMQ_CONNECT_OPTIONS: '{"heartbeatIntervalInSeconds":30,"reconnectTimeInSeconds":1}',
            K8S_HOST: new URL(bed.double.url).host, K8S_TOKEN: 'admin-token',
            K8S_CA_FILE: path.join(this.folder, 'ca.pem'),
            ECOSYSTEM_API: bed.api.url, REQUEST_RETRYDELAY: '50', CIRCUIT_TIMEOUT: '30000',
            HOST: '127.0.0.1', PORT: '0', TENAX_STATE_DIR: path.join(this.folder, 'state'),
            VERIFY_DELAY: '150ms', VERIFY_STEP: '50ms', SCHEDULING_TIMEOUT: '900ms', ...env,
        };
    }

    async declare() {
        if (this.bed.server)
            return this;
        const { code, out, errors } = await run(['topology', 'declare'], this.env);
        assert.equal(code, 0, out + errors);
        return this;
    }

    worker(options) {
        const worker = new Worker(this, options);
        this.workers.push(worker);
        return worker;
    }

    get log() {
        return this.workers.map((worker) => worker.log).join('');
    }

    publish(message) {
        if (this.bed.server)
            return this.bed.server.enqueue({ queue: this.queue, type: 'build', payload: message,
                backoff: { base_ms: 100, exponent: 0, jitter_ms: 0 } });
        return this.bed.publisher.publish('build', this.queue,
            typeof message === 'string' ? message : JSON.stringify(message));
    }

    // A build that Screwdriver knows, and whose pod does what the script says.
    build(script) {
        const id = this.bed.nextBuild++;
        if (script)
            this.bed.double.script(script, { match: { name: `^${this.env.EXECUTOR_PREFIX || ''}${id}-` } });
        return this.bed.api.add(id);
    }

    // The buildConfig of the queue service.
    config(build, fields = {}) {
        return {
            jobId: 1000 + build.id, jobName: 'main', jobState: 'ENABLED', buildId: build.id,
            eventId: 2000 + build.id, blockedBy: [1000 + build.id], freezeWindows: [],
            annotations: {}, container: 'node:20', apiUri: this.bed.api.url, token: build.token,
            pipeline: { id: 77, name: 'team/repository', scmContext: 'github:github.com' },
            enqueueTime: '2026-11-22T09:00:00.000Z', isPR: false, ...fields,
        };
    }

    start(build, fields) {
        return this.publish({ job: 'start', buildConfig: this.config(build, fields) });
    }

    stop(build) {
        return this.publish({ job: 'stop', buildConfig: { buildId: build.id, jobId: 1000 + build.id,
            jobName: 'main' } });
    }

    clear(fields) {
        return this.publish({ job: 'clear', cacheConfig: { resource: 'caches', action: 'delete',
            prefix: '', scope: 'pipelines', pipelineId: 1, id: 1, ...fields } });
    }

    pods(build) {
        return this.bed.double.pods('default').filter((pod) =>
            pod.metadata.labels.sdbuild === `${this.env.EXECUTOR_PREFIX || ''}${build.id}`);
    }

    podThere(build) {
        return await_(() => `build ${build.id} has a pod:\n${this.log}`, () => this.pods(build)[0]);
    }

    podGone(build) {
        return await_(() => `the pods of build ${build.id} are gone:\n${this.log}`,
            () => this.pods(build).length === 0);
    }

    // It runs for Screwdriver: the worker has said where.
    runs(build) {
        return await_(() => `build ${build.id} runs:\n${this.log}`, () => build.stats.hostname);
    }

    async fails(build, message) {
        await await_(() => `build ${build.id} fails:\n${this.log}`, () => build.status === 'FAILURE');
        assert.deepEqual(build.finals, ['FAILURE']);
        assert.match(build.statusMessage, message);
    }

    // Messages by queue, those that are being worked on included.
    async counts() {
        if (this.bed.server)
            return this.jobs();
        const out = await this.bed.broker.ctl('list_queues', 'name', 'messages');
        const all = Object.fromEntries(out.trim().split('\n').map((line) => line.split('\t')));
        return Object.fromEntries(Object.entries(all).filter(([name]) =>
            new RegExp(`^(${this.queue}(dlr)?|${this.retry}(-.*)?)$`).test(name))
            .map(([name, count]) => [name, Number(count)]));
    }

    // The same of a Tenax server: jobs that are not completed.
    async jobs() {
        const counts = {};
        for (const queue of [this.queue, this.retry]) {
            const answer = await this.bed.server.get(`/jobs?queue=${queue}&limit=1000`);
            assert.equal(answer.status, 200, answer.text);
            counts[queue] = answer.json.jobs.filter((job) => job.status !== 'completed').length;
        }
        return counts;
    }

    empty() {
        let last;
        return await_(() => `all queues are empty: ${JSON.stringify(last)}\n${this.log}`, async () => {
            last = await this.counts();
            return Object.keys(last).length >= 2 && Object.values(last).every((count) => count === 0);
        });
    }

    async close() {
        try {
            for (const worker of this.workers)
                if (!worker.over)
                    await worker.stop();
            assert.ok(!this.log.includes(SECRET), 'a token is in the log');
            assert.ok(!this.log.includes('admin-token'), 'the cluster\'s token is in the log');
            assert.doesNotMatch(this.log, /must_fail|runtime error|AddressSanitizer/);
        } finally {
            for (const worker of this.workers)
                await worker.kill();
            fs.rmSync(this.folder, { recursive: true, force: true });
        }
    }
}

class Bed {
    constructor(options = {}) {
        this.options = options;
        this.nextBuild = 1000;
        this.sites = 0;
    }

    async start() {
        if (this.options.tenax) {
            this.server = await new Server().start();
        } else {
            this.broker = await startBroker();
            this.publisher = new Publisher(this.broker.port);
        }
        this.double = await startDouble({ tls: true, nodes: 2, ...this.options.double });
        this.api = await startScrewdriver();
        this.ca = path.join(this.double.dir, 'authority.pem');
        fs.writeFileSync(this.ca, this.double.authority.ca.cert);
        return this;
    }

    brokerSettings(number) {
        if (this.server)
            return { TENAX_BROKER: 'tenax', TENAX_URL: this.server.url() };
        return {
            RABBITMQ_HOST: `127.0.0.1:${this.broker.port}`, RABBITMQ_USERNAME: 'guest',
            RABBITMQ_PASSWORD: 'guest', RABBITMQ_VIRTUAL_HOST: '//',
            RABBITMQ_DEFAULT_QUEUE: `default${number}`, RABBITMQ_DLR_TTL: '100ms',
        };
    }

    // By somebody else than a worker.
    async createPod(pod) {
        await this.double.request('POST', '/api/v1/namespaces/default/pods', { apiVersion: 'v1', kind: 'Pod', ...pod });
    }

    async deletePod(name) {
        await this.double.request('DELETE', `/api/v1/namespaces/default/pods/${name}`);
    }

    async site(env) {
        return new Site(this, ++this.sites, env).declare();
    }

    // Runs the test with a site, and checks at its end what holds for every one.
    async with(env, test) {
        const site = await this.site(env);
        try {
            await test(site);
            await site.close();
        } finally {
            this.double.clearFaults();
            this.api.clearFaults();
            for (const worker of site.workers)
                await worker.kill();
            fs.rmSync(site.folder, { recursive: true, force: true });
        }
    }

    async stop() {
        await this.api.stop();
        await this.double.stop();
        if (this.server) {
            await this.server.clean();
            return;
        }
        await this.publisher.close();
        await this.broker.stop();
    }
}

// One bed for the tests of a file.
function useBed(options) {
    const bed = new Bed(options);
    before(() => bed.start());
    after(() => bed.stop());
    return bed;
}

module.exports = { Bed, NOBODY, SECRET, Wire, gate, run, until: await_, useBed };
