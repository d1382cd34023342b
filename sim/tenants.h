/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TENANTS_H
#define SIM_TENANTS_H

/* A simulation of two tenants: the real Jobs API behind the real router, with a token for each that
 * is limited to its own queues. Both give everything the same names, and ask at random for whatever
 * a producer, worker and operator may; a also names jobs and queues of b, whose ids it knows. One
 * of them, b, does the same twice, alone and beside the other: its answers must be the same, byte
 * for byte, over restarts, too. Times are compared as they are, for both runs have the same clock;
 * only ids, tokens of runs and numbers that count for the whole server (of events, and of
 * operations) are compared by what they stand for. What comes over a stream is compared bit by bit,
 * as it is read between two requests. */

#include "access/holders.h"
#include "access/identities.h"
#include "api/api.h"
#include "backend/embedded/embedded.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/strmap.h"
#include "disk.h"

#define TENANT_QUEUES 3
#define TENANT_RUNS   16

/* A run that it was handed, and has not reported. */
struct tenant_run {
    struct str job, token;
};

struct tenant {
    char letter;                /* its queues begin with it */
    const struct tenant *tries; /* whose queues and jobs it names at times; NULL: nobody's */
    struct rng rng;
    struct token *token;
    char authorization[8 + TOKEN_TEXT_LEN];
    struct arena arena;
    struct str *jobs; /* ids, in the order in which it first met them */
    size_t job_count, job_cap;
    struct strmap met; /* id -> its index + 1 */
    struct tenant_run runs[TENANT_RUNS];
    size_t run_count;
    struct str *answers; /* by the number of the request */
    size_t asked, answer_cap;
    unsigned waiting; /* requests without an answer, but for streams, */
    unsigned streams; /* of which there are so many */
};

struct tenant_request {
    enum http_method method;
    struct str target, body, key; /* key: Idempotency-Key, or empty */
    bool waits;                   /* it may be answered later */
    bool stream;                  /* it is answered bit by bit, until whoever asked leaves */
};

void tenants_simulate(uint64_t seed, uint64_t steps, bool print);

/* --- tenants_ask.c --- */
/* Something that it may want; texts are in the tenant's arena. */
struct tenant_request tenants_some_request(struct tenant *t);
/* All that can be read, one after another; false: there is no further one. */
bool tenants_next_read(struct tenant *t, size_t n, struct tenant_request *out);

/* --- tenants_answer.c --- */
/* A request is sent: the next number is its. */
void tenants_note_request(struct tenant *t, struct str text);
/* Learns ids and runs from an answer, and keeps what it says in plain form, as the answer to that
 * request. */
void tenants_keep_answer(struct tenant *t, size_t request, int status, struct str body);
/* The process ended before it came. */
void tenants_keep_loss(struct tenant *t, size_t request);

#endif
