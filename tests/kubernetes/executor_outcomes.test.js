// SPDX-License-Identifier: Apache-2.0
'use strict';

// What an executor makes of the API server's answers to the creation of a pod: one pod, and a
// verdict of the server that names what was wrong.

const assert = require('node:assert/strict');
const { afterEach, before, describe, it } = require('node:test');
const { until } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');

const QUICK = ['running', 'succeeded'];

describe('the creation of a pod', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });
    afterEach(() => bed.double?.clearFaults());

    // The job completes at its first attempt, with one pod.
    async function completes(id) {
        const job = await bed.status(id, 'completed');
        assert.equal(job.attempts, 0);
        const runs = await bed.server.runs(id);
        assert.equal(runs.length, 1);
        assert.equal((await bed.podsOf(id)).length, 1);
    }

    for (const [what, fault] of [
        ['too many requests', { status: 429, retryAfter: 1 }],
        ['an error of the server', { status: 500 }],
        ['a server that is unavailable', { status: 503 }],
        ['a connection that closes before anything is done', { drop: true }],
        ['an answer that is lost', { lost: true }],
        ['an answer that breaks off', { half: true }],
        // It is not about the pod, but about what stands between.
        ['the page of a proxy', { raw: { code: 200, type: 'text/html', text: '<p>Hello</p>' } }],
    ])
        it(`is_tried_again_after_${what.replaceAll(' ', '_')}`, { skip: onlyDouble }, async () => {
            bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 2, ...fault });
            const { id } = await bed.enqueue(executor, pod(QUICK));
            await completes(id);
        });

    it('that_was_done_is_known_also_by_a_conflict_without_a_reason', { skip: onlyDouble }, async () => {
        const match = { verb: 'create', resource: 'pods' };
        bed.double.fault({ match, times: 1, lost: true });
        bed.double.fault({ match, raw: { code: 409, type: 'text/plain', text: 'it is there' } });
        const { id } = await bed.enqueue(executor, pod(QUICK));
        await completes(id);
    });

    // Dead at the first attempt, although it has retries.
    async function dies(payload, reason) {
        const { id } = await bed.enqueue(executor, payload);
        const job = await bed.status(id, 'dead');
        const runs = await bed.server.runs(id);
        assert.equal(runs.length, 1);
        assert.match(runs[0].message, reason);
        return { id, job, run: runs[0] };
    }

    it('of_an_invalid_pod_is_final_and_names_the_container', async () => {
        const payload = pod(QUICK);
        payload.podSpec.containers[0].name = 'Not_A_Name';
        await dies(payload, /containers\[0\]\.name.* \(container 'Not_A_Name'\)$/);
    });

    it('of_an_invalid_pod_names_what_only_the_causes_name', { skip: onlyDouble }, async () => {
        const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Invalid', code: 422,
            message: 'Pod is invalid', details: { kind: 'Pod', causes: [{ reason: 'FieldValueRequired',
                message: 'Required value', field: 'spec.containers[0].image' }] } };
        bed.double.fault({ match: { verb: 'create', resource: 'pods' },
            raw: { code: 422, type: 'application/json', text: JSON.stringify(status) } });
        await dies(pod(QUICK), /: Pod is invalid; spec\.containers\[0\]\.image: Required value \(container 'main'\)$/);
    });

    it('in_an_unknown_namespace_is_final_and_names_it', async () => {
        const other = bed.executor({ args: ['--allow-namespace', 'nowhere'] }).start();
        const { id } = await bed.enqueue(other, pod(QUICK, { namespace: 'nowhere' }));
        await bed.status(id, 'dead');
        const [run] = await bed.server.runs(id);
        assert.match(run.message, /nowhere/);
        await other.says(/namespace nowhere does not exist/);
        await other.stop();
    });

    it('in_a_namespace_that_is_not_allowed_is_never_asked_for', async () => {
        const { id, run } = await dies(pod(QUICK, { namespace: 'kube-system' }), /kube-system/);
        assert.equal(run.outcome, 'malformed-payload');
        const there = await bed.cluster.request('GET',
            `/api/v1/namespaces/kube-system/pods?labelSelector=tenax.dev%2Fjob%3D${id}`);
        assert.equal(there.items.length, 0);
    });

    it('of_a_payload_without_a_pod_is_final', async () => {
        await dies({ nothing: true }, /podSpec/);
        await dies('text', /./);
    });

    it('that_admission_forbids_is_final_and_says_why', { skip: onlyDouble }, async () => {
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, status: 403,
            message: 'pods "x" is forbidden: no entry' });
        await dies(pod(QUICK), /forbidden/);
    });

    it('of_a_name_that_another_has_is_final_and_leaves_that_one_alone', async () => {
        const gate = await bed.server.enqueue({ queue: `${executor.queue}-gate` });
        const { id } = await bed.enqueue(executor, pod(QUICK), { depends_on: [gate.id] });
        const name = `tenax-${id}-0`;
        const theirs = { apiVersion: 'v1', kind: 'Pod', metadata: { name },
            spec: { containers: [{ name: 'c', image: 'i' }] } };
        theirs.spec = bed.cluster.podSpec(theirs.spec);
        const made = await bed.cluster.request('POST', bed.cluster.path('pods'), theirs);
        const held = await bed.server.claimOne(`${executor.queue}-gate`);
        await bed.server.post(`/jobs/${held.id}/success`, { token: held.token });
        await bed.status(id, 'dead');
        const [run] = await bed.server.runs(id);
        assert.match(run.message, new RegExp(`${name} exists already`));
        const got = await bed.cluster.pod(name);
        assert.equal(got.metadata.uid, made.metadata.uid);
        assert.equal(got.metadata.deletionTimestamp, undefined);
    });
});

// A real server needs its controllers for quotas to be enforced.
describe('a quota', { skip: onlyDouble }, () => {
    const bed = useBed();

    it('that_is_exceeded_sends_the_job_back_and_it_is_done_soon_after', async () => {
        const executor = bed.executor().start();
        const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'none' },
            spec: { hard: { pods: '0' } } };
        await bed.cluster.request('POST', bed.cluster.path('resourcequotas'), quota);
        const { id } = await bed.enqueue(executor, pod(QUICK), { retry_limit: 0 });
        await until(async () => (await bed.server.runs(id)).filter((r) =>
            r.outcome === 'returned').length >= 2, 'it was returned twice');
        assert.equal((await bed.server.job(id)).attempts, 0);
        await bed.cluster.request('DELETE', bed.cluster.path('resourcequotas/none'));
        const job = await bed.status(id, 'completed');
        assert.equal(job.attempts, 0);
    });
});
