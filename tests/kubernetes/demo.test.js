// SPDX-License-Identifier: Apache-2.0
'use strict';

// demo/kubernetes, which brings its own cluster, and what it says.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { BIN, environment } = require('../http/harness');

const DEMO = path.join(__dirname, '../../demo/kubernetes');

describe('the demo of jobs as pods', () => {
    let said;
    const parts = {};

    before(async () => {
        said = await new Promise((resolve, reject) => {
            execFile(DEMO, [BIN], { env: environment({}), encoding: 'utf8', timeout: 400000 },
                (err, stdout, stderr) => (err ? reject(new Error(`${err.message}\n${stdout}${stderr}`))
                    : resolve(stdout)));
        });
        const explained = said.split(/^ {2}tenax explain (?:\S+) +# (\w+)$/m);
        for (let i = 1; i < explained.length; i += 2)
            parts[explained[i]] = explained[i + 1];
    });

    it('ends_as_it_should', () => assert.match(said, /^== As it should be: /m));

    it('explains_each_of_its_pods', () => {
        assert.deepEqual(Object.keys(parts), ['steady', 'far', 'typo', 'greedy', 'guest']);
    });

    for (const [name, ...words] of [
        ['steady', /^ +why +completed at attempt 1$/m],
        ['far', /^ +why +dead: rule 3 of policy pods/m, /^ +hint +no node is like that/m],
        ['typo', /^ +why +dead: rule 3 of policy pods/m, /^ +hint +check your image$/m,
            /^ +error +PodStartFailed: .* container main: ErrImagePull: /m],
        ['greedy', /^ +why +completed at attempt 3$/m, /OOMKilled\), at once, memory from 256Mi to 512Mi$/m,
            /memory from 512Mi to 1Gi$/m],
        ['guest', /^ +why +completed at attempt 2$/m, /retry 1 of 100 by rule 2 .*Preempted/],
    ])
        it(`says_what_became_of_the_${name}_one`, () => {
            for (const word of words)
                assert.match(parts[name], word);
        });

    it('shows_what_a_pod_waits_for_and_what_was_wrong', () => {
        assert.match(said, /^ +progress +0 % waiting: 0\/3 nodes are available: /m);
        assert.match(said, /PodUnschedulable: pod \S+ found no node within 12 s/);
        assert.match(said, /PodStartFailed: pod \S+ on node \S+ cannot start: container main: ErrImagePull/);
    });

    it('lists_the_pods_while_one_of_them_waits', () => {
        assert.match(said, /^ +JOB +RUN +POD /m);
        assert.match(said, /^ +(\S+) +0 +tenax-\1-0 +jobs +waiting +.*0\/3 nodes are available/m);
    });

    it('shows_the_memory_that_the_pods_really_have', () => {
        assert.match(said, /-0 {2}256Mi\n.*-0-1 {2}512Mi\n.*-0-2 {2}1Gi\n/);
    });
});
