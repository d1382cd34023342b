// SPDX-License-Identifier: Apache-2.0
'use strict';

// Starts with very many jobs: the file INDEX makes them quick, and changes nothing else.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, until } = require('./harness');

const REQUESTS = 11;
const EACH = 10000;
const MOST = REQUESTS * EACH;

// Answers of so many jobs are not held against the document: other files do that.
async function fill(server) {
    const jobs = Array.from({ length: EACH }, (_, i) =>
        ({ queue: `q${i % 3}`, type: 'test', payload: i }));
    for (let n = 0; n < REQUESTS; n++) {
        const res = await fetch(`${server.url()}/jobs/bulk`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ jobs }),
        });
        assert.equal(res.status, 201);
        await res.arrayBuffer();
    }
}

async function metric(server, name) {
    const { text } = await server.admin('GET', '/metrics');
    const line = text.split('\n').find((l) => l.startsWith(`${name} `));
    assert.ok(line, `${name} in ${text}`);
    return Number(line.split(' ')[1]);
}

function outcome(server, what) {
    return metric(server, `tenax_start_index_snapshot{outcome="${what}"}`);
}

describe('a server with very many jobs', () => {
    const server = new Server({ args: ['--log-level', 'info'] });
    let first, claimed;
    const file = () => path.join(server.dir, 'root', 'INDEX');

    async function assertAllThere() {
        const { count } = (await server.get('/jobs/count')).json;
        assert.equal(count, MOST);
        const { jobs } = (await server.get('/jobs?limit=3')).json;
        assert.deepEqual(jobs.map((job) => job.id), first);
        assert.equal((await server.job(claimed.id)).status, 'in_flight');
    }

    before(async () => {
        await server.start();
        await fill(server);
        first = (await server.get('/jobs?limit=3')).json.jobs.map((job) => job.id);
        claimed = await server.claimOne('q1', { lease_ms: 3600000 });
    });
    after(() => server.clean());

    it('writes_a_snapshot_of_its_indexes', async () => {
        assert.equal(await outcome(server, 'none'), 1);
        await until(() => metric(server, 'tenax_index_snapshots_total'), 'one is written');
        assert.ok(fs.statSync(file()).size > 100000);
    });

    it('starts_from_it_after_SIGKILL', async () => {
        await server.signal('SIGKILL');
        await server.start();
        assert.equal(await outcome(server, 'used'), 1);
        assert.match(server.stderr, /jobs are in a snapshot of the indexes/);
        await assertAllThere();
    });

    it('writes_one_at_a_stop_after_which_nearly_nothing_is_read', async () => {
        await server.stop();
        assert.match(server.stderr, /a snapshot of the indexes was written/);
        await server.start();
        assert.equal(await outcome(server, 'used'), 1);
        assert.ok(await metric(server, 'tenax_start_jobs_read') < 1000);
        await assertAllThere();
    });

    it('reads_all_jobs_if_it_is_damaged', async () => {
        await server.stop();
        const bytes = fs.readFileSync(file());
        bytes[bytes.length >> 1] ^= 4;
        fs.writeFileSync(file(), bytes);
        await server.start();
        assert.equal(await outcome(server, 'refused'), 1);
        assert.equal(await metric(server, 'tenax_start_jobs_read'), MOST);
        assert.match(server.stderr, /cannot be used, so all jobs are read: .* damaged at byte/);
        await assertAllThere();
    });

    it('does_without_if_it_is_told_to', async () => {
        await until(() => fs.existsSync(file()), 'another is written');
        await server.stop();
        await server.start({ args: ['--index-snapshots=off'] });
        assert.equal(await outcome(server, 'off'), 1);
        assert.equal(fs.existsSync(file()), false);
        await assertAllThere();
    });
});
