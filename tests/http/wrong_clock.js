// SPDX-License-Identifier: Apache-2.0
'use strict';

// A server whose wall clock a test moves: clock_shim.c is preloaded into it.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after } = require('node:test');
const { makeDir } = require('./harness');

// For all tests of a describe block: {env} of the server, and set(ms) by how much it is wrong.
function useWrongClock() {
    const dir = makeDir();
    const shim = path.join(dir, 'clock.so');
    const file = path.join(dir, 'wrong-by');
    const clock = {
        env: {
            LD_PRELOAD: shim, TENAX_TEST_CLOCK: file,
            ASAN_OPTIONS: `${process.env.ASAN_OPTIONS || ''}:verify_asan_link_order=0`,
        },
        // The file is replaced, not written: the server reads it all the time.
        set(ms) {
            fs.writeFileSync(`${file}.new`, `${ms}\n`);
            fs.renameSync(`${file}.new`, file);
        },
    };
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', shim,
        path.join(__dirname, 'clock_shim.c'), '-ldl']);
    clock.set(0);
    after(() => fs.rmSync(dir, { recursive: true }));
    return clock;
}

module.exports = { useWrongClock };
