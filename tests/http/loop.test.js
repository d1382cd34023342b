// SPDX-License-Identifier: Apache-2.0
'use strict';

// No request holds up the server's one loop, however large it is: every kind of command at the
// largest size that is accepted. The server itself says how long its rounds take. What is judged is
// processor time, since a machine under load makes any clock run on; the bound is generous for the
// same reason, wider by as much as the machine is slower than the one that it was found on, and the
// true numbers are printed.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, describe, it } = require('node:test');
const { until, useServer, within } = require('./harness');
const { pack } = require('./msgpack');

const AIM_MS = 50;
const BOUND_MS = 5 * AIM_MS;
const BODY_MAX = 16 * 1024 * 1024;
const JOBS_MAX = 20000, BATCHED_MAX = 10000, DEPENDS_MAX = 50000; // of one request
const LONG_MS = 120000;

async function longest(server) {
    const { text } = await server.get('/metrics');
    const of = (clock) =>
        1000 * Number(text.match(new RegExp(`^tenax_loop_longest_seconds\\{clock="${clock}"\\} (\\S+)$`,
            'm'))[1]);
    return { cpu: of('cpu'), wall: of('wall') };
}

const SAMPLE = JSON.stringify(Array.from({ length: 20000 }, (_, i) => ({ i, s: `${i}` })));
const SAMPLE_MS = 14;

// How many times slower the machine is now; 1 where it is quicker.
function slowness() {
    const took = Array.from({ length: 3 }, () => {
        const from = process.cpuUsage();
        JSON.parse(SAMPLE);
        const { user, system } = process.cpuUsage(from);
        return (user + system) / 1000;
    });
    return Math.max(1, Math.min(...took) / SAMPLE_MS);
}

const results = [];

// Runs the request on a server that has nothing else to do.
async function watch(server, kind, run) {
    await longest(server);
    const before = slowness();
    const result = await within(run(), kind, LONG_MS);
    const slower = Math.max(before, slowness());
    const { cpu, wall } = await longest(server);
    results.push([kind, cpu, wall]);
    assert.ok(cpu < BOUND_MS * slower,
        `${kind}: a round of ${cpu.toFixed(1)} ms, the machine ${slower.toFixed(1)} times slower`);
    return result;
}

after(() => {
    for (const [kind, cpu, wall] of results)
        console.log(`# longest round ${cpu.toFixed(1)} ms (${wall.toFixed(1)} by the clock): ${kind}`);
});

// As many items as fit into one body.
function fill(head, item, tail, most = Infinity, room = BODY_MAX) {
    const parts = [];
    let size = head.length + tail.length;
    for (let i = 0; i < most; i++) {
        const text = item(i);
        if (size + text.length + 1 > room)
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

    it('with_as_many_unknown_fields_as_fit', async () => {
        for (const field of ['"":1', '"\\u0041":1', '"a":{}']) {
            const { body } = fill('{"queue":"s","type":"t","payload":1,', () => field, '}');
            await watch(server, `enqueue, with fields like ${field}`, () =>
                expect(400, server, 'POST', '/jobs', body));
        }
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

// Jobs that are there already, in requests of their own.
async function enqueue(server, count, fields) {
    const job = `{"type":"t","payload":1,${fields}}`;
    const ids = [];
    for (let left = count; left > 0; left -= 5000)
        ids.push(...idsOf(await expect(201, server, 'POST', '/jobs/bulk',
            `{"jobs":[${Array(Math.min(5000, left)).fill(job)}]}`)));
    return ids;
}

function claimAll(server, queue, count) {
    return expect(200, server, 'POST', '/jobs/claim',
        `{"queues":["${queue}"],"count":${count},"lease_ms":600000}`);
}

// The jobs, each with its token.
async function claimed(server, queue, count) {
    return JSON.parse(await claimAll(server, queue, count)).jobs;
}

describe('the loop is held up by no hand-out and no report', () => {
    const server = useServer();

    it('of_very_many_jobs', async () => {
        await enqueue(server, 100000, '"queue":"s"');
        const take = await server.take('?queue=s&prefetch=100000');
        await watch(server, 'a stream that gets 100000 jobs', () =>
            take.until(() => take.jobs.length === 100000, 'all of them come'));
        const ids = take.jobs.map((job) => job.id);
        const unknown = (n) => 'f'.padEnd(25, '0').slice(0, 25 - 6) + String(n).padStart(6, '0');
        const report = ids.slice(0, 50000).concat(Array.from({ length: 50000 }, (_, i) => unknown(i)));
        const answer = await watch(server, 'success of 50000 jobs, and 50000 that are unknown', () =>
            expect(422, server, 'POST', '/jobs/success', JSON.stringify({ ids: report })));
        assert.deepEqual(JSON.parse(answer).not_found, report.slice(50000));
        assert.equal((await server.get('/jobs/count?queue=s')).json.count, 50000);
        await watch(server, 'a stream that closes with 50000 jobs', async () => {
            take.close();
            await until(async () =>
                (await server.get('/jobs/count?queue=s&status=ready')).json.count === 50000);
        });
    });

    it('of_as_many_reports_as_a_request_may_have', async () => {
        const report = async (queue, status, more, most) => {
            await enqueue(server, most, `"queue":"${queue}","retention":{"completed_ms":60000}`);
            const jobs = [];
            while (jobs.length < most)
                jobs.push(...await claimed(server, queue, Math.min(1000, most - jobs.length)));
            const { body, count } = fill('{"reports":[', (i) => `{"id":"${jobs[i].id}","token":"${jobs[i].token}",${more}}`,
                ']}', jobs.length);
            await watch(server, `${count} reports like ${more.slice(0, 30)}`, () =>
                expect(status, server, 'POST', '/jobs/reports', body));
        };
        await report('r1', 200, `"outcome":"success","result":"${'x'.repeat(4096)}"`, 3900);
        await report('r2', 200, `"outcome":"success","result":"${'x'.repeat(1000)}"`, 10000);
        await report('r3', 200, `"outcome":"failure","message":"${'x'.repeat(1000)}"`, 10000);
    });

    it('of_large_ones', async () => {
        const payload = `"${'x'.repeat(15 * 1024 * 1024)}"`;
        for (let i = 0; i < 8; i++)
            await expect(201, server, 'POST', '/jobs', `{"queue":"l","type":"t","payload":${payload}}`);
        await watch(server, 'claims of 8 jobs of 15 MiB', async () => {
            for (let got = 0; got < 8;)
                got += idsOf(await claimAll(server, 'l', 24)).length;
        });
    });

    it('with_a_large_failure', async () => {
        const [id] = await enqueue(server, 1, '"queue":"f"');
        const [{ token }] = await claimed(server, 'f', 1);
        await watch(server, 'failure', () => expect(200, server, 'POST', `/jobs/${id}/failure`,
            `{"token":"${token}","message":"${'m'.repeat(BODY_MAX / 2 - 100)}",` +
            `"backtrace":"${'b'.repeat(BODY_MAX / 2 - 100)}"}`));
        await watch(server, 'its errors', () => expect(200, server, 'GET', `/jobs/${id}/errors`));
    });

    it('of_a_job_with_very_many_runs', async () => {
        const [id] = await enqueue(server, 1, '"queue":"r"');
        for (let i = 0; i < 5000; i++) {
            const [{ token }] = await claimed(server, 'r', 1);
            await expect(204, server, 'POST', `/jobs/${id}/release`, `{"token":"${token}"}`);
        }
        for (const query of ['runs?limit=2000', 'runs?limit=2000&order=desc', 'errors', 'runs?from=4000'])
            await watch(server, query, () => expect(200, server, 'GET', `/jobs/${id}/${query}`));
        await watch(server, 'delete 5000 runs', () => expect(204, server, 'DELETE', `/jobs/${id}`));
    });
});

describe('the loop is held up by no question about very many', () => {
    const server = useServer();

    it('jobs', async () => {
        await enqueue(server, 40000, '"queue":"j"');
        for (let i = 0; i < 40; i++)
            await claimAll(server, 'j', 1000);
        for (const query of ['status=in_flight&type=none', 'type=none', 'status=ready',
            'limit=2000', 'limit=2000&status=in_flight&order=desc', 'filter=.%3D%3D2'])
            await watch(server, `list of ${query}`, () => expect(200, server, 'GET', `/jobs?${query}`));
        await watch(server, 'patch 40000', () =>
            expect(200, server, 'PATCH', '/jobs?type=t', '{"retry_limit":3}'));
        await watch(server, 'delete 40000', () => expect(200, server, 'DELETE', '/jobs?type=t'));
        await watch(server, 'events', () => expect(200, server, 'GET', '/events?since=0&follow=false'));
    });

    it('large_jobs', async () => {
        const payload = `"${'x'.repeat(15 * 1024 * 1024)}"`;
        for (let i = 0; i < 6; i++)
            await expect(201, server, 'POST', '/jobs', `{"queue":"l","type":"t","payload":${payload}}`);
        for (const query of ['queue=l', 'queue=l&type=none', 'filter=length%3D%3D1'])
            await watch(server, `list of ${query}`, () => expect(200, server, 'GET', `/jobs?${query}`));
        await watch(server, 'patch large', () => expect(200, server, 'PATCH', '/jobs?queue=l', '{"priority":3}'));
    });

    it('queues', async () => {
        for (let k = 0; k < 5; k++)
            await expect(201, server, 'POST', '/jobs/bulk', fill('{"jobs":[',
                (i) => `{"queue":"queue-${k}-${i}","type":"t","payload":1}`, ']}', 20000).body);
        await watch(server, '100000 queues', () => expect(200, server, 'GET', '/queues'));
        await watch(server, 'metrics', () => expect(200, server, 'GET', '/metrics'));
        await watch(server, 'health', () => expect(200, server, 'GET', '/health'));
        await watch(server, 'claim of 1000 queues', () => expect(200, server, 'POST', '/jobs/claim',
            JSON.stringify({ count: 1000, queues: Array.from({ length: 1000 }, (_, i) => `queue-1-${i}`) })));
        await watch(server, 'claim of all', () => expect(200, server, 'POST', '/jobs/claim',
            JSON.stringify({ count: 1000 })));
    });
});

describe('the loop is held up by no other kind of request', () => {
    const server = useServer();
    const policy = (name, rules) => JSON.stringify({ apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
        metadata: { name }, spec: { rules } });

    it('about_crons', async () => {
        const job = `{"queue":"c","type":"t","payload":"${'x'.repeat(14 * 1024)}"}`;
        const { body } = fill('{"entries":[', (i) =>
            `{"name":"e${i}","expression":"0 0 1 1 *","job":${job}}`, ']}', 1000);
        for (const what of ['a new group', 'the same again'])
            await watch(server, `1000 cron entries, ${what}`, () =>
                expect(200, server, 'PUT', '/crons/g', body));
        for (const group of ['h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p'])
            await expect(200, server, 'PUT', `/crons/${group}`, body.replaceAll('x'.repeat(14 * 1024), ''));
        await watch(server, 'a group of 14 MB', () => expect(200, server, 'GET', '/crons/g'));
        await watch(server, 'pause 1000', () =>
            expect(200, server, 'PATCH', '/crons/g', '{"paused":true}'));
        await watch(server, 'another zone for 1000', () =>
            expect(200, server, 'PATCH', '/crons/g', '{"timezone":"Asia/Tokyo"}'));
        await watch(server, 'delete 10000 entries', () => expect(200, server, 'DELETE', '/crons'));
    });

    it('about_tasks', async () => {
        const head = (fields) => `{"taskQueueId":"p/w","created":"${new Date().toJSON()}",` +
            `"deadline":"${new Date(Date.now() + 3600e3).toJSON()}","metadata":{"name":"n",` +
            `"description":"d","owner":"o","source":"https://example.com"},${fields}`;
        const task = (id) => ['PUT', `/api/queue/v1/task/${id}`];
        const id = 'fN1SbArXTPSVFUUvaOlinQ';
        const room = 10 * 1024 * 1024;
        const { body } = fill(head('"payload":{"b":1,"a":['), (i) => `${i}`, ']}}', Infinity, room);
        await watch(server, 'a task of 10 MB', () => expect(200, server, ...task(id), body));
        await watch(server, 'the same again', () => expect(200, server, ...task(id), body));
        // So large ones are compared byte for byte: the order of members makes another task.
        const other = body.replace('"b":1,"a"', '"a"').replace(/\]\}\}$/, '],"b":1}}');
        await watch(server, 'another of that id', () => expect(409, server, ...task(id), other));
        const tags = fill(head('"payload":{},"tags":{'), (i) => `"${i}":"v"`, '}}', Infinity, room);
        await watch(server, 'a task of many tags', () =>
            expect(200, server, ...task('UXGXMWOOTC6IfF-9ZhwO2g'), tags.body));
        for (const [most, status] of [[100000, 200], [Infinity, 400]]) {
            const ids = fill('{"taskIds":[', () => `"${id}"`, ']}', most, room);
            await watch(server, `statuses of ${ids.count}`, () =>
                expect(status, server, 'POST', '/api/queue/v1/tasks/status', ids.body));
        }
        await watch(server, 'a task of 16 MB', () => expect(413, server, ...task(id),
            fill(head('"payload":{"a":['), (i) => `${i}`, ']}}').body));
        await watch(server, 'a claim of 10 MB', () => expect(200, server, 'POST',
            '/api/queue/v1/claim-work/p%2Fw', '{"workerGroup":"g","workerId":"w","tasks":32}'));
    });

    it('about_policies', async () => {
        const pattern = '(a+)+b'.padEnd(2000, 'c');
        const rules = Array.from({ length: 256 }, (_, i) => ({ action: 'Retry',
            onTerminationMessage: { pattern: `${pattern}${i}` } }));
        await watch(server, 'a policy of 256 patterns', () =>
            expect(201, server, 'POST', '/retry-policies', policy('p', rules)));
        const slow = (text) => Array.from({ length: 256 }, (_, i) => ({ action: 'Retry',
            onTerminationMessage: { pattern: `${text}${i}` } }));
        for (const text of ['(?i)' + '[a-\\x{10ffff}]'.repeat(100), '(?:(?:a{1,50}b){1,50}c){1,20}'])
            await watch(server, 'a policy of 256 slow patterns', () =>
                expect(400, server, 'PUT', '/retry-policies/slow', policy('slow', slow(text))));
        for (const text of ['(?i)[a-\\x{6fff}]', '(?:(?:a{1,5}b){1,50}c){1,6}', '\\w*\\d*'.repeat(250)])
            await watch(server, 'a policy of 256 patterns that are quick enough', () =>
                expect(200, server, 'PUT', '/retry-policies/p', policy('p', slow(text))));
        await watch(server, 'simulate 32 policies of 256 slow patterns', () =>
            expect(400, server, 'POST', '/retry-policies/simulate', JSON.stringify({
                policies: Array.from({ length: 32 }, (_, i) =>
                    JSON.parse(policy(`p${i}`, slow('(?:(?:a{1,50}b){1,9}c){1,20}')))) })));
        await expect(200, server, 'PUT', '/settings/retry', '{"enabled":true}');
        for (const text of ['(a+)+b', '([ab]*)*c', '(?=.*b)(?=.*c)(a*)*d', '(?:a?){30}b']) {
            await expect(200, server, 'PUT', '/retry-policies/p', policy('p', Array.from({ length: 20 },
                (_, i) => ({ action: 'Retry', onTerminationMessage: { pattern: `${text}(?!${i}z)` } }))));
            const [id] = await enqueue(server, 1, '"queue":"pat","retry_policies":["p"],"retry_limit":0');
            const [{ token }] = await claimed(server, 'pat', 1);
            await watch(server, `a failure that ${text} cannot decide`, () =>
                expect(200, server, 'POST', `/jobs/${id}/failure`, JSON.stringify({ token, message: 'm',
                    termination_message: 'a'.repeat(60000) + '0123456789 b c d' })));
        }
        await expect(200, server, 'PUT', '/settings/retry', '{"enabled":false}');
        for (let i = 0, status = 201; status === 201 && i < 100; i++)
            status = (await ask(server, 'POST', '/retry-policies',
                policy(`large${i}`, slow('x'.repeat(1900))))).status;
        await watch(server, '4 MB of policies', () => expect(200, server, 'GET', '/retry-policies'));
        for (let i = 0, status = 204; status === 204; i++)
            status = (await ask(server, 'DELETE', `/retry-policies/large${i}`)).status;
        for (let i = 0; i < 999; i++)
            await expect(201, server, 'POST', '/retry-policies', policy(`q${i}`, [{ action: 'Retry',
                onExitCodes: { operator: 'In', values: [i % 255 + 1] } }]));
        await watch(server, 'all 1000 policies', () => expect(200, server, 'GET', '/retry-policies'));
        await enqueue(server, 200, '"queue":"pol","retry_limit":3');
        for (const { id, token } of await claimed(server, 'pol', 200))
            await expect(200, server, 'POST', `/jobs/${id}/failure`, JSON.stringify({
                token, message: 'm', termination_message: 'a'.repeat(60000), kill: true }));
        await watch(server, 'simulate 256 patterns over 200 failures', () =>
            expect(200, server, 'POST', '/retry-policies/simulate', JSON.stringify({
                policies: [JSON.parse(policy('p', rules))], queues: ['pol'] })));
    });

    it('of_batched_jobs', async () => {
        const { body, count } = fill('{"jobs":[', (i) => '{"queue":"f","type":"t","payload":[1],' +
            `"batch":{"key":"k${i % 50}","when":"true","fold":"$existing + $new"}}`, ']}', 2000);
        await watch(server, `enqueue ${count} batched`, () =>
            expect(201, server, 'POST', '/jobs/bulk', body));
        for (const status of [201, 200]) {
            const { body, count } = fill('{"jobs":[', (i) => '{"queue":"g","type":"t","payload":[1],' +
                `"batch":{"key":"g${i}","when":"true","fold":"$existing + $new"}}`, ']}', BATCHED_MAX);
            await watch(server, `enqueue ${count} batched with keys of their own`, () =>
                expect(status, server, 'POST', '/jobs/bulk', body));
        }
        const unique = (i) => '{"queue":"u","type":"t","payload":1,"unique_while":"exists",' +
            `"unique_key":"u${i}"}`;
        const mixed = fill('{"jobs":[{"queue":"f","type":"t","payload":[1],"batch":{"key":"z",' +
            '"when":"true","fold":"$existing + $new"}},', unique, ']}', BATCHED_MAX - 1);
        for (const what of ['new', 'there'])
            await watch(server, `enqueue ${mixed.count} unique, ${what}, and a batched one`, async () => {
                const { status } = await ask(server, 'POST', '/jobs/bulk', mixed.body);
                assert.ok(status < 300, String(status));
            });
        await expect(400, server, 'POST', '/jobs/bulk', mixed.body.replace('{"jobs":[',
            `{"jobs":[${unique('more')},`));
        const large = JSON.stringify('x'.repeat(4 * 1024 * 1024));
        for (let i = 0; i < 3; i++)
            await watch(server, 'enqueue a large batched one', async () => {
                await ask(server, 'POST', '/jobs', `{"queue":"f","type":"t","payload":[${large}],` +
                    '"batch":{"key":"l","when":"true","fold":"$existing + $new"}}');
            });
    });

    it('in_MessagePack', async () => {
        const jobs = Array.from({ length: JOBS_MAX }, () => ({ queue: 'm', type: 't', payload: 1 }));
        const body = pack({ jobs });
        const headers = { 'content-type': 'application/msgpack', accept: 'application/msgpack' };
        await watch(server, `enqueue ${JOBS_MAX} in MessagePack`, async () => {
            const res = await server.request('POST', '/jobs/bulk', body, headers);
            assert.equal(res.status, 201);
        });
    });

    it('about_everything_that_is_there', async () => {
        const [id] = await enqueue(server, 100000, '"queue":"all"');
        await watch(server, 'explain', () => expect(200, server, 'GET', `/jobs/${id}/explain`));
        await watch(server, 'a dry run of a deletion', () =>
            expect(200, server, 'DELETE', '/jobs?queue=all&dry_run=true'));
        await claimAll(server, 'all', 1000);
        await watch(server, 'retry of none among many', () =>
            expect(200, server, 'POST', '/jobs/retry?queue=all'));
        const { json: { jobs: [held] } } = await server.post('/jobs/claim', { queues: ['all'],
            count: 1, lease_ms: 60000 });
        await watch(server, 'renew', () => expect(200, server, 'POST', `/jobs/${held.id}/renew`,
            JSON.stringify({ token: held.token, lease_ms: 60000,
                checkpoint: 'x'.repeat(60000) })));
        await watch(server, 'backup', async () => {
            const res = await server.admin('POST', '/backup');
            assert.equal(res.status, 200);
        });
        await watch(server, 'compaction', async () => {
            const { status } = await server.admin('POST', '/compact');
            assert.ok(status >= 200 && status < 300, String(status));
        });
        const take = await server.take('?queue=all&prefetch=20000');
        await take.until(() => take.jobs.length === 20000, 'all of them come');
        await watch(server, 'setting back the clock of 100000', () =>
            expect(200, server, 'POST', '/clock/reset'));
        await take.ended();
        await watch(server, 'reset of 100000', () => expect(204, server, 'POST', '/reset'));
    });
});
