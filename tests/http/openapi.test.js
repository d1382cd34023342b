// SPDX-License-Identifier: Apache-2.0
'use strict';

// docs/openapi.json: valid, complete, and served. That answers are as it says is checked with
// every request of every other test (harness.js).

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, assertError, queueName, useServer } = require('./harness');
const { METHODS, check, document, find, operations, schemaAt } = require('./openapi');

const EVENT = ['components', 'schemas', 'Event'];

describe('docs/openapi.json', () => {
    const server = useServer();

    it('is_valid_OpenAPI_3.1', async () => {
        const { Validator } = await import('@seriousme/openapi-schema-validator');
        const validator = new Validator();
        const { valid, errors } = await validator.validate(structuredClone(document));
        assert.ok(valid, JSON.stringify(errors));
        assert.equal(validator.version, '3.1');
    });

    it('is_accepted_by_a_linter', async () => {
        const { createConfig, lintFromString } = require('@redocly/openapi-core');
        const config = await createConfig({
            extends: ['recommended'],
            rules: {
                'operation-operationId': 'error',
                'operation-operationId-unique': 'error',
                'no-unused-components': 'off', // what streams are made of
                // The linter takes conditions for whole schemas; the examples are sent below.
                'no-invalid-media-type-examples': 'off',
            },
        });
        const problems = await lintFromString({
            source: JSON.stringify(document), config, absoluteRef: '/openapi.json',
        });
        assert.deepEqual(problems.map((p) => `${p.ruleId}: ${p.message} ${p.location[0].pointer}`), []);
    });

    // Against a strict server: no field in them is misspelt, no value out of range.
    it('has_an_example_of_each_body_that_is_good', async (t) => {
        const strict = new Server({ args: ['--strict'] });
        await strict.start();
        t.after(() => strict.clean());
        await strict.request('PUT', '/crons/sample', { entries: [] });
        let count = 0;
        for (const [target, item] of Object.entries(document.paths))
            for (const method of METHODS.filter((name) => item[name]?.requestBody)) {
                const what = `${method} ${target}`;
                const { example, schema } = item[method].requestBody.content['application/json'];
                assert.ok(example, `an example of the body of ${what}`);
                const at = ['paths', target, method, 'requestBody', 'content', 'application/json'];
                const valid = schemaAt([...at, 'schema']);
                assert.ok(schema && valid(example), `${what}: ${JSON.stringify(valid.errors)}`);
                const filled = target.replace('/jobs/{id}', '/jobs/03fr82s077azjmurys29qjch4')
                    .replace(/\{\w+\}/g, 'sample');
                const res = await strict.request(method.toUpperCase(), filled, example);
                // Some speak of jobs that are not there; tokens are made elsewhere.
                const gone = target === '/tokens' || [404, 409].includes(res.status) || res.json?.not_found ||
                    (res.status === 422 && (res.json.jobs ?? res.json.reports)?.[0].code === 'not_found');
                assert.ok(res.status < 300 || gone, `${what}: ${res.status} ${res.text}`);
                count++;
            }
        assert.ok(count > 20);
    });

    it('has_an_example_of_each_answer_that_has_a_body', () => {
        let count = 0;
        for (const { method, path: target, operation } of operations) {
            const bodies = Object.entries(operation.responses).filter(([status, answer]) =>
                status[0] === '2' && answer.content?.['application/json'] && target !== '/openapi.json');
            if (bodies.length === 0)
                continue;
            const [status, answer] = bodies.find(([, body]) => body.content['application/json'].example) ?? [];
            assert.ok(answer, `an example of the answer to ${method} ${target}`);
            const { example } = answer.content['application/json'];
            const valid = schemaAt(['paths', target, method.toLowerCase(), 'responses', status, 'content',
                'application/json', 'schema']);
            assert.ok(valid(example), `${method} ${target}: ${JSON.stringify(valid.errors)}`);
            count++;
        }
        assert.ok(count > 75);
    });

    it('has_every_route_and_no_other', () => {
        const source = fs.readFileSync(path.join(__dirname, '../../src/api/api_routes.c'), 'utf8');
        const routes = [...source.matchAll(/\{HTTP_([A-Z]+), "([^"]+)"/g)].map((m) => `${m[1]} ${m[2]}`);
        assert.ok(routes.length > 50);
        const described = Object.entries(document.paths).flatMap(([target, item]) =>
            METHODS.filter((method) => item[method])
                .map((method) => `${method.toUpperCase()} ${target}`));
        assert.deepEqual(described.sort(), routes.sort());
    });

    // So that a member which no table has is found by the test that meets it.
    it('closes_what_answers_have', () => {
        let count = 0;
        const open = [];
        for (const { method, path: target, operation } of operations)
            for (const [status, { content }] of Object.entries(operation.responses)) {
                const schema = content?.['application/json']?.schema;
                if (!schema || target === '/openapi.json')
                    continue;
                for (const { $ref: ref } of schema.anyOf ?? [schema]) {
                    const named = document.components.schemas[ref?.split('/').pop()];
                    count++;
                    if (named?.unevaluatedProperties !== false)
                        open.push(`${method} ${target} ${status}`);
                }
            }
        assert.deepEqual(open, []);
        assert.ok(count > 50);
    });

    // Found by trying each form in openapi-generator, oapi-codegen and openapi-python-client.
    it('is_of_forms_that_generators_of_clients_read', () => {
        const { schemas } = document.components;
        const wrong = [];
        const types = (schema) => [schema.type ?? []].flat();
        const visit = (node, where) => {
            if (typeof node !== 'object' || node === null)
                return;
            const members = Object.values(node.properties ?? {});
            if (types(node).filter((type) => type !== 'null').length > 1)
                wrong.push(`${where}: several types in one list`);
            if (types(node).includes('null') && members.length > 0)
                wrong.push(`${where}: an object with members, or null`);
            if (node.additionalProperties === false)
                wrong.push(`${where}: additionalProperties: false`);
            if (node.oneOf?.some((one) => one.type === 'null'))
                for (const { $ref: ref } of node.oneOf) {
                    const named = ref && schemas[ref.split('/').pop()];
                    if (named && !named.enum && !['object', undefined].includes(named.type))
                        wrong.push(`${where}: a named ${named.type}, or null`);
                }
            for (const [key, value] of Object.entries(node))
                if (key === 'properties')
                    Object.entries(value).forEach(([name, member]) => visit(member, `${where}.${name}`));
                else if (!['example', 'examples', 'enum'].includes(key))
                    visit(value, `${where}/${key}`);
        };
        visit(document.paths, 'paths');
        for (const [name, schema] of Object.entries(schemas)) {
            visit(schema, name);
            if (schemas[name.replace(/^New/, '')] !== schema)
                wrong.push(`${name}: the name of a constructor`);
            for (const [member, value] of Object.entries(schema.properties ?? {})) {
                const made = member.replaceAll(/(?:^|_)(\w)/g, (_, letter) => letter.toUpperCase());
                if (schemas[name + made] && ['properties', 'enum', 'oneOf', 'anyOf'].some((key) => key in value))
                    wrong.push(`${name}${made}: the name of the type of a member`);
            }
        }
        assert.deepEqual(wrong, []);
    });

    it('has_one_tag_of_each_operation', () => {
        const known = document.tags.map((tag) => tag.name);
        const used = operations.map(({ operation }) => operation.tags);
        assert.deepEqual([...new Set(used.flat())].sort(), [...known].sort());
        assert.ok(used.every((tags) => tags.length === 1));
        assert.ok(document.tags.every((tag) => tag.description));
    });

    it('describes_every_operation_parameter_and_member', () => {
        const missing = [];
        const resolve = (node) => node.$ref
            ? node.$ref.slice(2).split('/').reduce((at, part) => at[part], document) : node;
        let count = 0;
        const visit = (schema, where) => {
            if (schema.items)
                visit(schema.items, where);
            for (const [name, member] of Object.entries(schema.properties ?? {})) {
                count++;
                if (!/\w{2}/.test(member.description ?? ''))
                    missing.push(`${where}.${name}`);
                visit(member, `${where}.${name}`);
            }
        };
        Object.entries(document.components.schemas).forEach(([name, schema]) => visit(schema, name));
        for (const { operation: { operationId: id, summary, description, parameters, requestBody } } of operations) {
            // A sentence or more, which does not repeat the summary.
            if (!/^[A-Z].{20,}\.$/.test(description) || !summary || description.includes(summary))
                missing.push(id);
            if (requestBody)
                visit(requestBody.content['application/json'].schema, id);
            for (const parameter of parameters ?? [])
                if (!parameter.description && !resolve(parameter.schema).description)
                    missing.push(`${id} ${parameter.name}`);
        }
        assert.deepEqual(missing, []);
        assert.ok(count > 1000);
    });

    // Times in milliseconds do not fit in 32 bits, which is what generators take integers for.
    it('says_of_integers_that_are_wider_than_32_bits_that_they_are', () => {
        const { Job, Gap } = document.components.schemas;
        assert.equal(Job.properties.ready_at.format, 'int64');
        assert.equal(Gap.properties.from.format, 'int64');
        assert.equal(Job.properties.priority.format, undefined);
        const { prefetch } = Object.fromEntries(find('GET', '/jobs/take').operation.parameters
            .map((parameter) => [parameter.name, parameter.schema]));
        assert.equal(prefetch.format, 'int64');
    });

    it('names_every_parameter_of_a_path', () => {
        for (const [target, item] of Object.entries(document.paths))
            for (const method of METHODS.filter((name) => item[name])) {
                const named = (item[method].parameters ?? []).filter((p) => p.in === 'path');
                assert.deepEqual(named.map((p) => `{${p.name}}`), target.match(/\{\w+\}/g) ?? [],
                    `${method} ${target}`);
            }
    });

    it('is_what_the_server_gives', async () => {
        const res = await server.get('/openapi.json');
        assert.equal(res.headers['content-type'], 'application/json');
        assert.deepEqual(res.json, document);
        assertError(await server.post('/openapi.json', {}), 405, 'method_not_allowed');
    });

    it('says_what_an_event_is', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        await server.claimOne(queue, { worker: 'w' });
        await server.post(`/jobs/${id}/failure`, { message: 'no' });
        await server.delete(`/jobs/${id}`);
        const events = await server.history(`&queue=${queue}`);
        assert.equal(events.length, 4);
        const valid = schemaAt(EVENT);
        for (const event of events)
            assert.ok(valid(event), JSON.stringify([event, valid.errors]));
    });

    it('names_every_event', () => {
        const table = fs.readFileSync(path.join(__dirname, '../../src/core/lifecycle.def'), 'utf8');
        const kinds = [...table.matchAll(/^EVENT\(\w+, *"\w+", *"(\w+)"/gm)].map((m) => m[1]);
        assert.deepEqual([...document.components.schemas.Event.properties.event.enum].sort(),
            [...new Set(kinds)].sort());
    });

    it('is_held_against_answers', () => {
        const answer = (status, json) => ({
            status, json, bytes: Buffer.from('x'), headers: { 'content-type': 'application/json' },
        });
        check('GET', '/jobs/count?queue=a', answer(200, { count: 3 }));
        check('GET', '/no/such/path', answer(404, { error: 'e', code: 'no_such_path' }));
        for (const [method, target, status, json] of [
            ['GET', '/jobs/count', 200, { count: 'three' }],
            ['GET', '/jobs/count', 200, { count: 3, more: true }],
            ['GET', '/jobs/count', 202, { count: 3 }],
            ['GET', '/jobs/count', 404, { error: 'without a code' }],
            ['GET', '/jobs/count', 404, { error: 'with a code of its own', code: 'c' }],
            ['GET', '/no/such/path', 200, {}],
        ])
            assert.throws(() => check(method, target, answer(status, json)), /docs\/openapi\.json/);
    });
});

describe('a server that is asked for its description at the admin listener', () => {
    it('gives_it', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        assert.deepEqual((await server.admin('GET', '/openapi.json')).json, document);
    });
});
