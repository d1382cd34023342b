/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ACKS_H
#define BENCH_ACKS_H

/* Reports of success for delivered jobs, on connections of their own: ids are
 * gathered and leave together, as a worker that wants throughput does it. */

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
/* Sends what is full, and what is not when nothing is under way: a batch grows
 * exactly as long as the one before it takes. Call it after each crew_turn. */
void acks_pump(struct acks *a);
/* Writes a report of n ids, the first of `pending`. */
void acks_write(struct buf *out, const struct load_options *o, struct str pending, size_t n);

#endif
