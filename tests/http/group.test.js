// SPDX-License-Identifier: Apache-2.0
'use strict';

// Groups: jobs that belong together, by a name that each of them gives.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, run, useServer } = require('./harness');

const KEEP = { completed_ms: 3600000, dead_ms: 3600000 };
let groups = 0;
const newGroup = () => `group-${++groups}`;

function spec(group, fields = {}) {
    return { queue: queueName(), type: 't', payload: null, retention: KEEP, group, ...fields };
}

async function enqueue(server, group, count, fields) {
    const jobs = Array.from({ length: count }, () => spec(group, fields));
    const res = await server.post('/jobs/bulk', { jobs });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs;
}

async function read(server, group) {
    const res = await server.get(`/groups/${group}`);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function eventsOf(server, group) {
    const res = await server.get('/events?since=0&follow=false&event=group_resolved,group_sealed');
    return res.text.split('\n').filter((line) => line).map(JSON.parse)
        .filter((event) => event.group === group);
}

describe('a group', () => {
    const server = useServer();

    it('tells_when_a_command_gives_it_another_priority', async () => {
        const group = newGroup();
        const [a] = await enqueue(server, group, 2);
        const res = await server.patch(`/jobs?group=${group}`, { priority: 7 });
        assert.equal(res.json.patched, 2, res.text);
        const all = await server.get('/events?since=0&follow=false');
        const told = all.text.split('\n').filter((line) => line).map(JSON.parse)
            .filter((event) => event.group === group);
        assert.equal(told.length, 1);
        assert.deepEqual(told.map((e) => [e.event, e.id, e.queue, e.from, e.priority, e.jobs]),
            [['group_priority_changed', null, null, null, 7, 2]]);
        await server.patch(`/jobs?group=${group}`, { retry_limit: 3 });
        await server.patch(`/jobs/${a.id}`, { priority: 8 });
        const only = await server.get(
            '/events?since=0&follow=false&event=group_priority_changed');
        assert.equal(only.text.split('\n').filter((line) => line.includes(group)).length, 1);
    });

    it('counts_its_jobs_and_is_gone_with_the_last', async () => {
        const group = newGroup();
        const [a, b] = await enqueue(server, group, 2);
        assert.equal(a.group, group);
        assert.equal((await server.job(a.id)).group, group);
        assert.deepEqual(await read(server, group), { name: group, jobs: 2, unended: 2 });
        assert.equal((await server.post(`/jobs/${a.id}/cancel`)).status, 200);
        assert.deepEqual(await read(server, group), { name: group, jobs: 2, unended: 1 });
        for (const { id } of [a, b])
            assert.equal((await server.delete(`/jobs/${id}`)).status, 204);
        assertError(await server.get(`/groups/${group}`), 404, 'not_found', /no group/);
        assertError(await server.post(`/groups/${group}/seal`), 404, 'not_found');
    });

    it('is_a_filter_wherever_there_are_filters', async () => {
        const group = newGroup();
        const jobs = await enqueue(server, group, 3);
        await enqueue(server, newGroup(), 2);
        const ids = jobs.map((job) => job.id);
        const page = (await server.get(`/jobs?group=${group}&limit=2`)).json;
        assert.deepEqual(page.jobs.map((job) => job.id), ids.slice(0, 2));
        const next = (await server.get(page.pages.next)).json;
        assert.deepEqual(next.jobs.map((job) => job.id), ids.slice(2));
        assert.equal((await server.get(`/jobs/count?group=${group}`)).json.count, 3);
        assert.equal((await server.get(`/jobs/count?group=${group}&status=dead`)).json.count, 0);
        const sample = (await server.post(`/jobs/cancel?group=${group}&dry_run=true`)).json;
        assert.equal(sample.count, 3);
        assert.deepEqual((await server.post(`/jobs/cancel?group=${group}`)).json, { canceled: 3 });
        assert.deepEqual((await server.post(`/jobs/cancel?group=${group}`)).json, { canceled: 0 });
        assert.deepEqual((await server.post(
            `/jobs/retry?group=${group}&resolution=canceled`)).json, { retried: 3 });
        assert.equal((await read(server, group)).unended, 3);
        assert.deepEqual((await server.delete(`/jobs?group=${group}`)).json, { deleted: 3 });
        assertError(await server.delete('/jobs?group='), 400, 'bad_value', /without a value/);
    });

    it('is_resolved_when_its_last_job_ends_each_time', async () => {
        const group = newGroup();
        const [a, b] = await enqueue(server, group, 2);
        await server.post(`/jobs/${a.id}/cancel`);
        assert.deepEqual(await eventsOf(server, group), []);
        await server.post(`/jobs/${b.id}/cancel`);
        const [event] = await eventsOf(server, group);
        assert.equal(event.event, 'group_resolved');
        assert.equal(event.id, b.id);
        assert.equal(event.queue, b.queue);
        assert.deepEqual([event.from, event.to], ['dead', 'dead']);
        await server.post(`/jobs/${a.id}/retry`);
        await server.claimOne(a.queue);
        await server.post(`/jobs/${a.id}/success`);
        const all = await eventsOf(server, group);
        assert.deepEqual(all.map((e) => [e.event, e.id]),
            [['group_resolved', b.id], ['group_resolved', a.id]]);
    });

    it('takes_no_further_jobs_once_it_is_sealed', async () => {
        const group = newGroup();
        const [job] = await enqueue(server, group, 1, { alias: `${group}-first` });
        const sealed = await server.post(`/groups/${group}/seal`);
        assert.equal(sealed.status, 200, sealed.text);
        assert.ok(sealed.json.sealed_at > 0);
        assert.deepEqual((await server.post(`/groups/${group}/seal`)).json, sealed.json);
        const other = queueName();
        const res = await server.post('/jobs/bulk', {
            jobs: [{ queue: other, type: 't', payload: 1 }, spec(group)],
        });
        assertError(res, 409, 'group_sealed', /sealed/);
        assert.equal((await server.get(`/jobs/count?queue=${other}`)).json.count, 0);
        /* It adds nothing: whoever did not get the answer asks again. */
        const again = await server.post('/jobs', spec(group, { alias: `${group}-first` }));
        assert.equal(again.status, 200);
        assert.equal(again.json.id, job.id);
        const [event] = await eventsOf(server, group);
        assert.deepEqual([event.event, event.id, event.queue, event.type],
            ['group_sealed', null, null, null]);
    });

    it('has_one_owner', async () => {
        const group = newGroup();
        await enqueue(server, group, 1, { group_owner: 'me' });
        assert.equal((await read(server, group)).owner, 'me');
        assertError(await server.post('/jobs', spec(group)), 409, 'conflict', /belongs to 'me'/);
        assertError(await server.post('/jobs', spec(group, { group_owner: 'you' })), 409, 'conflict');
        await enqueue(server, group, 1, { group_owner: 'me' });
        assert.equal((await read(server, group)).jobs, 2);
    });

    it('is_retained_as_long_as_one_of_its_jobs', async () => {
        const group = newGroup();
        const late = Date.now() + 10000000;
        await enqueue(server, group, 1, { retain_until: late });
        await enqueue(server, group, 1, { retain_until: late - 1000 });
        assert.equal((await read(server, group)).retain_until, late);
    });

    it('outlives_a_restart', async () => {
        const group = newGroup();
        const [a] = await enqueue(server, group, 2);
        await server.post(`/jobs/${a.id}/cancel`);
        const before = (await server.post(`/groups/${group}/seal`)).json;
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual(await read(server, group), before);
        assertError(await server.post('/jobs', spec(group)), 409, 'group_sealed');
    });

    it('is_refused_where_it_makes_no_sense', async () => {
        for (const group of ['', 'a,b', 'x'.repeat(256)])
            assertError(await server.post('/jobs', spec(group)), 400, 'bad_name', /^group: /);
        assertError(await server.post('/jobs', spec(7)), 400, 'wrong_type', /^group: /);
        assertError(await server.post('/jobs', spec(undefined, { group_owner: 'me' })), 400,
            'missing_field', /group_owner/);
        const batch = { key: 'k', when: 'true', fold: '$new' };
        assertError(await server.post('/jobs', spec('g', { batch })), 400, 'bad_value', /no group/);
        assertError(await server.request('PUT', '/crons/c', { entries: [{ name: 'e', expression: '0 * * * *',
            job: { queue: 'q', type: 't', payload: 1, group: 'g' } }] }), 400, 'bad_value', /group/);
    });
});

describe('the command line', () => {
    const server = useServer();
    const tenax = (...args) => run([...args, '--url', server.url()]);

    it('enqueues_into_a_group_shows_seals_and_cancels_it', async () => {
        const group = newGroup();
        for (let i = 0; i < 2; i++)
            assert.equal((await tenax('enqueue', '--queue', 'q', '--type', 't', '--group', group,
                '--group-owner', 'me', '1')).code, 0);
        const shown = await tenax('group', group);
        assert.equal(shown.code, 0, shown.stderr);
        assert.match(shown.stdout, /owner +me\n/);
        assert.match(shown.stdout, /unended +2\n/);
        assert.equal(JSON.parse((await tenax('group', group, '--seal', '--output', 'json')).stdout)
            .jobs, 2);
        const refused = await tenax('enqueue', '--queue', 'q', '--type', 't', '--group', group,
            '--group-owner', 'me', '1');
        assert.notEqual(refused.code, 0);
        assert.match(refused.stderr, /sealed/);
        assert.match((await tenax('jobs', '--group', group)).stdout, /(q.*\n.*q)/);
        assert.match((await tenax('cancel', '--group', group, '--dry-run')).stdout, /2 jobs would be/);
        assert.equal((await tenax('cancel', '--group', group)).stdout, '2 jobs canceled\n');
        assert.match((await tenax('group', group)).stdout, /unended +0\n/);
        assert.match((await tenax('events', '--event', 'group_resolved')).stdout,
            new RegExp(`group ${group}`));
        const none = await tenax('group', 'none');
        assert.notEqual(none.code, 0);
        assert.match(none.stderr, /no group 'none'/);
        assert.match((await tenax('group')).stderr, /which group/);
    });
});

describe('canceling many', () => {
    const server = useServer();

    it('leaves_out_what_has_ended_and_refuses_to_be_asked_for_it', async () => {
        const queue = queueName();
        const jobs = await enqueue(server, newGroup(), 3, { queue });
        await server.post(`/jobs/${jobs[0].id}/cancel`);
        await server.claimOne(queue);
        assert.deepEqual((await server.post(`/jobs/cancel?queue=${queue}`)).json, { canceled: 2 });
        assert.equal((await server.job(jobs[1].id)).resolution, 'canceled');
        assertError(await server.post('/jobs/cancel?status=dead'), 422, 'unprocessable', /cannot be/);
        assertError(await server.post('/jobs/cancel', { queue }), 400, 'unknown_field', /no body/);
    });
});
