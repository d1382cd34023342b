// SPDX-License-Identifier: Apache-2.0
// What can happen to several servers, to the PostgreSQL and the standby that they share, and to the
// network between all of them. A blow returns {since, mend}: from when on the next job is waited for
// if that is not the beginning of the blow, as nothing can go on before; and what makes things whole.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const { ask, sleep, until } = require('./servers.js');

const whole = () => {};

// Longer than a lease.
const long = (all) => sleep(all.lease * 1.2 + all.below(all.lease >> 1));

// PostgreSQL has none of the servers' connections any more, in the middle of whatever they do.
const disconnect = (all) => all.pair.primary.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'tenax'");

// Runs SQL that nobody waits for; it must have begun.
async function begin(all, sql, mark) {
  const end = all.pair.primary.psql(sql);
  await until(async () => await all.pair.primary.value(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`) > 0, mark);
  return end;
}

// A lock on a row that outlasts the lease.
async function lock(all, table) {
  const seconds = (all.lease * 1.5 + all.below(all.lease >> 1)) / 1000;
  const end = await begin(all, `BEGIN; SELECT FROM tenax.${table} FOR UPDATE; SELECT pg_sleep(${seconds}); ROLLBACK`, 'the row is locked');
  assert.strictEqual((await end).code, 0);
  return { since: performance.now(), mend: whole };
}

// The process on the standby that writes what the primary sends.
function receiver(all) {
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1];
      if (Number(stat.split(' ')[1]) === all.pair.standby.child.pid &&
          fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('walreceiver')) return Number(pid);
    } catch { /* it has ended */ }
  return null;
}

// The owner gets a signal while PostgreSQL has a commit of its that is not durable yet.
async function inCommit(all, owner, signal) {
  const pid = receiver(all);
  assert.ok(pid, 'the standby receives');
  process.kill(pid, 'SIGSTOP');
  try {
    await until(async () => await all.pair.primary.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' " +
      "AND query LIKE '%tenax.commit%'") > 0, 'a commit is under way');
    owner.child.kill(signal);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

// The standby takes the place of the primary, which is gone by then.
async function promote(all) {
  await all.pair.promote();
  return { mend: () => all.pair.renew() };
}

const cut = (all, pairs) => {
  for (const [a, b] of pairs) all.network.cut(a, b);
  return { mend: () => all.network.mend() };
};

const anotherThan = (owner, all) => {
  const others = all.members.filter((m) => m !== owner);
  return others[all.below(others.length)];
};

const BLOWS = {
  // --- the owner ---
  async 'kill -9 of the owner'(all, owner) {
    await owner.kill();
    return { mend: () => owner.start() };
  },
  async 'owner killed in a commit'(all, owner) {
    await inCommit(all, owner, 'SIGKILL');
    await owner.ended;
    return { mend: () => owner.start() };
  },
  async 'owner frozen'(all, owner) {
    owner.child.kill('SIGSTOP');
    return { mend: () => owner.child.kill('SIGCONT') };
  },
  async 'owner frozen in a commit'(all, owner) {
    await inCommit(all, owner, 'SIGSTOP');
    return { mend: () => owner.child.kill('SIGCONT') };
  },
  async 'owner stopped'(all, owner) {
    await owner.kill('SIGTERM');
    return { mend: () => owner.start() };
  },
  async 'step-down'(all, owner) {
    await ask(owner.url, 'POST', '/servers/step-down').catch(() => null);
    return { mend: whole };
  },
  // --- PostgreSQL ---
  async 'PostgreSQL crashes'(all) {
    await all.pair.primary.end();
    await all.pair.primary.again();
    return { since: performance.now(), mend: whole };
  },
  async 'PostgreSQL away for longer than a lease'(all) {
    await all.pair.primary.end();
    await long(all);
    await all.pair.primary.again();
    return { since: performance.now(), mend: whole };
  },
  async 'primary frozen for longer than a lease'(all) {
    all.pair.primary.signal('SIGSTOP');
    await long(all);
    all.pair.primary.signal('SIGCONT');
    return { since: performance.now(), mend: whole };
  },
  async 'kill -9 of the primary, standby promoted'(all) {
    all.pair.primary.signal('SIGKILL');
    return promote(all);
  },
  async 'machine of the primary lost, standby promoted'(all) {
    all.network.isolate(all.pair.primary.machine);
    const { mend } = await promote(all);
    return {
      async mend() {
        all.pair.old.signal('SIGKILL');
        all.network.mend();
        await mend();
      },
    };
  },
  async 'primary frozen for good, standby promoted'(all) {
    all.pair.primary.signal('SIGSTOP');
    const { mend } = await promote(all);
    return {
      async mend() {
        all.pair.old.signal('SIGKILL');
        await mend();
      },
    };
  },
  async 'connections to PostgreSQL broken'(all) {
    await disconnect(all);
    return { mend: whole };
  },
  async 'no connections to be had for longer than a lease'(all) {
    await all.pair.primary.rows('ALTER ROLE tenax CONNECTION LIMIT 0');
    await disconnect(all);
    await long(all);
    await all.pair.primary.rows('ALTER ROLE tenax CONNECTION LIMIT -1');
    return { since: performance.now(), mend: whole };
  },
  'row of the shard locked for longer than a lease': (all) => lock(all, 'shard'),
  'row of the lease locked for longer than a lease': (all) => lock(all, 'lease'),
  // --- the network ---
  async 'cut between the owner and PostgreSQL'(all, owner) {
    return cut(all, all.pair.machines.map((m) => [owner.machine, m]));
  },
  async 'cut between a standby server and PostgreSQL'(all, owner) {
    const other = anotherThan(owner, all);
    const { mend } = cut(all, all.pair.machines.map((m) => [other.machine, m]));
    await long(all);
    return { since: performance.now(), mend };
  },
  async 'cut between two servers'(all, owner) {
    const { mend } = cut(all, [[owner.machine, anotherThan(owner, all).machine]]);
    await long(all);
    return { since: performance.now(), mend };
  },
  async 'cut between the primary and its standby'(all) {
    cut(all, [all.pair.machines]);
    await long(all);
    all.network.mend();
    return { since: performance.now(), mend: whole };
  },
  async 'owner cut off from all others'(all, owner) {
    all.network.isolate(owner.machine);
    return { mend: () => all.network.mend() };
  },
};

module.exports = { BLOWS };
