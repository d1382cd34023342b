// SPDX-License-Identifier: Apache-2.0
'use strict';

// deploy/kubernetes, as kubectl renders it: valid, safe, and coherent; and what an API server says
// of it. Whether it runs is for kubernetes_run.test.js.

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { after, before, describe, it } = require('node:test');
const { startDouble } = require('../kubernetes/double');
const { MODELS, PYTHON, environmentOf, kustomize, one, workload, workloads } = require('./manifests');
const { rules } = require('./manifest_rules');

for (const [folder, jobs, namespaces] of [
    ['.', 'tenax-jobs', ['tenax', 'tenax-jobs']],
    ['example', 'batch', ['batch-system', 'batch']],
])
    describe(`deploy/kubernetes/${folder}`, () => {
        let objects;
        before(() => { objects = kustomize(folder); });

        it('has_what_a_cluster_needs', () => {
            assert.deepEqual(objects.map(({ kind }) => kind).sort(), ['ConfigMap', 'ConfigMap',
                'Deployment', 'Namespace', 'Namespace', 'NetworkPolicy', 'NetworkPolicy',
                'NetworkPolicy', 'NetworkPolicy', 'PersistentVolumeClaim', 'Role', 'RoleBinding',
                'Service', 'ServiceAccount', 'StatefulSet']);
            assert.deepEqual(objects.filter(({ kind }) => kind === 'Namespace')
                .map(({ metadata }) => metadata.name).sort(), [...namespaces].sort());
        });

        rules(() => objects, { jobs, namespaces });
    });

describe('the example', () => {
    it('has_its_own_image_queues_and_settings', () => {
        const objects = kustomize('example');
        for (const { containers } of workloads(objects))
            assert.equal(containers[0].image, 'registry.example.com/tenax:1.0');
        const executor = workload(objects, 'executor');
        const env = environmentOf(objects, executor, executor.containers[0]);
        assert.equal(env.QUEUES, 'render,encode');
        assert.equal(env.TENAX_MAX_PODS, '400');
        const server = workload(objects, 'server');
        assert.equal(environmentOf(objects, server, server.containers[0])
            .TENAX_DEFAULT_RETRY_LIMIT, '5');
        assert.equal(server.object.spec.volumeClaimTemplates[0].spec.resources.requests.storage,
            '100Gi');
    });
});

describe('an API server', () => {
    const KNOWN = ['Namespace', 'ServiceAccount', 'ConfigMap'];
    let double;
    let kubeconfig;
    let objects;
    before(async () => {
        double = await startDouble({ tls: true, kubelet: false });
        kubeconfig = double.kubeconfig();
        objects = kustomize('.');
    });
    after(() => double.stop());

    async function apply(object) {
        const file = path.join(double.dir, 'object.json');
        fs.writeFileSync(file, JSON.stringify(object));
        return (await promisify(execFile)('kubectl', [`--kubeconfig=${kubeconfig}`, 'apply',
            '--validate=true', '-f', file])).stdout;
    }

    it('accepts_the_objects_of_kinds_that_it_knows', async () => {
        for (const object of objects.filter(({ kind }) => KNOWN.includes(kind)))
            assert.match(await apply(object), /created/);
        const map = one(objects, 'ConfigMap', workload(objects, 'server').containers[0]
            .envFrom[0].configMapRef.name);
        const there = await double.request('GET',
            `/api/v1/namespaces/tenax/configmaps/${map.metadata.name}`);
        assert.deepEqual(there.data, map.data);
    });

    it('accepts_the_pods_that_come_of_it', async () => {
        for (const { object, namespace, labels, pod } of workloads(objects)) {
            const name = `${object.metadata.name}-0`;
            // What a StatefulSet makes of its templates of claims.
            const volumes = [...pod.volumes || [], ...(object.spec.volumeClaimTemplates || [])
                .map((claim) => ({ name: claim.metadata.name, persistentVolumeClaim:
                    { claimName: `${claim.metadata.name}-${name}` } }))];
            assert.match(await apply({ apiVersion: 'v1', kind: 'Pod',
                metadata: { name, namespace, labels }, spec: { ...pod, volumes } }), /created/);
        }
    });
});

describe('models.py', () => {
    // What the tests above rely on: it refuses what is wrong.
    for (const [what, yaml] of [
        ['an unknown member', 'apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n'],
        ['another type', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n'],
        ['a missing member', 'apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n' +
            'metadata: {name: a}\n'],
        ['an unknown kind', 'apiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n'],
    ])
        it(`refuses_${what.replaceAll(' ', '_')}`, () => {
            const ran = spawnSync(PYTHON, [MODELS], { input: yaml, encoding: 'utf8' });
            assert.equal(ran.status, 1, ran.stdout);
            assert.match(ran.stderr, /^[A-Z][A-Za-z]+ a: /);
        });
});
