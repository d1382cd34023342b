// SPDX-License-Identifier: Apache-2.0
'use strict';

// Failure categories: as resources, what they make of failures, and what outlives the server;
// and stored documents that this version cannot read.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, Server, assertError, notOn, queueName, run, useServer } = require('./harness');

const put = (server, target, body, headers) => server.request('PUT', target, body, headers);
const POLICIES = { args: ['--retry-policy-enabled'] };

function categories(name, rules, metadata = {}) {
    return {
        apiVersion: 'tenax.dev/v1', kind: 'FailureCategories', metadata: { name, ...metadata },
        spec: { rules },
    };
}

const GPU = {
    category: 'gpu', subcategory: 'lost', hint: 'take the node out of service',
    onExitCodes: { operator: 'In', values: [74] },
};

async function putCategories(server, name, rules, metadata) {
    const res = await put(server, `/failure-categories/${name}`,
        categories(name, rules, metadata));
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function failNew(server, fields, options = {}) {
    const queue = options.queue ?? queueName();
    const { id } = await server.enqueue({ queue, ...options });
    await server.claimOne(queue);
    const res = await server.post(`/jobs/${id}/failure`, { message: 'it broke', ...fields });
    assert.equal(res.status, 200, res.text);
    return res.json;
}

async function newestRun(server, id) {
    return (await server.runs(id)).at(-1);
}

async function categoryOf(server, fields) {
    const run = await newestRun(server, (await failNew(server, fields)).id);
    return [run.category, run.subcategory, run.hint];
}

const NONE = [undefined, undefined, undefined];

describe('failure categories', () => {
    const server = useServer();

    it('are_made_read_listed_replaced_and_deleted', async () => {
        const made = await server.post('/failure-categories', categories('crud', [GPU]));
        assert.equal(made.status, 201, made.text);
        assert.deepEqual(made.json.spec.rules, [GPU]);
        assertError(await server.post('/failure-categories', categories('crud', [GPU])), 409,
            'conflict');
        assert.deepEqual((await server.get('/failure-categories/crud')).json, made.json);
        const { items } = (await server.get('/failure-categories')).json;
        assert.deepEqual(items, [made.json]);
        const again = await putCategories(server, 'crud', [{ ...GPU, hint: 'other' }]);
        assert.ok(again.metadata.resourceVersion > made.json.metadata.resourceVersion);
        assert.equal((await server.delete('/failure-categories/crud')).status, 204);
        for (const method of ['GET', 'DELETE'])
            assertError(await server.request(method, '/failure-categories/crud'), 404, 'not_found');
        assert.deepEqual((await server.get('/failure-categories')).json, { items: [] });
    });

    it('are_read_from_yaml', async () => {
        const yaml = 'apiVersion: tenax.dev/v1\nkind: FailureCategories\nmetadata: {name: yam}\n'
            + 'spec:\n  rules:\n    - category: image\n      onPodError: {pattern: "ErrImage"}\n';
        const res = await put(server, '/failure-categories/yam', yaml,
            { 'content-type': 'application/yaml' });
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.spec.rules,
            [{ category: 'image', onPodError: { pattern: 'ErrImage' } }]);
        await server.delete('/failure-categories/yam');
    });

    it('are_not_overwritten_by_who_has_not_seen_them', async () => {
        const first = await putCategories(server, 'seen', [GPU]);
        const { resourceVersion } = first.metadata;
        await putCategories(server, 'seen', [{ ...GPU, hint: 'newer' }], { resourceVersion });
        const late = await put(server, '/failure-categories/seen',
            categories('seen', [GPU], { resourceVersion }));
        assertError(late, 409, 'conflict', /resourceVersion: it is \d+ by now/);
        assert.equal((await server.get('/failure-categories/seen')).json.spec.rules[0].hint,
            'newer');
        await server.delete('/failure-categories/seen');
        assertError(await put(server, '/failure-categories/seen',
            categories('seen', [GPU], { resourceVersion })), 409, 'conflict', /any more/);
    });

    it('are_refused_whole_with_the_first_fault', async () => {
        for (const [rules, status, code, where] of [
            [[], 400, 'bad_value', /^line \d+, column \d+: spec\.rules: expected at least one rule/],
            [[{ onExitCodes: GPU.onExitCodes }], 400, 'missing_field', /spec\.rules\[0\]\.category/],
            [[{ category: 'x' }], 400, 'missing_field', /spec\.rules\[0\]: expected at least one of/],
            [[{ category: 'x', onPodEvent: { pattern: '(' } }], 400, 'bad_value', /onPodEvent\.pattern/],
            [[{ ...GPU, hint: 'x'.repeat(1025) }], 400, 'bad_value', /spec\.rules\[0\]\.hint/],
            [[{ ...GPU, action: 'Retry' }], 400, 'bad_value', /action: expected Delete or Retain/],
        ])
            assertError(await put(server, '/failure-categories/bad', categories('bad', rules)),
                status, code, where);
        assertError(await put(server, '/failure-categories/bad', categories('other', [GPU])), 400,
            'bad_value', /metadata\.name/);
        assertError(await put(server, '/retry-policies/bad', categories('bad', [GPU])), 400,
            'bad_value', /kind: expected RetryPolicy/);
        assertError(await server.get('/failure-categories/bad'), 404, 'not_found');
    });

    it('name_a_failure_by_the_first_rule_that_matches', async () => {
        await putCategories(server, 'first', [
            GPU,
            { category: 'memory', onConditions: ['OOMKilled'], includeInitContainers: true },
            { category: 'licence', onTerminationMessage: { pattern: '(?i)licen[cs]e' } },
            { category: 'image', onPodError: { pattern: 'ErrImage' } },
            { category: 'storage', onPodEvent: { pattern: '^FailedMount: ' } },
            { category: 'rest', onExitCodes: { operator: 'NotIn', values: [1] } },
        ]);
        for (const [fields, category] of [
            [{ exit_code: 74, termination_message: 'no license' }, 'gpu'],
            [{ condition: 'OOMKilled' }, 'memory'],
            [{ containers: [{ name: 'a', init: true, exit_code: 137, reason: 'OOMKilled' }] }, 'memory'],
            [{ exit_code: 1, termination_message: 'out of Licences' }, 'licence'],
            [{ pod_error: 'main: ErrImagePull', exit_code: 9 }, 'image'],
            [{ pod_events: ['Pulled: image', 'FailedMount: data'] }, 'storage'],
            [{ exit_code: 2 }, 'rest'],
            [{ exit_code: 1 }, undefined],
            [{ pod_events: ['x FailedMount: data'] }, undefined],
            [{}, undefined],
        ])
            assert.equal((await categoryOf(server, fields))[0], category, JSON.stringify(fields));
        await server.delete('/failure-categories/first');
    });

    it('leave_what_the_worker_says_as_it_is', async () => {
        await putCategories(server, 'own', [GPU]);
        assert.deepEqual(await categoryOf(server, { exit_code: 74 }),
            ['gpu', 'lost', 'take the node out of service']);
        assert.deepEqual(await categoryOf(server, { exit_code: 74, category: 'mine' }),
            ['mine', undefined, undefined]);
        await server.delete('/failure-categories/own');
    });

    it('apply_in_the_order_of_their_names', async () => {
        await putCategories(server, 'b', [{ ...GPU, category: 'second' }]);
        assert.equal((await categoryOf(server, { exit_code: 74 }))[0], 'second');
        await putCategories(server, 'a', [{ ...GPU, category: 'first' }]);
        assert.equal((await categoryOf(server, { exit_code: 74 }))[0], 'first');
        await server.delete('/failure-categories/a');
        assert.equal((await categoryOf(server, { exit_code: 74 }))[0], 'second');
        await server.delete('/failure-categories/b');
        assert.deepEqual(await categoryOf(server, { exit_code: 74 }), NONE);
    });

    it('take_effect_at_the_next_failure_and_leave_earlier_ones_as_they_were', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 9 });
        const fail = async () => {
            await server.claimOne(queue);
            await server.post(`/jobs/${id}/failure`,
                { message: 'm', exit_code: 74, retry_at: Date.now() });
        };
        await fail();
        await putCategories(server, 'late', [GPU]);
        await fail();
        await putCategories(server, 'late', [{ ...GPU, category: 'other' }]);
        await fail();
        await server.delete('/failure-categories/late');
        await fail();
        assert.deepEqual((await server.runs(id)).map((run) => run.category),
            [undefined, 'gpu', 'other', undefined]);
    });

    it('are_managed_by_the_command_line', async () => {
        const tenax = (args, input) => run(args, { TENAX_URL: server.url() }, input);
        const text = JSON.stringify(categories('cli', [GPU, { category: 'image',
            onPodError: { pattern: 'x' } }]));
        assert.equal((await tenax(['apply', '-f', '-'], text)).stdout,
            'failurecategories/cli created\n');
        assert.equal((await tenax(['apply', '-f', '-'], text)).stdout,
            'failurecategories/cli unchanged\n');
        assert.match((await tenax(['get', 'failurecategories'])).stdout,
            /^NAME +RULES +CATEGORIES +VERSION\ncli +2 +gpu,image +\d+\n$/);
        const yaml = (await tenax(['get', 'failure-categories', 'cli', '-o', 'yaml'])).stdout;
        assert.equal((await tenax(['apply', '-f', '-'], yaml)).stdout,
            'failurecategories/cli unchanged\n');
        assert.equal((await tenax(['apply', '-f', '-'], yaml.replace('image', 'picture'))).stdout,
            'failurecategories/cli configured\n');
        const { id } = await failNew(server, { exit_code: 74 });
        assert.match((await tenax(['job', id])).stdout,
            / category gpu\/lost: take the node out of service\n/);
        assert.equal((await tenax(['delete', 'failurecategories', 'cli'])).stdout,
            'failurecategories/cli deleted\n');
        assert.equal((await tenax(['get', 'failurecategories', 'cli'])).code, 4);
    });
});

describe('what the cluster says of a pod', () => {
    const server = useServer();

    it('is_shown_with_the_run_and_the_error', async () => {
        const what = { pod_error: 'ErrImagePull: ü', pod_events: ['Pulled: a', 'FailedMount: b'] };
        const { id } = await failNew(server, what);
        const [error] = (await server.get(`/jobs/${id}/errors`)).json.errors;
        for (const shown of [await newestRun(server, id), error])
            assert.deepEqual({ pod_error: shown.pod_error, pod_events: shown.pod_events }, what);
    });

    it('is_refused_where_it_is_wrong', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        await server.claimOne(queue);
        for (const [fields, code, where] of [
            [{ pod_error: 7 }, 'wrong_type', /^pod_error: /],
            [{ pod_events: 'x' }, 'wrong_type', /^pod_events: /],
            [{ pod_events: ['x', 7] }, 'wrong_type', /^pod_events: /],
            [{ pod_events: Array(101).fill('x') }, 'too_many', /^pod_events: at most 100/],
        ])
            assertError(await server.post(`/jobs/${id}/failure`, { message: 'm', ...fields }), 400,
                code, where);
        assert.equal((await server.job(id)).status, 'in_flight');
    });
});

describe('a retry policy', () => {
    const server = useServer(POLICIES);

    it('sees_the_category_that_the_server_gave', async () => {
        const queue = queueName();
        const policy = {
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'by-category' },
            spec: { rules: [{ action: 'Retry', onFailureCategory: ['gpu'], retryLimit: 1 }] },
        };
        assert.equal((await put(server, '/retry-policies/by-category', policy)).status, 200);
        assert.equal((await put(server, `/queues/${queue}`,
            { retry_policies: ['by-category'] })).status, 200);
        assert.equal((await failNew(server, { exit_code: 74 }, { queue })).status, 'dead');
        await putCategories(server, 'for-policy', [GPU]);
        const retried = await failNew(server, { exit_code: 74 }, { queue });
        assert.equal(retried.status, 'ready');
        assert.match(retried.reason, /rule 1 of policy by-category \(category gpu\)/);
    });
});

for (const signal of ['SIGTERM', 'SIGKILL'])
    describe(`failure categories after ${signal}`, () => {
        const server = new Server();
        before(() => server.start());
        after(() => server.clean());

        it('are_there_with_what_they_gave', async () => {
            const made = await putCategories(server, 'kept', [GPU]);
            await putCategories(server, 'gone', [{ ...GPU, category: 'never' }]);
            await server.delete('/failure-categories/gone');
            const { id } = await failNew(server,
                { exit_code: 74, pod_error: 'e', pod_events: ['a', 'b'] });
            const runs = await server.runs(id);
            await server.signal(signal);
            await server.start();
            assert.deepEqual((await server.get('/failure-categories')).json, { items: [made] });
            assert.deepEqual(await server.runs(id), runs);
            assert.equal(runs[0].hint, GPU.hint);
            assert.equal((await categoryOf(server, { exit_code: 74 }))[0], 'gpu');
            const next = await putCategories(server, 'kept', [GPU]);
            assert.ok(next.metadata.resourceVersion > made.metadata.resourceVersion);
        });
    });

// As another version might have stored it, through the store itself.
function store(server, kind, name, body) {
    const helper = path.join(path.dirname(BIN), 'tests/store/put_resource');
    execFileSync(helper, [path.join(server.dir, 'root'), kind, name, '7', body]);
}

describe('a stored document that this version cannot read',
    notOn('postgres', 'it is put into the tables of a root directory'), () => {
    const server = new Server(POLICIES);
    before(() => server.start());
    after(() => server.clean());

    const policy = (name, spec) => ({
        apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name }, spec,
    });

    it('keeps_no_server_from_starting_is_said_aloud_and_decides_nothing', async () => {
        const [queue, mixed] = [queueName(), queueName()];
        await put(server, '/retry-policies/future', policy('future', { defaultAction: 'Retry' }));
        await put(server, '/retry-policies/sound', policy('sound', { defaultAction: 'Fail' }));
        await putCategories(server, 'future', [GPU]);
        await put(server, `/queues/${queue}`, { retry_policies: ['future'] });
        await put(server, `/queues/${mixed}`, { retry_policies: ['future', 'sound'] });
        await server.stop();
        const unknown = policy('future', { rules: [{ action: 'Hibernate' }] });
        store(server, 'p', 'future', JSON.stringify(unknown));
        store(server, 'f', 'future', '{');
        store(server, 's', '', '{"enabled": "perhaps"}');
        store(server, 'z', 'later', 'no such kind yet');

        await server.start();
        const said = server.stderr;
        for (const words of [/'future' of kind p is stored, but cannot be read .*action/,
            /'future' of kind f is stored/, /'' of kind s .*enabled/, /'later' of kind z/])
            assert.match(said, words);
        const shown = (await server.get('/retry-policies/future')).json;
        assert.match(shown.broken, /action: expected Retry or Fail, found "Hibernate"/);
        assert.equal(shown.spec, undefined);
        assert.equal(shown.metadata.resourceVersion, 7);
        assert.deepEqual((await server.get('/retry-policies')).json.items.map((p) => !p.broken),
            [false, true]);
        assert.ok((await server.get('/failure-categories/future')).json.broken);

        // As if the queue had no policy.
        const alone = await failNew(server, { exit_code: 74 }, { queue, retry_limit: 1 });
        assert.match(alone.reason, /^retry 1 of 10 that cost the job nothing \(culprit node\), .*; retry policy future is missing$/);
        assert.equal((await newestRun(server, alone.id)).category, undefined);
        const beside = await failNew(server, {}, { queue: mixed, retry_limit: 1 });
        assert.match(beside.reason, /policy sound says Fail/);
        // Its name still holds: jobs may be enqueued with it, and the queue keeps it.
        await server.enqueue({ queue: queueName(), retry_policies: ['future'] });
        assertError(await server.delete('/retry-policies/future'), 409, 'conflict');
    });

    it('shows_as_broken_on_the_command_line', async () => {
        const { stdout } = await run(['get', 'retrypolicies'], { TENAX_URL: server.url() });
        assert.match(stdout, /^future +broken/m);
    });

    it('is_mended_by_replacing_it', async () => {
        const queue = queueName();
        const res = await put(server, '/retry-policies/future',
            policy('future', { defaultAction: 'Retry', retryLimit: 2 }));
        assert.equal(res.status, 200, res.text);
        assert.ok(res.json.metadata.resourceVersion > 7);
        await put(server, `/queues/${queue}`, { retry_policies: ['future'] });
        assert.match((await failNew(server, {}, { queue })).reason, /retry 1 of 2 .*policy future/);
        assert.equal((await server.delete('/failure-categories/future')).status, 204);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await server.get('/retry-policies/future')).json.spec.retryLimit, 2);
        assert.deepEqual((await server.get('/failure-categories')).json, { items: [] });
    });
});
