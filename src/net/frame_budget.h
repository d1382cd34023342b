/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FRAME_BUDGET_H
#define NET_FRAME_BUDGET_H

/* A budget for frames that make work and do nothing for a request, such as pings and resets: they
 * spend from it, and requests, data and time refill it. A connection whose budget is spent is
 * ended. HTTP/2 has many frames that cost their sender nothing: CVE-2019-9511 to 9518,
 * CVE-2023-44487, CVE-2024-27316. */

#include <stdbool.h>
#include <stdint.h>

#define FRAME_BUDGET_MAX        4000
#define FRAME_BUDGET_PER_SECOND 400

struct frame_budget {
    int64_t left;
    uint64_t at; /* ms */
};

static inline struct frame_budget frame_budget_new(uint64_t now)
{
    return (struct frame_budget){FRAME_BUDGET_MAX, now};
}

/* False once the budget is spent. */
bool frame_budget_spend(struct frame_budget *c, uint64_t now, int64_t cost);
void frame_budget_earn(struct frame_budget *c, int64_t gain);

#endif
