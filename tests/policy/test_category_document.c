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
    struct categorize_verdict v = categorize(&c, 1, &f, OUTCOME_FAILED);
    assert_ptr_equal(v.rule, &c->rules[0]);
    assert_true(str_eq(v.rule->category, STR("gpu")));
    assert_true(str_eq(v.rule->subcategory, STR("xid-79")));
    assert_true(str_eq(v.rule->hint, STR("the GPU fell off the bus; drain the node")));
    struct failure pull = {.exit_code = 1, .pod_error = STR("main: ErrImagePull")};
    assert_ptr_equal(categorize(&c, 1, &pull, OUTCOME_FAILED).rule, &c->rules[1]);
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
        "onConditions, onTerminationMessage, onError, onPodError, onPodEvent and onPodEvents, "
        "found a mapping");
    check_refused(FRAME "  - {category: x, action: Retry}\n",
                  "line 6, column 27: spec.rules[0].action: expected Delete or Retain, found "
                  "\"Retry\"");
    check_refused(FRAME "  - {category: x, onPodEvents: {}}\n",
                  "line 6, column 32: spec.rules[0].onPodEvents: expected a regexp, a reason or a "
                  "type, found an empty mapping");
    check_refused(FRAME "  []\n", "line 6, column 3: spec.rules: expected at least one rule, or a "
                                  "defaultCategory, found an empty list");
    check_refused(FRAME "  - {category: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                        "aaaaaa, onConditions: [Evicted]}\n",
                  "line 6, column 16: spec.rules[0].category: expected 1 to 63 bytes of text "
                  "without control characters, found "
                  "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"");
}

static void check_texts(const struct document_node *list, const char *expected)
{
    struct buf b = {0};
    for (const struct document_node *n = list->first; n; n = n->next)
        buf_print(&b, "%.*s\n", STR_ARG(n->text));
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void check_category(const struct category_document *d, struct failure f,
                           const char *category, const char *subcategory)
{
    const struct categorizer *list = &d->categorizer;
    struct categorize_verdict v = categorize(&list, 1, &f, OUTCOME_FAILED);
    assert_true(str_eq(v.category, str_from(category)));
    assert_true(str_eq(v.subcategory, str_from(subcategory)));
}

#define EXECUTOR                                                                                   \
    "kubernetes:\n  impersonateUsers: false\n"                                                     \
    "application:\n  clusterId: one\n  errorCategories:\n"                                         \
    "    enabled: true\n    defaultCategory: uncategorized\n    defaultSubcategory: unknown\n"     \
    "    categories:\n"                                                                            \
    "    - name: infrastructure\n      action: Retain\n      rules:\n"                             \
    "      - {onConditions: [OOMKilled], subcategory: oom, hint: Ask for more}\n"                  \
    "      - {onPodEvents: {regexp: ^devices, reason: UnexpectedAdmissionError, type: Warning}}\n" \
    "    - name: user\n      action: Delete\n      rules:\n"                                       \
    "      - {onExitCodes: {operator: In, values: [42]}, containerName: null}\n"

static struct category_document executor(void)
{
    struct category_document d;
    struct document_fault fault;
    if (!category_document_parse(str_from(EXECUTOR), DOCUMENT_ANY, &d, &fault))
        fail_msg("%s", document_fault_err(&fault).msg);
    return d;
}

static void the_configuration_of_an_executor_is_read_as_it_is(void **state)
{
    (void)state;
    struct category_document d = executor();
    const struct str events[] = {STR("UnexpectedAdmissionError: devices unavailable")},
                     others[] = {STR("FailedMount: devices unavailable")};
    check_texts(d.warnings, "kubernetes has no use here and is not kept\n"
                            "application.clusterId has no use here and is not kept\n"
                            "rules[0].action has no effect: the executor keeps failed pods by its "
                            "own settings\n"
                            "rules[1].action has no effect: the executor keeps failed pods by its "
                            "own settings\n");
    check_category(&d, (struct failure){.condition = CONDITION_OOM_KILLED}, "infrastructure",
                   "oom");
    check_category(&d, (struct failure){.pod_events = events, .pod_event_count = 1},
                   "infrastructure", "");
    check_category(&d, (struct failure){.pod_events = others, .pod_event_count = 1},
                   "uncategorized", "unknown");
    check_category(&d, (struct failure){.exit_code = 42}, "user", "");
    category_document_free(&d);
}

static void what_an_executor_s_configuration_says_is_kept(void **state)
{
    (void)state;
    struct category_document d = executor(), again;
    struct document_fault fault;
    struct arena a = {0};
    struct buf b = {0};
    document_write_json(category_document_tree(&d.categorizer, 0, &a), &b);
    category_document_free(&d);
    assert_true(category_document_parse(buf_view(&b), DOCUMENT_JSON, &again, &fault));
    assert_true(str_eq(again.categorizer.name, STR("armada-executor")));
    assert_true(str_eq(again.categorizer.default_category, STR("uncategorized")));
    assert_int_equal(again.categorizer.rule_count, 3);
    assert_int_equal(again.categorizer.rules[0].action, CATEGORIZE_RETAIN);
    assert_int_equal(again.categorizer.rules[1].match.event_type, MATCHER_WARNING);
    category_document_free(&again);
    arena_fini(&a);
    buf_fini(&b);
}

static void one_that_is_off_says_nothing(void **state)
{
    (void)state;
    struct category_document d;
    struct document_fault fault;
    assert_true(category_document_parse(
        STR("apiVersion: tenax.dev/v1\nkind: FailureCategories\nmetadata: {name: c}\nspec:\n"
            "  enabled: false\n  defaultCategory: d\n  rules:\n"
            "  - {category: x, onExitCodes: {operator: In, values: [1]}}\n"
            "  - {category: y, includeInitContainers: true, onExitCodes: {operator: In, values: "
            "[0]}}\n"
            "  - {category: z, onExitCodes: {operator: In, values: [1]}}\n"),
        DOCUMENT_ANY, &d, &fault));
    check_category(&d, (struct failure){.exit_code = 1}, "", "");
    check_texts(d.warnings, "rules[1].includeInitContainers has no effect: every container that "
                            "failed is examined\n"
                            "rules[1].onExitCodes: exit code 0 never matches\n"
                            "rules[2] can never match: rules[0] has the same matchers\n"
                            "enabled is false: no rule is asked\n");
    category_document_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_categorizer_is_read_and_applied),
        cmocka_unit_test(it_is_written_in_canonical_form),
        cmocka_unit_test(a_bad_one_is_refused),
        cmocka_unit_test(the_configuration_of_an_executor_is_read_as_it_is),
        cmocka_unit_test(what_an_executor_s_configuration_says_is_kept),
        cmocka_unit_test(one_that_is_off_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
