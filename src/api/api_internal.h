/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_INTERNAL_H
#define API_API_INTERNAL_H

/* What the files of the Jobs API share. */

#include "access/rights.h"
#include "access/tokens.h"
#include "api/api.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/list.h"
#include "net/query.h"
#include "net/router.h"
#include "wire/field.h"
#include "wire/shape.h"

struct api {
    struct backend *backend;
    struct api_settings settings;
    bool strict;         /* of the request whose handler is called */
    struct list streams; /* struct take_stream.node, api_take.c */
    struct list claims;  /* struct claim_call.node, likewise */
    struct buf scratch;  /* a body being encoded */
    struct buf packed;   /* the same as MessagePack */
    struct buf unpacked; /* a request's body that came as MessagePack */
    struct str body;     /* the request's own one, while its handler is called */
    struct api_backup *backup;
    struct api_compact *compact;
    struct api_events *events;
    struct api_top *top;
    struct api_canaries *canaries;
    struct api_messages messages;        /* name NULL: there are none */
    const struct operation **operations; /* by endpoint */
    struct front_end front_end;
};

/* A request that waits for the backend; lives in the request's arena. */
struct call {
    struct api *api;
    struct http_exchange *x;
    bool blind; /* its sender sees no payloads */
};

/* What a handler gets of a request; valid while it runs. */
struct api_request {
    struct http_exchange *x;
    const struct http_request *http;
    const struct route_params *params; /* of its path */
    const struct rights *rights;       /* of who sends it */
    struct token *token;               /* by which it is sent; NULL: without one */
    uint32_t wait;                     /* seconds until it may be tried again, if it may not be */
    struct str trail;                  /* of its change (struct command, trail); or empty */
};

/* The wall clock's time, but no later than the time that jobs go by: a jump ends nothing early. */
instant api_now(const struct api *a);
/* What each endpoint needs; free() it. */
const struct operation **api_operations_new(void);

/* docs/openapi.json; made by tools/embed.py. */
extern const char api_openapi_text[];
extern const size_t api_openapi_text_len;

/* One handler per endpoint. */
void api_enqueue(struct api *a, const struct api_request *r);
void api_enqueue_bulk(struct api *a, const struct api_request *r);
void api_take(struct api *a, const struct api_request *r);
void api_events(struct api *a, const struct api_request *r);
/* Of GET /events: a WebSocket, if it asks the admin listener for one (api_top.c). */
void api_top_or_events(struct api *a, const struct api_request *r);
void api_openapi(struct api *a, const struct api_request *r);
void api_claim(struct api *a, const struct api_request *r);
void api_claim_job(struct api *a, const struct api_request *r);
void api_claim_withdraw(struct api *a, const struct api_request *r);
void api_success(struct api *a, const struct api_request *r);
void api_success_many(struct api *a, const struct api_request *r);
void api_failure(struct api *a, const struct api_request *r);
void api_terminated(struct api *a, const struct api_request *r);
void api_renew(struct api *a, const struct api_request *r);
void api_renew_many(struct api *a, const struct api_request *r);
void api_report_many(struct api *a, const struct api_request *r);
void api_progress(struct api *a, const struct api_request *r);
void api_release(struct api *a, const struct api_request *r);
void api_read(struct api *a, const struct api_request *r);
void api_list(struct api *a, const struct api_request *r);
void api_count(struct api *a, const struct api_request *r);
void api_remove(struct api *a, const struct api_request *r);
void api_remove_where(struct api *a, const struct api_request *r);
void api_patch(struct api *a, const struct api_request *r);
void api_patch_where(struct api *a, const struct api_request *r);
void api_cancel(struct api *a, const struct api_request *r);
void api_cancel_where(struct api *a, const struct api_request *r);
void api_retry(struct api *a, const struct api_request *r);
void api_retry_where(struct api *a, const struct api_request *r);
void api_reset(struct api *a, const struct api_request *r);
void api_runs(struct api *a, const struct api_request *r);
void api_errors(struct api *a, const struct api_request *r);
void api_explain(struct api *a, const struct api_request *r);
void api_backlog(struct api *a, const struct api_request *r);
void api_error_of_attempt(struct api *a, const struct api_request *r);
void api_failures(struct api *a, const struct api_request *r);
void api_failure_group(struct api *a, const struct api_request *r);
void api_operations(struct api *a, const struct api_request *r);
void api_operation(struct api *a, const struct api_request *r);
void api_operation_stop(struct api *a, const struct api_request *r);
void api_operation_undo(struct api *a, const struct api_request *r);
void api_workers(struct api *a, const struct api_request *r);
void api_worker(struct api *a, const struct api_request *r);
void api_worker_notice(struct api *a, const struct api_request *r);
void api_worker_quiet(struct api *a, const struct api_request *r);
void api_worker_resume(struct api *a, const struct api_request *r);
void api_worker_stop(struct api *a, const struct api_request *r);
void api_group_read(struct api *a, const struct api_request *r);
void api_group_seal(struct api *a, const struct api_request *r);
void api_queues(struct api *a, const struct api_request *r);
void api_queue_create(struct api *a, const struct api_request *r);
void api_queue_read(struct api *a, const struct api_request *r);
void api_queue_next(struct api *a, const struct api_request *r);
void api_queue_put(struct api *a, const struct api_request *r);
void api_queue_patch(struct api *a, const struct api_request *r);
void api_queue_remove(struct api *a, const struct api_request *r);
void api_servers(struct api *a, const struct api_request *r);
void api_step_down(struct api *a, const struct api_request *r);
void api_landing(struct api *a, const struct api_request *r);
void api_health(struct api *a, const struct api_request *r);
void api_clock_reset(struct api *a, const struct api_request *r);
void api_version(struct api *a, const struct api_request *r);
void api_metrics(struct api *a, const struct api_request *r);
void api_budgets(struct api *a, const struct api_request *r);
void api_budget_create(struct api *a, const struct api_request *r);
void api_budget_read(struct api *a, const struct api_request *r);
void api_budget_put(struct api *a, const struct api_request *r);
void api_budget_patch(struct api *a, const struct api_request *r);
void api_budget_remove(struct api *a, const struct api_request *r);
void api_crons(struct api *a, const struct api_request *r);
void api_crons_remove(struct api *a, const struct api_request *r);
void api_cron_read(struct api *a, const struct api_request *r);
void api_cron_put(struct api *a, const struct api_request *r);
void api_cron_patch(struct api *a, const struct api_request *r);
void api_cron_remove(struct api *a, const struct api_request *r);
void api_cron_entry_put(struct api *a, const struct api_request *r);
void api_cron_entry_add(struct api *a, const struct api_request *r);
void api_policies(struct api *a, const struct api_request *r);
void api_policy_create(struct api *a, const struct api_request *r);
void api_policy_read(struct api *a, const struct api_request *r);
void api_policy_put(struct api *a, const struct api_request *r);
void api_policy_remove(struct api *a, const struct api_request *r);
void api_policy_simulate(struct api *a, const struct api_request *r);
void api_categories(struct api *a, const struct api_request *r);
void api_categories_create(struct api *a, const struct api_request *r);
void api_categories_put(struct api *a, const struct api_request *r);
void api_categories_read(struct api *a, const struct api_request *r);
void api_categories_remove(struct api *a, const struct api_request *r);
void api_retry_settings(struct api *a, const struct api_request *r);
void api_retry_settings_put(struct api *a, const struct api_request *r);
void api_backup(struct api *a, const struct api_request *r);
void api_compact(struct api *a, const struct api_request *r);

/* api_backup.c: NULL without a source of backups. stop waits for the thread. */
struct api_events *api_events_new(struct api *a);
void api_events_heartbeat(struct api_events *h);
void api_events_free(struct api_events *h);
struct api_backup *api_backup_new(struct api *a);
void api_backup_stop(struct api_backup *b);
void api_backup_free(struct api_backup *b);
/* api_compact.c: likewise. */
struct api_compact *api_compact_new(struct api *a);
void api_compact_stop(struct api_compact *c);
void api_compact_free(struct api_compact *c);

/* The note of an exchange that speaks MessagePack in one direction or both. */
struct packed_call {
    struct api *api;
    bool reply; /* the reply is to be MessagePack */
};

/* How a stream comes. */
enum stream_format { FORMAT_LINES, FORMAT_SSE, FORMAT_PACKED, FORMATS };

/* api_reply.c */
/* Which one Accept asks for, and its content type. ERR_NOT_ACCEPTABLE, ERR_BAD_MEDIA. */
struct err api_stream_format(struct http_exchange *x, const struct http_request *req,
                             enum stream_format *f);
struct str api_stream_type(enum stream_format f);
/* Turns a request that mentions MessagePack into one that does not; the reply follows its
 * Accept from here on. */
struct err api_unpack(struct api *a, struct http_exchange *x, const struct http_request *req,
                      struct http_request *out);
/* Whether the reply is to be MessagePack. */
bool api_replies_packed(const struct http_exchange *x);
/* A JSON text as MessagePack; valid until the next call. */
struct str api_pack(struct api *a, struct str json);
struct call *api_call(struct api *a, const struct api_request *r);
/* Submits the command, with a call as its context; or answers with the error that reading it gave.
 */
void api_submit(struct api *a, const struct api_request *r, struct command *c, struct err err);
/* Submits the command of a request: it reaches to the queues of its sender alone. */
void api_send(struct api *a, const struct api_request *r, struct command *c);
void api_reply_error(struct http_exchange *x, const struct err *err, const char *extra);
void api_reply_json(struct http_exchange *x, int status, const struct buf *body);
/* The same with further header lines, or NULL. */
void api_reply_json_with(struct http_exchange *x, int status, const struct buf *body,
                         const char *extra);
/* If the reply is an error, sends it and returns true. */
bool api_reply_failed(struct http_exchange *x, const struct reply *r);
/* An empty buffer for the body of the answer, good until the loop's next; NULL if the reply is an
 * error, which is sent. */
struct buf *api_reply_body(struct api *a, struct http_exchange *x, const struct reply *r);
/* Answers with what the shape makes of the reply, or with the error. */
void api_reply_shape(const struct call *c, const struct reply *r, int status,
                     const struct shape *s);
/* The same of a part of the reply; it is not looked at if that is an error. */
void api_reply_part(const struct call *c, const struct reply *r, int status, const struct shape *s,
                    const void *part);
/* A reply_fn that answers 204 or the error. */
void api_reply_empty(void *call, const struct reply *r);
/* ERR_BAD_MEDIA unless the body, if there is one, is of a type that some endpoint takes. */
struct err api_check_body(const struct http_request *req);
bool api_is_yaml(struct str content_type);
/* The jobs, runs or failures of a page whose length nobody has said. */
#define API_PAGE_DEFAULT 50
/* "asc" or "desc". */
struct err api_read_order(struct str text, bool *backwards);
/* ERR_BAD_MEDIA unless the body may be JSON; ERR_NOT_ACCEPTABLE unless JSON is accepted. */
struct err api_check_media(const struct http_request *req);
/* The job id of a path; ERR_NOT_FOUND if it is malformed, for there is no such job. */
struct err api_path_id(struct str text, struct command *c, struct id *id);

/* api_decode.c */
struct err api_decode_job(const struct api *a, struct json_cursor *c, struct arena *arena,
                          struct enqueue *out);
/* A list of queue names from "a,b", each once; ERR_TOO_MANY beyond API_NAMES_MAX. */
#define API_NAMES_MAX 1000
struct err api_decode_names(struct str list, const char *what, struct arena *arena,
                            const struct str **names, size_t *count);

/* ERR_UNKNOWN_FIELD. A misspelt parameter must not be ignored: without its filter a query would
 * show, and a change would change, everything. */
struct err api_unknown_param(struct str name);

/* The whole body; an empty one is allowed if empty_ok, and leaves out as it is. */
struct err api_decode_body(const struct api *a, const struct http_request *req,
                           const struct field *fields, size_t count, bool empty_ok, void *out);

/* Who asks, as it says itself; empty if that is not text. */
struct str api_agent_of(const struct api_request *r);

/* At most JOB_NAME_MAX bytes. */
struct err api_field_label(struct json_cursor *c, struct arena *a, void *str);
struct err api_field_name(struct json_cursor *c, struct arena *a, void *str);
struct err api_field_names(struct json_cursor *c, struct arena *a, void *name_list);
struct err api_field_token(struct json_cursor *c, struct arena *a, void *u64);
struct err api_field_priority(struct json_cursor *c, struct arena *a, void *u16);
/* An index, by which the run is named from then on. */
struct err api_field_run(struct json_cursor *c, struct arena *a, void *run_ref);
struct err api_field_retry_limit(struct json_cursor *c, struct arena *a, void *i64);
struct err api_field_max_run(struct json_cursor *c, struct arena *a, void *u64);
/* A backoff with all its members. */
struct err api_decode_backoff(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct curve *out);

#define API_POLICIES_MAX 32
/* What the annotations of a job of Armada mean here; policies are added behind those in *out. */
struct err api_decode_annotations(bool strict, struct json_cursor *c, struct arena *arena,
                                  struct job_options *out);
/* The same of a payload in the form of Armada's jobs, whose annotations stand beside podSpec;
 * others have none. */
struct err api_decode_payload_annotations(struct str payload, struct arena *arena,
                                          struct job_options *out);
struct err api_field_policies(struct json_cursor *c, struct arena *a, void *str);

struct name_list {
    const struct str *at;
    size_t count;
};

/* api_depend.c */
/* depends_on, packed as in core/depend.h; when and on_dependency_death, as numbers. */
struct err api_field_depends_on(struct json_cursor *c, struct arena *a, void *str);
struct err api_field_depend_when(struct json_cursor *c, struct arena *a, void *u64);
struct err api_field_depend_death(struct json_cursor *c, struct arena *a, void *u64);
/* Whether these fit together, and with the rest. */
struct err api_check_depends(const struct enqueue *spec);
void api_encode_ids(struct buf *b, struct str ids);

/* api_budget.c */
/* The list of what a job draws on which budgets, and what creates those. */
struct err api_decode_budgets(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct enqueue *spec);
/* The bindings of a job as such a list. */
void api_encode_budgets(struct buf *b, struct str bindings);

/* api_notes.c */
/* The members of a report that leave something with the job. checkpoint reads into a struct
 * news_fields, result into its news.result, and progress is a part of it. */
struct news_fields {
    struct news news;
    struct field_part progress; /* read by api_decode_news */
};
struct err api_field_checkpoint(struct json_cursor *c, struct arena *a, void *news_fields);
struct err api_field_result(struct json_cursor *c, struct arena *a, void *str);
struct err api_decode_news(const struct api *a, struct arena *arena, struct news_fields *f);

/* api_query.c */
/* A whole number of a parameter; name is for the error. */
struct err api_read_number(struct str text, const char *name, int64_t lo, int64_t hi, int64_t *v);
enum params { PARAMS_FILTER, PARAMS_PAGE, PARAMS_CHANGE, PARAMS_RETRY, PARAMS_RESET };
struct list_params {
    struct list_command list;
    struct buf echo; /* the filters, for the links of pages; to be released by the caller */
    uint32_t canary; /* of a retry: so many jobs first; 0: all at once */
};
/* The parameters that say which jobs, and of a page or of a change in bulk which and how. */
struct err api_read_params(const struct http_request *req, enum params kind, struct list_params *p);
struct err api_param_ids(struct str list, struct arena *arena, const struct id **ids,
                         size_t *count);
/* The query of an endpoint that has one parameter, true or false; without it *on stays. */
struct api_param;
struct err api_read_flag(const struct http_request *req, const struct api_param *params, bool *on);
/* Submits a command whose only argument is an id. */
void api_submit_for_id(struct api *a, const struct api_request *r, enum command_kind kind,
                       reply_fn done);

/* api_report.c */
/* The body of a failure report. */
struct err api_decode_failure(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct failure_report *out);
/* A reply_fn that answers 200 with the job of the reply, without payload. */
void api_reply_job(void *call, const struct reply *r);

/* api_patch.c */
struct err api_decode_patch(const struct api *a, const struct http_request *req,
                            struct patch *patch);

/* api_report.c */
/* Reads one report of many. What it refers to is in the arena or in the text. */
struct err api_read_report(const struct api *a, struct json_cursor *c, struct arena *arena,
                           struct run_report *out);

/* api_take.c */
#define API_LEASE_MS     30000 /* unless the worker says otherwise */
#define API_LEASE_MIN_MS 100
#define API_LEASE_MAX_MS ((int64_t)7 * 24 * 3600 * 1000)
/* The end of a row of a table. */
#define API_TOKEN_DOC                                                                              \
    "string /^[0-9a-f]{16}$/: of the run, as it was handed out; of a claim's run it is required"
#define API_RUN_DOC                                                                                \
    "integer 0..$: its index, beside the token; of a stream's run also without", UINT32_MAX
#define API_LEASE_DOC "integer 100..$", API_LEASE_MAX_MS
_Static_assert(API_LEASE_MIN_MS == 100, "API_LEASE_DOC says so");
struct err api_check_lease(span lease);

/* api_encode.c */
/* "a,b" as a list. */
void api_encode_names(struct buf *b, struct str names);
void api_encode_token(struct buf *b, uint64_t token);

#endif
