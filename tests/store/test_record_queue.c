/* SPDX-License-Identifier: Apache-2.0 */

/* Records of queues and budgets: what is written is read back, and nothing else. */

#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/records.h"

static const struct queue_record full = {
    .settings =
        {.paused = true,
         .concurrency = 300,
         .concurrency_per_key = 2,
         .rate = {.count = 100, .burst = 20, .per = {1000}},
         .retry_limit = 3,
         .backoff = {.shape = CURVE_POWER, .base = {15000}, .exponent = 4.0, .jitter = {30000}},
         .completed_retention = {0},
         .dead_retention = {5},
         .when_no_policy = RETRY_FALLBACK_FAIL,
         .max_run = {300}},
    .bucket = {.level = 19500, .at = {1700000000000}},
};

static struct str put(struct batch *b, const struct queue_record *q)
{
    char room[RECORD_QUEUE_KEY_MAX];
    record_put_queue(b, STR("q"), q);
    const struct batch_op *op = batch_find(b, record_queue_key(STR("q"), room));
    assert_non_null(op);
    return op->value;
}

static void assert_same(const struct queue_record *a, const struct queue_record *b)
{
    const struct queue_settings *x = &a->settings, *y = &b->settings;
    assert_int_equal(x->paused, y->paused);
    assert_int_equal(x->concurrency, y->concurrency);
    assert_int_equal(x->concurrency_per_key, y->concurrency_per_key);
    assert_true(rate_eq(&x->rate, &y->rate));
    assert_int_equal(a->bucket.level, b->bucket.level);
    assert_int_equal(a->bucket.at.ms, b->bucket.at.ms);
    assert_int_equal(x->retry_limit, y->retry_limit);
    assert_int_equal(x->backoff.shape, y->backoff.shape);
    assert_int_equal(x->backoff.base.ms, y->backoff.base.ms);
    assert_true(x->backoff.exponent == y->backoff.exponent);
    assert_int_equal(x->backoff.jitter.ms, y->backoff.jitter.ms);
    assert_int_equal(x->completed_retention.ms, y->completed_retention.ms);
    assert_int_equal(x->dead_retention.ms, y->dead_retention.ms);
    assert_int_equal(x->when_no_policy, y->when_no_policy);
    assert_int_equal(x->max_run.ms, y->max_run.ms);
}

static void every_setting_is_read_back(void **state)
{
    struct queue_record back;
    assert_int_equal(record_read_queue(put(*state, &full), &back).code, ERR_OK);
    assert_same(&full, &back);
}

static void the_defaults_are_read_back(void **state)
{
    const struct queue_record none = {.settings = QUEUE_SETTINGS_DEFAULT};
    struct queue_record back;
    assert_int_equal(record_read_queue(put(*state, &none), &back).code, ERR_OK);
    assert_same(&none, &back);
}

static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct str value = put(*state, &full);
    struct queue_record back;
    char bytes[128];
    assert_true(value.len < sizeof bytes);
    memcpy(bytes, value.at, value.len);
    for (size_t n = 0; n < value.len; n++)
        assert_int_equal(record_read_queue((struct str){bytes, n}, &back).code, ERR_CORRUPT);
    bytes[value.len] = 0;
    assert_int_equal(record_read_queue((struct str){bytes, value.len + 1}, &back).code,
                     ERR_CORRUPT);
    bytes[1] = 2; /* neither paused nor not */
    assert_int_equal(record_read_queue((struct str){bytes, value.len}, &back).code, ERR_CORRUPT);
    bytes[0] = 4;
    assert_int_equal(record_read_queue((struct str){bytes, value.len}, &back).code, ERR_VERSION);
}

static void a_rate_without_time_is_corrupt(void **state)
{
    struct queue_record bad = full, back;
    bad.settings.rate.per.ms = 0;
    assert_int_equal(record_read_queue(put(*state, &bad), &back).code, ERR_CORRUPT);
}

static void version_1_is_read_still(void **state)
{
    (void)state;
    char room[128];
    struct queue_record back, then = full;
    then.settings.when_no_policy = RETRY_FALLBACK_UNSET;
    then.settings.max_run = (span){0};
    struct str value =
        records_from_hex("0101ac02026414e807ac980181d095ffbc310401b0ea01000000000000104"
                         "0e0d4030106",
                         room);
    assert_int_equal(record_read_queue(value, &back).code, ERR_OK);
    assert_same(&then, &back);
}

static void version_2_is_read_still(void **state)
{
    (void)state;
    char room[128];
    struct queue_record back, then = full;
    then.settings.max_run = (span){0};
    struct str value =
        records_from_hex("0201ac02026414e807ac980181d095ffbc310401b0ea01000000000000104"
                         "0e0d403010602",
                         room);
    assert_int_equal(record_read_queue(value, &back).code, ERR_OK);
    assert_same(&then, &back);
}

static void version_3_has_these_bytes(void **state)
{
    struct str value = put(*state, &full);
    char hex[256];
    assert_true(value.len * 2 < sizeof hex);
    for (size_t i = 0; i < value.len; i++)
        snprintf(hex + i * 2, 3, "%02x", (unsigned char)value.at[i]);
    assert_string_equal(hex, "0301ac0202"
                             "6414e807"
                             "ac9801"
                             "81d095ffbc31"
                             "0401b0ea010000000000001040e0d403"
                             "010602ac02");
}

/* --- budgets --- */

static const struct budget timed = {
    .key = STR("mail"),
    .policy = {1000, BUDGET_TIME_BASED, {60000}, 2147483647},
    .created_at = {1700000000000},
    .updated_at = {1700000000001},
};

static struct str put_budget(struct batch *b, const struct budget *budget)
{
    char room[RECORD_BUDGET_KEY_MAX];
    record_put_budget(b, budget);
    struct str key = record_budget_key(budget->key, room), name;
    assert_true(record_key_is_budget(key, &name) && str_eq(name, budget->key));
    const struct batch_op *op = batch_find(b, key);
    assert_non_null(op);
    return op->value;
}

static void a_budget_is_read_back(void **state)
{
    const struct budget flying = {
        .key = STR("x"), .policy = {.allocation = 1}, .created_at = {5}, .updated_at = {6}};
    const struct budget *all[] = {&timed, &flying};
    for (size_t i = 0; i < 2; i++) {
        struct budget back;
        struct str value = put_budget(*state, all[i]);
        assert_int_equal(record_read_budget(value, all[i]->key, &back).code, ERR_OK);
        assert_true(str_eq(back.key, all[i]->key));
        assert_true(budgets_policy_eq(&back.policy, &all[i]->policy));
        assert_int_equal(back.created_at.ms, all[i]->created_at.ms);
        assert_int_equal(back.updated_at.ms, all[i]->updated_at.ms);
    }
}

static void a_budget_has_these_bytes_and_no_others(void **state)
{
    struct str value = put_budget(*state, &timed);
    char room[64], cut[64];
    struct budget back;
    struct str bytes = records_from_hex("01e80701e0d403ffffffff0781d095ffbc3182d095ffbc31", room);
    assert_true(str_eq(value, bytes));
    for (size_t n = 0; n < value.len; n++)
        assert_int_equal(record_read_budget((struct str){room, n}, STR("k"), &back).code,
                         ERR_CORRUPT);
    memcpy(cut, room, value.len);
    cut[3] = 0; /* a while-in-flight budget with a duration */
    assert_int_equal(record_read_budget((struct str){cut, value.len}, STR("k"), &back).code,
                     ERR_CORRUPT);
    cut[0] = 2;
    assert_int_equal(record_read_budget((struct str){cut, value.len}, STR("k"), &back).code,
                     ERR_VERSION);
}

static void a_key_has_the_name_of_its_queue(void **state)
{
    (void)state;
    char room[RECORD_QUEUE_KEY_MAX];
    struct str key = record_queue_key(STR("mail"), room), name;
    assert_true(str_eq(key, STR("Qmail")));
    assert_true(record_key_is_queue(key, &name) && str_eq(name, STR("mail")));
    assert_false(record_key_is_queue(STR("Q"), &name));
    assert_false(record_key_is_queue(STR("Dqmail"), &name));
}

#define T(test) cmocka_unit_test_setup_teardown(test, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_setting_is_read_back),
        T(the_defaults_are_read_back),
        T(damage_is_corrupt_and_a_newer_version_is_told_apart),
        T(a_rate_without_time_is_corrupt),
        T(version_1_is_read_still),
        T(version_2_is_read_still),
        T(version_3_has_these_bytes),
        T(a_budget_is_read_back),
        T(a_budget_has_these_bytes_and_no_others),
        T(a_key_has_the_name_of_its_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
