// SPDX-License-Identifier: Apache-2.0
'use strict';

// Wrong credentials, again and again.

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { assertError, until } = require('./harness');
const { bearer, guarded } = require('./access');
const { useTaskcluster } = require('./taskcluster');

const WRONG = bearer(`tnx_0123456789abcdef_${'A'.repeat(43)}`);
const LIMIT = ['--wrong-credentials', '5'];

for (const threads of ['1', '2'])
    it(`wrong_tokens_are_limited_by_address_and_right_ones_are_not_with_${threads}_threads`, async (t) => {
        const { server, as } = await guarded(t, {}, { args: [...LIMIT, '--io-threads', threads] });
        const statuses = [];
        for (let i = 0; i < 12; i++)
            statuses.push((await server.get('/jobs', WRONG)).status);
        assert.deepEqual(statuses.slice(0, 5), Array(5).fill(401));
        assert.ok(statuses.includes(429), `${statuses}`);
        const res = await until(async () => {
            const one = await server.get('/jobs', WRONG);
            return one.status === 429 && one;
        }, '429');
        assertError(res, 429, 'too_many_attempts');
        assert.ok(Number(res.headers['retry-after']) >= 1 && Number(res.headers['retry-after']) <= 60);
        assert.equal(res.headers['www-authenticate'], undefined);
        assert.equal((await as('admin').get('/jobs')).status, 200, 'nobody locks out his neighbours');
        assertError(await server.get('/jobs'), 401, 'credentials_required');
        assert.equal((await server.get('/health', WRONG)).status, 200);
        await until(() => /too many wrong credentials from 127\.0\.0\.1/.test(server.stderr), 'a warning');
    });

it('wrong_tokens_behind_a_trusted_proxy_count_for_whom_it_asks_for', async (t) => {
    const { server } = await guarded(t, {}, { args: [...LIMIT, '--trusted-proxies', '127.0.0.1,10.0.0.0/8'] });
    const ask = async (forwarded) => (await server.get('/jobs', { ...WRONG, 'x-forwarded-for': forwarded })).status;
    const statuses = [];
    for (let i = 0; i < 12; i++)
        statuses.push(await ask(`203.0.113.${i}, 192.0.2.1, 10.1.1.1`)); // what is left of it anybody may write
    assert.deepEqual(statuses.slice(0, 5), Array(5).fill(401));
    assert.ok(statuses.includes(429), `${statuses}`);
    assert.equal(await ask('192.0.2.2'), 401, 'another client of the same proxy');
    assert.ok(/too many wrong credentials from 192\.0\.2\.1/.test(server.stderr));
});

it('a_peer_that_is_no_trusted_proxy_is_limited_whatever_it_says', async (t) => {
    const { server } = await guarded(t, {}, { args: [...LIMIT, '--trusted-proxies', '10.0.0.0/8'] });
    const statuses = [];
    for (let i = 0; i < 12; i++)
        statuses.push((await server.get('/jobs', { ...WRONG, 'x-forwarded-for': `192.0.2.${i}` })).status);
    assert.ok(statuses.includes(429), `${statuses}`);
});

const clients = [{ clientId: 'root', accessToken: 'a'.repeat(44), scopes: ['*'] }];
const server = useTaskcluster({ clients, args: LIMIT });

it('wrong_signatures_count_too', async () => {
    const wrong = { clientId: 'root', accessToken: 'b'.repeat(44) };
    const right = { clientId: 'root', accessToken: 'a'.repeat(44) };
    const status = async (credentials) => {
        try {
            await (await server.queue(credentials)).status('fN1SbArXTPSVFUUvaOlinQ');
        } catch (err) {
            return err.statusCode;
        }
        return 200;
    };
    const statuses = [];
    for (let i = 0; i < 8; i++)
        statuses.push(await status(wrong));
    assert.deepEqual(statuses.slice(0, 5), Array(5).fill(401));
    assert.ok(statuses.includes(429), `${statuses}`);
    assert.equal(await status(right), 404, 'let in');
});
