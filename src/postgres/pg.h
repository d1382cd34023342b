/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_H
#define POSTGRES_PG_H

/* A connection to PostgreSQL, over libpq. It blocks, and belongs to one thread at a time; nothing
 * blocks for longer than the deadline that it was given.
 *
 * Passwords come from a file, PGPASSWORD, PGPASSFILE or the URL, and are in no error and no line of
 * the log. Unless the URL or PGSSLMODE says otherwise, the certificate of every host but the
 * machine's own is verified (sslmode=verify-full), by the system's authorities unless sslrootcert
 * names others; of several hosts, the first one that takes writes is used, and one that does not
 * answer is waited for alone for a quarter of a second at most.
 *
 * Errors of all functions: ERR_POSTGRES if the connection broke, or the deadline passed: whether a
 * statement under way took effect is then unknown, and only pg_close is of use. Otherwise the
 * statement had no effect, and the connection goes on: ERR_FENCED if a function of the schema says
 * so (SQLSTATE TX001), ERR_CONFLICT (TX002), ERR_BUSY if a lock was not free in time,
 * ERR_DISK_FULL, ERR_POSTGRES_SCHEMA if a table or a function is missing, ERR_POSTGRES_REFUSED for
 * all others. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct pg;

struct pg_settings {
    const char *url; /* as libpq reads it: postgres://USER@HOST:PORT/DATABASE, or host=… */
    const char *password_file; /* its first line is the password; NULL: none */
    const char *purpose;       /* one word, which PostgreSQL's list of connections shows */
    span timeout;              /* until an answer, and for the connection; 0: 10 s */
    span bound; /* PostgreSQL itself gives a statement up after it, though nobody is there any more
                   to be told; 0: never */
};

/* What a call may last: the end of it, by pg_now. */
mono pg_now(void);
mono pg_after(mono from, span s);
/* Sleeps: between two tries. */
void pg_pause(span s);

/* The URL with stars in the place of a password, for messages. Replaces out. */
void pg_mask(const char *url, struct buf *out);
/* Whether the URL has a password, which an argument of a process must not. */
bool pg_has_password(const char *url);

/* ERR_USAGE: the URL or the file with the password is not one. */
NODISCARD struct err pg_open(const struct pg_settings *settings, struct pg **out);
/* NULL is fine. Does not wait. */
void pg_close(struct pg *pg);
/* From now on calls last so long at most; mono {0}: as the settings say, each. */
void pg_until(struct pg *pg, mono deadline);
/* The same where the end may move while a call waits: it is asked several times a second. */
void pg_until_asked(struct pg *pg, mono (*deadline)(void *ctx), void *ctx);
/* Whether an error has broken it. */
bool pg_is_broken(const struct pg *pg);
/* By which process PostgreSQL serves it. */
int pg_backend(const struct pg *pg);
/* For whoever waits in poll until PostgreSQL sends something. */
int pg_fd(const struct pg *pg);

/* --- statements --- */

enum pg_kind { PG_NULL, PG_INT, PG_TEXT, PG_BYTES };

struct pg_param {
    enum pg_kind kind;
    int64_t number;   /* of PG_INT, as a bigint */
    struct str bytes; /* of PG_TEXT and PG_BYTES */
};

static inline struct pg_param pg_number(int64_t v)
{
    return (struct pg_param){.kind = PG_INT, .number = v};
}

static inline struct pg_param pg_text(struct str s)
{
    return (struct pg_param){.kind = PG_TEXT, .bytes = s};
}

static inline struct pg_param pg_bytes(struct str s)
{
    return (struct pg_param){.kind = PG_BYTES, .bytes = s};
}

#define PG_PARAMS_MAX 12

/* Prepared at its first use on a connection, under its name, which no other has. Columns of
 * numbers are bigint, int or smallint; parameters of PG_INT are bigint. */
struct pg_statement {
    const char *name, *sql;
};

struct pg_rows; /* of an answer */

/* How many. */
size_t pg_rows_count(const struct pg_rows *rows);
/* NULL is fine. */
void pg_rows_free(struct pg_rows *rows);
/* Whether it is SQL's NULL. */
bool pg_is_null(const struct pg_rows *rows, size_t row, int column);
/* Valid as long as the rows, and followed by a NUL. */
struct str pg_get(const struct pg_rows *rows, size_t row, int column);
/* 0 if it is NULL. */
int64_t pg_get_int(const struct pg_rows *rows, size_t row, int column);

/* Runs a statement, in a transaction of its own unless one is open. rows may be NULL; otherwise the
 * caller frees what it gets unless there is an error. A WARNING counts as ERR_POSTGRES: that is how
 * PostgreSQL says that a COMMIT was not waited for by its standby. */
NODISCARD struct err pg_run(struct pg *pg, const struct pg_statement *s,
                            const struct pg_param *params, int count, struct pg_rows **rows);
/* The same in two steps, between which the caller may do other things. After an error of the first,
 * there is no second. */
NODISCARD struct err pg_send(struct pg *pg, const struct pg_statement *s,
                             const struct pg_param *params, int count);
NODISCARD struct err pg_receive(struct pg *pg, struct pg_rows **rows);
/* Whether pg_receive would return at once. */
bool pg_is_ready(struct pg *pg);

/* Calls fn for each row as it comes: however many there are, memory holds one. The deadline counts
 * anew from each row, unless pg_until has set one. An error of fn ends it, and breaks the
 * connection. */
NODISCARD struct err pg_each(struct pg *pg, const struct pg_statement *s,
                             const struct pg_param *params, int count,
                             struct err (*fn)(void *ctx, const struct pg_rows *row), void *ctx);

/* Runs statements without parameters, separated by semicolons. */
NODISCARD struct err pg_script(struct pg *pg, const char *sql);

/* LISTEN for a channel; the name is one of ours. */
NODISCARD struct err pg_listen(struct pg *pg, const char *channel);
/* Reads what has come, without waiting: whether a NOTIFY was among it. */
NODISCARD struct err pg_notified(struct pg *pg, bool *any);

#endif
