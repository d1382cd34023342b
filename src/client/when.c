/* SPDX-License-Identifier: Apache-2.0 */
#include "client/when.h"

#include <time.h>

#include "base/decimal.h"
#include "base/duration.h"
#include "base/rfc3339.h"

instant when_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (instant){ts.tv_sec * 1000 + ts.tv_nsec / 1000000};
}

mono when_mono(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (mono){ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec};
}

void when_relative(struct buf *b, instant t, instant now)
{
    int64_t ms = t.ms - now.ms;
    int64_t size = ms < 0 ? -ms : ms;
    if (size < 500) {
        buf_str(b, ms < 0 ? STR("just now") : STR("now"));
        return;
    }
    /* Nobody needs "in 46.2 s" in a list; whole seconds change less often. */
    span whole = {(size + 500) / 1000 * 1000};
    if (ms > 0)
        buf_lit(b, "in ");
    duration_write(b, whole);
    if (ms < 0)
        buf_lit(b, " ago");
}

static void local(instant t, struct tm *tm)
{
    time_t s = (time_t)(t.ms / 1000);
    localtime_r(&s, tm);
}

void when_absolute(struct buf *b, instant t)
{
    struct tm tm;
    char day[32], zone[16];
    local(t, &tm);
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &tm);
    strftime(zone, sizeof zone, "%z", &tm);
    buf_print(b, "%s.%03d %s", day, (int)(t.ms % 1000), zone);
}

void when_clock(struct buf *b, instant t)
{
    struct tm tm;
    char text[16];
    local(t, &tm);
    strftime(text, sizeof text, "%H:%M:%S", &tm);
    buf_str(b, str_from(text));
}

static bool parse_ms(struct str text, instant *t)
{
    return decimal_digits(text, 15, &t->ms) && t->ms <= INSTANT_MAX_MS;
}

bool when_parse(struct str text, instant *t)
{
    return parse_ms(text, t) || rfc3339_parse(text, t);
}
