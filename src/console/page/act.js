// SPDX-License-Identifier: Apache-2.0

// Dialogs, and actions: nothing is changed before the reader has switched to acting, has seen the
// request as a command, and has confirmed it.

import { ApiError, change, curl } from './api.js';
import { announce, h } from './dom.js';
import { may } from './rights.js';

let acting = false;
const listeners = new Set();

export const isActing = () => acting;

export function setActing(on) {
    acting = on;
    document.documentElement.dataset.acting = on ? 'yes' : 'no';
    for (const told of listeners)
        told(on);
    announce(on ? 'Acting: buttons that change things are there' : 'Read-only');
}

export function onActing(told) {
    listeners.add(told);
}

const box = document.getElementById('dialog');
let finish = null; // ends the dialog that is open, with what it results in

// Shows a dialog, in place of one that is open; resolves when it is closed, with what close was
// given, or null.
export function show(title, build) {
    finish?.(null);
    return new Promise((resolve) => {
        const close = (value) => {
            if (finish !== close)
                return; // it is closed already
            finish = null;
            box.close(); // which gives the focus back
            box.replaceChildren();
            resolve(value ?? null);
        };
        finish = close;
        box.replaceChildren(h('h2', { id: 'dialog-title' }, title), ...[build(close)].flat().filter(Boolean));
        box.showModal();
    });
}

// By Esc, say. The event comes later than the end: another dialog may be open by then.
box.addEventListener('close', () => {
    if (!box.open)
        finish?.(null);
});

async function copy(text, button) {
    await navigator.clipboard?.writeText(text);
    button.textContent = 'Copied';
}

function command(text) {
    const button = h('button', { type: 'button', class: 'quiet small' }, 'Copy');
    const code = h('code', null, text);
    button.addEventListener('click', () => copy(code.textContent, button));
    return h('div', { class: 'command' }, h('pre', { tabindex: '0', 'aria-label': 'The same as a command' }, code), button);
}

const SLOW_MS = 1500;

// what: {title, text, method, path, body, type, danger, done, refused, slow}. Resolves with the answer,
// or null if it was not done. refused(err) is told after the dialog is closed; without it the dialog
// stays and says what is wrong. plain is the path of the same without undo, for servers that keep
// nothing, or no more, to undo it: then that is offered. detail: elements below the text. With slow the dialog is closed, and that is called, if there is no
// answer after a while.
export async function act(what) {
    const { title, text, method, body, type, danger, refused } = what;
    let { path } = what;
    let wrong = null;
    const done = await show(title, (close) => {
        const shown = command(curl(method, path, body, type));
        const failed = h('p', { class: 'error', role: 'alert' });
        const go = h('button', { type: 'button', class: danger ? 'danger' : 'primary', 'data-confirm': true,
            autofocus: !danger }, title);
        go.addEventListener('click', async () => {
            go.disabled = true;
            failed.textContent = '';
            const late = what.slow && setTimeout(() => {
                close(null);
                what.slow();
            }, SLOW_MS);
            try {
                const answer = await change(method, path, body, type);
                announce(`${title}: done`);
                close(answer ?? {});
            } catch (err) {
                wrong = err;
                announce(`${title}: ${err.message}`);
                if (refused) {
                    close(null);
                    return;
                }
                failed.textContent = err instanceof ApiError ? `${err.message} (${err.status})` : String(err);
                if (what.plain && path !== what.plain && /undo/.test(failed.textContent)) {
                    path = what.plain;
                    shown.querySelector('code').textContent = curl(method, path, body, type);
                    failed.textContent += '. It can be done all the same; then it stays so.';
                }
                go.disabled = false;
            } finally {
                clearTimeout(late);
            }
        });
        return [text && h('p', null, text), ...what.detail ?? [], shown, failed,
            h('div', { class: 'buttons' },
                h('button', { type: 'button', class: 'quiet', autofocus: danger, onclick: () => close(null) },
                'Not now'), go)];
    });
    if (wrong && !done)
        refused?.(wrong);
    return done;
}

// A button that is only there while one is acting, and if one may do what it does: the operation
// that it needs.
export function actionButton(label, needs, what, { danger, key } = {}) {
    return may(needs) && h('button', { type: 'button', class: `action ${danger ? 'danger-quiet' : ''}`, 'data-key': key,
        title: key ? `${label} (${key})` : null,
        onclick: async () => {
            const wanted = typeof what === 'function' ? await what() : what;
            if (!wanted)
                return;
            const answer = await act({ title: label, danger, ...wanted });
            if (answer)
                wanted.done?.(answer);
        } }, label);
}
