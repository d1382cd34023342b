// SPDX-License-Identifier: Apache-2.0
'use strict';

// HTTP/1.1 by hand: the harness must know which replies arrived before the server died,
// and must pipeline, which Node's own client does not.

const net = require('node:net');

/* The type of bodies that are bytes. */
const BYTES = 'application/octet-stream';

/** The connection ended before the reply was complete: what was asked is in doubt. */
class Lost extends Error {}

/** Cuts a byte stream into replies; calls head(reply), data(bytes), end() on its handler. */
class ReplyParser {
  constructor(handler) {
    this.handler = handler;
    this.left = Buffer.alloc(0);
    this.step = this.readHead;
  }

  feed(bytes) {
    this.left = this.left.length ? Buffer.concat([this.left, bytes]) : bytes;
    while (this.step());
  }

  take(n) {
    const bytes = this.left.subarray(0, n);
    this.left = this.left.subarray(n);
    return bytes;
  }

  line() {
    const end = this.left.indexOf('\r\n');
    return end < 0 ? null : this.take(end + 2).toString('latin1', 0, end);
  }

  readHead() {
    const end = this.left.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const lines = this.take(end + 4).toString('latin1', 0, end).split('\r\n');
    const headers = {};
    for (const line of lines.slice(1)) {
      const colon = line.indexOf(':');
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
    this.handler.head({ status: Number(lines[0].split(' ')[1]), headers });
    this.need = Number(headers['content-length'] || 0);
    this.step = headers['transfer-encoding'] === 'chunked' ? this.readChunkSize : this.readBody;
    return true;
  }

  /** Passes on what has come of the bytes that are due; whether they are complete. */
  pass() {
    const bytes = this.take(Math.min(this.need, this.left.length));
    this.need -= bytes.length;
    if (bytes.length) this.handler.data(bytes);
    return this.need === 0;
  }

  readBody() {
    if (!this.pass()) return false;
    this.step = this.readHead;
    this.handler.end();
    return true;
  }

  readChunkSize() {
    const line = this.line();
    if (line === null) return false;
    this.need = parseInt(line, 16);
    this.step = this.need ? this.readChunk : this.readTrailer;
    return true;
  }

  readChunk() {
    if (!this.pass()) return false;
    this.step = this.readChunkEnd;
    return true;
  }

  readChunkEnd() {
    if (this.line() === null) return false;
    this.step = this.readChunkSize;
    return true;
  }

  readTrailer() {
    const line = this.line();
    if (line === null) return false;
    if (line !== '') return true;
    this.step = this.readHead;
    this.handler.end();
    return true;
  }
}

function head(method, path, headers, length, type = 'application/json') {
  let text = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n`;
  for (const [name, value] of Object.entries(headers || {})) text += `${name}: ${value}\r\n`;
  if (length !== null) text += `Content-Type: ${type}\r\nContent-Length: ${length}\r\n`;
  return `${text}\r\n`;
}

/** A keep-alive connection; requests may be sent before earlier ones are answered. */
class Connection {
  constructor(port) {
    this.waiting = [];
    this.lost = false;
    this.socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    const parser = new ReplyParser({
      head: (reply) => Object.assign(this.waiting[0], { reply, parts: [] }),
      data: (bytes) => this.waiting[0].parts.push(bytes),
      end: () => this.answer(this.waiting.shift()),
    });
    this.socket.on('data', (bytes) => parser.feed(bytes));
    this.socket.on('error', (error) => (this.error = error));
    /** True if the server shut down its side in order, false after a reset. */
    this.closed = new Promise((resolve) => {
      this.socket.on('close', () => {
        this.lost = true;
        for (const w of this.waiting.splice(0)) w.reject(new Lost(`${w.what}: connection lost`));
        resolve(!this.error);
      });
    });
  }

  answer(waiter) {
    const { reply, parts, resolve } = waiter;
    reply.bytes = Buffer.concat(parts);
    const isJson = /json/.test(reply.headers['content-type']);
    reply.body = reply.bytes.length && isJson ? JSON.parse(reply.bytes) : null;
    resolve(reply);
  }

  /** {status, headers, body, bytes}; rejects with Lost. A body that is not bytes is sent as JSON. */
  request(method, path, body, headers) {
    return new Promise((resolve, reject) => {
      const what = `${method} ${path}`;
      if (this.lost) {
        reject(new Lost(`${what}: not connected`));
        return;
      }
      this.waiting.push({ resolve, reject, what });
      const type = Buffer.isBuffer(body) ? BYTES : undefined;
      const text = body === undefined ? '' : type ? body : JSON.stringify(body);
      const length = body === undefined && method !== 'POST' ? null : Buffer.byteLength(text);
      this.socket.write(head(method, path, headers, length, type));
      if (text.length) this.socket.write(text);
    });
  }

  get(path) {
    return this.request('GET', path);
  }

  post(path, body) {
    return this.request('POST', path, body);
  }

  close() {
    this.socket.destroy();
  }
}

/** GET /jobs/take: calls onJob(job) for each line. */
class Stream {
  constructor(port, query, onJob) {
    this.ended = this.left = false; // the server has ended it; we have closed it
    this.status = null; // of the answer, once there is one
    let rest = '';
    this.socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    /** The connection is gone: {ended: the last chunk had arrived, reset: it broke}. */
    this.closed = new Promise((resolve) => {
      this.socket.on('error', (error) => (this.error = error));
      this.socket.on('close', () => resolve({ ended: this.ended, reset: Boolean(this.error) }));
    });
    /** The server has ended the stream, in order (true) or not. */
    this.over = new Promise((resolve) => {
      this.onEnd = resolve;
      this.closed.then(({ ended }) => resolve(ended));
    });
    /** The status of the answer; rejects with Lost. */
    this.opened = new Promise((resolve, reject) => {
      this.closed.then(() => reject(new Lost('GET /jobs/take: connection lost')));
      const parser = new ReplyParser({
        head: ({ status }) => resolve((this.status = status)),
        data: (bytes) => {
          const lines = (rest + bytes.toString()).split('\n');
          rest = lines.pop();
          for (const line of lines) if (line !== '') onJob(JSON.parse(line));
        },
        end: () => {
          this.ended = true;
          this.onEnd(true);
        },
      });
      this.socket.on('data', (bytes) => parser.feed(bytes));
    });
    this.opened.catch(() => {});
    this.socket.write(head('GET', `/jobs/take?${query}`, {}, null));
  }

  close() {
    this.left = true;
    this.socket.destroy();
  }
}

module.exports = { BYTES, Connection, Stream, Lost };
