// SPDX-License-Identifier: Apache-2.0
'use strict';

// Unique keys: one job at a time holds one, as long as it has not ended. No key stays locked
// after its job, whatever crashes in between.

const { list } = require('./list.js');

const QUEUE = 'side-keys';
const KEYS = Array.from({ length: 12 }, (_, i) => `key ${i}`);
/* Longer than a run of the harness mostly lasts: what a crash cut off stays held. */
const LEASE = 60000;

class Keys {
  constructor({ random, counts, fail }) {
    Object.assign(this, { random, counts, fail });
    this.jobs = new Map(); // id -> {key, over: 'no' | 'doubt' | 'yes'}
    this.doubts = new Map(KEYS.map((key) => [key, 0])); // enqueues without an answer
    counts.duplicate = counts.freed = 0;
  }

  lanes() {
    const enqueue = (conn) => this.enqueue(conn, this.random.pick(KEYS));
    return [enqueue, enqueue, (conn) => this.work(conn)];
  }

  async enqueue(conn, key) {
    const over = [...this.jobs].filter(([, job]) => job.over === 'yes').map(([id]) => id);
    const holder = [...this.jobs].find(([, job]) => job.key === key && job.over === 'no');
    this.doubts.set(key, this.doubts.get(key) + 1);
    const { status, body } = await conn.post('/jobs', {
      queue: QUEUE, type: 't', payload: null, unique_key: key, unique_while: 'active',
      retention: { completed_ms: this.random.pick([0, 3600000]) },
    });
    this.doubts.set(key, this.doubts.get(key) - 1);
    if (status === 200) this.duplicate(key, body, over);
    else if (status === 201) this.added(key, body, holder);
    else this.fail(`key ${key}: enqueue answered ${status}: ${JSON.stringify(body)}`);
    return { status, body };
  }

  duplicate(key, body, over) {
    this.counts.duplicate++;
    if (!body.duplicate || body.unique_key !== key)
      this.fail(`${key}: kept out by ${JSON.stringify(body)}`);
    if (over.includes(body.id)) this.fail(`${key} is locked by job ${body.id}, which is over`);
    if (!this.jobs.has(body.id)) this.jobs.set(body.id, { key, over: 'no' });
  }

  added(key, body, holder) {
    if (holder && this.jobs.get(holder[0]).over === 'no' && holder[0] !== body.id)
      this.fail(`${key} was given to ${body.id} while job ${holder[0]} has it`);
    if (!this.jobs.has(body.id)) this.jobs.set(body.id, { key, over: 'no' });
  }

  async work(conn) {
    const claim = { queues: [QUEUE], count: 3, lease_ms: LEASE, wait_ms: 50 };
    const { body } = await conn.post('/jobs/claim', claim);
    for (const job of body.jobs || []) {
      const known = this.jobs.get(job.id) || { key: job.unique_key, over: 'no' };
      this.jobs.set(job.id, known);
      if (known.over === 'yes') this.fail(`job ${job.id} was handed out after its end`);
      known.over = 'doubt';
      const success = this.random.chance(0.7);
      const { status } = success
        ? await conn.post(`/jobs/${job.id}/success`, { token: job.token })
        : await conn.post(`/jobs/${job.id}/failure`,
          { token: job.token, message: 'no', kill: true });
      if (status !== 204 && status !== 200) this.fail(`the report on ${job.id} answered ${status}`);
      known.over = 'yes';
      this.counts.freed++;
    }
  }

  async audit(conn) {
    const live = await list(conn, QUEUE, '&status=blocked,scheduled,ready,in_flight');
    const holders = new Map();
    for (const job of live) {
      const known = this.jobs.get(job.id);
      if (known && known.over === 'yes') this.fail(`job ${job.id} is ${job.status} again`);
      if (holders.has(job.unique_key)) this.fail(`two jobs have ${job.unique_key}`);
      holders.set(job.unique_key, job.id);
      this.jobs.set(job.id, { key: job.unique_key, over: 'no' });
    }
    const there = new Set(holders.values());
    for (const [id, job] of this.jobs) {
      if (there.has(id)) continue;
      if (job.over === 'no') this.fail(`job ${id} is lost, or over though nobody ended it`);
      job.over = 'yes';
    }
    for (const key of KEYS) {
      this.doubts.set(key, 0);
      await this.probe(conn, key, holders.get(key));
    }
  }

  /** A key is taken if and only if a job that has it is there. */
  async probe(conn, key, holder) {
    const { status, body } = await this.enqueue(conn, key);
    if (status === 200 && !holder) this.fail(`${key} is locked by nobody: ${body.id}`);
    if (status === 200 && holder && body.id !== holder)
      this.fail(`${key} is locked by ${body.id}, not by ${holder}`);
    if (status === 201 && holder) this.fail(`${key} was free, though ${holder} has it`);
  }

  async finish() {}
}

module.exports = { Keys };
