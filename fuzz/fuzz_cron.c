/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/must.h"
#include "core/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BEGIN INT64_C(1767225600) /* 2026-01-01 */

/* Clocks that are changed at regular intervals, alternately forward and back. */
struct clocks {
    int64_t every, by;
};

static struct cron_period period(void *ctx, int64_t utc)
{
    const struct clocks *c = ctx;
    int64_t n = utc / c->every;
    return (struct cron_period){n * c->every, (n + 1) * c->every, n % 2 ? c->by : 0};
}

static void check_error(const struct err *e, size_t size)
{
    must(e->code == ERR_BAD_CRON && e->msg[0] != '\0');
    must(e->offset >= 0 && (size_t)e->offset <= size);
}

/* Ticks ascend, fall on whole seconds, and the next tick is the same for every earlier moment. */
static void check_ticks(const struct cron *c, const struct cron_zone *zone)
{
    instant at = {BEGIN * 1000 + 1}, next, again;
    for (int i = 0; i < 20 && cron_next(c, zone, at, &next); i++) {
        must(next.ms > at.ms && next.ms % 1000 == 0);
        must(cron_next(c, zone, (instant){next.ms - 1}, &again) && again.ms == next.ms);
        instant middle = {at.ms + (next.ms - at.ms) / 2};
        must(middle.ms == next.ms || (cron_next(c, zone, middle, &again) && again.ms == next.ms));
        at = next;
    }
}

/* The first two bytes say how the clocks are changed, the rest is the expression. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct clocks clocks = {INT64_C(86400) * (30 + data[0]), ((int64_t)data[1] - 128) * 300};
    struct str text = {(const char *)data + 2, size - 2};
    struct cron c;
    struct err e = cron_parse(text, &c);
    if (e.code != ERR_OK) {
        check_error(&e, text.len);
        return 0;
    }
    struct cron_zone zone = {&clocks, period};
    check_ticks(&c, &cron_utc);
    check_ticks(&c, &zone);
    return 0;
}
