// SPDX-License-Identifier: Apache-2.0
// A bridge, and a RabbitMQ seen by a client that is not Tenax's.
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const http = require('../http/harness.js');
const { caught, until } = require('../amqp/broker.js');

class Rabbit {
  constructor(port) {
    this.child = spawn('/usr/bin/python3', [path.join(__dirname, 'rabbit.py'), String(port)],
      { stdio: ['pipe', 'pipe', 'inherit'] });
    this.waiting = [];
    let rest = '';
    this.child.stdout.on('data', (d) => {
      const lines = (rest + d).split('\n');
      rest = lines.pop();
      for (const line of lines) this.waiting.shift()(JSON.parse(line));
    });
    this.child.on('exit', () => {
      for (const w of this.waiting.splice(0)) w({ error: 'rabbit.py has ended' });
    });
  }

  // {is} or {error}
  try(order) {
    return new Promise((done) => {
      this.waiting.push(done);
      this.child.stdin.write(`${JSON.stringify(order)}\n`);
    });
  }

  async do(order) {
    const { is, error } = await this.try(order);
    assert.ok(error === undefined, error);
    return is;
  }

  queue(queue, options = {}) { return this.do({ do: 'queue', queue, ...options }); }

  exchange(exchange, type = 'topic') { return this.do({ do: 'exchange', exchange, type }); }

  count(queue) { return this.do({ do: 'count', queue }); }

  delete(queue) { return this.do({ do: 'delete', queue }); }

  // Bodies are texts, buffers, or values that become JSON.
  publish(messages) { return this.do({ do: 'publish', messages: messages.map(encode) }); }

  tryToPublish(messages) { return this.try({ do: 'publish', messages: messages.map(encode) }); }

  async drain(queue, max) {
    return (await this.do({ do: 'drain', queue, ...(max ? { max } : {}) })).map(decode);
  }

  // Takes messages until there are so many, and then there is no further one.
  async take(queue, count) {
    const found = [];
    await until(() => `${count} messages in ${queue}, not ${found.length}`, async () => {
      found.push(...await this.drain(queue));
      return found.length >= count;
    });
    assert.equal(found.length, count, JSON.stringify(found.map((m) => m.text)));
    return found;
  }

  close() { this.child.stdin.end(); }
}

function encode({ body, ...rest }) {
  const bytes = Buffer.isBuffer(body) || typeof body === 'string' ? Buffer.from(body)
    : Buffer.from(JSON.stringify(body));
  return { ...rest, body: bytes.toString('base64') };
}

function decode(m) {
  const bytes = Buffer.from(m.body, 'base64');
  return { ...m, bytes, text: bytes.toString() };
}

const running = new Set();

class Bridge {
  // port: of RabbitMQ; server: a Server; dir: of its state
  constructor(port, url, args, { env = {}, dir, name } = {}) {
    this.dir = dir ?? fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bridge-'));
    this.args = ['bridge', 'rabbitmq', '--amqp', `amqp://guest@127.0.0.1:${port}`, '--server', url,
      '--state-dir', path.join(this.dir, 'state'), '--metrics-port', '0',
      ...(name ? ['--name', name] : []), ...args];
    this.env = { ...process.env, TENAX_URL: '', ...env };
    this.errors = '';
  }

  start() {
    this.child = spawn(http.BIN, this.args, { env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.child.stderr.on('data', (d) => { this.errors += d; });
    this.exited = new Promise((done) => this.child.on('exit', (code, signal) => done(code ?? signal)));
    running.add(this.child);
    this.exited.then(() => running.delete(this.child));
    return this;
  }

  said(pattern) {
    return until(() => `"${pattern}" in\n${this.errors}`, () => this.errors.match(pattern));
  }

  async get(target) {
    const [, port] = await this.said(/metrics on http:\/\/127\.0\.0\.1:(\d+)/);
    const res = await fetch(`http://127.0.0.1:${port}${target}`);
    return { status: res.status, text: await res.text() };
  }

  async metric(name) {
    const { text } = await this.get('/metrics');
    const line = text.split('\n').find((l) => l.startsWith(`tenax_bridge_${name} `));
    assert.ok(line, `${name} in ${text}`);
    return Number(line.split(' ')[1]);
  }

  async end(signal) {
    if (signal !== 'SIGKILL') await caught(this.child.pid, signal);
    this.child.kill(signal);
    return this.exited;
  }

  async kill() { assert.equal(await this.end('SIGKILL'), 'SIGKILL', this.errors); }

  // In good order.
  async stop() { assert.equal(await this.end('SIGTERM'), 0, this.errors); }

  remove() { fs.rmSync(this.dir, { recursive: true, force: true }); }
}

function killAll() {
  for (const child of running) child.kill('SIGKILL');
}

module.exports = { ...http, Rabbit, Bridge, killAll, until };
