// SPDX-License-Identifier: Apache-2.0

// A job in the hands of a worker.

import { setTimeout as sleep } from 'node:timers/promises';
import { backoff } from './client.js';
import { monotonic } from './clock.js';
import { ApiError, ConnectionFailed, GiveBack, LeaseLost, NotFound, StaleToken } from './errors.js';

/** A run of a job, as its handler sees it. Members that begin with an underscore are the worker's. */
export class Job {
    #over = new AbortController();
    #stop = new AbortController();

    constructor(client, data, leaseMs) {
        this.data = data; // all that the claim gave
        this.id = data.id;
        this.queue = data.queue;
        this.type = data.type;
        this.payload = data.payload;
        this.attempts = data.attempts ?? 0; // failures so far
        this.run = data.run ?? 0; // the index of this run, from 0
        this.checkpoint = data.checkpoint; // what an earlier run saved
        this.traceparent = data.traceparent; // the trace that it belongs to
        this.tracestate = data.tracestate;
        this.max_run_ms = data.max_run_ms; // how long this run may take, if it has a limit
        this._client = client;
        this._concluded = false; // it is decided how the run ends
        this._started = monotonic();
        this._leaseEnd = this._started + leaseMs;
        this._limit = data.max_run_ms && this._started + data.max_run_ms;
    }

    /** Aborted when the work has become useless: the lease is lost, the time is over, or the job was given back. */
    get signal() {
        return this.#over.signal;
    }

    /** Aborted when the worker is about to end, or the run is over. */
    get stopSignal() {
        return this.#stop.signal;
    }

    /** The run is over for the server: its lease or its time ran out, or the job was canceled or deleted. */
    get lost() {
        return this.#over.signal.aborted && this.#over.signal.reason instanceof LeaseLost;
    }

    /** The worker is about to end. Finish soon, or save a checkpoint and throw GiveBack. */
    get stopping() {
        return this.#stop.signal.aborted && this.#stop.signal.reason instanceof GiveBack;
    }

    /** Throws LeaseLost if the run is lost, and GiveBack if the worker is about to end. */
    check() {
        this.#over.signal.throwIfAborted();
        this.#stop.signal.throwIfAborted();
    }

    /** Waits, but not beyond the moment when check would throw; then throws the same. */
    async wait(ms) {
        this.check();
        await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => {});
        this.check();
    }

    /** Says how far the work is, from 0 to 1. Lost if the server cannot be reached just now. */
    async progress(value, note, { event } = {}) {
        const progress = Object.fromEntries(Object.entries({ value, note, event })
            .filter(([, member]) => member !== undefined && member !== null));
        try {
            await this.#say({ progress });
        } catch (err) {
            if (!(err instanceof ConnectionFailed))
                throw err; // else the next one says more
        }
    }

    /**
     * Saves a checkpoint of at most 64 KiB: it is on the server's disk when this resolves. Tries as
     * long as the lease lasts; throws LeaseLost.
     */
    async save(checkpoint) {
        for (let tries = 0; ; tries++) {
            try {
                return await this.#say({ checkpoint });
            } catch (err) {
                if (!(err instanceof ConnectionFailed))
                    throw err;
            }
            await sleep(backoff(tries));
        }
    }

    async #say(body) {
        if (this.#over.signal.aborted || this._concluded)
            throw new LeaseLost(`job ${this.id}: the run is over`);
        try {
            await this._post('progress', body);
        } catch (err) {
            if (err instanceof StaleToken || err instanceof NotFound) {
                this._lose(err.message);
                throw this.#over.signal.reason;
            }
            if (err instanceof ApiError && err.status >= 500)
                throw new ConnectionFailed(err.message, true, { cause: err });
            throw err;
        }
    }

    _post(verb, body) {
        return this._client._report(this.id, verb, { token: this.data.token, ...body });
    }

    // Whether the caller is the one who may say how the run ended.
    _conclude() {
        const first = !this._concluded;
        this._concluded = true;
        return first;
    }

    _lose(why) {
        const reason = new LeaseLost(`job ${this.id}: ${why}`);
        this.#over.abort(reason);
        this.#stop.abort(reason);
    }

    _stop() {
        this.#stop.abort(new GiveBack(`job ${this.id}: the worker ends`));
    }

    // After the time of grace: nobody hears its handler any more.
    _leave() {
        this._stop();
        this.#over.abort(new GiveBack(`job ${this.id}: the worker has given it back`));
    }
}
