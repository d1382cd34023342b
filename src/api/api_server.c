/* SPDX-License-Identifier: Apache-2.0 */

/* What the server says of itself: health, version. */

#include "api/api_internal.h"

static void submit(struct api *a, const struct api_request *r, enum command_kind kind,
                   reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .ctx = api_call(a, r)};
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        backend_submit(a->backend, &c);
}

static void write_clock(struct buf *b, const struct clock_state *c)
{
    buf_print(b, ",\"clock\":{\"ahead_ms\":%lld,\"jump_ms\":%lld", (long long)c->ahead.ms,
              (long long)c->jump.ms);
    if (c->jump.ms)
        buf_print(b, ",\"jumped_at\":%lld", (long long)c->jumped_at.ms);
    buf_byte(b, '}');
}

static void on_clock_reset(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    buf_print(b, "{\"from\":%lld,\"to\":%lld,\"corrected\":%llu}", (long long)r->clock.from.ms,
              (long long)r->clock.to.ms, (unsigned long long)r->clock.corrected);
    api_reply_json(c->x, 200, b);
}

void api_clock_reset(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CLOCK_RESET, .done = on_clock_reset};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK && r->http->body.len)
        err = api_decode_body(a, r->http, NULL, 0, true, NULL);
    api_submit(a, r, &c, err);
}

static void on_status(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    buf_print(b, "{\"status\":\"%s\",\"jobs\":{", r->status.writable ? "ok" : "read_only");
    for (unsigned s = 0; s < STATUS_COUNT; s++)
        buf_print(b, "%s\"%s\":%llu", s ? "," : "", lifecycle_status_name((enum status)s),
                  (unsigned long long)r->status.jobs[s]);
    buf_print(b, "},\"index_bytes\":%llu,\"disk_bytes\":%llu",
              (unsigned long long)r->status.memory.waiting_bytes,
              (unsigned long long)r->status.disk_bytes);
    buf_print(b, ",\"damaged\":{\"jobs\":%llu,\"tables\":%llu}",
              (unsigned long long)r->status.damaged_jobs,
              (unsigned long long)r->status.damaged_tables);
    write_clock(b, &r->status.clock);
    buf_byte(b, '}');
    /* A balancer must send enqueues elsewhere while nothing can be stored. */
    api_reply_json(c->x, r->status.writable ? 200 : 503, b);
}

void api_health(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_STATUS, on_status);
}

void api_version(struct api *a, const struct api_request *r)
{
    struct buf *b = &a->scratch;
    b->len = 0;
    buf_lit(b, "{\"version\":\"" TENAX_VERSION "\",\"server\":\"tenax\"}");
    api_reply_json(r->x, 200, b);
}

void api_openapi(struct api *a, const struct api_request *r)
{
    (void)a;
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    const struct buf text = {.at = (char *)api_openapi_text, .len = api_openapi_text_len};
    api_reply_json(r->x, 200, &text);
}
