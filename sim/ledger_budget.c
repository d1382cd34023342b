/* SPDX-License-Identifier: Apache-2.0 */

/* BUDGET: what jobs in flight have drawn on a budget is never more than the most that anybody ever
 * gave it, and of a time-based one no time sees more than flowed in and was saved up. */

#include "ledger.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "trace.h"

/* What jobs draw, and the text of it. */
static const struct {
    const char *text;
    unsigned cost[BUDGETS];
} kinds[BUDGET_KINDS + 1] = {
    {"", {0, 0, 0}},          {"1:b0", {1, 0, 0}}, {"2:b0", {2, 0, 0}},
    {"3:b0", {3, 0, 0}},      {"1:b1", {0, 1, 0}}, {"1:b0,1:b1", {1, 1, 0}},
    {"2:b1,1:b0", {1, 2, 0}}, {"1:b2", {0, 0, 1}}, {"2:b2,1:b1", {0, 1, 2}},
};

struct str ledger_budget_text(unsigned kind)
{
    return str_from(kinds[kind].text);
}

unsigned ledger_budget_kind(struct str text)
{
    unsigned kind = 0;
    while (kind < BUDGET_KINDS && !str_eq(text, str_from(kinds[kind].text)))
        kind++;
    return kind;
}

void ledger_budget_asked(struct ledger *l, unsigned budget, uint32_t allocation)
{
    if (allocation > l->budget_most[budget])
        l->budget_most[budget] = allocation;
    l->timed.unknown |= budget == BUDGETS - 1;
}

void ledger_budgets_free(struct ledger *l)
{
    free(l->timed.at);
}

static void check_in_flight(const struct ledger *l, unsigned budget, instant now)
{
    uint64_t drawn = 0, most = l->budget_most[budget];
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->run_count && ledger_live(m, &m->runs[m->run_count - 1], now) == YES)
            drawn += kinds[m->budget].cost[budget];
    }
    PROMISE(drawn <= most, "BUDGET", "%lu tokens are drawn on budget %u, which has %lu at most",
            drawn, budget, most);
}

/* From each of the hand-outs to the newest one. */
static void check_time(const struct ledger *l)
{
    int64_t drawn = 0;
    size_t i = l->timed.count;
    const instant last = l->timed.at[i - 1].at;
    while (i-- > 0) {
        int64_t ms = last.ms - l->timed.at[i].at.ms;
        drawn += l->timed.at[i].cost;
        PROMISE((drawn - BUDGET_TIMED_BURST) * BUDGET_TIMED_MS <= ms * BUDGET_TIMED_COUNT, "BUDGET",
                "%ld tokens were drawn in %ld ms", (long)drawn, (long)ms);
    }
}

/* After a start it is full again. */
static void note_time(struct ledger *l, unsigned cost, instant at)
{
    if (l->timed.boots != l->boot_count)
        l->timed.count = 0;
    l->timed.boots = l->boot_count;
    if (l->timed.unknown || at.ms < l->boots[l->boot_count - 1].ms ||
        (l->timed.count && l->timed.at[l->timed.count - 1].at.ms > at.ms))
        return;
    ALLOC_GROW(l->timed.at, l->timed.count, l->timed.cap, 64);
    l->timed.at[l->timed.count].at = at;
    l->timed.at[l->timed.count++].cost = cost;
    check_time(l);
}

void ledger_budget_handed(struct ledger *l, const struct mjob *m, instant at, instant now)
{
    const unsigned *cost = kinds[m->budget].cost;
    for (unsigned b = 0; b < BUDGETS - 1; b++)
        if (cost[b])
            check_in_flight(l, b, now);
    if (cost[BUDGETS - 1])
        note_time(l, cost[BUDGETS - 1], at);
}

void ledger_budget_seen(const struct ledger *l, unsigned budget, uint64_t *jobs, uint64_t *drawn)
{
    *jobs = *drawn = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        unsigned cost = kinds[m->budget].cost[budget];
        if (!m->seen || !cost)
            continue;
        *jobs += !lifecycle_is_terminal(m->status);
        *drawn += m->status == STATUS_IN_FLIGHT ? cost : 0;
    }
}
