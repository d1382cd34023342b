// SPDX-License-Identifier: Apache-2.0
'use strict';

// A container of a pod as a kubelet would run it, as far as one machine without images can: with the
// arguments and the environment that its manifest says, as its user, without capabilities, on a root
// that is read-only but for its volumes, with the files of its service account. What is translated are
// ports, so that tests can run side by side, and the names of services, which are the loopback here.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { inspect } = require('node:util');
const { BIN, until } = require('../http/harness');
const { SOURCE, argsOf, environmentOf, portOf } = require('./manifests');

const PROGRAMS = '/run/bin'; // instead of the image's, which is read-only
const HEALTH = path.join(SOURCE, 'packaging/docker-health');
const ACCOUNT = '/run/secrets/kubernetes.io/serviceaccount'; // /var/run is a link to /run

const running = new Set();
process.on('exit', () => {
    for (const pid of running)
        process.kill(pid, 'SIGKILL');
});

// What the image's ENV and ENTRYPOINT say.
function image() {
    const stages = fs.readFileSync(path.join(SOURCE, 'Dockerfile'), 'utf8').split(/^FROM /m);
    // The last stage adds nothing to the one that is called tenax.
    assert.match(stages.pop(), /^tenax AS server\n*$/);
    const text = stages.find((stage) => /^debian:12-slim AS tenax$/m.test(stage));
    assert.match(text, /^ENTRYPOINT \["tenax"\]$/m);
    return { user: Number(/^USER (\d+):\1$/m.exec(text)[1]), volume: /^VOLUME (\S+)$/m.exec(text)[1],
        env: Object.fromEntries([...text.matchAll(/^ENV ([A-Z_]+)=(\S+)$/gm)].map((m) =>
            [m[1], m[2]])) };
}

class Container {
    // volumes: {name of the volume: folder}; account: a folder with the service account's files;
    // hosts: a file for /etc/hosts; env: what is translated, and what a kubelet adds; args: further ones;
    // command: another one than its own.
    constructor({ objects, workload, volumes, account, hosts, env, args, command }) {
        Object.assign(this, { workload, volumes, account, hosts });
        [this.spec] = workload.containers;
        const said = { ...image().env, ...environmentOf(objects, workload, this.spec) };
        this.env = { ...said, ...env };
        this.command = command || ['tenax', ...argsOf(this.spec, said), ...args];
        this.said = '';
    }

    security() {
        const { runAsUser, runAsGroup } = this.workload.pod.securityContext;
        const { readOnlyRootFilesystem, capabilities } = this.spec.securityContext;
        return ['--unshare-user', '--uid', String(runAsUser), '--gid', String(runAsGroup),
            ...capabilities.drop.flatMap((name) => ['--cap-drop', name]),
            readOnlyRootFilesystem ? '--ro-bind' : '--bind', '/', '/', '--dev', '/dev'];
    }

    // Folders that there must be are made in file systems of their own, which are then read-only.
    mounts() {
        const mounts = this.spec.volumeMounts.map(({ name, mountPath, readOnly }) => {
            assert.match(mountPath, /^\/(var\/lib|run)\//);
            return [readOnly ? '--ro-bind' : '--bind', this.volumes[name], mountPath];
        });
        if (this.workload.pod.automountServiceAccountToken)
            mounts.push(['--ro-bind', this.account, ACCOUNT]);
        return ['--tmpfs', '/run', '--tmpfs', '/var/lib', '--ro-bind', BIN, `${PROGRAMS}/tenax`,
            '--ro-bind', HEALTH, `${PROGRAMS}/docker-health`,
            ...mounts.flatMap(([, , at]) => ['--dir', at]), '--remount-ro', '/run',
            '--remount-ro', '/var/lib', ...mounts.flat(), '--ro-bind', this.hosts, '/etc/hosts'];
    }

    start() {
        const env = { PATH: `${PROGRAMS}:/usr/bin:/bin`, HOME: image().volume, ...this.env };
        this.said = '';
        const child = spawn('bwrap', ['--die-with-parent', '--info-fd', '3', ...this.security(),
            ...this.mounts(), '--clearenv', ...Object.entries(env).flatMap(([name, value]) =>
                ['--setenv', name, value]), '--chdir', '/', '--', ...this.command],
        { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
        let info = '';
        child.stdio[3].on('data', (bytes) => { info += bytes; });
        child.stdio[3].on('close', () => {
            if (info && this.ends === undefined) {
                this.pid = JSON.parse(info)['child-pid'];
                running.add(this.pid);
            }
        });
        for (const stream of [child.stdout, child.stderr])
            stream.on('data', (bytes) => { this.said += bytes; });
        this.ends = undefined;
        this.ended = new Promise((resolve) => {
            child.on('error', (err) => { this.ends = err; resolve(err); });
            child.on('close', (code, signal) => {
                running.delete(this.pid);
                this.ends = { code, signal };
                resolve(this.ends);
            });
        });
        return this;
    }

    // Waits for words of it: the match.
    says(pattern) {
        return until(() => {
            assert.equal(this.ends, undefined, `it has ended: ${inspect(this.ends)} ${this.said}`);
            return pattern.exec(this.said);
        }, () => `it says ${pattern}: ${this.said}`);
    }

    async stop(signal = 'SIGTERM') {
        if (this.ends !== undefined)
            return this.ends;
        await until(() => this.pid, 'it has begun');
        process.kill(this.pid, signal);
        return this.ended;
    }
}

// What a kubelet does for a probe by HTTP: true or false. ports: where the named ports really are.
function probe({ httpGet }, ports, container) {
    const number = ports[httpGet.port];
    assert.ok(number, `${httpGet.port} is a port of the container`);
    assert.ok(portOf(container, httpGet.port));
    return new Promise((resolve) => {
        http.get({ host: '127.0.0.1', port: number, path: httpGet.path }, (res) => {
            res.resume();
            res.on('end', () => resolve(res.statusCode >= 200 && res.statusCode < 400));
        }).on('error', () => resolve(false));
    });
}

module.exports = { Container, image, probe };
