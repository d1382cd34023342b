/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_POSTGRES_PG_NODE_H
#define TESTS_POSTGRES_PG_NODE_H

/* A PostgreSQL of Debian's for one test program: in a folder of its own below /tmp, reached by a
 * socket there, and gone when the program ends, however that ends. As root it runs as the user
 * `postgres`, since it refuses to run as root. Where it cannot be started, the test fails. */

#include "postgres/pg.h"

struct pg_node {
    char dir[64];
    char url[192]; /* of its superuser */
    int pid;       /* of the process that was started; 0: it does not run */
};

/* A new, empty one that runs, with the schema tenax. For a whole group of tests: NULL settings, or
 * lines for postgresql.conf. */
void pg_node_start(struct pg_node *n, const char *settings);
/* Ends it at once, as a crash does. */
void pg_node_kill(struct pg_node *n);
/* Starts it again. */
void pg_node_again(struct pg_node *n);
/* Adds a line to postgresql.conf and has it read again. */
void pg_node_set(struct pg_node *n, const char *line);
/* From now on that role needs its password. */
void pg_node_guard(struct pg_node *n, const char *role);
void pg_node_remove(struct pg_node *n);

/* A connection of the superuser's; an error fails the test. */
struct pg *pg_node_open(const struct pg_node *n);
/* Runs SQL on a connection of its own. */
void pg_node_sql(const struct pg_node *n, const char *sql);
/* The first column of the first row, a number. */
int64_t pg_node_ask(const struct pg_node *n, const char *sql);
/* Makes a shard for a test, with the next number. */
int pg_node_shard(const struct pg_node *n);

#endif
