// SPDX-License-Identifier: Apache-2.0
// The room amqp/ against a real RabbitMQ, through a wire that is cut and frozen.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { test, before, after, describe } = require('node:test');
const { startBroker, until, Wire } = require('./broker.js');

const build = path.dirname(path.resolve(process.env.TENAX_BIN || 'build/tenax'));
const PROBE = path.join(build, 'tests', 'amqp', 'amqp_probe');

const probes = new Set();

class Probe {
  constructor(addresses, { prefetch = 20, stall = 60000, queues = [], env = {} } = {}) {
    this.lines = [];
    this.rest = '';
    this.errors = '';
    this.child = spawn(PROBE, [addresses, String(prefetch), String(stall), ...queues],
      { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    this.child.stderr.on('data', (d) => { this.errors += d; });
    this.child.stdout.on('data', (d) => {
      const parts = (this.rest + d).split('\n');
      this.rest = parts.pop();
      this.lines.push(...parts);
    });
    this.exited = new Promise((done) => this.child.on('exit', (code, signal) => done(code ?? signal)));
    this.child.stdin.on('error', () => {}); // what it has to say is its exit code
    probes.add(this);
  }

  say(line) { this.child.stdin.write(`${line}\n`); }

  all(start) { return this.lines.filter((l) => l.startsWith(start)); }

  saw(start, count = 1) {
    return until(() => `${count} × "${start}" in\n${this.lines.slice(-20).join('\n')}\n${this.errors}`,
      () => this.all(start).length >= count && this.all(start));
  }

  async stats() {
    const n = this.all('stats').length;
    this.say('stats');
    const [, connections, stalls, connected, blocked] =
      (await this.saw('stats', n + 1)).at(-1).split(' ').map(Number);
    return { connections, stalls, connected: !!connected, blocked: !!blocked };
  }

  async close() {
    this.say('close');
    assert.strictEqual(await this.exited, 0, this.errors);
    probes.delete(this);
  }
}

describe('a link to a RabbitMQ', () => {
  let broker;
  let wire;
  before(async () => {
    broker = await startBroker();
    wire = await new Wire(broker.port).listen();
    // Queues are declared with the broker's own tool, so that nothing here is tested by itself.
    for (const q of ['work', 'other', 'slow'])
      await broker.ctl('eval', `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${q}">>), ` +
        'true, false, [], none, <<"tests">>).');
  });
  after(async () => {
    for (const p of probes) p.child.kill('SIGKILL'); // of tests that failed
    await wire.close();
    await broker.stop();
  });

  test('what is published is confirmed, delivered with its headers, and settled', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`, { queues: ['work', 'other'] });
    await p.saw('up');
    for (let i = 1; i <= 50; i++) p.say(`publish ${i}  work -1 {"n":${i}}`);
    await p.saw('published', 50);
    assert.deepStrictEqual(p.all('published').map((l) => l.split(' ')[2]),
      Array(50).fill('confirmed'));
    // 20 unsettled at most; the rest follows as they are settled.
    await p.saw('delivered', 20);
    for (let i = 1; i <= 50; i++) {
      await p.saw(`delivered ${i} `);
      p.say(`ack ${i}`);
    }
    assert.strictEqual(p.all('delivered 50 ')[0], 'delivered 50 0 0 7 0 {"n":50}');
    p.say('publish 51  other -1 x');
    assert.match((await p.saw('delivered 51 '))[0], /^delivered 51 1 0 7 0 x$/);
    p.say('requeue 51');
    assert.match((await p.saw('delivered 52 '))[0], /^delivered 52 1 1 7 0 x$/);
    p.say('ack 52');
    await p.close();
    assert.match(await broker.ctl('list_queues', 'name', 'messages'), /^work\s+0$/m);
  });

  test('a message that no queue takes is told as unroutable', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`);
    await p.saw('up');
    p.say('publish 7  nobody -1 x');
    p.say('publish 8  slow -1 y');
    assert.deepStrictEqual(await p.saw('published', 2),
      ['published 7 unroutable', 'published 8 confirmed']);
    await p.close();
  });

  test('an exchange that does not exist ends the connection with the broker\'s words', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`);
    await p.saw('up');
    p.say('publish 1 missing key -1 x');
    assert.match((await p.saw('down'))[0], /404 NOT_FOUND - no exchange 'missing'/);
    await p.close();
  });

  test('a connection that is cut is made again, and nothing is lost', async () => {
    const p = new Probe(`127.0.0.1:${wire.port}`, { queues: ['work'], prefetch: 1000 });
    await p.saw('up');
    let sent = 0;
    for (let round = 1; round <= 5; round++) {
      for (let i = 0; i < 100; i++) p.say(`publish ${++sent}  work -1 m${sent}`);
      wire.cut();
      await p.saw('up', round + 1);
    }
    await p.saw('published', sent);
    await until('all are there', () =>
      new Set(p.all('delivered').map((l) => l.split(' ')[6])).size === sent);
    // Settling deliveries of connections that are gone does no harm.
    const got = p.all('delivered').length;
    for (let i = 1; i <= got; i++) p.say(`ack ${i}`);
    await p.close();
    await until('the queue is empty', async () =>
      /^work\s+0$/m.test(await broker.ctl('list_queues', 'name', 'messages')));
  });

  test('the next address is tried, and a broker that is restarted is found again', async () => {
    const p = new Probe(`127.0.0.1:1,127.0.0.1:${broker.port}`, { queues: ['work'] });
    assert.match((await p.saw('down'))[0], /cannot connect to 127\.0\.0\.1:1/);
    await p.saw('up');
    p.say('publish 1  work -1 kept');
    await p.saw('delivered 1 ');
    await p.saw('published 1 ');
    await broker.restart();
    await p.saw('up', 2);
    assert.match((await p.saw('delivered 2 '))[0], / 1 7 0 kept$/);
    p.say('ack 2');
    await p.close();
  });

  test('a consumer that is deaf though its connection looks healthy is noticed', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`, { queues: ['work'], stall: 2000 });
    await p.saw('up');
    // The broker forgets the consumer without a word, as after a fault of its own.
    await broker.ctl('eval', 'lists:foreach(fun(C) -> Q = proplists:get_value(queue_name, C), ' +
      'P = proplists:get_value(channel_pid, C), T = proplists:get_value(consumer_tag, C), ' +
      '{ok, A} = rabbit_amqqueue:lookup(Q), gen_server2:call(amqqueue:get_pid(A), ' +
      '{basic_cancel, P, T, undefined, <<"tests">>}) end, ' +
      '[C || C <- rabbit_amqqueue:consumers_all(<<"/">>)]).');
    p.say('publish 1  work -1 heard');
    assert.match((await p.saw('down'))[0], /delivers nothing of queue 'work'/);
    await p.saw('delivered 1 ');
    p.say('ack 1');
    assert.strictEqual((await p.stats()).stalls, 1);
    await p.close();
  });

  test('a wire that passes nothing on is noticed by heartbeats', async () => {
    const p = new Probe(`127.0.0.1:${wire.port}`, { queues: ['work'],
      env: { PROBE_HEARTBEAT: '2000', PROBE_CONNECT_TIMEOUT: '5000' } });
    await p.saw('up');
    wire.freeze();
    await p.saw('down');
    wire.thaw();
    await p.saw('up', 2);
    await p.close();
  });

  test('a queue that is deleted cancels its consumer, and is waited for', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`, { queues: ['other'] });
    await p.saw('up');
    await broker.ctl('delete_queue', 'other');
    assert.match((await p.saw('down'))[0], /canceled the consumer of queue 'other'/);
    assert.match((await p.saw('down', 2))[1], /404 NOT_FOUND - no queue 'other'/);
    await broker.ctl('eval', 'rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"other">>), ' +
      'true, false, [], none, <<"tests">>).');
    await p.saw('up', 2);
    await p.close();
  });

  test('a broker that takes no messages for want of memory holds up nobody', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`);
    await p.saw('up');
    await broker.ctl('set_vm_memory_high_watermark', '0.0000001');
    p.say('publish 1  slow -1 x');
    await until('it is blocked', async () => (await p.stats()).blocked);
    for (let i = 2; i < 2000; i++) p.say(`publish ${i}  slow -1 ${'x'.repeat(2000)}`);
    assert.strictEqual((await p.stats()).connected, true);
    await broker.ctl('set_vm_memory_high_watermark', '0.6');
    await p.saw('published', 1999);
    await p.close();
  });

  test('wrong passwords and virtual hosts are told, the password is not', async () => {
    const p = new Probe(`127.0.0.1:${broker.port}`, { env: { PROBE_PASSWORD: 'sesame' } });
    const [why] = await p.saw('down');
    assert.match(why, /ACCESS_REFUSED/);
    assert.doesNotMatch(why, /sesame/);
    await p.close();
    const q = new Probe(`127.0.0.1:${broker.port}`, { env: { PROBE_VHOST: '/none' } });
    assert.match((await q.saw('down'))[0], /cannot log in.*(530|NOT_ALLOWED|vhost)/);
    await q.close();
  });
});
