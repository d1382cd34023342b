// SPDX-License-Identifier: Apache-2.0

// A client of Tenax, a durable job server. Client enqueues jobs and asks the server anything else;
// Worker runs a function for each job. Only Node's own modules are used.

export { Client } from './client.js';
export { Job } from './job.js';
export { Worker } from './worker.js';
export {
    ApiError, BadRequest, Conflict, ConnectionFailed, Failure, Forbidden, ForeignAnswer, GiveBack, LeaseLost,
    NotFound, ServerError, StaleToken, TenaxError, Unauthorized, Unprocessable,
} from './errors.js';
