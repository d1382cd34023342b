/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WHEN_H
#define CLIENT_WHEN_H

/* Time for command-line programs: reading the clocks, and formatting and parsing points in time. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

/* The wall clock. */
instant when_now(void);
/* A clock for timeouts and leases. It continues while the machine sleeps, as the server's clock
 * does. */
mono when_mono(void);

static inline int64_t when_ms_between(mono later, mono earlier)
{
    return (later.ns - earlier.ns) / 1000000;
}

/* At most a century later, so that no option can make it overflow. */
static inline mono when_after(mono t, span d)
{
    const int64_t century_ms = INT64_C(100) * 365 * 24 * 3600 * 1000;
    return (mono){t.ns + (d.ms < century_ms ? d.ms : century_ms) * 1000000};
}

/* At most a grid sooner, at the same moments for all: what is due about the same time is done
 * together. */
static inline mono when_gather(mono t, span grid)
{
    return grid.ms > 0 ? (mono){t.ns - t.ns % (grid.ms * 1000000)} : t;
}

/* "in 3 s", "2 min ago", "just now". */
void when_relative(struct buf *b, instant t, instant now);
/* "2026-11-21 09:00:00.125 +0100", in the local time zone. */
void when_absolute(struct buf *b, instant t);
/* "09:00:00", in the local time zone. */
void when_clock(struct buf *b, instant t);

/* Milliseconds since 1970, or an RFC 3339 time with its zone; false if it is neither. */
bool when_parse(struct str text, instant *t);

#endif
