// SPDX-License-Identifier: Apache-2.0

// The loop of a worker: claims jobs, runs handlers, renews leases, reports.

import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { BACKOFF_MAX_MS, backoff, encode, members, refuseUnknown } from './client.js';
import { monotonic } from './clock.js';
import {
    ApiError, Failure, ForeignAnswer, GiveBack, LeaseLost, NotFound, StaleToken,
} from './errors.js';
import { Job } from './job.js';
import { Leases } from './leases.js';

const CLAIM_MAX = 1000; // jobs that one claim may ask for
const CLAIM_GRACE_MS = 2000; // for the answer to a claim that was withdrawn
const FOREIGN_PAUSE_MAX_MS = 15000; // between claims that something in between answers
const TRACE_MAX = 16000;
const RETURN_PAUSE_MAX_MS = 60000; // before a job that is given back again and again
const WORKER_OPTIONS = ['concurrency', 'leaseMs', 'graceMs', 'waitMs', 'maxRunMs', 'name', 'node', 'log'];

const quiet = { info() {}, warn: console.warn, error: console.error };

// A refusal that would come again, as opposed to a server that cannot do it now.
function isFinal(err) {
    return err instanceof ApiError && err.status < 500 && ![408, 429].includes(err.status);
}

// Milliseconds after which a job that is given back without a time may come again.
function returnPause(job) {
    const before = job.run - job.attempts; // runs that were no failures
    return before > 0 && !job.stopping ? Math.min(RETURN_PAUSE_MAX_MS, 100 * 2 ** (before - 1)) : 0;
}

// Whether there is no result, or one that says why there is none.
function isNote(result) {
    return result === undefined || (result?.result_omitted !== undefined && Object.keys(result).length === 1);
}

export class Worker {
    #handler;
    #log;
    #leases; // of jobs whose end is not reported yet
    #running = new Set(); // jobs whose handlers have not returned
    #left = new Set(); // of these, those that are not waited for any more
    #returning = 0;
    #claim = null; // the AbortController of a claim that is under way
    #claimId = ''; // of the last claim, if it had no answer: the next one repeats it
    #claimAt = 0;
    #claimEnd = 0;
    #withdrawAt = 0;
    #tries = 0;
    #idle = false; // the last claim got nothing
    #stops = 0;
    #stopAt = 0;
    #error = null;
    #wake = () => {};

    constructor(client, queues, handler, {
        concurrency = 1, leaseMs = 30000, graceMs = 30000, waitMs = 10000, maxRunMs,
        name = `${os.hostname()}-${process.pid}`, node = process.env.TENAX_NODE || undefined, log = quiet,
        ...unknown
    } = {}) {
        refuseUnknown('Worker', unknown, WORKER_OPTIONS);
        if (!(concurrency >= 1 && concurrency <= 10000))
            throw new RangeError('concurrency must be from 1 to 10000');
        this.client = client;
        this.queues = [queues].flat();
        this.concurrency = concurrency;
        this.leaseMs = leaseMs;
        this.graceMs = graceMs;
        this.waitMs = waitMs;
        this.maxRunMs = maxRunMs;
        this.name = name;
        this.node = node;
        this.#handler = handler;
        this.#log = log;
    }

    // --- for whoever runs it ---

    /**
     * Works until it is told to stop; with `drain` until no job is ready and none runs. SIGTERM and
     * SIGINT stop it, unless `signals` is false: nothing more is claimed, handlers may go on for
     * `graceMs`, and what is not done then is given back; if its handler still works on it, the process
     * ends, so that it does not do what another worker does, too. A second signal ends the wait. Rejects
     * with ApiError if the server refuses to hand out jobs.
     */
    async run({ drain = false, signals = true, ...unknown } = {}) {
        refuseUnknown('run', unknown, ['drain', 'signals']);
        let told = false;
        const stop = () => {
            told = true;
            this.stop();
        };
        if (signals)
            process.on('SIGTERM', stop).on('SIGINT', stop);
        this.#leases = new Leases(this.client, this.leaseMs, this.#log);
        try {
            await this.#leases.ready();
            await this.#loop(drain);
        } finally {
            await this.#leases.close();
            process.off('SIGTERM', stop).off('SIGINT', stop);
            this.#stops = 0;
            this.#left.clear();
            if (told && this.#running.size)
                this.#endProcess();
        }
        if (this.#error)
            throw this.#error;
    }

    // Once whoever waits for run has had a turn.
    #endProcess() {
        this.#log.warn(`the process ends: ${this.#running.size} of its jobs are given back and still worked on`);
        setImmediate(() => process.exit());
    }

    /** Has `run` resolve as SIGTERM does, without ending the process; a second call ends the wait. */
    stop() {
        this.#stops++;
        this.#stopAt = performance.now() + (this.#stops === 1 ? this.graceMs : 0);
        if (this.#stops === 1) {
            this.#log.info(`stopping; ${this.#running.size} running`);
            this.#withdrawAt = performance.now();
            this.#claimEnd = performance.now() + CLAIM_GRACE_MS;
            const free = this.concurrency - this.#running.size;
            if (this.#claimId && !this.#claim && free > 0)
                this.#askForJobs(free, 0); // what it may have got is given back
        }
        this.#wake();
    }

    // --- the loop ---

    async #loop(drain) {
        while (!this.#done(drain)) {
            this.#beginClaim(drain);
            await this.#news(this.#stops ? 50 : this.#claimAt - performance.now());
            if (this.#stops)
                this.#endHandlers();
        }
    }

    // Something has happened, or the time has come for which the loop waits, if it does.
    #news(ms) {
        return new Promise((resolve) => {
            const timer = setTimeout(resolve, ms > 0 ? ms : 1000);
            this.#wake = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    }

    #done(drain) {
        if (this.#stops > 2)
            return true;
        if (this.#claim || this.#returning)
            return false;
        if (this.#stops)
            return [...this.#running].every((job) => this.#left.has(job));
        return drain && this.#idle && this.#running.size === 0;
    }

    #beginClaim(drain) {
        const free = this.concurrency - this.#running.size;
        if (this.#stops || this.#claim || free <= 0 || performance.now() < this.#claimAt)
            return;
        if (drain && this.#idle && this.#running.size)
            return; // until one of them has ended
        this.#askForJobs(free, drain ? 0 : this.waitMs);
    }

    async #askForJobs(free, waitMs) {
        const mine = this.#claim = new AbortController();
        this.#claimId ||= randomUUID();
        const body = members({
            queues: this.queues, count: Math.min(free, CLAIM_MAX), lease_ms: this.leaseMs, wait_ms: waitMs,
            worker: this.name, node: this.node, claim_id: this.#claimId, max_run_ms: this.maxRunMs,
        });
        try {
            const { jobs } = await this.client._ask('POST', '/jobs/claim', body, 'jobs',
                { timeoutMs: waitMs + 15000, retryForMs: 0, signal: mine.signal });
            this.#claimId = '';
            this.#idle = jobs.length === 0;
            for (const data of jobs)
                this.#begin(new Job(this.client, data, this.leaseMs));
            this.#tries = this.#claimAt = 0;
        } catch (err) {
            this.#refused(err);
        } finally {
            if (this.#claim === mine)
                this.#claim = null;
            this.#wake();
        }
    }

    #refused(err) {
        if (this.#stops)
            return;
        if (isFinal(err)) {
            this.#error = err;
            this.#claimId = '';
            this.stop();
            return;
        }
        this.#log.warn(`no jobs for now: ${err.message}`);
        const most = err instanceof ForeignAnswer ? FOREIGN_PAUSE_MAX_MS : BACKOFF_MAX_MS;
        this.#claimAt = performance.now() + backoff(this.#tries++, most);
    }

    // What a stop makes due.
    #endHandlers() {
        const now = performance.now();
        if (this.#claim && now >= this.#claimEnd) {
            this.#claim.abort(); // jobs that it still gets are back when their leases are over
            this.#claim = null;
        } else if (this.#claim) {
            if (now >= this.#withdrawAt) {
                this.#withdrawAt = now + 300; // as the claim may reach the server after its withdrawal
                this.#withdraw();
            }
            return; // it would be handed what the handlers give back
        }
        for (const job of this.#running)
            job._stop();
        if (now >= this.#stopAt)
            for (const job of this.#running)
                if (!this.#left.has(job))
                    this.#giveBack(job);
    }

    #withdraw() {
        this.client.request('DELETE', `/jobs/claim?worker=${encodeURIComponent(this.name)}`, undefined,
            { timeoutMs: CLAIM_GRACE_MS, retryForMs: 0 })
            .catch((err) => this.#log.warn(`the claim cannot be withdrawn: ${err.message}`));
    }

    // The handler may still be running, but is not heard any more.
    async #giveBack(job) {
        if (job.lost) {
            this.#left.add(job);
            return;
        }
        if (!job._conclude())
            return; // it is being reported
        this.#left.add(job);
        job._leave();
        this.#returning++;
        await this.#report(job, 'release', {});
        this.#leases.remove(job);
        this.#returning--;
        this.#wake();
    }

    // --- runs ---

    async #begin(job) {
        this.#leases.add(job);
        if (this.#stops) {
            this.#giveBack(job);
            return;
        }
        this.#running.add(job);
        const [verb, body] = await this.#outcome(job);
        if (verb && !job.lost && job._conclude())
            await this.#report(job, verb, body);
        this.#leases.remove(job);
        this.#running.delete(job);
        this.#idle = false;
        this.#wake();
    }

    // The verb of the report and its members; no verb: there is nothing to report.
    async #outcome(job) {
        try {
            const result = await this.#findHandler(job)(job);
            return ['success', result === undefined ? {} : { result: this.#storable(job, result) }];
        } catch (err) {
            if (err instanceof GiveBack)
                return ['release', this.#returned(job, err)];
            if (err instanceof LeaseLost)
                return [null, {}];
            return ['failure', this.#failure(job, err)];
        }
    }

    // The result, or a note in its place: the work is done, and must not be done again for it.
    #storable(job, result) {
        try {
            encode(result);
            return result;
        } catch (err) { // also whatever a toJSON throws
            return this.#omitted(job, err);
        }
    }

    #omitted(job, err) {
        const why = String(err?.message ?? err).slice(0, 1000);
        this.#log.warn(`job ${job.id} (${job.type}) has succeeded, but its result is not kept: ${why}`);
        return { result_omitted: why };
    }

    #returned(job, back) {
        const pause = returnPause(job);
        const told = { message: back.message || undefined };
        try {
            if (back.ready_at !== undefined && back.ready_at !== null)
                return members({ ...told, ready_at: back.ready_at });
        } catch (err) {
            this.#log.warn(`job ${job.id} (${job.type}) is given back, but not for later: ${err.message}`);
        }
        return members({ ...told, delay_ms: back.delay_ms ?? (pause || undefined) });
    }

    #findHandler(job) {
        if (typeof this.#handler === 'function')
            return this.#handler;
        if (!Object.hasOwn(this.#handler, job.type))
            throw new Failure(`this worker has no handler for the type ${job.type}`,
                { error_type: 'NoHandler' });
        return this.#handler[job.type];
    }

    #failure(job, err) {
        const told = err instanceof Failure;
        const from = told ? err.cause : err; // what a Failure was made of
        let known = told ? err.members : {}, mistake = '';
        try {
            members(known);
        } catch (wrong) { // a time that is none
            known = {};
            mistake = ` (${wrong.message})`;
        }
        return members({
            message: String(err?.message || err?.name || err) + mistake,
            error_type: told ? undefined : err?.name ?? typeof err,
            backtrace: typeof from?.stack === 'string' ? from.stack.slice(0, TRACE_MAX) : undefined,
            run_ms: Math.round(monotonic() - job._started),
            ...known,
        });
    }

    // Reports until there is an answer, or the lease is over. The same may be said twice.
    async #report(job, verb, body) {
        for (let tries = 0; ; tries++) {
            try {
                const answer = await job._post(verb, body);
                if (verb === 'failure')
                    this.#log.warn(`job ${job.id} (${job.type}) failed: ${body.message} (${answer?.reason})`);
                return;
            } catch (err) {
                if (err instanceof StaleToken || err instanceof NotFound) {
                    this.#log.warn(`job ${job.id}: the run was over when it was reported${
                        tries ? '; an earlier try may have arrived' : ''}: ${err.message}`);
                    return;
                }
                // Also what has no JSON, as a BigInt.
                if (isFinal(err) || err instanceof TypeError || err instanceof RangeError) {
                    await this.#reportRefusal(job, verb, body, err);
                    return;
                }
                if (tries && job._leaseEnd <= monotonic()) {
                    this.#log.warn(`job ${job.id}: its lease ran out before the report: ${err.message}`);
                    return;
                }
                this.#log.warn(`job ${job.id}: the report of its ${verb} is sent again: ${err.message}`);
            }
            await sleep(backoff(tries));
        }
    }

    // A report that the server does not take becomes one of the same kind that it can take.
    async #reportRefusal(job, verb, body, error) {
        if (verb === 'success' && !isNote(body.result)) {
            await this.#report(job, verb, { result: this.#omitted(job, error) });
            return;
        }
        this.#log.error(`job ${job.id}: the report of its ${verb} is refused: ${error.message}`);
        if (verb === 'release') { // better than when the lease is over
            if (Object.keys(body).length)
                await this.#report(job, verb, members({ delay_ms: returnPause(job) || undefined }));
            return;
        }
        const refused = `the report was refused: ${error.message}`;
        try {
            await this.client.request('POST', `/jobs/${job.id}/failure`, {
                token: job.data.token, error_type: 'ReportRefused',
                // What is not known by its members is known by its words.
                message: (verb === 'failure' ? `${body.message} (${refused})` : refused).slice(0, 4000),
            }, { repeat: true });
        } catch (err) {
            this.#log.error(`job ${job.id}: nor is that: ${err.message}`);
        }
    }
}
