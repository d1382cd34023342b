// SPDX-License-Identifier: Apache-2.0

/** Milliseconds of a clock that never jumps, the same one in all threads, as performance.now() is not. */
export function monotonic() {
    return Number(process.hrtime.bigint() / 1000n) / 1000;
}
