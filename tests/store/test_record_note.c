/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/cm.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};
static const struct note NOTE = {
    .run = 300, .at = {1700000000000}, .value = 0.5, .text = {"half", 4}};

static void hex(struct str bytes, char *out)
{
    for (size_t i = 0; i < bytes.len; i++)
        sprintf(out + 2 * i, "%02x", (unsigned char)bytes.at[i]);
}

static struct str value_of(const struct batch *b, enum note_kind kind)
{
    struct record_key key = record_note_key(ID, kind);
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    assert_non_null(op);
    return op->value;
}

static void a_note_has_these_bytes_and_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    struct note back;
    char text[200] = "";
    record_put_note(&b, ID, NOTE_PROGRESS, &NOTE);
    hex(value_of(&b, NOTE_PROGRESS), text);
    assert_string_equal(text, "01ac0281d095ffbc31000000000000e03f0468616c66");
    assert_ok(record_read_note(value_of(&b, NOTE_PROGRESS), &back));
    assert_int_equal(back.run, 300);
    assert_true(back.at.ms == NOTE.at.ms && back.value == 0.5);
    assert_str(back.text, "half");
    batch_fini(&b);
}

static void keys_tell_the_notes_of_a_job_apart(void **state)
{
    (void)state;
    char text[80] = "";
    struct id id = {0};
    for (int k = 0; k < NOTE_KINDS; k++) {
        enum note_kind kind = NOTE_KINDS;
        struct record_key key = record_note_key(ID, (enum note_kind)k);
        assert_true(record_key_is_note(record_key_view(&key), &id, &kind));
        assert_true(id_eq(id, ID) && (int)kind == k);
    }
    struct record_key key = record_note_key(ID, NOTE_RESULT);
    hex(record_key_view(&key), text);
    assert_string_equal(text, "4f0123456789abcdeffedcba987654321002");
    enum note_kind kind;
    key.bytes[17] = NOTE_KINDS;
    assert_false(record_key_is_note(record_key_view(&key), &id, &kind));
    key = record_run_key(ID, 0);
    assert_false(record_key_is_note(record_key_view(&key), &id, &kind));
}

static void what_is_no_note_is_corrupt(void **state)
{
    (void)state;
    struct batch b = {0};
    struct note back;
    char bytes[100];
    record_put_note(&b, ID, NOTE_CHECKPOINT, &NOTE);
    struct str value = value_of(&b, NOTE_CHECKPOINT);
    for (size_t len = 0; len < value.len; len++)
        assert_code(record_read_note((struct str){value.at, len}, &back), ERR_CORRUPT);
    memcpy(bytes, value.at, value.len);
    bytes[value.len] = 0;
    assert_code(record_read_note((struct str){bytes, value.len + 1}, &back), ERR_CORRUPT);
    bytes[0] = 2;
    assert_code(record_read_note((struct str){bytes, value.len}, &back), ERR_VERSION);
    batch_fini(&b);
}

static void an_end_that_others_wait_for_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    char text[100] = "";
    uint64_t seq;
    struct id id;
    enum depend_end end;
    record_put_ended(&b, 0x0102, ID, DEPEND_REMOVED);
    struct record_key key = record_ended_key(0x0102);
    assert_true(record_key_is_ended(record_key_view(&key), &seq) && seq == 0x0102);
    assert_false(record_key_is_takes(record_key_view(&key), &seq));
    hex(record_key_view(&key), text);
    assert_string_equal(text, "570000000000000102");
    struct str value = batch_find(&b, record_key_view(&key))->value;
    hex(value, text);
    assert_string_equal(text, "010123456789abcdeffedcba987654321002");
    assert_ok(record_read_ended(value, &id, &end));
    assert_true(id_eq(id, ID) && end == DEPEND_REMOVED);
    for (size_t len = 0; len < value.len; len++)
        assert_code(record_read_ended((struct str){value.at, len}, &id, &end), ERR_CORRUPT);
    batch_fini(&b);
}

static void check_clock(const struct record_clock *c, const char *golden)
{
    struct batch b = {0};
    char text[120] = "";
    struct record_clock back;
    struct record_key key = record_clock_key();
    hex(record_key_view(&key), text);
    assert_string_equal(text, "4d636c6f636b");
    record_put_clock(&b, c);
    struct str value = batch_find(&b, record_key_view(&key))->value;
    text[0] = '\0';
    hex(value, text);
    assert_string_equal(text, golden);
    assert_int_equal(record_read_clock(value, &back).code, ERR_OK);
    assert_int_equal(back.newest.ms, c->newest.ms);
    assert_int_equal(back.events, c->events);
    assert_int_equal(back.turned_at.ms, c->turned_at.ms);
    assert_int_equal(back.turned_events, c->turned_events);
    assert_int_equal(back.from.ms, c->from.ms);
    assert_true(id_eq(back.next, c->next));
    assert_true(back.boot == c->boot && back.ticks == c->ticks);
    for (size_t len = 0; len < value.len; len++)
        assert_code(record_read_clock((struct str){value.at, len}, &back), ERR_CORRUPT);
    batch_fini(&b);
}

static void the_bytes_of_a_clock_are_pinned(void **state)
{
    (void)state;
    const struct record_clock still = {{300}, 0, INSTANT_NONE, 0, INSTANT_NONE, {0, 0}, 0, 0};
    const struct record_clock turning = {{300}, 300, {300}, 5, {1000}, ID, 129, 7};
    check_clock(&still, "03ad020000000000");
    check_clock(&turning, "03ad02ac02ad0205e907"
                          "0123456789abcdeffedcba9876543210"
                          "810107");
    static const char first[] = "\x01\xad\x02\xad\x02\x05\0";
    struct record_clock back;
    assert_int_equal(record_read_clock((struct str){first, sizeof first - 1}, &back).code, ERR_OK);
    assert_int_equal(back.newest.ms, 300);
    assert_int_equal(back.events, 0);
    assert_int_equal(back.turned_at.ms, 300);
    assert_int_equal(back.turned_events, 5);
}

static const struct lease LEASES[] = {
    {{1, 2}, 0, 0x81, {1700000000000}, {1700000030000}, {30000}, false, 0x181, {"w", 1}, {"n1", 2}},
    {{3, 4}, 300, UINT64_MAX, {1699999999999}, {1700000000000}, {0}, true, 0, {"w", 1}, {"n1", 2}},
    {{5, 6}, 1, 1, {1700000000001}, {1699999999999}, {7}, true, 0, {"w", 1}, {"", 0}},
    {.id = {7, 8},
     .token = 1,
     .taken_at = {1700000000000},
     .end = {1700000000100},
     .length = {300},
     .worker = {"w", 1},
     .max_run = {100},
     .limit = {1700000000100},
     .limited_by = RUN_LIMIT_WORKER},
};

static void check_lease(void *ctx, const struct lease *l)
{
    size_t *seen = ctx;
    const struct lease *want = &LEASES[(*seen)++];
    assert_true(id_eq(l->id, want->id) && l->run == want->run && l->token == want->token);
    assert_true(l->taken_at.ms == want->taken_at.ms && l->end.ms == want->end.ms);
    assert_true(l->length.ms == want->length.ms && l->confirmed == want->confirmed);
    assert_true(str_eq(l->worker, want->worker) && str_eq(l->node, want->node));
    assert_true(l->key == want->key && l->max_run.ms == want->max_run.ms);
    assert_true(l->limit.ms == want->limit.ms && l->limited_by == want->limited_by);
}

static void check_renewed(void *ctx, const struct lease *l)
{
    (void)ctx;
    assert_true(l->confirmed);
    assert_int_equal(l->length.ms, 30000);
    assert_int_equal(l->taken_at.ms, 1700000000000 - 5);
}

static void the_bytes_of_leases_are_pinned(void **state)
{
    (void)state;
    struct batch b = {0};
    char text[500] = "";
    size_t seen = 0;
    instant at;
    record_put_leases(&b, 7, (instant){1700000000000}, LEASES, 4);
    struct record_key key = record_takes_key(7);
    struct str value = batch_find(&b, record_key_view(&key))->value;
    hex(value, text);
    assert_string_equal(text, "0581d095ffbc3104"
                              "00000000000000010000000000000002"
                              "00"
                              "8101"
                              "00"
                              "e0d403"
                              "09"
                              "8103"
                              "0177"
                              "026e31"
                              "00000000000000030000000000000004"
                              "ac02"
                              "ffffffffffffffffff01"
                              "02"
                              "00"
                              "02"
                              "00000000000000050000000000000006"
                              "01"
                              "01"
                              "01"
                              "01"
                              "07"
                              "0e"
                              "0177"
                              "00"
                              "00000000000000070000000000000008"
                              "00"
                              "01"
                              "00"
                              "c801"
                              "14"
                              "d804"
                              "64"
                              "c801"
                              "02");
    assert_true(record_is_leases(value));
    assert_ok(record_read_leases(value, check_lease, &seen));
    assert_int_equal(seen, 4);
    /* As version 2 has them: a lease that was granted before its record was renewed. */
    const char before[] = "\x02\x81\xd0\x95\xff\xbc\x31\x01"
                          "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2"
                          "\x00\x81\x01\x0a\xe0\xd4\x03\x00";
    assert_ok(record_read_leases((struct str){before, sizeof before - 1}, check_renewed, NULL));
    const char version_4[] = "\x04\x81\xd0\x95\xff\xbc\x31\x01"
                             "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2"
                             "\x00\x81\x01\x00\xe0\xd4\x03\x09\x81\x03\x01w\x02n1";
    seen = 0;
    assert_ok(
        record_read_leases((struct str){version_4, sizeof version_4 - 1}, check_lease, &seen));
    assert_int_equal(seen, 1);
    /* An older tenax, which knows only takes, refuses it. */
    assert_code(record_read_takes(value, &at, NULL, NULL), ERR_VERSION);
    for (size_t len = 1; len < value.len; len++)
        assert_code(record_read_leases((struct str){value.at, len}, check_lease, NULL),
                    ERR_CORRUPT);
    batch_fini(&b);
}

static void what_is_lost_of_a_job_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    char text[100] = "";
    struct id id;
    struct record_apart apart = {APART_PAYLOAD, 300}, back;
    record_put_apart(&b, ID, &apart);
    struct record_key key = record_apart_key(ID);
    hex(record_key_view(&key), text);
    assert_string_equal(text, "580123456789abcdeffedcba9876543210");
    assert_true(record_key_is_apart(record_key_view(&key), &id) && id_eq(id, ID));
    struct str value = batch_find(&b, record_key_view(&key))->value;
    text[0] = '\0';
    hex(value, text);
    assert_string_equal(text, "0102ac02");
    assert_ok(record_read_apart(value, &back));
    assert_true(back.part == APART_PAYLOAD && back.table == 300);
    for (size_t len = 0; len < value.len; len++)
        assert_code(record_read_apart((struct str){value.at, len}, &back), ERR_CORRUPT);
    batch_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_has_these_bytes_and_is_read_back),
        cmocka_unit_test(keys_tell_the_notes_of_a_job_apart),
        cmocka_unit_test(what_is_no_note_is_corrupt),
        cmocka_unit_test(an_end_that_others_wait_for_is_read_back),
        cmocka_unit_test(the_bytes_of_a_clock_are_pinned),
        cmocka_unit_test(the_bytes_of_leases_are_pinned),
        cmocka_unit_test(what_is_lost_of_a_job_is_read_back),
    };
    return cmocka_run_group_tests_name("record_note", tests, NULL, NULL);
}
