/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_alarm.h"

#include <stdio.h>
#include <string.h>

static void copy(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

struct err pg_alarm_read(struct pg *pg, int shard, const struct pg_seen *seen, struct pg_alarm *out)
{
    static const struct pg_statement read = {
        "alarm_read",
        "SELECT uuid_send(v.cluster), a.shard IS NOT NULL, uuid_send(v.cluster) = $4::bytea AND "
        "tenax.lacks($1::bigint, $2::bigint, $3::bigint), a.server, a.why, to_char(a.raised_at AT "
        "TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') FROM tenax.schema_version v LEFT JOIN "
        "tenax.alarm a ON a.shard = $1::bigint"};
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)seen->epoch),
                                pg_number((int64_t)seen->seq),
                                pg_bytes((struct str){seen->cluster, sizeof seen->cluster})};
    *out = (struct pg_alarm){0};
    TRY(pg_run(pg, &read, params, 4, &rows));
    bool any = pg_rows_count(rows) == 1 && pg_get(rows, 0, 0).len == sizeof out->cluster;
    if (any) {
        memcpy(out->cluster, pg_get(rows, 0, 0).at, sizeof out->cluster);
        out->raised = pg_get_int(rows, 0, 1);
        out->lacks = pg_get_int(rows, 0, 2);
        copy(out->server, sizeof out->server, pg_get(rows, 0, 3));
        copy(out->why, sizeof out->why, pg_get(rows, 0, 4));
        copy(out->at, sizeof out->at, pg_get(rows, 0, 5));
    }
    pg_rows_free(rows);
    return any ? err_none() : err_make(ERR_POSTGRES_SCHEMA, "the schema tenax has no version");
}

struct err pg_alarm_raise(struct pg *pg, int shard, const char *server, const struct pg_seen *seen,
                          const char *why)
{
    static const struct pg_statement raise = {
        "alarm_raise",
        "SELECT tenax.raise_alarm($1::bigint, $2::text, $3::bigint, $4::bigint, $5::text)"};
    struct pg_param params[] = {pg_number(shard), pg_text(str_from(server)),
                                pg_number((int64_t)seen->epoch), pg_number((int64_t)seen->seq),
                                pg_text(str_from(why))};
    return pg_run(pg, &raise, params, 5, NULL);
}

struct err pg_alarm_accept(struct pg *pg, int shard, const char *server, const struct pg_seen *seen)
{
    static const struct pg_statement accept = {
        "alarm_accept", "SELECT tenax.accept_loss($1::bigint, $2::text, $3::bigint)"};
    struct pg_param params[] = {pg_number(shard), pg_text(str_from(server)),
                                pg_number((int64_t)seen->epoch)};
    return pg_run(pg, &accept, params, 3, NULL);
}
