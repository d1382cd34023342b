// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of Taskcluster's API share: the project's own client, taskcluster-client, in the
// place of workers and schedulers. Every answer is held against the schema that the server serves.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after } = require('node:test');
const Ajv = require('ajv');
const formats = require('ajv-formats');
const { makeDir, useServer } = require('./harness');

const client = import('taskcluster-client').then((module) => module.default ?? module);

const SCHEMAS = path.join(__dirname, '../../src/taskcluster/schemas');
const ajv = new Ajv({ strict: false, validateSchema: false });
formats(ajv);
for (const [folder, of] of [['v1', 'queue/v1'], ['auth/v1', 'auth/v1'],
    ['worker-manager/v1', 'worker-manager/v1']])
    for (const name of fs.readdirSync(path.join(SCHEMAS, folder))) {
        const schema = JSON.parse(fs.readFileSync(path.join(SCHEMAS, folder, name), 'utf8'));
        delete schema.$schema;
        schema.$id = `http://schemas/${of}/${name}`;
        ajv.addSchema(schema);
    }

// Throws unless the value is as the schema "task-status-response" says.
function assertSchema(name, value, of = 'queue/v1') {
    const validate = ajv.getSchema(`http://schemas/${of}/${name}.json`);
    assert.ok(validate, `there is a schema ${name}`);
    assert.ok(validate(value), `${name}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`);
}

const HOUR = 3600e3;

let count = 0;

// The id of a task queue that no other test of this file uses.
function taskQueueId() {
    return `prov/wt-${++count}`;
}

// A definition with what every task needs.
function definition(fields = {}) {
    const now = Date.now();
    return {
        taskQueueId: taskQueueId(),
        schedulerId: 'tests',
        created: new Date(now).toJSON(),
        deadline: new Date(now + HOUR).toJSON(),
        payload: { command: ['true'] },
        metadata: { name: 'a task', description: 'of a test', owner: 'nobody@example.com',
            source: 'https://example.com/source' },
        ...fields,
    };
}

// A server with Taskcluster's API: server.queue(credentials) is a client of it. Options are
// those of useServer, and clients: a list as --taskcluster-clients reads it, which the test may
// write anew with server.writeClients.
function useTaskcluster({ clients, args = [], ...options } = {}) {
    const dir = makeDir();
    const file = path.join(dir, 'clients.json');
    const server = useServer({ ...options,
        args: clients ? [...args, '--taskcluster-clients', file] : args });
    server.writeClients = (list) => fs.writeFileSync(file, JSON.stringify(list));
    if (clients)
        server.writeClients(clients);
    after(() => fs.rmSync(dir, { recursive: true, force: true }));
    server.queue = async (credentials) => {
        const { Queue } = await client;
        return new Queue({ rootUrl: server.url(), retries: 0, credentials });
    };
    // What is not of the Jobs API, nor in docs/openapi.json: {status, headers, text, json}.
    server.fetch = async (target, options) => {
        const res = await fetch(`${server.url()}${target}`,
            { redirect: 'manual', ...options });
        const bytes = Buffer.from(await res.arrayBuffer());
        const type = res.headers.get('content-type') ?? '';
        return { status: res.status, headers: res.headers, bytes, text: bytes.toString(),
            json: type.startsWith('application/json') ? JSON.parse(bytes) : undefined };
    };
    return server;
}

async function slugid() {
    return (await client).slugid();
}

// The call must be refused with this status and code, in words that match.
async function assertRefused(call, status, code, words = /./) {
    let error;
    try {
        await call;
    } catch (err) {
        error = err;
    }
    assert.ok(error, `refused with ${status} ${code}`);
    assert.equal(error.statusCode, status, error.message);
    assert.equal(error.body.code, code);
    assert.match(error.body.message, words);
    assert.ok(error.body.requestInfo.method && error.body.requestInfo.time);
    return error.body;
}

module.exports = { HOUR, assertRefused, assertSchema, client, definition, slugid, taskQueueId,
    useTaskcluster };
