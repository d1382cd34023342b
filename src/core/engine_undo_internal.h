/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_UNDO_INTERNAL_H
#define CORE_ENGINE_UNDO_INTERNAL_H

/* How a job that had ended, or was gone, waits again. */

#include "core/engine_internal.h"

/* engine_change.c */
/* How engine_bring_back begins: with which event from which status, and whether the job is blocked
 * then. */
struct bring_back {
    enum event event; /* to STATUS_SCHEDULED */
    enum status from;
    bool blocked;
    struct str reason;
};
/* Moves a job through the statuses that follow for it, to that in which it waits. */
void engine_bring_back(struct engine *e, instant now, struct job *job,
                       const struct bring_back *how);

/* engine_group.c */
/* Whether a job that was deleted may come back into its group, as the group was; and it does, as
 * engine_group_join, also into one that is sealed. */
bool engine_group_takes_back(const struct engine *e, const struct group_record *was);
void engine_group_rejoin(struct engine *e, const struct job *job, const struct group_record *was);

/* engine_gang.c */
/* Whether a job that was a member may be one again. */
bool engine_gang_takes_back(const struct engine *e, const struct job *job);
/* Makes it one again, if it was. Its gang can have been complete for longer than members are waited
 * for; while not all of them are back, the wait begins now. */
void engine_gang_rejoin(struct engine *e, instant now, const struct job *job);

/* engine_depend.c */
/* Lets a job that was blocked, and is to be again, wait for those of its dependencies that are not
 * done by now. */
struct err engine_depend_resume(struct engine *e, instant now, struct job *job, struct arena *a);

#endif
