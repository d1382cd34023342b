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

/* --- what is known of one without reading it --- */

/* In the val of an entry, beside the queue. A plain job has nothing that its records would have to
 * be read for when it goes: no key, group, note or trace. Of others only the queue is known. */
#define PLAIN               ((uint64_t)1 << 63)
#define APART               ((uint64_t)1 << 62)
#define QUEUE_BITS          24
#define TYPE_BITS           11
#define RUNS_BITS           8
#define PART(val, at, bits) (((val) >> (at)) & ((1u << (bits)) - 1))
#define TYPE_AT             QUEUE_BITS
#define RUNS_AT             (TYPE_AT + TYPE_BITS)
#define PRIORITY_AT         (RUNS_AT + RUNS_BITS)
#define PRIORITY_BITS       16

_Static_assert(TYPES_MAX < 1 << TYPE_BITS && PRIORITY_AT + PRIORITY_BITS <= 62, "all of it fits");

static bool is_plain(const struct live *l)
{
    const struct unique_ref *u = &l->unique;
    return !u->scope && !u->aliased && !u->maker && !l->member_of && !l->trace && l->type &&
           !(l->extras && l->extras->notes) && l->run + 1 < 1u << RUNS_BITS &&
           l->queue->index < 1u << QUEUE_BITS;
}

uint64_t engine_surplus_val(const struct live *l)
{
    if (!is_plain(l))
        return l->queue->index;
    return PLAIN | (l->payload_apart ? APART : 0) | (uint64_t)l->priority << PRIORITY_AT |
           (uint64_t)(l->run + 1) << RUNS_AT | (uint64_t)l->type << TYPE_AT | l->queue->index;
}

/* Purges it by what its entry says. */
static void purge_plain(struct engine *e, instant now, struct id id, uint64_t val)
{
    struct queue *q = e->queues[PART(val, 0, QUEUE_BITS)];
    uint32_t runs = PART(val, RUNS_AT, RUNS_BITS);
    struct job job = {.id = id, .queue = q->name, .type = e->types[PART(val, TYPE_AT, TYPE_BITS)]};
    job.state.status = STATUS_COMPLETED;
    job.state.runs = runs;
    job.state.priority = (uint16_t)PART(val, PRIORITY_AT, PRIORITY_BITS);
    struct job_extent extent = {
        .has_state = true, .payload_apart = val & APART, .runs_ended = runs};
    engine_purge_known(e, now, q, &job, &extent);
}

/* --- the order --- */

void engine_surplus_add(struct engine *e, instant purge_at, struct id id, uint64_t val)
{
    must(btree_put(&e->surplus, (struct btree_entry){(uint64_t)purge_at.ms, id.hi, id.lo, val}));
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

struct err engine_trim(struct engine *e, instant now, size_t most, bool *more)
{
    *more = false;
    return engine_surplus_trim(e, now, &most, more);
}

/* One that must be read first counts as several. */
#define READ_COST 4

struct err engine_surplus_trim(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry oldest;
    while (engine_surplus_is_due(e)) {
        if (*most == 0) {
            *more = true;
            return err_none();
        }
        must(btree_first(&e->surplus, &oldest));
        struct id id = {oldest.hi, oldest.lo};
        instant purge_at = {(int64_t)oldest.major};
        engine_deadline_remove(e, purge_at, id);
        engine_surplus_remove(e, purge_at, id);
        size_t cost = oldest.val & PLAIN ? 1 : READ_COST;
        *most -= cost < *most ? cost : *most;
        if (oldest.val & PLAIN)
            purge_plain(e, now, id, oldest.val);
        else
            TRY(engine_purge(e, now, id, e->queues[oldest.val]));
    }
    return err_none();
}
