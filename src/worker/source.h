/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

/* Where jobs come from, and where reports about them go: the interface between the loop of a worker
 * and a server. The loop has a fixed number of seats. Each holds at most one job, from its hand-out
 * to the acknowledged report, with at most one renewal or report in progress.
 *
 * One thread. Only source_wait blocks; answers come out of source_poll, through the callbacks of
 * the loop, which may begin the next request at once. */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/units.h"
#include "client/call.h"

/* A job that is held. Its strings are in the arena that source_next was given. */
struct source_job {
    struct str id, queue, type, payload;
    struct str token;                   /* of the run, as the source knows it */
    struct str checkpoint;              /* of an earlier run, JSON; or empty */
    struct str traceparent, tracestate; /* of its trace; or empty */
    int64_t attempts, run, priority;
    span lease;   /* as granted: at most as long as asked for */
    span max_run; /* that the run may take; 0: any time */
    void *held;   /* of the source, in the same arena; NULL if it needs nothing */
};

struct source_claim {
    size_t count;
    span lease;
    span wait; /* how long the server may delay the answer until there is a job */
};

/* The kind of a report. */
enum source_report { SOURCE_SUCCESS, SOURCE_FAILURE, SOURCE_RELEASE };

/* The result of a request; the texts are valid during the callback. */
struct source_answer {
    enum call_result result;
    mono sent;       /* when the request left */
    span lease;      /* after a renewal, as granted; 0: as asked for */
    struct str body; /* JSON, or empty */
    struct str why;  /* a sentence, unless result is CALL_DONE */
};

struct source_user {
    /* If the result is CALL_DONE, source_next has the jobs. */
    void (*claimed)(void *ctx, const struct source_answer *a);
    /* The answer to source_renew or source_report of this seat. */
    void (*answered)(void *ctx, size_t seat, const struct source_answer *a);
};

enum source_next {
    SOURCE_JOB,
    SOURCE_NONE, /* no more jobs */
    SOURCE_BAD,  /* a job without an id or a token; more may follow */
};

struct source;
struct source_vt {
    void (*claim)(struct source *s, const struct source_claim *c);
    enum source_next (*next)(struct source *s, struct arena *a, struct source_job *job);
    void (*withdraw)(struct source *s, span patience);
    void (*claim_abort)(struct source *s);
    void (*renew)(struct source *s, size_t seat, const struct source_job *job, span lease,
                  struct str news);
    void (*report)(struct source *s, size_t seat, const struct source_job *job,
                   enum source_report what, struct str members);
    void (*abort)(struct source *s, size_t seat);
    bool (*poll)(struct source *s);
    void (*wait)(struct source *s, const struct pollfd *fds, size_t count, int ms);
    void (*free)(struct source *s);
};

/* First member of every implementation. */
struct source {
    const struct source_vt *vt;
    const char *name; /* for messages: "http://127.0.0.1:7890" */
    bool claiming;    /* a claim is in progress */
    bool unsure;      /* the last claim had no answer, and may have got jobs: the next repeats it */
    const struct source_user *user;
    void *ctx;
};

/* Requests jobs; no other claim may be in progress. */
static inline void source_claim(struct source *s, const struct source_claim *c)
{
    s->vt->claim(s, c);
}

/* The next job of the claim that was just answered; only from within `claimed`. */
static inline enum source_next source_next(struct source *s, struct arena *a,
                                           struct source_job *job)
{
    return s->vt->next(s, a, job);
}

/* Requests an answer to the claim in progress; its jobs are to be given back. Just closing the
 * connection might lose a job that is on its way, until its lease ends. */
static inline void source_withdraw(struct source *s, span patience)
{
    s->vt->withdraw(s, patience);
}

/* Closes the connection of the claim in progress, if there is one. */
static inline void source_claim_abort(struct source *s)
{
    s->vt->claim_abort(s);
}

/* Moves the end of the lease to now + lease. `news` is from execution_news. */
static inline void source_renew(struct source *s, size_t seat, const struct source_job *job,
                                span lease, struct str news)
{
    s->vt->renew(s, seat, job, lease, news);
}

/* `members` are those of the body of a report, as specified in docs/api.md, each preceded by a
 * comma: `,"message":"no such host"`. */
static inline void source_report(struct source *s, size_t seat, const struct source_job *job,
                                 enum source_report what, struct str members)
{
    s->vt->report(s, seat, job, what, members);
}

/* Abandons the seat's request in progress, if there is one; no callback follows. */
static inline void source_abort(struct source *s, size_t seat)
{
    s->vt->abort(s, seat);
}

/* Calls back for every answer that has arrived; true if there was one. */
static inline bool source_poll(struct source *s)
{
    return s->vt->poll(s);
}

/* Waits until there is an answer, one of these descriptors is ready, or the time is over. */
static inline void source_wait(struct source *s, const struct pollfd *fds, size_t count, int ms)
{
    s->vt->wait(s, fds, count, ms);
}

static inline void source_free(struct source *s)
{
    s->vt->free(s);
}

#endif
