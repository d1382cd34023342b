// SPDX-License-Identifier: Apache-2.0
'use strict';

// GET /metrics: what it counts against what was done, its formats, and what is made from it:
// the list in docs/metrics.md, the dashboard, and the alerts. promtool is Prometheus' own.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { BIN, Server, makeDir, notOn, queueName, until, useServer } = require('./harness');

const SOURCE = path.join(__dirname, '../..');

function promtool(args, input = '') {
    const ran = spawnSync(path.join(SOURCE, 'tools/promtool'), [path.dirname(BIN), ...args],
        { input, encoding: 'utf8', cwd: SOURCE });
    return { status: ran.status, said: `${ran.stdout}${ran.stderr}` };
}

// The samples by name and labels, as in {'tenax_jobs{queue="a",status="ready"}': 1}.
function parse(text) {
    const samples = new Map();
    for (const line of text.split('\n').filter((each) => each && !each.startsWith('#'))) {
        const match = /^([a-z_]+)(\{.*\})? (\S+)$/.exec(line);
        assert.ok(match, line);
        const key = `${match[1]}${match[2] || ''}`;
        assert.ok(!samples.has(key), `only once: ${key}`);
        samples.set(key, Number(match[3].replace('+Inf', 'Infinity')));
    }
    return samples;
}

async function scrape(server) {
    const res = await server.get('/metrics');
    assert.equal(res.status, 200, res.text);
    return parse(res.text);
}

// The value of a sample that must be there.
function value(samples, key) {
    assert.ok(samples.has(key), `${key} is there`);
    return samples.get(key);
}

const jobs = (samples, queue, status) =>
    value(samples, `tenax_jobs{queue="${queue}",status="${status}"}`);
const count = (samples, what, queue) => value(samples, `tenax_jobs_${what}_total{queue="${queue}"}`);

async function post(server, target, body) {
    const res = await server.post(target, body);
    assert.ok(res.status < 300, res.text);
    return res.json;
}

describe('what happens to jobs', () => {
    const server = useServer();

    it('is_counted_by_queue_and_status', async () => {
        const queue = queueName();
        const later = Date.now() + 3600000;
        for (const fields of [{}, {}, { ready_at: later }])
            await server.enqueue({ queue, ...fields });
        await server.claimOne(queue);
        const m = await scrape(server);
        assert.equal(jobs(m, queue, 'ready'), 1);
        assert.equal(jobs(m, queue, 'in_flight'), 1);
        assert.equal(jobs(m, queue, 'scheduled'), 1);
        assert.equal(jobs(m, queue, 'completed'), 0);
        assert.equal(count(m, 'enqueued', queue), 3);
        assert.equal(count(m, 'taken', queue), 1);
    });

    it('is_counted_as_it_ends', async () => {
        const queue = queueName();
        for (let i = 0; i < 5; i++)
            await server.enqueue({ queue, retry_limit: 3 });
        const [done, retried, dead, returned] = await server.claim({ queues: [queue], count: 4 });
        await post(server, `/jobs/${done.id}/success`, {});
        await post(server, `/jobs/${retried.id}/failure`, { message: 'm' });
        await post(server, `/jobs/${dead.id}/failure`, { message: 'm', kill: true });
        await post(server, `/jobs/${returned.id}/release`, {});
        await post(server, `/jobs/${returned.id}/cancel`, {});
        const m = await scrape(server);
        for (const [what, want] of Object.entries({
            enqueued: 5, taken: 4, completed: 1, failed: 2, retried: 1, dead: 1, returned: 1,
            canceled: 1, rerun: 0, deleted: 0,
        }))
            assert.equal(count(m, what, queue), want, what);
        assert.equal(jobs(m, queue, 'dead'), 2);

        await post(server, `/jobs/${dead.id}/retry`, {});
        assert.equal((await server.delete(`/jobs/${dead.id}`)).status, 204);
        const after = await scrape(server);
        assert.equal(count(after, 'rerun', queue), 1);
        assert.equal(count(after, 'deleted', queue), 1);
    });

    it('is_not_counted_if_it_was_refused', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const job = await server.claimOne(queue);
        const body = { message: 'm', token: `${job.token}0` };
        assert.equal((await server.post(`/jobs/${job.id}/failure`, body)).status >= 400, true);
        assert.equal((await server.post('/jobs', { queue })).status, 400);
        const m = await scrape(server);
        assert.equal(count(m, 'failed', queue), 0);
        assert.equal(count(m, 'enqueued', queue), 1);
    });

    it('is_timed', async () => {
        const before_ = await scrape(server);
        let queue, ready, status;
        for (let ahead = 30; status !== 'scheduled'; ahead *= 2) { // on a slow machine not at once
            queue = queueName();
            ready = Date.now() + ahead;
            ({ status } = await server.enqueue({ queue, ready_at: ready }));
        }
        const job = await server.claimOne(queue);
        await post(server, `/jobs/${job.id}/success`, {});
        const m = await scrape(server);
        const grown = (key) => value(m, key) - value(before_, key);
        for (const histogram of ['tenax_job_wait_seconds_count',
            'tenax_job_run_seconds_count{outcome="success"}', 'tenax_job_lateness_seconds_count'])
            assert.equal(grown(histogram), 1, histogram);
        // Not longer than the test itself.
        const limit = (Date.now() - ready) / 1000 + 1;
        for (const histogram of ['tenax_job_wait_seconds_sum',
            'tenax_job_run_seconds_sum{outcome="success"}', 'tenax_job_lateness_seconds_sum'])
            assert.ok(grown(histogram) >= 0 && grown(histogram) <= limit, histogram);
    });

    it('is_not_late_if_a_command_chose_a_time_in_the_past', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, ready_at: Date.now() + 3600000 });
        const before_ = await scrape(server);
        const started = Date.now();
        assert.equal((await server.patch(`/jobs/${id}`, { ready_at: 1000 })).status, 200);
        await server.claimOne(queue);
        const m = await scrape(server);
        const grown = (key) => value(m, key) - value(before_, key);
        assert.equal(grown('tenax_job_lateness_seconds_count'), 0);
        assert.equal(grown('tenax_job_wait_seconds_count'), 1);
        assert.ok(grown('tenax_job_wait_seconds_sum') <= (Date.now() - started) / 1000 + 1);
    });

    it('is_counted_if_it_waits_for_other_jobs', async () => {
        const queue = queueName();
        const first = await server.enqueue({ queue });
        await server.enqueue({ queue, depends_on: [first.id] });
        assert.equal(jobs(await scrape(server), queue, 'blocked'), 1);
        await server.claimOne(queue);
        await post(server, `/jobs/${first.id}/success`, {});
        const m = await scrape(server);
        for (const [what, want] of Object.entries({ enqueued: 2, blocked: 1, unblocked: 1 }))
            assert.equal(count(m, what, queue), want, what);
        assert.equal(jobs(m, queue, 'ready'), 1);
    });

    it('has_no_wait_when_it_comes_back_without_a_failure', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const job = await server.claimOne(queue);
        const before_ = await scrape(server);
        await until(() => Date.now() > job.dequeued_at, 'the clock moves on');
        await post(server, `/jobs/${job.id}/release`, {});
        await server.claimOne(queue);
        const m = await scrape(server);
        const key = 'tenax_job_wait_seconds_count';
        assert.equal(value(m, key), value(before_, key));
    });
});

describe('what rules of policies decide', () => {
    const server = useServer({ args: ['--retry-policy-enabled'] });

    async function putPolicy(name, spec) {
        const res = await server.request('PUT', `/retry-policies/${name}`,
            { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name }, spec });
        assert.equal(res.status, 200, res.text);
    }

    async function failOnce(name, failure) {
        const queue = queueName();
        await server.enqueue({ queue, retry_policies: [name] });
        const { id } = await server.claimOne(queue);
        return post(server, `/jobs/${id}/failure`, { message: 'm', ...failure });
    }

    it('is_counted_by_rule', async () => {
        await putPolicy('counted', {
            defaultAction: 'Retry',
            rules: [{ action: 'Fail', onConditions: ['Preempted'] },
                { action: 'Retry', onConditions: ['Evicted'] }],
        });
        await failOnce('counted', { condition: 'Evicted' });
        await failOnce('counted', { condition: 'Evicted' });
        await failOnce('counted', { condition: 'Preempted' });
        await failOnce('counted', {});
        const m = await scrape(server);
        const rule = (n) => m.get(`tenax_policy_retries_total{policy="counted",rule="${n}"}`);
        assert.deepEqual([rule(1), rule(2), rule('default')], [undefined, 2, 1]);
        assert.equal(value(m, 'tenax_policy_pattern_give_ups_total'), 0);
    });

    it('is_counted_by_decision_and_by_who_decided_and_events_say_so', async () => {
        await putPolicy('decisive', {
            rules: [{ action: 'Fail', onConditions: ['Unschedulable'] },
                { action: 'Retry', onConditions: ['Evicted'], retryLimit: 0 },
                { action: 'Retry', onConditions: ['OOMKilled'] }],
        });
        const before_ = await scrape(server);
        const of = (m, verdict, by) => m.get(
            `tenax_failure_verdicts_total{verdict="${verdict}",decided_by="${by}"}`) || 0;
        const by = async (failure) => {
            const { id } = await failOnce('decisive', failure);
            const [event] = await server.history(`&job=${id}&event=job_dead,job_requeued`);
            return [event.event, event.decided_by, event.policy];
        };
        assert.deepEqual(await by({ condition: 'Unschedulable' }), ['job_dead', 'rule', 'decisive']);
        assert.deepEqual(await by({ condition: 'Evicted' }), ['job_dead', 'rule_limit', 'decisive']);
        assert.deepEqual(await by({ condition: 'OOMKilled' }), ['job_requeued', 'rule', 'decisive']);
        assert.deepEqual(await by({ exit_code: 3 }), ['job_dead', 'no_rule', undefined]);
        assert.deepEqual(await by({ kill: true }), ['job_dead', 'kill', undefined]);
        const m = await scrape(server);
        const grown = (verdict, who) => of(m, verdict, who) - of(before_, verdict, who);
        assert.deepEqual([grown('dead', 'rule'), grown('dead', 'rule_limit'), grown('retry', 'rule'),
            grown('dead', 'no_rule'), grown('dead', 'kill')], [1, 1, 1, 1, 1]);
        const decided = (rule, decision) => m.get(
            `tenax_policy_decisions_total{policy="decisive",rule="${rule}",decision="${decision}"}`);
        assert.deepEqual([decided(1, 'fail'), decided(2, 'rule_limit'), decided(3, 'retry')],
            [1, 1, 1]);
    });

    it('shows_expressions_that_go_over_their_budget', async () => {
        await putPolicy('costly', {
            defaultAction: 'Fail',
            rules: [{ action: 'Retry', onTerminationMessage: { pattern: '(a+)+$' } }],
        });
        await failOnce('costly', { termination_message: `${'a'.repeat(5000)}b` });
        const m = await scrape(server);
        assert.equal(value(m, 'tenax_policy_pattern_give_ups_total'), 1);
    });
});

describe('queues', () => {
    it('beyond_the_limit_are_one', async () => {
        const server = new Server({ args: ['--metrics-queues', '2'] });
        try {
            await server.start();
            for (const queue of ['a', 'b', 'c', 'd', 'c'])
                await server.enqueue({ queue });
            const m = await scrape(server);
            assert.equal(jobs(m, 'a', 'ready'), 1);
            assert.equal(jobs(m, '(other)', 'ready'), 3);
            assert.equal(count(m, 'enqueued', '(other)'), 3);
            assert.equal(m.has('tenax_jobs{queue="c",status="ready"}'), false);
        } finally {
            await server.clean();
        }
    });

    it('are_shown_after_a_restart_with_counters_from_zero', async () => {
        const server = new Server();
        try {
            await server.start();
            await server.enqueue({ queue: 'kept' });
            await server.stop();
            await server.start();
            const m = await scrape(server);
            assert.equal(jobs(m, 'kept', 'ready'), 1);
            assert.equal(count(m, 'enqueued', 'kept'), 0);
        } finally {
            await server.clean();
        }
    });
});

describe('the server', () => {
    const server = useServer();

    it('tells_of_commits', async () => {
        await server.enqueue({ queue: queueName() }); // after what the start has to write
        const before_ = await scrape(server);
        for (let i = 0; i < 3; i++)
            await server.enqueue({ queue: queueName() });
        const m = await scrape(server);
        const grown = (key) => value(m, key) - value(before_, key);
        assert.equal(grown('tenax_commit_seconds_count'), 3);
        assert.equal(grown('tenax_commit_records_count'), 3);
        assert.ok(grown('tenax_commit_seconds_sum') > 0);
        assert.ok(grown('tenax_commit_records_sum') >= 3);
        assert.ok(grown('tenax_commit_bytes_total') > 60);
    });

    it('tells_of_connections_streams_and_claims', async () => {
        const taker = await server.take('?queue=nothing-there');
        const claim = server.claim({ queues: ['nothing'], count: 1, wait_ms: 60000 });
        await until(async () => value(await scrape(server), 'tenax_claims_waiting') === 1);
        const m = await scrape(server);
        assert.equal(value(m, 'tenax_take_streams'), 1);
        assert.ok(value(m, 'tenax_connections{listener="primary"}') >= 3);
        assert.equal(value(m, 'tenax_connections{listener="admin"}'), 0);
        await server.enqueue({ queue: 'nothing' });
        await claim;
        taker.close();
        await until(async () => value(await scrape(server), 'tenax_take_streams') === 0);
    });

    it('counts_answers_by_class', async () => {
        const before_ = await scrape(server);
        await server.get('/nowhere');
        await server.get('/health');
        const m = await scrape(server);
        const grown = (code) => value(m, `tenax_http_responses_total{code="${code}"}`) -
            value(before_, `tenax_http_responses_total{code="${code}"}`);
        assert.equal(grown('4xx'), 1);
        assert.equal(grown('2xx'), 2); // the first scrape, and /health
        assert.equal(grown('5xx'), 0);
    });

    it('tells_of_its_process_and_its_disk', async () => {
        const m = await scrape(server);
        const { json: { version } } = await server.get('/version');
        assert.equal(value(m, `tenax_build_info{version="${version}"}`), 1);
        assert.equal(value(m, 'tenax_writable'), 1);
        for (const name of ['process_resident_memory_bytes', 'process_open_fds',
            'process_max_fds', 'tenax_store_bytes', 'tenax_disk_free_bytes',
            'process_cpu_seconds_total', 'tenax_uptime_seconds'])
            assert.ok(value(m, name) > 0, name);
        const age = Date.now() / 1000 - value(m, 'process_start_time_seconds');
        assert.ok(age > 0 && age < 600, `${age}`);
    });

    it('tells_how_long_its_loop_was_busy', async () => {
        const longest = (m, clock) => value(m, `tenax_loop_longest_seconds{clock="${clock}"}`);
        const before_ = await scrape(server);
        // Some megabytes of JSON take some milliseconds.
        await server.enqueue({ queue: 'wide', payload: Array(4000000).fill(1) });
        const busy = await scrape(server), idle = await scrape(server);
        assert.ok(longest(busy, 'cpu') > 0.004, `${longest(busy, 'cpu')}`);
        assert.ok(longest(busy, 'wall') >= longest(busy, 'cpu') * 0.9);
        assert.ok(longest(idle, 'cpu') < longest(busy, 'cpu'));
        const grown = (m, le) => value(m, `tenax_loop_seconds_bucket{le="${le}"}`) -
            value(before_, `tenax_loop_seconds_bucket{le="${le}"}`);
        assert.ok(grown(busy, '+Inf') > grown(busy, '0.002'));
        await until(async () => grown(await scrape(server), '0.002') > 0,
            'rounds in which it waits are short');
    });

    it('serves_them_on_the_admin_listener_too',
        notOn('standby', 'it answers GET /metrics itself'), async () => {
        const text = await new Promise((resolve, reject) => {
            http.get(`${server.adminUrl}/metrics`, (res) => {
                let body = '';
                res.on('data', (bytes) => { body += bytes; });
                res.on('end', () => resolve(body));
            }).on('error', reject);
        });
        assert.equal(value(parse(text), 'tenax_connections{listener="admin"}'), 1);
    });
});

describe('the format', () => {
    const server = useServer({ args: ['--retry-policy-enabled',
        '--retry-when-no-policy', 'default'] });
    let text;
    const odd = 'quo"ted';

    before(async () => {
        await server.enqueue({ queue: odd });
        const { id } = await server.claimOne(odd);
        await post(server, `/jobs/${id}/failure`, { message: 'm' });
        ({ text } = await server.get('/metrics'));
    });

    it('is_that_of_Prometheus', async () => {
        const res = await server.get('/metrics');
        assert.equal(res.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
        assert.deepEqual(promtool(['check', 'metrics'], res.text), { status: 0, said: '' });
    });

    it('is_OpenMetrics_for_who_asks', async () => {
        const res = await server.get('/metrics', { accept:
            'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5' });
        assert.equal(res.headers['content-type'],
            'application/openmetrics-text; version=1.0.0; charset=utf-8');
        assert.match(res.text, /^# TYPE tenax_jobs_enqueued counter$/m);
        assert.match(res.text, /^tenax_jobs_enqueued_total\{/m);
        assert.match(res.text, /le="1\.0"/);
        assert.ok(res.text.endsWith('\n# EOF\n'));
        assert.deepEqual([...parse(res.text).keys()].map((key) => key.replace(/(le="\d+)\.0"/, '$1"')),
            [...parse((await server.get('/metrics')).text).keys()]);
    });

    it('escapes_what_queues_are_called', () => {
        assert.match(text, /queue="quo\\"ted",status="scheduled"\} 1$/m);
    });

    it('has_histograms_that_only_grow_up_to_their_count', () => {
        const samples = parse(text);
        let last = {};
        for (const [key, n] of samples) {
            const match = /^(\w+)_bucket\{(.*?),?le="([^"]+)"\}$/.exec(key);
            if (!match)
                continue;
            const [, name, labels, upto] = match;
            if (last.id === `${name}{${labels}`)
                assert.ok(n >= last.n, key);
            last = { id: `${name}{${labels}`, n };
            if (upto === '+Inf')
                assert.equal(value(samples, `${name}_count${labels ? `{${labels}}` : ''}`), n);
        }
    });
});

describe('what is watched of a queue', () => {
    const server = useServer({ args: ['--metrics-queues', '2'] });
    const of = (samples, name, queue) => value(samples, `${name}{queue="${queue}"}`);

    it('is_since_when_its_oldest_ready_job_waits_and_what_holds_it', async () => {
        await server.enqueue({ queue: 'a', priority: 5 });
        await server.enqueue({ queue: 'a', priority: 9 });
        await server.patch('/queues/a', { paused: true, concurrency: 3 });
        await server.enqueue({ queue: 'b', ready_at: Date.now() + 3600000 });
        await until(async () =>
            of(await scrape(server), 'tenax_queue_oldest_ready_seconds', 'a') > 0.01);
        const m = await scrape(server);
        assert.equal(of(m, 'tenax_queue_oldest_ready_seconds', 'b'), 0);
        assert.deepEqual(['a', 'b'].map((q) => of(m, 'tenax_queue_paused', q)), [1, 0]);
        assert.deepEqual(['a', 'b'].map((q) => of(m, 'tenax_queue_concurrency', q)), [3, Infinity]);
    });

    it('is_who_was_lost_and_how_long_jobs_waited', async () => {
        const stream = await server.take('?queue=b');
        await server.enqueue({ queue: 'b' });
        await stream.next();
        assert.equal(of(await scrape(server), 'tenax_runs_lost_total', 'b'), 0);
        stream.close();
        await until(async () => of(await scrape(server), 'tenax_runs_lost_total', 'b') === 1);
        assert.equal(of(await scrape(server), 'tenax_leases_expired_total', 'b'), 0);
        await server.claimConfirmed('b', { lease_ms: 100 });
        await until(async () => of(await scrape(server), 'tenax_leases_expired_total', 'b') === 1);
        assert.ok(of(await scrape(server), 'tenax_queue_wait_seconds_count', 'b') >= 1);
    });

    it('begins_at_zero_for_those_that_share_a_row', async () => {
        // The rows are taken: what the others do is counted from now on.
        assert.equal(of(await scrape(server), 'tenax_jobs_dead_total', '(other)'), 0);
    });
});

describe('what is made of them', () => {
    const server = useServer();
    const families = new Map(); // name → type
    const names = new Set(); // of samples

    before(async () => {
        await server.enqueue({ queue: queueName() });
        const { text } = await server.get('/metrics');
        for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
            families.set(name, type);
            const suffixes = { histogram: ['_bucket', '_sum', '_count'], summary: ['_sum', '_count'] };
            for (const suffix of suffixes[type] ?? [''])
                names.add(name + suffix);
        }
    });

    // The names of metrics in an expression.
    const used = (expr) => expr.replace(/"[^"]*"/g, '').match(/\b(tenax|process)_[a-z_]+\b/g) || [];

    it('is_the_list_in_the_documents',
        notOn('postgres', 'its further metrics are in docs/several-servers.md'), () => {
        const text = fs.readFileSync(path.join(SOURCE, 'docs/metrics.md'), 'utf8');
        const rows = [...text.matchAll(/^\| `([a-z_]+)(?:\{[^`]*\})?` \| (\w+) \|/gm)];
        assert.deepEqual(new Map(rows.map(([, name, type]) => [name, type])), families);
    });

    it('is_a_dashboard_of_metrics_that_exist', () => {
        const file = path.join(SOURCE, 'docs/grafana/tenax.json');
        const board = JSON.parse(fs.readFileSync(file, 'utf8'));
        const expressions = board.panels.flatMap((panel) => (panel.targets || []).map((t) => t.expr));
        assert.ok(expressions.length > 15);
        for (const expr of expressions) {
            assert.ok(used(expr).length, expr);
            for (const name of used(expr))
                assert.ok(names.has(name), `${name} in ${expr}`);
        }
        assert.equal(new Set(board.panels.map((panel) => panel.id)).size, board.panels.length);
        // As rules, for promtool to see whether Prometheus could evaluate them.
        const dir = makeDir();
        const rules = expressions.map((expr, i) =>
            ({ record: `panel:${i}`, expr: expr.replaceAll('$__rate_interval', '5m') }));
        fs.writeFileSync(path.join(dir, 'rules.yml'),
            JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
        const checked = promtool(['check', 'rules', path.join(dir, 'rules.yml')]);
        fs.rmSync(dir, { recursive: true });
        assert.equal(checked.status, 0, checked.said);
    });

    it('is_a_set_of_alerts_that_promtool_accepts', () => {
        const text = fs.readFileSync(path.join(SOURCE, 'docs/prometheus/alerts.yml'), 'utf8');
        for (const name of used(text.replace(/^ *#.*$/gm, '')))
            assert.ok(names.has(name), name);
        const checked = promtool(['check', 'rules', 'docs/prometheus/alerts.yml']);
        assert.equal(checked.status, 0, checked.said);
    });

    it('is_alerts_that_fire_when_they_should', () => {
        const tested = promtool(['test', 'rules', 'docs/prometheus/alerts.test.yml']);
        assert.equal(tested.status, 0, tested.said);
        const alerts = fs.readFileSync(path.join(SOURCE, 'docs/prometheus/alerts.yml'), 'utf8');
        const tests = fs.readFileSync(path.join(SOURCE, 'docs/prometheus/alerts.test.yml'), 'utf8');
        for (const [, name] of alerts.matchAll(/^ *- alert: (\w+)$/gm))
            assert.match(tests, new RegExp(`alertname: ${name}\\b`), `a test of ${name}`);
    });
});
