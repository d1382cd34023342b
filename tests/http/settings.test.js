// SPDX-License-Identifier: Apache-2.0
'use strict';

// The settings of `tenax serve`: flags, variables, which of them wins, and what is refused.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { BIN, Server, makeDir, notOn, run, until } = require('./harness');

// Starts a server, gives it to use(), and ends it in good order.
async function withServer(options, use) {
    const server = new Server(options);
    try {
        await server.start();
        await use(server);
        await server.stop();
    } finally {
        await server.clean();
    }
}

// A job that has just failed once. How long it waits, and how often, shows the settings.
async function failedJob(server, fields = {}) {
    const { id, queue } = await server.enqueue({ queue: 'failed', ...fields });
    await server.claimOne(queue);
    const res = await server.post(`/jobs/${id}/failure`, { message: 'm' });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function retryLimit(server) {
    const { reason } = await failedJob(server);
    const match = /^retry 1 of (\d+), /.exec(reason);
    assert.ok(match, reason);
    return Number(match[1]);
}

describe('a setting', () => {
    for (const [who, options, want] of [
        ['a_default', {}, 25],
        ['a_flag', { args: ['--default-retry-limit', '3'] }, 3],
        ['a_flag_with_an_equals_sign', { args: ['--default-retry-limit=4'] }, 4],
        ['a_variable', { env: { TENAX_DEFAULT_RETRY_LIMIT: '5' } }, 5],
        ['a_variable_of_Zizq', { env: { ZIZQ_DEFAULT_RETRY_LIMIT: '6' } }, 6],
        ['a_flag_before_variables', {
            args: ['--default-retry-limit', '7'],
            env: { TENAX_DEFAULT_RETRY_LIMIT: '8', ZIZQ_DEFAULT_RETRY_LIMIT: '9' },
        }, 7],
        ['our_variable_before_that_of_Zizq', {
            env: { TENAX_DEFAULT_RETRY_LIMIT: '10', ZIZQ_DEFAULT_RETRY_LIMIT: '11' },
        }, 10],
        ['no_empty_variable', { env: { TENAX_DEFAULT_RETRY_LIMIT: '' } }, 25],
    ])
        it(`is_given_by_${who}`, async () => {
            await withServer(options,
                async (server) => assert.equal(await retryLimit(server), want));
        });

    for (const prefix of ['TENAX', 'ZIZQ'])
        it(`has_a_variable_${prefix}_for_what_both_servers_know`, async () => {
            const dir = makeDir();
            const own = {
                ROOT_DIR: path.join(dir, 'here'), PORT: '0', HOST: '127.0.0.2',
                DEFAULT_BACKOFF_BASE: '100', DEFAULT_BACKOFF_EXPONENT: '2',
                    DEFAULT_BACKOFF_JITTER: '0',
                DEFAULT_RETRY_LIMIT: '9', DEFAULT_COMPLETED_JOB_RETENTION: '1hour',
                DEFAULT_DEAD_JOB_RETENTION: '1h 60min', HEARTBEAT_INTERVAL: '50 msec',
                LOG_LEVEL: 'info',
                LOG_FORMAT: 'json', CACHE_SIZE: '1.5 MiB',
                [prefix === 'ZIZQ' ? 'DEFAULT_COMMIT_MODE' : 'COMMIT_MODE']: 'buffered',
            };
            const env = Object.fromEntries(Object.entries(own).map(([k, v]) =>
                [`${prefix}_${k}`, v]));
            const server = new Server({ bare: true, env, dir });
            try {
                await server.start();
                assert.equal(server.host, '127.0.0.2');
                assert.ok(fs.existsSync(own.ROOT_DIR));
                const failed = await failedJob(server);
                assert.equal(failed.ready_at - failed.failed_at, 1100);
                assert.match(failed.reason, /^retry 1 of 9, /);
                const dead = await failedJob(server, { retry_limit: 0 });
                assert.equal(dead.purge_at - dead.failed_at, 7200000);
                const { id } = await server.enqueue({ queue: 'done' });
                await server.claimOne('done');
                await server.post(`/jobs/${id}/success`);
                const done = await server.job(id);
                assert.equal(done.purge_at - done.completed_at, 3600000);
                await server.stop();
                const lines = server.stderr.trim().split('\n').map((line) => JSON.parse(line));
                assert.ok(lines.some((line) => line.level === 'info'), server.stderr);
            } finally {
                await server.clean();
                fs.rmSync(dir, { recursive: true, force: true });
            }
        });

    it('has_a_line_of_help_each', async () => {
        const help = await run(['serve', '--help']);
        assert.equal(help.code, 0);
        const text = help.stdout.replace(/\s+/g, ' ');
        for (const name of ['ROOT_DIR', 'HOST', 'PORT', 'COMMIT_MODE', 'DEFAULT_RETRY_LIMIT',
            'DEFAULT_BACKOFF_BASE', 'DEFAULT_BACKOFF_EXPONENT', 'DEFAULT_BACKOFF_JITTER',
            'DEFAULT_COMPLETED_JOB_RETENTION', 'DEFAULT_DEAD_JOB_RETENTION', 'HEARTBEAT_INTERVAL',
            'LOG_LEVEL', 'LOG_FORMAT', 'STRICT', 'MAX_BODY', 'MAX_CONNECTIONS', 'HEADER_TIMEOUT',
            'BODY_TIMEOUT', 'IDLE_TIMEOUT', 'MIN_FREE_SPACE', 'INSECURE']) {
            assert.ok(text.includes(`[env: TENAX_${name}]`), name);
            assert.ok(text.includes(`--${name.toLowerCase().replaceAll('_', '-')} `), name);
        }
    });
});

describe('the limit of open files', () => {
    // A server under such a limit, until use() is done with it.
    async function limited(ulimit, connections, use) {
        const dir = makeDir();
        const child = spawn('sh', ['-c', `ulimit ${ulimit}; exec "$0" "$@"`, BIN, 'serve', '--root-dir',
            path.join(dir, 'root'), '--port', '0', '--admin-port', '0', '--max-connections', connections]);
        const said = { out: '', err: '' };
        child.stdout.on('data', (bytes) => { said.out += bytes; });
        child.stderr.on('data', (bytes) => { said.err += bytes; });
        const ended = new Promise((resolve) => { child.on('close', resolve); });
        try {
            await until(() => /:\d+\n$/.test(said.out), 'it listens');
            await use(child.pid, said);
            child.kill('SIGTERM');
            assert.equal(await ended, 0, said.err);
        } finally {
            child.kill('SIGKILL');
            await ended;
            fs.rmSync(dir, { recursive: true });
        }
    }

    it('is_raised_to_what_connections_take', async () => {
        await limited('-S -n 300', '100', (pid, said) => {
            const [, soft] = /^Max open files +(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/limits`, 'utf8'));
            assert.equal(Number(soft), 900);
            assert.equal(said.err, '');
        });
    });

    it('lowers_the_number_of_connections_where_it_may_not_be_raised', async () => {
        await limited('-n 820', '21', (pid, said) => until(
            () => /warn .* 820 files, so it serves at most 20 clients .* not 21 /.test(said.err), 'it says so'));
    });

    // Clients take all that they get, of both listeners; the store still begins logs and tables.
    it('leaves_the_store_what_it_needs', async () => {
        await limited('-n 80', '200', async (pid, said) => {
            const ports = [...said.out.matchAll(/:(\d+)(?: \(admin\))?$/gm)].map((found) => Number(found[1]));
            const [admin, primary] = ports;
            const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
            const enqueue = (payload) => new Promise((resolve, reject) => {
                const request = http.request({ port: primary, host: '127.0.0.1', path: '/jobs', method: 'POST',
                    agent, headers: { 'content-type': 'application/json' } }, (reply) => {
                    reply.resume();
                    reply.on('end', () => resolve(reply.statusCode));
                });
                request.on('error', reject);
                request.end(JSON.stringify({ queue: 'q', type: 't', payload }));
            });
            assert.equal(await enqueue(0), 201);
            // Who is refused comes again at once.
            const sockets = new Set();
            let over = false;
            const press = (port) => {
                const socket = net.connect(port, '127.0.0.1');
                sockets.add(socket);
                socket.on('error', () => {});
                socket.on('close', () => {
                    sockets.delete(socket);
                    if (!over)
                        setImmediate(press, port);
                });
                socket.resume();
            };
            for (let i = 0; i < 100; i++) {
                press(primary);
                press(admin);
            }
            const large = 'x'.repeat(8 << 20);
            for (let i = 0; i < 20; i++)
                assert.equal(await enqueue(large), 201);
            over = true;
            sockets.forEach((socket) => socket.destroy());
            agent.destroy();
            assert.doesNotMatch(said.err, /Too many open files/);
        });
    });
});

describe('a server that cannot start as it is told', () => {
    const dir = makeDir();
    const root = path.join(dir, 'root');
    after(() => fs.rmSync(dir, { recursive: true, force: true }));

    // Runs `serve` with these; it must end with that code and one sentence about it.
    async function refuses(args, env, code, sentence) {
        const end = await run(['serve', '--root-dir', root, '--port', '0', ...args], env);
        assert.equal(end.code, code, JSON.stringify(end));
        assert.match(end.stderr, sentence);
        assert.equal(end.stdout, '', 'it never listened');
    }

    const parts = { base: '1s', exponent: '2', jitter: '1s' };
    for (const given of [['base'], ['exponent'], ['jitter'], ['base', 'jitter']])
        it(`says_which_of_the_backoff_settings_are_missing_beside_${given.join('_and_')}`,
            async () => {
            const missing = Object.keys(parts).filter((name) => !given.includes(name));
            const sentence = new RegExp(missing.map((name) =>
                `--default-backoff-${name}`).join('.*'));
            await refuses(given.flatMap((name) => [`--default-backoff-${name}`, parts[name]]), {},
                2, sentence);
            await refuses([], Object.fromEntries(given.map((name) =>
                [`TENAX_DEFAULT_BACKOFF_${name.toUpperCase()}`, parts[name]])), 2, sentence);
        });

    it('takes_the_three_from_different_places', async () => {
        await withServer({
            args: ['--default-backoff-base', '2s'],
            env: { TENAX_DEFAULT_BACKOFF_EXPONENT: '1', ZIZQ_DEFAULT_BACKOFF_JITTER: '0' },
        }, async (server) => {
            const job = await failedJob(server);
            assert.equal(job.ready_at - job.failed_at, 3000);
        });
    });

    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.org'])
        it(`does_not_listen_on_${host}_unless_told_that_this_is_wanted`, async () => {
            await refuses(['--host', host], {}, 2, /--insecure/);
        });

    it('listens_on_all_addresses_if_told_so', notOn('postgres', 'it needs --advertise'), async () => {
        for (const options of [{ args: ['--host', '0.0.0.0', '--insecure'] },
            { args: ['--host', '0.0.0.0'], env: { TENAX_INSECURE: 'true' } }])
            await withServer(options, (server) => server.assertServes());
    });

    it('listens_on_another_loopback_address_and_by_name', async () => {
        for (const host of ['127.1.2.3', 'localhost'])
            await withServer({ args: ['--host', host] }, (server) => server.assertServes());
    });

    it('says_that_another_server_uses_the_folder',
        notOn('postgres', 'the other server is without one'), async () => {
        await withServer({}, async (server) => {
            const args = ['serve', '--root-dir', path.join(server.dir, 'root'), '--port', '0'];
            const end = await run(args);
            assert.equal(end.code, 1);
            assert.match(end.stderr, /is another server using it\?/);
            assert.equal(end.stderr.trim().split('\n').length, 1, end.stderr);
            await server.assertServes();
            await server.enqueue({ queue: 'q' });
        });
    });

    it('says_that_the_port_is_taken', async () => {
        await withServer({}, async (server) => {
            const end = await run(['serve', '--root-dir', root, '--port', String(server.port)]);
            assert.equal(end.code, 1);
            assert.match(end.stderr, new RegExp(`${server.port}`));
            assert.match(end.stderr, /in use/);
        });
    });

    it('says_that_the_folder_cannot_be_made', async () => {
        const file = path.join(dir, 'file');
        fs.writeFileSync(file, '');
        const end = await run(['serve', '--root-dir', path.join(file, 'root'), '--port', '0']);
        assert.equal(end.code, 1);
        assert.match(end.stderr, /file\/root/);
    });

    for (const [args, sentence] of [
        [['--port', '65536'], /--port/], [['--port', 'x'], /--port/], [['--port'], /--port/],
        [['--commit-mode', 'never'], /fsync.*buffered/], [['--log-level', 'loud'], /--log-level/],
        [['--default-retry-limit', '-1'], /--default-retry-limit/],
        [['--default-retry-limit', '4294967296'], /--default-retry-limit/],
        [['--heartbeat-interval', '3 parsecs'], /--heartbeat-interval/],
        [['--max-body', 'much'], /--max-body/], [['--max-connections', '0'], /--max-connections/],
        [['--prot', '1'], /--prot/], [['extra'], /extra/],
    ])
        it(`says_what_is_wrong_with_${args.join('_')}`, async () => {
            await refuses(args, {}, 2, sentence);
        });

    it('names_the_variable_whose_value_is_wrong', async () => {
        await refuses([], { TENAX_PORT: '1', TENAX_MAX_BODY: 'x' }, 2, /TENAX_MAX_BODY/);
        await refuses([], { ZIZQ_HEARTBEAT_INTERVAL: 'x' }, 2, /ZIZQ_HEARTBEAT_INTERVAL/);
    });
});
