/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

/* What happened to a job, as a value: one per change of its status. The engine makes them
 * (engine_event.c), the log of events keeps them, consumers read them. Whoever replays all of
 * them in the order of their numbers has every job's status. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/str.h"
#include "base/units.h"
#include "core/job.h"
#include "core/lifecycle.h"

/* What a verdict on a failure came from. These numbers are on disk. */
enum decider {
    DECIDER_NONE,        /* nothing failed, or nobody wrote it down */
    DECIDER_KILL,        /* the worker said: never again */
    DECIDER_RETRY_AT,    /* the worker said when */
    DECIDER_RULE,        /* what a rule of a policy says */
    DECIDER_NO_RULE,     /* no rule matched: the default action of a policy, or Fail */
    DECIDER_RULE_LIMIT,  /* the rule, or the default action, has no retries left */
    DECIDER_NO_POLICY,   /* no policy is effective, and that is to fail the job */
    DECIDER_RETRY_LIMIT, /* the retry limit and backoff of the job, its queue or the server */
    DECIDER_GLOBAL_MAX,  /* globalMaxRetries */
    DECIDER_CULPRIT,     /* it was not the job's fault, and has not happened too often */
    DECIDER_RETRY_FOR,   /* the time for retries, which began with the first failure, is over */
    DECIDER_FAIL_FAST,   /* the job says that its first failure is final */
    DECIDER_DEADLINE,    /* the retry would begin after the job's deadline */
    DECIDER_COUNT
};

/* Whose budget decided about a failure. */
struct ruling {
    struct str policy; /* empty: the job's own limits or the server's */
    int32_t rule;      /* of that policy, from 0; negative: its default action */
    uint32_t count;    /* retries that it has granted, this one included */
    int64_t limit;     /* of them; negative: nobody's budget was asked, count says nothing */
    enum decider by;
};
#define RULING_NONE ((struct ruling){.limit = -1})

struct run;

#define EVENT_MESSAGE_MAX 1024

struct job_event {
    uint64_t number; /* from 1, without gaps, in the order in which changes became durable */
    instant at;
    struct id id;
    struct str queue, type; /* type is empty if it could not be found out */
    enum event event;
    enum status from, to; /* STATUS_GONE: there was, or is, no such job */
    bool removed;         /* the job has ended and is gone at once: it has no retention */
    int64_t run;          /* which run began, ended or was under way; negative: none */
    uint32_t attempt;     /* which attempt that run was, from 1; 0: no run */
    instant ready_at;     /* of a job that waits for a time, or that is tried again; or none */
    instant since;     /* of a job whose time has come: that time; of a run that begins: since when
                        * the job was ready, if that is known; of one that ends: when it began; or
                        * none. Not kept in the log */
    struct str worker; /* of the run */
    struct str reason; /* in words, or empty */
    enum culprit culprit;             /* of the run that ended, if somebody is to blame */
    struct str culprit_evidence;      /* how that is known, a sentence */
    struct str category, subcategory; /* of the failure of the run that ended, or empty */
    struct str message;               /* likewise, at most EVENT_MESSAGE_MAX bytes of it */
    int32_t exit_code;                /* of it, or of its first container that failed; 0: none */
    struct ruling ruling;             /* of a failure */
    struct str group; /* that the event is about, or that its job is in; only the first is kept */
    int32_t priority; /* of the job from then on; negative: it is not known */
    int32_t old_priority; /* of a change of it. Kept only of that */
    instant lease_end;    /* of a run that begins, if it has a lease; or none. Kept only of that */
    uint32_t runs;       /* of the job that had begun by then. Kept only of what event_tells_runs */
    uint64_t jobs;       /* of a group, that were given another priority. Kept only of that */
    struct str artifact; /* the name of a file that a run left. Kept only of that */
    bool lost, expired;  /* a run ended with its stream broken, or its lease over. Not kept */
    struct str traceparent;  /* of the job's trace (core/trace.h); empty: it has none, or, as is so
                              * when the time of a scheduled job comes, it is not known */
    instant waited_from;     /* of a run that begins: since when the job was ready, or none. Unlike
                              * `since` also if it came back without a failure. Not kept */
    const struct run *ended; /* the run that ended, valid during the call; or NULL. Not kept */
};

/* Whether an event of that kind is about a group alone, or about a group and the job that ended. */
static inline bool event_is_of_group(enum event e)
{
    return e == EVENT_GROUP_RESOLVED || e == EVENT_GROUP_SEALED || e == EVENT_GROUP_REPRIORITIZE;
}

/* Whether it says which priority its job has. */
static inline bool event_tells_priority(enum event e)
{
    return e != EVENT_DUE && e != EVENT_REMOVE && e != EVENT_PURGE && e != EVENT_GROUP_RESOLVED &&
           e != EVENT_GROUP_SEALED;
}

/* Whether it says how many runs of its job had begun, for it is not about one of them alone. */
static inline bool event_tells_runs(enum event e)
{
    return e == EVENT_RERUN || e == EVENT_UNBLOCK || e == EVENT_REPRIORITIZE || e == EVENT_ARTIFACT;
}

/* Up to which ready_at and id scheduled jobs were announced as ready. */
struct event_mark {
    instant at; /* or none: not one so far */
    struct id id;
};

#endif
