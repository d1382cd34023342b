// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the bytes of artifacts take of the server's memory while they come and go: little, however
// large they are, and however many there are at a time.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const { describe, it } = require('node:test');
const { until, within } = require('./harness');
const { HOUR, definition, slugid, useTaskcluster } = require('./taskcluster');

const MIB = 1 << 20;
const ROOT = /^https?:\/\/[^/]+/;
const WORKER = { workerGroup: 'group', workerId: 'worker' };

describe('the memory of artifacts', () => {
    const server = useTaskcluster({ args: ['--taskcluster-artifact-space', '400GiB', '--cache-size',
        '16MiB', '--reply-memory', '64MiB', '--body-timeout', '1h'] });

    const resident = (field) => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(
        fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) * 1024;

    // What it is at most while that is done, beyond what it was before.
    async function growth(what) {
        fs.writeFileSync(`/proc/${server.child.pid}/clear_refs`, '5');
        const before = resident('VmRSS');
        await what();
        const grown = (resident('VmHWM') - before) / MIB;
        if (process.env.TENAX_PEAKS)
            console.log(`${Math.round(grown)} MiB`);
        return grown;
    }

    async function artifact() {
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, definition());
        await queue.claimTask(id, 0, WORKER);
        const { putUrl } = await queue.createArtifact(id, 0, 'a', { storageType: 's3',
            expires: new Date(Date.now() + HOUR).toJSON(), contentType: 'text/plain' });
        return { putUrl, url: async () => (await queue.artifact(id, 0, 'a')).url };
    }

    const uploads = async () => Number(
        /^tenax_artifact_uploads (.*)$/m.exec((await server.get('/metrics')).text)[1]);

    function connect(text) {
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', () => {});
        socket.write(text);
        return socket;
    }

    it('does_not_grow_with_the_size_of_an_upload', async () => {
        const { putUrl, url } = await artifact();
        const piece = crypto.randomBytes(4 * MIB);
        const sent = crypto.createHash('sha256');
        const put = await growth(() => within(new Promise((resolve, reject) => {
            const req = http.request(putUrl, { method: 'PUT', headers: { 'content-type': 'text/plain' } },
                (res) => resolve(assert.equal(res.statusCode, 200)));
            req.on('error', reject);
            let left = 50;
            const more = () => {
                if (left-- === 0)
                    return req.end();
                sent.update(piece);
                return req.write(piece, more);
            };
            more();
        }), 'an upload of 200 MiB', 120e3));
        assert.ok(put < 32, `${put} MiB`);
        const got = crypto.createHash('sha256');
        const target = await url();
        const get = await growth(() => within(new Promise((resolve, reject) => {
            http.get(target, (res) => {
                res.on('data', (bytes) => got.update(bytes));
                res.on('end', resolve);
            }).on('error', reject);
        }), 'a download of 200 MiB', 120e3));
        assert.equal(got.digest('hex'), sent.digest('hex'));
        assert.ok(get < 32, `${get} MiB`);
        const sockets = [];
        const mute = await growth(async () => {
            for (let i = 0; i < 200; i++) {
                sockets.push(connect(`GET ${target.replace(ROOT, '')} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`));
                sockets[i].pause();
            }
            for (let i = 0; i < 50; i++)
                await server.assertServes();
        });
        for (const socket of sockets)
            socket.destroy();
        assert.ok(mute < 192, `${mute} MiB`); // --reply-memory, and what the allocator keeps
    });

    it('does_not_grow_with_the_number_of_uploads', async () => {
        const urls = [];
        for (let i = 0; i < 200; i++)
            urls.push((await artifact()).putUrl);
        const sockets = [];
        const slow = await growth(async () => {
            for (const url of urls)
                sockets.push(connect(`PUT ${url.replace(ROOT, '')} HTTP/1.1\r\nHost: 127.0.0.1\r\n` +
                    `Content-Type: text/plain\r\nContent-Length: ${2 ** 30}\r\n\r\n`));
            await until(async () => await uploads() === 200, 'all have begun');
            for (let round = 0; round < 10; round++)
                for (const socket of sockets)
                    await new Promise((resolve) => socket.write(Buffer.alloc(50e3), resolve));
            const large = Buffer.alloc(2 * MIB);
            await Promise.all(sockets.map((socket) =>
                new Promise((resolve) => socket.write(large, resolve))));
        });
        assert.equal(await uploads(), 200);
        for (const socket of sockets)
            socket.destroy();
        await until(async () => await uploads() === 0, 'all are gone');
        assert.ok(slow < 100, `${slow} MiB`);
    });
});
