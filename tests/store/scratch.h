/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_SCRATCH_H
#define TESTS_STORE_SCRATCH_H

#include "store/store.h"

/* A new empty folder in the working directory; the caller frees the name. */
char *scratch_make(void);
/* Removes a folder and all that is in it. */
void scratch_remove(const char *dir);

/* Commits and waits; returns the result. Empties the batch. */
struct err scratch_try_commit(struct store *s, struct batch *b, bool sync);
/* The same, but an error fails the test. */
void scratch_commit(struct store *s, struct batch *b);
/* One put in a batch of its own, synced. */
void scratch_put(struct store *s, const char *key, const char *value);
/* The key must have this value; NULL: it must be absent. */
void scratch_expect(struct store *s, const char *key, const char *value);

/* For tests of a store on RocksDB whose state is the name of a scratch folder. */
int scratch_set_up(void **state);
int scratch_tear_down(void **state);
void scratch_name_in(char *out, size_t size, const char *dir, const char *name);
/* For a store whose notices are not needed. */
void scratch_no_notice(void *ctx);
struct err scratch_try_open(const char *dir, struct store **s);
/* From now on stores are opened with that setting. */
void scratch_set_no_ring(bool on);
/* The same as scratch_try_open; NULL if it fails, after printing the reason. */
struct store *scratch_open_rocks(const char *dir);

#endif
