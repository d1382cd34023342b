/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_OVERTIME_H
#define CORE_ENGINE_OVERTIME_H

/* The part of engine_internal.h about limits of a run's time; by it alone this is included. */

/* A run begins: the shortest limit of those that the job, its queue and who takes it state counts.
 * The options are those that are handed out: they say from now on what counts. */
void engine_overtime_begin(struct engine *e, instant now, struct live *l, const struct queue *q,
                           span of_worker, struct job_options *o);
/* A run of earlier goes on. */
void engine_overtime_set(struct engine *e, struct live *l, span max, instant limit,
                         enum run_limit by);
/* When the time of the run is over; 0: never. */
instant engine_overtime_at(const struct engine *e, const struct live *l);
/* What ends then at the latest: `due` by the steady time, or `end` by that of jobs. */
instant engine_overtime_cut(const struct live *l, instant due);
instant engine_overtime_ends(const struct engine *e, const struct live *l, instant end);
/* ERR_RUN_LIMIT if it is over. */
NODISCARD struct err engine_overtime_check(const struct engine *e, instant now,
                                           const struct live *l);
/* Makes an error about a run that is over say that it took too long, if it did. */
void engine_overtime_stale(const struct job_extras *x, struct run_ref ref, struct err *err);
/* Takes it out of the order of limits. */
void engine_overtime_drop(struct engine *e, struct live *l);
/* Ends runs whose time is over, `most` of them at a time; *more if some are left. */
NODISCARD struct err engine_overtime_advance(struct engine *e, instant now, size_t *most,
                                             bool *more);
bool engine_overtime_next(const struct engine *e, instant *at);

/* Both in engine_report.c. */
/* Of a claim that maybe nobody got the answer to: nobody is charged for it. */
void engine_return_unconfirmed(struct engine *e, instant now, struct live *l);
/* The run has failed as r says, whatever its ref. Otherwise as engine_fail. */
NODISCARD struct err engine_fail_live(struct engine *e, instant now, struct live *l,
                                      const struct failure_report *r, struct arena *a,
                                      struct job *job);

#endif
