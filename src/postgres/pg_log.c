/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_log.h"

/* --- appending --- */

struct err pg_log_send(struct pg *pg, int shard, uint64_t epoch, uint64_t seq, struct str batch,
                       struct str inbox)
{
    static const struct pg_statement s = {
        "log_commit", "SELECT tenax.commit($1::bigint, $2::bigint, $3::bigint, $4::bytea, "
                      "$5::text::bigint[])"};
    struct pg_param params[] = {
        pg_number(shard), pg_number((int64_t)epoch), pg_number((int64_t)seq), pg_bytes(batch), {0}};
    if (inbox.len)
        params[4] = pg_text(inbox);
    return pg_send(pg, &s, params, 5);
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
    struct err (*fn)(void *ctx, uint64_t seq, struct str batch);
    struct err (*record)(void *ctx, struct str key, struct str value);
    void *ctx;
};

static struct err each_batch(void *ctx, const struct pg_rows *row)
{
    const struct each *e = ctx;
    return e->fn(e->ctx, (uint64_t)pg_get_int(row, 0, 0), pg_get(row, 0, 1));
}

struct err pg_log_each(struct pg *pg, int shard, uint64_t from,
                       struct err (*fn)(void *ctx, uint64_t seq, struct str batch), void *ctx)
{
    static const struct pg_statement s = {
        "log_each", "SELECT seq, batch FROM tenax.log WHERE shard = $1::bigint AND seq >= "
                    "$2::bigint ORDER BY seq"};
    struct each e = {.fn = fn, .ctx = ctx};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)from)};
    return pg_each(pg, &s, params, 2, each_batch, &e);
}

static struct err each_record(void *ctx, const struct pg_rows *row)
{
    const struct each *e = ctx;
    return e->record(e->ctx, pg_get(row, 0, 0), pg_get(row, 0, 1));
}

struct err pg_records_each(struct pg *pg, int shard,
                           struct err (*fn)(void *ctx, struct str key, struct str value), void *ctx)
{
    static const struct pg_statement s = {
        "records_each", "SELECT key, value FROM tenax.records WHERE shard = $1::bigint"};
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

struct err pg_log_has(struct pg *pg, int shard, uint64_t epoch, uint64_t seq, bool *has)
{
    static const struct pg_statement s = {
        "log_has",
        "SELECT (e.first_seq - 1 <= $3::bigint AND $3::bigint <= coalesce((SELECT min(n.first_seq) "
        "- 1 FROM tenax.epochs n WHERE n.shard = e.shard AND n.epoch > e.epoch), s.seq))::int FROM "
        "tenax.epochs e JOIN tenax.shard s USING (shard) WHERE e.shard = $1::bigint AND e.epoch = "
        "$2::bigint"};
    uint64_t answer;
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch),
                                pg_number((int64_t)seq)};
    TRY(ask(pg, &s, params, 3, &answer, NULL));
    *has = answer;
    return err_none();
}

/* --- letting go --- */

struct err pg_log_flushed(struct pg *pg, int shard, uint64_t epoch, uint64_t seq)
{
    static const struct pg_statement s = {
        "log_flushed", "SELECT tenax.flushed($1::bigint, $2::bigint, $3::bigint)"};
    return call(pg, &s, shard, epoch, seq);
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
struct err pg_log_let_go(struct pg *pg, int shard, uint64_t epoch)
{
    static const struct pg_statement s = {
        "log_old",
        "SELECT coalesce(sum(1 << t.slot), 0)::bigint FROM tenax.log_tables($1::bigint) t, "
        "tenax.shard s WHERE s.shard = $1::bigint AND t.slot <> s.log_current AND t.last <= "
        "s.flushed"};
    uint64_t slots;
    struct pg_param params[] = {pg_number(shard)};
    TRY(ask(pg, &s, params, 1, &slots, NULL));
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

struct err pg_log_full(struct pg *pg, int shard, uint64_t *last)
{
    static const struct pg_statement s = {
        "log_full",
        "SELECT t.last FROM tenax.log_tables($1::bigint) t, tenax.shard s WHERE s.shard = "
        "$1::bigint AND t.slot <> s.log_current AND t.last > s.flushed ORDER BY t.last LIMIT 1"};
    struct pg_param params[] = {pg_number(shard)};
    return ask(pg, &s, params, 1, last, NULL);
}

struct err pg_records_flush(struct pg *pg, int shard, uint64_t epoch, struct str keys,
                            struct str values, struct str gone)
{
    static const struct pg_statement s = {
        "records_flush", "SELECT tenax.flush($1::bigint, $2::bigint, $3::bytea[], $4::bytea[], "
                         "$5::bytea[])"};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch), pg_bytes(keys),
                                pg_bytes(values), pg_bytes(gone)};
    return pg_run(pg, &s, params, 5, NULL);
}
