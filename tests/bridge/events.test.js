// SPDX-License-Identifier: Apache-2.0
// Events of a real server on exchanges of a real RabbitMQ, Taskcluster's among them.
'use strict';

const assert = require('node:assert/strict');
const { test, before, after, describe } = require('node:test');
const { startBroker, Wire } = require('../amqp/broker.js');
const { Bridge, Rabbit, Server, killAll, queueName, until } = require('./harness.js');
const { assertSchema, client, definition, slugid } = require('../http/taskcluster.js');

const PREFIX = 'exchange/taskcluster-queue/v1/';

describe('events on exchanges of RabbitMQ', () => {
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

  const listener = async (bindings) => {
    const queue = queueName('listener');
    await rabbit.queue(queue, { bindings });
    return queue;
  };

  const finish = async (bridge) => {
    await bridge.stop();
    bridge.remove();
  };

  test('events_come_in_order_with_their_numbers_and_by_their_routing_keys', async () => {
    await rabbit.exchange('events');
    const all = await listener([['events', '#']]);
    const dead = await listener([['events', '*.job_dead']]);
    const bridge = new Bridge(broker.port, server.url(), ['--events', '--to-exchange', 'events']).start();
    await bridge.said(/events are published from/);
    const queue = queueName('q');
    await server.enqueue({ queue, payload: 1 });
    const job = await server.claimOne(queue);
    await server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'no', kill: true });
    const found = await rabbit.take(all, 3);
    const events = found.map((m) => JSON.parse(m.text));
    assert.deepEqual(events.map((e) => e.event), ['job_enqueued', 'job_taken', 'job_dead']);
    assert.deepEqual(found.map((m) => m.properties.message_id), events.map((e) => e.cursor));
    assert.deepEqual(found.map((m) => m.routingKey), events.map((e) => `${queue}.${e.event}`));
    assert.equal(found[0].properties.delivery_mode, 2);
    assert.equal((await rabbit.take(dead, 1))[0].routingKey, `${queue}.job_dead`);
    const history = await server.history(`&queue=${queue}`);
    assert.deepEqual(events, history);
    await finish(bridge);
    const later = new Bridge(broker.port, server.url(), ['--events', '--to-exchange', 'events',
      '--events-since', events[0].cursor]).start();
    assert.deepEqual((await rabbit.take(all, 2)).map((m) => m.properties.message_id),
      events.slice(1).map((e) => e.cursor));
    await finish(later);
  });

  test('only_those_that_are_asked_for_and_events_that_nobody_hears_hold_up_nothing', async () => {
    const queue = queueName('q');
    const bridge = new Bridge(broker.port, server.url(), ['--events', '--to-exchange', 'quiet', '--declare',
      '--filter-queue', queue, '--filter-event', 'job_enqueued', '--events-since', '0']).start();
    await bridge.said(/connected/);
    const ids = await server.enqueueMany(Array.from({ length: 50 }, () => ({ queue })));
    await server.enqueue({ queue: `${queue}-other` });
    await until('they are published', async () => await bridge.metric('events_published_total') === 50);
    const heard = await listener([['quiet', `${queue}.*`]]);
    await server.claimOne(queue);
    ids.push((await server.enqueue({ queue })).id);
    const [message] = await rabbit.take(heard, 1);
    assert.equal(JSON.parse(message.text).id, ids[50]);
    await finish(bridge);
  });

  test('a_bridge_goes_on_where_it_was_over_its_own_end_and_kill', async () => {
    const all = await listener([['amq.topic', '#']]);
    const bridge = new Bridge(broker.port, server.url(), ['--events', '--to-exchange', 'amq.topic',
      '--filter-event', 'job_enqueued']).start();
    await bridge.said(/events are published from/);
    const queue = queueName('q');
    const heard = [];
    const ids = [];
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM', 'SIGKILL']) {
      for (let i = 0; i < 10; i++)
        ids.push(...await server.enqueueMany(Array.from({ length: 30 }, () => ({ queue }))));
      await bridge.end(signal);
      ids.push((await server.enqueue({ queue })).id); // while it is away
      bridge.errors = '';
      bridge.start();
      await bridge.said(/events are published from/);
    }
    await until(() => `${ids.length} events`, async () => {
      heard.push(...(await rabbit.drain(all)).map((m) => JSON.parse(m.text)));
      return new Set(heard.map((e) => e.id)).size === ids.length;
    });
    assert.deepEqual([...new Set(heard.map((e) => e.id))], ids); // in their order
    await finish(bridge);
  });

  test('a_broker_that_is_away_or_slow_holds_no_more_than_a_window_and_loses_nothing', async () => {
    const wire = await new Wire(broker.port).listen();
    const all = await listener([['amq.topic', '#']]);
    const queue = queueName('q');
    const bridge = new Bridge(wire.port, server.url(), ['--events', '--to-exchange', 'amq.topic',
      '--filter-queue', queue]).start();
    await bridge.said(/events are published from/);
    wire.refuse(true);
    wire.cut();
    await bridge.said(/tried again until/);
    for (let i = 0; i < 10; i++)
      await server.enqueueMany(Array.from({ length: 1000 }, () => ({ queue })));
    assert.equal((await bridge.get('/health')).status, 503);
    wire.refuse(false);
    const heard = new Set();
    await until(() => `10000 events, not ${heard.size}`, async () => {
      const before = heard.size;
      for (const m of await rabbit.drain(all)) heard.add(m.properties.message_id);
      if (heard.size > before) wire.cut(); // else it might never come so far as to publish
      return heard.size === 10000;
    });
    await finish(bridge);
    await wire.close();
  });

  test('a_queue_that_refuses_is_waited_for', async () => {
    await rabbit.exchange('narrow');
    const queue = queueName('q');
    const narrow = queueName('narrow');
    await rabbit.queue(narrow, { bindings: [['narrow', '#']],
      arguments: { 'x-max-length': 5, 'x-overflow': 'reject-publish' } });
    const bridge = new Bridge(broker.port, server.url(), ['--events', '--to-exchange', 'narrow',
      '--filter-queue', queue]).start();
    await bridge.said(/events are published from/);
    const ids = await server.enqueueMany(Array.from({ length: 40 }, () => ({ queue })));
    await bridge.said(/RabbitMQ has refused event/);
    assert.equal((await bridge.get('/health')).status, 503);
    const heard = new Set();
    await until(() => `40 events, not ${heard.size}`, async () => {
      for (const m of await rabbit.drain(narrow)) heard.add(JSON.parse(m.text).id);
      return heard.size === 40;
    });
    assert.deepEqual([...heard].sort(), [...ids].sort());
    await finish(bridge);
  });

  test('events_that_are_gone_are_reported_as_a_gap', async () => {
    const own = await new Server({ args: ['--event-max-bytes', '64KiB'] }).start();
    const wire = await new Wire(own.port).listen();
    const all = await listener([['amq.topic', '#']]);
    const bridge = new Bridge(broker.port, `http://127.0.0.1:${wire.port}`,
      ['--events', '--to-exchange', 'amq.topic', '--events-since', '0']).start();
    await own.enqueue({ queue: 'a' });
    await rabbit.take(all, 1);
    await bridge.stop();
    for (let i = 0; i < 60; i++)
      await own.enqueueMany(Array.from({ length: 1000 }, () => ({ queue: 'a' })));
    bridge.errors = '';
    bridge.start();
    const [, from] = await bridge.said(/events (\d+) to \d+ are no longer kept/);
    assert.equal(Number(from), 2);
    let gap;
    await until('the gap is published', async () => {
      gap ??= (await rabbit.drain(all)).find((m) => m.routingKey === '_.gap');
      return gap;
    });
    assert.equal(JSON.parse(gap.text).from, 2);
    assert.ok(await bridge.metric('events_missed_total') > 0);
    await finish(bridge);
    await wire.close();
    await own.clean();
  });

  test('a_server_with_another_history_is_told_apart_and_followed_from_its_beginning', async () => {
    const first = await new Server().start();
    const second = await new Server().start();
    const wire = await new Wire(first.port).listen();
    const bridge = new Bridge(broker.port, `http://127.0.0.1:${wire.port}`,
      ['--events', '--to-exchange', 'amq.topic', '--events-since', '0']).start();
    await first.enqueue({ queue: 'a' });
    await until('it is published', async () => await bridge.metric('events_place') === 1);
    wire.target = second.port;
    wire.cut();
    await bridge.said(/there is no event [0-9a-f]{16}-1 in this history/);
    await second.enqueue({ queue: 'a' });
    await second.enqueue({ queue: 'a' });
    await until('those of the other server are published',
      async () => await bridge.metric('events_place') === 2);
    await finish(bridge);
    await wire.close();
    await first.clean();
    await second.clean();
  });

  test('taskclusters_messages_reach_listeners_that_bind_as_its_reference_says', async () => {
    const { Queue, createClient } = await client;
    const tc = new Queue({ rootUrl: server.url(), retries: 0 });
    const bridge = new Bridge(broker.port, server.url(),
      ['--events', '--messages', 'taskcluster', '--declare']).start();
    await bridge.said(/connected/);
    await bridge.said(/events are published from/);
    const reference = await (await fetch(`${server.url()}/references/queue/v1/exchanges.json`)).json();
    const QueueEvents = createClient(reference);
    const events = new QueueEvents({ rootUrl: 'https://tc.example.com' });
    const taskId = await slugid();
    const other = await slugid();
    const bind = (b) => [b.exchange, b.routingKeyPattern];
    const mine = await listener([bind(events.taskDefined({ taskId })), bind(events.taskPending({ taskId })),
      bind(events.taskRunning({ taskId })), bind(events.taskCompleted({ taskId })),
      [`${PREFIX}task-completed`, `primary.${other}.#`]]);
    const routed = await listener([[`${PREFIX}task-completed`, 'route.index.v1.build']]);
    const task = definition({ routes: ['index.v1.build'] });
    await tc.createTask(taskId, task);
    const work = await tc.claimWork(task.taskQueueId, { workerGroup: 'wg', workerId: 'w-1', tasks: 1 });
    await tc.reportCompleted(taskId, work.tasks[0].runId);
    const found = await rabbit.take(mine, 4);
    assert.deepEqual(found.map((m) => m.exchange.slice(PREFIX.length)),
      ['task-defined', 'task-pending', 'task-running', 'task-completed']);
    for (const m of found) {
      const payload = JSON.parse(m.text);
      const entry = reference.entries.find((e) => e.exchange === m.exchange.slice(PREFIX.length));
      assertSchema(entry.schema.replace(/^v1\//, '').replace('.json#', ''), payload);
      assert.equal(payload.status.taskId, taskId);
      assert.ok(m.routingKey.startsWith(`primary.${taskId}.`));
      assert.equal(m.properties.content_type, 'application/json');
      assert.match(m.properties.message_id, /^[0-9a-f]{16}-\d+\.\d$/);
      assert.deepEqual(m.properties.headers, { CC: ['route.index.v1.build'] });
    }
    const [byRoute] = await rabbit.take(routed, 1);
    assert.equal(byRoute.text, found[3].text);
    await finish(bridge);
  });

  test('taskclusters_messages_go_on_where_they_were_over_an_end_and_a_kill', async () => {
    const { Queue } = await client;
    const tc = new Queue({ rootUrl: server.url(), retries: 0 });
    const bridge = new Bridge(broker.port, server.url(),
      ['--events', '--messages', 'taskcluster', '--declare']).start();
    await bridge.said(/events are published from/);
    const all = await listener([[`${PREFIX}task-defined`, '#'], [`${PREFIX}task-pending`, '#']]);
    const create = async () => {
      const taskId = await slugid();
      await tc.createTask(taskId, definition({}));
      return taskId;
    };
    const tasks = [];
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGKILL']) {
      for (let i = 0; i < 20; i++) tasks.push(await create());
      await bridge.end(signal);
      tasks.push(await create()); // while it is away
      bridge.errors = '';
      bridge.start();
      await bridge.said(/events are published from/);
    }
    const heard = new Map(); // what may come twice has the same id
    await until(() => `${2 * tasks.length} messages, not ${heard.size}`, async () => {
      for (const m of await rabbit.drain(all)) heard.set(m.properties.message_id, m);
      return heard.size >= 2 * tasks.length;
    });
    const of = (name) => [...heard.values()].filter((m) => m.exchange === PREFIX + name)
      .map((m) => JSON.parse(m.text).status.taskId);
    assert.deepEqual(of('task-defined'), tasks);
    assert.deepEqual(of('task-pending'), tasks);
    await finish(bridge);
  });
});
