// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker` while everything around it fails: each build ends in exactly one final status
// or runs, no message is lost, none stays.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { NOBODY, Wire, gate, run, until, useBed } = require('./harness.js');
const { startScrewdriver } = require('./screwdriver.js');

const bed = useBed();

// What may become of a build's pod, and how the build has to end; null: it runs.
const KINDS = [
    [[{ do: 'running', after: 100 }], null],
    [[{ do: 'pulling' }, { do: 'running', after: 900 }], null],
    [[{ do: 'unschedulable' }, { do: 'scheduled', after: 400 }, { do: 'running', after: 100 }], null],
    [[{ do: 'waiting', reason: 'ErrImagePull', message: 'no such image' }], /check if your image is valid/],
    [[{ do: 'waiting', reason: 'CrashLoopBackOff', message: 'back-off' }], /reach out to your cluster admin/],
    [[{ do: 'unschedulable' }], /^Pod scheduling timeout exceeded$/],
];
const ENV = { SCHEDULING_TIMEOUT: '6s', VERIFY_LIMIT: '1000', RABBITMQ_MSG_REPROCESS_LIMIT: '1000',
    WAIT_QUEUES: 'true' };

async function startMany(site, count) {
    const all = [];
    for (let i = 0; i < count; i++) {
        const [script, ends] = KINDS[i % KINDS.length];
        const build = site.build(script);
        all.push({ build, ends });
        await site.start(build);
    }
    return all;
}

async function allEnd(site, all) {
    for (const { build, ends } of all)
        if (ends)
            await site.fails(build, ends);
        else
            await site.runs(build);
    await site.empty();
    for (const { build, ends } of all) {
        assert.deepEqual(build.finals, ends ? ['FAILURE'] : [], `build ${build.id}`);
        assert.ok(site.pods(build).length <= 1, `build ${build.id} has more than one pod`);
        if (!ends)
            assert.equal(site.pods(build).length, 1, `build ${build.id} has no pod`);
    }
}

for (const waits of ['true', 'false'])
    test(`a worker that is killed again and again (WAIT_QUEUES=${waits})`, () => bed.with(
        { ...ENV, WAIT_QUEUES: waits }, async (site) => {
            site.worker();
            const all = await startMany(site, 30);
            // Between any two steps: at every few milliseconds of its work, as far as chance goes.
            for (let round = 0; round < 12; round++) {
                const worker = site.workers.at(-1);
                await worker.says(/health on/);
                await new Promise((done) => setTimeout(done, 30 + round * 40));
                await worker.kill();
                site.worker();
            }
            await allEnd(site, all);
        }));

test('connections to RabbitMQ that are cut', async () => {
    const wire = await new Wire(bed.broker.port).listen();
    try {
        await bed.with(ENV, async (site) => {
            site.env.RABBITMQ_HOST = `127.0.0.1:${wire.port}`;
            const worker = site.worker();
            const all = await startMany(site, 24);
            for (let round = 1; round <= 6; round++) {
                await worker.well();
                wire.cut();
                await until('it is connected again', async () =>
                    await worker.metric('broker_connections_total') > round);
            }
            await allEnd(site, all);
        });
    } finally {
        await wire.close();
    }
});

for (const signal of ['SIGTERM', 'SIGKILL'])
    test(`a RabbitMQ that is restarted (${signal}): the worker says that it is away, and goes on`, () => bed.with(ENV,
        async (site) => {
            const worker = site.worker();
            await worker.well();
            const all = await startMany(site, 12);
            await bed.broker.end(signal);
            await until('it is unavailable', async () => (await worker.health()).status === 503);
            assert.equal((await worker.health()).text, 'unavailable');
            await bed.broker.start();
            await worker.well();
            assert.equal((await worker.health()).text, 'ok');
            await allEnd(site, all);
        }));

test('a RabbitMQ that is away from the start: said once, in plain words', () => bed.with(ENV, async (site) => {
    const worker = site.worker({ env: { RABBITMQ_HOST: '127.0.0.1:1' } });
    await worker.says(/cannot connect to 127\.0\.0\.1:1: it refuses, or cannot be reached; tried again/);
    assert.deepEqual(await worker.health(), { status: 503, text: 'unavailable' });
    await worker.stop();
    assert.equal(worker.log.match(/cannot connect/g).length, 1, worker.log);
}));

test('an API server that is away for a while', () => bed.with(ENV, async (site) => {
    site.worker();
    const all = await startMany(site, 6);
    await bed.double.restart({ away: 700 });
    all.push(...await startMany(site, 6));
    await bed.double.restart({ away: 300 });
    await allEnd(site, all);
}));

test('an API of Screwdriver\'s that is away: statuses wait, over a restart too', () => bed.with(ENV,
    async (site) => {
        const worker = site.worker();
        const builds = [0, 1, 2].map(() => site.build(KINDS[3][0]));
        await bed.api.away();
        for (const build of builds)
            await site.start(build);
        await site.empty();
        await until('three wait', async () => await worker.metric('statuses_waiting') === 3);
        await worker.kill();
        const next = site.worker();
        assert.equal(await next.metric('statuses_waiting'), 3);
        bed.api.finish(builds[2].id, 'ABORTED'); // meanwhile, by a user
        await bed.api.back();
        await site.fails(builds[0], KINDS[3][1]);
        await site.fails(builds[1], KINDS[3][1]);
        await until('none waits', async () => await next.metric('statuses_waiting') === 0);
        assert.equal(await next.metric('statuses_ended_total'), 1);
        assert.deepEqual(builds[2].finals, ['ABORTED']);
    }));

for (const [what, fault] of [['5xx', { status: 502 }], ['429', { status: 429, retryAfter: 0 }],
    ['a closed connection', { drop: true }], ['an answer that is lost', { lost: true }],
    ['no answer', { hang: true }]])
    test(`Screwdriver's API: ${what}, then it is told all the same`, () => bed.with(
        { ...ENV, CIRCUIT_TIMEOUT: '500' }, async (site) => {
            site.worker();
            const build = site.build(KINDS[3][0]);
            bed.api.fault({ match: { id: build.id }, times: 2, ...fault });
            await site.start(build);
            await site.fails(build, KINDS[3][1]);
            await site.empty();
        }));

test('what Screwdriver refuses is given up, and said without its token', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const build = site.build(KINDS[3][0]);
    bed.api.fault({ match: { id: build.id }, status: 401, body: '{"message":"sesame-of-screwdriver"}' });
    await site.start(build);
    await worker.says(new RegExp(`build ${build.id}: Screwdriver's API refuses an update with status 401`));
    await site.empty();
    assert.equal(await worker.metric('statuses_refused_total'), 1);
}));

test('SIGTERM: what is begun is finished, the rest stays for the next one', () => bed.with(
    { ...ENV, RABBITMQ_PREFETCH_COUNT: '2' }, async (site) => {
        const worker = site.worker();
        const creates = { match: { verb: 'create', resource: 'pods' } };
        const { hold, goOn } = gate();
        bed.double.fault({ ...creates, times: 1, delay: 1 });
        bed.double.fault({ ...creates, hold });
        const all = await startMany(site, 8);
        const isThere = ({ build }) => site.pods(build).length === 1;
        await until('one is there', () => all.some(isThere));
        await until('two more are begun', async () => await worker.metric('messages_unsettled') === 2);
        const end = worker.stop();
        await worker.says(/those begun are finished/);
        goOn();
        await end;
        assert.ok(all.filter(isThere).length >= 2, 'what was begun is finished');
        assert.ok(all.some(({ build }) => site.pods(build).length === 0), 'not all have begun');
        bed.double.clearFaults();
        site.worker();
        await allEnd(site, all);
    }));

test('two workers share the messages', () => bed.with(ENV, async (site) => {
    site.worker();
    site.worker({ env: { TENAX_STATE_DIR: path.join(site.folder, 'other') } });
    await allEnd(site, await startMany(site, 30));
}));

test('a second worker with the same state is refused', () => bed.with(ENV, async (site) => {
    await site.worker().well();
    const other = site.worker();
    const { code } = await other.ended;
    assert.equal(code, 1);
    assert.match(other.log, /another process/);
    other.over.code = 0; // as it should be
}));

test('a ready queue with too short a time to live is refused unless asked for', () => bed.with(ENV, async (site) => {
    await bed.broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"late-ready">>), ` +
        'true, false, [{<<"x-message-ttl">>, long, 1000}, {<<"x-max-priority">>, long, 3}, ' +
        '{<<"x-queue-type">>, longstr, <<"classic">>}], none, <<"tests">>).');
    const env = { RABBITMQ_RETRYQUEUE: 'late-ready', TENAX_STATE_DIR: path.join(site.folder, 'late') };
    const refused = site.worker({ env });
    const { code } = await refused.ended;
    assert.notEqual(code, 0);
    assert.match(refused.log, /late-ready.*(time to live|x-message-ttl)/);
    await site.worker({ env: { ...env, RABBITMQ_READY_TTL_ALLOWED: 'true' } }).well();
}));

test('metrics are Prometheus\' text', () => bed.with(ENV, async (site) => {
    const worker = site.worker();
    const { status, text } = await worker.get('/metrics');
    assert.equal(status, 200);
    for (const line of text.trim().split('\n'))
        assert.match(line,
            /^(# (HELP|TYPE) tenax_builds_\w+ .+|tenax_builds_\w+(\{\w+="\w+"(,\w+="\w+")*\})? -?[\d.e+]+)$/);
    assert.equal((await worker.get('/nothing')).status, 404);
    await worker.well();
    assert.equal((await worker.get('/health/')).status, 200);
}));

// As a user without rights, in case that something is removed that should not be.
test('clear removes a folder of caches, and nothing outside of their root', () =>
    bed.with({ ...ENV, CACHE_STRATEGY: 'disk' }, async (site) => {
        const root = path.join(site.folder, 'cache');
        const outside = path.join(site.folder, 'outside');
        for (const dir of ['pipelines/7/a', 'pipelines/8', 'jobs/7/70', 'jobs/7/71', 'beta/pipelines/7'])
            fs.mkdirSync(path.join(root, dir), { recursive: true });
        fs.mkdirSync(path.join(outside, '5'), { recursive: true });
        fs.symlinkSync(outside, path.join(root, 'link'));
        fs.writeFileSync(path.join(root, 'pipelines/7/a/file'), 'x');
        const uid = process.getuid() === 0 ? NOBODY : undefined;
        for (const name of uid ? ['', ...fs.readdirSync(site.folder, { recursive: true })] : [])
            fs.lchownSync(path.join(site.folder, name), uid, uid);
        const worker = site.worker({ uid, env: { CACHE_PATH: root } });
        await worker.well();
        await site.clear({ scope: 'pipelines', pipelineId: 7 });
        await site.clear({ scope: 'jobs', pipelineId: 7, id: 70 });
        await site.clear({ scope: 'pipelines', prefix: 'beta', pipelineId: 7 });
        await until('three are gone', async () => await worker.metric('caches_cleared_total') === 3);
        const bad = [{ pipelineId: '..' }, { scope: '..', pipelineId: 'outside' }, { scope: '', pipelineId: '' },
            { scope: 'jobs', pipelineId: 7, id: '' }, { scope: 'jobs', pipelineId: 7, id: '/' },
            { prefix: '../outside', pipelineId: 5 }, { scope: 'link', pipelineId: '5', id: '.' },
            { prefix: 'link', scope: 'pipelines', pipelineId: 5 }, { resource: 'builds' }, { action: 'read' },
            { scope: undefined }, { pipelineId: undefined }, { scope: 'jobs', pipelineId: 7, id: undefined },
            { scope: undefined, pipelineId: undefined, id: undefined }, { pipelineId: null }, { scope: '.' }];
        for (const fields of bad)
            await site.clear(fields);
        await site.empty();
        assert.equal(await worker.metric('caches_refused_total'), bad.length, worker.log);
        const left = (dir) => fs.existsSync(path.join(root, dir));
        assert.deepEqual(['pipelines/7', 'jobs/7/70', 'beta/pipelines/7'].filter(left), []);
        assert.ok(left('pipelines/8') && left('jobs/7/71') && left('link') && fs.existsSync(path.join(outside, '5')));
    }));

test('clear removes nothing unless caches are on disk', () => bed.with(ENV, async (site) => {
    const root = path.join(site.folder, 'cache');
    fs.mkdirSync(path.join(root, 'pipelines/7'), { recursive: true });
    const worker = site.worker({ env: { CACHE_PATH: root } });
    await worker.well();
    await site.clear({ pipelineId: 7 });
    await site.empty();
    assert.equal(await worker.metric('caches_refused_total'), 1);
    assert.ok(fs.existsSync(path.join(root, 'pipelines/7')));
}));

test('failures go to the API of the message, host names to ECOSYSTEM_API', async () => {
    const other = await startScrewdriver();
    try {
        await bed.with(ENV, async (site) => {
            site.worker();
            const [bad, good] = [site.build(KINDS[3][0]), site.build(KINDS[0][0])];
            const [theirs, none] = [other.add(bad.id), other.add(good.id)];
            await site.start(bad, { apiUri: other.url, token: theirs.token });
            await site.start(good, { apiUri: other.url });
            await until(() => `the other API hears of it:\n${site.log}`, () => theirs.status === 'FAILURE');
            assert.match(theirs.statusMessage, KINDS[3][1]);
            assert.deepEqual([theirs.finals, theirs.stats], [['FAILURE'], {}]);
            await site.runs(good);
            await site.empty();
            assert.ok(good.stats.imagePullStartTime);
            assert.deepEqual([none.updates, bad.updates.filter((update) => update.body.status)], [[], []]);
        });
    } finally {
        await other.stop();
    }
});

test('an answer that quotes the token of a build: it is in no status and no log', () => bed.with({}, async (site) => {
    const worker = site.worker({ env: { TENAX_LOG_LEVEL: 'debug' } });
    await worker.well();
    for (const status of [403, 500]) {
        const build = site.build();
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, status,
            message: `webhook: env TOKEN=${build.token}, ${build.token} is bad` });
        await site.start(build);
        await site.fails(build, /env TOKEN=\(hidden\), \(hidden\) is bad/);
        bed.double.clearFaults();
    }
    await site.empty();
}));

test('settings that are no hosts: refused, without what may be a password', async () => {
    const bad = { RABBITMQ_HOST: 'amqp://me:geheim@rabbit:5672', K8S_HOST: 'me:geheim@kubernetes', PORT: '65536' };
    for (const [name, value] of Object.entries({ ...bad, TENAX_URL: 'http://me:geheim@tenax' })) {
        const { code, errors } = await run([], { HOME: os.tmpdir(), PORT: '0', [name]: value,
            TENAX_STATE_DIR: fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bad-')),
            TENAX_BROKER: name === 'TENAX_URL' ? 'tenax' : 'rabbitmq' });
        assert.equal(code, 2, `${name}: ${errors}`);
        assert.match(errors, /must/);
        assert.doesNotMatch(errors, /geheim/);
    }
    const { code, errors } = await run([], { HOME: os.tmpdir(), PORT: '0', K8S_HOST: 'http://kubernetes' });
    assert.equal(code, 2, errors);
    assert.match(errors, /scheme other than https/);
});

test('settings that no build could be run with: refused by name', async () => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bad-'));
    const file = path.join(dir, 'file');
    fs.writeFileSync(file, '');
    for (const [name, value, word] of [
        ['CACHE_STRATEGY', 'dsik', /CACHE_STRATEGY must be s3 or disk/],
        ['ECOSYSTEM_API', 'api.foo', /ECOSYSTEM_API must be a URL/],
        ['ECOSYSTEM_API', 'https://me:geheim@api.foo', /ECOSYSTEM_API must be a URL/],
        ['K8S_JOBS_NAMESPACE', 'a/b', /K8S_JOBS_NAMESPACE must be the name of a namespace/],
        ['K8S_JOBS_NAMESPACE', 'x'.repeat(64), /K8S_JOBS_NAMESPACE must be the name of a namespace/],
        ['CIRCUIT_TIMEOUT', '0', /CIRCUIT_TIMEOUT must be a number of milliseconds above 0/],
        ['TENAX_STATE_DIR', path.join(file, 'state'), /TENAX_STATE_DIR: .*file.*: Not a directory/],
    ]) {
        const { code, errors } = await run([], { HOME: dir, PORT: '0', K8S_CA_FILE: file, K8S_TOKEN: 't',
            TENAX_STATE_DIR: path.join(dir, 'state'), [name]: value });
        assert.notEqual(code, 0, `${name}: ${errors}`);
        assert.match(errors, word);
        assert.doesNotMatch(errors, /geheim/);
    }
    fs.rmSync(dir, { recursive: true });
});
