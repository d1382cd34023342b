/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_SURPLUS_H
#define CORE_ENGINE_SURPLUS_H

/* The part of engine_internal.h about completed jobs of which the newest are kept; by it alone this
 * is included. */

/* Whether it may go before its retention is over, if it completes: by what it asked for, or by its
 * record. */
bool engine_surplus_may_be(const struct engine *e, const struct queue *q, span own, instant until,
                           struct unique_ref u);
bool engine_surplus_has(const struct engine *e, const struct queue *q, const struct job *job);
/* val: the index of its queue, or what engine_surplus_val says of a run that completes it. */
void engine_surplus_add(struct engine *e, instant purge_at, struct id id, uint64_t val);
uint64_t engine_surplus_val(const struct live *l);
/* Nothing if it is not among them. */
void engine_surplus_remove(struct engine *e, instant purge_at, struct id id);
/* Whether there are more than are kept. */
bool engine_surplus_is_due(const struct engine *e);
/* Purges the oldest until there are not, *most at most, which it lowers. */
NODISCARD struct err engine_surplus_trim(struct engine *e, instant now, size_t *most, bool *more);

#endif
