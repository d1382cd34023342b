/* SPDX-License-Identifier: Apache-2.0 */
#include "json_test.h"

#include <float.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* ---- The grammar ---- */

static const struct refusal {
    struct str text;
    enum err_code code;
    int64_t offset;
} refused[] = {
    /* nothing, or something before or after */
    {STR(""), ERR_BAD_JSON, 0},
    {STR(" "), ERR_BAD_JSON, 1},
    {STR("\n\n"), ERR_BAD_JSON, 2},
    {STR("\xef\xbb\xbf"), ERR_BAD_JSON, 0},
    {STR("\xef\xbb\xbf{}"), ERR_BAD_JSON, 0},
    {STR(" \xef\xbb\xbf{}"), ERR_BAD_JSON, 1},
    {STR("{}\xef\xbb\xbf"), ERR_BAD_JSON, 2},
    {STR("\xff\xfe{\0}\0"), ERR_BAD_JSON, 0},
    {STR("\0"), ERR_BAD_JSON, 0},
    {STR("1\0"), ERR_BAD_JSON, 1},
    {STR("{}\0"), ERR_BAD_JSON, 2},
    {STR("1 2"), ERR_BAD_JSON, 2},
    {STR("[] []"), ERR_BAD_JSON, 3},
    {STR("{}}"), ERR_BAD_JSON, 2},
    {STR("[]]"), ERR_BAD_JSON, 2},
    {STR("1,"), ERR_BAD_JSON, 1},
    {STR(",1"), ERR_BAD_JSON, 0},
    {STR("\"a\"b"), ERR_BAD_JSON, 3},
    {STR("{}//"), ERR_BAD_JSON, 2},
    {STR("/**/1"), ERR_BAD_JSON, 0},
    {STR("#"), ERR_BAD_JSON, 0},
    {STR("\x0b"
         "1"),
     ERR_BAD_JSON, 0},
    {STR("\x0c"
         "1"),
     ERR_BAD_JSON, 0},
    {STR("1\x0c"), ERR_BAD_JSON, 1},
    {STR("\xc2\xa0"
         "1"),
     ERR_BAD_JSON, 0},
    {STR("[\xe2\x81\xa0]"), ERR_BAD_JSON, 1},
    /* words */
    {STR("n"), ERR_BAD_JSON, 1},
    {STR("nul"), ERR_BAD_JSON, 3},
    {STR("nulL"), ERR_BAD_JSON, 3},
    {STR("Null"), ERR_BAD_JSON, 0},
    {STR("nulll"), ERR_BAD_JSON, 4},
    {STR("tru"), ERR_BAD_JSON, 3},
    {STR("True"), ERR_BAD_JSON, 0},
    {STR("ture"), ERR_BAD_JSON, 1},
    {STR("[truefalse]"), ERR_BAD_JSON, 5},
    {STR("fals"), ERR_BAD_JSON, 4},
    {STR("FALSE"), ERR_BAD_JSON, 0},
    {STR("falsy"), ERR_BAD_JSON, 4},
    {STR("NaN"), ERR_BAD_JSON, 0},
    {STR("nan"), ERR_BAD_JSON, 1},
    {STR("Infinity"), ERR_BAD_JSON, 0},
    {STR("undefined"), ERR_BAD_JSON, 0},
    /* numbers */
    {STR("-"), ERR_BAD_JSON, 1},
    {STR("+1"), ERR_BAD_JSON, 0},
    {STR("--1"), ERR_BAD_JSON, 1},
    {STR("-a"), ERR_BAD_JSON, 1},
    {STR("- 1"), ERR_BAD_JSON, 1},
    {STR("-Infinity"), ERR_BAD_JSON, 1},
    {STR("00"), ERR_BAD_JSON, 1},
    {STR("01"), ERR_BAD_JSON, 1},
    {STR("-01"), ERR_BAD_JSON, 2},
    {STR("-00.5"), ERR_BAD_JSON, 2},
    {STR("1."), ERR_BAD_JSON, 2},
    {STR("1.e1"), ERR_BAD_JSON, 2},
    {STR("1..2"), ERR_BAD_JSON, 2},
    {STR("1.2.3"), ERR_BAD_JSON, 3},
    {STR("1,5"), ERR_BAD_JSON, 1},
    {STR(".5"), ERR_BAD_JSON, 0},
    {STR("-.5"), ERR_BAD_JSON, 1},
    {STR("0.-1"), ERR_BAD_JSON, 2},
    {STR("1e"), ERR_BAD_JSON, 2},
    {STR("1e+"), ERR_BAD_JSON, 3},
    {STR("1E-"), ERR_BAD_JSON, 3},
    {STR("1e5.5"), ERR_BAD_JSON, 3},
    {STR("1ee5"), ERR_BAD_JSON, 2},
    {STR("1e+-5"), ERR_BAD_JSON, 3},
    {STR("1 000"), ERR_BAD_JSON, 2},
    {STR("1_000"), ERR_BAD_JSON, 1},
    {STR("0x1f"), ERR_BAD_JSON, 1},
    {STR("1f"), ERR_BAD_JSON, 1},
    {STR("[1a]"), ERR_BAD_JSON, 2},
    {STR("[-]"), ERR_BAD_JSON, 2},
    {STR("\xef\xbc\x91"), ERR_BAD_JSON, 0},
    /* strings */
    {STR("\""), ERR_BAD_JSON, 1},
    {STR("\"a"), ERR_BAD_JSON, 2},
    {STR("\"0123456789abcdef0123"), ERR_BAD_JSON, 21},
    {STR("'a'"), ERR_BAD_JSON, 0},
    {STR("a"), ERR_BAD_JSON, 0},
    {STR("\"\"\"\""), ERR_BAD_JSON, 2},
    {STR("\"\n\""), ERR_BAD_JSON, 1},
    {STR("\"a\tb\""), ERR_BAD_JSON, 2},
    {STR("\"\r\""), ERR_BAD_JSON, 1},
    {STR("\"\0\""), ERR_BAD_JSON, 1},
    {STR("\"\x1f\""), ERR_BAD_JSON, 1},
    {STR("\"0123456789abcdef012\x01"
         "4567\""),
     ERR_BAD_JSON, 20},
    {STR("\"\\"), ERR_BAD_JSON, 2},
    {STR("\"\\\""), ERR_BAD_JSON, 3},
    {STR("\"\\\\\\\""), ERR_BAD_JSON, 5},
    {STR("\"\\a\""), ERR_BAD_JSON, 2},
    {STR("\"\\'\""), ERR_BAD_JSON, 2},
    {STR("\"\\0\""), ERR_BAD_JSON, 2},
    {STR("\"\\x41\""), ERR_BAD_JSON, 2},
    {STR("\"\\N\""), ERR_BAD_JSON, 2},
    {STR("\"\\U0041\""), ERR_BAD_JSON, 2},
    {STR("\"\\\n\""), ERR_BAD_JSON, 2},
    {STR("\"\\\0\""), ERR_BAD_JSON, 2},
    {STR("\"\\\xc3\xa9\""), ERR_BAD_JSON, 2},
    {STR("\"\\u\""), ERR_BAD_JSON, 3},
    {STR("\"\\u1\""), ERR_BAD_JSON, 4},
    {STR("\"\\u12\""), ERR_BAD_JSON, 5},
    {STR("\"\\u123\""), ERR_BAD_JSON, 6},
    {STR("\"\\u123"), ERR_BAD_JSON, 6},
    {STR("\"\\u123g\""), ERR_BAD_JSON, 6},
    {STR("\"\\u-123\""), ERR_BAD_JSON, 3},
    {STR("\"\\u 123\""), ERR_BAD_JSON, 3},
    {STR("\"\\ud834\\u\""), ERR_BAD_JSON, 9},
    {STR("\"\\ud834\\"), ERR_BAD_JSON, 8},
    {STR("[\\n]"), ERR_BAD_JSON, 1},
    {STR("[\\u0022a\"]"), ERR_BAD_JSON, 1},
    /* UTF-8 */
    {STR("\"\x80\""), ERR_BAD_UTF8, 1},
    {STR("\"ab\xbf\""), ERR_BAD_UTF8, 3},
    {STR("\"\xc0\xaf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xc1\xbf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xc3\""), ERR_BAD_UTF8, 1},
    {STR("\"\xc3"), ERR_BAD_UTF8, 1},
    {STR("\"\xc3(\""), ERR_BAD_UTF8, 1},
    {STR("\"\xe0\x80\xaf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xe0\x9f\xbf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xe2\x82\""), ERR_BAD_UTF8, 1},
    {STR("\"\xe2\x82"), ERR_BAD_UTF8, 1},
    {STR("\"\xed\xa0\x80\""), ERR_BAD_UTF8, 1},
    {STR("\"\xed\xbf\xbf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xed\xa0\xb4\xed\xb4\x9e\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf0\x80\x80\xaf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf0\x8f\xbf\xbf\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf0\x9f\x98\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf0\x9f\x98"), ERR_BAD_UTF8, 1},
    {STR("\"\xf4\x90\x80\x80\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf5\x80\x80\x80\""), ERR_BAD_UTF8, 1},
    {STR("\"\xf8\x88\x80\x80\x80\""), ERR_BAD_UTF8, 1},
    {STR("\"\xfe\""), ERR_BAD_UTF8, 1},
    {STR("\"\xff\""), ERR_BAD_UTF8, 1},
    {STR("\"\xc3\xa9\xc3\xa9\xe9\""), ERR_BAD_UTF8, 5},
    {STR("\"0123456789abcdef012\xff\""), ERR_BAD_UTF8, 20},
    {STR("\"\\n\\\xff\""), ERR_BAD_JSON, 4},
    {STR("\"\\n\xff\""), ERR_BAD_UTF8, 3},
    {STR("{\"a\xff\":1}"), ERR_BAD_UTF8, 3},
    {STR("{\"a\":1,\"b\":\"\xff\"}"), ERR_BAD_UTF8, 12},
    {STR("[\xff]"), ERR_BAD_JSON, 1},
    /* arrays */
    {STR("["), ERR_BAD_JSON, 1},
    {STR("]"), ERR_BAD_JSON, 0},
    {STR("[1"), ERR_BAD_JSON, 2},
    {STR("[1,"), ERR_BAD_JSON, 3},
    {STR("[1,]"), ERR_BAD_JSON, 3},
    {STR("[1, ]"), ERR_BAD_JSON, 4},
    {STR("[,]"), ERR_BAD_JSON, 1},
    {STR("[,1]"), ERR_BAD_JSON, 1},
    {STR("[1,,2]"), ERR_BAD_JSON, 3},
    {STR("[1 2]"), ERR_BAD_JSON, 3},
    {STR("[1:2]"), ERR_BAD_JSON, 2},
    {STR("[1;2]"), ERR_BAD_JSON, 2},
    {STR("[1}"), ERR_BAD_JSON, 2},
    {STR("[}"), ERR_BAD_JSON, 1},
    {STR("[[1]"), ERR_BAD_JSON, 4},
    {STR("[[1]]]"), ERR_BAD_JSON, 5},
    {STR("[\"a\":1]"), ERR_BAD_JSON, 4},
    {STR("[{}"), ERR_BAD_JSON, 3},
    {STR("[{}}"), ERR_BAD_JSON, 3},
    /* objects */
    {STR("{"), ERR_BAD_JSON, 1},
    {STR("}"), ERR_BAD_JSON, 0},
    {STR("{ "), ERR_BAD_JSON, 2},
    {STR("{]"), ERR_BAD_JSON, 1},
    {STR("{,}"), ERR_BAD_JSON, 1},
    {STR("{1:2}"), ERR_BAD_JSON, 1},
    {STR("{a:1}"), ERR_BAD_JSON, 1},
    {STR("{'a':1}"), ERR_BAD_JSON, 1},
    {STR("{null:1}"), ERR_BAD_JSON, 1},
    {STR("{[]:1}"), ERR_BAD_JSON, 1},
    {STR("{\"a\""), ERR_BAD_JSON, 4},
    {STR("{\"a\"}"), ERR_BAD_JSON, 4},
    {STR("{\"a\",1}"), ERR_BAD_JSON, 4},
    {STR("{\"a\" 1}"), ERR_BAD_JSON, 5},
    {STR("{\"a\"=1}"), ERR_BAD_JSON, 4},
    {STR("{\"a\":"), ERR_BAD_JSON, 5},
    {STR("{\"a\":}"), ERR_BAD_JSON, 5},
    {STR("{\"a\":,\"b\":1}"), ERR_BAD_JSON, 5},
    {STR("{\"a\"::1}"), ERR_BAD_JSON, 5},
    {STR("{\"a\":1"), ERR_BAD_JSON, 6},
    {STR("{\"a\":1]"), ERR_BAD_JSON, 6},
    {STR("{\"a\":1 \"b\":2}"), ERR_BAD_JSON, 7},
    {STR("{\"a\":1,}"), ERR_BAD_JSON, 7},
    {STR("{\"a\":1, }"), ERR_BAD_JSON, 8},
    {STR("{\"a\":1,,\"b\":2}"), ERR_BAD_JSON, 7},
    {STR("{\"a\":1,2}"), ERR_BAD_JSON, 7},
    {STR("{\"a\":1;\"b\":2}"), ERR_BAD_JSON, 6},
    {STR("{\"a\":[1}}"), ERR_BAD_JSON, 7},
    {STR("{\"a\":{\"b\":1]}"), ERR_BAD_JSON, 11},
    {STR("{\"a\":[{\"b\":1}],\"c\":}"), ERR_BAD_JSON, 19},
    {STR("{\"a\":/*x*/1}"), ERR_BAD_JSON, 5},
    {STR("{\"a\n\":1}"), ERR_BAD_JSON, 3},
    {STR("{\"a\\q\":1}"), ERR_BAD_JSON, 4},
};

static void every_text_of_the_grammar_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct err skipped = read_all(accepted[i], skip_value);
        struct err walked = read_all(accepted[i], json_walk);
        if (skipped.code != ERR_OK)
            fail_msg("skip refuses %.*s: %s", STR_ARG(accepted[i]), skipped.msg);
        if (walked.code != ERR_OK)
            fail_msg("the walk refuses %.*s: %s", STR_ARG(accepted[i]), walked.msg);
    }
}

static void check_refusal(const char *how, struct err e, struct refusal want)
{
    if (e.code == ERR_OK)
        fail_msg("%s accepts %.*s", how, STR_ARG(want.text));
    if (e.code != want.code || e.offset != want.offset)
        fail_msg("%s refuses %.*s at %d with %s (%s), not at %d with %s", how, STR_ARG(want.text),
                 (int)e.offset, err_wire(e.code), e.msg, (int)want.offset, err_wire(want.code));
    assert_int_equal(utf8_check(str_from(e.msg)), strlen(e.msg));
}

static void every_text_outside_the_grammar_is_refused_at_the_faulty_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        check_refusal("skip", read_all(refused[i].text, skip_value), refused[i]);
        check_refusal("the walk", read_all(refused[i].text, json_walk), refused[i]);
    }
}

static void messages_say_what_was_expected_and_what_was_found(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        const char *msg;
    } cases[] = {
        {STR(""), "expected a value, found the end of the text"},
        {STR("\xef\xbb\xbf{}"), "expected a value, found a byte order mark"},
        {STR("{'a':1}"), "expected a key in double quotes or '}', found a single quote"},
        {STR("{\"a\":1,}"), "expected a key in double quotes after ',', found '}'"},
        {STR("{\"a\" 1}"), "expected ':' after a key, found '1'"},
        {STR("{\"a\":1]"), "expected ',' or '}' after a member, found ']'"},
        {STR("[1 2]"), "expected ',' or ']' after an element, found '2'"},
        {STR("[1,]"), "expected a value, found ']'"},
        {STR("1 x"), "expected the end of the text, found 'x'"},
        {STR("\"a"), "expected a double quote at the end of a string, found the end of the text"},
        {STR("\"\n\""),
         "expected control characters in a string to be escaped, found a line break"},
        {STR("\"\x01\""), "expected control characters in a string to be escaped, found byte 0x01"},
        {STR("\"\\q\""), "expected one of \" \\ / b f n r t u after a backslash, found 'q'"},
        {STR("\"\\u12x4\""), "expected four hexadecimal digits after \\u, found 'x'"},
        {STR("\"\xff\""), "the text is not valid UTF-8"},
        {STR("01"), "expected no digit after a leading zero, found '1'"},
        {STR("-x"), "expected a digit after '-', found 'x'"},
        {STR("1.e"), "expected a digit after the decimal point, found 'e'"},
        {STR("1e"), "expected a digit in the exponent, found the end of the text"},
        {STR("trux"), "expected true, found 'x'"},
        {STR("[\xff]"), "expected a value, found byte 0xff"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(read_all(cases[i].text, skip_value).msg, cases[i].msg);
        assert_string_equal(read_all(cases[i].text, json_walk).msg, cases[i].msg);
    }
}

static const struct str sample = STR(
    "{\"queue\": \"mail\\n\\u00e9\xc3\xa9\xf0\x9f\x98\x80\", \"n\": [-1, 0.5e-3, 12],\r\n"
    "\t\"ok\": true, \"no\": false, \"nil\": null, \"deep\": {\"a\": [[], {}, {\"b\": \"c\"}]}}");

static void a_text_cut_off_anywhere_is_refused_where_it_ends(void **state)
{
    (void)state;
    assert_int_equal(read_all(sample, skip_value).code, ERR_OK);
    for (size_t n = 0; n < sample.len; n++) {
        struct str cut = {sample.at, n};
        struct err skipped = read_all(cut, skip_value);
        struct err walked = read_all(cut, json_walk);
        bool inside_character = utf8_check(cut) < n;
        assert_int_equal(skipped.code, inside_character ? ERR_BAD_UTF8 : ERR_BAD_JSON);
        assert_int_equal(skipped.offset, utf8_check(cut));
        assert_int_equal(walked.code, skipped.code);
        assert_int_equal(walked.offset, skipped.offset);
        assert_string_equal(walked.msg, skipped.msg);
    }
}

static void skip_and_walk_agree_on_any_damaged_byte(void **state)
{
    (void)state;
    char *text = alloc_text(sample.at, sample.len);
    unsigned refusals = 0;
    for (size_t i = 0; i < sample.len; i++) {
        for (int byte = 0; byte < 256; byte++) {
            text[i] = (char)byte;
            struct err skipped = read_all((struct str){text, sample.len}, skip_value);
            struct err walked = read_all((struct str){text, sample.len}, json_walk);
            assert_int_equal(walked.code, skipped.code);
            if (skipped.code == ERR_OK)
                continue;
            refusals++;
            assert_int_equal(walked.offset, skipped.offset);
            assert_string_equal(walked.msg, skipped.msg);
        }
        text[i] = sample.at[i];
    }
    assert_true(refusals > 20000);
    free(text);
}

/* ---- Depth ---- */

static struct buf nested(unsigned depth, const char *open, const char *core, const char *close)
{
    struct buf b = {0};
    for (unsigned i = 0; i < depth; i++)
        buf_str(&b, str_from(open));
    buf_str(&b, str_from(core));
    for (unsigned i = 0; i < depth; i++)
        buf_str(&b, str_from(close));
    return b;
}

static void check_depth(unsigned depth, const char *open, const char *core, const char *close,
                        enum err_code code, int64_t offset)
{
    struct buf b = nested(depth, open, core, close);
    value_reader *const readers[] = {skip_value, json_walk};
    for (size_t i = 0; i < COUNT(readers); i++) {
        struct err e = read_all(buf_view(&b), readers[i]);
        assert_int_equal(e.code, code);
        if (code != ERR_OK) {
            assert_int_equal(e.offset, offset);
            assert_string_equal(e.msg, "nested deeper than 128 levels");
        }
    }
    buf_fini(&b);
}

static void nesting_is_accepted_up_to_the_limit_and_refused_past_it(void **state)
{
    (void)state;
    check_depth(JSON_DEPTH_MAX, "[", "", "]", ERR_OK, 0);
    check_depth(JSON_DEPTH_MAX + 1, "[", "", "]", ERR_TOO_DEEP, JSON_DEPTH_MAX);
    check_depth(JSON_DEPTH_MAX, "{\"a\":", "1", "}", ERR_OK, 0);
    check_depth(JSON_DEPTH_MAX + 1, "{\"a\":", "1", "}", ERR_TOO_DEEP, 5 * JSON_DEPTH_MAX);
    check_depth(JSON_DEPTH_MAX / 2, "[{\"a\":", "1", "}]", ERR_OK, 0);
    check_depth(JSON_DEPTH_MAX / 2, "[{\"a\":", "[]", "}]", ERR_TOO_DEEP, 3 * JSON_DEPTH_MAX);
    check_depth(100000, "[", "", "", ERR_TOO_DEEP, JSON_DEPTH_MAX);
}

static void a_skip_inside_entered_containers_counts_their_depth(void **state)
{
    (void)state;
    for (unsigned inner = JSON_DEPTH_MAX - 1; inner <= JSON_DEPTH_MAX; inner++) {
        struct buf b = nested(inner + 1, "[", "", "]");
        struct json_cursor c = json_open(buf_view(&b));
        bool more;
        assert_int_equal(json_enter_array(&c).code, ERR_OK);
        assert_int_equal(json_next_element(&c, &more).code, ERR_OK);
        struct err e = json_skip(&c, NULL);
        assert_int_equal(e.code, inner < JSON_DEPTH_MAX ? ERR_OK : ERR_TOO_DEEP);
        buf_fini(&b);
    }
}

static void wide_is_not_deep(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_byte(&b, '[');
    for (int i = 0; i < 1000; i++)
        buf_lit(&b, "[{\"a\":[]}],");
    buf_lit(&b, "1]");
    assert_int_equal(read_all(buf_view(&b), skip_value).code, ERR_OK);
    assert_int_equal(read_all(buf_view(&b), json_walk).code, ERR_OK);
    buf_fini(&b);
}

/* ---- The cursor ---- */

static void an_envelope_is_read_member_by_member(void **state)
{
    (void)state;
    struct str text =
        STR(" { \"queue\" : \"q\\u0031\", \"priority\":7, \"weight\":2.5,\"unique\":true,"
            " \"none\" :null ,\"payload\" :  {\"a\" : [1, \"}\"]}  , \"tags\":[ \"x\", "
            "[\"y\"] ,\"z\"] } \n");
    struct json_cursor c = json_open(text);
    struct json_string key;
    struct json_string s;
    bool more;
    assert_ok(json_enter_object(&c));
    assert_ok(json_next_member(&c, &more, &key));
    assert_true(more);
    assert_str(key.raw, "queue");
    assert_false(key.escaped);
    assert_int_equal(key.offset, 4);
    assert_ok(json_read_string(&c, &s));
    assert_str(s.raw, "q\\u0031");
    assert_true(s.escaped);
    assert_int_equal(s.offset, 14);

    int64_t n;
    assert_ok(json_next_member(&c, &more, &key));
    assert_str(key.raw, "priority");
    assert_ok(json_read_int(&c, 0, 65535, &n));
    assert_int_equal(n, 7);

    double d;
    assert_ok(json_next_member(&c, &more, &key));
    assert_ok(json_read_double(&c, 0, 10, &d));
    assert_true(d == 2.5);

    bool yes;
    bool null;
    assert_ok(json_next_member(&c, &more, &key));
    assert_ok(json_take_null(&c, &null));
    assert_false(null);
    assert_ok(json_read_bool(&c, &yes));
    assert_true(yes);
    assert_ok(json_next_member(&c, &more, &key));
    assert_ok(json_take_null(&c, &null));
    assert_true(null);

    struct str raw;
    assert_ok(json_next_member(&c, &more, &key));
    assert_str(key.raw, "payload");
    assert_ok(json_skip(&c, &raw));
    assert_str(raw, "{\"a\" : [1, \"}\"]}");

    assert_ok(json_next_member(&c, &more, &key));
    assert_ok(json_enter_array(&c));
    assert_ok(json_next_element(&c, &more));
    assert_ok(json_read_string(&c, &s));
    assert_ok(json_next_element(&c, &more));
    assert_ok(json_enter_array(&c));
    assert_ok(json_next_element(&c, &more));
    assert_ok(json_read_string(&c, &s));
    assert_str(s.raw, "y");
    assert_ok(json_next_element(&c, &more));
    assert_false(more);
    assert_ok(json_next_element(&c, &more));
    assert_true(more);
    assert_ok(json_read_string(&c, &s));
    assert_str(s.raw, "z");
    assert_ok(json_next_element(&c, &more));
    assert_false(more);
    assert_ok(json_next_member(&c, &more, &key));
    assert_false(more);
    assert_ok(json_close(&c));
}

static void peek_names_the_type_of_the_next_value(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum json_type type;
    } cases[] = {
        {" null", JSON_NULL},  {"true", JSON_BOOL},  {"false", JSON_BOOL},
        {"-1", JSON_NUMBER},   {"0", JSON_NUMBER},   {"9", JSON_NUMBER},
        {"\"\"", JSON_STRING}, {"\n[]", JSON_ARRAY}, {"{}", JSON_OBJECT},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_cursor c = json_open(str_from(cases[i].text));
        enum json_type type;
        assert_ok(json_peek(&c, &type));
        assert_int_equal(type, cases[i].type);
        assert_ok(json_skip(&c, NULL));
    }
    struct json_cursor c = json_open(STR("  ]"));
    enum json_type type;
    struct err e = json_peek(&c, &type);
    assert_int_equal(e.code, ERR_BAD_JSON);
    assert_int_equal(e.offset, 2);
}

static struct err read_string(struct json_cursor *c)
{
    struct json_string s;
    return json_read_string(c, &s);
}

static struct err read_bool(struct json_cursor *c)
{
    bool v;
    return json_read_bool(c, &v);
}

static struct err read_any_int(struct json_cursor *c)
{
    int64_t v;
    return json_read_int(c, INT64_MIN, INT64_MAX, &v);
}

static struct err read_any_double(struct json_cursor *c)
{
    double v;
    return json_read_double(c, -DBL_MAX, DBL_MAX, &v);
}

static void another_type_is_refused_with_both_types_named(void **state)
{
    (void)state;
    static const struct {
        value_reader *reader;
        struct str text;
        const char *msg;
    } cases[] = {
        {read_string, STR(" 1"), "expected a string, found a number"},
        {read_string, STR(" null"), "expected a string, found null"},
        {read_bool, STR(" \"true\""), "expected a boolean, found a string"},
        {read_any_int, STR(" \"1\""), "expected a number, found a string"},
        {read_any_int, STR(" {}"), "expected a number, found an object"},
        {read_any_double, STR(" []"), "expected a number, found an array"},
        {read_any_double, STR(" false"), "expected a number, found a boolean"},
        {json_enter_object, STR(" []"), "expected an object, found an array"},
        {json_enter_array, STR(" {}"), "expected an array, found an object"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = read_all(cases[i].text, cases[i].reader);
        assert_int_equal(e.code, ERR_BAD_TYPE);
        assert_int_equal(e.offset, 1);
        assert_string_equal(e.msg, cases[i].msg);
        e = read_all(STR(" ?"), cases[i].reader);
        assert_int_equal(e.code, ERR_BAD_JSON);
        assert_int_equal(e.offset, 1);
        e = read_all(STR(""), cases[i].reader);
        assert_int_equal(e.code, ERR_BAD_JSON);
        assert_int_equal(e.offset, 0);
    }
}

static void the_raw_span_of_a_skipped_value_is_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct buf b = {0};
        buf_lit(&b, "[ 0,\t");
        size_t start = b.len;
        buf_str(&b, accepted[i]);
        buf_lit(&b, "\n]");
        struct json_cursor c = json_open(buf_view(&b));
        bool more;
        struct str raw;
        assert_ok(json_enter_array(&c));
        assert_ok(json_next_element(&c, &more));
        assert_ok(json_skip(&c, NULL));
        assert_ok(json_next_element(&c, &more));
        assert_ok(json_skip(&c, &raw));
        const char *spaces = " \t\r\n";
        size_t from = strspn(b.at + start, " \t\r\n");
        size_t to = b.len - 2;
        while (strchr(spaces, b.at[to - 1]))
            to--;
        assert_ptr_equal(raw.at, b.at + start + from);
        assert_ptr_equal(raw.at + raw.len, b.at + to);
        buf_fini(&b);
    }
}

/* What stands behind shows whether the end was found or passed. */
static void a_sound_text_is_passed_by_its_quotes_and_brackets(void **state)
{
    (void)state;
    static const char *const values[] = {
        "\"\"",
        "\"\\\\\"",
        "\"\\\"]\"",
        "\"0123456789abcde\\\"]\"",
        "\"0123456789abcdef\\\\\"",
        "\"0123456789abcdef\\\\\\\"}{[]\"",
        "\"\\\"0123456789abcdef\\\"\\\"01234567890123456789012345678\\u0022\"",
        "-1.5e3",
        "12",
        "null",
        "[]",
        "{ }",
        "[[[1, 2],[{\"a]\":[\"}\"]}]] ]",
        "{\"a\":1,\"0123456789 0123456789\" : [true , false],\"c\":\"]]]]]]]]]]]]]]]]]\"}",
        "[0.5,12,34 ,5,\"x\",6]",
    };
    for (size_t i = 0; i < COUNT(values); i++) {
        for (const char *const *tail = (const char *[]){"", " ", ",\"]\"]", "]", "}", NULL}; *tail;
             tail++) {
            struct buf b = {0};
            buf_print(&b, "%s%s", values[i], *tail);
            struct json_cursor c = json_open(buf_view(&b)), sound = json_open_sound(buf_view(&b));
            struct str raw, again;
            assert_ok(json_skip(&c, &raw));
            assert_ok(json_skip(&sound, &again));
            assert_int_equal(raw.len, strlen(values[i]));
            assert_true(str_eq(raw, again) && c.pos == sound.pos);
            buf_fini(&b);
        }
    }
}

static void a_member_is_found_by_its_name_and_the_last_of_several(void **state)
{
    (void)state;
    struct str raw;
    assert_ok(
        json_member(STR(" {\"a\": [1, {\"b\": 2}] , \"b\":\"x\",\"a\": 3.0 } "), STR("a"), &raw));
    assert_true(str_eq(raw, STR("3.0")));
    assert_ok(json_member(STR("{\"a\": [1, {\"b\": 2}] }"), STR("a"), &raw));
    assert_true(str_eq(raw, STR("[1, {\"b\": 2}]")));
    assert_ok(json_member(STR("{\"b\": 1, \"\\u0061\": 2, \"ab\": 3}"), STR("a"), &raw));
    assert_int_equal(raw.len, 0);
    assert_int_equal(json_member(STR("{\"a\": 1, \"b\": }"), STR("a"), &raw).code, ERR_BAD_JSON);
    assert_int_equal(json_member(STR("{\"a\": 1} 2"), STR("a"), &raw).code, ERR_BAD_JSON);
    assert_int_equal(json_member(STR("[1]"), STR("a"), &raw).code, ERR_BAD_TYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_of_the_grammar_is_accepted),
        cmocka_unit_test(every_text_outside_the_grammar_is_refused_at_the_faulty_byte),
        cmocka_unit_test(messages_say_what_was_expected_and_what_was_found),
        cmocka_unit_test(a_text_cut_off_anywhere_is_refused_where_it_ends),
        cmocka_unit_test(skip_and_walk_agree_on_any_damaged_byte),
        cmocka_unit_test(nesting_is_accepted_up_to_the_limit_and_refused_past_it),
        cmocka_unit_test(a_skip_inside_entered_containers_counts_their_depth),
        cmocka_unit_test(wide_is_not_deep),
        cmocka_unit_test(an_envelope_is_read_member_by_member),
        cmocka_unit_test(peek_names_the_type_of_the_next_value),
        cmocka_unit_test(another_type_is_refused_with_both_types_named),
        cmocka_unit_test(the_raw_span_of_a_skipped_value_is_exact),
        cmocka_unit_test(a_sound_text_is_passed_by_its_quotes_and_brackets),
        cmocka_unit_test(a_member_is_found_by_its_name_and_the_last_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
