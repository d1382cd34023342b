// SPDX-License-Identifier: Apache-2.0
'use strict';

// The three kinds of patches: JSON (RFC 6902), merge (RFC 7386), strategic merge. Each gives a new
// object; what was given stays as it was.

const { isDeepStrictEqual } = require('node:util');
const { badRequest, failure } = require('./status');
const { memberType } = require('./schema');

function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function merge(target, patch) {
    if (!isObject(patch))
        return patch;
    const out = isObject(target) ? { ...target } : {};
    for (const [key, value] of Object.entries(patch))
        if (value === null)
            delete out[key];
        else
            out[key] = merge(out[key], value);
    return out;
}

function strategic(target, patch, type) {
    if (patch.$patch === 'replace') {
        const { $patch, ...rest } = patch;
        return rest;
    }
    const out = isObject(target) ? { ...target } : {};
    for (const [key, value] of Object.entries(patch)) {
        if (/^\$(setElementOrder|retainKeys)/.test(key) || key === '$patch')
            continue;
        const removed = /^\$deleteFromPrimitiveList\/(.+)$/.exec(key);
        if (removed) {
            out[removed[1]] = (out[removed[1]] || []).filter((item) => !value.includes(item));
            continue;
        }
        const of = memberType(type, key);
        if (value === null)
            delete out[key];
        else if (Array.isArray(value))
            out[key] = strategicList(out[key], value, of);
        else if (isObject(value))
            out[key] = value.$patch === 'delete' ? undefined : strategic(out[key], value, of);
        else
            out[key] = value;
        if (out[key] === undefined)
            delete out[key];
    }
    return out;
}

function strategicList(target, patch, type) {
    const items = patch.filter((item) => !(isObject(item) && item.$patch === 'replace'));
    if (items.length < patch.length || !type || !(type.key || type.set))
        return items;
    if (type.set)
        return [...new Set([...(target || []), ...items])];
    const out = [...(target || [])];
    for (const item of items) {
        if (!isObject(item) || item[type.key] === undefined)
            throw badRequest(`map: ${JSON.stringify(item)} does not contain declared merge key: ` +
                type.key);
        const at = out.findIndex((old) => old[type.key] === item[type.key]);
        if (item.$patch === 'delete') {
            if (at >= 0)
                out.splice(at, 1);
        } else if (at >= 0) {
            out[at] = strategic(out[at], item, type.list);
        } else {
            out.push(strategic({}, item, type.list));
        }
    }
    return out;
}

function steps(pointer) {
    if (pointer === '')
        return [];
    if (typeof pointer !== 'string' || pointer[0] !== '/')
        throw badRequest(`the path "${pointer}" of a JSON patch does not begin with a slash`);
    return pointer.slice(1).split('/').map((s) => s.replace(/~1/g, '/').replace(/~0/g, '~'));
}

function unprocessable(why) {
    return failure(422, 'Invalid', `the server rejected our request due to an error in our ` +
        `request: ${why}`, {});
}

function reach(document, path) {
    let value = document;
    for (const step of path) {
        if (value === null || typeof value !== 'object' || !Object.hasOwn(value, step))
            throw unprocessable(`the path "/${path.join('/')}" of a JSON patch does not exist`);
        value = value[step];
    }
    return value;
}

function put(document, path, value, replace) {
    if (path.length === 0)
        return value;
    const parent = reach(document, path.slice(0, -1));
    const last = path[path.length - 1];
    if (replace)
        reach(document, path);
    if (Array.isArray(parent) && !replace) {
        const at = last === '-' ? parent.length : Number(last);
        if (!(Number.isInteger(at) && at >= 0 && at <= parent.length))
            throw unprocessable(`"${last}" is no place in a list`);
        parent.splice(at, 0, value);
    } else if (parent === null || typeof parent !== 'object') {
        throw unprocessable(`the path "/${path.join('/')}" of a JSON patch does not exist`);
    } else {
        parent[last] = value;
    }
    return document;
}

function drop(document, path) {
    reach(document, path);
    const parent = reach(document, path.slice(0, -1));
    if (Array.isArray(parent))
        parent.splice(Number(path[path.length - 1]), 1);
    else
        delete parent[path[path.length - 1]];
    return document;
}

function jsonPatch(target, operations) {
    if (!Array.isArray(operations))
        throw badRequest('a JSON patch is a list of operations');
    let out = structuredClone(target);
    for (const { op, path, from, value } of operations) {
        const to = steps(path);
        switch (op) {
        case 'add': out = put(out, to, value, false); break;
        case 'replace': out = put(out, to, value, true); break;
        case 'remove': out = drop(out, to); break;
        case 'copy': out = put(out, to, structuredClone(reach(out, steps(from))), false); break;
        case 'move': {
            const moved = reach(out, steps(from));
            out = put(drop(out, steps(from)), to, moved, false);
            break;
        }
        case 'test':
            if (!isDeepStrictEqual(reach(out, to), value))
                throw unprocessable(`testing path "${path}" of a JSON patch failed`);
            break;
        default:
            throw badRequest(`unexpected kind of operation of a JSON patch: ${op}`);
        }
    }
    return out;
}

const KINDS = {
    'application/json-patch+json': (target, patch) => jsonPatch(target, patch),
    'application/merge-patch+json': (target, patch) => merge(target, patch),
    'application/strategic-merge-patch+json': (target, patch, type) =>
        strategic(target, patch, type),
};

// contentType without parameters.
function apply(contentType, target, patch, type) {
    if (!Object.hasOwn(KINDS, contentType))
        throw failure(415, 'UnsupportedMediaType', 'the body of the request was in an unknown ' +
            `format - accepted media types include: ${Object.keys(KINDS).join(', ')}`, {});
    if (contentType !== 'application/json-patch+json' && !isObject(patch))
        throw badRequest('a patch is an object');
    return KINDS[contentType](target, patch, type);
}

module.exports = { apply };
