// SPDX-License-Identifier: Apache-2.0
'use strict';

// Plays scheduler and kubelet on a real API server where no kubelet runs: the scripts of the
// double, through the API. `kubectl proxy` does the authentication, so that every kubeconfig
// will do. Nodes are made for it, on which nothing else is scheduled.

const { spawn } = require('node:child_process');
const http = require('node:http');
const { Kubelet } = require('./double/kubelet');
const { Usage, choose } = require('./double/scheduler');
const steps = require('./double/steps');

const HEARTBEAT_MS = 10000; // a node that is silent for 40 s is taken for lost
const SCHEDULER = 'tenax-test';

// Resolves with {child, port}.
function startProxy(kubeconfig) {
    const child = spawn('kubectl', ['proxy', '--kubeconfig', kubeconfig, '--port', '0'],
        { stdio: ['ignore', 'pipe', 'pipe'] });
    return new Promise((resolve, reject) => {
        let said = '';
        const listen = (bytes) => {
            said += bytes;
            const m = /Starting to serve on [^\s]*:(\d+)/.exec(said);
            if (m)
                resolve({ child, port: Number(m[1]) });
        };
        child.stdout.on('data', listen);
        child.stderr.on('data', listen);
        child.on('error', reject);
        child.on('exit', () => reject(new Error(`kubectl proxy ended: ${said}`)));
    });
}

// Requests through the proxy.
class Client {
    constructor(port) {
        this.port = port;
        this.agent = new http.Agent({ keepAlive: true });
    }

    // The object; undefined for 404; other refusals are thrown with their code.
    request(method, path, body, type = 'application/json') {
        return new Promise((resolve, reject) => {
            const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
            const headers = bytes ? { 'content-type': type, 'content-length': bytes.length } : {};
            const req = http.request({ port: this.port, host: '127.0.0.1', method, path, headers,
                agent: this.agent }, (res) => {
                let text = '';
                res.setEncoding('utf8');
                res.on('data', (part) => { text += part; });
                res.on('error', reject);
                res.on('end', () => {
                    if (res.statusCode === 404)
                        resolve(undefined);
                    else if (res.statusCode >= 400)
                        reject(Object.assign(new Error(`${method} ${path}: ${text}`),
                            { code: res.statusCode }));
                    else
                        resolve(JSON.parse(text));
                });
            });
            req.on('error', reject);
            req.end(bytes);
        });
    }

    // Calls event({type, object}) until the server ends it; returns what aborts it.
    watch(path, event, ended) {
        const req = http.get({ port: this.port, host: '127.0.0.1', path }, (res) => {
            let text = '';
            res.setEncoding('utf8');
            res.on('data', (part) => {
                const lines = (text + part).split('\n');
                text = lines.pop();
                lines.filter(Boolean).forEach((line) => event(JSON.parse(line)));
            });
            res.on('error', () => {});
            res.on('close', ended);
        });
        req.on('error', ended);
        return () => req.destroy();
    }
}

class Puppet {
    constructor({ client, namespace, nodes, report }) {
        this.client = client;
        this.namespace = namespace;
        this.nodes = nodes; // [{name, capacity, labels}]
        this.usage = new Usage();
        this.known = new Map(); // uid -> pod
        this.kubelet = new Kubelet(this, { script: ['running', 'succeeded'], report });
        this.report = report;
    }

    async start() {
        for (const node of this.nodes)
            await this.makeNode(node);
        this.heart = setInterval(() => this.beat(), HEARTBEAT_MS);
        await this.follow();
    }

    // ---- nodes

    async makeNode({ name, capacity = {}, labels = {} }) {
        const size = { cpu: '1000', memory: '10Ti', pods: '1000', ...capacity };
        const object = { kind: 'Node', apiVersion: 'v1', metadata: { name, labels: {
            'kubernetes.io/hostname': name, ...labels } },
        spec: { taints: [{ key: 'tenax.dev/test', effect: 'NoSchedule' }] } };
        await this.client.request('POST', '/api/v1/nodes', object);
        await this.patchNode(name, { capacity: size, allocatable: size });
        const node = this.nodes.find((one) => one.name === name);
        node.object = { ...object, spec: {}, status: { allocatable: size } };
    }

    patchNode(name, status = {}) {
        const now = this.stamp();
        return this.client.request('PATCH', `/api/v1/nodes/${name}/status`, { status: { ...status,
            conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'test',
                lastHeartbeatTime: now, lastTransitionTime: now }] } },
        'application/strategic-merge-patch+json');
    }

    beat() {
        for (const { name } of this.nodes)
            if (!this.kubelet.lost.has(name))
                this.patchNode(name).catch((err) => this.report(err.message));
    }

    // ---- pods

    path(name = '', sub = '') {
        return `/api/v1/namespaces/${this.namespace}/pods${name && `/${name}`}${sub && `/${sub}`}`;
    }

    async follow() {
        if (this.stopped)
            return;
        const list = await this.client.request('GET', this.path());
        const seen = new Set(list.items.map((pod) => pod.metadata.uid));
        for (const pod of list.items)
            this.seen({ ...pod, kind: 'Pod', apiVersion: 'v1' });
        for (const pod of [...this.known.values()])
            if (!seen.has(pod.metadata.uid))
                this.lost(pod);
        const again = () => setTimeout(() => this.follow().catch((err) =>
            this.report(err.message)), 100);
        this.abort = this.client.watch(`${this.path()}?watch=1&resourceVersion=` +
            list.metadata.resourceVersion, (event) => this.received(event), again);
    }

    received({ type, object }) {
        if (type === 'DELETED')
            this.lost(object);
        else if (type === 'ADDED' || type === 'MODIFIED')
            this.seen(object);
    }

    seen(pod) {
        const { uid, deletionTimestamp } = pod.metadata;
        const before = this.known.get(uid);
        this.known.set(uid, pod);
        this.usage.changed(before, pod);
        if (!before)
            this.kubelet.added(pod);
        else if (deletionTimestamp && !before.metadata.deletionTimestamp)
            this.kubelet.deleting(pod);
        else if (before.status.phase !== pod.status.phase)
            this.kubelet.wake();
    }

    lost(pod) {
        const before = this.known.get(pod.metadata.uid);
        this.known.delete(pod.metadata.uid);
        this.usage.changed(before, undefined);
        this.kubelet.removed(pod);
        this.kubelet.wake();
    }

    // ---- the port of the scripts

    get(namespace, name) {
        return this.client.request('GET', this.path(name));
    }

    stamp() {
        return new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    }

    // Others may change the pod meanwhile, though not its status.
    async write(pod, status) {
        for (let left = 10; ; left--) {
            const now = await this.get(pod.metadata.namespace, pod.metadata.name);
            if (!now || now.metadata.uid !== pod.metadata.uid)
                return;
            try {
                await this.client.request('PUT', this.path(pod.metadata.name, 'status'), { ...now,
                    status: { ...status, qosClass: now.status.qosClass } });
                return;
            } catch (err) {
                if (err.code !== 409 || left === 0)
                    throw err;
            }
        }
    }

    async bind(pod, node) {
        let name = node;
        if (node === true) {
            const entries = () => this.nodes.map(({ object }) => ({ object }));
            const found = choose({ store: { entries }, usage: this.usage }, pod);
            if (!found.node) {
                await this.unscheduled(pod, found.message);
                return false;
            }
            name = found.node;
        }
        await this.client.request('POST', this.path(pod.metadata.name, 'binding'), {
            kind: 'Binding', apiVersion: 'v1', metadata: { name: pod.metadata.name },
            target: { kind: 'Node', apiVersion: 'v1', name } });
        return name;
    }

    unscheduled(pod, message) {
        const old = (pod.status.conditions || []).find((one) => one.type === 'PodScheduled');
        if (old && old.message === message)
            return undefined;
        return this.kubelet.effects(pod, steps.apply(pod, { do: 'unschedulable', message },
            this.stamp()));
    }

    async event(pod, { type, reason, message, component, fieldPath }) {
        const { namespace, name, uid, resourceVersion } = pod.metadata;
        const now = this.stamp();
        await this.client.request('POST', `/api/v1/namespaces/${namespace}/events`, {
            kind: 'Event', apiVersion: 'v1', metadata: { generateName: `${name}.`, namespace },
            involvedObject: { kind: 'Pod', apiVersion: 'v1', namespace, name, uid, resourceVersion,
                fieldPath }, type, reason, message, source: { component }, count: 1,
            firstTimestamp: now, lastTimestamp: now });
    }

    async remove(pod, { grace, force }) {
        const options = { kind: 'DeleteOptions', apiVersion: 'v1',
            preconditions: { uid: pod.metadata.uid } };
        if (force || grace !== undefined)
            options.gracePeriodSeconds = force ? 0 : grace;
        await this.client.request('DELETE', this.path(pod.metadata.name), options);
    }

    gone(pod) {
        return this.remove(pod, { grace: 0 });
    }

    // The API server asks the kubelet for logs, and here there is none.
    log() {}

    async stop() {
        this.stopped = true;
        clearInterval(this.heart);
        this.kubelet.stop();
        if (this.abort)
            this.abort();
        for (const { name } of this.nodes)
            await this.client.request('DELETE', `/api/v1/nodes/${name}`);
    }
}

module.exports = { Puppet, Client, startProxy, SCHEDULER };
