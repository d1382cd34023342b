// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every sample of the documents is run as it stands: shell against a server, in the order of the
// page; YAML is applied, configures a server, or is judged by promtool; JSON is sent, held against
// docs/openapi.json, or names the clients of a server. A block of a language that is not known here
// fails.

const assert = require('node:assert/strict');
const { execFile, spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, Server, makeDir, running, until } = require('./harness');
const { schemaAt } = require('./openapi');

const SOURCE = path.join(__dirname, '../..');
const documents = ['README.md', ...fs.readdirSync(path.join(SOURCE, 'docs'))
    .filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];

function samplesOf(file) {
    const text = fs.readFileSync(path.join(SOURCE, file), 'utf8');
    return [...text.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map((match) => ({
        language: match[1], text: match[2], line: text.slice(0, match.index).split('\n').length,
    }));
}

// Resolves with {code, said}.
function run(command, args, options) {
    return new Promise((resolve) => {
        execFile(command, args, { timeout: 120000, ...options }, (error, stdout, stderr) =>
            resolve({ code: error ? error.code ?? error.signal : 0, said: `${stdout}${stderr}` }));
    });
}

const totals = {};

for (const file of documents.filter((name) => samplesOf(name).length))
    describe(`the samples of ${file}`, () => {
        const server = new Server({ args: ['--default-completed-job-retention', '1h'] });
        const old = new Server(); // what jobs are moved from
        const dir = makeDir();
        let env;

        before(async () => {
            await Promise.all([server.start(), old.start()]);
            fs.symlinkSync(path.resolve(BIN), path.join(dir, 'tenax'));
            fs.mkdirSync(path.join(dir, 'build'));
            fs.symlinkSync(path.resolve(BIN), path.join(dir, 'build/tenax'));
            fs.writeFileSync(path.join(dir, 'variables'), 'id= token=\n');
            fs.writeFileSync(path.join(dir, 'send-mail'), '#!/bin/sh\nexec cat\n', { mode: 0o755 });
            env = {
                ...process.env, PATH: `${dir}:${process.env.PATH}`, TENAX_URL: server.url(), HOME: dir,
            };
        });

        after(async () => {
            await Promise.all([server.clean(), old.clean()]);
            fs.rmSync(dir, { recursive: true });
        });

        // As on a machine where the servers listen where they do by default.
        const here = (text) => text.replaceAll(':7890', `:${server.port}`)
            .replaceAll(':7891', `:${old.port}`);

        // A backup is made by the admin listener.
        const admin = (text) => text.replace(/^(\S*tenax backup) /gm, `$1 --url ${server.adminUrl} `);

        // The last line is a worker that ends when it is told.
        async function worker(text) {
            const child = spawn('bash', ['-euo', 'pipefail', '-c',
                here(text).replace(/^tenax work /m, 'exec tenax work ')],
            { cwd: dir, env, stdio: ['ignore', 'ignore', 'pipe'] });
            running.add(child);
            let said = '';
            child.stderr.on('data', (bytes) => { said += bytes; });
            const ended = new Promise((resolve) => { child.on('close', resolve); });
            await until(async () => (await server.get('/workers')).json.workers.some((w) => w.claims > 0),
                () => `it waits for jobs: ${said}`);
            child.kill('SIGTERM');
            assert.equal(await ended, 0, said);
            running.delete(child);
        }

        async function shell(text) {
            if (/^tenax work /m.test(text) && !/--drain|--once/.test(text))
                return worker(text);
            // A sample goes on with the variables of those before it.
            const script = `. ./variables\n${admin(here(text))}\ndeclare -p id token >variables`;
            const { code, said } = await run('bash', ['-euo', 'pipefail', '-c', script],
                { cwd: dir, env });
            assert.equal(code, 0, said);
            // What curl was answered; errors are answers to it.
            assert.doesNotMatch(said, /"error":/, said);
        }

        async function yaml(text) {
            if (/^kind: Ingress$/m.test(text))
                return; // likewise
            const name = path.join(dir, 'sample.yaml');
            fs.writeFileSync(name, text);
            if (/^kind:/m.test(text)) {
                const { code, said } = await run(BIN, ['apply', '-f', name], { env });
                assert.equal(code, 0, said);
                // Whether they are switched on is said elsewhere on the page.
                assert.doesNotMatch(said.replace(/^.*retry policies are not enabled.*$/gm, ''), /warning/i, said);
            } else if (/^scrape_configs:/m.test(text)) {
                fs.copyFileSync(path.join(SOURCE, 'docs/prometheus/alerts.yml'),
                    path.join(dir, 'alerts.yml'));
                const judged = spawnSync(path.join(SOURCE, 'tools/promtool'),
                    [path.dirname(BIN), 'check', 'config', name], { encoding: 'utf8' });
                assert.equal(judged.status, 0, judged.stdout + judged.stderr);
            } else if (/^issuers:/m.test(text)) {
                const { code, said } = await run(BIN, ['serve', '--identities', name,
                    '--print-access', '--root-dir', path.join(dir, 'identities')], { env });
                assert.equal(code, 0, said);
            } else {
                const other = new Server({ args: ['--config', name] });
                await other.start();
                await other.clean();
            }
        }

        async function json(text) {
            const value = JSON.parse(text);
            if (Array.isArray(value)) { // clients of the server
                const name = path.join(dir, 'clients.json');
                fs.writeFileSync(name, text);
                const other = new Server({ args: ['--taskcluster-clients', name] });
                await other.start();
                await other.clean();
                return;
            }
            if (value.event) {
                const valid = schemaAt(['components', 'schemas', 'Event']);
                assert.ok(valid(value), JSON.stringify(valid.errors));
                return;
            }
            if (value.queues) {
                const valid = schemaAt(['components', 'schemas', 'BacklogPage']);
                assert.ok(valid(value), JSON.stringify(valid.errors));
                return;
            }
            const res = await server.post(value.jobs ? '/jobs/bulk' : '/jobs', value,
                { 'tenax-strict': 'true' });
            assert.equal(res.status, 201, res.text);
        }

        // The worker: it does a job, and ends when it is told.
        async function python(text) {
            fs.writeFileSync(path.join(dir, 'worker.py'), text);
            const { id } = await server.enqueue({ queue: 'greetings', payload: { name: 'Ada' } });
            const bad = await server.enqueue({ queue: 'greetings', payload: {}, retry_limit: 0 });
            const child = spawn('python3', ['worker.py'], { cwd: dir, env, stdio: 'inherit' });
            const ended = new Promise((resolve) => { child.on('close', resolve); });
            const status = async (which) => (await server.job(which)).status;
            await until(async () => await status(id) === 'completed' && await status(bad.id) === 'dead');
            child.kill('SIGTERM');
            assert.equal(await ended, 0);
            assert.equal((await server.job(id)).result, 'hello, Ada');
            assert.equal((await server.runs(bad.id))[0].error_type, 'KeyError');
        }

        const kinds = {
            sh: shell, yaml, json, python,
            // What a proxy needs: proxies.test.js runs them with real ones.
            nginx: assert.ok,
            haproxy: assert.ok,
            caddyfile: assert.ok,
            ruby: (text) => assert.ok(text), // there is none here; nothing is asked of it
            js: assert.ok, // tests/clients runs those of the clients
            go: assert.ok,
            sql: (text) => assert.match(text, /tenax\.enqueue/), // nor is PostgreSQL: tests/postgres calls it
        };

        // Jobs with all that Zizq's may have.
        const batch = { key: 'k', when: '$existing | length < 9', fold: '$existing + $new' };
        const full = [
            {
                queue: 'full', type: 'a', payload: { n: [1, null, 'é'] }, priority: 7, retry_limit: 3,
                ready_at: Date.now() + 7200000, unique_key: 'u', unique_while: 'active',
                backoff: { base_ms: 1000, exponent: 2, jitter_ms: 3 },
                retention: { completed_ms: 0, dead_ms: 123456789 },
            },
            { queue: 'full', type: 'b', payload: [1], batch },
            { queue: 'full', type: 'c', payload: 0, retention: { dead_ms: 5000 } },
        ];

        if (file === 'docs/moving.md')
            before(async () => {
                const waits = { queue: 'old', payload: { n: 1 }, ready_at: Date.now() + 3600000 };
                await old.enqueueMany(Array.from({ length: 700 }, () => waits));
                await old.enqueueMany(full);
            });

        for (const { language, text, line } of samplesOf(file))
            it(`run_as_they_stand_at_line_${line}`, async () => {
                totals[language] = (totals[language] ?? 0) + 1;
                assert.ok(kinds[language], `${file}:${line}: a sample of the language '${language}'`);
                if (file !== 'README.md' || language !== 'python') // tests/clients runs it
                    await kinds[language](text);
            });

        if (file === 'docs/moving.md')
            it('have_moved_every_job', async () => {
                const { jobs } = (await server.get('/jobs?queue=old&limit=2000')).json;
                assert.equal(jobs.length, 700);
                assert.deepEqual(jobs[0].payload, { n: 1 });
                assert.ok(jobs.every((job) => job.status === 'scheduled'));
            });

        if (file === 'docs/moving.md')
            it('have_moved_all_that_jobs_had', async () => {
                const { jobs } = (await server.get('/jobs?queue=full')).json;
                const moved = Object.fromEntries(jobs.map((job) => [job.type, job]));
                assert.equal(jobs.length, full.length);
                for (const job of full)
                    for (const [name, value] of Object.entries(job))
                        assert.deepEqual(moved[job.type][name], value, `${job.type}.${name}`);
                // The batch goes on where it went to.
                const more = await server.post('/jobs', { ...full[1], payload: [2] });
                assert.equal(more.json.id, moved.b.id, more.text);
                assert.deepEqual((await server.job(moved.b.id)).payload, [1, 2]);
            });
    });

it('samples_of_each_kind_were_found', () => {
    // Or nothing was run.
    for (const language of ['sh', 'yaml', 'json', 'python'])
        assert.ok(totals[language] > 0, language);
});
