// SPDX-License-Identifier: Apache-2.0
'use strict';

// Changes of many jobs: how far they are, and stopping one.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { assertError, queueName, repeat, until, useServer } = require('./harness');
const { guarded } = require('./access');

async function operationsOf(server) {
    const res = await server.get('/operations');
    assert.equal(res.status, 200, res.text);
    return res.json.operations;
}

describe('an operation', () => {
    const server = useServer({ args: ['--jq-request-limit', '10m'] });

    it('says_what_was_changed_when_it_is_over', async () => {
        const queue = queueName();
        await server.enqueueMany(repeat(3, { queue }));
        await server.enqueueMany(repeat(2, { queue, priority: 7 }));
        assert.equal((await server.patch(`/jobs?queue=${queue}&priority=7`,
            { priority: 8 })).json.patched, 2);
        assert.equal((await server.delete(`/jobs?queue=${queue}&dry_run=true`)).status, 200);
        assert.deepEqual((await server.delete(`/jobs?queue=${queue}`)).json, { deleted: 5 });
        const [remove, patch] = await operationsOf(server);
        assert.deepEqual([remove.kind, remove.state, remove.changed, remove.looked_at],
            ['delete', 'done', 5, 5]);
        assert.deepEqual([patch.kind, patch.state, patch.changed], ['patch', 'done', 2]);
        assert.ok(patch.looked_at >= 2);
        assert.ok(remove.ended_at >= remove.began_at && remove.id > patch.id);
        assert.deepEqual((await server.get(`/operations/${patch.id}`)).json, patch);
        assertError(await server.post(`/operations/${patch.id}/stop`), 409, 'conflict');
    });

    it('that_does_not_exist_is_not_found', async () => {
        for (const id of ['0', '999999', 'x', '18446744073709551616']) {
            assertError(await server.get(`/operations/${id}`), 404, 'not_found');
            assertError(await server.post(`/operations/${id}/stop`), 404, 'not_found');
        }
    });

    it('that_is_stopped_answers_with_what_it_has_done', async () => {
        const queue = queueName();
        const total = 6000;
        await server.enqueueMany(repeat(total, { queue, payload: 1 }));
        // A filter that takes its time with each job.
        const slow = encodeURIComponent('[range(20000)] | length > 0');
        const remove = server.delete(`/jobs?queue=${queue}&filter=${slow}`);
        const op = await until(async () => (await operationsOf(server))
            .find((o) => o.kind === 'delete' && o.state === 'running'), 'it is under way');
        const stopped = await server.post(`/operations/${op.id}/stop`);
        assert.equal(stopped.status, 200, stopped.text);
        assert.equal(stopped.json.state, 'stopped');
        const answer = (await remove).json;
        assert.equal(answer.stopped, true);
        assert.equal(answer.deleted, stopped.json.changed);
        assert.ok(answer.deleted < total);
        assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count,
            total - answer.deleted);
        await server.delete(`/jobs?queue=${queue}`);
    });
});

describe('operations under access control', () => {
    it('name_who_asked_and_are_for_operators', async (t) => {
        const { as } = await guarded(t, {
            viewer: { roles: ['viewer'] }, operator: { roles: ['operator'], name: 'ann' },
        });
        assert.equal((await as('operator').delete('/jobs?queue=q')).status, 200);
        const [op] = (await as('operator').get('/operations')).json.operations;
        assert.match(JSON.stringify(op.by), /deleteJobs/);
        assertError(await as('viewer').get('/operations'), 403, 'insufficient_rights');
        assertError(await as('viewer').post(`/operations/${op.id}/stop`), 403,
            'insufficient_rights');
    });
});
