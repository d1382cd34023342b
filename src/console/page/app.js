// SPDX-License-Identifier: Apache-2.0

// The frame of the page: which view is shown, keys, acting or only looking, the token.

import { isActing, onActing, setActing, show } from './act.js';
import { get, isAway, onTokenWanted, setToken } from './api.js';
import { announce, h, setText } from './dom.js';
import { audit } from './audit.js';
import { canaries } from './canaries.js';
import { crons } from './crons.js';
import { events } from './events.js';
import { failures } from './failures.js';
import { flow } from './flow.js';
import { job } from './job.js';
import { jobs } from './jobs.js';
import { now } from './now.js';
import { operations } from './operations.js';
import { policies } from './policies.js';
import { queue } from './queue.js';
import { forgetRights, knowRights, may, whyNot } from './rights.js';
import { workers } from './workers.js';

// A view is a function (parts, params, signal) → element, or a promise of one. Its signal is given
// when another view takes its place.
const VIEWS = { now, queue, jobs, job, failures, canaries, policies, crons, flow, workers, operations, events, audit };
// What one must be allowed to ask for to see anything of it; else it is not offered.
const NEEDS = { now: 'listQueues', queue: 'getQueue', jobs: 'listJobs', job: 'getJob', failures: 'listFailureGroups',
    canaries: 'listCanaryRetries', policies: 'getRetrySettings', crons: 'listCronGroups', flow: 'listJobs', workers: 'listWorkers',
    operations: 'listOperations', events: 'streamEvents', audit: 'getAudit' };
// What buttons of views do. The jobs of crons can be enqueued by those who see the crons.
const ACTS = ['patchQueue', 'patchJob', 'retryJob', 'retryJobs', 'cancelJob', 'cancelJobs', 'deleteJob', 'deleteJobs', 'putRetryPolicy',
    'putRetrySettings', 'patchCronGroup', 'patchCronEntry', 'quietWorker', 'stopWorker', 'stopOperation', 'undoOperation',
    'stopCanaryRetry'];
const NAV = [['now', 'Now'], ['jobs', 'Jobs'], ['failures', 'Failures'], ['policies', 'Policies'], ['crons', 'Crons'],
    ['flow', 'Flow'], ['workers', 'Workers'], ['operations', 'Operations'], ['events', 'Events'],
    ['audit', 'Audit']];
const PARENT = { queue: 'now', job: 'jobs', canaries: 'failures' };

const AGAIN_MS = 2000; // between looks for a server that is away

const offered = () => NAV.filter(([id]) => may(NEEDS[id]));
const mayAct = () => ACTS.some(may) || (may('enqueueJob') && may(NEEDS.crons));

const main = document.getElementById('main');
let current = null;  // {abort}
let standing = null; // the hash of what is in its place

// "#/jobs?status=dead" → {name: 'jobs', parts: [], params}
function route() {
    const [path, search = ''] = (location.hash.replace(/^#/, '') || '/now').split('?');
    const [name, ...parts] = path.split('/').filter(Boolean).map(decodeURIComponent);
    return { name: name ?? 'now', parts, params: new URLSearchParams(search) };
}

function drawNav(name) {
    const shown = PARENT[name] ?? name;
    document.getElementById('nav').replaceChildren(...offered().map(([id, label]) =>
        h('a', { href: `#/${id}`, 'aria-current': id === shown ? 'page' : null }, label)));
    mode.hidden = !mayAct();
    if (mode.hidden && isActing())
        setActing(false);
    document.querySelector('#nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function failure(text) {
    return h('section', { class: 'notice error', role: 'alert' }, h('h1', { tabindex: '-1' }, 'This cannot be shown'),
        h('p', null, text));
}

// The element of a view, or why there is none.
async function build({ name, parts, params }, signal) {
    if (!Object.hasOwn(VIEWS, name))
        return failure(`There is no view “${name}”.`);
    await knowRights();
    drawNav(name);
    if (!may(NEEDS[name]))
        return failure(whyNot(NEEDS[name]));
    return VIEWS[name](parts, params, signal);
}

// While the server is away, what is shown stays; what could not be shown is as soon as it is back.
function tryAgain(mine, err) {
    forgetRights();
    setTimeout(() => {
        if (current === mine)
            draw(false);
    }, AGAIN_MS);
    return standing === location.hash ? null : failure(`${err.message} This is shown as soon as it does.`);
}

// Drawing a view again leaves the focus where it was: at the element in the same place, if it is
// still the same one; and open what was opened.
const FOCUSABLE = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
const sameAs = (element) => `${element.tagName} ${element.getAttribute('href') ?? element.id} ${element.textContent}`;

function holdFocus() {
    const all = [...main.querySelectorAll(FOCUSABLE)];
    const at = all.indexOf(document.activeElement), top = main.scrollTop;
    const same = at < 0 ? null : sameAs(all[at]);
    const opened = [...main.querySelectorAll('details')].map((details) => details.open);
    return () => {
        const details = [...main.querySelectorAll('details')];
        if (details.length === opened.length)
            details.forEach((one, i) => { one.open = opened[i]; });
        const element = at < 0 ? null : main.querySelectorAll(FOCUSABLE)[at];
        if (element && sameAs(element) === same)
            element.focus({ preventScroll: true });
        main.scrollTop = top;
    };
}

async function draw(focus) {
    const here = route();
    current?.abort.abort();
    const abort = new AbortController();
    const mine = { abort };
    current = mine;
    drawNav(here.name);
    main.setAttribute('aria-busy', 'true');
    let element;
    try {
        element = await build(here, abort.signal);
    } catch (err) {
        if (err.name === 'AbortError' || current !== mine)
            return;
        element = isAway(err) ? tryAgain(mine, err) : failure(err.message);
    }
    if (current !== mine)
        return;
    if (!element) {
        main.setAttribute('aria-busy', 'false');
        return;
    }
    const giveBack = focus ? null : holdFocus();
    main.replaceChildren(element);
    standing = main.dataset.shown = location.hash;
    giveBack?.();
    main.setAttribute('aria-busy', 'false');
    const title = main.querySelector('h1');
    document.title = `${title?.textContent ?? 'Tenax'} – Tenax`;
    if (focus) {
        if (!document.getElementById('dialog').open)
            title?.focus({ preventScroll: true });
        announce(title?.textContent ?? '');
        main.scrollTop = 0;
    }
}

// Views say that what they show has changed by their own actions.
addEventListener('tenax-redraw', () => draw(false));

// --- health ---

async function watchHealth() {
    const element = document.getElementById('health');
    for (;;) {
        let text = 'unreachable', state = 'bad';
        try {
            const health = await get('/health');
            text = health.status === 'ok' ? 'healthy' : health.status.replace('_', ' ');
            state = health.status === 'ok' ? 'good' : 'bad';
        } catch {
            // it says so
        }
        setText(element, text);
        element.dataset.state = state;
        await new Promise((resolve) => setTimeout(resolve, 5000));
    }
}

// --- the token ---

function askToken(wrong) {
    return show('Credentials are needed', (close) => {
        const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false',
            required: true, autofocus: true });
        return h('form', { onsubmit: (event) => {
            event.preventDefault();
            setToken(field.value.trim());
            if (standing !== null)
                draw(false); // others may see other things
            close(field.value.trim());
        } },
        h('p', null, wrong ? 'The server does not know this token (any more).'
            : 'This server asks who you are. The token stays in this tab until it is closed.'),
        h('label', { for: 'token' }, 'Token'), field,
        h('p', { class: 'hint' }, 'An operator makes one: tenax token create --role viewer'),
        h('div', { class: 'buttons' }, h('button', { type: 'submit', class: 'primary' }, 'Use it')));
    });
}
onTokenWanted(askToken);

// --- acting ---

const mode = document.getElementById('mode');
const toggle = () => setActing(!isActing() && mayAct());
mode.addEventListener('click', toggle);
onActing((on) => {
    mode.setAttribute('aria-pressed', String(on));
    setText(mode.querySelector('.mode-text'), on ? 'Acting' : 'Read-only');
});
setActing(false);

// --- keys ---

const GO = {
    1: '#/jobs?status=in_flight', 2: '#/jobs?status=ready', 3: '#/jobs?status=scheduled', 4: '#/jobs?status=dead',
    5: '#/now', 6: '#/jobs?status=blocked', 7: '#/jobs?status=completed',
    F: '#/failures', P: '#/policies', C: '#/crons', D: '#/flow', W: '#/workers', O: '#/operations', E: '#/events', A: '#/audit',
};
const viewOf = (hash) => /\w+/.exec(hash)[0];

// [key, what it does, whether it is there]
const KEYS = [
    ['1 – 7', 'in flight, ready, scheduled, dead, queues, blocked, done'],
    ...Object.keys(GO).filter((key) => key > '9').map((key) => [key, viewOf(GO[key]), () => may(NEEDS[viewOf(GO[key])])]),
    ['↑ ↓ or k j', 'move in the list'],
    ['g · G', 'the first, the last of it'],
    ['← → or h l', 'the view before, the next one'],
    ['n · p', 'the next page, the one before'],
    ['Enter', 'open'],
    ['/', 'search'],
    ['a', 'switch between looking and acting', mayAct],
    ['r · c · d · s', 'retry, cancel, delete, pause or resume: while acting', mayAct],
    ['x · u', 'stop or undo an operation, stop a retry with canaries: while acting', () => may('stopOperation')],
    ['Esc', 'leave the field, then the dialog; close what was opened'],
    ['?', 'these keys'],
];

function showKeys() {
    show('Keys', (close) => [h('dl', { class: 'keys' }, KEYS.filter(([,, isThere]) => isThere?.() ?? true).map(([key, text]) =>
        h('div', null, h('dt', null, h('kbd', null, key)), h('dd', null, text)))),
    h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary', autofocus: true,
        onclick: () => close() }, 'Close'))]);
}

function move(step) {
    const rows = [...main.querySelectorAll('[data-row]')].filter((row) => row.offsetParent !== null)
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
    const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
    next?.focus();
    next?.scrollIntoView({ block: 'nearest' });
}

function turn(step) {
    const all = offered(), at = all.findIndex(([id]) => id === (PARENT[route().name] ?? route().name));
    if (all.length)
        location.hash = `#/${all[(at + step + all.length) % all.length][0]}`;
}

const END = 1e6;
const scrolls = (element) => element?.closest?.('[role="region"], pre, [role="slider"]'); // sideways, by these keys
const MOTIONS = {
    ArrowDown: () => move(1), j: () => move(1), ArrowUp: () => move(-1), k: () => move(-1), g: () => move(-END), G: () => move(END),
    ArrowLeft: () => turn(-1), h: () => turn(-1), ArrowRight: () => turn(1), l: () => turn(1),
    n: () => main.querySelector('[data-page="n"]')?.click(), p: () => main.querySelector('[data-page="p"]')?.click(),
    a: toggle, '?': showKeys, '/': () => main.querySelector('[data-search]')?.focus(),
    Escape: () => { if (PARENT[route().name] || route().parts.length) history.back(); },
};

function onKey(event) {
    const field = event.target.closest?.('input, textarea, select');
    if (event.ctrlKey || event.metaKey || event.altKey)
        return;
    if (field) {
        if (event.key === 'Escape')
            field.blur();
        return;
    }
    if (document.getElementById('dialog').open)
        return;
    const wanted = `button.action[data-key="${CSS.escape(event.key)}"]`;
    const action = isActing() && (event.target.closest?.('tr')?.querySelector(wanted) ?? main.querySelector(`.heading ${wanted}`));
    if (action)
        action.click();
    else if (GO[event.key] && may(NEEDS[viewOf(GO[event.key])]))
        location.hash = GO[event.key];
    else if (Object.hasOwn(MOTIONS, event.key) && !(/^Arrow[LR]/.test(event.key) && scrolls(event.target)))
        MOTIONS[event.key]();
    else
        return;
    event.preventDefault();
}
addEventListener('keydown', onKey);
document.getElementById('help').addEventListener('click', showKeys);
document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the hash says which view is shown
    main.focus();
});

addEventListener('hashchange', () => draw(true));
draw(false);
watchHealth();
