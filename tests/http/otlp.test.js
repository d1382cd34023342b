// SPDX-License-Identifier: Apache-2.0
'use strict';

// Spans of jobs that are in a trace, as a collector gets them by OTLP/HTTP.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, makeDir, queueName, run, until } = require('./harness');

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SENDER = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SENDER}-01`;
const NOT_SAMPLED = `00-${TRACE}-${SENDER}-00`;
const KINDS = { enqueue: 4, wait: 1, run: 5 };
const ERROR = 2;

// Attributes as an object.
function plain(attributes = []) {
    return Object.fromEntries(attributes.map(({ key, value }) =>
        [key, 'intValue' in value ? Number(value.intValue) : value.stringValue]));
}

// Keeps what it is sent. answers: functions that answer one request each, before the rest is taken.
class Collector {
    constructor() {
        this.requests = [];
        this.spans = [];
        this.resources = [];
        this.answers = [];
        this.sockets = new Set();
    }

    async start(tls = null) {
        const answer = (req, res) => this.take(req, res);
        this.http = tls ? https.createServer(tls, answer) : http.createServer(answer);
        this.http.on('connection', (socket) => {
            this.sockets.add(socket);
            socket.on('close', () => this.sockets.delete(socket));
        });
        await new Promise((resolve) => this.http.listen(this.port ?? 0, '127.0.0.1', resolve));
        this.port = this.http.address().port;
        this.url = `http${tls ? 's' : ''}://127.0.0.1:${this.port}`;
        return this;
    }

    async take(req, res) {
        let body = '';
        for await (const bytes of req)
            body += bytes;
        this.requests.push({ url: req.url, method: req.method, headers: req.headers, body });
        const answer = this.answers.shift();
        if (answer)
            return answer(res);
        this.keep(JSON.parse(body));
        res.setHeader('content-type', 'application/json');
        return res.end(this.reply ?? '{}');
    }

    keep({ resourceSpans }) {
        for (const { resource, scopeSpans } of resourceSpans) {
            this.resources.push(plain(resource.attributes));
            for (const span of scopeSpans.flatMap((scope) => scope.spans))
                this.spans.push({ ...span, at: plain(span.attributes) });
        }
    }

    // The spans of a job, once there are so many.
    async of(id, count) {
        const mine = () => this.spans.filter((span) => span.at['messaging.message.id'] === id);
        await until(() => mine().length >= count, () => `${count} spans: ${JSON.stringify(mine())}`);
        return mine();
    }

    async stop() {
        for (const socket of this.sockets)
            socket.destroy();
        await new Promise((resolve) => this.http.close(resolve));
    }
}

// A server that exports to a collector, both for one test.
async function setUp(t, { args = [], env = {}, tls = null, endpoint = true } = {}) {
    const collector = await new Collector().start(tls);
    const server = new Server({ args: [...endpoint ? ['--otlp-endpoint', collector.url] : [],
        ...args], env: typeof env === 'function' ? env(collector) : env });
    await server.start();
    t.after(async () => {
        await server.clean();
        await collector.stop();
    });
    return { collector, server };
}

function enqueue(server, queue, fields = {}) {
    return server.enqueue({ queue, type: 'send', traceparent: PARENT,
        retention: { completed_ms: 60000 }, ...fields });
}

async function runOnce(server, queue, report = 'success', body = {}) {
    const job = await server.claimOne(queue, { worker: 'w1' });
    const res = await server.post(`/jobs/${job.id}/${report}`, { token: job.token, ...body });
    assert.equal(res.status, report === 'success' ? 204 : 200, res.text);
    return job;
}

async function spanMetrics(server) {
    const { text } = await server.get('/metrics');
    const of = (result) => Number(
        new RegExp(`^tenax_otlp_spans_total\\{result="${result}"\\} (\\d+)`, 'm').exec(text)[1]);
    return Object.fromEntries(['exported', 'rejected', 'dropped', 'failed']
        .map((result) => [result, of(result)]));
}

const named = (spans, name) => spans.filter((span) => span.name.startsWith(`${name} `));

describe('spans of a job', () => {
    it('form_a_tree_over_its_attempts', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        const { id } = await enqueue(server, queue);
        const first = await runOnce(server, queue, 'failure', { message: 'no route "x"\n',
            error_type: 'NetError', backtrace: 'at a\nat b', exit_code: 3,
            retry_at: Date.now() - 1 });
        const second = await runOnce(server, queue);
        const spans = await collector.of(id, 5);
        const [added] = named(spans, 'enqueue');
        const waits = named(spans, 'wait'), runs = named(spans, 'run');
        assert.deepEqual([spans.length, waits.length, runs.length], [5, 2, 2]);

        for (const span of spans) {
            assert.equal(span.traceId, TRACE);
            assert.match(span.spanId, /^[0-9a-f]{16}$/);
            assert.equal(span.kind, KINDS[span.name.split(' ')[0]]);
            assert.equal(span.name.split(' ')[1], queue);
            assert.deepEqual([span.at['messaging.system'], span.at['messaging.destination.name'],
                span.at['tenax.job.type']], ['tenax', queue, 'send']);
            assert.match(span.startTimeUnixNano, /^\d{13}000000$/);
            assert.ok(BigInt(span.startTimeUnixNano) <= BigInt(span.endTimeUnixNano));
        }
        assert.equal(new Set(spans.map((span) => span.spanId)).size, 5);
        assert.equal(added.parentSpanId, SENDER);
        for (const span of [...waits, ...runs])
            assert.equal(span.parentSpanId, added.spanId);
        assert.deepEqual(runs.map((span) => span.at['tenax.run']), [0, 1]);

        // Times are those that the server tells of the job and its runs.
        const told = await server.runs(id);
        const ms = (nanos) => Number(BigInt(nanos) / 1000000n);
        for (const [n, { taken_at, ended_at, ready_at }] of told.entries()) {
            assert.deepEqual([ms(runs[n].startTimeUnixNano), ms(runs[n].endTimeUnixNano)],
                [taken_at, ended_at]);
            assert.deepEqual([ms(waits[n].startTimeUnixNano), ms(waits[n].endTimeUnixNano)],
                [ready_at, taken_at]);
        }

        // What a run was handed is its own span.
        for (const [n, job] of [first, second].entries())
            assert.equal(job.traceparent, `00-${TRACE}-${runs[n].spanId}-01`);
        assert.equal((await server.job(id)).traceparent, PARENT);

        assert.deepEqual(runs[0].status, { code: ERROR, message: 'no route "x"\n' });
        assert.deepEqual([runs[0].at['error.type'], runs[0].at['process.exit.code'],
            runs[0].at['tenax.outcome'], runs[0].at['tenax.worker']], ['NetError', 3, 'failed', 'w1']);
        assert.equal(runs[0].events[0].name, 'exception');
        assert.deepEqual(plain(runs[0].events[0].attributes), { 'exception.type': 'NetError',
            'exception.message': 'no route "x"\n', 'exception.stacktrace': 'at a\nat b' });
        assert.ok(!('status' in runs[1]) && runs[1].at['tenax.outcome'] === 'completed');
        const [resource] = collector.resources;
        assert.equal(resource['service.name'], 'tenax');
        assert.match(resource['service.version'], /^\d+\.\d+/);
        const [request] = collector.requests;
        assert.deepEqual([request.method, request.url, request.headers['content-type']],
            ['POST', '/v1/traces', 'application/json']);
    });

    it('are_the_same_for_a_run_that_a_restart_came_between', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        const { id } = await enqueue(server, queue);
        const job = await server.claimOne(queue, { worker: 'w1' });
        await server.signal('SIGKILL');
        await server.start();
        await server.post(`/jobs/${id}/success`, { token: job.token });
        const spans = await collector.of(id, 1);
        const [ran] = named(spans, 'run');
        assert.equal(job.traceparent, `00-${TRACE}-${ran.spanId}-01`);
        const [told] = await server.runs(id);
        assert.equal(Number(BigInt(ran.startTimeUnixNano) / 1000000n), told.taken_at);
    });

    it('tell_of_runs_that_came_to_no_end', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        const lost = await enqueue(server, queue);
        const taker = await server.take(`?queue=${queue}`);
        assert.match((await taker.next()).traceparent, new RegExp(`^00-${TRACE}-`));
        taker.close();
        const again = await server.claimOne(queue, { lease_ms: 30000 });
        await server.delete(`/jobs/${again.id}`);
        const runs = named(await collector.of(lost.id, 5), 'run');
        assert.deepEqual(runs.map((span) => [span.at['tenax.outcome'], span.status?.code]),
            [['worker-lost', ERROR], ['canceled', undefined]]);
        const expired = await enqueue(server, queue);
        await server.claimConfirmed(queue, { lease_ms: 100 });
        const [run0] = named(await collector.of(expired.id, 3), 'run');
        assert.deepEqual([run0.at['error.type'], run0.status.code],
            [run0.at['tenax.outcome'], ERROR]);
    });

    it('are_none_if_it_is_in_no_trace_or_in_one_that_is_not_sampled', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        for (const traceparent of [undefined, NOT_SAMPLED]) {
            await enqueue(server, queue, { traceparent });
            assert.equal((await runOnce(server, queue)).traceparent, traceparent);
        }
        const last = await enqueue(server, queue);
        await runOnce(server, queue);
        await collector.of(last.id, 3);
        assert.equal(collector.spans.length, 3);
    });

    it('are_none_without_an_endpoint_and_runs_are_handed_the_senders', async (t) => {
        const { collector, server } = await setUp(t, { endpoint: false });
        const queue = queueName();
        await enqueue(server, queue);
        assert.equal((await runOnce(server, queue)).traceparent, PARENT);
        assert.deepEqual(await spanMetrics(server),
            { exported: 0, rejected: 0, dropped: 0, failed: 0 });
        assert.equal(collector.requests.length, 0);
    });
});

describe('the export of spans', () => {
    it('sends_what_is_left_at_an_orderly_stop', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        const { id } = await enqueue(server, queue);
        await server.stop();
        assert.equal((await collector.of(id, 1)).length, 1);
        await server.start();
    });

    it('repeats_what_may_be_repeated_and_nothing_else', async (t) => {
        const { collector, server } = await setUp(t);
        const queue = queueName();
        const later = (status, headers = {}) => (res) => {
            res.writeHead(status, headers);
            res.end();
        };
        const in1s = new Date(Date.now() + 1000).toUTCString();
        collector.answers = [later(503, { 'retry-after': '0' }), later(429, { 'retry-after': in1s,
            date: in1s }), later(502, { 'retry-after': '0' }), later(504, { 'retry-after': '0' })];
        const first = await enqueue(server, queue);
        assert.equal((await collector.of(first.id, 1)).length, 1);
        assert.equal(collector.requests.length, 5);
        assert.equal(new Set(collector.requests.map((request) => request.body)).size, 1);
        assert.match(server.stderr, /the collector does not take spans: it answers with status 503/);

        collector.answers = [later(400)];
        await enqueue(server, queue);
        await until(async () => (await spanMetrics(server)).failed === 1);
        const third = await enqueue(server, queue);
        await collector.of(third.id, 1);
        assert.equal(collector.requests.length, 7);
        assert.deepEqual(await spanMetrics(server),
            { exported: 2, rejected: 0, dropped: 0, failed: 1 });
    });

    it('counts_what_the_collector_rejects', async (t) => {
        const { collector, server } = await setUp(t);
        collector.reply = '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}';
        await server.post('/jobs/bulk', { jobs: [1, 2].map(() =>
            ({ queue: queueName(), type: 't', payload: null, traceparent: PARENT })) });
        await until(async () => (await spanMetrics(server)).rejected === 1);
        assert.equal((await spanMetrics(server)).exported, 1);
        assert.match(server.stderr, /the collector has rejected 1 of 2 spans/);
    });

    it('sends_the_headers_of_the_file_as_it_is_then_and_says_none', async (t) => {
        const dir = makeDir();
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const file = path.join(dir, 'headers');
        fs.writeFileSync(file, '# of the collector\nx-api-key: s3cret:1\n\nx-tenant: a\n');
        const { collector, server } = await setUp(t, { args: ['--otlp-headers-file', file],
            env: { OTEL_EXPORTER_OTLP_HEADERS: 'x-of-list=b%20c, x-empty=' } });
        const first = await enqueue(server, queueName());
        await collector.of(first.id, 1);
        const { headers } = collector.requests[0];
        assert.deepEqual(['x-api-key', 'x-tenant', 'x-of-list'].map((name) => headers[name]),
            ['s3cret:1', 'a', 'b c']);
        fs.writeFileSync(file, 'x-api-key: other\n');
        await collector.of((await enqueue(server, queueName())).id, 1);
        assert.equal(collector.requests.at(-1).headers['x-api-key'], 'other');
        assert.ok(!/s3cret/.test(server.stderr));
    });

    it('takes_the_standard_variable_for_the_endpoint', async (t) => {
        const { collector, server } = await setUp(t, { endpoint: false,
            env: ({ url }) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/` }) });
        await collector.of((await enqueue(server, queueName())).id, 1);
        assert.equal(collector.requests[0].url, '/v1/traces');
    });

    it('verifies_the_certificate_of_the_collector', async (t) => {
        const dir = makeDir();
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const made = await run(['tls', 'init', '--out-dir', path.join(dir, 'tls')]);
        assert.equal(made.code, 0, made.stderr);
        const read = (name) => fs.readFileSync(path.join(dir, 'tls', name));
        const tls = { cert: read('server-cert.pem'), key: read('server-key.pem') };
        const { collector, server } = await setUp(t,
            { tls, args: ['--otlp-ca', path.join(dir, 'tls', 'ca-cert.pem')] });
        await collector.of((await enqueue(server, queueName())).id, 1);
        const { server: other, collector: untrusted } = await setUp(t, { tls });
        await enqueue(other, queueName());
        await until(() => /the collector does not take spans: .*certificate/.test(other.stderr));
        assert.equal(untrusted.requests.length, 0);
    });

    it('refuses_settings_that_cannot_be', async () => {
        const cases = [
            [['--otlp-endpoint', 'collector:4318'], /--otlp-endpoint: write it like/],
            [['--otlp-endpoint', 'http://u:p@127.0.0.1:1'], /must not contain a user/],
            [['--otlp-endpoint', 'http://127.0.0.1:1', '--otlp-headers', 's3cret'],
                /--otlp-headers: header 1 is not of the form name=value/],
            [['--otlp-endpoint', 'http://127.0.0.1:1', '--otlp-headers', 'a=%2'], /header 1 has a '%'/],
            [['--otlp-endpoint', 'http://127.0.0.1:1', '--otlp-headers', 'Host=a'],
                /header Host cannot be set/],
            [['--otlp-endpoint', 'http://127.0.0.1:1', '--otlp-headers-file', '/nowhere'],
                /--otlp-headers-file: the file \/nowhere cannot be read/],
            [['--otlp-memory', '1'], /--otlp-memory must be 64KiB or more/],
        ];
        for (const [args, expected] of cases) {
            const dir = makeDir();
            const { code, stderr } = await run(['serve', '--port', '0', '--no-admin',
                '--root-dir', path.join(dir, 'root'), ...args]);
            fs.rmSync(dir, { recursive: true });
            assert.equal(code, 2, stderr);
            assert.match(stderr, expected);
            assert.ok(!/s3cret/.test(stderr));
        }
    });
});

describe('a collector that', () => {
    const JOBS = 4000; // some two megabytes of spans

    async function flood(server, queue) {
        for (let n = 0; n < JOBS; n += 500)
            await server.enqueueMany(Array.from({ length: 500 },
                () => ({ queue, traceparent: PARENT })));
    }

    // Whatever it does: memory is bounded, what has no room is counted, and the server serves.
    async function outlives(server, queue) {
        await flood(server, queue);
        const { dropped } = await spanMetrics(server);
        assert.ok(dropped > JOBS / 2, `${dropped} were dropped`);
        const { text } = await server.get('/metrics');
        const waiting = Number(/^tenax_otlp_waiting_bytes (\d+)/m.exec(text)[1]);
        assert.ok(waiting > 0 && waiting <= 3 * 256 * 1024, `${waiting} bytes wait`);
        assert.match(server.stderr, /spans are dropped/);
        await runOnce(server, queue);
        await server.assertServes();
    }

    const args = ['--otlp-memory', '256KiB'];

    it('never_answers_holds_nobody_up', async (t) => {
        const { collector, server } = await setUp(t, { args });
        collector.answers = Array.from({ length: 1000 }, () => () => {});
        await outlives(server, queueName());
        await server.stop(); // which it does not hold up either
        assert.match(server.stderr, /spans were not taken by the collector before the stop/);
        await server.start();
    });

    it('refuses_connections_holds_nobody_up', async (t) => {
        const { collector, server } = await setUp(t, { args });
        await collector.stop();
        await outlives(server, queueName());
        await until(() => /the collector does not take spans/.test(server.stderr));
        await collector.start();
        const { id } = await enqueue(server, queueName());
        await until(async () => (await spanMetrics(server)).exported > 0);
        assert.ok(id);
    });

    it('is_slow_holds_nobody_up', async (t) => {
        const { collector, server } = await setUp(t, { args });
        const slow = (res) => setTimeout(() => res.end('{}'), 6000);
        collector.answers = Array.from({ length: 1000 }, () => slow);
        await outlives(server, queueName());
        await until(async () => (await spanMetrics(server)).exported > 0);
    });
});
