/* SPDX-License-Identifier: Apache-2.0 */
#include "core/budgets.h"

#include "base/must.h"

static const char *const strategy_names[BUDGET_STRATEGIES] = {
    [BUDGET_WHILE_IN_FLIGHT] = "while_in_flight", [BUDGET_TIME_BASED] = "time_based"};

const char *budgets_strategy_name(enum budget_strategy s)
{
    must(s < BUDGET_STRATEGIES);
    return strategy_names[s];
}

bool budgets_strategy_parse(struct str name, enum budget_strategy *s)
{
    for (unsigned i = 0; i < BUDGET_STRATEGIES; i++) {
        if (str_eq(name, str_from(strategy_names[i]))) {
            *s = (enum budget_strategy)i;
            return true;
        }
    }
    return false;
}

struct err budgets_check_key(struct str key)
{
    struct err err = job_check_name(key, "the key of a budget");
    return err.code == ERR_OK ? err : err_make(ERR_UNPROCESSABLE, "%s", err.msg);
}

struct err budgets_check_policy(const struct budget_policy *p)
{
    must(p->allocation > 0 && p->allocation <= BUDGET_TOKENS_MAX);
    bool timed = p->strategy == BUDGET_TIME_BASED;
    if (timed && p->duration.ms == 0)
        return err_make(ERR_UNPROCESSABLE, "a time_based budget needs a duration_ms");
    if (!timed && (p->duration.ms || p->burst))
        return err_make(ERR_UNPROCESSABLE, "a while_in_flight budget has no %s",
                        p->burst ? "burst" : "duration_ms");
    return err_none();
}

bool budgets_policy_eq(const struct budget_policy *a, const struct budget_policy *b)
{
    return a->allocation == b->allocation && a->strategy == b->strategy &&
           a->duration.ms == b->duration.ms && a->burst == b->burst;
}

uint32_t budgets_capacity(const struct budget_policy *p)
{
    return p->burst ? p->burst : p->allocation;
}

struct rate budgets_rate(const struct budget_policy *p)
{
    must(p->strategy == BUDGET_TIME_BASED);
    return (struct rate){p->allocation, budgets_capacity(p), p->duration};
}

/* --- bindings; a key has no comma --- */

void budgets_bind(struct buf *text, const struct budget_binding *b)
{
    if (text->len)
        buf_byte(text, ',');
    buf_int(text, b->cost);
    buf_byte(text, ':');
    buf_str(text, b->key);
}

bool budgets_next(struct str *text, struct budget_binding *b)
{
    if (text->len == 0)
        return false;
    const char *at = text->at, *end = at + text->len;
    uint64_t cost = 0;
    for (; at < end && *at >= '0' && *at <= '9' && cost <= BUDGET_TOKENS_MAX; at++)
        cost = cost * 10 + (uint64_t)(*at - '0');
    if (at == end || *at != ':' || cost == 0 || cost > BUDGET_TOKENS_MAX)
        return false;
    const char *key = at + 1, *comma = memchr(key, ',', (size_t)(end - key));
    const char *key_end = comma ? comma : end;
    b->cost = (uint32_t)cost;
    b->key = (struct str){key, (size_t)(key_end - key)};
    *text = comma ? (struct str){comma + 1, (size_t)(end - comma - 1)} : (struct str){0};
    return true;
}

bool budgets_has(struct str text, struct str key)
{
    struct budget_binding b;
    while (budgets_next(&text, &b))
        if (str_eq(b.key, key))
            return true;
    return false;
}
