// SPDX-License-Identifier: Apache-2.0
'use strict';

// Poll URLs: the queues of Azure that Taskcluster's first workers polled (seed 002), by raw HTTP.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { until } = require('./harness');
const { definition, slugid, assertSchema, useTaskcluster } = require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };
const ROOT = /^http:\/\/127\.0\.0\.1:\d+/;
const PRIORITIES = ['highest', 'very-high', 'high', 'medium', 'low', 'very-low', 'lowest'];

// The messages of an answer: [{MessageId, PopReceipt, …, text: {taskId, runId}}].
function messagesOf(xml) {
    assert.match(xml, /^<\?xml version="1\.0" encoding="utf-8"\?><QueueMessagesList>.*<\/QueueMessagesList>$/);
    return [...xml.matchAll(/<QueueMessage>(.*?)<\/QueueMessage>/g)].map(([, inner]) => {
        const message = Object.fromEntries([...inner.matchAll(/<(\w+)>(.*?)<\/\1>/g)]
            .map(([, name, value]) => [name, value]));
        message.text = JSON.parse(Buffer.from(message.MessageText, 'base64'));
        return message;
    });
}

describe('poll URLs', () => {
    const server = useTaskcluster();

    async function urls(task) {
        const [provisioner, type] = task.taskQueueId.split('/');
        const { status, json } = await server.fetch(`/api/queue/v1/poll-task-url/${provisioner}/${type}`);
        assert.equal(status, 200);
        return json;
    }

    // GET of a poll URL, with further parameters.
    const get = (url, more = '') => server.fetch(url.replace(ROOT, '') + more);

    async function messages(url, more) {
        const res = await get(url, more);
        assert.equal(res.status, 200, res.text);
        assert.match(res.headers.get('content-type'), /^application\/xml/);
        return messagesOf(res.text);
    }

    function remove(url, message, receipt = encodeURIComponent(message.PopReceipt)) {
        return server.fetch(url.replace(ROOT, '').replace('{{messageId}}', message.MessageId)
            .replace('{{popReceipt}}', receipt), { method: 'DELETE' });
    }

    it('are_seven_the_highest_priority_first', async () => {
        const task = definition();
        const { queues, expires } = await urls(task);
        assertSchema('poll-task-urls-response', { queues, expires });
        assert.equal(queues.length, 7);
        assert.ok(new Date(expires) > Date.now());
        const queue = await server.queue();
        const ids = [];
        for (const priority of PRIORITIES) {
            ids.push(await slugid());
            await queue.createTask(ids.at(-1), { ...task, priority });
        }
        for (let i = 0; i < 7; i++) {
            const got = await messages(queues[i].signedPollUrl, '&numofmessages=32');
            assert.deepEqual(got.map((m) => m.text), [{ taskId: ids[i], runId: 0 }]);
        }
    });

    it('give_messages_as_azure_does', async () => {
        const task = definition();
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, task);
        const { queues } = await urls(task);
        const { signedPollUrl, signedDeleteUrl } = queues[6];
        const [message] = await messages(signedPollUrl);
        for (const name of ['InsertionTime', 'ExpirationTime', 'TimeNextVisible'])
            assert.match(message[name], /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/);
        assert.equal(new Date(message.ExpirationTime).getTime(),
            Math.floor(new Date(task.deadline).getTime() / 1000) * 1000);
        assert.equal(message.DequeueCount, '1');
        assert.notEqual(encodeURIComponent(message.PopReceipt), message.PopReceipt);
        assert.deepEqual(await messages(signedPollUrl), [], 'it is invisible for a while');
        const claim = await queue.claimTask(id, message.text.runId, WORKER);
        assert.equal(claim.runId, 0);
        assert.equal((await remove(signedDeleteUrl, message, message.PopReceipt)).status, 400,
            'a receipt that is not encoded is another one');
        assert.equal((await remove(signedDeleteUrl, message)).status, 204);
        assert.equal((await remove(signedDeleteUrl, message)).status, 404);
        assert.equal((await queue.reportCompleted(id, 0)).status.state, 'completed');
        assert.match(server.stderr, /a message of prov\/wt-\d+ was not deleted: PopReceiptMismatch/);
    });

    it('show_a_message_again_until_it_is_deleted', async () => {
        const task = definition();
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, task);
        const { queues } = await urls(task);
        const url = queues[6].signedPollUrl.replace('visibilitytimeout=300', 'visibilitytimeout=1');
        const [first] = await messages(url);
        await queue.claimTask(id, 0, WORKER);
        assert.equal((await queue.pendingTasks(task.taskQueueId)).pendingTasks, 0,
            'though its message lingers');
        const [second] = await until(async () => {
            const got = await messages(url);
            return got.length && got;
        });
        assert.equal(second.MessageId, first.MessageId);
        assert.equal(second.DequeueCount, '2');
        assert.notEqual(second.PopReceipt, first.PopReceipt);
        assert.equal((await remove(queues[6].signedDeleteUrl, first)).status, 400, 'stale');
        assert.equal((await remove(queues[6].signedDeleteUrl, second)).status, 204);
    });

    it('give_many_messages_each_once', async () => {
        const task = definition();
        const queue = await server.queue();
        const ids = await Promise.all(Array.from({ length: 70 }, () => slugid()));
        await Promise.all(ids.map((id) => queue.createTask(id, task)));
        const { queues } = await urls(task);
        const seen = [];
        for (const expected of [32, 32, 6, 0]) {
            const got = await messages(queues[6].signedPollUrl, '&numofmessages=32');
            assert.equal(got.length, expected);
            seen.push(...got.map((m) => m.text.taskId));
        }
        assert.deepEqual([...seen].sort(), [...ids].sort());
    });

    it('remember_messages_over_a_restart', async () => {
        const task = definition();
        const queue = await server.queue();
        await queue.createTask(await slugid(), task);
        const { queues: [, , , , , , { signedPollUrl, signedDeleteUrl }] } = await urls(task);
        const short = signedPollUrl.replace('visibilitytimeout=300', 'visibilitytimeout=1');
        const [message] = await messages(short);
        await server.stop();
        await server.start();
        const [again] = await until(async () => {
            const got = await messages(short);
            return got.length && got;
        });
        assert.deepEqual([again.MessageId, again.DequeueCount], [message.MessageId, '2']);
        await server.stop();
        await server.start();
        assert.equal((await remove(signedDeleteUrl, again)).status, 204);
    });

    it('do_not_come_again_once_deleted_though_the_server_is_killed', async () => {
        const task = definition();
        const queue = await server.queue();
        const ids = [await slugid(), await slugid()];
        for (const id of ids)
            await queue.createTask(id, task);
        const { queues: [, , , , , , { signedPollUrl, signedDeleteUrl }] } = await urls(task);
        const [pending, claimed] = await messages(signedPollUrl, '&numofmessages=2');
        assert.equal((await remove(signedDeleteUrl, pending)).status, 204);
        await queue.claimTask(claimed.text.taskId, 0, WORKER);
        assert.equal((await remove(signedDeleteUrl, claimed)).status, 204);
        assert.deepEqual(await messages(signedPollUrl), []);
        await server.stop('SIGKILL');
        await server.start();
        assert.deepEqual(await messages(signedPollUrl), []);
        assert.equal((await remove(signedDeleteUrl, pending)).status, 404);
        const after = await server.queue();
        assert.equal((await after.pendingTasks(task.taskQueueId)).pendingTasks, 1,
            'whose task can still be claimed');
    });

    it('are_counted', async () => {
        const counts = async () => {
            const { text } = await server.fetch('/metrics?from=owner');
            return Object.fromEntries([...text.matchAll(/^tenax_poll_messages_total\{what="(\w+)"\} (\d+)$/gm)]
                .map(([, what, n]) => [what, Number(n)]));
        };
        const task = definition();
        const queue = await server.queue();
        await queue.createTask(await slugid(), task);
        const { queues: [, , , , , , { signedPollUrl, signedDeleteUrl }] } = await urls(task);
        const short = signedPollUrl.replace('visibilitytimeout=300', 'visibilitytimeout=1');
        const before = await counts();
        const [message] = await messages(short);
        assert.equal((await remove(signedDeleteUrl, message, 'AAAA')).status, 400);
        assert.equal((await remove(signedDeleteUrl, message)).status, 204);
        const after = await counts();
        assert.deepEqual(after, { dequeued: before.dequeued + 1, deleted: before.deleted + 1,
            repeated: before.repeated, undeleted: before.undeleted + 1 });
    });

    it('are_signed', async () => {
        const task = definition();
        const { queues } = await urls(task);
        const [{ signedPollUrl }, { signedPollUrl: other }] = queues;
        const sig = /sig=[^&]*/.exec(signedPollUrl)[0];
        const bad = [signedPollUrl.replace(sig, 'sig=AAAA'), signedPollUrl.replace(`&${sig}`, ''),
            other.replace(/sig=[^&]*/, sig), signedPollUrl.replace(/se=[^&]*/, 'se=2030-01-01T00%3A00%3A00.000Z')];
        for (const url of bad) {
            const res = await get(url);
            assert.equal(res.status, 403, url);
            assert.match(res.text, /<Code>AuthenticationFailed<\/Code>/);
        }
    });

    it('show_messages_to_who_only_looks', async () => {
        const task = definition(), queue = await server.queue();
        const ids = [await slugid(), await slugid(), await slugid()];
        for (const id of ids)
            await queue.createTask(id, task);
        const { queues } = await urls(task);
        const { signedPollUrl, signedDeleteUrl } = queues[6];
        const look = (more = '') => messages(signedPollUrl, `&peekonly=true${more}`);
        const seen = await look('&numofmessages=2');
        assert.deepEqual(seen.map((m) => [m.text.taskId, m.DequeueCount, m.PopReceipt, m.TimeNextVisible]),
            ids.slice(0, 2).map((id) => [id, '0', undefined, undefined]));
        assert.deepEqual(await look('&numofmessages=2'), seen, 'as often as it looks');
        assert.equal((await look('&numofmessages=32')).length, 3);
        const got = await messages(signedPollUrl, '&numofmessages=2&peekonly=false');
        assert.deepEqual(got.map((m) => [m.MessageId, m.text.taskId, m.DequeueCount]),
            seen.map((m) => [m.MessageId, m.text.taskId, '1']));
        assert.deepEqual((await look('&numofmessages=32')).map((m) => m.text.taskId), [ids[2]]);
        assert.equal((await remove(signedDeleteUrl, got[0])).status, 204);
        const [last] = await messages(signedPollUrl, '&numofmessages=32');
        assert.equal(last.text.taskId, ids[2]);
        assert.deepEqual(await look(), []);
        assert.equal((await get(signedPollUrl, '&peekonly=yes')).status, 400);
    });

    it('answer_with_the_headers_and_errors_of_azure', async () => {
        const task = definition(), queue = await server.queue();
        await queue.createTask(await slugid(), task);
        const { queues: queues7 } = await urls(task);
        const { signedPollUrl, signedDeleteUrl } = queues7[6];
        const found = await get(signedPollUrl);
        const ids = new Set([found.headers.get('x-ms-request-id')]);
        assert.equal(found.headers.get('x-ms-error-code'), null);
        const xml = [[get(signedPollUrl, '&numofmessages=99'), 400, 'OutOfRangeQueryParameterValue'],
            [get(signedPollUrl, '&strange%3Cb%3E%26=1'), 400, 'InvalidQueryParameterValue'],
            [get(signedPollUrl.replace('/6/messages', '/9/messages')), 404, 'QueueNotFound'],
            [get(signedPollUrl.replace(/sig=[^&]*/, 'sig=x')), 403, 'AuthenticationFailed'],
            [get(signedPollUrl.replace('/azure/', '/azure/a.b')), 400, 'InvalidQueryParameterValue'],
            [remove(signedDeleteUrl, { MessageId: 'none', PopReceipt: 'x' }), 404, 'MessageNotFound']];
        for (const [call, status, code] of xml) {
            const res = await call;
            assert.equal(res.status, status, code);
            assert.equal(res.headers.get('x-ms-error-code'), code);
            assert.match(res.headers.get('content-type'), /application\/xml/);
            assert.equal(res.headers.get('x-ms-version'), '2014-02-14');
            assert.ok(res.text.startsWith(`<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>`));
            assert.ok(!res.text.includes('<b>'));
            ids.add(res.headers.get('x-ms-request-id'));
        }
        assert.equal(ids.size, 1 + xml.length);
        for (const id of ids)
            assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    });

    it('refuse_numbers_out_of_range', async () => {
        const { queues: [{ signedPollUrl }] } = await urls(definition());
        for (const n of ['0', '33', 'x', ''])
            assert.equal((await get(signedPollUrl, `&numofmessages=${n}`)).status, 400, n);
        for (const n of ['0', '301', '-1'])
            assert.equal((await get(signedPollUrl.replace('visibilitytimeout=300',
                `visibilitytimeout=${n}`))).status, 400, n);
        assert.deepEqual(await messages(signedPollUrl.replace('visibilitytimeout=300&', '')), []);
    });
});
