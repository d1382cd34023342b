// SPDX-License-Identifier: Apache-2.0
'use strict';

// deploy/helm/tenax: by default what deploy/kubernetes is; with other values what they ask for; and
// values that make no sense are refused. helm_render.go renders it as helm would.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, makeDir } = require('../http/harness');
const { CHART, Chart, accepts } = require('./chart');
const { argsOf, environmentOf, kustomize, one, output, workload, workloads } =
    require('./manifests');
const { rules } = require('./manifest_rules');

let dir;
let chart;

before(() => {
    dir = makeDir();
    chart = new Chart(dir);
});

after(() => fs.rmSync(dir, { recursive: true, force: true }));

const render = (values, options) => chart.render(values, options);

// ---- both ways to install, made comparable

const OF_HELM = ['app.kubernetes.io/instance', 'app.kubernetes.io/managed-by',
    'app.kubernetes.io/version', 'helm.sh/chart', 'helm.sh/resource-policy', 'checksum/settings'];

// Without what only one of them has: helm's labels and annotations, kustomize's hashes in names.
function plain(value, hashed) {
    if (typeof value === 'string')
        return hashed.find((name) => value.startsWith(`${name}-`) && /-[a-z0-9]{10}$/.test(value)) ||
            value;
    if (Array.isArray(value))
        return value.map((item) => plain(item, hashed));
    if (typeof value !== 'object' || value === null)
        return value;
    const members = Object.entries(value).filter(([name]) => !OF_HELM.includes(name))
        .map(([name, item]) => [name, plain(item, hashed)])
        .filter(([name, item]) => name !== 'annotations' || Object.keys(item).length);
    return Object.fromEntries(members);
}

function comparable(objects) {
    const out = {};
    for (const object of plain(objects, ['tenax-server', 'tenax-executor'])) {
        const { kind, metadata: { namespace = '', name } } = object;
        out[`${kind} ${namespace}/${name}`] = object;
    }
    return out;
}

describe('deploy/helm/tenax', () => {
    it('is_by_default_what_kustomize_gives', () => {
        const helm = comparable(render().objects);
        const kustomized = comparable(kustomize('.'));
        // Helm makes the namespace of a release itself, which may have other pods: they are left alone.
        delete kustomized['Namespace /tenax'];
        const deny = 'NetworkPolicy tenax/default-deny';
        const denies = helm['NetworkPolicy tenax/tenax-default-deny'];
        assert.deepEqual(denies.spec.podSelector, { matchLabels: { 'app.kubernetes.io/name': 'tenax' } });
        delete helm['NetworkPolicy tenax/tenax-default-deny'];
        helm[deny] = { ...denies, metadata: { ...denies.metadata, name: 'default-deny' },
            spec: { ...denies.spec, podSelector: {} } };
        assert.deepEqual(helm, kustomized);
    });

    it('has_the_version_of_the_program', () => {
        const [, version] = /^tenax (\S+)$/m.exec(output(BIN, ['version']));
        for (const objects of [render().objects, kustomize('.')])
            for (const { containers } of workloads(objects))
                assert.equal(containers[0].image, `tenax:${version}`);
        assert.match(fs.readFileSync(path.join(CHART, 'Chart.yaml'), 'utf8'),
            new RegExp(`^appVersion: ${version.replaceAll('.', '\\.')}$`, 'm'));
    });

    it('has_defaults_that_its_schema_accepts_and_knows_all_of', () => {
        const values = JSON.parse(output('/usr/bin/python3', ['-c', 'import json, sys, yaml\n' +
            'json.dump(yaml.safe_load(sys.stdin), sys.stdout)'],
        fs.readFileSync(path.join(CHART, 'values.yaml'), 'utf8')));
        assert.ok(accepts(values), JSON.stringify(accepts.errors));
    });

    describe('by default', () => {
        let objects;
        before(() => { ({ objects } = render()); });
        rules(() => objects, { jobs: 'tenax-jobs', namespaces: ['tenax', 'tenax-jobs'] });

        it('puts_its_pods_together_by_labels_of_the_release', () => {
            for (const { object, labels } of workloads(objects)) {
                const { matchLabels } = object.spec.selector;
                assert.equal(matchLabels['app.kubernetes.io/instance'], 'tenax');
                for (const [name, value] of Object.entries(matchLabels))
                    assert.equal(labels[name], value);
            }
        });

        it('starts_pods_again_when_settings_change', () => {
            const other = render({ server: { settings: { TENAX_LOG_LEVEL: 'debug' } } }).objects;
            const sum = (of) => workload(of, 'server').object.spec.template.metadata.annotations;
            assert.notDeepEqual(sum(objects), sum(other));
        });
    });

    describe('with other names, queues and limits', () => {
        let objects;
        let notes;
        before(() => {
            ({ objects, notes } = render({
                image: { repository: 'registry.example.com/tenax', tag: '1.0', pullPolicy: 'Always',
                    pullSecrets: ['registry'] },
                server: { settings: { TENAX_MAX_BODY: 33554432, TENAX_RETRY_POLICY_ENABLED: true,
                    TENAX_DEFAULT_BACKOFF_EXPONENT: 2.5, TENAX_LOG_LEVEL: 'warn',
                    TENAX_INSECURE: false },
                extraArgs: ['--default-retry-limit', '5'], allowedHosts: ['queue.example.org'],
                persistence: { size: '100Gi', storageClass: 'fast' },
                nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'a', operator: 'Exists' }],
                podAnnotations: { 'example.org/scrape': 'true' } },
                executor: { name: 'gpu', queues: ['render', 'encode'], queueLimits: { render: 90000 },
                    maxPods: 2000000, extraEnv: [{ name: 'TENAX_LEASE', value: '1' }],
                    resources: { limits: { memory: '1Gi' } } },
                jobs: { namespace: 'batch', alsoNamespaces: ['film', 'sound'] },
                networkPolicy: { apiServer: { cidrs: ['10.0.0.1/32'], ports: [6443] } },
                serviceAccount: { annotations: { 'example.org/role': 'pods' } },
            }, { release: 'queue', namespace: 'batch-system' }));
        });
        rules(() => objects.filter(({ metadata }) => !['film', 'sound'].includes(metadata.namespace)),
            { jobs: 'batch', namespaces: ['batch-system', 'batch'] });

        it('is_named_after_the_release', () => {
            assert.equal(workload(objects, 'server').object.metadata.name, 'queue-tenax');
            const executor = workload(objects, 'executor');
            assert.equal(environmentOf(objects, executor, executor.containers[0]).TENAX_URL,
                'http://queue-tenax:7890');
            assert.match(notes, /http:\/\/queue-tenax\.batch-system\.svc:7890/);
            assert.match(notes, /Jobs of render, encode become pods in the namespace batch\./);
        });

        it('has_what_the_values_say', () => {
            const server = workload(objects, 'server');
            const [container] = server.containers;
            const env = environmentOf(objects, server, container);
            assert.deepEqual([env.TENAX_MAX_BODY, env.TENAX_RETRY_POLICY_ENABLED,
                env.TENAX_DEFAULT_BACKOFF_EXPONENT, env.TENAX_LOG_LEVEL, env.TENAX_INSECURE],
            ['33554432', 'true', '2.5', 'warn', 'false']);
            assert.equal(env.TENAX_ALLOWED_HOSTS,
                'queue-tenax,queue-tenax.batch-system,*.svc,queue.example.org');
            assert.deepEqual(argsOf(container, env), ['serve', '--default-retry-limit', '5']);
            assert.equal(container.image, 'registry.example.com/tenax:1.0');
            assert.deepEqual(server.pod.imagePullSecrets, [{ name: 'registry' }]);
            assert.deepEqual(server.pod.nodeSelector, { disk: 'ssd' });
            const [claim] = server.object.spec.volumeClaimTemplates;
            assert.equal(claim.spec.storageClassName, 'fast');
            const executor = workload(objects, 'executor');
            const inner = environmentOf(objects, executor, executor.containers[0]);
            assert.deepEqual([inner.TENAX_EXECUTOR, inner.TENAX_MAX_PODS, inner.TENAX_LEASE],
                ['gpu', '2000000', '1']);
            assert.deepEqual(argsOf(executor.containers[0], inner), ['executor',
                '--queue=render,encode', '--namespace=batch', '--allow-namespace=film',
                '--allow-namespace=sound', '--queue-limit=render=90000']);
            const { egress } = one(objects, 'NetworkPolicy', 'queue-tenax-executor').spec;
            assert.deepEqual(egress.at(-1), { to: [{ ipBlock: { cidr: '10.0.0.1/32' } }],
                ports: [{ protocol: 'TCP', port: 6443 }] });
        });

        it('grants_the_same_in_each_namespace_of_jobs', () => {
            for (const kind of ['Role', 'RoleBinding']) {
                const found = objects.filter((object) => object.kind === kind);
                assert.deepEqual(found.map(({ metadata }) => metadata.namespace),
                    ['batch', 'film', 'sound']);
                assert.equal(new Set(found.map(({ rules: r, roleRef, subjects }) =>
                    JSON.stringify([r, roleRef, subjects]))).size, 1);
            }
        });
    });

    it('installs_a_server_alone', () => {
        const { objects, notes } = render({ executor: { enabled: false },
            networkPolicy: { clients: [] } });
        assert.deepEqual(objects.map(({ kind }) => kind).sort(),
            ['ConfigMap', 'NetworkPolicy', 'NetworkPolicy', 'Service', 'StatefulSet']);
        assert.equal(one(objects, 'NetworkPolicy', 'tenax').spec.ingress, undefined);
        assert.doesNotMatch(notes, /become pods/);
    });

    it('uses_claims_and_accounts_that_there_are_or_none', () => {
        const { objects } = render({ server: { persistence: { existingClaim: 'data' } },
            executor: { persistence: { existingClaim: 'reports' } }, jobs: { createNamespace: false },
            serviceAccount: { create: false, name: 'pods' }, networkPolicy: { enabled: false } });
        assert.deepEqual(objects.map(({ kind }) => kind).sort(), ['ConfigMap', 'ConfigMap',
            'Deployment', 'Role', 'RoleBinding', 'Service', 'StatefulSet']);
        const volumes = (component) => workload(objects, component).pod.volumes;
        assert.deepEqual(volumes('server'),
            [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }]);
        assert.deepEqual(volumes('executor'),
            [{ name: 'state', persistentVolumeClaim: { claimName: 'reports' } }]);
        assert.equal(workload(objects, 'executor').pod.serviceAccountName, 'pods');
        assert.equal(one(objects, 'RoleBinding').subjects[0].name, 'pods');

        const without = render({ server: { persistence: { enabled: false } },
            executor: { persistence: { enabled: false } } });
        for (const { pod, object } of workloads(without.objects)) {
            assert.deepEqual(pod.volumes[0].emptyDir, {});
            assert.equal(object.spec.volumeClaimTemplates, undefined);
        }
        assert.match(without.notes, /jobs are lost/);
    });

    it('replaces_a_probe', () => {
        const probe = { httpGet: null, exec: { command: ['docker-health'] } };
        const { objects } = chart.render({ server: { livenessProbe: probe } });
        const { livenessProbe } = workload(objects, 'server').containers[0];
        assert.equal(livenessProbe.httpGet, undefined);
        assert.deepEqual(livenessProbe.exec, { command: ['docker-health'] });
    });

    for (const [what, values] of [
        ['an unknown value', { queues: ['a'] }],
        ['an unknown value of the server', { server: { replicas: 2 } }],
        ['no queues', { executor: { queues: [] } }],
        ['queues in one text', { executor: { queues: ['a,b'] } }],
        ['a limit of nothing', { executor: { queueLimits: { a: 0 } } }],
        ['a number as text', { executor: { maxPods: '100' } }],
        ['another pull policy', { image: { pullPolicy: 'Sometimes' } }],
        ['a setting that is no variable', { server: { settings: { 'log-level': 'info' } } }],
        ['a size that is none', { server: { persistence: { size: 'large' } } }],
        ['another kind of URL', { executor: { serverUrl: 'tenax:7890' } }],
    ])
        it(`has_a_schema_that_refuses_${what.replaceAll(' ', '_')}`, () => {
            assert.equal(accepts(values), false);
        });

    for (const [what, values, why] of [
        ['jobs_beside_the_server', { jobs: { namespace: 'tenax' } }, /jobs\.namespace: not that of/],
        ['an_executor_without_a_certificate', { tls: { serverSecret: 'a' } }, /tls\.clientSecret/],
        ['no_service_account', { serviceAccount: { create: false } }, /serviceAccount\.name/],
    ])
        it(`refuses_${what}`, () => {
            assert.ok(accepts(values));
            const ran = spawnSync(...chart.command(values), { encoding: 'utf8' });
            assert.equal(ran.status, 1);
            assert.match(ran.stderr, why);
        });
});
