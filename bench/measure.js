// SPDX-License-Identifier: Apache-2.0
// What the benchmarks in Node share: servers to start and stop, what they use, the generators, and
// the samples with their JSON, which has the form of bench/run.sh's.
'use strict';

const { spawn, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
const MHZ = 1e6;
const children = new Set();

process.on('exit', () => { for (const c of children) c.kill('SIGKILL'); });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

const quick = Boolean(process.env.BENCH_QUICK);
const runs = Number(process.env.BENCH_RUNS || 3);
const serve = process.env.BENCH_SERVE || ''; // further options of Tenax's server
const commitMode = process.env.BENCH_COMMIT_MODE || 'fsync';

// ---- processes ----

// Without a pipe that nobody reads: what it prints goes to a file.
function start(program, args, log, env = process.env) {
  const out = fs.openSync(log, 'a');
  const child = spawn(program, args, { stdio: ['ignore', out, out], env });
  fs.closeSync(out);
  children.add(child);
  child.ended = new Promise((done) => child.on('exit', (code, signal) => {
    children.delete(child);
    done(signal || code);
  }));
  child.on('error', () => {}); // the caller sees that it does not answer
  return child;
}

// Runs a program to its end and returns what it printed, and the CPU seconds it took.
async function run(program, args, env = {}) {
  const timed = ['-c', 'TIMEFORMAT="cpu %U %S"; time "$@"', 'bash', program, ...args];
  const child = spawn('bash', timed, { stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env, LC_ALL: 'C' } });
  let out = '', err = '';
  child.stdout.on('data', (d) => { out += d; });
  child.stderr.on('data', (d) => { err += d; });
  children.add(child);
  const code = await new Promise((done) => child.on('close', done));
  children.delete(child);
  if (code !== 0) throw new Error(`${path.basename(program)} ${args.join(' ')} ended with ${code}\n${out}${err}`);
  const [, user, system] = /cpu ([\d.]+) ([\d.]+)\s*$/.exec(err);
  return { out, cpu: Number(user) + Number(system) };
}

// A port of loopback that was free a moment ago.
async function freePort() {
  const s = net.createServer();
  await new Promise((done) => s.listen(0, '127.0.0.1', done));
  const { port } = s.address();
  await new Promise((done) => s.close(done));
  return port;
}

function answers(port) {
  return new Promise((done) => {
    const s = net.connect(port, '127.0.0.1');
    s.on('connect', () => { s.destroy(); done(true); });
    s.on('error', () => done(false));
  });
}

async function listens(child, port, log) {
  while (!await answers(port)) {
    const ended = await Promise.race([child.ended.then(() => true),
      new Promise((done) => setTimeout(done, 10, false))]);
    if (ended || child.exitCode !== null || child.pid === undefined)
      throw new Error(`${child.spawnfile} did not start\n${fs.readFileSync(log, 'utf8')}`);
  }
}

// User and system time of all threads, in seconds.
function cpuOf(pid) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

function rssOf(pid) {
  return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

class Tenax {
  constructor(binary, load, folder) {
    Object.assign(this, { binary, loader: load, folder, root: path.join(folder, 'root') });
  }

  // On what is in the folder already, if anything is.
  async start(options = []) {
    const began = process.hrtime.bigint();
    const log = fs.openSync(path.join(this.folder, 'log'), 'a');
    this.child = spawn(this.binary, ['serve', '--port', '0', '--admin-port', '0', '--root-dir', this.root,
      '--commit-mode', commitMode, ...serve.split(' ').filter(Boolean), ...options], { stdio: ['ignore', 'pipe', log] });
    fs.closeSync(log);
    children.add(this.child);
    this.ended = new Promise((done) => this.child.on('exit', (code, signal) => {
      children.delete(this.child);
      done(signal || code);
    }));
    let text = '';
    this.port = await new Promise((done, fail) => {
      this.child.stdout.on('data', (d) => {
        text += d;
        const line = /^Listening on https?:\/\/127\.0\.0\.1:(\d+)$/m.exec(text);
        if (line) done(Number(line[1]));
      });
      this.ended.then((how) => fail(new Error(`the server ended with ${how}\n${this.log()}`)));
    });
    this.startMs = Number((process.hrtime.bigint() - began) / 1000000n);
    this.pid = this.child.pid;
    return this;
  }

  async fresh(options) {
    fs.rmSync(this.root, { recursive: true, force: true });
    return this.start(options);
  }

  log() { return fs.readFileSync(path.join(this.folder, 'log'), 'utf8').slice(-4000); }

  async stop(signal = 'SIGTERM') {
    this.child.kill(signal);
    const how = await this.ended, wanted = signal === 'SIGTERM' ? 0 : signal;
    if (how !== wanted) throw new Error(`the server ended with ${how} on ${signal}\n${this.log()}`);
  }

  async load(mode, ...options) {
    const { out } = await run(this.loader, [mode, ...options.map(String), '--port', String(this.port), '--json']);
    return JSON.parse(out);
  }

  async get(where) {
    const { out } = await run(this.loader, ['get', where, '--port', String(this.port)]);
    return JSON.parse(out);
  }

  async count(query = '') { return (await this.get(`/jobs/count?${query}`)).count; }

  // Bytes of its own indexes, if it says so.
  async ownBytes() {
    const found = /"index_bytes": *(\d+)/.exec(JSON.stringify(await this.get('/health')));
    return found ? Number(found[1]) : undefined;
  }

  // Single enqueues by wrk; its count against the server's.
  async wrk({ connections = 64, depth = 1, seconds }) {
    const before = await this.count();
    const { out, cpu } = await run('wrk', ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '--timeout',
      '60s', '-s', path.join(__dirname, 'wrk.lua'), `http://127.0.0.1:${this.port}`], { BENCH_DEPTH: String(depth) });
    const line = JSON.parse(out.slice(out.lastIndexOf('\n{')));
    const more = await this.count() - before - line.jobs;
    if (more < 0 || more > connections * depth)
      throw new Error(`the server counts ${more} jobs more than the ${line.jobs} of wrk`);
    return { ...line, load_cpu_s: cpu };
  }
}

// ---- samples ----

class Samples {
  constructor() { this.of = {}; }

  add(system, key, value) { ((this.of[system] ??= {})[key] ??= []).push(value); }

  get(system, key) { return this.of[system]?.[key]; }

  // A generator's line as a row: rate, times, and the CPU of both sides for each job.
  row(system, row, line, times, serverCpu) {
    this.add(system, `${row}.jobs_per_s`, line.jobs_per_s);
    for (const p of ['p50', 'p99', 'p999'])
      if (line[`${times}_${p}_us`] !== undefined) this.add(system, `${row}.${p}_us`, line[`${times}_${p}_us`]);
    this.add(system, `${row}.server_cpu_us`, round(serverCpu * MHZ / line.jobs));
    this.add(system, `${row}.load_cpu_us`, round(line.load_cpu_s * MHZ / line.jobs));
  }
}

const round = (v, digits = 3) => Number(v.toFixed(digits));

const sorted = (list) => [...list].sort((a, b) => a - b);

const median = (list) => sorted(list)[Math.floor((list.length - 1) / 2)];

const short = (v) => (v === undefined ? '-' : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

function spread(list, show = short) {
  if (!list?.length) return '-';
  const low = show(Math.min(...list)), high = show(Math.max(...list));
  return `${show(median(list))}${low === high ? '' : ` (${low}..${high})`}`;
}

function machine(folder) {
  const read = (file, pattern) => pattern.exec(fs.readFileSync(file, 'utf8'))?.[1] ?? 'unknown';
  const df = execFileSync('df', ['--output=fstype', folder], { encoding: 'utf8' }).trim().split('\n');
  return {
    cpu: read('/proc/cpuinfo', /^model name\s*: (.*)$/m),
    cores: os.availableParallelism ? os.availableParallelism() : os.cpus().length,
    memory_mib: Math.round(os.totalmem() / 2 ** 20),
    kernel: os.release(),
    filesystem: df.at(-1),
    tcp: read('/proc/sys/net/ipv4/tcp_congestion_control', /(\S+)/),
  };
}

// Of Tenax.
const version = (binary) => execFileSync(binary, ['--version'], { encoding: 'utf8' }).trim().replace(/^tenax /, '');

// bench: run, peers or growth. sizes: what the rows were run with.
function writeJson(file, bench, samples, sizes, place, versions) {
  const whole = { schema: 1, bench, date: new Date().toISOString().slice(0, 10), machine: place,
    versions, commit_mode: commitMode, quick, runs, serve, sizes, samples: samples.of };
  fs.writeFileSync(file, `${JSON.stringify(whole)}\n`);
}

function heading(place) {
  console.log(`machine      ${place.cpu}, ${place.cores} cores, ${place.memory_mib} MiB`);
  console.log(`system       Linux ${place.kernel}; tcp ${place.tcp}; folders on ${place.filesystem}`);
  console.log(`commit mode  ${commitMode}`);
  console.log(`runs         ${runs} of each row; median (lowest..highest)` +
    `${quick ? '; BENCH_QUICK: too short to judge by' : ''}`);
}

// TENAX LOAD [--json FILE]
function commandLine() {
  const [binary, load, ...rest] = process.argv.slice(2);
  if (!load || (rest.length && (rest.length !== 2 || rest[0] !== '--json'))) {
    console.error(`usage: ${process.argv[1]} TENAX LOAD [--json FILE]`);
    process.exit(2);
  }
  return { binary: fs.realpathSync(binary), load: fs.realpathSync(load), json: rest[1] };
}

// Those of `all` that an environment variable names, by commas or blanks; all of them without it.
function chosen(variable, all) {
  const names = (process.env[variable] ?? '').split(/[\s,]+/).filter(Boolean);
  const odd = names.find((n) => !all.includes(n));
  if (odd) {
    console.error(`bench: ${variable}: there is no '${odd}', only ${all.join(', ')}`);
    process.exit(2);
  }
  return all.filter((n) => names.length === 0 || names.includes(n));
}

// On the disk of the build, because a file system in memory has no fsync to speak of.
function workFolder(binary) {
  const folder = fs.mkdtempSync(path.join(path.dirname(binary), 'bench.'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

module.exports = { quick, runs, commitMode, start, run, freePort, listens, cpuOf, rssOf, Tenax, Samples,
  round, median, short, spread, machine, heading, version, writeJson, commandLine, chosen, workFolder };
