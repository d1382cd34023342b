// SPDX-License-Identifier: Apache-2.0
'use strict';

// TLS, mutual TLS, and `tenax tls`, against the real binary.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const tls = require('node:tls');
const { client1, client2, logged, makeDir, run, serve, within } = require('./transport.js');

async function ok(args, input) {
    const { code, stdout, stderr } = await run(args, input);
    assert.equal(code, 0, stderr);
    return stdout;
}

// A folder with a CA, a server's certificate and those of the clients.
async function certificates(t, ...clients) {
    const dir = path.join(makeDir(t), 'tls');
    await ok(['tls', 'init', '--out-dir', dir, ...clients.flatMap((name) => ['--client', name])]);
    const file = (name) => path.join(dir, name);
    const of = (name) => ({
        cert: fs.readFileSync(file(`client-${name}-cert.pem`)),
        key: fs.readFileSync(file(`client-${name}-key.pem`)),
    });
    return { dir, file, of, ca: fs.readFileSync(file('ca-cert.pem')) };
}

function serverArgs(c, mutual) {
    return ['--tls-cert', c.file('server-cert.pem'), '--tls-key', c.file('server-key.pem'),
        ...(mutual ? ['--tls-client-ca', c.file('ca-cert.pem')] : [])];
}

test('TLS serves HTTP/1.1 and HTTP/2, by ALPN', async (t) => {
    const c = await certificates(t);
    const { url, lines } = await serve(t, serverArgs(c));
    assert.match(url, /^https:/);
    assert.match(lines[0], /^Listening on http:.* \(admin\)$/);
    const one = await client1(t, url, { ca: c.ca }).ask('GET', '/version');
    const h2 = client2(t, url, { ca: c.ca });
    const two = await h2.ask('GET', '/version');
    assert.equal(h2.session.alpnProtocol, 'h2');
    assert.equal(one.status, 200);
    assert.equal(two.body, one.body);
    const large = JSON.stringify({ queue: 'q', type: 't', payload: 'x'.repeat(3000000) });
    const { status, body } = await h2.ask('POST', '/jobs', large,
        { 'content-type': 'application/json' });
    assert.equal(status, 201);
    const back = await client1(t, url, { ca: c.ca }).ask('GET', `/jobs/${JSON.parse(body).id}`);
    assert.equal(JSON.parse(back.body).payload.length, 3000000);
});

test('a session can be resumed', async (t) => {
    const c = await certificates(t);
    const { url } = await serve(t, serverArgs(c));
    const connect = (session) => within(new Promise((resolve, reject) => {
        const socket = tls.connect({ port: new URL(url).port, host: '127.0.0.1', ca: c.ca, session });
        let ticket, reused;
        socket.on('secureConnect', () => { reused = socket.isSessionReused(); });
        socket.on('session', (s) => { ticket = s; });
        socket.on('error', reject);
        socket.on('close', () => resolve({ ticket, reused }));
        socket.on('data', () => {});
        socket.write('GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    }), 'the connection ends');
    const first = await connect();
    assert.equal(first.reused, false);
    assert.equal((await connect(first.ticket)).reused, true);
});

test('versions before TLS 1.2 and weak ciphers are refused', async (t) => {
    const c = await certificates(t);
    const { url } = await serve(t, serverArgs(c));
    const attempt = (options) => new Promise((resolve, reject) => {
        const socket = tls.connect({ port: new URL(url).port, host: '127.0.0.1', ca: c.ca, ...options });
        socket.on('error', reject);
        socket.on('secureConnect', () => {
            socket.destroy();
            resolve(socket.getProtocol());
        });
    });
    await assert.rejects(attempt({
        minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0',
    }));
    await assert.rejects(attempt({
        maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA:AES128-SHA',
    }));
    await assert.rejects(attempt({ ALPNProtocols: ['spdy/3'] }));
    await attempt({ maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] });
});

test('with a CA of clients nobody else is served', async (t) => {
    const c = await certificates(t, 'worker'), other = await certificates(t, 'stranger');
    const { url } = await serve(t, serverArgs(c, true));
    const known = { ca: c.ca, ...c.of('worker') };
    assert.equal((await client1(t, url, known).ask('GET', '/version')).status, 200);
    assert.equal((await client2(t, url, known).ask('GET', '/version')).status, 200);
    for (const client of [client1, client2]) {
        await assert.rejects(client(t, url, { ca: c.ca }).ask('GET', '/version'));
        await assert.rejects(client(t, url, { ca: c.ca, ...other.of('stranger') })
            .ask('GET', '/version'));
        await assert.rejects(client(t, url, { ...known, ca: other.ca }).ask('GET', '/version'));
    }
});

test('the command line speaks mutual TLS from end to end', async (t) => {
    const c = await certificates(t, 'worker');
    const { url } = await serve(t, serverArgs(c, true));
    const trust = ['--url', url, '--ca-cert', c.file('ca-cert.pem')];
    const flags = [...trust, '--client-cert', c.file('client-worker-cert.pem'),
        '--client-key', c.file('client-worker-key.pem')];
    const id = (await ok(['enqueue', ...flags, '--queue', 'q', '--type', 't', '{"n": 1}'])).trim();
    assert.match(await ok(['jobs', ...flags]), new RegExp(id));
    assert.equal(await ok(['work', ...flags, '--queue', 'q', '--once', '--', 'cat']), '{"n": 1}');
    assert.match((await run(['jobs', ...trust])).stderr, /asks for a certificate: --client-cert/);
    const plain = await run(['jobs', '--url', url.replace('https', 'http')]);
    assert.equal(plain.code, 3);
});

test('other machines may be listened to with certificates of clients, or --insecure', async (t) => {
    const c = await certificates(t);
    const refused = await run(['serve', '--root-dir', makeDir(t), '--host', '0.0.0.0',
        ...serverArgs(c)]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /other machines can reach 0\.0\.0\.0/);
    const admin = await run(['serve', '--root-dir', makeDir(t), '--admin-host', '0.0.0.0',
        ...serverArgs(c, true)]);
    assert.equal(admin.code, 2);
    assert.match(admin.stderr, /--admin-tls-client-ca/);
    await serve(t, ['--host', '0.0.0.0', ...serverArgs(c, true)]);
    await serve(t, ['--host', '0.0.0.0', '--insecure']);
});

test('SIGHUP makes new connections see a new certificate', async (t) => {
    const c = await certificates(t);
    const server = await serve(t, [...serverArgs(c), '--log-level', 'info']);
    const old = client2(t, server.url, { ca: c.ca });
    const serial = async () => {
        const socket = tls.connect({ port: new URL(server.url).port, host: '127.0.0.1', ca: c.ca });
        await within(new Promise((resolve, reject) => {
            socket.on('secureConnect', resolve);
            socket.on('error', reject);
        }), 'a handshake');
        const { serialNumber } = socket.getPeerCertificate();
        socket.destroy();
        return serialNumber;
    };
    await old.ask('GET', '/version');
    const before = await serial();
    await ok(['tls', 'server-cert', '--out-dir', c.dir, '--force']);
    server.child.kill('SIGHUP');
    await logged(server, /read its certificate again/);
    assert.notEqual(await serial(), before);
    assert.equal((await old.ask('GET', '/version')).status, 200);
    const { privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
    const rsa = privateKey.export({ type: 'pkcs8', format: 'pem' });
    for (const [key, complaint] of [[rsa, /its present certificate: .*key\.pem' does not belong/],
        ['nonsense', /its present certificate: cannot use .*server-key\.pem/]]) {
        fs.writeFileSync(c.file('server-key.pem'), key);
        server.child.kill('SIGHUP');
        await logged(server, complaint);
        assert.notEqual(await serial(), before);
    }
});

test('files that are no use are named at the start', async (t) => {
    const c = await certificates(t, 'worker');
    const start = async (cert, key, ca) => (await run(['serve', '--root-dir', makeDir(t),
        '--port', '0', '--admin-port', '0', '--tls-cert', c.file(cert), '--tls-key', c.file(key),
        ...(ca ? ['--tls-client-ca', c.file(ca)] : [])])).stderr;
    fs.writeFileSync(c.file('nonsense.pem'), 'nonsense');
    assert.match(await start('none.pem', 'server-key.pem'),
        /cannot read the TLS certificate '.*none\.pem': No such file/);
    assert.match(await start('nonsense.pem', 'server-key.pem'),
        /cannot use the TLS certificate '.*nonsense\.pem'/);
    assert.match(await start('server-cert.pem', 'nonsense.pem'),
        /cannot use the TLS key '.*nonsense\.pem'/);
    assert.match(await start('server-cert.pem', 'ca-key.pem'),
        /TLS key '.*ca-key\.pem' does not belong to/);
    const { privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
    fs.writeFileSync(c.file('rsa-key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    assert.match(await start('server-cert.pem', 'rsa-key.pem'),
        /TLS key '.*rsa-key\.pem' does not belong to/);
    assert.match(await start('server-cert.pem', 'server-key.pem', 'nonsense.pem'),
        /cannot use the CA of clients '.*nonsense\.pem'/);
});

test('tenax tls makes what is missing and overwrites nothing', async (t) => {
    const c = await certificates(t, 'one');
    const init = ['tls', 'init', '--out-dir', c.dir];
    assert.equal(fs.statSync(c.file('ca-key.pem')).mode & 0o777, 0o600);
    assert.equal(fs.statSync(c.file('server-key.pem')).mode & 0o777, 0o600);
    assert.equal(fs.statSync(c.file('client-one-key.pem')).mode & 0o777, 0o600);
    assert.match(await ok([...init, '--client', 'two']), /kept .*ca-cert[^]*made .*client-two-cert/);
    assert.deepEqual(fs.readFileSync(c.file('ca-cert.pem')), c.ca);
    const again = await run(['tls', 'ca', '--out-dir', c.dir]);
    assert.equal(again.code, 2);
    assert.match(again.stderr, /ca-cert\.pem' exists; --force overwrites it/);
    await ok(['tls', 'server-cert', '--out-dir', c.dir, '--force', '--san', 'jobs.example.org',
        '--san', '10.0.0.7', '--days', '30']);
    const cert = new (require('node:crypto').X509Certificate)(
        fs.readFileSync(c.file('server-cert.pem')));
    assert.equal(cert.subjectAltName, 'DNS:jobs.example.org, IP Address:10.0.0.7');
    const days = (Date.parse(cert.validTo) - Date.now()) / 86400000;
    assert.ok(days > 29.9 && days < 30.1, `${days} days`);
    for (const wrong of [['--san', 'a,b'], ['--days', '0'], ['--ca-key', c.file('server-key.pem')]])
        assert.equal((await run(['tls', 'server-cert', '--out-dir', c.dir, '--force', ...wrong])).code,
            2, wrong.join(' '));
    assert.equal((await run(['tls', 'client-cert', '--out-dir', c.dir, '--name', '../x'])).code, 2);
});
