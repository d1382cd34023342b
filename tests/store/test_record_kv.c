/* SPDX-License-Identifier: Apache-2.0 */

/* Records of the entries that front ends keep: what is written is read back, and nothing else. */

#include "store/record.h"

#include <string.h>

#include "store/records.h"

static const struct kv_entry full = {{"space", 5}, {"k\0y", 3}, {"a\0b", 3}, {1700000000000}, 300};

static struct str put(struct batch *b, const struct kv_entry *e)
{
    char room[RECORD_KV_KEY_MAX];
    record_put_kv(b, e);
    const struct batch_op *op = batch_find(b, record_kv_key(e->space, e->key, room));
    assert_non_null(op);
    return op->value;
}

static void an_entry_is_read_back(void **state)
{
    struct kv_entry back = {0}, plain = {{"s", 1}, {"k", 1}, {0}, {-1}, 1};
    assert_int_equal(record_read_kv(put(*state, &full), &back).code, ERR_OK);
    assert_true(str_eq(back.value, full.value));
    assert_int_equal(back.expires.ms, full.expires.ms);
    assert_int_equal(back.version, 300);
    assert_int_equal(record_read_kv(put(*state, &plain), &back).code, ERR_OK);
    assert_int_equal(back.value.len, 0);
    assert_false(instant_is_set(back.expires));
}

static void its_bytes_are_pinned(void **state)
{
    static const char bytes[] = "\x01\xac\x02\x81\xd0\x95\xff\xbc\x31"
                                "a\0b";
    assert_true(str_eq(put(*state, &full), (struct str){bytes, sizeof bytes - 1}));
    struct batch *b = *state;
    assert_int_equal(b->count, 2);
    assert_true(str_eq(b->ops[0].key, (struct str){"Kspace\0k\0y", 10}));
    assert_true(str_eq(b->ops[1].key, (struct str){"L\0\0\x01\x8b\xcf\xe5\x68\0space\0k\0y", 18}));
    assert_true(str_eq(b->ops[1].value, STR("\x01")));
}

static void keys_are_taken_apart_again(void **state)
{
    char room[RECORD_KV_KEY_MAX];
    struct str space, key;
    instant expires;
    (void)state;
    assert_true(record_key_is_kv(record_kv_key(full.space, full.key, room), &space, &key));
    assert_true(str_eq(space, full.space) && str_eq(key, full.key));
    struct str index = record_kv_expiry_key(full.expires, full.space, full.key, room);
    assert_true(record_key_is_kv_expiry(index, &expires, &space, &key));
    assert_true(str_eq(space, full.space) && str_eq(key, full.key));
    assert_int_equal(expires.ms, full.expires.ms);
    assert_false(record_key_is_kv(index, &space, &key));
    assert_false(record_key_is_kv((struct str){"Ks\0", 3}, &space, &key)); /* without a key */
    assert_false(record_key_is_kv((struct str){"K\0k", 3}, &space, &key));
    assert_false(record_key_is_kv(STR("Kspace"), &space, &key));
}

static void a_deleted_entry_goes_with_its_expiry(void **state)
{
    struct batch *b = *state;
    put(b, &full);
    record_delete_kv(b, &full);
    assert_int_equal(b->count, 2);
    assert_null(b->ops[0].value.at);
    assert_null(b->ops[1].value.at);
}

static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct str value = put(*state, &full);
    struct kv_entry back;
    char bytes[32];
    memcpy(bytes, value.at, value.len);
    for (size_t n = 0; n < 9; n++) /* up to the value, which is the rest */
        assert_int_equal(record_read_kv((struct str){bytes, n}, &back).code, ERR_CORRUPT);
    bytes[0] = 2;
    assert_int_equal(record_read_kv((struct str){bytes, value.len}, &back).code, ERR_VERSION);
    assert_int_equal(record_read_kv((struct str){"\x01\x00\x00", 3}, &back).code, ERR_CORRUPT);
    assert_int_equal(record_check_kv_expiry(STR("\x01")).code, ERR_OK);
    assert_int_equal(record_check_kv_expiry(STR("\x01\x01")).code, ERR_CORRUPT);
}

static void the_newest_version_is_read_back(void **state)
{
    struct batch *b = *state;
    struct record_key key = record_kv_newest_key();
    uint64_t version;
    record_put_kv_newest(b, UINT64_MAX);
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    assert_int_equal(record_read_kv_newest(op->value, &version).code, ERR_OK);
    assert_true(version == UINT64_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_entry_is_read_back),
        TEST(its_bytes_are_pinned),
        TEST(keys_are_taken_apart_again),
        TEST(a_deleted_entry_goes_with_its_expiry),
        TEST(damage_is_corrupt_and_a_newer_version_is_told_apart),
        TEST(the_newest_version_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
