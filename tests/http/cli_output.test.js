// SPDX-License-Identifier: Apache-2.0
'use strict';

// How commands print what they list and show: the same formats everywhere (--output), tables that
// fit a terminal, and --watch.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const YAML = require('yaml');
const { Server, begin, makeDir, ownAddress, run, until, useServer } = require('./harness');

const LISTS = ['jobs', 'queues', 'workers', 'events', 'crons', 'operations', 'failures', 'budgets', 'token',
    'audit', 'policy get', 'explain --all-queues', 'context list'];

describe('every command that lists', () => {
    const server = useServer();
    const home = makeDir();
    let env, id;
    const tenax = (...args) => run(args, env);
    async function print(command, output) {
        const end = await tenax(...command.split(' '), '-o', output);
        assert.equal(end.code, 0, `${command} -o ${output}: ${end.stderr}`);
        return end.stdout;
    }

    before(async () => {
        env = { TENAX_URL: server.url(), XDG_CONFIG_HOME: home };
        for (const n of [1, 2])
            ({ id } = await server.enqueue({ queue: 'mail', type: 't', payload: { n, text: 'true' } }));
        await server.enqueue({ queue: 'broken', type: 't' });
        const job = await server.claimOne('broken', { worker: 'mailer-1' });
        await server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'it broke', kill: true });
        await server.claimOne('mail', { worker: 'mailer-2' });
        await server.request('PUT', '/crons/nightly', { entries: [{ name: 'a', expression: '0 3 * * *',
            job: { queue: 'q', type: 't', payload: {} } }] });
        await server.post('/budgets/push', { allocation: 3, strategy: { type: 'while_in_flight' } });
        await server.request('DELETE', '/jobs?queue=none&undo=1h');
        fs.writeFileSync(path.join(home, 'p.yaml'), 'apiVersion: tenax.dev/v1\nkind: RetryPolicy\n'
            + 'metadata: {name: one}\nspec: {defaultAction: Retry}\n');
        await tenax('apply', '-f', path.join(home, 'p.yaml'));
        await tenax('context', 'set', 'prod', '--url', server.url());
    });
    after(() => fs.rmSync(home, { recursive: true }));

    it('gives_one_array_as_json_and_the_same_as_lines_and_as_yaml', async () => {
        for (const command of LISTS) {
            const json = JSON.parse(await print(command, 'json'));
            assert.ok(Array.isArray(json), command);
            assert.ok(json.length > 0 || command === 'token', command);
            const lines = (await print(command, 'jsonl')).split('\n').filter(Boolean).map(JSON.parse);
            const yaml = YAML.parse(await print(command, 'yaml'));
            const keys = (list) => list.map((item) => Object.keys(item));
            assert.deepEqual(keys(lines), keys(json), command);
            assert.deepEqual(keys(yaml), keys(json), command);
        }
        assert.equal(YAML.parse(await print('jobs', 'yaml'))[0].payload.text, 'true');
    });

    it('prints_a_name_a_line_that_other_commands_take', async () => {
        const names = async (command) => (await print(command, 'name')).split('\n').filter(Boolean);
        assert.ok((await names('jobs')).includes(id));
        assert.deepEqual(await names('queues'), ['broken', 'mail']);
        assert.deepEqual(await names('workers'), ['mailer-1', 'mailer-2']);
        assert.deepEqual(await names('crons'), ['nightly']);
        assert.deepEqual(await names('budgets'), ['push']);
        assert.deepEqual(await names('policy get'), ['one']);
        assert.deepEqual(await names('get retrypolicies'), ['retrypolicy/one']);
        assert.deepEqual(await names('context list'), ['prod']);
        for (const group of await names('failures'))
            assert.equal(await print(`failures ${group}`, 'name'), `${group}\n`);
        for (const operation of await names('operations'))
            assert.equal(await print(`operations ${operation}`, 'name'), `${operation}\n`);
        for (const command of LISTS)
            assert.equal((await names(command)).length, JSON.parse(await print(command, 'json')).length, command);
    });

    it('has_more_columns_when_it_is_wide', async () => {
        for (const command of LISTS.filter((name) => !/audit|explain|events|policy|token/.test(name))) {
            const heads = async (output) => (await print(command, output)).split('\n')[0].split(/ {2,}/);
            const [table, wide] = [await heads('table'), await heads('wide')];
            assert.ok(wide.length > table.length, `${command}: ${wide}`);
            assert.deepEqual(wide.filter((head) => table.includes(head)), table);
        }
    });

    it('shows_one_thing_as_one_object', async () => {
        const shown = { [`job ${id}`]: id, [`explain ${id}`]: id, 'queue mail': 'mail', 'workers mailer-1': 'mailer-1',
            'cron nightly': 'nightly', 'cron nightly a': 'a', 'budgets show push': 'push', 'context show prod': 'prod',
            'policy get one': 'one' };
        for (const [command, name] of Object.entries(shown)) {
            const json = JSON.parse(await print(command, 'json'));
            assert.ok(json && !Array.isArray(json), command);
            const lines = await print(command, 'jsonl');
            assert.equal(lines.trimEnd().split('\n').length, 1, command);
            assert.deepEqual(Object.keys(JSON.parse(lines)), Object.keys(json));
            assert.deepEqual(Object.keys(YAML.parse(await print(command, 'yaml'))), Object.keys(json));
            assert.equal(await print(command, 'name'), `${name}\n`);
        }
    });

    it('gives_one_document_of_several_changes_too', async () => {
        const made = await run(['enqueue', '--bulk', '--queue', 'more', '--type', 't', '--batch', '1', '-o', 'json'],
            env, '{"payload": 1}\n{"payload": 2}\n');
        const ids = JSON.parse(made.stdout).map((job) => job.id);
        assert.equal(ids.length, 2);
        assert.equal(JSON.parse(await print(`cancel ${ids[0]}`, 'json')).id, ids[0]);
        const both = await tenax('delete', ...ids, '0'.repeat(25), '-o', 'json');
        assert.equal(both.code, 4, 'the third is unknown');
        assert.deepEqual(JSON.parse(both.stdout), ids.map((one) => ({ id: one, deleted: true })));
        assert.deepEqual(JSON.parse(await print('jobs --queue more', 'json')), []);
        assert.deepEqual(YAML.parse(await print('jobs --queue more', 'yaml')), []);
        assert.equal(await print('jobs --queue more', 'jsonl'), '');
    });

    it('names_the_formats_that_there_are_where_it_cannot_give_one', async () => {
        for (const [args, formats] of [[['jobs', '-o', 'xml'], /table\|json\|jsonl\|yaml\|wide\|name/],
            [['retry-settings', '-o', 'name'], /table\|json\|jsonl\|yaml\|wide;/],
            [['policy', 'schedule', '--backoff', '1s,2,1s', '-o', 'name'], /table, json, jsonl, yaml and wide/],
            [['retry', '--queue', 'mail', '-o', 'name'], /table, json, jsonl, yaml and wide/],
            [['events', '--follow', '-o', 'json'], /table, jsonl, yaml, wide and name/]]) {
            const end = await tenax(...args);
            assert.equal(end.code, 2, `${args}: ${end.stdout}`);
            assert.match(end.stderr, formats);
        }
        for (const output of ['wide', 'yaml', 'jsonl'])
            assert.equal((await run(['enqueue', '--queue', 'x', '--type', 't', '1'],
                { ...env, TENAX_OUTPUT: output })).code, 0, output);
    });
});

describe('the beginning of an id', () => {
    const server = useServer();
    const ids = [];
    const tenax = (...args) => run(args, { TENAX_URL: server.url() });
    before(async () => {
        for (let n = 0; n < 7; n++)
            ids.push((await server.enqueue({ queue: 'q', type: 't' })).id);
    });
    // Long enough for one id alone.
    const short = (id) => {
        for (let n = 6; ; n++)
            if (ids.filter((other) => other.startsWith(id.slice(0, n))).length === 1)
                return id.slice(0, n);
    };

    it('is_enough_where_no_other_job_has_it', async () => {
        assert.ok(short(ids[3]).length < 25);
        for (const args of [['job'], ['explain'], ['patch', '--set', '{"priority": 3}'], ['cancel']]) {
            const end = await tenax(...args, short(ids[3]), '-o', 'name');
            assert.deepEqual([end.code, end.stdout], [0, `${ids[3]}\n`], end.stderr);
        }
        assert.equal((await tenax('job', short(ids[0]).toUpperCase(), '-o', 'name')).stdout, `${ids[0]}\n`);
        assert.equal((await tenax('delete', short(ids[3]), ids[4])).code, 0);
        assert.equal((await tenax('job', ids[3])).code, 4);
    });

    it('stands_for_jobs_in_lists_of_ids', async () => {
        const waits = await tenax('enqueue', '--queue', 'waiting', '--type', 't', '--depends-on',
            `${short(ids[0])},${ids[1]}`, '1');
        assert.equal(waits.code, 0, waits.stderr);
        const id = waits.stdout.trim();
        assert.deepEqual((await server.job(id)).depends_on, ids.slice(0, 2));
        const events = await tenax('events', '--job', `${ids[1]},${short(ids[2])}`, '-o', 'jsonl');
        assert.equal(events.code, 0, events.stderr);
        const about = events.stdout.trim().split('\n').map((line) => JSON.parse(line).id);
        assert.deepEqual(new Set(about), new Set(ids.slice(1, 3)));
        for (const args of [['events', '--job'], ['enqueue', '--queue', 'q', '--type', 't', '1', '--depends-on']]) {
            assert.match((await tenax(...args, ids[0].slice(0, 6))).stderr, /several jobs begin with/);
            assert.equal((await tenax(...args, `${ids[0]},zzzzzz`)).code, 4);
            assert.match((await tenax(...args, `${ids[0]},`)).stderr, /'' is not a job id/);
        }
        assert.equal((await tenax('delete', id)).code, 0);
    });

    it('names_at_most_five_that_could_be_meant', async () => {
        const many = await tenax('cancel', ids[0].slice(0, 6));
        assert.equal(many.code, 2);
        assert.match(many.stderr, /several jobs begin with/);
        assert.deepEqual(many.stderr.match(/\b[0-9a-z]{25}\b/g), [...ids.slice(0, 3), ...ids.slice(5)]);
        await server.enqueue({ queue: 'q', type: 't' });
        const more = await tenax('job', ids[0].slice(0, 6));
        assert.equal(more.stderr.match(/\b[0-9a-z]{25}\b/g).length, 5);
        assert.match(more.stderr, /and others$/m);
        assert.equal((await server.job(ids[0])).status, 'ready', 'nothing was changed');
    });

    it('is_refused_where_it_is_too_short_or_of_no_job', async () => {
        const short = await tenax('job', ids[0].slice(0, 5));
        assert.equal(short.code, 2);
        assert.match(short.stderr, /not a job id.*the first 6 may do/);
        for (const none of ['000000', 'zzzzzz']) {
            const end = await tenax('job', none);
            assert.deepEqual([end.code, end.stdout], [4, ''], end.stderr);
            assert.match(end.stderr, /no job's id begins with/);
        }
    });
});

describe('--watch', () => {
    it('prints_a_document_for_each_change_and_ends_with_the_signal', async (t) => {
        const server = new Server({ args: ['--host', ownAddress()] });
        await server.start();
        t.after(() => server.clean());
        const watch = begin(['jobs', '--watch=100ms', '-o', 'json', '--url', server.url()]);
        const seen = () => watch.stdout.split(/^(?=\[)/m).filter(Boolean).map(JSON.parse);
        await until(() => watch.stdout === '[]\n', 'the first look');
        const { id } = await server.enqueue({ queue: 'q', type: 't' });
        await until(() => watch.stdout.includes(id), 'the job');
        await server.claimOne('q');
        await until(() => watch.stdout.includes('in_flight'), 'its change');
        assert.deepEqual(seen().map((list) => list.map((job) => job.status)), [[], ['ready'], ['in_flight']]);
        await server.signal('SIGKILL');
        await watch.says(/it is asked again every 100 ms/);
        await server.start({ args: ['--host', ownAddress(), '--port', String(server.port)] });
        await watch.says(/the server answers again/);
        assert.equal(watch.stderr.match(/cannot reach/g).length, 1, 'it is said once');
        watch.child.kill('SIGINT');
        assert.equal((await watch.ended).code, 0);
        seen();
    });

    it('refuses_what_has_no_meaning', async () => {
        for (const args of [['jobs', '--watch=1ms'], ['operations', '1', '--undo', '--watch'],
            ['workers', 'w', '--stop', '--watch'], ['queue', 'q', '--pause', '--watch'], ['cron', 'g', '--delete', '--watch'],
            ['budgets', 'delete', 'b', '--watch'], ['token', 'delete', 't', '--watch'], ['job', '0'.repeat(25), '--delete', '--watch']])
            assert.equal((await run(args)).code, 2, `${args}`);
    });

    it('ends_where_the_server_refuses', async (t) => {
        const server = new Server({ args: ['--host', ownAddress()] });
        await server.start();
        t.after(() => server.clean());
        const end = await run(['group', 'unknown', '--watch', '--url', server.url()]);
        assert.equal(end.code, 4, end.stderr);
    });
});
