/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_REACH_H
#define BACKEND_EMBEDDED_EMBEDDED_REACH_H

/* Senders that are limited to queues (struct command, reach): what lies in other queues is answered
 * as if it were not there, and what is answered of their own jobs names no job of others. Loop
 * thread. */

#include "backend/embedded/embedded_internal.h"
#include "core/explain.h"

/* A copy in the arena. */
struct glob_list embedded_reach_own(struct arena *a, struct glob_list reach);

/* Whether the command, which is not about many jobs, is about what the sender may see; its names
 * then mean what they mean for this sender. What they need is in the arena of the turn. */
NODISCARD struct err embedded_reach_check(struct embedded *b, struct command *c);
/* The same of a run that its holder names: a holder also reaches to a job that was moved since it
 * was handed out. */
NODISCARD struct err embedded_reach_run(struct embedded *b, struct glob_list reach,
                                        struct run_ref run);

/* Whether an enqueue keeps to what its sender may have (embedded_quota.c). ERR_QUOTA. */
NODISCARD struct err embedded_quota_check(struct embedded *b, const struct command *c);
/* The same in the arena. */
const struct enqueue_quota *embedded_own_quota(struct arena *a, const struct enqueue_quota *quota);

/* Of commands (embedded_command.c). */
/* The id of the job that a command is about; false: it is not about just one. */
bool embedded_subject(const struct command *c, struct id *id);
/* Whether its argument is command.list. */
bool embedded_is_about_many(enum command_kind kind);
/* Whether operators have made the workers of that name quiet (embedded_workers.c). */
bool embedded_worker_is_quiet(const struct embedded *b, struct str worker);

/* Takes out of a reply what names jobs of other queues. */
void embedded_reach_reply(struct embedded *b, const struct command *c, struct reply *r);
void embedded_reach_scanned(struct embedded *b, const struct scan *scan);
void embedded_reach_explanation(struct embedded *b, struct glob_list reach, struct explanation *x);
void embedded_reach_handouts(struct embedded *b, struct glob_list reach, struct handout *h,
                             size_t count);

#endif
