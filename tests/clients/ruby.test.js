// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { CLIENTS, testClient } = require('./language');

testClient('ruby', {
    tests: ['ruby', '-w', '-e', 'ARGV.each { |file| require file }', './test/test_client.rb',
        './test/test_worker.rb', './test/test_together.rb'],
    counted: /^[3-9]\d runs, \d+ assertions, 0 failures, 0 errors, 0 skips$/m,
    example: (text, dir) => {
        fs.writeFileSync(path.join(dir, 'sample.rb'), text);
        return ['ruby', path.join(dir, 'sample.rb')];
    },
    worker: () => ['ruby', 'test/worker.rb'],
    env: { RUBYLIB: path.join(CLIENTS, 'ruby/lib') },
});
