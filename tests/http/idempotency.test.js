// SPDX-License-Identifier: Apache-2.0
'use strict';

// Enqueues with an Idempotency-Key: repeated, they are answered as the first time and add nothing.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, assertError, makeDir, queueName, run, until, useServer } = require('./harness');
const { guarded } = require('./access');
const { pack } = require('./msgpack');

let keys = 0;

function newKey() {
    return `key-${++keys}`;
}

function specOf(fields = {}) {
    return { queue: queueName(), type: 't', payload: { n: 1 }, ...fields };
}

function post(server, body, key, target = '/jobs') {
    return server.post(target, body, { 'idempotency-key': key });
}

async function count(server, queue) {
    return (await server.get(`/jobs/count?queue=${queue}`)).json.count;
}

function assertReplayed(res, first) {
    assert.equal(res.status, first.status, res.text);
    assert.equal(res.headers['idempotent-replayed'], 'true');
    assert.deepEqual(res.json, first.json);
}

describe('an Idempotency-Key', () => {
    const server = useServer();

    it('makes_the_same_request_answered_as_the_first_time', async () => {
        const [key, body] = [newKey(), specOf({ priority: 7, unique_key: 'u', alias: 'al' })];
        const first = await post(server, body, key);
        assert.equal(first.status, 201);
        assert.ok(!('idempotent-replayed' in first.headers));
        await server.claimOne(body.queue);
        assertReplayed(await post(server, body, key), first);
        assert.equal(await count(server, body.queue), 1);
    });

    it('is_kept_with_an_answer_of_any_length', async () => {
        const [key, queue] = [newKey(), queueName()];
        const body = { jobs: Array.from({ length: 3000 }, () => specOf({ queue })) };
        const first = await post(server, body, key, '/jobs/bulk');
        assertReplayed(await post(server, body, key, '/jobs/bulk'), first);
        assert.equal(await count(server, queue), 3000);
    });

    it('is_answered_even_if_the_job_is_gone', async () => {
        const [key, body] = [newKey(), specOf()];
        const first = await post(server, body, key);
        assert.equal((await server.delete(`/jobs/${first.json.id}`)).status, 204);
        assertReplayed(await post(server, body, key), first);
        assert.equal(await count(server, body.queue), 0);
    });

    it('is_refused_with_another_body_or_path', async () => {
        const [key, body] = [newKey(), specOf()];
        await post(server, body, key);
        assertError(await post(server, { ...body, priority: 1 }, key), 422,
            'idempotency_key_reused');
        assertError(await post(server, { jobs: [body] }, key, '/jobs/bulk'), 422,
            'idempotency_key_reused');
        assert.equal(await count(server, body.queue), 1);
    });

    it('adds_one_job_however_many_send_it_at_once', async () => {
        const [key, body] = [newKey(), specOf()];
        const all = await Promise.all(Array.from({ length: 20 }, () => post(server, body, key)));
        assert.equal(new Set(all.map((res) => res.json.id)).size, 1);
        assert.equal(all.filter((res) => !res.headers['idempotent-replayed']).length, 1);
        assert.equal(await count(server, body.queue), 1);
    });

    it('counts_for_a_bulk_request_as_a_whole', async () => {
        const [key, queue] = [newKey(), queueName()];
        const lock = specOf({ unique_key: newKey() });
        await server.post('/jobs', lock);
        const body = { jobs: [specOf({ queue }), lock, specOf({ queue })] };
        const first = await post(server, body, key, '/jobs/bulk');
        assert.equal(first.status, 201, first.text);
        assertReplayed(await post(server, body, key, '/jobs/bulk'), first);
        assert.equal(first.json.jobs[1].duplicate, true);
        assert.equal(await count(server, queue), 2);
    });

    it('repeats_that_a_payload_was_folded', async () => {
        const batch = { key: newKey(), when: 'true', fold: '$existing + $new' };
        const body = specOf({ payload: [1], batch });
        await server.post('/jobs', body);
        const key = newKey();
        const first = await post(server, body, key);
        assert.equal(first.json.folded, true);
        assertReplayed(await post(server, body, key), first);
        assert.deepEqual((await server.job(first.json.id)).payload, [1, 1]);
    });

    it('knows_a_request_in_another_format_again', async () => {
        const [key, body] = [newKey(), specOf({ payload: 1 })];
        const first = await post(server, body, key);
        const again = await server.post('/jobs', pack(body), {
            'idempotency-key': key, 'content-type': 'application/msgpack',
        });
        assertReplayed(again, first);
    });

    it('is_not_used_up_by_a_request_that_is_refused', async () => {
        const [key, body] = [newKey(), specOf()];
        assertError(await post(server, { ...body, queue: 'a,b' }, key), 400, 'bad_name');
        assert.equal((await post(server, body, key)).status, 201);
    });

    it('has_1_to_255_printable_characters', async () => {
        const body = specOf();
        assert.equal((await post(server, body, 'k'.repeat(255))).status, 201);
        for (const bad of ['', 'k'.repeat(256), 'a\u00e9'])
            assertError(await post(server, body, bad), 400, 'bad_value');
        assert.equal((await server.post('/jobs?key=a', body)).status, 400);
    });

    it('makes_the_command_line_safe_to_repeat', async () => {
        const args = ['enqueue', '--url', server.url(), '--queue', queueName(), '--type', 't',
            '--idempotency-key', newKey(), '{}'];
        const [first, again] = [await run(args), await run(args)];
        assert.equal(first.code, 0, first.stderr);
        assert.equal(again.stdout, first.stdout);
        const bulk = await run(['enqueue', '--bulk', '--idempotency-key', 'k', '--url',
            server.url()]);
        assert.equal(bulk.code, 2, bulk.stderr);
    });
});

describe('an answer of which only the ids are kept', () => {
    const server = useServer({ args: ['--idempotency-bytes', '0'] });

    it('is_made_of_the_request_as_it_was', async () => {
        const [key, queue] = [newKey(), queueName()];
        const body = { jobs: [
            specOf({ queue, priority: 7, alias: newKey(), retry_limit: 3 }),
            specOf({ queue, ready_at: Date.now() + 3600000, unique_key: newKey() }),
            specOf({ queue, batch: { key: newKey(), when: 'true', fold: '$new' } }),
            specOf({ queue, concurrency_key: 'c', backoff: { exponent: 2, base_ms: 1000, jitter_ms: 0 } }),
        ] };
        const first = await post(server, body, key, '/jobs/bulk');
        assert.equal(first.status, 201, first.text);
        await server.claimOne(queue);
        assertReplayed(await post(server, body, key, '/jobs/bulk'), first);
        for (const job of first.json.jobs)
            await server.delete(`/jobs/${job.id}`);
        assertReplayed(await post(server, body, key, '/jobs/bulk'), first);
        assertError(await post(server, { jobs: body.jobs.slice(1) }, key, '/jobs/bulk'), 422,
            'idempotency_key_reused');
        assert.equal(await count(server, queue), 0);
    });

    it('shows_jobs_that_were_there_or_wait_as_they_are_now', async () => {
        const [key, queue] = [newKey(), queueName()];
        const lock = specOf({ queue, unique_key: newKey(), priority: 1 });
        const held = (await server.post('/jobs', lock)).json;
        const body = { jobs: [{ ...lock, priority: 2 }, specOf({ queue, depends_on: [held.id] }),
            specOf({ queue, depends_on: [1] })] };
        const first = await post(server, body, key, '/jobs/bulk');
        assert.equal(first.status, 201, first.text);
        assertReplayed(await post(server, body, key, '/jobs/bulk'), first);
        const ids = first.json.jobs.map((job) => job.id);
        for (const id of [...ids].reverse())
            await server.delete(`/jobs/${id}`);
        const again = await post(server, body, key, '/jobs/bulk');
        assert.equal(again.status, 201, again.text);
        assert.deepEqual(again.json.jobs.map((job) => job.id), ids);
        assert.deepEqual(again.json.jobs.map((job) => job.as_requested), [true, true, true]);
        assert.deepEqual(again.json.jobs.map((job) => job.duplicate), [true, false, false]);
        assert.deepEqual(again.json.jobs[2].depends_on, [ids[1]]);
        assert.equal(await count(server, queue), 0);
    });

    it('has_the_status_of_the_first_if_nothing_was_added', async () => {
        const body = specOf({ unique_key: newKey() });
        await server.post('/jobs', body);
        const key = newKey();
        const first = await post(server, body, key);
        assert.equal(first.status, 200, first.text);
        assertReplayed(await post(server, body, key), first);
        await server.delete(`/jobs/${first.json.id}`);
        const again = await post(server, body, key);
        assert.equal(again.status, 200, again.text);
        assert.equal(again.json.id, first.json.id);
        assert.equal(again.json.as_requested, true);
        assert.equal(await count(server, body.queue), 0);
    });
});

// Requests that were carried out, and what makes the server refuse them from then on. Each is sent
// again with its key, and with another one.
describe('a repetition of what would be refused by now', () => {
    const REFUSED = {
        by_a_group_that_is_sealed: {
            fields: { group: 'g' }, by: (s) => s.post('/groups/g/seal'), status: 409,
        },
        by_a_gang_that_is_complete: { fields: { gang: { id: 'one', cardinality: 1 } }, status: 422 },
        by_a_policy_that_is_deleted: {
            before: (s) => s.request('PUT', '/retry-policies/p', {
                apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'p' },
                spec: { rules: [{ action: 'Retry', onConditions: ['Evicted'] }] },
            }),
            fields: { retry_policies: ['p'] }, by: (s) => s.delete('/retry-policies/p'), status: 422,
        },
        by_a_budget_that_is_deleted: {
            before: (s) => s.post('/budgets/b', { allocation: 5, strategy: { type: 'while_in_flight' } }),
            fields: { budgets: [{ key: 'b' }] },
            by: async (s, job) => {
                await s.delete(`/jobs/${job.id}`);
                return s.delete('/budgets/b');
            },
            status: 422,
        },
        by_a_job_that_is_gone: {
            before: async (s, fields) => {
                fields.depends_on = [(await s.enqueue({ queue: 'first' })).id];
            },
            fields: {}, by: (s, job, fields) => s.delete(`/jobs/${fields.depends_on[0]}`), status: 422,
        },
        by_strictness: { fields: { nonsense: 1 }, settings: 'strict: true\n', status: 400 },
        by_a_full_disk: { fields: {}, settings: 'min-free-space: 9000000GiB\n', status: 507 },
    };

    for (const [name, { before, fields, by, settings, status }] of Object.entries(REFUSED)) {
        for (const [target, bytes] of [['/jobs', '0'], ['/jobs/bulk', '1MiB']]) {
            it(`${name}_is_answered_with_${bytes}_kept_of_${target}`, async (t) => {
                const { server, change } = await configured(t, `idempotency-bytes: ${bytes}\n`);
                const more = { ...fields };
                assert.ok(!((await before?.(server, more))?.status >= 300));
                const [key, job] = [newKey(), specOf(more)];
                const body = target === '/jobs' ? job : { jobs: [job] };
                const first = await post(server, body, key, target);
                assert.equal(first.status, 201, first.text);
                const made = first.json.jobs?.[0] ?? first.json;
                const res = await by?.(server, made, more);
                assert.ok(!(res?.status >= 300), res?.text);
                if (settings)
                    await change(settings);
                const again = await post(server, body, key, target);
                assert.equal(again.status, 201, again.text);
                assert.equal(again.headers['idempotent-replayed'], 'true');
                assert.equal((again.json.jobs?.[0] ?? again.json).id, made.id);
                const other = await post(server, body, newKey(), target);
                assert.equal(other.status, status, other.text);
            });
        }
    }

    it('by_nothing_but_a_retention_that_ended_is_answered', async (t) => {
        const { server, change } = await configured(t, 'idempotency-retention: 1h\n');
        const [key, body] = [newKey(), specOf()];
        const first = await post(server, body, key);
        await change('idempotency-retention: 0\n');
        assertReplayed(await post(server, body, key), first);
        const other = newKey();
        await post(server, body, other);
        assert.ok(!('idempotent-replayed' in (await post(server, body, other)).headers));
    });

    it('by_its_own_times_or_a_paused_queue_is_answered', async (t) => {
        const { server } = await configured(t, '');
        const soon = Date.now() + 150;
        const body = specOf({ ready_at: soon, deadline: soon });
        const key = newKey();
        const first = await post(server, body, key);
        assert.equal(first.status, 201, first.text);
        await server.request('PUT', `/queues/${body.queue}`, { paused: true, concurrency: 1 });
        await until(async () => (await server.job(first.json.id)).status === 'dead');
        assertReplayed(await post(server, body, key), first);
        assert.equal(await count(server, body.queue), 1);
    });

    async function configured(t, text) {
        const dir = makeDir();
        const file = path.join(dir, 'tenax.yaml');
        const base = `log-level: info\nheartbeat-interval: 20ms\n${text}`;
        fs.writeFileSync(file, base);
        const server = new Server({ args: ['--config', file] });
        await server.start();
        t.after(() => server.clean());
        t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
        const change = async (settings) => {
            const [key] = settings.split(':');
            const kept = base.split('\n').filter((line) => !line.startsWith(key)).join('\n');
            fs.writeFileSync(file, kept + settings);
            const from = server.stderr.length;
            server.child.kill('SIGHUP');
            await until(() => /has been read again/.test(server.stderr.slice(from)), 'it is read');
        };
        return { server, change };
    }
});

describe('the memory of idempotency keys', () => {
    it('is_measured_and_so_are_answers_that_were_shortened', async (t) => {
        const measured = async (server) => {
            const { text } = await server.get('/metrics');
            return ['tenax_idempotency_bytes', 'tenax_idempotency_shortened_total'].map((name) =>
                Number(text.match(new RegExp(`^${name} (.*)$`, 'm'))[1]));
        };
        for (const [bytes, keeps] of [['1MiB', true], ['0', false]]) {
            const server = new Server({ args: ['--idempotency-bytes', bytes] });
            await server.start();
            t.after(() => server.clean());
            assert.deepEqual(await measured(server), [0, 0]);
            await post(server, specOf(), newKey());
            await until(async () => {
                const [held, shortened] = await measured(server);
                return keeps ? held > 0 && shortened === 0 : held === 0 && shortened === 1;
            }, 'it is counted');
        }
    });

    it('hides_a_duplicate_that_left_the_queues_of_its_sender', async (t) => {
        const { server, as } = await guarded(t, {
            ann: { roles: ['producer'], queues: ['ann'] },
        }, { args: ['--idempotency-bytes', '0'] });
        const [key, body] = [newKey(), { queue: 'ann', type: 't', payload: 1, unique_key: 'u' }];
        const send = (extra) => server.post('/jobs', body, { ...as('ann').headers, ...extra });
        const held = (await send({})).json;
        const first = await send({ 'idempotency-key': key });
        assert.equal(first.json.id, held.id);
        const moved = await as('admin').patch(`/jobs/${held.id}`, { queue: 'bob', priority: 3 });
        assert.equal(moved.status, 200, moved.text);
        const again = await send({ 'idempotency-key': key });
        assert.equal(again.status, 200, again.text);
        assert.equal(again.json.queue, 'ann');
        assert.equal(again.json.priority, first.json.priority);
        assert.equal(again.json.as_requested, true);
    });

    it('answers_a_limited_sender_though_what_it_waited_for_is_gone', async (t) => {
        const { server, as } = await guarded(t, { ann: { roles: ['producer'], queues: ['ann'] } });
        const spec = { queue: 'ann', type: 't', payload: 1 };
        const send = (body, extra) => server.post('/jobs', body, { ...as('ann').headers, ...extra });
        const dep = (await send(spec)).json.id;
        const [key, body] = [newKey(), { ...spec, depends_on: [dep] }];
        const first = await send(body, { 'idempotency-key': key });
        assert.equal(first.status, 201, first.text);
        assert.equal((await as('admin').delete(`/jobs/${dep}`)).status, 204);
        assertReplayed(await send(body, { 'idempotency-key': key }), first);
    });

    it('survives_a_kill', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        const [key, body] = [newKey(), specOf()];
        const first = await post(server, body, key);
        await server.signal('SIGKILL');
        await server.start();
        assertReplayed(await post(server, body, key), first);
        assertError(await post(server, { ...body, type: 'u' }, key), 422,
            'idempotency_key_reused');
    });

    it('ends_after_the_time_that_was_set', async (t) => {
        const server = new Server({ args: ['--idempotency-retention', '50ms'] });
        await server.start();
        t.after(() => server.clean());
        const [key, body] = [newKey(), specOf()];
        const first = await post(server, body, key);
        await until(async () => (await post(server, body, key)).json.id !== first.json.id);
    });

    it('is_one_for_each_token', async (t) => {
        const { server, as } = await guarded(t, {
            ann: { roles: ['producer'] }, bob: { roles: ['producer'] },
        });
        const [key, body] = [newKey(), specOf()];
        const send = (name) => server.post('/jobs', body,
            { ...as(name).headers, 'idempotency-key': key });
        const [ann, bob, again] = [await send('ann'), await send('bob'), await send('ann')];
        assert.notEqual(ann.json.id, bob.json.id);
        assertReplayed(again, ann);
    });
});
