/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_WORKERS_H
#define CORE_WORKERS_H

/* Who works: workers by name, with what is known of them since the start of the server. A worker is
 * here from when it first asks for jobs; one that has neither a stream nor a waiting claim is
 * forgotten after a while, and earlier if there are too many. One that is quiet, which means that
 * it is given nothing more, stays until that is taken back. One thread. */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"
#include "base/strmap.h"
#include "base/units.h"

#define WORKERS_MAX        10000
#define WORKERS_QUIET_MAX  1000
#define WORKERS_KEPT_MS    3600000 /* after it was last heard of */
#define WORKERS_TEXT_MAX   255     /* bytes kept of each text, */
#define WORKERS_NOTICE_MAX 500     /* and of a notice */

struct worker {
    struct str name;
    struct str node, address, agent; /* empty: not known */
    struct str queues;               /* "a,b"; empty: all */
    struct str notice;               /* why it asks for no jobs; empty: it does, or does not say */
    instant since, last_seen;        /* 0: it was not heard of since the start */
    uint32_t streams, claims;        /* that it has open */
    bool quiet;
    /* Its own. */
    char *texts; /* all but the name */
    struct list order;
};

struct workers {
    struct strmap by_name;
    struct list order; /* the one heard of last at the end */
    size_t quiet;
};

/* What a worker says of itself when it asks for jobs, or when it says why it does not. */
struct worker_greeting {
    struct str name, node, address, agent;
    const struct str *queues;
    size_t queue_count; /* 0: all */
    struct str notice;  /* why it does not ask */
};

/* CMD_WORKERS: one, or a page by name. */
struct workers_query {
    struct str name;  /* or empty */
    struct str after; /* page: names after this one */
    uint32_t limit;   /* page: 1 to WORKERS_PAGE_MAX */
};
#define WORKERS_PAGE_MAX 1000
struct worker_view {
    struct worker worker;
    uint64_t in_flight;
};

void workers_init(struct workers *w, uint64_t seed);
void workers_fini(struct workers *w);

/* It asks for jobs, or says why not. NULL if it has no name, or there is no room, because all
 * others are there. */
struct worker *workers_greet(struct workers *w, const struct worker_greeting *g, instant now);
/* It was heard of otherwise; nothing happens if it is not known. */
void workers_heard(struct workers *w, struct str name, instant now);
struct worker *workers_find(const struct workers *w, struct str name);
bool workers_is_quiet(const struct workers *w, struct str name);
/* Quiet or no longer; one that is not known becomes known by it. False: too many are quiet. */
bool workers_hush(struct workers *w, struct str name, bool quiet);
void workers_unhush_all(struct workers *w);
/* Forgets up to `most` that were not heard of for long enough. */
void workers_trim(struct workers *w, instant now, size_t most);

#endif
