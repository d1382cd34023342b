/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of a run's time. A worker that hangs may renew its lease for ever, and a stream needs no
 * renewal at all: a run that has a limit ends when that is over, whatever its holder says, as a
 * failure that time is to blame for. Like leases, limits are counted by the steady time. */

#include "base/buf.h"
#include "base/duration.h"
#include "base/must.h"
#include "core/engine_internal.h"

static struct btree_entry entry_of(const struct live *l)
{
    return (struct btree_entry){(uint64_t)l->limit_due.ms, l->id.hi, l->id.lo, 0};
}

static void set_due(struct engine *e, struct live *l, span max, instant due, enum run_limit by)
{
    must(max.ms > 0 && !instant_is_set(l->limit_due));
    l->max_run = max;
    l->limited_by = by;
    l->limit_due = instant_max(due, (instant){0});
    must(btree_put(&e->run_limits, entry_of(l)));
}

void engine_overtime_begin(struct engine *e, instant now, struct live *l, const struct queue *q,
                           span of_worker, struct job_options *o)
{
    const span limits[RUN_LIMITS] = {
        [RUN_LIMIT_JOB] = {(int64_t)o->max_run},
        [RUN_LIMIT_QUEUE] = q->limits ? q->limits->set.max_run : (span){0},
        [RUN_LIMIT_WORKER] = of_worker,
    };
    enum run_limit by = RUN_LIMIT_JOB;
    for (int i = RUN_LIMIT_QUEUE; i < RUN_LIMITS; i++)
        if (limits[i].ms > 0 && (limits[by].ms == 0 || limits[i].ms < limits[by].ms))
            by = (enum run_limit)i;
    if (limits[by].ms == 0)
        return;
    set_due(e, l, limits[by], instant_add(engine_steady(e, now), limits[by]), by);
    o->max_run = (uint64_t)limits[by].ms;
}

void engine_overtime_set(struct engine *e, struct live *l, span max, instant limit,
                         enum run_limit by)
{
    set_due(e, l, max, engine_steady(e, limit), by);
}

instant engine_overtime_at(const struct engine *e, const struct live *l)
{
    return instant_is_set(l->limit_due) ? instant_add(l->limit_due, e->lead) : (instant){0};
}

instant engine_overtime_cut(const struct live *l, instant due)
{
    return instant_is_set(l->limit_due) ? instant_min(due, l->limit_due) : due;
}

instant engine_overtime_ends(const struct engine *e, const struct live *l, instant end)
{
    return instant_is_set(l->limit_due) ? instant_min(end, engine_overtime_at(e, l)) : end;
}

static bool is_over(const struct engine *e, instant now, const struct live *l)
{
    return instant_is_set(l->limit_due) && l->limit_due.ms <= engine_steady(e, now).ms;
}

struct err engine_overtime_check(const struct engine *e, instant now, const struct live *l)
{
    if (!is_over(e, now, l))
        return err_none();
    return err_make(ERR_RUN_LIMIT, "run %u has taken as long as it may: %lld ms", l->run,
                    (long long)l->max_run.ms);
}

void engine_overtime_stale(const struct job_extras *x, struct run_ref ref, struct err *err)
{
    if (ref.token && x->overtime_token == ref.token)
        *err = err_make(ERR_RUN_LIMIT, "the run was ended, since it took longer than max_run_ms "
                                       "allows; nothing was changed");
}

void engine_overtime_drop(struct engine *e, struct live *l)
{
    if (instant_is_set(l->limit_due))
        must(btree_remove(&e->run_limits, entry_of(l), NULL));
    l->limit_due = INSTANT_NONE;
}

static struct str evidence_of(const struct live *l, struct arena *a)
{
    static const char *const whose[RUN_LIMITS] = {
        [RUN_LIMIT_JOB] = "the max_run_ms of the job",
        [RUN_LIMIT_QUEUE] = "the max_run_ms of its queue",
        [RUN_LIMIT_WORKER] = "the max_run_ms of its worker",
    };
    struct buf words = {0};
    buf_lit(&words, "the run took longer than ");
    duration_write(&words, l->max_run);
    buf_print(&words, ", %s", whose[l->limited_by]);
    struct str copy = arena_copy(a, buf_view(&words));
    buf_fini(&words);
    return copy;
}

static struct err end_run(struct engine *e, instant now, struct live *l, struct arena *a)
{
    /* Perhaps nobody got the answer to the claim. */
    if (!l->taker && l->restored && !l->confirmed) {
        engine_return_unconfirmed(e, now, l);
        return err_none();
    }
    struct str evidence = evidence_of(l, a);
    struct failure_report r = {.failure = {.message = evidence,
                                           .error_type = STR("run-limit"),
                                           .run_time = l->max_run,
                                           .condition = CONDITION_DEADLINE_EXCEEDED,
                                           .culprit = CULPRIT_DEADLINE,
                                           .culprit_evidence = evidence},
                               .retry_at = INSTANT_NONE};
    struct job job;
    l->overtime = true;
    return engine_fail_live(e, now, l, &r, a, &job);
}

struct err engine_overtime_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry first;
    struct arena scratch = {0};
    struct err err = err_none();
    int64_t at = engine_steady(e, now).ms;
    while (err.code == ERR_OK && btree_first(&e->run_limits, &first) &&
           (int64_t)first.major <= at) {
        if (*most == 0) {
            *more = true;
            break;
        }
        --*most;
        arena_reset(&scratch);
        err = end_run(e, now, idmap_get(&e->live, (struct id){first.hi, first.lo}), &scratch);
    }
    arena_fini(&scratch);
    return err;
}

bool engine_overtime_next(const struct engine *e, instant *at)
{
    struct btree_entry first;
    if (!btree_first(&e->run_limits, &first))
        return false;
    at->ms = (int64_t)first.major + e->lead.ms;
    return true;
}
