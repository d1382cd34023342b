// SPDX-License-Identifier: Apache-2.0
// Machines of a network, for tests: each is a network namespace with one cable to a router, which is
// the namespace of the test itself. A cut between two of them drops their packets without a word, as
// a broken cable does; nothing is refused. It needs root, and whoever lacks it fails.
'use strict';

const assert = require('node:assert');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');

const MINE = 'TENAX_TEST_NETWORK'; // set in a process that has a network of its own

// Runs the file again in a namespace of its own, and ends with it. Returns in the process that is there.
function inOwnNetwork(file) {
  if (process.env[MINE]) return;
  const end = spawnSync('setpriv', ['--pdeathsig', 'KILL', 'unshare', '--net', '--ipc', '--',
    process.execPath, ...process.execArgv, file], { stdio: 'inherit', env: { ...process.env, [MINE]: '1' } });
  process.exit(end.status ?? 1);
}

function ip(...args) {
  const end = spawnSync('ip', args, { encoding: 'utf8' });
  assert.strictEqual(end.status, 0, `ip ${args.join(' ')}: ${end.error || ''}${end.stderr}`);
}

class Machine {
  constructor(name, number) {
    this.name = name;
    this.address = `10.77.${number}.2`;
    this.router = `10.77.${number}.1`;
    this.cable = `cable${number}`;
  }

  // The namespace lives as long as its first process, which ends with the test.
  async start() {
    this.init = spawn('setpriv', ['--pdeathsig', 'KILL', 'unshare', '--net', '--', 'cat'],
      { stdio: ['pipe', 'ignore', 'inherit'] });
    this.space = `/proc/${this.init.pid}/ns/net`;
    const here = fs.readlinkSync('/proc/self/ns/net');
    for (const end = Date.now() + 60000; fs.readlinkSync(this.space) === here;) {
      assert.ok(Date.now() < end && this.init.exitCode === null, 'a network namespace can be made');
      await new Promise((done) => setTimeout(done, 5));
    }
    ip('link', 'add', this.cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(this.init.pid));
    ip('addr', 'add', `${this.router}/30`, 'dev', this.cable);
    ip('link', 'set', this.cable, 'up');
    for (const args of [['link', 'set', 'lo', 'up'], ['addr', 'add', `${this.address}/30`, 'dev', 'eth0'],
      ['link', 'set', 'eth0', 'up'], ['route', 'add', 'default', 'via', this.router]]) {
      const end = spawnSync(...this.enter('ip', args), { encoding: 'utf8' });
      assert.strictEqual(end.status, 0, end.stderr);
    }
    return this;
  }

  // What runs a program there, in the process that is started.
  enter(program, args) {
    return ['nsenter', [`--net=${this.space}`, '--', program, ...args]];
  }
}

class Network {
  // In a process that has a network of its own.
  static async start(...names) {
    assert.ok(process.env[MINE], 'inOwnNetwork comes first');
    const n = new Network();
    n.cuts = new Map();
    n.machines = {};
    ip('link', 'set', 'lo', 'up');
    fs.writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
    for (const name of names) n.machines[name] = await new Machine(name, Object.keys(n.machines).length + 1).start();
    return n;
  }

  // Both ways, whatever is under way between them.
  cut(a, b) {
    const key = [a.name, b.name].sort().join();
    if (this.cuts.has(key)) return;
    this.cuts.set(key, [a, b]);
    for (const [from, to] of [[a, b], [b, a]]) ip('rule', 'add', 'blackhole', 'from', from.address, 'to', to.address);
  }

  // From all others; the test still reaches it.
  isolate(machine) {
    for (const other of Object.values(this.machines)) if (other !== machine) this.cut(machine, other);
  }

  mend() {
    for (const [a, b] of this.cuts.values())
      for (const [from, to] of [[a, b], [b, a]]) ip('rule', 'del', 'blackhole', 'from', from.address, 'to', to.address);
    this.cuts.clear();
  }

  stop() {
    for (const m of Object.values(this.machines)) m.init.kill('SIGKILL');
  }
}

module.exports = { Network, inOwnNetwork };
