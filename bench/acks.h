/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ACKS_H
#define BENCH_ACKS_H

/* Success reports for delivered jobs, on connections of their own: ids are collected and sent
 * together, as a worker does for throughput. */

#include "load.h"

#define ACKS_ID_LEN 25

struct acks {
    const struct load_options *o;
    struct crew *crew;
    struct peer *peers;
    struct buf pending; /* "id", for each, quotes and comma included */
    uint64_t added;     /* ids given to acks_add */
    uint64_t acked;     /* ids whose success the server has confirmed */
    size_t running;     /* requests without an answer */
    struct hist times;  /* of requests */
};

void acks_init(struct acks *a, struct crew *c, const struct load_options *o);
void acks_fini(struct acks *a);
void acks_add(struct acks *a, struct str id);
/* Sends full batches, and a partial one when no request is in progress: a batch grows exactly as
 * long as the one before it takes. Call it after each crew_turn. */
void acks_pump(struct acks *a);

#endif
