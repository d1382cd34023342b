/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets: jobs that draw on them, and an operator who changes how much there is. ledger_budget.c
 * judges what is handed out; in silence the numbers of each budget are those of its jobs. */

#include "sim.h"
#include "trace.h"

void budget_draw(struct sim *s, struct enqueue *spec)
{
    static const struct budget_create creates[BUDGETS] = {
        {STR("b0"), {.allocation = BUDGET_LEAST}},
        {STR("b1"), {.allocation = BUDGET_LEAST + 1}},
        {STR("b2"), {BUDGET_TIMED_COUNT, BUDGET_TIME_BASED, {BUDGET_TIMED_MS}, BUDGET_TIMED_BURST}},
    };
    if (!sim_chance(s, 60))
        return;
    spec->options.budgets = ledger_budget_text(1 + (unsigned)sim_draw(s, BUDGET_KINDS));
    spec->budget_creates = creates;
    spec->budget_create_count = BUDGETS;
}

static void settle(struct ticket *t, const struct reply *r)
{
    PROMISE(ticket_is_in_doubt(t, r->err.code) || r->err.code == ERR_OK, "REPLY", "#%lu: %s: %s",
            t->serial, err_wire(r->err.code), r->err.msg);
}

static void put(struct sim *s, unsigned budget, const struct budget_policy *policy)
{
    static const struct str keys[BUDGETS] = {{"b0", 2}, {"b1", 2}, {"b2", 2}};
    struct ticket *t = ticket_new(s, CMD_BUDGET_PUT, 0);
    t->then = settle;
    ledger_budget_asked(&s->ledger, budget, policy->allocation);
    trace_line("  budget %u: %u", budget, policy->allocation);
    struct command c = {.budget = {.key = keys[budget], .how = BUDGET_REPLACE, .policy = *policy}};
    ticket_submit(t, &c);
}

void budget_step(struct sim *s)
{
    const struct budget_policy policy = {.allocation = BUDGET_LEAST + (uint32_t)sim_draw(s, 5)};
    put(s, (unsigned)sim_draw(s, BUDGETS - 1), &policy);
}

void budget_widen(struct sim *s)
{
    const uint32_t enough = BUDGET_LEAST * (s->profile.gangs ? GANG_MAX : 1);
    const struct budget_policy flying = {.allocation = enough};
    const struct budget_policy timed = {
        BUDGET_TIMED_COUNT, BUDGET_TIME_BASED, {BUDGET_TIMED_MS}, enough};
    for (unsigned b = 0; b < BUDGETS; b++)
        put(s, b, b < BUDGETS - 1 ? &flying : &timed);
}

/* --- in silence --- */

static void check(struct ticket *t, const struct reply *r)
{
    const struct sim *s = t->sim;
    PROMISE(r->err.code == ERR_OK && r->count <= BUDGETS, "BUDGET", "%zu budgets: %s", r->count,
            err_wire(r->err.code));
    for (size_t i = 0; i < r->count; i++) {
        const struct budget_view *v = &r->budgets[i];
        unsigned b = (unsigned)(v->budget.key.at[1] - '0');
        uint64_t jobs, drawn;
        ledger_budget_seen(&s->ledger, b, &jobs, &drawn);
        PROMISE(v->jobs == jobs, "BUDGET", "%lu jobs draw on budget %u, not %lu", jobs, b, v->jobs);
        PROMISE(v->in_flight == drawn, "BUDGET", "%lu are drawn on budget %u, not %lu", drawn, b,
                v->in_flight);
        PROMISE(v->budget.policy.strategy == BUDGET_TIME_BASED ||
                    v->available == (int64_t)v->budget.policy.allocation - (int64_t)drawn,
                "BUDGET", "budget %u has %ld tokens", b, v->available);
    }
}

void budget_audit(struct sim *s)
{
    struct ticket *t = ticket_new(s, CMD_BUDGET_READ, 0);
    struct command c = {0};
    t->then = check;
    ticket_submit(t, &c);
    sim_pump(s);
}

static void check_removed(struct ticket *t, const struct reply *r)
{
    PROMISE(r->err.code == ERR_OK, "BUDGET", "#%lu: %s", t->serial, err_wire(r->err.code));
}

void budget_remove_all(struct sim *s)
{
    struct ticket *t = ticket_new(s, CMD_BUDGET_REMOVE, 0);
    struct command c = {0};
    t->then = check_removed;
    ticket_submit(t, &c);
    sim_pump(s);
}
