/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TENAX_INTERNAL_H
#define BUILDS_BUILD_TENAX_INTERNAL_H

/* What the parts of build_tenax share: the broker and its claims (build_tenax.c), jobs that are
 * held (build_tenax_jobs.c), orders (build_tenax_orders.c), dead jobs (build_tenax_dead.c). */

#include "base/id.h"
#include "base/list.h"
#include "base/rng.h"
#include "builds/build_tenax.h"
#include "client/renewals.h"

#define TENAX_LEASE        ((span){30000})
#define TENAX_RENEW        ((span){10000})
#define TENAX_CALL_TIMEOUT ((span){15000})

enum tenax_step {
    TENAX_HELD,    /* leased, with the user or behind an order */
    TENAX_DEAD,    /* the user has it as exhausted, or will */
    TENAX_SUCCESS, /* these are reports on their way */
    TENAX_FAILURE,
    TENAX_DELETE,
};

struct tenax_delivery {
    struct build_delivery shown;
    struct list node; /* in deliveries */
    struct tenax *broker;
    struct id id;
    char *body;  /* shown.body's bytes */
    char *token; /* of the run, JSON; NULL: of a dead job */
    char *why;   /* of a failure, or of a death */
    enum tenax_step step;
    bool stale;     /* the lease is lost */
    bool untold;    /* dead, and exhausted() is to be called */
    bool ordered;   /* behind an order */
    mono due;       /* of the next renewal or report */
    unsigned tries; /* of it that failed */
    struct remote_call *call;
    struct renewal *renewal;
};

struct tenax_order {
    struct list node;
    struct tenax *broker;
    struct buf body; /* of the request */
    struct tenax_delivery *delivery;
    build_broker_published *done;
    void *ctx;
    bool nowhere; /* builds are not verified */
    mono due;
    unsigned tries;
    bool refused; /* counts in troubled */
    struct remote_call *call;
};

struct tenax_claim {
    struct tenax *broker;
    const char *queue;
    struct remote_call *call;
    mono not_before;
    unsigned tries;
    uint64_t held;     /* deliveries of this queue */
    bool lost;         /* an answer was, and perhaps jobs with it */
    uint64_t adopting; /* requests for these */
    mono checked;      /* when none was known to be lost */
    char why[200];     /* its claims are refused, as it was said last; empty: they are not */
};

struct tenax {
    struct build_broker broker;
    struct build_settings *settings;
    struct remote *remote;
    struct renewals *renewals;
    struct rng rng;
    char *url, *name;
    uv_timer_t timer;
    struct tenax_claim claims[2]; /* by enum build_channel */
    struct list deliveries, orders;
    uint64_t order_count, troubled, connections;
    int64_t ahead_ms; /* by which the server's clock is ahead of ours */
    bool verified, up, down_told, quiet, closed;
    /* The search for dead jobs. */
    struct remote_call *scan;
    mono scan_due;
    unsigned scan_tries;
    int goodbyes; /* looks left at what is given back */
};

/* --- build_tenax.c --- */
/* Sees to it that the next turn is no later. */
void tenax_wake(struct tenax *t, mono when);
/* When a request that has failed so often is to be made again. */
mono tenax_again(struct tenax *t, unsigned tries);
/* Notes what an answer says of the server; returns whether the request is to be made again. */
bool tenax_note(struct tenax *t, const struct remote_answer *a);

/* For requests whose answers do not matter. */
void tenax_unheard(void *ctx, const struct remote_answer *a);

/* --- build_tenax_claims.c --- */
void tenax_claims_turn(struct tenax *t, mono now);

/* --- build_tenax_jobs.c --- */
/* A job of a claim, perhaps of one that was lost; its text is only valid during the call. */
void tenax_job_take(struct tenax *t, enum build_channel channel, struct str job, bool lost);
/* A dead one, with its payload; nothing happens if it is known. */
void tenax_job_found_dead(struct tenax *t, enum build_channel channel, struct str job);
bool tenax_job_is_known(const struct tenax *t, struct id id);
/* Sends a report; the delivery is freed once it is answered. */
void tenax_job_report(struct tenax_delivery *d, enum tenax_step step);
void tenax_job_free(struct tenax_delivery *d);
void tenax_jobs_turn(struct tenax *t, mono now);
/* Gives back what is held, and frees all. */
void tenax_jobs_close(struct tenax *t);

/* --- build_tenax_orders.c --- */
struct tenax_order *tenax_order_new(struct tenax *t, const struct build_order *from,
                                    struct tenax_delivery *d);
void tenax_order_place(struct tenax_order *o);
void tenax_orders_turn(struct tenax *t, mono now);
/* Forgets those of a delivery that is stale. */
void tenax_orders_drop(struct tenax *t, const struct tenax_delivery *d);
void tenax_orders_free(struct tenax *t);

/* --- build_tenax_dead.c --- */
void tenax_dead_turn(struct tenax *t, mono now);

#endif
