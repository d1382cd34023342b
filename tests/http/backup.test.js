// SPDX-License-Identifier: Apache-2.0
'use strict';

// Backups of a server at work, what restore accepts, and what check finds.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { BIN, Server, assertError, makeDir, queueName, run, until, within } = require('./harness');

const dirs = [];
after(() => {
    for (const dir of dirs)
        fs.rmSync(dir, { recursive: true, force: true });
});

function tempDir() {
    const dir = makeDir();
    dirs.push(dir);
    return dir;
}

async function withServer(test, options) {
    const server = new Server(options);
    await server.start();
    try {
        return await test(server);
    } finally {
        await server.clean();
    }
}

function backup(server, file, ...args) {
    return run(['backup', '--url', server.adminUrl, file, ...args]);
}

async function assertBackup(server, file, ...args) {
    const end = await backup(server, file, ...args);
    assert.equal(end.code, 0, end.stderr);
}

async function check(dir) {
    const end = await run(['check', '--output', 'json', dir]);
    assert.equal(end.stderr, '');
    const found = JSON.parse(end.stdout);
    assert.equal(end.code, found.ok ? 0 : 1);
    return found;
}

async function assertClean(dir) {
    const found = await check(dir);
    assert.deepEqual(found.problems, []);
    return found;
}

async function restore(file, dir, ...args) {
    return run(['restore', file, '--root-dir', dir, ...args]);
}

async function assertRestore(file, dir, ...args) {
    const end = await restore(file, dir, ...args);
    assert.equal(end.code, 0, end.stderr);
}

// Enqueues and works without a pause until it is told to stop; keeps what was acknowledged.
class Load {
    constructor(server) {
        this.server = server;
        this.enqueued = [];
        this.completed = new Set();
        this.stopping = false;
        this.done = Promise.all([this.enqueue(), this.enqueue(), this.work()]);
    }

    async enqueue() {
        const payload = { text: 'x'.repeat(2000), large: 'y'.repeat(5000) };
        while (!this.stopping) {
            const jobs = Array.from({ length: 20 }, () => ({ queue: 'load', type: 'test', payload }));
            const res = await this.server.post('/jobs/bulk', { jobs });
            assert.equal(res.status, 201, res.text);
            this.enqueued.push(...res.json.jobs.map((job) => job.id));
        }
    }

    async work() {
        while (!this.stopping) {
            for (const { id, token } of await this.server.claim({ queues: ['load'], count: 5 })) {
                const res = await this.server.post(`/jobs/${id}/success`, { token });
                assert.equal(res.status, 204, res.text);
                this.completed.add(id);
            }
        }
    }

    async stop() {
        this.stopping = true;
        await this.done;
    }
}

function leftovers(server) {
    return fs.readdirSync(path.join(server.dir, 'root')).filter((name) => /snapshot/.test(name));
}

// Asks for a backup and reads none of it: the request's response, held.
function holdBackup(server) {
    const req = http.request(`${server.adminUrl}/backup`, { method: 'POST', agent: false });
    req.on('error', () => {});
    const answer = new Promise((resolve) => req.on('response', resolve));
    req.end();
    return within(answer, 'the backup begins');
}

// More than fits into all buffers between the snapshot and a client that does not read, and
// nothing that zstd could make small.
async function enqueueMuch(server, queue) {
    const { randomBytes } = require('node:crypto');
    for (let i = 0; i < 5; i++) {
        const res = await server.post('/jobs', {
            queue, type: 'test', payload: randomBytes(6 << 20).toString('base64'),
        });
        assert.equal(res.status, 201, res.text);
    }
}

describe('a backup', () => {
    it('of_a_server_at_work_has_all_that_was_acknowledged_before', async () => {
        const dir = tempDir(), file = path.join(dir, 'a.tar.zst'), root = path.join(dir, 'copy');
        const facts = await withServer(async (server) => {
            const dead = await server.enqueue({ queue: 'dead', retry_limit: 0 });
            await server.claimOne('dead');
            assert.equal((await server.post(`/jobs/${dead.id}/failure`, { message: 'no' })).status, 200);
            const held = await server.enqueue({ queue: 'held' });
            const taker = await server.take('?queue=held');
            assert.equal((await taker.next()).id, held.id);
            const load = new Load(server);
            let before;
            try {
                await until(() => load.completed.size > 50, 'some work is done');
                before = { enqueued: load.enqueued.slice(), completed: new Set(load.completed) };
                await assertBackup(server, file);
                await until(() => load.enqueued.length > before.enqueued.length, 'work goes on');
            } finally {
                await load.stop();
                taker.close();
            }
            assert.deepEqual(leftovers(server), []);
            return { ...before, all: load, dead, held };
        });

        await assertRestore(file, root);
        const found = await assertClean(root);
        assert.equal(found.streamed, 1);
        assert.equal(found.jobs.dead, 1);
        const copy = tempDir();
        fs.renameSync(root, path.join(copy, 'root'));
        await withServer(async (server) => {
            assert.equal((await server.job(facts.dead.id)).status, 'dead');
            const runs = await server.runs(facts.held.id);
            assert.deepEqual(runs.map((r) => r.outcome), ['worker-lost']);
            const there = new Set();
            for (let next = '/jobs?queue=load&limit=2000'; next;) {
                const page = (await server.get(next)).json;
                page.jobs.forEach((job) => there.add(job.id));
                next = page.pages.next;
            }
            for (const id of facts.enqueued)
                assert.ok(there.has(id) || facts.all.completed.has(id), `${id} is there`);
            for (const id of facts.completed)
                assert.ok(!there.has(id), `${id} was completed before`);
            await server.assertServes();
        }, { dir: copy });
        await assertClean(path.join(copy, 'root'));
    });

    it('does_not_replace_a_file_unless_told_to', () => withServer(async (server) => {
        const file = path.join(tempDir(), 'a.tar.zst');
        fs.writeFileSync(file, 'precious');
        const end = await backup(server, file);
        assert.equal(end.code, 2);
        assert.match(end.stderr, /already exists; --force/);
        assert.equal(fs.readFileSync(file, 'utf8'), 'precious');
        await assertBackup(server, file, '--force');
        assert.equal((await run(['restore', '--verify', file])).code, 0);
        assert.deepEqual(fs.readdirSync(path.dirname(file)), ['a.tar.zst']);
    }));

    it('goes_on_over_what_a_killed_one_left', () => withServer(async (server) => {
        const file = path.join(tempDir(), 'a.tar.zst');
        fs.writeFileSync(`${file}.partial`, 'x'.repeat(100000));
        await assertBackup(server, file);
        assert.deepEqual(fs.readdirSync(path.dirname(file)), ['a.tar.zst']);
    }));

    it('comes_on_standard_output_if_asked_for', () => withServer(async (server) => {
        const child = spawn(BIN, ['backup', '--url', server.adminUrl, '-'], { stdio: ['ignore', 'pipe', 'inherit'] });
        const chunks = [];
        child.stdout.on('data', (chunk) => chunks.push(chunk));
        const code = await within(new Promise((resolve) => child.on('close', resolve)), 'it ends');
        assert.equal(code, 0);
        const file = path.join(tempDir(), 'a.tar.zst');
        fs.writeFileSync(file, Buffer.concat(chunks));
        assert.equal((await run(['restore', '--verify', file])).code, 0);
    }));

    it('leaves_nothing_if_the_disk_is_full', () => withServer(async (server) => {
        await enqueueMuch(server, queueName());
        const dir = tempDir();
        // A limit on the size of a file: for whoever writes, the same as a full disk.
        const child = spawn('sh', ['-c', 'ulimit -f 64; exec "$0" backup --url "$1" "$2"', BIN,
            server.adminUrl, path.join(dir, 'a.tar.zst')], { stdio: ['ignore', 'ignore', 'pipe'] });
        let stderr = '';
        child.stderr.on('data', (bytes) => { stderr += bytes; });
        const code = await within(new Promise((resolve) => child.on('close', resolve)), 'it ends');
        assert.equal(code, 1, stderr);
        assert.match(stderr, /cannot write .*a\.tar\.zst\.partial: File too large/);
        assert.deepEqual(fs.readdirSync(dir), []);
        await until(() => leftovers(server).length === 0, 'the server has given it up');
        await assertBackup(server, path.join(dir, 'a.tar.zst'));
    }));

    it('says_so_when_standard_output_is_full', () => withServer(async (server) => {
        const full = fs.openSync('/dev/full', 'w');
        const child = spawn(BIN, ['backup', '--url', server.adminUrl, '-'], { stdio: ['ignore', full, 'pipe'] });
        fs.closeSync(full);
        let stderr = '';
        child.stderr.on('data', (bytes) => { stderr += bytes; });
        const code = await within(new Promise((resolve) => child.on('close', resolve)), 'it ends');
        assert.equal(code, 1);
        assert.match(stderr, /standard output: No space left/);
    }));

    it('is_one_at_a_time_and_given_up_when_its_reader_goes', () => withServer(async (server) => {
        await enqueueMuch(server, queueName());
        const held = await holdBackup(server);
        assert.equal(held.statusCode, 200);
        assert.equal(held.headers['content-type'], 'application/octet-stream');
        assert.deepEqual(leftovers(server), ['snapshot']);
        assertError(await server.admin('POST', '/backup'), 503, 'busy', /one at a time/);
        await server.assertServes();
        held.destroy();
        await until(() => leftovers(server).length === 0, 'the snapshot is gone');
        await assertBackup(server, path.join(tempDir(), 'a.tar.zst'));
    }));

    it('does_not_keep_a_server_from_stopping_and_its_reader_hears_that_it_is_not_whole',
        () => withServer(async (server) => {
            await enqueueMuch(server, queueName());
            const held = await holdBackup(server);
            // Listened to from here on: an aborted answer tells only those who already listen.
            const broken = new Promise((resolve) => {
                held.on('error', () => resolve(true));
                held.on('end', () => resolve(false));
            });
            await server.stop();
            assert.deepEqual(leftovers(server), []);
            held.resume();
            assert.ok(await within(broken, 'the end'), 'it must not look like a whole one');
        }));

    it('that_fails_half_way_over_HTTP2_is_reset_and_takes_nothing_else_along',
        () => withServer(async (server) => {
            await enqueueMuch(server, queueName());
            const session = http2.connect(server.adminUrl);
            const broken = new Promise((resolve, reject) => session.on('error', reject));
            const failed = new Promise((resolve) => {
                const req = session.request({ ':method': 'POST', ':path': '/backup' },
                    { endStream: true });
                req.on('error', (err) => resolve(err.message));
                req.on('end', () => resolve('it looks like a whole one'));
                req.on('response', (headers) => {
                    // It waits for its reader by now, and has most of its files before it.
                    assert.equal(headers[':status'], 200);
                    const snapshot = path.join(server.dir, 'root', 'snapshot');
                    for (const name of fs.readdirSync(snapshot))
                        fs.rmSync(path.join(snapshot, name), { recursive: true });
                    req.resume();
                });
            });
            assert.match(await within(Promise.race([failed, broken]), 'its end'),
                /NGHTTP2_INTERNAL_ERROR/);
            const other = session.request({ ':path': '/health' });
            const status = new Promise((resolve) => {
                other.on('response', (headers) => resolve(headers[':status']));
            });
            assert.equal(await within(Promise.race([status, broken]), 'the next answer'), 200);
            session.destroy();
            await until(() => leftovers(server).length === 0, 'the snapshot is gone');
            assert.match(server.stderr, /a backup failed/);
        }));

    it('that_a_killed_server_was_making_is_swept_away_at_its_next_start',
        () => withServer(async (server) => {
            await enqueueMuch(server, queueName());
            const held = await holdBackup(server);
            assert.deepEqual(leftovers(server), ['snapshot']);
            await server.signal('SIGKILL');
            held.destroy();
            assert.deepEqual(leftovers(server), ['snapshot']);
            await server.start();
            assert.deepEqual(leftovers(server), []);
            await server.assertServes();
        }));

    it('of_no_server_is_refused', async () => {
        const file = path.join(tempDir(), 'a.tar.zst');
        const end = await run(['backup', '--url', 'http://127.0.0.1:1', file]);
        assert.equal(end.code, 3);
        assert.match(end.stderr, /cannot reach/);
        assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
    });

    it('is_only_made_by_POST', () => withServer(async (server) => {
        const answer = await server.admin('GET', '/backup');
        assertError(answer, 405, 'method_not_allowed');
        assert.equal(answer.headers.allow, 'POST');
    }));

    it('is_only_made_for_who_asks_the_admin_listener', () => withServer(async (server) => {
        for (const method of ['POST', 'GET', 'DELETE'])
            assertError(await server.request(method, '/backup'), 404, 'no_such_path',
                /only the admin listener .*\/backup/);
        assert.deepEqual(leftovers(server), []);
        const file = path.join(tempDir(), 'a.tar.zst');
        const end = await run(['backup', '--admin-url', server.url(), file]);
        assert.equal(end.code, 1);
        assert.match(end.stderr, /only the admin listener \(serve --admin-port\) has/);
        assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
        const named = await run(['backup', file], { TENAX_ADMIN_URL: server.adminUrl });
        assert.equal(named.code, 0, named.stderr);
        const help = await run(['backup', '--help']);
        assert.match(help.stdout, /--admin-url URL[^-]*admin listener/);
    }));
});

// A backup of a few jobs, and the root directory that it is of, with its server stopped.
async function makeBackup() {
    const server = new Server({ dir: tempDir() });
    await server.start();
    const job = await server.enqueue({ queue: 'q', payload: { n: 'payload'.repeat(10) } });
    await server.enqueue({ queue: 'q', payload: 'z'.repeat(10000) });
    const file = path.join(server.dir, 'a.tar.zst');
    await assertBackup(server, file);
    await server.clean();
    return { file, job, root: path.join(server.dir, 'root') };
}

describe('restoring', () => {
    it('refuses_a_backup_that_is_cut_off_or_changed_and_leaves_nothing', async () => {
        const { file } = await makeBackup();
        const good = fs.readFileSync(file), dir = tempDir(), bad = path.join(tempDir(), 'bad');
        const flipped = Buffer.from(good);
        flipped[good.length >> 1] ^= 0x10;
        for (const bytes of [good.subarray(0, good.length - 1), good.subarray(0, good.length >> 1),
            Buffer.alloc(0), flipped, Buffer.from('not an archive')]) {
            fs.writeFileSync(bad, bytes);
            for (const args of [[], ['--verify']]) {
                const end = await restore(bad, path.join(dir, 'root'), ...args);
                assert.equal(end.code, 1);
                assert.match(end.stderr, /^tenax restore: this is not a complete backup: /);
            }
            assert.deepEqual(fs.readdirSync(dir), []);
        }
    });

    it('refuses_a_folder_that_is_not_empty_unless_told_to', async () => {
        const { file, job } = await makeBackup();
        const dir = tempDir(), root = path.join(dir, 'root');
        fs.mkdirSync(root);
        fs.writeFileSync(path.join(root, 'precious'), 'x');
        const end = await restore(file, root);
        assert.equal(end.code, 2);
        assert.match(end.stderr, /not empty; --force/);
        assert.deepEqual(fs.readdirSync(root), ['precious']);
        await assertRestore(file, root, '--force');
        assert.deepEqual(fs.readdirSync(dir), ['root']);
        await withServer(async (server) => {
            assert.equal((await server.job(job.id)).id, job.id);
        }, { dir });
    });

    it('fills_an_empty_folder', async () => {
        const { file } = await makeBackup();
        const root = path.join(tempDir(), 'root');
        fs.mkdirSync(root);
        await assertRestore(file, root);
        assert.equal((await assertClean(root)).jobs.ready, 2);
    });

    it('refuses_to_replace_the_root_directory_of_a_running_server', async () => {
        const { file } = await makeBackup();
        await withServer(async (server) => {
            const end = await restore(file, path.join(server.dir, 'root'), '--force');
            assert.equal(end.code, 1);
            assert.match(end.stderr, /in use: stop the server/);
            assert.deepEqual(fs.readdirSync(server.dir), ['root']);
            await server.assertServes();
        });
    });

    it('refuses_a_file_that_is_not_there', async () => {
        const end = await restore('/nowhere/a.tar.zst', path.join(tempDir(), 'root'));
        assert.equal(end.code, 1);
        assert.match(end.stderr, /No such file/);
    });
});

describe('checking', () => {
    it('says_in_words_what_is_there', async () => {
        const { root } = await makeBackup();
        const end = await run(['check', root]);
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, /2 jobs, 2 ready; 0 runs; .*no faults found\n$/);
    });

    it('refuses_a_running_server_s_and_what_is_no_root_directory', async () => {
        await withServer(async (server) => {
            const end = await run(['check', path.join(server.dir, 'root')]);
            assert.equal(end.code, 2);
            assert.match(end.stderr, /in use/);
        });
        const end = await run(['check', tempDir()]);
        assert.equal(end.code, 2);
        assert.match(end.stderr, /not a root directory/);
    });

    it('keeps_a_server_from_nothing_once_it_has_ended', async () => {
        const { root } = await makeBackup();
        await assertClean(root);
        await withServer((server) => server.assertServes(), { dir: path.dirname(root) });
    });

    it('finds_a_changed_byte', async () => {
        const { root } = await makeBackup();
        const file = path.join(root, 'segment-000001'), bytes = fs.readFileSync(file);
        const at = bytes.indexOf('payloadpayload');
        assert.ok(at > 0);
        bytes[at + 3] ^= 1;
        fs.writeFileSync(file, bytes);
        const found = await check(root);
        assert.equal(found.ok, false);
        assert.equal(found.problems[0].code, 'unreadable');
        assert.match(found.problems[0].message, /is damaged/);
        const text = await run(['check', root]);
        assert.equal(text.code, 1);
        assert.match(text.stdout, /unreadable: .*\n {2}\(.*restore a backup\)\n/);
    });

    it('finds_a_file_that_is_gone', async () => {
        const { root } = await makeBackup();
        const [manifest] = fs.readdirSync(root).filter((name) => name.startsWith('MANIFEST'));
        fs.rmSync(path.join(root, manifest));
        assert.equal((await check(root)).problems[0].code, 'unreadable');
    });

    // Two starts with a job each: the log, and where it has the batches.
    async function makeLog() {
        const server = new Server();
        for (let i = 0; i < 2; i++) {
            await server.start();
            await server.enqueue({ queue: 'q', type: 't', payload: i });
            await server.stop();
        }
        const root = path.join(server.dir, 'root'), log = path.join(root, 'segment-000001');
        dirs.push(server.dir);
        const bytes = fs.readFileSync(log), batches = [];
        for (let at = 0; at < bytes.length; at += 4096)
            if (bytes[at + 4] === 2)
                batches.push(at);
        return { root, log, bytes, batches };
    }

    async function assertRefused(root, words) {
        const before = fs.readdirSync(root).sort();
        const found = await check(root);
        assert.match(found.problems[0].code, /^(unreadable|lost_batches)$/);
        assert.match(found.problems[0].message, words);
        const end = await run(['serve', '--root-dir', root, '--port', '0', '--admin-port', '0']);
        assert.equal(end.code, 1);
        assert.match(end.stderr, words);
        assert.deepEqual(fs.readdirSync(root).sort(), before);
    }

    it('finds_a_log_that_is_gone_or_empty_which_serve_refuses', async () => {
        const { root, log, bytes } = await makeLog();
        fs.rmSync(log);
        await assertRefused(root, /the log in .* is damaged.*: there is none/);
        for (const length of [0, 1, 4096, bytes.length / 2]) {
            fs.writeFileSync(log, bytes.subarray(0, length));
            await assertRefused(root, /the log in .* is damaged/);
        }
        fs.writeFileSync(log, bytes);
        await assertClean(root);
    });

    it('finds_a_MANIFEST_that_has_changed_and_a_CURRENT_that_is_gone', async () => {
        const { root } = await makeLog();
        const [name] = fs.readdirSync(root).filter((entry) => entry.startsWith('MANIFEST'));
        const file = path.join(root, name), bytes = fs.readFileSync(file);
        fs.writeFileSync(file, bytes.subarray(0, bytes.length - 1));
        await assertRefused(root, /which names the tables, had \d+ bytes/);
        fs.writeFileSync(file, bytes.map((byte, i) => (i === 60 ? byte ^ 1 : byte)));
        await assertRefused(root, /which names the tables, is damaged/);
        fs.writeFileSync(file, bytes);
        fs.renameSync(path.join(root, 'CURRENT'), path.join(root, 'CURRENT.away'));
        await assertRefused(root, /CURRENT is missing or old/);
    });

    it('takes_for_the_end_of_the_log_what_serve_does', async () => {
        const { root, log, bytes, batches } = await makeLog();
        // The power failed before the last batch was acknowledged: its first sector is as before.
        bytes.fill(0, batches.at(-1), batches.at(-1) + 512);
        fs.writeFileSync(log, bytes);
        // The note of an idle log says that it was there; without that the inventory does.
        await assertRefused(root, /the log in .* is damaged/);
        fs.rmSync(path.join(root, 'INVENTORY'));
        bytes.fill(0, batches.at(-1) + 4096, batches.at(-1) + 8192);
        fs.writeFileSync(log, bytes);
        assert.ok((await assertClean(root)).jobs.ready >= 1);
        await withServer((server) => server.assertServes(), { dir: path.dirname(root) });
    });
});

describe('events after a restore', () => {
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true, force: true }));

    it('are_another_history_that_knows_up_to_where_it_is_that_of_before', async () => {
        const file = path.join(dir, 'b'), root = path.join(dir, 'root');
        const server = new Server();
        await server.start();
        await server.enqueue({ queue: 'q' });
        const made = await backup(server, file);
        assert.equal(made.code, 0, made.stderr);
        for (let i = 0; i < 5; i++)
            await server.enqueue({ queue: 'q' });
        const read = async (from, since) => (await from.get(`/events?follow=false&since=${since}`)).text.trim()
            .split('\n').filter(Boolean).map((line) => JSON.parse(line));
        const before = await read(server, 0);
        await server.clean();
        await assertRestore(file, root);
        let seen;
        for (let start = 0; start < 2; start++) { // and it is the same one after a restart
            const again = new Server({ dir });
            await again.start();
            await again.enqueue({ queue: 'q' });
            const later = await read(again, before[0].cursor);
            assert.deepEqual(later.map(({ event, number }) => [event, number]).slice(0, 1), [['job_enqueued', 2]]);
            const [gap, ...rest] = await read(again, before.at(-1).cursor);
            assert.deepEqual([gap.event, gap.from, rest], ['gap', undefined, later]);
            assert.match(gap.reason, new RegExp(`no event ${before.at(-1).cursor} in this history`));
            assert.equal(gap.cursor, later[0].cursor.replace(/2$/, '1'));
            seen ??= later[0].cursor;
            assert.equal(later[0].cursor, seen);
            assert.deepEqual(JSON.parse((await run(['events', '--output', 'json', '--since', later[0].cursor],
                { TENAX_URL: again.url() })).stdout), later.slice(1));
            await again.stop();
        }
    });
});
