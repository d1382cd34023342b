/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/json.h"
#include "kube/kube_template.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static const struct document_node *look_up(const void *values, struct str name)
{
    return kube_template_path(values, name);
}

static const struct document_node *values_of(const char *json)
{
    struct document_list list;
    struct document_fault fault;
    assert_true(document_read(str_from(json), DOCUMENT_JSON, &memory, &list, &fault));
    return list.first;
}

/* What the template becomes, as JSON; or the fault, after "! ". */
static const char *fill(const char *text, const char *values)
{
    struct kube_template *t;
    struct document_node *root;
    struct document_fault fault;
    struct buf b = {0};
    if (kube_template_read(str_from(text), &memory, &t, &fault) &&
        kube_template_fill(t, look_up, values_of(values), &memory, &root, &fault)) {
        document_write_json(root, &b);
    } else {
        buf_lit(&b, "! ");
        document_fault_write(&fault, &b);
    }
    buf_byte(&b, '\0');
    const char *out = arena_copy(&memory, buf_view(&b)).at;
    buf_fini(&b);
    return out;
}

static void holes_are_filled(void **state)
{
    (void)state;
    static const struct {
        const char *text, *values, *out;
    } rows[] = {
        {"image: {{image}}", "{\"image\": \"busybox:1\"}", "{\"image\": \"busybox:1\"}"},
        {"image: {{ image }}", "{\"image\": \"busybox:1\"}", "{\"image\": \"busybox:1\"}"},
        {"a: {{n}}\nb: \"{{n}}\"\nc: '{{n}}'\nd: n={{n}}", "{\"n\": 5}",
         "{\"a\": 5, \"b\": \"5\", \"c\": \"5\", \"d\": \"n=5\"}"},
        {"a: {{t}}\nb: \"{{t}}\"\nc: {{z}}\nd: x{{z}}y", "{\"t\": true, \"z\": null}",
         "{\"a\": true, \"b\": \"true\", \"c\": null, \"d\": \"xy\"}"},
        {"a: {{s}}", "{\"s\": \"true\"}", "{\"a\": \"true\"}"},
        {"a: {{s}}", "{\"s\": \"12\"}", "{\"a\": \"12\"}"},
        {"a: {{s}}", "{\"s\": \"\"}", "{\"a\": \"\"}"},
        {"a: {{b.c-d.e_1}}", "{\"b\": {\"c-d\": {\"e_1\": 1.50}}}", "{\"a\": 1.50}"},
        {"args: [{{x}}, \"--to={{x}}\", {{y}}]", "{\"x\": \"p\", \"y\": 2}",
         "{\"args\": [\"p\", \"--to=p\", 2]}"},
        {"a: {{x}}{{y}}", "{\"x\": 1, \"y\": 2}", "{\"a\": \"12\"}"},
        {"run: |\n  echo {{x}}\n  echo {{y}}\n", "{\"x\": \"one\", \"y\": \"two\"}",
         "{\"run\": \"echo one\\necho two\\n\"}"},
        {"run: >\n  echo {{x}}\n  more\n", "{\"x\": \"one\"}", "{\"run\": \"echo one more\\n\"}"},
        {"# {{comment}}\na: 1", "{}", "{\"a\": 1}"},
        {"a: {b: 1}", "{}", "{\"a\": {\"b\": 1}}"},
        {"{\"a\": \"{{x}}\"}", "{\"x\": \"y\"}", "{\"a\": \"y\"}"},
        {"\xc3\xbc: {{x}}\nb: \"\xc3\xbc{{x}}\"", "{\"x\": 3}",
         "{\"\xc3\xbc\": 3, \"b\": \"\xc3\xbc\x33\"}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(fill(rows[i].text, rows[i].values), rows[i].out);
}

/* Whatever a value is, it is one scalar, and nothing else changes. */
static void no_value_breaks_out_of_its_scalar(void **state)
{
    (void)state;
    static const char *const values[] = {
        "\"",
        "'",
        "x\", \"privileged\": true, \"y\": \"",
        "x'\nprivileged: true\ny: '",
        "x\n  securityContext: {privileged: true}",
        "x # comment",
        "- a\n- b",
        "{a: b}",
        "[1, 2]",
        "!!binary aGk=",
        "*alias",
        "&anchor x",
        "---\nkind: Secret\n...",
        "key: value",
        "\t\r\n \x7f\xe2\x80\xa8",
        "{{other}}",
        "\xee\x80\x80\xee\x80\x80other\xee\x80\x81\xee\x80\x81",
        "\xee\x80\x82other",
        "\\u0022",
        "| x",
        "> x",
        "% x",
        "@x",
        "`x",
        "~",
    };
    static const char *const texts[] = {"a: {{v}}\nz: 1",       "a: \"{{v}}\"\nz: 1",
                                        "a: '{{v}}'\nz: 1",     "a: |-\n  {{v}}\nz: 1",
                                        "a: >-\n  {{v}}\nz: 1", "{a: {{v}}, z: 1}"};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct buf json = {0}, want = {0};
        buf_lit(&json, "{\"other\": \"never\", \"v\": ");
        json_write_string(&json, str_from(values[i]));
        buf_lit(&json, "}");
        buf_byte(&json, '\0');
        buf_lit(&want, "{\"a\": ");
        json_write_string(&want, str_from(values[i]));
        buf_lit(&want, ", \"z\": 1}");
        buf_byte(&want, '\0');
        for (size_t k = 0; k < COUNT(texts); k++)
            assert_string_equal(fill(texts[k], json.at), want.at);
        buf_fini(&json);
        buf_fini(&want);
    }
}

static void faults_name_the_hole_and_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *values, *fault;
    } rows[] = {
        {"a: 1\nb: x {{y}}", "{}", "! line 2, column 4: expected a value for {{y}}, found none"},
        {"a: {{l}}", "{\"l\": [1]}",
         "! line 1, column 4: expected a text, number or boolean for {{l}}, found a list"},
        {"a: \"{{l.m}}\"", "{\"l\": {\"m\": {}}}",
         "! line 1, column 4: expected a text, number or boolean for {{l.m}}, found an object"},
        {"a: {{l.m.n}}", "{\"l\": {\"m\": 1}}",
         "! line 1, column 4: expected a value for {{l.m.n}}, found none"},
        {"a: {{#each}}", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}, "
         "found #each"},
        {"a: {{{x}}}", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}, "
         "found {x"},
        {"a: {{x", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}, "
         "found x"},
        {"a: {{}}", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}"},
        {"a: {{x..y}}", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}, "
         "found x..y"},
        {"a: {{.x}}", "{}",
         "! line 1, column 4: expected a name between {{ and }}, as in {{image}} or {{mail.to}}, "
         "found .x"},
        {"a:\n  {{x}}: 1", "{}",
         "! line 2, column 3: expected a key without {{ }}: only values are filled in"},
        {"a: \"\\ue000\\ue000x\"", "{}",
         "! line 1, column 4: expected a text without the characters U+E000 to U+E002"},
        {"a: \"\\ue000\\ue000x y\\ue001\\ue001\"", "{}",
         "! line 1, column 4: expected a text without the characters U+E000 to U+E002"},
        {"a: \"\\ue002x\"", "{}",
         "! line 1, column 4: expected a text without the characters U+E000 to U+E002"},
        {"a: \xee\x80\x80", "{}", "! expected a template without the characters U+E000 to U+E002"},
        {"a: 1\n---\nb: 2", "{}", "! line 3, column 1: expected one document, found 2"},
        {"", "{}", "! expected one document, found none"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(fill(rows[i].text, rows[i].values), rows[i].fault);
    assert_non_null(strstr(fill("a: \"b\nc: {{x}}", "{}"), "! line "));
}

static void a_template_is_filled_any_number_of_times(void **state)
{
    (void)state;
    struct kube_template *t;
    struct document_fault fault;
    assert_true(kube_template_read(STR("a: {{x}}"), &memory, &t, &fault));
    for (int i = 0; i < 3; i++) {
        char values[32], want[32];
        struct document_node *root;
        struct buf b = {0};
        snprintf(values, sizeof values, "{\"x\": %d}", i);
        snprintf(want, sizeof want, "{\"a\": %d}", i);
        assert_true(kube_template_fill(t, look_up, values_of(values), &memory, &root, &fault));
        document_write_json(root, &b);
        assert_true(str_eq(buf_view(&b), str_from(want)));
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(holes_are_filled, tear_down),
        cmocka_unit_test_teardown(no_value_breaks_out_of_its_scalar, tear_down),
        cmocka_unit_test_teardown(faults_name_the_hole_and_its_place, tear_down),
        cmocka_unit_test_teardown(a_template_is_filled_any_number_of_times, tear_down),
    };
    return cmocka_run_group_tests_name("kube_template", tests, NULL, NULL);
}
