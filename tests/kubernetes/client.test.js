// SPDX-License-Identifier: Apache-2.0
'use strict';

// The client of kube/ and its watches, driven through kube_probe.c: what an API server does to
// those who follow it.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { createInterface } = require('node:readline');
const { once } = require('node:events');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const { startCluster, onlyDouble } = require('./cluster');

const PROBE = path.join(path.dirname(path.resolve(process.env.TENAX_BIN || 'build/tenax')),
    'tests/kubernetes/kube_probe');
const DEADLINE_MS = 120000; // ends what hangs; nothing that works comes near it
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A probe that runs; its lines are kept until they are asked for.
class Probe {
    constructor(kubeconfig, namespace, { page = 500, stall = 60000 } = {}) {
        this.child = spawn(PROBE, [kubeconfig, namespace, String(page), String(stall)],
            { stdio: ['pipe', 'pipe', 'pipe'] });
        this.lines = [];
        this.errors = '';
        this.child.stderr.on('data', (text) => {
            this.errors += text;
        });
        createInterface({ input: this.child.stdout }).on('line', (line) => this.lines.push(line));
        this.exited = once(this.child, 'exit');
    }

    send(command) {
        this.child.stdin.write(`${command}\n`);
    }

    // The first line that matches; it and those before it are forgotten, or only it.
    async expect(pattern, { only } = {}) {
        const end = Date.now() + DEADLINE_MS;
        for (;;) {
            const i = this.lines.findIndex((line) => pattern.test(line));
            if (i >= 0 && only)
                return this.lines.splice(i, 1)[0];
            if (i >= 0) {
                this.passed = this.lines.splice(0, i + 1);
                return this.passed.at(-1);
            }
            if (Date.now() > end || this.child.exitCode !== null)
                assert.fail(`no line ${pattern} in:\n${this.lines.join('\n')}\n${this.errors}`);
            await pause(5);
        }
    }

    async ask(command) {
        this.send(command);
        const [, reason, status, tries, version, ...message] =
            (await this.expect(/^answer /, { only: true })).split(' ');
        return { reason, status: Number(status), tries: Number(tries), version: Number(version),
            message: message.join(' ') };
    }

    async counters() {
        this.send('counters');
        const n = (await this.expect(/^counters /, { only: true })).split(' ').slice(1).map(Number);
        return { lists: n[0], starts: n[1], restarts: n[2], expired: n[3], stalls: n[4],
            retries: n[5] };
    }

    async stop() {
        if (this.child.exitCode === null)
            this.child.stdin.end('quit\n');
        const [code, signal] = await this.exited;
        assert.deepEqual([code, signal], [0, null], this.errors);
    }
}

function pod(name) {
    return JSON.stringify({ kind: 'Pod', apiVersion: 'v1', metadata: { name },
        spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'busybox:1' }] } });
}

const PODS = '/api/v1/namespaces/default/pods';

describe('any API server', () => {
    let cluster, probe;
    before(async () => {
        cluster = await startCluster();
        probe = new Probe(cluster.kubeconfig(), cluster.namespace, { page: 2 });
        await probe.expect(/^synced 0$/);
    });
    after(async () => {
        if (probe)
            await probe.stop();
        if (cluster)
            await cluster.stop();
    });

    const body = (name) => JSON.stringify({ kind: 'Pod', apiVersion: 'v1', metadata: { name },
        spec: cluster.podSpec({ restartPolicy: 'Never', terminationGracePeriodSeconds: 1,
            containers: [{ name: 'main', image: 'busybox:1' }] }) });
    const create = (name) => probe.ask(`call create ${cluster.path('pods')} ${body(name)}`);

    test('a pod is followed from its creation to its end', async () => {
        cluster.script(['scheduled', 'running', 'succeeded']);
        const answer = await create('one');
        assert.deepEqual([answer.reason, answer.status, answer.tries], ['OK', 201, 1]);
        await probe.expect(/^changed one Pending$/);
        await probe.expect(/^changed one Succeeded$/);
        assert.equal((await create('one')).reason, 'AlreadyExists');
        const gone = await probe.ask(`call delete ${cluster.path('pods/one')} ` +
            '{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}');
        assert.equal(gone.status, 200);
        await probe.expect(/^removed one$/);
        assert.equal((await probe.ask(`call get ${cluster.path('pods/one')}`)).reason, 'NotFound');
    });

    test('what is wrong with a pod is said', async () => {
        const answer = await probe.ask(`call create ${cluster.path('pods')} ` +
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"NO"},"spec":{"containers":[]}}');
        assert.equal(answer.reason, 'Invalid');
        assert.match(answer.message, /metadata\.name/);
    });

    test('pages of a list, and what exists already', async () => {
        cluster.script([]);
        for (const name of ['a', 'b', 'c', 'd', 'e'])
            assert.equal((await create(name)).status, 201);
        const other = new Probe(cluster.kubeconfig(), cluster.namespace, { page: 2 });
        await other.expect(/^synced 5$/);
        assert.deepEqual(other.passed.map((line) => line.split(' ')[1]),
            ['a', 'b', 'c', 'd', 'e', '5']);
        await other.stop();
    });

    test('access is asked for', async () => {
        probe.send('review');
        assert.equal(await probe.expect(/^role/), 'role ');
        assert.equal(probe.passed.filter((line) => /^access .* yes$/.test(line)).length, 7);
    });
});

describe('faults', { skip: onlyDouble }, () => {
    let double, probe, name = 0;
    before(async () => {
        double = await startDouble({ script: [] });
        probe = new Probe(double.kubeconfig(), 'default', { page: 3 });
        await probe.expect(/^synced 0$/);
    });
    after(async () => {
        if (probe)
            await probe.stop();
        if (double)
            await double.stop();
    });

    // The watch works: another pod is seen.
    async function works() {
        const next = `p${name++}`;
        const answer = await probe.ask(`call create ${PODS} ${pod(next)}`);
        assert.equal(answer.status, 201, answer.message);
        await probe.expect(new RegExp(`^changed ${next} `));
        return answer;
    }

    test('watches that break off in a line, or end', async () => {
        await works();
        const before = await probe.counters();
        double.dropWatches({ finish: true });
        await works();
        double.dropWatches({ half: true });
        await works();
        double.dropWatches();
        await works();
        const now = await probe.counters();
        assert.equal(now.lists, before.lists);
        assert.equal(now.restarts, before.restarts + 3);
    });

    test('history that is forgotten', async () => {
        const before = await probe.counters();
        for (const answer of [false, true]) {
            const next = `p${name++}`;
            /* While the watch is away, something happens that is forgotten again. */
            let goOn;
            const hold = new Promise((resolve) => { goOn = resolve; });
            double.fault({ match: { verb: 'watch', resource: 'pods' }, times: 1, hold });
            double.dropWatches({ finish: true });
            assert.equal((await probe.ask(`call create ${PODS} ${pod(next)}`)).status, 201);
            double.compact({ answer });
            goOn();
            await probe.expect(new RegExp(`^changed ${next} `));
            await probe.expect(/^synced /);
            await works();
        }
        const now = await probe.counters();
        assert.equal(now.expired, before.expired + 2);
        assert.equal(now.lists, before.lists + 2);
    });

    test('a restart, with its objects and without', async () => {
        await double.restart({ away: 300 });
        await probe.expect(/^failed /);
        await works();
        probe.lines = [];
        await double.restart({ keep: false, away: 50 });
        await probe.expect(/^removed /);
        await works();
    });

    test('refusals for now are repeated', async () => {
        double.fault({ match: { verb: 'create', resource: 'pods' }, times: 2, status: 429,
            retryAfter: 0 });
        assert.equal((await works()).tries, 3);
        double.fault({ match: { verb: 'get', resource: 'pods' }, times: 2, status: 503 });
        const answer = await probe.ask(`call get ${PODS}/p0`);
        assert.equal(answer.tries, 3);
    });

    test('a lost answer is not repeated where it could do harm', async () => {
        double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, half: true });
        const answer = await probe.ask(`call create ${PODS} ${pod('lost')}`);
        assert.deepEqual([answer.reason, answer.tries], ['Lost', 1]);
        await probe.expect(/^changed lost /);
        double.fault({ match: { verb: 'get', resource: 'pods' }, times: 1, half: true });
        assert.deepEqual((await probe.ask(`call get ${PODS}/lost`)).tries, 2);
    });

    test('an answer that never comes', async () => {
        double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, hang: true });
        assert.equal((await probe.ask(`once create ${PODS} ${pod('hung')}`)).reason, 'TimedOut');
    });

    test('an answer that is not the API’s', async () => {
        double.fault({ match: { verb: 'get', resource: 'pods' }, times: 1,
            raw: { code: 200, type: 'text/html', text: '<html>' } });
        assert.equal((await probe.ask(`call get ${PODS}/p0`)).reason, 'Malformed');
    });

    test('lists that are refused at first', async () => {
        double.fault({ match: { verb: 'list', resource: 'pods' }, times: 3, status: 500 });
        const other = new Probe(double.kubeconfig(), 'default', { page: 3 });
        await other.expect(/^failed InternalError/);
        await other.expect(/^synced /);
        await other.stop();
    });

    test('a watch in which nothing comes', async () => {
        const other = new Probe(double.kubeconfig(), 'default', { stall: 2000 });
        await other.expect(/^synced /);
        double.stallWatches(true);
        await other.expect(/^failed TimedOut/);
        double.stallWatches(false);
        await probe.ask(`call create ${PODS} ${pod('after-stall')}`);
        await other.expect(/^changed after-stall /);
        assert.ok((await other.counters()).stalls >= 1);
        await other.stop();
    });

    test('a user with too few rights', async () => {
        double.user({ name: 'reader', token: 'reader-token',
            rules: [{ verbs: ['list', 'watch', 'get'], resources: ['pods'] }] });
        const other = new Probe(double.kubeconfig({ user: 'reader' }), 'default');
        await other.expect(/^synced /);
        assert.equal((await other.ask(`call create ${PODS} ${pod('mine')}`)).reason, 'Forbidden');
        other.send('review');
        const role = await other.expect(/^role/);
        assert.deepEqual(other.passed.filter((line) => / no$/.test(line)).map((line) =>
            line.replace(/^access | no$/g, '')),
        ['create pods', 'delete pods', 'list events', 'get pods/log']);
        assert.match(role, /resources: \["pods"\]\| {2}verbs: \["create", "delete"\]\|/);
        await other.stop();
    });

    test('a user without rights is told so, until they come', async () => {
        double.user({ name: 'nobody', token: 'nobody-token', rules: [] });
        const other = new Probe(double.kubeconfig({ user: 'nobody' }), 'default');
        await other.expect(/^failed Forbidden .*pods/);
        double.user({ name: 'nobody', token: 'nobody-token',
            rules: [{ verbs: ['*'], resources: ['*'] }] });
        await other.expect(/^synced /);
        await other.stop();
    });
});

describe('TLS and credentials', { skip: onlyDouble }, () => {
    let double;
    before(async () => {
        double = await startDouble({ tls: true, script: [] });
    });
    after(() => double && double.stop());

    for (const auth of ['token', 'tokenFile', 'certificate', 'certificateFiles', 'basic'])
        test(`by ${auth}, over HTTP/2`, async () => {
            const probe = new Probe(double.kubeconfig({ auth }), 'default');
            await probe.expect(/^synced /);
            assert.equal((await probe.ask(`call list ${PODS}`)).version, 20);
            await probe.stop();
        });

    test('by an exec plugin', async () => {
        const credential = JSON.stringify({ kind: 'ExecCredential',
            apiVersion: 'client.authentication.k8s.io/v1', status: { token: 'admin-token' } });
        const probe = new Probe(double.kubeconfig({ auth: 'exec', exec: {
            apiVersion: 'client.authentication.k8s.io/v1', command: 'sh', interactiveMode: 'Never',
            args: ['-c', `echo '${credential}'`] } }), 'default');
        await probe.expect(/^synced /);
        await probe.stop();
    });

    test('by nothing', async () => {
        const probe = new Probe(double.kubeconfig({ auth: 'none' }), 'default');
        await probe.expect(/^failed (Unauthorized|Forbidden)/);
        await probe.stop();
    });

    test('an authority that is not trusted', async () => {
        const file = double.kubeconfig({ ca: false });
        const probe = new Probe(file, 'default');
        assert.match(await probe.expect(/^failed Untrusted/), /certificate/);
        await probe.stop();
    });

    test('a certificate that is not verified, with a warning', async () => {
        const probe = new Probe(double.kubeconfig({ insecure: true }), 'default');
        await probe.expect(/^synced /);
        assert.match(probe.errors, /is not verified/);
        await probe.stop();
    });

    test('a token that changes', async () => {
        double.user({ name: 'robot', token: 'first-token', groups: ['system:masters'] });
        const file = double.kubeconfig({ user: 'robot', auth: 'tokenFile' });
        const tokenFile = fs.readFileSync(file, 'utf8').match(/tokenFile: *"?([^"\n]+)/)[1];
        const probe = new Probe(file, 'default');
        await probe.expect(/^synced /);
        double.user({ name: 'robot', token: 'second-token', groups: ['system:masters'] });
        assert.equal((await probe.ask(`once list ${PODS}`)).reason, 'Unauthorized');
        fs.writeFileSync(path.resolve(path.dirname(file), tokenFile), 'second-token\n');
        assert.equal((await probe.ask(`once list ${PODS}`)).reason, 'OK');
        await probe.stop();
    });
});
