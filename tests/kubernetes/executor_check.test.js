// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax executor --check`: what the cluster allows, and what keeps an executor from working there.

const assert = require('node:assert/strict');
const { execFile, execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, run } = require('../http/harness');
const { onlyDouble } = require('./executor_harness');
const { startCluster } = require('./cluster');
const { startDouble } = require('./double');

const PODS = ['create', 'get', 'list', 'watch', 'delete'];
const ALL = [...PODS.map((verb) => `${verb} pods`), 'get events', 'list events', 'get pods/log'];
const TOKEN = 'a-token-that-must-not-be-shown';

function check(kubeconfig, ...args) {
    return run(['executor', '--check', '--queue', 'a', '--kubeconfig', kubeconfig, ...args]);
}

// The documents of a YAML file.
function documents(file) {
    const python = 'import sys, yaml, json; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))';
    return JSON.parse(execFileSync('python3', ['-c', python, file]));
}

// The rules of the Roles on standard output, as "NAMESPACE: VERB RESOURCE".
function granted(stdout) {
    return stdout.split('---\n').flatMap((role) => {
        const [, namespace] = /^ {2}namespace: (.*)$/m.exec(role);
        assert.match(role, /^apiVersion: rbac\.authorization\.k8s\.io\/v1\nkind: Role\n/);
        return [...role.matchAll(/resources: \["(.*)"\]\n {2}verbs: \[(.*)\]/g)].flatMap(
            ([, resource, verbs]) => JSON.parse(`[${verbs}]`).map((verb) =>
                `${namespace}: ${verb} ${resource}`));
    });
}

describe('executor --check', () => {
    let cluster;
    before(async () => { cluster = await startCluster(); });
    after(() => cluster.stop());

    it('says_ok_where_all_is_allowed_and_leaves_nothing', async () => {
        const ran = await check(cluster.kubeconfig(), '--namespace', cluster.namespace);
        assert.equal(ran.code, 0, ran.stderr);
        assert.match(ran.stdout, new RegExp(`^ok: .* in namespace ${cluster.namespace}\n$`));
        assert.equal(ran.stderr, '');
        assert.deepEqual(await cluster.pods(), []);
    });

    it('needs_no_queue_and_takes_the_namespace_of_the_context', async () => {
        const ran = await run(['executor', '--check', '--kubeconfig', cluster.kubeconfig()]);
        assert.equal(ran.code, 0, ran.stderr);
        assert.match(ran.stdout, /^ok: /);
    });

    it('names_a_namespace_that_there_is_not', async () => {
        const ran = await check(cluster.kubeconfig(), '--namespace', 'nowhere-at-all');
        assert.equal(ran.code, 1, ran.stdout);
        assert.match(ran.stderr, /namespace nowhere-at-all: does not exist/);
        assert.equal(ran.stdout, '');
    });
});

describe('executor --check with rights that are not enough', { skip: onlyDouble }, () => {
    let double;
    before(async () => {
        double = await startDouble({ script: [], namespaces: ['jobs', 'more'] });
    });
    after(() => double.stop());

    // As somebody who may do just that.
    function as(accesses, namespaces = ['jobs', 'more']) {
        const rules = accesses.map((access) => {
            const [verb, resource] = access.split(' ');
            return { verbs: [verb], resources: [resource], groups: [''], namespaces };
        });
        double.cluster.auth.set({ name: 'some', token: TOKEN, rules });
        return double.kubeconfig({ user: 'some' });
    }

    it('is_ok_with_just_what_is_needed', async () => {
        const ran = await check(as(ALL), '--namespace', 'jobs', '--allow-namespace', 'more');
        assert.equal(ran.code, 0, ran.stderr);
        assert.match(ran.stdout, /namespace jobs, more\n$/);
    });

    for (const missing of ALL)
        it(`names_${missing.replace(/[ /]/g, '_')}_and_grants_it`, async () => {
            const ran = await check(as(ALL.filter((one) => one !== missing)), '--namespace', 'jobs');
            assert.equal(ran.code, 1, ran.stdout);
            assert.equal(ran.stderr, `tenax executor: namespace jobs: missing: ${missing}\n`);
            assert.deepEqual(granted(ran.stdout), [`jobs: ${missing}`]);
        });

    it('is_ok_with_the_role_that_is_delivered', async () => {
        const file = path.join(__dirname, '../../deploy/kubernetes/jobs/access.yaml');
        const [{ kind, rules }] = documents(file);
        assert.equal(kind, 'Role');
        const ran = await check(as(rules.flatMap(({ resources, verbs }) => resources.flatMap(
            (resource) => verbs.map((verb) => `${verb} ${resource}`)))), '--namespace', 'jobs');
        assert.equal(ran.code, 0, ran.stderr);
    });

    it('lists_everything_to_somebody_who_may_do_nothing', async () => {
        const ran = await check(as([]), '--namespace', 'jobs');
        assert.equal(ran.code, 1);
        assert.ok(ran.stderr.includes(`missing: ${ALL.join(', ')}\n`), ran.stderr);
        assert.deepEqual(granted(ran.stdout).sort(), ALL.map((one) => `jobs: ${one}`).sort());
    });

    it('checks_each_namespace_and_the_roles_are_documents_of_one_file', async () => {
        const ran = await check(as(ALL.filter((one) => one !== 'watch pods'), ['jobs']),
            '--namespace', 'jobs', '--allow-namespace', 'more', '--allow-namespace', 'nowhere');
        assert.equal(ran.code, 1);
        assert.deepEqual(granted(ran.stdout).sort(),
            ['jobs: watch pods', ...ALL.map((one) => `more: ${one}`),
                ...ALL.map((one) => `nowhere: ${one}`)].sort());
        const file = path.join(double.dir, 'roles.yaml');
        fs.writeFileSync(file, ran.stdout);
        const roles = documents(file);
        assert.deepEqual(roles.map((r) => [r.kind, r.metadata.namespace]),
            [['Role', 'jobs'], ['Role', 'more'], ['Role', 'nowhere']]);
        assert.deepEqual(roles[0].rules,
            [{ apiGroups: [''], resources: ['pods'], verbs: ['watch'] }]);
    });

    for (const status of [403, 404])
        it(`tries_it_where_questions_are_answered_with_${status}`, async () => {
            double.fault({ match: { verb: 'create', resource: 'selfsubjectaccessreviews' }, status });
            try {
                const all = await check(as(ALL), '--namespace', 'jobs');
                assert.equal(all.code, 0, all.stderr);
                for (const missing of ALL) {
                    const ran = await check(as(ALL.filter((one) => one !== missing)), '--namespace',
                        'jobs');
                    assert.equal(ran.code, 1, ran.stdout);
                    assert.equal(ran.stderr,
                        `tenax executor: namespace jobs: missing: ${missing}\n`);
                    assert.deepEqual(granted(ran.stdout), [`jobs: ${missing}`]);
                }
                assert.deepEqual((await double.request('GET', '/api/v1/namespaces/jobs/pods')).items, []);
            } finally {
                double.clearFaults();
            }
        });

    it('says_that_a_token_is_not_accepted_without_showing_it', async () => {
        const file = as(ALL);
        double.cluster.auth.remove('some');
        const ran = await check(file, '--namespace', 'jobs');
        assert.equal(ran.code, 1);
        assert.match(ran.stderr, /does not accept the credentials \(401\)/);
        assert.match(ran.stderr, /see user '[^']+' in /);
        assert.ok(ran.stderr.includes(file), ran.stderr);
        assert.ok(!(ran.stderr + ran.stdout).includes(TOKEN));
    });
});

describe('executor --check and certificates', { skip: onlyDouble }, () => {
    const doubles = [];
    async function tls(options) {
        const double = await startDouble({ script: [], users: [{ name: 'some', token: TOKEN,
            groups: ['system:masters'] }], ...options });
        doubles.push(double);
        return double;
    }
    let good, expired;
    before(async () => {
        good = await tls({ tls: true });
        expired = await tls({ tls: { days: -1 } });
    });
    after(() => Promise.all(doubles.map((double) => double.stop())));

    async function refused(kubeconfig, words) {
        const ran = await check(kubeconfig);
        assert.equal(ran.code, 1, ran.stdout);
        assert.match(ran.stderr, /a certificate was refused/);
        assert.match(ran.stderr, words);
        assert.ok(ran.stderr.includes(kubeconfig), ran.stderr);
        assert.ok(!ran.stderr.includes(TOKEN));
    }

    it('is_ok_with_the_right_authority', async () => {
        const ran = await check(good.kubeconfig({ user: 'some' }));
        assert.equal(ran.code, 0, ran.stderr);
    });

    it('refuses_a_server_that_another_authority_has_signed', async () => {
        const cluster = { 'certificate-authority-data':
            Buffer.from(expired.authority.ca.cert).toString('base64') };
        await refused(good.kubeconfig({ user: 'some', ca: 'none', cluster }),
            /no trusted authority has signed the certificate of the server/);
        await refused(good.kubeconfig({ user: 'some', ca: 'none' }), /issuer|self.signed/);
    });

    it('refuses_a_certificate_that_has_expired', async () => {
        await refused(expired.kubeconfig({ user: 'some' }),
            /the certificate of the server has expired/);
    });

    it('refuses_a_certificate_for_another_name', async () => {
        await refused(good.kubeconfig({ user: 'some', cluster: { 'tls-server-name': 'elsewhere' } }),
            /the certificate of the server is not for the name 'elsewhere'/);
    });

    it('warns_where_certificates_are_not_verified', async () => {
        const ran = await check(expired.kubeconfig({ user: 'some' }), '--insecure-skip-tls-verify');
        assert.equal(ran.code, 0, ran.stderr);
        assert.match(ran.stderr, /not verified|insecure/i);
    });
});

// Whoever may not have a namespace of mounts of its own cannot put files where a pod has them.
const canMount = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/run']).status === 0;

describe('executor --check in a pod', { skip: onlyDouble || (!canMount && 'may not mount') }, () => {
    const FOLDER = '/run/secrets/kubernetes.io/serviceaccount';
    let double;
    before(async () => {
        double = await startDouble({ tls: true, script: [], namespaces: ['jobs'], users: [{ name: 'some',
            token: TOKEN, groups: ['system:masters'] }] });
    });
    after(() => double.stop());

    // With the files of a service account where every pod has them.
    function inPod(files, ...args) {
        const dir = fs.mkdtempSync(path.join(double.dir, 'account-'));
        for (const [name, text] of Object.entries(files))
            fs.writeFileSync(path.join(dir, name), text);
        const { hostname, port } = new URL(double.url);
        const env = { ...process.env, KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
        delete env.KUBECONFIG;
        const script = `mount -t tmpfs none /run && mkdir -p ${FOLDER} && cp ${dir}/* ${FOLDER} && exec "$@"`;
        return new Promise((resolve) => execFile('unshare', ['--mount', 'sh', '-c', script, 'sh', BIN,
            'executor', '--check', ...args], { env }, (err, stdout, stderr) =>
            resolve({ code: err ? err.code : 0, stdout, stderr })));
    }

    const account = () => ({ token: `${TOKEN}\n`, namespace: 'jobs', 'ca.crt': double.authority.ca.cert });

    it('takes_its_service_account', async () => {
        const ran = await inPod(account());
        assert.equal(ran.stdout, `ok: pods may be run at ${double.url} in namespace jobs\n`, ran.stderr);
        assert.equal(ran.code, 0);
    });

    it('says_what_of_it_is_missing', async () => {
        const { token: _, ...rest } = account();
        const ran = await inPod(rest);
        assert.equal(ran.code, 1, ran.stdout);
        assert.match(ran.stderr, /serviceaccount\/token: No such file/);
    });
});

describe('executor --check without an API server', () => {
    async function checkAt(port) {
        const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-check-'));
        const file = path.join(dir, 'kubeconfig');
        fs.writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'Config',
            clusters: [{ name: 'a', cluster: { server: `http://127.0.0.1:${port}` } }],
            users: [{ name: 'a', user: { token: TOKEN } }],
            contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }], 'current-context': 'a' }));
        const ran = await check(file);
        fs.rmSync(dir, { recursive: true });
        return ran;
    }

    it('says_that_nobody_answers', async () => {
        const server = net.createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => server.once('listening', resolve));
        const { port } = server.address();
        await new Promise((resolve) => server.close(resolve));
        const ran = await checkAt(port);
        assert.equal(ran.code, 3, ran.stderr);
        assert.match(ran.stderr, /the API server does not answer: cannot reach http:/);
        assert.ok(!ran.stderr.includes(TOKEN));
    });

    it('says_that_another_server_answers', async () => {
        const server = http.createServer((req, res) => {
            res.statusCode = 404;
            res.end('there is nothing here');
        }).listen(0, '127.0.0.1');
        await new Promise((resolve) => server.once('listening', resolve));
        const { port } = server.address();
        const ran = await checkAt(port);
        server.close();
        server.closeAllConnections();
        assert.equal(ran.code, 1, ran.stdout);
        assert.match(ran.stderr, /the server knows no pods: HTTP 404: there is nothing here/);
    });

    it('says_what_is_wrong_with_a_template', async () => {
        const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-check-'));
        const kubeconfig = path.join(dir, 'kubeconfig'), template = path.join(dir, 'pod.yaml');
        fs.writeFileSync(kubeconfig, JSON.stringify({ clusters: [{ name: 'a', cluster: {
            server: 'http://127.0.0.1:1' } }], contexts: [{ name: 'a', context: { cluster: 'a' } }],
        'current-context': 'a' }));
        fs.writeFileSync(template, 'kind: Deployment\nspec: {}\n');
        const ran = await check(kubeconfig, '--template', template);
        assert.equal(ran.code, 1);
        assert.ok(ran.stderr.includes(`${template}: line 1, column 7: kind: expected Pod`), ran.stderr);
        const other = await check(kubeconfig, '--context', 'b');
        assert.match(other.stderr, /contexts: there is none with the name 'b'; there are a\n/);
        fs.rmSync(dir, { recursive: true });
    });

    it('says_what_is_wrong_with_a_kubeconfig', async () => {
        const ran = await check('/nonexistent/kubeconfig');
        assert.equal(ran.code, 1);
        assert.match(ran.stderr, /nonexistent/);
    });
});
