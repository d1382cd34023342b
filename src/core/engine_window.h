/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_WINDOW_H
#define CORE_ENGINE_WINDOW_H

/* The lists of jobs that operators watch, over all queues: ready jobs as they would be handed out,
 * by priority and age; scheduled ones by when they are due; those in flight by when they were
 * taken. Nothing is read from the store. */

#include "core/engine.h"

struct window_place {
    uint64_t key; /* by which the list is ordered, then by id */
    struct id id;
    uint32_t queue; /* for engine_window_queue */
};

/* The first jobs of the list of that status (ready, in_flight, scheduled) in queues within reach,
 * in its order; returns how many, at most `most`. Without what engine_peek leaves out. The work is
 * bounded: of very many jobs in flight those with the smallest ids are in the list, and scheduled
 * ones may be missing behind very many other deadlines. */
size_t engine_window(const struct engine *e, enum status status, struct glob_list reach,
                     struct window_place *places, size_t most);
/* How many jobs of that status there are in queues within reach. */
uint64_t engine_window_total(const struct engine *e, enum status status, struct glob_list reach);
/* The name of a place's queue; valid until the next change. */
struct str engine_window_queue(const struct engine *e, const struct window_place *place);

#endif
