// SPDX-License-Identifier: Apache-2.0
'use strict';

// From a request to its answer: whose it is, whether it may, which handler, in which form.

const status = require('./status');
const { parsePath, core } = require('./resources');
const { parseBody, decodeObject, flag } = require('./rest');
const { Watch } = require('./watch');
const logs = require('./logs');
const discovery = require('./discovery');
const views = require('./views');
const steps = require('./steps');

const WRITES = { POST: 'create', PUT: 'update', PATCH: 'patch' };

function verbOf(method, { name, subresource }, query) {
    if (method === 'GET' || method === 'HEAD') {
        if (subresource || (name && !flag(query, 'watch')))
            return 'get';
        return flag(query, 'watch') ? 'watch' : 'list';
    }
    if (method === 'DELETE')
        return name ? 'delete' : 'deletecollection';
    return WRITES[method];
}

// Completes a call ({method, path, query, headers, body}) with what its path means.
function resolve(call) {
    const target = parsePath(call.path);
    if (!target)
        return;
    Object.assign(call, target);
    call.verb = verbOf(call.method, target, call.query);
}

const OPEN = new Set(['/version', '/healthz', '/livez', '/readyz']);

function answer(cluster, call, certificate) {
    const open = call.path.replace(/(.)\/$/, '$1'); // as the Python client asks
    if (OPEN.has(open))
        return open === '/version' ? { code: 200, object: discovery.version() }
            : { code: 200, text: 'ok' };
    call.user = cluster.auth.identify(call.headers, certificate);
    if (!call.resource) {
        const found = discovery.answer(call);
        if (!found)
            throw status.noSuchPath();
        return found;
    }
    const { resource, subresource, verb, name } = call;
    if (!resource.review)
        cluster.auth.check(call);
    const verbs = subresource ? resource.subresources[subresource].verbs : resource.verbs;
    const needsName = ['update', 'patch', 'delete'].includes(verb) || subresource;
    if (!verbs.includes(verb) || (needsName && !name) ||
        (verb === 'create' && name && !subresource))
        throw status.methodNotAllowed();
    if (subresource && !['status', 'finalize'].includes(subresource))
        return SUBRESOURCES[subresource](cluster, call);
    return views.shown(call, VERBS[verb](cluster, views.stored(call)));
}

const VERBS = {
    get: (cluster, call) => cluster.rest.get(call),
    list: (cluster, call) => cluster.rest.list(call),
    watch(cluster, call) {
        if (call.name)
            call.query.set('fieldSelector', `metadata.name=${call.name}`);
        return { code: 200, watch: (out) => {
            const watch = new Watch(cluster, call, out, views.watched(call));
            watch.prepare();
            return watch;
        } };
    },
    create: (cluster, call) => (call.resource.review
        ? review(cluster, call) : cluster.rest.create(call)),
    update: (cluster, call) => cluster.rest.update(call),
    patch: (cluster, call) => cluster.rest.patch(call),
    delete: (cluster, call) => cluster.rest.remove(call),
    deletecollection: (cluster, call) => cluster.rest.removeCollection(call),
};

function review(cluster, call) {
    const object = decodeObject(call, parseBody(call));
    return { code: 201, object: { ...object, metadata: { creationTimestamp: null },
        status: cluster.auth[`${call.resource.review}Review`](call.user, object.spec) } };
}

const SUBRESOURCES = {
    log: logs.read,
    binding(cluster, call) {
        const { target } = parseBody(call);
        const pod = cluster.rest.find(call).object;
        if (!target || !target.name)
            throw status.badRequest('the binding has no target.name');
        if (pod.spec.nodeName)
            throw status.conflict(core('pods'), pod.metadata.name,
                `pod ${pod.metadata.name} is already assigned to node "${pod.spec.nodeName}"`);
        if (pod.metadata.deletionTimestamp)
            throw status.conflict(core('pods'), pod.metadata.name,
                `pod ${pod.metadata.name} is being deleted, cannot be assigned to a host`);
        if (!flag(call.query, 'dryRun'))
            cluster.bind(pod, target.name);
        return { code: 201, object: { kind: 'Status', apiVersion: 'v1', metadata: {},
            status: 'Success', code: 201 } };
    },
    eviction(cluster, call) {
        const entry = cluster.rest.find(call);
        const { deleteOptions = {} } = parseBody(call);
        const { status: marked } = steps.apply(entry.object, { do: 'drained' },
            cluster.clock.stamp());
        cluster.write(entry.object, marked);
        cluster.rest.deleteEntry(call.resource, cluster.rest.find(call), deleteOptions);
        return { code: 201, object: { kind: 'Status', apiVersion: 'v1', metadata: {},
            status: 'Success', code: 201 } };
    },
    token(cluster, call) {
        const { metadata } = cluster.rest.find(call).object;
        const { spec = {} } = parseBody(call);
        const seconds = spec.expirationSeconds || 3600;
        const ends = cluster.clock.stamp(cluster.clock.now() + seconds * 1000);
        return { code: 201, object: { kind: 'TokenRequest',
            apiVersion: 'authentication.k8s.io/v1', metadata: { name: metadata.name,
                namespace: metadata.namespace, creationTimestamp: cluster.clock.stamp() },
            spec: { ...spec, expirationSeconds: seconds },
            status: { token: cluster.token(metadata.namespace, metadata.name),
                expirationTimestamp: ends } } };
    },
};

module.exports = { resolve, answer };
