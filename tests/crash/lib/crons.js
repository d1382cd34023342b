// SPDX-License-Identifier: Apache-2.0
'use strict';

// A cron group that ticks every second. Its jobs are never taken, so that each tick can be
// counted: at most one job for one, and only one job of the entry whose key it holds for ever.

const { list } = require('./list.js');

const QUEUE = 'side-cron';
const GROUP = {
  entries: ['each', 'once'].map((name) => ({
    name,
    expression: '* * * * * *',
    job: {
      queue: QUEUE, type: 't', payload: name,
      ...(name === 'once' ? { unique_key: 'side-cron', unique_while: 'exists' } : {}),
    },
  })),
};

class Crons {
  constructor({ random, counts, fail }) {
    Object.assign(this, { random, counts, fail });
    this.acked = false;
    this.seen = new Set();
    counts.ticks = 0;
  }

  lanes() {
    return [(conn) => this.put(conn)];
  }

  /** The same again and again: nothing about the entries may change. */
  async put(conn) {
    const { status, body } = await conn.request('PUT', '/crons/side', GROUP);
    if (status !== 200) this.fail(`the cron group answered ${status}: ${JSON.stringify(body)}`);
    this.acked = true;
    await new Promise((resolve) => conn.socket.once('close', resolve));
  }

  async audit(conn) {
    const group = await conn.get('/crons/side');
    if (group.status !== 200) {
      if (this.acked) this.fail(`the cron group is lost: ${group.status}`);
      return;
    }
    const jobs = await list(conn, QUEUE);
    const ids = new Set(jobs.map((job) => job.id));
    for (const id of this.seen) if (!ids.has(id)) this.fail(`the job ${id} of a tick is lost`);
    this.seen = ids;
    const ticks = new Set();
    const each = jobs.filter((job) => job.payload === 'each');
    for (const job of each) {
      const second = Math.floor(job.ready_at / 1000);
      if (ticks.has(second)) this.fail(`the tick at ${second} s fired twice`);
      ticks.add(second);
    }
    this.counts.ticks = ticks.size;
    if (jobs.length - each.length > 1) this.fail('the unique entry has more than one job');
    const last = group.body.entries.find((entry) => entry.name === 'each').last_enqueue_at;
    if (last && !each.some((job) => job.ready_at === last))
      this.fail(`the tick of ${last} is written down and has no job`);
  }

  async finish() {}
}

module.exports = { Crons };
