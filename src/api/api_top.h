/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_TOP_H
#define API_API_TOP_H

/* The WebSocket of `zizq top` (docs/moving.md): what the files about it share. A connection sees a
 * window of each of three lists, and hears what changes in them. */

#include "api/api_internal.h"
#include "net/websocket.h"

enum top_list { TOP_READY, TOP_IN_FLIGHT, TOP_SCHEDULED, TOP_LISTS };
enum status api_top_status(enum top_list list);

/* --- messages of the client (api_top_read.c) --- */

enum top_request { TOP_SUBSCRIBE, TOP_SET_DETAIL, TOP_DELETE, TOP_FIND };
struct top_message {
    enum top_request kind;
    enum top_list list;           /* SUBSCRIBE, FIND */
    struct window_command window; /* likewise, but for its status */
    bool detail;                  /* SET_DETAIL */
    struct id id;                 /* DELETE; none: there is no such job */
};
/* Texts lie in the arena, or in the message. */
NODISCARD struct err api_top_read(struct str text, struct arena *arena, struct top_message *m);

/* --- messages to it (api_top_write.c) --- */

struct top_server {
    uint64_t uptime_ms, totals[TOP_LISTS];
};
/* A window as it was read: its jobs as JSON, each with a comma behind. */
struct top_item {
    struct id id;
    size_t at, len; /* in text, without the comma */
};
struct top_window {
    struct top_item *items;
    size_t count;
    struct buf text;
    uint64_t first, total;
    struct id anchor; /* none: it was not found */
};
void api_top_window_read(struct top_window *w, const struct reply *r, bool detail);
void api_top_window_fini(struct top_window *w);
void api_top_write_heartbeat(struct buf *b, const struct top_server *s);
void api_top_write_snapshot(struct buf *b, const struct top_server *s,
                            const struct top_window windows[TOP_LISTS]);
/* item NULL: the job has left the list, or ended. */
void api_top_write_change(struct buf *b, const struct top_server *s, struct id id,
                          const char *status, const struct top_window *w,
                          const struct top_item *item);
void api_top_write_found(struct buf *b, const struct top_server *s, enum top_list list,
                         const struct reply *r);
/* "ready", "in_flight", "scheduled". */
const char *api_top_name(enum top_list list);

/* --- connections (api_top.c) --- */

struct api_top;
struct api_top *api_top_new(struct api *a);
void api_top_free(struct api_top *h);
/* Ends those of a token that counts no more; NULL: of every such token. */
void api_top_end(struct api_top *h, const struct token *of);

#endif
