/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_inbox.h"

struct err pg_inbox_read(struct pg *pg, int shard, int most, struct pg_rows **rows)
{
    static const struct pg_statement s = {
        "inbox_read",
        "SELECT w.id, w.job, w.body FROM (SELECT q.id, q.job, q.body, sum(octet_length(q.body)) "
        "OVER (ORDER BY q.id) - octet_length(q.body) AS before FROM (SELECT id, job, body FROM "
        "tenax.inbox WHERE shard = $1::bigint ORDER BY id LIMIT $2::bigint) q) w WHERE w.before < "
        "8388608 ORDER BY w.id"};
    struct pg_param params[] = {pg_number(shard), pg_number(most)};
    return pg_run(pg, &s, params, 2, rows);
}

struct err pg_inbox_sleep(struct pg *pg, int shard, bool asleep)
{
    static const struct pg_statement s = {"inbox_sleep",
                                          "SELECT tenax.inbox_sleep($1::bigint, $2::bigint)"};
    struct pg_param params[] = {pg_number(shard), pg_number(asleep)};
    return pg_run(pg, &s, params, 2, NULL);
}

struct err pg_inbox_refuse(struct pg *pg, int shard, uint64_t epoch, int64_t row, struct str reason)
{
    static const struct pg_statement s = {
        "inbox_refuse", "SELECT tenax.inbox_refuse($1::bigint, $2::bigint, $3::bigint, $4::text)"};
    struct pg_param params[] = {pg_number(shard), pg_number((int64_t)epoch), pg_number(row),
                                pg_text(reason)};
    return pg_run(pg, &s, params, 4, NULL);
}
