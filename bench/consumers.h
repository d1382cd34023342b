/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CONSUMERS_H
#define BENCH_CONSUMERS_H

/* Consumers of events during a load: they read all of GET /events, and count. */

#include "load.h"

struct consumers {
    struct peer *peers;
    size_t count;
    uint64_t events; /* received by all of them together */
};

/* Returns once the server has answered all of them. */
void consumers_open(struct consumers *s, struct crew *c, const struct load_options *o);
void consumers_close(struct consumers *s);

#endif
