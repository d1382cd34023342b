/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_EXECUTOR_H
#define WORKER_EXECUTOR_H

/* How a job is run: the interface between the loop of a worker and whatever does the work. An
 * execution is one run in progress. Functions that report on a run write members of the body of a
 * report, as specified in docs/api.md, each preceded by a comma: `,"exit_code":3`.
 *
 * One thread; nothing here blocks. The loop polls an execution whenever one of its descriptors or a
 * SIGCHLD may concern it. */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"
#include "worker/source.h"

#define EXECUTION_FDS_MAX 2

enum execution_signal { EXECUTION_TERM, EXECUTION_KILL };

struct execution;
struct executor;
struct executor_vt {
    struct err (*start)(struct executor *e, const struct source_job *job, struct execution **out);
    void (*signal)(struct execution *x, enum execution_signal what);
    bool (*poll)(struct execution *x, bool sweep);
    size_t (*fds)(const struct execution *x, struct pollfd fds[EXECUTION_FDS_MAX]);
    void (*news)(struct execution *x, struct buf *members);
    void (*news_taken)(struct execution *x);
    void (*result)(struct execution *x, struct buf *members);
    void (*failure)(struct execution *x, span timeout, struct buf *members);
    void (*giving_back)(struct execution *x, instant now, struct buf *members); /* may be NULL */
    void (*free)(struct execution *x);
    void (*close)(struct executor *e);
};

/* First member of every implementation. */
struct executor {
    const struct executor_vt *vt;
};
struct execution {
    const struct executor_vt *vt;
    mono started, ended; /* ended is valid after execution_poll returned true, as is: */
    bool succeeded;
    /* The rest may be left zero. */
    span limit;      /* how long it may take; 0: as long as the worker says */
    bool delivering; /* the work is done, and what it made is being handed over: that is not subject
                      * to the limit, and goes on when it is told to end; killing it ends that, too
                      */
    bool returned;   /* after it has ended: it wants the job to be given back */
    bool decided;    /* after it has ended: it came to its result by itself, and the result stands
                      * even if it was told to end meanwhile */
};

/* Starts the work; the job and its strings outlive it. On an error, which says why, there is no
 * execution. */
NODISCARD static inline struct err executor_start(struct executor *e, const struct source_job *job,
                                                  struct execution **out)
{
    return e->vt->start(e, job, out);
}

/* Asks it to end, or kills it. */
static inline void execution_signal(struct execution *x, enum execution_signal what)
{
    x->vt->signal(x, what);
}

/* Does what can be done without blocking; true once it has ended. With sweep, whatever it left
 * running is killed, too: for a run that was told to end. */
static inline bool execution_poll(struct execution *x, bool sweep)
{
    return x->vt->poll(x, sweep);
}

/* The descriptors to wait for on its behalf. */
static inline size_t execution_fds(const struct execution *x, struct pollfd fds[EXECUTION_FDS_MAX])
{
    return x->vt->fds(x, fds);
}

/* Progress and checkpoint, if they changed since the server last accepted them; and the message
 * that the server has accepted what was last written. */
static inline void execution_news(struct execution *x, struct buf *members)
{
    x->vt->news(x, members);
}
static inline void execution_news_taken(struct execution *x)
{
    x->vt->news_taken(x);
}

/* The result of a successful run, if it left one. */
static inline void execution_result(struct execution *x, struct buf *members)
{
    x->vt->result(x, members);
}

/* Everything that is known about the cause of a failed run. timeout > 0 means that it was ended
 * because it took longer than that. */
static inline void execution_failure(struct execution *x, span timeout, struct buf *members)
{
    x->vt->failure(x, timeout, members);
}

/* When the job may be handed out again, and why, of a run that wants it to be given back. */
static inline void execution_giving_back(struct execution *x, instant now, struct buf *members)
{
    if (x->vt->giving_back)
        x->vt->giving_back(x, now, members);
}

/* Frees it; a process that was not killed continues unattended. NULL is fine. */
static inline void execution_free(struct execution *x)
{
    if (x)
        x->vt->free(x);
}

static inline void executor_free(struct executor *e)
{
    e->vt->close(e);
}

#endif
