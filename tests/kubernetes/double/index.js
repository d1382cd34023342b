// SPDX-License-Identifier: Apache-2.0
'use strict';

// startDouble: the fake API server as a module. README.md tells how to use it.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const api = require('./api');
const { Cluster } = require('./cluster');
const { Server } = require('./server');
const { Faults } = require('./faults');
const { Authority } = require('./certificates');
const { Control } = require('./control');
const { kubeconfig } = require('./kubeconfig');

class Double {
    constructor(options) {
        this.options = options;
        this.dir = options.dir || fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-double-'));
        this.faults = new Faults();
        this.reports = [];
    }

    async start() {
        const { tls, host = '127.0.0.1', port, users = [], controlPort } = this.options;
        let secure;
        if (tls) {
            this.authority = new Authority(this.dir);
            const { key, cert } = this.authority.server(host, tls);
            secure = { key, cert, ca: this.authority.ca.cert };
        }
        const admin = { name: 'admin', groups: ['system:masters'], token: 'admin-token',
            password: 'admin-password' };
        this.cluster = new Cluster({ ...this.options, users: [admin, ...users],
            faults: this.faults, ca: secure ? secure.ca : '',
            report: (words) => this.report(words) });
        this.cluster.report = (words) => this.report(words);
        this.server = new Server(this.cluster, { tls: secure, host, port });
        this.url = await this.server.listen();
        if (controlPort !== undefined) {
            this.control = new Control(this);
            this.controlUrl = await this.control.listen(host, controlPort);
        }
        return this;
    }

    report(words) {
        if (this.reports.push(words) > 1000)
            this.reports.shift();
        if (this.options.verbose)
            process.stderr.write(`double: ${words}\n`);
    }

    // Writes a kubeconfig and returns its path: see kubeconfig.js for its options.
    kubeconfig(options = {}) {
        return kubeconfig(this, options);
    }

    // ---- scripts

    script(script, { match, times } = {}) {
        this.cluster.kubelet.addRule({ script, match, times });
    }

    clearScripts() {
        this.cluster.kubelet.clearRules();
    }

    phase(namespace, name, step, details = {}) {
        return this.cluster.kubelet.step(namespace, name, { ...details, do: step });
    }

    // ---- what goes wrong

    fault(rule) {
        this.faults.add(rule);
    }

    clearFaults() {
        this.faults.clear();
    }

    // half: the last line breaks off in its middle; finish: the orderly end of their time;
    // error: they end with an event of that code (410, 500, …).
    dropWatches({ half = false, finish = false, error } = {}) {
        for (const watch of [...this.cluster.watches])
            if (error)
                watch.fail(error);
            else if (finish)
                watch.finish();
            else if (half)
                watch.halfNext = true;
            else
                watch.destroy();
    }

    // Connections stay open, but nothing arrives until they are let go.
    stallWatches(stalled = true) {
        for (const watch of [...this.cluster.watches]) {
            watch.stalled = stalled;
            watch.flush();
        }
    }

    // Every line comes in pieces of so many bytes; 0: whole again.
    trickleWatches(bytes = 7) {
        for (const watch of this.cluster.watches)
            watch.piece = bytes;
    }

    bookmark() {
        for (const watch of this.cluster.watches)
            if (watch.bookmarks)
                watch.bookmark();
    }

    compact({ answer = false } = {}) {
        this.cluster.store.compact();
        this.faults.goneAsAnswer = answer;
    }

    // Away for so many ms, on the same port after; keep: the objects, but not the history.
    async restart({ keep = true, away = 0 } = {}) {
        for (const watch of [...this.cluster.watches])
            watch.destroy();
        await this.server.close();
        this.cluster.restart({ keep });
        await new Promise((resolve) => setTimeout(resolve, away));
        await this.server.listen();
    }

    // The cluster's clock is so many ms before (or, negative, behind) this machine's.
    clock(offset) {
        this.cluster.clock.offset = offset;
    }

    user(user) {
        this.cluster.auth.set(user);
    }

    node(node) {
        this.cluster.node(node);
    }

    loseNode(name, options) {
        this.cluster.loseNode(name, options);
    }

    restoreNode(name) {
        this.cluster.restoreNode(name);
    }

    removeNode(name) {
        this.cluster.removeNode(name);
    }

    namespace(name) {
        this.cluster.namespace(name);
    }

    // {"create pods 201": 3, …} since the beginning, or since they were last cleared.
    requests({ clear = false } = {}) {
        const out = Object.fromEntries(this.server.counts);
        if (clear)
            this.server.counts.clear();
        return out;
    }

    watches() {
        return this.cluster.watches.size;
    }

    pods(namespace = '') {
        const { core } = require('./resources');
        return this.cluster.store.entries(core('pods'), namespace).map((entry) => entry.object);
    }

    // A request as the first user, whatever faults there are: the object, or undefined for 404.
    request(method, target, body, type = 'application/json') {
        const at = target.indexOf('?');
        const call = { method, path: at < 0 ? target : target.slice(0, at),
            query: new URLSearchParams(at < 0 ? '' : target.slice(at + 1)),
            headers: { authorization: 'Bearer admin-token', 'content-type': type },
            body: Buffer.from(body === undefined ? '' : JSON.stringify(body)),
            now: this.cluster.clock.now() };
        try {
            api.resolve(call);
            const { json, object, entry, text } = api.answer(this.cluster, call);
            return text ?? (json ? JSON.parse(json) : object || JSON.parse(entry.json()));
        } catch (err) {
            if (err.status && err.status.code === 404)
                return undefined;
            throw err.status ? Object.assign(err, { code: err.status.code }) : err;
        }
    }

    async stop() {
        this.cluster.stop();
        await this.server.close();
        if (this.control)
            await this.control.close();
        if (!this.options.dir)
            fs.rmSync(this.dir, { recursive: true, force: true });
    }
}

// Options: port, tls, users, nodes, namespaces, script, clockOffset, history, events, dir,
// controlPort, verbose.
function startDouble(options = {}) {
    return new Double(options).start();
}

module.exports = { startDouble };
