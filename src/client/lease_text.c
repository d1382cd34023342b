/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lease_text.h"

#include <inttypes.h>

static void add_members(struct buf *b, const struct lease_text *l)
{
    if (l->run >= 0)
        buf_print(b, "\"run\":%" PRId64 ",", l->run);
    buf_print(b, "\"lease_ms\":%" PRId64, l->lease.ms);
    if (l->token.len)
        buf_print(b, ",\"token\":%.*s", STR_ARG(l->token));
}

void lease_text_one(struct buf *b, const struct lease_text *l)
{
    buf_byte(b, '{');
    add_members(b, l);
}

void lease_text_add(struct buf *b, const struct lease_text *l)
{
    buf_print(b, "%s{\"id\":\"%.*s\",", b->len ? "," : "{\"jobs\":[", STR_ARG(l->job));
    add_members(b, l);
    buf_byte(b, '}');
}

void lease_text_end(struct buf *b)
{
    buf_lit(b, "]}");
}

enum lease_outcome lease_text_outcome(enum call_result result, long status)
{
    if (result == CALL_DONE || status == 422)
        return LEASE_EACH;
    if (status == 404 || status == 405)
        return LEASE_UNKNOWN;
    if (status == 400 || status == 409 || status == 413)
        return LEASE_FAULTY;
    return LEASE_ALL;
}

struct view_list lease_text_list(struct str answer)
{
    return view_list(view_get(answer, "jobs"));
}

static int status_of(struct str code)
{
    for (enum err_code c = ERR_OK + 1; c < ERR_COUNT; c++)
        if (str_eq(code, str_from(err_wire(c))))
            return err_status(c);
    return 422; /* of a newer server */
}

static enum call_result result_of(int status)
{
    if (status == 404 || status == 409)
        return CALL_GONE;
    return status >= 500 || status == 429 || status == 408 ? CALL_TRY_LATER : CALL_REFUSED;
}

void lease_text_next(struct view_list *l, struct arena *a, struct lease_answer *out)
{
    struct str job;
    *out = (struct lease_answer){
        .result = CALL_TRY_LATER,
        .why = STR("the server's answer does not say what became of the lease")};
    if (!view_next(l, &job) ||
        !(view_get(job, "code").len || view_get(job, "lease_expires_at").len))
        return;
    out->body = job;
    out->code = view_text(a, job, "code");
    out->why = view_text(a, job, "error");
    out->status = out->code.len ? status_of(out->code) : 200;
    out->result = out->code.len ? result_of(out->status) : CALL_DONE;
}
