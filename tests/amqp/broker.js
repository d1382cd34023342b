// SPDX-License-Identifier: Apache-2.0
// A real RabbitMQ for tests: a node of its own, in a folder of its own, on loopback ports of its
// own, ended with its processes. And a wire to it that tests can cut, freeze or stop.
'use strict';

const assert = require('node:assert');
const { spawn, execFile } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const BIN = '/usr/lib/rabbitmq/bin';
const START_MS = 240000; // ends what hangs; nothing that works comes near it

function isFree(port) {
  return new Promise((done) => {
    const s = net.createServer();
    s.on('error', () => done(false));
    s.listen(port, '127.0.0.1', () => s.close(() => done(true)));
  });
}

// What RabbitMQ says of a port or a name that somebody else has.
const IN_USE = /eaddrinuse|in use/i;

// Below those that the system gives to whoever connects: one of these would be taken by a connection of
// anybody between now and the time when it is listened on, or while a broker is restarted.
const PORTS_FROM = 10000;
const PORTS = 22000;
let nextPort = process.pid * 61 % PORTS;

async function freePorts(count) {
  const ports = [];
  while (ports.length < count) {
    const port = PORTS_FROM + nextPort++ % PORTS;
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

function answers(port) {
  return new Promise((done) => {
    const s = net.connect(port, '127.0.0.1');
    s.on('connect', () => { s.destroy(); done(true); });
    s.on('error', () => done(false));
  });
}

async function until(what, check, ms = START_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`after ${ms} ms still not: ${typeof what === 'function' ? what() : what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

// A signal that comes before the program has a handler for it, ends it.
async function caught(pid, signal) {
  const bit = 1n << BigInt(os.constants.signals[signal] - 1);
  await until(`${pid} handles ${signal}`, () => {
    try {
      const mask = /^SigCgt:\s+(\w+)$/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1];
      return BigInt(`0x${mask}`) & bit;
    } catch {
      return true; // it has ended
    }
  });
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

class Broker {
  // tls: {ca, cert, key} files; conf: further lines of rabbitmq.conf; enabledPlugins: names; erlang:
  // options of its virtual machine, which takes one core unless they say otherwise
  constructor(folder, ports, { tls, conf = [], enabledPlugins = [], erlang = '+S 1:1 +sbwt none' } = {}) {
    [this.port, this.tlsPort, this.distPort, this.epmdPort] = ports;
    this.folder = folder;
    const lines = ['loopback_users.guest = true', 'log.file.level = warning',
      `listeners.tcp.1 = 127.0.0.1:${this.port}`, ...conf];
    if (tls)
      lines.push(`listeners.ssl.1 = 127.0.0.1:${this.tlsPort}`, `ssl_options.cacertfile = ${tls.ca}`,
        `ssl_options.certfile = ${tls.cert}`, `ssl_options.keyfile = ${tls.key}`,
        'ssl_options.verify = verify_peer',
        `ssl_options.fail_if_no_peer_cert = ${tls.clientCert ? 'true' : 'false'}`);
    fs.writeFileSync(path.join(folder, 'rabbit.conf'), `${lines.join('\n')}\n`);
    fs.writeFileSync(path.join(folder, 'plugins'), `[${enabledPlugins.join(',')}].\n`);
    this.env = {
      PATH: process.env.PATH,
      HOME: folder,
      LANG: 'C.UTF-8',
      RABBITMQ_NODENAME: `tenax${this.port}@localhost`,
      RABBITMQ_DIST_PORT: String(this.distPort),
      ERL_EPMD_PORT: String(this.epmdPort),
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_MNESIA_BASE: path.join(folder, 'db'),
      RABBITMQ_LOG_BASE: path.join(folder, 'log'),
      RABBITMQ_CONF_ENV_FILE: path.join(folder, 'none'),
      RABBITMQ_CONFIG_FILE: path.join(folder, 'rabbit'),
      RABBITMQ_ENABLED_PLUGINS_FILE: path.join(folder, 'plugins'),
      RABBITMQ_PID_FILE: path.join(folder, 'pid'),
      RABBITMQ_GENERATED_CONFIG_DIR: path.join(folder, 'gen'),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
        `${erlang} -kernel inet_dist_use_interface {127,0,0,1}`.trim(),
    };
  }

  // What the last node has left, as its name at the port mapper, may be in the way for a moment.
  async start() {
    for (let tries = 1; ; tries++) {
      const before = this.output().length;
      try {
        return await this.launch();
      } catch (err) {
        if (tries === 3 || !IN_USE.test(this.output().slice(before))) throw err;
      }
    }
  }

  async launch() {
    const log = fs.openSync(path.join(this.folder, 'out'), 'a');
    this.child = spawn(path.join(BIN, 'rabbitmq-server'), [],
      { env: this.env, stdio: ['ignore', log, log] });
    fs.closeSync(log);
    this.exited = new Promise((done) => this.child.on('exit', done));
    const ended = this.exited.then(() => { throw new Error(this.output()); });
    ended.catch(() => {});
    const ready = until('RabbitMQ has started', async () =>
      /Starting broker\.\.\. completed/.test(this.output().split('Starting broker').length > 1
        ? this.output().slice(this.output().lastIndexOf('Starting broker')) : '') &&
      await answers(this.port));
    await Promise.race([ready, ended]);
    this.pid = Number(fs.readFileSync(path.join(this.folder, 'pid'), 'utf8'));
    return this;
  }

  output() {
    const out = path.join(this.folder, 'out');
    return fs.existsSync(out) ? fs.readFileSync(out, 'utf8') : '';
  }

  // The node's process is a child of the script's.
  async end(signal) {
    if (alive(this.pid)) process.kill(this.pid, signal);
    await this.exited;
    await until('RabbitMQ has ended', () => !alive(this.pid));
  }

  async restart(signal = 'SIGTERM') {
    await this.end(signal);
    await this.start();
  }

  ctl(...args) {
    return new Promise((done, fail) => {
      execFile(path.join(BIN, 'rabbitmqctl'), ['-q', ...args], { env: this.env },
        (e, out, err) => (e ? fail(new Error(`${e.message}\n${out}${err}`)) : done(out)));
    });
  }

  async stop() {
    await this.end('SIGTERM');
    await this.remove();
  }

  async remove() {
    // The port mapper was started by this node, in its environment and for its port alone.
    await new Promise((done) => {
      execFile('epmd', ['-port', String(this.epmdPort), '-kill'], { env: this.env }, done);
    });
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

// Missing RabbitMQ is a failure, not a skip: tools/setup installs it.
async function startBroker(options) {
  assert.ok(fs.existsSync(path.join(BIN, 'rabbitmq-server')), 'rabbitmq-server is not installed');
  for (let tries = 1; ; tries++) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-rabbit-'));
    const broker = new Broker(folder, await freePorts(4), options);
    try {
      return await broker.start();
    } catch (err) {
      broker.child.kill('SIGKILL');
      await broker.remove();
      if (tries === 3 || !IN_USE.test(err.message)) throw err; // else somebody has taken a port meanwhile
    }
  }
}

// A TCP proxy to the broker: cut() ends all connections, freeze() passes nothing on but keeps them,
// thaw() goes on; refuse(true) accepts no new ones. `down` and `up` limit freezing to a direction.
class Wire {
  constructor(target) {
    this.target = target;
    this.pairs = new Set();
    this.frozen = { up: false, down: false };
    this.server = net.createServer((a) => this.accept(a));
  }

  async listen() {
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.port = this.server.address().port;
    return this;
  }

  accept(a) {
    if (this.refusing) {
      a.destroy();
      return;
    }
    const b = net.connect(this.target, '127.0.0.1');
    const pair = { a, b };
    const end = () => {
      a.destroy();
      b.destroy();
      this.pairs.delete(pair);
    };
    this.pairs.add(pair);
    for (const [from, to, way] of [[a, b, 'up'], [b, a, 'down']]) {
      from.on('data', (bytes) => { if (!this.frozen[way]) to.write(bytes); });
      from.on('close', end);
      from.on('error', end);
    }
  }

  refuse(on) { this.refusing = on; }

  // What arrives meanwhile is lost, as on a network that drops everything.
  freeze(...ways) { for (const w of ways.length ? ways : ['up', 'down']) this.frozen[w] = true; }

  thaw() { this.frozen = { up: false, down: false }; }

  cut() {
    for (const { a, b } of this.pairs) {
      a.destroy();
      b.destroy();
    }
  }

  async close() {
    this.cut();
    await new Promise((done) => this.server.close(done));
  }
}

module.exports = { startBroker, caught, freePorts, until, Wire };
