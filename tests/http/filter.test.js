// SPDX-License-Identifier: Apache-2.0
'use strict';

// The jq filter on payloads of GET /jobs, GET /jobs/count and DELETE /jobs.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { assertError, queueName, useServer } = require('./harness');

const PATIENT = { args: ['--jq-time-limit', '30s'] };

function filtered(path, queue, filter, more = '') {
    return `${path}?queue=${queue}&filter=${encodeURIComponent(filter)}${more}`;
}

async function fill(server, queue, payloads) {
    const jobs = payloads.map((payload) => ({ queue, type: 't', payload }));
    const res = await server.post('/jobs/bulk', { jobs });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs.map((job) => job.id);
}

function numbers(count) {
    return Array.from({ length: count }, (_, i) => ({ n: i, even: i % 2 === 0 }));
}

describe('a filter', () => {
    const server = useServer(PATIENT);

    it('runs_expressions_in_processes_that_can_do_nothing_else', async (t) => {
        await server.post('/jobs', { queue: queueName(), type: 't', payload: { a: 1 } });
        assert.equal((await server.get('/jobs?filter=.a%3D%3D1')).status, 200);
        const status = (pid) => fs.readFileSync(`/proc/${pid}/status`, 'utf8');
        const children = fs.readFileSync(`/proc/${server.child.pid}/task/${server.child.pid}/children`, 'utf8');
        const helpers = children.trim().split(' ').filter((pid) =>
            pid && fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('jq-helper'));
        assert.ok(helpers.length > 0, children);
        for (const pid of helpers)
            assert.match(status(pid), /^NoNewPrivs:\s+1$/m);
        if (/san/.test(process.env.TENAX_BIN ?? '')) // a sanitizer needs other calls at its end
            t.skip('with a sanitizer');
        else
            for (const pid of helpers)
                assert.match(status(pid), /^Seccomp:\s+2$/m);
    });

    async function payloads(queue, filter) {
        const res = await server.get(filtered('/jobs', queue, filter));
        assert.equal(res.status, 200, res.text);
        return res.json.jobs.map((job) => job.payload);
    }

    it('finds_jobs_by_their_payload', async () => {
        const queue = queueName();
        await fill(server, queue, [{ greet: 'World' }, { greet: 'Universe' }, { other: 1 }, [1], 7]);
        assert.deepEqual(await payloads(queue, '.greet | startswith("Uni")'),
            [{ greet: 'Universe' }]);
        assert.deepEqual(await payloads(queue, 'type == "array"'), [[1]]);
        assert.deepEqual(await payloads(queue, '. == 7'), [7]);
        assert.deepEqual(await payloads(queue, '.other'), [{ other: 1 }]);
        assert.deepEqual(await payloads(queue, 'false'), []);
        assert.equal((await payloads(queue, 'true')).length, 5);
    });

    it('matches_if_any_output_is_true', async () => {
        const queue = queueName();
        await fill(server, queue, [{ tags: ['a', 'b'] }, { tags: ['c'] }, { tags: [] }]);
        assert.deepEqual(await payloads(queue, '.tags[] == "b"'), [{ tags: ['a', 'b'] }]);
        assert.deepEqual(await payloads(queue, 'empty'), []);
        assert.deepEqual(await payloads(queue, 'null'), []);
    });

    it('sees_no_environment_and_no_files', async () => {
        const queue = queueName();
        await fill(server, queue, [1]);
        assert.equal((await payloads(queue, '$ENV == {} and env == {}')).length, 1);
        assert.equal((await payloads(queue, 'input')).length, 0);
        const res = await server.get(filtered('/jobs', queue, 'import "a" as a; true'));
        assertError(res, 400, 'bad_value', /filter: syntax error/);
    });

    it('is_repeated_in_the_links_of_its_pages', async () => {
        const queue = queueName();
        const ids = await fill(server, queue, numbers(500));
        const filter = '.even and (.n | tostring | test("[05]$"))';
        const wanted = ids.filter((_, i) => i % 10 === 0);
        const seen = [];
        let previous;
        let pages = 0;
        for (let page = filtered('/jobs', queue, filter, '&limit=7'); page; pages++) {
            const { json } = await server.get(page);
            assert.ok(json.pages.self.includes(
                'filter=.even%20and%20%28.n%20%7C%20tostring%20%7C%20test%28%22%5B05%5D%24%22%29%29'));
            seen.push(...json.jobs.map((job) => job.id));
            page = json.pages.next;
            previous = json.pages.prev;
        }
        assert.deepEqual(seen, wanted);
        assert.equal(pages, 8);
        const { json } = await server.get(previous);
        assert.deepEqual(json.jobs.map((job) => job.id), wanted.slice(-8, -1).reverse());
    });

    it('lists_backwards', async () => {
        const queue = queueName();
        const ids = await fill(server, queue, numbers(150));
        const res = await server.get(filtered('/jobs', queue, '.even', '&order=desc&limit=3'));
        assert.deepEqual(res.json.jobs.map((job) => job.id), [ids[148], ids[146], ids[144]]);
        assert.ok(res.json.pages.next);
    });

    it('counts', async () => {
        const queue = queueName();
        await fill(server, queue, numbers(321));
        const { json } = await server.get(filtered('/jobs/count', queue, '.n >= 300'));
        assert.deepEqual(json, { count: 21 });
        const more = await server.get(filtered('/jobs/count', queue, '.n >= 300', '&status=dead'));
        assert.deepEqual(more.json, { count: 0 });
    });

    it('deletes_only_what_matches', async () => {
        const queue = queueName();
        const ids = await fill(server, queue, numbers(200));
        const res = await server.delete(filtered('/jobs', queue, '.n % 3 == 0'));
        assert.equal(res.status, 200, res.text);
        assert.equal(res.json.deleted, 67);
        const { json } = await server.get(`/jobs?queue=${queue}&limit=2000`);
        assert.deepEqual(json.jobs.map((job) => job.id), ids.filter((_, i) => i % 3));
    });

    it('goes_through_large_payloads', async () => {
        const queue = queueName();
        const large = Array.from({ length: 20 }, (_, i) => ({ n: i, text: 'x'.repeat(200000) }));
        await fill(server, queue, large);
        const { json } = await server.get(filtered('/jobs/count', queue, '.n > 4'));
        assert.equal(json.count, 15);
    });

    it('does_not_hold_up_other_requests', async () => {
        const queue = queueName();
        await fill(server, queue, numbers(2000));
        const slow = server.get(filtered('/jobs/count', queue, '[range(2000)] | length > .n'));
        const quick = await Promise.all(Array.from({ length: 20 }, () => server.get('/health')));
        assert.ok(quick.every((res) => res.status === 200));
        assert.equal((await slow).status, 200);
    });
});

describe('a filter that is wrong', () => {
    const server = useServer(PATIENT);

    for (const [filter, words] of [['.a |', /filter: syntax error/], ['nothing', /not defined/],
        ['$existing', /not defined/], ['.a) or (true', /brackets do not match/]]) {
        it(`as_${encodeURIComponent(filter)}_is_a_bad_request`, async () => {
            const queue = queueName();
            await fill(server, queue, [1]);
            for (const path of ['/jobs', '/jobs/count'])
                assertError(await server.get(filtered(path, queue, filter)), 400, 'bad_value', words);
            assertError(await server.delete(filtered('/jobs', queue, filter)), 400, 'bad_value',
                words);
            // Also where there is nothing to filter.
            assertError(await server.get(filtered('/jobs', queueName(), filter)), 400, 'bad_value',
                words);
            assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 1);
        });
    }

    it('because_it_is_empty_is_a_bad_request', async () => {
        assertError(await server.delete('/jobs?filter='), 400, 'bad_value', /filter/);
    });
});

describe('a filter that goes too far', () => {
    const server = useServer({ args: ['--jq-time-limit', '2s', '--jq-wall-limit', '10m'] });

    it('is_stopped', async () => {
        const queue = queueName();
        await fill(server, queue, [1]);
        const res = await server.delete(filtered('/jobs', queue, 'def f: f; f'));
        assertError(res, 422, 'unprocessable', /longer than 2000 ms/);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, 1);
    });
});

describe('a filter that takes long by the clock', () => {
    const server = useServer({
        args: ['--jq-time-limit', '10m', '--jq-wall-limit', '2s', '--jq-request-limit', '1h'],
    });

    it('is_stopped_however_little_of_it_ran', async () => {
        const queue = queueName();
        await fill(server, queue, [1, 2, 3, 4]);
        const res = await server.get(filtered('/jobs', queue, 'def f: f; f'));
        assertError(res, 422, 'unprocessable', /longer than 2000 ms by the clock/);
        await server.assertServes();
    });
});

describe('slow filters', () => {
    const server = useServer({ args: ['--jq-processes', '1', '--jq-time-limit', '60s'] });

    it('do_not_keep_a_batched_enqueue_waiting', async () => {
        const queue = queueName();
        await fill(server, queue, [1, 2, 3]);
        let ended = 0;
        const note = () => { ended++; };
        // They run until the server is stopped.
        for (let i = 0; i < 6; i++)
            server.get(filtered('/jobs', queue, 'def f: f; f')).then(note, note);
        const job = {
            queue: queueName(), type: 't', payload: [1],
            batch: { key: 'k', when: 'true', fold: '$existing + $new' },
        };
        assert.equal((await server.post('/jobs', job)).status, 201);
        const res = await server.post('/jobs', { ...job, payload: [2] });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual((await server.job(res.json.id)).payload, [1, 2]);
        assert.equal(ended, 0);
        await server.signal('SIGKILL');
    });
});

describe('a filter that takes long in all', () => {
    const server = useServer({
        args: ['--jq-time-limit', '1s', '--jq-request-limit', '1s'],
    });

    it('is_stopped_at_the_limit_of_a_request', async () => {
        const queue = queueName();
        await fill(server, queue, numbers(2000));
        const res = await server.get(filtered('/jobs/count', queue,
            '[limit(50000; repeat(1))] | length == 0'));
        assertError(res, 422, 'unprocessable', /in total|all in all/);
    });
});
