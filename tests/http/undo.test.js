// SPDX-License-Identifier: Apache-2.0
'use strict';

// Undoing a change of many jobs: what comes back is what there was, and what has gone on meanwhile is
// left as it is.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { describe, it } = require('node:test');
const { BIN, Server, assertError, jobOf, queueName, repeat, run, until, useServer } = require('./harness');
const { guarded } = require('./access');

// A change with an undo: the operation's id.
async function changed(res) {
    assert.equal(res.status, 200, res.text);
    assert.ok(res.json.operation > 0, res.text);
    return res.json.operation;
}

async function undo(server, id) {
    const res = await server.post(`/operations/${id}/undo`);
    assert.equal(res.status, 200, res.text);
    return res.json.undo;
}

async function operation(server, id) {
    const res = await server.get(`/operations/${id}`);
    assert.equal(res.status, 200, res.text);
    return res.json;
}

// All that there is to see of jobs.
async function seen(server, ids) {
    return Promise.all(ids.map(async (id) => ({
        job: await server.job(id), runs: await server.runs(id),
    })));
}

async function die(server, queue) {
    const { id, token } = await server.claimOne(queue);
    const res = await server.post(`/jobs/${id}/failure`, { token, message: 'broke', kill: true });
    assert.equal(res.status, 200, res.text);
    return id;
}

async function complete(server, queue) {
    const { id, token } = await server.claimOne(queue);
    assert.equal((await server.post(`/jobs/${id}/success`, { token, result: { done: 1 } })).status, 204);
    return id;
}

async function gone(server, id) {
    assertError(await server.get(`/jobs/${id}`), 404, 'not_found');
}

// The command in a terminal of its own, where somebody types the answer: {code, said}.
function inTerminal(server, args, answer) {
    const line = [BIN, ...args, '--url', server.url()].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qefc', line, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
    let said = '', asked = false;
    child.stdout.on('data', (bytes) => {
        said += bytes;
        if (!asked && /(no|\[y\/N\]) $/.test(said)) {
            asked = true;
            child.stdin.write(`${answer}\n`);
        }
    });
    return new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code) => resolve({ code, said, asked }));
    });
}

describe('a change of more than a thousand jobs in a terminal', () => {
    const server = useServer();
    const count = async (queue, more = '') => (await server.get(`/jobs/count?queue=${queue}${more}`)).json.count;
    const fill = (queue, n) => server.enqueueMany(Array.from({ length: n }, () => ({ queue, type: 't', payload: 1 })));

    it('asks_first_and_changes_nothing_unless_told_to', async () => {
        const queue = queueName();
        await fill(queue, 1001);
        for (const answer of ['n', '', 'x']) {
            const { code, said, asked } = await inTerminal(server, ['delete', '--queue', queue], answer);
            assert.deepEqual([code, asked], [1, true], said);
            assert.match(said, /1001 jobs would be deleted\. Go on\?/);
            assert.match(said, /nothing was changed/);
        }
        assert.equal(await count(queue), 1001);
        const canceled = await inTerminal(server, ['cancel', '--queue', queue], 'y');
        assert.deepEqual([canceled.code, canceled.asked], [0, true], canceled.said);
        assert.match(canceled.said, /1001 jobs canceled/);
        const again = ['retry', '--queue', queue, '--resolution', 'canceled'];
        const undone = await inTerminal(server, [...again, '--undo', '2h'], 'y');
        assert.match(undone.said, /1001 jobs would be retried\. That can be undone afterwards\. Go on\? \[y\/N\] /);
        assert.match(undone.said, /tenax operations \d+ --undo/);
        assert.equal(await count(queue, '&status=ready'), 1001);
    });

    it('offers_that_it_can_be_undone', async () => {
        const queue = queueName();
        await fill(queue, 1001);
        const { code, said } = await inTerminal(server, ['delete', '--queue', queue], 'u');
        assert.equal(code, 0, said);
        const [, id] = /tenax operations (\d+) --undo/.exec(said);
        assert.equal(await count(queue), 0);
        assert.equal((await undo(server, id)).undone, 1001);
        assert.equal(await count(queue), 1001);
    });

    it('asks_neither_of_a_thousand_nor_with_yes_nor_without_a_terminal', async () => {
        const few = queueName(), many = queueName();
        await fill(few, 1000);
        await fill(many, 1001);
        for (const args of [['--queue', few], ['--queue', many, '--yes']]) {
            const { code, said, asked } = await inTerminal(server, ['delete', ...args], 'n');
            assert.deepEqual([code, asked], [0, false], said);
            assert.match(said, /100[01] jobs deleted/);
        }
        await fill(many, 1001);
        const end = await run(['delete', '--queue', many, '--url', server.url()]);
        assert.deepEqual([end.code, end.stdout], [0, '1001 jobs deleted\n'], end.stderr);
    });
});

describe('an undone deletion', () => {
    const server = useServer();

    it('brings_back_jobs_of_every_status_with_their_runs_and_results', async () => {
        const queue = queueName();
        const retention = { completed_ms: 3600000, dead_ms: 3600000 };
        await server.enqueue({ queue, retention });
        const completed = await complete(server, queue);
        await server.enqueue({ queue });
        const dead = await die(server, queue);
        const waiting = await server.enqueueMany([
            { queue, payload: { big: 'x'.repeat(10000) }, priority: 7, unique_key: queue },
            { queue, ready_at: Date.now() + 3600000, alias: `a-${queue}` },
        ]);
        const blocked = await server.enqueue({ queue, depends_on: [waiting[1]] });
        const ids = [completed, dead, ...waiting, blocked.id];
        const before = await seen(server, ids);
        const id = await changed(await server.delete(`/jobs?queue=${queue}&undo=1h`));
        await Promise.all(ids.map((each) => gone(server, each)));
        const kept = (await operation(server, id)).undo;
        assert.deepEqual([kept.state, kept.undone, kept.not_undone], ['available', 0, 0]);
        assert.ok(kept.until > Date.now() + 3500000 && kept.bytes > 10000);
        const done = await undo(server, id);
        assert.deepEqual([done.state, done.undone, done.not_undone, done.bytes],
            ['done', 5, 0, 0]);
        assert.deepEqual(await seen(server, ids), before);
        const same = await server.post('/jobs', { type: 'test', queue, payload: null, unique_key: queue });
        assert.deepEqual([same.status, jobOf(same.json).id], [200, waiting[0]], 'it has its key');
        assert.deepEqual(await undo(server, id), done, 'again changes nothing');
        const events = (await server.history(`&queue=${queue}&event=job_restored`));
        assert.deepEqual(events.map((e) => [e.id, e.from, e.cause]).sort(), [
            [completed, null, 'restore_completed'], [dead, null, 'restore_dead'],
            ...[...waiting, blocked.id].map((each) => [each, null, 'restore'])].sort());
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('lets_a_job_run_that_was_in_flight', async () => {
        const queue = queueName();
        await server.enqueue({ queue, payload: 5 });
        const held = await server.claimOne(queue, { worker: 'w' });
        const id = await changed(await server.delete(`/jobs?queue=${queue}&undo=1h`));
        assert.equal((await undo(server, id)).undone, 1);
        const [first] = await server.runs(held.id);
        assert.deepEqual([first.outcome, first.worker], ['returned', 'w']);
        assertError(await server.post(`/jobs/${held.id}/success`, { token: held.token }), 409,
            'stale_token');
        const again = await server.claimOne(queue);
        assert.deepEqual([again.id, again.payload], [held.id, 5]);
        assert.equal((await server.post(`/jobs/${again.id}/success`, { token: again.token })).status,
            204);
    });

    it('leaves_out_what_others_have_taken', async () => {
        const queue = queueName();
        const [unique, aliased, free] = await server.enqueueMany([
            { queue, unique_key: queue }, { queue, alias: queue }, { queue },
        ]);
        const id = await changed(await server.delete(`/jobs?queue=${queue}&undo=1h`));
        await server.enqueueMany([{ queue, unique_key: queue }, { queue, alias: queue }]);
        const done = await undo(server, id);
        assert.deepEqual([done.undone, done.not_undone], [1, 2]);
        assert.deepEqual(done.reasons, [{ reason: 'unique_key', jobs: 1 },
            { reason: 'alias', jobs: 1 }]);
        await gone(server, unique);
        await gone(server, aliased);
        await server.job(free);
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('restores_groups_as_they_were', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(3, { queue, group: queue }));
        await server.post(`/groups/${queue}/seal`);
        const before = (await server.get(`/groups/${queue}`)).json;
        const id = await changed(await server.delete(`/jobs?group=${queue}&undo=1h`));
        assertError(await server.get(`/groups/${queue}`), 404, 'not_found');
        assert.equal((await undo(server, id)).undone, 3);
        assert.deepEqual((await server.get(`/groups/${queue}`)).json, before);
        assertError(await server.post('/jobs', { type: 't', queue, payload: 1, group: queue }), 409,
            'group_sealed');
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('lets_jobs_wait_for_those_that_are_not_done', async () => {
        const queue = queueName();
        const first = await server.enqueue({ queue: `${queue}-a` });
        const second = await server.enqueue({ queue: `${queue}-b`, depends_on: [first.id] });
        const id = await changed(await server.delete(`/jobs?queue=${queue}-b&undo=1h`));
        await complete(server, `${queue}-a`);
        assert.equal((await undo(server, id)).undone, 1);
        assert.equal((await server.job(second.id)).status, 'ready');
        await complete(server, `${queue}-b`);
    });
});

describe('an undone cancel', () => {
    const server = useServer();

    it('brings_back_what_is_still_canceled', async () => {
        const queue = queueName();
        const [first, retried] = await server.enqueueMany([{ queue, priority: 3 }, { queue, priority: 9 }]);
        const before = await server.job(first);
        const id = await changed(await server.post(`/jobs/cancel?queue=${queue}&undo=1h`));
        assert.equal((await server.job(first)).status, 'dead');
        assert.equal((await server.post(`/jobs/${retried}/retry`)).status, 200);
        const done = await undo(server, id);
        assert.deepEqual([done.undone, done.not_undone, done.reasons],
            [1, 1, [{ reason: 'changed', jobs: 1 }]]);
        assert.deepEqual(await server.job(first), before);
        assert.equal((await complete(server, queue)), first);
        await server.delete(`/jobs?queue=${queue}`);
    });

    it('of_a_job_in_flight_lets_it_be_ready_and_its_attempt_not_count', async () => {
        const queue = queueName();
        await server.enqueue({ queue });
        const held = await server.claimOne(queue);
        const id = await changed(await server.post(`/jobs/cancel?queue=${queue}&undo=1h`));
        assert.equal((await undo(server, id)).undone, 1);
        const job = await server.job(held.id);
        assert.deepEqual([job.status, job.attempts], ['ready', 0]);
        assert.deepEqual((await server.runs(held.id)).map((r) => r.outcome), ['canceled']);
        assertError(await server.post(`/jobs/${held.id}/success`, { token: held.token }), 409,
            'stale_token');
        await complete(server, queue);
        await gone(server, held.id);
    });

    it('restores_a_job_that_went_with_it', async () => {
        const queue = queueName();
        const { id: job } = await server.enqueue({ queue, retention: { dead_ms: 0, completed_ms: 0 } });
        const before = await server.job(job);
        const id = await changed(await server.post(`/jobs/cancel?queue=${queue}&undo=1h`));
        await gone(server, job);
        assert.equal((await undo(server, id)).undone, 1);
        assert.deepEqual(await server.job(job), before);
        await server.delete(`/jobs?queue=${queue}`);
    });
});

describe('an undone retry', () => {
    const server = useServer();

    it('lets_jobs_be_dead_again_unless_they_have_gone_on', async () => {
        const queue = queueName();
        const retention = { completed_ms: 3600000, dead_ms: 3600000 };
        await server.enqueueMany(repeat(4, { queue, retention }));
        const ids = [];
        for (let i = 0; i < 4; i++)
            ids.push(await die(server, queue));
        const before = await seen(server, ids);
        const id = await changed(await server.post(`/jobs/retry?queue=${queue}&undo=1h`));
        const done = await complete(server, queue);
        const held = await server.claimOne(queue);
        const removed = ids.find((each) => each !== done && each !== held.id);
        await server.delete(`/jobs/${removed}`);
        const answer = await undo(server, id);
        assert.deepEqual([answer.undone, answer.not_undone], [1, 3]);
        assert.deepEqual(answer.reasons, [{ reason: 'deleted', jobs: 1 },
            { reason: 'in_flight', jobs: 1 }, { reason: 'ended', jobs: 1 }]);
        const left = ids.findIndex((each) => ![done, held.id, removed].includes(each));
        assert.deepEqual(await seen(server, [ids[left]]), [before[left]]);
        await server.post(`/jobs/${held.id}/success`, { token: held.token });
        await server.delete(`/jobs?queue=${queue}`);
    });
});

describe('an undone patch', () => {
    const server = useServer();

    it('gives_back_what_nobody_has_changed_since', async () => {
        const queue = queueName();
        const [a, b] = await server.enqueueMany([{ queue, priority: 3 }, { queue, priority: 4 }]);
        const before = await server.job(a);
        const id = await changed(await server.patch(`/jobs?queue=${queue}&undo=1h`,
            { priority: 8, queue: `${queue}-x`, retry_limit: 2, ready_at: Date.now() + 3600000 }));
        assert.equal((await server.job(a)).status, 'scheduled');
        await server.patch(`/jobs/${b}`, { priority: 9 });
        const done = await undo(server, id);
        assert.deepEqual([done.undone, done.reasons], [1, [{ reason: 'changed', jobs: 1 }]]);
        assert.deepEqual(await server.job(a), before);
        assert.equal((await server.job(b)).queue, `${queue}-x`);
        await server.delete(`/jobs?id=${a},${b}`);
    });
});

describe('an undo', () => {
    it('is_refused_where_it_makes_no_sense', async (t) => {
        const server = new Server({ args: ['--undo-max', '2h'] });
        t.after(() => server.clean());
        await server.start();
        await server.enqueue({ queue: 'q' });
        for (const value of ['', '0', 'x', '-1h', '3h'])
            assertError(await server.delete(`/jobs?undo=${value}`), 400, 'bad_value', /undo/);
        assertError(await server.post('/reset?undo=1h'), 400, 'unknown_field');
        const plain = await server.delete('/jobs?queue=none');
        assert.deepEqual(plain.json, { deleted: 0 });
        const [op] = (await server.get('/operations')).json.operations;
        assert.equal(op.undo, undefined);
        assertError(await server.post(`/operations/${op.id}/undo`), 409, 'conflict', /without undo/);
        for (const id of ['0', '999', 'x'])
            assertError(await server.post(`/operations/${id}/undo`), 404, 'not_found');
        assert.deepEqual((await server.delete('/jobs?undo=1h&dry_run=true')).json.count, 1);
        assert.equal((await server.get('/operations')).json.operations.length, 1);
    });

    it('is_refused_when_its_window_is_over_and_the_disk_has_its_room_back', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        await server.enqueueMany(repeat(2000, { queue: 'q', payload: 'x'.repeat(100) }));
        const id = await changed(await server.delete('/jobs?undo=1s'));
        assert.ok((await operation(server, id)).undo.bytes > 200000);
        const over = await until(async () => {
            const { undo: u } = await operation(server, id);
            return u.state === 'expired' && u.bytes === 0 && u;
        }, 'the window ends');
        assert.equal(over.undone, 0);
        assertError(await server.post(`/operations/${id}/undo`), 410, 'undo_expired');
        await server.stop();
        await server.start();
        assert.equal((await operation(server, id)).undo.state, 'expired');
        assertError(await server.post(`/operations/${id}/undo`), 410, 'undo_expired');
    });

    it('ends_with_a_reset_and_when_the_clock_is_set_back', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        for (const target of ['/reset', '/clock/reset']) {
            await server.enqueueMany(repeat(700, { queue: 'q' }));
            const id = await changed(await server.delete('/jobs?undo=1h'));
            assert.ok((await server.post(target)).status < 300);
            assertError(await server.post(`/operations/${id}/undo`), 410, 'undo_expired');
            await until(async () => (await operation(server, id)).undo.bytes === 0, 'it is deleted');
        }
    });

    it('has_so_much_room_and_no_more', async (t) => {
        const server = new Server({ args: ['--undo-max-bytes', '100KiB'] });
        t.after(() => server.clean());
        await server.start();
        await server.enqueueMany(repeat(300, { queue: 'q', payload: 'x'.repeat(1000) }));
        assertError(await server.delete('/jobs?undo=1h'), 507, 'undo_full');
        const [op] = (await server.get('/operations')).json.operations;
        assert.deepEqual([op.state, op.undo.state], ['failed', 'available']);
        const left = (await server.get('/jobs/count')).json.count;
        assert.ok(left > 100 && left < 300, `${left}`);
        assertError(await server.post('/jobs/cancel?undo=1h'), 507, 'undo_full');
        assert.equal((await undo(server, op.id)).undone, 300 - left);
        assert.equal((await server.get('/jobs/count')).json.count, 300);
        await changed(await server.post('/jobs/cancel?undo=1h&id=' +
            (await server.get('/jobs?limit=1')).json.jobs[0].id));
        await server.stop();
    });

    it('survives_a_crash_and_names_who_asked', async (t) => {
        const { as, server } = await guarded(t, { operator: { roles: ['operator'], name: 'ann' } });
        const operator = as('operator');
        await operator.post('/jobs/bulk', { jobs: repeat(500, { type: 't', queue: 'q', payload: 1 }) });
        const before = (await operator.get('/jobs?limit=500')).json.jobs;
        const id = await changed(await operator.delete('/jobs?undo=1h'));
        const shown = (await operator.get(`/operations/${id}`)).json;
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await operator.get(`/operations/${id}`)).json, shown);
        assert.match(JSON.stringify(shown.by), /deleteJobs/);
        const done = await operator.post(`/operations/${id}/undo`);
        assert.equal(done.json.undo.undone, 500);
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await operator.get('/jobs?limit=500')).json.jobs, before);
        const [latest] = (await as('admin').get('/audit?limit=1')).json.entries;
        assert.deepEqual([latest.operation, latest.count, latest.finished],
            ['undoOperation', 500, true]);
        const next = await changed(await operator.delete('/jobs?undo=1h'));
        assert.ok(next > id, 'no number comes twice');
    });

    // Begins to undo a deletion of all jobs, and stops it; anew if it was done before that, on a busy
    // machine. Resolves with {id, stopped}.
    async function stopHalfWay(server) {
        for (let left = 20; ; left--) {
            assert.ok(left > 0, 'it is never seen half way');
            const id = await changed(await server.delete('/jobs?undo=1h'));
            assert.equal((await server.get('/jobs/count')).json.count, 0);
            let over = false;
            const answer = server.post(`/operations/${id}/undo`).finally(() => { over = true; });
            const runs = await until(async () => over || (await server.get('/operations')).json.operations
                .find((o) => o.of === id && o.state === 'running' && o.changed > 0), 'it goes on');
            if (runs === true)
                continue;
            const again = await server.post(`/operations/${id}/undo`);
            const stop = await server.post(`/operations/${runs.id}/stop`);
            const stopped = (await answer).json.undo;
            if (stop.status !== 200)
                continue;
            assertError(again, 409, 'conflict');
            assert.equal(stop.json.state, 'stopped');
            return { id, stopped };
        }
    }

    it('goes_on_where_a_crash_cut_it_off_and_can_be_stopped', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        const total = 40000;
        for (let i = 0; i < total; i += 20000)
            await server.enqueueMany(repeat(20000, { queue: 'q', payload: i }));
        const first = (await server.get('/jobs?limit=1000')).json.jobs;
        let id, cut;
        for (let left = 20; cut?.state !== 'available'; left--) { // it may be done before the crash
            assert.ok(left > 0, 'it is never cut off');
            let stopped;
            ({ id, stopped } = await stopHalfWay(server));
            assert.equal(stopped.state, 'available');
            assert.ok(stopped.undone > 0 && stopped.undone < total);
            assert.equal((await server.get('/jobs/count')).json.count, stopped.undone);
            const answer = server.post(`/operations/${id}/undo`).catch(() => null);
            await until(async () => (await operation(server, id)).undo.undone > stopped.undone,
                'it goes on');
            await server.signal('SIGKILL');
            await answer;
            await server.start();
            cut = (await operation(server, id)).undo;
        }
        assert.equal((await server.get('/jobs/count')).json.count, cut.undone);
        const done = await undo(server, id);
        assert.deepEqual([done.state, done.undone, done.not_undone], ['done', total, 0]);
        assert.equal((await server.get('/jobs/count')).json.count, total);
        assert.deepEqual((await server.get('/jobs?limit=1000')).json.jobs, first);
    });
});

describe('tenax operations', () => {
    const server = useServer();

    async function tenax(args, code = 0) {
        const end = await run(args, { TENAX_URL: server.url() });
        assert.equal(end.code, code, `${args}: ${end.stdout}${end.stderr}`);
        return end;
    }

    it('undoes_what_was_done_with_undo', async () => {
        assert.match((await tenax(['operations'])).stderr, /no operations/);
        const [id] = await server.enqueueMany(repeat(2, { queue: 'q' }));
        const lines = (await tenax(['delete', '--queue', 'q', '--undo', '1h'])).stdout.split('\n');
        assert.equal(lines[0], '2 jobs deleted');
        const [, operation] = /^tenax operations (\d+) --undo$/.exec(lines[1]);
        const listed = (await tenax(['operations'])).stdout.split('\n')[1];
        assert.match(listed, new RegExp(`^${operation} +delete +done +2 .*in (1 h|59 min)`));
        assert.equal((await tenax(['operations', operation, '--undo'])).stdout,
            '2 undone, 0 not undone\n');
        await server.job(id);
        const all = JSON.parse((await tenax(['operations', '--output', 'json'])).stdout);
        assert.deepEqual(all.map(({ kind }) => kind), ['undo', 'delete']);
        assert.match((await tenax(['operations', operation])).stdout, /done\n$/);
    });

    it('says_what_is_wrong', async () => {
        assert.match((await tenax(['operations', '--undo'], 2)).stderr, /which operation/);
        assert.match((await tenax(['operations', '1', '--undo', '--stop'], 2)).stderr, /exclude/);
        assert.match((await tenax(['operations', '999', '--undo'], 4)).stderr, /not_found/);
        assert.match((await tenax(['delete', '0'.repeat(25), '--undo', '1h'], 2)).stderr, /--undo goes with/);
    });
});
