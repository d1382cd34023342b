// SPDX-License-Identifier: Apache-2.0
'use strict';

// A proxy between a process and what it asks, through which every request of the process can be made
// the moment of a crash: when it is asked and has no effect yet, when it has had its effect and
// nobody has been told, and when the answer has been sent.

const http = require('node:http');

const MOMENTS = ['asked', 'done', 'told'];

/* Answers that never end of themselves; what arrives of them is passed on as it comes. */
const isStream = (url) => /[?&]watch=/.test(url) || /^\/events/.test(url);

class Gate {
  /** at(moment, 'GET /path') is called at every moment of every request. */
  constructor(at) {
    this.at = at;
    this.agent = new http.Agent({ keepAlive: true });
    this.target = null; // {host, port}; null: nobody is there
  }

  async listen() {
    this.server = http.createServer({ keepAliveTimeout: 120000 },
      (req, res) => this.handle(req, res));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
  }

  async handle(req, res) {
    const name = `${req.method} ${req.url.split('?')[0]}`;
    const parts = [];
    res.on('error', () => {});
    req.on('error', () => {});
    for await (const part of req) parts.push(part);
    this.at('asked', name);
    if (!this.target || res.destroyed) {
      res.destroy();
      return;
    }
    const { host, port } = this.target;
    const up = http.request({ host, port, method: req.method, path: req.url, agent: this.agent,
      headers: { ...req.headers, host: `${host}:${port}` } },
    (answer) => (isStream(req.url) ? this.pass(answer, res) : this.answer(name, answer, res)));
    up.on('error', () => res.destroy());
    res.on('close', () => up.destroy());
    up.end(Buffer.concat(parts));
  }

  pass(answer, res) {
    res.writeHead(answer.statusCode, answer.headers);
    res.flushHeaders();
    answer.on('error', () => res.destroy());
    answer.pipe(res);
  }

  async answer(name, answer, res) {
    const parts = [];
    try {
      for await (const part of answer) parts.push(part);
    } catch {
      res.destroy();
      return;
    }
    this.at('done', name);
    res.writeHead(answer.statusCode, answer.headers);
    res.end(Buffer.concat(parts), () => this.at('told', name));
  }

  /** Who asked is dead: what it asked is given up now, as the kernel would without a gate. Else the
   * server could still hand a job to the gate, after the next one has asked what is in flight. */
  hangUp() {
    this.server.closeAllConnections();
  }

  close() {
    this.server.closeAllConnections();
    this.agent.destroy();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

module.exports = { Gate, MOMENTS };
