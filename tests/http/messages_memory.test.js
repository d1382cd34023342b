// SPDX-License-Identifier: Apache-2.0
'use strict';

// Memory of a server whose consumers of Taskcluster's messages do not read; not under sanitizers,
// which take several times as much.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { client, definition, slugid, useTaskcluster } = require('./taskcluster');

const TOLD = '&messages=taskcluster';

async function queueOf(server) {
    const { createClient } = await client;
    const { json } = await server.fetch('/references/queue/v1/api.json');
    const Queue = createClient(json);
    return new Queue({ rootUrl: `http://127.0.0.1:${server.port}`, retries: 0 });
}

describe('the stream of messages', () => {
    const server = useTaskcluster();

    it('is_no_larger_for_those_that_do_not_read', async () => {
        const tags = Object.fromEntries(Array.from({ length: 30 },
            (_, i) => [`tag-${i}`, 'x'.repeat(4000)]));
        const queue = await queueOf(server);
        const given = definition({ tags });
        for (let i = 0; i < 60; i++)
            await queue.createTask(await slugid(), given);
        const memory = () => Number(/^VmRSS:\s+(\d+) kB/m.exec(
            fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) / 1024;
        const before = memory();
        const streams = [];
        for (let i = 0; i < 40; i++) {
            streams.push(await server.events(`?since=0${TOLD}`));
            streams[i].res.pause();
        }
        // All of it would be 14 MB for each of them.
        const reader = await server.history(TOLD);
        assert.ok(reader.flatMap((e) => e.messages ?? [])
            .filter((m) => Object.keys(m.payload.task?.tags ?? {}).length === 30).length >= 120);
        assert.ok(memory() - before < 240, `${memory() - before} MB more`);
        for (const stream of streams)
            stream.close();
        await server.assertServes();
    });
});
