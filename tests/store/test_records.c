/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records.h"

#include <poll.h>
#include <stdio.h>

#include "base/rng.h"
#include "store/cm.h"
#include "store/place.h"
#include "store/scratch.h"

static void records_get_what_stays(void **state)
{
    struct place *p = *state;
    scratch_put(p->s, "stays", "1");
    scratch_put(p->s, "goes", "2");
    struct batch b = {0};
    batch_delete(&b, STR("goes"));
    scratch_commit(p->s, &b);
    assert_int_equal(place_count_records(p), 0);
    place_flush_soon(p);
    place_await_flushed(p, 3);
    assert_int_equal(place_count_records(p), 1);
    struct rocks_foreign_state s = place_state(p);
    assert_int_equal(s.written, 1);
    batch_delete(&b, STR("stays"));
    scratch_commit(p->s, &b);
    place_await_flushed(p, 4);
    assert_int_equal(place_count_records(p), 0);
    assert_int_equal(place_state(p).lag.ms, 0);
    batch_fini(&b);
}

#define KEYS 400

/* What a store should have: the n-th key has the value model[n], 0: it is absent. */
static void expect_model(struct place *p, const int *model)
{
    for (int i = 0; i < KEYS; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "key%d", i);
        snprintf(value, sizeof value, "%d", model[i]);
        scratch_expect(p->s, key, model[i] ? value : NULL);
    }
}

static void change_some(struct place *p, struct rng *rng, int *model, int turn)
{
    struct batch b = {0};
    for (int i = 0; i < 20; i++) {
        char key[16], value[16];
        int k = (int)rng_below(rng, KEYS);
        model[k] = rng_below(rng, 2) ? turn + 1 : 0;
        snprintf(key, sizeof key, "key%d", k);
        snprintf(value, sizeof value, "%d", model[k]);
        if (model[k])
            batch_put(&b, str_from(key), str_from(value));
        else
            batch_delete(&b, str_from(key));
    }
    scratch_commit(p->s, &b);
    batch_fini(&b);
}

static int count_model(const int *model)
{
    int n = 0;
    for (int i = 0; i < KEYS; i++)
        n += model[i] != 0;
    return n;
}

static void records_and_log_are_the_whole_at_any_time(void **state)
{
    struct place *p = *state;
    struct rng rng = rng_from_seed(11);
    int model[KEYS] = {0};
    p->flush_after = (span){1};
    place_open_again(p);
    for (int turn = 0; turn < 300; turn++) {
        change_some(p, &rng, model, turn);
        if (rng_below(&rng, 20) == 0) {
            place_close(p);
            if (rng_below(&rng, 2))
                place_remove_copy(p);
            place_open(p);
            expect_model(p, model);
        }
    }
    place_await_flushed(p, store_number(p->s));
    assert_int_equal(place_count_records(p), count_model(model));
    place_close(p);
    place_remove_copy(p);
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_NEW, 0);
    expect_model(p, model);
}

static void the_log_is_emptied(void **state)
{
    struct place *p = *state;
    place_flush_soon(p);
    place_await_emptied(p);
    place_close(p);
    place_open(p);
    assert_int_equal(place_state(p).start, ROCKS_FOREIGN_KEPT);
}

static void a_reader_of_the_log_delays_nothing_but_its_emptying(void **state)
{
    struct place *p = *state;
    struct pg *reader = pg_node_open(&place_node);
    place_flush_soon(p);
    assert_ok(pg_script(reader, "BEGIN; SELECT count(*) FROM tenax.log"));
    for (int n = 1; n <= 100; n++)
        place_put_large(p, n);
    place_await_flushed(p, 100);
    assert_int_equal(place_count_rows(p), 100);
    assert_ok(pg_script(reader, "COMMIT"));
    place_await_emptied(p);
    pg_close(reader);
}

static void batches_that_are_held_stay(void **state)
{
    struct place *p = *state;
    place_flush_soon(p);
    scratch_put(p->s, "a", "1");
    store_hold(p->s, 1);
    for (int n = 1; n <= 100; n++)
        place_put_large(p, n);
    place_await_flushed(p, 101);
    assert_true(place_count_rows(p) >= 100);
    place_open_again(p);
    place_await_flushed(p, 101);
    assert_true(place_count_rows(p) >= 100);
    store_hold(p->s, STORE_HOLD_NONE);
    place_await_emptied(p);
}

static void who_has_lost_the_shard_writes_no_records(void **state)
{
    struct place *p = *state, other;
    scratch_put(p->s, "a", "1");
    place_flush_soon(p);
    place_await_flushed(p, 1);
    place_init(&other, p->shard);
    place_open(&other);
    while (place_state(p).failure.code == ERR_OK)
        poll(NULL, 0, 5);
    assert_code(place_state(p).failure, ERR_FENCED);
    place_fini(&other);
}

#define T(test) cmocka_unit_test_setup_teardown(test, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(records_get_what_stays),     T(records_and_log_are_the_whole_at_any_time),
        T(the_log_is_emptied),         T(a_reader_of_the_log_delays_nothing_but_its_emptying),
        T(batches_that_are_held_stay), T(who_has_lost_the_shard_writes_no_records),
    };
    pg_node_start(&place_node, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_node_remove(&place_node);
    return failed;
}
