/* SPDX-License-Identifier: Apache-2.0 */

/* A connection: opening it, waiting for it, and what its errors mean. Hosts: pg_connect.c;
 * statements: pg_run.c. */

#include "postgres/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "postgres/pg_internal.h"

#define TIMEOUT_MS 10000
#define NS_IN_MS   1000000
#define ASK_MS     200

/* A session that is like any other, whatever the role and the database have set. One whose server
 * is gone without a word ends within seconds there, too, with the locks that it holds. */
#define SESSION                                                                                    \
    "SET search_path = pg_catalog; SET statement_timeout = %lld; SET lock_timeout = 0; "           \
    "SET default_transaction_isolation = 'read committed'; "                                       \
    "SET default_transaction_read_only = off; SET client_min_messages = warning; "                 \
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; " \
    "SET tcp_user_timeout = 10000"

/* --- time --- */

mono pg_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (mono){(int64_t)t.tv_sec * 1000 * NS_IN_MS + t.tv_nsec};
}

mono pg_after(mono from, span s)
{
    return (mono){from.ns + s.ms * NS_IN_MS};
}

void pg_pause(span s)
{
    poll(NULL, 0, (int)s.ms);
}

mono pg_deadline(const struct pg *pg)
{
    if (pg->ask)
        return pg->ask(pg->ctx);
    return pg->until.ns ? pg->until : pg_after(pg_now(), pg->timeout);
}

void pg_until(struct pg *pg, mono deadline)
{
    pg->until = deadline;
    pg->ask = NULL;
}

void pg_until_asked(struct pg *pg, mono (*deadline)(void *ctx), void *ctx)
{
    pg->ask = deadline;
    pg->ctx = ctx;
}

/* --- errors --- */

const char *pg_flat(const char *text, char out[160])
{
    snprintf(out, 160, "%s", text ? text : "");
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    for (size_t len = strlen(out); len && out[len - 1] == ' ';)
        out[--len] = '\0';
    return out;
}

struct err pg_break(struct pg *pg, const char *doing)
{
    char text[160];
    pg->broken = true;
    return err_make(ERR_POSTGRES, "%s: %s", doing, pg_flat(PQerrorMessage(pg->conn), text));
}

struct row {
    const char *state; /* SQLSTATE, or its class */
    enum err_code code;
};

/* Classes after the states that are exceptions to them. */
static const struct row states[] = {
    {"TX001", ERR_FENCED},
    {"TX002", ERR_CONFLICT},
    {"TX003", ERR_POSTGRES_LOST},
    {"55P03", ERR_BUSY}, /* lock_not_available */
    {"40P01", ERR_BUSY}, /* deadlock_detected */
    {"53100", ERR_DISK_FULL},
    {"3F000", ERR_POSTGRES_SCHEMA}, /* invalid_schema_name */
    {"42P01", ERR_POSTGRES_SCHEMA}, /* undefined_table */
    {"42883", ERR_POSTGRES_SCHEMA}, /* undefined_function */
    {"42703", ERR_POSTGRES_SCHEMA}, /* undefined_column */
    {"25006", ERR_POSTGRES},        /* read_only_sql_transaction: no primary any more */
    {"57", ERR_POSTGRES},           /* operator_intervention: a shutdown, a cancellation */
    {"08", ERR_POSTGRES},           /* connection_exception */
};

static enum err_code code_of(const char *state)
{
    for (size_t i = 0; state && i < COUNT(states); i++)
        if (strncmp(state, states[i].state, strlen(states[i].state)) == 0)
            return states[i].code;
    return state ? ERR_POSTGRES_REFUSED : ERR_POSTGRES;
}

struct err pg_err_of(struct pg *pg, const PGresult *result)
{
    char text[160];
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    enum err_code code = code_of(state);
    if (code == ERR_POSTGRES || PQstatus(pg->conn) == CONNECTION_BAD)
        pg->broken = true;
    return err_make(pg->broken ? ERR_POSTGRES : code, "PostgreSQL%s%s: %s", state ? " says " : "",
                    state ? state : "", pg_flat(said ? said : PQerrorMessage(pg->conn), text));
}

static void on_notice(void *ctx, const PGresult *result)
{
    struct pg *pg = ctx;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (severity && strcmp(severity, "WARNING") == 0 && !pg->warning && said)
        pg->warning = alloc_text(said, strlen(said));
}

/* --- waiting --- */

/* Rounded up, so that a wait is not one of many that last no time. */
static int ms_until(const struct pg *pg, mono deadline)
{
    int64_t left = (deadline.ns - pg_now().ns + NS_IN_MS - 1) / NS_IN_MS;
    int64_t most = pg->ask ? ASK_MS : 60000;
    return left < 0 ? 0 : left > most ? (int)most : (int)left;
}

struct err pg_await(struct pg *pg, bool write, mono deadline)
{
    for (;;) {
        struct pollfd p = {.fd = PQsocket(pg->conn),
                           .events = (short)(POLLIN | (write ? POLLOUT : 0))};
        int got = poll(&p, 1, ms_until(pg, deadline));
        if (got > 0)
            return err_none();
        if (got < 0 && errno != EINTR)
            return pg_break(pg, "cannot wait for PostgreSQL");
        if (pg->ask)
            deadline = pg->ask(pg->ctx);
        if (pg_now().ns >= deadline.ns) {
            pg->broken = true;
            return err_make(ERR_POSTGRES, "PostgreSQL does not answer in time");
        }
    }
}

/* --- opening --- */

NODISCARD static struct err begin(struct pg *pg, const struct pg_settings *settings, mono deadline)
{
    struct pg_url url;
    char name[64];
    struct err e = pg_url_read(settings, &url);
    snprintf(name, sizeof name, "tenax %s", settings->purpose ? settings->purpose : "");
    if (e.code == ERR_OK) {
        url.names[url.count] = "fallback_application_name";
        url.values[url.count] = name;
        e = pg_connect(&url, deadline, &pg->conn);
    }
    pg_url_fini(&url);
    return e;
}

struct err pg_open(const struct pg_settings *settings, struct pg **out)
{
    char sql[512];
    struct pg *pg = ALLOC(struct pg);
    pg->timeout = settings->timeout.ms ? settings->timeout : (span){TIMEOUT_MS};
    struct err e = begin(pg, settings, pg_deadline(pg));
    if (e.code == ERR_OK) {
        PQsetNoticeReceiver(pg->conn, on_notice, pg);
        PQsetnonblocking(pg->conn, 1);
        snprintf(sql, sizeof sql, SESSION, (long long)settings->bound.ms);
        e = pg_script(pg, sql);
    }
    if (e.code != ERR_OK) {
        pg_close(pg);
        pg = NULL;
    }
    *out = pg;
    return e;
}

void pg_close(struct pg *pg)
{
    if (!pg)
        return;
    PQfinish(pg->conn);
    free(pg->warning);
    free(pg);
}

bool pg_is_broken(const struct pg *pg)
{
    return pg->broken;
}

int pg_backend(const struct pg *pg)
{
    return PQbackendPID(pg->conn);
}

int pg_fd(const struct pg *pg)
{
    return PQsocket(pg->conn);
}
