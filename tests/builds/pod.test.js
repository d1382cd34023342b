// SPDX-License-Identifier: Apache-2.0
// The pod of a build, compared with the one that Screwdriver's own executor for Kubernetes makes of
// the same buildConfig and settings: equal but for what docs/builds.md lists as different.
'use strict';

const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test, before, after, describe } = require('node:test');

const BIN = path.resolve(process.env.TENAX_BIN || 'build/tenax');
const PACKAGE = require.resolve('screwdriver-executor-k8s');

let folder;
before(() => { folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-pod-')); });
after(() => fs.rmSync(folder, { recursive: true }));

// --- the two sides ---

// What Screwdriver's worker has by default where its executor's own default differs.
const DEFAULTS = {
  terminationGracePeriodSeconds: 60,
  volumeMounts: [],
  buildSecrets: [],
  buildSecretsFile: [],
  resources: {
    cpu: { micro: 1, low: 2, high: 6, turbo: 12, max: 12 },
    memory: { micro: 1, low: 2, high: 12, turbo: 16, max: 16 },
  },
};

const ECOSYSTEM = { ui: 'https://cd.screwdriver.cd', api: 'https://api.screwdriver.cd',
  store: 'https://store.screwdriver.cd' };

function merged(a, b) {
  const out = { ...a };
  for (const [k, v] of Object.entries(b || {}))
    out[k] = v && typeof v === 'object' && !Array.isArray(v) ? merged(a[k] || {}, v) : v;
  return out;
}

// A fresh copy each time: the original keeps state from build to build, once in a regular
// expression and once in the path of its cache.
function theirs(settings, buildConfig) {
  delete require.cache[PACKAGE];
  const Executor = require(PACKAGE);
  const executor = new Executor({ ...settings.options,
    kubernetes: merged(DEFAULTS, settings.kubernetes),
    ecosystem: merged(ECOSYSTEM, settings.ecosystem) });
  return JSON.parse(JSON.stringify(executor.createPodConfig(structuredClone(buildConfig))));
}

function run(settings, buildConfig, more = [], env = {}) {
  const file = path.join(folder, 'settings.json');
  fs.writeFileSync(file, JSON.stringify({ ecosystem: settings.ecosystem || {}, executor: { k8s:
    { options: { ...settings.options, kubernetes: settings.kubernetes || {} } } } }));
  return spawnSync(BIN, ['build-worker', 'pod', '--config', file, ...more], {
    input: JSON.stringify({ job: 'start', buildConfig }), encoding: 'utf8',
    env: { PATH: process.env.PATH, ...env } });
}

function ours(settings, buildConfig, env) {
  const r = run(settings, buildConfig, ['--show-token'], env);
  assert.strictEqual(r.status, 0, r.stderr);
  return JSON.parse(r.stdout);
}

// --- the documented differences ---

// Members that are null, and empty texts of variables, say nothing.
function tidy(n) {
  if (Array.isArray(n))
    return n.map(tidy);
  if (!n || typeof n !== 'object')
    return n;
  return Object.fromEntries(Object.entries(n).filter(([, v]) => v !== null).map(([k, v]) =>
    [k, tidy(v)]));
}

function tidyEnv(container) {
  for (const v of container.env || [])
    if (!v.value && !v.valueFrom)
      v.value = '';
}

function comparable(pod) {
  const out = tidy(pod);
  // The five characters are random there, and follow from the build here.
  assert.match(out.metadata.name, /^.+-[0-9a-z]{5}$/);
  out.metadata.name = out.metadata.name.slice(0, -5);
  out.spec.containers.forEach(tidyEnv);
  out.spec.initContainers[0].command[2] = '(script)';
  for (const v of out.spec.volumes) {
    // The type stands beside hostPath in the original's template, where nobody reads it.
    if (v.type) {
      v.hostPath.type = v.type;
      delete v.type;
    }
    if (v.hostPath)
      v.hostPath = { path: v.hostPath.path.replaceAll(/\/+/g, '/'), type: v.hostPath.type || '' };
  }
  return out;
}

// --- builds ---

const jwt = (claims) => [{ alg: 'RS256', typ: 'JWT' }, claims].map((part) =>
  Buffer.from(JSON.stringify(part)).toString('base64url')).join('.') + '.c2ln';

const BUILD = {
  buildId: 1993, jobId: 777, eventId: 2222, jobName: 'main', container: 'node:18',
  pipeline: { id: 123, name: 'screwdriver-cd/screwdriver', scmContext: 'github:github.com' },
  token: jwt({ username: '1993', scope: ['temporal'] }), apiUri: 'https://api.example.com',
  annotations: {},
};

const noted = (annotations) => ({ annotations: Object.fromEntries(
  Object.entries(annotations).map(([k, v]) => [`screwdriver.cd/${k}`, v])) });

const DISK = { cache: { strategy: 'disk', path: '/sd-cache', compress: true, md5check: false,
  max_size_mb: 2048, max_go_threads: 500 } };

const MOUNTS = [{ name: 'kvm', mountPath: '/dev/kvm', path: '/dev/kvm/', type: 'File',
  readOnly: true }, { name: 'data', mountPath: '/data', path: '/mnt/data', readOnly: 'false' }];

// What it shows: [settings, what is different in the build]
const CASES = {
  'nothing but defaults': [{}, {}],
  'a prefix': [{ options: { prefix: 'beta-' } }, {}],
  'CPU and memory by class': [{}, noted({ cpu: 'TURBO', ram: 'HIGH' })],
  'the smallest classes': [{}, noted({ cpu: 'MICRO', ram: 'MICRO', disk: 'HIGH' })],
  'as many CPUs as there may be': [{}, noted({ cpu: 'MAX', ram: 'MAX' })],
  'CPU and memory by number': [{}, noted({ cpu: 8, ram: 9 })],
  'CPU and memory by too large a number': [{}, noted({ cpu: 800, ram: 900 })],
  'classes that do not exist': [{}, noted({ cpu: 'GIGA', ram: 'turbo', disk: 'FULL' })],
  'numbers as texts, and parts of numbers': [{}, noted({ cpu: '8', ram: 2.5 })],
  'annotations of the beta': [{}, { annotations: { 'beta.screwdriver.cd/cpu': 'HIGH',
    'beta.screwdriver.cd/ram': 4, 'example.com/cpu': 'TURBO', cpu: 'MICRO' } }],
  'the last of two spellings': [{}, { annotations: { 'screwdriver.cd/cpu': 'HIGH',
    'beta.screwdriver.cd/cpu': 'MICRO' } }],
  'other sizes of the classes': [{ kubernetes: { resources: { cpu: { low: 0.5, micro: 0.1, max: 3 },
    memory: { low: 1.5, max: 3 } } } }, noted({ cpu: 4, ram: 'LOW' })],
  'half a CPU': [{ kubernetes: { resources: { cpu: { micro: 0.5 } } } }, noted({ cpu: 'MICRO' })],
  'a shorter time': [{}, noted({ timeout: 10 })],
  'too long a time': [{}, noted({ timeout: 1000 })],
  'a time as a text': [{}, noted({ timeout: '45' })],
  'other limits of time': [{ kubernetes: { buildTimeout: 30, maxBuildTimeout: 40 } },
    noted({ timeout: 1000 })],
  'more time to end': [{}, noted({ terminationGracePeriodSeconds: 300 })],
  'less time to end than there is': [{}, noted({ terminationGracePeriodSeconds: 5 })],
  'disk speed': [{ kubernetes: { resources: { disk: { speed: 'screwdriver.cd/diskSpeed' } },
    nodeSelectors: { dedicated: 'screwdriver' } } }, noted({ diskSpeed: 'High', disk: 'TURBO' })],
  'disk speed that nobody asks for': [{ kubernetes: { resources: { disk: { speed: 'a' } } } }, {}],
  'disk speed that the settings fix': [{ kubernetes: { resources: { disk: { speed: 'speed' } },
    nodeSelectors: { speed: 'slow' } } }, noted({ diskSpeed: 'high' })],
  'node selectors': [{ kubernetes: { nodeSelectors: { dedicated: 'screwdriver', zone: 'a' } } }, {}],
  'preferred node selectors': [{ kubernetes: { preferredNodeSelectors: { a: '1', b: '2' } } }, {}],
  'both': [{ kubernetes: { nodeSelectors: { a: '1' }, preferredNodeSelectors: { b: '2' } } }, {}],
  'annotations of pods': [{ kubernetes: { annotations: { 'io.example/a': 'true' } } }, {}],
  'labels of pods': [{ kubernetes: { podLabels: { team: 'a b/c', app: 'mine', n: 5 } } }, {}],
  'labels that must be changed': [{}, { jobName: 'stage@canary:setup', prNum: 55,
    pipeline: { id: 1, name: '--org/' + 'x'.repeat(58) + '!!!-tail' },
    template: { fullName: '@ns/näme  two', version: '1.0.0+build_' } }],
  'labels of which nothing is left': [{}, { pipeline: { id: 1, name: '///' }, jobName: '_._' }],
  'no pipeline and no ids': [{}, { pipeline: undefined, jobId: undefined, eventId: undefined,
    jobName: undefined, annotations: undefined }],
  'hooks': [{ kubernetes: { lifecycleHooks: { preStop: { exec: { command: ['sh', '-c', 'a'] } } } } },
    {}],
  'a runtime class, and a secret for images': [{ kubernetes: { runtimeClass: 'kata',
    imagePullSecretName: 'pull' } }, {}],
  'who it runs as': [{ kubernetes: { serviceAccount: 'builder', privileged: true,
    dnsPolicy: 'Default', imagePullPolicy: 'IfNotPresent',
    automountServiceAccountToken: 'true' } }, {}],
  'another launcher': [{ options: { launchImage: 'example.com/l/launcher', launchVersion: 'v6.0',
    sdHabEnabled: 'false' } }, {}],
  'mounts': [{ kubernetes: { volumeMounts: MOUNTS } }, {}],
  'secrets as variables': [{ kubernetes: { buildSecrets: [{ secret_env: 'SSHCA',
    secret_name: 'sd-secret', secret_key: 'private' }, { secret_env: 'B', secret_name: 'b',
    secret_key: 'c' }] } }, {}],
  'secrets as files': [{ kubernetes: { buildSecretsFile: [{ name: 'cert', mountPath: '/cert',
    secretName: 'sd-cert', readOnly: true }] } }, {}],
  'secrets turned off': [{ kubernetes: { buildSecrets: [{}], buildSecretsFile: [{}] } }, {}],
  'lists that the file gives as {}': [{ kubernetes: { volumeMounts: {}, buildSecrets: {},
    buildSecretsFile: {} } }, {}],
  'Docker': [{ kubernetes: { dockerFeatureEnabled: true } },
    noted({ dockerEnabled: true, dockerCpu: 'HIGH', dockerRam: 'TURBO' })],
  'Docker, which is not offered': [{}, noted({ dockerEnabled: true })],
  'Docker, which is not asked for': [{ kubernetes: { dockerFeatureEnabled: true } },
    noted({ dockerEnabled: 'true' })],
  'buildkit': [{}, noted({ rootlessBuildkitEnabled: true, buildkitCpu: 'MICRO',
    buildkitRam: 'HIGH' })],
  'buildkit, which is not offered': [{ kubernetes: { rootlessBuildkitFeatureEnabled: false } },
    noted({ rootlessBuildkitEnabled: true })],
  'Docker and buildkit': [{ kubernetes: { dockerFeatureEnabled: true } },
    noted({ dockerEnabled: true, rootlessBuildkitEnabled: true, dockerCpu: 5 })],
  'caches on disk': [{ ecosystem: DISK }, {}],
  'caches on disk, with a prefix': [{ ecosystem: DISK, options: { prefix: 'beta-' } }, {}],
  'caches below the root': [{ ecosystem: { cache: { ...DISK.cache, path: '/' } } }, {}],
  'a pull request': [{ ecosystem: DISK }, { jobName: 'PR-15', prNum: 15,
    token: jwt({ prParentJobId: 555 }) }],
  'a job of a pull request': [{ ecosystem: DISK }, { jobName: 'PR-15:main', prNum: 15,
    token: jwt({ prParentJobId: '555', jobId: 1 }) }],
  'a pull request of a job without a parent': [{ ecosystem: DISK }, { jobName: 'PR-15:new' }],
  'what only looks like a pull request': [{ ecosystem: DISK }, { jobName: 'PR-x',
    token: jwt({ prParentJobId: 555 }) }],
  'everything at once': [{ ecosystem: merged(DISK, { pushgatewayUrl: 'http://push:9091' }),
    options: { prefix: 'sd-' }, kubernetes: { dockerFeatureEnabled: true, volumeMounts: MOUNTS,
      runtimeClass: 'kata', nodeSelectors: { a: 'b' }, preferredNodeSelectors: { c: 'd' },
      lifecycleHooks: { postStart: { exec: { command: ['true'] } } }, podLabels: { x: 'y' },
      buildSecrets: [{ secret_env: 'A', secret_name: 'b', secret_key: 'c' }] } },
  { jobName: 'PR-1:main', prNum: 1, token: jwt({ prParentJobId: 9 }), ...noted({ cpu: 3, ram: 5,
    dockerEnabled: true, rootlessBuildkitEnabled: true, timeout: 5,
    terminationGracePeriodSeconds: 90 }) }],
};

function compare(name, env) {
  describe(name, () => {
    for (const [what, [settings, build]] of Object.entries(CASES))
      test(what, () => {
        const config = JSON.parse(JSON.stringify({ ...BUILD, ...build }));
        const original = theirs(settings, { annotations: {}, ...config });
        assert.deepStrictEqual(comparable(ours(settings, config, env)), comparable(original));
      });
  });
}

compare('by the built-in template, a pod is the original\'s:', {});
// Whoever brings the original's template gets what it says.
compare('by the original\'s template, a pod is the original\'s:', {
  POD_TEMPLATE: path.join(path.dirname(PACKAGE), 'config/pod.yaml.hbs') });

// --- what is better here, on purpose ---

describe('unlike the original,', () => {
  const volume = (pod, name) => pod.spec.volumes.find((v) => v.name === name).hostPath;

  test('a build asks for the same pod again', () => {
    assert.deepStrictEqual(ours({}, BUILD), ours({}, BUILD));
    assert.notStrictEqual(theirs({}, BUILD).metadata.name, theirs({}, BUILD).metadata.name);
  });

  test('a malformed token of a pull request is no failure', () => {
    const config = { ...BUILD, jobName: 'PR-1', token: 'malformed' };
    assert.throws(() => theirs({ ecosystem: DISK }, config));
    const pod = ours({ ecosystem: DISK }, config);
    assert.strictEqual(volume(pod, 'sd-job-cache').path, '/sd-cache/jobs/123/777');
    assert.ok(pod.spec.containers[0].volumeMounts.find((m) => m.name === 'sd-job-cache').readOnly);
  });

  test('jobs of stages are jobs of a pull request, too', () => {
    const config = { ...BUILD, jobName: 'PR-1:stage@canary:setup' };
    const read = (pod) => pod.spec.containers[0].volumeMounts.find((m) =>
      m.name === 'sd-pipeline-cache').readOnly;
    assert.strictEqual(read(theirs({ ecosystem: DISK }, config)), false);
    assert.strictEqual(read(ours({ ecosystem: DISK }, config)), true);
  });

  test('an image is what it is', () => {
    for (const container of ['a"b', 'a\nb: c', '{{token}}', 'a=b&c', "'", '12', 'true'])
      for (const env of [{}, { POD_TEMPLATE: path.join(path.dirname(PACKAGE), 'config/pod.yaml.hbs') }])
        assert.strictEqual(ours({}, { ...BUILD, container }, env).spec.containers[0].image, container);
    assert.notStrictEqual(theirs({}, { ...BUILD, container: 'a=b&c' }).spec.containers[0].image,
      'a=b&c');
  });

  test('without the ids of its caches a build has none of them', () => {
    const config = { ...BUILD, pipeline: undefined };
    assert.strictEqual(volume(theirs({ ecosystem: DISK }, config), 'sd-pipeline-cache').path,
      '/sd-cache/pipelines/');
    const r = run({ ecosystem: DISK }, config);
    assert.strictEqual(r.status, 1);
    assert.match(r.stderr, /buildConfig must have pipeline\.id, jobId and eventId/);
  });
});

// --- Kubernetes' own view ---

test('Kubernetes knows every member of a pod where it stands', () => {
  const known = (pods) => execFileSync('/usr/bin/python3', [path.join(__dirname, 'known.py')], {
    input: pods.map((pod) => JSON.stringify(pod) + '\n').join(''), encoding: 'utf8' })
    .trimEnd().split('\n').map((line) => JSON.parse(line));
  const pods = Object.values(CASES).map(([settings, build]) =>
    ours(settings, JSON.parse(JSON.stringify({ ...BUILD, ...build }))));
  assert.deepStrictEqual(known(pods), pods);
  const original = tidy(theirs({}, BUILD));
  assert.notDeepStrictEqual(known([original]), [original]);
});

// --- the command ---

describe('tenax build-worker pod', () => {
  test('hides the token unless asked', () => {
    const r = run({}, { ...BUILD, token: 'very.s3cret.token' });
    assert.strictEqual(r.status, 0, r.stderr);
    assert.doesNotMatch(r.stdout, /s3cret/);
    assert.match(JSON.parse(r.stdout).spec.containers[0].args[0], /^\/opt\/sd\/run\.sh "\(hidden\)" /);
    assert.match(run({}, { ...BUILD, token: 'very.s3cret.token' }, ['--show-token']).stdout, /s3cret/);
  });

  test('takes a message or a buildConfig, from a file or standard input', () => {
    const file = path.join(folder, 'message.json');
    const env = { PATH: process.env.PATH };
    fs.writeFileSync(file, JSON.stringify(BUILD));
    const bare = execFileSync(BIN, ['build-worker', 'pod', file], { env, encoding: 'utf8' });
    const message = spawnSync(BIN, ['build-worker', 'pod', '-'], { env, encoding: 'utf8',
      input: JSON.stringify({ job: 'start', buildConfig: BUILD }) });
    assert.strictEqual(bare, message.stdout);
  });

  test('says what is wrong, without the token', () => {
    const bad = [
      [{ container: 5 }, {}, 1, /buildConfig\.container must be the name of an image/],
      [{ jobId: '../..' }, {}, 1, /buildConfig\.jobId must be a number/],
      [{}, { K8S_POD_LABELS: '{"sdbuild": "1"}' }, 2, /K8S_POD_LABELS: sdbuild is for the worker/],
      [{}, { POD_TEMPLATE: '/nowhere.yaml' }, 2, /cannot read \/nowhere\.yaml/],
    ];
    for (const [build, env, code, expected] of bad) {
      const r = run({}, { ...BUILD, ...build, token: 'very.s3cret.token' }, [], env);
      assert.strictEqual(r.status, code);
      assert.match(r.stderr, expected);
      assert.doesNotMatch(r.stderr + r.stdout, /s3cret/);
    }
  });

  test('prints the built-in template, which makes the same pod as a file', () => {
    const file = path.join(folder, 'pod.yaml');
    fs.writeFileSync(file, execFileSync(BIN, ['build-worker', '--print-pod-template'],
      { env: { PATH: process.env.PATH } }));
    assert.deepStrictEqual(ours({ ecosystem: DISK }, BUILD, { POD_TEMPLATE: file }),
      ours({ ecosystem: DISK }, BUILD));
  });

  test('names the line of a template that is wrong', () => {
    const file = path.join(folder, 'pod.yaml');
    fs.writeFileSync(file, 'kind: Pod\nspec:\n  {{#with docker}}\n  a: 1\n  {{/with}}\n');
    const r = run({}, BUILD, [], { POD_TEMPLATE: file });
    assert.strictEqual(r.status, 2);
    assert.match(r.stderr, /pod\.yaml: line 3, column 3: .*#with docker/);
  });
});

// --- the launcher's script, in folders of the test ---

describe('the launcher', () => {
  let root;
  before(() => { root = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-launcher-')); });
  after(() => fs.rmSync(root, { recursive: true }));

  function lay(name, files) {
    for (const [file, text] of Object.entries(files)) {
      const to = path.join(root, name, file);
      fs.mkdirSync(path.dirname(to), { recursive: true });
      fs.writeFileSync(to, text);
    }
  }

  // As it would run, but that each absolute path is below the root.
  function launch(settings = {}) {
    for (const d of ['workspace', 'opt/launcher', 'opt/sdpipelinecache/a', 'opt/sdjobcache',
      'opt/sdeventcache'])
      fs.mkdirSync(path.join(root, d), { recursive: true });
    const script = ours(settings, BUILD).spec.initContainers[0].command[2]
      .replaceAll(/(?<=^|[ "])\/(?=opt\/|workspace\/|hab\b)/gm, `${root}/`);
    // Nothing outside of it: the test may run as root.
    assert.doesNotMatch(script.replaceAll(`${root}/`, '@'), /(?<!\$new)\/(opt|workspace|hab)\b/);
    return spawnSync('/bin/sh', ['-c', script], { encoding: 'utf8' });
  }

  const files = () => fs.readdirSync(path.join(root, 'opt/launcher')).sort();

  test('is put on the node once, whole, and measured', () => {
    lay('opt/sd', { launch: 'one', 'run.sh': 'run', 'launcher_entrypoint.sh': 'entry' });
    lay('hab', { 'pkgs/core': 'core' });
    let r = launch();
    assert.strictEqual(r.status, 0, r.stderr);
    assert.deepStrictEqual(files(), ['hab', 'launch', 'launcher_entrypoint.sh', 'run.sh']);
    assert.strictEqual(fs.readFileSync(path.join(root, 'opt/launcher/hab/pkgs/core'), 'utf8'), 'core');
    assert.match(fs.readFileSync(path.join(root, 'workspace/metrics'), 'utf8'),
      /^launcher_start_ts:\d+\nlauncher_end_ts:\d+\n$/);
    lay('opt/sd', { launch: 'two' });
    r = launch({ ecosystem: DISK });
    assert.strictEqual(r.status, 0, r.stderr);
    assert.strictEqual(fs.readFileSync(path.join(root, 'opt/launcher/launch'), 'utf8'), 'one');
    assert.strictEqual(fs.statSync(path.join(root, 'opt/sdpipelinecache/a')).mode & 0o777, 0o777);
  });

  test('completes what another pod has begun', () => {
    fs.rmSync(path.join(root, 'opt/launcher/launch'));
    fs.rmSync(path.join(root, 'opt/launcher/run.sh'));
    const r = launch();
    assert.strictEqual(r.status, 0, r.stderr);
    assert.deepStrictEqual(files(), ['hab', 'launch', 'launcher_entrypoint.sh', 'run.sh']);
    assert.deepStrictEqual(fs.readdirSync(path.join(root, 'opt/launcher/hab')), ['pkgs']);
  });

  test('fails, and leaves nothing behind, if it has no launcher to put there', () => {
    fs.rmSync(path.join(root, 'opt/launcher'), { recursive: true });
    fs.rmSync(path.join(root, 'opt/sd'), { recursive: true });
    assert.notStrictEqual(launch().status, 0);
    assert.deepStrictEqual(files(), []);
  });
});
