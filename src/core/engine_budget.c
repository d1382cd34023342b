/* SPDX-License-Identifier: Apache-2.0 */

/* Which budgets there are, and who draws on them. Jobs that draw the same share a set: a job costs
 * its place in the map of such jobs, and nothing is done per job when tokens come back. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/mark.h"
#include "base/must.h"
#include "core/engine_budget_internal.h"
#include "core/explain.h"

static struct pool *find(const struct engine *e, struct str key)
{
    return strmap_get(&e->budgets, key);
}

static struct pool *pool_new(struct engine *e, instant now, const struct budget *budget)
{
    struct pool *p = ALLOC(struct pool);
    p->budget = *budget;
    p->budget.key = strmap_put(&e->budgets, budget->key, p);
    p->number = ++e->budget_number;
    p->wake = INSTANT_NONE;
    list_init(&p->misfits);
    list_init(&p->change);
    if (budget->policy.strategy == BUDGET_TIME_BASED) {
        struct rate rate = budgets_rate(&budget->policy);
        p->bucket = bucket_full(&rate, now);
    }
    return p;
}

static void pool_free(struct pool *p)
{
    list_unlink(&p->change);
    btree_fini(&p->costs);
    btree_fini(&p->waits);
    free(p);
}

static void store(struct engine *e, const struct pool *p)
{
    e->port.put_budget(e->port.ctx, p->budget.key, &p->budget);
}

static void pool_drop(struct engine *e, struct pool *p)
{
    must(p->sets == 0 && p->waits.count == 0 && list_is_empty(&p->misfits));
    engine_budget_disarm(e, p);
    e->port.put_budget(e->port.ctx, p->budget.key, NULL);
    must(strmap_remove(&e->budgets, p->budget.key) == p);
    pool_free(p);
}

/* --- sets --- */

static struct budget_set *set_new(struct engine *e, struct str key, size_t count)
{
    struct budget_set *s = alloc_zero(sizeof *s + count * sizeof s->parts[0]);
    s->key = strmap_put(&e->budget_sets, key, s);
    s->number = ++e->budget_number;
    s->refs = 1;
    return s;
}

static void add_part(struct budget_set *s, struct pool *p, uint64_t cost)
{
    p->sets++;
    s->parts[s->count++] = (struct budget_part){p, cost};
}

struct budget_set *engine_budget_set_get(struct engine *e, struct str bindings)
{
    struct budget_set *s = strmap_get(&e->budget_sets, bindings);
    if (s) {
        s->refs++;
        return s;
    }
    struct str rest = bindings;
    struct budget_binding b;
    size_t count = 0;
    while (budgets_next(&rest, &b))
        count++;
    s = set_new(e, bindings, count);
    rest = bindings;
    while (budgets_next(&rest, &b)) {
        must(find(e, b.key));
        add_part(s, find(e, b.key), b.cost);
    }
    return s;
}

static int by_number(const void *a, const void *b)
{
    const struct budget_part *x = a, *y = b;
    return (x->pool->number > y->pool->number) - (x->pool->number < y->pool->number);
}

/* Sums up parts of one budget, which are side by side; returns how many are left. */
static size_t merge(struct budget_part *parts, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (n > 0 && parts[n - 1].pool == parts[i].pool)
            parts[n - 1].cost += parts[i].cost;
        else
            parts[n++] = parts[i];
    }
    return n;
}

struct budget_set *engine_budget_set_sum(struct engine *e, struct budget_set *const *sets,
                                         size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += sets[i] ? sets[i]->count : 0;
    if (n == 0)
        return NULL;
    struct budget_part *parts = alloc_zero(n * sizeof *parts);
    n = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; sets[i] && k < sets[i]->count; k++)
            parts[n++] = sets[i]->parts[k];
    qsort(parts, n, sizeof *parts, by_number);
    n = merge(parts, n);
    struct buf key = {0};
    buf_lit(&key, "gang"); /* no text of bindings begins so */
    for (size_t i = 0; i < n; i++)
        buf_print(&key, " %llu:%llu", (unsigned long long)parts[i].pool->number,
                  (unsigned long long)parts[i].cost);
    struct budget_set *s = strmap_get(&e->budget_sets, buf_view(&key));
    if (s) {
        s->refs++;
    } else {
        s = set_new(e, buf_view(&key), n);
        for (size_t i = 0; i < n; i++)
            add_part(s, parts[i].pool, parts[i].cost);
    }
    buf_fini(&key);
    free(parts);
    return s;
}

void engine_budget_set_unref(struct engine *e, struct budget_set *s)
{
    must(s->refs > 0);
    if (--s->refs > 0)
        return;
    must(s->jobs == 0 && s->crons == 0);
    for (size_t i = 0; i < s->count; i++)
        s->parts[i].pool->sets--;
    must(strmap_remove(&e->budget_sets, s->key) == s);
    free(s);
}

struct budget_set *engine_budget_set_of(const struct engine *e, struct id id)
{
    return e->budget_jobs.count ? idmap_get(&e->budget_jobs, id) : NULL;
}

/* --- who draws on them --- */

/* Counts jobs and cron entries, so many more or fewer. */
static void count(struct budget_set *s, int jobs, int crons)
{
    bool had = s->jobs + s->crons > 0;
    s->jobs += (uint64_t)(int64_t)jobs;
    s->crons += (uint64_t)(int64_t)crons;
    bool has = s->jobs + s->crons > 0;
    for (size_t i = 0; i < s->count; i++) {
        struct pool *p = s->parts[i].pool;
        struct btree_entry cost = {s->parts[i].cost, s->number, 0, 0};
        p->jobs += (uint64_t)(int64_t)jobs;
        p->crons += (uint64_t)(int64_t)crons;
        if (!had && has)
            must(btree_put(&p->costs, cost));
        else if (had && !has)
            must(btree_remove(&p->costs, cost, NULL));
    }
}

/* The most that somebody draws on it at a time. */
static uint64_t highest_cost(const struct pool *p)
{
    struct btree_entry highest;
    return btree_before(&p->costs, (struct btree_entry){UINT64_MAX, 0, 0, 0}, &highest)
               ? highest.major
               : 0;
}

/* Makes up the budgets of these bindings that are not there: their records are lost. */
static void make_up(struct engine *e, instant now, struct str bindings)
{
    struct budget_binding b;
    while (budgets_next(&bindings, &b)) {
        struct pool *p = find(e, b.key);
        if (!p) {
            struct budget budget = {.key = b.key, .created_at = now, .updated_at = now};
            p = pool_new(e, now, &budget);
            p->made_up = true;
        }
        if (p->made_up && p->budget.policy.allocation < b.cost)
            p->budget.policy.allocation = b.cost;
    }
}

void engine_budget_join(struct engine *e, instant now, const struct job *job)
{
    if (!job->options.budgets.len)
        return;
    make_up(e, now, job->options.budgets);
    struct budget_set *s = engine_budget_set_get(e, job->options.budgets);
    must(!engine_budget_set_of(e, job->id));
    idmap_put(&e->budget_jobs, job->id, s);
    engine_odd_set(e, job->id, ODD_BUDGETS);
    count(s, 1, 0);
}

void engine_budget_leave(struct engine *e, struct id id)
{
    if (e->budget_jobs.count == 0)
        return;
    struct budget_set *s = idmap_remove(&e->budget_jobs, id);
    if (!s)
        return;
    engine_odd_clear(e, id, ODD_BUDGETS);
    count(s, -1, 0);
    engine_budget_set_unref(e, s);
}

void engine_budget_hold(struct engine *e, instant now, struct str bindings,
                        struct budget_set **held)
{
    struct budget_set *was = *held;
    make_up(e, now, bindings);
    *held = bindings.len ? engine_budget_set_get(e, bindings) : NULL;
    if (*held)
        count(*held, 0, 1);
    if (!was)
        return;
    count(was, 0, -1);
    engine_budget_set_unref(e, was);
}

/* --- an enqueue --- */

/* Whether so many more can be created. */
static struct err check_room(const struct engine *e, size_t more)
{
    uint32_t most = e->settings.budgets_max ? e->settings.budgets_max : BUDGETS_MAX_DEFAULT;
    if (e->budgets.count + more <= most)
        return err_none();
    return err_make(ERR_TOO_MANY,
                    "there are %zu budgets; at most %u are allowed: see --max-budgets",
                    e->budgets.count, most);
}

static struct err check_cost(const struct budget_binding *b, const struct budget_policy *p)
{
    if (b->cost <= budgets_capacity(p))
        return err_none();
    return err_make(
        ERR_UNPROCESSABLE, "budget '%.*s' has %s of %u: a job cannot draw %u tokens on it",
        NAME_ARG(b->key), p->burst ? "a burst" : "an allocation", budgets_capacity(p), b->cost);
}

static struct err missing(struct str key)
{
    return err_make(ERR_UNPROCESSABLE,
                    "there is no budget '%.*s'; create it, or say what it is with create_with",
                    NAME_ARG(key));
}

struct err engine_budget_check_again(const struct engine *e, struct str bindings)
{
    struct budget_binding b;
    while (budgets_next(&bindings, &b)) {
        const struct pool *p = find(e, b.key);
        if (!p)
            return missing(b.key);
        TRY(check_cost(&b, &p->budget.policy));
    }
    return err_none();
}

/* fresh: the policies of budgets that are to be created, by key. */
static struct err check_one(const struct engine *e, const struct enqueue *spec,
                            struct strmap *fresh)
{
    struct str rest = spec->options.budgets;
    struct budget_binding b;
    for (size_t i = 0; i < spec->budget_create_count; i++) {
        const struct budget_create *c = &spec->budget_creates[i];
        if (!find(e, c->key) && !strmap_get(fresh, c->key))
            strmap_put(fresh, c->key, (void *)(uintptr_t)&c->policy);
    }
    if (fresh->count)
        TRY(check_room(e, fresh->count));
    while (budgets_next(&rest, &b)) {
        const struct pool *p = find(e, b.key);
        const struct budget_policy *policy = p ? &p->budget.policy : strmap_get(fresh, b.key);
        if (!policy)
            return missing(b.key);
        TRY(check_cost(&b, policy));
    }
    return err_none();
}

struct err engine_budget_check(const struct engine *e, const struct enqueue *specs, size_t count,
                               const char *list)
{
    struct strmap fresh = {.seed = e->budgets.seed};
    struct err err = err_none();
    for (size_t i = 0; i < count && err.code == ERR_OK; i++) {
        if (!specs[i].options.budgets.len)
            continue;
        err = check_one(e, &specs[i], &fresh);
        if (err.code != ERR_OK && count > 1)
            err = err_make(err.code, "%s[%zu]: %s", list, i, err.msg);
    }
    strmap_fini(&fresh);
    return err;
}

void engine_budget_create(struct engine *e, instant now, const struct enqueue *specs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < specs[i].budget_create_count; n++) {
            const struct budget_create *c = &specs[i].budget_creates[n];
            if (!find(e, c->key))
                store(e, pool_new(e, now, &(struct budget){c->key, c->policy, now, now}));
        }
    }
}

/* --- people --- */

static void view_of(struct pool *p, instant now, struct budget_view *v)
{
    *v = (struct budget_view){.budget = p->budget,
                              .available = engine_budget_tokens(p, now),
                              .in_flight = p->in_flight,
                              .jobs = p->jobs,
                              .crons = p->crons};
}

/* Who draws on it: "2 unfinished jobs and a cron entry". */
static void name_holders(const struct pool *p, char text[96])
{
    char jobs[40] = "", crons[40] = "";
    if (p->jobs)
        snprintf(jobs, sizeof jobs, "%llu unfinished job%s", (unsigned long long)p->jobs,
                 p->jobs == 1 ? "" : "s");
    if (p->crons)
        snprintf(crons, sizeof crons, "%llu cron entr%s", (unsigned long long)p->crons,
                 p->crons == 1 ? "y" : "ies");
    snprintf(text, 96, "%s%s%s", jobs, *jobs && *crons ? " and " : "", crons);
}

static struct err check_change(const struct pool *p, const struct budget_policy *to)
{
    uint64_t cost = highest_cost(p);
    char holders[96];
    if (cost <= budgets_capacity(to))
        return err_none();
    name_holders(p, holders);
    return err_make(ERR_UNPROCESSABLE,
                    "budget '%.*s' cannot have %s of %u: of %s one draws %llu tokens",
                    NAME_ARG(p->budget.key), to->burst ? "a burst" : "an allocation",
                    budgets_capacity(to), holders, (unsigned long long)cost);
}

/* What has flowed in stays, as far as the new policy has room for it. */
static void change_bucket(struct pool *p, instant now, const struct budget_policy *to)
{
    struct rate from = {0}, rate;
    if (to->strategy != BUDGET_TIME_BASED)
        return;
    if (p->budget.policy.strategy == BUDGET_TIME_BASED)
        from = budgets_rate(&p->budget.policy);
    rate = budgets_rate(to);
    bucket_change(&p->bucket, &from, &rate, now);
}

struct err engine_budget_put(struct engine *e, instant now, struct str key,
                             const struct budget_policy *policy, bool create,
                             struct budget_view *view)
{
    struct pool *p = find(e, key);
    if (p && create)
        return err_make(ERR_CONFLICT, "budget '%.*s' exists already", NAME_ARG(key));
    if (!p) {
        TRY(check_room(e, 1));
        p = pool_new(e, now, &(struct budget){key, *policy, now, now});
    } else {
        TRY(check_change(p, policy));
        change_bucket(p, now, policy);
        p->budget.policy = *policy;
        p->budget.updated_at = now;
        p->made_up = false;
        engine_budget_changed(e, p);
    }
    store(e, p);
    view_of(p, now, view);
    return err_none();
}

static struct err find_or_err(const struct engine *e, struct str key, struct pool **p)
{
    *p = find(e, key);
    if (*p)
        return err_none();
    return err_make(ERR_NOT_FOUND, "there is no budget '%.*s'", NAME_ARG(key));
}

struct err engine_budget_read(struct engine *e, instant now, struct str key,
                              struct budget_view *view)
{
    struct pool *p;
    TRY(find_or_err(e, key, &p));
    view_of(p, now, view);
    return err_none();
}

struct err engine_budget_remove(struct engine *e, struct str key)
{
    struct pool *p;
    char holders[96];
    TRY(find_or_err(e, key, &p));
    if (p->jobs || p->crons) {
        name_holders(p, holders);
        return err_make(ERR_CONFLICT, "%s draw%s on budget '%.*s'", holders,
                        p->jobs + p->crons == 1 ? "s" : "", NAME_ARG(key));
    }
    pool_drop(e, p);
    return err_none();
}

static struct str *sorted_keys(const struct engine *e, struct arena *a)
{
    struct str *keys = arena_get(a, (e->budgets.count + 1) * sizeof *keys);
    size_t n = 0;
    for (size_t i = 0; i < e->budgets.cap; i++)
        if (e->budgets.slots[i].key)
            keys[n++] = ((const struct pool *)e->budgets.slots[i].val)->budget.key;
    must(n == e->budgets.count);
    if (n)
        qsort(keys, n, sizeof *keys, str_cmp_at);
    return keys;
}

size_t engine_budget_remove_all(struct engine *e)
{
    struct arena scratch = {0};
    size_t removed = 0, count = e->budgets.count;
    const struct str *keys = sorted_keys(e, &scratch);
    for (size_t i = 0; i < count; i++) {
        struct pool *p = find(e, keys[i]);
        if (p->jobs || p->crons)
            continue;
        pool_drop(e, p);
        removed++;
    }
    arena_fini(&scratch);
    return removed;
}

size_t engine_budget_list(struct engine *e, instant now, struct arena *a,
                          struct budget_view **views)
{
    const struct str *keys = sorted_keys(e, a);
    size_t count = e->budgets.count;
    *views = arena_get(a, (count + 1) * sizeof **views);
    for (size_t i = 0; i < count; i++)
        view_of(find(e, keys[i]), now, &(*views)[i]);
    return count;
}

size_t engine_budget_count(const struct engine *e)
{
    return e->budgets.count;
}

size_t engine_budget_count_marked(const struct engine *e, struct str mark)
{
    size_t n = 0;
    for (size_t i = 0; i < e->budgets.cap; i++) {
        const struct strmap_slot *s = &e->budgets.slots[i];
        n += s->key && str_eq(mark_of((struct str){s->key, s->len}), mark);
    }
    return n;
}

size_t engine_budget_most(const struct engine *e)
{
    return e->settings.budgets_max ? e->settings.budgets_max : BUDGETS_MAX_DEFAULT;
}

/* --- explanations --- */

void engine_budget_explain(struct engine *e, instant now, struct arena *a, struct explanation *x)
{
    struct budget_set *s = engine_gang_cost(e, x->job.id);
    const char *who = s ? "its gang" : "it";
    if (!s)
        s = engine_budget_set_of(e, x->job.id);
    struct btree_entry place = {engine_rank(&x->job.state), x->job.id.hi, x->job.id.lo, 0};
    size_t part;
    if (!s || !engine_budget_lacks(now, s, &place, NULL, &part))
        return;
    const struct budget_part *b = &s->parts[part];
    int64_t tokens = engine_budget_tokens(b->pool, now);
    struct str key = b->pool->budget.key;
    if (tokens >= 0 && (uint64_t)tokens >= b->cost)
        explain_add(x, a, OBSTACLE_BUDGET, INSTANT_NONE,
                    "%s draws on budget '%.*s', whose tokens are for jobs that come first", who,
                    NAME_ARG(key));
    else if (b->cost > budgets_capacity(&b->pool->budget.policy))
        explain_add(x, a, OBSTACLE_BUDGET, INSTANT_NONE,
                    "%s draws %llu on budget '%.*s', which never has more than %u, unless somebody "
                    "raises it",
                    who, (unsigned long long)b->cost, NAME_ARG(key),
                    budgets_capacity(&b->pool->budget.policy));
    else
        explain_add(x, a, OBSTACLE_BUDGET, engine_budget_next(b->pool, now, b->cost),
                    "%s draws %llu on budget '%.*s', which has %lld of its %u tokens left", who,
                    (unsigned long long)b->cost, NAME_ARG(key),
                    (long long)(tokens > 0 ? tokens : 0),
                    budgets_capacity(&b->pool->budget.policy));
}

struct err engine_budget_check_tokens(const struct engine *e, instant now, struct id id)
{
    const struct budget_set *s = engine_budget_set_of(e, id);
    for (size_t i = 0; s && i < s->count; i++) {
        const struct budget_part *b = &s->parts[i];
        int64_t tokens = engine_budget_tokens(b->pool, now);
        if (tokens < 0 || (uint64_t)tokens < b->cost)
            return err_make(ERR_UNPROCESSABLE,
                            "the job draws %llu on budget '%.*s', which has %lld tokens left",
                            (unsigned long long)b->cost, NAME_ARG(b->pool->budget.key),
                            (long long)(tokens > 0 ? tokens : 0));
    }
    return err_none();
}

/* --- recovery, the check, the end --- */

void engine_restore_budget(struct engine *e, const struct budget *budget, instant now)
{
    pool_new(e, now, budget);
}

uint64_t engine_budget_bytes(const struct engine *e)
{
    return e->budgets.count * sizeof(struct pool) +
           e->budget_sets.count * sizeof(struct budget_set) + e->lines.count * sizeof(struct line) +
           e->budget_jobs.cap * sizeof(struct idmap_slot);
}

static void check_pool(const struct pool *p)
{
    struct btree_entry at;
    btree_check(&p->waits);
    btree_check(&p->costs);
    for (bool more = btree_first(&p->waits, &at); more; more = btree_after(&p->waits, at, &at)) {
        const struct budget_wait *w = (const struct budget_wait *)(uintptr_t)at.val;
        must(engine_budget_waits(w) && w->place.hi == at.hi && w->place.lo == at.lo);
    }
    must(highest_cost(p) <= budgets_capacity(&p->budget.policy) || p->made_up);
    must(p->waits.count == 0 || p->jobs > 0);
}

void engine_budget_checks(const struct engine *e)
{
    uint64_t drawn = 0, jobs = 0, in_flight = 0;
    for (size_t i = 0; i < e->budgets.cap; i++) {
        const struct pool *p = e->budgets.slots[i].key ? e->budgets.slots[i].val : NULL;
        if (!p)
            continue;
        check_pool(p);
        in_flight += p->in_flight;
    }
    for (size_t i = 0; i < e->live.cap; i++) {
        const struct live *l = e->live.slots[i].val;
        for (size_t k = 0; l && l->budgets && k < l->budgets->count; k++)
            drawn += l->budgets->parts[k].cost;
    }
    for (size_t i = 0; i < e->budget_sets.cap; i++)
        if (e->budget_sets.slots[i].key)
            jobs += ((const struct budget_set *)e->budget_sets.slots[i].val)->jobs;
    must(drawn == in_flight && jobs == e->budget_jobs.count);
}

void engine_budget_fini(struct engine *e)
{
    for (size_t i = 0; i < e->budget_sets.cap; i++)
        if (e->budget_sets.slots[i].key)
            free(e->budget_sets.slots[i].val);
    for (size_t i = 0; i < e->budgets.cap; i++)
        if (e->budgets.slots[i].key)
            pool_free(e->budgets.slots[i].val);
    strmap_fini(&e->budget_sets);
    strmap_fini(&e->budgets);
    idmap_fini(&e->budget_jobs);
}
