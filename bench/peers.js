#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Tenax beside beanstalkd, Redis and RabbitMQ on this machine: the same payloads and connections, one
// run of each in turn. README.md says how to read it.
//
//     bench/peers.js TENAX LOAD [--json FILE]
//
// BENCH_QUICK, BENCH_RUNS and BENCH_COMMIT_MODE as for bench/run.sh; BENCH_PEERS=redis,beanstalkd
// limits the peers, BENCH_WAITING=N is how many jobs wait (1000000), BENCH_ROWS=enqueue,latency the rows.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { execFileSync } = require('node:child_process');

const m = require('./measure.js');
const { RATIOS, ratios, other } = require('./ratios.js');
const { startBroker } = require('../tests/amqp/broker.js');

const { binary, load, json } = m.commandLine();
const work = m.workFolder(binary);
process.env.TMPDIR = work; // of the brokers' folders, too
const samples = new m.Samples();

// BENCH_SECONDS: of the open loop of the short form, for the project's tests.
const sizes = m.quick
  ? { connections: 64, payload: 200, closed_seconds: 1, closed_jobs: 20000,
    latency_seconds: Number(process.env.BENCH_SECONDS || 1.5), waiting_jobs: 20000 }
  : { connections: 64, payload: 200, closed_seconds: 5, closed_jobs: 500000, latency_seconds: 10, waiting_jobs: 1000000 };

if (process.env.BENCH_WAITING) sizes.waiting_jobs = 1000 * Math.ceil(Number(process.env.BENCH_WAITING) / 1000);

const depthOf = { enqueue: 1, pipelined: 16 };

// ---- the systems: start(safe) with a fresh folder, put(depth), latency(), fill(jobs), stop() ----

const system = {};

system.tenax = {
  title: 'Tenax',
  version: () => m.version(binary),
  async start(folder) {
    this.server = await new m.Tenax(binary, load, folder).start();
    this.pid = this.server.pid;
  },
  put: (depth) => system.tenax.server.wrk({ connections: sizes.connections, depth, seconds: sizes.closed_seconds }),
  latency: () => system.tenax.server.load('latency', '--rate', 1000, '--seconds', sizes.latency_seconds),
  async fill(jobs) {
    await this.server.load('bulk', '--connections', 4, '--jobs', jobs, '--timeout', 3600);
    const own = await this.server.ownBytes();
    if (own !== undefined) samples.add('tenax', 'waiting.own_bytes', m.round(own / jobs, 1));
  },
  stop: () => system.tenax.server.stop(),
};

// What our generator drives, by the protocol of the broker.
class Peer {
  constructor(title, broker) { Object.assign(this, { title, broker }); }

  async load(mode, ...options) {
    const { out } = await m.run(load, [mode, '--broker', this.broker, '--payload', String(sizes.payload),
      ...options.map(String), '--port', String(this.port), '--json']);
    return JSON.parse(out);
  }

  put(depth) {
    return this.load('broker-put', '--connections', sizes.connections, '--depth', depth, '--seconds',
      sizes.closed_seconds);
  }

  latency() {
    return this.load('broker-latency', '--connections', sizes.connections, '--streams', 16, '--rate', 1000,
      '--seconds', sizes.latency_seconds);
  }

  fill(jobs) {
    return this.load('broker-put', '--connections', 4, '--depth', 500, '--jobs', jobs, '--timeout', 3600);
  }

  async spawn(program, args, folder) {
    const log = path.join(folder, 'log');
    this.child = m.start(program, args, log);
    await m.listens(this.child, this.port, log);
    this.pid = this.child.pid;
  }

  async stop() {
    this.child.kill('SIGTERM');
    await this.child.ended;
  }
}

class Beanstalkd extends Peer {
  version() { return execFileSync('beanstalkd', ['-v'], { encoding: 'utf8' }).trim().replace(/^beanstalkd /, ''); }

  // Not safe: only to be filled, where nothing but memory is measured.
  async start(folder, safe) {
    this.port = await m.freePort();
    await this.spawn('beanstalkd', ['-l', '127.0.0.1', '-p', String(this.port), '-b', folder,
      ...(safe ? ['-f0'] : ['-F'])], folder);
  }
}

class Redis extends Peer {
  version() { return /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))[1]; }

  // The log is not rewritten while it is measured.
  async start(folder, safe) {
    this.port = await m.freePort();
    await this.spawn('redis-server', ['--bind', '127.0.0.1', '--port', String(this.port), '--dir', folder, '--save', '',
      '--appendonly', 'yes', '--appendfsync', safe ? 'always' : 'everysec', '--auto-aof-rewrite-percentage', '0'],
    folder);
  }

  // By Redis's own generator.
  async put(depth, jobs = sizes.closed_jobs) {
    const { out, cpu } = await m.run('redis-benchmark', ['-p', String(this.port), '-t', 'lpush', '-c',
      String(sizes.connections), '-P', String(depth), '-n', String(jobs), '-d', String(sizes.payload), '--csv']);
    const [, rate, , , p50, , p99] = out.trim().split('\n').at(-1).split(',').map((v) => Number(v.replace(/"/g, '')));
    const count = execFileSync('redis-cli', ['-p', String(this.port), 'llen', 'mylist'], { encoding: 'utf8' });
    if (Number(count) !== jobs || !(rate > 0)) throw new Error(`Redis counts ${count.trim()}, not ${jobs}: ${out}`);
    return { jobs, jobs_per_s: rate, request_p50_us: p50 * 1000, request_p99_us: p99 * 1000, load_cpu_s: cpu };
  }
}

class RabbitMQ extends Peer {
  version() {
    return execFileSync('dpkg-query', ['-W', '-f', '${Version}', 'rabbitmq-server'], { encoding: 'utf8' });
  }

  async start() {
    this.node = await startBroker({ erlang: '' });
    this.port = this.node.port;
    this.pid = this.node.pid;
  }

  stop() { return this.node.stop(); }
}

Object.assign(system, {
  redis: new Redis('Redis', 'redis'),
  beanstalkd: new Beanstalkd('beanstalkd', 'beanstalkd'),
  'rabbitmq-quorum': new RabbitMQ('RabbitMQ, quorum', 'rabbitmq-quorum'),
  'rabbitmq-classic': new RabbitMQ('RabbitMQ, classic', 'rabbitmq-classic'),
});

const names = ['tenax', ...m.chosen('BENCH_PEERS', Object.keys(system).filter((n) => n !== 'tenax'))];

// ---- rows ----

async function measure(name, row) {
  const s = system[name];
  const before = m.cpuOf(s.pid);
  const line = row === 'latency' ? await s.latency() : await s.put(depthOf[row]);
  samples.row(name, row, line, row === 'latency' ? 'delivery' : 'request', m.cpuOf(s.pid) - before);
  samples.add(name, `${row}.rss_mib`, m.round(m.rssOf(s.pid) / 2 ** 20, 0));
}

async function fill(name) {
  const s = system[name], empty = m.rssOf(s.pid);
  await s.fill(sizes.waiting_jobs);
  samples.add(name, 'waiting.rss_bytes', m.round((m.rssOf(s.pid) - empty) / sizes.waiting_jobs, 1));
}

async function one(name, row) {
  const folder = fs.mkdtempSync(path.join(work, `${name}.`));
  try {
    await system[name].start(folder, row !== 'waiting');
    await (row === 'waiting' ? fill(name) : measure(name, row));
    await system[name].stop();
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const shown = {
  enqueue: [['jobs_per_s', 'jobs/s'], ['p50_us', 'p50 us'], ['p99_us', 'p99 us'], ['server_cpu_us', 'server CPU us'],
    ['load_cpu_us', 'load CPU us']],
  pipelined: [['jobs_per_s', 'jobs/s'], ['p50_us', 'p50 us'], ['p99_us', 'p99 us'],
    ['server_cpu_us', 'server CPU us'], ['load_cpu_us', 'load CPU us']],
  latency: [['p50_us', 'p50 us'], ['p99_us', 'p99 us'], ['server_cpu_us', 'server CPU us']],
  waiting: [['rss_bytes', 'RSS bytes each'], ['own_bytes', 'own bytes each']],
};

const titles = {
  enqueue: `enqueue, ${sizes.connections} connections`,
  pipelined: `enqueue, ${sizes.connections} connections, 16 deep`,
  latency: 'enqueue to delivery at 1,000/s',
  waiting: `${sizes.waiting_jobs} jobs waiting`,
};

function print(row) {
  console.log(`\n${titles[row]}`);
  for (const name of names) {
    const cells = shown[row].map(([measure, unit]) => [samples.get(name, `${row}.${measure}`), unit])
      .filter(([list]) => list).map(([list, unit]) => `${unit} ${m.spread(list)}`);
    console.log(`  ${system[name].title.padEnd(18)} ${cells.join('; ')}`);
  }
  for (const r of RATIOS.filter((x) => x.key.startsWith(`${row}.`))) {
    const list = ratios(samples.of, r);
    if (list) console.log(`  Tenax / ${system[other(samples.of, r)].title}, ${r.title}: ${m.spread(list)}` +
      `${r.goal ? `; goal ${r.more ? '>=' : '<='} ${r.goal}` : ''}`);
  }
}

async function main() {
  const place = m.machine(work);
  const rows = m.chosen('BENCH_ROWS', Object.keys(shown));
  const versions = Object.fromEntries(names.map((n) => [n, system[n].version()]));
  m.heading(place);
  for (const n of names) console.log(`${system[n].title.padEnd(20)} ${versions[n]}`);
  for (const row of rows) {
    for (let i = 0; i < m.runs; i++)
      for (const name of names) await one(name, row);
    print(row);
  }
  if (json) m.writeJson(json, 'peers', samples, sizes, place, versions);
}

main().catch((e) => {
  console.error(`bench: ${e.message}`);
  process.exit(1);
});
