// SPDX-License-Identifier: Apache-2.0
'use strict';

// The web console in a real browser: every page opens without a complaint, can be used by everybody,
// is laid out as it should be, and does what its buttons say. With SHOTS=folder it leaves
// screenshots there; with GOLDEN=write it writes the boxes that tests/console/layout.json has.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, run, until } = require('../http/harness');
const { guarded } = require('../http/access');
const { launch } = require('./browser');
const { enqueue, fail, ok, play } = require('./scene');

const LAYOUT = path.join(__dirname, 'layout.json');
const MODES = {
    desk: { width: 1280, height: 800 },
    phone: { width: 390, height: 844 },
    dark: { width: 1280, height: 800, dark: true },
};
const LANDMARKS = ['header', '#nav', '#mode', 'main', 'main h1'];

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

// Waits until the text there matches; says what it was otherwise.
async function untilText(page, pattern, selector = 'main') {
    let text = '';
    await until(async () => pattern.test(text = await page.text(selector)), () => `${selector} shows ${pattern}: ${text}`);
}

// A page that must have complained of nothing when the test ends.
async function visit(t, server, options) {
    const page = await browser.page(server.url(), options);
    t.after(async () => {
        await page.close();
        page.assertClean(t.name);
    });
    return page;
}

function useScene(options) {
    const server = new Server(options);
    const scene = { server };
    before(async () => {
        await server.start();
        Object.assign(scene, await play(server));
        scene.views = { now: '#/now', queue: '#/queue/mail', jobs: '#/jobs', job: `#/job/${scene.retried}`,
            policies: '#/policies/infra', crons: '#/crons', flow: `#/flow/${scene.blocked}`, events: '#/events?since=0', failures: '#/failures', workers: '#/workers',
            failure: `#/failures/${scene.group}`, audit: '#/audit', operations: '#/operations', operation: '#/operations/1',
            canaries: '#/canaries', canary: `#/canaries/${scene.canaries}` };
    });
    after(() => server.clean());
    return scene;
}

// Boxes of what is named, rounded to 8 pixels; of the height only of what does not grow with data.
function boxes(page) {
    return page.run((selectors) => Object.fromEntries(selectors.map((selector) => {
        const box = document.querySelector(selector)?.getBoundingClientRect();
        const round = (n) => Math.round(n / 8) * 8;
        return [selector, box ? [round(box.x), round(box.y), selector === 'main h1' ? null : round(box.width)] : null];
    })), LANDMARKS);
}

function near(a, b) {
    return a === b || (a !== null && b !== null && Math.abs(a - b) <= 16);
}

describe('every view', () => {
    const scene = useScene();
    const golden = fs.existsSync(LAYOUT) ? JSON.parse(fs.readFileSync(LAYOUT)) : {};
    const seen = {};

    for (const [mode, options] of Object.entries(MODES)) {
        it(`opens_is_laid_out_well_and_is_for_everybody_${mode}`, async (t) => {
            const page = await visit(t, scene.server, options);
            for (const [name, hash] of Object.entries(scene.views)) {
                await page.open(hash);
                if (process.env.SHOTS)
                    await page.screenshot(path.join(process.env.SHOTS, `${name}-${mode}.png`));
                const widths = await page.run(() => [document.documentElement, document.getElementById('main')]
                    .map((e) => [e.scrollWidth, e.clientWidth]));
                for (const [content, room] of widths)
                    assert.ok(content <= room && room <= options.width, `${name} ${mode}: ${content} in ${room}`);
                assert.deepEqual(await page.accessibility(), [], `${name} ${mode}`);
                page.assertClean(`${name} ${mode}`);
                const at = (seen[`${name} ${mode}`] = await boxes(page));
                if (process.env.GOLDEN === 'write')
                    continue;
                for (const [selector, box] of Object.entries(at))
                    assert.ok(box && box.every((n, i) => near(n, golden[`${name} ${mode}`][selector][i])),
                        `${name} ${mode} ${selector}: ${box}, not ${golden[`${name} ${mode}`][selector]}`);
            }
            if (process.env.GOLDEN === 'write')
                fs.writeFileSync(LAYOUT, `${JSON.stringify(seen, null, 1)}\n`);
        });
    }

    it('says_what_there_is_to_see', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        const words = {
            now: [/10 wait for concurrency_key=acme/, /paused/, /2 at once/],
            queue: [/10 wait for concurrency_key=acme/, /1 per key/],
            jobs: [/import/, /no retries left|dead|retry/],
            job: [/run 0/i, /connection to 10\.0\.0\.7 refused/, /exit 137/, /waits: no worker/],
            policies: [/kill switch/i, /infra/],
            crons: [/cleanup/, /\*\/15 \* \* \* \*/, /never/],
            flow: [/blocked/],
            events: [/enqueued/, /requeued/],
            failures: [/connection to <n>\.<n>\.<n>\.<n> refused|connection to .* refused/, /ConnectError/, /exit 137/, /new/],
            failure: [/by hour, the last week/, /no retries/, /decided by the limit of the job, its queue or the server: 0 of 0 retries/],
            workers: [/mailer-1/, /working/, /mail/],
            audit: [/putRetryPolicy/, /anonymous/],
            operations: [/cancel/, /done/, /anonymous/, /\/jobs\/cancel\?queue=gone/, /can be undone until/],
            canaries: [/Retry with canaries 1/, /0 of 1 succeeded/],
            canary: [/waits for canaries/, /queue=trial/, /anonymous/],
            operation: [/changed\s+3/, /can be undone/, /those of its filters/],
        };
        for (const [name, patterns] of Object.entries(words)) {
            await page.open(scene.views[name]);
            for (const pattern of patterns)
                await untilText(page, pattern);
        }
        await page.open(scene.views.flow);
        assert.equal(await page.eval('document.querySelectorAll(".graph a").length'), 4);
    });
});

describe('acting', () => {
    const scene = useScene({ args: ['--jq-request-limit', '10m'] });

    it('is_not_possible_before_one_has_switched_to_it', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open(`#/job/${scene.dead}`);
        const visible = () => page.eval('[...document.querySelectorAll("button.action")].filter((b) => b.offsetParent).length');
        assert.equal(await visible(), 0);
        await page.key('r');
        assert.equal(await page.eval('document.getElementById("dialog").open'), false);
        await page.key('a');
        assert.ok(await visible() > 0);
        assert.equal(await page.eval('document.getElementById("mode").getAttribute("aria-pressed")'), 'true');
    });

    it('shows_the_command_and_does_the_same', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open(`#/job/${scene.dead}`);
        await page.click('#mode');
        await page.press('Retry');
        const command = await page.text('dialog pre');
        assert.equal(command, `curl -X POST '${scene.server.url()}/jobs/${scene.dead}/retry'`);
        assert.deepEqual(await page.accessibility(), []);
        await page.click('dialog [data-confirm]');
        await until(async () => (await scene.server.get(`/jobs/${scene.dead}`)).json.status === 'ready', 'it is ready again');
        await untilText(page, /ready/, 'main h1 + .badge');
    });

    it('runs_cancels_patches_and_deletes_a_job', async (t) => {
        const { server } = scene;
        const { id } = await enqueue(server, { queue: 'x', ready_at: Date.now() + 3600000 });
        const status = async () => (await server.get(`/jobs/${id}`)).json.status;
        const page = await visit(t, server, MODES.desk);
        await page.open(`#/job/${id}`);
        await page.click('#mode');
        await page.press('Run now');
        await page.click('dialog [data-confirm]');
        await until(async () => await status() === 'ready', 'it is ready');
        await page.until('[...document.querySelectorAll("main h1 + .badge")].some((b) => b.textContent === "ready")');
        await page.press('Patch');
        await page.run(() => { document.getElementById('patch').value = '{"priority": 7}'; });
        await page.press('Show the request');
        await page.click('dialog [data-confirm]');
        await until(async () => (await server.get(`/jobs/${id}`)).json.priority === 7, 'its priority is 7');
        await page.until('!document.getElementById("dialog").open');
        await page.press('Cancel');
        await page.click('dialog [data-confirm]');
        await until(async () => await status() === 'dead', 'it is dead');
        await page.until('[...document.querySelectorAll("main h1 + .badge")].some((b) => b.textContent === "dead")');
        await page.press('Delete');
        await page.click('dialog [data-confirm]');
        await until(async () => (await server.get(`/jobs/${id}`)).status === 404, 'it is gone');
    });

    it('pauses_a_queue_and_retries_its_dead_jobs', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/queue/reports');
        await page.click('#mode');
        await page.press('Pause the queue');
        await page.click('dialog [data-confirm]');
        await until(async () => (await scene.server.get('/queues/reports')).json.paused, 'it is paused');
        await page.press('Resume the queue');
        await page.press('Not now');
        assert.equal((await scene.server.get('/queues/reports')).json.paused, true);
    });

    it('counts_the_jobs_of_a_bulk_action_first', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/jobs?queue=thumbnails');
        await page.click('#mode');
        await page.press('Cancel all');
        await untilText(page, /4 jobs would be canceled/, 'dialog');
        assert.match(await page.text('dialog pre'), /curl -X POST '.*\/jobs\/cancel\?queue=thumbnails&undo=1h'/);
        await page.click('dialog [data-confirm]');
        const dead = async () => (await scene.server.get('/jobs/count?queue=thumbnails&status=dead')).json.count;
        await until(async () => await dead() === 4, 'they are');
        // Its operation is shown, and takes it back.
        await page.until('/^#\\/operations\\/[0-9]+$/.test(location.hash)', 'its operation is shown');
        await untilText(page, /changed\s+4/);
        await untilText(page, /can be undone/);
        await page.press('Undo');
        await page.click('dialog [data-confirm]');
        await until(async () => await dead() === 0, 'they wait again');
        await untilText(page, /undone\s+4/);
        await page.open('#/operations');
        await untilText(page, /undoes/);
    });

    it('acts_without_undo_on_a_server_that_keeps_nothing_for_it', async (t) => {
        const server = new Server({ args: ['--undo-max', '0'] });
        t.after(() => server.clean());
        await server.start();
        const { id } = await enqueue(server, { queue: 'q' });
        const page = await visit(t, server, MODES.desk);
        page.tolerated.push(/status of 422/);
        await page.open('#/jobs?queue=q');
        await page.click('#mode');
        await page.press('Cancel all');
        await page.click('dialog [data-confirm]');
        await untilText(page, /nothing can be undone here.*all the same/, 'dialog');
        assert.match(await page.text('dialog pre'), /cancel\?queue=q'$/);
        assert.equal((await server.get(`/jobs/${id}`)).json.status, 'ready');
        await page.click('dialog [data-confirm]');
        await until(async () => (await server.get(`/jobs/${id}`)).json.status === 'dead', 'it is canceled');
        await page.close();
    });

    it('stops_an_operation_while_it_goes_on', async (t) => {
        const { server } = scene;
        for (let i = 0; i < 20; i++)
            await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: 1000 }, (_, n) => ({ queue: 'long', type: 't', payload: n })) }));
        const page = await visit(t, server, MODES.desk);
        await page.open('#/operations');
        await page.click('#mode');
        // An expression about payloads takes a while.
        const change = server.delete('/jobs?queue=long&filter=%5Brange%281000%29%5D%7Cadd%20%3E%200');
        await page.press('Stop');
        await page.click('dialog [data-confirm]');
        const res = await change;
        assert.equal(res.json.stopped, true, res.text);
        await untilText(page, /stopped/);
        assert.ok((await server.get('/jobs/count?queue=long')).json.count > 0);
    });

    it('makes_a_worker_quiet_and_stops_it', async (t) => {
        const { server } = scene;
        const worker = async () => (await server.get('/workers/mailer-1')).json;
        const page = await visit(t, server, MODES.desk);
        await page.open('#/workers');
        await page.click('#mode');
        const press = async (label) => {
            const find = `[...document.querySelectorAll("main tr")].find((r) => /mailer-1/.test(r.textContent))
                ?.querySelectorAll("button")`;
            await page.until(`[...(${find} ?? [])].some((b) => b.textContent === ${JSON.stringify(label)})`);
            await page.eval(`[...${find}].find((b) => b.textContent === ${JSON.stringify(label)}).click()`);
            await page.click('dialog [data-confirm]');
        };
        await press('Quiet');
        await until(async () => (await worker()).quiet, 'it is quiet');
        await press('Resume');
        await until(async () => !(await worker()).quiet, 'it is not');
        await press('Stop');
        await until(async () => (await worker()).in_flight === 0, 'its jobs have gone back');
    });

    it('enqueues_the_job_of_a_cron', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/crons');
        await page.click('#mode');
        await page.press('Run now');
        await page.click('dialog [data-confirm]');
        await until(async () => (await scene.server.get('/jobs/count?type=cleanup')).json.count === 1, 'it is there');
    });

    it('tries_a_policy_points_at_its_faults_and_applies_it', async (t) => {
        const { server } = scene;
        const page = await visit(t, server, MODES.desk);
        page.tolerated.push(/status of 4\d\d/); // refusals are what this is about
        await page.open('#/policies/infra');
        await page.click('#mode');
        await page.press('Simulate');
        await untilText(page, /failures of \d+ jobs?/, '.simulation');
        const set = (from, to) => page.run((a, b) => {
            const text = document.getElementById('policy');
            text.value = text.value.replace(a, b);
        }, from, to);
        await set('"Retry"', '"Rety"');
        await page.press('Apply');
        await page.click('dialog [data-confirm]');
        await untilText(page, /line \d+, column \d+: .*action/, 'main .error:not(.off)');
        await page.until('document.activeElement.id === "policy"', 'the fault is selected');
        assert.match(await page.eval('document.getSelection().toString()'), /^"Rety"/);
        await set('"Rety"', '"Retry"');
        await set('"retryLimit": 3', '"retryLimit": 4');
        await page.press('Apply');
        await page.click('dialog [data-confirm]');
        await until(async () => (await server.get('/retry-policies/infra')).json.spec.retryLimit === 4, 'it is applied');
    });

    // The group of so many dead jobs of a queue that failed alike.
    async function deadGroup(queue, count) {
        const { server } = scene;
        for (let i = 0; i < count; i++) {
            await enqueue(server, { queue, retry_limit: 0, retention: { completed_ms: 600000 } });
            await fail(server, queue, { message: `no answer after ${i} s` });
        }
        return (await server.get(`/failure-groups?queue=${queue}`)).json.failure_groups[0].group;
    }

    const deadOf = async (queue) => (await scene.server.get(`/jobs/count?queue=${queue}&status=dead`)).json.count;

    // Begins a retry with canaries on the page of a group; resolves with its number.
    async function beginCanaries(page, group, canaries) {
        await page.open(`#/failures/${group}`);
        await page.press('Retry with canaries');
        assert.deepEqual(await page.run(() => ['canary', 'rate'].map((id) => document.getElementById(id).value)), ['1', '10']);
        assert.deepEqual(await page.accessibility(), []);
        await page.run((n) => {
            document.getElementById('canary').value = n;
            document.getElementById('rate').value = 25;
        }, canaries);
        await page.press('Show the request');
        await untilText(page, new RegExp(`${canaries} of 4 dead jobs.*25 a second`), 'dialog');
        assert.equal(await page.text('dialog pre'),
            `curl -X POST '${scene.server.url()}/jobs/retry?failure_group=${group}&canary=${canaries}&rate=25'`);
        await page.click('dialog [data-confirm]');
        await page.until('/^#\\/canaries\\/[0-9]+$/.test(location.hash)', 'it is shown');
        await page.shown();
        return Number((await page.eval('location.hash')).split('/').pop());
    }

    async function succeed(queue) {
        const { jobs: [job] } = await ok(scene.server.post('/jobs/claim', { queues: [queue], worker: 'anna', count: 1, lease_ms: 3600000 }));
        await ok(scene.server.post(`/jobs/${job.id}/success`, { token: job.token }));
    }

    it('retries_canaries_of_a_group_and_shows_how_the_rest_follows', async (t) => {
        const group = await deadGroup('canary', 4);
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/failures');
        await page.click('#mode');
        const id = await beginCanaries(page, group, 2);
        assert.equal(await deadOf('canary'), 2);
        await untilText(page, /0 of 2 succeeded/);
        await untilText(page, /waits for canaries/, 'main h1 + .badge');
        assert.deepEqual(await page.accessibility(), []);
        await succeed('canary');
        await untilText(page, /1 of 2 succeeded/);
        assert.equal(await page.eval('location.hash'), `#/canaries/${id}`);
        await succeed('canary');
        await untilText(page, /done/, 'main h1 + .badge');
        await untilText(page, /2 of 2 succeeded/);
        await untilText(page, /2 retried/);
        assert.equal(await deadOf('canary'), 0);
        await page.open(`#/failures/${group}`);
        await untilText(page, new RegExp(`Retry with canaries ${id}\\s+done`));
        await page.open('#/canaries');
        await untilText(page, new RegExp(`Retry with canaries ${id}\\s+done`));
    });

    it('shows_that_a_canary_has_failed_and_the_rest_stays_dead', async (t) => {
        const group = await deadGroup('frail', 4);
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/failures');
        await page.click('#mode');
        await beginCanaries(page, group, 1);
        const bad = await fail(scene.server, 'frail', { message: 'no answer after 9 s' });
        await untilText(page, /failed/, 'main h1 + .badge');
        await untilText(page, new RegExp(`canary ${bad}: job_dead`), 'main .error');
        await untilText(page, /failed/, '.canaries');
        await untilText(page, /stays dead/);
        assert.equal(await deadOf('frail'), 4);
    });

    it('stops_a_retry_with_canaries_on_the_page_of_its_group', async (t) => {
        const group = await deadGroup('halted', 4);
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/failures');
        await page.click('#mode');
        const id = await beginCanaries(page, group, 1);
        await page.press('Its failures');
        await untilText(page, /waits for canaries/);
        assert.deepEqual(await page.accessibility(), []);
        await page.press('Stop');
        assert.equal(await page.text('dialog pre'), `curl -X POST '${scene.server.url()}/canary-retries/${id}/stop'`);
        await page.click('dialog [data-confirm]');
        await untilText(page, new RegExp(`Retry with canaries ${id}\\s+stopped`));
        assert.equal((await scene.server.get(`/canary-retries/${id}`)).json.state, 'stopped');
        await succeed('halted');
        assert.equal(await deadOf('halted'), 3);
        await page.open(`#/canaries/${id}`);
        await untilText(page, /not waited for/, '.canaries');
    });

    it('retries_all_of_a_group_at_a_rate', async (t) => {
        const group = await deadGroup('all', 2);
        const page = await visit(t, scene.server, MODES.desk);
        await page.open(`#/failures/${group}`);
        await page.click('#mode');
        await page.press('Retry all');
        assert.equal(await page.eval('document.getElementById("rate").value'), '10');
        await page.run(() => { document.getElementById('rate').value = '25'; });
        await page.press('Show the request');
        await untilText(page, /2 dead jobs become ready again, 25 a second/, 'dialog');
        assert.match(await page.text('dialog pre'), /failure_group=[0-9a-f]{16}&rate=25/);
        await page.click('dialog [data-confirm]');
        await until(async () => await deadOf('all') === 0, 'none is dead');
        await page.until('location.hash.startsWith("#/operations/")', 'it can be watched');
        await untilText(page, /changed\s+2/);
    });

    it('simulates_a_policy_on_the_failures_of_a_group_by_one_click', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open(`#/failures/${scene.group}`);
        await page.press('Try a policy');
        await untilText(page, /On recent failures of import/);
        await untilText(page, /1 failures of 1 jobs/);
    });

    it('throws_the_kill_switch', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/policies');
        await page.click('#mode');
        await untilText(page, /Retry policies are not enabled on this server/);
        await page.press('Switch policies on');
        await untilText(page, /The last failures would have become:[^]*Policies on\s+Today[^]*Queues without a policy, whose jobs keep their own retries: .*\bmail\b/, 'dialog');
        await page.click('dialog [data-confirm]');
        await until(async () => (await scene.server.get('/settings/retry')).json.enabled, 'they are on');
        await page.press('Switch policies off');
        await page.click('dialog [data-confirm]');
        await until(async () => !(await scene.server.get('/settings/retry')).json.enabled, 'they are off');
    });
});

describe('a job', () => {
    it('shows_in_order_which_policies_judge_its_failures', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        for (const name of ['of-queue', 'of-job'])
            await ok(server.request('PUT', `/retry-policies/${name}`, { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
                metadata: { name }, spec: { rules: [{ action: 'Retry', onConditions: ['Evicted'] }] } }));
        await ok(server.request('PUT', '/queues/q', { retry_policies: ['of-queue'] }));
        const judged = await enqueue(server, { queue: 'q', retry_policies: ['of-job'] });
        const plain = await enqueue(server, { queue: 'plain' });
        const page = await visit(t, server, MODES.desk);
        const shown = () => page.run(() => [...document.querySelectorAll('.judges a')].map((a) => a.hash));
        await page.open(`#/job/${judged.id}`);
        await untilText(page, /retry policies are not enabled; they would be of-queue, then of-job/);
        assert.deepEqual(await shown(), ['#/policies/of-queue', '#/policies/of-job']);
        assert.deepEqual(await page.accessibility(), []);
        await page.open(`#/job/${plain.id}`);
        await untilText(page, /its own backoff and limit: retry policies are not enabled/);
        assert.deepEqual(await shown(), []);
        await ok(server.request('PUT', '/settings/retry', { enabled: true }));
        await page.open(`#/job/${judged.id}`);
        await page.until("document.querySelectorAll('.judges a').length === 2 && !document.querySelector('.judges p')");
        await page.close();
    });
});

describe('a group of failures', () => {
    it('says_who_decided_and_how_much_of_the_budget_is_burnt', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        await ok(server.request('PUT', '/retry-policies/infra', { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
            metadata: { name: 'infra' }, spec: { retryLimit: 5, rules: [{ action: 'Fail', onExitCodes: { operator: 'In', values: [3] } },
                { action: 'Retry', retryLimit: 4, onConditions: ['Evicted'] }] } }));
        await ok(server.request('PUT', '/settings/retry', { enabled: true, whenNoPolicy: 'fail' }));
        await enqueue(server, { queue: 'q', retry_policies: ['infra'] });
        await fail(server, 'q', { condition: 'Evicted' });
        const { json: { failure_groups: [{ group }] } } = await server.get('/failure-groups');
        const page = await visit(t, server, MODES.desk);
        await page.open(`#/failures/${group}`);
        await untilText(page, /decided by rule 2 of policy infra: 1 of 4 retries/);
        assert.deepEqual(await page.run(() => {
            const meter = document.querySelector('meter.burnt');
            return [meter.value, meter.max, document.querySelector('.decision a').hash];
        }), [1, 4, '#/policies/infra']);
        assert.deepEqual(await page.accessibility(), []);
        await enqueue(server, { queue: 'own', retry_limit: 0 });
        await fail(server, 'own');
        const { json: { failure_groups: [own] } } = await server.get('/failure-groups?queue=own');
        await page.open(`#/failures/${own.group}`);
        await untilText(page, /decided by the settings, as no policy is in effect/);
        await page.close();
    });
});

describe('keys', () => {
    const scene = useScene();

    it('lead_everywhere_as_in_top', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/now');
        for (const [key, hash] of [['4', '#/jobs?status=dead'], ['1', '#/jobs?status=in_flight'], ['P', '#/policies'],
            ['C', '#/crons'], ['E', '#/events'], ['F', '#/failures'], ['W', '#/workers'], ['O', '#/operations'], ['D', '#/flow'],
            ['A', '#/audit'], ['5', '#/now'], ['l', '#/jobs'], ['h', '#/now'], ['2', '#/jobs?status=ready'], ['6', '#/jobs?status=blocked'],
            ['7', '#/jobs?status=completed'], ['3', '#/jobs?status=scheduled'], ['5', '#/now']]) {
            await page.key(key);
            await page.until(`location.hash === ${JSON.stringify(hash)}`, `${key} leads to ${hash}`);
            await page.shown();
        }
        await page.key('?');
        await page.until('document.getElementById("dialog").open');
        assert.match(await page.text('dialog'), /switch between looking and acting/);
        await page.press('Close');
        await page.key('/');
        assert.equal(await page.eval('document.activeElement.id'), 'now-search');
    });
});

describe('keys in a list', () => {
    const scene = useScene();

    it('move_open_and_turn_pages_as_in_top', async (t) => {
        const { server } = scene;
        await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: 120 }, (_, i) => ({ queue: 'paged', type: 't', payload: i })) }));
        const page = await visit(t, server, MODES.desk);
        await page.open('#/jobs?queue=paged');
        const focus = () => page.eval(`[...document.querySelectorAll('main [data-row]')].indexOf(document.activeElement)`);
        for (const [key, at] of [['j', 0], ['j', 1], ['ArrowDown', 2], ['k', 1], ['ArrowUp', 0], ['G', 49], ['g', 0]]) {
            await page.key(key);
            assert.equal(await focus(), at, key);
        }
        const first = () => page.eval(`document.querySelector('main [data-row]').title`);
        const newest = await first();
        await page.key('n');
        await until(async () => await first() !== newest, 'the next page');
        await page.shown();
        await page.until(`!!document.querySelector('[data-page="p"]')`);
        await page.key('p');
        await until(async () => await first() === newest, 'the one before');
        await page.key('a');
        await page.key('c');
        await untilText(page, /120 jobs would be canceled/, 'dialog');
        await page.press('Not now');
        await page.key('d');
        await untilText(page, /120 jobs would be deleted/, 'dialog');
        await page.press('Not now');
        await page.key('/');
        assert.equal(await page.eval('document.activeElement.id'), 'f-queue');
    });
});

describe('what happens', () => {
    const scene = useScene();

    it('is_seen_as_it_happens', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/events?queue=live');
        const { id } = await enqueue(scene.server, { queue: 'live' });
        await untilText(page, /enqueued/);
        assert.equal(await page.eval('document.querySelectorAll(".event").length'), 1, 'of that queue alone');
        await page.open(`#/job/${id}`);
        await ok(scene.server.post('/jobs/claim', { queues: ['live'], worker: 'anna', lease_ms: 3600000 }));
        await untilText(page, /run 0 is held by 'anna'/);
        await ok(scene.server.post(`/jobs/${id}/cancel`));
        await untilText(page, /dead/, 'main h1 + .badge');
    });

    it('changes_every_view_that_shows_it', async (t) => {
        const { server } = scene;
        const page = await visit(t, server, MODES.desk);
        const add = () => enqueue(server, { queue: 'seen', type: 'look', retry_limit: 0 });
        await page.open('#/now');
        await add();
        await untilText(page, /seen/);
        await page.open('#/queue/seen');
        await add();
        await untilText(page, /2\s+ready/);
        await page.open('#/jobs?queue=seen');
        const { id } = await add();
        await until(async () => (await page.eval(`[...document.querySelectorAll('main [data-row]')].map((a) => a.title)`)).includes(id), 'it is listed');
        await page.open('#/failures?queue=seen');
        await fail(server, 'seen', { message: 'no such luck' });
        await untilText(page, /no such luck/);
        await page.open('#/workers');
        await ok(server.post('/jobs/claim', { queues: ['seen'], worker: 'late-comer', lease_ms: 3600000 }));
        await untilText(page, /late-comer/);
        await page.open('#/flow');
        await enqueue(server, { queue: 'seen', type: 'waiter', depends_on: [id] });
        await untilText(page, /waiter/);
        await page.open('#/crons');
        await ok(server.request('PUT', '/crons/often', { entries: [{ name: 'tick', expression: '* * * * * *',
            job: { queue: 'ticks', type: 'tick', payload: {} } }] }));
        await untilText(page, /tick/);
        await page.open('#/operations');
        await ok(server.post('/jobs/cancel?queue=seen&undo=1h'));
        await untilText(page, /queue=seen/);
    });

    it('brings_in_what_the_audit_has_meanwhile_and_leaves_the_rest_as_it_is', async (t) => {
        const { server } = scene;
        const page = await visit(t, server, MODES.desk);
        await page.open('#/audit?operation=putRetryPolicy');
        await page.run(() => {
            document.querySelector('main details').open = true;
            document.querySelector('main tbody tr').id = 'old';
            document.getElementById('a-actor').value = 'typed';
        });
        await ok(server.request('PUT', '/retry-policies/later', { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
            metadata: { name: 'later' }, spec: { retryLimit: 1, rules: [{ action: 'Retry', onConditions: ['Evicted'] }] } }));
        await page.until('document.querySelectorAll("main tbody tr").length === 2', 'the new entry is there');
        assert.deepEqual(await page.run(() => {
            const rows = [...document.querySelectorAll('main tbody tr')];
            return [/later/.test(rows[0].textContent), rows[1].id, rows[1].querySelector('details').open, document.getElementById('a-actor').value];
        }), [true, 'old', true, 'typed']);
        await page.open('#/audit?operation=resetClock');
        await untilText(page, /Nothing was changed/);
        await ok(server.post('/clock/reset'));
        await page.until('document.querySelectorAll("main tbody tr").length === 1', 'the first entry is there');
    });

    it('changes_policies_and_the_kill_switch_but_no_draft', async (t) => {
        const { server } = scene;
        const put = (name, limit) => ok(server.request('PUT', `/retry-policies/${name}`, { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy',
            metadata: { name }, spec: { retryLimit: limit, rules: [{ action: 'Retry', onConditions: ['Evicted'] }] } }));
        const draft = () => page.eval('document.getElementById("policy").value');
        const page = await visit(t, server, MODES.desk);
        await page.open('#/policies/infra');
        await untilText(page, /policies off/);
        await ok(server.request('PUT', '/settings/retry', { enabled: true }));
        await put('infra', 7);
        await put('second', 1);
        await untilText(page, /policies on/);
        await untilText(page, /second/, 'main .tabs');
        await until(async () => /"retryLimit": 7/.test(await draft()), 'it is the policy of now');
        await page.run(() => { document.getElementById('policy').value += ' '; });
        const own = await draft();
        await put('infra', 8);
        await untilText(page, /Somebody has changed it meanwhile: it is version \d+ now/);
        assert.equal(await draft(), own);
        assert.deepEqual(await page.accessibility(), []);
        await page.press('Take that instead');
        assert.match(await draft(), /"retryLimit": 8/);
        await ok(server.request('PUT', '/settings/retry', { enabled: false }));
        await untilText(page, /policies off/);
        await ok(server.delete('/retry-policies/infra'));
        await untilText(page, /Somebody has deleted it meanwhile/);
        assert.match(await draft(), /"retryLimit": 8/);
    });

    it('leaves_the_focus_where_it_is', async (t) => {
        const page = await visit(t, scene.server, MODES.desk);
        await page.open('#/queue/import');
        await page.run(() => { document.querySelector('main a[data-row]').focus(); });
        const here = () => page.eval('document.activeElement.textContent');
        const before = await here();
        await page.run(() => { document.querySelector('main h1').id = 'old'; dispatchEvent(new Event('tenax-redraw')); });
        await page.until('!document.getElementById("old")', 'it is drawn again');
        assert.equal(await here(), before);
    });
});

describe('with access control', () => {
    it('asks_for_a_token_and_keeps_it_in_the_tab', async (t) => {
        const { server, tokens } = await guarded(t, { who: { roles: ['viewer'] } });
        const page = await visit(t, server, MODES.desk);
        page.tolerated.push(/status of 401/);
        await page.send('Page.navigate', { url: `${server.url()}/console#/jobs` });
        for (const [token, words] of [['wrong', /does not know this token/], [tokens.who, null]]) {
            await page.until('!!document.querySelector("dialog[open] #token")', 'it asks');
            assert.deepEqual(await page.accessibility(), []);
            await page.run((text) => { document.getElementById('token').value = text; }, token);
            await page.press('Use it');
            if (words)
                await until(async () => words.test(await page.text('dialog')), 'it says that it is wrong');
        }
        await page.shown();
        assert.match(await page.text(), /no job matches/i);
        assert.equal(await page.eval('sessionStorage.getItem("tenax-token")'), tokens.who);
        assert.equal(await page.eval('localStorage.length'), 0);
        await page.close();
    });
});

describe('a viewer', () => {
    it('sees_no_payloads_and_is_told_plainly_what_it_may_not', async (t) => {
        const { server, tokens, as } = await guarded(t, { who: { roles: ['viewer'] } });
        const { id } = (await as('admin').post('/jobs', { queue: 'q', type: 't', payload: { secret: 'xyzzy' } })).json;
        await as('admin').post('/jobs/cancel?queue=none&undo=1h');
        await enqueue(as('admin'), { queue: 'broken', retry_limit: 0 });
        await fail(as('admin'), 'broken');
        const { failure_groups: [{ group }] } = await ok(as('admin').get('/failure-groups'));
        const page = await visit(t, server, MODES.desk);
        page.tolerated.push(/status of 40[13]/);
        await page.send('Page.navigate', { url: `${server.url()}/console#/job/${id}` });
        await page.until('!!document.querySelector("dialog[open] #token")', 'it asks');
        await page.run((text) => { document.getElementById('token').value = text; }, tokens.who);
        await page.press('Use it');
        await page.shown();
        await untilText(page, /no worker|no stream is open/);
        assert.ok(!/xyzzy|Payload/.test(await page.text()));
        assert.ok(!(await page.eval('document.documentElement.outerHTML')).includes('xyzzy'));
        for (const [view, right] of [['#/audit', 'administer'], ['#/operations', 'operate'], ['#/jobs?filter=true', 'payloads']]) {
            await page.open(view);
            await untilText(page, new RegExp(`lack the right '${right}'`));
        }
        await page.open(`#/failures/${group}`); // without retries with canaries, which it may not see
        await untilText(page, /decided by/);
        await page.open(`#/job/${id}`);
        assert.match(await page.text(), /not shown: these credentials lack the right “payloads”/);
        assert.equal(await page.eval('document.getElementById("mode").hidden'), true);
        assert.deepEqual(await page.accessibility(), []);
        // A token that is deleted is asked for again.
        await as('admin').delete(`/tokens/${tokens.who.slice(4, 20)}`);
        await page.run(() => { location.hash = '#/workers'; });
        await page.until('!!document.querySelector("dialog[open] #token")', 'it asks again');
        assert.match(await page.text('dialog'), /does not know this token/);
        await page.close();
    });
});

describe('very many queues', () => {
    it('cost_only_what_is_in_sight', async (t) => {
        const server = new Server();
        t.after(() => server.clean());
        await server.start();
        for (let i = 0; i < 10; i++)
            await ok(server.post('/jobs/bulk', { jobs: Array.from({ length: 1000 }, (_, n) =>
                ({ queue: `customer-${String(i * 1000 + n).padStart(5, '0')}`, type: 't', payload: 1 })) }));
        const page = await visit(t, server, MODES.desk);
        await page.open('#/now');
        await untilText(page, /10\.0k queues/);
        const rows = () => page.eval('document.querySelectorAll(".lane").length');
        assert.ok(await rows() < 40, `${await rows()} rows`);
        const slowest = await page.run(async () => {
            const main = document.getElementById('main');
            const gaps = [];
            const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });
            let last = await frame();
            for (let i = 0; i < 60; i++) {
                main.scrollTop += 4000;
                const at = await frame();
                gaps.push(at - last);
                last = at;
            }
            return gaps.sort((a, b) => a - b)[30];
        });
        t.diagnostic(`a frame of scrolling: ${slowest.toFixed(1)} ms in the median`);
        await page.run(() => { document.getElementById('main').scrollTop = 1e9; });
        await untilText(page, /customer-09999/);
        assert.ok(await rows() < 40);
        await page.close();
    });
});

describe('the files', () => {
    const server = new Server();
    before(() => server.start());
    after(() => server.clean());
    const get = (target, headers) => fetch(server.url() + target, { headers, redirect: 'manual' });

    it('come_with_a_strict_policy_and_are_kept', async () => {
        for (const [file, type] of [['', 'text/html'], ['/app.js', 'text/javascript'], ['/style.css', 'text/css'],
            ['/icon.svg', 'image/svg+xml']]) {
            const res = await get(`/console${file}`);
            assert.equal(res.status, 200, file);
            assert.ok(res.headers.get('content-type').startsWith(type), file);
            assert.equal(res.headers.get('content-security-policy'), "default-src 'none'; script-src 'self'; " +
                "style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; " +
                "base-uri 'none'; form-action 'none'");
            assert.equal(res.headers.get('x-content-type-options'), 'nosniff');
            assert.equal(res.headers.get('cache-control'), 'no-cache');
            const tag = res.headers.get('etag');
            assert.match(tag, /^"[0-9a-f]{16}"$/);
            for (const known of [tag, `W/${tag}`, `"x", ${tag}`, '*']) {
                const again = await get(`/console${file}`, { 'if-none-match': known });
                assert.equal(again.status, 304, known);
                assert.equal(await again.text(), '');
            }
            assert.equal((await get(`/console${file}`, { 'if-none-match': '"0123456789abcdef"' })).status, 200);
        }
    });

    it('may_be_linked_to_from_other_origins_and_nothing_else_may', async () => {
        const ask = (target, method, dest, more = {}) => new Promise((resolve, reject) => {
            http.request(server.url() + target, { method, headers: { 'sec-fetch-site': 'cross-site',
                'sec-fetch-dest': dest, ...more } }, (res) => resolve(res.resume().statusCode)).on('error', reject).end();
        });
        assert.equal(await ask('/console', 'GET', 'document'), 200);
        assert.equal(await ask('/console', 'GET', 'document', { origin: 'https://other.example' }), 403);
        assert.equal(await ask('/console', 'GET', 'document', { host: 'other.example' }), 421);
        for (const [target, method, dest] of [['/console', 'GET', 'iframe'], ['/console', 'GET', 'empty'],
            ['/console', 'POST', 'document'], ['/console/app.js', 'GET', 'script'], ['/console/app.js', 'GET', 'document'],
            ['/jobs', 'GET', 'document']])
            assert.equal(await ask(target, method, dest), 403, `${method} ${target} ${dest}`);
    });

    it('are_all_there_is', async () => {
        assert.equal((await get('/console/../settings')).status, 404);
        const none = await get('/console/none.js');
        assert.equal(none.status, 404);
        assert.equal((await none.json()).code, 'no_such_path');
        const slash = await get('/console/');
        assert.deepEqual([slash.status, slash.headers.get('location')], [308, '/console']);
        const post = await fetch(`${server.url()}/console`, { method: 'POST' });
        assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD']);
        const head = await fetch(`${server.url()}/console`, { method: 'HEAD' });
        assert.equal(head.status, 200);
        assert.ok(Number(head.headers.get('content-length')) > 500);
    });

    it('are_not_served_with_no_console', async (t) => {
        const other = new Server({ args: ['--no-console'] });
        t.after(() => other.clean());
        await other.start();
        assert.equal((await fetch(`${other.url()}/console`)).status, 404);
        assert.match((await run(['serve', '--help'])).stdout, /--no-console/);
    });
});
