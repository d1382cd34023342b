/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings_backend.h"

#include "base/must.h"
#include "core/culprit.h"

/* Fewer are read in a tenth of a second. */
#define INDEX_JOBS_MIN 100000

static struct culprit_bounds bounds_of(const struct settings *set)
{
    struct culprit_bounds b = culprit_bounds_default();
    struct err err = culprit_bounds_read(str_from(set->free_retries), &b);
    must(err.code == ERR_OK); /* it was checked */
    return b;
}

struct backend_settings settings_backend(const struct settings *set)
{
    return (struct backend_settings){
        .engine = {.retry = {.limit = set->retry_limit,
                             .backoff = {CURVE_POWER, set->backoff_base, set->backoff_exponent,
                                         set->backoff_jitter}},
                   .completed_retention = set->retain_completed,
                   .completed_kept_max = (uint64_t)set->completed_kept,
                   .dead_retention = set->retain_dead,
                   .lost_worker_limit = (uint32_t)set->lost_worker_limit,
                   .bounds = bounds_of(set),
                   .lost_worker_min_held = set->lost_worker_min_held,
                   .gang_wait_max = set->gang_wait_max,
                   .hold_max = set->hold_max,
                   .in_flight_max = (uint64_t)set->in_flight_max,
                   .budgets_max = (uint32_t)set->budgets_max,
                   .retries_share = (uint32_t)set->retries_share,
                   .avoid_required = set->avoid_required,
                   .trace_runs = set->otlp_endpoint != NULL,
                   .cron_skip_missed = set->cron_missed == SETTINGS_CRON_SKIP},
        .retry_policy_enabled = set->retry_policy_enabled,
        .when_no_policy = set->when_no_policy == SETTINGS_NO_POLICY_DEFAULT ? RETRY_FALLBACK_DEFAULT
                                                                            : RETRY_FALLBACK_FAIL,
        .sync = set->commit_mode == SETTINGS_FSYNC,
        .sync_enqueues = set->enqueue_commit_mode == SETTINGS_FSYNC,
        .event_retention = set->event_retention,
        .metrics_queues = (uint32_t)set->metrics_queues,
        .event_max_bytes = set->event_max_bytes,
        .jq_request_limit = {set->jq_request_limit.ms > set->jq_time_limit.ms
                                 ? set->jq_request_limit.ms
                                 : set->jq_time_limit.ms},
        .failure_history = (uint64_t)set->failure_history,
        .audit_retention = set->audit_retention,
        .audit_max = (uint64_t)set->audit_max,
        .failure_groups_max = (uint32_t)set->failure_groups_max,
        .failure_group_retention = set->failure_group_retention,
        .idempotency_retention = set->idempotency_retention,
        .idempotency_bytes = set->idempotency_bytes,
        .undo_max = set->undo_max,
        .undo_max_bytes = set->undo_max_bytes,
        .clock_jump_limit = set->clock_jump_limit,
        .lease_grace = set->lease_grace,
        .index_dir = set->root_dir,
        .index_off = !set->index_snapshots,
        .index_jobs_min = INDEX_JOBS_MIN,
        .min_free_space = set->min_free_space};
}
