// SPDX-License-Identifier: Apache-2.0
'use strict';

// Artifacts over Taskcluster's API.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { HOUR, assertRefused, assertSchema, definition, slugid, useTaskcluster } =
    require('./taskcluster');

const WORKER = { workerGroup: 'group', workerId: 'worker' };
const expires = (ms = HOUR) => new Date(Date.now() + ms).toJSON();
const reference = (url = 'https://example.com/a', fields = {}) =>
    ({ storageType: 'reference', expires: expires(), contentType: 'text/plain', url, ...fields });

describe('artifacts', () => {
    const server = useTaskcluster();

    async function running() {
        const queue = await server.queue();
        const id = await slugid();
        await queue.createTask(id, definition());
        await queue.claimTask(id, 0, WORKER);
        return { queue, id };
    }

    const get = (id, name) =>
        server.fetch(`/api/queue/v1/task/${id}/runs/0/artifacts/${name}`);

    it('may_be_references_which_redirect', async () => {
        const { queue, id } = await running();
        const answer = await queue.createArtifact(id, 0, 'public/a b.txt', reference());
        assertSchema('post-artifact-response', answer);
        const res = await get(id, 'public/a%20b.txt');
        assert.equal(res.status, 303);
        assert.equal(res.headers.get('location'), 'https://example.com/a');
        assert.equal(res.headers.get('x-taskcluster-artifact-storage-type'), 'reference');
        assertSchema('get-artifact-response', res.json);
        const content = await queue.artifact(id, 0, 'public/a b.txt');
        assertSchema('artifact-content-response', content);
        assert.equal(content.url, 'https://example.com/a');
        assert.deepEqual(await queue.latestArtifact(id, 'public/a b.txt'), content);
        const info = await queue.artifactInfo(id, 0, 'public/a b.txt');
        assertSchema('artifact-response', info);
        assert.equal(info.contentType, 'text/plain');
        assert.deepEqual(await queue.latestArtifactInfo(id, 'public/a b.txt'), info);
    });

    it('may_be_errors', async () => {
        const { queue, id } = await running();
        const error = { storageType: 'error', expires: expires(), message: 'gone "for" good',
            reason: 'file-missing-on-worker' };
        await queue.createArtifact(id, 0, 'log', error);
        const res = await get(id, 'log');
        assert.equal(res.status, 424);
        assert.deepEqual(res.json, { reason: error.reason, message: error.message });
        assert.deepEqual(await queue.artifact(id, 0, 'log'),
            { storageType: 'error', reason: error.reason, message: error.message });
    });

    it('may_be_links_which_are_followed_but_not_in_circles', async () => {
        const { queue, id } = await running();
        const link = (artifact) => ({ storageType: 'link', expires: expires(), artifact });
        await queue.createArtifact(id, 0, 'a', link('b'));
        await queue.createArtifact(id, 0, 'b', link('c'));
        assert.equal((await get(id, 'a')).status, 404);
        await queue.createArtifact(id, 0, 'c', reference());
        assert.equal((await get(id, 'a')).headers.get('location'), 'https://example.com/a');
        assert.equal((await queue.artifactInfo(id, 0, 'a')).storageType, 'link');
        await queue.createArtifact(id, 0, 'x', link('y'));
        await queue.createArtifact(id, 0, 'y', link('x'));
        assert.equal((await get(id, 'x')).status, 400);
    });

    it('are_listed_in_pages', async () => {
        const { queue, id } = await running();
        const names = ['a', 'b', 'public/c', 'public/d', 'z'];
        for (const name of names)
            await queue.createArtifact(id, 0, name, reference());
        const seen = [];
        let query = { limit: 2 };
        do {
            const page = await queue.listArtifacts(id, 0, query);
            assertSchema('list-artifacts-response', page);
            seen.push(...page.artifacts.map((a) => a.name));
            query = { limit: 2, continuationToken: page.continuationToken };
        } while (query.continuationToken);
        assert.deepEqual(seen, names);
        assert.equal((await queue.listLatestArtifacts(id)).artifacts.length, names.length);
        await assertRefused(queue.listArtifacts(id, 1), 404, 'ResourceNotFound');
        await assertRefused(queue.listArtifacts(await slugid(), 0), 404, 'ResourceNotFound');
    });

    it('are_what_they_were_created_as', async () => {
        const { queue, id } = await running();
        const first = reference();
        await queue.createArtifact(id, 0, 'a', first);
        await queue.createArtifact(id, 0, 'a', first);
        await queue.createArtifact(id, 0, 'a', { ...first, url: 'https://example.com/b' });
        assert.equal((await queue.artifact(id, 0, 'a')).url, 'https://example.com/b');
        for (const other of [{ ...first, contentType: 'text/html' }, { ...first, expires: expires(HOUR / 2) },
            { storageType: 'error', expires: first.expires, message: 'm', reason: 'file-missing-on-worker' }])
            await assertRefused(queue.createArtifact(id, 0, 'a', other), 409, 'RequestConflict');
        await queue.createArtifact(id, 0, 'a', { storageType: 'link', expires: expires(), artifact: 'b' });
    });

    it('belong_to_a_run_that_is_running', async () => {
        const { queue, id } = await running();
        const other = await slugid();
        await assertRefused(queue.createArtifact(other, 0, 'a', reference()), 400, 'InputError',
            /Task not found/);
        await assertRefused(queue.createArtifact(id, 1, 'a', reference()), 400, 'InputError',
            /Run not found/);
        await queue.createTask(other, definition());
        await assertRefused(queue.createArtifact(other, 0, 'a', reference()), 400, 'InputError',
            /not claimed/);
        await assertRefused(queue.createArtifact(id, 0, 'a',
            reference('https://example.com', { expires: expires(-HOUR) })), 400, 'InputError', /future/);
        await assertRefused(queue.createArtifact(id, 0, 'a',
            reference('https://example.com', { expires: expires(5e10) })), 400, 'InputError', /after its task/);
        await assertRefused(queue.createArtifact(id, 0, 'a',
            reference('https://example.com/\r\nSet-Cookie: a')), 400, 'InputError', /uri/);
        await assertRefused(queue.createArtifact(id, 0, 'a'.repeat(2000), reference()), 400,
            'InputError', /at most \d+ characters/);
        await queue.reportCompleted(id, 0);
        await assertRefused(queue.createArtifact(id, 0, 'late', reference()), 409,
            'RequestConflict');
    });

    it('may_be_added_for_a_while_after_an_exception', async () => {
        const { queue, id } = await running();
        await queue.reportException(id, 0, { reason: 'internal-error' });
        await queue.createArtifact(id, 0, 'log', reference());
        assert.equal((await queue.artifact(id, 0, 'log')).storageType, 'reference');
    });
});

describe('scopes of artifacts', () => {
    const token = 'a'.repeat(44);
    const server = useTaskcluster({ clients: [
        { clientId: 'root', accessToken: token, scopes: ['*'] },
        { clientId: 'public', accessToken: token, scopes: ['queue:get-artifact:public/*'] }] });
    const as = (clientId) => server.queue({ clientId, accessToken: token });

    it('are_those_of_all_names_on_the_way', async () => {
        const [root, reader] = [await as('root'), await as('public')];
        const id = await slugid();
        await root.createTask(id, definition());
        const { credentials } = await root.claimTask(id, 0, WORKER);
        const worker = await server.queue(credentials);
        await worker.createArtifact(id, 0, 'public/a', reference());
        await worker.createArtifact(id, 0, 'private/a', reference());
        await worker.createArtifact(id, 0, 'public/b',
            { storageType: 'link', expires: expires(), artifact: 'private/a' });
        assert.equal((await reader.artifact(id, 0, 'public/a')).storageType, 'reference');
        await assertRefused(reader.artifact(id, 0, 'private/a'), 403, 'InsufficientScopes');
        await assertRefused(reader.artifact(id, 0, 'public/b'), 403, 'InsufficientScopes',
            /get-artifact:private/);
        await assertRefused(reader.createArtifact(id, 0, 'public/c', reference()), 403,
            'InsufficientScopes');
    });

    it('are_granted_by_a_signed_url', async () => {
        const root = await as('root');
        const id = await slugid();
        await root.createTask(id, definition());
        await root.claimTask(id, 0, WORKER);
        await root.createArtifact(id, 0, 'private/a', reference());
        const url = await root.buildSignedUrl(root.getArtifact, id, 0, 'private/a');
        const target = url.replace(/^http:..[^/]*/, '');
        assert.equal((await server.fetch(target)).status, 303);
        assert.equal((await server.fetch(target.replace(/bewit=.*/, ''))).status, 403);
        assert.equal((await server.fetch(target.slice(0, -4))).status, 401);
    });
});
