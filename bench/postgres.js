#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Tenax on a PostgreSQL of its own on this machine, beside Tenax on its own disk, and beside a queue as it
// is often written in SQL: a table, and SELECT … FOR UPDATE SKIP LOCKED, driven by pgbench. In turn, with
// fsync. README.md says how to read it.
//
//     bench/postgres.js TENAX LOAD
//
// BENCH_QUICK and BENCH_RUNS as for bench/run.sh.
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const m = require('./measure.js');
const { Postgres } = require('../tests/postgres/node.js');

const { binary, load } = m.commandLine();
const work = m.workFolder(binary);
const PGBENCH = path.join('/usr/lib/postgresql', fs.readdirSync('/usr/lib/postgresql').sort((a, b) => b - a)[0], 'bin/pgbench');
const BATCH = 1000;
const jobs = m.quick ? 20000 : 400000;
const seconds = m.quick ? 1 : 5;

const ROWS = ['enqueue', 'bulk', 'take'];
const found = {}; // system: {row: [rates]}
const note = (system, row, rate) => ((found[system] ??= {})[row] ??= []).push(rate);

async function tenax(system, options) {
  const folder = fs.mkdtempSync(path.join(work, 'run-'));
  const server = await new m.Tenax(binary, load, folder).start(options);
  try {
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${server.port}/health`);
      const health = await answer.json();
      if (answer.status === 200 && (health.role ?? 'owner') === 'owner') break;
      await new Promise((done) => setTimeout(done, 50));
    }
    note(system, 'enqueue', (await server.load('enqueue', '--connections', 64, '--seconds', seconds, '--queue', 'single')).jobs_per_s);
    note(system, 'bulk', (await server.load('bulk', '--connections', 8, '--jobs', jobs, '--batch', BATCH)).jobs_per_s);
    note(system, 'take', (await server.load('drain', '--jobs', jobs, '--acks', BATCH)).jobs_per_s);
  } finally {
    await server.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

// ---- a queue in SQL ----

const TABLE = `DROP TABLE IF EXISTS jobs; CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text NOT NULL, payload text NOT NULL, taken_at timestamptz);
  CREATE INDEX jobs_ready ON jobs (queue, id) WHERE taken_at IS NULL`;
const PAYLOAD = "repeat('x', 200)";
const SCRIPTS = {
  enqueue: `INSERT INTO jobs (queue, payload) VALUES ('q', ${PAYLOAD});`,
  bulk: `INSERT INTO jobs (queue, payload) SELECT 'q', ${PAYLOAD} FROM generate_series(1, ${BATCH});`,
  // Taken in one transaction, done in the next, as a worker does.
  take: `WITH next AS (SELECT id FROM jobs WHERE queue = 'q' AND taken_at IS NULL ORDER BY id
  FOR UPDATE SKIP LOCKED LIMIT ${BATCH}), taken AS (UPDATE jobs SET taken_at = now() FROM next
  WHERE jobs.id = next.id RETURNING jobs.id) SELECT coalesce(array_agg(id)::text, '{}') AS ids FROM taken \\gset
DELETE FROM jobs WHERE id = ANY (':ids'::bigint[]);`,
};
const CLIENTS = { enqueue: 64, bulk: 8, take: 4 };

async function skipLocked(node) {
  await node.rows(TABLE);
  for (const row of ROWS) {
    const script = path.join(work, `${row}.sql`);
    fs.writeFileSync(script, `${SCRIPTS[row]}\n`);
    const per = row === 'enqueue' ? 1 : BATCH;
    const limit = row === 'enqueue' ? ['-T', seconds] : ['-t', Math.floor(jobs / BATCH / CLIENTS[row])];
    const out = execFileSync(PGBENCH, ['-n', '-h', node.dir, '-p', node.port, '-U', 'admin', '-c', CLIENTS[row], '-j', 1,
      '-f', script, ...limit, 'postgres'].map(String), { encoding: 'utf8' });
    const failed = Number(/failed transactions: (\d+)/.exec(out)?.[1] ?? 0);
    if (failed) throw new Error(`pgbench: ${failed} transactions failed\n${out}`);
    const tps = /^tps = ([\d.]+)/m.exec(out);
    if (!tps) throw new Error(`pgbench said no rate\n${out}`);
    note('SKIP LOCKED', row, Number(tps[1]) * per);
  }
}

(async () => {
  for (let i = 0; i < m.runs; i++) {
    const node = await Postgres.start({ fsync: true, conf: ['shared_buffers = 512MB', 'max_wal_size = 4GB', 'max_connections = 100'] });
    try {
      execFileSync(binary, ['postgres', 'install', '--postgres', node.url()], { stdio: ['ignore', 'ignore', 'inherit'] });
      await tenax('on PostgreSQL', ['--postgres', node.url()]);
      await skipLocked(node);
    } finally {
      await node.stop();
    }
    await tenax('on its own disk', []);
  }
  console.log('jobs/s            ' + ROWS.map((row) => row.padStart(12)).join(''));
  for (const [system, rows] of Object.entries(found))
    console.log(system.padEnd(18) + ROWS.map((row) => Math.round(m.median(rows[row])).toLocaleString('en').padStart(12)).join(''));
  const ratio = ROWS.map((row) => (m.median(found['on PostgreSQL'][row]) / m.median(found['SKIP LOCKED'][row])).toFixed(1));
  console.log('ratio to SQL'.padEnd(18) + ratio.map((r) => r.padStart(12)).join(''));
  fs.rmSync(work, { recursive: true, force: true });
})().catch((e) => { console.error(e.message); process.exit(1); });
