// SPDX-License-Identifier: Apache-2.0
// Jobs of a real server become messages of a real RabbitMQ, seen by a client that is not Tenax's.
'use strict';

const assert = require('node:assert/strict');
const { test, before, after, describe } = require('node:test');
const { startBroker, Wire } = require('../amqp/broker.js');
const { Bridge, Rabbit, Server, killAll, queueName, until } = require('./harness.js');

describe('jobs as messages of RabbitMQ', () => {
  let broker;
  let rabbit;
  let server;
  before(async () => {
    broker = await startBroker();
    rabbit = new Rabbit(broker.port);
    server = await new Server({ env: { TENAX_DEFAULT_COMPLETED_JOB_RETENTION: '1h',
      TENAX_DEFAULT_COMPLETED_JOB_LIMIT: '0' } }).start();
  });
  after(async () => {
    killAll();
    rabbit.close();
    await broker.stop();
    await server.clean();
  });

  const bridged = async (args, options = {}) => {
    const queue = queueName('out');
    await rabbit.queue(queue, options.rabbit);
    const bridge = new Bridge(options.port ?? broker.port, options.url ?? server.url(),
      ['--from', queue, ...(args ?? ['--to-rabbitmq', queue])], options);
    return { queue, bridge: options.later ? bridge : bridge.start() };
  };

  const ended = (queue, status, count) => until(() => `${count} ${status} in ${queue}`, async () =>
    (await server.get(`/jobs/count?queue=${queue}&status=${status}`)).json.count === count);

  const finish = async (bridge) => {
    await bridge.stop();
    bridge.remove();
  };

  test('the_payload_is_the_body_and_the_job_is_named', async () => {
    const { queue, bridge } = await bridged();
    const job = await server.enqueue({ queue, type: 'mail', payload: { a: [1.0, null] }, priority: 32760 });
    await server.enqueue({ queue, payload: null });
    await ended(queue, 'completed', 2);
    const [first, second] = await rabbit.take(queue, 2);
    assert.equal(first.text, '{"a":[1,null]}');
    assert.deepEqual(first.properties, { content_type: 'application/json', delivery_mode: 2,
      priority: 8, message_id: job.id, type: 'mail', app_id: 'tenax',
      headers: { 'x-tenax-job': job.id, 'x-tenax-run': 0 } });
    assert.equal(second.text, 'null');
    await until('it is reported', async () => await bridge.metric('out_published_total') === 2);
    await finish(bridge);
  });

  test('a_whole_message_of_the_payload_comes_out_as_it_came_in', async () => {
    const there = queueName('there');
    const back = queueName('back');
    await rabbit.queue(there);
    await rabbit.queue(back);
    // Both ways in one process.
    const bridge = new Bridge(broker.port, server.url(), ['--from-rabbitmq', there, '--to', back,
      '--from', back, '--to-rabbitmq', back, '--payload', 'message']).start();
    const properties = { content_type: 'application/x', content_encoding: 'gzip', message_id: 'm',
      correlation_id: 'c', reply_to: 'r', expiration: '3600000', type: 't', app_id: 'a',
      timestamp: 1700000000, priority: 3, delivery_mode: 1 };
    const headers = { s: 'é', i: -5, b: true, n: null, l: ['x', { y: 2 }] };
    const body = Buffer.from([0, 1, 254, 255]);
    await rabbit.publish([{ routingKey: there, body, properties: { ...properties, headers } }]);
    const [message] = await rabbit.take(back, 1);
    assert.deepEqual(message.bytes, body);
    const { 'x-tenax-job': id, 'x-tenax-run': run, ...rest } = message.properties.headers;
    assert.deepEqual(rest, headers);
    assert.equal((await server.job(id)).type, 't');
    assert.equal(run, 0);
    assert.deepEqual({ ...message.properties, headers: undefined }, { ...properties, headers: undefined });
    await finish(bridge);
  });

  test('payloads_that_rabbitmq_would_not_take_end_their_jobs_and_no_others', async () => {
    const { queue, bridge } = await bridged(['--to-exchange', 'amq.topic', '--payload', 'message']);
    await rabbit.queue(queue, { bindings: [['amq.topic', `${queue}.#`]] });
    const wrong = [7, { body: 1, headers: { CC: 'x' } }, { body: 1, expiration: 'soon' },
      { body: 1, message_id: 'x'.repeat(256) }, { base64: '?' }, { body: 1, priority: 256 },
      { body: 1, headers: { big: 'x'.repeat(200000) } }, { body: 1, routing_key: 'x'.repeat(256) }];
    await server.enqueueMany([...wrong, { body: 'fine', routing_key: `${queue}.x` }]
      .map((payload) => ({ queue, payload })));
    await ended(queue, 'dead', wrong.length);
    await ended(queue, 'completed', 1);
    const dead = (await server.get(`/jobs?queue=${queue}&status=dead`)).json.jobs;
    assert.deepEqual(new Set(dead.map((j) => j.resolution)), new Set(['malformed-payload']));
    assert.match(dead[2].error.message, /expiration: expiration: a text of digits|expiration/);
    assert.deepEqual((await rabbit.take(queue, 1)).map((m) => m.text), ['"fine"']);
    await finish(bridge);
  });

  test('an_unroutable_message_is_a_failure_that_the_server_decides_about', async () => {
    const { queue, bridge } = await bridged(['--to-exchange', 'amq.direct', '--routing-key', 'nobody']);
    const job = await server.enqueue({ queue, payload: 1, retry_limit: 1,
      backoff: { base_ms: 0, exponent: 0, jitter_ms: 0 } });
    await ended(queue, 'dead', 1);
    const runs = await server.runs(job.id);
    assert.equal(runs.length, 2);
    assert.equal(runs[1].error_type, 'unroutable');
    assert.match(runs[1].message, /no queue is bound to the exchange 'amq.direct' for the routing key 'nobody'/);
    await finish(bridge);
  });

  test('a_full_queue_refuses_and_that_is_a_failure', async () => {
    const { queue, bridge } = await bridged(undefined,
      { rabbit: { arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } } });
    await server.enqueue({ queue, payload: 1 });
    await ended(queue, 'completed', 1);
    const job = await server.enqueue({ queue, payload: 2, retry_limit: 0 });
    await ended(queue, 'dead', 1);
    assert.equal((await server.runs(job.id))[0].error_type, 'refused');
    await finish(bridge);
  });

  test('the_routing_key_is_the_type_of_the_job_unless_given', async () => {
    const { queue, bridge } = await bridged(['--to-exchange', 'amq.topic']);
    await rabbit.queue(queue, { bindings: [['amq.topic', 'kind.*']] });
    await server.enqueue({ queue, type: 'kind.a', payload: 1 });
    const [message] = await rabbit.take(queue, 1);
    assert.equal(message.routingKey, 'kind.a');
    await finish(bridge);
  });

  test('a_bridge_that_was_killed_takes_its_leases_over_and_every_job_is_published', async () => {
    const wire = await new Wire(broker.port).listen();
    const { queue, bridge } = await bridged(undefined, { port: wire.port, name: 'over', later: true });
    bridge.start();
    await bridge.said(/connected/);
    wire.freeze('down'); // messages arrive, confirms do not
    await server.enqueueMany(Array.from({ length: 120 }, (_, i) => ({ queue, payload: i })));
    await ended(queue, 'in_flight', 120);
    await bridge.kill();
    wire.thaw();
    bridge.errors = '';
    bridge.start();
    await ended(queue, 'completed', 120);
    const found = await rabbit.drain(queue);
    assert.equal(new Set(found.map((m) => m.text)).size, 120);
    // The same run, hence the same message_id: consumers can tell.
    assert.equal(new Set(found.map((m) => m.properties.message_id)).size, 120);
    assert.deepEqual(new Set(found.map((m) => m.properties.headers['x-tenax-run'])), new Set([0]));
    await finish(bridge);
    await wire.close();
  });

  test('a_broker_that_takes_nothing_keeps_the_leases_and_claims_no_more', async () => {
    const { queue, bridge } = await bridged(undefined, { name: 'blocked' });
    await bridge.said(/connected/);
    await broker.ctl('set_vm_memory_high_watermark', '0.0000001');
    await server.enqueue({ queue, payload: 'first' });
    await ended(queue, 'in_flight', 1);
    await until('health tells', async () => (await bridge.get('/health')).status === 503);
    await server.enqueueMany(Array.from({ length: 30 }, (_, i) => ({ queue, payload: i })));
    await broker.ctl('set_vm_memory_high_watermark', '0.6');
    await ended(queue, 'completed', 31);
    assert.equal((await rabbit.take(queue, 31)).length, 31);
    await finish(bridge);
  });

  test('two_bridges_of_one_name_do_not_run_at_the_same_time', async () => {
    const { queue, bridge } = await bridged();
    await bridge.said(/connected/);
    const second = new Bridge(broker.port, server.url(), ['--from', queue, '--to-rabbitmq', queue],
      { dir: bridge.dir }).start();
    assert.equal(await second.exited, 1);
    assert.match(second.errors, /another process/);
    await finish(bridge);
  });
});
