// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every command by every role, with a token for all queues and with one limited to some: what the
// role may do works, and what it may not do is refused with a sentence that says so.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Server, begin, makeDir, ownAddress, run, until } = require('./harness');
const { RIGHTS, bearer, create } = require('./access');
const { Screen, closeTerminals, openTerminals } = require('./terminal');

// Commands that ask no server, or only their own.
const ALONE_AT_WORK = ['serve', 'restore', 'check', 'postgres', 'tls', 'completion', 'context', 'dev', 'pods'];
// Those by every role beside what they need: a terminal (below), a cluster, a broker.
const ELSEWHERE = { top: __filename, executor: '../kubernetes/executor_roles.test.js', bridge: '../bridge/roles.test.js',
    'build-worker': '../builds/worker_token.test.js' };

const queueOf = (name, concurrency) => JSON.stringify({ apiVersion: 'tenax.dev/v1', kind: 'Queue',
    metadata: { name }, spec: { concurrency } });

// Each command: the right that it needs, its arguments, and what a token that is limited to mail* gets: the
// same of its queues ('part'), the same as others ('alike'), or a refusal ('none'). says: what its output has.
const COMMANDS = {
    enqueue: ['enqueue', 'part', ['--queue', 'mail', '--type', 't', '1']],
    work: ['work', 'part', ['--queue', 'mail-work', '--drain', '--', 'true']],
    crons: ['see', 'none', []],
    cron: ['operate', 'none', ['nightly', '--put', 'CRON']],
    jobs: ['see', 'part', [], /mail/],
    events: ['see', 'part', [], /job_enqueued/],
    job: ['see', 'part', ['ID'], /mail/],
    explain: ['see', 'part', ['--all-queues'], /mail/],
    failures: ['see', 'part', [], /it broke/],
    group: ['see', 'none', ['build']],
    queues: ['see', 'part', [], /mail/],
    workers: ['see', 'part', [], /mailer/],
    operations: ['operate', 'part', []],
    release: ['work', 'part', ['HELD', '--run-token', 'TOKEN'], /is given back/],
    retry: ['operate', 'part', ['--queue', 'mail-dead', '--dry-run']],
    cancel: ['operate', 'part', ['--queue', 'mail-none']],
    patch: ['operate', 'part', ['ID', '--set', '{"priority": 7}']],
    delete: ['operate', 'part', ['--queue', 'mail-none']],
    create: ['operate', 'part', ['-f', 'QUEUE']],
    apply: ['operate', 'part', ['-f', 'QUEUE']],
    get: ['see', 'part', ['queues'], /mail/],
    update: ['operate', 'part', ['-f', 'QUEUE']],
    policy: ['see', 'none', ['get']],
    queue: ['see', 'part', ['mail'], /mail/],
    budgets: ['see', 'none', []],
    'retry-settings': ['see', 'alike', [], /nabled/],
    servers: ['see', 'none', []],
    version: ['known', 'alike', ['--server'], /server/],
    audit: ['administer', 'none', []],
    token: ['administer', 'none', ['list']],
    backup: ['administer', 'none', ['-']],
    compact: ['administer', 'none', []],
    'step-down': ['administer', 'none', []],
};
// What these say where there is one server alone, which has nobody to leave the jobs to.
const ALONE = ['step-down', 'servers'];

describe('every command', () => {
    const dir = makeDir();
    const server = new Server({ args: ['--host', ownAddress()] });
    const tokens = {};
    let job, worker;

    async function fill(headers) {
        const post = async (target, body) => {
            const res = await server.post(target, body, headers);
            assert.ok(res.status < 300, `${target}: ${res.text}`);
            return res.json;
        };
        const enqueue = (queue, more) => post('/jobs', { queue, type: 't', payload: 1, ...more });
        job = (await enqueue('mail')).id;
        await enqueue('payroll', { group: 'build' });
        await enqueue('mail-dead');
        const { jobs: [dead] } = await post('/jobs/claim', { queues: ['mail-dead'], worker: 'mailer' });
        await post(`/jobs/${dead.id}/failure`, { token: dead.token, message: 'it broke', kill: true });
    }

    before(async () => {
        openTerminals();
        await server.start();
        tokens.admin = await create(server, { roles: ['admin'] }, {});
        const headers = bearer(tokens.admin);
        for (const role of Object.keys(RIGHTS)) {
            tokens[role] ??= await create(server, { roles: [role] }, headers);
            if (role !== 'admin') // who cannot be limited
                tokens[`${role} of mail*`] = await create(server, { roles: [role], queues: ['mail*'] }, headers);
        }
        await fill(headers);
        fs.writeFileSync(path.join(dir, 'CRON'), '{"entries": []}');
        await server.stop(); // what is seen then is what a restart has left
        await server.start();
        const busy = await server.post('/jobs', { queue: 'mail-busy', type: 't', payload: 1 }, headers);
        worker = begin(['work', '--queue', 'mail-busy', '--name', 'mailer', '--', 'sleep', '600'],
            { TENAX_URL: server.url(), TENAX_TOKEN: tokens.worker });
        await until(async () => (await server.get(`/jobs/${busy.json.id}`, headers)).json.status === 'in_flight');
    });
    after(async () => {
        worker?.child.kill('SIGKILL');
        await worker?.ended;
        closeTerminals();
        await server.clean();
        fs.rmSync(dir, { recursive: true });
    });

    // A job in flight, to be given back.
    async function hold() {
        const headers = bearer(tokens.admin);
        await server.post('/jobs', { queue: 'mail-held', type: 't', payload: 1 }, headers);
        return (await server.post('/jobs/claim', { queues: ['mail-held'], worker: 'holder' }, headers)).json.jobs[0];
    }

    // New to create, or the same one, changed each time.
    let changes = 0;
    async function command(name, who, { flags = [], env = { TENAX_TOKEN: tokens[who] } } = {}) {
        const [,, args] = COMMANDS[name];
        fs.writeFileSync(path.join(dir, 'QUEUE'),
            queueOf(name === 'create' ? `mail-${++changes}` : 'mail-set', ++changes));
        const held = name === 'release' ? await hold() : null;
        const fill = (arg) => arg.replace(/^ID$/, job).replace(/^HELD$/, held?.id).replace(/^TOKEN$/, held?.token).replace(/^(CRON|QUEUE)$/, (file) => path.join(dir, file));
        const rest = args.map(fill);
        const all = name === 'token' ? [...rest, ...flags] : [...flags, ...rest]; // a word of a command comes first
        return run([name, ...all], { TENAX_URL: server.url(), TENAX_ADMIN_URL: server.adminUrl, ...env });
    }

    async function check(name, who, how) {
        const [right, limited,, says] = COMMANDS[name];
        const may = RIGHTS[who.split(' ')[0]].includes(right) && !(who.endsWith('*') && limited === 'none');
        const end = await command(name, who, how);
        const what = `${name} as ${who}: exit ${end.code} ${end.stdout} ${end.stderr}`;
        if (!may) {
            assert.equal(end.code, 1, what);
            assert.match(end.stderr, /insufficient_rights/, what);
        } else if (ALONE.includes(name)) {
            assert.match(end.stderr, /this server works by itself/, what);
        } else {
            assert.equal(end.code, 0, what);
            assert.match(end.stdout, says ?? /^/, what);
        }
        if (who.endsWith('*'))
            assert.doesNotMatch(end.stdout, /payroll/, what);
    }

    // `tenax top` by every role.
    it('is_a_terminal_that_shows_and_does_what_its_user_may', async () => {
        const checkScreen = async (who) => {
            const screen = new Screen(server.url(), { env: `NO_COLOR=1 TENAX_TOKEN=${tokens[who]}`, width: 100 });
            const acts = RIGHTS[who.split(' ')[0]].includes('operate'), limited = who.endsWith('*');
            await screen.shows(/mailer/, limited ? /ready 1\b/ : /ready 2\b/, acts ? /c cancel/ : /Enter detail +\/ search +\? help/);
            screen.keys('5');
            await screen.shows(/^ mail /m, limited ? /^(?!.*payroll)/s : /payroll/);
            screen.keys('?');
            const help = await screen.shows(/move in the list/);
            assert.deepEqual([/after confirmation/, /give a worker/].map((line) => line.test(help)), [acts, acts && !limited], who);
            screen.keys('Escape', '2');
            await screen.shows(new RegExp(job));
            screen.keys('d');
            await screen.shows(acts ? /Delete job \S+\? \(y\/n\)/ : /these credentials lack the right 'operate'/);
            screen.keys('n', '8');
            await screen.shows(/^ mailer/m);
            screen.keys('s');
            await screen.shows(!acts ? /these credentials lack the right 'operate'/
                : limited ? /limited to some queues, and this is about all/ : /Give nothing more to mailer\?/);
            screen.keys('n', 'q');
            await screen.shows(/ended with 0/);
            screen.close();
        };
        await Promise.all(Object.keys(tokens).map(checkScreen));
        // Whoever has no token is told so.
        const screen = new Screen(server.url());
        await screen.shows(/needs credentials/);
        screen.close();
    });

    it('is_in_this_table_or_tested_elsewhere', async () => {
        const all = (await run(['help', '--list'])).stdout.trim().split('\n').filter((name) => !name.includes(' '));
        assert.deepEqual(all.sort(), [...Object.keys(COMMANDS), ...ALONE_AT_WORK, ...Object.keys(ELSEWHERE)].sort());
        for (const [name, file] of Object.entries(ELSEWHERE))
            assert.match(fs.readFileSync(path.resolve(__dirname, file), 'utf8'), new RegExp(`\`tenax ${name}[^\`]*\` by every role`), file);
    });

    for (const name of Object.keys(COMMANDS))
        it(`does_what_its_sender_may_and_says_what_not: ${name}`, async () => {
            for (const who of Object.keys(tokens))
                await check(name, who);
        });

    it('takes_its_token_from_a_file_too_and_rather_than_from_the_variable', async () => {
        const file = path.join(dir, 'token');
        fs.writeFileSync(file, `${tokens.admin}\n`, { mode: 0o600 });
        for (const name of Object.keys(COMMANDS)) {
            await check(name, 'admin', { env: { TENAX_TOKEN_FILE: file, TENAX_TOKEN: tokens.viewer } });
            await check(name, 'admin', { flags: ['--token-file', file], env: { TENAX_TOKEN: tokens.viewer } });
        }
    });

    it('goes_on_with_its_token_over_a_restart_if_it_goes_on_at_all', async (t) => {
        const headers = bearer(tokens.admin);
        const file = path.join(dir, 'limited');
        fs.writeFileSync(file, tokens['worker of mail*'], { mode: 0o600 });
        const going = Object.fromEntries(['viewer', 'viewer of mail*'].map((who) => [who, begin(['events', '--follow'],
            { TENAX_URL: server.url(), TENAX_TOKEN: tokens[who] })]));
        going.work = begin(['work', '--queue', 'mail-on', '--', 'cat'], { TENAX_URL: server.url(), TENAX_TOKEN_FILE: file });
        t.after(() => Object.values(going).forEach(({ child }) => child.kill('SIGKILL')));
        const screen = new Screen(server.url(), { env: `NO_COLOR=1 TENAX_TOKEN=${tokens['viewer of mail*']}` });
        await screen.shows(/mailer/);
        const done = async (queue) => {
            const { id } = (await server.post('/jobs', { queue, type: 'on', payload: 1, retention: { completed_ms: 600000 } }, headers)).json;
            if (queue === 'mail-on')
                await until(async () => (await server.get(`/jobs/${id}`, headers)).json.status === 'completed', `${queue} is worked on`);
            return id;
        };
        await until(async () => await done('mail-on') && going.viewer.stdout && going['viewer of mail*'].stdout, 'both follow');
        const { port } = server;
        await server.signal('SIGKILL');
        await screen.shows(/cannot reach/);
        await server.start({ args: [...server.args, '--port', String(port)] });
        const [hidden, seen] = [await done('payroll'), await done('mail-on')];
        for (const who of ['viewer', 'viewer of mail*'])
            await until(() => going[who].stdout.includes(seen), `${who} is shown it`);
        assert.ok(going.viewer.stdout.includes(hidden));
        assert.ok(!going['viewer of mail*'].stdout.includes(hidden));
        await screen.shows(/connected again/, /mailer/);
        // Whoever keeps a job goes on with it.
        assert.equal((await server.get('/workers/mailer', headers)).json.in_flight, 1);
    });

    it('sends_no_token_where_there_is_none_and_is_told_so', async () => {
        for (const name of Object.keys(COMMANDS).filter((each) => each !== 'work')) {
            const end = await command(name, 'nobody');
            assert.equal(end.code, 1, `${name}: ${end.stdout} ${end.stderr}`);
            assert.match(end.stderr, /credentials_required/, name);
        }
    });
});
