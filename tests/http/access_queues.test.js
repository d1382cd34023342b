// SPDX-License-Identifier: Apache-2.0
'use strict';

// Credentials that are limited to queues see and change what is in them; of the rest they cannot
// even tell whether it exists. Viewers see no payloads. Workers report the runs that they hold.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, until } = require('./harness');
const { guarded } = require('./access');

const NO_JOB = '03fr82s077azjmurys29qjch4';

// A server with two jobs, mine in mail-in and theirs in other; who is limited to mail-*.
async function shared(t, roles = ['operator']) {
    const made = await guarded(t, {
        who: { roles, queues: ['mail-*'] }, all: { roles: ['operator'] },
    });
    const enqueue = async (queue, fields = {}) => {
        const res = await made.as('all').post('/jobs', { queue, type: 't', payload: { in: queue }, ...fields });
        assert.equal(res.status, 201, res.text);
        return res.json.id;
    };
    return { ...made, enqueue, mine: await enqueue('mail-in'), theirs: await enqueue('other') };
}

// The same answer, but for the id that was asked for.
async function assertAsIfAbsent(ask, theirs) {
    const [one, none] = [await ask(theirs), await ask(NO_JOB)];
    assert.equal(one.status, none.status, one.text);
    assert.equal(one.text.replaceAll(theirs, 'ID'), none.text.replaceAll(NO_JOB, 'ID'));
}

describe('credentials that are limited to queues', () => {
    it('see_stop_and_undo_the_operations_that_they_could_have_asked_for', async (t) => {
        const { as, server } = await guarded(t, {
            who: { roles: ['operator'], queues: ['mail-*'] }, near: { roles: ['operator'], queues: ['mail-in', 'sms'] },
            wide: { roles: ['operator'], queues: ['mail*'] }, viewer: { roles: ['viewer'], queues: ['mail-*'] },
            all: { roles: ['operator'] },
        });
        for (const queue of ['mail-in', 'sms'])
            assert.equal((await as('all').post('/jobs', { queue, type: 't', payload: 1 })).status, 201);
        const remove = async (name) => {
            const res = await as(name).delete('/jobs?queue=mail-in&undo=1h');
            assert.equal(res.status, 200, res.text);
            return res.json.operation;
        };
        const undone = await remove('who');
        const answer = await as('who').post(`/operations/${undone}/undo`);
        assert.deepEqual([answer.status, answer.json.undo?.state], [200, 'done'], answer.text);
        assert.equal((await as('who').get('/jobs/count?queue=mail-in')).json.count, 1);
        const [own, others] = [await remove('who'), await remove('all')];
        for (const restart of [false, true]) {
            if (restart) {
                await server.signal('SIGKILL');
                await server.start();
            }
            const seen = async (name) => (await as(name).get('/operations')).json.operations.map((op) => op.id);
            assert.ok((await seen('who')).includes(own) && !(await seen('who')).includes(others));
            assert.deepEqual(await seen('wide'), await seen('who'));
            assert.deepEqual(await seen('near'), []);
            assert.ok((await seen('all')).includes(own) && (await seen('all')).includes(others));
            for (const [name, id] of [['who', others], ['near', own], ['wide', others]]) {
                assertError(await as(name).get(`/operations/${id}`), 404, 'not_found');
                for (const verb of ['stop', 'undo'])
                    assertError(await as(name).post(`/operations/${id}/${verb}`), 404, 'not_found');
            }
            assertError(await as('viewer').post(`/operations/${own}/undo`), 403, 'insufficient_rights');
            assert.equal((await as('who').get(`/operations/${own}`)).json.undo.state, 'available');
        }
        assert.equal((await as('wide').post(`/operations/${own}/undo`)).status, 200);
        assert.equal((await as('all').get('/jobs/count?queue=mail-in')).json.count, 1);
    });

    it('see_a_job_of_another_queue_like_one_that_is_not_there', async (t) => {
        const { as, mine, theirs } = await shared(t);
        const who = as('who');
        for (const target of ['', '/runs', '/errors', '/errors/1', '/explain'])
            await assertAsIfAbsent((id) => who.get(`/jobs/${id}${target}`), theirs);
        for (const [target, body] of [['/cancel'], ['/retry'], ['/success'], ['/release'],
            ['/failure', { message: 'no' }], ['/renew'], ['/progress', { progress: { value: 1 } }],
            ['/claim'], ['/terminated', { run: 0, token: '0123456789abcdef' }]])
            await assertAsIfAbsent((id) => who.post(`/jobs/${id}${target}`, body), theirs);
        await assertAsIfAbsent((id) => who.patch(`/jobs/${id}`, { priority: 1 }), theirs);
        await assertAsIfAbsent((id) => who.delete(`/jobs/${id}`), theirs);
        assert.equal((await as('all').get(`/jobs/${theirs}`)).json.status, 'ready');
        assert.equal((await who.get(`/jobs/${mine}`)).json.payload.in, 'mail-in');
    });

    it('list_count_and_change_in_bulk_what_is_theirs', async (t) => {
        const { as, mine, theirs, enqueue } = await shared(t);
        const who = as('who');
        await enqueue('mail-out');
        const ids = async (query) => (await who.get(`/jobs${query}`)).json.jobs.map((job) => job.queue);
        assert.deepEqual(await ids(''), ['mail-in', 'mail-out']);
        assert.deepEqual(await ids('?status=ready'), ['mail-in', 'mail-out']);
        assert.deepEqual(await ids(`?id=${mine},${theirs}`), ['mail-in']);
        assert.deepEqual(await ids('?filter=.in%3D%3D%22other%22'), []);
        assert.equal((await who.get('/jobs/count')).json.count, 2);
        assert.equal((await who.get('/jobs/count?status=ready')).json.count, 2);
        for (const target of ['/jobs?queue=other', '/jobs?queue=mail-in,other', '/jobs/count?queue=none'])
            assertError(await who.get(target), 403, 'insufficient_rights');
        assert.equal((await who.patch('/jobs', { priority: 3 })).json.patched, 2);
        assert.equal((await who.post('/jobs/cancel')).json.canceled, 2);
        assert.equal((await who.post('/jobs/retry')).json.retried, 0);
        assert.equal((await who.delete('/jobs')).json.deleted, 2);
        assertError(await who.delete('/jobs?queue=other'), 403, 'insufficient_rights');
        assert.equal((await as('all').get(`/jobs/${theirs}`)).json.priority, 32768);
    });

    it('enqueue_and_move_jobs_only_into_their_queues', async (t) => {
        const { as, mine, theirs } = await shared(t);
        const who = as('who');
        const job = { queue: 'mail-x', type: 't', payload: 1 };
        assert.equal((await who.post('/jobs', job)).status, 201);
        assertError(await who.post('/jobs', { ...job, queue: 'other' }), 403, 'insufficient_rights');
        assertError(await who.post('/jobs/bulk', { jobs: [job, { ...job, queue: 'other' }] }), 403,
            'insufficient_rights');
        assert.equal((await who.get('/jobs/count?queue=mail-x')).json.count, 1, 'none of the bulk');
        assertError(await who.patch(`/jobs/${mine}`, { queue: 'other' }), 403, 'insufficient_rights');
        assertError(await who.patch('/jobs', { queue: 'other' }), 403, 'insufficient_rights');
        assert.equal((await who.patch(`/jobs/${mine}`, { queue: 'mail-x' })).status, 200);
        assert.equal((await who.post('/jobs', { ...job, depends_on: [mine] })).status, 201);
        await assertAsIfAbsent((id) => who.post('/jobs', { ...job, depends_on: [mine, id] }), theirs);
        await assertAsIfAbsent((id) => who.post('/jobs/bulk', { jobs: [job, { ...job, depends_on: [id] }] }),
            theirs);
    });

    it('are_told_what_jobs_wait_for_in_their_queues_only', async (t) => {
        const { as } = await shared(t);
        const seen = (await as('who').get('/explain')).json.queues.map(({ queue }) => queue);
        assert.ok(seen.length > 0 && seen.every((name) => name.startsWith('mail-')), seen.join());
        assert.ok((await as('all').get('/explain')).json.queues.length > seen.length);
        assertError(await as('who').get('/explain?queue=other'), 403, 'insufficient_rights');
    });

    it('learn_nothing_of_who_has_their_keys', async (t) => {
        const { as, enqueue } = await shared(t);
        const id = await enqueue('hidden', { unique_key: 'k', alias: 'a' });
        const job = { queue: 'mail-x', type: 't', payload: 1 };
        for (const key of [{ unique_key: 'k' }, { alias: 'a' }]) {
            const res = await as('who').post('/jobs', { ...job, ...key });
            assert.equal(res.status, 201, res.text);
            assert.notEqual(res.json.id, id);
            // One of their own that an operator has moved away has the key still.
            assert.equal((await as('all').patch(`/jobs/${res.json.id}`, { queue: 'hidden' })).status, 200);
            const again = await as('who').post('/jobs', { ...job, ...key });
            assertError(again, 409, 'conflict');
            assert.ok(!again.text.includes(res.json.id) && !again.text.includes('hidden'), again.text);
        }
        assert.equal((await as('who').post('/jobs', { ...job, unique_key: 'k2' })).status, 201);
        assert.equal((await as('who').post('/jobs', { ...job, unique_key: 'k2' })).json.duplicate, true);
    });

    it('see_and_set_their_queues', async (t) => {
        const { as, enqueue } = await shared(t);
        const who = as('who');
        for (const queue of ['a', 'mail-a', 'mail-b', 'z'])
            await enqueue(queue);
        assert.deepEqual((await who.get('/queues')).json.queues, ['mail-a', 'mail-b', 'mail-in']);
        const names = (res) => res.json.queues.map((queue) => queue.name);
        assert.deepEqual(names(await who.get('/queues?details=true')), ['mail-a', 'mail-b', 'mail-in']);
        const page = await who.get('/queues?details=true&limit=2');
        assert.deepEqual(names(page), ['mail-a', 'mail-b']);
        assert.deepEqual(names(await who.get(page.json.pages.next)), ['mail-in']);
        assert.deepEqual(names(await as('all').get('/queues?details=true&limit=6')),
            ['a', 'mail-a', 'mail-b', 'mail-in', 'other', 'z']);
        assert.equal((await who.put('/queues/mail-a', { paused: true })).status, 200);
        assert.equal((await who.get('/queues/mail-a/next')).status, 200);
        for (const queue of ['other', 'none'])
            for (const res of [await who.get(`/queues/${queue}`), await who.put(`/queues/${queue}`, {}),
                await who.patch(`/queues/${queue}`, {}), await who.delete(`/queues/${queue}`),
                await who.get(`/queues/${queue}/next`), await who.post('/queues', { name: queue })])
                assertError(res, 403, 'insufficient_rights');
    });

    it('see_the_workers_that_take_from_their_queues_alone', async (t) => {
        const { as } = await shared(t, ['viewer']);
        for (const [worker, queues] of [['a', ['mail-a', 'mail-b']], ['b', ['mail-a', 'else']], ['c', ['else']],
            ['d', undefined], ['e', ['mail-e']]])
            assert.equal((await as('all').post('/jobs/claim', { worker, queues, wait_ms: 0, count: 1 })).status, 200);
        const names = (res) => res.json.workers.map(({ name }) => name);
        assert.deepEqual(names(await as('all').get('/workers')), ['a', 'b', 'c', 'd', 'e']);
        assert.deepEqual(names(await as('who').get('/workers')), ['a', 'e']);
        const page = await as('who').get('/workers?limit=1');
        assert.deepEqual(names(page), ['a']);
        assert.deepEqual(names(await as('who').get(page.json.next)), ['e']);
        assert.equal((await as('who').get('/workers/e')).json.name, 'e');
        const answers = [];
        for (const name of ['b', 'c', 'd', 'x'])
            answers.push((await as('who').get(`/workers/${name}`)).text.replace(`'${name}'`, 'NAME'));
        assert.equal(new Set(answers).size, 1, answers.join());
        assert.match(answers[0], /not_found/);
    });

    it('may_not_ask_about_the_server_as_a_whole', async (t) => {
        const { as } = await shared(t);
        for (const target of ['/metrics', '/budgets', '/crons', '/retry-policies', '/groups/g'])
            assertError(await as('who').get(target), 403, 'insufficient_rights', /about all/);
        assertError(await as('who').put('/settings/retry', {}), 403, 'insufficient_rights');
        assert.equal((await as('who').get('/settings/retry')).status, 200);
    });

    it('take_and_claim_from_their_queues', async (t) => {
        const { as, mine } = await shared(t, ['worker']);
        const who = as('who');
        assertError(await who.get('/jobs/take'), 403, 'insufficient_rights', /name some/);
        assertError(await who.get('/jobs/take?queue=mail-in,other'), 403, 'insufficient_rights');
        assertError(await who.post('/jobs/claim', { wait_ms: 0 }), 403, 'insufficient_rights');
        assertError(await who.post('/jobs/claim', { queues: ['other'], wait_ms: 0 }), 403, 'insufficient_rights');
        const take = await who.take('?queue=mail-in');
        assert.equal((await take.next()).id, mine);
        take.req.destroy();
    });

    it('take_from_all_of_their_queues_if_these_have_names', async (t) => {
        const { as } = await guarded(t, { who: { roles: ['worker'], queues: ['a', 'b'] } });
        for (const queue of ['c', 'b', 'a'])
            await as('admin').post('/jobs', { queue, type: 't', payload: 1 });
        const res = await as('who').post('/jobs/claim', { count: 10, wait_ms: 0 });
        assert.deepEqual(res.json.jobs.map((job) => job.queue), ['b', 'a']);
    });

    it('get_events_of_their_queues', async (t) => {
        const { as, mine, theirs, enqueue } = await shared(t, ['viewer']);
        const all = (await as('who').get('/events?since=0&follow=false')).text;
        assert.ok(all.includes(mine) && !all.includes(theirs), all);
        const live = await as('who').events('');
        await enqueue('other');
        const id = await enqueue('mail-in');
        assert.equal((await live.next()).id, id);
        live.req.destroy();
        assertError(await as('who').get('/events?queue=other&follow=false'), 403, 'insufficient_rights');
        assertError(await as('who').get('/events?messages=taskcluster&follow=false'), 403, 'insufficient_rights');
    });
});

const JOB = { queue: 'a', type: 't', payload: 1 };

describe('a request of an operator without a body', () => {
    it('has_no_type_that_any_page_can_send', async (t) => {
        const { server, as } = await guarded(t);
        await as('admin').post('/jobs', JOB);
        for (const type of ['text/plain', 'text/plain;charset=UTF-8', 'application/x-www-form-urlencoded',
            'multipart/form-data; boundary=x'])
            for (const target of ['/reset', '/jobs/cancel', '/jobs/retry'])
                assertError(await server.admin('POST', target, undefined, { ...as('admin').headers, 'content-type': type }),
                    415, 'unsupported_media_type');
        assert.equal((await as('admin').get('/jobs/count?status=ready')).json.count, 1);
        assert.equal((await server.admin('POST', '/reset', undefined, as('admin').headers)).status, 204);
    });
});

describe('a viewer', () => {
    it('sees_no_payloads_unless_that_was_said', async (t) => {
        const { as } = await guarded(t, { blind: { roles: ['viewer'] },
            seeing: { roles: ['viewer'], payloads: true } });
        const { id } = (await as('admin').post('/jobs',
            { queue: 'a', type: 't', payload: { secret: 'xyzzy' } })).json;
        const [{ token }] = (await as('admin').post('/jobs/claim', { queues: ['a'] })).json.jobs;
        await as('admin').post(`/jobs/${id}/progress`, { token, checkpoint: 'xyzzy',
            progress: { value: 0.5 } });
        const entry = { name: 'e', expression: '0 3 * * *', job: { ...JOB, payload: { secret: 'xyzzy' } } };
        assert.equal((await as('admin').put('/crons/g', { entries: [entry] })).status, 200);
        for (const target of ['/crons/g', '/crons/g/entries/e']) {
            assert.match((await as('seeing').get(target)).text, /xyzzy/);
            const { status, text } = await as('blind').get(target);
            assert.deepEqual([status, /"job"/.test(text), /payload|xyzzy/.test(text)], [200, true, false], text);
        }
        for (const target of [`/jobs/${id}`, '/jobs', '/queues/a/next', `/jobs/${id}?runs=true`,
            `/jobs/${id}/explain`, '/events?since=0&follow=false']) {
            const res = await as('blind').get(target);
            assert.equal(res.status, 200, res.text);
            assert.ok(!res.text.includes('xyzzy'), `${target}: ${res.text}`);
        }
        assert.equal((await as('blind').get(`/jobs/${id}`)).json.progress.value, 0.5);
        assertError(await as('blind').get('/jobs?filter=true'), 403, 'insufficient_rights', /payloads/);
        assert.equal((await as('seeing').get(`/jobs/${id}`)).json.payload.secret, 'xyzzy');
        assert.equal((await as('seeing').get('/jobs')).json.jobs[0].payload.secret, 'xyzzy');
    });
});

describe('what a container wrote', () => {
    it('is_shown_to_those_who_may_see_payloads', async (t) => {
        const { as } = await guarded(t, { blind: { roles: ['viewer'] }, seeing: { roles: ['viewer'], payloads: true } });
        const { id } = (await as('admin').post('/jobs', { ...JOB, retry_limit: 0 })).json;
        const [{ token }] = (await as('admin').post('/jobs/claim', { queues: ['a'] })).json.jobs;
        const failed = await as('admin').post(`/jobs/${id}/failure`, { token, message: 'no',
            termination_message: 'secret abracadabra',
            containers: [{ name: 'main', exit_code: 3, log: 'secret xyzzy', message: 'secret abracadabra' }] });
        assert.equal(failed.status, 200, failed.text);
        const tried = (name) => as(name).post('/retry-policies/simulate', { policies: [] });
        assert.match((await tried('seeing')).text, /abracadabra/);
        const { status, text } = await tried('blind');
        assert.ok(status === 200 && text.includes(id) && !text.includes('abracadabra'), text);
        for (const target of ['?runs=true', '/runs', '/errors', '/errors/1', '/explain']) {
            const [blind, seeing] = [await as('blind').get(`/jobs/${id}${target}`), await as('seeing').get(`/jobs/${id}${target}`)];
            assert.equal(seeing.text.match(/xyzzy|abracadabra/g)?.length, 3, `${target}: ${seeing.text}`);
            assert.ok(blind.status === 200 && blind.text.includes('main') && !/xyzzy|abracadabra/.test(blind.text), blind.text);
        }
    });

    it('is_not_guessed_by_the_patterns_of_a_draft_nor_payloads_by_filters', async (t) => {
        const { as } = await guarded(t, { blind: { roles: ['viewer'] }, seeing: { roles: ['viewer'], payloads: true } });
        const action = async (name, pattern) => {
            const draft = { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'guess' }, spec: { defaultAction: 'Fail',
                rules: [{ action: 'Retry', onTerminationMessage: { pattern } }] } };
            const res = await as(name).post('/retry-policies/simulate', { policies: [draft] });
            assert.equal(res.status, 200, res.text);
            return res.json.jobs[0].failures[0].draft.action;
        };
        const { id } = (await as('admin').post('/jobs', { ...JOB, retry_limit: 0 })).json;
        const [{ token }] = (await as('admin').post('/jobs/claim', { queues: ['a'] })).json.jobs;
        await as('admin').post(`/jobs/${id}/failure`, { token, message: 'no', termination_message: 'secret abracadabra' });
        // Of a job that is stored, and of one that only the history knows.
        for (const gone of [false, true]) {
            assert.equal(await action('seeing', '^secret a'), 'Retry', `gone: ${gone}`);
            assert.equal(await action('blind', '^secret a'), 'Fail', `gone: ${gone}`);
            if (!gone)
                assert.equal((await as('admin').delete(`/jobs/${id}`)).status, 204);
        }
        const filter = encodeURIComponent('.secret | startswith("x")');
        for (const target of ['/jobs', '/jobs/count'])
            assertError(await as('blind').get(`${target}?filter=${filter}`), 403, 'insufficient_rights', /payloads/);
    });
});

describe('a worker', () => {
    it('reports_only_runs_that_it_holds', async (t) => {
        const { as } = await guarded(t, { one: { roles: ['worker'] }, two: { roles: ['worker'] } });
        for (let i = 0; i < 3; i++)
            await as('admin').post('/jobs', JOB);
        const jobs = (await as('one').post('/jobs/claim',
            { queues: ['a'], count: 3, worker: 'w' })).json.jobs;
        const [{ id, token }] = jobs;
        for (const [verb, body] of [['success', {}], ['success', { run: 0 }], ['release', {}],
            ['failure', { message: 'no' }], ['renew', {}], ['progress', { progress: { value: 1 } }]])
            for (const [name, status, code] of [['two', 403, 'insufficient_rights'],
                ['one', 422, 'run_token_required'], ['admin', 422, 'run_token_required']])
                assertError(await as(name).post(`/jobs/${id}/${verb}`, { ...body, token: null }), status, code,
                    /token/);
        assertError(await as('two').post(`/jobs/${NO_JOB}/success`), 403, 'insufficient_rights');
        assertError(await as('two').post(`/jobs/${id}/success`, { token: '0123456789abcdef' }), 409,
            'stale_token');
        assertError(await as('two').post(`/jobs/${id}/claim`, { worker: 'w' }), 409, 'conflict');
        assert.equal((await as('one').post(`/jobs/${id}/claim`, { worker: 'w' })).json.token, token);
        const bulk = await as('two').post('/jobs/success', { ids: [id, jobs[1].id] });
        assert.equal(bulk.status, 422);
        assert.deepEqual(bulk.json.not_found.sort(), [id, jobs[1].id].sort());
        assert.equal((await as('one').post(`/jobs/${id}/success`, { token })).status, 204);
        assert.equal((await as('one').post('/jobs/success', { ids: [jobs[1].id] })).status, 204, 'its first run');
        assert.equal((await as('admin').post(`/jobs/${jobs[2].id}/success`, { token: jobs[2].token })).status, 204,
            'who may change jobs anyway');
    });

    it('holds_what_its_stream_was_given', async (t) => {
        const { as } = await guarded(t, { one: { roles: ['worker'] }, two: { roles: ['worker'] } });
        const { id } = (await as('admin').post('/jobs', JOB)).json;
        const take = await as('one').take('?queue=a');
        await take.next();
        assertError(await as('two').post(`/jobs/${id}/success`), 403, 'insufficient_rights');
        assert.equal((await as('one').post(`/jobs/${id}/success`)).status, 204);
        take.req.destroy();
    });

    it('proves_it_by_the_runs_token_after_a_restart', async (t) => {
        const { server, as } = await guarded(t, { one: { roles: ['worker'] } });
        const { id } = (await as('admin').post('/jobs', JOB)).json;
        const [{ token }] = (await as('one').post('/jobs/claim', { queues: ['a'], lease_ms: 600000 })).json.jobs;
        await server.signal('SIGKILL');
        await server.start();
        assertError(await as('one').post(`/jobs/${id}/success`, { token: null }), 403, 'insufficient_rights',
            /token of its run/);
        assert.equal((await as('one').post(`/jobs/${id}/success`, { token })).status, 204);
    });

    it('ends_only_its_own_waiting_claims', async (t) => {
        const { as } = await guarded(t, { one: { roles: ['worker'] }, two: { roles: ['worker'] } });
        const claim = as('one').post('/jobs/claim', { queues: ['a'], wait_ms: 60000, worker: 'w' });
        await until(async () => /^tenax_claims_waiting 1$/m.test((await as('admin').get('/metrics')).text),
            'the claim waits');
        assert.equal((await as('two').delete('/jobs/claim?worker=w')).json.withdrawn, 0);
        assert.equal((await as('one').delete('/jobs/claim?worker=w')).json.withdrawn, 1);
        assert.deepEqual((await claim).json, { jobs: [] });
    });
});
