// SPDX-License-Identifier: Apache-2.0
'use strict';

// The cluster behind the API: its objects, nodes, kubelets, the controllers of namespaces and
// quotas. It is also the port (see kubelet.js) through which the scripts act.

const { randomUUID } = require('node:crypto');
const { Store, Clock } = require('./store');
const { Rest } = require('./rest');
const { Kubelet } = require('./kubelet');
const { Logs } = require('./logs');
const { Auth } = require('./auth');
const { Usage, choose } = require('./scheduler');
const { core, RESOURCES } = require('./resources');
const quota = require('./quota');
const steps = require('./steps');

const PODS = core('pods');
const NODES = core('nodes');
const EVENTS = core('events');
const NAMESPACES = core('namespaces');
const EVENTS_MAX = 20000; // the oldest are forgotten, as the API forgets them after an hour

class Cluster {
    constructor({ clockOffset = 0, history, nodes = 3, namespaces = ['default'], script, users,
        events = true, kubelet = true, faults, report, ca = '' } = {}) {
        this.clock = new Clock(clockOffset);
        this.store = new Store({ clock: this.clock, history });
        this.rest = new Rest(this);
        this.logs = new Logs(this.clock);
        this.auth = new Auth(users);
        this.usage = new Usage();
        this.watches = new Set();
        this.priorityClasses = {};
        this.faults = faults;
        this.events = events;
        this.eventKeys = [];
        this.eventNumber = 0;
        this.ca = ca;
        this.kubelet = new Kubelet(this, { script, idle: !kubelet, report });
        this.store.listeners.add((change) => this.changed(change));
        this.setup = { nodes, namespaces };
        this.begin();
    }

    begin() {
        const { nodes, namespaces } = this.setup;
        for (const name of new Set(['default', 'kube-system', ...namespaces]))
            this.namespace(name);
        const list = typeof nodes === 'number'
            ? Array.from({ length: nodes }, (_, i) => ({ name: `node-${i + 1}` })) : nodes;
        for (const node of list)
            this.node(node);
    }

    // ---- controllers

    changed(change) {
        for (const watch of this.watches)
            watch.changed(change);
        const { resource } = change.table;
        if (resource === PODS)
            this.podChanged(change);
        else if (resource === NODES && change.type !== 'MODIFIED')
            this.wakeSoon();
    }

    podChanged({ type, before, after }) {
        const then = before && before.object;
        const now = type === 'DELETED' ? undefined : after.object;
        this.usage.changed(then, now);
        if (type === 'ADDED') {
            this.kubelet.added(after.object);
            return;
        }
        const wasLive = !['Succeeded', 'Failed'].includes(then.status.phase);
        const isLive = now && !['Succeeded', 'Failed'].includes(now.status.phase);
        if (now)
            this.endLogs(then, now);
        if (wasLive && !isLive) {
            quota.refresh(this, after.object.metadata.namespace);
            if (this.waiting > 0)
                this.wakeSoon();
        }
        if (type !== 'DELETED')
            return;
        this.kubelet.removed(after.object);
        this.logs.drop(after.object.metadata.uid);
        quota.refresh(this, after.object.metadata.namespace);
        this.sweep(after.object.metadata.namespace);
    }

    endLogs(then, now) {
        if (!this.logs.byPod.has(now.metadata.uid) || then.status === now.status)
            return;
        const before = (name) => steps.find(then.status, name);
        for (const one of now.status.containerStatuses || [])
            if (one.state.terminated || one.state.waiting)
                this.logs.ended(now.metadata.uid, one.name);
            else if (one.lastState.terminated && !before(one.name)?.state.running)
                this.logs.rotate(now.metadata.uid, one.name);
    }

    // Pods that no node took look again, once for all changes of this turn.
    wakeSoon() {
        if (this.waking)
            return;
        this.waking = setImmediate(() => {
            this.waking = undefined;
            this.waiting = 0;
            this.kubelet.wake();
        });
    }

    // An object was marked as being deleted.
    marked(resource, object) {
        if (resource === PODS)
            this.kubelet.deleting(object);
        else if (resource === NAMESPACES)
            setImmediate(() => this.sweep(object.metadata.name));
    }

    // A namespace that is being deleted loses its contents, then itself.
    sweep(name) {
        const entry = this.store.get(NAMESPACES, '', name);
        if (!entry || !entry.object.metadata.deletionTimestamp)
            return;
        let left = 0;
        for (const resource of RESOURCES) {
            if (!resource.namespaced || resource.group)
                continue;
            for (const one of this.store.entries(resource, name)) {
                // The end of one may have swept others away meanwhile.
                const still = this.store.get(resource, name, one.object.metadata.name);
                if (still && !still.object.metadata.deletionTimestamp)
                    this.rest.deleteEntry(resource, still, {});
                left += this.store.get(resource, name, one.object.metadata.name) ? 1 : 0;
            }
        }
        const now = this.store.get(NAMESPACES, '', name);
        if (left === 0 && now)
            this.rest.write(NAMESPACES, { ...now.object, spec: { finalizers: [] } });
    }

    // What every namespace has from its beginning.
    furnish(name) {
        const metadata = (own) => ({ name: own, namespace: name });
        this.store.create(core('serviceaccounts'), { metadata: metadata('default') });
        this.store.create(core('configmaps'), { metadata: metadata('kube-root-ca.crt'),
            data: { 'ca.crt': this.ca } });
    }

    namespace(name) {
        if (!this.store.get(NAMESPACES, '', name))
            this.rest.insert({ resource: NAMESPACES }, { metadata: { name } }, false);
    }

    // {name, capacity: {cpu, memory, pods}, labels, taints}; of a name that is there, changed.
    node({ name, capacity = {}, labels = {}, taints, unschedulable }) {
        const size = { cpu: '1000', memory: '10Ti', 'ephemeral-storage': '10Ti', pods: '100000',
            ...capacity };
        const old = this.store.get(NODES, '', name);
        const now = this.clock.stamp();
        const spec = {};
        if (taints)
            spec.taints = taints;
        if (unschedulable)
            spec.unschedulable = true;
        const object = { metadata: { ...(old && old.object.metadata), name, labels: {
            'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux',
            'kubernetes.io/arch': 'amd64', ...labels } }, spec,
        status: { capacity: size, allocatable: size, conditions: [{ type: 'Ready', status: 'True',
            lastHeartbeatTime: now, lastTransitionTime: now, reason: 'KubeletReady',
            message: 'kubelet is posting ready status' }],
        addresses: [{ type: 'InternalIP', address: '10.0.0.1' },
            { type: 'Hostname', address: name }],
        nodeInfo: { kubeletVersion: 'v1.32.0', operatingSystem: 'linux', architecture: 'amd64',
            osImage: 'double', kernelVersion: '6.1', containerRuntimeVersion: 'double://1',
            kubeProxyVersion: '', machineID: '', systemUUID: '', bootID: '' } } };
        if (old)
            this.store.update(NODES, object);
        else
            this.store.create(NODES, object);
        this.wakeSoon();
    }

    // The node's kubelet is not heard of any more: {phase} for what older clusters set.
    loseNode(name, { phase, evict = false } = {}) {
        this.kubelet.setLost(name, true);
        this.nodeReady(name, 'Unknown');
        for (const pod of this.podsOn(name)) {
            const { status } = steps.apply(pod, { do: 'nodeLost', phase }, this.stamp());
            this.write(pod, status);
            if (evict)
                this.kubelet.effects(this.get(pod.metadata.namespace, pod.metadata.name),
                    steps.apply(this.get(pod.metadata.namespace, pod.metadata.name),
                        { do: 'tainted' }, this.stamp()));
        }
    }

    restoreNode(name) {
        this.kubelet.setLost(name, false);
        this.nodeReady(name, 'True');
        for (const pod of this.podsOn(name)) {
            const { reason, message, ...status } = pod.status;
            if (reason === 'NodeLost')
                this.write(pod, { ...status, phase: status.phase === 'Unknown' ? 'Running'
                    : status.phase });
        }
        this.kubelet.wake();
    }

    // The node is deleted; what was on it is collected.
    removeNode(name) {
        this.store.remove(NODES, '', name);
        for (const pod of this.podsOn(name))
            this.kubelet.effects(pod, steps.apply(pod, { do: 'collected' }, this.stamp()));
    }

    podsOn(name) {
        return [...this.usage.of(name).pods.values()];
    }

    nodeReady(name, status) {
        const { object } = this.store.get(NODES, '', name);
        const lost = status !== 'True';
        const conditions = steps.setCondition(object.status.conditions, 'Ready', status,
            this.stamp(), lost ? { reason: 'NodeStatusUnknown',
                message: 'Kubelet stopped posting node status.' } : { reason: 'KubeletReady',
                message: 'kubelet is posting ready status' });
        const taints = (object.spec.taints || []).filter((taint) =>
            taint.key !== 'node.kubernetes.io/unreachable');
        if (lost)
            for (const effect of ['NoSchedule', 'NoExecute'])
                taints.push({ key: 'node.kubernetes.io/unreachable', effect });
        const { taints: old, ...spec } = object.spec;
        this.store.update(NODES, { ...object, spec: taints.length ? { ...spec, taints } : spec,
            status: { ...object.status, conditions } });
    }

    // ---- the port of the scripts

    get(namespace, name) {
        const entry = this.store.get(PODS, namespace, name);
        return entry && entry.object;
    }

    stamp() {
        return this.clock.stamp();
    }

    write(pod, status) {
        const entry = this.store.get(PODS, pod.metadata.namespace, pod.metadata.name);
        if (entry && entry.object.metadata.uid === pod.metadata.uid)
            this.store.update(PODS, { ...entry.object, status: { ...status,
                qosClass: entry.object.status.qosClass } });
    }

    bind(pod, node) {
        let name = node;
        if (node === true) {
            const { schedulerName = 'default-scheduler' } = pod.spec;
            const found = schedulerName === 'default-scheduler' ? choose(this, pod) : {};
            if (!found.node) {
                this.waiting = (this.waiting || 0) + 1;
                this.unscheduled(pod, found.message);
                return false;
            }
            name = found.node;
        }
        const { status } = steps.apply(pod, { do: 'scheduled' }, this.stamp());
        this.store.update(PODS, { ...pod, spec: { ...pod.spec, nodeName: name }, status });
        return name;
    }

    unscheduled(pod, message) {
        const condition = (pod.status.conditions || []).find((one) => one.type === 'PodScheduled');
        if (!message || (condition && condition.message === message))
            return;
        this.kubelet.effects(pod, steps.apply(pod, { do: 'unschedulable', message },
            this.stamp()));
    }

    event(pod, { type, reason, message, component, fieldPath }) {
        if (!this.events)
            return;
        const { namespace, name, uid, resourceVersion } = pod.metadata;
        const now = this.stamp();
        const involvedObject = { kind: 'Pod', namespace, name, uid, apiVersion: 'v1',
            resourceVersion };
        if (fieldPath)
            involvedObject.fieldPath = fieldPath;
        const source = { component };
        if (component === 'kubelet' && pod.spec.nodeName)
            source.host = pod.spec.nodeName;
        const id = `${name}.${(this.clock.now() * 4096 + ++this.eventNumber % 4096).toString(16)}`;
        this.store.create(EVENTS, { metadata: { name: id, namespace }, involvedObject, reason,
            message, source, firstTimestamp: now, lastTimestamp: now, count: 1, type,
            eventTime: null, reportingComponent: component,
            reportingInstance: source.host || '' });
        this.eventKeys.push([namespace, id]);
        if (this.eventKeys.length > EVENTS_MAX)
            this.forgetEvent(...this.eventKeys.shift());
    }

    forgetEvent(namespace, name) {
        if (this.store.get(EVENTS, namespace, name))
            this.store.remove(EVENTS, namespace, name);
    }

    remove(pod, { grace, force }) {
        const entry = this.store.get(PODS, pod.metadata.namespace, pod.metadata.name);
        if (entry && entry.object.metadata.uid === pod.metadata.uid)
            this.rest.deleteEntry(PODS, entry, { gracePeriodSeconds: force ? 0 : grace });
    }

    gone(pod) {
        this.remove(pod, { grace: 0 });
    }

    log(pod, container, text, previous) {
        this.logs.append(pod.metadata.uid, container, text, previous);
    }

    token(namespace, name) {
        const token = randomUUID();
        this.auth.serviceAccount(namespace, name, token);
        return token;
    }

    // As if the data were lost, or (keep) only the history of changes.
    restart({ keep = true } = {}) {
        if (keep) {
            this.store.compact();
            return;
        }
        this.kubelet.stop();
        this.kubelet.runs.clear();
        this.usage.clear();
        this.store.clear();
        this.begin();
    }

    stop() {
        this.kubelet.stop();
        clearImmediate(this.waking);
        for (const watch of [...this.watches])
            watch.destroy();
    }
}

module.exports = { Cluster };
