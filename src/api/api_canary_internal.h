/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_CANARY_INTERNAL_H
#define API_API_CANARY_INTERNAL_H

/* A retry with canaries, and how it lies on the disk. */

#include "api/api_canary.h"

#define CANARY_TEXT_MAX 160 /* bytes of a reason */

enum canary_state { STATE_CANARY, STATE_REST, STATE_DONE, STATE_FAILED, STATE_STOPPED, STATES };

struct canary_job {
    struct id id;
    bool succeeded;
    bool idle; /* it is dead or gone: nobody is going to run it */
    bool gone;
};

struct canary {
    struct list node; /* in api_canaries.all, by number */
    struct api_canaries *hub;
    uint64_t number;
    enum canary_state state, next; /* next: on its way to the disk */
    bool known;                    /* it is durable, and shown */
    bool busy;                     /* a change of jobs is under way for it */
    bool again;                    /* to go on with at the next heartbeat */
    bool uncounted;                /* some of the rest may have been retried already */
    bool caught_up;                /* the events until its canaries were retried are known */
    bool idle;                     /* one of its canaries is */
    instant began, ended;
    uint64_t since; /* the newest event that was looked at */
    uint32_t rate;  /* of the rest; 0: all at once */
    uint64_t retried, succeeded;
    char *query, *by; /* filters, "a=b&c=d"; who asked, JSON or empty */
    char reason[CANARY_TEXT_MAX], next_reason[CANARY_TEXT_MAX];
    struct canary_job *jobs;
    size_t count;
    struct call *call; /* who waits for the answer; or NULL */
    struct event_read *read;
};

struct api_canaries {
    struct api *api;
    struct list all;
    uint64_t newest;
};

/* --- api_canary_show.c --- */

const char *api_canary_state_name(enum canary_state s);
void api_canary_answer(struct http_exchange *x, int status, struct api *a, const struct canary *c);

/* --- api_canary_entry.c --- */

/* A copy that ends with a NUL, to be freed. */
char *api_canary_text(struct str s);
/* The value of its entry, in the state that comes next. */
void api_canary_write(const struct canary *c, struct buf *b);
/* The reverse; false: it is none. */
bool api_canary_load(struct canary *c, const struct kv_entry *e);

#endif
