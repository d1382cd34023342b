// SPDX-License-Identifier: Apache-2.0
'use strict';

// What Armada's releases write and say: their policies, annotation, configuration and commands.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { Server, assertError, makeDir, run, until, useServer } = require('./harness');

const RELEASED = `apiVersion: armadaproject.io/v1beta1
kind: RetryPolicy
name: gpu-batch
retryLimit: 2
defaultAction: Fail
rules:
- action: Retry
  onCategory: gpu
- action: Retry
  onCategory: gpu
  onSubcategory: lost
- action: Retry
  onCategory: oom
  mutate:
    resources:
      memory:
        static: 512Mi
`;
const NEVER = 'rules[1] can never match: rules[0] before it matches everything that it would';

describe('armada', () => {
    const server = useServer({ args: ['--retry-policy-enabled'] });
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    function write(name, text) {
        const file = path.join(dir, name);
        fs.writeFileSync(file, text);
        return file;
    }

    async function tenax(args, { code = 0, input = '' } = {}) {
        const end = await run(args, { TENAX_URL: server.url() }, input);
        assert.equal(end.code, code, `tenax ${args.join(' ')}: ${end.stdout}${end.stderr}`);
        return end;
    }

    // Takes the job and reports its failure; the answer is the job.
    async function fail(queue, failure) {
        const { id } = await server.claimOne(queue);
        const end = await server.post(`/jobs/${id}/failure`, { message: 'no', ...failure });
        assert.equal(end.status, 200, end.text);
        return server.job(id);
    }

    it('commands_of_armadactl_work_on_its_own_files', async () => {
        const file = write('policy.yaml', RELEASED);
        let end = await tenax(['create', 'retry-policy', '-f', file]);
        assert.equal(end.stdout, 'retrypolicy/gpu-batch created\n');
        assert.match(end.stderr, /policy\.yaml, line 1: warning: retrypolicy\/gpu-batch: rules\[1\]/);
        end = await tenax(['update', 'retry-policy', '-f', file]);
        assert.equal(end.stdout, 'retrypolicy/gpu-batch unchanged\n');
        end = await tenax(['create', 'queue', 'ml', '--retry-policies', 'gpu-batch']);
        assert.equal(end.stdout, 'queue/ml created\n');
        end = await tenax(['get', 'retry-policy', 'gpu-batch', '-o', 'yaml']);
        assert.match(end.stdout, /^apiVersion: tenax\.dev\/v1$/m);
        assert.match(end.stdout, /^ {2}retryLimitPer: policy$/m);
        end = await tenax(['apply', '-f', '-', '-o', 'yaml'],
            { input: RELEASED.replace('retryLimit: 2', 'retryLimit: 3') });
        assert.doesNotMatch(end.stdout, /warnings/);
        await tenax(['get', 'retry-policies']);
        end = await tenax(['create', 'queue', '-f', file], { code: 2 });
        assert.match(end.stderr, /policy\.yaml, line 1: found a RetryPolicy, expected a Queue/);
        await tenax(['create', 'queue', 'x', '--retry-policies', 'a', '--retry-policy', 'b'],
            { code: 2 });
        await tenax(['delete', 'queue', 'ml']);
        await tenax(['delete', 'retry-policy', 'gpu-batch']);
    });

    it('what_was_most_likely_not_meant_is_named_when_it_is_written_and_as_long_as_it_stands', async () => {
        const res = await server.request('POST', '/retry-policies', RELEASED,
            { 'content-type': 'application/yaml' });
        assert.equal(res.status, 201, res.text);
        assert.deepEqual(res.json.warnings, [NEVER]);
        const kept = (await server.get('/retry-policies/gpu-batch')).json;
        assert.deepEqual(kept.warnings, [NEVER.replaceAll('rules[', 'spec.rules[')]);
        delete res.json.warnings;
        delete kept.warnings;
        assert.deepEqual(res.json, kept);
        assert.equal(kept.spec.rules[2].mutations.memory.add, '512Mi');
    });

    it('one_limit_holds_for_all_rules_of_a_released_policy', async () => {
        await server.request('PUT', '/retry-policies/gpu-batch', RELEASED,
            { 'content-type': 'application/yaml' });
        await server.request('PUT', '/queues/one-limit', { retry_policies: ['gpu-batch'] });
        await server.post('/jobs', {
            queue: 'one-limit', type: 't', payload: 1, resources: { memory: '1Gi' },
        });
        let job = await fail('one-limit', { category: 'gpu' });
        assert.equal(job.status, 'ready', job.reason);
        job = await fail('one-limit', { category: 'oom' });
        assert.equal(job.status, 'ready', job.reason);
        assert.equal(job.resources.memory, '1536Mi');
        job = await fail('one-limit', { category: 'gpu' });
        assert.equal(job.status, 'dead');
        assert.match(job.reason, /the policy allows 2 retries in all/);
    });

    it('the_annotation_of_a_job_adds_a_policy', async () => {
        await server.request('PUT', '/retry-policies/gpu-batch', RELEASED,
            { 'content-type': 'application/yaml' });
        await server.request('PUT', '/retry-policies/errors', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'errors' },
            spec: {
                retryLimit: 1,
                rules: [{ action: 'Retry', onError: { types: ['IOError'], pattern: 'reset' } }],
            },
        });
        const spec = { queue: 'annotated', type: 't', payload: 1 };
        const annotations = { 'armadaproject.io/retry-policy': 'errors' };
        const res = await server.post('/jobs', {
            annotations, ...spec, retry_policies: ['gpu-batch'],
        });
        assert.equal(res.status, 201, res.text);
        assert.deepEqual((await server.get(`/jobs/${res.json.id}`)).json.retry_policies,
            ['gpu-batch', 'errors']);
        const job = await fail('annotated', { error_type: 'IOError', message: 'reset by peer' });
        assert.equal(job.status, 'ready', job.reason);
        assert.match(job.reason, /rule 1 of policy errors \(error IOError; error message ~ "reset"\)/);
        assertError(await server.post('/jobs', {
            ...spec, annotations: { 'armadaproject.io/retry-policy': 'nowhere' },
        }), 422, 'unprocessable');
        assertError(await server.request('POST', '/jobs',
            { ...spec, annotations: { 'armadaproject.io/owner': 'x' } },
            { 'tenax-strict': 'true' }), 400, 'unknown_field');
        assertError(await server.post('/jobs', { ...spec, annotations: 'errors' }), 400, 'wrong_type');
    });

    it('a_default_policy_that_is_not_there_is_warned_of_where_it_is_confirmed', async () => {
        const file = path.join(dir, 'tenax.yaml');
        fs.writeFileSync(file, 'scheduling:\n  retryPolicy:\n    enabled: true\n'
            + '    defaultPolicyName: fleet\n    globalMaxRetries: 5\n');
        const other = new Server({ args: ['--config', file] });
        await other.start();
        try {
            const held = (await other.get('/settings/retry')).json;
            assert.equal(held.globalMaxRetries, 5);
            assert.equal(held.warnings, undefined);
            const res = await other.request('PUT', '/settings/retry', { globalMaxRetries: 6 });
            assert.match(res.json.warnings[0], /there is no retry policy 'fleet'/);
            assert.match(other.stderr, /there is no retry policy 'fleet'/);
        } finally {
            await other.clean();
        }
    });

    it('its_files_replace_and_detach_and_our_own_words_do_not', async () => {
        const file = write('twice.yaml', RELEASED.replace('gpu-batch', 'twice'));
        await tenax(['create', '-f', file]);
        assert.equal((await tenax(['create', '-f', file])).stdout, 'retrypolicy/twice unchanged\n');
        const more = write('more.yaml',
            RELEASED.replace('gpu-batch', 'twice').replace('Limit: 2', 'Limit: 7'));
        assert.equal((await tenax(['create', '-f', more])).stdout, 'retrypolicy/twice configured\n');
        assert.equal((await server.get('/retry-policies/twice')).json.spec.retryLimit, 7);
        await server.request('PUT', '/queues/used', { retry_policies: ['twice'] });
        let end = await tenax(['delete', 'retry-policy', 'twice'], { code: 1 });
        assert.match(end.stderr, /the queue 'used' has this retry policy/);
        await tenax(['delete', 'retry-policy', 'twice', '--detach']);
        assert.deepEqual((await server.get('/queues/used')).json.retry_policies ?? [], []);
        end = await tenax(['delete', 'retry-policy', 'twice']);
        assert.match(end.stderr, /twice does not exist; nothing was deleted/);
        await tenax(['delete', 'retrypolicy', 'twice'], { code: 4 });
        await tenax(['create', '-f', file]);
        await server.request('PUT', '/queues/used', { retry_policies: ['twice'] });
        await tenax(['delete', '-f', file]);
        await tenax(['delete', '-f', file]);
        assertError(await server.delete('/retry-policies/twice?detach=1'), 400, 'bad_value');
        assertError(await server.delete('/retry-policies/twice?detach=true'), 404, 'not_found');
    });

    it('its_queues_are_kept_as_they_are_and_what_has_no_effect_is_named', async () => {
        const kept = {
            priorityFactor: 2.5,
            permissions: [{ subjects: [{ kind: 'Group', name: 'vision' }], verbs: ['submit', 'watch'] }],
            labels: { [`example.org/${'cost_center'.repeat(8)}`]: '0042', x: 'null' },
            resourceLimitsByPriorityClassName: { high: { maximumResourceFraction: { cpu: 0.5 } } },
        };
        const queue = {
            apiVersion: 'armadaproject.io/v1beta1', kind: 'Queue', name: 'vision', cordoned: true,
            ...kept, userOwners: null, retryPolicies: ['fleet'],
        };
        const file = write('queue.json', JSON.stringify(queue));
        await tenax(['create', '-f', file], { code: 1 }); // its policy is not there
        assert.equal((await server.get('/queues/vision')).json.configured, false);
        await tenax(['create', '-f', '-'], { input: RELEASED.replace('gpu-batch', 'fleet') });
        let end = await tenax(['create', '-f', file]);
        assert.equal(end.stdout, 'queue/vision created\n');
        for (const member of Object.keys(kept))
            assert.match(end.stderr, new RegExp(`queue/vision: ${member} has no effect here; it is kept`));
        assert.doesNotMatch(end.stderr, /cordoned|retryPolicies|userOwners/);
        const now = (await server.get('/queues/vision')).json;
        assert.deepEqual(now.armada, kept);
        assert.equal(now.paused, true);
        assert.deepEqual(now.retry_policies, ['fleet']);
        assert.ok(now.warnings.includes('armada: priorityFactor, permissions, labels and '
            + 'resourceLimitsByPriorityClassName are kept and have no effect'), now.warnings);
        assert.equal((await tenax(['create', '-f', file])).stdout, 'queue/vision unchanged\n');
        end = await tenax(['get', 'queue', 'vision', '-o', 'yaml']);
        assert.equal((await tenax(['apply', '-f', '-'], { input: end.stdout })).stdout,
            'queue/vision unchanged\n');
        await server.request('PATCH', '/queues/vision', { paused: false });
        await server.stop();
        await server.start();
        assert.deepEqual((await server.get('/queues/vision')).json.armada, kept);
        const other = write('other.json', JSON.stringify({ ...queue, labels: { team: 'b' } }));
        assert.equal((await tenax(['create', '-f', other])).stdout, 'queue/vision configured\n');
        assert.deepEqual((await server.get('/queues/vision')).json.armada.labels, { team: 'b' });
        await tenax(['delete', '-f', other]);
        await tenax(['delete', '-f', other]); // what is missing is no fault
        assert.equal((await server.get('/queues/vision')).json.armada, undefined);
    });

    it('a_faulty_queue_of_its_form_is_refused_with_the_place', async () => {
        const head = 'apiVersion: armadaproject.io/v1beta1\nkind: Queue\n';
        for (const [text, words] of [
            ['labels: {}\n', /name: expected this field, found nothing/],
            ['name: a*\n', /line 3, column 7: name: expected the name of a queue/],
            ['name: a\npriorityFactor: 0\n', /line 4.*priorityFactor: expected a number above 0/],
            ['name: a\nlabels: {n: 1}\n', /line 4.*labels: expected a mapping of texts/],
            ['name: a\npermissions:\n- verbs: [fly]\n', /permissions\[0\]\.verbs\[0\]: expected submit/],
            ['name: a\npermissions:\n- subjects: [{kind: Robot, name: r}]\n', /expected User or Group/],
            ['name: a\nfairShare: 1\n', /line 4.*fairShare/],
        ]) {
            const end = await tenax(['create', '-f', '-'], { input: head + text, code: 2 });
            assert.match(end.stderr, words);
        }
        for (const [armada, status, code] of [
            ['x', 400, 'wrong_type'],
            [{ labels: { a: 'x'.repeat(8192) } }, 400, 'too_many'],
        ])
            assertError(await server.request('PUT', '/queues/plain', { armada }), status, code, /^armada: /);
        assert.equal((await server.get('/queues/plain')).json.configured, false);
    });

    it('annotations_stand_beside_pod_spec_too_and_gangs_are_named_by_them', async () => {
        await server.request('PUT', '/retry-policies/beside', {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'beside' },
            spec: { defaultAction: 'Retry' },
        });
        const gang = { 'armadaproject.io/gangId': 'g', 'armadaproject.io/gangCardinality': '2' };
        const job = { queue: 'beside', type: 't' };
        const payload = {
            podSpec: { containers: [] },
            annotations: { 'armadaproject.io/retry-policy': ' beside , beside', mine: 'x', ...gang },
        };
        const first = await server.post('/jobs', { ...job, payload });
        assert.equal(first.status, 201, first.text);
        assert.deepEqual(first.json.retry_policies, ['beside']);
        assert.equal(first.json.gang.cardinality, 2);
        assert.deepEqual((await server.get(`/jobs/${first.json.id}`)).json.payload, payload);
        const alone = { ...job, payload: { annotations: payload.annotations } };
        assert.equal((await server.post('/jobs', alone)).json.gang, undefined);
        for (const [annotations, code] of [
            [{ 'armadaproject.io/gangId': 'g' }, 'missing_field'],
            [{ ...gang, 'armadaproject.io/gangCardinality': 'two' }, 'bad_value'],
        ]) {
            assertError(await server.post('/jobs', { ...job, payload: 1, annotations }), 400, code);
            assertError(await server.post('/jobs',
                { ...job, payload: { podSpec: {}, annotations } }), 400, code, /^payload: annotations/);
        }
        const second = await server.post('/jobs', { ...job, payload: 1, annotations: gang });
        assert.equal(second.json.gang.id, 'g');
        assert.equal((await server.get(`/jobs/${second.json.id}`)).json.gang.members, 2);
    });

    it('an_executor_s_error_categories_load_as_they_are', async () => {
        const config = `kubernetes: {impersonateUsers: false}
application:
  clusterId: one
  errorCategories:
    enabled: true
    defaultCategory: uncategorized
    categories:
      - name: infrastructure
        action: Retain
        rules:
          - {onConditions: [OOMKilled], subcategory: oom}
          - onPodEvents: {regexp: devices unavailable, reason: UnexpectedAdmissionError, type: Warning}
`;
        const end = await tenax(['apply', '-f', '-'], { input: config });
        assert.equal(end.stdout, 'failurecategories/armada-executor created\n');
        assert.match(end.stderr, /application\.clusterId has no use here and is not kept/);
        assert.match(end.stderr, /rules\[0\]\.action has no effect/);
        const written = await tenax(['get', 'failurecategories', 'armada-executor', '-o', 'yaml']);
        const again = await tenax(['apply', '-f', '-'], { input: written.stdout });
        assert.match(again.stdout, /unchanged/);
        await server.post('/jobs', { queue: 'named', type: 't', payload: 1, retry_limit: 5 });
        let job = await fail('named', {
            pod_events: ['UnexpectedAdmissionError: devices unavailable for gpu'],
        });
        assert.equal((await server.runs(job.id))[0].category, 'infrastructure');
        await server.request('PATCH', `/jobs/${job.id}`, { ready_at: null });
        job = await fail('named', { exit_code: 3221225477 });
        const run = (await server.runs(job.id))[1];
        assert.equal(run.category, 'uncategorized');
        assert.equal(run.exit_code, -1073741819);
        assert.equal((await server.delete('/failure-categories/armada-executor')).status, 204);
    });

    const over = (id) => until(async () => (await server.job(id)).status !== 'in_flight',
        'the run is over');

    // A confirmed claim whose lease runs out: the job, and its last run.
    async function expire(queue) {
        const { id } = await server.claimConfirmed(queue, { lease_ms: 1000 });
        await over(id);
        return [await server.job(id), (await server.runs(id)).at(-1)];
    }

    // A policy of its form alone, on a queue of the same name with one job.
    async function only(name, spec, job = {}) {
        const put = await server.request('PUT', `/retry-policies/${name}`, {
            apiVersion: 'armadaproject.io/v1beta1', kind: 'RetryPolicy', name, ...spec });
        assert.equal(put.status, 200, put.text);
        assert.equal((await server.request('PUT', `/queues/${name}`, { retry_policies: [name] })).status, 200);
        return server.enqueue({ queue: name, ...job });
    }

    it('an_expired_lease_has_its_built_in_category_and_its_policies_judge_it', async () => {
        await only('by-rule', { retryLimit: 1, defaultAction: 'Fail',
            rules: [{ action: 'Retry', onCategory: 'internal', onSubcategory: 'lease-expired' }] },
        { retry_limit: 0 });
        let [job, seen] = await expire('by-rule');
        assert.match(job.reason, /^retry 1 of 1 by rule 1 of policy by-rule/);
        assert.deepEqual([seen.category, seen.subcategory], ['internal', 'lease-expired']);
        [job] = await expire('by-rule');
        assert.equal(job.resolution, 'claim-expired');

        await only('in-one', { retryLimit: 3, defaultAction: 'Fail',
            rules: [{ action: 'Retry', onCategory: 'internal/lease-expired' }] });
        assert.match((await expire('in-one'))[0].reason, /^retry 1 of 3 by rule 1 of policy in-one/);

        await only('by-default', { retryLimit: 3, defaultAction: 'Retry' }, { retry_limit: 0 });
        assert.match((await expire('by-default'))[0].reason, /^retry 1 of 3 by the default of policy by-default/);

        await only('says-fail', { retryLimit: 3, defaultAction: 'Fail' });
        [job] = await expire('says-fail');
        assert.equal(job.status, 'dead');
        assert.match(job.reason, /no rule matched and policy says-fail says Fail/);
    });

    it('a_claim_that_nobody_confirmed_has_the_category_too_and_asks_no_policy', async () => {
        const { id } = await only('unconfirmed', { retryLimit: 0, defaultAction: 'Fail' });
        await server.claimOne('unconfirmed', { lease_ms: 1000 });
        await over(id);
        assert.equal((await server.job(id)).status, 'ready');
        const [seen] = await server.runs(id);
        assert.deepEqual([seen.category, seen.subcategory], ['internal', 'lease-expired']);
    });

    it('failures_have_built_in_categories_unless_a_rule_or_the_worker_names_another', async () => {
        async function named(failure) {
            const { id } = await server.enqueue({ queue: 'built-in', retry_limit: 0 });
            await fail('built-in', failure);
            const { category, subcategory } = (await server.runs(id))[0];
            return [category, subcategory];
        }
        assert.deepEqual(await named({ condition: 'DeadlineExceeded' }), ['internal', 'active-deadline']);
        assert.deepEqual(await named({ exception: 'malformed-payload' }), ['internal', 'job-rejected']);
        assert.deepEqual(await named({ error_type: 'PodDeleted' }), ['internal', 'externally-deleted']);
        assert.deepEqual(await named({ exit_code: 1 }), [undefined, undefined]);
        const gone = { category: 'internal', subcategory: 'pod-missing', exit_code: 7 };
        assert.deepEqual(await named(gone), ['internal', 'pod-missing']);
        assert.deepEqual(await named({ category: 'mine', error_type: 'PodDeleted' }), ['mine', undefined]);

        const file = (category) => ({ apiVersion: 'tenax.dev/v1', kind: 'FailureCategories',
            metadata: { name: 'over' }, spec: { defaultCategory: 'other', rules: [
                { category, onExitCodes: { operator: 'In', values: [7] } }] } });
        for (const name of ['internal', 'internal/mine']) {
            const end = await server.request('PUT', '/failure-categories/over', file(name));
            assertError(end, 400, 'bad_value');
            assert.match(end.json.error, /rules\[0\]\.category: expected another name/);
        }
        assert.equal((await server.request('PUT', '/failure-categories/over', file('ours'))).status, 200);
        assert.deepEqual(await named(gone), ['ours', undefined]);
        assert.deepEqual(await named({ exit_code: 1 }), ['other', undefined]);
        assert.deepEqual(await named({ error_type: 'PodDeleted' }), ['internal', 'externally-deleted']);
        assert.equal((await server.delete('/failure-categories/over')).status, 204);
    });

    it('events_of_failures_carry_the_category_the_exit_code_and_the_message', async () => {
        const { id } = await server.enqueue({ queue: 'told', retry_limit: 2 });
        const long = '\u00e9'.repeat(600);
        const events = async () => (await server.get(`/events?follow=false&since=0&job=${id}`)).text.trim().split('\n')
            .map((line) => JSON.parse(line)).filter((e) => e.event === 'job_requeued' || e.event === 'job_dead')
            .map(({ event, category, subcategory, exit_code, message, culprit }) =>
                [event, category, subcategory, exit_code, message, culprit]);
        await fail('told', { category: 'gpu', subcategory: 'lost', exit_code: 74, message: 'Xid 79', kill: false });
        await server.request('PATCH', `/jobs/${id}`, { ready_at: null });
        await fail('told', { message: long, kill: true,
            containers: [{ name: 'a', exit_code: 0 }, { name: 'b', exit_code: 3 }] });
        const expected = [['job_requeued', 'gpu', 'lost', 74, 'Xid 79', 'node'],
            ['job_dead', undefined, undefined, 3, '\u00e9'.repeat(512), 'job']];
        assert.deepEqual(await events(), expected);
        await server.stop();
        await server.start();
        assert.deepEqual(await events(), expected);
    });

    it('patterns_of_its_files_are_those_of_re2', async () => {
        const file = (apiVersion, pattern) => ({ apiVersion, kind: 'RetryPolicy', metadata: { name: 'regex' }, spec: {
            rules: [{ action: 'Retry', onTerminationMessage: { pattern } }] } });
        const put = (...of) => server.request('PUT', '/retry-policies/regex', file(...of));
        const refused = await put('armadaproject.io/v1', 'a(?=b)');
        assertError(refused, 400, 'bad_value');
        assert.match(refused.json.error, /RE2 has no such group \(at offset 1 of the pattern\)/);
        assert.equal((await put('tenax.dev/v1', 'a(?=b)')).status, 200);
        const written = await put('armadaproject.io/v1', '^lost$');
        assert.equal(written.json.spec.rules[0].onTerminationMessage.pattern, '^lost\\z');
        await server.request('PUT', '/queues/regex', { retry_policies: ['regex'] });
        for (const [message, again] of [['lost', true], ['lost\n', false]]) {
            await server.enqueue({ queue: 'regex' });
            assert.equal((await fail('regex', { termination_message: message })).status !== 'dead', again, message);
            if (again)
                await fail('regex', { termination_message: 'x' });
        }
        const executor = (regexp) => ({ application: { errorCategories: { categories: [
            { name: 'gpu', rules: [{ onPodEvents: { regexp } }] }] } } });
        assertError(await server.request('PUT', '/failure-categories/armada-executor', executor('a++')), 400, 'bad_value');
        assert.equal((await server.request('PUT', '/failure-categories/armada-executor', executor('a\\s+b$'))).status, 200);
        assert.equal((await server.delete('/failure-categories/armada-executor')).status, 204);
    });

    it('fail_fast_makes_the_first_failure_final_as_its_annotation_does', async () => {
        const spec = { retryLimit: 3, defaultAction: 'Retry' };
        await only('fast', spec, { annotations: { 'armadaproject.io/failFast': 'true' } });
        let job = await fail('fast', { exit_code: 1 });
        assert.equal(job.status, 'dead');
        assert.equal(job.reason, "dead: the job's fail_fast says that its first failure is final");
        assert.equal(job.fail_fast, true);
        const seen = await server.get(`/events?follow=false&since=0&job=${job.id}`);
        assert.equal(JSON.parse(seen.text.trim().split('\n').at(-1)).decided_by, 'fail_fast');

        await server.enqueue({ queue: 'fast', payload: {
            podSpec: {}, annotations: { 'armadaproject.io/failFast': 'T' } } });
        assert.equal((await fail('fast', { exit_code: 1 })).status, 'dead');
        await server.enqueue({ queue: 'fast', fail_fast: true });
        job = (await expire('fast'))[0];
        assert.equal(job.resolution, 'claim-expired');
        assert.match(job.reason, /fail_fast/);
        await server.enqueue({ queue: 'fast', annotations: { 'armadaproject.io/failFast': 'false' } });
        job = await fail('fast', { exit_code: 1 });
        assert.match(job.reason, /^retry 1 of 3/);
        assert.equal(job.fail_fast, undefined);
        assertError(await server.post('/jobs', { queue: 'fast', type: 't', payload: 1,
            annotations: { 'armadaproject.io/failFast': 'yes' } }), 400, 'bad_value');
        assertError(await server.post('/jobs', { queue: 'fast', type: 't', payload: 1, fail_fast: 1 }), 400, 'wrong_type');
    });

    it('fail_fast_leaves_alone_what_is_not_judged_and_a_word_of_the_worker', async () => {
        const { id } = await server.enqueue({ queue: 'calm', fail_fast: true });
        let { token } = await server.claimOne('calm');
        assert.equal((await server.post(`/jobs/${id}/release`, { token })).status, 204);
        ({ token } = await server.claimOne('calm'));
        const at = Date.now() + 3600000;
        const end = await server.post(`/jobs/${id}/failure`, { token, message: 'm', retry_at: at });
        assert.equal(end.status, 200, end.text);
        assert.equal((await server.job(id)).status, 'scheduled');
    });

    it('its_configuration_may_say_nothing_else', async () => {
        for (const [text, words] of [
            ['scheduling:\n  maxRetries: 3\n', /line 2, column 3: .*scheduling: only retryPolicy/],
            ['scheduling: 1\n', /line 1, column 13: .*a mapping with retryPolicy/],
            ['retryPolicy: {}\nscheduling:\n  retryPolicy: {}\n', /retryPolicy is given twice/],
            ['scheduling:\n  retryPolicy: {enabled: 1}\n',
                /line 2, column 26: scheduling\.retryPolicy\.enabled: expected true or false/],
        ]) {
            const end = await run(['serve', '--root-dir', path.join(dir, 'never'), '--port', '0',
                '--config', write('bad.yaml', text)]);
            assert.equal(end.code, 2, end.stderr);
            assert.match(end.stderr, words);
        }
    });
});
