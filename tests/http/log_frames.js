// SPDX-License-Identifier: Apache-2.0
'use strict';

// The frames of a log in files, for tests that damage it.

const fs = require('node:fs');
const path = require('node:path');

const SECTOR = 512;

function segments(root) {
    return fs.readdirSync(root).filter((name) => /^segment-\d+$/.test(name)).map((name) => path.join(root, name));
}

// The first sectors of frames of that kind, in the order of their numbers.
function frames(root, kind) {
    const found = [];
    for (const file of segments(root)) {
        const bytes = fs.readFileSync(file);
        for (let at = 0; at < bytes.length; at += 8 * SECTOR)
            if (bytes[at + 4] === kind && bytes.readUInt32LE(at + 24) === 0)
                found.push({ file, at, number: Number(bytes.readBigUInt64LE(at + 16)), length: bytes.readUInt32LE(at + 28) });
    }
    return found.sort((a, b) => a.number - b.number);
}

function lose({ file, at }) {
    const fd = fs.openSync(file, 'r+');
    fs.writeSync(fd, Buffer.alloc(SECTOR), 0, SECTOR, at);
    fs.closeSync(fd);
}

module.exports = { SECTOR, frames, lose, segments };
