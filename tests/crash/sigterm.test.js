// SPDX-License-Identifier: Apache-2.0
'use strict';

// SIGTERM: the server finishes what it has begun, tells everyone, and ends in time.

const { describe, it } = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { Connection, Stream } = require('./lib/client.js');
const { Ledger } = require('./lib/ledger.js');
const { Load, runLoad, drain, QUEUES } = require('./lib/load.js');
const { Random, seedFromEnv } = require('./lib/random.js');
const { Server } = require('./lib/server.js');
const { auditJobs, auditCounts, auditRuns } = require('./lib/audit.js');

const ROUNDS = 5;
/* What the server logs when it does not wait any longer for those who are slow. */
const CUT_OFF = /\d+ connections did not end within/;

/** Ends the server by SIGTERM and checks how it went: whether somebody was waited for in vain is
 * in its log, whatever the machine's speed. The ms it took. */
async function terminate(server, { cutsOff = false } = {}) {
  const began = performance.now();
  const { code, signal, at } = await server.end('SIGTERM');
  assert.deepStrictEqual({ code, signal }, { code: 0, signal: null }, server.stderr);
  assert.strictEqual(CUT_OFF.test(server.stderr), cutsOff, server.stderr);
  return at - began;
}

/** Runs body on a server with a root directory of its own. */
async function onServer(body) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-term-'));
  const servers = [];
  const start = async () => {
    const server = new Server(root);
    servers.push(server);
    await server.listening();
    return server;
  };
  try {
    await body(start);
  } finally {
    for (const server of servers) await server.end('SIGKILL');
  }
  fs.rmSync(root, { recursive: true });
}

function check(ledger, seed) {
  assert.ok(!ledger.violation, `SEED=${seed}\n${ledger.violation}`);
}

async function audit(server, ledger, seed) {
  const conn = new Connection(server.port);
  const jobs = await auditJobs(conn, ledger);
  await auditCounts(conn, ledger, QUEUES);
  await auditRuns(conn, ledger, jobs);
  conn.close();
  check(ledger, seed);
}

async function roundUnderLoad(start, ledger, random, seed) {
  ledger.nextRound();
  const server = await start();
  await audit(server, ledger, seed);
  const load = new Load(server.port, ledger, random, false);
  server.exited.then(() => load.end());
  const work = runLoad(load, [], []);
  await delay(random.range(50, 300));
  ledger.serverStops();
  const ms = await terminate(server);
  await work;
  check(ledger, seed);
  for (const stream of load.streams.filter(({ status }) => status === 200)) {
    const { ended, reset } = await stream.closed;
    assert.ok(ended || stream.left, `a stream was cut off, ${reset ? 'reset' : 'closed'}`);
  }
  return ms;
}

/* At the same time, for one of them waits out the limit of the drain. */
describe('SIGTERM', { concurrency: true }, () => {
  it('SIGTERM under load loses nothing, ends streams in order and exits 0', (t) =>
    onServer(async (start) => {
      const seed = seedFromEnv();
      t.diagnostic(`SEED=${seed}`);
      const random = new Random(seed);
      const ledger = new Ledger();
      const times = [];
      for (let i = 0; i < ROUNDS; i++)
        times.push(Math.round(await roundUnderLoad(start, ledger, random, seed)));
      ledger.nextRound();
      const server = await start();
      await drain(new Load(server.port, ledger, random, false));
      await audit(server, ledger, seed);
      assert.strictEqual(ledger.unfinished, 0);
      t.diagnostic(`drained in ${times.join(', ')} ms; ${JSON.stringify(ledger.counts)}`);
    }));

  it('SIGTERM answers a waiting claim, ends streams and closes idle connections', () =>
    onServer(async (start) => {
      const server = await start();
      const [waiting, idle] = [new Connection(server.port), new Connection(server.port)];
      const stream = new Stream(server.port, 'prefetch=1', () => {});
      assert.strictEqual(await stream.opened, 200);
      assert.strictEqual((await idle.get('/health')).status, 200);
      /* In one packet: once the first is answered, the server has the second. */
      waiting.socket.cork();
      const health = waiting.get('/health');
      const claim = waiting.post('/jobs/claim', { wait_ms: 60000 });
      waiting.socket.uncork();
      assert.strictEqual((await health).status, 200);

      await terminate(server);
      const { status, headers, body } = await claim;
      assert.strictEqual(status, 200);
      assert.deepStrictEqual(body, { jobs: [] });
      assert.strictEqual(headers.connection, 'close');
      assert.ok(await waiting.closed, 'the connection of the claim was reset');
      assert.ok(await idle.closed, 'the idle connection was reset');
      assert.deepStrictEqual(await stream.closed, { ended: true, reset: false });
      const late = new Connection(server.port);
      await assert.rejects(late.get('/health'));
    }));

  it('a client that never ends its request does not hold up SIGTERM for long', () =>
    onServer(async (start) => {
      const server = await start();
      const socket = net.connect({ port: server.port, host: '127.0.0.1' });
      socket.on('error', () => {});
      const closed = new Promise((resolve) => socket.on('close', resolve));
      socket.resume();
      socket.write('POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"queue"');
      const conn = new Connection(server.port);
      assert.strictEqual((await conn.get('/health')).status, 200);
      await terminate(server, { cutsOff: true });
      await closed;
    }));

  it('what was enqueued before SIGTERM is there after it', () =>
    onServer(async (start) => {
      let server = await start();
      const conn = new Connection(server.port);
      const replies = Array.from({ length: 2000 }, (_, i) =>
        conn.post('/jobs', { queue: 'q', type: 't', payload: i }).catch(() => null));
      await replies[0];
      await terminate(server);
      const acked = (await Promise.all(replies)).filter((reply) => reply && reply.status === 201);
      server = await start();
      const after = new Connection(server.port);
      const { body } = await after.get('/jobs?limit=2000');
      const there = new Set(body.jobs.map((job) => job.id));
      for (const reply of acked) assert.ok(there.has(reply.body.id), `${reply.body.id} is lost`);
      assert.ok(acked.length > 0);
    }));
});
