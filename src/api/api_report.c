/* SPDX-License-Identifier: Apache-2.0 */

/* What workers say of the jobs they hold: success, failure, renew, release. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"
#include "base/utf8.h"
#include "core/culprit.h"

/* A report of no more than which run it is about and what the worker leaves with the job. */
struct report_body {
    struct run_ref run;
    struct str why;
    instant ready_at;
    span delay;
    struct news_fields left;
};

#define BODY(member) offsetof(struct report_body, member)

static const struct field success_table[] = {
    {"token", false, api_field_token, BODY(run.token), true, API_TOKEN_DOC},
    {"run", false, api_field_run, BODY(run), true, API_RUN_DOC},
    {"result", false, api_field_result, BODY(left.news.result), true, "any: kept with the job"},
};
const struct api_body api_success_body = {API_FIELDS(success_table), .optional = true};

static const struct field progress_table[] = {
    {"token", false, api_field_token, BODY(run.token), true, API_TOKEN_DOC},
    {"run", false, api_field_run, BODY(run), true, API_RUN_DOC},
    {"progress", false, field_part, BODY(left.progress), true, "ProgressInput: how far it is"},
    {"checkpoint", false, api_field_checkpoint, BODY(left), .doc = "any: for the next run"},
};
const struct api_body api_progress_body = {API_FIELDS(progress_table),
                                           .rules = "any progress checkpoint?"};

static const struct field release_table[] = {
    {"token", false, api_field_token, BODY(run.token), true, API_TOKEN_DOC},
    {"run", false, api_field_run, BODY(run), true, API_RUN_DOC},
    {"message", false, field_text, BODY(why), true, "string: why, for the reason of the run"},
    {"ready_at", false, field_instant, BODY(ready_at), true,
     "integer 0..: not before, milliseconds since 1970 (UTC)"},
    {"delay_ms", false, field_span, BODY(delay), true,
     "integer 0..: not before so many milliseconds have passed, by the server's clock"},
    {"progress", false, field_part, BODY(left.progress), true, "ProgressInput: how far it is"},
    {"checkpoint", false, api_field_checkpoint, BODY(left), .doc = "any: for the next run"},
};
const struct api_body api_release_body = {API_FIELDS(release_table), .optional = true,
                                          .rules = "ready_at excludes delay_ms"};

static bool has_news(const struct news *n)
{
    return n->has_progress || n->has_checkpoint || n->result.len;
}

static struct err decode_report(struct api *a, const struct api_request *r,
                                const struct field *table, size_t count, struct command *c,
                                struct report_body *body)
{
    TRY(api_path_id(r->params->at[0], c, &body->run.id));
    TRY(api_decode_body(a, r->http, table, count, true, body));
    TRY(api_decode_news(a, r->http->arena, &body->left));
    if (c->kind == CMD_PROGRESS && !has_news(&body->left.news))
        return err_make(ERR_MISSING_FIELD, "progress or checkpoint is required");
    if (instant_is_set(body->ready_at) && body->delay.ms >= 0)
        return err_make(ERR_BAD_VALUE, "ready_at and delay_ms exclude each other");
    return err_none();
}

static void submit_report(struct api *a, const struct api_request *r, enum command_kind kind,
                          const struct field *table, size_t count)
{
    struct report_body body = {.ready_at = INSTANT_NONE, .delay = {-1}};
    struct command c = {.kind = kind, .done = api_reply_empty, .ctx = api_call(a, r)};
    struct err err = decode_report(a, r, table, count, &c, &body);
    if (err.code == ERR_OK)
        err = api_may_report(a, r, &body.run);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.run = body.run;
    c.why = body.why;
    if (instant_is_set(body.ready_at))
        c.not_before = body.ready_at;
    if (body.delay.ms >= 0)
        c.delay = body.delay;
    c.news = has_news(&body.left.news) ? &body.left.news : NULL;
    api_send(a, r, &c);
}

void api_success(struct api *a, const struct api_request *r)
{
    submit_report(a, r, CMD_SUCCEED, success_table, COUNT(success_table));
}

void api_release(struct api *a, const struct api_request *r)
{
    submit_report(a, r, CMD_RELEASE, release_table, COUNT(release_table));
}

void api_progress(struct api *a, const struct api_request *r)
{
    submit_report(a, r, CMD_PROGRESS, progress_table, COUNT(progress_table));
}

/* --- failure --- */

/* The list of containers is read afterwards, because reading it needs the api. */
struct failure_body {
    struct failure_report report;
    struct news_fields left;
    struct field_part containers;
};

/* Any report, as one of many. */
struct any_body {
    struct failure_body said; /* must be first */
    struct str id, outcome;
    instant ready_at;
    span delay, lease;
};

#define EVENTS_MAX 100

#define REPORT(member)    offsetof(struct failure_body, report.member)
#define CONTAINER(member) offsetof(struct container_result, member)
#define CONTAINERS_MAX    100
#define LOG_MAX           16384 /* bytes of the log of a container, and */
#define LOGS_MAX          65536 /* of those of all containers of a run */
#define GRACE_MAX_MS      ((int64_t)7 * 24 * 3600 * 1000)

static struct err read_condition(struct json_cursor *c, struct arena *a, void *out)
{
    struct str name;
    TRY(field_text(c, a, &name));
    if (job_condition_parse_reported(name, out))
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "OOMKilled, Evicted, Preempted, DeadlineExceeded or Unschedulable, not '%.*s'",
                    (int)(name.len < 32 ? name.len : 32), name.at);
}

/* The end of a text, in whole characters and, if there is one, from the start of a line on: a
 * report must not fail because a container wrote much. */
static struct str end_of(struct str text, size_t most)
{
    if (text.len <= most)
        return text;
    const char *end = text.at + text.len, *from = end - most;
    const char *feed = memchr(from - 1, '\n', most + 1);
    if (feed && feed + 1 < end)
        from = feed + 1;
    while (from < end && ((unsigned char)*from & 0xc0) == 0x80)
        from++;
    return (struct str){from, (size_t)(end - from)};
}

static struct err read_log(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *log = out;
    TRY(field_text(c, a, log));
    *log = end_of(*log, LOG_MAX);
    return err_none();
}

#define EXIT_CODE_DOC "integer -2147483648..4294967295"

/* Windows has codes above INT32_MAX; they are kept and shown as the same 32 bits with a sign. */
static struct err read_exit_code(struct json_cursor *c, struct arena *a, void *i32)
{
    int64_t v;
    (void)a;
    TRY(json_read_int(c, INT32_MIN, UINT32_MAX, &v));
    *(int32_t *)i32 = (int32_t)(uint32_t)v;
    return err_none();
}

static const struct field container_table[] = {
    {"name", true, api_field_label, CONTAINER(name), .doc = "string 0..$", .most = JOB_NAME_MAX},
    {"init", false, field_bool, CONTAINER(init), true, "boolean"},
    {"exit_code", false, read_exit_code, CONTAINER(exit_code), true, EXIT_CODE_DOC},
    {"signal", false, field_i32, CONTAINER(signal), true, "integer"},
    {"reason", false, api_field_label, CONTAINER(reason), true, "string 0..$", JOB_NAME_MAX},
    {"message", false, field_text, CONTAINER(message), true, "string"},
    {"log", false, read_log, CONTAINER(log), true,
     "string: the end of what it wrote; the last $ bytes are kept", LOG_MAX},
};
const struct api_body api_container_body = {.name = "FailedContainer", API_FIELDS(container_table)};

static struct err read_container(const struct api *a, struct json_cursor *c, struct arena *arena,
                                 size_t index, struct container_result *out)
{
    char where[32];
    snprintf(where, sizeof where, "containers[%zu]", index);
    if (index == CONTAINERS_MAX)
        return err_make(ERR_TOO_MANY, "containers: at most %d", CONTAINERS_MAX);
    struct err err =
        field_read_object(a->strict, c, arena, container_table, COUNT(container_table), out);
    out->condition = job_condition_of_container(out->reason);
    return err.code == ERR_OK ? err : field_in(err, where);
}

static struct err read_containers(const struct api *a, struct arena *arena, struct failure_body *f)
{
    struct json_cursor *c = &f->containers.at;
    struct failure *failure = &f->report.failure;
    struct container_result *list = arena_zero(arena, CONTAINERS_MAX * sizeof *list);
    size_t logs = 0;
    struct err err = json_enter_array(c);
    if (err.code != ERR_OK)
        return field_in(err, "containers");
    for (;;) {
        bool more;
        struct container_result one = {0};
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        TRY(read_container(a, c, arena, failure->container_count, &one));
        one.log = end_of(one.log, LOGS_MAX - logs);
        logs += one.log.len;
        list[failure->container_count++] = one;
    }
    failure->containers = list;
    return err_none();
}

static struct err read_events(struct json_cursor *c, struct arena *a, void *out)
{
    struct failure_body *f = out;
    struct failure *failure = &f->report.failure;
    struct str *list = arena_zero(a, EVENTS_MAX * sizeof *list);
    failure->pod_events = list;
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        struct str text;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (failure->pod_event_count == EVENTS_MAX)
            return err_make(ERR_TOO_MANY, "at most %d", EVENTS_MAX);
        TRY(field_text(c, a, &text));
        list[failure->pod_event_count++] = text;
    }
}

static struct err read_exception(struct json_cursor *c, struct arena *a, void *out)
{
    struct str name;
    TRY(field_text(c, a, &name));
    if (job_exception_parse(name, out))
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "worker-shutdown, intermittent-task, malformed-payload, resource-unavailable, "
                    "internal-error or superseded, not '%.*s'",
                    (int)(name.len < 64 ? name.len : 64), name.at);
}

static struct err read_culprit(struct json_cursor *c, struct arena *a, void *out)
{
    struct str name;
    TRY(field_text(c, a, &name));
    if (culprit_parse(name, out))
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "job, input, worker, node, cluster, access, dependency, disruption, gang, "
                    "server, deadline or unknown, not '%.*s'",
                    (int)(name.len < 32 ? name.len : 32), name.at);
}

static struct err read_evidence(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *evidence = out;
    TRY(field_text(c, a, evidence));
    evidence->len = utf8_whole(*evidence, CULPRIT_EVIDENCE_MAX);
    return err_none();
}

/* But for the message. */
#define FAILURE_ROWS                                                                               \
    {"error_type", false, field_text, REPORT(failure.error_type), true, "string"},                 \
        {"backtrace", false, field_text, REPORT(failure.backtrace), true, "string"},               \
        {"exit_code", false, read_exit_code, REPORT(failure.exit_code), true, EXIT_CODE_DOC},      \
        {"signal", false, field_i32, REPORT(failure.signal), true, "integer"},                     \
        {"run_ms",   false,                                                                        \
         field_span, REPORT(failure.run_time),                                                     \
         true,       "integer 0..: how long it ran"},                                              \
        {"condition",    false,                                                                    \
         read_condition, REPORT(failure.condition),                                                \
         true,           "string (OOMKilled|Evicted|Preempted|DeadlineExceeded|Unschedulable)"},   \
        {"exception",                                                                              \
         false,                                                                                    \
         read_exception,                                                                           \
         REPORT(exception),                                                                        \
         true,                                                                                     \
         "string "                                                                                 \
         "(worker-shutdown|intermittent-task|malformed-payload|resource-unavailable|internal-"     \
         "error|"                                                                                  \
         "superseded): it was not the work that failed"},                                          \
        {"culprit",                                                                                \
         false,                                                                                    \
         read_culprit,                                                                             \
         REPORT(failure.culprit),                                                                  \
         true,                                                                                     \
         "string "                                                                                 \
         "(job|input|worker|node|cluster|access|dependency|disruption|gang|server|deadline|"       \
         "unknown): whose fault it was; without it conditions, exit codes and the like tell"},     \
        {"culprit_evidence",                                                                       \
         false,                                                                                    \
         read_evidence,                                                                            \
         REPORT(failure.culprit_evidence),                                                         \
         true,                                                                                     \
         "string: how that is known, a sentence; the first $ bytes are kept",                      \
         CULPRIT_EVIDENCE_MAX},                                                                    \
        {"node",                                                                                   \
         false,                                                                                    \
         api_field_label,                                                                          \
         REPORT(failure.node),                                                                     \
         true,                                                                                     \
         "string 0..$: where it ran",                                                              \
         JOB_NAME_MAX},                                                                            \
        {"termination_message",                                                                    \
         false,                                                                                    \
         field_text,                                                                               \
         REPORT(failure.termination_message),                                                      \
         true,                                                                                     \
         "string"},                                                                                \
        {"category", false,         api_field_label, REPORT(failure.category),                     \
         true,       "string 0..$", JOB_NAME_MAX},                                                 \
        {"subcategory", false,         api_field_label, REPORT(failure.subcategory),               \
         true,          "string 0..$", JOB_NAME_MAX},                                              \
        {"pod_error", false, field_text, REPORT(failure.pod_error), true, "string"},               \
        {"pod_events", false, read_events, 0, true, "string[..$]", EVENTS_MAX},                    \
        {"containers",  false,                                                                     \
         field_part,    offsetof(struct failure_body, containers),                                 \
         true,          "FailedContainer[..$]",                                                    \
         CONTAINERS_MAX},                                                                          \
        {"grace_period_ms", false, field_span, REPORT(grace), true, "integer 0..$", GRACE_MAX_MS}, \
        {"retry_at",       false, field_instant,                                                   \
         REPORT(retry_at), true,  "integer 0..: not before, milliseconds since 1970 (UTC)"},       \
        {"kill", false, field_bool, REPORT(kill), true, "boolean: no retry"},                      \
        {"token", false, api_field_token, REPORT(ref.token), true, API_TOKEN_DOC},                 \
        {"run", false, api_field_run, REPORT(ref), true, API_RUN_DOC},                             \
        {"progress", false,                                                                        \
         field_part, offsetof(struct failure_body, left.progress),                                 \
         true,       "ProgressInput: how far it is"},                                              \
    {                                                                                              \
        "checkpoint", false, api_field_checkpoint, offsetof(struct failure_body, left),            \
            .doc = "any: for the next run"                                                         \
    }

static const struct field failure_table[] = {
    {"message", true, field_text, REPORT(failure.message), .doc = "string"},
    FAILURE_ROWS,
};
const struct api_body api_failure_body = {.name = "Failure", API_FIELDS(failure_table)};

static struct err check_culprit(const struct failure *f)
{
    if (f->culprit_evidence.len && !f->culprit)
        return err_make(ERR_UNPROCESSABLE, "culprit_evidence: only with culprit");
    return err_none();
}

struct err api_decode_failure(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct failure_report *out)
{
    struct failure_body body = {.report = *out};
    TRY(field_read_object(a->strict, c, arena, failure_table, COUNT(failure_table), &body));
    if (body.containers.given)
        TRY(read_containers(a, arena, &body));
    *out = body.report;
    return check_culprit(&out->failure);
}

static struct err check_grace(const struct failure_report *r)
{
    if (r->grace.ms > 0 && r->failure.condition != CONDITION_PREEMPTED)
        return err_make(ERR_UNPROCESSABLE, "grace_period_ms: only with condition Preempted");
    if (r->grace.ms > GRACE_MAX_MS)
        return err_make(ERR_BAD_VALUE, "grace_period_ms: at most %lld, not %lld",
                        (long long)GRACE_MAX_MS, (long long)r->grace.ms);
    return err_none();
}

void api_reply_job(void *ctx, const struct reply *r)
{
    const struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    struct job job = r->jobs[0];
    job.payload = (struct str){0};
    shape_write(b, &api_job_shape, &job, SHAPE_AS_IT_IS);
    api_reply_json(c->x, 200, b);
}

static struct err check_failure(const struct api *a, struct arena *arena, struct failure_body *body)
{
    if (body->containers.given)
        TRY(read_containers(a, arena, body));
    TRY(check_grace(&body->report));
    return check_culprit(&body->report.failure);
}

static struct err decode_failure(struct api *a, const struct api_request *r, struct command *c,
                                 struct failure_body *body)
{
    TRY(api_path_id(r->params->at[0], c, &body->report.ref.id));
    TRY(api_decode_body(a, r->http, failure_table, COUNT(failure_table), false, body));
    TRY(check_failure(a, r->http->arena, body));
    return api_decode_news(a, r->http->arena, &body->left);
}

/* Zizq schedules a retry whenever it is due, and its clients read that in the answer; a job whose
 * retry_at has passed is ready from the next turn on. */
static void reply_scheduled(void *ctx, const struct reply *r)
{
    if (r->err.code != ERR_OK || r->count != 1 || r->repeated ||
        r->jobs->state.status != STATUS_READY) {
        api_reply_job(ctx, r);
        return;
    }
    struct job job = *r->jobs;
    struct reply copy = *r;
    job.state.status = STATUS_SCHEDULED;
    copy.jobs = &job;
    api_reply_job(ctx, &copy);
}

void api_failure(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_FAIL, .done = api_reply_job, .ctx = api_call(a, r)};
    struct failure_body body = {
        .report = {.retry_at = INSTANT_NONE, .failure.run_time = {-1}, .grace = {-1}}};
    struct err err = decode_failure(a, r, &c, &body);
    if (err.code == ERR_OK)
        err = api_may_report(a, r, &body.report.ref);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.news = has_news(&body.left.news) ? &body.left.news : NULL;
    c.fail = body.report;
    if (instant_is_set(body.report.retry_at))
        c.done = reply_scheduled;
    api_send(a, r, &c);
}

/* --- the end of a run that was preempted --- */

struct terminated_fields {
    int32_t run;
    uint64_t token;
};

static const struct field terminated_table[] = {
    {"run", true, field_i32, offsetof(struct terminated_fields, run), .doc = "integer 0..$",
     .most = INT32_MAX},
    {"token", true, api_field_token, offsetof(struct terminated_fields, token),
     .doc = "string /^[0-9a-f]{16}$/: of the run"},
};
const struct api_body api_terminated_body = {API_FIELDS(terminated_table)};

void api_terminated(struct api *a, const struct api_request *r)
{
    struct terminated_fields f = {0};
    struct command c = {.kind = CMD_TERMINATED, .done = api_reply_job, .ctx = api_call(a, r)};
    struct err err = api_path_id(r->params->at[0], &c, &c.terminated.run.id);
    if (err.code == ERR_OK)
        err = api_decode_body(a, r->http, terminated_table, COUNT(terminated_table), false, &f);
    if (err.code == ERR_OK && f.run < 0)
        err = err_make(ERR_BAD_VALUE, "run: a number from 0, not %d", f.run);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.terminated.run.token = f.token;
    c.terminated.index = (uint32_t)f.run;
    api_send(a, r, &c);
}

/* --- renew --- */

struct renew_fields {
    struct run_ref run;
    span lease;
    struct news_fields left;
};

static const struct field renew_table[] = {
    {"token", false, api_field_token, offsetof(struct renew_fields, run.token), true,
     API_TOKEN_DOC},
    {"run", false, api_field_run, offsetof(struct renew_fields, run), true, API_RUN_DOC},
    {"lease_ms", false, field_span, offsetof(struct renew_fields, lease), true, API_LEASE_DOC},
    {"progress", false, field_part, offsetof(struct renew_fields, left.progress), true,
     "ProgressInput: how far it is"},
    {"checkpoint", false, api_field_checkpoint, offsetof(struct renew_fields, left),
     .doc = "any: for the next run"},
};
const struct api_body api_renew_body = {API_FIELDS(renew_table), .optional = true};

static const struct shape_member renewed_members[] = {
    {MEMBER(struct reply, lease_end, "lease_expires_at", ALWAYS, "end of the lease")},
};
const struct shape api_renewed_shape = {.name = "Renewed", SHAPE_MEMBERS(renewed_members)};

static void on_renewed(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_renewed_shape);
}

static struct err decode_renewal(struct api *a, const struct api_request *r, struct command *c,
                                 struct renew_fields *f)
{
    TRY(api_path_id(r->params->at[0], c, &f->run.id));
    TRY(api_decode_body(a, r->http, renew_table, COUNT(renew_table), true, f));
    TRY(api_check_lease(f->lease));
    return api_decode_news(a, r->http->arena, &f->left);
}

void api_renew(struct api *a, const struct api_request *r)
{
    struct renew_fields f = {.lease = {API_LEASE_MS}};
    struct command c = {.kind = CMD_RENEW, .done = on_renewed, .ctx = api_call(a, r)};
    struct err err = decode_renewal(a, r, &c, &f);
    if (err.code == ERR_OK)
        err = api_may_report(a, r, &f.run);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.renew.run = f.run;
    c.renew.lease = f.lease;
    c.news = has_news(&f.left.news) ? &f.left.news : NULL;
    api_send(a, r, &c);
}

/* --- one of many --- */

#define ANY(member) offsetof(struct any_body, member)

static const struct field any_table[] = {
    {"id", true, field_text, ANY(id), .doc = "JobId"},
    {"outcome", true, field_text, ANY(outcome),
     .doc = "string (success|failure|release|progress|renew): what is reported; the other members "
            "are those of a report of this alone"},
    {"message", false, field_text, ANY(said.report.failure.message), true,
     "string: of a failure, which needs it; of a release: why"},
    FAILURE_ROWS,
    {"result", false, api_field_result, ANY(said.left.news.result), true,
     "any: of a success, kept with the job"},
    {"ready_at", false, field_instant, ANY(ready_at), true,
     "integer 0..: of a release: not before, milliseconds since 1970 (UTC)"},
    {"delay_ms", false, field_span, ANY(delay), true,
     "integer 0..: of a release: not before so many milliseconds have passed"},
    {"lease_ms", false, field_span, ANY(lease), true, API_LEASE_DOC},
};
const struct api_body api_report_body = {.name = "ReportInput", API_FIELDS(any_table)};
_Static_assert(ANY(said) == 0, "the rows of a failure are of its first member");

#define OUTCOME(word, kind, table)                                                                 \
    {                                                                                              \
        word, CMD_##kind, table, COUNT(table)                                                      \
    }

static const struct outcome_of {
    const char *word;
    enum command_kind kind;
    const struct field *fields; /* of such a report alone */
    size_t count;
} outcomes[] = {
    OUTCOME("success", SUCCEED, success_table), OUTCOME("failure", FAIL, failure_table),
    OUTCOME("release", RELEASE, release_table), OUTCOME("progress", PROGRESS, progress_table),
    OUTCOME("renew", RENEW, renew_table),
};

static const struct outcome_of *find_outcome(struct str word)
{
    for (size_t i = 0; i < COUNT(outcomes); i++)
        if (str_eq(word, str_from(outcomes[i].word)))
            return &outcomes[i];
    return NULL;
}

static bool has_field(const struct outcome_of *o, const char *name)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->fields[i].name, name) == 0)
            return true;
    return false;
}

/* A member of another outcome would be without effect. The first two rows are of all. What a report
 * lacks or has too much for its outcome is the fault of this report alone: no schema says it. */
static struct err check_given(const struct outcome_of *o, uint64_t given)
{
    for (size_t i = 2; i < COUNT(any_table); i++)
        if (given & (uint64_t)1 << i && !has_field(o, any_table[i].name))
            return err_make(ERR_UNPROCESSABLE, "%s: not with the outcome '%s'", any_table[i].name,
                            o->word);
    return err_none();
}

static struct err check_any(const struct api *a, struct arena *arena, enum command_kind kind,
                            struct any_body *f)
{
    if (kind == CMD_FAIL && !f->said.report.failure.message.at)
        return err_make(ERR_UNPROCESSABLE, "message is required");
    TRY(check_failure(a, arena, &f->said));
    TRY(api_check_lease(f->lease));
    TRY(api_decode_news(a, arena, &f->said.left));
    if (kind == CMD_PROGRESS && !has_news(&f->said.left.news))
        return err_make(ERR_UNPROCESSABLE, "progress or checkpoint is required");
    if (instant_is_set(f->ready_at) && f->delay.ms >= 0)
        return err_make(ERR_UNPROCESSABLE, "ready_at and delay_ms exclude each other");
    return err_none();
}

static void keep_any(struct arena *arena, const struct any_body *f, struct run_report *out)
{
    const struct news *news = &f->said.left.news;
    if (out->kind == CMD_FAIL) {
        struct failure_report *failure = arena_get(arena, sizeof *failure);
        *failure = f->said.report;
        out->failure = failure;
    } else if (out->kind == CMD_RENEW) {
        out->lease = f->lease;
    } else if (out->kind == CMD_RELEASE) {
        out->message = f->said.report.failure.message;
        out->not_before = instant_is_set(f->ready_at) ? f->ready_at : (instant){0};
        out->delay = f->delay.ms >= 0 ? f->delay : (span){0};
    }
    if (!has_news(news))
        return;
    struct news *kept = arena_get(arena, sizeof *kept);
    *kept = *news;
    out->news = kept;
}

struct err api_read_report(const struct api *a, struct json_cursor *c, struct arena *arena,
                           struct run_report *out)
{
    uint64_t given;
    struct any_body f = {
        .said.report = {.retry_at = INSTANT_NONE, .failure.run_time = {-1}, .grace = {-1}},
        .ready_at = INSTANT_NONE,
        .delay = {-1},
        .lease = {API_LEASE_MS}};
    TRY(field_read_given(a->strict, c, arena, any_table, COUNT(any_table), &f, &given));
    const struct outcome_of *o = find_outcome(f.outcome);
    if (!o)
        return err_make(ERR_BAD_VALUE,
                        "outcome: success, failure, release, progress or renew, not '%.*s'",
                        (int)(f.outcome.len < 32 ? f.outcome.len : 32), f.outcome.at);
    TRY(check_given(o, given));
    TRY(id_parse(f.id, &f.said.report.ref.id));
    TRY(check_any(a, arena, o->kind, &f));
    *out = (struct run_report){.kind = o->kind, .run = f.said.report.ref};
    keep_any(arena, &f, out);
    return err_none();
}
