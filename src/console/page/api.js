// SPDX-License-Identifier: Apache-2.0

// Requests to the server that this page came from, with the reader's token if there is one.

const TOKEN = 'tenax-token';

export class ApiError extends Error {
    constructor(status, body) {
        super(body?.error ?? `the server answered ${status}`);
        this.status = status;
        this.code = body?.code ?? null;
    }
}

// Nobody answered, or the answer broke off.
export class Unreachable extends Error {
    constructor() {
        super('The server does not answer.');
    }
}

// Whether the same may be asked again: it is not there, or has no owner of its jobs yet.
export const isAway = (err) => err instanceof Unreachable || (err instanceof ApiError && err.status >= 502);

// What the network says of it differs between browsers.
async function reached(promise) {
    try {
        return await promise;
    } catch (err) {
        throw err.name === 'AbortError' ? err : new Unreachable();
    }
}

let askToken = async () => null; // set by app.js: resolves with a token, or null

export function onTokenWanted(ask) {
    askToken = ask;
}

export const token = () => sessionStorage.getItem(TOKEN);

export function setToken(text) {
    if (text)
        sessionStorage.setItem(TOKEN, text);
    else
        sessionStorage.removeItem(TOKEN);
}

function headersOf(more) {
    const own = token();
    return own ? { ...more, Authorization: `Bearer ${own}` } : { ...more };
}

let refused = () => {}; // set by rights.js: what one may do is not what it was

export function onRefused(told) {
    refused = told;
}

let asking = null; // one dialog for all requests that were refused

async function send(method, path, { body, type, accept, signal } = {}) {
    for (;;) {
        const used = token();
        const headers = headersOf({ Accept: accept ?? 'application/json' });
        if (body !== undefined)
            headers['Content-Type'] = type ?? 'application/json';
        const res = await reached(fetch(path, { method, headers, body, signal, cache: 'no-store' }));
        if (res.status !== 401)
            return res;
        if (token() !== used)
            continue; // another request was asked meanwhile
        asking ??= askToken(used !== null).finally(() => { asking = null; });
        if (!await asking)
            return res;
    }
}

async function answer(res) {
    if (res.status === 403)
        refused();
    const text = await reached(res.text());
    let body = null;
    try {
        body = text ? JSON.parse(text) : null;
    } catch {
        body = { error: text };
    }
    if (!res.ok)
        throw new ApiError(res.status, body);
    return body;
}

export async function get(path, signal) {
    return answer(await send('GET', path, { signal }));
}

export async function getText(path, signal) {
    const res = await send('GET', path, { signal, accept: 'text/plain' });
    if (!res.ok)
        await answer(res);
    return res.text();
}

// body: a value that becomes JSON or, with a type, a text as it is.
export async function change(method, path, body, type) {
    const text = body === undefined || type ? body : JSON.stringify(body);
    return answer(await send(method, path, { body: text, type }));
}

// All pages of a list whose answers have pages.next.
export async function* pages(path, signal) {
    for (let at = path; at;) {
        const page = await get(at, signal);
        yield page;
        at = page.pages?.next ?? null;
    }
}

// Jobs that match, up to a limit, however few of very many those are: each request looks at as many
// jobs as the server can in some 25 ms. tell({jobs, looked}) is called after each. Resolves with
// {jobs, looked, prev, next}, the latter with the place where the list goes on; requests: the most
// that are sent.
const LOOK_FIRST = 2000, LOOK_MOST = 100000, LOOK_MS = 25;

export async function gather(values, { limit, signal, tell, requests = Infinity }) {
    const found = { jobs: [], looked: 0, prev: null, next: null };
    let look = LOOK_FIRST, from = values.from;
    for (let sent = 0; sent < requests; sent++) {
        const begun = performance.now();
        const page = await get(`/jobs${query({ ...values, from, limit: limit - found.jobs.length, look_max: look })}`, signal);
        found.jobs.push(...page.jobs);
        found.looked += look;
        found.prev ??= page.pages.prev && placeOf(page.pages.prev);
        found.next = page.pages.next && placeOf(page.pages.next);
        tell?.(found);
        if (!found.next || found.jobs.length >= limit)
            break;
        from = found.next.from;
        const fits = Math.round((look * LOOK_MS) / Math.max(1, performance.now() - begun));
        look = Math.max(500, Math.min(fits, 4 * look, LOOK_MOST));
    }
    return found;
}

function placeOf(path) {
    const q = new URLSearchParams(path.split('?')[1]);
    return { from: q.get('from'), order: q.get('order') };
}

// Calls seen(event) for each line of a stream of JSON, until it ends or the signal is given.
export async function stream(path, seen, signal) {
    const res = await send('GET', path, { signal, accept: 'application/x-ndjson' });
    if (!res.ok)
        await answer(res);
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const { value, done } = await reached(reader.read());
        if (done)
            return;
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines)
            if (line.trim())
                seen(JSON.parse(line));
    }
}

// The query of a path: empty values are left out.
export function query(values) {
    const q = new URLSearchParams();
    for (const [name, value] of Object.entries(values))
        if (value !== undefined && value !== null && value !== '')
            q.set(name, value);
    const text = q.toString();
    return text ? `?${text}` : '';
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The same request for a shell. The token is not shown: it is taken from the environment.
export function curl(method, path, body, type) {
    const parts = ['curl'];
    if (method !== 'GET')
        parts.push('-X', method);
    if (token())
        parts.push('-H', '"Authorization: Bearer $TENAX_TOKEN"');
    if (body !== undefined)
        parts.push('-H', quote(`Content-Type: ${type ?? 'application/json'}`), '-d',
            quote(type ? body : JSON.stringify(body)));
    parts.push(quote(location.origin + path));
    return parts.join(' ');
}
