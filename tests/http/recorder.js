// SPDX-License-Identifier: Apache-2.0
'use strict';

// A proxy before a server that keeps the requests that pass. With isOld it answers POST /jobs/renew as
// a server does that is older than this request.

const http = require('node:http');

class Recorder {
    constructor(server) {
        this.server = server;
        this.requests = [];
        this.isOld = false;
        this.proxy = http.createServer((req, res) => {
            let body = '';
            req.on('data', (bytes) => { body += bytes; });
            req.on('end', () => this.pass(req, res, body));
        });
    }

    async start() {
        await new Promise((done) => { this.proxy.listen(0, '127.0.0.1', done); });
        return this;
    }

    stop() {
        this.proxy.closeAllConnections();
        this.proxy.close();
    }

    url() {
        return `http://127.0.0.1:${this.proxy.address().port}`;
    }

    // Of the requests with this path, from the first.
    bodies(path) {
        return this.requests.filter((r) => r.path === path).map((r) => JSON.parse(r.body));
    }

    pass(req, res, body) {
        this.requests.push({ path: req.url, body });
        if (this.isOld && req.url === '/jobs/renew') {
            res.writeHead(405, { allow: 'GET, DELETE, PATCH' });
            res.end('{"error":"this path has no such method","code":"method_not_allowed"}');
            return;
        }
        const to = http.request(this.server.url() + req.url, { method: req.method, headers: req.headers },
            (from) => {
                res.writeHead(from.statusCode, from.headers);
                from.pipe(res);
            });
        to.on('error', () => res.destroy());
        res.on('close', () => to.destroy());
        to.end(body);
    }
}

module.exports = { Recorder };
