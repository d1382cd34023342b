/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CRON_H
#define CORE_CRON_H

/* Cron expressions: parsing, and the next tick after an instant in a time zone. Pure; the
 * zone is asked for through struct cron_zone. docs/cron.md is the user's side of this.
 *
 * Five fields: minute, hour, day of the month, month, day of the week; six: a second
 * before them. A field is a list of `*`, a value, a range `a-b`, each with a step `/n` if
 * wanted; `a/n` is from a on. Months and days of the week have names, Sunday is 0 and 7.
 * `?` is `*` in the two fields of days.
 *
 * Days, as in classic cron: if both fields of days name days, either will do; if one of
 * them begins with `*`, both must agree.
 *
 * When local time jumps:
 * - An expression whose hours are all 24 runs in real time: nothing is made up for local
 *   times that do not exist, and those that come twice tick twice.
 * - Otherwise it names times of day. Ticks whose local time is skipped become one tick at
 *   the first instant after the gap. A local time that comes twice ticks the first time
 *   only, unless the minutes begin with `*`: then the ticks go on in real time. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define CRON_EXPRESSION_MAX 255 /* bytes */

struct cron {
    uint64_t seconds, minutes; /* bit n: value n is allowed */
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday; /* that field begins with `*` or is `?` */
    bool any_minute;
};

/* ERR_BAD_CRON: the message names the field, the offset is into text. */
NODISCARD struct err cron_parse(struct str text, struct cron *out);

/* A stretch of time without a change of the clocks, in seconds since the epoch. */
struct cron_period {
    int64_t begin, end; /* UTC, [begin, end); CRON_EVER on an open side, negative at the begin */
    int64_t offset;     /* local time minus UTC */
};
#define CRON_EVER (INT64_C(1) << 60)

struct cron_zone {
    void *ctx;
    /* The period that this second lies in. */
    struct cron_period (*period)(void *ctx, int64_t utc);
};

extern const struct cron_zone cron_utc;

/* The first tick after that instant, a whole second; false if there is none within a
 * hundred years. */
bool cron_next(const struct cron *c, const struct cron_zone *zone, instant after, instant *next);

#endif
