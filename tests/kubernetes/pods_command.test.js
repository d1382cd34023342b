// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax pods`: what a cluster shows of the pods of executors.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, environment, until } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');
const { startDouble } = require('./double');

const LABEL = 'tenax.dev/job';

// env: over that of this process, without which nothing of a user's own is read.
function pods(args, { code = 0, env = {} } = {}) {
    const own = { ...environment({}), KUBECONFIG: '', KUBERNETES_SERVICE_HOST: '', ...env };
    return new Promise((resolve, reject) => {
        execFile(BIN, ['pods', ...args], { env: own }, (err, stdout, stderr) => {
            const found = err ? err.code : 0;
            if (found === code)
                resolve({ stdout, stderr });
            else
                reject(new Error(`code ${found}: ${stderr}`));
        });
    });
}

async function list(args, options) {
    return JSON.parse((await pods([...args, '--output', 'json'], options)).stdout);
}

describe('tenax pods', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });
    const here = () => ['--kubeconfig', bed.kubeconfig, '--namespace', bed.namespace];

    it('shows_each_pod_as_its_executor_sees_it', async () => {
        const steps = {
            waiting: ['unschedulable', 'pause'],
            initializing: ['scheduled', 'creating', 'pause'],
            running: ['running', 'pause'],
            succeeded: ['running', 'succeeded'],
            failed: ['running', { do: 'exited', code: 3 }],
        };
        const ids = {};
        for (const [phase, script] of Object.entries(steps))
            ids[phase] = (await bed.enqueue(executor, pod(script), { retry_limit: 0 })).id;
        let found;
        await until(async () => {
            found = Object.fromEntries((await list(here())).map((p) => [p.job, p]));
            return Object.entries(ids).every(([phase, id]) => found[id]?.phase === phase);
        }, 'each is as it should be');
        for (const [phase, id] of Object.entries(ids)) {
            const one = found[id];
            const real = await bed.podOf(id);
            assert.deepEqual([one.run, one.pod, one.namespace, one.queue, one.node, one.executor],
                [0, `tenax-${id}-0`, bed.namespace, executor.queue, real.spec.nodeName || null,
                    real.metadata.labels['tenax.dev/executor']]);
            assert.equal(one.created_at, Date.parse(real.metadata.creationTimestamp), phase);
        }
        assert.match(found[ids.waiting].reason, /nodes|schedul/i);
        assert.equal(found[ids.running].reason, null);
        assert.equal(found[ids.failed].reason, 'main: exit code 3');
        const { stdout } = await pods(here());
        const [head, ...rows] = stdout.trimEnd().split('\n');
        assert.deepEqual(head.split(/ +/), ['JOB', 'RUN', 'POD', 'NAMESPACE', 'PHASE', 'NODE', 'AGE',
            'REASON']);
        assert.equal(rows.length, Object.keys(ids).length);
        const row = rows.find((line) => line.startsWith(ids.failed));
        assert.match(row, new RegExp(`^${ids.failed} +0 +tenax-${ids.failed}-0 +${bed.namespace} ` +
            '+failed +\\S+ +.* +main: exit code 3$'));
    });

    it('only_of_a_queue_or_of_an_executor', async () => {
        const other = bed.executor({ args: ['--name', 'the-other'] }).start();
        const { id } = await bed.enqueue(other, pod(['running', 'pause']));
        await bed.pod(id);
        assert.deepEqual((await list([...here(), '--queue', other.queue])).map((p) => p.job), [id]);
        assert.deepEqual((await list([...here(), '--executor', 'the-other'])).map((p) => p.job), [id]);
        assert.deepEqual(await list([...here(), '--executor', 'nobody']), []);
        assert.deepEqual(await list([...here(), '--queue', 'none']), []);
        await pods([...here(), '--executor', 'a,b=c'], { code: 2 });
    });

    it('finds_the_cluster_by_the_environment_or_as_kubectl_does', async () => {
        const jobs = (rows) => rows.map((p) => p.job).sort();
        const want = jobs(await list(here()));
        const mine = (rows) => jobs(rows.filter((p) => p.namespace === bed.namespace));
        assert.deepEqual(mine(await list([], { env: { KUBECONFIG: bed.kubeconfig } })), want);
        const home = path.join(executor.dir, 'home');
        fs.mkdirSync(path.join(home, '.kube'), { recursive: true });
        fs.copyFileSync(bed.kubeconfig, path.join(home, '.kube', 'config'));
        assert.deepEqual(mine(await list([], { env: { HOME: home } })), want);
        const none = await pods([], { code: 2, env: { HOME: '/nonexistent' } });
        assert.match(none.stderr, /which cluster\? give --kubeconfig .*not a pod/);
    });
});

describe('tenax pods where much or little is to be seen', { skip: onlyDouble }, () => {
    let double;
    const labels = (job, executor = 'x') => ({ [LABEL]: job, 'tenax.dev/run': '2',
        'tenax.dev/executor': executor });
    const manifest = (name, job, fields = {}) => ({ apiVersion: 'v1', kind: 'Pod',
        metadata: { name, labels: labels(job) }, ...fields,
        spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'i' }], ...fields.spec } });
    before(async () => {
        double = await startDouble({ script: ['pause'], namespaces: ['a', 'b'], users: [
            { name: 'of-a', token: 'a', rules: [{ verbs: ['list'], resources: ['pods'],
                namespaces: ['a'] }] },
            { name: 'nobody', token: 'nothing', rules: [] }] });
        for (let i = 0; i < 1100; i++)
            await double.request('POST', '/api/v1/namespaces/a/pods', manifest(`p${i}`, `job${i}`));
        await double.request('POST', '/api/v1/namespaces/b/pods', manifest('q', 'other'));
        const foreign = manifest('not-ours', 'x');
        delete foreign.metadata.labels;
        await double.request('POST', '/api/v1/namespaces/b/pods', foreign);
    });
    after(() => double.stop());

    it('reads_page_after_page_of_all_namespaces', async () => {
        const all = await list(['--kubeconfig', double.kubeconfig()]);
        assert.equal(all.length, 1101);
        assert.equal(new Set(all.map((p) => p.pod)).size, 1101);
        assert.deepEqual(all.find((p) => p.pod === 'q'), { job: 'other', run: 2, pod: 'q',
            namespace: 'b', executor: 'x', queue: null, type: null, phase: 'waiting', node: null,
            created_at: all.find((p) => p.pod === 'q').created_at, reason: null });
    });

    it('begins_again_when_the_server_has_forgotten_the_list', async () => {
        double.fault({ match: { verb: 'list', resource: 'pods', path: /continue=/ }, times: 1,
            status: 410 });
        const all = await list(['--kubeconfig', double.kubeconfig(), '--namespace', 'a',
            '--allow-namespace', 'b']);
        double.clearFaults();
        assert.equal(all.length, 1101);
    });

    it('shows_one_namespace_where_all_of_them_are_not_allowed_and_says_so', async () => {
        const ran = await pods(['--kubeconfig', double.kubeconfig({ user: 'of-a', namespace: 'a' }),
            '--output', 'json']);
        assert.equal(JSON.parse(ran.stdout).length, 1100);
        assert.match(ran.stderr, /pods of all namespaces may not be listed; these are of a\n/);
    });

    it('says_what_is_forbidden', async () => {
        const ran = await pods(['--kubeconfig', double.kubeconfig({ user: 'nobody' })], { code: 1 });
        assert.match(ran.stderr, /forbids to ask: .*"nobody" cannot list/);
        assert.equal(ran.stdout, '');
    });

    it('shows_no_secret', async () => {
        const secret = 'hunter2-hunter2';
        await double.request('POST', '/api/v1/namespaces/b/pods', manifest('leaky', 'leaky', { spec: {
            containers: [{ name: 'main', image: 'i', env: [{ name: 'A_TOKEN', value: secret }] }] } }));
        await double.phase('b', 'leaky', 'unschedulable', { message: `\x1b[31mno ${secret}` });
        const { stdout } = await pods(['--kubeconfig', double.kubeconfig(), '--namespace', 'b']);
        assert.match(stdout, /leaky .* waiting .*no \*\*\*\n/);
        assert.ok(!stdout.includes('\x1b') && !stdout.includes(secret), stdout);
    });
});
