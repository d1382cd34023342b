/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs/reports: many reports of all kinds by one request. Each counts or not for itself. */

#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/array.h"
#include "wire/field_list.h"

#define REPORTS_MAX 10000

/* --- the request --- */

struct reports_body {
    struct field_part reports;
};

static const struct field reports_table[] = {
    {"reports", true, field_part, offsetof(struct reports_body, reports),
     .doc = "ReportInput[1..$]", .most = REPORTS_MAX},
};
const struct api_body api_reports_body = {API_FIELDS(reports_table)};

struct report_list {
    const struct api *api;
    const struct api_request *request;
    struct run_report *at;
    size_t count, cap;
};

struct only_id {
    struct str id;
};

static const struct field id_table[] = {
    {"id", true, field_text, offsetof(struct only_id, id)},
};

/* What is too large, or cannot be, is the fault of this one report; what is malformed is the
 * request's. */
static bool is_of_one(const struct err *err)
{
    int status = err_status(err->code);
    return status == 413 || status == 422;
}

static struct err refuse(struct arena *a, struct json_cursor *c, const struct err *why,
                         struct run_report *out)
{
    struct only_id f = {0};
    TRY(field_read_object(false, c, a, id_table, COUNT(id_table), &f));
    *out = (struct run_report){
        .kind = CMD_PROGRESS, .refused = why->code, .message = arena_copy(a, str_from(why->msg))};
    return id_parse(f.id, &out->run.id);
}

static struct err read_report(void *ctx, struct json_cursor *c)
{
    struct report_list *l = ctx;
    struct arena *a = l->request->http->arena;
    struct json_cursor start = *c;
    if (l->count == REPORTS_MAX)
        return err_make(ERR_TOO_MANY, "reports: at most %d in one request", REPORTS_MAX);
    ARENA_GROW(a, l->at, l->count, l->cap, 64);
    struct run_report *one = &l->at[l->count];
    struct err err = api_read_report(l->api, c, a, one);
    if (is_of_one(&err)) {
        *c = start;
        err = refuse(a, c, &err, one);
    } else if (err.code == ERR_OK) {
        struct err may = api_may_report(l->api, l->request, &one->run);
        one->refused = may.code;
        if (may.code != ERR_OK)
            one->message = arena_copy(a, str_from(may.msg));
    }
    l->count += err.code == ERR_OK;
    return err;
}

/* The reports refer to the body, which they have to outlast. */
static struct err decode(struct api *a, const struct api_request *r, struct report_list *l)
{
    struct reports_body f = {0};
    struct http_request own = *r->http;
    size_t count;
    own.body = arena_copy(own.arena, own.body);
    TRY(api_decode_body(a, &own, reports_table, COUNT(reports_table), false, &f));
    struct err err = field_list(&f.reports.at, read_report, l, &count);
    if (err.code == ERR_OK && !count)
        err = err_make(ERR_BAD_VALUE, "must not be empty");
    return err.code == ERR_OK || err.code == ERR_TOO_MANY ? err : field_in(err, "reports");
}

/* --- repetitions --- */

struct placed {
    const struct run_report *report;
    uint32_t place;
};

static bool ends_run(const struct run_report *r)
{
    return r->kind == CMD_SUCCEED || r->kind == CMD_FAIL || r->kind == CMD_RELEASE;
}

static int compare_numbers(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int compare_ends(const struct run_report *x, const struct run_report *y)
{
    int order = id_cmp(x->run.id, y->run.id);
    if (!order)
        order = compare_numbers(x->run.token, y->run.token);
    if (!order)
        order = compare_numbers(x->run.by_index ? x->run.index + UINT64_C(1) : 0,
                                y->run.by_index ? y->run.index + UINT64_C(1) : 0);
    return order ? order : compare_numbers(x->kind, y->kind);
}

static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int order = compare_ends(x->report, y->report);
    return order ? order : compare_numbers(x->place, y->place);
}

/* Sorts them, since a client could choose ids that collide in a hash table. */
static void find_repetitions(struct report_list *l, struct arena *a)
{
    struct placed *sorted = arena_get(a, l->count * sizeof *sorted + 1);
    size_t count = 0, first = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (ends_run(&l->at[i]))
            sorted[count++] = (struct placed){&l->at[i], i};
    qsort(sorted, count, sizeof *sorted, compare_placed);
    for (size_t i = 1; i < count; i++) {
        if (compare_ends(sorted[first].report, sorted[i].report) != 0)
            first = i;
        else
            l->at[sorted[i].place].same_as = sorted[first].place + 1;
    }
}

/* --- the answer --- */

static const struct shape_member job_members[] = {
    {MEMBER_WORD(struct job, state.status, "status", ALWAYS, &api_status_words,
                 "after a failure: of the job")},
    {MEMBER(struct job, state.attempts, "attempts", ALWAYS, "after a failure: how many failed")},
    {MEMBER(struct job, state.ready_at, "ready_at", IF_SET, "after a failure: of the job")},
    {MEMBER(struct job, state.reason, "reason", IF_SET, "after a failure: what was decided, why")},
};
static const struct shape job_shape = {SHAPE_MEMBERS(job_members)};

static bool has_job(const void *reported)
{
    return ((const struct reported *)reported)->job;
}

static const struct shape_member reported_members[] = {
    {MEMBER(struct reported, id, "id", ALWAYS, NULL)},
    {MEMBER(struct reported, lease_end, "lease_expires_at", IF_SET,
            "of a renewal: the new end of the lease")},
    {MEMBERS_AT(struct reported, job, &job_shape), .is_set = has_job},
    {MEMBER(struct reported, message, "error", IF_SET, "of one that was refused: a sentence")},
    {MEMBER_WORD(struct reported, code, "code", IF_SET, &api_error_words, "likewise: why")},
};
const struct shape api_reported_shape = {.name = "Reported", SHAPE_MEMBERS(reported_members)};

static const struct shape_member reports_members[] = {
    {MEMBER_OBJECTS(struct reply, reported, count, "reports", ALWAYS, &api_reported_shape,
                    "in the order of the request")},
};
const struct shape api_reports_shape = {.name = "Reports", SHAPE_MEMBERS(reports_members)};

struct some_refused {
    struct err err;
    const struct reply *reply;
};

static const struct shape_member some_members[] = {
    {MEMBERS_OF(struct some_refused, err, &api_error_shape)},
    {MEMBERS_AT(struct some_refused, reply, &api_reports_shape)},
};
const struct shape api_some_refused_shape = {.name = "SomeRefused", SHAPE_MEMBERS(some_members)};

static void on_reported(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    size_t refused = 0;
    if (api_reply_failed(c->x, r))
        return;
    for (size_t i = 0; i < r->count; i++)
        refused += r->reported[i].code != ERR_OK;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    if (refused) {
        const struct some_refused some = {
            err_make(ERR_UNPROCESSABLE, "%zu of these reports were refused", refused), r};
        shape_write(b, &api_some_refused_shape, &some, SHAPE_AS_IT_IS);
    } else {
        shape_write(b, &api_reports_shape, r, SHAPE_AS_IT_IS);
    }
    api_reply_json(c->x, refused ? 422 : 200, b);
}

void api_report_many(struct api *a, const struct api_request *r)
{
    struct report_list list = {.api = a, .request = r};
    struct err err = decode(a, r, &list);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    find_repetitions(&list, r->http->arena);
    struct command c = {.kind = CMD_REPORT_MANY,
                        .report_many = {list.at, list.count},
                        .done = on_reported,
                        .ctx = api_call(a, r)};
    api_send(a, r, &c);
}
