// SPDX-License-Identifier: Apache-2.0
// Several servers on one PostgreSQL: any address will do, and whatever happens to the owner, another
// takes its place without losing a job.
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const http = require('node:http');
const { describe, it, before, after } = require('node:test');
const { Postgres } = require('./node.js');
const { Member, ask, sleep, tenax, together, until } = require('./servers.js');

const LEASE = ['--lease', '3s']; // over which a busy machine hears of everybody

// A stream of jobs: {jobs, ended}, as long as it lasts.
function take(url, queue) {
  const stream = { jobs: [], open: true };
  const request = http.get(`${url}/jobs/take?queue=${queue}&prefetch=100`, { agent: false }, (answer) => {
    let rest = '';
    stream.status = answer.statusCode;
    answer.on('data', (piece) => {
      const lines = (rest + piece).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.trim()) stream.jobs.push(JSON.parse(line));
    });
    answer.on('error', () => { stream.open = false; });
    answer.on('close', () => { stream.open = false; });
  });
  request.on('error', () => { stream.open = false; });
  stream.close = () => request.destroy();
  return stream;
}

const enqueue = (m, queue, payload) => m.ask('POST', '/jobs', { queue, type: 't', payload });

describe('two servers', () => {
  let all, owner, standby;
  before(async () => {
    all = await together(2, { args: LEASE });
    [owner, standby] = all.members;
  });
  after(() => all?.stop());

  it('say who is the owner, to balancers as well', async () => {
    const health = await owner.until('owner');
    assert.match(health.durability, /fsync=off/);
    const other = await standby.until('standby');
    assert.strictEqual(other.owner, owner.url);
    assert.strictEqual(other.epoch, health.epoch);
    assert.strictEqual((await owner.ask('GET', '/health?role=owner')).status, 200);
    assert.strictEqual((await standby.ask('GET', '/health?role=owner')).status, 503);
    assert.strictEqual((await owner.ask('GET', '/health?role=king')).status, 400);
    for (const [m, is] of [[owner, 1], [standby, 0]])
      assert.match((await m.ask('GET', '/metrics')).text, new RegExp(`^tenax_owner ${is}$`, 'm'));
  });

  it('say each by itself what they are', async () => {
    for (const m of [owner, standby]) {
      const is = await m.ask('GET', '/');
      assert.strictEqual(is.status, 200, is.text);
      assert.strictEqual(is.json.name, 'tenax');
      assert.strictEqual(is.json.admin_url, m.admin);
      const page = await m.ask('GET', '/', undefined, { Accept: 'text/html' });
      assert.strictEqual(page.status, 302);
      assert.strictEqual(page.headers.location, '/console');
    }
    assert.strictEqual((await ask(standby.admin, 'GET', '/')).json.listener, 'admin');
  });

  it('are listed by any of them', async () => {
    const list = await until(async () => {
      const answer = await standby.get('/servers');
      return answer.servers.length === 2 ? answer : null;
    }, 'both are listed');
    assert.deepStrictEqual(list.servers.map((s) => s.role).sort(), ['owner', 'standby']);
    assert.strictEqual(list.lease_ms, 3000);
    const end = await tenax(['servers', '--url', standby.url]);
    assert.strictEqual(end.code, 0, end.stderr);
    assert.match(end.stdout, new RegExp(`127.0.0.1:${owner.port} +owner`));
    assert.match(end.stdout, new RegExp(`127.0.0.1:${standby.port} +standby`));
  });

  it('take and hand out jobs at any address', async () => {
    const stream = take(standby.url, 'any');
    await until(() => stream.status === 200, 'the stream is open');
    const made = await enqueue(standby, 'any', { n: 1 });
    assert.strictEqual(made.status, 201);
    const job = await until(() => stream.jobs[0], 'the job comes');
    assert.strictEqual(job.id, made.json.id);
    assert.strictEqual((await standby.ask('POST', `/jobs/${job.id}/success`)).status, 204);
    assert.strictEqual((await owner.ask('GET', `/jobs/${job.id}`)).json.status, 'completed');
    stream.close();
    const waiting = standby.ask('POST', '/jobs/claim', { queues: ['late'], lease_ms: 60000, wait_ms: 20000 });
    await sleep(100);
    await enqueue(owner, 'late', 1);
    assert.strictEqual((await waiting).json.jobs.length, 1);
  });

  it('pass on what a client says, and what it is told', async () => {
    const bad = await standby.ask('POST', '/jobs', { queue: 'x' });
    assert.strictEqual(bad.status, 400);
    assert.match(bad.json.error, /type/);
    const key = { 'Idempotency-Key': 'one' };
    const one = await standby.ask('POST', '/jobs', { queue: 'i', type: 't' }, key);
    const two = await owner.ask('POST', '/jobs', { queue: 'i', type: 't' }, key);
    assert.strictEqual(one.json.id, two.json.id);
    const big = 'x'.repeat(3 << 20);
    const made = await standby.ask('POST', '/jobs', { queue: 'big', type: 't', payload: big });
    assert.strictEqual(made.status, 201);
    assert.strictEqual((await standby.ask('GET', `/jobs/${made.json.id}`)).json.payload, big);
    assert.strictEqual((await standby.ask('GET', '/no/such/path')).status, 404);
  });

  it('run what an application enqueues in its own transaction, and nothing of one that is rolled back', async () => {
    const stream = take(standby.url, 'sql');
    await until(() => stream.status === 200, 'the stream is open');
    await all.postgres.rows("BEGIN; SELECT tenax.enqueue('sql', 't', '{\"n\": 0}'); ROLLBACK");
    const id = await all.postgres.value("SELECT tenax.enqueue('sql', 't', '{\"n\": 1}', '{\"priority\": 7}')");
    const job = await until(() => stream.jobs[0], 'the job comes');
    assert.deepStrictEqual([job.id, job.priority, job.payload], [id, 7, { n: 1 }]);
    await owner.ask('POST', `/jobs/${id}/success`);
    const second = await all.postgres.value("SELECT tenax.enqueue('sql', 't', '{\"n\": 2}')");
    await until(() => stream.jobs.length === 2, 'the next one comes');
    assert.strictEqual(stream.jobs[1].id, second);
    stream.close();
    const metrics = (await owner.ask('GET', '/metrics')).text;
    assert.match(metrics, /^tenax_inbox_taken_total 2$/m);
    assert.match(metrics, /^tenax_postgres_batch [1-9]/m);
    await until(async () => (await all.postgres.value(
      "SELECT count(*) FROM tenax.jobs WHERE queue = 'sql'")) === '2', 'the view shows both');
  });

  it('refuse requests for other hosts, and a header that no server made', async () => {
    const foreign = await standby.ask('GET', '/jobs', undefined, { Host: 'evil.example' });
    assert.strictEqual(foreign.status, 421);
    const forged = `1 ${(await owner.health()).epoch} 1 MTAuMC4wLjE - - - ${'A'.repeat(43)}=`;
    const answer = await owner.ask('GET', '/jobs', undefined, { 'Tenax-Forwarded': forged });
    assert.strictEqual(answer.status, 403);
    const again = await standby.ask('GET', '/jobs', undefined, { 'Tenax-Forwarded': forged });
    assert.strictEqual(again.status, 503);
    assert.strictEqual(again.json.code, 'no_owner');
  });
});

describe('the owner', () => {
  let all;
  let over = false;
  before(async () => { all = await together(3, { args: LEASE }); });
  after(() => {
    over = true; // producers of a test that failed end, too
    return all?.stop();
  });

  async function roles() {
    const owners = [];
    for (const m of all.members)
      if ((await m.health())?.role === 'owner') owners.push(m);
    return owners;
  }
  const theOwner = () => until(async () => {
    const owners = await roles();
    return owners.length === 1 && (await owners[0].health())?.status === 'ok' ? owners[0] : null;
  }, 'there is an owner');

  // Enqueues through all of them until it is told to stop: the ids that were acknowledged.
  function producer(queue) {
    const p = { acknowledged: new Set(), on: true };
    p.done = Promise.all(all.members.map(async (m) => {
      for (let n = 0; p.on && !over; n++) {
        const answer = await enqueue(m, queue, n).catch(() => null);
        if (answer?.status === 201) p.acknowledged.add(answer.json.id);
        else await sleep(20);
      }
    }));
    return p;
  }

  async function finish(p, queue) {
    const enough = p.acknowledged.size + 20;
    await until(() => p.acknowledged.size > enough, 'jobs are acknowledged again');
    p.on = false;
    await p.done;
    const owner = await theOwner();
    const there = new Set();
    for (let page = `/jobs?queue=${queue}&limit=1000`; page;) {
      const answer = await owner.get(page);
      for (const job of answer.jobs) there.add(job.id);
      page = answer.pages.next;
    }
    const lost = [...p.acknowledged].filter((id) => !there.has(id));
    assert.deepStrictEqual(lost, []);
    assert.ok(p.acknowledged.size > 20);
  }

  it('is replaced when it is killed, and nothing acknowledged is lost', async () => {
    const owner = await theOwner();
    const p = producer('killed');
    await until(() => p.acknowledged.size > 50, 'jobs are acknowledged');
    await owner.kill();
    const next = await theOwner();
    assert.notStrictEqual(next, owner);
    await finish(p, 'killed');
    await owner.start();
    await owner.until('standby');
  });

  it('looks who else is there when it is told to step down', async () => {
    const owner = await theOwner();
    for (const m of all.members) if (m !== owner) await m.kill('SIGTERM'); // they say that they go
    const alone = await owner.ask('POST', '/servers/step-down');
    assert.strictEqual(alone.status, 409, alone.text);
    for (const m of all.members) if (m !== owner) await m.start();
    for (const m of all.members) if (m !== owner) await m.until('standby');
    const stepping = await owner.ask('POST', '/servers/step-down');
    assert.strictEqual(stepping.status, 202, stepping.text);
    await owner.until('standby');
  });

  it('steps down within a second of clients noticing, and stands by', async () => {
    const owner = await theOwner();
    const pid = owner.child.pid;
    const p = producer('stepped');
    const other = all.members.find((m) => m !== owner);
    await until(async () => (await other.health())?.owner === owner.url, 'it has heard of the owner');
    const stream = take(other.url, 'streamed');
    await until(() => stream.status === 200, 'the stream is open');
    const end = await tenax(['step-down', '--url', other.url]);
    assert.strictEqual(end.code, 0, end.stderr);
    assert.match(end.stdout, /has the jobs, after \d+ ms/);
    await until(() => !stream.open, 'the stream ends');
    await owner.until('standby');
    assert.strictEqual(owner.child.pid, pid);
    await finish(p, 'stepped');
    assert.match((await (await theOwner()).ask('GET', '/audit')).text, /stepDown/);
  });

  it('that was frozen past its lease knows it, and takes nothing back', async () => {
    const owner = await theOwner();
    const claimed = await enqueue(owner, 'frozen', 1);
    const hold = await owner.ask('POST', '/jobs/claim', { queues: ['frozen'], lease_ms: 600000 });
    assert.strictEqual(hold.json.jobs[0].id, claimed.json.id);
    const p = producer('thawed');
    await until(() => p.acknowledged.size > 20, 'jobs are acknowledged');
    owner.child.kill('SIGSTOP');
    const rest = all.members.filter((m) => m !== owner);
    const next = await until(async () => {
      for (const m of rest) if ((await m.health())?.role === 'owner') return m;
      return null;
    }, 'another takes over');
    owner.child.kill('SIGCONT');
    await owner.until('standby');
    assert.match(owner.stderr, /going on as a standby/);
    const run = hold.json.jobs[0];
    const done = await next.ask('POST', `/jobs/${run.id}/success`, { token: run.token });
    assert.strictEqual(done.status, 204, done.text);
    await finish(p, 'thawed');
  });

  it('gives the jobs up at once when it is stopped', async () => {
    const owner = await theOwner();
    const p = producer('ended');
    await until(() => p.acknowledged.size > 20, 'jobs are acknowledged');
    assert.deepStrictEqual(await owner.kill('SIGTERM'), { code: 0, signal: null });
    await theOwner();
    await finish(p, 'ended');
    await owner.start();
    await owner.until('standby');
  });

  it('goes on after a restart of PostgreSQL, and after a long absence of it somebody does', async () => {
    const before = (await (await theOwner()).health()).epoch;
    const p = producer('absent');
    await until(() => p.acknowledged.size > 20, 'jobs are acknowledged');
    await all.postgres.end();
    await all.postgres.again();
    await theOwner();
    await all.postgres.end();
    const away = await until(async () => {
      const healths = await Promise.all(all.members.map((m) => m.ask('GET', '/health').catch(() => null)));
      return healths.every((h) => h && h.json.status === 'no_owner') ? healths : null;
    }, 'nobody is the owner');
    assert.ok(away.every((h) => h.json.status === 'no_owner' && h.json.failure), JSON.stringify(away.map((h) => h.text)));
    await all.postgres.again();
    const after = await (await theOwner()).health();
    assert.ok(after.epoch > before);
    await finish(p, 'absent');
  });
});

describe('with a standby of PostgreSQL that is away', () => {
  let all;
  before(async () => { all = await together(2, { args: LEASE }); });
  after(() => all?.stop());

  it('commits wait, and the owner stays the owner', async () => {
    const [owner, standby] = all.members;
    const lease = () => all.postgres.rows('SELECT epoch, beat FROM tenax.lease');
    const [[epoch, beat]] = await lease();
    await all.postgres.rows("ALTER SYSTEM SET synchronous_standby_names = 'missing'");
    await all.postgres.rows('SELECT pg_reload_conf()');
    await until(async () => await all.postgres.value('SHOW synchronous_standby_names') === 'missing', 'it is read');
    let answered = false;
    const waiting = enqueue(standby, 'waits', 1).then((answer) => { answered = true; return answer; });
    for (const m of [owner, standby])
      await until(async () => (await m.health())?.status === 'commits_hang', 'it is said that commits hang');
    const hangs = await owner.ask('GET', '/health');
    assert.strictEqual(hangs.status, 503);
    assert.ok(hangs.json.commit_under_way_ms >= 500, hangs.text);
    assert.strictEqual((await standby.ask('GET', '/health')).json.owner_status, 'commits_hang');
    await sleep(9000); // several leases
    const [[epochNow, beatNow]] = await lease();
    assert.deepStrictEqual([epochNow, answered], [epoch, false]);
    assert.notStrictEqual(beatNow, beat);
    await all.postgres.rows('ALTER SYSTEM RESET synchronous_standby_names');
    await all.postgres.rows('SELECT pg_reload_conf()');
    assert.strictEqual((await waiting).status, 201);
    assert.strictEqual((await owner.health()).epoch, Number(epoch));
  });
});

describe('an owner that leaves the jobs', () => {
  let all;
  before(async () => { all = await together(2, { args: LEASE }); });
  after(() => all?.stop());

  it('ends if it is told to, when its loop has ended and it has not begun anew', async () => {
    const [owner, standby] = all.members;
    await standby.until('standby');
    const told = new Promise((done) => owner.child.stderr.on('data', () => {
      if (/connections are closed/.test(owner.stderr) && owner.child.kill('SIGTERM')) done();
    }));
    owner.ask('POST', '/servers/step-down').catch(() => {}); // it may end with the connection
    await told;
    const end = await owner.ended;
    assert.ok(end.code === 0 || end.signal === 'SIGTERM', JSON.stringify(end));
    await standby.until('owner');
  });
});

describe('PostgreSQL that has lost commits', () => {
  let all, followed;
  const events = async (m, since) => (await m.ask('GET', `/events?follow=false&since=${since}`)).text.trim()
    .split('\n').filter(Boolean).map((line) => JSON.parse(line));
  before(async () => { all = await together(2, { args: LEASE }); });
  after(() => all?.stop());
  const serve = (m, ...args) => tenax(['serve', '--root-dir', m.dir, '--port', String(m.port), '--no-admin',
    '--postgres', all.postgres.url(), ...args]);

  it('stops every server, though nobody commits anything', async () => {
    const [owner, standby] = all.members;
    await standby.until('standby');
    for (let n = 0; n < 5; n++) assert.strictEqual((await enqueue(owner, 'lost', n)).status, 201);
    followed = await events(owner, 0);
    assert.strictEqual(followed.length, 5);
    await all.postgres.rows('BEGIN; UPDATE tenax.shard SET seq = seq - 3; DELETE FROM tenax.log_0 l USING tenax.shard s ' +
      'WHERE l.seq > s.seq; COMMIT');
    for (const m of all.members) {
      await until(() => m.child.exitCode !== null, 'it ends');
      assert.strictEqual(m.child.exitCode, 74, m.stderr);
      assert.match(m.stderr, /PostgreSQL has lost commits that were acknowledged, stopping/);
    }
    assert.strictEqual(await all.postgres.value('SELECT count(*) FROM tenax.alarm'), '1');
  });

  it('keeps them from starting, whatever they know, until the loss is accepted', async () => {
    const [owner, standby] = all.members;
    for (const m of all.members) {
      const end = await serve(m);
      assert.strictEqual(end.code, 1, end.stderr);
      assert.match(end.stderr, /the alarm of .* stands.*--accept-lost-commits/);
    }
    fs.rmSync(standby.dir, { recursive: true });
    assert.match((await serve(standby)).stderr, /the alarm of .* stands/);
    await standby.start({ args: ['--accept-lost-commits'] });
    await standby.until('owner');
    assert.strictEqual(await all.postgres.value('SELECT count(*) FROM tenax.alarm'), '0');
    assert.strictEqual((await enqueue(standby, 'lost', 8)).status, 201);
    await owner.start(); // what it had is accepted, too
    await owner.until('standby');
    await standby.kill();
    await owner.until('owner');
    assert.ok(fs.readdirSync(owner.dir).some((name) => name.startsWith('cache-lost-')));
    assert.strictEqual((await enqueue(owner, 'lost', 9)).status, 201);
    await standby.start();
    await standby.until('standby');
  });

  it('begins a new history of events, the same for all servers, whoever accepted that', async () => {
    const [owner, standby] = all.members;
    const [gap, ...later] = await events(owner, followed.at(-1).cursor);
    assert.deepStrictEqual([gap.event, later.length], ['gap', 2]);
    const left = later[0].number - 1;
    assert.ok(left < followed.length);
    assert.match(gap.reason, new RegExp(`no event ${followed.at(-1).cursor} in this history`));
    const history = later[0].cursor.split('-')[0];
    assert.notStrictEqual(history, followed[0].cursor.split('-')[0]);
    assert.strictEqual(gap.cursor, `${history}-${left}`);
    if (left) assert.deepStrictEqual(await events(owner, followed[left - 1].cursor), later);
    await owner.kill();
    await standby.until('owner');
    assert.strictEqual((await enqueue(standby, 'lost', 10)).status, 201);
    const again = await events(standby, later[0].cursor);
    assert.deepStrictEqual(again.map((e) => e.cursor), [2, 3].map((n) => `${history}-${left + n}`));
    assert.strictEqual((await events(standby, followed.at(-1).cursor))[0].event, 'gap');
    await owner.start();
    await standby.kill();
    await owner.until('owner');
    await standby.start();
    await standby.until('standby');
  });

  it('is noticed at the next start by a server that was away', async () => {
    const [owner, standby] = all.members;
    await standby.kill();
    for (let n = 0; n < 5; n++) assert.strictEqual((await enqueue(owner, 'lost', n)).status, 201);
    followed = await events(owner, followed[0].cursor);
    const seen = () => fs.readFileSync(`${owner.dir}/postgres-seen`).toString('latin1');
    const before = seen();
    await until(() => seen() !== before, 'the owner keeps what it has seen');
    await owner.kill();
    await all.postgres.rows('BEGIN; UPDATE tenax.shard SET seq = seq - 4; DELETE FROM tenax.log_0 l USING tenax.shard s ' +
      'WHERE l.seq > s.seq; UPDATE tenax.lease SET owner = NULL; COMMIT');
    fs.rmSync(`${owner.dir}/cache`, { recursive: true });
    const end = await serve(owner);
    assert.strictEqual(end.code, 1, end.stderr);
    assert.match(end.stderr, /PostgreSQL lacks batch \d+ of epoch \d+, which this server has seen/);
    assert.match((await serve(standby)).stderr, /the alarm of .* stands/);
    await standby.start({ args: ['--accept-lost-commits'] });
    await standby.until('owner');
    await standby.kill(); // before the first event of the new history
    await owner.start();
    await owner.until('owner');
    assert.strictEqual((await enqueue(owner, 'lost', 9)).status, 201);
    const [gap, later] = await events(owner, followed.at(-1).cursor);
    assert.strictEqual(gap.event, 'gap');
    assert.notStrictEqual(later.cursor.split('-')[0], followed.at(-1).cursor.split('-')[0]);
  });
});

describe('bytes in PostgreSQL that are not what was written', () => {
  let all;
  before(async () => { all = await together(1, { args: LEASE }); });
  after(() => all?.stop());
  const check = (...args) => tenax(['postgres', 'check', ...args, '--postgres', all.postgres.url()]);

  it('of a record are set apart, named and counted', async () => {
    const [m] = all.members;
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push((await enqueue(m, 'q', { amount: 1000000 + n })).json.id);
    await until(async () => await all.postgres.value(
      "SELECT count(*) FROM tenax.records WHERE position('1000001'::bytea IN value) > 0") === '1', 'records have it');
    assert.strictEqual((await check('--deep')).code, 0);
    await m.kill();
    fs.rmSync(`${m.dir}/cache`, { recursive: true });
    await all.postgres.rows("UPDATE tenax.records SET value = set_byte(value, position('1000001'::bytea IN value) - 1, 57) " +
      "WHERE position('1000001'::bytea IN value) > 0");
    const end = await check('--deep');
    assert.strictEqual(end.code, 1);
    assert.match(end.stdout, new RegExp(`damaged: (first record|payload) of job ${ids[1]}`));
    assert.match(end.stderr, /1 records and 0 batches are damaged/);
    assert.strictEqual((await check()).code, 0);
    await m.start();
    const health = await m.until('owner');
    assert.strictEqual(health.damaged.jobs, 1);
    assert.match(m.stderr, new RegExp(`of job ${ids[1]} does not have its checksum`));
    assert.deepStrictEqual((await m.get(`/jobs/${ids[0]}`)).payload, { amount: 1000000 });
    const answer = await m.ask('GET', `/jobs/${ids[1]}`);
    assert.notStrictEqual(answer.status, 200, answer.text);
    assert.strictEqual((await m.ask('DELETE', `/jobs/${ids[1]}`)).status, 204);
    assert.strictEqual((await m.health()).damaged.jobs, 0);
  });

  it('of a batch that records lack keep servers from starting, and are named', async () => {
    const [m] = all.members;
    await m.kill();
    fs.rmSync(`${m.dir}/cache`, { recursive: true });
    const seq = await all.postgres.value('UPDATE tenax.shard SET flushed = seq - 1 RETURNING seq');
    await all.postgres.rows(`UPDATE tenax.log_0 SET batch = set_byte(batch, 3, get_byte(batch, 3) # 1) WHERE seq = ${seq}`);
    const deep = await check('--deep');
    assert.match(deep.stdout, new RegExp(`damaged: batch ${seq} of epoch`));
    const end = await tenax(['serve', '--root-dir', m.dir, '--port', '0', '--no-admin', '--lease', '3s',
      '--postgres', all.postgres.url()]);
    assert.strictEqual(end.code, 1, end.stderr);
    assert.match(end.stderr, new RegExp(`batch ${seq} in PostgreSQL's log does not have its checksum`));
  });
});

describe('an owner that gets nowhere', () => {
  let all;
  const conf = () => path.join(all.members[0].dir, 'conf.yaml');
  before(async () => {
    all = await together(1, { args: LEASE });
    const [first] = all.members;
    await first.kill('SIGTERM');
    fs.writeFileSync(conf(), '{}\n');
    await first.start({ args: ['--config', conf()] });
    await first.until('owner');
    all.members.push(await new Member(all.postgres, ['--lease', '2s']).start());
    await all.members[1].until('standby');
  });
  after(() => all?.stop());

  it('as its loop hangs loses the jobs, and whoever stands by says meanwhile that it is silent', async () => {
    const [hung, other] = all.members;
    const fifo = `${conf()}.fifo`;
    fs.renameSync(conf(), `${conf()}.file`);
    execFileSync('mkfifo', [conf()]);
    fs.linkSync(conf(), fifo);
    hung.child.kill('SIGHUP'); // it reads its configuration, and nobody writes
    const states = new Set();
    await until(async () => {
      const health = await other.health();
      states.add(`${health?.status} ${health?.owner_status}`);
      return health?.role === 'owner' && health.status === 'ok';
    }, 'another server has the jobs');
    assert.ok(states.has('owner_silent silent'), [...states].join());
    assert.strictEqual((await enqueue(other, 'q', 1)).status, 201);
    fs.renameSync(`${conf()}.file`, conf());
    fs.closeSync(fs.openSync(fifo, 'w'));
    await hung.until('standby');
    // A standby says nothing of the owner until it has asked for the first time.
    await until(async () => (await hung.health())?.owner_status === 'ok', 'it hears of the owner');
  });

  it('as its disk is full leaves the jobs to one that has room, and takes them if there is none', async () => {
    const [full, roomy] = all.members;
    await full.kill('SIGTERM');
    await full.start({ args: ['--min-free-space', '900000GiB'] });
    await full.until('standby');
    await roomy.kill();
    await until(async () => (await full.health())?.role === 'owner', 'it is better than none');
    assert.strictEqual((await enqueue(full, 'q', 1)).status, 507);
    await roomy.start();
    await roomy.until('owner');
    await full.until('standby');
    assert.strictEqual((await enqueue(full, 'q', 1)).status, 201);
  });
});

describe('with access control', () => {
  let all, owner, standby, admin;
  before(async () => {
    all = await together(2, { args: LEASE });
    [owner, standby] = all.members;
    const made = await ask(standby.admin, 'POST', '/tokens', { roles: ['admin'] });
    assert.strictEqual(made.status, 201, made.text);
    admin = { Authorization: `Bearer ${made.json.token}` };
  });
  after(() => all?.stop());

  it('a standby lets nobody through, and everybody with a right', async () => {
    assert.strictEqual((await standby.ask('GET', '/jobs')).status, 401);
    assert.strictEqual((await standby.ask('GET', '/jobs', undefined, admin)).status, 200);
    const viewer = await standby.ask('POST', '/tokens', { roles: ['viewer'] }, admin);
    const eyes = { Authorization: `Bearer ${viewer.json.token}` };
    assert.strictEqual((await standby.ask('POST', '/servers/step-down', undefined, eyes)).status, 403);
    assert.strictEqual((await standby.ask('GET', '/servers', undefined, eyes)).status, 200);
    const wrong = { Authorization: 'Bearer nobody' };
    assert.strictEqual((await standby.ask('GET', '/jobs', undefined, wrong)).status, 401);
  });

  it('tokens are there after the owner has gone', async () => {
    await owner.kill();
    await standby.until('owner');
    assert.strictEqual((await standby.ask('GET', '/jobs')).status, 401);
    assert.strictEqual((await standby.ask('GET', '/jobs', undefined, admin)).status, 200);
  });
});

describe('a server that has stopped', () => {
  let all;
  before(async () => { all = await together(1, { args: LEASE }); });
  after(() => all?.stop());

  it('knows the token that was made in its root directory meanwhile', async () => {
    const [member] = all.members;
    await member.kill('SIGTERM');
    const made = await tenax(['token', 'create', '--role', 'admin', '--root-dir', member.dir]);
    assert.strictEqual(made.code, 0, made.stderr);
    await member.start();
    await member.until('owner');
    assert.strictEqual((await member.ask('GET', '/jobs')).status, 401);
    const headers = { Authorization: `Bearer ${made.stdout.trim()}` };
    assert.strictEqual((await member.ask('GET', '/jobs', undefined, headers)).status, 200);
  });
});

describe('two servers that say the same address', () => {
  const args = [...LEASE, '--advertise', '127.0.0.1:9'];
  let all;
  before(async () => { all = await together(1, { args }); });
  after(() => all?.stop());

  it('are told of it', async () => {
    const standby = new Member(all.postgres, args);
    all.members.push(standby);
    await standby.start();
    const [owner] = all.members;
    await until(() => /says as well that it is at http:\/\/127\.0\.0\.1:9/.test(standby.stderr), 'it is said');
    assert.doesNotMatch(owner.stderr, /says as well/);
    assert.strictEqual((await enqueue(owner, 'q', 1)).status, 201);
  });
});

describe('a start', () => {
  let postgres;
  before(async () => { postgres = await Postgres.start(); });
  after(() => postgres?.stop());

  const serve = (...args) => tenax(['serve', '--root-dir', '/tmp/tenax-never', '--port', '0', '--no-admin', ...args]);

  it('without the schema says so and ends', async () => {
    const end = await serve('--postgres', postgres.url());
    assert.strictEqual(end.code, 1);
    assert.match(end.stderr, /tenax postgres install/);
  });

  it('refuses settings that cannot be meant', async () => {
    const cases = [
      [['--postgres', 'postgres://u:secret@127.0.0.1/x'], /must not hold a password/],
      [['--advertise', 'a:1'], /--advertise needs --postgres/],
      [['--postgres', postgres.url(), '--host', '0.0.0.0', '--insecure'], /--advertise HOST:PORT/],
      [['--postgres', postgres.url(), '--lease', '10ms'], /--lease must be/],
      [['--postgres', postgres.url(), '--commit-mode', 'buffered'], /synchronous_commit decides/],
      [['--postgres', postgres.url(), '--advertise', 'http://a:1'], /--advertise is HOST:PORT/],
    ];
    for (const [args, pattern] of cases) {
      const end = await serve(...args);
      assert.strictEqual(end.code, 2, `${args}: ${end.stderr}`);
      assert.match(end.stderr, pattern);
      assert.doesNotMatch(end.stderr, /secret/);
    }
  });

  it('without PostgreSQL says why and ends', async () => {
    const end = await serve('--postgres', 'postgres://admin@127.0.0.1:1/postgres');
    assert.strictEqual(end.code, 1);
    assert.match(end.stderr, /127\.0\.0\.1/);
  });
});
