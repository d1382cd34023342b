// SPDX-License-Identifier: Apache-2.0
'use strict';

// What an executor counts, and the command line that it refuses.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { run, until } = require('../http/harness');
const { pod, useBed } = require('./executor_harness');

const FILE = path.join(__dirname, '../../docs/kubernetes.md');

describe('metrics of an executor', () => {
    const bed = useBed();

    it('are_those_that_are_documented_and_count', async () => {
        const executor = bed.executor({ args: ['--metrics-port', '0'] }).start();
        await executor.says(/metrics on (http\S+)/);
        const [, url] = /metrics on (http\S+)/.exec(executor.stderr);
        const { id } = await bed.enqueue(executor, pod(['running', 'succeeded']));
        await bed.status(id, 'completed');
        let text;
        await until(async () => {
            text = await (await fetch(url)).text();
            return /tenax_executor_reports_waiting 0/.test(text) &&
                /tenax_executor_runs_succeeded_total 1/.test(text);
        }, 'it is counted');
        assert.match(text, /tenax_executor_pods\{phase="succeeded"\} 1/);
        assert.match(text, /tenax_executor_pods_created_total 1/);
        assert.match(text, /tenax_executor_api_calls_total\{verb="create",code="201"\} [1-9]/);
        assert.match(text, /tenax_executor_pod_running_seconds_count 1/);
        const documented = fs.readFileSync(FILE, 'utf8');
        for (const [, name] of text.matchAll(/^# TYPE (\S+)/gm)) {
            const short = name.replace(/^tenax_executor_(pods|runs|pod)_/, '…_');
            assert.ok(documented.includes(`\`${name}`) || documented.includes(`\`${short}`), name);
        }
        const health = await (await fetch(url.replace('metrics', 'health'))).json();
        assert.deepEqual(health, { status: 'ok', can_create: true, server: true, cluster: true, synced: true });
        assert.equal((await fetch(url.replace('metrics', 'other'))).status, 404);
        assert.equal((await fetch(url, { method: 'POST' })).status, 405);
        await executor.stop();
    });
});

describe('a command line that makes no executor', () => {
    for (const [args, words] of [
        [[], /which queue/],
        [['--queue', 'a', '--queue-limit', 'a'], /not NAME=COUNT/],
        [['--queue', 'a', '--queue-limit', 'a=0'], /not NAME=COUNT/],
        [['--queue', 'a', '--queue-limit', 'b=3'], /there is no --queue 'b'/],
        [['--queue', 'a', '--max-cpu', 'many'], /--max-cpu/],
        [['--queue', 'a', '--max-memory', 'much'], /--max-memory/],
        [['--queue', 'a', '--prefix', 'Tenax'], /--prefix/],
        [['--queue', 'a', '--name', 'a b'], /--name/],
        [['--queue', 'a', '--lease', '5ms'], /--lease/],
        [['--queue', 'a', '--server', 'ftp://x'], /--server/],
        [['--queue', 'a', '--max-pods', '0'], /--max-pods/],
        [['--queue', 'a', '--namespace', 'Jobs'], /--namespace': 'Jobs' is no name/],
        [['--queue', 'a', '--allow-namespace', 'jobs,b_c'], /--allow-namespace': 'b_c' is no name/],
        [['--queue', 'a', '--kubeconfig', '--check'], /--kubeconfig': it needs a value/],
    ])
        it(`says_why_${args.slice(-2).join('_') || 'nothing'}`, async () => {
            const ran = await run(['executor', ...args]);
            assert.equal(ran.code, 2, ran.stderr);
            assert.match(ran.stderr, words);
        });

    it('names_the_state_directory_that_cannot_be_one', async () => {
        const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-state-'));
        const kubeconfig = path.join(dir, 'kubeconfig');
        fs.writeFileSync(kubeconfig, JSON.stringify({ clusters: [{ name: 'a', cluster: {
            server: 'http://127.0.0.1:1' } }], contexts: [{ name: 'a', context: { cluster: 'a' } }],
        'current-context': 'a' }));
        const ran = await run(['executor', '--queue', 'a', '--kubeconfig', kubeconfig, '--state-dir', kubeconfig]);
        assert.equal(ran.code, 1, ran.stderr);
        assert.ok(ran.stderr.includes(`reports cannot be kept (--state-dir): cannot open ${kubeconfig}: Not a directory`),
            ran.stderr);
        fs.rmSync(dir, { recursive: true });
    });

    for (const [file, words] of [['/nonexistent/kubeconfig', /kubeconfig \/nonexistent/],
        ['/dev/null', /null/], ['/dev/null:/nonexistent/two', /must be one file/]])
        it(`names_a_kubeconfig_that_is_none_${path.basename(file)}`, async () => {
            const ran = await run(['executor', '--queue', 'a', '--kubeconfig', file]);
            assert.equal(ran.code, 1, ran.stderr);
            assert.match(ran.stderr, words);
        });
});
