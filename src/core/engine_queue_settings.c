/* SPDX-License-Identifier: Apache-2.0 */

/* What people set for queues: pause, limits, and defaults of their jobs. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

static struct queue_limits *limits_new(struct engine *e, struct queue *q)
{
    struct queue_limits *l = ALLOC(struct queue_limits);
    l->set = QUEUE_SETTINGS_DEFAULT;
    l->wake = INSTANT_NONE;
    l->queue = q;
    list_init(&l->drawn);
    q->limits = l;
    e->limit_count++;
    return l;
}

void engine_limits_free(struct queue_limits *l)
{
    free(l);
}

void engine_restore_queue(struct engine *e, struct str name, const struct queue_record *record,
                          instant now)
{
    struct queue_limits *l = limits_new(e, engine_queue_get(e, name));
    l->set = record->settings;
    l->bucket = record->bucket;
    if (rate_is_set(&l->set.rate))
        bucket_repair(&l->bucket, &l->set.rate, now);
    engine_limits_wake(e, l);
}

struct err engine_queue_put(struct engine *e, instant now, struct str name,
                            const struct queue_settings *settings)
{
    struct queue *q = engine_queue_find(e, name);
    if ((!q || !q->limits) && e->limit_count == QUEUE_SETTINGS_MAX)
        return err_make(ERR_TOO_MANY, "at most %d queues have settings", QUEUE_SETTINGS_MAX);
    if (!q)
        q = engine_queue_get(e, name);
    struct queue_limits *l = q->limits ? q->limits : limits_new(e, q);
    if (!rate_eq(&l->set.rate, &settings->rate))
        bucket_change(&l->bucket, &l->set.rate, &settings->rate, now);
    bool other_keys = l->set.concurrency_per_key != settings->concurrency_per_key;
    l->set = *settings;
    if (other_keys)
        engine_keys_limited(e, q);
    engine_limits_wake(e, l);
    engine_queue_refresh(e, q);
    engine_gangs_limits(e, q);
    engine_limits_store(e, l);
    return err_none();
}

struct err engine_queue_remove(struct engine *e, struct str name)
{
    struct queue *q = engine_queue_find(e, name);
    if (!q || !q->limits)
        return err_make(ERR_NOT_FOUND, "this queue has no settings");
    uint64_t jobs = 0;
    for (unsigned s = 0; s < STATUS_COUNT; s++)
        if (!lifecycle_is_terminal((enum status)s))
            jobs += q->counts[s];
    if (jobs)
        return err_make(ERR_CONFLICT, "%llu jobs of this queue wait or run",
                        (unsigned long long)jobs);
    q->limits->set.rate = (struct rate){0};
    engine_limits_wake(e, q->limits);
    must(list_is_empty(&q->limits->drawn)); /* it is flushed with the turn that drew */
    e->port.put_queue(e->port.ctx, q->name, NULL);
    engine_limits_free(q->limits);
    q->limits = NULL;
    e->limit_count--;
    engine_queue_drop_if_unused(e, q);
    return err_none();
}

/* --- what applies to a job --- */

struct verdict_rules engine_rules_of(const struct engine *e, const struct queue *q)
{
    struct verdict_rules r = {.defaults = e->settings.retry,
                              .bounds = &e->settings.bounds,
                              .avoid_required = e->settings.avoid_required};
    if (!q || !q->limits)
        return r;
    const struct queue_settings *s = &q->limits->set;
    r.when_no_policy = s->when_no_policy;
    if (s->retry_limit != RETRY_LIMIT_DEFAULT)
        r.defaults.limit = s->retry_limit;
    if (s->backoff.shape != CURVE_NONE) {
        r.defaults.backoff = s->backoff;
        r.defaults.of_queue = true;
    }
    return r;
}

struct verdict_rules engine_queue_rules(const struct engine *e, struct str name)
{
    return engine_rules_of(e, engine_queue_find(e, name));
}

span engine_retention_until(instant until, instant now, span otherwise)
{
    if (until.ms == 0)
        return otherwise;
    return until.ms > now.ms ? instant_diff(until, now) : (span){0};
}

span engine_retention_completed(const struct engine *e, const struct queue *q, span own)
{
    if (own.ms < 0 && q->limits)
        own = q->limits->set.completed_retention;
    return own.ms >= 0 ? own : e->settings.completed_retention;
}

span engine_retention_dead(const struct engine *e, const struct queue *q, span own)
{
    if (own.ms < 0 && q->limits)
        own = q->limits->set.dead_retention;
    return own.ms >= 0 ? own : e->settings.dead_retention;
}
