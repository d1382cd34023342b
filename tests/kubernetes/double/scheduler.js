// SPDX-License-Identifier: Apache-2.0
'use strict';

// Chooses a node as the API's default scheduler does, of what pods of the suite ask for: capacity,
// taints, node selectors and affinity (required and preferred), pod affinity on any topology.

const { core } = require('./resources');
const { matchesExpression, matchesSelector } = require('./selectors');
const quantity = require('./quantity');
const pods = require('./pods');

const NONE = {};

function ended(pod) {
    return ['Succeeded', 'Failed'].includes(pod.status.phase);
}

// What the pods on each node use, kept up to date by every change of a pod.
class Usage {
    constructor() {
        this.nodes = new Map(); // name -> {pods: Map uid -> pod, used: {resource: nano}}
    }

    of(name) {
        if (!this.nodes.has(name))
            this.nodes.set(name, { pods: new Map(), used: {} });
        return this.nodes.get(name);
    }

    changed(before, after) {
        const was = before && before.spec.nodeName && !ended(before);
        const is = after && after.spec.nodeName && !ended(after);
        if (is)
            this.of(after.spec.nodeName).pods.set(after.metadata.uid, after);
        else if (was)
            this.of(before.spec.nodeName).pods.delete(before.metadata.uid);
        if (Boolean(was) === Boolean(is))
            return;
        const pod = is ? after : before;
        const { used } = this.of(pod.spec.nodeName);
        for (const [name, value] of Object.entries(pods.requests(pod.spec)))
            used[name] = (used[name] || 0n) + (is ? quantity.nano(value) : -quantity.nano(value));
    }

    clear() {
        this.nodes.clear();
    }
}

function matchesTerm({ matchExpressions = [], matchFields = [] }, node) {
    if (matchExpressions.length === 0 && matchFields.length === 0)
        return false;
    const labels = node.metadata.labels || NONE;
    return matchExpressions.every((e) => matchesExpression(e, labels)) &&
        matchFields.every((e) => matchesExpression(e, { 'metadata.name': node.metadata.name }));
}

function tolerates(tolerations, taint) {
    return tolerations.some(({ key, operator = 'Equal', value = '', effect }) =>
        (!effect || effect === taint.effect) && (!key ? operator === 'Exists'
            : key === taint.key && (operator === 'Exists' || value === (taint.value || ''))));
}

// Is there, in the node's part of the topology, a pod that the term is about?
function meets(term, pod, node, nodes, usage) {
    const { topologyKey, labelSelector, namespaces } = term;
    const place = (node.metadata.labels || NONE)[topologyKey];
    if (place === undefined)
        return false;
    const wanted = namespaces && namespaces.length > 0 ? namespaces : [pod.metadata.namespace];
    return nodes.some((other) => (other.metadata.labels || NONE)[topologyKey] === place &&
        [...usage.of(other.metadata.name).pods.values()].some((one) =>
            wanted.includes(one.metadata.namespace) &&
            matchesSelector(labelSelector, one.metadata.labels)));
}

function required(affinity) {
    return (affinity && affinity.requiredDuringSchedulingIgnoredDuringExecution) || [];
}

// Why the node does not take the pod, in the scheduler's words; null if it does.
function refusal(pod, node, nodes, usage) {
    const { spec } = pod;
    const { affinity = NONE } = spec;
    const labels = node.metadata.labels || NONE;
    if (node.spec.unschedulable)
        return 'node(s) were unschedulable';
    const taint = (node.spec.taints || []).find(({ effect, ...rest }) =>
        effect !== 'PreferNoSchedule' && !tolerates(spec.tolerations || [], { effect, ...rest }));
    if (taint)
        return `node(s) had untolerated taint {${taint.key}: ${taint.value || ''}}`;
    const terms = (affinity.nodeAffinity || NONE).requiredDuringSchedulingIgnoredDuringExecution;
    const selected = Object.entries(spec.nodeSelector || NONE).every(([key, value]) =>
        labels[key] === value);
    if (!selected || (terms && !terms.nodeSelectorTerms.some((term) => matchesTerm(term, node))))
        return "node(s) didn't match Pod's node affinity/selector";
    if (required(affinity.podAntiAffinity).some((term) => meets(term, pod, node, nodes, usage)))
        return "node(s) didn't match pod anti-affinity rules";
    const selfless = (term) => !meets(term, pod, node, nodes, usage) &&
        !matchesSelector(term.labelSelector, pod.metadata.labels);
    if (required(affinity.podAffinity).some(selfless))
        return "node(s) didn't match pod affinity rules";
    return shortage(pod, node, usage);
}

function shortage(pod, node, usage) {
    const allocatable = node.status.allocatable || NONE;
    const { used, pods: there } = usage.of(node.metadata.name);
    if (allocatable.pods !== undefined && there.size + 1 > Number(allocatable.pods))
        return 'Too many pods';
    for (const [name, value] of Object.entries(pods.requests(pod.spec)))
        if ((used[name] || 0n) + quantity.nano(value) > quantity.nano(allocatable[name] || '0'))
            return `Insufficient ${name}`;
    return null;
}

function score(pod, node) {
    const preferred = ((pod.spec.affinity || NONE).nodeAffinity || NONE)
        .preferredDuringSchedulingIgnoredDuringExecution || [];
    let sum = 0;
    for (const { weight, preference } of preferred)
        if (matchesTerm(preference, node))
            sum += weight;
    return sum;
}

// {node} or {message}
function choose(cluster, pod) {
    const nodes = cluster.store.entries(core('nodes')).map((entry) => entry.object);
    const { usage } = cluster;
    const reasons = new Map();
    let best = null;
    for (const node of nodes) {
        const why = refusal(pod, node, nodes, usage);
        if (why) {
            reasons.set(why, (reasons.get(why) || 0) + 1);
            continue;
        }
        const mark = { node: node.metadata.name, score: score(pod, node),
            load: usage.of(node.metadata.name).pods.size };
        if (!best || mark.score > best.score ||
            (mark.score === best.score && mark.load < best.load))
            best = mark;
    }
    if (best)
        return { node: best.node };
    const list = [...reasons].map(([why, count]) => `${count} ${why}`).sort().join(', ');
    return { message: nodes.length === 0 ? 'no nodes available to schedule pods'
        : `0/${nodes.length} nodes are available: ${list}. preemption: 0/${nodes.length} nodes ` +
          'are available: No preemption victims found for incoming pod.' };
}

module.exports = { Usage, choose };
