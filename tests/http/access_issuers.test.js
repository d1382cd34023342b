// SPDX-License-Identifier: Apache-2.0
'use strict';

// Issuers of JSON Web Tokens that answer nonsense, too much, too late or not at all, and senders that
// make the server ask them.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, until } = require('./harness');
const { bearer } = require('./access');
const { issuer, jwt, keyPair, ready, rulesOf, started } = require('./issuer');

const RULE = { claims: { sub: 'me' }, roles: ['viewer'] };
const KID = 'good';
const good = keyPair('P-256', KID, 'ES256');

function send(res, body, status = 200, headers = {}) {
    res.writeHead(status, { 'content-type': 'application/json', ...headers });
    res.end(typeof body === 'string' ? body : JSON.stringify(body));
}

// How often the log has said that keys cannot be read.
function failures(server) {
    return (server.stderr.match(/keys of the issuer .* cannot be read/g) ?? []).length;
}

describe('keys', { concurrency: 2 }, () => {
    it('that_cannot_be_read_leave_those_that_are_known', async (t) => {
        const one = await issuer(t, [good]);
        const { server, as } = await started(t, rulesOf(one, [RULE]));
        const token = () => bearer(jwt(good, one.claims({ jti: String(Math.random()) })));
        assert.equal((await ready(server, token().authorization.slice(7))).status, 200);
        const elsewhere = await issuer(t, []);
        const odd = {
            nothing: (req, res) => send(res, ''),
            'no JSON': (req, res) => send(res, '<html>'),
            'an empty object': (req, res) => send(res, {}),
            'no list': (req, res) => send(res, { keys: { [KID]: good.jwk } }),
            'no keys': (req, res) => send(res, { keys: [] }),
            'keys cut off': (req, res) => send(res, JSON.stringify({ keys: [good.jwk] }).slice(0, -2)),
            'private and symmetric keys alone': (req, res) => send(res, { keys: [{ kty: 'oct', k: 'AAAA', kid: KID }] }),
            'more than a megabyte': (req, res) => send(res, { pad: 'x'.repeat(1 << 20), keys: [good.jwk] }),
            'an endless answer': (req, res) => {
                res.writeHead(200, { 'content-type': 'application/json' });
                const more = () => { while (!res.destroyed && res.write('[['.repeat(32768))); };
                res.on('drain', more);
                more();
            },
            'deep nesting': (req, res) => send(res, `{"keys":${'['.repeat(100000)}${']'.repeat(100000)}}`),
            'a redirect': (req, res) => send(res, '', 302, { location: `${elsewhere.url}/keys` }),
            'a status of its own': (req, res) => send(res, { keys: [good.jwk] }, 203),
            'an answer that breaks off': (req, res) => {
                res.writeHead(200, { 'content-length': 1000 });
                res.write('{"keys"', () => res.destroy());
            },
        };
        for (const [what, answer] of Object.entries(odd)) {
            const before = failures(server);
            one.answer = answer;
            server.child.kill('SIGHUP');
            await until(() => failures(server) > before, () => `${what}: a warning: ${server.stderr}`);
            assert.equal((await server.get('/version', token())).status, 200, what);
        }
        assert.deepEqual(elsewhere.asked, [], 'no redirect is followed');
        assert.equal((await as('admin').get('/health')).status, 200);
    });

    it('that_are_odd_do_not_take_others_with_them', async (t) => {
        const one = await issuer(t, []);
        const other = keyPair('P-256', KID, 'ES256'), unnamed = keyPair('RSA', undefined, 'RS256');
        const odd = [{ kty: 'OKP', crv: 'Ed25519', x: 'AA', kid: KID }, { kty: 'oct', k: 'AA', kid: KID }, {}, [], 7, null,
            { ...good.jwk, kid: 7 }, { ...good.jwk, use: 'enc' }, { ...good.jwk, alg: 'HS256' }, { ...good.jwk, x: '' },
            { ...good.jwk, y: good.jwk.x }, { ...good.jwk, crv: 'P-384' }];
        one.answer = (req, res) => send(res, { keys: [...odd, other.jwk, good.jwk, unnamed.jwk],
            more: {} });
        const { server } = await started(t, rulesOf(one, [RULE]));
        // Two keys of one name: whichever has signed it.
        assert.equal((await ready(server, jwt(good, one.claims()))).status, 200);
        assert.equal((await server.get('/version', bearer(jwt(other, one.claims())))).status, 200);
        // A key without a name signs tokens without one; a named one signs those too.
        for (const key of [unnamed, good]) {
            const { status, text } = await server.get('/version', bearer(jwt(key, one.claims(), { kid: undefined })));
            assert.equal(status, 200, text);
        }
        assertError(await server.get('/version', bearer(jwt(unnamed, one.claims(), { kid: KID }))), 401, 'bad_credentials');
    });

    it('of_which_there_are_very_many_count_up_to_a_limit', async (t) => {
        const one = await issuer(t, []);
        const late = keyPair('P-256', 'late', 'ES256');
        const many = Array.from({ length: 2000 }, (_, i) => ({ ...late.jwk, kid: `k${i}` }));
        one.answer = (req, res) => send(res, { keys: [good.jwk, ...many, late.jwk] });
        const { server } = await started(t, rulesOf(one, [RULE]));
        assert.equal((await ready(server, jwt(good, one.claims()))).status, 200);
        assert.equal((await server.get('/version', bearer(jwt({ ...late, kid: 'k62' }, one.claims())))).status, 200);
        assert.equal((await server.get('/version', bearer(jwt(late, one.claims())))).status, 401);
    });

    it('are_asked_for_at_a_bounded_rate_whoever_sends_unknown_ones', async (t) => {
        const one = await issuer(t, [good]);
        const { server } = await started(t, rulesOf(one, [RULE]));
        await ready(server, jwt(good, one.claims()));
        const begun = Date.now();
        for (let i = 0; i < 40; i++)
            await Promise.all(Array.from({ length: 10 }, async (_, n) => {
                const token = jwt({ ...good, kid: `unknown-${i}-${n}` }, one.claims());
                assertError(await server.get('/version', bearer(token)), 401, 'bad_credentials', /new key/);
            }));
        const seconds = (Date.now() - begun) / 1000;
        const asked = one.asked.filter((url) => url === '/keys').length;
        assert.ok(asked <= 2 + seconds / 5, `${asked} times in ${seconds} s`);
        assert.equal((await server.get('/version', bearer(jwt(good, one.claims())))).status, 200);
    });

    it('that_do_not_arrive_keep_nobody_else_waiting', async (t) => {
        const one = await issuer(t, [good]);
        one.answer = () => {}; // it never answers
        const { server, as } = await started(t, rulesOf(one, [RULE]));
        await until(() => one.asked.includes('/keys'), 'it is asked');
        assertError(await server.get('/version', bearer(jwt(good, one.claims()))), 503, 'busy', /keys/);
        assert.equal((await as('admin').get('/version')).status, 200);
        // Nor does the end of the server.
        await server.stop();
        await server.start();
    });

    it('count_for_keysMaxAge_while_the_issuer_is_away', async (t) => {
        const one = await issuer(t, [good]);
        const { server } = await started(t, rulesOf(one, [RULE], { keysMaxAge: '2s' }));
        const known = bearer(jwt(good, one.claims()));
        await ready(server, known.authorization.slice(7));
        one.down = true;
        // Also what was found to be right before.
        await until(async () => (await server.get('/version', known)).status === 503, 'they are too old');
        assertError(await server.get('/version', bearer(jwt(good, one.claims({ jti: '1' })))), 503, 'busy', /too long/);
        // To read the rules again does not make them any newer.
        server.child.kill('SIGHUP');
        await until(() => failures(server) > 0, 'a warning');
        assert.equal((await server.get('/version', known)).status, 503);
        one.down = false;
        await until(async () => (await server.get('/version', known)).status === 200, 'they are read again');
    });
});
