// SPDX-License-Identifier: Apache-2.0
// Three servers, a PostgreSQL and its synchronous standby, each on a machine of its own as far as the
// network is concerned: whatever of blows.js happens to them at random moments under load, nothing
// acknowledged is lost, no run counts twice, and events have no gap.
// FAILOVERS says how many rounds (make test-failover: 200), SEED in which order, BLOWS of which kinds, with
// semicolons between them; by default each kind has one. It prints how long after each blow the next job
// was handed out. It needs root, for the network.
'use strict';

const assert = require('node:assert');
const { it } = require('node:test');
const { inOwnNetwork, Network } = require('./network.js');

inOwnNetwork(__filename);

const { BLOWS } = require('./blows.js');
const { Load, verify } = require('./load.js');
const { Pair } = require('./pair.js');
const { Member, sleep, tenax, until } = require('./servers.js');

const KINDS = process.env.BLOWS ? process.env.BLOWS.split(';') : Object.keys(BLOWS);
const ROUNDS = Number(process.env.FAILOVERS || KINDS.length);
const SEED = Number(process.env.SEED || 1);
const MEASURED = Boolean(process.env.FAILOVERS); // with what users have: fsync, and the default lease
const LEASE_MS = MEASURED ? 2000 : 1000;
const HEALTH_MS = 1000;

// A generator of numbers that a seed repeats (mulberry32).
function chance(seed) {
  let a = seed;
  return (n) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];

// Each kind once in so many rounds, in an order that the seed gives.
function* order(below) {
  for (;;) {
    const left = [...KINDS];
    while (left.length) yield left.splice(below(left.length), 1)[0];
  }
}

async function start(all) {
  all.network = await Network.start('one', 'two', 'three', 'primary', 'standby');
  const { one, two, three, primary, standby } = all.network.machines;
  all.pair = await Pair.start([primary, standby], MEASURED);
  const end = await tenax(['postgres', 'install', '--postgres', all.pair.url()]);
  assert.strictEqual(end.code, 0, end.stderr);
  // Clients that wait no longer lose jobs that were handed to them, some of these again and again.
  const args = ['--lease', `${LEASE_MS}ms`, '--default-completed-job-retention', '7d', '--lost-worker-limit', '0'];
  for (const [machine, wants] of [[one, ''], [two, '&target_session_attrs=read-write'], [three, '&target_session_attrs=primary']]) {
    const member = new Member({ url: () => all.pair.url(wants) }, [...args, '--advertise', `${machine.address}:7890`], machine);
    member.port = 7890;
    all.members.push(member);
    await member.start();
  }
}

async function stop(all) {
  for (const m of all.members) await m.stop();
  await all.pair?.stop();
  all.network?.stop();
}

// The owner, once all servers know who it is.
async function settled(all, what) {
  const say = () => all.members.map((m) => `${m.url}: ${m.stderr.slice(-1500)}`).join('\n');
  for (const end = Date.now() + 60000; ; await sleep(20)) {
    const healths = await Promise.all(all.members.map((m) => m.health(HEALTH_MS)));
    const owners = all.members.filter((m, i) => healths[i]?.role === 'owner');
    if (owners.length === 1 && healths.every((h) => h?.status === 'ok')) return owners[0];
    assert.ok(Date.now() < end, `never settled ${what}: ${JSON.stringify(healths)}\n${say()}`);
  }
}

it(`${ROUNDS} blows under load`, async (t) => {
  const below = chance(SEED);
  const all = { below, lease: LEASE_MS, members: [] };
  const times = {};
  let load;
  try {
    await start(all);
    load = new Load(all.members, below);
    await until(() => load.handed > 20, 'jobs are handed out');
    const names = order(chance(SEED + 1e6));
    for (let round = 0; round < ROUNDS; round++) {
      const { value: name } = names.next();
      const what = `after "${name}" in round ${round} of seed ${SEED}`;
      const owner = await settled(all, `before "${name}" in round ${round}`);
      await sleep(below(300));
      const blow = performance.now();
      const { since = blow, mend } = await BLOWS[name](all, owner);
      await load.handout(since, `a job is handed out ${what}`);
      const took = performance.now() - since;
      (times[name] ??= []).push(took);
      await mend();
      await settled(all, what);
      await all.pair.inStep();
      const more = load.acknowledged.size + 20;
      await until(() => load.acknowledged.size > more, `jobs are acknowledged ${what}`);
      if (MEASURED)
        console.error(`${round}: ${name}: next job after ${took.toFixed(0)} ms, whole after ${(performance.now() - blow).toFixed(0)} ms`);
    }
    await load.stop();
    const owner = await settled(all, 'at the end');
    const left = new Load(all.members, below, false); // what was taken and not reported comes again
    await until(async () => (await owner.get('/jobs/count?status=ready,in_flight,scheduled')).count === 0, 'all jobs are done');
    await left.stop();
    const events = await verify(load, owner);
    assert.ok(load.acknowledged.size > ROUNDS * 20);
    t.diagnostic(`${load.acknowledged.size} jobs acknowledged, ${load.handed} handed out, ${events.length} events`);
    for (const [name, values] of Object.entries(times))
      t.diagnostic(`${name}: ${values.length} times, next job after p50 ${quantile(values, 0.5).toFixed(0)} ms, ` +
        `p99 ${quantile(values, 0.99).toFixed(0)} ms`);
  } finally {
    load?.abort();
    await stop(all);
  }
});
