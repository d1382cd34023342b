// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax executor` by every role, with a token by a variable, in a file or by an option, for all queues, its
// own or others: it runs what it may, over a restart of the server too; otherwise it says why not, and ends.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { ownAddress } = require('../http/harness');
const { bearer, create } = require('../http/access');
const { onlyDouble, pod, useBed } = require('./executor_harness');

const QUICK = ['running', 'succeeded'];
// [roles, queues, how the token is given, what it says when it may not]; the executor's queue is mail-NUMBER.
const LACKS_WORK = /\(403\): these credentials lack the right 'work'/;
const SENDERS = [[['viewer'], null, 'variable', LACKS_WORK], [['producer'], null, 'variable', LACKS_WORK], [['worker'], null, 'variable'],
    [['worker'], ['mail-3'], 'file'], [['worker'], ['mail*'], 'option'], [['operator'], null, 'variable'], [['operator'], ['mail*'], 'file'],
    [['worker'], ['payroll*'], 'variable', /\(403\): these credentials are limited to other queues than 'mail-7'/],
    [['admin'], null, 'option'], [null, null, 'none', /\(401\): this request needs credentials/]];

describe('an executor', { skip: onlyDouble }, () => {
    const address = ownAddress();
    const bed = useBed({ server: { args: ['--host', address] } });
    const executors = [];
    let admin;

    async function begin([roles, queues, how, refusal], number) {
        const queue = `mail-${number}`;
        const executor = bed.executor({ queue, args: ['--name', `e-${number}`] });
        const token = roles && await create(bed.server, { roles, queues: queues ?? undefined }, admin);
        const file = path.join(executor.dir, 'token');
        if (token)
            fs.writeFileSync(file, token, { mode: 0o600 });
        executor.env = { variable: { TENAX_TOKEN: token }, file: { TENAX_TOKEN_FILE: file } }[how] ?? {};
        executor.args.push(...(how === 'option' ? ['--token-file', file] : []));
        executors.push({ executor: executor.start(), queue, refusal });
    }

    async function runsJobs() {
        const ids = await Promise.all(executors.filter(({ refusal }) => !refusal).map(async ({ queue }) => {
            const payload = { ...pod(QUICK), podSpec: bed.cluster.podSpec(pod(QUICK).podSpec) };
            return (await bed.server.request('POST', '/jobs', { queue, type: 't', payload, retention: { completed_ms: 3600000 } }, admin)).json.id;
        }));
        for (const id of ids)
            await bed.status(id, 'completed');
    }

    before(async () => {
        admin = bearer(await create(bed.server, { roles: ['admin'] }, {}));
        bed.server.job = async (id) => (await bed.server.get(`/jobs/${id}`, admin)).json;
        await Promise.all(SENDERS.map(begin));
    });

    it('runs_what_its_token_may_and_otherwise_says_why_not_and_ends', async () => {
        for (const { executor, refusal } of executors.filter((one) => one.refusal)) {
            await executor.says(refusal);
            assert.notEqual((await executor.ended).code, 0, executor.stderr);
        }
        await runsJobs();
    });

    it('goes_on_after_a_restart_of_the_server', async () => {
        const { port } = bed.server;
        await bed.server.signal('SIGKILL');
        await bed.server.start({ args: ['--host', address, '--port', String(port)] });
        await runsJobs();
        for (const { executor, refusal } of executors)
            assert.equal(executor.child !== null, !refusal, executor.stderr);
    });
});
