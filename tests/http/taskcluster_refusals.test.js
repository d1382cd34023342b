// SPDX-License-Identifier: Apache-2.0
'use strict';

// What Taskcluster's API refuses, in its form: what is not there, what no schema or pattern allows,
// and whom it does not know.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { makeDir, run, until } = require('./harness');
const { HOUR, assertRefused, definition, slugid, useTaskcluster } = require('./taskcluster');

const API = '/api/queue/v1';
const WORKER = { workerGroup: 'group', workerId: 'worker' };
const at = (ms) => new Date(Date.now() + ms).toJSON();

// A request without the client, which checks some things itself.
function useRaw(server) {
    return async (method, target, body, headers = { 'content-type': 'application/json' }) => {
        const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
        return server.fetch(target.startsWith('/') ? target : `${API}/${target}`,
            { method, body: text, headers: text === undefined ? {} : headers });
    };
}

function assertError({ status, json, text }, expected, code, words = /./) {
    assert.equal(status, expected, text);
    assert.equal(json.code, code);
    assert.match(json.message, words);
    assert.ok(json.requestInfo);
}

describe('what is not there', () => {
    const server = useTaskcluster();
    const raw = useRaw(server);

    it('is_404_in_every_method_about_a_task', async () => {
        const queue = await server.queue();
        const id = await slugid();
        const calls = [queue.task(id), queue.status(id), queue.scheduleTask(id), queue.rerunTask(id),
            queue.cancelTask(id), queue.claimTask(id, 0, WORKER), queue.reclaimTask(id, 0),
            queue.reportCompleted(id, 0), queue.reportFailed(id, 0),
            queue.reportException(id, 0, { reason: 'worker-shutdown' }),
            queue.listDependentTasks(id), queue.listArtifacts(id, 0), queue.listLatestArtifacts(id),
            queue.artifact(id, 0, 'a'), queue.latestArtifact(id, 'a'),
            queue.artifactInfo(id, 0, 'a'), queue.latestArtifactInfo(id, 'a')];
        await Promise.all(calls.map((call) => assertRefused(call, 404, 'ResourceNotFound')));
        assertError(await raw('POST', `task/${id}/priority`, { newPriority: 'low' }), 404,
            'ResourceNotFound');
        assertError(await raw('POST', `task-group/${id}/priority`, { newPriority: 'low' }), 404,
            'ResourceNotFound');
    });

    it('is_said_in_words_of_tasks', async () => {
        const queue = await server.queue();
        const [id, missing] = [await slugid(), await slugid()];
        const { message } = await assertRefused(queue.createTask(id,
            definition({ dependencies: [missing] })), 400, 'InputError');
        assert.equal(message.split('\n')[0], `task.dependencies: there is no task '${missing}'`);
        await queue.createTask(id, definition());
        await queue.claimTask(id, 0, WORKER);
        await assertRefused(queue.claimTask(id, 0, { ...WORKER, workerId: 'other' }), 409,
            'RequestConflict', /run 0 of the task is held by another worker/);
    });

    it('is_404_for_a_run', async () => {
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, definition());
        const calls = [queue.reclaimTask(id, 1), queue.reportCompleted(id, 7),
            queue.reportFailed(id, 49), queue.reportException(id, 1, { reason: 'worker-shutdown' }),
            queue.claimTask(id, 1, WORKER), queue.listArtifacts(id, 1)];
        await Promise.all(calls.map((call) =>
            assertRefused(call, 404, 'ResourceNotFound', /Run (\d+ )?not found/)));
        await assertRefused(queue.reclaimTask(id, 0), 409, 'RequestConflict');
        await assertRefused(queue.reportCompleted(id, 0), 409, 'RequestConflict');
    });

    it('is_404_for_workers_and_their_queues', async () => {
        const queue = await server.queue();
        const calls = [queue.getProvisioner('none'), queue.getWorkerType('none', 'none'),
            queue.getTaskQueue('none/none'), queue.getWorker('none', 'none', 'g', 'w'),
            queue.quarantineWorker('none', 'none', 'g', 'w', { quarantineUntil: at(HOUR) })];
        await Promise.all(calls.map((call) => assertRefused(call, 404, 'ResourceNotFound')));
    });

    it('is_404_or_405_for_a_route', async () => {
        assertError(await raw('GET', 'nothing/here'), 404, 'ResourceNotFound', /Unknown route/);
        const patch = await raw('PATCH', 'ping');
        assertError(patch, 405, 'MethodNotAllowed');
        assert.equal(patch.headers.get('allow'), 'GET, HEAD');
        assertError(await raw('PROPFIND', 'ping'), 501, 'NotImplemented');
    });
});

describe('what is malformed', () => {
    const server = useTaskcluster();
    const raw = useRaw(server);

    it('is_named_in_a_path', async () => {
        const id = await slugid();
        for (const [method, target, words] of [
            ['GET', 'task/short', /'taskId' given as 'short'/],
            ['GET', `task/${id}x/status`, /taskId/],
            ['POST', `task/${id}/runs/one/reclaim`, /'runId' given as 'one'/],
            ['POST', `task/${id}/runs/-1/reclaim`, /runId/],
            ['GET', 'task-group/x/list', /taskGroupId/],
            ['POST', 'claim-work/noslash', /taskQueueId/],
            ['GET', 'pending/a/b/c', /taskQueueId/],
            ['GET', `poll-task-url/a%20b/wt`, /provisionerId/],
            ['GET', `poll-task-url/prov/${'x'.repeat(39)}`, /workerType/],
            ['GET', `provisioners/prov/worker-types/wt/workers/${'g'.repeat(39)}/w`, /workerGroup/],
        ])
            assertError(await raw(method, target, method === 'POST' ? {} : undefined), 400,
                'InvalidRequestArguments', words);
        assertError(await raw('GET', 'task/%zz'), 400, 'InvalidRequestArguments');
    });

    it('is_named_in_a_query', async () => {
        const id = await slugid();
        for (const [target, words] of [
            [`task/${id}?color=red`, /'color' is not supported/],
            [`task-group/${id}/list?limit=many`, /'limit'/],
            ['task-queues?continuationToken=%00', /continuationToken/],
            ['provisioners/p/worker-types/w/workers?quarantined=maybe', /'quarantined'/],
            ['ping?%ff=1', /./],
        ])
            assertError(await raw('GET', target), 400, 'InvalidRequestArguments', words);
    });

    it('is_named_in_a_body', async () => {
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, definition());
        const wrong = [
            ['claim-work/prov/wt', { ...WORKER, tasks: 0 }, /data\/tasks must be >= 1/],
            ['claim-work/prov/wt', { ...WORKER, tasks: 33 }, /data\/tasks must be <= 32/],
            ['claim-work/prov/wt', { workerGroup: 'g' }, /required property 'workerId'/],
            ['claim-work/prov/wt', { ...WORKER, workerId: 'a b' }, /data\/workerId/],
            [`task/${id}/runs/0/claim`, { workerId: 'w' }, /required property 'workerGroup'/],
            [`task/${id}/runs/0/exception`, { reason: 'bored' }, /data\/reason/],
            [`task/${id}/runs/0/exception`, { reason: 'claim-expired' }, /data\/reason/],
            [`task/${id}/runs/0/exception`, { reason: 'deadline-exceeded' }, /data\/reason/],
            [`task/${id}/runs/0/exception`, { reason: 'canceled' }, /data\/reason/],
            [`task/${id}/runs/0/exception`, {}, /required property 'reason'/],
            [`task/${id}/priority`, { newPriority: 'urgent' }, /data\/newPriority/],
            [`task-group/${id}/priority`, {}, /required property 'newPriority'/],
            ['tasks', { taskIds: [1] }, /data\/taskIds\/0/],
            ['tasks/status', { taskIds: 'x' }, /data\/taskIds/],
            [`task/${id}/runs/0/artifacts/a`, { storageType: 'tape' }, /./],
            [`task/${id}/runs/0/artifacts/a`, { storageType: 's3', contentType: 'a/b' }, /./],
        ];
        for (const [target, body, words] of wrong)
            assertError(await raw('POST', target, body), 400, 'InputValidationError', words);
        const worker = 'provisioners/p/worker-types/w/workers/g/w';
        assertError(await raw('PUT', worker, { quarantineUntil: 'tomorrow' }), 400,
            'InputValidationError', /data\/quarantineUntil/);
    });

    it('is_no_json', async () => {
        const target = `${API}/task/${await slugid()}`;
        assertError(await raw('PUT', target, '{"a":'), 400, 'MalformedPayload', /not valid JSON.*byte/);
        assertError(await raw('PUT', target, '{} {}'), 400, 'MalformedPayload');
        assertError(await raw('PUT', target, '{}', { 'content-type': 'text/plain' }), 400,
            'MalformedPayload', /content-type/);
        assertError(await raw('PUT', target, `"${'x'.repeat(10 << 20)}"`), 413, 'InputTooLarge');
    });
});

describe('a task', () => {
    const server = useTaskcluster();

    it('is_not_rerun_for_ever', async () => {
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, definition());
        for (let runs = 1; runs < 50; runs++) {
            await queue.cancelTask(id);
            assert.equal((await queue.rerunTask(id)).status.runs.length, runs + 1);
        }
        await queue.cancelTask(id);
        await assertRefused(queue.rerunTask(id), 409, 'RequestConflict', /Maximum number of runs/);
    });
});

describe('the URLs of Azure', () => {
    const server = useTaskcluster();
    const raw = useRaw(server);
    const local = (url) => url.replace(/^http:\/\/127\.0\.0\.1:\d+/, '');

    async function polled() {
        const task = definition();
        const queue = await server.queue();
        await queue.createTask(await slugid(), task);
        const { json } = await raw('GET', `poll-task-url/${task.taskQueueId}`);
        const { signedPollUrl, signedDeleteUrl } = json.queues[6];
        const { text } = await raw('GET', local(signedPollUrl));
        const of = (name) => new RegExp(`<${name}>(.*?)</${name}>`).exec(text)[1];
        const remove = (id, receipt) => raw('DELETE', local(signedDeleteUrl)
            .replace('{{messageId}}', id).replace('{{popReceipt}}', receipt));
        return { poll: local(signedPollUrl), delete: local(signedDeleteUrl), remove,
            id: of('MessageId'), receipt: encodeURIComponent(of('PopReceipt')) };
    }

    function assertAzure({ status, text, headers }, expected, code, words = /./) {
        assert.equal(status, expected, text);
        assert.match(headers.get('content-type'), /^application\/xml/);
        assert.match(text, new RegExp(`^<\\?xml .*<Error><Code>${code}</Code><Message>.+</Message>`));
        assert.match(text, words);
    }

    it('refuse_a_delete_of_another_message_or_receipt', async () => {
        const { remove, id, receipt, ...urls } = await polled();
        assertAzure(await remove(crypto.randomUUID(), receipt), 404, 'MessageNotFound');
        assertAzure(await remove('none', receipt), 404, 'MessageNotFound');
        assertAzure(await remove(id, ''), 400, 'InvalidQueryParameterValue', /'popreceipt'/);
        assertAzure(await remove(id, 'AAAA'), 400, 'PopReceiptMismatch');
        assertAzure(await raw('DELETE', urls.delete.replace('{{messageId}}', id)
            .replace('popreceipt={{popReceipt}}&', '')), 400, 'PopReceiptMismatch');
        assert.equal((await remove(id, receipt)).status, 204);
    });

    it('refuse_what_was_not_signed', async () => {
        const { poll, remove, id, receipt } = await polled();
        const other = poll.replace('/6/messages', '/5/messages');
        assertAzure(await raw('GET', other), 403, 'AuthenticationFailed');
        assertAzure(await raw('GET', poll.replace('/6/', '/7/')), 404, 'QueueNotFound');
        assertAzure(await raw('GET', poll.replace(/se=[^&]*/, 'se=never')), 403,
            'AuthenticationFailed');
        const target = poll.replace(/\/messages\?.*/, `/messages/${id}?popreceipt=${receipt}`);
        assertAzure(await raw('DELETE', target), 403, 'AuthenticationFailed');
        assert.equal((await remove(id, receipt)).status, 204);
    });

    it('refuse_numbers_and_parameters', async () => {
        const { poll } = await polled();
        for (const number of ['numofmessages=0', 'numofmessages=33', 'numofmessages=1e1',
            'numofmessages=99999999999999999999'])
            assertAzure(await raw('GET', `${poll}&${number}`), 400, 'OutOfRangeQueryParameterValue');
        for (const [more, words] of [['peekonly=yes', /'peekonly'/], ['comp=metadata', /'comp' is not supported/],
            ['x=%', /./]])
            assertAzure(await raw('GET', `${poll}&${more}`), 400, 'InvalidQueryParameterValue', words);
    });
});

describe('credentials', () => {
    const accessToken = 'a'.repeat(44);
    const clients = [{ clientId: 'root', accessToken, scopes: ['*'] }];
    const server = useTaskcluster({ clients });
    const credentials = { id: 'root', key: accessToken, algorithm: 'sha256' };

    async function header(target, options = {}) {
        const hawk = (await import('hawk')).default;
        const url = `http://127.0.0.1:${server.port}${target}`;
        return hawk.client.header(url, 'GET', { credentials, ...options }).header;
    }

    async function get(authorization, more = '') {
        const target = `${API}/task/${'fN1SbArXTPSVFUUvaOlinQ'}/status${more}`;
        return server.fetch(target, { headers: { authorization: await authorization(target) } });
    }

    it('are_good_for_one_request', async () => {
        const text = await header(`${API}/task/fN1SbArXTPSVFUUvaOlinQ/status`);
        assertError(await get(() => text), 404, 'ResourceNotFound');
        assertError(await get(() => text), 401, 'AuthenticationFailed', /nonce was accepted before/);
    });

    it('must_be_of_this_minute_and_this_request', async () => {
        const old = Math.floor(Date.now() / 1000) - 3600;
        assertError(await get((t) => header(t, { timestamp: old })), 401, 'AuthenticationFailed',
            /time/);
        assertError(await get((t) => header(`${t}x`)), 401, 'AuthenticationFailed');
        for (const text of ['Basic cm9vdDo=', 'Hawk', 'Hawk id="root"', 'Hawk id="root", ts="x"'])
            assertError(await get(() => text), 401, 'AuthenticationFailed');
    });

    it('of_a_claim_are_of_that_server_unchanged', async () => {
        const root = await server.queue({ clientId: 'root', accessToken });
        const id = await slugid();
        await root.createTask(id, definition());
        const { credentials: given } = await root.claimTask(id, 0, WORKER);
        const change = (fields) => JSON.stringify({ ...JSON.parse(given.certificate), ...fields });
        for (const certificate of [change({ scopes: ['*'] }), change({ expiry: Date.now() + 9e8 }),
            change({ version: 2 }), change({ seed: 'b'.repeat(44) })]) {
            const other = await server.queue({ ...given, certificate });
            await assertRefused(other.reportCompleted(id, 0), 401, 'AuthenticationFailed');
        }
        const worker = await server.queue(given);
        await assertRefused(worker.createTask(await slugid(), definition()), 403,
            'InsufficientScopes');
        await assertRefused(worker.cancelTask(id), 403, 'InsufficientScopes');
        await worker.reportCompleted(id, 0);
    });
});

describe('a file of clients', () => {
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true, force: true }));
    const file = path.join(dir, 'clients.json');
    const good = [{ clientId: 'root', accessToken: 'a'.repeat(44), scopes: ['*'] }];
    const server = useTaskcluster({ clients: good });

    const wrong = [
        ['{', /clients\.json/],
        ['{}', /clients\.json/],
        [JSON.stringify([{ clientId: 'a', scopes: [] }]), /accessToken/],
        [JSON.stringify([{ ...good[0], accessToken: 'short' }]), /accessToken/],
        [JSON.stringify([...good, ...good]), /root/],
        [JSON.stringify([{ ...good[0], expires: 'soon' }]), /expires/],
        [JSON.stringify([{ ...good[0], color: 'red' }]), /clientId, accessToken, scopes and expires/],
    ];

    it('must_be_right_at_the_start', async () => {
        const args = ['serve', '--root-dir', path.join(dir, 'root'), '--port', '0',
            '--admin-port', '0', '--taskcluster-clients'];
        for (const [text, words] of wrong) {
            fs.writeFileSync(file, text);
            const end = await run([...args, file]);
            assert.notEqual(end.code, 0);
            assert.match(end.stderr, words);
            assert.doesNotMatch(end.stderr, /a{44}/, 'no secret is shown');
        }
        assert.match((await run([...args, path.join(dir, 'none')])).stderr, /none/);
    });

    it('that_is_wrong_later_changes_nothing', async () => {
        server.writeClients({ no: 'list' });
        server.child.kill('SIGHUP');
        await until(() => /clients are those that were there/.test(server.stderr));
        const root = await server.queue(good[0]);
        await assertRefused(root.status(await slugid()), 404, 'ResourceNotFound');
    });
});
