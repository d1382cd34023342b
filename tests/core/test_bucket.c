/* SPDX-License-Identifier: Apache-2.0 */

/* Token buckets: exact over any steps, and whatever the clock does. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "core/bucket.h"

#define T0 ((instant){1700000000000})

static instant after(int64_t ms)
{
    return instant_add(T0, (span){ms});
}

/* Takes everything that is there at that time. */
static int64_t drain(struct bucket *b, const struct rate *r, instant now)
{
    int64_t n = 0;
    bucket_refill(b, r, now);
    for (; bucket_tokens(b, r) > 0; n++)
        bucket_take(b, r, 1);
    return n;
}

static void it_begins_full_and_gives_its_burst(void **state)
{
    (void)state;
    const struct rate r = {.count = 10, .burst = 25, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    assert_int_equal(drain(&b, &r, T0), 25);
    assert_int_equal(drain(&b, &r, T0), 0);
}

static void tokens_come_back_evenly(void **state)
{
    (void)state;
    const struct rate r = {.count = 10, .burst = 25, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    drain(&b, &r, T0);
    assert_int_equal(bucket_next(&b, &r, 1).ms, after(100).ms);
    assert_int_equal(drain(&b, &r, after(99)), 0);
    assert_int_equal(drain(&b, &r, after(100)), 1);
    assert_int_equal(drain(&b, &r, after(1000)), 9);
    assert_int_equal(drain(&b, &r, after(1000000)), 25);
}

/* 7 in 1000 ms is one every 142.86 ms: rounding must neither gain nor lose over a long time. */
static void a_rate_that_does_not_divide_is_met_exactly(void **state)
{
    (void)state;
    const struct rate r = {.count = 7, .burst = 1, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    struct rng rng = rng_from_seed(1);
    int64_t got = drain(&b, &r, T0), ms = 0;
    while (ms < 10000000) {
        instant next = bucket_next(&b, &r, 1);
        assert_true(next.ms > b.at.ms);
        ms = next.ms - T0.ms;
        struct bucket early = b;
        assert_int_equal(drain(&early, &r, (instant){next.ms - 1}), 0);
        if (rng_next(&rng) & 1) /* reading in between changes nothing */
            bucket_refill(&b, &r, (instant){b.at.ms + (next.ms - b.at.ms) / 2});
        assert_int_equal(drain(&b, &r, next), 1);
        got++;
    }
    /* The burst of 1 discards what exceeds it: less than a millisecond's worth each time. */
    assert_in_range(got, 69900, 70001);
}

static void many_tokens_a_millisecond_come_as_many(void **state)
{
    (void)state;
    const struct rate r = {.count = 1000000, .burst = 1000000, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    assert_int_equal(drain(&b, &r, T0), 1000000);
    assert_int_equal(bucket_next(&b, &r, 1).ms, after(1).ms);
    assert_int_equal(drain(&b, &r, after(1)), 1000);
}

static void a_clock_that_jumps_ahead_fills_it_and_no_more(void **state)
{
    (void)state;
    const struct rate r = {.count = 1000000, .burst = 1000000, .per = RATE_PER_MAX};
    struct bucket b = bucket_full(&r, T0);
    drain(&b, &r, T0);
    assert_int_equal(drain(&b, &r, (instant){INSTANT_MAX_MS}), 1000000);
}

static void a_clock_that_goes_back_neither_gives_nor_stalls(void **state)
{
    (void)state;
    const struct rate r = {.count = 10, .burst = 10, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    drain(&b, &r, T0);
    assert_int_equal(drain(&b, &r, after(-3600000)), 0);
    assert_int_equal(bucket_next(&b, &r, 1).ms, after(-3600000 + 100).ms);
    assert_int_equal(drain(&b, &r, after(-3600000 + 200)), 2);
    /* The same found at a restart. */
    struct bucket stored = {.level = 500, .at = after(1000)};
    bucket_repair(&stored, &r, T0);
    assert_int_equal(stored.at.ms, T0.ms);
    assert_int_equal(bucket_next(&stored, &r, 1).ms, after(50).ms);
}

static void another_rate_keeps_the_level(void **state)
{
    (void)state;
    const struct rate slow = {.count = 10, .burst = 10, .per = {1000}};
    const struct rate fast = {.count = 100, .burst = 100, .per = {500}};
    const struct rate small = {.count = 1, .burst = 2, .per = {60000}};
    struct bucket b = bucket_full(&slow, T0);
    drain(&b, &slow, T0);
    bucket_change(&b, &slow, &fast, after(450)); /* four tokens and a half have come in */
    assert_int_equal(bucket_tokens(&b, &fast), 4);
    assert_int_equal(b.level % fast.per.ms, fast.per.ms / 2);
    bucket_change(&b, &fast, &small, after(450));
    assert_int_equal(bucket_tokens(&b, &small), 2); /* its burst */
    const struct rate none = {0};
    bucket_change(&b, &small, &none, after(450));
    bucket_change(&b, &none, &small, after(450));
    assert_int_equal(bucket_tokens(&b, &small), 2);
}

static void several_tokens_come_when_the_last_of_them_does(void **state)
{
    (void)state;
    const struct rate r = {.count = 10, .burst = 20, .per = {1000}};
    struct bucket b = bucket_full(&r, T0);
    bucket_take(&b, &r, 17);
    assert_int_equal(bucket_tokens(&b, &r), 3);
    assert_int_equal(bucket_next(&b, &r, 3).ms, T0.ms);
    assert_int_equal(bucket_next(&b, &r, 20).ms, after(1700).ms);
    bucket_refill(&b, &r, after(1700));
    bucket_take(&b, &r, 20);
    assert_int_equal(bucket_tokens(&b, &r), 0);
}

static void the_largest_rate_does_not_overflow(void **state)
{
    (void)state;
    const struct rate r = {.count = 1, .burst = INT32_MAX, .per = RATE_PER_MAX};
    struct bucket b = bucket_full(&r, T0);
    assert_int_equal(bucket_tokens(&b, &r), INT32_MAX);
    bucket_take(&b, &r, INT32_MAX);
    assert_int_equal(bucket_next(&b, &r, INT32_MAX).ms, T0.ms + INT32_MAX * RATE_PER_MAX.ms);
    const struct rate fast = {.count = INT32_MAX, .burst = INT32_MAX, .per = RATE_PER_MAX};
    bucket_change(&b, &r, &fast, after(1));
    bucket_refill(&b, &fast, after(RATE_PER_MAX.ms + 1));
    assert_int_equal(bucket_tokens(&b, &fast), INT32_MAX);
}

/* No window of `per` sees more than count + burst, whatever is requested when. */
static void no_span_sees_more_than_it_may(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(2);
    for (int round = 0; round < 200; round++) {
        const struct rate r = {.count = (uint32_t)(1 + rng_next(&rng) % 20),
                               .burst = (uint32_t)(1 + rng_next(&rng) % 20),
                               .per = {1 + (int64_t)(rng_next(&rng) % 300)}};
        struct bucket b = bucket_full(&r, T0);
        int64_t taken[1000], ms = 0;
        for (int i = 0; i < 1000; i++) {
            ms += (int64_t)(rng_next(&rng) % 4);
            taken[i] = ms;
            bucket_refill(&b, &r, after(ms));
            if (bucket_tokens(&b, &r) > 0)
                bucket_take(&b, &r, 1);
            else
                taken[i] = -1;
        }
        for (int i = 0; i < 1000; i++) {
            int64_t n = 0;
            for (int k = i; taken[i] >= 0 && k < 1000; k++)
                n += taken[k] >= 0 && taken[k] < taken[i] + r.per.ms;
            assert_true(n <= r.count + r.burst);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_full_and_gives_its_burst),
        cmocka_unit_test(tokens_come_back_evenly),
        cmocka_unit_test(a_rate_that_does_not_divide_is_met_exactly),
        cmocka_unit_test(many_tokens_a_millisecond_come_as_many),
        cmocka_unit_test(a_clock_that_jumps_ahead_fills_it_and_no_more),
        cmocka_unit_test(a_clock_that_goes_back_neither_gives_nor_stalls),
        cmocka_unit_test(another_rate_keeps_the_level),
        cmocka_unit_test(several_tokens_come_when_the_last_of_them_does),
        cmocka_unit_test(the_largest_rate_does_not_overflow),
        cmocka_unit_test(no_span_sees_more_than_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
