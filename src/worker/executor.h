/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_EXECUTOR_H
#define WORKER_EXECUTOR_H

/* How a job is run: the seam between the loop of a worker and what does the work. An execution is
 * one run under way. What a run leaves behind is written as members of the body of a report, as
 * docs/api.md has them, each with a comma before it: `,"exit_code":3`.
 *
 * One thread; nothing here blocks. The loop polls an execution whenever one of its descriptors or
 * a SIGCHLD may have news of it. */

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
    void (*free)(struct execution *x);
    void (*close)(struct executor *e);
};

/* First member of every implementation. */
struct executor {
    const struct executor_vt *vt;
};
struct execution {
    const struct executor_vt *vt;
    mono started, ended; /* ended is valid once execution_poll said so, as is: */
    bool succeeded;
};

/* Starts the work; the job and its strings outlive it. On an error, which says why, there is no
 * execution. */
NODISCARD static inline struct err executor_start(struct executor *e, const struct source_job *job,
                                                  struct execution **out)
{
    return e->vt->start(e, job, out);
}

/* Asks it to end, or ends it. */
static inline void execution_signal(struct execution *x, enum execution_signal what)
{
    x->vt->signal(x, what);
}

/* Does what can be done now; true once it has ended. With sweep, whatever it left running is ended,
 * too: for a run that was told to end. */
static inline bool execution_poll(struct execution *x, bool sweep)
{
    return x->vt->poll(x, sweep);
}

/* What to wait for on its behalf. */
static inline size_t execution_fds(const struct execution *x, struct pollfd fds[EXECUTION_FDS_MAX])
{
    return x->vt->fds(x, fds);
}

/* Progress and checkpoint, as far as they changed since the server took the last ones; and that
 * the server took what was written last. */
static inline void execution_news(struct execution *x, struct buf *members)
{
    x->vt->news(x, members);
}
static inline void execution_news_taken(struct execution *x)
{
    x->vt->news_taken(x);
}

/* Of one that succeeded: its result, if it left one. */
static inline void execution_result(struct execution *x, struct buf *members)
{
    x->vt->result(x, members);
}

/* Of one that failed: all that is known of why. timeout > 0 says that it was ended because it took
 * longer than that. */
static inline void execution_failure(struct execution *x, span timeout, struct buf *members)
{
    x->vt->failure(x, timeout, members);
}

/* Whatever still runs goes on unattended, unless it was killed. NULL is fine. */
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
