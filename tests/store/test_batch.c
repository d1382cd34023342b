/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch.h"

#include <stdio.h>

#include "base/rng.h"
#include "store/batch_bytes.h"
#include "store/cm.h"
#include "base/err.h"

static void expect(const struct batch *b, const char *key, const char *value)
{
    const struct batch_op *op = batch_find(b, str_from(key));
    assert_non_null(op);
    assert_true(str_eq(op->key, str_from(key)));
    if (value)
        assert_true(str_eq(op->value, str_from(value)));
    else
        assert_null(op->value.at);
}

static void an_empty_batch_has_nothing(void **state)
{
    (void)state;
    struct batch b = {0};
    assert_null(batch_find(&b, STR("a")));
    batch_reset(&b);
    assert_null(batch_find(&b, STR("a")));
    batch_fini(&b);
}

static void operations_are_found_by_key(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_put(&b, STR("a"), STR("1"));
    batch_delete(&b, STR("b"));
    batch_put(&b, STR("empty"), STR(""));
    batch_put(&b, STR(""), STR("of no key"));
    expect(&b, "a", "1");
    expect(&b, "b", NULL);
    expect(&b, "", "of no key");
    assert_non_null(batch_find(&b, STR("empty"))->value.at);
    assert_null(batch_find(&b, STR("c")));
    assert_int_equal(b.count, 4);
    batch_fini(&b);
}

static void a_later_operation_takes_the_place_of_an_earlier(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_put(&b, STR("a"), STR("1"));
    batch_put(&b, STR("b"), STR("1"));
    batch_put(&b, STR("a"), STR("three"));
    batch_delete(&b, STR("b"));
    assert_int_equal(b.count, 2);
    expect(&b, "a", "three");
    expect(&b, "b", NULL);
    assert_int_equal(b.bytes, 1 + 5 + 1);
    batch_put(&b, STR("b"), STR("again"));
    expect(&b, "b", "again");
    batch_fini(&b);
}

static void keys_and_values_are_copied(void **state)
{
    (void)state;
    struct batch b = {0};
    char key[] = "key", value[] = "value";
    batch_put(&b, str_from(key), str_from(value));
    memset(key, 'x', 3);
    memset(value, 'x', 5);
    expect(&b, "key", "value");
    batch_fini(&b);
}

static void room_is_the_values(void **state)
{
    (void)state;
    struct batch b = {0};
    memcpy(batch_put_room(&b, STR("a"), 4), "room", 4);
    expect(&b, "a", "room");
    batch_fini(&b);
}

static void a_reset_batch_is_empty_and_keeps_its_memory(void **state)
{
    (void)state;
    struct batch b = {0};
    size_t held = 0;
    for (int round = 0; round < 3; round++) {
        char key[16];
        for (int i = 0; i < 20000; i++) {
            snprintf(key, sizeof key, "%d-%d", round, i);
            memset(batch_put_room(&b, str_from(key), 300), i, 300);
        }
        if (round == 0)
            held = b.held;
        assert_int_equal(b.held, held);
        batch_reset(&b);
        assert_int_equal(b.count, 0);
        assert_int_equal(b.bytes, 0);
        assert_null(batch_find(&b, str_from(key)));
    }
    batch_fini(&b);
}

static void a_burst_gives_its_memory_back(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_put_room(&b, STR("a"), (size_t)33 << 20);
    assert_true(b.held > (size_t)33 << 20);
    batch_reset(&b);
    assert_int_equal(b.held, 0);
    batch_put(&b, STR("a"), STR("1"));
    expect(&b, "a", "1");
    batch_fini(&b);
}

static void a_value_larger_than_a_block_lies_beside_small_ones(void **state)
{
    (void)state;
    struct batch b = {0};
    const size_t large = 1 << 20;
    for (int round = 0; round < 3; round++) {
        batch_put(&b, STR("a"), STR("1"));
        memset(batch_put_room(&b, STR("large"), large), 'x', large);
        batch_put(&b, STR("b"), STR("2"));
        expect(&b, "a", "1");
        expect(&b, "b", "2");
        struct str value = batch_find(&b, STR("large"))->value;
        assert_int_equal(value.len, large);
        assert_int_equal(value.at[0] + value.at[large - 1], 'x' + 'x');
        batch_reset(&b);
    }
    batch_fini(&b);
}

static void many_keys_that_differ_in_kind_only_are_told_apart(void **state)
{
    (void)state;
    struct batch b = {0};
    char key[17] = {0};
    for (uint32_t i = 0; i < 60000; i++) {
        key[0] = "JSP"[i % 3];
        memcpy(key + 5, &(uint32_t){i / 3}, 4);
        batch_put(&b, (struct str){key, sizeof key}, (struct str){(char *)&i, sizeof i});
    }
    assert_int_equal(b.count, 60000);
    for (uint32_t i = 0; i < 60000; i++) {
        key[0] = "JSP"[i % 3];
        memcpy(key + 5, &(uint32_t){i / 3}, 4);
        const struct batch_op *op = batch_find(&b, (struct str){key, sizeof key});
        assert_non_null(op);
        assert_memory_equal(op->value.at, &i, sizeof i);
    }
    batch_fini(&b);
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    struct batch b = {0};
    struct rng rng = rng_from_seed(3);
    for (int round = 0; round < 20; round++) {
        uint64_t model[512] = {0}; /* value + 2; 1: deleted; 0: no operation */
        for (int i = 0; i < 2000; i++) {
            uint16_t k = (uint16_t)rng_below(&rng, 512);
            struct str key = {(char *)&k, sizeof k};
            uint64_t v = rng_below(&rng, 1000);
            if (rng_below(&rng, 4))
                batch_put(&b, key, (struct str){(char *)&v, sizeof v});
            else
                batch_delete(&b, key);
            const struct batch_op *op = batch_find(&b, key);
            model[k] = op->value.at ? v + 2 : 1;
        }
        for (uint16_t k = 0; k < 512; k++) {
            const struct batch_op *op = batch_find(&b, (struct str){(char *)&k, sizeof k});
            uint64_t v = 0;
            if (op && op->value.at)
                memcpy(&v, op->value.at, sizeof v);
            assert_int_equal(op ? (op->value.at ? v + 2 : 1) : 0, model[k]);
        }
        batch_reset(&b);
    }
    batch_fini(&b);
}

/* --- as bytes --- */

static struct err add_again(void *ctx, const struct batch_op *op)
{
    if (op->value.at)
        batch_put(ctx, op->key, op->value);
    else
        batch_delete(ctx, op->key);
    return err_none();
}

static void a_batch_comes_back_from_its_bytes(void **state)
{
    (void)state;
    struct batch b = {0}, again = {0};
    struct buf bytes = {0};
    struct rng rng = rng_from_seed(5);
    char value[300];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 300; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        if (rng_below(&rng, 3))
            batch_put(&b, str_from(key), (struct str){value, rng_below(&rng, sizeof value)});
        else
            batch_delete(&b, str_from(key));
    }
    batch_bytes_write(&b, &bytes);
    assert_ok(batch_bytes_read(buf_view(&bytes), add_again, &again));
    assert_int_equal(again.count, b.count);
    for (size_t i = 0; i < b.count; i++) {
        assert_true(str_eq(again.ops[i].key, b.ops[i].key));
        assert_int_equal(again.ops[i].value.at != NULL, b.ops[i].value.at != NULL);
        assert_true(str_eq(again.ops[i].value, b.ops[i].value));
    }
    struct buf twice = {0};
    batch_bytes_write(&again, &twice);
    assert_true(str_eq(buf_view(&twice), buf_view(&bytes)));
    buf_fini(&twice);
    buf_fini(&bytes);
    batch_fini(&b);
    batch_fini(&again);
}

static void bytes_of_no_batch_are_refused(void **state)
{
    (void)state;
    struct batch b = {0}, again = {0};
    struct buf bytes = {0};
    batch_put(&b, STR("key"), STR("value"));
    batch_bytes_write(&b, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        bool none = len == 1; /* an empty batch is one */
        assert_code(batch_bytes_read((struct str){bytes.at, len}, add_again, &again),
                    none ? ERR_OK : ERR_CORRUPT);
    }
    bytes.at[1] = 2;
    assert_code(batch_bytes_read(buf_view(&bytes), add_again, &again), ERR_CORRUPT);
    bytes.at[0] = 9;
    assert_code(batch_bytes_read(buf_view(&bytes), add_again, &again), ERR_VERSION);
    buf_fini(&bytes);
    batch_fini(&b);
    batch_fini(&again);
}

static void of_a_new_key_a_delete_leaves_nothing(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_put_new(&b, STR("a"));
    batch_put(&b, STR("a"), STR("1"));
    batch_put(&b, STR("b"), STR("2"));
    batch_delete(&b, STR("a"));
    assert_null(batch_find(&b, STR("a")));
    expect(&b, "b", "2");
    assert_int_equal(b.count, 1);
    assert_int_equal(b.bytes, 2);
    /* What was stored before must go, whatever is said of the key after its delete. */
    batch_delete(&b, STR("c"));
    batch_put_new(&b, STR("c"));
    batch_put(&b, STR("c"), STR("3"));
    batch_delete(&b, STR("c"));
    expect(&b, "c", NULL);
    batch_fini(&b);
}

static void many_new_keys_go_and_the_others_are_found(void **state)
{
    (void)state;
    struct batch b = {0};
    char key[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3000; i++) {
            snprintf(key, sizeof key, "key-%d", i);
            if (i % 3)
                batch_put_new(&b, str_from(key));
            batch_put(&b, str_from(key), str_from(key));
        }
        for (int i = 0; i < 3000; i += 2) {
            snprintf(key, sizeof key, "key-%d", i);
            batch_delete(&b, str_from(key));
        }
        for (int i = 0; i < 3000; i++) {
            snprintf(key, sizeof key, "key-%d", i);
            if (i % 2 == 0 && i % 3)
                assert_null(batch_find(&b, str_from(key)));
            else
                expect(&b, key, i % 2 ? key : NULL);
        }
        assert_int_equal(b.count, 2000);
        batch_reset(&b);
    }
    batch_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_batch_has_nothing),
        cmocka_unit_test(operations_are_found_by_key),
        cmocka_unit_test(a_later_operation_takes_the_place_of_an_earlier),
        cmocka_unit_test(keys_and_values_are_copied),
        cmocka_unit_test(room_is_the_values),
        cmocka_unit_test(a_reset_batch_is_empty_and_keeps_its_memory),
        cmocka_unit_test(a_burst_gives_its_memory_back),
        cmocka_unit_test(a_value_larger_than_a_block_lies_beside_small_ones),
        cmocka_unit_test(many_keys_that_differ_in_kind_only_are_told_apart),
        cmocka_unit_test(of_a_new_key_a_delete_leaves_nothing),
        cmocka_unit_test(many_new_keys_go_and_the_others_are_found),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(a_batch_comes_back_from_its_bytes),
        cmocka_unit_test(bytes_of_no_batch_are_refused),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
