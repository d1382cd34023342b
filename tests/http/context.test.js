// SPDX-License-Identifier: Apache-2.0
'use strict';

// Contexts: named servers in a file of the user's.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, before, beforeEach, describe, it } = require('node:test');
const { Server, makeDir, ownAddress, run } = require('./harness');
const { create } = require('./access');

describe('tenax context', () => {
    const dir = makeDir(), token = path.join(dir, 'token');
    const server = new Server({ args: ['--host', ownAddress()] }), other = new Server();
    let home, env;

    before(async () => {
        await Promise.all([server.start(), other.start()]);
        fs.writeFileSync(token, await create(server, { roles: ['admin'] }, {}), { mode: 0o600 });
        const made = await run(['enqueue', '--queue', 'here', '--type', 't', '1', '--token-file', token],
            { TENAX_URL: server.url() });
        assert.equal(made.code, 0, made.stderr);
    });
    after(async () => {
        await Promise.all([server.clean(), other.clean()]);
        fs.rmSync(dir, { recursive: true });
    });
    beforeEach(() => {
        home = fs.mkdtempSync(path.join(dir, 'home-'));
        env = { XDG_CONFIG_HOME: home };
    });

    const file = () => path.join(home, 'tenax', 'contexts.json');
    const stored = () => JSON.parse(fs.readFileSync(file(), 'utf8'));

    async function tenax(args, more = {}, code = 0) {
        const end = await run(args, { ...env, ...more });
        assert.equal(end.code, code, `tenax ${args.join(' ')}: ${end.stdout}${end.stderr}`);
        return end;
    }

    async function setBoth() {
        await tenax(['context', 'set', 'prod', '--url', server.url().replace('http://', ''), '--token-file', token]);
        await tenax(['context', 'set', 'local', '--url', other.url()]);
        await tenax(['context', 'use', 'prod']);
    }

    it('chooses_the_server_and_the_token_of_every_command', async () => {
        await setBoth();
        assert.match((await tenax(['jobs'])).stdout, / here /);
        assert.match((await tenax(['token', 'list'])).stdout, / admin /);
        await tenax(['work', '--queue', 'none', '--drain', '--', 'true']);
        assert.match((await tenax(['events'])).stdout, /job_enqueued/);
        await tenax(['context', 'use', 'local']);
        assert.match((await tenax(['jobs'])).stderr, /no such jobs/);
    });

    it('is_overridden_by_flags_then_by_variables', async () => {
        await setBoth();
        assert.match((await tenax(['jobs'], { TENAX_CONTEXT: 'local' })).stderr, /no such jobs/);
        assert.match((await tenax(['jobs', '--context', 'prod'], { TENAX_CONTEXT: 'local' })).stdout, / here /);
        assert.match((await tenax(['jobs'], { TENAX_URL: other.url() })).stderr, /no such jobs/);
        assert.match((await tenax(['jobs', '--url', server.url()], { TENAX_URL: other.url() })).stdout, / here /);
        const wrong = await tenax(['jobs'], { TENAX_TOKEN: 'tnx_wrong' }, 1);
        assert.match(wrong.stderr, /token/);
        await tenax(['jobs'], { TENAX_TOKEN_FILE: '/nonexistent' }, 2);
        assert.match((await tenax(['jobs', '--token-file', token], { TENAX_TOKEN_FILE: '/nonexistent' })).stdout, / here /);
    });

    it('tells_another_server_no_token', async () => {
        await setBoth();
        const seen = [];
        const stranger = http.createServer((req, res) => {
            seen.push(req.headers.authorization);
            res.end('{"jobs": []}');
        });
        await new Promise((resolve) => stranger.listen(0, '127.0.0.1', resolve));
        await tenax(['jobs', '--url', `127.0.0.1:${stranger.address().port}`]);
        stranger.close();
        assert.deepEqual(seen, [undefined]);
    });

    it('keeps_paths_but_no_secrets_in_a_file_of_its_own', async () => {
        await setBoth();
        const secret = fs.readFileSync(token, 'utf8').trim();
        assert.equal(fs.statSync(file()).mode & 0o777, 0o600);
        assert.ok(!fs.readFileSync(file(), 'utf8').includes(secret));
        assert.equal(stored().current, 'prod');
        await tenax(['context', 'set', 'prod', '--ca', 'ca.pem', '--token-file', '']);
        assert.deepEqual(stored().contexts[0], { name: 'prod', url: server.url().replace('http://', ''),
            ca_cert: path.resolve('ca.pem') });
        const refused = await tenax(['context', 'set', 'x', '--url', 'http://me:secret@localhost'], {}, 2);
        assert.match(refused.stderr, /no user or password/);
        assert.deepEqual(fs.readdirSync(path.dirname(file())), ['contexts.json']);
    });

    it('lists_shows_and_deletes', async () => {
        assert.match((await tenax(['context'])).stderr, /no contexts/);
        await setBoth();
        const listed = (await tenax(['context', 'list'])).stdout.split('\n');
        assert.match(listed[1], /^\* +prod /);
        assert.match(listed[2], /^ +local /);
        const all = JSON.parse((await tenax(['context', 'list', '-o', 'json'])).stdout);
        assert.deepEqual(all.map(({ name, current }) => [name, current]), [['prod', true], ['local', false]]);
        assert.match((await tenax(['context', 'show'])).stdout, /^name +prod\nurl /);
        assert.match((await tenax(['context', 'show'], { TENAX_CONTEXT: 'local' })).stdout, /^name +local\n/);
        await tenax(['context', 'delete', 'prod']);
        assert.equal(stored().current, null);
        await tenax(['context', 'show'], {}, 4);
        for (const verb of ['use', 'show', 'delete'])
            assert.match((await tenax(['context', verb, 'prod'], {}, 4)).stderr, /there is no context 'prod'/);
    });

    it('refuses_what_cannot_be_meant', async () => {
        await setBoth();
        for (const [args, says] of [[['set'], /which context/], [['set', 'a b', '--url', 'h'], /'a b'/],
            [['set', 'new'], /give --url/], [['set', 'new', '--url', 'h:'], /not the URL/], [['use'], /which context/],
            [['list', 'x'], /no name/], [['use', 'a', 'b'], /one context/], [['rename'], /is meant/],
            [['use', 'prod', '--url', 'h'], /for set/]])
            assert.match((await tenax(['context', ...args], {}, 2)).stderr, says);
        assert.match((await tenax(['jobs'], { TENAX_CONTEXT: 'nope' }, 2)).stderr, /there is no context 'nope'/);
        fs.writeFileSync(file(), '{"contexts": [{}');
        assert.match((await tenax(['jobs'], {}, 2)).stderr, /contexts\.json/);
        assert.match((await tenax(['context'], {}, 1)).stderr, /contexts\.json/);
    });

    it('needs_no_home', async () => {
        assert.match((await tenax(['jobs'], { XDG_CONFIG_HOME: '', HOME: '', TENAX_URL: other.url() })).stderr, /no such jobs/);
        const lost = await tenax(['context', 'set', 'a', '--url', 'h'], { XDG_CONFIG_HOME: '', HOME: '' }, 1);
        assert.match(lost.stderr, /HOME/);
    });
});
