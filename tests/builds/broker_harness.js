// SPDX-License-Identifier: Apache-2.0
// Probes for tests of the brokers of builds: broker_probe speaks for the build worker, amqp_probe
// for everybody else at RabbitMQ.
'use strict';

const assert = require('node:assert');
const { spawn, execFile } = require('node:child_process');
const path = require('node:path');
const { until } = require('../amqp/broker.js');

const BIN = path.resolve(process.env.TENAX_BIN || 'build/tenax');
const TESTS = path.join(path.dirname(BIN), 'tests');

const probes = new Set();

// A program that takes orders line by line, and says what happens line by line.
class Program {
  constructor(file, args, env) {
    this.lines = [];
    this.rest = '';
    this.errors = '';
    this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { PATH: process.env.PATH, ...env } });
    this.child.stderr.on('data', (d) => { this.errors += d; });
    this.child.stdout.on('data', (d) => {
      const parts = (this.rest + d).split('\n');
      this.rest = parts.pop();
      this.lines.push(...parts);
    });
    this.exited = new Promise((done) => this.child.on('exit', (code, signal) => {
      this.over = `exit ${code ?? signal}`;
      done(code ?? signal);
    }));
    this.child.stdin.on('error', () => {}); // what it has to say is its exit code
    probes.add(this);
  }

  say(line) { this.child.stdin.write(`${line}\n`); }

  all(start) { return this.lines.filter((l) => l.startsWith(start)); }

  async saw(start, count = 1) {
    await until(() => `${count} × '${start}' in\n${this.lines.slice(-30).join('\n')}\n${this.errors}`,
      () => this.all(start).length >= count || this.over);
    assert.ok(this.all(start).length >= count, `ended with ${this.over}: ${this.errors}`);
    return this.all(start);
  }

  logged(what) {
    return until(() => `${what} in the log:\n${this.errors}`, () => what.test(this.errors));
  }

  kill() {
    this.child.kill('SIGKILL');
    return this.exited;
  }

  async close() {
    this.say('close');
    probes.delete(this);
    const code = await this.exited;
    assert.strictEqual(code, 0, `${code}: ${this.errors}\n${this.lines.slice(-10).join('\n')}`);
  }
}

function killAll() {
  for (const p of probes) p.child.kill('SIGKILL'); // of tests that failed
}

// The build worker's side. Deliveries are parsed: {n, channel, failures, looks, started, at, body}.
class Worker extends Program {
  constructor(env) { super(path.join(TESTS, 'builds', 'broker_probe'), [], env); }

  deliveries() {
    return this.all('delivered ').map((l) => {
      const w = l.split(' ');
      return { n: Number(w[1]), channel: w[2], failures: Number(w[3]), looks: Number(w[4]),
        started: Number(w[5]), at: Number(w[6]), body: w.slice(7).join(' ') };
    });
  }

  async delivered(n) {
    await this.saw(`delivered ${n} `);
    return this.deliveries()[n - 1];
  }

  async state() {
    const before = this.all('state ').length;
    this.say('state');
    const lines = await this.saw('state ', before + 1);
    return Object.fromEntries(lines[before].split(' ').slice(1).map((w) => {
      const [k, v] = w.split('=');
      return [k, Number(v)];
    }));
  }

  ready() { return until('it consumes', async () => (await this.state()).consuming === 1); }
}

// Everybody else at a RabbitMQ.
class Client extends Program {
  constructor(port, queues = []) {
    super(path.join(TESTS, 'amqp', 'amqp_probe'), [`127.0.0.1:${port}`, '100', '60000', ...queues],
      { PROBE_HEADERS: '1' });
    this.id = 0;
  }

  async post(exchange, key, body, headers = '-', expiration = -1) {
    this.id++;
    this.say(`post ${this.id} ${exchange} ${key} ${expiration} ${headers} ${body}`);
    await this.saw(`published ${this.id} confirmed`);
  }
}

function tenax(args, env) {
  return new Promise((done) => {
    execFile(BIN, args, { env: { PATH: process.env.PATH, ...env } },
      (e, out, err) => done({ code: e ? e.code : 0, out, err }));
  });
}

module.exports = { Program, Worker, Client, killAll, tenax, BIN, TESTS };
