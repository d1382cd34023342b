// SPDX-License-Identifier: Apache-2.0

// One request, one answer, over connections that are kept open.

import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { ConnectionFailed, TenaxError } from './errors.js';

const IDLE_MS = 15000; // well below what a server closes a connection after
const CONNECT_MS = 5000;

// The token to send: as given, or from the file, or as the environment says.
function readToken(token, tokenFile) {
    let source = 'the token';
    if (token === undefined) {
        const file = tokenFile || process.env.TENAX_TOKEN_FILE;
        source = file || 'TENAX_TOKEN';
        token = file ? fs.readFileSync(file, 'latin1') : process.env.TENAX_TOKEN || undefined;
    }
    if (token === undefined)
        return undefined;
    // The message must not quote what may be a secret.
    if (!/^[!-~]+$/.test(token.trim()))
        throw new TenaxError(`${source} has no token, or more than one`);
    return token.trim();
}

function readUrl(text) {
    let url;
    try {
        url = new URL(text);
    } catch { /* said below */ }
    if (!['http:', 'https:'].includes(url?.protocol) || !url.hostname)
        throw new TenaxError("write the server's URL like http://127.0.0.1:7890");
    return url;
}

export class Transport {
    constructor({ url, token, tokenFile, caCert, clientCert, clientKey }) {
        const env = process.env;
        const parsed = readUrl(url || env.TENAX_URL || 'http://127.0.0.1:7890');
        const read = (file) => (file ? fs.readFileSync(file) : undefined);
        this.url = parsed.href.replace(/\/+$/, '');
        this.headers = { accept: 'application/json', 'user-agent': 'tenax-node/0.1.0' };
        const bearer = readToken(token, tokenFile);
        if (bearer)
            this.headers.authorization = `Bearer ${bearer}`;
        this.secure = parsed.protocol === 'https:';
        // Free connections are closed after the timeout.
        const keep = { keepAlive: true, timeout: IDLE_MS };
        this.agent = this.secure ? new https.Agent({
            ...keep,
            ca: read(caCert || env.TENAX_CA_CERT),
            cert: read(clientCert || env.TENAX_CLIENT_CERT),
            key: read(clientKey || env.TENAX_CLIENT_KEY),
        }) : new http.Agent(keep);
    }

    close() {
        this.agent.destroy();
    }

    // Resolves with {status, text}; rejects with ConnectionFailed.
    send(method, path, content, timeoutMs, signal, more) {
        return new Promise((resolve, reject) => {
            const headers = { ...this.headers, ...more };
            if (content !== undefined) {
                headers['content-type'] = 'application/json';
                headers['content-length'] = content.length;
            }
            const req = (this.secure ? https : http).request(this.url + path,
                { method, headers, agent: this.agent, signal });
            let sent = false;
            let timer = setTimeout(() => req.destroy(new Error('no connection in time')), CONNECT_MS);
            const connected = () => {
                sent = true;
                clearTimeout(timer);
                timer = setTimeout(() => req.destroy(new Error('no answer in time')), timeoutMs);
            };
            const fail = (cause) => {
                clearTimeout(timer);
                const why = cause.message || cause.code; // several addresses have no message
                reject(new ConnectionFailed(sent ? `${method} ${path}: ${why}`
                    : `cannot reach ${this.url}: ${why}`, sent, { cause }));
            };
            req.on('socket', (socket) => {
                if (req.reusedSocket)
                    connected();
                else
                    socket.once(this.secure ? 'secureConnect' : 'connect', connected);
            });
            req.on('error', fail);
            req.on('response', (res) => {
                const parts = [];
                res.on('data', (part) => parts.push(part));
                res.on('error', fail);
                res.on('end', () => {
                    clearTimeout(timer);
                    resolve({ status: res.statusCode, text: Buffer.concat(parts).toString() });
                });
            });
            req.end(content);
        });
    }
}
