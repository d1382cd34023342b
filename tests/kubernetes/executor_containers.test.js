// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the run of a pod that failed says of each of its containers, and that nothing of it shows a
// secret of the pod's environment.

const assert = require('node:assert/strict');
const { afterEach, before, describe, it } = require('node:test');
const { run } = require('../http/harness');
const { onlyDouble, pod, useBed } = require('./executor_harness');

const SECRET = 'hunter2-"hunter2"';
const GONE = { retry_limit: 0 };

// One init container, and two that run beside each other.
function three(script, env = []) {
    const one = (name) => ({ name, image: 'registry.example/work:1', env });
    return pod(script, { spec: { initContainers: [one('fetch')],
        containers: [one('proxy'), one('main')] } });
}

describe('each container of a pod that failed', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });
    afterEach(() => bed.double?.clearFaults());

    async function containers(payload) {
        const { id } = await bed.enqueue(executor, payload, GONE);
        const one = await bed.ended(id);
        return { id, run: one, list: one.containers.map((c) =>
            [c.name, c.init, c.exit_code, c.signal, c.reason, c.message]) };
    }

    it('is_told_of_with_its_exit_code_signal_reason_and_message', async () => {
        const { run: one, list } = await containers(three({ steps: ['running',
            { do: 'exited', container: 'main', code: 3, message: 'no disk' },
            { do: 'exited', container: 'proxy', signal: 15, message: 'told to end' }] }));
        assert.deepEqual(list, [
            ['fetch', true, 0, undefined, 'Completed', undefined],
            ['proxy', false, 143, 15, 'Error', 'told to end'],
            ['main', false, 3, undefined, 'Error', 'no disk']]);
        assert.deepEqual([one.exit_code, one.signal, one.termination_message], [143, 15, 'told to end']);
    });

    it('is_an_init_container_that_ran_out_of_memory', async () => {
        const { run: one, list } = await containers(three({ steps: ['scheduled',
            { do: 'running', container: 'fetch' }, { do: 'oom', container: 'fetch' }] }));
        assert.deepEqual(list[0].slice(0, 5), ['fetch', true, 137, 9, 'OOMKilled']);
        assert.equal(one.condition, 'OOMKilled');
        assert.equal(one.signal, 9);
    });

    it('has_the_last_lines_of_its_log', { skip: onlyDouble }, async () => {
        const many = Array.from({ length: 80 }, (_, i) => `line ${i}\n`).join('');
        const { id, run: one } = await containers(three({ steps: ['running',
            { do: 'log', container: 'fetch', text: 'fetched\n' },
            { do: 'log', container: 'proxy', text: many },
            { do: 'log', container: 'main', text: 'zero \0 and \x07\nno newline' },
            { do: 'exited', container: 'main', code: 3 },
            { do: 'exited', container: 'proxy', signal: 9 }] }));
        assert.deepEqual(one.containers.map((c) => c.log), ['fetched\n',
            many.slice(many.indexOf('line 30\n')), 'zero \0 and \x07\nno newline']);
        const whole = (await bed.server.get(`/jobs/${id}?runs=true`)).json;
        assert.deepEqual(whole.runs[0].containers, one.containers);
        const { stdout } = await run(['job', id], { TENAX_URL: bed.server.url() });
        assert.match(stdout, /init container fetch: exit code 0, Completed\n +fetched\n/);
        assert.match(stdout, /container proxy: exit code 137, signal 9, Error\n +line 30\n/);
        assert.match(stdout, /container main: exit code 3, Error\n/);
        const explained = (await bed.server.get(`/jobs/${id}/explain`)).json;
        assert.deepEqual(explained.newest_run.containers, one.containers);
    });

    it('also_one_that_was_still_running_when_the_pod_was_evicted', { skip: onlyDouble }, async () => {
        const { run: one } = await containers(three({ steps: ['running',
            { do: 'log', container: 'main', text: 'half done\n' }, 'evicted'] }));
        assert.equal(one.containers.find((c) => c.name === 'main').log, 'half done\n');
    });

    it('keeps_its_log_although_another_one_wrote_much', { skip: onlyDouble }, async () => {
        const line = `${'x'.repeat(999)}\n`;
        const big = { name: 'big', image: 'i' };
        const { run: one } = await containers(pod({ steps: ['running',
            ...[0, 1, 2, 3, 4].map((i) => ({ do: 'log', container: `big-${i}`, text: line.repeat(40) })),
            { do: 'log', container: 'last', text: 'it was me\n' },
            { do: 'exited', container: 'last', code: 7 }, 'failed'] },
        { spec: { containers: [...[0, 1, 2, 3, 4].map((i) => ({ ...big, name: `big-${i}` })),
            { ...big, name: 'last' }] } }));
        assert.equal(one.containers.find((c) => c.name === 'last').log, 'it was me\n');
        const bytes = one.containers.map((c) => (c.log || '').length);
        assert.ok(bytes.every((n) => n > 0 && n <= 16384), bytes.join());
        assert.ok(bytes.reduce((a, b) => a + b) <= 65536, bytes.join());
    });

    it('has_no_log_where_none_is_wanted', { skip: onlyDouble }, async () => {
        const silent = bed.executor({ args: ['--logs', 'none'] }).start();
        const { id } = await bed.enqueue(silent, three({ steps: ['running',
            { do: 'log', container: 'main', text: 'words\n' },
            { do: 'exited', code: 3 }] }), GONE);
        await bed.status(id, 'dead');
        assert.ok((await bed.run(id)).containers.every((c) => c.log === undefined));
        await silent.stop();
    });
});

describe('a secret of the environment', () => {
    const bed = useBed();
    let executor;
    before(() => { executor = bed.executor().start(); });
    afterEach(() => bed.double?.clearFaults());

    // All that the server has of the run, and what the executor said of it.
    async function told(id) {
        const texts = [];
        for (const path of [`/jobs/${id}/runs`, `/jobs/${id}/errors`, `/jobs/${id}/explain`])
            texts.push((await bed.server.get(path)).text);
        const { stdout } = await run(['explain', id], { TENAX_URL: bed.server.url() });
        return [...texts, stdout, executor.stderr].join('\n');
    }

    const env = [{ name: 'DB_PASSWORD', value: SECRET }];

    it('is_in_no_log_message_or_event', async () => {
        const { id } = await bed.enqueue(executor, three({ steps: ['running',
            { do: 'log', container: 'fetch', text: `as it is ${SECRET}, twice ${SECRET}${SECRET}\n` },
            { do: 'log', container: 'main', text: `${JSON.stringify({ key: SECRET })} ` +
                `${Buffer.from(SECRET).toString('base64')}\n` },
            { do: 'event', type: 'Warning', reason: 'FailedPostStartHook', message: `exec ${SECRET}` },
            { do: 'exited', container: 'main', code: 3, message: `failed with ${SECRET}` },
            { do: 'exited', container: 'proxy', code: 4, message: `hunter2" and ${SECRET}` }] },
        env), GONE);
        await bed.status(id, 'dead');
        const one = await bed.run(id);
        const all = await told(id);
        assert.ok(!/hunter2|aHVudGVyMi/.test(all), all);
        assert.deepEqual(one.containers.map((c) => c.message),
            [undefined, '*** and ***', 'failed with ***']);
        assert.match(one.message, /\*\*\*/);
        if (!bed.double)
            return;
        assert.ok(one.pod_events.includes('FailedPostStartHook: exec ***'), all);
        assert.equal(one.containers[0].log, 'as it is ***, twice ******\n');
        assert.equal(one.containers[2].log, '{"key":"***"} ***\n');
    });

    it('is_not_in_the_words_of_an_eviction_or_of_a_container_that_cannot_start', async () => {
        const evicted = await bed.enqueue(executor, three({ steps: ['running',
            { do: 'evicted', message: `The node was low on ${SECRET}` }] }, env), GONE);
        const stuck = await bed.enqueue(executor, three({ steps: ['scheduled',
            { do: 'waiting', container: 'fetch', reason: 'CreateContainerError',
                message: `cannot run ${SECRET}` }] }, env), GONE);
        for (const { id } of [evicted, stuck]) {
            const one = await bed.ended(id);
            assert.match(one.pod_error, /(low on|cannot run) \*\*\*/);
            assert.ok(!(await told(id)).includes('hunter2'));
        }
    });

    it('is_not_in_the_refusal_of_a_pod', { skip: onlyDouble }, async () => {
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, times: 1, status: 403,
            message: `pods "x" is forbidden: env[0].value: Invalid value: ${JSON.stringify(SECRET)}` });
        const { id } = await bed.enqueue(executor, three(['running'], env), GONE);
        await bed.status(id, 'dead');
        assert.match((await bed.run(id)).message, /Invalid value: "\*\*\*"/);
        assert.ok(!(await told(id)).includes('hunter2'));
    });
});
