// SPDX-License-Identifier: Apache-2.0
'use strict';

// A proxy in front of a server, which loses answers when a client's test asks for it:
//
//     POST /proxy/drop {"path": "/jobs", "count": 1}    the next answers to that path are lost: the
//                                                       request is carried out, the connection breaks
//     POST /proxy/refuse {"path": …, "count": 1, "status": 503, "code": "busy"}
//                                                       the next requests do not reach the server
//     GET /proxy/count?path=/jobs/renew                 {"count": n}: how many there were
//
// A path is that of a request without its query, exactly.

const http = require('node:http');

async function readAll(stream) {
    const parts = [];
    for await (const part of stream)
        parts.push(part);
    return Buffer.concat(parts);
}

class Proxy {
    constructor(server) {
        this.server = server;
        this.rules = [];
        this.counts = new Map();
        this.agent = new http.Agent({ keepAlive: true });
        this.listener = http.createServer((req, res) => {
            this.serve(req, res).catch(() => res.destroy());
        });
    }

    start() {
        return new Promise((resolve) => this.listener.listen(0, '127.0.0.1', resolve));
    }

    url() {
        return `http://127.0.0.1:${this.listener.address().port}`;
    }

    close() {
        this.agent.destroy();
        this.listener.closeAllConnections();
        return new Promise((resolve) => this.listener.close(resolve));
    }

    async serve(req, res) {
        const { pathname, searchParams } = new URL(req.url, 'http://proxy');
        const body = await readAll(req);
        if (pathname.startsWith('/proxy/')) {
            const answer = this.control(pathname.slice('/proxy/'.length), searchParams, body);
            res.setHeader('content-type', 'application/json');
            res.end(JSON.stringify(answer));
            return;
        }
        this.counts.set(pathname, (this.counts.get(pathname) ?? 0) + 1);
        const rule = this.rules.find((one) => one.path === pathname && one.count > 0);
        if (rule)
            rule.count--;
        if (rule?.status) {
            res.writeHead(rule.status, { 'content-type': 'application/json' });
            res.end(JSON.stringify({ error: 'the proxy refuses', code: rule.code }));
            return;
        }
        const answer = await this.forward(req, body, res);
        if (rule) {
            res.destroy();
            return;
        }
        const { 'transfer-encoding': _, connection: __, ...headers } = answer.headers;
        res.writeHead(answer.status, headers);
        res.end(answer.body);
    }

    control(what, query, body) {
        if (what === 'count')
            return { count: this.counts.get(query.get('path')) ?? 0 };
        const rule = JSON.parse(body);
        this.rules.push({ path: rule.path, count: rule.count ?? 1,
            ...(what === 'refuse' ? { status: rule.status, code: rule.code } : {}) });
        return {};
    }

    forward(req, body, res) {
        return new Promise((resolve, reject) => {
            const onward = http.request({
                host: this.server.host, port: this.server.port, method: req.method, path: req.url,
                headers: { ...req.headers, host: `${this.server.host}:${this.server.port}` },
                agent: this.agent,
            });
            res.on('close', () => onward.destroy()); // whoever asked has gone
            onward.on('error', reject);
            onward.on('response', (answer) => readAll(answer).then((bytes) => resolve(
                { status: answer.statusCode, headers: answer.headers, body: bytes }), reject));
            onward.end(body);
        });
    }
}

module.exports = { Proxy };
