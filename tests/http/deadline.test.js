// SPDX-License-Identifier: Apache-2.0
'use strict';

// Deadlines of jobs, and aliases by which they are found.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, until, useServer } = require('./harness');

const HOUR = 3600000;
const KEEP = { completed_ms: HOUR, dead_ms: HOUR };

function spec(fields) {
    return { queue: queueName(), type: 't', payload: 1, retention: KEEP, ...fields };
}

describe('a deadline', () => {
    const server = useServer();
    const overrun = async (id) => {
        const job = await server.job(id);
        return job.status === 'dead' && job;
    };

    it('ends_a_job_that_waits', async () => {
        const { id } = await server.enqueue(spec({ ready_at: Date.now() + HOUR,
            deadline: Date.now() + 50 }));
        const job = await until(() => overrun(id));
        assert.equal(job.resolution, 'deadline-exceeded');
        assert.match(job.reason, /deadline/);
    });

    it('ends_a_run_whose_report_is_then_refused', async () => {
        let id, token;
        for (let ahead = 300; !token; ahead *= 2) { // until it is claimed in time, on a slow machine
            const made = await server.enqueue(spec({ deadline: Date.now() + ahead }));
            const [job] = await server.claim({ queues: [made.queue] });
            ({ id, token } = job ?? {});
        }
        await until(() => overrun(id));
        assertError(await server.post(`/jobs/${id}/success`, { token }), 409, 'stale_token');
        const { json } = await server.get(`/jobs/${id}/runs`);
        assert.equal(json.runs[0].outcome, 'deadline-exceeded');
    });

    it('is_shown_and_passed_by_a_job_that_ends_in_time', async () => {
        const deadline = Date.now() + HOUR;
        const { id, queue } = await server.enqueue(spec({ deadline }));
        const { token } = await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
        const job = await server.job(id);
        assert.deepEqual([job.status, job.deadline], ['completed', deadline]);
    });

    it('leaves_no_retry_of_one_job_or_of_many', async () => {
        const { id, queue } = await server.enqueue(spec({ deadline: Date.now() + 20 }));
        await until(() => overrun(id));
        assertError(await server.post(`/jobs/${id}/retry`), 422, 'unprocessable', /deadline/);
        const { json } = await server.post(`/jobs/retry?queue=${queue}`);
        assert.equal(json.retried, 0);
    });

    it('is_a_time_and_not_for_batches_or_crons', async () => {
        assertError(await server.post('/jobs', spec({ deadline: 'soon' })), 400, 'wrong_type',
            /deadline/);
        assertError(await server.post('/jobs', spec({ deadline: 0 })), 400, 'bad_value', /deadline/);
        assertError(await server.post('/jobs', spec({ deadline: 5,
            batch: { key: 'k', when: 'true', fold: '$new' } })), 400, 'bad_value', /deadline/);
        assertError(await server.request('PUT', '/crons/g', { entries: [{ name: 'e', expression: '* * * * *',
            job: { queue: 'q', type: 't', payload: 1, deadline: Date.now() + HOUR } }] }),
        400, 'bad_value', /deadline/);
    });
});

describe('an alias', () => {
    const server = useServer();

    it('does_wherever_a_path_has_an_id', async () => {
        const name = `build/${queueName()} ü`;
        const { id, queue } = await server.enqueue(spec({ alias: name }));
        const at = `/jobs/alias:${encodeURIComponent(name)}`;
        assert.deepEqual((await server.get(at)).json.id, id);
        assert.equal((await server.get(at)).json.alias, name);
        assert.equal((await server.get(`${at}/explain`)).status, 200);
        const patched = await server.patch(at, { priority: 7 });
        assert.equal(patched.json.priority, 7);
        const { token } = await server.claimOne(queue);
        assert.equal((await server.post(`${at}/renew`, { token, lease_ms: 30000 })).status, 200);
        assert.equal((await server.post(`${at}/failure`, { token, message: 'm', kill: true })).status,
            200);
        assert.equal((await server.get(`${at}/runs`)).json.runs.length, 1);
        assert.equal((await server.post(`${at}/retry`)).json.status, 'ready');
        assert.equal((await server.post(`${at}/cancel`)).json.status, 'dead');
        assert.equal((await server.delete(at)).status, 204);
        assertError(await server.get(at), 404, 'not_found', /alias/);
    });

    it('is_held_by_one_job_and_the_second_enqueue_is_answered_with_it', async () => {
        const alias = queueName();
        const first = await server.post('/jobs', spec({ alias }));
        const second = await server.post('/jobs', spec({ alias, payload: 2 }));
        assert.deepEqual([first.status, first.json.duplicate], [201, false]);
        assert.deepEqual([second.status, second.json.duplicate], [200, true]);
        assert.equal(second.json.id, first.json.id);
    });

    it('outlives_a_restart', async () => {
        const alias = queueName();
        const { id } = await server.enqueue(spec({ alias }));
        await server.stop();
        await server.start();
        assert.equal((await server.get(`/jobs/alias:${alias}`)).json.id, id);
    });

    it('is_a_name', async () => {
        for (const alias of ['', 'a'.repeat(256), 'a*b', 'a\nb'])
            assertError(await server.post('/jobs', spec({ alias })), 400, 'bad_name', /alias/);
        assertError(await server.get('/jobs/alias:'), 404, 'not_found');
        assertError(await server.get('/jobs/alias:nobody'), 404, 'not_found', /nobody/);
    });
});
