// SPDX-License-Identifier: Apache-2.0
// A real PostgreSQL for tests: in a folder of its own below /tmp, reached by a socket there and on a
// loopback port of its own, or at the address of a machine of network.js; ended with its processes. It
// refuses to run as root, and runs as the user `postgres` then. Missing PostgreSQL is a failure, not a
// skip: tools/setup installs it.
'use strict';

const assert = require('node:assert');
const { spawn, spawnSync, execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { freePorts } = require('../amqp/broker.js');

const VERSIONS = '/usr/lib/postgresql';

function bin(name) {
  const newest = fs.readdirSync(VERSIONS).sort((a, b) => b - a)[0];
  return path.join(VERSIONS, newest, 'bin', name);
}

async function freePort() {
  return (await freePorts(1))[0];
}

// As the user that PostgreSQL may run as.
function asUser(program, args) {
  return process.getuid() === 0
    ? ['setpriv', ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', '--pdeathsig', 'QUIT', program, ...args]]
    : [program, args];
}

class Postgres {
  constructor(machine, port) {
    this.machine = machine;
    this.address = machine ? machine.address : '127.0.0.1';
    this.port = port;
    this.dir = fs.mkdtempSync(path.join('/tmp', 'tenax-pg-'));
    this.data = path.join(this.dir, 'data');
    if (process.getuid() === 0) assert.strictEqual(spawnSync('chown', ['postgres:', this.dir]).status, 0);
  }

  // conf: further lines of postgresql.conf; machine: where it runs; env: further variables of its
  // processes
  static async start({ conf = [], fsync = false, machine = null, env = {} } = {}) {
    const n = new Postgres(machine, machine ? 5432 : await freePort());
    n.env = env;
    n.run(bin('initdb'), '-D', n.data, '-U', 'admin', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C');
    if (machine)
      for (const db of ['all', 'replication'])
        fs.appendFileSync(path.join(n.data, 'pg_hba.conf'), `host ${db} all 0.0.0.0/0 trust\n`);
    n.set(n.own(), `fsync = ${fsync ? 'on' : 'off'}`, 'shared_buffers = 64MB', 'max_connections = 60',
      'log_min_messages = warning', ...conf);
    await n.again();
    return n;
  }

  // A standby of another one, on another machine.
  static async standbyOf(primary, machine, conf = []) {
    const n = new Postgres(machine, primary.port);
    n.run(bin('pg_basebackup'), '-h', primary.dir, '-p', String(primary.port), '-U', 'admin', '-D', n.data,
      '--checkpoint=fast', '--no-sync', '--wal-method=stream');
    n.set(n.own(), ...conf, `primary_conninfo = 'host=${primary.address} port=${primary.port} user=admin'`);
    fs.writeFileSync(path.join(n.data, 'standby.signal'), '');
    await n.again();
    return n;
  }

  // What is of this one only.
  own() {
    return `listen_addresses = '${this.address}'\nport = ${this.port}\nunix_socket_directories = '${this.dir}'`;
  }

  // Lines of its configuration, of which the last ones count; it reads them at the next start or SIGHUP.
  set(...lines) {
    fs.appendFileSync(path.join(this.data, 'postgresql.conf'), `${lines.join('\n')}\n`);
  }

  run(program, ...args) {
    const [p, a] = asUser(program, args);
    const end = spawnSync(p, a, { cwd: this.dir, encoding: 'utf8' });
    assert.strictEqual(end.status, 0, `${program}: ${end.error || ''}${end.stdout}${end.stderr}`);
    return end.stdout;
  }

  // Starts it (again), until it answers.
  async again() {
    let [p, a] = asUser(bin('postgres'), ['-D', this.data]);
    if (this.machine) [p, a] = this.machine.enter(p, a);
    const out = fs.openSync(path.join(this.dir, 'output'), 'a');
    this.child = spawn(p, a, { cwd: this.dir, env: { ...process.env, ...this.env }, stdio: ['ignore', out, out] });
    fs.closeSync(out);
    this.exited = new Promise((done) => this.child.on('exit', done));
    for (const end = Date.now() + 240000; ;) {
      if (this.child.exitCode !== null || Date.now() > end)
        throw new Error(fs.readFileSync(path.join(this.dir, 'output'), 'utf8'));
      if ((await this.psql('SELECT 1')).code === 0) return this;
      await new Promise((done) => setTimeout(done, 20));
    }
  }

  // SIGQUIT ends it as a crash does, SIGINT in order.
  async end(signal = 'SIGQUIT') {
    this.child.kill(signal);
    await this.exited;
  }

  // Sends a signal to all of its processes at once, as what happens to a machine does.
  signal(signal) {
    this.child.kill(signal === 'SIGCONT' ? 'SIGCONT' : 'SIGSTOP'); // it starts none meanwhile
    for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === this.child.pid) process.kill(Number(pid), signal);
      } catch { /* it has ended */ }
    this.child.kill(signal);
  }

  url({ user = 'admin', db = 'postgres', port = this.port } = {}) {
    return `postgres://${user}@${this.address}:${port}/${db}`;
  }

  psql(sql, { user = 'admin', db = 'postgres' } = {}) {
    return new Promise((done) => {
      const child = execFile('psql', ['-X', '-q', '-t', '-A', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
        '-h', this.dir, '-p', String(this.port), '-U', user, '-d', db, '-f', '-'],
      (e, stdout, stderr) => done({ code: e ? e.code : 0, stdout: stdout.trim(), stderr }));
      child.stdin.end(sql);
    });
  }

  // The rows of a statement that must succeed, each an array of texts.
  async rows(sql, options) {
    const end = await this.psql(sql, options);
    assert.strictEqual(end.code, 0, end.stderr);
    return end.stdout === '' ? [] : end.stdout.split('\n').map((line) => line.split('|'));
  }

  async value(sql, options) {
    return (await this.rows(sql, options))[0]?.[0];
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.signal('SIGCONT');
      await this.end();
    }
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}

module.exports = { Postgres, tmpdir: os.tmpdir };
