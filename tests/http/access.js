// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of access control share.

const assert = require('node:assert/strict');
const http = require('node:http');
const path = require('node:path');
const { Server, run } = require('./harness');

// What each role may do.
const RIGHTS = {
    viewer: ['known', 'see'],
    producer: ['known', 'see', 'payloads', 'enqueue'],
    worker: ['known', 'see', 'payloads', 'work'],
    operator: ['known', 'see', 'payloads', 'enqueue', 'work', 'operate'],
    admin: ['known', 'see', 'payloads', 'enqueue', 'work', 'operate', 'administer'],
};

function bearer(token) {
    return { authorization: `Bearer ${token}` };
}

// A server, and tokens by name. who: {name: {roles, queues, …}}; admin is always one.
async function guarded(t, who = {}, options = {}) {
    const server = new Server(options);
    await server.start();
    t.after(() => server.clean());
    const tokens = { admin: await create(server, { roles: ['admin'] }, {}) };
    for (const [name, fields] of Object.entries(who))
        tokens[name] = await create(server, fields, bearer(tokens.admin));
    // Requests by the name of who sends them.
    const as = (name) => {
        const headers = name ? bearer(tokens[name]) : {};
        const ask = (method) => (target, body) => server.request(method, target, body, headers);
        return { get: ask('GET'), post: ask('POST'), patch: ask('PATCH'), put: ask('PUT'),
            delete: ask('DELETE'), headers,
            take: (query) => server.take(query, headers),
            events: (query) => server.events(query, headers) };
    };
    return { server, tokens, as };
}

async function create(server, fields, headers) {
    const res = await server.admin('POST', '/tokens', fields, headers);
    assert.equal(res.status, 201, res.text);
    assert.match(res.json.token, /^tnx_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/);
    return res.json.token;
}

// The status alone: some answers are streams.
function statusOf(base, method, target, body, headers) {
    return new Promise((resolve, reject) => {
        const text = body === undefined ? undefined : JSON.stringify(body);
        const all = text === undefined ? headers : { ...headers, 'content-type': 'application/json' };
        const req = http.request(new URL(target, base), { method, headers: all, agent: false }, (res) => {
            const chunks = [];
            const done = () => {
                resolve({ status: res.statusCode, headers: res.headers,
                    text: Buffer.concat(chunks).toString() });
                req.destroy();
            };
            if (res.statusCode === 200 && /stream|ndjson/.test(res.headers['content-type'] ?? '')) {
                done();
                return;
            }
            res.on('data', (chunk) => chunks.push(chunk));
            res.on('end', done);
            res.on('error', reject);
        });
        req.on('error', reject);
        req.end(text);
    });
}

function idOf(token) {
    return token.slice(4, 20);
}

// Runs `tenax token …` against the admin listener.
function tokenCommand(server, args, env = {}) {
    return run(['token', ...args, '--url', server.adminUrl], env);
}

function rootOf(server) {
    return path.join(server.dir, 'root');
}

module.exports = { RIGHTS, bearer, create, guarded, idOf, rootOf, statusOf, tokenCommand };
