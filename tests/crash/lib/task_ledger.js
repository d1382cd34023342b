// SPDX-License-Identifier: Apache-2.0
'use strict';

// What clients of Taskcluster's API know of their tasks: what they asked for, and what they were
// told. A run that was seen as resolved never changes; a task that has ended ends no other way
// unless somebody asked for a rerun.

const EXCEPTIONS = ['worker-shutdown', 'intermittent-task', 'malformed-payload', 'internal-error',
  'resource-unavailable'];
/* How late a deadline may resolve a task, on a machine that does much else. */
const LATE = 3000;

const ms = (date) => new Date(date).getTime();
const isResolved = (run) => run.state !== 'pending' && run.state !== 'running';
const endOf = (run) => run.reasonResolved;

class Task {
  constructor(id, queue, definition) {
    Object.assign(this, { id, queue, definition });
    this.created = false; // certainly
    this.runs = new Map(); // index -> as it was resolved
    this.claims = new Map(); // index -> {worker, until}: acknowledged
    this.attempts = new Map(); // index -> how many times somebody asked to claim that run
    this.reports = new Map(); // index -> how it is to end; perhaps nobody has heard it
    this.cancelAsked = this.rerunAsked = false;
    this.ended = null; // the state that it certainly has for good
    this.audits = 0; // since then
  }

  get deadline() {
    return ms(this.definition.deadline);
  }

  /** Whether it may have ended without a word of its worker. */
  mayBeOver(claim) {
    const now = Date.now();
    return now >= claim.until || now >= this.deadline || this.cancelAsked;
  }
}

class TaskLedger {
  constructor(fail) {
    this.tasks = new Map();
    this.fail = (task, text) => fail(`task ${task.id}: ${text}`);
  }

  add(id, queue, definition) {
    const task = new Task(id, queue, definition);
    this.tasks.set(id, task);
    return task;
  }

  /** Of a queue, those that may not have ended. */
  open(queue) {
    return [...this.tasks.values()].filter((task) => !task.ended && task.queue === queue);
  }

  /** An answer that shows the task; at rest, nothing that was asked is still on its way. */
  see(task, status, atRest = false) {
    const bad = (text) => this.fail(task, `${text}: ${JSON.stringify(status)}`);
    task.created = true;
    if (atRest) task.rerunAsked = false;
    status.runs.forEach((run, i) => {
      if (run.runId !== i) bad(`run ${i} is numbered ${run.runId}`);
      if (!isResolved(run) && i !== status.runs.length - 1) bad(`run ${i} is live beside another`);
      if (isResolved(run)) this.seeResolved(task, run, bad);
      else if (run.state === 'running') this.seeRunning(task, run, bad);
    });
    this.checkRetries(task, status, bad);
    const last = status.runs.at(-1);
    const ends = ['completed', 'failed', 'exception'].includes(status.state);
    if (ends && (!isResolved(last) || last.state !== status.state)) bad('its last run is not so');
    if (!ends && last && isResolved(last)) bad('its last run has ended');
    if (ends && !task.rerunAsked) task.ended = status.state;
    if (atRest) this.checkAtRest(task, status, bad);
  }

  seeResolved(task, run, bad) {
    const known = task.runs.get(run.runId);
    if (known && JSON.stringify(known) !== JSON.stringify(run))
      bad(`run ${run.runId} was resolved as ${JSON.stringify(known)}`);
    if (!known) this.checkEnd(task, run, bad);
    task.runs.set(run.runId, run);
  }

  /** Somebody must have wanted it so, or time. */
  checkEnd(task, run, bad) {
    const end = endOf(run);
    const report = task.reports.get(run.runId);
    const claim = task.claims.get(run.runId);
    if (claim && run.workerId !== claim.worker) bad(`run ${run.runId} was claimed by ${claim.worker}`);
    if (end === 'claim-expired') {
      if (ms(run.resolved) < ms(run.takenUntil)) bad(`run ${run.runId} expired too early`);
      if (claim && ms(run.takenUntil) < claim.until) bad(`run ${run.runId} lost its reclaim`);
    } else if (end === 'deadline-exceeded') {
      if (ms(run.resolved) < task.deadline) bad('its deadline is not over');
    } else if (end === 'canceled') {
      if (!task.cancelAsked) bad('nobody has canceled it');
    } else if (report !== end) {
      bad(`run ${run.runId} is ${end}; its worker said ${report}`);
    }
  }

  seeRunning(task, run, bad) {
    const claim = task.claims.get(run.runId);
    if (claim && claim.worker !== run.workerId) bad(`run ${run.runId} was given to ${claim.worker}`);
  }

  checkRetries(task, status, bad) {
    /* A claim that expires costs nothing if a start of the server cut its answer off. */
    let used = 0, free = 0;
    for (const [i, run] of status.runs.slice(1).entries()) {
      const again = run.reasonCreated === 'rerun';
      used = again ? 0 : used + 1;
      free = again ? 0 : free + (endOf(status.runs[i]) === 'claim-expired');
    }
    const charged = task.definition.retries - status.retriesLeft;
    if (charged < 0 || used - free > task.definition.retries) bad(`${used} retries`);
    if (charged > used || charged < used - free) bad(`${used} retries are used`);
  }

  checkAtRest(task, status, bad) {
    const now = Date.now();
    for (const index of task.runs.keys())
      if (!status.runs[index] || !isResolved(status.runs[index])) bad(`run ${index} was resolved`);
    for (const [index, claim] of task.claims) {
      const run = status.runs[index];
      if (!run || run.state === 'pending') bad(`run ${index} was claimed by ${claim.worker}`);
      else if (run.state === 'running' && ms(run.takenUntil) < claim.until)
        bad(`run ${index} was reclaimed until ${new Date(claim.until).toJSON()}`);
    }
    if (task.ended && status.state !== task.ended) bad(`it was ${task.ended}`);
    if (!task.ended && now > task.deadline + LATE) bad('it outlives its deadline');
    const [other] = task.definition.dependencies;
    if (status.state === 'unscheduled' && this.tasks.get(other).ended === 'completed')
      bad(`it waits for ${other}, which is completed`);
    if (task.ended) task.audits++;
  }

  /** A claim was acknowledged. Nobody else may have had that run. */
  claimed(task, { runId, takenUntil, workerId, status }) {
    const before = task.claims.get(runId);
    if (before && before.worker !== workerId)
      this.fail(task, `run ${runId} was given to ${before.worker} and to ${workerId}`);
    /* An answer on another connection may have told first that it was canceled since. */
    const over = task.runs.get(runId);
    if (over && over.workerId !== workerId) this.fail(task, `run ${runId} had ended before`);
    if (task.ended && !over) this.fail(task, `run ${runId} was given out, though it is ${task.ended}`);
    const claim = { worker: workerId, until: ms(takenUntil) };
    task.claims.set(runId, claim);
    this.see(task, status);
    return claim;
  }
}

module.exports = { TaskLedger, EXCEPTIONS, isResolved, ms };
