// SPDX-License-Identifier: Apache-2.0
'use strict';

// The chart deploy/helm/tenax, rendered: helm_render.go is built once, in a folder that the caller removes.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const Ajv = require('../http/node_modules/ajv');
const { DEPLOY, checked, output } = require('./manifests');

const CHART = path.join(DEPLOY, 'helm/tenax');
const DEBIAN_GO = { ...process.env, GO111MODULE: 'off', GOPATH: '/usr/share/gocode', GOFLAGS: '' };

const accepts = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(
    fs.readFileSync(path.join(CHART, 'values.schema.json'), 'utf8')));

class Chart {
    constructor(dir) {
        this.program = path.join(dir, 'helm_render');
        this.file = path.join(dir, 'values.json');
        const env = { ...DEBIAN_GO, GOCACHE: process.env.GOCACHE || path.join(dir, 'cache') };
        const ran = spawnSync('go', ['build', '-o', this.program,
            path.join(__dirname, 'helm_render.go')], { env, encoding: 'utf8' });
        assert.equal(ran.status, 0,
            `tools/setup packaging installs what it needs: ${ran.error || ran.stderr}`);
    }

    command(values, { release = 'tenax', namespace = 'tenax' } = {}) {
        fs.writeFileSync(this.file, JSON.stringify(values));
        return [this.program, [CHART, release, namespace, this.file]];
    }

    // {objects, notes} of the chart with these values, which its schema must accept.
    render(values = {}, options = {}) {
        assert.ok(accepts(values), JSON.stringify(accepts.errors));
        const [yaml, notes] = output(...this.command(values, options)).split('# NOTES\n');
        return { objects: checked(yaml), notes };
    }
}

module.exports = { CHART, Chart, accepts };
