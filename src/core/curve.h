/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CURVE_H
#define CORE_CURVE_H

/* How long to wait before the n-th retry: one type for every front end. */

#include <stdbool.h>

#include "base/rng.h"
#include "base/units.h"

enum curve_shape {
    CURVE_NONE,        /* not stated: someone else's default applies */
    CURVE_POWER,       /* Zizq's: base + n^exponent seconds + n * rand(0..jitter) */
    CURVE_EXPONENTIAL, /* Armada's: min(base * exponent^(n-1), most) + rand(0..jitter); exponent
                        * is the multiplier */
    CURVE_FULL_JITTER, /* rand(0..min(base * exponent^(n-1), most)), above 0 if that minimum is */
};

struct curve {
    enum curve_shape shape;
    span base;
    double exponent;
    span jitter; /* 0 with full jitter */
    span most;   /* of both exponential shapes: the longest delay; negative: SPAN_MAX_MS */
};

/* Server defaults, as in Zizq: 15 s, 4, 30 s. */
struct curve curve_default(void);
/* The delay before retry n (from 1). Draws exactly once from rng whatever the outcome, and is
 * capped at SPAN_MAX_MS. */
span curve_delay(const struct curve *c, uint32_t n, struct rng *rng);

/* Whether the delay depends on the draw. */
bool curve_is_random(const struct curve *c);
/* Between what that delay lies, whatever the draw. */
void curve_range(const struct curve *c, uint32_t n, span *least, span *most);

#endif
