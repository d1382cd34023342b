// SPDX-License-Identifier: Apache-2.0
'use strict';

// Patches, cancels and retries of jobs that wait for an hour. Of each job every state is known
// that it may be in: an answer, or an audit, leaves one; a request without an answer adds one.

const { list } = require('./list.js');

const QUEUE = 'side-changes';
const JOBS = 24;

const OPERATIONS = {
  patched: {
    send: (conn, id, priority) => conn.request('PATCH', `/jobs/${id}`, { priority }),
    next: (state, priority) => (state.status === 'dead' ? null : { ...state, priority }),
  },
  canceled: {
    send: (conn, id) => conn.post(`/jobs/${id}/cancel`, {}),
    next: (state) => (state.status === 'dead' ? null : { ...state, status: 'dead' }),
  },
  retried: {
    send: (conn, id) => conn.post(`/jobs/${id}/retry`, {}),
    next: (state) => (state.status === 'dead' ? { ...state, status: 'ready' } : null),
  },
};

const same = (a, b) => a.status === b.status && a.priority === b.priority;
const stateOf = ({ status, priority }) => ({ status, priority });

class Changes {
  constructor({ random, counts, fail }) {
    Object.assign(this, { random, counts, fail });
    this.jobs = []; // {id, possible, busy}
    for (const name of Object.keys(OPERATIONS)) counts[name] = 0;
    counts.unchangeable = 0;
  }

  lanes() {
    const lane = (conn) => (this.jobs.length < JOBS ? this.enqueue(conn) : this.change(conn));
    return [lane, lane];
  }

  async enqueue(conn) {
    const { status, body } = await conn.post('/jobs', {
      queue: QUEUE, type: 't', payload: null, priority: 1, ready_at: Date.now() + 3600000,
    });
    if (status !== 201) this.fail(`enqueue answered ${status}`);
    this.jobs.push({ id: body.id, possible: [stateOf(body)], busy: false });
  }

  async change(conn) {
    const idle = this.jobs.filter((job) => !job.busy);
    const job = this.random.pick(idle);
    const name = this.random.pick(Object.keys(OPERATIONS));
    const priority = this.random.range(0, 1000);
    const { send, next } = OPERATIONS[name];
    const before = job.possible;
    const after = before.map((state) => next(state, priority)).filter(Boolean);
    job.possible = [...before, ...after];
    job.busy = true;
    try {
      const { status, body } = await send(conn, job.id, priority);
      job.possible = this.judge({ job, name, before, after, next, status, body });
    } finally {
      job.busy = false;
    }
  }

  judge({ job, name, before, after, next, status, body }) {
    if (status === 200) {
      this.counts[name]++;
      const now = stateOf(body);
      if (!after.some((state) => same(state, now)))
        this.fail(`job ${job.id}, ${name}, is ${JSON.stringify(now)}; it was one of ` +
          JSON.stringify(before));
      return [now];
    }
    const refused = before.filter((state) => next(state, 0) === null);
    this.counts.unchangeable++;
    if (status !== 422 || refused.length === 0)
      this.fail(`job ${job.id}, ${name}: answered ${status}; it was ${JSON.stringify(before)}`);
    return refused;
  }

  async audit(conn) {
    const there = new Map((await list(conn, QUEUE)).map((body) => [body.id, stateOf(body)]));
    for (const job of this.jobs) {
      const now = there.get(job.id);
      if (!now) this.fail(`job ${job.id} is LOST`);
      else if (!job.possible.some((state) => same(state, now)))
        this.fail(`job ${job.id} is ${JSON.stringify(now)}; it can only be one of ` +
          JSON.stringify(job.possible));
      else job.possible = [now];
    }
  }

  async finish() {}
}

module.exports = { Changes };
