/* SPDX-License-Identifier: Apache-2.0 */

/* Records of changes that can be undone: what is written is read back, and nothing else. */

#include "store/record_undo.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/records.h"

static const struct bulk_operation full = {
    .number = 0x0102,
    .kind = OPERATION_CANCEL,
    .state = OPERATION_STOPPED,
    .began = {5},
    .ended = {6},
    .looked = 7,
    .count = 8,
    .by = {"{}", 2},
    .undo = {.state = UNDO_KEPT, .until = {9}, .entries = 10, .next = 3, .bytes = 11},
};

static struct str operation(struct batch *b)
{
    record_put_operation(b, &full);
    struct record_key key = record_operation_key(full.number);
    return batch_find(b, record_key_view(&key))->value;
}

static struct undo_entry entry_of(struct str payload)
{
    struct undo_entry e = {.kind = OPERATION_DELETE,
                           .gone = true,
                           .at = {77},
                           .runs = 2,
                           .purge_at = {88},
                           .group = {{"g", 1}, {"o", 1}, {5}, {-1}}};
    e.was = (struct job){.id = {1, 2},
                         .queue = STR("q"),
                         .type = STR("t"),
                         .payload = payload,
                         .retry_limit = 3,
                         .completed_retention = {-1},
                         .dead_retention = {4},
                         .state = records_bare_state()};
    return e;
}

static struct str put(struct batch *b, const struct undo_entry *e, const struct batch *beside)
{
    struct record_key key = record_undo_key(3, 4);
    size_t bytes = record_put_undo(b, 3, 4, e, beside);
    struct str value = batch_find(b, record_key_view(&key))->value;
    assert_int_equal(bytes, key.len + value.len);
    return value;
}

static void an_operation_is_read_back_and_its_bytes_are_pinned(void **state)
{
    struct bulk_operation back;
    struct str value = operation(*state);
    assert_int_equal(record_read_operation(value, full.number, &back).code, ERR_OK);
    assert_int_equal(back.kind, full.kind);
    assert_int_equal(back.state, full.state);
    assert_int_equal(back.ended.ms, 6);
    assert_int_equal(back.looked, 7);
    assert_int_equal(back.count, 8);
    assert_true(str_eq(back.by, full.by));
    assert_int_equal(back.undo.state, UNDO_KEPT);
    assert_int_equal(back.undo.until.ms, 9);
    assert_int_equal(back.undo.entries, 10);
    assert_int_equal(back.undo.next, 3);
    assert_int_equal(back.undo.bytes, 11);
    assert_true(str_eq(value, STR("\x01\x02\x02\x06\x07\x07\x08\x02{}\x01\x0a\x0a\x03\x0b"
                                  "\x0c\0\0\0\0\0\0\0\0\0\0\0\0")));
}

static void an_operation_of_somebody_limited_has_a_version_of_its_own(void **state)
{
    struct bulk_operation limited = full, back;
    limited.reach = STR("a,b*");
    record_put_operation(*state, &limited);
    struct record_key key = record_operation_key(full.number);
    struct str value = batch_find(*state, record_key_view(&key))->value;
    assert_int_equal(record_read_operation(value, full.number, &back).code, ERR_OK);
    assert_true(str_eq(back.reach, limited.reach) && str_eq(back.by, limited.by));
    assert_true(str_eq(value, STR("\x02\x02\x02\x06\x07\x07\x08\x02{}\x01\x0a\x0a\x03\x0b"
                                  "\x0c\0\0\0\0\0\0\0\0\0\0\0\0\x04"
                                  "a,b*")));
    value.len--;
    assert_int_equal(record_read_operation(value, full.number, &back).code, ERR_CORRUPT);
}

static void an_entry_is_read_back_with_what_lies_beside_the_job(void **state)
{
    static char large[RECORD_APART_MIN + 1];
    memset(large, '1', sizeof large);
    const struct str payloads[] = {STR("null"), {large, sizeof large}};
    for (int i = 0; i < 2; i++) {
        struct batch beside = {0}, read = {0};
        struct undo_entry e = entry_of(payloads[i]), back;
        batch_put(&beside, STR("R1"), STR("run"));
        struct str value = put(*state, &e, &beside);
        assert_int_equal(record_read_undo(value, &back, &read).code, ERR_OK);
        assert_true(back.gone && id_eq(back.was.id, e.was.id));
        assert_int_equal(back.at.ms, 77);
        assert_int_equal(back.runs, 2);
        assert_int_equal(back.purge_at.ms, 88);
        assert_int_equal(back.was.retry_limit, 3);
        assert_true(str_eq(back.was.payload, payloads[i]));
        assert_true(str_eq(back.group.name, STR("g")) && str_eq(back.group.owner, STR("o")));
        assert_int_equal(back.group.sealed_at.ms, 5);
        assert_int_equal(read.count, 1);
        assert_true(str_eq(batch_find(&read, STR("R1"))->value, STR("run")));
        batch_fini(&beside);
        batch_fini(&read);
    }
}

static void a_patch_keeps_both_and_no_payload(void **state)
{
    struct undo_entry e = entry_of(STR("\"secret\"")), back;
    e.kind = OPERATION_PATCH;
    e.gone = false;
    e.set = 5;
    e.became = e.was;
    e.became.queue = STR("other");
    e.group = (struct group_record){0};
    struct str value = put(*state, &e, NULL);
    assert_null(memmem(value.at, value.len, "secret", 6));
    assert_int_equal(record_read_undo(value, &back, NULL).code, ERR_OK);
    assert_int_equal(back.set, 5);
    assert_true(str_eq(back.was.queue, STR("q")) && str_eq(back.became.queue, STR("other")));
    assert_true(id_eq(back.became.id, e.was.id));
}

static void keys_are_taken_apart_again_and_sort_by_number(void **state)
{
    uint64_t operation, seq;
    (void)state;
    struct record_key a = record_undo_key(3, 4), b = record_undo_key(3, 256),
                      c = record_operation_key(3);
    assert_true(record_key_is_undo(record_key_view(&a), &operation, &seq));
    assert_int_equal(operation, 3);
    assert_int_equal(seq, 4);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    assert_true(record_key_is_operation(record_key_view(&c), &operation));
    assert_false(record_key_is_operation(record_key_view(&a), &operation));
    assert_false(record_key_is_undo(record_key_view(&c), &operation, &seq));
}

/* Each beginning of the value, and the value with a byte more. */
static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct bulk_operation op;
    struct undo_entry e = entry_of(STR("null")), back;
    const struct str values[] = {operation(*state), put(*state, &e, NULL)};
    for (int i = 0; i < 2; i++) {
        char *bytes = alloc_zero(values[i].len + 1);
        memcpy(bytes, values[i].at, values[i].len);
        for (size_t n = 0; n <= values[i].len + 1; n++) {
            struct str part = {bytes, n};
            struct err err =
                i ? record_read_undo(part, &back, NULL) : record_read_operation(part, 1, &op);
            assert_int_equal(err.code, n == values[i].len ? ERR_OK : ERR_CORRUPT);
        }
        bytes[0] = 3;
        struct str newer = {bytes, values[i].len};
        struct err err =
            i ? record_read_undo(newer, &back, NULL) : record_read_operation(newer, 1, &op);
        assert_int_equal(err.code, ERR_VERSION);
        free(bytes);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_operation_is_read_back_and_its_bytes_are_pinned),
        TEST(an_operation_of_somebody_limited_has_a_version_of_its_own),
        TEST(an_entry_is_read_back_with_what_lies_beside_the_job),
        TEST(a_patch_keeps_both_and_no_payload),
        TEST(keys_are_taken_apart_again_and_sort_by_number),
        TEST(damage_is_corrupt_and_a_newer_version_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
