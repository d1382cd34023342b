// SPDX-License-Identifier: Apache-2.0
'use strict';

// The HTTP side: HTTP/1.1, and over TLS HTTP/1.1 and HTTP/2; bodies, answers, streams, faults.

const http = require('node:http');
const http2 = require('node:http2');
const zlib = require('node:zlib');
const { randomUUID } = require('node:crypto');
const api = require('./api');
const status = require('./status');

const BODY_MAX = 3 << 20;
const COMPRESS_MIN = 128 << 10;

function readBody(req) {
    return new Promise((resolve, reject) => {
        const parts = [];
        let size = 0;
        req.on('data', (part) => {
            size += part.length;
            if (size > BODY_MAX)
                reject(status.failure(413, 'RequestEntityTooLarge',
                    `Request entity too large: limit is ${BODY_MAX}`));
            else
                parts.push(part);
        });
        req.on('end', () => resolve(Buffer.concat(parts)));
        req.on('error', reject);
        req.on('aborted', () => reject(new Error('aborted')));
    });
}

// Ends the connection as a crash or a network would.
function cut(req, res) {
    if (res.stream)
        res.stream.session?.destroy();
    else
        req.socket.destroy();
}

function certificateOf(req) {
    const socket = req.socket;
    if (!socket.encrypted || !socket.authorized)
        return undefined;
    const { subject } = socket.getPeerCertificate();
    return subject && subject.CN
        ? { name: subject.CN, groups: [].concat(subject.O || []) } : undefined;
}

class Server {
    constructor(cluster, { tls, host = '127.0.0.1', port = 0 } = {}) {
        this.cluster = cluster;
        this.faults = cluster.faults;
        this.address = { host, port };
        this.tls = tls; // {key, cert, ca}
        this.sockets = new Set();
        this.counts = new Map(); // "create pods 201" -> number
    }

    listen() {
        const handler = (req, res) => this.handle(req, res);
        this.http = this.tls ? http2.createSecureServer({ ...this.tls, allowHTTP1: true,
            requestCert: true, rejectUnauthorized: false }, handler)
            : http.createServer({ keepAliveTimeout: 120000 }, handler);
        this.closing = false;
        const opened = (socket) => {
            this.sockets.add(socket);
            socket.on('close', () => this.sockets.delete(socket));
            socket.on('error', () => {}); // the peer's end of it
            if (this.closing)
                socket.destroy(); // its handshake was still under way
        };
        this.http.on('connection', opened);
        if (this.tls)
            this.http.on('secureConnection', opened);
        this.http.on('sessionError', () => {});
        return new Promise((resolve, reject) => {
            this.http.on('error', reject);
            this.http.listen(this.address.port, this.address.host, () => {
                this.address.port = this.http.address().port;
                resolve(this.url());
            });
        });
    }

    url() {
        return `${this.tls ? 'https' : 'http'}://${this.address.host}:${this.address.port}`;
    }

    // Every connection breaks and no new one is taken.
    close() {
        this.closing = true;
        const closed = new Promise((resolve) => this.http.close(resolve));
        for (const socket of this.sockets)
            socket.destroy();
        return closed;
    }

    async handle(req, res) {
        res.on('error', () => {});
        let call = { verb: req.method.toLowerCase() };
        let fault;
        try {
            call = this.callOf(req);
            call.body = await readBody(req);
            fault = this.faults.take(call);
            if (fault && !(await this.before(fault, req, res)))
                return;
            const result = api.answer(this.cluster, call, certificateOf(req));
            this.count(call, result.code);
            if (fault && fault.lost)
                cut(req, res);
            else
                this.send(call, req, res, result, fault);
        } catch (err) {
            this.refuse(call, req, res, err);
        }
    }

    callOf(req) {
        const at = req.url.indexOf('?');
        const path = at < 0 ? req.url : req.url.slice(0, at);
        const call = { method: req.method, path, headers: req.headers,
            query: new URLSearchParams(at < 0 ? '' : req.url.slice(at + 1)),
            verb: req.method.toLowerCase(), now: this.cluster.clock.now() };
        try {
            api.resolve(call);
        } catch {
            throw status.badRequest(`the path ${path} cannot be read`);
        }
        return call;
    }

    count({ verb, resource, subresource }, code) {
        const name = resource ? resource.resource : 'other';
        const key = `${verb} ${name}${subresource ? `/${subresource}` : ''} ${code}`;
        this.counts.set(key, (this.counts.get(key) || 0) + 1);
    }

    // What a fault does before the request has had an effect; false: that was all.
    async before(fault, req, res) {
        if (fault.delay)
            await new Promise((resolve) => setTimeout(resolve, fault.delay));
        await fault.hold;
        if (fault.hang)
            return false;
        if (fault.drop) {
            cut(req, res);
            return false;
        }
        if (fault.raw) {
            const { code, type = 'text/html', text = '' } = fault.raw;
            res.writeHead(code, { 'content-type': type });
            res.end(text);
            return false;
        }
        if (fault.status)
            throw Object.assign(fault.status === 429
                ? status.tooManyRequests(fault.retryAfter ?? 1, fault.message)
                : status.generic(fault.status, fault.message), { retryAfter: fault.retryAfter });
        return true;
    }

    refuse(call, req, res, err) {
        if (err.message === 'aborted')
            return;
        if (!(err instanceof status.Failure)) {
            this.cluster.report?.(`${req.method} ${req.url}: ${err.stack}`);
            err = status.generic(500, `Internal error occurred: ${err.message}`);
        }
        const { code, details = {} } = err.status;
        this.count(call, code);
        const seconds = err.retryAfter ?? details.retryAfterSeconds;
        this.write(call, res, code, JSON.stringify(err.status), 'application/json',
            seconds === undefined ? {} : { 'retry-after': String(seconds) });
    }

    send(call, req, res, result, fault) {
        if (result.watch || result.stream) {
            this.stream(call, req, res, result);
            return;
        }
        let body = result.json;
        let type = result.type || 'application/json';
        if (result.text !== undefined) {
            body = result.text;
            type = result.type || 'text/plain';
        } else if (body === undefined) {
            body = result.object ? JSON.stringify(result.object) : result.entry.json();
        }
        if (fault && fault.half)
            this.half(req, res, result.code, body, type);
        else
            this.write(call, res, result.code, body, type);
    }

    write(call, res, code, body, type, more = {}) {
        let bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
        const headers = { 'content-type': type, 'cache-control': 'no-cache, private',
            'audit-id': randomUUID(), ...more };
        if (call.warnings && call.warnings.length > 0)
            headers.warning = call.warnings.map((text) => `299 - ${JSON.stringify(text)}`);
        if (bytes.length > COMPRESS_MIN && /\bgzip\b/.test(call.headers?.['accept-encoding'])) {
            bytes = zlib.gzipSync(bytes, { level: 1 });
            headers['content-encoding'] = 'gzip';
            headers.vary = 'Accept-Encoding';
        }
        headers['content-length'] = bytes.length;
        res.writeHead(code, headers);
        res.end(call.method === 'HEAD' ? undefined : bytes);
    }

    half(req, res, code, body, type) {
        const bytes = Buffer.from(body);
        res.writeHead(code, { 'content-type': type, 'content-length': bytes.length });
        res.write(bytes.subarray(0, bytes.length >> 1), () => cut(req, res));
    }

    stream(call, req, res, result) {
        const out = {
            write: (text) => res.write(text),
            end: () => res.end(),
            destroy: () => cut(req, res),
            waiting: () => res.writableLength + (req.socket.writableLength || 0),
            closed: (act) => res.on('close', act),
        };
        const watch = result.watch && result.watch(out);
        res.writeHead(result.code, { 'content-type': result.watch ? 'application/json'
            : 'text/plain', 'cache-control': 'no-cache, private', 'audit-id': randomUUID() });
        if (res.flushHeaders)
            res.flushHeaders();
        if (watch) {
            res.on('close', () => watch.close());
            watch.start();
        } else {
            result.stream(out);
        }
    }
}

module.exports = { Server };
