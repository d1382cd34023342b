// SPDX-License-Identifier: Apache-2.0
'use strict';

// Resource quotas: what pods of a namespace use of them, and the refusal of pods that go beyond.

const { core } = require('./resources');
const { forbidden } = require('./status');
const quantity = require('./quantity');
const pods = require('./pods');

const counted = (name) => name === 'pods' || name === 'count/pods';

// What one pod uses, by the names of quotas.
function usage(pod) {
    const out = { pods: '1', 'count/pods': '1' };
    for (const [name, value] of Object.entries(pods.requests(pod.spec))) {
        out[`requests.${name}`] = value;
        out[name] = value;
    }
    for (const [name, value] of Object.entries(pods.limits(pod.spec)))
        out[`limits.${name}`] = value;
    return out;
}

function ended(pod) {
    return ['Succeeded', 'Failed'].includes(pod.status.phase);
}

function inScopes(quota, pod) {
    return (quota.spec.scopes || []).every((scope) => {
        const bestEffort = pod.status.qosClass === 'BestEffort';
        const terminating = pod.spec.activeDeadlineSeconds !== undefined;
        switch (scope) {
        case 'BestEffort': return bestEffort;
        case 'NotBestEffort': return !bestEffort;
        case 'Terminating': return terminating;
        case 'NotTerminating': return !terminating;
        default: return true;
        }
    });
}

// Sums over what counts: ended pods only by count/pods.
function used(cluster, quota) {
    const out = {};
    for (const name of Object.keys(quota.spec.hard || {}))
        out[name] = '0';
    for (const { object } of cluster.store.entries(core('pods'), quota.metadata.namespace)) {
        if (!inScopes(quota, object))
            continue;
        const mine = usage(object);
        for (const name of Object.keys(out))
            if (mine[name] !== undefined && (!ended(object) || name === 'count/pods'))
                out[name] = quantity.sum(out[name], mine[name]);
    }
    return out;
}

function list(names, values) {
    return names.map((name) => `${name}=${values[name]}`).join(',');
}

function admit(cluster, pod, resource) {
    for (const { object: quota } of cluster.store.entries(core('resourcequotas'),
        pod.metadata.namespace)) {
        if (!inScopes(quota, pod))
            continue;
        const hard = quota.spec.hard || {};
        const mine = usage(pod);
        const missing = Object.keys(hard).filter((name) => !counted(name) &&
            /^(cpu|memory|requests\.|limits\.)/.test(name) && mine[name] === undefined);
        if (missing.length > 0)
            throw forbidden(resource, pod.metadata.name, `failed quota: ${quota.metadata.name}: ` +
                `must specify ${missing.map((name) => `${name} for: ${unsized(pod, name)}`)
                    .join('; ')}`);
        const now = used(cluster, quota);
        const over = Object.keys(hard).sort().filter((name) => mine[name] !== undefined &&
            quantity.nano(quantity.sum(now[name], mine[name])) > quantity.nano(hard[name]));
        if (over.length > 0)
            throw forbidden(resource, pod.metadata.name, 'exceeded quota: ' +
                `${quota.metadata.name}, requested: ${list(over, mine)}, ` +
                `used: ${list(over, now)}, limited: ${list(over, hard)}`);
    }
}

// The containers that do not say how much of it they need.
function unsized(pod, name) {
    const [kind, resource] = name.includes('.') ? name.split('.') : ['requests', name];
    return pod.spec.containers.filter(({ resources = {} }) =>
        (resources[kind] || {})[resource] === undefined).map((one) => one.name).join(',');
}

// What the controller of quotas does: the status of all of the namespace.
function refresh(cluster, namespace) {
    const resource = core('resourcequotas');
    for (const { object } of cluster.store.entries(resource, namespace)) {
        const status = { hard: object.spec.hard || {}, used: used(cluster, object) };
        if (JSON.stringify(status) !== JSON.stringify(object.status))
            cluster.store.update(resource, { ...object, status });
    }
}

module.exports = { admit, refresh };
