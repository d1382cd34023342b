/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_PLACE_H
#define TESTS_STORE_PLACE_H

/* A server's store whose log is in PostgreSQL, for tests: a root directory, a shard, an epoch. Log
 * tables hold 128 KiB. */

#include "postgres/pg_node.h"
#include "store/rocks_foreign.h"

/* Where all of them are; the test's main starts and removes it. */
extern struct pg_node place_node;

struct place {
    char *dir;
    int shard;
    const char *url;
    uint64_t epoch;
    span flush_after;
    bool accept_loss;
    mono (*owned_until)(void *ctx);
    struct store *s;
};

/* A new folder, and nothing open. */
void place_init(struct place *p, int shard);
void place_fini(struct place *p);
/* For tests whose state is a place of a new shard, open. */
int place_set_up(void **state);
int place_tear_down(void **state);

/* The next epoch of a shard, and its owner. */
uint64_t place_take(int shard);
struct err place_try_open(struct place *p);
/* As a server that starts: in an epoch of its own. */
void place_open(struct place *p);
void place_close(struct place *p);
void place_open_again(struct place *p);
/* The same, and records are flushed every 20 ms. */
void place_flush_soon(struct place *p);

struct rocks_foreign_state place_state(struct place *p);
void place_expect_start(struct place *p, enum rocks_foreign_start start, uint64_t replayed);
/* Removes the tables of one that is closed. */
void place_remove_copy(struct place *p);

int64_t place_count_records(const struct place *p);
/* Until records show everything up to that batch. */
void place_await_flushed(struct place *p, uint64_t seq);
/* Commits a batch of 20 kB. */
void place_put_large(struct place *p, int n);
/* Batches in the log. */
int64_t place_count_rows(const struct place *p);
/* Commits until the log has been emptied of all but the last ones. No other shard lives on. */
void place_await_emptied(struct place *p);

#endif
