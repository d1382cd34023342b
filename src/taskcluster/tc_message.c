/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_message.h"

#include "base/rfc3339.h"
#include "taskcluster/tc_exchange.h"
#include "wire/json_writer.h"

bool tc_message_tells(const struct job_event *ev)
{
    switch (ev->event) {
    case EVENT_GROUP_SEALED:
    case EVENT_GROUP_REPRIORITIZE:
        return tc_is_slugid(ev->group);
    case EVENT_DUE:
    case EVENT_POSTPONE:
    case EVENT_BLOCK:
    case EVENT_REMOVE:
    case EVENT_PURGE:
    case EVENT_RESTORE: /* nobody was told that it was gone */
    case EVENT_RESTORE_COMPLETED:
    case EVENT_RESTORE_DEAD:
        return false;
    default:
        return str_eq(ev->type, STR(TC_JOB_TYPE));
    }
}

/* --- the task as it was --- */

/* How many of its runs had begun right after the event. */
static uint32_t runs_begun(const struct job_event *ev)
{
    if (event_tells_runs(ev->event))
        return ev->runs;
    return ev->run >= 0 ? (uint32_t)ev->run + 1 : 0;
}

/* Since when the run is pending that the task then had to come. */
static instant pending_since(const struct job_event *ev, const struct tc_task *now, uint32_t begun)
{
    if (instant_is_set(ev->ready_at))
        return ev->ready_at;
    bool stays = ev->from == ev->to;
    if (!stays)
        return ev->at;
    for (size_t i = 0; i < now->run_count; i++)
        if (now->runs[i].index == begun && instant_is_set(now->runs[i].ready_at))
            return now->runs[i].ready_at;
    return now->job.state.ready_at;
}

/* The run that was under way. */
static void reopen(const struct job_event *ev, struct run *r)
{
    r->outcome = OUTCOME_RUNNING;
    r->ended_at = r->retry_at = INSTANT_NONE;
    if (ev->event == EVENT_TAKE)
        r->lease_end = ev->lease_end;
}

static struct tc_task as_it_was(const struct job_event *ev, const struct tc_task *now,
                                struct arena *a)
{
    struct tc_task t = *now;
    struct job_state *s = &t.job.state;
    uint32_t begun = runs_begun(ev);
    while (t.run_count > 0 && t.runs[t.run_count - 1].index >= begun)
        t.run_count--;
    struct run *runs = arena_get(a, (t.run_count + 1) * sizeof *runs);
    if (t.run_count)
        memcpy(runs, now->runs, t.run_count * sizeof *runs);
    t.runs = runs;
    struct run *last = t.run_count ? &runs[t.run_count - 1] : NULL;
    s->status = ev->to;
    s->ready_at = pending_since(ev, now, begun);
    if (ev->priority >= 0)
        s->priority = (uint16_t)ev->priority;
    if (ev->to == STATUS_IN_FLIGHT && last)
        reopen(ev, last);
    bool failed = last && last->outcome == OUTCOME_FAILED;
    if (ev->to == STATUS_DEAD)
        s->resolution = failed ? RESOLUTION_FAILED : RESOLUTION_CANCELED;
    return t;
}

/* --- one message --- */

struct telling {
    struct buf *b;
    const struct job_event *ev;
    const struct tc_task *task; /* as it was */
    struct tc_texts routes;
    struct str tags;
    bool any;
};

/* What it is about besides the task. */
struct about {
    int64_t run;          /* or negative */
    const struct run *by; /* names its worker; or NULL */
    bool tags;
};

static void begin(struct buf *b, enum tc_exchange e, const struct tc_routing *r)
{
    buf_print(b, "{\"exchange\":\"" TC_EXCHANGE_PREFIX "%s\",\"routingKey\":\"",
              tc_exchange_name(e));
    tc_exchange_routing_key(b, e, r);
    buf_lit(b, "\",\"cc\":[");
}

static void write_routes(struct buf *b, const struct tc_texts *routes)
{
    for (size_t i = 0; i < routes->count; i++) {
        buf_print(b, "%s\"route.", i ? "," : "");
        json_write_text(b, routes->at[i]);
        buf_byte(b, '"');
    }
}

static void write_worker(struct buf *b, const struct tc_routing *r)
{
    buf_lit(b, ",\"workerGroup\":\"");
    tc_exchange_worker(b, r->worker_group);
    buf_lit(b, "\",\"workerId\":\"");
    tc_exchange_worker(b, r->worker_id);
    buf_byte(b, '"');
}

/* A worker of the Jobs API may hold a run without a lease: then until its task ends. */
static instant taken_until(const struct telling *m)
{
    instant lease = m->ev->lease_end;
    return instant_is_set(lease) ? lease : m->task->job.options.deadline;
}

static void write_priorities(struct buf *b, const struct job_event *ev)
{
    buf_print(b, ",\"oldPriority\":\"%s\",\"newPriority\":\"%s\"",
              tc_priority_name(tc_priority_of_job((uint16_t)ev->old_priority)),
              tc_priority_name(tc_priority_of_job((uint16_t)ev->priority)));
}

static struct tc_routing routing_of(const struct tc_task *t, const struct about *about)
{
    struct tc_routing r = {.task_id = t->job.options.alias,
                           .run = about->run,
                           .provisioner_id = t->head.provisioner_id,
                           .worker_type = t->head.worker_type,
                           .scheduler_id = t->head.scheduler_id,
                           .task_group_id = t->head.task_group_id};
    if (about->by && instant_is_set(about->by->taken_at))
        tc_worker_split(about->by->worker, &r.worker_group, &r.worker_id);
    return r;
}

/* But for its end. */
static void add_open(struct telling *m, enum tc_exchange e, const struct about *about)
{
    struct buf *b = m->b;
    const struct tc_routing r = routing_of(m->task, about);
    if (m->any)
        buf_byte(b, ',');
    m->any = true;
    begin(b, e, &r);
    write_routes(b, &m->routes);
    buf_lit(b, "],\"payload\":{\"version\":1,\"status\":");
    tc_status_write(b, m->task);
    if (r.run >= 0)
        INT_MEMBER(b, "runId", r.run);
    if (r.worker_id.len)
        write_worker(b, &r);
    if (e == TC_TASK_RUNNING)
        tc_write_time(b, "takenUntil", taken_until(m));
    if (e == TC_TASK_PRIORITY_CHANGED)
        write_priorities(b, m->ev);
    if (about->tags) {
        buf_lit(b, ",\"task\":{\"tags\":");
        json_write_one_line(b, m->tags);
        buf_byte(b, '}');
    }
}

static void add(struct telling *m, enum tc_exchange e, int64_t run, const struct run *by)
{
    const struct about about = {run, by, e != TC_TASK_PRIORITY_CHANGED};
    add_open(m, e, &about);
    buf_lit(m->b, "}}");
}

/* --- which ones --- */

static void tell_pending(struct telling *m)
{
    add(m, TC_TASK_PENDING, runs_begun(m->ev), NULL);
}

/* It is created without a run, whatever it is made of at once. */
static void tell_defined(struct telling *m)
{
    const struct tc_task *now = m->task;
    struct tc_task blank = *now;
    blank.job.state.status = STATUS_BLOCKED;
    m->task = &blank;
    add(m, TC_TASK_DEFINED, -1, NULL);
    m->task = now;
    if (m->ev->to != STATUS_BLOCKED)
        tell_pending(m);
}

/* A run has ended without success. The reference says nothing of who had a run that its deadline
 * ended. */
static void tell_ended(struct telling *m, const struct run *r)
{
    bool failed = r && r->outcome == OUTCOME_FAILED;
    bool again = m->ev->to == STATUS_SCHEDULED || m->ev->to == STATUS_READY;
    bool nobody = r && r->outcome == OUTCOME_DEADLINE;
    /* A failure that a retry policy forgives is none yet to those who wait for the task. */
    if (!failed)
        add(m, TC_TASK_EXCEPTION, m->ev->run, nobody ? NULL : r);
    else if (!again)
        add(m, TC_TASK_FAILED, m->ev->run, r);
    if (again)
        tell_pending(m);
}

static void tell_artifact(struct telling *m, const struct tc_task *t)
{
    struct about about = {m->ev->run, NULL, false};
    for (size_t i = 0; i < t->run_count; i++)
        if (t->runs[i].index == m->ev->run)
            about.by = &t->runs[i];
    add_open(m, TC_ARTIFACT_CREATED, &about);
}

static void tell(struct telling *m)
{
    const struct tc_task *t = m->task;
    const struct run *last = t->run_count ? &t->runs[t->run_count - 1] : NULL;
    switch (m->ev->event) {
    case EVENT_ENQUEUE:
    case EVENT_ENQUEUE_LATER:
    case EVENT_ENQUEUE_BLOCKED:
        tell_defined(m);
        return;
    case EVENT_UNBLOCK:
        tell_pending(m);
        return;
    case EVENT_RERUN:
        /* It may have to wait for others first; when it need not, it is unblocked. */
        if (instant_is_set(m->ev->ready_at))
            tell_pending(m);
        return;
    case EVENT_TAKE:
        add(m, TC_TASK_RUNNING, m->ev->run, last);
        return;
    case EVENT_SUCCEED:
        add(m, TC_TASK_COMPLETED, m->ev->run, last);
        return;
    case EVENT_REPRIORITIZE:
        add(m, TC_TASK_PRIORITY_CHANGED, -1, NULL);
        return;
    case EVENT_ARTIFACT:
        tell_artifact(m, t);
        return;
    case EVENT_PROGRESS:
        return; /* Taskcluster's workers report none */
    default:
        tell_ended(m, last);
        return;
    }
}

void tc_message_of_task(struct buf *b, const struct job_event *ev, const struct tc_task *t,
                        struct arena *a)
{
    const struct tc_task then = as_it_was(ev, t, a);
    struct telling m = {.b = b, .ev = ev, .task = &then};
    bool same = ev->event == EVENT_REPRIORITIZE && tc_priority_of_job((uint16_t)ev->old_priority) ==
                                                       tc_priority_of_job((uint16_t)ev->priority);
    if (!same && tc_definition_told(t->job.payload, a, &m.routes, &m.tags).code == ERR_OK)
        tell(&m);
}

void tc_message_artifact(struct buf *b, const struct tc_artifact *artifact)
{
    buf_print(
        b, ",\"artifact\":{\"storageType\":\"%s\",\"name\":", tc_storage_name(artifact->storage));
    json_write_string(b, artifact->name);
    tc_write_time(b, "expires", artifact->expires);
    KEY(b, "contentType");
    json_write_string(b, artifact->content_type);
    buf_lit(b, "}}}");
}

/* --- groups --- */

void tc_message_of_group(struct buf *b, const struct job_event *ev, const struct group_record *g)
{
    const struct tc_routing r = {.run = -1, .task_group_id = ev->group, .scheduler_id = g->owner};
    bool priority = ev->event == EVENT_GROUP_REPRIORITIZE;
    if (!g->owner.len || !instant_is_set(g->retain_until) || !tc_is_slugid(ev->group))
        return;
    begin(b,
          priority                            ? TC_TASK_GROUP_PRIORITY_CHANGED
          : ev->event == EVENT_GROUP_RESOLVED ? TC_TASK_GROUP_RESOLVED
                                              : TC_TASK_GROUP_SEALED,
          &r);
    buf_print(b, "],\"payload\":{\"version\":1,\"taskGroupId\":\"%.*s\",\"schedulerId\":",
              STR_ARG(ev->group));
    json_write_string(b, g->owner);
    if (priority) {
        buf_print(b, ",\"newPriority\":\"%s\",\"tasksAffected\":%llu",
                  tc_priority_name(tc_priority_of_job((uint16_t)ev->priority)),
                  (unsigned long long)ev->jobs);
    } else {
        tc_write_time(b, "expires", g->retain_until);
        /* What was sealed in the same millisecond may have been so after the event, which was told
         * without it then: it is told the same at any time. */
        bool sealed = ev->event == EVENT_GROUP_SEALED || g->sealed_at.ms < ev->at.ms;
        if (sealed && instant_is_set(g->sealed_at))
            tc_write_time(b, "sealed", g->sealed_at);
    }
    buf_lit(b, "}}");
}
