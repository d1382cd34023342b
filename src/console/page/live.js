// SPDX-License-Identifier: Apache-2.0

// Views that follow what happens: /events says when something did, and only then is it asked for. What
// has no events is asked for now and then.

import { get, isAway, query, stream } from './api.js';

const FRESH_MS = 5000;
const AGAIN_MS = 1000;
const known = new Map(); // by filter: {number, at} of the newest event that was seen

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// Resolves when the server answers again, a stream of it having ended, or when the signal is given.
export async function comesBack(signal) {
    for (;;) {
        await sleep(AGAIN_MS);
        if (signal.aborted || await get('/health', signal).then(() => true, (err) => !isAway(err)))
            return;
    }
}

// Resolves when something happens that the filter of /events lets through, or did since the last
// time, or may have while the server was away; or after so long, or when the signal is given.
export function happens(filter, signal, most) {
    const key = query(filter), stop = new AbortController(), last = known.get(key);
    const since = last && performance.now() - last.at < FRESH_MS ? last.number : undefined;
    return new Promise((resolve) => {
        const end = () => {
            clearTimeout(timer);
            signal.removeEventListener('abort', end);
            stop.abort();
            resolve();
        };
        const timer = setTimeout(end, most);
        signal.addEventListener('abort', end);
        stream(`/events${query({ ...filter, since })}`, (event) => {
            known.set(key, { number: event.number ?? event.to, at: performance.now() });
            setTimeout(end); // with all that has arrived with it
        }, stop.signal).catch(() => {}).then(() => comesBack(stop.signal)).then(end); // the header says that the server is gone
        if (signal.aborted)
            end();
    });
}

// Whether somebody would be disturbed if the view were drawn again.
export function inUse() {
    return document.hidden || document.activeElement?.matches('input, textarea, select') ||
        document.getElementById('dialog').open || !getSelection().isCollapsed;
}

export async function redrawWhenFree(signal) {
    while (!signal.aborted && inUse())
        await sleep(AGAIN_MS);
    if (!signal.aborted)
        dispatchEvent(new Event('tenax-redraw'));
}

// Draws the view again when something has happened, not sooner than `pause` after this call, and
// after `most` in any case.
export async function redrawOn(filter, signal, { pause = 1000, most = 15000 } = {}) {
    const begun = performance.now();
    await happens(filter, signal, most);
    await sleep(Math.max(100, pause - (performance.now() - begun)));
    await redrawWhenFree(signal);
}

const REREAD_MS = 3000;

// Calls read() now and then while the page is visible, until the signal is given.
export async function reread(read, signal) {
    for (;;) {
        await sleep(REREAD_MS);
        while (document.hidden && !signal.aborted)
            await new Promise((resolve) => { document.addEventListener('visibilitychange', resolve, { once: true }); });
        if (signal.aborted)
            return;
        try {
            await read();
        } catch {
            // the header says that the server is gone; what is shown stays
        }
    }
}
