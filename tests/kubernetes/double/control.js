// SPDX-License-Identifier: Apache-2.0
'use strict';

// The functions of the double over HTTP, on a port of its own, for whoever does not run in its
// process: POST /NAME with the arguments as a JSON list; GET of those that only tell.

const http = require('node:http');

const TELL = ['requests', 'watches', 'pods'];
const DO = [...TELL, 'script', 'clearScripts', 'phase', 'fault', 'clearFaults', 'dropWatches',
    'stallWatches', 'trickleWatches', 'bookmark', 'compact', 'restart', 'clock', 'user', 'node', 'loseNode',
    'restoreNode', 'removeNode', 'namespace', 'kubeconfig'];

class Control {
    constructor(double) {
        this.double = double;
    }

    listen(host, port) {
        this.http = http.createServer((req, res) => this.handle(req, res));
        return new Promise((resolve, reject) => {
            this.http.on('error', reject);
            this.http.listen(port, host, () =>
                resolve(`http://${host}:${this.http.address().port}`));
        });
    }

    async handle(req, res) {
        const say = (code, value) => {
            res.writeHead(code, { 'content-type': 'application/json' });
            res.end(`${JSON.stringify(value)}\n`);
        };
        try {
            const name = req.url.slice(1);
            if (!(req.method === 'POST' ? DO : TELL).includes(name))
                return say(404, { error: `no such function; there are ${DO.join(', ')}` });
            let text = '';
            for await (const part of req)
                text += part;
            const args = text ? JSON.parse(text) : [];
            const value = await this.double[name](...(Array.isArray(args) ? args : [args]));
            return say(200, { value: value === undefined ? null : value });
        } catch (err) {
            return say(400, { error: err.message });
        }
    }

    close() {
        const closed = new Promise((resolve) => this.http.close(resolve));
        this.http.closeAllConnections();
        return closed;
    }
}

module.exports = { Control };
