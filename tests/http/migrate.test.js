// SPDX-License-Identifier: Apache-2.0
'use strict';

// Coming from Zizq: its options of `serve` and their variables, its log files and log lines.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, makeDir, run, until } = require('./harness');

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

describe('an option of the reference', () => {
    const all = [
        '--log-format', 'pretty', '--log-level', 'trace', '--log-rotation', 'hourly',
        '--log-max-size', '1GiB', '--log-max-files', '3', '--host', '127.0.0.1',
        '--heartbeat-interval', '3s', '--default-retry-limit', '25',
        '--default-backoff-exponent', '4', '--default-backoff-base', '15s',
        '--default-backoff-jitter', '30s', '--default-completed-job-retention', '1h',
        '--default-dead-job-retention', '7d', '--reaper-check-interval', '30s',
        '--default-commit-mode', 'buffered', '--enqueue-commit-mode', 'fsync',
        '--cache-size', '64MB', '--enqueue-batch-size', '1000', '--complete-batch-size', '1000',
        '--admin-host', '127.0.0.1', '--admin-port', '0', '--license-key', 'k',
        '--license-key-check-interval', '5s',
    ];

    it('is_understood_whatever_it_is', () => withServer({ args: all }, async (server) => {
        await server.enqueue({ queue: 'q' });
        for (const flag of ['reaper-check-interval', 'enqueue-batch-size', 'complete-batch-size',
            'license-key', 'license-key-check-interval'])
            assert.match(server.stderr, new RegExp(`--${flag} has no effect: `), flag);
        assert.doesNotMatch(server.stderr, /--enqueue-commit-mode/);
        assert.match(server.stderr, /commits are buffered/);
    }));

    it('is_refused_if_it_contradicts_another', async () => {
        const res = await run(['serve', '--commit-mode', 'fsync', '--default-commit-mode', 'buffered']);
        assert.equal(res.code, 2);
        assert.match(res.stderr, /--default-commit-mode/);
    });

    it('does_without_the_admin_listener', async () => {
        for (const how of [{ args: ['--no-admin'] }, { env: { ZIZQ_NO_ADMIN: 'true' } }])
            await withServer(how, async (server) => {
                assert.equal(server.adminUrl, undefined);
                await server.enqueue({ queue: 'q' });
            });
    });
});

describe('a variable of the reference', () => {
    it('that_is_not_understood_is_named_in_the_log', () => withServer({
        env: { ZIZQ_JOURNAL_SIZE: '1GB', ZIZQ_FANCY: '1', ZIZQ_URL: 'http://x', ZIZQ_EMPTY: '',
            ZIZQ_ENQUEUE_BATCH_SIZE: '5', ZIZQ_HEARTBEAT_INTERVAL: '1s' },
    }, async (server) => {
        assert.match(server.stderr, /ZIZQ_JOURNAL_SIZE has no effect: the store/);
        assert.match(server.stderr, /ZIZQ_FANCY is set and not understood/);
        assert.match(server.stderr, /--enqueue-batch-size has no effect/);
        assert.doesNotMatch(server.stderr, /ZIZQ_URL|ZIZQ_EMPTY|ZIZQ_HEARTBEAT|ENQUEUE_BATCH_SIZE is/);
    }));
});

describe('the log', () => {
    it('says_as_JSON_where_the_server_listens', () => withServer({
        args: ['--log-format', 'json', '--log-level', 'info', '--admin-port', '0'],
    }, async (server) => {
        const lines = server.stderr.split('\n').filter(Boolean).map((line) => JSON.parse(line));
        const listening = lines.filter((line) => line.message === 'listening');
        assert.deepEqual(listening.map((line) => line.api), ['admin', 'primary']);
        for (const line of listening) {
            assert.equal(line.scheme, 'http');
            assert.match(line.addr, /^127\.0\.0\.1:\d+$/);
            const { api, addr, scheme } = line;
            assert.deepEqual(line.fields, { message: 'listening', api, addr, scheme });
        }
        assert.equal(listening[1].addr, `127.0.0.1:${server.port}`);
    }));

    it('goes_to_a_file_that_is_rotated', async () => {
        const dir = makeDir(), folder = path.join(dir, 'deep', 'log');
        const file = path.join(folder, 'tenax.log');
        const args = ['--log-dir', folder, '--log-level', 'info', '--log-max-size', '600',
            '--log-max-files', '2'];
        for (let i = 0; i < 5; i++)
            await withServer({ args }, async (server) => {
                assert.match(fs.readFileSync(file, 'utf8'), /listening api=primary/);
                assert.equal(server.stderr, '');
            });
        assert.deepEqual(fs.readdirSync(folder).sort(),
            ['tenax.log', 'tenax.log.1', 'tenax.log.2']);
        for (const name of fs.readdirSync(folder))
            assert.ok(fs.statSync(path.join(folder, name)).size <= 600, name);
        fs.rmSync(dir, { recursive: true });
    });

    it('begins_a_new_file_on_another_day', async () => {
        const dir = makeDir(), file = path.join(dir, 'tenax.log');
        fs.writeFileSync(file, 'yesterday\n');
        fs.utimesSync(file, new Date(0), new Date(0));
        for (const [rotation, there] of [['never', false], ['hourly', true]]) {
            fs.utimesSync(file, new Date(0), new Date(0));
            await withServer({ args: ['--log-dir', dir, '--log-level', 'info', '--log-rotation',
                rotation] }, async () => {
                assert.equal(fs.existsSync(`${file}.1`), there, rotation);
            });
        }
        assert.match(fs.readFileSync(`${file}.1`, 'utf8'), /^yesterday\n/);
        fs.rmSync(dir, { recursive: true });
    });

    it('is_below_the_root_directory_with_--log-to-disk', () => withServer({
        args: ['--log-to-disk', '--log-level', 'info'],
    }, async (server) => {
        const file = path.join(server.dir, 'root', 'log', 'tenax.log');
        await until(() => fs.existsSync(file) && /listening/.test(fs.readFileSync(file, 'utf8')),
            'the log is written');
        assert.equal(server.stderr, '');
    }));

    it('that_cannot_be_written_is_told_at_the_start', async () => {
        const dir = makeDir();
        fs.writeFileSync(path.join(dir, 'file'), '');
        const res = await run(['serve', '--root-dir', path.join(dir, 'root'), '--port', '0',
            '--log-dir', path.join(dir, 'file', 'log')]);
        assert.equal(res.code, 1);
        assert.match(res.stderr, /cannot make .*log: Not a directory/);
        fs.rmSync(dir, { recursive: true });
    });
});

describe('compacting', () => {
    it('gives_back_room_and_loses_nothing', () => withServer({}, async (server) => {
        const size = () => fs.readdirSync(path.join(server.dir, 'root'))
            .reduce((sum, name) => {
                const st = fs.statSync(path.join(server.dir, 'root', name));
                return sum + (name.endsWith('.sst') ? st.size : 0);
            }, 0);
        const payload = 'x'.repeat(50000);
        const [kept] = await server.enqueueMany([{ queue: 'kept', payload }]);
        await server.enqueueMany(Array.from({ length: 200 }, () => ({ queue: 'q', payload })));
        const post = () => fetch(`${server.adminUrl}/compact`, { method: 'POST' });
        assert.equal((await post()).status, 204);
        const before = size();
        await server.delete('/jobs?queue=q');
        const [one, two] = await Promise.all([post(), post()]);
        assert.ok([one.status, two.status].includes(204));
        assert.ok([204, 503].includes(one.status) && [204, 503].includes(two.status));
        assert.equal((await post()).status, 204);
        assert.ok(size() < before, `${size()} < ${before}`);
        assert.equal((await server.post('/compact')).status, 404);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.job(kept)).payload, payload);
        const res = await run(['compact', '--url', server.adminUrl]);
        assert.equal(res.code, 0, res.stderr);
        assert.match(res.stderr, /compacted/);
    }));
});
