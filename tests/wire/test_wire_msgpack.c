/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire_msgpack.h"

#include <float.h>
#include <math.h>
#include <msgpack.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "store/cm.h"

/* --- both ways --- */

static struct str to_json(struct buf *b, struct str packed)
{
    b->len = 0;
    assert_ok(wire_msgpack_to_json(packed, SIZE_MAX, b));
    return buf_view(b);
}

static struct str from_json(struct buf *b, struct str json)
{
    b->len = 0;
    assert_ok(wire_msgpack_from_json(json, b));
    return buf_view(b);
}

static void expect_json(struct str packed, const char *json)
{
    struct buf b = {0};
    struct str got = to_json(&b, packed);
    if (!str_eq(got, str_from(json)))
        fail_msg("%.*s is not %s", STR_ARG(got), json);
    buf_fini(&b);
}

static void expect_packed(const char *json, struct str packed)
{
    struct buf b = {0};
    struct str got = from_json(&b, str_from(json));
    if (!str_eq(got, packed))
        fail_msg("%s became %zu bytes, the first %02x", json, got.len,
                 got.len ? (unsigned char)got.at[0] : 0);
    buf_fini(&b);
}

/* The JSON text becomes exactly these bytes, and they become that text. */
#define expect_same(json, packed)                                                                  \
    do {                                                                                           \
        expect_packed(json, STR(packed));                                                          \
        expect_json(STR(packed), json);                                                            \
    } while (0)

static void expect_error(struct str packed, enum err_code code, int64_t offset)
{
    struct buf b = {0};
    struct err e = wire_msgpack_to_json(packed, SIZE_MAX, &b);
    assert_int_equal(e.code, code);
    assert_int_equal(e.offset, offset);
    buf_fini(&b);
}

static void each_type_has_its_namesake(void **state)
{
    (void)state;
    expect_same("null", "\xc0");
    expect_same("false", "\xc2");
    expect_same("true", "\xc3");
    expect_same("\"\"", "\xa0");
    expect_same("\"abc\"", "\xa3"
                           "abc");
    expect_same("[]", "\x90");
    expect_same("{}", "\x80");
    expect_same("[1,[2,\"x\"],{}]", "\x93\x01\x92\x02\xa1x\x80");
    expect_same("{\"a\":1,\"b\":{\"c\":null}}", "\x82\xa1"
                                                "a\x01\xa1"
                                                "b\x81\xa1"
                                                "c\xc0");
}

static void integers_are_exact_to_64_bits(void **state)
{
    (void)state;
    expect_same("0", "\x00");
    expect_same("127", "\x7f");
    expect_same("128", "\xcc\x80");
    expect_same("256", "\xcd\x01\x00");
    expect_same("65536", "\xce\x00\x01\x00\x00");
    expect_same("4294967296", "\xcf\x00\x00\x00\x01\x00\x00\x00\x00");
    expect_same("9007199254740993", "\xcf\x00\x20\x00\x00\x00\x00\x00\x01");
    expect_same("18446744073709551615", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff");
    expect_same("-1", "\xff");
    expect_same("-32", "\xe0");
    expect_same("-33", "\xd0\xdf");
    expect_same("-129", "\xd1\xff\x7f");
    expect_same("-32769", "\xd2\xff\xff\x7f\xff");
    expect_same("-2147483649", "\xd3\xff\xff\xff\xff\x7f\xff\xff\xff");
    expect_same("-9223372036854775808", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00");
    expect_json(STR("\xd0\x05"), "5"); /* longer than needed */
    expect_json(STR("\xd3\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
}

static void floats_stay_floats(void **state)
{
    (void)state;
    expect_same("1.0", "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00");
    expect_same("-0.0", "\xcb\x80\x00\x00\x00\x00\x00\x00\x00");
    expect_same("0.1", "\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a");
    expect_json(STR("\xca\x3f\xc0\x00\x00"), "1.5");
    expect_packed("1e0", STR("\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"));
    expect_packed("1.50", STR("\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"));
}

static void numbers_beyond_64_bits_become_the_nearest_float(void **state)
{
    (void)state;
    expect_packed("18446744073709551616", STR("\xcb\x43\xf0\x00\x00\x00\x00\x00\x00"));
    expect_packed("-9223372036854775809", STR("\xcb\xc3\xe0\x00\x00\x00\x00\x00\x00"));
    expect_packed("1e999", STR("\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"));
    expect_packed("-1e999", STR("\xcb\xff\xf0\x00\x00\x00\x00\x00\x00"));
}

static void floats_come_back_bit_by_bit(void **state)
{
    (void)state;
    const double values[] = {DBL_MAX,       DBL_MIN, 5e-324,  -DBL_MAX,
                             1e15,          1e16,    1e17,    1e21,
                             123456789.125, M_PI,    1.0 / 3, 9007199254740992.0};
    for (size_t i = 0; i < COUNT(values); i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], 8);
        char packed[9] = {(char)0xcb};
        for (int k = 0; k < 8; k++)
            packed[1 + k] = (char)(bits >> (56 - 8 * k));
        struct buf json = {0}, again = {0};
        struct str text = to_json(&json, (struct str){packed, 9});
        assert_true(str_eq(from_json(&again, text), (struct str){packed, 9}));
        buf_fini(&json);
        buf_fini(&again);
    }
}

static void strings_keep_every_character(void **state)
{
    (void)state;
    expect_same("\"\\\"\\\\\"", "\xa2\"\\");
    expect_same("\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"",
                "\xa9\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_packed("\"\\u0041\\n\\ud83d\\ude00\"", STR("\xa6"
                                                      "A\n\xf0\x9f\x98\x80"));
    struct buf json = {0}, again = {0};
    struct str packed = STR("\xa4\x00\x1f\x7f/");
    assert_true(str_eq(from_json(&again, to_json(&json, packed)), packed));
    buf_fini(&json);
    buf_fini(&again);
}

static void half_a_surrogate_pair_becomes_the_replacement_character(void **state)
{
    (void)state;
    expect_packed("\"\\ud800\"", STR("\xa3\xef\xbf\xbd"));
    expect_packed("\"\\ude00x\"", STR("\xa4\xef\xbf\xbdx"));
    expect_packed("\"\\ud800\\ud83d\\ude00\"", STR("\xa7\xef\xbf\xbd\xf0\x9f\x98\x80"));
    expect_packed("\"\\\\ud800\\uDFFF\"", STR("\xa9\\ud800\xef\xbf\xbd"));
    expect_packed("\"\\ud800\\n\\u00e4\"", STR("\xa6\xef\xbf\xbd\n\xc3\xa4"));
}

/* n elements of an array, or members of a map, and back. */
static void expect_long(size_t n, bool map, struct str header)
{
    struct buf json = {0}, packed = {0}, again = {0};
    buf_byte(&json, map ? '{' : '[');
    for (size_t i = 0; i < n; i++)
        buf_print(&json, map ? "%s\"k\":[7]" : "%s[7]", i ? "," : "");
    buf_byte(&json, map ? '}' : ']');
    struct str got = from_json(&packed, buf_view(&json));
    assert_true(got.len == header.len + n * (map ? 4 : 2));
    assert_memory_equal(got.at, header.at, header.len);
    assert_true(str_eq(to_json(&again, got), buf_view(&json)));
    buf_fini(&json);
    buf_fini(&packed);
    buf_fini(&again);
}

static void headers_are_as_short_as_can_be(void **state)
{
    (void)state;
    expect_long(15, false, STR("\x9f"));
    expect_long(16, false, STR("\xdc\x00\x10"));
    expect_long(65535, false, STR("\xdc\xff\xff"));
    expect_long(65536, false, STR("\xdd\x00\x01\x00\x00"));
    expect_long(15, true, STR("\x8f"));
    expect_long(16, true, STR("\xde\x00\x10"));
    expect_long(65536, true, STR("\xdf\x00\x01\x00\x00"));
}

static void long_containers_inside_long_ones_stay_in_place(void **state)
{
    (void)state;
    struct buf json = {0}, packed = {0}, again = {0};
    buf_lit(&json, "[");
    for (int i = 0; i < 20; i++) {
        buf_print(&json, "%s[", i ? "," : "");
        for (int k = 0; k < 20; k++)
            buf_print(&json, "%s%d", k ? "," : "", 20 * i + k);
        buf_lit(&json, "]");
    }
    buf_lit(&json, "]");
    from_json(&packed, buf_view(&json));
    assert_true(str_eq(to_json(&again, buf_view(&packed)), buf_view(&json)));
    buf_fini(&json);
    buf_fini(&packed);
    buf_fini(&again);
}

static void white_space_in_json_is_passed_over(void **state)
{
    (void)state;
    expect_packed(" { \"a\" :\n[ 1 ,\t2 ] }\r\n", STR("\x81\xa1"
                                                      "a\x92\x01\x02"));
}

static void msgpack_c_reads_what_we_write(void **state)
{
    (void)state;
    struct buf packed = {0};
    from_json(&packed, STR("{\"a\":[1,-1,1.5,\"x\",null,true]}"));
    msgpack_unpacked u;
    msgpack_unpacked_init(&u);
    size_t used = 0;
    assert_int_equal(msgpack_unpack_next(&u, packed.at, packed.len, &used), MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(used, packed.len);
    assert_int_equal(u.data.type, MSGPACK_OBJECT_MAP);
    const msgpack_object *list = &u.data.via.map.ptr[0].val;
    assert_int_equal(list->via.array.size, 6);
    assert_int_equal(list->via.array.ptr[1].via.i64, -1);
    assert_true(list->via.array.ptr[2].via.f64 == 1.5);
    msgpack_unpacked_destroy(&u);
    buf_fini(&packed);
}

/* --- what is refused --- */

static void what_json_has_not_is_refused(void **state)
{
    (void)state;
    expect_error(STR("\x91\xc4\x01x"), ERR_BAD_TYPE, 1);                         /* bytes */
    expect_error(STR("\xc5\x00\x01x"), ERR_BAD_TYPE, 0);                         /* bytes */
    expect_error(STR("\xc6\x00\x00\x00\x01x"), ERR_BAD_TYPE, 0);                 /* bytes */
    expect_error(STR("\x92\x01\xd4\x01x"), ERR_BAD_TYPE, 2);                     /* ext */
    expect_error(STR("\xc7\x01\x05x"), ERR_BAD_TYPE, 0);                         /* ext */
    expect_error(STR("\xd6\xff\x00\x00\x00\x00"), ERR_BAD_TYPE, 0);              /* timestamp */
    expect_error(STR("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), ERR_BAD_VALUE, 0); /* NaN */
    expect_error(STR("\x91\xcb\xff\xf0\x00\x00\x00\x00\x00\x00"), ERR_BAD_VALUE, 1);
    expect_error(STR("\xca\x7f\x80\x00\x00"), ERR_BAD_VALUE, 0);
    expect_error(STR("\x81\x01\x02"), ERR_BAD_TYPE, 1); /* a key that is not a string */
    expect_error(STR("\x82\xa1"
                     "a\x01\xc0\x02"),
                 ERR_BAD_TYPE, 4);
}

static void what_is_broken_is_refused_with_its_place(void **state)
{
    (void)state;
    expect_error(STR(""), ERR_BAD_MSGPACK, 0);
    expect_error(STR("\xc1"), ERR_BAD_MSGPACK, 0);
    expect_error(STR("\x01\x02"), ERR_BAD_MSGPACK, 1);
    expect_error(STR("\xa3"
                     "ab"),
                 ERR_BAD_MSGPACK, 3);
    expect_error(STR("\xcd\x01"), ERR_BAD_MSGPACK, 2);
    expect_error(STR("\x92\x01"), ERR_BAD_MSGPACK, 2);
    expect_error(STR("\xdd\xff\xff\xff\xff\x01"), ERR_BAD_MSGPACK, 6);
    expect_error(STR("\xdf\xff\xff\xff\xff\xa0"), ERR_BAD_MSGPACK, 6);
    expect_error(STR("\xdb\xff\xff\xff\xff"), ERR_BAD_MSGPACK, 5);
    expect_error(STR("\x91\xa3"
                     "a\xff"
                     "b"),
                 ERR_BAD_UTF8, 3);
    expect_error(STR("\xa3\xed\xa0\x80"), ERR_BAD_UTF8, 1); /* a surrogate */
}

/* A string of control characters is six times as long in JSON: it must not be written out first. */
static void what_grows_beyond_the_limit_is_refused_while_it_grows(void **state)
{
    (void)state;
    enum { LEN = 1000000, MOST = 200000 };
    struct buf packed = {0}, json = {0};
    buf_add(&packed, "\xdb\x00\x0f\x42\x40", 5);
    memset(buf_room(&packed, LEN), 1, LEN);
    packed.len += LEN;
    assert_int_equal(wire_msgpack_to_json(buf_view(&packed), MOST, &json).code, ERR_LENGTH);
    assert_true(json.len < 3 * MOST);
    json.len = 0;
    assert_ok(wire_msgpack_to_json(buf_view(&packed), 6 * LEN + 2, &json));
    assert_int_equal(json.len, 6 * LEN + 2);
    json.len = 0;
    assert_int_equal(wire_msgpack_to_json(buf_view(&packed), 6 * LEN + 1, &json).code, ERR_LENGTH);
    buf_fini(&packed);
    buf_fini(&json);
}

/* Strings are written in pieces of 64 KiB, which may end inside of a character. */
static void long_strings_are_whole(void **state)
{
    (void)state;
    struct buf packed = {0}, json = {0}, back = {0};
    buf_add(&packed, "\xdb\x00\x03\x00\x01x", 6);
    for (int i = 0; i < 0x30000 / 3; i++)
        buf_lit(&packed, "\xe2\x82\xac");
    assert_ok(wire_msgpack_to_json(buf_view(&packed), SIZE_MAX, &json));
    assert_ok(wire_msgpack_from_json(buf_view(&json), &back));
    assert_int_equal(back.len, packed.len);
    assert_memory_equal(back.at, packed.at, packed.len);
    buf_fini(&packed);
    buf_fini(&json);
    buf_fini(&back);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct buf packed = {0}, json = {0};
    from_json(&packed,
              STR("{\"queue\":\"q\",\"n\":[1,1000,100000,1.5,-1,null,{\"x\":\"yyyyyyyy\"}]}"));
    for (size_t n = 0; n < packed.len; n++) {
        json.len = 0;
        struct err e = wire_msgpack_to_json((struct str){packed.at, n}, SIZE_MAX, &json);
        assert_int_equal(e.code, ERR_BAD_MSGPACK);
        assert_int_equal(e.offset, n);
    }
    buf_fini(&packed);
    buf_fini(&json);
}

static void nesting_is_limited_as_in_json(void **state)
{
    (void)state;
    char deep[JSON_DEPTH_MAX + 2];
    memset(deep, '\x91', sizeof deep);
    deep[JSON_DEPTH_MAX] = '\x01';
    struct buf json = {0};
    to_json(&json, (struct str){deep, JSON_DEPTH_MAX + 1});
    struct json_cursor c = json_open(buf_view(&json));
    assert_ok(json_skip(&c, NULL));
    deep[JSON_DEPTH_MAX] = '\x91';
    deep[JSON_DEPTH_MAX + 1] = '\x01';
    expect_error((struct str){deep, sizeof deep}, ERR_TOO_DEEP, JSON_DEPTH_MAX);
    buf_fini(&json);
}

static void a_reply_may_nest_a_payload_of_the_greatest_depth(void **state)
{
    (void)state;
    struct buf json = {0}, packed = {0};
    buf_lit(&json, "{\"jobs\":[{\"payload\":");
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_byte(&json, '[');
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_byte(&json, ']');
    buf_lit(&json, "}]}");
    from_json(&packed, buf_view(&json));
    buf_fini(&json);
    buf_fini(&packed);
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    const char *const bad[] = {
        "",    "[",     "[1",    "[1,",       "{\"a\"", "{\"a\":", "\"a",  "\"\\",     "nul",
        "1 2", "[1 2]", "{1:2}", "{\"a\" 1}", "x",      "]",       "[1}}", "{\"a\":1]"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct buf b = {0};
        if (wire_msgpack_from_json(str_from(bad[i]), &b).code != ERR_BAD_JSON)
            fail_msg("%s was accepted", bad[i]);
        buf_fini(&b);
    }
}

/* --- places --- */

static void a_place_in_the_json_is_found_in_the_body(void **state)
{
    (void)state;
    /* {"queue":"q","priority":"x"} */
    struct str body = STR("\x82\xa5queue\xa1q\xa8priority\xa1x");
    struct buf json = {0};
    struct str text = to_json(&json, body);
    const char *x = strstr("{\"queue\":\"q\",\"priority\":\"x\"}", "\"x\"");
    assert_non_null(x);
    size_t offset = text.len - strlen("\"x\"}");
    assert_int_equal(wire_msgpack_offset(body, offset), 18);
    assert_int_equal(wire_msgpack_offset(body, 0), 0);
    assert_int_equal(wire_msgpack_offset(body, 1), 1);
    assert_int_equal(wire_msgpack_offset(body, 9), 7);
    assert_int_equal(wire_msgpack_offset(body, 1000), 18);
    buf_fini(&json);
}

/* --- headers --- */

static void media_types_are_told_apart(void **state)
{
    (void)state;
    assert_true(wire_msgpack_is(STR("application/msgpack")));
    assert_true(wire_msgpack_is(STR("Application/X-MsgPack ; charset=x")));
    assert_true(wire_msgpack_is(STR("application/vnd.msgpack")));
    assert_false(wire_msgpack_is(STR("application/json")));
    assert_false(wire_msgpack_is(STR("application/msgpacked")));
    assert_false(wire_msgpack_is(STR("text/plain; x=application/msgpack")));
    assert_false(wire_msgpack_is(STR("")));
}

static void accept_prefers_what_is_best_or_first(void **state)
{
    (void)state;
    assert_true(wire_msgpack_preferred(STR("application/msgpack")));
    assert_true(wire_msgpack_preferred(STR("application/vnd.zizq.msgpack-stream")));
    assert_true(wire_msgpack_preferred(STR("application/msgpack, application/json")));
    assert_true(wire_msgpack_preferred(STR("application/json;q=0.5,application/msgpack;q=0.9")));
    assert_true(wire_msgpack_preferred(STR("*/*;q=0.1, application/msgpack")));
    assert_true(wire_msgpack_preferred(STR("text/html, application/msgpack;q=0.1")));
    assert_false(wire_msgpack_preferred(STR("application/json, application/msgpack")));
    assert_false(wire_msgpack_preferred(STR("application/msgpack;q=0, application/json")));
    assert_false(wire_msgpack_preferred(STR("application/msgpack; q=0.2, */*;q=0.3")));
    assert_false(wire_msgpack_preferred(STR("application/msgpack;q=0")));
    assert_false(wire_msgpack_preferred(STR("")));
    assert_false(wire_msgpack_preferred(STR(",;,q")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_namesake),
        cmocka_unit_test(integers_are_exact_to_64_bits),
        cmocka_unit_test(floats_stay_floats),
        cmocka_unit_test(numbers_beyond_64_bits_become_the_nearest_float),
        cmocka_unit_test(floats_come_back_bit_by_bit),
        cmocka_unit_test(strings_keep_every_character),
        cmocka_unit_test(half_a_surrogate_pair_becomes_the_replacement_character),
        cmocka_unit_test(headers_are_as_short_as_can_be),
        cmocka_unit_test(long_containers_inside_long_ones_stay_in_place),
        cmocka_unit_test(white_space_in_json_is_passed_over),
        cmocka_unit_test(msgpack_c_reads_what_we_write),
        cmocka_unit_test(what_json_has_not_is_refused),
        cmocka_unit_test(what_is_broken_is_refused_with_its_place),
        cmocka_unit_test(what_grows_beyond_the_limit_is_refused_while_it_grows),
        cmocka_unit_test(long_strings_are_whole),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(nesting_is_limited_as_in_json),
        cmocka_unit_test(a_reply_may_nest_a_payload_of_the_greatest_depth),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(a_place_in_the_json_is_found_in_the_body),
        cmocka_unit_test(media_types_are_told_apart),
        cmocka_unit_test(accept_prefers_what_is_best_or_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
