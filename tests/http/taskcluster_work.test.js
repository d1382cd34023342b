// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax work --taskcluster`: a worker that runs Taskcluster's tasks, against a real server; the
// project's own client creates the tasks and looks at what became of them.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { begin, makeDir, notOn, ownAddress, run, until } = require('./harness');
const { HOUR, client, definition, slugid, useTaskcluster } = require('./taskcluster');

const LOG = 'public/logs/live.log';
const dir = makeDir();
after(() => fs.rmSync(dir, { recursive: true, force: true }));

let fifos = 0;

// A task that waits for it goes on when something is written to it.
function makeFifo() {
    const fifo = path.join(dir, `fifo-${++fifos}`);
    execFileSync('mkfifo', [fifo]);
    return fifo;
}

// Tasks, workers and what is left of them, on a server.
function useWork(server, environment = {}) {
    const env = () => ({ TASKCLUSTER_ROOT_URL: server.url(), TMPDIR: dir, ...environment });
    const as = { clientId: environment.TASKCLUSTER_CLIENT_ID,
        accessToken: environment.TASKCLUSTER_ACCESS_TOKEN };
    const queue = () => server.queue(as.clientId ? as : undefined);
    const given = (payload, fields) => definition({ payload: { maxRunTime: 60, ...payload }, ...fields });

    async function create(payload, fields) {
        const id = await slugid();
        const task = given(payload, fields);
        await (await queue()).createTask(id, task);
        return { id, queueId: task.taskQueueId };
    }

    function work(queueId, args = [], more = {}) {
        return begin(['work', '--taskcluster', '--task-queue', queueId, ...args], { ...env(), ...more });
    }

    // Runs one task to its end; returns its status.
    async function once(payload, { args = [], code = 0, fields } = {}) {
        const { id, queueId } = await create(payload, fields);
        const worker = work(queueId, ['--once', ...args]);
        assert.deepEqual(await worker.ended, { code, signal: null }, worker.stderr);
        const status = await statusOf(id);
        return { id, ...status, worker, log: await content(id, LOG) };
    }

    async function statusOf(id) {
        return (await (await queue()).status(id)).status;
    }

    async function artifacts(id, runId = 0) {
        const { artifacts: all } = await (await queue()).listArtifacts(id, runId);
        return Object.fromEntries(all.map((a) => [a.name, a]));
    }

    async function content(id, name, runId = 0) {
        const q = await queue();
        const res = await fetch(as.clientId ? q.buildSignedUrl(q.getArtifact, id, runId, name)
            : q.buildUrl(q.getArtifact, id, runId, name));
        assert.equal(res.status, 200);
        return res.text();
    }

    const state = (id, runId = 0) => async () => (await statusOf(id)).runs[runId]?.state;
    const reaches = (id, wanted, runId = 0) =>
        until(async () => await state(id, runId)() === wanted, `run ${runId} is ${wanted}`);
    return { artifacts, content, create, once, queue, reaches, statusOf, work };
}

// How the only run ended.
function ending({ runs }) {
    assert.equal(runs.length, 1);
    return [runs[0].state, runs[0].reasonResolved];
}

const sh = (script) => ['sh', '-c', script];

describe('a task that a worker runs', () => {
    const server = useTaskcluster();
    const { artifacts, content, create, once, reaches, work } = useWork(server);

    it('is_completed_and_its_log_is_an_artifact', async () => {
        const task = await once({ command: ['echo', 'hello', 'world'] },
            { args: ['--worker-group', 'here', '--worker-id', 'w-1'] });
        assert.deepEqual(ending(task), ['completed', 'completed']);
        assert.deepEqual([task.runs[0].workerGroup, task.runs[0].workerId], ['here', 'w-1']);
        assert.match(task.log, /^\[taskcluster .*\] task .{22}, run 0, on worker here\/w-1\n/);
        assert.match(task.log, /^hello world$/m);
        assert.match(task.log, /\] completed after .*\n$/);
        const { [LOG]: log } = await artifacts(task.id);
        assert.equal(log.contentType, 'text/plain; charset=utf-8');
        assert.match(task.worker.stderr, /ok {3}.{22} a task/);
        assert.match(task.worker.stderr, /end {2}1 ok, 0 failed/);
    });

    it('has_its_own_directory_and_environment_and_nothing_of_the_worker_s', async () => {
        const { id, queueId } = await create({ command: sh('env; pwd; cat; ls -A'),
            env: { MINE: 'a=b c', LANG: 'xx' } });
        const worker = work(queueId, ['--once'], { SECRET: 's3cr3t', TENAX_TOKEN: 's3cr3t' });
        assert.equal((await worker.ended).code, 0, worker.stderr);
        const log = await content(id, LOG);
        const env = Object.fromEntries([...log.matchAll(/^(\w+)=(.*)$/gm)].map(([, k, v]) => [k, v]));
        assert.equal(env.MINE, 'a=b c');
        assert.equal(env.LANG, 'xx');
        assert.deepEqual([env.TASK_ID, env.RUN_ID, env.TASK_GROUP_ID, env.TASKCLUSTER_ROOT_URL],
            [id, '0', id, server.url()]);
        assert.equal(env.HOME, env.TASK_WORKDIR);
        assert.ok(log.includes(`\n${env.TASK_WORKDIR}\n[taskcluster`), 'it runs there, and it is empty');
        assert.doesNotMatch(log, /s3cr3t/);
        assert.ok(!fs.existsSync(path.dirname(env.TASK_WORKDIR)), 'nothing is left of it');
    });

    it('runs_several_commands_until_one_fails', async () => {
        const good = await once({ command: [['touch', 'a'], ['ls'], sh('rm a')] });
        assert.deepEqual(ending(good), ['completed', 'completed']);
        assert.match(good.log, /command 2 of 3: ls\na\n/);
        const bad = await once({ command: [['true'], sh('exit 3'), ['echo', 'never']] }, { code: 1 });
        assert.deepEqual(ending(bad), ['failed', 'failed']);
        assert.match(bad.log, /\[taskcluster:error\] exit status 3\n/);
        assert.doesNotMatch(bad.log, /never/);
        assert.match(bad.worker.stderr, /FAIL .* exit status 3/);
    });

    it('fails_by_a_signal_and_by_a_later_command_that_is_not_there', async () => {
        const killed = await once({ command: sh('kill -9 $$') }, { code: 1 });
        assert.deepEqual(ending(killed), ['failed', 'failed']);
        assert.match(killed.log, /signal 9/);
        const gone = await once({ command: [['true'], ['no-such-command']] }, { code: 1 });
        assert.deepEqual(ending(gone), ['failed', 'failed']);
        assert.match(gone.log, /cannot start no-such-command: No such file/);
    });

    it('fails_when_it_takes_longer_than_maxRunTime', async () => {
        const task = await once({ command: sh('echo begun; sleep 600 & wait'), maxRunTime: 4 },
            { args: ['--grace', '100ms'], code: 1 });
        assert.deepEqual(ending(task), ['failed', 'failed']);
        assert.match(task.log, /^begun\n\[taskcluster:error\] the commands took longer than maxRunTime, 4 s$/m);
    });

    it('leaves_no_process_behind', async () => {
        const task = await once({ command: sh('sleep 600 & echo $!') });
        assert.deepEqual(ending(task), ['completed', 'completed']);
        const pid = /^(\d+)$/m.exec(task.log)[1];
        await until(() => !fs.existsSync(`/proc/${pid}/cwd`) ||
            /^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')), 'it is gone');
    });

    it('is_tried_again_after_an_exit_status_that_the_payload_names', async () => {
        const { id, queueId } = await create({ command: sh('[ $RUN_ID -gt 0 ] || exit 75'),
            onExitStatus: { retry: [74, 75] } });
        for (const code of [1, 0]) {
            const worker = work(queueId, ['--once']);
            assert.equal((await worker.ended).code, code, worker.stderr);
        }
        const { status } = await (await server.queue()).status(id);
        assert.deepEqual(status.runs.map((r) => [r.state, r.reasonResolved, r.reasonCreated]),
            [['exception', 'intermittent-task', 'scheduled'], ['completed', 'completed', 'task-retry']]);
        assert.match(await content(id, LOG), /intermittent-task: exit status 75, one of onExitStatus/);
    });

    it('keeps_only_so_much_of_a_long_log', async () => {
        const task = await once({ command: sh('yes | head -c 20000000; echo the end') });
        assert.deepEqual(ending(task), ['completed', 'completed']);
        assert.ok(task.log.length > 12 << 20 && task.log.length < (12 << 20) + 2000);
        assert.match(task.log.slice(-300), /\[taskcluster:error\] the log is full.*\n.*completed after/);
    });

    it('runs_beside_others', async () => {
        const [one, other] = [makeFifo(), makeFifo()];
        const { id, queueId } = await create({ command: sh(`echo > ${one}; read x < ${other}`) });
        const second = await create({ command: sh(`read x < ${one}; echo > ${other}`) },
            { taskQueueId: queueId });
        const worker = work(queueId, ['--concurrency', '2']);
        for (const task of [id, second.id])
            await reaches(task, 'completed');
        worker.child.kill('SIGTERM');
        assert.deepEqual(await worker.ended, { code: 0, signal: null }, worker.stderr);
    });
});

describe('a payload that cannot be run', () => {
    const server = useTaskcluster();
    const { artifacts, once } = useWork(server);

    it('is_an_exception_that_says_where_the_fault_is', async () => {
        for (const [payload, words, args] of [
            [{ command: undefined }, /payload: the member command is missing/],
            [{ command: [] }, /payload\.command: it must name what to run/],
            [{ command: ['ls', 7] }, /payload\.command\[1\]: expected a string, found a number/],
            [{ command: ['no-such-command'] }, /cannot start no-such-command: No such file/],
            [{ command: ['ls'], maxRunTime: 0 }, /payload\.maxRunTime: /],
            [{ command: ['ls'], maxRunTime: 61 }, /payload\.maxRunTime: .*--timeout/, ['--timeout', '1m']],
            [{ command: ['ls'], image: 'debian' }, /payload\.image: this worker knows no such member/],
            [{ command: ['ls'], artifacts: [{ name: 'x', path: '../x' }] },
                /payload\.artifacts\[0\]\.path: it leads out of the task's directory/],
        ]) {
            const task = await once(payload, { code: 1, args });
            assert.deepEqual(ending(task), ['exception', 'malformed-payload']);
            assert.match(task.log, words);
            assert.match(task.log, /\[taskcluster:error\] malformed-payload: /);
            assert.deepEqual(Object.keys(await artifacts(task.id)), [LOG]);
        }
    });
});

describe('artifacts of a task', () => {
    const server = useTaskcluster({ args: ['--taskcluster-artifact-space', '64MiB'] });
    const { artifacts, content, once } = useWork(server);

    for (const storage of ['s3', 'object']) {
        it(`are_files_and_directories_with_their_types_as_${storage}`, async () => {
            const expires = new Date(Date.now() + 2 * HOUR).toJSON();
            const task = await once({
                command: sh('mkdir -p out/deep; echo 1 > out/a.json; echo 2 > out/deep/b; printf "" > empty'),
                artifacts: [
                    { type: 'directory', path: 'out', name: 'public/out' },
                    { type: 'file', path: './out//a.json', name: 'public/a b+u',
                        contentType: 'text/x-mine', expires },
                    { path: 'empty' },
                ],
            }, { args: ['--artifact-storage', storage] });
            assert.deepEqual(ending(task), ['completed', 'completed'], task.worker.stderr);
            const made = await artifacts(task.id);
            assert.deepEqual(Object.keys(made).sort(),
                ['empty', 'public/a b+u', LOG, 'public/out/a.json', 'public/out/deep/b'].sort());
            assert.equal(made['public/out/a.json'].contentType, 'application/json');
            assert.equal(made['public/out/deep/b'].contentType, 'application/octet-stream');
            assert.equal(made['public/a b+u'].contentType, 'text/x-mine');
            assert.equal(made['public/a b+u'].expires, expires);
            assert.equal(made['public/a b+u'].storageType, storage);
            assert.equal(await content(task.id, 'public/a b+u'), '1\n');
            assert.equal(await content(task.id, 'public/out/deep/b'), '2\n');
            assert.equal(await content(task.id, 'empty'), '');
        });
    }

    it('that_are_missing_or_no_files_are_errors_and_fail_the_task', async () => {
        const task = await once({
            command: sh('mkdir d; mkfifo pipe; ln -s /etc/passwd link; ln -s /etc dir; echo x > good'),
            artifacts: [
                { path: 'nothing' }, { path: 'd', name: 'dir-as-file' }, { path: 'pipe' },
                { path: 'link' }, { path: 'dir/passwd', name: 'through' },
                { type: 'directory', path: 'dir', name: 'linked' }, { path: 'good' },
            ],
        }, { code: 1 });
        assert.deepEqual(ending(task), ['failed', 'failed']);
        const made = await artifacts(task.id);
        const reasons = {};
        for (const [name, { storageType }] of Object.entries(made))
            if (storageType === 'error')
                reasons[name] = (await server.fetch(
                    `/api/queue/v1/task/${task.id}/runs/0/artifacts/${name}`)).json.reason;
        const invalid = 'invalid-resource-on-worker';
        assert.deepEqual(reasons, { nothing: 'file-missing-on-worker', link: invalid, linked: invalid,
            pipe: invalid, through: invalid, 'dir-as-file': invalid });
        assert.match(task.log, /artifact nothing: there is no such file/);
        assert.match(task.log, /artifact link: .* symbolic link/);
        assert.match(task.log, /artifact through: .* symbolic link/);
        assert.doesNotMatch(task.log, /artifact good/);
        assert.equal(await content(task.id, 'good'), 'x\n');
        assert.match(task.worker.stderr, /FAIL .* artifact nothing: there is no such file/);
    });

    it('may_be_optional', async () => {
        const task = await once({ command: ['true'], artifacts: [{ path: 'core', optional: true }] });
        assert.deepEqual(ending(task), ['completed', 'completed']);
        assert.deepEqual(Object.keys(await artifacts(task.id)), [LOG]);
        assert.match(task.log, /artifact core: there is no such file; it is optional/);
    });

    it('are_made_of_failed_tasks_too_and_a_refused_one_fails_it',
        notOn('standby', 'a body through it is at most --max-body'), async () => {
        const failed = await once({ command: sh('echo 1 > a; exit 1'), artifacts: [{ path: 'a' }] },
            { code: 1 });
        assert.equal(await content(failed.id, 'a'), '1\n');
        const large = await once({ command: sh('head -c 70000000 /dev/zero > a'),
            artifacts: [{ path: 'a' }] }, { code: 1 });
        assert.deepEqual(ending(large), ['failed', 'failed']);
        assert.match(large.log, /artifact a: .*507/);
    });

    it('of_a_directory_are_not_without_number', async () => {
        const task = await once({ command: sh('mkdir d; cd d; seq 1001 | xargs touch'),
            artifacts: [{ type: 'directory', path: 'd', name: 'd' }] }, { code: 1 });
        assert.deepEqual(ending(task), ['failed', 'failed']);
        assert.match(task.log, /artifact d: it has too many files/);
        assert.equal((await artifacts(task.id)).d.storageType, 'error');
    });
});

describe('a run that ends otherwise', () => {
    const server = useTaskcluster({ args: ['--host', ownAddress(), '--taskcluster-claim-timeout', '9s'] });
    const { content, create, queue, reaches, statusOf, work } = useWork(server);

    it('is_ended_when_its_task_is_canceled', async () => {
        const { id, queueId } = await create({ command: sh('echo begun; exec sleep 600') });
        const worker = work(queueId, ['--once', '--grace', '1s']);
        await reaches(id, 'running');
        await (await queue()).cancelTask(id);
        assert.equal((await worker.ended).code, 1, worker.stderr);
        assert.match(worker.stderr, /LOST .* its run is over for the server; ending the command/);
        const { runs } = await statusOf(id);
        assert.deepEqual(runs.map((r) => r.reasonResolved), ['canceled']);
    });

    it('is_run_again_by_another_worker_when_its_worker_shuts_down', async () => {
        const fifo = makeFifo();
        const { id, queueId } = await create({
            command: sh(`echo run $RUN_ID; [ $RUN_ID = 1 ] || { echo > ${fifo}; sleep 600; }`),
        });
        const worker = work(queueId, ['--grace', '0', '--worker-id', 'first']);
        await fs.promises.readFile(fifo); // it is at work
        worker.child.kill('SIGTERM');
        assert.deepEqual(await worker.ended, { code: 0, signal: null }, worker.stderr);
        assert.match(worker.stderr, /back .* returned unfinished to its queue/);
        const again = work(queueId, ['--once', '--worker-id', 'second']);
        assert.equal((await again.ended).code, 0, again.stderr);
        const { runs } = await statusOf(id);
        assert.deepEqual(runs.map((r) => [r.state, r.reasonResolved, r.reasonCreated, r.workerId]), [
            ['exception', 'worker-shutdown', 'scheduled', 'first'],
            ['completed', 'completed', 'retry', 'second'],
        ]);
        assert.match(await content(id, LOG, 0), /run 0\n\[taskcluster:error\] the worker was told to end/);
        assert.match(await content(id, LOG, 1), /run 1\n/);
    });

    it('goes_on_while_its_worker_may_finish_it', async () => {
        const fifo = makeFifo();
        const { id, queueId } = await create({ command: sh(`echo begun; read x < ${fifo}`) });
        const worker = work(queueId);
        await reaches(id, 'running');
        worker.child.kill('SIGTERM');
        await worker.says(/stop waiting up to 30 s for 1 running/);
        await fs.promises.writeFile(fifo, 'go\n');
        assert.equal((await worker.ended).code, 0, worker.stderr);
        assert.equal((await statusOf(id)).state, 'completed');
    });

    it('outlives_a_crash_of_the_server', async () => {
        const fifo = makeFifo();
        const { id, queueId } = await create({
            command: sh(`read x < ${fifo}; echo made > a`), artifacts: [{ path: 'a' }],
        });
        const worker = work(queueId, ['--once']);
        await reaches(id, 'running');
        const { port } = server;
        await server.signal('SIGKILL');
        await fs.promises.writeFile(fifo, 'go\n');
        await server.start({ args: [...server.args, '--port', String(port)] });
        assert.equal((await worker.ended).code, 0, worker.stderr);
        const status = await statusOf(id);
        assert.deepEqual(status.runs.map((r) => r.reasonResolved), ['completed']);
        assert.equal(await content(id, 'a'), 'made\n');
    });

    it('is_held_as_long_as_it_takes', async () => {
        const { id, queueId } = await create({ command: ['sleep', '12'] }); // more than one claim holds
        const worker = work(queueId, ['--once']);
        assert.equal((await worker.ended).code, 0, worker.stderr);
        const { runs } = await statusOf(id);
        assert.deepEqual(runs.map((r) => r.reasonResolved), ['completed']);
    });
});

describe('a worker that polls', () => {
    const server = useTaskcluster();
    const { create, statusOf, work } = useWork(server);

    async function polled(what) {
        const { text } = await server.admin('GET', '/metrics');
        return Number(new RegExp(`^tenax_poll_messages_total\\{what="${what}"\\} (\\d+)`, 'm').exec(text)[1]);
    }

    it('claims_the_most_urgent_first_and_leaves_no_message', async () => {
        const { id: low, queueId } = await create({ command: ['true'] }, { priority: 'low' });
        const { id: high } = await create({ command: ['true'] },
            { priority: 'high', taskQueueId: queueId });
        const worker = work(queueId, ['--poll-urls', '--drain', '--worker-id', 'poller']);
        assert.equal((await worker.ended).code, 0, worker.stderr);
        const order = [...worker.stderr.matchAll(/ ok +(\S+)/g)].map((m) => m[1]);
        assert.deepEqual(order, [high, low]);
        assert.equal((await statusOf(low)).runs[0].workerId, 'poller');
        assert.equal(await polled('deleted'), 2);
    });

    it('waits_for_a_task_and_stops_when_it_is_told_to', async () => {
        const { id, queueId } = await create({ command: ['true'] }, { taskQueueId: 'prov/later' });
        const worker = work(queueId, ['--poll-urls', '--concurrency', '3']);
        await worker.says(/ok /);
        const next = await create({ command: ['true'] }, { taskQueueId: queueId });
        await until(async () => (await statusOf(next.id)).state === 'completed', 'the later one');
        worker.child.kill('SIGTERM');
        assert.deepEqual(await worker.ended, { code: 0, signal: null }, worker.stderr);
        assert.match(worker.stderr, /end {2}2 ok/);
        assert.equal((await statusOf(id)).state, 'completed');
    });

    it('deletes_messages_of_tasks_that_others_have_claimed', async () => {
        const { id, queueId } = await create({ command: ['true'] });
        const { json } = await server.fetch(`/api/queue/v1/poll-task-url/${queueId}`);
        // Its message is seen, and appears again a second later, when the task has been claimed.
        const url = json.queues[6].signedPollUrl.replace('visibilitytimeout=300', 'visibilitytimeout=1');
        const seen = async () => /MessageText/.test(await (await fetch(url)).text());
        assert.ok(await seen());
        await (await server.queue()).claimTask(id, 0, { workerGroup: 'g', workerId: 'other' });
        const deleted = await polled('deleted');
        await until(async () => {
            const worker = work(queueId, ['--poll-urls', '--drain']);
            assert.equal((await worker.ended).code, 0, worker.stderr);
            assert.doesNotMatch(worker.stderr, /poll|LOST/);
            return await polled('deleted') > deleted;
        }, 'the message is deleted');
        assert.equal((await statusOf(id)).runs[0].workerId, 'other');
    });
});

describe('a worker with credentials', () => {
    const token = 'a'.repeat(44);
    const scopes = ['queue:claim-work:prov/*', 'queue:worker-id:tenax/*', 'queue:poll-task-urls:prov/*',
        'queue:claim-task:prov/*'];
    const clients = [
        { clientId: 'root', accessToken: token, scopes: ['*'] },
        { clientId: 'worker', accessToken: token, scopes },
    ];
    const server = useTaskcluster({ clients });
    const root = { TASKCLUSTER_CLIENT_ID: 'root', TASKCLUSTER_ACCESS_TOKEN: token };
    const { create, content, reaches, statusOf, work } = useWork(server, root);
    const worker = { TASKCLUSTER_CLIENT_ID: 'worker', TASKCLUSTER_ACCESS_TOKEN: token };

    for (const how of [[], ['--poll-urls'], ['--artifact-storage', 'object']]) {
        it(`signs_with_them_and_those_of_the_claim ${how.join(' ')}`.trim(), async () => {
            const { id, queueId } = await create({
                command: sh('echo 1 > a; env; cat /proc/$PPID/environ'), artifacts: [{ path: 'a' }],
            });
            const ran = work(queueId, ['--once', ...how], worker);
            const { code } = await ran.ended;
            const status = await statusOf(id);
            assert.equal(status.runs[0].state === 'failed' ? 1 : 0, code, ran.stderr);
            assert.equal(await content(id, 'a'), '1\n');
            assert.doesNotMatch(`${await content(id, LOG)}${ran.stderr}`, new RegExp(token));
        });
    }

    it('may_have_temporary_ones', async () => {
        const { createTemporaryCredentials } = await client;
        const temporary = createTemporaryCredentials({
            clientId: 'worker-tonight', start: new Date(Date.now() - HOUR), expiry: new Date(Date.now() + HOUR),
            scopes, credentials: { clientId: 'root', accessToken: token },
        });
        const { id, queueId } = await create({ command: ['true'] });
        const ran = work(queueId, ['--once'], {
            TASKCLUSTER_CLIENT_ID: temporary.clientId,
            TASKCLUSTER_ACCESS_TOKEN: temporary.accessToken,
            TASKCLUSTER_CERTIFICATE: typeof temporary.certificate === 'string'
                ? temporary.certificate : JSON.stringify(temporary.certificate),
        });
        assert.equal((await ran.ended).code, 0, ran.stderr);
        await reaches(id, 'completed');
    });

    it('stops_when_they_are_wrong_or_do_not_suffice', async () => {
        const { queueId } = await create({ command: ['true'] });
        for (const [more, words, args = []] of [
            [{ ...worker, TASKCLUSTER_ACCESS_TOKEN: 'b'.repeat(44) }, /STOP .*401, AuthenticationFailed/],
            [{ ...worker, TASKCLUSTER_CLIENT_ID: 'nobody' }, /STOP .*no client 'nobody'.*401/],
            [{ TASKCLUSTER_CLIENT_ID: '', TASKCLUSTER_ACCESS_TOKEN: '' }, /STOP .*403, InsufficientScopes/],
            [worker, /STOP .*403, InsufficientScopes/, ['--worker-group', 'others']],
            [{ ...worker, TASKCLUSTER_ACCESS_TOKEN: 'b'.repeat(44) }, /STOP .*401/, ['--poll-urls']],
        ]) {
            const ran = work(queueId, args, more);
            assert.equal((await ran.ended).code, 1, ran.stderr);
            assert.match(ran.stderr, words);
            assert.doesNotMatch(ran.stderr, /aaaaaaaaaa|bbbbbbbbbb/);
        }
    });
});

// Stands for a queue that is not Tenax's: its storage is elsewhere, its clock is wrong, and the test
// says what it answers. routes: [method, pattern, (request, response, match) => answer].
async function otherDeployment(routes, ahead = 0) {
    const requests = [];
    const server = http.createServer((req, res) => {
        const chunks = [];
        req.on('data', (c) => chunks.push(c));
        req.on('end', async () => {
            const request = { method: req.method, path: req.url, headers: req.headers,
                body: Buffer.concat(chunks).toString() };
            requests.push(request);
            res.setHeader('date', new Date(Date.now() + ahead).toUTCString());
            const route = routes.find(([method, pattern]) => method === req.method && pattern.test(req.url));
            const answer = route ? await route[2](request, res, route[1].exec(req.url)) : { status: {} };
            if (typeof answer !== 'string')
                res.setHeader('content-type', 'application/json');
            res.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => { server.closeAllConnections(); server.close(); });
    const url = `http://127.0.0.1:${server.address().port}`;
    const iso = (ms) => new Date(Date.now() + ahead + ms).toJSON();
    const claim = (taskId, payload = {}, runId = 3) => ({
        status: { taskId }, runId, takenUntil: iso(HOUR),
        credentials: { clientId: 'task', accessToken: 'tt', certificate: '{"version":1}' },
        task: { deadline: iso(HOUR), expires: iso(2 * HOUR), taskGroupId: 'g', metadata: { name: 'n' },
            payload: { command: ['true'], maxRunTime: 60, ...payload } },
    });
    const env = { TASKCLUSTER_ROOT_URL: `${url}/`, TASKCLUSTER_CLIENT_ID: 'c',
        TASKCLUSTER_ACCESS_TOKEN: 't', TMPDIR: dir };
    const sent = (pattern) => requests.filter((r) => pattern.test(`${r.method} ${r.path}`));
    return { claim, env, iso, requests, sent, url };
}

describe('a worker of another deployment', () => {
    const TASK = 'fN1SbArXTPSVFUUvaOlinQ';
    const args = ['work', '--taskcluster', '--task-queue', 'p/t'];
    const artifacts = (url) => ['POST', /artifacts/, () => ({ storageType: 's3',
        putUrl: `${url()}/bucket/x?X-Signature=abc`, contentType: 'x', expires: '2040-01-01T00:00:00Z' })];

    it('signs_by_the_clock_of_the_server_and_uploads_where_it_says', async () => {
        const ahead = 3 * HOUR;
        let claims = 0;
        const other = await otherDeployment([
            ['POST', /claim-work/, () => ({ tasks: claims++ ? [] : [other.claim(TASK)] })],
            artifacts(() => other.url),
            ['PUT', /./, () => '<ok/>'],
        ], ahead);
        const ran = await run([...args, '--drain'], other.env);
        assert.equal(ran.code, 0, ran.stderr);
        const [first, create, put, completed] = other.requests;
        const ts = (r) => Number(/ts="(\d+)"/.exec(r.headers.authorization)[1]) * 1000;
        assert.match(first.path, /^\/api\/queue\/v1\/claim-work\/p%2Ft$/);
        assert.match(create.path, new RegExp(`/task/${TASK}/runs/3/artifacts/public%2Flogs%2Flive.log$`));
        assert.ok(Math.abs(ts(create) - Date.now() - ahead) < 60000, 'by the clock of the server');
        const ext = JSON.parse(Buffer.from(/ext="([^"]+)"/.exec(create.headers.authorization)[1], 'base64'));
        assert.deepEqual(ext, { certificate: { version: 1 } });
        assert.equal(put.path, '/bucket/x?X-Signature=abc');
        assert.equal(put.headers['content-type'], 'text/plain; charset=utf-8');
        assert.equal(put.headers.authorization, undefined);
        assert.equal(Number(put.headers['content-length']), put.body.length);
        assert.match(completed.path, /\/runs\/3\/completed$/);
    });

    for (const [name, taken, verb] of [
        ['finishes_its_uploads_when_it_is_told_to_stop', true, /completed$/],
        ['gives_the_run_back_if_they_take_too_long', false, /exception$/],
    ]) {
        it(name, async () => {
            let free, claims = 0, puttings = 0;
            const held = new Promise((resolve) => { free = resolve; });
            const payload = { command: ['touch', 'a'], artifacts: [{ path: 'a' }] };
            const other = await otherDeployment([
                ['POST', /claim-work/, () => (claims++ ? new Promise(() => {})
                    : { tasks: [other.claim(TASK, payload)] })],
                artifacts(() => other.url),
                ['PUT', /./, () => { puttings++; return held.then(() => ''); }],
            ]);
            const worker = begin([...args, '--grace', '0'], other.env);
            await until(() => puttings === 1, 'the upload has begun');
            worker.child.kill('SIGTERM');
            if (taken) {
                await worker.says(/stop /);
                free();
            }
            assert.deepEqual(await worker.ended, { code: 0, signal: null }, worker.stderr);
            const reports = other.sent(/runs\/3\/(completed|failed|exception)$/);
            assert.equal(reports.length, 1);
            assert.match(reports[0].path, verb);
            if (!taken)
                assert.deepEqual(JSON.parse(reports[0].body), { reason: 'worker-shutdown' });
            free();
        });
    }

    it('tries_uploads_again_until_the_storage_takes_them', async () => {
        let claims = 0, puts = 0;
        const answers = [503, 403, 200];
        const other = await otherDeployment([
            ['POST', /claim-work/, () => ({ tasks: claims++ ? [] : [other.claim(TASK)] })],
            artifacts(() => other.url),
            ['PUT', /./, (req, res) => { res.statusCode = answers[puts++]; return ''; }],
        ]);
        const ran = await run([...args, '--drain'], other.env);
        assert.equal(ran.code, 0, ran.stderr);
        assert.equal(puts, 3);
        assert.equal(other.sent(/POST .*artifacts/).length, 3);
        assert.equal(other.sent(/completed$/).length, 1);
    });

    it('treats_messages_as_poll_urls_demand', async () => {
        const message = (n, text, dequeues = 1) => `<QueueMessage><MessageId>m ${n}</MessageId>` +
            `<PopReceipt>+/=${n}</PopReceipt><DequeueCount>${dequeues}</DequeueCount><MessageText>${
                Buffer.from(JSON.stringify(text)).toString('base64')}</MessageText></QueueMessage>`;
        const ids = ['a', 'b', 'c'].map((c) => c + TASK.slice(1));
        const list = [[message(1, { taskId: ids[0], runId: 0 }, 11), message(2, { taskId: ids[1], runId: 0 }),
            message(3, 'no run'), message(4, { taskId: ids[2], runId: 0 })], []];
        let polls = 0, deletes = 0;
        const other = await otherDeployment([
            ['GET', /poll-task-url\/p\/t$/, () => ({ expires: other.iso(HOUR), queues: [{
                signedPollUrl: `${other.url}/azure/messages?sig=SECRET`,
                signedDeleteUrl: `${other.url}/azure/messages/{{messageId}}?popreceipt={{popReceipt}}&sig=SECRET`,
            }] })],
            ['GET', /azure/, () => `\ufeff<?xml version="1.0"?><QueueMessagesList>${
                (list[polls++] ?? []).join('')}</QueueMessagesList>`],
            ['POST', /runs\/0\/claim$/, (req, res) => {
                if (req.path.includes(ids[1])) {
                    res.statusCode = 409;
                    return { code: 'RequestConflict', message: 'claimed by another' };
                }
                return other.claim(/task\/(.{22})/.exec(req.path)[1], {}, 0);
            }],
            ['DELETE', /azure/, (req, res) => {
                res.statusCode = [503, 204, 204, 204, 404][deletes++];
                return res.statusCode === 404 ? '<Error><Code>MessageNotFound</Code></Error>' : '';
            }],
            artifacts(() => other.url),
            ['PUT', /./, () => ''],
        ]);
        const ran = await run([...args, '--poll-urls', '--drain', '--concurrency', '8'], other.env);
        assert.equal(ran.code, 0, ran.stderr);
        assert.equal(other.sent(/GET .*azure/)[0].path, '/azure/messages?sig=SECRET&numofmessages=8');
        assert.deepEqual(other.sent(/DELETE/).map((q) => /m%20(\d).*popreceipt=%2B%2F%3D(\d)&sig/.exec(q.path)
            .slice(1).join()), ['1,1', '1,1', '2,2', '3,3', '4,4']);
        assert.equal(other.sent(/completed$/).length, 2);
        assert.match(ran.stderr, /poll the message of task a.* was handed out 11 times/);
        assert.match(ran.stderr, /poll a message that names no run is deleted: m 3/);
        assert.match(ran.stderr, /poll the message of task c.* could not be deleted: .*HTTP 404/);
        assert.doesNotMatch(ran.stderr, /SECRET/);
    });
});

describe('tenax work --taskcluster', () => {
    const work = (args, env = {}) => run(['work', ...args], { TMPDIR: dir, ...env });
    const good = ['--taskcluster', '--task-queue', 'p/t'];

    it('refuses_what_cannot_be_meant', async () => {
        for (const [args, words, env] of [
            [['--taskcluster'], /which task queue\? give --task-queue/],
            [['--taskcluster', '--task-queue', 'p'], /'--task-queue': 'p' is not like ci\/linux/],
            [['--taskcluster', '--task-queue', 'p/t/x'], /'--task-queue'/],
            [['--taskcluster', '--task-queue', `p/${'t'.repeat(39)}`], /'--task-queue'/],
            [['--taskcluster', '--task-queue', '/t'], /'--task-queue'/],
            [[...good, '--worker-group', 'a b'], /'--worker-group': 'a b'/],
            [[...good, '--worker-id', 'w/1'], /'--worker-id': 'w\/1'/],
            [[...good, '--artifact-storage', 's4'], /'--artifact-storage'.*s4/],
            [[...good, '--queue', 'q'], /'--queue' is for jobs.*--task-queue/],
            [[...good, '--name', 'n'], /'--name' is for jobs.*--worker-id/],
            [[...good, '--node', 'n'], /'--node' is for jobs/],
            [[...good, '--lease', '5s'], /'--lease' is for jobs/],
            [[...good, '--kill-exit', '5'], /'--kill-exit' is for jobs/],
            [[...good, '--category-from', 'stderr'], /'--category-from' is for jobs/],
            [[...good, '--poll-url'], /--poll-url/],
            [[...good, '--tsak-queue', 'x/y'], /--tsak-queue/],
            [[...good, '--concurrency', '0'], /'--concurrency'/],
            [[...good, '--', 'true'], /tasks bring their commands; 'true' is one too many/],
            [[...good, '--url', 'nowhere:'], /'nowhere:' is not the URL/],
            [good, /'ftp:\/\/x' is not the URL/, { TASKCLUSTER_ROOT_URL: 'ftp://x' }],
            [good, /belong together/, { TASKCLUSTER_CLIENT_ID: 'c' }],
            [good, /belong together/, { TASKCLUSTER_ACCESS_TOKEN: 'secret' }],
            [good, /belong together/, { TASKCLUSTER_CERTIFICATE: '{}' }],
            [good, /certificate is not a JSON object/, { TASKCLUSTER_CLIENT_ID: 'c',
                TASKCLUSTER_ACCESS_TOKEN: 'secret', TASKCLUSTER_CERTIFICATE: '[' }],
            [good, /client id must be printable/, { TASKCLUSTER_CLIENT_ID: 'c"',
                TASKCLUSTER_ACCESS_TOKEN: 'secret' }],
            [['--poll-urls', '--queue', 'q', '--', 'true'], /'--poll-urls' needs --taskcluster/],
            [['--task-queue', 'p/t', '--queue', 'q', '--', 'true'], /'--task-queue' needs --taskcluster/],
        ]) {
            const { code, stderr, stdout } = await work(args, env);
            assert.equal(code, 2, `${args.join(' ')}: ${stderr}`);
            assert.match(stderr, words);
            assert.equal(stdout, '');
            assert.doesNotMatch(stderr, /secret/);
        }
    });
});
