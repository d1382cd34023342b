// SPDX-License-Identifier: Apache-2.0
'use strict';

// No request holds up the server's one loop, however large it is: every kind of command at the
// largest size that is accepted. The server itself says how long its rounds take. What is judged is
// processor time, since a machine under load makes any clock run on; the bound is generous for the
// same reason, and the true numbers are printed.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, describe, it } = require('node:test');
const { useServer, within } = require('./harness');

const AIM_MS = 50;
const BOUND_MS = 5 * AIM_MS;
const BODY_MAX = 16 * 1024 * 1024;
const JOBS_MAX = 20000, DEPENDS_MAX = 50000; // of one request
const LONG_MS = 120000;

async function longest(server) {
    const { text } = await server.get('/metrics');
    const of = (clock) =>
        1000 * Number(text.match(new RegExp(`^tenax_loop_longest_seconds\\{clock="${clock}"\\} (\\S+)$`,
            'm'))[1]);
    return { cpu: of('cpu'), wall: of('wall') };
}

const results = [];

// Runs the request on a server that has nothing else to do.
async function watch(server, kind, run) {
    await longest(server);
    const result = await within(run(), kind, LONG_MS);
    const { cpu, wall } = await longest(server);
    results.push([kind, cpu, wall]);
    assert.ok(cpu < BOUND_MS, `${kind}: a round of ${cpu.toFixed(1)} ms`);
    return result;
}

after(() => {
    for (const [kind, cpu, wall] of results)
        console.log(`# longest round ${cpu.toFixed(1)} ms (${wall.toFixed(1)} by the clock): ${kind}`);
});

// As many items as fit into one body.
function fill(head, item, tail, most = Infinity) {
    const parts = [];
    let size = head.length + tail.length;
    for (let i = 0; i < most; i++) {
        const text = item(i);
        if (size + text.length + 1 > BODY_MAX)
            break;
        size += text.length + 1;
        parts.push(text);
    }
    return { body: head + parts.join(',') + tail, count: parts.length };
}

// Answers of many megabytes: not held against the document, which other tests do with small ones.
function ask(server, method, path, body) {
    return new Promise((resolve, reject) => {
        const headers = body === undefined ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
        const req = http.request({ host: server.host, port: server.port, method, path, headers,
            agent: server.agent });
        req.on('error', reject);
        req.on('response', (res) => {
            const chunks = [];
            res.on('data', (bytes) => chunks.push(bytes));
            res.on('end', () => resolve({ status: res.statusCode, bytes: Buffer.concat(chunks) }));
        });
        req.end(body);
    });
}

async function expect(status, server, ...request) {
    const { status: got, bytes } = await ask(server, ...request);
    assert.equal(got, status, bytes.toString('utf8', 0, 300));
    return bytes;
}


const idsOf = (bytes) => bytes.toString().match(/"id":"[0-9a-z]{25}"/g).map((m) => m.slice(6, 31));

describe('the loop is held up by no enqueue', () => {
    const server = useServer();

    it('of_one_job_with_the_largest_payload', async () => {
        const strings = `"${'x'.repeat(BODY_MAX - 100)}"`;
        await watch(server, 'enqueue, one string', () =>
            expect(201, server, 'POST', '/jobs', `{"queue":"s","type":"t","payload":${strings}}`));
        const numbers = fill('{"queue":"n","type":"t","payload":[', () => '1', ']}').body;
        await watch(server, 'enqueue, a list of numbers', () =>
            expect(201, server, 'POST', '/jobs', numbers));
        const escaped = `"${'\\u0041'.repeat((BODY_MAX - 100) / 6 | 0)}"`;
        await watch(server, 'enqueue, a string of escapes', () =>
            expect(201, server, 'POST', '/jobs', `{"queue":"e","type":"t","payload":${escaped}}`));
    });

    it('of_as_many_jobs_as_a_request_may_have', async () => {
        const { body, count } = fill('{"jobs":[', () => '{"queue":"b","type":"t","payload":1}', ']}',
            JOBS_MAX);
        await watch(server, `enqueue ${count}`, () => expect(201, server, 'POST', '/jobs/bulk', body));
    });

    it('of_as_many_jobs_that_are_there_already', async () => {
        const { body, count } = fill('{"jobs":[', (i) => '{"queue":"u","type":"t","payload":1,' +
            `"unique_while":"exists","unique_key":"k${i}"}`, ']}', JOBS_MAX);
        for (const status of [201, 200])
            await watch(server, `enqueue ${count}, unique`, () =>
                expect(status, server, 'POST', '/jobs/bulk', body));
    });

    it('of_jobs_with_as_many_dependencies_as_there_may_be', async () => {
        const ids = idsOf(await expect(201, server, 'POST', '/jobs/bulk', fill('{"jobs":[',
            () => '{"queue":"d","type":"t","payload":1}', ']}', 5000).body));
        const { body, count } = fill('{"jobs":[', (i) => '{"queue":"d","type":"t","payload":1,' +
            `"depends_on":${JSON.stringify(Array.from({ length: 100 },
                (_, k) => ids[(i * 100 + k) % ids.length]))}}`, ']}', DEPENDS_MAX / 100);
        await watch(server, `enqueue ${count} with 100 dependencies each`, () =>
            expect(201, server, 'POST', '/jobs/bulk', body));
    });
});
