// SPDX-License-Identifier: Apache-2.0
'use strict';

// The abstraction of the suite: the same steps leave the same pods behind, whether the double does
// them itself or the puppet of a real API server does them from outside. The real server is here
// a double without scheduler and kubelet.

const assert = require('node:assert/strict');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const { startCluster, onlyDouble } = require('./cluster');

const STEPS = [
    ['succeeded', {}, 'Succeeded'],
    ['oom', {}, 'Failed'],
    ['waiting', { reason: 'ErrImagePull' }, 'Pending'],
    ['evicted', {}, 'Failed'],
    ['exited', { code: 3, message: 'no' }, 'Failed'],
    ['unschedulable', { message: '0/3 nodes are available' }, 'Pending'],
    ['running', {}, 'Running'],
    ['nodeLost', { phase: 'Unknown' }, 'Unknown'],
];

function manifest(cluster, name, spec = {}) {
    return { kind: 'Pod', apiVersion: 'v1', metadata: { name },
        spec: cluster.podSpec({ restartPolicy: 'Never', terminationGracePeriodSeconds: 1,
            containers: [{ name: 'main', image: 'busybox:1' }], ...spec }) };
}

async function create(cluster, name, spec) {
    await cluster.request('POST', cluster.path('pods'), manifest(cluster, name, spec));
}

// What the statuses of two runs have in common: all but times and addresses.
function essence({ status, spec }) {
    const plain = JSON.parse(JSON.stringify(status, (key, value) =>
        (/(Time|At|IPs?|containerID|imageID)$/.test(key) ? undefined : value))
        .replaceAll(spec.nodeName || 'none', 'NODE'));
    plain.conditions.sort((a, b) => (a.type < b.type ? -1 : 1));
    return { status: plain, bound: Boolean(spec.nodeName) };
}

function suite(name, start, skip = false) {
    describe(name, { skip }, () => {
        const results = {};
        let cluster;
        before(async () => {
            cluster = await start();
        });
        after(() => cluster && cluster.stop());

        for (const [step, details, phase] of STEPS)
            test(`step ${step}`, async () => {
                cluster.script([], { match: { name: `^${step.toLowerCase()}$` } });
                await create(cluster, step.toLowerCase());
                await cluster.until(step.toLowerCase(), (pod) => pod);
                await cluster.phase(step.toLowerCase(), step, details);
                const pod = await cluster.pod(step.toLowerCase());
                assert.equal(pod.status.phase, phase);
                results[step] = essence(pod);
            });

        test('without a word pods run and succeed', async () => {
            await create(cluster, 'plain');
            const pod = await cluster.until('plain', (one) => one.status.phase === 'Succeeded');
            assert.ok(cluster.nodes.includes(pod.spec.nodeName));
            const events = await cluster.events('plain');
            assert.ok(events.some((event) => event.reason === 'Scheduled'));
        });

        test('a deleted pod is gone when its containers have ended', async () => {
            cluster.script(['running'], { match: { name: '^live$' } });
            await create(cluster, 'live');
            await cluster.until('live', (pod) => pod.status.phase === 'Running');
            await cluster.request('DELETE', cluster.path('pods/live'));
            await cluster.until('live', (pod) => !pod);
        });

        test('a pod keeps off the nodes that it names', async () => {
            const [first, ...others] = cluster.nodes;
            const expression = { key: 'kubernetes.io/hostname', operator: 'NotIn', values: others };
            const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: [expression] }] } } };
            await create(cluster, 'picky', { affinity });
            const pod = await cluster.until('picky', (one) => one.spec.nodeName);
            assert.equal(pod.spec.nodeName, first);
        });

        suite.results.push(results);
    });
}
suite.results = [];

suite('the cluster of the suite', () => startCluster({ tls: true }));

let bare;
suite('a server without kubelet', async () => {
    bare = await startDouble({ tls: true, kubelet: false, nodes: 0 });
    return startCluster({ kubeconfig: bare.kubeconfig() });
}, onlyDouble);

test('both leave the same behind', { skip: onlyDouble }, async () => {
    const [first, second] = suite.results;
    for (const [step] of STEPS)
        assert.deepEqual(second[step], first[step], step);
    assert.deepEqual(bare.pods().map((pod) => pod.metadata.name), [], 'it cleans up');
});

after(() => bare && bare.stop());
