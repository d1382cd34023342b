// SPDX-License-Identifier: Apache-2.0
'use strict';

// Chance from a seed, so that the choices of a failed run can be made again. (What the
// kernel schedules in between is not repeated.)

class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** Uniform in [0, 1): mulberry32. */
  unit() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** A whole number from lo to hi, both included. */
  range(lo, hi) {
    return lo + Math.floor(this.unit() * (hi - lo + 1));
  }

  chance(p) {
    return this.unit() < p;
  }

  pick(list) {
    return list[this.range(0, list.length - 1)];
  }
}

/** SEED from the environment, or a new one. */
function seedFromEnv() {
  const given = process.env.SEED;
  if (given === undefined) return Math.floor(Math.random() * 4294967296);
  if (!/^\d+$/.test(given)) throw new Error(`SEED is a whole number, not '${given}'`);
  return Number(given) >>> 0;
}

module.exports = { Random, seedFromEnv };
