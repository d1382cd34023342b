/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_GANG_INTERNAL_H
#define CORE_ENGINE_GANG_INTERNAL_H

/* Shared by the two files of gangs: engine_gang.c knows which jobs belong together,
 * engine_gang_plan.c finds takers for gangs that may be handed out. */

#include "core/engine_internal.h"

struct gang {
    struct gang_shape *shape; /* NULL: it may not be handed out, because some of it is not ready */
    struct btree_entry place; /* iff it has a shape: the place of its first member */
    struct str name;          /* owned by engine->gangs */
    uint64_t size, generation;
    bool formed;
    struct list members;
    uint32_t count, ready, live;
};

struct gang_member {
    struct list node;
    struct gang *gang;
    struct id id;
    uint64_t generation; /* in which it was last handed out */
    bool ready, live;
    struct queue *queue;      /* while ready */
    struct btree_entry entry; /* while ready */
    struct gang_part *part;   /* iff its gang has a shape */
    struct taker *plan;       /* who will get it; only while it is handed out */
};

/* All of it is ready: from now on it is handed out when there is room. */
void engine_gang_plan_add(struct engine *e, struct gang *g);
/* It is no longer ready; does nothing if it was not. */
void engine_gang_plan_remove(struct engine *e, struct gang *g);
void engine_gang_plan_check(const struct engine *e);
void engine_gang_plan_fini(struct engine *e);

#endif
