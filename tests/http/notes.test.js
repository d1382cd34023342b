// SPDX-License-Identifier: Apache-2.0
'use strict';

// What workers leave with their jobs: progress, checkpoints, results.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, useServer } = require('./harness');
const { pack, plain, unpack } = require('./msgpack');

const HOUR = 3600000;
const NO_WAIT = { base_ms: 0, exponent: 0, jitter_ms: 0 };
const LIMIT = 65536;

async function claimed(server, fields = {}) {
    const queue = queueName();
    await server.enqueue({ queue, backoff: NO_WAIT, ...fields });
    return server.claimOne(queue);
}

function notesOf(job) {
    const { progress, checkpoint, checkpoint_run: run, result } = job;
    return { progress, checkpoint, run, result };
}

const NONE = { progress: undefined, checkpoint: undefined, run: undefined, result: undefined };

describe('progress and checkpoint', () => {
    const server = useServer();

    it('come_with_a_renewal_and_are_shown_with_the_job', async () => {
        const job = await claimed(server);
        assert.deepEqual(notesOf(job), NONE);
        assert.deepEqual(notesOf(await server.job(job.id)), NONE);
        const from = Date.now();
        const res = await server.post(`/jobs/${job.id}/renew`, {
            token: job.token, lease_ms: 60000, progress: { value: 0.4, note: 'page 4' },
            checkpoint: { page: 4 },
        });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(Object.keys(res.json), ['lease_expires_at']);
        const { progress, ...rest } = notesOf(await server.job(job.id));
        assert.deepEqual(rest, { checkpoint: { page: 4 }, run: 0, result: undefined });
        assert.ok(progress.at >= from && progress.at <= Date.now());
        assert.deepEqual(progress, { value: 0.4, note: 'page 4', run: 0, at: progress.at });
        const page = await server.get(`/jobs?queue=${job.queue}`);
        assert.deepEqual(notesOf(page.json.jobs[0]), { ...NONE, progress },
            'a list has how far a run is, and leaves out the rest');
    });

    it('may_be_reported_without_a_renewal_for_a_stream_too', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const taker = await server.take(`?queue=${queue}`);
        const { token } = await taker.next();
        const told = await server.post(`/jobs/${id}/progress`,
            { token, progress: { value: 1 }, checkpoint: 'here' });
        assert.equal(told.status, 204, told.text);
        assert.equal((await server.job(id)).status, 'in_flight');
        assertError(await server.post(`/jobs/${id}/renew`, { token, checkpoint: 'there' }), 422,
            'unprocessable');
        assert.equal((await server.job(id)).checkpoint, 'here', 'nothing of it was applied');
        taker.close();
        const again = await server.take(`?queue=${queue}`);
        const next = await again.next();
        assert.deepEqual([next.id, next.checkpoint, next.checkpoint_run, next.run],
            [id, 'here', 0, 1]);
        again.close();
    });

    it('go_with_a_failure_and_with_a_release_to_the_next_run', async () => {
        const job = await claimed(server);
        const res = await server.post(`/jobs/${job.id}/failure`, {
            token: job.token, message: 'no', checkpoint: [1], progress: { value: 0.1 },
        });
        assert.equal(res.status, 200, res.text);
        const second = await server.claimOne(job.queue);
        assert.deepEqual([second.checkpoint, second.checkpoint_run], [[1], 0]);
        assert.equal((await server.post(`/jobs/${job.id}/release`,
            { token: second.token, checkpoint: [2] })).status, 204);
        const third = await server.claimOne(job.queue);
        assert.deepEqual([third.checkpoint, third.checkpoint_run], [[2], 1]);
        assert.equal((await server.job(job.id)).progress.run, 0);
    });

    it('are_events_only_where_the_worker_says_so', async () => {
        const job = await claimed(server);
        const report = (progress) => server.post(`/jobs/${job.id}/progress`,
            { token: job.token, progress });
        for (const progress of [{ value: 0.1, note: 'silent' }, { value: 0.2, event: false },
            { value: 0.3, note: 'waiting: for a node', event: true },
            { value: 0.4, note: 'running', event: true }, { value: 0.5, event: true }])
            assert.equal((await report(progress)).status, 204);
        assertError(await report({ value: 0.6, event: 'yes' }), 400, 'wrong_type');
        const events = await server.history(`&job=${job.id}&event=job_progress`);
        assert.deepEqual(events.map((e) => e.reason), ['waiting: for a node', 'running', undefined]);
        for (const e of events)
            assert.deepEqual([e.cause, e.from, e.to, e.run, e.attempt],
                ['progress', 'in_flight', 'in_flight', 0, 1]);
        await server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'no',
            progress: { value: 0.7, note: 'last words', event: true } });
        assert.deepEqual((await server.history(`&job=${job.id}`)).slice(-2).map((e) => e.event),
            ['job_progress', 'job_requeued']);
    });

    it('are_explained_of_the_run_that_is_under_way', async () => {
        const job = await claimed(server);
        const explain = async () => (await server.get(`/jobs/${job.id}/explain`)).json;
        assert.equal((await explain()).progress, undefined);
        await server.post(`/jobs/${job.id}/progress`,
            { token: job.token, progress: { value: 0.25 } });
        assert.match((await explain()).summary, /; it is done to 25 %$/);
        await server.post(`/jobs/${job.id}/progress`,
            { token: job.token, progress: { value: 0.5, note: 'half of it' } });
        const { progress, summary } = await explain();
        assert.deepEqual(progress, (await server.job(job.id)).progress);
        assert.match(summary, /; it says: half of it$/);
        await server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'no' });
        assert.equal((await explain()).progress, undefined);
        await server.claimOne(job.queue);
        assert.equal((await explain()).progress, undefined, 'that was another run');
    });

    it('of_a_run_that_is_over_are_refused_and_change_nothing', async () => {
        const job = await claimed(server);
        await server.post(`/jobs/${job.id}/failure`,
            { token: job.token, message: 'no', checkpoint: 1 });
        const next = await server.claimOne(job.queue);
        const stale = { token: job.token, progress: { value: 1 }, checkpoint: 2 };
        for (const verb of ['progress', 'renew', 'release'])
            assertError(await server.post(`/jobs/${job.id}/${verb}`, stale), 409, 'stale_token');
        // The same report again is answered as the first time, and changes as little.
        assert.equal((await server.post(`/jobs/${job.id}/failure`, { ...stale, message: 'no' }))
            .status, 200);
        assertError(await server.post(`/jobs/${job.id}/success`,
            { token: job.token, result: 2 }), 409, 'stale_token');
        assert.deepEqual(notesOf(await server.job(job.id)),
            { ...NONE, checkpoint: 1, run: 0 });
        assert.equal((await server.post(`/jobs/${job.id}/success`, { token: next.token })).status,
            204);
        assertError(await server.post(`/jobs/${job.id}/progress`, { checkpoint: 2 }), 404,
            'not_found');
    });

    it('come_back_byte_for_byte', async () => {
        const job = await claimed(server);
        const checkpoint = '{ "big": 12345678901234567890123, "text": "\\u00e9\\/" }';
        const res = await server.post(`/jobs/${job.id}/progress`, `{"token": "${job.token}", "checkpoint": ${checkpoint} }`);
        assert.equal(res.status, 204, res.text);
        const { text } = await server.get(`/jobs/${job.id}`);
        assert.ok(text.includes(`"checkpoint":${checkpoint},`), text);
    });

    it('are_taken_away_by_null', async () => {
        const job = await claimed(server);
        await server.post(`/jobs/${job.id}/progress`, { checkpoint: 1 });
        await server.post(`/jobs/${job.id}/progress`, { checkpoint: null, progress: null });
        assert.deepEqual(notesOf(await server.job(job.id)), NONE);
    });

    it('may_have_64_KiB', async () => {
        const job = await claimed(server, { retention: { completed_ms: HOUR } });
        const most = 'x'.repeat(LIMIT - 2);
        for (const [verb, name] of [['progress', 'checkpoint'], ['renew', 'checkpoint'],
            ['release', 'checkpoint'], ['success', 'result']])
            assertError(await server.post(`/jobs/${job.id}/${verb}`, { [name]: `${most}x` }), 413,
                'too_large', new RegExp(`^${name}: at most 65536 bytes of JSON, not 65537`));
        assert.deepEqual(notesOf(await server.job(job.id)), NONE);
        assert.equal((await server.post(`/jobs/${job.id}/progress`, { checkpoint: most })).status,
            204);
        assert.equal((await server.job(job.id)).checkpoint, most);
        assert.equal((await server.post(`/jobs/${job.id}/success`, { result: most })).status, 204);
        assert.equal((await server.job(job.id)).result, most);
    });

    const bad = [
        [{ progress: 0.5 }, 'wrong_type', /^progress: expected an object/],
        [{ progress: {} }, 'missing_field', /^progress: value is required/],
        [{ progress: { value: 1.01 } }, 'bad_value', /^progress: value: /],
        [{ progress: { value: -0.1 } }, 'bad_value', /^progress: value: /],
        [{ progress: { value: '1' } }, 'wrong_type', /^progress: value: /],
        [{ progress: { value: 1, note: 'x'.repeat(1025) } }, 'bad_value', /^progress: note: at most 1024/],
        [{ progress: { value: 1, note: 7 } }, 'wrong_type', /^progress: note: /],
        [{}, 'missing_field', /progress or checkpoint is required/],
    ];
    for (const [body, code, sentence] of bad)
        it(`are_refused_as_${JSON.stringify(body).slice(0, 50)}`, async () => {
            const job = await claimed(server);
            assertError(await server.post(`/jobs/${job.id}/progress`, { ...body, token: job.token }),
                400, code, sentence);
            assert.deepEqual(notesOf(await server.job(job.id)), NONE);
        });

    it('survive_a_crash_of_the_server', async () => {
        const job = await claimed(server);
        const told = await server.post(`/jobs/${job.id}/renew`,
            { token: job.token, progress: { value: 0.5 }, checkpoint: { at: 'half' } });
        assert.equal(told.status, 200, told.text);
        const before = notesOf(await server.job(job.id));
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual(notesOf(await server.job(job.id)), before);
        await server.post(`/jobs/${job.id}/release`, { token: job.token });
        assert.deepEqual((await server.claimOne(job.queue)).checkpoint, { at: 'half' });
    });

    it('are_the_same_in_MessagePack', async () => {
        const job = await claimed(server);
        const type = 'application/msgpack';
        const headers = { accept: type, 'content-type': type };
        const told = await server.post(`/jobs/${job.id}/progress`,
            pack({ token: job.token, progress: { value: 1, note: 'all' }, checkpoint: { a: [1, 2] } }), headers);
        assert.equal(told.status, 204, told.text);
        assert.deepEqual((await server.job(job.id)).checkpoint, { a: [1, 2] });
        await server.post(`/jobs/${job.id}/release`);
        const res = await server.post('/jobs/claim', pack({ queues: [job.queue] }), headers);
        const [handed] = plain(unpack(res.bytes)).jobs;
        assert.deepEqual(handed.checkpoint, { a: [1, 2] });
    });
});

describe('a result', () => {
    const server = useServer();

    it('is_kept_as_long_as_the_job', async () => {
        const job = await claimed(server, { retention: { completed_ms: HOUR } });
        await server.post(`/jobs/${job.id}/progress`, { checkpoint: 1, progress: { value: 0.9 } });
        const res = await server.post(`/jobs/${job.id}/success`,
            { token: job.token, result: { sum: 3 } });
        assert.equal(res.status, 204, res.text);
        const done = await server.job(job.id);
        assert.equal(done.status, 'completed');
        assert.deepEqual(done.result, { sum: 3 });
        assert.equal(done.checkpoint, undefined, 'there is no next run');
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.job(job.id)).result, { sum: 3 });
        assert.equal((await server.delete(`/jobs/${job.id}`)).status, 204);
        assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
    });

    it('of_a_job_without_retention_goes_with_it', async () => {
        const job = await claimed(server, { retention: { completed_ms: 0 } });
        assert.equal((await server.post(`/jobs/${job.id}/success`, { result: 1 })).status, 204);
        assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
    });
});
