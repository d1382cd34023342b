// SPDX-License-Identifier: Apache-2.0
'use strict';

// The WebSocket of `zizq top`: GET /events on the admin listener.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, notOn, queueName, until, useServer } = require('./harness');
const { bearer, guarded } = require('./access');
const { openWebSocket } = require('./websocket');

const LISTS = ['ready', 'in_flight', 'scheduled'];
const standby = notOn('standby', 'a standby passes no WebSocket on');

function eventsOf(server) {
    return `${server.adminUrl}/events`;
}

async function connect(t, server, headers = {}) {
    const { socket, status } = await openWebSocket(eventsOf(server), headers);
    assert.equal(status, 101);
    t.after(() => socket.close());
    return socket;
}

function idsOf(window) {
    return window.items.map((job) => job.id);
}

describe('zizq top', standby, () => {
    const server = useServer();

    it('sees_a_snapshot_and_what_changes', async (t) => {
        const queue = queueName();
        const first = await server.enqueue({ queue, type: 'mail', priority: 7 });
        const later = await server.enqueue({ queue, ready_at: Date.now() + 3600000 });
        const top = await connect(t, server);
        const { server: status, ready, in_flight: flying, scheduled } = await top.event('job_snapshot');
        assert.equal(typeof status.version, 'string');
        assert.equal(typeof status.tier, 'string');
        assert.ok(status.uptime_ms >= 0);
        assert.equal('subscription_limit' in status, false);
        assert.deepEqual([status.total_ready, status.total_in_flight, status.total_scheduled], [1, 0, 1]);
        assert.deepEqual(idsOf(ready), [first.id]);
        assert.deepEqual(idsOf(scheduled), [later.id]);
        assert.deepEqual(flying, { items: [], first_position: 0, total: 0 });
        const { ready_at: readyAt, ...job } = ready.items[0];
        assert.ok(readyAt > 0);
        assert.deepEqual(job, { id: first.id, queue, job_type: 'mail', priority: 7, attempts: 0 });

        const second = await server.enqueue({ queue });
        const come = await top.event('job_changed', (m) => m.id === second.id);
        assert.equal(come.status, 'ready');
        assert.equal(come.job.queue, queue);
        assert.equal(come.server.total_ready, 2);

        const [taken] = await server.claim({ queues: [queue], worker: 'w', lease_ms: 60000 });
        assert.equal(taken.id, first.id);
        const left = await top.event('job_changed', (m) => m.id === first.id);
        assert.deepEqual([left.status, left.job], ['ready_removed', undefined]);
        const flies = await top.event('job_changed', (m) => m.id === first.id);
        assert.equal(flies.status, 'in_flight');
        assert.ok(flies.job.dequeued_at > 0);
        await server.post(`/jobs/${first.id}/success`, { token: taken.token });
        const ended = [(await top.event('job_changed', (m) => m.id === first.id)).status,
            (await top.event('job_changed', (m) => m.id === first.id)).status];
        assert.deepEqual(ended.sort(), ['completed', 'in_flight_removed']);
        const beat = await top.event('heartbeat');
        assert.deepEqual([beat.server.total_ready, beat.server.total_in_flight], [1, 0]);
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('subscribes_to_parts_of_a_list', async (t) => {
        const queue = queueName();
        const ids = [];
        for (let i = 0; i < 10; i++)
            ids.push((await server.enqueue({ queue, priority: i < 5 ? 2 : 1 })).id);
        const order = [...ids.slice(5), ...ids.slice(0, 5)];
        const top = await connect(t, server);
        assert.deepEqual(idsOf((await top.event('job_snapshot')).ready), order);
        const subscribe = async (anchor, limit) => {
            top.send({ type: 'subscribe', list: 'ready', anchor, limit });
            const { ready } = await top.event('job_snapshot');
            assert.equal(ready.total, 10);
            return { ids: idsOf(ready), first: ready.first_position, anchor: ready.resolved_anchor };
        };
        const none = undefined;
        assert.deepEqual(await subscribe({ kind: 'head' }, 3), { ids: order.slice(0, 3), first: 0, anchor: none });
        assert.deepEqual(await subscribe({ kind: 'tail' }, 3), { ids: order.slice(7), first: 7, anchor: none });
        assert.deepEqual(await subscribe({ kind: 'offset', offset: 4 }, 2),
            { ids: order.slice(4, 6), first: 4, anchor: none });
        assert.deepEqual(await subscribe({ kind: 'offset', offset: 99 }, 2),
            { ids: order.slice(8), first: 8, anchor: none }, 'the end in place of nothing');
        assert.deepEqual(await subscribe({ kind: 'around', id: order[5] }, 4),
            { ids: order.slice(3, 7), first: 3, anchor: order[5] });
        assert.deepEqual(await subscribe({ kind: 'around', id: 'gone' }, 4), { ids: [], first: 0, anchor: none });
        assert.deepEqual(await subscribe({ kind: 'around', id: 'gone', fallback: 'tail' }, 4),
            { ids: order.slice(6), first: 6, anchor: none });

        // A job that leaves makes room for the next.
        await subscribe({ kind: 'head' }, 2);
        await server.delete(`/jobs/${order[0]}`);
        assert.equal((await top.event('job_changed', (m) => m.id === order[0])).status, 'ready_removed');
        assert.equal((await top.event('job_changed', (m) => m.id === order[2])).status, 'ready');
        // One that is altered in place is told by a snapshot.
        await server.patch(`/jobs/${order[1]}`, { priority: 0 });
        const { ready } = await top.event('job_snapshot');
        assert.equal(ready.items[0].priority, 0);
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('shows_details_only_when_asked', async (t) => {
        const queue = queueName();
        await server.enqueue({ queue, payload: { to: 'a' }, retry_limit: 3, unique_key: queue,
            backoff: { base_ms: 1000, exponent: 2, jitter_ms: 0 }, retention: { dead_ms: 5000 } });
        const top = await connect(t, server);
        assert.equal('payload' in (await top.event('job_snapshot')).ready.items[0], false);
        top.send({ type: 'set_detail_level', detail: true });
        const [job] = (await top.event('job_snapshot')).ready.items;
        assert.deepEqual(job.payload, { to: 'a' });
        assert.equal(job.retry_limit, 3);
        assert.deepEqual(job.backoff, { base_ms: 1000, exponent: 2, jitter_ms: 0 });
        assert.deepEqual(job.retention, { dead_ms: 5000 });
        assert.deepEqual([job.unique_key, job.unique_while], [queue, 'queued']);
        top.send({ type: 'delete_job', id: job.id });
        assert.equal((await top.event('job_changed', (m) => m.id === job.id)).status, 'ready_removed');
        assertError(await server.get(`/jobs/${job.id}`), 404, 'not_found');
    });

    it('finds_jobs', async (t) => {
        const [queue, other] = [queueName(), queueName()];
        const ids = [];
        for (let i = 0; i < 6; i++)
            ids.push((await server.enqueue({ queue: i === 4 ? other : queue, type: i % 3 ? 'b' : 'a' })).id);
        const top = await connect(t, server);
        await top.event('job_snapshot');
        const find = async (direction, anchor, query) => {
            top.send({ type: 'find', list: 'ready', anchor, direction, query, limit: 3 });
            const found = await top.event('find_result');
            assert.equal(found.list, 'ready');
            if (found.matched_position !== null)
                assert.equal(found.window.items[found.matched_position - found.window.first_position].id,
                    found.window.resolved_anchor);
            return found.matched_position;
        };
        const at = (i) => ({ kind: 'job_id', id: ids[i] });
        assert.equal(await find('forward', { kind: 'start' }, { types: ['a'] }), 0);
        assert.equal(await find('forward', at(0), { types: ['a'] }), 3);
        assert.equal(await find('forward', at(3), { types: ['a'] }), null);
        assert.equal(await find('backward', { kind: 'end' }, { types: ['a'] }), 3);
        assert.equal(await find('backward', at(3), { types: ['a'] }), 0);
        assert.equal(await find('forward', { kind: 'start' }, { queues: [other], types: ['b'] }), 4);
        assert.equal(await find('forward', { kind: 'start' }, { queues: [other], types: ['a'] }), null);
        assert.equal(await find('forward', at(1), {}), 2);
        assert.equal(await find('locate', at(2)), 2);
        assert.equal(await find('locate', { kind: 'job_id', id: 'gone' }), null);
        assert.equal(await find('backward', { kind: 'start' }, {}), null);
        assert.equal(await find('forward', { kind: 'end' }, {}), null);
        await server.delete(`/jobs?queue=${queue},${other}`);
    });

    it('passes_over_what_it_does_not_understand', async (t) => {
        const top = await connect(t, server);
        await top.event('job_snapshot');
        for (const text of ['', '{', '[]', '{"type":"dance"}', '{"type":"subscribe","list":"dead"}',
            '{"type":"subscribe","list":"ready","anchor":{"kind":"moon"},"limit":3}', '{"type":"find","limit":-1}'])
            top.sendText(text);
        top.send({ type: 'subscribe', list: 'scheduled', anchor: { kind: 'head' }, limit: 0, more: 1 });
        await top.event('job_snapshot');
    });

    it('is_for_the_admin_listener_and_for_no_foreign_page', async () => {
        const foreign = await openWebSocket(eventsOf(server), { origin: 'http://evil.example' });
        assert.equal(foreign.status, 403);
        const old = await openWebSocket(eventsOf(server), { 'sec-websocket-version': '8' });
        assert.equal(old.status, 400);
        assert.equal(old.headers['sec-websocket-version'], '13');
        const primary = await openWebSocket(`${server.url()}/events`);
        assert.equal(primary.status, 200, 'the stream of events, as without the headers');
        assert.equal((await openWebSocket(`${eventsOf(server)}?queue=q`)).status, 400);
    });
});

describe('zizq top with tokens', standby, () => {
    it('shows_what_they_may_see_and_deletes_what_they_may', async (t) => {
        const { server, tokens, as } = await guarded(t, {
            viewer: { roles: ['viewer'], queues: ['mail-*'], payloads: false },
            operator: { roles: ['operator'], queues: ['mail-*'] },
        });
        const enqueue = async (queue) =>
            (await as('admin').post('/jobs', { queue, type: 't', payload: 'secret' })).json.id;
        const [mine, foreign] = [await enqueue('mail-a'), await enqueue('other')];
        assert.equal((await openWebSocket(eventsOf(server))).status, 401);
        const viewer = await connect(t, server, bearer(tokens.viewer));
        const seen = await viewer.event('job_snapshot');
        assert.deepEqual(idsOf(seen.ready), [mine]);
        assert.deepEqual([seen.ready.total, seen.server.total_ready], [1, 1]);
        viewer.send({ type: 'set_detail_level', detail: true });
        assert.equal('payload' in (await viewer.event('job_snapshot')).ready.items[0], false);
        viewer.send({ type: 'find', list: 'ready', anchor: { kind: 'job_id', id: foreign }, direction: 'locate',
            limit: 3 });
        assert.equal((await viewer.event('find_result')).matched_position, null);
        viewer.send({ type: 'delete_job', id: mine });

        const operator = await connect(t, server, bearer(tokens.operator));
        await operator.event('job_snapshot');
        operator.send({ type: 'delete_job', id: foreign });
        operator.send({ type: 'subscribe', list: 'ready', anchor: { kind: 'head' }, limit: 9 });
        assert.deepEqual(idsOf((await operator.event('job_snapshot')).ready), [mine]);
        assert.equal((await as('admin').get(`/jobs/${foreign}`)).status, 200);
        operator.send({ type: 'delete_job', id: mine });
        assert.equal((await viewer.event('job_changed', (m) => m.id === mine)).status, 'ready_removed');
        const { json: audit } = await as('admin').get('/audit');
        assert.ok(JSON.stringify(audit).includes(`/jobs/${mine}`), 'who deleted it is recorded');
        assert.ok(!JSON.stringify(audit).includes(`/jobs/${foreign}`));

        const list = (await as('admin').get('/tokens')).json.tokens;
        const gone = list.find((token) => tokens.viewer.includes(token.id));
        assert.equal((await as('admin').delete(`/tokens/${gone.id}`)).status, 204);
        assert.equal((await viewer.ended).code, 1008);
    });

    it('says_goodbye_when_the_server_stops', async (t) => {
        const { server, tokens } = await guarded(t, {});
        const top = await connect(t, server, bearer(tokens.admin));
        await top.event('job_snapshot');
        const stopping = server.stop();
        assert.equal((await top.ended).code, 1001);
        await stopping;
        await until(async () => server.child === null, 'it has stopped');
    });
});
