// SPDX-License-Identifier: Apache-2.0
// TLS to a real RabbitMQ, with certificates made here.
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test, before, after, describe } = require('node:test');
const { startBroker } = require('./broker.js');
const { Program, Worker, killAll, tenax, TESTS } = require('../builds/broker_harness.js');

let folder;
const file = (name) => path.join(folder, name);
const openssl = (...args) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });

function authority(name) {
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-keyout', file(`${name}.key`), '-out', file(`${name}.pem`), '-subj', `/CN=${name}`, '-days', '2');
}

function certificate(name, ca, names, usage) {
  fs.writeFileSync(file(`${name}.ext`), `subjectAltName=${names}\nextendedKeyUsage=${usage}\n`);
  openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-keyout', file(`${name}.key`), '-out', file(`${name}.csr`), '-subj', `/CN=${name}`);
  openssl('x509', '-req', '-in', file(`${name}.csr`), '-CA', file(`${ca}.pem`), '-CAkey',
    file(`${ca}.key`), '-CAcreateserial', '-out', file(`${name}.pem`), '-days', '2',
    '-extfile', file(`${name}.ext`));
}

class Probe extends Program {
  constructor(address, env) {
    super(path.join(TESTS, 'amqp', 'amqp_probe'), [address, '20', '60000'], { PROBE_TLS: '1', ...env });
  }
}

async function connects(address, env) {
  const p = new Probe(address, env);
  await p.saw('up');
  p.say('publish 1  nobody -1 x');
  await p.saw('published 1 unroutable');
  await p.close();
}

async function fails(address, env, why) {
  const p = new Probe(address, env);
  assert.match((await p.saw('down'))[0], why);
  assert.strictEqual(p.all('up').length, 0);
  await p.close();
}

describe('TLS to RabbitMQ', () => {
  let broker;
  let strict;
  let alien;
  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-tls-'));
    authority('ca');
    authority('other');
    certificate('server', 'ca', 'DNS:localhost,IP:127.0.0.1', 'serverAuth');
    certificate('alien', 'ca', 'DNS:rabbit.example.org', 'serverAuth');
    certificate('client', 'ca', 'DNS:worker', 'clientAuth');
    certificate('stranger', 'other', 'DNS:worker', 'clientAuth');
    const tls = (name) => ({ ca: file('ca.pem'), cert: file(`${name}.pem`), key: file(`${name}.key`) });
    broker = await startBroker({ tls: tls('server') });
    strict = await startBroker({ tls: { ...tls('server'), clientCert: true } });
    alien = await startBroker({ tls: tls('alien') });
  });
  after(async () => {
    killAll();
    for (const b of [broker, strict, alien]) if (b) await b.stop();
    fs.rmSync(folder, { recursive: true });
  });

  test('a certificate of the authority, for this host, is accepted', async () => {
    await connects(`localhost:${broker.tlsPort}`, { PROBE_CA: file('ca.pem') });
  });

  test('by its address, too', async () => {
    await connects(`127.0.0.1:${broker.tlsPort}`, { PROBE_CA: file('ca.pem') });
  });

  test('one of another authority is refused, as are the system\'s authorities for it', async () => {
    await fails(`localhost:${broker.tlsPort}`, { PROBE_CA: file('other.pem') }, /certificate|verif|SSL/i);
    await fails(`localhost:${broker.tlsPort}`, {}, /certificate|verif|SSL/i);
  });

  test('one for another host is refused', async () => {
    await fails(`localhost:${alien.tlsPort}`, { PROBE_CA: file('ca.pem') }, /host ?name|certificate|verif/i);
    await fails(`127.0.0.1:${alien.tlsPort}`, { PROBE_CA: file('ca.pem') }, /certificate|verif|SSL/i);
  });

  test('any is accepted when that is asked for', async () => {
    await connects(`localhost:${alien.tlsPort}`, { PROBE_UNVERIFIED: '1' });
    await connects(`localhost:${broker.tlsPort}`,
      { PROBE_UNVERIFIED: '1', PROBE_CA: file('other.pem') });
  });

  test('a certificate of one\'s own is shown to a broker that wants it', async () => {
    const address = `localhost:${strict.tlsPort}`;
    const ca = { PROBE_CA: file('ca.pem') };
    const own = (name) => ({ ...ca, PROBE_CERT: file(`${name}.pem`), PROBE_KEY: file(`${name}.key`) });
    await connects(address, own('client'));
    await fails(address, ca, /cannot log in|cannot connect|SSL|socket|closed/i);
    await fails(address, own('stranger'), /cannot log in|cannot connect|SSL|socket|closed/i);
  });

  test('files that are missing or do not belong together are named', async () => {
    const address = `localhost:${strict.tlsPort}`;
    await fails(address, { PROBE_CA: file('none.pem') }, /none\.pem/);
    await fails(address, { PROBE_CA: file('ca.pem'), PROBE_CERT: file('client.pem'),
      PROBE_KEY: file('server.key') }, /client\.pem.*server\.key/);
  });

  test('a port without TLS is no answer, and does not hang', async () => {
    await fails(`localhost:${broker.port}`, { PROBE_CA: file('ca.pem') }, /cannot connect|SSL/i);
  });

  test('the settings of the build worker lead to all of this', async () => {
    const env = {
      RABBITMQ_PROTOCOL: 'amqps', RABBITMQ_HOST: 'localhost', RABBITMQ_PORT: String(strict.tlsPort),
      RABBITMQ_VIRTUAL_HOST: '//', RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest',
      RABBITMQ_CA_FILE: file('ca.pem'), RABBITMQ_CERT_FILE: file('client.pem'),
      RABBITMQ_KEY_FILE: file('client.key'),
    };
    const good = await tenax(['build-worker', 'topology', 'declare'], env);
    assert.deepStrictEqual([good.code, good.err], [0, ''], good.out);
    const bad = await tenax(['build-worker', 'topology', 'check'],
      { ...env, RABBITMQ_CA_FILE: file('other.pem') });
    assert.deepStrictEqual([bad.code, bad.out], [3, ''], bad.err);
    const any = await tenax(['build-worker', 'topology', 'check'],
      { ...env, RABBITMQ_CA_FILE: file('other.pem'), RABBITMQ_INSECURE: 'true' });
    assert.strictEqual(any.code, 0, any.err);
    const w = new Worker({ ...env, RABBITMQ_RETRYQUEUE_ENABLED: 'true' });
    await w.ready();
    w.say('publish x 0 -1 30 {"buildId":7}');
    await w.saw('published x');
    assert.strictEqual((await w.delivered(1)).body, '{"job":"verify","buildConfig":{"buildId":7}}');
    w.say('ack 1');
    await w.close();
  });
});
