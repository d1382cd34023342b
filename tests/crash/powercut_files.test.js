// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the power takes of folders and of whole files: new root directories, tokens, backups,
// certificates, states of an executor. Names that were made and not synced are gone, removed ones are
// back.

const { test } = require('node:test');
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: delay } = require('node:timers/promises');

const { PowerCut } = require('./lib/powercut.js');
const { BIN, Server } = require('./lib/server.js');

/* No command asks for as many syncs. */
const SYNCS_MAX = 60;

class Disk extends PowerCut {
  constructor(t) {
    const top = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-files-'));
    super(top);
    this.children = new Set();
    t.after(async () => {
      await Promise.all([...this.children].map((end) => end()));
      this.remove();
    });
  }

  path(...names) {
    return path.join(this.root, ...names);
  }

  /** A server on the root directory; it dies at that sync in the folder. */
  async start(root, { args = [], killAt = 0, folder = null } = {}) {
    const server = new Server(this.path(root), args, this.env(killAt, folder));
    this.children.add(() => server.end('SIGKILL'));
    if (killAt) assert.strictEqual(await server.ready, null, 'it does not ask for so many syncs');
    else await server.listening();
    if (killAt) assert.strictEqual((await server.exited).signal, 'SIGKILL', server.stderr);
    return server;
  }

  /** The power fails while the server works. */
  async fail(server, options) {
    await server.end('SIGKILL');
    this.cut(options);
  }

  /** A command; if it does not die at that sync, it must succeed. Its output, null if it died. */
  async run(args, killAt = 0) {
    const { out, ended } = this.spawn(args, killAt);
    const [code, signal] = await ended;
    if (killAt && signal === 'SIGKILL') return null;
    assert.strictEqual(code, 0, `tenax ${args.join(' ')}: ${signal} ${out.stderr}`);
    return out.stdout;
  }

  spawn(args, killAt) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('TENAX_'));
    const env = { ...Object.fromEntries(inherited), ...this.env(killAt) };
    const child = spawn(BIN, args, { env });
    const out = { stdout: '', stderr: '' }, ended = once(child, 'close');
    for (const name of Object.keys(out)) child[name].on('data', (text) => (out[name] += text));
    const end = async () => {
      child.kill('SIGKILL');
      await ended;
    };
    this.children.add(end);
    ended.then(() => this.children.delete(end));
    return { out, ended, end };
  }
}

async function ask(server, method, at, { token, body } = {}) {
  const headers = { connection: 'close' };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers['content-type'] = 'application/json';
  const response = await fetch(`http://127.0.0.1:${server.port}${at}`,
    { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, body: text && JSON.parse(text) };
}

async function enqueue(server, queue = 'q') {
  const { status } = await ask(server, 'POST', '/jobs', { body: { queue, type: 't', payload: 1 } });
  assert.strictEqual(status, 201);
}

async function count(server) {
  return (await ask(server, 'GET', '/jobs/count')).body.count;
}

/** Whether a token is one. */
async function isKnown(server, token) {
  const { status } = await ask(server, 'GET', '/tokens', { token });
  assert.ok(status === 200 || status === 401, String(status));
  return status === 200;
}

/** The first start of a server in a new folder, whose parents were made a moment ago. */
const STARTS = {
  'that the server makes': [],
  'that the log in it makes, with the folders above': ['--log-to-disk'],
};

for (const [what, args] of Object.entries(STARTS))
  test(`a job of the first start is in a root directory ${what}`, async (t) => {
    const disk = new Disk(t), root = 'new/and/root';
    if (!args.length) fs.mkdirSync(disk.path('new/and'), { recursive: true });
    let server = await disk.start(root, { args });
    await enqueue(server);
    const key = fs.readFileSync(disk.path(root, 'issuer-key'));
    await disk.fail(server);
    server = await disk.start(root, { args });
    assert.strictEqual(await count(server), 1);
    assert.deepStrictEqual(fs.readFileSync(disk.path(root, 'issuer-key')), key);
    await server.end('SIGKILL');
  });

test('so is one of the start after the first, which died at its first syncs', async (t) => {
  for (let n = 1; n <= 5; n++) {
    const disk = new Disk(t), root = 'new/root';
    fs.mkdirSync(disk.path('new'));
    await disk.start(root, { killAt: n });
    let server = await disk.start(root);
    await enqueue(server);
    await disk.fail(server);
    server = await disk.start(root);
    assert.strictEqual(await count(server), 1, `the start died at sync ${n}`);
    await server.end('SIGKILL');
  }
});

function createHere(disk, killAt) {
  const args = ['token', 'create', '--role', 'admin', '--root-dir', disk.path('root')];
  return disk.run(args, killAt).then((text) => text && text.trim());
}

async function diskWithRoot(t) {
  const disk = new Disk(t);
  const server = await disk.start('root');
  await server.end('SIGTERM');
  return disk;
}

test('a token made without a server is there whenever the power fails', async (t) => {
  const disk = await diskWithRoot(t);
  disk.adopt();
  const made = disk.saved();
  let n = 1, died = true;
  for (; died && n < SYNCS_MAX; n++) {
    const first = await createHere(disk, n);
    died = first === null;
    const token = died ? await createHere(disk) : first;
    disk.cut();
    const server = await disk.start('root');
    assert.ok(await isKnown(server, token), `the command died at sync ${n}`);
    assert.ok(!(await isKnown(server)), 'without a token');
    await server.end('SIGKILL');
    disk.clear();
    disk.restore(made);
  }
  t.diagnostic(`the command asks for ${n - 2} syncs`);
  assert.ok(n > 3 && n < SYNCS_MAX, `${n} syncs`);
});

/** Deletes one of two tokens, and has the power fail. */
async function deleteAndFail(disk, server, [kept, dropped]) {
  const id = dropped.replace(/^[a-z]+_/, '');
  const { body: { tokens } } = await ask(server, 'GET', '/tokens', { token: kept });
  const found = tokens.find((token) => dropped.includes(token.id));
  assert.ok(found, `${id} is none of ${tokens.map((token) => token.id)}`);
  const { status } = await ask(server, 'DELETE', `/tokens/${found.id}`, { token: kept });
  assert.ok(status === 200 || status === 204, String(status));
  await disk.fail(server);
  const again = await disk.start('root');
  assert.deepStrictEqual([await isKnown(again, kept), await isKnown(again, dropped)],
    [true, false], 'the one that was kept, the one that was deleted');
  await again.end('SIGKILL');
}

for (const killAt of [0, 1, 2])
  test(`a deleted token does not come back from its file, ${killAt ? `the server that takes it in \
dying at sync ${killAt} of its folder` : 'the server living'}`, async (t) => {
    const disk = await diskWithRoot(t);
    const tokens = [await createHere(disk), await createHere(disk)];
    if (killAt) await disk.start('root', { killAt, folder: 'root/new-tokens' });
    await deleteAndFail(disk, await disk.start('root'), tokens);
  });

test('tokens are on disk where commits are buffered', async (t) => {
  const disk = await diskWithRoot(t);
  const args = ['--commit-mode', 'buffered'];
  const first = await createHere(disk);
  let server = await disk.start('root', { args });
  await disk.fail(server);
  server = await disk.start('root', { args });
  assert.ok(await isKnown(server, first), 'the one whose file was taken in');
  const { status, body } = await ask(server, 'POST', '/tokens',
    { token: first, body: { roles: ['admin'] } });
  assert.strictEqual(status, 201);
  await disk.fail(server);
  server = await disk.start('root', { args });
  assert.ok(await isKnown(server, body.token), 'the one that was asked for');
  await deleteAndFail(disk, server, [first, body.token]);
});

/** Has the power fail at every sync of a command, and after it, each time from what is there now: check(done)
 * looks at what is left. Twice: names that are not synced are gone, and are there all the same. */
async function atEverySync(t, disk, command, check) {
  disk.adopt();
  const before = disk.saved();
  for (const names of [false, true])
    for (let n = 1, done = false; !done; n++) {
      assert.ok(n < SYNCS_MAX, `${n} syncs`);
      done = await disk.run(command, n) !== null;
      disk.cut({ names });
      await check(done, `${names ? 'names are there' : 'names are gone'}, sync ${n}`);
      disk.clear();
      disk.restore(before);
      if (!done) continue;
      t.diagnostic(`tenax ${command[0]} asks for ${n - 1} syncs`);
      assert.ok(n > 1, 'it syncs nothing');
    }
}

/** How many jobs are in a whole root directory, of which nothing is lacking. */
async function jobsIn(disk, root) {
  const { problems, jobs } = JSON.parse(await disk.run(['check', '--output', 'json', root]));
  assert.deepStrictEqual(problems, []);
  return jobs.ready;
}

/** A server with a job, elsewhere; and its backup of the time when it had none. */
async function serverWithBackup(t, disk) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-files-'));
  t.after(() => fs.rmSync(dir, { recursive: true }));
  const server = new Server(path.join(dir, 'root'));
  t.after(() => server.end('SIGKILL'));
  await server.listening();
  const [url] = /^http\S+/.exec(/^Listening on (\S+) \(admin\)$/m.exec(server.stdout)[1]);
  const old = path.join(dir, 'old.tar');
  await disk.run(['backup', '--url', url, old]);
  await enqueue(server);
  return { url, old, dir };
}

test('a backup is the old or the new one at every sync', async (t) => {
  const disk = new Disk(t), file = disk.path('backup.tar');
  const { url, old, dir } = await serverWithBackup(t, disk);
  const command = ['backup', '--url', url, file];
  const jobsOf = async () => {
    const root = path.join(dir, 'restored');
    await disk.run(['restore', '--force', '--root-dir', root, file]);
    return jobsIn(disk, root);
  };
  await atEverySync(t, disk, command, async (done, where) => {
    if (done || fs.existsSync(file)) assert.strictEqual(await jobsOf(), 1, where);
  });
  fs.copyFileSync(old, file);
  await atEverySync(t, disk, [...command, '--force'], async (done, where) => {
    const jobs = await jobsOf();
    assert.ok(jobs === 1 || !done && jobs === 0, `${jobs} jobs; ${where}`);
  });
});

test('a root directory is the old one or what was restored at every sync', async (t) => {
  const disk = new Disk(t), root = disk.path('parent/root');
  const { url, old, dir } = await serverWithBackup(t, disk);
  const file = path.join(dir, 'new.tar');
  await disk.run(['backup', '--url', url, file]);
  fs.mkdirSync(disk.path('parent'));
  const command = ['restore', file, '--root-dir', root];
  await disk.run(['restore', old, '--root-dir', root]);
  await atEverySync(t, disk, [...command, '--force'], async (done, where) => {
    const jobs = await jobsIn(disk, root);
    assert.ok(jobs === 1 || !done && jobs === 0, `${jobs} jobs; ${where}`);
  });
});

test('what is restored is there although the folder above was just made', async (t) => {
  const disk = new Disk(t), root = disk.path('just/made/root');
  const { old } = await serverWithBackup(t, disk);
  fs.mkdirSync(path.dirname(root), { recursive: true });
  await disk.run(['restore', old, '--root-dir', root]);
  disk.cut();
  assert.strictEqual(await jobsIn(disk, root), 0);
});

/** The files of a folder, by name. */
function filesOf(folder) {
  if (!fs.existsSync(folder)) return {};
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.pem'));
  return Object.fromEntries(names.map((name) =>
    [name, fs.readFileSync(path.join(folder, name), 'utf8')]));
}

test('a file of tenax tls is whole, and there once the command has ended', async (t) => {
  const disk = new Disk(t), dir = disk.path('pki');
  const init = ['tls', 'init', '--out-dir', dir];
  const names = ['ca-cert.pem', 'ca-key.pem', 'server-cert.pem', 'server-key.pem'];
  const checkWhole = (files, where) => {
    for (const [name, text] of Object.entries(files))
      assert.match(text, /^-----BEGIN [^]*-----END [A-Z ]+-----\n$/, `${name}; ${where}`);
  };
  await atEverySync(t, disk, init, (done, where) => {
    const files = filesOf(dir);
    checkWhole(files, where);
    if (done) assert.deepStrictEqual(Object.keys(files).sort(), names, where);
  });
  await disk.run(init);
  const before = filesOf(dir);
  await atEverySync(t, disk, ['tls', 'server-cert', '--out-dir', dir, '--force'], (done, where) => {
    const files = filesOf(dir);
    checkWhole(files, where);
    assert.deepStrictEqual(Object.keys(files).sort(), names, where);
    for (const name of names)
      if (done) assert.strictEqual(files[name] === before[name], /^ca/.test(name), name);
  });
});

test('the state of an executor is where it was made', async (t) => {
  const disk = new Disk(t), state = disk.path('just/made/state');
  fs.mkdirSync(disk.path('just'));
  const config = disk.path('kubeconfig');
  fs.writeFileSync(config, JSON.stringify({
    clusters: [{ name: 'c', cluster: { server: 'http://127.0.0.1:9' } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }));
  const executor = disk.spawn(['executor', '--queue', 'q', '--kubeconfig', config,
    '--server', 'http://127.0.0.1:9', '--state-dir', state]);
  while (!executor.out.stderr.includes(`state in ${state}`)) {
    const ended = await Promise.race([executor.ended, delay(20)]);
    assert.ok(!ended, executor.out.stderr);
  }
  await executor.end();
  disk.cut();
  assert.deepStrictEqual(fs.readdirSync(state), ['journal']);
});
