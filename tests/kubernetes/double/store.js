// SPDX-License-Identifier: Apache-2.0
'use strict';

// All objects, in memory, with one resourceVersion for all of them and a bounded history of what
// changed, from which watches continue and lists that go on page by page are answered as of their
// first page. Objects are never changed in place: a write replaces the entry, so that what
// history and answers hold stays as it was.

const { randomUUID } = require('node:crypto');

const texts = new WeakMap(); // of specs, which most changes of an object leave as they are

function textOf(value) {
    let text = texts.get(value);
    if (text === undefined) {
        text = JSON.stringify(value);
        texts.set(value, text);
    }
    return text;
}

// One state of one object. json is made once, however many lists and watches send it.
class Entry {
    constructor(key, version, object) {
        this.key = key;
        this.version = version;
        this.object = object;
        this.text = null;
    }

    json() {
        if (this.text !== null)
            return this.text;
        const { spec, ...rest } = this.object;
        this.text = JSON.stringify(rest);
        if (spec)
            this.text = `${this.text.slice(0, -1)},"spec":${textOf(spec)}}`;
        return this.text;
    }

    // Without kind and apiVersion, as the items of lists are; both are first in every object.
    item() {
        const head = `{"kind":${JSON.stringify(this.object.kind)},"apiVersion":` +
            `${JSON.stringify(this.object.apiVersion)},`;
        return '{' + this.json().slice(head.length);
    }
}

function keyOf(namespace, name) {
    return namespace ? `${namespace}/${name}` : name;
}

// JSON's order of an object's first members is the API's: kind, apiVersion, metadata.
function ordered(resource, object) {
    const { kind, apiVersion, metadata, ...rest } = object;
    return { kind: resource.kind, apiVersion: resource.apiVersion, metadata, ...rest };
}

class Table {
    constructor(resource) {
        this.resource = resource;
        this.entries = new Map();
        this.sorted = null;
    }

    keys() {
        if (!this.sorted)
            this.sorted = [...this.entries.keys()].sort();
        return this.sorted;
    }
}

class Store {
    // clock.now() is the cluster's time in ms; history the number of changes kept.
    constructor({ clock, history = 20000 }) {
        this.clock = clock;
        this.historyMax = history;
        this.version = 1000;
        this.compacted = this.version; // changes up to this one are forgotten
        this.changes = []; // {version, type, table, before, after}, oldest first
        this.tables = new Map();
        this.listeners = new Set();
    }

    table(resource) {
        let table = this.tables.get(resource.store);
        if (!table) {
            table = new Table(resource);
            this.tables.set(resource.store, table);
        }
        return table;
    }

    get(resource, namespace, name) {
        return this.table(resource).entries.get(keyOf(namespace, name));
    }

    // Entries sorted by key, of one namespace or ('') of all.
    entries(resource, namespace = '') {
        const table = this.table(resource);
        const out = [];
        const prefix = namespace ? `${namespace}/` : '';
        for (const key of table.keys())
            if (key.startsWith(prefix))
                out.push(table.entries.get(key));
        return out;
    }

    // The same as of an older version; null if history does not go back so far.
    entriesAt(resource, namespace, version) {
        if (version >= this.version)
            return this.entries(resource, namespace);
        if (version < this.compacted)
            return null;
        const table = this.table(resource);
        const then = new Map(table.entries);
        for (let i = this.changes.length - 1; i >= 0; i--) {
            const change = this.changes[i];
            if (change.version <= version)
                break;
            if (change.table !== table)
                continue;
            if (change.before)
                then.set(change.before.key, change.before);
            else
                then.delete(change.after.key);
        }
        const prefix = namespace ? `${namespace}/` : '';
        return [...then.keys()].filter((key) => key.startsWith(prefix)).sort()
            .map((key) => then.get(key));
    }

    // metadata.uid and creationTimestamp are given here, once.
    create(resource, object) {
        const { name, namespace } = object.metadata;
        const metadata = { ...object.metadata, uid: randomUUID(),
            creationTimestamp: this.clock.stamp() };
        return this.put(resource, keyOf(namespace, name), { ...object, metadata });
    }

    update(resource, object) {
        const { name, namespace } = object.metadata;
        return this.put(resource, keyOf(namespace, name), object);
    }

    put(resource, key, object) {
        const table = this.table(resource);
        const before = table.entries.get(key);
        const version = ++this.version;
        const metadata = { ...object.metadata, resourceVersion: String(version) };
        const after = new Entry(key, version, ordered(resource, { ...object, metadata }));
        table.entries.set(key, after);
        if (!before)
            table.sorted = null;
        this.record({ version, type: before ? 'MODIFIED' : 'ADDED', table, before, after });
        return after;
    }

    // The last state that watches see has the version of the removal.
    remove(resource, namespace, name) {
        const table = this.table(resource);
        const key = keyOf(namespace, name);
        const before = table.entries.get(key);
        const version = ++this.version;
        const metadata = { ...before.object.metadata, resourceVersion: String(version) };
        const after = new Entry(key, version, { ...before.object, metadata });
        table.entries.delete(key);
        table.sorted = null;
        this.record({ version, type: 'DELETED', table, before, after });
        return after;
    }

    record(change) {
        this.changes.push(change);
        if (this.changes.length > this.historyMax * 1.25)
            this.forget(this.changes.length - this.historyMax);
        for (const listener of this.listeners)
            listener(change);
    }

    forget(count) {
        const gone = this.changes.splice(0, count);
        if (gone.length > 0)
            this.compacted = gone[gone.length - 1].version;
    }

    // Whoever continues from before now is told 410 Gone.
    compact() {
        this.changes = [];
        this.compacted = this.version;
    }

    // As if the cluster's data were lost; versions go on.
    clear() {
        for (const table of this.tables.values()) {
            table.entries.clear();
            table.sorted = null;
        }
        this.version += 1000;
        this.compact();
    }

    changesSince(version) {
        let low = 0;
        let high = this.changes.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.changes[middle].version <= version)
                low = middle + 1;
            else
                high = middle;
        }
        return this.changes.slice(low);
    }
}

// The cluster's clock, which may differ from this machine's.
class Clock {
    constructor(offset = 0) {
        this.offset = offset;
    }

    now() {
        return Date.now() + this.offset;
    }

    // RFC 3339 with whole seconds, as the API writes times.
    stamp(ms = this.now()) {
        return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
    }

    // MicroTime, as events.k8s.io and leases have it.
    micro(ms = this.now()) {
        return new Date(ms).toISOString().replace(/Z$/, '000Z');
    }
}

module.exports = { Store, Clock, Entry, keyOf };
