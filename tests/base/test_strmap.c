/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/rng.h"
#include "base/strmap.h"

#define KEYS 1500

/* Names of many lengths, so that whole words and every tail are hashed. */
static struct str name_of(uint64_t n, char out[64])
{
    int len = snprintf(out, 64, "q%0*llu", (int)(4 + n % 23), (unsigned long long)n);
    return (struct str){out, (size_t)len};
}

static void an_empty_map_holds_nothing(void **state)
{
    (void)state;
    struct strmap m = {0};
    assert_null(strmap_get(&m, STR("a")));
    assert_null(strmap_remove(&m, STR("a")));
    strmap_fini(&m);
}

static void keys_are_copied(void **state)
{
    (void)state;
    struct strmap m = {0};
    int v;
    char name[] = "mail";
    struct str own = strmap_put(&m, str_from(name), &v);
    assert_ptr_not_equal(own.at, name);
    name[0] = 'n';
    assert_true(str_eq(own, STR("mail")));
    assert_ptr_equal(strmap_get(&m, STR("mail")), &v);
    assert_null(strmap_get(&m, STR("nail")));
    strmap_fini(&m);
}

static void the_copy_stays_where_it_is_while_the_map_grows(void **state)
{
    (void)state;
    struct strmap m = {0};
    int v;
    char name[64];
    struct str own = strmap_put(&m, STR("first"), &v);
    for (uint64_t n = 0; n < 500; n++)
        strmap_put(&m, name_of(n, name), &v);
    struct str again = strmap_put(&m, STR("first"), &v);
    assert_ptr_equal(own.at, again.at);
    assert_true(str_eq(own, STR("first")));
    strmap_fini(&m);
}

static void putting_a_key_again_replaces_its_value(void **state)
{
    (void)state;
    struct strmap m = {0};
    int a, b;
    strmap_put(&m, STR("mail"), &a);
    strmap_put(&m, STR("mail"), &b);
    assert_int_equal(m.count, 1);
    assert_ptr_equal(strmap_get(&m, STR("mail")), &b);
    strmap_fini(&m);
}

static void the_empty_key_and_keys_with_zero_bytes_differ(void **state)
{
    (void)state;
    struct strmap m = {0};
    int a, b, c;
    strmap_put(&m, (struct str){NULL, 0}, &a);
    strmap_put(&m, STR("\0"), &b);
    strmap_put(&m, STR("\0\0"), &c);
    assert_int_equal(m.count, 3);
    assert_ptr_equal(strmap_get(&m, STR("")), &a);
    assert_ptr_equal(strmap_get(&m, STR("\0")), &b);
    assert_ptr_equal(strmap_remove(&m, STR("\0\0")), &c);
    assert_null(strmap_get(&m, STR("\0\0")));
    strmap_fini(&m);
}

static void the_seed_decides_where_keys_stand(void **state)
{
    (void)state;
    struct strmap a = {.seed = 1}, b = {.seed = 2}, c = {.seed = 1};
    int v;
    char name[64];
    for (uint64_t n = 0; n < 100; n++) {
        strmap_put(&a, name_of(n, name), &v);
        strmap_put(&b, name_of(n, name), &v);
        strmap_put(&c, name_of(n, name), &v);
    }
    size_t moved = 0;
    for (size_t i = 0; i < a.cap; i++) {
        moved += a.slots[i].hash != b.slots[i].hash;
        assert_int_equal(a.slots[i].hash, c.slots[i].hash);
    }
    assert_in_range(moved, 90, a.cap);
    strmap_fini(&a);
    strmap_fini(&b);
    strmap_fini(&c);
}

static void assert_same(const struct strmap *m, char *const *model)
{
    size_t count = 0;
    char name[64];
    for (uint64_t n = 0; n < KEYS; n++) {
        assert_ptr_equal(strmap_get(m, name_of(n, name)), model[n]);
        count += model[n] != NULL;
    }
    assert_int_equal(m->count, count);
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    static char values[64];
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct rng r = rng_from_seed(seed);
        struct strmap m = {.seed = seed};
        char *model[KEYS] = {0}, name[64];
        for (int step = 0; step < 30000; step++) {
            uint64_t n = rng_below(&r, KEYS);
            struct str key = name_of(n, name);
            if (rng_below(&r, 20) < (step / 5000 % 2 ? 4u : 14u)) {
                model[n] = &values[rng_below(&r, sizeof values)];
                assert_true(str_eq(strmap_put(&m, key, model[n]), key));
            } else {
                assert_ptr_equal(strmap_remove(&m, key), model[n]);
                model[n] = NULL;
            }
            if (step % 5000 == 0)
                assert_same(&m, model);
        }
        assert_same(&m, model);
        strmap_fini(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_holds_nothing),
        cmocka_unit_test(keys_are_copied),
        cmocka_unit_test(the_copy_stays_where_it_is_while_the_map_grows),
        cmocka_unit_test(putting_a_key_again_replaces_its_value),
        cmocka_unit_test(the_empty_key_and_keys_with_zero_bytes_differ),
        cmocka_unit_test(the_seed_decides_where_keys_stand),
        cmocka_unit_test(random_operations_agree_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
