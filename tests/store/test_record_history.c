/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/records.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};

static struct history_entry failed(void)
{
    return (struct history_entry){
        .job = {.id = ID,
                .queue = STR("mail"),
                .type = STR("send"),
                .retry_limit = 3,
                .backoff = {CURVE_POWER, {1000}, 2.0, {0}},
                .options =
                    {.retry_policies = STR("a,b"), .memory = 300, .when_no_policy = 2, .cpu = 500},
                .state.attempts = 2},
        .run = {.index = 4,
                .ended_at = {1700000000000},
                .outcome = OUTCOME_FAILED,
                .attempt = 2,
                .reason = STR("why"),
                .failure = {.message = STR("boom"),
                            .exit_code = 137,
                            .run_time = {-1},
                            .culprit = CULPRIT_UNKNOWN,
                            .culprit_evidence = STR("it was killed")}},
    };
}

static struct str put(struct batch *b, uint64_t number, const struct history_entry *h)
{
    struct record_key key = record_history_key(number);
    record_put_history(b, number, h);
    return batch_find(b, record_key_view(&key))->value;
}

#define FAILED_TO_MEMORY                                                                           \
    "000123456789abcdeffedcba9876543210046d61696c0473656e640281d095ffbc3104"                       \
    "01d00f000000000000004000"                                                                     \
    "03612c62ac02"
#define FAILED_FROM_RUN                                                                            \
    "040203776879"                                                                                 \
    "04626f6f6d000092020000000000000000000000"
#define CULPRIT "0c0d697420776173206b696c6c6564"

static void failures_of_older_versions_are_read_still(void **state)
{
    (void)state;
    static const char hex[] = "01" FAILED_TO_MEMORY FAILED_FROM_RUN;
    char room[sizeof hex / 2 + 4];
    struct arena a = {0};
    struct history_entry back;
    assert_ok(record_read_history(records_from_hex(hex, room), &a, &back));
    assert_int_equal(back.job.options.memory, 300);
    assert_int_equal(back.job.options.when_no_policy, 0);
    assert_int_equal(back.run.index, 4);
    assert_int_equal(back.run.failure.exit_code, 137);
    static const char second[] = "02" FAILED_TO_MEMORY "02" FAILED_FROM_RUN;
    assert_ok(record_read_history(records_from_hex(second, room), &a, &back));
    assert_int_equal(back.job.options.when_no_policy, 2);
    assert_int_equal(back.job.options.cpu, 0);
    static const char third[] = "03" FAILED_TO_MEMORY "02f403" FAILED_FROM_RUN;
    assert_ok(record_read_history(records_from_hex(third, room), &a, &back));
    assert_int_equal(back.job.options.cpu, 500);
    assert_int_equal(back.run.failure.culprit, CULPRIT_NONE);
    arena_fini(&a);
}

static void a_failure_has_these_bytes_and_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    struct arena a = {0};
    struct history_entry h = failed(), back;
    struct str value = put(&b, 0x0102, &h);
    assert_hex(value, "04" FAILED_TO_MEMORY "02f403" FAILED_FROM_RUN CULPRIT);
    assert_ok(record_read_history(value, &a, &back));
    assert_int_equal(back.job.options.when_no_policy, 2);
    assert_false(back.succeeded);
    assert_true(id_eq(back.job.id, ID));
    assert_str(back.job.queue, "mail");
    assert_str(back.job.type, "send");
    assert_int_equal(back.job.retry_limit, 3);
    assert_int_equal(back.job.backoff.base.ms, 1000);
    assert_str(back.job.options.retry_policies, "a,b");
    assert_int_equal(back.job.options.memory, 300);
    assert_int_equal(back.job.options.cpu, 500);
    assert_int_equal(back.job.state.attempts, 2);
    assert_int_equal(back.run.index, 4);
    assert_int_equal(back.run.attempt, 2);
    assert_int_equal(back.run.ended_at.ms, 1700000000000);
    assert_int_equal(back.run.outcome, OUTCOME_FAILED);
    assert_str(back.run.reason, "why");
    assert_str(back.run.failure.message, "boom");
    assert_int_equal(back.run.failure.exit_code, 137);
    assert_int_equal(back.run.failure.culprit, CULPRIT_UNKNOWN);
    assert_str(back.run.failure.culprit_evidence, "it was killed");
    arena_fini(&a);
    batch_fini(&b);
}

static void a_success_has_these_bytes_and_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    struct arena a = {0};
    struct history_entry h = failed(), back;
    h.succeeded = true;
    struct str value = put(&b, 1, &h);
    assert_hex(value, "04010123456789abcdeffedcba9876543210046d61696c0473656e640281d095ffbc31");
    assert_ok(record_read_history(value, &a, &back));
    assert_true(back.succeeded && id_eq(back.job.id, ID));
    assert_int_equal(back.job.state.attempts, 2);
    assert_int_equal(back.run.ended_at.ms, 1700000000000);
    arena_fini(&a);
    batch_fini(&b);
}

static void keys_are_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    uint64_t number = 0;
    struct record_key key = record_history_key(0x0102);
    assert_hex(record_key_view(&key), "460000000000000102");
    assert_true(record_key_is_history(record_key_view(&key), &number));
    assert_int_equal(number, 0x0102);
    key = record_takes_key(0x0102);
    assert_false(record_key_is_history(record_key_view(&key), &number));
}

static void assert_parts_are_corrupt(const struct history_entry *h)
{
    struct batch b = {0};
    struct arena a = {0};
    struct history_entry back;
    char bytes[200];
    struct str value = put(&b, 1, h);
    for (size_t len = 0; len < value.len; len++)
        assert_code(record_read_history((struct str){value.at, len}, &a, &back), ERR_CORRUPT);
    memcpy(bytes, value.at, value.len);
    bytes[value.len] = 0;
    assert_code(record_read_history((struct str){bytes, value.len + 1}, &a, &back), ERR_CORRUPT);
    bytes[0] = 5;
    assert_code(record_read_history((struct str){bytes, value.len}, &a, &back), ERR_VERSION);
    arena_fini(&a);
    batch_fini(&b);
}

static void what_is_no_entry_is_corrupt(void **state)
{
    (void)state;
    struct history_entry h = failed();
    assert_parts_are_corrupt(&h);
    h.succeeded = true;
    assert_parts_are_corrupt(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_of_older_versions_are_read_still),
        cmocka_unit_test(a_failure_has_these_bytes_and_is_read_back),
        cmocka_unit_test(a_success_has_these_bytes_and_is_read_back),
        cmocka_unit_test(keys_are_in_the_order_of_their_numbers),
        cmocka_unit_test(what_is_no_entry_is_corrupt),
    };
    return cmocka_run_group_tests_name("record_history", tests, NULL, NULL);
}
