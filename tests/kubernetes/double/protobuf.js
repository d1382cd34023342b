// SPDX-License-Identifier: Apache-2.0
'use strict';

// Bodies in the API's binary form, which kubectl sends where it knows the type itself. Only the
// kinds that it sends so are known here, and of them only what the double looks at.

// number: [member, type]; a type is a scalar, 'name' of another message, or one in [] or {}.
const MESSAGES = {
    Unknown: { 1: ['typeMeta', 'TypeMeta'], 2: ['raw', 'bytes'] },
    TypeMeta: { 1: ['apiVersion', 'string'], 2: ['kind', 'string'] },
    ObjectMeta: { 1: ['name', 'string'], 2: ['generateName', 'string'], 3: ['namespace', 'string'],
        5: ['uid', 'string'], 6: ['resourceVersion', 'string'], 11: ['labels', '{string}'],
        12: ['annotations', '{string}'], 14: ['finalizers', '[string]'] },
    Namespace: { 1: ['metadata', 'ObjectMeta'] },
    ServiceAccount: { 1: ['metadata', 'ObjectMeta'] },
    ConfigMap: { 1: ['metadata', 'ObjectMeta'], 2: ['data', '{string}'],
        3: ['binaryData', '{base64}'] },
    Secret: { 1: ['metadata', 'ObjectMeta'], 2: ['data', '{base64}'], 3: ['type', 'string'],
        4: ['stringData', '{string}'] },
    ResourceQuota: { 1: ['metadata', 'ObjectMeta'], 2: ['spec', 'ResourceQuotaSpec'] },
    ResourceQuotaSpec: { 1: ['hard', '{Quantity}'], 2: ['scopes', '[string]'] },
    Quantity: { 1: ['string', 'string'] },
    Binding: { 1: ['metadata', 'ObjectMeta'], 2: ['target', 'ObjectReference'] },
    ObjectReference: { 1: ['kind', 'string'], 2: ['namespace', 'string'], 3: ['name', 'string'],
        4: ['uid', 'string'], 5: ['apiVersion', 'string'] },
    Eviction: { 1: ['metadata', 'ObjectMeta'], 2: ['deleteOptions', 'DeleteOptions'] },
    DeleteOptions: { 1: ['gracePeriodSeconds', 'int'], 2: ['preconditions', 'Preconditions'],
        3: ['orphanDependents', 'bool'], 4: ['propagationPolicy', 'string'],
        5: ['dryRun', '[string]'] },
    Preconditions: { 1: ['uid', 'string'], 2: ['resourceVersion', 'string'] },
    SelfSubjectAccessReview: { 1: ['metadata', 'ObjectMeta'],
        2: ['spec', 'SelfSubjectAccessReviewSpec'] },
    SelfSubjectAccessReviewSpec: { 1: ['resourceAttributes', 'ResourceAttributes'],
        2: ['nonResourceAttributes', 'NonResourceAttributes'] },
    ResourceAttributes: { 1: ['namespace', 'string'], 2: ['verb', 'string'], 3: ['group', 'string'],
        4: ['version', 'string'], 5: ['resource', 'string'], 6: ['subresource', 'string'],
        7: ['name', 'string'] },
    SelfSubjectRulesReview: { 1: ['metadata', 'ObjectMeta'],
        2: ['spec', 'SelfSubjectRulesReviewSpec'] },
    SelfSubjectRulesReviewSpec: { 1: ['namespace', 'string'] },
    SelfSubjectReview: { 1: ['metadata', 'ObjectMeta'] },
    NonResourceAttributes: { 1: ['path', 'string'], 2: ['verb', 'string'] },
};

class Reader {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
    }

    varint() {
        let out = 0;
        for (let scale = 1; ; scale *= 128) {
            if (this.at >= this.bytes.length)
                throw new Error('it breaks off');
            const byte = this.bytes[this.at++];
            out += (byte & 127) * scale;
            if (byte < 128)
                return out;
        }
    }

    // The next field: {number, value}, value a number or bytes.
    field() {
        const tag = this.varint();
        const number = Math.floor(tag / 8);
        switch (tag % 8) {
        case 0: return { number, value: this.varint() };
        case 1: return { number, value: this.take(8) };
        case 2: return { number, value: this.take(this.varint()) };
        case 5: return { number, value: this.take(4) };
        default: throw new Error(`field ${number} is of a kind that there is not`);
        }
    }

    take(length) {
        if (this.at + length > this.bytes.length)
            throw new Error('it breaks off');
        this.at += length;
        return this.bytes.subarray(this.at - length, this.at);
    }
}

function scalar(type, value) {
    switch (type) {
    case 'int': return value;
    case 'bool': return value !== 0;
    case 'bytes': return value;
    case 'base64': return value.toString('base64');
    case 'string': return value.toString();
    case 'Quantity': return message(type, value).string || '0';
    default: return message(type, value);
    }
}

function message(type, bytes) {
    const out = {};
    const reader = new Reader(bytes);
    while (reader.at < bytes.length) {
        const { number, value } = reader.field();
        const [member, of] = MESSAGES[type][number] || [];
        if (!member)
            continue;
        const inner = of.slice(1, -1);
        if (of[0] === '[')
            (out[member] = out[member] || []).push(scalar(inner, value));
        else if (of[0] === '{')
            Object.assign(out[member] = out[member] || {}, pair(inner, value));
        else
            out[member] = scalar(of, value);
    }
    return out;
}

function pair(type, bytes) {
    const reader = new Reader(bytes);
    let key = '';
    let content = Buffer.alloc(0);
    while (reader.at < bytes.length) {
        const { number, value } = reader.field();
        if (number === 1)
            key = value.toString();
        else
            content = value;
    }
    return { [key]: scalar(type, content) };
}

function withoutEmpty(object) {
    return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== ''));
}

// The object; null for a kind that is not known. Throws for what is malformed.
function decode(body) {
    if (body.subarray(0, 4).toString('latin1') !== 'k8s\0')
        throw new Error('it does not begin as it has to');
    const { typeMeta = {}, raw = Buffer.alloc(0) } = message('Unknown', body.subarray(4));
    if (!Object.hasOwn(MESSAGES, typeMeta.kind || ''))
        return null;
    const object = message(typeMeta.kind, raw);
    if (object.metadata)
        object.metadata = withoutEmpty(object.metadata);
    return { kind: typeMeta.kind, apiVersion: typeMeta.apiVersion, ...object };
}

module.exports = { decode };
