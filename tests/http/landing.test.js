// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /: a browser comes to the console, everybody else is told what this is.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { guarded } = require('./access');
const { assertError, Server, useServer } = require('./harness');

const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

describe('the path of nothing', () => {
    const server = useServer();

    it('says_what_this_is_and_where_the_rest_is', async () => {
        const { version } = (await server.get('/version')).json;
        for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
            const res = await server.get('/', headers);
            assert.equal(res.status, 200, res.text);
            assert.equal(res.headers.vary, 'Accept');
            const { docs, ...rest } = res.json;
            assert.match(docs, /tenax help/);
            assert.deepEqual(rest, { name: 'tenax', version, listener: 'primary', health: '/health',
                openapi: '/openapi.json', console: '/console', admin_url: server.adminUrl });
            for (const target of [rest.health, rest.openapi])
                assert.equal((await server.get(target)).status, 200, target);
        }
        const head = await server.request('HEAD', '/');
        assert.equal(head.status, 200);
        const packed = await server.get('/', { accept: 'application/msgpack' });
        assert.equal(packed.headers['content-type'], 'application/msgpack');
    });

    it('says_on_the_admin_listener_that_it_is_that_one', async () => {
        const res = await server.admin('GET', '/');
        assert.equal(res.json.listener, 'admin');
        assert.equal(res.json.admin_url, server.adminUrl);
    });

    it('sends_a_browser_to_the_console', async () => {
        for (const method of ['GET', 'HEAD']) {
            const res = await server.request(method, '/', undefined, BROWSER);
            assert.equal(res.status, 302);
            assert.equal(res.headers.location, '/console');
            assert.equal(res.headers.vary, 'Accept');
            assert.equal(res.text, '');
        }
        assert.equal((await server.admin('GET', '/', undefined, BROWSER)).headers.location, '/console');
    });

    it('may_be_linked_to_by_pages_of_others_and_asked_by_none_of_them', async () => {
        const foreign = { ...BROWSER, 'sec-fetch-site': 'cross-site' };
        const link = await server.get('/', { ...foreign, 'sec-fetch-dest': 'document' });
        assert.equal(link.status, 302);
        assertError(await server.get('/', { ...foreign, 'sec-fetch-dest': 'empty' }), 403, 'origin_not_allowed');
        assertError(await server.get('/', { origin: 'http://evil.example' }), 403, 'origin_not_allowed');
    });

    it('takes_no_parameters_and_no_other_method', async () => {
        assertError(await server.get('/?pretty=true'), 400, 'unknown_field', /pretty/);
        const res = await server.post('/', {});
        assertError(res, 405, 'method_not_allowed');
        assert.equal(res.headers.allow, 'GET, HEAD');
        assertError(await server.get('//'), 404, 'no_such_path');
    });
});

describe('the path of nothing of a server', () => {
    it('without_a_console_is_the_same_for_browsers', async (t) => {
        const server = await new Server({ args: ['--no-console', '--no-admin'] }).start();
        t.after(() => server.clean());
        const res = await server.get('/', BROWSER);
        assert.equal(res.status, 200);
        assert.equal(res.json.console, undefined);
        assert.equal(res.json.admin_url, undefined);
    });

    it('that_has_tokens_needs_none', async (t) => {
        const { server } = await guarded(t, {});
        assert.equal((await server.get('/jobs')).status, 401);
        assert.equal((await server.get('/')).json.name, 'tenax');
        assert.equal((await server.get('/', BROWSER)).status, 302);
    });
});
