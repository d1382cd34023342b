/* SPDX-License-Identifier: Apache-2.0 */

/* The servers that there are, as they say themselves. */

#include <stdio.h>

#include "postgres/pg_shard.h"

/* Nobody waits for a standby of PostgreSQL to hear of it: it may be away. */
#define UNSYNCED "WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL"

struct err pg_servers_note(struct pg *pg, int shard, const struct pg_servers_self *self)
{
    static const struct pg_statement note = {
        "servers_note",
        "INSERT INTO tenax.servers AS s (shard, name, address, version, role, room) SELECT "
        "$1::bigint, $2::text, $3::text, $4::text, $5::text, $6::bigint = 1 " UNSYNCED
        " ON CONFLICT (shard, name) DO UPDATE SET address = "
        "excluded.address, version = excluded.version, role = excluded.role, room = excluded.room, "
        "seen = now(), started = CASE WHEN $7::bigint = 1 THEN now() ELSE s.started END"};
    struct pg_param params[] = {
        pg_number(shard),
        pg_text(str_from(self->name)),
        pg_text(str_from(self->address)),
        pg_text(str_from(self->version)),
        pg_text(str_from(self->role)),
        pg_number(self->room),
        pg_number(self->starting),
    };
    return pg_run(pg, &note, params, 7, NULL);
}

struct err pg_servers_forget(struct pg *pg, int shard, const char *name)
{
    static const struct pg_statement forget = {"servers_forget",
                                               "DELETE FROM tenax.servers " UNSYNCED
                                               " AND shard = $1::bigint AND name = $2::text"};
    struct pg_param params[] = {pg_number(shard), pg_text(str_from(name))};
    return pg_run(pg, &forget, params, 2, NULL);
}

struct visit {
    struct err (*fn)(void *ctx, const struct pg_server *server);
    void *ctx;
};

static void copy(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

static struct err visit_row(void *ctx, const struct pg_rows *row)
{
    const struct visit *v = ctx;
    struct pg_server s;
    copy(s.name, sizeof s.name, pg_get(row, 0, 0));
    copy(s.address, sizeof s.address, pg_get(row, 0, 1));
    copy(s.version, sizeof s.version, pg_get(row, 0, 2));
    copy(s.role, sizeof s.role, pg_get(row, 0, 3));
    s.since_started = (span){pg_get_int(row, 0, 4)};
    s.since_seen = (span){pg_get_int(row, 0, 5)};
    s.room = pg_get_int(row, 0, 6);
    return v->fn(v->ctx, &s);
}

struct err pg_servers_each(struct pg *pg, int shard,
                           struct err (*fn)(void *ctx, const struct pg_server *server), void *ctx)
{
    static const struct pg_statement list = {
        "servers_list",
        "SELECT name, address, version, role, (extract(epoch FROM now() - started) * "
        "1000)::bigint, "
        "(extract(epoch FROM now() - seen) * 1000)::bigint, room FROM tenax.servers WHERE shard = "
        "$1::bigint ORDER BY name"};
    struct visit v = {fn, ctx};
    struct pg_param params[] = {pg_number(shard)};
    return pg_each(pg, &list, params, 1, visit_row, &v);
}
