// SPDX-License-Identifier: Apache-2.0
'use strict';

// What has to be true of everything that installs Tenax in a cluster, however it was rendered.

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { image } = require('./container');
const { argsOf, environmentOf, one, portOf, rulesOf, workload, workloads } = require('./manifests');

// What the executor asks an API server for, which kubernetes_run.test.js compares with what it really
// asks, and what its --check wants as well.
const ASKED = ['create pods', 'delete pods', 'get pods', 'get pods/log', 'list events', 'list pods',
    'watch pods'];
const ACCESS = [...ASKED, 'get events'].sort();

function accessOf(rules) {
    return rules.flatMap(({ verbs, resources }) => verbs.flatMap((verb) =>
        resources.map((resource) => `${verb} ${resource}`))).sort();
}

const NAMELESS = ['Namespace'];

// Whether a policy's peers, or a selector of pods, mean pods with these labels.
function selects({ matchLabels = {} }, labels) {
    return Object.entries(matchLabels).every(([name, value]) => labels[name] === value);
}

function policiesOf(objects, { namespace, labels }, type) {
    return objects.filter((object) => object.kind === 'NetworkPolicy' &&
        object.metadata.namespace === namespace && selects(object.spec.podSelector, labels) &&
        object.spec.policyTypes.includes(type));
}

// Whether the policies let pods of one workload reach a port of the other.
function reaches(objects, from, to, port) {
    const side = (pod, type, member, peers, other) => policiesOf(objects, pod, type)
        .flatMap((policy) => policy.spec[member] || [])
        .some((rule) => (rule[peers] || []).some((peer) => peer.podSelector &&
            !peer.namespaceSelector && selects(peer.podSelector, other.labels)) &&
            rule.ports.some((one) => one.port === port));
    return from.namespace === to.namespace && side(from, 'Egress', 'egress', 'to', to) &&
        side(to, 'Ingress', 'ingress', 'from', from);
}

// The tests, of the objects that get() returns once tests run.
function rules(get, { jobs, namespaces }) {
    it('puts_everything_into_the_namespaces_that_it_makes', () => {
        for (const { kind, metadata } of get())
            if (!NAMELESS.includes(kind))
                assert.ok(namespaces.includes(metadata.namespace), `${kind} ${metadata.name}`);
    });

    it('runs_nothing_as_root_or_on_a_root_that_can_be_written', () => {
        const found = workloads(get());
        assert.deepEqual(found.map(({ object }) => object.kind).sort(),
            ['Deployment', 'StatefulSet']);
        for (const { pod, containers } of found) {
            const { runAsNonRoot, runAsUser, runAsGroup, fsGroup, seccompProfile } =
                pod.securityContext;
            assert.deepEqual({ runAsNonRoot, seccompProfile },
                { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
            // The image's files are that user's.
            assert.deepEqual([runAsUser, runAsGroup, fsGroup], Array(3).fill(image().user));
            for (const container of containers) {
                assert.deepEqual(container.securityContext, { allowPrivilegeEscalation: false,
                    readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } });
                assert.ok(container.resources.requests.memory && container.resources.requests.cpu &&
                    container.resources.limits.memory);
                for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe'])
                    assert.ok(container[name], name);
            }
            for (const member of ['hostNetwork', 'hostPID', 'hostIPC'])
                assert.ok(!pod[member], member);
        }
    });

    it('keeps_jobs_and_state_on_volumes', () => {
        const server = workload(get(), 'server');
        const [container] = server.containers;
        const env = { ...image().env, ...environmentOf(get(), server, container) };
        const [{ name, mountPath }] = container.volumeMounts;
        assert.equal(mountPath, image().volume);
        assert.ok(env.TENAX_ROOT_DIR.startsWith(`${mountPath}/`));
        assert.ok(server.object.spec.volumeClaimTemplates.some((claim) =>
            claim.metadata.name === name) || server.pod.volumes.some((one) => one.name === name));

        const executor = workload(get(), 'executor');
        const [inner] = executor.containers;
        assert.ok(environmentOf(get(), executor, inner).TENAX_STATE_DIR
            .startsWith(`${inner.volumeMounts[0].mountPath}/`));
        const [volume] = executor.pod.volumes;
        assert.equal(volume.name, inner.volumeMounts[0].name);
        assert.ok(one(get(), 'PersistentVolumeClaim', volume.persistentVolumeClaim.claimName));
        assert.equal(executor.object.spec.strategy.type, 'Recreate');
    });

    it('leads_from_the_executor_to_the_server', () => {
        const objects = get();
        const server = workload(objects, 'server');
        const executor = workload(objects, 'executor');
        const env = environmentOf(objects, executor, executor.containers[0]);
        const url = new URL(env.TENAX_URL);
        const service = one(objects, 'Service', url.hostname);
        assert.equal(service.metadata.namespace, executor.namespace);
        assert.ok(selects({ matchLabels: service.spec.selector }, server.labels));
        const [port] = service.spec.ports;
        assert.equal(port.port, Number(url.port));
        assert.equal(service.metadata.name, server.object.spec.serviceName);
        const number = portOf(server.containers[0], port.targetPort);
        assert.equal(String(number),
            environmentOf(objects, server, server.containers[0]).TENAX_PORT);
        // Without a cluster IP a name leads to the pod itself, and so to the port of the container.
        assert.equal(service.spec.clusterIP, 'None');
        assert.equal(port.port, number);
        assert.ok(reaches(objects, executor, server, port.targetPort));
    });

    it('denies_by_default', () => {
        for (const one of workloads(get()))
            for (const type of ['Ingress', 'Egress'])
                assert.ok(policiesOf(get(), one, type).some(({ spec }) =>
                    !spec.podSelector.matchLabels?.['app.kubernetes.io/component'] &&
                    !spec.ingress && !spec.egress));
        assert.ok(policiesOf(get(), { namespace: jobs, labels: {} }, 'Ingress').length);
    });

    it('lets_the_executor_do_what_it_does_in_the_namespace_of_jobs_alone', () => {
        const executor = workload(get(), 'executor');
        const account = one(get(), 'ServiceAccount', executor.pod.serviceAccountName);
        assert.equal(account.metadata.namespace, executor.namespace);
        const found = rulesOf(get(), account);
        assert.deepEqual(accessOf(found), ACCESS);
        for (const rule of found)
            assert.deepEqual({ groups: rule.groups, namespaces: rule.namespaces, names: rule.names },
                { groups: [''], namespaces: [jobs], names: undefined });
        assert.equal(get().filter(({ kind }) => /^ClusterRole/.test(kind)).length, 0);
        const env = environmentOf(get(), executor, executor.containers[0]);
        assert.ok(argsOf(executor.containers[0], env).includes(`--namespace=${jobs}`));
        // The server has nothing to ask of the cluster.
        assert.equal(workload(get(), 'server').pod.automountServiceAccountToken, false);
    });
}

module.exports = { ACCESS, ASKED, rules };
