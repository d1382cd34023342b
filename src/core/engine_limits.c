/* SPDX-License-Identifier: Apache-2.0 */

/* What people set for queues: pause, limits, and defaults of their jobs. A queue that may hand
 * out nothing has no head (engine_queue.c), so nobody looks at it. It gets one again when
 * what held it back is over: a job in flight ends, the deadline of the next token comes, or the
 * settings change. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* Among the deadlines there are ids of jobs and, with hi 0 and 1, those of other things. */
static struct id wake_key(const struct queue *q)
{
    return (struct id){2, q->index};
}

static uint64_t free_slots(const struct queue_limits *l)
{
    uint64_t most = l->set.concurrency, used = l->queue->counts[STATUS_IN_FLIGHT];
    if (most == 0)
        return UINT64_MAX;
    return used < most ? most - used : 0;
}

uint64_t engine_limits_room(const struct queue_limits *l)
{
    if (l->set.paused)
        return 0;
    uint64_t room = free_slots(l);
    if (!rate_is_set(&l->set.rate))
        return room;
    uint64_t tokens = (uint64_t)bucket_tokens(&l->bucket, &l->set.rate);
    return tokens < room ? tokens : room;
}

uint64_t engine_limits_gang_room(const struct queue_limits *l, uint64_t others)
{
    return engine_limits_room(l) > others ? free_slots(l) - others : 0;
}

bool engine_limits_allow(const struct queue_limits *l)
{
    return engine_limits_room(l) > 0;
}

/* --- the rate --- */

/* The deadline is there exactly while there is no token, whether or not jobs wait: so a job that
 * comes needs no clock to know whether it may go. */
static void set_wake(struct engine *e, struct queue_limits *l)
{
    if (instant_is_set(l->wake))
        engine_deadline_remove(e, l->wake, wake_key(l->queue));
    l->wake = INSTANT_NONE;
    if (!rate_is_set(&l->set.rate) || bucket_tokens(&l->bucket, &l->set.rate) > 0)
        return;
    l->wake = bucket_next(&l->bucket, &l->set.rate);
    engine_deadline_add(e, l->wake, wake_key(l->queue), DUE_VAL(DUE_RATE, 0, 0, l->queue->index));
}

void engine_limits_draw(struct engine *e, instant now, struct queue_limits *l)
{
    if (!rate_is_set(&l->set.rate))
        return;
    bucket_refill(&l->bucket, &l->set.rate, now);
    if (bucket_tokens(&l->bucket, &l->set.rate) > 0) /* or a gang has taken them all */
        bucket_take(&l->bucket, &l->set.rate);
    set_wake(e, l);
    if (list_is_empty(&l->spent))
        list_append(&e->spent, &l->spent);
}

void engine_limits_due(struct engine *e, instant now, struct queue *q)
{
    struct queue_limits *l = q->limits;
    must(l && instant_is_set(l->wake));
    l->wake = INSTANT_NONE; /* it has just fired */
    bucket_refill(&l->bucket, &l->set.rate, now);
    set_wake(e, l);
    engine_queue_refresh(e, q);
    engine_gangs_limits(e, q);
}

static void store(struct engine *e, const struct queue_limits *l)
{
    struct queue_record record = {l->set, l->bucket};
    e->port.put_queue(e->port.ctx, l->queue->name, &record);
}

void engine_limits_flush(struct engine *e)
{
    while (!list_is_empty(&e->spent)) {
        struct queue_limits *l = LIST_OF(e->spent.next, struct queue_limits, spent);
        list_unlink(&l->spent);
        store(e, l);
    }
}

/* --- settings --- */

static struct queue_limits *limits_new(struct engine *e, struct queue *q)
{
    struct queue_limits *l = ALLOC(struct queue_limits);
    l->set = QUEUE_SETTINGS_DEFAULT;
    l->wake = INSTANT_NONE;
    l->queue = q;
    list_init(&l->spent);
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
    set_wake(e, l);
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
    set_wake(e, l);
    engine_queue_refresh(e, q);
    engine_gangs_limits(e, q);
    store(e, l);
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
    set_wake(e, q->limits);
    must(list_is_empty(&q->limits->spent)); /* it is flushed with the turn that drew */
    e->port.put_queue(e->port.ctx, q->name, NULL);
    engine_limits_free(q->limits);
    q->limits = NULL;
    e->limit_count--;
    engine_queue_drop_if_unused(e, q);
    return err_none();
}

void engine_limits_check(const struct queue *q)
{
    const struct queue_limits *l = q->limits;
    if (!l)
        return;
    bool has_rate = rate_is_set(&l->set.rate);
    must(l->queue == q && list_is_empty(&l->spent));
    must(instant_is_set(l->wake) == (has_rate && bucket_tokens(&l->bucket, &l->set.rate) == 0));
    must(!has_rate || l->bucket.level <= (int64_t)l->set.rate.burst * l->set.rate.per.ms);
}

/* --- what applies to a job --- */

struct verdict_rules engine_limits_rules(const struct engine *e, const struct queue *q)
{
    struct verdict_rules r = {.defaults = e->settings.retry,
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
    return engine_limits_rules(e, engine_queue_find(e, name));
}

span engine_limits_completed(const struct engine *e, const struct queue *q, span own)
{
    if (own.ms < 0 && q->limits)
        own = q->limits->set.completed_retention;
    if (own.ms >= 0)
        return own;
    uint64_t most = e->settings.completed_kept_max;
    bool full = most && e->totals[STATUS_COMPLETED] >= most;
    return full ? (span){0} : e->settings.completed_retention;
}

span engine_limits_dead(const struct engine *e, const struct queue *q, span own)
{
    if (own.ms < 0 && q->limits)
        own = q->limits->set.dead_retention;
    return own.ms >= 0 ? own : e->settings.dead_retention;
}

/* --- reading --- */

/* The lowest id of all: the first one of each rank (and key) is a candidate. */
static struct id oldest_of(const struct btree *t)
{
    struct id oldest = {0};
    struct btree_entry key = {0}, found;
    while (btree_at_least(t, key, &found)) {
        struct id id = {found.hi, found.lo};
        if (id_is_none(oldest) || id_cmp(id, oldest) < 0)
            oldest = id;
        key.major = found.major + 1;
    }
    return oldest;
}

static struct id older(struct id a, struct id b)
{
    if (id_is_none(a) || id_is_none(b))
        return id_is_none(a) ? b : a;
    return id_cmp(a, b) < 0 ? a : b;
}

static void view_of(const struct queue *q, instant now, struct queue_view *v)
{
    memcpy(v->counts, q->counts, sizeof v->counts);
    v->configured = q->limits != NULL;
    if (q->limits)
        v->settings = q->limits->set;
    struct id oldest = older(oldest_of(&q->ready), oldest_of(&q->parked));
    if (!id_is_none(oldest))
        v->oldest_age = instant_diff(instant_max(now, id_time(oldest)), id_time(oldest));
}

void engine_queue_view(const struct engine *e, instant now, struct str name, struct queue_view *v)
{
    const struct queue *q = engine_queue_find(e, name);
    *v = (struct queue_view){.name = name, .settings = QUEUE_SETTINGS_DEFAULT, .oldest_age = {-1}};
    if (q)
        view_of(q, now, v);
}

static bool is_shown(const struct queue *q)
{
    uint64_t jobs = 0;
    for (int s = 0; s < STATUS_COUNT; s++)
        jobs += q->counts[s];
    return jobs > 0 || q->limits;
}

static int compare_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

size_t engine_queue_page(const struct engine *e, instant now, struct str from, size_t limit,
                         struct arena *a, struct queue_view **views, bool *more)
{
    struct str *names = arena_get(a, (e->queue_count + 1) * sizeof *names);
    size_t n = 0;
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        const struct queue *q = e->queues[i];
        if (q && is_shown(q) && (from.len == 0 || str_cmp(q->name, from) > 0))
            names[n++] = q->name;
    }
    qsort(names, n, sizeof *names, compare_names);
    *more = n > limit;
    n = *more ? limit : n;
    *views = arena_get(a, (n + 1) * sizeof **views);
    for (size_t i = 0; i < n; i++)
        engine_queue_view(e, now, arena_copy(a, names[i]), &(*views)[i]);
    return n;
}
