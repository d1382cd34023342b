// SPDX-License-Identifier: Apache-2.0
'use strict';

// The command line against a real server.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, begin, makeDir, ownAddress, queueName, run, until, useServer } = require('./harness');

const UNKNOWN = '0'.repeat(24) + '1';
const HOUR = 3600000;
const COMMANDS = ['serve', 'audit', 'backup', 'restore', 'check', 'compact', 'tls', 'token', 'enqueue', 'events', 'work', 'crons', 'cron',
    'jobs', 'job', 'explain', 'failures', 'group', 'queues', 'workers', 'operations', 'release', 'retry', 'cancel', 'patch', 'delete', 'create', 'apply', 'get', 'update',
    'policy', 'postgres', 'queue', 'budgets', 'bridge', 'build-worker', 'executor', 'pods', 'retry-settings', 'servers', 'step-down', 'top', 'version',
    'completion', 'context', 'dev'];

// What `tenax ARGS` says to this server; it must end with that code.
function client(server) {
    return async (args, { code = 0, input = '', env = {} } = {}) => {
        const end = await run(args, { TENAX_URL: server.url(), ...env }, input);
        assert.equal(end.code, code, `tenax ${args.join(' ')}: ${end.stdout}${end.stderr}`);
        assert.ok(!(end.stdout + end.stderr).includes('\x1b'), 'no colours in a pipe');
        return end;
    };
}

function lines(text) {
    assert.ok(text === '' || text.endsWith('\n'), JSON.stringify(text));
    return text.split('\n').slice(0, -1);
}

// Rows of a table: the words of each line after the header.
function rows(text) {
    return lines(text).slice(1).map((line) => line.trim().split(/ {2,}/));
}

async function kill(server, id) {
    assert.equal((await server.post(`/jobs/${id}/cancel`)).status, 200);
}

describe('tenax enqueue', () => {
    const server = useServer();
    const tenax = client(server);
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    async function enqueue(args, options) {
        const { stdout } = await tenax(['enqueue', '--queue', 'q', '--type', 't', ...args], options);
        return server.job(lines(stdout)[0]);
    }

    it('prints_the_id_of_a_job_with_the_payload_from_an_argument', async () => {
        const { stdout, stderr } = await tenax(['enqueue', '--queue', 'q', '--type', 't', '{"a": 1.0}']);
        assert.match(stdout, /^[0-9a-z]{25}\n$/);
        assert.equal(stderr, '');
        assert.ok((await server.get(`/jobs/${stdout.trim()}`)).text.includes('{"a": 1.0}'));
    });

    it('reads_the_payload_from_a_file_or_from_standard_input', async () => {
        const file = path.join(dir, 'payload.json');
        fs.writeFileSync(file, '[1, "é"]\n');
        for (const [args, input] of [[['--file', file], ''], [['-'], '[1, "é"]'],
            [['--file', '-'], '[1, "é"]\n']])
            assert.deepEqual((await enqueue(args, { input })).payload, [1, 'é']);
    });

    it('sends_text_as_a_JSON_string', async () => {
        assert.equal((await enqueue(['--text', 'Call "Bob"'])).payload, 'Call "Bob"');
        assert.equal((await enqueue(['--text', '-'], { input: 'two\nlines\n' })).payload,
            'two\nlines');
        assert.equal((await enqueue(['--text', '--', '--dashed'])).payload, '--dashed');
    });

    it('passes_on_all_that_can_be_said_of_a_job', async () => {
        const start = Date.now();
        const job = await enqueue(['--priority', '7', '--retry-limit', '3', '--delay', '1h',
            '--backoff', '15s,4,30s', '--retain-completed', '1m', '--retain-dead', '2m',
            '--unique-key', 'all', '--unique-while', 'exists', 'null']);
        assert.equal(job.status, 'scheduled');
        assert.ok(job.ready_at >= start + HOUR && job.ready_at <= Date.now() + HOUR);
        assert.deepEqual([job.priority, job.retry_limit, job.unique_key, job.unique_while],
            [7, 3, 'all', 'exists']);
        assert.deepEqual(job.backoff, { base_ms: 15000, exponent: 4, jitter_ms: 30000 });
        assert.deepEqual(job.retention, { completed_ms: 60000, dead_ms: 120000 });
        const at = await enqueue(['--at', '2100-01-31T09:00:00Z', '1']);
        assert.equal(at.ready_at, Date.UTC(2100, 0, 31, 9));
    });

    it('prints_the_id_of_the_job_that_has_the_unique_key_already', async () => {
        const args = ['enqueue', '--queue', 'q', '--type', 't', '--unique-key', 'mine', '1'];
        const first = await tenax(args);
        assert.equal((await tenax(args)).stdout, first.stdout);
        const json = JSON.parse((await tenax([...args, '--output', 'json'])).stdout);
        assert.equal(json.duplicate, true);
        assert.equal(json.unique_while, 'queued');
    });

    it('enqueues_many_from_lines', async () => {
        const input = ['{"payload": 1}', '', '  ', '{"payload": 2, "priority": 3}',
            '{"payload": 3, "queue": "other", "type": "u"}'].join('\n');
        const { stdout, stderr } = await tenax(['enqueue', '--bulk', '--queue', 'bulk', '--type', 't',
            '--output', 'json'], { input });
        const jobs = JSON.parse(stdout);
        assert.deepEqual(jobs.map((job) => [job.queue, job.type, job.priority]),
            [['bulk', 't', 32768], ['bulk', 't', 3], ['other', 'u', 32768]]);
        assert.match(stderr, /^3 jobs enqueued in /);
    });

    it('ends_at_the_first_bad_line_and_says_which', async () => {
        const base = ['enqueue', '--bulk', '--queue', 'bad', '--type', 't'];
        for (const [bad, words] of [['{"payl', /line 3, column 7: /], ['{}', /line 3: .*payload/],
            ['[1]', /line 3/]]) {
            const input = `{"payload": 1}\n{"payload": 2}\n${bad}\n{"payload": 4}\n`;
            const { stderr } = await tenax([...base, '--batch', '1'], { input, code: 2 });
            assert.match(stderr, words);
            assert.match(stderr, /2 jobs enqueued .*stopped by the error above/);
            const all = await tenax(base, { input, code: 2 });
            assert.match(all.stderr, /Lines 1 to 2, in the same batch, were not sent either/);
        }
        assert.equal((await server.get('/jobs/count?queue=bad')).json.count, 6);
    });

    it('says_which_lines_the_server_refused', async () => {
        const { stderr } = await tenax(['enqueue', '--bulk', '--queue', 'refused', '--type', 't'],
            { input: '{"payload": 1}\n{"payload": 2, "priority": -1}\n', code: 1 });
        assert.match(stderr, /jobs\[1\]: priority: .*HTTP 400, bad_value/);
        assert.match(stderr, /jobs\[1\] is line 2\. Lines 1 to 2 were not stored/);
        assert.equal((await server.get('/jobs/count?queue=refused')).json.count, 0);
        const later = await tenax(['enqueue', '--bulk', '--queue', 'refused', '--type', 't', '--batch', '2'],
            { input: '{"payload": 1}\n\n{"payload": 2}\n{"payload": 3}\n\n{"payload": 4, "queue": "a*"}\n',
                code: 1 });
        assert.match(later.stderr, /jobs\[1\] is line 6\. Lines 4 to 6 were not stored/);
        assert.equal((await server.get('/jobs/count?queue=refused')).json.count, 2);
    });

    it('refuses_what_cannot_be_meant', async () => {
        for (const [args, words] of [
            [['--queue', 'q', '1'], /--type is missing/],
            [['--type', 't', '1'], /--queue is missing/],
            [['--queue', 'q', '--type', 't'], /no payload/],
            [['--queue', 'q', '--type', 't', '1', '2'], /one payload at a time/],
            [['--queue', 'q', '--type', 't', '{a'], /line 1, column 2: .*\nA payload is JSON; --text/],
            [['--queue', 'q', '--type', 't', ''], /not valid/],
            [['--queue', 'q', '--type', 't', '--file', '/nonexistent'], /cannot open \/nonexistent/],
            [['--queue', 'q', '--type', 't', '--file', 'x', '1'], /exclude each other/],
            [['--queue', 'q', '--type', 't', '--delay', '1s', '--at', '5', '1'], /exclude each other/],
            [['--queue', 'q', '--type', 't', '--at', 'noon', '1'], /'--at': 'noon' is not a time/],
            [['--queue', 'q', '--type', 't', '--backoff', '1s,2', '1'], /'--backoff'/],
            [['--queue', 'q', '--type', 't', '--unique-while', 'ever', '1'], /queued\|active\|exists/],
            [['--bulk', '--text'], /exclude each other/],
            [['--queue', 'q', '--type', 't', '--unique-while', 'active', '1'], /--unique-while needs --unique-key/],
            [['--queue', 'q', '--type', 't', '--retry-limit', '4294967296', '1'], /0 to 4294967295/],
            [['--bulk', 'word'], /--bulk reads jobs/],
        ]) {
            const { stdout, stderr } = await tenax(['enqueue', ...args], { code: 2 });
            assert.match(stderr, words);
            assert.equal(stdout, '');
        }
        assert.match((await tenax(['enqueue', '--queue', 'a*', '--type', 't', '1'],
            { code: 1 })).stderr, /queue: .*bad_name/);
    });
});

describe('tenax work', () => {
    const address = ['--host', ownAddress()];
    const server = new Server({ args: address });
    const tenax = client(server);
    const dir = makeDir();
    before(() => server.start());
    after(async () => {
        await server.clean();
        fs.rmSync(dir, { recursive: true });
    });

    let fifos = 0;
    function makeFifo() {
        const fifo = path.join(dir, `fifo-${++fifos}`);
        execFileSync('mkfifo', [fifo]);
        return fifo;
    }

    function work(args) {
        return begin(['work', ...args], { TENAX_URL: server.url() });
    }

    async function lastError(id) {
        return (await server.get(`/jobs/${id}/errors?order=desc`)).json.errors[0];
    }

    it('gives_the_payload_and_the_facts_to_the_command', async () => {
        const job = await server.enqueue({
            queue: queueName(), type: 'kind', payload: { to: 'ada' }, priority: 5,
            retention: { completed_ms: HOUR },
        });
        const { stdout, stderr } = await tenax(['work', '--queue', job.queue, '--once', '--name', 'w1',
            '--', 'sh', '-c', 'cat; echo; env | grep -E "^TENAX_(JOB|URL|WORKER)" | sort']);
        const [payload, ...facts] = lines(stdout);
        assert.equal(payload, '{"to":"ada"}');
        assert.deepEqual(facts, ['TENAX_JOB_ATTEMPT=1', `TENAX_JOB_ID=${job.id}`,
            'TENAX_JOB_PRIORITY=5', `TENAX_JOB_QUEUE=${job.queue}`, 'TENAX_JOB_RUN=0',
            'TENAX_JOB_TYPE=kind', `TENAX_URL=${server.url()}`, 'TENAX_WORKER=w1']);
        assert.match(stderr, new RegExp(`ok   ${job.id} kind `));
        assert.match(stderr, /end {2}1 ok, 0 failed\n$/);
        assert.equal((await server.job(job.id)).status, 'completed');
        assert.equal((await server.runs(job.id))[0].worker, 'w1');
    });

    it('hands_a_checkpoint_from_run_to_run_and_a_result_to_the_job', async () => {
        const { id, queue } = await server.enqueue({
            queue: queueName(), backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 },
            retention: { completed_ms: HOUR },
        });
        const script = 'if [ -s "$TENAX_CHECKPOINT_IN" ]; then '
            + 'cp "$TENAX_CHECKPOINT_IN" "$TENAX_RESULT"; else '
            + 'echo "0.5 half way" > "$TENAX_PROGRESS"; '
            + 'echo "page 7" > "$TENAX_CHECKPOINT_OUT"; exit 1; fi';
        await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c', script], { code: 1 });
        const failed = await server.job(id);
        assert.equal(failed.checkpoint, 'page 7\n');
        assert.equal(failed.checkpoint_run, 0);
        assert.deepEqual([failed.progress.value, failed.progress.note, failed.progress.run],
            [0.5, 'half way', 0]);
        await until(async () => (await server.job(id)).status === 'ready', 'its time has come');
        await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c', script]);
        const done = await server.job(id);
        assert.deepEqual([done.status, done.result, done.checkpoint],
            ['completed', 'page 7\n', undefined]);
    });

    it('keeps_its_connections_from_the_command', async () => {
        const { queue } = await server.enqueue({ queue: queueName() });
        const { stdout } = await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c',
            'for fd in /proc/$$/fd/*; do readlink $fd; done; cat /proc/net/tcp']);
        const port = server.url().split(':').pop();
        assert.ok(stdout.includes(Number(port).toString(16).toUpperCase().padStart(4, '0')), stdout);
        const connections = lines(stdout).map((line) => line.trim().split(/ +/)).filter((words) =>
            /^\d+:$/.test(words[0])).map((words) => words[9]);
        for (const [, inode] of stdout.matchAll(/socket:\[(\d+)\]/g))
            assert.ok(!connections.includes(inode), stdout);
    });

    it('tells_the_termination_message_that_its_command_leaves', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c',
            'printf "TRANSIENT: no seat\\nleft" > "$TENAX_TERMINATION_MESSAGE"; exit 3'],
        { code: 1 });
        assert.equal((await server.runs(id))[0].termination_message, 'TRANSIENT: no seat\nleft');
        assert.match((await tenax(['job', id])).stdout,
            /\n {4}termination message: TRANSIENT: no seat\n/);
    });

    it('tells_what_became_of_the_containers_of_a_pod', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await server.claimOne(queue);
        const res = await server.post(`/jobs/${id}/failure`, {
            message: 'm', pod_events: ['BackOff: again'],
            containers: [
                { name: 'fetch', init: true, exit_code: 0, reason: 'Completed' },
                {
                    name: 'main', exit_code: 137, signal: 9, reason: 'OOMKilled', message: 'big',
                    log: 'one\n\u001b[31mtwo\n',
                },
            ],
        });
        assert.equal(res.status, 200, res.text);
        const { stdout } = await tenax(['job', id]);
        assert.match(stdout, /\n {4}init container fetch: exit code 0, Completed\n/);
        assert.match(stdout, /\n {4}container main: exit code 137, signal 9, OOMKilled: big\n/);
        assert.match(stdout, /\n {8}one\n {8}[^\u001b]*two\n/);
        assert.match(stdout, /\n {4}event: BackOff: again\n/);
    });

    it('withdraws_its_claim_when_it_is_told_to_stop', async () => {
        const worker = work(['--queue', queueName(), '--name', 'waits', '--', 'true']);
        await until(async () =>
            (await server.delete('/jobs/claim?worker=waits')).json.withdrawn === 1, 'it claims');
        worker.child.kill('SIGTERM');
        const end = await worker.ended;
        assert.deepEqual([end.code, end.signal], [0, null], worker.stderr);
        assert.doesNotMatch(worker.stderr, /down|STOP|LOST/);
    });

    it('reports_a_failure_with_its_exit_status_and_the_end_of_standard_error', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const { stderr } = await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c',
            'echo first >&2; echo "no such user" >&2; exit 3'], { code: 1 });
        assert.match(stderr, /FAIL .* exit status 3: no such user \(retry 1 of 25, /);
        const error = await lastError(id);
        assert.equal(error.message, 'exit status 3: no such user');
        assert.equal(error.error_type, 'ExitStatus');
        assert.equal(error.exit_code, 3);
        assert.equal(error.backtrace, 'first\nno such user\n');
        assert.ok(error.run_ms >= 0);
        assert.equal((await server.job(id)).status, 'scheduled');
    });

    it('reports_a_signal', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await tenax(['work', '--queue', queue, '--once', '--', 'sh', '-c', 'kill -9 $$'], { code: 1 });
        const error = await lastError(id);
        assert.equal(error.message, 'signal 9 (Killed)');
        assert.equal(error.error_type, 'Signal');
        assert.equal(error.signal, 9);
        assert.ok(!('exit_code' in error));
    });

    it('ends_a_command_that_takes_too_long', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await tenax(['work', '--queue', queue, '--once', '--timeout', '50ms', '--', 'sleep', '600'],
            { code: 1 });
        const error = await lastError(id);
        assert.equal(error.error_type, 'Timeout');
        assert.match(error.message, /^timed out after 50 ms/);
    });

    it('kills_a_command_that_does_not_heed_SIGTERM', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await tenax(['work', '--queue', queue, '--once', '--timeout', '50ms', '--grace', '50ms', '--',
            'sh', '-c', 'trap "" TERM; while :; do sleep 1; done'], { code: 1 });
        assert.equal((await lastError(id)).error_type, 'Timeout');
    });

    it('takes_the_exit_code_of_kill_exit_as_the_end_of_the_job', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        await tenax(['work', '--queue', queue, '--once', '--kill-exit', '9', '--', 'sh', '-c', 'exit 9'],
            { code: 1 });
        const job = await server.job(id);
        assert.deepEqual([job.status, job.reason], ['dead', 'dead: killed by the worker']);
        const other = await server.enqueue({ queue });
        await tenax(['work', '--queue', queue, '--once', '--kill-exit', '9', '--', 'sh', '-c', 'exit 8'],
            { code: 1 });
        assert.equal((await server.job(other.id)).status, 'scheduled');
    });

    it('gives_a_job_back_for_later_if_its_command_says_so', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const end = await tenax(['work', '--queue', queue, '--once', '--give-back-exit', '7', '--', 'sh', '-c',
            'echo 2h > "$TENAX_READY_AT"; echo no disk > "$TENAX_TERMINATION_MESSAGE"; exit 7']);
        assert.match(end.stderr, /back .*ready in 1 h 59 min|back .*ready in 2 h/);
        const job = await server.job(id);
        assert.deepEqual([job.status, job.attempts], ['scheduled', 0]);
        assert.ok(Math.abs(job.ready_at - Date.now() - 7200000) < 600000);
        assert.match((await server.runs(id))[0].reason, /gave it back: no disk/);

        const other = await server.enqueue({ queue });
        const bare = await tenax(['work', '--queue', queue, '--once', '--give-back-exit', '7', '--', 'sh', '-c',
            'echo 60 > "$TENAX_READY_AT"; exit 7']);
        assert.match(bare.stderr, /ready-at is not sent: it must be a duration with its unit/);
        assert.equal((await server.job(other.id)).status, 'ready');
        const both = await tenax(['work', '--queue', queue, '--kill-exit', '7', '--give-back-exit', '7', '--', 'true'],
            { code: 2 });
        assert.match(both.stderr, /name one code/);
    });

    it('is_given_back_by_hand_at_once_or_for_later', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const first = await server.claimOne(queue);
        const stale = await tenax(['release', id, '--run-token', '0123456789abcdef'], { code: 1 });
        assert.match(stale.stderr, /stale_token/);
        const end = await tenax(['release', id, '--run-token', first.token, '--delay', '1h', '--message', 'no disk']);
        assert.match(end.stdout, new RegExp(`^${id} is given back; ready in`));
        assert.equal((await server.job(id)).status, 'scheduled');
        assert.match((await server.runs(id))[0].reason, /gave it back: no disk/);
        await server.patch(`/jobs/${id}`, { ready_at: null });
        const second = await server.claimOne(queue);
        const bare = await tenax(['release', id, '--run', '1'], { code: 1 });
        assert.match(bare.stderr, /run_token_required/);
        await tenax(['release', id, '--run', '1', '--run-token', second.token, '--at', '2100-01-02T00:00:00Z']);
        assert.equal((await server.job(id)).ready_at, 4102531200000);
        for (const [args, sentence] of [[['--delay', '1s', '--at', '1'], /exclude each other/],
            [['--at', 'soon'], /'soon' is not a time/]])
            assert.match((await tenax(['release', id, ...args], { code: 2 })).stderr, sentence);
    });

    it('says_the_category_that_the_command_has_found', async () => {
        const run = async (from, script) => {
            const { id, queue } = await server.enqueue({ queue: queueName(), retry_limit: 0 });
            await tenax(['work', '--queue', queue, '--once', ...from, '--', 'sh', '-c', script],
                { code: 1 });
            const [{ category, subcategory }] = await server.runs(id);
            return [category, subcategory];
        };
        const stderr = ['--category-from', 'stderr'];
        const script = 'printf "category=net\\ncategory=gpu/lost\\nbye\\n" >&2; exit 1';
        assert.deepEqual(await run(stderr, script), ['gpu', 'lost']);
        assert.deepEqual(await run([], script), [undefined, undefined]);
        assert.deepEqual(await run(stderr, 'echo nothing >&2; exit 1'), [undefined, undefined]);
        assert.deepEqual(await run(['--category-from', 'termination-message'],
            'echo category=disk > "$TENAX_TERMINATION_MESSAGE"; echo category=no >&2; exit 1'),
        ['disk', undefined]);
    });

    it('drains_its_queues_and_leaves_the_others', async () => {
        const [a, b, c] = [queueName(), queueName(), queueName()];
        const file = path.join(dir, 'drained');
        for (const [queue, payload] of [[a, 1], [b, 2], [a, 3], [c, 4]])
            await server.enqueue({ queue, payload });
        const { stderr } = await tenax(['work', '--queue', `${a},${b}`, '--drain', '--concurrency', '1',
            '--', 'sh', '-c', `cat >> ${file}; echo >> ${file}`]);
        assert.deepEqual(lines(fs.readFileSync(file, 'utf8')), ['1', '2', '3']);
        assert.match(stderr, /end {2}3 ok, 0 failed/);
        assert.equal((await server.get(`/jobs/count?queue=${c}`)).json.count, 1);
        await tenax(['work', '--queue', a, '--drain', '--', 'false']); // nothing there: fine
    });

    it('runs_as_many_at_a_time_as_it_may', async () => {
        const queue = queueName();
        const fifo = makeFifo();
        for (let i = 0; i < 3; i++)
            await server.enqueue({ queue });
        const worker = work(['--queue', queue, '--concurrency', '2', '--drain', '--', 'sh', '-c',
            `read x < ${fifo}`]);
        const flying = async () =>
            (await server.get(`/jobs/count?queue=${queue}&status=in_flight`)).json.count;
        await until(async () => await flying() === 2, 'two at a time');
        assert.equal((await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count, 1);
        await fs.promises.writeFile(fifo, 'a\nb\nc\n');
        while (worker.running()) /* one line each; whoever comes late needs another */
            await Promise.race([fs.promises.writeFile(fifo, 'x\n').catch(() => {}), worker.ended]);
        assert.equal((await worker.ended).code, 0, worker.stderr);
        assert.match(worker.stderr, /end {2}3 ok/);
        await releaseWriter(fifo);
    });

    // A writer that found no reader would keep this process alive.
    async function releaseWriter(fifo) {
        const fd = fs.openSync(fifo, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
        await new Promise((resolve) => setImmediate(resolve));
        fs.closeSync(fd);
    }

    it('returns_what_it_holds_when_it_is_told_to_stop', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const worker = work(['--queue', queue, '--grace', '0', '--', 'sh', '-c',
            'echo begun >&2; exec sleep 600']);
        await worker.says(/begun/);
        worker.child.kill('SIGTERM');
        const end = await worker.ended;
        assert.deepEqual([end.code, end.signal], [0, null], worker.stderr);
        assert.match(worker.stderr, /back .* returned unfinished to its queue/);
        const job = await server.job(id);
        assert.deepEqual([job.status, job.attempts], ['ready', 0]);
        assert.deepEqual((await server.runs(id)).map((r) => r.outcome), ['returned']);
    });

    it('lets_a_command_finish_when_it_is_told_to_stop', async () => {
        const { id, queue } = await server.enqueue({
            queue: queueName(), retention: { completed_ms: HOUR },
        });
        const fifo = makeFifo();
        const worker = work(['--queue', queue, '--', 'sh', '-c',
            `echo begun >&2; read x < ${fifo}`]);
        await worker.says(/begun/);
        worker.child.kill('SIGTERM');
        await worker.says(/stop waiting up to/);
        await fs.promises.writeFile(fifo, 'go\n');
        assert.equal((await worker.ended).code, 0, worker.stderr);
        assert.equal((await server.job(id)).status, 'completed');
    });

    it('goes_on_over_a_crash_of_the_server', async () => {
        const { id, queue } = await server.enqueue({
            queue: queueName(), retention: { completed_ms: HOUR },
        });
        const next = await server.enqueue({ queue, retention: { completed_ms: HOUR } });
        const fifo = makeFifo();
        const worker = work(['--queue', queue, '--lease', '1m', '--drain', '--', 'sh', '-c',
            `echo begun >&2; read x < ${fifo}`]);
        await worker.says(/begun/);
        const { port } = server;
        await server.signal('SIGKILL');
        await fs.promises.writeFile(fifo, 'go\n');
        await worker.says(/down /);
        await server.start({ args: [...address, '--port', String(port)] });
        await worker.says(/up /);
        await until(async () => (await server.job(next.id)).status === 'in_flight', 'the next one');
        await fs.promises.writeFile(fifo, 'go\n');
        assert.equal((await worker.ended).code, 0, worker.stderr);
        for (const job of [id, next.id]) {
            assert.equal((await server.job(job)).status, 'completed');
            assert.deepEqual((await server.runs(job)).map((r) => [r.run, r.outcome]),
                [[0, 'completed']]);
        }
    });

    it('ends_a_command_whose_job_was_canceled', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName() });
        const worker = work(['--queue', queue, '--once', '--lease', '5s', '--', 'sh', '-c',
            'echo begun >&2; exec sleep 600']);
        await worker.says(/begun/);
        await kill(server, id);
        assert.equal((await worker.ended).code, 1, worker.stderr);
        assert.match(worker.stderr, /LOST .* its run is over/);
        assert.equal((await server.job(id)).reason, 'dead: canceled by a command');
    });

    it('refuses_what_cannot_be_meant', async () => {
        for (const [args, words] of [
            [['--', 'true'], /which queue/], [['--queue', ',', '--', 'true'], /which queue/],
            [['--queue', 'q'], /which command/], [['--queue', 'q', '--'], /which command/],
            [['--queue', 'q', '--', 'no-such-command'], /no command 'no-such-command'/],
            [['--queue', 'q', '--', '/etc/passwd'], /no command/],
            [['--queue', 'q', '--lease', '999ms', '--', 'true'], /'--lease'/],
            [['--queue', 'q', '--url', 'nowhere:', '--', 'true'], /'--url'/],
        ])
            assert.match((await tenax(['work', ...args], { code: 2 })).stderr, words);
        const { stderr } = await tenax(['work', '--queue', 'a*', '--', 'true'], { code: 1 });
        assert.match(stderr, /STOP .*bad_name/);
    });
});

describe('tenax jobs, job and queues', () => {
    const server = useServer();
    const tenax = client(server);
    const made = {};
    before(async () => {
        made.ready = await server.enqueue({ queue: 'a', type: 'x', priority: 1, payload: { p: 1 } });
        made.scheduled = await server.enqueue({ queue: 'b', ready_at: Date.now() + HOUR });
        made.dead = await server.enqueue({ queue: 'c' });
        await server.claimOne('c', { worker: 'w' });
        await server.post(`/jobs/${made.dead.id}/failure`, {
            message: 'boom', error_type: 'Oops', backtrace: 'line 1\nline 2', exit_code: 4, kill: true,
        });
    });

    it('warn_of_a_change_to_a_queue_that_nobody_knows', async () => {
        await server.enqueue({ queue: 'letters' });
        const known = await tenax(['queue', 'letters', '--concurrency', '7']);
        assert.equal(known.stderr, '');
        const typo = await tenax(['queue', 'lettres', '--concurrency', '7']);
        assert.match(typo.stderr, /no queue 'lettres' until now.*did you mean 'letters'\?/);
        const again = await tenax(['queue', 'lettres', '--concurrency', 'none']);
        assert.equal(again.stderr, '');
        await tenax(['queue', 'lettres', '--delete']);
        const { json: { jobs } } = await server.get('/jobs?queue=letters');
        assert.equal((await server.delete(`/jobs/${jobs[0].id}`)).status, 204);
        await tenax(['queue', 'letters', '--delete']);
    });

    it('warn_of_a_worker_that_nobody_knows', async () => {
        await server.claim({ queues: ['none-here'], worker: 'worker-1', count: 1, wait_ms: 0 });
        const typo = await tenax(['workers', 'wroker-1', '--quiet']);
        assert.match(typo.stderr, /no worker 'wroker-1' until now; did you mean 'worker-1'\?/);
        assert.equal((await tenax(['workers', 'wroker-1', '--resume'])).stderr, '');
        assert.equal((await tenax(['workers', 'worker-1', '--quiet'])).stderr, '');
        await tenax(['workers', 'worker-1', '--resume']);
    });

    it('say_that_a_queue_in_which_nothing_was_found_is_unknown', async () => {
        for (const [args, none] of [[['jobs'], 'no such jobs'], [['retry'], ''], [['delete'], ''], [['cancel'], '']]) {
            const typo = await tenax([...args, '--queue', 'a,ab', '--type', 'none-of-this']);
            assert.match(typo.stderr, new RegExp(`${none}[^]*^tenax ${args[0]}: there is no queue 'ab'; .tenax queues. lists`, 'm'));
            const known = await tenax([...args, '--queue', 'a', '--type', 'none-of-this']);
            assert.doesNotMatch(known.stderr, /no queue/);
        }
        const found = await tenax(['jobs', '--queue', 'a,ab']);
        assert.equal(found.stderr, '', 'it is no error where there are jobs');
        for (const [args, yet] of [[['work', '--drain'], ' yet'], [['events'], ' yet'], [['explain'], ''], [['failures'], '']]) {
            const tail = args[0] === 'work' ? ['--', 'true'] : [];
            const typo = await tenax([...args, '--queue', ['explain', 'work'].includes(args[0]) ? 'ab' : 'a,ab', ...tail]);
            assert.match(typo.stderr, new RegExp(`^tenax ${args[0]}: there is no queue 'ab'${yet}; .tenax queues. lists`, 'm'));
            assert.doesNotMatch(typo.stderr, /no queue 'a'/);
        }
        assert.match((await tenax(['queue', 'ab'])).stderr, /^tenax queue: there is no queue 'ab';/);
        assert.equal((await tenax(['queue', 'a'])).stderr, '');
        await tenax(['budgets', 'set', 'images', '--allocation', '3']);
        const near = await tenax(['budgets', 'set', 'imagse', '--allocation', '3']);
        assert.match(near.stderr, /'imagse' is new; there is also 'images'/);
        assert.equal((await tenax(['budgets', 'set', 'imagse', '--allocation', '4'])).stderr, '');
        for (const key of ['images', 'imagse'])
            await tenax(['budgets', 'delete', key]);
    });

    it('list_all_or_those_that_match', async () => {
        const ids = async (...args) => {
            const { stdout } = await tenax(['jobs', ...args]);
            return rows(stdout).map((row) => row[0]);
        };
        const { ready, scheduled, dead } = made;
        assert.deepEqual(await ids(), [ready.id, scheduled.id, dead.id]);
        assert.deepEqual(await ids('--order', 'desc'), [dead.id, scheduled.id, ready.id]);
        assert.deepEqual(await ids('--status', 'dead,ready'), [ready.id, dead.id]);
        assert.deepEqual(await ids('--queue', 'b'), [scheduled.id]);
        assert.deepEqual(await ids('--type', 'x'), [ready.id]);
        assert.deepEqual(await ids('--priority', '..5'), [ready.id]);
        assert.deepEqual(await ids('--attempts', '1..'), [dead.id]);
        assert.deepEqual(await ids('--ready-at', `${Date.now() + 60000}..`), [scheduled.id]);
        assert.deepEqual(await ids('--limit', '1', '--all'), [ready.id, scheduled.id, dead.id]);
    });

    it('say_where_each_job_stands', async () => {
        const { stdout, stderr } = await tenax(['jobs', '--queue', 'c']);
        assert.match(lines(stdout)[0], /^ID +STATUS +QUEUE +TYPE +ATTEMPTS +WHEN +WHY/);
        const [row] = rows(stdout);
        assert.deepEqual([row[1], row[2], row[3], row[4]], ['dead', 'c', 'test', '1']);
        assert.equal(row.at(-1), 'dead: killed by the worker (Oops: boom)');
        assert.equal(stderr, '');
    });

    it('say_when_there_is_more_or_nothing', async () => {
        assert.match((await tenax(['jobs', '--limit', '1'])).stderr, /There are more; --all/);
        const none = await tenax(['jobs', '--queue', 'nobody']);
        assert.equal(none.stdout, '');
        assert.match(none.stderr, /no such jobs/);
        assert.deepEqual(await tenax(['jobs', '--queue', 'nobody', '--output', 'json']),
            { code: 0, signal: null, stdout: '[]\n', stderr: '' });
    });

    it('print_JSON_that_parses', async () => {
        const { stdout } = await tenax(['jobs', '--output', 'json', '--limit', '1', '--all']);
        assert.deepEqual(JSON.parse(stdout), (await server.get('/jobs')).json.jobs);
        const job = JSON.parse((await tenax(['job', made.dead.id, '--output', 'json'])).stdout);
        assert.deepEqual(job.job, await server.job(made.dead.id));
        assert.deepEqual(job.runs, await server.runs(made.dead.id));
        assert.equal(job.errors[0].backtrace, 'line 1\nline 2');
        const queues = JSON.parse((await tenax(['queues'], { env: { TENAX_OUTPUT: 'json' } })).stdout);
        assert.deepEqual(queues.map((q) => [q.queue, q.ready, q.scheduled, q.dead]),
            [['a', 1, 0, 0], ['b', 0, 1, 0], ['c', 0, 0, 1]]);
    });

    it('show_one_job_with_its_history', async () => {
        const { stdout } = await tenax(['job', made.dead.id]);
        for (const words of [/^status +dead$/m, /^why +dead: killed by the worker$/m,
            /^queue +c$/m, /^ *RUN +WORKER +TAKEN/m, /failed +4 +dead: killed/,
            /error of attempt 1, Oops: boom\n +line 1\n +line 2\n/])
            assert.match(stdout, words);
    });

    it('count_the_jobs_of_each_queue', async () => {
        const { stdout } = await tenax(['queues']);
        assert.deepEqual(rows(stdout), [['a', '0', '0', '1', '0', '0', '0'],
            ['b', '0', '1', '0', '0', '0', '0'], ['c', '0', '0', '0', '0', '0', '1']]);
    });

    it('say_what_is_wrong', async () => {
        for (const args of [['job'], ['job', 'x'], ['job', UNKNOWN, UNKNOWN], ['jobs', UNKNOWN],
            ['queues', 'a']])
            await tenax(args, { code: 2 });
        assert.match((await tenax(['job', UNKNOWN], { code: 4 })).stderr, /there is no job/);
        assert.match((await tenax(['job', UNKNOWN, '--delete'], { code: 4 })).stderr, /no job/);
        for (const args of [['--status', 'gone'], ['--priority', 'x'], ['--attempts', 'x']])
            assert.match((await tenax(['jobs', ...args], { code: 1 })).stderr, /HTTP 400, bad_value/);
        assert.match((await tenax(['jobs', '--priority', '9..1'], { code: 1 })).stderr,
            /priority begins after its end: '9\.\.1'/);
    });
});

describe('tenax retry, cancel, patch and delete', () => {
    const server = useServer();
    const tenax = client(server);

    async function makeDead(queue = queueName()) {
        const { id } = await server.enqueue({ queue });
        const held = await server.claimOne(queue);
        await server.post(`/jobs/${held.id}/failure`, { message: 'no', kill: true });
        assert.equal(held.id, id);
        return id;
    }

    it('change_the_jobs_with_these_ids', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        assert.equal((await tenax(['patch', id, '--set', '{"priority": 3}'])).stdout, `${id} ready \n`);
        assert.equal((await server.job(id)).priority, 3);
        assert.equal((await tenax(['cancel', id])).stdout,
            `${id} dead dead: canceled by a command\n`);
        assert.equal((await tenax(['retry', id])).stdout,
            `${id} ready brought back by a command\n`);
        assert.equal((await tenax(['delete', id])).stdout, `${id} gone\n`);
        await tenax(['job', id], { code: 4 });
    });

    it('retry_a_completed_job_only_with_completed', async () => {
        const { id, queue } = await server.enqueue({ queue: queueName(),
            retention: { completed_ms: 3600000 } });
        await server.claimOne(queue);
        await server.post(`/jobs/${id}/success`);
        await tenax(['retry', id], { code: 1 });
        assert.match((await tenax(['retry', '--completed', id])).stdout, / ready /);
        assert.match((await tenax(['retry', '--completed', '--queue', queue], { code: 2 })).stderr,
            /--completed goes with ids/);
    });

    it('go_on_after_one_that_cannot_be_changed_and_tell', async () => {
        const ids = [await makeDead(), UNKNOWN, await makeDead()];
        const { stdout, stderr } = await tenax(['retry', ...ids], { code: 4 });
        assert.deepEqual(lines(stdout).map((line) => line.split(' ')[0]), [ids[0], ids[2]]);
        assert.match(stderr, /there is no job/);
        const again = await tenax(['retry', ids[0], ids[2]], { code: 1 });
        assert.match(again.stderr, /only a dead job can be retried.*HTTP 422/);
        for (const args of [['cancel', await makeDead()], ['patch', await makeDead(), '--set', '{}']])
            assert.match((await tenax(args, { code: 1 })).stderr, /HTTP 422, unprocessable/);
    });

    it('change_all_that_match', async () => {
        const queue = queueName();
        const ids = [await makeDead(queue), await makeDead(queue)];
        const before = Date.now();
        assert.equal((await tenax(['retry', '--queue', queue, '--rate', '1'])).stdout,
            '2 jobs retried\n');
        const [first, second] = await Promise.all(ids.map((id) => server.job(id)));
        // Counted from the beginning; the first one's own time is that of its turn.
        assert.ok(second.ready_at >= before + 1000, `${second.ready_at - before} ms`);
        assert.ok(first.ready_at <= second.ready_at - 1, `${second.ready_at - first.ready_at} ms`);
        assert.equal((await tenax(['patch', '--queue', queue, '--set', '{"ready_at": null}'])).stdout,
            '2 jobs patched\n');
        assert.equal((await server.get(`/jobs/count?queue=${queue}&status=ready`)).json.count, 2);
        assert.equal((await tenax(['delete', '--queue', queue])).stdout, '2 jobs deleted\n');
        assert.equal((await tenax(['delete', '--queue', queue])).stdout, '0 jobs deleted\n');
    });

    it('leave_canceled_jobs_alone_unless_asked', async () => {
        const queue = queueName();
        const dead = await makeDead(queue);
        const { id } = await server.enqueue({ queue });
        await tenax(['cancel', id]);
        assert.equal((await tenax(['retry', '--queue', queue])).stdout, '1 job retried\n');
        assert.deepEqual([(await server.job(dead)).status, (await server.job(id)).status],
            ['ready', 'dead']);
        assert.equal((await tenax(['retry', '--resolution', 'canceled'])).stdout, '1 job retried\n');
        assert.equal((await server.job(id)).status, 'ready');
        await tenax(['cancel', id]);
        assert.equal((await server.post(`/jobs/retry?id=${id}`)).json.retried, 1);
    });

    it('select_by_time_error_and_worker', async () => {
        const queue = queueName();
        const { id } = await server.enqueue({ queue, retry_limit: 0 });
        await server.claimOne(queue, { worker: 'w7' });
        await server.post(`/jobs/${id}/failure`, { message: 'no route', error_type: 'Net' });
        const args = ['--queue', queue, '--since', '1h', '--error', 'route', '--worker', 'w7'];
        assert.match((await tenax(['jobs', ...args])).stdout,
            /dead: no retries are allowed \(Net: no route\)$/m);
        for (const since of ['2999-01-01T00:00:00Z', '4000000000000'])
            assert.match((await tenax(['jobs', '--queue', queue, '--since', since])).stderr,
                /no such jobs/);
        assert.equal((await tenax(['retry', ...args])).stdout, '1 job retried\n');
        for (const verb of ['jobs', 'retry'])
            assert.match((await tenax([verb, '--since', 'noon'], { code: 2 })).stderr,
                /'--since': 'noon' is neither how long ago/);
    });

    it('run_dry', async () => {
        const queue = queueName();
        const id = await makeDead(queue);
        for (const [verb, word] of [['retry', 'retried'], ['delete', 'deleted']]) {
            const { stdout } = await tenax([verb, '--queue', queue, '--dry-run']);
            assert.equal(stdout, `1 job would be ${word}\n  ${id} dead ${queue} test\n`);
        }
        assert.equal((await server.job(id)).status, 'dead');
        assert.equal((await tenax(['patch', '--queue', queue, '--set', '{}', '--dry-run'])).stdout,
            '0 jobs would be patched\n');
    });

    it('print_JSON_that_parses', async () => {
        const json = async (...args) =>
            JSON.parse((await tenax([...args, '--output', 'json'])).stdout);
        const queue = queueName();
        const { id } = await server.enqueue({ queue });
        assert.equal((await json('patch', id, '--set', '{"priority": 1}')).priority, 1);
        assert.equal((await json('cancel', id)).resolution, 'canceled');
        assert.equal((await json('retry', id)).status, 'ready');
        const dry = await json('delete', '--queue', queue, '--dry-run');
        assert.deepEqual([dry.dry_run, dry.count, dry.sample[0].id], [true, 1, id]);
        assert.deepEqual(await json('delete', id), { id, deleted: true });
        assert.deepEqual(await json('delete', '--queue', queue), { deleted: 0 });
    });

    it('refuse_what_cannot_be_meant', async () => {
        const { id } = await server.enqueue({ queue: queueName() });
        for (const [args, words] of [
            [['delete'], /which jobs/], [['retry'], /which jobs/], [['cancel'], /which jobs/],
            [['patch', '--set', '{}'], /which jobs/], [['patch', id], /--set says what/],
            [['delete', '--dry-run'], /which jobs/], [['delete', 'x'], /'x' is not a job id/],
            [['delete', id, '--queue', 'q'], /not both/], [['delete', id, '--everything'], /not both/],
            [['retry', id, '--dry-run'], /not both/], [['retry', id, '--rate', '5'], /--rate goes with/],
            [['retry', '--queue', 'q', '--rate', '0'], /'--rate'/],
            [['patch', id, '--set', '{x'], /'--set': not valid JSON/],
            [['patch', id, '--set', ''], /'--set': not valid JSON/],
        ])
            assert.match((await tenax(args, { code: 2 })).stderr, words);
        assert.match((await tenax(['patch', id, '--set', '{"priority": -1}'], { code: 1 })).stderr,
            /priority: .*HTTP 400/);
        assert.match((await tenax(['patch', id, '--set', '{"prio": 1}'], { code: 1 })).stderr,
            /unknown field 'prio'; did you mean 'priority'\? \(HTTP 400, unknown_field\)/);
        for (const args of [['delete', '--queue', ''], ['delete', '--status', 'nope']])
            await tenax(args, { code: 1 });
        assert.equal((await server.job(id)).status, 'ready');
    });

    it('delete_everything_only_when_told_so', async () => {
        const count = (await server.get('/jobs/count')).json.count;
        assert.ok(count > 0);
        assert.equal((await tenax(['delete', '--everything'])).stdout, `${count} jobs deleted\n`);
    });
});

describe('tenax version and help', () => {
    const server = useServer();
    const tenax = client(server);

    it('know_the_version_of_both_sides', async () => {
        const { stdout } = await tenax(['version']);
        assert.match(stdout, /^tenax \d+\.\d+\.\d+\n$/);
        assert.equal((await tenax(['--version'])).stdout, stdout);
        assert.match((await tenax(['version', '--server', '--url', server.url().replace('http', 'https')],
            { code: 3 })).stderr, /does not speak TLS; without TLS the URL is http:/);
        const number = stdout.trim().slice('tenax '.length);
        assert.equal((await tenax(['version', '--server'])).stdout,
            `${stdout}server ${number} at ${server.url()}\n`);
        assert.deepEqual(JSON.parse((await tenax(['version', '--server', '--output', 'json'])).stdout),
            { client: number, server: number });
        assert.deepEqual(JSON.parse((await tenax(['version', '--output', 'json'])).stdout),
            { client: number });
    });

    it('explain_every_command_in_lines_of_80', async () => {
        const overview = (await tenax(['help'])).stdout;
        for (const args of [['--help'], ['help', 'help'], ['help', '--help'], ['help', '-h']])
            assert.equal((await tenax(args)).stdout, overview);
        for (const line of lines(overview))
            assert.ok([...line].length <= 80, line);
        const named = [...overview.matchAll(/^ {2}([a-z-]+) {2,}\S/gm)].map((match) => match[1]);
        assert.deepEqual(named.filter((name) => name !== 'help').sort(), [...COMMANDS].sort());
        for (const command of COMMANDS) {
            const page = (await tenax(['help', command])).stdout;
            assert.match(page, new RegExp(`^tenax ${command}: .*\n\nUsage:\n  tenax ${command}`));
            for (const args of [[command, '--help'], [command, '-h']])
                assert.equal((await tenax(args)).stdout, page);
            assert.match(page, /^Examples:\n {2}\S/m);
            for (const line of lines(page.slice(0, page.indexOf('\nExamples:'))))
                assert.ok([...line].length <= 80 && !line.endsWith(' '), `${command}: '${line}'`);
        }
    });

    it('list_the_exit_codes', async () => {
        const { stdout } = await tenax(['help', 'exit-codes']);
        for (const code of [0, 1, 2, 3, 4, 74])
            assert.match(stdout, new RegExp(`^ {2}${code} {1,2}\\S`, 'm'));
    });

    it('guess_what_was_meant', async () => {
        const bare = await tenax([], { code: 2 });
        assert.match(bare.stderr, /^Usage:\n {2}tenax COMMAND/m);
        assert.equal(bare.stdout, '');
        for (const [typo, command] of [['enqeue', 'enqueue'], ['wrok', 'work'], ['jbos', 'jobs'],
            ['cancle', 'cancel'], ['pacth', 'patch']])
            for (const args of [[typo], ['help', typo]])
                assert.match((await tenax(args, { code: 2 })).stderr,
                    new RegExp(`unknown command '${typo}'; did you mean '${command}'\\?`));
        assert.match((await tenax(['frobnicate'], { code: 2 })).stderr,
            /unknown command 'frobnicate'\n/);
        assert.match((await tenax(['tls', '--frobnicate'], { code: 2 })).stderr,
            /unknown option '--frobnicate'; say first what to make: init, ca/);
        for (const command of ['jobs', 'policy'])
            assert.match((await tenax(['help', command, 'frobnicate'], { code: 2 })).stderr,
                new RegExp(`'${command}' has no action 'frobnicate'\n\`tenax help ${command}\``));
    });
});

// A few at a time: hundreds of processes at once would each be slow enough to be given up.
async function inTurns(items, check) {
    const left = [...items];
    const lane = async () => {
        while (left.length)
            await check(left.shift());
    };
    await Promise.all(Array.from({ length: 4 }, lane));
}

describe('every option of every command', () => {
    const options = {};
    const withOptions = COMMANDS.filter((command) => !['tls', 'completion'].includes(command)); // words
    before(async () => {
        for (const command of withOptions) {
            const { stdout } = await run(['help', command, '--markdown']);
            options[command] = [...stdout.matchAll(/^\| `--([a-z-]+)(?: ([^`]+))?` /gm)]
                .map(([, flag, value]) => ({ flag, value }));
            assert.ok(options[command].length >= 1, command);
        }
    });

    for (const command of withOptions) {
        it(`of_${command}_is_in_its_help`, async () => {
            const { stdout } = await run(['help', command]);
            for (const { flag, value } of options[command])
                assert.ok(stdout.includes(`\n  --${flag}${value ? ` ${value}` : ''}`), flag);
        });

        it(`of_${command}_is_guessed_from_a_typo`, async () => {
            await inTurns(options[command], async ({ flag }) => {
                const { code, stderr } = await run([command, `--${flag}x`, '1']);
                assert.equal(code, 2, stderr);
                assert.match(stderr, new RegExp(
                    `^tenax ${command}: unknown option '--${flag}x'; did you mean '--${flag}'`));
                assert.match(stderr, new RegExp(`\`tenax help ${command}\``));
            });
        });

        it(`of_${command}_refuses_a_value_that_is_none`, async () => {
            const typed = /^(COUNT|NUMBER|DURATION|CODE|SIZE|PORT|ORDER|FORMAT|SCOPE|MODE|LEVEL)$/;
            const cases = [];
            for (const { flag, value } of options[command]) {
                if (value)
                    cases.push([[`--${flag}`], `option '--${flag}': it needs a value: --${flag} `]);
                if (!value || typed.test(value))
                    for (const bad of ['nonsense', '-1'])
                        cases.push([[`--${flag}=${bad}`], `option '--${flag}': `]);
            }
            await inTurns(cases, async ([args, words]) => {
                const { code, stderr } = await run([command, ...args]);
                assert.equal(code, 2, `${args}: ${stderr}`);
                assert.ok(stderr.includes(words), stderr);
            });
        });
    }

    it('has_one_dash_only_for_h', async () => {
        assert.match((await run(['jobs', '-q'])).stderr, /options have two dashes/);
    });
});

describe('a server that is not there', () => {
    const args = {
        enqueue: ['--queue', 'q', '--type', 't', '1'], jobs: [], job: [UNKNOWN], queues: [],
        retry: ['--everything'], cancel: [UNKNOWN], patch: ['--everything', '--set', '{}'],
        delete: ['--everything'], version: ['--server'],
    };
    const listeners = [];
    after(() => listeners.forEach((listener) => listener.close()));

    async function listen(listener) {
        listeners.push(listener);
        await new Promise((resolve) => listener.listen(0, ownAddress(), resolve));
        return `http://${ownAddress()}:${listener.address().port}`;
    }

    async function assertSays(url, code, words, extra = []) {
        for (const [command, rest] of Object.entries(args)) {
            const end = await run([command, ...rest, ...extra], { TENAX_URL: url });
            assert.equal(end.code, code, end.stderr);
            assert.match(end.stderr, new RegExp(`^tenax ${command}: `));
            assert.match(end.stderr, words);
            assert.equal(end.stdout, '');
        }
    }

    it('is_said_to_be_unreachable', async () => {
        const listener = net.createServer();
        const url = await listen(listener);
        await new Promise((resolve) => listener.close(resolve));
        await assertSays(url, 3, /cannot reach .*connection refused; .* start it with: tenax serve/);
    });

    it('is_said_to_have_hung_up', async () => {
        const url = await listen(net.createServer((socket) =>
            socket.once('data', () => socket.destroy())));
        await assertSays(url, 3, /the connection broke before the answer was complete/);
    });

    it('is_said_not_to_answer', async () => {
        const url = await listen(net.createServer((socket) => {
            socket.unref();
            socket.on('error', () => {});
        }));
        await assertSays(url, 3, /no answer within 50 ms/, ['--http-timeout', '50ms']);
    });

    it('is_said_to_be_something_else', async () => {
        const url = await listen(http.createServer((req, res) => {
            res.writeHead(200, { connection: 'close' });
            res.end('<html>');
        }));
        await assertSays(url, 3, /is that a Tenax server\?/);
    });

    it('is_named_by_a_URL', async () => {
        for (const url of ['nowhere:', 'ftp://127.0.0.1', 'http://', 'http://127.0.0.1/?a'])
            for (const [command, rest] of Object.entries(args)) {
                const end = await run([command, ...rest, '--url', url]);
                assert.equal(end.code, 2, end.stderr);
                assert.match(end.stderr, /option '--url': .* is not the URL of a server/);
            }
        const server = new Server();
        await server.start();
        const bare = server.url().replace('http://', '');
        for (const args of [['jobs', '--url', bare], ['enqueue', '--queue', 'q', '--type', 't', '{}', '--url', `${bare}/`],
            ['work', '--queue', 'q', '--once', '--url', bare, '--', 'sh', '-c', `test "$TENAX_URL" = ${server.url()}`]])
            assert.equal((await run(args)).code, 0);
        assert.equal((await run(['jobs'], { TENAX_URL: bare })).code, 0);
        await server.clean();
    });
});
