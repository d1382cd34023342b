/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_POSTGRES_PG_WIRE_H
#define TESTS_POSTGRES_PG_WIRE_H

/* A wire to a PostgreSQL that a test can cut: connections pass through a thread of its own. */

#include "postgres/pg_node.h"

struct pg_wire;

struct pg_wire *pg_wire_new(const struct pg_node *n);
/* The URL of PostgreSQL through the wire; valid as long as it. */
const char *pg_wire_url(const struct pg_wire *w);
/* The next answer does not arrive: its connection is closed instead. */
void pg_wire_lose_answer(struct pg_wire *w);
/* Closes all connections, and refuses new ones until that is called with false. */
void pg_wire_cut(struct pg_wire *w, bool on);
/* How many answers were lost. */
int pg_wire_lost(const struct pg_wire *w);
void pg_wire_free(struct pg_wire *w);

#endif
