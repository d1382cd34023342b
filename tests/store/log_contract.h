/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_LOG_CONTRACT_H
#define TESTS_STORE_LOG_CONTRACT_H

/* The promises of every log (src/store/log.h), as tests that each run on a new one. */

#include "base/buf.h"
#include "store/log.h"

/* A log that can be closed and opened again. */
struct log_kind {
    const char *name;
    /* An empty one; state is the kind's. */
    void *(*make)(void);
    struct err (*open)(void *state, uint64_t from, struct log **out);
    void (*unmake)(void *state);
};

/* Returns the number of failures. */
int log_contract_run(const struct log_kind *kind);

/* For all tests of logs: batch n, which nothing but n determines: 0 to most_len bytes of it. */
void log_batch(uint64_t n, size_t most_len, struct buf *out);
/* Appends the next batches, up to that number, and waits for them. */
void log_batch_fill(struct log *l, uint64_t last, size_t most_len);
/* A replay from that number gives all batches from there to log_durable, each as it was. */
void log_batch_expect(struct log *l, uint64_t from, size_t most_len);

#endif
