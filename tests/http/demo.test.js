// SPDX-License-Identifier: Apache-2.0
'use strict';

// `make demo`: what it ends with is true, and few enough lines to be read.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { it } = require('node:test');
const { BIN } = require('./harness');

// Runs a part of the demo to its good end; returns the lines that it has said.
function demo(part, most) {
    const ran = spawnSync(path.join(__dirname, '../../demo', part), [path.resolve(BIN)],
        { encoding: 'utf8', timeout: 400000 });
    const said = `${ran.stdout}${ran.stderr}`;
    assert.equal(ran.status, 0, said);
    const lines = said.trimEnd().split('\n');
    assert.ok(lines.length <= most, `${lines.length} lines: ${said}`);
    assert.doesNotMatch(said, /Killed|Terminated|demo\/\w+: line/);
    return lines;
}

it('the_demo_says_in_sixty_lines_what_became_of_every_job', () => {
    const lines = demo('run', 60);
    assert.match(lines.at(-1), /^== As it should be: 9 jobs completed, 3 are dead/);
    assert.equal(lines.filter((line) => / completed .* completed at attempt /.test(line)).length, 9);
    assert.equal(lines.filter((line) => /^\w{25} {2}dead /.test(line)).length, 3);
});

it('and_in_45_more_what_became_of_taskcluster_s_tasks', () => {
    const lines = demo('taskcluster', 45);
    assert.match(lines.at(-1), /^== As it should be: three tasks are completed, one of them at its second run/);
    const runs = lines.filter((line) => / run \d /.test(line)).map((line) => line.trim().split(/ +/));
    assert.deepEqual(runs.map(([name, , run, state, reason]) => [name, run, state, reason].join(' ')), [
        'build 0 completed completed', 'typo 0 exception malformed-payload',
        'spot 0 exception worker-shutdown', 'spot 1 completed completed', 'polled 0 completed completed',
    ]);
});
