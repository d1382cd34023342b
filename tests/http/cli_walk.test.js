// SPDX-License-Identifier: Apache-2.0
'use strict';

// What every command does with what people type by mistake, where its output cannot be written, and
// without a server; variables; root directories; how the admin listener is found.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, makeDir, notOn, ownAddress, run, useServer } = require('./harness');

const BIN = path.resolve(process.env.TENAX_BIN || path.join(__dirname, '../../build/tenax'));

function list(dir) {
    return fs.readdirSync(dir).sort();
}

// A command line of the shell, in which $T is tenax.
function shell(text) {
    const end = spawnSync('bash', ['-c', text], { encoding: 'utf8', timeout: 60000,
        env: { PATH: process.env.PATH, T: BIN, HOME: '/nonexistent' } });
    assert.equal(end.error, undefined);
    return end;
}

describe('every command', () => {
    let commands;
    before(async () => {
        commands = (await run(['help', '--list'])).stdout.trim().split('\n')
            .filter((name) => !name.includes(' '));
        assert.ok(commands.length > 40, commands);
    });

    it('refuses_an_unknown_option_and_names_help_when_it_is_meant', async () => {
        for (const name of commands) {
            const wrong = await run([name, '--zzzqqq']);
            assert.equal(wrong.code, 2, `${name}: ${wrong.stderr}`);
            assert.ok(wrong.stderr.startsWith(`tenax ${name}: `), wrong.stderr);
            if (['completion', 'tls'].includes(name)) // a word decides what options there are
                continue;
            const help = await run([name, '--hepl']);
            assert.match(help.stderr, /unknown option '--hepl'; did you mean '--help'\?/);
        }
    });

    it('has_a_help_page_of_80_columns_that_fails_where_it_cannot_be_written', () => {
        for (const name of commands) {
            const page = shell(`$T help ${name}`);
            assert.equal(page.status, 0, page.stderr);
            for (const line of page.stdout.split('\n'))
                assert.ok([...line].length <= 80, `${name}: ${line}`);
            const full = shell(`$T help ${name} >/dev/full`);
            assert.equal(full.status, 1, name);
            assert.match(full.stderr, /cannot write the output/);
            const closed = shell(`$T help ${name} >&-`);
            assert.equal(closed.status, 1, name);
            const early = shell(`$T help ${name} | head -n 1 >/dev/null; exit \${PIPESTATUS[0]}`);
            assert.equal(early.status, 0, early.stderr);
            assert.equal(early.stderr, '');
        }
    });
});

describe('a server that is none', () => {
    let listener, url;
    before(async () => {
        listener = net.createServer((socket) => {
            socket.on('error', () => {});
            socket.once('data', () => socket.end('\0garbage\x1b[31m\r\n\r\n'));
        });
        await new Promise((resolve) => listener.listen(0, ownAddress(), resolve));
        url = `http://${ownAddress()}:${listener.address().port}`;
    });
    after(() => listener.close());

    it('is_named_and_said_to_be_no_server', async () => {
        for (const args of [['jobs'], ['queues'], ['backup', '-'], ['compact'], ['token'], ['events']]) {
            const end = await run(args, { TENAX_URL: url });
            assert.equal(end.code, 3, `${args}: ${end.stderr}`);
            assert.equal(end.stderr, `tenax ${args[0]}: cannot reach ${url}: what answers there does not ` +
                'speak HTTP; is that a Tenax server?\n');
        }
    });
});

describe('the admin listener', () => {
    const server = useServer();
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    it('is_found_by_commands_that_know_the_server', async () => {
        for (const [flags, env] of [[[], { TENAX_URL: server.url() }], [['--url', server.url()], {}],
            [['--url', server.adminUrl], {}], [[], { TENAX_URL: server.adminUrl }],
            [['--admin-url', server.adminUrl], {}], [[], { TENAX_ADMIN_URL: server.adminUrl }],
            [[], { TENAX_ADMIN_URL: server.adminUrl, TENAX_URL: 'http://127.0.0.1:1' }],
            [['--url', server.url()], { TENAX_ADMIN_URL: 'http://127.0.0.1:1' }]]) {
            const what = JSON.stringify([flags, env]);
            const token = await run(['token', ...flags], env);
            assert.equal(token.code, 0, `${what}: ${token.stderr}`);
            const compact = await run(['compact', ...flags], env);
            assert.equal(compact.code, 0, `${what}: ${compact.stderr}`);
            const backup = await run(['backup', '--force', ...flags, path.join(dir, 'b')], env);
            assert.equal(backup.code, 0, `${what}: ${backup.stderr}`);
        }
    });

    it('is_missed_in_words', async (t) => {
        const bare = await new Server({ args: ['--no-admin'] }).start();
        t.after(() => bare.clean());
        for (const args of [['backup', path.join(dir, 'none')], ['compact'], ['token']]) {
            const end = await run([...args, '--url', bare.url()]);
            assert.equal(end.code, 1, end.stderr);
            assert.match(end.stderr, /does not say where its admin listener is.*--admin-url/);
        }
        const wrong = await run(['compact', '--admin-url', 'x y'], { TENAX_URL: bare.url() });
        assert.equal(wrong.code, 2);
        assert.match(wrong.stderr, /option '--admin-url': 'x y' is not the URL of a server/);
        assert.ok(!fs.existsSync(path.join(dir, 'none')));
    });
});

describe('a root directory', () => {
    let dir;
    before(() => { dir = makeDir(); });
    after(() => fs.rmSync(dir, { recursive: true }));

    it('is_looked_at_before_anything_is_made_in_it', async () => {
        const at = (name) => path.join(dir, name);
        fs.mkdirSync(at('empty'));
        fs.mkdirSync(at('other'));
        fs.writeFileSync(at('other/file'), 'x');
        fs.mkdirSync(at('member')); /* of several servers */
        fs.mkdirSync(at('member/cache'));
        fs.writeFileSync(at('member/issuer-key'), 'x');
        const token = ['token', 'create', '--role', 'admin'];
        const cases = [[['check'], 'typo', /there is no such folder/], [['check'], 'empty', /it is empty/],
            [['check'], 'other', /no file CURRENT/], [['check'], 'other/file', /Not a directory/],
            [token, 'typo', /there is no such folder/], [token, 'other', /no file CURRENT/]];
        for (const [args, name, why] of cases) {
            const end = await run([...args, '--root-dir', at(name)]);
            assert.equal(end.code, 2, `${args} ${name}: ${end.stderr}`);
            assert.match(end.stderr, why);
            assert.ok(end.stderr.includes(`${at(name)} is not a root directory`), end.stderr);
            assert.equal(end.stdout, '');
        }
        assert.deepEqual(list(dir), ['empty', 'member', 'other']);
        assert.deepEqual([list(at('empty')), list(at('other'))], [[], ['file']]);
        const none = await run(['check', at('member')]);
        assert.equal(none.code, 2, none.stderr);
        assert.match(none.stderr, /has no jobs.*--postgres/);
        const early = await run([...token, '--root-dir', at('empty')]);
        assert.equal(early.code, 0, early.stderr);
        assert.deepEqual(list(at('empty')), ['new-tokens'], 'for the server that will start there');
    });

    it('is_named_by_a_word_an_option_or_the_variable',
        notOn('postgres', 'there is none with jobs in it'), async (t) => {
        const server = await new Server().start();
        t.after(() => server.clean());
        const root = path.join(server.dir, 'root');
        const ways = [[['check', root], {}], [['check', '--root-dir', root], {}],
            [['check'], { TENAX_ROOT_DIR: root }], [['check', root], { TENAX_ROOT_DIR: '/nonexistent' }]];
        for (const [args, env] of ways) {
            const used = await run(args, env);
            assert.equal(used.code, 2, used.stderr);
            assert.match(used.stderr, /in use|is using/);
        }
        await server.stop();
        const before = list(root);
        for (const [args, env] of ways)
            assert.equal((await run(args, env)).code, 0, args.join(' '));
        assert.deepEqual(list(root), before);
        assert.equal((await run(['check', '--root-dir', root, root])).code, 2);
        assert.equal((await run(['check'])).code, 2);
    });
});

describe('variables', () => {
    it('are_listed_each_once', async () => {
        const { code, stdout } = await run(['help', 'variables']);
        assert.equal(code, 0);
        const names = [...stdout.matchAll(/^ {2}(TENAX_[A-Z0-9_]+)$/gm)].map((m) => m[1]);
        assert.equal(new Set(names).size, names.length, `${names}`);
        for (const name of ['TENAX_URL', 'TENAX_TOKEN', 'TENAX_ROOT_DIR', 'TENAX_JOB_ID', 'TENAX_STATE_DIR'])
            assert.ok(names.includes(name), name);
        for (const line of stdout.split('\n'))
            assert.ok([...line].length <= 80, line);
        const pages = (await run(['help', '--list'])).stdout.trim().split('\n');
        for (const page of pages) {
            const help = (await run(['help', ...page.split(' ')])).stdout;
            for (const [, name] of help.matchAll(/\[env: (TENAX_[A-Z0-9_]+)\]/g))
                assert.ok(names.includes(name), `${name} of ${page}`);
        }
        const table = (await run(['help', 'variables', '--markdown'])).stdout;
        assert.equal(table, fs.readFileSync(path.join(__dirname, '../../docs/variables.md'), 'utf8'));
    });

    it('that_nobody_knows_are_warned_of', async () => {
        const env = { TENAX_TOKNE: 'x', TENAX_NO_SUCH_THING_AT_ALL: '1', TENAX_EMPTY: '' };
        for (const args of [['version'], ['help'], ['jobs', '--help']]) {
            const { code, stderr } = await run(args, env);
            assert.equal(code, 0);
            assert.deepEqual(stderr.trim().split('\n').sort(), [
                'tenax: the variable TENAX_NO_SUCH_THING_AT_ALL is set, but there is none of that name; ' +
                    '`tenax help variables` lists them',
                'tenax: the variable TENAX_TOKNE is set, but there is none of that name; did you mean TENAX_TOKEN?',
            ]);
        }
    });

    it('of_services_of_kubernetes_are_passed_over', async () => {
        const { code, stderr } = await run(['help'], {
            TENAX_SERVICE_HOST: '10.0.0.1', TENAX_SERVICE_PORT: '7890', TENAX_SERVICE_PORT_HTTP: '7890',
            TENAX_WEB_PORT: 'tcp://10.0.0.1:7890', TENAX_PORT_7890_TCP: 'tcp://10.0.0.1:7890',
            TENAX_PORT_7890_TCP_ADDR: '10.0.0.1', TENAX_PORT_7890_TCP_PROTO: 'tcp',
        });
        assert.equal(code, 0);
        assert.equal(stderr, '');
    });
});
