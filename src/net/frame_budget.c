/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frame_budget.h"

bool frame_budget_spend(struct frame_budget *c, uint64_t now, int64_t cost)
{
    uint64_t passed = now - c->at;
    /* Keep the remainder of the time, or frequent calls would never refill anything. */
    uint64_t earned = passed * FRAME_BUDGET_PER_SECOND / 1000;
    if (earned > 0) {
        frame_budget_earn(c, earned < FRAME_BUDGET_MAX ? (int64_t)earned : FRAME_BUDGET_MAX);
        c->at = now;
    }
    c->left -= cost;
    return c->left >= 0;
}

void frame_budget_earn(struct frame_budget *c, int64_t gain)
{
    c->left = c->left + gain < FRAME_BUDGET_MAX ? c->left + gain : FRAME_BUDGET_MAX;
}
