// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { CLIENTS, testClient } = require('./language');

testClient('node', {
    tests: ['node', '--test-reporter=tap', 'test/all.js'],
    counted: /^# pass [3-7]\d\n# fail 0\n[^]*# skipped 0$/m,
    example: (text, dir) => {
        const modules = path.join(dir, 'node_modules');
        fs.mkdirSync(modules);
        fs.symlinkSync(path.join(CLIENTS, 'node'), path.join(modules, 'tenax'));
        fs.writeFileSync(path.join(dir, 'sample.mjs'), text);
        return ['node', path.join(dir, 'sample.mjs')];
    },
    fence: 'js',
    worker: () => ['node', 'test/worker.js'],
});
