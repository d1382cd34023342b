// SPDX-License-Identifier: Apache-2.0
// The benchmarks against the real servers, in their shortest form: that they run and count, not how
// fast anything is.
'use strict';

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const { startBroker } = require('../amqp/broker.js');

const binary = path.resolve(process.env.TENAX_BIN);
const load = path.join(path.dirname(binary), 'bench/load');
const tools = path.join(__dirname, '../../bench');

function run(program, args, env = {}) {
  return new Promise((done) => {
    execFile(program, args.map(String), { env: { ...process.env, ...env } }, (e, out, err) =>
      done({ code: e ? e.code ?? e.signal : 0, out, err }));
  });
}

async function ok(program, args, env) {
  const r = await run(program, args, env);
  assert.strictEqual(r.code, 0, `${program} ${args.join(' ')}\n${r.out}${r.err}`);
  return r.out;
}

test('Tenax, Redis and beanstalkd run side by side, and the report shows them', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bench-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'peers.json'), doc = path.join(folder, 'doc.md');
  const out = await ok(path.join(tools, 'peers.js'), [binary, load, '--json', file], { BENCH_QUICK: '1', BENCH_RUNS: '1',
    BENCH_SECONDS: '0.1', BENCH_PEERS: 'redis,beanstalkd', BENCH_ROWS: 'enqueue,latency' });
  assert.match(out, /Tenax \/ Redis, jobs a second/);
  const measured = JSON.parse(fs.readFileSync(file, 'utf8'));
  for (const name of ['tenax', 'redis', 'beanstalkd'])
    for (const key of ['enqueue.jobs_per_s', 'enqueue.p99_us', 'latency.p50_us'])
      assert.ok(measured.samples[name][key][0] > 0, `${name} ${key}`);

  fs.writeFileSync(doc, 'before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n');
  await ok(path.join(tools, 'report.js'), ['--into', doc, file]);
  const text = fs.readFileSync(doc, 'utf8');
  assert.match(text, /^before\n<!-- measured -->\n[^]*\| Redis \|[^]*<!-- \/measured -->\nafter\n$/);
  assert.match(text, /Short form/);
  assert.doesNotMatch(text, /old|NaN|undefined/);
});

test('RabbitMQ confirms and delivers every message, of quorum and of classic queues', async (t) => {
  const broker = await startBroker();
  t.after(() => broker.stop());
  for (const kind of ['rabbitmq-quorum', 'rabbitmq-classic']) {
    const common = ['--broker', kind, '--queue', kind, '--port', broker.port, '--json', '--connections', 4];
    const paced = JSON.parse(await ok(load, ['broker-latency', ...common, '--jobs', 100, '--streams', 2]));
    assert.strictEqual(paced.jobs, 100);
    const put = JSON.parse(await ok(load, ['broker-put', ...common, '--jobs', 500, '--depth', 16]));
    assert.strictEqual(put.jobs, 500);
  }
});

test('what is no reply of the protocol ends the generator with a message', async (t) => {
  const server = net.createServer((s) => {
    s.on('error', () => {});
    s.on('data', () => s.write('AMQP 0-9-1, or anything else\n'));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => server.close());
  for (const kind of ['redis', 'beanstalkd']) {
    const r = await run(load, ['broker-put', '--broker', kind, '--port', server.address().port, '--jobs', 10]);
    assert.strictEqual(r.code, 1);
    assert.match(r.err, new RegExp(`^load: ${kind}: AMQP`));
  }
});

test('the report refuses what no benchmark has written', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-bench-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'other.json');
  fs.writeFileSync(file, '{"schema":2,"bench":"run"}');
  const r = await run(path.join(tools, 'report.js'), [file]);
  assert.strictEqual(r.code, 1);
  assert.match(r.err, /not what a benchmark has measured/);
});
