// SPDX-License-Identifier: Apache-2.0
'use strict';

// A proxy in front of a server, which loses answers when a client's test asks for it:
//
//     POST /proxy/drop {"path": "/jobs", "count": 1}    the next answers to that path are lost: the
//                                                       request is carried out, the connection breaks
//     POST /proxy/refuse {"path": …, "count": 1, "status": 503, "code": "busy"}
//                                                       the next requests do not reach the server
//     POST /proxy/foreign {"path": …, "count": 1, "status": 403, "late": false}
//                                                       the next ones are answered by the proxy's own
//                                                       page, which is not how Tenax answers; if it is
//                                                       late the request was carried out; "html": true
//                                                       has it be HTML, "ok": true JSON that says "ok"
//     POST /proxy/bare {"path": …, "count": 1}         the next refusals are passed on without their
//                                                       code and sentence
//     GET /proxy/count?path=/jobs/renew                 {"count": n}: how many there were
//
// A path is that of a request without its query, exactly, or its end: "*/success".

const http = require('node:http');

// What stands between people and servers answers with pages, with JSON of its own, or with nothing.
const PAGES = [
    ['text/html', '<html><body><h1>Not from Tenax</h1></body></html>'],
    ['application/json', '{"message":"no Route matched with those values"}'],
    ['application/json', '{"code":16,"error":true,"status":"UNAUTHENTICATED"}'],
    ['text/plain', ''],
    ['application/json', '{"error":"access_denied"}'],
    ['application/json', '{"code":"AccessDenied","error":"not by this gateway"}'],
    ['application/json', '"signed out"'],
    ['application/json', '{"ok":true}'],
];

function matches(pattern, pathname) {
    return pattern.startsWith('*') ? pathname.endsWith(pattern.slice(1)) : pathname === pattern;
}

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
        this.pages = 0;
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
        const rule = this.rules.find((one) => matches(one.path, pathname) && one.count > 0);
        if (rule)
            rule.count--;
        if (rule?.foreign && !rule.late) {
            this.answerItself(rule, res);
            return;
        }
        if (rule?.status && !rule.foreign) {
            res.writeHead(rule.status, { 'content-type': 'application/json' });
            res.end(JSON.stringify({ error: 'the proxy refuses', code: rule.code }));
            return;
        }
        const answer = await this.forward(req, body, res);
        if (rule?.foreign) {
            this.answerItself(rule, res);
            return;
        }
        if (rule?.bare && answer.status >= 400) {
            const { error: _e, code: _c, ...rest } = JSON.parse(answer.body);
            res.writeHead(answer.status, { 'content-type': 'application/json' });
            res.end(JSON.stringify(rest));
            return;
        }
        if (rule && !rule.bare) {
            res.destroy();
            return;
        }
        const { 'transfer-encoding': _, connection: __, ...headers } = answer.headers;
        res.writeHead(answer.status, headers);
        res.end(answer.body);
    }

    answerItself({ status, html, ok }, res) {
        const [type, page] = PAGES[html ? 0 : ok ? PAGES.length - 1 : this.pages++ % PAGES.length];
        res.writeHead(status, { 'content-type': type, ...(status < 400 ? { location: '/sign-in' } : {}) });
        res.end(page);
    }

    control(what, query, body) {
        if (what === 'count')
            return { count: this.counts.get(query.get('path')) ?? 0 };
        const { path, count = 1, status, code, late, html, ok } = JSON.parse(body);
        this.rules.push({ path, count, ...(what === 'refuse' ? { status, code } : {}),
            ...(what === 'foreign' ? { status, late, html, ok, foreign: true } : {}), ...(what === 'bare' ? { bare: true } : {}) });
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
