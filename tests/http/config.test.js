// SPDX-License-Identifier: Apache-2.0
'use strict';

// The configuration file of the server, and SIGHUP.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { Server, assertError, makeDir, queueName, run, until } = require('./harness');

describe('a configuration file', () => {
    const dir = makeDir();
    const file = path.join(dir, 'tenax.yaml');
    after(() => fs.rmSync(dir, { recursive: true, force: true }));

    // A server with this file; flags and variables as given.
    async function withServer(text, options, body) {
        fs.writeFileSync(file, text);
        const server = new Server({ ...options, args: ['--config', file, ...(options.args || [])] });
        await server.start();
        try {
            await body(server);
        } finally {
            await server.clean();
        }
    }

    // Writes the file anew, sends SIGHUP, and waits until the server says what came of it.
    async function reload(server, text, words) {
        fs.writeFileSync(file, text);
        const from = server.stderr.length;
        server.child.kill('SIGHUP');
        await until(() => words.test(server.stderr.slice(from)), `it says ${words}`);
        return server.stderr.slice(from);
    }

    const settings = async (server) => (await server.get('/settings/retry')).json;

    async function refused(text, words, args = []) {
        fs.writeFileSync(file, text);
        const end = await run(['serve', '--root-dir', path.join(dir, 'never'), '--port', '0',
            '--config', file, ...args]);
        assert.equal(end.code, 2, end.stderr);
        assert.match(end.stderr, words);
        assert.equal(fs.existsSync(path.join(dir, 'never')), false);
    }

    it('stands_behind_flags_and_variables_and_before_defaults', async () => {
        const text = 'max-body: 2KiB\nlog-level: info\nstrict: true\n'
            + 'default-dead-job-retention: 1h\n';
        await withServer(text, {
            args: ['--default-dead-job-retention', '2h'], env: { TENAX_STRICT: 'false' },
        }, async (server) => {
            const job = { queue: 'q', type: 't', payload: 'x'.repeat(3000) };
            assert.equal((await server.post('/jobs', job)).status, 413);
            const res = await server.post('/jobs', { ...job, payload: 1, unknown: 1 });
            assert.equal(res.status, 201, res.text); // the variable says not strict
            const { id } = res.json;
            await server.post(`/jobs/${id}/cancel`);
            const dead = await server.job(id);
            const kept = dead.purge_at - dead.completed_at || dead.purge_at - Date.now();
            assert.ok(kept > 3600000 && kept <= 7200000, `${kept}`);
        });
    });

    it('is_refused_as_a_whole_with_the_place_of_the_fault', async () => {
        await refused('port: 1\nprot: 2\n', /line 2, column 1: .*'prot'; did you mean 'port'/);
        await refused('port: 0\nmax-body: [1]\n', /line 2, column 11: max-body: .*single value/);
        await refused('default-retry-limit: many\n', /line 1, column 22: default-retry-limit: 'many'/);
        await refused('log-level: warn\nretryPolicy:\n  globalMaxRetries: -1\n',
            /line 3, column 21: retryPolicy\.globalMaxRetries/);
        await refused('retryPolicy:\n  enabled: true\nretry-policy-enabled: true\n',
            /line 2, column 3: retryPolicy\.enabled: .*retry-policy-enabled/);
        await refused('a: b: c\n', /line 1/);
        await refused('- port\n', /a mapping of settings/);
        await refused('default-backoff-base: 1s\n', /--default-backoff-exponent/);
        await refused('port: many\n', /port/, ['--port', '0']); // also where a flag overrides it
        const end = await run(['serve', '--config', path.join(dir, 'none.yaml')]);
        assert.equal(end.code, 2);
        assert.match(end.stderr, /cannot read .*none\.yaml/);
    });

    it('may_be_JSON_and_may_be_empty', async () => {
        for (const text of ['{"strict": true, "retryPolicy": {"globalMaxRetries": 4}}', '# none\n'])
            await withServer(text, {}, async (server) => {
                const wanted = text.includes('4') ? 4 : 20;
                assert.equal((await settings(server)).globalMaxRetries, wanted);
            });
    });

    it('has_the_settings_of_retrying', async () => {
        await withServer('retryPolicy:\n  enabled: true\n  globalMaxRetries: 9\n'
            + '  defaultBackoff: {initialDelay: 3s}\n', {}, async (server) => {
            const now = await settings(server);
            assert.deepEqual([now.enabled, now.globalMaxRetries, now.defaultBackoff.initialDelay],
                [true, 9, '3s']);
            assert.equal(now.lastChange.by, `start with ${file}`);
            assert.equal(now.defaultBackoff.jitter, 'full');
        });
        // In Armada's form the delays are those that are stated.
        await withServer('scheduling:\n  retryPolicy:\n    defaultBackoff: {initialDelay: 3s}\n', {},
            async (server) => assert.equal((await settings(server)).defaultBackoff.jitter, '0s'));
        await withServer('retryPolicy: {enabled: true, whenNoPolicy: default}\n', {},
            async (server) => assert.equal((await settings(server)).whenNoPolicy, 'default'));
        await withServer('', { args: ['--retry-when-no-policy', 'default'] },
            async (server) => assert.equal((await settings(server)).whenNoPolicy, 'default'));
        // Jobs have retries of their own, but for a file in Armada's form.
        const nested = 'scheduling:\n  retryPolicy: {enabled: true}\n';
        for (const [text, args, wanted] of [['', [], 'default'],
            ['retryPolicy: {enabled: true}\n', [], 'default'], [nested, [], 'fail'],
            [nested.replace('}', ', whenNoPolicy: default}'), [], 'default'],
            [nested, ['--retry-when-no-policy', 'default'], 'default'],
            [`retry-when-no-policy: default\n${nested}`, [], 'default']])
            await withServer(text, { args },
                async (server) => assert.equal((await settings(server)).whenNoPolicy, wanted, text));
        // A flag overrides the section, too.
        await withServer('retryPolicy: {enabled: true, globalMaxRetries: 9}\n',
            { args: ['--retry-policy-enabled=false'] }, async (server) => {
                const now = await settings(server);
                assert.deepEqual([now.enabled, now.globalMaxRetries], [false, 9]);
            });
    });

    it('in_the_form_of_Armada_is_not_applied_again_over_what_an_operator_has_set', async () => {
        const flat = 'retryPolicy: {enabled: true, globalMaxRetries: 5}\n';
        const nested = `scheduling:\n  ${flat}`;
        const server = new Server({ args: ['--config', file] });
        const restarted = async (text) => {
            await server.stop();
            fs.writeFileSync(file, text);
            await server.start();
            const now = await settings(server);
            return [now.globalMaxRetries, now.whenNoPolicy];
        };
        const change = async (body) => assert.equal((await server.request('PUT', '/settings/retry', body)).status, 200);
        fs.writeFileSync(file, nested);
        await server.start();
        try {
            // The word that the section implies is not stated anew by each start.
            await change({ whenNoPolicy: 'default', globalMaxRetries: 1 });
            assert.deepEqual(await restarted(nested), [1, 'default']);
            // A section that was applied without that word is no new one if what it implies is in effect.
            assert.deepEqual(await restarted(flat), [5, 'default']);
            await change({ globalMaxRetries: 0, whenNoPolicy: 'fail' });
            assert.deepEqual(await restarted(nested), [0, 'fail'], 'the emergency stop stays');
            // One that says something else is.
            assert.deepEqual(await restarted(nested.replace('5', '6')), [6, 'fail']);
        } finally {
            await server.clean();
        }
    });

    // A new server has no policies, so the file comes first.
    it('may_name_a_default_policy_that_is_made_later', async () => {
        await withServer('retryPolicy:\n  enabled: true\n  globalMaxRetries: 20\n'
            + '  defaultPolicyName: default\n  defaultBackoff:\n    initialDelay: 0s\n'
            + '    maxDelay: 10m\n    multiplier: 2.0\n', {}, async (server) => {
            await until(() => /there is no retry policy 'default' yet/.test(server.stderr),
                'it says so');
            assert.equal((await settings(server)).defaultPolicyName, 'default');
            const queue = queueName();
            const reasons = [];
            for (const made of [false, true]) {
                if (made)
                    assert.equal((await server.post('/retry-policies', {
                        apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
                        metadata: { name: 'default' }, spec: { defaultAction: 'Fail' },
                    })).status, 201);
                const { id } = await server.enqueue({ queue });
                await server.claimOne(queue);
                reasons.push((await server.post(`/jobs/${id}/failure`, { message: 'm' })).json.reason);
            }
            assert.match(reasons[0], /^retry 1 of 25, default backoff, .*policy default is missing$/);
            assert.match(reasons[1], /^dead: no rule matched and policy default says Fail$/);
        });
    });

    it('is_read_again_on_SIGHUP', async () => {
        const text = 'log-level: info\nstrict: false\nretryPolicy: {globalMaxRetries: 9}\n';
        await withServer(text, {}, async (server) => {
            const first = (await settings(server)).lastChange.at;
            await reload(server, text, /has been read again/);
            assert.equal((await settings(server)).lastChange.at, first); // nothing changed
            const said = await reload(server, 'log-level: info\nstrict: true\nport: 1\n'
                + 'max-connections: 5\ndefault-retry-limit: 0\nretryPolicy: {globalMaxRetries: 8}\n',
            /has been read again/);
            assert.match(said, /'max-connections' of .* when the server is started again/);
            assert.doesNotMatch(said, /'port'/); // the flag has the say
            const now = await until(async () => {
                const s = await settings(server);
                return s.globalMaxRetries === 8 && s;
            }, 'the settings change');
            assert.equal(now.lastChange.by, `reload of ${file}`);
            assert.equal(now.lastChange.old.globalMaxRetries, 9);
            const queue = queueName();
            assertError(await server.post('/jobs', { queue, type: 't', payload: 1, unknown: 1 }),
                400, 'unknown_field');
            const { id } = await server.enqueue({ queue });
            await server.claimOne(queue);
            const failed = await server.post(`/jobs/${id}/failure`, { message: 'm' });
            assert.equal(failed.json.status, 'dead', failed.text);
        });
    });

    it('bounds_the_jobs_in_flight_anew_on_SIGHUP', async () => {
        await withServer('log-level: info\nglobal-in-flight-limit: 1\n', {}, async (server) => {
            const [a, b] = [queueName(), queueName()];
            const first = await server.enqueue({ queue: a });
            const second = await server.enqueue({ queue: b });
            const stream = await server.take(`?queue=${a},${b}&prefetch=5`);
            assert.equal((await stream.next()).id, first.id);
            const why = (await server.get(`/jobs/${second.id}/explain`)).json;
            assert.deepEqual(why.waits_for.map((o) => o.kind), ['global_in_flight']);
            assert.match((await server.get('/metrics')).text, /^tenax_in_flight_limit 1$/m);
            await reload(server, 'log-level: info\nglobal-in-flight-limit: 2\n', /has been read again/);
            assert.equal((await stream.next()).id, second.id);
            const third = await server.enqueue({ queue: a });
            await reload(server, 'log-level: info\nglobal-in-flight-limit: 1\n', /has been read again/);
            assert.equal((await server.job(first.id)).status, 'in_flight');
            await server.post(`/jobs/${first.id}/success`);
            assert.equal((await server.job(third.id)).status, 'ready');
            await server.post(`/jobs/${second.id}/success`);
            assert.equal((await stream.next()).id, third.id);
            stream.close();
        });
    });

    it('that_is_bad_on_SIGHUP_changes_nothing', async () => {
        const text = 'strict: true\nretryPolicy: {globalMaxRetries: 9}\n';
        await withServer(text, {}, async (server) => {
            const said = await reload(server,
                'strict: false\nretryPolicy: {globalMaxRetries: 3}\nlog-level: loud\n',
                /nothing has changed/);
            assert.match(said, /tenax\.yaml: line 3, column 12: log-level: 'loud'/);
            assert.equal((await settings(server)).globalMaxRetries, 9);
            assertError(await server.post('/jobs', { queue: 'q', type: 't', payload: 1, no: 1 }),
                400, 'unknown_field');
            const policy = await reload(server,
                'retryPolicy: {defaultPolicyName: nobody, globalMaxRetries: 1}\n',
                /the settings stay as they are/);
            assert.match(policy, /nobody/);
            assert.equal((await settings(server)).globalMaxRetries, 9);
            fs.rmSync(file);
            server.child.kill('SIGHUP');
            await until(() => /cannot read .*tenax\.yaml/.test(server.stderr), 'it says why');
            await server.assertServes();
        });
    });

    it('does_not_undo_what_was_changed_by_hand_until_its_section_changes', async () => {
        const text = 'retryPolicy: {globalMaxRetries: 9, preemptedGracePeriod: 60s}\n';
        await withServer(text, {}, async (server) => {
            const put = await server.request('PUT', '/settings/retry', { globalMaxRetries: 0 },
                { 'worker-id': 'operator' });
            assert.equal(put.status, 200);
            const kept = /has not changed since it was last applied, .* as 'operator' has set them/;
            await reload(server, text, kept);
            assert.equal((await settings(server)).globalMaxRetries, 0);
            // Other settings, and the same in other words, are no change of it.
            await reload(server, 'log-level: info\nretryPolicy:\n  preemptedGracePeriod: 1m\n'
                + '  globalMaxRetries: 9\n', kept);
            assert.equal((await settings(server)).globalMaxRetries, 0);
            await server.signal('SIGKILL');
            await server.start();
            assert.equal((await settings(server)).globalMaxRetries, 0);
            assert.match(server.stderr, kept);
            fs.writeFileSync(file, text.replace('9', '8'));
            server.child.kill('SIGHUP');
            await until(async () => (await settings(server)).globalMaxRetries === 8,
                'the changed section counts');
            await server.stop();
            fs.writeFileSync(file, text.replace('9', '7'));
            await server.start();
            assert.equal((await settings(server)).globalMaxRetries, 7);
        });
    });

    it('moves_the_limit_of_the_disk_and_the_log_says_when_it_is_passed', async () => {
        const room = 'log-level: info\nheartbeat-interval: 20ms\nmin-free-space: ';
        await withServer(`${room}0\n`, {}, async (server) => {
            await until(() => /info {2}tenax \d.* is ready after \d+ ms, with 0 jobs in /.test(server.stderr),
                'it says that it is ready');
            fs.writeFileSync(file, `${room}9000000GiB\n`);
            server.child.kill('SIGHUP');
            await until(() => /warn {2}the disk has \d+ MiB left, .*nothing is stored/.test(server.stderr),
                'it says that there is too little room');
            assert.equal((await server.post('/jobs', { queue: 'q', type: 't', payload: 1 })).status, 507);
            fs.writeFileSync(file, `${room}0\n`);
            server.child.kill('SIGHUP');
            await until(() => /left: jobs are accepted again/.test(server.stderr), 'there is room');
            await server.enqueue({ queue: 'q' });
            assert.equal(server.stderr.match(/the disk has/g).length, 2, server.stderr);
            await server.stop();
            await until(() => /SIGTERM: draining\n.*info {2}stopped\n$/.test(server.stderr), 'it is over');
        });
    });
});
