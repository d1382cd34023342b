/* SPDX-License-Identifier: Apache-2.0 */

/* Completed jobs that only the server's default retention keeps: of these the newest are kept, a
 * limited number of them. While there are more, the oldest go before their time. */

#include "base/must.h"
#include "core/engine_internal.h"

/* A job that holds a key or an alias for as long as it exists is left alone, for otherwise whether
 * the next one with that key is a duplicate would depend on how busy the server is. */
bool engine_surplus_may_be(const struct engine *e, const struct queue *q, span own, instant until,
                           struct unique_ref u)
{
    bool by_default =
        own.ms < 0 && until.ms == 0 && (!q->limits || q->limits->set.completed_retention.ms < 0);
    return e->settings.completed_kept_max && by_default && u.scope != UNIQUE_EXISTS && !u.aliased;
}

bool engine_surplus_has(const struct engine *e, const struct queue *q, const struct job *job)
{
    return job->state.status == STATUS_COMPLETED &&
           engine_surplus_may_be(e, q, job->completed_retention, job->options.retain_until,
                                 engine_unique_ref(e, job));
}

void engine_surplus_add(struct engine *e, instant purge_at, struct id id, const struct queue *q)
{
    must(btree_put(&e->surplus,
                   (struct btree_entry){(uint64_t)purge_at.ms, id.hi, id.lo, q->index}));
}

void engine_surplus_remove(struct engine *e, instant purge_at, struct id id)
{
    struct btree_entry key = {(uint64_t)purge_at.ms, id.hi, id.lo, 0};
    btree_remove(&e->surplus, key, NULL);
}

bool engine_surplus_is_due(const struct engine *e)
{
    uint64_t most = e->settings.completed_kept_max;
    return most && e->surplus.count > most;
}

struct err engine_surplus_trim(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry oldest;
    for (; engine_surplus_is_due(e); (*most)--) {
        if (*most == 0) {
            *more = true;
            return err_none();
        }
        must(btree_first(&e->surplus, &oldest));
        struct id id = {oldest.hi, oldest.lo};
        instant purge_at = {(int64_t)oldest.major};
        engine_deadline_remove(e, purge_at, id);
        engine_surplus_remove(e, purge_at, id);
        TRY(engine_purge(e, now, id, e->queues[oldest.val]));
    }
    return err_none();
}
