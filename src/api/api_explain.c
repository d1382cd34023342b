/* SPDX-License-Identifier: Apache-2.0 */

/* Why a job is not running. */

#include "api/api_internal.h"

static void add_time(struct buf *b, const char *name, instant t)
{
    if (instant_is_set(t))
        buf_print(b, ",\"%s\":%lld", name, (long long)t.ms);
    else
        buf_print(b, ",\"%s\":null", name);
}

static void add_text(struct buf *b, const char *name, struct str text)
{
    if (text.len == 0)
        return;
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, text);
}

static void encode_obstacles(struct buf *b, const struct explanation *x)
{
    buf_lit(b, ",\"waits_for\":[");
    for (size_t i = 0; i < x->obstacle_count; i++) {
        const struct obstacle *o = &x->obstacles[i];
        buf_print(b, "%s{\"kind\":\"%s\"", i ? "," : "", explain_kind_name(o->kind));
        add_time(b, "until", o->until);
        add_text(b, "reason", o->text);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void encode_place(struct buf *b, const struct explanation *x)
{
    buf_print(b, ",\"position\":%llu,\"position_exact\":%s", (unsigned long long)x->ahead + 1,
              x->ahead < EXPLAIN_AHEAD_MAX ? "true" : "false");
    buf_print(b, ",\"workers\":{\"asking\":%u,\"with_room\":%u}", x->workers, x->with_room);
}

static void encode(struct buf *b, const struct explanation *x)
{
    const struct job_state *s = &x->job.state;
    const char *resolution = job_resolution_name(s->resolution);
    buf_lit(b, "{\"id\":");
    api_encode_id(b, x->job.id);
    add_text(b, "queue", x->job.queue);
    add_text(b, "status", str_from(lifecycle_status_name(s->status)));
    add_text(b, "summary", x->summary);
    add_time(b, "since", x->since);
    add_time(b, "earliest_at", x->earliest);
    encode_obstacles(b, x);
    if (s->status == STATUS_READY)
        encode_place(b, x);
    add_text(b, "reason", s->reason);
    if (resolution)
        add_text(b, "resolution", str_from(resolution));
    if (instant_is_set(s->purge_at))
        add_time(b, "purge_at", s->purge_at);
    add_text(b, "remedy", x->remedy);
    if (x->has_run) {
        add_text(b, "hint", x->run.failure.hint);
        buf_lit(b, ",\"newest_run\":");
        api_encode_run(b, &x->run);
    }
    buf_byte(b, '}');
}

static void on_explained(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    encode(b, r->explanation);
    api_reply_json(c->x, 200, b);
}

void api_explain(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_EXPLAIN, .done = on_explained};
    struct err err = api_path_id(r->params->at[0], &c, &c.id);
    if (err.code == ERR_OK)
        err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.ctx = api_call(a, r);
    backend_submit(a->backend, &c);
}
