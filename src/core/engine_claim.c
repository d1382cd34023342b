/* SPDX-License-Identifier: Apache-2.0 */

/* A claim of one given job. It passes over the jobs before it, but over nothing else that keeps a
 * ready job back: whoever is refused hears what that is. */

#include "base/must.h"
#include "core/engine_internal.h"

/* --- what keeps a ready job back --- */

static struct err check_queue(const struct engine *e, const struct queue *q, const struct job *job)
{
    const struct queue_limits *l = q->limits;
    uint32_t live;
    if (!l)
        return err_none();
    if (l->set.paused)
        return err_make(ERR_UNPROCESSABLE, "the queue of the job is paused");
    if (l->set.concurrency && q->counts[STATUS_IN_FLIGHT] >= l->set.concurrency)
        return err_make(ERR_UNPROCESSABLE,
                        "as many jobs of its queue are in flight as its limit allows: %u",
                        l->set.concurrency);
    if (engine_key_is_full(e, q, job, &live))
        return err_make(ERR_UNPROCESSABLE,
                        "as many jobs with its concurrency key are in flight as the limit of its "
                        "queue allows: %u",
                        l->set.concurrency_per_key);
    if (!engine_limits_allow(l))
        return err_make(ERR_UNPROCESSABLE,
                        "its queue has handed out as many jobs as its rate allows for now");
    return err_none();
}

static struct err check_kept_back(struct engine *e, instant now, const struct queue *q,
                                  const struct job *job, struct str node)
{
    TRY(check_queue(e, q, job));
    if (engine_in_flight_room(e) == 0)
        return err_make(ERR_UNPROCESSABLE, "as many jobs are in flight as the server allows");
    TRY(engine_budget_check_tokens(e, now, job->id));
    if (job->options.gang.len && !job->state.extras.gang_alone)
        return err_make(ERR_UNPROCESSABLE,
                        "the job is a member of a gang, whose members are handed out together");
    if (engine_avoid_forbids(e, job->id, node))
        return err_make(ERR_UNPROCESSABLE, "the job must stay off node '%.*s' for now",
                        STR_ARG(node));
    return err_none();
}

/* --- the claim --- */

/* Of a job of which `next` is the index of the run that would begin. */
static struct err check_index(const struct job_claim *c, uint32_t next)
{
    if (c->any_run || c->run == next)
        return err_none();
    return c->run < next
               ? err_make(ERR_STALE, "run %u of the job is over", c->run)
               : err_make(ERR_STALE, "the next run of the job is run %u, not run %u", next, c->run);
}

static bool is_held_by(const struct live *l, struct str worker)
{
    return instant_is_set(l->lease_due) && worker.len &&
           str_eq((struct str){l->worker->bytes, l->worker->len}, worker);
}

struct err engine_hand_out_again(struct engine *e, instant now, const struct live *l,
                                 struct arena *a, struct handout *h)
{
    struct job_extent extent;
    *h = (struct handout){0};
    TRY(engine_read(e, now, l->id, true, a, &h->job, &extent));
    if (h->job.state.extras.notes & NOTE_BIT(NOTE_CHECKPOINT))
        TRY(e->port.load_note(e->port.ctx, l->id, NOTE_CHECKPOINT, a, &h->checkpoint));
    h->run = l->run;
    h->token = l->token;
    h->lease_end = engine_lease_end(e, l);
    h->job.options.max_run = (uint64_t)l->max_run.ms;
    engine_trace_handout(e, a, h);
    return err_none();
}

static struct err check_is_ours(const struct live *l, const struct job_claim *c)
{
    if (!c->any_run && c->run != l->run)
        return err_make(ERR_STALE, "the job is in run %u, not in run %u", l->run, c->run);
    if (!is_held_by(l, c->worker))
        return err_make(ERR_CONFLICT, "run %u of the job is held by another worker", l->run);
    return err_none();
}

/* A ready job may still be among the deadlines, or parked although its key has room by now. */
static void bring_into_order(struct engine *e, instant now, struct queue *q, const struct job *job,
                             bool has_state)
{
    bool parked = engine_key_unpark(e, q, job);
    if (!parked && engine_is_in_order(e, job))
        return;
    if (!parked)
        must(engine_forget(e, now, q, job) == STATUS_READY);
    engine_ready_add(e, q, engine_rank(&job->state), job->id, engine_val(job, has_state));
}

static struct err begin(struct engine *e, instant now, const struct job_claim *c,
                        const struct job *job, const struct job_extent *extent, struct arena *a,
                        struct handout *h)
{
    struct queue *q = engine_queue_find(e, job->queue);
    must(q);
    TRY(check_kept_back(e, now, q, job, c->node));
    bring_into_order(e, now, q, job, extent->has_state);
    struct taker t = {
        .claim = true, .kind = job_kind(job), .lease = c->lease, .max_run = c->max_run};
    struct btree_entry entry = {engine_rank(&job->state), job->id.hi, job->id.lo,
                                extent->has_state ? READY_VAL_STATE : 0};
    t.worker = engine_worker_ref(e, c->worker);
    t.node = engine_worker_ref(e, c->node);
    struct err err = engine_run_begin(e, now, a, &t, q, entry, h);
    engine_limits_flush(e);
    if (err.code == ERR_OK)
        h->job.state.worker =
            arena_copy(a, c->worker); /* the run may end before the reply leaves */
    engine_worker_unref(e, t.worker);
    engine_worker_unref(e, t.node);
    return err;
}

struct err engine_claim_job(struct engine *e, instant now, const struct job_claim *c,
                            struct arena *a, struct handout *h, bool *repeated)
{
    must(c->lease.ms > 0);
    struct live *l = idmap_get(&e->live, c->id);
    struct job job;
    struct job_extent extent;
    *h = (struct handout){0};
    *repeated = false;
    if (l && l->taker && !list_is_empty(&l->taker->gone)) {
        engine_lose(e, now, l); /* whose turn only has not come yet */
        l = NULL;
    }
    if (l) {
        TRY(check_is_ours(l, c));
        TRY(engine_hand_out_again(e, now, l, a, h));
        *repeated = true;
        return err_none();
    }
    TRY(engine_read(e, now, c->id, false, a, &job, &extent));
    TRY(check_index(c, job.state.runs));
    if (job.state.status != STATUS_READY)
        return err_make(ERR_CONFLICT, "the job is %s, not ready",
                        lifecycle_status_name(job.state.status));
    return begin(e, now, c, &job, &extent, a, h);
}
