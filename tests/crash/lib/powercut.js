// SPDX-License-Identifier: Apache-2.0
'use strict';

// A root directory whose power can be cut: what was not synced is lost then. A library that is
// preloaded into the server (powercut.c) keeps an image of what the disk has.

const fs = require('node:fs');
const path = require('node:path');

const { BIN } = require('./server.js');

const SHIM = path.join(path.dirname(BIN), 'tests/crash/powercut.so');

/* The only folder in the root directory. */
const FOLDER = 'artifacts';

class PowerCut {
  /** The root directory is empty or does not exist, or adopt is called. */
  constructor(root) {
    this.root = root;
    this.image = `${root}.image`;
    fs.mkdirSync(this.root, { recursive: true });
    fs.mkdirSync(this.image, { recursive: true });
    if (!fs.existsSync(SHIM)) throw new Error(`${SHIM} is not built`);
  }

  /** What a server needs to be told. It dies at the n-th sync that it asks for. */
  env(killAt) {
    const env = { LD_PRELOAD: SHIM, POWERCUT_ROOT: this.root, POWERCUT_IMAGE: this.image };
    return killAt ? { ...env, POWERCUT_KILL_AT: String(killAt) } : env;
  }

  /** Names and bytes of the files of a folder that are on the disk. */
  saved(entries) {
    const at = (name) => path.join(this.image, name);
    const lines = fs.existsSync(at(entries)) ? fs.readFileSync(at(entries), 'utf8') : '';
    return lines.split('\n').filter(Boolean).map((line) => {
      const [, inode, name] = /^(\d+) (.*)$/.exec(line);
      const content = at(`content-${inode}`);
      return [name, fs.existsSync(content) ? fs.readFileSync(content) : Buffer.alloc(0)];
    });
  }

  /** On the disk is what was on it before. */
  restore(folder, entries, files) {
    const lines = files.map(([name, bytes]) => {
      const file = path.join(folder, name);
      fs.writeFileSync(file, bytes, { mode: 0o600 });
      const { ino } = fs.statSync(file);
      fs.writeFileSync(path.join(this.image, `content-${ino}`), bytes);
      fs.linkSync(file, path.join(this.image, `keep-${ino}`));
      return `${ino} ${name}\n`;
    });
    fs.appendFileSync(path.join(this.image, entries), lines.join(''));
  }

  /** Leaves in the root directory what is on the disk. No server may run. */
  cut() {
    const [root, within] = ['entries', FOLDER].map((entries) => this.saved(entries));
    for (const dir of [this.root, this.image]) {
      fs.rmSync(dir, { recursive: true });
      fs.mkdirSync(dir);
    }
    this.restore(this.root, 'entries', root.filter(([name]) => name !== FOLDER));
    if (!root.some(([name]) => name === FOLDER)) return;
    const folder = path.join(this.root, FOLDER);
    fs.mkdirSync(folder, { mode: 0o700 });
    const { ino } = fs.statSync(folder);
    fs.appendFileSync(path.join(this.image, 'entries'), `${ino} ${FOLDER}\n`);
    this.restore(folder, FOLDER, within);
  }

  /** What is in the root directory, which has no folder in it, is on the disk. */
  adopt() {
    const names = fs.readdirSync(this.root);
    const files = names.map((name) => [name, fs.readFileSync(path.join(this.root, name))]);
    this.restore(this.root, 'entries', files);
  }

  remove() {
    for (const dir of [this.root, this.image]) fs.rmSync(dir, { recursive: true });
  }
}

module.exports = { PowerCut };
