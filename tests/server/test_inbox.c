/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs of tenax.enqueue come to a real backend, whose log is in the same PostgreSQL. */

#include "server/inbox.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "backend/embedded/embedded.h"
#include "base/alloc.h"
#include "base/id.h"
#include "postgres/pg_log.h"
#include "store/cm.h"
#include "store/place.h"

struct fixture {
    struct place *place;
    struct backend *backend;
    struct api *api;
    struct inbox *inbox;
    struct pg *app; /* a connection of an application's */
    _Atomic unsigned notices;
};

static instant now(void *ctx)
{
    (void)ctx;
    return (instant){1800000000000};
}

static void on_notice(void *ctx)
{
    atomic_fetch_add(&((struct fixture *)ctx)->notices, 1);
}

static void open_backend(struct fixture *f)
{
    struct backend_settings settings = {.engine = {.retry = retry_defaults()},
                                        .sync = true,
                                        .event_retention = {24 * 3600 * 1000},
                                        .event_max_bytes = 1 << 20};
    struct env env = {
        .now = now, .ctx = f, .rng = rng_from_seed(1), .store = f->place->s, .evaluator = NULL};
    assert_ok(embedded_new(&settings, &env, &f->backend));
    struct api_settings api = {.loop = uv_default_loop(), .now = now, .now_ctx = f};
    f->api = api_new(f->backend, &api);
    struct inbox_settings inbox = {.pg = {.url = place_node.url},
                                   .shard = 0,
                                   .epoch = f->place->epoch,
                                   .backend = f->backend,
                                   .api = f->api,
                                   .notify = on_notice,
                                   .ctx = f};
    assert_ok(inbox_new(&inbox, &f->inbox));
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void close_backend(struct fixture *f)
{
    inbox_stop(f->inbox);
    api_stop(f->api);
    uv_walk(uv_default_loop(), close_handle, NULL); /* they are the API's */
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    api_free(f->api);
    backend_free(f->backend);
    inbox_free(f->inbox);
}

static int set_up(void **state)
{
    struct fixture *f = ALLOC(struct fixture);
    f->place = ALLOC(struct place);
    place_init(f->place, 0);
    place_open(f->place);
    f->app = pg_node_open(&place_node);
    open_backend(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close_backend(f);
    pg_close(f->app);
    place_fini(f->place);
    free(f->place);
    free(f);
    return 0;
}

static void turn(struct fixture *f)
{
    inbox_turn(f->inbox);
    assert_ok(backend_turn(f->backend));
    poll(NULL, 0, 1);
}

static struct id enqueue(struct fixture *f, const char *options)
{
    struct pg_rows *rows;
    struct id id;
    static const struct pg_statement s = {
        "t_enqueue", "SELECT tenax.enqueue('mail', 'send', '{\"to\": 1}', $1::text::jsonb)"};
    struct pg_param params[] = {pg_text(str_from(options))};
    assert_ok(pg_run(f->app, &s, params, 1, &rows));
    assert_ok(id_parse(pg_get(rows, 0, 0), &id));
    pg_rows_free(rows);
    return id;
}

static struct inbox_state state_of(struct fixture *f)
{
    struct inbox_state s;
    inbox_state(f->inbox, &s);
    return s;
}

static int64_t count(const char *table)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tenax.%s", table);
    return pg_node_ask(&place_node, sql);
}

struct found {
    bool answered, there;
    uint16_t priority;
};

static void on_read(void *ctx, const struct reply *r)
{
    struct found *found = ctx;
    found->answered = true;
    found->there = r->err.code == ERR_OK;
    if (found->there) {
        found->priority = r->jobs->state.priority;
        assert_true(str_eq(r->jobs->queue, STR("mail")));
        assert_true(str_eq(r->jobs->payload, STR("{\"to\": 1}")));
    }
}

static struct found find(struct fixture *f, struct id id)
{
    struct found found = {0};
    struct command c = {.kind = CMD_READ, .read = {.id = id}, .done = on_read, .ctx = &found};
    backend_submit(f->backend, &c);
    while (!found.answered)
        turn(f);
    return found;
}

static void await_taken(struct fixture *f, uint64_t n)
{
    while (state_of(f).taken < n) {
        turn(f);
        assert_ok(state_of(f).failure);
    }
}

static void a_job_comes_with_the_id_that_was_returned(void **state)
{
    struct fixture *f = *state;
    struct id id = enqueue(f, "{\"priority\": 7}");
    await_taken(f, 1);
    struct found found = find(f, id);
    assert_true(found.there);
    assert_int_equal(found.priority, 7);
    assert_int_equal(count("inbox"), 0);
}

static void what_is_rolled_back_never_comes(void **state)
{
    struct fixture *f = *state;
    assert_ok(pg_script(f->app, "BEGIN"));
    struct id gone = enqueue(f, "{}");
    assert_ok(pg_script(f->app, "ROLLBACK"));
    enqueue(f, "{}");
    await_taken(f, 1);
    assert_false(find(f, gone).there);
}

static void many_come_once_each(void **state)
{
    struct fixture *f = *state;
    assert_ok(pg_script(f->app, "SELECT tenax.enqueue('mail', 'send', to_jsonb(i)) FROM "
                                "generate_series(1, 1700) i"));
    await_taken(f, 1700);
    for (int i = 0; i < 50; i++)
        turn(f);
    assert_int_equal(state_of(f).taken, 1700);
    assert_int_equal(count("inbox"), 0);
}

static void one_that_is_refused_is_kept_with_the_reason(void **state)
{
    struct fixture *f = *state;
    struct id bad = enqueue(f, "{\"retry_policies\": [\"none-such\"]}");
    struct id good = enqueue(f, "{}");
    while (state_of(f).refused < 1)
        turn(f);
    await_taken(f, 1);
    assert_false(find(f, bad).there);
    assert_true(find(f, good).there);
    assert_int_equal(count("inbox"), 0);
    assert_int_equal(
        pg_node_ask(&place_node,
                    "SELECT (reason LIKE '%none-such%' AND body LIKE '%retry_policies%')::int FROM "
                    "tenax.inbox_refused"),
        1);
    pg_node_sql(&place_node, "DELETE FROM tenax.inbox_refused");
}

static void another_owner_finds_what_was_not_taken(void **state)
{
    struct fixture *f = *state;
    struct id id = enqueue(f, "{}"), later;
    await_taken(f, 1);
    close_backend(f);
    later = enqueue(f, "{}");
    place_close(f->place);
    place_remove_copy(f->place);
    place_open(f->place);
    open_backend(f);
    await_taken(f, 1);
    assert_true(find(f, id).there);
    assert_true(find(f, later).there);
    assert_int_equal(count("inbox"), 0);
}

/* The error that ends the turns. */
static struct err last_turn(struct fixture *f)
{
    struct err e = err_none();
    while (e.code == ERR_OK) {
        inbox_turn(f->inbox);
        e = backend_turn(f->backend);
        poll(NULL, 0, 1);
    }
    return e;
}

static void who_has_lost_the_shard_takes_nothing(void **state)
{
    struct fixture *f = *state;
    place_take(0);
    enqueue(f, "{}");
    assert_code(last_turn(f), ERR_FENCED);
    assert_int_equal(count("inbox"), 1);
    pg_node_sql(&place_node, "DELETE FROM tenax.inbox");
}

/* The rows that a lost commit had taken are there again, and their jobs are here. */
static void a_postgresql_that_has_lost_a_commit_is_found_out(void **state)
{
    struct fixture *f = *state;
    char sql[200];
    for (int i = 0; i < 50; i++)
        turn(f);
    int64_t seq = pg_node_ask(&place_node, "SELECT seq FROM tenax.shard WHERE shard = 0");
    enqueue(f, "{}");
    pg_node_sql(&place_node, "CREATE TABLE tenax.rows_before AS SELECT * FROM tenax.inbox");
    await_taken(f, 1);
    for (int i = 0; i < PG_LOG_TABLES; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM tenax.log_%d WHERE shard = 0 AND seq > %lld", i,
                 (long long)seq);
        pg_node_sql(&place_node, sql);
    }
    snprintf(sql, sizeof sql, "UPDATE tenax.shard SET seq = %lld WHERE shard = 0", (long long)seq);
    pg_node_sql(&place_node, sql);
    pg_node_sql(&place_node, "INSERT INTO tenax.inbox OVERRIDING SYSTEM VALUE "
                             "SELECT * FROM tenax.rows_before; DROP TABLE tenax.rows_before");
    assert_code(last_turn(f), ERR_POSTGRES_LOST);
    assert_int_equal(count("inbox"), 1);
    pg_node_sql(&place_node, "DELETE FROM tenax.inbox");
}

static void who_sleeps_is_woken(void **state)
{
    struct fixture *f = *state;
    enqueue(f, "{}");
    await_taken(f, 1);
    while (pg_node_ask(&place_node, "SELECT asleep::int FROM tenax.inbox_reader") != 1)
        turn(f);
    enqueue(f, "{}");
    await_taken(f, 2);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_job_comes_with_the_id_that_was_returned),
        T(what_is_rolled_back_never_comes),
        T(many_come_once_each),
        T(one_that_is_refused_is_kept_with_the_reason),
        T(another_owner_finds_what_was_not_taken),
        T(who_has_lost_the_shard_takes_nothing),
        T(a_postgresql_that_has_lost_a_commit_is_found_out),
        T(who_sleeps_is_woken),
    };
    pg_node_start(&place_node, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_node_remove(&place_node);
    return failed;
}
