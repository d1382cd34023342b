// SPDX-License-Identifier: Apache-2.0
'use strict';

// The types of schema.txt: what a body may have, how lists are merged, the documents of OpenAPI.

const fs = require('node:fs');
const path = require('node:path');
const { badRequest } = require('./status');
const quantity = require('./quantity');

// 'string' ... | {list: type, key, set} | {map: type} | a name of types
function parseType(text) {
    const list = /^\[(.*)\](?:@(.+))?$/.exec(text);
    if (list)
        return { list: parseType(list[1]), key: list[2] === '*' ? undefined : list[2],
            set: list[2] === '*' };
    const map = /^\{(.*)\}$/.exec(text);
    return map ? { map: parseType(map[1]) } : text;
}

// {Pod: Map of member -> {type, required}}
function load() {
    const types = {};
    const text = fs.readFileSync(path.join(__dirname, 'schema.txt'), 'utf8');
    for (const line of text.replace(/^#.*\n/gm, '').replace(/\n +/g, ' ').trim().split('\n')) {
        const [name, members] = line.split(' = ');
        types[name] = new Map();
        for (const item of members.split(' ')) {
            const m = /^(!?)(\w+|\$ref|\$schema):(.+)$/.exec(item);
            types[name].set(m[2], { type: parseType(m[3]), required: m[1] === '!' });
        }
    }
    return types;
}

const types = load();

const GO = { string: 'string', int: 'int64', bool: 'bool', number: 'float64', time: 'v1.Time',
    quantity: 'resource.Quantity', intstr: 'intstr.IntOrString' };

function goName(type) {
    if (typeof type === 'string')
        return GO[type] || `v1.${type}`;
    return type.list ? `[]${goName(type.list)}` : `map[string]${goName(type.map)}`;
}

function jsonName(value) {
    return Array.isArray(value) ? 'array' : typeof value;
}

// Reads value as type. Members that are null are as if absent; unknown ones are left out and
// their paths added to unknown. where: {kind, version} for the words of errors.
function decode(type, value, where, unknown, at = '', owner = '') {
    const wrong = () => badRequest(`${where.kind} in version "${where.version}" cannot be ` +
        `handled as a ${where.kind}: json: cannot unmarshal ${jsonName(value)} into Go struct ` +
        `field ${owner}.${at.replace(/\[\d+\]/g, '')} of type ${goName(type)}`);
    switch (type) {
    case 'any':
        return value;
    case 'string':
        if (typeof value !== 'string')
            throw wrong();
        return value;
    case 'int':
        if (!Number.isInteger(value))
            throw wrong();
        return value;
    case 'number':
        if (typeof value !== 'number')
            throw wrong();
        return value;
    case 'bool':
        if (typeof value !== 'boolean')
            throw wrong();
        return value;
    case 'intstr':
        if (typeof value !== 'string' && !Number.isInteger(value))
            throw wrong();
        return value;
    case 'time':
        return decodeTime(value, where, wrong);
    case 'quantity':
        return decodeQuantity(value, where, wrong);
    }
    if (type.list) {
        if (!Array.isArray(value))
            throw wrong();
        return value.map((item, i) => (item === null ? emptyOf(type.list)
            : decode(type.list, item, where, unknown, `${at}[${i}]`, owner)));
    }
    if (typeof value !== 'object' || Array.isArray(value) || value === null)
        throw wrong();
    return type.map ? decodeMap(type.map, value, where, unknown, at, owner)
        : decodeMembers(type, value, where, unknown, at);
}

function emptyOf(type) {
    return type === 'string' ? '' : {};
}

function decodeTime(value, where, wrong) {
    if (typeof value !== 'string')
        throw wrong();
    if (Number.isNaN(Date.parse(value)) || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(value))
        throw badRequest(`${where.kind} in version "${where.version}" cannot be handled as a ` +
            `${where.kind}: parsing time "${value}" as "2006-01-02T15:04:05Z07:00": cannot ` +
            'parse it');
    return value;
}

function decodeQuantity(value, where, wrong) {
    if (typeof value !== 'string' && typeof value !== 'number')
        throw wrong();
    const text = quantity.canonical(value);
    if (text === null)
        throw badRequest(`${where.kind} in version "${where.version}" cannot be handled as a ` +
            `${where.kind}: ${quantity.WORDS}`);
    return text;
}

function decodeMap(type, value, where, unknown, at, owner) {
    const out = {};
    for (const [key, item] of Object.entries(value))
        if (item !== null)
            out[key] = decode(type, item, where, unknown, `${at}.${key}`, owner);
        else if (type === 'string')
            out[key] = '';
    return out;
}

function decodeMembers(type, value, where, unknown, at) {
    const members = types[type];
    const out = {};
    for (const [key, item] of Object.entries(value)) {
        const place = at ? `${at}.${key}` : key;
        const member = members.get(key);
        if (!member)
            unknown.push(place);
        else if (item !== null)
            out[key] = decode(member.type, item, where, unknown, place, type);
    }
    return out;
}

// The type of a member, for merging; undefined where it is not known.
function memberType(type, key) {
    if (typeof type === 'object')
        return type.map;
    return types[type] && types[type].get(key) && types[type].get(key).type;
}

module.exports = { types, decode, memberType };
