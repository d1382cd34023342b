// SPDX-License-Identifier: Apache-2.0
'use strict';

// Entries that a front end keeps beside the jobs, here the workers of Taskcluster: they outlive the
// process, are in a backup, and go with a reset.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { Server, makeDir, notOn, run } = require('./harness');
const { HOUR, assertRefused, client, useTaskcluster } = require('./taskcluster');

const WORKER = ['prov', 'type', 'group', 'worker'];

async function declare(server) {
    const queue = await server.queue();
    await queue.declareWorker(...WORKER, { expires: new Date(Date.now() + HOUR).toJSON() });
    return queue;
}

describe('what a front end keeps', () => {
    const server = useTaskcluster();
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true, force: true }));

    it('outlives_the_process', async () => {
        await declare(server);
        await server.signal('SIGKILL');
        await server.start();
        assert.equal((await (await server.queue()).getWorker(...WORKER)).workerId, 'worker');
    });

    it('is_in_a_backup_and_known_to_check',
        notOn('postgres', 'a backup becomes a root directory'), async () => {
        await declare(server);
        const file = path.join(dir, 'backup.tar');
        const root = path.join(dir, 'root');
        for (const args of [['backup', '--url', server.adminUrl, file],
            ['restore', file, '--root-dir', root], ['check', root]]) {
            const end = await run(args);
            assert.equal(end.code, 0, end.stderr + end.stdout);
        }
        const other = await new Server({ dir }).start();
        try {
            const { Queue } = await client;
            const queue = new Queue({ rootUrl: `http://127.0.0.1:${other.port}`, retries: 0 });
            assert.equal((await queue.getWorker(...WORKER)).workerId, 'worker');
        } finally {
            await other.clean();
        }
    });

    it('goes_with_a_reset', async () => {
        const queue = await declare(server);
        assert.equal((await server.post('/reset')).status, 204);
        await assertRefused(queue.getWorker(...WORKER), 404, 'ResourceNotFound');
    });
});
