// SPDX-License-Identifier: Apache-2.0
'use strict';

// tenax dev: a server with throwaway data, its events, and a command that starts again when its
// files change.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, afterEach, beforeEach, describe, it } = require('node:test');
const { begin, makeDir, run, until } = require('./harness');

describe('tenax dev', () => {
    const all = makeDir();
    let dir, tmp, dev;

    beforeEach(() => {
        dir = fs.mkdtempSync(path.join(all, 'src-'));
        tmp = fs.mkdtempSync(path.join(all, 'tmp-'));
        fs.mkdirSync(path.join(dir, 'lib', 'deep'), { recursive: true });
        fs.mkdirSync(path.join(dir, 'node_modules'));
    });
    afterEach(async () => {
        if (dev?.running())
            dev.child.kill('SIGTERM');
        await dev?.ended;
    });
    after(() => fs.rmSync(all, { recursive: true, maxRetries: 3 }));

    const write = (name, text = 'x') => fs.writeFileSync(path.join(dir, name), text);
    const starts = () => (dev.stdout.match(/^worker/gm) || []).length;

    async function start(...args) {
        dev = begin(['dev', '--port', '0', ...args], { TMPDIR: tmp });
        await dev.says(/console {2}http/);
        return dev.stderr.match(/server {3}(http:\/\/127\.0\.0\.1:\d+)/)[1];
    }

    async function isAway(url) {
        return until(async () => (await run(['queues', '--url', url])).code === 3, `${url} is away`);
    }

    it('starts_a_server_shows_events_and_leaves_nothing_behind', async () => {
        const url = await start();
        const made = await run(['enqueue', '--queue', 'mail', '--type', 't', '1', '--url', url]);
        assert.equal(made.code, 0, made.stderr);
        await until(() => new RegExp(`job_enqueued +${made.stdout.trim()} +mail t +ready`).test(dev.stdout),
            () => `the event is shown: ${dev.stdout}`);
        assert.equal(fs.readdirSync(tmp).filter((name) => name.startsWith('tenax-dev-')).length, 1);
        dev.child.kill('SIGINT');
        assert.deepEqual(await dev.ended, { code: 0, signal: null }, dev.stderr);
        assert.deepEqual(fs.readdirSync(tmp), []);
        await isAway(url);
    });

    it('starts_the_command_again_when_a_source_file_changes', async () => {
        await start('--no-events', '--watch', dir, '--', 'sh', '-c', 'echo "worker $TENAX_URL"; exec sleep 600');
        await until(() => starts() === 1, 'it starts');
        assert.match(dev.stdout, /^worker http:\/\/127\.0\.0\.1:\d+$/m);
        write('lib/deep/handler.js');
        await dev.says(/handler\.js has changed; restarting sh/);
        await until(() => starts() === 2, 'it starts again');
        for (const name of ['.hidden', 'debug.log', 'handler.js~', 'node_modules/m.js'])
            write(name);
        fs.mkdirSync(path.join(dir, 'fresh'));
        await until(() => starts() === 3, 'a new directory counts');
        write('fresh/one.js');
        await until(() => starts() === 4, 'so does what comes into it');
        assert.equal(dev.stderr.match(/has changed/g).length, 3, dev.stderr);
        assert.doesNotMatch(dev.stderr, /hidden|debug|node_modules|m\.js/);
    });

    it('watches_a_single_file_as_editors_replace_it', async () => {
        write('app.py');
        await start('--no-events', '--watch', path.join(dir, 'app.py'), 'sh', '-c', 'echo worker; exec sleep 600');
        await until(() => starts() === 1, 'it starts');
        write('other.py');
        write('app.py.new');
        fs.renameSync(path.join(dir, 'app.py.new'), path.join(dir, 'app.py'));
        await until(() => starts() === 2, 'it starts again');
        assert.doesNotMatch(dev.stderr, /other\.py/);
    });

    it('waits_for_a_change_when_the_command_ends_by_itself', async () => {
        write('code', 'exit 3');
        await start('--no-events', '--watch', dir, 'sh', '-c', `echo worker; . ${dir}/code`);
        await dev.says(/sh ended with 3; it starts again when a file changes/);
        write('code', 'kill -9 $$');
        await dev.says(/sh was ended by signal 9/);
        assert.equal(starts(), 2);
    });

    it('gives_the_command_neither_token_nor_context_and_the_server_no_variables', async () => {
        dev = begin(['dev', '--port', '0', '--no-events', '--watch', dir, '--', 'sh', '-c', 'env; echo worker'], {
            TMPDIR: tmp, TENAX_TOKEN: 'secret', TENAX_CONTEXT: 'prod', TENAX_URL: 'http://prod.example', TENAX_LEASE: '7s',
            TENAX_POSTGRES: 'postgres://nowhere.example/db', ZIZQ_URL: 'http://prod.example',
        });
        await until(() => starts() === 1, () => `it starts: ${dev.stderr}`);
        assert.doesNotMatch(dev.stdout, /secret|prod/);
        assert.match(dev.stdout, /^TENAX_LEASE=7s$/m);
    });

    it('keeps_the_jobs_of_a_directory_that_is_named', async () => {
        const root = path.join(dir, 'root'), args = ['--no-events', '--root-dir', root];
        const made = await run(['enqueue', '--queue', 'q', '--type', 't', '1', '--url', await start(...args)]);
        dev.child.kill('SIGTERM');
        await dev.ended;
        const kept = await run(['job', made.stdout.trim(), '-o', 'name', '--url', await start(...args)]);
        assert.deepEqual([kept.code, kept.stdout], [0, made.stdout]);
    });

    it('takes_its_server_with_it_when_it_is_killed', async () => {
        const url = await start('--no-events', '--watch', dir, 'sh', '-c', 'echo worker; exec sleep 600');
        await until(() => starts() === 1, 'the command runs');
        dev.child.kill('SIGKILL');
        await dev.ended;
        await isAway(url);
    });

    it('says_what_is_wrong_with_its_command_line', async () => {
        for (const [args, why] of [[['--watch', dir], /--watch needs a command/],
            [['--', 'no-such-command'], /cannot find the command 'no-such-command'/],
            [['--wacth', dir], /did you mean '--watch'/]]) {
            const end = await run(['dev', ...args]);
            assert.equal(end.code, 2, end.stderr);
            assert.match(end.stderr, why);
        }
        const none = await run(['dev', '--watch', path.join(dir, 'none'), 'true']);
        assert.equal(none.code, 1);
        assert.match(none.stderr, /cannot watch '.*none': No such file/);
    });

    it('ends_with_the_reason_where_the_port_is_taken', async () => {
        const other = net.createServer().listen(0, '127.0.0.1');
        await until(() => other.address(), 'it listens');
        const end = await run(['dev', '--port', `${other.address().port}`], { TMPDIR: tmp });
        other.close();
        assert.equal(end.code, 1);
        assert.match(end.stderr, /in use[^]*--port 0 picks a free port/);
        assert.deepEqual(fs.readdirSync(tmp), []);
    });
});
