/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

/* Threads of a simulated process, of which one runs at a time, and none gives way but where it
 * sleeps: what comes first follows from the times alone. */

#include <stdbool.h>
#include <stdint.h>

struct fiber;

#define FIBER_NEVER INT64_MAX

/* Begins with fn(ctx), when it is run for the first time. */
struct fiber *fiber_new(void (*fn)(void *ctx), void *ctx, int64_t wake_at);
/* One that has ended. */
void fiber_free(struct fiber *f);
/* Runs it until it sleeps or has ended. By whoever has the time in hand. */
void fiber_run(struct fiber *f);
bool fiber_has_ended(const struct fiber *f);
/* When it wants to be run again. */
int64_t fiber_wake_at(const struct fiber *f);
/* No later than that. */
void fiber_wake(struct fiber *f, int64_t at);
/* The one that runs gives way. */
void fiber_sleep(int64_t until);
/* The one that runs; NULL: none. */
struct fiber *fiber_running(void);
/* What that was made with. */
void *fiber_context(void);

#endif
