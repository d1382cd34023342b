/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BACKEND_YARD_H
#define TESTS_BACKEND_YARD_H

/* The embedded backend on a memory store, with a clock that only the test moves and a record of
 * every reply, delivery and commit. */

#include "answers.h"
#include "backend/embedded/embedded.h"
#include "store/memory.h"

struct yard {
    struct store *store;
    struct store_vt vt; /* the memory store's, with these replacements */
    const struct store_vt *below;
    struct backend *b;
    struct backend_settings settings;
    instant now;
    int64_t *ticks; /* microseconds of a clock that nobody sets, from the next start on; or NULL */
    int64_t tick_step; /* by which it goes on whenever it is read */
    uint64_t seed;
    struct evaluator *evaluator; /* from the next start of the backend on */
    const size_t *questions;     /* its questions that wait for the test to answer them, or NULL */
    /* the replacements */
    int64_t free_space;
    unsigned commits, syncs;
};

int yard_setup(void **state);
int yard_teardown(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, yard_setup, yard_teardown)

/* The environment for a backend on this yard's store. */
struct env yard_env(struct yard *y);

/* One turn of the loop; the engine's promises are checked after it. */
void yard_turn(struct yard *y);
void yard_turn_after(struct yard *y, int64_t ms);
/* Turns until nothing is left to do, except what waits for the evaluator. */
void yard_settle(struct yard *y);
/* Sets the faults of the store's next commits. */
void yard_faults(struct yard *y, struct memory_faults f);
/* Stops the backend and opens another on what the store has. */
void yard_restart(struct yard *y);
/* The same, where the store finds the disk full. */
void yard_restart_full(struct yard *y);

/* The same after a crash: what was being committed is lost. */
void yard_crash(struct yard *y);

/* Sends a command; `to` is filled in when the reply arrives. */
void yard_send(struct yard *y, struct command c, struct answer *to);
/* The same, and turns until the reply arrives. */
void yard_ask(struct yard *y, struct command c, struct answer *to);

struct enqueue yard_spec(const char *queue);
void yard_enqueue(struct yard *y, const char *queue, struct answer *to);
/* Adds a job, and makes it durable. */
struct id yard_add(struct yard *y, const char *queue);
void yard_read(struct yard *y, struct id id, struct answer *to);
enum status yard_status(struct yard *y, struct id id); /* STATUS_GONE if it is not there */

/* Streams and claims; `to` is filled in as jobs arrive. */
void yard_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to);
struct err yard_try_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to);
struct backend_claim *yard_claim(struct yard *y, const char *queue, uint32_t count, span wait,
                                 struct answer *to);
#endif
