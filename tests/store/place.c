/* SPDX-License-Identifier: Apache-2.0 */
#include "store/place.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "postgres/pg_log.h"
#include "postgres/pg_shard.h"
#include "store/cm.h"
#include "base/folder.h"
#include "store/rocks.h"
#include "store/scratch.h"

struct pg_node place_node;

uint64_t place_take(int shard)
{
    struct pg *pg = pg_node_open(&place_node);
    struct pg_shard s;
    uint64_t epoch;
    assert_ok(pg_shard_read(pg, shard, &s));
    assert_ok(pg_shard_take(pg, shard, &s, "test", "", (span){2000}, &epoch));
    pg_close(pg);
    return epoch;
}

struct err place_try_open(struct place *p)
{
    struct rocks_foreign foreign = {.log = {.pg = {.url = p->url, .timeout = {20000}},
                                            .shard = p->shard,
                                            .epoch = p->epoch,
                                            .owned_until = p->owned_until},
                                    .accept_loss = p->accept_loss,
                                    .flush_after = p->flush_after,
                                    .log_bytes = 128 << 10};
    struct rocks_settings settings = {
        .dir = p->dir, .cache_bytes = 8 << 20, .foreign = &foreign, .notify = scratch_no_notice};
    return rocks_open(&settings, &p->s);
}

void place_open(struct place *p)
{
    p->epoch = place_take(p->shard);
    assert_ok(place_try_open(p));
}

void place_close(struct place *p)
{
    if (p->s)
        store_close(p->s);
    p->s = NULL;
}

void place_open_again(struct place *p)
{
    place_close(p);
    place_open(p);
}

void place_init(struct place *p, int shard)
{
    *p = (struct place){
        .dir = scratch_make(), .shard = shard, .url = place_node.url, .flush_after = {3600000}};
}

void place_fini(struct place *p)
{
    place_close(p);
    assert_ok(folder_remove(p->dir));
    free(p->dir);
}

struct rocks_foreign_state place_state(struct place *p)
{
    struct rocks_foreign_state s;
    rocks_foreign_state(p->s, &s);
    return s;
}

void place_expect_start(struct place *p, enum rocks_foreign_start start, uint64_t replayed)
{
    struct rocks_foreign_state s = place_state(p);
    assert_int_equal(s.start, start);
    assert_int_equal(s.replayed, replayed);
}

void place_remove_copy(struct place *p)
{
    char path[256];
    scratch_name_in(path, sizeof path, p->dir, ROCKS_FOREIGN_FOLDER);
    assert_ok(folder_remove(path));
}

int64_t place_count_records(const struct place *p)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tenax.records WHERE shard = %d", p->shard);
    return pg_node_ask(&place_node, sql);
}

void place_await_flushed(struct place *p, uint64_t seq)
{
    struct rocks_foreign_state s;
    do {
        poll(NULL, 0, 5);
        s = place_state(p);
        assert_ok(s.failure);
    } while (s.flushed < seq);
}

void place_flush_soon(struct place *p)
{
    p->flush_after = (span){20};
    place_open_again(p);
}

void place_put_large(struct place *p, int n)
{
    struct buf value = {0};
    struct batch b = {0};
    char *to = buf_room(&value, 20000);
    for (int i = 0; i < 20000; i++)
        to[i] = (char)(i * n);
    value.len = 20000;
    batch_put(&b, STR("large"), buf_view(&value));
    scratch_commit(p->s, &b);
    batch_fini(&b);
    buf_fini(&value);
}

/* A table of the log is emptied when no shard needs it. */
static void forget_other_shards(const struct place *p)
{
    char others[100];
    snprintf(others, sizeof others, "DELETE FROM tenax.shard WHERE shard <> %d", p->shard);
    pg_node_sql(&place_node, others);
    for (int i = 0; i < PG_LOG_TABLES; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "DELETE FROM tenax.log_%d WHERE shard <> %d", i, p->shard);
        pg_node_sql(&place_node, sql);
    }
}

int64_t place_count_rows(const struct place *p)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tenax.log WHERE shard = %d", p->shard);
    return pg_node_ask(&place_node, sql);
}

void place_await_emptied(struct place *p)
{
    uint64_t last = 0;
    forget_other_shards(p);
    for (int n = 1; last < 60 || place_count_rows(p) >= (int64_t)last / 2; n++) {
        place_put_large(p, n);
        last = store_number(p->s);
        assert_ok(place_state(p).failure);
    }
}

int place_set_up(void **state)
{
    struct place *p = ALLOC(struct place);
    place_init(p, pg_node_shard(&place_node));
    place_open(p);
    *state = p;
    return 0;
}

int place_tear_down(void **state)
{
    struct place *p = *state;
    place_fini(p);
    free(p);
    return 0;
}
