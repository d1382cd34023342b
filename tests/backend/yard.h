/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_YARD_H
#define TESTS_BACKEND_YARD_H

/* The embedded backend on a memory store, with a clock that only the test moves
 * and a record of every reply, delivery and commit. */

#include "answers.h"
#include "backend/embedded/embedded.h"
#include "store/memory.h"

struct yard {
    struct store *store;
    struct store_vt vt; /* the memory store's, with the parts below put in */
    const struct store_vt *below;
    struct backend *b;
    struct backend_settings settings;
    instant now;
    int64_t *ticks; /* microseconds of a clock that nobody sets, from the next start on; or NULL */
    uint64_t seed;
    struct evaluator *evaluator; /* from the next start of the backend on */
    const size_t *questions;     /* of it that wait for the test to answer them, or NULL */
    /* the parts */
    int64_t free_space;
    unsigned commits, syncs;
};

int yard_setup(void **state);
int yard_teardown(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, yard_setup, yard_teardown)

/* What a backend on this yard's store gets of the world. */
struct env yard_env(struct yard *y);

/* One turn of the loop; the engine's promises are checked after it. */
void yard_turn(struct yard *y);
void yard_turn_after(struct yard *y, int64_t ms);
/* Turns until nothing is left to do but what waits for the evaluator. */
void yard_settle(struct yard *y);
/* What the next commits of the store do. */
void yard_faults(struct yard *y, struct memory_faults f);
/* Ends the backend and opens another on what the store has. */
void yard_restart(struct yard *y);
/* The same where the store finds that the disk is full. */
void yard_restart_full(struct yard *y);

/* The same after a crash: what was on its way to the disk is lost. */
void yard_crash(struct yard *y);

/* Sends a command; `to` is filled in when the reply comes. */
void yard_send(struct yard *y, struct command c, struct answer *to);
/* The same, and turns until the reply is there. */
void yard_ask(struct yard *y, struct command c, struct answer *to);

struct enqueue yard_spec(const char *queue);
void yard_enqueue(struct yard *y, const char *queue, struct answer *to);
/* A job that is durable. */
struct id yard_add(struct yard *y, const char *queue);
void yard_read(struct yard *y, struct id id, struct answer *to);
enum status yard_status(struct yard *y, struct id id); /* STATUS_GONE if it is not there */

/* Streams and claims; to is filled in as jobs come. */
void yard_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to);
struct err yard_try_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to);
struct backend_claim *yard_claim(struct yard *y, const char *queue, uint32_t count, span wait,
                                 struct answer *to);
#endif
