// SPDX-License-Identifier: Apache-2.0
'use strict';

// The forms in which objects are asked for and answered: as they are stored, events as those of
// events.k8s.io, tables and metadata alone (Accept: …;as=Table).

const table = require('./table');

const FORMS = { Table: table.of, PartialObjectMetadata: null, PartialObjectMetadataList: null };

// What the Accept header prefers: undefined for plain JSON.
function formOf(call) {
    for (const part of (call.headers.accept || '').split(',')) {
        const [type, ...rest] = part.split(';').map((one) => one.trim());
        const as = rest.map((one) => /^as=(\w+)$/.exec(one)).find(Boolean);
        if (type === 'application/json' || type === '*/*')
            return as && Object.hasOwn(FORMS, as[1]) ? as[1] : undefined;
    }
    return undefined;
}

function isForeign({ resource }) {
    return resource.type === 'EventsEvent';
}

function toEvents(event) {
    const { involvedObject, message, firstTimestamp, lastTimestamp, count, source,
        reportingComponent, metadata, kind, apiVersion, ...rest } = event;
    return { kind: 'Event', apiVersion: 'events.k8s.io/v1', metadata, ...rest,
        regarding: involvedObject, note: message, deprecatedSource: source,
        deprecatedFirstTimestamp: firstTimestamp, deprecatedLastTimestamp: lastTimestamp,
        deprecatedCount: count, reportingController: reportingComponent };
}

function fromEvents(event) {
    const { regarding, note, deprecatedSource, deprecatedFirstTimestamp, deprecatedLastTimestamp,
        deprecatedCount, reportingController, ...rest } = event;
    return { ...rest, involvedObject: regarding, message: note, source: deprecatedSource || {},
        firstTimestamp: deprecatedFirstTimestamp, lastTimestamp: deprecatedLastTimestamp,
        count: deprecatedCount, reportingComponent: reportingController };
}

// The call in terms of what is stored.
function stored(call) {
    if (!isForeign(call))
        return call;
    const { core } = require('./resources');
    const query = new URLSearchParams(call.query);
    const fields = query.get('fieldSelector');
    if (fields)
        query.set('fieldSelector', fields.replace(/\bregarding\./g, 'involvedObject.')
            .replace(/\breportingController\b/g, 'reportingComponent'));
    let { body } = call;
    if (['create', 'update'].includes(call.verb)) {
        const event = fromEvents(JSON.parse(body.toString()));
        body = Buffer.from(JSON.stringify({ ...event, apiVersion: 'v1' }));
    }
    return Object.assign(call, { asked: call.resource, resource: core('events'), query, body });
}

function partial(object) {
    return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1',
        metadata: object.metadata };
}

// How one object is shown to this call; undefined where as it is stored.
function viewOf(call) {
    const form = formOf(call);
    if (form === 'Table')
        return (object, first) => table.of(call, [object], { metadata: object.metadata, first });
    if (form)
        return partial;
    return call.asked ? toEvents : undefined;
}

function watched(call) {
    return viewOf(call);
}

function shown(call, result) {
    if (result.watch || result.text !== undefined)
        return result;
    const form = formOf(call);
    if (result.entries)
        return shownList(call, result, form);
    const object = result.object || (form || call.asked ? result.entry.object : undefined);
    if (!object || object.kind === 'Status')
        return result;
    const view = viewOf(call);
    return view ? { ...result, object: view(object, true), entry: undefined } : result;
}

function shownList(call, result, form) {
    const { entries, metadata } = result;
    const kind = `${call.resource.kind}List`;
    if (form === 'Table')
        return { ...result, object: table.of(call, entries.map((entry) => entry.object),
            { metadata, first: true }) };
    if (form)
        return { ...result, object: { kind: 'PartialObjectMetadataList',
            apiVersion: 'meta.k8s.io/v1', metadata,
            items: entries.map((entry) => partial(entry.object)) } };
    if (call.asked)
        return { ...result, object: { kind, apiVersion: call.asked.apiVersion, metadata,
            items: entries.map((entry) => toEvents(entry.object)) } };
    const head = JSON.stringify({ kind, apiVersion: call.resource.apiVersion, metadata });
    return { ...result, json: `${head.slice(0, -1)},"items":[` +
        `${entries.map((entry) => entry.item()).join(',')}]}` };
}

module.exports = { stored, shown, watched };
