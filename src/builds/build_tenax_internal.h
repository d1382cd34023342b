/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TENAX_INTERNAL_H
#define BUILDS_BUILD_TENAX_INTERNAL_H

/* What the parts of build_tenax share: the broker and its claims (build_tenax.c), jobs that are
 * held (build_tenax_jobs.c), orders (build_tenax_orders.c), dead jobs (build_tenax_dead.c). */

#include "base/id.h"
#include "base/list.h"
#include "base/rng.h"
#include "builds/build_tenax.h"
#include "holder/holder.h"

#define TENAX_LEASE        ((span){30000})
#define TENAX_CALL_TIMEOUT ((span){15000})

enum tenax_step {
    TENAX_HELD, /* leased, or lost: with the user, behind an order, or being reported */
    TENAX_DEAD, /* the user has it as exhausted, or will */
    TENAX_DELETE,
};

struct tenax_delivery {
    struct build_delivery shown;
    struct list node; /* in deliveries */
    struct tenax *broker;
    struct id id;
    char *body; /* shown.body's bytes */
    char *why;  /* of a death */
    enum tenax_step step;
    struct holder_run *run; /* NULL: of a dead job, or the lease is lost */
    bool settled;           /* its report is on its way */
    bool untold;            /* dead, and exhausted() is to be called */
    bool ordered;           /* behind an order */
    mono due;               /* of exhausted(), or of the deletion */
    uint32_t tries;         /* of that which failed */
    struct remote_call *call;
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
    uint32_t tries;
    bool refused; /* counts in troubled */
    struct remote_call *call;
};

struct tenax_claim {
    struct tenax *broker;
    const char *queue;
    struct holder_claims *claims;
    uint64_t held; /* deliveries of this queue */
    char why[200]; /* its claims are refused, as it was said last; empty: they are not */
};

struct tenax {
    struct build_broker broker;
    struct build_settings *settings;
    struct remote *remote;
    struct holder *holder;
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
    uint32_t scan_tries;
    int goodbyes; /* looks left at what is given back */
};

/* --- build_tenax.c --- */
/* Sees to it that the next turn is no later. */
void tenax_wake(struct tenax *t, mono when);
/* When a request that has failed so often is to be made again. */
mono tenax_again(struct tenax *t, uint32_t tries);
/* Notes what an answer says of the server; returns whether the request is to be made again. */
bool tenax_note(struct tenax *t, const struct remote_answer *a);

/* --- build_tenax_claims.c --- */
void tenax_claims_turn(struct tenax *t, mono now, mono *next);
/* What the holder says of them (struct holder_user). */
void tenax_claims_job(void *claim, const struct holder_job *job);
void tenax_claims_answered(void *claim, const struct remote_answer *a);

/* --- build_tenax_jobs.c --- */
void tenax_jobs_take(struct tenax *t, enum build_channel channel, const struct holder_job *job);
/* A dead one, with its payload; nothing happens if it is known. */
void tenax_jobs_found_dead(struct tenax *t, enum build_channel channel, struct str job);
/* Settles one that is held, and one that is dead. The delivery is freed once that is answered. */
void tenax_jobs_succeed(struct tenax_delivery *d);
void tenax_jobs_fail(struct tenax_delivery *d, const char *why);
void tenax_jobs_delete(struct tenax_delivery *d);
void tenax_jobs_free(struct tenax_delivery *d);
void tenax_jobs_turn(struct tenax *t, mono now, mono *next);
/* Gives back what is held, and frees all. */
void tenax_jobs_close(struct tenax *t);
/* What the holder says of a delivery's run. */
void tenax_jobs_lost(void *delivery, const struct remote_answer *a);
void tenax_jobs_reported(void *delivery, const struct remote_answer *a);

/* --- build_tenax_orders.c --- */
struct tenax_order *tenax_order_new(struct tenax *t, const struct build_order *from,
                                    struct tenax_delivery *d);
void tenax_order_place(struct tenax_order *o);
void tenax_orders_turn(struct tenax *t, mono now, mono *next);
/* Forgets those of a delivery that is stale. */
void tenax_orders_drop(struct tenax *t, const struct tenax_delivery *d);
void tenax_orders_free(struct tenax *t);

/* --- build_tenax_dead.c --- */
void tenax_dead_turn(struct tenax *t, mono now, mono *next);

#endif
