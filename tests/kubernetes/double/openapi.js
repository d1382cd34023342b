// SPDX-License-Identifier: Apache-2.0
'use strict';

// The documents of OpenAPI, made from schema.txt: version 2 as JSON and in the binary form that
// kubectl asks for, version 3 by group. kubectl checks manifests by them before it sends them.

const { createHash } = require('node:crypto');
const { types } = require('./schema');
const { RESOURCES } = require('./resources');

const META = new Set(['ObjectMeta', 'OwnerReference', 'ManagedFieldsEntry', 'LabelSelector',
    'LabelSelectorRequirement', 'Status', 'StatusCause', 'StatusDetails', 'ListMeta',
    'DeleteOptions', 'Preconditions']);
const REVIEW = new Set(['SelfSubjectAccessReview', 'SelfSubjectAccessReviewSpec',
    'SubjectAccessReviewStatus', 'ResourceAttributes', 'NonResourceAttributes']);

const SCALARS = {
    string: { type: 'string' },
    int: { type: 'integer', format: 'int64' },
    number: { type: 'number', format: 'double' },
    bool: { type: 'boolean' },
    time: { type: 'string', format: 'date-time' },
    any: { type: 'object' },
    intstr: { type: 'string', format: 'int-or-string' },
    quantity: { type: 'string' },
};

function nameOf(type) {
    if (META.has(type))
        return `io.k8s.apimachinery.pkg.apis.meta.v1.${type}`;
    if (REVIEW.has(type))
        return `io.k8s.api.authorization.v1.${type}`;
    if (type.startsWith('EventsEvent'))
        return `io.k8s.api.events.v1.${type.slice('Events'.length)}`;
    return `io.k8s.api.core.v1.${type}`;
}

function schemaOf(type, refs) {
    if (type.list) {
        const out = { type: 'array', items: schemaOf(type.list, refs) };
        if (type.key || type.set)
            out['x-kubernetes-patch-strategy'] = 'merge';
        if (type.key)
            out['x-kubernetes-patch-merge-key'] = type.key;
        return out;
    }
    if (type.map)
        return { type: 'object', additionalProperties: schemaOf(type.map, refs) };
    return SCALARS[type] ? { ...SCALARS[type] } : { $ref: `${refs}${nameOf(type)}` };
}

function definitions(refs) {
    const out = {};
    for (const [name, members] of Object.entries(types)) {
        const properties = {};
        for (const [key, { type }] of members)
            properties[key] = schemaOf(type, refs);
        const required = [...members].filter(([, one]) => one.required).map(([key]) => key);
        const definition = { type: 'object', properties };
        if (required.length > 0)
            definition.required = required;
        const served = RESOURCES.find((one) => one.type === name);
        if (served)
            definition['x-kubernetes-group-version-kind'] = [gvk(served)];
        out[nameOf(name)] = definition;
    }
    return out;
}

function gvk({ group, version, kind }) {
    return { group, version, kind };
}

// The operations that take fieldValidation and dryRun, by which clients find out that they may.
function paths(resource, parameter) {
    const root = resource.group ? `/apis/${resource.group}/v1` : '/api/v1';
    const base = `${root}${resource.namespaced ? '/namespaces/{namespace}' : ''}/` +
        resource.resource;
    const operation = () => ({ 'x-kubernetes-group-version-kind': gvk(resource),
        parameters: ['dryRun', 'fieldManager', 'fieldValidation'].map(parameter),
        responses: { 200: { description: 'OK' } } });
    const out = { [base]: { post: operation() } };
    if (resource.verbs.includes('patch'))
        out[`${base}/{name}`] = { put: operation(), patch: operation() };
    return out;
}

const info = { title: 'Kubernetes', version: 'v1.32.0' };

function version2() {
    const parameter = (name) => ({ name, in: 'query', type: 'string', uniqueItems: true });
    return { swagger: '2.0', info, paths: Object.assign({}, ...RESOURCES.map((one) =>
        paths(one, parameter))), definitions: definitions('#/definitions/') };
}

function version3(group) {
    const parameter = (name) => ({ name, in: 'query', schema: { type: 'string' } });
    return { openapi: '3.0.0', info, paths: Object.assign({}, ...RESOURCES
        .filter((one) => one.group === group).map((one) => paths(one, parameter))),
    components: { schemas: definitions('#/components/schemas/') } };
}

// ---- the binary form: messages of protobuf, of which every field here is bytes or a flag

function varint(n) {
    const out = [];
    for (; n > 127; n = Math.floor(n / 128))
        out.push((n % 128) | 128);
    out.push(n);
    return Buffer.from(out);
}

function field(number, value) {
    if (value === true)
        return Buffer.concat([varint(number << 3), varint(1)]);
    const bytes = Buffer.isBuffer(value) ? value : Buffer.from(value);
    return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

const message = (...fields) => Buffer.concat(fields);

function extensions(number, object) {
    return Object.keys(object).filter((key) => key.startsWith('x-')).map((key) => field(number,
        message(field(1, key), field(2, field(2, `${JSON.stringify(object[key])}\n`)))));
}

function binarySchema(schema) {
    const out = [];
    if (schema.$ref)
        out.push(field(1, schema.$ref));
    if (schema.format)
        out.push(field(2, schema.format));
    for (const name of schema.required || [])
        out.push(field(19, name));
    if (schema.additionalProperties)
        out.push(field(21, field(1, binarySchema(schema.additionalProperties))));
    if (schema.type)
        out.push(field(22, field(1, schema.type)));
    if (schema.items)
        out.push(field(23, field(1, binarySchema(schema.items))));
    if (schema.properties)
        out.push(field(25, named(schema.properties, binarySchema)));
    return message(...out, ...extensions(31, schema));
}

function named(map, encode) {
    return message(...Object.entries(map).map(([name, value]) =>
        field(1, message(field(1, name), field(2, encode(value))))));
}

function binaryOperation(operation) {
    const parameters = operation.parameters.map(({ name }) => {
        const query = message(field(2, 'query'), field(4, name), field(6, 'string'),
            field(20, true));
        return field(8, field(1, field(2, field(3, query))));
    });
    const responses = field(1, message(field(1, '200'),
        field(2, field(1, field(1, 'OK')))));
    return message(...parameters, field(9, responses), ...extensions(13, operation));
}

function binaryPaths(map) {
    const numbers = { put: 3, post: 4, patch: 8 };
    return message(...Object.entries(map).map(([path, item]) => field(2, message(field(1, path),
        field(2, message(...Object.entries(item).map(([verb, operation]) =>
            field(numbers[verb], binaryOperation(operation)))))))));
}

function binary(document) {
    return message(field(1, document.swagger),
        field(2, message(field(1, info.title), field(2, info.version))),
        field(8, binaryPaths(document.paths)),
        field(9, named(document.definitions, binarySchema)));
}

// ---- answers

const cache = new Map();

function once(key, make) {
    if (!cache.has(key))
        cache.set(key, make());
    return cache.get(key);
}

// Without the @ that the request has: Go does not take it for a type.
const BINARY = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';

function index() {
    const out = {};
    for (const group of new Set(RESOURCES.map((one) => one.group))) {
        const name = group ? `apis/${group}/v1` : 'api/v1';
        const hash = createHash('sha256').update(v3(group)).digest('hex').toUpperCase();
        out[name] = { serverRelativeURL: `/openapi/v3/${name}?hash=${hash}` };
    }
    return { paths: out };
}

function v3(group) {
    return once(`v3 ${group}`, () => JSON.stringify(version3(group)));
}

// undefined for what is no path of these.
function answer({ path, headers }) {
    if (path === '/openapi/v2') {
        if (/proto-openapi/.test(headers.accept || ''))
            return { code: 200, text: once('binary', () => binary(version2())), type: BINARY };
        return { code: 200, json: once('v2', () => JSON.stringify(version2())) };
    }
    if (path === '/openapi/v3')
        return { code: 200, object: once('index', index) };
    const m = /^\/openapi\/v3\/(?:api|apis\/([^/]+))\/v1$/.exec(path);
    if (m && RESOURCES.some((one) => one.group === (m[1] || '')))
        return { code: 200, json: v3(m[1] || '') };
    return undefined;
}

module.exports = { answer };
