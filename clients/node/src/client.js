// SPDX-License-Identifier: Apache-2.0

// Requests to a server.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionFailed, ForeignAnswer, apiError, isDone, isRefusal } from './errors.js';
import { Enqueues, Reports, isPlain } from './together.js';
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

// Members that are points in time, in milliseconds since 1970.
const TIMES = ['ready_at', 'retry_at', 'deadline', 'retain_until'];

function memberOf(name, value) {
    if (value instanceof Date) {
        if (Number.isNaN(value.getTime()))
            throw new TypeError(`${name} is a Date that is none`);
        return value.getTime();
    }
    if (TIMES.includes(name) && value >= 1e9 && value < 1e11)
        throw new RangeError(`${name} is in milliseconds since 1970, and ${value} looks like seconds`);
    return value;
}

/** Dates as the server has them; what is undefined is left out. Throws for times that can only be mistakes. */
export function members(object) {
    return Object.fromEntries(Object.entries(object)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, memberOf(name, value)]));
}

function refuseNumbers(key, value) {
    if (typeof value === 'number' && !Number.isFinite(value))
        throw new TypeError(`${key || 'the value'}: ${value} has no JSON`);
    if (value === null && this[key] instanceof Date) // which has been asked for its JSON already
        throw new TypeError(`${key}: a Date that is none has no JSON`);
    return value;
}

/** JSON. Throws a TypeError if there is none, also for NaN, Infinity and invalid Dates, which JSON.stringify makes null. */
export function encode(value) {
    const text = JSON.stringify(value);
    if (text?.includes('null'))
        JSON.stringify(value, refuseNumbers);
    return text;
}

const plain = (name) => name.toLowerCase().replaceAll(/[_-]/g, '');

/** A misspelt option must not be ignored: TypeError, which names the one that was probably meant. */
export function refuseUnknown(what, unknown, known) {
    const [name] = Object.keys(unknown);
    if (name === undefined)
        return;
    const alike = known.find((one) => plain(one) === plain(name))
        ?? known.find((one) => plain(one).startsWith(plain(name)) || plain(name).startsWith(plain(one)));
    throw new TypeError(`${what} has no option ${name}${alike ? `; did you mean ${alike}?` : `: it has ${known.join(', ')}`}`);
}

// Whether the server recognises a second enqueue of the job, for as long as it keeps it.
function mayRepeat(job) {
    return Boolean(job.alias) || (Boolean(job.unique_key) && job.unique_while === 'exists');
}

function newJob({ queue, type, payload = null, ...options }) {
    return { queue, type, payload, ...members(options) };
}

const CLIENT_OPTIONS = ['url', 'token', 'tokenFile', 'caCert', 'clientCert', 'clientKey', 'timeoutMs', 'retryForMs',
    'idempotent', 'log'];

export class Client {
    #transport;
    #log;
    #reports = new Reports(this);
    #enqueues = new Enqueues((path, content) => this.#enqueue(path, content));

    /** What is not given comes from the environment, as for the `tenax` commands. */
    constructor({
        timeoutMs = 30000, retryForMs = 30000, idempotent = true, log = console, url, token, tokenFile, caCert,
        clientCert, clientKey, ...unknown
    } = {}) {
        refuseUnknown('Client', unknown, CLIENT_OPTIONS);
        this.timeoutMs = timeoutMs;
        this.retryForMs = retryForMs;
        this.idempotent = idempotent;
        this.#log = log;
        this.#transport = new Transport({ url, token, tokenFile, caCert, clientCert, clientKey });
    }

    get url() {
        return this.#transport.url;
    }

    // Reports how a run goes, together with what else is reported meanwhile.
    async _report(id, outcome, body) {
        return this.#reports.send(id, outcome, encode(body));
    }

    // With what another thread makes a client of the same server.
    _connection() {
        const { tokenSource, ...where } = this.#transport.where;
        return where;
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
    async enqueue(queue, type, payload = null, { idempotencyKey, ...options } = {}) {
        const job = newJob({ ...options, queue, type, payload });
        const text = encode(job);
        if (idempotencyKey === undefined && isPlain(job))
            return this.#enqueues.send(text);
        return this.#enqueue('/jobs', Buffer.from(text), idempotencyKey, mayRepeat(job));
    }

    /** Enqueues all of them or none; each has queue, type, payload and options. */
    async enqueueBulk(jobs, { idempotencyKey, ...unknown } = {}) {
        refuseUnknown('enqueueBulk', unknown, ['idempotencyKey']);
        const many = [...jobs].map(newJob);
        const content = Buffer.from(encode({ jobs: many }));
        return (await this.#enqueue('/jobs/bulk', content, idempotencyKey, many.every(mayRepeat))).jobs;
    }

    #enqueue(path, content, given, may = false) {
        const idempotencyKey = given ?? (this.idempotent ? randomUUID() : undefined);
        return this._send('POST', path, content, path === '/jobs/bulk' ? 'jobs' : 'id',
            { idempotencyKey, repeat: idempotencyKey !== undefined || may });
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
    async _ask(method, path, body, member, options) {
        return this._send(method, path, body === undefined ? undefined : Buffer.from(encode(body)), member, options);
    }

    // The same with the bytes of the body.
    async _send(method, path, content, member, {
        repeat = ['GET', 'PUT', 'DELETE'].includes(method), timeoutMs = this.timeoutMs,
        retryForMs = this.retryForMs, signal, idempotencyKey,
    } = {}) {
        const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
        const end = performance.now() + retryForMs;
        for (let tries = 0; ; tries++) {
            const pause = backoff(tries);
            const used = this.#transport.headers.authorization;
            try {
                return await this.#once(method, path, content, member, timeoutMs, signal, headers);
            } catch (err) {
                if (err.status === 401 && this.#transport.hasAnotherToken(used))
                    continue;
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
        if (good ? !isDone(path, status, body, member) : !isRefusal(path, body))
            throw new ForeignAnswer(method, path, status);
        if (!good)
            throw apiError(status, body);
        return body;
    }
}
