/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_ARRAY_H
#define POSTGRES_PG_ARRAY_H

/* An array of bytea in the binary form in which PostgreSQL takes it, made piece by piece. */

#include <stdint.h>

#include "base/buf.h"

struct pg_array {
    struct buf bytes;
    uint32_t count;
};

/* Empty, keeping its memory. */
void pg_array_reset(struct pg_array *a);
/* Adds an element. */
void pg_array_add(struct pg_array *a, struct str element);
/* The whole; valid until the next change. */
struct str pg_array_view(struct pg_array *a);
void pg_array_fini(struct pg_array *a);

#endif
