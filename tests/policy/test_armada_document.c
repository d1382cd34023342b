/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/quantity.h"
#include "policy/policy_document.h"

#define HEAD "apiVersion: armadaproject.io/v1beta1\nkind: RetryPolicy\n"

static const char released[] = HEAD "name: gpu-batch\n"
                                    "retryLimit: 3\n"
                                    "defaultAction: Fail\n"
                                    "rules:\n"
                                    "- action: Fail\n"
                                    "  onCategory: user-error\n"
                                    "- action: Retry\n"
                                    "  onCategory: gpu\n"
                                    "  onSubcategory: lost\n"
                                    "  mutate:\n"
                                    "    affinity:\n"
                                    "      avoidSameNode: true\n"
                                    "- action: RETRY_ACTION_RETRY\n"
                                    "  onCategory: oom\n"
                                    "  mutate:\n"
                                    "    resources:\n"
                                    "      memory:\n"
                                    "        factor: 1.5\n";

static const char canonical[] = "apiVersion: tenax.dev/v1\n"
                                "kind: RetryPolicy\n"
                                "metadata:\n"
                                "  name: gpu-batch\n"
                                "spec:\n"
                                "  defaultAction: Fail\n"
                                "  retryLimitPer: policy\n"
                                "  retryLimit: 3\n"
                                "  rules:\n"
                                "    - action: Fail\n"
                                "      onFailureCategory: [user-error]\n"
                                "    - action: Retry\n"
                                "      onFailureCategory: [gpu]\n"
                                "      onFailureSubcategory: [lost]\n"
                                "      antiAffinity:\n"
                                "        mode: node\n"
                                "    - action: Retry\n"
                                "      onFailureCategory: [oom]\n"
                                "      mutations:\n"
                                "        memory:\n"
                                "          factor: 1.5\n"
                                "          max: \"1Ei\"\n";

static struct policy_document accepted(const char *text)
{
    struct policy_document d;
    struct document_fault fault;
    if (!policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault))
        fail_msg("%s", document_fault_err(&fault).msg);
    return d;
}

static void check_written(const struct policy *p, const char *expected)
{
    struct arena a = {0};
    struct buf b = {0};
    document_write_yaml(policy_document_tree(p, 0, &a), &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
    arena_fini(&a);
}

static void check_refused(const char *text, const char *expected)
{
    struct policy_document d;
    struct document_fault fault;
    assert_false(policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault));
    struct buf b = {0};
    document_fault_write(&fault, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void check_warned(const char *text, const char *expected)
{
    struct policy_document d = accepted(text);
    struct buf b = {0};
    for (const struct document_node *n = d.warnings->first; n; n = n->next)
        buf_print(&b, "%.*s\n", STR_ARG(n->text));
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
    policy_document_free(&d);
}

static void the_released_format_is_read_and_written_as_our_own(void **state)
{
    (void)state;
    struct policy_document d = accepted(released);
    check_written(&d.policy, canonical);
    policy_document_free(&d);
    d = accepted(canonical);
    check_written(&d.policy, canonical);
    assert_int_equal(d.warnings->count, 0);
    policy_document_free(&d);
}

static struct policy_verdict judge(const struct policy_document *d, struct failure f,
                                   const struct policy_count *count)
{
    const struct policy *list[] = {&d->policy};
    const struct policy_settings settings = {.enabled = true, .global_max_retries = 20};
    struct rng rng = rng_from_seed(1);
    return policy_evaluate(list, 1, &settings, &f, count, count ? 1 : 0, 0, &rng);
}

static void its_rules_match_category_and_subcategory_to_the_byte(void **state)
{
    (void)state;
    struct policy_document d = accepted(released);
    const struct {
        const char *category, *subcategory;
        int rule;
    } cases[] = {{"user-error", "x", 0}, {"gpu", "lost", 1}, {"gpu", "Lost", -1}, {"gpu", "", -1},
                 {"GPU", "lost", -1},    {"oom", "", 2},     {"oom", "any", 2}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure f = {.category = str_from(cases[i].category),
                            .subcategory = str_from(cases[i].subcategory)};
        assert_int_equal(judge(&d, f, NULL).rule, cases[i].rule);
    }
    policy_document_free(&d);
}

/* Armada compares one count of a job's retries with the policy's limit. */
static void its_limit_is_one_for_all_its_rules(void **state)
{
    (void)state;
    struct policy_document d = accepted(released);
    struct failure gpu = {.category = STR("gpu"), .subcategory = STR("lost")};
    struct failure oom = {.category = STR("oom")};
    struct policy_count count = {0};
    for (int i = 0; i < 3; i++) {
        struct policy_verdict v = judge(&d, i % 2 ? oom : gpu, i ? &count : NULL);
        assert_true(v.retry);
        assert_int_equal(v.count, i + 1);
        count = v.slot;
    }
    struct policy_verdict v = judge(&d, oom, &count);
    assert_false(v.retry);
    assert_string_equal(v.reason, "dead: rule 3 of policy gpu-batch (category oom): the policy "
                                  "allows 3 retries in all");
    policy_document_free(&d);
}

static void what_it_cannot_mean_is_refused_with_its_place(void **state)
{
    (void)state;
    check_refused(HEAD "name: a\nretryLimit: 1\n", "line 1, column 1: defaultAction: expected this "
                                                   "field, found nothing");
    check_refused(HEAD "name: A\ndefaultAction: Fail\n",
                  "line 3, column 7: name: expected a name of up to 63 lower case letters, digits "
                  "and '-', which may not be first or last, found \"A\"");
    check_refused(HEAD "name: a\ndefaultAction: Maybe\n",
                  "line 4, column 16: defaultAction: expected Retry or Fail, found \"Maybe\"");
    check_refused(HEAD
                  "name: a\ndefaultAction: Fail\nrules:\n- {action: Retry, onSubcategory: b}\n",
                  "line 6, column 3: rules[0].onCategory: expected this field, found nothing");
    check_refused(HEAD "name: a\ndefaultAction: Fail\nrules:\n"
                       "- {action: Retry, onCategory: b, mutate: {resources: {memory: {}}}}\n",
                  "line 6, column 63: rules[0].mutate.resources.memory: expected factor or static, "
                  "and not both, found an empty mapping");
    check_refused(HEAD "name: a\ndefaultAction: 0\n",
                  "line 4, column 16: defaultAction: expected Retry or Fail, found 0");
    check_refused(HEAD "name: a\ndefaultAction: RETRY_ACTION_UNSPECIFIED\n",
                  "line 4, column 16: defaultAction: expected Retry or Fail, found "
                  "\"RETRY_ACTION_UNSPECIFIED\"");
    check_refused(HEAD "name: a\ndefaultAction:\n", "line 1, column 1: defaultAction: expected "
                                                    "this field, found nothing");
    check_refused(HEAD "metadata: {name: a}\ndefaultAction: Fail\n",
                  "line 3, column 1: metadata: expected one of the fields apiVersion, kind, name, "
                  "retryLimit, defaultAction, rules, found \"metadata\"");
}

static void actions_are_read_in_any_case_and_by_number(void **state)
{
    (void)state;
    static const char *const retry[] = {"Retry", "retry", "rEtRy", "2", "retry_action_RETRY"};
    static const char *const fail[] = {"Fail", "FAIL", "1", "RETRY_ACTION_FAIL", "fail"};
    for (size_t i = 0; i < COUNT(retry); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 HEAD "name: a\nretryLimit: 1\ndefaultAction: %s\nrules:\n"
                      "- {action: %s, onCategory: b}\n",
                 retry[i], fail[i]);
        struct policy_document d = accepted(text);
        assert_int_equal(d.policy.default_action, POLICY_RETRY);
        assert_int_equal(d.policy.rules[0].action, POLICY_FAIL);
        policy_document_free(&d);
    }
}

/* As in Go, where the files of this format are read. */
static void null_is_not_stated(void **state)
{
    (void)state;
    struct policy_document d =
        accepted(HEAD "name: a\nretryLimit:\ndefaultAction: Fail\nrules:\n"
                      "- {action: Retry, onCategory: b, onSubcategory: null, mutate: {affinity: "
                      "~, resources: {memory: {factor: 150, static: null}}}}\n");
    assert_int_equal(d.policy.retry_limit, 0);
    assert_int_equal(d.policy.rules[0].match.subcategory_count, 0);
    assert_true(d.policy.rules[0].growth[POLICY_MEMORY].factor == 150);
    policy_document_free(&d);
    d = accepted(HEAD "name: a\ndefaultAction: Fail\nrules:\n");
    assert_int_equal(d.policy.rule_count, 0);
    policy_document_free(&d);
}

static void a_limit_and_processors_are_read_as_well(void **state)
{
    (void)state;
    struct policy_document d = accepted(
        HEAD "name: a\nretryLimit: 1\ndefaultAction: Fail\nrules:\n"
             "- {action: Retry, onCategory: b, mutate: {resources: {memory: {static: 1Gi, max: "
             "4Gi}, cpu: {factor: 2}}}}\n");
    const struct policy_growth *g = d.policy.rules[0].growth;
    assert_true(g[POLICY_MEMORY].add == (uint64_t)1 << 30);
    assert_true(g[POLICY_MEMORY].max == (uint64_t)4 << 30);
    assert_true(g[POLICY_CPU].factor == 2 && g[POLICY_CPU].max == QUANTITY_CPU_MAX);
    policy_document_free(&d);
    check_refused(HEAD "name: a\ndefaultAction: Fail\nrules:\n"
                       "- {action: Retry, onCategory: b, mutate: {resources: {cpu: {static: 1, "
                       "factor: 2}}}}\n",
                  "line 6, column 60: rules[0].mutate.resources.cpu: expected factor or static, "
                  "and not both, found a mapping");
}

static void what_is_most_likely_not_meant_is_warned_of(void **state)
{
    (void)state;
    check_warned(released, "");
    check_warned(HEAD "name: a\ndefaultAction: Retry\nrules: []\n",
                 "retryLimit is not stated, which in this format means 0: nothing is retried\n");
    check_warned(HEAD
                 "name: a\nretryLimit: 2\ndefaultAction: Fail\nrules:\n"
                 "- {action: Retry, onCategory: b}\n"
                 "- {action: Retry, onCategory: b, onSubcategory: c}\n"
                 "- {action: Fail, onCategory: d, mutate: {affinity: {avoidSameNode: true}}}\n",
                 "rules[2].mutate has no effect: the action is Fail\n"
                 "rules[1] can never match: rules[0] before it matches everything that it would\n");
    check_warned(HEAD "name: a\nretryLimit: 2\ndefaultAction: Fail\nrules:\n"
                      "- {action: Retry, onCategory: b}\n"
                      "- {action: Fail, onCategory: b}\n",
                 "rules[1] can never match: rules[0] before it matches everything that it would\n");
}

#define OWN "apiVersion: tenax.dev/v1\nkind: RetryPolicy\nmetadata: {name: a}\nspec:\n"

static void our_own_format_is_warned_of_too(void **state)
{
    (void)state;
    check_warned(
        OWN "  rules:\n"
            "  - {action: Fail, onConditions: [Evicted], retryLimit: 3}\n"
            "  - {action: Retry, containerName: main, onConditions: [Preempted, Evicted]}\n"
            "  - {action: Retry, onExitCodes: {operator: NotIn, values: [1]}}\n"
            "  - {action: Fail, onExitCodes: {operator: In, values: [2, 3]}}\n",
        "spec.rules[0].retryLimit has no effect: the action is Fail\n"
        "spec.rules[1] can never match: of a container only OOMKilled is reported, and the "
        "rule names a container\n"
        "spec.rules[3] can never match: spec.rules[2] before it matches everything "
        "that it would\n");
    check_warned(OWN "  retryLimit: 4\n  defaultAction: Fail\n",
                 "spec.retryLimit has no effect: every action is Fail\n");
    check_refused(OWN "  retryLimitPer: policy\n  rules:\n"
                      "  - {action: Retry, onConditions: [Evicted], retryLimit: 1}\n",
                  "line 7, column 58: spec.rules[0].retryLimit: expected nothing here: with "
                  "retryLimitPer: policy there is one limit, found 1");
}

static void an_error_of_a_worker_is_matched_by_type_and_message(void **state)
{
    (void)state;
    struct policy_document d = accepted(
        OWN "  rules:\n"
            "  - {action: Fail, onError: {types: [ValueError, TypeError]}}\n"
            "  - {action: Retry, onError: {types: [IOError], pattern: \"(?i)reset by peer\"}}\n"
            "  - {action: Retry, onError: {pattern: timeout}}\n");
    const struct {
        const char *type, *message;
        int rule;
    } cases[] = {{"TypeError", "timeout", 0}, {"IOError", "Reset by peer", 1},
                 {"IOError", "no space", -1}, {"OSError", "reset by peer", -1},
                 {"", "a timeout", 2},        {"valueerror", "", -1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure f = {.error_type = str_from(cases[i].type),
                            .message = str_from(cases[i].message)};
        assert_int_equal(judge(&d, f, NULL).rule, cases[i].rule);
    }
    policy_document_free(&d);
    check_refused(
        OWN "  rules:\n  - {action: Fail, onError: {}}\n",
        "line 6, column 29: spec.rules[0].onError: expected types, or a pattern, or both, "
        "found an empty mapping");
}

/* An error has room for 207 bytes: the long list of allowed values is truncated. */
static void a_long_refusal_keeps_the_place_and_what_was_found(void **state)
{
    (void)state;
    struct policy_document d;
    struct document_fault fault;
    assert_false(policy_document_parse(
        str_from(OWN "  rules:\n  - {action: Fail, onConditionsOfThePod: [Evicted]}\n"),
        DOCUMENT_ANY, &d, &fault));
    assert_string_equal(
        document_fault_err(&fault).msg,
        "line 6, column 20: spec.rules[0].onConditionsOfThePod: expected one of the fields action, "
        "onExitCodes, onConditions, onCulprit, onTerminationMessage, onFailureCategory, onFai..., "
        "found \"onConditionsOfThePod\"");
    assert_string_equal(
        document_fault_in("/etc/tenax/policies.yaml", &fault).msg,
        "/etc/tenax/policies.yaml: line 6, column 20: spec.rules[0].onConditionsOfThePod: expected "
        "one of the fields action, onExitCodes, onConditions, onCulprit, onTerminationMessage..., "
        "found \"onConditionsOfThePod\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_released_format_is_read_and_written_as_our_own),
        cmocka_unit_test(its_rules_match_category_and_subcategory_to_the_byte),
        cmocka_unit_test(its_limit_is_one_for_all_its_rules),
        cmocka_unit_test(what_it_cannot_mean_is_refused_with_its_place),
        cmocka_unit_test(actions_are_read_in_any_case_and_by_number),
        cmocka_unit_test(null_is_not_stated),
        cmocka_unit_test(a_limit_and_processors_are_read_as_well),
        cmocka_unit_test(what_is_most_likely_not_meant_is_warned_of),
        cmocka_unit_test(our_own_format_is_warned_of_too),
        cmocka_unit_test(an_error_of_a_worker_is_matched_by_type_and_message),
        cmocka_unit_test(a_long_refusal_keeps_the_place_and_what_was_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
