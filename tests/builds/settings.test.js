// SPDX-License-Identifier: Apache-2.0
// `tenax build-worker --print-config`: the variables, members and defaults that deployments of
// Screwdriver's queue worker rely on, written by hand so that the table in the code can disagree.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { run } = require('./harness.js');

const K8S = 'executor.k8s.options.kubernetes.';
const OPTIONS = 'executor.k8s.options.';

// variable, member of the file, default as it is printed, another value
const ORIGINAL = [
    ['K8S_HOST', `${K8S}host`, '"kubernetes.default"', 'api.example.com:6443'],
    ['K8S_JOBS_NAMESPACE', `${K8S}jobsNamespace`, '"default"', 'builds'],
    ['K8S_SECURITYCONTEXT_PRIVILEGED', `${K8S}privileged`, 'false', 'true'],
    ['K8S_SERVICE_ACCOUNT_NAME', `${K8S}serviceAccount`, '"default"', 'builder'],
    ['K8S_AUTOMOUNT_SERVICE_ACCOUNT_TOKEN', `${K8S}automountServiceAccountToken`, 'false', 'true'],
    ['K8S_POD_DNS_POLICY', `${K8S}dnsPolicy`, '"ClusterFirst"', 'Default'],
    ['K8S_POD_IMAGE_PULL_POLICY', `${K8S}imagePullPolicy`, '"Always"', 'IfNotPresent'],
    ['DOCKER_FEATURE_ENABLED', `${K8S}dockerFeatureEnabled`, 'false', 'true'],
    ['K8S_CPU_MICRO', `${K8S}resources.cpu.micro`, '1', '0.5'],
    ['K8S_CPU_LOW', `${K8S}resources.cpu.low`, '2', '3'],
    ['K8S_CPU_HIGH', `${K8S}resources.cpu.high`, '6', '7'],
    ['K8S_CPU_TURBO', `${K8S}resources.cpu.turbo`, '12', '13'],
    ['K8S_CPU_MAX', `${K8S}resources.cpu.max`, '12', '14'],
    ['K8S_MEMORY_MICRO', `${K8S}resources.memory.micro`, '1', '1.5'],
    ['K8S_MEMORY_LOW', `${K8S}resources.memory.low`, '2', '3'],
    ['K8S_MEMORY_HIGH', `${K8S}resources.memory.high`, '12', '13'],
    ['K8S_MEMORY_TURBO', `${K8S}resources.memory.turbo`, '16', '17'],
    ['K8S_MEMORY_MAX', `${K8S}resources.memory.max`, '16', '18'],
    ['K8S_DISK_SPEED_LABEL', `${K8S}resources.disk.speed`, '""', 'example.com/disk'],
    ['K8S_BUILD_TIMEOUT', `${K8S}buildTimeout`, '90', '91'],
    ['K8S_MAX_BUILD_TIMEOUT', `${K8S}maxBuildTimeout`, '120', '121'],
    ['TERMINATION_GRACE_PERIOD_SECONDS', `${K8S}terminationGracePeriodSeconds`, '60', '61'],
    ['K8S_LIFECYCLE_HOOKS', `${K8S}lifecycleHooks`, '{}', '{"preStop":{}}'],
    ['K8S_POD_LABELS', `${K8S}podLabels`, '{}', '{"network-egress":"restricted"}'],
    ['K8S_NODE_SELECTORS', `${K8S}nodeSelectors`, '{}', '{"dedicated":"screwdriver"}'],
    ['K8S_PREFERRED_NODE_SELECTORS', `${K8S}preferredNodeSelectors`, '{}', '{"disk":"ssd"}'],
    ['K8S_ANNOTATIONS', `${K8S}annotations`, '{}', '{"example.com/a":"b"}'],
    ['K8S_RUNTIME_CLASS', `${K8S}runtimeClass`, '""', 'kata'],
    ['K8S_IMAGE_PULL_SECRET_NAME', `${K8S}imagePullSecretName`, '""', 'registry'],
    ['K8S_VOLUME_MOUNTS', `${K8S}volumeMounts`, '[]', '[{"name":"a"}]'],
    ['K8S_SECRETS', `${K8S}buildSecrets`, '[]', '[{"secret_env":"A"}]'],
    ['K8S_SECRETS_FILE', `${K8S}buildSecretsFile`, '[]', '[{"name":"a"}]'],
    ['LAUNCH_IMAGE', `${OPTIONS}launchImage`, '"screwdrivercd/launcher"', 'mine/launcher'],
    ['LAUNCH_VERSION', `${OPTIONS}launchVersion`, '"stable"', 'v7'],
    ['EXECUTOR_PREFIX', `${OPTIONS}prefix`, '""', 'beta'],
    ['CIRCUIT_TIMEOUT', `${OPTIONS}fusebox.breaker.timeout`, '10000', '10001'],
    ['REQUEST_RETRYDELAY', `${OPTIONS}requestretry.retryDelay`, '3000', '3001'],
    ['SD_HAB_ENABLED', `${OPTIONS}sdHabEnabled`, 'true', 'false'],
    ['ECOSYSTEM_UI', 'ecosystem.ui', '"https://cd.screwdriver.cd"', 'https://ui.example.com'],
    ['ECOSYSTEM_API', 'ecosystem.api', '"https://api.screwdriver.cd"', 'https://api.example.com'],
    ['ECOSYSTEM_STORE', 'ecosystem.store', '"https://store.screwdriver.cd"', 'https://store.example.com'],
    ['ECOSYSTEM_PUSHGATEWAY_URL', 'ecosystem.pushgatewayUrl', '""', 'push.example.com'],
    ['CACHE_STRATEGY', 'ecosystem.cache.strategy', '"s3"', 'disk'],
    ['CACHE_PATH', 'ecosystem.cache.path', '"/"', '/cache'],
    ['CACHE_COMPRESS', 'ecosystem.cache.compress', 'false', 'true'],
    ['CACHE_MD5CHECK', 'ecosystem.cache.md5check', 'false', 'true'],
    ['CACHE_MAX_SIZE_MB', 'ecosystem.cache.max_size_mb', '0', '500'],
    ['CACHE_MAX_GO_THREADS', 'ecosystem.cache.max_go_threads', '10000', '5000'],
    ['RABBITMQ_PROTOCOL', 'rabbitmq.protocol', '"amqp"', 'amqps'],
    ['RABBITMQ_USERNAME', 'rabbitmq.username', '"foo"', 'worker'],
    ['RABBITMQ_HOST', 'rabbitmq.host', '"127.0.0.1"', 'one,two:5673'],
    ['RABBITMQ_PORT', 'rabbitmq.port', '5672', '5671'],
    ['RABBITMQ_VIRTUAL_HOST', 'rabbitmq.vhost', '"/screwdriver"', '/builds'],
    ['RABBITMQ_QUEUE', 'rabbitmq.queue', '"test"', 'sd'],
    ['RABBITMQ_PREFETCH_COUNT', 'rabbitmq.prefetchCount', '20', '21'],
    ['RABBITMQ_MSG_REPROCESS_LIMIT', 'rabbitmq.messageReprocessLimit', '3', '5'],
    ['RABBITMQ_RETRYQUEUE', 'rabbitmq.retryQueue', '"sdRetryQueue"', 'sdretry'],
    ['RABBITMQ_RETRYQUEUE_ENABLED', 'rabbitmq.retryQueueEnabled', 'false', 'true'],
    ['RABBITMQ_EXCHANGE', 'rabbitmq.exchange', '"build"', 'builds'],
    ['RABBITMQ_BUILD_INIT_TIMEOUT', 'rabbitmq.initTimeout', '5', '6'],
    ['PORT', 'httpd.port', '80', '8080'],
    ['HOST', 'httpd.host', '"0.0.0.0"', '127.0.0.1'],
];

// Hidden: the value is not printed.
const SECRETS = [
    ['K8S_TOKEN', `${K8S}token`, '""'],
    ['RABBITMQ_PASSWORD', 'rabbitmq.password', '"(hidden)"'],
    ['RABBITMQ_CONNECT_OPTIONS', 'rabbitmq.connectOptions',
        '{"json": true, "heartbeatIntervalInSeconds": 20, "reconnectTimeInSeconds": 30}'],
];

// variable, member, flag, default, values of the file, the variable and the flag
const OWN = [
    ['VERIFICATION', 'verification.mode', '--verification', '"queue"', 'timer', 'queue', 'timer'],
    ['VERIFY_DELAY', 'verification.delay', '--verify-delay', '"30s"', '1s', '2s', '3000ms'],
    ['VERIFY_STEP', 'verification.step', '--verify-step', '"10s"', '1s', '2s', '3000ms'],
    ['SCHEDULING_TIMEOUT', 'verification.schedulingTimeout', '--scheduling-timeout', '"3m"', '1m', '2m', '240000ms'],
    ['VERIFY_LIMIT', 'verification.limit', '--verify-limit', '6', '7', '8', '9'],
    ['WAIT_QUEUES', 'verification.waitQueues', '--wait-queues', 'false', 'true', 'false', null],
    ['TENAX_BROKER', 'broker', '--broker', '"rabbitmq"', 'tenax', 'rabbitmq', 'tenax'],
    ['TENAX_URL', 'tenax.server', '--server', '"http://127.0.0.1:7890"', 'http://a', 'http://b', 'http://c'],
    ['POD_TEMPLATE', 'kubernetes.podTemplate', '--pod-template', '""', 'a', 'b', 'c'],
    ['TENAX_STATE_DIR', 'stateDir', '--state-dir', '""', '/a', '/b', '/c'],
    ['PORT', 'httpd.port', '--port', '80', '81', '82', '83'],
    ['HOST', 'httpd.host', '--host', '"0.0.0.0"', '127.0.0.1', '127.0.0.2', '127.0.0.3'],
];

const plain = (text) => text.replace(/^"(.*)"$/, '$1').replace(/\s/g, '');

describe('settings of the build worker', () => {
    let folder;
    before(() => { folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-settings-')); });
    after(() => fs.rmSync(folder, { recursive: true }));

    // {member: [value, source]} of what --print-config says.
    async function printed(env, args = []) {
        const { code, out, errors } = await run([...args, '--print-config'], { HOME: folder, ...env });
        assert.equal(code, 0, errors);
        return Object.fromEntries(out.trim().split('\n').map((line) => {
            const match = /^([\w.]+): (.*) {2}# (.+)$/.exec(line);
            assert.ok(match, line);
            return [match[1], [match[2], match[3]]];
        }));
    }

    const write = (members) => {
        const file = path.join(folder, 'local.yaml');
        const tree = {};
        for (const [member, value] of members) {
            const parts = member.split('.');
            let node = tree;
            for (const part of parts.slice(0, -1))
                node = node[part] ||= {};
            node[parts.at(-1)] = value;
        }
        fs.writeFileSync(file, JSON.stringify(tree));
        return file;
    };

    test('the original\'s have its defaults', async () => {
        const all = await printed({});
        for (const [variable, member, value] of [...ORIGINAL, ...SECRETS])
            assert.deepEqual(all[member], [value, 'default'], variable);
    });

    test('the original\'s are read from its variables', async () => {
        const all = await printed(Object.fromEntries(ORIGINAL.map(([variable, , , other]) => [variable, other])));
        for (const [variable, member, , other] of ORIGINAL)
            assert.deepEqual([plain(all[member][0]), all[member][1]], [other, `variable ${variable}`]);
    });

    test('and from the members of its file, numbers and truths as text as well', async () => {
        const all = await printed({},
            ['--config', write(ORIGINAL.map(([, member, , other]) => [member, other]))]);
        for (const [variable, member, , other] of ORIGINAL)
            assert.deepEqual([plain(all[member][0]), all[member][1]], [other, 'file'], variable);
    });

    test('secrets are masked, from wherever they come', async () => {
        const secret = '{"password":"hemlock"}';
        const file = write(SECRETS.map(([, member]) => [member, secret]));
        for (const [env, args] of [[Object.fromEntries(SECRETS.map(([variable]) => [variable, secret])), []],
            [{}, ['--config', file]]]) {
            const all = await printed(env, args);
            for (const [, member] of SECRETS)
                assert.equal(plain(all[member][0]), '(hidden)', member);
            assert.doesNotMatch(JSON.stringify(all), /hemlock/);
        }
    });

    test('a flag overrides a variable, and that the file', async () => {
        const file = write(OWN.map(([, member, , , value]) => [member, value]));
        const env = Object.fromEntries(OWN.map(([variable, , , , , value]) => [variable, value]));
        const args = OWN.flatMap(([, , flag, , , , value]) => (value === null ? [flag] : [flag, value]));
        const [none, one, two, three] = [await printed({}), await printed({}, ['--config', file]),
            await printed(env, ['--config', file]), await printed(env, ['--config', file, ...args])];
        for (const [variable, member, flag, unset, ofFile, ofVariable, ofFlag] of OWN) {
            assert.deepEqual(none[member], [unset, 'default'], variable);
            assert.deepEqual([plain(one[member][0]), one[member][1]], [ofFile, 'file'], variable);
            assert.deepEqual([plain(two[member][0]), two[member][1]], [ofVariable, `variable ${variable}`]);
            assert.deepEqual([plain(three[member][0]), three[member][1]], [ofFlag ?? 'true', 'flag'], flag);
        }
    });

    test('no plugin but k8s is served', async () => {
        for (const plugin of ['k8s-vm', 'k8s-sandbox', 'jenkins', 'docker']) {
            const { code, errors } = await run([], { HOME: folder, EXECUTOR_PLUGIN: plugin, PORT: '0' });
            assert.equal(code, 2, errors);
            assert.match(errors, new RegExp(`EXECUTOR_PLUGIN: .*the plugin k8s; '${plugin}' is not served`));
        }
    });
});
