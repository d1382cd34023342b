/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_COPY_H
#define SIM_COPY_H

/* The store of a simulated server whose log is PostgreSQL's: the real log, and what a copy says of
 * itself and is judged by is real, too. Its tables are a memory store, which outlives the process
 * as the folder `cache` does. It opens as store/rocks_foreign.c does, and commits on a fiber of its
 * own as store/rocks_commit.c does on a thread. */

#include "store/copy_mark.h"
#include "store/store.h"

/* What is kept on the server's disk. */
struct copy {
    struct store *tables; /* NULL: there is no copy */
    struct copy_mark mark;
};

struct copy_settings {
    struct copy *kept;
    struct log_postgres_settings log;
    bool accept_loss;
    void (*notify)(void *ctx); /* a batch is durable, or has ended */
    void *ctx;
};

/* Errors of rocks_foreign.h. */
NODISCARD struct err copy_open(const struct copy_settings *settings, struct store **out);
/* One look at what there is to commit, on the fiber for that. */
void copy_commit_step(struct store *s);
/* Whether PostgreSQL had no room for the last batch. */
bool copy_is_full(const struct store *s);
/* The last batch that is durable. */
uint64_t copy_durable(const struct store *s);

#endif
