/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TIMERS_H
#define BUILDS_BUILD_TIMERS_H

/* Timers of builds that outlive the process (seed 001's five minutes): one a build at most, kept on
 * disk from build_timers_set until build_timers_clear, and in memory without their configurations.
 * Those of the many builds that no disk should
 * hold, over 448 MiB together, are kept once others are cleared. Loop thread only. */

#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct build_timers;

struct build_timer {
    struct str build;  /* whose it is */
    instant at;        /* when it fires; a clock that was set back delays it by at most `length` */
    span length;       /* from when it was set */
    instant started;   /* of the build */
    struct str config; /* its buildConfig, JSON */
};

/* fired is called on the loop for each timer that is due, again and again (every few seconds) until
 * it is cleared; what it gets is valid during the call. Those of the past fire soon after the
 * start. */
NODISCARD struct err build_timers_new(uv_loop_t *loop, const char *dir, instant (*now)(void),
                                      void (*fired)(void *ctx, const struct build_timer *t),
                                      void *ctx, struct build_timers **out);
/* Waits for the disk. Freed once the loop has turned. */
void build_timers_close(struct build_timers *t);

/* Sets the build's timer (everything is copied), instead of the one that it had. kept is called
 * once it is on disk, never before this call has returned. */
void build_timers_set(struct build_timers *t, const struct build_timer *timer,
                      void (*kept)(void *ctx), void *ctx);
/* The build needs none any more; unknown builds are fine. */
void build_timers_clear(struct build_timers *t, struct str build);
size_t build_timers_count(const struct build_timers *t);

#endif
