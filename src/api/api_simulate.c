/* SPDX-License-Identifier: Apache-2.0 */

/* POST /retry-policies/simulate: what a draft would have made of failures, those that are known or
 * those in the request. Known are those of stored jobs and those of the failure history, which are
 * partly the same: a job that is stored counts as it is there, all others as the history has them.
 * One job at a time goes to the backend, so that other requests come in between. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_history.h"
#include "api/api_routes.h"
#include "api/api_simulate.h"
#include "base/array.h"
#include "policy/fields.h"
#include "policy/policy_document.h"
#include "policy/settings_document.h"
#include "policy/simulate.h"

#define FAILURES_DEFAULT 100
#define FAILURES_MAX     1000
#define DRAFTS_MAX       API_POLICIES_MAX
/* Of all drafts; one alone may have as much. */
#define PATTERN_BYTES_MAX FIELDS_PATTERN_BYTES_MAX
/* Jobs looked at for those that have failed, newest first. */
#define LOOK_MAX 200000

struct sums {
    uint64_t retries, dead, window_max;
    bool more;
};

struct simulation {
    struct call call; /* must be first */
    struct arena *arena;
    struct policy_document drafts[DRAFTS_MAX];
    const struct policy *policies[DRAFTS_MAX];
    size_t draft_count;
    struct policy_change settings;
    bool has_settings;
    struct name_list queues, types;
    int64_t limit;
    /* Those of the history, in its order, and then further ones that are stored; or one for each
     * failure that was given. */
    struct job *jobs;
    struct run *given; /* NULL: known ones */
    size_t job_count, next;
    struct api_history history;
    struct simulate_job asked; /* of the command under way; its failures are not kept */
    uint64_t deleted, cut;     /* jobs that only it knows; of these, those that it knows in part */
    bool truncated;
    struct buf out;
    size_t written, failures; /* jobs and failures in out */
    struct sums draft, today;
    uint64_t lost; /* completed jobs that the draft would have ended as dead */
};

static void step(struct simulation *s);

/* --- the end --- */

static void release(struct simulation *s)
{
    for (size_t i = 0; i < s->draft_count; i++)
        policy_document_free(&s->drafts[i]);
    buf_fini(&s->out);
    api_history_fini(&s->history);
}

static void fail(struct simulation *s, const struct err *err)
{
    struct http_exchange *x = s->call.x;
    release(s); /* it lies in the request's memory, which goes with the reply */
    api_reply_error(x, err, NULL);
}

static const struct shape_member sums_members[] = {
    {MEMBER(struct sums, retries, "retries", ALWAYS, "of all jobs together")},
    {MEMBER(struct sums, more, "more", ALWAYS, "there would be even more of them")},
    {MEMBER(struct sums, dead, "dead", ALWAYS, "jobs")},
    {MEMBER(struct sums, window_max, "window_ms", ALWAYS, "the longest of a job's")},
};
static const struct shape sums_shape = {.name = "SimulatedSums", SHAPE_MEMBERS(sums_members)};

static const struct shape_member history_members[] = {
    {MEMBER(struct simulation, history.kept, "kept", ALWAYS, "entries")},
    {MEMBER(struct simulation, history.looked_at, "looked_at", ALWAYS, "of these")},
    {MEMBER(struct simulation, deleted, "deleted", ALWAYS,
            "jobs of the answer that only it knows")},
    {MEMBER(struct simulation, cut, "cut", ALWAYS,
            "jobs left out: their first failures are not kept any more")},
};
static const struct shape history_shape = {SHAPE_MEMBERS(history_members)};

static bool is_of_history(const void *simulation)
{
    return !((const struct simulation *)simulation)->given;
}

static void write_extra(struct buf *b, const void *simulation)
{
    const struct simulation *s = simulation;
    buf_int(b, (int64_t)(s->draft.retries - s->today.retries));
}

static const struct shape_member summary_members[] = {
    {MEMBER(struct simulation, written, "jobs", ALWAYS, NULL)},
    {MEMBER(struct simulation, failures, "failures", ALWAYS, NULL)},
    {MEMBER(struct simulation, truncated, "truncated", ALWAYS, "there are more failures")},
    {MEMBER_OBJECT(struct simulation, draft, "draft", ALWAYS, &sums_shape, NULL)},
    {MEMBER_OBJECT(struct simulation, today, "today", ALWAYS, &sums_shape, NULL)},
    {MEMBER_MADE("extra_attempts", ALWAYS, "integer", write_extra, "of the draft")},
    {MEMBER(struct simulation, lost, "lost_completions", ALWAYS,
            "completed jobs that the draft would have ended as dead")},
    {MEMBER_INNER("history", IF_SET, &history_shape,
                  "the failure history; not with failures that were given",
                  .is_set = is_of_history)},
};
static const struct shape summary_shape = {SHAPE_MEMBERS(summary_members)};

/* They were written one by one. */
static void write_jobs(struct buf *b, const void *out)
{
    buf_byte(b, '[');
    buf_str(b, buf_view(out));
    buf_byte(b, ']');
}

static const struct shape_member simulation_members[] = {
    {MEMBER_OTHER(struct simulation, out, "jobs", ALWAYS, "SimulatedJob[]", write_jobs, NULL)},
    {MEMBER_INNER("summary", ALWAYS, &summary_shape, NULL)},
};
const struct shape api_simulation_shape = {.name = "Simulation", SHAPE_MEMBERS(simulation_members)};

static void finish(struct simulation *s)
{
    struct buf body = {0};
    shape_write(&body, &api_simulation_shape, s, SHAPE_AS_IT_IS);
    struct http_exchange *x = s->call.x;
    release(s); /* it lies in the request's memory, which goes with the reply */
    api_reply_json(x, 200, &body);
    buf_fini(&body);
}

/* --- one job --- */

static void sum_up(struct sums *t, const struct simulate_side *side)
{
    t->retries += side->retries;
    t->dead += side->dead;
    t->more |= side->more;
    if ((uint64_t)side->window.ms > t->window_max)
        t->window_max = (uint64_t)side->window.ms;
}

static void on_simulated(void *ctx, const struct reply *r)
{
    struct simulation *s = ctx;
    if (r->err.code != ERR_OK) {
        fail(s, &r->err);
        return;
    }
    const struct simulate_result *result = r->simulated;
    buf_str(&s->out, s->written++ ? STR(",\n") : STR(""));
    api_simulate_encode(&s->out, &s->asked, result);
    s->truncated |= result->truncated;
    sum_up(&s->draft, &result->draft);
    sum_up(&s->today, &result->today);
    s->lost += s->asked.completed && result->draft.died_early && !result->today.died_early;
    step(s);
}

static void judge(struct simulation *s, const struct run *runs, size_t count, bool deleted)
{
    const struct job *job = &s->jobs[s->next++];
    s->asked = (struct simulate_job){.job = job,
                                     .completed = job->state.status == STATUS_COMPLETED,
                                     .stored = !s->given,
                                     .deleted = deleted};
    struct simulate_job what = s->asked;
    what.failed = runs;
    what.failures = count;
    struct command c = {.kind = CMD_POLICY_SIMULATE, .done = on_simulated, .ctx = s};
    c.simulate = (struct simulate_command){
        .drafts = s->policies,
        .draft_count = s->draft_count,
        .settings = s->has_settings ? &s->settings : NULL,
        .what = &what,
    };
    s->failures += count;
    backend_submit(s->call.api->backend, &c);
}

/* The job is not stored. Without its first failures nobody knows what its others would have been
 * judged by. */
static void judge_deleted(struct simulation *s)
{
    const struct api_history_job *j = s->next < s->history.count ? s->history.jobs[s->next] : NULL;
    size_t left = (size_t)s->limit - s->failures;
    if (j && j->found == j->wanted) {
        for (size_t i = 0; s->call.blind && i < j->wanted; i++)
            api_hide_log(&j->runs[i]);
        s->deleted++;
        s->truncated |= j->wanted > left;
        judge(s, j->runs, j->wanted < left ? j->wanted : left, true);
        return;
    }
    s->cut += j != NULL;
    s->next++;
    step(s);
}

/* What a container wrote may quote a payload: whoever may not see that could ask for it piece by
 * piece, by the patterns of a draft. For them the failures have none; what is given is the
 * sender's own. */
static void on_runs(void *ctx, const struct reply *r)
{
    struct simulation *s = ctx;
    api_hide_logs(&s->call, r);
    if (r->err.code == ERR_OK && r->count) {
        s->truncated |= r->more;
        judge(s, r->runs, r->count, false);
    } else if (r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND) {
        judge_deleted(s);
    } else {
        fail(s, &r->err);
    }
}

static void step(struct simulation *s)
{
    size_t left = (size_t)s->limit - s->failures;
    if (s->next == s->job_count || left == 0) {
        s->truncated |= s->next < s->job_count;
        finish(s);
        return;
    }
    if (s->given) {
        judge(s, &s->given[s->next], 1, false);
        return;
    }
    struct command c = {.kind = CMD_RUNS, .done = on_runs, .ctx = s};
    c.runs = (struct runs_command){
        .id = s->jobs[s->next].id, .failures_only = true, .from = -1, .limit = (uint32_t)left};
    backend_submit(s->call.api->backend, &c);
}

/* --- the jobs --- */

static struct job own_job(struct arena *a, const struct job *from)
{
    struct job job = {.id = from->id, .state.status = from->state.status};
    job.queue = arena_copy(a, from->queue);
    job.type = arena_copy(a, from->type);
    job.retry_limit = from->retry_limit;
    job.backoff = from->backoff;
    job.options.retry_policies = arena_copy(a, from->options.retry_policies);
    job.options.memory = from->options.memory;
    job.options.cpu = from->options.cpu;
    job.options.when_no_policy = from->options.when_no_policy;
    job.options.fail_fast = from->options.fail_fast;
    return job;
}

static void on_jobs(void *ctx, const struct reply *r)
{
    struct simulation *s = ctx;
    if (r->err.code != ERR_OK) {
        fail(s, &r->err);
        return;
    }
    const struct api_history *h = &s->history;
    s->jobs = arena_zero(s->arena, (h->count + r->count) * sizeof *s->jobs + 1);
    for (size_t i = 0; i < r->count; i++) {
        struct api_history_job *known = api_history_find(h, r->jobs[i].id);
        struct job *job = known ? &known->job : &s->jobs[h->count + s->job_count++];
        *job = own_job(s->arena, &r->jobs[i]);
    }
    for (size_t i = 0; i < h->count; i++)
        s->jobs[i] = h->jobs[i]->job;
    s->job_count += h->count;
    s->truncated = r->more || h->more;
    step(s);
}

static void on_history(void *ctx, const struct err *err)
{
    struct simulation *s = ctx;
    if (err->code != ERR_OK) {
        fail(s, err);
        return;
    }
    struct command c = {.kind = CMD_LIST, .done = on_jobs, .ctx = s};
    c.list = (struct list_command){
        .backwards = true, .limit = (uint32_t)s->limit, .look_max = LOOK_MAX, .no_payload = true};
    c.list.filter.queues = s->queues.at;
    c.list.filter.queue_count = s->queues.count;
    c.list.filter.types = s->types.at;
    c.list.filter.type_count = s->types.count;
    c.list.filter.attempts = (struct range){true, 1, UINT32_MAX};
    backend_submit(s->call.api->backend, &c);
}

static void find_jobs(struct simulation *s)
{
    struct api_history *h = &s->history;
    h->backend = s->call.api->backend;
    h->arena = s->arena;
    h->queues = s->queues;
    h->types = s->types;
    h->limit = (size_t)s->limit;
    h->done = on_history;
    h->ctx = s;
    api_history_read(h);
}

/* --- the request --- */

struct body {
    struct str policies, settings;
    struct field_part failures;
    struct name_list queues, types;
    int64_t limit;
};

static struct err read_limit(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 1, FAILURES_MAX, out);
}

static const struct field body_table[] = {
    {"policies", true, field_any, offsetof(struct body, policies),
     .doc =
         "AnyRetryPolicy[..$]: drafts, each of another name; none: what the settings alone change",
     .most = DRAFTS_MAX},
    {"settings", false, field_any, offsetof(struct body, settings), true,
     "RetrySettingsInput: drafts of them"},
    {"queues", false, api_field_names, offsetof(struct body, queues), true, "string[]"},
    {"types", false, api_field_names, offsetof(struct body, types), true, "string[]"},
    {"limit", false, read_limit, offsetof(struct body, limit), true, "integer 1..$", FAILURES_MAX},
    {"failures", false, field_part, offsetof(struct body, failures), true,
     "SimulatedFailure[..$]: instead of jobs that failed", FAILURES_MAX},
};
const struct api_body api_simulate_body = {API_FIELDS(body_table)};

static struct err read_document(struct str json, struct arena *a, const struct document_node **root)
{
    struct document_list list;
    struct document_fault fault = {0};
    if (document_read(json, DOCUMENT_JSON, a, &list, &fault) && document_only(&list, root, &fault))
        return err_none();
    return document_fault_err(&fault);
}

/* The offset is that in the part, not in the body; the path in the message says where. */
static struct err part_err(struct document_fault *fault)
{
    fault->line = fault->column = 0;
    return document_fault_err(fault);
}

static struct err read_drafts(struct simulation *s, struct str json)
{
    const struct document_node *root;
    uint64_t pattern_bytes = 0;
    TRY(read_document(json, s->arena, &root));
    if (root->type != DOCUMENT_LIST || root->count > DRAFTS_MAX)
        return err_make(ERR_BAD_VALUE, "policies: expected a list of at most %d retry policies",
                        DRAFTS_MAX);
    for (const struct document_node *n = root->first; n; n = n->next) {
        struct document_fault fault = {0};
        char where[32];
        snprintf(where, sizeof where, "policies[%zu]", s->draft_count);
        if (!policy_document_read(n, &s->drafts[s->draft_count], &fault))
            return field_in(part_err(&fault), where);
        pattern_bytes += s->drafts[s->draft_count].pattern_bytes;
        const struct policy *p = &s->drafts[s->draft_count].policy;
        s->policies[s->draft_count++] = p;
        for (size_t i = 0; i + 1 < s->draft_count; i++)
            if (str_eq(s->policies[i]->name, p->name))
                return err_make(ERR_BAD_VALUE, "%s: policies[%zu] has the same name", where, i);
        if (pattern_bytes > PATTERN_BYTES_MAX)
            return err_make(
                ERR_TOO_MANY,
                "%s: the regular expressions of all drafts may have %llu bytes, compiled", where,
                (unsigned long long)PATTERN_BYTES_MAX);
    }
    return err_none();
}

static struct err read_settings(struct simulation *s, struct str json)
{
    const struct document_node *root;
    struct document_fault fault = {0};
    if (!json.len)
        return err_none();
    TRY(read_document(json, s->arena, &root));
    s->has_settings = settings_document_read(root, "settings", s->arena, &s->settings, &fault);
    if (s->has_settings)
        return err_none();
    return part_err(&fault);
}

/* {"queue", "retry_policies", "failure": {as in a report}} */
struct given {
    struct str queue, policies;
    struct field_part failure;
};

static const struct field given_table[] = {
    {"queue", false, api_field_name, offsetof(struct given, queue), true, "string 1..$",
     JOB_NAME_MAX},
    {"retry_policies", false, api_field_policies, offsetof(struct given, policies), true,
     "string[..$]", API_POLICIES_MAX},
    {"failure", true, field_part, offsetof(struct given, failure), .doc = "Failure"},
};
const struct api_body api_given_body = {.name = "SimulatedFailure", API_FIELDS(given_table)};

static struct err read_given(struct simulation *s, struct json_cursor *c, struct job *job,
                             struct run *run)
{
    struct given g = {0};
    struct failure_report report = {.retry_at = INSTANT_NONE, .failure.run_time = {-1}};
    const struct api *a = s->call.api;
    TRY(field_read_object(a->strict, c, s->arena, given_table, COUNT(given_table), &g));
    TRY(api_decode_failure(a, &g.failure.at, s->arena, &report));
    *job = (struct job){.queue = g.queue, .retry_limit = RETRY_LIMIT_DEFAULT};
    job->options.retry_policies = g.policies;
    *run = (struct run){.outcome = report.exception ? report.exception : OUTCOME_FAILED,
                        .failure = report.failure};
    return err_none();
}

static struct err read_failures(struct simulation *s, struct json_cursor *c)
{
    size_t cap = 0;
    s->given = arena_get(s->arena, 1);
    struct err err = json_enter_array(c);
    for (bool more = true; err.code == ERR_OK;) {
        err = json_next_element(c, &more);
        if (err.code != ERR_OK || !more)
            break;
        if (s->job_count == FAILURES_MAX)
            return err_make(ERR_TOO_MANY, "failures: at most %d", FAILURES_MAX);
        if (s->job_count == cap) {
            const size_t job = sizeof *s->jobs, run = sizeof *s->given, n = s->job_count;
            cap = cap ? cap * 2 : 16;
            s->jobs = arena_resize(s->arena, s->jobs, n * job, cap * job);
            s->given = arena_resize(s->arena, s->given, n * run, cap * run);
        }
        char where[32];
        snprintf(where, sizeof where, "failures[%zu]", s->job_count);
        err = read_given(s, c, &s->jobs[s->job_count], &s->given[s->job_count]);
        if (err.code != ERR_OK)
            return field_in(err, where);
        s->job_count++;
    }
    return err.code == ERR_OK ? err : field_in(err, "failures");
}

static struct err read_body(struct simulation *s, const struct http_request *req)
{
    struct body b = {.limit = FAILURES_DEFAULT};
    TRY(api_decode_body(s->call.api, req, body_table, COUNT(body_table), false, &b));
    TRY(read_drafts(s, b.policies));
    TRY(read_settings(s, b.settings));
    s->queues = b.queues;
    s->types = b.types;
    s->limit = b.limit;
    if (!b.failures.given)
        return err_none();
    if (b.queues.count || b.types.count)
        return err_make(ERR_BAD_VALUE, "queues and types are about stored failures; failures that "
                                       "are given say which queue is meant");
    s->limit = FAILURES_MAX;
    return read_failures(s, &b.failures.at);
}

void api_policy_simulate(struct api *a, const struct api_request *r)
{
    struct simulation *s = ARENA_NEW(r->http->arena, struct simulation);
    /* The texts are needed for longer than this call. */
    struct http_request kept = *r->http;
    kept.body = arena_copy(r->http->arena, r->http->body);
    s->call = *api_call(a, r);
    s->arena = r->http->arena;
    struct err err = read_body(s, &kept);
    if (err.code != ERR_OK) {
        fail(s, &err);
        return;
    }
    if (s->given)
        step(s);
    else
        find_jobs(s);
}
