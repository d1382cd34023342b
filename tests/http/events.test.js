// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /events: every change of a job's status, numbered, once, in order, also over crashes.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http2 = require('node:http2');
const { after, before, describe, it } = require('node:test');
const {
    Server, assertError, begin, ownAddress, queueName, rawGet, run, until, useServer, within,
} = require('./harness');
const { unpack } = require('./msgpack');

const BEAT = ['--heartbeat-interval', '100ms'];
const KEEP = { completed_ms: 3600000, dead_ms: 3600000 };

function kinds(events) {
    return events.map((e) => e.event);
}

// What events say of each job: id → status; a job that is gone is not there.
function replay(events, jobs = new Map()) {
    for (const e of events) {
        assert.equal(e.from, jobs.get(e.id) ?? null, `event ${e.number} goes on where it was`);
        if (e.to === null || e.removed)
            jobs.delete(e.id);
        else
            jobs.set(e.id, e.to);
    }
    return jobs;
}

function assertNumbered(events, first = 1) {
    events.forEach((e, i) => assert.equal(e.number, first + i));
}

// Every job as the server lists it: id → status.
async function listed(server) {
    const jobs = new Map();
    for (let target = '/jobs?limit=2000'; target;) {
        const res = await server.get(target);
        for (const job of res.json.jobs)
            jobs.set(job.id, job.status);
        target = res.json.pages?.next;
    }
    return jobs;
}

// A life with a failure in it: enqueued, taken, requeued, ready again, taken, completed.
async function live(server, queue) {
    const { id } = await server.enqueue({
        queue, backoff: { base_ms: 1, exponent: 0, jitter_ms: 0 }, retention: KEEP,
    });
    await server.claimOne(queue, { worker: 'w1', lease_ms: 600000 });
    const failed = await server.post(`/jobs/${id}/failure`, { message: 'no', retry_at: 1 });
    assert.equal(failed.status, 200, failed.text);
    await server.claimOne(queue, { worker: 'w2', lease_ms: 600000 });
    assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
    return id;
}

describe('events', () => {
    const server = useServer({ args: BEAT });

    // It must not be the heartbeat, or any other timer, that wakes it for the next page.
    it('come_page_after_page_though_nothing_else_happens', async () => {
        const idle = new Server({ args: ['--heartbeat-interval', '60s'] });
        await idle.start();
        try {
            const jobs = Array.from({ length: 2000 }, () => ({ queue: 'q' }));
            for (let i = 0; i < 30; i++)
                await idle.enqueueMany(jobs);
            const began = Date.now();
            assertNumbered(await idle.history());
            assert.ok(Date.now() - began < 50000, `${Date.now() - began} ms`);
        } finally {
            await idle.clean();
        }
    });

    it('tell_of_another_priority', async () => {
        const { id } = await server.enqueue({ queue: queueName(), priority: 7 });
        await server.patch(`/jobs/${id}`, { priority: 3 });
        await server.patch(`/jobs/${id}`, { priority: 3 });
        const [, changed, ...more] = await server.history(`&job=${id}`);
        assert.deepEqual(more, []);
        assert.equal(changed.event, 'job_priority_changed');
        assert.deepEqual([changed.from, changed.to], ['ready', 'ready']);
        assert.deepEqual([changed.old_priority, changed.priority], [7, 3]);
        const only = await server.history(`&job=${id}&event=job_priority_changed`);
        assert.equal(only.length, 1);
    });

    it('tell_of_every_change_with_run_worker_and_reason', async () => {
        const queue = queueName();
        const from = Date.now();
        const id = await live(server, queue);
        const events = await server.history(`&job=${id}`);
        assert.deepEqual(kinds(events), ['job_enqueued', 'job_taken', 'job_requeued', 'job_taken',
            'job_completed']);
        for (const e of events) {
            assert.equal(e.id, id);
            assert.equal(e.queue, queue);
            assert.equal(e.type, 'test');
            assert.ok(e.at >= from && e.at <= Date.now());
        }
        const [enqueued, taken, requeued, again, completed] = events;
        assert.equal(enqueued.from, null);
        assert.equal(enqueued.to, 'ready');
        assert.deepEqual([taken.run, taken.attempt, taken.worker], [0, 1, 'w1']);
        assert.equal(requeued.cause, 'retry_now');
        assert.equal(requeued.run, 0);
        assert.match(requeued.reason, /when the worker asked/);
        assert.equal(requeued.limit, undefined);
        assert.deepEqual([again.run, again.attempt, again.worker], [1, 2, 'w2']);
        assert.match(completed.reason, /completed at attempt 2/);
        assert.equal(completed.removed, undefined);
    });

    it('tell_of_a_retry_and_of_a_death_with_count_limit_delay_and_reason', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({
            queue, retry_limit: 1, backoff: { base_ms: 50, exponent: 0, jitter_ms: 0 },
        });
        for (let i = 0; i < 2; i++) {
            await server.claimOne(queue);
            await server.post(`/jobs/${id}/failure`, { message: 'no' });
        }
        const [requeued, dead] = await server.history(`&job=${id}&event=job_requeued,job_dead`);
        assert.equal(requeued.to, 'scheduled');
        assert.deepEqual([requeued.count, requeued.limit], [1, 1]);
        assert.equal(requeued.retry_at, requeued.at + requeued.delay_ms);
        assert.equal(requeued.delay_ms, 1050);
        assert.equal(dead.cause, 'exhaust');
        assert.deepEqual([dead.count, dead.limit, dead.attempt], [1, 1, 2]);
        assert.match(dead.reason, /the only retry is used up/);
    });

    it('come_as_they_happen', async () => {
        const queue = queueName();
        const stream = await server.events(`?queue=${queue}`);
        assert.equal(stream.headers['content-type'], 'application/x-ndjson');
        const { id } = await server.enqueue({ queue });
        assert.equal((await stream.next()).event, 'job_enqueued');
        await server.delete(`/jobs/${id}`);
        const gone = await stream.next();
        assert.deepEqual([gone.event, gone.from, gone.to], ['job_deleted', 'ready', null]);
        await stream.assertQuiet();
        stream.close();
    });

    it('go_on_after_any_number', async () => {
        const queue = queueName();
        for (let i = 0; i < 3; i++)
            await server.enqueue({ queue });
        const [first, ...rest] = await server.history(`&queue=${queue}`);
        const stream = await server.events(`?queue=${queue}&since=${first.number}`);
        for (const e of rest)
            assert.deepEqual(await stream.next(), e);
        const { id } = await server.enqueue({ queue });
        assert.equal((await stream.next()).id, id);
        stream.close();
    });

    it('are_filtered_by_queue_type_job_and_kind', async () => {
        const [one, two] = [queueName(), queueName()];
        const a = await server.enqueue({ queue: one, type: 'x' });
        const b = await server.enqueue({ queue: two, type: 'y', ready_at: Date.now() + 3600000 });
        const c = await server.enqueue({ queue: two, type: 'x' });
        await server.delete(`/jobs/${c.id}`);
        const both = `&queue=${one},${two}`;
        const ids = async (query) => (await server.history(query)).map((e) => e.id);
        assert.deepEqual(await ids(both), [a.id, b.id, c.id, c.id]);
        assert.deepEqual(await ids(`${both}&type=y`), [b.id]);
        assert.deepEqual(await ids(`&job=${a.id},${b.id}`), [a.id, b.id]);
        assert.deepEqual(await ids(`${both}&event=job_deleted`), [c.id]);
        assert.deepEqual(await ids(`${both}&event=job_deleted,job_enqueued&type=x`),
            [a.id, c.id, c.id]);
    });

    it('are_sent_as_server_sent_events_if_asked', async () => {
        const queue = queueName();
        const wire = await server.wire();
        const [{ number }] = (await server.history()).slice(-1);
        wire.send(rawGet(`/events?queue=${queue}`,
            `Accept: text/event-stream\r\nLast-Event-ID: ${number}\r\n`));
        const { id } = await server.enqueue({ queue });
        const head = await wire.head();
        assert.equal(head.headers['content-type'], 'text/event-stream');
        const text = await wire.before('}\n\n');
        const [, history, eventId, kind, data] = /id: ([0-9a-f]{16})-(\d+)\nevent: (\w+)\ndata: (.*)$/.exec(text);
        assert.equal(kind, 'job_enqueued');
        const event = JSON.parse(`${data}}`);
        assert.deepEqual([event.id, event.number], [id, Number(eventId)]);
        assert.equal(event.cursor, `${history}-${eventId}`);
        await wire.before(':\n\n'); // heartbeats are comments
        // Passed over by the filter, but a client that comes again need not see it again.
        await server.enqueue({ queue: queueName() });
        await wire.before(`id: ${history}-${Number(eventId) + 1}\n\n`);
        wire.close();
    });

    it('are_sent_as_messagepack_if_asked', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        const res = await server.get(`/events?since=0&follow=false&queue=${queue}`,
            { accept: 'application/msgpack' });
        assert.equal(res.headers['content-type'], 'application/vnd.zizq.msgpack-stream');
        const length = res.bytes.readUInt32BE(0);
        assert.equal(res.bytes.length, 4 + length);
        assert.equal(unpack(res.bytes.subarray(4)).id, id);
    });

    it('are_the_same_over_http2', async () => {
        const queue = queueName();
        await live(server, queue);
        const session = http2.connect(server.url());
        const req = session.request({ ':path': `/events?since=0&follow=false&queue=${queue}` });
        let text = '';
        req.setEncoding('utf8');
        req.on('data', (chunk) => { text += chunk; });
        await within(new Promise((resolve) => req.on('end', resolve)), 'the stream ends');
        session.close();
        assert.deepEqual(text.split('\n').filter(Boolean).map((line) => JSON.parse(line)),
            await server.history(`&queue=${queue}`));
    });

    it('give_the_status_of_every_job_if_replayed', async () => {
        const queue = queueName();
        await live(server, queue);
        await server.enqueue({ queue, ready_at: Date.now() + 3600000 });
        const { id } = await server.enqueue({ queue, retention: KEEP });
        assert.equal((await server.post(`/jobs/${id}/cancel`)).status, 200);
        assert.equal((await server.post(`/jobs/${id}/retry`)).status, 200);
        await server.patch(`/jobs/${id}`, { ready_at: Date.now() + 3600000 });
        await server.post('/jobs/bulk', {
            jobs: Array.from({ length: 1000 }, () => ({ queue, type: 't', payload: null })),
        });
        await server.delete(`/jobs?queue=${queue}&status=ready&priority=0..65535`);
        const events = await server.history();
        assertNumbered(events);
        assert.deepEqual(replay(events), await listed(server));
    });

    for (const [query, status, code, words] of [
        ['since=x', 400, 'bad_value', /since: expected the cursor of an event, or its number/],
        ['since=00000000000000a1-', 400, 'bad_value', /since: expected the cursor/],
        ['since=1&since=2', 400, 'duplicate_field', /twice/],
        ['follow=maybe', 400, 'bad_value', /true or false/],
        ['event=job_lost', 400, 'bad_value', /no event 'job_lost'/],
        ['job=x', 400, 'bad_id', /./],
        ['queue=a*', 400, 'bad_name', /./],
    ]) {
        it(`refuse_${query}`, async () => {
            assertError(await server.get(`/events?${query}`), status, code, words);
        });
    }

    it('are_a_gap_and_all_that_is_kept_for_a_place_that_has_not_been', async () => {
        await live(server, queueName());
        const all = await server.history();
        for (const since of ['999999999', '00000000000000a1-3', '0000000000000000-3', `${all[0].cursor}99999`]) {
            const [gap, ...rest] = (await server.get(`/events?follow=false&since=${since}`)).text
                .split('\n').filter(Boolean).map((line) => JSON.parse(line)); // some are heartbeats
            assert.deepEqual(Object.keys(gap), ['event', 'cursor', 'reason']);
            assert.equal(gap.event, 'gap');
            assert.match(gap.reason, new RegExp(`there is no event ${since} in this history`));
            const [history] = all[0].cursor.split('-');
            assert.equal(gap.cursor.split('-')[0], history);
            // Of this history the rest was lost; of another nobody knows what is known of it.
            assert.deepEqual(rest, since.startsWith(history) ? [] : all);
        }
        assert.equal((await server.get('/events?follow=false&since=00000000000000a1-0')).json?.event, undefined);
    });

    it('refuse_a_last_event_id_that_is_no_number_and_what_they_cannot_be_sent_as', async () => {
        assertError(await server.get('/events', { 'last-event-id': 'x' }), 400, 'bad_value',
            /Last-Event-ID/);
        assertError(await server.get('/events', { accept: 'image/png' }), 406, 'not_acceptable');
        const post = await server.post('/events', {});
        assertError(post, 405, 'method_not_allowed');
    });
});

describe('events over crashes and restarts', () => {
    const server = new Server({ args: BEAT });
    before(() => server.start());
    after(() => server.clean());

    it('have_neither_gaps_nor_repeats_and_still_say_what_is', async () => {
        const queue = queueName();
        let seen = [];
        for (let round = 0; round < 4; round++) {
            const stream = await server.events(`?since=${seen.length}`);
            const load = Array.from({ length: 8 }, async () => {
                for (;;) {
                    await live(server, queueName());
                    await server.enqueue({ queue, ready_at: Date.now() + 20 });
                }
            });
            const end = Promise.allSettled(load);
            await stream.until(() => stream.jobs.length > 150, 'some events');
            server.agent.destroy();
            await server.signal(round === 2 ? 'SIGTERM' : 'SIGKILL');
            await end; // every load has met its refused connection
            await stream.ended();
            seen = seen.concat(stream.jobs);
            assertNumbered(seen);
            await server.start();
        }
        // All of it is due soon, and each job is told of once.
        await until(async () => (await server.get('/jobs?status=scheduled')).json.jobs.length === 0);
        const events = await server.history();
        assertNumbered(events);
        // What was told is what is on record.
        assert.deepEqual(events.slice(0, seen.length), seen);
        assert.deepEqual(replay(events), await listed(server));
        const later = events.filter((e) => e.cause === 'enqueue_later').map((e) => e.id);
        assert.ok(later.length > 0);
        for (const id of later)
            assert.equal(events.filter((e) => e.id === id && e.event === 'job_ready').length, 1);
    });
});

describe('events that are kept for a short time', () => {
    it('are_missed_in_the_open', async (t) => {
        const server = new Server({ args: [...BEAT, '--event-max-bytes', '20KiB'] });
        await server.start();
        t.after(() => server.clean());
        const queue = queueName();
        for (let i = 0; i < 30; i++)
            await server.post('/jobs/bulk', {
                jobs: Array.from({ length: 100 }, () => ({ queue, type: 't', payload: null })),
            });
        const lines = await until(async () => {
            const all = await server.history();
            return all[0].event === 'gap' && all;
        }, 'some are gone');
        const [gap, ...events] = lines;
        assert.equal(gap.from, 1);
        assertNumbered(events, gap.to + 1);
        assert.equal(events.at(-1).number, 3000);
        await server.stop();
        await server.start();
        const again = await server.history();
        assert.equal(again[0].event, 'gap');
        assert.equal(again.at(-1).number, 3000);
        await server.enqueue({ queue });
        assert.equal((await server.history()).at(-1).number, 3001);
    });

    it('are_gone_when_their_time_is_over_but_their_numbers_go_on', async (t) => {
        const server = new Server({ args: [...BEAT, '--event-retention', '50ms'] });
        await server.start();
        t.after(() => server.clean());
        for (let i = 0; i < 5; i++)
            await server.enqueue({ queue: queueName() });
        await until(async () => (await server.history())[0].to >= 3, 'some are gone');
        const stream = await server.events('?since=1');
        const gap = await stream.next();
        assert.deepEqual([gap.event, gap.from], ['gap', 2]);
        assert.ok(gap.to >= 3);
        await server.enqueue({ queue: queueName() });
        await stream.until(() => stream.jobs.some((e) => e.number === 6), 'number 6');
        stream.close();
    });
});

describe('tenax events', () => {
    const server = useServer({ args: BEAT });
    const cli = (...args) => run(['events', '--url', server.url(), ...args]);

    it('prints_what_was_in_words_and_as_json', async () => {
        const queue = queueName();
        const id = await live(server, queue);
        const words = await cli('--queue', queue);
        assert.equal(words.code, 0, words.stderr);
        const lines = words.stdout.trim().split('\n');
        assert.equal(lines.length, 5);
        for (const line of lines)
            assert.ok(line.includes(id));
        assert.match(lines[2], /job_requeued .* in_flight -> ready {2}run 0 by w1: .*worker asked/);
        const json = await cli('--queue', queue, '--output', 'json', '--event', 'job_taken');
        assert.deepEqual(JSON.parse(json.stdout).map(({ worker }) => worker), ['w1', 'w2']);
    });

    it('says_what_the_server_says_no_to', async () => {
        const refused = await cli('--event', 'job_lost');
        assert.equal(refused.code, 1, refused.stderr);
        assert.match(refused.stderr, /there is no event 'job_lost'/);
        const nobody = await run(['events', '-f', '--url', 'http://127.0.0.1:1']);
        assert.equal(nobody.code, 3, nobody.stderr);
    });

    it('goes_on_where_it_was_when_the_server_is_there_again', async (t) => {
        const host = ownAddress();
        const mortal = new Server({ args: [...BEAT, '--host', host] });
        await mortal.start();
        t.after(() => mortal.clean());
        const stream = begin(['events', '--follow', '--output', 'jsonl', '--url', mortal.url()]);
        const seen = () => stream.stdout.trim().split('\n').filter(Boolean);
        // It shows nothing before it is connected: so until it shows something.
        let made = 0;
        await until(async () => {
            await mortal.enqueue({ queue: 'q' });
            made++;
            return seen().length > 0;
        }, 'it is connected');
        const first = JSON.parse(seen()[0]).number;
        await until(() => seen().length === made - first + 1, 'all so far');
        await mortal.signal('SIGKILL');
        await stream.says(/resuming after event/);
        await mortal.start({ args: [...BEAT, '--host', host, '--port', String(mortal.port)] });
        await mortal.enqueue({ queue: 'q' });
        await until(() => seen().length === made + 1 - first + 1, 'what came after');
        assertNumbered(seen().map((line) => JSON.parse(line)), first);
        stream.child.kill('SIGTERM');
        await stream.ended;
    });
});

describe('a consumer that does not read', () => {
    // AddressSanitizer, if the server was built with it, holds on to little of what was freed.
    const server = useServer({ args: BEAT, env: { ASAN_OPTIONS: 'quarantine_size_mb=1' } });

    const memory = () => Number(/^VmRSS:\s+(\d+) kB/m.exec(
        fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) / 1024;

    it('takes_little_memory_and_misses_nothing', async () => {
        const queue = queueName();
        const streams = [];
        for (let i = 0; i < 20; i++) {
            streams.push(await server.events(`?queue=${queue}`));
            streams[i].res.pause();
        }
        const jobs = Array.from({ length: 2000 }, () => ({ queue, type: 't', payload: null }));
        const started = memory();
        for (let i = 0; i < 20; i++)
            assert.equal((await server.post('/jobs/bulk', { jobs })).status, 201);
        // All of it, for all of them, would be some 160 MB.
        assert.ok(memory() - started < 80, `${memory() - started} MB more`);
        const [stream] = streams;
        stream.res.resume();
        await stream.until(() => stream.jobs.length === 40000, 'all of them');
        assertNumbered(stream.jobs, stream.jobs[0].number);
        for (const s of streams)
            s.close();
    });
});
