/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/idmap.h"

#define KEYS 3000

/* Neighbouring ids, as generated within a millisecond. */
static struct id id_of(uint64_t n)
{
    return (struct id){0x18bcfe568000000, n << 32};
}

static void an_empty_map_holds_nothing(void **state)
{
    (void)state;
    struct idmap m = {0};
    assert_null(idmap_get(&m, id_of(1)));
    assert_null(idmap_remove(&m, id_of(1)));
    idmap_clear(&m);
    idmap_fini(&m);
}

static void the_zero_id_is_a_key_like_any_other(void **state)
{
    (void)state;
    struct idmap m = {0};
    int v;
    assert_null(idmap_get(&m, (struct id){0, 0}));
    idmap_put(&m, (struct id){0, 0}, &v);
    assert_ptr_equal(idmap_get(&m, (struct id){0, 0}), &v);
    assert_ptr_equal(idmap_remove(&m, (struct id){0, 0}), &v);
    assert_null(idmap_get(&m, (struct id){0, 0}));
    idmap_fini(&m);
}

static void putting_an_id_again_replaces_its_value(void **state)
{
    (void)state;
    struct idmap m = {0};
    int a, b;
    idmap_put(&m, id_of(1), &a);
    idmap_put(&m, id_of(1), &b);
    assert_int_equal(m.count, 1);
    assert_ptr_equal(idmap_get(&m, id_of(1)), &b);
    idmap_fini(&m);
}

static void assert_same(const struct idmap *m, char *const *model)
{
    size_t count = 0;
    for (uint64_t n = 0; n < KEYS; n++) {
        assert_ptr_equal(idmap_get(m, id_of(n)), model[n]);
        count += model[n] != NULL;
    }
    assert_int_equal(m->count, count);
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    static char values[64];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct rng r = rng_from_seed(seed);
        struct idmap m = {0};
        char *model[KEYS] = {0};
        for (int step = 0; step < 60000; step++) {
            uint64_t n = rng_below(&r, KEYS);
            if (rng_below(&r, 20) < (step / 10000 % 2 ? 4u : 14u)) {
                model[n] = &values[rng_below(&r, sizeof values)];
                idmap_put(&m, id_of(n), model[n]);
            } else {
                assert_ptr_equal(idmap_remove(&m, id_of(n)), model[n]);
                model[n] = NULL;
            }
            if (step % 5000 == 0)
                assert_same(&m, model);
        }
        assert_same(&m, model);
        idmap_fini(&m);
    }
}

static void clearing_keeps_the_memory_and_no_entry(void **state)
{
    (void)state;
    struct idmap m = {0};
    int v;
    for (uint64_t n = 0; n < 100; n++)
        idmap_put(&m, id_of(n), &v);
    size_t cap = m.cap;
    idmap_clear(&m);
    assert_int_equal(m.count, 0);
    assert_int_equal(m.cap, cap);
    for (uint64_t n = 0; n < 100; n++)
        assert_null(idmap_get(&m, id_of(n)));
    idmap_put(&m, id_of(5), &v);
    assert_ptr_equal(idmap_get(&m, id_of(5)), &v);
    idmap_fini(&m);
    assert_null(m.slots);
}

static void neighbouring_ids_stand_near_their_home(void **state)
{
    (void)state;
    struct idmap m = {0};
    int v;
    for (uint64_t n = 0; n < 3072; n++)
        idmap_put(&m, id_of(n), &v);
    assert_int_equal(m.cap, 4096);
    /* Longest run of taken slots: with a poor hash most of them form one. */
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < m.cap; i++) {
        run = m.slots[i].val ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_in_range(longest, 1, 400);
    idmap_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_holds_nothing),
        cmocka_unit_test(the_zero_id_is_a_key_like_any_other),
        cmocka_unit_test(putting_an_id_again_replaces_its_value),
        cmocka_unit_test(random_operations_agree_with_an_array),
        cmocka_unit_test(clearing_keeps_the_memory_and_no_entry),
        cmocka_unit_test(neighbouring_ids_stand_near_their_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
