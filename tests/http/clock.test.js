// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server whose clock jumps a year ahead, and is put right.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, run, until } = require('./harness');
const { useWrongClock } = require('./wrong_clock');

const YEAR = 365 * 86400 * 1000;
const MINUTE = 60 * 1000;

describe('a wrong clock', () => {
    const clock = useWrongClock();
    let server;

    const health = async () => (await server.get('/health')).json;

    before(async () => {
        server = new Server({ env: clock.env });
        await server.start();
    });
    after(() => server.clean());

    it('is_told_mended_and_cron_goes_by_the_time_that_it_is', async () => {
        const at = (await health()).clock;
        assert.deepEqual(at, { ahead_ms: 0, jump_ms: 0 });
        await server.request('PUT', '/crons/g', {
            entries: [{
                name: 'e', expression: '0 * * * *', timezone: 'UTC',
                job: { queue: 'ticks', type: 't', payload: 1 },
            }],
        });
        clock.set(YEAR);
        await until(async () => (await health()).clock.jump_ms > YEAR - MINUTE, 'it has jumped');
        await until(() => /error.*the clock jumped ahead by .*reset-clock/.test(server.stderr), 'the log says so');
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
        assert.deepEqual((await health()).clock, { ahead_ms: 0, jump_ms: 0 });
        assert.ok(await next() < Date.now() + 2 * 3600 * 1000);
        assert.equal((await server.job(id)).status, 'ready');
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(id)).status, 'ready');
        assert.deepEqual((await health()).clock, { ahead_ms: 0, jump_ms: 0 });
        assert.ok(await next() < Date.now() + 2 * 3600 * 1000);
    });
});
