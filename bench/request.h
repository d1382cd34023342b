/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_REQUEST_H
#define BENCH_REQUEST_H

/* The bytes of HTTP requests, made before the clock starts. */

#include <stddef.h>
#include <stdint.h>

#include "load.h"

/* Requests of the same length that differ in their payloads, which are random
 * text: a store that compresses must not gain from a load of equal jobs. */
struct request_pool {
    struct buf *items;
    size_t count, next;
};

/* Requests that enqueue `batch` jobs each; batch 0 is one job by POST /jobs. */
struct request_pool request_pool_new(const struct load_options *o, size_t count, size_t batch);
void request_pool_free(struct request_pool *p);
/* Cycles through the pool. */
struct str request_pick(struct request_pool *p);

/* METHOD PATH with a body of type JSON. */
void request_write(struct buf *out, const struct load_options *o, const char *method,
                   const char *path, struct str body);
/* A payload of o->payload bytes that begins with the members of `first`, each followed by a comma,
 * and is filled from *seed. */
void request_payload(struct buf *out, const struct load_options *o, struct str first,
                     uint64_t *seed);
/* One job as JSON, with these fields beside queue, type and payload. Each of
 * these is followed by a comma. The payload is that of request_payload. */
void request_job(struct buf *out, const struct load_options *o, struct str fields, struct str first,
                 uint64_t *seed);

#endif
