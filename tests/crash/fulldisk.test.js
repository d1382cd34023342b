// SPDX-License-Identifier: Apache-2.0
'use strict';

// A disk that is really full: refused clearly, read from all the same, nothing
// acknowledged lost, and back in service by itself when there is room.

const { test } = require('node:test');
const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { Connection, Stream } = require('./lib/client.js');
const { Disk, mounter, runs } = require('./lib/disk.js');
const { BIN, Server } = require('./lib/server.js');
const { walk, count } = require('./lib/audit.js');

const MIB = 1024 * 1024;
const RESUME_MS = 240000; // ends what hangs; nothing that works comes near it

/** One server on a small disk, and what it acknowledged. */
class Site {
  constructor(prefix, mib, args) {
    this.disk = new Disk(prefix, mib);
    this.args = args;
    this.kept = new Map(); // key by id: acknowledged, and not deleted or done since
    this.refused = new Set(); // keys answered 507
    this.sent = 0;
  }

  async start() {
    this.server = new Server(this.disk.root, this.args);
    await this.server.listening();
    this.conn = new Connection(this.server.port);
  }

  async kill() {
    const { code, signal } = await this.server.end('SIGKILL');
    assert.strictEqual(signal, 'SIGKILL', `it had ended (${code}): ${this.server.stderr}`);
  }

  async enqueue(conn, jobs, bytes, pad = 'x'.repeat(bytes)) {
    const specs = Array.from({ length: jobs }, () => ({
      queue: 'q',
      type: 't',
      payload: { k: `k${this.sent++}`, pad },
    }));
    const reply = await conn.post('/jobs/bulk', { jobs: specs });
    if (reply.status === 201)
      reply.body.jobs.forEach((job, i) => this.kept.set(job.id, specs[i].payload.k));
    else for (const spec of specs) this.refused.add(spec.payload.k);
    return reply;
  }

  /** Until it is refused; the refusal. */
  async fill(conn, jobs, bytes) {
    for (;;) {
      const reply = await this.enqueue(conn, jobs, bytes);
      if (reply.status !== 201) return reply;
      assert.ok(this.sent < 200000, 'it never gets full');
    }
  }

  async health() {
    return this.conn.get('/health');
  }

  /** The ms until it accepts jobs again. Nothing tells when, so it is asked. */
  async resumed() {
    const began = performance.now();
    for (;;) {
      const { status } = await this.enqueue(this.conn, 1, 10);
      const ms = performance.now() - began;
      if (status === 201) return ms;
      assert.strictEqual(status, 507);
      assert.ok(ms < RESUME_MS, `still full after ${Math.round(ms)} ms`);
      await delay(20);
    }
  }

  /** Until the log says so. */
  async logged(words) {
    const end = performance.now() + RESUME_MS;
    while (!words.test(this.server.stderr)) {
      assert.ok(performance.now() < end, `${words} is not in the log: ${this.server.stderr}`);
      await this.health(); // a look at the disk
      await delay(20);
    }
  }

  /** Everything acknowledged is there, and nothing that was refused. */
  async checkJobs() {
    const failures = [];
    const jobs = await walk(this.conn, { fail: (job, text) => failures.push(text) });
    assert.deepStrictEqual(failures, []);
    assert.strictEqual(await count(this.conn, ''), jobs.length);
    const there = new Map(jobs.map((job) => [job.id, job.payload.k]));
    for (const [id, key] of this.kept)
      assert.strictEqual(there.get(id), key, `job ${id} was acknowledged and is not there`);
    for (const key of there.values())
      assert.ok(!this.refused.has(key), `job ${key} was refused and is there`);
  }

  async end() {
    try {
      if (this.server) await this.server.end('SIGKILL');
    } finally {
      this.disk.unmount();
    }
  }
}

/** Damages the largest table of a store that nobody uses; its name. */
function damage(disk, how) {
  const tool = path.join(path.dirname(BIN), 'tests/store/damage_table');
  return path.basename(execFileSync(tool, [disk.root, how], { encoding: 'utf8' }).trim());
}

function assertRefusal({ status, body }, words) {
  assert.strictEqual(status, 507, JSON.stringify(body));
  assert.strictEqual(body.code, 'disk_full');
  assert.match(body.error, words);
}

async function assertReadOnly(site) {
  const health = await site.health();
  assert.strictEqual(health.status, 503);
  assert.strictEqual(health.body.status, 'read_only');
  await assertReads(site);
}

async function assertReads(site) {
  const [id, key] = site.kept.entries().next().value;
  const one = await site.conn.get(`/jobs/${id}`);
  assert.strictEqual(one.status, 200);
  assert.strictEqual(one.body.payload.k, key);
  assert.strictEqual((await site.conn.get(`/jobs/${id}/runs`)).status, 200);
  assert.strictEqual((await site.conn.get('/queues')).status, 200);
  await site.checkJobs();
}

async function assertHealthy(site) {
  const health = await site.health();
  assert.strictEqual(health.status, 200);
  assert.strictEqual(health.body.status, 'ok');
}

/** The body of its answer once it is accepted: while the store moves what it has into its
 * tables, even what finishes work may have to wait. */
async function accepted(ask) {
  const began = performance.now();
  for (;;) {
    const { status, body } = await ask();
    if (status < 300) return body;
    assertRefusal({ status, body }, /left|space/);
    assert.ok(performance.now() - began < RESUME_MS, 'never accepted');
    await delay(20);
  }
}

/**
 * Fills the disk until enqueues are refused because of the reserve, and goes on being so: the store
 * may be the first to refuse, and what merges of tables give back is taken by others.
 */
async function reserveRefuses(site, mib) {
  const began = performance.now();
  for (;;) {
    const refusal = await site.fill(site.conn, 10, 20000);
    assertRefusal(refusal, /left|space/);
    const extra = site.disk.free() - mib;
    if (extra > 0) site.disk.fill(extra);
    else if (/reserve.*nothing was stored/.test(refusal.body.error)) return;
    assert.ok(performance.now() - began < RESUME_MS, refusal.body.error);
    await delay(20);
  }
}

/** Begins to put an object: the request, and what it will be answered. */
async function beginUpload(site, name, length) {
  const { status, body } = await site.conn.request('PUT', `/api/object/v1/upload/${name}`, {
    projectId: 'p',
    uploadId: `AAAAAAAAQACAAAAAAAAAA${length === 5 ? 'A' : 'g'}`,
    expires: new Date(Date.now() + 3600000).toJSON(),
    proposedUploadMethods: { putUrl: { contentType: 'text/plain', contentLength: length } },
  });
  assert.strictEqual(status, 200, JSON.stringify(body));
  const { url, headers } = body.uploadMethod.putUrl;
  const req = http.request(url.replace(/^http:\/\/[^/]+/, `http://127.0.0.1:${site.server.port}`),
    { method: 'PUT', headers });
  req.on('error', () => {}); /* it is answered before it has sent all */
  const answer = once(req, 'response').then(async ([res]) => {
    let text = '';
    for await (const bytes of res) text += bytes;
    return { status: res.statusCode, body: text };
  });
  return { req, answer };
}

/** Runs body on a site of its own. */
async function onSite(prefix, mib, args, body) {
  const site = new Site(prefix, mib, args);
  try {
    await site.start();
    await body(site);
  } finally {
    await site.end();
  }
}

function define(prefix) {
  test('below the reserve new jobs are refused, finishing and reading go on', (t) =>
    onSite(prefix, 320, ['--min-free-space', '96MiB'], async (site) => {
      const { conn, disk } = site;
      /* So that it has few tables to merge, and stays between the reserve and half of it. */
      disk.fill(200);
      await reserveRefuses(site, 72);
      await assertReadOnly(site);

      const claimed = await accepted(() =>
        conn.post('/jobs/claim', { count: 2, lease_ms: 60000, wait_ms: 10000 }));
      const [done, other] = claimed.jobs;
      await accepted(() => conn.post(`/jobs/${done.id}/success`, { token: done.token }));
      site.kept.delete(done.id);
      const removed = await conn.request('DELETE', `/jobs/${other.id}`);
      assert.strictEqual(removed.status, 204);
      site.kept.delete(other.id);
      await site.checkJobs();

      disk.empty();
      t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
      await assertHealthy(site);
      await site.kill();
      await site.start();
      await site.checkJobs();
      await assertHealthy(site);
    }));

  test('a full disk is refused with 507, and service resumes when there is room', (t) =>
    onSite(prefix, 64, ['--min-free-space', '0'], async (site) => {
      const { disk } = site;
      disk.fill(24);
      await site.enqueue(site.conn, 100, 10);
      const stream = new Stream(site.server.port, 'prefetch=5', () => {});
      assert.strictEqual(await stream.opened, 200);
      const others = Array.from({ length: 4 }, () => new Connection(site.server.port));
      const refusals = await Promise.all(others.map((conn) => site.fill(conn, 5, 20000)));
      for (const refusal of refusals) assertRefusal(refusal, /left|space/);
      await assertReadOnly(site);
      /* It could not be recorded what the stream is given, so it ends. */
      assert.ok(await stream.over, 'the stream broke');
      stream.close();
      const claim = await site.conn.post('/jobs/claim', {});
      assertRefusal(claim, /left|space/);

      await site.logged(/warn  nothing can be stored, .* (left|space)/);

      disk.empty();
      t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
      await assertHealthy(site);
      await site.logged(/warn  the disk has \d+ MiB left: jobs are accepted again/);
      await site.checkJobs();
      await site.kill();
      await site.start();
      await site.checkJobs();
    }));

  test('a disk that others fill at any moment under load loses nothing', (t) =>
    onSite(prefix, 128, ['--min-free-space', '0'], async (site) => {
      const { disk } = site;
      const conns = Array.from({ length: 4 }, () => new Connection(site.server.port));
      const times = [];
      await site.enqueue(site.conn, 10, 100);
      for (let cycle = 0; cycle < 6; cycle++) {
        const filling = conns.map((conn) => site.fill(conn, 3, 1000));
        /* After some of its replies, so that a commit is under way. */
        for (let i = 0; i < 5 * cycle; i++) await site.enqueue(site.conn, 1, 100);
        disk.fill();
        for (const refusal of await Promise.all(filling)) assertRefusal(refusal, /left|space/);
        await assertReadOnly(site);
        disk.empty();
        times.push(Math.round(await site.resumed()));
        await assertHealthy(site);
        await site.checkJobs();
      }
      t.diagnostic(`resumed after ${times.join(', ')} ms`);
      await site.kill();
      await site.start();
      await site.checkJobs();
    }));

  /* Large enough for tables to be merged, which needs room of its own. */
  test('deleting jobs brings a server back that has filled its disk by itself', (t) =>
    onSite(prefix, 600, [], async (site) => {
      assertRefusal(await site.fill(site.conn, 50, 20000), /left|space/);
      const began = performance.now();
      await accepted(() => site.conn.request('DELETE', '/jobs?queue=q'));
      site.kept.clear();
      t.diagnostic(`deleted after ${Math.round(performance.now() - began)} ms`);
      t.diagnostic(`resumed after another ${Math.round(await site.resumed())} ms`);
      await assertHealthy(site);
      await site.checkJobs();
      await site.kill();
      await site.start();
      await site.checkJobs();
    }));

  /* Nothing that starts it again may do so in a loop. */
  for (const how of ['block', 'end'])
    test(`a table that is damaged (${how}) on a full disk is set apart once there is room`, (t) =>
      onSite(prefix, 64, ['--min-free-space', '0'], async (site) => {
        for (let i = 0; i < 8; i++) await site.enqueue(site.conn, 500, 600);
        await site.server.end('SIGTERM');
        const table = damage(site.disk, how);
        site.disk.fill();
        await site.start();
        const [id] = site.kept.keys();
        for (const path of [`/jobs/${id}`, '/jobs', '/jobs/count', '/queues', '/crons', '/events'])
          assertRefusal(await site.conn.get(path), new RegExp(`${table} is damaged`));
        assertRefusal(await site.enqueue(site.conn, 1, 10), /damaged/);
        assertRefusal(await site.conn.post('/jobs/claim', {}), /damaged/);
        const health = await site.health();
        assert.strictEqual(health.status, 503);
        assert.strictEqual(health.body.status, 'unreadable');
        assert.match(health.body.failure, new RegExp(`${table} is damaged`));
        await site.logged(new RegExp(`error nothing can be stored .*${table} is damaged`));
        site.disk.empty();
        t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
        await assertHealthy(site);
        const { damaged } = (await site.health()).body;
        assert.strictEqual(damaged.tables, 1);
        /* A block, or a whole table, of which there may be several. */
        assert.ok(damaged.jobs < (how === 'block' ? 50 : 4000), `${damaged.jobs} are set apart`);
      }));

  test('an upload that meets a full disk is refused and takes nothing of it', (t) =>
    onSite(prefix, 64, ['--min-free-space', '0'], async (site) => {
      const { disk } = site;
      const folder = path.join(disk.root, 'artifacts');
      const files = () => (fs.existsSync(folder) ? fs.readdirSync(folder) : []);
      await site.enqueue(site.conn, 10, 100);
      const { req, answer } = await beginUpload(site, 'large', 24 * MIB);
      await new Promise((resolve) => req.write(Buffer.alloc(4 * MIB), resolve));
      for (const end = performance.now() + RESUME_MS; files().length === 0;) {
        assert.ok(performance.now() < end, 'nothing is written');
        await delay(5);
      }
      disk.fill();
      req.end(Buffer.alloc(20 * MIB));
      const { status, body } = await answer;
      assert.strictEqual(status, 507);
      assert.strictEqual(JSON.parse(body).code, 'InsufficientStorage');
      assert.deepStrictEqual(files(), []);
      req.destroy();
      disk.empty();
      t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
      await site.checkJobs();
      const small = await beginUpload(site, 'small', 5);
      small.req.end('small');
      assert.strictEqual((await small.answer).status, 200);
      assert.strictEqual(files().length, 1);
    }));

  test('where tables cannot be merged, all is answered, and the server ends', { timeout: RESUME_MS },
    (t) => onSite(prefix, 128, ['--min-free-space', '0'], async (site) => {
      const { disk } = site;
      /* Which no merge makes smaller. */
      for (let i = 0; i < 40; i++)
        await site.enqueue(site.conn, 25, 0, randomBytes(15000).toString('base64'));
      await site.server.end('SIGTERM');
      damage(disk, 'pile');
      disk.fill(disk.free() - 14);
      await site.start();
      await assertReads(site);
      /* So much that it would have written tables. */
      for (let accepted = 0; accepted < 60;) {
        const reply = await site.enqueue(site.conn, 5, 5000);
        if (reply.status === 201) accepted++;
        else assertRefusal(reply, /left|space/);
        if (reply.status !== 201) await delay(50);
      }
      const tables = fs.readdirSync(disk.root).filter((name) => name.endsWith('.sst'));
      assert.ok(tables.length > 32, `they were merged: ${tables.join(' ')}`);
      const waiting = ['/backup', '/compact'].map((path) =>
        new Connection(site.server.adminPort).post(path, {}).catch((error) => error));
      await assertReads(site);
      const { code } = await site.server.end('SIGTERM');
      assert.strictEqual(code, 0);
      await Promise.all(waiting);
      await site.start();
      await site.checkJobs();
      disk.empty();
      t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
      await assertHealthy(site);
      await site.checkJobs();
    }));

  test('a server that only reads makes no backup, which would lack what the log has', () =>
    onSite(prefix, 48, ['--min-free-space', '0'], async (site) => {
      const { disk } = site;
      await site.enqueue(site.conn, 100, 100);
      await site.kill();
      disk.fill();
      await site.start();
      /* Enough for a backup, too little to go on. */
      fs.truncateSync(disk.ballast, fs.statSync(disk.ballast).size - 6 * MIB);
      const { status, body } = await new Connection(site.server.adminPort).post('/backup', {});
      assert.strictEqual(status, 503, JSON.stringify(body));
      await assertReadOnly(site);
    }));

  test('killed on a disk that it has filled, the server starts again', () =>
    onSite(prefix, 48, ['--min-free-space', '0'], async (site) => {
      assertRefusal(await site.fill(site.conn, 5, 5000), /left|space/);
      await site.kill();
      await site.start();
      await site.checkJobs();
    }));

  test('a server that starts on a full disk reads, and goes on once there is room', (t) =>
    onSite(prefix, 48, ['--min-free-space', '0'], async (site) => {
      await site.enqueue(site.conn, 100, 100);
      await site.kill();
      site.disk.fill();
      await site.start();
      assertRefusal(await site.enqueue(site.conn, 1, 10), /left|space/);
      assertRefusal(await site.conn.post('/jobs/claim', {}), /left|space/);
      await assertReadOnly(site);
      await site.logged(/warn  nothing can be stored, .*(left|space)/);
      site.disk.empty();
      t.diagnostic(`resumed after ${Math.round(await site.resumed())} ms`);
      await assertHealthy(site);
      await site.kill();
      await site.start();
      await site.checkJobs();
    }));
}

const prefix = mounter();
if (prefix) {
  define(prefix);
} else if (!process.env.TENAX_TEST_IN_NAMESPACE && runs('unshare', '-rm', 'true')) {
  test('in a user namespace of our own, where we may mount', () => {
    const env = { ...process.env, TENAX_TEST_IN_NAMESPACE: '1' };
    delete env.NODE_TEST_CONTEXT;
    const child = spawnSync('unshare', ['-rm', process.execPath, __filename], {
      env, encoding: 'utf8' });
    assert.strictEqual(child.status, 0, child.stdout + child.stderr);
  });
} else {
  test('full disks', { skip: 'needs root, sudo, or user namespaces to mount a tmpfs' }, () => {});
}
