/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

/* Why a job is where it is, in facts and in words: what keeps it from running, since when, and
 * from when on nothing would. Pure values; engine_explain gathers them. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/crew.h"
#include "core/job.h"

enum obstacle_kind {
    OBSTACLE_HOLD,        /* it is held until somebody frees it */
    OBSTACLE_DEPENDENCY,  /* other jobs have not ended as it wants */
    OBSTACLE_TIME,        /* its ready_at is to come */
    OBSTACLE_NODE,        /* it must stay off a node */
    OBSTACLE_PAUSE,       /* its queue is paused */
    OBSTACLE_CONCURRENCY, /* as many of its queue are in flight as may be */
    OBSTACLE_KEY,         /* as many with its concurrency key are */
    OBSTACLE_IN_FLIGHT,   /* as many of all queues are */
    OBSTACLE_RATE,        /* its queue has handed out as many as it may for now */
    OBSTACLE_PLACE,       /* others of its queue come first */
    OBSTACLE_NO_WORKER,   /* nobody asks for jobs of its queue */
    OBSTACLE_GANG,        /* its gang is incomplete, or finds no room for all of it */
    OBSTACLE_BUDGET,      /* a budget lacks the tokens for it */
    OBSTACLE_BUSY,        /* its workers have no free slot */
    OBSTACLE_KINDS
};

/* "dependency", "time" … */
const char *explain_kind_name(enum obstacle_kind k);

/* It keeps the job from running by itself, whatever else does. */
struct obstacle {
    enum obstacle_kind kind;
    instant until;   /* or none: that is up to somebody */
    struct str text; /* a sentence without its full stop */
};

/* Its place is counted up to here. */
#define EXPLAIN_AHEAD_MAX 10000

/* The retry policies that judge a job's failures, or would if they were enabled, in the order in
 * which they are asked; and that in words. Empty: there never are any. */
struct judges {
    struct str *policies;
    size_t count;
    bool concerned; /* retry policies are enabled, or are named for the job */
    struct str words;
    struct str *warnings; /* that stand about them and their settings; the backend's to add */
    size_t warning_count;
};

struct explanation {
    struct job job;
    struct run run; /* the newest one, iff has_run; running iff the job is in flight */
    bool has_run;
    struct note progress; /* iff has_progress: of the run of a job in flight, what it said last */
    bool has_progress;
    instant since; /* when it came to be what it is, or none: not known */
    /* The first moment at which it could be handed out, or none if that is up to somebody, or it
     * does not wait. */
    instant earliest;
    struct obstacle obstacles[OBSTACLE_KINDS];
    size_t obstacle_count;
    /* Of a ready job: how many of its queue come before it; at least so many, if it is
     * EXPLAIN_AHEAD_MAX. */
    uint64_t ahead;
    /* Streams and waiting claims that ask for jobs of its queue; those that have room; of those,
     * the ones on the node that it must stay off. */
    uint32_t workers, with_room, shunned;
    uint32_t unfit;     /* those that ask for jobs of its queue, but of another kind */
    struct crew crew;   /* of a ready job */
    struct str summary; /* a sentence without its full stop */
    struct judges judges;
    struct str refusal; /* of a dead job: why nobody can bring it back, or empty */
    struct str remedy;  /* of a dead job: what would bring it back; else empty */
};

/* Adds one; text as by printf, in the arena. */
void explain_add(struct explanation *x, struct arena *a, enum obstacle_kind kind, instant until,
                 const char *text, ...) __attribute__((format(printf, 5, 6)));
/* Says it in words, once all facts are there: since, earliest, summary, remedy. */
void explain_sum_up(struct explanation *x, instant now, struct arena *a);

#endif
