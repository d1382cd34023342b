/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_log.h"

#include <string.h>

/* --- appending --- */

struct err pg_log_send(struct pg *pg, int shard, const struct pg_log_row *row, struct str inbox)
{
    static const struct pg_statement s = {
        "log_commit", "SELECT tenax.commit($1::bigint, $2::bigint, $3::bigint, $4::bytea, "
                      "$5::text::bigint[], $6::bytea)"};
    struct pg_param params[] = {pg_number(shard),
                                pg_number((int64_t)row->epoch),
                                pg_number((int64_t)row->seq),
                                pg_bytes(row->batch),
                                {0},
                                pg_bytes(row->sum)};
    if (inbox.len)
        params[4] = pg_text(inbox);
    return pg_send(pg, &s, params, 6);
}

struct err pg_log_sent(struct pg *pg)
{
    return pg_receive(pg, NULL);
}

NODISCARD static struct err call(struct pg *pg, const struct pg_statement *s, int shard,
                                 uint64_t epoch, uint64_t third)
{
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch),
                                pg_number((int64_t)third)};
    return pg_run(pg, s, params, 3, NULL);
}

struct err pg_log_begin(struct pg *pg, int shard, uint64_t epoch, uint64_t seq)
{
    static const struct pg_statement s = {
        "log_begin", "SELECT tenax.begin_at($1::bigint, $2::bigint, $3::bigint)"};
    return call(pg, &s, shard, epoch, seq);
}

/* --- reading --- */

struct each {
    pg_log_fn fn;
    pg_record_fn record;
    void *ctx;
};

static struct str sum_of(const struct pg_rows *row, int column)
{
    return pg_is_null(row, 0, column) ? (struct str){0} : pg_get(row, 0, column);
}

static struct err each_batch(void *ctx, const struct pg_rows *row)
{
    const struct each *e = ctx;
    const struct pg_log_row out = {(uint64_t)pg_get_int(row, 0, 0), (uint64_t)pg_get_int(row, 0, 1),
                                   pg_get(row, 0, 2), sum_of(row, 3)};
    return e->fn(e->ctx, &out);
}

struct err pg_log_each(struct pg *pg, int shard, uint64_t from, pg_log_fn fn, void *ctx)
{
    static const struct pg_statement s = {
        "log_each", "SELECT seq, epoch, batch, sum FROM tenax.log WHERE shard = $1::bigint AND "
                    "seq >= $2::bigint ORDER BY seq"};
    struct each e = {.fn = fn, .ctx = ctx};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)from)};
    return pg_each(pg, &s, params, 2, each_batch, &e);
}

struct err pg_log_some(struct pg *pg, int shard, const struct pg_log_part *part, pg_log_fn fn,
                       void *ctx)
{
    static const struct pg_statement s = {
        "log_some", "SELECT seq, epoch, batch, sum FROM tenax.log WHERE shard = $1::bigint AND "
                    "seq >= $2::bigint AND seq <= $3::bigint ORDER BY seq LIMIT $4::bigint"};
    struct each e = {.fn = fn, .ctx = ctx};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)part->from),
                                pg_number((int64_t)part->upto), pg_number(part->most)};
    return pg_each(pg, &s, params, 4, each_batch, &e);
}

static struct err each_record(void *ctx, const struct pg_rows *row)
{
    const struct each *e = ctx;
    const struct pg_record out = {pg_get(row, 0, 0), pg_get(row, 0, 1), sum_of(row, 2)};
    return e->record(e->ctx, &out);
}

struct err pg_records_each(struct pg *pg, int shard, pg_record_fn fn, void *ctx)
{
    static const struct pg_statement s = {
        "records_each", "SELECT key, value, sum FROM tenax.records WHERE shard = $1::bigint"};
    struct each e = {.record = fn, .ctx = ctx};
    struct pg_param params[] = {pg_number(shard)};
    return pg_each(pg, &s, params, 1, each_record, &e);
}

/* A number, and perhaps one more, of the answer's first row. */
NODISCARD static struct err ask(struct pg *pg, const struct pg_statement *s,
                                const struct pg_param *params, int count, uint64_t *first,
                                uint64_t *second)
{
    struct pg_rows *rows;
    TRY(pg_run(pg, s, params, count, &rows));
    bool any = pg_rows_count(rows) > 0;
    *first = any ? (uint64_t)pg_get_int(rows, 0, 0) : 0;
    if (second)
        *second = any ? (uint64_t)pg_get_int(rows, 0, 1) : 0;
    pg_rows_free(rows);
    return err_none();
}

struct err pg_log_first(struct pg *pg, int shard, uint64_t *first)
{
    static const struct pg_statement s = {
        "log_first",
        "SELECT CASE WHEN count(l.seq) = 0 THEN s.seq + 1 WHEN max(l.seq) = s.seq AND count(l.seq) "
        "= s.seq + 1 - min(l.seq) THEN min(l.seq) ELSE 0 END FROM tenax.shard s LEFT JOIN "
        "tenax.log l USING (shard) WHERE s.shard = $1::bigint GROUP BY s.seq"};
    struct pg_param params[] = {pg_number(shard)};
    return ask(pg, &s, params, 1, first, NULL);
}

/* tenax.take keeps 10,000 epochs: of fewer, none was let go of. */
struct err pg_log_place(struct pg *pg, int shard, uint64_t epoch, struct pg_log_place *out)
{
    static const struct pg_statement s = {
        "log_place",
        "SELECT uuid_send(v.cluster), s.seq, s.flushed, EXISTS (SELECT FROM tenax.epochs e WHERE "
        "e.shard = s.shard AND e.epoch = $2::bigint)::int, (SELECT CASE WHEN count(*) >= 10000 "
        "THEN min(e.epoch) ELSE 0 END FROM tenax.epochs e WHERE e.shard = s.shard), "
        "coalesce((SELECT min(e.first_seq) - 1 FROM tenax.epochs e WHERE e.shard = s.shard AND "
        "e.epoch > $2::bigint), s.seq), s.accepted FROM tenax.shard s, tenax.schema_version v "
        "WHERE s.shard = "
        "$1::bigint"};
    struct pg_rows *rows;
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch)};
    *out = (struct pg_log_place){0};
    TRY(pg_run(pg, &s, params, 2, &rows));
    bool any = pg_rows_count(rows) == 1 && pg_get(rows, 0, 0).len == sizeof out->cluster;
    if (any) {
        memcpy(out->cluster, pg_get(rows, 0, 0).at, sizeof out->cluster);
        out->seq = (uint64_t)pg_get_int(rows, 0, 1);
        out->flushed = (uint64_t)pg_get_int(rows, 0, 2);
        out->known = pg_get_int(rows, 0, 3);
        out->oldest = (uint64_t)pg_get_int(rows, 0, 4);
        out->last = (uint64_t)pg_get_int(rows, 0, 5);
        out->accepted = (uint64_t)pg_get_int(rows, 0, 6);
    }
    pg_rows_free(rows);
    return any ? err_none() : err_make(ERR_NOT_FOUND, "there is no shard %d in PostgreSQL", shard);
}

/* --- letting go --- */

struct err pg_log_flushed(struct pg *pg, int shard, uint64_t epoch, uint64_t seq, int64_t at)
{
    static const struct pg_statement s = {
        "log_flushed", "SELECT tenax.flushed($1::bigint, $2::bigint, $3::bigint, $4::bigint)"};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch),
                                pg_number((int64_t)seq), pg_number(at)};
    return pg_run(pg, &s, params, 4, NULL);
}

struct err pg_log_clock(struct pg *pg, int64_t *at)
{
    static const struct pg_statement s = {
        "log_clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"};
    uint64_t answer;
    TRY(ask(pg, &s, NULL, 0, &answer, NULL));
    *at = (int64_t)answer;
    return err_none();
}

struct err pg_log_rotate(struct pg *pg, int shard, uint64_t epoch, bool *done)
{
    static const struct pg_statement s = {"log_rotate",
                                          "SELECT tenax.rotate($1::bigint, $2::bigint)::int"};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch)};
    uint64_t answer;
    TRY(ask(pg, &s, params, 2, &answer, NULL));
    *done = answer;
    return err_none();
}

NODISCARD static struct err let_go(struct pg *pg, int shard, uint64_t epoch, uint64_t slot)
{
    static const struct pg_statement s = {
        "log_let_go", "SELECT tenax.let_go($1::bigint, $2::bigint, $3::bigint)"};
    struct err e = call(pg, &s, shard, epoch, slot);
    return e.code == ERR_BUSY ? err_none() : e;
}

/* A lock that keeps writers and readers waiting is asked for only where something is to be gained.
 */
struct err pg_log_let_go(struct pg *pg, int shard, uint64_t epoch, uint64_t held)
{
    static const struct pg_statement s = {
        "log_old",
        "SELECT coalesce(sum(1 << t.slot), 0)::bigint FROM tenax.log_tables($1::bigint) t, "
        "tenax.shard s WHERE s.shard = $1::bigint AND t.slot <> s.log_current AND t.last <= "
        "least(s.flushed, $2::bigint)"};
    uint64_t slots;
    struct pg_param params[] = {pg_number(shard),
                                pg_number(held > INT64_MAX ? INT64_MAX : (int64_t)held)};
    TRY(ask(pg, &s, params, 2, &slots, NULL));
    for (uint64_t slot = 0; slot < PG_LOG_TABLES; slot++)
        if (slots >> slot & 1)
            TRY(let_go(pg, shard, epoch, slot));
    return err_none();
}

struct err pg_log_size(struct pg *pg, int shard, uint64_t *all, uint64_t *current)
{
    static const struct pg_statement s = {
        "log_size",
        "SELECT sum(t.bytes)::bigint, sum(t.bytes) FILTER (WHERE t.slot = s.log_current)::bigint "
        "FROM tenax.log_tables($1::bigint) t, tenax.shard s WHERE s.shard = $1::bigint"};
    struct pg_param params[] = {pg_number(shard)};
    return ask(pg, &s, params, 1, all, current);
}

struct err pg_records_flush(struct pg *pg, int shard, uint64_t epoch,
                            const struct pg_records_change *c)
{
    static const struct pg_statement s = {
        "records_flush", "SELECT tenax.flush($1::bigint, $2::bigint, $3::bytea[], $4::bytea[], "
                         "$5::bytea[], $6::bytea[])"};
    struct pg_param params[] = {pg_number(shard),    pg_number((int64_t)epoch), pg_bytes(c->keys),
                                pg_bytes(c->values), pg_bytes(c->gone),         pg_bytes(c->sums)};
    return pg_run(pg, &s, params, 6, NULL);
}
