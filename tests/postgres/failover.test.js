// SPDX-License-Identifier: Apache-2.0
// Servers that are killed, frozen, stopped and told to step down at random moments under load, and a
// PostgreSQL that crashes: nothing acknowledged is lost, no run counts twice, and events have no gap.
// FAILOVERS says how many rounds (make test-failover: 200), SEED which ones. It prints how long after
// each blow the next job was handed out.
'use strict';

const assert = require('node:assert');
const { it } = require('node:test');
const { ask, sleep, together, until } = require('./servers.js');

const ROUNDS = Number(process.env.FAILOVERS || 6);
const SEED = Number(process.env.SEED || 1);
const LEASE_MS = 2000;
const CONSUMERS = 4;

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

// What clients of any address see: jobs that were acknowledged, handed out, and done.
class Load {
  constructor(members, below, produces = true) {
    this.members = members;
    this.below = below;
    this.on = true;
    this.acknowledged = new Set();
    this.done = new Map(); // id: the tokens with which its success was accepted
    this.handed = 0; // so many jobs
    this.next = null; // resolves with the next job that is handed out
    this.parts = [...(produces ? [this.produce()] : []), ...Array.from({ length: CONSUMERS }, () => this.consume())];
  }

  any() {
    return this.members[this.below(this.members.length)].url;
  }

  async produce() {
    while (this.on) {
      const answer = await ask(this.any(), 'POST', '/jobs', { queue: 'q', type: 't', payload: null }).catch(() => null);
      if (answer?.status === 201) this.acknowledged.add(answer.json.id);
      await sleep(answer ? 4 : 20);
    }
  }

  async consume() {
    while (this.on) {
      const answer = await ask(this.any(), 'POST', '/jobs/claim',
        { queues: ['q'], lease_ms: 3000, wait_ms: 500 }).catch(() => null);
      if (answer?.status !== 200 || answer.json.jobs.length === 0) {
        if (answer?.status !== 200) await sleep(20);
        continue;
      }
      const [job] = answer.json.jobs;
      this.handed++;
      this.next?.();
      await sleep(this.below(10));
      await this.report(job);
    }
  }

  // Until there is an answer: a report may be repeated with its token.
  async report(job) {
    for (;;) {
      const answer = await ask(this.any(), 'POST', `/jobs/${job.id}/success`, { token: job.token }).catch(() => null);
      if (answer && answer.status < 500) {
        assert.ok([204, 404, 409].includes(answer.status), answer.text);
        if (answer.status === 204) {
          const tokens = this.done.get(job.id) ?? new Set();
          this.done.set(job.id, tokens.add(job.token));
        }
        return;
      }
      await sleep(20);
    }
  }

  handout() {
    return new Promise((done) => { this.next = done; });
  }

  async stop() {
    this.on = false;
    await Promise.all(this.parts);
  }
}

async function findOwner(members) {
  return until(async () => {
    for (const m of members) {
      const health = await m.health();
      if (health?.role === 'owner' && health.status === 'ok') return m;
    }
    return null;
  }, 'there is an owner');
}

const BLOWS = {
  async kill(owner) {
    await owner.kill();
    return () => owner.start();
  },
  async freeze(owner) {
    owner.child.kill('SIGSTOP');
    return async () => { owner.child.kill('SIGCONT'); };
  },
  async stop(owner) {
    await owner.kill('SIGTERM');
    return () => owner.start();
  },
  async stepDown(owner) {
    await ask(owner.url, 'POST', '/servers/step-down').catch(() => null);
    return async () => {};
  },
  async postgres(owner, all, below) {
    await all.postgres.end();
    await sleep(below(2) * 2 * LEASE_MS);
    await all.postgres.again();
    return async () => {};
  },
};

async function jobsOf(member, status) {
  const ids = new Set();
  for (let page = `/jobs?status=${status}&limit=2000`; page;) {
    const answer = await member.get(page);
    for (const job of answer.jobs) ids.add(job.id);
    page = answer.pages.next;
  }
  return ids;
}

it(`${ROUNDS} blows under load`, async (t) => {
  const below = chance(SEED);
  const all = await together(3, { args: ['--lease', `${LEASE_MS}ms`, '--default-completed-job-retention', '7d'], fsync: true });
  const times = {};
  const load = new Load(all.members, below);
  try {
    await until(() => load.handed > 20, 'jobs are handed out');
    for (let round = 0; round < ROUNDS; round++) {
      const owner = await findOwner(all.members);
      await sleep(below(500));
      const names = Object.keys(BLOWS);
      const name = names[below(names.length)];
      const before = performance.now();
      const mend = await BLOWS[name](owner, all, below);
      const handed = load.handed;
      await Promise.race([load.handout(), until(() => load.handed > handed, `a job is handed out after ${name} in round ${round}`)]);
      (times[name] ??= []).push(performance.now() - before);
      await mend();
      const more = load.acknowledged.size + 20;
      await until(() => load.acknowledged.size > more, `jobs are acknowledged after ${name} in round ${round}`);
    }
    await load.stop();
    const owner = await findOwner(all.members);
    const left = new Load(all.members, below, false); // what was taken and not reported comes again
    await until(async () => (await owner.get('/jobs/count?status=ready,in_flight,scheduled')).count === 0, 'all jobs are done');
    await left.stop();
    const completed = await jobsOf(owner, 'completed');
    const lost = [...load.acknowledged].filter((id) => !completed.has(id));
    assert.deepStrictEqual(lost, [], 'acknowledged jobs are there, and done');
    for (const [id, tokens] of load.done) assert.ok(tokens.size === 1, `${id} succeeded ${tokens.size} times`);
    const events = (await ask(owner.url, 'GET', '/events?since=0&follow=false')).text.split('\n').filter(Boolean)
      .map((line) => JSON.parse(line)).filter((e) => e.number);
    events.forEach((e, i) => assert.strictEqual(e.number, events[0].number + i, 'events have no gap'));
    const ended = new Map();
    for (const e of events) if (e.event === 'job_completed') ended.set(e.id, (ended.get(e.id) ?? 0) + 1);
    for (const id of load.acknowledged) assert.strictEqual(ended.get(id), 1, `${id} is completed once`);
    assert.ok(load.acknowledged.size > ROUNDS * 20);
    t.diagnostic(`${load.acknowledged.size} jobs acknowledged, ${load.handed} handed out, ${events.length} events`);
    for (const [name, values] of Object.entries(times))
      t.diagnostic(`${name}: ${values.length} times, next job after p50 ${quantile(values, 0.5).toFixed(0)} ms, ` +
        `p99 ${quantile(values, 0.99).toFixed(0)} ms`);
  } finally {
    load.on = false;
    await all.stop();
  }
});
