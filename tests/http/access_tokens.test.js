// SPDX-License-Identifier: Apache-2.0
'use strict';

// Tokens: making, listing and deleting them, over HTTP and by the command line, and what outlives
// what.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, assertError, begin, makeDir, notOn, run, until } = require('./harness');
const { bearer, create, guarded, idOf, rootOf, tokenCommand } = require('./access');

async function started(t, options = {}) {
    const server = new Server(options);
    await server.start();
    t.after(() => server.clean());
    return server;
}

describe('without a token of an admin', () => {
    it('everybody_may_do_everything_but_manage_tokens_elsewhere_than_on_the_admin_listener', async (t) => {
        const server = await started(t);
        assert.equal((await server.get('/jobs')).status, 200);
        assertError(await server.post('/tokens', { roles: ['admin'] }), 403, 'insufficient_rights', /loopback/);
        assertError(await server.get('/tokens'), 403, 'insufficient_rights');
        assert.deepEqual((await server.admin('GET', '/tokens')).json, { tokens: [] });
        const worker = await create(server, { roles: ['worker'] }, {});
        assert.equal((await server.get('/jobs')).status, 200, 'no admin has begun access control');
        assertError(await server.post('/jobs', { queue: 'a', type: 't', payload: 1 }, bearer(worker)),
            403, 'insufficient_rights');
    });

    it('the_first_one_ends_that', async (t) => {
        const { server, as } = await guarded(t);
        assert.equal((await server.get('/health')).status, 200);
        assertError(await server.get('/jobs'), 401, 'credentials_required');
        assertError(await server.admin('GET', '/tokens'), 401, 'credentials_required');
        assertError(await server.admin('POST', '/tokens', { roles: ['admin'] }), 401, 'credentials_required');
        assert.equal((await as('admin').get('/jobs')).status, 200);
        // With a token, any listener will do.
        assert.equal((await as('admin').post('/tokens', { roles: ['viewer'] })).status, 201);
    });
});

describe('a token', () => {
    it('is_shown_once_and_listed_without_its_secret', async (t) => {
        const { server, tokens, as } = await guarded(t,
            { w: { roles: ['worker', 'producer'], queues: ['mail-*'], name: 'mail', expires_at: Date.now() + 1e6 } });
        const res = await as('admin').get('/tokens');
        assert.ok(!res.text.includes(tokens.w.slice(21)));
        const [, w] = res.json.tokens;
        assert.equal(w.id, idOf(tokens.w));
        assert.deepEqual(w.roles, ['producer', 'worker']);
        assert.deepEqual(w.queues, ['mail-*']);
        assert.equal(w.name, 'mail');
        assert.equal(w.used_at, null);
        await as('w').get('/version');
        const again = (await as('admin').get('/tokens')).json.tokens[1];
        assert.ok(again.used_at >= w.created_at);
        assert.ok(!server.stderr.includes(tokens.w.slice(21)));
    });

    it('is_refused_if_it_makes_no_sense', async (t) => {
        const { as } = await guarded(t);
        const bad = [{}, { roles: [] }, { roles: ['root'] }, { roles: 'admin' },
            { roles: ['admin'], queues: ['a'] }, { roles: ['worker'], queues: [] },
            { roles: ['worker'], queues: ['a,b'] }, { roles: ['worker'], expires_at: 1 },
            { roles: ['worker'], name: 'x'.repeat(65) },
            { roles: ['worker'], queues: Array(33).fill('q') }];
        for (const body of bad)
            assert.equal((await as('admin').post('/tokens', body)).status, 400, JSON.stringify(body));
        // A misspelled limit would be a token without one.
        assertError(await as('admin').post('/tokens', { roles: ['worker'], queue: ['mail'] }), 400, 'unknown_field',
            /'queue'/);
        assert.equal((await as('admin').get('/tokens')).json.tokens.length, 1);
    });

    it('is_void_at_once_when_it_is_deleted_and_its_streams_end', async (t) => {
        const { server, tokens, as } = await guarded(t, { w: { roles: ['worker'] } });
        const take = await as('w').take('?queue=a');
        const events = await as('w').events('');
        const claim = as('w').post('/jobs/claim', { queues: ['a'], wait_ms: 60000, worker: 'w' });
        await until(async () => /^tenax_claims_waiting 1$/m.test(
            (await as('admin').get('/metrics')).text), 'the claim waits');
        assert.equal((await as('admin').delete(`/tokens/${idOf(tokens.w)}`)).status, 204);
        await take.until(() => take.over, 'the stream of jobs ends');
        await events.until(() => events.over, 'the stream of events ends');
        assert.deepEqual((await claim).json, { jobs: [] });
        assertError(await as('w').get('/version'), 401, 'bad_credentials');
        assertError(await as('admin').delete(`/tokens/${idOf(tokens.w)}`), 404, 'not_found');
        await server.stop();
        await server.start();
        assertError(await as('w').get('/version'), 401, 'bad_credentials');
    });

    it('is_void_even_if_the_disk_is_too_full_to_say_so_and_can_then_be_deleted_again', async (t) => {
        const dir = makeDir(), config = path.join(dir, 'config.yaml');
        t.after(() => fs.rmSync(dir, { recursive: true }));
        fs.writeFileSync(config, 'min-free-space: 0\nheartbeat-interval: 20ms\n');
        const { server, as, tokens } = await guarded(t, { w: { roles: ['worker'] } }, { args: ['--config', config] });
        const room = async (bytes, status) => {
            fs.writeFileSync(config, `min-free-space: ${bytes}\nheartbeat-interval: 20ms\n`);
            server.child.kill('SIGHUP');
            await until(async () => (await server.get('/health')).status === status, `health is ${status}`);
        };
        const remove = () => as('admin').delete(`/tokens/${idOf(tokens.w)}`);
        await room('9000000GiB', 503);
        assert.equal((await remove()).status, 507);
        assertError(await as('w').get('/version'), 401, 'bad_credentials');
        assert.equal((await remove()).status, 507, 'not 404, for it is still there');
        await room('0', 200);
        assert.equal((await remove()).status, 204);
        assertError(await remove(), 404, 'not_found');
        await server.stop();
        await server.start();
        assertError(await as('w').get('/version'), 401, 'bad_credentials');
    });

    it('is_kept_as_a_hash_alone', async (t) => {
        const { server, tokens, as } = await guarded(t, { w: { roles: ['worker'] } });
        await as('w').get('/jobs');
        const archive = path.join(server.dir, 'backup');
        const made = await run(['backup', archive, '--url', server.adminUrl], { TENAX_TOKEN: tokens.admin });
        assert.equal(made.code, 0, made.stderr);
        await server.stop();
        const files = fs.readdirSync(server.dir, { recursive: true, withFileTypes: true })
            .filter((entry) => entry.isFile()).map((entry) => path.join(entry.path, entry.name));
        const hash = (text) => crypto.createHash('sha256').update(text).digest('hex');
        let hashes = 0;
        for (const bytes of files.map((file) => fs.readFileSync(file, 'latin1'))) {
            for (const token of Object.values(tokens))
                assert.ok(!bytes.includes(token.slice(21)));
            hashes += bytes.includes(hash(tokens.w));
        }
        assert.ok(hashes > 0, `${files}`);
    });

    it('outlives_kill_and_reset', async (t) => {
        const { server, as } = await guarded(t, { w: { roles: ['worker'] } });
        assert.equal((await as('admin').post('/reset')).status, 204);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await as('w').get('/jobs')).status, 200);
        assertError(await server.get('/jobs'), 401, 'credentials_required');
    });

    it('is_named_in_the_log_when_it_changes_what_is_there', async (t) => {
        const { server, as, tokens } = await guarded(t,
            { o: { roles: ['operator'], name: 'Ada \u00e4' }, p: { roles: ['producer'] } },
            { args: ['--log-format', 'json', '--log-level', 'info'] });
        await as('p').post('/jobs', { queue: 'a', type: 't', payload: 1 });
        await as('o').get('/jobs');
        await as('o').post('/jobs/cancel?queue=a');
        const logged = () => server.stderr.split('\n').filter((line) => /change asked for/.test(line));
        const changes = await until(() => logged().length > 3 && logged().map((line) => JSON.parse(line)),
            () => server.stderr);
        const { operation, actor, id, name, address, path: target, query } = changes.at(-1);
        assert.deepEqual({ operation, actor, id, name, address, target, query }, { operation: 'cancelJobs',
            actor: 'token', id: idOf(tokens.o), name: 'Ada???', address: '127.0.0.1',
            target: '/jobs/cancel', query: 'queue=a' });
        assert.deepEqual(changes.map((change) => change.operation),
            ['createToken', 'createToken', 'createToken', 'cancelJobs']);
        for (const token of Object.values(tokens))
            assert.ok(!server.stderr.includes(token.slice(21)), 'no secret in the log');
    });

    it('ends_at_its_time_and_its_streams_with_it', async (t) => {
        const { server, as, tokens } = await guarded(t, {}, { args: ['--heartbeat-interval', '50ms'] });
        tokens.w = await create(server, { roles: ['worker'], expires_at: Date.now() + 10000 },
            bearer(tokens.admin));
        const take = await as('w').take('?queue=a');
        await take.until(() => take.over, 'the stream ends');
        assertError(await as('w').get('/version'), 401, 'bad_credentials', /expired/);
    });

    it('of_an_admin_still_demands_credentials_when_it_has_expired', async (t) => {
        const server = await started(t);
        const token = await create(server, { roles: ['admin'], expires_at: Date.now() + 5000 }, {});
        await until(async () => (await server.get('/jobs', bearer(token))).status === 401, 'it expires');
        assertError(await server.get('/jobs'), 401, 'credentials_required');
        await server.stop();
        await server.start();
        assertError(await server.get('/jobs'), 401, 'credentials_required');
    });

    it('of_the_last_admin_cannot_be_deleted', async (t) => {
        const { tokens, as } = await guarded(t);
        assertError(await as('admin').delete(`/tokens/${idOf(tokens.admin)}`), 409, 'conflict');
        await as('admin').post('/tokens', { roles: ['admin'] });
        assert.equal((await as('admin').delete(`/tokens/${idOf(tokens.admin)}`)).status, 204);
        assertError(await as('admin').get('/jobs'), 401, 'bad_credentials');
    });
});

describe('tenax token', () => {
    it('prints_nothing_but_the_token', async (t) => {
        const server = await started(t);
        const first = await tokenCommand(server, ['create', '--role', 'admin']);
        assert.deepEqual([first.code, first.stderr], [0, '']);
        assert.match(first.stdout, /^tnx_\w{16}_[\w-]{43}\n$/);
        const env = { TENAX_TOKEN: first.stdout.trim() };
        const second = await tokenCommand(server,
            ['create', '--role', 'worker', '--queues', 'mail-*', '--expires', '90d'], env);
        assert.match(second.stdout, /^tnx_\w{16}_[\w-]{43}\n$/);
        const [, made] = (await server.admin('GET', '/tokens', undefined, bearer(env.TENAX_TOKEN))).json.tokens;
        assert.equal(Math.round((made.expires_at - made.created_at) / 86400e3), 90);
        const list = await tokenCommand(server, ['list'], env);
        assert.match(list.stdout, /worker +mail-\*/);
        assert.match(list.stdout, /admin +all/);
        const id = idOf(second.stdout);
        const gone = await tokenCommand(server, ['delete', id], env);
        assert.equal(gone.code, 0, gone.stderr);
        assert.equal((await tokenCommand(server, ['delete', id], env)).code, 4);
        assert.equal((await tokenCommand(server, ['list'])).code, 1, 'without a token');
    });

    it('is_written_to_a_file_of_its_owner_alone', async (t) => {
        const server = await started(t);
        const file = path.join(server.dir, 'secret');
        const make = (...more) => tokenCommand(server, ['create', '--role', 'admin', ...more],
            { TENAX_TOKEN_FILE: fs.existsSync(file) ? file : '' });
        const lost = await make('--out', path.join(server.dir, 'none', 'secret'));
        assert.equal(lost.code, 1, lost.stderr);
        assert.match(lost.stderr, /No such file/);
        assert.equal((await server.get('/jobs')).status, 200, 'no token was made');
        const old = process.umask(0);
        for (const more of [[], [], ['--root-dir', rootOf(server)]]) { // the second one replaces the file
            const made = await make('--out', file, ...more);
            assert.deepEqual([made.code, made.stdout, made.stderr], [0, '', '']);
            assert.match(fs.readFileSync(file, 'utf8'), /^tnx_\w{16}_[\w-]{43}\n$/);
            assert.equal(fs.statSync(file).mode & 0o777, 0o600);
            if (!more.length)
                assert.equal((await tokenCommand(server, ['list'], { TENAX_TOKEN_FILE: file })).code, 0);
        }
        process.umask(old);
        assert.deepEqual(fs.readdirSync(server.dir).filter((name) => name.startsWith('secret')), ['secret']);
        assert.equal((await tokenCommand(server, ['list', '--out', file], { TENAX_TOKEN_FILE: file })).code, 2);
    });

    it('is_sent_by_commands_from_a_file_or_a_variable', async (t) => {
        const { server, tokens } = await guarded(t, { p: { roles: ['producer'] } });
        const file = path.join(server.dir, 'token');
        fs.writeFileSync(file, `${tokens.p}\n`, { mode: 0o600 });
        const url = ['--url', server.url()];
        assert.equal((await run(['queues', ...url])).code, 1);
        assert.equal((await run(['queues', ...url, '--token-file', file])).code, 0);
        assert.equal((await run(['queues', ...url], { TENAX_TOKEN: tokens.p })).code, 0);
        assert.equal((await run(['queues', ...url], { TENAX_TOKEN_FILE: file })).code, 0);
        const none = await run(['queues', ...url, '--token-file', `${file}.none`]);
        assert.equal(none.code, 2);
        fs.writeFileSync(file, 'two words\n');
        const bad = await run(['queues', ...url, '--token-file', file]);
        assert.equal(bad.code, 2);
        assert.ok(!bad.stderr.includes('words'), bad.stderr);
    });

    it('is_sent_by_workers_which_keep_it_from_their_commands', async (t) => {
        const { server, tokens, as } = await guarded(t, { w: { roles: ['worker'], queues: ['a'] } });
        await as('admin').post('/jobs', { queue: 'a', type: 't', payload: 1 });
        const out = path.join(server.dir, 'out');
        const done = await run(['work', '--url', server.url(), '--queue', 'a', '--once', '--',
            'sh', '-c', `env > ${out}`], { TENAX_TOKEN: tokens.w });
        assert.equal(done.code, 0, done.stderr);
        assert.ok(!fs.readFileSync(out, 'utf8').includes(tokens.w));
        assert.match(fs.readFileSync(out, 'utf8'), /TENAX_URL|TENAX_JOB/);
    });

    it('makes_one_for_a_stopped_server', async (t) => {
        const { server, as, tokens } = await guarded(t);
        const root = rootOf(server);
        await server.stop();
        const made = await run(['token', 'create', '--role', 'admin', '--root-dir', root]);
        assert.equal(made.code, 0, made.stderr);
        assert.match(made.stdout, /^tnx_\w{16}_[\w-]{43}\n$/);
        const file = path.join(root, 'new-tokens', `${idOf(made.stdout)}.json`);
        assert.ok(!fs.readFileSync(file, 'utf8').includes(made.stdout.trim().slice(21)));
        await server.start();
        tokens.other = made.stdout.trim();
        assert.equal((await as('other').get('/tokens')).json.tokens.length, 2);
        assert.equal((await as('admin').get('/jobs')).status, 200);
        assert.ok(!fs.existsSync(file), 'it was taken in');
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await as('other').get('/jobs')).status, 200);
    });

    it('makes_none_for_all_queues_unless_that_was_meant', async (t) => {
        const { server, tokens } = await guarded(t);
        const env = { TENAX_TOKEN: tokens.admin };
        for (const queues of ['', ',a', 'a,,b', 'a\n'])
            for (const [where, code] of [[['--url', server.adminUrl], 1], [['--root-dir', rootOf(server)], 1]]) {
                const made = await run(['token', 'create', '--role', 'worker', '--queues', queues, ...where], env);
                assert.deepEqual([made.code, made.stdout], [code, ''], `${queues} ${where} ${made.stderr}`);
            }
        assert.ok(!fs.existsSync(path.join(rootOf(server), 'new-tokens')));
        const role = await run(['token', 'create', '--role', 'worker,,viewer', '--root-dir', rootOf(server)]);
        assert.equal(role.code, 1, role.stdout);
    });

    it('makes_one_for_a_running_server_that_is_told', async (t) => {
        const server = await started(t);
        const made = await run(['token', 'create', '--role', 'admin', '--root-dir', rootOf(server)]);
        assert.equal((await server.get('/jobs')).status, 200);
        server.child.kill('SIGHUP');
        await until(async () => (await server.get('/jobs')).status === 401, 'access control begins');
        assert.equal((await server.get('/jobs', bearer(made.stdout.trim()))).status, 200);
    });

    it('lets_a_server_listen_elsewhere',
        notOn('postgres', 'another server is started on its root directory'), async (t) => {
        const server = await started(t);
        const root = rootOf(server);
        await server.stop();
        const serve = ['serve', '--root-dir', root, '--port', '0', '--no-admin', '--host', '0.0.0.0'];
        const refused = await run(serve);
        assert.equal(refused.code, 2, refused.stderr);
        await run(['token', 'create', '--role', 'admin', '--root-dir', root]);
        const open = begin(serve);
        await until(() => /Listening on/.test(open.stdout), 'it listens');
        open.child.kill('SIGTERM');
        assert.equal((await open.ended).code, 0, open.stderr);
    });
});
