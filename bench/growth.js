#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// What a job costs as everything grows: jobs that wait, queues, connections. README.md says how to
// read it.
//
//     bench/growth.js TENAX LOAD [--json FILE]
//
// BENCH_QUICK, BENCH_RUNS and BENCH_COMMIT_MODE as for bench/run.sh; BENCH_ROWS=jobs,queues,connections
// limits the rows, BENCH_JOBS=1000000,4000000 says how many jobs wait.
'use strict';

const fs = require('node:fs');

const m = require('./measure.js');

const { binary, load, json } = m.commandLine();
const work = m.workFolder(binary);
const samples = new m.Samples();

const sizes = m.quick
  ? { seconds: 1, jobs: [10000, 50000, 100000], queues: [1, 100, 10000], connections: [1, 10, 100, 1000] }
  : { seconds: 10, jobs: [1000000, 10000000, 30000000], queues: [1, 100, 10000],
    connections: [1, 10, 100, 1000, 10000] };

if (process.env.BENCH_JOBS)
  sizes.jobs = process.env.BENCH_JOBS.split(',').map((n) => 1000 * Math.ceil(Number(n) / 1000));

// On the disk for each job that waits, while the store rewrites its tables.
const DISK_BYTES = 1000;

const server = new m.Tenax(binary, load, work);

async function loaded(row, times, ...options) {
  const before = m.cpuOf(server.pid);
  const line = await server.load(...options);
  samples.row('tenax', row, line, times, m.cpuOf(server.pid) - before);
}

// An open loop, for the times; a closed one, for the rate and the CPU of a job. Its jobs stay.
async function both(key, ...options) {
  await loaded(`${key}.delivery`, 'delivery', 'latency', '--rate', 1000, '--seconds', sizes.seconds, '--queue', 'other',
    ...options);
  await loaded(`${key}.enqueue`, 'request', 'enqueue', '--seconds', sizes.seconds, ...options);
}

const measures = [['enqueue.jobs_per_s', 'jobs/s'], ['enqueue.server_cpu_us', 'CPU us'],
  ['enqueue.p99_us', 'p99 us'], ['delivery.p50_us', 'p50 us'], ['delivery.p99_us', 'p99 us'],
  ['delivery.server_cpu_us', 'CPU us'], ['bulk.jobs_per_s', 'jobs/s'], ['rss_bytes', 'RSS each'],
  ['own_bytes', 'own each'], ['restart_ms', 'restart ms']];

function print(kind, unit) {
  const shown = measures.filter(([name]) => samples.get('tenax', `growth.${kind}.${sizes[kind].at(-1)}.${name}`) ||
    samples.get('tenax', `growth.${kind}.${sizes[kind][0]}.${name}`));
  const width = 28;
  console.log(`\n${''.padEnd(20)}${shown.map(([name, u]) => (name.includes('.') ? `${name.split('.')[0]} ${u}` : u).padEnd(width)).join('')}`);
  for (const n of sizes[kind]) {
    const cells = shown.map(([name]) => m.spread(samples.get('tenax', `growth.${kind}.${n}.${name}`)).padEnd(width));
    console.log(`${`${n} ${unit}`.padEnd(20)}${cells.join('')}`.trimEnd());
  }
}

async function filled(key, count, had, empty) {
  await loaded(`${key}.bulk`, 'request', 'bulk', '--connections', 4, '--jobs', count - had, '--queue', 'waiting',
    '--timeout', 3600);
  const ready = await server.count('status=ready');
  samples.add('tenax', `${key}.rss_bytes`, m.round((m.rssOf(server.pid) - empty) / ready, 1));
  const own = await server.ownBytes();
  if (own !== undefined) samples.add('tenax', `${key}.own_bytes`, m.round(own / ready, 1));
}

// One server that is filled up further and further. What the rates leave behind waits, too.
async function growJobs() {
  await server.fresh();
  const empty = m.rssOf(server.pid);
  let had = 0;
  for (const count of sizes.jobs) {
    const { bavail, bsize } = fs.statfsSync(work);
    if (bavail * bsize < (count - had) * DISK_BYTES) {
      console.log(`${count} jobs: not run, the disk is too small`);
      break;
    }
    const key = `growth.jobs.${count}`;
    await filled(key, count, had, empty);
    had = count;
    await both(key);
    await server.stop('SIGKILL');
    await server.start();
    samples.add('tenax', `${key}.restart_ms`, server.startMs);
    if (await server.count('queue=waiting') !== count) throw new Error(`${count} jobs do not wait after the restart`);
  }
  await server.stop();
}

async function growQueues() {
  for (const count of sizes.queues) {
    await server.fresh();
    await both(`growth.queues.${count}`, '--queues', count);
    await server.stop();
  }
}

function openFiles() {
  const [, hard] = /^Max open files\s+\S+\s+(\S+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'));
  return hard === 'unlimited' ? Infinity : Number(hard);
}

async function growConnections() {
  for (const count of sizes.connections) {
    if (openFiles() < count + 200) {
      console.log(`${count} connections: not run, a process may only have ${openFiles()} open files`);
      continue;
    }
    await server.fresh(['--max-connections', String(count + 100)]);
    await both(`growth.connections.${count}`, '--connections', count);
    await server.stop();
  }
}

async function main() {
  const place = m.machine(work);
  const rows = { jobs: [growJobs, 'jobs'], queues: [growQueues, 'queues'], connections: [growConnections, 'connections'] };
  m.heading(place);
  for (const [kind, [grow, unit]] of Object.entries(rows)) {
    if (!m.chosen('BENCH_ROWS', Object.keys(rows)).includes(kind)) continue;
    for (let i = 0; i < m.runs; i++) await grow();
    print(kind, unit);
  }
  if (json) m.writeJson(json, 'growth', samples, sizes, place, { tenax: m.version(binary) });
}

main().catch((e) => {
  console.error(`bench: ${e.message}`);
  process.exit(1);
});
