// SPDX-License-Identifier: Apache-2.0
'use strict';

// Loads beside the main one, each on a queue of its own with what it must find there: unique
// keys, folds, changes by people, cron, tasks of Taskcluster. What was not answered before the server died is in doubt,
// until an audit or a later answer tells.

const { Connection, Lost } = require('./client.js');
const { Keys } = require('./keys.js');
const { Folds } = require('./folds.js');
const { Changes } = require('./changes.js');
const { Crons } = require('./crons.js');
const { Tasks } = require('./tasks.js');

class Side {
  constructor(ledger, random, root) {
    this.counts = {};
    const fail = (text) => ledger.fail(null, text);
    const shared = { random, counts: this.counts, fail, root };
    this.loads = [Keys, Folds, Changes, Crons, Tasks].map((Load) => new Load(shared));
  }

  /** Until the server is gone. */
  async run(load) {
    await Promise.all(this.loads.flatMap((side) => side.lanes()).map((lane) => until(load, lane)));
  }

  /** While nobody is at work. */
  async audit(conn) {
    for (const side of this.loads) await side.audit(conn);
  }

  async finish(conn) {
    for (const side of this.loads) await side.finish(conn);
  }
}

/** Repeats what one lane does, on a connection of its own. */
async function until(load, lane) {
  const conn = new Connection(load.port);
  try {
    while (!load.over) await lane(conn);
  } catch (error) {
    if (!(error instanceof Lost)) throw error;
  }
  conn.close();
}

module.exports = { Side };
