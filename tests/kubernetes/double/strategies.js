// SPDX-License-Identifier: Apache-2.0
'use strict';

// What each resource adds to the verbs of rest.js:
//   prepare(cluster, object)            the object with its defaults
//   validate(object)                    causes
//   admit(cluster, object)              throws where a quota or a rule forbids it
//   created(cluster, object)            what else then comes to be
//   change(next, old, subresource)      what of next may be changed by this way
//   validateChange(next, old, sub)      causes
//   grace(object, asked)                seconds that a deletion waits
//   held(object), marked(object)        whether something else holds it; how it is then marked

const { core } = require('./resources');
const pods = require('./pods');
const quota = require('./quota');
const validate = require('./validate');

const NAMESPACES = core('namespaces');

const plain = {
    prepare: (cluster, object) => object,
    validate: (object) => validate.named(object),
    admit: () => {},
    created: () => {},
    // The status is changed by the subresource only, and that changes nothing else.
    change(next, old, subresource) {
        if (subresource === 'status')
            return { ...old, metadata: next.metadata, status: next.status };
        return old.status === undefined ? next : { ...next, status: old.status };
    },
    validateChange: (next) => validate.named(next),
    grace: () => 0,
    held: () => false,
    marked: (object) => object,
};

const own = {
    pods: {
        prepare: pods.prepare,
        validate: validate.pod,
        admit: quota.admit,
        created: (cluster, object) => quota.refresh(cluster, object.metadata.namespace),
        change(next, old, subresource) {
            if (subresource === 'status')
                return { ...old, metadata: next.metadata,
                    status: { ...next.status, qosClass: old.status.qosClass } };
            return { ...next, status: old.status };
        },
        validateChange: (next, old, subresource) => (subresource === 'status'
            ? validate.podStatusChange(next, old) : validate.podChange(next, old)),
        grace: pods.grace,
    },
    namespaces: {
        prepare: (cluster, object) => ({ ...object,
            metadata: { ...object.metadata, labels: { ...object.metadata.labels,
                'kubernetes.io/metadata.name': object.metadata.name } },
            spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } }),
        validate: (object) => validate.named(object, 'label'),
        created: (cluster, object) => cluster.furnish(object.metadata.name),
        change(next, old, subresource) {
            if (subresource === 'finalize')
                return { ...old, spec: next.spec };
            return { ...plain.change(next, old, subresource), spec: old.spec };
        },
        held: (object) => (object.spec.finalizers || []).length > 0,
        marked: (object) => ({ ...object, status: { ...object.status, phase: 'Terminating' } }),
    },
    nodes: {
        prepare: (cluster, object) => ({ ...object, spec: object.spec || {},
            status: object.status || {} }),
    },
    resourcequotas: {
        prepare: (cluster, object) => ({ ...object, spec: object.spec || {}, status: {} }),
        created: (cluster, object) => quota.refresh(cluster, object.metadata.namespace),
    },
    events: {
        // Their namespace is that of what they are about.
        validate: (object) => validate.named(object),
        change: (next) => next,
    },
    secrets: {
        prepare(cluster, object) {
            const { stringData = {}, ...rest } = object;
            const data = { ...rest.data };
            for (const [key, value] of Object.entries(stringData))
                data[key] = Buffer.from(value).toString('base64');
            return { ...rest, data, type: rest.type || 'Opaque' };
        },
    },
};

const strategies = {};
for (const [name, members] of Object.entries(own))
    strategies[name] = { ...plain, ...members };

function of(resource) {
    return strategies[resource.store] || plain;
}

module.exports = { of, NAMESPACES };
