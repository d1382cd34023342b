// SPDX-License-Identifier: Apache-2.0
'use strict';

// docs/openapi.json says of each request whether the server reads it: what it allows is never refused
// as malformed, and what violates one keyword of it is always refused. SEED=n repeats a run.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { useServer } = require('./harness');
const { operations } = require('./openapi');
const { Generator, resolved } = require('./generate');

const SEED = Number(process.env.SEED ?? 20);
// They end what the others need, are made elsewhere, or exist on the admin listener alone.
const LEFT_OUT = ['resetClock', 'makeBackup', 'compactTables', 'stepDown', 'createToken', 'listTokens', 'deleteToken'];
// A number of an event that is not there yet is another matter.
const LATER = ['since', 'Last-Event-ID'];
const STREAMS = ['takeJobs', 'streamEvents'];

function isMalformed({ status, json }) {
    return [400, 405, 406, 413, 414, 415].includes(status) || json?.code === 'no_such_path';
}

function text(value) {
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function fill(op, g, change = {}) {
    const parameters = op.operation.parameters ?? [];
    const given = {};
    for (const p of parameters)
        if (p.required || (g.next() < 0.25 && p.schema.format !== 'cursor' && !LATER.includes(p.name)))
            given[`${p.in} ${p.name}`] = text(g.value(p.schema));
    Object.assign(given, change.parameters);
    let target = op.path;
    const query = [], headers = {};
    for (const p of parameters) {
        const value = given[`${p.in} ${p.name}`];
        if (value === undefined)
            continue;
        if (p.in === 'path')
            target = target.replace(`{${p.name}}`, encodeURIComponent(value));
        else if (p.in === 'query')
            query.push(`${encodeURIComponent(p.name)}=${encodeURIComponent(value)}`);
        else
            headers[p.name] = /^[ -~]*$/.test(value) ? value : encodeURIComponent(value).slice(0, 200);
    }
    const content = op.operation.requestBody?.content['application/json'];
    const body = 'body' in change ? change.body : content && g.value(content.schema);
    return { target: query.length ? `${target}?${query.join('&')}` : target, body, headers };
}

// Nobody waits for jobs here.
function still(body) {
    return body && typeof body === 'object' && 'wait_ms' in body ? { ...body, wait_ms: 0 } : body;
}

// Conditions of what they say, which no schema knows: docs/policies.md.
const DOCUMENTS = ['createRetryPolicy', 'putRetryPolicy', 'simulateRetryPolicies', 'createFailureCategories',
    'putFailureCategories', 'putRetrySettings'];
const cases = operations.filter(({ operation }) => !LEFT_OUT.includes(operation.operationId));

describe('a request by docs/openapi.json', () => {
    const server = useServer();

    async function send(op, { target, body, headers }) {
        if (STREAMS.includes(op.operation.operationId)) {
            const res = await fetch(server.url() + target, { headers });
            const json = res.status === 200 ? undefined : await res.json();
            await res.body?.cancel().catch(() => undefined);
            return { status: res.status, json };
        }
        return server.request(op.method, target, body === undefined ? undefined : JSON.stringify(body),
            { 'content-type': 'application/json', ...headers });
    }

    for (const op of cases) {
        const { operationId: id, parameters = [], requestBody } = op.operation;

        if (!DOCUMENTS.includes(id))
            it(`is_not_malformed_if_it_is_allowed: ${id}`, async () => {
            const g = new Generator(SEED);
            const wrong = new Set();
            for (let i = 0; i < 12; i++) {
                const request = fill(op, g);
                request.body = still(request.body);
                const res = await send(op, request);
                if (isMalformed(res))
                    wrong.add(`${op.method} ${request.target} ${JSON.stringify(request.body)?.slice(0, 300)}: ` +
                        `${res.status} ${res.json?.error}`);
            }
            assert.deepEqual([...wrong], []);
        });

        it(`is_refused_if_one_keyword_forbids_it: ${id}`, async () => {
            const g = new Generator(SEED);
            const taken = [];
            const expect = async (what, request) => {
                const { status } = await send(op, request);
                if (status < 400)
                    taken.push(`${what}: ${status} of ${op.method} ${request.target} ` +
                        `${JSON.stringify(request.body)?.slice(0, 200)}`);
            };
            for (const p of parameters.filter((one) => one.in === 'query')) {
                const kinds = [resolved(p.schema).type].flat();
                for (const { keyword, value } of g.violations(p.schema)) {
                    const given = text(value ?? 'null');
                    // In a query everything is text; an empty one of a GET is as absent.
                    if ((kinds.includes('string') && keyword.startsWith('type')) || (given === '' && p.allowEmptyValue))
                        continue;
                    await expect(`${p.name} ${keyword}`,
                        fill(op, g, { parameters: { [`query ${p.name}`]: given } }));
                }
                if (p.required)
                    await expect(`${p.name} required`,
                        fill(op, g, { parameters: { [`query ${p.name}`]: undefined } }));
            }
            const schema = requestBody && resolved(requestBody.content['application/json'].schema);
            for (const { keyword, value } of schema ? g.violations(schema) : [])
                await expect(`body ${keyword}`, fill(op, g, { body: value }));
            for (const [name, member] of Object.entries(schema?.properties ?? {}))
                for (const { keyword, value } of g.violations(member)) {
                    const body = { ...still(g.value(schema)), [name]: value };
                    await expect(`${name} ${keyword}`, fill(op, g, { body }));
                }
            assert.deepEqual(taken, []);
        });
    }
});
