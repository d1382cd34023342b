/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_METER_H
#define CORE_METER_H

/* Counts what happens to jobs, for GET /metrics: numbers since the start of the server, in
 * memory only. Every change of a status passes meter_event, so no front end and no timer can
 * be forgotten. Pure data: whoever wants to show it reads the fields, on the thread that
 * counts. */

#include "base/histogram.h"
#include "base/strmap.h"
#include "core/event.h"

/* For durations in milliseconds, from 1 ms to a day. */
extern const struct histogram_scale meter_times;

/* Queues and rules have names that clients choose: each gets a row of its own up to a limit, in
 * the order in which they are first seen; all others share the last row. */
#define METER_RULES_MAX 500

struct meter_queue {
    struct str name; /* owned by the meter; of the last row: empty */
    uint64_t events[EVENT_COUNT];
    uint64_t lost, expired;    /* runs */
    uint64_t waited_ms, waits; /* of those in meter.waits, all in all */
};

/* What a rule decided about failures that it matched. */
enum meter_decision {
    METER_RETRY,      /* granted */
    METER_FAIL,       /* it says Fail */
    METER_RULE_LIMIT, /* it has no retries left */
    METER_GLOBAL_MAX, /* the job has none left at all */
    METER_RETRY_FOR,  /* its time for retries is over */
    METER_DECISIONS
};

struct meter_rule {
    struct str policy; /* owned by the meter; of the last row: empty */
    int32_t rule;      /* as in struct ruling */
    uint64_t decisions[METER_DECISIONS];
};

/* A policy that failures should have been judged by, but that is not there. */
#define METER_MISSING_MAX 100
struct meter_missing {
    struct str policy; /* owned by the meter; of the last row: empty */
    uint64_t failures;
};

struct meter {
    struct meter_queue *queues; /* queue_count of them, and the shared one */
    uint32_t queue_count, queues_max;
    struct strmap queue_names;
    struct meter_queue *last; /* the one of the last event */
    struct meter_rule rules[METER_RULES_MAX + 1];
    uint32_t rule_count;
    struct meter_missing missing[METER_MISSING_MAX + 1];
    uint32_t missing_count;
    uint64_t culprits[CULPRIT_COUNT];    /* of runs that ended by somebody's fault */
    uint64_t verdicts[2][DECIDER_COUNT]; /* on failures: dead, to be retried; by who decided */
    /* Of the times between becoming ready and being handed out, but not of jobs that came
     * back without a failure, of which nobody knows since when they wait again. */
    struct histogram waits;
    struct histogram runs_good, runs_bad; /* how long runs took that ended in a success, or not */
    struct histogram lateness;            /* of scheduled jobs: from ready_at to being ready */
    uint64_t pattern_give_ups; /* failures at which a regular expression went over its budget */
};

/* seed: against chosen collisions of names. */
struct meter *meter_new(uint32_t queues_max, uint64_t seed);
void meter_free(struct meter *m); /* NULL is fine */
/* The row of that queue, or the shared one. */
struct meter_queue *meter_queue(struct meter *m, struct str name);
/* Whether it is one of its own. */
bool meter_has_row(const struct meter *m, struct str name);
/* A failure was judged without these policies, "a,b", for they are not there. */
void meter_missing(struct meter *m, struct str names);
/* What happened, with number, time and `to`. */
void meter_event(struct meter *m, const struct job_event *ev);

#endif
