// SPDX-License-Identifier: Apache-2.0
'use strict';

// What is about several servers, asked of one that works by itself. tests/postgres has the rest.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { notOn, run, useServer } = require('./harness');

describe('a server by itself', notOn('postgres', 'there it is one of several'), () => {
    const server = useServer();

    it('has no other servers', async () => {
        for (const [method, path] of [['GET', '/servers'], ['POST', '/servers/step-down']]) {
            const answer = await server.request(method, path);
            assert.equal(answer.status, 501);
            assert.match(answer.json.error, /--postgres/);
        }
        const end = await run(['servers', '--url', server.url()]);
        assert.equal(end.code, 1);
        assert.match(end.stderr, /works by itself/);
    });

    it('has its jobs', async () => {
        const answer = await server.request('GET', '/health?role=owner');
        assert.equal(answer.status, 200);
        assert.equal(answer.json.role, undefined);
        assert.equal((await server.request('GET', '/health?role=standby')).status, 400);
        assert.equal((await server.request('GET', '/health?rule=owner')).status, 400);
    });
});
