// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the documents say that can be held against the program: commands and options exist, and
// links lead somewhere.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { BIN } = require('./harness');

const SOURCE = path.join(__dirname, '../..');
const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md',
    'bench/README.md', ...fs.readdirSync(path.join(SOURCE, 'docs'))
        .filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
    ...fs.readdirSync(path.join(SOURCE, 'clients')).map((name) => `clients/${name}/README.md`)];
const read = (file) => fs.readFileSync(path.join(SOURCE, file), 'utf8');

function output(...args) {
    const ran = spawnSync(BIN, args, { encoding: 'utf8' });
    assert.equal(ran.status, 0, ran.stderr);
    return ran.stdout;
}

// The options of each page of help, also by a letter.
const flags = new Map(output('help', '--list').trim().split('\n').map((name) => {
    const help = output('help', ...name.split(' '));
    const all = [...help.matchAll(/^ {2}(?:(-[a-z]), )?(--[a-z][a-z-]*)/gm)];
    return [name, new Set(all.flatMap(([, letter, flag]) => [letter, flag]).filter(Boolean))];
}));
flags.set('help', new Set(['--markdown', '--man', '--list']));
flags.set('jq-helper', new Set()); // the server starts it
const every = new Set([...flags.values()].flatMap((set) => [...set]));

// What is set as code: blocks, with lines that go on joined, and what is between backticks.
function codeOf(text) {
    const blocks = [...text.matchAll(/^```\w*\n([^]*?)^```$/gm)].map((match) => match[1]);
    const rest = text.replace(/^```\w*\n[^]*?^```$/gm, '');
    const indented = rest.split('\n').filter((line) => /^ {4}\S|^ {8}/.test(line)).join('\n');
    const spans = [...rest.matchAll(/`([^`]+)`/g)].map((match) => match[1].replace(/\n/g, ' '));
    return [...blocks, indented, ...spans].join('\n').replace(/\\\n/g, ' ');
}

// The calls of tenax in it, as [name of the page, its arguments]. A path after it is none.
function callsOf(code) {
    const calls = [];
    for (const [, command, rest] of code.matchAll(
        /(?:^|[\s/])tenax ([a-z][a-z-]*)(?![-\w/])((?:'[^']*'|[^\n#|&;'])*)/gm)) {
        const action = `${command} ${rest.trim().split(' ')[0]}`;
        calls.push([flags.has(action) ? action : command, rest.split(/ -- /)[0]]);
    }
    return calls;
}

describe('the documents', () => {
    for (const file of documents) {
        if (file.startsWith('bench/'))
            continue; // programs of its own
        it(`use_commands_and_options_that_exist_in_${file}`, () => {
            for (const [command, rest] of callsOf(codeOf(read(file)))) {
                assert.ok(flags.has(command), `tenax ${command}${rest}`);
                for (const [flag] of rest.matchAll(/(?<=\s)--?[a-z][a-z-]*\b/g))
                    assert.ok(flags.get(command).has(flag) || flag === '--help',
                        `${flag} in tenax ${command}${rest}`);
            }
        });

        it(`have_links_that_lead_somewhere_in_${file}`, () => {
            const slug = (heading) => heading.trim().toLowerCase().replace(/[^\w\s-]/g, '')
                .replace(/\s/g, '-');
            for (const [, target] of read(file).matchAll(/\]\(([^)\s]+)\)/g)) {
                if (/^https?:/.test(target))
                    continue;
                const [name, anchor] = target.split('#');
                const other = name ? path.join(path.dirname(file), name) : file;
                assert.ok(fs.existsSync(path.join(SOURCE, other)), target);
                if (anchor)
                    assert.ok([...read(other).matchAll(/^#+ (.*)$/gm)].map((m) => slug(m[1]))
                        .includes(anchor), target);
            }
        });
    }

    it('name_options_that_exist', () => {
        for (const file of documents.filter((name) => name.startsWith('docs/')))
            for (const [, flag] of read(file).matchAll(/`(--[a-z][a-z-]+)(?=[` =])/g))
                assert.ok(every.has(flag) || ['--zstd', '--json'].includes(flag), `${flag} in ${file}`);
    });

    it('are_all_found_from_the_README', () => {
        const targets = (file) => [...read(file).matchAll(/\]\(([^)#\s]+)/g)]
            .map(([, target]) => path.join(path.dirname(file), target));
        assert.ok(targets('README.md').includes('docs/index.md'));
        const found = new Set([...targets('README.md'), ...targets('docs/index.md')]);
        assert.deepEqual(documents.filter((name) => name !== 'README.md' && !found.has(name)), []);
        // The folder of a page names each of those in it, with what it is about.
        for (const file of documents.filter((name) => name.startsWith('docs/') && name !== 'docs/index.md'))
            assert.ok(targets('docs/index.md').includes(file), file);
    });

    it('use_commands_that_were_found', () => {
        // Or the tests above looked at nothing.
        assert.ok(callsOf(codeOf(read('README.md'))).length > 5);
        assert.ok(callsOf(codeOf(read('docs/operations.md'))).length > 5);
        assert.deepEqual(callsOf(codeOf('See `tenax tls init --san a` now.')),
            [['tls init', ' init --san a']]);
    });
});
