// SPDX-License-Identifier: Apache-2.0
// A real PostgreSQL for tests: in a folder of its own below /tmp, reached by a socket there and on a
// loopback port of its own, ended with its processes. It refuses to run as root, and runs as the user
// `postgres` then. Missing PostgreSQL is a failure, not a skip: tools/setup installs it.
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
  // conf: further lines of postgresql.conf
  static async start({ conf = [], fsync = false } = {}) {
    const n = new Postgres();
    n.dir = fs.mkdtempSync(path.join('/tmp', 'tenax-pg-'));
    n.data = path.join(n.dir, 'data');
    n.port = await freePort();
    if (process.getuid() === 0) assert.strictEqual(spawnSync('chown', ['postgres:', n.dir]).status, 0);
    n.run(bin('initdb'), '-D', n.data, '-U', 'admin', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C');
    fs.appendFileSync(path.join(n.data, 'postgresql.conf'), `${[
      "listen_addresses = '127.0.0.1'", `port = ${n.port}`, `unix_socket_directories = '${n.dir}'`,
      `fsync = ${fsync ? 'on' : 'off'}`, 'shared_buffers = 64MB', 'max_connections = 60',
      'log_min_messages = warning', ...conf].join('\n')}\n`);
    await n.again();
    return n;
  }

  run(program, ...args) {
    const [p, a] = asUser(program, args);
    const end = spawnSync(p, a, { cwd: this.dir, encoding: 'utf8' });
    assert.strictEqual(end.status, 0, `${program}: ${end.error || ''}${end.stdout}${end.stderr}`);
    return end.stdout;
  }

  // Starts it (again), until it answers.
  async again() {
    const [p, a] = asUser(bin('postgres'), ['-D', this.data]);
    const out = fs.openSync(path.join(this.dir, 'output'), 'a');
    this.child = spawn(p, a, { cwd: this.dir, stdio: ['ignore', out, out] });
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

  url({ user = 'admin', db = 'postgres', port = this.port } = {}) {
    return `postgres://${user}@127.0.0.1:${port}/${db}`;
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
    if (this.child.exitCode === null && this.child.signalCode === null) await this.end();
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}

module.exports = { Postgres, tmpdir: os.tmpdir };
