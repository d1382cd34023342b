/* SPDX-License-Identifier: Apache-2.0 */

/* What workers report of their runs, and what ends a run without a report. */

#include <stdio.h>

#include "base/duration.h"
#include "base/must.h"
#include "base/quantity.h"
#include "core/categorize.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"
#include "core/tally.h"

/* The live run that a report is about.
 *
 * The token is checked before anything else: a worker whose lease ran out must hear
 * "stale" even when the job is completed by now, or it would believe that its own
 * result was the one recorded. */
struct err engine_find_run(struct engine *e, instant now, struct run_ref ref, struct live **out)
{
    struct live *l = idmap_get(&e->live, ref.id);
    if (l && (ref.token == 0 || ref.token == l->token)) {
        *out = l;
        return err_none();
    }
    char text[ID_TEXT_LEN];
    id_format(ref.id, text);
    if (l) {
        struct err err =
            err_make(ERR_STALE, "job %.25s has run %u by now; this token is of an earlier one",
                     text, l->run);
        if (l->extras)
            engine_gang_stale(l->extras, ref, &err);
        return err;
    }
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err found = engine_read(e, now, ref.id, false, &scratch, &job, &extent);
    if (found.code == ERR_OK)
        engine_gang_stale(&job.state.extras, ref, &found);
    arena_fini(&scratch);
    if (found.code != ERR_OK)
        return found;
    if (ref.token)
        return err_make(ERR_STALE, "the run of job %.25s with this token is over; the job is %s",
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

static struct run run_of(const struct live *l, instant now, enum outcome outcome, struct str reason)
{
    return (struct run){
        .index = l->run,
        .worker = {l->worker->bytes, l->worker->len},
        .taken_at = l->taken_at,
        .lease_end = l->lease_end,
        .ended_at = now,
        .outcome = outcome,
        .retry_at = INSTANT_NONE,
        .reason = reason,
        .failure = {.run_time = {-1}, .node = l->extras ? l->extras->node : (struct str){0}},
    };
}

static struct job_extent extent_of(const struct live *l)
{
    return (struct job_extent){.has_state = l->has_state,
                               .payload_apart = l->payload_apart,
                               .runs_ended = l->run,
                               .notes = l->extras ? l->extras->notes : 0};
}

static void tell(struct engine *e, instant now, const struct live *l, enum event event,
                 const struct job_state *s, const struct ruling *ruling, bool removed)
{
    struct job_event ev = engine_live_event(e, event, l);
    ev.reason = s->reason;
    if (event == EVENT_RETRY || event == EVENT_RETRY_NOW)
        ev.ready_at = s->ready_at;
    if (ruling)
        ev.ruling = *ruling;
    ev.removed = removed;
    engine_changed(e, now, &ev);
}

/* Ends the job for good: kept until its retention is over, or gone at once. */
static void finish(struct engine *e, instant now, struct live *l, enum event event,
                   struct job_state *s, const struct run *run, const struct ruling *ruling,
                   span retention)
{
    s->status = lifecycle_move(STATUS_IN_FLIGHT, event);
    must(lifecycle_is_terminal(s->status));
    tell(e, now, l, event, s, ruling, retention.ms <= 0);
    engine_depend_ended(e, l->id, s->status == STATUS_COMPLETED ? DEPEND_COMPLETED : DEPEND_DEAD);
    struct id id = l->id;
    struct queue *q = l->queue;
    struct job_extent extent = extent_of(l);
    engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT,
                       retention.ms > 0 ? s->status : STATUS_GONE);
    if (retention.ms > 0) {
        s->purge_at = instant_add(now, retention);
        e->port.put_run(e->port.ctx, id, run);
        e->port.put_state(e->port.ctx, id, s);
        engine_live_end(e, l);
        engine_ended_add(e, s->status, id, s->purge_at, q);
        return;
    }
    e->port.delete_job(e->port.ctx, id, &extent);
    engine_live_end(e, l);
    engine_queue_drop_if_unused(e, q);
}

void engine_call_off(struct engine *e, instant now, struct live *l, struct job_state *s,
                     span retention)
{
    struct job_state changed = state_of(l);
    changed.resolution = RESOLUTION_CANCELED;
    changed.reason = s->reason;
    /* As long as the caller's, unlike what the run holds. */
    changed.extras = s->extras;
    struct run run = run_of(l, now, OUTCOME_CANCELED, s->reason);
    finish(e, now, l, EVENT_CANCEL, &changed, &run, NULL, retention);
    *s = changed;
}

struct err engine_succeed(struct engine *e, instant now, struct run_ref ref)
{
    struct live *l = NULL;
    TRY(engine_find_run(e, now, ref, &l));
    engine_note_drop(e, l, NOTE_CHECKPOINT); /* there is no next run */
    struct job_state s = state_of(l);
    s.completed_at = now;
    s.losses = 0;
    char words[RETRY_REASON_MAX];
    snprintf(words, sizeof words, "completed at attempt %u", l->attempts + 1);
    s.reason = str_from(words);
    span retention = engine_limits_completed(e, l->queue, l->completed_retention);
    struct run run = run_of(l, now, OUTCOME_COMPLETED, s.reason);
    finish(e, now, l, EVENT_SUCCEED, &s, &run, NULL, retention);
    return err_none();
}

static enum event event_of(const struct verdict *v, instant now)
{
    if (v->resolution == RESOLUTION_POISON)
        return EVENT_POISON;
    if (!v->retry)
        return EVENT_EXHAUST;
    return v->at.ms <= now.ms ? EVENT_RETRY_NOW : EVENT_RETRY;
}

/* What is decided, and what the state keeps of it for the next time. */
struct decision {
    struct verdict verdict;
    struct job_extras extras;
    struct ruling ruling;
};

/* Continues a reason, as far as there is room. */
static void add_words(char reason[RETRY_REASON_MAX], const char *words)
{
    size_t n = strlen(reason);
    if (n + strlen(words) < RETRY_REASON_MAX)
        memcpy(reason + n, words, strlen(words) + 1);
}

static void adopt(const struct engine *e, struct decision *d, const struct policy_verdict *v,
                  const struct policy *p, const struct failure *f, instant now, struct arena *a)
{
    d->verdict = (struct verdict){.retry = v->retry, .at = INSTANT_NONE};
    d->ruling = (struct ruling){p ? p->name : (struct str){0}, v->rule, v->count, v->limit};
    memcpy(d->verdict.reason, v->reason, sizeof v->reason);
    if (!v->retry) {
        d->verdict.resolution = RESOLUTION_FAILED;
        return;
    }
    const struct tally t = {p->name, v->slot.rule, v->slot.count};
    d->verdict.at = instant_add(now, v->delay);
    d->extras.retry_counts = tally_set(d->extras.retry_counts, &t, a);
    if (!v->avoid_node || f->node.len == 0)
        return;
    span required = v->avoid_for.ms >= 0 ? v->avoid_for : e->settings.avoid_required;
    d->extras.avoid_node = arena_copy(a, f->node); /* it may be the run's, which ends now */
    d->extras.avoid_until = instant_add(d->verdict.at, required);
    add_words(d->verdict.reason, ", not on the same node");
}

/* The memory of the retry. What was grown is kept over retries by other rules (a preemption, say)
 * unless the rule that grew it said otherwise. */
static void grow(struct decision *d, const struct policy_rule *rule, const struct job *job)
{
    struct job_extras *x = &d->extras;
    if (!rule || rule->memory.max == 0) {
        if (x->memory_fleeting)
            x->memory = x->memory_fleeting = 0;
        return;
    }
    uint64_t before = x->memory ? x->memory : job->options.memory;
    if (before == 0) {
        add_words(d->verdict.reason, ", memory as it was: the job states none");
        return;
    }
    struct buf words = {0};
    uint64_t after = policy_grow(&rule->memory, before);
    buf_str(&words, after > before ? STR(", memory from ") : STR(", memory stays "));
    quantity_write(&words, before);
    if (after > before) {
        buf_lit(&words, " to ");
        quantity_write(&words, after);
        x->memory = after;
        x->memory_fleeting = rule->memory.fleeting;
    } else {
        buf_lit(&words, ", the most");
    }
    buf_byte(&words, '\0');
    add_words(d->verdict.reason, words.at);
    buf_fini(&words);
}

_Static_assert(sizeof((struct verdict){0}.reason) == sizeof((struct policy_verdict){0}.reason),
               "both reasons have the same room");

static void count_give_up(struct engine *e, bool gave_up)
{
    if (gave_up && e->port.meter)
        e->port.meter->pattern_give_ups++;
}

/* What retry_decide went by, unless it was a word of the worker. */
static struct ruling ruling_of_limits(const struct retry_defaults *defaults,
                                      const struct retry_request *r, const struct verdict *v)
{
    const struct job *job = r->job;
    if (r->kill || instant_is_set(r->retry_at))
        return RULING_NONE;
    return (struct ruling){.rule = -1,
                           .count = retry_failures(r) - (v->retry ? 0 : 1),
                           .limit = job->retry_limit == RETRY_LIMIT_DEFAULT ? defaults->limit
                                                                            : job->retry_limit};
}

/* By the job's own limits, the queue's and the server's. */
static void decide_by_limits(struct engine *e, instant now, const struct queue *q,
                             const struct retry_request *r, struct decision *d)
{
    struct retry_defaults defaults = engine_limits_retry(e, q);
    d->verdict = retry_decide(r, &defaults, now, &e->rng);
    grow(d, NULL, r->job);
    d->ruling = ruling_of_limits(&defaults, r, &d->verdict);
}

/* A word of the worker comes first; then the retry policies, if any is effective; then the job's
 * own limits, the queue's and the server's. Those alone decide about a lease that ran out: policies
 * judge what failed, and nobody knows that anything did. */
static struct decision decide(struct engine *e, instant now, const struct queue *q,
                              const struct retry_request *r, const struct failure *f,
                              struct arena *a)
{
    const struct job *job = r->job;
    struct decision d = {.extras = job_extras_copy(a, &job->state.extras)};
    d.extras.avoid_node = (struct str){0};
    d.extras.avoid_until = (instant){0};
    const struct policy *const *list;
    const struct policy_settings *settings;
    struct policy_count *counts;
    size_t n = 0;
    if (!r->kill && !instant_is_set(r->retry_at) && e->port.policies)
        n = e->port.policies(e->port.ctx, job->queue, job->options.retry_policies, a, &list,
                             &settings);
    if (n == 0) {
        decide_by_limits(e, now, q, r, &d);
        return d;
    }
    size_t used = tally_counts(d.extras.retry_counts, a, &counts);
    if (r->outcome == OUTCOME_EXPIRED) {
        struct retry_request own = *r;
        own.by_policies = policy_total(counts, used);
        decide_by_limits(e, now, q, &own, &d);
        return d;
    }
    struct policy_verdict v = policy_evaluate(list, n, settings, f, counts, used, &e->rng);
    count_give_up(e, v.over_match_limit);
    adopt(e, &d, &v, v.policy >= 0 ? list[v.policy] : NULL, f, now, a);
    if (v.retry)
        grow(&d, v.rule >= 0 ? &list[v.policy]->rules[v.rule] : NULL, job);
    return d;
}

/* The run that was preempted may still be at work: the next one waits for its end, but no longer
 * than the grace period (a graceful shutdown). */
static void wait_for_end(struct decision *d, instant now, const struct live *l, span grace)
{
    struct job_extras *x = &d->extras;
    x->grace_token = l->token;
    x->grace_end = instant_add(now, grace);
    x->backoff_end = d->verdict.at;
    if (x->grace_end.ms <= d->verdict.at.ms)
        return;
    if (x->avoid_node.len)
        x->avoid_until = instant_add(x->avoid_until, instant_diff(x->grace_end, d->verdict.at));
    d->verdict.at = x->grace_end;
    struct buf words = {0};
    buf_lit(&words, ", but not before the preempted run has ended or ");
    duration_write(&words, grace);
    buf_lit(&words, " are over");
    buf_byte(&words, '\0');
    add_words(d->verdict.reason, words.at);
    buf_fini(&words);
}

void engine_grace_clear(struct job_extras *x)
{
    x->grace_token = 0;
    x->grace_end = x->backoff_end = x->terminated_at = (instant){0};
}

static uint32_t losses_of_expired(const struct live *l)
{
    return l->losses + !l->lapsed;
}

static bool is_poison(const struct engine *e, uint32_t losses)
{
    return e->settings.lost_worker_limit && losses >= e->settings.lost_worker_limit;
}

static struct verdict poisoned(uint32_t losses)
{
    struct verdict v = {.resolution = RESOLUTION_POISON, .at = INSTANT_NONE};
    snprintf(v.reason, sizeof v.reason, "dead: its worker was lost in %u %s", losses,
             losses == 1 ? "run" : "runs in a row");
    return v;
}

/* The common end of a failure report and of an expired lease: applies the decision, in whose
 * memory job->state.reason then lies. */
static void fail(struct engine *e, instant now, struct live *l, const struct decision *d,
                 enum outcome outcome, const struct failure *failure, struct job *job)
{
    const struct verdict *v = &d->verdict;
    enum event event = event_of(v, now);
    struct job_state s = state_of(l);
    s.extras = d->extras;
    s.attempts++;
    s.failed_at = now;
    s.losses = outcome == OUTCOME_EXPIRED ? losses_of_expired(l) : 0;
    s.reason = str_from(v->reason);
    s.resolution = v->resolution;
    if (v->retry)
        s.ready_at = v->at;

    struct run run = run_of(l, now, outcome, s.reason);
    run.failure = *failure;
    run.attempt = s.attempts;
    run.retry_at = v->retry ? v->at : INSTANT_NONE;
    run.grace_end = s.extras.grace_end;

    if (!v->retry) {
        finish(e, now, l, event, &s, &run, &d->ruling,
               engine_limits_dead(e, l->queue, job->dead_retention));
    } else {
        struct id id = l->id;
        struct queue *q = l->queue;
        uint32_t type = l->type;
        s.status = lifecycle_move(STATUS_IN_FLIGHT, event);
        engine_gang_back(e, now, id, s.ready_at, &s.extras);
        tell(e, now, l, event, &s, &d->ruling, false);
        e->port.put_run(e->port.ctx, id, &run);
        e->port.put_state(e->port.ctx, id, &s);
        engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT, s.status);
        engine_live_end(e, l);
        engine_avoid(e, now, id, &s.extras);
        engine_wait_add(e, q, s.priority, id, true, s.ready_at, now, type);
    }
    job->state = s;
}

/* The job of a run, without its payload; its state is the run's to say. */
static struct err load_record(struct engine *e, const struct live *l, struct arena *a,
                              struct job *job)
{
    struct job_extent extent;
    return e->port.load_job(e->port.ctx, l->id, l->has_state ? PORT_STATE : 0, a, job, &extent);
}

/* A worker that knows better says so; else the categorizers look at what it reported. Texts are
 * borrowed from them for the call. */
static void name_category(struct engine *e, struct failure *f, struct arena *a)
{
    const struct categorizer *const *list;
    if (f->category.len || !e->port.categorizers)
        return;
    size_t n = e->port.categorizers(e->port.ctx, a, &list);
    struct categorize_verdict v = {0};
    if (n)
        v = categorize(list, n, f);
    count_give_up(e, v.over_match_limit);
    const struct categorize_rule *rule = v.rule;
    if (!rule)
        return;
    f->category = rule->category;
    f->subcategory = rule->subcategory;
    f->hint = rule->hint;
}

struct err engine_fail(struct engine *e, instant now, const struct failure_report *r,
                       struct arena *a, struct job *job)
{
    struct live *l = NULL;
    TRY(engine_find_run(e, now, r->ref, &l));
    TRY(load_record(e, l, a, job));
    job->state = state_of(l);
    struct failure failure = r->failure;
    if (failure.node.len == 0)
        failure.node = job->state.extras.node;
    name_category(e, &failure, a);
    struct retry_request request = {
        .job = job, .outcome = OUTCOME_FAILED, .kill = r->kill, .retry_at = r->retry_at};
    struct decision d = decide(e, now, l->queue, &request, &failure, a);
    if (d.verdict.retry && r->grace.ms > 0)
        wait_for_end(&d, now, l, r->grace);
    fail(e, now, l, &d, OUTCOME_FAILED, &failure, job);
    job->state.reason = arena_copy(a, job->state.reason);
    job->state.extras = job_extras_copy(a, &job->state.extras);
    return err_none();
}

void engine_bring_forward(struct engine *e, instant now, struct job *job, instant ready_at)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_find(e, job->queue);
    must(q && s->status == STATUS_SCHEDULED);
    instant was = s->ready_at;
    engine_forget(e, now, q, job);
    s->ready_at = instant_max(ready_at, now);
    if (s->extras.avoid_node.len) {
        /* That is said from when it is ready on. */
        s->extras.avoid_until = instant_add(s->extras.avoid_until, instant_diff(s->ready_at, was));
        engine_avoid_end(e, job->id);
        engine_avoid(e, now, job->id, &s->extras);
    }
    s->status = lifecycle_move(s->status, EVENT_POSTPONE);
    if (s->ready_at.ms <= now.ms)
        s->status = lifecycle_move(s->status, EVENT_DUE);
    engine_rescheduled(e, now, STATUS_SCHEDULED, was, job);
    engine_wait_add(e, q, s->priority, job->id, true, s->ready_at, now,
                    engine_type(e, q, job->type));
}

struct err engine_terminated(struct engine *e, instant now, struct run_ref ref, uint32_t run,
                             struct arena *a, struct job *job)
{
    const struct live *l = idmap_get(&e->live, ref.id);
    if (l && l->token == ref.token)
        return err_make(ERR_UNPROCESSABLE, "run %u is in flight: its failure comes first", l->run);
    struct job_extent extent;
    TRY(engine_read(e, now, ref.id, false, a, job, &extent));
    struct job_state *s = &job->state;
    bool waits = s->status == STATUS_SCHEDULED || s->status == STATUS_READY;
    if (!waits || s->extras.grace_token != ref.token || s->runs != run + 1)
        return err_make(ERR_STALE, "the job does not wait for the end of this run");
    if (s->extras.terminated_at.ms)
        return err_none();
    s->extras.terminated_at = now;
    instant was = s->ready_at;
    bool sooner = s->status == STATUS_SCHEDULED && s->extras.backoff_end.ms < was.ms;
    if (sooner)
        engine_bring_forward(e, now, job, s->extras.backoff_end);
    char words[RETRY_REASON_MAX];
    snprintf(words, sizeof words, "%.*s", STR_ARG(s->reason));
    add_words(words, "; it has ended");
    s->reason = arena_copy(a, str_from(words));
    e->port.put_state(e->port.ctx, ref.id, s);
    return sooner ? engine_gang_forward(e, now, ref.id, was, s->ready_at) : err_none();
}

struct err engine_expire(struct engine *e, instant now, struct live *l)
{
    must(instant_is_set(l->lease_end) && l->lease_end.ms <= now.ms);
    struct arena scratch = {0};
    struct job job;
    struct err err = load_record(e, l, &scratch, &job);
    if (err.code == ERR_OK) {
        char words[JOB_NAME_MAX + 64];
        snprintf(words, sizeof words, "claim expired: worker '%.*s' did not renew its lease",
                 (int)l->worker->len, l->worker->bytes);
        struct failure failure = {
            .message = str_from(words), .error_type = STR("claim-expired"), .run_time = {-1}};
        job.state = state_of(l);
        failure.node = job.state.extras.node;
        struct retry_request request = {
            .job = &job, .outcome = OUTCOME_EXPIRED, .retry_at = INSTANT_NONE};
        struct decision d = decide(e, now, l->queue, &request, &failure, &scratch);
        if (is_poison(e, losses_of_expired(l))) {
            d = (struct decision){poisoned(losses_of_expired(l)), job.state.extras, RULING_NONE};
            d.extras.avoid_node = (struct str){0};
            d.extras.avoid_until = (instant){0};
        }
        fail(e, now, l, &d, OUTCOME_EXPIRED, &failure, &job);
    }
    arena_fini(&scratch);
    return err;
}

enum status engine_returned(instant ready_at, instant taken_at, instant now)
{
    enum status s = lifecycle_move(STATUS_IN_FLIGHT, EVENT_RETURN);
    /* Only a patch sets a time after the run began; it is no sign that the clock went back. */
    return ready_at.ms > instant_max(taken_at, now).ms ? lifecycle_move(s, EVENT_POSTPONE) : s;
}

/* It was, by a patch, while it was in flight. */
static void tell_put_off(struct engine *e, instant now, const struct live *l, instant ready_at)
{
    struct job_event ev = engine_live_event(e, EVENT_POSTPONE, l);
    ev.from = STATUS_READY;
    ev.run = -1;
    ev.attempt = 0;
    ev.worker = (struct str){0};
    ev.ready_at = ready_at;
    engine_changed(e, now, &ev);
}

void engine_return(struct engine *e, instant now, struct live *l, enum outcome outcome,
                   const char *reason)
{
    struct job_state s = state_of(l);
    s.status = engine_returned(l->ready_at, l->taken_at, now);
    s.losses = outcome == OUTCOME_LOST || outcome == OUTCOME_GANG ? l->losses : 0;
    if (outcome == OUTCOME_GANG)
        engine_gang_recalled(e, l, &s.extras);
    else
        engine_gang_back(e, now, l->id, s.ready_at, &s.extras);
    char words[RETRY_REASON_MAX];
    snprintf(words, sizeof words, "%s again: %s", lifecycle_status_name(s.status), reason);
    s.reason = str_from(words);
    struct run run = run_of(l, now, outcome, s.reason);
    struct id id = l->id;
    struct queue *q = l->queue;
    uint32_t type = l->type;
    tell(e, now, l, EVENT_RETURN, &s, NULL, false);
    if (s.status == STATUS_SCHEDULED)
        tell_put_off(e, now, l, s.ready_at);
    e->port.put_run(e->port.ctx, id, &run);
    e->port.put_state(e->port.ctx, id, &s);
    engine_unique_move(e, l->unique, id, STATUS_IN_FLIGHT, s.status);
    engine_avoid(e, now, id, &s.extras);
    engine_live_end(e, l);
    /* Its place is that of its first enqueue: a returned job is not a new one. */
    if (s.status == STATUS_READY)
        engine_ready_add(e, q, s.priority, id, true);
    else
        engine_wait_add(e, q, s.priority, id, true, s.ready_at, now, type);
}

void engine_lose(struct engine *e, instant now, struct live *l)
{
    l->losses++;
    if (!is_poison(e, l->losses)) {
        engine_return(e, now, l, OUTCOME_LOST, "the worker's stream closed");
        return;
    }
    struct verdict v = poisoned(l->losses);
    struct job_state s = state_of(l);
    s.resolution = v.resolution;
    s.reason = str_from(v.reason);
    struct run run = run_of(l, now, OUTCOME_LOST, s.reason);
    finish(e, now, l, EVENT_POISON, &s, &run, NULL,
           engine_limits_dead(e, l->queue, l->dead_retention));
}

struct err engine_release(struct engine *e, instant now, struct run_ref ref)
{
    struct live *l = NULL;
    TRY(engine_find_run(e, now, ref, &l));
    engine_return(e, now, l, OUTCOME_RETURNED, "the worker gave it back");
    return err_none();
}

/* The stored state knows what the run does not carry along, the last reason for one. That of a
 * stream's job still is the one from before its run. */
struct err engine_live_store(struct engine *e, struct live *l, instant lease_end)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, l->id, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK) {
        job.state.lease_end = lease_end;
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
    if (!instant_is_set(l->lease_end))
        return err_make(ERR_UNPROCESSABLE,
                        "the job is held by an open stream, which needs no renewal");
    *lease_end = instant_add(now, lease);
    TRY(engine_live_store(e, l, *lease_end));
    engine_deadline_remove(e, l->lease_end, l->id);
    l->lease_end = *lease_end;
    l->lapsed = false;
    engine_deadline_add(e, l->lease_end, l->id, DUE_VAL(DUE_LEASE, 0, 0, l->queue->index));
    return err_none();
}
