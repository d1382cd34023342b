#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// Jobs as pods at scale: a server, the tests' API server, and one executor, each a process of its
// own. All pods are made to live at the same time, which says what one costs in memory; then they
// end, a tenth of them as failures whose logs and events are read, and are deleted.
//
//     bench/executor.js TENAX [--pods N] [--dir DIR] [--json]
//
// Nothing is assumed to have worked: every job must have ended as its pod did, by one pod.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');

const DOUBLE = path.join(__dirname, '../tests/kubernetes/double/main.js');
const FAILING = 10; // one in so many
const BATCH = 500;
const STEPS_AT_ONCE = 32;
const POLL_MS = 20;
const DEADLINE_MS = 300000;
const LIVE = [{ do: 'running' }, { do: 'log', text: 'one line\nanother one\n' }];

const { values, positionals } = parseArgs({ allowPositionals: true, options: {
    pods: { type: 'string', default: '5000' },
    dir: { type: 'string', default: os.tmpdir() },
    json: { type: 'boolean', default: false },
} });
const count = Number(values.pods);
const tenax = path.resolve(positionals[0] || '');
const children = new Set();
const agent = new http.Agent({ keepAlive: true, maxSockets: STEPS_AT_ONCE });
const dir = fs.mkdtempSync(path.join(values.dir, 'executor.'));

process.on('exit', () => {
    for (const child of children)
        child.kill('SIGKILL');
    fs.rmSync(dir, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => process.exit(1));

function fail(words) {
    throw new Error(words);
}

// Resolves with the first match of the pattern in what the child says.
function start(name, command, args, pattern, stream = 'stdout') {
    const child = spawn(command, args, { cwd: dir, env: { PATH: process.env.PATH, HOME: dir },
        stdio: ['pipe', 'pipe', 'pipe'] });
    children.add(child);
    let said = '';
    return new Promise((resolve, reject) => {
        for (const one of ['stdout', 'stderr'])
            child[one].on('data', (bytes) => {
                said = (said + bytes).slice(-10000);
                const match = one === stream && pattern.exec(said);
                if (match)
                    resolve({ child, match });
            });
        child.on('error', reject);
        child.on('exit', (code) => {
            children.delete(child);
            if (!child.ending)
                reject(new Error(`${name} ended with ${code}: ${said}`));
        });
    });
}

function ask(method, url, body) {
    return new Promise((resolve, reject) => {
        const bytes = body === undefined ? undefined : JSON.stringify(body);
        const req = http.request(url, { method, agent, headers: bytes === undefined ? {}
            : { 'content-type': 'application/json' } }, (res) => {
            let text = '';
            res.setEncoding('utf8');
            res.on('data', (part) => { text += part; });
            res.on('error', reject);
            res.on('end', () => {
                if (res.statusCode >= 300)
                    reject(new Error(`${method} ${url}: ${res.statusCode} ${text}`));
                else
                    resolve(text);
            });
        });
        req.on('error', reject);
        req.end(bytes);
    });
}

async function until(what, test) {
    const end = Date.now() + DEADLINE_MS;
    while (!(await test())) {
        if (Date.now() > end)
            fail(`it never came true that ${what}`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
}

function kib(pid) {
    return Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

// User and system time in seconds. The name, in parentheses, could hold spaces.
function cpu(pid) {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100;
}

const metric = (text, name) => Number(new RegExp(`^tenax_executor_${name} (\\d+)$`, 'm')
    .exec(text)?.[1]);

function calls(text) {
    const all = {};
    for (const [, verb, n] of text.matchAll(
        /^tenax_executor_api_calls_total\{verb="([^"]+)",code="[^"]+"\} (\d+)$/gm))
        all[verb] = (all[verb] || 0) + Number(n);
    return all;
}

class Bench {
    async start() {
        const server = await start('the server', tenax, ['serve', '--port', '0', '--admin-port', '0',
            '--root-dir', path.join(dir, 'root')], /^Listening on (http:\S+:\d+)$/m);
        this.url = server.match[1];
        const double = await start('the API server', process.execPath, [DOUBLE, '--namespace', 'bench',
            '--no-events', '--history', '200000', '--script', JSON.stringify(LIVE)], /^(\{.*\})$/m);
        const told = JSON.parse(double.match[1]);
        this.control = told.control;
        const executor = await start('the executor', tenax, ['executor', '--server', this.url,
            '--queue', 'bench', '--kubeconfig', told.kubeconfig, '--namespace', 'bench',
            '--max-pods', String(count), '--keep-finished', '0s', '--keep-failed', '0s',
            '--state-dir', path.join(dir, 'state'), '--metrics-port', '0'],
        /metrics on (\S+)[^]*runs jobs of/, 'stderr');
        this.executor = executor.child.pid;
        this.metricsUrl = executor.match[1];
    }

    metrics() {
        return ask('GET', this.metricsUrl);
    }

    async jobs(query) {
        return JSON.parse(await ask('GET', `${this.url}/jobs/count?queue=bench&${query}`)).count;
    }

    async enqueue() {
        const podSpec = { containers: [{ name: 'main', image: 'registry.example/work:1',
            command: ['/bin/sh', '-c', 'exec /opt/work --input /data'],
            env: [{ name: 'MODE', value: 'fast' }],
            resources: { limits: { cpu: '100m', memory: '64Mi' } } }] };
        for (let left = count; left > 0; left -= BATCH) {
            const jobs = Array.from({ length: Math.min(left, BATCH) }, () => ({ queue: 'bench',
                type: 'bench', payload: { podSpec }, retry_limit: 0,
                retention: { completed_ms: 3600000, dead_ms: 3600000 } }));
            await ask('POST', `${this.url}/jobs/bulk`, { jobs });
        }
    }

    async end() {
        const pods = JSON.parse(await ask('GET', `${this.control}/pods`)).value;
        if (pods.length !== count)
            fail(`${pods.length} pods, not ${count}`);
        let next = 0;
        const work = async () => {
            while (next < pods.length) {
                const i = next++;
                const step = i % FAILING === 0 ? ['failed', { code: 3 }] : ['succeeded', {}];
                await ask('POST', `${this.control}/phase`, ['bench', pods[i].metadata.name, ...step]);
            }
        };
        await Promise.all(Array.from({ length: STEPS_AT_ONCE }, work));
    }

    async run() {
        await this.start();
        await until('the pods are watched', async () => metric(await this.metrics(), 'cluster_up') === 1);
        const before = { kib: kib(this.executor), cpu: cpu(this.executor) };
        const begun = process.hrtime.bigint();
        const seconds = () => Number(process.hrtime.bigint() - begun) / 1e9;
        await this.enqueue();
        await until('all pods run', async () =>
            metric(await this.metrics(), 'pods\\{phase="running"\\}') === count);
        const live = { s: seconds(), kib: kib(this.executor), cpu: cpu(this.executor) };
        const from = seconds();
        await this.end();
        const failing = Math.ceil(count / FAILING);
        await until('all jobs have ended and all pods are gone', async () =>
            await this.jobs('status=ready,in_flight,scheduled') === 0 &&
            JSON.parse(await ask('GET', `${this.control}/pods`)).value.length === 0);
        const ended = { s: seconds() - from, cpu: cpu(this.executor) };
        if (await this.jobs('status=dead') !== failing ||
            await this.jobs('status=completed') !== count - failing)
            fail('jobs have not ended as their pods have');
        return this.result(before, live, ended);
    }

    async result(before, live, ended) {
        const asked = calls(await this.metrics());
        const total = Object.values(asked).reduce((sum, n) => sum + n, 0);
        const created = JSON.parse(await ask('GET', `${this.control}/requests`))
            .value['create pods 201'];
        if (created !== count)
            fail(`${created} pods were created, not ${count}`);
        const short = (number) => Number(number.toFixed(2));
        return { pods: count, calls: asked, calls_per_pod: short(total / count),
            kib_per_live_pod: short((live.kib - before.kib) / count),
            started_per_s: Math.round(count / live.s), ended_per_s: Math.round(count / ended.s),
            cpu_ms_per_pod: short((ended.cpu - before.cpu) * 1000 / count) };
    }
}

async function main() {
    if (!fs.existsSync(tenax) || !(count > 0))
        fail('usage: bench/executor.js TENAX [--pods N] [--dir DIR] [--json]');
    const r = await new Bench().run();
    if (values.json) {
        process.stdout.write(`${JSON.stringify(r)}\n`);
        return;
    }
    process.stdout.write(`${r.pods} pods: ${r.calls_per_pod} API calls each ` +
        `(${Object.entries(r.calls).map(([verb, n]) => `${verb} ${n}`).join(', ')}), ` +
        `${r.kib_per_live_pod} KiB of the executor's memory for each that lives, ` +
        `${r.cpu_ms_per_pod} ms of its processor; ${r.started_per_s}/s ` +
        `started, ${r.ended_per_s}/s ended\n`);
}

main().then(() => process.exit(0), (err) => {
    process.stderr.write(`bench/executor.js: ${err.message}\n`);
    process.exit(1);
});
