// SPDX-License-Identifier: Apache-2.0
// The build worker's broker over a Tenax server (src/builds/build_tenax.h).
'use strict';

const assert = require('node:assert');
const { test, before, after, describe } = require('node:test');
const { until, Wire } = require('../amqp/broker.js');
const { Server } = require('../http/harness.js');
const { Worker, killAll } = require('./broker_harness.js');

const START = '{"job":"start","buildConfig":{"buildId":7,"token":"sesame"}}';
const CONFIG = '{"buildId":7,"token":"sesame"}';

let server;
let wire;
let names = 0;

function settings(more = {}) {
  return {
    TENAX_BROKER: 'tenax', TENAX_URL: `http://127.0.0.1:${wire.port}/`,
    RABBITMQ_QUEUE: `builds${++names}`, RABBITMQ_RETRYQUEUE: `verify${names}`,
    RABBITMQ_RETRYQUEUE_ENABLED: 'true', VERIFY_DELAY: '1100ms', ...more,
  };
}

const start = (env, more = {}) => server.enqueue({ queue: env.RABBITMQ_QUEUE, type: 'build',
  payload: JSON.parse(START), backoff: { base_ms: 20, exponent: 0, jitter_ms: 0 }, ...more });

async function jobs(queue, query = '') {
  const res = await server.get(`/jobs?queue=${queue}&limit=100${query}`);
  assert.strictEqual(res.status, 200, res.text);
  return res.json.jobs;
}

// Completed jobs may be gone.
const done = (queue) => until('nothing is left to do', async () =>
  (await jobs(queue)).every((j) => j.status === 'completed'));
const ended = (env) => done(`${env.RABBITMQ_QUEUE},${env.RABBITMQ_RETRYQUEUE}`);

describe('the broker of builds over a Tenax server', () => {
  before(async () => {
    server = await new Server().start();
    wire = await new Wire(server.port).listen();
  });
  after(async () => {
    killAll();
    await wire.close();
    await server.clean();
  });

  test('a start is followed by verify jobs, at their time and with what is known', async () => {
    const env = settings();
    const w = new Worker(env);
    await start(env);
    const d = await w.delivered(1);
    assert.deepStrictEqual({ ...d, at: 0 },
      { n: 1, channel: 'main', failures: 0, looks: 0, started: -1, at: 0, body: START });
    w.say(`then 1 3 1700000000123 300 ${CONFIG}`);
    const v = await w.delivered(2);
    assert.deepStrictEqual([v.channel, v.failures, v.looks, v.started], ['ready', 0, 3, 1700000000123]);
    assert.deepStrictEqual(JSON.parse(v.body),
      { job: 'verify', looks: 3, started: 1700000000123, buildConfig: JSON.parse(CONFIG) });
    const [job] = await jobs(env.RABBITMQ_RETRYQUEUE);
    assert.ok(v.at >= job.ready_at, `delivered ${v.at - job.ready_at} ms after its time`);
    w.say(`then 2 4 -1 0 ${CONFIG}`);
    assert.deepStrictEqual([(await w.delivered(3)).looks, (await w.delivered(3)).started], [4, -1]);
    w.say('ack 3');
    w.say(`publish x 5 -1 30 ${CONFIG}`);
    await w.saw('published x');
    await w.delivered(4);
    w.say('ack 4');
    await ended(env);
    await until('it is told', async () => (await w.state()).unsettled === 0);
    assert.deepStrictEqual(await w.state(),
      { consuming: 1, blocked: 0, unsettled: 0, unconfirmed: 0, connections: 1 });
    await w.close();
  });

  test('the server decides when a job has failed too often; then it is exhausted', async () => {
    const env = settings();
    const w = new Worker(env);
    const job = await start(env, { retry_limit: 2 });
    for (let n = 1; n <= 3; n++) {
      assert.strictEqual((await w.delivered(n)).failures, n - 1);
      w.say(`retry ${n} no cluster ${n}`);
    }
    assert.deepStrictEqual(await w.saw('exhausted'), ['exhausted 3 no cluster 3']);
    assert.strictEqual((await server.job(job.id)).status, 'dead');
    w.say('ack 3');
    await until('it is gone', async () => (await jobs(env.RABBITMQ_QUEUE)).length === 0);
    assert.strictEqual((await w.state()).unsettled, 0);
    await w.close();
  });

  test('a verify job that fails is tried again after the delay, up to the limit', async () => {
    const env = settings({ RABBITMQ_MSG_REPROCESS_LIMIT: '1' });
    const w = new Worker(env);
    w.say(`publish x 2 1700000000123 0 ${CONFIG}`);
    await w.delivered(1);
    w.say('retry 1 no cluster');
    const again = await w.delivered(2);
    assert.deepStrictEqual([again.failures, again.looks, again.started], [1, 2, 1700000000123]);
    const { runs } = await server.get(`/jobs/${(await jobs(env.RABBITMQ_RETRYQUEUE))[0].id}/runs`)
      .then((r) => r.json);
    assert.strictEqual(runs[0].retry_at - runs[0].ended_at, 1100);
    w.say('retry 2 no cluster');
    await w.saw('exhausted 2 no cluster');
    w.say('ack 2');
    await until('it is gone', async () => (await jobs(env.RABBITMQ_RETRYQUEUE)).length === 0);
    await w.close();
  });

  test('answers that are lost make no second verify job', async () => {
    const env = settings();
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    wire.freeze('down');
    w.say(`then 1 0 -1 0 ${CONFIG}`);
    w.say(`publish x 1 -1 0 ${CONFIG}`);
    await until('both are there', async () => (await jobs(env.RABBITMQ_RETRYQUEUE)).length === 2);
    wire.cut();
    wire.thaw();
    await w.saw('published x');
    await w.delivered(3);
    await done(env.RABBITMQ_QUEUE);
    for (const n of [2, 3]) w.say(`ack ${n}`);
    await ended(env);
    assert.deepStrictEqual(w.deliveries().map((d) => d.failures), [0, 0, 0]);
    await w.close();
  });

  test('a start that is worked on twice is followed by one verify job', async () => {
    const env = settings();
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    wire.freeze('down'); // the verify job is made, the start is not acknowledged
    w.say(`then 1 0 -1 60000 ${CONFIG}`);
    await until('it is there', async () => (await jobs(env.RABBITMQ_RETRYQUEUE)).length === 1);
    await w.kill();
    wire.cut();
    wire.thaw();
    // As if the lease had run out.
    const [job] = await jobs(env.RABBITMQ_QUEUE);
    const run = (await server.get(`/jobs/${job.id}?runs=true`)).json.runs[0];
    const { token } = (await server.post(`/jobs/${job.id}/claim`, { worker: run.worker })).json;
    assert.strictEqual((await server.post(`/jobs/${job.id}/release`, { token })).status, 204);
    const v = new Worker(env);
    await v.delivered(1);
    v.say(`then 1 0 -1 60000 ${CONFIG}`);
    await done(env.RABBITMQ_QUEUE);
    assert.strictEqual((await jobs(env.RABBITMQ_RETRYQUEUE)).length, 1);
    await v.close();
  });

  test('dead jobs whose builds were not told are exhausted by the next worker', async () => {
    const env = settings();
    const w = new Worker(env);
    await start(env, { retry_limit: 0 });
    await w.delivered(1);
    w.say('retry 1 no cluster');
    await w.saw('exhausted 1');
    await w.kill();
    // And these: one that somebody canceled, one of the other queue, one that nobody can read.
    const canceled = await start(env);
    assert.strictEqual((await server.post(`/jobs/${canceled.id}/cancel`)).status, 200);
    for (const payload of [{ job: 'verify', looks: 3, buildConfig: { buildId: 7 } }, null]) {
      await server.enqueue({ queue: env.RABBITMQ_RETRYQUEUE, type: 'verify', payload, retry_limit: 0 });
      const job = await server.claimOne(env.RABBITMQ_RETRYQUEUE);
      await server.post(`/jobs/${job.id}/failure`, { token: job.token, message: 'lost' });
    }
    const old = new Worker({ ...env, RABBITMQ_MAIN_TTL: '1ms' });
    await old.ready();
    const v = new Worker(env);
    await v.saw('exhausted', 3);
    assert.deepStrictEqual(v.all('exhausted').map((l) => l.split(' ').slice(2).join(' ')).sort(),
      ['lost', 'lost', 'no cluster']);
    for (const n of [1, 2, 3]) v.say(`ack ${n}`);
    await until('they are gone', async () => {
      const left = await jobs(`${env.RABBITMQ_QUEUE},${env.RABBITMQ_RETRYQUEUE}`);
      return left.length === 1 && left[0].id === canceled.id;
    });
    assert.strictEqual(v.deliveries().length, 0);
    assert.strictEqual(old.all('exhausted').length, 0);
    await v.close();
    await old.close();
  });

  test('a job that was canceled meanwhile is settled without effect', async () => {
    const env = settings();
    const w = new Worker(env);
    for (let i = 0; i < 3; i++) await start(env);
    await w.delivered(3);
    for (const j of await jobs(env.RABBITMQ_QUEUE)) await server.post(`/jobs/${j.id}/cancel`);
    w.say('ack 1');
    w.say('retry 2 late');
    w.say(`then 3 0 -1 0 ${CONFIG}`);
    await until('all are settled', async () => (await w.state()).unsettled === 1);
    await w.delivered(4); // the verify job: its pod is verified, and that is all
    w.say('ack 4');
    await until('all are settled', async () => (await w.state()).unsettled === 0);
    assert.strictEqual(w.all('exhausted').length, 0);
    await w.close();
  });

  test('a worker that is closed gives back what it holds, and what it was about to get', async () => {
    const env = settings({ RABBITMQ_PREFETCH_COUNT: '2' });
    for (let i = 0; i < 3; i++) await start(env);
    const w = new Worker(env);
    await w.delivered(2);
    w.say('quiet');
    w.say('ack 1');
    await until('it is settled', async () => (await w.state()).unsettled === 1);
    assert.strictEqual((await w.state()).consuming, 0);
    await w.close();
    assert.strictEqual(w.deliveries().length, 2);
    const left = (await jobs(env.RABBITMQ_QUEUE)).filter((j) => j.status !== 'completed');
    assert.deepStrictEqual(left.map((j) => [j.status, j.attempts]), [['ready', 0], ['ready', 0]]);
  });

  test('a server that is restarted is found again, and nothing is lost', async () => {
    const env = settings();
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    await server.signal('SIGKILL');
    wire.cut();
    w.say(`then 1 0 -1 0 ${CONFIG}`);
    await w.logged(/tried again/);
    await until('it says so', async () => (await w.state()).consuming === 0);
    await server.start();
    wire.target = server.port;
    await w.delivered(2);
    w.say('ack 2');
    await ended(env);
    await w.ready();
    assert.strictEqual((await w.state()).connections, 2);
    await w.close();
  });

  test('without a retry queue builds are not verified', async () => {
    const env = settings({ RABBITMQ_RETRYQUEUE_ENABLED: 'false' });
    const w = new Worker(env);
    await start(env);
    await w.delivered(1);
    w.say(`then 1 0 -1 0 ${CONFIG}`);
    w.say(`publish x 0 -1 0 ${CONFIG}`);
    await w.saw('published x');
    await ended(env);
    assert.deepStrictEqual(await jobs(env.RABBITMQ_RETRYQUEUE), []);
    await w.close();
  });

  test('what the server refuses is told, and makes the worker unavailable', async () => {
    const w = new Worker(settings({ RABBITMQ_RETRYQUEUE: 'no*name' }));
    await w.logged(/refuses claims of queue 'no\*name'/);
    w.say(`publish x 0 -1 0 ${CONFIG}`);
    await w.logged(/takes no verify jobs/);
    assert.strictEqual((await w.state()).consuming, 0);
    await w.close();
    assert.strictEqual(w.errors.match(/takes no verify jobs/g).length, 1);
    const v = new Worker(settings({ TENAX_URL: 'ftp://nowhere' }));
    assert.strictEqual(await v.exited, 2);
    assert.match(v.errors, /tenax\.server: /);
  });

  test('many builds at once are all verified', async () => {
    const env = settings({ PROBE_AUTO: '1' });
    const w = new Worker(env);
    const v = new Worker(env);
    await server.enqueueMany(Array.from({ length: 1000 }, (_, i) => ({ queue: env.RABBITMQ_QUEUE,
      payload: { job: 'start', buildConfig: { buildId: i } } })));
    const verified = () => [w, v].map((p) => p.deliveries().filter((d) => d.channel === 'ready').length);
    await until(() => `1000 are verified: ${verified()}`, () => verified()[0] + verified()[1] === 1000);
    await ended(env);
    await w.close();
    await v.close();
  });
});
