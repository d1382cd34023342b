// SPDX-License-Identifier: Apache-2.0
'use strict';

// `tenax build-worker` and its RabbitMQ: how it connects, how much it takes, and where it publishes.

const assert = require('node:assert/strict');
const { after, test } = require('node:test');
const { Client, killAll } = require('./broker_harness.js');
const { gate, until, useBed } = require('./harness.js');

const bed = useBed();
after(killAll);
const RUNS = [{ do: 'running' }];

async function listed(what, ...columns) {
    const out = await bed.broker.ctl(what, ...columns);
    return out.trim().split('\n').slice(1).map((line) => line.split('\t'));
}

test('20 messages are in progress unless it is set, and the rest waits at RabbitMQ', () => bed.with(
    { CIRCUIT_TIMEOUT: '600000' }, async (site) => {
        const worker = site.worker();
        const builds = Array.from({ length: 30 }, () => site.build(RUNS));
        const { hold, goOn } = gate();
        bed.double.fault({ match: { verb: 'create', resource: 'pods' }, hold });
        for (const build of builds)
            await site.start(build);
        await until('all have come that may', async () => await worker.metric('messages_unsettled') === 20);
        const rows = await listed('list_queues', 'name', 'messages_unacknowledged', 'messages_ready');
        assert.deepEqual(rows.find(([name]) => name === site.queue), [site.queue, '20', '10']);
        bed.double.clearFaults();
        goOn();
        for (const build of builds)
            await site.runs(build);
        await site.empty();
    }));

test('of several addresses the next one is taken when one is away', () => bed.with({}, async (site) => {
    const worker = site.worker({ env: { RABBITMQ_PORT: '1',
        RABBITMQ_HOST: `localhost,127.0.0.1:${bed.broker.port}` } });
    await worker.says(/cannot connect to localhost:1/);
    await worker.well();
    const build = site.build(RUNS);
    await site.start(build);
    await site.runs(build);
    await site.empty();
}));

test('a virtual host is named after a slash', async () => {
    await bed.broker.ctl('add_vhost', 'screwdriver');
    await bed.broker.ctl('set_permissions', '-p', 'screwdriver', 'guest', '.*', '.*', '.*');
    await bed.with({ RABBITMQ_VIRTUAL_HOST: '' }, async (site) => { // '/screwdriver', as unless it is set
        await site.worker().well();
        const rows = await listed('list_consumers', '-p', 'screwdriver', 'queue_name', 'prefetch_count');
        assert.deepEqual(rows.sort(), [[site.queue, '20'], [site.retry, '20']].sort());
    });
});

test('heartbeats are as the connect options have them', () => bed.with({ RABBITMQ_CONNECT_OPTIONS:
    '{ "json": true, "heartbeatIntervalInSeconds": 7, "reconnectTimeInSeconds": 30 }' }, async (site) => {
    await site.worker().well();
    const timeouts = () => listed('list_connections', 'timeout').then((rows) => rows.map(([one]) => one));
    assert.deepEqual((await timeouts()).filter((one) => one === '7'), ['7', '7']);
    const usual = site.worker({ env: { RABBITMQ_CONNECT_OPTIONS: '', TENAX_STATE_DIR: `${site.folder}/other` } });
    await usual.well();
    assert.deepEqual((await timeouts()).filter((one) => one === '20'), ['20', '20']);
}));

test('verify messages go through the exchange', () => bed.with({ VERIFY_DELAY: '1h' }, async (site) => {
    const spy = `${site.queue}-spy`;
    await bed.broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${spy}">>), ` +
        'true, false, [], none, <<"tests">>), rabbit_binding:add({binding, rabbit_misc:r(<<"/">>, exchange, ' +
        `<<"build">>), <<"${site.retry}-wait">>, rabbit_misc:r(<<"/">>, queue, <<"${spy}">>), []}, <<"tests">>).`);
    const client = new Client(bed.broker.port, [spy]);
    site.worker();
    const build = site.build(RUNS);
    await site.start(build);
    const [line] = await client.saw('delivered 1 ');
    assert.deepEqual(JSON.parse(line.slice(line.indexOf('{'))), { job: 'verify', buildConfig: site.config(build) });
    client.say('ack 1');
    await client.close();
}));

test('a deaf consumer is noticed, and the worker connects again', () => bed.with({}, async (site) => {
    const worker = site.worker();
    await worker.well();
    // The broker forgets the consumers without a word; the connection stays as healthy as it was.
    await bed.broker.ctl('eval', 'lists:foreach(fun(C) -> Q = proplists:get_value(queue_name, C), ' +
        'P = proplists:get_value(channel_pid, C), T = proplists:get_value(consumer_tag, C), ' +
        '{ok, A} = rabbit_amqqueue:lookup(Q), gen_server2:call(amqqueue:get_pid(A), ' +
        '{basic_cancel, P, T, undefined, <<"tests">>}) end, [C || C <- rabbit_amqqueue:consumers_all(<<"/">>), ' +
        `element(4, proplists:get_value(queue_name, C)) =:= <<"${site.queue}">>]).`);
    const build = site.build(RUNS);
    await site.start(build);
    await worker.says(new RegExp(`delivers nothing of queue '${site.queue}'`));
    await site.runs(build);
    await site.empty();
    assert.equal(await worker.metric('broker_connections_total'), 2);
    assert.equal((await worker.health()).text, 'ok');
}));

test('unless it is asked for nothing is verified, and there need be no retry queue', () => bed.with(
    { RABBITMQ_RETRYQUEUE_ENABLED: '' }, async (site) => {
        await bed.broker.ctl('delete_queue', site.retry);
        await bed.broker.ctl('delete_queue', `${site.retry}-wait`);
        const worker = site.worker();
        const build = site.build([{ do: 'unschedulable' }]);
        await site.start(build);
        await site.podThere(build);
        await site.empty();
        assert.equal(await worker.metric('verifies_total'), 0);
        assert.deepEqual(build.finals, []);
    }));
