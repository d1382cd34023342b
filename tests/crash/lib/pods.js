// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server, an executor and a cluster, the first two of which may die at any moment, and the ledger
// of what the cluster has seen: each job ends once and as its pods did, each run has one pod, no
// two pods of a job live at the same time, none is left, and no crash uses up an attempt.

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { startDouble } = require('../../kubernetes/double');
const { Connection } = require('./client.js');
const { Gate } = require('./gate.js');
const { PowerCut } = require('./powercut.js');
const { BIN, Server } = require('./server.js');

const DEADLINE_MS = 180000;
const POLL_MS = 5;
const RETENTION_MS = 3600000;

const executors = new Set();
process.on('exit', () => {
  for (const child of executors) child.kill('SIGKILL');
});

const SOON = { base_ms: 1, exponent: 0, jitter_ms: 0 }; // a second
const AGAIN = { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'again' },
  spec: { retryLimit: 3, defaultAction: 'Retry', backoff: { initialDelay: '0s' } } };

/* What jobs are made of. first: what the first pod does, where it is not what all do. */
const KINDS = {
  good: { all: ['running', { do: 'succeeded', after: 30 }], ends: 'completed',
    outcomes: ['completed'] },
  retried: { first: ['running', { do: 'exited', code: 1, after: 10 }],
    all: ['running', 'succeeded'], ends: 'completed', outcomes: ['failed', 'completed'] },
  dead: { all: ['running', { do: 'log', text: 'the disk is full\n' }, { do: 'exited', code: 3 }],
    retry_limit: 0, ends: 'dead', outcomes: ['failed'] },
  doomed: { all: { steps: ['scheduled', { do: 'waiting', reason: 'ErrImagePull' }],
    onDelete: { after: 20 } }, retry_limit: 0, ends: 'dead', outcomes: ['failed'] },
  preempted: { first: { steps: ['running', { do: 'preempted', after: 10 }],
    onDelete: { never: true } }, all: ['running', 'succeeded'], ends: 'completed',
  outcomes: ['failed', 'completed'], meanwhile: 'end' },
  canceled: { all: { steps: ['running', 'pause'], onDelete: { after: 30 } }, meanwhile: 'cancel',
    ends: 'dead', outcomes: ['canceled'] },
};

const isAlive = (pod) => !['Succeeded', 'Failed'].includes(pod.status.phase);
const label = (pod, name) => pod.metadata.labels[`tenax.dev/${name}`];

/** What the cluster has seen, from its store: nothing is missed. */
class PodLedger {
  constructor() {
    this.byJob = new Map(); // id -> Map of uid -> {run, alive}
    this.violations = [];
  }

  changed({ type, after, table }) {
    if (table.resource.resource !== 'pods') return;
    const pod = after.object;
    const job = label(pod, 'job');
    if (!this.byJob.has(job)) this.byJob.set(job, new Map());
    const pods = this.byJob.get(job);
    if (type === 'ADDED') this.added(job, pods, label(pod, 'run'));
    pods.set(pod.metadata.uid, { name: pod.metadata.name, run: label(pod, 'run'), there: type !== 'DELETED',
      alive: type !== 'DELETED' && isAlive(pod) });
  }

  added(job, pods, run) {
    for (const other of pods.values()) {
      if (other.alive) this.violations.push(`job ${job}: run ${run} has a pod while that of run ` +
        `${other.run} lives`);
      if (other.run === run) this.violations.push(`job ${job}: run ${run} has a second pod`);
    }
  }

  pods(job) {
    return [...(this.byJob.get(job) || new Map()).values()];
  }

  check() {
    assert.deepStrictEqual(this.violations, []);
  }
}

class Pods {
  /** policies: whether retry policies are enabled; the pods of retries have names of their own then. */
  constructor(random, policies) {
    this.random = random;
    this.policies = policies;
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-pods-'));
    this.ledger = new PodLedger();
    this.kills = { executor: 0, server: 0 };
    this.trap = null;
    this.seen = 0; // moments that could have been a crash
    this.number = this.rounds = 0;
    this.cuts = 0;
    this.stopped = false;
    this.stderr = '';
    this.last = 'nobody has died yet';
  }

  async start() {
    this.gates = { server: new Gate((...what) => this.moment(...what)),
      cluster: new Gate((...what) => this.moment(...what)) };
    await this.gates.server.listen();
    await this.gates.cluster.listen();
    this.double = await startDouble({ namespaces: ['jobs'], history: 200000 });
    this.double.cluster.store.listeners.add((change) => this.ledger.changed(change));
    const { hostname, port } = new URL(this.double.url);
    this.gates.cluster.target = { host: hostname, port: Number(port) };
    this.kubeconfig = this.double.kubeconfig({ namespace: 'jobs',
      cluster: { server: this.gates.cluster.url } });
    await this.startServer();
    await this.ask('PUT', '/retry-policies/again', AGAIN);
    await this.ask('PUT', '/settings/retry', { enabled: this.policies });
    this.startExecutor();
  }

  async startServer() {
    this.server = new Server(path.join(this.dir, 'root'));
    this.port = await this.server.listening();
    this.gates.server.target = { host: '127.0.0.1', port: this.port };
  }

  startExecutor() {
    const child = spawn(BIN, ['executor', '--server', this.gates.server.url, '--queue', 'pods',
      '--kubeconfig', this.kubeconfig, '--max-pods', '16', '--keep-finished', '50ms',
      '--keep-failed', '50ms', '--name', 'crashing', '--state-dir', this.stateDir()],
    { cwd: this.dir, env: { PATH: process.env.PATH, HOME: this.dir, ...this.shim() },
      stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    executors.add(child);
    child.stderr.on('data', (text) => (this.stderr = stderr = (stderr + text).slice(-8000)));
    this.executor = { child, exited: new Promise((resolve) => child.on('close', (code, signal) => {
      executors.delete(child);
      resolve({ code, signal, stderr });
    })) };
  }

  stateDir() {
    return path.join(this.dir, 'state');
  }

  /* What an executor is told whose journal may lose its power. */
  shim() {
    const env = this.power ? this.power.env(this.killAt) : {};
    this.killAt = 0;
    return env;
  }

  /* --- crashes --- */

  /** From now on, the n-th time that something comes to the moment, the victims die. */
  arm(victims, moment, n) {
    this.trap = { victims, moment, left: n };
    this.sprung = new Promise((resolve) => (this.trap.spring = resolve));
  }

  /** The executor is started anew, and dies at its n-th sync; the power may be off then, too. */
  async dieAtSync(n, cut) {
    this.power ||= new PowerCut(this.stateDir());
    this.kill('executor');
    await this.died('executor');
    this.killAt = n;
    this.last = `the executor dies at its sync ${n}${cut ? ', and the power is off' : ''}`;
    this.startExecutor();
    const { executor } = this;
    this.revival = executor.exited.then(async () => {
      if (executor.spared) return;
      this.kills.executor++;
      if (cut) this.power.cut();
      this.cuts += cut;
      await this.revive(['executor']);
    });
    this.revival.catch(() => {}); // the round awaits it
  }

  /** It has not come so far; whether that is so. */
  spare() {
    this.executor.spared = true;
    return this.executor.child.signalCode === null;
  }

  disarm() {
    const was = this.trap;
    this.trap = null;
    return Boolean(was);
  }

  moment(moment, name) {
    this.seen++;
    const { trap } = this;
    if (!trap || trap.moment !== moment || --trap.left > 0) return;
    this.trap = null;
    this.last = `${trap.victims} die when "${name}" is ${moment}`;
    for (const victim of trap.victims) this.kill(victim);
    trap.spring();
    this.revival = this.revive(trap.victims);
    this.revival.catch(() => {}); // the round awaits it
  }

  /** The victims die now, and come back. */
  async die(victims) {
    this.last = `${victims} die at any moment`;
    for (const victim of victims) this.kill(victim);
    await this.revive(victims);
  }

  kill(victim) {
    if (victim === 'server') this.gates.server.target = null;
    this[victim].child.kill('SIGKILL');
    this.kills[victim]++;
  }

  async died(victim) {
    const { signal, code, stderr } = await this[victim].exited;
    assert.strictEqual(signal, 'SIGKILL', `the ${victim} ended by itself (${code}): ` +
      `${stderr || this[victim].stderr}`);
    if (victim === 'executor') for (const gate of Object.values(this.gates)) gate.hangUp();
  }

  async revive(victims) {
    const order = this.random.chance(0.5) ? victims : [...victims].reverse();
    for (const victim of order) await this.died(victim);
    for (const victim of order) {
      await delay(this.random.range(0, 30));
      if (victim === 'server') await this.startServer();
      else this.startExecutor();
    }
  }

  /* --- jobs --- */

  async until(what, ask) {
    const end = Date.now() + DEADLINE_MS;
    while (!this.stopped) {
      const answer = await ask();
      if (answer) return answer;
      assert.ok(Date.now() < end, `it never came true that ${typeof what === 'string' ? what : what()}`);
      await delay(POLL_MS);
    }
    throw new Error('stopped');
  }

  /* Again until the server answers: what is asked must be the same if it is asked twice. */
  async ask(method, target, body) {
    while (!this.stopped) {
      const conn = new Connection(this.port);
      try {
        const reply = await conn.request(method, target, body);
        if (reply.status < 500) return reply;
      } catch {
        await delay(POLL_MS); // the server is dead, or not up yet
      } finally {
        conn.close();
      }
    }
    throw new Error('stopped');
  }

  /** One job of each kind: [{id, kind}]. Their unique keys make a repetition find those that the
   * server had enqueued before it died: twins would share the script of the first pod. */
  async enqueue() {
    const jobs = [];
    for (const [name, kind] of Object.entries(KINDS)) {
      const key = `k${++this.number}`;
      this.double.script(kind.all, { match: { labels: { key } } });
      if (kind.first) {
        const rules = this.double.cluster.kubelet.rules;
        this.double.script(kind.first, { match: { labels: { key } }, times: 1 });
        rules.splice(-2, 0, rules.pop());
      }
      jobs.push({ queue: 'pods', type: name, unique_key: key, unique_while: 'exists', retry_limit: kind.retry_limit ?? 3, backoff: SOON,
        retry_policies: kind.first ? ['again'] : [],
        retention: { completed_ms: RETENTION_MS, dead_ms: RETENTION_MS },
        payload: { labels: { key }, podSpec: { terminationGracePeriodSeconds: 1,
          containers: [{ name: 'main', image: 'registry.example/work:1' }] } } });
    }
    const { status, body } = await this.ask('POST', '/jobs/bulk', { jobs });
    assert.ok(status === 201 || status === 200, JSON.stringify(body));
    return body.jobs.map(({ id }, i) => ({ id, name: jobs[i].type, kind: KINDS[jobs[i].type] }));
  }

  async cancel({ id }) {
    await this.until(`a pod of ${id} runs`, () => this.ledger.pods(id).some((pod) => pod.alive));
    /* If it was done, and the answer lost, it is refused the next time. */
    const { status, body } = await this.ask('POST', `/jobs/${id}/cancel`);
    assert.ok(status === 200 || status === 422, JSON.stringify(body));
  }

  /** The node of a preempted pod confirms its end once the server knows of the preemption: what
   * went while no executor was there that knew of it would have to be run again. */
  async end({ id }) {
    const [first] = await this.until(`${id} is preempted`, async () => {
      const { body } = await this.ask('GET', `/jobs/${id}/runs`);
      return body.runs.some((run) => run.outcome === 'failed') && this.ledger.pods(id);
    });
    await this.double.phase('jobs', first.name, 'deleted', { grace: 0, force: true });
  }

  async ended({ id, kind }) {
    const words = () => `job ${id} is ${kind.ends}; ${this.last}; the executor says:\n${this.stderr}`;
    return this.until(words, async () => {
      const { body } = await this.ask('GET', `/jobs/${id}`);
      this.ledger.check();
      return ['completed', 'dead'].includes(body.status) && body;
    });
  }

  async check(job) {
    const { id, name, kind } = job;
    const { status, attempts } = await this.ended(job);
    const why = `${name} ${id}; ${this.last}`;
    assert.strictEqual(status, kind.ends, why);
    const { body } = await this.ask('GET', `/jobs/${id}/runs`);
    const outcomes = body.runs.map((run) => run.outcome);
    /* The server takes back what it hands to an executor that has just died. */
    assert.deepStrictEqual(outcomes.filter((word) => word !== 'returned'), kind.outcomes, why);
    assert.strictEqual(attempts, kind.outcomes.filter((word) => word === 'failed').length, why);
    await this.until(() => `no pod of ${why} is left; the executor says:\n${this.stderr}`,
      () => this.ledger.pods(id).every((pod) => !pod.there));
    assert.strictEqual(this.ledger.pods(id).length, kind.outcomes.length, `pods of ${why}`);
  }

  /** Jobs of all kinds, from their beginning to their end. */
  async round() {
    const jobs = await this.enqueue();
    await Promise.all(jobs.map(async (job) => {
      if (job.kind.meanwhile) await this[job.kind.meanwhile](job);
      await this.check(job);
    }));
    this.ledger.check();
    this.rounds++;
  }

  /* Rounds that are under way end with an error. */
  async stop(signal) {
    this.stopped = true;
    this.trap = null;
    for (;;) {
      const { revival } = this;
      for (const one of [this.executor, this.server].filter(Boolean)) {
        one.spared = true;
        one.child.kill(signal);
        await one.exited;
      }
      if (!revival) break;
      await revival.catch(() => {}); // it may have started one of them
      if (this.revival === revival) this.revival = null;
    }
    await this.double.stop();
    await this.gates.server.close();
    await this.gates.cluster.close();
  }

  remove() {
    fs.rmSync(this.dir, { recursive: true });
  }
}

module.exports = { Pods };
