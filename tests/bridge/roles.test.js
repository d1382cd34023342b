// SPDX-License-Identifier: Apache-2.0
// `tenax bridge rabbitmq` by every role, with a token by a variable, in a file or by an option, for all queues,
// its own or others, and without: what it may moves, over a restart of the server too; what it may not
// waits, and is said once.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test, before, after, describe } = require('node:test');
const { startBroker } = require('../amqp/broker.js');
const { bearer, create } = require('../http/access');
const { Recorder } = require('../http/recorder');
const { ownAddress } = require('../http/harness');
const { Bridge, Rabbit, Server, killAll, until } = require('./harness.js');

const LACKS = (right) => new RegExp(`lack the right '${right}'.*it is tried again`);
// [way, roles, queues, how it gets the token, what it says if it may not]
const BRIDGES = [
  ['in', ['producer'], null, 'variable'], ['in', ['producer'], ['mail*'], 'file'], ['in', ['operator'], null, 'option'],
  ['in', ['viewer'], null, 'variable', LACKS('enqueue')], ['in', ['worker'], null, 'variable', LACKS('enqueue')],
  ['in', ['producer'], ['pay*'], 'variable', /limited to other queues than 'mail-\d+'.*it is tried again/],
  ['out', ['worker'], null, 'variable'], ['out', ['worker'], ['mail*'], 'file'], ['out', ['admin'], null, 'option'],
  ['out', ['viewer'], null, 'variable', LACKS('work')], ['out', ['producer'], null, 'variable', LACKS('work')],
  ['out', ['worker'], ['pay*'], 'variable', /limited to other queues than 'mail-\d+'.*it is tried again/],
  ['out', null, null, 'none', /this request needs credentials.*it is tried again/],
  ['events', ['viewer'], null, 'variable'], ['events', ['worker'], ['mail*'], 'file'],
  ['events', null, null, 'none', /this request needs credentials.*it is tried again/],
];

describe('a bridge', () => {
  const address = ownAddress();
  const server = new Server({ args: ['--host', address] });
  const bridges = [];
  let broker, rabbit, proxy, admin;

  async function begin([way, roles, queues, how, refusal], number) {
    const [queue, at] = [`mail-${number}`, `q-${number}`];
    if (way === 'events') await rabbit.exchange(`events-${number}`);
    await rabbit.queue(at, way === 'events' ? { bindings: [[`events-${number}`, `mail-${number}.job_enqueued`]] } : {});
    const token = roles && await create(server, { roles, queues: queues ?? undefined }, admin);
    const args = { in: ['--from-rabbitmq', at, '--to', queue, '--type', 't'], out: ['--from', queue, '--to-rabbitmq', at],
      events: ['--events', '--to-exchange', `events-${number}`] }[way];
    // What is refused is asked for again and again: the proxy counts that.
    const bridge = new Bridge(broker.port, refusal ? proxy.url() : server.url(), args, { name: `b-${number}` });
    const file = path.join(bridge.dir, 'token');
    if (token) fs.writeFileSync(file, token, { mode: 0o600 });
    Object.assign(bridge.env, { variable: { TENAX_TOKEN: token }, file: { TENAX_TOKEN_FILE: file } }[how]);
    if (how === 'option') bridge.args.push('--token-file', file);
    bridges.push({ way, queue, at, refusal, bridge: bridge.start() });
  }

  const post = (target, body) => server.request('POST', target, body, admin);
  const count = async (queue) => (await server.get(`/jobs/count?queue=${queue}`, admin)).json.count;

  // One message each way of those that may.
  async function moves() {
    for (const { way, queue, at } of bridges) {
      if (way === 'in') await rabbit.publish([{ exchange: '', routingKey: at, body: { n: 1 }, properties: { message_id: `${at}-${Math.random()}` } }]);
      else assert.equal((await post('/jobs', { queue, type: 't', payload: { n: 1 } })).status, 201);
    }
    for (const { way, queue, at, refusal, bridge } of bridges.filter((one) => !one.refusal)) {
      if (way === 'in') {
        await until(() => `a job in ${queue}\n${bridge.errors}`, async () => await count(queue) > 0);
        await server.request('DELETE', `/jobs?queue=${queue}`, undefined, admin);
      } else await rabbit.take(at, 1);
    }
  }

  before(async () => {
    [broker] = await Promise.all([startBroker(), server.start()]);
    rabbit = new Rabbit(broker.port);
    proxy = await new Recorder(server).start();
    admin = bearer(await create(server, { roles: ['admin'] }, {}));
    for (const [number, row] of BRIDGES.entries()) await begin(row, number);
    for (const { way, bridge } of bridges) if (way === 'events') await bridge.said(/events are published from|tried again/);
  });
  after(async () => {
    killAll();
    for (const { bridge } of bridges) bridge.remove();
    proxy.stop();
    rabbit.close();
    await broker.stop();
    await server.clean();
  });

  test('moves_what_its_token_may_and_says_once_why_not', async () => {
    await moves();
    for (const { bridge, refusal } of bridges.filter((one) => one.refusal)) await bridge.said(refusal);
    // Each has tried several times by then.
    const refused = bridges.filter((one) => one.refusal).length;
    await until(() => 'they try again', () => proxy.requests.length > 4 * refused);
    for (const { bridge, refusal } of bridges.filter((one) => one.refusal)) {
      assert.equal(bridge.errors.match(/it is tried again/g).length, 1, bridge.errors);
      assert.doesNotMatch(bridge.errors, /answers again/);
      assert.equal((await bridge.get('/health')).status, 503, `${refusal}`);
    }
    for (const { bridge } of bridges.filter((one) => !one.refusal)) assert.doesNotMatch(bridge.errors, /tried again/);
  });

  test('goes_on_after_a_restart_of_the_server', async () => {
    const { port } = server;
    await server.signal('SIGKILL');
    await server.start({ args: ['--host', address, '--port', String(port)] });
    await moves();
    for (const { bridge } of bridges) assert.equal(bridge.child.exitCode, null, bridge.errors);
  });
});
