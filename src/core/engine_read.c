/* SPDX-License-Identifier: Apache-2.0 */

/* Reading: a job as it is now, its live run, counts and sizes. */

#include <stdlib.h>

#include "base/must.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"

struct err engine_no_job(struct id id)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    return err_make(
        ERR_NOT_FOUND,
        "there is no job %.25s: it never was, was deleted, or has ended and is no longer "
        "kept (retention)",
        text);
}

struct err engine_read(struct engine *e, instant now, struct id id, bool with_payload,
                       struct arena *a, struct job *job, struct job_extent *extent)
{
    unsigned want = PORT_STATE | (with_payload ? PORT_PAYLOAD : 0);
    struct err err = e->port.load_job(e->port.ctx, id, want, a, job, extent);
    if (err.code == ERR_NOT_FOUND)
        return engine_no_job(id);
    if (err.code != ERR_OK)
        return err;
    engine_gang_read(e, job);
    struct job_state *s = &job->state;
    const struct live *l = idmap_get(&e->live, id);
    if (l) {
        s->status = STATUS_IN_FLIGHT;
        s->extras = l->extras ? job_extras_copy(a, l->extras) : (struct job_extras){0};
        s->dequeued_at = l->taken_at;
        s->runs = l->run + 1;
        if (instant_is_set(l->lease_due)) {
            s->token = l->token;
            s->lease_end = engine_lease_end(e, l);
            s->worker = arena_copy(a, (struct str){l->worker->bytes, l->worker->len});
        }
        extent->runs_ended = l->run;
        return err;
    }
    must(s->status != STATUS_IN_FLIGHT);
    if (lifecycle_is_terminal(s->status) && s->purge_at.ms <= now.ms)
        return engine_no_job(id);
    if (s->status == STATUS_SCHEDULED && s->ready_at.ms <= now.ms)
        s->status = lifecycle_move(STATUS_SCHEDULED, EVENT_DUE);
    else if (s->status == STATUS_READY && s->ready_at.ms > now.ms && !engine_is_in_order(e, job))
        s->status = STATUS_SCHEDULED; /* the clock went back over a restart */
    return err;
}

/* All entries have the major 0, so that of 1 lies behind the last. */
bool engine_next_of(const struct engine *e, enum status s, struct id_place from, bool backwards,
                    struct id *next)
{
    must(s == STATUS_BLOCKED || s == STATUS_IN_FLIGHT || lifecycle_is_terminal(s));
    const struct btree *t = s == STATUS_BLOCKED     ? &e->odd
                            : s == STATUS_IN_FLIGHT ? &e->live_order
                                                    : &e->ended[s == STATUS_DEAD];
    struct btree_entry key = {0, from.id.hi, from.id.lo, 0}, found;
    bool any;
    if (from.set)
        any = backwards ? btree_before(t, key, &found) : btree_after(t, key, &found);
    else if (backwards)
        any = btree_before(t, (struct btree_entry){.major = 1}, &found);
    else
        any = btree_first(t, &found);
    if (any)
        *next = (struct id){found.hi, found.lo};
    return any;
}

static void add_counts(const struct queue *q, uint64_t counts[STATUS_COUNT])
{
    for (int s = 0; s < STATUS_COUNT; s++)
        counts[s] += q->counts[s];
}

void engine_count(const struct engine *e, struct str queue, uint64_t counts[STATUS_COUNT])
{
    memset(counts, 0, STATUS_COUNT * sizeof *counts);
    if (queue.len) {
        const struct queue *q = engine_queue_find(e, queue);
        if (q)
            add_counts(q, counts);
        return;
    }
    memcpy(counts, e->totals, sizeof e->totals);
}

void engine_each_queue(const struct engine *e, void (*each)(void *ctx, struct str name), void *ctx)
{
    const struct queue *q = engine_queue_after(e, (struct str){0});
    for (; q; q = engine_queue_after(e, q->name)) {
        uint64_t jobs = 0;
        for (int s = 0; s < STATUS_COUNT; s++)
            jobs += q->counts[s];
        if (jobs)
            each(ctx, q->name);
    }
}

struct engine_memory engine_memory(const struct engine *e)
{
    return (struct engine_memory){
        .waiting_jobs =
            e->totals[STATUS_READY] + e->totals[STATUS_SCHEDULED] + e->totals[STATUS_BLOCKED],
        .waiting_bytes = e->deadlines.bytes + e->lease_ends.bytes + e->run_limits.bytes +
                         e->end_by.bytes + e->waiting_for.bytes + e->odd.bytes +
                         engine_groups_bytes(e) + engine_budget_bytes(e) + engine_avoid_bytes(e) +
                         engine_keys_bytes(e) + e->order_bytes +
                         e->queue_count * sizeof(struct queue),
        .in_flight_bytes = e->live.count * sizeof(struct live) +
                           e->live.cap * sizeof(struct idmap_slot) + e->live_order.bytes};
}
