// SPDX-License-Identifier: Apache-2.0
'use strict';

// What clients find Taskcluster's API by: held against the reference that its own client has.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { client, assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');

// What the client has and the server has not: the last two are gone from the reference itself.
const MISSING = ['declareProvisioner', 'declareWorkerType'];

describe('the reference', () => {
    const server = useTaskcluster();

    it('has_the_methods_of_the_client_with_their_routes', async () => {
        const { Queue } = await client;
        const { json } = await server.fetch('/references/queue/v1/api.json');
        const ours = new Map(json.entries.map((entry) => [entry.name, entry]));
        const theirs = Queue.reference?.entries ??
            (await import('taskcluster-client/src/apis.js')).default.Queue.reference.entries;
        assert.ok(theirs.length > 40);
        const missing = theirs.map((entry) => entry.name).filter((name) => !ours.has(name));
        assert.deepEqual(missing, MISSING);
        for (const entry of theirs.filter(({ name }) => ours.has(name))) {
            const own = ours.get(entry.name);
            for (const member of ['method', 'route', 'args', 'type'])
                assert.deepEqual(own[member], entry[member], `${member} of ${entry.name}`);
            assert.deepEqual([...own.query].sort(), [...entry.query].sort(),
                `query of ${entry.name}`);
        }
    });

    it('makes_a_client', async () => {
        const { createClient } = await client;
        const { json } = await server.fetch('/references/queue/v1/api.json');
        const Queue = createClient(json);
        const queue = new Queue({ rootUrl: `http://127.0.0.1:${server.port}` });
        const id = await slugid();
        await queue.createTask(id, definition());
        assert.equal((await queue.status(id)).status.state, 'pending');
    });

    it('has_the_exchanges_of_the_client_with_their_routing_keys', async () => {
        const { default: apis } = await import('taskcluster-client/src/apis.js');
        const theirs = apis.QueueEvents.reference;
        const { json } = await server.fetch('/references/queue/v1/exchanges.json');
        for (const member of ['$schema', 'apiVersion', 'serviceName', 'exchangePrefix'])
            assert.equal(json[member], theirs[member]);
        const bare = ({ type, exchange, name, title, schema, routingKey }) => ({ type, exchange, name,
            title, schema, routingKey: routingKey.map(({ summary, ...word }) => word) });
        const ours = json.entries.map(bare);
        assert.deepEqual(ours.slice(0, theirs.entries.length), theirs.entries.map(bare));
        assert.deepEqual(ours.slice(theirs.entries.length).map((e) => [e.exchange, e.name]),
            [['task-priority-changed', 'taskPriorityChanged'],
                ['task-group-priority-changed', 'taskGroupPriorityChanged']]);
        for (const { schema } of json.entries)
            assert.equal((await server.fetch(`/schemas/queue/${schema.replace('#', '')}`)).status, 200);
        const manifest = await server.fetch('/references/manifest.json');
        assert.deepEqual(manifest.json.references, ['/references/queue/v1/exchanges.json',
            ...['queue', 'object', 'auth', 'purge-cache', 'index', 'worker-manager'].map((s) => `/references/${s}/v1/api.json`)]);
        for (const reference of manifest.json.references)
            assert.equal((await server.fetch(reference)).status, 200, reference);
    });

    it('names_schemas_that_are_served', async () => {
        const { json } = await server.fetch('/references/queue/v1/api.json');
        for (const entry of json.entries) {
            for (const name of [entry.input, entry.output]) {
                if (!name)
                    continue;
                const answer = await server.fetch(`/schemas/queue/${name.replace('#', '')}`);
                assert.equal(answer.status, 200, name);
                assert.equal(answer.json.$id, `/schemas/queue/${name}`);
            }
        }
        assert.equal((await server.fetch('/schemas/queue/v1/none.json')).status, 404);
        assert.equal((await server.fetch('/references/none.json')).status, 404);
    });
});

describe('a server', () => {
    const token = 'a'.repeat(44);
    const server = useTaskcluster({ clients: [{ clientId: 'c', accessToken: token, scopes: [] }] });

    it('says_to_anybody_that_it_is_there', async () => {
        for (const path of ['/__heartbeat__', '/__lbheartbeat__', '/__version__',
            '/api/queue/v1/ping', '/api/queue/v1/__version__'])
            assert.equal((await server.fetch(path)).status, 200, path);
        const { json } = await server.fetch('/__version__');
        assert.deepEqual(Object.keys(json).sort(), ['build', 'commit', 'source', 'version']);
    });
});

describe('many tasks', () => {
    const server = useTaskcluster();

    it('are_read_in_pages', async () => {
        const queue = await server.queue();
        const taskIds = [];
        for (let i = 0; i < 20; i++)
            await queue.createTask(taskIds[i] = await slugid(), definition());
        taskIds.splice(5, 0, await slugid()); // which there is not
        const seen = [[], []];
        for (const [kind, call] of [[0, 'tasks'], [1, 'statuses']]) {
            let query = { limit: 6 };
            do {
                const page = await queue[call]({ taskIds }, query);
                assertSchema(kind ? 'tasks-statuses-response' : 'tasks-response', page);
                seen[kind].push(...page[call].map((t) => t.taskId));
                query = { limit: 6, continuationToken: page.continuationToken };
            } while (query.continuationToken);
        }
        taskIds.splice(5, 1);
        assert.deepEqual(seen, [taskIds, taskIds]);
        await assertRefused(queue.tasks({ taskIds: 1 }), 400, 'InputValidationError');
    });
});
