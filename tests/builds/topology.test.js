// SPDX-License-Identifier: Apache-2.0
// `tenax build-worker`: its settings, and its topology compared with a real RabbitMQ's.
'use strict';

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test, before, after, describe } = require('node:test');
const { startBroker } = require('../amqp/broker.js');

const BIN = path.resolve(process.env.TENAX_BIN || 'build/tenax');

function run(args, env = {}) {
  return new Promise((done) => {
    execFile(BIN, ['build-worker', ...args], { env: { PATH: process.env.PATH, ...env } },
      (e, out, err) => done({ code: e ? e.code : 0, out, err }));
  });
}

// The queues as seed 000 gives them, by other names.
const EXPECTED = {
  sd: { 'x-dead-letter-exchange': 'build', 'x-dead-letter-routing-key': 'sddlr', 'x-max-priority': 3,
    'x-message-ttl': 28800000 },
  sddlr: { 'x-dead-letter-exchange': 'build', 'x-dead-letter-routing-key': 'sd', 'x-max-priority': 3,
    'x-message-ttl': 5000, 'x-queue-mode': 'lazy' },
  sdRetryQueue: { 'x-max-priority': 3, 'x-queue-type': 'classic' },
  'sdRetryQueue-wait': { 'x-dead-letter-exchange': 'build',
    'x-dead-letter-routing-key': 'sdRetryQueue', 'x-max-priority': 3, 'x-queue-type': 'classic' },
  default: {},
};

describe('settings', () => {
  test('come from flag, variable, file and default, and say so; secrets are hidden', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-build-'));
    const file = path.join(folder, 'local.yaml');
    fs.writeFileSync(file, 'rabbitmq:\n  queue: fromFile\n  password: sesame\n  prefetchCount: 7\n' +
      'executor:\n  k8s:\n    options:\n      kubernetes:\n        podLabels: {team: "a"}\n' +
      'somethingElse: {of: theirs}\n');
    const r = await run(['--config', file, '--print-config'],
      { RABBITMQ_PREFETCH_COUNT: '9', RABBITMQ_HOST: '', K8S_TOKEN: 'abc.def' });
    assert.strictEqual(r.code, 0, r.err);
    assert.match(r.out, /^rabbitmq\.queue: "fromFile" {2}# file$/m);
    assert.match(r.out, /^rabbitmq\.prefetchCount: 9 {2}# variable RABBITMQ_PREFETCH_COUNT$/m);
    assert.match(r.out, /^rabbitmq\.host: "127\.0\.0\.1" {2}# default$/m);
    assert.match(r.out, /podLabels: \{"team":\s?"a"\} {2}# file$/m);
    assert.match(r.out, /^rabbitmq\.password: "\(hidden\)" {2}# file$/m);
    assert.doesNotMatch(r.out + r.err, /sesame|abc\.def/);
    fs.rmSync(folder, { recursive: true });
  });

  test('that are wrong are refused by name', async () => {
    const bad = [
      [{ RABBITMQ_PORT: 'abc' }, /RABBITMQ_PORT must be a whole number, not 'abc'/],
      [{ RABBITMQ_RETRYQUEUE_ENABLED: 'perhaps' }, /RABBITMQ_RETRYQUEUE_ENABLED must be true or false/],
      [{ RABBITMQ_CONNECT_OPTIONS: '{"json": ' }, /RABBITMQ_CONNECT_OPTIONS must be a JSON object/],
      [{ K8S_VOLUME_MOUNTS: '{"a": 1}' }, /K8S_VOLUME_MOUNTS must be a JSON array/],
      [{ RABBITMQ_MAIN_TTL: '5 parsecs' }, /RABBITMQ_MAIN_TTL must be a duration/],
      [{ K8S_CPU_LOW: '-1' }, /K8S_CPU_LOW must be a number/],
    ];
    for (const [env, what] of bad) {
      const r = await run(['topology', 'show'], env);
      assert.strictEqual(r.code, 2);
      assert.match(r.err, what);
    }
    for (const [env, what] of [
      [{ RABBITMQ_PROTOCOL: 'http' }, /rabbitmq\.protocol must be amqp or amqps/],
      [{ RABBITMQ_HOST: 'a:b:c' }, /no HOST\[:PORT\]/],
      [{ RABBITMQ_HOST: 'a:99999' }, /no HOST\[:PORT\]/],
      [{ RABBITMQ_PROTOCOL: 'amqps', RABBITMQ_CERT_FILE: 'x' }, /need each other/],
    ]) {
      const r = await run(['topology', 'check'], env);
      assert.strictEqual(r.code, 2, r.err);
      assert.match(r.err, what);
    }
    for (const [env, what] of [
      [{ VERIFY_DELAY: '0' }, /VERIFY_DELAY must be above 0/],
      [{ VERIFY_DELAY: '50d' }, /VERIFY_DELAY must be .*at most 20d/],
      [{ VERIFY_STEP: '50d' }, /VERIFY_STEP must be at most 20d/],
    ]) {
      const r = await run(['--port', '0'], env);
      assert.strictEqual(r.code, 2, r.err);
      assert.match(r.err, what);
    }
    const r = await run(['--config', '/does/not/exist', '--print-config']);
    assert.strictEqual(r.code, 2);
    assert.match(r.err, /cannot read \/does\/not\/exist/);
    assert.match((await run(['topology', 'chekc'])).err, /expected declare, check or show/);
    assert.match((await run(['topologie'])).err, /'topologie': expected nothing, pod, or topology/);
  });
});

describe('topology', () => {
  let broker;
  let env;
  before(async () => {
    broker = await startBroker();
    env = { RABBITMQ_HOST: `127.0.0.1:${broker.port}`, RABBITMQ_USERNAME: 'guest',
      RABBITMQ_PASSWORD: 'guest', RABBITMQ_VIRTUAL_HOST: '/', RABBITMQ_QUEUE: 'sd' };
  });
  after(() => broker.stop());

  const declareQueue = (name, args) => broker.ctl('eval',
    `rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"${name}">>), true, false, ` +
    `[${args}], none, <<"tests">>).`);

  test('user and password have the escapes of a URL, as the original puts them into one', async () => {
    await broker.ctl('add_user', 'a@b', 'p/ss %w:rd%');
    await broker.ctl('set_permissions', 'a@b', '.*', '.*', '.*');
    const mine = { ...env, RABBITMQ_USERNAME: 'a%40b' };
    const good = await run(['topology', 'check'], { ...mine, RABBITMQ_PASSWORD: 'p%2fss %25w:rd%' });
    assert.match(good.out, /does not exist/, good.err);
    const bad = await run(['topology', 'check'], { ...mine, RABBITMQ_PASSWORD: 'p%2fss' });
    assert.deepStrictEqual([bad.code, bad.out], [3, '']);
    assert.match(bad.err, /ACCESS_REFUSED/);
    assert.doesNotMatch(bad.err, /ss/);
  });

  test('show prints what seed 000 has', async () => {
    const shown = JSON.parse((await run(['topology', 'show'], env)).out);
    assert.deepStrictEqual(Object.fromEntries(shown.queues.map((q) => [q.name, q.arguments])),
      EXPECTED);
    assert.ok(shown.queues.every((q) => q.durable && !q.auto_delete && q.vhost === '/'));
    assert.deepStrictEqual(shown.exchanges.map((x) => [x.name, x.type, x.durable]),
      [['build', 'topic', true]]);
    assert.deepStrictEqual(shown.bindings.map((b) => [b.destination, b.routing_key]),
      Object.keys(EXPECTED).map((q) => [q, q]));
  });

  test('names follow the settings', async () => {
    const shown = JSON.parse((await run(['topology', 'show'], { RABBITMQ_QUEUE: 'gq1',
      RABBITMQ_RETRYQUEUE: 'sdretry', RABBITMQ_EXCHANGE: 'builds', RABBITMQ_DEFAULT_QUEUE: 'rest' })).out);
    const of = (name) => shown.queues.find((q) => q.name === name).arguments;
    assert.deepStrictEqual(shown.queues.map((q) => q.name),
      ['gq1', 'gq1dlr', 'sdretry', 'sdretry-wait', 'rest']);
    assert.deepStrictEqual([of('gq1'), of('gq1dlr'), of('sdretry-wait')].map((a) =>
      [a['x-dead-letter-exchange'], a['x-dead-letter-routing-key']]),
    [['builds', 'gq1dlr'], ['builds', 'gq1'], ['builds', 'sdretry']]);
    assert.ok(shown.queues.every((q) => q.vhost === 'screwdriver'));
    assert.deepStrictEqual(shown.exchanges.map((x) => [x.name, x.vhost]), [['builds', 'screwdriver']]);
  });

  test('a queue with other arguments is reported argument by argument, and left alone', async () => {
    await declareQueue('sdRetryQueue', '{<<"x-message-ttl">>, long, 60000}, ' +
      '{<<"x-max-priority">>, long, 10}');
    const r = await run(['topology', 'check'], env);
    assert.strictEqual(r.code, 1, r.err);
    assert.match(r.out, /^build: does not exist$/m);
    assert.match(r.out, /^sd: does not exist$/m);
    assert.match(r.out, /^sdRetryQueue: x-message-ttl should be none, but is 60000$/m);
    assert.match(r.out, /^sdRetryQueue: x-max-priority should be 3, but is 10$/m);
    assert.match(await broker.ctl('list_queues', 'name', 'arguments'),
      /sdRetryQueue.*x-message-ttl.*60000/);
    assert.doesNotMatch(await broker.ctl('list_queues', 'name'), /^sd$/m);
    await broker.ctl('delete_queue', 'sdRetryQueue');
  });

  test('declare makes all of it, once and again; the broker agrees', async () => {
    for (let i = 0; i < 2; i++) {
      const r = await run(['topology', 'declare'], env);
      assert.strictEqual(r.code, 0, r.out + r.err);
      assert.match(r.out, /exchange 'build' and 5 queues are as they should be/);
    }
    assert.strictEqual((await run(['topology', 'check'], env)).code, 0);
    const listed = await broker.ctl('list_queues', '--formatter', 'json', 'name', 'durable',
      'auto_delete', 'arguments');
    for (const q of JSON.parse(listed)) {
      assert.deepStrictEqual(Object.fromEntries(q.arguments.map(([k, , v]) => [k, v])),
        EXPECTED[q.name]);
      assert.strictEqual(q.durable, true);
    }
    const bindings = JSON.parse(await broker.ctl('list_bindings', '--formatter', 'json'));
    assert.deepStrictEqual(bindings.filter((b) => b.source_name === 'build')
      .map((b) => `${b.routing_key} ${b.destination_name}`).sort(),
    Object.keys(EXPECTED).map((q) => `${q} ${q}`).sort());
  });

  test('an exchange of another type, and a queue that is not durable', async () => {
    await broker.ctl('delete_queue', 'default');
    await broker.ctl('eval', 'rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, <<"default">>), ' +
      'false, true, [], none, <<"tests">>).');
    await broker.ctl('eval', 'rabbit_exchange:declare(rabbit_misc:r(<<"/">>, exchange, <<"other">>), ' +
      'direct, true, false, false, [], <<"tests">>).');
    const r = await run(['topology', 'check'], { ...env, RABBITMQ_EXCHANGE: 'other' });
    assert.strictEqual(r.code, 1);
    assert.match(r.out, /^other: type should be topic, but is direct$/m);
    assert.match(r.out, /^default: durable should be true, but is false$/m);
    assert.match(r.out, /^sd: x-dead-letter-exchange should be other, but is build$/m);
  });

  test('a broker that is away, or refuses, is an error of its own', async () => {
    let r = await run(['topology', 'check'], { ...env, RABBITMQ_HOST: '127.0.0.1:1' });
    assert.strictEqual(r.code, 3);
    assert.match(r.err, /cannot connect to 127\.0\.0\.1:1/);
    r = await run(['topology', 'check'], { ...env, RABBITMQ_PASSWORD: 'sesame' });
    assert.strictEqual(r.code, 3);
    assert.match(r.err, /ACCESS_REFUSED/);
    assert.doesNotMatch(r.err, /sesame/);
  });
});
