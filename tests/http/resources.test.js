// SPDX-License-Identifier: Apache-2.0
'use strict';

// create, apply, get, update and delete of retry policies and queues, as kubectl has them.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { makeDir, run, useServer } = require('./harness');

const INFRA = `apiVersion: tenax.dev/v1
kind: RetryPolicy
metadata: {name: infra}
spec:
  retryLimit: 10
  rules:
    - {action: Retry, onConditions: [Preempted, Evicted], antiAffinity: {mode: node}}
`;
const TRAINING = `apiVersion: armadaproject.io/v1
kind: RetryPolicy
metadata:
  name: ml-training
spec:
  defaultAction: Fail
  rules:
    - {action: Retry, onConditions: [OOMKilled], retryLimit: 3}
`;
const QUEUE = `apiVersion: tenax.dev/v1
kind: Queue
metadata: {name: ml}
spec:
  retryPolicies: [infra, ml-training]
`;
const ALL = [INFRA, TRAINING, QUEUE].join('---\n');
const EACH = ['retrypolicy/infra', 'retrypolicy/ml-training', 'queue/ml'];
const said = (what, names = EACH) => names.map((name) => `${name} ${what}\n`).join('');

describe('resources', () => {
    const server = useServer();
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    function write(name, text) {
        const file = path.join(dir, name);
        fs.writeFileSync(file, text);
        return file;
    }
    const all = write('all.yaml', ALL);

    async function tenax(args, { code = 0, input = '' } = {}) {
        const end = await run(args, { TENAX_URL: server.url() }, input);
        assert.equal(end.code, code, `tenax ${args.join(' ')}: ${end.stdout}${end.stderr}`);
        return end;
    }

    // What is left from a test that failed must not fail the next one.
    async function clear() {
        await server.post('/reset');
        await server.delete('/queues/ml');
        await server.delete('/retry-policies/infra');
        await server.delete('/retry-policies/ml-training');
    }

    it('are_created_once', async () => {
        await clear();
        assert.equal((await tenax(['create', '-f', all])).stdout, said('created'));
        assert.equal((await server.get('/retry-policies/infra')).json.spec.retryLimit, 10);
        assert.deepEqual((await server.get('/queues/ml')).json.retry_policies,
            ['infra', 'ml-training']);
        const again = await tenax(['create', '-f', all], { code: 1 });
        assert.equal(again.stdout, '');
        for (const [i, name] of EACH.entries())
            assert.match(again.stderr.split('\n')[i],
                new RegExp(`all.yaml, line \\d+: ${name} already exists`));
    });

    it('are_made_what_the_file_says_by_apply', async () => {
        await clear();
        assert.equal((await tenax(['apply', '-f', all])).stdout, said('created'));
        const version = async () =>
            (await server.get('/retry-policies/infra')).json.metadata.resourceVersion;
        const first = await version();
        assert.equal((await tenax(['apply', '-f', all])).stdout, said('unchanged'));
        assert.equal(await version(), first);
        const input = ALL.replace('retryLimit: 10', 'retryLimit: 11').replace(', ml-training]', ']');
        assert.equal((await tenax(['apply', '-f', '-'], { input })).stdout,
            'retrypolicy/infra configured\nretrypolicy/ml-training unchanged\n'
            + 'queue/ml configured\n');
        assert.ok(await version() > first);
        assert.deepEqual((await server.get('/queues/ml')).json.retry_policies, ['infra']);
    });

    it('must_be_there_to_be_updated', async () => {
        await clear();
        const none = await tenax(['update', '-f', all], { code: 4 });
        assert.match(none.stderr, /retrypolicy\/infra does not exist/);
        assert.equal((await server.get('/retry-policies')).json.items.length, 0);
        await tenax(['create', '-f', all]);
        const changed = write('changed.yaml', INFRA.replace('10', '12'));
        assert.equal((await tenax(['update', '--file', changed])).stdout,
            'retrypolicy/infra configured\n');
        assert.equal((await tenax(['update', `-f=${changed}`])).stdout,
            'retrypolicy/infra unchanged\n');
    });

    it('of_an_older_version_are_refused', async () => {
        await clear();
        await tenax(['create', '-f', all]);
        const old = (await tenax(['get', 'retrypolicy', 'infra', '-o', 'yaml'])).stdout;
        assert.match(old, /resourceVersion: \d+/);
        assert.equal((await tenax(['apply', '-f', '-'], { input: old })).stdout,
            'retrypolicy/infra unchanged\n');
        const input = old.replace('retryLimit: 10', 'retryLimit: 3');
        await tenax(['update', '-f', '-'], { input });
        const stale = await tenax(['update', '-f', '-'],
            { input: old.replace('retryLimit: 10', 'retryLimit: 4'), code: 1 });
        assert.match(stale.stderr, /resourceVersion/);
        assert.equal((await server.get('/retry-policies/infra')).json.spec.retryLimit, 3);
    });

    it('are_shown_as_a_table_as_yaml_and_as_json', async () => {
        await clear();
        await tenax(['create', '-f', all]);
        const table = (await tenax(['get', 'retrypolicies'])).stdout.split('\n');
        assert.match(table[0], /^NAME +RULES +RETRY LIMIT +DEFAULT ACTION +VERSION$/);
        assert.match(table[1], /^infra +1 +10 +- +\d+$/);
        assert.match(table[2], /^ml-training +1 +- +Fail +\d+$/);
        const yaml = (await tenax(['get', 'queue', 'ml', '-oyaml'])).stdout;
        assert.equal(yaml, 'apiVersion: tenax.dev/v1\nkind: Queue\nmetadata:\n  name: ml\n'
            + 'spec:\n  retryPolicies: [infra, ml-training]\n');
        const json = JSON.parse((await tenax(['get', 'RetryPolicy', 'infra', '-o=json'])).stdout);
        const { warnings, ...stored } = (await server.get('/retry-policies/infra')).json;
        assert.equal(warnings.length, 1); // on stderr, since what is printed can be applied
        assert.deepEqual(json, stored);
        const list = (await tenax(['get', 'queue/ml', 'retrypolicy/infra', '-o', 'json'])).stdout;
        assert.deepEqual(JSON.parse(list).items.map((item) => item.kind), ['Queue', 'RetryPolicy']);
        const several = (await tenax(['get', '-f', all, '-o', 'yaml'])).stdout;
        assert.equal(several.split('---\n').length, 3);
        const missing = await tenax(['get', 'retrypolicy', 'infra', 'other'], { code: 4 });
        assert.match(missing.stdout, /^infra/m);
        assert.match(missing.stderr, /retrypolicy\/other does not exist/);
    });

    it('that_were_printed_can_be_applied_again', async () => {
        await clear();
        await tenax(['create', '-f', all]);
        for (const format of ['yaml', 'json']) {
            const { stdout } = await tenax(['get', '-f', all, '-o', format]);
            assert.equal((await tenax(['apply', '-f', '-'], { input: stdout })).stdout,
                said('unchanged'));
        }
        const listed = (await tenax(['get', 'retrypolicies', '-o', 'json'])).stdout;
        assert.equal((await tenax(['apply', '-f', '-'], { input: listed })).stdout,
            said('unchanged', EACH.slice(0, 2)));
    });

    it('are_deleted_by_file_and_by_name_and_jobs_are_not', async () => {
        await clear();
        await tenax(['create', '-f', all]);
        const { id } = await server.enqueue({ queue: 'ml2' });
        const used = await tenax(['delete', 'retrypolicy', 'infra'], { code: 1 });
        assert.match(used.stderr, /the queue 'ml' has this retry policy/);
        assert.equal((await tenax(['delete', '-f', all])).stdout,
            said('deleted', [...EACH].reverse()));
        assert.equal((await server.job(id)).status, 'ready');
        assert.equal((await tenax(['delete', id])).stdout, `${id} gone\n`);
        const gone = await tenax(['delete', 'queue', 'ml'], { code: 4 });
        assert.match(gone.stderr, /queue\/ml does not exist/);
        const file = write('infra.json', JSON.stringify({
            apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'infra' },
            spec: { defaultAction: 'Retry' },
        }));
        assert.equal((await tenax(['create', '-f', file])).stdout, 'retrypolicy/infra created\n');
        assert.equal((await tenax(['delete', 'retrypolicies', 'infra'])).stdout,
            'retrypolicy/infra deleted\n');
    });

    it('are_not_touched_by_a_dry_run', async () => {
        await clear();
        assert.equal((await tenax(['create', '--dry-run', '-f', all])).stdout,
            said('created (dry run)'));
        await tenax(['get', 'retrypolicy', 'infra'], { code: 4 });
        await tenax(['create', '-f', all]);
        assert.equal((await tenax(['delete', '--dry-run', '-f', all])).stdout,
            said('deleted (dry run)', [...EACH].reverse()));
        assert.equal((await tenax(['apply', '-f', all])).stdout, said('unchanged'));
    });

    it('are_refused_together_if_one_is_wrong', async () => {
        await clear();
        for (const [text, words] of [
            [ALL.replace('Evicted]', 'evicted]'), /line 7, column 49: spec\.rules\[0\]\.onCond/],
            [ALL.replace('retryPolicies', 'policies'), /input: line 22, column 3: spec\.policies: .*retryP/],
            [ALL.replace('kind: Queue', 'kind: Job'), /kind: expected RetryPolicy, FailureCategories or Queue/],
            [ALL.replace('name: ml}', 'name: "a,b"}'), /line 20, column 18: .*name/],
            [ALL + '---\nmetadata: {name: none}\n', /line 24, column 1: kind/],
            [ALL.replace('kind: Queue', 'kind: [Queue'), /line 1\d|line 2\d/],
            [ALL + '---\n' + TRAINING, /line 27, column 9: metadata\.name: .* on line 9 already/],
            ['', /there is no document in it/],
        ]) {
            const end = await tenax(['apply', '-f', '-'], { input: text, code: 2 });
            assert.match(end.stderr, words);
            assert.equal(end.stdout, '');
        }
        const twice = await tenax(['apply', '-f', all, '-f', all], { code: 2 });
        assert.match(twice.stderr, /on line 1 of \S+all\.yaml already, found "infra"/);
        assert.equal((await server.get('/retry-policies')).json.items.length, 0);
        const end = await tenax(['apply', '-f', path.join(dir, 'none.yaml')], { code: 2 });
        assert.match(end.stderr, /cannot read .*none\.yaml/);
    });

    it('that_the_server_refuses_do_not_keep_others_from_it', async () => {
        await clear();
        const end = await tenax(['apply', '-f', '-'], { input: `${QUEUE}---\n${INFRA}`, code: 1 });
        assert.match(end.stderr, /there is no retry policy 'infra'/);
        assert.equal(end.stdout, 'retrypolicy/infra created\n');
    });

    it('of_a_queue_come_from_the_command_line_too', async () => {
        await clear();
        await tenax(['create', '-f', '-'], { input: `${INFRA}---\n${TRAINING}` });
        const args = ['queue', 'ml', '--retry-policy', 'infra,ml-training'];
        assert.equal((await tenax(['create', ...args])).stdout, 'queue/ml created\n');
        assert.match((await tenax(['create', ...args], { code: 1 })).stderr, /already exists/);
        const get = (await tenax(['get', 'queue', 'ml'])).stdout;
        assert.match(get, /^ml +running .* infra,ml-training$/m);
        assert.equal((await tenax(['update', 'queue', 'ml', '--retry-policy', 'infra', '-o',
            'yaml'])).stdout.split('\n').at(-2), '  retryPolicies: [infra]');
    });

    it('of_a_queue_have_all_its_settings_and_keep_what_words_leave_out', async () => {
        await clear();
        const spec = 'spec: {paused: true, concurrency: 5, rate: {count: 3, perMs: 1000}, retryLimit: 2,'
            + ' retention: {deadMs: 5000}, backoff: {baseMs: 1, exponent: 2, jitterMs: 0}}\n';
        const input = QUEUE.replace(/spec:[^]*/, spec);
        assert.equal((await tenax(['create', '-f', '-'], { input })).stdout, 'queue/ml created\n');
        assert.equal((await tenax(['apply', '-f', '-'], { input })).stdout, 'queue/ml unchanged\n');
        const yaml = (await tenax(['get', 'queue', 'ml', '-o', 'yaml'])).stdout;
        assert.match(yaml, /perMs: 1000/);
        assert.equal((await tenax(['apply', '-f', '-'], { input: yaml })).stdout,
            'queue/ml unchanged\n');
        await tenax(['create', '-f', '-'], { input: INFRA });
        await tenax(['update', 'queue', 'ml', '--retry-policy', 'infra']);
        const queue = (await server.get('/queues/ml')).json;
        assert.deepEqual([queue.concurrency, queue.paused, queue.retry_policies],
            [5, true, ['infra']]);
        assert.match((await tenax(['get', 'queues'])).stdout, /^ml +paused +5 +3 per 1000 ms /m);
        const bad = await tenax(['apply', '-f', '-'],
            { input: input.replace('concurrency: 5', 'concurrency: 0'), code: 1 });
        assert.match(bad.stderr, /concurrency/);
        const less = input.replace('concurrency: 5, ', '');
        assert.equal((await tenax(['apply', '-f', '-'], { input: less })).stdout,
            'queue/ml configured\n');
        assert.equal((await server.get('/queues/ml')).json.concurrency, null);
    });

    it('are_not_guessed', async () => {
        for (const args of [['create'], ['apply', 'queue'], ['get'], ['get', 'job', 'x'],
            ['create', 'retrypolicy', 'x', '--retry-policy', 'y'], ['create', 'queue', 'x'],
            ['get', 'queue/'], ['delete', 'retrypolicy'], ['delete', '-f', all, '--everything'],
            ['delete', 'queue', 'ml', '--status', 'dead'], ['apply', '-f', all, 'queue', 'x'],
            ['apply', '-x'], ['apply', '-f']])
            await tenax(args, { code: 2 });
    });
});
