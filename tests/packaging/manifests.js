// SPDX-License-Identifier: Apache-2.0
'use strict';

// What is to be said of objects of Kubernetes: how they are rendered, and what they amount to.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const path = require('node:path');

const SOURCE = path.join(__dirname, '../..');
const PYTHON = '/usr/bin/python3'; // which has Debian's packages
const MODELS = path.join(__dirname, 'models.py');
const DEPLOY = path.join(SOURCE, 'deploy');

function output(command, args, input) {
    const ran = spawnSync(command, args, { encoding: 'utf8', input, maxBuffer: 1 << 24 });
    assert.equal(ran.error, undefined);
    assert.equal(ran.status, 0, `${command} ${args.join(' ')}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout;
}

// The objects of a text of YAML, each as its kind demands; see models.py.
function checked(yaml) {
    return JSON.parse(output(PYTHON, [MODELS], yaml));
}

function kustomize(folder) {
    return checked(output('kubectl', ['kustomize', path.join(DEPLOY, 'kubernetes', folder)]));
}

// The one object of that kind and, if it is given, name.
function one(objects, kind, name) {
    const found = objects.filter((object) => object.kind === kind &&
        (name === undefined || object.metadata.name === name));
    assert.equal(found.length, 1, `one ${kind} ${name || ''}`);
    return found[0];
}

// The pods of all that makes pods, with what belongs to them.
function workloads(objects) {
    return objects.filter((object) => object.spec?.template?.spec).map((object) => ({ object,
        namespace: object.metadata.namespace, labels: object.spec.template.metadata.labels,
        pod: object.spec.template.spec, containers: [...object.spec.template.spec.containers,
            ...object.spec.template.spec.initContainers || []] }));
}

function workload(objects, component) {
    const found = workloads(objects).filter(({ labels }) =>
        labels['app.kubernetes.io/component'] === component);
    assert.equal(found.length, 1, component);
    return found[0];
}

// $(NAME) as a kubelet expands it: what is not known stays, $$ is a dollar.
function expand(text, env) {
    return text.replace(/\$(?:\$|\(([^)]*)\))/g, (all, name) => (name === undefined ? '$'
        : Object.hasOwn(env, name) ? env[name] : all));
}

// The environment that a kubelet gives a container.
function environmentOf(objects, { namespace }, container) {
    const env = {};
    for (const { configMapRef, prefix = '' } of container.envFrom || []) {
        const map = one(objects, 'ConfigMap', configMapRef.name);
        assert.equal(map.metadata.namespace, namespace);
        for (const [name, value] of Object.entries(map.data))
            env[`${prefix}${name}`] = value;
    }
    for (const { name, value = '', valueFrom } of container.env || []) {
        if (valueFrom)
            assert.deepEqual(valueFrom, { fieldRef: { fieldPath: 'metadata.namespace' } });
        env[name] = valueFrom ? namespace : expand(value, env);
    }
    return env;
}

function argsOf(container, env) {
    return (container.args || []).map((arg) => expand(arg, env));
}

function portOf(container, name) {
    return typeof name === 'number' ? name
        : container.ports.find((port) => port.name === name).containerPort;
}

// What a role that is bound to the service account allows there: [{verbs, resources, …}] as the
// double has them.
function rulesOf(objects, account) {
    return objects.filter((object) => object.kind === 'RoleBinding' &&
        object.subjects.some((subject) => subject.kind === 'ServiceAccount' &&
            subject.name === account.metadata.name &&
            subject.namespace === account.metadata.namespace))
        .flatMap(({ roleRef, metadata }) => {
            assert.deepEqual([roleRef.apiGroup, roleRef.kind],
                ['rbac.authorization.k8s.io', 'Role']);
            const role = objects.find((object) => object.kind === 'Role' &&
                object.metadata.name === roleRef.name &&
                object.metadata.namespace === metadata.namespace);
            return role.rules.map((rule) => ({ verbs: rule.verbs, resources: rule.resources,
                groups: rule.apiGroups, names: rule.resourceNames,
                namespaces: [metadata.namespace] }));
        });
}

module.exports = { DEPLOY, MODELS, PYTHON, SOURCE, argsOf, checked, environmentOf, kustomize, one, output, portOf,
    rulesOf, workload, workloads };
