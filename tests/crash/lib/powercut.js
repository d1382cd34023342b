// SPDX-License-Identifier: Apache-2.0
'use strict';

// A folder whose power can be cut, such as a root directory: what was not synced is lost then. A
// library that is preloaded into the server (powercut.c) keeps an image of what the disk has.

const fs = require('node:fs');
const path = require('node:path');

const { BIN } = require('./server.js');

const SHIM = path.join(path.dirname(BIN), 'tests/crash/powercut.so');

/* A tree is a Map of what a folder has: names to bytes or trees. */

class PowerCut {
  /** The folder is empty or does not exist, or adopt is called. */
  constructor(root) {
    this.root = root;
    this.image = `${root}.image`;
    fs.mkdirSync(this.root, { recursive: true });
    fs.mkdirSync(this.image, { recursive: true });
    if (!fs.existsSync(SHIM)) throw new Error(`${SHIM} is not built`);
  }

  /** What a server needs to be told. It dies at the n-th sync that it asks for, or that it asks for
   * in that folder. */
  env(killAt, folder) {
    const env = { LD_PRELOAD: SHIM, POWERCUT_ROOT: this.root, POWERCUT_IMAGE: this.image };
    if (killAt) env.POWERCUT_KILL_AT = String(killAt);
    if (folder) env.POWERCUT_KILL_IN = folder;
    return env;
  }

  at(name) {
    return path.join(this.image, name);
  }

  content(inode) {
    const file = this.at(`content-${inode}`);
    return fs.existsSync(file) ? fs.readFileSync(file) : Buffer.alloc(0);
  }

  /** What is on the disk of a folder. */
  saved(entries = 'entries') {
    const text = fs.existsSync(this.at(entries)) ? fs.readFileSync(this.at(entries), 'utf8') : '';
    return new Map(text.split('\n').filter(Boolean).map((line) => {
      const [, inode, name] = /^(\S+) (.*)$/.exec(line);
      return [name, inode.includes('-') ? this.saved(`entries-${inode}`) : this.content(inode)];
    }));
  }

  /** What is there of a folder; of its files, what is on the disk, or with all everything. */
  present(folder, all) {
    return new Map(fs.readdirSync(folder, { withFileTypes: true }).map((entry) => {
      const it = path.join(folder, entry.name);
      if (entry.isDirectory()) return [entry.name, this.present(it, all)];
      return [entry.name, all ? fs.readFileSync(it) : this.content(fs.statSync(it).ino)];
    }));
  }

  /** Fills an empty folder, and notes that this is on the disk. */
  restore(tree, folder = this.root, entries = 'entries') {
    const lines = [...tree].map(([name, value]) => {
      const it = path.join(folder, name);
      if (!Buffer.isBuffer(value)) {
        fs.mkdirSync(it, { mode: 0o700 });
        const { ino, birthtimeNs } = fs.statSync(it, { bigint: true });
        this.restore(value, it, `entries-${ino}-${birthtimeNs}`);
        return `${ino}-${birthtimeNs} ${name}\n`;
      }
      fs.writeFileSync(it, value, { mode: 0o600 });
      const { ino } = fs.statSync(it);
      fs.writeFileSync(this.at(`content-${ino}`), value);
      fs.linkSync(it, this.at(`keep-${ino}`));
      return `${ino} ${name}\n`;
    });
    fs.writeFileSync(this.at(entries), lines.join(''));
  }

  /** Leaves in the folder what is on the disk: with names, every name as it is now, as a file
   * system may have them that had no reason to. No server may run. */
  cut({ names = false } = {}) {
    const tree = names ? this.present(this.root, false) : this.saved();
    this.clear();
    this.restore(tree);
  }

  /** What is in the folder is on the disk. */
  adopt() {
    const tree = this.present(this.root, true);
    this.clear();
    this.restore(tree);
  }

  clear() {
    for (const dir of [this.root, this.image]) {
      fs.rmSync(dir, { recursive: true });
      fs.mkdirSync(dir);
    }
  }

  remove() {
    for (const dir of [this.root, this.image]) fs.rmSync(dir, { recursive: true });
  }
}

module.exports = { PowerCut };
