/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "chance.h"
#include "core/curve.h"
#include "core/retry.h"

#define RETRIES 25
#define DAY_MS  86400000LL

/* The default schedule in milliseconds, computed independently of the code under test: 15 s + n^4 s
 * + n * chance * 30 s. Users rely on it, so a change of any number here is a change of the
 * product. */
static const int64_t schedule_min[RETRIES] = {
    16000,     31000,     96000,     271000,    640000,    1311000,   2416000,  4111000,  6576000,
    10015000,  14656000,  20751000,  28576000,  38431000,  50640000,  65551000, 83536000, 104991000,
    130336000, 160015000, 194496000, 234271000, 279856000, 331791000, 390640000};
static const int64_t schedule_mid[RETRIES] = {
    31000,     61000,     141000,    331000,    715000,    1401000,   2521000,  4231000,  6711000,
    10165000,  14821000,  20931000,  28771000,  38641000,  50865000,  65791000, 83791000, 105261000,
    130621000, 160315000, 194811000, 234601000, 280201000, 332151000, 391015000};
static const int64_t schedule_max[RETRIES] = {
    46000,     91000,     186000,    391000,    790000,    1491000,   2626000,  4351000,  6846000,
    10315000,  14986000,  21111000,  28966000,  38851000,  51090000,  66031000, 84046000, 105531000,
    130906000, 160615000, 195126000, 234931000, 280546000, 332511000, 391390000};

static int64_t assert_schedule(const int64_t want[RETRIES], struct rng chance)
{
    struct curve c = curve_default();
    int64_t total = 0;
    for (uint32_t n = 1; n <= RETRIES; n++) {
        struct rng rng = chance;
        int64_t got = curve_delay(&c, n, &rng).ms;
        assert_int_equal(got, want[n - 1]);
        total += got;
    }
    return total;
}

static void chance_is_what_it_is_set_to(void **state)
{
    (void)state;
    struct rng none = CHANCE_NONE, half = CHANCE_HALF, most = CHANCE_MOST;
    assert_true(rng_unit(&none) == 0.0);
    assert_true(rng_unit(&half) == 0.5);
    assert_true(rng_unit(&most) == 0x1.fffffffffffffp-1);
}

static void the_default_allows_25_retries(void **state)
{
    (void)state;
    assert_int_equal(retry_defaults().limit, RETRIES);
}

static void the_default_schedule_without_jitter_is_pinned(void **state)
{
    (void)state;
    assert_int_equal(assert_schedule(schedule_min, CHANCE_NONE), 2154020000);
}

static void the_default_schedule_with_half_the_jitter_is_pinned(void **state)
{
    (void)state;
    assert_int_equal(assert_schedule(schedule_mid, CHANCE_HALF), 2158895000);
}

static void the_default_schedule_with_the_most_jitter_is_pinned(void **state)
{
    (void)state;
    assert_int_equal(assert_schedule(schedule_max, CHANCE_MOST), 2163770000);
}

static void the_default_window_is_24_to_26_days_whatever_the_chance(void **state)
{
    (void)state;
    struct curve c = curve_default();
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct rng rng = rng_from_seed(seed);
        int64_t total = 0;
        for (uint32_t n = 1; n <= RETRIES; n++) {
            int64_t ms = curve_delay(&c, n, &rng).ms;
            assert_in_range(ms, schedule_min[n - 1], schedule_max[n - 1]);
            total += ms;
        }
        assert_in_range(total, 24 * DAY_MS, 26 * DAY_MS);
    }
}

static void jitter_differs_from_job_to_job(void **state)
{
    (void)state;
    struct curve c = curve_default();
    struct rng rng = rng_from_seed(1);
    assert_int_not_equal(curve_delay(&c, 3, &rng).ms, curve_delay(&c, 3, &rng).ms);
}

static void exponent_0_grows_by_nothing_but_a_second(void **state)
{
    (void)state;
    struct curve c = {CURVE_POWER, {500}, 0.0, {0}};
    struct rng rng = rng_from_seed(1);
    assert_int_equal(curve_delay(&c, 1, &rng).ms, 1500);
    assert_int_equal(curve_delay(&c, 1000, &rng).ms, 1500);
}

static void a_broken_exponent_is_meant_as_it_stands(void **state)
{
    (void)state;
    struct curve c = {CURVE_POWER, {0}, 2.5, {0}};
    struct rng rng = rng_from_seed(1);
    assert_int_equal(curve_delay(&c, 4, &rng).ms, 32000); /* 4^2.5 */
    assert_int_equal(curve_delay(&c, 2, &rng).ms, 5656);  /* 5.6568.. s, truncated */
}

static void a_curve_of_zeros_still_counts_seconds(void **state)
{
    (void)state;
    struct curve c = {CURVE_POWER, {0}, 1.0, {0}};
    struct rng rng = rng_from_seed(1);
    assert_int_equal(curve_delay(&c, 7, &rng).ms, 7000);
}

static void huge_curves_are_capped_and_do_not_overflow(void **state)
{
    (void)state;
    const struct curve huge[] = {
        {CURVE_POWER, {15000}, 100.0, {30000}},
        {CURVE_POWER, {15000}, 1e300, {30000}},
        {CURVE_POWER, {SPAN_MAX_MS}, 4.0, {30000}},
        {CURVE_POWER, {15000}, 4.0, {SPAN_MAX_MS}},
        {CURVE_POWER, {SPAN_MAX_MS}, 100.0, {SPAN_MAX_MS}},
    };
    for (size_t i = 0; i < COUNT(huge); i++) {
        struct rng rng = CHANCE_MOST;
        assert_int_equal(curve_delay(&huge[i], UINT32_MAX, &rng).ms, SPAN_MAX_MS);
    }
    struct rng rng = CHANCE_MOST;
    struct curve just_below = {CURVE_POWER, {SPAN_MAX_MS - 1001}, 1.0, {0}};
    assert_int_equal(curve_delay(&just_below, 1, &rng).ms, SPAN_MAX_MS - 1);
    assert_int_equal(curve_delay(&just_below, 2, &rng).ms, SPAN_MAX_MS);
}

static void one_draw_is_made_whatever_the_outcome(void **state)
{
    (void)state;
    const struct curve curves[] = {
        curve_default(), {CURVE_POWER, {0}, 0.0, {0}}, {CURVE_POWER, {SPAN_MAX_MS}, 100.0, {1}}};
    for (size_t i = 0; i < COUNT(curves); i++) {
        struct rng used = rng_from_seed(5), once = rng_from_seed(5);
        curve_delay(&curves[i], 9, &used);
        rng_next(&once);
        assert_memory_equal(&used, &once, sizeof used);
    }
}

static void the_range_holds_every_draw(void **state)
{
    (void)state;
    struct curve curves[] = {curve_default(),
                             {CURVE_EXPONENTIAL, {1000}, 3, {0}, {5000}},
                             {CURVE_FULL_JITTER, {1000}, 3, {0}, {5000}}};
    struct rng rng = rng_from_seed(7);
    for (size_t i = 0; i < COUNT(curves); i++)
        for (uint32_t n = 1; n <= RETRIES; n++) {
            span least, most;
            curve_range(&curves[i], n, &least, &most);
            int64_t drawn = curve_delay(&curves[i], n, &rng).ms;
            assert_in_range(drawn, least.ms, most.ms);
            assert_true((least.ms == most.ms) == !curve_is_random(&curves[i]));
        }
}

static void jitter_is_added_to_an_exponential_delay_beyond_its_maximum(void **state)
{
    (void)state;
    struct curve c = {CURVE_EXPONENTIAL, {1000}, 2.0, {500}, {3000}};
    const int64_t least[] = {1000, 2000, 3000, 3000};
    for (uint32_t n = 1; n <= 4; n++) {
        struct rng none = CHANCE_NONE, half = CHANCE_HALF;
        assert_int_equal(curve_delay(&c, n, &none).ms, least[n - 1]);
        assert_int_equal(curve_delay(&c, n, &half).ms, least[n - 1] + 250);
    }
    c.base = (span){0};
    struct rng half = CHANCE_HALF;
    assert_int_equal(curve_delay(&c, 1, &half).ms, 250);
}

static void full_jitter_draws_any_part_of_the_delay(void **state)
{
    (void)state;
    struct curve c = {CURVE_FULL_JITTER, {1000}, 2.0, {0}, {3000}};
    const int64_t whole[] = {1000, 2000, 3000, 3000};
    for (uint32_t n = 1; n <= 4; n++) {
        struct rng none = CHANCE_NONE, half = CHANCE_HALF, most = CHANCE_MOST;
        assert_int_equal(curve_delay(&c, n, &none).ms, 1); /* not at once */
        assert_int_equal(curve_delay(&c, n, &half).ms, whole[n - 1] / 2 + 1);
        assert_int_equal(curve_delay(&c, n, &most).ms, whole[n - 1]);
    }
    assert_true(curve_is_random(&c));
}

static void full_jitter_of_no_delay_is_none(void **state)
{
    (void)state;
    struct curve c = {CURVE_FULL_JITTER, {0}, 2.0, {0}, {3000}};
    struct rng rng = rng_from_seed(1);
    assert_int_equal(curve_delay(&c, 5, &rng).ms, 0);
    assert_false(curve_is_random(&c));
}

static void full_jitter_is_spread_evenly(void **state)
{
    (void)state;
    struct curve c = {CURVE_FULL_JITTER, {30000}, 2.0, {0}, {600000}};
    struct rng rng = rng_from_seed(7);
    int quarters[4] = {0};
    for (int i = 0; i < 4000; i++)
        quarters[(curve_delay(&c, 1, &rng).ms - 1) / 7500]++;
    for (int i = 0; i < 4; i++)
        assert_in_range(quarters[i], 900, 1100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_range_holds_every_draw),
        cmocka_unit_test(chance_is_what_it_is_set_to),
        cmocka_unit_test(the_default_allows_25_retries),
        cmocka_unit_test(the_default_schedule_without_jitter_is_pinned),
        cmocka_unit_test(the_default_schedule_with_half_the_jitter_is_pinned),
        cmocka_unit_test(the_default_schedule_with_the_most_jitter_is_pinned),
        cmocka_unit_test(the_default_window_is_24_to_26_days_whatever_the_chance),
        cmocka_unit_test(jitter_differs_from_job_to_job),
        cmocka_unit_test(exponent_0_grows_by_nothing_but_a_second),
        cmocka_unit_test(a_broken_exponent_is_meant_as_it_stands),
        cmocka_unit_test(a_curve_of_zeros_still_counts_seconds),
        cmocka_unit_test(huge_curves_are_capped_and_do_not_overflow),
        cmocka_unit_test(one_draw_is_made_whatever_the_outcome),
        cmocka_unit_test(jitter_is_added_to_an_exponential_delay_beyond_its_maximum),
        cmocka_unit_test(full_jitter_draws_any_part_of_the_delay),
        cmocka_unit_test(full_jitter_of_no_delay_is_none),
        cmocka_unit_test(full_jitter_is_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
