// SPDX-License-Identifier: Apache-2.0
'use strict';

// Kubeconfig files for a double, one for each way of proving who one is.

const fs = require('node:fs');
const path = require('node:path');

let number = 0;

function scalar(value) {
    return typeof value === 'boolean' ? String(value) : JSON.stringify(value);
}

// Block style YAML of plain trees, as kubectl writes it.
function yaml(value, indent = '') {
    return Object.entries(value).map(([key, item]) => {
        if (Array.isArray(item))
            return `${indent}${key}:${item.length === 0 ? ' []\n' : `\n${item.map((one) =>
                (typeof one === 'object' ? `${indent}- ${yaml(one, `${indent}  `).trimStart()}`
                    : `${indent}- ${scalar(one)}\n`)).join('')}`}`;
        if (typeof item === 'object')
            return `${indent}${key}:\n${yaml(item, `${indent}  `)}`;
        return `${indent}${key}: ${scalar(item)}\n`;
    }).join('');
}

const base64 = (text) => Buffer.from(text).toString('base64');

// auth: token | tokenFile | certificate | certificateFiles | basic | exec | none
function userOf(double, { user, auth, files, exec }) {
    const known = double.cluster.auth.users.get(user) || { name: user, groups: [] };
    const file = (name, text) => {
        fs.writeFileSync(path.join(files, name), text, { mode: 0o600 });
        return name;
    };
    switch (auth) {
    case 'token': return { token: known.token };
    case 'tokenFile': return { tokenFile: file(`${user}.token`, known.token) };
    case 'basic': return { username: user, password: known.password };
    case 'exec': return { exec };
    case 'none': return {};
    case 'certificate': case 'certificateFiles': {
        const { key, cert } = double.authority.client(user, known.groups);
        return auth === 'certificate'
            ? { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) }
            : { 'client-certificate': file(`${user}.crt`, cert),
                'client-key': file(`${user}.key`, key) };
    }
    default: throw new Error(`no such way to authenticate: ${auth}`);
    }
}

// Options: user ('admin'), auth ('token'), namespace, context ('double'), ca ('data', 'file',
// 'none'), insecure, exec (its member, for auth exec), file (where to), cluster (more members).
function kubeconfig(double, { user = 'admin', auth = 'token', namespace, context = 'double',
    ca = 'data', insecure = false, exec, file, cluster = {} } = {}) {
    const target = file || path.join(double.dir, `kubeconfig-${++number}`);
    const files = path.dirname(target);
    const server = { server: double.url, ...cluster };
    if (double.authority && insecure) {
        server['insecure-skip-tls-verify'] = true;
    } else if (double.authority && ca === 'data') {
        server['certificate-authority-data'] = base64(double.authority.ca.cert);
    } else if (double.authority && ca === 'file') {
        fs.writeFileSync(path.join(files, 'ca.crt'), double.authority.ca.cert);
        server['certificate-authority'] = 'ca.crt';
    }
    const where = { cluster: context, user };
    if (namespace)
        where.namespace = namespace;
    fs.writeFileSync(target, yaml({ apiVersion: 'v1', kind: 'Config',
        clusters: [{ name: context, cluster: server }],
        users: [{ name: user, user: userOf(double, { user, auth, files, exec }) }],
        contexts: [{ name: context, context: where }], 'current-context': context }),
    { mode: 0o600 });
    return target;
}

module.exports = { kubeconfig };
