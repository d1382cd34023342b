// SPDX-License-Identifier: Apache-2.0

// What comes up while a request is under way travels with the next one. Nobody waits who is alone, and each
// caller has an answer or an error of its own.

import { ApiError, ForeignAnswer } from './errors.js';

const MOST = 1000; // in one request
const BYTES_MOST = 512 * 1024; // below what servers and proxies take
const SLOW_MS = 1000; // after which a request is not waited for any more
const PATH = '/jobs/reports';
const OPTIONS = { timeoutMs: 10000, retryForMs: 0 };

/** Calls that wait for each other, in their order: go(calls) sends some of them and settles each. */
export class Together {
    #waiting = []; // {text, apart, resolve, reject, …}
    #underWay = 0; // requests that are waited for
    #isDue = false; // the next one
    #go;

    constructor(go) {
        this.#go = go;
    }

    /** Resolves as the call does. One that is `apart` travels alone. */
    send(call) {
        return new Promise((resolve, reject) => {
            this.#waiting.push({ ...call, resolve, reject });
            this.#next();
        });
    }

    // What comes up in this turn of the event loop goes along.
    #next() {
        if (this.#isDue || this.#underWay || !this.#waiting.length)
            return;
        this.#isDue = true;
        setImmediate(() => {
            this.#isDue = false;
            while (this.#waiting[0]?.apart)
                this.#go(this.#waiting.splice(0, 1)); // it is not waited for
            if (this.#waiting.length)
                this.#begin(this.#waiting.splice(0, this.#fitting()));
        });
    }

    // How many go now, of which the first is not apart.
    #fitting() {
        let count = 0, bytes = 0;
        for (const { text, apart } of this.#waiting.slice(0, MOST)) {
            bytes += Buffer.byteLength(text);
            if (count && (apart || bytes > BYTES_MOST))
                break;
            count++;
        }
        return count;
    }

    async #begin(calls) {
        this.#underWay++;
        let isWaitedFor = true;
        const go = () => {
            if (isWaitedFor)
                this.#underWay--;
            isWaitedFor = false;
            this.#next();
        };
        const timer = setTimeout(go, SLOW_MS);
        await this.#go(calls);
        clearTimeout(timer);
        go();
    }
}

// That something is wrong with one of many, of which each has to hear by itself; nothing was done of what they had in common.
function isOfOne(err) {
    return err instanceof ApiError && err.status < 500 && ![401, 408, 429].includes(err.status);
}

function isList(answer, calls) {
    return Array.isArray(answer?.reports) && answer.reports.length === calls.length
        && answer.reports.every((one, i) => one?.id === calls[i].id);
}

/** Reports of runs: alone by a request of its own, several by POST /jobs/reports. */
export class Reports {
    #client;
    #together = new Together((calls) => this.#go(calls));
    #isKnown = true; // to the server

    constructor(client) {
        this.#client = client;
    }

    /** Resolves with the answer to the report; `text` is its JSON, an object with a token at least. */
    send(id, outcome, text) {
        const call = { id, outcome, text };
        if (!this.#isKnown)
            return this.#alone(call);
        // Of a release that is repeated, as its answer was lost, the server says that its run is over.
        return this.#together.send({ ...call, apart: outcome === 'release' });
    }

    #alone({ id, outcome, text }) {
        return this.#client._send('POST', `/jobs/${id}/${outcome}`, Buffer.from(text), undefined, OPTIONS);
    }

    #settle(call) {
        return this.#alone(call).then(call.resolve, call.reject);
    }

    // Each by a request of its own; those of one job in their order.
    #apart(calls) {
        const last = new Map();
        for (const call of calls) {
            const before = last.get(call.id);
            last.set(call.id, before ? before.then(() => this.#settle(call)) : this.#settle(call));
        }
        return Promise.all(last.values());
    }

    async #go(calls) {
        if (calls.length === 1 || !this.#isKnown) {
            await this.#apart(calls);
            return;
        }
        try {
            const answers = await this.#many(calls);
            // Whatever was refused hears why by a request of its own.
            await Promise.all(calls.map((call, i) =>
                (answers[i].code ? this.#settle(call) : call.resolve(answers[i]))));
        } catch (err) {
            await this.#fail(calls, err);
        }
    }

    async #many(calls) {
        const texts = calls.map(({ id, outcome, text }) =>
            `{"id":${JSON.stringify(id)},"outcome":"${outcome}",${text.slice(1)}`);
        const content = Buffer.from(`{"reports":[${texts.join(',')}]}`);
        const answer = await this.#client._send('POST', PATH, content, 'reports', OPTIONS).catch((err) => {
            if (err.body?.reports) // 422 with a list: some were refused
                return err.body;
            throw err;
        });
        if (!isList(answer, calls))
            throw new ForeignAnswer('POST', PATH, 200);
        return answer.reports;
    }

    // The fault may be of one of them, or of the path, which older servers and some proxies do not know.
    async #fail(calls, err) {
        if (err instanceof ApiError && ['no_such_path', 'method_not_allowed'].includes(err.code))
            this.#isKnown = false;
        if (isOfOne(err) || err instanceof ForeignAnswer)
            await this.#apart(calls);
        else
            calls.forEach(({ reject }) => reject(err));
    }
}

// Members of jobs that have nothing to do with those of others, which might refuse or change all of a bulk.
const PLAIN = new Set(['queue', 'type', 'payload', 'priority', 'ready_at', 'retry_limit', 'backoff', 'retention', 'deadline',
    'retain_until', 'max_run_ms', 'retry_for_ms', 'annotations', 'traceparent', 'tracestate']);

export function isPlain(job) {
    return Object.keys(job).every((name) => PLAIN.has(name));
}

/** Enqueues of plain jobs: alone by POST /jobs, several by POST /jobs/bulk. */
export class Enqueues {
    #enqueue;
    #together = new Together((calls) => this.#go(calls));
    #isAnswered = true; // a bulk, by Tenax

    /** enqueue(path, content) sends one request and resolves with its answer. */
    constructor(enqueue) {
        this.#enqueue = enqueue;
    }

    /** Resolves with the job as it was added; `text` is its JSON. */
    send(text) {
        return this.#isAnswered ? this.#together.send({ text }) : this.#alone(text);
    }

    #alone(text) {
        return this.#enqueue('/jobs', Buffer.from(text));
    }

    #apart(calls) {
        return Promise.all(calls.map(({ text, resolve, reject }) => this.#alone(text).then(resolve, reject)));
    }

    async #go(calls) {
        if (calls.length === 1) {
            await this.#apart(calls);
            return;
        }
        try {
            const texts = calls.map(({ text }) => text);
            const { jobs } = await this.#enqueue('/jobs/bulk', Buffer.from(`{"jobs":[${texts.join(',')}]}`));
            if (jobs?.length !== calls.length)
                throw new ForeignAnswer('POST', '/jobs/bulk', 200);
            calls.forEach(({ resolve }, i) => resolve(jobs[i]));
        } catch (err) {
            if (err instanceof ForeignAnswer)
                this.#isAnswered = false; // nobody knows what became of these
            if (isOfOne(err))
                await this.#apart(calls);
            else
                calls.forEach(({ reject }) => reject(err));
        }
    }
}
