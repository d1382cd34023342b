/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_BROKER_H
#define BENCH_BROKER_H

/* Connections to the queues that Tenax is compared with. All are driven by one epoll loop of one
 * thread (mode_broker.c) with the same payloads; a kind knows one protocol. As in crew.h, anything
 * unexpected ends the process. */

#include <stdbool.h>
#include <stdint.h>

#include "load.h"

/* The puts of a link that may be without a confirmation, and those confirmed before an older one
 * was. */
#define BROKER_UNCONFIRMED 4096

struct broker;
struct broker_link;
struct reply;

struct broker_kind {
    const char *name;
    /* Connects and returns when the link may put or consume; sets fd. */
    void (*open)(struct broker_link *l);
    void (*close)(struct broker_link *l);
    /* Puts a payload; sent now, or at the next broker_flush. */
    void (*put)(struct broker_link *l, struct str payload);
    /* From now on jobs arrive, each of which is acknowledged. */
    void (*consume)(struct broker_link *l);
    /* Reads what has arrived: calls broker_stored and broker_job. */
    void (*receive)(struct broker_link *l);
    /* The number of jobs that wait, on a link that does nothing else. */
    uint64_t (*count)(struct broker_link *l);
};

struct broker_link {
    const struct broker_kind *kind;
    struct broker *broker;
    int fd;
    struct buf in, out;
    void *state;                          /* of the kind */
    uint64_t puts;                        /* so far; the n-th, from 1, has number n */
    uint64_t oldest;                      /* all puts below it are confirmed */
    unsigned waiting;                     /* puts without a confirmation */
    uint64_t started[BROKER_UNCONFIRMED]; /* by number; 0: confirmed */
};

struct broker {
    const struct load_options *o;
    int epoll;
    uint64_t now; /* monotonic ns, read after each receipt of data */
    uint64_t deadline;
    uint64_t sent, stored;  /* puts */
    uint64_t jobs, deleted; /* delivered, and acknowledged for good */
    void (*on_stored)(struct broker_link *l, uint64_t started);
    void (*on_job)(struct broker *b, struct str payload);
    void *owner;
};

extern const struct broker_kind broker_beanstalkd, broker_redis;
extern const struct broker_kind broker_rabbitmq_quorum, broker_rabbitmq_classic;

/* A connected socket, without delay of small packets. */
int broker_socket(const struct load_options *o);
void broker_flush(struct broker_link *l);
/* Reads once from the socket to l->in; false if there was nothing. */
bool broker_read(struct broker_link *l);

/* Called by a kind: the put of this number is durable; every put up to it is. */
void broker_stored(struct broker_link *l, uint64_t number);
void broker_stored_up_to(struct broker_link *l, uint64_t number);
/* Called by a kind: a job was delivered. */
void broker_job(struct broker_link *l, struct str payload);

#endif
