// SPDX-License-Identifier: Apache-2.0
'use strict';

// The verbs of the API on any resource. A handler gets a call ({resource, namespace, name,
// subresource, query, headers, body, user}) and returns {code, entry | object | text, headers}.
// What is particular to a resource is in strategies.js.

const { isDeepStrictEqual } = require('node:util');
const status = require('./status');
const patches = require('./patch');
const protobuf = require('./protobuf');
const { decode } = require('./schema');
const { parseLabels, parseFields, both } = require('./selectors');
const strategies = require('./strategies');

const PROPAGATION = ['Orphan', 'Background', 'Foreground'];
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';

function randomName(prefix) {
    let out = prefix.slice(0, 58);
    for (let i = 0; i < 5; i++)
        out += ALPHABET[Math.floor(Math.random() * ALPHABET.length)];
    return out;
}

function number(query, name) {
    const text = query.get(name);
    if (text === null || text === '')
        return undefined;
    if (!/^-?\d+$/.test(text))
        throw status.badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
    return Number(text);
}

function flag(query, name) {
    return ['1', 'true', 'True'].includes(query.get(name));
}

function filterOf(call) {
    return both(parseLabels(call.query.get('labelSelector')),
        parseFields(call.query.get('fieldSelector'), call.resource));
}

function parseBody(call) {
    const type = (call.headers['content-type'] || 'application/json').split(';')[0].trim();
    const binary = type === 'application/vnd.kubernetes.protobuf';
    try {
        const object = binary ? protobuf.decode(call.body) : null;
        if (object)
            return object;
        if (call.verb === 'patch' || type === 'application/json')
            return JSON.parse(call.body.toString());
    } catch (err) {
        throw status.badRequest(`the body of the request is not ${binary ? 'readable' : 'JSON'}: ` +
            err.message);
    }
    throw status.failure(415, 'UnsupportedMediaType', 'the body of the request was in an ' +
        'unknown format - accepted media types include: application/json', {});
}

function dryRun(call, options = {}) {
    const asked = [...call.query.getAll('dryRun'), ...(options.dryRun || [])];
    for (const value of asked)
        if (value !== 'All')
            throw status.invalid({ ...call.resource, kind: 'Options' }, '', [{
                reason: 'FieldValueNotSupported', field: 'dryRun',
                message: `Unsupported value: "${value}": supported values: "All"` }]);
    return asked.length > 0;
}

// A body as the type says; unknown members are refused, told of in a header, or left out.
function decodeObject(call, value, resource = call.resource) {
    const where = { kind: resource.kind, version: resource.apiVersion };
    if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw status.badRequest('the body of the request is not an object');
    for (const member of ['kind', 'apiVersion'])
        if (value[member] !== undefined && value[member] !== resource[member])
            throw status.badRequest(`${value.kind || resource.kind} in version ` +
                `"${value.apiVersion || ''}" cannot be handled as a ${resource.kind}: expected ` +
                `${member} ${resource[member]}`);
    const unknown = [];
    const object = decode(resource.type, value, where, unknown);
    const mode = call.query.get('fieldValidation') || 'Warn';
    const words = unknown.map((path) => `unknown field "${path}"`);
    if (words.length > 0 && mode === 'Strict')
        throw status.badRequest(`${where.kind} in version "${where.version}" cannot be handled ` +
            `as a ${where.kind}: strict decoding error: ${words.join(', ')}`);
    if (mode === 'Warn')
        call.warnings = words;
    return { ...object, kind: resource.kind, apiVersion: resource.apiVersion,
        metadata: object.metadata || {} };
}

class Rest {
    constructor(cluster) {
        this.cluster = cluster;
        this.store = cluster.store;
    }

    find(call) {
        const entry = this.store.get(call.resource, call.namespace, call.name);
        if (!entry)
            throw status.notFound(call.resource, call.name);
        return entry;
    }

    get(call) {
        return { code: 200, entry: this.find(call) };
    }

    // ---- lists

    list(call) {
        const { query, resource, namespace } = call;
        const limit = number(query, 'limit') || 0;
        const token = query.get('continue');
        const asked = query.get('resourceVersion') || '';
        const match = query.get('resourceVersionMatch') || '';
        const filter = filterOf(call);
        this.checkVersions(asked, match, token);
        let version = this.store.version;
        let start = '';
        if (token) {
            ({ version, start } = this.decodeToken(token));
        } else if (match === 'Exact') {
            version = Number(asked);
        }
        const all = this.store.entriesAt(resource, namespace, version);
        if (!all)
            throw this.expiredList(token, start);
        const most = asked === '0' ? 0 : limit; // what is answered from a cache has no pages
        return { code: 200, ...this.page(all, filter, { start, version, limit: most }) };
    }

    checkVersions(asked, match, token) {
        if (asked && !/^\d+$/.test(asked))
            throw status.badRequest(`Invalid value: "${asked}": strconv.ParseUint: parsing ` +
                `"${asked}": invalid syntax`);
        if (match && !['Exact', 'NotOlderThan'].includes(match))
            throw status.badRequest(`resourceVersionMatch: Unsupported value: "${match}"`);
        if (match && (token || !asked))
            throw status.badRequest('resourceVersionMatch is forbidden ' +
                (token ? 'when continue is given' : 'unless resourceVersion is provided'));
        if (token && asked && asked !== '0')
            throw status.badRequest('specifying resource version is not allowed when using ' +
                'continue');
        if (match === 'Exact' && asked === '0')
            throw status.badRequest('resourceVersionMatch "Exact" is forbidden for ' +
                'resourceVersion "0"');
        if (Number(asked) > this.store.version)
            throw status.tooLargeVersion(asked, this.store.version);
    }

    decodeToken(token) {
        try {
            const { v, rv, start } = JSON.parse(Buffer.from(token, 'base64url').toString());
            if (v === 'meta.k8s.io/v1' && Number.isInteger(rv) && typeof start === 'string')
                return { version: rv < 0 ? this.store.version : rv, start };
        } catch {
            // said below
        }
        throw status.badRequest('continue key is not valid: it was not given by a list');
    }

    encodeToken(version, start) {
        return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: version, start }))
            .toString('base64url');
    }

    expiredList(token, start) {
        const err = status.expired(token
            ? 'The provided continue parameter is too old to display a consistent list result. ' +
              'You can start a new list without the continue parameter, or use the continue ' +
              'token in this response to retrieve the remainder of the results.'
            : 'The resourceVersion for the provided list is too old.');
        if (token)
            err.status.metadata.continue = this.encodeToken(-1, start);
        return err;
    }

    // After the key start, at most limit (0: all) of what the filter passes.
    page(all, filter, { start, version, limit }) {
        const entries = [];
        let from = 0;
        if (start)
            while (from < all.length && all[from].key <= start)
                from++;
        let i = from;
        for (; i < all.length && !(limit && entries.length >= limit); i++)
            if (!filter || filter(all[i].object))
                entries.push(all[i]);
        const metadata = { resourceVersion: String(version) };
        if (limit && i < all.length) {
            metadata.continue = this.encodeToken(version, all[i - 1].key);
            if (!filter)
                metadata.remainingItemCount = all.length - i;
        }
        return { entries, metadata };
    }

    // ---- writing

    create(call) {
        const { resource, namespace } = call;
        const object = decodeObject(call, parseBody(call));
        const metadata = { ...object.metadata };
        if (resource.namespaced && metadata.namespace && metadata.namespace !== namespace)
            throw status.badRequest('the namespace of the provided object does not match the ' +
                'namespace sent on the request');
        if (metadata.resourceVersion)
            throw status.badRequest('resourceVersion should not be set on objects to be created');
        if (!metadata.name && metadata.generateName)
            metadata.name = randomName(metadata.generateName);
        for (const member of ['uid', 'creationTimestamp', 'deletionTimestamp', 'selfLink',
            'deletionGracePeriodSeconds', 'managedFields'])
            delete metadata[member];
        if (resource.namespaced)
            metadata.namespace = namespace;
        return this.insert(call, { ...object, metadata }, dryRun(call));
    }

    // Admission in the API's order: namespace, defaults, validation, quota, then the name.
    insert(call, object, dry) {
        const { resource } = call;
        const { cluster } = this;
        const { name } = object.metadata;
        const strategy = strategies.of(resource);
        if (resource.namespaced)
            this.checkNamespace(resource, object);
        const full = strategy.prepare(cluster, object);
        const causes = strategy.validate(full);
        if (causes.length > 0)
            throw status.invalid(resource, name || '', causes);
        strategy.admit(cluster, full, resource);
        if (this.store.get(resource, object.metadata.namespace, name))
            throw status.alreadyExists(resource, name);
        if (dry)
            return { code: 201, object: { ...full, metadata: { ...full.metadata,
                uid: '00000000-0000-4000-8000-000000000000',
                creationTimestamp: cluster.clock.stamp() } } };
        const entry = this.store.create(resource, full);
        strategy.created(cluster, entry.object);
        return { code: 201, entry };
    }

    checkNamespace(resource, object) {
        const { namespace, name = '' } = object.metadata;
        const { NAMESPACES } = strategies;
        const found = this.store.get(NAMESPACES, '', namespace);
        if (!found)
            throw status.notFound(NAMESPACES, namespace);
        if (found.object.metadata.deletionTimestamp)
            throw status.forbidden(resource, name, 'unable to create new content in namespace ' +
                `${namespace} because it is being terminated`, [{ reason: 'NamespaceTerminating',
                message: `namespace ${namespace} is being terminated`,
                field: 'metadata.namespace' }]);
    }

    update(call) {
        const entry = this.find(call);
        const object = decodeObject(call, parseBody(call));
        const { name, namespace } = object.metadata;
        if (name !== call.name)
            throw status.badRequest(`the name of the object (${name || ''}) does not match the ` +
                `name on the URL (${call.name})`);
        if (namespace && namespace !== call.namespace)
            throw status.badRequest('the namespace of the object does not match the namespace ' +
                'on the URL');
        return this.replace(call, entry, object);
    }

    patch(call) {
        const entry = this.find(call);
        const type = (call.headers['content-type'] || '').split(';')[0].trim();
        const patched = patches.apply(type, entry.object, parseBody(call), call.resource.type);
        return this.replace(call, entry, decodeObject(call, patched));
    }

    replace(call, entry, object) {
        const { resource, subresource } = call;
        const old = entry.object;
        this.checkPreconditions(resource, old, object.metadata);
        const strategy = strategies.of(resource);
        const next = strategy.change(keepIdentity(object, old), old, subresource);
        const causes = strategy.validateChange(next, old, subresource);
        if (causes.length > 0)
            throw status.invalid(resource, old.metadata.name, causes);
        if (isDeepStrictEqual(next, old))
            return { code: 200, entry };
        if (dryRun(call))
            return { code: 200, object: next };
        return { code: 200, entry: this.write(resource, next) };
    }

    // The object as changed; gone if that was the last finalizer of an object that is deleted.
    write(resource, object) {
        const { metadata } = object;
        const held = (metadata.finalizers || []).length > 0 ||
            ((object.spec && object.spec.finalizers) || []).length > 0;
        if (metadata.deletionTimestamp && !metadata.deletionGracePeriodSeconds && !held)
            return this.store.remove(resource, metadata.namespace, metadata.name);
        return this.store.update(resource, object);
    }

    checkPreconditions(resource, old, { resourceVersion, uid }) {
        const { name } = old.metadata;
        if (uid && uid !== old.metadata.uid)
            throw status.conflict(resource, name, `Precondition failed: UID in precondition: ` +
                `${uid}, UID in object meta: ${old.metadata.uid}`);
        if (resourceVersion && resourceVersion !== old.metadata.resourceVersion)
            throw status.conflict(resource, name, status.MODIFIED);
    }

    // ---- deleting

    deleteOptions(call) {
        const body = call.body.length > 0 ? parseBody(call) : {};
        const options = decode('DeleteOptions', body, { kind: 'DeleteOptions', version: 'v1' }, []);
        const seconds = number(call.query, 'gracePeriodSeconds');
        if (seconds !== undefined && options.gracePeriodSeconds === undefined)
            options.gracePeriodSeconds = seconds;
        if (options.propagationPolicy === undefined && call.query.get('propagationPolicy'))
            options.propagationPolicy = call.query.get('propagationPolicy');
        const { propagationPolicy } = options;
        const causes = [];
        if (propagationPolicy && !PROPAGATION.includes(propagationPolicy))
            causes.push({ reason: 'FieldValueInvalid', field: 'propagationPolicy',
                message: `Invalid value: "${propagationPolicy}": must be Foreground, Background, ` +
                    'Orphan or nil' });
        if (options.gracePeriodSeconds < 0)
            causes.push({ reason: 'FieldValueInvalid', field: 'gracePeriodSeconds',
                message: `Invalid value: ${options.gracePeriodSeconds}: must be greater than or ` +
                    'equal to 0' });
        if (causes.length > 0)
            throw status.invalid({ ...call.resource, kind: 'DeleteOptions', group: 'meta.k8s.io' },
                '', causes);
        return { ...options, dry: dryRun(call, options) };
    }

    remove(call) {
        const entry = this.find(call);
        return this.deleteEntry(call.resource, entry, this.deleteOptions(call));
    }

    deleteEntry(resource, entry, options) {
        const { metadata } = entry.object;
        const asked = options.preconditions || {};
        const differs = (what, mine, theirs) => status.conflict(resource, metadata.name,
            `the ${what} in the precondition (${mine}) does not match the ${what} in record ` +
            `(${theirs}). The object might have been ` +
            (what === 'UID' ? 'deleted and then recreated' : 'modified'));
        if (asked.uid && asked.uid !== metadata.uid)
            throw differs('UID', asked.uid, metadata.uid);
        if (asked.resourceVersion && asked.resourceVersion !== metadata.resourceVersion)
            throw differs('ResourceVersion', asked.resourceVersion, metadata.resourceVersion);
        const strategy = strategies.of(resource);
        const grace = strategy.grace(entry.object, options.gracePeriodSeconds);
        const held = (metadata.finalizers || []).length > 0 || strategy.held(entry.object);
        if (!metadata.deletionTimestamp && grace === 0 && !held)
            return this.erase(resource, entry, options);
        return this.mark(resource, entry, { grace, held, ...options });
    }

    erase(resource, entry, { dry }) {
        const { namespace, name } = entry.object.metadata;
        const gone = dry ? entry : this.store.remove(resource, namespace, name);
        return resource.returnsDeleted ? { code: 200, entry: gone }
            : { code: 200, object: status.success(resource, entry.object) };
    }

    // Marks as being deleted; a second request may only make the time shorter.
    mark(resource, entry, { grace, held, dry }) {
        const { metadata } = entry.object;
        const { clock } = this.cluster;
        const before = metadata.deletionGracePeriodSeconds;
        if (metadata.deletionTimestamp && grace === 0 && !held)
            return this.erase(resource, entry, { dry });
        if (metadata.deletionTimestamp && grace >= (before || 0))
            return { code: 200, entry };
        const start = metadata.deletionTimestamp
            ? Date.parse(metadata.deletionTimestamp) - (before || 0) * 1000 : clock.now();
        const next = strategies.of(resource).marked({ ...entry.object, metadata: { ...metadata,
            deletionTimestamp: clock.stamp(start + grace * 1000),
            deletionGracePeriodSeconds: grace } });
        if (dry)
            return { code: 200, object: next };
        const after = this.store.update(resource, next);
        this.cluster.marked(resource, after.object);
        return { code: 200, entry: this.store.get(resource, metadata.namespace, metadata.name) ||
            after };
    }

    removeCollection(call) {
        const options = this.deleteOptions(call);
        const filter = filterOf(call);
        const entries = this.store.entries(call.resource, call.namespace)
            .filter((entry) => !filter || filter(entry.object));
        const metadata = { resourceVersion: String(this.store.version) };
        for (const entry of entries)
            this.deleteEntry(call.resource, entry, options);
        return { code: 200, entries, metadata };
    }
}

// What only the server writes comes from what was there.
function keepIdentity(object, old) {
    const metadata = { ...object.metadata };
    for (const member of ['name', 'namespace', 'uid', 'creationTimestamp', 'deletionTimestamp',
        'deletionGracePeriodSeconds', 'resourceVersion', 'generateName'])
        if (old.metadata[member] === undefined)
            delete metadata[member];
        else
            metadata[member] = old.metadata[member];
    delete metadata.managedFields;
    delete metadata.selfLink;
    return { ...object, metadata };
}

module.exports = { Rest, filterOf, number, flag, parseBody, decodeObject, dryRun };
