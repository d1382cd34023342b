/* SPDX-License-Identifier: Apache-2.0 */
#include "server/exporter.h"

/* How long a stop waits for the collector. */
#define FLUSH_MS 3000

struct err exporter_open(struct exporter *e, uv_loop_t *loop, uint64_t seed,
                         const struct settings *set)
{
    const struct otlp_settings otlp = {.endpoint = set->otlp_endpoint,
                                       .headers = set->otlp_headers,
                                       .headers_file = set->otlp_headers_file,
                                       .ca_file = set->otlp_ca,
                                       .memory = set->otlp_memory,
                                       .seed = seed};
    return set->otlp_endpoint ? otlp_new(loop, &otlp, &e->otlp) : err_none();
}

const struct tracer *exporter_tracer(const struct exporter *e)
{
    return e->otlp ? otlp_tracer(e->otlp) : NULL;
}

void exporter_read(const struct exporter *e, struct api_machine *m)
{
    struct otlp_counts counts;
    if (!e->otlp)
        return;
    otlp_read(e->otlp, &counts);
    m->spans[API_SPANS_EXPORTED] = counts.exported;
    m->spans[API_SPANS_REJECTED] = counts.rejected;
    m->spans[API_SPANS_DROPPED] = counts.dropped;
    m->spans[API_SPANS_FAILED] = counts.failed;
    m->spans_waiting = counts.waiting;
}

static void on_flushed(void *ctx)
{
    struct exporter *e = ctx;
    e->flushed = true;
    e->go_on(e->ctx);
}

bool exporter_is_flushed(struct exporter *e, void (*go_on)(void *ctx), void *ctx)
{
    if (!e->otlp || e->flushed || e->flushing)
        return !e->otlp || e->flushed;
    e->flushing = true;
    e->go_on = go_on;
    e->ctx = ctx;
    otlp_flush(e->otlp, (span){FLUSH_MS}, on_flushed, e);
    return false;
}

void exporter_close(struct exporter *e)
{
    otlp_close(e->otlp);
}

void exporter_free(struct exporter *e)
{
    otlp_free(e->otlp);
}
