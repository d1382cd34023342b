// SPDX-License-Identifier: Apache-2.0
'use strict';

// Debian's nginx, HAProxy and Caddy in front of a server, with the blocks of docs/proxies.md. Each has a
// folder and an address of its own, and runs as nobody where the tests run as root.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { makeDir, ownAddress, until, within } = require('./harness');

const PAGE = fs.readFileSync(path.join(__dirname, '../../docs/proxies.md'), 'utf8');
const NOBODY = 65534;
// By so much the idle times of the page and of the server are shortened, to pass in seconds. Times that bound
// a step (a connection, a request's head) stay as they are: a busy machine is no fault of a proxy's.
const SHORTER = Number(process.env.PROXY_TIMES ?? 15);
const IDLE_S = 30;
let ports = 20000;

function block(language) {
    const found = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'm').exec(PAGE);
    assert.ok(found, `a block of ${language} in docs/proxies.md`);
    return found[1];
}

// A setting's default, as the server is started with it here.
function shorter(seconds, by = SHORTER) {
    return `${Math.round(1000 * seconds / by)}ms`;
}

function placed(text, server, at, by) {
    let listens = 0;
    const moved = text.replaceAll('127.0.0.1:7890', `${server.host}:${server.port}`)
        .replace(/^( *(?:listen |bind :|:))8080\b/gm, (_, before) => {
            listens++;
            return /^ *:$/.test(before) ? `:${at.port}` : `${before.replace(/:$/, '')}${at.host}:${at.port}`;
        });
    assert.equal(listens, 1, 'the block listens on port 8080');
    return moved.replace(/\b(\d+)s\b(?=[;\n])/g, (time, seconds) => Number(seconds) < IDLE_S ? time : shorter(Number(seconds), by));
}

// nginx with these lines as all that its configuration says of HTTP.
function nginx(lines, dir) {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${dir}/${kind};`).join(' ');
    const file = path.join(dir, 'nginx.conf');
    fs.writeFileSync(file, `pid ${dir}/pid; error_log ${dir}/error; daemon off; master_process off;
events {}
http { access_log off; ${temporary}
${lines} }
`);
    return ['nginx', ['-e', `${dir}/error`, '-c', file]];
}

// What ingress-nginx makes of its annotations; its own defaults are nginx's, but for the buffering.
function directives(annotations) {
    const made = {
        'proxy-body-size': (v) => `client_max_body_size ${v};`,
        'proxy-buffering': (v) => `proxy_buffering ${v};`,
        'proxy-http-version': (v) => `proxy_http_version ${v};`,
        'proxy-read-timeout': (v) => `proxy_read_timeout ${v}s;`,
        'proxy-send-timeout': (v) => `proxy_send_timeout ${v}s;`,
    };
    return annotations.map(([name, value]) => {
        if (name === 'rewrite-target')
            return '';
        assert.ok(made[name], `an annotation that the test knows: ${name}`);
        return made[name](value);
    });
}

function ingress() {
    const text = block('yaml');
    const annotations = [...text.matchAll(/^ {4}nginx\.ingress\.kubernetes\.io\/([\w-]+): "?([^"\n]*)"?$/gm)]
        .map(([, name, value]) => [name, value]);
    const rewrite = annotations.find(([name]) => name === 'rewrite-target')[1];
    const from = /path: (\S+)/.exec(text)[1];
    const common = [...directives(annotations), 'proxy_set_header Host $http_host;', 'proxy_set_header Connection "";',
        'proxy_set_header X-Forwarded-For $remote_addr;'].join('\n');
    return `server {
listen 8080;
${common}
location ~* "^${from}" { rewrite "(?i)${from}" ${rewrite} break; proxy_pass http://127.0.0.1:7890; }
location / { proxy_pass http://127.0.0.1:7890; }
}
`;
}

const PROXIES = {
    nginx: (place, dir) => nginx(place(block('nginx')), dir),
    haproxy(place, dir) {
        const file = path.join(dir, 'haproxy.cfg');
        fs.writeFileSync(file, place(block('haproxy')));
        return ['haproxy', ['-db', '-f', file]];
    },
    caddy(place, dir, at) {
        const file = path.join(dir, 'Caddyfile');
        const site = place(block('caddyfile')).replace('{\n', `{\nbind ${at.host}\n`);
        fs.writeFileSync(file, `{\nadmin off\nauto_https off\n}\n${site}`);
        return ['caddy', ['run', '--config', file, '--adapter', 'caddyfile']];
    },
    'ingress-nginx': (place, dir) => nginx(place(ingress()), dir),
    // As Debian has it: HTTP/1.0, and answers are gathered.
    'nginx with proxy_pass alone': (place, dir) =>
        nginx(place('server {\nlisten 8080; location / { proxy_pass http://127.0.0.1:7890; } }\n'), dir),
};

function answers({ host, port }) {
    return new Promise((resolve) => {
        const socket = net.connect({ host, port });
        socket.on('connect', () => { socket.destroy(); resolve(true); });
        socket.on('error', () => resolve(false));
    });
}

// Starts it, with times shortened by so much, and returns its address and what ends it.
async function startProxy(name, server, by = 1) {
    const dir = makeDir(), at = { host: ownAddress(), port: ++ports };
    const [command, args] = PROXIES[name]((text) => placed(text, server, at, by), dir, at);
    const root = process.getuid() === 0;
    if (root)
        for (const file of ['', ...fs.readdirSync(dir)])
            fs.chownSync(path.join(dir, file), NOBODY, NOBODY);
    const child = spawn(command, args, { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'],
        env: { PATH: `${process.env.PATH}:/usr/sbin`, HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir },
        ...(root && { uid: NOBODY, gid: NOBODY }) });
    let said = '';
    for (const stream of [child.stdout, child.stderr])
        stream.on('data', (bytes) => { said += bytes; });
    let over = false;
    const ended = new Promise((resolve) => {
        child.on('error', (err) => { said += err; over = true; resolve(); });
        child.on('close', () => { over = true; resolve(); });
    });
    const kill = () => child.kill('SIGKILL');
    process.on('exit', kill);
    await until(() => over || answers(at), () => `${name} answers; it says ${said}`);
    assert.ok(!over, `${name} runs (tools/setup test installs it): ${said}`);
    return { ...at, url: `http://${at.host}:${at.port}`, async stop() {
        kill();
        await within(ended, `${name} ends`);
        process.off('exit', kill);
        fs.rmSync(dir, { recursive: true, force: true });
    } };
}

module.exports = { PROXIES, SHORTER, shorter, startProxy };
