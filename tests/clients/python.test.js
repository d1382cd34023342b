// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { CLIENTS, testClient } = require('./language');

testClient('python', {
    tests: ['python3', '-m', 'unittest', 'discover', '-s', 'tests', '-v'],
    counted: /^Ran \d\d tests in [^]*\nOK$/m,
    example: (text, dir) => {
        fs.writeFileSync(path.join(dir, 'sample.py'), text);
        return ['python3', path.join(dir, 'sample.py')];
    },
    worker: () => ['python3', 'tests/worker.py'],
    env: { PYTHONPATH: path.join(CLIENTS, 'python'), PYTHONDONTWRITEBYTECODE: '1' },
});
