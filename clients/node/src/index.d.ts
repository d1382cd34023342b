// SPDX-License-Identifier: Apache-2.0

/** Any value that JSON has. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface ClientOptions {
    /** Unless given: TENAX_URL, or http://127.0.0.1:7890. */
    url?: string;
    /** Unless given: the file, or that of TENAX_TOKEN_FILE, or TENAX_TOKEN. */
    token?: string;
    tokenFile?: string;
    /** PEM files; unless given TENAX_CA_CERT, TENAX_CLIENT_CERT, TENAX_CLIENT_KEY. */
    caCert?: string;
    clientCert?: string;
    clientKey?: string;
    /** Limits each request; 30000. */
    timeoutMs?: number;
    /** For how long a request that got no answer is repeated, if that is safe; 30000. */
    retryForMs?: number;
    /** Whether each enqueue has an Idempotency-Key, so that it can be repeated; true. */
    idempotent?: boolean;
    /** Told when a request is sent again because something in between answered; the console. */
    log?: { warn(text: string): void };
}

/** The options of POST /jobs in docs/api.md; times may be Dates. */
export interface EnqueueOptions {
    priority?: number | null;
    ready_at?: number | Date | null;
    retry_limit?: number | null;
    backoff?: { base_ms: number; exponent: number; jitter_ms: number } | null;
    retention?: { completed_ms?: number | null; dead_ms?: number | null } | null;
    unique_key?: string | null;
    unique_while?: 'queued' | 'active' | 'exists' | null;
    alias?: string | null;
    deadline?: number | Date | null;
    retain_until?: number | Date | null;
    depends_on?: (string | number)[] | null;
    when?: 'all_completed' | 'all_ended' | null;
    on_dependency_death?: 'block' | 'run' | 'die' | null;
    fail_fast?: boolean | null;
    hold?: boolean | null;
    concurrency_key?: string | null;
    budgets?: object[] | null;
    resources?: object | null;
    gang?: object | null;
    batch?: object | null;
    group?: string | null;
    group_owner?: string | null;
    retry_policies?: string[] | null;
    when_no_policy?: 'default' | 'fail' | null;
    max_run_ms?: number | null;
    retry_for_ms?: number | null;
    annotations?: Record<string, string> | null;
    pending_runs?: boolean | null;
    traceparent?: string | null;
    tracestate?: string | null;
}

export interface NewJob extends EnqueueOptions {
    queue: string;
    type: string;
    payload?: unknown;
}

export interface JobData {
    id: string;
    queue: string;
    type: string;
    status: 'blocked' | 'scheduled' | 'ready' | 'in_flight' | 'completed' | 'dead';
    priority: number;
    ready_at: number;
    attempts: number;
    payload?: any;
    [name: string]: any;
}

export interface Enqueued extends JobData {
    duplicate: boolean;
    folded: boolean;
}

export interface RequestOptions {
    /** It may be repeated when it is not known whether it arrived; unless given GET, PUT, DELETE may. */
    repeat?: boolean;
    timeoutMs?: number;
    retryForMs?: number;
    signal?: AbortSignal;
    idempotencyKey?: string;
}

export class Client {
    constructor(options?: ClientOptions);
    readonly url: string;
    /** Enqueues a job. ConnectionFailed with `sent`: nobody knows whether it was enqueued. */
    enqueue(queue: string, type: string, payload?: unknown,
        options?: EnqueueOptions & { idempotencyKey?: string }): Promise<Enqueued>;
    /** Enqueues all of them or none. */
    enqueueBulk(jobs: Iterable<NewJob>, options?: { idempotencyKey?: string }): Promise<Enqueued[]>;
    /** A job as it is now, with its payload. */
    job(id: string, options?: { runs?: boolean }): Promise<JobData>;
    /** Any request of docs/api.md; resolves with the answer's JSON, or null if it has no body. */
    request(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<any>;
    /** Closes the connections. */
    close(): void;
}

/** A run of a job, as its handler sees it. */
export class Job {
    private constructor();
    /** All that the claim gave. */
    readonly data: JobData;
    readonly id: string;
    readonly queue: string;
    readonly type: string;
    readonly payload: any;
    /** Failures so far. */
    readonly attempts: number;
    /** The index of this run, from 0. */
    readonly run: number;
    /** What an earlier run saved. */
    readonly checkpoint: any;
    /** The trace that it belongs to. */
    readonly traceparent: string | undefined;
    readonly tracestate: string | undefined;
    /** How long this run may take, if it has a limit. */
    readonly max_run_ms?: number;
    /** Aborted when the work has become useless: the lease is lost, the time is over, or the job was given back. */
    readonly signal: AbortSignal;
    /** Aborted when the worker is about to end, or the run is over. */
    readonly stopSignal: AbortSignal;
    readonly lost: boolean;
    readonly stopping: boolean;
    /** Throws LeaseLost if the run is lost, and GiveBack if the worker is about to end. */
    check(): void;
    /** Waits, but not beyond the moment when check would throw; then throws the same. */
    wait(ms: number): Promise<void>;
    /** Says how far the work is, from 0 to 1; `event` tells consumers of events, too. */
    progress(value?: number | null, note?: string, options?: { event?: boolean }): Promise<void>;
    /** Saves a checkpoint: it is on the server's disk when this resolves. Throws LeaseLost. */
    save(checkpoint: unknown): Promise<void>;
}

export type Handler = (job: Job) => unknown;

export interface WorkerOptions {
    /** How many handlers run side by side; 1. */
    concurrency?: number;
    /** How long the server waits for a renewal, which comes after every third of it; 30000. */
    leaseMs?: number;
    /** How long handlers may go on when the worker ends; 30000. */
    graceMs?: number;
    /** How long a claim waits for a job; 10000. */
    waitMs?: number;
    /** How long a run may take; a shorter limit of the job or its queue counts. Then `signal` is aborted. */
    maxRunMs?: number;
    /** On record with every run; host and process id. */
    name?: string;
    /** Jobs that must avoid it are left to others; TENAX_NODE. */
    node?: string;
    log?: { info(text: string): void; warn(text: string): void; error(text: string): void };
}

export class Worker {
    /** `handler` is a function, or an object of functions by type. */
    constructor(client: Client, queues: string | string[], handler: Handler | Record<string, Handler>,
        options?: WorkerOptions);
    /**
     * Works until SIGTERM, SIGINT or stop; with `drain` until no job is ready and none runs. The process ends after a
     * signal if a handler still works on a job that was given back.
     */
    run(options?: { drain?: boolean; signals?: boolean }): Promise<void>;
    /** Has `run` resolve as SIGTERM does; a second call ends the wait. */
    stop(): void;
}

/** Whatever this package throws. */
export class TenaxError extends Error {}

/** There was no answer. */
export class ConnectionFailed extends TenaxError {
    /** False: nothing can have happened. True: nobody knows. */
    readonly sent: boolean;
}

/** A proxy or the like answered in the server's place: that counts as no answer. */
export class ForeignAnswer extends ConnectionFailed {
    /** Of what answered. */
    readonly status: number;
}

/** The server refused. */
export class ApiError extends TenaxError {
    readonly status: number;
    /** One of docs/errors.md. */
    readonly code: string;
    /** The member that is wrong, as jobs[3].priority, if the server names one. */
    readonly where?: string;
    /** Where in the body that was sent, in bytes. */
    readonly offset?: number;
    readonly body: any;
}
export class BadRequest extends ApiError {}
export class Unauthorized extends ApiError {}
export class Forbidden extends ApiError {}
export class NotFound extends ApiError {}
export class Conflict extends ApiError {}
export class StaleToken extends Conflict {}
export class Unprocessable extends ApiError {}
export class ServerError extends ApiError {}

/** The run is not this worker's any more. */
export class LeaseLost extends TenaxError {}
/**
 * Thrown by a handler: the job goes back to its queue, and the run does not count. With `delay_ms` or `ready_at`
 * it is not handed out again before then; without them, if it is given back again, after a pause that doubles.
 */
export class GiveBack extends TenaxError {
    constructor(message?: string, members?: { ready_at?: number | Date; delay_ms?: number; cause?: unknown });
    readonly ready_at?: number | Date;
    readonly delay_ms?: number;
}

/** What is known about a failure, by the names of docs/api.md; the message is what it is made with. */
export interface FailureMembers {
    error_type?: string;
    backtrace?: string;
    exit_code?: number;
    signal?: number;
    run_ms?: number;
    condition?: string;
    exception?: string;
    node?: string;
    termination_message?: string;
    category?: string;
    subcategory?: string;
    pod_error?: string;
    pod_events?: string[];
    containers?: object[];
    grace_period_ms?: number;
    kill?: boolean;
    retry_at?: number | Date;
    progress?: object;
    checkpoint?: unknown;
    cause?: unknown;
}

/** Thrown by a handler: the run failed, and this is what is known about it. */
export class Failure extends TenaxError {
    constructor(message: string, members?: FailureMembers);
}
