/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_status.h"

#include "base/rfc3339.h"
#include "taskcluster/tc_exchange.h"
#include "wire/json_writer.h"

const char *tc_task_state(const struct job *job)
{
    switch (job->state.status) {
    case STATUS_BLOCKED:
        return "unscheduled";
    case STATUS_SCHEDULED:
    case STATUS_READY:
        return "pending";
    case STATUS_IN_FLIGHT:
        return "running";
    case STATUS_COMPLETED:
        return "completed";
    default:
        return job->state.resolution == RESOLUTION_FAILED ? "failed" : "exception";
    }
}

static bool is_pending(const struct job *job)
{
    return job->state.status == STATUS_SCHEDULED || job->state.status == STATUS_READY;
}

uint32_t tc_task_runs(const struct tc_task *t)
{
    return (uint32_t)t->run_count + (is_pending(&t->job) ? 1 : 0);
}

/* How a run ended, by the names of Taskcluster. */
static const char *outcome_state(enum outcome o, const char **resolved)
{
    switch (o) {
    case OUTCOME_RUNNING:
        *resolved = NULL;
        return "running";
    case OUTCOME_COMPLETED:
        *resolved = "completed";
        return "completed";
    case OUTCOME_FAILED:
        *resolved = "failed";
        return "failed";
    case OUTCOME_EXPIRED:
        *resolved = "claim-expired";
        return "exception";
    case OUTCOME_CANCELED:
        *resolved = "canceled";
        return "exception";
    case OUTCOME_DEADLINE:
        *resolved = "deadline-exceeded";
        return "exception";
    case OUTCOME_LOST:
    case OUTCOME_RETURNED:
    case OUTCOME_GANG:
        *resolved = "worker-shutdown"; /* only workers of the Jobs API end runs so */
        return "exception";
    default:
        *resolved = job_outcome_name(o);
        return "exception";
    }
}

const char *tc_run_state(const struct tc_task *t, uint32_t index, const char **resolved)
{
    *resolved = NULL;
    return index < t->run_count ? outcome_state(t->runs[index].outcome, resolved) : "pending";
}

void tc_worker_split(struct str worker, struct str *group, struct str *id)
{
    const char *slash = worker.len ? memchr(worker.at, '/', worker.len) : NULL;
    size_t n = slash ? (size_t)(slash - worker.at) : 0;
    *group = slash ? (struct str){worker.at, n} : STR("-");
    *id = slash ? (struct str){slash + 1, worker.len - n - 1} : worker;
    if (id->len == 0)
        *id = STR("-");
}

/* Why a run was made. */
static const char *reason_created(const struct tc_task *t, uint32_t index)
{
    const struct run *is = index < t->run_count ? &t->runs[index] : NULL;
    const struct run *before = index ? &t->runs[index - 1] : NULL;
    bool never_pending = is && !instant_is_set(is->taken_at) && !instant_is_set(is->ready_at);
    if (!before)
        return never_pending ? "exception" : "scheduled";
    switch (before->outcome) {
    case OUTCOME_LOST:
    case OUTCOME_RETURNED:
    case OUTCOME_GANG:
        return "retry";
    case OUTCOME_INTERMITTENT_TASK:
        return instant_is_set(before->retry_at) ? "task-retry" : "rerun";
    case OUTCOME_EXPIRED: /* or it was charged to nobody */
        return instant_is_set(before->retry_at) || before->attempt == 0 ? "retry" : "rerun";
    default:
        return instant_is_set(before->retry_at) ? "retry" : "rerun";
    }
}

static instant when_scheduled(const struct tc_task *t, const struct run *r)
{
    if (r && instant_is_set(r->ready_at))
        return r->ready_at;
    if (r)
        return instant_is_set(r->taken_at) ? r->taken_at : r->ended_at;
    return t->job.state.ready_at;
}

static void write_run(struct buf *b, const struct tc_task *t, uint32_t index)
{
    const struct run *r = index < t->run_count ? &t->runs[index] : NULL;
    const char *resolved, *state = tc_run_state(t, index, &resolved);
    struct str group, id;
    buf_print(b, "{\"runId\":%u,\"state\":\"%s\",\"reasonCreated\":\"%s\"", index, state,
              reason_created(t, index));
    if (resolved)
        buf_print(b, ",\"reasonResolved\":\"%s\"", resolved);
    if (r && r->worker.len) {
        tc_worker_split(r->worker, &group, &id);
        buf_lit(b, ",\"workerGroup\":\"");
        tc_exchange_worker(b, group);
        buf_lit(b, "\",\"workerId\":\"");
        tc_exchange_worker(b, id);
        buf_byte(b, '"');
    }
    if (r && instant_is_set(r->lease_end))
        tc_write_time(b, "takenUntil", r->lease_end);
    tc_write_time(b, "scheduled", when_scheduled(t, r));
    if (r && instant_is_set(r->taken_at))
        tc_write_time(b, "started", r->taken_at);
    if (r && instant_is_set(r->ended_at))
        tc_write_time(b, "resolved", r->ended_at);
    buf_byte(b, '}');
}

/* Whether a run that ended so used one of the task's retries for the next one. */
static bool uses_retry(const struct run *r)
{
    return instant_is_set(r->retry_at) &&
           (r->outcome == OUTCOME_EXPIRED || r->outcome == OUTCOME_WORKER_SHUTDOWN ||
            r->outcome == OUTCOME_INTERMITTENT_TASK);
}

/* Since it was created or rerun, which grants all of them anew. */
static int64_t retries_left(const struct tc_task *t)
{
    uint32_t runs = tc_task_runs(t);
    int64_t used = 0;
    for (uint32_t i = 1; i < runs && i <= t->run_count; i++) {
        if (strcmp(reason_created(t, i), "rerun") == 0)
            used = 0;
        else
            used += uses_retry(&t->runs[i - 1]);
    }
    return t->job.retry_limit > used ? t->job.retry_limit - used : 0;
}

static void head_member(struct buf *b, const char *name, struct str text)
{
    buf_print(b, "\"%s\":", name);
    json_write_string(b, text);
    buf_byte(b, ',');
}

void tc_status_write(struct buf *b, const struct tc_task *t)
{
    const struct job *job = &t->job;
    buf_byte(b, '{');
    head_member(b, "taskId", job->options.alias);
    head_member(b, "provisionerId", t->head.provisioner_id);
    head_member(b, "workerType", t->head.worker_type);
    head_member(b, "taskQueueId", t->head.task_queue_id);
    head_member(b, "schedulerId", t->head.scheduler_id);
    head_member(b, "projectId", t->head.project_id);
    head_member(b, "taskGroupId", t->head.task_group_id);
    buf_print(b, "\"priority\":\"%s\"", tc_priority_name(tc_priority_of_job(job->state.priority)));
    tc_write_time(b, "deadline", job->options.deadline);
    tc_write_time(b, "expires", job->options.retain_until);
    INT_MEMBER(b, "retriesLeft", retries_left(t));
    buf_print(b, ",\"state\":\"%s\",\"runs\":[", tc_task_state(job));
    uint32_t runs = tc_task_runs(t);
    for (uint32_t i = 0; i < runs; i++) {
        if (i)
            buf_byte(b, ',');
        write_run(b, t, i);
    }
    buf_lit(b, "]}");
}
