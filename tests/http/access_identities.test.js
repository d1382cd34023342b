// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who is known by JSON Web Tokens, by certificates, or as a client that signs its requests:
// serve --identities.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { assertError, begin, makeDir, notOn, run, until } = require('./harness');
const { bearer } = require('./access');
const { AUDIENCE, base64, issuer, jwt, keyPair, ready, rulesOf, started } = require('./issuer');
const { client1, serve } = require('./transport.js');
const { Authority } = require('../kubernetes/double/certificates');
const { assertRefused, definition, slugid, useTaskcluster } = require('./taskcluster');

describe('a JSON Web Token', { concurrency: 3 }, () => {
    const rsa = keyPair('RSA', 'r1', 'RS256'), ec = keyPair('P-256', 'e1', 'ES256');
    const ec384 = keyPair('P-384', 'e2', 'ES384');
    const worker = { claims: { sub: 'me' }, roles: ['worker', 'producer'], queues: ['mail-*'], name: 'mail' };

    it('has_the_roles_and_queues_of_the_first_rule_that_its_claims_fit', async (t) => {
        const one = await issuer(t, [rsa, ec, ec384]);
        const { server, as } = await started(t, rulesOf(one, [
            { claims: { groups: 'ops-*', email_verified: 'true' }, roles: ['operator'] },
            { claims: { 'kubernetes.io.serviceaccount.name': 'runner', sub: 'system:serviceaccount:*' },
                roles: ['viewer'] },
            worker]));
        assert.equal((await ready(server, jwt(rsa, one.claims()))).status, 200);
        assert.deepEqual(one.asked.slice(0, 2), ['/.well-known/openid-configuration', '/keys']);
        for (const key of [rsa, ec, ec384]) {
            const headers = bearer(jwt(key, one.claims({ aud: ['other', AUDIENCE] })));
            const body = { queue: 'mail-a', type: 't', payload: 1 };
            assert.equal((await server.post('/jobs', body, headers)).status, 201, key.alg);
            assertError(await server.post('/jobs', { ...body, queue: 'b' }, headers), 403, 'insufficient_rights');
            assertError(await server.post('/jobs/cancel?queue=mail-a', undefined, headers), 403, 'insufficient_rights');
        }
        const ops = bearer(jwt(ec, one.claims({ sub: 'ada', groups: ['a', 'ops-1'], email_verified: true })));
        assert.equal((await server.post('/jobs/cancel?queue=x', undefined, ops)).status, 200);
        const [{ actor }] = (await as('admin').get('/audit?operation=cancelJobs')).json.entries;
        assert.deepEqual(actor, { kind: 'jwt', id: 'ada', issuer: one.url });
        const pod = bearer(jwt(rsa, one.claims({ sub: 'system:serviceaccount:jobs:runner',
            'kubernetes.io': { namespace: 'jobs', serviceaccount: { name: 'runner' } } })));
        assert.equal((await server.get('/jobs', pod)).status, 200);
        const nobody = bearer(jwt(rsa, one.claims({ sub: 'other', groups: ['ops-1'] })));
        assertError(await server.get('/jobs', nobody), 403, 'insufficient_rights', /no rule/);
    });

    it('is_refused_unless_all_of_it_is_right', async (t) => {
        const one = await issuer(t, [rsa, ec]), stranger = keyPair('RSA', 'r1', 'RS256');
        const { server } = await started(t, rulesOf(one, [worker]));
        const good = jwt(rsa, one.claims());
        assert.equal((await ready(server, good)).status, 200);
        const [head, body, tail] = good.split('.');
        const now = Math.floor(Date.now() / 1000);
        const forged = (header, secret) => {
            const text = `${base64(header)}.${base64(one.claims())}`;
            return `${text}.${secret ? crypto.createHmac('sha256', secret).update(text).digest('base64url') : ''}`;
        };
        const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' });
        const der = crypto.sign('sha256', Buffer.from(`${head}.${body}`), ec.privateKey).toString('base64url');
        const bad = {
            none: forged({ alg: 'none', kid: 'r1' }), 'None, signed': forged({ alg: 'None' }, 'x'),
            'a MAC by the public key': forged({ alg: 'HS256', kid: 'r1' }, pem),
            'without alg': `${base64({ kid: 'r1' })}.${body}.${tail}`,
            'two algs': `${base64('{"alg":"RS256","alg":"none"}')}.${body}.${tail}`,
            'an escape': `${base64('{"\\u0061lg":"RS256"}')}.${body}.${tail}`,
            'the algorithm of another key': jwt(ec, one.claims(), { kid: 'r1' }),
            'another hash': jwt({ ...rsa, alg: 'RS512' }, one.claims()),
            'DER in the place of r and s': `${base64({ alg: 'ES256', kid: 'e1' })}.${body}.${der}`,
            'zeros': `${base64({ alg: 'ES256', kid: 'e1' })}.${body}.${Buffer.alloc(64).toString('base64url')}`,
            'a stranger with that kid': jwt(stranger, one.claims()),
            'a key of its own': jwt(stranger, one.claims(), { jwk: stranger.jwk, kid: undefined }),
            'an unknown kid': jwt({ ...rsa, kid: 'r9' }, one.claims()),
            'critical extensions': jwt(rsa, one.claims(), { crit: ['exp'] }),
            'changed claims': `${head}.${base64(one.claims({ sub: 'root' }))}.${tail}`,
            'cut off': good.slice(0, -4), 'padding': `${good}=`, 'a fourth part': `${good}.x`,
            'expired': jwt(rsa, one.claims({ exp: now - 60 })), 'no exp': jwt(rsa, one.claims({ exp: undefined })),
            'exp as text': jwt(rsa, one.claims({ exp: `${now + 600}` })),
            'not yet': jwt(rsa, one.claims({ nbf: now + 300 })),
            'another audience': jwt(rsa, one.claims({ aud: 'tenax2' })), 'no audience': jwt(rsa, one.claims({ aud: undefined })),
            'another issuer': jwt(rsa, one.claims({ iss: `${one.url}/` })), 'no subject': jwt(rsa, one.claims({ sub: undefined })),
            'no object': `${base64({ alg: 'RS256', kid: 'r1' })}.${base64('[]')}.${tail}`,
        };
        for (const [what, token] of Object.entries(bad)) {
            const res = await server.get('/version', bearer(token));
            assert.equal(res.status, 401, `${what}: ${res.text}`);
        }
        for (const more of [{ exp: now - 10 }, { nbf: now + 10 }])
            assert.equal((await server.get('/version', bearer(jwt(rsa, one.claims(more))))).status, 200, 'leeway');
        assert.ok(!server.stderr.includes(tail), 'no secret in the log');
    });

    it('may_be_signed_by_a_new_key_soon_after_it_is_there', async (t) => {
        const one = await issuer(t, [rsa]), next = keyPair('P-256', 'e7', 'ES256');
        const { server } = await started(t, rulesOf(one, [worker]));
        await ready(server, jwt(rsa, one.claims()));
        const old = jwt(rsa, one.claims());
        assert.equal((await server.get('/version', bearer(old))).status, 200);
        one.keys = [next];
        const fresh = jwt(next, one.claims());
        assertError(await server.get('/version', bearer(fresh)), 401, 'bad_credentials', /new key/);
        await until(async () => (await server.get('/version', bearer(fresh))).status === 200, 'it is known');
        assert.equal((await server.get('/version', bearer(old))).status, 401, 'its key is gone');
    });

    it('cannot_be_checked_while_its_issuer_is_not_there_or_not_who_it_was', async (t) => {
        const one = await issuer(t, [rsa], { wrong: { issuer: 'https://evil.example' } });
        const { server } = await started(t, rulesOf(one, [worker]));
        await until(() => /is about another issuer/.test(server.stderr), 'a warning');
        assertError(await server.get('/version', bearer(jwt(rsa, one.claims()))), 503, 'busy', /keys/);
        assert.ok(!one.asked.includes('/keys'));
    });

    it('is_checked_by_the_keys_that_are_known_while_its_issuer_is_away', async (t) => {
        const one = await issuer(t, [rsa]), next = keyPair('P-256', 'e7', 'ES256');
        const { server } = await started(t, rulesOf(one, [worker]));
        const known = bearer(jwt(rsa, one.claims())), fresh = bearer(jwt(next, one.claims()));
        await ready(server, known.authorization.slice(7));
        one.down = true;
        one.keys = [next];
        server.child.kill('SIGHUP');
        await until(() => /keys of the issuer .* cannot be read: .*503/.test(server.stderr), 'a warning');
        const another = bearer(jwt(rsa, one.claims({ jti: 'another' })));
        for (const headers of [known, another])
            assert.equal((await server.get('/version', headers)).status, 200);
        assertError(await server.get('/version', fresh), 401, 'bad_credentials');
        one.down = false;
        await until(async () => (await server.get('/version', fresh)).status === 200, 'it is asked again');
        await until(() => /keys of the issuer .* are read again/.test(server.stderr), 'the log says so');
    });

    it('comes_from_an_issuer_over_TLS_that_wants_a_token_itself', async (t) => {
        const dir = makeDir();
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const made = await run(['tls', 'init', '--out-dir', path.join(dir, 'tls')]);
        assert.equal(made.code, 0, made.stderr);
        const read = (name) => fs.readFileSync(path.join(dir, 'tls', name));
        const one = await issuer(t, [ec], { tls: { key: read('server-key.pem'), cert: read('server-cert.pem') } });
        const tokenFile = path.join(dir, 'token');
        fs.writeFileSync(tokenFile, 'of-the-pod\n');
        const { server } = await started(t, rulesOf(one, [worker], { jwks: `${one.url}/openid/v1/jwks`,
            caFile: path.join(dir, 'tls', 'ca-cert.pem'), tokenFile }));
        assert.equal((await ready(server, jwt(ec, one.claims()))).status, 200);
        assert.deepEqual(one.asked, ['/openid/v1/jwks']);
        assert.deepEqual(one.headers, ['Bearer of-the-pod']);
    });

    it('of_a_worker_proves_which_runs_it_holds', async (t) => {
        const one = await issuer(t, [ec]);
        const { server } = await started(t, rulesOf(one, [{ claims: { sub: '*' }, roles: ['worker', 'producer'] }]));
        const a = bearer(jwt(ec, one.claims({ sub: 'a' }))), b = bearer(jwt(ec, one.claims({ sub: 'b' })));
        await ready(server, a.authorization.slice(7));
        const { json: { id } } = await server.post('/jobs', { queue: 'q', type: 't', payload: 1 }, a);
        const stream = await server.take('?queue=q', a);
        await stream.next();
        assertError(await server.post(`/jobs/${id}/success`, {}, b), 403, 'insufficient_rights');
        // Nor do they hear of each other's jobs by the same Idempotency-Key.
        const once = (who) => server.request('POST', '/jobs', { queue: 'q', type: 't', payload: 1 },
            { ...who, 'idempotency-key': 'k' });
        const [first, other, repeated] = [await once(a), await once(b), await once(a)];
        assert.notEqual(first.json.id, other.json.id);
        assert.equal(first.json.id, repeated.json.id);
        // A renewed token of the same subject is the same worker.
        const again = bearer(jwt(ec, one.claims({ sub: 'a', jti: 'x' })));
        assert.equal((await server.post(`/jobs/${id}/success`, {}, again)).status, 204);
        stream.close();
    });

    it('is_not_checked_for_who_is_wrong_too_often_unless_it_was_before', async (t) => {
        const one = await issuer(t, [ec]);
        const { server, as } = await started(t, rulesOf(one, [worker]), ['--wrong-credentials', '4']);
        const known = bearer(jwt(ec, one.claims())), fresh = bearer(jwt(ec, one.claims({ jti: '1' })));
        await ready(server, known.authorization.slice(7));
        const wrong = () => server.get('/version', bearer(jwt({ ...ec, kid: 'x' }, one.claims())));
        await until(async () => (await wrong()).status === 429, 'too many');
        // Whether it is right is not looked at.
        const res = await server.get('/version', fresh);
        assert.equal(res.status, 429, res.text);
        assert.equal((await server.get('/version', known)).status, 200);
        assert.equal((await as('admin').get('/version')).status, 200);
    });

    it('of_a_file_is_read_again_by_a_worker', async (t) => {
        const one = await issuer(t, [ec]);
        const { server, as } = await started(t, rulesOf(one, [{ claims: { sub: 'w' }, roles: ['worker'] }]));
        const dir = makeDir(), file = path.join(dir, 'token');
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const now = Math.floor(Date.now() / 1000);
        // With the leeway it is good for some seconds yet.
        const write = (more) => fs.writeFileSync(file, `${jwt(ec, one.claims({ sub: 'w', ...more }))}\n`, { mode: 0o600 });
        write({ exp: now - 15 });
        await ready(server, fs.readFileSync(file, 'utf8').trim());
        const worker = begin(['work', '--url', server.url(), '--token-file', file, '--queue', 'q', '--', 'true']);
        t.after(() => worker.child.kill('SIGKILL'));
        const done = async (id) => (await as('admin').get(`/jobs/${id}`)).json.status === 'completed';
        const work = async () => {
            const body = { queue: 'q', type: 't', payload: 1, retention: { completed_ms: 600000 } };
            const { json: { id } } = await as('admin').post('/jobs', body);
            await until(() => done(id), () => `it is done: ${worker.stderr}`);
        };
        await work();
        write({});
        await until(() => Date.now() > (now + 16) * 1000, 'the first one has expired');
        await work();
    });

    it('counts_no_more_when_its_rule_has_gone_and_streams_end', async (t) => {
        const one = await issuer(t, [ec]);
        const { server, write } = await started(t, rulesOf(one, [worker]));
        const headers = bearer(jwt(ec, one.claims()));
        await ready(server, headers.authorization.slice(7));
        const take = await server.take('?queue=mail-a', headers);
        write({ rules: 'nonsense' });
        server.child.kill('SIGHUP');
        await until(() => /identities are those that were there: .*line 1, column \d+/.test(server.stderr), 'refused');
        assert.equal((await server.get('/version', headers)).status, 200);
        write(rulesOf(one, [{ ...worker, claims: { sub: 'another' } }]));
        server.child.kill('SIGHUP');
        await take.until(() => take.over, 'the stream ends');
        assertError(await server.get('/version', headers), 403, 'insufficient_rights');
    });

    it('of_a_worker_holds_its_runs_when_the_rules_are_read_again', async (t) => {
        const one = await issuer(t, [ec]);
        const { server, as } = await started(t, rulesOf(one, [worker]));
        const headers = bearer(jwt(ec, one.claims()));
        await ready(server, headers.authorization.slice(7));
        const { json: { id } } = await as('admin').post('/jobs', { queue: 'mail-a', type: 't', payload: 1 });
        const claimed = await server.post('/jobs/claim', { queues: ['mail-a'], worker: 'w' }, headers);
        const [{ token }] = claimed.json.jobs;
        server.child.kill('SIGHUP');
        await until(() => /has been read again/.test(server.stderr), 'read again');
        assert.equal((await server.post(`/jobs/${id}/success`, { token }, headers)).status, 204);
    });
});

describe('a certificate', () => {
    it('stands_for_an_identity_with_roles_and_queues', async (t) => {
        const dir = makeDir(), tls = path.join(dir, 'tls');
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const made = await run(['tls', 'init', '--out-dir', tls,
            ...['boss', 'mail-1', 'other'].flatMap((name) => ['--client', name])]);
        assert.equal(made.code, 0, made.stderr);
        const read = (name) => fs.readFileSync(path.join(tls, name));
        const file = path.join(dir, 'identities.yaml');
        fs.writeFileSync(file, ['rules:', '- certificate: CN=boss', '  roles: [admin]', '  name: the boss',
            '- certificate: CN=mail-*', '  roles: [producer]', '  queues: [mail-*]', ''].join('\n'));
        for (const threads of ['1', '2']) {
            const { url } = await serve(t, ['--identities', file, '--io-threads', threads,
                '--tls-cert', path.join(tls, 'server-cert.pem'), '--tls-key', path.join(tls, 'server-key.pem'),
                '--tls-client-ca', path.join(tls, 'ca-cert.pem')]);
            const as = (name) => client1(t, url, { ca: read('ca-cert.pem'),
                cert: read(`client-${name}-cert.pem`), key: read(`client-${name}-key.pem`) });
            const job = (queue) => JSON.stringify({ queue, type: 't', payload: 1 });
            const json = { 'content-type': 'application/json' };
            const mail = as('mail-1'), boss = as('boss'), other = as('other');
            assert.equal((await mail.ask('POST', '/jobs', job('mail-a'), json)).status, 201);
            assert.equal((await mail.ask('POST', '/jobs', job('x'), json)).status, 403);
            assert.equal((await mail.ask('DELETE', '/jobs')).status, 403);
            assert.equal((await other.ask('GET', '/jobs')).status, 401, 'no rule is about it');
            assert.equal((await boss.ask('DELETE', '/jobs')).status, 200);
            const [{ actor }] = JSON.parse((await boss.ask('GET', '/audit')).body).entries;
            assert.deepEqual(actor, { kind: 'certificate', id: 'CN=boss', name: 'the boss' });
        }
    });
});

describe('certificates without a subject', () => {
    it('are_those_of_different_workers_if_their_names_differ', async (t) => {
        const dir = makeDir();
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const authority = new Authority(dir), issued = authority.server('127.0.0.1');
        const file = path.join(dir, 'identities.yaml');
        fs.writeFileSync(file, ['rules:', '- certificateName: URI:spiffe://acme.example/w/*',
            '  roles: [worker, producer]', '- certificateName: DNS:boss.example', '  roles: [admin]', ''].join('\n'));
        const { url } = await serve(t, ['--identities', file, '--tls-cert', issued.certFile,
            '--tls-key', issued.keyFile, '--tls-client-ca', authority.ca.certFile]);
        const as = (names) => client1(t, url, { ca: authority.ca.cert, ...authority.issue('/', { names }) });
        const one = as('URI:spiffe://acme.example/w/1'), two = as('DNS:x,URI:spiffe://acme.example/w/2');
        const json = { 'content-type': 'application/json' };
        const post = (who, target, body = {}) => who.ask('POST', target, JSON.stringify(body), json);
        const { id } = JSON.parse((await post(one, '/jobs', { queue: 'q', type: 't', payload: 1 })).body);
        const claimed = JSON.parse((await post(one, '/jobs/claim', { queues: ['q'], worker: 'w' })).body);
        assert.equal((await post(two, `/jobs/${id}/success`)).status, 403);
        assert.equal((await post(one, `/jobs/${id}/success`)).status, 422);
        assert.equal((await post(one, `/jobs/${id}/success`, { token: claimed.jobs[0].token })).status, 204);
        const boss = as('DNS:boss.example');
        assert.equal((await boss.ask('DELETE', '/jobs')).status, 200);
        const [{ actor }] = JSON.parse((await boss.ask('GET', '/audit')).body).entries;
        assert.deepEqual(actor, { kind: 'certificate', id: 'DNS:boss.example' });
        assert.equal((await as('DNS:nobody').ask('GET', '/jobs')).status, 401);
    });
});

describe('a client that signs its requests', () => {
    const accessToken = 'a'.repeat(44), dir = makeDir(), file = path.join(dir, 'identities.yaml');
    fs.writeFileSync(file, ['rules:', '- {client: "look/*", roles: [viewer], payloads: true, name: on-lookers}',
        '- {client: "make/*", roles: [producer, worker]}', ''].join('\n'));
    const server = useTaskcluster({ args: ['--identities', file],
        clients: ['look/ada', 'make/bob', 'root'].map((clientId) => ({ clientId, accessToken, scopes: ['*'] })) });

    it('may_do_what_its_scopes_and_its_roles_allow', async () => {
        const { createTemporaryCredentials } = await import('taskcluster-client').then((m) => m.default ?? m);
        const id = await slugid();
        const look = { clientId: 'look/ada', accessToken };
        await (await server.queue({ clientId: 'root', accessToken })).createTask(id, definition());
        assert.equal((await (await server.queue(look)).task(id)).schedulerId, 'tests');
        const status = async (credentials) => (await server.queue(credentials)).cancelTask(id)
            .then(() => 200, (err) => err.statusCode);
        assert.equal(await status(look), 403);
        const temporary = createTemporaryCredentials({ scopes: ['*'], start: new Date(Date.now() - 1000),
            expiry: new Date(Date.now() + 3600e3), credentials: look, clientId: 'root' });
        assert.equal(await status(temporary), 403, 'whatever it calls itself');
        assert.equal(await status({ clientId: 'root', accessToken }), 200);
        // Nor does it hand on scopes to a task of its own, whose run it could then claim.
        const maker = await server.queue({ clientId: 'make/bob', accessToken });
        await assertRefused(maker.createTask(await slugid(), definition({ scopes: ['*'] })), 403,
            'InsufficientScopes', /'operate'/);
        await maker.createTask(await slugid(), definition({ scopes: ['secrets:get:x'] }));
        fs.rmSync(dir, { recursive: true });
    });
});

describe('serve --print-access', () => {
    it('says_who_may_do_what_and_nothing_secret',
        notOn('postgres', '--print-access looks into a root directory'), async (t) => {
        const one = await issuer(t, []);
        const { server, tokens, file } = await started(t, { ...rulesOf(one, [{ claims: { sub: 'a*', groups: 'g' },
            roles: ['worker'], queues: ['mail-*', 'x'], name: 'mail' }]) });
        const root = path.join(server.dir, 'root');
        const print = () => run(['serve', '--print-access', '--root-dir', root, '--identities', file, '--port', '0',
            '--admin-port', '0']);
        assert.notEqual((await print()).code, 0, 'the server runs');
        await server.stop();
        const { code, stdout, stderr } = await print();
        assert.equal(code, 0, stderr);
        const id = tokens.admin.slice(4, 20);
        assert.match(stdout, new RegExp(`^token ${id} +admin +all +never$`, 'm'));
        assert.ok(stdout.includes(`jwt of ${one.url} with sub=a*, groups=g`), stdout);
        assert.match(stdout, /mail +worker +mail-\*,x/);
        assert.match(stdout, /primary listener is on 127\.0\.0\.1, which only this machine reaches/);
        assert.match(stdout, /needs credentials/);
        assert.ok(!stdout.includes(tokens.admin.slice(21)));
        await server.start();
    });
});

describe('serve --identities', () => {
    it('says_what_is_wrong_with_its_file_and_where', async (t) => {
        const dir = makeDir(), file = path.join(dir, 'i.yaml');
        t.after(() => fs.rmSync(dir, { recursive: true }));
        const wrong = {
            'rules: [{roles: [viewer]}]': /line 1, column 9: a rule needs/,
            'rules: [{certificate: a, roles: [king]}]': /roles are viewer/,
            'rules: [{certificate: a, roles: [admin], queues: [q]}]': /cannot be limited/,
            'rules: [{certificate: a, client: b, roles: [viewer]}]': /one of/,
            'rules: [{certificate: a}]': /at least one of viewer/,
            'rules: [{issuer: "https://a", claims: {sub: x}, roles: [viewer]}]': /no such issuer/,
            'issuers: [{issuer: "http://a.example", audience: b}]': /https/,
            'issuers: [{issuer: "https://a"}]': /audience/,
            'issuers: [{issuer: "https://a", audience: b, keysMaxAge: 0s}]': /1s to 365d/,
            'issuers: [{issuer: "https://a", audience: b}]\nrules: [{issuer: "https://a", roles: [viewer]}]': /claims/,
            'who: []': /'who' is not known here/,
        };
        for (const [text, why] of Object.entries(wrong)) {
            fs.writeFileSync(file, text);
            const { code, stderr } = await run(['serve', '--identities', file, '--port', '0', '--admin-port', '0',
                '--root-dir', path.join(dir, 'root')]);
            assert.equal(code, 2, text);
            assert.match(stderr, why);
        }
    });
});
