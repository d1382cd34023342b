/* SPDX-License-Identifier: Apache-2.0 */
#include "net/calm.h"

bool calm_spend(struct calm *c, uint64_t now, int64_t cost)
{
    uint64_t passed = now - c->at;
    /* A remainder of time is kept, or many small spendings would earn nothing. */
    uint64_t earned = passed * CALM_PER_SECOND / 1000;
    if (earned > 0) {
        calm_earn(c, earned < CALM_MAX ? (int64_t)earned : CALM_MAX);
        c->at = now;
    }
    c->left -= cost;
    return c->left >= 0;
}

void calm_earn(struct calm *c, int64_t gain)
{
    c->left = c->left + gain < CALM_MAX ? c->left + gain : CALM_MAX;
}
