// SPDX-License-Identifier: Apache-2.0
'use strict';

// Holds what a server answers, and what it takes, against docs/openapi.json: every operation, status
// and member must be in it. tools/setup installs what this needs into tests/http/node_modules.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const Ajv = require('ajv/dist/2020');
const formats = require('ajv-formats');

const file = path.join(__dirname, '../../docs/openapi.json');
const document = JSON.parse(fs.readFileSync(file, 'utf8'));
const METHODS = ['get', 'put', 'post', 'delete', 'patch'];

// Members of OpenAPI around the schemas are none of JSON Schema's.
const ajv = new Ajv({ strict: false, allErrors: true });
formats(ajv);
// What no pattern describes.
for (const format of ['jq', 'cron', 'timezone', 'cursor', 'time-span', 'pcre', 'quantity', 'cpu-quantity',
    'event-names'])
    ajv.addFormat(format, true);
ajv.addSchema(document, 'api');
// A server that is not strict passes over what it does not know.
ajv.addSchema(JSON.parse(JSON.stringify(document, (key, value) =>
    (key === 'unevaluatedProperties' && value === false ? undefined : value))), 'requests');

// [{method, path, operation, pattern}], fixed paths before those with parameters.
const operations = Object.entries(document.paths).flatMap(([target, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
        method: method.toUpperCase(),
        path: target,
        operation: item[method],
        pattern: new RegExp(`^${target.replace(/\{\w+\}/g, '[^/]+').replaceAll('.', '\\.')}$`),
    }))).sort((a, b) => a.path.split('{').length - b.path.split('{').length);

function find(method, target) {
    const [bare] = target.split('?');
    const known = method === 'HEAD' ? 'GET' : method;
    return operations.find((op) => op.method === known && op.pattern.test(bare));
}

function escape(part) {
    return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
}

const compiled = new Map();

function schemaAt(parts, root = 'api') {
    const pointer = `${root}#/${parts.map(escape).join('/')}`;
    if (!compiled.has(pointer))
        compiled.set(pointer, ajv.compile({ $ref: pointer }));
    return compiled.get(pointer);
}

// Where the answer with that status is described: the path to it in the document.
function describedAt(op, status) {
    const key = [`${status}`, `${Math.floor(status / 100)}XX`].find((k) => op.operation.responses[k]);
    if (!key)
        return undefined;
    const ref = op.operation.responses[key].$ref;
    return ref ? ref.slice(2).split('/') : ['paths', op.path, op.method.toLowerCase(), 'responses', key];
}

function valueAt(parts) {
    return parts.reduce((at, part) => at[part], document);
}

// answer: {status, headers, json}. What no operation is about (a wrong path or method) has to
// be refused.
function check(method, target, answer) {
    const what = `${method} ${target} -> ${answer.status}`;
    const type = answer.headers['content-type']?.split(';')[0];
    const op = find(method, target);
    if (!op) {
        assert.ok(answer.status >= 400, `${what}: docs/openapi.json has no such operation`);
        return;
    }
    const at = describedAt(op, answer.status);
    assert.ok(at, `${what}: docs/openapi.json does not have this status`);
    const { content } = valueAt(at);
    if (answer.bytes.length === 0 || type === 'application/msgpack')
        return;
    assert.ok(content?.[type], `${what}: docs/openapi.json has no body of type ${type}`);
    if (answer.json === undefined)
        return;
    const valid = schemaAt([...at, 'content', type, 'schema']);
    assert.ok(valid(answer.json), `${what}: not as docs/openapi.json says: ` +
        `${ajv.errorsText(valid.errors)}: ${JSON.stringify(answer.json).slice(0, 500)}`);
}

// A body that a server takes has to be as the description of requests says.
function checkRequest(method, target, type, bytes, answer) {
    const op = find(method, target);
    if (!op?.operation.requestBody || answer.status >= 300 || type !== 'application/json' ||
        !bytes?.length)
        return;
    const valid = schemaAt(['paths', op.path, op.method.toLowerCase(), 'requestBody', 'content', type,
        'schema'], 'requests');
    assert.ok(valid(JSON.parse(bytes)), `${method} ${target} with ${bytes.toString().slice(0, 500)}: ` +
        `it was taken, but docs/openapi.json says: ${ajv.errorsText(valid.errors)}`);
}

module.exports = { METHODS, ajv, check, checkRequest, document, find, operations, schemaAt };
