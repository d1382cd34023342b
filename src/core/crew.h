/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CREW_H
#define CORE_CREW_H

/* Who works on a queue, apart from those who ask for its jobs at this moment: a worker without a
 * free slot asks for nothing, and is not gone. A plain value; engine_crew.c gathers it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

/* Runs of a queue, and workers that took from it, of which so many are looked at. */
#define CREW_LOOK_MAX 1000
/* Who asked no longer ago than this, and has no run, is named. */
#define CREW_LATELY ((span){5 * 60 * 1000})

struct crew {
    uint64_t runs;     /* of the queue, in flight */
    uint32_t busy;     /* workers that hold them, those without a name as one */
    bool cut;          /* at least so many: not all runs were looked at */
    struct str worker; /* the only one's name; empty: several, or without a name */
    instant oldest;    /* when the longest of these runs began */
    span usual;        /* how long a run of the queue takes; negative: not known yet */
    span left;         /* until the first of them has taken so long; negative: not known */
    /* Workers that take from the queue, too, and hold runs of other queues only. */
    uint32_t elsewhere;
    uint64_t elsewhere_runs;
    /* The worker that asked last, and holds nothing; none: nobody did lately. */
    struct str asker;
    instant asked_at;
    /* Of those who said lately why they ask for none, the one that spoke last, and what it said. */
    struct str excused, excuse;
    instant excused_at;
};

static inline struct crew crew_none(void)
{
    return (struct crew){.oldest = INSTANT_NONE,
                         .usual = {-1},
                         .left = {-1},
                         .asked_at = INSTANT_NONE,
                         .excused_at = INSTANT_NONE};
}

/* A worker that took from a queue lately; texts are borrowed. */
struct crew_member {
    struct str name;
    instant last_seen;
    struct str notice; /* why it asks for no jobs, or empty */
};
typedef void crew_visitor(void *ctx, const struct crew_member *m);

static inline bool crew_is_busy(const struct crew *c)
{
    return c->runs || c->elsewhere;
}

/* The same for jobs of one kind, of which so many runs of the queue are: who works on the others
 * would not take them. */
static inline bool crew_is_busy_with(const struct crew *c, uint64_t runs)
{
    return runs || (!c->runs && c->elsewhere);
}

/* Who is busy with what, since when, and when a slot may come free; iff crew_is_busy. */
void crew_write_busy(struct buf *b, const struct crew *c, instant now);
/* Why nobody asks, as far as that is known: who says why he does not, or who did last, and when. */
void crew_write_absent(struct buf *b, const struct crew *c, instant now);

#endif
