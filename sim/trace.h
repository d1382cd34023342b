/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

/* What a simulation did, line by line: hashed, so that two runs of one seed can be compared; the
 * newest lines are kept, so that a broken promise can be understood. One simulation at a time. */

#include <stdbool.h>
#include <stdint.h>

void trace_begin(uint64_t seed, bool print);
void trace_step(uint64_t step);
void trace_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t trace_hash(void);
/* Prints seed, step, the promise and the newest lines, and ends the process. */
_Noreturn void trace_broken(const char *promise, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define PROMISE(cond, name, ...)                                                                   \
    do {                                                                                           \
        if (!(cond))                                                                               \
            trace_broken(name, __VA_ARGS__);                                                       \
    } while (0)

#endif
