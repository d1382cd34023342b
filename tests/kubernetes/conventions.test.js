// SPDX-License-Identifier: Apache-2.0
'use strict';

// The double against the published conventions of the API, request by request. What is expected
// here is written from the API's documentation, so that it can disagree with the double.

const assert = require('node:assert/strict');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const { until } = require('./cluster');
const { PODS, unique, manifest, isStatus, requests } = require('./requests');

let double;
const { ask, made, watching } = requests(() => double);

before(async () => {
    double = await startDouble({ script: [] });
});
after(() => double.stop());

describe('create', () => {
    test('gives identity and defaults', async () => {
        const pod = await made({ labels: { app: 'x' } });
        assert.match(pod.metadata.uid, /^[0-9a-f-]{36}$/);
        assert.match(pod.metadata.creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
        assert.match(pod.metadata.resourceVersion, /^\d+$/);
        assert.equal(pod.status.phase, 'Pending');
        assert.equal(pod.status.qosClass, 'BestEffort');
        assert.equal(pod.spec.serviceAccountName, 'default');
        assert.equal(pod.spec.terminationGracePeriodSeconds, 30);
        assert.equal(pod.spec.containers[0].imagePullPolicy, 'IfNotPresent');
        assert.equal(pod.spec.containers[0].terminationMessagePath, '/dev/termination-log');
        assert.equal(pod.spec.tolerations.length, 2);
    });

    test('generateName makes a name', async () => {
        const body = manifest();
        body.metadata = { generateName: 'many-' };
        const first = await ask('POST', PODS, body);
        const second = await ask('POST', PODS, body);
        assert.match(first.body.metadata.name, /^many-[a-z0-9]{5}$/);
        assert.notEqual(first.body.metadata.name, second.body.metadata.name);
    });

    test('quantities are kept in their canonical form, requests follow limits', async () => {
        const pod = await made({ containers: [{ name: 'main', image: 'a',
            resources: { limits: { cpu: 0.5, memory: '1024Mi' } } }] });
        assert.deepEqual(pod.spec.containers[0].resources, {
            limits: { cpu: '500m', memory: '1Gi' }, requests: { cpu: '500m', memory: '1Gi' } });
        assert.equal(pod.status.qosClass, 'Guaranteed');
        assert.equal(pod.spec.containers[0].imagePullPolicy, 'Always');
    });

    test('a name that is taken is 409 AlreadyExists', async () => {
        const { metadata } = await made();
        const answer = await ask('POST', PODS, manifest(metadata.name));
        isStatus(answer, 409, 'AlreadyExists');
        assert.equal(answer.body.message, `pods "${metadata.name}" already exists`);
        assert.deepEqual(answer.body.details, { name: metadata.name, kind: 'pods' });
    });

    test('an unknown namespace is 404', async () => {
        const answer = await ask('POST', '/api/v1/namespaces/nowhere/pods', manifest('a'));
        isStatus(answer, 404, 'NotFound');
        assert.equal(answer.body.message, 'namespaces "nowhere" not found');
        assert.deepEqual(answer.body.details, { name: 'nowhere', kind: 'namespaces' });
    });

    test('an unknown service account is 403', async () => {
        const answer = await ask('POST', PODS, manifest(unique(), {
            serviceAccountName: 'nobody' }));
        isStatus(answer, 403, 'Forbidden');
        assert.match(answer.body.message, /error looking up service account default\/nobody/);
    });

    test('dryRun=All answers and stores nothing', async () => {
        const name = unique();
        const answer = await ask('POST', `${PODS}?dryRun=All`, manifest(name));
        assert.equal(answer.code, 201);
        assert.equal(answer.body.metadata.name, name);
        isStatus(await ask('GET', `${PODS}/${name}`), 404, 'NotFound');
        isStatus(await ask('POST', `${PODS}?dryRun=Some`, manifest(name)), 422, 'Invalid');
    });

    const container = (more) => ({ containers: [{ name: 'main', image: 'a', ...more }] });
    const invalid = [
        ['a name', { name: 'Not_A_Name' }, {}, 'metadata.name', 'FieldValueInvalid'],
        ['no containers', {}, { containers: [] }, 'spec.containers', 'FieldValueRequired'],
        ['no image', {}, { containers: [{ name: 'main' }] }, 'spec.containers[0].image',
            'FieldValueRequired'],
        ['a container\'s name', {}, container({ name: 'A.b' }), 'spec.containers[0].name',
            'FieldValueInvalid'],
        ['names twice', {}, { containers: [{ name: 'a', image: 'a' }, { name: 'a', image: 'a' }] },
            'spec.containers[1].name', 'FieldValueDuplicate'],
        ['a label', { labels: { a: 'not allowed' } }, {}, 'metadata.labels', 'FieldValueInvalid'],
        ['a policy', {}, { restartPolicy: 'Sometimes' }, 'spec.restartPolicy',
            'FieldValueNotSupported'],
        ['request above limit', {}, container({ resources: { limits: { cpu: '1' },
            requests: { cpu: '2' } } }), 'spec.containers[0].resources.requests',
        'FieldValueInvalid'],
        ['a negative request', {}, container({ resources: { requests: { cpu: '-1' } } }),
            'spec.containers[0].resources.requests[cpu]', 'FieldValueInvalid'],
        ['an unknown resource', {}, container({ resources: { requests: { speed: '1' } } }),
            'spec.containers[0].resources.requests[speed]', 'FieldValueInvalid'],
        ['a mount of nothing', {}, container({ volumeMounts: [{ name: 'x', mountPath: '/x' }] }),
            'spec.containers[0].volumeMounts[0].name', 'FieldValueNotFound'],
        ['a variable', {}, container({ env: [{ name: '1=', value: '' }] }),
            'spec.containers[0].env[0].name', 'FieldValueInvalid'],
        ['a deadline', {}, { activeDeadlineSeconds: 0 }, 'spec.activeDeadlineSeconds',
            'FieldValueInvalid'],
        ['an operator', {}, { affinity: { nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
                { matchExpressions: [{ key: 'a', operator: 'Like' }] }] } } } },
        'spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.' +
            'nodeSelectorTerms[0].matchExpressions[0].operator', 'FieldValueNotSupported'],
    ];
    for (const [what, metadata, spec, field, reason] of invalid)
        test(`422 for ${what}`, async () => {
            const body = manifest(unique(), spec);
            Object.assign(body.metadata, metadata);
            const answer = await ask('POST', PODS, body);
            isStatus(answer, 422, 'Invalid');
            const { kind, name, causes } = answer.body.details;
            assert.equal(kind, 'Pod');
            assert.equal(name, body.metadata.name);
            assert.deepEqual(causes.map((one) => [one.field, one.reason]), [[field, reason]]);
            assert.equal(answer.body.message, `Pod "${name}" is invalid: ${field}: ` +
                causes[0].message);
        });

    test('several mistakes are all told', async () => {
        const answer = await ask('POST', PODS, manifest(unique(), { restartPolicy: 'x',
            containers: [] }));
        assert.equal(answer.body.details.causes.length, 2);
        assert.match(answer.body.message, /is invalid: \[spec\.containers: .*, spec\.restart.*\]$/);
    });

    const refused = [
        ['what is no JSON', '{', /not JSON/],
        ['another kind', { kind: 'Service', apiVersion: 'v1', metadata: { name: 'a' } },
            /cannot be handled as a Pod/],
        ['another namespace', { ...manifest('a'), metadata: { name: 'a', namespace: 'other' } },
            /does not match the namespace/],
        ['a wrong type', manifest('a', { containers: 'x' }),
            /cannot unmarshal string into Go struct field PodSpec\.spec\.containers/],
        ['a quantity', manifest('a', { containers: [{ name: 'a', image: 'a',
            resources: { limits: { cpu: 'much' } } }] }), /quantities must match/],
        ['a version', { ...manifest('a'), metadata: { name: 'a', resourceVersion: '1' } },
            /resourceVersion should not be set/],
    ];
    for (const [what, body, message] of refused)
        test(`400 for ${what}`, async () => {
            const res = await fetch(`${double.url}${PODS}`, { method: 'POST', headers: {
                authorization: 'Bearer admin-token', 'content-type': 'application/json' },
            body: typeof body === 'string' ? body : JSON.stringify(body) });
            const answer = { code: res.status, body: await res.json() };
            isStatus(answer, 400, 'BadRequest');
            assert.match(answer.body.message, message);
        });

    test('unknown fields: refused, told of, or left out', async () => {
        const body = manifest(unique(), { speed: 1 });
        const strict = await ask('POST', `${PODS}?fieldValidation=Strict`, body);
        isStatus(strict, 400, 'BadRequest');
        assert.match(strict.body.message, /strict decoding error: unknown field "spec.speed"/);
        const told = await ask('POST', `${PODS}?fieldValidation=Warn&dryRun=All`, body);
        assert.equal(told.code, 201);
        assert.equal(told.headers.get('warning'), '299 - "unknown field \\"spec.speed\\""');
        const silent = await ask('POST', `${PODS}?fieldValidation=Ignore`, body);
        assert.equal(silent.code, 201);
        assert.equal(silent.headers.get('warning'), null);
        assert.equal(silent.body.spec.speed, undefined);
    });

    test('another type of body is 415', async () => {
        isStatus(await ask('POST', PODS, {}, { type: 'application/yaml' }), 415,
            'UnsupportedMediaType');
    });

    test('a body that is too large is 413', async () => {
        const answer = await ask('POST', PODS, manifest('a', { x: 'x'.repeat(4 << 20) }));
        assert.equal(answer.code, 413);
    });
});

describe('list', () => {
    test('pages are of one moment, and items have no kind', async () => {
        const label = unique('page');
        const names = [];
        for (let i = 0; i < 5; i++)
            names.push((await made({ labels: { set: label } })).metadata.name);
        const query = `${PODS}?labelSelector=set%3D${label}&limit=2`;
        const first = (await ask('GET', query)).body;
        assert.equal(first.kind, 'PodList');
        assert.equal(first.items.length, 2);
        assert.equal(first.items[0].kind, undefined);
        await made({ labels: { set: label } });
        await ask('DELETE', `${PODS}/${names[4]}`);
        const all = [...first.items];
        let token = first.metadata.continue;
        while (token) {
            const { body } = await ask('GET', `${query}&continue=${token}`);
            assert.equal(body.metadata.resourceVersion, first.metadata.resourceVersion);
            all.push(...body.items);
            token = body.metadata.continue;
        }
        assert.deepEqual(all.map((pod) => pod.metadata.name).sort(), names.sort());
    });

    test('how many remain is told where nothing selects', async () => {
        await made();
        await made();
        const { body } = await ask('GET', `${PODS}?limit=1`);
        const whole = await ask('GET', PODS);
        assert.equal(body.metadata.remainingItemCount, whole.body.items.length - 1);
    });

    test('a list cannot go on after compaction: 410 with a token to go on regardless', async () => {
        await made();
        await made();
        const { body } = await ask('GET', `${PODS}?limit=1`);
        await made();
        double.compact();
        const late = await ask('GET', `${PODS}?limit=1&continue=${body.metadata.continue}`);
        isStatus(late, 410, 'Expired');
        const on = await ask('GET', `${PODS}?continue=${late.body.metadata.continue}`);
        assert.equal(on.code, 200);
        assert.ok(on.body.items.length > 0);
    });

    test('a version: exact, not older, from the future', async () => {
        const before = (await made()).metadata;
        const name = (await made()).metadata.name;
        const exact = await ask('GET', `${PODS}?resourceVersionMatch=Exact&resourceVersion=` +
            before.resourceVersion);
        assert.ok(!exact.body.items.some((pod) => pod.metadata.name === name));
        const newer = await ask('GET', `${PODS}?resourceVersion=${before.resourceVersion}` +
            '&resourceVersionMatch=NotOlderThan');
        assert.ok(newer.body.items.some((pod) => pod.metadata.name === name));
        const future = await ask('GET', `${PODS}?resourceVersion=99999999`);
        isStatus(future, 504, 'Timeout');
        assert.equal(future.headers.get('retry-after'), '1');
        assert.equal(future.body.details.causes[0].reason, 'ResourceVersionTooLarge');
    });

    const wrong = ['limit=x', 'resourceVersion=x', 'resourceVersionMatch=Exact', 'continue=x',
        'resourceVersion=5&resourceVersionMatch=Other', 'labelSelector=a%20b', 'labelSelector=(',
        'labelSelector=a%20in%20b', 'labelSelector=a%3E1.5', 'fieldSelector=spec.containers%3Da',
        'fieldSelector=nonsense'];
    for (const query of wrong)
        test(`400 for ${query}`, async () => {
            isStatus(await ask('GET', `${PODS}?${query}`), 400, 'BadRequest');
        });
});

describe('selectors', () => {
    const set = unique('set');
    before(async () => {
        await made({ labels: { set, app: 'web', tier: '1' } }, 'sel-a');
        await made({ labels: { set, app: 'db', tier: '20' } }, 'sel-b');
        await made({ labels: { set, 'example.com/x': '' }, nodeName: 'node-1' }, 'sel-c');
    });
    const cases = [
        ['app=web', 'a'], ['app==web', 'a'], ['app!=web', 'bc'], ['app', 'ab'], ['!app', 'c'],
        ['app in (web, db)', 'ab'], ['app notin (web)', 'bc'], ['tier>5', 'b'], ['tier<5', 'a'],
        ['app=web,tier=1', 'a'], ['app=web,tier=20', ''], ['example.com/x=', 'c'],
        ['app in (web),!missing', 'a'],
    ];
    for (const [selector, wanted] of cases)
        test(`labels ${selector}`, async () => {
            const { body } = await ask('GET', `${PODS}?labelSelector=` +
                encodeURIComponent(`set=${set},${selector}`));
            assert.equal(body.items.map((pod) => pod.metadata.name.slice(4)).join(''), wanted);
        });
    const fields = [['metadata.name=sel-a', 'a'], ['metadata.name!=sel-a', 'bc'],
        ['spec.nodeName=node-1', 'c'], ['spec.nodeName=', 'ab'], ['status.phase=Pending', 'abc'],
        ['status.phase!=Pending', ''], ['metadata.namespace=default,metadata.name==sel-b', 'b']];
    for (const [selector, wanted] of fields)
        test(`fields ${selector}`, async () => {
            const { body } = await ask('GET', `${PODS}?labelSelector=set%3D${set}&fieldSelector=` +
                encodeURIComponent(selector));
            assert.equal(body.items.map((pod) => pod.metadata.name.slice(4)).join(''), wanted);
        });
});

describe('watch', () => {
    test('from a version: each change once, in order', async () => {
        const { metadata } = (await ask('GET', PODS)).body;
        const watch = await watching(`resourceVersion=${metadata.resourceVersion}`);
        const { name } = (await made()).metadata;
        await double.phase('default', name, 'running');
        await ask('DELETE', `${PODS}/${name}?gracePeriodSeconds=0`);
        const seen = [];
        for (;;) {
            const { type, object } = await watch.next();
            assert.equal(object.kind, 'Pod');
            if (object.metadata.name === name)
                seen.push([type, Number(object.metadata.resourceVersion)]);
            if (type === 'DELETED')
                break;
        }
        assert.deepEqual(seen.map(([type]) => type), ['ADDED', 'MODIFIED', 'MODIFIED', 'DELETED']);
        assert.deepEqual(seen.map(([, v]) => v), seen.map(([, v]) => v).sort((a, b) => a - b));
        watch.stop();
    });

    test('without a version: first all that is there', async () => {
        const { name } = (await made()).metadata;
        const watch = await watching(`fieldSelector=metadata.name%3D${name}`);
        const { type, object } = await watch.next();
        assert.deepEqual([type, object.metadata.name], ['ADDED', name]);
        watch.stop();
    });

    test('what begins and stops to match is added and deleted', async () => {
        const pod = await made({ labels: { kind: 'no' } });
        const path = `${PODS}/${pod.metadata.name}`;
        const watch = await watching(`labelSelector=kind%3Dyes-${pod.metadata.name}` +
            `&resourceVersion=${pod.metadata.resourceVersion}`);
        const label = (kind) => ask('PATCH', path, { metadata: { labels: { kind } } },
            { type: 'application/merge-patch+json' });
        await label(`yes-${pod.metadata.name}`);
        assert.equal((await watch.next()).type, 'ADDED');
        const last = (await label('no')).body;
        const gone = await watch.next();
        assert.equal(gone.type, 'DELETED');
        assert.equal(gone.object.metadata.labels.kind, `yes-${pod.metadata.name}`);
        assert.equal(gone.object.metadata.resourceVersion, last.metadata.resourceVersion);
        watch.stop();
    });

    test('bookmarks: on request, and before the end of its time', async () => {
        const { metadata } = (await ask('GET', PODS)).body;
        const watch = await watching(`allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=` +
            metadata.resourceVersion);
        const { type, object } = await watch.next();
        assert.equal(type, 'BOOKMARK');
        assert.equal(object.kind, 'Pod');
        assert.ok(Number(object.metadata.resourceVersion) >= Number(metadata.resourceVersion));
        await until(() => watch.over, 'it ends');
        assert.equal(watch.over, 'ended');
    });

    test('initial events end with a bookmark that says so', async () => {
        const { name } = (await made()).metadata;
        const watch = await watching('sendInitialEvents=true&resourceVersionMatch=NotOlderThan&' +
            `allowWatchBookmarks=true&fieldSelector=metadata.name%3D${name}`);
        assert.equal((await watch.next()).type, 'ADDED');
        const { type, object } = await watch.next();
        assert.equal(type, 'BOOKMARK');
        assert.equal(object.metadata.annotations['k8s.io/initial-events-end'], 'true');
        watch.stop();
        const wrong = await watching('sendInitialEvents=true');
        assert.equal(wrong.code, 422);
    });

    test('from too long ago: an event of 410, or the answer itself', async () => {
        const { metadata } = (await ask('GET', PODS)).body;
        await made();
        double.compact();
        const watch = await watching(`resourceVersion=${metadata.resourceVersion}`);
        const { type, object } = await watch.next();
        assert.equal(watch.code, 200);
        assert.equal(type, 'ERROR');
        assert.deepEqual([object.kind, object.code, object.reason], ['Status', 410, 'Expired']);
        await until(() => watch.over, 'it ends');
        double.compact({ answer: true });
        isStatus(await ask('GET', `${PODS}?watch=1&resourceVersion=${metadata.resourceVersion}`),
            410, 'Expired');
        double.compact();
    });

    test('another namespace is not seen', async () => {
        double.namespace('elsewhere');
        const { metadata } = (await ask('GET', PODS)).body;
        const watch = await watching(`resourceVersion=${metadata.resourceVersion}`);
        await ask('POST', '/api/v1/namespaces/elsewhere/pods', manifest('far'));
        const { name } = (await made()).metadata;
        assert.equal((await watch.next()).object.metadata.name, name);
        watch.stop();
    });
});

describe('update', () => {
    test('of an older version is 409 Conflict, without a version it is not', async () => {
        const pod = await made();
        const path = `${PODS}/${pod.metadata.name}`;
        const changed = { ...pod, metadata: { ...pod.metadata, labels: { a: '1' } } };
        const first = await ask('PUT', path, changed);
        assert.equal(first.code, 200);
        assert.notEqual(first.body.metadata.resourceVersion, pod.metadata.resourceVersion);
        const late = await ask('PUT', path, changed);
        isStatus(late, 409, 'Conflict');
        assert.match(late.body.message, /the object has been modified; please apply your changes/);
        const { resourceVersion, ...metadata } = changed.metadata;
        assert.equal((await ask('PUT', path, { ...changed, metadata })).code, 200);
    });

    test('that changes nothing makes no new version', async () => {
        const pod = await made();
        const again = await ask('PUT', `${PODS}/${pod.metadata.name}`, pod);
        assert.equal(again.body.metadata.resourceVersion, pod.metadata.resourceVersion);
    });

    test('of the spec: the image only', async () => {
        const pod = await made();
        const path = `${PODS}/${pod.metadata.name}`;
        const with_ = (more) => ({ ...pod, spec: { ...pod.spec, containers: [
            { ...pod.spec.containers[0], ...more }] } });
        const refused = await ask('PUT', path, with_({ command: ['x'] }));
        isStatus(refused, 422, 'Invalid');
        assert.match(refused.body.message, /spec: Forbidden: pod updates may not change fields/);
        assert.equal((await ask('PUT', path, with_({ image: 'other:2' }))).code, 200);
    });

    test('of the status is by its subresource, and of nothing else', async () => {
        const pod = await made();
        const path = `${PODS}/${pod.metadata.name}`;
        const next = { ...pod, metadata: { ...pod.metadata, labels: { a: 'b' } },
            status: { ...pod.status, phase: 'Running' } };
        const plain = (await ask('PUT', path, next)).body;
        assert.equal(plain.status.phase, 'Pending');
        const status = (await ask('PUT', `${path}/status`, { ...plain, status: next.status,
            spec: { ...plain.spec, nodeName: 'x' } })).body;
        assert.equal(status.status.phase, 'Running');
        assert.equal(status.spec.nodeName, undefined);
    });

    test('what has ended does not run again', async () => {
        const pod = await made();
        const done = await double.phase('default', pod.metadata.name, 'succeeded');
        const answer = await ask('PATCH', `${PODS}/${pod.metadata.name}/status`, { status: {
            containerStatuses: [{ ...done.status.containerStatuses[0],
                state: { running: {} } }] } }, { type: 'application/merge-patch+json' });
        isStatus(answer, 422, 'Invalid');
        assert.match(answer.body.message, /may not be transitioned to non-terminated state/);
    });

    const patches = [
        ['application/json-patch+json', [{ op: 'add', path: '/metadata/labels/b', value: '2' },
            { op: 'remove', path: '/metadata/labels/a' }], { b: '2' }],
        ['application/merge-patch+json', { metadata: { labels: { a: null, b: '2' } } }, { b: '2' }],
        ['application/strategic-merge-patch+json', { metadata: { labels: { b: '2' } } },
            { a: '1', b: '2' }],
    ];
    for (const [type, patch, labels] of patches)
        test(`patch ${type}`, async () => {
            const pod = await made({ labels: { a: '1' } });
            const answer = await ask('PATCH', `${PODS}/${pod.metadata.name}`, patch, { type });
            assert.equal(answer.code, 200, JSON.stringify(answer.body));
            assert.deepEqual(answer.body.metadata.labels, labels);
        });

    test('strategic patches of conditions merge by their type', async () => {
        const pod = await made();
        const path = `${PODS}/${pod.metadata.name}/status`;
        const type = 'application/strategic-merge-patch+json';
        const set = (conditions) => ask('PATCH', path, { status: { conditions } }, { type });
        await set([{ type: 'A', status: 'True' }, { type: 'B', status: 'True' }]);
        const { body } = await set([{ type: 'A', status: 'False' }]);
        assert.deepEqual(body.status.conditions, [{ type: 'A', status: 'False' },
            { type: 'B', status: 'True' }]);
    });

    test('patches that cannot be: 415, 400, 422', async () => {
        const path = `${PODS}/${(await made()).metadata.name}`;
        isStatus(await ask('PATCH', path, {}, { type: 'application/json' }), 415,
            'UnsupportedMediaType');
        isStatus(await ask('PATCH', path, [], { type: 'application/merge-patch+json' }), 400,
            'BadRequest');
        isStatus(await ask('PATCH', path, [{ op: 'test', path: '/metadata/name', value: 'x' }],
            { type: 'application/json-patch+json' }), 422, 'Invalid');
        isStatus(await ask('PATCH', path, { metadata: { resourceVersion: '1' } },
            { type: 'application/merge-patch+json' }), 409, 'Conflict');
    });
});

describe('delete', () => {
    test('of a namespace takes all its pods along, also those that end at once', async () => {
        const name = unique('ns');
        const namespace = { kind: 'Namespace', apiVersion: 'v1', metadata: { name } };
        assert.equal((await ask('POST', '/api/v1/namespaces', namespace)).code, 201);
        for (let i = 0; i < 6; i++) {
            const pod = manifest(`pod-${i}`, i % 2 ? {} : { schedulerName: 'nobody' });
            const { code } = await ask('POST', `/api/v1/namespaces/${name}/pods`, pod);
            assert.equal(code, 201);
        }
        assert.equal((await ask('DELETE', `/api/v1/namespaces/${name}`)).code, 200);
        await until(async () => (await ask('GET', `/api/v1/namespaces/${name}`)).code === 404,
            'it is gone');
        assert.deepEqual(double.pods(name), []);
    });

    test('waits for the containers; the grace period is the pod\'s', async () => {
        const { name } = (await made({ terminationGracePeriodSeconds: 40, annotations: {
            'double.tenax.dev/script': JSON.stringify({ steps: ['running'],
                onDelete: { never: true } }) } })).metadata;
        await until(() => double.pods().find((pod) => pod.metadata.name === name).status.phase ===
            'Running', 'it runs');
        const { body } = await ask('DELETE', `${PODS}/${name}`);
        assert.equal(body.kind, 'Pod');
        assert.equal(body.metadata.deletionGracePeriodSeconds, 40);
        assert.ok(Date.parse(body.metadata.deletionTimestamp) > Date.now() + 30000);
        const longer = await ask('DELETE', `${PODS}/${name}?gracePeriodSeconds=50`);
        assert.equal(longer.body.metadata.deletionGracePeriodSeconds, 40);
        const shorter = await ask('DELETE', `${PODS}/${name}`, { kind: 'DeleteOptions',
            apiVersion: 'v1', gracePeriodSeconds: 5 });
        assert.equal(shorter.body.metadata.deletionGracePeriodSeconds, 5);
        assert.equal((await ask('GET', `${PODS}/${name}`)).code, 200);
        assert.equal((await ask('DELETE', `${PODS}/${name}?gracePeriodSeconds=0`)).code, 200);
        isStatus(await ask('GET', `${PODS}/${name}`), 404, 'NotFound');
    });

    test('of a pod that was never on a node is at once', async () => {
        const { name } = (await made()).metadata;
        assert.equal((await ask('DELETE', `${PODS}/${name}`)).code, 200);
        isStatus(await ask('GET', `${PODS}/${name}`), 404, 'NotFound');
        isStatus(await ask('DELETE', `${PODS}/${name}`), 404, 'NotFound');
    });

    test('that does not meet its preconditions is 409', async () => {
        const { name, resourceVersion } = (await made()).metadata;
        const path = `${PODS}/${name}`;
        const wrong = await ask('DELETE', path, { preconditions: { uid: 'another' } });
        isStatus(wrong, 409, 'Conflict');
        assert.match(wrong.body.message, /the UID in the precondition \(another\) does not match/);
        isStatus(await ask('DELETE', path, { preconditions: { resourceVersion: '1' } }), 409,
            'Conflict');
        assert.equal((await ask('DELETE', path, { preconditions: { resourceVersion } })).code, 200);
    });

    test('with a finalizer waits until that is taken away', async () => {
        const { name } = (await made({ finalizers: ['example.com/hold'] })).metadata;
        const path = `${PODS}/${name}`;
        const { body } = await ask('DELETE', path);
        assert.ok(body.metadata.deletionTimestamp);
        assert.equal((await ask('GET', path)).code, 200);
        await ask('PATCH', path, { metadata: { finalizers: null } },
            { type: 'application/merge-patch+json' });
        isStatus(await ask('GET', path), 404, 'NotFound');
    });

    test('as a dry run deletes nothing; wrong options are 422', async () => {
        const path = `${PODS}/${(await made()).metadata.name}`;
        assert.equal((await ask('DELETE', `${path}?dryRun=All`)).code, 200);
        assert.equal((await ask('GET', path)).code, 200);
        isStatus(await ask('DELETE', `${path}?propagationPolicy=Sideways`), 422, 'Invalid');
        isStatus(await ask('DELETE', `${path}?gracePeriodSeconds=-1`), 422, 'Invalid');
    });

    test('of a collection takes what is selected', async () => {
        const set = unique('set');
        await made({ labels: { set } });
        await made({ labels: { set } });
        const other = (await made()).metadata.name;
        const { code, body } = await ask('DELETE', `${PODS}?labelSelector=set%3D${set}`);
        assert.deepEqual([code, body.kind, body.items.length], [200, 'PodList', 2]);
        const left = await ask('GET', `${PODS}?labelSelector=set%3D${set}`);
        assert.equal(left.body.items.length, 0);
        assert.equal((await ask('GET', `${PODS}/${other}`)).code, 200);
    });

    test('of a namespace takes all of it; meanwhile nothing new comes', async () => {
        double.namespace('going');
        const pods = '/api/v1/namespaces/going/pods';
        await ask('POST', pods, { ...manifest('held', { finalizers: ['a.b/c'] }) });
        const { body } = await ask('DELETE', '/api/v1/namespaces/going');
        assert.equal(body.status.phase, 'Terminating');
        const refused = await ask('POST', pods, manifest('late'));
        isStatus(refused, 403, 'Forbidden');
        assert.equal(refused.body.message, 'pods "late" is forbidden: unable to create new ' +
            'content in namespace going because it is being terminated');
        assert.equal(refused.body.details.causes[0].reason, 'NamespaceTerminating');
        await until(async () => (await ask('GET', `${pods}/held`)).body.metadata.deletionTimestamp,
            'its pods are being deleted');
        await ask('PATCH', `${pods}/held`, { metadata: { finalizers: null } },
            { type: 'application/merge-patch+json' });
        await until(async () => (await ask('GET', '/api/v1/namespaces/going')).code === 404,
            'the namespace is gone');
    });
});
