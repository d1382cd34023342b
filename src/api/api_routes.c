/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_routes.h"
#include "base/array.h"

/* For an endpoint that refuses a query with an error of its own. */
static const struct api_param api_no_params[] = {{NULL, NULL, false}};

const struct endpoint api_endpoints[] = {
    {{HTTP_POST, "/jobs"},
     api_enqueue,
     "enqueueJob",
     "Enqueue a job",
     .body = &api_job_body,
     .answers = {{201, "Enqueued: added"},
                 {200, "Enqueued: a duplicate, or folded: the job that is there"}}},
    {{HTTP_POST, "/jobs/bulk"},
     api_enqueue_bulk,
     "enqueueJobs",
     "Enqueue many jobs, all or none",
     .body = &api_bulk_body,
     .answers = {{201, "EnqueuedJobs: added"},
                 {200, "EnqueuedJobs: all of them duplicates or folded"}}},
    {{HTTP_GET, "/jobs/take"},
     api_take,
     "takeJobs",
     "Take jobs as a stream",
     .params = api_take_params,
     .answers = {{200, "@TakeJobs"}}},
    {{HTTP_GET, "/events"},
     api_events,
     "streamEvents",
     "What happens to jobs, as a stream",
     .params = api_events_params,
     .answers = {{200, "@StreamEvents"}}},
    {{HTTP_POST, "/jobs/claim"},
     api_claim,
     "claimJobs",
     "Claim jobs for a time",
     .body = &api_claim_body,
     .answers = {{200, "Claimed: those that there were"}}},
    {{HTTP_DELETE, "/jobs/claim"},
     api_claim_withdraw,
     "withdrawClaims",
     "Answer the waiting claims of a worker at once",
     .params = api_withdraw_params,
     .answers = {{200, "Withdrawn: how many"}}},
    {{HTTP_POST, "/jobs/{id}/success"},
     api_success,
     "reportSuccess",
     "Report success",
     .body = &api_success_body,
     .answers = {{204, "none: done"}}},
    {{HTTP_POST, "/jobs/success"},
     api_success_bulk,
     "reportSuccesses",
     "Report many successes",
     .body = &api_ids_body,
     .answers = {{204, "none: done"}}},
    {{HTTP_POST, "/jobs/{id}/failure"},
     api_failure,
     "reportFailure",
     "Report a failure",
     .body = &api_failure_body,
     .answers = {{200, "Job: the job afterwards"}}},
    {{HTTP_POST, "/jobs/{id}/terminated"},
     api_terminated,
     "reportTermination",
     "Say that a preempted run has ended",
     .body = &api_terminated_body,
     .answers = {{200, "Job: the job afterwards"}}},
    {{HTTP_POST, "/jobs/{id}/renew"},
     api_renew,
     "renewLease",
     "Renew a lease",
     .body = &api_renew_body,
     .answers = {{200, "Renewed: its new end"}}},
    {{HTTP_POST, "/jobs/{id}/progress"},
     api_progress,
     "reportProgress",
     "Report progress",
     .body = &api_progress_body,
     .answers = {{204, "none: done"}}},
    {{HTTP_POST, "/jobs/{id}/release"},
     api_release,
     "releaseJob",
     "Release a job",
     .body = &api_release_body,
     .answers = {{204, "none: done"}}},
    {{HTTP_GET, "/jobs/{id}"},
     api_read,
     "getJob",
     "Get a job",
     .answers = {{200, "Job: the job with its payload"}}},
    {{HTTP_GET, "/jobs"},
     api_list,
     "listJobs",
     "List jobs",
     .params = api_page_params,
     .answers = {{200, "JobPage: a page in id order"}}},
    {{HTTP_GET, "/jobs/count"},
     api_count,
     "countJobs",
     "Count jobs",
     .params = api_filter_params,
     .answers = {{200, "Counted: how many"}}},
    {{HTTP_GET, "/jobs/{id}/runs"},
     api_runs,
     "listRuns",
     "Every run of a job",
     .params = api_runs_params,
     .answers = {{200, "RunPage: a page"}}},
    {{HTTP_GET, "/jobs/{id}/explain"},
     api_explain,
     "explainJob",
     "Why a job is not running",
     .answers = {{200, "Explanation: it"}}},
    {{HTTP_GET, "/jobs/{id}/errors"},
     api_errors,
     "listErrors",
     "The failures of a job that counted",
     .params = api_runs_params,
     .answers = {{200, "ErrorPage: a page"}}},
    {{HTTP_GET, "/jobs/{id}/errors/{attempt}"},
     api_error_of_attempt,
     "getError",
     "One failure of a job",
     .answers = {{200, "RunError: it"}}},
    {{HTTP_DELETE, "/jobs/{id}"},
     api_remove,
     "deleteJob",
     "Delete a job",
     .answers = {{204, "none: done"}}},
    {{HTTP_DELETE, "/jobs"},
     api_remove_where,
     "deleteJobs",
     "Delete jobs",
     .params = api_change_params,
     .answers = {{200, "Deleted: how many"}}},
    {{HTTP_PATCH, "/jobs/{id}"},
     api_patch,
     "patchJob",
     "Change a job",
     .body = &api_patch_body,
     .answers = {{200, "Job: the job afterwards"}}},
    {{HTTP_PATCH, "/jobs"},
     api_patch_where,
     "patchJobs",
     "Change jobs",
     .params = api_change_params,
     .body = &api_patch_body,
     .answers = {{200, "Patched: how many"}}},
    {{HTTP_POST, "/jobs/{id}/cancel"},
     api_cancel,
     "cancelJob",
     "Cancel a job",
     .answers = {{200, "Job: the job, dead"}}},
    {{HTTP_POST, "/jobs/{id}/retry"},
     api_retry,
     "retryJob",
     "Retry a dead job",
     .answers = {{200, "Job: the job afterwards"}}},
    {{HTTP_POST, "/jobs/retry"},
     api_retry_where,
     "retryJobs",
     "Retry dead jobs",
     .params = api_retry_params,
     .answers = {{200, "Retried: how many"}}},
    {{HTTP_POST, "/reset"},
     api_reset,
     "reset",
     "Delete all jobs and cron groups",
     .params = api_reset_params,
     .answers = {{200, "Sample: what it would be"}, {204, "none: done"}}},
    {{HTTP_GET, "/queues"},
     api_queues,
     "listQueues",
     "List queues",
     .params = api_queues_params,
     .answers = {{200, "QueueList: names, or with details the queues"}}},
    {{HTTP_POST, "/queues"},
     api_queue_create,
     "createQueue",
     "Create a queue",
     .body = &api_queue_body,
     .answers = {{201, "Queue: it"}}},
    {{HTTP_GET, "/queues/{name}"},
     api_queue_read,
     "getQueue",
     "Get a queue",
     .answers = {{200, "Queue: it"}}},
    {{HTTP_PUT, "/queues/{name}"},
     api_queue_put,
     "putQueue",
     "Set up a queue",
     .body = &api_queue_body,
     .answers = {{200, "Queue: it"}, {201, "Queue: it, created"}}},
    {{HTTP_PATCH, "/queues/{name}"},
     api_queue_patch,
     "patchQueue",
     "Change a queue",
     .body = &api_queue_body,
     .answers = {{200, "Queue: it"}}},
    {{HTTP_DELETE, "/queues/{name}"},
     api_queue_remove,
     "deleteQueue",
     "Forget what was set for a queue",
     .answers = {{204, "none: done"}}},
    {{HTTP_GET, "/crons"},
     api_crons,
     "listCronGroups",
     "List cron groups",
     .answers = {{200, "CronGroupNames: names"}}},
    {{HTTP_DELETE, "/crons"},
     api_crons_remove,
     "deleteCronGroups",
     "Delete all cron groups",
     .params = api_no_params,
     .answers = {{200, "DeletedGroups: how many"}}},
    {{HTTP_GET, "/crons/{group}"},
     api_cron_read,
     "getCronGroup",
     "Get a cron group",
     .answers = {{200, "CronGroup: it"}}},
    {{HTTP_PUT, "/crons/{group}"},
     api_cron_put,
     "putCronGroup",
     "Set up a cron group",
     .body = &api_cron_group_body,
     .answers = {{200, "CronGroup: it"}}},
    {{HTTP_PATCH, "/crons/{group}"},
     api_cron_patch,
     "patchCronGroup",
     "Pause or resume a cron group, or give it a time zone",
     .body = &api_cron_switch_body,
     .answers = {{200, "CronGroup: it"}}},
    {{HTTP_DELETE, "/crons/{group}"},
     api_cron_remove,
     "deleteCronGroup",
     "Delete it",
     .answers = {{204, "none: done"}}},
    {{HTTP_POST, "/crons/{group}/entries"},
     api_cron_entry_add,
     "addCronEntry",
     "Add an entry",
     .body = &api_cron_entry_body,
     .answers = {{201, "CronEntry: added"}}},
    {{HTTP_GET, "/crons/{group}/entries/{entry}"},
     api_cron_read,
     "getCronEntry",
     "Look at an entry",
     .answers = {{200, "CronEntry: it"}}},
    {{HTTP_PUT, "/crons/{group}/entries/{entry}"},
     api_cron_entry_put,
     "putCronEntry",
     "Set up an entry",
     .body = &api_cron_entry_body,
     .answers = {{200, "CronEntry: it"}}},
    {{HTTP_PATCH, "/crons/{group}/entries/{entry}"},
     api_cron_patch,
     "patchCronEntry",
     "Pause or resume it",
     .body = &api_cron_entry_switch_body,
     .answers = {{200, "CronEntry: it"}}},
    {{HTTP_DELETE, "/crons/{group}/entries/{entry}"},
     api_cron_remove,
     "deleteCronEntry",
     "Delete it",
     .answers = {{204, "none: done"}}},
    {{HTTP_GET, "/retry-policies"},
     api_policies,
     "listRetryPolicies",
     "List: retry policy",
     .answers = {{200, "Documents: all of them"}}},
    {{HTTP_POST, "/retry-policies"},
     api_policy_create,
     "createRetryPolicy",
     "Create a retry policy",
     .body = &api_document_body,
     .answers = {{201, "Document: it"}}},
    {{HTTP_POST, "/retry-policies/simulate"},
     api_policy_simulate,
     "simulateRetryPolicies",
     "What a draft of a policy would make of failures",
     .body = &api_simulate_body,
     .answers = {{200, "Simulation: verdict by verdict; see docs/policies.md"}}},
    {{HTTP_GET, "/retry-policies/{name}"},
     api_policy_read,
     "getRetryPolicy",
     "Look at a retry policy",
     .answers = {{200, "Document: it"}}},
    {{HTTP_PUT, "/retry-policies/{name}"},
     api_policy_put,
     "putRetryPolicy",
     "Set up a retry policy",
     .body = &api_document_body,
     .answers = {{200, "Document: it"}, {201, "Document: it, created"}}},
    {{HTTP_DELETE, "/retry-policies/{name}"},
     api_policy_remove,
     "deleteRetryPolicy",
     "Delete a retry policy",
     .answers = {{204, "none: done"}}},
    {{HTTP_GET, "/failure-categories"},
     api_categories,
     "listFailureCategories",
     "List: set of failure categories",
     .answers = {{200, "Documents: all of them"}}},
    {{HTTP_POST, "/failure-categories"},
     api_categories_create,
     "createFailureCategories",
     "Create a set of failure categories",
     .body = &api_document_body,
     .answers = {{201, "Document: it"}}},
    {{HTTP_GET, "/failure-categories/{name}"},
     api_categories_read,
     "getFailureCategories",
     "Look at a set of failure categories",
     .answers = {{200, "Document: it"}}},
    {{HTTP_PUT, "/failure-categories/{name}"},
     api_categories_put,
     "putFailureCategories",
     "Set up a set of failure categories",
     .body = &api_document_body,
     .answers = {{200, "Document: it"}, {201, "Document: it, created"}}},
    {{HTTP_DELETE, "/failure-categories/{name}"},
     api_categories_remove,
     "deleteFailureCategories",
     "Delete a set of failure categories",
     .answers = {{204, "none: done"}}},
    {{HTTP_GET, "/settings/retry"},
     api_retry_settings,
     "getRetrySettings",
     "The settings of retrying",
     .answers = {{200, "RetrySettings: them"}}},
    {{HTTP_PUT, "/settings/retry"},
     api_retry_settings_put,
     "putRetrySettings",
     "Change them",
     .body = &api_document_body,
     .answers = {{200, "RetrySettings: them"}}},
    {{HTTP_GET, "/health"},
     api_health,
     "getHealth",
     "Whether jobs can be stored",
     .answers = {{200, "Health: they can"},
                 {503, "Unhealthy: they cannot; what is there can be read"}}},
    {{HTTP_POST, "/clock/reset"},
     api_clock_reset,
     "resetClock",
     "Let time be what the system's clock says",
     .more = "After that clock was wrong and was put right. Streams are closed, and what is under "
             "way is refused with 503.",
     .answers = {{200, "ClockReset: it is"}}},
    {{HTTP_GET, "/version"},
     api_version,
     "getVersion",
     "Which server this is",
     .answers = {{200, "Version: it"}}},
    {{HTTP_GET, "/openapi.json"},
     api_openapi,
     "getDescription",
     "This document",
     .answers = {{200, "object: it"}}},
    {{HTTP_GET, "/metrics"},
     api_metrics,
     "getMetrics",
     "Metrics for Prometheus",
     .answers = {{200, "@GetMetrics"}}},
    {{HTTP_POST, "/backup", .admin = true},
     api_backup,
     "makeBackup",
     "A snapshot of all jobs; at the admin listener only",
     .answers = {{200, "@MakeBackup"}}},
    {{HTTP_POST, "/compact", .admin = true},
     api_compact,
     "compactTables",
     "Give back room on the disk; at the admin listener only",
     .answers = {{204, "none: the tables are rewritten without what was deleted"}}},
};
const size_t api_endpoint_count = COUNT(api_endpoints);

/* --- as JSON, for tools/openapi.py --- */

/* Bodies that others refer to by name. */
static const struct api_body *const schemas[] = {
    &api_job_body,
    &api_backoff_body,
    &api_retention_body,
    &api_batch_body,
    &api_resources_body,
    &api_gang_body,
    &api_patch_retention_body,
    &api_annotations_body,
    &api_container_body,
    &api_queue_body,
    &api_rate_body,
    &api_queue_retention_body,
    &api_cron_entry_body,
    &api_failure_body,
    &api_given_body,
};

static void write_member(struct buf *b, const char *name, const char *text)
{
    if (!text)
        return;
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, str_from(text));
}

static void write_switch(struct buf *b, const char *name, bool on)
{
    if (on)
        buf_print(b, ",\"%s\":true", name);
}

static void write_params(struct buf *b, const struct api_param *p)
{
    buf_lit(b, ",\"params\":[");
    for (size_t i = 0; p && p[i].name; i++) {
        buf_print(b, "%s{\"name\":\"%s\"", i ? "," : "", p[i].name);
        write_member(b, "doc", p[i].doc);
        write_switch(b, "header", p[i].header);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void write_fields(struct buf *b, const struct api_body *body)
{
    buf_lit(b, ",\"fields\":[");
    for (size_t i = 0; i < body->count; i++) {
        const struct field *f = &body->fields[i];
        buf_print(b, "%s{\"name\":\"%s\"", i ? "," : "", f->name);
        write_member(b, "doc", f->doc);
        write_switch(b, "required", f->required);
        write_switch(b, "nullable", f->nullable);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void write_body(struct buf *b, const struct api_body *body)
{
    buf_print(b, "{\"optional\":%s", body->optional ? "true" : "false");
    write_member(b, "name", body->name);
    write_member(b, "doc", body->doc);
    write_switch(b, "closed", body->closed);
    if (body->fields)
        write_fields(b, body);
    buf_byte(b, '}');
}

static void write_answers(struct buf *b, const struct endpoint *e)
{
    buf_lit(b, ",\"answers\":[");
    for (size_t i = 0; i < sizeof e->answers / sizeof *e->answers && e->answers[i].status; i++) {
        buf_print(b, "%s{\"status\":%d", i ? "," : "", e->answers[i].status);
        write_member(b, "doc", e->answers[i].doc);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void write_endpoint(struct buf *b, const struct endpoint *e)
{
    buf_print(b, "{\"method\":\"%s\"", router_method_name(e->route.method));
    write_member(b, "path", e->route.pattern);
    write_member(b, "id", e->id);
    write_member(b, "summary", e->summary);
    write_member(b, "more", e->more);
    write_params(b, e->params);
    if (e->body) {
        buf_lit(b, ",\"body\":");
        write_body(b, e->body);
    }
    write_answers(b, e);
    buf_byte(b, '}');
}

void api_write_routes(struct buf *b)
{
    buf_lit(b, "{\"routes\":[");
    for (size_t i = 0; i < api_endpoint_count; i++) {
        buf_print(b, "%s", i ? ",\n" : "\n");
        write_endpoint(b, &api_endpoints[i]);
    }
    buf_lit(b, "],\"schemas\":[");
    for (size_t i = 0; i < COUNT(schemas); i++) {
        buf_print(b, "%s", i ? ",\n" : "\n");
        write_body(b, schemas[i]);
    }
    buf_lit(b, "]}\n");
}
