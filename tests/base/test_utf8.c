/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/utf8.h"

static void well_formed_text_is_accepted_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "a",
        "\x01\x7f",
        "plain ASCII that is longer than a machine word or two",
        "\xc2\x80 \xdf\xbf",
        "\xe0\xa0\x80 \xe1\x80\x80 \xec\xbf\xbf \xed\x80\x80",
        "\xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf",
        "\xf0\x90\x80\x80 \xf1\x80\x80\x80 \xf3\xbf\xbf\xbf \xf4\x80\x80\x80 \xf4\x8f\xbf\xbf",
        "\xef\xbb\xbf a byte order mark is a character",
        "\xef\xb7\x90\xef\xbf\xbe non-characters are characters",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(utf8_check(str_from(texts[i])), strlen(texts[i]));
    assert_int_equal(utf8_check((struct str){NULL, 0}), 0);
    assert_int_equal(utf8_check((struct str){"\0\0", 2}), 2);
}

/* Every malformed sequence, after 0 to 20 valid bytes and before a valid one. */
static void a_malformed_sequence_is_found_at_its_first_byte(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\xaf",
        "\xc1\xbf",
        "\xc2",
        "\xc2\x41",
        "\xdf\xc0",
        "\xe0\x80\xaf",
        "\xe0\x9f\xbf",
        "\xe1\x80",
        "\xe1",
        "\xe1\x80\x41",
        "\xe1\x80\xc0",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\xaf",
        "\xf0\x8f\xbf\xbf",
        "\xf1\x80\x80",
        "\xf1\x80",
        "\xf1",
        "\xf1\x80\x80\x41",
        "\xf1\x80\x80\xc0",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfc\x84\x80\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (size_t before = 0; before <= 20; before++) {
            char text[32];
            memset(text, 'x', before);
            size_t n = strlen(bad[i]);
            memcpy(text + before, bad[i], n);
            assert_int_equal(utf8_check((struct str){text, before + n}), before);
            text[before + n] = 'x';
            assert_int_equal(utf8_check((struct str){text, before + n + 1}), before);
        }
    }
}

static size_t encode_by_definition(unsigned u, char *to)
{
    size_t n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
    static const unsigned lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; u >>= 6)
        to[i] = (char)(0x80 | (u & 0x3f));
    to[0] = (char)(lead[n] | u);
    return n;
}

static void every_code_point_is_accepted_unless_it_is_a_surrogate_or_too_large(void **state)
{
    (void)state;
    for (unsigned u = 0; u < 0x120000; u++) {
        char text[4];
        size_t n = encode_by_definition(u, text);
        bool good = u <= 0x10ffff && (u < 0xd800 || u > 0xdfff);
        assert_int_equal(utf8_check((struct str){text, n}), good ? n : 0);
        assert_int_equal(utf8_run((struct str){text, n}), good && u >= 0x80 ? n : 0);
        for (size_t cut = 1; cut < n; cut++)
            assert_int_equal(utf8_check((struct str){text, cut}), 0);
    }
}

static void a_run_ends_at_ascii_at_a_fault_and_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(utf8_run(STR("\xc3\xa9\xe6\x97\xa5z")), 5);
    assert_int_equal(utf8_run(STR("\xc3\xa9\xe6\x97")), 2);
    assert_int_equal(utf8_run(STR("\xc3\xa9\xf0\x9f\x98\x80")), 6);
    assert_int_equal(utf8_run(STR("z\xc3\xa9")), 0);
    assert_int_equal(utf8_run((struct str){NULL, 0}), 0);
}

static void a_text_is_cut_between_characters(void **state)
{
    (void)state;
    struct str text = STR("z\xc3\xa9\xe6\x97\xa5");
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6};
    for (size_t most = 0; most < COUNT(cuts); most++)
        assert_int_equal(utf8_whole(text, most), cuts[most]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_text_is_accepted_whole),
        cmocka_unit_test(a_malformed_sequence_is_found_at_its_first_byte),
        cmocka_unit_test(every_code_point_is_accepted_unless_it_is_a_surrogate_or_too_large),
        cmocka_unit_test(a_run_ends_at_ascii_at_a_fault_and_at_the_end),
        cmocka_unit_test(a_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
