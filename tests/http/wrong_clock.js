// SPDX-License-Identifier: Apache-2.0
'use strict';

// Processes whose wall clock a test moves: clock_shim.c is preloaded into them.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after } = require('node:test');
const { makeDir } = require('./harness');

// What is to be preloaded, made in that folder.
function compileShim(dir) {
    const shim = path.join(dir, 'clock.so');
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', shim, path.join(__dirname, 'clock_shim.c'), '-ldl']);
    return shim;
}

// A clock of one process: {env} of it, and set(ms) by how much it is wrong.
function wrongClock(shim, file) {
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
    clock.set(0);
    return clock;
}

// For all tests of a describe block.
function useWrongClock() {
    const dir = makeDir();
    after(() => fs.rmSync(dir, { recursive: true }));
    return wrongClock(compileShim(dir), path.join(dir, 'wrong-by'));
}

module.exports = { compileShim, useWrongClock, wrongClock };
