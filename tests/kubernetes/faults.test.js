// SPDX-License-Identifier: Apache-2.0
'use strict';

// The double's own powers: scripts, nodes, faults, logs, TLS and HTTP/2.

const assert = require('node:assert/strict');
const http2 = require('node:http2');
const https = require('node:https');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const { until } = require('./cluster');

const PODS = '/api/v1/namespaces/default/pods';
const headers = { authorization: 'Bearer admin-token', 'content-type': 'application/json' };

function manifest(name, { annotations, labels, ...spec } = {}) {
    return { kind: 'Pod', apiVersion: 'v1', metadata: { name, annotations, labels },
        spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'busybox:1' }],
            ...spec } };
}

function tools(double) {
    const ask = async (method, path, body) => {
        const res = await fetch(`${double.url}${path}`, { method, headers,
            body: body && JSON.stringify(body) });
        return { code: res.status, headers: res.headers, text: await res.text() };
    };
    const create = async (name, spec) => {
        const { code, text } = await ask('POST', PODS, manifest(name, spec));
        assert.equal(code, 201, text);
        return JSON.parse(text);
    };
    const get = (name) => double.pods().find((pod) => pod.metadata.name === name);
    const phase = (name, wanted) => until(() => get(name)?.status.phase === wanted,
        `pod ${name} is ${wanted}`);
    return { ask, create, get, phase };
}

// A double for one group of tests.
function withDouble(options) {
    const out = {};
    before(async () => {
        out.double = await startDouble(options);
        Object.assign(out, tools(out.double));
    });
    after(() => out.double.stop());
    return out;
}

async function listen(double, query = '') {
    const abort = new AbortController();
    const res = await fetch(`${double.url}${PODS}?watch=1${query}`, { headers,
        signal: abort.signal });
    const out = { text: '', over: null, stop: () => abort.abort() };
    const read = async () => {
        const decoder = new TextDecoder();
        for await (const part of res.body)
            out.text += decoder.decode(part, { stream: true });
    };
    read().then(() => { out.over = 'ended'; }, () => { out.over = 'broken'; });
    return out;
}

describe('scripts', () => {
    const t = withDouble({ nodes: 2 });

    test('by annotation: a pod goes through all of it', async () => {
        const script = ['unschedulable', { do: 'scheduled', node: 'node-2' }, 'pulling',
            { do: 'waiting', reason: 'ErrImagePull' },
            { do: 'waiting', reason: 'ImagePullBackOff' }, 'pulled', 'running',
            { do: 'exited', code: 0, message: 'bye' }];
        const watch = await listen(t.double, '&fieldSelector=metadata.name%3Dall');
        const annotations = { 'double.tenax.dev/script': JSON.stringify(script) };
        await t.create('all', { annotations });
        await t.phase('all', 'Succeeded');
        await until(() => /"Succeeded"/.test(watch.text), 'the watch tells of the end');
        watch.stop();
        const states = watch.text.trim().split('\n').map((line) => {
            const { status } = JSON.parse(line).object;
            const [one] = status.containerStatuses || [];
            const [kind, state] = one ? Object.entries(one.state)[0] : ['none', {}];
            return `${status.phase}/${state.reason || kind}`;
        });
        assert.deepEqual([...new Set(states)], ['Pending/none', 'Pending/ContainerCreating',
            'Pending/ErrImagePull', 'Pending/ImagePullBackOff', 'Running/running',
            'Succeeded/Completed']);
        assert.equal(t.get('all').spec.nodeName, 'node-2');
        assert.equal(t.get('all').status.containerStatuses[0].state.terminated.message, 'bye');
    });

    test('init containers come first; the failure of one is the pod\'s', async () => {
        t.double.script([], { match: { name: '^init' } });
        const initContainers = [{ name: 'setup', image: 'a' }];
        await t.create('init-good', { initContainers });
        await t.double.phase('default', 'init-good', 'running', { container: 'setup' });
        assert.equal(t.get('init-good').status.phase, 'Pending');
        const [main] = t.get('init-good').status.containerStatuses;
        assert.equal(main.state.waiting.reason, 'PodInitializing');
        await t.double.phase('default', 'init-good', 'running');
        const [setup] = t.get('init-good').status.initContainerStatuses;
        assert.equal(setup.state.terminated.exitCode, 0);
        assert.equal(t.get('init-good').status.phase, 'Running');
        await t.create('init-bad', { initContainers });
        await t.double.phase('default', 'init-bad', 'exited', { container: 'setup', code: 2 });
        assert.equal(t.get('init-bad').status.phase, 'Failed');
    });

    const ends = [
        ['oom', {}, (s) => s.containerStatuses[0].state.terminated.reason === 'OOMKilled'],
        ['evicted', {}, (s) => s.reason === 'Evicted' && s.conditions.some((c) =>
            c.type === 'DisruptionTarget' && c.reason === 'TerminationByKubelet')],
        ['deadline', {}, (s) => s.reason === 'DeadlineExceeded'],
        ['rejected', { reason: 'OutOfcpu' }, (s) => s.reason === 'OutOfcpu'],
        ['exited', { signal: 9 }, (s) => s.containerStatuses[0].state.terminated.signal === 9 &&
            s.containerStatuses[0].state.terminated.exitCode === 137],
        ['failed', { code: 4 }, (s) => s.containerStatuses[0].state.terminated.exitCode === 4],
    ];
    for (const [step, details, holds] of ends)
        test(`a pod that is ${step}`, async () => {
            t.double.script(['running'], { match: { name: `^end-${step}` } });
            await t.create(`end-${step}`);
            await t.phase(`end-${step}`, 'Running');
            const { status } = await t.double.phase('default', `end-${step}`, step, details);
            assert.equal(status.phase, 'Failed');
            assert.ok(holds(status), JSON.stringify(status));
        });

    for (const [step, reason] of [['preempted', 'PreemptionByScheduler'],
        ['drained', 'EvictionByEvictionAPI'], ['tainted', 'DeletionByTaintManager']])
        test(`a pod that is ${step} says so, ends and is gone`, async () => {
            t.double.script({ steps: ['running'], onDelete: { after: 50 } },
                { match: { name: `^${step}$` } });
            await t.create(step);
            await t.phase(step, 'Running');
            await t.double.phase('default', step, step);
            const { metadata, status } = t.get(step);
            assert.ok(metadata.deletionTimestamp);
            assert.ok(status.conditions.some((one) => one.reason === reason));
            await until(() => !t.get(step), 'it is gone');
        });

    test('activeDeadlineSeconds ends a pod by itself', async () => {
        t.double.script(['running'], { match: { name: '^limited$' } });
        await t.create('limited', { activeDeadlineSeconds: 1 });
        await t.phase('limited', 'Failed');
        assert.equal(t.get('limited').status.reason, 'DeadlineExceeded');
    });

    test('who ignores SIGTERM is killed when the grace period is over', async () => {
        t.double.script({ steps: ['running'], onDelete: { ignore: true } },
            { match: { name: '^deaf$' } });
        await t.create('deaf', { terminationGracePeriodSeconds: 1 });
        await t.phase('deaf', 'Running');
        const watch = await listen(t.double, '&fieldSelector=metadata.name%3Ddeaf');
        await t.ask('DELETE', `${PODS}/deaf`);
        await until(() => /"DELETED"/.test(watch.text), 'it is gone');
        assert.match(watch.text, /"exitCode":137/);
        watch.stop();
    });

    test('a mistake in a script is told, not done', async () => {
        await t.create('wrong', { annotations: { 'double.tenax.dev/script': '["fly"]' } });
        assert.ok(t.double.reports.some((words) => /no such step: "fly"/.test(words)));
        await assert.rejects(t.double.phase('default', 'wrong', 'fly'), /no such step/);
        await assert.rejects(t.double.phase('default', 'none', 'running'), /no pod/);
    });
});

describe('logs', () => {
    const t = withDouble({ script: { steps: ['running'], logs: { main: 'one\ntwo\nthree\n' } } });
    const log = async (query = '', name = 'talker') => {
        const { code, text } = await t.ask('GET', `${PODS}/${name}/log?${query}`);
        return code === 200 ? text : JSON.parse(text);
    };
    before(async () => {
        await t.create('talker');
        await t.phase('talker', 'Running');
    });

    test('whole, by lines, by bytes, with times', async () => {
        assert.equal(await log(), 'one\ntwo\nthree\n');
        assert.equal(await log('tailLines=2'), 'two\nthree\n');
        assert.equal(await log('tailLines=0'), '');
        assert.equal(await log('limitBytes=5'), 'one\nt');
        assert.match(await log('tailLines=1&timestamps=true'), /^\d{4}-\S+Z three\n$/);
    });

    test('refusals: the container, before it runs, of the one before', async () => {
        assert.equal((await log('container=x')).message, 'container x is not valid for pod talker');
        assert.match((await log('previous=true')).message,
            /previous terminated container "main" in pod "talker" not found/);
        assert.equal((await log('tailLines=-1')).reason, 'Invalid');
        t.double.script([{ do: 'waiting', reason: 'ErrImagePull' }], { match: { name: '^two$' } });
        const containers = [{ name: 'a', image: 'a' }, { name: 'b', image: 'b' }];
        await t.create('two', { containers });
        await until(() => t.get('two').status.containerStatuses, 'it waits');
        assert.match((await log('', 'two')).message, /choose one of: \[a b\]/);
        assert.match((await log('container=a', 'two')).message,
            /container "a" in pod "two" is waiting to start: ErrImagePull/);
        assert.equal((await log('', 'none')).code, 404);
    });

    test('of the container before, after a restart', async () => {
        t.double.script([{ do: 'log', text: 'old\n', previous: true },
            { do: 'waiting', reason: 'CrashLoopBackOff', last: { code: 1 } }],
        { match: { name: '^again$' } });
        await t.create('again');
        await until(() => t.get('again').status.containerStatuses, 'it has run');
        assert.equal(await log('previous=true', 'again'), 'old\n');
    });
});

describe('nodes', () => {
    const t = withDouble({ nodes: [{ name: 'big', capacity: { cpu: '4', memory: '4Gi' } },
        { name: 'small', capacity: { cpu: '1', memory: '1Gi' }, labels: { disk: 'ssd' } },
        { name: 'closed', taints: [{ key: 'only', value: 'others', effect: 'NoSchedule' }] }],
    script: ['running'] });
    const wants = (cpu, more) => ({ containers: [{ name: 'main', image: 'a',
        resources: { requests: { cpu } } }], ...more });
    const nodeAffinity = (given) => ({ affinity: { nodeAffinity: given } });

    test('capacity: who does not fit waits until there is room', async () => {
        await t.create('first', wants('3'));
        await t.phase('first', 'Running');
        assert.equal(t.get('first').spec.nodeName, 'big');
        await t.create('second', wants('2'));
        await until(() => t.get('second').status.conditions, 'the scheduler has looked at it');
        const [condition] = t.get('second').status.conditions;
        assert.deepEqual([condition.type, condition.status, condition.reason],
            ['PodScheduled', 'False', 'Unschedulable']);
        assert.match(condition.message, /^0\/3 nodes are available: 1 node\(s\) had untolerated /);
        assert.match(condition.message, /2 Insufficient cpu/);
        await t.double.phase('default', 'first', 'succeeded');
        await t.phase('second', 'Running');
        await t.ask('DELETE', `${PODS}/second?gracePeriodSeconds=0`);
    });

    const expression = (key, operator, values) => ({
        matchExpressions: [{ key, operator, values }] });
    const HOST = 'kubernetes.io/hostname';
    const cases = [
        ['node selector', { nodeSelector: { disk: 'ssd' } }, 'small'],
        ['required anti-affinity', nodeAffinity({ requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [expression(HOST, 'NotIn', ['big'])] } }), 'small'],
        ['preferred anti-affinity', nodeAffinity({
            preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100,
                preference: expression(HOST, 'NotIn', ['big']) }] }), 'small'],
        ['preferred, where no other fits', { ...wants('2'), ...nodeAffinity({
            preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100,
                preference: expression(HOST, 'NotIn', ['big']) }] }) }, 'big'],
        ['toleration', { tolerations: [{ key: 'only', operator: 'Exists' }],
            nodeSelector: { [HOST]: 'closed' } }, 'closed'],
    ];
    for (const [what, spec, node] of cases)
        test(what, async () => {
            const name = what.replace(/[^a-z]/g, '');
            await t.create(name, spec);
            await t.phase(name, 'Running');
            assert.equal(t.get(name).spec.nodeName, node);
            await t.ask('DELETE', `${PODS}/${name}?gracePeriodSeconds=0`);
        });

    test('required anti-affinity to every node: nobody takes it', async () => {
        await t.create('picky', nodeAffinity({ requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [expression(HOST, 'NotIn', ['big', 'small', 'closed'])] } }));
        await until(() => t.get('picky').status.conditions, 'the scheduler has looked at it');
        assert.match(t.get('picky').status.conditions[0].message,
            /didn't match Pod's node affinity\/selector/);
        t.double.node({ name: 'new' });
        await t.phase('picky', 'Running');
        assert.equal(t.get('picky').spec.nodeName, 'new');
    });

    test('another scheduler\'s pods wait for a binding', async () => {
        await t.create('other', { schedulerName: 'mine' });
        const binding = { kind: 'Binding', apiVersion: 'v1', metadata: { name: 'other' },
            target: { kind: 'Node', name: 'big' } };
        assert.equal((await t.ask('POST', `${PODS}/other/binding`, binding)).code, 201);
        assert.equal(t.get('other').spec.nodeName, 'big');
        assert.equal((await t.ask('POST', `${PODS}/other/binding`, binding)).code, 409);
    });

    test('a lost node: its pods stay until it is back, or they are forced', async () => {
        await t.create('far-1', { nodeSelector: { [HOST]: 'small' } });
        await t.create('far-2', { nodeSelector: { [HOST]: 'small' } });
        await t.phase('far-1', 'Running');
        await t.phase('far-2', 'Running');
        t.double.loseNode('small', { phase: 'Unknown' });
        assert.equal(t.get('far-1').status.reason, 'NodeLost');
        assert.equal(t.get('far-1').status.phase, 'Unknown');
        await t.ask('DELETE', `${PODS}/far-1?gracePeriodSeconds=1`);
        await assert.rejects(t.double.phase('default', 'far-2', 'succeeded'), /lost/);
        assert.equal((await t.ask('GET', `${PODS}/far-2/log`)).code, 500);
        await t.ask('DELETE', `${PODS}/far-2?gracePeriodSeconds=0`);
        assert.equal(t.get('far-2'), undefined);
        assert.ok(t.get('far-1').metadata.deletionTimestamp);
        t.double.restoreNode('small');
        await until(() => !t.get('far-1'), 'its kubelet ends it');
    });

    test('a removed node: its pods are collected', async () => {
        t.double.node({ name: 'brief' });
        await t.create('guest', { nodeSelector: { [HOST]: 'brief' } });
        await t.phase('guest', 'Running');
        t.double.removeNode('brief');
        await until(() => !t.get('guest'), 'it is collected');
    });
});

describe('faults', () => {
    const t = withDouble({});
    const fails = (promise) => assert.rejects(promise, /fetch failed|terminated|aborted/);

    test('refusals, so often as asked', async () => {
        t.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 2, status: 429,
            retryAfter: 7 });
        for (let i = 0; i < 2; i++) {
            const { code, headers: given, text } = await t.ask('POST', PODS, manifest('busy'));
            assert.deepEqual([code, given.get('retry-after')], [429, '7']);
            assert.equal(JSON.parse(text).reason, 'TooManyRequests');
        }
        assert.equal((await t.ask('POST', PODS, manifest('busy'))).code, 201);
        t.double.fault({ match: { path: '/busy$' }, times: 1, status: 503,
            message: 'etcd is away' });
        const { code, text } = await t.ask('GET', `${PODS}/busy`);
        assert.deepEqual([code, JSON.parse(text).message], [503, 'etcd is away']);
    });

    test('dropped: nothing was done; lost: it was', async () => {
        t.double.fault({ match: { verb: 'create' }, times: 1, drop: true });
        await fails(t.ask('POST', PODS, manifest('dropped')));
        assert.equal(t.get('dropped'), undefined);
        t.double.fault({ match: { verb: 'create' }, times: 1, lost: true });
        await fails(t.ask('POST', PODS, manifest('lost')));
        assert.ok(t.get('lost'));
    });

    test('half of an answer, a proxy\'s page, a late answer', async () => {
        t.double.fault({ match: { verb: 'list' }, times: 1, half: true });
        await fails(t.ask('GET', PODS));
        t.double.fault({ match: { verb: 'list' }, times: 1, raw: { code: 502, text: '<html>' } });
        const { code, text } = await t.ask('GET', PODS);
        assert.deepEqual([code, text], [502, '<html>']);
        t.double.fault({ match: { verb: 'list' }, times: 1, delay: 200, status: 500 });
        const begun = performance.now();
        assert.equal((await t.ask('GET', PODS)).code, 500);
        assert.ok(performance.now() - begun >= 190);
    });

    test('a rate of refusals', async () => {
        t.double.fault({ match: { verb: 'get' }, rate: 0.5, status: 500 });
        const codes = [];
        for (let i = 0; i < 60; i++)
            codes.push((await t.ask('GET', `${PODS}/lost`)).code);
        t.double.clearFaults();
        assert.ok(codes.includes(200) && codes.includes(500));
    });

    test('watches: dropped, ended, broken off in a line, silent', async () => {
        const broken = await listen(t.double);
        t.double.dropWatches();
        await until(() => broken.over === 'broken', 'it breaks');
        const over = await listen(t.double);
        t.double.dropWatches({ finish: true });
        await until(() => over.over === 'ended', 'it ends');
        const half = await listen(t.double, '&fieldSelector=metadata.name%3Dhalf');
        t.double.dropWatches({ half: true });
        await t.create('half');
        await until(() => half.over === 'broken', 'it breaks');
        assert.ok(half.text.length > 0 && !half.text.endsWith('\n'));
        const still = await listen(t.double, '&fieldSelector=metadata.name%3Dstill');
        t.double.stallWatches();
        await t.create('still');
        await t.phase('still', 'Succeeded');
        assert.equal(still.text, '');
        t.double.stallWatches(false);
        await until(() => /"ADDED"/.test(still.text), 'it goes on');
        still.stop();
    });

    test('watches: lines in pieces, and an event that ends them', async () => {
        const watch = await listen(t.double, '&fieldSelector=metadata.name%3Dpieces');
        t.double.trickleWatches(100);
        await t.create('pieces');
        await t.phase('pieces', 'Succeeded');
        await until(() => /"phase":"Succeeded"[^\n]*\n$/.test(watch.text), 'it comes whole');
        const types = watch.text.trim().split('\n').map((line) => JSON.parse(line).type);
        assert.deepEqual(types, ['ADDED', 'MODIFIED', 'MODIFIED', 'MODIFIED']);
        t.double.trickleWatches(0);
        t.double.dropWatches({ error: 500 });
        await until(() => watch.over === 'ended', 'it ends');
        const { type, object } = JSON.parse(watch.text.trim().split('\n').pop());
        assert.deepEqual([type, object.kind, object.code], ['ERROR', 'Status', 500]);
    });

    test('a restart: away, then back without history, or without anything', async () => {
        const watch = await listen(t.double);
        const version = JSON.parse((await t.ask('GET', PODS)).text).metadata.resourceVersion;
        await t.create('kept');
        const back = t.double.restart({ away: 50 });
        await until(() => watch.over === 'broken', 'the watch breaks');
        await fails(t.ask('GET', PODS));
        await back;
        assert.ok(t.get('kept'));
        const late = await listen(t.double, `&resourceVersion=${version}`);
        await until(() => /"code":410/.test(late.text), 'history is gone');
        await t.double.restart({ keep: false });
        assert.deepEqual(t.double.pods(), []);
        await t.create('new');
        await t.phase('new', 'Succeeded');
        assert.ok(Number(t.get('new').metadata.resourceVersion) > Number(version));
    });

    test('the cluster\'s clock may be an hour off', async () => {
        t.double.clock(-3600000);
        const { metadata } = await t.create('early');
        const behind = Date.now() - Date.parse(metadata.creationTimestamp);
        assert.ok(behind > 3590000 && behind < 3660000, String(behind));
        t.double.clock(0);
    });

    test('what was asked is counted', async () => {
        t.double.requests({ clear: true });
        await t.create('counted');
        await t.ask('GET', `${PODS}/nobody`);
        assert.deepEqual(t.double.requests(), { 'create pods 201': 1, 'get pods 404': 1 });
    });
});

describe('TLS', () => {
    const t = withDouble({ tls: true, users: [{ name: 'worker', groups: ['system:masters'] }] });

    function get(options) {
        return new Promise((resolve, reject) => {
            https.get(`${t.double.url}${PODS}`, { ca: t.double.authority.ca.cert, ...options },
                (res) => resolve(res.resume().statusCode)).on('error', reject);
        });
    }

    test('HTTP/2 where the client speaks it, a watch included', async () => {
        const session = http2.connect(t.double.url, { ca: t.double.authority.ca.cert });
        const ask = (path, more) => session.request({ ':path': path,
            authorization: 'Bearer admin-token', ...more });
        const watch = ask(`${PODS}?watch=1`);
        let seen = '';
        watch.on('data', (bytes) => { seen += bytes; });
        const create = ask(PODS, { ':method': 'POST', 'content-type': 'application/json' });
        create.end(JSON.stringify(manifest('h2')));
        const code = await new Promise((resolve) => create.on('response', (head) =>
            resolve(head[':status'])));
        assert.equal(code, 201);
        await until(() => /"name":"h2"/.test(seen), 'the watch tells of it');
        assert.equal(session.alpnProtocol, 'h2');
        session.destroy();
    });

    test('certificates: of a user, of nobody, of another authority', async () => {
        const { key, cert } = t.double.authority.client('worker');
        assert.equal(await get({ key, cert }), 200);
        assert.equal(await get({}), 401);
        const stranger = t.double.authority.client('stranger');
        assert.equal(await get({ key: stranger.key, cert: stranger.cert }), 403);
        await assert.rejects(get({ ca: undefined }), /certificate/);
        const other = await startDouble({ tls: true });
        const foreign = other.authority.client('worker');
        assert.equal(await get({ key: foreign.key, cert: foreign.cert }), 401);
        await other.stop();
    });

    test('a restart breaks sessions; the port and the certificate are the same after', async () => {
        const session = http2.connect(t.double.url, { ca: t.double.authority.ca.cert });
        const closed = new Promise((resolve) => session.on('close', resolve));
        session.on('error', () => {});
        await new Promise((resolve) => session.on('connect', resolve));
        await t.double.restart();
        await closed;
        const { key, cert } = t.double.authority.client('worker');
        assert.equal(await get({ key, cert }), 200);
    });

    test('a token that is replaced counts no more', async () => {
        const options = (token) => ({ headers: { authorization: `Bearer ${token}` } });
        t.double.user({ name: 'worker', token: 'first' });
        assert.equal(await get(options('first')), 200);
        t.double.user({ name: 'worker', token: 'second' });
        assert.equal(await get(options('first')), 401);
        assert.equal(await get(options('second')), 200);
    });
});
