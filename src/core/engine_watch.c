/* SPDX-License-Identifier: Apache-2.0 */

/* What operators watch of each queue. It is asked for once in a while, so little is kept for it. */

#include "core/engine_internal.h"

/* The ready order is one of ranks, of which there are few; within a rank the first is mostly the
 * oldest. Of more than so many the rest is left out. */
#define RANKS_MAX 16

static instant ready_since(struct engine *e, instant now, struct id id, struct arena *a)
{
    struct job job;
    struct job_extent extent;
    if (engine_read(e, now, id, false, a, &job, &extent).code != ERR_OK)
        return now;
    return instant_max(job.state.ready_at, id_time(id));
}

static instant oldest_ready(struct engine *e, instant now, const struct queue *q, struct arena *a,
                            unsigned *reads)
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

bool engine_watch(struct engine *e, instant now, struct str name, unsigned *reads,
                  struct queue_watch *w)
{
    const struct queue *q = engine_queue_find(e, name);
    if (!q)
        return false;
    struct arena a = {0};
    *w = (struct queue_watch){.name = q->name,
                              .counts = q->counts,
                              .paused = q->limits && q->limits->set.paused,
                              .concurrency = q->limits ? q->limits->set.concurrency : 0,
                              .oldest_ready = oldest_ready(e, now, q, &a, reads)};
    arena_fini(&a);
    return true;
}
