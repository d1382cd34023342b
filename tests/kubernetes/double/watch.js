// SPDX-License-Identifier: Apache-2.0
'use strict';

// Watches: what changed since a version, then every change, each a line of JSON in a chunk of its
// own. Changes that happen in one turn of the loop leave together.

const status = require('./status');
const { filterOf, number, flag } = require('./rest');

const UNREAD_MAX = 64 << 20; // a client that is so far behind is disconnected

// What a change is to a watch with a filter: null for nothing.
function seenAs(change, filter) {
    const now = change.type !== 'DELETED' && (!filter || filter(change.after.object));
    const before = change.before !== undefined && (!filter || filter(change.before.object));
    if (now)
        return before ? 'MODIFIED' : 'ADDED';
    return before ? 'DELETED' : null;
}

// An object that stopped to match is told in its last matching state, with the version of now.
function stateOf(change, type) {
    if (type !== 'DELETED' || change.type === 'DELETED')
        return { text: () => change.after.json(), object: change.after.object };
    const { object } = change.before;
    const gone = { ...object, metadata: { ...object.metadata,
        resourceVersion: String(change.version) } };
    return { text: () => JSON.stringify(gone), object: gone };
}

class Watch {
    // out: {write(text), end(), destroy(), waiting()}; view(object, first) gives another form of
    // the object (a table, an event of the other group), null where it is sent as it is.
    constructor(cluster, call, out, view) {
        this.cluster = cluster;
        this.store = cluster.store;
        this.call = call;
        this.out = out;
        this.view = view;
        this.filter = filterOf(call);
        this.table = this.store.table(call.resource);
        this.prefix = call.namespace ? `${call.namespace}/` : '';
        this.bookmarks = flag(call.query, 'allowWatchBookmarks');
        this.lines = [];
        this.sent = 0;
        this.timers = [];
    }

    // Throws before anything is answered; the caller writes the head of the answer between.
    prepare() {
        const { query } = this.call;
        const asked = query.get('resourceVersion') || '';
        const initial = query.get('sendInitialEvents');
        const match = query.get('resourceVersionMatch') || '';
        if (asked && !/^\d+$/.test(asked))
            throw status.badRequest(`Invalid value: "${asked}": not a resource version`);
        if (initial !== null && match !== 'NotOlderThan')
            throw status.invalid({ ...this.call.resource, kind: 'ListOptions',
                group: 'meta.k8s.io' }, '', [{ reason: 'FieldValueForbidden',
                field: 'resourceVersionMatch', message: 'Forbidden: sendInitialEvents requires ' +
                    'setting resourceVersionMatch to NotOlderThan' }]);
        if (initial === null && match)
            throw status.invalid({ ...this.call.resource, kind: 'ListOptions',
                group: 'meta.k8s.io' }, '', [{ reason: 'FieldValueForbidden',
                field: 'resourceVersionMatch', message: 'Forbidden: resourceVersionMatch is ' +
                    'forbidden for watch unless sendInitialEvents is provided' }]);
        this.initial = initial === null ? asked === '' || asked === '0' : flag(query,
            'sendInitialEvents');
        this.marksEnd = initial !== null && this.initial;
        this.from = this.initial || asked === '' || asked === '0' ? this.store.version
            : Number(asked);
        if (this.from < this.store.compacted && this.cluster.faults.goneAsAnswer)
            throw this.gone();
        const seconds = number(query, 'timeoutSeconds');
        this.endsIn = (seconds || 1800 + Math.random() * 1800) * 1000;
    }

    gone() {
        return status.expired(`too old resource version: ${this.from} (${this.store.compacted})`);
    }

    start() {
        if (this.from < this.store.compacted) {
            this.event('ERROR', JSON.stringify(this.gone().status));
            this.finish();
            return;
        }
        if (this.initial) {
            for (const entry of this.store.entries(this.call.resource, this.call.namespace))
                if (!this.filter || this.filter(entry.object))
                    this.tell('ADDED', { text: () => entry.json(), object: entry.object });
            if (this.marksEnd && this.bookmarks)
                this.bookmark({ 'k8s.io/initial-events-end': 'true' });
        } else {
            for (const change of this.store.changesSince(this.from))
                this.changed(change);
        }
        this.cluster.watches.add(this);
        this.after(this.endsIn, () => this.finish());
        if (this.bookmarks)
            this.after(Math.max(this.endsIn - 2000, this.endsIn / 2), () => this.bookmark());
        this.flush();
    }

    after(ms, act) {
        this.timers.push(setTimeout(act, Math.min(ms, 2 ** 31 - 1)));
    }

    changed(change) {
        if (change.table !== this.table || change.version <= this.from)
            return;
        if (this.prefix && !change.after.key.startsWith(this.prefix))
            return;
        const type = seenAs(change, this.filter);
        if (type)
            this.tell(type, stateOf(change, type));
    }

    tell(type, { text, object }) {
        const shown = this.view ? JSON.stringify(this.view(object, this.sent === 0)) : text();
        this.sent++;
        this.event(type, shown);
    }

    bookmark(annotations) {
        const { kind, apiVersion } = this.call.resource;
        const metadata = { resourceVersion: String(this.store.version), creationTimestamp: null };
        if (annotations)
            metadata.annotations = annotations;
        const object = { kind, apiVersion, metadata };
        if (kind === 'Pod')
            Object.assign(object, { spec: { containers: null }, status: {} });
        this.event('BOOKMARK', JSON.stringify(this.view ? this.view(object, false) : object));
    }

    event(type, text) {
        this.lines.push(`{"type":"${type}","object":${text}}\n`);
        if (this.lines.length === 1)
            setImmediate(() => this.flush());
    }

    flush() {
        if (this.lines.length === 0 || this.closed || this.stalled || this.coming)
            return;
        const text = this.lines.join('');
        this.lines = [];
        if (this.halfNext) {
            this.out.write(text.slice(0, Math.max(1, text.length >> 1)));
            setImmediate(() => this.destroy());
            return;
        }
        if (this.piece)
            this.trickle(Buffer.from(text));
        else
            this.out.write(text);
        if (this.out.waiting() > UNREAD_MAX)
            this.destroy();
    }

    // In chunks of a few bytes, each on its own way.
    trickle(bytes) {
        this.coming = bytes.length > 0;
        if (this.closed)
            return;
        if (!this.coming) {
            this.flush();
            return;
        }
        const size = this.piece || bytes.length;
        this.out.write(bytes.subarray(0, size));
        setImmediate(() => this.trickle(bytes.subarray(size)));
    }

    // Ends it by an event, as where the server cannot go on.
    fail(code) {
        const { status: told } = code === 410 ? this.gone() : status.generic(code);
        this.event('ERROR', JSON.stringify(told));
        this.finish();
    }

    // The orderly end, as when its time is over.
    finish() {
        this.flush();
        this.close();
        this.out.end();
    }

    // The end without one.
    destroy() {
        this.close();
        this.out.destroy();
    }

    close() {
        this.closed = true;
        this.cluster.watches.delete(this);
        this.timers.forEach(clearTimeout);
    }
}

module.exports = { Watch };
