/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "policy/policy_document.h"

#define BIT(c) MATCHER_CONDITION(CONDITION_##c)

/* The policy of the specification. */
static const char ml_training[] = "apiVersion: armadaproject.io/v1\n"
                                  "kind: RetryPolicy\n"
                                  "metadata:\n"
                                  "  name: ml-training\n"
                                  "spec:\n"
                                  "  retryLimit: 5\n"
                                  "  defaultAction: Fail\n"
                                  "  backoff:\n"
                                  "    initialDelay: 0s\n"
                                  "  antiAffinity:\n"
                                  "    mode: none\n"
                                  "  rules:\n"
                                  "  - action: Retry\n"
                                  "    onConditions:\n"
                                  "    - Preempted\n"
                                  "    - Evicted\n"
                                  "    antiAffinity:\n"
                                  "      mode: node\n"
                                  "  - action: Retry\n"
                                  "    onConditions:\n"
                                  "    - OOMKilled\n"
                                  "    retryLimit: 3\n"
                                  "  - action: Retry\n"
                                  "    onExitCodes:\n"
                                  "      operator: In\n"
                                  "      values: [137]\n"
                                  "  - action: Retry\n"
                                  "    onFailureCategory: [cuda_error, infiniband_error]\n";

static const char ml_training_canonical[] = "apiVersion: tenax.dev/v1\n"
                                            "kind: RetryPolicy\n"
                                            "metadata:\n"
                                            "  name: ml-training\n"
                                            "spec:\n"
                                            "  defaultAction: Fail\n"
                                            "  retryLimit: 5\n"
                                            "  backoff:\n"
                                            "    initialDelay: \"0s\"\n"
                                            "    maxDelay: \"10m\"\n"
                                            "    multiplier: 2\n"
                                            "  antiAffinity:\n"
                                            "    mode: none\n"
                                            "  rules:\n"
                                            "    - action: Retry\n"
                                            "      onConditions: [Evicted, Preempted]\n"
                                            "      antiAffinity:\n"
                                            "        mode: node\n"
                                            "    - action: Retry\n"
                                            "      onConditions: [OOMKilled]\n"
                                            "      retryLimit: 3\n"
                                            "    - action: Retry\n"
                                            "      onExitCodes:\n"
                                            "        operator: In\n"
                                            "        values: [137]\n"
                                            "    - action: Retry\n"
                                            "      onFailureCategory: [cuda_error, "
                                            "infiniband_error]\n";

static struct policy_document accepted(const char *text)
{
    struct policy_document d;
    struct document_fault fault;
    if (!policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault))
        fail_msg("%s", document_fault_err(&fault).msg);
    return d;
}

static char *canonical(const struct policy_document *d, bool json)
{
    struct arena a = {0};
    struct buf b = {0};
    const struct document_node *n = policy_document_tree(&d->policy, d->resource_version, &a);
    if (json)
        document_write_json(n, &b);
    else
        document_write_yaml(n, &b);
    buf_byte(&b, '\0');
    arena_fini(&a);
    return b.at;
}

/* A policy with this spec, whose lines are indented by two spaces. */
static char *with_spec(const char *spec)
{
    struct buf b = {0};
    buf_print(&b,
              "apiVersion: tenax.dev/v1\n"
              "kind: RetryPolicy\n"
              "metadata: {name: p}\n"
              "spec:\n"
              "%s",
              spec);
    buf_byte(&b, '\0');
    return b.at;
}

static void check_refused(const char *text, const char *expected)
{
    struct policy_document d;
    struct document_fault fault;
    if (policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault))
        fail_msg("accepted, not refused with: %s", expected);
    struct buf b = {0};
    document_fault_write(&fault, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void check_spec_refused(const char *spec, const char *expected)
{
    char *text = with_spec(spec);
    check_refused(text, expected);
    free(text);
}

static void the_policy_of_the_specification_is_read(void **state)
{
    (void)state;
    struct policy_document d = accepted(ml_training);
    const struct policy *p = &d.policy;
    assert_true(str_eq(p->name, STR("ml-training")));
    assert_int_equal(p->retry_limit, 5);
    assert_int_equal(p->default_action, POLICY_FAIL);
    assert_int_equal(p->backoff.shape, CURVE_EXPONENTIAL);
    assert_int_equal(p->backoff.base.ms, 0);
    assert_int_equal(p->affinity.mode, POLICY_AFFINITY_NONE);
    assert_int_equal(p->rule_count, 4);
    assert_int_equal(p->rules[0].match.conditions, BIT(PREEMPTED) | BIT(EVICTED));
    assert_int_equal(p->rules[0].affinity.mode, POLICY_AFFINITY_NODE);
    assert_int_equal(p->rules[0].retry_limit, POLICY_NO_LIMIT);
    assert_int_equal(p->rules[1].retry_limit, 3);
    assert_int_equal(p->rules[1].affinity.mode, POLICY_AFFINITY_UNSET);
    assert_int_equal(p->rules[2].match.exit_operator, MATCHER_IN);
    assert_int_equal(p->rules[2].match.exit_codes[0], 137);
    assert_true(str_eq(p->rules[3].match.categories[1], STR("infiniband_error")));
    for (size_t i = 0; i < p->rule_count; i++)
        assert_true(p->rules[i].key == policy_rule_key(&p->rules[i]));
    policy_document_free(&d);
}

static void a_policy_is_written_in_canonical_form(void **state)
{
    (void)state;
    struct policy_document d = accepted(ml_training);
    char *yaml = canonical(&d, false), *json = canonical(&d, true);
    assert_string_equal(yaml, ml_training_canonical);
    policy_document_free(&d);
    d = accepted(json);
    char *again = canonical(&d, false);
    assert_string_equal(again, yaml);
    policy_document_free(&d);
    free(again);
    d = accepted(yaml);
    again = canonical(&d, true);
    assert_string_equal(again, json);
    policy_document_free(&d);
    free(again);
    free(yaml);
    free(json);
}

static void every_field_of_a_rule_is_read_and_written(void **state)
{
    (void)state;
    char *text = with_spec("  rules:\n"
                           "  - action: Fail\n"
                           "    containerName: log-shipper\n"
                           "    includeInitContainers: true\n"
                           "    onExitCodes: {operator: NotIn, values: [1, 2]}\n"
                           "    onConditions: [Unschedulable]\n"
                           "    onCulprit: [server, job, dependency]\n"
                           "    onTerminationMessage: {pattern: '.*TRANSIENT.*'}\n"
                           "    onFailureCategory: [\"gpu: bad\"]\n"
                           "    retryLimit: 0\n"
                           "    retryFor: 3d\n"
                           "    backoff: {initialDelay: 1h30m, maxDelay: 2d, multiplier: 1.5}\n"
                           "    antiAffinity: {mode: none}\n");
    struct policy_document d = accepted(text);
    const struct policy_rule *r = d.policy.rules;
    assert_int_equal(r->action, POLICY_FAIL);
    assert_true(str_eq(r->match.container, STR("log-shipper")) && r->match.include_init);
    assert_int_equal(r->backoff.base.ms, 5400000);
    assert_int_equal(r->backoff.most.ms, 2 * 86400000);
    char *json = canonical(&d, true);
    assert_string_equal(
        json,
        "{\"apiVersion\": \"tenax.dev/v1\", \"kind\": \"RetryPolicy\", \"metadata\": {\"name\": "
        "\"p\"}, \"spec\": {\"rules\": [{\"action\": \"Fail\", \"containerName\": "
        "\"log-shipper\", \"includeInitContainers\": true, \"onExitCodes\": {\"operator\": "
        "\"NotIn\", \"values\": [1, 2]}, \"onConditions\": [\"Unschedulable\"], "
        "\"onCulprit\": [\"job\", \"dependency\", \"server\"], "
        "\"onTerminationMessage\": {\"pattern\": \".*TRANSIENT.*\"}, \"onFailureCategory\": "
        "[\"gpu: bad\"], \"retryLimit\": 0, \"retryFor\": \"72h\", \"backoff\": "
        "{\"initialDelay\": \"1h30m\", \"maxDelay\": \"48h\", \"multiplier\": 1.5, \"jitter\": "
        "\"full\"}, "
        "\"antiAffinity\": {\"mode\": \"none\"}}]}}");
    policy_document_free(&d);
    free(json);
    free(text);
}

static void a_resource_version_is_kept(void **state)
{
    (void)state;
    struct policy_document d =
        accepted("{\"apiVersion\": \"tenax.dev/v1\", \"kind\": \"RetryPolicy\", \"metadata\": "
                 "{\"name\": \"p\", \"resourceVersion\": 7}, \"spec\": {\"defaultAction\": "
                 "\"Retry\"}}");
    assert_int_equal(d.resource_version, 7);
    char *yaml = canonical(&d, false);
    assert_non_null(strstr(yaml, "resourceVersion: 7\n"));
    free(yaml);
    policy_document_free(&d);
}

static void a_backoff_has_defaults(void **state)
{
    (void)state;
    char *text = with_spec("  defaultAction: Retry\n"
                           "  backoff: {initialDelay: 30s}\n");
    struct policy_document d = accepted(text);
    assert_int_equal(d.policy.backoff.base.ms, 30000);
    assert_int_equal(d.policy.backoff.most.ms, 600000);
    assert_true(d.policy.backoff.exponent == 2.0);
    policy_document_free(&d);
    free(text);
    text = with_spec("  defaultAction: Retry\n"
                     "  backoff: {initialDelay: 1h}\n");
    d = accepted(text);
    assert_int_equal(d.policy.backoff.most.ms, 3600000);
    policy_document_free(&d);
    free(text);
}

static void a_bad_frame_is_refused(void **state)
{
    (void)state;
    check_refused("", "expected one document, found none");
    check_refused("a: 1\n---\nb: 1\n", "line 3, column 1: expected one document, found 2");
    check_refused("- a", "line 1, column 1: expected a mapping, found a list");
    check_refused("kind: RetryPolicy\nmetadata: {name: p}\nspec: {defaultAction: Fail}\n",
                  "line 1, column 1: apiVersion: expected this field, found nothing");
    check_refused("apiVersion: v2\n", "line 1, column 13: apiVersion: expected tenax.dev/v1 or "
                                      "armadaproject.io/v1, found \"v2\"");
    check_refused("kind: Queue\n", "line 1, column 7: kind: expected RetryPolicy, found \"Queue\"");
    check_refused("metadata: {name: 5}\n",
                  "line 1, column 18: metadata.name: expected a name (text; put a number into "
                  "quotes), found 5");
    check_refused("metadata: {labels: {}}\n", "line 1, column 12: metadata.labels: expected one of "
                                              "the fields name, resourceVersion, found \"labels\"");
    check_refused("spec: Fail\n", "line 1, column 7: spec: expected a mapping, found \"Fail\"");
}

static void a_name_is_a_dns_label(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Infra",
        "-a",
        "a-",
        "a_b",
        "a.b",
        "\xc3\xa9",
        ("a1234567890123456789012345678901234567890123456789012345678901"
         "23"),
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, "metadata: {name: \"%s\"}", bad[i]);
        struct policy_document d;
        struct document_fault fault;
        assert_false(policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault));
        assert_int_equal(fault.code, ERR_BAD_NAME);
        assert_string_equal(fault.path, "metadata.name");
    }
}

/* A rule with this field; the position of the fault is omitted. */
static void check_rule_refused(const char *action, const char *field, const char *expected)
{
    struct buf spec = {0}, words = {0};
    buf_print(&spec, "  rules:\n    - {action: %s, onConditions: [OOMKilled], %s}\n", action,
              field);
    buf_byte(&spec, '\0');
    char *text = with_spec(spec.at);
    struct policy_document d;
    struct document_fault fault;
    assert_false(policy_document_parse(str_from(text), DOCUMENT_ANY, &d, &fault));
    document_fault_write(&fault, &words);
    buf_byte(&words, '\0');
    const char *colon = strstr(words.at, ": ");
    assert_non_null(colon);
    assert_string_equal(colon + 2, expected);
    free(text);
    buf_fini(&spec);
    buf_fini(&words);
}

static void a_bad_mutation_is_refused_with_its_path(void **state)
{
    (void)state;
    check_rule_refused("Retry", "mutations: {memory: {factor: 2, add: 1Gi, max: 8Gi}}",
                       "spec.rules[0].mutations.memory: expected factor or add, and not both, "
                       "found a mapping");
    check_rule_refused("Retry", "mutations: {memory: {max: 8Gi}}",
                       "spec.rules[0].mutations.memory: expected factor or add, and not both, "
                       "found a mapping");
    check_rule_refused("Retry", "mutations: {memory: {factor: 2}}",
                       "spec.rules[0].mutations.memory.max: expected this field, found nothing");
    check_rule_refused("Retry", "mutations: {memory: {factor: 1, max: 8Gi}}",
                       "spec.rules[0].mutations.memory.factor: expected more than 1, found 1");
    check_rule_refused("Retry", "mutations: {memory: {factor: 1000001, max: 8Gi}}",
                       "spec.rules[0].mutations.memory.factor: expected a number from 1 to 1e+06, "
                       "found 1000001");
    check_rule_refused("Retry", "mutations: {memory: {add: 1GB, max: 8Gi}}",
                       "spec.rules[0].mutations.memory.add: expected an amount like 512Mi, 4Gi, "
                       "1.5Gi or 500M, from 1 byte to 1Ei, found \"1GB\"");
    check_rule_refused("Retry", "mutations: {memory: {add: 1Gi, max: 8Gi, sticky: maybe}}",
                       "spec.rules[0].mutations.memory.sticky: expected true or false, found "
                       "\"maybe\"");
    check_rule_refused("Retry", "mutations: {}",
                       "spec.rules[0].mutations: expected memory or cpu, or both, found an empty "
                       "mapping");
    check_rule_refused("Retry", "mutations: {cpu: 2}",
                       "spec.rules[0].mutations.cpu: expected a mapping, found 2");
    check_rule_refused("Retry", "mutations: {gpu: {factor: 2, max: 4}}",
                       "spec.rules[0].mutations.gpu: expected one of the fields memory, cpu, "
                       "found \"gpu\"");
    check_rule_refused("Retry", "mutations: {cpu: {factor: 2, max: 4Gi}}",
                       "spec.rules[0].mutations.cpu.max: expected an amount of CPUs like 500m, 2 "
                       "or 1.5, up to 1000000, found \"4Gi\"");
    check_rule_refused("Retry", "mutate: {resources: {cpu: {add: 1}}}",
                       "spec.rules[0].mutate.resources.cpu.max: expected this field, found "
                       "nothing");
    check_rule_refused("Retry",
                       "mutations: {cpu: {add: 1, max: 2}}, mutate: {resources: {cpu: {add: 1, "
                       "max: 2}}}",
                       "spec.rules[0].mutate.resources: expected mutations or mutate, and not "
                       "both, found a mapping");
    check_rule_refused("Fail", "mutate: {resources: {memory: {static: 1Gi, max: 8Gi}}}",
                       "spec.rules[0].mutate: expected nothing here: the action is Fail, found a "
                       "mapping");
    check_rule_refused("Fail", "mutations: {memory: {add: 1Gi, max: 8Gi}}",
                       "spec.rules[0].mutations: expected nothing here: the action is Fail, found "
                       "a mapping");
}

static void mutations_are_written_as_they_were_read(void **state)
{
    (void)state;
    char *text = with_spec("  rules:\n"
                           "    - {action: Retry, onConditions: [OOMKilled], mutations: {memory: "
                           "{factor: 1.5, max: 32768Mi}}}\n"
                           "    - {action: Retry, onConditions: [Evicted], mutations: {memory: "
                           "{add: 500M, max: 1Ti, sticky: false}}}\n");
    struct policy_document d = accepted(text);
    const struct policy_growth *m = &d.policy.rules[0].growth[POLICY_MEMORY];
    const struct policy_growth *n = &d.policy.rules[1].growth[POLICY_MEMORY];
    assert_true(m->factor == 1.5 && m->add == 0 && m->max == (uint64_t)32 << 30 && !m->fleeting);
    assert_true(n->factor == 0 && n->add == 500000000 && n->max == (uint64_t)1 << 40);
    assert_true(n->fleeting);
    char *json = canonical(&d, true);
    assert_non_null(strstr(json, "\"mutations\": {\"memory\": {\"factor\": 1.5, \"max\": "
                                 "\"32Gi\"}}"));
    assert_non_null(strstr(json, "\"mutations\": {\"memory\": {\"add\": \"500M\", \"max\": "
                                 "\"1Ti\", \"sticky\": false}}"));
    free(json);
    free(text);
    policy_document_free(&d);
}

static void processors_grow_and_armada_s_spelling_is_read(void **state)
{
    (void)state;
    char *text = with_spec("  rules:\n"
                           "    - {action: Retry, onConditions: [OOMKilled], mutate: {resources: "
                           "{memory: {static: 1Gi, max: 4Gi}, cpu: {factor: 2, max: 4}}}}\n"
                           "    - {action: Retry, onConditions: [Evicted], mutations: {cpu: {add: "
                           "0.5, max: 2500m, sticky: false}}}\n");
    struct policy_document d = accepted(text);
    const struct policy_growth *m = &d.policy.rules[0].growth[POLICY_CPU];
    assert_true(m->factor == 2 && m->add == 0 && m->max == 4000 && !m->fleeting);
    assert_true(d.policy.rules[0].growth[POLICY_MEMORY].add == (uint64_t)1 << 30);
    m = &d.policy.rules[1].growth[POLICY_CPU];
    assert_true(m->add == 500 && m->max == 2500 && m->fleeting);
    assert_int_equal(d.policy.rules[1].growth[POLICY_MEMORY].max, 0);
    char *json = canonical(&d, true);
    assert_non_null(strstr(json, "\"mutations\": {\"memory\": {\"add\": \"1Gi\", \"max\": "
                                 "\"4Gi\"}, \"cpu\": {\"factor\": 2, \"max\": \"4\"}}"));
    assert_non_null(strstr(json, "\"mutations\": {\"cpu\": {\"add\": \"500m\", \"max\": "
                                 "\"2500m\", \"sticky\": false}}"));
    free(json);
    free(text);
    policy_document_free(&d);
}

static void a_bad_spec_is_refused_with_path_and_place(void **state)
{
    (void)state;
    check_spec_refused("  retryLimt: 5\n",
                       "line 5, column 3: spec.retryLimt: expected one of the fields retryLimit, "
                       "retryFor, retryLimitPer, defaultAction, backoff, antiAffinity, rules, "
                       "found \"retryLimt\"");
    check_spec_refused("  defaultAction: Retry\n  retryFor: 0s\n",
                       "line 6, column 13: spec.retryFor: expected more than 0s (retryLimit: 0 "
                       "allows no retry), found \"0s\"");
    check_spec_refused("  retryLimit: -1\n", "line 5, column 15: spec.retryLimit: expected a whole "
                                             "number from 0 to 1000000, found -1");
    check_spec_refused("  retryLimit: \"5\"\n", "line 5, column 15: spec.retryLimit: expected a "
                                                "whole number from 0 to 1000000, found \"5\"");
    check_spec_refused("  defaultAction: retry\n",
                       "line 5, column 18: spec.defaultAction: expected "
                       "Retry or Fail, found \"retry\"");
    check_spec_refused("  antiAffinity: {mode: zone}\n",
                       "line 5, column 24: spec.antiAffinity.mode: expected none or node, found "
                       "\"zone\"");
    check_spec_refused("  antiAffinity: node\n", "line 5, column 17: spec.antiAffinity: expected a "
                                                 "mapping, found \"node\"");
    check_spec_refused("  antiAffinity: {mode: none, requiredFor: 5m}\n",
                       "line 5, column 43: spec.antiAffinity.requiredFor: expected nothing here: "
                       "with mode none no node is avoided, found \"5m\"");
    check_spec_refused("  antiAffinity: {mode: node, requiredFor: 5}\n",
                       "line 5, column 43: spec.antiAffinity.requiredFor: expected a duration with "
                       "units (ms, s, m, h, d, w) like 30s or 1h30m, from 0s to 365d, found 5");
    check_spec_refused("  antiAffinity: {}\n",
                       "line 5, column 17: spec.antiAffinity.mode: expected "
                       "this field, found nothing");
    check_spec_refused("  rules: []\n",
                       "line 5, column 10: spec.rules: expected at least one rule (omit rules if "
                       "only defaultAction is to decide), found an empty list");
    check_spec_refused("  retryLimit: 5\n", "line 5, column 3: spec: expected rules, or a "
                                            "defaultAction, or both, found a mapping");
}

static void a_bad_backoff_is_refused(void **state)
{
    (void)state;
    const char *duration = "expected a duration with units (ms, s, m, h, d, w) like 30s or 1h30m, "
                           "from 0s to 365d";
    static const char *const bad[] = {"-5s", "5", "366d", "1x", "99999999999999999999h", "\"\""};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char spec[128], fault[256];
        bool quoted = bad[i][0] == '"', number = strcmp(bad[i], "5") == 0;
        snprintf(spec, sizeof spec, "  backoff: {initialDelay: %s}\n", bad[i]);
        snprintf(fault, sizeof fault,
                 "line 5, column 27: spec.backoff.initialDelay: %s, found %s%s%s", duration,
                 quoted || number ? "" : "\"", bad[i], quoted || number ? "" : "\"");
        check_spec_refused(spec, fault);
    }
    check_spec_refused("  backoff: {}\n", "line 5, column 12: spec.backoff.initialDelay: expected "
                                          "this field, found nothing");
    check_spec_refused("  backoff: {initialDelay: 1s, multiplier: 0.5}\n",
                       "line 5, column 43: spec.backoff.multiplier: expected a number from 1 to "
                       "1000, found 0.5");
    check_spec_refused("  backoff: {initialDelay: 1m, maxDelay: 30s}\n",
                       "line 5, column 41: spec.backoff.maxDelay: expected at least as much as "
                       "initialDelay, found \"30s\"");
}

static void a_bad_rule_is_refused(void **state)
{
    (void)state;
    check_spec_refused("  rules:\n  - onConditions: [OOMKilled]\n",
                       "line 6, column 5: spec.rules[0].action: expected this field, found "
                       "nothing");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onConditions: [OOMKilled]}\n  - action: Redo\n",
        "line 7, column 13: spec.rules[1].action: expected Retry or Fail, found "
        "\"Redo\"");
    check_spec_refused("  rules:\n  - ~\n", "line 6, column 5: spec.rules[0]: expected a mapping, "
                                            "found nothing");
    check_spec_refused(
        "  rules:\n  - action: Retry\n    containerName: main\n",
        "line 6, column 5: spec.rules[0]: expected at least one of onExitCodes, onConditions, "
        "onCulprit, "
        "onTerminationMessage, onFailureCategory, onFailureSubcategory and onError (what to do "
        "with any other failure is "
        "spec.defaultAction), found a mapping");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onConditions: [OOM]}\n",
        "line 6, column 36: spec.rules[0].onConditions[0]: expected OOMKilled, "
        "Evicted, Preempted, DeadlineExceeded, Unschedulable or LeaseExpired, found \"OOM\"");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onCulprit: [node, nod]}\n",
        "line 6, column 39: spec.rules[0].onCulprit[1]: expected job, input, worker, "
        "node, cluster, access, dependency, disruption, gang, server, deadline or "
        "unknown (did you mean node?), found \"nod\"");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onCulprit: [5]}\n",
        "line 6, column 33: spec.rules[0].onCulprit[0]: expected job, input, worker, "
        "node, cluster, access, dependency, disruption, gang, server, deadline or "
        "unknown, found 5");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onCulprit: [node, node]}\n",
        "line 6, column 39: spec.rules[0].onCulprit[1]: expected every culprit once, "
        "found \"node\"");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onCulprit: []}\n",
        "line 6, column 32: spec.rules[0].onCulprit: expected a list of culprits, as "
        "disruption, found an empty list");
    check_spec_refused("  rules:\n  - {action: Retry, onConditions: [Evicted, Evicted]}\n",
                       "line 6, column 45: spec.rules[0].onConditions[1]: expected every condition "
                       "once, found \"Evicted\"");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onConditions: Evicted}\n",
        "line 6, column 35: spec.rules[0].onConditions: expected a list of "
        "OOMKilled, Evicted, Preempted, DeadlineExceeded, Unschedulable or LeaseExpired, found "
        "\"Evicted\"");
    check_spec_refused("  rules:\n  - {action: Retry, onFailureCategory: []}\n",
                       "line 6, column 40: spec.rules[0].onFailureCategory: expected a list of "
                       "categories, found an empty list");
    check_spec_refused("  rules:\n  - {action: Retry, onFailureCategory: [a, \"a\\n\"]}\n",
                       "line 6, column 44: spec.rules[0].onFailureCategory[1]: expected 1 to 255 "
                       "bytes of text without control characters, found \"a \"");
    check_spec_refused(
        "  rules:\n  - {action: Retry, onConditions: [Evicted], includeInitContainers: "
        "yes}\n",
        "line 6, column 69: spec.rules[0].includeInitContainers: expected true or "
        "false, found \"yes\"");
}

static void bad_exit_codes_are_refused(void **state)
{
    (void)state;
#define EXIT(text) "  rules:\n  - action: Retry\n    onExitCodes: " text "\n"
#define PLACE      "spec.rules[0].onExitCodes"
    check_spec_refused(EXIT("{operator: in, values: [1]}"),
                       "line 7, column 29: " PLACE ".operator: expected In or NotIn, found \"in\"");
    check_spec_refused(EXIT("{values: [1]}"),
                       "line 7, column 18: " PLACE ".operator: expected this field, found nothing");
    check_spec_refused(EXIT("{operator: In}"),
                       "line 7, column 18: " PLACE ".values: expected this field, found nothing");
    static const char *const bad[] = {"4294967296", "-2147483649", "1.5"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char spec[128], fault[160];
        snprintf(spec, sizeof spec, EXIT("{operator: In, values: [137, %s]}"), bad[i]);
        snprintf(fault, sizeof fault,
                 "line 7, column 47: " PLACE
                 ".values[1]: expected a whole number from -2147483648 to 4294967295, found %s",
                 bad[i]);
        check_spec_refused(spec, fault);
    }
    check_spec_refused(EXIT("{operator: In, values: [137, 1, 137]}"),
                       "line 7, column 50: " PLACE ".values[2]: expected every exit code once, "
                       "found 137");
}

static void a_bad_pattern_is_refused_with_its_offset(void **state)
{
    (void)state;
#define MESSAGE(text) "  rules:\n  - action: Retry\n    onTerminationMessage: {pattern: " text "}\n"
    check_spec_refused(MESSAGE("\"a(b\""),
                       "line 7, column 37: spec.rules[0].onTerminationMessage.pattern: expected a "
                       "regular expression (missing closing parenthesis (at offset 3 of the "
                       "pattern)), found \"a(b\"");
    check_spec_refused(MESSAGE("''"),
                       "line 7, column 37: spec.rules[0].onTerminationMessage.pattern: expected a "
                       "regular expression that is not empty, found \"\"");
}

/* A policy with that many rules, each with a pattern of its own. */
static struct str policy_of(const char *pattern, int rules)
{
    struct buf b = {0};
    buf_lit(&b, "{\"apiVersion\":\"tenax.dev/v1\",\"kind\":\"RetryPolicy\",\"metadata\":{\"name\":"
                "\"p\"},\"spec\":{\"rules\":[");
    for (int i = 0; i < rules; i++)
        buf_print(&b, "%s{\"action\":\"Retry\",\"onTerminationMessage\":{\"pattern\":\"%s%d\"}}",
                  i ? "," : "", pattern, i);
    buf_lit(&b, "]}}");
    return buf_view(&b);
}

/* Patterns whose compilation holds up the server. */
static void patterns_that_take_too_much_are_refused_where_they_are_new(void **state)
{
    (void)state;
    static const char *const slow[] = {"(?i)[b-\\\\x{10ffff}]", "(?:(?:a{1,50}b){1,50}c){1,20}"};
    for (size_t i = 0; i < COUNT(slow); i++) {
        struct policy_document d;
        struct document_fault fault = {0};
        struct str text = policy_of(slow[i], 256);
        assert_false(policy_document_parse(text, DOCUMENT_JSON, &d, &fault));
        assert_int_equal(fault.code, ERR_TOO_MANY);
        free((void *)(uintptr_t)text.at);
        text = policy_of(slow[i], 120); /* accepted by an earlier version */
        assert_false(policy_document_parse(text, DOCUMENT_JSON, &d, &fault));
        assert_true(policy_document_parse_stored(text, &d, &fault));
        policy_document_free(&d);
        free((void *)(uintptr_t)text.at);
        text = policy_of(slow[i], 5);
        assert_true(policy_document_parse(text, DOCUMENT_JSON, &d, &fault));
        policy_document_free(&d);
        free((void *)(uintptr_t)text.at);
    }
}

/* What has no effect is accepted and said, also of very many rules. */
static void many_rules_are_read_and_those_that_are_alike_are_named(void **state)
{
    (void)state;
    struct policy_document d;
    struct document_fault fault;
    struct buf b = {0};
    buf_lit(&b, "{\"apiVersion\":\"tenax.dev/v1\",\"kind\":\"RetryPolicy\",\"metadata\":{\"name\":"
                "\"p\"},\"spec\":{\"rules\":[");
    for (int i = 0; i < 8192; i++)
        buf_print(&b, "%s{\"action\":\"Retry\",\"onFailureCategory\":[\"c%d\"]}", i ? "," : "",
                  i == 8000 ? 5000 : i);
    buf_lit(&b, "]}}");
    assert_true(policy_document_parse(buf_view(&b), DOCUMENT_JSON, &d, &fault));
    assert_int_equal(d.policy.rule_count, 8192);
    assert_int_equal(d.warnings->count, 1);
    assert_true(str_eq(d.warnings->first->text,
                       STR("spec.rules[8000] can never match: spec.rules[5000] before it matches "
                           "everything that it would")));
    policy_document_free(&d);
    buf_fini(&b);
}

static void codes_of_windows_are_read_and_written_as_stated(void **state)
{
    (void)state;
    struct policy_document d =
        accepted("apiVersion: tenax.dev/v1\nkind: RetryPolicy\nmetadata: {name: a}\nspec:\n"
                 "  rules:\n  - action: Fail\n    onExitCodes:\n      operator: In\n"
                 "      values: [-1073741819, 3221225477, 4294967295, -2147483648, 0]\n");
    const int64_t codes[] = {-1073741819, 3221225477, 4294967295, -2147483648, 0};
    assert_int_equal(d.policy.rules[0].match.exit_code_count, COUNT(codes));
    for (size_t i = 0; i < COUNT(codes); i++)
        assert_true(d.policy.rules[0].match.exit_codes[i] == codes[i]);
    assert_int_equal(d.warnings->count, 1);
    assert_true(str_eq(d.warnings->first->text,
                       STR("spec.rules[0].onExitCodes: exit code 0 never matches")));
    struct arena a = {0};
    struct buf b = {0};
    document_write_json(policy_document_tree(&d.policy, 0, &a), &b);
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.at, "[-1073741819, 3221225477, 4294967295, -2147483648, 0]"));
    buf_fini(&b);
    arena_fini(&a);
    policy_document_free(&d);
}

static void a_fault_has_its_place_in_json_too(void **state)
{
    (void)state;
    check_refused("{\"apiVersion\": \"tenax.dev/v1\",\n \"kind\": \"RetryPolicy\",\n \"spec\": "
                  "{\"rules\": [{\"action\": \"Retry\",\n   \"onExit\": 1}]}, "
                  "\"metadata\": {\"name\": \"p\", \"name\": \"q\"}}",
                  "line 4, column 46: name: expected every field once; this one is on line 4 "
                  "already");
    check_refused("{\"apiVersion\": \"tenax.dev/v1\",\n \"kind\": 7}",
                  "line 2, column 10: kind: expected RetryPolicy, found 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_of_the_specification_is_read),
        cmocka_unit_test(a_policy_is_written_in_canonical_form),
        cmocka_unit_test(every_field_of_a_rule_is_read_and_written),
        cmocka_unit_test(a_resource_version_is_kept),
        cmocka_unit_test(a_backoff_has_defaults),
        cmocka_unit_test(a_bad_frame_is_refused),
        cmocka_unit_test(a_name_is_a_dns_label),
        cmocka_unit_test(a_bad_spec_is_refused_with_path_and_place),
        cmocka_unit_test(a_bad_mutation_is_refused_with_its_path),
        cmocka_unit_test(mutations_are_written_as_they_were_read),
        cmocka_unit_test(processors_grow_and_armada_s_spelling_is_read),
        cmocka_unit_test(a_bad_backoff_is_refused),
        cmocka_unit_test(a_bad_rule_is_refused),
        cmocka_unit_test(bad_exit_codes_are_refused),
        cmocka_unit_test(a_bad_pattern_is_refused_with_its_offset),
        cmocka_unit_test(patterns_that_take_too_much_are_refused_where_they_are_new),
        cmocka_unit_test(many_rules_are_read_and_those_that_are_alike_are_named),
        cmocka_unit_test(codes_of_windows_are_read_and_written_as_stated),
        cmocka_unit_test(a_fault_has_its_place_in_json_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
