// SPDX-License-Identifier: Apache-2.0
'use strict';

// The bytes of artifacts: put and got by URL (s3), and as objects of the object service.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const path = require('node:path');
const { Readable, Writable } = require('node:stream');
const { after, describe, it } = require('node:test');
const zlib = require('node:zlib');
const Ajv = require('ajv');
const formats = require('ajv-formats');
const { makeDir, notOn, until } = require('./harness');
const { HOUR, assertRefused, assertSchema, client, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };
const ROOT = /^http:\/\/127\.0\.0\.1:\d+/;
const expires = (ms = HOUR) => new Date(Date.now() + ms).toJSON();
const s3 = (fields = {}) =>
    ({ storageType: 's3', expires: expires(), contentType: 'text/plain', ...fields });
const hash = (kind, bytes) => crypto.createHash(kind).update(bytes).digest('hex');

const ajv = new Ajv({ strict: false, validateSchema: false });
formats(ajv);
const SCHEMAS = path.join(__dirname, '../../src/taskcluster/schemas/object/v1');

function assertObjectSchema(name, value) {
    const { $schema, ...schema } = JSON.parse(fs.readFileSync(path.join(SCHEMAS, `${name}.json`)));
    const validate = ajv.getSchema(schema.$id) ?? ajv.compile(schema);
    assert.ok(validate(value), `${name}: ${ajv.errorsText(validate.errors)}`);
}

// What tests of one server need.
function tools(server) {
    const self = {
        folder: () => path.join(server.dir, 'root', 'artifacts'),
        files: () => (fs.existsSync(self.folder()) ? fs.readdirSync(self.folder()) : []),
        async running(fields = {}) {
            const queue = await server.queue();
            const id = await slugid();
            await queue.createTask(id, definition(fields));
            await queue.claimTask(id, 0, WORKER);
            return { queue, id };
        },
        fetch: (url, options) => server.fetch(url.replace(ROOT, ''), options),
        put: (url, body, headers = { 'content-type': 'text/plain' }) =>
            self.fetch(url, { method: 'PUT', body, headers }),
        // As it comes, whatever its Content-Encoding.
        async raw(url, options = {}) {
            return new Promise((resolve, reject) => {
                http.get(url, options, (res) => {
                    const parts = [];
                    res.on('data', (part) => parts.push(part));
                    res.on('end', () => resolve({ status: res.statusCode, headers: res.headers,
                        bytes: Buffer.concat(parts) }));
                }).on('error', reject);
            });
        },
        async objects(credentials) {
            const { Object: Objects } = await client;
            return new Objects({ rootUrl: `http://127.0.0.1:${server.port}`, retries: 0,
                credentials });
        },
    };
    return self;
}

describe('artifacts of the type s3', () => {
    const server = useTaskcluster();
    const { fetch, files, folder, put, raw, running } = tools(server);

    it('are_put_to_a_url_and_got_from_one', async () => {
        const { queue, id } = await running();
        const answer = await queue.createArtifact(id, 0, 'public/a b/../u', s3());
        assertSchema('post-artifact-response', answer);
        assert.ok(new Date(answer.expires) - Date.now() > 44 * 60e3);
        assert.match(answer.putUrl, ROOT);
        const bytes = crypto.randomBytes(3 << 20);
        assert.equal((await put(answer.putUrl, bytes)).status, 200);
        const content = await queue.artifact(id, 0, 'public/a b/../u');
        assertSchema('artifact-content-response', content);
        const res = await raw(content.url);
        assert.equal(res.status, 200);
        assert.ok(res.bytes.equals(bytes));
        assert.equal(res.headers['content-type'], 'text/plain');
        assert.equal(res.headers['content-length'], String(bytes.length));
        assert.equal(res.headers['x-taskcluster-artifact-storage-type'], 's3');
        assert.equal(res.headers['x-content-type-options'], 'nosniff');
        assert.equal(res.headers['content-security-policy'], 'sandbox');
        const redirect = await server.fetch(
            `/api/queue/v1/task/${id}/artifacts/public%2Fa%20b%2F..%2Fu`);
        assert.equal(redirect.status, 303);
        assert.equal(redirect.headers.get('x-taskcluster-artifact-storage-type'), 's3');
        assertSchema('get-artifact-response', redirect.json);
        assert.ok((await fetch(redirect.headers.get('location'))).bytes.equals(bytes));
        const head = await fetch(content.url, { method: 'HEAD' });
        assert.equal(head.headers.get('content-length'), String(bytes.length));
    });

    // What a browser sends that follows a link of another site.
    const LINK = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    it('open_by_links_of_other_sites_as_documents_and_as_nothing_else', async () => {
        const { queue, id } = await running();
        await put((await queue.createArtifact(id, 0, 'public/report', s3())).putUrl, 'the report');
        const ask = (method, path, headers) => server.fetch(path, { method, headers, redirect: 'manual' });
        for (const run of ['', 'runs/0/']) {
            const path = `/api/queue/v1/task/${id}/${run}artifacts/public/report`;
            const link = await ask('GET', path, LINK);
            assert.equal(link.status, 303, link.text);
            const content = link.headers.get('location').replace(ROOT, '');
            assert.equal((await ask('GET', content, LINK)).text, 'the report');
            for (const dest of ['image', 'script', 'iframe', 'empty', 'object'])
                for (const each of [path, content])
                    assert.equal((await ask('GET', each, { ...LINK, 'sec-fetch-dest': dest })).status, 403, dest);
            assert.equal((await ask('GET', path, { ...LINK, origin: 'http://evil.example' })).status, 403);
        }
        assert.equal((await ask('POST', `/api/queue/v1/task/${id}/runs/0/artifacts/public/x`, LINK)).status, 403);
        assert.equal((await ask('GET', `/api/queue/v1/task/${id}`, LINK)).status, 403);
    });

    it('have_a_task_that_the_console_shows_under_taskclusters_address', async () => {
        const { id } = await running();
        for (const rest of ['', '/runs/0']) {
            const res = await server.fetch(`/tasks/${id}${rest}`, { headers: LINK, redirect: 'manual' });
            assert.equal(res.status, 302);
            assert.equal(res.headers.get('location'), `/console#/job/alias%3A${id}`);
        }
        const job = await server.fetch(`/jobs/alias%3A${id}`);
        assert.equal(job.json.alias, id);
        for (const path of ['/tasks/no-task', '/tasks/a%0d%0ab', `/tasks/${id}x`, `/tasks/${id}/more`])
            assert.equal((await server.fetch(path)).status, 404, path);
    });

    it('keep_their_content_encoding', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'log', s3());
        const packed = zlib.gzipSync('line\n'.repeat(1000));
        await put(putUrl, packed, { 'content-type': 'text/plain', 'content-encoding': 'gzip' });
        const { url } = await queue.artifact(id, 0, 'log');
        const res = await raw(url);
        assert.equal(res.headers['content-encoding'], 'gzip');
        assert.ok(res.bytes.equals(packed));
        assert.equal((await fetch(url)).text, 'line\n'.repeat(1000));
    });

    async function stored(bytes) {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        assert.equal((await put(putUrl, bytes)).status, 200);
        return { putUrl, url: (await queue.artifact(id, 0, 'a')).url };
    }

    it('are_got_in_parts', async () => {
        for (const size of [1000, 3 << 20]) { // one that is checked as a whole, and one that is not
            const bytes = crypto.randomBytes(size);
            const { url } = await stored(bytes);
            for (const [range, from, until] of [['0-0', 0, 1], ['7-', 7, size], ['-9', size - 9, size],
                ['100-899', 100, 900], [`500-${9 * size}`, 500, size], ['0-', 0, size]]) {
                const res = await raw(url, { headers: { range: `bytes=${range}` } });
                assert.equal(res.status, 206, range);
                assert.equal(res.headers['content-range'], `bytes ${from}-${until - 1}/${size}`);
                assert.equal(res.headers['content-length'], String(until - from));
                assert.equal(res.headers['content-security-policy'], 'sandbox');
                assert.ok(res.bytes.equals(bytes.subarray(from, until)), range);
            }
            for (const range of ['bytes=0-1,4-5', 'bytes=2-1', 'lines=0-1']) {
                const whole = await raw(url, { headers: { range } });
                assert.equal(whole.status, 200, range);
                assert.ok(whole.bytes.equals(bytes));
            }
            const outside = await fetch(url, { headers: { range: `bytes=${size}-` } });
            assert.equal(outside.status, 416);
            assert.equal(outside.headers.get('content-range'), `bytes */${size}`);
            assert.match(outside.json.message, new RegExp(` ${size} bytes`));
            const head = await fetch(url, { method: 'HEAD', headers: { range: 'bytes=0-1' } });
            assert.equal(head.status, 200);
            assert.equal(head.headers.get('content-length'), String(size));
            assert.equal(head.headers.get('accept-ranges'), 'bytes');
        }
    });

    it('are_not_sent_to_who_has_them', async () => {
        const { putUrl, url } = await stored('one');
        const ask = (headers, method = 'GET') => fetch(url, { method, headers });
        const first = await ask({});
        const [etag, modified] = ['etag', 'last-modified'].map((name) => first.headers.get(name));
        assert.equal(etag, `"${hash('sha256', 'one')}"`);
        assert.ok(Math.abs(Date.parse(modified) - Date.now()) < HOUR, modified);
        assert.equal(first.headers.get('cache-control'), 'no-cache');
        for (const method of ['GET', 'HEAD'])
            for (const headers of [{ 'if-none-match': etag }, { 'if-none-match': `"x", W/${etag}` },
                { 'if-modified-since': modified }, { 'if-none-match': etag, range: 'bytes=0-0' }]) {
                const res = await ask(headers, method);
                assert.equal(res.status, 304, JSON.stringify(headers));
                assert.equal(res.headers.get('etag'), etag);
                assert.equal(res.bytes.length, 0);
            }
        for (const headers of [{ 'if-none-match': '"x"', 'if-modified-since': modified },
            { 'if-modified-since': 'Sun, 06 Nov 1994 08:49:37 GMT' }])
            assert.equal((await ask(headers)).text, 'one');
        for (const condition of [etag, modified])
            assert.equal((await ask({ range: 'bytes=1-', 'if-range': condition })).text, 'ne');
        await put(putUrl, 'another');
        assert.equal((await ask({ 'if-none-match': etag })).text, 'another');
        const rest = await ask({ range: 'bytes=1-', 'if-range': etag });
        assert.equal(rest.status, 200);
        assert.equal(rest.text, 'another');
    });

    it('are_downloaded_by_the_client', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        await put(putUrl, 'hello');
        const { downloadArtifact } = await client;
        const parts = [];
        const type = await downloadArtifact({ taskId: id, runId: 0, name: 'a', queue,
            streamFactory: async () => new Writable({
                write(part, encoding, done) { parts.push(part); done(); } }) });
        assert.equal(Buffer.concat(parts).toString(), 'hello');
        assert.equal(type, 'text/plain');
    });

    it('are_absent_until_they_are_put_and_may_be_put_again', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        const { url } = await queue.artifact(id, 0, 'a');
        assert.equal((await fetch(url)).status, 404);
        await put(putUrl, 'one');
        const before = files();
        await put(putUrl, 'two');
        assert.equal((await fetch(url)).text, 'two');
        await until(() => files().length === before.length, 'the file before is removed');
        const empty = await put(putUrl, '');
        assert.equal(empty.status, 200, empty.text);
        assert.equal((await fetch(url)).bytes.length, 0);
    });

    it('need_the_signature_that_they_were_given', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        await put(putUrl, 'mine');
        const { url } = await queue.artifact(id, 0, 'a');
        const later = (u) => u.replace(/se=[^&]*/, `se=${encodeURIComponent(expires(9e9))}`);
        const other = (u) => u.replace('%2Fa?', '%2Fb?');
        const changed = (u) => u.replace(/sig=.{6}/, 'sig=AAAAAA');
        const none = (u) => u.replace(/.sig=.*/, '');
        for (const change of [later, other, changed, none]) {
            assert.notEqual(change(url), url);
            const got = await fetch(change(url));
            assert.equal(got.status, 403, change);
            assert.equal(got.json.code, 'AuthenticationFailed');
            assert.equal((await put(change(putUrl), 'theirs')).status, 403, change);
        }
        assert.equal((await put(url, 'theirs')).status, 403);
        assert.equal((await fetch(putUrl)).status, 403);
        assert.equal((await put(putUrl, 'theirs', { 'content-type': 'text/html' })).status, 403);
        assert.equal((await fetch(url.replace('/s3/', '/object/'))).status, 403);
        assert.equal((await fetch(url.replace('/s3/', '/s4/'))).status, 404);
        assert.equal((await fetch(url)).text, 'mine');
    });

    it('may_be_created_again_to_be_kept_longer', async () => {
        const { queue, id } = await running();
        const first = s3();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', first);
        await put(putUrl, 'bytes');
        const again = await queue.createArtifact(id, 0, 'a', s3({ expires: expires(2 * HOUR) }));
        assertSchema('post-artifact-response', again);
        assert.equal((await fetch((await queue.artifact(id, 0, 'a')).url)).text, 'bytes');
        await assertRefused(queue.createArtifact(id, 0, 'a', first), 409, 'RequestConflict');
        await assertRefused(queue.createArtifact(id, 0, 'a',
            s3({ expires: expires(3 * HOUR), contentType: 'text/html' })), 409, 'RequestConflict');
    });

    it('are_not_served_with_headers_of_a_task', async () => {
        const { queue, id } = await running();
        await assertRefused(queue.createArtifact(id, 0, 'a',
            s3({ contentType: 'text/plain\r\nSet-Cookie: a=b' })), 400, 'InputError', /contentType/);
        await assertRefused(queue.createArtifact(id, 0, 'a'.repeat(1000), s3()), 400, 'InputError',
            /at most \d+ characters/);
    });

    it('leave_nothing_when_they_are_cut_off', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        const before = files().sort();
        const socket = net.connect(server.port, '127.0.0.1');
        socket.write(`PUT ${putUrl.replace(ROOT, '')} HTTP/1.1\r\nHost: 127.0.0.1\r\n` +
            'Content-Type: text/plain\r\nContent-Length: 1000\r\n\r\nonly this');
        await new Promise((resolve) => socket.end(resolve));
        const { url } = await queue.artifact(id, 0, 'a');
        assert.equal((await fetch(url)).status, 404);
        assert.deepEqual(files().sort(), before);
    });

    it('are_not_served_when_the_disk_has_changed_them', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        const before = new Set(files());
        await put(putUrl, 'as it was');
        const [name] = files().filter((file) => !before.has(file));
        const { url } = await queue.artifact(id, 0, 'a');
        fs.writeFileSync(path.join(folder(), name), 'as it is!');
        for (const headers of [{}, { range: 'bytes=0-1' }])
            assert.equal((await fetch(url, { headers })).status, 500);
        const damaged = await fetch(url);
        assert.match(damaged.text, /SHA-256/);
        fs.rmSync(path.join(folder(), name));
        assert.equal((await fetch(url)).status, 404);
    });
});

describe('artifacts', () => {
    const server = useTaskcluster({ args: ['--max-body', '100KB',
        '--taskcluster-artifact-space', '64KiB'] });
    const { fetch, files, folder, put, running } = tools(server);

    it('outlive_a_restart_and_what_nobody_names_does_not', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        await put(putUrl, 'kept');
        const kept = files();
        const { url } = await queue.artifact(id, 0, 'a');
        const orphan = path.join(folder(), 'f'.repeat(32));
        fs.writeFileSync(orphan, 'nobody knows me');
        fs.writeFileSync(`${'e'.repeat(32)}.part`.replace(/^/, `${folder()}/`), 'cut off');
        await server.stop();
        await server.start();
        await until(() => !fs.existsSync(orphan), 'the orphan is removed');
        assert.deepEqual(files(), kept);
        assert.equal((await fetch(url)).text, 'kept');
    });

    it('are_bounded_one_by_one_and_together',
        notOn('standby', 'a body through it is at most --max-body'), async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'large', s3());
        assert.equal((await put(putUrl, Buffer.alloc(200e3))).status, 507);
        const full = await put(putUrl, Buffer.alloc(70e3));
        assert.equal(full.status, 507, full.text);
        assert.equal(full.json.code, 'InsufficientStorage');
        assert.match(full.json.message, /--taskcluster-artifact-space/);
        assert.equal((await put(putUrl, Buffer.alloc(40e3))).status, 200);
        const other = await queue.createArtifact(id, 0, 'b', s3());
        assert.equal((await put(other.putUrl, Buffer.alloc(40e3))).status, 507);
        assert.equal((await put(other.putUrl, 'small')).status, 200);
    });

    it('make_room_when_they_expire', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'short', s3({ expires: expires(1500) }));
        const before = new Set(files());
        assert.equal((await put(putUrl, 'for a moment')).status, 200);
        const [name] = files().filter((file) => !before.has(file));
        assert.ok(name);
        const { url } = await queue.artifact(id, 0, 'short');
        await until(async () => (await fetch(url)).status === 403, 'the URL expires');
        await queue.createArtifact(id, 0, 'link', { storageType: 'link', artifact: 'short',
            expires: expires() });
        for (const name of ['short', 'link'])
            for (const ask of [() => queue.artifact(id, 0, name), () => queue.latestArtifact(id, name)])
                await assertRefused(ask(), 410, 'ResourceExpired', /Artifact expired/);
        await assertRefused(queue.artifactInfo(id, 0, 'short'), 410, 'ResourceExpired');
        assert.equal((await server.fetch(`/api/queue/v1/task/${id}/artifacts/short`)).status, 410);
        await assertRefused(queue.artifact(id, 0, 'never'), 404, 'ResourceNotFound');
        assert.deepEqual((await queue.listArtifacts(id, 0)).artifacts.map((a) => a.name), ['link']);
        assert.equal((await put(putUrl, 'late')).status, 403);
        const other = await queue.createArtifact(id, 0, 'too-large', s3());
        await until(async () => {
            assert.equal((await put(other.putUrl, Buffer.alloc(70e3))).status, 507);
            return !files().includes(name);
        }, 'a refused upload makes expired files go');
        const again = await queue.createArtifact(id, 0, 'short', s3({ contentType: 'text/html' }));
        assert.equal((await put(again.putUrl, 'anew', { 'content-type': 'text/html' })).status, 200);
        assert.equal((await fetch((await queue.artifact(id, 0, 'link')).url)).text, 'anew');
    });
});

describe('artifacts on a disk that is nearly full', () => {
    const dir = makeDir();
    const config = path.join(dir, 'tenax.yaml');
    after(() => fs.rmSync(dir, { recursive: true, force: true }));
    fs.writeFileSync(config, 'min-free-space: 0\n');
    const server = useTaskcluster({ args: ['--config', config] });
    const { fetch, files, put, running } = tools(server);

    it('are_refused_and_take_none_of_what_is_left', async () => {
        const { queue, id } = await running();
        const { putUrl } = await queue.createArtifact(id, 0, 'a', s3());
        assert.equal((await put(putUrl, 'before')).status, 200);
        fs.writeFileSync(config, 'min-free-space: 9000000GiB\n');
        server.child.kill('SIGHUP');
        await until(() => /nothing is stored/.test(server.stderr), 'there is too little room');
        const before = files();
        const full = await put(putUrl, 'after');
        assert.equal(full.status, 507, full.text);
        assert.match(full.json.message, /--min-free-space/);
        assert.deepEqual(files(), before);
        assert.equal((await fetch((await queue.artifact(id, 0, 'a')).url)).text, 'before');
    });
});

describe('artifacts of a server that is killed', () => {
    const server = useTaskcluster();
    const { fetch, files, put, running } = tools(server);
    let before = 0;

    for (const signal of ['SIGKILL', 'SIGTERM'])
        it(`are_whole_or_absent_after_${signal}`, async () => {
            const { queue, id } = await running();
            const uploads = [];
            for (let i = 0; i < 24; i++) {
                const { putUrl } = await queue.createArtifact(id, 0, `${i}`, s3());
                uploads.push({ name: `${i}`, putUrl, bytes: crypto.randomBytes(200e3) });
            }
            let acknowledged = 0;
            const all = uploads.map(async (upload) => {
                const res = await put(upload.putUrl, upload.bytes).catch(() => undefined);
                upload.acknowledged = res?.status === 200;
                acknowledged += upload.acknowledged;
            });
            await until(() => acknowledged > 0, 'one is acknowledged');
            await server.signal(signal);
            await Promise.all(all);
            await server.start();
            const again = await server.queue();
            let present = 0;
            for (const { name, bytes, ...upload } of uploads) {
                const res = await fetch((await again.artifact(id, 0, name)).url);
                assert.equal(res.status, upload.acknowledged || res.status === 200 ? 200 : 404, name);
                assert.ok(res.status === 404 || res.bytes.equals(bytes), name);
                present += res.status === 200;
            }
            before += present;
            await until(() => files().length === before, 'what nobody names is removed');
        });
});

describe('objects', () => {
    const token = 'a'.repeat(44);
    const server = useTaskcluster({ clients: [{ clientId: 'root', accessToken: token, scopes: ['*'] },
        { clientId: 'none', accessToken: token, scopes: [] }] });
    const { fetch, files, objects } = tools(server);
    const root = { clientId: 'root', accessToken: token };

    // A claimed task: its id, and the client of its worker.
    async function claimed() {
        const queue = await server.queue(root);
        const id = await slugid();
        await queue.createTask(id, definition({ projectId: 'proj/a' }));
        const { credentials } = await queue.claimTask(id, 0, WORKER);
        return { id, root: queue, worker: await server.queue(credentials) };
    }

    const object = (fields = {}) =>
        ({ storageType: 'object', expires: expires(), contentType: 'text/html', ...fields });

    async function uploadBy(answer, bytes) {
        const { upload } = await client;
        await upload({ projectId: answer.projectId, name: answer.name, contentType: 'text/html',
            contentLength: bytes.length, expires: answer.expires, uploadId: answer.uploadId,
            object: await objects(answer.credentials), retries: 0,
            streamFactory: async () => Readable.from([bytes]) });
    }

    for (const [what, size] of [['inline', 100], ['by_url', 100e3], ['of_nothing', 0]]) {
        it(`are_uploaded_and_downloaded_by_the_client_${what}`, async () => {
            const { id, root: queue, worker } = await claimed();
            const answer = await worker.createArtifact(id, 0, 'public/x y', object());
            assertSchema('post-artifact-response', answer);
            assert.equal(answer.name, `t/${id}/0/public/x y`);
            assert.equal(answer.projectId, 'proj/a');
            assert.equal((await queue.listArtifacts(id, 0)).artifacts.length, 0);
            await assertRefused(queue.artifact(id, 0, 'public/x y'), 404, 'ResourceNotFound');
            await assertRefused(worker.finishArtifact(id, 0, 'public/x y',
                { uploadId: answer.uploadId }), 400, 'InputError', /does not exist/);
            const bytes = crypto.randomBytes(size);
            await uploadBy(answer, bytes);
            await assertRefused(worker.finishArtifact(id, 0, 'public/x y',
                { uploadId: await slugid() }), 400, 'InputError', /uploadId/);
            for (let i = 0; i < 2; i++)
                await worker.finishArtifact(id, 0, 'public/x y', { uploadId: answer.uploadId });
            const content = await queue.artifact(id, 0, 'public/x y');
            assertSchema('artifact-content-response', content);
            const { downloadArtifact } = await client;
            const parts = [];
            const type = await downloadArtifact({ taskId: id, name: 'public/x y', queue,
                streamFactory: async () => new Writable({
                    write(part, encoding, done) { parts.push(part); done(); } }) });
            assert.ok(Buffer.concat(parts).equals(bytes));
            assert.equal(type, 'text/html');
            const got = await fetch(await queue.buildSignedUrl(queue.getArtifact, id, 0, 'public/x y'));
            assert.equal(got.status, 303);
            const res = await fetch(got.headers.get('location'));
            assert.ok(res.bytes.equals(bytes));
            assert.equal(res.headers.get('x-taskcluster-artifact-storage-type'), 'object');
            assert.equal(res.headers.get('content-security-policy'), 'sandbox');
            await assertRefused(worker.createArtifact(id, 0, 'public/x y', object()), 409,
                'RequestConflict');
        });
    }

    it('have_the_methods_of_the_client_with_their_routes', async () => {
        const theirs = (await import('taskcluster-client/src/apis.js')).default.Object.reference.entries;
        const { json } = await server.fetch('/references/object/v1/api.json');
        const ours = new Map(json.entries.map((entry) => [entry.name, entry]));
        assert.equal(ours.size, theirs.length);
        for (const entry of theirs)
            for (const member of ['method', 'route', 'args', 'input', 'output', 'scopes', 'stability'])
                assert.deepEqual(ours.get(entry.name)[member], entry[member],
                    `${member} of ${entry.name}`);
        for (const entry of json.entries)
            for (const name of [entry.input, entry.output].filter(Boolean)) {
                const answer = await server.fetch(`/schemas/object/${name.replace('#', '')}`);
                assert.equal(answer.json.$id, `/schemas/object/${name}`);
            }
        assert.equal((await server.fetch('/schemas/queue/object/v1/get-object-response.json')).status, 404);
        assert.equal((await server.fetch('/schemas/v1/task.json')).status, 404);
    });

    it('are_answered_as_the_schemas_say', async () => {
        const api = await objects(root);
        const name = 'of/tests';
        const bytes = Buffer.from('hello');
        const upload = { projectId: 'p', uploadId: await slugid(), expires: expires() };
        const none = await api.createUpload(name, { ...upload, proposedUploadMethods: {} });
        assertObjectSchema('create-upload-response', none);
        assert.deepEqual(none.uploadMethod, {});
        const answer = await api.createUpload(name, { ...upload, proposedUploadMethods: {
            putUrl: { contentType: 'text/plain', contentLength: bytes.length } } });
        assertObjectSchema('create-upload-response', answer);
        const { url, headers } = answer.uploadMethod.putUrl;
        const put = (body, more = {}) =>
            fetch(url, { method: 'PUT', body,
                headers: { 'content-type': headers['Content-Type'], ...more } });
        assert.equal((await put('hello!')).status, 400);
        assert.equal((await put(bytes, { 'content-encoding': 'gzip' })).status, 400);
        await assertRefused(api.finishUpload(name, { projectId: 'p', uploadId: upload.uploadId }), 400,
            'InputError', /No data/);
        assert.equal((await put(bytes)).status, 200);
        await assertRefused(api.startDownload(name, { acceptDownloadMethods: { simple: true } }), 404,
            'ResourceNotFound');
        await assertRefused(api.finishUpload(name, { projectId: 'q', uploadId: upload.uploadId }), 400,
            'InputError');
        await assertRefused(api.finishUpload(name, { projectId: 'p', uploadId: await slugid() }), 409,
            'RequestConflict');
        await assertRefused(api.finishUpload(name, { projectId: 'p', uploadId: upload.uploadId,
            hashes: { sha256: '0'.repeat(64) } }), 400, 'InputError', /hashes/);
        const hashes = { sha256: hash('sha256', bytes) };
        await api.finishUpload(name, { projectId: 'p', uploadId: upload.uploadId, hashes });
        await api.finishUpload(name, { projectId: 'p', uploadId: upload.uploadId, hashes });
        await assertRefused(api.finishUpload(name, { projectId: 'p', uploadId: upload.uploadId,
            hashes: { sha512: '0'.repeat(128) } }), 409, 'RequestConflict');
        assert.equal((await put(bytes)).status, 409);
        const all = { ...hashes, sha512: hash('sha512', bytes) };
        const best = await api.startDownload(name, { acceptDownloadMethods: { simple: true, getUrl: true } });
        assertObjectSchema('download-object-response', best);
        assert.equal(best.method, 'getUrl');
        assert.deepEqual(best.hashes, all);
        const simple = await api.startDownload(name, { acceptDownloadMethods: { simple: true } });
        assertObjectSchema('download-object-response', simple);
        assert.equal((await fetch(simple.url)).text, 'hello');
        await assertRefused(api.startDownload(name, { acceptDownloadMethods: {} }), 406,
            'NoMatchingMethod');
        await assertRefused(api.startDownload(name, { acceptDownloadMethods: { simple: false } }), 400,
            'InputValidationError', /true/);
        const data = await api.object(name);
        assertObjectSchema('get-object-response', data);
        assert.deepEqual(data, { projectId: 'p', expires: upload.expires, hashes: all });
        const redirect = await fetch(await api.buildSignedUrl(api.download, name));
        assert.equal(redirect.status, 303);
        const content = redirect.headers.get('location');
        assert.equal((await fetch(content)).text, 'hello');
        assert.equal((await fetch(content, { headers: { range: 'bytes=-4' } })).text, 'ello');
        assert.equal((await fetch(content, { headers: { 'if-none-match': `"${all.sha256}"` } })).status, 304);
    });

    it('belong_to_the_upload_that_began_them', async () => {
        const api = await objects(root);
        const upload = { projectId: 'p', uploadId: await slugid(), expires: expires(),
            hashes: { sha256: hash('sha256', 'mine') }, proposedUploadMethods: {} };
        await api.createUpload('one', upload);
        await api.createUpload('one', upload);
        for (const other of [{ uploadId: await slugid() }, { projectId: 'q' },
            { expires: expires(2 * HOUR) }, { hashes: { sha256: '0'.repeat(64) } }])
            await assertRefused(api.createUpload('one', { ...upload, ...other }), 409, 'RequestConflict');
        const before = files().length;
        const inline = (text) => ({ dataInline: { contentType: 'a/b',
            objectData: Buffer.from(text).toString('base64') } });
        await assertRefused(api.createUpload('one',
            { ...upload, proposedUploadMethods: inline('theirs') }), 400, 'InputError', /hashes/);
        await until(() => files().length === before, 'what was refused is removed');
        const answer = await api.createUpload('one', { ...upload, proposedUploadMethods: inline('mine') });
        assert.deepEqual(answer.uploadMethod, { dataInline: true });
        await api.finishUpload('one', { projectId: 'p', uploadId: upload.uploadId });
        await assertRefused(api.createUpload('one', upload), 409, 'RequestConflict');
        await assertRefused(api.createUpload('two', { ...upload, expires: expires(-HOUR) }), 400,
            'InputError', /future/);
        await assertRefused(api.createUpload('two', { ...upload, hashes: {},
            proposedUploadMethods: { dataInline: { contentType: 'a/b', objectData: '%%' } } }), 400,
        'InputError', /base64/);
        await assertRefused(api.createUpload('two', { ...upload, hashes: {},
            proposedUploadMethods: inline('x'.repeat(8193)) }), 400, 'InputError', /8192/);
        await assertRefused(api.createUpload('two', { ...upload,
            proposedUploadMethods: { putUrl: { contentType: 'a\nb', contentLength: 1 } } }), 400,
        'InputError', /contentType/);
    });

    it('live_as_long_as_their_first_upload_says', async () => {
        const { id, worker } = await claimed();
        const { credentials, name, projectId, uploadId } =
            await worker.createArtifact(id, 0, 'shorter', object());
        const api = await objects(credentials);
        const body = { projectId, uploadId, expires: expires(HOUR / 2),
            proposedUploadMethods: { dataInline: { contentType: 'a/b', objectData: '' } } };
        assert.equal((await api.createUpload(name, body)).expires, body.expires);
        await api.createUpload(name, body);
        await assertRefused(api.createUpload(name, { ...body, expires: expires(HOUR) }), 409,
            'RequestConflict');
        await api.finishUpload(name, { projectId, uploadId, hashes: {} });
        await worker.finishArtifact(id, 0, 'shorter', { uploadId });
        assert.equal((await (await objects(root)).object(name)).expires, body.expires);
    });

    it('are_uploaded_by_the_method_that_is_not_empty', async () => {
        const api = await objects(root);
        const methods = async (proposedUploadMethods) => Object.keys((await api.createUpload('zero',
            { ...upload, proposedUploadMethods })).uploadMethod);
        const upload = { projectId: 'p', uploadId: await slugid(), expires: expires(), hashes: {} };
        const put = { contentType: 'a/b', contentLength: 5 };
        for (const contentType of ['', 'a/b'])
            assert.deepEqual(await methods({ dataInline: { contentType, objectData: '' },
                putUrl: put }), ['putUrl']);
        assert.deepEqual(await methods({ dataInline: { contentType: 'a/b', objectData: 'aGk=' },
            putUrl: { contentType: '', contentLength: 0 } }), ['dataInline']);
        await assertRefused(methods({ dataInline: { contentType: '', objectData: '' } }), 400,
            'InputError', /dataInline: contentType/);
    });

    it('need_scopes', async () => {
        const api = await objects({ clientId: 'none', accessToken: token });
        const upload = { projectId: 'p', uploadId: await slugid(), expires: expires(),
            proposedUploadMethods: {} };
        await assertRefused(api.createUpload('x', upload), 403, 'InsufficientScopes', /object:upload:p:x/);
        await assertRefused(api.object('x'), 403, 'InsufficientScopes', /object:download:x/);
        const { id, worker } = await claimed();
        const { credentials, name } = await worker.createArtifact(id, 0, 'a', object());
        const own = await objects(credentials);
        await assertRefused(own.createUpload(`${name}b`, { ...upload, projectId: 'proj/a' }), 403,
            'InsufficientScopes');
        await assertRefused(own.object(name), 403, 'InsufficientScopes');
    });

    it('are_begun_once_though_the_answer_was_lost', async () => {
        const { id, worker } = await claimed();
        const body = object();
        const first = await worker.createArtifact(id, 0, 'a', body);
        const second = await worker.createArtifact(id, 0, 'a', body);
        assert.equal(second.uploadId, first.uploadId);
        await uploadBy(second, Buffer.from('bytes'));
        await assertRefused(worker.createArtifact(id, 0, 'a', object({ expires: expires(2 * HOUR) })),
            409, 'RequestConflict');
        await worker.createArtifact(id, 0, 'b', s3());
        await assertRefused(worker.finishArtifact(id, 0, 'b', { uploadId: first.uploadId }), 400,
            'InputError', /Only object/);
        await assertRefused(worker.finishArtifact(id, 0, 'none', { uploadId: first.uploadId }), 404,
            'ResourceNotFound');
    });
});
