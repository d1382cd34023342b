// SPDX-License-Identifier: Apache-2.0
// A bridge to a RabbitMQ that speaks TLS and wants a certificate of its clients.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { startBroker } = require('../amqp/broker.js');
const { Bridge, Rabbit, Server, killAll, run } = require('./harness.js');

test('certificates_are_verified_and_presented', async (t) => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bridge-tls-'));
  const { code, stderr } = await run(['tls', 'init', '--out-dir', dir, '--san', 'localhost', '--client', 'bridge']);
  assert.equal(code, 0, stderr);
  const file = (name) => path.join(dir, name);
  const broker = await startBroker({ tls: { ca: file('ca-cert.pem'), cert: file('server-cert.pem'),
    key: file('server-key.pem'), clientCert: true } });
  const rabbit = new Rabbit(broker.port);
  const server = await new Server().start();
  t.after(async () => {
    killAll();
    rabbit.close();
    await broker.stop();
    await server.clean();
    fs.rmSync(dir, { recursive: true });
  });
  await rabbit.queue('q');
  await rabbit.publish([{ routingKey: 'q', body: '1' }]);
  const bridge = (args, host = 'localhost') => new Bridge(0, server.url(), ['--from-rabbitmq', 'q', '--to', 'q',
    '--amqp', `amqps://guest@${host}:${broker.tlsPort}`, ...args]).start();

  const trusting = ['--amqp-ca-cert', file('ca-cert.pem')];
  const mine = ['--amqp-client-cert', file('client-bridge-cert.pem'),
    '--amqp-client-key', file('client-bridge-key.pem')];
  // The certificate is for a name, not for this address.
  for (const [args, host] of [[mine], [trusting], [[...trusting, ...mine], '127.0.0.1']]) {
    const b = bridge(args, host);
    await b.said(/tried again until it works/);
    assert.doesNotMatch(b.errors, /connected/);
    await b.stop();
    b.remove();
  }
  const b = bridge([...trusting, ...mine]);
  await b.said(/connected/);
  const [job] = await server.claim({ queues: ['q'], wait_ms: 60000 });
  assert.equal(job.payload, 1);
  await b.stop();
  b.remove();
});
