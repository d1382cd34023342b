// SPDX-License-Identifier: Apache-2.0
'use strict';

// The resources that the double serves. store: which table holds the objects (events of both
// groups are the same ones); type: of schema.txt; fields: what field selectors may name besides
// metadata.name and metadata.namespace; status: what deleting answers with (the object, or a
// Status); columns: see table.js.

const ALL = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const PARTIAL = ['get', 'patch', 'update'];

function involved(prefix) {
    return ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath']
        .map((member) => `${prefix}.${member}`);
}

const RESOURCES = [
    { resource: 'pods', singular: 'pod', kind: 'Pod', namespaced: true, short: ['po'],
        categories: ['all'], verbs: ALL, returnsDeleted: true,
        fields: ['spec.nodeName', 'spec.restartPolicy', 'spec.schedulerName',
            'spec.serviceAccountName', 'status.phase', 'status.podIP', 'status.nominatedNodeName'],
        subresources: { status: { kind: 'Pod', verbs: PARTIAL },
            log: { kind: 'Pod', verbs: ['get'] },
            binding: { kind: 'Binding', verbs: ['create'] },
            eviction: { kind: 'Eviction', group: 'policy', verbs: ['create'] } } },
    { resource: 'events', singular: 'event', kind: 'Event', namespaced: true, short: ['ev'],
        verbs: ALL, fields: [...involved('involvedObject'), 'reason', 'reportingComponent',
            'source', 'type'] },
    { resource: 'events', singular: 'event', kind: 'Event', group: 'events.k8s.io',
        namespaced: true, short: ['ev'], verbs: ALL, type: 'EventsEvent',
        fields: [...involved('regarding'), 'reason', 'reportingController', 'type'] },
    { resource: 'namespaces', singular: 'namespace', kind: 'Namespace', namespaced: false,
        short: ['ns'], verbs: ALL.filter((verb) => verb !== 'deletecollection'),
        fields: ['status.phase'], returnsDeleted: true,
        subresources: { status: { kind: 'Namespace', verbs: PARTIAL },
            finalize: { kind: 'Namespace', verbs: ['update'] } } },
    { resource: 'nodes', singular: 'node', kind: 'Node', namespaced: false, short: ['no'],
        verbs: ALL, fields: ['spec.unschedulable'],
        subresources: { status: { kind: 'Node', verbs: PARTIAL } } },
    { resource: 'resourcequotas', singular: 'resourcequota', kind: 'ResourceQuota',
        namespaced: true, short: ['quota'], verbs: ALL, returnsDeleted: true,
        subresources: { status: { kind: 'ResourceQuota', verbs: PARTIAL } } },
    { resource: 'secrets', singular: 'secret', kind: 'Secret', namespaced: true, verbs: ALL,
        fields: ['type'] },
    { resource: 'configmaps', singular: 'configmap', kind: 'ConfigMap', namespaced: true,
        short: ['cm'], verbs: ALL },
    { resource: 'serviceaccounts', singular: 'serviceaccount', kind: 'ServiceAccount',
        namespaced: true, short: ['sa'], verbs: ALL, returnsDeleted: true,
        subresources: { token: { kind: 'TokenRequest', group: 'authentication.k8s.io',
            verbs: ['create'] } } },
    { resource: 'selfsubjectaccessreviews', singular: 'selfsubjectaccessreview',
        kind: 'SelfSubjectAccessReview', group: 'authorization.k8s.io', namespaced: false,
        verbs: ['create'], review: 'access' },
    { resource: 'selfsubjectrulesreviews', singular: 'selfsubjectrulesreview',
        kind: 'SelfSubjectRulesReview', group: 'authorization.k8s.io', namespaced: false,
        verbs: ['create'], review: 'rules' },
    { resource: 'selfsubjectreviews', singular: 'selfsubjectreview', kind: 'SelfSubjectReview',
        group: 'authentication.k8s.io', namespaced: false, verbs: ['create'], review: 'self' },
].map((resource) => {
    const group = resource.group || '';
    return { subresources: {}, short: [], ...resource, group, version: 'v1',
        apiVersion: group ? `${group}/v1` : 'v1', type: resource.type || resource.kind,
        store: resource.resource };
});

const byPath = new Map(RESOURCES.map((r) => [`${r.group}/${r.resource}`, r]));

function find(group, resource) {
    return byPath.get(`${group}/${resource}`);
}

const core = (resource) => find('', resource);

// What a path asks for: {resource, namespace, name, subresource}, null for none of ours.
function parsePath(pathname) {
    const parts = pathname.split('/').filter(Boolean).map(decodeURIComponent);
    const group = parts[0] === 'api' ? '' : parts[1];
    const rest = parts.slice(parts[0] === 'api' ? 1 : 2);
    if ((parts[0] !== 'api' && parts[0] !== 'apis') || rest[0] !== 'v1' || rest.length < 2)
        return null;
    let [, ...path] = rest;
    let namespace = '';
    const scoped = path[0] === 'namespaces' && path.length >= 3 && find(group, path[2]) &&
        find(group, path[2]).namespaced;
    if (scoped) {
        namespace = path[1];
        path = path.slice(2);
    }
    const resource = find(group, path[0]);
    const [, name = '', subresource = ''] = path;
    if (!resource || path.length > 3 || (subresource && !resource.subresources[subresource]))
        return null;
    if (name && resource.namespaced && !scoped)
        return null;
    return { resource, namespace, name, subresource };
}

module.exports = { RESOURCES, find, core, parsePath };
