// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /: a browser comes to the console, everybody else is told what this is; and what whoever starts
// a server in a terminal is told.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { guarded } = require('./access');
const { assertError, BIN, environment, makeDir, run, Server, until, useServer } = require('./harness');

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

// `tenax serve` whose standard error is a terminal: what that shows until it matches, and standard output.
async function inTerminal(dir, args, pattern) {
    const out = path.join(dir, 'out'), pid = path.join(dir, 'pid');
    const command = ['serve', '--root-dir', path.join(dir, 'root'), '--port', '0', '--admin-port', '0', ...args];
    const child = spawn('script', ['-qefc', `echo $$ >${pid}; exec ${BIN} ${command.join(' ')} >${out}`, '/dev/null'],
        { env: environment({}), stdio: ['pipe', 'pipe', 'inherit'] });
    let seen = '';
    child.stdout.on('data', (bytes) => { seen += bytes; });
    const ended = new Promise((resolve) => child.on('close', resolve));
    try {
        await until(() => pattern.test(seen) || child.exitCode !== null, () => `${pattern} is shown: ${seen}`);
    } finally {
        process.kill(Number(fs.readFileSync(pid, 'utf8')), 'SIGTERM');
    }
    assert.equal(await ended, 0, seen);
    const said = fs.readFileSync(out, 'utf8');
    assert.match(said, /^Listening on \S+ \(admin\)\nListening on \S+\n$/);
    return { seen: seen.replaceAll('\r', ''), url: /^Listening on (\S+)$/m.exec(said)[1] };
}

describe('a server in a terminal', () => {
    const LAST = /"ada@example\.org"\}'/;

    function useDir(t) {
        const dir = makeDir();
        t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
        return dir;
    }

    it('says_where_its_console_is_and_what_to_try_first', async (t) => {
        const { seen, url } = await inTerminal(useDir(t), [], LAST);
        assert.equal(seen, `The console: ${url}/console\nTo try in another terminal:\n  ${BIN} enqueue --url ${url} ` +
            `--queue mail --type welcome '{"to": "ada@example.org"}'\n`);
    });

    it('names_addresses_that_can_be_asked_and_the_certificates_that_are_needed', async (t) => {
        const dir = useDir(t), tls = path.join(dir, 'tls');
        const made = await run(['tls', 'init', '--out-dir', tls]);
        assert.equal(made.code, 0, made.stderr);
        const { seen, url } = await inTerminal(dir, ['--host', '0.0.0.0', '--no-console',
            '--tls-cert', path.join(tls, 'server-cert.pem'), '--tls-key', path.join(tls, 'server-key.pem'),
            '--tls-client-ca', path.join(tls, 'ca-cert.pem')], LAST);
        assert.match(url, /^https:\/\/0\.0\.0\.0:/);
        assert.doesNotMatch(seen, /console/);
        assert.ok(seen.includes(` enqueue --url ${url.replace('0.0.0.0', '127.0.0.1')} --ca-cert FILE ` +
            '--client-cert FILE --client-key FILE --queue'), seen);
    });

    it('reminds_of_the_token_that_it_needs', async (t) => {
        const dir = useDir(t);
        const server = await new Server({ dir, bare: true,
            args: ['--root-dir', path.join(dir, 'root'), '--port', '0', '--admin-port', '0'] }).start();
        const made = await server.admin('POST', '/tokens', { roles: ['admin'] });
        assert.equal(made.status, 201, made.text);
        await server.stop();
        assert.doesNotMatch(server.stderr, /To try/); // which is no terminal
        assert.match((await inTerminal(dir, [], LAST)).seen, /\n {2}TENAX_TOKEN=\.\.\. \S+ enqueue /);
    });
});
