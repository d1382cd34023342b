/* SPDX-License-Identifier: Apache-2.0 */

/* Which policies apply to a job; storing policies and settings, and reading them back. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "policy/policies.h"
#include "policy/policy_document.h"
#include "policy/queue_kept.h"
#include "policy/settings_document.h"

#define MOST 128

/* Policies over a store that is an array. */
struct world {
    struct policies *p;
    struct arena memory;
    struct kept {
        char kind;
        struct str name, body;
        uint64_t version;
    } kept[MOST];
    size_t count;
};

static struct world w;

static void keep(void *ctx, char kind, struct str name, uint64_t version, struct str body)
{
    (void)ctx;
    size_t i = 0;
    while (i < w.count && (w.kept[i].kind != kind || !str_eq(w.kept[i].name, name)))
        i++;
    if (body.at) {
        assert_true(i < MOST);
        w.kept[i] =
            (struct kept){kind, arena_copy(&w.memory, name), arena_copy(&w.memory, body), version};
        w.count += i == w.count;
    } else if (i < w.count) {
        w.kept[i] = w.kept[--w.count];
    }
}

static void start(bool enabled)
{
    const struct policies_sink sink = {NULL, keep};
    struct policy_settings initial = POLICY_SETTINGS_DEFAULT;
    initial.enabled = enabled;
    w.p = policies_new(&initial, &sink);
}

static void restart(bool enabled)
{
    policies_free(w.p);
    start(enabled);
    for (size_t i = 0; i < w.count; i++) {
        const struct kept *k = &w.kept[i];
        struct err err = policies_restore(w.p, k->kind, k->name, k->version, k->body);
        assert_int_equal(err.code, ERR_OK);
    }
}

static int setup(void **state)
{
    (void)state;
    w = (struct world){0};
    start(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    policies_free(w.p);
    arena_fini(&w.memory);
    return 0;
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static enum err_code put(const char *yaml, uint64_t *version)
{
    struct resource_view *view;
    struct policy_document d;
    struct document_fault fault = {0};
    if (!policy_document_parse(str_from(yaml), DOCUMENT_YAML, &d, &fault))
        return fault.code;
    const struct policies_put what = {.value = &d.policy, .version = d.resource_version};
    enum err_code code = policies_put(w.p, &what, &w.memory, &view).code;
    if (code == ERR_OK && version)
        *version = view->version;
    policy_document_free(&d);
    return code;
}

static void put_named(const char *name, const char *spec)
{
    struct buf b = {0};
    buf_print(&b, "{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: %s}, spec: %s}",
              name, spec);
    buf_byte(&b, '\0');
    assert_int_equal(put(b.at, NULL), ERR_OK);
    buf_fini(&b);
}

static enum err_code set(const char *json, const char *by, int64_t at)
{
    struct policy_change change;
    struct document_fault fault = {0};
    if (!settings_document_parse(str_from(json), &w.memory, &change, &fault))
        return fault.code;
    const struct policies_settings put = {.change = &change, .by = str_from(by)};
    return policies_settings_put(w.p, &put, (instant){at}, &w.memory, NULL).code;
}

static const struct policy_settings_view *settings(void)
{
    return policies_settings_read(w.p, &w.memory);
}

static bool rules_are_enabled(void)
{
    struct verdict_rules rules = {0};
    policies_effective(w.p, STR("q"), STR(""), &w.memory, &rules);
    return rules.settings->enabled;
}

static void assert_effective(const char *queue, const char *added, const char *expected)
{
    struct verdict_rules rules = {0};
    struct buf names = {0};
    policies_effective(w.p, str_from(queue), str_from(added), &w.memory, &rules);
    for (size_t i = 0; i < rules.policy_count; i++)
        buf_print(&names, "%s%.*s", i ? "," : "", STR_ARG(rules.policies[i]->name));
    buf_byte(&names, '\0');
    assert_string_equal(names.at, expected);
    buf_fini(&names);
}

/* --- resolution, as the specification has it --- */

static void the_jobs_policies_come_behind_those_of_its_queue(void **state)
{
    (void)state;
    put_named("infra", "{retryLimit: 10, rules: [{action: Retry, onConditions: [Preempted]}]}");
    put_named("ml-training", "{rules: [{action: Retry, onConditions: [OOMKilled]}]}");
    put_named("extra-retry", "{rules: [{action: Retry, onConditions: [Unschedulable]}]}");
    put_named("default", "{defaultAction: Fail}");
    assert_int_equal(set("{\"defaultPolicyName\": \"default\"}", "", 1), ERR_OK);
    assert_int_equal(policies_queue_put(w.p, STR("ml-queue"), STR("infra,ml-training")).code,
                     ERR_OK);
    assert_effective("ml-queue", "extra-retry", "infra,ml-training,extra-retry");
    assert_effective("ml-queue", "", "infra,ml-training");
    assert_effective("ml-queue", "extra-retry,infra", "infra,ml-training,extra-retry"); /* once */
    assert_effective("other", "extra-retry", "extra-retry");
    assert_effective("other", "", "default"); /* only if neither specifies any */
    restart(true);
    assert_effective("ml-queue", "extra-retry", "infra,ml-training,extra-retry");
    assert_effective("other", "", "default");
}

static void switched_off_they_are_known_and_not_enabled(void **state)
{
    (void)state;
    put_named("infra", "{defaultAction: Retry}");
    assert_int_equal(policies_queue_put(w.p, STR("q"), STR("infra")).code, ERR_OK);
    assert_effective("q", "infra", "infra");
    restart(false); /* disabled by default: the settings were never changed */
    assert_effective("q", "infra", "infra"); /* what would decide */
    assert_false(rules_are_enabled());
    assert_int_equal(set("{\"enabled\": true}", "", 1), ERR_OK);
    assert_effective("q", "", "infra");
    assert_true(rules_are_enabled());
    restart(false); /* from then on the stored settings apply */
    assert_effective("q", "", "infra");
}

static void one_that_is_deleted_is_passed_over(void **state)
{
    (void)state;
    put_named("infra", "{defaultAction: Retry}");
    assert_effective("q", "gone,infra", "infra");
    assert_effective("q", "gone", "");
}

static void the_default_policy_may_be_made_later_if_that_is_meant(void **state)
{
    (void)state;
    assert_int_equal(set("{\"defaultPolicyName\": \"default\"}", "", 1), ERR_UNPROCESSABLE);
    const struct policy_change change = {POLICY_SET_DEFAULT, {.default_policy = STR("default")}};
    const struct policies_settings put = {.change = &change, .ahead = true};
    assert_int_equal(policies_settings_put(w.p, &put, (instant){1}, &w.memory, NULL).code, ERR_OK);
    assert_true(settings()->default_missing);
    assert_effective("q", "", "");
    /* The emergency stop works meanwhile. */
    assert_int_equal(set("{\"globalMaxRetries\": 0}", "", 2), ERR_OK);
    restart(true);
    assert_effective("q", "", "");
    put_named("default", "{defaultAction: Retry}");
    assert_effective("q", "", "default");
    assert_false(settings()->default_missing);
    assert_int_equal(policies_remove(w.p, STR("default"), false).code, ERR_CONFLICT);
    /* Whoever detaches it is not asked to change the settings first. */
    assert_int_equal(policies_remove(w.p, STR("default"), true).code, ERR_OK);
    assert_true(settings()->default_missing);
}

static void a_policy_that_is_detached_is_taken_from_all_queues(void **state)
{
    (void)state;
    put_named("a", "{defaultAction: Retry}");
    put_named("b", "{defaultAction: Retry}");
    assert_int_equal(policies_queue_put(w.p, STR("one"), STR("a,b")).code, ERR_OK);
    assert_int_equal(policies_queue_put(w.p, STR("two"), STR("a")).code, ERR_OK);
    assert_int_equal(policies_remove(w.p, STR("a"), false).code, ERR_CONFLICT);
    assert_int_equal(policies_remove(w.p, STR("a"), true).code, ERR_OK);
    assert_int_equal(policies_remove(w.p, STR("a"), true).code, ERR_NOT_FOUND);
    restart(true);
    assert_true(str_eq(policies_queue_names(w.p, STR("one")), STR("b")));
    assert_true(str_eq(policies_queue_names(w.p, STR("two")), STR("")));
}

static void what_a_queue_of_armada_says_is_kept_over_a_restart(void **state)
{
    (void)state;
    struct buf large = {0};
    policies_kept_put(w.p, STR("q"), STR("{\"labels\":{\"team\":\"ml\"},\"priorityFactor\":3}"));
    policies_kept_put(w.p, STR("r"), STR("{\"priorityFactor\":1}"));
    policies_kept_put(w.p, STR("r"), STR(""));
    restart(true);
    struct str kept = policies_kept(w.p, STR("q"));
    assert_true(str_eq(kept, STR("{\"labels\":{\"team\":\"ml\"},\"priorityFactor\":3}")));
    assert_true(str_eq(queue_kept_warning(kept, &w.memory),
                       STR("armada: labels and priorityFactor are kept and have no effect")));
    assert_int_equal(policies_kept(w.p, STR("r")).len, 0);
    assert_int_equal(queue_kept_warning(STR("{}"), &w.memory).len, 0);
    buf_print(&large, "{\"labels\":{\"a\":\"%*s\"}}", QUEUE_KEPT_MAX, "");
    assert_int_equal(policies_kept_check(w.p, STR("q"), buf_view(&large)).code, ERR_TOO_MANY);
    assert_int_equal(policies_kept_check(w.p, STR("q"), kept).code, ERR_OK);
    buf_fini(&large);
}

/* --- documents that can no longer be read --- */

static void a_broken_document_decides_nothing_and_can_be_replaced(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "{", "[]", "{\"kind\": \"RetryPolicy\"}",
                                         ("{\"apiVersion\": \"tenax.dev/v1\", \"kind\": "
                                          "\"RetryPolicy\", \"metadata\": {\"name\": \"else\"}, "
                                          "\"spec\": {\"defaultAction\": \"Retry\"}}")};
    for (size_t i = 0; i < COUNT(bodies); i++) {
        struct resource_view *view;
        size_t n;
        policies_free(w.p);
        start(true);
        assert_int_not_equal(
            policies_restore(w.p, POLICIES_POLICY, STR("infra"), 7, str_from(bodies[i])).code,
            ERR_OK);
        assert_int_equal(policies_restore(w.p, POLICIES_QUEUE, STR("q"), 8, STR("infra")).code,
                         ERR_OK);
        assert_effective("q", "", "");
        assert_int_equal(policies_read(w.p, STR("infra"), &w.memory, &view, &n).code, ERR_OK);
        assert_int_equal(n, 1);
        assert_null(view->policy);
        assert_int_equal(view->version, 7);
        assert_true(view->broken.len > 0);
        put_named("infra", "{defaultAction: Retry}");
        assert_effective("q", "", "infra");
    }
    assert_int_not_equal(
        policies_restore(w.p, POLICIES_SETTINGS, (struct str){0}, 9, STR("?")).code, ERR_OK);
    assert_int_not_equal(policies_restore(w.p, 'X', STR("x"), 9, STR("?")).code, ERR_OK);
}

static void a_record_of_the_last_change_that_is_no_json_is_not_shown(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "{", "{\"at\":1,\"by\":\"\xff\"}"};
    for (size_t i = 0; i < COUNT(bodies); i++) {
        struct err err =
            policies_restore(w.p, POLICIES_CHANGE, (struct str){0}, 7, str_from(bodies[i]));
        assert_int_not_equal(err.code, ERR_OK);
        assert_null(settings()->last);
    }
}

/* --- simulation --- */

static void a_simulation_is_bounded_however_slow_its_patterns_are(void **state)
{
    (void)state;
    enum { FAILURES = 300 };
    static char text[1000];
    static struct run runs[FAILURES];
    struct policy_document draft;
    struct document_fault fault;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < FAILURES; i++)
        runs[i] = (struct run){.outcome = OUTCOME_FAILED,
                               .failure.termination_message = {text, sizeof text}};
    assert_true(policy_document_parse(
        STR("{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: slow}, spec: "
            "{defaultAction: Retry, retryLimit: 1000000, rules: [{action: Fail, "
            "onTerminationMessage: {pattern: '[ab].*[x-z]'}}]}}"),
        DOCUMENT_YAML, &draft, &fault));
    assert_int_equal(set("{\"globalMaxRetries\": 1000000}", "", 1), ERR_OK);
    const struct policy *const drafts[] = {&draft.policy};
    const struct policies_draft what = {drafts, 1, NULL};
    const struct verdict_rules own = {.defaults = retry_defaults()};
    struct job job = {.queue = STR("q"), .retry_limit = 1000000};
    struct simulate_job judged = {.job = &job, .failed = runs, .failures = FAILURES};
    struct simulate_result out;
    assert_int_equal(policies_simulate(w.p, &what, &judged, &own, &w.memory, &out).code, ERR_OK);
    assert_true(out.truncated && out.draft.more);
    assert_in_range(out.draft.retries, 2, FAILURES / 2);
    /* Nor does it continue for ever with one. */
    judged.failures = 1;
    assert_int_equal(policies_simulate(w.p, &what, &judged, &own, &w.memory, &out).code, ERR_OK);
    assert_true(!out.truncated && out.draft.more);
    assert_in_range(out.draft.retries, 2, SIMULATE_MORE_MAX / 2);
    policy_document_free(&draft);
}

/* --- versions --- */

static void a_version_is_never_given_twice_also_after_a_restart(void **state)
{
    (void)state;
    static const char yaml[] = "{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: p}, "
                               "spec: {defaultAction: Fail}}";
    static const char seen[] = "{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: p, "
                               "resourceVersion: 2}, spec: {defaultAction: Retry}}";
    uint64_t version;
    assert_int_equal(put(yaml, NULL), ERR_OK);
    assert_int_equal(put(yaml, &version), ERR_OK);
    assert_int_equal(version, 2);
    assert_int_equal(policies_remove(w.p, STR("p"), false).code, ERR_OK);
    restart(true);
    assert_int_equal(put(yaml, &version), ERR_OK);
    assert_int_equal(version, 3);
    /* An update based on the earlier version must not overwrite it. */
    assert_int_equal(put(seen, NULL), ERR_CONFLICT);
}

/* --- who changed the settings --- */

static void assert_last(int64_t at, const char *by, int64_t from, int64_t to)
{
    const struct policy_changed *last = settings()->last;
    assert_non_null(last);
    assert_int_equal(last->at.ms, at);
    assert_true(str_eq(last->by, str_from(by)));
    assert_int_equal(last->from.to.global_max_retries, from);
    assert_int_equal(last->to.to.global_max_retries, to);
}

static void the_last_change_is_that_which_changed_something(void **state)
{
    (void)state;
    assert_int_equal(set("{\"globalMaxRetries\": 5}", "alice", 100), ERR_OK);
    assert_int_equal(set("{\"globalMaxRetries\": 5}", "bob", 200), ERR_OK);
    assert_last(100, "alice", POLICY_GLOBAL_MAX, 5);
    assert_int_equal(set("{\"globalMaxRetries\": 6}", "carol", 300), ERR_OK);
    assert_last(300, "carol", 5, 6);
    restart(true);
    assert_last(300, "carol", 5, 6);
}

static void a_change_that_an_earlier_version_noted_is_kept_as_it_is(void **state)
{
    (void)state;
    static const char body[] = "{\"at\":7,\"by\":null,\"old\":{\"enabled\": false, "
                               "\"globalMaxRetries\": 20},\"new\":{\"enabled\": true, "
                               "\"globalMaxRetries\": 3, \"defaultBackoff\": {\"initialDelay\": "
                               "\"1s\", \"maxDelay\": \"10m\", \"multiplier\": 2}}}";
    assert_int_equal(
        policies_restore(w.p, POLICIES_CHANGE, (struct str){0}, 7, str_from(body)).code, ERR_OK);
    assert_last(7, "", 20, 3);
    const struct policy_changed *last = settings()->last;
    assert_int_equal(last->from.set, POLICY_SET_ENABLED | POLICY_SET_MAX);
    assert_int_equal(last->to.set, POLICY_SET_ENABLED | POLICY_SET_MAX | POLICY_SET_BACKOFF);
    struct str text = settings_document_changed_text(last, &w.memory);
    assert_true(str_eq(text, STR("{\"at\": 7, \"by\": null, \"old\": {\"enabled\": false, "
                                 "\"globalMaxRetries\": 20}, \"new\": {\"enabled\": true, "
                                 "\"globalMaxRetries\": 3, \"defaultBackoff\": "
                                 "{\"initialDelay\": \"1s\", \"maxDelay\": \"10m\", "
                                 "\"multiplier\": 2, \"jitter\": \"0s\"}}}")));
}

/* One answer may hold all of them. */
static void all_policies_together_are_bounded(void **state)
{
    (void)state;
    struct buf b = {0};
    enum err_code code = ERR_OK;
    unsigned count = 0;
    for (; code == ERR_OK && count < 100; count++) {
        b.len = 0;
        buf_print(&b,
                  "{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: p%u}, spec: "
                  "{rules: [",
                  count);
        for (int i = 0; i < 250; i++)
            buf_print(&b, "{action: Retry, onTerminationMessage: {pattern: '%d%2000d'}},", i, 1);
        buf_lit(&b, "]}}");
        buf_byte(&b, '\0');
        code = put(b.at, NULL);
    }
    buf_fini(&b);
    assert_int_equal(code, ERR_TOO_MANY);
    assert_in_range(count, 5, 10);
    put_named("p0", "{defaultAction: Retry}"); /* makes room */
    put_named("small", "{defaultAction: Retry}");
    restart(true);
    assert_effective("q", "p1,small", "p1,small");
}

/* A short pattern that is compiled to nearly 64 KiB, and 50 of them in each. */
static void their_patterns_together_are_bounded_as_they_are_compiled(void **state)
{
    (void)state;
    struct buf b = {0};
    enum err_code code = ERR_OK;
    unsigned count = 0;
    for (; code == ERR_OK && count < 200; count++) {
        b.len = 0;
        buf_print(&b,
                  "{apiVersion: tenax.dev/v1, kind: RetryPolicy, metadata: {name: p%u}, spec: "
                  "{rules: [",
                  count);
        for (int i = 0; i < 100; i++)
            buf_print(&b, "{action: Retry, onTerminationMessage: {pattern: '%d([a-c]){700}'}},", i);
        buf_lit(&b, "]}}");
        buf_byte(&b, '\0');
        code = put(b.at, NULL);
    }
    buf_fini(&b);
    assert_int_equal(code, ERR_TOO_MANY);
    assert_in_range(count, 65, 99);            /* 256 MiB */
    put_named("p0", "{defaultAction: Retry}"); /* makes room */
    put_named("small",
              "{rules: [{action: Retry, onTerminationMessage: {pattern: '([a-c]){700}'}}]}");
}

static size_t standing_count(void)
{
    return policies_standing(w.p)->count;
}

static size_t standing_of(const char *name)
{
    struct standing one;
    policies_standing_of(w.p, false, str_from(name), &one);
    size_t count = one.count;
    standing_fini(&one);
    return count;
}

static void warnings_stand_until_what_they_are_about_changes(void **state)
{
    (void)state;
    put_named("calm", "{rules: [{action: Retry, onConditions: [Evicted], retryLimit: 5, "
                      "backoff: {initialDelay: 1s, jitter: 1s}}]}");
    assert_int_equal(standing_count(), 0);
    assert_int_equal(set("{\"globalMaxRetries\": 2}", "me", 1), ERR_OK);
    for (int i = 0; i < 2; i++, restart(true)) {
        assert_int_equal(standing_count(), 1);
        assert_int_equal(standing_of("calm"), 1);
        assert_int_equal(standing_of("cal"), 0);
    }
    assert_int_equal(set("{\"enabled\": false}", "me", 2), ERR_OK);
    assert_int_equal(standing_count(), 2);
    assert_null(policies_standing(w.p)->list[0].kind); /* the settings' come first */
    assert_int_equal(policies_remove(w.p, STR("calm"), false).code, ERR_OK);
    assert_int_equal(standing_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(the_jobs_policies_come_behind_those_of_its_queue),
        WORLD_TEST(switched_off_they_are_known_and_not_enabled),
        WORLD_TEST(one_that_is_deleted_is_passed_over),
        WORLD_TEST(the_default_policy_may_be_made_later_if_that_is_meant),
        WORLD_TEST(a_broken_document_decides_nothing_and_can_be_replaced),
        WORLD_TEST(a_record_of_the_last_change_that_is_no_json_is_not_shown),
        WORLD_TEST(a_simulation_is_bounded_however_slow_its_patterns_are),
        WORLD_TEST(a_policy_that_is_detached_is_taken_from_all_queues),
        WORLD_TEST(what_a_queue_of_armada_says_is_kept_over_a_restart),
        WORLD_TEST(a_version_is_never_given_twice_also_after_a_restart),
        WORLD_TEST(the_last_change_is_that_which_changed_something),
        WORLD_TEST(a_change_that_an_earlier_version_noted_is_kept_as_it_is),
        WORLD_TEST(all_policies_together_are_bounded),
        WORLD_TEST(their_patterns_together_are_bounded_as_they_are_compiled),
        WORLD_TEST(warnings_stand_until_what_they_are_about_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
