// SPDX-License-Identifier: Apache-2.0
'use strict';

// The PostgreSQL of a file of tests whose servers keep their jobs there: one for all of them, and a
// database for each.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { after } = require('node:test');
const { Postgres } = require('../postgres/node.js');

const BIN = path.resolve(process.env.TENAX_BIN || path.join(__dirname, '../../build/tenax'));

let starting = null;
let count = 0;

async function start() {
    const node = await Postgres.start();
    execFileSync(BIN, ['postgres', 'install', '--postgres', node.url()], { stdio: ['ignore', 'ignore', 'inherit'] });
    await node.rows('CREATE DATABASE pattern TEMPLATE postgres');
    return node;
}

// The URL of a new one.
async function database() {
    starting ??= start();
    const node = await starting;
    const name = `tests_${++count}`;
    await node.rows(`CREATE DATABASE ${name} TEMPLATE pattern`);
    return node.url({ db: name });
}

after(async () => {
    if (starting)
        await (await starting).stop();
});

module.exports = { database };
