// SPDX-License-Identifier: Apache-2.0
'use strict';

// Clients of Taskcluster's API: schedulers that create, cancel and rerun tasks, workers that claim
// them by claimWork or by the messages of poll URLs, reclaim, upload artifacts, report, or forget
// about it.

const { setTimeout: delay } = require('node:timers/promises');

const { Lost } = require('./client.js');
const { Artifacts } = require('./task_artifacts.js');
const { EXCEPTIONS, TaskLedger, ms } = require('./task_ledger.js');
const { Polls } = require('./task_polls.js');

const API = '/api/queue/v1';
const QUEUE = 'side/work';
const POLLED = 'side/polled';
const OPEN_MAX = 40; // tasks of a queue that have not ended; then schedulers wait
const HOUR = 3600000;
const PATIENCE = 120000; // ends what hangs; nothing that works comes near it
const SAMPLE = 40; // of tasks that ended long ago

const encode = encodeURIComponent;
const at = (time) => new Date(time).toJSON();

class Tasks {
  constructor({ random, counts, fail: note, root }) {
    const fail = (text) => {
      note(text);
      throw new Lost(text); // as the server is: there is nothing more to learn from it
    };
    Object.assign(this, { random, counts, fail, workers: 0 });
    this.ledger = new TaskLedger(fail);
    this.artifacts = new Artifacts({ random, counts, fail, root, encode });
    this.polls = new Polls({ random, counts, fail, ledger: this.ledger, queue: POLLED,
      work: (...args) => this.claimTask(...args) });
    for (const name of ['tasks', 'claims', 'reclaims', 'resolved', 'claimsExpired', 'deadlines',
      'tasksCanceled', 'tasksRerun']) counts[name] = 0;
  }

  lanes() {
    const worker = () => `w${++this.workers}`;
    const poller = worker();
    const create = (queue) => (conn) => this.create(conn, queue);
    const work = () => {
      const name = worker();
      return (conn) => this.claimWork(conn, name);
    };
    return [create(QUEUE), create(POLLED), work(), work(),
      (conn) => this.polls.step(conn, poller), (conn) => this.change(conn)];
  }

  // --- schedulers ---

  slugid() {
    const bytes = Buffer.from(Array.from({ length: 16 }, () => this.random.range(0, 255)));
    bytes[0] &= 0x7f;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return bytes.toString('base64url');
  }

  definition(queue) {
    const { random } = this;
    const now = Date.now();
    const others = this.ledger.open(queue).filter((task) => task.created);
    const waits = others.length && random.chance(0.15);
    return {
      taskQueueId: queue, schedulerId: 'crash', retries: random.range(0, 3),
      priority: random.pick(['high', 'lowest']), created: at(now),
      deadline: at(now + (random.chance(0.1) ? random.range(1000, 4000) : HOUR)),
      expires: at(now + 2 * HOUR), dependencies: waits ? [random.pick(others).id] : [],
      payload: { n: this.ledger.tasks.size },
      metadata: { name: 'n', description: 'd', owner: 'nobody@example.com',
        source: 'https://example.com/source' },
    };
  }

  async create(conn, queue) {
    if (this.ledger.open(queue).length >= OPEN_MAX) {
      await delay(5);
      return;
    }
    const definition = this.definition(queue);
    const task = this.ledger.add(this.slugid(), queue, definition);
    const { status, body } = await conn.request('PUT', `${API}/task/${task.id}`, definition);
    if (status === 400 && Date.now() >= task.deadline) { // it came too late
      this.ledger.tasks.delete(task.id);
      return;
    }
    if (status !== 200) this.fail(`createTask answered ${status}: ${JSON.stringify(body)}`);
    this.counts.tasks++;
    this.ledger.see(task, body.status);
  }

  /** Now and then somebody cancels a task, or wants one once more. */
  async change(conn) {
    await delay(this.random.range(5, 30));
    const all = [...this.ledger.tasks.values()].filter((task) => task.created);
    const rerun = this.random.chance(0.5);
    const task = this.random.pick(all.filter((t) => Boolean(t.ended) === rerun));
    if (!task || Date.now() > task.deadline - 1000) return;
    if (rerun) task.ended = null;
    task[rerun ? 'rerunAsked' : 'cancelAsked'] = true;
    const method = rerun ? 'rerun' : 'cancel';
    const { status, body } = await conn.post(`${API}/task/${task.id}/${method}`);
    if (status === 409 && Date.now() >= task.deadline) return;
    if (status !== 200) this.fail(`${method} answered ${status}: ${JSON.stringify(body)}`);
    this.counts[rerun ? 'tasksRerun' : 'tasksCanceled']++;
    this.ledger.see(task, body.status);
  }

  // --- workers ---

  async claimWork(conn, workerId) {
    const { status, body } = await conn.post(`${API}/claim-work/${encode(QUEUE)}`,
      { workerGroup: 'crash', workerId, tasks: this.random.range(1, 4) });
    if (status !== 200) this.fail(`claimWork answered ${status}: ${JSON.stringify(body)}`);
    for (const claim of body.tasks) {
      const task = this.ledger.tasks.get(claim.status.taskId);
      if (!task) this.fail(`claimWork gave an unknown task: ${claim.status.taskId}`);
      if (task.claims.has(claim.runId))
        this.fail(`run ${claim.runId} of task ${task.id} was given out twice`);
      await this.run(conn, task, claim);
    }
  }

  async claimTask(conn, task, runId, workerId) {
    const before = task.attempts.get(runId) || 0;
    task.attempts.set(runId, before + 1);
    const { status, body } = await conn.post(`${API}/task/${task.id}/runs/${runId}/claim`,
      { workerGroup: 'crash', workerId });
    const over = before || task.cancelAsked || task.rerunAsked || Date.now() >= task.deadline;
    const claim = task.claims.get(runId);
    if (status === 200 && claim && claim.worker !== workerId)
      this.fail(`run ${runId} of task ${task.id} was given to ${claim.worker} and ${workerId}`);
    if (status === 200 && !claim) await this.run(conn, task, body);
    else if (status !== 200 && (status !== 409 || !over))
      this.fail(`run ${runId} of task ${task.id} has a message and could not be claimed: ` +
        `${status} ${JSON.stringify(body)}`);
  }

  async run(conn, task, answer) {
    const { random } = this;
    const claim = this.ledger.claimed(task, answer);
    this.counts.claims++;
    if (random.chance(0.3)) await this.reclaim(conn, task, answer.runId, claim);
    if (random.chance(0.5)) await this.artifacts.add(conn, task, answer.runId);
    if (random.chance(0.9)) await this.report(conn, task, answer.runId, claim, this.outcome());
  }

  refused(task, claim, what, status) {
    if (status !== 409 || !task.mayBeOver(claim))
      this.fail(`task ${task.id}: ${what} of a good claim answered ${status}`);
  }

  async reclaim(conn, task, runId, claim) {
    const { status, body } = await conn.post(`${API}/task/${task.id}/runs/${runId}/reclaim`);
    if (status !== 200) {
      this.refused(task, claim, 'reclaim', status);
      return;
    }
    this.counts.reclaims++;
    claim.until = ms(body.takenUntil);
    this.ledger.see(task, body.status);
  }

  outcome() {
    if (this.random.chance(0.7)) return 'completed';
    return this.random.pick(['failed', ...EXCEPTIONS]);
  }

  async report(conn, task, runId, claim, end) {
    const method = ['completed', 'failed'].includes(end) ? end : 'exception';
    task.reports.set(runId, end);
    const { status, body } = await conn.post(`${API}/task/${task.id}/runs/${runId}/${method}`,
      method === 'exception' ? { reason: end } : undefined);
    if (status !== 200) {
      this.refused(task, claim, `report ${end}`, status);
      return;
    }
    this.counts.resolved++;
    if (body.status.runs[runId].reasonResolved !== end)
      this.fail(`task ${task.id}: ${end} was acknowledged: ${JSON.stringify(body)}`);
    this.ledger.see(task, body.status);
  }

  // --- what the server still knows ---

  async audit(conn) {
    const all = [...this.ledger.tasks.values()];
    const some = Array.from({ length: Math.min(SAMPLE, all.length) }, () => this.random.pick(all));
    const fresh = all.filter((task) => task.audits < 2);
    await Promise.all([...new Set([...fresh, ...some])].map((task) => this.check(conn, task)));
    this.polls.audit();
    await this.artifacts.audit(conn);
  }

  async check(conn, task) {
    const { status, body } = await conn.get(`${API}/task/${task.id}/status`);
    if (status === 404 && !task.created) {
      this.ledger.tasks.delete(task.id);
      return;
    }
    if (status !== 200) {
      this.fail(`task ${task.id} is LOST: ${status}`);
      return;
    }
    this.ledger.see(task, body.status, true);
    const definition = (await conn.get(`${API}/task/${task.id}`)).body;
    if (definition.payload.n !== task.definition.payload.n)
      this.fail(`task ${task.id} has the definition of another`);
    for (const [index, run] of task.runs)
      if (index === task.runs.size - 1) this.count(run.reasonResolved);
  }

  count(end) {
    if (end === 'claim-expired') this.counts.claimsExpired++;
    if (end === 'deadline-exceeded') this.counts.deadlines++;
  }

  async pending(conn, queue) {
    return (await conn.get(`${API}/pending/${encode(queue)}`)).body.pendingTasks;
  }

  /** Workers live: every task ends, and those of the polled queue are found by their messages. */
  async finish(conn) {
    const worker = 'last';
    const queues = await this.polls.urls(conn);
    const open = () => [...this.ledger.open(QUEUE), ...this.ledger.open(POLLED)];
    for (const task of open()) await this.check(conn, task);
    for (const end = Date.now() + PATIENCE; open().length && Date.now() < end; await delay(10)) {
      if (await this.pending(conn, QUEUE)) await this.claimWork(conn, worker);
      for (const urls of queues)
        for (const message of await this.polls.poll(conn, urls, 32))
          await this.claimTask(conn, message.task, message.runId, worker);
      for (const task of open()) await this.endWaiting(conn, task);
    }
    for (const task of open()) this.fail(`task ${task.id} was forgotten`);
    for (const queue of [QUEUE, POLLED])
      if (await this.pending(conn, queue)) this.fail(`there is work left in ${queue}`);
    await this.polls.finish(conn);
    await this.artifacts.finish(conn);
  }

  /** What waits for a task that was not completed waits for ever. */
  async endWaiting(conn, task) {
    const { body } = await conn.get(`${API}/task/${task.id}/status`);
    this.ledger.see(task, body.status, true);
    const [other] = task.definition.dependencies;
    if (body.status.state !== 'unscheduled' || !this.ledger.tasks.get(other).ended) return;
    task.cancelAsked = true;
    const answer = await conn.post(`${API}/task/${task.id}/cancel`);
    if (answer.status === 200) this.ledger.see(task, answer.body.status);
  }
}

module.exports = { Tasks };
