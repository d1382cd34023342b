/* SPDX-License-Identifier: Apache-2.0 */
#include "store/contract.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "store/cm.h"
#include "store/scratch.h"

struct fixture {
    struct store *(*open)(const char *dir);
    char *dir;
    struct store *s;
    struct batch b;
};

static struct store *(*opener)(const char *dir);

static int set_up(void **state)
{
    struct fixture *f = ALLOC(struct fixture);
    f->dir = scratch_make();
    f->s = opener(f->dir);
    *state = f;
    return f->s ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    store_close(f->s);
    batch_fini(&f->b);
    scratch_remove(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

/* Adds to the fixture's batch. */
static void put(struct fixture *f, const char *key, const char *value)
{
    batch_put(&f->b, str_from(key), str_from(value));
}

static void del(struct fixture *f, const char *key)
{
    batch_delete(&f->b, str_from(key));
}

static void commit(struct fixture *f)
{
    scratch_commit(f->s, &f->b);
}

/* Keys from the cursor on, each followed by a blank. */
static void expect_keys(struct store *s, struct store_cursor *c, bool backwards,
                        const char *expected)
{
    struct buf got = {0};
    struct str key, value;
    while (store_cursor_at(c, s, &key, &value)) {
        buf_str(&got, key);
        buf_byte(&got, ' ');
        store_cursor_step(c, s, backwards);
    }
    buf_byte(&got, '\0');
    assert_string_equal(got.at, expected);
    buf_fini(&got);
}

static void expect_seek(struct store *s, const char *from, bool backwards, const char *expected)
{
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, str_from(from), backwards);
    expect_keys(s, c, backwards, expected);
    assert_ok(store_cursor_free(c, s));
}

static void what_was_put_is_read(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "2");
    commit(f);
    scratch_expect(f->s, "a", "1");
    scratch_expect(f->s, "b", "2");
}

static void a_later_put_replaces_an_earlier(void **state)
{
    struct fixture *f = *state;
    scratch_put(f->s, "a", "1");
    scratch_put(f->s, "a", "two");
    scratch_expect(f->s, "a", "two");
}

static void what_was_deleted_is_not_found(void **state)
{
    struct fixture *f = *state;
    scratch_put(f->s, "a", "1");
    del(f, "a");
    del(f, "never there");
    commit(f);
    scratch_expect(f->s, "a", NULL);
    scratch_expect(f->s, "never there", NULL);
}

static void a_miss_empties_the_value(void **state)
{
    struct fixture *f = *state;
    struct buf value = {0};
    buf_lit(&value, "old");
    bool found = true;
    assert_ok(store_get(f->s, STR("x"), &found, &value));
    assert_false(found);
    assert_int_equal(value.len, 0);
    buf_fini(&value);
}

static void a_hit_replaces_the_value(void **state)
{
    struct fixture *f = *state;
    scratch_put(f->s, "a", "1");
    struct buf value = {0};
    buf_lit(&value, "old and longer");
    bool found;
    assert_ok(store_get(f->s, STR("a"), &found, &value));
    assert_str(buf_view(&value), "1");
    buf_fini(&value);
}

static void an_empty_value_is_not_a_delete(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "");
    commit(f);
    scratch_expect(f->s, "a", "");
}

static void the_last_operation_on_a_key_wins(void **state)
{
    struct fixture *f = *state;
    scratch_put(f->s, "old", "1");
    put(f, "a", "1");
    put(f, "a", "2");
    put(f, "b", "1");
    del(f, "b");
    del(f, "c");
    put(f, "c", "3");
    put(f, "old", "2");
    del(f, "old");
    commit(f);
    scratch_expect(f->s, "a", "2");
    scratch_expect(f->s, "b", NULL);
    scratch_expect(f->s, "c", "3");
    scratch_expect(f->s, "old", NULL);
}

static void an_empty_batch_succeeds(void **state)
{
    struct fixture *f = *state;
    commit(f);
    scratch_put(f->s, "a", "1");
    scratch_expect(f->s, "a", "1");
}

static void nothing_under_way_is_nothing_to_reap(void **state)
{
    struct fixture *f = *state;
    struct err e;
    assert_false(store_reap(f->s, &e));
    scratch_put(f->s, "a", "1");
    assert_false(store_reap(f->s, &e));
}

static void later_commits_win(void **state)
{
    struct fixture *f = *state;
    char number[16];
    for (int i = 0; i < 300; i++) {
        snprintf(number, sizeof number, "%d", i);
        put(f, "counter", number);
        assert_ok(scratch_try_commit(f->s, &f->b, i % 3 == 0));
        scratch_expect(f->s, "counter", number);
    }
    assert_ok(store_reopen(f->s));
    scratch_expect(f->s, "counter", "299");
}

static void a_cursor_walks_in_byte_order(void **state)
{
    struct fixture *f = *state;
    const char *keys[] = {"b", "a", "ab", "\xff", "B", "\x01", "aa", "\x80"};
    for (size_t i = 0; i < COUNT(keys); i++)
        put(f, keys[i], "v");
    commit(f);
    expect_seek(f->s, "", false, "\x01 B a aa ab b \x80 \xff ");
    expect_seek(f->s, "\xff\xff", true, "\xff \x80 b ab aa a B \x01 ");
}

static void keys_with_zero_bytes_are_ordered(void **state)
{
    struct fixture *f = *state;
    batch_put(&f->b, STR("k\0b"), STR("2"));
    batch_put(&f->b, STR("k"), STR("0"));
    batch_put(&f->b, STR("k\0"), STR("1"));
    commit(f);
    struct store_cursor *c = store_cursor_new(f->s);
    struct str key, value;
    store_cursor_seek(c, f->s, STR("k"), false);
    for (int digit = '0'; digit <= '2'; digit++) {
        assert_true(store_cursor_at(c, f->s, &key, &value));
        assert_int_equal(value.at[0], digit);
        store_cursor_step(c, f->s, false);
    }
    assert_false(store_cursor_at(c, f->s, &key, &value));
    assert_ok(store_cursor_free(c, f->s));
}

static void a_seek_finds_its_place(void **state)
{
    struct fixture *f = *state;
    put(f, "b", "1");
    put(f, "d", "2");
    put(f, "f", "3");
    commit(f);
    expect_seek(f->s, "a", false, "b d f ");
    expect_seek(f->s, "d", false, "d f ");
    expect_seek(f->s, "e", false, "f ");
    expect_seek(f->s, "g", false, "");
    expect_seek(f->s, "a", true, "");
    expect_seek(f->s, "b", true, "");
    expect_seek(f->s, "d", true, "b ");
    expect_seek(f->s, "e", true, "d b ");
    expect_seek(f->s, "g", true, "f d b ");
}

static void a_cursor_may_turn_round(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "2");
    put(f, "c", "3");
    commit(f);
    struct store_cursor *c = store_cursor_new(f->s);
    struct str key, value;
    store_cursor_seek(c, f->s, STR("b"), false);
    store_cursor_step(c, f->s, false);
    store_cursor_step(c, f->s, true);
    assert_true(store_cursor_at(c, f->s, &key, &value));
    assert_str(key, "b");
    assert_str(value, "2");
    store_cursor_seek(c, f->s, STR("b"), true);
    store_cursor_step(c, f->s, false);
    assert_true(store_cursor_at(c, f->s, &key, &value));
    assert_str(key, "b");
    assert_ok(store_cursor_free(c, f->s));
}

static void a_cursor_past_the_end_stays_there(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "2");
    commit(f);
    struct store_cursor *c = store_cursor_new(f->s);
    struct str key, value;
    assert_false(store_cursor_at(c, f->s, &key, &value));
    store_cursor_seek(c, f->s, STR("b"), false);
    store_cursor_step(c, f->s, false);
    assert_false(store_cursor_at(c, f->s, &key, &value));
    store_cursor_step(c, f->s, true);
    assert_false(store_cursor_at(c, f->s, &key, &value));
    store_cursor_seek(c, f->s, STR("a"), false);
    assert_true(store_cursor_at(c, f->s, &key, &value));
    assert_ok(store_cursor_free(c, f->s));
}

static void an_empty_store_has_no_keys(void **state)
{
    struct fixture *f = *state;
    expect_seek(f->s, "", false, "");
    expect_seek(f->s, "z", true, "");
}

static void a_cursor_does_not_see_later_commits(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "c", "3");
    commit(f);
    struct store_cursor *c = store_cursor_new(f->s);
    put(f, "b", "2");
    put(f, "c", "changed");
    del(f, "a");
    commit(f);
    struct str key, value;
    store_cursor_seek(c, f->s, STR("c"), false);
    assert_true(store_cursor_at(c, f->s, &key, &value));
    assert_str(value, "3");
    store_cursor_seek(c, f->s, STR(""), false);
    expect_keys(f->s, c, false, "a c ");
    assert_ok(store_cursor_free(c, f->s));
    expect_seek(f->s, "", false, "b c ");
}

static void a_reopened_store_has_all_that_was_synced(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "2");
    commit(f);
    del(f, "b");
    commit(f);
    assert_ok(store_reopen(f->s));
    scratch_expect(f->s, "a", "1");
    scratch_expect(f->s, "b", NULL);
    scratch_put(f->s, "c", "3");
    assert_ok(store_reopen(f->s));
    expect_seek(f->s, "", false, "a c ");
}

static void a_reopen_under_way_is_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "1");
    store_commit(f->s, &f->b, true);
    assert_ok(store_reopen(f->s));
    struct err e;
    assert_false(store_reap(f->s, &e));
    bool found_a, found_b;
    struct buf value = {0};
    assert_ok(store_get(f->s, STR("a"), &found_a, &value));
    assert_ok(store_get(f->s, STR("b"), &found_b, &value));
    assert_int_equal(found_a, found_b);
    buf_fini(&value);
}

/* Rounds of a large and a small batch, until one is said to be durable before it can be reaped.
 * Nothing says that one will be. */
static void what_is_durable_is_seen_by_cursors_before_it_is_reaped(void **state)
{
    struct fixture *f = *state;
    char number[16], want[24];
    for (int i = 0; i < 200; i++) {
        snprintf(number, sizeof number, "%03d", i);
        put(f, number, "1");
        for (int k = 0; k < (i % 2 ? 1000 : 0); k++)
            put(f, "many", "1");
        uint64_t before = store_number(f->s);
        struct err e;
        store_commit(f->s, &f->b, true);
        bool durable = false, reaped = false;
        while (!durable && !reaped) {
            durable = store_is_durable(f->s);
            reaped = !durable && store_reap(f->s, &e);
        }
        if (durable) {
            struct store_cursor *c = store_cursor_new(f->s);
            struct str key, value;
            store_cursor_seek(c, f->s, str_from(number), false);
            assert_true(store_cursor_at(c, f->s, &key, &value));
            snprintf(want, sizeof want, "%.*s", (int)key.len, key.at);
            assert_string_equal(want, number);
            assert_ok(store_cursor_free(c, f->s));
            assert_int_equal(store_number(f->s), before);
            store_wait(f->s);
            assert_true(store_reap(f->s, &e));
        }
        assert_ok(e);
        assert_false(store_is_durable(f->s));
        scratch_expect(f->s, number, "1");
        batch_reset(&f->b);
    }
}

/* --- numbers --- */

static void batches_are_numbered_also_over_a_reopen(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(store_number(f->s), 0);
    for (uint64_t n = 1; n <= 6; n++) {
        scratch_put(f->s, "a", "1");
        assert_int_equal(store_number(f->s), n);
        if (n % 3 == 0)
            assert_ok(store_reopen(f->s));
        assert_int_equal(store_number(f->s), n);
    }
}

/* What a replay told: number, key and value of each operation. */
static struct err tell(void *ctx, uint64_t number, const struct batch_op *op)
{
    struct buf *told = ctx;
    buf_print(told, "%llu:", (unsigned long long)number);
    buf_str(told, op->key);
    buf_print(told, op->value.at ? "=" : "-");
    if (op->value.at)
        buf_str(told, op->value);
    buf_byte(told, ' ');
    return err_none();
}

static void expect_replay(struct store *s, uint64_t from, const char *expected)
{
    struct buf told = {0};
    assert_ok(store_replay(s, from, tell, &told));
    assert_true(str_eq(buf_view(&told), str_from(expected)));
    buf_fini(&told);
}

static void batches_that_are_held_are_told_after_a_reopen(void **state)
{
    struct fixture *f = *state;
    scratch_put(f->s, "a", "1");
    store_hold(f->s, 1);
    put(f, "b", "2");
    del(f, "a");
    commit(f);
    scratch_put(f->s, "c", "");
    for (int i = 0; i < 2; i++) {
        assert_ok(store_reopen(f->s));
        expect_replay(f->s, 2, "2:b=2 2:a- 3:c= ");
        expect_replay(f->s, 3, "3:c= ");
        expect_replay(f->s, 4, "");
    }
    store_hold(f->s, 3);
    scratch_put(f->s, "d", "4");
    assert_ok(store_reopen(f->s));
    expect_replay(f->s, 4, "4:d=4 ");
}

static struct err refuse(void *ctx, uint64_t number, const struct batch_op *op)
{
    (void)ctx, (void)number, (void)op;
    return err_make(ERR_BUSY, "as instructed");
}

static void a_replay_ends_with_the_error_of_whom_it_tells(void **state)
{
    struct fixture *f = *state;
    store_hold(f->s, 0);
    scratch_put(f->s, "a", "1");
    assert_ok(store_reopen(f->s));
    assert_code(store_replay(f->s, 1, refuse, NULL), ERR_BUSY);
    expect_replay(f->s, 1, "1:a=1 ");
}

/* Or they are still there: nobody promised that they are not. */
static void batches_that_nobody_holds_are_told_whole_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 20; i++)
        scratch_put(f->s, "a", "1");
    store_hold(f->s, STORE_HOLD_NONE);
    scratch_put(f->s, "b", "2");
    assert_ok(store_reopen(f->s));
    struct buf told = {0};
    struct err e = store_replay(f->s, 20, tell, &told);
    assert_true(e.code == ERR_NOT_FOUND || e.code == ERR_OK);
    const char *expected = e.code == ERR_OK ? "20:a=1 21:b=2 " : "";
    assert_true(str_eq(buf_view(&told), str_from(expected)));
    buf_fini(&told);
}

static void a_value_of_20_mib_comes_back(void **state)
{
    struct fixture *f = *state;
    const size_t len = (size_t)20 << 20;
    struct rng rng = rng_from_seed(7);
    char *bytes = batch_put_room(&f->b, STR("big"), len);
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t v = rng_next(&rng);
        memcpy(bytes + i, &v, 8);
    }
    char *copy = alloc_text(bytes, len);
    commit(f);
    struct buf value = {0};
    for (int round = 0; round < 2; round++) {
        bool found;
        assert_ok(store_get(f->s, STR("big"), &found, &value));
        assert_true(found);
        assert_int_equal(value.len, len);
        assert_memory_equal(value.at, copy, len);
        assert_ok(store_reopen(f->s));
    }
    buf_fini(&value);
    free(copy);
}

static struct str number_key(char out[16], unsigned n)
{
    snprintf(out, 16, "k%08u", n);
    return (struct str){out, 9};
}

/* Counts the keys from the front and checks that each is `step` above the last. */
static unsigned count_every(struct store *s, unsigned first, unsigned step)
{
    unsigned count = 0;
    struct store_cursor *c = store_cursor_new(s);
    struct str key, value;
    char expected[16];
    for (store_cursor_seek(c, s, STR(""), false); store_cursor_at(c, s, &key, &value);
         store_cursor_step(c, s, false)) {
        struct str k = number_key(expected, first + step * count++);
        if (!str_eq(key, k) || !str_eq(value, k))
            fail_msg("found %.*s, expected %s", STR_ARG(key), expected);
    }
    assert_ok(store_cursor_free(c, s));
    return count;
}

static void a_hundred_thousand_keys_are_walked(void **state)
{
    struct fixture *f = *state;
    const unsigned n = 100000;
    char key[16];
    /* Not in order: n and 7919 have no common factor. */
    for (unsigned i = 0; i < n; i++) {
        struct str k = number_key(key, i * 7919u % n);
        batch_put(&f->b, k, k);
        if (i % 10000 == 9999)
            commit(f);
    }
    assert_int_equal(count_every(f->s, 0, 1), n);
    for (unsigned i = 0; i < n; i += 2)
        batch_delete(&f->b, number_key(key, i));
    commit(f);
    assert_int_equal(count_every(f->s, 1, 2), n / 2);
    assert_ok(store_reopen(f->s));
    assert_int_equal(count_every(f->s, 1, 2), n / 2);
}

/* 64 keys with one number each, as the model of a store. */
struct model {
    int values[64]; /* 0: absent */
};

static void expect_model(struct store *s, const struct model *m)
{
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR(""), false);
    for (unsigned i = 0; i < 64; i++) {
        if (!m->values[i])
            continue;
        struct str key, value;
        char k[16], v[16];
        assert_true(store_cursor_at(c, s, &key, &value));
        assert_true(str_eq(key, number_key(k, i)));
        snprintf(v, sizeof v, "%d", m->values[i]);
        assert_true(str_eq(value, str_from(v)));
        store_cursor_step(c, s, false);
    }
    struct str key, value;
    assert_false(store_cursor_at(c, s, &key, &value));
    assert_ok(store_cursor_free(c, s));
}

static void random_commands_agree_with_a_model(void **state)
{
    struct fixture *f = *state;
    struct model m = {0};
    struct rng rng = rng_from_seed(42);
    char k[16], v[16];
    for (int turn = 1; turn <= 400; turn++) {
        for (uint64_t ops = rng_below(&rng, 12); ops > 0; ops--) {
            unsigned i = (unsigned)rng_below(&rng, 64);
            m.values[i] = rng_below(&rng, 3) ? turn : 0;
            snprintf(v, sizeof v, "%d", turn);
            if (m.values[i])
                batch_put(&f->b, number_key(k, i), str_from(v));
            else
                batch_delete(&f->b, number_key(k, i));
        }
        assert_ok(scratch_try_commit(f->s, &f->b, rng_below(&rng, 2)));
        expect_model(f->s, &m);
        if (turn % 100 == 0) {
            commit(f);
            assert_ok(store_reopen(f->s));
            expect_model(f->s, &m);
        }
    }
}

static void room_is_told(void **state)
{
    struct fixture *f = *state;
    assert_true(store_free_space(f->s) > 0);
    uint64_t before = store_disk_bytes(f->s);
    memset(batch_put_room(&f->b, STR("a"), 1 << 20), 'x', 1 << 20);
    commit(f);
    assert_true(store_disk_bytes(f->s) >= before + (1 << 20));
}

int contract_run(const char *name, struct store *(*open)(const char *dir))
{
    opener = open;
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(what_was_put_is_read),
        T(a_later_put_replaces_an_earlier),
        T(what_was_deleted_is_not_found),
        T(a_miss_empties_the_value),
        T(a_hit_replaces_the_value),
        T(an_empty_value_is_not_a_delete),
        T(the_last_operation_on_a_key_wins),
        T(an_empty_batch_succeeds),
        T(nothing_under_way_is_nothing_to_reap),
        T(later_commits_win),
        T(a_cursor_walks_in_byte_order),
        T(keys_with_zero_bytes_are_ordered),
        T(a_seek_finds_its_place),
        T(a_cursor_may_turn_round),
        T(a_cursor_past_the_end_stays_there),
        T(an_empty_store_has_no_keys),
        T(a_cursor_does_not_see_later_commits),
        T(a_reopened_store_has_all_that_was_synced),
        T(a_reopen_under_way_is_all_or_nothing),
        T(what_is_durable_is_seen_by_cursors_before_it_is_reaped),
        T(batches_are_numbered_also_over_a_reopen),
        T(batches_that_are_held_are_told_after_a_reopen),
        T(a_replay_ends_with_the_error_of_whom_it_tells),
        T(batches_that_nobody_holds_are_told_whole_or_not_at_all),
        T(a_value_of_20_mib_comes_back),
        T(a_hundred_thousand_keys_are_walked),
        T(random_commands_agree_with_a_model),
        T(room_is_told),
    };
#undef T
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
