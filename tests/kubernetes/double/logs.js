// SPDX-License-Identifier: Apache-2.0
'use strict';

// Logs of containers, and the subresource pods/log.

const status = require('./status');
const { number, flag } = require('./rest');
const { find } = require('./steps');

class Logs {
    constructor(clock) {
        this.clock = clock;
        this.byPod = new Map(); // uid -> Map of container[/previous] -> {lines, followers}
    }

    of(uid, container, previous = false) {
        if (!this.byPod.has(uid))
            this.byPod.set(uid, new Map());
        const logs = this.byPod.get(uid);
        const key = previous ? `${container}/previous` : container;
        if (!logs.has(key))
            logs.set(key, { lines: [], followers: new Set() });
        return logs.get(key);
    }

    append(uid, container, text, previous) {
        const log = this.of(uid, container, previous);
        const at = this.clock.now();
        for (const line of text.match(/[^\n]*\n|[^\n]+$/g) || []) {
            log.lines.push({ at, text: line });
            log.followers.forEach((follower) => follower({ at, text: line }));
        }
    }

    // A container runs again: what it wrote is now of the one before.
    rotate(uid, container) {
        const logs = this.byPod.get(uid) || new Map();
        const log = logs.get(container);
        if (!log)
            return;
        logs.set(`${container}/previous`, { lines: log.lines, followers: new Set() });
        logs.delete(container);
    }

    // The pod is gone: so are its logs.
    drop(uid) {
        const logs = this.byPod.get(uid) || new Map();
        this.byPod.delete(uid);
        for (const log of logs.values())
            log.followers.forEach((follower) => follower(null));
    }

    // A container has ended: nobody waits for more of its log.
    ended(uid, container) {
        const log = (this.byPod.get(uid) || new Map()).get(container);
        if (log)
            log.followers.forEach((follower) => follower(null));
    }
}

function containerOf(call, pod) {
    const asked = call.query.get('container');
    const names = [...pod.spec.containers, ...(pod.spec.initContainers || [])]
        .map((one) => one.name);
    if (asked && !names.includes(asked))
        throw status.badRequest(`container ${asked} is not valid for pod ${pod.metadata.name}`);
    const list = (containers) => `[${containers.map((one) => one.name).join(' ')}]`;
    if (!asked && pod.spec.containers.length > 1)
        throw status.badRequest('a container name must be specified for pod ' +
            `${pod.metadata.name}, choose one of: ${list(pod.spec.containers)}` +
            (pod.spec.initContainers ? ' or one of the init containers: ' +
                list(pod.spec.initContainers) : ''));
    return asked || pod.spec.containers[0].name;
}

function options({ query }) {
    const out = { tail: number(query, 'tailLines'), limit: number(query, 'limitBytes'),
        seconds: number(query, 'sinceSeconds'), time: query.get('sinceTime'),
        timestamps: flag(query, 'timestamps'), follow: flag(query, 'follow'),
        previous: flag(query, 'previous') };
    const causes = [];
    const wrong = (field, value, why) => causes.push({ reason: 'FieldValueInvalid', field,
        message: `Invalid value: ${value}: ${why}` });
    if (out.tail < 0)
        wrong('tailLines', out.tail, 'must be greater than or equal to 0');
    if (out.limit < 1)
        wrong('limitBytes', out.limit, 'must be greater than 0');
    if (out.seconds < 1)
        wrong('sinceSeconds', out.seconds, 'must be greater than 0');
    if (causes.length > 0)
        throw status.invalid({ resource: 'podlogoptions', kind: 'PodLogOptions', group: '' }, '',
            causes);
    return out;
}

function chosenLines(log, { tail, seconds, time }, now) {
    const since = seconds !== undefined ? now - seconds * 1000 : time ? Date.parse(time) : 0;
    let lines = log.lines.filter((line) => line.at >= since);
    if (tail !== undefined)
        lines = tail === 0 ? [] : lines.slice(-tail);
    return lines;
}

// {code, text} or, to follow, {code, stream(out)}.
function read(cluster, call) {
    const pod = cluster.rest.find(call).object;
    const asked = options(call);
    const container = containerOf(call, pod);
    const one = find(pod.status, container);
    const { uid, name } = pod.metadata;
    if (cluster.kubelet.lost.has(pod.spec.nodeName))
        throw status.failure(500, 'InternalError', `Get "https://${pod.spec.nodeName}:10250/` +
            `containerLogs/${pod.metadata.namespace}/${name}/${container}": dial tcp: no route ` +
            'to host');
    if (asked.previous && !(one && one.lastState && one.lastState.terminated))
        throw status.badRequest(`previous terminated container "${container}" in pod "${name}" ` +
            'not found');
    if (!one || (!asked.previous && one.state.waiting && !one.lastState.terminated))
        throw status.badRequest(`container "${container}" in pod "${name}" is waiting to start: ` +
            `${(one && one.state.waiting && one.state.waiting.reason) || 'ContainerCreating'}`);
    // Until it runs again, the one before is the one that has ended.
    let log = cluster.logs.of(uid, container, asked.previous);
    if (asked.previous && log.lines.length === 0 && !one.state.running)
        log = cluster.logs.of(uid, container);
    const stamp = (line) => (asked.timestamps
        ? `${new Date(line.at).toISOString().replace('Z', '000000Z')} ${line.text}` : line.text);
    const text = chosenLines(log, asked, cluster.clock.now()).map(stamp).join('');
    if (asked.follow && one.state.running)
        return { code: 200, stream: (out) => follow(log, text, stamp, asked.limit, out) };
    return { code: 200, text: asked.limit === undefined ? text : cut(text, asked.limit) };
}

function cut(text, bytes) {
    return Buffer.from(text).subarray(0, bytes);
}

function follow(log, text, stamp, limit = Infinity, out) {
    let left = limit;
    const send = (words) => {
        const bytes = cut(words, Math.min(left, Number.MAX_SAFE_INTEGER));
        left -= bytes.length;
        out.write(bytes);
        if (left <= 0)
            stop();
    };
    const follower = (line) => (line === null ? stop() : send(stamp(line)));
    const stop = () => {
        log.followers.delete(follower);
        out.end();
    };
    log.followers.add(follower);
    out.closed(() => log.followers.delete(follower));
    if (text)
        send(text);
}

module.exports = { Logs, read };
