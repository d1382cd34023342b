/* SPDX-License-Identifier: Apache-2.0 */

/* GET /jobs/{id}. */

#include "api/api_routes.h"

const struct api_param api_job_params[] = {
    {"runs", "boolean: with its runs, the newest 1000 at most"}, {NULL, NULL}};

struct err api_read_flag(const struct http_request *req, const struct api_param *params, bool *on)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    bool more;
    unsigned seen = 0;
    TRY(api_check_media(req));
    for (;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, params, &seen));
        if (!seen)
            return api_unknown_param(name);
        *on = str_eq(value, STR("true"));
        if (!*on && !str_eq(value, STR("false")))
            return err_make(ERR_BAD_VALUE, "%s is true or false", params->name);
    }
}

static void on_read(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    api_encode_read(b, r);
    api_reply_json(c->x, 200, b);
}

void api_read(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_READ, .done = on_read, .ctx = api_call(a, r)};
    bool runs = false;
    struct err err = api_read_flag(r->http, api_job_params, &runs);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.read.id);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.read.runs = runs;
    backend_submit(a->backend, &c);
}
