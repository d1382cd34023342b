/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_ROUTES_H
#define API_API_ROUTES_H

/* The endpoints of the Jobs API, in one table: what serves them, and what they take and answer.
 * The program reads requests by it, and writes answers by the shapes that it names;
 * docs/openapi.json is made from it (`make docs`).
 *
 * A `doc` is "TYPE: MEANING", with types as in wire/field.h. */

#include "api/api_internal.h"
#include "base/event_cursor.h"

/* A parameter of the query, or a header. Lists of them end with one that has no name. */
struct api_param {
    const char *name, *doc;
    bool header;
    int64_t most; /* the number that $ stands for in doc */
    bool required;
};

struct api_body {
    const char *name;           /* of its schema, if others refer to it */
    const struct field *fields; /* NULL: doc says what it is */
    size_t count;
    const char *doc;
    bool optional;     /* a request may come without it */
    const char *rules; /* as in wire/field.h */
    bool closed;       /* answers have it, too, with these members and no other */
};

#define API_FIELDS(table) .fields = (table), .count = sizeof(table) / sizeof *(table)

struct api_answer {
    int status;
    /* What it says; without a shape "TYPE: MEANING", "none: MEANING" without a body, or "@Name", a
     * response of docs/openapi.base.json. */
    const char *doc;
    const struct shape *shape;    /* what its body is written by; of a stream: one of its values */
    const struct shape *or_shape; /* another one that it may have */
};

struct endpoint {
    struct route route; /* must be first */
    void (*handle)(struct api *a, const struct api_request *r);
    const char *id, *summary;
    const struct api_param *params; /* NULL: it has none, and a query is refused */
    const struct api_body *body;    /* NULL: none */
    struct api_answer answers[3];
    bool tokens; /* it is about tokens: on loopback alone while there is no admin */
    bool exact;  /* a body with members that it does not know is refused; always so of PUT, PATCH */
};

extern const struct endpoint api_endpoints[];
extern const size_t api_endpoint_count;

/* ERR_DUPLICATE_FIELD if a parameter of the query is met a second time; *seen begins as 0. */
struct err api_param_once(struct str name, const struct api_param *params, unsigned *seen);

/* Each beside what reads it. */
extern const struct api_param api_backlog_params[];
extern const struct api_param api_next_params[];
extern const struct api_param api_filter_params[], api_page_params[], api_change_params[],
    api_retry_params[], api_reset_params[], api_runs_params[];          /* api_filter.c */
extern const struct api_param api_take_params[], api_withdraw_params[]; /* api_take.c */
extern const struct api_param api_audit_params[];
extern const struct api_param api_health_params[], api_metrics_params[];
/* Of those, whose only value is "owner": ERR_BAD_VALUE, ERR_DUPLICATE_FIELD, … */
struct err api_read_owner_params(const struct api_request *r, const struct api_param *params);
extern const struct api_param api_events_params[];
extern const struct api_param api_queues_params[], api_policy_remove_params[];
extern const struct api_param api_enqueue_params[], api_failures_params[], api_workers_params[];
extern const struct api_param api_job_params[], api_retry_job_params[];

extern const struct api_body api_job_body, api_template_body, api_backoff_body, api_retention_body,
    api_batch_body, api_resources_body, api_gang_body;                 /* api_decode.c */
extern const struct api_body api_patch_body, api_patch_retention_body; /* api_patch.c */
extern const struct api_body api_annotations_body;
extern const struct api_body api_dependency_body;
extern const struct api_body api_made_progress_body; /* api_notes.c */
extern const struct api_body api_bulk_body;
extern const struct api_body api_claim_body, api_claim_job_body; /* api_take.c */
extern const struct api_body api_worker_notice_body;
extern const struct api_body api_success_body, api_failure_body, api_container_body,
    api_terminated_body, api_renew_body, api_progress_body, api_release_body; /* api_report.c */
extern const struct api_body api_success_of_body, api_successes_body; /* api_success_many.c */
extern const struct api_body api_renewal_body, api_renewals_body;     /* api_renew_many.c */
extern const struct api_body api_report_body;                         /* api_report.c */
extern const struct api_body api_reports_body;                        /* api_report_many.c */
extern const struct api_body api_queue_body, api_named_queue_body, api_rate_body,
    api_queue_retention_body;
extern const struct api_body api_budget_body, api_budget_patch_body, api_strategy_body,
    api_strategy_patch_body, api_binding_body;
extern const struct api_body api_cron_group_body, api_cron_switch_body, api_cron_entry_body,
    api_cron_entry_switch_body;
extern const struct api_body api_policy_body, api_categories_body,
    api_retry_settings_body; /* api_policy.c */
extern const struct api_body api_token_body;
extern const struct api_body api_simulate_body, api_given_body;

/* Each beside what writes it. */
extern const struct shape api_error_shape; /* api_reply.c */
extern const struct shape api_job_shape, api_job_head_shape, api_job_listed_shape,
    api_job_options_shape, api_payload_shape, api_enqueued_shape, api_handout_shape,
    api_job_batch_shape, api_retry_count_shape, api_backoff_shape,
    api_resources_shape;                                      /* api_encode.c */
extern const struct shape api_run_shape, api_run_error_shape; /* api_encode_run.c */
extern const struct shape api_job_read_shape, api_job_seen_shape;
/* api_encode_event.c: of a struct event_line. */
extern const struct shape api_event_shape;
struct event_line {
    const struct job_event *event;
    uint64_t history;    /* that its number is of */
    struct str messages; /* JSON, separated by commas; or empty */
};

/* api_encode_event.c: of a struct api_gap. */
extern const struct shape api_gap_shape;
struct api_gap {
    uint64_t from, to; /* the events that are not kept any more; 0: it is of another history */
    struct event_cursor after; /* then: what was asked for */
    uint64_t place;            /* where the stream goes on */
    uint64_t history;          /* of that */
};

extern const struct shape api_operation_shape, api_operations_shape;
extern const struct shape api_worker_shape, api_servers_shape, api_stepping_down_shape,
    api_workers_shape, api_worker_stopped_shape;
extern const struct shape api_failure_group_shape, api_failure_groups_shape;
extern const struct shape api_progress_shape, api_checkpoint_shape,
    api_notes_shape; /* api_notes.c */
extern const struct shape api_enqueued_jobs_shape;
extern const struct shape api_deleted_shape, api_patched_shape, api_canceled_shape,
    api_retried_shape, api_sample_shape;       /* api_change.c */
extern const struct shape api_group_shape;     /* api_group.c */
extern const struct shape api_next_page_shape; /* api_next.c */
extern const struct shape api_counted_shape, api_job_page_shape, api_run_page_shape,
    api_error_page_shape;                    /* api_query.c */
extern const struct shape api_renewed_shape; /* api_report.c */
extern const struct shape api_success_refused_shape,
    api_successes_refused_shape; /* api_success_many.c */
extern const struct shape api_renewed_job_shape, api_renewed_jobs_shape,
    api_some_renewed_shape; /* api_renew_many.c */
extern const struct shape api_reported_shape, api_reports_shape,
    api_some_refused_shape;                                       /* api_report_many.c */
extern const struct shape api_claimed_shape, api_withdrawn_shape; /* api_take.c */
extern const struct shape api_queue_shape, api_queue_page_shape, api_queue_names_shape;
extern const struct shape api_cron_group_shape, api_cron_entry_shape, api_cron_job_shape,
    api_cron_names_shape, api_crons_removed_shape; /* api_cron.c */
extern const struct shape api_explanation_shape;
extern const struct shape api_backlog_page_shape;
extern const struct shape api_policy_shape, api_policies_shape, api_policy_changed_shape,
    api_stored_policy_shape, api_stored_categories_shape, api_categories_shape,
    api_categories_changed_shape, api_categories_list_shape, api_retry_settings_shape,
    api_retry_settings_changed_shape;           /* api_policy_encode.c */
extern const struct shape api_simulation_shape; /* api_simulate.c */
extern const struct shape api_simulated_job_shape,
    api_simulated_step_shape; /* api_simulate_encode.c */
extern const struct shape api_token_shape, api_token_made_shape, api_tokens_shape, api_quota_shape;
extern const struct api_body api_quota_body;
extern const struct shape api_rights_shape, api_refusal_shape;    /* api_rights.c */
extern const struct shape api_audit_shape, api_audit_entry_shape; /* api_audit.c */
extern const struct shape api_budget_shape, api_budgets_shape, api_budget_binding_shape;
extern const struct shape api_health_shape, api_counts_shape, api_version_shape,
    api_clock_reset_shape;                   /* api_server.c */
extern const struct shape api_landing_shape; /* api_landing.c */

#endif
