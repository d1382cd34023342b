// SPDX-License-Identifier: Apache-2.0
'use strict';

// demo/builds, which brings its own RabbitMQ and cluster, and what it says.

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const path = require('node:path');
const test = require('node:test');

const DEMO = path.join(__dirname, '../../demo/builds');

test('the demo ends every build as it should', { timeout: 600000 }, async () => {
  const { code, out } = await new Promise((done) => {
    execFile(DEMO, [path.resolve(process.env.TENAX_BIN)], (e, stdout, stderr) =>
      done({ code: e ? e.code : 0, out: stdout + stderr }));
  });
  assert.strictEqual(code, 0, out);
  assert.strictEqual(out.match(/^ok {3}/gm).length, 9, out);
  assert.doesNotMatch(out, /token-1\d\d|admin-token/);
});
