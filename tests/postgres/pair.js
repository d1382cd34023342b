// SPDX-License-Identifier: Apache-2.0
// A PostgreSQL with a synchronous standby, each on a machine of its own (network.js), for tests that
// lose the primary: the standby is promoted, and a new one is made from it where the old primary was.
'use strict';

const { Postgres } = require('./node.js');
const { until } = require('./servers.js');

// What is cut off is noticed within seconds. Shared memory is in files, which go with the folder.
const CONF = ['dynamic_shared_memory_type = mmap', 'wal_sender_timeout = 2s', 'wal_receiver_timeout = 2s',
  'wal_retrieve_retry_interval = 200ms', 'max_wal_senders = 6', 'wal_keep_size = 256MB', 'checkpoint_timeout = 1h'];

class Pair {
  static async start(machines, fsync) {
    const p = new Pair();
    p.machines = machines;
    p.primary = await Postgres.start({ conf: CONF, fsync, machine: machines[0] });
    await p.primary.rows('CREATE ROLE tenax_producer NOLOGIN; CREATE ROLE tenax_reader NOLOGIN; ' +
      'CREATE ROLE tenax LOGIN; GRANT CREATE ON DATABASE postgres TO tenax');
    await p.follow(machines[1]);
    return p;
  }

  // Makes a standby, for which commits wait from then on.
  async follow(machine) {
    this.standby = await Postgres.standbyOf(this.primary, machine, ["synchronous_standby_names = ''"]);
    this.primary.set("synchronous_standby_names = '*'");
    this.primary.child.kill('SIGHUP');
    await this.inStep();
  }

  // Until commits are on both.
  inStep() {
    return until(async () => {
      const end = await this.primary.psql("SELECT current_setting('synchronous_standby_names'), sync_state FROM pg_stat_replication");
      return end.stdout === '*|sync';
    }, 'the standby is synchronous');
  }

  // The old primary is gone, or cannot be reached: nothing that it still does counts.
  async promote() {
    this.old = this.primary;
    this.primary = this.standby;
    this.standby = null;
    await this.primary.rows('SELECT pg_promote(true, 60)');
  }

  // A new standby, on the machine of the old primary.
  async renew() {
    const { machine } = this.old;
    await this.old.stop();
    this.old = null;
    await this.follow(machine);
  }

  // Of both, whichever is the primary.
  url(more = '') {
    const hosts = this.machines.map((m) => `${m.address}:5432`).join();
    return `postgres://tenax@${hosts}/postgres?sslmode=disable${more}`;
  }

  async stop() {
    for (const n of [this.primary, this.standby, this.old]) await n?.stop();
  }
}

module.exports = { Pair };
