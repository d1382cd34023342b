// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server whose clock jumps a year ahead, and is put right.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, run, until } = require('./harness');
const { create, guarded } = require('./access');
const { definition, slugid, useTaskcluster } = require('./taskcluster');
const { useWrongClock } = require('./wrong_clock');

const HOUR = 3600 * 1000;
const YEAR = 365 * 86400 * 1000;
const MINUTE = 60 * 1000;

describe('a wrong clock', () => {
    const clock = useWrongClock();
    let server;

    const health = async () => (await server.get('/health')).json;

    const isRight = async () => {
        const { status, clock: { time, system } } = await health();
        assert.equal(status, 'ok');
        assert.ok(Math.abs(time - system) < MINUTE && Math.abs(time - Date.now()) < MINUTE);
    };

    before(async () => {
        server = new Server({ env: clock.env });
        await server.start();
    });
    after(() => server.clean());

    for (const [where, wrongBy] of [['ahead', 86400000], ['behind', -86400000]]) {
        it(`that_is_a_day_${where}_makes_nothing_due_and_time_heals_by_itself`, async () => {
            const queue = `day-${where}`;
            const later = await server.enqueue({ queue, ready_at: Date.now() + 20 * 3600000 });
            await server.enqueue({ queue: `${queue}-held` });
            const held = await server.claimConfirmed(`${queue}-held`, { lease_ms: 600000 });
            const done = await server.enqueue({ queue: `${queue}-done`, retention: { completed_ms: 3600000 } });
            const run = await server.claimOne(`${queue}-done`);
            await server.post(`/jobs/${done.id}/success`, { token: run.token });
            clock.set(wrongBy);
            const told = await until(async () => {
                const now = await health();
                return now.status === 'clock' && now;
            }, 'health says clock');
            assert.match(told.failure, /the system's clock says \S+ and is not followed; jobs go by \S+:/);
            const isHeld = async () => {
                assert.equal((await server.job(later.id)).status, 'scheduled');
                assert.equal((await server.job(held.id)).status, 'in_flight');
                assert.equal((await server.job(done.id)).status, 'completed');
            };
            await isHeld();
            await server.signal('SIGKILL'); // and as it starts with such a clock
            await server.start();
            assert.equal((await health()).status, 'clock');
            await isHeld();
            clock.set(0);
            await until(async () => (await health()).status === 'ok', 'it heals');
            await isRight();
            assert.ok(Math.abs((await server.enqueue({ queue })).ready_at - Date.now()) < MINUTE);
        });
    }

    it('is_told_mended_and_cron_goes_by_the_time_that_it_is', async () => {
        const at = (await health()).clock;
        assert.ok(Math.abs(at.time - at.system) < MINUTE);
        assert.equal(at.jump_ms, 0);
        await server.request('PUT', '/crons/g', {
            entries: [{
                name: 'e', expression: '0 * * * *', timezone: 'UTC',
                job: { queue: 'ticks', type: 't', payload: 1 },
            }],
        });
        clock.set(YEAR);
        await until(async () => (await health()).clock.jump_ms > YEAR - MINUTE, 'it has jumped');
        await until(() => /error.*the clock jumped ahead by .*reset-clock/.test(server.stderr), 'the log says so');
        const forward = await run(['crons', '--reset-clock', '-o', 'json'], { TENAX_URL: server.url() });
        assert.equal(forward.code, 0, forward.stderr); // somebody believes it
        assert.ok(JSON.parse(forward.stdout).to > Date.now() + YEAR - MINUTE, forward.stdout);
        const { id } = (await server.post('/jobs', { queue: 'q', type: 't', payload: 1 })).json;
        clock.set(0);
        await until(async () => (await health()).clock.ahead_ms > YEAR - MINUTE, 'it is behind');
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(id)).status, 'ready');
        assert.ok((await health()).clock.ahead_ms > YEAR - MINUTE);
        const next = async () => (await server.get('/crons/g')).json.entries[0].next_enqueue_at;
        assert.ok(await next() > Date.now() + YEAR - 2 * 3600 * 1000);

        const end = await run(['crons', '--reset-clock', '-o', 'json'], { TENAX_URL: server.url() });
        assert.equal(end.code, 0, end.stderr);
        const { from, to } = JSON.parse(end.stdout);
        assert.ok(from - to > YEAR - MINUTE, end.stdout);
        await isRight();
        assert.ok(await next() < Date.now() + 2 * 3600 * 1000);
        assert.equal((await server.job(id)).status, 'ready');
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(id)).status, 'ready');
        await isRight();
        assert.ok(await next() < Date.now() + 2 * 3600 * 1000);
    });
});

describe('a clock that is a year ahead', () => {
    const clock = useWrongClock();
    const says = (server, status) =>
        until(async () => (await server.get('/health')).json.status === status, `health says ${status}`);

    it('ends_no_token_early_and_forgets_none', async (t) => {
        const { server, tokens, as } = await guarded(t, { p: { roles: ['producer'], expires_at: Date.now() + HOUR } },
            { env: clock.env });
        const enqueue = async () => (await as('p').post('/jobs', { queue: 'q', type: 't', payload: 1 })).status;
        const stream = as('p').events('?since=0');
        clock.set(YEAR);
        await says(server, 'clock');
        assert.equal(await enqueue(), 201);
        const headers = { authorization: `Bearer ${tokens.admin}` };
        await create(server, { roles: ['viewer'], expires_at: Date.now() + HOUR }, headers);
        await server.stop();
        await server.start();
        assert.equal(await enqueue(), 201);
        clock.set(0);
        await says(server, 'ok');
        assert.equal(await enqueue(), 201);
        assert.equal((await as('admin').get('/tokens')).json.tokens.length, 3);
        (await stream).close();
    });

    const server = useTaskcluster({ env: clock.env });

    it('takes_no_message_of_a_task_away_and_ends_no_quarantine', async () => {
        const queue = await server.queue();
        const task = definition(), id = await slugid();
        const [provisioner, type] = task.taskQueueId.split('/');
        const poll = async () => {
            const { queues } = (await server.fetch(`/api/queue/v1/poll-task-url/${provisioner}/${type}`)).json;
            return Promise.all(queues.map(({ signedPollUrl }) => server.fetch(signedPollUrl.replace(/^http:..[^/]+/, ''))));
        };
        await queue.createTask(id, task);
        const inHours = (hours) => new Date(Date.now() + hours * HOUR).toJSON();
        await queue.declareWorker(provisioner, type, 'group', 'sick', { expires: inHours(2) });
        await queue.quarantineWorker(provisioner, type, 'group', 'sick', { quarantineUntil: inHours(1) });
        clock.set(YEAR);
        await says(server, 'clock');
        assert.deepEqual(await queue.claimTask(id, 0, { workerGroup: 'group', workerId: 'sick' }), {});
        const shown = async () => (await poll()).filter((res) => /<QueueMessage>/.test(res.text)).length;
        assert.equal(await shown(), 1);
        clock.set(0);
        await says(server, 'ok');
        assert.equal(await shown(), 0, 'it is not visible again before its time');
    });
});
