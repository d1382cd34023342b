/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BACKLOG_H
#define CORE_BACKLOG_H

/* Why nothing moves: what the waiting jobs of a queue wait for, counted. A plain value, which
 * engine_backlog gathers from the indexes: counts, and a few names for which a job is read. */

#include "base/glob.h"
#include "base/units.h"
#include "core/explain.h"

/* Concurrency keys, budgets or nodes of one queue that are named; those that hold back the most.
 * Jobs of others are counted together. */
#define BACKLOG_NAMES_MAX 10
/* Of keys, budgets, nodes and takers that are found in a queue, so many are looked at. */
#define BACKLOG_LOOK_MAX 1000

/* One kind of obstacle, or one thing of that kind. A job may be counted by several. */
struct backlog_reason {
    enum obstacle_kind kind;
    uint64_t jobs; /* how many it holds back */
    bool at_least; /* there may be more: not all was looked at */
    /* Of the key, the budget or the node; of OBSTACLE_NO_WORKER `task` or `job`: only takers of the
     * other kind are there. Empty: none, or several. */
    struct str name;
    instant until;   /* or none: that is up to somebody */
    struct str text; /* a sentence without its full stop */
};

/* Kinds of which there is one each, and named ones with the rest of their kind. */
#define BACKLOG_REASONS_MAX (OBSTACLE_KINDS + JOB_KINDS + 3 * (BACKLOG_NAMES_MAX + 1))

struct backlog {
    struct str queue;
    uint64_t blocked, scheduled, ready;
    /* As in struct explanation; of those that name the queue, and of those of all queues, up to
     * BACKLOG_LOOK_MAX are counted. */
    uint32_t workers, with_room;
    struct crew crew;               /* iff jobs of it are ready */
    struct backlog_reason *reasons; /* those that hold back most come first */
    size_t reason_count;
    struct str *warnings; /* about what judges its jobs' failures; the backend's to add */
    size_t warning_count;
};

struct backlog_ask {
    struct str from; /* empty: from the start */
    size_t limit;
    struct glob_list reach; /* of their names; none: all */
};

/* In the order of their names; queues in which nothing waits are left out. */
struct backlog_page {
    struct backlog *at;
    size_t count; /* maybe fewer than asked for, or 0, although more follow */
    bool more;
    struct str next; /* iff more: where the next page begins */
};

#endif
