/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_CRON_INTERNAL_H
#define CORE_ENGINE_CRON_INTERNAL_H

/* What the files about cron share: groups and entries in memory. */

#include "core/cron.h"
#include "core/engine_cron.h"
#include "core/engine_internal.h"

#define CRON_RUNNING ((struct cron_pause){false, INSTANT_NONE, INSTANT_NONE})

struct cron_set;

/* An entry of a group. */
struct cron_item {
    struct id id;
    struct cron_set *set;
    uint32_t position;
    struct str name; /* owned by cron_set.names */
    struct cron cron;
    const struct cron_zone *zone; /* NULL: not known, it does not tick */
    bool inherits;                /* the zone is that of the group */
    struct cron_clock clock;
    instant armed_at; /* of its deadline, or none */
    uint64_t tick;    /* of which engine_sink.tick was told, and whose job is to come; 0: none */
    bool kept;        /* by the put under way */
    struct budget_set *budgets; /* that its jobs draw on; NULL: none */
};

/* A group. */
struct cron_set {
    struct cron_group group;  /* its name is owned by crons.names; owns its zone */
    struct strmap names;      /* of struct cron_item */
    struct cron_item **items; /* by position */
    size_t count, cap;
};

struct crons {
    struct strmap names; /* of struct cron_set */
    struct idmap sets, items;
    bool held;
    uint64_t ticks; /* that were told of */
};

struct cron_set *engine_cron_set_add(struct engine *e, const struct cron_group *group);
struct cron_item *engine_cron_find_item(const struct cron_set *s, struct str name);
struct cron_item *engine_cron_item_add(struct engine *e, struct cron_set *s, struct id id,
                                       struct str name, uint32_t position);
/* Takes the item out of everything but its group's list, and frees it. */
void engine_cron_item_drop(struct engine *e, struct cron_item *it);
/* The next tick is at that time, or never. */
void engine_cron_arm(struct engine *e, struct cron_item *it, instant at);
void engine_cron_put_clock(struct engine *e, const struct cron_item *it);
/* The entry as it is stored. */
NODISCARD struct err engine_cron_load(struct engine *e, const struct cron_item *it, struct arena *a,
                                      struct cron_entry *out);
/* Pauses or resumes; true if that changed something. */
bool engine_cron_turn(struct cron_pause *p, instant now, enum cron_switch to);
NODISCARD struct err engine_cron_find_zone(struct engine *e, struct str name,
                                           const struct cron_zone **zone);
/* True if that changed something. */
bool engine_cron_set_zone(struct cron_set *s, struct str zone);

#endif
