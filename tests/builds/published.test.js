// SPDX-License-Identifier: Apache-2.0
// A broker as Screwdriver's guide for administrators sets it up: verify messages are rejected into
// RETRYdlr, all queues have a time to live, and the worker's user may declare nothing.
'use strict';

const assert = require('node:assert');
const { test, before, after, describe } = require('node:test');
const fs = require('node:fs');
const path = require('node:path');
const { startBroker } = require('../amqp/broker.js');
const { Worker, Client, killAll, tenax } = require('./broker_harness.js');

const CONFIG = '{"buildId":7,"token":"sesame"}';
const START = `{"job":"start","buildConfig":${CONFIG}}`;
const HOURS_8 = 8 * 3600 * 1000;

function queue(name, args) {
  return { name, vhost: '/', durable: true, auto_delete: false, arguments: { 'x-max-priority': 2, ...args } };
}

// With names of its own for each test.
function published(name, { readyTtl = HOURS_8, dlr = true } = {}) {
  const retry = `${name}Retry`, dead = (key) => ({ 'x-dead-letter-exchange': name, 'x-dead-letter-routing-key': key });
  const queues = [
    queue(`${name}Q`, { ...dead(`${name}Qdlr`), 'x-message-ttl': HOURS_8 }),
    queue(`${name}Qdlr`, { ...dead(`${name}Q`), 'x-message-ttl': 5000 }),
    queue(retry, { ...dead(`${retry}dlr`), 'x-message-ttl': readyTtl }),
    ...(dlr ? [queue(`${retry}dlr`, { ...dead(retry), 'x-message-ttl': 60000 })] : []),
  ];
  return {
    exchanges: [{ name, vhost: '/', type: 'topic', durable: true, auto_delete: false, internal: false, arguments: {} }],
    queues,
    bindings: queues.map((q) => ({ source: name, vhost: '/', destination: q.name, destination_type: 'queue',
      routing_key: q.name, arguments: {} })),
  };
}

describe('the topology of Screwdriver\'s guide', () => {
  let broker, client;
  before(async () => {
    broker = await startBroker();
    client = new Client(broker.port);
  });
  after(async () => {
    killAll();
    await broker.stop();
  });

  async function site(name, options) {
    const file = path.join(broker.folder, `${name}.json`);
    fs.writeFileSync(file, JSON.stringify(published(name, options)));
    await broker.ctl('import_definitions', file);
    await broker.ctl('add_user', name, 'w');
    const own = `^(${name}|${name}Q|${name}Retry)$`;
    await broker.ctl('set_permissions', name, own, own, own);
    return {
      RABBITMQ_HOST: `127.0.0.1:${broker.port}`, RABBITMQ_VIRTUAL_HOST: '//', RABBITMQ_USERNAME: name,
      RABBITMQ_PASSWORD: 'w', RABBITMQ_EXCHANGE: name, RABBITMQ_QUEUE: `${name}Q`, RABBITMQ_RETRYQUEUE: `${name}Retry`,
      RABBITMQ_RETRYQUEUE_ENABLED: 'true',
      RABBITMQ_CONNECT_OPTIONS: '{"heartbeatIntervalInSeconds":30,"reconnectTimeInSeconds":1}',
    };
  }

  test('lets verify messages wait where rejected ones do', async () => {
    const env = await site('a');
    const w = new Worker(env);
    await w.ready();
    await w.logged(/no queue 'aRetry-wait': builds wait in 'aRetrydlr'/);
    await client.post('a', 'aQ', START, '-');
    await w.delivered(1);
    const began = Date.now();
    w.say(`then 1 2 1700000000123 300 ${CONFIG}`);
    const v = await w.delivered(2);
    assert.ok(v.at - began >= 299, `verified after ${v.at - began} ms`);
    assert.deepStrictEqual({ ...v, at: 0 }, { n: 2, channel: 'ready', failures: 0, looks: 2, started: 1700000000123,
      at: 0, body: `{"job":"verify","buildConfig":${CONFIG}}` });
    w.say('ack 2');
    await w.close();
    const queues = (await broker.ctl('list_queues', 'name')).split('\n').filter((q) => q.startsWith('a'));
    assert.deepStrictEqual(queues.sort(), ['aQ', 'aQdlr', 'aRetry', 'aRetrydlr'], 'they are as they were');
  });

  test('prefers a wait queue where there is one', async () => {
    const env = await site('b');
    const made = await tenax(['build-worker', 'topology', 'declare'],
      { ...env, RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest', RABBITMQ_DEFAULT_QUEUE: 'bDefault' });
    assert.match(made.out, /bRetry: x-message-ttl should be none, but is 28800000/, made.err);
    const w = new Worker(env);
    await w.ready();
    assert.doesNotMatch(w.errors, /bRetrydlr/);
    w.say(`publish x 0 -1 60000 ${CONFIG}`);
    await w.saw('published x');
    assert.match(await broker.ctl('list_queues', 'name', 'messages'), /^bRetry-wait\t1$/m);
    await w.close();
  });

  test('is refused with a time to live that a verification may take', async () => {
    for (const [name, ttl, more] of [['c', 179000, {}], ['d', 300000, { VERIFY_STEP: '1m' }]]) {
      const env = { ...await site(name, { readyTtl: ttl }), ...more };
      const w = new Worker(env);
      assert.match((await w.saw('refused'))[0], new RegExp(`time to live \\(${ttl} ms\\).*RABBITMQ_READY_TTL_ALLOWED`));
      await w.close();
      const check = await tenax(['build-worker', 'topology', 'check'], env);
      assert.strictEqual(check.out, `${name}Retry: x-message-ttl should be none, but is ${ttl}\n`);
      assert.strictEqual(check.code, 1);
    }
  });

  test('is checked by its user for what matters', async () => {
    const good = await tenax(['build-worker', 'topology', 'check'], await site('e'));
    assert.deepStrictEqual([good.code, good.err], [0, ''], good.out);
    assert.match(good.out, /^nothing keeps builds from working, as far as this user may compare/);
    const env = await site('f', { dlr: false });
    const bad = await tenax(['build-worker', 'topology', 'check'], env);
    assert.deepStrictEqual([bad.code, bad.out], [1, 'fRetry-wait: does not exist\n']);
    for (const more of [{ VERIFICATION: 'timer' }, { RABBITMQ_RETRYQUEUE_ENABLED: 'false' }]) {
      const fine = await tenax(['build-worker', 'topology', 'check'], { ...env, ...more });
      assert.strictEqual(fine.code, 0, fine.out);
    }
    const all = await tenax(['build-worker', 'topology', 'check'],
      { ...env, RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest' });
    assert.match(all.out, /fQ: x-max-priority should be 3, but is 2/, 'an administrator sees everything');
  });

  test('waits for a wait queue where rejected messages would not come back', async () => {
    const env = await site('g', { dlr: false });
    await broker.ctl('set_permissions', 'g', '.*', '.*', '.*');
    await broker.ctl('eval', 'rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"gRetrydlr">>), true, false, [], none, <<"tests">>).');
    const w = new Worker(env);
    await w.logged(/there is no queue 'gRetry-wait' at 127/);
    assert.strictEqual((await w.state()).consuming, 0);
    await w.close();
  });
});
