/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_WAITS_H
#define CORE_ENGINE_WAITS_H

/* Waits that do not end by themselves: a held job's until somebody frees it, a gang's until its
 * missing members come, a blocked job's for jobs that are lost. Each has an end all the same. Part
 * of engine_internal.h. */

#include "base/btree.h"
#include "core/depend.h"
#include "core/job.h"

struct engine;

/* Of the walk over blocked jobs that begins with the engine. */
struct orphan_walk {
    bool runs;
    struct btree_entry at; /* looked at last */
    bool postponed;        /* some that it passed wait for jobs whose deletion may be undone */
    instant again;         /* then it begins anew, if it does not run; 0: never */
};

struct open_waits {
    struct btree held;  /* major: since when; held jobs without a deadline */
    struct btree gangs; /* major: since when; gangs that lack members; val: struct gang * */
    instant began;      /* the engine, in steady time: senders get a grace from then on */
    struct orphan_walk orphans;
};

/* When a wait is over that began at `since` and may last for `most`. */
instant engine_waits_end(const struct engine *e, instant since, span most);

/* A job is blocked, or no longer; does nothing unless it is held. */
void engine_waits_hold(struct engine *e, const struct job *job);
void engine_waits_free(struct engine *e, const struct job *job);
/* When that held job is dead; false: that is not limited, or it has a deadline. */
bool engine_waits_hold_end(const struct engine *e, const struct job *job, instant *end);
/* Whether it is known here, if it has to be. */
bool engine_waits_has(const struct engine *e, const struct job *job);
/* To be called when all is restored. */
void engine_waits_begin(struct engine *e, instant now);
/* Ends what has waited too long, `most` at a time; *more if some is left. */
NODISCARD struct err engine_waits_advance(struct engine *e, instant now, size_t *most, bool *more);
bool engine_waits_next(const struct engine *e, instant *at);
void engine_waits_check(const struct engine *e);
void engine_waits_fini(struct engine *e);

/* engine_gang_wait.c */
NODISCARD struct err engine_gang_waits_advance(struct engine *e, instant now, size_t *most,
                                               bool *more);

/* engine_orphans.c */
/* Looks for blocked jobs that missed the end of what they wait for, as older versions, a salvage or
 * damage may have left them; they are notified now. */
NODISCARD struct err engine_orphans_advance(struct engine *e, instant now, size_t *most,
                                            bool *more);
/* How a job that others wait for has ended, if it has; one that is damaged has not. */
NODISCARD struct err engine_awaited_end(const struct engine *e, struct id id, bool *ended,
                                        enum depend_end *end);
/* Whether one that waits for nothing that exists will still be found. */
bool engine_orphans_come(const struct engine *e);

#endif
