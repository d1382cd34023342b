/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_TOP_MODEL_H
#define TOP_TOP_MODEL_H

/* What `tenax top` knows and shows: counts, rates, one page of jobs, queues or workers, the
 * job in the detail pane, the search. It uses neither the terminal nor the network. */

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
    TOP_WORKERS,
    TOP_TABS
};
enum top_rate { TOP_ENQUEUED, TOP_TAKEN, TOP_COMPLETED, TOP_FAILED, TOP_RATES };

#define TOP_SECONDS 10 /* the period of the average */
#define TOP_ID_LEN  25

/* A list received as JSON: the spans point into the text. */
struct top_page {
    struct buf text;
    struct str *rows;
    size_t count, cap;
    struct str next; /* path of the next page, or empty */
};

struct top_model {
    enum top_tab tab;
    int64_t counts[TOP_TABS]; /* by status; that of other tabs is 0 */
    bool counted;
    int64_t buckets[TOP_RATES][TOP_SECONDS];
    int64_t second; /* of the newest bucket */
    bool live;      /* events arrive: rates are known */
    struct top_page page;
    bool loaded;          /* the page belongs to this tab and search */
    size_t selected, top; /* row; first row that is shown */
    char search[300];
    char path[1024];             /* of the page */
    struct buf trail;            /* the paths of the previous pages, each terminated by NUL */
    char detail[TOP_ID_LEN + 1]; /* the job in the pane, or empty */
    struct buf job, runs;        /* of that job; empty: not received yet */
    size_t scroll;
    char since[64]; /* cursor of the newest event; or empty */
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
/* "in_flight" …; NULL for tabs without jobs. */
const char *top_tab_status(enum top_tab tab);

/* Takes an answer to GET /health, or to GET /queues with details: then the counts are sums. */
void top_model_counts(struct top_model *m, struct str json);
/* Takes a page; the selection stays on its job, queue or worker, if that is still there. */
void top_model_page(struct top_model *m, struct str json);
/* Takes a line of GET /events, at this second of any clock. Returns what becomes stale; a blank
 * line is ignored. */
unsigned top_model_event(struct top_model *m, struct str line, int64_t second);
/* Per second, over the TOP_SECONDS before this one. */
double top_model_rate(struct top_model *m, enum top_rate rate, int64_t second);

/* Goes to a tab, or applies a search: sets the path of its first page. */
void top_model_go(struct top_model *m, enum top_tab tab);
void top_model_search(struct top_model *m, const char *text);
/* To the next page, or back to the previous one; false if there is none. */
bool top_model_turn(struct top_model *m, bool forward);
/* Moves the selection; shown is the number of rows that fit. */
void top_model_move(struct top_model *m, long by, size_t shown);

/* The selected row, or empty. */
struct str top_model_row(const struct top_model *m);
/* The job's id, or the name of the queue or worker, in the buffer, with a NUL. */
const char *top_model_name(const struct top_model *m, struct buf *b);
/* Whether the row is to be shown: queues and workers are filtered here, jobs by the server. */
bool top_model_shows(const struct top_model *m, struct str row);

#endif
