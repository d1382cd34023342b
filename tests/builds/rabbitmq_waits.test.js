// SPDX-License-Identifier: Apache-2.0
// Wait queues of one delay each (--wait-queues) at a real RabbitMQ.
'use strict';

const assert = require('node:assert');
const { test, before, after, describe } = require('node:test');
const { startBroker, until, Wire } = require('../amqp/broker.js');
const { Worker, killAll, tenax } = require('./broker_harness.js');

let broker;
let wire;
let names = 0;

async function queues(more = {}) {
  const env = {
    RABBITMQ_HOST: `127.0.0.1:${wire.port}`, RABBITMQ_VIRTUAL_HOST: '//',
    RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest',
    RABBITMQ_QUEUE: `sd${++names}`, RABBITMQ_RETRYQUEUE: `retry${names}`,
    RABBITMQ_RETRYQUEUE_ENABLED: 'true',
    RABBITMQ_CONNECT_OPTIONS: '{"heartbeatIntervalInSeconds":30,"reconnectTimeInSeconds":1}', ...more,
  };
  // Those on demand are not made beforehand.
  const r = await tenax(['build-worker', 'topology', 'declare'], { ...env, WAIT_QUEUES: 'false' });
  assert.strictEqual(r.code, 0, r.out + r.err);
  return env;
}

async function waits(env) {
  const out = await broker.ctl('list_queues', 'name', 'messages', 'arguments');
  return Object.fromEntries(out.split('\n').map((l) => l.split('\t'))
    .filter(([name]) => name.startsWith(`${env.RABBITMQ_RETRYQUEUE}-wait-`))
    .map(([name, messages, args]) => [name.split('-wait-')[1], { messages: Number(messages), args }]));
}

// The looks of verify messages, in the order in which they come.
const order = async (w, count) => {
  await w.saw('delivered ', count);
  return w.deliveries().map((d) => d.looks);
};

describe('wait queues', () => {
  before(async () => {
    broker = await startBroker();
    wire = await new Wire(broker.port).listen();
  });
  after(async () => {
    killAll();
    await wire.close();
    await broker.stop();
  });

  test('a short delay waits behind a long one in the common queue, but not in its own', async () => {
    for (const [own, expected] of [['false', [1, 2]], ['true', [2, 1]]]) {
      const w = new Worker(await queues({ WAIT_QUEUES: own }));
      await w.ready();
      w.say('publish a 1 -1 6000 {}');
      w.say('publish b 2 -1 1 {}');
      assert.deepStrictEqual(await order(w, 2), expected, `WAIT_QUEUES=${own}`);
      for (const n of [1, 2]) w.say(`ack ${n}`);
      await w.close();
    }
  });

  test('are made as they are needed, and are known to `topology`', async () => {
    const env = await queues({ WAIT_QUEUES: 'true', VERIFY_DELAY: '10s', VERIFY_STEP: '5s' });
    const w = new Worker(env);
    await w.ready();
    assert.deepStrictEqual(await waits(env), {});
    w.say('publish a 1 -1 10000 {}');
    w.say('publish b 2 -1 15000 {}');
    w.say('publish c 3 -1 10000 {}');
    await w.saw('published', 3);
    const made = await waits(env);
    assert.deepStrictEqual(Object.entries(made).map(([k, v]) => [k, v.messages]).sort(),
      [['10000', 2], ['15000', 1]]);
    assert.match(made[10000].args, /"x-expires",3620000/);
    const check = await tenax(['build-worker', 'topology', 'check'], env);
    assert.deepStrictEqual([check.code, check.err], [0, ''], check.out);
    const show = JSON.parse((await tenax(['build-worker', 'topology', 'show'], env)).out);
    const name = (ms) => `${env.RABBITMQ_RETRYQUEUE}-wait-${ms}`;
    assert.deepStrictEqual(show.queues.map((q) => q.name).slice(5),
      [10000, 15000, 20000, 25000, 30000, 35000].map(name));
    assert.deepStrictEqual(show.queues[5].arguments, { 'x-dead-letter-exchange': 'build',
      'x-dead-letter-routing-key': env.RABBITMQ_RETRYQUEUE, 'x-expires': 3620000,
      'x-message-ttl': 10000, 'x-queue-type': 'classic' });
    const declared = await tenax(['build-worker', 'topology', 'declare'], env);
    assert.strictEqual(declared.code, 0, declared.out + declared.err);
    assert.strictEqual(Object.keys(await waits(env)).length, 6);
    await w.close();
  });

  test('one that vanished is made again, whether it is found out before or after', async () => {
    const env = await queues({ WAIT_QUEUES: 'true' });
    const w = new Worker(env);
    await w.ready();
    w.say('publish a 1 -1 200 {}');
    await w.delivered(1);
    await broker.ctl('delete_queue', `${env.RABBITMQ_RETRYQUEUE}-wait-200`);
    w.say('publish b 2 -1 200 {}');
    await w.delivered(2);
    await w.saw('published b');
    await broker.ctl('delete_queue', `${env.RABBITMQ_RETRYQUEUE}-wait-200`);
    wire.cut();
    await until('it is connected again', async () => (await w.state()).connections === 2);
    await until('it is there again', async () => (await waits(env))[200]);
    w.say('publish c 3 -1 200 {}');
    await w.delivered(3);
    for (const n of [1, 2, 3]) w.say(`ack ${n}`);
    await w.close();
  });

  test('one that would send messages elsewhere is not used', async () => {
    const env = await queues({ WAIT_QUEUES: 'true' });
    const name = `${env.RABBITMQ_RETRYQUEUE}-wait-200`;
    await broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${name}">>), ` +
      'true, false, [], none, <<"tests">>).');
    const w = new Worker(env);
    await w.ready();
    w.say('publish a 1 -1 200 {}');
    await w.logged(new RegExp(`queue '${name}' has x-`));
    assert.strictEqual(w.all('published').length, 0);
    await broker.ctl('delete_queue', name);
    await w.delivered(1);
    w.say('ack 1');
    await w.close();
  });
});
