/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

/* Time has types, so that a second cannot be taken for a millisecond, nor a
 * point in time for a length of it.
 *
 * instant: milliseconds since the Unix epoch, UTC. What is persisted and sent.
 * span:    a length of time in milliseconds; may be negative.
 * mono:    nanoseconds of a clock that never jumps; only for timeouts and
 *          measurements inside one process, never persisted. */

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t ms;
} instant;

typedef struct {
    int64_t ms;
} span;

typedef struct {
    int64_t ns;
} mono;

/* Largest instant that is accepted from outside: the year 10889 or so, far from
 * where adding a span could overflow. */
#define INSTANT_MAX_MS ((int64_t)1 << 48)
/* Largest span that is accepted from outside, about 8,900 years. */
#define SPAN_MAX_MS ((int64_t)1 << 48)

/* "No time": every optional time field uses it. */
#define INSTANT_NONE ((instant){-1})

static inline bool instant_is_set(instant t)
{
    return t.ms >= 0;
}

static inline instant instant_add(instant t, span d)
{
    return (instant){t.ms + d.ms};
}

static inline span instant_diff(instant later, instant earlier)
{
    return (span){later.ms - earlier.ms};
}

static inline instant instant_min(instant a, instant b)
{
    return a.ms < b.ms ? a : b;
}

static inline instant instant_max(instant a, instant b)
{
    return a.ms > b.ms ? a : b;
}

#endif
