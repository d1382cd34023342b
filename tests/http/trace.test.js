// SPDX-License-Identifier: Apache-2.0
'use strict';

// The trace that a job belongs to: kept with it, and handed to every run.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, begin, queueName, until, useServer } = require('./harness');

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const OTHER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';
const STATE = 'rojo=00f067aa0ba902b7';

function specOf(fields = {}) {
    return { queue: queueName(), type: 't', payload: null, ...fields };
}

describe('a trace', () => {
    const server = useServer();

    it('of_the_body_is_kept_and_handed_to_each_run', async () => {
        const job = await server.enqueue(specOf({ traceparent: PARENT, tracestate: STATE }));
        assert.deepEqual([job.traceparent, job.tracestate], [PARENT, STATE]);
        const first = await server.claimOne(job.queue);
        assert.deepEqual([first.traceparent, first.tracestate], [PARENT, STATE]);
        await server.post(`/jobs/${job.id}/failure`,
            { token: first.token, message: 'm', retry_at: Date.now() - 1 });
        assert.equal((await server.claimOne(job.queue)).traceparent, PARENT);
        assert.equal((await server.job(job.id)).traceparent, PARENT);
    });

    it('of_the_header_is_that_of_jobs_that_have_none', async () => {
        const headers = { traceparent: PARENT, tracestate: STATE };
        const { json } = await server.post('/jobs', specOf(), headers);
        assert.deepEqual([json.traceparent, json.tracestate], [PARENT, STATE]);
        const bulk = await server.post('/jobs/bulk',
            { jobs: [specOf(), specOf({ traceparent: OTHER })] }, headers);
        assert.deepEqual(bulk.json.jobs.map((job) => [job.traceparent, job.tracestate]),
            [[PARENT, STATE], [OTHER, undefined]]);
    });

    it('comes_to_streams', async () => {
        const job = await server.enqueue(specOf({ traceparent: PARENT }));
        const taker = await server.take(`?queue=${job.queue}`);
        assert.equal((await taker.next()).traceparent, PARENT);
        taker.close();
    });

    it('is_in_the_events_of_its_job', async () => {
        const job = await server.enqueue(specOf({ traceparent: PARENT }));
        const other = await server.enqueue(specOf({ queue: job.queue }));
        for (const run of [await server.claimOne(job.queue), await server.claimOne(job.queue)])
            await server.post(`/jobs/${run.id}/success`, { token: run.token });
        const events = await server.history(`&queue=${job.queue}`);
        const of = (id) => events.filter((event) => event.id === id)
            .map((event) => [event.event, event.traceparent]);
        assert.deepEqual(of(job.id), ['job_enqueued', 'job_taken', 'job_completed']
            .map((event) => [event, PARENT]));
        assert.deepEqual(of(other.id), ['job_enqueued', 'job_taken', 'job_completed']
            .map((event) => [event, undefined]));
    });

    it('that_is_malformed_is_passed_over_in_a_header_and_refused_in_a_body', async () => {
        for (const traceparent of ['x', PARENT.toUpperCase(), `${PARENT}, ${PARENT}`]) {
            const { status, json } = await server.post('/jobs', specOf(), { traceparent });
            assert.equal(status, 201);
            assert.ok(!('traceparent' in json));
            assertError(await server.post('/jobs', specOf({ traceparent })), 400, 'bad_value');
        }
        assertError(await server.post('/jobs', specOf({ tracestate: STATE })), 400, 'bad_value');
        assertError(await server.post('/jobs',
            specOf({ traceparent: PARENT, tracestate: 'x'.repeat(513) })), 400, 'bad_value');
        assert.ok(!('traceparent' in (await server.post('/jobs', specOf(),
            { tracestate: STATE })).json));
    });

    it('is_in_the_environment_of_a_command', async () => {
        const job = await server.enqueue(specOf({ traceparent: PARENT, tracestate: STATE,
            retention: { completed_ms: 60000 } }));
        const work = begin(['work', '--url', server.url(), '--queue', job.queue, '--',
            'sh', '-c', 'printf "%s %s" "$TRACEPARENT" "$TRACESTATE" > "$TENAX_RESULT"'],
        { TRACEPARENT: OTHER });
        await until(async () => (await server.job(job.id)).status === 'completed');
        assert.equal((await server.job(job.id)).result, `${PARENT} ${STATE}`);
        work.child.kill('SIGTERM');
        await work.ended;
    });
});

describe('a trace on the disk', () => {
    it('survives_a_kill', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        const { id } = await server.enqueue({ queue: 'q', traceparent: PARENT });
        await server.signal('SIGKILL');
        await server.start();
        const run = await server.claimOne('q');
        assert.equal(run.traceparent, PARENT);
        assert.equal((await server.job(id)).traceparent, PARENT);
        await server.signal('SIGKILL');
        await server.start();
        await server.post(`/jobs/${id}/success`, { token: run.token });
        const events = await server.history();
        assert.deepEqual(events.map((event) => [event.event, event.traceparent]),
            ['job_enqueued', 'job_taken', 'job_completed'].map((event) => [event, PARENT]));
    });
});
