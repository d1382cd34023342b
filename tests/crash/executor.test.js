// SPDX-License-Identifier: Apache-2.0
'use strict';

// Executor and server die by SIGKILL at every step of jobs that become pods: at each request of the
// executor to the server or the cluster, before it has had its effect, before its answer, after it.
// Likewise at every sync of the executor's journal, where the power may fail, too; and at any moment of
// many jobs at once.
// SEED=n repeats the choices of a run; MOMENTS=all takes every moment of every request, not one by
// chance.

const { test } = require('node:test');
const assert = require('node:assert');
const { setTimeout: delay } = require('node:timers/promises');

const { MOMENTS } = require('./lib/gate.js');
const { Pods } = require('./lib/pods.js');
const { Random, seedFromEnv } = require('./lib/random.js');

/* Without policies the pod of a retry has the name of the one before, which has to go first. */
const DEATHS = [[true, 'executor'], [true, 'server'], [true, 'executor', 'server'],
  [false, 'executor']];
const KILLS = Number(process.env.KILLS || 60);
const ROUNDS_AT_ONCE = 6;
/* More than the requests of a round, also one that a crash makes longer. */
const STEPS_MAX = 250;

async function run(t, policies, body) {
  const seed = seedFromEnv();
  const pods = new Pods(new Random(seed), policies);
  t.diagnostic(`SEED=${seed}`);
  try {
    await pods.start();
    await pods.round(); // all is well without crashes
    await body(pods);
    await pods.round();
    await pods.stop('SIGTERM');
    pods.remove();
  } catch (error) {
    error.message = `SEED=${seed}, ${pods.dir}; ${pods.last}\n${error.message}`;
    await pods.stop('SIGKILL');
    throw error;
  }
  t.diagnostic(`${pods.kills.executor} executors and ${pods.kills.server} servers killed`);
}

/* Kills at the n-th request of a round for every n that there is. Returns the number of rounds. */
async function everyStep(pods, victims, moment) {
  for (let n = 1; n < STEPS_MAX; n++) {
    pods.arm(victims, moment(), n);
    await pods.round();
    if (pods.disarm()) return n;
    await pods.revival;
  }
  throw new Error(`a round has more than ${STEPS_MAX} requests`);
}

for (const [policies, ...victims] of DEATHS)
  test(`no pod twice and no job lost if ${victims.join(' and ')} die at any step, ` +
    `policies ${policies ? 'on' : 'off'}`, (t) =>
    run(t, policies, async (pods) => {
      const plans = process.env.MOMENTS === 'all' ? MOMENTS.map((one) => () => one)
        : [() => pods.random.pick(MOMENTS)];
      for (const moment of plans) {
        const rounds = await everyStep(pods, victims, moment);
        t.diagnostic(`${rounds} rounds`);
        assert.ok(rounds > 30, 'a round has more requests than that');
      }
    }));

/* No sync is asked for in vain: what an executor relies on it finds after a power cut. */
for (const cut of [false, true])
  test(`no pod twice and no job lost if the executor dies at any sync${cut ? ' for want of power' : ''}`,
    (t) => run(t, true, async (pods) => {
      for (let n = 1; ; n++) {
        assert.ok(n < STEPS_MAX, 'a round asks for more syncs than that');
        const { executor } = pods.kills;
        await pods.dieAtSync(n, cut);
        await pods.round();
        if (pods.kills.executor === executor + 1 && pods.spare()) {
          t.diagnostic(`${n - 1} syncs, ${pods.cuts} power cuts`);
          assert.ok(n > 8, 'a round asks for more syncs than that');
          await pods.die(['executor']); // the next one does not count
          return;
        }
        await pods.revival;
      }
    }));

test(`no pod twice and no job lost over ${KILLS} SIGKILLs under load`, (t) =>
  run(t, true, async (pods) => {
    const { random } = pods;
    let over = false;
    const load = Array.from({ length: ROUNDS_AT_ONCE }, async () => {
      while (!over) await pods.round();
    });
    const all = Promise.all(load);
    all.catch(() => { over = true; });
    for (let i = 0; i < KILLS && !over; i++) {
      await delay(random.range(10, 300));
      await pods.die(random.pick(DEATHS).slice(1));
    }
    over = true;
    await all;
    t.diagnostic(`${pods.rounds} rounds`);
  }));
