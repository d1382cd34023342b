// SPDX-License-Identifier: Apache-2.0
// The build worker's broker over a real RabbitMQ (src/builds/build_rabbitmq.h).
'use strict';

const assert = require('node:assert');
const { test, before, after, describe } = require('node:test');
const { startBroker, until, Wire } = require('../amqp/broker.js');
const { Worker, Client, killAll, tenax } = require('./broker_harness.js');

const START = '{"job":"start","buildConfig":{"buildId":7,"token":"sesame"}}';
const CONFIG = '{"buildId":7,"token":"sesame"}';

let broker;
let wire;
let client;
let names = 0;

// Queues of its own for each test, with short times; declared by the command for that.
async function queues(more = {}, { declare = true } = {}) {
  const env = {
    RABBITMQ_HOST: `127.0.0.1:${broker.port}`, RABBITMQ_VIRTUAL_HOST: '//',
    RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest',
    RABBITMQ_QUEUE: `sd${++names}`, RABBITMQ_RETRYQUEUE: `retry${names}`,
    RABBITMQ_DEFAULT_QUEUE: `default${names}`, RABBITMQ_RETRYQUEUE_ENABLED: 'true',
    RABBITMQ_CONNECT_OPTIONS: '{"heartbeatIntervalInSeconds":30,"reconnectTimeInSeconds":1}',
    RABBITMQ_DLR_TTL: '100ms', VERIFY_DELAY: '50ms', ...more,
  };
  if (declare) {
    const r = await tenax(['build-worker', 'topology', 'declare'], env);
    assert.strictEqual(r.code, 0, r.out + r.err);
  }
  return env;
}

const start = (env, body = START, headers = '-') =>
  client.post('build', env.RABBITMQ_QUEUE, body, headers);

async function counts(env) {
  const out = await broker.ctl('list_queues', 'name', 'messages');
  const all = Object.fromEntries(out.trim().split('\n').map((l) => l.split('\t')));
  return ['', 'dlr'].map((t) => all[env.RABBITMQ_QUEUE + t])
    .concat(['', '-wait'].map((t) => all[env.RABBITMQ_RETRYQUEUE + t])).map(Number);
}

const empty = (env) => until('all queues are empty', async () =>
  (await counts(env)).every((n) => n === 0));

describe('the broker of builds over RabbitMQ', () => {
  before(async () => {
    broker = await startBroker();
    wire = await new Wire(broker.port).listen();
    client = new Client(broker.port);
  });
  after(async () => {
    killAll();
    await wire.close();
    await broker.stop();
  });

  test('a start is followed by verify messages that carry what is known of the build', async () => {
    const env = await queues();
    const w = new Worker(env);
    await start(env);
    const d = await w.delivered(1);
    assert.deepStrictEqual({ ...d, at: 0 },
      { n: 1, channel: 'main', failures: 0, looks: 0, started: -1, at: 0, body: START });
    const began = Date.now();
    w.say(`then 1 0 1700000000123 200 ${CONFIG}`);
    const v = await w.delivered(2);
    assert.ok(v.at - began >= 199, `verified after ${v.at - began} ms`);
    assert.deepStrictEqual({ ...v, at: 0 }, { n: 2, channel: 'ready', failures: 0, looks: 0,
      started: 1700000000123, at: 0, body: `{"job":"verify","buildConfig":${CONFIG}}` });
    w.say(`then 2 1 1700000000123 0 ${CONFIG}`);
    assert.strictEqual((await w.delivered(3)).looks, 1);
    w.say('ack 3');
    w.say(`publish x 5 -1 30 ${CONFIG}`);
    await w.saw('published x');
    assert.deepStrictEqual([(await w.delivered(4)).looks, (await w.delivered(4)).started], [5, -1]);
    w.say('ack 4');
    await empty(env);
    assert.deepStrictEqual(await w.state(),
      { consuming: 1, blocked: 0, unsettled: 0, unconfirmed: 0, connections: 1 });
    await w.close();
  });

  test('verify messages are persistent JSON, with their headers as numbers', async () => {
    const env = await queues();
    const w = new Worker({ ...env, RABBITMQ_HOST: `127.0.0.1:${broker.port}` });
    const c = new Client(broker.port, [`${env.RABBITMQ_RETRYQUEUE}-wait`]);
    await w.ready();
    await c.saw('up');
    w.say(`publish x 3 1700000000123 60000 ${CONFIG}`);
    const [headers] = await c.saw('headers 1');
    assert.strictEqual(headers, 'headers 1 x-build-start-time:l=1700000000123 x-retry-count:I=3 ' +
      'mode=2 type=application/json expires=60000');
    c.say('ack 1');
    await c.close();
    await w.close();
  });

  test('a message of the main queue comes again until it has failed too often', async () => {
    const env = await queues();
    const w = new Worker(env);
    await start(env);
    for (let n = 1; n <= 4; n++) {
      assert.strictEqual((await w.delivered(n)).failures, n - 1);
      w.say(`retry ${n} no cluster`);
    }
    assert.deepStrictEqual(await w.saw('exhausted'), ['exhausted 4 no cluster']);
    assert.deepStrictEqual((await counts(env))[0], 1, 'it stays until it is acknowledged');
    w.say('ack 4');
    await empty(env);
    assert.strictEqual(w.deliveries().length, 4);
    await w.close();
  });

  test('the limit is a setting', async () => {
    const env = await queues({ RABBITMQ_MSG_REPROCESS_LIMIT: '0' });
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    w.say('retry 1 at once');
    await w.saw('exhausted 1 at once');
    w.say('ack 1');
    await empty(env);
    await w.close();
  });

  test('a verify message that fails is published again, and keeps its looks and start', async () => {
    const env = await queues();
    const w = new Worker(env);
    await w.ready();
    w.say(`publish x 2 1700000000123 0 ${CONFIG}`);
    for (let n = 1; n <= 4; n++) {
      const d = await w.delivered(n);
      assert.deepStrictEqual([d.channel, d.failures, d.looks, d.started],
        ['ready', n - 1, 2, 1700000000123]);
      w.say(`retry ${n} no cluster`);
    }
    await w.saw('exhausted 4 no cluster');
    w.say('ack 4');
    await empty(env);
    await w.close();
  });

  test('headers of other clients are read in whatever type they have, or lack', async () => {
    const env = await queues();
    const w = new Worker(env);
    const verify = `{"job":"verify","buildConfig":${CONFIG}}`;
    const cases = [
      ['x-retry-count:s=4,x-build-start-time:s=1700000000123', [4, 1700000000123]],
      ['x-retry-count:d=4,x-build-start-time:d=1700000000123', [4, 1700000000123]],
      ['x-retry-count:l=-4,x-build-start-time:l=-5', [0, -1]],
      ['x-retry-count:s=many,x-build-start-time:s=yesterday', [0, -1]],
      ['x-retry-count:l=9999999999,x-build-start-time:l=9223372036854775807', [4294967295, -1]],
      ['-', [0, -1]],
    ];
    for (const [i, [headers, [looks, started]]] of cases.entries()) {
      await client.post('', env.RABBITMQ_RETRYQUEUE, verify, headers);
      const d = await w.delivered(i + 1);
      assert.deepStrictEqual([d.looks, d.started, d.failures], [looks, started, 0], headers);
      w.say(`ack ${d.n}`);
    }
    await client.post('build', env.RABBITMQ_QUEUE, 'no JSON at all', 'x-death:s=what');
    const d = await w.delivered(cases.length + 1);
    assert.deepStrictEqual([d.failures, d.body], [0, 'no JSON at all']);
    w.say(`ack ${d.n}`);
    await empty(env);
    await w.close();
  });

  test('rejections by another worker count: none is lost, none comes for ever', async () => {
    const env = await queues();
    const other = new Client(broker.port, [env.RABBITMQ_QUEUE]);
    await start(env);
    await other.saw('delivered 1 ');
    other.say('reject 1');
    await other.saw('delivered 2 ');
    other.say('reject 2');
    await other.close();
    const w = new Worker(env);
    assert.strictEqual((await w.delivered(1)).failures, 2);
    w.say('ack 1');
    await empty(env);
    await w.close();
  });

  test('without a wait queue delays are kept here, and the delivery unacknowledged', async () => {
    const env = await queues({ VERIFICATION: 'timer' });
    await broker.ctl('delete_queue', `${env.RABBITMQ_RETRYQUEUE}-wait`);
    const w = new Worker(env);
    await w.ready();
    w.say(`publish x 0 -1 0 ${CONFIG}`);
    const d = await w.delivered(1);
    w.say('retry 1 no cluster');
    assert.strictEqual((await w.state()).unsettled, 1);
    const again = await w.delivered(2);
    assert.ok(again.at - d.at >= 49, `again after ${again.at - d.at} ms`);
    assert.strictEqual(again.failures, 1);
    w.say('ack 2');
    w.say(`publish y 0 -1 40 ${CONFIG}`);
    await w.saw('published y');
    await w.delivered(3);
    // Killed while it waits: the message was never acknowledged.
    w.say(`then 3 0 -1 60000 ${CONFIG}`);
    assert.strictEqual((await w.state()).unsettled, 1);
    await w.kill();
    const second = new Worker(env);
    assert.strictEqual((await second.delivered(1)).channel, 'ready');
    // Cut while it waits: it comes again, and is not published as well.
    await second.close();
    const third = new Worker({ ...env, RABBITMQ_HOST: `127.0.0.1:${wire.port}`, VERIFY_DELAY: '60s' });
    await third.delivered(1);
    third.say('retry 1 no cluster');
    assert.deepStrictEqual([(await third.state()).unconfirmed], [1]);
    wire.cut();
    await third.delivered(2);
    assert.deepStrictEqual([(await third.state()).unconfirmed, (await third.state()).unsettled], [0, 1]);
    third.say('ack 2');
    await until('the queue is empty', async () => (await counts(env))[2] === 0);
    assert.strictEqual(third.deliveries().length, 2);
    await third.close();
  });

  test('without a retry queue builds are not verified', async () => {
    const env = await queues({ RABBITMQ_RETRYQUEUE_ENABLED: 'false' });
    await broker.ctl('delete_queue', env.RABBITMQ_RETRYQUEUE);
    await broker.ctl('delete_queue', `${env.RABBITMQ_RETRYQUEUE}-wait`);
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    w.say(`then 1 0 -1 0 ${CONFIG}`);
    w.say(`publish x 0 -1 0 ${CONFIG}`);
    await w.saw('published x');
    await until('the queue is empty', async () => (await counts(env))[0] === 0);
    assert.deepStrictEqual(await w.state(),
      { consuming: 1, blocked: 0, unsettled: 0, unconfirmed: 0, connections: 1 });
    await w.close();
  });

  test('no message is lost over connections that are cut again and again', async () => {
    const env = await queues({ PROBE_AUTO: '1', RABBITMQ_HOST: `127.0.0.1:${wire.port}` });
    const w = new Worker(env);
    const other = new Worker({ ...env, RABBITMQ_HOST: `127.0.0.1:${broker.port}` });
    await w.ready();
    let sent = 0;
    for (let round = 1; round <= 5; round++) {
      const arrived = w.deliveries().length;
      for (let i = 0; i < 300; i++)
        client.say(`post ${++client.id} build ${env.RABBITMQ_QUEUE} -1 - {"n":${++sent}}`);
      await until('some arrive', () => w.deliveries().length > arrived);
      wire.cut();
      await until('it is connected again', async () => (await w.state()).connections > round);
      await w.ready();
    }
    const all = () => w.deliveries().concat(other.deliveries());
    const starts = () => new Set(all().filter((d) => d.channel === 'main').map((d) => d.body)).size;
    await until(() => `${starts()} of ${sent} starts`, () => starts() === sent);
    await until('every start has its verify message', () =>
      all().filter((d) => d.channel === 'ready').length >= sent);
    await empty(env);
    const s = await w.state();
    assert.ok(s.connections >= 6 && s.unsettled === 0 && s.unconfirmed === 0, JSON.stringify(s));
    await w.close();
    await other.close();
  });

  test('a delivery of a connection that is gone is settled without effect', async () => {
    const env = await queues({ RABBITMQ_HOST: `127.0.0.1:${wire.port}` });
    const w = new Worker(env);
    for (let i = 0; i < 3; i++) await start(env, `{"n":${i}}`);
    await w.delivered(3);
    wire.cut();
    await w.delivered(6);
    w.say('ack 1');
    w.say('retry 2 old');
    w.say(`then 3 0 -1 0 ${CONFIG}`);
    assert.deepStrictEqual([(await w.state()).unsettled, (await w.state()).unconfirmed], [3, 0]);
    assert.strictEqual((await counts(env))[0], 3);
    for (const n of [4, 5, 6]) w.say(`ack ${n}`);
    await empty(env);
    await w.close();
  });

  test('while the wait queue is missing nothing is acknowledged, and then all of it', async () => {
    const env = await queues();
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    await broker.ctl('delete_queue', `${env.RABBITMQ_RETRYQUEUE}-wait`);
    w.say(`then 1 0 -1 50 ${CONFIG}`);
    w.say(`publish x 0 -1 50 ${CONFIG}`);
    await w.logged(/verify messages cannot be published.*the exchange has no queue for them/);
    assert.deepStrictEqual(await w.state(),
      { consuming: 0, blocked: 0, unsettled: 1, unconfirmed: 2, connections: 1 });
    const r = await tenax(['build-worker', 'topology', 'declare'], env);
    assert.strictEqual(r.code, 0, r.out + r.err);
    await w.saw('published x');
    await w.delivered(3);
    await w.ready();
    for (const n of [2, 3]) w.say(`ack ${n}`);
    await empty(env);
    assert.strictEqual(w.errors.match(/cannot be published/g).length, 1, w.errors);
    await w.logged(/verify messages are taken again/);
    await w.close();
  });

  test('queues that are missing at the start are waited for, in words', async () => {
    const env = await queues({}, { declare: false });
    const w = new Worker(env);
    await w.logged(new RegExp(`there is no queue '${env.RABBITMQ_QUEUE}' at 127.*topology declare`));
    assert.strictEqual((await w.state()).consuming, 0);
    await tenax(['build-worker', 'topology', 'declare'], env);
    await w.ready();
    await w.close();
    for (const tail of ['', '-wait']) {
      await broker.ctl('delete_queue', env.RABBITMQ_RETRYQUEUE + tail);
      const v = new Worker(env);
      await v.logged(new RegExp(`there is no queue '${env.RABBITMQ_RETRYQUEUE}${tail}' at 127`));
      await tenax(['build-worker', 'topology', 'declare'], env);
      await v.ready();
      await v.close();
    }
    const v = new Worker({ ...env, RABBITMQ_EXCHANGE: 'nobodys' });
    await v.logged(/there is no exchange 'nobodys' at 127/);
    await v.close();
  });

  test('a ready queue with a time to live is refused unless it is allowed', async () => {
    const env = await queues();
    await broker.ctl('delete_queue', env.RABBITMQ_RETRYQUEUE);
    await broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${env.RABBITMQ_RETRYQUEUE}">>), ` +
      'true, false, [{<<"x-message-ttl">>, long, 60000}], none, <<"tests">>).');
    const w = new Worker(env);
    assert.match((await w.saw('refused'))[0],
      /has a time to live \(60000 ms\).*RABBITMQ_READY_TTL_ALLOWED/);
    assert.strictEqual((await w.state()).consuming, 0);
    await until('it was tried again', async () => !/again.*again/s.test(w.errors));
    await w.close();
    assert.strictEqual(w.all('refused').length, 1);
    const v = new Worker({ ...env, RABBITMQ_READY_TTL_ALLOWED: 'true' });
    await v.ready();
    await v.close();
  });

  test('a user who may not configure queues can work', async () => {
    const env = await queues();
    await broker.ctl('add_user', 'worker', 'w');
    await broker.ctl('set_permissions', 'worker', '^$', '.*', '.*');
    const w = new Worker({ ...env, RABBITMQ_USERNAME: 'worker', RABBITMQ_PASSWORD: 'w' });
    await w.ready();
    await w.logged(/it is not known whether its x-message-ttl is as it should be/);
    await start(env);
    await w.delivered(1);
    w.say(`then 1 0 -1 20 ${CONFIG}`);
    await w.delivered(2);
    w.say('ack 2');
    await empty(env);
    await w.close();
  });

  test('a main queue without dead letters is told', async () => {
    const env = await queues();
    await broker.ctl('delete_queue', env.RABBITMQ_QUEUE);
    await broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${env.RABBITMQ_QUEUE}">>), ` +
      'true, false, [], none, <<"tests">>).');
    const w = new Worker(env);
    await w.ready();
    assert.match(w.errors, /has no dead-letter exchange/);
    await w.close();
  });

  test('quiet takes no more, and settles what there is', async () => {
    const env = await queues({ RABBITMQ_PREFETCH_COUNT: '1' });
    const w = new Worker(env);
    await start(env);
    await start(env);
    await w.delivered(1);
    w.say('quiet');
    await until('the consumers are gone', async () =>
      !(await broker.ctl('list_consumers', 'queue_name')).split('\n').includes(env.RABBITMQ_QUEUE));
    w.say(`then 1 0 -1 10 ${CONFIG}`);
    await until('it is settled', async () => (await w.state()).unconfirmed === 0);
    assert.deepStrictEqual((await w.state()).consuming, 0);
    assert.strictEqual(w.deliveries().length, 1);
    await w.close();
    const v = new Worker(env);
    await v.delivered(2);
    await v.close();
  });

  test('a queue that is deleted while it is consumed is waited for', async () => {
    const env = await queues();
    const w = new Worker(env);
    await w.ready();
    await broker.ctl('delete_queue', env.RABBITMQ_QUEUE);
    await w.logged(/canceled the consumer of queue/);
    await w.logged(/there is no queue/);
    assert.strictEqual((await w.state()).consuming, 0);
    await tenax(['build-worker', 'topology', 'declare'], env);
    await w.ready();
    await start(env);
    await w.delivered(1);
    w.say('ack 1');
    await empty(env);
    await w.close();
  });

  test('a broker for want of memory takes no orders, but acknowledgements', async () => {
    const env = await queues();
    const w = new Worker(env);
    await start(env);
    await start(env);
    await w.delivered(2);
    await broker.ctl('set_vm_memory_high_watermark', '0.0000001');
    try {
      w.say(`then 1 0 -1 10 ${CONFIG}`);
      await until('it is blocked', async () => (await w.state()).blocked === 1);
      w.say('ack 2');
      await until('the other is acknowledged', async () => (await counts(env))[0] === 1);
      assert.deepStrictEqual([(await w.state()).unsettled, (await w.state()).unconfirmed], [1, 1]);
    } finally {
      await broker.ctl('set_vm_memory_high_watermark', '0.6');
    }
    await w.delivered(3);
    w.say('ack 3');
    await empty(env);
    await w.close();
  });

  test('a broker that is restarted is found again, with all that it held', async () => {
    const env = await queues();
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    w.say(`then 1 0 -1 8000 ${CONFIG}`);
    await until('it waits there', async () => (await w.state()).unconfirmed === 0);
    await start(env);
    await w.delivered(2);
    await client.close();
    await broker.restart('SIGKILL');
    client = new Client(broker.port);
    await w.delivered(4);
    assert.deepStrictEqual(w.deliveries().slice(2).map((d) => d.channel).sort(), ['main', 'ready']);
    for (const n of [2, 3, 4]) w.say(`ack ${n}`);
    await empty(env);
    await w.close();
  });

  test('the password appears in no line', async () => {
    const env = await queues({ RABBITMQ_PASSWORD: 'hemlock' }, { declare: false });
    const w = new Worker(env);
    await w.logged(/ACCESS_REFUSED/);
    await w.close();
    assert.doesNotMatch(w.errors + w.lines.join('\n'), /hemlock|sesame/);
  });
});
