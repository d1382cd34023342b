/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FIELD(name, k, member, v)                                                                  \
    {                                                                                              \
        .key = {sizeof(name) - 1, name}, .value = {.kind = (k), .value.member = (v) }              \
    }
#define BYTES(text)      ((amqp_bytes_t){sizeof(text) - 1, (text)})
#define TEXT(name, text) FIELD(name, AMQP_FIELD_KIND_UTF8, bytes, BYTES(text))
#define TABLE(entries_)                                                                            \
    ((amqp_table_t){.num_entries = sizeof(entries_) / sizeof *(entries_), .entries = (entries_)})

static void numbers_are_read_in_each_type(void **state)
{
    amqp_table_entry_t entries[] = {
        FIELD("i8", AMQP_FIELD_KIND_I8, i8, -5),
        FIELD("u8", AMQP_FIELD_KIND_U8, u8, 200),
        FIELD("i16", AMQP_FIELD_KIND_I16, i16, -300),
        FIELD("u16", AMQP_FIELD_KIND_U16, u16, 60000),
        FIELD("i32", AMQP_FIELD_KIND_I32, i32, -70000),
        FIELD("u32", AMQP_FIELD_KIND_U32, u32, 4000000000),
        FIELD("i64", AMQP_FIELD_KIND_I64, i64, 1700000000123),
        FIELD("time", AMQP_FIELD_KIND_TIMESTAMP, u64, 1700000000),
        FIELD("f64", AMQP_FIELD_KIND_F64, f64, 1700000000123.9),
        FIELD("f32", AMQP_FIELD_KIND_F32, f32, 2.5F),
        TEXT("text", "42"),
    };
    static const int64_t expected[] = {
        -5, 200, -300, 60000, -70000, 4000000000, 1700000000123, 1700000000, 1700000000123, 2, 42};
    amqp_table_t table = TABLE(entries);
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct str name = {entries[i].key.bytes, entries[i].key.len};
        int64_t n;
        assert_true(amqp_headers_int(&table, name, &n));
        assert_int_equal(n, expected[i]);
    }
}

static void what_is_no_number_is_none(void **state)
{
    amqp_table_entry_t entries[] = {
        TEXT("word", "many"),
        TEXT("empty", ""),
        FIELD("huge", AMQP_FIELD_KIND_U64, u64, UINT64_MAX),
        FIELD("far", AMQP_FIELD_KIND_F64, f64, 1e300),
        FIELD("yes", AMQP_FIELD_KIND_BOOLEAN, boolean, 1),
    };
    amqp_table_t table = TABLE(entries);
    int64_t n;
    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_false(
            amqp_headers_int(&table, (struct str){entries[i].key.bytes, entries[i].key.len}, &n));
    assert_false(amqp_headers_int(&table, STR("absent"), &n));
}

static amqp_field_value_t death(amqp_table_entry_t entries[3])
{
    return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_TABLE,
                                .value.table = {.num_entries = 3, .entries = entries}};
}

static void deaths_are_counted_by_queue_and_reason(void **state)
{
    amqp_table_entry_t expired[] = {TEXT("queue", "sddlr"), TEXT("reason", "expired"),
                                    FIELD("count", AMQP_FIELD_KIND_I64, i64, 9)};
    amqp_table_entry_t rejected[] = {TEXT("queue", "sd"), TEXT("reason", "rejected"),
                                     FIELD("count", AMQP_FIELD_KIND_I64, i64, 3)};
    amqp_field_value_t deaths[] = {death(expired), death(rejected)};
    amqp_table_entry_t entries[] = {
        FIELD("x-death", AMQP_FIELD_KIND_ARRAY, array, ((amqp_array_t){2, deaths}))};
    amqp_table_entry_t wrong[] = {TEXT("x-death", "yes")};
    amqp_table_t table = TABLE(entries), other = TABLE(wrong);
    (void)state;
    assert_int_equal(amqp_headers_deaths(&table, STR("sd"), STR("rejected")), 3);
    assert_int_equal(amqp_headers_deaths(&table, STR("sd"), STR("expired")), 0);
    assert_int_equal(amqp_headers_deaths(&table, STR("sddlr"), STR("")), 9);
    assert_int_equal(amqp_headers_deaths(&table, STR(""), STR("")), 9);
    assert_int_equal(amqp_headers_deaths(&other, STR("sd"), STR("rejected")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_in_each_type),
        cmocka_unit_test(what_is_no_number_is_none),
        cmocka_unit_test(deaths_are_counted_by_queue_and_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
