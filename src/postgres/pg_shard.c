/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_shard.h"

#include <stdio.h>
#include <string.h>

static void copy(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

struct err pg_shard_read(struct pg *pg, int shard, struct pg_shard *out)
{
    static const struct pg_statement read = {
        "shard_read", "SELECT l.epoch, l.beat, s.seq, s.flushed, l.owner IS NOT NULL, l.owner, "
                      "l.address, l.lease_ms FROM tenax.shard s JOIN tenax.lease l USING (shard) "
                      "WHERE shard = $1::bigint"};
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(shard)};
    *out = (struct pg_shard){0};
    TRY(pg_run(pg, &read, params, 1, &rows));
    bool found = pg_rows_count(rows) == 1;
    if (found) {
        out->epoch = (uint64_t)pg_get_int(rows, 0, 0);
        out->beat = (uint64_t)pg_get_int(rows, 0, 1);
        out->seq = (uint64_t)pg_get_int(rows, 0, 2);
        out->flushed = (uint64_t)pg_get_int(rows, 0, 3);
        out->owned = pg_get_int(rows, 0, 4);
        copy(out->owner, sizeof out->owner, pg_get(rows, 0, 5));
        copy(out->address, sizeof out->address, pg_get(rows, 0, 6));
        out->lease = (span){pg_get_int(rows, 0, 7)};
    }
    pg_rows_free(rows);
    return found ? err_none() : err_make(ERR_NOT_FOUND, "there is no shard %d", shard);
}

struct err pg_shard_secret(struct pg *pg, int shard, unsigned char out[PG_SECRET_BYTES])
{
    static const struct pg_statement read = {
        "shard_secret", "SELECT secret FROM tenax.secret WHERE shard = $1::bigint"};
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(shard)};
    TRY(pg_run(pg, &read, params, 1, &rows));
    bool found = pg_rows_count(rows) == 1 && pg_get(rows, 0, 0).len == PG_SECRET_BYTES;
    if (found)
        memcpy(out, pg_get(rows, 0, 0).at, PG_SECRET_BYTES);
    pg_rows_free(rows);
    return found ? err_none() : err_make(ERR_NOT_FOUND, "the servers have no secret");
}

struct err pg_shard_take(struct pg *pg, int shard, const struct pg_shard *seen, const char *owner,
                         const char *address, span lease, uint64_t *epoch)
{
    static const struct pg_statement take = {
        "shard_take", "SELECT tenax.take($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text, "
                      "$6::bigint)"};
    struct pg_rows *rows;
    struct pg_param params[] = {
        pg_number(shard),         pg_number((int64_t)seen->epoch), pg_number((int64_t)seen->beat),
        pg_text(str_from(owner)), pg_text(str_from(address)),      pg_number(lease.ms)};
    TRY(pg_run(pg, &take, params, 6, &rows));
    *epoch = (uint64_t)pg_get_int(rows, 0, 0);
    pg_rows_free(rows);
    if (*epoch == 0)
        return err_make(ERR_CONFLICT, "shard %d was taken or renewed meanwhile", shard);
    return err_none();
}

NODISCARD static struct err call(struct pg *pg, const struct pg_statement *s, int shard,
                                 uint64_t epoch, uint64_t *answer)
{
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch)};
    TRY(pg_run(pg, s, params, 2, &rows));
    if (answer)
        *answer = (uint64_t)pg_get_int(rows, 0, 0);
    pg_rows_free(rows);
    return err_none();
}

struct err pg_shard_beat(struct pg *pg, int shard, uint64_t epoch, uint64_t seq)
{
    static const struct pg_statement beat = {
        "shard_beat", "SELECT tenax.beat($1::bigint, $2::bigint, $3::bigint)"};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch),
                                pg_number((int64_t)seq)};
    return pg_run(pg, &beat, params, 3, NULL);
}

struct err pg_shard_release(struct pg *pg, int shard, uint64_t epoch)
{
    static const struct pg_statement release = {"shard_release",
                                                "SELECT tenax.release($1::bigint, $2::bigint)"};
    return call(pg, &release, shard, epoch, NULL);
}

struct err pg_shard_settle(struct pg *pg, int shard, uint64_t epoch, uint64_t *seq)
{
    static const struct pg_statement settle = {"shard_settle",
                                               "SELECT tenax.settle($1::bigint, $2::bigint)"};
    return call(pg, &settle, shard, epoch, seq);
}

/* What it waits for is shown to whoever has the role of the backend. */
struct err pg_shard_waits(struct pg *pg, int backend, bool *waits)
{
    static const struct pg_statement look = {
        "shard_waits", "SELECT coalesce(bool_or(state = 'active' AND wait_event_type <> 'Client'), "
                       "false) FROM pg_stat_activity WHERE pid = $1::bigint"};
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(backend)};
    TRY(pg_run(pg, &look, params, 1, &rows));
    *waits = pg_get_int(rows, 0, 0);
    pg_rows_free(rows);
    return err_none();
}

/* --- what an acknowledgement is worth --- */

static void describe(struct pg_durability *d)
{
    const char *mode = d->synchronous_commit;
    bool off = str_eq(str_from(mode), STR("off")), local = str_eq(str_from(mode), STR("local"));
    if (!d->fsync)
        snprintf(d->text, sizeof d->text,
                 "PostgreSQL runs with fsync=off: a power cut may destroy everything");
    else if (off)
        snprintf(d->text, sizeof d->text,
                 "synchronous_commit is off: a crash of PostgreSQL may lose what was acknowledged "
                 "within the last second");
    else if (local || !d->standbys_wanted)
        snprintf(
            d->text, sizeof d->text,
            "what is acknowledged is on the disk of PostgreSQL's primary; a fail-over may lose "
            "it (%s)",
            local ? "synchronous_commit=local" : "synchronous_standby_names is empty");
    else
        snprintf(d->text, sizeof d->text,
                 "what is acknowledged is on the disk of PostgreSQL's primary, and its synchronous "
                 "standbys have it (synchronous_commit=%s)",
                 mode);
}

struct err pg_durability_read(struct pg *pg, struct pg_durability *out)
{
    static const struct pg_statement read = {
        "durability",
        "SELECT current_setting('synchronous_commit'), current_setting('fsync')::boolean, "
        "current_setting('synchronous_standby_names') <> '', (SELECT CASE WHEN "
        "pg_has_role('pg_monitor', 'USAGE') THEN count(*) FILTER (WHERE sync_state IN ('sync', "
        "'quorum')) ELSE -1 END FROM pg_stat_replication)"};
    struct pg_rows *rows;
    *out = (struct pg_durability){0};
    TRY(pg_run(pg, &read, NULL, 0, &rows));
    copy(out->synchronous_commit, sizeof out->synchronous_commit, pg_get(rows, 0, 0));
    out->fsync = pg_get_int(rows, 0, 1);
    out->standbys_wanted = pg_get_int(rows, 0, 2);
    out->standbys = (int)pg_get_int(rows, 0, 3);
    pg_rows_free(rows);
    describe(out);
    return err_none();
}
