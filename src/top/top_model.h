/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_TOP_MODEL_H
#define TOP_TOP_MODEL_H

/* What `tenax top` knows and where its user is: counts, rates, one page of jobs or queues,
 * the job in the detail pane, the search. Neither a terminal nor a connection. */

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

enum top_tab {
    TOP_IN_FLIGHT,
    TOP_READY,
    TOP_SCHEDULED,
    TOP_DEAD,
    TOP_QUEUES,
    TOP_BLOCKED,
    TOP_DONE,
    TOP_TABS
};
enum top_rate { TOP_ENQUEUED, TOP_TAKEN, TOP_COMPLETED, TOP_FAILED, TOP_RATES };

#define TOP_SECONDS 10 /* that rates are an average of */
#define TOP_ID_LEN  25

/* A list that came as JSON: the spans point into the text. */
struct top_page {
    struct buf text;
    struct str *rows;
    size_t count, cap;
    struct str next; /* path of the page after it, or empty */
};

struct top_model {
    enum top_tab tab;
    int64_t counts[TOP_TABS]; /* of the statuses; TOP_QUEUES is none */
    bool counted;
    int64_t buckets[TOP_RATES][TOP_SECONDS];
    int64_t second; /* that the newest bucket is of */
    bool live;      /* events come: rates are known */
    struct top_page page;
    bool loaded;          /* the page is one of this tab and search */
    size_t selected, top; /* row; first row that is shown */
    char search[128];
    char path[512];              /* of the page */
    struct buf trail;            /* the paths of the pages before it, each with a NUL */
    char detail[TOP_ID_LEN + 1]; /* the job in the pane, or empty */
    struct buf job, runs;        /* of it; empty: not there yet */
    size_t scroll;
    int64_t since; /* number of the newest event */
};

/* What an event makes stale. */
enum {
    TOP_STALE_COUNTS = 1,
    TOP_STALE_PAGE = 2,
    TOP_STALE_DETAIL = 4,
    TOP_STALE_ALL = 7,
    TOP_GAP = 8 /* events were missed: everything is stale */
};

void top_model_fini(struct top_model *m);
/* "in_flight" …; NULL for TOP_QUEUES. */
const char *top_tab_status(enum top_tab tab);

/* GET /health. */
void top_model_counts(struct top_model *m, struct str json);
/* A page; the selection stays on the job or queue where it was, if that is still there. */
void top_model_page(struct top_model *m, struct str json);
/* A line of GET /events at this second of any clock. What becomes stale; a blank line is nothing.
 */
unsigned top_model_event(struct top_model *m, struct str line, int64_t second);
/* Per second over the last TOP_SECONDS before this one. */
double top_model_rate(struct top_model *m, enum top_rate rate, int64_t second);

/* Goes to a tab, or applies a search: the path of its first page. */
void top_model_go(struct top_model *m, enum top_tab tab);
void top_model_search(struct top_model *m, const char *text);
/* To the next page, or back to the one before; false if there is none. */
bool top_model_turn(struct top_model *m, bool forward);
/* Moves the selection; shown is how many rows there is room for. */
void top_model_move(struct top_model *m, long by, size_t shown);

/* The selected row, or empty. */
struct str top_model_row(const struct top_model *m);
/* What names it: the job's id or the queue's name, in the buffer, with a NUL. */
const char *top_model_name(const struct top_model *m, struct buf *b);
/* Whether the row is to be shown: queues are searched here, jobs by the server. */
bool top_model_shows(const struct top_model *m, struct str row);

#endif
