/* SPDX-License-Identifier: Apache-2.0 */

/* What operators watch of each queue. It is asked for once in a while, so little is kept for it. */

#include "core/engine_internal.h"

/* The ready order is one of ranks, of which there are few; within a rank the first is mostly the
 * oldest. Of more than so many the rest is left out. */
#define RANKS_MAX 16

/* Jobs that are read at a time: some ten milliseconds of work. Queues that come after are not
 * looked into. */
#define READS_MAX 1000

static instant ready_since(struct engine *e, instant now, struct id id, struct arena *a)
{
    struct job job;
    struct job_extent extent;
    if (engine_read(e, now, id, false, a, &job, &extent).code != ERR_OK)
        return now;
    return instant_max(job.state.ready_at, id_time(id));
}

static instant oldest_ready(struct engine *e, instant now, const struct queue *q, struct arena *a,
                            int *reads)
{
    struct btree_entry at;
    instant oldest = INSTANT_NONE;
    bool more = btree_first(&q->ready, &at);
    for (int i = 0; more && i<RANKS_MAX && * reads> 0; i++, --*reads) {
        instant t = ready_since(e, now, (struct id){at.hi, at.lo}, a);
        if (!instant_is_set(oldest) || t.ms < oldest.ms)
            oldest = t;
        at.hi = at.lo = UINT64_MAX;
        more = btree_after(&q->ready, at, &at);
    }
    return oldest;
}

void engine_watch(struct engine *e, instant now,
                  void (*each)(void *ctx, const struct queue_watch *w), void *ctx)
{
    struct arena a = {0};
    int reads = READS_MAX;
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        const struct queue *q = e->queues[i];
        if (!q)
            continue;
        struct queue_watch w = {.name = q->name,
                                .counts = q->counts,
                                .paused = q->limits && q->limits->set.paused,
                                .concurrency = q->limits ? q->limits->set.concurrency : 0,
                                .oldest_ready = oldest_ready(e, now, q, &a, &reads)};
        each(ctx, &w);
        arena_reset(&a);
    }
    arena_fini(&a);
}
