/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CRONS_H
#define CORE_CRONS_H

/* Cron groups and their entries as values: jobs that the engine enqueues by itself, on the ticks of
 * an expression (core/engine_cron.h). */

#include "core/cron.h"
#include "core/enqueue.h"

#define CRON_NAME_MAX          255
#define CRON_GROUPS_MAX        1000
#define CRON_GROUP_ENTRIES_MAX 1000
#define CRON_ENTRIES_MAX       10000 /* of all groups */
#define CRON_PAYLOAD_MAX       65536 /* bytes; a whole group goes into one answer */

struct cron_pause {
    bool paused;
    instant paused_at, resumed_at; /* the newest, or none */
};

struct cron_group {
    struct id id;
    struct str name;
    struct str zone; /* of the entries that name none; empty: the zone of the system */
    struct cron_pause pause;
};

struct cron_clock {
    instant next_at; /* the next tick, or none: it never comes */
    instant last_at; /* when it enqueued last, or none */
    struct cron_pause pause;
};

struct cron_entry {
    struct id id, group;
    uint32_t position; /* order within the group */
    struct str name, expression;
    struct str zone; /* empty: the zone of the group */
    bool classic;    /* put when days were read as cron_parse_classic does, and never since */
    struct enqueue job;
    struct cron_clock clock; /* stored apart from the rest, which a tick does not change */
};

enum cron_switch { CRON_AS_IS, CRON_PAUSE, CRON_RESUME };

struct cron_spec {
    struct str name, expression, zone;
    enum cron_switch paused;
    struct enqueue job; /* checked by the caller, as for engine_enqueue */
};

struct cron_put {
    struct str group;
    struct str zone; /* of the group, iff whole; empty: none */
    enum cron_switch paused;
    const struct cron_spec *entries;
    size_t count;
    bool whole; /* these are all entries of the group: others are removed */
    bool fresh; /* none of them may be there yet */
};

/* A group and those of its entries that were asked for, in their order; in the arena. */
struct cron_view {
    struct cron_group group;
    struct cron_entry *entries;
    size_t count;
};

/* As job_check_name. */
NODISCARD struct err cron_check_name(struct str name, const char *what);

#endif
