/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

/* Take streams, split into lines. */

#include "load.h"

/* One delivered job, without its line break; valid during the call. */
typedef void (*stream_line_fn)(void *owner, struct str line);

struct streams {
    stream_line_fn on_line;
    void *owner;
    struct peer *peers;
    size_t count;
};

void streams_open(struct streams *s, struct crew *c, const struct load_options *o);
/* Every stream has been answered with its status, 200. */
bool streams_ready(const struct streams *s);
void streams_close(struct streams *s);
/* The number that a mode wrote into the payload of a delivered job as its member "n". */
uint64_t stream_number(struct str line);

#endif
