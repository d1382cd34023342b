// SPDX-License-Identifier: Apache-2.0
// Messages of a real RabbitMQ become jobs of a real server.
'use strict';

const assert = require('node:assert/strict');
const { test, before, after, describe } = require('node:test');
const { startBroker, Wire } = require('../amqp/broker.js');
const { Bridge, Rabbit, Server, killAll, queueName, until } = require('./harness.js');

describe('messages of RabbitMQ as jobs', () => {
  let broker;
  let rabbit;
  let server;
  before(async () => {
    broker = await startBroker();
    rabbit = new Rabbit(broker.port);
    server = await new Server().start();
  });
  after(async () => {
    killAll();
    rabbit.close();
    await broker.stop();
    await server.clean();
  });

  const jobs = async (queue, count) => {
    await until(() => `${count} jobs in ${queue}`, async () =>
      (await server.get(`/jobs/count?queue=${queue}`)).json.count >= count);
    const found = (await server.get(`/jobs?queue=${queue}&limit=2000`)).json.jobs;
    assert.equal(found.length, count);
    return Promise.all(found.slice(0, 50).map((j) => server.job(j.id)));
  };

  // A queue at RabbitMQ, one of Tenax of the same name, and a bridge between them.
  const bridged = async (args = [], options = {}) => {
    const queue = queueName('in');
    await rabbit.queue(queue, options.rabbit);
    const bridge = new Bridge(options.port ?? broker.port, options.url ?? server.url(),
      ['--from-rabbitmq', queue, '--to', queue, ...args], options);
    return { queue, bridge: bridge.start() };
  };

  const assertDrained = (queue) => until('everything is acknowledged', async () =>
    new RegExp(`^${queue}\\s+0$`, 'm').test(await broker.ctl('list_queues', 'name', 'messages')));

  test('a_body_is_the_payload_verbatim_and_properties_say_type_and_priority', async () => {
    const { queue, bridge } = await bridged();
    await rabbit.publish([
      { routingKey: queue, body: ' {"n": 1.0,"big":12345678901234567890} ',
        properties: { type: 'order', priority: 7, message_id: 'a' } },
      { routingKey: queue, body: '[2]', properties: { type: 'no,name' } },
      { routingKey: queue, body: 'null' },
    ]);
    const found = await jobs(queue, 3);
    assert.deepEqual(found.map((j) => [j.type, j.priority]),
      [['order', 32761], ['message', 32768], ['message', 32768]]);
    assert.match((await server.get(`/jobs/${found[0].id}`)).text,
      /"payload":{"n": 1.0,"big":12345678901234567890}/);
    assert.equal(found[0].unique_key, `rabbitmq:/:${queue}:a`);
    assert.equal(found[0].unique_while, 'exists');
    assert.deepEqual(found[0].retention.completed_ms, 600000);
    await assertDrained(queue);
    assert.equal(await bridge.metric('in_messages_total'), 3);
    assert.equal(await bridge.metric('in_unkeyed_total'), 2);
    assert.equal((await bridge.get('/health')).status, 200);
    await bridge.stop();
    bridge.remove();
  });

  test('a_whole_message_with_any_body_and_headers_of_every_type', async () => {
    const { queue, bridge } = await bridged(['--payload', 'message', '--type', 't']);
    await rabbit.publish([
      { routingKey: queue, body: { a: 1 }, properties: { content_type: 'application/json',
        correlation_id: 'c', reply_to: 'r', expiration: '60000', app_id: 'x', timestamp: 7,
        delivery_mode: 2, headers: { s: 'é', i: -5, b: true, n: null, l: [1, 'x', { y: 2 }], t: { u: {} } } } },
      { routingKey: queue, body: '{"not": json', properties: { content_type: 'text/plain' } },
      { routingKey: queue, body: Buffer.from([0, 255, 1]) },
      { routingKey: queue, body: '' },
    ]);
    const payloads = (await jobs(queue, 4)).map((j) => j.payload);
    assert.deepEqual(payloads[0], { body: { a: 1 },
      headers: { s: 'é', i: -5, b: true, n: null, l: [1, 'x', { y: 2 }], t: { u: {} } },
      content_type: 'application/json', correlation_id: 'c', reply_to: 'r', expiration: '60000',
      app_id: 'x', timestamp: 7, delivery_mode: 2, exchange: '', routing_key: queue });
    assert.equal(payloads[1].text, '{"not": json');
    assert.equal(payloads[2].base64, Buffer.from([0, 255, 1]).toString('base64'));
    assert.equal(payloads[3].text, '');
    await bridge.stop();
    bridge.remove();
  });

  test('a_message_with_the_same_id_makes_no_second_job_also_after_the_first_has_ended', async () => {
    const { queue, bridge } = await bridged();
    const message = { routingKey: queue, body: { n: 1 }, properties: { message_id: 'once' } };
    await rabbit.publish([message, message]);
    await assertDrained(queue);
    const [job] = await jobs(queue, 1);
    const claimed = await server.claimOne(queue);
    assert.equal((await server.post(`/jobs/${job.id}/success`, { token: claimed.token })).status, 204);
    await rabbit.publish([message]);
    await until('it is acknowledged', async () => await bridge.metric('in_messages_total') === 3);
    assert.equal(await bridge.metric('in_duplicates_total'), 2);
    assert.equal((await jobs(queue, 1))[0].status, 'completed');
    await bridge.stop();
    bridge.remove();
  });

  test('equal_messages_without_ids_are_all_jobs_unless_the_body_is_the_key', async () => {
    const one = await bridged();
    const other = await bridged(['--key', 'body']);
    const third = await bridged(['--key', 'header:order']);
    const same = (routingKey, properties) => Array.from({ length: 20 }, () => ({ routingKey, body: '1', properties }));
    await rabbit.publish([...same(one.queue), ...same(other.queue),
      ...same(third.queue, { headers: { order: '77' } })]);
    assert.equal((await jobs(one.queue, 20)).length, 20);
    await assertDrained(other.queue);
    await assertDrained(third.queue);
    await jobs(other.queue, 1);
    await jobs(third.queue, 1);
    for (const { bridge } of [one, other, third]) {
      await bridge.stop();
      bridge.remove();
    }
  });

  test('what_cannot_be_a_job_is_held_and_the_rest_goes_past_it', async () => {
    const { queue, bridge } = await bridged();
    const bodies = Array.from({ length: 300 }, (_, i) => (i % 100 === 50 ? 'no json' : `${i}`));
    await rabbit.publish(bodies.map((body) => ({ routingKey: queue, body })));
    await jobs(queue, 297);
    await bridge.said(/cannot be a job: the body is not JSON.*it is held/);
    assert.equal(await bridge.metric('in_held'), 3);
    await bridge.stop();
    // They are still at RabbitMQ.
    assert.deepEqual((await rabbit.take(queue, 3)).map((m) => m.text), Array(3).fill('no json'));
    bridge.remove();
  });

  test('what_the_server_refuses_is_found_among_the_others_and_rejected_if_asked', async () => {
    const dead = queueName('dead');
    await rabbit.queue(dead);
    const { queue, bridge } = await bridged(['--refused', 'dead-letter'],
      { rabbit: { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead } } });
    // JSON that is nested deeper within a request than it is alone.
    const deep = '['.repeat(127) + ']'.repeat(127);
    const bodies = Array.from({ length: 200 }, (_, i) => (i === 77 ? deep : `${i}`));
    await rabbit.publish(bodies.map((body) => ({ routingKey: queue, body })));
    const found = await jobs(queue, 199);
    assert.deepEqual(found.map((j) => j.payload), bodies.slice(0, 50).map(Number)); // in their order
    const [message] = await rabbit.take(dead, 1);
    assert.equal(message.text, deep);
    await assertDrained(queue);
    await bridge.stop();
    bridge.remove();
  });

  test('held_messages_up_to_the_prefetch_stop_the_queue_and_health_says_so', async () => {
    const { queue, bridge } = await bridged(['--prefetch', '2']);
    await rabbit.publish(['x', 'y', '3'].map((body) => ({ routingKey: queue, body })));
    await bridge.said(/nothing more comes/);
    assert.equal((await bridge.get('/health')).status, 503);
    await bridge.stop();
    assert.equal((await rabbit.take(queue, 3)).length, 3);
    bridge.remove();
  });

  test('connections_that_are_cut_lose_nothing_and_with_ids_double_nothing', async () => {
    const wire = await new Wire(broker.port).listen();
    const toServer = await new Wire(server.port).listen();
    const { queue, bridge } = await bridged([], { port: wire.port, url: `http://127.0.0.1:${toServer.port}` });
    let sent = 0;
    for (let round = 0; round < 8; round++) {
      await rabbit.publish(Array.from({ length: 200 }, () =>
        ({ routingKey: queue, body: `${++sent}`, properties: { message_id: `m${sent}` } })));
      wire.cut();
      toServer.cut();
      await bridge.said(new RegExp(`(connected[^]*){${round + 1}}`));
    }
    const counted = async () => (await server.get(`/jobs/count?queue=${queue}`)).json.count;
    await until('all are there', async () => await counted() >= sent);
    await assertDrained(queue);
    assert.equal(await counted(), sent);
    await bridge.stop();
    bridge.remove();
    await wire.close();
    await toServer.close();
  });

  test('while_the_server_is_away_messages_stay_at_rabbitmq', async () => {
    const own = await new Server().start();
    const wire = await new Wire(own.port).listen();
    const { queue, bridge } = await bridged([], { url: `http://127.0.0.1:${wire.port}` });
    await bridge.said(/connected/);
    await own.signal('SIGKILL');
    await rabbit.publish(Array.from({ length: 50 }, (_, i) => ({ routingKey: queue, body: `${i}` })));
    await bridge.said(/it is tried again until it works/);
    assert.equal((await bridge.get('/health')).status, 503);
    assert.match(await broker.ctl('list_queues', 'name', 'messages'), new RegExp(`^${queue}\\s+50$`, 'm'));
    await own.start();
    wire.target = own.port;
    await bridge.said(/answers again/);
    await assertDrained(queue);
    // The request that was repeated has made no second jobs, though the messages have no ids.
    assert.equal((await own.get(`/jobs/count?queue=${queue}`)).json.count, 50);
    await bridge.stop();
    bridge.remove();
    await wire.close();
    await own.clean();
  });

  test('a_queue_that_does_not_exist_is_waited_for_or_declared', async () => {
    const queue = queueName('in');
    const bridge = new Bridge(broker.port, server.url(), ['--from-rabbitmq', queue, '--to', queue]).start();
    await bridge.said(/404 NOT_FOUND - no queue/);
    assert.equal((await bridge.get('/health')).status, 503);
    const declaring = new Bridge(broker.port, server.url(),
      ['--from-rabbitmq', queue, '--to', queue, '--declare']).start();
    await declaring.said(/connected/);
    await bridge.said(/connected/);
    assert.equal(await rabbit.count(queue), 0); // durable, as the client asks for it
    await rabbit.queue(queue);
    for (const b of [bridge, declaring]) {
      await b.stop();
      b.remove();
    }
  });

  test('an_end_in_good_order_doubles_nothing_even_without_ids', async () => {
    const { queue, bridge } = await bridged();
    let sent = 0;
    for (let round = 0; round < 6; round++) {
      await rabbit.publish(Array.from({ length: 1500 }, () => ({ routingKey: queue, body: `${++sent}` })));
      await bridge.stop();
      bridge.start();
    }
    await assertDrained(queue);
    await bridge.stop();
    assert.equal((await server.get(`/jobs/count?queue=${queue}`)).json.count, sent);
    assert.equal(await rabbit.count(queue), 0);
    bridge.remove();
  });

  test('a_wrong_password_is_told_without_it_and_none_may_be_an_argument', async () => {
    const bridge = new Bridge(broker.port, server.url(), ['--from-rabbitmq', 'q', '--to', 'q'],
      { env: { TENAX_AMQP_PASSWORD: 'sesame' } }).start();
    await bridge.said(/ACCESS_REFUSED/);
    await bridge.stop();
    assert.doesNotMatch(bridge.errors, /sesame/);
    bridge.remove();
    const wrong = new Bridge(broker.port, server.url(), ['--from-rabbitmq', 'q', '--to', 'q',
      '--amqp', `amqp://me:sesame@127.0.0.1:${broker.port}`]).start();
    assert.equal(await wrong.exited, 2);
    assert.match(wrong.errors, /no password in an argument/);
    assert.doesNotMatch(wrong.errors, /sesame/);
    wrong.remove();
  });
});
