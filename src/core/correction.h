/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CORRECTION_H
#define CORE_CORRECTION_H

/* A clock that was ahead is set back: what that makes of the times of a job. Pure.
 *
 * What had come true by the wrong clock has come true now. What was still to wait for is waited for
 * as long as was left of it; but a job that never failed keeps the ready_at that it was enqueued
 * with, for that is someone's word about the wall clock. */

#include "core/job.h"
#include "core/port.h"

struct correction {
    instant from; /* the newest instant of the wrong clock */
    instant to;   /* the same moment by the right one; never after `from` */
};

/* True if that changed something. */
bool correction_apply(const struct correction *c, struct job_state *s);
/* The same for a lease that lies beside the state. */
void correction_lease(const struct correction *c, struct lease *lease);

#endif
