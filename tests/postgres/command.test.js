// SPDX-License-Identifier: Apache-2.0
// `tenax postgres` against a real PostgreSQL.
'use strict';

const assert = require('node:assert');
const { execFile, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test, before, after } = require('node:test');
const { Postgres } = require('./node.js');

const BIN = process.env.TENAX_BIN || 'build/tenax';
let node;

before(async () => { node = await Postgres.start(); });
after(() => node?.stop());

function tenax(args, env = {}) {
  return new Promise((done) => {
    execFile(BIN, ['postgres', ...args], { env: { ...process.env, ...env } },
      (e, stdout, stderr) => done({ code: e ? e.code : 0, stdout, stderr }));
  });
}

test('installs once, checks, and says what is missing', async () => {
  const at = ['--postgres', node.url()];
  let end = await tenax(['check', ...at]);
  assert.strictEqual(end.code, 1);
  assert.match(end.stderr, /no schema tenax: run `tenax postgres install`/);
  end = await tenax(['upgrade', ...at]);
  assert.strictEqual(end.code, 1);
  end = await tenax(['install', ...at]);
  assert.deepStrictEqual([end.code, end.stderr], [0, '']);
  assert.match(end.stdout, /installed, version 2/);
  end = await tenax(['install', ...at]);
  assert.strictEqual(end.code, 0);
  assert.match(end.stdout, /is there/);
  end = await tenax(['upgrade', ...at]);
  assert.strictEqual(end.code, 0);
  end = await tenax(['check', ...at]);
  assert.strictEqual(end.code, 0);
  assert.match(end.stdout, /servers can use it\nPostgreSQL runs with fsync=off/);
  await node.rows('CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA tenax TO stranger; ' +
    'GRANT SELECT ON tenax.schema_version TO stranger');
  end = await tenax(['check', '--postgres', node.url({ user: 'stranger' })]);
  assert.strictEqual(end.code, 1);
  assert.match(end.stderr, /lacks rights/);
});

test('two installations at once make one schema', async () => {
  await node.rows('CREATE DATABASE twice');
  const at = ['--postgres', node.url({ db: 'twice' })];
  const ends = await Promise.all([1, 2, 3, 4].map(() => tenax(['install', ...at])));
  assert.deepStrictEqual(ends.map((e) => [e.code, e.stderr]), ends.map(() => [0, '']));
  assert.strictEqual(ends.filter((e) => /installed/.test(e.stdout)).length, 1);
  assert.strictEqual(await node.value('SELECT count(*) FROM tenax.shard', { db: 'twice' }), '1');
});

test('an installation that fails leaves nothing', async () => {
  await node.rows('CREATE DATABASE broken');
  await node.rows('CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS ' +
    "$$ BEGIN IF to_regprocedure('tenax.commit(bigint,bigint,bigint,bytea,bigint[])') IS NOT NULL THEN " +
    "RAISE EXCEPTION 'no more'; END IF; END $$; " +
    "CREATE EVENT TRIGGER no ON ddl_command_end WHEN tag IN ('CREATE FUNCTION') EXECUTE FUNCTION public.no()",
  { db: 'broken' });
  const end = await tenax(['install', '--postgres', node.url({ db: 'broken' })]);
  assert.strictEqual(end.code, 1);
  assert.match(end.stderr, /no more/);
  assert.strictEqual(await node.value("SELECT to_regnamespace('tenax') IS NULL", { db: 'broken' }), 't');
});

test('the command line is checked, and has no password', async () => {
  for (const [args, what] of [
    [[], /say one of/],
    [['install'], /--postgres/],
    [['install', 'upgrade', '--postgres', node.url()], /say one of/],
    [['install', '--postgres', 'postgres://app:s3cret@127.0.0.1/x'], /every user of the machine/],
    [['install', '--postgres', 'postgres://%zz'], /malformed/],
  ]) {
    const end = await tenax(args);
    assert.strictEqual(end.code, 2, args.join(' '));
    assert.match(end.stderr, what);
    assert.doesNotMatch(end.stderr, /s3cret/);
  }
});

test('imports a root directory into a schema that has no jobs, once', async () => {
  const root = fs.mkdtempSync(path.join(node.dir, 'root-'));
  await node.rows('CREATE DATABASE filled');
  const at = ['--postgres', node.url({ db: 'filled' })];
  assert.strictEqual((await tenax(['install', ...at])).code, 0);
  for (const [args, what] of [
    [['import'], /name one root directory/],
    [['import', root, root], /name one root directory/],
    [['import', path.join(root, 'missing')], /is not a root directory/],
    [['import', root], /is not a root directory/],
  ]) {
    const end = await tenax([...args, ...at]);
    assert.strictEqual(end.code, 2, args.join(' '));
    assert.match(end.stderr, what);
  }
  execFileSync(path.join(path.dirname(BIN), 'tests/store/put_resource'), [root, 'P', 'p', '1', '{}']);
  let end = await tenax(['import', root, ...at]);
  assert.deepStrictEqual([end.code, end.stderr], [0, '']);
  assert.match(end.stdout, /: 1 records of .* are imported/);
  assert.strictEqual(await node.value('SELECT count(*) FROM tenax.records', { db: 'filled' }), '1');
  assert.strictEqual(await node.value('SELECT count(*) FROM tenax.lease WHERE owner IS NULL', { db: 'filled' }), '1');
  end = await tenax(['import', root, ...at]);
  assert.strictEqual(end.code, 1);
  assert.match(end.stderr, /there are jobs in PostgreSQL already/);
});

test('a PostgreSQL that is not there is exit code 3, without the password', async () => {
  const end = await tenax(['check'], { TENAX_POSTGRES: 'postgres://app:s3cret@127.0.0.1:1/x' });
  assert.strictEqual(end.code, 3);
  assert.match(end.stderr, /cannot connect to PostgreSQL/);
  assert.doesNotMatch(end.stderr, /s3cret/);
});

test('the password comes from a file', async () => {
  const hba = path.join(node.data, 'pg_hba.conf');
  fs.writeFileSync(hba, `host all guarded 127.0.0.1/32 scram-sha-256\n${fs.readFileSync(hba)}`);
  await node.rows("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'a pass'; SELECT pg_reload_conf()");
  const file = path.join(node.dir, 'password');
  fs.writeFileSync(file, 'a pass\n');
  const at = ['--postgres', node.url({ user: 'guarded' })];
  let end = await tenax(['check', ...at, '--postgres-password-file', file]);
  assert.deepStrictEqual([end.code, end.stderr], [0, '']);
  fs.writeFileSync(file, 'wrong\n');
  end = await tenax(['check', ...at, '--postgres-password-file', file]);
  assert.strictEqual(end.code, 3);
  assert.doesNotMatch(end.stderr, /wrong/);
});
