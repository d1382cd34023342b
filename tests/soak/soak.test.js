// SPDX-License-Identifier: Apache-2.0
// A server by itself and a pair on a PostgreSQL, under load for SOAK_MINUTES, while every fault of
// docs/grey-faults.md is done to them in turn: each is shown where the page says, within thrice its
// time, and more where others keep the machine busy; and in the end nothing that was acknowledged is lost
// or done twice. SEED repeats the load's choices.
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { it } = require('node:test');
const { Disk, mounter } = require('../crash/lib/disk.js');
const { compileShim, wrongClock } = require('../http/wrong_clock.js');
const { Load, verify } = require('../postgres/load.js');
const { Postgres } = require('../postgres/node.js');
const { tenax, until } = require('../postgres/servers.js');
const { Slowness } = require('./slowness.js');
const { ALONE, Member, PAIR, isOk, roles, table } = require('./faults.js');

const MINUTES = Number(process.env.SOAK_MINUTES || 30);
const SLACK = 3; // the load, and health checks that are asked one after another
const KEPT = ['--default-completed-job-retention', '7d', '--event-max-bytes', '64GiB', '--lost-worker-limit', '0'];

// Whoever is interrupted ends its servers all the same, and leaves no disk.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

function chance(seed) {
  let a = seed;
  return (n) => {
    a = (Math.imul(a, 1103515245) + 12345) & 0x7fffffff;
    return (a >> 8) % n;
  };
}

async function startAlone(site) {
  site.disk = new Disk(mounter(), 1024);
  process.on('exit', () => { if (fs.existsSync(site.disk.dir)) execFileSync('umount', ['-l', site.disk.dir]); });
  const m = new Member(null, ['--min-free-space', '128MiB', ...KEPT]);
  fs.rmSync(m.dir, { recursive: true });
  m.dir = site.disk.root;
  const start = m.start.bind(m);
  m.start = () => start({ env: site.clocks.alone.env });
  site.alone = await m.start();
  await isOk(m);
}

async function startPair(site) {
  site.postgres = await Postgres.start({ env: site.clocks.postgres.env });
  const end = await tenax(['postgres', 'install', '--postgres', site.postgres.url()]);
  assert.strictEqual(end.code, 0, end.stderr);
  for (let i = 0; i < 2; i++) {
    const m = new Member(site.postgres, ['--lease', '2s', ...KEPT]);
    const conf = path.join(m.dir, 'conf.yaml'), start = m.start.bind(m);
    fs.writeFileSync(conf, '{}\n');
    m.start = (options = { args: ['--config', conf] }) => start(options);
    site.members.push(await m.start());
    await m.until(i === 0 ? 'owner' : 'standby');
  }
}

async function stop(site) {
  await site.slowness.stop();
  for (const load of site.loads) load.abort();
  for (const m of [site.alone, ...site.members]) if (m?.child) await m.kill('SIGKILL');
  await site.postgres?.stop();
  site.disk?.unmount();
  for (const m of site.members) fs.rmSync(m.dir, { recursive: true, force: true });
  fs.rmSync(site.dir, { recursive: true, force: true });
}

// One fault after another, each with the load on, until the time is over and each has been there.
async function hurt(site, faults, load, until_, times) {
  const limits = new Map(table().map(({ fault, within }) => [fault, within]));
  for (let round = 0; round === 0 || performance.now() < until_; round++)
    for (const [fault, inject] of Object.entries(faults)) {
      const begin = performance.now(), took = await inject(site);
      const slower = site.slowness.since(begin);
      (times[fault] ??= []).push(took);
      console.error(`${new Date().toISOString().slice(11, 19)} ${fault}: shown after ${Math.round(took)} ms, `
        + `the machine ${slower.toFixed(1)} times slower`);
      assert.ok(took <= SLACK * limits.get(fault) * slower,
        `${fault}: shown after ${took} ms, the machine ${slower.toFixed(1)} times slower`);
      const more = load.acknowledged.size + 20;
      await until(() => load.acknowledged.size > more, `jobs are acknowledged after "${fault}"`);
    }
}

// What was taken and never reported comes again; then all is done.
async function finish(load, owner, below) {
  await load.stop();
  const left = new Load([owner], below, false);
  await until(async () => (await owner.get('/jobs/count?status=ready,in_flight,scheduled')).count === 0, 'all jobs are done');
  await left.stop();
  for (const [id, tokens] of left.done) for (const t of tokens) load.done.set(id, (load.done.get(id) ?? new Set()).add(t));
  return verify(load, owner);
}

it('has a way to do each fault of the page', () => {
  assert.deepStrictEqual(table().map(({ fault }) => fault), [...Object.keys(ALONE), ...Object.keys(PAIR)]);
});

it(`${MINUTES} minutes of faults under load`, async (t) => {
  const site = { members: [], loads: [], clocks: {}, slowness: new Slowness(), dir: fs.mkdtempSync('/tmp/tenax-soak-') };
  const times = {};
  fs.chmodSync(site.dir, 0o755); // PostgreSQL runs as another user
  try {
    const shim = compileShim(site.dir), below = chance(Number(process.env.SEED || 1));
    for (const name of ['alone', 'postgres']) site.clocks[name] = wrongClock(shim, path.join(site.dir, name));
    await startAlone(site);
    await startPair(site);
    const [one, two] = site.loads = [new Load([site.alone], below), new Load(site.members, below)];
    const end = performance.now() + MINUTES * 60000;
    await Promise.all([hurt(site, ALONE, one, end, times), hurt(site, PAIR, two, end, times)]);
    await isOk(site.alone);
    const [owner] = await roles(site);
    for (const [load, m] of [[one, site.alone], [two, owner]]) {
      const events = await finish(load, m, below);
      t.diagnostic(`${load.acknowledged.size} jobs acknowledged, ${load.handed} handed out, ${events.length} events`);
    }
    for (const [fault, all] of Object.entries(times))
      t.diagnostic(`${fault}: ${all.length} times, shown after ${Math.round(Math.max(...all))} ms at most`);
  } finally {
    await stop(site);
  }
});
