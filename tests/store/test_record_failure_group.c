/* SPDX-License-Identifier: Apache-2.0 */

/* Records of groups of failures: what is written is read back, and nothing else. */

#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/records.h"

#define KEY    UINT64_C(0x0123456789abcdef)
#define MINUTE INT64_C(28333333)
#define PAST   INT64_C(472222)

static struct failure_group full(void)
{
    struct failure_group g = {
        .fingerprint = KEY,
        .queue = STR("q"),
        .type = STR("t"),
        .error_type = STR("E"),
        .category = STR("c"),
        .message = STR("m <n>"),
        .outcome = OUTCOME_EXPIRED,
        .condition = CONDITION_OOM_KILLED,
        .exit_code = 137,
        .signal = 9,
        .first_seen = {1700000000000},
        .last_seen = {1700000000001},
        .count = 300,
        .culprits = {[CULPRIT_JOB] = 1, [CULPRIT_SERVER] = 299},
        .minutes.newest = MINUTE,
        .hours.newest = PAST,
        .samples = {{{1, 2}, 3, {1700000000000}}},
        .sample_count = 1,
    };
    g.minutes.at[MINUTE % FAILURE_GROUP_MINUTES] = 1;
    g.minutes.at[(MINUTE - 59) % FAILURE_GROUP_MINUTES] = 2;
    g.hours.at[(PAST - 5) % FAILURE_GROUP_HOURS] = 300;
    return g;
}

static struct str put(struct batch *b, const struct failure_group *g)
{
    struct record_key key = record_failure_group_key(g->fingerprint);
    record_put_failure_group(b, g);
    return batch_find(b, record_key_view(&key))->value;
}

static void a_group_is_read_back(void **state)
{
    struct failure_group g = full(), back;
    assert_ok(record_read_failure_group(put(*state, &g), KEY, &back));
    assert_true(back.fingerprint == KEY);
    assert_str(back.queue, "q");
    assert_str(back.type, "t");
    assert_str(back.error_type, "E");
    assert_str(back.category, "c");
    assert_str(back.message, "m <n>");
    assert_int_equal(back.outcome, OUTCOME_EXPIRED);
    assert_int_equal(back.condition, CONDITION_OOM_KILLED);
    assert_int_equal(back.exit_code, 137);
    assert_int_equal(back.signal, 9);
    assert_int_equal(back.first_seen.ms, g.first_seen.ms);
    assert_int_equal(back.last_seen.ms, g.last_seen.ms);
    assert_int_equal(back.count, 300);
    assert_memory_equal(back.culprits, g.culprits, sizeof g.culprits);
    assert_memory_equal(&back.minutes, &g.minutes, sizeof g.minutes);
    assert_memory_equal(&back.hours, &g.hours, sizeof g.hours);
    assert_int_equal(back.sample_count, 1);
    assert_true(id_eq(back.samples[0].job, (struct id){1, 2}));
    assert_int_equal(back.samples[0].run, 3);
    assert_int_equal(back.samples[0].at.ms, 1700000000000);
}

static void its_bytes_are_pinned(void **state)
{
    struct failure_group g = full();
    assert_hex(put(*state, &g),
               "020171017401450163056d203c6e3e030192021281d095ffbc3182d095ffbc31ac02"
               "95aac10d01013c02009ee91c06ac0200010000000000000001000000000000000203"
               "81d095ffbc31020aab020101");
    const struct batch *b = *state;
    assert_hex(b->ops[0].key, "590123456789abcdef");
}

static void one_of_version_1_has_no_culprits(void **state)
{
    struct failure_group g = full(), back;
    memset(g.culprits, 0, sizeof g.culprits);
    struct str value = put(*state, &g);
    char bytes[256];
    assert_true(value.len <= sizeof bytes);
    memcpy(bytes, value.at, value.len);
    bytes[0] = 1;
    assert_ok(record_read_failure_group((struct str){bytes, value.len - 1}, KEY, &back));
    assert_int_equal(back.count, 300);
    assert_memory_equal(back.culprits, g.culprits, sizeof g.culprits);
}

static void its_key_is_taken_apart_again(void **state)
{
    (void)state;
    struct record_key key = record_failure_group_key(KEY), none = record_failure_group_key(0);
    uint64_t f;
    assert_true(record_key_is_failure_group(record_key_view(&key), &f));
    assert_true(f == KEY);
    assert_false(record_key_is_failure_group(record_key_view(&none), &f));
    assert_false(record_key_is_failure_group(STR("Y"), &f));
    key = record_history_key(KEY);
    assert_false(record_key_is_failure_group(record_key_view(&key), &f));
}

static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct failure_group g = full(), back;
    struct str value = put(*state, &g);
    char bytes[256];
    assert_true(value.len < sizeof bytes);
    memcpy(bytes, value.at, value.len);
    for (size_t n = 0; n < value.len; n++)
        assert_code(record_read_failure_group((struct str){bytes, n}, KEY, &back), ERR_CORRUPT);
    assert_code(record_read_failure_group((struct str){bytes, value.len + 1}, KEY, &back),
                ERR_CORRUPT);
    bytes[0] = 3;
    assert_code(record_read_failure_group((struct str){bytes, value.len}, KEY, &back), ERR_VERSION);
}

#define RECORD(name) cmocka_unit_test_setup_teardown(name, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECORD(a_group_is_read_back),
        RECORD(its_bytes_are_pinned),
        RECORD(one_of_version_1_has_no_culprits),
        RECORD(its_key_is_taken_apart_again),
        RECORD(damage_is_corrupt_and_a_newer_version_is_told_apart),
    };
    return cmocka_run_group_tests_name("record_failure_group", tests, NULL, NULL);
}
