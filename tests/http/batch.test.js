// SPDX-License-Identifier: Apache-2.0
'use strict';

// Batched jobs: enqueues that are folded into one that waits.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { Server, assertError, queueName, until, useServer } = require('./harness');

// Compiling an expression takes long on a machine that does other things as well.
const PATIENT = { args: ['--jq-time-limit', '30s'] };

const WHEN = '($existing.ids + $new.ids) | length <= 3';
const FOLD = '$existing | .ids += $new.ids';
const ENDLESS = { batch: { when: 'def f: f; f' } };

function batched(queue, ids, fields = {}) {
    return {
        queue, type: 't', payload: { ids }, ...fields,
        batch: { key: queue, when: WHEN, fold: FOLD, ...fields.batch },
    };
}

async function added(server, job) {
    const res = await server.post('/jobs', job);
    assert.equal(res.status, 201, res.text);
    assert.equal(res.json.folded, false);
    return res.json;
}

async function folded(server, job) {
    const res = await server.post('/jobs', job);
    assert.equal(res.status, 200, res.text);
    assert.equal(res.json.folded, true);
    return res.json;
}

async function count(server, queue) {
    return (await server.get(`/jobs/count?queue=${queue}`)).json.count;
}

describe('a batched cron entry', () => {
    const server = useServer(PATIENT);
    const put = (queue, job) => server.request('PUT', `/crons/${queue}/entries/e`,
        { name: 'e', expression: '* * * * * *', job });

    it('folds_its_ticks_into_the_job_that_waits', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, ['a']));
        const res = await put(queue, batched(queue, ['tick']));
        assert.equal(res.status, 200, res.text);
        assert.deepEqual(res.json.job.batch, first.batch);
        const job = await until(async () => {
            const now = await server.job(first.id);
            return now.payload.ids.length === 3 && now;
        }, 'two ticks are folded');
        assert.deepEqual(job.payload.ids, ['a', 'tick', 'tick']);
        assert.equal((await server.get(`/crons/${queue}`)).json.entries[0].job.batch.key, queue);
        await server.request('DELETE', `/crons/${queue}`);
    });

    it('is_refused_if_its_expressions_fail', async () => {
        const queue = queueName();
        const job = batched(queue, ['a'], { batch: { fold: '$existing | nonsense' } });
        assertError(await put(queue, job), 422, 'unprocessable', /entries|nonsense/);
        assert.equal((await server.get(`/crons/${queue}`)).status, 404);
    });
});

describe('a batched enqueue', () => {
    const server = useServer(PATIENT);

    it('is_folded_into_the_one_that_waits', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, ['a'], { priority: 5 }));
        assert.deepEqual(first.batch, { key: queue, when: WHEN, fold: FOLD });
        assert.equal(first.payload, undefined);
        const second = await folded(server, batched(queue, ['b', 'c'], { priority: 9 }));
        assert.deepEqual(second, { ...first, folded: true });
        const job = await server.job(first.id);
        assert.deepEqual(job.payload, { ids: ['a', 'b', 'c'] });
        assert.deepEqual(job.batch, first.batch);
        assert.equal(job.folded, undefined);
        assert.equal(await count(server, queue), 1);
    });

    it('begins_another_batch_when_the_predicate_is_false', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1, 2, 3]));
        const second = await added(server, batched(queue, [4]));
        assert.notEqual(second.id, first.id);
        assert.equal((await folded(server, batched(queue, [5]))).id, second.id);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1, 2, 3] });
        assert.deepEqual((await server.job(second.id)).payload, { ids: [4, 5] });
    });

    it('finds_its_batch_by_key_alone', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        const other = batched(`${queue}x`, [2], { type: 'u', batch: { key: queue } });
        assert.equal((await folded(server, other)).queue, queue);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1, 2] });
    });

    it('is_folded_as_the_first_one_said', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1], { batch: { fold: '"first"' } }));
        await folded(server, batched(queue, [2], { batch: { when: 'false', fold: '"second"' } }));
        assert.equal((await server.job(first.id)).payload, 'first');
    });

    it('is_not_folded_into_a_job_that_was_taken', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        const held = await server.claimOne(queue);
        assert.equal(held.id, first.id);
        assert.deepEqual(held.batch, first.batch);
        const second = await added(server, batched(queue, [2]));
        await server.post(`/jobs/${first.id}/release`, { token: held.token });
        assert.equal((await folded(server, batched(queue, [3]))).id, second.id);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1] });
    });

    it('with_a_ready_at_in_the_future_stands_alone', async () => {
        const queue = queueName();
        const later = { ready_at: Date.now() + 3600000 };
        const scheduled = await added(server, batched(queue, [1], later));
        assert.equal(scheduled.status, 'scheduled');
        assert.ok(scheduled.batch);
        const ready = await added(server, batched(queue, [2]));
        await added(server, batched(queue, [3], later));
        assert.equal((await folded(server, batched(queue, [4]))).id, ready.id);
        assert.deepEqual((await server.job(scheduled.id)).payload, { ids: [1] });
    });

    it('may_come_with_others_at_the_same_time', async () => {
        const queue = queueName();
        const roomy = { batch: { when: 'true' } };
        const answers = await Promise.all(Array.from({ length: 40 },
            (_, i) => server.post('/jobs', batched(queue, [i], roomy))));
        assert.equal(answers.filter((a) => a.status === 201).length, 1);
        assert.equal(answers.filter((a) => a.status === 200).length, 39);
        const job = await server.job(answers[0].json.id);
        assert.deepEqual(job.payload.ids.sort((a, b) => a - b),
            Array.from({ length: 40 }, (_, i) => i));
    });

    it('survives_a_restart', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        await folded(server, batched(queue, [2]));
        await server.signal('SIGKILL');
        await server.start();
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1, 2] });
        assert.equal((await folded(server, batched(queue, [3]))).id, first.id);
        const next = await added(server, batched(queue, [4]));
        await server.delete(`/jobs/${next.id}`);
        await server.signal('SIGKILL');
        await server.start();
        await added(server, batched(queue, [5]));
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1, 2, 3] });
    });
});

describe('many batched enqueues in one request', () => {
    const server = useServer(PATIENT);

    it('are_folded_into_each_other', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        const plain = { queue, type: 't', payload: 7 };
        const res = await server.post('/jobs/bulk',
            { jobs: [batched(queue, [2]), plain, batched(queue, [3]), batched(queue, [4]),
                batched(queue, [5])] });
        assert.equal(res.status, 201, res.text);
        const [a, b, c, d, e] = res.json.jobs;
        assert.deepEqual([a, c, d, e].map((job) => job.folded), [true, true, false, true]);
        assert.equal(b.folded, false);
        assert.equal(a.id, first.id);
        assert.equal(c.id, first.id);
        assert.equal(e.id, d.id);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1, 2, 3] });
        assert.deepEqual((await server.job(d.id)).payload, { ids: [4, 5] });
        assert.equal(await count(server, queue), 3);
    });

    it('are_answered_with_200_if_nothing_was_added', async () => {
        const queue = queueName();
        await added(server, batched(queue, [1]));
        const res = await server.post('/jobs/bulk',
            { jobs: [batched(queue, [2]), batched(queue, [3])] });
        assert.equal(res.status, 200);
        assert.ok(res.json.jobs.every((job) => job.folded));
    });

    it('are_stored_completely_or_not_at_all', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        const res = await server.post('/jobs/bulk',
            { jobs: [batched(queue, [2]), { queue, type: 't', payload: 7 },
                batched(`${queue}x`, [3], { batch: { fold: '$existing.ids.a' } })] });
        assertError(res, 422, 'unprocessable', /batch\.fold/);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1] });
        assert.equal(await count(server, queue), 1);
    });
});

describe('a batch that cannot be', () => {
    const server = useServer(PATIENT);

    const expressions = {
        'syntax errors': [{ when: '$existing |' }, /batch\.when: syntax error/],
        'syntax errors of fold': [{ fold: '(' }, /batch\.fold: syntax error/],
        'an empty expression': [{ when: '' }, /batch\.when: syntax error/],
        'undefined variables': [{ fold: '$old' }, /batch\.fold: \$old is not defined/],
        'undefined functions': [{ when: 'nothing(1)' }, /nothing\/1 is not defined/],
        'errors with this payload': [{ fold: '$existing.ids.a' }, /batch\.fold: Cannot index/],
        'several outputs': [{ when: 'true, true' }, /batch\.when: it gives several outputs/],
        'several outputs of fold': [{ fold: '$new.ids[], 1' }, /batch\.fold: .*several outputs/],
        'no output': [{ when: 'empty' }, /batch\.when: it gives no output/],
        'a module': [{ when: 'import "a" as a; true' }, /batch\.when: syntax error/],
        'a look at the environment': [{ when: '$ENV.PATH | length > 0 or error("empty")' },
            /batch\.when/],
    };
    for (const [name, [batch, words]] of Object.entries(expressions)) {
        it(`because_of_${name.replaceAll(' ', '_')}_is_unprocessable`, async () => {
            const queue = queueName();
            const job = batched(queue, [1], { batch });
            assertError(await server.post('/jobs', job), 422, 'unprocessable', words);
            const later = { ...job, ready_at: Date.now() + 3600000 };
            assertError(await server.post('/jobs', later), 422, 'unprocessable', words);
            assert.equal(await count(server, queue), 0);
        });
    }

    it('because_it_fails_with_what_waits_changes_nothing', async () => {
        const queue = queueName();
        const first = await added(server, batched(queue, [1]));
        const text = { ...batched(queue, []), payload: { ids: 'text' } };
        text.batch = { key: queue, when: 'true', fold: '$new' };
        assertError(await server.post('/jobs', text), 422, 'unprocessable', /batch\.when/);
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1] });
    });

    const shapes = [
        [{ when: 'true', fold: '1' }, 'missing_field', /batch: key is required/],
        [{ key: 'k', fold: '1' }, 'missing_field', /batch: when is required/],
        [{ key: 'k', when: 'true' }, 'missing_field', /batch: fold is required/],
        [{ key: '', when: 'true', fold: '1' }, 'bad_value', /batch: key/],
        [{ key: 'k'.repeat(1025), when: 'true', fold: '1' }, 'bad_value', /batch: key/],
        [{ key: 'k', when: `1${' '.repeat(16384)}`, fold: '1' }, 'bad_value', /batch: when/],
        [{ key: 1, when: 'true', fold: '1' }, 'wrong_type', /batch: key/],
        [7, 'wrong_type', /batch/],
    ];
    for (const [i, [batch, code, words]] of shapes.entries()) {
        it(`because_of_its_shape_${i}_is_a_bad_request`, async () => {
            const job = { queue: queueName(), type: 't', payload: 1, batch };
            assertError(await server.post('/jobs', job), 400, code, words);
            assertError(await server.post('/jobs/bulk', { jobs: [job] }), 400, code, words);
        });
    }

    it('because_of_a_unique_key_is_a_bad_request', async () => {
        const job = batched(queueName(), [1], { unique_key: 'u' });
        assertError(await server.post('/jobs', job), 400, 'bad_value', /unique_key/);
    });

    it('is_absent_if_it_is_null', async () => {
        const { json: job } = await server.post('/jobs',
            { queue: queueName(), type: 't', payload: 1, batch: null });
        assert.equal(job.batch, undefined);
        assert.equal(job.folded, false);
    });
});

describe('expressions that go too far', () => {
    const server = useServer({ args: [...PATIENT.args, '--jq-memory-limit', '48MiB'] });
    const hasty = useServer({ args: ['--jq-time-limit', '2s', '--jq-wall-limit', '10m'] });

    it('in_time_are_stopped_while_others_are_served', async () => {
        const queue = queueName();
        const endless = hasty.post('/jobs', batched(queue, [1], ENDLESS));
        await hasty.enqueue({ queue });
        assertError(await endless, 422, 'unprocessable', /longer than 2000 ms/);
        assert.equal(await count(hasty, queue), 1);
        await hasty.assertServes();
    });

    it('in_nesting_are_refused', async () => {
        const deep = { when: 'true', fold: 'reduce range(200) as $i (1; [.])' };
        const queue = queueName();
        await added(server, batched(queue, [1], { batch: deep }));
        const res = await server.post('/jobs', batched(queue, [2]));
        assertError(res, 422, 'unprocessable', /batch\.fold/);
    });

    it('do_not_keep_later_ones_from_being_evaluated', async () => {
        const queue = queueName();
        await server.post('/jobs', batched(queue, [1], { batch: { fold: '[range(1e9)]' } }));
        const first = await until(async () => {
            const res = await server.post('/jobs', batched(queue, [1]));
            return res.status === 201 && res.json;
        }, 'an evaluation within its limits');
        assert.deepEqual((await server.job(first.id)).payload, { ids: [1] });
    });
});

// Ids of the processes that a server has started.
function helpersOf(server) {
    const { pid } = server.child;
    return fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
        .filter(Boolean).map(Number);
}

// The processor time that a process has used, in ticks.
function ticksOf(pid) {
    return Number(fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[11]);
}

function lives(pid) {
    try {
        return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
        return false;
    }
}

describe('the processes of the evaluator', () => {
    const server = useServer({ args: ['--jq-time-limit', '60s', '--jq-processes', '1'] });

    it('may_be_killed', async () => {
        const queue = queueName();
        assert.deepEqual(helpersOf(server), []);
        await added(server, batched(queue, [1]));
        const [helper] = helpersOf(server);
        const before = ticksOf(helper);
        const endless = server.post('/jobs', batched(queue, [1], ENDLESS));
        await until(() => ticksOf(helper) > before + 20, 'the helper is in the endless loop');
        process.kill(helper, 'SIGKILL');
        assertError(await endless, 500, 'internal', /signal 9/);
        await folded(server, batched(queue, [2]));
        assert.notEqual(helpersOf(server)[0], helper);
    });

    it('end_with_the_server_even_in_the_middle_of_work', async () => {
        const lost = server.post('/jobs', batched(queueName(), [1], ENDLESS)).catch(() => null);
        const helpers = await until(() => {
            const all = helpersOf(server);
            return all.length && all;
        }, 'a helper runs');
        await server.signal('SIGKILL');
        await lost;
        await until(() => !helpers.some(lives), 'the helpers have ended');
        await server.start();
    });

    it('do_not_keep_the_server_from_draining', async () => {
        await added(server, batched(queueName(), [1]));
        const helpers = helpersOf(server);
        await server.stop();
        await until(() => !helpers.some(lives), 'the helpers have ended');
        await server.start();
    });
});

// Folds numbers into a few keys, one by one and in pairs, and remembers what was promised.
class Folder {
    constructor(queue) {
        this.queue = queue;
        this.next = 0;
        this.sent = []; // numbers that belong together, and whether they were acknowledged
    }

    job(n) {
        return {
            queue: this.queue, type: 't', payload: { ids: [n] },
            retention: { completed_ms: 3600000 },
            batch: {
                key: `${this.queue}:${n % 3}`, when: '$existing.ids | length < 20',
                fold: '$existing | .ids += $new.ids',
            },
        };
    }

    async run(server, stop) {
        while (!stop.now) {
            const entry = { numbers: [this.next++], acknowledged: false };
            if (entry.numbers[0] % 4 === 0)
                entry.numbers.push(this.next++);
            this.sent.push(entry);
            const jobs = entry.numbers.map((n) => this.job(n));
            const res = jobs.length > 1 ? await server.post('/jobs/bulk', { jobs })
                : await server.post('/jobs', jobs[0]);
            assert.ok(res.status === 200 || res.status === 201, res.text);
            entry.acknowledged = true;
        }
    }

    async audit(server) {
        const seen = new Map();
        for (let page = `/jobs?queue=${this.queue}&limit=2000`; page;) {
            const { json } = await server.get(page);
            for (const job of json.jobs)
                for (const n of job.payload.ids)
                    seen.set(n, (seen.get(n) ?? 0) + 1);
            page = json.pages.next;
        }
        for (const [n, times] of seen)
            assert.equal(times, 1, `${n} is there ${times} times`);
        for (const { numbers, acknowledged } of this.sent) {
            const there = numbers.filter((n) => seen.has(n)).length;
            if (acknowledged)
                assert.equal(there, numbers.length, `${numbers} is lost`);
            else
                assert.ok(there === 0 || there === numbers.length, `${numbers} is half there`);
        }
        return seen.size;
    }
}

async function work(server, queue, stop) {
    while (!stop.now)
        for (const job of await server.claim({ queues: [queue], count: 2, wait_ms: 20 }))
            await server.post(`/jobs/${job.id}/success`, { token: job.token });
}

describe('a server that is killed in the middle of folds', () => {
    const server = useServer(PATIENT);

    it('loses_none_and_leaves_none_half_applied', async () => {
        const folder = new Folder(queueName());
        let before = 0;
        for (let round = 0; round < 8; round++) {
            const stop = { now: false };
            const all = Array.from({ length: 6 }, () => folder.run(server, stop));
            if (round % 2)
                all.push(work(server, folder.queue, stop));
            const ended = Promise.allSettled(all);
            const goal = folder.sent.length + 40 + 7 * round;
            await until(() => folder.sent.length >= goal, 'folds are under way');
            stop.now = true;
            await server.signal('SIGKILL');
            for (const { status, reason } of await ended)
                assert.ok(status === 'fulfilled' || reason.code !== 'ERR_ASSERTION', reason);
            await server.start();
            const size = await folder.audit(server);
            assert.ok(size > before, 'something was added');
            before = size;
        }
        assert.ok(folder.sent.some((entry) => !entry.acknowledged), 'some were cut off');
    });
});

describe('the settings of the evaluator', () => {
    for (const args of [['--jq-processes', '0'], ['--jq-time-limit', '0'],
        ['--jq-memory-limit', '1MiB']]) {
        it(`refuse_${args.join('_')}`, async () => {
            const server = new Server({ args });
            await assert.rejects(server.start(), /exit 2/);
            server.child = null;
            await server.clean();
        });
    }
});
