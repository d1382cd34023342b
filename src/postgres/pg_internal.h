/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_INTERNAL_H
#define POSTGRES_PG_INTERNAL_H

/* Shared by the files of the connection. */

#include <libpq-fe.h>

#include "postgres/pg.h"

#define PG_PREPARED_MAX 64

struct pg {
    PGconn *conn;
    span timeout;
    mono until; /* 0: none */
    mono (*ask)(void *ctx);
    void *ctx;
    bool broken;
    char *warning; /* the first one since the statement was sent */
    const struct pg_statement *prepared[PG_PREPARED_MAX];
    size_t prepared_count;
};

/* pg_url.c */
/* The parameters of a connection, as two arrays that end with a NULL. */
struct pg_url {
    const char *names[48], *values[48];
    int count;
    char *password; /* of the file; NULL: none */
    PQconninfoOption *parsed;
};

/* ERR_USAGE. In any case pg_url_fini is called. */
NODISCARD struct err pg_url_read(const struct pg_settings *settings, struct pg_url *out);
void pg_url_fini(struct pg_url *u);
/* Which host, hostaddr, port or target_session_attrs the URL or the environment has; NULL: neither.
 */
const char *pg_url_get(const struct pg_url *u, const char *name);

/* pg_connect.c */
/* A connection to one of the hosts. ERR_POSTGRES, also at the deadline. */
NODISCARD struct err pg_connect(const struct pg_url *url, mono deadline, PGconn **out);

/* pg.c */
/* libpq's words on one line; of several, the first ones. */
const char *pg_flat(const char *text, char out[160]);
/* The end of a call that begins now. */
mono pg_deadline(const struct pg *pg);
/* Waits until the socket can be read, or written as well. ERR_POSTGRES at the deadline. */
NODISCARD struct err pg_await(struct pg *pg, bool write, mono deadline);
/* The connection is of no use any more; the error has libpq's words. */
NODISCARD struct err pg_break(struct pg *pg, const char *doing);
/* What an answer that is an error means. */
NODISCARD struct err pg_err_of(struct pg *pg, const PGresult *result);

#endif
