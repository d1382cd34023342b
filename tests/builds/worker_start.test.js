// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker`, the main queue: each box of seed 000's first diagram, and what the messages
// of Screwdriver's queue service may look like.

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { after, test } = require('node:test');
const { Client, killAll } = require('./broker_harness.js');
const { until, useBed } = require('./harness.js');

const bed = useBed();
after(killAll);
const RUNS = [{ do: 'running', after: 100 }];

test('a start becomes a pod, is verified later, and reported as running', () => bed.with({}, async (site) => {
    const worker = site.worker();
    await worker.well();
    const build = site.build(RUNS);
    await site.start(build);
    const pod = await site.podThere(build);
    assert.match(pod.metadata.name, new RegExp(`^${build.id}-[a-z0-9]{5}$`));
    assert.equal(pod.metadata.labels.app, 'screwdriver');
    assert.equal(pod.metadata.labels.tier, 'builds');
    await site.runs(build);
    assert.equal(build.stats.hostname, pod.spec.nodeName || site.pods(build)[0].spec.nodeName);
    assert.match(build.stats.imagePullStartTime, /^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/);
    assert.equal(build.status, 'QUEUED');
    assert.ok(build.updates.every((update) => update.token === build.token && update.code === 200));
    await site.empty();
    assert.equal(site.pods(build).length, 1);
}));

test('the message is acknowledged before the build runs', () => bed.with({ VERIFY_DELAY: '1h' }, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'unschedulable' }]);
    await site.start(build);
    await site.podThere(build);
    await until('it waits to be verified', async () => {
        const counts = await site.counts();
        return counts[site.queue] === 0 && counts[`${site.retry}-wait`] === 1;
    });
    assert.equal(await worker.metric('messages_unsettled'), 0);
}));

test('a prefix stands before ids, in names and labels', () => bed.with({ EXECUTOR_PREFIX: 'beta' },
    async (site) => {
        site.worker();
        const build = site.build(RUNS);
        await site.start(build);
        const pod = await site.podThere(build);
        assert.match(pod.metadata.name, new RegExp(`^beta${build.id}-`));
        assert.equal(pod.metadata.labels.sdbuild, `beta${build.id}`);
        await site.runs(build);
        await site.empty();
    }));

test('without the retry queue nothing is verified', () => bed.with({ RABBITMQ_RETRYQUEUE_ENABLED: 'false' },
    async (site) => {
        site.worker();
        const build = site.build(RUNS);
        await site.start(build);
        await site.podThere(build);
        await site.empty();
    }));

test('the same start twice makes one pod', () => bed.with({}, async (site) => {
    site.worker();
    const build = site.build(RUNS);
    await site.start(build);
    await site.start(build);
    await site.runs(build);
    await site.empty();
    assert.equal(site.pods(build).length, 1);
    assert.deepEqual(build.finals, []);
}));

test('a start whose pod Screwdriver\'s own worker has made, under a name by chance', () => bed.with({},
    async (site) => {
        const build = site.build(RUNS);
        const other = new Client(bed.broker.port, [site.queue]);
        await site.start(build);
        await other.saw('delivered 1 ');
        await bed.createPod({ metadata: { name: `${build.id}-x7k2q`, labels: { sdbuild: `${build.id}` } },
            spec: { containers: [{ name: 'build', image: 'node:20' }] } });
        await other.kill(); // before it has acknowledged anything
        site.worker();
        await site.runs(build);
        await site.empty();
        assert.deepEqual(site.pods(build).map((pod) => pod.metadata.name), [`${build.id}-x7k2q`]);
    }));

test('a message that comes again makes a pod if there is none, or only one that is being deleted', () =>
    bed.with({ RABBITMQ_MSG_REPROCESS_LIMIT: '1000' }, async (site) => {
        const build = site.build(RUNS);
        const other = new Client(bed.broker.port, [site.queue]);
        await site.start(build);
        await other.saw('delivered 1 ');
        await bed.createPod({ metadata: { name: `${build.id}-x7k2q`, labels: { sdbuild: `${build.id}` },
            finalizers: ['tests.example/hold'] }, spec: { containers: [{ name: 'build', image: 'node:20' }] } });
        await bed.deletePod(`${build.id}-x7k2q`);
        await other.kill();
        site.worker();
        await until('a second one is there', () => site.pods(build).length === 2);
        await site.runs(build);
        await site.empty();
    }));

for (const [what, fault] of [
    ['an error of the API', { status: 500 }],
    ['an API that is not available', { status: 503, retryAfter: 1 }],
    ['a connection that breaks before', { drop: true }],
    ['a connection that breaks after the pod was made', { lost: true }],
    ['an answer that breaks off', { half: true }],
    ['an API that does not answer', { hang: true }],
])
    test(`${what}: the message comes again, and there is one pod`, () => bed.with({ CIRCUIT_TIMEOUT: '1500',
        RABBITMQ_MSG_REPROCESS_LIMIT: '1000' }, async (site) => {
        const worker = site.worker();
        const build = site.build(RUNS);
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 2, ...fault });
        await site.start(build);
        await site.runs(build);
        await site.empty();
        assert.equal(site.pods(build).length, 1);
        assert.deepEqual(build.finals, []);
        assert.ok(await worker.metric('retries_total') >= 1);
    }));

for (const [limit, env] of [[3, {}], [5, { RABBITMQ_MSG_REPROCESS_LIMIT: '5' }],
    [0, { RABBITMQ_MSG_REPROCESS_LIMIT: '0' }]])
    test(`after ${limit} more tries the build fails with the reason`, () => bed.with(env, async (site) => {
        site.worker();
        const build = site.build(RUNS);
        bed.double.requests({ clear: true });
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, status: 500, message: 'etcd is slow' });
        await site.start(build);
        await site.fails(build, /Failed to create pod.*500.*etcd is slow/);
        await site.empty();
        assert.equal(bed.double.requests()['create pods 500'], limit + 1);
        assert.equal(site.pods(build).length, 0);
        assert.equal(build.updates.length, 1);
    }));

for (const status of [403, 404])
    test(`${status} of the API is final at once`, () => bed.with({}, async (site) => {
        site.worker();
        const build = site.build(RUNS);
        bed.double.requests({ clear: true });
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, status, message: 'exceeded quota' });
        await site.start(build);
        await site.fails(build, new RegExp(`Failed to create pod.*${status}.*exceeded quota`));
        await site.empty();
        assert.equal(bed.double.requests()[`create pods ${status}`], 1);
    }));

test('an answer of what stands before the API: its status is said once', () => bed.with(
    { RABBITMQ_MSG_REPROCESS_LIMIT: '0' }, async (site) => {
        site.worker();
        const build = site.build(RUNS);
        bed.double.fault({ match: { verb: 'create', resource: 'pods' },
            raw: { code: 502, type: 'text/plain', text: 'upstream is away' } });
        await site.start(build);
        await site.fails(build, /^Failed to create pod: HTTP 502: upstream is away$/);
        await site.empty();
    }));

test('a buildConfig that makes no pod fails the build, and names the member', () => bed.with({}, async (site) => {
    site.worker();
    const build = site.build();
    await site.start(build, { container: 7 });
    await site.fails(build, /container/);
    await site.empty();
}));

test('a stop deletes the pods of its build alone', () => bed.with({ VERIFY_DELAY: '1h' }, async (site) => {
    site.worker();
    const [build, other] = [site.build([{ do: 'running' }]), site.build([{ do: 'running' }])];
    await site.start(build);
    await site.start(other);
    await site.podThere(build);
    await site.podThere(other);
    await site.stop(build);
    await site.podGone(build);
    assert.equal(site.pods(other).length, 1);
    assert.deepEqual(build.finals, []);
    await until('the stop is acknowledged', async () => (await site.counts())[site.queue] === 0);
}));

test('a stop with the whole buildConfig, as while the queue service has it, is one', () => bed.with({},
    async (site) => {
        site.worker();
        const build = site.build([{ do: 'running' }]);
        await site.start(build);
        await site.runs(build);
        await site.publish({ job: 'stop', buildConfig: site.config(build) });
        await site.podGone(build);
        await site.empty();
        assert.deepEqual(build.finals, []);
    }));

test('a stop of a build without pods is acknowledged', () => bed.with({}, async (site) => {
    site.worker();
    await site.stop(site.build());
    await site.empty();
}));

test('a stop that the API refuses is tried again, and given up at last', () => bed.with({}, async (site) => {
    const worker = site.worker();
    const build = site.build([{ do: 'running' }]);
    await site.start(build);
    await site.runs(build);
    bed.double.fault({ match: { resource: 'pods' }, times: 2, status: 500 });
    await site.stop(build);
    await site.podGone(build);
    const another = site.build([{ do: 'running' }]);
    await site.start(another);
    await site.runs(another);
    bed.double.fault({ match: { resource: 'pods' }, status: 500 });
    await site.stop(another);
    await worker.says(/could not be stopped/);
    await site.empty();
    assert.deepEqual(another.finals, []);
}));

test('a stop before its start is verified: nothing is left, and no status is final', () => bed.with(
    { SCHEDULING_TIMEOUT: '1h', VERIFY_LIMIT: '1000' },
    async (site) => {
        site.worker();
        const build = site.build([{ do: 'unschedulable' }]);
        await site.start(build);
        await site.stop(build);
        await site.empty();
        assert.equal(site.pods(build).length, 0);
        assert.deepEqual(build.finals, []);
    }));

for (const [what, env] of [
    ['K8S_CA_FILE', {}],
    ['SSL_CERT_FILE', { K8S_CA_FILE: '', SSL_CERT_FILE: 'ca.pem' }],
    ['nothing, if that is asked for', { K8S_CA_FILE: '', K8S_INSECURE: 'true' }],
])
    test(`the cluster's certificate is verified by ${what}`, () => bed.with(env, async (site) => {
        site.worker();
        const build = site.build(RUNS);
        await site.start(build);
        await site.runs(build);
        await site.empty();
    }));

// Where every pod has them, in a namespace of mounts of the worker's own.
test('in a pod, token and authority are those of its service account', () => bed.with(
    { K8S_CA_FILE: '', K8S_TOKEN: '' }, async (site) => {
        const folder = '/run/secrets/kubernetes.io/serviceaccount';
        fs.writeFileSync(path.join(site.folder, 'token'), 'admin-token\n');
        const script = `mount -t tmpfs none /run && mkdir -p ${folder} && ` +
            `cp ${site.folder}/token ${folder} && cp ${site.folder}/ca.pem ${folder}/ca.crt && exec "$@"`;
        const user = process.getuid() === 0 ? [] : ['--map-root-user'];
        site.worker({ wrap: ['unshare', ...user, '--mount', 'sh', '-c', script, 'sh'] });
        const build = site.build(RUNS);
        await site.start(build);
        await site.runs(build);
        await site.empty();
    }));

test('a cluster whose certificate nobody vouches for is not talked to', () => bed.with(
    { K8S_CA_FILE: '', RABBITMQ_MSG_REPROCESS_LIMIT: '0' }, async (site) => {
        site.worker();
        const build = site.build(RUNS);
        bed.double.requests({ clear: true });
        await site.start(build);
        await site.fails(build, /certificate/i);
        await site.empty();
        assert.deepEqual(bed.double.requests(), {});
    }));

test('what nobody can work on is logged by its digest, counted, and acknowledged', () => bed.with({},
    async (site) => {
        const worker = site.worker();
        const bad = ['not JSON', '{"job":"dance"}', '{"job":"start"}', '[]', 'null',
            '{"job":"start","buildConfig":{}}', '{"job":"stop","buildConfig":[]}',
            '{"job":"start","buildConfig":{"buildId":"../x y","token":"sesame-of-screwdriver"}}'];
        for (const text of bad)
            await site.publish(text);
        await site.empty();
        assert.equal(await worker.metric('malformed_total'), bad.length);
        for (const text of bad)
            assert.ok(worker.log.includes(createHash('sha256').update(text).digest('hex').slice(0, 16)), text);
        const build = site.build(RUNS);
        await site.start(build);
        await site.runs(build);
    }));
