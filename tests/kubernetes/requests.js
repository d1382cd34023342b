// SPDX-License-Identifier: Apache-2.0
'use strict';

// Requests to a double as any HTTP client would make them, for tests of its conventions.

const assert = require('node:assert/strict');
const { until } = require('./cluster');

const PODS = '/api/v1/namespaces/default/pods';
let numbers = 0;

const unique = (prefix = 'pod') => `${prefix}-${++numbers}`;

function manifest(name, { labels, annotations, finalizers, ...spec } = {}) {
    return { kind: 'Pod', apiVersion: 'v1', metadata: { name, labels, annotations, finalizers },
        spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'busybox:1' }],
            ...spec } };
}

function isStatus({ code, body }, wanted, reason) {
    assert.equal(code, wanted, JSON.stringify(body));
    assert.equal(body.kind, 'Status');
    assert.equal(body.apiVersion, 'v1');
    assert.equal(body.status, 'Failure');
    assert.equal(body.code, wanted);
    assert.equal(body.reason, reason);
}

// server(): the double. ask gives {code, body, headers}, body being decoded where it is JSON.
function requests(server) {
    async function ask(method, path, body, { token = 'admin-token', type, accept } = {}) {
        const headers = { authorization: `Bearer ${token}` };
        if (body !== undefined)
            headers['content-type'] = type || 'application/json';
        if (accept)
            headers.accept = accept;
        const res = await fetch(`${server().url}${path}`, { method, headers,
            body: body === undefined ? undefined : JSON.stringify(body) });
        const text = await res.text();
        const json = /json/.test(res.headers.get('content-type'));
        return { code: res.status, body: json ? JSON.parse(text) : text, headers: res.headers };
    }

    async function made(spec, name = unique()) {
        const { code, body } = await ask('POST', PODS, manifest(name, spec));
        assert.equal(code, 201, JSON.stringify(body));
        return body;
    }

    // The events of a watch, as they come: next() awaits one; over: how the stream ended.
    async function watching(query) {
        const abort = new AbortController();
        const res = await fetch(`${server().url}${PODS}?watch=true&${query}`, {
            signal: abort.signal, headers: { authorization: 'Bearer admin-token' } });
        const events = [];
        const out = { code: res.status, over: null, stop: () => abort.abort() };
        const read = async () => {
            const decoder = new TextDecoder();
            let tail = '';
            for await (const part of res.body) {
                const lines = (tail + decoder.decode(part, { stream: true })).split('\n');
                tail = lines.pop();
                events.push(...lines.filter(Boolean).map((line) => JSON.parse(line)));
            }
        };
        read().then(() => { out.over = 'ended'; }, () => { out.over = 'broken'; });
        let taken = 0;
        out.next = async () => {
            await until(() => events.length > taken, 'the watch tells of another event');
            return events[taken++];
        };
        return out;
    }

    return { ask, made, watching };
}

module.exports = { PODS, unique, manifest, isStatus, requests };
