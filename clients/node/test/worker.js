// SPDX-License-Identifier: Apache-2.0

// The worker that tests/clients/language.js kills and restarts servers under.

import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Failure, ForeignAnswer, GiveBack, Unprocessable, Worker } from '../src/index.js';

const [queue, concurrency, leaseMs, graceMs, ledger] = process.argv.slice(2);
const note = (job) => fs.appendFileSync(ledger, `${job.type} ${job.id} ${job.run}\n`);

const handlers = {
    async work(job) {
        await sleep(job.payload.ms);
        note(job);
    },
    async hold(job) {
        note(job);
        try {
            await job.wait(60000);
        } catch (err) {
            if (err instanceof GiveBack)
                await job.save({ run: job.run });
            throw err;
        }
    },
    async deaf(job) {
        note(job);
        await sleep(60000);
    },
    async tell(job) {
        await job.progress(0.5);
        await job.save({ run: job.run });
        note(job);
    },
    fail(job) {
        note(job);
        throw new Failure('it failed');
    },
    async more({ payload }) {
        const patient = new Client({ retryForMs: payload.retry_ms });
        try {
            await patient.enqueue(payload.queue, 'work', { ms: 0 });
            return 'enqueued';
        } catch (err) {
            if (err instanceof ForeignAnswer)
                return err.message;
            throw err;
        } finally {
            patient.close();
        }
    },
    async many({ payload }) {
        try {
            await client.request('POST', '/jobs/success', { ids: payload.ids });
            return [];
        } catch (err) {
            if (err instanceof Unprocessable)
                return err.body.not_found;
            throw err;
        }
    },
};

const client = new Client();
await new Worker(client, queue, handlers, {
    concurrency: Number(concurrency), leaseMs: Number(leaseMs), graceMs: Number(graceMs),
}).run();
process.exit(); // not even a handler that hears nothing may go on
