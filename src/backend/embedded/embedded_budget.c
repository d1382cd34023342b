/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets: their commands, their part of the port, and their recovery. */

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"
#include "core/engine_budget.h"
#include "store/record.h"

/* --- commands --- */

static struct budget_view *reply_one(struct embedded *b, struct reply *r)
{
    r->count = 1;
    return r->budgets = ARENA_NEW(&b->building->arena, struct budget_view);
}

/* The engine's keys may go before the reply does. */
static void own_keys(struct embedded *b, struct reply *r)
{
    for (size_t i = 0; i < r->count; i++)
        r->budgets[i].budget.key = arena_copy(&b->building->arena, r->budgets[i].budget.key);
}

static void merge(struct budget_policy *to, const struct budget_policy *from, unsigned set)
{
    if (set & BUDGET_ALLOCATION)
        to->allocation = from->allocation;
    /* What the other strategy had does not hold for this one. */
    if (set & BUDGET_STRATEGY && to->strategy != from->strategy) {
        to->strategy = from->strategy;
        to->duration = (span){0};
        to->burst = 0;
    }
    if (set & BUDGET_DURATION)
        to->duration = from->duration;
    if (set & BUDGET_BURST)
        to->burst = from->burst;
}

static struct err put(struct embedded *b, const struct budget_command *c, struct budget_view *view)
{
    struct budget_policy policy = c->policy;
    TRY(budgets_check_key(c->key));
    if (c->how == BUDGET_MERGE) {
        TRY(engine_budget_read(b->engine, b->now, c->key, view));
        policy = view->budget.policy;
        merge(&policy, &c->policy, c->set);
    }
    TRY(budgets_check_policy(&policy));
    return engine_budget_put(b->engine, b->now, c->key, &policy, c->how == BUDGET_CREATE, view);
}

void embedded_budget_put(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = put(b, &c->budget, reply_one(b, r));
    if (r->err.code == ERR_OK)
        own_keys(b, r);
}

void embedded_budget_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct str key = c->budget.key;
    if (key.len)
        r->err = engine_budget_read(b->engine, b->now, key, reply_one(b, r));
    else
        r->count = engine_budget_list(b->engine, b->now, &b->building->arena, &r->budgets);
    if (r->err.code == ERR_OK)
        own_keys(b, r);
}

void embedded_budget_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->count = 1;
    if (c->budget.key.len)
        r->err = engine_budget_remove(b->engine, c->budget.key);
    else
        r->count = engine_budget_remove_all(b->engine);
}

/* --- the port --- */

static void put_budget(void *ctx, struct str key, const struct budget *budget)
{
    struct embedded *b = ctx;
    char room[RECORD_BUDGET_KEY_MAX];
    if (budget)
        record_put_budget(&b->building->batch, budget);
    else
        batch_delete(&b->building->batch, record_budget_key(key, room));
}

void embedded_budget_port(struct port *port)
{
    port->put_budget = put_budget;
}

/* --- recovery --- */

struct err embedded_budget_recover(struct embedded *b)
{
    struct store *s = b->env.store;
    struct str key, value, name;
    struct err err = err_none();
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR("B"), false);
    for (; err.code == ERR_OK && store_cursor_at(c, s, &key, &value) &&
           record_key_is_budget(key, &name);
         store_cursor_step(c, s, false)) {
        struct budget budget;
        err = record_read_budget(value, name, &budget);
        if (err.code == ERR_OK)
            engine_restore_budget(b->engine, &budget, b->now);
    }
    struct err read = store_cursor_free(c, s);
    return err.code == ERR_OK ? read : err;
}
