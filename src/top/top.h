/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

/* Shared by the files of `tenax top`: top.c has the loop, top_feed.c talks to the server,
 * top_view.c draws, top_keys.c handles keys. One thread; nothing in it ever waits for the
 * server. */

#include "client/client.h"
#include "client/subcommand.h"
#include "top/top_model.h"
#include "client/when.h"

extern const struct subcommand top_command;
int top_main(int argc, char **argv);

/* Kinds of requests; at most one of each kind at a time. */
enum top_ask {
    TOP_ASK_RIGHTS,
    TOP_ASK_COUNTS,
    TOP_ASK_PAGE,
    TOP_ASK_JOB,
    TOP_ASK_RUNS,
    TOP_ASK_ACTION,
    TOP_ASKS
};

struct top_request {
    struct call call;
    bool wanted;
    mono not_before; /* spares the server and the network after each answer */
    mono started;
    bool old; /* the answer in progress is for a page or a job that is no longer shown */
};

enum top_mode { TOP_MODE_LIST, TOP_MODE_SEARCH, TOP_MODE_CONFIRM, TOP_MODE_HELP };

struct top {
    struct client client;
    struct top_model model;
    CURLM *multi;
    struct top_request ask[TOP_ASKS];
    struct buf rights; /* the answer of GET /rights; empty: not known */
    bool has_rights;   /* it was answered, whatever */
    /* The stream of events. */
    struct call stream;
    struct buf line; /* an incomplete line of it */
    bool polls;      /* the server has no events: it is polled instead */
    mono stream_at;  /* when to reopen it */
    mono polled;     /* when it was last polled */
    bool down;       /* the server does not answer */
    char why[200];   /* why it does not */
    /* What the user is doing. */
    enum top_mode mode;
    char typed[300];              /* TOP_MODE_SEARCH */
    char method[8], target[1024]; /* TOP_MODE_CONFIRM: the request to be confirmed */
    char body[32];                /* likewise; empty: none */
    char question[200], done[200];
    char message[200];
    bool bad; /* the message is about a failure */
    bool quit, dirty;
    size_t shown; /* rows of the list that fit on the screen */
};

/* The current second, for rates. */
static inline int64_t top_second(void)
{
    return when_mono().ns / 1000000000;
}

/* top_feed.c */
void top_feed_init(struct top *t);
void top_feed_fini(struct top *t);
/* Requests what is stale (TOP_STALE_...). */
void top_feed_want(struct top *t, unsigned stale);
/* Starts the requests that are due, and handles answers. Waits for input or an answer, up to a
 * quarter of a second. */
void top_feed_turn(struct top *t);
/* Sends the confirmed request. */
void top_feed_act(struct top *t);
/* How long the oldest request for what is shown has been waiting. */
span top_feed_waiting(const struct top *t);

/* top_rights.c */
void top_rights_take(struct top *t, enum call_result result, struct str answer);
/* Whether the user is limited to some queues. */
bool top_rights_limited(const struct top *t);
/* Whether the user may do that, named as in access/rights.def. */
bool top_rights_may(const struct top *t, const char *operation);
/* The same, and says why not. */
bool top_rights_ask(struct top *t, const char *operation);

/* top_view.c */
bool top_view_open(void);
void top_view_close(void);
void top_view_draw(struct top *t);

/* top_keys.c */
/* Handles a key, as ncurses encodes it. */
void top_keys_take(struct top *t, int key);
/* Shows the selected job in the pane, or nothing. */
void top_keys_detail(struct top *t, const char *id);

#endif
