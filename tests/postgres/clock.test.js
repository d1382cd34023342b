// SPDX-License-Identifier: Apache-2.0
// Wall clocks that are wrong, and put right: PostgreSQL's, and a server's. Who owns the jobs, and for how
// long, does not depend on them.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { compileShim, wrongClock } = require('../http/wrong_clock.js');
const { Postgres } = require('./node.js');
const { Member, tenax, until } = require('./servers.js');

const MINUTE = 60 * 1000;
const HOUR = 60 * MINUTE;
const YEAR = 365 * 24 * HOUR;
const LEASE = ['--lease', '2s'];

describe('a wrong clock', () => {
  let dir, postgres, first, second;
  const clocks = {};

  before(async () => {
    dir = fs.mkdtempSync('/tmp/tenax-clock-');
    fs.chmodSync(dir, 0o755); // PostgreSQL runs as another user
    const shim = compileShim(dir);
    for (const name of ['postgres', 'first', 'second']) clocks[name] = wrongClock(shim, path.join(dir, name));
    postgres = await Postgres.start({ env: clocks.postgres.env });
    const end = await tenax(['postgres', 'install', '--postgres', postgres.url()]);
    assert.strictEqual(end.code, 0, end.stderr);
    first = await new Member(postgres, LEASE).start({ env: clocks.first.env });
    await first.until('owner');
    second = await new Member(postgres, LEASE).start({ env: clocks.second.env });
    await second.until('standby');
  });
  after(async () => {
    for (const m of [first, second]) await m?.stop();
    await postgres?.stop();
    fs.rmSync(dir, { recursive: true, force: true });
  });

  const enqueue = async (queue) => {
    const answer = await second.ask('POST', '/jobs', { queue, type: 't', payload: null });
    assert.strictEqual(answer.status, 201, answer.text);
    return answer.json;
  };
  const sql = (queue) => postgres.value(`SELECT tenax.enqueue('${queue}', 't', 'null')`);
  const tokens = new Map(); // of what was claimed
  const claim = async (member, queue) => {
    const answer = await member.ask('POST', '/jobs/claim',
      { queues: [queue], lease_ms: 30 * MINUTE, wait_ms: 30000, count: 1 });
    assert.strictEqual(answer.json.jobs.length, 1, answer.text);
    const [job] = answer.json.jobs;
    tokens.set(job.id, job.token);
    return job;
  };
  const succeed = async (member, id) => {
    const answer = await member.ask('POST', `/jobs/${id}/success`, { token: tokens.get(id) });
    assert.strictEqual(answer.status, 204, answer.text);
  };
  // All servers have noticed that PostgreSQL's clock is ahead by about so much.
  const noticed = async (ms) => {
    for (const m of [first, second])
      await until(async () => Math.abs((await m.health())?.postgres_clock_ahead_ms - ms) < MINUTE, `${ms} ms is noticed`);
  };
  const warnings = (pattern) => [first, second].map((m) => m.stderr.match(pattern)?.length ?? 0);
  const renewals = async () => Number(/^tenax_lease_renewals_total (\d+)$/m.exec((await first.ask('GET', '/metrics')).text)[1]);
  // Several leases have passed since.
  const assertOwned = async (epoch) => {
    const from = await renewals();
    await until(async () => await renewals() > from + 20, 'the lease is renewed');
    const { role, epoch: now } = await first.health();
    assert.deepStrictEqual([role, now], ['owner', epoch]);
  };

  it('of PostgreSQL is told; the owner stays the owner, and jobs go on', async () => {
    const { epoch } = await first.health();
    const held = await enqueue('held');
    assert.strictEqual((await claim(second, 'held')).id, held.id);
    assert.deepStrictEqual(warnings(/PostgreSQL's clock is/g), [0, 0]);

    clocks.postgres.set(YEAR);
    await noticed(YEAR);
    assert.deepStrictEqual(warnings(/warn.*PostgreSQL's clock is .* ahead of this server's/g), [1, 1]);
    const standby = (await second.ask('GET', '/metrics')).text;
    assert.match(standby, /^tenax_postgres_clock_ahead_seconds 315[34]\d{4}\./m);
    await assertOwned(epoch);
    const early = await sql('sql');
    assert.strictEqual((await claim(second, 'sql')).id, early);
    await succeed(second, early);
    const later = await enqueue('later');
    assert.ok(later.id > early, 'ids go on from the greatest');
    await until(async () => await postgres.value(
      "SELECT flushed_at > clock_timestamp() - interval '1 day' FROM tenax.lag") === 't', 'views are of the wrong time');

    clocks.postgres.set(0);
    await noticed(0);
    assert.deepStrictEqual(warnings(/warn.*clock and this server's agree again/g), [1, 1]);
    await assertOwned(epoch);
    const right = await sql('sql');
    assert.strictEqual((await claim(second, 'sql')).id, right);
    await succeed(second, right);
    await until(async () => await postgres.value(
      'SELECT flushed_at <= clock_timestamp() FROM tenax.lag') === 't', 'views are of the right time');

    clocks.postgres.set(-HOUR);
    await noticed(-HOUR);
    assert.deepStrictEqual(warnings(/warn.*PostgreSQL's clock is .* behind this server's/g), [1, 1]);
    await assertOwned(epoch);
    const late = await sql('sql');
    assert.strictEqual((await claim(second, 'sql')).id, late);
    await succeed(second, late);
    clocks.postgres.set(0);
    await noticed(0);
    await succeed(second, held.id);
  });

  it('of the owner is told, and makes nothing due; its successor keeps leases, and time', async () => {
    const { epoch } = await first.health();
    clocks.first.set(HOUR);
    await until(async () => (await first.health()).postgres_clock_ahead_ms < -HOUR + MINUTE, 'the owner notices');
    await assertOwned(epoch);
    const told = await first.health();
    assert.strictEqual(told.status, 'clock');
    assert.match(told.failure, /is not followed/);
    const held = await enqueue('held');
    assert.strictEqual((await claim(first, 'held')).id, held.id);
    await first.kill();
    const health = await second.until('owner');
    assert.strictEqual(health.status, 'ok');
    assert.ok(Math.abs(health.clock.ahead_ms) < MINUTE, JSON.stringify(health.clock));
    assert.ok(Math.abs(health.postgres_clock_ahead_ms) < MINUTE);
    await succeed(second, held.id);
    const other = await enqueue('held');
    assert.ok(other.id > held.id);
    assert.strictEqual((await claim(second, 'held')).id, other.id);
    await succeed(second, other.id);
  });
});
