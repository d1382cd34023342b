/* SPDX-License-Identifier: Apache-2.0 */

/* Statements and their answers. An answer has come when libpq says that there is nothing more: a
 * COMMIT, and a WARNING of it, come after the rows. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "postgres/pg_internal.h"

/* --- rows --- */

static const PGresult *result_of(const struct pg_rows *rows)
{
    return (const PGresult *)rows;
}

size_t pg_rows_count(const struct pg_rows *rows)
{
    return (size_t)PQntuples(result_of(rows));
}

void pg_rows_free(struct pg_rows *rows)
{
    PQclear((PGresult *)rows);
}

bool pg_is_null(const struct pg_rows *rows, size_t row, int column)
{
    return PQgetisnull(result_of(rows), (int)row, column);
}

struct str pg_get(const struct pg_rows *rows, size_t row, int column)
{
    const PGresult *r = result_of(rows);
    return (struct str){PQgetvalue(r, (int)row, column), (size_t)PQgetlength(r, (int)row, column)};
}

/* Two's complement, big-endian, of 1 to 8 bytes; a boolean is one. */
int64_t pg_get_int(const struct pg_rows *rows, size_t row, int column)
{
    struct str s = pg_get(rows, row, column);
    if (pg_is_null(rows, row, column) || s.len == 0)
        return 0;
    must(s.len <= 8);
    uint64_t v = s.at[0] < 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < s.len; i++)
        v = v << 8 | (unsigned char)s.at[i];
    return (int64_t)v;
}

/* --- sending --- */

NODISCARD static struct err flush(struct pg *pg, mono deadline)
{
    int left;
    while ((left = PQflush(pg->conn)) == 1) {
        TRY(pg_await(pg, true, deadline));
        /* What PostgreSQL sends must be read, or both would wait. */
        if (!PQconsumeInput(pg->conn))
            return pg_break(pg, "cannot read from PostgreSQL");
    }
    return left ? pg_break(pg, "cannot write to PostgreSQL") : err_none();
}

static void forget_warning(struct pg *pg)
{
    free(pg->warning);
    pg->warning = NULL;
}

/* The next part of the answer; NULL at its end. */
NODISCARD static struct err next(struct pg *pg, mono deadline, PGresult **out)
{
    *out = NULL;
    while (PQisBusy(pg->conn)) {
        TRY(pg_await(pg, false, deadline));
        if (!PQconsumeInput(pg->conn))
            return pg_break(pg, "the connection to PostgreSQL broke");
    }
    *out = PQgetResult(pg->conn);
    return err_none();
}

static bool is_error(const PGresult *result)
{
    ExecStatusType s = PQresultStatus(result);
    return s != PGRES_TUPLES_OK && s != PGRES_COMMAND_OK && s != PGRES_SINGLE_TUPLE &&
           s != PGRES_EMPTY_QUERY;
}

/* Reads to the end; *last is the last part with rows. */
NODISCARD static struct err finish(struct pg *pg, PGresult **last)
{
    mono deadline = pg_deadline(pg);
    struct err e = err_none(), got;
    PGresult *part;
    while ((got = next(pg, deadline, &part)).code == ERR_OK && part) {
        if (is_error(part) && e.code == ERR_OK)
            e = pg_err_of(pg, part);
        if (last && PQresultStatus(part) == PGRES_TUPLES_OK) {
            PQclear(*last);
            *last = part;
        } else {
            PQclear(part);
        }
    }
    TRY(got);
    TRY(e);
    if (PQstatus(pg->conn) == CONNECTION_BAD)
        return pg_break(pg, "the connection to PostgreSQL broke");
    if (pg->warning)
        return err_make(ERR_POSTGRES, "PostgreSQL warns: %.150s", pg->warning);
    return err_none();
}

/* Without rows to be had it would not be an answer to a question; they are then empty. */
NODISCARD static struct err answer(struct pg *pg, struct pg_rows **rows)
{
    PGresult *last = NULL;
    struct err e = finish(pg, &last);
    if (rows && e.code == ERR_OK && !last)
        last = PQmakeEmptyPGresult(pg->conn, PGRES_TUPLES_OK);
    if (!rows || e.code != ERR_OK) {
        PQclear(last);
        last = NULL;
    }
    if (rows)
        *rows = (struct pg_rows *)last;
    return e;
}

NODISCARD static struct err prepare(struct pg *pg, const struct pg_statement *s)
{
    for (size_t i = 0; i < pg->prepared_count; i++)
        if (pg->prepared[i] == s)
            return err_none();
    must(pg->prepared_count < PG_PREPARED_MAX);
    forget_warning(pg);
    if (!PQsendPrepare(pg->conn, s->name, s->sql, 0, NULL))
        return pg_break(pg, "cannot write to PostgreSQL");
    TRY(flush(pg, pg_deadline(pg)));
    TRY(answer(pg, NULL));
    pg->prepared[pg->prepared_count++] = s;
    return err_none();
}

/* As libpq takes them. */
struct bound {
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    unsigned char numbers[PG_PARAMS_MAX][8];
};

static void bind_number(struct bound *b, int i, int64_t number)
{
    for (int n = 0; n < 8; n++)
        b->numbers[i][n] = (unsigned char)((uint64_t)number >> (56 - 8 * n));
    b->values[i] = (const char *)b->numbers[i];
    b->lengths[i] = 8;
}

/* Text has the same bytes in both formats. */
static void bind(struct bound *b, const struct pg_param *params, int count)
{
    must(count <= PG_PARAMS_MAX);
    for (int i = 0; i < count; i++) {
        const struct pg_param *p = &params[i];
        b->formats[i] = 1;
        b->lengths[i] = 0;
        b->values[i] = NULL;
        if (p->kind == PG_INT) {
            bind_number(b, i, p->number);
        } else if (p->kind != PG_NULL) {
            b->values[i] = p->bytes.at ? p->bytes.at : "";
            b->lengths[i] = (int)p->bytes.len;
        }
    }
}

NODISCARD static struct err send(struct pg *pg, const struct pg_statement *s,
                                 const struct pg_param *params, int count)
{
    struct bound b;
    if (pg->broken)
        return err_make(ERR_POSTGRES, "the connection to PostgreSQL is broken");
    bind(&b, params, count);
    TRY(prepare(pg, s));
    forget_warning(pg);
    if (!PQsendQueryPrepared(pg->conn, s->name, count, b.values, b.lengths, b.formats, 1))
        return pg_break(pg, "cannot write to PostgreSQL");
    return err_none();
}

struct err pg_send(struct pg *pg, const struct pg_statement *s, const struct pg_param *params,
                   int count)
{
    TRY(send(pg, s, params, count));
    return flush(pg, pg_deadline(pg));
}

struct err pg_receive(struct pg *pg, struct pg_rows **rows)
{
    return answer(pg, rows);
}

bool pg_is_ready(struct pg *pg)
{
    return !PQconsumeInput(pg->conn) || !PQisBusy(pg->conn);
}

struct err pg_run(struct pg *pg, const struct pg_statement *s, const struct pg_param *params,
                  int count, struct pg_rows **rows)
{
    TRY(pg_send(pg, s, params, count));
    return pg_receive(pg, rows);
}

/* --- many rows --- */

NODISCARD static struct err each(struct pg *pg,
                                 struct err (*fn)(void *ctx, const struct pg_rows *row), void *ctx)
{
    PGresult *part;
    struct err e = err_none();
    TRY(next(pg, pg_deadline(pg), &part));
    while (part && PQresultStatus(part) == PGRES_SINGLE_TUPLE && e.code == ERR_OK) {
        e = fn(ctx, (const struct pg_rows *)part);
        PQclear(part);
        part = NULL;
        if (e.code == ERR_OK)
            e = next(pg, pg_deadline(pg), &part);
    }
    if (e.code == ERR_OK && part && is_error(part))
        e = pg_err_of(pg, part);
    PQclear(part);
    return e;
}

struct err pg_each(struct pg *pg, const struct pg_statement *s, const struct pg_param *params,
                   int count, struct err (*fn)(void *ctx, const struct pg_rows *row), void *ctx)
{
    TRY(send(pg, s, params, count));
    must(PQsetSingleRowMode(pg->conn));
    TRY(flush(pg, pg_deadline(pg)));
    struct err e = each(pg, fn, ctx);
    if (e.code != ERR_OK)
        pg->broken = true; /* what is still to come is not read */
    return e.code == ERR_OK ? finish(pg, NULL) : e;
}

/* --- without parameters --- */

struct err pg_script(struct pg *pg, const char *sql)
{
    if (pg->broken)
        return err_make(ERR_POSTGRES, "the connection to PostgreSQL is broken");
    forget_warning(pg);
    if (!PQsendQuery(pg->conn, sql))
        return pg_break(pg, "cannot write to PostgreSQL");
    TRY(flush(pg, pg_deadline(pg)));
    return answer(pg, NULL);
}

struct err pg_listen(struct pg *pg, const char *channel)
{
    char sql[64];
    snprintf(sql, sizeof sql, "LISTEN %s", channel);
    return pg_script(pg, sql);
}

struct err pg_notified(struct pg *pg, bool *any)
{
    PGnotify *n;
    *any = false;
    if (!PQconsumeInput(pg->conn))
        return pg_break(pg, "the connection to PostgreSQL broke");
    while ((n = PQnotifies(pg->conn))) {
        PQfreemem(n);
        *any = true;
    }
    return err_none();
}
