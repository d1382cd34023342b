/* SPDX-License-Identifier: Apache-2.0 */

/* Keys of records. */

#include "base/array.h"
#include "store/record.h"

#include "store/cm.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};

static void keys_have_the_bytes_of_the_header(void **state)
{
    (void)state;
    struct record_key k = record_job_key(ID);
    assert_hex(record_key_view(&k), "4a0123456789abcdeffedcba9876543210");
    k = record_payload_key(ID);
    assert_hex(record_key_view(&k), "500123456789abcdeffedcba9876543210");
    k = record_state_key(ID);
    assert_hex(record_key_view(&k), "530123456789abcdeffedcba9876543210");
    k = record_run_key(ID, 0x01020304);
    assert_hex(record_key_view(&k), "520123456789abcdeffedcba987654321001020304");
    k = record_takes_key(0x0102030405060708u);
    assert_hex(record_key_view(&k), "540102030405060708");
    k = record_meta_key(STR("format"));
    assert_str(record_key_view(&k), "Mformat");
}

static void keys_are_read_back(void **state)
{
    (void)state;
    struct id id = {0};
    uint32_t run = 0;
    uint64_t seq = 0;
    struct record_key k = record_job_key(ID);
    assert_true(record_key_is_job(record_key_view(&k), &id));
    assert_true(id_eq(id, ID));
    k = record_state_key(ID);
    id = (struct id){0};
    assert_true(record_key_is_state(record_key_view(&k), &id));
    assert_true(id_eq(id, ID));
    k = record_run_key(ID, 0xfffffffe);
    id = (struct id){0};
    assert_true(record_key_is_run(record_key_view(&k), &id, &run));
    assert_true(id_eq(id, ID));
    assert_int_equal(run, 0xfffffffe);
    k = record_takes_key(UINT64_MAX);
    assert_true(record_key_is_takes(record_key_view(&k), &seq));
    assert_true(seq == UINT64_MAX);
}

static void a_key_of_another_kind_or_length_is_refused(void **state)
{
    (void)state;
    struct id id;
    uint32_t run;
    uint64_t seq;
    struct record_key job = record_job_key(ID), runs = record_run_key(ID, 1);
    struct str j = record_key_view(&job), r = record_key_view(&runs);
    assert_false(record_key_is_state(j, &id));
    assert_false(record_key_is_run(j, &id, &run));
    assert_false(record_key_is_takes(j, &seq));
    assert_false(record_key_is_job(r, &id));
    assert_false(record_key_is_job((struct str){j.at, j.len - 1}, &id));
    assert_false(record_key_is_run((struct str){r.at, r.len - 1}, &id, &run));
    assert_false(record_key_is_job(STR(""), &id));
}

static void byte_order_of_keys_is_the_order_of_ids_and_runs(void **state)
{
    (void)state;
    const struct id ids[] = {{0, 0}, {0, 255}, {0, 256}, {1, 0}, {255, 9}, {256, 1}};
    for (size_t i = 1; i < COUNT(ids); i++) {
        struct record_key a = record_job_key(ids[i - 1]), b = record_job_key(ids[i]);
        assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
        a = record_run_key(ids[i - 1], 0xffff);
        b = record_run_key(ids[i], 0);
        assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    }
    struct record_key a = record_run_key(ID, 255), b = record_run_key(ID, 256);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_the_bytes_of_the_header),
        cmocka_unit_test(keys_are_read_back),
        cmocka_unit_test(a_key_of_another_kind_or_length_is_refused),
        cmocka_unit_test(byte_order_of_keys_is_the_order_of_ids_and_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
