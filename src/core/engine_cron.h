/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_CRON_H
#define CORE_ENGINE_CRON_H

/* Cron groups and their entries: jobs that the engine enqueues by itself, on the ticks of
 * an expression. A tick enqueues its job in the same batch as it writes down the next tick,
 * so that no tick is lost and none fires twice, whenever the process dies.
 *
 * An entry is late if the server was down or busy: however many ticks it has missed, it
 * fires once, as soon as it can (or not at all for those missed while the server was down:
 * engine_settings.cron_skip_missed). Paused ticks pass without a job and are not made up.
 *
 * In memory per entry: its name, its parsed expression and its clock; its job is read back
 * from the port when it is needed. */

#include "core/crons.h"
#include "core/engine.h"

/* Makes the group, or brings it up to date; all or nothing. Entries that are the same as
 * before keep everything, others their last tick and their pause; the next tick of one with other
 * times is after now. *out: the entries of the group if put->whole, else those that were put.
 * ERR_BAD_CRON, ERR_BAD_ZONE, ERR_BAD_NAME, ERR_BAD_VALUE, ERR_TOO_MANY; ERR_CONFLICT if
 * put->fresh. */
NODISCARD struct err engine_cron_put(struct engine *e, instant now, const struct cron_put *put,
                                     struct arena *a, struct cron_view *out);
/* ERR_NOT_FOUND. entry empty: all. */
NODISCARD struct err engine_cron_read(struct engine *e, struct str group, struct str entry,
                                      struct arena *a, struct cron_view *out);
/* Pauses or resumes the group, or the entry if it is not empty. ERR_NOT_FOUND. */
/* Gives the group another zone, or none if it is empty. ERR_NOT_FOUND, ERR_BAD_ZONE. */
NODISCARD struct err engine_cron_rezone(struct engine *e, instant now, struct str group,
                                        struct str zone);
NODISCARD struct err engine_cron_switch(struct engine *e, instant now, struct str group,
                                        struct str entry, enum cron_switch to, struct arena *a,
                                        struct cron_view *out);
/* Removes the entry; if it is empty the group; if that is empty, too, all groups. *removed:
 * how many. ERR_NOT_FOUND. */
NODISCARD struct err engine_cron_remove(struct engine *e, struct str group, struct str entry,
                                        size_t *removed);
/* The names of all groups in order, in the arena. */
size_t engine_cron_names(const struct engine *e, struct arena *a, struct str **names);
/* A tick of which engine_sink.tick has told: whether its job is still to come, for meanwhile the
 * entry may be gone, or have other times; of one that was paused meanwhile the tick passes. */
bool engine_cron_awaits(struct engine *e, instant now, struct id entry, uint64_t number);
/* Its job is in the batch of this very step, and so is the next tick from here on. */
void engine_cron_ticked(struct engine *e, instant now, struct id entry);
/* Its job cannot be stored now: the tick comes again. */
void engine_cron_put_off(struct engine *e, instant now, struct id entry);
/* While held, ticks wait: for a disk that is almost full. They are late afterwards. */
void engine_cron_hold(struct engine *e, bool held);
/* The clock was set back to `now`: the next tick of every entry is the first after that. */
void engine_cron_clock_back(struct engine *e, instant now);

/* Recovery: all groups, then all entries, before engine_restored. False: the zone of the
 * entry is not known (any more), so that it will not tick. ERR_CORRUPT. */
void engine_restore_cron_group(struct engine *e, const struct cron_group *group);
NODISCARD struct err engine_restore_cron_entry(struct engine *e, instant now,
                                               const struct cron_entry *entry, bool *ticks);

#endif
