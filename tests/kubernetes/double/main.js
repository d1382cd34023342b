#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// The double as a process:
//
//     node tests/kubernetes/double/main.js [--port N] [--tls] [--nodes N] [--namespace NS]…
//         [--script JSON] [--no-events] [--no-kubelet] [--clock-offset MS] [--history N]
//         [--dir DIR] [--verbose] [--with-stdin]
//
// It prints one line of JSON, {url, control, kubeconfig, dir, pid}, and runs until SIGTERM or
// SIGINT, or until its standard input ends where --with-stdin is given.

const { parseArgs } = require('node:util');
const { startDouble } = require('./index');

const { values } = parseArgs({ options: {
    port: { type: 'string', default: '0' },
    'control-port': { type: 'string', default: '0' },
    tls: { type: 'boolean', default: false },
    nodes: { type: 'string', default: '3' },
    namespace: { type: 'string', multiple: true, default: [] },
    script: { type: 'string' },
    'no-events': { type: 'boolean', default: false },
    'no-kubelet': { type: 'boolean', default: false },
    'clock-offset': { type: 'string', default: '0' },
    history: { type: 'string' },
    dir: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    'with-stdin': { type: 'boolean', default: false },
} });

async function main() {
    const double = await startDouble({ port: Number(values.port), tls: values.tls,
        controlPort: Number(values['control-port']), nodes: Number(values.nodes),
        namespaces: ['default', ...values.namespace], events: !values['no-events'],
        kubelet: !values['no-kubelet'],
        clockOffset: Number(values['clock-offset']), dir: values.dir, verbose: values.verbose,
        history: values.history && Number(values.history),
        script: values.script && JSON.parse(values.script) });
    const kubeconfig = double.kubeconfig();
    process.stdout.write(`${JSON.stringify({ url: double.url, control: double.controlUrl,
        kubeconfig, dir: double.dir, pid: process.pid })}\n`);
    const stop = () => double.stop().then(() => process.exit(0));
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
    if (values['with-stdin'])
        process.stdin.on('end', stop).resume();
}

main().catch((err) => {
    process.stderr.write(`double: ${err.message}\n`);
    process.exit(1);
});
