/* SPDX-License-Identifier: Apache-2.0 */
#include "core/curve.h"

#include <math.h>

#include "base/must.h"

struct curve curve_default(void)
{
    return (struct curve){CURVE_POWER, {15000}, 4.0, {30000}};
}

static span exponential(const struct curve *c, uint32_t n, double chance)
{
    double most = c->most.ms < 0 ? (double)SPAN_MAX_MS : (double)c->most.ms;
    double ms = c->base.ms ? (double)c->base.ms * pow(c->exponent, (double)(n - 1)) : 0;
    ms = ms < most ? ms : most;
    if (c->shape == CURVE_FULL_JITTER && ms >= 1) {
        double drawn = 1 + floor(ms * chance); /* one of 1 to the delay, each as likely */
        return (span){(int64_t)(drawn < ms ? drawn : ms)};
    }
    /* Beside the longest delay too: jobs that failed together would else come back together
     * from there on. */
    ms += chance * (double)c->jitter.ms;
    return (span){ms < (double)SPAN_MAX_MS ? (int64_t)ms : SPAN_MAX_MS};
}

static span power(const struct curve *c, uint32_t n, double chance)
{
    /* n^E counts seconds: read as milliseconds, the default window would be four
     * hours instead of 25 days. */
    double grown_ms = pow((double)n, c->exponent) * 1000.0;
    double ms = (double)c->base.ms + grown_ms + (double)n * chance * (double)c->jitter.ms;
    if (!(ms < (double)SPAN_MAX_MS))
        return (span){SPAN_MAX_MS};
    return (span){ms > 0 ? (int64_t)ms : 0}; /* the base may be less than nothing */
}

static span delay_at(const struct curve *c, uint32_t n, double chance)
{
    must(c->shape != CURVE_NONE && n > 0);
    return c->shape == CURVE_POWER ? power(c, n, chance) : exponential(c, n, chance);
}

span curve_delay(const struct curve *c, uint32_t n, struct rng *rng)
{
    return delay_at(c, n, rng_unit(rng));
}

bool curve_is_random(const struct curve *c)
{
    return c->jitter.ms > 0 || (c->shape == CURVE_FULL_JITTER && c->base.ms > 1);
}

void curve_range(const struct curve *c, uint32_t n, span *least, span *most)
{
    *least = delay_at(c, n, 0);
    *most = delay_at(c, n, 1);
}
