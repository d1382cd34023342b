/* SPDX-License-Identifier: Apache-2.0 */

/* How many jobs a queue may hand out. A queue that may hand out nothing has no head
 * (engine_order.c), so nobody looks at it. It gets one again when what held it back is over: a job
 * in flight ends, the deadline of the next token comes, or the settings change. */

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
void engine_limits_wake(struct engine *e, struct queue_limits *l)
{
    if (instant_is_set(l->wake))
        engine_deadline_remove(e, l->wake, wake_key(l->queue));
    l->wake = INSTANT_NONE;
    if (!rate_is_set(&l->set.rate) || bucket_tokens(&l->bucket, &l->set.rate) > 0)
        return;
    l->wake = bucket_next(&l->bucket, &l->set.rate, 1);
    engine_deadline_add(e, l->wake, wake_key(l->queue), DUE_VAL(DUE_RATE, 0, 0, l->queue->index));
}

void engine_limits_draw(struct engine *e, instant now, struct queue_limits *l)
{
    if (!rate_is_set(&l->set.rate))
        return;
    bucket_refill(&l->bucket, &l->set.rate, now);
    if (bucket_tokens(&l->bucket, &l->set.rate) > 0) /* or a gang has taken them all */
        bucket_take(&l->bucket, &l->set.rate, 1);
    engine_limits_wake(e, l);
    if (list_is_empty(&l->drawn))
        list_append(&e->drawn, &l->drawn);
}

void engine_limits_due(struct engine *e, instant now, struct queue *q)
{
    struct queue_limits *l = q->limits;
    must(l && instant_is_set(l->wake));
    l->wake = INSTANT_NONE; /* it has just fired */
    bucket_refill(&l->bucket, &l->set.rate, now);
    engine_limits_wake(e, l);
    engine_queue_refresh(e, q);
    engine_gangs_limits(e, q);
}

void engine_limits_store(struct engine *e, const struct queue_limits *l)
{
    struct queue_record record = {l->set, l->bucket};
    e->port.put_queue(e->port.ctx, l->queue->name, &record);
}

void engine_limits_flush(struct engine *e)
{
    while (!list_is_empty(&e->drawn)) {
        struct queue_limits *l = LIST_OF(e->drawn.next, struct queue_limits, drawn);
        list_unlink(&l->drawn);
        engine_limits_store(e, l);
    }
}

/* --- the check --- */

void engine_limits_check(const struct queue *q)
{
    const struct queue_limits *l = q->limits;
    if (!l)
        return;
    bool has_rate = rate_is_set(&l->set.rate);
    must(l->queue == q && list_is_empty(&l->drawn));
    must(instant_is_set(l->wake) == (has_rate && bucket_tokens(&l->bucket, &l->set.rate) == 0));
    must(!has_rate || l->bucket.level <= (int64_t)l->set.rate.burst * l->set.rate.per.ms);
}
