// SPDX-License-Identifier: Apache-2.0
'use strict';

// Debian's chromium without a window, driven by its DevTools protocol: pages, keys, screenshots.
// TENAX_CHROMIUM names another binary; PAGE=src/console/page takes the scripts and styles from there
// instead of the server's binary, to try a change without building. What a page complains of (exceptions, console errors,
// violations of its Content-Security-Policy, requests to elsewhere) is gathered in page.complaints.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const WebSocket = require('ws');
const { until } = require('../http/harness');

const CHROMIUM = process.env.TENAX_CHROMIUM || 'chromium';
const { PAGE } = process.env;
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

class Connection {
    constructor(socket) {
        this.socket = socket;
        this.calls = new Map();
        this.sessions = new Map();
        this.next = 1;
        socket.on('message', (bytes) => this.hear(JSON.parse(bytes)));
        socket.on('close', () => {
            for (const { reject } of this.calls.values())
                reject(new Error('the browser has gone'));
        });
    }

    hear(message) {
        const call = this.calls.get(message.id);
        if (call) {
            this.calls.delete(message.id);
            if (message.error)
                call.reject(new Error(`${call.method}: ${message.error.message}`));
            else
                call.resolve(message.result);
        } else if (message.method) {
            this.sessions.get(message.sessionId)?.(message.method, message.params);
        }
    }

    send(method, params = {}, sessionId = undefined) {
        const id = this.next++;
        return new Promise((resolve, reject) => {
            this.calls.set(id, { resolve, reject, method });
            this.socket.send(JSON.stringify({ id, method, params, sessionId }));
        });
    }
}

async function launch() {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-chromium-'));
    const child = spawn(CHROMIUM, ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
        '--disable-dev-shm-usage', '--no-first-run', '--disable-extensions', '--disable-background-networking',
        '--force-device-scale-factor=1', '--font-render-hinting=none', '--remote-debugging-port=0',
        `--user-data-dir=${dir}`, 'about:blank'], { stdio: 'ignore' });
    const gone = new Promise((resolve) => { child.on('close', resolve); });
    child.on('error', () => {});
    const file = path.join(dir, 'DevToolsActivePort');
    const [port, target] = await until(() => fs.existsSync(file) &&
        /^(\d+)\n(\S+)/.exec(fs.readFileSync(file, 'utf8'))?.slice(1), `${CHROMIUM} listens`);
    const socket = new WebSocket(`ws://127.0.0.1:${port}${target}`, { perMessageDeflate: false });
    await new Promise((resolve, reject) => {
        socket.on('open', resolve);
        socket.on('error', reject);
    });
    const connection = new Connection(socket);
    return {
        connection,
        page: (origin, options) => openPage(connection, origin, options),
        async close() {
            child.kill('SIGKILL');
            await gone;
            // Its other processes may write there for a moment yet.
            await until(() => {
                try {
                    fs.rmSync(dir, { recursive: true, force: true });
                    return true;
                } catch (err) {
                    if (err.code !== 'ENOTEMPTY' && err.code !== 'EBUSY')
                        throw err;
                    return false;
                }
            }, `${dir} is gone`);
        },
    };
}

async function openPage(connection, origin, { width = 1280, height = 800, dark = false, token = null } = {}) {
    const { browserContextId } = await connection.send('Target.createBrowserContext');
    const { targetId } = await connection.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await connection.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(connection, sessionId, browserContextId, origin);
    connection.sessions.set(sessionId, (method, params) => page.hear(method, params));
    for (const domain of ['Page', 'Runtime', 'Log', 'Network'])
        await page.send(`${domain}.enable`);
    if (PAGE)
        await page.send('Fetch.enable', { patterns: [{ urlPattern: '*/console/*', requestStage: 'Request' }] });
    await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await page.send('Emulation.setEmulatedMedia', { features: [
        { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    if (token)
        await page.send('Page.addScriptToEvaluateOnNewDocument', { source: `sessionStorage.setItem('tenax-token', '${token}')` });
    // Written into the page by the protocol, which no policy of the page forbids.
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source:
        'addEventListener("securitypolicyviolation", (e) => console.error("CSP " + e.violatedDirective + " " + e.blockedURI));' });
    return page;
}

class Page {
    constructor(connection, sessionId, context, origin) {
        Object.assign(this, { connection, sessionId, context, origin, complaints: [], tolerated: [] });
    }

    send(method, params) {
        return this.connection.send(method, params, this.sessionId);
    }

    hear(method, params) {
        const complain = (text) => {
            if (!this.tolerated.some((pattern) => pattern.test(text)))
                this.complaints.push(text);
        };
        if (method === 'Fetch.requestPaused')
            this.fulfill(params);
        else if (method === 'Runtime.exceptionThrown')
            complain(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
        else if (method === 'Runtime.consoleAPICalled' && (params.type === 'error' || params.type === 'warning'))
            complain(params.args.map((arg) => arg.value ?? arg.description).join(' '));
        else if (method === 'Log.entryAdded' && params.entry.level === 'error')
            complain(`${params.entry.text} ${params.entry.url ?? ''}`);
        else if (method === 'Network.requestWillBeSent' && !params.request.url.startsWith(this.origin) &&
            !/^(data|about|blob):/.test(params.request.url))
            complain(`a request to ${params.request.url}`);
    }

    // Answers with the file of PAGE.
    fulfill({ requestId, request }) {
        const name = path.basename(new URL(request.url).pathname);
        this.send('Fetch.fulfillRequest', { requestId, responseCode: 200, body: fs.readFileSync(path.join(PAGE, name)).toString('base64'),
            responseHeaders: [{ name: 'Content-Type', value: TYPES[path.extname(name)] }] }).catch(() => {});
    }

    async eval(source) {
        const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
            expression: source, awaitPromise: true, returnByValue: true });
        if (exceptionDetails)
            throw new Error(`${source}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
        return result.value;
    }

    // Calls a function of the page: run((a, b) => …, 1, 2).
    run(fn, ...args) {
        return this.eval(`(${fn})(${args.map((arg) => JSON.stringify(arg)).join(',')})`);
    }

    until(source, what = source) {
        return until(() => this.eval(source).catch(() => false), what);
    }

    // Opens a view ("#/jobs") and waits until it is there.
    async open(hash) {
        const url = `${this.origin}/console${hash}`;
        const here = await this.eval('location.href');
        if (here.startsWith(`${this.origin}/console`))
            await this.run((to) => { document.getElementById('main').setAttribute('aria-busy', 'true');
                document.getElementById('main').replaceChildren();
                if (location.hash === to) dispatchEvent(new Event('hashchange')); else location.hash = to; }, hash);
        else
            await this.send('Page.navigate', { url });
        await this.shown();
    }

    shown() {
        return this.until('document.getElementById("main")?.getAttribute("aria-busy") === "false" && document.getElementById("main").dataset.shown === location.hash && !!document.querySelector("#main h1")',
            'the view is there');
    }

    async click(selector) {
        await this.until(`!!document.querySelector(${JSON.stringify(selector)})`, `${selector} is there`);
        await this.run((s) => document.querySelector(s).click(), selector);
    }

    // Clicks the button or link with this text.
    async press(text) {
        const find = `[...document.querySelectorAll('dialog[open] button, main button, main a, header button')].filter((e) =>
            e.offsetParent !== null && e.textContent.trim() === ${JSON.stringify(text)})[0]`;
        await this.until(`!!(${find})`, `there is “${text}”`);
        await this.eval(`(${find}).click()`);
    }

    async key(key) {
        for (const type of ['keyDown', 'keyUp'])
            await this.send('Input.dispatchKeyEvent', { type, key, text: type === 'keyDown' && key.length === 1 ? key : undefined });
    }

    text(selector = 'main') {
        return this.run((s) => document.querySelector(s)?.innerText ?? '', selector);
    }

    async screenshot(file) {
        const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, Buffer.from(data, 'base64'));
    }

    // What axe finds that is serious or critical.
    async accessibility() {
        await this.eval(`if (!window.axe) { ${AXE} } undefined`);
        return this.run(async () => {
            const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
            return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
                .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((n) => `${n.target.join(' ')} ${n.any[0]?.message ?? ''}`).join('; ')}`);
        });
    }

    assertClean(where) {
        assert.deepEqual(this.complaints, [], where);
    }

    // Requests under way are not complaints any more.
    async close() {
        if (!this.connection.sessions.delete(this.sessionId))
            return;
        await this.connection.send('Target.disposeBrowserContext', { browserContextId: this.context });
    }
}

module.exports = { launch };
