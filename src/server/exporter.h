/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_EXPORTER_H
#define SERVER_EXPORTER_H

/* The export of spans (tracing/otlp.h) as the server's settings say; none if they name no
 * endpoint. */

#include "api/api.h"
#include "server/settings.h"
#include "tracing/otlp.h"

struct exporter {
    struct otlp *otlp; /* NULL: there is none */
    bool flushing, flushed;
    void (*go_on)(void *ctx);
    void *ctx;
};

/* ERR_USAGE says which setting is wrong. */
NODISCARD struct err exporter_open(struct exporter *e, uv_loop_t *loop, uint64_t seed,
                                   const struct settings *set);
/* NULL: there is none. */
const struct tracer *exporter_tracer(const struct exporter *e);
void exporter_read(const struct exporter *e, struct api_machine *m);
/* Whether all that is to be sent before a stop was sent; otherwise that begins, and go_on is called
 * when it is over, soon. */
bool exporter_is_flushed(struct exporter *e, void (*go_on)(void *ctx), void *ctx);
/* As those of otlp.h. */
void exporter_close(struct exporter *e);
void exporter_free(struct exporter *e);

#endif
