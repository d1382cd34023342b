// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { CLIENTS, testClient } = require('./language');

testClient('go', {
    tests: ['go', 'test', '-count=1', '-v', './...'],
    counted: /^PASS\nok +\ttenax\.dev\/tenax\t/m,
    example: (text, dir) => {
        const here = path.join(dir, 'sample');
        fs.mkdirSync(here);
        fs.writeFileSync(path.join(here, 'main.go'), text);
        fs.writeFileSync(path.join(here, 'go.mod'), 'module sample\n\ngo 1.19\n\n' +
            `require tenax.dev/tenax v0.1.0\n\nreplace tenax.dev/tenax => ${path.join(CLIENTS, 'go')}\n`);
        return ['sh', '-c', 'cd "$0" && go run .', here];
    },
    whole: (text) => 'package main\n\nimport (\n    "context"\n    "tenax.dev/tenax"\n)\n\n' +
        `func main() {\nctx := context.Background()\n${text}}\n`,
    // Not `go run`, which passes no signals on.
    prepare: (dir) => ['go', 'build', '-o', path.join(dir, 'worker'), './internal/testworker'],
    worker: (dir) => [path.join(dir, 'worker')],
    // Nothing is downloaded.
    env: { GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local', GOWORK: 'off' },
});
