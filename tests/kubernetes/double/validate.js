// SPDX-License-Identifier: Apache-2.0
'use strict';

// The API's rules on metadata and on pods, as far as clients of pods meet them. Each rule adds its
// cause ({reason, message, field}) to a list, from which the answer 422 is made.

const { isDeepStrictEqual } = require('node:util');
const quantity = require('./quantity');

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const NAME_PART = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const ENV_NAME = /^[-._a-zA-Z][-._a-zA-Z0-9]*$/;

const WORDS = {
    subdomain: 'a lowercase RFC 1123 subdomain must consist of lower case alphanumeric ' +
        "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. " +
        "'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]" +
        "([-a-z0-9]*[a-z0-9])?)*')",
    label: 'a lowercase RFC 1123 label must consist of lower case alphanumeric characters or ' +
        "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or " +
        "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    labelValue: 'a valid label must be an empty string or consist of alphanumeric characters, ' +
        "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. " +
        "'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    key: "name part must consist of alphanumeric characters, '-', '_' or '.', and must start " +
        "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', " +
        "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    env: 'a valid environment variable name must consist of alphabetic characters, digits, ' +
        "'_', '-', or '.', and must not start with a digit",
};

class Causes extends Array {
    required(field, message = '') {
        this.push({ reason: 'FieldValueRequired', field,
            message: message ? `Required value: ${message}` : 'Required value' });
    }

    invalid(field, value, why) {
        this.push({ reason: 'FieldValueInvalid', field,
            message: `Invalid value: ${JSON.stringify(value)}: ${why}` });
    }

    duplicate(field, value) {
        this.push({ reason: 'FieldValueDuplicate', field,
            message: `Duplicate value: ${JSON.stringify(value)}` });
    }

    unsupported(field, value, supported) {
        const list = supported.map((one) => JSON.stringify(one)).join(', ');
        this.push({ reason: 'FieldValueNotSupported', field,
            message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${list}` });
    }

    forbidden(field, why) {
        this.push({ reason: 'FieldValueForbidden', field, message: `Forbidden: ${why}` });
    }

    notFound(field, value) {
        this.push({ reason: 'FieldValueNotFound', field,
            message: `Not found: ${JSON.stringify(value)}` });
    }

    tooLong(field, most) {
        this.push({ reason: 'FieldValueTooLong', field,
            message: `Too long: may not be more than ${most} bytes` });
    }

    dns(field, value, kind) {
        const [pattern, most] = kind === 'label' ? [LABEL, 63] : [SUBDOMAIN, 253];
        if (!pattern.test(value))
            this.invalid(field, value, WORDS[kind]);
        if (value.length > most)
            this.invalid(field, value, `must be no more than ${most} characters`);
    }

    oneOf(field, value, supported) {
        if (value !== undefined && !supported.includes(value))
            this.unsupported(field, value, supported);
    }

    qualifiedKey(field, key) {
        const parts = key.split('/');
        const name = parts[parts.length - 1];
        if (parts.length > 2 || (parts.length === 2 && !SUBDOMAIN.test(parts[0])))
            this.invalid(field, key, `prefix part ${WORDS.subdomain}`);
        else if (!NAME_PART.test(name))
            this.invalid(field, key, WORDS.key);
        else if (name.length > 63)
            this.invalid(field, key, 'name part must be no more than 63 characters');
    }
}

const ANNOTATIONS_MAX = 256 << 10;

function metadata(causes, { name, generateName, labels, annotations, finalizers }, kind) {
    if (!name)
        causes.required('metadata.name', 'name or generateName is required');
    else
        causes.dns('metadata.name', name, kind);
    if (generateName && !name)
        causes.dns('metadata.generateName', generateName.replace(/-$/, ''), kind);
    for (const [key, value] of Object.entries(labels || {})) {
        causes.qualifiedKey('metadata.labels', key);
        if (!LABEL_VALUE.test(value))
            causes.invalid('metadata.labels', value, WORDS.labelValue);
        if (value.length > 63)
            causes.invalid('metadata.labels', value, 'must be no more than 63 characters');
    }
    let size = 0;
    for (const [key, value] of Object.entries(annotations || {})) {
        causes.qualifiedKey('metadata.annotations', key.toLowerCase());
        size += key.length + value.length;
    }
    if (size > ANNOTATIONS_MAX)
        causes.tooLong('metadata.annotations', ANNOTATIONS_MAX);
    (finalizers || []).forEach((item, i) => {
        if (!item.includes('/'))
            causes.invalid(`metadata.finalizers[${i}]`, item, 'name is neither a standard ' +
                'finalizer name nor is it fully qualified');
    });
}

function resources(causes, at, { limits = {}, requests = {} }) {
    for (const [kind, list] of Object.entries({ limits, requests }))
        for (const [name, value] of Object.entries(list)) {
            const field = `${at}.${kind}[${name}]`;
            causes.qualifiedKey(field, name);
            if (!name.includes('/') && !/^(cpu|memory|ephemeral-storage|hugepages-.+)$/.test(name))
                causes.invalid(field, name, 'must be a standard resource type or fully qualified');
            if (quantity.nano(value) < 0n)
                causes.invalid(field, value, 'must be greater than or equal to 0');
        }
    for (const [name, value] of Object.entries(requests))
        if (limits[name] !== undefined && quantity.nano(value) > quantity.nano(limits[name]))
            causes.invalid(`${at}.requests`, value,
                `must be less than or equal to ${name} limit of ${limits[name]}`);
}

function environment(causes, at, variables) {
    variables.forEach(({ name, value, valueFrom }, i) => {
        const field = `${at}[${i}]`;
        if (!name)
            causes.required(`${field}.name`);
        else if (!ENV_NAME.test(name))
            causes.invalid(`${field}.name`, name, WORDS.env);
        if (valueFrom && value)
            causes.invalid(`${field}.valueFrom`, '', 'may not be specified when `value` is not ' +
                'empty');
        if (valueFrom && Object.keys(valueFrom).length !== 1)
            causes.invalid(`${field}.valueFrom`, '', 'must specify one of: `fieldRef`, ' +
                '`resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`');
    });
}

function ports(causes, at, list) {
    list.forEach((port, i) => {
        const inRange = (value) => Number.isInteger(value) && value > 0 && value < 65536;
        if (port.containerPort === undefined)
            causes.required(`${at}[${i}].containerPort`);
        else if (!inRange(port.containerPort))
            causes.invalid(`${at}[${i}].containerPort`, port.containerPort,
                'must be between 1 and 65535, inclusive');
        if (port.hostPort !== undefined && !inRange(port.hostPort))
            causes.invalid(`${at}[${i}].hostPort`, port.hostPort,
                'must be between 1 and 65535, inclusive');
        causes.oneOf(`${at}[${i}].protocol`, port.protocol, ['SCTP', 'TCP', 'UDP']);
    });
}

function containers(causes, at, list, names, volumes) {
    list.forEach((one, i) => {
        const field = `${at}[${i}]`;
        if (!one.name)
            causes.required(`${field}.name`);
        else
            causes.dns(`${field}.name`, one.name, 'label');
        if (one.name && names.has(one.name))
            causes.duplicate(`${field}.name`, one.name);
        names.add(one.name);
        if (!one.image)
            causes.required(`${field}.image`);
        else if (one.image !== one.image.trim())
            causes.invalid(`${field}.image`, one.image, 'must not have leading or trailing ' +
                'whitespace');
        causes.oneOf(`${field}.imagePullPolicy`, one.imagePullPolicy,
            ['Always', 'IfNotPresent', 'Never']);
        causes.oneOf(`${field}.terminationMessagePolicy`, one.terminationMessagePolicy,
            ['FallbackToLogsOnError', 'File']);
        resources(causes, `${field}.resources`, one.resources || {});
        environment(causes, `${field}.env`, one.env || []);
        ports(causes, `${field}.ports`, one.ports || []);
        (one.volumeMounts || []).forEach((mount, m) => {
            if (!volumes.has(mount.name))
                causes.notFound(`${field}.volumeMounts[${m}].name`, mount.name);
            if (!mount.mountPath)
                causes.required(`${field}.volumeMounts[${m}].mountPath`);
        });
    });
}

function affinity(causes, given) {
    for (const kind of ['podAffinity', 'podAntiAffinity']) {
        const terms = (given[kind] || {}).requiredDuringSchedulingIgnoredDuringExecution || [];
        terms.forEach((term, i) => {
            if (!term.topologyKey)
                causes.required(`spec.affinity.${kind}.requiredDuringSchedulingIgnored` +
                    `DuringExecution[${i}].topologyKey`, 'can not be empty');
        });
    }
    nodeAffinity(causes, given.nodeAffinity || {});
}

function nodeAffinity(causes, given) {
    const at = 'spec.affinity.nodeAffinity';
    const required = given.requiredDuringSchedulingIgnoredDuringExecution;
    const field = `${at}.requiredDuringSchedulingIgnoredDuringExecution`;
    if (required && !(required.nodeSelectorTerms || []).length)
        causes.required(`${field}.nodeSelectorTerms`,
            'must have at least one node selector term');
    ((required && required.nodeSelectorTerms) || []).forEach((term, i) =>
        expressions(causes, `${field}.nodeSelectorTerms[${i}]`, term));
    (given.preferredDuringSchedulingIgnoredDuringExecution || []).forEach((term, i) => {
        const place = `${at}.preferredDuringSchedulingIgnoredDuringExecution[${i}]`;
        if (!(term.weight >= 1 && term.weight <= 100))
            causes.invalid(`${place}.weight`, term.weight ?? 0, 'must be in the range 1-100');
        expressions(causes, `${place}.preference`, term.preference || {});
    });
}

function expressions(causes, at, { matchExpressions = [] }) {
    matchExpressions.forEach(({ key, operator, values = [] }, i) => {
        const field = `${at}.matchExpressions[${i}]`;
        causes.qualifiedKey(`${field}.key`, key || '');
        causes.oneOf(`${field}.operator`, operator || '',
            ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']);
        if (['In', 'NotIn'].includes(operator) && values.length === 0)
            causes.required(`${field}.values`, 'must be specified when `operator` is \'In\' or ' +
                "'NotIn'");
        if (['Exists', 'DoesNotExist'].includes(operator) && values.length > 0)
            causes.forbidden(`${field}.values`, 'may not be specified when `operator` is ' +
                "'Exists' or 'DoesNotExist'");
    });
}

function podSpec(causes, spec) {
    const volumes = new Set();
    (spec.volumes || []).forEach((volume, i) => {
        if (!volume.name)
            causes.required(`spec.volumes[${i}].name`);
        else
            causes.dns(`spec.volumes[${i}].name`, volume.name, 'label');
        if (volumes.has(volume.name))
            causes.duplicate(`spec.volumes[${i}].name`, volume.name);
        if (Object.keys(volume).length > 2)
            causes.forbidden(`spec.volumes[${i}]`, 'may not specify more than 1 volume type');
        volumes.add(volume.name);
    });
    if (spec.containers.length === 0)
        causes.required('spec.containers');
    const names = new Set();
    containers(causes, 'spec.containers', spec.containers, names, volumes);
    containers(causes, 'spec.initContainers', spec.initContainers || [], names, volumes);
    causes.oneOf('spec.restartPolicy', spec.restartPolicy, ['Always', 'OnFailure', 'Never']);
    causes.oneOf('spec.dnsPolicy', spec.dnsPolicy,
        ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None']);
    const seconds = { activeDeadlineSeconds: 1, terminationGracePeriodSeconds: 0 };
    for (const [name, least] of Object.entries(seconds))
        if (spec[name] !== undefined && spec[name] < least)
            causes.invalid(`spec.${name}`, spec[name], least === 1
                ? 'must be between 1 and 2147483647, inclusive'
                : 'must be greater than or equal to 0');
    for (const [key, value] of Object.entries(spec.nodeSelector || {})) {
        causes.qualifiedKey('spec.nodeSelector', key);
        if (!LABEL_VALUE.test(value))
            causes.invalid('spec.nodeSelector', value, WORDS.labelValue);
    }
    for (const [name, kind] of [['nodeName', 'subdomain'], ['hostname', 'label'],
        ['serviceAccountName', 'subdomain']])
        if (spec[name])
            causes.dns(`spec.${name}`, spec[name], kind);
    affinity(causes, spec.affinity || {});
}

function pod(object) {
    const causes = new Causes();
    metadata(causes, object.metadata, 'subdomain');
    podSpec(causes, object.spec);
    return causes;
}

function named(object, kind = 'subdomain') {
    const causes = new Causes();
    metadata(causes, object.metadata, kind);
    return causes;
}

const MAY_CHANGE = 'pod updates may not change fields other than `spec.containers[*].image`,' +
    '`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only ' +
    'additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be ' +
    'set to 1 if it was previously negative)';

// The spec without what may change.
function fixed(spec) {
    const { activeDeadlineSeconds, tolerations, ...rest } = spec;
    const plain = (list) => list && list.map(({ image, ...other }) => other);
    return { ...rest, containers: plain(spec.containers), initContainers:
        plain(spec.initContainers) };
}

function podChange(next, old) {
    const causes = new Causes();
    metadata(causes, next.metadata, 'subdomain');
    [...next.spec.containers, ...(next.spec.initContainers || [])].forEach((one, i) => {
        if (!one.image)
            causes.required(`spec.containers[${i}].image`);
    });
    const [before, after] = [old.spec, next.spec];
    const kept = (before.tolerations || []).every((toleration) =>
        (after.tolerations || []).some((t) => isDeepStrictEqual(t, toleration)));
    const deadline = before.activeDeadlineSeconds;
    if (deadline !== undefined && !(after.activeDeadlineSeconds <= deadline))
        causes.invalid('spec.activeDeadlineSeconds', after.activeDeadlineSeconds ?? null,
            'must be less than or equal to previous value');
    if (!kept || !isDeepStrictEqual(fixed(before), fixed(after)))
        causes.forbidden('spec', MAY_CHANGE);
    return causes;
}

// What has ended does not run again, unless the pod restarts its containers.
function podStatusChange(next, old) {
    const causes = new Causes();
    metadata(causes, next.metadata, 'subdomain');
    if (old.spec.restartPolicy === 'Always')
        return causes;
    for (const list of ['containerStatuses', 'initContainerStatuses']) {
        const now = new Map((next.status[list] || []).map((one) => [one.name, one]));
        for (const one of old.status[list] || []) {
            const ended = one.state && one.state.terminated;
            const restarts = old.spec.restartPolicy === 'OnFailure' && ended?.exitCode !== 0;
            if (ended && !restarts && now.has(one.name) && !now.get(one.name).state?.terminated)
                causes.forbidden(`status.${list}[${one.name}].state`,
                    'may not be transitioned to non-terminated state');
        }
    }
    return causes;
}

module.exports = { Causes, pod, named, podChange, podStatusChange };
