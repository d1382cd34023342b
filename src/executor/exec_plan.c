/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_plan.h"

#include "base/must.h"

static struct plan_step step(enum plan_action action)
{
    return (struct plan_step){.action = action};
}

static struct plan_step wait_until(mono t)
{
    return (struct plan_step){.action = PLAN_WAIT, .until = t};
}

static struct plan_step decide(enum plan_result result)
{
    return (struct plan_step){.action = PLAN_DECIDE, .result = result};
}

/* The retry may begin as soon as the failure is known, so a pod that is alive has to go first. */
static struct plan_step decide_held_back(enum plan_result result)
{
    return (struct plan_step){.action = PLAN_DECIDE, .result = result, .held_back = true};
}

/* When a span that begins at `from` is over; never if either is missing. */
static mono end_of(mono from, span d)
{
    return from.ns && d.ms > 0 ? (mono){from.ns + d.ms * 1000000} : (mono){0};
}

static bool is_over(mono end, mono now)
{
    return end.ns && end.ns <= now.ns;
}

/* Does the step, unless an earlier try of it has failed a moment ago. */
static struct plan_step unless_early(const struct plan_run *r, mono now, struct plan_step s)
{
    return r->not_before.ns > now.ns ? wait_until(r->not_before) : s;
}

static struct plan_step after_logs(const struct plan_run *r, mono now, struct plan_step s)
{
    if (r->logs == PLAN_LOGS_READ)
        return s;
    return r->logs == PLAN_LOGS_READING ? step(PLAN_WAIT)
                                        : unless_early(r, now, step(PLAN_READ_LOGS));
}

/* --- a lease that is held --- */

static struct plan_step begin(const struct plan_run *r, mono now)
{
    if (r->refusal != PLAN_ACCEPTED)
        return decide(r->refusal == PLAN_REFUSED ? PLAN_NOT_CREATED : PLAN_RELEASE);
    if (!r->synced || r->creating)
        return step(PLAN_WAIT);
    if (r->suspended && !r->tried)
        return decide(PLAN_RELEASE);
    if (r->stopping)
        return r->tried ? step(PLAN_WAIT) : decide(PLAN_RELEASE);
    if (r->blocked)
        return r->clearing ? step(PLAN_WAIT) : unless_early(r, now, step(PLAN_CLEAR));
    if (r->gang_waits)
        return step(PLAN_WAIT);
    return unless_early(r, now, step(PLAN_CREATE));
}

static struct plan_step before_deadline(const struct plan_run *r, mono now, mono end,
                                        enum plan_result late)
{
    if (!is_over(end, now))
        return wait_until(end);
    return after_logs(r, now, decide_held_back(late));
}

static struct plan_step of_held(const struct plan_run *r, const struct plan_limits *l, mono now)
{
    if (exec_plan_alive(r->pod) && r->preempted)
        return decide(PLAN_PREEMPTED);
    /* Somebody deletes it: how it ends is still to be seen. */
    if (exec_plan_alive(r->pod) && r->deleting)
        return step(PLAN_WAIT);
    switch (r->pod) {
    case PLAN_POD_NONE:
        return begin(r, now);
    case PLAN_POD_GONE:
        return decide(PLAN_VANISHED);
    case PLAN_POD_WAITING:
        if (r->misfit)
            return unless_early(r, now, step(PLAN_REPLACE));
        if (r->gated)
            return step(PLAN_WAIT);
        return before_deadline(r, now, end_of(r->created, l->scheduling), PLAN_UNSCHEDULABLE);
    case PLAN_POD_INITIALIZING:
        return before_deadline(r, now, end_of(r->initialized, l->initializing),
                               PLAN_NOT_INITIALIZED);
    case PLAN_POD_RUNNING:
        return step(PLAN_WAIT);
    case PLAN_POD_DOOMED:
        return after_logs(r, now, decide_held_back(PLAN_FAILURE));
    case PLAN_POD_SUCCEEDED:
        return after_logs(r, now, decide(PLAN_SUCCESS));
    case PLAN_POD_FAILED:
        return after_logs(r, now, decide(PLAN_FAILURE));
    case PLAN_POD_NODE_LOST:
        return decide(PLAN_FAILURE);
    }
    must(false); /* every state of a pod is above */
    return step(PLAN_WAIT);
}

/* --- afterwards --- */

static struct plan_step delete_pod(const struct plan_run *r, mono now)
{
    return r->deleting ? step(PLAN_WAIT) : unless_early(r, now, step(PLAN_DELETE));
}

/* Deletes a pod that has ended once it has been kept long enough. */
static struct plan_step delete_later(const struct plan_run *r, const struct plan_limits *l,
                                     mono now)
{
    span keep = r->pod == PLAN_POD_SUCCEEDED ? l->keep_succeeded : l->keep_failed;
    mono end = end_of(r->ended, keep);
    return end.ns > now.ns ? wait_until(end) : delete_pod(r, now);
}

static struct plan_step of_decided(const struct plan_run *r, const struct plan_limits *l, mono now)
{
    bool over = !exec_plan_alive(r->pod);
    if (!r->kept || r->creating)
        return step(PLAN_WAIT);
    if (r->held_back && over)
        return step(PLAN_DELIVER);
    if (r->held_back)
        return delete_pod(r, now);
    if (r->was_preempted && over && !r->told_end)
        return step(PLAN_TELL_END);
    if (exec_plan_alive(r->pod))
        return r->was_preempted ? step(PLAN_WAIT) : delete_pod(r, now);
    if (exec_plan_there(r->pod))
        return delete_later(r, l, now);
    return step(r->delivered ? PLAN_FORGET : PLAN_WAIT);
}

static struct plan_step of_lost(const struct plan_run *r, const struct plan_limits *l, mono now)
{
    if (r->creating || !r->synced)
        return step(PLAN_WAIT);
    if (!exec_plan_there(r->pod))
        return step(PLAN_FORGET);
    return exec_plan_alive(r->pod) ? delete_pod(r, now) : delete_later(r, l, now);
}

struct plan_step exec_plan(const struct plan_run *r, const struct plan_limits *l, mono now)
{
    switch (r->lease) {
    case PLAN_HELD:
        return of_held(r, l, now);
    case PLAN_DECIDED:
        return of_decided(r, l, now);
    case PLAN_LOST:
        return of_lost(r, l, now);
    }
    must(false); /* every state of a lease is above */
    return step(PLAN_WAIT);
}

const char *exec_plan_pod_name(enum plan_pod pod)
{
    static const char *const names[] = {
        [PLAN_POD_NONE] = "none",           [PLAN_POD_GONE] = "gone",
        [PLAN_POD_WAITING] = "waiting",     [PLAN_POD_INITIALIZING] = "initializing",
        [PLAN_POD_RUNNING] = "running",     [PLAN_POD_DOOMED] = "failing",
        [PLAN_POD_SUCCEEDED] = "succeeded", [PLAN_POD_FAILED] = "failed",
        [PLAN_POD_NODE_LOST] = "node lost",
    };
    return names[pod];
}
