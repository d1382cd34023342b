/* SPDX-License-Identifier: Apache-2.0 */

/* Cron groups and entries that are put: planned first, applied only if all of it can be. */

#include <stdlib.h>

#include "base/must.h"
#include "core/engine_budget.h"
#include "core/engine_cron_internal.h"
#include "core/job_fields.h"

/* What does not come true within eight years, as 29 February always does but around 2100,
 * is taken for a mistake. */
#define HORIZON_MS (INT64_C(2922) * 86400 * 1000)

/* What is to become of one entry of a put. */
struct plan {
    struct cron cron;
    const struct cron_zone *zone;
    instant next;
    struct cron_item *old; /* of that name, or NULL */
    bool same_times;       /* the expression and the zone are as stored */
    bool same;             /* and all else */
};

static bool same_curve(const struct curve *a, const struct curve *b)
{
    return a->shape == b->shape &&
           (a->shape == CURVE_NONE || (a->base.ms == b->base.ms && a->exponent == b->exponent &&
                                       a->jitter.ms == b->jitter.ms));
}

static bool same_batch(const struct job_batch *a, const struct job_batch *b)
{
    return str_eq(a->key, b->key) && str_eq(a->when, b->when) && str_eq(a->fold, b->fold);
}

static bool same_job(const struct enqueue *a, const struct enqueue *b)
{
    return str_eq(a->queue, b->queue) && str_eq(a->type, b->type) &&
           str_eq(a->payload, b->payload) && a->priority == b->priority &&
           a->retry_limit == b->retry_limit && same_curve(&a->backoff, &b->backoff) &&
           a->completed_retention.ms == b->completed_retention.ms &&
           a->dead_retention.ms == b->dead_retention.ms && a->unique_while == b->unique_while &&
           str_eq(a->unique_key, b->unique_key) && same_batch(&a->batch, &b->batch) &&
           job_options_eq(&a->options, &b->options);
}

/* group_zone: of the group once the put is done. */
static struct err make_plan(struct engine *e, instant now, const struct cron_set *s,
                            const struct cron_spec *spec, struct str group_zone, struct arena *a,
                            struct plan *p)
{
    TRY(cron_check_name(spec->name, "the name of an entry"));
    TRY(cron_parse(spec->expression, &p->cron));
    if (spec->job.payload.len > CRON_PAYLOAD_MAX)
        return err_make(ERR_BAD_VALUE, "entry '%.*s': the payload has %zu bytes; %d are allowed",
                        NAME_ARG(spec->name), spec->job.payload.len, CRON_PAYLOAD_MAX);
    struct err err = engine_cron_find_zone(e, spec->zone.len ? spec->zone : group_zone, &p->zone);
    if (err.code != ERR_OK)
        return err_make(err.code, "entry '%.*s': %s", NAME_ARG(spec->name), err.msg);
    /* Whoever names a year knows when it comes. */
    bool comes = cron_next(&p->cron, p->zone, now, &p->next);
    if (!comes || (p->cron.any_year && p->next.ms > now.ms + HORIZON_MS))
        return err_make(ERR_BAD_CRON, "entry '%.*s': '%.*s' never comes within the next %s years",
                        NAME_ARG(spec->name), NAME_ARG(spec->expression),
                        p->cron.any_year ? "8" : "100");
    p->old = s ? engine_cron_find_item(s, spec->name) : NULL;
    if (!p->old)
        return err_none();
    struct cron_entry old;
    TRY(engine_cron_load(e, p->old, a, &old));
    p->same_times = p->old->zone == p->zone && str_eq(old.expression, spec->expression) &&
                    str_eq(old.zone, spec->zone) &&
                    !(old.classic && cron_days_differ(spec->expression));
    p->same = p->same_times && !old.classic && same_job(&old.job, &spec->job);
    return err_none();
}

static struct err check_twice(const struct engine *e, const struct cron_put *put)
{
    struct strmap seen = {.seed = e->crons->names.seed};
    struct err err = err_none();
    for (size_t i = 0; i < put->count && err.code == ERR_OK; i++) {
        const struct cron_spec *spec = &put->entries[i], *first = strmap_get(&seen, spec->name);
        if (first)
            err = err_make(ERR_UNPROCESSABLE, "entries[%zu] and entries[%zu] have one name, '%.*s'",
                           (size_t)(first - put->entries), i, NAME_ARG(spec->name));
        strmap_put(&seen, spec->name, (void *)(uintptr_t)spec);
    }
    strmap_fini(&seen);
    return err;
}

static struct err check_fresh(const struct cron_put *put, const struct plan *plans)
{
    for (size_t i = 0; put->fresh && i < put->count; i++)
        if (plans[i].old)
            return err_make(ERR_CONFLICT, "the cron group '%.*s' has an entry '%.*s' already",
                            NAME_ARG(put->group), NAME_ARG(put->entries[i].name));
    return err_none();
}

static struct err check_limits(const struct engine *e, const struct cron_set *s,
                               const struct cron_put *put, const struct plan *plans)
{
    size_t before = s ? s->count : 0, added = 0;
    for (size_t i = 0; i < put->count; i++)
        added += !plans[i].old;
    size_t after = put->whole ? put->count : before + added;
    if (after > CRON_GROUP_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "a cron group has at most %d entries",
                        CRON_GROUP_ENTRIES_MAX);
    if (e->crons->items.count - before + after > CRON_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "all cron groups together have at most %d entries",
                        CRON_ENTRIES_MAX);
    if (!s && e->crons->sets.count >= CRON_GROUPS_MAX)
        return err_make(ERR_TOO_MANY, "there are at most %d cron groups", CRON_GROUPS_MAX);
    return err_none();
}

static void put_entry(struct engine *e, const struct cron_item *it, const struct cron_spec *spec)
{
    struct cron_entry entry = {.id = it->id,
                               .group = it->set->group.id,
                               .position = it->position,
                               .name = it->name,
                               .expression = spec->expression,
                               .zone = spec->zone,
                               .job = spec->job};
    e->port.put_cron_entry(e->port.ctx, &entry);
}

static void apply_entry(struct engine *e, instant now, struct cron_set *s,
                        const struct cron_spec *spec, const struct plan *p, uint32_t position,
                        bool whole)
{
    struct cron_item *it = p->old;
    bool moved = it && it->position != position;
    if (!it) {
        it = engine_cron_item_add(e, s, id_next(&e->ids, now, &e->rng), spec->name, position);
        it->clock = (struct cron_clock){p->next, INSTANT_NONE, CRON_RUNNING};
    }
    it->position = position;
    it->kept = whole;
    /* Whoever deploys another expression or job did not say that what is paused may run. */
    if (!p->same_times) {
        it->cron = p->cron;
        it->zone = p->zone;
        it->inherits = spec->zone.len == 0;
        it->clock.next_at = p->next;
        engine_cron_arm(e, it, p->next);
    }
    engine_budget_hold(e, now, spec->job.options.budgets, &it->budgets);
    if (!p->same || moved)
        put_entry(e, it, spec);
    if (engine_cron_turn(&it->clock.pause, now, spec->paused) || !p->same_times)
        engine_cron_put_clock(e, it);
}

static int by_position(const void *a, const void *b)
{
    const struct cron_item *x = *(struct cron_item *const *)a, *y = *(struct cron_item *const *)b;
    return (x->position > y->position) - (x->position < y->position);
}

/* After a put of all: drops what it did not name, and puts the rest in order. */
static void settle(struct engine *e, struct cron_set *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct cron_item *it = s->items[i];
        if (!it->kept) {
            engine_cron_item_drop(e, it);
            continue;
        }
        it->kept = false;
        s->items[n++] = it;
    }
    s->count = n;
    if (n)
        qsort(s->items, n, sizeof(struct cron_item *), by_position);
}

static struct str zone_after(const struct cron_set *s, const struct cron_put *put)
{
    if (put->whole)
        return put->zone;
    return s ? s->group.zone : (struct str){0};
}

static struct cron_set *apply_group(struct engine *e, instant now, struct cron_set *s,
                                    const struct cron_put *put)
{
    bool made = !s;
    struct str zone = zone_after(s, put);
    if (made) {
        struct cron_group group = {id_next(&e->ids, now, &e->rng), put->group, zone, CRON_RUNNING};
        s = engine_cron_set_add(e, &group);
    }
    bool moved = engine_cron_set_zone(s, zone);
    if (engine_cron_turn(&s->group.pause, now, put->paused) || made || moved)
        e->port.put_cron_group(e->port.ctx, &s->group);
    return s;
}

static void apply(struct engine *e, instant now, struct cron_set *s, const struct cron_put *put,
                  const struct plan *plans)
{
    s = apply_group(e, now, s, put);
    uint32_t free_position = s->count ? s->items[s->count - 1]->position + 1 : 0;
    for (size_t i = 0; i < put->count; i++) {
        uint32_t position = put->whole     ? (uint32_t)i
                            : plans[i].old ? plans[i].old->position
                                           : free_position++;
        apply_entry(e, now, s, &put->entries[i], &plans[i], position, put->whole);
    }
    if (put->whole)
        settle(e, s);
}

/* Budgets are created with the entry, not by its first tick: then it could be too late for it. */
static struct err make_budgets(struct engine *e, instant now, const struct cron_put *put,
                               struct arena *a)
{
    struct enqueue *jobs = arena_get(a, put->count * sizeof *jobs + 1);
    for (size_t i = 0; i < put->count; i++)
        jobs[i] = put->entries[i].job;
    struct err err = engine_budget_check(e, jobs, put->count, "entries");
    if (err.code == ERR_OK)
        engine_budget_create(e, now, jobs, put->count);
    return err;
}

struct err engine_cron_put(struct engine *e, instant now, const struct cron_put *put,
                           struct arena *a, struct cron_view *out)
{
    must(put->whole || put->count == 1);
    TRY(cron_check_name(put->group, "the name of a cron group"));
    if (put->count > CRON_GROUP_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "a cron group has at most %d entries; these are %zu",
                        CRON_GROUP_ENTRIES_MAX, put->count);
    struct cron_set *s = strmap_get(&e->crons->names, put->group);
    struct plan *plans = arena_zero(a, put->count * sizeof *plans + 1);
    const struct cron_zone *zone;
    struct err err = engine_cron_find_zone(e, zone_after(s, put), &zone);
    if (err.code != ERR_OK && put->whole)
        return err_make(err.code, "timezone: %s", err.msg);
    for (size_t i = 0; i < put->count; i++)
        TRY(make_plan(e, now, s, &put->entries[i], zone_after(s, put), a, &plans[i]));
    TRY(check_twice(e, put));
    TRY(check_fresh(put, plans));
    TRY(check_limits(e, s, put, plans));
    TRY(make_budgets(e, now, put, a));
    apply(e, now, s, put, plans);
    struct str only = put->whole ? (struct str){0} : put->entries[0].name;
    return engine_cron_read(e, put->group, only, a, out);
}
