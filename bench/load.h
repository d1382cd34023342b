/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

/* Shared by the modes of the generator: the options of the command line and the one line that each
 * mode prints. */

#include <stdbool.h>
#include <stdint.h>

#include "crew.h"
#include "hist.h"
#include "base/buf.h"

struct load_options {
    struct crew_address to;
    const char *queue;
    const char *broker;   /* the kind of queue that is not Tenax */
    uint64_t queues;      /* how many of them, by number; 1: the one */
    const char *target;   /* what follows the mode: a path or a directory */
    uint64_t connections; /* for requests */
    uint64_t depth;       /* requests on a connection without an answer */
    uint64_t jobs;        /* how many, unless seconds is set */
    double seconds;
    uint64_t batch;     /* jobs in one bulk or claim request */
    uint64_t streams;   /* take streams */
    uint64_t consumers; /* of events, beside enqueues */
    uint64_t prefetch;  /* of each stream */
    uint64_t ackers;    /* connections that report success */
    uint64_t acks;      /* ids in one report at most; 1: the request for a single job */
    double rate;        /* jobs a second that latency starts, or that fall due */
    uint64_t payload;   /* bytes of a payload, its braces included */
    uint64_t timeout;   /* seconds */
    bool json;
};

/* A line being made: "name=value name=value", or a flat JSON object. */
struct load_line {
    struct buf text;
    bool json;
};

void load_number(struct load_line *l, const char *name, double value, int decimals);
/* name_p50_us, _p90_, _p99_, _p999_, _max_ of times in ns. */
void load_times(struct load_line *l, const char *name, const struct hist *h);
/* jobs, seconds, jobs per second, and the CPU time that this process has used. */
void load_pace(struct load_line *l, uint64_t jobs, uint64_t ns);

/* The modes. Each fails (see crew_fail) unless every job it was asked for is
 * acknowledged. */
void enqueue_run(const struct load_options *o, struct load_line *l);
void bulk_run(const struct load_options *o, struct load_line *l);
void drain_run(const struct load_options *o, struct load_line *l);
void claim_run(const struct load_options *o, struct load_line *l);
void tasks_run(const struct load_options *o, struct load_line *l);
void due_run(const struct load_options *o, struct load_line *l);
void latency_run(const struct load_options *o, struct load_line *l);
void broker_put_run(const struct load_options *o, struct load_line *l);
void broker_latency_run(const struct load_options *o, struct load_line *l);
void fsync_run(const struct load_options *o, struct load_line *l);
void log_run(const struct load_options *o, struct load_line *l);

#endif
