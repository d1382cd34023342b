/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_DEPEND_H
#define CORE_DEPEND_H

/* What jobs say of the jobs they wait for. A list of ids is a text of 16 bytes each,
 * big-endian: as it lies in the store. */

#include "base/arena.h"
#include "base/id.h"
#include "base/str.h"

#define DEPEND_MAX    100 /* jobs that one job may wait for */
#define DEPEND_ID_LEN 16

/* Until when it waits. These numbers are on disk. */
enum depend_when {
    DEPEND_ALL_COMPLETED, /* all of them have completed */
    DEPEND_ALL_ENDED,     /* or are dead, or were deleted */
    DEPEND_WHENS
};

/* What the death of one of them means. These numbers are on disk. */
enum depend_death {
    DEPEND_BLOCK, /* it waits on, as long as the dead one may be brought back */
    DEPEND_RUN,   /* the same as if that one had completed */
    DEPEND_DIE,   /* it goes dead, too */
    DEPEND_DEATHS
};

/* How one of them came to its end. These numbers are on disk. */
enum depend_end {
    DEPEND_COMPLETED,
    DEPEND_DEAD,
    DEPEND_REMOVED, /* deleted, which can be undone */
    DEPEND_GONE,    /* dead or deleted, and nothing can bring it back: nobody waits on */
    DEPEND_ENDS
};

/* "all_completed", "all_ended"; "block", "run", "die". */
const char *depend_when_name(enum depend_when w);
bool depend_when_parse(struct str name, enum depend_when *w);
const char *depend_death_name(enum depend_death d);
bool depend_death_parse(struct str name, enum depend_death *d);

static inline size_t depend_count(struct str ids)
{
    return ids.len / DEPEND_ID_LEN;
}

static inline struct id depend_at(struct str ids, size_t i)
{
    return id_decode((const uint8_t *)ids.at + i * DEPEND_ID_LEN);
}

/* Stands for a job of the same request that comes earlier, until that has an id. */
static inline struct id depend_earlier(uint32_t index)
{
    return (struct id){0, (uint64_t)index + 1};
}

static inline bool depend_is_earlier(struct id id, uint32_t *index)
{
    *index = (uint32_t)(id.lo - 1);
    return id.hi == 0;
}

/* Whether the list contains the id. */
bool depend_has(struct str ids, struct id id);
/* The list with room for count ids in the arena, still empty. */
struct str depend_new(struct arena *a, size_t count);
/* Adds one to a list that has room for it. */
void depend_add(struct str *ids, struct id id);
/* A list without that one, in the arena. */
struct str depend_without(struct str ids, struct id id, struct arena *a);

#endif
