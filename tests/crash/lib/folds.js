// SPDX-License-Identifier: Apache-2.0
'use strict';

// Batched enqueues. Each brings one item; an acknowledged item is in the payload of the
// job that it was acknowledged for and in no other, and a payload that was handed out stays.

const { list } = require('./list.js');

const QUEUE = 'side-folds';
const KEYS = ['fold a', 'fold b', 'fold c'];
const LEASE = 60000;
const BATCH = {
  when: '($existing.items | length) < 6',
  fold: '{items: ($existing.items + $new.items)}',
};

class Folds {
  constructor({ random, counts, fail }) {
    Object.assign(this, { random, counts, fail });
    this.items = []; // {id: acknowledged for, in: seen in, refused}
    this.jobs = new Map(); // id -> {final: items when it was handed out, over}
    counts.folded = counts.sealed = 0;
  }

  lanes() {
    const enqueue = (conn) => this.enqueue(conn);
    return [enqueue, enqueue, (conn) => this.work(conn)];
  }

  job(id) {
    if (!this.jobs.has(id)) this.jobs.set(id, { final: null, over: false });
    return this.jobs.get(id);
  }

  async enqueue(conn) {
    const n = this.items.push({ id: null, in: null, refused: false }) - 1;
    const item = this.items[n];
    const { status, body } = await conn.post('/jobs', {
      queue: QUEUE, type: 't', payload: { items: [n] },
      batch: { key: this.random.pick(KEYS), ...BATCH }, retention: { completed_ms: 0 },
    });
    if (status !== 200 && status !== 201) {
      item.refused = true;
      if (status < 500) this.fail(`item ${n} answered ${status}: ${JSON.stringify(body)}`);
      if (item.in) this.fail(`item ${n} was refused and is in job ${item.in}`);
      return;
    }
    this.counts[body.folded ? 'folded' : 'sealed']++;
    item.id = body.id;
    const { final } = this.job(body.id);
    if (item.in && item.in !== body.id) this.fail(`item ${n} is in ${item.in}, not in ${body.id}`);
    if (final && !final.includes(n))
      this.fail(`item ${n} was folded into ${body.id}, handed out with ${final}`);
  }

  /** The payload of a job as it was or is; whether it can change no more. */
  see(body, final) {
    const job = this.job(body.id);
    const { items } = body.payload;
    if (new Set(items).size !== items.length) this.fail(`${body.id} has an item twice: ${items}`);
    for (const n of items) {
      const item = this.items[n];
      if (!item || item.refused) this.fail(`item ${n} of job ${body.id} was refused`);
      else if ((item.in || body.id) !== body.id || (item.id || body.id) !== body.id)
        this.fail(`item ${n} is in job ${body.id} and in ${item.in}, acknowledged for ${item.id}`);
      else item.in = body.id;
    }
    if (job.final && String(job.final) !== String(items))
      this.fail(`job ${body.id} was handed out with ${job.final} and has ${items}`);
    for (const [n, item] of this.items.entries())
      if (item.id === body.id && !items.includes(n))
        this.fail(`item ${n} is lost from job ${body.id}: ${items}`);
    if (final) job.final = items;
    return job;
  }

  async work(conn) {
    const claim = { queues: [QUEUE], count: 2, lease_ms: LEASE, wait_ms: 50 };
    const { body } = await conn.post('/jobs/claim', claim);
    for (const given of body.jobs || []) {
      const job = this.see(given, true);
      job.over = true;
      const { status } = await conn.post(`/jobs/${given.id}/success`, { token: given.token });
      if (status !== 204) this.fail(`the success of ${given.id} answered ${status}`);
    }
  }

  async audit(conn) {
    const there = new Set();
    for (const body of await list(conn, QUEUE)) {
      this.see(body, body.status === 'in_flight');
      there.add(body.id);
    }
    for (const [id, job] of this.jobs)
      if (!job.over && !there.has(id)) this.fail(`job ${id} with acknowledged items is lost`);
  }

  async finish(conn) {
    for (let jobs = await list(conn, QUEUE); jobs.length; jobs = await list(conn, QUEUE)) {
      await conn.post('/jobs/claim', { queues: [QUEUE], count: 1000, lease_ms: LEASE });
      for (const body of await list(conn, QUEUE, '&status=in_flight')) {
        this.see(body, true).over = true;
        await conn.request('DELETE', `/jobs/${body.id}`); // by whoever may: its token is lost
      }
    }
    for (const [n, item] of this.items.entries())
      if (item.id && this.job(item.id).final && item.in !== item.id)
        this.fail(`item ${n} was acknowledged for ${item.id} and was never in it`);
  }
}

module.exports = { Folds };
