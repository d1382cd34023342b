// SPDX-License-Identifier: Apache-2.0
'use strict';

// `make demo`: what it ends with is true, and few enough lines to be read.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { it } = require('node:test');
const { BIN } = require('./harness');

it('the_demo_says_in_sixty_lines_what_became_of_every_job', () => {
    const ran = spawnSync(path.join(__dirname, '../../demo/run'), [path.resolve(BIN)],
        { encoding: 'utf8', timeout: 120000 });
    const said = `${ran.stdout}${ran.stderr}`;
    assert.equal(ran.status, 0, said);
    const lines = said.trimEnd().split('\n');
    assert.ok(lines.length <= 60, `${lines.length} lines: ${said}`);
    assert.match(lines.at(-1), /^== As it should be: 9 jobs completed, 3 are dead/);
    assert.equal(lines.filter((line) => / completed .* completed at attempt /.test(line)).length, 9);
    assert.equal(lines.filter((line) => /^\w{25} {2}dead /.test(line)).length, 3);
    assert.doesNotMatch(said, /Killed|demo\/run: line/);
});
