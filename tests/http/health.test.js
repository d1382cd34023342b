// SPDX-License-Identifier: Apache-2.0
'use strict';

// The health check of the image, as Docker runs it: a script that finds where process 1 listens.

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { BIN, Server, makeDir, useServer } = require('./harness');

const SOURCE = path.join(__dirname, '../..');
const SCRIPT = path.join(SOURCE, 'packaging/docker-health');

describe('the health check of the image', () => {
    const server = useServer();
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));

    // Resolves with what it says of a server with this command line and environment.
    function health(words, env = {}) {
        const file = path.join(dir, 'cmdline');
        fs.writeFileSync(file, words.map((word) => `${word}\0`).join(''));
        return new Promise((resolve) => {
            execFile(SCRIPT, [file], {
                env: { PATH: `${path.dirname(path.resolve(BIN))}:${process.env.PATH}`, ...env },
            }, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, said: stdout + stderr }));
        });
    }

    it('is_what_the_Dockerfile_runs', () => {
        const text = fs.readFileSync(path.join(SOURCE, 'Dockerfile'), 'utf8');
        assert.match(text, /^COPY packaging\/docker-health \/usr\/local\/bin\/docker-health$/m);
        assert.match(text, /^HEALTHCHECK .* CMD \["docker-health"\]$/m);
        assert.equal(spawnSync('sh', ['-n', SCRIPT]).status, 0);
    });

    it('follows_the_listener', async () => {
        const port = `${server.port}`;
        for (const [words, env] of [
            [['tenax', 'serve'], { TENAX_PORT: port }],
            [['tenax', 'serve'], { TENAX_PORT: port, TENAX_HOST: '0.0.0.0' }],
            [['tenax', 'serve'], { ZIZQ_PORT: port }],
            [['tenax', 'serve', '--port', port], { TENAX_PORT: '1' }],
            [['tenax', 'serve', '--host=127.0.0.1', `--port=${port}`], { TENAX_PORT: '1' }],
            [['tenax', 'serve'], { TENAX_HEALTH_URL: server.url() }],
            [['tenax', 'serve', '--tls-cert', 'x'], { TENAX_ADMIN_PORT: new URL(server.adminUrl).port }],
        ]) {
            const { code, said } = await health(words, env);
            assert.equal(code, 0, `${words} ${JSON.stringify(env)}: ${said}`);
            assert.match(said, /^server \d/m);
        }
    });

    it('fails_where_nobody_listens', async () => {
        const gone = new Server();
        await gone.start();
        const { port } = gone;
        await gone.clean();
        assert.notEqual((await health(['tenax', 'serve', '--port', `${port}`])).code, 0);
    });
});
