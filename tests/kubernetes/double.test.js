// SPDX-License-Identifier: Apache-2.0
'use strict';

// The double as the clients that people use see it: kubectl, whichever is installed, and Python's
// client, over TLS.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const { until } = require('./cluster');

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

let double;
let kubeconfig;

before(async () => {
    double = await startDouble({ tls: true, script: ['running'], users: [{ name: 'reader',
        token: 'reader-token', groups: ['readers'],
        rules: [{ verbs: ['get', 'list', 'watch'], resources: ['pods'] }] }] });
    kubeconfig = double.kubeconfig({ namespace: 'default' });
});
after(() => double.stop());

// Starts a command; its output grows in out.stdout; out.ended resolves with its exit code.
function begin(command, args, { input, config = kubeconfig } = {}) {
    const child = spawn(command, args, { env: { ...process.env, KUBECONFIG: config,
        HOME: double.dir }, stdio: ['pipe', 'pipe', 'pipe'] });
    running.add(child);
    const out = { child, stdout: '', stderr: '' };
    child.stdout.on('data', (bytes) => { out.stdout += bytes; });
    child.stderr.on('data', (bytes) => { out.stderr += bytes; });
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    out.ended = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code) => {
            running.delete(child);
            resolve(code);
        });
    });
    return out;
}

// Runs it to its end; what it says on standard output.
async function kubectl(args, options = {}) {
    const out = begin('kubectl', args, options);
    const code = await out.ended;
    if (options.fails) {
        assert.notEqual(code, 0, out.stdout);
        return out.stderr;
    }
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${out.stderr}`);
    return out.stdout;
}

function manifest(name, more = '') {
    return `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  labels: {app: ${name}}\n` +
        'spec:\n  restartPolicy: Never\n  containers:\n  - name: main\n    image: busybox:1\n' +
        `    resources: {limits: {cpu: 500m, memory: 64Mi}}\n${more}`;
}

const create = (name, more) => kubectl(['create', '-f', '-'], { input: manifest(name, more) });

describe('kubectl', () => {
    test('create -f, get, get -o json, wait, delete', async () => {
        assert.match(await create('one'), /^pod\/one created/);
        await kubectl(['wait', '--for=condition=Ready', 'pod/one', '--timeout=20s']);
        const table = await kubectl(['get', 'pods', '-o', 'wide', '-l', 'app=one']);
        const [head, row] = table.trim().split('\n').map((line) => line.split(/  +/));
        assert.deepEqual(head.slice(0, 5), ['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE']);
        assert.deepEqual(row.slice(0, 4), ['one', '1/1', 'Running', '0']);
        const json = JSON.parse(await kubectl(['get', 'pod', 'one', '-o', 'json']));
        assert.equal(json.spec.containers[0].resources.requests.cpu, '500m');
        assert.match(await kubectl(['delete', 'pod', 'one']), /pod "one" deleted/);
        assert.match(await kubectl(['get', 'pod', 'one'], { fails: true }),
            /\(NotFound\): pods "one" not found/);
    });

    test('a field that there is not is refused before or by the server', async () => {
        const words = await kubectl(['create', '-f', '-'], { fails: true,
            input: manifest('bad').replace('image:', 'imagee:') });
        assert.match(words, /unknown field .*imagee/);
    });

    test('an invalid pod is refused with its causes', async () => {
        const words = await kubectl(['create', '-f', '-'], { fails: true,
            input: manifest('bad').replace('Never', 'Ever') });
        assert.match(words, /The Pod "bad" is invalid: spec.restartPolicy: Unsupported value/);
    });

    test('get -w tells of every change', async () => {
        double.script([], { match: { name: '^watched$' } });
        const watch = begin('kubectl', ['get', 'pods', '-w', '--field-selector',
            'metadata.name=watched']);
        await until(() => double.watches() > 0, 'it watches');
        await create('watched');
        await until(() => /Pending/.test(watch.stdout), 'it shows the new pod');
        await double.phase('default', 'watched', 'waiting', { reason: 'ErrImagePull' });
        await until(() => /watched +0\/1 +ErrImagePull/.test(watch.stdout),
            'it shows why it waits');
        await double.phase('default', 'watched', 'oom');
        await until(() => /watched +0\/1 +OOMKilled/.test(watch.stdout), 'it shows how it ended');
        watch.child.kill();
        await watch.ended;
    });

    test('logs --previous shows what a container wrote that is not started again yet', async () => {
        double.script(['running', { do: 'log', text: 'before the crash\n' },
            { do: 'waiting', reason: 'CrashLoopBackOff' }], { match: { name: '^crashed$' } });
        await create('crashed');
        await until(() => double.pods().some((pod) => pod.metadata.name === 'crashed' &&
            pod.status.containerStatuses?.[0].lastState.terminated), 'it has crashed');
        assert.equal(await kubectl(['logs', 'crashed', '--previous']), 'before the crash\n');
        assert.equal(await kubectl(['logs', 'crashed']), 'before the crash\n');
        await double.phase('default', 'crashed', 'running');
        await double.phase('default', 'crashed', 'log', { text: 'again\n' });
        assert.equal(await kubectl(['logs', 'crashed', '--previous']), 'before the crash\n');
        assert.equal(await kubectl(['logs', 'crashed']), 'again\n');
    });

    test('auth can-i --list shows the rules', async () => {
        assert.match(await kubectl(['auth', 'can-i', '--list'],
            { config: double.kubeconfig({ user: 'reader' }) }), /^pods .*\[get list watch\]$/m);
    });

    test('describe shows the state, conditions and events', async () => {
        double.script([{ do: 'exited', code: 3, message: 'disk full' }],
            { match: { name: '^told$' } });
        await create('told');
        await until(() => double.pods().some((pod) => pod.metadata.name === 'told' &&
            pod.status.phase === 'Failed'), 'it fails');
        const text = await kubectl(['describe', 'pod', 'told']);
        for (const pattern of [/^Status: +Failed$/m, /^Node: +node-\d\//m, /Exit Code: +3$/m,
            /Message: +disk full$/m, /PodScheduled +True/, /QoS Class: +Guaranteed/,
            /Normal +Scheduled .*default-scheduler +Successfully assigned default\/told to node/])
            assert.match(text, pattern);
    });

    test('logs: whole, the last lines, of a container, as they come', async () => {
        double.script({ steps: ['running'], logs: { main: 'a\nb\nc\n', other: 'o\n' } },
            { match: { name: '^logged$' } });
        await create('logged', '  - {name: other, image: busybox:1}\n');
        await kubectl(['wait', '--for=condition=Ready', 'pod/logged']);
        assert.equal(await kubectl(['logs', 'logged', '-c', 'main']), 'a\nb\nc\n');
        assert.equal(await kubectl(['logs', 'logged', '-c', 'main', '--tail=1']), 'c\n');
        assert.equal(await kubectl(['logs', 'logged', '-c', 'other']), 'o\n');
        const follow = begin('kubectl', ['logs', '-f', 'logged', '-c', 'main']);
        await until(() => follow.stdout === 'a\nb\nc\n', 'it begins with what there is');
        await double.phase('default', 'logged', 'log', { text: 'd\n', container: 'main' });
        await until(() => follow.stdout === 'a\nb\nc\nd\n', 'it goes on');
        await double.phase('default', 'logged', 'succeeded');
        assert.equal(await follow.ended, 0);
    });

    test('wait for the deletion, delete --force, delete by label', async () => {
        double.script({ steps: ['running'], onDelete: { never: true } },
            { match: { name: '^stuck' } });
        await create('stuck-1');
        await create('stuck-2');
        await until(() => double.pods().filter((pod) => pod.status.phase === 'Running' &&
            /^stuck/.test(pod.metadata.name)).length === 2, 'they run');
        await kubectl(['delete', 'pod', 'stuck-1', '--wait=false']);
        assert.match(await kubectl(['get', 'pod', 'stuck-1']), /Terminating/);
        const wait = begin('kubectl', ['wait', '--for=delete', 'pod/stuck-1', '--timeout=30s']);
        await until(() => double.watches() > 0, 'it watches');
        await kubectl(['delete', 'pod', 'stuck-1', '--force', '--grace-period=0']);
        assert.equal(await wait.ended, 0, wait.stderr);
        await kubectl(['delete', 'pods', '-l', 'app=stuck-2', '--force', '--grace-period=0']);
        assert.equal(double.pods().filter((pod) => /^stuck/.test(pod.metadata.name)).length, 0);
    });

    test('other kinds, patches, what one may do', async () => {
        assert.match(await kubectl(['get', 'nodes']), /node-1 +Ready/);
        await kubectl(['create', 'namespace', 'extra']);
        await kubectl(['create', 'quota', 'few', '--hard=pods=2', '-n', 'extra']);
        await kubectl(['create', 'configmap', 'settings', '--from-literal=a=b', '-n', 'extra']);
        await kubectl(['create', 'secret', 'generic', 'word', '--from-literal=a=b', '-n', 'extra']);
        const secret = JSON.parse(await kubectl(['get', 'secret', 'word', '-n', 'extra', '-o',
            'json']));
        assert.deepEqual(secret.data, { a: 'Yg==' });
        assert.match(await kubectl(['describe', 'quota', 'few', '-n', 'extra']), /pods +0 +2/);
        assert.match(await kubectl(['get', 'configmap', '-n', 'extra']), /settings +1/);
        await create('changed');
        await kubectl(['label', 'pod', 'changed', 'colour=red']);
        await kubectl(['annotate', 'pod', 'changed', 'why=because']);
        const { metadata } = JSON.parse(await kubectl(['get', 'pod', 'changed', '-o', 'json']));
        assert.equal(metadata.labels.colour, 'red');
        assert.equal(metadata.annotations.why, 'because');
        assert.match(await kubectl(['auth', 'can-i', 'delete', 'pods']), /^yes/);
        await kubectl(['delete', 'namespace', 'extra']);
        assert.match(await kubectl(['get', 'events']), /Successfully assigned default\/changed/);
    });

    test('a client certificate is somebody, and may what its rules say', async () => {
        const config = double.kubeconfig({ user: 'reader', auth: 'certificate',
            namespace: 'default' });
        assert.match(await kubectl(['get', 'pods'], { config }), /NAME/);
        assert.match(await kubectl(['delete', 'pod', 'any'], { config, fails: true }),
            /User "reader" cannot delete resource "pods"/);
    });
});

test("Python's client lists, watches, creates, patches, reads logs and deletes", async () => {
    const script = path.join(double.dir, 'client.py');
    fs.writeFileSync(script, `
import sys
from kubernetes import client, config, watch
config.load_kube_config(sys.argv[1])
assert client.VersionApi().get_code().git_version
assert 'pods/log' in [one.name for one in client.CoreV1Api().get_api_resources().resources]
v1 = client.CoreV1Api()
body = client.V1Pod(api_version='v1', kind='Pod', metadata=client.V1ObjectMeta(name='snake'),
    spec=client.V1PodSpec(restart_policy='Never', containers=[
        client.V1Container(name='main', image='busybox:1')]))
made = v1.create_namespaced_pod('default', body)
assert made.status.phase == 'Pending', made.status.phase
try:
    v1.create_namespaced_pod('default', body)
    raise AssertionError('it was created twice')
except client.ApiException as err:
    assert err.status == 409, err
version = made.metadata.resource_version
for event in watch.Watch().stream(v1.list_namespaced_pod, 'default', resource_version=version,
        field_selector='metadata.name=snake', timeout_seconds=20):
    if event['object'].status.phase == 'Running':
        break
else:
    raise AssertionError('it never ran')
names = [pod.metadata.name for pod in v1.list_namespaced_pod('default', limit=1).items]
assert len(names) == 1, names
assert v1.read_namespaced_pod_log('snake', 'default', tail_lines=1) == 'hiss\\n'
v1.patch_namespaced_pod_status('snake', 'default', {'status': {'phase': 'Failed',
    'reason': 'Patched'}})
pod = v1.read_namespaced_pod('snake', 'default')
assert (pod.status.phase, pod.status.reason) == ('Failed', 'Patched'), pod.status
events = v1.list_namespaced_event('default', field_selector='involvedObject.name=snake').items
assert any(event.reason == 'Scheduled' for event in events), events
v1.delete_namespaced_pod('snake', 'default', grace_period_seconds=0)
try:
    v1.read_namespaced_pod('snake', 'default')
    raise AssertionError('it is still there')
except client.ApiException as err:
    assert err.status == 404, err
print('done')
`);
    double.script({ steps: ['running'], logs: { main: 'sss\nhiss\n' } },
        { match: { name: '^snake$' } });
    const python = begin('/usr/bin/python3', [script, kubeconfig]);
    const code = await python.ended;
    assert.equal(code, 0, python.stderr);
    assert.equal(python.stdout, 'done\n');
});
