// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the API adds to a pod when it is created: defaults of its fields, what admission sets
// (service account, tolerations, priority), and its class of service.

const { core } = require('./resources');
const { forbidden } = require('./status');
const quantity = require('./quantity');

const SUFFIX = 'bcdfghjklmnpqrstvwxz2456789';

function suffix() {
    let out = '';
    for (let i = 0; i < 5; i++)
        out += SUFFIX[Math.floor(Math.random() * SUFFIX.length)];
    return out;
}

function withDefaults(object, defaults) {
    const out = { ...object };
    for (const [key, value] of Object.entries(defaults))
        if (out[key] === undefined)
            out[key] = value;
    return out;
}

function probe(given) {
    const out = withDefaults(given, { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1,
        failureThreshold: 3 });
    if (out.httpGet)
        out.httpGet = withDefaults(out.httpGet, { path: '/', scheme: 'HTTP' });
    return out;
}

function pullPolicy(image = '') {
    const tagged = /:[^/]*$/.test(image) && !image.endsWith(':latest');
    return tagged || image.includes('@') ? 'IfNotPresent' : 'Always';
}

function container(given) {
    const out = withDefaults(given, { resources: {},
        terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File',
        imagePullPolicy: pullPolicy(given.image) });
    const { limits, requests } = out.resources;
    if (limits)
        out.resources = { ...out.resources, requests: { ...limits, ...requests } };
    if (out.ports)
        out.ports = out.ports.map((port) => withDefaults(port, { protocol: 'TCP' }));
    for (const name of ['livenessProbe', 'readinessProbe', 'startupProbe'])
        if (out[name])
            out[name] = probe(out[name]);
    if (out.env)
        out.env = out.env.map(variable);
    return out;
}

function variable(given) {
    const from = given.valueFrom;
    if (!from || !from.fieldRef)
        return given;
    return { ...given, valueFrom: { ...from, fieldRef: withDefaults(from.fieldRef,
        { apiVersion: 'v1' }) } };
}

function volume(given) {
    const out = { ...given };
    for (const kind of ['secret', 'configMap', 'downwardAPI', 'projected'])
        if (out[kind])
            out[kind] = withDefaults(out[kind], { defaultMode: 420 });
    if (out.hostPath)
        out.hostPath = withDefaults(out.hostPath, { type: '' });
    return Object.keys(out).length === 1 ? { ...out, emptyDir: {} } : out;
}

const TOLERATED = ['not-ready', 'unreachable'].map((name) => ({
    key: `node.kubernetes.io/${name}`, operator: 'Exists', effect: 'NoExecute',
    tolerationSeconds: 300 }));

function tolerations(given = []) {
    const missing = TOLERATED.filter(({ key }) => !given.some((t) => t.effect !== 'NoSchedule' &&
        t.effect !== 'PreferNoSchedule' && (t.key === key || (!t.key && t.operator === 'Exists'))));
    return [...given, ...missing];
}

function defaults(given) {
    const spec = withDefaults(given, { restartPolicy: 'Always', terminationGracePeriodSeconds: 30,
        dnsPolicy: 'ClusterFirst', securityContext: {}, schedulerName: 'default-scheduler',
        enableServiceLinks: true });
    spec.containers = (spec.containers || []).map(container);
    if (spec.initContainers)
        spec.initContainers = spec.initContainers.map(container);
    if (spec.volumes)
        spec.volumes = spec.volumes.map(volume);
    return spec;
}

function accessVolume(name) {
    return { name, projected: { sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        { downwardAPI: { items: [{ path: 'namespace',
            fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] } },
    ], defaultMode: 420 } };
}

const ACCESS_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';

// The admission of service accounts: the name, that it is there, its token for each container.
function serviceAccount(cluster, metadata, spec) {
    const name = spec.serviceAccountName || spec.serviceAccount || 'default';
    const found = cluster.store.get(core('serviceaccounts'), metadata.namespace, name);
    if (!found)
        throw forbidden(core('pods'), metadata.name || '', 'error looking up service account ' +
            `${metadata.namespace}/${name}: serviceaccount "${name}" not found`);
    const out = { ...spec, serviceAccountName: name, serviceAccount: name };
    if ((spec.automountServiceAccountToken ?? found.object.automountServiceAccountToken) === false)
        return out;
    const volumeName = `kube-api-access-${suffix()}`;
    const mount = (given) => ((given.volumeMounts || []).some((m) => m.mountPath === ACCESS_PATH)
        ? given : { ...given, volumeMounts: [...(given.volumeMounts || []),
            { name: volumeName, readOnly: true, mountPath: ACCESS_PATH }] });
    out.containers = out.containers.map(mount);
    if (out.initContainers)
        out.initContainers = out.initContainers.map(mount);
    out.volumes = [...(out.volumes || []), accessVolume(volumeName)];
    return out;
}

const PRIORITIES = { 'system-node-critical': 2000001000, 'system-cluster-critical': 2000000000 };

function priority(cluster, metadata, spec) {
    const name = spec.priorityClassName;
    const known = { ...PRIORITIES, ...cluster.priorityClasses };
    if (name && !Object.hasOwn(known, name))
        throw forbidden(core('pods'), metadata.name || '', 'no PriorityClass with name ' +
            `${name} was found`);
    return { ...spec, priority: name ? known[name] : 0,
        preemptionPolicy: spec.preemptionPolicy || 'PreemptLowerPriority' };
}

function qosClass(spec) {
    const all = [...spec.containers, ...(spec.initContainers || [])];
    let guaranteed = true;
    let any = false;
    for (const { resources = {} } of all)
        for (const name of ['cpu', 'memory']) {
            const limit = (resources.limits || {})[name];
            const request = (resources.requests || {})[name];
            any = any || limit !== undefined || request !== undefined;
            if (limit === undefined || quantity.nano(limit) !== quantity.nano(request))
                guaranteed = false;
        }
    if (!any)
        return 'BestEffort';
    return guaranteed ? 'Guaranteed' : 'Burstable';
}

function prepare(cluster, object) {
    const { metadata } = object;
    let spec = defaults(object.spec || {});
    spec = serviceAccount(cluster, metadata, spec);
    spec = priority(cluster, metadata, spec);
    spec.tolerations = tolerations(spec.tolerations);
    return { ...object, spec, status: { phase: 'Pending', qosClass: qosClass(spec) } };
}

// What a pod asks of its node: the sum of its containers, or its largest init container.
function requests(spec) {
    const out = {};
    for (const { resources = {} } of spec.containers)
        for (const [name, value] of Object.entries(resources.requests || {}))
            out[name] = quantity.sum(out[name] || '0', value);
    for (const { resources = {} } of spec.initContainers || [])
        for (const [name, value] of Object.entries(resources.requests || {}))
            if (out[name] === undefined || quantity.nano(value) > quantity.nano(out[name]))
                out[name] = value;
    for (const [name, value] of Object.entries(spec.overhead || {}))
        out[name] = quantity.sum(out[name] || '0', value);
    return out;
}

function limits(spec) {
    const out = {};
    for (const { resources = {} } of spec.containers)
        for (const [name, value] of Object.entries(resources.limits || {}))
            out[name] = quantity.sum(out[name] || '0', value);
    return out;
}

// The seconds that a deletion waits.
function grace(pod, asked) {
    let seconds = asked ?? pod.spec.terminationGracePeriodSeconds ?? 0;
    if (!pod.spec.nodeName || ['Succeeded', 'Failed'].includes(pod.status.phase))
        seconds = 0;
    return seconds < 0 ? 1 : seconds;
}

module.exports = { prepare, requests, limits, grace };
