#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// How fast the clients of each language enqueue and work, against a durable server, and what that costs
// them. With --before it runs those of another checkout in turn with these, and prints the ratio.
//
//     bench/clients.js build/tenax [--before OTHER/clients] [go node python ruby]
//
// BENCH_JOBS (4000), BENCH_CONCURRENCY (64) and BENCH_RUNS (3) say how much. Shown are medians.
'use strict';

const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const { median } = require('./ratios.js');

const HERE = path.join(__dirname, 'clients');
const MINE = path.join(__dirname, '../clients');
const { BENCH_JOBS: JOBS = '4000', BENCH_CONCURRENCY: CONCURRENCY = '64', BENCH_RUNS: RUNS = '3' } = process.env;

const [binary, ...rest] = process.argv.slice(2);
const before = rest[0] === '--before' ? path.resolve(rest.splice(0, 2)[1]) : undefined;
const languages = rest.length ? rest : ['go', 'node', 'python', 'ruby'];
const dir = fs.mkdtempSync(path.join(path.dirname(path.resolve(binary)), 'bench-clients-'));

// The command that is given MODE QUEUE JOBS CONCURRENCY and says {"seconds", "cpu"}.
const COMMANDS = {
    node: (clients) => ['node', path.join(HERE, 'node.mjs'), clients],
    python: (clients) => ['python3', path.join(HERE, 'python.py'), clients],
    ruby: (clients) => ['ruby', path.join(HERE, 'ruby.rb'), clients],
    go: (clients) => {
        const out = fs.mkdtempSync(path.join(dir, 'go-'));
        // The module had another path in earlier checkouts.
        const [, module] = /^module (.*)$/m.exec(fs.readFileSync(path.join(clients, 'go/go.mod'), 'utf8'));
        fs.writeFileSync(path.join(out, 'main.go'), fs.readFileSync(path.join(HERE, 'go/main.go'), 'utf8')
            .replace('"tenax.dev/tenax"', `"${module}"`));
        fs.writeFileSync(path.join(out, 'go.mod'), `module bench\n\ngo 1.19\n\nrequire ${module} v0.1.0\n\n`
            + `replace ${module} => ${path.join(clients, 'go')}\n`);
        execFileSync('go', ['build', '-o', 'bench', '.'], { cwd: out, stdio: 'inherit',
            env: { ...process.env, GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local', GOWORK: 'off' } });
        return [path.join(out, 'bench')];
    },
};

async function serve() {
    const server = spawn(binary, ['serve', '--root-dir', path.join(dir, 'root'), '--port', '0', '--no-admin'],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    const url = await new Promise((resolve, reject) => {
        server.stdout.on('data', (bytes) => {
            said += bytes;
            const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
            if (found)
                resolve(found[0]);
        });
        server.on('exit', () => reject(new Error('the server has ended')));
    });
    server.removeAllListeners('exit');
    return { server, url };
}

async function fill(url, queue) {
    for (let left = Number(JOBS); left > 0; left -= 1000) {
        const jobs = Array.from({ length: Math.min(left, 1000) }, () => ({ queue, type: 't', payload: { n: 1 } }));
        const res = await fetch(`${url}/jobs/bulk`, { method: 'POST', body: JSON.stringify({ jobs }),
            headers: { 'content-type': 'application/json' } });
        if (!res.ok)
            throw new Error(await res.text());
    }
}

async function measure(url, command, mode, queue) {
    if (mode === 'drain')
        await fill(url, queue);
    const said = execFileSync(command[0], [...command.slice(1), mode, queue, JOBS, CONCURRENCY],
        { env: { ...process.env, TENAX_URL: url }, stdio: ['ignore', 'pipe', 'inherit'] });
    const { seconds, cpu } = JSON.parse(said);
    return { rate: JOBS / seconds, cpu: 1e6 * cpu / JOBS };
}

const middle = (list, name) => Math.round(median(list.map((one) => one[name])));

function say(language, mode, after, old) {
    const of = (list) => `${middle(list, 'rate')} jobs/s, ${middle(list, 'cpu')} µs of its CPU a job`;
    const ratio = old ? ` (before: ${of(old)}; ${(middle(after, 'rate') / middle(old, 'rate')).toFixed(2)} times as fast)` : '';
    console.log(`${language} ${mode}: ${of(after)}${ratio}`);
}

async function main() {
    const { server, url } = await serve();
    try {
        console.log(`${os.cpus().length} cores with a load of ${os.loadavg()[0].toFixed(1)}; ${JOBS} jobs, ${CONCURRENCY} at once`);
        let number = 0;
        for (const language of languages) {
            const sides = [MINE, before].filter(Boolean).map((clients) => COMMANDS[language](clients));
            for (const mode of ['enqueue', 'drain']) {
                const measured = sides.map(() => []);
                for (let run = 0; run < Number(RUNS); run++)
                    for (const [i, command] of sides.entries())
                        measured[i].push(await measure(url, command, mode, `${language}-${mode}-${++number}`));
                say(language, mode, ...measured);
            }
        }
    } finally {
        server.kill('SIGKILL');
        fs.rmSync(dir, { recursive: true, force: true });
    }
}

main();
