// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the clients know: every job they sent, what was acknowledged of it, and what was
// in doubt when the server died. Checks every reply and every job handed out against
// what is already known; audit.js checks the server's state against it.
//
// Nothing here throws: the first violation is kept, and ends the test.

/** How a report of a kind shows in the record of its run, once it is stored. */
const OUTCOME = { success: 'completed', failure: 'failed', release: 'returned' };
/** And how its job ends by it. */
const ENDS = { success: 'completed', failure: 'dead' };

/** The attempts that count towards the retry limit: not those that others were to blame for. */
const charged = (body) => body.attempts - (body.free_retries ?? 0);

class Ledger {
  constructor() {
    this.jobs = []; // every job that was sent
    this.byKey = new Map();
    this.byId = new Map();
    this.open = new Set(); // those that the server must or may still have
    this.bulks = [];
    this.round = 0;
    this.stopping = false;
    this.started = performance.now();
    this.violation = null;
    this.onViolation = () => {};
    this.sent = 0;
    this.unfinished = 0;
    this.counts = { enqueued: 0, handed: 0, stale: 0 };
    for (const kind of [...Object.keys(OUTCOME), 'delete']) this.counts[kind] = 0;
    /** Called when a job ends; enqueuers wait for it when too much is open. */
    this.onEnd = () => {};
    /** Called when something was acknowledged or handed out. */
    this.onNews = () => {};
  }

  note(job, text) {
    const s = ((performance.now() - this.started) / 1000).toFixed(3);
    job.lines.push(`  +${s}s round ${this.round}: ${text}`);
  }

  /** The first broken promise; job may be null. */
  fail(job, text) {
    if (this.violation) return;
    const about = job ? `job ${job.id} (${job.key}): ` : '';
    const lines = job ? [JSON.stringify(job.spec), ...job.lines].join('\n') : '';
    this.violation = `round ${this.round}: ${about}${text}\n${lines}`;
    this.onViolation();
  }

  // --- enqueue ---

  /** A job that is about to be sent; spec is the body of its request. */
  newJob(spec, bulk) {
    const job = {
      key: spec.payload.k,
      spec,
      bulk,
      id: null,
      durable: false, // acknowledged, or seen after all
      runs: new Map(),
      ended: null, // {how, run, kept, round}: acknowledged, or seen in the server's state
      deletes: [],
      failures: 0, // acknowledged
      attempts: 0, // the most that the server has said
      lines: [],
    };
    this.jobs.push(job);
    this.byKey.set(job.key, job);
    this.open.add(job);
    this.unfinished++;
    this.note(job, 'enqueue sent');
    return job;
  }

  nextKey() {
    return `k${this.sent++}`;
  }

  enqueueAcked(job, body) {
    this.counts.enqueued++;
    this.onNews();
    this.note(job, `enqueue acknowledged, ${body.status}`);
    this.identify(job, body.id);
    if (body.attempts !== 0) this.fail(job, `new with ${body.attempts} attempts`);
    if (body.queue !== job.spec.queue || body.priority !== job.spec.priority)
      this.fail(job, `acknowledged as another job: ${JSON.stringify(body)}`);
  }

  /** The job of a body from the server. It may be the first that is heard of an enqueue in
   * doubt. */
  find(body) {
    const job = this.byKey.get(body.payload && body.payload.k);
    if (!job) {
      this.fail(null, `the server has a job that nobody enqueued: ${JSON.stringify(body)}`);
      return null;
    }
    this.identify(job, body.id);
    return job;
  }

  identify(job, id) {
    job.durable = true;
    if (job.id === id) return;
    if (job.id !== null) this.fail(job, `is there twice, also as ${id}`);
    const other = this.byId.get(id);
    if (other) this.fail(job, `has the id of ${other.key}`);
    job.id = id;
    this.byId.set(id, job);
  }

  // --- runs ---

  /** A worker got the job; how is 'stream' or 'claim'. Returns its run, or null. */
  handed(body, how) {
    const job = this.find(body);
    if (!job) return null;
    this.counts.handed++;
    this.note(job, `run ${body.run} handed out by ${how}, token ${body.token}`);
    this.onNews();
    this.checkHandout(job, body);
    const run = {
      job,
      index: body.run,
      token: body.token,
      how,
      round: this.round,
      held: true, // the client has neither reported nor let go
      streamOpen: how === 'stream' && !this.stopping,
      leaseEnd: body.lease_expires_at || 0,
      reports: [],
    };
    job.runs.set(run.index, run);
    job.attempts = Math.max(job.attempts, body.attempts);
    return run;
  }

  checkHandout(job, body) {
    const end = job.ended;
    /* What was handed out before it ended may still arrive after the acknowledgement, over
     * another connection; a delete does not say which run it ended. */
    if (end && (end.run === null ? end.round < this.round : body.run > end.run))
      this.fail(job, `run ${body.run} was handed out though it was ${end.how}`);
    const before = job.runs.get(body.run);
    if (before)
      this.fail(job, `run ${body.run} was handed out twice, tokens ${before.token}, ${body.token}`);
    for (const run of job.runs.values())
      if (run.token === body.token)
        this.fail(job, `runs ${run.index} and ${body.run} share a token`);
    if (charged(body) > job.spec.retry_limit)
      this.fail(job, `handed out after ${body.attempts} attempts`);
    const failed = [...job.runs.values()].filter((r) => r.index < body.run && acked(r, 'failure'));
    if (body.attempts < failed.length)
      this.fail(job, `${body.attempts} attempts, but ${failed.length} failures were acknowledged`);
    if (body.status !== 'in_flight') this.fail(job, `handed out as ${body.status}`);
  }

  /** From now on the server may end streams, and what they hold. */
  serverStops() {
    this.stopping = true;
    for (const job of this.open) this.streamClosed(job.runs.values());
  }

  nextRound() {
    this.round++;
    this.stopping = false;
  }

  streamClosed(runs) {
    for (const run of runs) run.streamOpen = false;
  }

  /** The lease may end later from now on, or sooner. */
  renewSent(run, leaseMs) {
    run.leaseEnd = Math.min(run.leaseEnd, Date.now() + leaseMs);
    this.note(run.job, `renewal of run ${run.index} for ${leaseMs} ms sent`);
  }

  renewAnswered(run, status, body) {
    this.note(run.job, `renewal of run ${run.index} answered ${status}`);
    if (status === 200) run.leaseEnd = body.lease_expires_at;
    else if (this.isSurelyLive(run, null))
      this.fail(run.job, `renewal of run ${run.index} was refused (${status}) while it was live`);
  }

  // --- reports ---

  /** A report that is about to be sent. kept: a success now would leave the job to look at. */
  reportSent(run, kind, { kept = false, message = null, kill = false } = {}) {
    const report = { run, kind, kept, message, kill, status: 'doubt', mustFail: this.isOver(run) };
    run.reports.push(report);
    run.held = false;
    this.note(run.job, `${kind} of run ${run.index} sent${report.mustFail ? ' (stale)' : ''}`);
    return report;
  }

  isOver(run) {
    const later = [...run.job.runs.keys()].some((index) => index > run.index);
    const cutOff = run.how === 'stream' && run.round < this.round;
    return later || cutOff || run.reports.some((r) => r.status === 'acked');
  }

  /** Whether nothing that the clients know can have ended the run. */
  isSurelyLive(run, report) {
    const others = run.reports.some((r) => r !== report);
    const leased = run.how === 'claim' && Date.now() < run.leaseEnd;
    const streamed = run.streamOpen && run.round === this.round;
    const stale = report ? report.mustFail : this.isOver(run);
    return !stale && !others && run.job.deletes.length === 0 && (leased || streamed);
  }

  /** The answer to a report; body is what a failure returns. */
  reportAnswered(report, status, body) {
    const { run, kind } = report;
    const { job } = run;
    const accepted = status === 204 || status === 200;
    this.note(job, `${kind} of run ${run.index} answered ${status}`);
    if (!accepted && status !== 404 && status !== 409)
      this.fail(job, `${kind} answered ${status}: ${JSON.stringify(body)}`);
    if (!accepted && this.isSurelyLive(run, report))
      this.fail(job, `${kind} of run ${run.index} was refused (${status}) while it was live`);
    /* The same report once more is answered as the first time, of which an audit may have told. */
    const isFirst = (r) => r !== report && r.kind === kind && (r.status === 'acked' ||
      (r.status === 'doubt' && job.ended?.how === ENDS[kind]));
    if (accepted && run.reports.some(isFirst)) {
      report.status = 'repeated';
      return;
    }
    const unheard = report.mustFail && accepted && run.reports.find((r) => r !== report &&
      r.kind === kind && r.status === 'doubt');
    if (unheard) {
      report.status = 'repeated';
      this.cameThrough(unheard);
      return;
    }
    report.status = accepted ? 'acked' : 'refused';
    if (!accepted) {
      this.counts.stale++;
      return;
    }
    this.counts[kind]++;
    this.onNews();
    if (report.mustFail) this.fail(job, `a stale ${kind} of run ${run.index} was accepted`);
    /* Of an earlier run the acknowledgement may only have come late, over another connection. */
    if (job.ended && job.ended.run !== null && run.index >= job.ended.run)
      this.fail(job, `${kind} of run ${run.index} was accepted after it was ${job.ended.how}`);
    if (kind === 'success') this.end(job, 'completed', run.index, report.kept);
    if (kind === 'failure') this.failed(report, body);
  }

  /** A report whose answer was lost: that the same one is accepted after the run says that the
   * record of the run has it, to which audits hold the server from now on. */
  cameThrough(report) {
    const { run, kind } = report;
    this.note(run.job, `so the ${kind} of run ${run.index} before it had come through`);
    report.status = 'acked';
    if (kind === 'success') this.end(run.job, 'completed', run.index, report.kept);
    if (kind === 'failure' && report.kill) this.end(run.job, 'dead', run.index, true);
  }

  failed(report, body) {
    const { job, index } = report.run;
    job.failures++;
    job.attempts = Math.max(job.attempts, body.attempts);
    this.note(job, `now ${body.status} after ${body.attempts} attempts: ${body.reason}`);
    const before = [...job.runs.values()].filter((r) => r.index <= index && acked(r, 'failure'));
    if (body.attempts < before.length || charged(body) > job.spec.retry_limit + 1)
      this.fail(job, `${body.attempts} attempts after ${before.length} acknowledged failures`);
    const exhausted = report.kill || charged(body) === job.spec.retry_limit + 1;
    if (exhausted !== (body.status === 'dead')) this.fail(job, `is ${body.status} after a failure`);
    if (body.status === 'dead') this.end(job, 'dead', index, true);
  }

  end(job, how, run, kept) {
    if (!job.ended) this.unfinished--;
    job.ended = { how, run, kept, round: this.round };
    if (!kept) this.open.delete(job);
    this.onEnd();
  }

  // --- delete ---

  deleteSent(job) {
    const request = { status: 'doubt' };
    job.deletes.push(request);
    this.note(job, 'delete sent');
    return request;
  }

  deleteAnswered(job, request, status) {
    this.note(job, `delete answered ${status}`);
    request.status = status === 204 ? 'acked' : 'refused';
    if (status === 204) {
      this.counts.delete++;
      this.onNews();
      this.end(job, 'deleted', null, false);
    } else if (status !== 404) {
      this.fail(job, `delete answered ${status}`);
    } else if (!mayBeGone(job)) {
      this.fail(job, 'delete found nothing, though nobody ended it');
    }
  }
}

function acked(run, kind) {
  return run.reports.some((r) => r.kind === kind && r.status === 'acked');
}

function reports(job, kind) {
  const found = [];
  for (const run of job.runs.values())
    for (const report of run.reports)
      if (report.kind === kind && report.status !== 'refused') found.push(report);
  return found;
}

function mayBeDeleted(job) {
  return job.deletes.some((d) => d.status !== 'refused');
}

/** Whether something was sent that would end the job and leave nothing of it. */
function mayBeGone(job) {
  return (
    !job.durable ||
    mayBeDeleted(job) ||
    reports(job, 'success').some((r) => !r.kept)
  );
}

module.exports = { Ledger, OUTCOME, charged, reports, mayBeDeleted, mayBeGone };
