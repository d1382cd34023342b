// SPDX-License-Identifier: Apache-2.0
'use strict';

// The log of a server, whose disk has lost some of what was acknowledged: no server goes on in
// silence, and what can be read is written to a new root directory.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Server, assertError, makeDir, run, until } = require('./harness');
const { SECTOR, frames, lose, segments } = require('./log_frames');

const BATCH = 2;
const SEAL = 4;
const REST = 5;

const rootOf = (server) => path.join(server.dir, 'root');

async function withServer(args, test, dir) {
    const server = new Server({ args, dir });
    await server.start();
    try {
        await test(server);
    } finally {
        await server.clean();
    }
}

async function enqueue(server, queue, count) {
    const jobs = Array.from({ length: count }, (_, i) => ({ queue, type: 't', payload: `${queue} ${i}` }));
    const res = await server.request('POST', '/jobs/bulk', { jobs });
    assert.equal(res.status, 201, res.text);
    return res.json.jobs.map((job) => job.id);
}

async function count(server) {
    return (await server.request('GET', '/jobs/count')).json.count;
}

async function eventsOf(server, since) {
    const res = await server.request('GET', `/events?follow=false&since=${since}`);
    assert.equal(res.status, 200, res.text);
    return res.text.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

const serve = (root, ...args) => run(['serve', '--root-dir', root, '--port', '0', '--admin-port', '0', ...args]);
const check = (...args) => run(['check', ...args]);

function digest(root) {
    const hash = crypto.createHash('sha256');
    for (const name of fs.readdirSync(root).sort())
        if (fs.statSync(path.join(root, name)).isFile())
            hash.update(name).update(fs.readFileSync(path.join(root, name)));
    return hash.digest('hex');
}

describe('a log that has lost a batch which was acknowledged', () => {
    it('is refused and explained, and everything else is written to a new root directory', async () => {
        await withServer([], async (server) => {
            const kept = await enqueue(server, 'before', 300);
            const lost = await enqueue(server, 'lost', 301);
            const taken = (await server.request('POST', '/jobs/claim',
                { queues: ['lost'], worker: 'w', count: 1, lease_ms: 60000, wait_ms: 0 })).json.jobs[0];
            const failed = await server.request('POST', `/jobs/${taken.id}/failure`,
                { message: 'no', token: taken.token });
            assert.equal(failed.status, 200, failed.text);
            kept.push(...await enqueue(server, 'after', 300));
            const events = await eventsOf(server, 0);
            await server.signal('SIGKILL');
            const root = rootOf(server);
            const hole = frames(root, BATCH).filter((frame) => frame.length > 8000)[1];
            lose(hole);
            const before = digest(root);
            const followed = events.at(-1);

            const end = await serve(root);
            assert.notEqual(end.code, 0);
            assert.match(end.stderr, new RegExp(`damaged after batch ${hole.number - 1}: .*check --salvage`));
            const found = await check(root);
            assert.equal(found.code, 1);
            assert.match(found.stdout, new RegExp(`lost_batches: batch ${hole.number} of the log cannot be read: ` +
                `${path.basename(hole.file)} from byte ${hole.at} on; batch ${hole.number + 1} behind it can`));

            const told = await check('--salvage', '--output', 'json', root);
            assert.equal(told.code, 1);
            const { salvage } = JSON.parse(told.stdout);
            assert.deepEqual(salvage.lost, [{ first: hole.number, last: hole.number }]);
            assert.equal(salvage.batches_lost, 1);
            assert.equal((await check('--into', path.join(server.dir, 'x'), root)).code, 2);
            assert.equal((await check('--salvage', '--into', server.dir, root)).code, 2);

            const inside = await check('--salvage', '--into', path.join(root, 'new'), root);
            assert.equal(inside.code, 2, inside.stderr);

            const dir = makeDir();
            const written = await check('--salvage', '--into', path.join(dir, 'root'), root);
            assert.equal(written.code, 0, written.stderr);
            assert.match(written.stdout, /1 jobs that have lost a part are set apart/);
            assert.equal(digest(root), before);
            assert.deepEqual(fs.readdirSync(dir), ['root']);

            const next = new Server({ dir });
            await next.start();
            try {
                assert.equal(await count(next), kept.length);
                for (const id of [kept[0], kept.at(-1)])
                    assert.equal((await next.request('GET', `/jobs/${id}`)).status, 200);
                assertError(await next.request('GET', `/jobs/${lost.find((id) => id !== taken.id)}`), 404, 'not_found');
                assertError(await next.request('GET', `/jobs/${taken.id}`), 500, 'job_damaged');
                await enqueue(next, 'more', 5);
                const [first] = await eventsOf(next, followed.cursor);
                assert.equal(first.number, followed.number + 1);
                assert.notEqual(first.cursor.split('-')[0], followed.cursor.split('-')[0]);
                await next.stop();
                await next.start();
                assert.equal(await count(next), kept.length + 5);
            } finally {
                await next.clean();
                fs.rmSync(dir, { recursive: true, force: true });
            }
        });
    });

    it('is refused also if it is the last one and the server was idle since', async () => {
        await withServer([], async (server) => {
            await enqueue(server, 'q', 300);
            const root = rootOf(server);
            await until(() => frames(root, REST).at(-1)?.number === frames(root, BATCH).at(-1).number,
                'the log says that it is idle');
            const followed = (await eventsOf(server, 0)).at(-1);
            await server.signal('SIGKILL');
            lose(frames(root, BATCH).at(-1));
            assert.match((await serve(root)).stderr, /is damaged after batch/);
            const dir = makeDir();
            assert.equal((await check('--salvage', '--into', path.join(dir, 'root'), root)).code, 0);
            await withServer([], async (next) => {
                await enqueue(next, 'q', 300); // their events have numbers that were given before
                const [gap, again] = await eventsOf(next, followed.cursor);
                assert.equal(gap.event, 'gap');
                assert.match(gap.reason, new RegExp(`no event ${followed.cursor} in this history`));
                assert.equal(again.number, followed.number - 299);
            }, dir);
            fs.rmSync(dir, { recursive: true, force: true });
        });
    });

    it('is refused after an orderly stop', async () => {
        await withServer([], async (server) => {
            await enqueue(server, 'q', 300);
            await server.stop();
            const root = rootOf(server);
            lose(frames(root, BATCH).at(-1));
            assert.match((await serve(root)).stderr, /is damaged after batch/);
        });
    });

    it('is refused without any of its segments', async () => {
        await withServer([], async (server) => {
            await enqueue(server, 'q', 300);
            await server.signal('SIGKILL');
            segments(rootOf(server)).forEach((file) => fs.unlinkSync(file));
            assert.match((await serve(rootOf(server))).stderr, /the log .* is damaged/);
            assert.equal((await check(rootOf(server))).code, 1);
        });
    });
});

describe('a log whose end is missing', () => {
    const told = async (root) => {
        const plain = await check(root);
        assert.equal(plain.code, 1);
        const { code, stdout } = await check('--salvage', '--output', 'json', root);
        assert.equal(code, 1);
        const { problems, salvage } = JSON.parse(stdout);
        assert.equal(salvage.end_missing, true, stdout);
        assert.ok(problems.every((problem) => problem.code === 'lost_batches'), stdout);
        assert.match(problems.at(-1).message, /the end of the log is missing/);
        assert.match((await check('--salvage', root)).stdout, /lost would be .*any batches that came after batch \d+/);
        return salvage;
    };

    it('is not said to lose nothing, as if all that follows had never been', async () => {
        await withServer([], async (server) => {
            for (let n = 0; n < 4; n++)
                await enqueue(server, 'q', 300);
            await server.signal('SIGKILL');
            const root = rootOf(server);
            const bulks = frames(root, BATCH).filter((frame) => frame.length > 8000);
            assert.equal(JSON.parse((await check('--salvage', '--output', 'json', root)).stdout).salvage.end_missing, false);
            // In the middle of a batch, and at the beginning of one.
            for (const at of [bulks[2].at + 3 * SECTOR, bulks[1].at]) {
                fs.truncateSync(bulks[0].file, at);
                assert.match((await serve(root)).stderr, /shorter than it was/);
                await told(root);
            }
            segments(root).forEach((file) => fs.unlinkSync(file));
            assert.ok((await told(root)).batches_lost >= 1);
        });
    });

    it('is missed also where a whole segment is gone', async () => {
        await withServer([], async (server) => {
            const root = rootOf(server);
            while (!frames(root, SEAL).length)
                await enqueue(server, 'q', 3000);
            await server.signal('SIGKILL');
            const [{ file }] = frames(root, SEAL);
            segments(root).filter((other) => other !== file).forEach((other) => fs.unlinkSync(other));
            await told(root);
        });
    });
});

describe('a log that has lost batches which were never synced', () => {
    // Bulks of three hundred; the second one is lost.
    async function loseOne(server) {
        for (const queue of ['a', 'b', 'c'])
            await enqueue(server, queue, 300);
        await server.signal('SIGKILL');
        lose(frames(rootOf(server), BATCH).filter((frame) => frame.length > 8000)[1]);
    }

    it('is gone on with by a server that is buffered, which says so', async () => {
        await withServer(['--commit-mode', 'buffered'], async (server) => {
            await loseOne(server);
            const root = rootOf(server);
            assert.match((await serve(root)).stderr, /lacks batches after \d+ that were never synced: .*buffered/);
            assert.equal((await check(root)).code, 1);
            await server.start();
            assert.match(server.stderr, /never synced are missing; what was committed after batch \d+/);
            assert.equal(await count(server), 300);
            await server.stop();
            assert.equal((await check(root)).code, 0);
        });
    });

    it('is refused if enqueues were synced there', async () => {
        const args = ['--commit-mode', 'buffered', '--enqueue-commit-mode', 'fsync'];
        await withServer(args, async (server) => {
            await loseOne(server);
            assert.match((await serve(rootOf(server), ...args)).stderr, /is damaged after batch/);
            await server.start({ args: ['--commit-mode', 'buffered'] });
            assert.equal(await count(server), 300);
        });
    });
});
