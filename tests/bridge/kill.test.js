// SPDX-License-Identifier: Apache-2.0
// All ways at once in one bridge, while bridge, server, broker and connections are killed at random.
// A ledger of what was confirmed to somebody decides: nothing is lost, nothing with a key is twice.
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { startBroker, Wire } = require('../amqp/broker.js');
const { Bridge, Rabbit, Server, killAll, until } = require('./harness.js');

const ROUNDS = Number(process.env.ROUNDS || 14);
const seed = Number(process.env.SEED || Date.now() % 1e9);

// mulberry32
let state = seed;
function random(n) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}

test(`nothing_is_lost_and_nothing_with_a_key_is_twice (SEED=${seed})`, async (t) => {
  const broker = await startBroker();
  const rabbit = new Rabbit(broker.port);
  const server = await new Server({ env: { TENAX_DEFAULT_COMPLETED_JOB_RETENTION: '1h',
    TENAX_DEFAULT_COMPLETED_JOB_LIMIT: '0' } }).start();
  const toServer = await new Wire(server.port).listen();
  const toBroker = await new Wire(broker.port).listen();
  t.after(async () => {
    killAll();
    rabbit.close();
    await toServer.close();
    await toBroker.close();
    await server.clean();
    await broker.stop();
  });

  for (const q of ['in', 'out']) await rabbit.queue(q);
  await rabbit.exchange('events');
  await rabbit.queue('heard', { bindings: [['events', '#']] });
  const bridge = new Bridge(toBroker.port, `http://127.0.0.1:${toServer.port}`,
    ['--from-rabbitmq', 'in', '--to', 'in', '--from', 'out', '--to-rabbitmq', 'out', '--events',
      '--to-exchange', 'events', '--events-since', '0', '--lease', '10s'], { name: 'ledger' });
  bridge.start();

  const sent = new Set(); // ids of messages that RabbitMQ has confirmed
  const stored = new Set(); // ids of jobs that the server has acknowledged
  const published = []; // what came out, by job
  const heard = []; // numbers of events
  let n = 0;

  const load = async () => {
    for (let i = 0; i < 4; i++) {
      const ids = Array.from({ length: 1 + random(100) }, () => `m${++n}`);
      const { error } = await rabbit.tryToPublish(ids.map((id) =>
        ({ routingKey: 'in', body: `"${id}"`, properties: { message_id: id, delivery_mode: 2 } })));
      if (!error) ids.forEach((id) => sent.add(id));
      const jobs = Array.from({ length: 1 + random(100) }, () =>
        ({ queue: 'out', type: 't', payload: ++n, retry_limit: 100 }));
      try {
        const res = await server.post('/jobs/bulk', { jobs });
        if (res.status === 201) res.json.jobs.forEach((j) => stored.add(j.id));
      } catch { /* the server was killed: whether it has them is not known */ }
    }
  };
  const collect = async () => {
    const out = await rabbit.try({ do: 'drain', queue: 'out', max: 500 });
    for (const m of out.is ?? []) published.push(m.properties.message_id);
    const ev = await rabbit.try({ do: 'drain', queue: 'heard', max: 2000 });
    for (const m of ev.is ?? []) heard.push(Number(m.properties.message_id.split('-')[1]));
  };

  const faults = {
    async bridge() {
      await bridge.kill();
      bridge.start();
    },
    async server() {
      await server.signal('SIGKILL');
      await server.start();
      toServer.target = server.port;
      toServer.cut();
    },
    async broker() { await broker.restart('SIGKILL'); },
    async cuts() {
      toBroker.cut();
      toServer.cut();
    },
  };
  const names = ['bridge', 'bridge', 'server', 'server', 'cuts', 'cuts'];
  for (let round = 0; round < ROUNDS; round++) {
    const name = round % 7 === 3 ? 'broker' : names[random(names.length)];
    t.diagnostic(`round ${round}: ${name}`);
    await Promise.all([load().then(collect), faults[name]()]);
  }

  const counted = async (query) => (await server.get(`/jobs/count?${query}`)).json.count;
  await until(() => `everything has come: ${bridge.errors.slice(-3000)}`, async () => {
    await collect();
    return await rabbit.count('in') === 0 && await counted('queue=out&status=ready,scheduled,in_flight') === 0;
  });
  // Nothing is under way at RabbitMQ either: the bridge has acknowledged what it has.
  await bridge.stop();
  assert.equal(await rabbit.count('in'), 0);
  bridge.start();
  const last = (await server.history()).at(-1).number;
  await until(() => `event ${last}`, async () => {
    await collect();
    return heard.includes(last);
  });
  await collect();

  const jobs = [];
  for (let page = '/jobs?queue=in&limit=2000'; page;) {
    const { json } = await server.get(page);
    jobs.push(...json.jobs.map((j) => j.unique_key));
    page = json.pages.next;
  }
  const known = new Set(jobs);
  assert.equal(known.size, jobs.length, 'no message became two jobs');
  for (const id of sent) assert.ok(known.has(`rabbitmq:/:in:${id}`), `message ${id} is lost`);

  const out = new Set(published);
  for (const id of stored) assert.ok(out.has(id), `job ${id} was not published`);
  assert.equal(await counted('queue=out&status=dead'), 0);

  const first = [...new Set(heard)];
  assert.deepEqual(first, Array.from({ length: last }, (_, i) => i + 1), 'all events, in order');
  t.diagnostic(`${sent.size} messages, ${jobs.length} jobs of them; ${stored.size} jobs, ` +
    `${published.length} messages of them; ${last} events, published ${heard.length} times`);
  await bridge.stop();
  bridge.remove();
});
