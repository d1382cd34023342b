/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_GRACE_H
#define CORE_ENGINE_GRACE_H

/* Runs that go on after they were ended (engine_grace.c). All that is here changes the batch under
 * way. */

#include "core/engine.h"

struct live;
struct queue;

/* Clears the grace period: the job waits only for ready_at. */
void engine_grace_clear(struct job_extras *x);

/* The run is ended from outside, as its gang is retried: it goes on until its worker says
 * otherwise, its lease is over or, if a stream has it, for half a minute. Until then s->ready_at,
 * which is the time of the retry, is put off. */
void engine_grace_recall(const struct engine *e, instant now, const struct live *l,
                         struct job_state *s);

/* Such a run has ended, by a report that its worker sent too late. Any other is ignored. */
NODISCARD struct err engine_grace_over(struct engine *e, instant now, struct run_ref ref);

/* Such a run failed as well, and may have a grace of its own: `stale` if the job does not wait for
 * it. The job, in the arena, as it is then. */
NODISCARD struct err engine_fail_recalled(struct engine *e, instant now,
                                          const struct failure_report *r, const struct err *stale,
                                          struct arena *a, struct job *job);

/* --- engine_report.c --- */

/* What the policies and limits say of a failure. */
struct verdict engine_decide(struct engine *e, instant now, const struct queue *q,
                             const struct verdict_request *r, struct arena *a);
/* The category of a failure, where its reporter named none. */
void engine_name_category(struct engine *e, struct failure *f, enum outcome outcome,
                          struct arena *a);

/* The same report is no news from now on. */
static inline void engine_set_reported(struct job_extras *x, uint64_t token, enum outcome outcome)
{
    x->reported_token = token;
    x->reported_outcome = outcome;
}

#endif
