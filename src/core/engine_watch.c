/* SPDX-License-Identifier: Apache-2.0 */

/* What operators watch of each queue. It is asked for once in a while, so little is kept for it. */

#include "core/engine_budget_internal.h"

/* The ready order is one of ranks, of which there are few; within a rank the first is mostly the
 * oldest. Of more than so many the rest is left out. */
#define RANKS_MAX 16
#define LINES_MAX 1000

static instant ready_since(struct engine *e, instant now, struct id id, struct arena *a)
{
    struct job job;
    struct job_extent extent;
    if (engine_read(e, now, id, false, a, &job, &extent).code != ERR_OK)
        return now;
    return instant_max(job.state.ready_at, id_time(id));
}

static instant oldest_in(struct engine *e, instant now, const struct btree *ready, struct arena *a,
                         unsigned *reads)
{
    struct btree_entry at;
    instant oldest = INSTANT_NONE;
    bool more = btree_first(ready, &at);
    for (int i = 0; more && i<RANKS_MAX && * reads> 0; i++, --*reads) {
        instant t = ready_since(e, now, (struct id){at.hi, at.lo}, a);
        if (!instant_is_set(oldest) || t.ms < oldest.ms)
            oldest = t;
        at.hi = at.lo = UINT64_MAX;
        more = btree_after(ready, at, &at);
    }
    return oldest;
}

/* Of lines only those of tasks, of which a queue has no more than two. */
static instant oldest_ready(struct engine *e, instant now, const struct queue *q, struct arena *a,
                            unsigned *reads)
{
    instant oldest = oldest_in(e, now, &q->ready, a, reads);
    const struct list *n = q->lines.next;
    for (int i = 0; i < LINES_MAX && n != &q->lines; i++, n = n->next) {
        const struct line *l = LIST_OF(n, const struct line, node);
        instant t = engine_line_is_tasks(l) ? oldest_in(e, now, &l->ready, a, reads) : oldest;
        if (instant_is_set(t) && (!instant_is_set(oldest) || t.ms < oldest.ms))
            oldest = t;
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
