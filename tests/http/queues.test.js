// SPDX-License-Identifier: Apache-2.0
'use strict';

// Queues as resources: pause, limits and defaults of their jobs.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, assertError, queueName, run, until, useServer } = require('./harness');

const NONE = {
    configured: false, paused: false, concurrency: null, concurrency_per_key: null, rate: null,
    retry_limit: null, backoff: null, retention: { completed_ms: null, dead_ms: null },
    retry_policies: [], when_no_policy: null, max_run_ms: null, oldest_ready_age_ms: null,
    jobs: { blocked: 0, scheduled: 0, ready: 0, in_flight: 0, completed: 0, dead: 0 },
};
const ALL = {
    paused: true, concurrency: 4, concurrency_per_key: 2,
    rate: { count: 100, per_ms: 1000, burst: 20 }, retry_limit: 3,
    backoff: { base_ms: 10, exponent: 1.5, jitter_ms: 0 },
    retention: { completed_ms: 5000, dead_ms: 6000 }, max_run_ms: 7000,
};

const path = (queue) => `/queues/${encodeURIComponent(queue)}`;

async function put(server, queue, body) {
    const res = await server.request('PUT', path(queue), body);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function patch(server, queue, body) {
    const res = await server.patch(path(queue), body);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function read(server, queue) {
    const res = await server.get(path(queue));
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function fill(server, queue, count, fields = {}) {
    const jobs = Array.from({ length: count }, () => ({ queue, type: 't', payload: 1, ...fields }));
    const res = await server.post('/jobs/bulk', { jobs });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs.map((job) => job.id);
}

const ids = (jobs) => jobs.map((job) => job.id);

describe('a queue', () => {
    const server = useServer();

    it('that_nobody_has_set_anything_for_has_the_defaults', async () => {
        const queue = queueName();
        assert.deepEqual(await read(server, queue), { name: queue, ...NONE });
    });

    it('is_told_with_all_its_settings_and_its_jobs', async () => {
        const queue = queueName();
        const shown = { name: queue, ...NONE, configured: true, ...ALL };
        assert.deepEqual(await put(server, queue, ALL), shown);
        const before = Date.now();
        await fill(server, queue, 2);
        await fill(server, queue, 1, { ready_at: Date.now() + 3600000 });
        const { oldest_ready_age_ms: age, ...now } = await read(server, queue);
        delete shown.oldest_ready_age_ms;
        assert.deepEqual(now, { ...shown, jobs: { ...NONE.jobs, ready: 2, scheduled: 1 } });
        assert.ok(age >= 0 && age <= Date.now() - before, `${age}`);
    });

    it('keeps_what_a_patch_leaves_out_and_loses_what_a_put_leaves_out', async () => {
        const queue = queueName();
        await put(server, queue, ALL);
        const changed = await patch(server, queue, {
            paused: false, concurrency: null, retention: { dead_ms: null } });
        assert.deepEqual(changed, {
            name: queue, ...NONE, configured: true, ...ALL, paused: false, concurrency: null,
            retention: { completed_ms: 5000, dead_ms: null } });
        assert.deepEqual(await patch(server, queue, {}), changed);
        assert.deepEqual(await put(server, queue, { concurrency: 7 }),
            { name: queue, ...NONE, configured: true, concurrency: 7 });
    });

    it('takes_its_own_answer_back', async () => {
        const queue = queueName();
        const shown = await put(server, queue, ALL);
        assert.deepEqual(await put(server, queue, shown), shown);
    });

    it('has_a_burst_of_its_count_unless_another_is_given', async () => {
        const queue = queueName();
        const rate = { count: 3, per_ms: 60000 };
        assert.deepEqual((await patch(server, queue, { rate })).rate, { ...rate, burst: 3 });
    });

    it('may_have_any_name_that_a_queue_may_have', async () => {
        for (const queue of [queueName('a b/c'), queueName('schlange-ü')])
            assert.equal((await put(server, queue, {})).name, queue);
    });

    it('is_created_once', async () => {
        const queue = queueName();
        const res = await server.post('/queues', { name: queue, concurrency: 2 });
        assert.equal(res.status, 201, res.text);
        assert.equal(res.json.concurrency, 2);
        assertError(await server.post('/queues', { name: queue }), 409, 'conflict');
        assert.equal((await read(server, queue)).concurrency, 2);
    });

    it('forgets_its_settings_only_while_no_job_waits_or_runs', async () => {
        const queue = queueName();
        assertError(await server.delete(path(queue)), 404, 'not_found');
        await put(server, queue, ALL);
        const [id] = await fill(server, queue, 1, { retention: { dead_ms: 60000 } });
        assertError(await server.delete(path(queue)), 409, 'conflict', /^1 jobs? /);
        await server.post(`/jobs/${id}/cancel`);
        assert.equal((await server.delete(path(queue))).status, 204);
        assert.deepEqual(await read(server, queue),
            { name: queue, ...NONE, jobs: { ...NONE.jobs, dead: 1 } });
        assertError(await server.delete(path(queue)), 404, 'not_found');
    });

    it('refuses_bad_settings_whole_and_says_where', async () => {
        const queue = queueName();
        for (const [body, status, code, sentence] of [
            ['{', 400, 'bad_json'],
            ['[]', 400, 'wrong_type'],
            [{ paused: 1 }, 400, 'wrong_type', /^paused: /],
            [{ concurrency: 0 }, 400, 'bad_value', /^concurrency: /],
            [{ concurrency: 1000001 }, 400, 'bad_value', /^concurrency: /],
            [{ concurrency: 1.5 }, 400, 'bad_value', /^concurrency: /],
            [{ concurrency_per_key: -1 }, 400, 'bad_value', /^concurrency_per_key: /],
            [{ rate: 5 }, 400, 'wrong_type', /^rate: /],
            [{ rate: {} }, 400, 'missing_field', /^rate: count /],
            [{ rate: { count: 1 } }, 400, 'missing_field', /^rate: per_ms /],
            [{ rate: { count: 0, per_ms: 1 } }, 400, 'bad_value', /^rate: count: /],
            [{ rate: { count: 1, per_ms: 0 } }, 400, 'bad_value', /^rate: per_ms: /],
            [{ rate: { count: 1, per_ms: 2678400001 } }, 400, 'bad_value', /^rate: per_ms: /],
            [{ rate: { count: 1, per_ms: 1, burst: 0 } }, 400, 'bad_value', /^rate: burst: /],
            [{ retry_limit: -1 }, 400, 'bad_value', /^retry_limit: /],
            [{ backoff: { base_ms: 1 } }, 400, 'missing_field', /^backoff: /],
            [{ retention: { dead_ms: -1 } }, 400, 'bad_value', /^retention: dead_ms: /],
            [{ retry_policies: ['nobody'] }, 422, 'unprocessable', /nobody/],
            [{ name: 'other' }, 422, 'unprocessable', /^name: /],
            ['{"paused":true,"paused":true}', 400, 'duplicate_field'],
        ]) {
            const both = typeof body === 'string' || Array.isArray(body)
                ? body : { paused: true, ...body };
            for (const method of ['PUT', 'PATCH'])
                assertError(await server.request(method, path(queue), both), status, code,
                    sentence);
        }
        assert.deepEqual(await read(server, queue), { name: queue, ...NONE });
        for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'])
            assertError(await server.request(method, '/queues/a%2Cb',
                method[0] === 'P' ? {} : undefined), 400, 'bad_name');
        assertError(await server.post('/queues', {}), 400, 'missing_field', /name/);
        assertError(await server.post('/queues', { name: 'a*' }), 400, 'bad_name');
    });
});

describe('a list of queues', () => {
    const server = useServer();

    it('has_names_of_those_with_jobs_and_in_detail_those_with_settings_too', async () => {
        await fill(server, 'b', 1);
        await put(server, 'a/1', { paused: true });
        await put(server, 'c', { concurrency: 1 });
        assert.deepEqual((await server.get('/queues')).json, { queues: ['b'] });
        const first = (await server.get('/queues?details=true&limit=2')).json;
        assert.deepEqual(first.queues, [await read(server, 'a/1'), {
            ...await read(server, 'b'), oldest_ready_age_ms: first.queues[1].oldest_ready_age_ms }]);
        assert.equal(first.pages.self, '/queues?details=true&limit=2');
        const second = (await server.get(first.pages.next)).json;
        assert.deepEqual(second.queues, [await read(server, 'c')]);
        assert.equal(second.pages.next, null);
        assert.deepEqual((await server.get('/queues?details=true&from=a%2F1&limit=1')).json.queues
            .map((queue) => queue.name), ['b']);
    });

    it('refuses_bad_parameters', async () => {
        for (const query of ['details=yes', 'details=true&limit=0', 'details=true&limit=2001'])
            assertError(await server.get(`/queues?${query}`), 400, 'bad_value');
        assertError(await server.get('/queues?details=true&from=a*'), 400, 'bad_name');
        assertError(await server.get('/queues?limit=1&limit=2'), 400, 'duplicate_field');
    });
});

describe('a paused queue', () => {
    const server = useServer();

    it('hands_out_nothing_to_streams_and_claims_until_it_is_resumed', async () => {
        const queue = queueName();
        await put(server, queue, { paused: true });
        const made = await fill(server, queue, 2);
        const stream = await server.take(`?queue=${queue}&prefetch=1`);
        assert.deepEqual(await server.claim({ queues: [queue], count: 2, wait_ms: 20 }), []);
        await stream.assertQuiet();
        await patch(server, queue, { paused: false });
        assert.deepEqual(await stream.nextIds(1), [made[0]]);
        assert.equal((await server.claimOne(queue)).id, made[1]);
        stream.close();
    });

    it('wakes_a_claim_that_waits_when_it_is_resumed', async () => {
        const queue = queueName();
        await put(server, queue, { paused: true });
        const [id] = await fill(server, queue, 1);
        const claim = server.claimOne(queue, { wait_ms: 20000 });
        await patch(server, queue, { paused: false });
        assert.equal((await claim).id, id);
    });

    it('lets_what_runs_go_on', async () => {
        const queue = queueName();
        await fill(server, queue, 1);
        const job = await server.claimOne(queue);
        await patch(server, queue, { paused: true });
        assert.equal((await server.post(`/jobs/${job.id}/renew`,
            { token: job.token, lease_ms: 60000 })).status, 200);
        assert.equal((await server.post(`/jobs/${job.id}/success`, { token: job.token })).status,
            204);
    });
});

describe('a limit of jobs in flight', () => {
    const server = useServer();

    it('holds_for_streams_and_claims_together', async () => {
        const queue = queueName();
        await put(server, queue, { concurrency: 3 });
        const made = await fill(server, queue, 6);
        const stream = await server.take(`?queue=${queue}&prefetch=2`);
        assert.deepEqual(await stream.nextIds(2), made.slice(0, 2));
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 5 })), [made[2]]);
        assert.deepEqual(await server.claim({ queues: [queue], count: 5 }), []);
        assert.equal((await read(server, queue)).jobs.in_flight, 3);
        await server.post(`/jobs/${made[2]}/success`);
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 5 })), [made[3]]);
        stream.close();
        await until(async () => (await read(server, queue)).jobs.in_flight === 1);
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 5 })), made.slice(0, 2));
    });

    it('changes_at_once_up_and_down', async () => {
        const queue = queueName();
        const made = await fill(server, queue, 5);
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 2 })), made.slice(0, 2));
        await patch(server, queue, { concurrency: 1 });
        assert.deepEqual(await server.claim({ queues: [queue], count: 5 }), []);
        await server.post(`/jobs/${made[0]}/success`);
        assert.deepEqual(await server.claim({ queues: [queue], count: 5 }), []);
        const waiting = server.claim({ queues: [queue], count: 5, wait_ms: 20000 });
        await patch(server, queue, { concurrency: 3 });
        assert.deepEqual(ids(await waiting), made.slice(2, 4));
        await patch(server, queue, { concurrency: null });
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 5 })), made.slice(4));
    });

    it('is_never_exceeded_by_many_workers', async () => {
        const queue = queueName();
        await put(server, queue, { concurrency: 4 });
        const left = new Set(await fill(server, queue, 200));
        let running = 0, most = 0;
        const worker = async () => {
            while (left.size > 0) {
                const jobs = await server.claim({ queues: [queue], count: 2, wait_ms: 100 });
                most = Math.max(most, running += jobs.length);
                for (const { id } of jobs) {
                    assert.ok(left.delete(id), 'once');
                    running--; // before the server hears of it
                    assert.equal((await server.post(`/jobs/${id}/success`)).status, 204);
                }
            }
        };
        await Promise.all(Array.from({ length: 12 }, worker));
        assert.ok(most >= 2 && most <= 4, `${most} at once`);
        assert.deepEqual((await read(server, queue)).jobs, NONE.jobs);
    });
});

describe('a limit of jobs in flight with the same key', () => {
    const server = useServer();
    const keyed = (queue, key) => server.enqueue({ queue, concurrency_key: key });

    it('lets_no_job_of_another_key_wait', async () => {
        const queue = queueName();
        await put(server, queue, { concurrency_per_key: 1 });
        const [a1, a2, b1] = [await keyed(queue, 'a'), await keyed(queue, 'a'), await keyed(queue, 'b')];
        const [free] = await fill(server, queue, 1);
        assert.deepEqual([a1.concurrency_key, a2.status], ['a', 'ready']);
        const stream = await server.take(`?queue=${queue}&prefetch=2`);
        assert.deepEqual(await stream.nextIds(2), [a1.id, b1.id]);
        const [got] = await server.claim({ queues: [queue], count: 9 });
        assert.equal(got.id, free);
        assert.deepEqual(await server.claim({ queues: [queue], count: 9 }), []);
        assert.deepEqual((await read(server, queue)).jobs, { ...NONE.jobs, ready: 1, in_flight: 3 });
        const next = server.claimOne(queue, { wait_ms: 20000 });
        stream.close(); // a1 is ready again, and before a2
        const { id, token } = await next;
        assert.equal(id, a1.id);
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
        assert.deepEqual(ids(await server.claim({ queues: [queue], count: 9 })), [a2.id, b1.id]);
    });

    it('is_taken_away_or_raised_at_once', async () => {
        const queue = queueName();
        await put(server, queue, { concurrency_per_key: 1 });
        const made = await fill(server, queue, 6, { concurrency_key: 'k' });
        const got = async () => ids(await server.claim({ queues: [queue], count: 9 }));
        assert.deepEqual(await got(), made.slice(0, 1));
        await patch(server, queue, { concurrency_per_key: 3 });
        assert.deepEqual(await got(), made.slice(1, 3));
        assert.equal((await server.delete(`/jobs/${made[3]}`)).status, 204);
        await patch(server, queue, { concurrency_per_key: null });
        assert.deepEqual(await got(), made.slice(4));
    });

    it('counts_leases_after_a_restart', async () => {
        const own = new Server();
        await own.start();
        try {
            await put(own, 'q', { concurrency_per_key: 1 });
            const made = await fill(own, 'q', 3, { concurrency_key: 'k' });
            const [job] = await own.claim({ queues: ['q'], count: 3, lease_ms: 600000 });
            await own.signal('SIGKILL');
            await own.start();
            assert.deepEqual(await own.claim({ queues: ['q'], count: 3 }), []);
            await own.post(`/jobs/${job.id}/success`, { token: job.token });
            assert.deepEqual(ids(await own.claim({ queues: ['q'], count: 3 })), [made[1]]);
        } finally {
            await own.clean();
        }
    });

    it('refuses_keys_that_are_too_long_or_empty', async () => {
        for (const key of ['', 'k'.repeat(256)])
            assertError(await server.post('/jobs', { queue: 'q', type: 't', payload: 1,
                concurrency_key: key }), 400, 'bad_value', /^concurrency_key: /);
        assertError(await server.post('/jobs', { queue: 'q', type: 't', payload: 1,
            concurrency_key: 1 }), 400, 'wrong_type', /^concurrency_key: /);
    });
});

describe('tenax queue and queues', () => {
    const server = useServer();
    const cli = (...args) => run([...args, '--url', server.url()]);

    it('set_show_list_and_forget', async () => {
        let end = await cli('queue', 'mail/a', '--pause', '--concurrency', '20', '--rate', '100/1s',
            '--burst', '10', '--concurrency-per-key', '2', '--retry-limit', '3', '--retain-dead', '7d');
        assert.equal(end.code, 0, end.stderr);
        assert.deepEqual(await read(server, 'mail/a'), { name: 'mail/a', ...NONE, configured: true,
            paused: true, concurrency: 20, concurrency_per_key: 2,
            rate: { count: 100, per_ms: 1000, burst: 10 }, retry_limit: 3,
            retention: { completed_ms: null, dead_ms: 604800000 } });
        await server.enqueue({ queue: 'busy' });
        end = await cli('queues');
        assert.match(end.stdout, /^mail\/a .* paused, 20 at once, 2 per key, 100 per 1 s$/m);
        assert.match(end.stdout, /^busy +0 +0 +1 +0 +0 +0 *$/m);
        end = await cli('queues', '--output', 'json');
        const [busy, mail] = JSON.parse(end.stdout);
        assert.deepEqual([busy.ready, busy.paused, mail.concurrency], [1, false, 20]);
        end = await cli('queue', 'mail/a', '--resume', '--concurrency', 'none', '--rate', 'none');
        assert.equal(end.code, 0, end.stderr);
        end = await cli('queue', 'mail/a', '--output', 'json');
        const now = JSON.parse(end.stdout);
        assert.deepEqual([now.paused, now.concurrency, now.rate, now.concurrency_per_key],
            [false, null, null, 2]);
        end = await cli('queue', 'mail/a', '--delete');
        assert.equal(end.code, 0, end.stderr);
        assert.equal((await read(server, 'mail/a')).configured, false);
    });

    it('give_a_job_its_key', async () => {
        const end = await cli('enqueue', '--queue', 'k', '--type', 't', '--concurrency-key', 'ada', '1');
        assert.equal(end.code, 0, end.stderr);
        assert.equal((await server.claimOne('k')).concurrency_key, 'ada');
    });

    it('say_what_is_wrong', async () => {
        for (const args of [['--pause', '--resume'], ['--concurrency', 'x'], ['--rate', '5'],
            ['--rate', 'x/1s'], ['--rate', '5/x'], ['--burst', '3'], ['--rate', '5/1s', '--burst', 'x'],
            ['--retain-dead', 'x'], ['--delete', '--pause']]) {
            const end = await cli('queue', 'wrong', ...args);
            assert.equal(end.code, 2, `${args}: ${end.stderr}`);
        }
        const end = await cli('queue', 'wrong', '--concurrency', '0');
        assert.equal(end.code, 1);
        assert.match(end.stderr, /concurrency: expected a whole number from 1/);
    });
});

describe('a rate', () => {
    const server = useServer();

    it('lets_its_burst_through_and_then_its_count_in_its_time', async () => {
        const queue = queueName();
        await put(server, queue, { rate: { count: 20, per_ms: 1000, burst: 3 } });
        await fill(server, queue, 9);
        const start = process.hrtime.bigint();
        const got = await server.claim({ queues: [queue], count: 9 });
        assert.ok(got.length >= 3 && got.length <= 4, `${got.length} at once`);
        for (let n = got.length; n < 9; n++)
            await server.claimOne(queue);
        const ms = Number(process.hrtime.bigint() - start) / 1e6;
        assert.ok(ms >= 5 * 50, `six more tokens in ${ms} ms`);
    });

    it('of_another_size_counts_at_once', async () => {
        const queue = queueName();
        await put(server, queue, { rate: { count: 1, per_ms: 3600000 } });
        await fill(server, queue, 3);
        await server.claimOne(queue);
        const claim = server.claimOne(queue, { wait_ms: 20000 });
        await patch(server, queue, { rate: { count: 1000, per_ms: 1000 } });
        await claim;
        await patch(server, queue, { rate: null });
        await server.claimOne(queue);
    });
});

describe('the defaults of a queue', () => {
    const server = useServer();

    it('count_for_jobs_that_give_none_before_those_of_the_server', async () => {
        const queue = queueName();
        await put(server, queue, { retry_limit: 1, retention: { completed_ms: 60000 },
            backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 } });
        const [id] = await fill(server, queue, 1);
        const [own] = await fill(server, queue, 1, { retry_limit: 0 });
        const [good] = await fill(server, queue, 1);
        await server.claim({ queues: [queue], count: 3 });
        const failed = (await server.post(`/jobs/${id}/failure`, { message: 'm' })).json;
        assert.equal(failed.status, 'scheduled');
        assert.equal(failed.reason, 'retry 1 of 1, backoff of the queue, in 1 s');
        assert.equal((await server.post(`/jobs/${own}/failure`, { message: 'm' })).json.status,
            'dead');
        await server.post(`/jobs/${good}/success`);
        assert.equal((await server.job(good)).status, 'completed');
        await patch(server, queue, { retry_limit: 0 }); /* at the next failure */
        await server.claimOne(queue);
        assert.equal((await server.post(`/jobs/${id}/failure`, { message: 'm' })).json.status,
            'dead');
    });
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
    describe(`after ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());

        it('settings_pauses_and_limits_are_as_they_were', async () => {
            await put(server, 'all', ALL);
            await put(server, 'paused', { paused: true });
            await put(server, 'limited', { concurrency: 1 });
            await put(server, 'slow', { rate: { count: 1, per_ms: 3600000 } });
            await put(server, 'gone', { concurrency: 1 });
            assert.equal((await server.delete('/queues/gone')).status, 204);
            for (const queue of ['paused', 'limited', 'slow'])
                await fill(server, queue, 3);
            const [limited] = await server.claim({ queues: ['limited'], count: 3,
                lease_ms: 600000 });
            await server.claimOne('slow', { lease_ms: 600000 });
            await server.signal(signal);
            await server.start();
            assert.deepEqual(await read(server, 'all'),
                { name: 'all', ...NONE, configured: true, ...ALL });
            assert.equal((await read(server, 'gone')).configured, false);
            for (const queue of ['paused', 'limited', 'slow'])
                assert.deepEqual(await server.claim({ queues: [queue], count: 3 }), [], queue);
            await server.post(`/jobs/${limited.id}/success`, { token: limited.token });
            assert.equal((await server.claim({ queues: ['limited'], count: 3 })).length, 1);
            await patch(server, 'paused', { paused: false });
            assert.equal((await server.claim({ queues: ['paused'], count: 3 })).length, 3);
        });
    });
}
