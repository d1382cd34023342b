// SPDX-License-Identifier: Apache-2.0
'use strict';

// Tables, as `kubectl get` asks for them: the columns that the API prints of each kind.

function age(stamp, now) {
    if (!stamp)
        return '<unknown>';
    const seconds = Math.max(0, Math.floor((now - Date.parse(stamp)) / 1000));
    if (seconds < 120)
        return `${seconds}s`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 10)
        return `${minutes}m${seconds % 60 ? `${seconds % 60}s` : ''}`;
    if (minutes < 180)
        return `${minutes}m`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48)
        return `${hours}h`;
    return `${Math.floor(hours / 24)}d`;
}

function initReason(status, inits) {
    for (let i = 0; i < inits.length; i++) {
        const { state = {} } = inits[i];
        if (state.terminated && state.terminated.exitCode === 0)
            continue;
        if (state.terminated)
            return `Init:${state.terminated.reason || (state.terminated.signal
                ? `Signal:${state.terminated.signal}` : `ExitCode:${state.terminated.exitCode}`)}`;
        if (state.waiting && state.waiting.reason && state.waiting.reason !== 'PodInitializing')
            return `Init:${state.waiting.reason}`;
        return `Init:${i}/${inits.length}`;
    }
    return null;
}

// The column STATUS of a pod.
function podReason({ metadata, status }) {
    let reason = status.reason || status.phase || '';
    const init = initReason(status, status.initContainerStatuses || []);
    if (init && !status.reason) {
        reason = init;
    } else {
        let running = false;
        for (const one of [...(status.containerStatuses || [])].reverse()) {
            const { waiting, terminated } = one.state || {};
            if (waiting && waiting.reason)
                reason = waiting.reason;
            else if (terminated)
                reason = terminated.reason || (terminated.signal ? `Signal:${terminated.signal}`
                    : `ExitCode:${terminated.exitCode}`);
            else if (one.ready && one.state.running)
                running = true;
        }
        if (reason === 'Completed' && running)
            reason = 'Running';
        if (status.reason && status.phase === 'Failed')
            ({ reason } = status);
    }
    if (metadata.deletionTimestamp)
        reason = status.reason === 'NodeLost' ? 'Unknown' : 'Terminating';
    return reason;
}

function podRow(pod, now) {
    const statuses = pod.status.containerStatuses || [];
    const restarts = statuses.reduce((sum, one) => sum + (one.restartCount || 0), 0);
    return [pod.metadata.name,
        `${statuses.filter((one) => one.ready).length}/${pod.spec.containers.length}`,
        podReason(pod), String(restarts), age(pod.metadata.creationTimestamp, now),
        pod.status.podIP || '<none>', pod.spec.nodeName || '<none>',
        pod.status.nominatedNodeName || '<none>', '<none>'];
}

function eventRow(event, now) {
    const source = event.source || {};
    const seen = event.lastTimestamp || event.eventTime;
    const { involvedObject: about } = event;
    return [age(seen, now), event.type, event.reason,
        `${(about.kind || '').toLowerCase()}/${about.name}`, about.fieldPath || '',
        [source.component, source.host].filter(Boolean).join(', '), (event.message || '').trim(),
        age(event.firstTimestamp || event.eventTime, now), String(event.count || 1),
        event.metadata.name];
}

function nodeReady({ spec, status }) {
    const ready = (status.conditions || []).find((one) => one.type === 'Ready');
    const word = !ready ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady';
    return spec.unschedulable ? `${word},SchedulingDisabled` : word;
}

function quotaText({ status = {}, spec }, test) {
    const hard = status.hard || spec.hard || {};
    return Object.keys(hard).filter(test).sort()
        .map((name) => `${name}: ${(status.used || {})[name] || 0}/${hard[name]}`).join(', ');
}

const entriesOf = (object) => String(Object.keys(object.data || {}).length);
const NAME = { name: 'Name', format: 'name' };
const wide = (name) => ({ name, priority: 1 });

// kind -> [columns, row]
const KINDS = {
    Pod: [[NAME, 'Ready', 'Status', 'Restarts', 'Age', wide('IP'), wide('Node'),
        wide('Nominated Node'), wide('Readiness Gates')], podRow],
    Event: [['Last Seen', 'Type', 'Reason', 'Object', wide('Subobject'), wide('Source'), 'Message',
        wide('First Seen'), wide('Count'), { ...NAME, priority: 1 }], eventRow],
    Namespace: [[NAME, 'Status', 'Age'], (object, now) => [object.metadata.name,
        object.status.phase, age(object.metadata.creationTimestamp, now)]],
    Node: [[NAME, 'Status', 'Roles', 'Age', 'Version'], (object, now) => [object.metadata.name,
        nodeReady(object), '<none>', age(object.metadata.creationTimestamp, now),
        (object.status.nodeInfo || {}).kubeletVersion || '']],
    ResourceQuota: [[NAME, 'Age', 'Request', 'Limit'], (object, now) => [object.metadata.name,
        age(object.metadata.creationTimestamp, now),
        quotaText(object, (name) => !name.startsWith('limits.')),
        quotaText(object, (name) => name.startsWith('limits.'))]],
    Secret: [[NAME, 'Type', 'Data', 'Age'], (object, now) => [object.metadata.name, object.type,
        entriesOf(object), age(object.metadata.creationTimestamp, now)]],
    ConfigMap: [[NAME, 'Data', 'Age'], (object, now) => [object.metadata.name,
        entriesOf(object), age(object.metadata.creationTimestamp, now)]],
    ServiceAccount: [[NAME, 'Secrets', 'Age'], (object, now) => [object.metadata.name, '0',
        age(object.metadata.creationTimestamp, now)]],
};

function definitions(columns) {
    return columns.map((column) => {
        const given = typeof column === 'string' ? { name: column } : column;
        return { name: given.name, type: 'string', format: given.format || '',
            description: given.name, priority: given.priority || 0 };
    });
}

function included(mode, object) {
    if (mode === 'None')
        return undefined;
    return mode === 'Object' ? object : { kind: 'PartialObjectMetadata',
        apiVersion: 'meta.k8s.io/v1', metadata: object.metadata };
}

// first: whether the columns are told, too (not with each event of a watch).
function of(call, objects, { metadata, first }) {
    const [columns, row] = KINDS[call.resource.kind];
    const mode = call.query.get('includeObject') || 'Metadata';
    const now = call.now;
    const { resourceVersion, continue: token, remainingItemCount } = metadata;
    return { kind: 'Table', apiVersion: 'meta.k8s.io/v1',
        metadata: { resourceVersion, continue: token, remainingItemCount },
        columnDefinitions: first ? definitions(columns) : null,
        rows: objects.filter((object) => object.spec || object.kind !== 'Pod').map((object) => ({
            cells: object.metadata.creationTimestamp ? row(object, now) : [],
            object: included(mode, object) })) };
}

module.exports = { of };
