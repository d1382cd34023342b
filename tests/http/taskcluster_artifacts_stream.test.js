// SPDX-License-Identifier: Apache-2.0
'use strict';

// Artifacts that are larger than any body may be: uploads and downloads piece by piece, over
// HTTP/1.1, HTTP/2 and TLS, and what is left of those that do not end.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const https = require('node:https');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { begin, makeDir, run, until, within } = require('./harness');
const { HOUR, client, definition, slugid, useTaskcluster } = require('./taskcluster');

const MIB = 1 << 20;
const WORKER = { workerGroup: 'group', workerId: 'worker' };
const ROOT = /^https?:\/\/[^/]+/;
const expires = (ms = HOUR) => new Date(Date.now() + ms).toJSON();
const s3 = (fields = {}) =>
    ({ storageType: 's3', expires: expires(), contentType: 'text/plain', ...fields });
const sha256 = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');

// The answer to a request that may still be sending: {status, headers, bytes, json}; cut is set if
// it has no end.
function answerOf(readable, status, headers) {
    return new Promise((resolve) => {
        const parts = [];
        const done = (cut) => {
            const bytes = Buffer.concat(parts);
            const json = String(headers['content-type']).startsWith('application/json');
            resolve({ status, headers, bytes, cut, json: json && !cut ? JSON.parse(bytes) : undefined });
        };
        readable.on('data', (part) => parts.push(part));
        readable.on('end', () => done(false));
        readable.on('error', () => done(true));
        readable.on('aborted', () => done(true));
    });
}

// One request over HTTP/1.1: a writable, with `answer` and, for who expects it, `go`.
function request1(lib, base, agent, method, target, headers) {
    const req = lib.request(base + target, { method, headers, agent });
    req.answer = new Promise((resolve, reject) => {
        req.on('response', (res) => resolve(answerOf(res, res.statusCode, res.headers)));
        req.on('error', reject);
    });
    req.go = new Promise((resolve) => req.on('continue', resolve));
    req.answer.catch(() => {});
    req.flushHeaders();
    return req;
}

function request2(session, method, target, headers) {
    const req = session.request({ ':method': method, ':path': target, ...headers },
        { endStream: method === 'GET' || method === 'HEAD' });
    req.answer = new Promise((resolve, reject) => {
        req.on('response', ({ ':status': status, ...rest }) =>
            resolve(answerOf(req, status, rest)));
        req.on('error', reject);
    });
    req.go = new Promise((resolve) => req.on('continue', resolve));
    req.answer.catch(() => {});
    return req;
}

// Ways to reach a server: open(method, target, headers) → a request. Each has one connection.
const ways = {
    'HTTP/1.1': ({ plain }) => {
        const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        return { open: (...args) => request1(http, plain, agent, ...args), close: () => agent.destroy() };
    },
    'HTTP/2': ({ plain }) => {
        const session = http2.connect(plain);
        session.on('error', () => {});
        return { open: (...args) => request2(session, ...args), close: () => session.destroy() };
    },
    'HTTP/1.1 over TLS': ({ secure, ca }) => {
        const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca });
        return { open: (...args) => request1(https, secure, agent, ...args), close: () => agent.destroy() };
    },
    'HTTP/2 over TLS': ({ secure, ca }) => {
        const session = http2.connect(secure, { ca });
        session.on('error', () => {});
        return { open: (...args) => request2(session, ...args), close: () => session.destroy() };
    },
};

const write = (req, bytes) => new Promise((resolve) => req.write(bytes, () => resolve()));
const answered = (req) => within(req.answer, 'an answer');

// What tests of one server need.
function tools(server) {
    const self = {
        folder: () => path.join(server.dir, 'root', 'artifacts'),
        files: () => (fs.existsSync(self.folder()) ? fs.readdirSync(self.folder()).sort() : []),
        parts: () => self.files().filter((name) => name.endsWith('.part')),
        async running() {
            const queue = await server.queue();
            const id = await slugid();
            await queue.createTask(id, definition());
            await queue.claimTask(id, 0, WORKER);
            return { queue, id };
        },
        // The target to put to, and how to learn the one to get from.
        async artifact(fields = {}) {
            const { queue, id } = await self.running();
            const { putUrl } = await queue.createArtifact(id, 0, 'a', s3(fields));
            return { queue, id, target: putUrl.replace(ROOT, ''),
                url: async () => (await queue.artifact(id, 0, 'a')).url.replace(ROOT, '') };
        },
        async metric(name) {
            const { text } = await server.get('/metrics');
            return Number(new RegExp(`^tenax_artifact_${name} (.*)$`, 'm').exec(text)[1]);
        },
        idle: () => until(async () => await self.metric('uploads') === 0 && !self.parts().length,
            'no upload is in progress'),
    };
    return self;
}

const PLAIN = { 'content-type': 'text/plain' };

describe('uploads and downloads in pieces', () => {
    const dir = makeDir();
    const tls = path.join(dir, 'tls');
    // The Jobs API takes bodies of 64 KiB at most; artifacts are not held to that.
    const server = useTaskcluster({ args: ['--max-body', '64KiB',
        '--taskcluster-artifact-space', '64MiB'] });
    const { artifact, files, folder, idle, metric, parts } = tools(server);
    const secured = {};
    const place = {};

    before(async () => {
        const made = await run(['tls', 'init', '--out-dir', tls]);
        assert.equal(made.code, 0, made.stderr);
        place.ca = fs.readFileSync(path.join(tls, 'ca-cert.pem'));
        place.plain = `http://127.0.0.1:${server.port}`;
        Object.assign(secured, await serveSecured(tls));
        place.secure = secured.url;
    });
    after(async () => {
        await secured.stop();
        fs.rmSync(dir, { recursive: true, force: true });
    });

    // A second server, whose primary listener has TLS; its admin listener has the API as well.
    async function serveSecured(certificates) {
        const root = makeDir();
        const process = begin(['serve', '--root-dir', path.join(root, 'root'), '--port', '0',
            '--admin-port', '0', '--max-body', '64KiB',
            '--tls-cert', path.join(certificates, 'server-cert.pem'),
            '--tls-key', path.join(certificates, 'server-key.pem')]);
        await until(() => /^Listening on https:\S+$/m.test(process.stdout), 'the server with TLS is up');
        const [, url] = /^Listening on (https:\S+)$/m.exec(process.stdout);
        const [, admin] = /^Listening on (http:\S+) \(admin\)$/m.exec(process.stdout);
        const { Queue } = await client;
        const queue = new Queue({ rootUrl: admin, retries: 0 });
        return { url, queue, dir: root, async stop() {
            process.child.kill('SIGTERM');
            assert.equal((await process.ended).code, 0);
            fs.rmSync(root, { recursive: true, force: true });
        } };
    }

    // An artifact on the server that the way leads to.
    async function artifactFor(name) {
        if (!name.includes('TLS'))
            return artifact();
        const id = await slugid();
        const { queue } = secured;
        await queue.createTask(id, definition());
        await queue.claimTask(id, 0, WORKER);
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        return { queue, id, target: putUrl.replace(ROOT, ''),
            url: async () => (await queue.artifact(id, 0, 'a')).url.replace(ROOT, '') };
    }

    for (const [name, open] of Object.entries(ways)) {
        it(`are_whole_over_${name.replace(/\W+/g, '_')}`, async () => {
            const way = open(place);
            const { target, url } = await artifactFor(name);
            const bytes = crypto.randomBytes(9 * MIB + 12345);
            for (const announced of [true, false]) {
                const req = way.open('PUT', target, announced
                    ? { ...PLAIN, 'content-length': String(bytes.length) } : PLAIN);
                for (let at = 0; at < bytes.length; at += 300e3)
                    await write(req, bytes.subarray(at, at + 300e3));
                req.end();
                const res = await answered(req);
                assert.equal(res.status, 200, String(res.bytes));
            }
            const got = await answered(way.open('GET', await url(), {}).end());
            assert.equal(got.headers['content-length'], String(bytes.length));
            assert.equal(sha256(got.bytes), sha256(bytes));
            const head = await answered(way.open('HEAD', await url(), {}).end());
            assert.equal(head.headers['content-length'], String(bytes.length));
            assert.equal(head.bytes.length, 0);
            way.close();
        });

        it(`say_100_when_they_may_come_over_${name.replace(/\W+/g, '_')}`, async () => {
            const way = open(place);
            const { target, url } = await artifactFor(name);
            const headers = { ...PLAIN, 'content-length': '5', expect: '100-continue' };
            const req = way.open('PUT', target, headers);
            await within(req.go, '100 Continue');
            req.end('hello');
            assert.equal((await answered(req)).status, 200);
            assert.equal(String((await answered(way.open('GET', await url(), {}).end())).bytes), 'hello');
            const refused = way.open('PUT', target.replace(/sig=.{6}/, 'sig=AAAAAA'), headers);
            let went = false;
            refused.go.then(() => { went = true; });
            assert.equal((await answered(refused)).status, 403);
            assert.equal(went, false);
            refused.destroy();
            way.close();
        });

        it(`are_refused_before_they_have_come_over_${name.replace(/\W+/g, '_')}`, async () => {
            const way = open(place);
            const { target } = await artifactFor(name);
            const wrong = target.replace(/sig=.{6}/, 'sig=AAAAAA');
            const large = way.open('PUT', wrong, { ...PLAIN, 'content-length': String(2 ** 40) });
            const res = await answered(large);
            assert.equal(res.status, 403);
            assert.equal(res.json.code, 'AuthenticationFailed');
            large.destroy();
            const full = way.open('PUT', target, { ...PLAIN, 'content-length': String(2 ** 40) });
            assert.equal((await answered(full)).status, 507);
            full.destroy();
            const next = way.open('PUT', target, PLAIN);
            next.end('next');
            assert.equal((await answered(next)).status, 200);
            way.close();
        });

        it(`leave_nothing_when_cut_off_over_${name.replace(/\W+/g, '_')}`, async () => {
            const way = open(place);
            const { target, url } = await artifactFor(name);
            const plain = !name.includes('TLS');
            const used = await metric('bytes');
            const all = files();
            const req = way.open('PUT', target, { ...PLAIN, 'content-length': String(20 * MIB) });
            req.on('error', () => {});
            await write(req, Buffer.alloc(4 * MIB));
            if (plain) {
                await until(() => parts().length === 1, 'a part is written');
                assert.equal(await metric('uploads'), 1);
                assert.equal(await metric('bytes'), used + 20 * MIB);
            }
            req.destroy();
            if (plain) {
                await idle();
                assert.equal(await metric('bytes'), used);
                assert.deepEqual(files(), all);
            } else {
                await until(() => !fs.existsSync(path.join(secured.dir, 'root', 'artifacts')) ||
                    !fs.readdirSync(path.join(secured.dir, 'root', 'artifacts'))
                        .some((file) => file.endsWith('.part')), 'no part is left');
            }
            const again = open(place);
            assert.equal((await answered(again.open('GET', await url(), {}).end())).status, 404);
            again.close();
            way.close();
        });
    }

    const way = (name = 'HTTP/1.1') => ways[name](place);

    it('of_an_object_have_the_length_that_was_announced', async () => {
        const { Object: Objects } = await client;
        const api = new Objects({ rootUrl: place.plain, retries: 0 });
        const all = files();
        const lane = way();
        for (const [length, words] of [[100e3, /fewer/], [300e3, /more/]]) {
            const name = `o${length}`;
            const { uploadMethod } = await api.createUpload(name, { projectId: 'p', uploadId: await slugid(),
                expires: expires(), proposedUploadMethods: {
                    putUrl: { contentType: 'text/plain', contentLength: 200e3 } } });
            const target = uploadMethod.putUrl.url.replace(ROOT, '');
            const announced = lane.open('PUT', target, { ...PLAIN, 'content-length': String(length) });
            const res = await answered(announced);
            assert.equal(res.status, 400);
            assert.match(res.json.message, /announced with 200000 bytes and has/);
            announced.destroy();
            const chunked = lane.open('PUT', target, PLAIN);
            chunked.on('error', () => {});
            chunked.end(Buffer.alloc(length));
            const late = await answered(chunked);
            assert.equal(late.status, 400);
            assert.match(late.json.message, words);
            chunked.destroy();
        }
        lane.close();
        await idle();
        assert.deepEqual(files(), all);
    });

    it('of_unknown_length_end_when_the_space_does', async () => {
        const { target } = await artifact();
        const used = await metric('bytes');
        assert.equal(await metric('limit_bytes'), 64 * MIB);
        for (const name of ['HTTP/1.1', 'HTTP/2']) {
            const lane = way(name);
            const req = lane.open('PUT', target, PLAIN);
            let over = false;
            req.on('error', () => {});
            req.answer.finally(() => { over = true; });
            while (!over)
                await Promise.race([write(req, Buffer.alloc(MIB)), req.answer]);
            const res = await answered(req);
            assert.equal(res.status, 507);
            assert.equal(res.json.code, 'InsufficientStorage');
            assert.match(res.json.message, /--taskcluster-artifact-space/);
            req.destroy();
            lane.close();
            await idle();
            assert.equal(await metric('bytes'), used);
        }
    });

    it('that_run_at_the_same_time_share_the_space', async () => {
        const one = await artifact(), two = await artifact();
        const [first, second] = [way(), way()];
        const headers = { ...PLAIN, 'content-length': String(25 * MIB) };
        const req = first.open('PUT', one.target, headers);
        req.on('error', () => {});
        await until(async () => await metric('uploads') === 1, 'the first has begun');
        const other = second.open('PUT', two.target, headers);
        other.on('error', () => {});
        assert.equal((await answered(other)).status, 507);
        other.destroy();
        req.destroy();
        await idle();
        const again = way();
        const last = again.open('PUT', two.target, headers);
        last.end(Buffer.alloc(25 * MIB));
        assert.equal((await answered(last)).status, 200);
        const small = again.open('PUT', two.target, PLAIN);
        small.end('small');
        assert.equal((await answered(small)).status, 200);
        for (const lane of [first, second, again])
            lane.close();
    });

    it('of_one_artifact_end_in_any_order_and_the_last_one_counts', async () => {
        const { queue, id, target, url } = await artifact();
        const [first, second] = [way(), way()];
        const slow = first.open('PUT', target, PLAIN);
        await write(slow, Buffer.from('slow'));
        await until(async () => await metric('uploads') === 1, 'the slow one has begun');
        const fast = second.open('PUT', target, PLAIN);
        fast.end('fast');
        assert.equal((await answered(fast)).status, 200);
        assert.equal(String((await answered(second.open('GET', await url(), {}).end())).bytes), 'fast');
        await queue.createArtifact(id, 0, 'a', s3({ expires: expires(2 * HOUR) }));
        slow.end('er');
        assert.equal((await answered(slow)).status, 200);
        const got = await answered(second.open('GET', await url(), {}).end());
        assert.equal(String(got.bytes), 'slower');
        first.close();
        second.close();
    });

    it('of_one_artifact_may_be_many_at_a_time', async () => {
        const { target, url } = await artifact();
        const session = http2.connect(place.plain);
        const requests = [];
        for (let i = 0; i < 50; i++) {
            requests.push(request2(session, 'PUT', target, PLAIN));
            requests[i].end(`upload ${i}`);
        }
        for (const req of requests)
            assert.equal((await answered(req)).status, 200);
        const got = await answered(request2(session, 'GET', await url(), {}));
        assert.match(String(got.bytes), /^upload \d+$/);
        session.destroy();
    });

    it('keep_the_order_of_pipelined_requests', async () => {
        const made = [];
        for (let i = 0; i < 4; i++)
            made.push(await artifact());
        const socket = net.connect(server.port, '127.0.0.1');
        let said = '';
        socket.on('data', (bytes) => { said += bytes.toString('latin1'); });
        const put = (i, fields, body) => `PUT ${made[i].target} HTTP/1.1\r\nHost: 127.0.0.1\r\n` +
            `Content-Type: text/plain\r\n${fields}\r\n\r\n${body}`;
        socket.write(put(0, 'Content-Length: 3', 'one') + put(1, 'Transfer-Encoding: chunked',
            '3\r\ntwo\r\n0\r\n\r\n') + put(2, 'Content-Length: 0', '') +
            put(3, 'Content-Length: 5', 'three'));
        await until(() => said.split('HTTP/1.1 200 OK').length === 5, 'four are stored');
        said = '';
        let asks = '';
        for (const { url } of made)
            asks += `GET ${await url()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
        socket.write(asks + 'GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
        const next = 'HTTP/1.1 200 OK[^]*\r\n\r\n';
        const all = new RegExp(`${['', 'one', 'two', '', 'three'].join(next)}${next}.*"version"`);
        await until(() => all.test(said), 'four contents, then the version');
        socket.destroy();
    });

    it('of_a_damaged_file_do_not_come_to_an_end', async () => {
        for (const name of ['HTTP/1.1', 'HTTP/2']) {
            const lane = way(name);
            const { target, url } = await artifact();
            const known = new Set(files());
            const bytes = crypto.randomBytes(6 * MIB);
            const put = lane.open('PUT', target, PLAIN);
            put.end(bytes);
            assert.equal((await answered(put)).status, 200);
            const [file] = files().filter((each) => !known.has(each));
            const fd = fs.openSync(path.join(folder(), file), 'r+');
            fs.writeSync(fd, 'damaged', 5 * MIB);
            fs.closeSync(fd);
            const got = await answered(lane.open('GET', await url(), {}).end());
            assert.equal(got.status, 200);
            assert.equal(got.cut, true, 'the client sees that it is not whole');
            assert.ok(got.bytes.length < bytes.length);
            fs.truncateSync(path.join(folder(), file), MIB);
            const after = way(name);
            assert.equal((await answered(after.open('GET', await url(), {}).end())).status, 500);
            after.close();
            lane.close();
        }
    });

    it('go_on_while_others_are_served_on_the_same_connection', async () => {
        const session = http2.connect(place.plain);
        const { target } = await artifact();
        const req = request2(session, 'PUT', target, PLAIN);
        await write(req, Buffer.alloc(2 * MIB));
        for (let i = 0; i < 20; i++)
            assert.equal((await answered(request2(session, 'GET', '/version', {}))).status, 200);
        req.end();
        assert.equal((await answered(req)).status, 200);
        session.destroy();
    });
});

describe('an upload', () => {
    const dir = makeDir();
    const config = path.join(dir, 'tenax.yaml');
    after(() => fs.rmSync(dir, { recursive: true, force: true }));
    fs.writeFileSync(config, 'min-free-space: 0\n');
    const server = useTaskcluster({ args: ['--config', config, '--log-level', 'info'] });
    const { artifact, files, idle, metric, parts } = tools(server);
    const open = (target, headers = {}) => request1(http, `http://127.0.0.1:${server.port}`,
        new http.Agent(), 'PUT', target, { ...PLAIN, ...headers });
    const get = async (url) => (await server.fetch(await url())).status;

    it('ends_with_507_when_the_disk_fills_up_meanwhile', async () => {
        const { target, url } = await artifact();
        const req = open(target, { 'content-length': String(64 * MIB) });
        req.on('error', () => {});
        await write(req, Buffer.alloc(2 * MIB));
        await until(() => parts().length === 1, 'a part is written');
        fs.writeFileSync(config, 'min-free-space: 9000000GiB\n');
        server.child.kill('SIGHUP');
        await until(() => /nothing is stored/.test(server.stderr), 'there is too little room');
        await write(req, Buffer.alloc(2 * MIB));
        const res = await answered(req);
        assert.equal(res.status, 507);
        assert.match(res.json.message, /--min-free-space/);
        req.destroy();
        await idle();
        assert.deepEqual(files(), []);
        assert.equal(await metric('bytes'), 0);
        fs.writeFileSync(config, 'min-free-space: 0\n');
        server.child.kill('SIGHUP');
        await until(async () => (await server.get('/health')).status === 200, 'there is room again');
        assert.equal(await get(url), 404);
    });

    it('leaves_nothing_after_SIGKILL', async () => {
        const { target, id } = await artifact();
        const whole = await artifact();
        const done = open(whole.target);
        done.end('whole');
        assert.equal((await answered(done)).status, 200);
        const req = open(target, { 'content-length': String(64 * MIB) });
        req.on('error', () => {});
        await write(req, Buffer.alloc(8 * MIB));
        await until(() => parts().length === 1, 'a part is written');
        await server.signal('SIGKILL');
        assert.equal(parts().length, 1);
        await server.start();
        assert.deepEqual(parts(), []);
        const queue = await server.queue();
        const again = async (task) => (await server.fetch(
            (await queue.artifact(task, 0, 'a')).url.replace(ROOT, ''))).status;
        assert.equal(await again(id), 404);
        assert.equal(await again(whole.id), 200);
        assert.equal(await metric('bytes'), 4096);
        assert.equal(await metric('uploads'), 0);
    });

    it('may_come_to_its_end_while_the_server_stops', async () => {
        const { target, id } = await artifact();
        const req = open(target);
        await write(req, Buffer.alloc(MIB));
        await until(async () => await metric('uploads') === 1, 'it has begun');
        server.child.kill('SIGTERM');
        await until(() => /draining/.test(server.stderr), 'the server stops');
        req.end('the end');
        const res = await answered(req);
        assert.equal(res.status, 200);
        assert.equal(res.headers.connection, 'close');
        await server.stop();
        await server.start();
        const queue = await server.queue();
        const got = await server.fetch((await queue.artifact(id, 0, 'a')).url.replace(ROOT, ''));
        assert.equal(got.bytes.length, MIB + 7);
    });

    it('leaves_nothing_when_the_server_does_not_wait_for_it', async () => {
        const { target } = await artifact();
        const all = files();
        const req = open(target);
        req.on('error', () => {});
        await write(req, Buffer.alloc(4 * MIB));
        await until(() => parts().length === 1, 'a part is written');
        server.child.kill('SIGTERM');
        await until(() => /draining/.test(server.stderr), 'the server stops');
        await server.stop(); // by a second SIGTERM
        assert.deepEqual(files(), all);
        await server.start();
    });
});

describe('uploads whose sender stalls', () => {
    const server = useTaskcluster({ args: ['--body-timeout', '1s'] });
    const { artifact, files, idle, metric } = tools(server);

    for (const name of ['HTTP/1.1', 'HTTP/2'])
        it(`time_out_over_${name.replace(/\W+/g, '_')}`, async () => {
            const lane = ways[name]({ plain: `http://127.0.0.1:${server.port}` });
            const { target } = await artifact();
            const req = lane.open('PUT', target, { ...PLAIN, 'content-length': '1000000' });
            req.on('error', () => {});
            await write(req, Buffer.alloc(100e3));
            const res = await answered(req);
            assert.equal(res.status, 408);
            assert.equal(res.json.code, 'RequestTimeout');
            req.destroy();
            lane.close();
            await idle();
            assert.equal(await metric('bytes'), 0);
            assert.deepEqual(files(), []);
        });
});

describe('uploads', () => {
    const server = useTaskcluster();
    const { artifact, metric, idle } = tools(server);

    it('are_refused_when_too_many_are_in_progress', async () => {
        const { target } = await artifact();
        // Sockets of their own: Node's HTTP/2 client does not bear so many streams.
        const sockets = [];
        const head = `PUT ${target} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
            'Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n';
        const open = () => {
            const socket = net.connect(server.port, '127.0.0.1');
            socket.on('error', () => {});
            socket.write(head);
            sockets.push(socket);
            return socket;
        };
        for (let i = 0; i < 1024; i++)
            open();
        await until(async () => await metric('uploads') === 1024, 'as many as there may be');
        let said = '';
        open().on('data', (bytes) => { said += bytes; });
        await until(() => said.includes('ServiceUnavailable'), 'a refusal');
        assert.match(said, /^HTTP\/1\.1 503 /);
        for (const socket of sockets)
            socket.destroy();
        await idle();
        assert.equal(await metric('bytes'), 0);
    });
});
