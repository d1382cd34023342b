/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_SCRATCH_H
#define TESTS_STORE_SCRATCH_H

#include "store/store.h"

/* A new empty folder below the working directory; the caller frees the name. */
char *scratch_make(void);
/* Removes a folder and the files in it. */
void scratch_remove(const char *dir);

/* Commits and waits; how it ended. Empties the batch. */
struct err scratch_try_commit(struct store *s, struct batch *b, bool sync);
/* The same where a failure fails the test. */
void scratch_commit(struct store *s, struct batch *b);
/* One put in a batch of its own, synced. */
void scratch_put(struct store *s, const char *key, const char *value);
/* The key has this value; NULL: it is not there. */
void scratch_expect(struct store *s, const char *key, const char *value);

#endif
