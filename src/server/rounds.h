/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_ROUNDS_H
#define SERVER_ROUNDS_H

/* How long the rounds of the loop take, without the time in which it waits for something to do:
 * that is how long new input may have to wait. Measured twice, by the clock and in processor time
 * of the loop's thread: if only the first is long, the machine was busy with something else. */

#include <uv.h>

#include "api/api.h"

struct rounds {
    int64_t since_ns, idle_ns, cpu_ns; /* at the end of the last round; 0: there was none */
    struct histogram times;            /* microseconds by the clock */
    int64_t longest_ns, longest_cpu_ns;
};

/* Call before the loop is used. */
void rounds_init(struct rounds *r, uv_loop_t *loop);
/* Call once in each round, at the same point. */
void rounds_next(struct rounds *r, uv_loop_t *loop);
/* Reports them. The longest is that since the last report. */
void rounds_read(struct rounds *r, struct api_machine *m);

#endif
