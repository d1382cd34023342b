/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "access/nonces.h"
#include "base/rng.h"

#define NOW  INT64_C(1700000000)
#define WIDE ((span){60 * 1000})

static instant at(int64_t seconds)
{
    return (instant){seconds * 1000};
}

static enum nonces_verdict see(struct nonces *n, int number, int64_t seconds, int64_t now)
{
    char text[32];
    int len = snprintf(text, sizeof text, "n%d", number);
    return nonces_see(n, STR("id"), (struct str){text, (size_t)len}, seconds, at(now));
}

static void a_nonce_is_new_once(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    assert_int_equal(see(n, 1, NOW, NOW), NONCES_NEW);
    assert_int_equal(see(n, 1, NOW, NOW), NONCES_SEEN);
    assert_int_equal(see(n, 2, NOW, NOW), NONCES_NEW);
    assert_int_equal(see(n, 1, NOW + 1, NOW), NONCES_NEW); /* signed at another time */
    assert_int_equal(nonces_see(n, STR("i"), STR("dn1"), NOW, at(NOW)), NONCES_NEW);
    assert_int_equal(nonces_see(n, STR("other"), STR("n1"), NOW, at(NOW)), NONCES_NEW);
    assert_int_equal(nonces_count(n), 5);
    nonces_free(n);
}

static void the_window_is_closed_at_both_ends(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    assert_int_equal(see(n, 1, NOW - 60, NOW), NONCES_NEW);
    assert_int_equal(see(n, 1, NOW - 61, NOW), NONCES_STALE);
    assert_int_equal(see(n, 1, NOW + 60, NOW), NONCES_NEW);
    assert_int_equal(see(n, 1, NOW + 61, NOW), NONCES_STALE);
    assert_false(nonces_in_window(n, NOW + 61, at(NOW)));
    assert_int_equal(see(n, 1, INT64_C(999999999999999), NOW), NONCES_STALE);
    assert_int_equal(see(n, 1, 0, NOW), NONCES_STALE);
    nonces_free(n);
}

static void a_replay_is_refused_as_long_as_its_time_is_right(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    assert_int_equal(see(n, 1, NOW + 60, NOW), NONCES_NEW);
    for (int64_t now = NOW; now <= NOW + 120; now++)
        assert_int_equal(see(n, 1, NOW + 60, now), NONCES_SEEN);
    assert_int_equal(see(n, 1, NOW + 60, NOW + 121), NONCES_STALE);
    assert_int_equal(see(n, 2, NOW + 122, NOW + 122), NONCES_NEW);
    assert_int_equal(nonces_count(n), 1);
    nonces_free(n);
}

static void when_memory_is_short_the_window_begins_later(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(see(n, i, NOW - 50 + i / 4, NOW), NONCES_NEW);
    assert_int_equal(see(n, 100, NOW, NOW), NONCES_NEW);
    assert_int_equal(see(n, 0, NOW - 50, NOW), NONCES_STALE); /* forgotten, and not accepted */
    assert_int_equal(see(n, 4, NOW - 49, NOW), NONCES_SEEN);
    assert_int_equal(see(n, 200, NOW - 50, NOW), NONCES_STALE);
    assert_true(nonces_count(n) <= 100);
    nonces_free(n);
}

static void a_right_clock_is_not_stale_for_want_of_memory(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(see(n, i, NOW - 9, NOW), NONCES_NEW);
    assert_int_equal(see(n, 100, NOW, NOW), NONCES_FULL);
    assert_int_equal(see(n, 100, NOW, NOW + 1), NONCES_FULL);
    assert_int_equal(see(n, 100, NOW, NOW + 2), NONCES_NEW);
    assert_int_equal(nonces_count(n), 1);
    nonces_free(n);
}

static void the_future_gets_half_of_the_memory(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    int taken = 0;
    while (see(n, taken, NOW + 60, NOW) == NONCES_NEW)
        taken++;
    assert_int_equal(taken, 51);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(see(n, i, NOW + i, NOW + i), NONCES_NEW);
    nonces_free(n);
}

static void a_clock_that_is_set_back_locks_nobody_out(void **state)
{
    (void)state;
    struct nonces *n = nonces_new(WIDE, 100, 1);
    assert_int_equal(see(n, 1, NOW + 86400, NOW + 86400), NONCES_NEW);
    assert_int_equal(see(n, 2, NOW, NOW), NONCES_NEW);
    assert_int_equal(see(n, 2, NOW, NOW), NONCES_SEEN);
    assert_int_equal(see(n, 2, NOW - 11, NOW), NONCES_STALE);
    assert_int_equal(see(n, 3, NOW, NOW + 60), NONCES_NEW);
    nonces_free(n);
}

/* Against a list of everything that was ever accepted. */
static void nothing_is_accepted_twice_whatever_comes(void **state)
{
    (void)state;
    static struct {
        int number;
        int64_t seconds;
    } accepted[200000];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct rng rng = rng_from_seed(seed);
        struct nonces *n = nonces_new((span){20 * 1000}, 300, seed);
        size_t count = 0, seen = 0, stale = 0;
        int64_t now = NOW;
        for (int i = 0; i < 20000; i++) {
            now += rng_below(&rng, 20) == 0;
            int number = (int)rng_below(&rng, 30);
            int64_t seconds = now - 22 + (int64_t)rng_below(&rng, 45);
            enum nonces_verdict v = see(n, number, seconds, now);
            seen += v == NONCES_SEEN;
            stale += v == NONCES_STALE;
            assert_true(nonces_count(n) <= 300);
            if (v != NONCES_NEW)
                continue;
            for (size_t j = count > 2000 ? count - 2000 : 0; j < count; j++)
                assert_false(accepted[j].number == number && accepted[j].seconds == seconds);
            accepted[count].number = number;
            accepted[count++].seconds = seconds;
        }
        assert_true(count > 1000 && seen > 1000 && stale > 1000);
        nonces_free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nonce_is_new_once),
        cmocka_unit_test(the_window_is_closed_at_both_ends),
        cmocka_unit_test(a_replay_is_refused_as_long_as_its_time_is_right),
        cmocka_unit_test(when_memory_is_short_the_window_begins_later),
        cmocka_unit_test(a_right_clock_is_not_stale_for_want_of_memory),
        cmocka_unit_test(the_future_gets_half_of_the_memory),
        cmocka_unit_test(a_clock_that_is_set_back_locks_nobody_out),
        cmocka_unit_test(nothing_is_accepted_twice_whatever_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
