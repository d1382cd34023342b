// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every view by every role, with a token for all queues, with one limited to some, and where nobody
// needs one, beside a busy worker: what may be seen is offered and opens without a refused request,
// and each button does what is allowed. Then over a restart of the server.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { Server, begin, ownAddress, until } = require('../http/harness');
const { RIGHTS, bearer, create } = require('../http/access');
const { find } = require('../http/openapi');
const { may } = require('../http/rights');
const { launch } = require('./browser');
const { enqueue, fail, ok, play } = require('./scene');

const OWN = ['mail*', 'import'];
const EVERYBODY = { roles: ['admin'] };
const SENDERS = { everybody: EVERYBODY,
    ...Object.fromEntries(Object.keys(RIGHTS).map((role) => [role, { roles: [role] }])),
    ...Object.fromEntries(Object.keys(RIGHTS).filter((role) => role !== 'admin').map((role) =>
        [`${role} of ${OWN}`, { roles: [role], queues: OWN }])) };

// What a view has to ask for; `hash` of one in a queue that limited tokens see.
const VIEWS = [['#/now', 'listQueues', 'Now'], ['#/queue/import', 'getQueue'], ['#/jobs', 'listJobs', 'Jobs'], ['#/jobs?status=dead', 'listJobs'],
    ['#/job/DEAD', 'getJob'], ['#/job/TAKEN', 'getJob'], ['#/failures', 'listFailureGroups', 'Failures'],
    ['#/failures/GROUP', 'getFailureGroup'], ['#/policies', 'getRetrySettings', 'Policies'], ['#/policies/infra', 'getRetryPolicy'],
    ['#/crons', 'listCronGroups', 'Crons'], ['#/flow', 'listJobs', 'Flow'], ['#/flow/TAKEN', 'getJob'], ['#/workers', 'listWorkers', 'Workers'],
    ['#/operations', 'listOperations', 'Operations'], ['#/operations/1', 'getOperation'], ['#/canaries', 'listCanaryRetries'],
    ['#/canaries/CANARIES', 'getCanaryRetry'], ['#/events?since=0', 'streamEvents', 'Events'], ['#/audit', 'getAudit', 'Audit']];
// The kill switch is shown to whoever may not see the policies themselves.
const SHOWN_IN_PART = ['#/policies/infra'];
// What somebody without limits has asked for.
const OF_ALL = '#/operations/1';

// Presses each button of the view that acts, and returns what they would send: [[label, method, path]].
// Runs in the page.
async function pressAll() {
    const dialog = document.getElementById('dialog');
    const buttons = () => [...document.querySelectorAll('main button.action')].filter((b) => b.offsetParent !== null);
    const wait = async (true_, what) => {
        for (const end = performance.now() + 60000; !true_();) {
            if (performance.now() > end)
                throw new Error(`never came true: ${what}: ${dialog.innerText}`);
            await new Promise((resolve) => { setTimeout(resolve, 5); });
        }
    };
    const all = [];
    for (let i = 0; i < buttons().length; i++) {
        const label = buttons()[i].textContent;
        buttons()[i].click();
        await wait(() => dialog.open, label);
        dialog.querySelector('form [type=submit]')?.click();
        await wait(() => dialog.querySelector('pre code') || document.querySelector('main [role=alert]')?.textContent, label);
        const words = dialog.querySelector('pre code')?.textContent ?? '';
        const [, method] = / -X (\w+)/.exec(words) ?? [null, 'GET'];
        all.push([label, method, new URL(/'(http[^']*)'$/.exec(words)[1]).pathname, /TENAX_TOKEN/.test(words)]);
        [...dialog.querySelectorAll('button')].find((b) => b.textContent === 'Not now').click();
        await wait(() => !dialog.open, label);
    }
    return all;
}

// However many rows have them.
const labelsOf = (acts) => [...new Set(acts.map(([label]) => label))].sort();

describe('every view', () => {
    const server = new Server({ args: ['--host', ownAddress()] });
    const tokens = {}, scene = {}, pressed = {};
    let browser, worker;

    const asAdmin = () => Object.fromEntries(['get', 'post', 'put', 'patch', 'delete'].map((method) => [method, (target, body) =>
        server.request(method.toUpperCase(), target, body, tokens.admin ? bearer(tokens.admin) : {})]));
    const hashOf = (hash) => hash.replace(/[A-Z]{4,}$/, (name) => scene[name]);
    const open = (who) => browser.page(server.url(), { token: tokens[who] });

    before(async () => {
        [browser] = await Promise.all([launch(), server.start()]);
        const made = await play(server);
        const { jobs: [taken] } = (await server.get('/jobs?queue=mail&status=in_flight&limit=1')).json;
        Object.assign(scene, { DEAD: made.dead, TAKEN: taken.id, GROUP: made.group, CANARIES: made.canaries });
    });
    after(async () => {
        worker?.child.kill('SIGKILL');
        await worker?.ended;
        await browser?.close();
        await server.clean();
    });

    async function makeTokens() {
        for (const [who, spec] of Object.entries(SENDERS).sort(([a]) => (a === 'admin' ? -1 : 1)))
            if (who !== 'everybody')
                tokens[who] = await create(server, spec, tokens.admin ? bearer(tokens.admin) : {});
        worker = begin(['work', '--queue', 'mail-busy', '--name', 'busy-1', '--', 'sleep', '600'],
            { TENAX_URL: server.url(), TENAX_TOKEN: tokens.worker });
        // Limited operators see the operations that they could have asked for, and of those there is one.
        const own = bearer(tokens[`operator of ${OWN}`]);
        assert.equal((await server.request('POST', '/jobs/cancel?queue=mail&type=none&undo=1h', undefined, own)).status, 200);
        const { id } = await enqueue(asAdmin(), { queue: 'mail-busy' });
        await until(async () => (await asAdmin().get(`/jobs/${id}`)).json.status === 'in_flight', 'the worker is busy');
    }

    async function checkView(page, who, [hash, needs]) {
        const what = `${hash} as ${who}`;
        const unknown = SENDERS[who].queues && hash === OF_ALL;
        if (unknown)
            page.tolerated.push(/status of 404 .*operations\/1$/);
        await page.open(hashOf(hash));
        const text = await page.text();
        if (!may(SENDERS[who], needs) && !SHOWN_IN_PART.includes(hash)) {
            assert.match(text, /This cannot be shown\n+these credentials (lack the right '\w+'|are limited to some queues)/, what);
            return;
        }
        if (unknown) {
            assert.match(text, /there is no such operation/, what);
            return;
        }
        assert.doesNotMatch(text, /cannot be shown/, what);
        const acts = await page.run(pressAll);
        for (const [label, method, target, withToken] of acts) {
            const { operationId } = find(method, target).operation;
            assert.ok(may(SENDERS[who], operationId), `${label} (${operationId}) in ${what}`);
            assert.equal(withToken, who !== 'everybody', what);
        }
        // And nothing is missing of what everybody is offered.
        pressed[hash] ??= acts;
        const wanted = pressed[hash].filter(([label, method, target]) => may(SENDERS[who], find(method, target).operation.operationId)
            && !(SENDERS[who].queues && label === 'Retry with canaries'));
        assert.deepEqual(labelsOf(acts), labelsOf(wanted), what);
    }

    for (const who of Object.keys(SENDERS))
        it(`is_offered_as_far_as_its_reader_may: ${who}`, async () => {
            if (who !== 'everybody' && !tokens.admin)
                await makeTokens();
            const page = await open(who);
            await page.open('#/now');
            const { roles, queues } = SENDERS[who];
            assert.deepEqual(await page.eval(`[...document.querySelectorAll('#nav a')].map((a) => a.textContent)`),
                VIEWS.filter(([, needs, name]) => name && may(SENDERS[who], needs)).map(([,, name]) => name), who);
            const acts = roles.some((role) => ['operator', 'admin'].includes(role)) || (who === 'producer'); // which may run crons
            assert.equal(await page.eval(`document.getElementById('mode').hidden`), !acts, who);
            await page.key('a');
            assert.equal(await page.eval('document.documentElement.dataset.acting'), acts ? 'yes' : 'no', who);
            await page.until(`/busy/.test(document.getElementById('main').innerText)`, 'workers are busy');
            const now = await page.text();
            assert.equal(/thumbnails/.test(now), !queues, now);
            assert.equal(/You see the queues mail\*, import.*Rates are not shown: these credentials are limited/.test(now), !!queues, now);
            for (const view of VIEWS)
                await checkView(page, who, view);
            page.assertClean(who);
            await page.close();
        });

    it('offers_keys_for_what_may_be_seen_alone', async () => {
        const page = await open('viewer');
        await page.open('#/now');
        await page.key('?');
        await page.until('document.getElementById("dialog").open');
        assert.doesNotMatch(await page.text('dialog'), /operations|audit|acting/);
        await page.press('Close');
        for (const key of ['A', 'O'])
            await page.key(key);
        assert.equal(await page.eval('location.hash'), '#/now');
        await page.key('h'); // the view before the first is the last that is offered
        await page.until('location.hash === "#/events"');
        page.assertClean('viewer');
        await page.close();
    });

    it('says_in_the_words_of_the_server_what_only_it_can_know', async () => {
        const page = await open(`operator of ${OWN}`);
        page.tolerated.push(/status of 403/);
        await page.open(hashOf('#/job/TAKEN'));
        await page.key('a');
        await page.press('Patch');
        await page.run(() => { document.getElementById('patch').value = '{"queue": "payroll"}'; });
        await page.press('Show the request');
        await page.click('dialog [data-confirm]');
        await page.until(`/limited to other queues than 'payroll' \\(403\\)/.test(document.getElementById('dialog').innerText)`);
        await page.press('Not now');
        page.assertClean('operator');
        // Its own operations it may undo.
        await page.open('#/jobs?queue=mail&status=scheduled');
        const before = (await asAdmin().get('/jobs/count?queue=mail')).json.count;
        await page.press('Delete all');
        await page.until(`/can be undone for an hour/.test(document.getElementById('dialog').innerText)`);
        await page.click('dialog [data-confirm]');
        await page.until('/^#\\/operations\\/[0-9]+$/.test(location.hash)');
        await page.press('Undo');
        await page.click('dialog [data-confirm]');
        await until(async () => (await asAdmin().get('/jobs/count?queue=mail')).json.count === before, 'they are back');
        await page.close();
    });

    it('comes_back_by_itself_after_the_server_has', async () => {
        const pages = await Promise.all(VIEWS.filter(([,, name]) => name).map(async ([hash]) => {
            const page = await open('admin');
            page.tolerated.push(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
            await page.open(hash);
            return [hash, page];
        }));
        const { port } = server;
        await server.signal('SIGKILL');
        const [, away] = pages.find(([hash]) => hash === '#/jobs'); // shows another view, which is not there yet
        await away.run(() => { location.hash = '#/jobs?queue=fresh'; });
        await away.until(`/The server does not answer/.test(document.getElementById('main').innerText)`, 'it says that the server is away');
        await server.start({ args: ['--host', ownAddress(), '--port', String(port)] });
        const admin = asAdmin();
        await ok(admin.put('/retry-policies/fresh', { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'fresh' },
            spec: { retryLimit: 3, rules: [{ action: 'Retry', onConditions: ['Evicted'] }] } }));
        await ok(admin.put('/crons/fresh', { entries: [{ name: 'f', expression: '0 3 * * *', job: { queue: 'q', type: 't', payload: {} } }] }));
        await ok(admin.post('/jobs/cancel?queue=fresh-none&undo=1h'));
        await enqueue(admin, { queue: 'fresh', type: 'fresh-type', retry_limit: 0 });
        await fail(admin, 'fresh', { message: 'fresh words' });
        const { id } = await enqueue(admin, { queue: 'fresh', type: 'fresh-type' });
        await enqueue(admin, { queue: 'fresh', type: 'fresh-type', depends_on: [id] });
        await ok(admin.post('/jobs/claim', { queues: ['fresh'], worker: 'fresh-1', count: 1 }));
        for (const [hash, page] of pages) {
            await page.until(`/fresh/.test(document.getElementById('main').innerText)`, `${hash} shows what is new`);
            page.assertClean(hash);
            await page.close();
        }
        // The worker has gone on, too.
        await until(async () => (await admin.get('/workers/busy-1')).json.in_flight === 1, 'the worker is there');
    });
});
