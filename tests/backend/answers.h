/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_ANSWERS_H
#define TESTS_BACKEND_ANSWERS_H

/* Tests acting as a front end: they send commands through backend.h, open streams and claims, and
 * keep the replies. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"

#define ANSWER_LIST_MAX 16
#define ANSWER_TEXT_MAX 64

/* The reply to one command. Zero-initialised before the command is sent. */
struct answer {
    unsigned came; /* number of replies */
    struct err err;
    size_t count;
    uint64_t events_since;
    bool events_gap;
    bool more, has_live;
    uint64_t token;
    instant lease_end;
    struct ready_place place;
    struct id ids[ANSWER_LIST_MAX]; /* of jobs, handouts or ids, whichever the reply has */
    uint64_t tokens[ANSWER_LIST_MAX];
    bool folded[ANSWER_LIST_MAX]; /* of an enqueue */
    enum status status;           /* of the first job */
    uint32_t attempts;
    char payload[ANSWER_TEXT_MAX];    /* of the first job */
    char names[ANSWER_TEXT_MAX];      /* each followed by a space */
    struct run runs[ANSWER_LIST_MAX]; /* without strings */
    size_t run_count;                 /* of CMD_READ */
    char reason[160];                 /* of the last run */
    bool writable;
    span committing;
    uint64_t jobs[STATUS_COUNT];
    void (*then)(void *ctx); /* called from inside the reply */
    void *ctx;
};

struct stream {
    struct backend_stream *handle;
    unsigned opened; /* how often it was reported open, or refused */
    struct err refused;
    struct id ids[ANSWER_LIST_MAX];
    size_t count;
    unsigned closed;
    void (*on_closed)(void *ctx);
    void *ctx;
};

/* Fills in the answer at ctx; a second reply fails the test. */
void answers_on_reply(void *answer, const struct reply *r);
/* Sends a command; `to` is filled in when the reply arrives. */
void answers_send(struct backend *b, struct command c, struct answer *to);

/* The status by the answer to CMD_READ; STATUS_GONE if there is no such job. */
enum status answers_status(const struct answer *a);

/* A job with the payload {"n":1}, otherwise default. */
struct enqueue answers_spec(const char *queue);

/* Opens a stream; a NULL queue means all queues. `to` is filled in as jobs arrive. */
void answers_stream(struct backend *b, const char *queue, uint32_t prefetch, struct stream *to);
struct backend_claim *answers_claim(struct backend *b, const char *queue, uint32_t count, span wait,
                                    struct answer *to);
#define ANSWERS_LEASE ((span){60000})

#define assert_code(expr, want) assert_int_equal((expr).code, (want))
#define assert_ok(expr)         assert_code((expr), ERR_OK)
#define assert_id(a, b)         assert_true(id_eq((a), (b)))

#endif
