// SPDX-License-Identifier: Apache-2.0
'use strict';

// Workers: who they are, making one quiet, and stopping one.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Server, assertError, queueName, run, until, useServer } = require('./harness');
const { guarded } = require('./access');

let names = 0;

function newName() {
    return `worker-${++names}`;
}

async function workerOf(server, name) {
    const res = await server.get(`/workers/${encodeURIComponent(name)}`);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

function act(server, name, action) {
    return server.post(`/workers/${encodeURIComponent(name)}/${action}`);
}

describe('a worker', () => {
    const server = useServer();

    it('is_known_from_its_first_claim_on', async () => {
        const [name, queue] = [newName(), queueName()];
        const began = Date.now();
        assertError(await server.get(`/workers/${name}`), 404, 'not_found');
        await server.enqueueMany([{ queue }, { queue }]);
        const res = await server.post('/jobs/claim',
            { worker: name, node: 'n1', queues: [queue, 'other'], count: 2, wait_ms: 0 },
            { 'user-agent': 'mailer/2.1' });
        assert.equal(res.json.jobs.length, 2);
        const w = await workerOf(server, name);
        assert.deepEqual([w.name, w.node, w.version, w.queues.sort(), w.in_flight, w.quiet],
            [name, 'n1', 'mailer/2.1', [queue, 'other'].sort(), 2, false]);
        assert.deepEqual([w.streams, w.claims, w.address], [0, 0, server.host]);
        assert.ok(w.since >= began - 1 && w.last_seen >= w.since);
        const { id, token } = res.json.jobs[0];
        assert.equal((await server.post(`/jobs/${id}/success`, { token })).status, 204);
        assert.equal((await workerOf(server, name)).in_flight, 1);
    });

    it('may_say_why_it_asks_for_nothing', async () => {
        const [name, queue] = [newName(), queueName()];
        const { id } = await server.enqueue({ queue });
        const why = async () => (await server.get(`/jobs/${id}/explain`)).json.summary;
        const say = (body, who = name) => server.request('PUT', `/workers/${who}/notice`, body);
        assert.doesNotMatch(await why(), /takes none/);
        assert.equal((await say({ notice: 'no credentials for the "cluster"', queues: [queue] })).status, 204);
        assert.match(await why(), new RegExp(`worker '${name}' takes none now: no credentials for the "cluster"`));
        assert.equal((await workerOf(server, name)).notice, 'no credentials for the "cluster"');
        await server.claim({ worker: name, queues: [queueName()], count: 1, wait_ms: 0 });
        assert.doesNotMatch(await why(), /takes none/);
        assert.equal((await workerOf(server, name)).notice, undefined);
        for (const [body, code] of [[{}, 'missing_field'], [{ notice: '' }, 'bad_value'], [{ notice: 7 }, 'wrong_type'],
            [{ notice: 'x'.repeat(501) }, 'bad_value']])
            assertError(await say(body), 400, code);
        assertError(await say({ notice: 'x' }, 'y'.repeat(256)), 400, 'bad_name');
    });

    it('has_its_streams_and_waiting_claims_counted', async () => {
        const [name, queue] = [newName(), queueName()];
        const taker = await server.take(`?queue=${queue}`, { 'worker-id': name });
        await until(async () => (await workerOf(server, name)).streams === 1);
        const claim = server.claim({ worker: name, queues: [queue], count: 1, wait_ms: 20000 });
        await until(async () => (await workerOf(server, name)).claims === 1);
        taker.close();
        await until(async () => (await workerOf(server, name)).streams === 0);
        await server.enqueue({ queue });
        assert.equal((await claim).length, 1);
        await until(async () => (await workerOf(server, name)).claims === 0);
    });

    it('is_listed_by_name_in_pages', async () => {
        const list = ['page-c', 'page-a', 'page-b'];
        for (const worker of list)
            await server.claim({ worker, queues: [queueName()] });
        const first = await server.get('/workers?limit=2&after=page');
        assert.deepEqual(first.json.workers.map((w) => w.name), ['page-a', 'page-b']);
        const second = await server.get(first.json.next);
        assert.equal(second.json.workers[0].name, 'page-c');
        for (const query of ['limit=0', 'limit=1001', 'limit=x'])
            assertError(await server.get(`/workers?${query}`), 400, 'bad_value');
        assertError(await server.get('/workers?colour=red'), 400, 'unknown_field');
    });

    it('that_is_quiet_is_given_nothing_more_by_claims', async () => {
        const [name, queue] = [newName(), queueName()];
        await server.enqueue({ queue });
        const held = await server.claimOne(queue, { worker: name });
        const waiting = server.claim({ worker: name, queues: [queue], count: 1, wait_ms: 20000 });
        await until(async () => (await workerOf(server, name)).claims === 1);
        const quiet = await act(server, name, 'quiet');
        assert.equal(quiet.status, 200, quiet.text);
        assert.equal(quiet.json.quiet, true);
        assert.deepEqual(await waiting, []); // at once
        const { id } = await server.enqueue({ queue });
        assert.deepEqual(await server.claim({ worker: name, queues: [queue], wait_ms: 50 }), []);
        assertError(await server.post(`/jobs/${id}/claim`, { worker: name }), 409, 'conflict');
        // What it has it may finish, and others work on.
        assert.equal((await server.post(`/jobs/${held.id}/success`,
            { token: held.token })).status, 204);
        assert.equal((await server.claimOne(queue, { worker: newName() })).id, id);
        assert.equal((await act(server, name, 'resume')).status, 204);
        const later = await server.enqueue({ queue });
        assert.equal((await server.claimOne(queue, { worker: name })).id, later.id);
    });

    it('that_is_quiet_is_given_nothing_more_by_streams', async () => {
        const [name, queue] = [newName(), queueName()];
        const taker = await server.take(`?queue=${queue}&prefetch=10`, { 'worker-id': name });
        await act(server, name, 'quiet');
        const { id } = await server.enqueue({ queue });
        const second = await server.take(`?queue=${queue}`, { 'worker-id': name });
        assert.equal((await server.claimOne(queue, { worker: newName() })).id, id);
        assert.deepEqual([taker.jobs.length, second.jobs.length], [0, 0]);
        second.close();
        await act(server, name, 'resume');
        const later = await server.enqueue({ queue });
        assert.equal((await taker.next()).id, later.id);
        taker.close();
    });

    it('that_is_stopped_gives_its_jobs_back', async () => {
        const [name, queue] = [newName(), queueName()];
        const ids = await server.enqueueMany([{ queue }, { queue }, { queue }]);
        const taker = await server.take(`?queue=${queue}&prefetch=2`, { 'worker-id': name });
        await taker.next();
        await taker.next();
        const [held] = await server.claim({ worker: name, queues: [queue] });
        const res = await act(server, name, 'stop');
        assert.deepEqual(res.json, { returned: 3 });
        await until(() => taker.over);
        for (const id of ids) {
            const job = await server.job(id);
            assert.deepEqual([job.status, job.attempts], ['ready', 0]);
            const [first] = await server.runs(id);
            assert.deepEqual([first.outcome, first.reason],
                ['worker-lost', 'ready again: its worker was stopped']);
        }
        assertError(await server.post(`/jobs/${held.id}/success`, { token: held.token }), 409,
            'stale_token');
        const w = await workerOf(server, name);
        assert.deepEqual([w.in_flight, w.quiet], [0, true]);
        assert.deepEqual((await act(server, name, 'stop')).json, { returned: 0 });
        assert.equal((await server.claim({ worker: newName(), queues: [queue], count: 3 })).length,
            3);
    });

    it('may_have_any_name', async () => {
        const name = 'group/1 ä%';
        await server.claim({ worker: name, queues: [queueName()] });
        assert.equal((await workerOf(server, name)).name, name);
        assert.equal((await act(server, name, 'quiet')).json.quiet, true);
        assertError(await act(server, 'x'.repeat(256), 'quiet'), 400, 'bad_name');
    });

    it('is_shown_and_stopped_by_the_command_line', async () => {
        const [name, queue] = [newName(), queueName()];
        const url = ['--url', server.url()];
        await server.enqueue({ queue });
        await server.claimOne(queue, { worker: name });
        const list = await run(['workers', ...url]);
        assert.match(list.stdout, /^NAME +STATE +IN FLIGHT/);
        assert.match(list.stdout, new RegExp(`${name} +works +1 `));
        assert.match((await run(['workers', name, '--quiet', ...url])).stdout,
            new RegExp(`${name} +quiet`));
        assert.equal((await run(['workers', name, '--stop', ...url])).stdout,
            '1 jobs went back\n');
        assert.equal((await run(['workers', name, '--resume', ...url])).code, 0);
        const json = await run(['workers', ...url, '-o', 'json']);
        assert.ok(JSON.parse(json.stdout)
            .some((w) => w.name === name && !w.quiet));
        assert.equal((await run(['workers', '--stop', ...url])).code, 2);
        assert.equal((await run(['workers', name, '--stop', '--quiet', ...url])).code, 2);
    });
});

describe('workers after a restart', () => {
    it('are_known_by_their_leases_and_stay_quiet', async (t) => {
        const server = new Server();
        await server.start();
        t.after(() => server.clean());
        await server.enqueueMany([{ queue: 'q' }, { queue: 'q' }]);
        const { id, token } = await server.claimOne('q', { worker: 'w' });
        await act(server, 'w', 'quiet');
        await act(server, 'v', 'quiet');
        await act(server, 'v', 'resume');
        await server.signal('SIGKILL');
        await server.start();
        const w = await workerOf(server, 'w');
        assert.deepEqual([w.in_flight, w.quiet, w.since, w.last_seen], [1, true, null, null]);
        assertError(await server.get('/workers/v'), 404, 'not_found');
        assert.deepEqual(await server.claim({ worker: 'w', queues: ['q'] }), []);
        assert.equal((await server.post(`/jobs/${id}/renew`, { token })).status, 200);
        assert.ok((await workerOf(server, 'w')).last_seen > 0);
        assert.equal((await server.post('/reset')).status, 204);
        assert.equal((await workerOf(server, 'w')).quiet, true);
    });
});

describe('rights about workers', () => {
    it('are_to_see_and_to_operate', async (t) => {
        const { as } = await guarded(t, {
            viewer: { roles: ['viewer'] }, operator: { roles: ['operator'] },
            mail: { roles: ['operator'], queues: ['mail'] },
        });
        assert.equal((await as('viewer').get('/workers')).status, 200);
        assertError(await as('viewer').post('/workers/w/quiet'), 403, 'insufficient_rights');
        assert.equal((await as('operator').post('/workers/w/quiet')).status, 200);
        assert.equal((await as('operator').post('/workers/w/resume')).status, 204);
        // Of those that take from its queues it sees some: access_queues.test.js.
        assert.deepEqual((await as('mail').get('/workers')).json, { workers: [], next: null });
        assertError(await as('mail').post('/workers/w/quiet'), 403, 'insufficient_rights');
        assertError(await as('mail').post('/workers/w/stop'), 403, 'insufficient_rights');
    });
});
