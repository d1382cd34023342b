/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_SOURCE_HTTP_H
#define WORKER_SOURCE_HTTP_H

/* Jobs from a Tenax server, over its Jobs API: claim, renew, success, failure, release. */

#include "worker/source.h"

struct source_http_args {
    const char *url; /* as of call_url */
    struct call_tls tls;
    const char *queues; /* separated by commas */
    const char *worker; /* its name */
    const char *node;   /* NULL: not known */
    span max_run;       /* that it lets a run take; 0: any time */
    size_t seats;
};

/* The arguments must live as long as the source. Free with source_free. */
struct source *source_http_new(const struct source_http_args *args);

#endif
