// SPDX-License-Identifier: Apache-2.0
'use strict';

// An API that stands in for Screwdriver's, as far as a build worker calls it: PUT /v4/builds/{id}.
// Node alone, in memory, on loopback; driven by function calls:
//
//   const api = await startScrewdriver();           {tls: {key, cert}, path: '/sd'}
//   api.url                                         what messages have as apiUri
//   api.add(7, {status: 'QUEUED'})                  a build; returns {id, token, …}
//   api.builds.get('7')                             {status, statusMessage, messages, stats, finals,
//                                                   updates}
//   api.finish(7, 'ABORTED')                        it ends by others' doing
//   api.fault({match: {id: 7}, times: 2, status: 500, retryAfter: 1})
//   api.clearFaults(); api.away(); await api.back(); await api.stop()
//
// As in Screwdriver, a build takes updates only while it is RUNNING, QUEUED, BLOCKED or UNSTABLE
// (403 otherwise), and a build's token is for that build alone (403); without one 401; unknown
// builds are 404, statuses that there are not 400. `updates` is every request about the build:
// {at, token, body, code}; `finals` the final statuses that it has taken, which are never two.
//
// A fault: {match: {id}, times, …}: delay: ms; hang: true (no answer); drop: true (closed, nothing
// done); lost: true (done, then closed); mute: true (done, no answer); status: code, with retryAfter: s; redirect: URL; body: text.

const http = require('node:http');
const https = require('node:https');
const { randomBytes } = require('node:crypto');

const OPEN = new Set(['RUNNING', 'QUEUED', 'BLOCKED', 'UNSTABLE']);
const FINAL = new Set(['FAILURE', 'SUCCESS', 'ABORTED', 'COLLAPSED']);
const STATUSES = new Set([...OPEN, ...FINAL, 'CREATED', 'FROZEN']);
const BODY_MAX = 1 << 20;

class Screwdriver {
    constructor({ tls, path = '' } = {}) {
        this.tls = tls;
        this.path = path;
        this.builds = new Map();
        this.faults = [];
        this.requests = 0;
        this.busy = 0;
        this.busyMax = 0; // requests that were under way at the same time
        this.port = 0;
        this.sockets = new Set();
        this.timers = new Set();
    }

    async back() {
        const serve = (request, response) => this.receive(request, response);
        this.server = this.tls ? https.createServer(this.tls, serve) : http.createServer(serve);
        this.server.on('connection', (socket) => {
            this.sockets.add(socket);
            socket.on('close', () => this.sockets.delete(socket));
        });
        await new Promise((resolve, reject) => {
            this.server.once('error', reject);
            this.server.listen(this.port, '127.0.0.1', resolve);
        });
        this.port = this.server.address().port;
        this.url = `http${this.tls ? 's' : ''}://127.0.0.1:${this.port}${this.path}`;
        return this;
    }

    // Nobody listens any more, and every connection is closed.
    async away() {
        const closed = new Promise((resolve) => this.server.close(resolve));
        for (const socket of this.sockets)
            socket.destroy();
        await closed;
    }

    async stop() {
        for (const timer of this.timers)
            clearTimeout(timer);
        if (this.server.listening)
            await this.away();
    }

    // The secret in each token is the same, so that one search of a log finds any of them.
    add(id, { status = 'QUEUED' } = {}) {
        const build = { id, status, token: `${Screwdriver.secret}.${id}.${randomBytes(6).toString('hex')}`,
            statusMessage: null, messages: [], stats: {}, finals: [], updates: [] };
        this.builds.set(String(id), build);
        return build;
    }

    finish(id, status) {
        const build = this.builds.get(String(id));
        build.status = status;
        build.finals.push(status);
    }

    fault(rule) {
        this.faults.push({ match: {}, times: Infinity, ...rule });
    }

    clearFaults() {
        this.faults = [];
    }

    takeFault(id) {
        const rule = this.faults.find((one) => one.times > 0 &&
            (one.match.id === undefined || String(one.match.id) === id));
        if (rule)
            rule.times--;
        return rule || {};
    }

    receive(request, response) {
        const parts = [];
        let size = 0;
        this.busyMax = Math.max(this.busyMax, ++this.busy);
        response.on('close', () => this.busy--);
        request.on('data', (part) => {
            size += part.length;
            if (size <= BODY_MAX)
                parts.push(part);
        });
        request.on('end', () => this.answer(request, response, Buffer.concat(parts).toString()));
        request.on('error', () => {});
    }

    answer(request, response, text) {
        this.requests++;
        const match = request.url.startsWith(`${this.path}/v4/builds/`) &&
            request.url.slice(`${this.path}/v4/builds/`.length);
        const id = match && decodeURIComponent(match);
        const fault = this.takeFault(id);
        if (fault.delay)
            return this.later(fault.delay, () => this.act(request, response, id, text, fault));
        return this.act(request, response, id, text, fault);
    }

    later(ms, act) {
        const timer = setTimeout(() => {
            this.timers.delete(timer);
            act();
        }, ms);
        this.timers.add(timer);
    }

    act(request, response, id, text, fault) {
        const build = this.builds.get(id);
        const seen = { at: Date.now(), token: bearer(request), body: parse(text), code: 0 };
        if (build)
            build.updates.push(seen);
        if (fault.hang)
            return;
        if (fault.drop) {
            request.socket.destroy();
            return;
        }
        if (fault.status || fault.redirect) {
            seen.code = fault.status || 307;
            const headers = { 'content-type': 'application/json' };
            if (fault.retryAfter !== undefined)
                headers['retry-after'] = String(fault.retryAfter);
            if (fault.redirect)
                headers.location = fault.redirect;
            response.writeHead(seen.code, headers).end(fault.body || '{"message":"a fault"}');
            return;
        }
        const [code, message] = this.update(request, build, seen);
        seen.code = code;
        if (fault.lost)
            request.socket.destroy();
        else if (!fault.mute)
            response.writeHead(code, { 'content-type': 'application/json' })
                .end(JSON.stringify(code === 200 ? view(build) : { statusCode: code, message }));
    }

    update(request, build, { token, body }) {
        if (request.method !== 'PUT')
            return [404, 'Not Found'];
        if (!token)
            return [401, 'Missing authentication'];
        if (!build)
            return [404, 'Build does not exist'];
        if (token !== build.token)
            return [403, 'Credential only valid for another build'];
        if (!body || typeof body !== 'object' || (body.status && !STATUSES.has(body.status)))
            return [400, 'Invalid request payload input'];
        if (!OPEN.has(build.status))
            return [403, 'Can only update RUNNING, QUEUED, BLOCKED, or UNSTABLE builds'];
        Object.assign(build.stats, body.stats);
        if (body.statusMessage) {
            build.statusMessage = body.statusMessage;
            build.messages.push(body.statusMessage);
        }
        if (body.status) {
            build.status = body.status;
            if (FINAL.has(body.status))
                build.finals.push(body.status);
        }
        return [200, ''];
    }
}

Screwdriver.secret = 'sesame-of-screwdriver';

function bearer(request) {
    const match = /^Bearer (.+)$/.exec(request.headers.authorization || '');
    return match && match[1];
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

function view({ id, status, statusMessage, stats }) {
    return { id, status, statusMessage, stats };
}

function startScrewdriver(options) {
    return new Screwdriver(options).back();
}

module.exports = { startScrewdriver, SECRET: Screwdriver.secret };
