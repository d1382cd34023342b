// SPDX-License-Identifier: Apache-2.0
'use strict';

// `make install`: what it puts where; the manual pages, as man renders them; completions, in
// real shells; the unit, as systemd judges it. Of another program than build/tenax: TENAX_BIN.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, Server, makeDir, until } = require('../http/harness');

const SOURCE = path.join(__dirname, '../..');
const PREFIX = '/usr/local';

let destination;
const installed = (...parts) => path.join(destination, PREFIX, ...parts);
const man1 = (page) => installed('share/man/man1', `${page}.1`);

// Runs a command to its end, which must be a good one, and returns its output.
function output(command, args, options = {}) {
    const ran = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26, ...options });
    assert.equal(ran.error, undefined);
    assert.equal(ran.status, 0, `${command} ${args.join(' ')}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout;
}

function install() {
    return output('make', ['-C', SOURCE, 'install', `DESTDIR=${destination}`, `PREFIX=${PREFIX}`,
        `BUILD=${path.dirname(BIN)}`]);
}

// The names of all pages of help, as "tls init".
const names = output(BIN, ['help', '--list']).trim().split('\n');
const commands = names.filter((name) => !name.includes(' '));

// The flags of a command, from the other thing that is made out of its table.
function flagsOf(name) {
    const help = output(BIN, ['help', ...name.split(' ')]);
    return [...help.matchAll(/^ {2}(?:-[a-z], )?(--[a-z][a-z-]*)/gm)].map((match) => match[1])
        .filter((flag) => flag !== '--help');
}

before(() => {
    destination = makeDir();
    install();
});

after(() => fs.rmSync(destination, { recursive: true, force: true }));

describe('make install', () => {
    it('puts_everything_below_the_prefix_in_DESTDIR', () => {
        for (const file of ['bin/tenax', 'lib/systemd/system/tenax.service',
            'lib/systemd/system/tenax-work@.service', 'etc/tenax/work.env', 'lib/sysusers.d/tenax.conf', 'share/bash-completion/completions/tenax',
            'share/zsh/site-functions/_tenax', 'share/fish/vendor_completions.d/tenax.fish', 'etc/tenax/tenax.env', 'share/man/man1/tenax.1'])
            assert.ok(fs.existsSync(installed(file)), file);
        assert.deepEqual(fs.readdirSync(destination), ['usr']);
    });

    it('installs_a_program_that_runs', () => {
        assert.equal(output(installed('bin/tenax'), ['version']), output(BIN, ['version']));
    });

    it('leaves_the_settings_of_an_operator_alone', () => {
        const files = ['tenax.env', 'work.env'].map((name) => installed('etc/tenax', name));
        for (const file of files)
            fs.writeFileSync(file, 'TENAX_PORT=9000\n');
        install();
        for (const file of files)
            assert.equal(fs.readFileSync(file, 'utf8'), 'TENAX_PORT=9000\n');
    });

    it('makes_a_user_from_sysusers', () => {
        const made = output('systemd-sysusers', ['--dry-run', `--root=${destination}`,
            installed('lib/sysusers.d/tenax.conf')], { stdio: ['ignore', 'pipe', 'pipe'] });
        assert.doesNotMatch(made, /error|unknown/i);
    });
});

describe('the manual', () => {
    it('has_a_page_for_each_command', () => {
        const pages = ['tenax', ...names.map((name) => `tenax-${name.replace(/ /g, '-')}`)];
        assert.deepEqual(fs.readdirSync(installed('share/man/man1')).sort(),
            pages.map((page) => `${page}.1`).sort());
    });

    it('is_rendered_without_a_warning', () => {
        const files = fs.readdirSync(installed('share/man/man1')).map((f) =>
            installed('share/man/man1', f));
        assert.equal(output('mandoc', ['-T', 'lint', '-W', 'warning', ...files]), '');
        for (const file of files) {
            const groff = spawnSync('groff', ['-ww', '-z', '-man', '-Tutf8', file],
                { encoding: 'utf8' });
            assert.equal(groff.stderr, '', file);
        }
    });

    it('explains_every_option', () => {
        for (const name of names) {
            const page = output('mandoc', ['-T', 'utf8', '-O', 'width=1000',
                man1(`tenax-${name.replace(/ /g, '-')}`)]).replace(/.\x08/g, '');
            for (const flag of flagsOf(name))
                assert.match(page, new RegExp(`^ +(-[a-z], )?${flag}\\b`, 'm'), `${flag} of ${name}`);
        }
    });

    it('keeps_backslashes_dots_and_quotes_of_examples', () => {
        const page = output('mandoc', ['-T', 'utf8', '-O', 'width=1000', man1('tenax-enqueue')]);
        assert.match(page, /jq -c '\.users\[\] \| \{payload: \.\}' all\.json \|/);
        const tls = output('mandoc', ['-T', 'utf8', '-O', 'width=1000', man1('tenax-tls')]);
        assert.match(tls, /--tls-cert tenax-tls\/server-cert\.pem \\$/m);
    });
});

// What bash offers for a command line that ends at the cursor; words as bash splits them.
function bash(words, setup = '') {
    const script = `
        source ${installed('share/bash-completion/completions/tenax')}
        ${setup}
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        [[ $(complete -p tenax) == *' -F _tenax '* ]] || exit 1
        _tenax
        printf '%s\\n' "\${COMPREPLY[@]}"`;
    return output('bash', ['--norc', '-c', script, 'bash', ...words], { cwd: SOURCE })
        .split('\n').filter(Boolean);
}

describe('completion in bash', () => {
    it('offers_every_command', () => {
        assert.deepEqual(bash(['tenax', '']), [...commands, 'help', '--help', '--version']);
        assert.deepEqual(bash(['tenax', 'res']), ['restore']);
        assert.deepEqual(bash(['tenax', 'help', 'exi']), ['exit-codes']);
    });

    it('offers_every_option_of_a_command', () => {
        for (const name of names)
            assert.deepEqual(bash(['tenax', ...name.split(' '), '--']),
                [...flagsOf(name), '--help'], name);
    });

    for (const [what, words, want] of [
        ['the_choices_of_an_option', ['serve', '--commit-mode', ''], ['fsync', 'buffered']],
        ['what_fits_of_the_choices', ['serve', '--commit-mode', 'b'], ['buffered']],
        ['choices_after_an_equals_sign', ['serve', '--log-level', '='],
            ['error', 'warn', 'info', 'debug', 'trace']],
        ['choices_that_fit_after_it', ['serve', '--log-level', '=', 'd'], ['debug']],
        ['folders_where_one_is_asked_for', ['serve', '--root-dir', 'pack'], ['packaging']],
        ['files_where_one_is_asked_for', ['enqueue', '--file', 'READ'], ['README.md']],
        ['files_after_an_option_of_one_letter', ['apply', '-f', 'READ'], ['README.md']],
        ['files_as_words', ['restore', 'READ'], ['README.md']],
        ['nothing_where_it_cannot_know', ['serve', '--port', ''], []],
        ['the_actions_of_a_command', ['tls', 's'], ['server-cert']],
        ['the_options_of_an_action', ['tls', 'init', '--cl'], ['--client']],
        ['an_option_after_a_switch', ['serve', '--insecure', '--por'], ['--port']],
        ['options_before_the_command_of_work', ['work', '--queue', 'q', '--conc'],
            ['--concurrency']],
        ['files_for_the_command_of_work', ['work', '--queue', 'q', '--', 'cat', 'READ'],
            ['README.md']],
        ['files_for_it_without_the_dashes', ['work', '--queue', '=', 'q', 'cat', 'READ'],
            ['README.md']],
    ])
        it(`offers_${what}`, () => assert.deepEqual(bash(['tenax', ...words]), want));

    it('offers_commands_for_the_command_of_work', () => {
        assert.ok(bash(['tenax', 'work', '--queue', 'q', '--', 'ca']).includes('cat'));
        assert.ok(bash(['tenax', 'work', '--queue', 'q', 'ca']).includes('cat'));
    });

    it('leaves_the_command_of_work_to_its_own_completion_where_there_is_one', () => {
        const setup = '_command_offset() { COMPREPLY=("from $1"); }';
        assert.deepEqual(bash(['tenax', 'work', '--queue', 'q', '--', 'git', 'c'], setup),
            ['from 5']);
    });
});

// What an interactive zsh makes of what is typed, tabs included.
async function zsh(typed) {
    const script = `
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PS1= RPS1=; stty cols 500; fpath=(\${(q)1} \\$fpath)"
        zpty -w shell 'autoload -U compinit; compinit -u -D; bindkey "^I" complete-word'
        zpty -w shell 'print rea""dy'
        zpty -r shell seen '*ready*'
        zpty -w -n shell "\${(e)2}"$'\\C-x\\C-e'
        zpty -w -n shell $'\\C-a: \\C-e; print -r do""ne\\n'
        zpty -r shell seen '*done*'
        zpty -d shell
        print -r -- "$seen"`;
    const child = spawn('zsh', ['-f', '-c', script, 'zsh', installed('share/zsh/site-functions'),
        typed], { stdio: ['ignore', 'pipe', 'inherit'], cwd: SOURCE });
    let seen = '';
    child.stdout.on('data', (bytes) => { seen += bytes; });
    await new Promise((resolve) => child.on('close', resolve));
    return seen.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '').replace(/ \x08/g, ' ');
}

describe('completion in zsh', () => {
    it('is_without_a_mistake_of_syntax', () => {
        output('zsh', ['-n', installed('share/zsh/site-functions/_tenax')]);
    });

    for (const [what, typed, want] of [
        ['a_command', 'tenax resto\t', /tenax restore/],
        ['an_option', 'tenax serve --default-backoff-e\t', /serve --default-backoff-exponent=/],
        ['a_file_after_a_letter', 'tenax apply -f READ\t', /apply -f README\.md/],
        ['a_choice', 'tenax serve --commit-mode buf\t', /--commit-mode buffered/],
        ['an_action', 'tenax tls serv\t', /tenax tls server-cert/],
        ['an_option_after_a_word', 'tenax job ID --del\t', /job ID --delete/],
        ['an_option_of_an_action', 'tenax tls init --clie\t', /tls init --client=/],
        ['a_folder', 'tenax check packag\t', /tenax check packaging/],
        ['a_file_for_the_command_of_work', 'tenax work --queue q -- cat READ\t', /cat README\.md/],
    ])
        it(`completes_${what}`, async () => assert.match(await zsh(typed), want));

    it('knows_every_option', () => {
        const script = fs.readFileSync(installed('share/zsh/site-functions/_tenax'), 'utf8');
        for (const name of names) {
            const own = script.split(`        '${name}')\n`)[1].split(';;')[0];
            for (const flag of flagsOf(name))
                assert.match(own, new RegExp(`['*,]${flag}[=\\[}]`), `${flag} of ${name}`);
        }
    });
});

// What fish offers for a command line that ends at the cursor.
function fish(line) {
    return output('fish', ['--no-config', '-c', 'source $argv[1]; complete -C $argv[2]',
        installed('share/fish/vendor_completions.d/tenax.fish'), line], { cwd: SOURCE })
        .split('\n').map((offer) => offer.split('\t')[0]).filter(Boolean);
}

describe('completion in fish', () => {
    let script;

    before(() => {
        script = fs.readFileSync(installed('share/fish/vendor_completions.d/tenax.fish'), 'utf8');
    });

    // The lines of a command's own part.
    const linesOf = (name) => script.split(`\n# tenax ${name}\n`)[1].split('\n\n')[0].trim().split('\n');

    it('knows_every_command_and_explains_it', () => {
        const offered = [...script.matchAll(/^complete -c tenax -n '__tenax_at ' -a (\S+) -d '.+'$/gm)].map((m) => m[1]);
        assert.deepEqual(offered, [...commands, 'help']);
        const actions = [.../^set -g __tenax_actions(.*)$/m.exec(script)[1].matchAll(/'([^']+)'/g)].map((m) => m[1]);
        assert.deepEqual(actions, names.filter((name) => name.includes(' ')));
    });

    it('knows_every_option_for_its_command_alone', () => {
        for (const name of names) {
            const lines = linesOf(name).filter((line) => / -l /.test(line));
            assert.deepEqual(lines.map((line) => `--${/ -l (\S+)/.exec(line)[1]}`), ['--help', ...flagsOf(name)], name);
            for (const line of lines)
                assert.ok(line.startsWith(`complete -c tenax -n '__tenax_at ${name}' `), line);
        }
    });

    it('knows_what_follows_an_option', () => {
        const option = (name, flag) => linesOf(name).find((line) => line.includes(` -l ${flag} `));
        assert.match(option('serve', 'commit-mode'), / -l commit-mode -x -a 'fsync buffered' -d /);
        assert.match(option('serve', 'root-dir'), / -x -a '\(__fish_complete_directories\)' -d /);
        assert.match(option('serve', 'port'), / -l port -x -d /);
        assert.match(option('serve', 'insecure'), / -l insecure -d /);
        assert.match(option('apply', 'file'), / -s f -l file -r -F -d /);
        assert.match(option('jobs', 'watch'), / -l watch -d /); // its value is optional
    });

    it('closes_what_it_quotes', () => {
        for (const line of script.split('\n').filter((l) => l.startsWith('complete ')))
            assert.match(line, /^(?:[^'\\]|'(?:[^'\\]|\\['\\])*')*$/, line);
    });

    const none = spawnSync('fish', ['--version']).error ? 'fish is not installed' : false;
    describe('as fish does it', { skip: none }, () => {
        for (const [what, line, want] of [
            ['a_command', 'tenax res', ['restore']],
            ['an_action', 'tenax tls i', ['init']],
            ['an_option_of_an_action', 'tenax tls init --cl', ['--client']],
            ['a_choice', 'tenax serve --commit-mode b', ['buffered']],
            ['a_file_after_a_letter', 'tenax apply -f READ', ['README.md']],
            ['a_folder', 'tenax check packag', ['packaging/']],
            ['no_file_where_none_is_meant', 'tenax serve READ', []],
            ['a_file_for_the_command_of_work', 'tenax work --queue q -- cat READ', ['README.md']],
            ['a_topic_of_help', 'tenax help exi', ['exit-codes']],
        ])
            it(`offers_${what}`, () => assert.deepEqual(fish(line), want));

        it('offers_commands_for_the_command_of_work', () => {
            assert.ok(fish('tenax work --queue q -- ca').includes('cat'));
        });
    });
});

describe('the unit', () => {
    let unit;

    before(() => {
        unit = path.join(destination, 'tenax.service');
        const text = fs.readFileSync(installed('lib/systemd/system/tenax.service'), 'utf8');
        assert.match(text, new RegExp(`^ExecStart=${PREFIX}/bin/tenax serve$`, 'm'));
        assert.match(text, new RegExp(`^EnvironmentFile=-${PREFIX}/etc/tenax/tenax.env$`, 'm'));
        fs.writeFileSync(unit, text.replace(`=${PREFIX}/bin`, `=${installed('bin')}`));
    });

    it('is_one_that_systemd_has_no_complaints_about', () => {
        const said = spawnSync('systemd-analyze', ['verify', '--man=no', unit],
            { encoding: 'utf8' });
        assert.equal(said.stderr, '');
        assert.equal(said.status, 0);
    });

    it('exposes_little', () => {
        // Out of 100; what systemd calls OK ends at 44.
        output('systemd-analyze', ['security', '--offline=true', '--threshold=15', unit]);
    });

    it('hears_when_the_server_is_ready_and_when_it_stops', async () => {
        const socket = path.join(destination, 'notify');
        const manager = spawn('perl', ['-MSocket', '-e', `
            $| = 1;
            socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die;
            bind($s, pack_sockaddr_un($ARGV[0])) or die;
            print "bound\\n";
            while (defined recv($s, my $said, 4096, 0)) { print "$said\\n"; }`, socket],
        { stdio: ['ignore', 'pipe', 'inherit'] });
        let heard = '';
        manager.stdout.on('data', (bytes) => { heard += bytes; });
        try {
            await until(() => heard.includes('bound'), 'the manager listens');
            const server = new Server({ env: { NOTIFY_SOCKET: socket } });
            try {
                await server.start();
                await until(() => heard.includes('READY=1'), 'it hears of the start');
                await server.assertServes();
                await server.stop();
                assert.equal(server.stderr, '');
                await until(() => heard.includes('STOPPING=1'), 'and of the stop');
            } finally {
                await server.clean();
            }
            assert.equal(heard, 'bound\nREADY=1\nSTOPPING=1\n');
        } finally {
            manager.kill();
        }
    });
});

describe('the unit of a worker', () => {
    let unit, text;

    before(() => {
        unit = path.join(destination, 'tenax-work@mail.service');
        text = fs.readFileSync(installed('lib/systemd/system/tenax-work@.service'), 'utf8');
        fs.writeFileSync(unit, text.replace(`ExecStart=${PREFIX}/bin`, `ExecStart=${installed('bin')}`));
    });

    it('is_one_that_systemd_has_no_complaints_about', () => {
        const said = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
        assert.equal(said.stderr, '');
        assert.equal(said.status, 0);
        output('systemd-analyze', ['security', '--offline=true', '--threshold=30', unit]);
    });

    it('reads_the_settings_of_all_workers_before_its_own', () => {
        assert.deepEqual([...text.matchAll(/^(?:Environment|EnvironmentFile)=(.*)$/gm)].map((m) => m[1]),
            ['TENAX_QUEUE=%i', `-${PREFIX}/etc/tenax/work.env`, `${PREFIX}/etc/tenax/work-%i.env`]);
    });

    it('outlives_the_end_of_what_its_commands_do', () => {
        // By default they have 30 s, and 5 s more after SIGTERM.
        assert.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(text)[1]) > 35);
        assert.match(text, /^KillMode=mixed$/m); // the worker itself ends them
    });

    // Runs what systemd would, with these variables: it splits each into words, and removes quotes.
    function work(env) {
        const words = (value = '') => [...value.matchAll(/"([^"]*)"|(\S+)/g)].map((m) => m[1] ?? m[2]);
        const [, line] = /^ExecStart=(.*)$/m.exec(text);
        const [program, ...args] = line.split(' ').flatMap((word) =>
            (word.startsWith('$') ? words(env[word.slice(1)]) : [word]));
        return spawnSync(path.join(destination, program), args,
            { encoding: 'utf8', env: { ...process.env, TENAX_QUEUE: 'mail', ...env } });
    }

    it('runs_the_command_of_its_settings_for_jobs_of_the_queue_it_is_named_after', async () => {
        const server = new Server();
        try {
            await server.start();
            const job = await server.enqueue({ queue: 'mail', payload: { to: 'ada' }, retention: { completed_ms: 60000 } });
            const ran = work({ TENAX_URL: server.url(), WORK_OPTIONS: '--drain --name "the mailer"',
                WORK_COMMAND: 'sh -c "cat >$TENAX_RESULT"' });
            assert.equal(ran.status, 0, ran.stderr);
            const done = await server.job(job.id);
            assert.deepEqual([done.status, done.result], ['completed', { to: 'ada' }]);
            assert.equal((await server.runs(job.id))[0].worker, 'the mailer');
        } finally {
            await server.clean();
        }
    });

    it('ends_for_good_without_a_command', () => {
        const ran = work({ TENAX_URL: 'http://127.0.0.1:1' });
        assert.equal(ran.status, 2);
        assert.match(ran.stderr, /which command\?/);
        assert.match(text, /^RestartPreventExitStatus=2$/m);
    });
});

describe('completion of what a server knows', () => {
    const server = new Server();
    let job, env;

    before(async () => {
        await server.start();
        job = await server.enqueue({ queue: 'mailer' });
        await server.enqueue({ queue: '$(touch hacked)`touch hacked`' });
        await server.enqueue({ queue: '--mailer' });
        const policy = { apiVersion: 'tenax.dev/v1', kind: 'RetryPolicy', metadata: { name: 'patient' },
            spec: { defaultAction: 'Retry' } };
        const put = await server.request('PUT', '/retry-policies/patient', policy);
        assert.ok(put.status < 300, put.text);
        env = { ...process.env, TENAX_URL: server.url(), XDG_CONFIG_HOME: '/dev/null/none',
            PATH: `${installed('bin')}:${process.env.PATH}` };
    });
    after(() => server.clean());

    const values = (args, more) => output(BIN, ['complete-values', ...args], { env: { ...env, ...more } })
        .split('\n').filter(Boolean);

    it('offers_names_that_fit_and_no_others', () => {
        assert.deepEqual(values(['QUEUE', '', 'tenax', 'jobs']), ['mailer']);
        assert.deepEqual(values(['QUEUE', 'mb']), []);
        assert.deepEqual(values(['QUEUE', 'a,ma']), ['a,mailer']);
        assert.deepEqual(values(['POLICY', 'p']), ['patient']);
        assert.ok(values(['ID', '']).includes(job.id));
        assert.ok(values(['ID', job.id.slice(0, 8)]).includes(job.id));
        assert.deepEqual(values(['ID', 'zzzzzzzz']), []);
        assert.deepEqual(values(['ID', '$(']), []);
        assert.deepEqual(values(['STATUS', 'ready,d']), ['ready,dead']);
    });

    it('asks_the_server_that_the_command_line_names', () => {
        const nowhere = { TENAX_URL: 'http://127.0.0.1:1' };
        const line = ['tenax', 'jobs', '--all', '--output', 'json'];
        assert.deepEqual(values(['QUEUE', 'ma', ...line, '--url', server.url(), '--queue', 'ma'], nowhere), ['mailer']);
        assert.deepEqual(values(['QUEUE', 'ma', ...line, `--url=${server.url()}`], nowhere), ['mailer']);
    });

    it('is_silent_when_it_cannot', () => {
        for (const [args, more] of [
            [['QUEUE', ''], { TENAX_URL: 'http://127.0.0.1:1' }],
            [['QUEUE', ''], { TENAX_URL: 'no address' }],
            [['QUEUE', '', 'tenax', 'jobs', '--url'], { TENAX_URL: 'http://127.0.0.1:1' }],
            [['QUEUE', '', '--context', 'none'], {}],
            [['ID', ''], { TENAX_TOKEN_FILE: '/nowhere' }],
            [['OTHER', ''], { TENAX_UNKNOWN: '1' }],
            [[], {}],
        ]) {
            const ran = spawnSync(BIN, ['complete-values', ...args], { encoding: 'utf8', env: { ...env, ...more } });
            assert.equal(ran.stdout + ran.stderr, '', args.join(' '));
        }
    });

    it('waits_no_longer_than_a_second_for_a_server_that_does_not_answer', async () => {
        const net = require('node:net');
        const mute = net.createServer(() => {}).listen(0, '127.0.0.1');
        await new Promise((resolve) => mute.on('listening', resolve));
        try {
            // In the background, for this process accepts the connection.
            const child = spawn(BIN, ['complete-values', 'QUEUE', '', '--url', `http://127.0.0.1:${mute.address().port}`],
                { env, stdio: ['ignore', 'pipe', 'pipe'] });
            let said = '';
            child.stdout.on('data', (bytes) => { said += bytes; });
            child.stderr.on('data', (bytes) => { said += bytes; });
            await new Promise((resolve) => child.on('close', resolve));
            assert.equal(said, '');
        } finally {
            mute.closeAllConnections?.();
            mute.close();
        }
    });

    it('is_offered_in_bash', () => {
        const offered = (words) => {
            const line = `COMP_LINE='${words.join(' ')}'; export PATH='${env.PATH}' TENAX_URL='${server.url()}'`;
            return bash(words, line);
        };
        assert.deepEqual(offered(['tenax', 'jobs', '--queue', 'ma']), ['mailer']);
        assert.deepEqual(offered(['tenax', 'jobs', '--status', 'de']), ['dead']);
        assert.deepEqual(offered(['tenax', 'queue', 'ma']), ['mailer']);
        assert.ok(offered(['tenax', 'explain', job.id.slice(0, 8)]).includes(job.id));
        assert.deepEqual(offered(['tenax', 'enqueue', '--retry-policies', 'pa']), ['patient']);
    });

    it('is_offered_in_zsh', async () => {
        const before = { ...process.env };
        Object.assign(process.env, { TENAX_URL: server.url(), PATH: env.PATH });
        try {
            assert.match(await zsh('tenax jobs --queue mai\t'), /--queue mailer/);
            assert.match(await zsh('tenax queue mai\t'), /queue mailer/);
            assert.match(await zsh('tenax jobs --status=comp\t'), /--status=completed/);
        } finally {
            process.env.PATH = before.PATH;
            delete process.env.TENAX_URL;
        }
    });

    it('is_offered_in_fish', { skip: spawnSync('fish', ['--version']).error && 'fish is not installed' }, () => {
        const offered = (line) => output('fish', ['--no-config', '-c', 'source $argv[1]; complete -C $argv[2]',
            installed('share/fish/vendor_completions.d/tenax.fish'), line], { env })
            .split('\n').map((offer) => offer.split('\t')[0]).filter(Boolean);
        assert.deepEqual(offered('tenax jobs --queue ma'), ['mailer']);
        assert.deepEqual(offered('tenax jobs --queue=ma'), ['--queue=mailer']);
        assert.deepEqual(offered('tenax policy delete pa'), ['patient']);
        assert.ok(offered(`tenax retry ${job.id.slice(0, 8)}`).includes(job.id));
    });
});
