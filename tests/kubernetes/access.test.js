// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who may do what at the double, quotas, and the forms of its answers.

const assert = require('node:assert/strict');
const { test, describe, before, after } = require('node:test');
const { startDouble } = require('./double');
const quantity = require('./double/quantity');
const { PODS, manifest, isStatus, requests } = require('./requests');

let double;
const { ask, made } = requests(() => double);

before(async () => {
    double = await startDouble({ script: [], users: [
        { name: 'reader', token: 'reader-token', rules: [
            { verbs: ['get', 'list', 'watch'], resources: ['pods'], namespaces: ['default'] },
            { verbs: ['get'], resources: ['pods/log'], names: ['mine'] }] }] });
});
after(() => double.stop());

describe('access', () => {
    test('without a known token: 401', async () => {
        isStatus(await ask('GET', PODS, undefined, { token: 'wrong' }), 401, 'Unauthorized');
        const res = await fetch(`${double.url}${PODS}`);
        assert.equal(res.status, 401);
    });

    test('what the rules do not say is 403, in words that name it', async () => {
        const token = 'reader-token';
        assert.equal((await ask('GET', PODS, undefined, { token })).code, 200);
        const create = await ask('POST', PODS, manifest('a'), { token });
        isStatus(create, 403, 'Forbidden');
        assert.equal(create.body.message, 'pods is forbidden: User "reader" cannot create ' +
            'resource "pods" in API group "" in the namespace "default"');
        const log = await ask('GET', `${PODS}/other/log`, undefined, { token });
        assert.equal(log.body.message, 'pods "other" is forbidden: User "reader" cannot get ' +
            'resource "pods/log" in API group "" in the namespace "default"');
        const nodes = await ask('GET', '/api/v1/nodes', undefined, { token });
        assert.match(nodes.body.message, /"nodes" in API group "" at the cluster scope$/);
    });

    test('a review says beforehand what would be allowed', async () => {
        const review = async (attributes) => (await ask('POST',
            '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
                kind: 'SelfSubjectAccessReview', apiVersion: 'authorization.k8s.io/v1',
                spec: { resourceAttributes: attributes } }, { token: 'reader-token' })).body.status;
        const base = { namespace: 'default', resource: 'pods' };
        assert.equal((await review({ ...base, verb: 'list' })).allowed, true);
        assert.equal((await review({ ...base, verb: 'delete' })).allowed, false);
        assert.equal((await review({ ...base, verb: 'list', namespace: 'other' })).allowed, false);
        assert.equal((await review({ ...base, verb: 'get', subresource: 'log', name: 'mine' }))
            .allowed, true);
    });

    test('a quota that is used up is 403, until there is room again', async () => {
        double.namespace('small');
        const pods = '/api/v1/namespaces/small/pods';
        await ask('POST', '/api/v1/namespaces/small/resourcequotas', { kind: 'ResourceQuota',
            apiVersion: 'v1', metadata: { name: 'few' },
            spec: { hard: { pods: '1', 'requests.memory': '1Gi' } } });
        const sized = (name, memory) => manifest(name, { containers: [{ name: 'main', image: 'a',
            resources: { requests: { memory } } }] });
        assert.equal((await ask('POST', pods, sized('one', '512Mi'))).code, 201);
        const over = await ask('POST', pods, sized('two', '768Mi'));
        isStatus(over, 403, 'Forbidden');
        assert.equal(over.body.message, 'pods "two" is forbidden: exceeded quota: few, ' +
            'requested: pods=1,requests.memory=768Mi, used: pods=1,requests.memory=512Mi, ' +
            'limited: pods=1,requests.memory=1Gi');
        const unsized = await ask('POST', pods, manifest('three'));
        assert.match(unsized.body.message,
            /failed quota: few: must specify requests.memory for: main/);
        await ask('DELETE', `${pods}/one`);
        assert.equal((await ask('POST', pods, sized('two', '768Mi'))).code, 201);
        const { body } = await ask('GET', '/api/v1/namespaces/small/resourcequotas/few');
        assert.deepEqual(body.status.used, { pods: '1', 'requests.memory': '768Mi' });
    });

    test('paths and methods that are not: 404 and 405', async () => {
        isStatus(await ask('GET', '/api/v1/namespaces/default/widgets'), 404, 'NotFound');
        isStatus(await ask('GET', '/apis/none/v1'), 404, 'NotFound');
        isStatus(await ask('POST', `${PODS}/a`, {}), 405, 'MethodNotAllowed');
        isStatus(await ask('PUT', PODS, {}), 405, 'MethodNotAllowed');
    });
});

describe('forms', () => {
    async function binary(body) {
        const res = await fetch(`${double.url}/api/v1/namespaces`, { method: 'POST', body,
            headers: { authorization: 'Bearer admin-token',
                'content-type': 'application/vnd.kubernetes.protobuf' } });
        return { code: res.status, body: await res.json() };
    }
    const field = (number, bytes) => Buffer.concat([Buffer.from([(number << 3) | 2,
        bytes.length]), Buffer.from(bytes)]);
    const envelope = (kind, raw) => Buffer.concat([Buffer.from('k8s\0', 'latin1'),
        field(1, Buffer.concat([field(1, 'v1'), field(2, kind)])), field(2, raw)]);

    test('a body in the binary form', async () => {
        const metadata = Buffer.concat([field(1, 'binary'), field(11, Buffer.concat([
            field(1, 'a'), field(2, 'b')]))]);
        const answer = await binary(envelope('Namespace', field(1, metadata)));
        assert.equal(answer.code, 201);
        assert.equal(answer.body.metadata.name, 'binary');
        assert.equal(answer.body.metadata.labels.a, 'b');
        isStatus(await binary(envelope('Pod', field(1, metadata))), 415, 'UnsupportedMediaType');
        for (const bytes of [Buffer.from('no'), envelope('Namespace', Buffer.from([10, 99])),
            envelope('Namespace', Buffer.from([15])), envelope('Namespace', Buffer.from([255]))])
            isStatus(await binary(bytes), 400, 'BadRequest');
    });

    test('quantities are written as the API writes them', () => {
        const wanted = { '0.5': '500m', '1024Mi': '1Gi', '1000m': '1', '1.5Gi': '1536Mi',
            '100Ki': '100Ki', 1500: '1500', '2000': '2k', '1e3': '1e3', '.5': '500m', 0: '0',
            '0.0000000001': '1n', '-1': '-1', '12e6': '12e6', '1Zi': null, '1 Gi': null, '': null,
            '1e': null };
        for (const [given, text] of Object.entries(wanted))
            assert.equal(quantity.canonical(given), text, given);
        assert.equal(quantity.sum('500m', '1'), '1500m');
        assert.equal(quantity.sum('512Mi', '512Mi'), '1Gi');
    });

    test('a table has columns and rows', async () => {
        const { name } = (await made()).metadata;
        const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
        const { body } = await ask('GET', `${PODS}?fieldSelector=metadata.name%3D${name}`,
            undefined, { accept });
        assert.equal(body.kind, 'Table');
        assert.equal(body.columnDefinitions[2].name, 'Status');
        assert.deepEqual(body.rows[0].cells.slice(0, 4), [name, '0/1', 'Pending', '0']);
        assert.equal(body.rows[0].object.kind, 'PartialObjectMetadata');
    });

    test('events are the same ones in both groups', async () => {
        const { name } = (await made()).metadata;
        await double.phase('default', name, 'unschedulable', { message: 'no room' });
        const selector = `fieldSelector=involvedObject.name%3D${name}`;
        const core = await ask('GET', `/api/v1/namespaces/default/events?${selector}`);
        assert.deepEqual(core.body.items.map((one) => [one.reason, one.message]),
            [['FailedScheduling', 'no room']]);
        const group = await ask('GET', '/apis/events.k8s.io/v1/namespaces/default/events?' +
            selector.replace('involvedObject', 'regarding'));
        assert.deepEqual([group.body.items[0].note, group.body.items[0].regarding.name],
            ['no room', name]);
    });

    test('discovery in both forms tells the same', async () => {
        const plain = (await ask('GET', '/api/v1')).body.resources.filter((one) =>
            !one.name.includes('/')).map((one) => one.name);
        const whole = (await ask('GET', '/api', undefined, { accept: 'application/json;' +
            'g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json' })).body;
        assert.equal(whole.kind, 'APIGroupDiscoveryList');
        assert.deepEqual(whole.items[0].versions[0].resources.map((one) => one.resource), plain);
        const { paths } = (await ask('GET', '/openapi/v3')).body;
        const { components } = (await ask('GET', paths['api/v1'].serverRelativeURL)).body;
        assert.ok(components.schemas['io.k8s.api.core.v1.PodSpec'].properties.containers);
    });
});
