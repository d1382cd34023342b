// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a kubelet, the scheduler and the controllers write about a pod, step by step, as pure
// functions: (pod, step, now) -> {status?, events?, bind?, remove?, log?, stop?}. The double's
// kubelet and the suite's puppet of a real API server (../cluster.js) both take them from here.
// README.md lists the steps and their members.

const EXIT_REASONS = { 0: 'Completed' };

function setCondition(conditions = [], type, status, now, { reason, message } = {}) {
    const old = conditions.find((condition) => condition.type === type);
    const next = { type, status, lastProbeTime: null, lastTransitionTime:
        old && old.status === status ? old.lastTransitionTime : now };
    if (reason)
        next.reason = reason;
    if (message)
        next.message = message;
    if (!old)
        return [...conditions, next];
    return conditions.map((condition) => (condition === old ? next : condition));
}

function address(uid, net) {
    const n = parseInt(uid.slice(0, 6), 16);
    return `${net}.${(n >> 16) & 255}.${(n >> 8) & 255}.${1 + (n & 253)}`;
}

// The status of a container that has not begun.
function fresh({ name, image }, reason) {
    return { name, state: { waiting: { reason } }, lastState: {}, ready: false, restartCount: 0,
        image, imageID: '', started: false };
}

// The kubelet's first look at a pod.
function begun(pod, now) {
    const { spec, status } = pod;
    if (status.containerStatuses)
        return status;
    const inits = spec.initContainers || [];
    const names = spec.containers.map((one) => one.name).join(' ');
    const unready = { reason: 'ContainersNotReady',
        message: `containers with unready status: [${names}]` };
    let { conditions } = status;
    const initialized = inits.length === 0 ? {} : { reason: 'ContainersNotInitialized',
        message: `containers with incomplete status: [${inits.map((c) => c.name).join(' ')}]` };
    conditions = setCondition(conditions, 'PodReadyToStartContainers', 'False', now);
    conditions = setCondition(conditions, 'Initialized', inits.length ? 'False' : 'True', now,
        initialized);
    conditions = setCondition(conditions, 'Ready', 'False', now, unready);
    conditions = setCondition(conditions, 'ContainersReady', 'False', now, unready);
    const out = { ...status, phase: 'Pending', conditions, hostIP: '10.0.0.1', startTime: now };
    if (inits.length)
        out.initContainerStatuses = inits.map((c, i) => fresh(c, i ? 'PodInitializing'
            : 'ContainerCreating'));
    out.containerStatuses = spec.containers.map((c) => fresh(c, inits.length ? 'PodInitializing'
        : 'ContainerCreating'));
    return out;
}

const LISTS = ['initContainerStatuses', 'containerStatuses'];

// The statuses with those of the chosen containers changed.
function changed(status, names, change) {
    const out = { ...status };
    for (const list of LISTS)
        if (status[list])
            out[list] = status[list].map((one) => (names.includes(one.name) ? change(one) : one));
    return out;
}

function find(status, name) {
    for (const list of LISTS)
        for (const one of status[list] || [])
            if (one.name === name)
                return one;
    return undefined;
}

function specOf(pod, name) {
    return [...pod.spec.containers, ...(pod.spec.initContainers || [])]
        .find((one) => one.name === name);
}

// step.container names one; else what the step is about by its nature.
function chosen(pod, step, fallback) {
    if (step.container === undefined)
        return fallback;
    if (!specOf(pod, step.container))
        throw new Error(`no container ${step.container} in pod ${pod.metadata.name}`);
    return [step.container];
}

function isInit(pod, name) {
    return (pod.spec.initContainers || []).some((one) => one.name === name);
}

function isRunning(one) {
    return Boolean(one.state.running);
}

const hasEnded = (one) => Boolean(one.state.terminated);

// The init container that is next, else all containers.
function current(pod, status) {
    const next = (status.initContainerStatuses || []).find((one) => !hasEnded(one));
    return next ? [next.name] : pod.spec.containers.map((one) => one.name);
}

function running(one, pod, now) {
    if (isRunning(one))
        return one;
    const { image } = specOf(pod, one.name);
    return { ...one, ready: !isInit(pod, one.name), started: true,
        state: { running: { startedAt: now } },
        imageID: `double/${image}@sha256:${'0'.repeat(64)}`,
        containerID: `double://${pod.metadata.uid}/${one.name}/${one.restartCount}` };
}

function startEvents(pod, names, pulled) {
    return names.flatMap((name) => {
        const { image } = specOf(pod, name);
        const list = [['Normal', 'Created', `Created container: ${name}`],
            ['Normal', 'Started', `Started container ${name}`]];
        if (pulled)
            list.unshift(['Normal', 'Pulled',
                `Container image "${image}" already present on machine`]);
        return list.map((event) => about(pod, name, ...event));
    });
}

// An event of the kubelet on one container.
function about(pod, name, type, reason, message) {
    const list = isInit(pod, name) ? 'initContainers' : 'containers';
    return { type, reason, message, component: 'kubelet', fieldPath: `spec.${list}{${name}}` };
}

function ready(status, pod, now) {
    let { conditions } = status;
    for (const type of ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady'])
        conditions = setCondition(conditions, type, 'True', now);
    const podIP = address(pod.metadata.uid, '10');
    return { ...status, phase: 'Running', conditions, podIP, podIPs: [{ ip: podIP }] };
}

// All init containers that a step has passed over are done.
function skipInits(status, now) {
    if (!status.initContainerStatuses)
        return status;
    return changed(status, status.initContainerStatuses.map((one) => one.name), (one) =>
        (hasEnded(one) ? one : ended(one, { code: 0 }, now)));
}

function ended(one, step, now) {
    const code = step.signal && step.code === undefined ? 128 + step.signal : step.code ?? 0;
    const began = one.state.running ? one.state.running.startedAt : now;
    const terminated = { exitCode: code, reason: step.reason || EXIT_REASONS[code] || 'Error',
        startedAt: began, finishedAt: now };
    if (step.signal)
        terminated.signal = step.signal;
    if (step.message)
        terminated.message = step.message;
    if (one.containerID)
        terminated.containerID = one.containerID;
    return { ...one, ready: false, started: false, state: { terminated } };
}

// The phase that follows from the containers, under the pod's policy of restarts.
function settle(status, pod, now) {
    const inits = status.initContainerStatuses || [];
    const broken = inits.find((one) => hasEnded(one) && one.state.terminated.exitCode !== 0);
    const mains = status.containerStatuses;
    if (!broken && !(mains.every(hasEnded) && pod.spec.restartPolicy !== 'Always'))
        return status;
    const failed = broken || mains.some((one) => one.state.terminated.exitCode !== 0);
    if (failed && pod.spec.restartPolicy !== 'Never')
        return status;
    return over(status, failed ? 'Failed' : 'Succeeded', now);
}

function over(status, phase, now) {
    const why = { reason: phase === 'Failed' ? 'PodFailed' : 'PodCompleted' };
    let { conditions } = status;
    conditions = setCondition(conditions, 'PodReadyToStartContainers', 'False', now);
    conditions = setCondition(conditions, 'Ready', 'False', now, why);
    conditions = setCondition(conditions, 'ContainersReady', 'False', now, why);
    if (phase === 'Succeeded')
        conditions = setCondition(conditions, 'Initialized', 'True', now, why);
    return { ...status, phase, conditions };
}

// Containers whose failure the policy answers with another start.
function restarted(one, pod) {
    const { terminated } = one.state;
    const again = pod.spec.restartPolicy === 'Always' ||
        (pod.spec.restartPolicy === 'OnFailure' && terminated.exitCode !== 0);
    if (!again)
        return one;
    return { ...one, lastState: { terminated }, restartCount: one.restartCount + 1,
        state: { waiting: { reason: 'CrashLoopBackOff',
            message: `back-off 10s restarting failed container=${one.name} ` +
                `pod=${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})` } } };
}

// Everything that still runs is killed, as when the whole pod is ended from outside.
function killed(status, pod, now, code = 137) {
    const names = [...(status.initContainerStatuses || []), ...(status.containerStatuses || [])]
        .filter(isRunning).map((one) => one.name);
    return changed(status, names, (one) => ended(one, { code }, now));
}

function disrupted(status, now, reason, message) {
    return { ...status, conditions: setCondition(status.conditions, 'DisruptionTarget', 'True',
        now, { reason, message }) };
}

const DELETIONS = {
    preempted: ['PreemptionByScheduler',
        'default-scheduler: preempting to accommodate a higher priority pod', 'Preempted'],
    drained: ['EvictionByEvictionAPI', 'Eviction API: evicting', null],
    tainted: ['DeletionByTaintManager', 'Taint manager: deleting due to NoExecute taint',
        'TaintManagerEviction'],
    collected: ['DeletionByPodGC', 'PodGC: node no longer exists', null],
};

function deletion(kind) {
    const [reason, message, event] = DELETIONS[kind];
    return (pod, step, now) => {
        const words = kind === 'preempted'
            ? `Preempted by pod ${step.by || 'another'} on node ${pod.spec.nodeName}`
            : `Marking for deletion Pod ${pod.metadata.namespace}/${pod.metadata.name}`;
        return { status: disrupted(pod.status, now, reason, step.message || message),
            events: event ? [{ type: kind === 'preempted' ? 'Warning' : 'Normal', reason: event,
                message: words, component: kind === 'preempted' ? 'default-scheduler'
                    : 'taint-eviction-controller' }] : [],
            remove: { grace: kind === 'collected' ? 0 : step.grace } };
    };
}

const FIRST_EVENT = {
    ErrImagePull: (image, words) => ['Failed', `Failed to pull image "${image}": ${words}`],
    ImagePullBackOff: (image) => ['BackOff', `Back-off pulling image "${image}"`],
    InvalidImageName: (image, words) => ['InspectFailed', words],
    ErrImageNeverPull: (image) => ['ErrImageNeverPull',
        `Container image "${image}" is not present with pull policy of Never`],
    CrashLoopBackOff: (image, words) => ['BackOff', words],
};

function defaultWords(reason, pod, name) {
    const { image } = specOf(pod, name);
    switch (reason) {
    case 'ErrImagePull': return `failed to resolve reference "${image}": not found`;
    case 'ImagePullBackOff': return `Back-off pulling image "${image}"`;
    case 'InvalidImageName': return `Failed to apply default image tag "${image}": ` +
        `couldn't parse image name "${image}": invalid reference format`;
    case 'ErrImageNeverPull':
        return `Container image "${image}" is not present with pull policy of Never`;
    case 'CreateContainerConfigError': return 'secret "missing" not found';
    case 'CrashLoopBackOff': return `back-off 10s restarting failed container=${name} ` +
        `pod=${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`;
    default: return `${reason} of container ${name}`;
    }
}

const STEPS = {
    scheduled: (pod, step, now) => ({ bind: step.node || true,
        status: { ...pod.status, conditions: setCondition(pod.status.conditions, 'PodScheduled',
            'True', now) } }),
    unschedulable(pod, step, now) {
        const message = step.message || '0/1 nodes are available: 1 Insufficient cpu.';
        return { status: { ...pod.status, conditions: setCondition(pod.status.conditions,
            'PodScheduled', 'False', now, { reason: step.reason || 'Unschedulable', message }) },
        events: [{ type: 'Warning', reason: 'FailedScheduling', message,
            component: 'default-scheduler' }] };
    },
    creating: (pod, step, now) => ({ status: begun(pod, now) }),
    pulling(pod, step, now) {
        const status = begun(pod, now);
        return { status, events: chosen(pod, step, current(pod, status)).map((name) => about(pod,
            name, 'Normal', 'Pulling', `Pulling image "${specOf(pod, name).image}"`)) };
    },
    pulled(pod, step, now) {
        const status = begun(pod, now);
        return { status, events: chosen(pod, step, current(pod, status)).map((name) => about(pod,
            name, 'Normal', 'Pulled', `Successfully pulled image "${specOf(pod, name).image}" in ` +
            '1.5s (1.5s including waiting). Image size: 4096 bytes.')) };
    },
    waiting(pod, step, now) {
        const status = begun(pod, now);
        const names = chosen(pod, step, current(pod, status).slice(0, 1));
        const { reason } = step;
        const words = step.message || defaultWords(reason, pod, names[0]);
        const events = names.flatMap((name) => {
            const first = FIRST_EVENT[reason] &&
                FIRST_EVENT[reason](specOf(pod, name).image, words);
            const last = reason === 'CrashLoopBackOff' ? [] : [about(pod, name, 'Warning', 'Failed',
                `Error: ${FIRST_EVENT[reason] ? reason : words}`)];
            return first ? [about(pod, name, first[0] === 'BackOff' ? 'Normal' : 'Warning',
                ...first), ...last] : last;
        });
        // What is backed off from has run, and has ended.
        const crashed = (one) => reason === 'CrashLoopBackOff' && isRunning(one) && { code: 1 };
        const lastOf = (one) => step.last || crashed(one);
        const before = (one) => (lastOf(one) ? { lastState: ended(one, lastOf(one), now).state,
            restartCount: Math.max(1, one.restartCount) } : {});
        return { status: changed(status, names, (one) => ({ ...one, ready: false, started: false,
            state: { waiting: { reason, message: words } }, ...before(one) })), events };
    },
    running(pod, step, now) {
        let status = begun(pod, now);
        const names = chosen(pod, step, pod.spec.containers.map((one) => one.name));
        if (isInit(pod, names[0]))
            return { status: changed(status, names, (one) => running(one, pod, now)),
                events: startEvents(pod, names, step.pulled !== false) };
        status = changed(skipInits(status, now), names, (one) => running(one, pod, now));
        return { status: ready(status, pod, now),
            events: startEvents(pod, names, step.pulled !== false) };
    },
    exited(pod, step, now) {
        let status = begun(pod, now);
        const live = [...(status.initContainerStatuses || []), ...status.containerStatuses]
            .filter(isRunning).map((one) => one.name);
        const names = chosen(pod, step, live.length > 0 ? live : current(pod, status));
        if (!isInit(pod, names[0]))
            status = skipInits(status, now);
        status = changed(status, names, (one) => restarted(ended(one, step, now), pod));
        status = settle(status, pod, now);
        return { status: step.podReason ? { ...status, reason: step.podReason,
            message: step.podMessage } : status };
    },
    succeeded(pod, step, now) {
        let status = skipInits(begun(pod, now), now);
        status = changed(status, pod.spec.containers.map((one) => one.name), (one) =>
            (hasEnded(one) ? one : ended(one, { code: 0, message: step.message }, now)));
        return { status: over(status, 'Succeeded', now) };
    },
    failed(pod, step, now) {
        const { status } = STEPS.exited(pod, { ...step, code: step.code ?? (step.signal ? undefined
            : 1) }, now);
        return { status: over(killed(status, pod, now), 'Failed', now) };
    },
    oom: (pod, step, now) => ({ status: over(killed(STEPS.exited(pod, { ...step, code: 137,
        reason: 'OOMKilled' }, now).status, pod, now), 'Failed', now) }),
    evicted(pod, step, now) {
        const message = step.message || 'The node was low on resource: memory. Threshold ' +
            'quantity: 100Mi, available: 52Mi. Container main was using 1Gi, request is 0, has ' +
            'larger consumption of memory. ';
        const status = over(killed(begun(pod, now), pod, now), 'Failed', now);
        return { status: disrupted({ ...status, reason: 'Evicted', message }, now,
            'TerminationByKubelet', message),
        events: [{ type: 'Warning', reason: 'Evicted', message, component: 'kubelet' }] };
    },
    deadline(pod, step, now) {
        const message = 'Pod was active on the node longer than the specified deadline';
        return { status: { ...over(killed(begun(pod, now), pod, now), 'Failed', now),
            reason: 'DeadlineExceeded', message },
        events: [{ type: 'Normal', reason: 'DeadlineExceeded', message, component: 'kubelet' }] };
    },
    // The kubelet itself refuses a pod that the scheduler gave it (OutOfcpu, NodeAffinity, …).
    rejected: (pod, step, now) => ({ status: { ...pod.status, phase: 'Failed', startTime: now,
        reason: step.reason || 'OutOfcpu', message: step.message ||
            'Pod was rejected: Node didn\'t have enough resource: cpu, requested: 1000, used: ' +
            '3900, capacity: 4000' },
    events: [{ type: 'Warning', reason: step.reason || 'OutOfcpu', component: 'kubelet',
        message: step.message || 'Node didn\'t have enough resource: cpu' }] }),
    preempted: deletion('preempted'),
    drained: deletion('drained'),
    tainted: deletion('tainted'),
    collected: deletion('collected'),
    // What the node controller writes when a node's kubelet is not heard of any more.
    nodeLost(pod, step, now) {
        const node = pod.spec.nodeName;
        const status = { ...pod.status, reason: 'NodeLost', message: `Node ${node} which was ` +
            `running pod ${pod.metadata.name} is unresponsive` };
        if (step.phase)
            status.phase = step.phase;
        status.conditions = setCondition(status.conditions, 'Ready', 'False', now);
        return { status, stop: true, events: [{ type: 'Warning', reason: 'NodeNotReady',
            message: 'Node is not ready', component: 'node-controller' }] };
    },
    terminated: (pod, step, now) => ({ status: killed(pod.status, pod, now, step.code ?? 143) }),
    deleted: (pod, step) => ({ remove: { grace: step.grace, force: step.force } }),
    event: (pod, step) => ({ events: [{ type: step.type || 'Normal', reason: step.reason,
        message: step.message, component: step.component || 'kubelet' }] }),
    log: (pod, step) => ({ log: { container: step.container || pod.spec.containers[0].name,
        text: step.text, previous: step.previous } }),
    status: (pod, step) => ({ status: { ...pod.status, ...step.status } }),
    pause: () => ({}),
};

// Steps that need no node.
const UNBOUND = new Set(['scheduled', 'unschedulable', 'deleted', 'event', 'status', 'pause',
    'preempted', 'log']);

function apply(pod, step, now) {
    if (!Object.hasOwn(STEPS, step.do))
        throw new Error(`no such step: ${step.do}; there are ${Object.keys(STEPS).join(', ')}`);
    return STEPS[step.do](pod, step, now);
}

// "running" or {do: "running", …}
function normal(step) {
    const out = typeof step === 'string' ? { do: step } : step;
    if (!out || !Object.hasOwn(STEPS, out.do))
        throw new Error(`no such step: ${JSON.stringify(step)}; there are ` +
            Object.keys(STEPS).join(', '));
    return out;
}

module.exports = { apply, normal, UNBOUND, find, setCondition };
