// SPDX-License-Identifier: Apache-2.0
// How much slower this machine is than it can be: others take their share of its processors, and what takes
// a second on a quiet one takes several then. A thread of its own does the same work again and again.
'use strict';

const { Worker, isMainThread, parentPort } = require('node:worker_threads');

const EVERY_MS = 250;

// Some milliseconds of work; how many it took.
function work() {
  const begin = performance.now();
  let a = 1;
  for (let i = 0; i < 4000000; i++) a = (Math.imul(a, 1103515245) + 12345) & 0x7fffffff;
  return a && performance.now() - begin;
}

if (!isMainThread) {
  work(); // once for the compiler
  setInterval(() => parentPort.postMessage(work()), EVERY_MS);
}

class Slowness {
  constructor() {
    this.least = Infinity;
    this.taken = []; // {at, ms}
    this.worker = new Worker(__filename);
    this.worker.on('message', (ms) => {
      this.least = Math.min(this.least, ms);
      this.taken.push({ at: performance.now(), ms });
    });
  }

  // Since that time of performance.now(): 1 on a quiet machine.
  since(begin) {
    const some = this.taken.filter(({ at }) => at >= begin - 4 * EVERY_MS);
    if (!some.length) return 1;
    return some.reduce((sum, { ms }) => sum + ms, 0) / some.length / this.least;
  }

  stop() {
    return this.worker.terminate();
  }
}

module.exports = { Slowness };
