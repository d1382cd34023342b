// SPDX-License-Identifier: Apache-2.0
'use strict';

// The packages of the clients: each is installed into an empty environment from its file alone, and runs the
// start that README.md has for its language against a real server.

const assert = require('node:assert/strict');
const { execFile, execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { environment, makeDir, useServer } = require('../http/harness');

const SOURCE = path.join(__dirname, '../..');
const README = fs.readFileSync(path.join(SOURCE, 'README.md'), 'utf8');
const VERSION = JSON.parse(fs.readFileSync(path.join(SOURCE, 'clients/node/package.json'), 'utf8')).version;

function start(language) {
    return new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(README)[1];
}

describe('packages of the clients', () => {
    const server = useServer({ args: ['--default-completed-job-retention', '1h'] });
    const dir = makeDir(), out = path.join(dir, 'packages');
    const file = (name) => path.join(out, name);

    before(() => execFileSync('tools/packages', [out], { cwd: SOURCE, stdio: ['ignore', 'ignore', 'inherit'] }));
    after(() => {
        spawnSync('chmod', ['-R', 'u+w', dir]); // Go's cache of modules
        fs.rmSync(dir, { recursive: true, force: true });
    });

    // An empty folder to work in, which is also the home.
    function place(language) {
        const here = path.join(dir, language);
        fs.mkdirSync(here);
        return here;
    }

    // Not execFileSync: while that blocks, the server closes the connections that are idle.
    function run(here, command, args, env = {}) {
        return new Promise((resolve, reject) => {
            execFile(command, args, { cwd: here, timeout: 300000,
                env: { ...environment(), HOME: here, TENAX_URL: server.url(), ...env } },
            (err, stdout, stderr) => (err ? reject(new Error(`${err.message}\n${stdout}${stderr}`)) : resolve(stdout)));
        });
    }

    // The start enqueues a job of the queue mail and does it.
    async function assertDone(count) {
        const jobs = (await server.get('/jobs?queue=mail')).json.jobs;
        assert.deepEqual(jobs.map((job) => job.status), Array(count).fill('completed'));
    }

    let done = 0;

    it('for_npm', async () => {
        const here = place('node');
        fs.writeFileSync(path.join(here, 'package.json'), '{"private": true}');
        await run(here, 'npm', ['install', '--offline', '--no-audit', '--no-fund', file(`tenax-${VERSION}.tgz`)]);
        fs.writeFileSync(path.join(here, 'start.mjs'), start('js'));
        await run(here, 'node', ['start.mjs']);
        await assertDone(++done);
        assert.deepEqual(fs.readdirSync(path.join(here, 'node_modules/tenax')).sort(),
            ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json', 'src']);
        assert.ok(fs.existsSync(path.join(here, 'node_modules/tenax/src/index.d.ts')));
    });

    for (const name of [`tenax-${VERSION}-py3-none-any.whl`, `tenax-${VERSION}.tar.gz`]) {
        it(`for_pip_${path.extname(name).slice(1)}`, async () => {
            const here = place(name), env = path.join(here, 'env');
            const isWheel = name.endsWith('.whl');
            // To build from sources takes setuptools, which the machine has and an empty environment has not.
            await run(here, '/usr/bin/python3', ['-m', 'venv', ...(isWheel ? [] : ['--system-site-packages']), env]);
            await run(here, path.join(env, 'bin/pip'), ['install', '--quiet', '--no-index', '--disable-pip-version-check',
                ...(isWheel ? [] : ['--no-build-isolation']), file(name)]);
            fs.writeFileSync(path.join(here, 'start.py'), start('python'));
            await run(here, path.join(env, 'bin/python'), ['start.py']);
            await assertDone(++done);
            const found = await run(here, path.join(env, 'bin/python'), ['-c',
                'import tenax, os; d = os.path.dirname(tenax.__file__); print(tenax.__version__, d, os.listdir(d))']);
            assert.match(found, new RegExp(`^${VERSION} ${env}/.*py\\.typed`));
        });
    }

    it('for_gem', async () => {
        const here = place('ruby'), gems = path.join(here, 'gems');
        await run(here, 'gem', ['install', '--local', '--no-document', '--install-dir', gems, file(`tenax-${VERSION}.gem`)]);
        fs.writeFileSync(path.join(here, 'start.rb'), start('ruby'));
        await run(here, 'ruby', ['start.rb'], { GEM_HOME: gems, GEM_PATH: gems });
        await assertDone(++done);
    });

    it('for_go_get', async () => {
        const here = place('go');
        const env = { GOPROXY: `file://${path.join(out, 'go')}`, GONOSUMDB: '*', GONOSUMCHECK: '1', GOFLAGS: '-mod=mod',
            GOTOOLCHAIN: 'local', GOWORK: 'off', GOPATH: path.join(here, 'path'),
            GOCACHE: execFileSync('go', ['env', 'GOCACHE'], { encoding: 'utf8' }).trim() }; // of Go's own packages
        fs.writeFileSync(path.join(here, 'main.go'), 'package main\n\nimport (\n"context"\n"tenax.dev/tenax"\n)\n\n' +
            `func main() {\nctx := context.Background()\n${start('go')}}\n`);
        await run(here, 'go', ['mod', 'init', 'start'], env);
        await run(here, 'go', ['get', `tenax.dev/tenax@v${VERSION}`], env);
        await run(here, 'go', ['run', '.'], env);
        await assertDone(++done);
    });

    it('are_the_same_bytes_each_time_and_have_checksums', () => {
        const again = path.join(dir, 'again');
        execFileSync('tools/packages', [again], { cwd: SOURCE, stdio: ['ignore', 'ignore', 'inherit'] });
        const sums = fs.readFileSync(file('SHA256SUMS'), 'utf8');
        assert.equal(fs.readFileSync(path.join(again, 'SHA256SUMS'), 'utf8'), sums);
        assert.equal(sums.trim().split('\n').length, 8);
        execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: out });
    });
});
