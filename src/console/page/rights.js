// SPDX-License-Identifier: Apache-2.0

// What the reader may do, as /rights says it: views ask for nothing else, and offer nothing else.

import { get, onRefused, token } from './api.js';

let known = null;   // {token, answer, allowed, refused}, of the credentials that were sent
let reading = null; // one request for all that wait for it

async function read() {
    const answer = await get('/rights');
    known = { token: token(), answer, allowed: new Set(answer.allowed),
        refused: new Map(answer.refused.map(({ operation, why }) => [operation, why])) };
}

// Resolves when it is known what the present credentials may do.
export async function knowRights() {
    while (!known || known.token !== token()) {
        reading ??= read().finally(() => { reading = null; });
        await reading;
    }
}

// They may be others by now: they are asked for again by the next knowRights.
export function forgetRights() {
    known = null;
}
onRefused(forgetRights);

let last = null; // while they are read again

const rights = () => (last = known ?? last);

// Operations by their operationId.
export const may = (operation) => rights()?.allowed.has(operation) ?? false;

// The server's sentence about an operation that it would refuse.
export const whyNot = (operation) => rights().refused.get(operation) ?? '';

export const hasRight = (right) => rights().answer.rights.includes(right);

// Patterns of the queues that the reader is limited to; empty: all.
export const limits = () => rights().answer.queues;
