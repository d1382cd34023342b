// SPDX-License-Identifier: Apache-2.0
// Several real servers on one real PostgreSQL, for tests: each with a folder and a port of its own on
// the loopback, killed with the test whatever becomes of it.
'use strict';

const assert = require('node:assert');
const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { Postgres } = require('./node.js');

const BIN = path.resolve(process.env.TENAX_BIN || 'build/tenax');
const DEADLINE_MS = 120000; // ends what hangs; nothing that works comes near it

const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Asks again until the answer is true, and returns it.
async function until(ask, what) {
  for (const end = Date.now() + DEADLINE_MS; ;) {
    const answer = await ask();
    if (answer) return answer;
    assert.ok(Date.now() < end, `never came true: ${what}`);
    await sleep(20);
  }
}

// One request on a connection of its own: {status, headers, text, json}; rejects if there is no answer,
// or none in time.
function ask(url, method, target, body, headers = {}, limit = DEADLINE_MS) {
  return new Promise((done, fail) => {
    const request = http.request(url + target, {
      method, agent: false,
      headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers },
    }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (piece) => { text += piece; });
      answer.on('error', fail);
      answer.on('end', () => {
        if (!answer.complete) { fail(new Error('the answer ended early')); return; }
        let json;
        try { json = JSON.parse(text); } catch { /* not all answers are JSON */ }
        done({ status: answer.statusCode, headers: answer.headers, text, json });
      });
    });
    const timer = setTimeout(() => request.destroy(new Error('no answer in time')), limit);
    request.on('close', () => clearTimeout(timer));
    request.on('error', fail);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

// A server with --postgres, or by itself, on a machine of network.js if one is given. It is given the same port when
// it starts again.
class Member {
  constructor(postgres, args = [], machine = null) {
    this.postgres = postgres;
    this.args = machine ? ['--host', machine.address, '--insecure', ...args] : args;
    this.machine = machine;
    this.dir = fs.mkdtempSync('/tmp/tenax-member-');
    this.port = 0;
    this.stderr = '';
  }

  async start({ args = [], env = {} } = {}) {
    const serve = ['serve', '--root-dir', this.dir, '--port', String(this.port), '--admin-port', '0',
      '--log-level', 'info', ...(this.postgres ? ['--postgres', this.postgres.url()] : []), ...this.args, ...args];
    const [program, argv] = this.machine ? this.machine.enter(BIN, serve) : [BIN, serve];
    this.child = spawn(program, argv, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    this.ended = new Promise((done) => this.child.on('close', (code, signal) => {
      running.delete(this.child);
      done({ code, signal });
    }));
    let said = '';
    this.child.stderr.on('data', (t) => { this.stderr += t; });
    this.child.stdout.on('data', (t) => { said += t; });
    await until(() => {
      assert.ok(running.has(this.child), `it has ended: ${this.stderr}`);
      const m = /Listening on (\S+:(\d+))\n/.exec(said);
      if (m) [, this.url, this.port] = m;
      this.admin = /Listening on (\S+) \(admin\)/.exec(said)?.[1];
      return m;
    }, `a server listens; it said ${this.stderr}`);
    return this;
  }

  ask(method, target, body, headers) {
    return ask(this.url, method, target, body, headers);
  }

  // Until it is there: 503 and broken connections are tried again, as clients do.
  async get(target) {
    return until(async () => {
      const answer = await this.ask('GET', target).catch(() => null);
      return answer && answer.status === 200 ? answer.json : null;
    }, `GET ${target}`);
  }

  async health(limit) {
    return (await ask(this.url, 'GET', '/health', undefined, {}, limit).catch(() => null))?.json;
  }

  async until(role) {
    return until(async () => {
      const health = await this.health();
      return health?.status === 'ok' && health.role === role ? health : null;
    }, `${this.url} is ${role}; it said ${this.stderr.slice(-2000)}`);
  }

  kill(signal = 'SIGKILL') {
    this.child.kill(signal);
    return this.ended;
  }

  async stop() {
    if (this.child && running.has(this.child)) {
      this.child.kill('SIGCONT');
      await this.kill();
    }
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}

// A PostgreSQL with the schema, and so many servers, the first of which is the owner.
async function together(count, { args = [], ...settings } = {}) {
  const postgres = await Postgres.start(settings);
  const end = await tenax(['postgres', 'install', '--postgres', postgres.url()]);
  assert.strictEqual(end.code, 0, end.stderr);
  const members = [];
  for (let i = 0; i < count; i++) {
    members.push(await new Member(postgres, args).start());
    await members[i].until(i === 0 ? 'owner' : 'standby');
  }
  return {
    postgres, members,
    async stop() {
      for (const m of members) await m.stop();
      await postgres.stop();
    },
  };
}

function tenax(args, env = {}, timeout = 0) {
  return new Promise((done) => {
    execFile(BIN, args, { timeout, env: { ...process.env, ...env } },
      (e, stdout, stderr) => done({ code: e ? e.code : 0, stdout, stderr }));
  });
}

module.exports = { BIN, Member, ask, sleep, tenax, together, until };
