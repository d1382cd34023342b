// SPDX-License-Identifier: Apache-2.0
'use strict';

// What is refused to the executor and not to a job: it takes nothing, gives back what it has, says why,
// and goes on when it may. And what another executor has left behind.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { queueName, until } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');

const QUICK = ['running', 'succeeded'];

function refusal(code, reason, message, details = {}) {
    return { code, type: 'application/json', text: JSON.stringify({ kind: 'Status', apiVersion: 'v1',
        metadata: {}, status: 'Failure', code, reason, message, details }) };
}

// bed: its name of the namespace.
const denials = {
    a_missing_right: (ns) => [refusal(403, 'Forbidden', 'pods is forbidden: User "executor" cannot create resource ' +
        `"pods" in API group "" in the namespace "${ns}"`, { kind: 'pods' }), /cannot create resource/],
    a_role_that_is_not_read_yet: (ns) => [refusal(403, 'Forbidden', 'pods is forbidden: User "executor" cannot create ' +
        `resource "pods" in API group "" in the namespace "${ns}": RBAC: clusterrole.rbac.authorization.k8s.io ` +
        '"edit" not found', { kind: 'pods' }), /cannot create resource/],
    the_page_of_a_proxy: () => [{ code: 403, type: 'text/html', text: '<html><h1>403 Forbidden</h1></html>' }, /HTTP 403/],
    its_own_namespace_that_is_missing: (ns) => [refusal(404, 'NotFound', `namespaces "${ns}" not found`,
        { kind: 'namespaces', name: ns }), /not found/],
    its_own_namespace_that_is_being_deleted: (ns) => [refusal(403, 'Forbidden', `pods "x" is forbidden: unable to create ` +
        `new content in namespace ${ns} because it is being terminated`, { kind: 'pods', name: 'x' }), /being terminated/],
    a_namespace_without_its_service_account: (ns) => [refusal(403, 'Forbidden', 'pods "x" is forbidden: error looking up ' +
        `service account ${ns}/default: serviceaccount "default" not found`, { kind: 'pods', name: 'x' }), /service account/],
    credentials_that_are_refused: () => [refusal(401, 'Unauthorized', 'Unauthorized'), /Unauthorized/],
};

describe('an executor that may not create pods', { skip: onlyDouble }, () => {
    const bed = useBed();

    for (const [what, make] of Object.entries(denials))
        it(`for_${what}_charges_no_job_says_so_and_goes_on_by_itself`, async () => {
            const [raw, words] = make(bed.namespace);
            bed.double.faults.add({ match: { verb: 'create', resource: 'pods' }, raw });
            const executor = bed.executor({ args: ['--metrics-port', '0'] });
            const jobs = [];
            for (let i = 0; i < 5; i++)
                jobs.push((await bed.enqueue(executor, pod(QUICK), { retry_limit: 0 })).id);
            executor.start();
            await executor.says(/metrics on (http:\S+)\/metrics/);
            const url = /metrics on (http:\S+)\/metrics/.exec(executor.stderr)[1];
            const health = async () => (await fetch(`${url}/health`)).json();
            await until(async () => (await health()).status === 'suspended', 'it is suspended');
            assert.match((await health()).reason, words);
            assert.equal((await health()).can_create, false);
            assert.equal((await fetch(`${url}/health`)).status, 503);
            assert.equal((await fetch(`${url}/livez`)).status, 200);
            assert.match(await (await fetch(`${url}/metrics`)).text(), /^tenax_executor_suspended 1$/m);
            await executor.says(/may not create pods in namespace/);
            for (const id of jobs)
                await until(async () => /scheduled|ready/.test((await bed.server.job(id)).status), 'it was given back');
            const told = await Promise.all(jobs.map(async (id) => (await bed.server.runs(id))[0]?.reason || ''));
            assert.ok(told.some((reason) => words.test(reason) && reason.includes('may not create pods')), told.join('\n'));
            // Whoever is suspended asks for nothing: none of them is taken again.
            const before = (await Promise.all(jobs.map((id) => bed.server.runs(id)))).flat().length;
            assert.ok(before <= 2 * jobs.length, `${before} runs`);
            bed.double.faults.clear();
            for (const id of jobs)
                assert.equal((await bed.status(id, 'completed')).attempts, 0);
            await until(async () => (await health()).status === 'ok', 'it is well');
            assert.equal((await health()).reason, undefined);
            assert.equal((await health()).can_create, true);
            await executor.stop();
        });

    it('is_told_so_before_a_job_has_to_find_out', async () => {
        bed.double.faults.add({ match: { verb: 'create', resource: 'selfsubjectaccessreviews' }, raw: { code: 201,
            type: 'application/json', text: JSON.stringify({ kind: 'SelfSubjectAccessReview',
                apiVersion: 'authorization.k8s.io/v1', metadata: {}, spec: {}, status: { allowed: false } }) } });
        bed.double.faults.add({ match: { verb: 'create', resource: 'pods' }, raw: denials.a_missing_right(bed.namespace)[0] });
        const executor = bed.executor().start();
        await executor.says(/may not create pods in namespace/);
        const { id } = await bed.enqueue(executor, pod(QUICK), { retry_limit: 0 });
        await until(async () => JSON.stringify(await bed.server.get(`/jobs/${id}/explain`)).includes('grant it'),
            'the explanation names what grants it');
        // A claim that was under way may have got it; it went back as it was.
        for (const run of await bed.server.runs(id))
            assert.equal(run.outcome, 'returned');
        bed.double.faults.clear();
        assert.equal((await bed.status(id, 'completed')).attempts, 0);
        await executor.stop();
    });

    it('what_admission_does_not_like_of_a_pod_stays_the_fault_of_the_pod', async () => {
        bed.double.faults.add({ match: { verb: 'create', resource: 'pods' }, raw: refusal(403, 'Forbidden',
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged', { kind: 'pods', name: 'x' }) });
        const executor = bed.executor().start();
        const { id } = await bed.enqueue(executor, pod(QUICK), { retry_limit: 0 });
        const job = await bed.status(id, 'dead');
        assert.match((await bed.run(id)).message, /violates PodSecurity/);
        assert.equal(job.resolution, 'failed');
        bed.double.faults.clear();
        await executor.stop();
    });
});

describe('a cluster that fails to create pods', { skip: onlyDouble }, () => {
    const bed = useBed();
    const status = (code, reason, message) => refusal(code, reason, message);
    const failing = {
        a_webhook_is_away: status(500, 'InternalError', 'Internal error occurred: failed calling webhook "v.example.org": ' +
            'no endpoints available for service "validator"'),
        it_is_asked_too_often: status(429, 'TooManyRequests', 'the server has received too many requests'),
        it_is_unavailable: status(503, 'ServiceUnavailable', 'apiserver is shutting down'),
        a_quota_is_always_in_conflict: status(409, 'Conflict', 'Operation cannot be fulfilled on resourcequotas "compute"'),
        its_admission_is_not_ready: status(403, 'Forbidden', 'pods "x" is forbidden: not yet ready to handle request'),
    };

    for (const [what, raw] of Object.entries(failing))
        it(`because_${what}_gives_back_its_jobs_uncharged_and_says_so`, async () => {
            const words = JSON.parse(raw.text).message.slice(-20);
            bed.double.faults.add({ match: { verb: 'create', resource: 'pods' }, raw });
            const executor = bed.executor({ args: ['--metrics-port', '0'] });
            const ids = [];
            for (let i = 0; i < 3; i++)
                ids.push((await bed.enqueue(executor, pod(QUICK), { retry_limit: 0 })).id);
            executor.start();
            await executor.says(/metrics on (http:\S+)\/metrics/);
            const url = /metrics on (http:\S+)\/metrics/.exec(executor.stderr)[1];
            for (const id of ids)
                await until(async () => (await bed.server.runs(id))[0]?.outcome === 'returned', 'it was given back');
            assert.match((await bed.run(ids[0])).reason, /failed to create pod .* 4 times/);
            await until(async () => (await (await fetch(`${url}/health`)).json()).status === 'suspended', 'it takes no more');
            await until(async () => JSON.stringify(await bed.server.get(`/jobs/${ids[0]}/explain`)).includes(
                JSON.stringify(words).slice(1, -1)), 'the explanation has the words');
            assert.match(await (await fetch(`${url}/metrics`)).text(), /^tenax_executor_pods_faulted_total [1-9]/m);
            bed.double.faults.clear();
            for (const id of ids)
                assert.equal((await bed.status(id, 'completed')).attempts, 0);
            await executor.stop();
        });

    const never = {
        etcd_never_takes: status(500, '', 'etcdserver: request is too large'),
        is_too_large: { code: 413, type: 'text/html', text: '<html>413 Request Entity Too Large</html>' },
        no_quota_could_ever_have: status(403, 'Forbidden', 'pods "x" is forbidden: exceeded quota: compute, ' +
            'requested: requests.memory=64Gi, used: requests.memory=0, limited: requests.memory=10Gi'),
        a_webhook_denies: status(403, 'Forbidden', 'admission webhook "v.example.org" denied the request: too large'),
    };
    for (const [what, raw] of Object.entries(never))
        it(`a_pod_that_${what}_is_final_with_the_words`, async () => {
            bed.double.faults.add({ match: { verb: 'create', resource: 'pods' }, raw });
            const executor = bed.executor().start();
            const { id } = await bed.enqueue(executor, pod(QUICK), { retry_limit: 5 });
            const job = await bed.status(id, 'dead');
            assert.equal(job.resolution, 'failed');
            const run = await bed.run(id);
            assert.match(run.message, /too large|413|64Gi/i);
            assert.equal(run.culprit, 'input');
            bed.double.faults.clear();
            await executor.stop();
        });
});

describe('an executor that is gone for good', { skip: onlyDouble }, () => {
    const bed = useBed();

    it('leaves_an_ended_pod_that_blocks_its_job_no_longer', async () => {
        const queue = queueName();
        const first = bed.executor({ queue, args: ['--lease', '2s'] }).start();
        const { id } = await bed.enqueue(first, pod(['running', 'pause']), { retry_limit: 2 });
        const left = await bed.pod(id, 0, 'Running');
        await first.kill();
        await bed.phase(left, 'succeeded');
        const second = bed.executor({ queue, args: ['--lease', '2s'] }).start();
        const made = await bed.pod(id, 1, 'Running');
        assert.notEqual(made.metadata.uid, left.metadata.uid);
        await bed.phase(made, 'succeeded');
        await bed.status(id, 'completed');
        await second.stop();
    });
});
