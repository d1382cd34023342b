// SPDX-License-Identifier: Apache-2.0

// What can go wrong, and what a handler throws to say how a run ended.

// How the server's sentences name the member that is wrong: "jobs[3]: priority: expected ...".
const WHERE = /^((?:[\w.$-]+(?:\[\d+\])*: )+)/;

/** Whatever this package throws. */
export class TenaxError extends Error {
    constructor(message, options) {
        super(message, options);
        this.name = this.constructor.name;
    }
}

/**
 * There was no answer. `sent` is false if the request never left, so that nothing can have happened.
 * If it is true the outcome is unknown: the server may have done what was asked.
 */
export class ConnectionFailed extends TenaxError {
    constructor(message, sent, options) {
        super(message, options);
        this.sent = sent;
    }
}

/**
 * Something else answered in the server's place: a proxy, a load balancer, a sign-in page. Such an
 * answer, whatever its `status`, says nothing about the request: it counts as none.
 */
export class ForeignAnswer extends ConnectionFailed {
    constructor(method, path, status) {
        super(`${method} ${path}: what answered with HTTP ${status} is not Tenax but something in between, `
            + 'such as a proxy', true);
        this.status = status;
    }
}

function sentenceOf({ jobs, not_found: notFound, status }) {
    if (jobs && status === undefined)
        return 'some of these leases were not renewed';
    return notFound ? 'some of these jobs are not in flight' : `the server is ${status}`;
}

/** The server refused. `code` is one of docs/errors.md. */
export class ApiError extends TenaxError {
    constructor(status, body) {
        const { code = '', error = sentenceOf(body) } = body;
        super(`${error} (HTTP ${status}, ${code})`);
        this.status = status;
        this.code = code;
        this.offset = body.offset; // where in the body that was sent, in bytes
        this.body = body; // all of the answer
        // The member that is wrong, as jobs[3].priority, if the server names one.
        this.where = WHERE.exec(error)?.[1].slice(0, -2).replaceAll(': ', '.');
    }
}

/** 400 and other statuses that say the request is wrong as it stands. */
export class BadRequest extends ApiError {}
/** 401: no token, or one that is wrong, expired or deleted. */
export class Unauthorized extends ApiError {}
/** 403: the token does not allow it. */
export class Forbidden extends ApiError {}
/** 404: there is no such thing. */
export class NotFound extends ApiError {}
/** 409: it exists already, has changed meanwhile, or is in use. */
export class Conflict extends ApiError {}
/** 409 stale_token, stale_gang or run_limit: the run is over, and nothing has changed. */
export class StaleToken extends Conflict {}
/** 422: well-formed, but cannot be applied. */
export class Unprocessable extends ApiError {}
/** 5xx: the server could not do it. */
export class ServerError extends ApiError {}

const BY_STATUS = { 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 422: Unprocessable };

/**
 * Whether this is how Tenax refuses: with a `code` and a sentence. A health has neither, and an answer that
 * says what became of each of many jobs needs neither.
 */
export function isRefusal(path, body) {
    const { code, error } = body ?? {};
    if (path.split('?')[0] === '/health' && typeof body?.status === 'string')
        return true;
    if (Array.isArray(body?.jobs) || Array.isArray(body?.reports) || Array.isArray(body?.not_found))
        return true;
    return typeof code === 'string' && /^[a-z][a-z0-9_]*$/.test(code) && typeof error === 'string';
}

/**
 * Whether this is how Tenax says that it was done. 204 alone is without a body, and what became of one run is
 * answered so, but for a failure, whose job is shown.
 */
export function isDone(path, status, body, member) {
    if (/^\/jobs\/[^/]+\/(success|release|progress)$/.test(path))
        return status === 204;
    if (/^\/jobs\/[^/]+\/failure$/.test(path))
        member = 'id';
    return (status === 204) === (body === null) && (!member || body?.[member] !== undefined);
}

/** The error that a refusal stands for. */
export function apiError(status, body) {
    if (['stale_token', 'stale_gang', 'run_limit'].includes(body.code))
        return new StaleToken(status, body);
    const Kind = status >= 500 ? ServerError : BY_STATUS[status] ?? BadRequest;
    return new Kind(status, body);
}

/** The run is not this worker's any more; a handler lets it pass through. */
export class LeaseLost extends TenaxError {}

/**
 * Thrown by a handler: the job goes back to its queue, and the run does not count. With `delay_ms` (by the
 * server's clock) or `ready_at` (a Date or milliseconds since 1970) it is not handed out again before then.
 * Without them it comes back at once, if it is given back for the first time, and after that with a pause
 * that doubles each time, up to a minute; at once, too, if the worker is about to end.
 */
export class GiveBack extends TenaxError {
    constructor(message, { cause, ready_at: readyAt, delay_ms: delayMs, ...unknown } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        const [name] = Object.keys(unknown);
        if (name !== undefined)
            throw new TypeError(`GiveBack has no option ${name}: it has ready_at, delay_ms, cause`);
        this.ready_at = readyAt;
        this.delay_ms = delayMs;
    }
}

/**
 * Thrown by a handler: the run failed, and this is what is known about it. The members are those of a
 * failure in docs/api.md by their names there: `error_type`, `exit_code`, `category`, `kill`, `retry_at`
 * (a Date or milliseconds since 1970) and all others.
 */
export class Failure extends TenaxError {
    constructor(message, { cause, ...members } = {}) {
        super(message, cause === undefined ? undefined : { cause });
        this.members = members;
    }
}
