// SPDX-License-Identifier: Apache-2.0
// Load on several servers, for tests that hurt them, and what must be true of it in the end: nothing
// that was acknowledged is lost, no run's success is accepted twice, and events have no gap.
'use strict';

const assert = require('node:assert');
const { ask, sleep, until } = require('./servers.js');

const CONSUMERS = 6;
const LIMIT_MS = 1500; // so long clients wait for an answer; then they ask another server
const JOB_LEASE_MS = 3000;

// What clients of any address see: jobs that were acknowledged, handed out, and done.
class Load {
  constructor(members, below, produces = true) {
    this.members = members;
    this.below = below;
    this.on = true;
    this.aborted = false;
    this.acknowledged = new Set();
    this.done = new Map(); // id: the tokens with which its success was accepted
    this.handed = 0; // so many jobs
    this.newest = 0; // when the latest of the requests that got jobs were sent
    this.parts = [...(produces ? [this.produce()] : []), ...Array.from({ length: CONSUMERS }, () => this.consume())];
  }

  async ask(target, body) {
    const { url } = this.members[this.below(this.members.length)];
    const answer = await ask(url, 'POST', target, body, {}, LIMIT_MS).catch(() => null);
    return answer && answer.status < 500 ? answer : null;
  }

  async produce() {
    while (this.on) {
      const answer = await this.ask('/jobs', { queue: 'q', type: 't', payload: null });
      if (answer?.status === 201) this.acknowledged.add(answer.json.id);
      await sleep(answer ? 4 : 20);
    }
  }

  async consume() {
    while (this.on) {
      const asked = performance.now();
      const answer = await this.ask('/jobs/claim', { queues: ['q'], lease_ms: JOB_LEASE_MS, wait_ms: 500 });
      if (answer?.status !== 200 || answer.json.jobs.length === 0) {
        if (answer?.status !== 200) await sleep(20);
        continue;
      }
      const [job] = answer.json.jobs;
      this.handed++;
      this.newest = Math.max(this.newest, asked);
      await sleep(this.below(10));
      await this.report(job);
    }
  }

  // Until there is an answer: a report may be repeated with its token.
  async report(job) {
    while (!this.aborted) {
      const answer = await this.ask(`/jobs/${job.id}/success`, { token: job.token });
      if (answer) {
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

  // Until a request that was sent after that moment has got a job.
  handout(since, what) {
    return until(() => this.newest > since, what);
  }

  // Whatever is under way.
  abort() {
    this.on = false;
    this.aborted = true;
  }

  async stop() {
    this.on = false;
    await Promise.all(this.parts);
  }
}

async function jobsOf(member, status) {
  const ids = new Set();
  for (let page = `/jobs?status=${status}&limit=2000`; page;) {
    const answer = await member.get(page);
    for (const job of answer.jobs) ids.add(job.id);
    page = answer.pages.next;
  }
  return ids;
}

// All is done that was acknowledged, once, and events tell of it without a gap. Returns the events.
async function verify(load, owner) {
  const completed = await jobsOf(owner, 'completed');
  const lost = [];
  for (const id of load.acknowledged)
    if (!completed.has(id)) lost.push((await ask(owner.url, 'GET', `/jobs/${id}`)).text);
  assert.deepStrictEqual(lost, [], 'acknowledged jobs are there, and done');
  for (const [id, tokens] of load.done) assert.ok(tokens.size === 1, `${id} succeeded ${tokens.size} times`);
  const events = (await ask(owner.url, 'GET', '/events?since=0&follow=false')).text.split('\n').filter(Boolean)
    .map((line) => JSON.parse(line)).filter((e) => e.number);
  events.forEach((e, i) => assert.strictEqual(e.number, events[0].number + i, 'events have no gap'));
  const ended = new Map();
  for (const e of events) if (e.event === 'job_completed') ended.set(e.id, (ended.get(e.id) ?? 0) + 1);
  for (const id of load.acknowledged) assert.strictEqual(ended.get(id), 1, `${id} is completed once`);
  return events;
}

module.exports = { Load, verify };
