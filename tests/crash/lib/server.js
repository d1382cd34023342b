// SPDX-License-Identifier: Apache-2.0
'use strict';

// The real binary as a child process, ended by its process id whatever happens.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');

const BIN = path.resolve(process.env.TENAX_BIN || path.join(__dirname, '../../../build/tenax'));

const running = new Set();
process.on('exit', () => {
  for (const server of running) server.child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

class Server {
  constructor(rootDir, args = [], more = {}) {
    const env = { ...process.env };
    for (const name of Object.keys(env)) if (/^(TENAX|ZIZQ)_/.test(name)) delete env[name];
    Object.assign(env, more);
    this.stdout = '';
    this.stderr = '';
    this.started = performance.now();
    env.TENAX_DEFAULT_COMPLETED_JOB_RETENTION = '0';
    const own = ['--root-dir', rootDir, '--port', '0', '--admin-port', '0'];
    this.child = spawn(BIN, ['serve', ...own, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env,
    });
    running.add(this);
    this.child.stderr.on('data', (text) => (this.stderr += text));
    /** {code, signal, ms since the start}, once all its output is here. */
    this.exited = once(this.child, 'close').then(([code, signal]) => {
      running.delete(this);
      return { code, signal, at: performance.now() };
    });
    /** Its port; null if it ended before it was ready. */
    this.ready = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', () => resolve(null));
      this.child.stdout.on('data', (text) => {
        this.stdout += text;
        const match = /^Listening on http:\/\/127\.0\.0\.1:(\d+)$/m.exec(this.stdout);
        if (!match) return;
        this.readyMs = performance.now() - this.started;
        this.port = Number(match[1]);
        this.adminPort = Number(/:(\d+) \(admin\)$/m.exec(this.stdout)[1]);
        resolve(this.port);
      });
    });
  }

  /** Waits until it is ready; an early end is an error that tells what it said. */
  async listening() {
    const port = await this.ready;
    if (port === null) {
      const { code, signal } = await this.exited;
      throw new Error(`the server ended (${signal || code}) before it was ready: ${this.stderr}`);
    }
    return port;
  }

  async end(signal) {
    this.child.kill(signal);
    return this.exited;
  }
}

module.exports = { Server, BIN };
