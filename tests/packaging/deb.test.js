// SPDX-License-Identifier: Apache-2.0
'use strict';

// The Debian package: built, looked over by lintian, and put in, upgraded, removed and purged
// by dpkg, on a copy of this machine's own system that is thrown away: an overlay in memory, in
// name spaces of its own. Only root can make one.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { BIN, makeDir } = require('../http/harness');

const SOURCE = path.join(__dirname, '../..');
const BUILD = path.dirname(BIN);

// One script of steps; after each line 'step NAME' what it prints belongs to that name.
const STEPS = `
step install
dpkg -i /tenax.deb >&2
id -un tenax
stat -c '%U %G %a' /var/lib/tenax
stat -c '%U %a' /etc/tenax/tenax.env
ls /etc/systemd/system/multi-user.target.wants | grep tenax
tenax version

step serve
mkfifo /said
setpriv --reuid=tenax --regid=tenax --clear-groups env TENAX_ROOT_DIR=/var/lib/tenax/root \\
    tenax serve --port 0 --admin-port 0 >/said &
exec 3</said
read -r admin <&3
read -r line <&3
url=\${line#Listening on }
tenax enqueue --url "$url" --queue kept --type test 1 >/dev/null
kill $!
wait $!
echo "exit $?"
echo 'TENAX_PORT=9000' >>/etc/tenax/tenax.env

step upgrade
dpkg -i --force-confdef --force-confold /tenax.deb >&2
tail -1 /etc/tenax/tenax.env
stat -c '%U %G %a' /var/lib/tenax

step remove
dpkg -r tenax >&2
test -x /usr/bin/tenax || echo no program
test -d /var/lib/tenax/root && echo jobs
test -f /etc/tenax/tenax.env && echo settings

step purge
dpkg -P tenax >&2
test -e /var/lib/tenax || echo no jobs
test -e /etc/tenax/tenax.env || echo no settings
getent passwd tenax || echo no user
`;

const OVERLAY = `
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
cp "$2" "$1/root/tenax.deb"
printf '%s' 'step() { echo "step $1"; }' "$3" >"$1/root/steps"
exec chroot "$1/root" sh -eu /steps`;

function unshare(...args) {
    return spawnSync('unshare', ['--mount', '--pid', '--fork', '--kill-child', ...args],
        { encoding: 'utf8', timeout: 600000 });
}

function mayOverlay() {
    const dir = makeDir();
    const ran = unshare('sh', '-c', 'mount -t tmpfs tmpfs "$1" && mkdir "$1/u" "$1/w" "$1/r" && ' +
        'mount -t overlay overlay -o "lowerdir=/,upperdir=$1/u,workdir=$1/w" "$1/r"', 'sh', dir);
    fs.rmdirSync(dir);
    return ran.status === 0;
}

describe('the Debian package', () => {
    let deb;

    before(() => {
        // lintian is part of it: an error of the package is one of this command.
        const ran = spawnSync('tools/deb', [BUILD], { cwd: SOURCE, encoding: 'utf8' });
        assert.equal(ran.status, 0, `${ran.stdout}${ran.stderr}`);
        [, deb] = /^made (\S+\.deb)$/m.exec(ran.stdout);
        deb = path.resolve(SOURCE, deb);
    });

    it('has_the_program_the_manual_the_service_and_completions', () => {
        const { stdout } = spawnSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8' });
        for (const file of ['./usr/bin/tenax', './usr/share/man/man1/tenax-serve.1.gz',
            './lib/systemd/system/tenax.service', './etc/tenax/tenax.env',
            './lib/systemd/system/tenax-work@.service', './etc/tenax/work.env',
            './usr/share/doc/tenax/openapi.json', './usr/share/doc/tenax/grafana/tenax.json',
            './usr/share/doc/tenax/alerts.yml',
            './usr/share/bash-completion/completions/tenax', './usr/share/zsh/site-functions/_tenax',
            './usr/share/fish/vendor_completions.d/tenax.fish'])
            assert.ok(stdout.split('\n').some((line) => line.endsWith(` ${file}`)), file);
    });

    it('is_built_from_the_packages_that_tools_setup_installs', () => {
        const control = fs.readFileSync(path.join(SOURCE, 'debian/control'), 'utf8');
        const needed = /^Build-Depends:\n((?: .*\n)+)/m.exec(control)[1].split(',')
            .map((word) => word.trim().split(' ')[0]).filter((word) => word !== 'debhelper-compat');
        const setup = fs.readFileSync(path.join(SOURCE, 'tools/setup'), 'utf8');
        const build = /^build="([^"]*)"/m.exec(setup)[1].split(/\s+/)
            .filter((word) => !['gcc', 'libc6-dev'].includes(word)); // build-essential has them
        assert.deepEqual(needed.sort(), build.sort());
    });

    describe('on a system', { skip: !mayOverlay() && 'only root can try it out' }, () => {
        let dir;
        const said = {};

        before(() => {
            dir = makeDir();
            const ran = unshare('sh', '-c', OVERLAY, 'sh', dir, deb, STEPS);
            assert.equal(ran.status, 0, `${ran.stdout}${ran.stderr}`);
            for (const part of ran.stdout.split(/^step /m).slice(1)) {
                const [name, ...lines] = part.trim().split('\n');
                said[name] = lines;
            }
        });

        after(() => fs.rmdirSync(dir));

        it('makes_a_user_a_folder_for_jobs_and_a_service_that_is_enabled', () => {
            assert.deepEqual(said.install.slice(0, 4),
                ['tenax', 'tenax tenax 750', 'root 644', 'tenax.service']);
            assert.match(said.install[4], /^tenax \d/);
        });

        it('has_a_server_that_runs_as_that_user', () => {
            assert.deepEqual(said.serve, ['exit 0']);
        });

        it('keeps_the_settings_of_an_operator_in_an_upgrade', () => {
            assert.deepEqual(said.upgrade, ['TENAX_PORT=9000', 'tenax tenax 750']);
        });

        it('keeps_jobs_and_settings_when_it_is_removed', () => {
            assert.deepEqual(said.remove, ['no program', 'jobs', 'settings']);
        });

        it('deletes_them_when_it_is_purged', () => {
            assert.deepEqual(said.purge, ['no jobs', 'no settings', 'no user']);
        });
    });
});
