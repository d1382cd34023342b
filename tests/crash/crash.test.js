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
/* A slow machine does less between two kills: it is killed more often, until all has happened. */
const KILLS_MAX = 4 * KILLS;
/* What is only known once all is over. */
const COUNTED_LAST = new Set(['cutOff', 'uploads', 'messagesDeleted']);

const countsOf = ({ ledger, side }) => ({ ...ledger.counts, ...side.counts });
const missing = (harness) => Object.entries(countsOf(harness)).filter(([, n]) => n === 0)
  .map(([what]) => what);

test(`no acknowledged job is lost or done twice over ${KILLS} SIGKILLs`, async (t) => {
  const seed = seedFromEnv();
  const harness = new Harness(seed);
  const began = performance.now();
  t.diagnostic(`SEED=${seed}`);
  try {
    const isDone = () => missing(harness).every((what) => COUNTED_LAST.has(what));
    while (harness.loadKills < KILLS || (!isDone() && harness.loadKills < KILLS_MAX))
      await harness.round();
    await harness.finish();
  } catch (error) {
    /* By which the server is killed, so that something else may have failed first. */
    error.message = harness.ledger.violation ?? error.message;
    error.message = `SEED=${seed}, root directory ${harness.root}\n${error.message}`;
    throw error;
  }
  fs.rmSync(harness.root, { recursive: true });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  t.diagnostic(`${harness.kills} kills, ${harness.loadKills} of them under load, ` +
    `${seconds} s; ${JSON.stringify(countsOf(harness))}`);
  assert.deepStrictEqual(missing(harness), [], 'these never happened');
});
