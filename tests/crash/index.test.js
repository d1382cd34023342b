// SPDX-License-Identifier: Apache-2.0
'use strict';

// The power fails, or the process is killed, at every sync of a start that writes a snapshot of its
// indexes: whatever is left of that, the next start has all jobs in their order, and so has one
// that was told to do without.

const { test } = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const { PowerCut } = require('./lib/powercut.js');
const { Server } = require('./lib/server.js');

const REQUESTS = 10;
const EACH = 10100; // just enough jobs for a snapshot
const SYNCS_MAX = 80; // of a start with its snapshot: fewer
const DEADLINE_MS = 240000;

async function text(port, target) {
  return (await fetch(`http://127.0.0.1:${port}${target}`)).text();
}

async function fill(port) {
  const jobs = Array.from({ length: EACH }, (_, i) => ({ queue: `q${i % 3}`, type: 't', payload: i,
    priority: i % 5 ? 100 : 200 }));
  for (let n = 0; n < REQUESTS; n++) {
    const res = await fetch(`http://127.0.0.1:${port}/jobs/bulk`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jobs }),
    });
    assert.strictEqual(res.status, 201);
    await res.arrayBuffer();
  }
}

/** What the jobs are, as far as the indexes say: how many, and the first ones of each queue. */
async function state(root, args) {
  const server = new Server(root, args);
  const port = await server.listening();
  const parts = [await text(port, '/jobs/count')];
  for (const queue of ['q0', 'q1', 'q2'])
    parts.push(await text(port, `/jobs/count?queue=${queue}`),
      await text(port, `/jobs?queue=${queue}&limit=5`));
  await server.end('SIGKILL');
  return parts.join('\n');
}

/** Whether a snapshot was written; false if the server died before. */
async function writesOne(root, server) {
  const end = Date.now() + DEADLINE_MS;
  while (server.child.exitCode === null && server.child.signalCode === null) {
    if (/a snapshot of the indexes was written/.test(server.stderr)) return true;
    assert.ok(Date.now() < end, `it neither writes nor dies: ${server.stderr}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return false;
}

test('the power may fail at every sync while a snapshot of the indexes is written', async (t) => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-index-'));
  const whole = path.join(dir, 'whole');
  fs.mkdirSync(whole);
  let server = new Server(whole, ['--index-snapshots=off']);
  await fill(await server.listening());
  await server.end('SIGTERM');
  const want = await state(whole, ['--index-snapshots=off']);
  let syncs = 0, used = 0;
  for (let n = 1; ; n++) {
    assert.ok(n < SYNCS_MAX, `${n} syncs`);
    const root = path.join(dir, `root-${n}`);
    fs.cpSync(whole, root, { recursive: true });
    const power = new PowerCut(root);
    power.adopt();
    server = new Server(root, ['--log-level', 'info'], power.env(n));
    const written = await writesOne(root, server);
    if (written) await server.end('SIGKILL');
    else assert.strictEqual((await server.exited).signal, 'SIGKILL', server.stderr);
    if (n % 3 || written) power.cut(); // the others are kills of the process alone
    used += fs.existsSync(path.join(root, 'INDEX'));
    assert.strictEqual(await state(root, []), want, `after ${n} syncs`);
    assert.strictEqual(await state(root, ['--index-snapshots=off']), want, `after ${n} syncs`);
    power.remove();
    if (written) break;
    syncs = n;
  }
  t.diagnostic(`${syncs} syncs`);
  assert.ok(syncs > 3, 'it died at some');
  assert.ok(used > 0, 'at last there was a file');
  fs.rmSync(dir, { recursive: true });
});
