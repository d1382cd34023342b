/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client/yaml_text.h"

static void assert_yaml(void (*write)(struct buf *, struct str), const char *json, const char *yaml)
{
    struct buf b = {0};
    write(&b, str_from(json));
    buf_byte(&b, '\0');
    assert_string_equal(b.at, yaml);
    buf_fini(&b);
}

static void members_and_items_have_lines_of_their_own(void **state)
{
    (void)state;
    assert_yaml(yaml_text, "{\"a\":{\"b\":[1,{\"c\":2,\"d\":[]}],\"e\":{}}}",
                "a:\n"
                "  b:\n"
                "    - 1\n"
                "    - c: 2\n"
                "      d: []\n"
                "  e: {}\n");
    assert_yaml(yaml_text, "[[1,2],[]]",
                "- - 1\n"
                "  - 2\n"
                "- []\n");
    assert_yaml(yaml_text_item, "{\"a\":1,\"b\":{\"c\":2}}",
                "- a: 1\n"
                "  b:\n"
                "    c: 2\n");
    assert_yaml(yaml_text_item, "{}", "- {}\n");
}

static void numbers_keep_their_digits(void **state)
{
    (void)state;
    assert_yaml(yaml_text, "[12345678901234567890123,1.0,1e3,null,true]",
                "- 12345678901234567890123\n- 1.0\n- 1e3\n- null\n- true\n");
}

static void texts_stay_texts(void **state)
{
    (void)state;
    assert_yaml(yaml_text,
                "[\"true\",\"No\",\"12\",\"\",\"a b\",\"a: b\",\"- a\",\"x#\",\"mail/v1.2\"]",
                "- \"true\"\n- \"No\"\n- \"12\"\n- \"\"\n- a b\n- \"a: b\"\n- \"- a\"\n- \"x#\"\n"
                "- mail/v1.2\n");
    assert_yaml(yaml_text, "{\"a b\":1,\"on\":2,\"1\":3}", "a b: 1\n\"on\": 2\n\"1\": 3\n");
}

static void characters_that_yaml_does_not_print_are_escaped(void **state)
{
    (void)state;
    assert_yaml(yaml_text, "\"\\ud83d\\ude00 ä\\n\\u007f\\u0085\\u2028\\ufeff \\\"\\\\\"",
                "\"\xf0\x9f\x98\x80 ä\\u000a\\u007f\\u0085\\u2028\\ufeff \\\"\\\\\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_and_items_have_lines_of_their_own),
        cmocka_unit_test(numbers_keep_their_digits),
        cmocka_unit_test(texts_stay_texts),
        cmocka_unit_test(characters_that_yaml_does_not_print_are_escaped),
    };
    return cmocka_run_group_tests_name("client/yaml_text", tests, NULL, NULL);
}
