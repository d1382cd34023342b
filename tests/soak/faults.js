// SPDX-License-Identifier: Apache-2.0
// What docs/grey-faults.md has in its tables, and how each of them is done to a server by itself, or to
// a pair on a PostgreSQL. A fault returns how many milliseconds it took until it was shown where the
// page says, and leaves all as it was.
'use strict';

const assert = require('node:assert');
const { execFile, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { frames, lose } = require('../http/log_frames.js');
const { BIN, Member, ask, tenax, together, until } = require('../postgres/servers.js');

const PAGE = path.join(__dirname, '../../docs/grey-faults.md');
const HOUR = 3600 * 1000;
const DAY = 24 * HOUR;
const START_MS = 60000; // a server that ought not to start is ended
const SHORT_MS = 1000; // a health check waits no longer

// [{fault, within}], in the order of the page; within in milliseconds.
function table() {
  const rows = fs.readFileSync(PAGE, 'utf8').split('\n').filter((line) => /^\| (?!fault \|)/.test(line));
  return rows.map((line) => {
    const [, fault, , within] = line.split('|').map((cell) => cell.trim());
    return { fault: fault.replace(/\*$/, ''), within: 1000 * Number(/(\d+) s/.exec(within)[1]) };
  });
}

async function timed(shown, what) {
  const from = performance.now();
  await until(shown, what);
  return performance.now() - from;
}

const healthOf = (m) => ask(m.url, 'GET', '/health', undefined, {}, SHORT_MS).catch(() => null);
const statusOf = async (m) => (await healthOf(m))?.json?.status;
const isOk = (m) => until(async () => await statusOf(m) === 'ok', `${m.url} is well; it said ${m.stderr.slice(-1500)}`);

// The owner of the pair, and the other one, once both are well.
async function roles(site) {
  await until(async () => {
    const healths = await Promise.all(site.members.map((m) => m.health(SHORT_MS)));
    return healths.every((h) => h?.status === 'ok') && new Set(healths.map((h) => h.role)).size === 2;
  }, `both are well; they said ${site.members.map((m) => m.stderr.slice(-1500)).join('\n')}`);
  const first = (await site.members[0].health())?.role === 'owner';
  return first ? site.members : [...site.members].reverse();
}

const takesOver = (m) => timed(async () => {
  const health = await m.health(SHORT_MS);
  return health?.role === 'owner' && health.status === 'ok';
}, `${m.url} has the jobs; it said ${m.stderr.slice(-1500)}`);

function copyOf(dir) {
  const copy = fs.mkdtempSync('/tmp/tenax-soak-');
  fs.cpSync(dir, path.join(copy, 'root'), { recursive: true });
  return copy;
}

const ALONE = {
  async 'the server is killed'({ alone }) {
    await alone.kill();
    const took = await timed(async () => await healthOf(alone) === null, 'nobody answers');
    await alone.start();
    await isOk(alone);
    return took;
  },

  async 'the server is frozen'({ alone }) {
    alone.child.kill('SIGSTOP');
    const took = await timed(async () => await healthOf(alone) === null, 'it does not answer');
    alone.child.kill('SIGCONT');
    await isOk(alone);
    return took;
  },

  // The first word of the worker confirms its claim, so that its silence is its own fault.
  async 'a worker falls silent'({ alone }) {
    const job = await alone.ask('POST', '/jobs', { queue: 'silent', type: 't', payload: null });
    assert.strictEqual(job.status, 201, job.text);
    const { json } = await alone.ask('POST', '/jobs/claim', { queues: ['silent'], worker: 'silent', lease_ms: 1000 });
    const renewed = await alone.ask('POST', `/jobs/${json.jobs[0].id}/renew`, { token: json.jobs[0].token, lease_ms: 1000 });
    assert.strictEqual(renewed.status, 200, renewed.text);
    const took = await timed(async () => {
      const { runs } = await alone.get(`/jobs/${job.json.id}/runs`);
      return runs[0]?.outcome === 'claim-expired';
    }, 'its run has ended');
    assert.strictEqual((await alone.ask('DELETE', `/jobs/${job.json.id}`)).status, 204);
    return took;
  },

  // With a network of its own, by the test that the page names.
  'the host of a client vanishes': () => new Promise((done, fail) => {
    const from = performance.now();
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    execFile(process.execPath, [path.join(__dirname, '../http/vanished.test.js')], { env: { ...env, TENAX_BIN: BIN } },
      (e, out) => (e ? fail(new Error(out)) : done(performance.now() - from)));
  }),

  async 'the wall clock jumps by a day'({ alone, clocks }) {
    clocks.alone.set(DAY);
    const took = await timed(async () => await statusOf(alone) === 'clock', '/health says clock');
    clocks.alone.set(0);
    await isOk(alone);
    return took;
  },

  async 'the disk is full'({ alone, disk }) {
    disk.fill();
    const took = await timed(async () => {
      const answer = await healthOf(alone);
      return answer?.status === 503 && answer.json.status === 'read_only';
    }, '/health says read_only');
    const refused = await alone.ask('POST', '/jobs', { queue: 'q', type: 't', payload: null });
    assert.strictEqual(refused.json.code, 'disk_full', refused.text);
    disk.empty();
    await isOk(alone);
    return took;
  },

  async 'the disk has lost a sector of the log'({ alone }) {
    await alone.kill();
    const copy = copyOf(alone.dir), root = path.join(copy, 'root');
    await alone.start();
    lose(frames(root, 2).at(-6)); // acknowledged, and so new that no table has it
    const from = performance.now();
    const end = await tenax(['serve', '--root-dir', root, '--port', '0', '--no-admin'], {}, START_MS);
    const took = performance.now() - from;
    assert.notStrictEqual(end.code, 0);
    assert.match(end.stderr, /is damaged after batch \d+/);
    assert.strictEqual((await tenax(['check', root])).code, 1);
    fs.rmSync(copy, { recursive: true });
    await isOk(alone);
    return took;
  },
};

const PAIR = {
  async 'the owner is killed'(site) {
    const [owner, other] = await roles(site);
    await owner.kill();
    const took = await takesOver(other);
    await owner.start();
    return took;
  },

  async 'the owner is frozen'(site) {
    const [owner, other] = await roles(site);
    owner.child.kill('SIGSTOP');
    const took = await takesOver(other);
    owner.child.kill('SIGCONT');
    return took;
  },

  // It reads its configuration from a pipe that nobody writes to.
  async "the owner's loop hangs"(site) {
    const [owner, other] = await roles(site);
    const conf = path.join(owner.dir, 'conf.yaml'), fifo = `${conf}.fifo`;
    fs.renameSync(conf, `${conf}.file`);
    execFileSync('mkfifo', [conf]);
    fs.linkSync(conf, fifo);
    owner.child.kill('SIGHUP');
    const took = await timed(async () => ['owner_silent', 'ok'].includes(await statusOf(other)) &&
      (await healthOf(other))?.json?.owner_status !== 'ok', '/health of the other says so');
    await takesOver(other);
    fs.renameSync(`${conf}.file`, conf);
    fs.closeSync(fs.openSync(fifo, 'w'));
    fs.rmSync(fifo);
    return took;
  },

  async 'the owner has no room for its copy'(site) {
    const [owner, full] = await roles(site);
    await full.kill('SIGTERM');
    await full.start({ args: ['--config', path.join(full.dir, 'conf.yaml'), '--min-free-space', '900000GiB'] });
    await roles(site);
    await owner.kill();
    await until(async () => (await full.health(SHORT_MS))?.role === 'owner', 'it is better than none');
    await owner.start();
    const took = await takesOver(owner);
    await roles(site);
    await full.kill();
    await full.start();
    return took;
  },

  async 'commits hang'(site) {
    const [owner] = await roles(site);
    await site.postgres.rows("ALTER SYSTEM SET synchronous_standby_names = 'missing'");
    await site.postgres.rows('SELECT pg_reload_conf()');
    const took = await timed(async () => await statusOf(owner) === 'commits_hang', '/health says commits_hang');
    await site.postgres.rows('ALTER SYSTEM RESET synchronous_standby_names');
    await site.postgres.rows('SELECT pg_reload_conf()');
    return took;
  },

  async 'PostgreSQL is away'(site) {
    const [owner] = await roles(site);
    await site.postgres.end();
    const took = await timed(async () => {
      const answer = await healthOf(owner);
      return answer === null || answer.status === 503;
    }, '/health says that it does not serve');
    await site.postgres.again();
    return took;
  },

  async "PostgreSQL's clock is an hour ahead"(site) {
    await roles(site);
    const aheadBy = async (ms) => {
      const all = await Promise.all(site.members.map((m) => m.health(SHORT_MS)));
      return all.every((h) => Math.abs(h?.postgres_clock_ahead_ms - ms) < HOUR / 60);
    };
    site.clocks.postgres.set(HOUR);
    const took = await timed(() => aheadBy(HOUR), 'both servers say so');
    site.clocks.postgres.set(0);
    await until(() => aheadBy(0), 'both servers have seen it healed');
    return took;
  },

  async 'PostgreSQL has lost commits'() {
    const all = await together(2, { args: ['--lease', '2s'] });
    try {
      for (let n = 0; n < 5; n++)
        assert.strictEqual((await all.members[0].ask('POST', '/jobs', { queue: 'q', type: 't', payload: n })).status, 201);
      await all.postgres.rows('BEGIN; UPDATE tenax.shard SET seq = seq - 3; DELETE FROM tenax.log_0 l USING tenax.shard s ' +
        'WHERE l.seq > s.seq; COMMIT');
      const took = await timed(() => all.members.every((m) => m.child.exitCode !== null), 'both end');
      for (const m of all.members) assert.strictEqual(m.child.exitCode, 74, m.stderr);
      assert.strictEqual(await all.postgres.value('SELECT count(*) FROM tenax.alarm'), '1');
      return took;
    } finally {
      await all.stop();
    }
  },

  async 'a byte in PostgreSQL is not what was written'() {
    const all = await together(1, { args: ['--lease', '2s'] });
    const [m] = all.members;
    try {
      const { json } = await m.ask('POST', '/jobs', { queue: 'q', type: 't', payload: { amount: 1000001 } });
      const where = "position('1000001'::bytea IN value) > 0";
      await until(async () => await all.postgres.value(`SELECT count(*) FROM tenax.records WHERE ${where}`) === '1',
        'records have it');
      await m.kill();
      fs.rmSync(`${m.dir}/cache`, { recursive: true });
      await all.postgres.rows("UPDATE tenax.records SET value = set_byte(value, position('1000001'::bytea IN value) - 1, 57) " +
        `WHERE ${where}`);
      const from = performance.now();
      await m.start();
      assert.strictEqual((await m.until('owner')).damaged.jobs, 1);
      assert.match(m.stderr, new RegExp(`of job ${json.id} does not have its checksum`));
      return performance.now() - from;
    } finally {
      await all.stop();
    }
  },
};

module.exports = { ALONE, PAIR, Member, isOk, roles, table };
