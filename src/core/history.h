/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

/* The failure history: the newest failures of all jobs, and which of these jobs succeeded after
 * them. It outlives the jobs, so that a simulation of retry policies sees those, too, that
 * failed, succeeded and were deleted. Whoever keeps it bounds how many entries there are. */

#include "base/arena.h"
#include "core/job.h"

struct history_entry {
    /* id, queue, type, retry_limit, backoff, the policies that it adds and the memory that it asks
     * for; state.attempts: its failures so far, this one included. Of a success only id, queue,
     * type and state.attempts. */
    struct job job;
    bool succeeded; /* the job has, after so many failures; run then says only when */
    struct run run; /* that failed: index, ended_at, outcome, attempt, reason and failure */
};

/* What an entry keeps of each text of a failure, and of all of them together. */
#define HISTORY_TEXT_MAX    1024
#define HISTORY_FAILURE_MAX 4096

/* The part of a failure by which it can be judged again, in bounded room: without backtrace, hint,
 * the events of its pod and what the cluster said; texts are cut between characters, and
 * containers for which there is no room left out. Views into f; the list lies in the arena. */
struct failure history_cut(const struct failure *f, struct arena *a);

#endif
