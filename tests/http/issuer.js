// SPDX-License-Identifier: Apache-2.0
'use strict';

// An issuer of JSON Web Tokens, and a server that trusts it.

const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const { makeDir, until } = require('./harness');
const { bearer, guarded } = require('./access');

const AUDIENCE = 'tenax';

function base64(value) {
    return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
}

function keyPair(kind, kid, alg) {
    const { publicKey, privateKey } = kind === 'RSA'
        ? crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })
        : crypto.generateKeyPairSync('ec', { namedCurve: kind });
    return { kid, alg, privateKey, publicKey,
        jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' } };
}

function sign(key, text) {
    const hash = `sha${key.alg.slice(2)}`;
    return crypto.sign(hash, Buffer.from(text), { key: key.privateKey, dsaEncoding: 'ieee-p1363' })
        .toString('base64url');
}

function jwt(key, claims, header = {}) {
    const text = `${base64({ typ: 'JWT', alg: key.alg, kid: key.kid, ...header })}.${base64(claims)}`;
    return `${text}.${sign(key, text)}`;
}

// A small issuer: {url, keys, claims(more), asked}. The keys may be changed at any time; answer(req,
// res), if it is set, answers the requests for keys in its own way.
async function issuer(t, keys, { tls, wrong = {} } = {}) {
    const self = { keys, asked: [], headers: [] };
    const answer = (req, res) => {
        self.asked.push(req.url);
        self.headers.push(req.headers.authorization);
        if (self.answer && req.url !== '/.well-known/openid-configuration') {
            self.answer(req, res);
            return;
        }
        const body = req.url === '/.well-known/openid-configuration'
            ? { issuer: self.url, jwks_uri: `${self.url}/keys`, ...wrong }
            : { keys: self.keys.map((key) => key.jwk) };
        res.writeHead(self.down ? 503 : 200, { 'content-type': 'application/json' });
        res.end(JSON.stringify(body));
    };
    const listener = tls ? https.createServer(tls, answer) : http.createServer(answer);
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    t.after(() => { listener.closeAllConnections(); listener.close(); });
    self.url = `${tls ? 'https' : 'http'}://127.0.0.1:${listener.address().port}`;
    self.claims = (more = {}) => {
        const now = Math.floor(Date.now() / 1000);
        return { iss: self.url, aud: AUDIENCE, sub: 'me', iat: now, exp: now + 600, ...more };
    };
    return self;
}

// A server with these rules, as JSON, and one admin with a token.
async function started(t, rules, more = []) {
    const file = path.join(makeDir(), 'identities.json');
    const write = (value) => fs.writeFileSync(file, JSON.stringify(value));
    write(rules);
    t.after(() => fs.rmSync(path.dirname(file), { recursive: true }));
    const all = await guarded(t, {}, { args: ['--identities', file, '--wrong-credentials', '0',
        '--heartbeat-interval', '200ms', '--log-level', 'info', ...more] });
    return { ...all, write, file };
}

function rulesOf(one, rules, more = {}) {
    return { issuers: [{ issuer: one.url, audience: AUDIENCE, ...more }],
        rules: rules.map((rule) => ({ issuer: one.url, ...rule })) };
}

// The keys are read in the background.
async function ready(server, token) {
    return until(async () => {
        const res = await server.get('/version', bearer(token));
        return res.status !== 503 && res;
    }, 'the keys are read');
}

module.exports = { AUDIENCE, base64, issuer, jwt, keyPair, ready, rulesOf, started };
