/* SPDX-License-Identifier: Apache-2.0 */

/* What workers report of their runs, and what ends a run without a report. */

#include <stdio.h>

#include "base/must.h"
#include "base/utf8.h"
#include "core/builtin_category.h"
#include "core/categorize.h"
#include "core/culprit.h"
#include "core/engine_grace.h"
#include "core/engine_internal.h"
#include "core/history.h"
#include "core/job_fields.h"
#include "core/verdict.h"

/* Of what a holder says when it gives a job back: the rest of the reason has room beside it. */
#define WHY_MAX           400
#define RETURN_REASON_MAX (RETRY_REASON_MAX + WHY_MAX)

/* So many claims in a row that nobody confirmed are free where lost workers have no limit. */
#define UNCONFIRMED_MAX 6

static bool is_indexed(struct run_ref ref, const struct live *l)
{
    return !ref.by_index || ref.index == l->run;
}

static bool is_named(struct run_ref ref, const struct live *l)
{
    return (ref.token == 0 || ref.token == l->token) && is_indexed(ref, l);
}

/* A claim hands out a token, so a report without one may be of anybody's run. The worker of a
 * stream may be one that knows no tokens: what is reported without one while it has the job is
 * taken for its word, unless the report names another worker. So is a job in a list of ids as long
 * as it is in its first run: there is no other that could be meant. */
static struct err check_reporter(struct run_ref ref, const struct live *l, const char *job)
{
    if (ref.token || ref.vouched)
        return err_none();
    if (!l->taker && !(ref.listed && l->run == 0))
        return err_make(ERR_RUN_TOKEN,
                        "job %.25s is leased: a report of its run needs the token that the answer "
                        "to its claim has as 'token'",
                        job);
    struct str holder = {l->worker->bytes, l->worker->len};
    if (ref.worker.len && holder.len && !str_eq(ref.worker, holder))
        return err_make(ERR_STALE,
                        "job %.25s is in run %u, which another worker has; a report without its "
                        "token is not of this run",
                        job, l->run);
    return err_none();
}

static void say_why_stale(const struct job_extras *x, struct run_ref ref, struct err *err)
{
    engine_gang_stale(x, ref, err);
    engine_overtime_stale(x, ref, err);
}

/* The live run that a report is about.
 *
 * The token is checked before anything else: a worker whose lease ran out must hear
 * "stale" even when the job is completed by now, or it would believe that its own
 * result was the one recorded. */
struct err engine_find_run(struct engine *e, instant now, struct run_ref ref, struct live **out)
{
    struct live *l = idmap_get(&e->live, ref.id);
    if (l && l->taker && !list_is_empty(&l->taker->gone)) {
        engine_lose(e, now, l); /* whose turn only has not come yet */
        l = NULL;
    }
    char text[ID_TEXT_LEN];
    id_format(ref.id, text);
    if (l && is_named(ref, l)) {
        *out = l;
        return check_reporter(ref, l, text);
    }
    if (l) {
        struct err err = is_indexed(ref, l)
                             ? err_make(ERR_STALE,
                                        "job %.25s has run %u by now; this token is of an earlier "
                                        "one",
                                        text, l->run)
                             : err_make(ERR_STALE, "job %.25s is in run %u, not in run %u", text,
                                        l->run, ref.index);
        if (l->extras)
            say_why_stale(l->extras, ref, &err);
        return err;
    }
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err found = engine_read(e, now, ref.id, false, &scratch, &job, &extent);
    if (found.code == ERR_OK)
        say_why_stale(&job.state.extras, ref, &found);
    arena_fini(&scratch);
    if (found.code != ERR_OK)
        return found;
    if (ref.token)
        return err_make(ERR_STALE, "the run of job %.25s with this token is over; the job is %s",
                        text, lifecycle_status_name(job.state.status));
    if (ref.by_index)
        return err_make(ERR_STALE, "run %u of job %.25s is not in flight; the job is %s", ref.index,
                        text, lifecycle_status_name(job.state.status));
    return err_make(ERR_NOT_IN_FLIGHT, "job %.25s is not in flight; it is %s", text,
                    lifecycle_status_name(job.state.status));
}

/* The state of a live job as it would be stored, except for what the caller changes. */
static struct job_state state_of(const struct live *l)
{
    struct job_extras extras = {0};
    if (l->extras)
        extras = *l->extras;
    extras.returned_at = (instant){0};
    return (struct job_state){
        .status = STATUS_IN_FLIGHT,
        .priority = l->priority,
        .ready_at = l->ready_at,
        .dequeued_at = l->taken_at,
        .failed_at = l->failed_at,
        .completed_at = INSTANT_NONE,
        .purge_at = INSTANT_NONE,
        .attempts = l->attempts,
        .forgiven = l->forgiven,
        .runs = l->run + 1,
        .losses = l->losses,
        .lease_end = INSTANT_NONE,
        .extras = extras,
    };
}

static void blame(struct run *run, enum culprit culprit, struct str evidence)
{
    run->failure.culprit = culprit;
    run->failure.culprit_evidence = evidence;
}

static struct job_extent extent_of(const struct live *l)
{
    return (struct job_extent){.has_state = l->has_state,
                               .payload_apart = l->payload_apart,
                               .runs_ended = l->run,
                               .notes = l->extras ? l->extras->notes : 0};
}

static void announce(struct engine *e, instant now, const struct live *l, enum event event,
                     const struct run *run, const struct job_state *s, const struct ruling *ruling,
                     bool removed)
{
    struct job_event ev = engine_live_event(e, event, l);
    ev.reason = s->reason;
    ev.lost = run->outcome == OUTCOME_LOST;
    ev.expired = run->outcome == OUTCOME_EXPIRED;
    ev.ended = run;
    if (event == EVENT_RETRY || event == EVENT_RETRY_NOW)
        ev.ready_at = s->ready_at;
    if (ruling)
        ev.ruling = *ruling;
    ev.removed = removed;
    engine_changed(e, now, &ev);
}

/* Ends the job for good: kept until its retention is over, which its retain_until may say instead,
 * or gone at once. */
static void finish(struct engine *e, instant now, struct live *l, enum event event,
                   struct job_state *s, const struct run *run, const struct ruling *ruling,
                   span retention)
{
    s->status = lifecycle_move(STATUS_IN_FLIGHT, event);
    must(lifecycle_is_terminal(s->status));
    retention = engine_retention_until(l->retain_until, now, retention);
    announce(e, now, l, event, run, s, ruling, retention.ms <= 0);
    engine_depend_ended(e, l->id,
                        s->status == STATUS_COMPLETED ? DEPEND_COMPLETED
                        : retention.ms > 0            ? DEPEND_DEAD
                                                      : DEPEND_GONE);
    struct id id = l->id;
    struct queue *q = l->queue;
    struct job_extent extent = extent_of(l);
    engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT,
                       retention.ms > 0 ? s->status : STATUS_GONE);
    if (retention.ms > 0) {
        bool surplus =
            s->status == STATUS_COMPLETED &&
            engine_surplus_may_be(e, q, l->completed_retention, l->retain_until, l->unique);
        s->purge_at = instant_add(now, retention);
        e->port.put_run(e->port.ctx, id, run);
        if (l->has_state)
            e->port.put_state(e->port.ctx, id, s);
        else
            e->port.put_first_state(e->port.ctx, id, s);
        engine_crew_measure(l, now);
        uint64_t val = surplus ? engine_surplus_val(l) : SURPLUS_NOT;
        engine_live_end(e, l);
        engine_ended_add(e, s->status, id, s->purge_at, q, val);
        return;
    }
    e->port.delete_job(e->port.ctx, id, &extent);
    engine_crew_measure(l, now);
    engine_live_end(e, l);
    engine_queue_drop_if_unused(e, q);
}

void engine_abort_run(struct engine *e, instant now, struct live *l, struct job_state *s,
                      const struct run_abort *how)
{
    struct job_state changed = state_of(l);
    changed.resolution = how->resolution;
    changed.reason = s->reason;
    /* As long as the caller's, unlike what the run holds. */
    changed.extras = s->extras;
    changed.extras.returned_at = now;
    struct run run = engine_run_of(e, l, now, how->outcome, s->reason);
    if (how->outcome == OUTCOME_DEADLINE)
        blame(&run, CULPRIT_DEADLINE, STR(DEADLINE_EVIDENCE));
    if (how->outcome == OUTCOME_GANG)
        blame(&run, CULPRIT_GANG, s->reason);
    span retention = engine_retention_dead(e, l->queue, l->dead_retention);
    finish(e, now, l, how->event, &changed, &run, NULL, retention);
    *s = changed;
}

bool engine_is_repeated(struct engine *e, instant now, struct run_ref ref, enum outcome outcome,
                        struct arena *a, struct job *job)
{
    const struct live *l = idmap_get(&e->live, ref.id);
    struct job_extent extent;
    if (ref.token == 0 || (l && l->token == ref.token))
        return false;
    if (engine_read(e, now, ref.id, false, a, job, &extent).code != ERR_OK)
        return false;
    const struct job_extras *x = &job->state.extras;
    return x->reported_token == ref.token && x->reported_outcome == outcome;
}

/* The job of a run, without its payload; its state is the run's to say. */
static struct err load_record(struct engine *e, const struct live *l, struct arena *a,
                              struct job *job)
{
    struct job_extent extent;
    return e->port.load_job(e->port.ctx, l->id, l->has_state ? PORT_STATE : 0, a, job, &extent);
}

/* The history says of the failures before that they were got over. */
static void note_success(struct engine *e, instant now, const struct live *l)
{
    if (!e->port.put_history || l->attempts == 0)
        return;
    struct history_entry entry = {.succeeded = true, .run.ended_at = now};
    struct arena scratch = {0};
    struct job stored, *job = &entry.job;
    job->id = l->id;
    job->queue = l->queue->name;
    job->type = e->types[l->type];
    job->state.attempts = l->attempts;
    if (job->type.len == 0 && load_record(e, l, &scratch, &stored).code == ERR_OK)
        job->type = stored.type;
    e->port.put_history(e->port.ctx, &entry);
    arena_fini(&scratch);
}

static void note_failure(struct engine *e, const struct job *job, const struct run *run)
{
    if (!e->port.put_history)
        return;
    struct history_entry entry = {.job = *job, .run = *run};
    entry.job.state.attempts = run->attempt;
    e->port.put_history(e->port.ctx, &entry);
}

/* A run that its gang has ended is over by such a report as well, whatever is thought of it. */
static struct err find_to_end(struct engine *e, instant now, struct run_ref ref, struct live **l)
{
    struct err err = engine_find_run(e, now, ref, l);
    if (err.code == ERR_STALE_GANG)
        TRY(engine_grace_over(e, now, ref));
    return err;
}

struct err engine_succeed(struct engine *e, instant now, struct run_ref ref)
{
    struct live *l = NULL;
    TRY(find_to_end(e, now, ref, &l));
    engine_note_drop(e, l, NOTE_CHECKPOINT); /* there is no next run */
    struct job_state s = state_of(l);
    s.completed_at = now;
    s.losses = 0;
    engine_set_reported(&s.extras, l->token, OUTCOME_COMPLETED);
    char words[RETRY_REASON_MAX];
    if (l->attempts > 0)
        snprintf(words, sizeof words, "completed at attempt %u", l->attempts + 1);
    s.reason = l->attempts > 0 ? str_from(words) : STR("completed at attempt 1");
    span retention = engine_retention_completed(e, l->queue, l->completed_retention);
    struct run run = engine_run_of(e, l, now, OUTCOME_COMPLETED, s.reason);
    note_success(e, now, l);
    finish(e, now, l, EVENT_SUCCEED, &s, &run, NULL, retention);
    return err_none();
}

static void count_match_limit(struct engine *e, bool reached)
{
    if (reached && e->port.meter)
        e->port.meter->pattern_give_ups++;
}

struct verdict engine_decide(struct engine *e, instant now, const struct queue *q,
                             const struct verdict_request *r, struct arena *a)
{
    struct verdict_rules rules = engine_rules_of(e, q);
    if (e->port.policies)
        e->port.policies(e->port.ctx, r->job->queue, r->job->options.retry_policies, a, &rules);
    struct verdict v = verdict_decide(r, &rules, now, &e->rng, a);
    count_match_limit(e, v.over_match_limit);
    if (rules.missing.len && e->port.meter)
        meter_missing(e->port.meter, rules.missing);
    return v;
}

static uint32_t losses_of_expired(const struct live *l)
{
    return l->losses + !l->lapsed;
}

/* Ends the run; the job waits for its retry, at s->ready_at. */
static void try_again(struct engine *e, instant now, struct live *l, struct job_state *s,
                      const struct run *run, const struct verdict *v)
{
    enum event event = verdict_event(v, now);
    struct id id = l->id;
    struct queue *q = l->queue;
    uint32_t type = l->type;
    unsigned val = engine_val_of(l->kind, true);
    s->status = lifecycle_move(STATUS_IN_FLIGHT, event);
    engine_gang_back(e, now, id, s);
    announce(e, now, l, event, run, s, &v->ruling, false);
    e->port.put_run(e->port.ctx, id, run);
    e->port.put_state(e->port.ctx, id, s);
    engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT, s->status);
    engine_crew_measure(l, now);
    engine_live_end(e, l);
    engine_avoid(e, now, id, &s->extras);
    engine_wait_add(e, q, engine_rank(s), id, val, s->ready_at, now, type);
}

/* The common end of a failure report and of an expired lease: applies the verdict, in whose
 * memory job->state.reason then lies. */
static struct err fail(struct engine *e, instant now, struct live *l, const struct verdict *v,
                       enum outcome outcome, const struct failure *failure, struct job *job)
{
    if (!v->retry)
        TRY(engine_gang_fall(e, now, l->id, str_from(v->reason)));
    struct job_state s = state_of(l);
    s.extras = v->extras;
    if (l->overtime)
        s.extras.overtime_token = l->token;
    else if (outcome != OUTCOME_EXPIRED)
        engine_set_reported(&s.extras, l->token, outcome);
    s.attempts++;
    s.failed_at = now;
    s.losses = outcome == OUTCOME_EXPIRED ? losses_of_expired(l) : 0;
    s.reason = str_from(v->reason);
    s.resolution = v->resolution;
    if (v->retry)
        s.ready_at = v->at;

    struct run run = engine_run_of(e, l, now, outcome, s.reason);
    run.failure = *failure;
    run.attempt = s.attempts;
    run.retry_at = v->retry ? v->at : INSTANT_NONE;
    run.grace_end = s.extras.grace_end;
    note_failure(e, job, &run);

    if (v->retry)
        try_again(e, now, l, &s, &run, v);
    else
        finish(e, now, l, verdict_event(v, now), &s, &run, &v->ruling,
               engine_retention_dead(e, l->queue, job->dead_retention));
    job->state = s;
    return err_none();
}

/* A worker that knows better says so; else the categorizers look at what it reported. Texts are
 * borrowed from them for the call. */
void engine_name_category(struct engine *e, struct failure *f, enum outcome outcome,
                          struct arena *a)
{
    const struct categorizer *const *list = NULL;
    size_t n = e->port.categorizers ? e->port.categorizers(e->port.ctx, a, &list) : 0;
    struct categorize_verdict v = categorize_name(list, n, f, outcome);
    count_match_limit(e, v.over_match_limit);
}

struct err engine_fail(struct engine *e, instant now, const struct failure_report *r,
                       struct arena *a, struct job *job)
{
    struct live *l = NULL;
    struct err err = engine_find_run(e, now, r->ref, &l);
    if (err.code == ERR_STALE_GANG)
        return engine_fail_recalled(e, now, r, &err, a, job);
    TRY(err);
    return engine_fail_live(e, now, l, r, a, job);
}

struct err engine_fail_live(struct engine *e, instant now, struct live *l,
                            const struct failure_report *r, struct arena *a, struct job *job)
{
    enum outcome outcome = r->exception ? r->exception : OUTCOME_FAILED;
    TRY(load_record(e, l, a, job));
    job->state = state_of(l);
    struct failure failure = r->failure;
    if (failure.node.len == 0)
        failure.node = job->state.extras.node;
    engine_name_category(e, &failure, outcome, a);
    culprit_judge(&failure, outcome, false, a);
    struct verdict_request request = {.job = job,
                                      .outcome = outcome,
                                      .failure = &failure,
                                      .kill = r->kill,
                                      .retry_at = r->retry_at,
                                      .grace = r->grace,
                                      .token = l->token};
    struct verdict v = engine_decide(e, now, l->queue, &request, a);
    TRY(fail(e, now, l, &v, outcome, &failure, job));
    job->state.reason = arena_copy(a, job->state.reason);
    job->state.extras = job_extras_copy(a, &job->state.extras);
    return err_none();
}

/* Of a job that fails without a policy the retries are for exceptions and expired leases alone, and
 * all of them. */
static bool is_expiry_budgeted(const struct job *job)
{
    return job->options.when_no_policy == RETRY_FALLBACK_FAIL;
}

/* Judges a run whose lease is over as failed with the condition LeaseExpired. */
static struct err expire(struct engine *e, instant now, struct live *l, struct job *job,
                         struct arena *a)
{
    char words[JOB_NAME_MAX + 64];
    snprintf(words, sizeof words, "claim expired: worker '%.*s' did not renew its lease",
             (int)l->worker->len, l->worker->bytes);
    struct failure failure = {.message = str_from(words),
                              .error_type = STR("claim-expired"),
                              .run_time = {-1},
                              .condition = CONDITION_LEASE_EXPIRED};
    job->state = state_of(l);
    failure.node = job->state.extras.node;
    engine_name_category(e, &failure, OUTCOME_EXPIRED, a);
    culprit_judge(&failure, OUTCOME_EXPIRED, l->lapsed, a);
    struct verdict_request request = {
        .job = job, .outcome = OUTCOME_EXPIRED, .failure = &failure, .retry_at = INSTANT_NONE};
    struct verdict v = engine_decide(e, now, l->queue, &request, a);
    if (!is_expiry_budgeted(job) &&
        verdict_is_poison(e->settings.lost_worker_limit, losses_of_expired(l))) {
        v = verdict_poison(&job->state.extras, losses_of_expired(l));
        builtin_category_poison(&failure);
    }
    return fail(e, now, l, &v, OUTCOME_EXPIRED, &failure, job);
}

/* Nobody may have got the answer to the claim, and then nobody is to blame: not the job, whatever
 * retries it has. Without a start of the server in between the next one may be the job's doing, for
 * it may kill whoever has it before he says a word; so that is free only for a while. */
static bool is_free(const struct engine *e, const struct live *l)
{
    uint32_t limit = e->settings.lost_worker_limit;
    if (l->confirmed)
        return false;
    if (l->kind == KIND_TASK)
        return l->restored; /* Taskcluster's workers count on their retries */
    return l->restored || l->losses + 1 < (limit ? limit : UNCONFIRMED_MAX);
}

void engine_return_unconfirmed(struct engine *e, instant now, struct live *l)
{
    const char *why = l->restored ? "the server was started again before its worker said anything"
                                  : "the claim ran out before its worker said anything";
    engine_return(e, now, l, OUTCOME_EXPIRED, l->restored ? CULPRIT_SERVER : CULPRIT_WORKER, why);
}

struct err engine_expire(struct engine *e, instant now, struct live *l)
{
    must(instant_is_set(l->lease_due) && engine_lease_end(e, l).ms <= now.ms);
    if (is_free(e, l)) {
        engine_return_unconfirmed(e, now, l);
        return err_none();
    }
    struct arena scratch = {0};
    struct job job;
    struct err err = load_record(e, l, &scratch, &job);
    if (err.code == ERR_OK)
        err = expire(e, now, l, &job, &scratch);
    arena_fini(&scratch);
    return err;
}

enum status engine_returned(instant ready_at, instant taken_at, instant now)
{
    enum status s = lifecycle_move(STATUS_IN_FLIGHT, EVENT_RETURN);
    /* Only a patch, or who gives it back, sets a time after the run began; it is no sign that the
     * clock went back. */
    return ready_at.ms > instant_max(taken_at, now).ms ? lifecycle_move(s, EVENT_POSTPONE) : s;
}

/* It was, by a patch or by who gave it back. */
static void announce_postponed(struct engine *e, instant now, const struct live *l,
                               instant ready_at)
{
    struct job_event ev = engine_live_event(e, EVENT_POSTPONE, l);
    ev.from = STATUS_READY;
    ev.run = -1;
    ev.attempt = 0;
    ev.worker = (struct str){0};
    ev.ready_at = ready_at;
    engine_changed(e, now, &ev);
}

/* In a row, after a run that ended without a report and is not counted as an attempt. */
static uint32_t losses_after(const struct live *l, enum outcome outcome)
{
    if (outcome == OUTCOME_EXPIRED)
        return l->losses + !l->restored;
    return outcome == OUTCOME_LOST || outcome == OUTCOME_GANG ? l->losses : 0;
}

/* Nothing is decided by it, so that no rule needs to be asked for another name. */
static void name_expired(struct run *run)
{
    run->failure.category = STR(BUILTIN_CATEGORY_NAME);
    run->failure.subcategory =
        builtin_category_of(&(struct failure){.condition = CONDITION_LEASE_EXPIRED}, run->outcome);
}

void engine_return(struct engine *e, instant now, struct live *l, enum outcome outcome,
                   enum culprit culprit, const char *reason)
{
    struct job_state s = state_of(l);
    s.extras.returned_at = now;
    s.losses = losses_after(l, outcome);
    if (outcome == OUTCOME_GANG)
        engine_gang_recalled(e, now, l, &s);
    s.status = engine_returned(s.ready_at, l->taken_at, now);
    if (outcome != OUTCOME_GANG)
        engine_gang_back(e, now, l->id, &s);
    char words[RETURN_REASON_MAX];
    snprintf(words, sizeof words, "%s again: %s", lifecycle_status_name(s.status), reason);
    s.reason = str_from(words);
    struct run run = engine_run_of(e, l, now, outcome, s.reason);
    if (culprit)
        blame(&run, culprit, str_from(reason));
    if (outcome == OUTCOME_EXPIRED)
        name_expired(&run);
    struct id id = l->id;
    struct queue *q = l->queue;
    uint32_t type = l->type;
    unsigned val = engine_val_of(l->kind, true);
    announce(e, now, l, EVENT_RETURN, &run, &s, NULL, false);
    if (s.status == STATUS_SCHEDULED)
        announce_postponed(e, now, l, s.ready_at);
    e->port.put_run(e->port.ctx, id, &run);
    e->port.put_state(e->port.ctx, id, &s);
    engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT, s.status);
    engine_avoid(e, now, id, &s.extras);
    engine_live_end(e, l);
    /* Its place is that of its first enqueue: a returned job is not a new one. */
    if (s.status == STATUS_READY)
        engine_ready_add(e, q, engine_rank(&s), id, val);
    else
        engine_wait_add(e, q, engine_rank(&s), id, val, s.ready_at, now, type);
}

void engine_lose(struct engine *e, instant now, struct live *l)
{
    bool counts = instant_diff(now, l->taken_at).ms >= e->settings.lost_worker_min_held.ms;
    l->losses += counts;
    if (!counts || !verdict_is_poison(e->settings.lost_worker_limit, l->losses)) {
        engine_return(e, now, l, OUTCOME_LOST, CULPRIT_WORKER, "the worker's stream closed");
        return;
    }
    struct job_state s = state_of(l);
    struct verdict v = verdict_poison(&s.extras, l->losses);
    s.extras.returned_at = now;
    s.resolution = v.resolution;
    s.reason = str_from(v.reason);
    if (engine_gang_fall(e, now, l->id, s.reason).code != ERR_OK) { /* damage: another time */
        engine_return(e, now, l, OUTCOME_LOST, CULPRIT_WORKER, "the worker's stream closed");
        return;
    }
    struct run run = engine_run_of(e, l, now, OUTCOME_LOST, s.reason);
    blame(&run, CULPRIT_WORKER, STR("the worker's stream closed"));
    builtin_category_poison(&run.failure);
    finish(e, now, l, EVENT_POISON, &s, &run, NULL,
           engine_retention_dead(e, l->queue, l->dead_retention));
}

void engine_stop_run(struct engine *e, instant now, struct id id)
{
    struct live *l = idmap_get(&e->live, id);
    if (l)
        engine_return(e, now, l, OUTCOME_LOST, CULPRIT_DISRUPTION, "its worker was stopped");
}

struct err engine_release(struct engine *e, instant now, struct run_ref ref, struct str why)
{
    return engine_snooze(e, now, ref, why, (instant){0});
}

struct err engine_snooze(struct engine *e, instant now, struct run_ref ref, struct str why,
                         instant until)
{
    struct live *l = NULL;
    TRY(find_to_end(e, now, ref, &l));
    if (until.ms > now.ms)
        l->ready_at = until;
    char words[RETURN_REASON_MAX];
    int n = (int)utf8_whole(why, WHY_MAX);
    snprintf(words, sizeof words, "the worker gave it back%s%.*s%s", n ? ": " : "", n, why.at,
             (size_t)n < why.len ? "..." : "");
    engine_return(e, now, l, OUTCOME_RETURNED, CULPRIT_NONE, words);
    return err_none();
}

/* The stored state, still the one from before the run, knows what the run does not carry along: the
 * last reason for one. */
struct err engine_live_store(struct engine *e, struct live *l)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, l->id, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK) {
        job.state.extras.notes = l->extras ? l->extras->notes : 0;
        e->port.put_state(e->port.ctx, l->id, &job.state);
        l->has_state = true;
    }
    arena_fini(&scratch);
    return err;
}

struct err engine_renew(struct engine *e, instant now, struct run_ref ref, span lease,
                        instant *lease_end)
{
    struct live *l = NULL;
    TRY(engine_find_run(e, now, ref, &l));
    if (!instant_is_set(l->lease_due))
        return err_make(ERR_UNPROCESSABLE,
                        "the job is held by an open stream, which needs no renewal");
    TRY(engine_overtime_check(e, now, l));
    engine_lease_set(e, now, l, lease);
    *lease_end = engine_lease_end(e, l);
    l->lapsed = false;
    engine_lease_confirm(e, l);
    engine_lease_store(e, l);
    return err_none();
}
