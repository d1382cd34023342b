// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server that is killed again and again while many clients work, and the ledger that its state is
// compared with after each restart.

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { Connection } = require('./client.js');
const { Ledger } = require('./ledger.js');
const { Load, runLoad, drain, QUEUES } = require('./load.js');
const { Random } = require('./random.js');
const { Server } = require('./server.js');
const { Side } = require('./side.js');
const { auditJobs, auditCounts, auditRuns } = require('./audit.js');

const RUNS_SAMPLE = 100;
/* Over before some restarts, good over others. */
const TASK_CLAIM = '700ms';

class Harness {
  constructor(seed) {
    this.random = new Random(seed);
    this.ledger = new Ledger();
    this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-crash-'));
    this.side = new Side(this.ledger, this.random, this.root);
    this.pocket = []; // runs with a lease that nobody has reported yet
    this.kills = this.loadKills = 0;
    this.readyMs = 50;
  }

  start() {
    this.keepByDefault = this.random.chance(0.5);
    const retention = this.keepByDefault ? '1h' : '0';
    const server = this.spawn(['--default-completed-job-retention', retention,
      '--taskcluster-claim-timeout', TASK_CLAIM]);
    this.ledger.onViolation = () => server.child.kill('SIGKILL');
    return server;
  }

  spawn(args) {
    return new Server(this.root, args);
  }

  check() {
    assert.ok(!this.ledger.violation, this.ledger.violation);
  }

  async kill(server) {
    const { code, signal } = await server.end('SIGKILL');
    this.check();
    /* That it was us who ended it, and not itself a moment before. */
    assert.strictEqual(signal, 'SIGKILL', `the server ended by itself (${code}): ${server.stderr}`);
    this.kills++;
  }

  /** Dies somewhere between its first instruction and a little after it is ready. */
  async killAtStart() {
    const server = this.start();
    await delay(this.random.unit() * this.readyMs * 1.2);
    await this.kill(server);
  }

  async audit(port, counts) {
    const conn = new Connection(port);
    const jobs = await auditJobs(conn, this.ledger);
    this.check();
    if (counts) await auditCounts(conn, this.ledger, QUEUES);
    await auditRuns(conn, this.ledger, counts ? jobs : this.sample(jobs));
    this.check();
    await this.side.audit(conn);
    this.check();
    conn.close();
  }

  /** Jobs whose newest run the crash cut off, and some others. */
  sample(jobs) {
    const cutOff = jobs.filter((body) => {
      const runs = [...this.ledger.byId.get(body.id).runs.values()];
      return runs.length && runs[runs.length - 1].round === this.ledger.round - 1;
    });
    const others = Array.from({ length: RUNS_SAMPLE }, () => this.random.pick(jobs));
    return [...cutOff.slice(0, RUNS_SAMPLE), ...others.slice(0, jobs.length)];
  }

  /** Runs of earlier rounds that nobody has reported: some of those with a lease, some of
   * those that the last crash cut off from their stream. */
  oldRuns() {
    const cutOff = [];
    for (const job of this.ledger.open)
      for (const run of job.runs.values())
        if (run.held && run.how === 'stream' && run.round === this.ledger.round - 1)
          cutOff.push(run);
    return [...this.pocket.splice(0, this.random.range(0, this.pocket.length)),
      ...cutOff.slice(0, 20)];
  }

  /** Until the next acknowledgement: had it left before it was on disk, it would be lost now. */
  async news() {
    const next = new Promise((resolve) => (this.ledger.onNews = resolve));
    await Promise.race([next, delay(100)]);
    this.ledger.onNews = () => {};
  }

  async round() {
    const { ledger, random } = this;
    while (random.chance(0.2)) await this.killAtStart();
    ledger.nextRound();
    const server = this.start();
    const port = await server.listening();
    this.readyMs = server.readyMs;
    /* Not always, so that work also comes while recovery is hardly over. */
    if (random.chance(0.7)) await this.audit(port, false);
    const load = new Load(port, ledger, random, this.keepByDefault);
    server.exited.then(() => load.end());
    const work = Promise.all([runLoad(load, this.pocket, this.oldRuns()), this.side.run(load)]);
    await delay(random.range(20, 400));
    if (random.chance(0.5)) await this.news();
    await this.kill(server);
    this.loadKills++;
    await work;
    this.check();
  }

  async finish() {
    this.ledger.nextRound();
    let server = this.start();
    const port = await server.listening();
    await this.audit(port, true);
    await drain(new Load(port, this.ledger, this.random, this.keepByDefault));
    this.check();
    const conn = new Connection(port);
    await this.side.finish(conn);
    conn.close();
    await this.audit(port, true);
    await this.kill(server);
    this.ledger.nextRound();
    server = this.start();
    await this.audit(await server.listening(), true);
    assert.strictEqual(this.ledger.unfinished, 0, 'jobs were left');
    await server.end('SIGKILL');
  }
}

module.exports = { Harness };
