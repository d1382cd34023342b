/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs/renew: many leases renewed by one request. Each is renewed or not for itself. */

#include <stdio.h>

#include "api/api_routes.h"
#include "api/api_words.h"

#define RENEWALS_MAX 10000

struct renewals_body {
    struct field_part jobs;
    span lease;
};

struct renewal_fields {
    struct str id;
    struct renewal one;
};

static const struct field renewal_table[] = {
    {"id", true, field_text, offsetof(struct renewal_fields, id), .doc = "JobId"},
    {"token", true, api_field_token, offsetof(struct renewal_fields, one.run.token),
     .doc = "string /^[0-9a-f]{16}$/: of the run"},
    {"run", false, api_field_run, offsetof(struct renewal_fields, one.run), true,
     "integer 0..$: its index, beside the token", UINT32_MAX},
    {"lease_ms", false, field_span, offsetof(struct renewal_fields, one.lease), true,
     "integer 100..86400000: of this one; without it, that of the request"},
};
const struct api_body api_renewal_body = {.name = "Renewal", API_FIELDS(renewal_table)};

static const struct field renewals_table[] = {
    {"jobs", true, field_part, offsetof(struct renewals_body, jobs), .doc = "Renewal[1..$]",
     .most = RENEWALS_MAX},
    {"lease_ms", false, field_span, offsetof(struct renewals_body, lease), true, API_LEASE_DOC},
};
const struct api_body api_renewals_body = {API_FIELDS(renewals_table)};

static struct err read_renewal(const struct api *a, struct json_cursor *c, struct arena *arena,
                               struct renewal *out)
{
    struct renewal_fields f = {.one = *out};
    TRY(field_read_object(a->strict, c, arena, renewal_table,
                          sizeof renewal_table / sizeof *renewal_table, &f));
    struct err err = id_parse(f.id, &f.one.run.id);
    if (err.code == ERR_OK)
        err = api_check_lease(f.one.lease);
    *out = f.one;
    return err;
}

static struct err read_renewals(const struct api *a, struct arena *arena, struct renewals_body *f,
                                struct renewal **out, size_t *count)
{
    struct json_cursor *c = &f->jobs.at;
    struct renewal *list = NULL;
    size_t cap = 0;
    struct err err = json_enter_array(c);
    if (err.code != ERR_OK)
        return field_in(err, "jobs");
    for (*count = 0;; ++*count) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        if (*count == RENEWALS_MAX)
            return err_make(ERR_TOO_MANY, "jobs: at most %d in one request", RENEWALS_MAX);
        ARENA_GROW(arena, list, *count, cap, 64);
        list[*count] = (struct renewal){.lease = f->lease};
        err = read_renewal(a, c, arena, &list[*count]);
        if (err.code != ERR_OK) {
            char where[32];
            snprintf(where, sizeof where, "jobs[%zu]", *count);
            return field_in(err, where);
        }
    }
    *out = list;
    return *count ? err_none() : err_make(ERR_BAD_VALUE, "jobs must not be empty");
}

/* --- the answer --- */

static const struct shape_member renewed_job_members[] = {
    {MEMBER(struct renewed, id, "id", ALWAYS, NULL)},
    {MEMBER(struct renewed, lease_end, "lease_expires_at", IF_SET, "the new end of the lease")},
    {MEMBER(struct renewed, message, "error", IF_SET, "a sentence for a person")},
    {MEMBER_WORD(struct renewed, code, "code", IF_SET, &api_error_words, "why it has none")},
};
const struct shape api_renewed_job_shape = {.name = "RenewedJob",
                                            SHAPE_MEMBERS(renewed_job_members)};

static const struct shape_member renewed_members[] = {
    {MEMBER_OBJECTS(struct reply, renewed, count, "jobs", ALWAYS, &api_renewed_job_shape,
                    "in the order of the request")},
};
const struct shape api_renewed_jobs_shape = {.name = "RenewedJobs", SHAPE_MEMBERS(renewed_members)};

struct some_renewed {
    struct err err;
    const struct reply *reply;
};

static const struct shape_member some_members[] = {
    {MEMBERS_OF(struct some_renewed, err, &api_error_shape)},
    {MEMBERS_AT(struct some_renewed, reply, &api_renewed_jobs_shape)},
};
const struct shape api_some_renewed_shape = {.name = "SomeRenewed", SHAPE_MEMBERS(some_members)};

static void on_renewed(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    size_t failed = 0;
    if (api_reply_failed(c->x, r))
        return;
    for (size_t i = 0; i < r->count; i++)
        failed += r->renewed[i].code != ERR_OK;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    if (failed) {
        const struct some_renewed some = {
            err_make(ERR_UNPROCESSABLE, "%zu of these leases were not renewed", failed), r};
        shape_write(b, &api_some_renewed_shape, &some, SHAPE_AS_IT_IS);
    } else {
        shape_write(b, &api_renewed_jobs_shape, r, SHAPE_AS_IT_IS);
    }
    api_reply_json(c->x, failed ? 422 : 200, b);
}

void api_renew_many(struct api *a, const struct api_request *r)
{
    struct renewals_body f = {.lease = {API_LEASE_MS}};
    struct renewal *list = NULL;
    size_t count = 0;
    struct err err = api_decode_body(a, r->http, renewals_table,
                                     sizeof renewals_table / sizeof *renewals_table, false, &f);
    if (err.code == ERR_OK)
        err = api_check_lease(f.lease);
    if (err.code == ERR_OK)
        err = read_renewals(a, r->http->arena, &f, &list, &count);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct command c = {.kind = CMD_RENEW_MANY,
                        .renew_many = {.at = list, .count = count},
                        .done = on_renewed,
                        .ctx = api_call(a, r)};
    api_send(a, r, &c);
}
