// SPDX-License-Identifier: Apache-2.0
'use strict';

// The server's state against the ledger, while no client is at work: only deadlines (a
// delay or a lease that ends) may change anything meanwhile.

const { OUTCOME, charged, reports, mayBeDeleted, mayBeGone } = require('./ledger.js');
const { QUERY } = require('./queues.js');

/* While no client is at work nothing is on its way: whatever is handed out later is wrong. */
const NO_RUN = -1;

const STATUSES = ['blocked', 'scheduled', 'ready', 'in_flight', 'completed', 'dead'];

/** Every job over all pages of GET /jobs, in id order. */
async function walk(conn, ledger, query = '') {
  const jobs = [];
  for (let path = `/jobs?limit=2000${query}`; path; ) {
    const { status, body } = await conn.get(path);
    if (status !== 200) {
      ledger.fail(null, `GET ${path} answered ${status}: ${JSON.stringify(body)}`);
      return jobs;
    }
    jobs.push(...body.jobs);
    path = body.pages.next;
  }
  for (let i = 1; i < jobs.length; i++)
    if (!(jobs[i - 1].id < jobs[i].id))
      ledger.fail(null, `the list has ${jobs[i].id} out of order`);
  return jobs;
}

async function count(conn, query) {
  return (await conn.get(`/jobs/count${query}`)).body.count;
}

/** Checks every job that is there, and every job that should be. */
async function auditJobs(conn, ledger) {
  const jobs = await walk(conn, ledger, `&${QUERY}`);
  const total = await count(conn, `?${QUERY}`);
  if (total !== jobs.length)
    ledger.fail(null, `GET /jobs/count says ${total}, the pages have ${jobs.length}`);
  const present = new Set();
  for (const body of jobs) {
    const job = ledger.find(body);
    if (!job) return jobs;
    present.add(job);
    checkPresent(ledger, job, body);
  }
  for (const job of ledger.open) if (!present.has(job)) checkAbsent(ledger, job);
  checkBulks(ledger);
  return jobs;
}

function checkPresent(ledger, job, body) {
  const end = job.ended;
  if (end && end.how === 'deleted') ledger.fail(job, `is there, ${body.status}, though deleted`);
  else if (end && !end.kept) ledger.fail(job, `is there, ${body.status}, though ${end.how}`);
  else if (end && end.how !== body.status) ledger.fail(job, `is ${body.status}, was ${end.how}`);
  if (charged(body) > job.spec.retry_limit + 1) ledger.fail(job, `${body.attempts} attempts`);
  if (body.attempts < job.failures || body.attempts < job.attempts)
    ledger.fail(job, `${body.attempts} attempts; there were ${job.attempts}`);
  job.attempts = body.attempts;
  if (end) return;
  if (body.status === 'completed') {
    const possible = reports(job, 'success').filter((r) => r.kept);
    if (possible.length === 0) ledger.fail(job, 'is completed though nobody said so');
    else ledger.end(job, 'completed', NO_RUN, true);
  } else if (body.status === 'dead') {
    const killed = reports(job, 'failure').some((r) => r.kill);
    const usedUp = charged(body) === job.spec.retry_limit + 1;
    if (!killed && !usedUp && body.resolution !== 'poison')
      ledger.fail(job, `is dead after ${body.attempts} attempts: ${body.reason}`);
    ledger.end(job, 'dead', NO_RUN, true);
  }
}

function checkAbsent(ledger, job) {
  if (!job.durable) {
    /* An enqueue in doubt that came to nothing. */
    job.missing = true;
    ledger.end(job, 'never stored', NO_RUN, false);
    return;
  }
  if (job.ended ? job.ended.kept && !mayBeDeleted(job) : !mayBeGone(job)) {
    ledger.fail(job, 'is LOST: it was acknowledged, nobody ended it, and it is not there');
    return;
  }
  ledger.end(job, 'completed or deleted', NO_RUN, false);
}

/** Jobs of one bulk request stand and fall together. */
function checkBulks(ledger) {
  for (const jobs of ledger.bulks.splice(0)) {
    const missing = jobs.filter((job) => job.missing).length;
    if (missing !== 0 && missing !== jobs.length)
      ledger.fail(jobs[0], `${missing} of the ${jobs.length} jobs of its bulk are missing`);
  }
}

/** GET /jobs/count by status and by queue against the pages. Deadlines may fire between the
 * requests: what counts is a walk with the same counts before and after it. */
async function auditCounts(conn, ledger, queues) {
  const queries = [
    ...STATUSES.map((s) => [`?status=${s}&${QUERY}`, (job) => job.status === s]),
    ...queues.map((q) => [`?queue=${q}`, (job) => job.queue === q]),
  ];
  const ask = async () => Promise.all(queries.map(([query]) => count(conn, query)));
  for (let tries = 0; tries < 50 && !ledger.violation; tries++) {
    const before = await ask();
    const jobs = await walk(conn, ledger, `&${QUERY}`);
    const after = await ask();
    if (before.some((n, i) => n !== after[i])) continue;
    for (const [i, [query, matches]] of queries.entries()) {
      const n = jobs.filter(matches).length;
      if (n !== after[i])
        ledger.fail(null, `GET /jobs/count${query} says ${after[i]}, the pages have ${n}`);
    }
    return;
  }
  ledger.fail(null, 'the counts never stood still');
}

// --- runs ---

/** GET /jobs/{id}/runs of these jobs, as GET /jobs showed them. */
async function auditRuns(conn, ledger, jobs) {
  const window = 64;
  for (let i = 0; i < jobs.length && !ledger.violation; i += window)
    await Promise.all(jobs.slice(i, i + window).map((body) => auditRunsOf(conn, ledger, body)));
}

async function auditRunsOf(conn, ledger, listed) {
  const [one, all] = await Promise.all([
    conn.get(`/jobs/${listed.id}`),
    conn.get(`/jobs/${listed.id}/runs?limit=2000`),
  ]);
  const job = ledger.byId.get(listed.id);
  if (one.status !== 200 || all.status !== 200) {
    ledger.fail(job, `was listed, but is answered ${one.status}, its runs ${all.status}`);
    return;
  }
  const { runs } = all.body;
  const bad = (text) => ledger.fail(job, `${text}; runs: ${JSON.stringify(runs, null, 1)}`);
  runs.forEach((run, i) => checkShape(run, i, runs.length, bad));
  const running = runs.filter((run) => run.outcome === 'running').length;
  /* Its lease may have ended between the two requests. */
  if (running > 1 || (running === 1 && one.body.status !== 'in_flight'))
    bad(`${running} runs are live, the job is ${one.body.status}`);
  const counted = runs.filter((run) => run.attempt !== undefined);
  counted.forEach((run, i) => run.attempt !== i + 1 && bad(`attempt ${i + 1} is ${run.attempt}`));
  if (counted.length < one.body.attempts || (running && counted.length !== one.body.attempts))
    bad(`${one.body.attempts} attempts, but ${counted.length} runs count`);
  for (const run of runs) checkOutcome(job, run, bad);
  if (one.body.resolution === 'poison') checkPoison(runs, bad);
  for (const run of job.runs.values())
    if (run.index >= runs.length) bad(`run ${run.index} was handed out and is not recorded`);
}

function checkShape(run, i, total, bad) {
  if (run.run !== i) bad(`run ${i} is numbered ${run.run}`);
  if (run.outcome === 'running') {
    if (i !== total - 1) bad(`run ${i} is live, but a later one exists`);
    if (run.lease_expires_at === null) bad(`run ${i} is live without a lease or a stream`);
    return;
  }
  if (!run.outcome || !run.reason) bad(`run ${i} has ended without an outcome or a reason`);
  if (!(run.ended_at >= run.taken_at)) bad(`run ${i} ended before it began`);
  if (run.outcome === 'completed' && i !== total - 1) bad(`run ${i} completed, but others follow`);
  /* An expired claim is charged to nobody if its worker may never have heard of it. */
  const unheard = /before its worker said anything/.test(run.reason);
  const counts = run.outcome === 'failed' || (run.outcome === 'claim-expired' && !unheard);
  if (counts !== (run.attempt !== undefined))
    bad(`run ${i} is ${run.outcome}, its attempt ${run.attempt}`);
}

/** Five runs in a row were lost at the least: those that a crash cut off count for nothing. */
function checkPoison(runs, bad) {
  const lost = (run) => run.outcome === 'worker-lost' || run.outcome === 'claim-expired';
  const tail = runs.slice(-5);
  if (tail.length < 5 || !tail.every(lost)) bad('it is called poison for less than five losses');
}

/** What the record says of a run against what the clients know of it. */
function checkOutcome(job, run, bad) {
  const known = job.runs.get(run.run);
  const sent = known ? known.reports.filter((r) => r.status !== 'refused') : [];
  const acked = sent.find((r) => r.status === 'acked');
  const told = sent.filter((r) => OUTCOME[r.kind] === run.outcome);
  if (acked && OUTCOME[acked.kind] !== run.outcome)
    bad(`run ${run.run} is ${run.outcome}, but its ${acked.kind} was acknowledged`);
  if (['completed', 'failed', 'returned'].includes(run.outcome)) {
    const failed = run.outcome === 'failed';
    const said = failed ? told.some((r) => r.message === run.message) : told.length;
    /* A handout that never arrived may have been given back by the server itself. */
    if (!said && !(run.outcome === 'returned' && !known))
      bad(`run ${run.run} is ${run.outcome}, though nobody said so`);
  }
  if (run.outcome === 'claim-expired') {
    if (known && known.how !== 'claim') bad(`run ${run.run} had no lease that could expire`);
    if (known && run.ended_at < known.leaseEnd) bad(`run ${run.run} expired too early`);
  }
  if (run.outcome === 'worker-lost') {
    if (known && known.how !== 'stream') bad(`run ${run.run} had a lease and was lost`);
    if (known && known.streamOpen && !/server stopped/.test(run.reason))
      bad(`run ${run.run} was cut off by the crash, but its reason is '${run.reason}'`);
  }
}

module.exports = { auditJobs, auditCounts, auditRuns, walk, count };
