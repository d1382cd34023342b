// SPDX-License-Identifier: Apache-2.0
'use strict';

// Reading jobs, counting and deleting them; queues, health and version.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { assertError, queueName, repeat, until, useServer } = require('./harness');

const UNKNOWN = '0'.repeat(24) + '1';

async function list(server, target) {
    const res = await server.get(target);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function listIds(server, target) {
    return (await list(server, target)).jobs.map((job) => job.id);
}

async function count(server, query) {
    return (await list(server, `/jobs/count${query}`)).count;
}

describe('one job', () => {
    const server = useServer();

    it('is_read_by_its_id', async () => {
        const job = await server.enqueue({ queue: 'q', payload: { x: [1, null] } });
        assert.deepEqual(await server.job(job.id), { ...job, payload: { x: [1, null] } });
    });

    it('is_not_found_if_there_is_none', async () => {
        for (const id of [UNKNOWN, 'x', '-', '0'.repeat(26), '%C3%A9', 'A'.repeat(25),
            'z'.repeat(25)])
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
    });

    it('is_deleted_in_every_status', async () => {
        const queue = queueName();
        const keep = { completed_ms: 60000 };
        const jobs = {
            ready: await server.enqueue({ queue }),
            scheduled: await server.enqueue({ queue, ready_at: Date.now() + 60000 }),
        };
        for (const [status, report] of [['in_flight', null], ['completed', 'success'],
            ['dead', 'failure']]) {
            const own = queueName();
            jobs[status] = await server.enqueue({ queue: own, retention: keep });
            await server.claimOne(own);
            if (report)
                await server.post(`/jobs/${jobs[status].id}/${report}`,
                    report === 'failure' ? { message: 'm', kill: true } : undefined);
        }
        for (const [status, { id }] of Object.entries(jobs)) {
            assert.equal((await server.job(id)).status, status);
            const res = await server.delete(`/jobs/${id}`);
            assert.equal(res.status, 204);
            assert.equal(res.text, '');
            assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
            assertError(await server.delete(`/jobs/${id}`), 404, 'not_found');
            assertError(await server.get(`/jobs/${id}/runs`), 404, 'not_found');
            assertError(await server.post(`/jobs/${id}/success`), 404, 'not_found');
        }
        assert.deepEqual(await server.claim({ queues: [queue] }), []);
    });

    it('is_not_deleted_if_there_is_none', async () => {
        for (const id of [UNKNOWN, 'x'])
            assertError(await server.delete(`/jobs/${id}`), 404, 'not_found');
    });
});

describe('the list of jobs', () => {
    const server = useServer();
    const made = {};

    it('is_empty_at_first', async () => {
        assert.deepEqual(await list(server, '/jobs'), {
            jobs: [],
            pages: { self: '/jobs?order=asc&limit=50', next: null, prev: null },
        });
    });

    it('has_every_status_queue_and_type', async () => {
        const soon = Date.now() + 3600000;
        const keep = { completed_ms: 3600000 };
        made.ready = await server.enqueue({ queue: 'a', type: 'x', payload: 'p' });
        made.scheduled = await server.enqueue({ queue: 'b', type: 'x', ready_at: soon });
        made.flying = await server.enqueue({ queue: 'c', type: 'y', retention: keep });
        await server.claimOne('c');
        made.completed = await server.enqueue({ queue: 'd', type: 'y', retention: keep });
        await server.claimOne('d');
        await server.post(`/jobs/${made.completed.id}/success`);
        made.dead = await server.enqueue({ queue: 'e', type: 'z' });
        await server.claimOne('e');
        await server.post(`/jobs/${made.dead.id}/failure`, { message: 'm', kill: true });
        const { jobs } = await list(server, '/jobs');
        assert.deepEqual(jobs.map((job) => [job.id, job.status]), [
            [made.ready.id, 'ready'], [made.scheduled.id, 'scheduled'],
            [made.flying.id, 'in_flight'],
            [made.completed.id, 'completed'], [made.dead.id, 'dead'],
        ]);
        assert.deepEqual(jobs[0], { ...made.ready, payload: 'p' });
    });

    const filters = {
        'status=ready': ['ready'],
        'status=dead,completed': ['completed', 'dead'],
        'status=in_flight': ['flying'],
        'status=ready,scheduled,in_flight': ['ready', 'scheduled', 'flying'],
        'status=blocked': [],
        'queue=a': ['ready'],
        'queue=a,e,a': ['ready', 'dead'],
        'queue=nope': [],
        'type=x': ['ready', 'scheduled'],
        'type=x,z': ['ready', 'scheduled', 'dead'],
        'type=x&queue=b': ['scheduled'],
        'type=x&queue=c': [],
        'queue=d&status=completed&type=y': ['completed'],
        'queue=d&status=dead': [],
    };
    for (const [query, names] of Object.entries(filters))
        it(`with_${query}_has_${names.join(' and ') || 'none'}`, async () => {
            const want = names.map((name) => made[name].id);
            assert.deepEqual(await listIds(server, `/jobs?${query}`), want);
            assert.deepEqual(await listIds(server, `/jobs?${query}&order=desc`),
                [...want].reverse());
            assert.equal(await count(server, `?${query}`), want.length);
        });

    it('with_ids_has_those', async () => {
        const wanted = [made.dead.id, UNKNOWN, made.ready.id, made.dead.id];
        assert.deepEqual(await listIds(server, `/jobs?id=${wanted}`),
            [made.ready.id, made.dead.id]);
        assert.deepEqual(await listIds(server, `/jobs?id=${wanted}&order=desc`),
            [made.dead.id, made.ready.id]);
        assert.deepEqual(await listIds(server, `/jobs?id=${wanted}&status=ready`), [made.ready.id]);
        assert.equal(await count(server, `?id=${wanted}`), 2);
        assertError(await server.get('/jobs?id=x'), 400, 'bad_id');
    });

    it('without_filters_counts_all', async () => {
        assert.equal(await count(server, ''), 5);
    });

    it('has_nothing_for_ids_and_behind_cursors_that_no_job_can_have', async () => {
        const beyond = 'z'.repeat(25), last = 'f5lxx1zz5pnorynqglhzmsp33';
        const all = await listIds(server, '/jobs');
        for (const from of [beyond, last]) {
            const page = await list(server, `/jobs?from=${from}`);
            assert.deepEqual([page.jobs, page.pages.next], [[], null]);
            assert.deepEqual(await listIds(server, `/jobs?from=${from}&order=desc`),
                [...all].reverse());
        }
        assert.deepEqual(await listIds(server, `/jobs?id=${beyond}`), []);
        assert.deepEqual(await listIds(server, `/jobs?id=${beyond},${all[0]}`), [all[0]]);
        assert.equal(await count(server, `?id=${beyond}`), 0);
    });

    it('reads_what_is_empty_as_absent', async () => {
        const queue = queueName();
        const ids = [...await server.enqueueMany(repeat(3, { queue }))].sort();
        for (const rest of ['status=', 'status=ready,', 'status=ready,,dead', 'status=,', 'type=&id=',
            'limit=&order=&from=', 'id=,', '&&group=', 'look_max', 'failed_at=&filter='])
            assert.deepEqual(await listIds(server, `/jobs?${rest}&queue=,${queue},`), ids, rest);
        assertError(await server.get('/jobs?stats='), 400, 'unknown_field');
        assertError(await server.get('/version?x='), 400, 'unknown_field');
    });

    const bad = {
        'status=gone': 'bad_value', 'status=READY': 'bad_value',
        'queue=a*': 'bad_name', 'type=%5B': 'bad_name', 'order=up': 'bad_value',
        'limit=0': 'bad_value', 'limit=2001': 'bad_value', 'limit=-1': 'bad_value',
        'limit=x': 'bad_value', 'limit=1.5': 'bad_value',
        'from=x': 'bad_id', 'queue=%zz': 'bad_request',
        'queue=%ff': 'bad_request',
        'queue=%': 'bad_request', 'queue=a&queue=b': 'duplicate_field',
        'limit=1&limit=2': 'duplicate_field',
    };
    for (const [query, code] of Object.entries(bad))
        it(`refuses_${query}`, async () => {
            assertError(await server.get(`/jobs?${query}`), 400, code);
        });

    it('has_all_of_2000_and_no_more_on_a_page', async () => {
        const ids = await server.enqueueMany(repeat(2001, { queue: 'many' }));
        const page = await list(server, '/jobs?queue=many&limit=2000');
        assert.deepEqual(page.jobs.map((job) => job.id), ids.slice(0, 2000));
        const rest = await list(server, page.pages.next);
        assert.deepEqual(rest.jobs.map((job) => job.id), ids.slice(2000));
        assert.equal(rest.pages.next, null);
        assert.equal((await listIds(server, '/jobs?queue=many')).length, 50);
    });
});

describe('pages of jobs', () => {
    const server = useServer();

    it('link_to_each_other_with_their_filters', async () => {
        const queue = 'a b&c=é+%';
        const ids = await server.enqueueMany(repeat(5, { queue }));
        const first = await list(server,
            `/jobs?limit=2&queue=${encodeURIComponent(queue)}&status=ready`);
        assert.equal(first.pages.prev, null);
        assert.match(first.pages.next, /^\/jobs\?from=[0-9a-z]{25}&order=asc&limit=2&queue=/);
        const again = await list(server, first.pages.self);
        assert.deepEqual(again, first);
        const second = await list(server, first.pages.next);
        assert.deepEqual(second.jobs.map((job) => job.id), ids.slice(2, 4));
        const third = await list(server, second.pages.next);
        assert.deepEqual(third.jobs.map((job) => job.id), ids.slice(4));
        assert.equal(third.pages.next, null);
        const back = await listIds(server, third.pages.prev);
        assert.deepEqual(back.sort(), ids.slice(2, 4));
        assert.deepEqual((await listIds(server, second.pages.prev)).sort(), ids.slice(0, 2));
    });

    it('end_exactly_with_the_last_job', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(4, { queue }));
        const first = await list(server, `/jobs?queue=${queue}&limit=2`);
        const second = await list(server, first.pages.next);
        assert.deepEqual(second.jobs.map((job) => job.id), ids.slice(2));
        assert.equal(second.pages.next, null, 'no empty page follows');
    });

    it('go_on_after_the_job_they_start_from_was_deleted', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(4, { queue }));
        const first = await list(server, `/jobs?queue=${queue}&limit=2`);
        await server.delete(`/jobs/${ids[1]}`);
        assert.deepEqual(await listIds(server, first.pages.next), ids.slice(2));
    });

    // Walks all pages while other jobs come and go; returns the ids met.
    async function walk(from, link, disturb) {
        const met = [];
        for (let target = from; target;) {
            const page = await list(server, target);
            met.push(...page.jobs.map((job) => job.id));
            await disturb(page);
            target = page.pages[link];
        }
        return met;
    }

    for (const [order, status] of [['asc', ''], ['desc', ''], ['asc', '&status=dead'],
        ['desc', '&status=dead'], ['asc', '&status=in_flight'], ['desc', '&status=in_flight']]) {
        it(`${order}${status}_skip_and_repeat_none_while_jobs_come_and_go`, async () => {
            const queue = queueName();
            const ids = await server.enqueueMany(repeat(60, { queue }));
            const claimed = await server.claim({ queues: [queue], count: 60, lease_ms: 600000 });
            assert.equal(claimed.length, 60);
            if (status === '&status=dead')
                for (const id of ids)
                    await server.post(`/jobs/${id}/failure`, { message: 'm', kill: true });
            // Every third job goes at some time; the others must be met exactly once.
            const going = ids.filter((_, i) => i % 3 === 1);
            const staying = ids.filter((_, i) => i % 3 !== 1);
            const disturb = async () => {
                await server.enqueueMany(repeat(3, { queue }));
                for (const id of [going.shift(), going.pop()])
                    if (id)
                        await server.delete(`/jobs/${id}`);
            };
            const met = await walk(`/jobs?queue=${queue}&order=${order}&limit=7${status}`, 'next',
                disturb);
            assert.equal(new Set(met).size, met.length, 'none twice');
            const sorted = order === 'asc' ? [...met].sort() : [...met].sort().reverse();
            assert.deepEqual(met, sorted);
            assert.deepEqual(met.filter((id) => staying.includes(id)).sort(), staying,
                'none skipped');
        });
    }

    it('walked_backwards_meet_the_same_jobs', async () => {
        const queue = queueName();
        const ids = await server.enqueueMany(repeat(20, { queue }));
        let page = await list(server, `/jobs?queue=${queue}&limit=6`);
        while (page.pages.next)
            page = await list(server, page.pages.next);
        // The link leads the other way: its next pages go on to the first job.
        const last = page.jobs.map((job) => job.id);
        const before = await walk(page.pages.prev, 'next', () => server.enqueueMany([{ queue }]));
        assert.deepEqual([...before.reverse(), ...last], ids);
    });
});

describe('deleting many jobs', () => {
    const server = useServer();

    it('deletes_what_the_filters_say', async () => {
        const [a, b] = [queueName(), queueName()];
        const ids = await server.enqueueMany([
            { queue: a, type: 'x' }, { queue: a, type: 'y' }, { queue: b, type: 'x' },
            { queue: a, type: 'x', ready_at: Date.now() + 60000 },
        ]);
        const res = await server.delete(`/jobs?queue=${a}&type=x&status=ready`);
        assert.equal(res.status, 200);
        assert.deepEqual(res.json, { deleted: 1 });
        assert.deepEqual(await listIds(server, `/jobs?queue=${a},${b}`), ids.slice(1));
        assert.deepEqual((await server.delete(`/jobs?id=${ids[1]},${ids[1]},${UNKNOWN}`)).json,
            { deleted: 1 });
        assert.deepEqual((await server.delete(`/jobs?queue=${a}`)).json, { deleted: 1 });
        assert.deepEqual((await server.delete(`/jobs?queue=${a}`)).json, { deleted: 0 });
        assert.deepEqual(await listIds(server, `/jobs?queue=${a},${b}`), [ids[2]]);
    });

    it('ends_the_runs_of_jobs_in_flight', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const { id, token } = await server.claimOne(queue);
        assert.deepEqual((await server.delete(`/jobs?queue=${queue}`)).json, { deleted: 1 });
        assertError(await server.post(`/jobs/${id}/success`, { token }), 404, 'not_found');
    });

    it('deletes_nothing_if_a_filter_is_misspelt', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(3, { queue }));
        const before = await count(server, '');
        const cases = {
            [`queu=${queue}`]: 'unknown_field', [`queue=${queue}&stats=dead`]: 'unknown_field',
            'limit=1': 'unknown_field', 'status=': 'bad_value', 'queue=': 'bad_value',
            'queue=,': 'bad_value', 'status=,,': 'bad_value', 'id=,': 'bad_value',
            'status=reddy': 'bad_value', 'id=x': 'bad_id',
            [`queue=${queue}&queue=x`]: 'duplicate_field',
            'Queue=x': 'unknown_field', '=x': 'unknown_field',
        };
        for (const [query, code] of Object.entries(cases))
            assertError(await server.delete(`/jobs?${query}`), 400, code);
        assert.equal(await count(server, ''), before);
    });

    it('deletes_all_without_filters', async () => {
        await server.enqueueMany(repeat(3000, { queue: 'lots' }));
        const all = await count(server, '');
        assert.ok(all >= 3000);
        assert.deepEqual((await server.delete('/jobs')).json, { deleted: all });
        assert.equal(await count(server, ''), 0);
        assert.deepEqual((await server.get('/queues')).json, { queues: [] });
    });
});

describe('ids at the ends of their range', () => {
    const server = useServer();
    const SMALLEST = '0'.repeat(25), LARGEST = 'f5lxx1zz5pnorynqglhzmsp33';
    let job;

    before(async () => { job = await server.enqueue({ queue: 'kept' }); });

    for (const id of [SMALLEST, LARGEST]) {
        it(`name_no_job_as_a_filter: ${id}`, async () => {
            const both = `id=${id},${job.id}`;
            assert.equal(await count(server, `?id=${id}`), 0);
            assert.equal(await count(server, `?${both}`), 1);
            for (const order of ['asc', 'desc']) {
                assert.deepEqual(await listIds(server, `/jobs?id=${id}&order=${order}`), []);
                assert.deepEqual(await listIds(server, `/jobs?${both}&order=${order}`), [job.id]);
            }
            assert.deepEqual((await server.patch(`/jobs?id=${id}`, { priority: 7 })).json,
                { patched: 0 });
            assert.deepEqual((await server.post(`/jobs/retry?id=${id}`)).json, { retried: 0 });
            assert.deepEqual((await server.delete(`/jobs?id=${id}`)).json, { deleted: 0 });
            assert.deepEqual((await server.delete(`/jobs?id=${id}&dry_run=true`)).json.count, 0);
        });

        it(`name_no_job_in_a_path: ${id}`, async () => {
            for (const [method, path] of [['GET', ''], ['DELETE', ''], ['GET', '/runs'],
                ['GET', '/errors'], ['GET', '/errors/1'], ['GET', '/explain'], ['POST', '/success'],
                ['POST', '/cancel'], ['POST', '/retry']])
                assertError(await server.request(method, `/jobs/${id}${path}`), 404, 'not_found');
            assertError(await server.patch(`/jobs/${id}`, { priority: 7 }), 404, 'not_found');
            assertError(await server.post(`/jobs/${id}/failure`, { message: 'm' }), 404,
                'not_found');
            assertError(await server.post('/jobs', { queue: 'q', type: 't', payload: null,
                depends_on: [id] }), 422, 'unprocessable');
        });
    }

    it('are_places_between_pages_like_any_other', async () => {
        for (const status of ['', '&status=in_flight', '&status=completed,dead']) {
            const some = status ? [] : [job.id];
            assert.deepEqual(await listIds(server, `/jobs?from=${SMALLEST}${status}`), some);
            assert.deepEqual(await listIds(server, `/jobs?from=${LARGEST}${status}`), []);
            assert.deepEqual(await listIds(server, `/jobs?from=${SMALLEST}&order=desc${status}`), []);
            assert.deepEqual(await listIds(server, `/jobs?from=${LARGEST}&order=desc${status}`), some);
        }
        const { pages } = await list(server, `/jobs?from=${SMALLEST}`);
        assert.ok(pages.self.includes(`from=${SMALLEST}`));
        assert.ok(pages.prev.includes(`from=${job.id}`));
    });

    it('come_once_however_often_they_are_given', async () => {
        assert.deepEqual(await listIds(server, `/jobs?id=${job.id},${job.id},${job.id}`), [job.id]);
        assert.equal(await count(server, `?id=${job.id},${job.id}`), 1);
    });
});

describe('numbers at the ends of their range', () => {
    const server = useServer();

    it('are_numbers_or_refused', async () => {
        const { id } = await server.enqueue({ queue: 'q', ready_at: 0 });
        assert.equal((await server.job(id)).ready_at, 0);
        assert.equal((await server.get('/jobs/count?ready_at=0')).json.count, 1);
        assert.equal((await server.get('/jobs/count?priority=0..0')).json.count, 0);
        for (const ready_at of [-1, '9223372036854775807', '9223372036854775808'])
            assert.ok((await server.post('/jobs',
                `{"queue":"q","type":"t","payload":1,"ready_at":${ready_at}}`)).status >= 400);
        const { token } = await server.claimOne('q');
        for (const none of ['0'.repeat(16), '', 'f'.repeat(16)])
            assert.ok((await server.post(`/jobs/${id}/success`, { token: none })).status >= 400);
        assert.equal((await server.job(id)).status, 'in_flight');
        for (const since of ['18446744073709551615', '9223372036854775807', '-1'])
            assertError(await server.get(`/events?since=${since}&follow=false`), 400, 'bad_value');
        assertError(await server.get(`/jobs/${id}/runs?from=-1`), 400, 'bad_value');
        assert.deepEqual((await server.get(`/jobs/${id}/runs?from=4294967295`)).json.runs, []);
        assert.deepEqual((await server.get(`/jobs/${id}/runs?from=0&order=desc`)).json.runs, []);
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
    });
});

describe('a command that has to look at very many jobs', () => {
    const server = useServer();

    async function fill() {
        const jobs = Array.from({ length: 5000 }, () => ({ queue: 'q', type: 't', payload: null }));
        for (let i = 0; i < 8; i++)
            assert.equal((await server.post('/jobs/bulk', { jobs })).status, 201);
    }

    before(fill);

    for (const [method, target, answer] of [
        ['GET', '/jobs/count?type=other', { count: 0 }],
        ['DELETE', '/jobs?type=t', { deleted: 40000 }],
    ])
        it(`does_not_hold_up_others_while_it_does: ${method} ${target}`, async () => {
            let served = -1;
            // On a busy machine this process may not get to ask while the server is at it.
            await until(async () => {
                if (served >= 0 && method === 'DELETE')
                    await fill();
                let over = false;
                served = 0;
                const all = server.request(method, target).finally(() => { over = true; });
                while (!over) {
                    assert.equal((await server.get('/version')).status, 200);
                    served += !over;
                }
                assert.deepEqual((await all).json, answer);
                return served >= 5;
            }, () => `enough requests are answered meanwhile; at last ${served}`);
        });
});

describe('what the server says of itself', () => {
    const server = useServer();

    it('is_its_queues', async () => {
        assert.deepEqual((await server.get('/queues')).json, { queues: [] });
        await server.enqueueMany(
            [{ queue: 'beta' }, { queue: 'alpha' }, { queue: 'é "x"' }, { queue: 'beta' }]);
        const { queues } = (await server.get('/queues')).json;
        assert.deepEqual([...queues].sort(), ['alpha', 'beta', 'é "x"']);
        const { jobs } = await list(server, '/jobs?queue=alpha');
        await server.delete(`/jobs/${jobs[0].id}`);
        assert.ok(!(await server.get('/queues')).json.queues.includes('alpha'));
    });

    it('is_its_health_and_how_many_jobs_it_has', async () => {
        const before = (await server.get('/health')).json;
        assert.equal(before.status, 'ok');
        await server.enqueue({ queue: 'h' });
        await server.enqueue({ queue: 'h', ready_at: Date.now() + 60000 });
        const { jobs } = (await server.get('/health')).json;
        assert.equal(jobs.ready, before.jobs.ready + 1);
        assert.equal(jobs.scheduled, before.jobs.scheduled + 1);
        assert.equal(jobs.in_flight, 0);
    });

    it('is_its_version', async () => {
        const res = await server.get('/version');
        assert.equal(res.status, 200);
        assert.match(res.json.version, /^\d+\.\d+\.\d+/);
        assert.equal(res.json.server, 'tenax');
    });
});

describe('a dry run of what has none', () => {
    const server = useServer();

    it('is_refused_and_changes_nothing', async () => {
        const { id } = await server.enqueue({ queue: 'q' });
        const refused = (res) => assertError(res, 400, 'unknown_field', /'dry_run'/);
        refused(await server.delete(`/jobs/${id}?dry_run=true`));
        for (const action of ['cancel', 'retry', 'success'])
            refused(await server.post(`/jobs/${id}/${action}?dry_run=true`));
        refused(await server.get(`/jobs/${id}?dry_run=true`));
        assert.equal((await server.get(`/jobs/${id}`)).json.status, 'ready');
    });
});

describe('a parameter that is not known', () => {
    const server = useServer();

    it('is_refused_by_every_path', async () => {
        for (const target of ['/health?queu=1', '/version?queu=1', '/queues?queu=1', '/crons?queu=1',
            '/events?queu=1', '/metrics?queu=1', '/jobs?queu=a', '/jobs/count?queu=a', '/jobs/take?queu=a',
            '/jobs/count?limit=1'])
            assertError(await server.get(target), 400, 'unknown_field', /queu|limit/);
        const { id } = await server.enqueue({ queue: 'q' });
        for (const tail of ['runs', 'errors'])
            assertError(await server.get(`/jobs/${id}/${tail}?x=1`), 400, 'unknown_field');
        for (const tail of ['', '/explain', '/errors/1'])
            assertError(await server.get(`/jobs/${id}${tail}?x=1`), 400, 'unknown_field', /'x'/);
        for (const target of ['/jobs', '/jobs/bulk', '/jobs/claim', `/jobs/${id}/cancel`, '/reset'])
            assertError(await server.post(`${target}?x=1`, {}), 400, 'unknown_field', /'x'/);
        assertError(await server.delete(`/jobs/${id}?x=1`), 400, 'unknown_field', /'x'/);
        assert.equal((await server.get(`/jobs/${id}?`)).json.status, 'ready');
    });
});

describe('a list by what became of jobs', () => {
    const server = useServer();
    const queue = queueName();
    const ids = {};

    // One run of the newest job, by that worker; report says how it ends.
    async function run(name, worker, report, fields = {}) {
        const job = await server.enqueue({ queue, retry_limit: 0, ...fields });
        ids[name] = job.id;
        const { id } = await server.claimOne(queue, { worker });
        if (report)
            assert.equal((await server.post(`/jobs/${id}/failure`, report)).status, 200);
    }

    before(async () => {
        await run('refused', 'w1', { message: 'connect ECONNREFUSED', error_type: 'IOError' });
        await run('long', 'w2', { message: 'é'.repeat(600) });
        await run('later', 'w1', { message: 'timeout', retry_at: Date.now() + 600000 });
        await run('busy', 'w3');
        ids.canceled = (await server.enqueue({ queue })).id;
        await server.post(`/jobs/${ids.canceled}/cancel`);
    });

    const found = async (filter) => {
        const all = await listIds(server, `/jobs?queue=${queue}&${filter}`);
        assert.equal(await count(server, `?queue=${queue}&${filter}`), all.length);
        return all.map((id) => Object.keys(ids).find((name) => ids[name] === id));
    };

    it('goes_by_error_worker_resolution_and_time', async () => {
        assert.deepEqual(await found('error=ECONN'), ['refused']);
        assert.deepEqual(await found('error=IOError'), ['refused']);
        assert.deepEqual(await found('error=timeout'), ['later']);
        assert.deepEqual(await found('error=econn'), []);
        assert.deepEqual(await found('worker=w1'), ['refused', 'later']);
        assert.deepEqual(await found('worker=w3,w2'), ['long', 'busy']);
        assert.deepEqual(await found('worker=w'), []);
        assert.deepEqual(await found('resolution=canceled'), ['canceled']);
        assert.deepEqual(await found('resolution=failed,poison'), ['refused', 'long']);
        assert.equal((await found('since=1')).length, 5);
        assert.deepEqual(await found(`since=${Date.now() + 60000}`), []);
        const { failed_at } = await server.job(ids.long);
        assert.ok((await found(`since=${failed_at}`)).includes('long'));
        assert.ok(!(await found(`since=${failed_at + 1}`)).includes('long'));
    });

    it('goes_by_all_of_them_together_with_a_jq_expression', async () => {
        assert.deepEqual(await found('worker=w1&error=ECONN&filter=true&since=1'), ['refused']);
        assert.deepEqual(await found('worker=w2&error=ECONN&filter=true'), []);
    });

    it('shows_the_error_of_the_dead', async () => {
        const { jobs } = await list(server, `/jobs?queue=${queue}`);
        const errors = Object.fromEntries(jobs.map((job) => [job.id, job.error]));
        assert.deepEqual(errors[ids.refused],
            { message: 'connect ECONNREFUSED', error_type: 'IOError' });
        assert.deepEqual(errors[ids.long], { message: 'é'.repeat(500) });
        for (const name of ['later', 'busy', 'canceled'])
            assert.equal(errors[ids[name]], undefined, name);
    });

    it('refuses_what_it_does_not_know', async () => {
        for (const query of ['resolution=gone', 'since=yesterday'])
            assertError(await server.get(`/jobs?${query}`), 400, 'bad_value');
        assertError(await server.get('/jobs?since=1&since=2'), 400, 'duplicate_field');
    });
});
