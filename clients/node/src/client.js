// SPDX-License-Identifier: Apache-2.0

// Requests to a server.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionFailed, ForeignAnswer, apiError, isRefusal } from './errors.js';
import { Transport } from './transport.js';

const BACKOFF_FIRST_MS = 100;
export const BACKOFF_MAX_MS = 2000;
// The server says of these that nothing was done.
const NOT_DONE = ['busy', 'stopping', 'disk_full', 'request_timeout'];
const FAILING = [500, 502, 503, 504];

/** Milliseconds to wait before the next try, a random half of them. */
export function backoff(tries, mostMs = BACKOFF_MAX_MS) {
    const full = Math.min(mostMs, BACKOFF_FIRST_MS * 2 ** Math.min(tries, 10));
    return full / 2 + Math.random() * full / 2;
}

/** Dates as the server has them; what is undefined is left out. */
export function members(object) {
    return Object.fromEntries(Object.entries(object)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, value instanceof Date ? value.getTime() : value]));
}

// Whether the server recognises a second enqueue of the job, for as long as it keeps it.
function mayRepeat(job) {
    return Boolean(job.alias) || (Boolean(job.unique_key) && job.unique_while === 'exists');
}

function newJob({ queue, type, payload = null, ...options }) {
    return { queue, type, payload, ...members(options) };
}

export class Client {
    #transport;
    #log;

    /** What is not given comes from the environment, as for the `tenax` commands. */
    constructor({
        timeoutMs = 30000, retryForMs = 30000, idempotent = true, log = console, ...where
    } = {}) {
        this.timeoutMs = timeoutMs;
        this.retryForMs = retryForMs;
        this.idempotent = idempotent;
        this.#log = log;
        this.#transport = new Transport(where);
    }

    get url() {
        return this.#transport.url;
    }

    /** Closes the connections. */
    close() {
        this.#transport.close();
    }

    /**
     * Enqueues a job; the options are those of POST /jobs in docs/api.md by their names there. The same
     * job with the same `idempotencyKey` is answered as the first time, and adds nothing; without one
     * each call has a key of its own, so that it can be repeated when its answer is lost.
     */
    enqueue(queue, type, payload = null, { idempotencyKey, ...options } = {}) {
        const job = newJob({ ...options, queue, type, payload });
        return this.#enqueue('/jobs', job, [job], idempotencyKey);
    }

    /** Enqueues all of them or none; each has queue, type, payload and options. */
    async enqueueBulk(jobs, { idempotencyKey } = {}) {
        const many = [...jobs].map(newJob);
        return (await this.#enqueue('/jobs/bulk', { jobs: many }, many, idempotencyKey)).jobs;
    }

    #enqueue(path, body, jobs, given) {
        const idempotencyKey = given ?? (this.idempotent ? randomUUID() : undefined);
        return this._ask('POST', path, body, path === '/jobs/bulk' ? 'jobs' : 'id',
            { idempotencyKey, repeat: idempotencyKey !== undefined || jobs.every(mayRepeat) });
    }

    /** A job as it is now, with its payload, and with its runs if they are asked for. */
    job(id, { runs = false } = {}) {
        return this.request('GET', `/jobs/${encodeURIComponent(id)}${runs ? '?runs=true' : ''}`);
    }

    /**
     * Any request of docs/api.md; resolves with the answer's JSON, or null if it has no body. `repeat`
     * says that it may be repeated when it is not known whether it arrived; without it GET, PUT and
     * DELETE may.
     */
    request(method, path, body, options) {
        return this._ask(method, path, body, undefined, options);
    }

    // The same; an answer without that member is not from Tenax.
    async _ask(method, path, body, member, {
        repeat = ['GET', 'PUT', 'DELETE'].includes(method), timeoutMs = this.timeoutMs,
        retryForMs = this.retryForMs, signal, idempotencyKey,
    } = {}) {
        const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
        const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
        const end = performance.now() + retryForMs;
        for (let tries = 0; ; tries++) {
            const pause = backoff(tries);
            try {
                return await this.#once(method, path, content, member, timeoutMs, signal, headers);
            } catch (err) {
                const again = err instanceof ConnectionFailed ? repeat || !err.sent
                    : NOT_DONE.includes(err.code) || (repeat && FAILING.includes(err.status));
                if (!again || signal?.aborted || performance.now() + pause >= end)
                    throw err;
                if (err instanceof ForeignAnswer)
                    this.#log.warn(`${err.message}; it is asked again`);
            }
            await sleep(pause);
        }
    }

    async #once(method, path, content, member, timeoutMs, signal, headers) {
        const { status, text } = await this.#transport.send(method, path, content, timeoutMs, signal,
            headers);
        let body = null;
        try {
            body = text ? JSON.parse(text) : null;
        } catch {
            throw new ForeignAnswer(method, path, status);
        }
        const good = status >= 200 && status <= 299;
        if (good ? member && body?.[member] === undefined : !isRefusal(path, body))
            throw new ForeignAnswer(method, path, status);
        if (!good)
            throw apiError(status, body);
        return body;
    }
}
