/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs/success: many successes reported by one request. Each counts or not for itself. Jobs
 * of streams may be named by their ids alone, as Zizq's clients do. */

#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/array.h"
#include "wire/field_list.h"

#define SUCCESSES_MAX 100000 /* ids and jobs together */

/* --- the request --- */

struct successes_body {
    struct field_part ids, jobs;
};

struct success_fields {
    struct str id;
    struct run_ref run;
};

static const struct field one_table[] = {
    {"id", true, field_text, offsetof(struct success_fields, id), .doc = "JobId"},
    {"token", false, api_field_token, offsetof(struct success_fields, run.token), true,
     API_TOKEN_DOC},
    {"run", false, api_field_run, offsetof(struct success_fields, run), true, API_RUN_DOC},
};
const struct api_body api_success_of_body = {.name = "ReportedRun", API_FIELDS(one_table)};

static const struct field successes_table[] = {
    {"ids", false, field_part, offsetof(struct successes_body, ids), true,
     "string[1..$]: of jobs of streams", SUCCESSES_MAX},
    {"jobs", false, field_part, offsetof(struct successes_body, jobs), true, "ReportedRun[1..$]",
     SUCCESSES_MAX},
};
const struct api_body api_successes_body = {API_FIELDS(successes_table), .rules = "any ids jobs"};

/* The runs to be reported, and the texts that cannot be of any. */
struct success_list {
    struct run_ref *runs;
    struct str *bad;
    size_t count, cap, bad_count, bad_cap;
};

static struct err check_room(const struct success_list *l)
{
    if (l->count + l->bad_count < SUCCESSES_MAX)
        return err_none();
    return err_make(ERR_TOO_MANY, "at most %d in one request", SUCCESSES_MAX);
}

static void add_run(struct success_list *l, struct arena *a, struct run_ref run)
{
    ARENA_GROW(a, l->runs, l->count, l->cap, 64);
    l->runs[l->count++] = run;
}

static void add_bad(struct success_list *l, struct arena *a, struct str text)
{
    ARENA_GROW(a, l->bad, l->bad_count, l->bad_cap, 64);
    l->bad[l->bad_count++] = text;
}

static struct err read_id(struct json_cursor *c, struct arena *a, struct success_list *l)
{
    struct str text;
    struct run_ref run = {.listed = true};
    TRY(field_text(c, a, &text));
    if (id_parse(text, &run.id).code == ERR_OK)
        add_run(l, a, run);
    else
        add_bad(l, a, arena_copy(a, text)); /* the request is gone when it is answered */
    return err_none();
}

static struct err check_some(size_t count)
{
    return count ? err_none() : err_make(ERR_BAD_VALUE, "must not be empty");
}

static struct err read_ids(struct json_cursor *c, struct arena *a, struct success_list *l)
{
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return check_some(l->count + l->bad_count);
        TRY(check_room(l));
        TRY(read_id(c, a, l));
    }
}

struct job_reader {
    const struct api *api;
    struct arena *arena;
    struct success_list *list;
};

static struct err read_job(void *ctx, struct json_cursor *c)
{
    const struct job_reader *r = ctx;
    struct success_fields f = {0};
    TRY(check_room(r->list));
    TRY(field_read_object(r->api->strict, c, r->arena, one_table, COUNT(one_table), &f));
    TRY(id_parse(f.id, &f.run.id));
    add_run(r->list, r->arena, f.run);
    return err_none();
}

static struct err read_jobs(const struct api *api, struct json_cursor *c, struct arena *a,
                            struct success_list *l)
{
    struct job_reader r = {api, a, l};
    size_t count;
    TRY(field_list(c, read_job, &r, &count));
    return check_some(count);
}

struct placed {
    struct run_ref run;
    size_t place;
};

static int compare_runs(const struct run_ref *x, const struct run_ref *y)
{
    int order = id_cmp(x->id, y->id);
    if (order)
        return order;
    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    uint64_t xi = x->by_index ? x->index + UINT64_C(1) : 0;
    uint64_t yi = y->by_index ? y->index + UINT64_C(1) : 0;
    return (xi > yi) - (xi < yi);
}

static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int order = compare_runs(&x->run, &y->run);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* Removes repetitions: a run can be reported once. Sorts them, since a client could choose ids that
 * collide in a hash table. */
static void keep_first(struct success_list *l, struct arena *a)
{
    struct placed *sorted = arena_get(a, l->count * sizeof *sorted + 1);
    bool *again = arena_zero(a, l->count * sizeof *again + 1);
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        sorted[i] = (struct placed){l->runs[i], i};
    qsort(sorted, l->count, sizeof *sorted, compare_placed);
    for (size_t i = 1; i < l->count; i++)
        again[sorted[i].place] = compare_runs(&sorted[i - 1].run, &sorted[i].run) == 0;
    for (size_t i = 0; i < l->count; i++)
        if (!again[i])
            l->runs[kept++] = l->runs[i];
    l->count = kept;
}

static struct err decode(struct api *a, const struct api_request *r, struct success_list *l)
{
    struct successes_body f = {0};
    struct err err =
        api_decode_body(a, r->http, successes_table, COUNT(successes_table), false, &f);
    if (err.code == ERR_OK && !f.ids.given && !f.jobs.given)
        err = err_make(ERR_MISSING_FIELD, "ids or jobs is required");
    if (err.code == ERR_OK && f.ids.given) {
        err = read_ids(&f.ids.at, r->http->arena, l);
        err = err.code == ERR_OK ? err : field_in(err, "ids");
    }
    if (err.code == ERR_OK && f.jobs.given) {
        err = read_jobs(a, &f.jobs.at, r->http->arena, l);
        err = err.code == ERR_OK ? err : field_in(err, "jobs");
    }
    return err;
}

/* Takes out the runs that the sender does not hold: to it they are not in flight. */
static void take_strangers(struct api *a, const struct api_request *r, struct success_list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct run_ref *run = &l->runs[i];
        if ((run->token || api_holds(a, r, run->id)) && api_may_report(a, r, run).code == ERR_OK) {
            l->runs[kept++] = *run;
            continue;
        }
        char *text = arena_get(r->http->arena, ID_TEXT_LEN);
        id_format(run->id, text);
        add_bad(l, r->http->arena, (struct str){text, ID_TEXT_LEN});
    }
    l->count = kept;
}

/* --- the answer --- */

struct success_call {
    struct call call; /* must be first */
    struct success_list list;
};

struct refused {
    struct err err;
    const struct reply *reply;
    size_t explained;
    struct renewed *reasons;
    const struct success_list *asked;
};

static void write_not_found(struct buf *b, const void *refused)
{
    const struct refused *n = refused;
    buf_byte(b, '[');
    for (size_t i = 0; i < n->reply->count; i++) {
        if (i)
            buf_byte(b, ',');
        shape_write_id(b, n->reply->renewed[i].id);
    }
    for (size_t i = 0; i < n->asked->bad_count; i++) {
        if (i || n->reply->count)
            buf_byte(b, ',');
        json_write_string(b, n->asked->bad[i]);
    }
    buf_byte(b, ']');
}

static const struct shape_member reason_members[] = {
    {MEMBER(struct renewed, id, "id", ALWAYS, NULL)},
    {MEMBER(struct renewed, message, "error", ALWAYS, "a sentence for a person")},
    {MEMBER_WORD(struct renewed, code, "code", ALWAYS, &api_error_words, "why not")},
};
const struct shape api_success_refused_shape = {.name = "SuccessRefused",
                                                SHAPE_MEMBERS(reason_members)};

static const struct shape_member refused_members[] = {
    {MEMBERS_OF(struct refused, err, &api_error_shape)},
    {MEMBER_MADE("not_found", ALWAYS, "string[]", write_not_found, "the ids of the others")},
    {MEMBER_OBJECTS(struct refused, reasons, explained, "jobs", ALWAYS, &api_success_refused_shape,
                    "why the report of each of these jobs was refused; of the first 10,000")},
};
const struct shape api_successes_refused_shape = {.name = "SuccessesRefused",
                                                  SHAPE_MEMBERS(refused_members)};

static size_t without_token(const struct reply *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        n += r->renewed[i].code == ERR_RUN_TOKEN;
    return n;
}

static struct err sum_up(const struct reply *r)
{
    size_t n = without_token(r);
    if (n == 0)
        return err_make(ERR_UNPROCESSABLE, "some of these jobs are not in flight");
    return err_make(ERR_UNPROCESSABLE,
                    "some of these jobs are not in flight, or leased: %zu reports lack the token "
                    "that the answer to the claim has; send them as {\"jobs\": [{\"id\", "
                    "\"token\"}]}",
                    n);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void on_successes(void *ctx, const struct reply *r)
{
    struct success_call *c = ctx;
    if (api_reply_failed(c->call.x, r))
        return;
    if (r->count == 0 && c->list.bad_count == 0) {
        http_reply(c->call.x, 204, (struct str){0}, (struct str){0}, NULL);
        return;
    }
    struct buf *b = &c->call.api->scratch;
    b->len = 0;
    const struct refused some = {.err = sum_up(r),
                                 .reply = r,
                                 .explained = smaller(r->count, SUCCESS_REASONS_MAX),
                                 .reasons = r->renewed,
                                 .asked = &c->list};
    shape_write(b, &api_successes_refused_shape, &some, SHAPE_AS_IT_IS);
    api_reply_json(c->call.x, 422, b);
}

void api_success_many(struct api *a, const struct api_request *r)
{
    struct success_call *call = ARENA_NEW(r->http->arena, struct success_call);
    call->call = (struct call){a, r->x};
    struct err err = decode(a, r, &call->list);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    keep_first(&call->list, r->http->arena);
    take_strangers(a, r, &call->list);
    struct command c = {.kind = CMD_SUCCEED_MANY,
                        .succeed_many = {.at = call->list.runs, .count = call->list.count},
                        .done = on_successes,
                        .ctx = call};
    api_send(a, r, &c);
}
