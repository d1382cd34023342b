// SPDX-License-Identifier: Apache-2.0

// The thread that renews the leases of a worker: a handler may keep the event loop of its own busy for as
// long as it likes.

import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { Client, backoff } from './client.js';
import { monotonic } from './clock.js';

// By these the server says that a run is over.
const GONE = ['stale_token', 'stale_gang', 'run_limit', 'not_found', 'not_in_flight'];

const { where, leaseMs } = workerData;
const say = (message) => parentPort.postMessage(message);
const client = new Client({ ...where, log: { warn: (text) => say({ warn: text }) } });
const held = new Map(); // runs by token

parentPort.on('message', ({ add, drop }) => {
    for (const run of add ?? [])
        hold(run);
    clearTimeout(held.get(drop)?.timer);
    held.delete(drop);
});

say({}); // it listens

// By a timer of this thread: a handler that keeps the event loop busy must not keep its lease for that.
function hold(run) {
    held.set(run.token, run);
    if (run.limit !== undefined)
        run.timer = setTimeout(lose, run.limit - monotonic(), run, 'it took longer than its max_run_ms');
}

function lose(run, why) {
    clearTimeout(run.timer);
    held.delete(run.token);
    say({ lost: run.token, why });
}

async function renew(sent) {
    const runs = [...held.values()];
    if (!runs.length)
        return;
    const body = { lease_ms: leaseMs, jobs: runs.map(({ id, token }) => ({ id, token })) };
    const { jobs } = await client._ask('POST', '/jobs/renew', body, 'jobs',
        { timeoutMs: Math.max(1000, leaseMs / 3), retryForMs: 0 }).catch((err) => {
        if (err.body?.jobs) // 422 with a list: some were not renewed
            return err.body;
        throw err;
    });
    const end = sent + leaseMs;
    jobs.forEach((renewed, i) => {
        if (renewed.lease_expires_at !== undefined)
            runs[i].leaseEnd = end;
        else if (GONE.includes(renewed.code) && held.has(runs[i].token))
            lose(runs[i], renewed.error);
    });
    say({ renewed: runs.filter((run) => run.leaseEnd === end).map((run) => run.token), end });
}

// A job that is claimed meanwhile has its full lease.
for (let due = leaseMs / 3, tries = 0; ;) {
    await sleep(due);
    const now = monotonic();
    for (const run of held.values())
        if (run.leaseEnd <= now)
            lose(run, 'its lease ran out while the server did not answer');
    try {
        await renew(now);
        tries = 0;
        due = leaseMs / 3;
    } catch (err) {
        say({ warn: `leases cannot be renewed: ${err.message}` });
        due = backoff(tries++);
    }
}
