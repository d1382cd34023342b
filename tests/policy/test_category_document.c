/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "policy/category_document.h"

static const char text[] = "apiVersion: tenax.dev/v1\n"
                           "kind: FailureCategories\n"
                           "metadata:\n"
                           "  name: cluster\n"
                           "spec:\n"
                           "  rules:\n"
                           "    - category: gpu\n"
                           "      subcategory: xid-79\n"
                           "      hint: the GPU fell off the bus; drain the node\n"
                           "      containerName: main\n"
                           "      onExitCodes:\n"
                           "        operator: In\n"
                           "        values: [74]\n"
                           "      onTerminationMessage:\n"
                           "        pattern: \"Xid 79\"\n"
                           "    - category: image\n"
                           "      onPodError:\n"
                           "        pattern: ErrImagePull\n"
                           "    - category: storage\n"
                           "      onPodEvent:\n"
                           "        pattern: \"^FailedMount: \"\n"
                           "    - category: memory\n"
                           "      includeInitContainers: true\n"
                           "      onConditions: [OOMKilled]\n";

static void check_refused(const char *bad, const char *expected)
{
    struct category_document d;
    struct document_fault fault;
    assert_false(category_document_parse(str_from(bad), DOCUMENT_ANY, &d, &fault));
    struct buf b = {0};
    document_fault_write(&fault, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void a_categorizer_is_read_and_applied(void **state)
{
    (void)state;
    struct category_document d;
    struct document_fault fault;
    assert_true(category_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault));
    const struct categorizer *c = &d.categorizer;
    assert_true(str_eq(c->name, STR("cluster")));
    struct container_result main = {
        .name = STR("main"), .exit_code = 74, .message = STR("NVRM: Xid 79 ...")};
    struct failure f = {.containers = &main, .container_count = 1};
    struct categorize_verdict v = categorize(&c, 1, &f);
    assert_ptr_equal(v.rule, &c->rules[0]);
    assert_true(str_eq(v.rule->category, STR("gpu")));
    assert_true(str_eq(v.rule->subcategory, STR("xid-79")));
    assert_true(str_eq(v.rule->hint, STR("the GPU fell off the bus; drain the node")));
    struct failure pull = {.exit_code = 1, .pod_error = STR("main: ErrImagePull")};
    assert_ptr_equal(categorize(&c, 1, &pull).rule, &c->rules[1]);
    category_document_free(&d);
}

static void it_is_written_in_canonical_form(void **state)
{
    (void)state;
    struct category_document d;
    struct document_fault fault;
    assert_true(category_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault));
    struct arena a = {0};
    struct buf b = {0};
    document_write_yaml(category_document_tree(&d.categorizer, 0, &a), &b);
    category_document_free(&d);
    assert_true(category_document_parse(buf_view(&b), DOCUMENT_ANY, &d, &fault));
    struct buf again = {0};
    arena_fini(&a);
    document_write_yaml(category_document_tree(&d.categorizer, 0, &a), &again);
    assert_true(str_eq(buf_view(&b), buf_view(&again)));
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.at, "      hint: \"the GPU fell off the bus; drain the node\"\n"));
    assert_non_null(strstr(b.at, "      onPodEvent:\n        pattern: \"^FailedMount: \"\n"));
    category_document_free(&d);
    arena_fini(&a);
    buf_fini(&b);
    buf_fini(&again);
}

#define FRAME                                                                                      \
    "apiVersion: tenax.dev/v1\nkind: FailureCategories\nmetadata: {name: c}\nspec:\n  rules:\n"

static void a_bad_one_is_refused(void **state)
{
    (void)state;
    check_refused("kind: RetryPolicy",
                  "line 1, column 7: kind: expected FailureCategories, found \"RetryPolicy\"");
    check_refused(FRAME "  - onConditions: [Evicted]\n",
                  "line 6, column 5: spec.rules[0].category: expected this field, found nothing");
    check_refused(
        FRAME "  - category: x\n",
        "line 6, column 5: spec.rules[0]: expected at least one of onExitCodes, "
        "onConditions, onTerminationMessage, onError, onPodError and onPodEvent, found a mapping");
    check_refused(
        FRAME "  - {category: x, action: Retry}\n",
        "line 6, column 19: spec.rules[0].action: expected one of the fields category, "
        "subcategory, hint, onExitCodes, onConditions, onTerminationMessage, onError, onPodError, "
        "onPodEvent, containerName, includeInitContainers, found \"action\"");
    check_refused(FRAME "  - {category: x, onConditions: [Evicted]}\n"
                        "  - {category: y, onConditions: [Evicted]}\n",
                  "line 7, column 5: spec.rules[1]: expected matchers of its own: spec.rules[0] "
                  "has the same, so this rule would never be reached, found a mapping");
    check_refused(FRAME "  []\n", "line 6, column 3: spec.rules: expected at least one rule, found "
                                  "an empty list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_categorizer_is_read_and_applied),
        cmocka_unit_test(it_is_written_in_canonical_form),
        cmocka_unit_test(a_bad_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
