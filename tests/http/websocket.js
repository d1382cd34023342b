// SPDX-License-Identifier: Apache-2.0
'use strict';

// A client of WebSockets (RFC 6455), for the tests: text frames, each whole.

const assert = require('node:assert/strict');
const { createHash, randomBytes } = require('node:crypto');
const http = require('node:http');
const { within } = require('./harness');

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

function mask(opcode, payload) {
    const key = randomBytes(4);
    const long = payload.length > 125;
    const head = Buffer.alloc(long ? 4 : 2);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (long ? 126 : payload.length);
    if (long)
        head.writeUInt16BE(payload.length, 2);
    return Buffer.concat([head, key, payload.map((byte, i) => byte ^ key[i % 4])]);
}

// The frame at the beginning of the bytes, or null: {opcode, payload, size}.
function readFrame(bytes) {
    if (bytes.length < 2)
        return null;
    const short = bytes[1] & 0x7f;
    const at = short === 127 ? 10 : short === 126 ? 4 : 2;
    if (bytes.length < at)
        return null;
    const length = short === 127 ? Number(bytes.readBigUInt64BE(2))
        : short === 126 ? bytes.readUInt16BE(2) : short;
    if (bytes.length < at + length)
        return null;
    assert.equal(bytes[0] & 0xf0, 0x80, 'a whole message without extensions');
    assert.equal(bytes[1] & 0x80, 0, 'a server masks nothing');
    return { opcode: bytes[0] & 0x0f, payload: bytes.subarray(at, at + length), size: at + length };
}

class WebSocketClient {
    constructor(socket, rest) {
        Object.assign(this, { socket, bytes: rest, messages: [], waiting: [], closed: null });
        socket.on('data', (part) => this.feed(part));
        socket.on('error', () => {});
        this.ended = new Promise((resolve) => socket.on('close', () => {
            this.closed ??= { code: 1006, why: '' };
            resolve(this.closed);
        }));
        this.feed(Buffer.alloc(0));
    }

    feed(part) {
        this.bytes = Buffer.concat([this.bytes, part]);
        for (let frame; (frame = readFrame(this.bytes));) {
            this.bytes = this.bytes.subarray(frame.size);
            if (frame.opcode === 1)
                this.take(JSON.parse(frame.payload.toString()));
            else if (frame.opcode === 9)
                this.socket.write(mask(10, frame.payload));
            else if (frame.opcode === 8)
                this.end(frame.payload);
        }
    }

    take(message) {
        this.messages.push(message);
        this.waiting = this.waiting.filter((look) => !look());
    }

    end(payload) {
        this.closed = { code: payload.readUInt16BE(0), why: payload.subarray(2).toString() };
        this.socket.end(mask(8, payload.subarray(0, 2)));
    }

    send(message) {
        this.sendText(JSON.stringify(message));
    }

    sendText(text) {
        this.socket.write(mask(1, Buffer.from(text)));
    }

    // The first message from now on, or of those not asked for yet, that is so; those before it
    // are dropped.
    next(is, what) {
        return within(new Promise((resolve) => {
            const look = () => {
                const at = this.messages.findIndex(is);
                if (at >= 0)
                    resolve(this.messages.splice(0, at + 1).at(-1));
                return at >= 0;
            };
            if (!look())
                this.waiting.push(look);
        }), what ?? `a message that is so: ${is}`);
    }

    event(name, is = () => true) {
        return this.next((m) => m.event === name && is(m), `${name}: ${is}`);
    }

    close() {
        this.socket.destroy();
        return this.ended;
    }
}

// {socket} of a WebSocket, or {status, headers, json} of a refusal.
function openWebSocket(url, headers = {}) {
    const key = randomBytes(16).toString('base64');
    return within(new Promise((resolve, reject) => {
        const req = http.request(url, { agent: false, headers: {
            connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13',
            'sec-websocket-key': key, ...headers,
        } });
        req.on('upgrade', (res, socket, rest) => {
            assert.equal(res.statusCode, 101);
            assert.equal(res.headers['sec-websocket-accept'],
                createHash('sha1').update(key + GUID).digest('base64'));
            resolve({ socket: new WebSocketClient(socket, rest), status: 101 });
        });
        req.on('response', (res) => {
            const parts = [];
            const done = () => resolve({ status: res.statusCode, headers: res.headers,
                get json() { return JSON.parse(Buffer.concat(parts).toString()); } });
            res.on('data', (part) => parts.push(part));
            if (/stream|ndjson/.test(res.headers['content-type'] ?? '')) {
                done();
                req.destroy();
            }
            res.on('end', done);
        });
        req.on('error', reject);
        req.end();
    }), `a WebSocket at ${url}`);
}

module.exports = { openWebSocket };
