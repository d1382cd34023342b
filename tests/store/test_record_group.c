/* SPDX-License-Identifier: Apache-2.0 */

/* Records of groups of jobs: what is written is read back, and nothing else. */

#include "store/record.h"

#include <string.h>

#include "store/records.h"

static const struct group_record full = {{"g", 1}, {"owner", 5}, {1700000000000}, {1700000000001}};

static struct str put(struct batch *b, const struct group_record *g)
{
    char room[RECORD_GROUP_KEY_MAX];
    record_put_group(b, g);
    const struct batch_op *op = batch_find(b, record_group_key(g->name, room));
    assert_non_null(op);
    return op->value;
}

static void a_group_is_read_back(void **state)
{
    const struct group_record plain = {{"g", 1}, {0}, {-1}, {-1}}, *all[] = {&full, &plain};
    struct group_record back;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(record_read_group(put(*state, all[i]), all[i]->name, &back).code, ERR_OK);
        assert_true(str_eq(back.name, all[i]->name) && str_eq(back.owner, all[i]->owner));
        assert_int_equal(back.sealed_at.ms, all[i]->sealed_at.ms);
        assert_int_equal(back.retain_until.ms, all[i]->retain_until.ms);
    }
}

static void its_bytes_are_pinned(void **state)
{
    assert_true(str_eq(put(*state, &full), STR("\x01\x05owner\x81\xd0\x95\xff\xbc\x31"
                                               "\x82\xd0\x95\xff\xbc\x31")));
    const struct batch *b = *state;
    assert_true(str_eq(b->ops[0].key, STR("Gg")));
}

static void its_key_is_taken_apart_again(void **state)
{
    char room[RECORD_GROUP_KEY_MAX];
    struct str name;
    (void)state;
    assert_true(record_key_is_group(record_group_key(STR("name"), room), &name));
    assert_true(str_eq(name, STR("name")));
    assert_false(record_key_is_group(STR("G"), &name));
    assert_false(record_key_is_group(STR("Qname"), &name));
}

static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct str value = put(*state, &full);
    struct group_record back;
    char bytes[32];
    memcpy(bytes, value.at, value.len);
    for (size_t n = 0; n < value.len; n++)
        assert_int_equal(record_read_group((struct str){bytes, n}, full.name, &back).code,
                         ERR_CORRUPT);
    bytes[value.len] = 0;
    assert_int_equal(record_read_group((struct str){bytes, value.len + 1}, full.name, &back).code,
                     ERR_CORRUPT);
    bytes[0] = 2;
    assert_int_equal(record_read_group((struct str){bytes, value.len}, full.name, &back).code,
                     ERR_VERSION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_group_is_read_back),
        TEST(its_bytes_are_pinned),
        TEST(its_key_is_taken_apart_again),
        TEST(damage_is_corrupt_and_a_newer_version_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
