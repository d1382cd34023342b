/* SPDX-License-Identifier: Apache-2.0 */
#include "json_test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/decimal.h"

/* ---- Numbers ---- */

static struct err read_int(const char *text, int64_t lo, int64_t hi, int64_t *v)
{
    struct json_cursor c = json_open(str_from(text));
    TRY(json_read_int(&c, lo, hi, v));
    return json_close(&c);
}

static void whole_numbers_are_read_exactly_however_they_are_spelled(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t v;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"0.0", 0},
        {"-0.000e5", 0},
        {"0e999999999999999999999999", 0},
        {"0e-999999999999999999999999", 0},
        {"7", 7},
        {"-7", -7},
        {"1.0", 1},
        {"1.000000000000000000000000000000", 1},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"1.5e1", 15},
        {"-1.25e2", -125},
        {"0.001e3", 1},
        {"0.0012e4", 12},
        {"100e-2", 1},
        {"1200.00e-2", 12},
        {"10000000000000000000000000000000000000000e-40", 1},
        {"0.00000000000000000000000000000000000000001e41", 1},
        {"123456789012345678", 123456789012345678},
        {"1234567890123456789", 1234567890123456789},
        {"9007199254740993", 9007199254740993},
        {"9007199254740993.0", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775807.000", INT64_MAX},
        {"9.223372036854775807e18", INT64_MAX},
        {"922337203685477580700e-2", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"-9.223372036854775808e18", INT64_MIN},
        {"1e18", 1000000000000000000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t v = 42;
        assert_ok(read_int(cases[i].text, INT64_MIN, INT64_MAX, &v));
        if (v != cases[i].v)
            fail_msg("%s is not %lld", cases[i].text, (long long)v);
    }
}

static void what_is_not_a_whole_number_or_too_large_for_any_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1.5",
        "-0.1",
        "1e-1",
        "15e-1",
        "0.5e0",
        "1e-999999999999999999999999",
        "9223372036854775807.5",
        "9223372036854775808",
        "-9223372036854775809",
        "1e19",
        "10000000000000000000",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551617",
        "99999999999999999999",
        "100000000000000000000",
        "-1e400",
        "1e999999999999999999999999",
        "123456789012345678901234567890",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        int64_t v;
        struct err e = read_int(texts[i], INT64_MIN, INT64_MAX, &v);
        if (e.code != ERR_BAD_VALUE)
            fail_msg("%s is taken for %lld", texts[i], (long long)v);
        assert_int_equal(e.offset, 0);
    }
}

static void a_whole_number_outside_its_range_is_refused_with_the_range_named(void **state)
{
    (void)state;
    int64_t v;
    assert_ok(read_int(" 5", 5, 5, &v));
    assert_ok(read_int("-3", -3, 5, &v));
    struct err e = read_int("  65536", 0, 65535, &v);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_int_equal(e.offset, 2);
    assert_string_equal(e.msg, "expected a whole number from 0 to 65535, found 65536");
    e = read_int("-1", 0, 65535, &v);
    assert_string_equal(e.msg, "expected a whole number from 0 to 65535, found -1");
    e = read_int("1.5", 0, 9, &v);
    assert_string_equal(e.msg, "expected a whole number from 0 to 9, found 1.5");
    e = read_int("11111111112222222222333333333344444444445555555555", INT64_MIN, INT64_MAX, &v);
    assert_string_equal(e.msg, "expected a whole number from -9223372036854775808 to "
                               "9223372036854775807, found "
                               "1111111111222222222233333333334444444444...");
}

static struct err read_double(const char *text, double lo, double hi, double *v)
{
    struct json_cursor c = json_open(str_from(text));
    TRY(json_read_double(&c, lo, hi, v));
    return json_close(&c);
}

static void doubles_are_rounded_correctly(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "1",
        "-1.5",
        "0.1",
        "1e23",
        "8.5e-7",
        "123456.789e-3",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "2.4703282292062328e-324",
        "1e-400",
        "9007199254740993",
        "9007199254740993.00000000000000000000000000000001",
        "0.000000000000000000000000000000000000000000000123",
        "100000000000000000000000000000",
        "1797693134862315700000000e284",
        "6.0221409e+23",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        double v;
        assert_ok(read_double(texts[i], -DBL_MAX, DBL_MAX, &v));
        if (v != strtod(texts[i], NULL))
            fail_msg("%s is not %.17g", texts[i], v);
    }
    double zero;
    assert_ok(read_double("-0", -1, 1, &zero));
    assert_true(zero == 0 && signbit(zero));
}

/* 2^53 + 1 lies halfway between two doubles: a last digit decides, at whatever position, and zeros
 * there do not. */
static void the_thousandth_digit_of_a_double_still_counts(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "9007199254740993.");
    for (int i = 0; i < 2000; i++)
        buf_byte(&b, '0');
    buf_byte(&b, '\0');
    double v;
    assert_ok(read_double(b.at, -DBL_MAX, DBL_MAX, &v));
    assert_true(v == 9007199254740992.0);
    b.at[b.len - 2] = '1';
    assert_ok(read_double(b.at, -DBL_MAX, DBL_MAX, &v));
    assert_true(v == 9007199254740994.0);
    buf_fini(&b);

    buf_lit(&b, "-");
    for (int i = 0; i < 3000; i++)
        buf_byte(&b, '7');
    buf_print(&b, "e-3000");
    buf_byte(&b, '\0');
    assert_ok(read_double(b.at, -DBL_MAX, DBL_MAX, &v));
    assert_true(v == -7.0 / 9.0);
    buf_fini(&b);
}

static void a_double_outside_its_range_is_refused(void **state)
{
    (void)state;
    double v;
    assert_ok(read_double("0.5", 0.5, 0.5, &v));
    struct err e = read_double(" 0.75", -1, 0.5, &v);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_int_equal(e.offset, 1);
    assert_string_equal(e.msg, "expected a number from -1 to 0.5, found 0.75");
    assert_int_equal(read_double("-1.01", -1, 0.5, &v).code, ERR_BAD_VALUE);
    e = read_double("1e309", -INFINITY, INFINITY, &v);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_string_equal(e.msg, "expected a number that fits a double, found 1e309");
}

static void check_written_double(double v)
{
    struct buf b = {0};
    json_write_double(&b, v);
    assert_int_equal(read_all(buf_view(&b), skip_value).code, ERR_OK);
    struct json_cursor c = json_open(buf_view(&b));
    double back;
    assert_ok(json_read_double(&c, -DBL_MAX, DBL_MAX, &back));
    assert_memory_equal(&back, &v, sizeof v);
    buf_fini(&b);
}

static void every_finite_double_reads_back_the_same(void **state)
{
    (void)state;
    static const double special[] = {
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        0.2 + 0.1,
        1.0 / 3,
        1e15,
        1e16,
        1e17,
        1e21,
        1e22,
        1e23,
        5e-324,
        DBL_MIN,
        DBL_MAX,
        -DBL_MAX,
        DBL_EPSILON,
        1e-7,
        123456789.0,
        4503599627370497.5,
        9007199254740993.0,
        2.2250738585072009e-308,
    };
    for (size_t i = 0; i < COUNT(special); i++)
        check_written_double(special[i]);
    /* A fixed walk through all bit patterns (splitmix64's increment). */
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits += UINT64_C(0x9e3779b97f4a7c15);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            check_written_double(v);
    }
}

static void doubles_are_written_in_their_shortest_form(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {1.0, "1"},
        {-2.5, "-2.5"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {100000.0, "100000"},
        {1e15, "1e15"},
        {1e100, "1e100"},
        {1e-7, "1e-7"},
        {1.5e-10, "1.5e-10"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e308"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        json_write_double(&b, cases[i].v);
        assert_str(buf_view(&b), cases[i].text);
        buf_fini(&b);
    }
}

static void the_locale_changes_no_number(void **state)
{
    (void)state;
    /* Those of them that exist on this machine; C.UTF-8 always does, with a decimal point. */
    static const char *const names[] = {"C.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!setlocale(LC_ALL, names[i]))
            continue;
        doubles_are_written_in_their_shortest_form(NULL);
        double v;
        assert_ok(read_double("2.5", 0, 10, &v));
        assert_true(v == 2.5);
        assert_string_equal(read_double("2.5", 0, 0.5, &v).msg,
                            "expected a number from 0 to 0.5, found 2.5");
    }
    setlocale(LC_ALL, "C");
}

/* ---- Strings ---- */

static struct err text_of(struct str json, struct arena *a, struct str *text)
{
    struct json_cursor c = json_open(json);
    struct json_string s;
    TRY(json_read_string(&c, &s));
    return json_text(s, a, text);
}

static void escapes_are_resolved_to_the_characters_they_stand_for(void **state)
{
    (void)state;
    static const struct {
        struct str json;
        struct str text;
    } cases[] = {
        {STR("\"\""), STR("")},
        {STR("\"plain\""), STR("plain")},
        {STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), STR("\"\\/\b\f\n\r\t")},
        {STR("\"a\\nb\""), STR("a\nb")},
        {STR("\"\\u0000\""), STR("\0")},
        {STR("\"x\\u0000y\""), STR("x\0y")},
        {STR("\"\\u007f\\u0080\""), STR("\x7f\xc2\x80")},
        {STR("\"\\u07ff\\u0800\""), STR("\xdf\xbf\xe0\xa0\x80")},
        {STR("\"\\ud7ff\\ue000\""), STR("\xed\x9f\xbf\xee\x80\x80")},
        {STR("\"\\uFFFF\\uffff\""), STR("\xef\xbf\xbf\xef\xbf\xbf")},
        {STR("\"\\ud800\\udc00\""), STR("\xf0\x90\x80\x80")},
        {STR("\"\\uDBFF\\uDFFF\""), STR("\xf4\x8f\xbf\xbf")},
        {STR("\"\\ud83d\\ude00!\""), STR("\xf0\x9f\x98\x80!")},
        {STR("\"\xc3\xa9\\u00e9\xc3\xa9\""), STR("\xc3\xa9\xc3\xa9\xc3\xa9")},
        {STR("\"\\\\u0041\""), STR("\\u0041")},
    };
    struct arena a = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct str text;
        assert_ok(text_of(cases[i].json, &a, &text));
        if (!str_eq(text, cases[i].text))
            fail_msg("%.*s gives %.*s", STR_ARG(cases[i].json), STR_ARG(text));
    }
    arena_fini(&a);
}

static void a_string_without_escapes_is_not_copied(void **state)
{
    (void)state;
    struct str json = STR("\"caf\xc3\xa9\"");
    struct arena a = {0};
    struct str text;
    assert_ok(text_of(json, &a, &text));
    assert_ptr_equal(text.at, json.at + 1);
    assert_int_equal(a.total, 0);
}

static void half_a_surrogate_pair_is_refused_where_it_stands(void **state)
{
    (void)state;
    static const struct {
        struct str json;
        int64_t offset;
    } cases[] = {
        {STR("\"\\ud800\""), 1},
        {STR("\"\\udc00\""), 1},
        {STR("\"\\udfff\""), 1},
        {STR("  \"ab\\udbffcd\""), 5},
        {STR("\"\\ud800\\n\""), 1},
        {STR("\"\\ud800\\u0041\""), 1},
        {STR("\"\\ud800\\ud800\""), 1},
        {STR("\"\\udc00\\ud800\""), 1},
        {STR("\"\\ud800\\ue000\""), 1},
        {STR("\"\\ud83d\\ude00\\ud83d\""), 13},
        {STR("\"\\ud800xxxxxxxxxxx\""), 1},
        {STR("\"\\ud800\\\\udc00\""), 1},
    };
    struct arena a = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct str text;
        struct err e = text_of(cases[i].json, &a, &text);
        assert_int_equal(e.code, ERR_BAD_UTF8);
        assert_int_equal(e.offset, cases[i].offset);
    }
    struct str text;
    assert_string_equal(text_of(cases[0].json, &a, &text).msg,
                        "\\ud800 is half of a surrogate pair and stands for no character");
    arena_fini(&a);
}

static void a_written_string_escapes_only_what_it_must(void **state)
{
    (void)state;
    struct buf b = {0};
    json_write_string(&b, STR("a\"b\\c/\b\f\n\r\t\0\x1f\x7f\xc3\xa9\xe2\x80\xa8"));
    assert_str(buf_view(&b),
               "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa9\xe2\x80\xa8\"");
    buf_fini(&b);
    json_write_string(&b, (struct str){NULL, 0});
    assert_str(buf_view(&b), "\"\"");
    buf_fini(&b);
}

static void every_written_string_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "", "a", "\"", "\\", "\n", "\x01", "\xc3\xa9", "\xf0\x9f\x98\x80", "0123456789abcdefghij"};
    struct arena a = {0};
    for (size_t i = 0; i < COUNT(pieces) * COUNT(pieces) * COUNT(pieces); i++) {
        struct buf text = {0};
        buf_str(&text, str_from(pieces[i % COUNT(pieces)]));
        buf_str(&text, str_from(pieces[i / COUNT(pieces) % COUNT(pieces)]));
        buf_byte(&text, '\0');
        buf_str(&text, str_from(pieces[i / COUNT(pieces) / COUNT(pieces)]));
        struct buf json = {0};
        json_write_string(&json, buf_view(&text));
        assert_int_equal(read_all(buf_view(&json), skip_value).code, ERR_OK);
        struct str back;
        assert_ok(text_of(buf_view(&json), &a, &back));
        assert_true(str_eq(back, buf_view(&text)));
        buf_fini(&text);
        buf_fini(&json);
    }
    arena_fini(&a);
}

static void one_line_keeps_length_and_meaning(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "before\n");
    size_t start = b.len;
    struct str value = STR("\n{\r\n  \"a\\n\": [1,\n\n2],\r\"b\": \"\\r\"}\n");
    json_write_one_line(&b, value);
    assert_int_equal(b.len, start + value.len);
    assert_str(buf_view(&b), "before\n {    \"a\\n\": [1,  2], \"b\": \"\\r\"} ");
    buf_fini(&b);
    for (size_t i = 0; i < COUNT(accepted); i++) {
        json_write_one_line(&b, accepted[i]);
        assert_int_equal(b.len, accepted[i].len);
        assert_null(memchr(b.at, '\n', b.len));
        assert_null(memchr(b.at, '\r', b.len));
        assert_int_equal(read_all(buf_view(&b), skip_value).code, ERR_OK);
        buf_fini(&b);
    }
}

static void plain_digits_are_digits_and_nothing_else(void **state)
{
    (void)state;
    int64_t v = -1;
    static const struct str refused[] = {{"", 0},    {"-1", 2}, {"+1", 2},
                                         {"1e2", 3}, {" 1", 2}, {"1234", 4}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(decimal_digits(refused[i], 3, &v));
    assert_int_equal(v, -1);
    assert_true(decimal_digits(STR("007"), 3, &v));
    assert_int_equal(v, 7);
    assert_true(decimal_digits(STR("999999999999999999"), 18, &v));
    assert_int_equal(v, INT64_C(999999999999999999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_digits_are_digits_and_nothing_else),
        cmocka_unit_test(whole_numbers_are_read_exactly_however_they_are_spelled),
        cmocka_unit_test(what_is_not_a_whole_number_or_too_large_for_any_is_refused),
        cmocka_unit_test(a_whole_number_outside_its_range_is_refused_with_the_range_named),
        cmocka_unit_test(doubles_are_rounded_correctly),
        cmocka_unit_test(the_thousandth_digit_of_a_double_still_counts),
        cmocka_unit_test(a_double_outside_its_range_is_refused),
        cmocka_unit_test(every_finite_double_reads_back_the_same),
        cmocka_unit_test(doubles_are_written_in_their_shortest_form),
        cmocka_unit_test(the_locale_changes_no_number),
        cmocka_unit_test(escapes_are_resolved_to_the_characters_they_stand_for),
        cmocka_unit_test(a_string_without_escapes_is_not_copied),
        cmocka_unit_test(half_a_surrogate_pair_is_refused_where_it_stands),
        cmocka_unit_test(a_written_string_escapes_only_what_it_must),
        cmocka_unit_test(every_written_string_reads_back_the_same),
        cmocka_unit_test(one_line_keeps_length_and_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
