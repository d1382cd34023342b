/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBEDDED_CLOCK_H
#define EMBEDDED_CLOCK_H

/* The part of embedded_internal.h about what time it is (embedded_clock.c); by it alone this is
 * included. */

#include "backend/backend.h"

struct embedded;

struct clock {
    bool looked;
    bool started;      /* what the first recovery found was judged */
    bool unsure;       /* a start found the clock behind, and nothing by which to tell how long the
                        * server was away: as soon as the clock is ahead, it is followed */
    instant wall;      /* the wall clock at the last look */
    bool stored;       /* its record was there at the last recovery */
    uint64_t events;   /* that were numbered, by its record */
    int64_t ticks;     /* of env.ticks: up to where time has passed */
    instant steady;    /* `now` without the steps of the wall clock */
    span lead;         /* of `now` before it, as the engine knows it */
    instant turned;    /* the steady time at the newest turn */
    bool grace;        /* nobody could renew a lease until now */
    bool off;          /* the wall clock is not followed */
    span ahead;        /* of `now` before the wall clock; negative: it is behind */
    span jump;         /* forward, the newest one over the limit; 0: none */
    instant jumped_at; /* to that time */
    /* Set back last, or none; and the newest event by then. */
    instant turned_at;
    uint64_t turned_events;
    instant from;   /* iff jobs are still to be corrected, or none: the newest of the wrong times */
    struct id next; /* the next one of them */
    instant turned_from; /* `from` of the newest reset since the start */
    uint64_t corrected;
    uint64_t reset_trail; /* its number in the audit; 0: it has none */
    reply_fn reset_done;  /* who waits for the clock to be set back; NULL: nobody */
    void *reset_ctx;
    enum { RESET_WAITS, RESET_CORRECTS, RESET_REBUILDS } phase; /* iff reset_done */
};

/* Tells an engine how far time is ahead of the steady one. */
void embedded_clock_lead(struct embedded *b, struct engine *e);
/* To be called when a turn begins, before anything is due: leases that nobody could renew, as the
 * server did not answer, get a grace. */
void embedded_leases_grace(struct embedded *b);

#endif
