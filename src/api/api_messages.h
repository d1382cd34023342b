/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_MESSAGES_H
#define API_API_MESSAGES_H

/* Pages of events with what another front end says of them (struct api_messages). It has to read
 * the jobs of the events for that: a few at a time, so that neither the loop nor the memory is at
 * the mercy of a page. */

#include "api/api.h"

/* A page, or the beginning of one that would be too large: then page.more is set. */
struct api_told {
    struct event_page page;
    const struct str *messages; /* of each event: JSON, separated by commas; or empty */
    uint64_t spent;             /* nanoseconds of the loop */
};

/* Whose messages, and of which events. */
struct api_tell {
    const struct api_messages *messages;
    struct backend *backend;
    /* Whether anybody still wants to know what is said of that event. */
    bool (*wants)(void *ctx, const struct job_event *ev);
    void (*done)(void *ctx, const struct api_told *told);
    void *ctx;
};

/* Has all be said of the page's events, and calls done once, perhaps before it returns. What it
 * gives is valid for that call. *slot is set before; it names the work under way until then. */
struct api_telling;
void api_tell(const struct api_tell *tell, const struct event_page *page,
              struct api_telling **slot);
/* At the end of the server, if it was not done: nobody calls back any more. NULL is allowed. */
void api_telling_free(struct api_telling *t);

#endif
