/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACING_OTLP_H
#define TRACING_OTLP_H

/* Sends spans to a collector by OTLP/HTTP, JSON-encoded (the published specification of the
 * OpenTelemetry protocol), in batches, one request at a time, on the loop thread. The engine only
 * adds to a queue of bounded size: what a collector does not take, or not fast enough, is dropped
 * and counted, and nobody waits for it.
 *
 * A request that may be repeated (429, 502, 503, 504, no answer) is, after what Retry-After says or
 * a time that doubles; for five minutes. Anything else loses its spans. */

#include <uv.h>

#include "base/err.h"
#include "base/units.h"
#include "core/tracer.h"

struct otlp;

struct otlp_settings {
    const char *endpoint;     /* "https://collector:4318"; /v1/traces is added */
    const char *headers;      /* "name=value,name=value", values percent-encoded; or NULL */
    const char *headers_file; /* lines "Name: value", read before each request; or NULL */
    const char *ca_file; /* who may have signed its certificate; NULL: whom the system trusts */
    size_t memory;       /* bytes of spans that wait */
    uint64_t seed;       /* of the jitter, and of the instance's id */
};

/* Of spans, since the start. */
struct otlp_counts {
    uint64_t exported; /* taken by the collector */
    uint64_t rejected; /* which it said it did not want, of requests that it took */
    uint64_t dropped;  /* there was no room to let them wait */
    uint64_t failed;   /* of requests that it refused, or did not take in time */
    uint64_t waiting;  /* bytes that wait, or are on their way */
};

/* ERR_USAGE says which setting is wrong. */
NODISCARD struct err otlp_new(uv_loop_t *loop, const struct otlp_settings *settings,
                              struct otlp **out);
/* As long as the otlp. */
const struct tracer *otlp_tracer(const struct otlp *o);
void otlp_read(const struct otlp *o, struct otlp_counts *out);
/* Sends what is left, without further tries, and calls done, later; at the latest after that time.
 */
void otlp_flush(struct otlp *o, span limit, void (*done)(void *ctx), void *ctx);
/* The loop must run once more before it may be closed. NULL is allowed, as in otlp_free. */
void otlp_close(struct otlp *o);
/* After that. */
void otlp_free(struct otlp *o);

#endif
