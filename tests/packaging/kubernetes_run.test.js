// SPDX-License-Identifier: Apache-2.0
'use strict';

// What deploy/kubernetes and the chart say really runs: the server and the executor, as container.js runs the
// containers of its pods, with the rights of its roles in a cluster that holds them to it.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, makeDir, until } = require('../http/harness');
const { pod } = require('../kubernetes/executor_harness');
const { startDouble } = require('../kubernetes/double');
const { Chart } = require('./chart');
const { Container, probe } = require('./container');
const { ACCESS, ASKED } = require('./manifest_rules');
const { environmentOf, kustomize, one, output, rulesOf, workload } = require('./manifests');

// The cluster, as far as the double is one, with what the objects say of access.
class Installation {
    // secrets: {name: folder}, of those that volumes are made of.
    constructor(objects, secrets = {}) {
        this.objects = objects;
        this.secrets = secrets;
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

    // data: the folder of its own volume.
    container(of, data, env, more = {}) {
        const volumes = Object.fromEntries(of.containers[0].volumeMounts.map(({ name }) => {
            const secret = (of.pod.volumes || []).find((one) => one.name === name)?.secret;
            return [name, secret ? this.secrets[secret.secretName] : data];
        }));
        return new Container({ objects: this.objects, workload: of, volumes, account: this.account,
            hosts: this.hosts, env, args: [], ...more }).start();
    }

    async startServer() {
        this.data = this.folder('data');
        this.serving = this.container(this.server, this.data,
            { TENAX_PORT: '0', TENAX_ADMIN_PORT: '0' });
        const [, port] = await this.serving.says(/^Listening on https?:\/\/0\.0\.0\.0:(\d+)$/m);
        const [, admin] = await this.serving.says(/^Listening on http:\/\/127\.0\.0\.1:(\d+) \(admin\)$/m);
        this.ports = { http: Number(port), admin: Number(admin) };
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
            one.metadata.labels?.['tenax.dev/job'] === id);
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
        // And whoever may run a command in the executor's pod can see it.
        const listed = made.container(made.executor, made.state, made.executing.env,
            { command: ['tenax', 'pods', '--namespace', made.jobs] });
        assert.deepEqual(await listed.ended, { code: 0, signal: null }, listed.said);
        assert.match(listed.said, new RegExp(`${id} +0 .* succeeded`));
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

    // A job whose pod's name another pod has.
    async function refuseName() {
        const gate = await made.enqueue(null, { queue: 'gate' });
        const id = await made.enqueue(pod(['running']), { depends_on: [gate] });
        await made.double.request('POST', `/api/v1/namespaces/${made.jobs}/pods`, { apiVersion: 'v1',
            kind: 'Pod', metadata: { name: `tenax-${id}-0` },
            spec: { containers: [{ name: 'c', image: 'i' }] } });
        const { json } = await made.ask('POST', '/jobs/claim', { queues: ['gate'], count: 1 });
        await made.ask('POST', `/jobs/${gate}/success`, { token: json.jobs[0].token });
        await made.status(id, 'dead');
    }

    // A name that is taken, a failed pod, a retry, a canceled job, a watch that begins again: all that
    // it asks for.
    it('grants_what_the_executor_asks_for_and_no_more', async () => {
        // Whether its namespace exists it asks once, to warn of a typing error, and does without an answer. What
        // it may do everybody may ask.
        const needed = (what) => !what.startsWith('get namespaces ') &&
            !what.startsWith('create selfsubjectaccessreviews ');
        made.double.requests({ clear: true });
        assert.deepEqual(await made.executing.stop(), { code: 0, signal: null });
        await made.startExecutor();
        const asked = () => [...new Set(Object.keys(made.double.requests()).filter(needed)
            .map((what) => what.replace(/ \d+$/, '')))].sort();
        const failing = await made.enqueue(pod({ steps: ['running', { do: 'failed', code: 3 }],
            logs: { main: 'the end\n' } }), { retry_limit: 1,
            backoff: { base_ms: 0, exponent: 1, jitter_ms: 0 } });
        await made.status(failing, 'dead');
        const { json } = await made.ask('GET', `/jobs/${failing}/errors`);
        assert.match(JSON.stringify(json), /the end/);
        await refuseName();
        const canceled = await made.enqueue(pod(['running', 'pause']));
        await until(() => made.pods(canceled).length, 'it has a pod');
        assert.equal((await made.ask('POST', `/jobs/${canceled}/cancel`)).status, 200);
        await until(() => made.pods(canceled).length === 0, 'its pod is deleted');
        made.double.dropWatches({ error: 410 });
        await until(() => made.double.watches(), 'it watches again');
        assert.deepEqual(Object.keys(made.double.requests()).filter(needed).filter((what) =>
            / (401|403)$/.test(what)), []);
        assert.deepEqual(asked(), ASKED);
    });

    it('grants_what_the_check_of_the_executor_wants_and_no_more', async () => {
        const check = async () => {
            const ran = made.container(made.executor, made.state, made.executing.env,
                { args: ['--check'] });
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

describe('deploy/helm/tenax with certificates, run', () => {
    let made;
    let dir;

    // A folder as a secret is mounted, of what `tenax tls` has made.
    function secret(name) {
        const to = path.join(dir, `secret-${name}`);
        fs.mkdirSync(to);
        for (const [file, from] of [['tls.crt', `${name}-cert.pem`], ['tls.key', `${name}-key.pem`],
            ['ca.crt', 'ca-cert.pem']])
            fs.copyFileSync(path.join(dir, 'tls', from), path.join(to, file));
        return to;
    }

    before(async () => {
        dir = makeDir();
        const { objects } = new Chart(dir).render({ tls: { serverSecret: 'server', clientSecret: 'pods' },
            networkPolicy: { enabled: false } });
        output(BIN, ['tls', 'init', '--out-dir', path.join(dir, 'tls'), '--san', 'tenax', '--client', 'pods']);
        made = await new Installation(objects, { server: secret('server'), pods: secret('client-pods') })
            .start();
    });
    after(async () => {
        await made.stop();
        fs.rmSync(dir, { recursive: true, force: true });
    });

    // A command in the server's pod.
    async function inside(...command) {
        const url = `http://127.0.0.1:${made.ports.admin}`;
        assert.equal(made.serving.env.TENAX_URL, 'http://127.0.0.1:8901');
        const ran = made.container(made.server, made.data, { TENAX_URL: url,
            TENAX_ADMIN_PORT: String(made.ports.admin) }, { command });
        const { code } = await ran.ended;
        assert.equal(code, 0, ran.said);
        return ran.said.trim();
    }

    it('needs_no_word_that_it_may_be_insecure', () => {
        assert.equal(made.serving.env.TENAX_INSECURE, undefined);
    });

    it('has_a_server_whose_probes_succeed_from_within', async () => {
        for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
            const { exec, httpGet } = made.server.containers[0][name];
            assert.equal(httpGet, undefined);
            await inside(...exec.command);
        }
    });

    it('runs_a_job_that_a_command_in_the_pod_has_enqueued', async () => {
        const id = await inside('tenax', 'enqueue', '--queue', 'default', '--type', 'test',
            JSON.stringify(pod(['running', 'succeeded'])));
        await until(async () => (await inside('tenax', 'jobs', '--all')).includes(`${id}  completed`),
            () => `it is completed: ${made.executing.said}`);
        assert.equal(made.pods(id).length, 1);
    });

    it('serves_nobody_without_a_certificate', async () => {
        await assert.rejects(fetch(`https://127.0.0.1:${made.ports.http}/health`));
        await assert.rejects(made.ask('GET', '/health'));
    });
});
