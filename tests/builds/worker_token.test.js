// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker --broker tenax` at a server that wants to know who asks.

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
        fs.writeFileSync(file, `${operator}\n`);
        const build = site.build([{ do: 'running' }]);
        await site.start(build);
        await site.runs(build);
        await site.empty();
        assert.deepEqual(build.finals, []);
        assert.ok(!worker.log.includes(operator.slice(21)));
    });
});
