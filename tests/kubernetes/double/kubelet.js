// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs scripts: for every new pod the steps that are meant for it, and the end of a pod that is
// deleted. It does so through a port, which is the double itself or a client of a real API server
// (../cluster.js), whose functions may answer at once or later:
//
//   get(namespace, name)        the pod, or undefined
//   list()                      all pods, for whoever begins late
//   write(pod, status)          its status
//   bind(pod, node)             puts it on a node; true: one that the port chooses, or it waits
//   event(pod, event)           {type, reason, message, component, fieldPath?}
//   remove(pod, {grace, force}) deletes it as another client would
//   gone(pod)                   the kubelet's word that nothing of it runs any more
//   log(pod, container, text, previous)
//   stamp()                     the time, as RFC 3339

const steps = require('./steps');

const ANNOTATION = 'double.tenax.dev/script';

// A script is a list of steps, or {steps, onDelete, logs}.
function normalize(script) {
    const out = Array.isArray(script) ? { steps: script } : script;
    return { onDelete: {}, logs: {}, ...out, steps: (out.steps || []).map(steps.normal) };
}

function matches({ name, namespace, labels, image }, pod) {
    const { metadata, spec } = pod;
    if (name && !new RegExp(name).test(metadata.name))
        return false;
    if (namespace && namespace !== metadata.namespace)
        return false;
    if (image && !spec.containers.some((one) => new RegExp(image).test(one.image)))
        return false;
    return Object.entries(labels || {}).every(([key, value]) =>
        (metadata.labels || {})[key] === value);
}

class Kubelet {
    // script: what pods do that nothing else is meant for; idle: pods are left alone, as where no
    // scheduler and no kubelet runs.
    constructor(port, { script = ['running', 'succeeded'], idle, report = () => {} } = {}) {
        this.idle = idle;
        this.port = port;
        this.fallback = normalize(script);
        this.rules = [];
        this.runs = new Map(); // uid -> {script, timer, stopped}
        this.lost = new Set(); // nodes whose kubelet does nothing
        this.report = report;
    }

    // The first rule that matches is taken; times: for so many pods only.
    addRule({ match = {}, times = Infinity, script }) {
        this.rules.push({ match, times, script: normalize(script) });
    }

    clearRules() {
        this.rules = [];
    }

    scriptFor(pod) {
        const text = (pod.metadata.annotations || {})[ANNOTATION];
        if (text !== undefined) {
            try {
                return normalize(JSON.parse(text));
            } catch (err) {
                this.report(`script of pod ${pod.metadata.name}: ${err.message}`);
            }
        }
        const rule = this.rules.find((one) => one.times > 0 && matches(one.match, pod));
        if (!rule)
            return this.fallback;
        rule.times--;
        return rule.script;
    }

    added(pod) {
        const { uid } = pod.metadata;
        if (this.idle || this.runs.has(uid))
            return;
        const run = { script: this.scriptFor(pod), namespace: pod.metadata.namespace,
            name: pod.metadata.name, uid, at: 0 };
        this.runs.set(uid, run);
        for (const [container, text] of Object.entries(run.script.logs))
            this.port.log(pod, container, text);
        if (pod.metadata.deletionTimestamp)
            this.deleting(pod);
        else
            this.next(run);
    }

    removed(pod) {
        const run = this.runs.get(pod.metadata.uid);
        if (run) {
            this.cancel(run);
            clearTimeout(run.deadline);
            this.runs.delete(pod.metadata.uid);
        }
    }

    cancel(run) {
        clearTimeout(run.timer);
        clearImmediate(run.soon);
        run.timer = run.soon = undefined;
    }

    next(run) {
        const step = run.script.steps[run.at];
        if (!step || run.stopped)
            return;
        this.later(run, step.after || 0, () => this.advance(run, step));
    }

    later(run, ms, act) {
        this.cancel(run);
        const go = () => Promise.resolve(act()).catch((err) =>
            this.report(`script of pod ${run.name}: ${err.message}`));
        if (ms > 0)
            run.timer = setTimeout(go, ms);
        else
            run.soon = setImmediate(go);
    }

    async advance(run, step) {
        const pod = await this.current(run);
        if (!pod || run.stopped)
            return;
        if (!(await this.perform(pod, step))) {
            run.blocked = true; // the scheduler or the node's return wakes it
            return;
        }
        run.at++;
        this.next(run);
    }

    async current(run) {
        const pod = await this.port.get(run.namespace, run.name);
        return pod && pod.metadata.uid === run.uid ? pod : undefined;
    }

    // What has to be true first is made so. False: it has to wait.
    async perform(pod, step) {
        if (!pod.spec.nodeName && !steps.UNBOUND.has(step.do)) {
            if (!(await this.bind(pod, true)))
                return false;
            pod = await this.port.get(pod.metadata.namespace, pod.metadata.name);
            if (!pod)
                return true;
        }
        const frozen = step.do !== 'nodeLost' && !steps.UNBOUND.has(step.do);
        if (frozen && this.lost.has(pod.spec.nodeName))
            return false;
        const out = steps.apply(pod, step, this.port.stamp());
        if (out.bind)
            return pod.spec.nodeName ? true : this.bind(pod, out.bind);
        await this.effects(pod, out);
        return true;
    }

    async bind(pod, node) {
        const bound = await this.port.bind(pod, node);
        if (bound)
            await this.port.event(pod, { type: 'Normal', reason: 'Scheduled',
                component: 'default-scheduler', message: 'Successfully assigned ' +
                `${pod.metadata.namespace}/${pod.metadata.name} to ${bound}` });
        return Boolean(bound);
    }

    async effects(pod, { status, events = [], remove, log, stop }) {
        if (log)
            await this.port.log(pod, log.container, log.text, log.previous);
        for (const event of events)
            await this.port.event(pod, event);
        if (status)
            await this.port.write(pod, status);
        const run = this.runs.get(pod.metadata.uid);
        if (stop && run)
            run.stopped = true;
        if (run && status && status.startTime)
            this.limit(run, pod.spec.activeDeadlineSeconds);
        if (remove)
            await this.port.remove(pod, remove);
    }

    // The kubelet ends a pod that is active for longer than its spec allows.
    limit(run, seconds) {
        if (seconds === undefined || run.deadline)
            return;
        run.deadline = setTimeout(async () => {
            const pod = await this.current(run);
            if (!pod || ['Succeeded', 'Failed'].includes(pod.status.phase) || run.stopped)
                return;
            this.cancel(run);
            run.script = { ...run.script, steps: [] };
            await this.perform(pod, { do: 'deadline' });
        }, seconds * 1000);
    }

    // One step now, whatever the script says; the script goes no further.
    async step(namespace, name, given) {
        const pod = await this.port.get(namespace, name);
        if (!pod)
            throw new Error(`no pod ${namespace}/${name}`);
        const run = this.runs.get(pod.metadata.uid);
        if (run && !pod.metadata.deletionTimestamp) {
            this.cancel(run);
            run.script = { ...run.script, steps: [] };
            run.blocked = false;
        }
        const step = steps.normal(given);
        if (!(await this.perform(pod, step)))
            throw new Error(`pod ${name} cannot do "${step.do}": no node takes it, or its node ` +
                'is lost');
        return this.port.get(namespace, name);
    }

    // A pod is marked: its containers get their signal, and so much time as they were given.
    deleting(pod) {
        const run = this.runs.get(pod.metadata.uid);
        if (!run)
            return;
        this.cancel(run);
        run.dying = true;
        const { onDelete } = run.script;
        const grace = (pod.metadata.deletionGracePeriodSeconds || 0) * 1000;
        if (onDelete.never || run.stopped || this.lost.has(pod.spec.nodeName))
            return;
        const ends = onDelete.ignore ? grace : Math.min(onDelete.after || 0, grace);
        const code = onDelete.ignore || (onDelete.after || 0) > grace ? 137 : onDelete.code ?? 143;
        this.later(run, ends, () => this.kill(run, code));
    }

    async kill(run, code) {
        let pod = await this.current(run);
        if (!pod || this.lost.has(pod.spec.nodeName))
            return;
        if ((pod.status.containerStatuses || []).some((one) => one.state.running)) {
            for (const one of pod.status.containerStatuses)
                if (one.state.running)
                    await this.port.event(pod, { type: 'Normal', reason: 'Killing',
                        component: 'kubelet', message: `Stopping container ${one.name}`,
                        fieldPath: `spec.containers{${one.name}}` });
            await this.effects(pod, steps.apply(pod, { do: 'terminated', code },
                this.port.stamp()));
            pod = await this.current(run);
        }
        if (pod)
            await this.port.gone(pod);
    }

    // Its kubelet answers no more, or does so again.
    setLost(node, lost) {
        if (lost)
            this.lost.add(node);
        else
            this.lost.delete(node);
    }

    // Whoever waited for a node, or for its node's return, tries again.
    async wake() {
        for (const run of [...this.runs.values()]) {
            const pod = run.blocked || run.dying ? await this.current(run) : undefined;
            if (!pod)
                continue;
            if (pod.metadata.deletionTimestamp) {
                this.deleting(pod);
            } else if (run.blocked) {
                run.blocked = false;
                this.next(run);
            }
        }
    }

    stop() {
        for (const run of this.runs.values()) {
            this.cancel(run);
            clearTimeout(run.deadline);
        }
    }
}

module.exports = { Kubelet, ANNOTATION };
