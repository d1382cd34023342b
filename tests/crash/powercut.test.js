// SPDX-License-Identifier: Apache-2.0
'use strict';

// The power fails: at any sync under load, and at every sync of a restart. What was acknowledged is
// there afterwards (promises I1 to I4), also what a crash had left unsynced and the recovery after
// it relied on. SEED=n repeats the choices of a run, CUTS=n says how often to cut under load.

const { test } = require('node:test');
const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const { Connection, Lost } = require('./lib/client.js');
const { Harness } = require('./lib/harness.js');
const { Load, runLoad } = require('./lib/load.js');
const { PowerCut } = require('./lib/powercut.js');
const { seedFromEnv } = require('./lib/random.js');
const { BIN, Server } = require('./lib/server.js');
const { Tasks } = require('./lib/tasks.js');

const CUTS = Number(process.env.CUTS || 16);
/* A start asks for fewer syncs than that. */
const START_SYNCS_MAX = 60;
/* So does the audit that follows it; load comes after. */
const LOAD_SYNC = 150;
/* Where there is no work left no commit comes, and it dies by time. */
const LOAD_MS = 600;

class Outages extends Harness {
  constructor(seed) {
    super(seed);
    this.power = new PowerCut(this.root);
    this.cuts = 0;
  }

  spawn(args) {
    const server = new Server(this.root, args, this.power.env(this.killAt));
    this.killAt = 0;
    return server;
  }

  /** The server that is to die at a sync, if it has. Then the power may be off, too. */
  async died(server, cut) {
    const { signal, code } = await server.exited;
    assert.strictEqual(signal, 'SIGKILL', `it ended by itself (${code}): ${server.stderr}`);
    this.kills++;
    if (!cut) return;
    this.power.cut();
    this.cuts++;
  }

  /** Dies under load, at a sync. */
  async outage(cut) {
    const { ledger, random } = this;
    ledger.nextRound();
    this.killAt = LOAD_SYNC + random.range(1, 200);
    const server = this.start();
    const port = await server.listening();
    await this.audit(port, false);
    const load = new Load(port, ledger, random, this.keepByDefault);
    server.exited.then(() => load.end());
    const work = Promise.all([runLoad(load, this.pocket, this.oldRuns()), this.side.run(load)]);
    const late = setTimeout(() => server.child.kill('SIGKILL'), LOAD_MS);
    await this.died(server, cut);
    clearTimeout(late);
    await work;
    this.check();
    this.loadKills++;
  }

  /** Whether a start that dies at its n-th sync has come to it. */
  async outageAtStart(n, cut) {
    this.ledger.nextRound();
    this.killAt = n;
    const server = this.start();
    const port = await server.ready;
    if (port === null) {
      await this.died(server, cut);
      return true;
    }
    /* It may die any moment, or never: what it has is for the next audit to say. */
    await this.kill(server);
    return false;
  }
}

async function run(t, body) {
  const seed = seedFromEnv();
  const outages = new Outages(seed);
  t.diagnostic(`SEED=${seed}`);
  try {
    await body(outages);
    await outages.finish();
  } catch (error) {
    error.message = `SEED=${seed}, root directory ${outages.root}\n${error.message}`;
    throw error;
  }
  outages.power.remove();
  t.diagnostic(`${outages.kills} kills, ${outages.cuts} of them power cuts; ` +
    JSON.stringify(outages.ledger.counts));
}

test(`no acknowledged job is lost or done twice over ${CUTS} power cuts under load`, (t) =>
  run(t, async (outages) => {
    while (outages.cuts < CUTS) await outages.outage(outages.random.chance(0.6));
  }));

test('the power may fail at every sync of a restart', (t) =>
  run(t, async (outages) => {
    for (const cut of [false, true]) {
      await outages.outage(false);
      let n = 1;
      while (n <= START_SYNCS_MAX && (await outages.outageAtStart(n, cut))) n++;
      t.diagnostic(`a start asks for ${n - 1} syncs`);
      assert.ok(n > 1 && n <= START_SYNCS_MAX, `${n} syncs`);
    }
  }));

/* The commit whose sync was under way has reached the system and not the disk. Recovery finds it,
 * and a canceled job says so: an answer that no later power cut may take back. */
test('what a restart answers no power cut takes back', async (t) => {
  const outages = new Outages(seedFromEnv());
  const { power } = outages;
  let survived = 0;
  for (let n = START_SYNCS_MAX; n < START_SYNCS_MAX + 6; n++) {
    let server = new Server(power.root, [], power.env());
    let conn = new Connection(await server.listening());
    const { body: job } = await conn.post('/jobs', {
      queue: 'q', type: 't', payload: n, ready_at: Date.now() + 3600000 });
    conn.close();
    await server.end('SIGKILL');

    server = new Server(power.root, [], power.env(n));
    conn = new Connection(await server.listening());
    while (await conn.post('/jobs', { queue: 'q', type: 't', payload: 0 }).catch(() => null));
    conn.close();
    assert.strictEqual((await server.exited).signal, 'SIGKILL');

    server = new Server(power.root, [], power.env());
    conn = new Connection(await server.listening());
    const before = (await conn.get('/jobs/count')).body.count;
    const { body: last } = await conn.post('/jobs', { queue: 'q', type: 't', payload: 1 });
    conn.close();
    await server.end('SIGKILL');
    power.cut();

    server = new Server(power.root, [], power.env());
    conn = new Connection(await server.listening());
    assert.strictEqual((await conn.get('/jobs/count')).body.count, before + 1);
    assert.strictEqual((await conn.get(`/jobs/${job.id}`)).status, 200);
    assert.strictEqual((await conn.get(`/jobs/${last.id}`)).status, 200);
    conn.close();
    await server.end('SIGKILL');
    survived++;
  }
  power.remove();
  t.diagnostic(`${survived} cuts after a recovery`);
});

/* finishUpload was acknowledged, finishArtifact was never received: the bytes have an entry, and
 * nobody can read them yet. */
test('a power cut between the ends of an upload and its artifact keeps the bytes', async () => {
  const { power } = new Outages(seedFromEnv());
  const start = async () => {
    const server = new Server(power.root, [], power.env());
    return { server, conn: new Connection(await server.listening()) };
  };
  const last = { pick: (list) => list.at(-1), range: (lo, hi) => hi, chance: () => false };
  const fail = (text) => assert.fail(text);
  const tasks = new Tasks({ random: last, counts: {}, fail, root: power.root });
  const { artifacts } = tasks;
  const finish = artifacts.finishUploaded;
  artifacts.finishUploaded = () => Promise.reject(new Lost('the power fails'));

  let { server, conn } = await start();
  await tasks.create(conn, 'side/work');
  const [task] = tasks.ledger.tasks.values();
  await conn.post('/api/queue/v1/claim-work/side%2Fwork',
    { workerGroup: 'g', workerId: 'w', tasks: 1 });
  await assert.rejects(artifacts.add(conn, task, 0), Lost);
  conn.close();
  await server.end('SIGKILL');
  power.cut();

  ({ server, conn } = await start());
  await artifacts.finish(conn);
  const [artifact] = artifacts.list;
  assert.strictEqual(artifact.is, 'doubt');
  assert.strictEqual(artifacts.files(), 1);
  await finish.call(artifacts, conn, artifact);
  await artifacts.finish(conn);
  conn.close();
  await server.end('SIGKILL');
  power.remove();
});

/* A root directory of the time when RocksDB's log had the commits, with two hundred jobs; their ids
 * as well. */
async function oldRoot(made) {
  const now = `${made}.now`;
  const server = new Server(now);
  const conn = new Connection(await server.listening());
  const ids = [];
  for (let n = 0; n < 200; n++)
    ids.push((await conn.post('/jobs', { queue: 'q', type: 't', payload: n })).body.id);
  conn.close();
  await server.end('SIGTERM');
  execFileSync(path.join(path.dirname(BIN), 'tests/store/old_root'), [now, made]);
  fs.rmSync(now, { recursive: true });
  const logs = fs.readdirSync(made).filter((name) => name.endsWith('.log') &&
    fs.statSync(path.join(made, name)).size > 0);
  assert.strictEqual(logs.length, 3, String(logs));
  return ids;
}

async function assertAllThere(power, ids) {
  const server = new Server(power.root, [], power.env());
  const conn = new Connection(await server.listening());
  for (const id of ids) assert.strictEqual((await conn.get(`/jobs/${id}`)).status, 200);
  const { body: { count } } = await conn.get('/jobs/count');
  const { status } = await conn.post('/jobs', { queue: 'q', type: 't', payload: 'later' });
  assert.strictEqual(status, 201);
  conn.close();
  await server.end('SIGKILL');
  return count;
}

test('the power may fail at every sync of the upgrade of an older root directory', async (t) => {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-old-'));
  const ids = await oldRoot(made);
  for (const cut of [false, true]) {
    let n = 1;
    for (let died = true; died && n < START_SYNCS_MAX; n++) {
      const root = `${made}.${cut}.${n}`;
      fs.cpSync(made, root, { recursive: true });
      const power = new PowerCut(root);
      power.adopt();
      const server = new Server(root, [], power.env(n));
      died = await server.ready === null;
      await server.end('SIGKILL');
      if (cut) power.cut();
      assert.strictEqual(await assertAllThere(power, ids), ids.length);
      if (cut) power.cut();
      assert.strictEqual(await assertAllThere(power, ids), ids.length + 1);
      power.remove();
    }
    t.diagnostic(`an upgrade asks for ${n - 2} syncs`);
    assert.ok(n > 10 && n < START_SYNCS_MAX, `${n} syncs`);
  }
  fs.rmSync(made, { recursive: true });
});
