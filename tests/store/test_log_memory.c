/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_memory.h"

#include "store/cm.h"
#include "store/log_contract.h"

#define SMALL ((size_t)100)

static void *make(void)
{
    return log_memory_new();
}

static struct err open_it(void *state, uint64_t from, struct log **out)
{
    return log_memory_open(state, from, out);
}

static void unmake(void *state)
{
    log_memory_free(state);
}

static uint64_t append(struct log *l, uint64_t n, bool sync)
{
    struct buf b = {0};
    uint64_t number;
    log_batch(n, SMALL, &b);
    assert_ok(log_append(l, buf_view(&b), sync, &number));
    assert_int_equal(number, n);
    buf_fini(&b);
    return number;
}

static void expect_after(struct log_memory *m, uint64_t last)
{
    struct log *l;
    assert_ok(log_memory_open(m, 1, &l));
    assert_int_equal(log_durable(l), last);
    log_batch_expect(l, 1, SMALL);
    log_close(l);
}

static void held_appends_are_durable_when_somebody_waits(void **state)
{
    struct log_memory *m = log_memory_new();
    struct log *l;
    (void)state;
    assert_ok(log_memory_open(m, 1, &l));
    log_memory_set_faults(m, (struct log_memory_faults){.hold = true});
    append(l, 1, true);
    append(l, 2, true);
    assert_int_equal(log_durable(l), 0);
    assert_ok(log_wait(l, 1));
    append(l, 3, true);
    log_memory_settle(m);
    assert_int_equal(log_durable(l), 3);
    log_close(l);
    expect_after(m, 3);
    log_memory_free(m);
}

static void a_crash_keeps_a_prefix_of_what_is_under_way(void **state)
{
    (void)state;
    for (uint64_t keep = 0; keep <= 4; keep++) {
        struct log_memory *m = log_memory_new();
        struct log *l;
        assert_ok(log_memory_open(m, 1, &l));
        append(l, 1, true);
        log_memory_set_faults(m, (struct log_memory_faults){.hold = true});
        for (uint64_t n = 2; n <= 4; n++)
            append(l, n, true);
        log_memory_crash(m, keep, false);
        expect_after(m, keep < 3 ? 1 + keep : 4);
        log_memory_free(m);
    }
}

static void a_power_cut_loses_what_was_not_synced(void **state)
{
    struct log_memory *m = log_memory_new();
    struct log *l;
    (void)state;
    assert_ok(log_memory_open(m, 1, &l));
    append(l, 1, false);
    append(l, 2, true);
    append(l, 3, false);
    append(l, 4, false);
    log_memory_crash(m, 9, true);
    expect_after(m, 2);
    log_memory_free(m);
}

static void a_failed_append_fails_all_after_it_until_an_opening(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        struct log_memory *m = log_memory_new();
        struct log *l;
        assert_ok(log_memory_open(m, 1, &l));
        append(l, 1, true);
        log_memory_set_faults(
            m, (struct log_memory_faults){.fail = ERR_IO, .fail_but_keep = kept != 0});
        append(l, 2, true);
        assert_code(log_wait(l, 2), ERR_IO);
        uint64_t number;
        assert_code(log_append(l, STR("x"), true, &number), ERR_IO);
        assert_int_equal(log_durable(l), 1);
        log_close(l);
        expect_after(m, kept ? 2 : 1);
        log_memory_free(m);
    }
}

static void a_refused_append_uses_no_number(void **state)
{
    struct log_memory *m = log_memory_new();
    struct log *l;
    uint64_t number;
    (void)state;
    assert_ok(log_memory_open(m, 1, &l));
    log_memory_set_faults(m, (struct log_memory_faults){.refuse = ERR_DISK_FULL});
    assert_code(log_append(l, STR("x"), true, &number), ERR_DISK_FULL);
    append(l, 1, true);
    assert_ok(log_wait(l, 1));
    log_close(l);
    log_memory_free(m);
}

int main(void)
{
    const struct log_kind kind = {"log_memory", make, open_it, unmake};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_appends_are_durable_when_somebody_waits),
        cmocka_unit_test(a_crash_keeps_a_prefix_of_what_is_under_way),
        cmocka_unit_test(a_power_cut_loses_what_was_not_synced),
        cmocka_unit_test(a_failed_append_fails_all_after_it_until_an_opening),
        cmocka_unit_test(a_refused_append_uses_no_number),
    };
    int failures = log_contract_run(&kind);
    return failures + cmocka_run_group_tests_name("log_memory_faults", tests, NULL, NULL);
}
