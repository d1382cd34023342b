// SPDX-License-Identifier: Apache-2.0

// The leases of a worker's jobs, which a thread of their own renews.

import { once } from 'node:events';
import { Worker as Thread } from 'node:worker_threads';

const RESTART_MS = 1000;

export class Leases {
    #jobs = new Map(); // by token
    #thread = null;
    #closed = false;
    #ready;
    #options;
    #log;

    constructor(client, leaseMs, log) {
        this.#options = { where: client._connection(), leaseMs };
        this.#log = log;
        this.#start();
    }

    /** Resolves when the thread runs: a handler that is busy at once would keep it from starting. */
    ready() {
        return this.#ready;
    }

    add(job) {
        this.#jobs.set(job.data.token, job);
        this.#tell([job]);
    }

    remove(job) {
        this.#jobs.delete(job.data.token);
        this.#thread?.postMessage({ drop: job.data.token });
    }

    close() {
        this.#closed = true;
        return this.#thread?.terminate();
    }

    #tell(jobs) {
        this.#thread?.postMessage({
            add: jobs.map((job) => ({
                id: job.id, token: job.data.token, leaseEnd: job._leaseEnd, limit: job._limit,
            })),
        });
    }

    #start() {
        if (this.#closed)
            return;
        // Where the server is was read from the environment by the client; it may have changed since.
        const thread = new Thread(new URL('./renewer.js', import.meta.url), { workerData: this.#options, env: {} });
        this.#thread = thread;
        thread.on('message', (message) => this.#hear(message));
        thread.on('error', (err) => this.#log.error(`leases cannot be renewed: ${err.message}`));
        thread.on('exit', () => {
            this.#thread = null;
            setTimeout(() => this.#start(), RESTART_MS).unref();
        });
        this.#ready = Promise.race(['message', 'exit'].map((event) => once(thread, event)));
        this.#ready.then(() => thread.unref(), () => {}); // the process need not stay for it
        this.#tell([...this.#jobs.values()]);
    }

    #hear({ warn, lost, why, renewed = [], end }) {
        if (warn)
            this.#log.warn(warn);
        for (const token of renewed)
            if (this.#jobs.has(token))
                this.#jobs.get(token)._leaseEnd = end;
        const job = this.#jobs.get(lost);
        // Once a report is under way its answer counts, not that of a renewal which came later.
        if (!job || job._concluded || job.lost)
            return;
        this.#log.warn(`job ${job.id} is lost: ${why}`);
        job._lose(why);
    }
}
