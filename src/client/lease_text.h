/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_LEASE_TEXT_H
#define CLIENT_LEASE_TEXT_H

/* Renewals of leases as the Jobs API has them (docs/api.md): the bodies of POST /jobs/{id}/renew
 * and of POST /jobs/renew, and what the latter's answer says of each job. Pure. */

#include <stdbool.h>

#include "client/call.h"
#include "client/view.h"

/* So many leases are renewed by one request at most; the server takes 10,000. */
#define LEASE_TEXT_MAX ((size_t)1000)

struct lease_text {
    struct str job;   /* its id */
    struct str token; /* of the run, as JSON; empty: it is not known, and run names it */
    int64_t run;      /* its index; -1: the token names it */
    span lease;       /* from now on */
};

/* Adds the body of POST /jobs/{id}/renew up to its closing brace. */
void lease_text_one(struct buf *b, const struct lease_text *l);
/* Adds a job, which must have a token, to the body of POST /jobs/renew, which is empty at first;
 * and what the body ends with. */
void lease_text_add(struct buf *b, const struct lease_text *l);
void lease_text_end(struct buf *b);

/* What became of one lease, as if it had been renewed by a request of its own. */
struct lease_answer {
    enum call_result result;
    int status;
    struct str body; /* the job's part of the answer */
    struct str code; /* of an error: "stale_token" */
    struct str why;  /* a sentence, unless the result is CALL_DONE */
};

/* What the whole request came to. */
enum lease_outcome {
    LEASE_EACH,    /* the answer says it of each job: lease_text_list */
    LEASE_UNKNOWN, /* an older server, which has no such request: each lease is renewed by itself */
    LEASE_FAULTY,  /* it refuses all because of one: likewise, these ones */
    LEASE_ALL,     /* the answer is that to each renewal */
};
enum lease_outcome lease_text_outcome(enum call_result result, long status);
/* The answers, in the order of the request: one that is missing is CALL_TRY_LATER. The texts are in
 * the answer or the arena. */
struct view_list lease_text_list(struct str answer);
void lease_text_next(struct view_list *l, struct arena *a, struct lease_answer *out);

#endif
