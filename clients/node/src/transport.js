// SPDX-License-Identifier: Apache-2.0

// One request, one answer, over connections that are kept open.

import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { ConnectionFailed, TenaxError } from './errors.js';

const IDLE_MS = 15000; // well below what a server closes a connection after
const CONNECT_MS = 5000;

// Where the server is: what is not given is as the environment says.
function resolve({ url, token, tokenFile, caCert, clientCert, clientKey }) {
    const { env } = process;
    const file = token === undefined ? tokenFile || env.TENAX_TOKEN_FILE || undefined : undefined;
    return {
        url: url || env.TENAX_URL || 'http://127.0.0.1:7890',
        token: token ?? (file ? undefined : env.TENAX_TOKEN || undefined),
        tokenSource: token === undefined ? file ?? 'TENAX_TOKEN' : 'the token',
        tokenFile: file,
        caCert: caCert || env.TENAX_CA_CERT,
        clientCert: clientCert || env.TENAX_CLIENT_CERT,
        clientKey: clientKey || env.TENAX_CLIENT_KEY,
    };
}

function readToken({ token, tokenFile, tokenSource }) {
    const text = tokenFile ? fs.readFileSync(tokenFile, 'latin1') : token;
    if (text === undefined)
        return undefined;
    // The message must not quote what may be a secret.
    if (!/^[!-~]+$/.test(text.trim()))
        throw new TenaxError(`${tokenSource} has no token, or more than one`);
    return text.trim();
}

// HOST[:PORT][/PATH], without a scheme.
const BARE_URL = /^(\[[^\]]*\]|[^\s:/@[\]?#]+)(:[0-9]+)?(\/[^/?#][^?#]*)?$/;

function readUrl(text) {
    const [, host, port = ':7890', path = ''] = BARE_URL.exec(text.replace(/\/+$/, '')) ?? [];
    let url;
    try {
        url = new URL(host ? `http://${host}${port}${path}` : text);
    } catch { /* said below */ }
    // new URL() also takes "http:/host".
    if (!(host || /^https?:\/\//i.test(text)) || !url?.hostname)
        throw new TenaxError("write the server's URL like http://127.0.0.1:7890 or localhost:7890");
    return url;
}

export class Transport {
    constructor(given) {
        this.where = resolve(given);
        const parsed = readUrl(this.where.url);
        const read = (file) => (file ? fs.readFileSync(file) : undefined);
        this.url = parsed.href.replace(/\/+$/, '');
        // Strict: a misspelt option must not be ignored.
        this.headers = { accept: 'application/json', 'user-agent': 'tenax-node/0.1.0', 'tenax-strict': 'true' };
        this.#authorize();
        this.secure = parsed.protocol === 'https:';
        // Free connections are closed after the timeout.
        const keep = { keepAlive: true, timeout: IDLE_MS };
        this.agent = this.secure ? new https.Agent({
            ...keep,
            ca: read(this.where.caCert),
            cert: read(this.where.clientCert),
            key: read(this.where.clientKey),
        }) : new http.Agent(keep);
    }

    #authorize() {
        const bearer = readToken(this.where);
        if (bearer)
            this.headers.authorization = `Bearer ${bearer}`;
    }

    // Whether there is another one by now than was used: in its file, or read for another request.
    hasAnotherToken(used) {
        try {
            this.#authorize();
        } catch { /* it is just being written */ }
        return this.headers.authorization !== used;
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
