/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CRONS_H
#define CORE_CRONS_H

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

#include "core/cron.h"
#include "core/engine.h"

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
    struct str zone; /* empty: the zone of the system */
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

/* 1 to CRON_NAME_MAX bytes of UTF-8 without control characters. ERR_BAD_NAME, ERR_BAD_UTF8. */
NODISCARD struct err cron_check_name(struct str name, const char *what);

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
NODISCARD struct err engine_cron_switch(struct engine *e, instant now, struct str group,
                                        struct str entry, enum cron_switch to, struct arena *a,
                                        struct cron_view *out);
/* Removes the entry; if it is empty the group; if that is empty, too, all groups. *removed:
 * how many. ERR_NOT_FOUND. */
NODISCARD struct err engine_cron_remove(struct engine *e, struct str group, struct str entry,
                                        size_t *removed);
/* The names of all groups in order, in the arena. */
size_t engine_cron_names(const struct engine *e, struct arena *a, struct str **names);
/* While held, ticks wait: for a disk that is almost full. They are late afterwards. */
void engine_cron_hold(struct engine *e, bool held);

/* Recovery: all groups, then all entries, before engine_restored. False: the zone of the
 * entry is not known (any more), so that it will not tick. ERR_CORRUPT. */
void engine_restore_cron_group(struct engine *e, const struct cron_group *group);
NODISCARD struct err engine_restore_cron_entry(struct engine *e, const struct cron_entry *entry,
                                               bool *ticks);

#endif
