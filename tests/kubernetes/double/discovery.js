// SPDX-License-Identifier: Apache-2.0
'use strict';

// What clients ask before anything else: version, groups and resources (old and aggregated form),
// the documents of OpenAPI.

const { RESOURCES } = require('./resources');
const openapi = require('./openapi');

function version() {
    return { major: '1', minor: '32', gitVersion: 'v1.32.0', gitCommit: '', gitTreeState: 'clean',
        buildDate: '2024-12-11T00:00:00Z', goVersion: 'go1.23', compiler: 'gc',
        platform: 'linux/amd64' };
}

const GROUPS = [...new Set(RESOURCES.map((one) => one.group))];

function entries(resource) {
    const { kind, namespaced, verbs, singular, categories } = resource;
    const out = [{ name: resource.resource, singularName: singular, namespaced, kind, verbs,
        shortNames: resource.short.length ? resource.short : undefined, categories }];
    for (const [name, sub] of Object.entries(resource.subresources))
        out.push({ name: `${resource.resource}/${name}`, singularName: '', namespaced,
            group: sub.group, version: sub.group && 'v1', kind: sub.kind, verbs: sub.verbs });
    return out;
}

function resourceList(group) {
    return { kind: 'APIResourceList', apiVersion: group ? 'v1' : undefined,
        groupVersion: group ? `${group}/v1` : 'v1',
        resources: RESOURCES.filter((one) => one.group === group).flatMap(entries) };
}

function groupOf(name) {
    const one = { groupVersion: `${name}/v1`, version: 'v1' };
    return { name, versions: [one], preferredVersion: one };
}

function aggregated(groups, apiVersion) {
    const kindOf = (group, kind, v = 'v1') => ({ group, version: v, kind });
    const resources = (group) => RESOURCES.filter((one) => one.group === group).map((one) => ({
        resource: one.resource, responseKind: kindOf(group, one.kind), scope: one.namespaced
            ? 'Namespaced' : 'Cluster', singularResource: one.singular, verbs: one.verbs,
        shortNames: one.short.length ? one.short : undefined, categories: one.categories,
        subresources: Object.entries(one.subresources).map(([name, sub]) => ({ subresource: name,
            responseKind: kindOf(sub.group || group, sub.kind), verbs: sub.verbs })) }));
    return { kind: 'APIGroupDiscoveryList', apiVersion, metadata: {},
        items: groups.map((group) => ({ metadata: group ? { name: group } : {},
            versions: [{ version: 'v1', resources: resources(group), freshness: 'Current' }] })) };
}

// The version of the aggregated form that the client takes, if it does.
function wantsAggregated({ headers }) {
    const m = /g=apidiscovery\.k8s\.io/.test(headers.accept || '') &&
        /v=(v2(?:beta1)?);as=APIGroupDiscoveryList|v=(v2(?:beta1)?)/.exec(headers.accept);
    return m ? m[1] || m[2] : null;
}

function groupList(groups, call, plain) {
    const form = wantsAggregated(call);
    if (!form)
        return { code: 200, object: plain() };
    return { code: 200, object: aggregated(groups, `apidiscovery.k8s.io/${form}`),
        type: `application/json;g=apidiscovery.k8s.io;v=${form};as=APIGroupDiscoveryList` };
}

// undefined for what is no path of discovery.
function answer(call) {
    const path = call.path.replace(/\/$/, '');
    if (call.method !== 'GET')
        return undefined;
    if (path === '/api')
        return groupList([''], call, () => ({ kind: 'APIVersions', versions: ['v1'],
            serverAddressByClientCIDRs: [] }));
    const named = GROUPS.filter(Boolean);
    if (path === '/apis')
        return groupList(named, call, () => ({ kind: 'APIGroupList', apiVersion: 'v1',
            groups: named.map(groupOf) }));
    if (path === '/api/v1')
        return { code: 200, object: resourceList('') };
    const [, group, v] = /^\/apis\/([^/]+)(?:\/([^/]+))?$/.exec(path) || [];
    if (group && named.includes(group) && (v === undefined || v === 'v1'))
        return { code: 200, object: v ? resourceList(group)
            : { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group) } };
    if (path === '')
        return { code: 200, object: { paths: ['/api', '/api/v1', '/apis',
            ...named.map((name) => `/apis/${name}/v1`), '/openapi/v2', '/openapi/v3',
            '/version'] } };
    return openapi.answer(call);
}

module.exports = { version, answer };
