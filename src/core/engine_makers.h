/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_MAKERS_H
#define CORE_ENGINE_MAKERS_H

/* Who has made which jobs, of those who may have only so many. A job carries its maker for as long
 * as it exists, so what a maker has follows from the jobs: nothing about it is stored. It is the
 * maker who is charged, wherever the job lies by now and whoever has brought it back. */

#include "core/engine.h"

struct maker_holds {
    uint64_t waiting; /* jobs that are blocked, scheduled or ready */
    uint64_t keys;    /* unique keys and aliases that its jobs hold */
};

/* Zeroes for one who has nothing. */
struct maker_holds engine_maker_holds(const struct engine *e, uint64_t maker);

#endif
