// SPDX-License-Identifier: Apache-2.0
'use strict';

// What deploy/kubernetes says really runs: the server and the executor, as container.js runs the
// containers of its pods, with the rights of its roles in a cluster that holds them to it.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { makeDir, until } = require('../http/harness');
const { pod } = require('../kubernetes/executor_harness');
const { startDouble } = require('../kubernetes/double');
const { Container, probe } = require('./container');
const { ACCESS, ASKED } = require('./manifest_rules');
const { environmentOf, kustomize, one, rulesOf, workload } = require('./manifests');

// The cluster, as far as the double is one, with what the objects say of access.
class Installation {
    constructor(objects) {
        this.objects = objects;
        this.dir = makeDir();
        this.server = workload(objects, 'server');
        this.executor = workload(objects, 'executor');
        this.jobs = one(objects, 'Role').metadata.namespace;
    }

    folder(name) {
        const at = path.join(this.dir, name);
        fs.mkdirSync(at);
        return at;
    }

    async start() {
        this.double = await startDouble({ tls: true, namespaces: [this.executor.namespace,
            this.jobs], dir: this.folder('double') });
        this.hosts = path.join(this.dir, 'hosts');
        fs.writeFileSync(this.hosts, '127.0.0.1 localhost tenax tenax.tenax tenax.tenax.svc ' +
            'tenax.tenax.svc.cluster.local example.org\n');
        await this.makeAccount();
        await this.startServer();
        this.state = this.folder('state');
        await this.startExecutor();
        return this;
    }

    // What a kubelet mounts for a service account; the double holds it to its roles.
    async makeAccount() {
        const account = one(this.objects, 'ServiceAccount', this.executor.pod.serviceAccountName);
        const { name, namespace } = account.metadata;
        const at = `/api/v1/namespaces/${namespace}/serviceaccounts`;
        await this.double.request('POST', at, account);
        const { status } = await this.double.request('POST', `${at}/${name}/token`,
            { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} });
        this.double.user({ name: `system:serviceaccount:${namespace}:${name}`,
            rules: rulesOf(this.objects, account) });
        this.account = this.folder('account');
        for (const [file, text] of [['token', status.token], ['namespace', namespace],
            ['ca.crt', this.double.authority.ca.cert]])
            fs.writeFileSync(path.join(this.account, file), text);
    }

    container(of, volume, env, args = []) {
        const [{ name }] = of.containers[0].volumeMounts;
        return new Container({ objects: this.objects, workload: of, volumes: { [name]: volume },
            account: this.account, hosts: this.hosts, env, args }).start();
    }

    async startServer() {
        this.data = this.folder('data');
        this.serving = this.container(this.server, this.data, { TENAX_PORT: '0' });
        const said = await this.serving.says(/^Listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
        this.ports = { http: Number(said[1]) };
    }

    async startExecutor() {
        const said = environmentOf(this.objects, this.executor, this.executor.containers[0]);
        const url = new URL(said.TENAX_URL);
        url.port = this.ports.http;
        const cluster = new URL(this.double.url);
        this.executing = this.container(this.executor, this.state, {
            TENAX_URL: url.origin, TENAX_EXECUTOR_METRICS_PORT: '0',
            KUBERNETES_SERVICE_HOST: cluster.hostname, KUBERNETES_SERVICE_PORT: cluster.port });
        const [, port] = await this.executing.says(/metrics on http:\/\/0\.0\.0\.0:(\d+)\//);
        this.ports.metrics = Number(port);
    }

    // As a client of another namespace, by that name.
    async ask(method, target, body, host = 'tenax.tenax.svc') {
        return new Promise((resolve, reject) => {
            const sent = http.request({ host: '127.0.0.1', port: this.ports.http, method, path: target,
                headers: { host: `${host}:7890`, 'content-type': 'application/json' } }, (res) => {
                let text = '';
                res.on('data', (bytes) => { text += bytes; });
                res.on('end', () => resolve({ status: res.statusCode, text,
                    json: text ? JSON.parse(text) : undefined }));
            });
            sent.on('error', reject);
            sent.end(body && JSON.stringify(body));
        });
    }

    async enqueue(payload, fields = {}) {
        const { status, json, text } = await this.ask('POST', '/jobs', { queue: 'default',
            type: 'test', payload, ...fields,
            retention: { completed_ms: 3600000, dead_ms: 3600000 } });
        assert.equal(status, 201, text);
        return json.id;
    }

    status(id, status) {
        return until(async () => {
            const { json } = await this.ask('GET', `/jobs/${id}`);
            return json.status === status && json;
        }, `job ${id} is ${status}: ${this.executing.said}`);
    }

    pods(id) {
        return this.double.pods(this.jobs).filter((one) =>
            one.metadata.labels['tenax.dev/job'] === id);
    }

    async stop() {
        try {
            for (const container of [this.executing, this.serving])
                if (container)
                    assert.deepEqual(await container.stop(), { code: 0, signal: null },
                        container.said);
        } finally {
            await this.double.stop();
            fs.rmSync(this.dir, { recursive: true, force: true });
        }
    }
}

describe('deploy/kubernetes, run', () => {
    let made;
    before(async () => { made = await new Installation(kustomize('.')).start(); });
    after(() => made.stop());

    const probes = (container) => ['startupProbe', 'livenessProbe', 'readinessProbe']
        .map((name) => container[name]);

    it('has_a_server_whose_probes_succeed', async () => {
        const [container] = made.server.containers;
        for (const one of probes(container))
            await until(() => probe(one, made.ports, container), 'the probe succeeds');
    });

    it('has_an_executor_whose_probes_succeed_and_that_reaches_both', async () => {
        const [container] = made.executor.containers;
        for (const one of probes(container))
            await until(() => probe(one, made.ports, container), 'the probe succeeds');
        await until(async () => {
            const res = await fetch(`http://127.0.0.1:${made.ports.metrics}/health`);
            const { server, cluster, synced } = await res.json();
            return server && cluster && synced;
        }, 'it sees the server and the cluster');
    });

    it('answers_under_the_names_of_its_service_and_no_others', async () => {
        for (const name of ['tenax', 'tenax.tenax', 'tenax.tenax.svc',
            'tenax.tenax.svc.cluster.local', '127.0.0.1'])
            assert.equal((await made.ask('GET', '/health', undefined, name)).status, 200, name);
        assert.equal((await made.ask('GET', '/health', undefined, 'example.org')).status, 421);
    });

    it('runs_jobs_in_the_namespace_of_jobs', async () => {
        const id = await made.enqueue(pod(['running', 'succeeded']));
        await made.status(id, 'completed');
        assert.equal(made.pods(id).length, 1);
    });

    it('has_an_executor_that_is_the_same_after_a_restart', async () => {
        const id = await made.enqueue(pod(['running', 'pause']));
        await until(() => made.pods(id).some((one) => one.status.phase === 'Running'),
            'its pod runs');
        assert.deepEqual(await made.executing.stop(), { code: 0, signal: null });
        await made.startExecutor();
        await made.double.phase(made.jobs, made.pods(id)[0].metadata.name, 'succeeded');
        assert.equal((await made.status(id, 'completed')).attempts, 0);
        assert.equal(made.pods(id).length, 1);
    });

    // A creation without an answer, a failed pod, a retry, a canceled job, a watch that begins again:
    // all that it asks for.
    it('grants_what_the_executor_asks_for_and_no_more', async () => {
        made.double.requests({ clear: true });
        assert.deepEqual(await made.executing.stop(), { code: 0, signal: null });
        await made.startExecutor();
        made.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, lost: true });
        const failing = await made.enqueue(pod({ steps: ['running', { do: 'failed', code: 3 }],
            logs: { main: 'the end\n' } }), { retry_limit: 1,
            backoff: { base_ms: 0, exponent: 1, jitter_ms: 0 } });
        await made.status(failing, 'dead');
        const { json } = await made.ask('GET', `/jobs/${failing}/errors`);
        assert.match(JSON.stringify(json), /the end/);
        const canceled = await made.enqueue(pod(['running', 'pause']));
        await until(() => made.pods(canceled).length, 'it has a pod');
        await made.ask('POST', `/jobs/${canceled}/cancel`, {});
        await until(() => made.pods(canceled).length === 0, 'its pod is deleted');
        made.double.dropWatches({ error: 410 });
        await until(() => made.double.watches(), 'it watches again');
        const asked = Object.keys(made.double.requests());
        assert.deepEqual(asked.filter((what) => / (401|403)$/.test(what)), []);
        const access = [...new Set(asked.map((what) => what.replace(/ \d+$/, '')))].sort();
        assert.deepEqual(access, ASKED);
    });

    it('grants_what_the_check_of_the_executor_wants_and_no_more', async () => {
        const check = async () => {
            const ran = made.container(made.executor, made.state, made.executing.env, ['--check']);
            return { ...await ran.ended, said: ran.said };
        };
        const { code, said } = await check();
        assert.equal(code, 0, said);
        const name = `system:serviceaccount:${made.executor.namespace}:` +
            made.executor.pod.serviceAccountName;
        for (const access of ACCESS) {
            const rules = ACCESS.filter((other) => other !== access).map((other) => {
                const [verb, resource] = other.split(' ');
                return { verbs: [verb], resources: [resource], namespaces: [made.jobs] };
            });
            made.double.user({ name, rules });
            const refused = await check();
            assert.equal(refused.code, 1, refused.said);
            assert.match(refused.said, new RegExp(`missing: ${access}\\n`));
        }
    });
});
