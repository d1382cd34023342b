// SPDX-License-Identifier: Apache-2.0
// How late verify messages are at a RabbitMQ of its own: in the common wait queue, in wait queues of
// one delay each, and as jobs of a Tenax server. Delays are a tenth of the usual ones: 3 s, and 1 s
// more for each look; builds are at all stages at once.
//
//     node bench/build_lateness.js [MESSAGES [SECONDS]]
'use strict';

const { startBroker } = require('../tests/amqp/broker.js');
const { Server } = require('../tests/http/harness.js');
const { Worker, tenax } = require('../tests/builds/broker_harness.js');

const MESSAGES = Number(process.argv[2] || 1000);
const SECONDS = Number(process.argv[3] || 10);

async function measure(what, env) {
  const w = new Worker(env);
  await w.ready();
  const begin = Date.now();
  for (let i = 0; i < MESSAGES; i++) {
    const due = begin + (i * SECONDS * 1000) / MESSAGES;
    while (Date.now() < due) await new Promise((done) => setTimeout(done, 1));
    // Not at random, so that each run is the same: a stage is as likely as another.
    const looks = (i * 7) % 6;
    w.say(`publish ${i} ${looks} ${Date.now()} ${3000 + looks * 1000} {}`);
  }
  const seen = new Set();
  while (seen.size < MESSAGES) {
    await w.saw('delivered ', seen.size + 1, 60000);
    for (const d of w.deliveries().slice(seen.size)) {
      seen.add(d.n);
      w.say(`ack ${d.n}`);
    }
  }
  const late = w.deliveries().map((d) => d.at - d.started - 3000 - d.looks * 1000)
    .sort((a, b) => a - b);
  const at = (p) => late[Math.min(late.length - 1, Math.floor(late.length * p))];
  console.log(`${what}: late by p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, at most ${late.at(-1)} ms`);
  await w.close();
}

async function main() {
  const broker = await startBroker();
  const server = await new Server().start();
  try {
    const common = {
      RABBITMQ_HOST: `127.0.0.1:${broker.port}`, RABBITMQ_VIRTUAL_HOST: '//',
      RABBITMQ_USERNAME: 'guest', RABBITMQ_PASSWORD: 'guest', RABBITMQ_PREFETCH_COUNT: '1000',
      RABBITMQ_RETRYQUEUE_ENABLED: 'true', TENAX_URL: server.url(),
    };
    await tenax(['build-worker', 'topology', 'declare'], common);
    await measure('one wait queue', common);
    await measure('a wait queue for each delay', { ...common, WAIT_QUEUES: 'true' });
    await measure('a Tenax server', { ...common, TENAX_BROKER: 'tenax' });
  } finally {
    await broker.stop();
    await server.clean();
  }
}

main().then(() => process.exit(0), (e) => {
  console.error(e);
  process.exit(1);
});
