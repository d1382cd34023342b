/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/array.h"
#include "base/rng.h"

static void seed_1_gives_the_known_numbers(void **state)
{
    (void)state;
    const uint64_t want[] = {0xb3f2af6d0fc710c5, 0x853b559647364cea, 0x92f89756082a4514,
                             0x642e1c7bc266a3a7, 0xb27a48e29a233673, 0x24c123126ffda722};
    struct rng r = rng_from_seed(1);
    for (size_t i = 0; i < COUNT(want); i++)
        assert_int_equal(rng_next(&r), want[i]);
}

static void seed_0_is_a_seed_like_any_other(void **state)
{
    (void)state;
    const uint64_t want[] = {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0};
    struct rng r = rng_from_seed(0);
    for (size_t i = 0; i < COUNT(want); i++)
        assert_int_equal(rng_next(&r), want[i]);
}

static void seed_1_gives_the_known_numbers_below_1000(void **state)
{
    (void)state;
    const uint64_t want[] = {702, 520, 574, 391, 697, 143};
    struct rng r = rng_from_seed(1);
    for (size_t i = 0; i < COUNT(want); i++)
        assert_int_equal(rng_below(&r, 1000), want[i]);
}

static void seed_1_gives_the_known_fractions(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(1);
    assert_true(rng_unit(&r) == 0.7029218331588505);
    assert_true(rng_unit(&r) == 0.5204366199388569);
}

static void numbers_below_one_are_zero(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(2);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rng_below(&r, 1), 0);
}

static void every_number_below_n_is_equally_likely(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(3);
    size_t seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t v = rng_below(&r, 7);
        assert_in_range(v, 0, 6);
        seen[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9600, 10400);
}

/* With n = 3 * 2^62 a quarter of all draws must be rejected; otherwise the multiples of 3 would
 * occur twice as often as the other numbers. */
static void a_large_n_is_not_biased(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(4);
    const uint64_t n = (uint64_t)3 << 62;
    size_t multiples = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t v = rng_below(&r, n);
        assert_true(v < n);
        multiples += v % 3 == 0;
    }
    assert_in_range(multiples, 9700, 10300);
}

static void fractions_spread_over_zero_to_one(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(5);
    size_t tenths[10] = {0};
    for (int i = 0; i < 100000; i++) {
        double v = rng_unit(&r);
        assert_true(v >= 0 && v < 1);
        tenths[(size_t)(v * 10)]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(tenths[i], 9500, 10500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_1_gives_the_known_numbers),
        cmocka_unit_test(seed_0_is_a_seed_like_any_other),
        cmocka_unit_test(seed_1_gives_the_known_numbers_below_1000),
        cmocka_unit_test(seed_1_gives_the_known_fractions),
        cmocka_unit_test(numbers_below_one_are_zero),
        cmocka_unit_test(every_number_below_n_is_equally_likely),
        cmocka_unit_test(a_large_n_is_not_biased),
        cmocka_unit_test(fractions_spread_over_zero_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
