// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of `tenax executor` share: a real server, real executors, and a cluster (cluster.js):
// the double, or a real API server. Each file starts its own; nothing sleeps for a fixed time.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { after, before } = require('node:test');
const { BIN, Server, environment, queueName, until } = require('../http/harness');
const { caught } = require('../amqp/broker');
const { onlyDouble, startCluster } = require('./cluster');

const SCRIPT = 'double.tenax.dev/script';
const running = new Set();
process.on('exit', () => {
    for (const child of running)
        child.kill('SIGKILL');
});

// A payload of one container, whose pod does what the script says.
function pod(script, fields = {}) {
    const { annotations, spec, ...rest } = fields;
    return {
        annotations: { ...(script ? { [SCRIPT]: JSON.stringify(script) } : {}), ...annotations },
        podSpec: {
            containers: [{ name: 'main', image: 'registry.example/work:1',
                resources: { limits: { cpu: '100m', memory: '64Mi' } } }],
            terminationGracePeriodSeconds: 1,
            ...spec,
        },
        ...rest,
    };
}

class Executor {
    constructor(bed, { queue, args = [], env = {}, dir, server = bed.server } = {}) {
        this.bed = bed;
        this.server = server; // or what is before it
        this.queue = queue;
        this.args = args;
        this.env = env;
        this.dir = dir || fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-executor-'));
        this.stderr = '';
        this.child = null;
    }

    start({ args = this.args } = {}) {
        assert.equal(this.child, null, 'the executor runs already');
        const all = ['executor', '--server', this.server.url(), '--queue', this.queue,
            '--kubeconfig', this.bed.kubeconfig, '--namespace', this.bed.namespace, ...args];
        const child = spawn(BIN, all, {
            cwd: this.dir, env: { ...environment({}), KUBECONFIG: '', XDG_STATE_HOME: '', HOME: this.dir, ...this.env },
            stdio: ['ignore', 'ignore', 'pipe'],
        });
        this.child = child;
        running.add(child);
        child.stderr.on('data', (bytes) => { this.stderr += bytes; });
        this.ended = new Promise((resolve) => child.on('close', (code, signal) => {
            running.delete(child);
            this.child = null;
            resolve({ code, signal });
        }));
        return this;
    }

    says(pattern) {
        return until(() => pattern.test(this.stderr), `it says ${pattern}`);
    }

    // Waits until its journal has such a record.
    written(pattern) {
        const lines = (dir) => fs.readdirSync(dir, { withFileTypes: true }).map((entry) => {
            const file = path.join(dir, entry.name);
            if (entry.isDirectory())
                return lines(file);
            return entry.name.startsWith('journal') && fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
        }).join('');
        return until(() => pattern.test(lines(this.dir)), `its journal has ${pattern}`);
    }

    async signal(name) {
        const { ended } = this;
        if (name !== 'SIGKILL')
            await caught(this.child.pid, name);
        this.child?.kill(name);
        return ended;
    }

    async stop() {
        if (!this.child)
            return;
        const end = await this.signal('SIGTERM');
        assert.deepEqual(end, { code: 0, signal: null }, this.stderr);
    }

    async kill() {
        if (this.child)
            await this.signal('SIGKILL');
    }
}

// A server, a cluster, and executors that are made as they are needed.
class Bed {
    constructor(options = {}) {
        this.options = options;
        this.executors = [];
    }

    async start() {
        this.server = await new Server(this.options.server).start();
        this.cluster = await startCluster(this.options.cluster);
        this.double = this.cluster.double; // undefined: a real server
        this.namespace = this.cluster.namespace;
        this.kubeconfig = this.cluster.kubeconfig();
        return this;
    }

    executor(options = {}) {
        const x = new Executor(this, { queue: queueName(), ...options });
        this.executors.push(x);
        return x;
    }

    async stop() {
        try {
            for (const x of this.executors)
                await x.stop();
        } finally {
            for (const x of this.executors) {
                await x.kill();
                fs.rmSync(x.dir, { recursive: true, force: true });
            }
            await this.cluster.stop();
            await this.server.clean();
        }
    }

    enqueue(executor, payload, fields = {}) {
        const own = payload.podSpec
            ? { ...payload, podSpec: this.cluster.podSpec(payload.podSpec) } : payload;
        return this.server.enqueue({ queue: executor.queue, payload: own, ...fields,
            retention: { completed_ms: 3600000, dead_ms: 3600000 } });
    }

    pods() {
        return this.cluster.pods('tenax.dev/job');
    }

    podsOf(id) {
        return this.cluster.pods(`tenax.dev/job=${id}`);
    }

    async podOf(id, run = 0) {
        return (await this.cluster.pods(`tenax.dev/job=${id},tenax.dev/run=${run}`))[0];
    }

    // Something happens to a pod, or to the newest one of a job.
    async phase(pod, step, details) {
        return this.cluster.phase(pod.metadata.name, step, details);
    }

    // Calls see(pods) again and again, until the function that it returns is awaited.
    observe(see) {
        let over = false;
        const done = (async () => {
            while (!over) {
                see(await this.pods());
                await new Promise((resolve) => setTimeout(resolve, 3));
            }
        })();
        return async () => { over = true; await done; };
    }

    // Waits until the job has that status, and returns it.
    async status(id, status) {
        let job;
        await until(async () => {
            job = await this.server.job(id);
            return job.status === status;
        }, `job ${id} is ${status}: ${this.executors.map((x) => x.stderr).join('')}`);
        return job;
    }

    async run(id, index = 0) {
        return (await this.server.runs(id))[index];
    }

    // Waits until that run has ended, whatever becomes of the job then, and returns it.
    ended(id, index = 0) {
        return until(async () => {
            const run = await this.run(id, index);
            return run && run.outcome !== 'running' && run;
        }, `run ${index} of ${id} has ended`);
    }

    // Waits for a pod of the job, and for a phase of it if one is given.
    pod(id, run = 0, phase = null) {
        return until(async () => {
            const p = await this.podOf(id, run);
            return p && (!phase || p.status.phase === phase) && p;
        }, `there is a pod of ${id} run ${run}, ${phase}`);
    }

    gone(id, run = 0) {
        return until(async () => !await this.podOf(id, run), `the pod of ${id} run ${run} is gone`);
    }
}

// One bed for the tests of a describe.
function useBed(options) {
    const bed = new Bed(options);
    before(() => bed.start());
    after(() => bed.stop());
    return bed;
}

module.exports = { Bed, Executor, SCRIPT, onlyDouble, pod, useBed };
