// SPDX-License-Identifier: Apache-2.0
'use strict';

// The cluster that the end-to-end tests run against: the double, or where TENAX_TEST_KUBECONFIG
// names a kubeconfig, a real API server without kubelets (or with: nodes of its own are used).
// Tests written on this alone run on both:
//
//   const cluster = await startCluster();
//   cluster.namespace                         a namespace of its own
//   cluster.kubeconfig()                      path of a kubeconfig, that namespace being its own
//   cluster.nodes                             names of its nodes
//   cluster.podSpec({containers: …})          the podSpec for a job: what the scheduler needs
//   cluster.script(script, {match, times})    what pods do (double/README.md)
//   await cluster.phase(pod, step, details)   one step now, pod is a name
//   await cluster.pod(name), .pods(selector)  as the API has them
//   await cluster.events(pod)                 the pod's events
//   await cluster.until(name, test)           until the pod (undefined: none) is as test wants
//   await cluster.request(method, path, body) anything else of the API
//   await cluster.stop()
//
// cluster.double is the double itself, with its faults, on a real server undefined: tests that
// need it, or logs, are declared with {skip: onlyDouble}, which says so in the report.

const { execFile } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');
const { startDouble } = require('./double');
const { Puppet, Client, startProxy, SCHEDULER } = require('./puppet');

const DEADLINE_MS = 120000; // ends what hangs; nothing that works comes near it
const REAL = process.env.TENAX_TEST_KUBECONFIG;
const onlyDouble = REAL ? 'a real API server has no faults on request and no logs here' : false;

const command = promisify(execFile);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(ask, what) {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
        const answer = await ask();
        if (answer)
            return answer;
        if (Date.now() > end)
            throw new Error(`never came true: ${what}`);
        await pause(10);
    }
}

// What both kinds have in common; request() is theirs.
class Base {
    constructor({ namespace, nodes }) {
        this.namespace = namespace;
        this.nodes = nodes;
    }

    podSpec(spec) {
        return spec;
    }

    script(script, options) {
        this.kubelet.addRule({ ...options, script });
    }

    clearScripts() {
        this.kubelet.clearRules();
    }

    phase(pod, step, details = {}) {
        return this.kubelet.step(this.namespace, pod, { ...details, do: step });
    }

    path(resource) {
        return `/api/v1/namespaces/${this.namespace}/${resource}`;
    }

    pod(name) {
        return this.request('GET', this.path(`pods/${name}`));
    }

    async pods(selector = '') {
        const list = await this.request('GET', this.path(`pods?labelSelector=` +
            encodeURIComponent(selector)));
        return list.items;
    }

    async events(pod) {
        const list = await this.request('GET', this.path(`events?fieldSelector=` +
            encodeURIComponent(`involvedObject.name=${pod}`)));
        return list.items;
    }

    // Waits until test(pod) is true, and returns the pod; test is given undefined for none.
    async until(name, test) {
        let pod;
        await until(async () => {
            pod = await this.pod(name);
            return test(pod);
        }, `pod ${name} is as ${test} says`);
        return pod;
    }
}

class DoubleCluster extends Base {
    constructor(double, options) {
        super(options);
        this.double = double;
        this.kubelet = double.cluster.kubelet;
    }

    kubeconfig(options = {}) {
        return this.double.kubeconfig({ namespace: this.namespace, ...options });
    }

    request(method, target, body, type) {
        return this.double.request(method, target, body, type);
    }

    stop() {
        return this.double.stop();
    }
}

class RealCluster extends Base {
    constructor(options) {
        super(options);
        Object.assign(this, options); // client, proxy, dir, file
        this.puppet = new Puppet({ client: this.client, namespace: this.namespace,
            nodes: this.nodes.map((name) => ({ name })),
            report: (words) => process.stderr.write(`puppet: ${words}\n`) });
        this.kubelet = this.puppet.kubelet;
    }

    async begin() {
        await this.request('POST', '/api/v1/namespaces', { kind: 'Namespace', apiVersion: 'v1',
            metadata: { name: this.namespace } });
        await this.serviceAccount();
        await this.puppet.start();
    }

    // A controller makes it, if there is one; without it no pod can be created. Nor can older servers
    // create pods where no controller makes tokens for them to mount.
    async serviceAccount() {
        const one = this.path('serviceaccounts/default');
        const plain = { automountServiceAccountToken: false };
        const end = Date.now() + 3000;
        while (!(await this.request('GET', one)) && Date.now() < end)
            await pause(50);
        await this.request('POST', this.path('serviceaccounts'), { kind: 'ServiceAccount',
            apiVersion: 'v1', metadata: { name: 'default' }, ...plain }).catch((err) => {
            if (err.code !== 409)
                throw err;
        });
        await this.request('PATCH', one, plain, 'application/merge-patch+json');
    }

    podSpec(spec) {
        return { ...spec, schedulerName: SCHEDULER };
    }

    kubeconfig() {
        return this.file;
    }

    request(method, target, body, type) {
        return this.client.request(method, target, body, type);
    }

    async stop() {
        try {
            await this.request('DELETE', `${this.path('pods')}`, { kind: 'DeleteOptions',
                apiVersion: 'v1', gracePeriodSeconds: 0 });
            await this.request('DELETE', `/api/v1/namespaces/${this.namespace}`);
            await this.finalize();
            await this.puppet.stop();
        } finally {
            this.proxy.kill();
            fs.rmSync(this.dir, { recursive: true, force: true });
        }
    }

    // Where no controller of namespaces runs, it is let go by hand.
    async finalize() {
        const end = Date.now() + 10000;
        for (;;) {
            const found = await this.request('GET', `/api/v1/namespaces/${this.namespace}`);
            if (!found)
                return;
            if (Date.now() > end)
                break;
            await pause(100);
        }
        const left = await this.request('GET', `/api/v1/namespaces/${this.namespace}`);
        if (left)
            await this.request('PUT', `/api/v1/namespaces/${this.namespace}/finalize`,
                { ...left, spec: { finalizers: [] } });
    }
}

// A kubeconfig that holds everything, whose context has the namespace.
async function ownKubeconfig(given, dir, namespace) {
    const file = path.join(dir, 'kubeconfig');
    const { stdout } = await command('kubectl', ['config', 'view', '--kubeconfig', given, '--raw',
        '--flatten', '--minify']);
    fs.writeFileSync(file, stdout, { mode: 0o600 });
    await command('kubectl', ['config', 'set-context', '--current', '--kubeconfig', file,
        `--namespace=${namespace}`]);
    return file;
}

async function startReal(given, namespace, nodes) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-cluster-'));
    const file = await ownKubeconfig(given, dir, namespace);
    const { child, port } = await startProxy(file);
    process.on('exit', () => child.kill());
    const names = Array.from({ length: nodes }, (_, i) => `${namespace}-${i + 1}`);
    const cluster = new RealCluster({ client: new Client(port), proxy: child, dir, file, namespace,
        nodes: names });
    try {
        await cluster.begin();
    } catch (err) {
        await cluster.stop().catch(() => {});
        throw err;
    }
    return cluster;
}

// kubeconfig: of a real server (default: TENAX_TEST_KUBECONFIG); nodes: how many; the rest are
// options of the double, which a real server does not heed.
async function startCluster({ kubeconfig = REAL, nodes = 3, ...options } = {}) {
    const namespace = `tenax-test-${randomBytes(4).toString('hex')}`;
    if (kubeconfig)
        return startReal(kubeconfig, namespace, nodes);
    const { namespaces = [] } = options;
    const double = await startDouble({ ...options, nodes, namespaces: [namespace, ...namespaces] });
    const names = (await double.request('GET', '/api/v1/nodes')).items
        .map((node) => node.metadata.name);
    return new DoubleCluster(double, { namespace, nodes: names });
}

module.exports = { startCluster, onlyDouble, until };
