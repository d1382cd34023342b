/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SEEN_FILE_H
#define STORE_SEEN_FILE_H

/* The newest batch of PostgreSQL's that this server has seen, in a file of its root directory: one
 * that starts again still knows whether PostgreSQL has lost commits since. It is written without a
 * sync, and survives the process; after a power cut it may be older, and never newer. */

#include "postgres/pg_alarm.h"

#define SEEN_FILE "postgres-seen"

struct seen_file {
    int fd; /* -1: it could not be made, and nothing is kept */
    unsigned slot;
};

/* Reads what was kept; zeros if there is none. That it cannot be made is only logged. */
void seen_file_open(struct seen_file *f, const char *root, struct pg_seen *out);
/* On one thread. */
void seen_file_keep(struct seen_file *f, const struct pg_seen *seen);
void seen_file_close(struct seen_file *f);

#endif
