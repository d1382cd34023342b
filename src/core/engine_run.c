/* SPDX-License-Identifier: Apache-2.0 */

/* A run as a value: the live one, and what is recorded of it at its end. */

#include "core/engine_internal.h"

/* Its ready_at may lie before the end of an earlier run, or, by a patch, after the beginning of
 * this one. */
instant engine_ready_since(const struct job *job, instant taken_at)
{
    const struct job_state *s = &job->state;
    instant at = instant_max(s->ready_at, id_time(job->id));
    at = instant_max(at, s->failed_at);
    at = instant_max(at, s->extras.returned_at);
    return at.ms <= taken_at.ms ? at : INSTANT_NONE;
}

struct run engine_run_of(const struct engine *e, const struct live *l, instant ended_at,
                         enum outcome outcome, struct str reason)
{
    return (struct run){
        .index = l->run,
        .worker = {l->worker->bytes, l->worker->len},
        .ready_at = l->ready_since,
        .taken_at = l->taken_at,
        .lease_end = engine_lease_end(e, l),
        .ended_at = ended_at,
        .outcome = outcome,
        .retry_at = INSTANT_NONE,
        .reason = reason,
        .failure = {.run_time = {-1}, .node = l->extras ? l->extras->node : (struct str){0}},
    };
}

bool engine_live_run(const struct engine *e, struct id id, struct run *run, uint64_t *token)
{
    const struct live *l = idmap_get(&e->live, id);
    if (!l)
        return false;
    *run = engine_run_of(e, l, INSTANT_NONE, OUTCOME_RUNNING, (struct str){0});
    *token = l->token;
    return true;
}

void engine_each_live(const struct engine *e,
                      void (*each)(void *ctx, struct id id, struct str queue, struct str worker),
                      void *ctx)
{
    for (size_t i = 0; i < e->live.cap; i++) {
        const struct live *l = e->live.slots[i].val;
        if (l)
            each(ctx, l->id, l->queue->name, (struct str){l->worker->bytes, l->worker->len});
    }
}
