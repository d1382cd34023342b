/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "wire/document.h"

/* All documents of a text as JSON, one per line; or the fault. */
static char *read_as(struct str text, enum document_format format)
{
    struct arena a = {0};
    struct document_list list;
    struct document_fault fault;
    struct buf b = {0};
    if (!document_read(text, format, &a, &list, &fault)) {
        document_fault_write(&fault, &b);
    } else {
        for (const struct document_node *n = list.first; n; n = n->next) {
            document_write_json(n, &b);
            if (n->next)
                buf_lit(&b, "\n");
        }
    }
    buf_byte(&b, '\0');
    arena_fini(&a);
    return b.at;
}

static void check_bytes(struct str text, enum document_format format, const char *expected)
{
    char *got = read_as(text, format);
    assert_string_equal(got, expected);
    free(got);
}

#define check_yaml(text, expected) check_bytes(str_from(text), DOCUMENT_YAML, expected)
#define check_json(text, expected) check_bytes(str_from(text), DOCUMENT_JSON, expected)
#define check_any(text, expected)  check_bytes(str_from(text), DOCUMENT_ANY, expected)

static void scalars_have_the_types_of_the_core_schema(void **state)
{
    (void)state;
    check_yaml("[137, \"137\", -1.5e3, true, True, false, ~, null, no, on, 1h, '', a b]",
               "[137, \"137\", -1.5e3, true, true, false, null, null, \"no\", \"on\", \"1h\", "
               "\"\", \"a b\"]");
    check_yaml("a:\nb: |\n  x\n  y\nc: >-\n  x\n  y\nd: \"\\u00e9\\n\"",
               "{\"a\": null, \"b\": \"x\\ny\\n\", \"c\": \"x y\", \"d\": \"\xc3\xa9\\n\"}");
    check_yaml("{}", "{}");
}

static void numbers_that_json_has_not_are_refused(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0x1F", "0o17",  "+5",   "007",   ".5",   "5.",
                                          ".inf", "-.INF", ".nan", "1e999", "1.2.3"};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char text[32], fault[160];
        snprintf(text, sizeof text, "a: %s", numbers[i]);
        snprintf(fault, sizeof fault,
                 "line 1, column 4: expected a decimal number in JSON's spelling, or quotes if it "
                 "is text, found %s",
                 numbers[i]);
        check_yaml(text, fault);
    }
}

static void several_documents_are_read_and_empty_ones_left_out(void **state)
{
    (void)state;
    check_yaml("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n", "{\"a\": 1}\n{\"b\": 2}");
    check_yaml("", "");
    check_yaml("# nothing\n", "");
}

static void what_json_cannot_say_is_refused(void **state)
{
    (void)state;
    check_yaml("a: &x 1", "line 1, column 7: expected no anchors and no aliases (& and *)");
    check_yaml("a: *x", "line 1, column 5: expected no anchors and no aliases (& and *)");
    check_yaml("a: !!str 3", "line 1, column 10: expected no tags (!)");
    check_yaml("? - a\n: b",
               "line 1, column 3: expected text as the name of a field, found a list");
}

static void an_alias_bomb_is_refused_at_its_first_anchor(void **state)
{
    (void)state;
    check_yaml("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
               "line 1, column 7: expected no anchors and no aliases (& and *)");
}

static void a_field_that_is_given_twice_is_refused(void **state)
{
    (void)state;
    const char *fault = "expected every field once; this one is on line 1 already";
    char text[128];
    snprintf(text, sizeof text, "line 3, column 1: a: %s", fault);
    check_yaml("a: 1\nb: 2\na: 3\n", text);
    snprintf(text, sizeof text, "line 2, column 2: a: %s", fault);
    check_json("{\"a\": 1,\n \"\\u0061\": 2}", text);
}

static void faults_of_syntax_have_a_place(void **state)
{
    (void)state;
    check_yaml("a: b: c", "line 1, column 5: expected valid YAML (invalid nested block mapping on "
                          "the same line)");
    check_yaml("a:\n\tb: 1", "line 2, column 1: expected valid YAML (tab character may not be used "
                             "as indentation)");
    check_json("{\"\xc3\xa9\": [1,\n  x]}",
               "line 2, column 3: expected valid JSON (expected a value, found 'x')");
    check_json("", "line 1, column 1: expected valid JSON (expected a value, found the end of the "
                   "text)");
    check_json("{} {}",
               "line 1, column 4: expected valid JSON (expected the end of the text, found '{')");
    check_json("[1e999]", "line 1, column 2: expected a number below 1.8e308");
}

static void text_that_is_no_text_is_refused(void **state)
{
    (void)state;
    check_yaml("a: 1\nb\xc3\xa9: \xff", "line 2, column 5: expected text in UTF-8 without zero "
                                        "bytes, found the byte 0xff");
    check_bytes((struct str){"a: \0", 4}, DOCUMENT_YAML,
                "line 1, column 4: expected text in UTF-8 without zero bytes, found the byte 0x00");
    check_json("{\"a\": \"\\ud800\"}",
               "line 1, column 8: expected valid JSON (\\ud800 is half of a surrogate pair and "
               "stands for no character)");
}

static void json_is_recognised(void **state)
{
    (void)state;
    check_any(" {\"a\": \"\\ud83d\\ude00\"}", "{\"a\": \"\xf0\x9f\x98\x80\"}");
    check_any("{a: b}", "{\"a\": \"b\"}");
    check_any("a: b", "{\"a\": \"b\"}");
}

static void a_text_over_1_mib_is_refused(void **state)
{
    (void)state;
    struct str text = {alloc_zero(DOCUMENT_TEXT_MAX + 1), DOCUMENT_TEXT_MAX + 1};
    memset((char *)text.at, ' ', text.len);
    check_bytes(text, DOCUMENT_YAML, "expected at most 1048576 bytes, found 1048577");
    free((char *)text.at);
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    char text[200];
    memset(text, '[', sizeof text);
    text[sizeof text - 1] = '\0';
    check_yaml(text, "line 1, column 33: expected at most 32 levels of nesting");
    check_json(text, "line 1, column 33: expected at most 32 levels of nesting");
}

static void lists_and_mappings_have_a_limit(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "[");
    for (int i = 0; i < DOCUMENT_ENTRIES_MAX; i++)
        buf_lit(&b, "1,");
    buf_lit(&b, "1]");
    check_bytes(buf_view(&b), DOCUMENT_YAML,
                "line 1, column 65538: expected at most 32768 entries in a list");
    check_bytes(buf_view(&b), DOCUMENT_JSON,
                "line 1, column 65538: expected at most 32768 entries in a list");
    b.len = 0;
    buf_lit(&b, "{");
    for (int i = 0; i < DOCUMENT_MEMBERS_MAX; i++)
        buf_print(&b, "\"%04d\":1,", i);
    buf_lit(&b, "\"z\":1}");
    check_bytes(buf_view(&b), DOCUMENT_JSON,
                "line 1, column 9222: expected at most 1024 entries in a mapping");
    buf_fini(&b);
}

static void parts_have_a_limit_even_empty_ones(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 100000; i++)
        buf_lit(&b, "---\n");
    char *got = read_as(buf_view(&b), DOCUMENT_YAML);
    assert_non_null(strstr(got, "expected a text with fewer parts"));
    free(got);
    buf_fini(&b);
}

static void what_is_written_as_yaml_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\": [{\"b\": [1, [2, {\"c\": {}}], []], \"d\": null}, [[\"x\"], true]], \"e\": -1.5}",
        "[\"yes\", \"No\", \"null\", \"~\", \"\", \" \", \"1\", \"a: b\", \"- a\", \"#\", "
        "\"a-b/c.d\"]",
        "{\"\": {\"k: v\": \"\\u0000\\u0007\\\\\\\"\\n\\r\\t\"}, \"on\": "
        "\"\\u007f\\u0085\\u2028\\ufeff\\uffff\"}",
        "[[[[\"deep\"]], {}], {\"a\": {\"b\": {\"c\": 1}}}]",
        "\"\xf0\x9f\x98\x80 \xc3\xa9\"",
        "7",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct arena a = {0};
        struct document_list list;
        struct document_fault fault;
        struct buf json = {0}, yaml = {0};
        assert_true(document_read(str_from(texts[i]), DOCUMENT_JSON, &a, &list, &fault));
        document_write_json(list.first, &json);
        buf_byte(&json, '\0');
        document_write_yaml(list.first, &yaml);
        check_bytes(buf_view(&yaml), DOCUMENT_YAML, json.at);
        buf_fini(&json);
        buf_fini(&yaml);
        arena_fini(&a);
    }
}

static void yaml_is_written_in_blocks(void **state)
{
    (void)state;
    struct arena a = {0};
    struct document_node *root = document_map(&a);
    document_add(root, "kind", document_string(&a, STR("RetryPolicy")));
    struct document_node *rules = document_add(root, "rules", document_list(&a));
    struct document_node *rule = document_add(rules, "", document_map(&a));
    struct document_node *values = document_add(rule, "values", document_list(&a));
    document_add(values, "", document_int(&a, 137));
    document_add(values, "", document_double(&a, 1.5));
    document_add(rule, "init", document_bool(&a, true));
    struct buf b = {0};
    document_write_yaml(root, &b);
    assert_true(str_eq(buf_view(&b), STR("kind: RetryPolicy\n"
                                         "rules:\n"
                                         "  - values: [137, 1.5]\n"
                                         "    init: true\n")));
    assert_true(str_eq(document_text(root, "kind"), STR("RetryPolicy")));
    assert_int_equal(document_text(root, "rules").len, 0);
    assert_null(document_member(root, "absent"));
    buf_fini(&b);
    arena_fini(&a);
}

/* The library says of such a text that it is longer than it is. */
static void a_folded_text_holds_nothing_of_the_memory_before_it(void **state)
{
    (void)state;
    static const char yaml[] = "- a\n-\n  - >-\n  - >-\n    folded\n    text\n  - \"x\"\n";
    for (size_t n = 1; n < 64; n++) {
        void *used[32];
        for (size_t i = 0; i < COUNT(used); i++)
            used[i] = memset(malloc(n * 8), 'J', n * 8);
        for (size_t i = 0; i < COUNT(used); i++)
            free(used[i]);
        struct arena a = {0};
        struct document_list list;
        struct document_fault fault;
        struct buf json = {0};
        assert_true(document_read(str_from(yaml), DOCUMENT_YAML, &a, &list, &fault));
        document_write_json(list.first, &json);
        assert_null(memchr(json.at, 'J', json.len));
        buf_fini(&json);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_have_the_types_of_the_core_schema),
        cmocka_unit_test(numbers_that_json_has_not_are_refused),
        cmocka_unit_test(several_documents_are_read_and_empty_ones_left_out),
        cmocka_unit_test(what_json_cannot_say_is_refused),
        cmocka_unit_test(an_alias_bomb_is_refused_at_its_first_anchor),
        cmocka_unit_test(a_field_that_is_given_twice_is_refused),
        cmocka_unit_test(faults_of_syntax_have_a_place),
        cmocka_unit_test(text_that_is_no_text_is_refused),
        cmocka_unit_test(json_is_recognised),
        cmocka_unit_test(a_text_over_1_mib_is_refused),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(lists_and_mappings_have_a_limit),
        cmocka_unit_test(parts_have_a_limit_even_empty_ones),
        cmocka_unit_test(what_is_written_as_yaml_reads_back_the_same),
        cmocka_unit_test(yaml_is_written_in_blocks),
        cmocka_unit_test(a_folded_text_holds_nothing_of_the_memory_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
