// SPDX-License-Identifier: Apache-2.0
'use strict';

// Kills the server again and again while many clients work, and compares what it still
// knows with what it acknowledged (promises I1 to I4). SEED=n repeats the choices of a
// run, KILLS=n says how often to kill under load; kills during start-up come on top.

const { test } = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');

const { Harness } = require('./lib/harness.js');
const { seedFromEnv } = require('./lib/random.js');

const KILLS = Number(process.env.KILLS || 52);

test(`no acknowledged job is lost or done twice over ${KILLS} SIGKILLs`, async (t) => {
  const seed = seedFromEnv();
  const harness = new Harness(seed);
  const { ledger } = harness;
  const began = performance.now();
  t.diagnostic(`SEED=${seed}`);
  try {
    while (harness.loadKills < KILLS) await harness.round();
    await harness.finish();
  } catch (error) {
    error.message = `SEED=${seed}, root directory ${harness.root}\n${error.message}`;
    throw error;
  }
  fs.rmSync(harness.root, { recursive: true });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const counts = { ...ledger.counts, ...harness.side.counts };
  t.diagnostic(`${harness.kills} kills, ${harness.loadKills} of them under load, ` +
    `${seconds} s; ${JSON.stringify(counts)}`);
  for (const [what, n] of Object.entries(counts)) assert.ok(n > 0, `${what} never happened`);
});
