/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_FAILURE_GROUPS_H
#define CORE_FAILURE_GROUPS_H

/* Failures that are alike, counted: a group for each fingerprint (core/fingerprint.h), with when it
 * was seen first and last, how often in each of the last minutes and hours, and some of its jobs.
 * There are never more groups than the limit, each of bounded size: a new one then takes the place
 * of the one that was not seen for the longest time. Whoever keeps them on a disk asks after each
 * turn which have changed and which are gone. One thread. */

#include "base/idmap.h"
#include "base/list.h"
#include "core/history.h"

#define FAILURE_GROUP_MINUTES 60
#define FAILURE_GROUP_HOURS   168
#define FAILURE_GROUP_SAMPLES 5
#define FAILURE_GROUP_TEXT    256 /* bytes of the message, and of each further text of a failure */

/* How often in each of so many equal periods; the newest period has this number, counted from
 * 1970. */
struct failure_counts {
    int64_t newest;
    uint32_t at[FAILURE_GROUP_HOURS]; /* of period p: at[p % periods] */
};

struct failure_sample {
    struct id job;
    uint32_t run;
    instant at;
};

struct failure_group {
    uint64_t fingerprint;
    struct str queue, type, error_type, category, message; /* message: simplified */
    enum outcome outcome;
    enum condition condition;
    int32_t exit_code, signal;
    instant first_seen, last_seen;
    uint64_t count;                       /* since first_seen */
    uint64_t culprits[CULPRIT_COUNT];     /* of them, by whose fault they were, if that is known */
    struct failure_counts minutes, hours; /* FAILURE_GROUP_MINUTES and _HOURS periods */
    struct failure_sample samples[FAILURE_GROUP_SAMPLES]; /* of different jobs, the newest first */
    size_t sample_count;
    /* Its own. */
    struct list order, changed;
};

enum failure_trend { FAILURE_NEW, FAILURE_RISING, FAILURE_STEADY, FAILURE_FALLING, FAILURE_QUIET };

struct failure_groups {
    struct idmap by_fingerprint;
    struct list order;   /* of groups, the one seen last at the end */
    struct list changed; /* those that have changed since failure_groups_changed */
    uint64_t *gone;      /* fingerprints of those that went since failure_groups_gone */
    size_t gone_count, gone_cap;
    uint64_t dropped; /* groups that made room for others, since the start */
};

void failure_groups_init(struct failure_groups *g);
void failure_groups_fini(struct failure_groups *g);
static inline size_t failure_groups_count(const struct failure_groups *g)
{
    return g->by_fingerprint.count;
}

/* Counts a failure, at run.ended_at. max, at least 1, is how many groups there may be. */
void failure_groups_add(struct failure_groups *g, const struct history_entry *failed, size_t max);
/* Puts back a group that was stored; its texts are copied. Groups come in any order, and are sorted
 * once failure_groups_restored is called: no later than `now` and none twice. */
void failure_groups_restore(struct failure_groups *g, const struct failure_group *stored);
void failure_groups_restored(struct failure_groups *g, instant now);
/* Lets go of up to `most` groups beyond the limit or not seen since then, those not seen for the
 * longest time first. True if others are left. */
bool failure_groups_trim(struct failure_groups *g, size_t max, instant since, size_t most);

/* NULL if there is none; valid until the next change. */
const struct failure_group *failure_groups_find(const struct failure_groups *g, uint64_t f);
/* The next one that has changed, or NULL: each once. */
const struct failure_group *failure_groups_changed(struct failure_groups *g);
/* The next one that is gone; 0: no other. It may have come again since. */
uint64_t failure_groups_gone(struct failure_groups *g);

/* CMD_FAILURES: which groups, and in which order: the greatest first. */
enum failures_order {
    FAILURES_BY_LAST_SEEN,
    FAILURES_BY_FIRST_SEEN,
    FAILURES_BY_COUNT,
    FAILURES_BY_LAST_HOUR,
};
struct failures_query {
    uint64_t fingerprint; /* only this one; 0: any */
    const struct str *queues, *types;
    size_t queue_count, type_count; /* 0: any */
    struct str error_type;          /* empty: any */
    enum culprit culprit;           /* only those with failures that are its fault; NONE: any */
    instant since;                  /* only those seen since then; 0: any */
    enum failures_order order;
    uint32_t limit; /* 1 to FAILURES_PAGE_MAX */
};
#define FAILURES_PAGE_MAX 1000

struct failure_blame {
    enum culprit culprit;
    uint64_t count;
};
/* A group as it was at that time. */
struct failure_view {
    struct failure_group group;
    instant now;
    struct failure_blame blames[CULPRIT_COUNT]; /* the greatest count first */
    size_t blame_count;
};
struct failures_page {
    const struct failure_view *groups;
    size_t count;
    uint64_t total;   /* that match */
    uint64_t dropped; /* see struct failure_groups */
};

/* How often in the last n minutes or hours, the present one included. */
uint64_t failure_group_last_minutes(const struct failure_group *group, instant now, int n);
uint64_t failure_group_last_hours(const struct failure_group *group, instant now, int n);
/* In the period that began so many periods before the present one. */
uint32_t failure_group_minute(const struct failure_group *group, instant now, int ago);
uint32_t failure_group_hour(const struct failure_group *group, instant now, int ago);
/* Whose fault its failures were, the culprit of most of them first. Returns how many there are. */
size_t failure_group_blames(const struct failure_group *group,
                            struct failure_blame blames[CULPRIT_COUNT]);
/* The last half hour compared with the one before: new if the group was seen first in the last half
 * hour, rising if twice as many or more, falling if half as many or fewer, quiet if none in
 * either. */
enum failure_trend failure_group_trend(const struct failure_group *group, instant now);
const char *failure_trend_name(enum failure_trend t);

#endif
