/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CRON_H
#define CORE_CRON_H

/* Cron expressions: parsing, and the next tick after an instant in a time zone. Pure; the
 * zone is asked for through struct cron_zone. docs/cron.md is the user's side of this.
 *
 * Five fields: minute, hour, day of the month, month, day of the week; six: a second
 * before them; seven: and a year behind them. A field is a list of `*`, a value, a range `a-b`,
 * each with a step `/n` if wanted; `a/n` is from a on. Months and days of the week have names,
 * Sunday is 0 and 7.
 * `?` is `*` in the two fields of days. A day of the month may be `L` (the last one), `15W` (the
 * weekday closest to the 15th, within the month) or `LW` (the last weekday); a day of the week, or
 * a range of them, may end in `#2` (the second of the month) or in `L` or `#L` (the last). Instead
 * of fields there may be a name: `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`.
 *
 * Days, as the crate croner reads them: if both fields of days are something else than `*`, either
 * will do, unless a `+` before the day of the week says that both must agree. Expressions of before
 * are read as classic cron does: both must agree if one of them begins with `*`.
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

#define CRON_NTH_MAX 5 /* there is no sixth Friday */

/* Years that are told apart: no tick is looked for before these or after them. */
#define CRON_YEAR_FIRST 1970
#define CRON_YEARS      256

struct cron {
    uint64_t seconds, minutes; /* bit n: value n is allowed */
    uint32_t hours, days, months, weekdays;
    uint32_t nearest;              /* days of the month whose closest weekday it is */
    uint8_t nth[CRON_NTH_MAX + 1]; /* weekdays, the first, second … of the month; [0]: the last */
    bool last_day, nearest_to_last; /* of the month */
    bool both_days;                 /* the two fields of days must agree */
    bool any_minute;                /* that field begins with `*` */
    bool any_year;
    uint64_t years[CRON_YEARS / 64]; /* unless any: bit n of all is CRON_YEAR_FIRST + n */
};

/* ERR_BAD_CRON: the message names the field, the offset is into text. */
NODISCARD struct err cron_parse(struct str text, struct cron *out);
/* As before expressions were read as croner does: in which days must agree, and no more. */
NODISCARD struct err cron_parse_classic(struct str text, struct cron *out);
/* Whether the two read it differently. */
bool cron_days_differ(struct str text);

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
