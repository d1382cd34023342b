/* SPDX-License-Identifier: Apache-2.0 */

/* GET /metrics for Prometheus, and GET /health: 200 while all parts move messages, else 503. */

#include "base/log.h"
#include "bridge/bridge_internal.h"
#include "net/probes.h"

#define CONNECTIONS_MAX 64

static void write_in(const struct bridge *b, struct buf *out)
{
    const struct bridge_counters *c = &b->counters;
    probes_single(out, "tenax_bridge_in_messages_total", "counter",
                  "messages that the server has as jobs", c->in_messages);
    probes_single(out, "tenax_bridge_in_duplicates_total", "counter",
                  "of these, messages that had a job already", c->in_duplicates);
    probes_single(out, "tenax_bridge_in_unkeyed_total", "counter",
                  "of these, messages without a key, which may become two jobs", c->in_unkeyed);
    probes_single(out, "tenax_bridge_in_refused_total", "counter", "messages that cannot be jobs",
                  c->in_refused);
    probes_single(out, "tenax_bridge_in_held", "gauge",
                  "messages that are held since they cannot be jobs", bridge_in_held(b->in));
}

static void write_out(const struct bridge *b, struct buf *out)
{
    const struct bridge_counters *c = &b->counters;
    probes_single(out, "tenax_bridge_out_published_total", "counter",
                  "jobs whose message RabbitMQ has confirmed", c->out_published);
    probes_single(out, "tenax_bridge_out_failed_total", "counter",
                  "jobs whose message could not be published", c->out_failed);
    probes_single(out, "tenax_bridge_out_lost_total", "counter",
                  "runs that were over before they were reported", c->out_lost);
}

static void write_events(const struct bridge *b, struct buf *out)
{
    const struct bridge_counters *c = &b->counters;
    int64_t place = bridge_events_place(b->events);
    probes_single(out, "tenax_bridge_events_published_total", "counter",
                  "messages about events that were confirmed", c->events_published);
    probes_single(out, "tenax_bridge_events_refused_total", "counter",
                  "messages that RabbitMQ has refused", c->events_refused);
    probes_single(out, "tenax_bridge_events_missed_total", "counter",
                  "events that the server did not keep until they were published",
                  c->events_missed);
    probes_single(out, "tenax_bridge_events_place", "gauge",
                  "the newest event up to which all are published",
                  place > 0 ? (uint64_t)place : 0);
}

static void write_state(const struct bridge *b, struct buf *out)
{
    probes_single(out, "tenax_bridge_server_up", "gauge", "1 if Tenax's server answered last",
                  !b->down);
    probes_family(out, "tenax_bridge_well", "gauge", "1 if messages move, or would move, that way");
    if (b->in)
        buf_print(out, "tenax_bridge_well{way=\"in\"} %d\n", bridge_in_is_well(b->in));
    if (b->out)
        buf_print(out, "tenax_bridge_well{way=\"out\"} %d\n", bridge_out_is_well(b->out));
    if (b->events)
        buf_print(out, "tenax_bridge_well{way=\"events\"} %d\n", bridge_events_is_well(b->events));
}

static bool is_well(const struct bridge *b)
{
    return !b->down && !b->stopping && (!b->in || bridge_in_is_well(b->in)) &&
           (!b->out || bridge_out_is_well(b->out)) &&
           (!b->events || bridge_events_is_well(b->events));
}

static void metrics(void *ctx, struct buf *out)
{
    const struct bridge *b = ctx;
    if (b->in)
        write_in(b, out);
    if (b->out)
        write_out(b, out);
    if (b->events)
        write_events(b, out);
    write_state(b, out);
}

static int health(void *ctx, struct buf *out, struct str *type)
{
    bool well = is_well(ctx);
    *type = STR("application/json");
    buf_print(out, "{\"status\":\"%s\"}\n", well ? "ok" : "unavailable");
    return well ? 200 : 503;
}

struct err bridge_http_start(struct bridge *b)
{
    static const struct probes_user user = {health, metrics};
    const struct bridge_settings *s = b->settings;
    const struct probes_settings p = {
        .host = s->metrics_host, .port = (int)s->metrics_port, .connections_max = CONNECTIONS_MAX};
    if (s->metrics_port < 0)
        return err_none();
    TRY(probes_new(b->loop, &p, &user, b, &b->http));
    log_info("metrics on http://%s:%d/metrics", s->metrics_host, probes_port(b->http));
    return err_none();
}

void bridge_http_stop(struct bridge *b)
{
    if (b->http)
        probes_close(b->http);
    b->http = NULL;
}
