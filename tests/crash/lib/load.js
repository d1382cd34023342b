// SPDX-License-Identifier: Apache-2.0
'use strict';

// Clients that all work at once until the server dies under them. Each is a function of
// the load that returns when its connections are lost.

const { Connection, Stream, Lost } = require('./client.js');
const { mayBeGone } = require('./ledger.js');
const { QUEUES, QUERY } = require('./queues.js');

const HOUR = 3600000;
/* Enqueuers wait while more than this is unfinished, and stop at so many jobs per round: what
 * matters is how many crashes the jobs meet. */
const UNFINISHED_MAX = 2000;
const ENQUEUES_MAX = 1200;
/* Some end before the server is back, some are good over several crashes. */
const LEASES = [100, 300, 1500, 5000];

/** What the clients of one round share. */
class Load {
  constructor(port, ledger, random, keepByDefault) {
    Object.assign(this, { port, ledger, random, keepByDefault, over: false, waiting: [] });
    this.sentBefore = ledger.sent;
    this.enqueues = random.range(100, ENQUEUES_MAX);
    this.streams = [];
    this.recent = []; // jobs that were acknowledged
    ledger.onEnd = () => {
      if (ledger.unfinished < UNFINISHED_MAX) this.wake();
    };
  }

  wake() {
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  /** The server is gone. */
  end() {
    this.over = true;
    this.wake();
  }

  isSated() {
    return this.ledger.sent - this.sentBefore >= this.enqueues;
  }

  async room() {
    while (!this.over && (this.ledger.unfinished >= UNFINISHED_MAX || this.isSated()))
      await new Promise((resolve) => this.waiting.push(resolve));
  }

  remember(job) {
    if (this.recent.length < 500) this.recent.push(job);
    else this.recent[this.random.range(0, 499)] = job;
  }

  keeps(job) {
    const { retention } = job.spec;
    return retention ? retention.completed_ms > 0 : this.keepByDefault;
  }
}

/** Runs it until the connection is lost. */
async function untilLost(work) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Lost)) throw error;
  }
}

/** POST; a server that says that it is stopping counts as lost. */
async function post(conn, path, body) {
  const reply = await conn.post(path, body);
  if (reply.status === 503 && reply.body.code === 'stopping') throw new Lost(`${path}: stopping`);
  return reply;
}

// --- enqueue ---

function newSpec(load) {
  const { random } = load;
  const pad = random.chance(0.03) ? random.range(2000, 20000) : random.range(0, 200);
  const spec = {
    queue: random.pick(QUEUES),
    type: 'crash',
    priority: random.range(0, 3),
    payload: { k: load.ledger.nextKey(), pad: 'x'.repeat(pad) },
    retry_limit: random.range(0, 3),
    backoff: { base_ms: random.range(0, 50), exponent: 0, jitter_ms: 50 },
  };
  /* Most leave nothing behind, or the harness would only look at what is long done. */
  if (random.chance(0.8)) spec.retention = { completed_ms: random.pick([0, 0, 0, 0, HOUR]) };
  if (random.chance(0.15)) spec.ready_at = Date.now() + random.range(5, 600);
  return spec;
}

async function enqueueOne(load, conn) {
  const { ledger } = load;
  const job = ledger.newJob(newSpec(load), null);
  const { status, body } = await post(conn, '/jobs', job.spec);
  if (status !== 201) ledger.fail(job, `enqueue answered ${status}: ${JSON.stringify(body)}`);
  else ledger.enqueueAcked(job, body);
  load.remember(job);
}

async function enqueueMany(load, conn) {
  const { ledger, random } = load;
  const most = random.pick([3, 30, 300]);
  const jobs = Array.from({ length: random.range(1, most) }, () =>
    ledger.newJob(newSpec(load), true));
  ledger.bulks.push(jobs);
  const { status, body } = await post(conn, '/jobs/bulk', { jobs: jobs.map((job) => job.spec) });
  if (status !== 201 || body.jobs.length !== jobs.length) {
    ledger.fail(jobs[0], `bulk enqueue answered ${status}: ${JSON.stringify(body)}`);
    return;
  }
  jobs.forEach((job, i) => ledger.enqueueAcked(job, body.jobs[i]));
  load.remember(jobs[0]);
}

async function removeOne(load, conn) {
  const job = load.random.pick(load.recent);
  const request = load.ledger.deleteSent(job);
  const { status } = await conn.request('DELETE', `/jobs/${job.id}`);
  load.ledger.deleteAnswered(job, request, status);
}

async function readOne(load, conn) {
  const { ledger } = load;
  const job = load.random.pick(load.recent);
  const before = job.ended;
  const { status, body } = await conn.get(`/jobs/${job.id}`);
  ledger.note(job, `read: ${status}${body.status ? `, ${body.status}` : ''}`);
  if (status === 404 && !mayBeGone(job)) ledger.fail(job, 'cannot be read, though nobody ended it');
  if (status === 200 && before && (!before.kept || before.how !== body.status))
    ledger.fail(job, `is ${body.status}, though it was ${before.how}`);
}

/** depth requests at a time on one connection. */
async function enqueuer(load, depth, enqueue) {
  const conn = new Connection(load.port);
  const lane = async () => {
    while (!load.over) {
      await load.room();
      await enqueue(load, conn);
      if (load.recent.length && load.random.chance(0.03)) await removeOne(load, conn);
      if (load.recent.length && load.random.chance(0.05)) await readOne(load, conn);
    }
  };
  await Promise.all(Array.from({ length: depth }, () => untilLost(lane)));
  conn.close();
}

// --- reports ---

async function succeed(load, conn, run, { token = true } = {}) {
  const { ledger } = load;
  const report = ledger.reportSent(run, 'success', { kept: load.keeps(run.job) });
  const { status, body } = await post(
    conn, `/jobs/${run.job.id}/success`, token ? { token: run.token } : {});
  ledger.reportAnswered(report, status, body);
}

async function succeedMany(load, conn, runs) {
  const { ledger } = load;
  const sent = runs.map((run) =>
    ledger.reportSent(run, 'success', { kept: load.keeps(run.job) }));
  const { status, body } = await post(conn, '/jobs/success', { ids: runs.map((r) => r.job.id) });
  if (status !== 204 && status !== 422)
    ledger.fail(runs[0].job, `bulk success answered ${status}: ${JSON.stringify(body)}`);
  const refused = new Set(status === 422 ? body.not_found : []);
  for (const report of sent)
    ledger.reportAnswered(report, refused.has(report.run.job.id) ? 404 : 204, null);
}

let failures = 0;

async function reportFailure(load, conn, run) {
  const { ledger, random } = load;
  const kill = random.chance(0.1);
  const message = `failure ${failures++}`;
  const body = { message, token: run.token, kill };
  /* A time that the worker asks for is not held against the limit: only while there are
   * retries left, so that the limit can be checked. */
  if (!kill && run.job.attempts < run.job.spec.retry_limit && random.chance(0.7))
    body.retry_at = Date.now() + random.range(0, 100);
  const report = ledger.reportSent(run, 'failure', { message, kill });
  const reply = await post(conn, `/jobs/${run.job.id}/failure`, body);
  ledger.reportAnswered(report, reply.status, reply.body);
}

async function release(load, conn, run) {
  const report = load.ledger.reportSent(run, 'release');
  const { status, body } = await post(conn, `/jobs/${run.job.id}/release`, { token: run.token });
  load.ledger.reportAnswered(report, status, body);
}

async function renew(load, conn, run) {
  const lease = load.random.pick(LEASES);
  load.ledger.renewSent(run, lease);
  const { status, body } = await post(conn, `/jobs/${run.job.id}/renew`, {
    token: run.token,
    lease_ms: lease,
  });
  load.ledger.renewAnswered(run, status, body);
}

// --- workers on streams ---

/** Opens a stream and calls onRun for each job; returns once it is lost or closed. */
function openStream(load, query, onRun) {
  const stream = new Stream(load.port, query, (body) => {
    const run = load.ledger.handed(body, 'stream');
    if (run) onRun(run);
  });
  load.streams.push(stream);
  return stream;
}

/** Reports each job by itself. */
async function streamWorker(load, query, report) {
  const conn = new Connection(load.port);
  const reports = [];
  const stream = openStream(load, query, (run) =>
    reports.push(untilLost(() => report(load, conn, run))));
  await stream.closed;
  await Promise.all(reports);
  conn.close();
}

/** Reports whatever has come since the last report was answered. */
async function bulkWorker(load, query) {
  const conn = new Connection(load.port);
  let runs = [];
  let busy = false;
  const flush = async () => {
    if (busy) return;
    busy = true;
    while (runs.length) {
      const batch = runs;
      runs = [];
      await succeedMany(load, conn, batch);
    }
    busy = false;
  };
  const flushes = [];
  const stream = openStream(load, query, (run) => {
    runs.push(run);
    if (!busy) flushes.push(untilLost(flush));
  });
  await stream.closed;
  await Promise.all(flushes);
  conn.close();
}

/** Holds its jobs until the crash cuts them off. */
async function idleWorker(load, query) {
  await openStream(load, query, () => {}).closed;
}

/** Leaves with jobs in its hands, then reports them all the same. */
async function leaver(load, query) {
  const { ledger, random } = load;
  const conn = new Connection(load.port);
  while (!load.over && !conn.lost) {
    const runs = [];
    const most = random.range(5, 40);
    const stream = openStream(load, query, (run) => {
      runs.push(run);
      if (runs.length !== most) return;
      ledger.streamClosed(runs);
      stream.close();
    });
    await stream.closed;
    if (runs.length < most) break; // the server died
    ledger.streamClosed(runs);
    await untilLost(() => Promise.all(runs.map((run) => succeed(load, conn, run))));
  }
  conn.close();
}

// --- workers with leases ---

async function claimWorker(load, pocket) {
  const { ledger, random } = load;
  const conn = new Connection(load.port);
  const act = (run) => {
    const chance = random.unit();
    if (chance < 0.45) return succeed(load, conn, run);
    if (chance < 0.6) return reportFailure(load, conn, run);
    if (chance < 0.7) return release(load, conn, run);
    if (chance < 0.85) pocket.push(run);
    return chance < 0.75 ? null : renew(load, conn, run).then(() => pocket.push(run));
  };
  await untilLost(async () => {
    while (!load.over) {
      const { status, body } = await post(conn, '/jobs/claim', {
        queues: QUEUES,
        count: random.range(1, 20),
        lease_ms: random.pick(LEASES),
        wait_ms: 100,
        worker: 'crash',
      });
      if (status !== 200) {
        ledger.fail(null, `claim answered ${status}: ${JSON.stringify(body)}`);
        return;
      }
      const runs = body.jobs.map((job) => ledger.handed(job, 'claim')).filter(Boolean);
      await Promise.all(runs.map(act));
    }
  });
  conn.close();
}

/** Reports what workers still held when the server died: a lease is good over a crash as
 * long as it lasts, a stream's token is not. */
async function survivor(load, runs) {
  const conn = new Connection(load.port);
  await untilLost(() =>
    Promise.all(runs.map((run) => {
      if (run.job.ended && !run.job.ended.kept) return null;
      return (load.random.chance(0.7) ? succeed : reportFailure)(load, conn, run);
    })));
  conn.close();
}

/** Everything at once, until the server is gone. old: runs of earlier rounds to report. */
async function runLoad(load, pocket, old) {
  const without = (l, conn, run) => succeed(l, conn, run, { token: false });
  const mixed = (l, conn, run) => (l.random.chance(0.5) ? reportFailure : succeed)(l, conn, run);
  await Promise.all([
    enqueuer(load, 1, enqueueOne),
    enqueuer(load, 1, enqueueOne),
    enqueuer(load, 16, enqueueOne),
    enqueuer(load, 1, enqueueMany),
    enqueuer(load, 2, enqueueMany),
    streamWorker(load, `prefetch=10&${QUERY}`, succeed),
    streamWorker(load, 'prefetch=5&queue=mail,image', without),
    streamWorker(load, `prefetch=20&${QUERY}`, mixed),
    bulkWorker(load, `prefetch=200&${QUERY}`),
    idleWorker(load, `prefetch=10&${QUERY}`),
    leaver(load, `prefetch=15&${QUERY}`),
    claimWorker(load, pocket),
    claimWorker(load, pocket),
    survivor(load, old),
  ]);
}

/** Finishes every job there is; returns when none is left. */
async function drain(load) {
  const { ledger, port } = load;
  const conn = new Connection(port);
  const left = async () =>
    (await conn.get(`/jobs/count?status=ready,scheduled,in_flight&${QUERY}`)).body.count;
  while (!ledger.violation && (await left()) > 0) {
    const claim = { queues: QUEUES, count: 500, lease_ms: 30000, wait_ms: 200 };
    const { body } = await post(conn, '/jobs/claim', claim);
    const runs = body.jobs.map((job) => ledger.handed(job, 'claim')).filter(Boolean);
    await Promise.all(runs.map((run) => succeed(load, conn, run)));
  }
  conn.close();
}

module.exports = { Load, runLoad, drain, QUEUES };
