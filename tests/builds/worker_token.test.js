// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker --broker tenax` by every role, at a server that wants to know who asks.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { useBed } = require('./harness.js');

const bed = useBed({ tenax: true });

test('a worker shows the token of its file', async () => {
    const { server } = bed;
    const make = async (role, headers) => (await server.admin('POST', '/tokens', { roles: [role] }, headers)).json.token;
    const bearer = (token) => ({ authorization: `Bearer ${token}` });
    const admin = bearer(await make('admin', {})), operator = await make('operator', admin);
    const ask = server.request.bind(server);
    server.request = (method, target, body, headers) => ask(method, target, body, { ...admin, ...headers });
    const file = path.join(server.dir, 'token');
    fs.writeFileSync(file, 'wrong\n', { mode: 0o600 });
    await bed.with({ TENAX_TOKEN_FILE: file }, async (site) => {
        const worker = site.worker();
        await worker.says(/the token is wrong/);
        // It goes on by itself once the file has a token that suffices; until then it says what is missing.
        fs.writeFileSync(file, `${await make('viewer', admin)}\n`);
        for (const queue of ['sd1', 'retry1'])
            await worker.says(new RegExp(`refuses claims of queue '${queue}': these credentials lack the right 'work'`));
        const limited = (await server.admin('POST', '/tokens', { roles: ['operator'], queues: ['payroll*'] }, admin)).json.token;
        fs.writeFileSync(file, `${limited}\n`);
        await worker.says(/limited to other queues/);
        // Each reason once for each of its two queues, and it does not say that it consumes them.
        assert.equal(worker.log.match(/lack the right/g).length, 2, worker.log);
        assert.doesNotMatch(worker.log, /consuming/);
        fs.writeFileSync(file, `${operator}\n`);
        const build = site.build([{ do: 'running' }]);
        await site.start(build);
        await site.runs(build);
        await site.empty();
        assert.deepEqual(build.finals, []);
        assert.ok(!worker.log.includes(operator.slice(21)));
    });
});
