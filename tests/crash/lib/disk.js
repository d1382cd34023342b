// SPDX-License-Identifier: Apache-2.0
'use strict';

// A small file system of one's own that can be filled.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const MIB = 1024 * 1024;

function runs(command, ...args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** The command that may mount: [], ['sudo', '-n'], or null if there is none. */
function mounter() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-mount-'));
  const found = [[], ['sudo', '-n']].find((prefix) =>
    runs(...prefix, 'mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', dir));
  if (found) runs(...found, 'umount', dir);
  fs.rmdirSync(dir);
  return found || null;
}

class Disk {
  constructor(prefix, mib) {
    this.prefix = prefix;
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tenax-disk-'));
    const options = `size=${mib}m,mode=777`;
    if (!runs(...prefix, 'mount', '-t', 'tmpfs', '-o', options, 'tmpfs', this.dir))
      throw new Error(`cannot mount a tmpfs at ${this.dir}`);
    this.root = path.join(this.dir, 'root');
    this.ballast = path.join(this.dir, 'ballast');
  }

  /** Adds that much, or, without a number, all there is room for. */
  fill(mib = Infinity) {
    const file = fs.openSync(this.ballast, 'a');
    try {
      for (let left = mib; left > 0; left--) fs.writeSync(file, Buffer.alloc(MIB));
    } catch (error) {
      if (error.code !== 'ENOSPC' || mib !== Infinity) throw error;
    } finally {
      fs.closeSync(file);
    }
  }

  /** The MiB that are left. */
  free() {
    const { bavail, bsize } = fs.statfsSync(this.dir);
    return Math.floor((bavail * bsize) / MIB);
  }

  empty() {
    fs.rmSync(this.ballast, { force: true });
  }

  unmount() {
    runs(...this.prefix, 'umount', this.dir);
    fs.rmdirSync(this.dir);
  }
}

module.exports = { Disk, mounter, runs };
