// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server with something of everything that the console shows.

const assert = require('node:assert/strict');

async function ok(promise) {
    const res = await promise;
    assert.ok(res.status < 300, `${res.status} ${res.text}`);
    return res.json;
}

async function enqueue(server, job) {
    return ok(server.post('/jobs', { type: 'send', payload: { to: 'ada', n: 1 }, ...job }));
}

async function fail(server, queue, report) {
    const { jobs: [job] } = await ok(server.post('/jobs/claim', { queues: [queue], worker: 'host-7:31', count: 1, lease_ms: 3600000 }));
    await ok(server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'connection to 10.0.0.7 refused',
        error_type: 'ConnectError', exit_code: 137, backtrace: 'main.c:41 send\nmain.c:12 main', ...report }));
    return job.id;
}

async function play(server) {
    const made = {};
    await ok(server.patch('/queues/mail', { concurrency_per_key: 1, rate: { count: 100, per_ms: 1000 } }));
    await ok(server.patch('/queues/thumbnails', { paused: true }));
    await ok(server.patch('/queues/reports', { concurrency: 2 }));
    await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: 14 }, (_, i) =>
        ({ queue: 'mail', type: 'send', payload: { i }, concurrency_key: i < 11 ? 'acme' : 'zeta' })) }));
    await ok(server.post('/jobs/claim', { queues: ['mail'], count: 10, worker: 'mailer-1', lease_ms: 3600000 }));
    for (let i = 0; i < 4; i++)
        await enqueue(server, { queue: 'thumbnails', type: 'resize' });
    made.scheduled = (await enqueue(server, { queue: 'reports', type: 'monthly', ready_at: Date.now() + 86400000 })).id;
    const first = await enqueue(server, { queue: 'build', type: 'fetch' });
    const second = await enqueue(server, { queue: 'build', type: 'compile', depends_on: [first.id] });
    made.blocked = (await enqueue(server, { queue: 'build', type: 'link', depends_on: [first.id, second.id] })).id;
    await enqueue(server, { queue: 'build', type: 'publish', depends_on: [made.blocked] });
    made.retried = (await enqueue(server, { queue: 'sync', type: 'pull', retry_limit: 9,
        backoff: { exponent: 1, base_ms: 0, jitter_ms: 0 } })).id;
    assert.equal(await fail(server, 'sync'), made.retried);
    made.dead = (await enqueue(server, { queue: 'import', type: 'csv', retry_limit: 0 })).id;
    assert.equal(await fail(server, 'import'), made.dead);
    await ok(server.request('PUT', '/retry-policies/infra', { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
        metadata: { name: 'infra' }, spec: { retryLimit: 3, rules: [{ action: 'Retry', onConditions: ['Evicted'] }] } }));
    await ok(server.request('PUT', '/crons/nightly', { entries: [
        { name: 'cleanup', expression: '0 3 * * *', job: { queue: 'reports', type: 'cleanup', payload: {} } },
        { name: 'digest', expression: '*/15 * * * *', job: { queue: 'mail', type: 'digest', payload: {} } }] }));
    for (let i = 0; i < 3; i++)
        await enqueue(server, { queue: 'gone' });
    assert.equal((await ok(server.post('/jobs/cancel?queue=gone&undo=1h'))).canceled, 3);
    await enqueue(server, { queue: 'trial', type: 'csv', retry_limit: 0 });
    await fail(server, 'trial', { kill: true });
    made.canaries = (await ok(server.post('/jobs/retry?queue=trial&canary=1&rate=5'))).id;
    made.group = (await ok(server.get('/failure-groups?queue=import'))).failure_groups[0].group;
    return made;
}

module.exports = { play, enqueue, fail, ok };
