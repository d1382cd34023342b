// SPDX-License-Identifier: Apache-2.0
'use strict';

// Status objects, as the API answers every error: thrown as Failure, written by the server.

class Failure extends Error {
    constructor(status) {
        super(status.message);
        this.status = status;
    }
}

function statusOf(code, reason, message, details) {
    const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message };
    if (reason)
        status.reason = reason;
    if (details)
        status.details = details;
    status.code = code;
    return status;
}

function failure(code, reason, message, details) {
    return new Failure(statusOf(code, reason, message, details));
}

// "pods", or "events.events.k8s.io": how messages name a resource.
function qualified(resource) {
    return resource.group ? `${resource.resource}.${resource.group}` : resource.resource;
}

function kindOf(resource) {
    return resource.group ? `${resource.kind}.${resource.group}` : resource.kind;
}

function details(resource, name, more) {
    const out = {};
    if (name)
        out.name = name;
    if (resource.group)
        out.group = resource.group;
    return { ...out, kind: resource.resource, ...more };
}

function success(resource, object) {
    const { name, uid } = object.metadata;
    return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success',
        details: { ...details(resource, name), uid } };
}

function badRequest(message) {
    return failure(400, 'BadRequest', message);
}

function unauthorized() {
    return failure(401, 'Unauthorized', 'Unauthorized');
}

function forbidden(resource, name, why, causes) {
    return failure(403, 'Forbidden', `${qualified(resource)} "${name}" is forbidden: ${why}`,
        details(resource, name, causes && { causes }));
}

function notFound(resource, name) {
    return failure(404, 'NotFound', `${qualified(resource)} "${name}" not found`,
        details(resource, name));
}

function noSuchPath() {
    return failure(404, 'NotFound', 'the server could not find the requested resource', {});
}

function methodNotAllowed() {
    return failure(405, 'MethodNotAllowed',
        'the server does not allow this method on the requested resource', {});
}

function alreadyExists(resource, name) {
    return failure(409, 'AlreadyExists', `${qualified(resource)} "${name}" already exists`,
        details(resource, name));
}

function conflict(resource, name, why) {
    return failure(409, 'Conflict', `Operation cannot be fulfilled on ${qualified(resource)} ` +
        `"${name}": ${why}`, details(resource, name));
}

const MODIFIED = 'the object has been modified; please apply your changes to the latest version ' +
    'and try again';

function expired(message) {
    return failure(410, 'Expired', message);
}

// causes: [{reason, message, field}], in the order they were found.
function invalid(resource, name, causes) {
    const words = causes.map((cause) => `${cause.field}: ${cause.message}`);
    const text = words.length === 1 ? words[0] : `[${words.join(', ')}]`;
    const out = details(resource, name, { causes });
    return failure(422, 'Invalid', `${kindOf(resource)} "${name}" is invalid: ${text}`,
        { ...out, kind: resource.kind });
}

function tooManyRequests(seconds, message) {
    return failure(429, 'TooManyRequests', message ||
        'the server has received too many requests and has asked us to try again later',
    { retryAfterSeconds: seconds });
}

function tooLargeVersion(asked, current) {
    return failure(504, 'Timeout', `Too large resource version: ${asked}, current: ${current}`,
        { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
            retryAfterSeconds: 1 });
}

// What the API says of codes that no rule of its own has given (a proxy's, a fault's).
function generic(code, message) {
    const reasons = { 400: 'BadRequest', 401: 'Unauthorized', 403: 'Forbidden', 404: 'NotFound',
        409: 'Conflict', 410: 'Expired', 415: 'UnsupportedMediaType', 422: 'Invalid',
        429: 'TooManyRequests', 500: 'InternalError', 503: 'ServiceUnavailable', 504: 'Timeout' };
    return failure(code, reasons[code], message || `the server answered with ${code}`);
}

module.exports = { Failure, failure, statusOf, success, details, qualified, badRequest,
    unauthorized, forbidden, notFound, noSuchPath, methodNotAllowed, alreadyExists, conflict,
    MODIFIED, expired, invalid, tooManyRequests, tooLargeVersion, generic };
