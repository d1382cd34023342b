/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_pace.h"

#include "cm.h"

#define MIB       ((uint64_t)1024 * 1024)
#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

static void the_rate_grows_as_compaction_falls_behind(void **state)
{
    (void)state;
    assert_int_equal(rocks_pace_rate(0, false, 50 * MIB), 48 * MIB);
    assert_int_equal(rocks_pace_rate(4, false, 50 * MIB), 48 * MIB);
    assert_int_equal(rocks_pace_rate(6, false, 50 * MIB), 96 * MIB);
    assert_int_equal(rocks_pace_rate(11, false, 50 * MIB), 384 * MIB);
}

static void there_is_no_rate_long_before_writes_are_slowed_down(void **state)
{
    (void)state;
    assert_int_equal(rocks_pace_rate(ROCKS_PACE_SLOWDOWN / 2, false, 50 * MIB), 0);
    assert_int_equal(rocks_pace_rate(ROCKS_PACE_STOP, false, 50 * MIB), 0);
    assert_int_equal(rocks_pace_rate(0, true, 50 * MIB), 0);
}

static void where_little_is_written_there_is_no_hurry(void **state)
{
    (void)state;
    assert_int_equal(rocks_pace_rate(ROCKS_PACE_SLOWDOWN / 2, false, MIB), 48 * MIB);
    assert_int_equal(rocks_pace_rate(11, false, 0), 48 * MIB);
    assert_int_equal(rocks_pace_rate(ROCKS_PACE_SLOWDOWN - 1, false, 0), 0);
    assert_int_equal(rocks_pace_rate(0, true, 0), 0);
}

/* Reads as fast as it may for a second; returns the bytes. */
static uint64_t second_at(uint64_t rate)
{
    struct rocks_pace_clock c = {0};
    mono now = {SECOND_NS}, end = {2 * SECOND_NS};
    uint64_t bytes = 0;
    while (now.ns < end.ns) {
        bytes += MIB;
        now.ns += 1000 + rocks_pace_spend(&c, MIB, rate, now).ns;
    }
    return bytes;
}

static void as_many_bytes_are_read_as_the_rate_says(void **state)
{
    (void)state;
    assert_in_range(second_at(48 * MIB), 46 * MIB, 53 * MIB);
    assert_in_range(second_at(384 * MIB), 370 * MIB, 420 * MIB);
}

static void without_a_rate_nobody_sleeps(void **state)
{
    (void)state;
    struct rocks_pace_clock c = {{5 * SECOND_NS}};
    assert_int_equal(rocks_pace_spend(&c, 1000 * MIB, 0, (mono){SECOND_NS}).ns, 0);
    assert_int_equal(c.due.ns, SECOND_NS);
}

static void a_sleep_is_short_whatever_is_due(void **state)
{
    (void)state;
    struct rocks_pace_clock c = {0};
    assert_in_range(rocks_pace_spend(&c, 1000 * MIB, MIB, (mono){SECOND_NS}).ns, 1, SECOND_NS / 50);
}

static void a_pause_is_not_caught_up_with(void **state)
{
    (void)state;
    struct rocks_pace_clock c = {0};
    rocks_pace_spend(&c, MIB, 48 * MIB, (mono){SECOND_NS});
    assert_int_equal(rocks_pace_spend(&c, MIB, 48 * MIB, (mono){3600 * SECOND_NS}).ns, 0);
    assert_in_range(rocks_pace_spend(&c, 8 * MIB, 48 * MIB, (mono){3600 * SECOND_NS}).ns, 1,
                    SECOND_NS / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_grows_as_compaction_falls_behind),
        cmocka_unit_test(there_is_no_rate_long_before_writes_are_slowed_down),
        cmocka_unit_test(where_little_is_written_there_is_no_hurry),
        cmocka_unit_test(as_many_bytes_are_read_as_the_rate_says),
        cmocka_unit_test(without_a_rate_nobody_sleeps),
        cmocka_unit_test(a_sleep_is_short_whatever_is_due),
        cmocka_unit_test(a_pause_is_not_caught_up_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
