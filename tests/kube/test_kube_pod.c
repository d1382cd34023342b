/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/rfc3339.h"
#include "kube/kube_failure.h"
#include "kube/kube_pod.h"
#include "kube/kube_verdict.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

#define ASSERT_STR(got, want)                                                                      \
    do {                                                                                           \
        struct str got_ = (got);                                                                   \
        if (!str_eq(got_, str_from(want)))                                                         \
            fail_msg("expected \"%s\", found \"%.*s\"", (want), STR_ARG(got_));                    \
    } while (0)

static struct kube_pod read_pod(const char *json)
{
    struct kube_pod p;
    struct err e = kube_pod_read(str_from(json), &memory, &p);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    return p;
}

static instant at(const char *text)
{
    instant t;
    assert_true(rfc3339_parse(str_from(text), &t));
    return t;
}

static void a_pod_is_read_whole(void **state)
{
    (void)state;
    struct kube_pod p = read_pod(
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"u\","
        "\"resourceVersion\":\"12\",\"labels\":{\"a\":\"b\\n\",\"c\":\"d\"},"
        "\"annotations\":{\"n\":1},\"creationTimestamp\":\"2026-11-22T09:00:00Z\","
        "\"managedFields\":[{\"manager\":\"x\",\"fieldsV1\":{\"f:status\":{}}}]},"
        "\"spec\":{\"nodeName\":\"n\",\"terminationGracePeriodSeconds\":7,"
        "\"initContainers\":[{\"name\":\"i\",\"image\":\"one\"}],"
        "\"containers\":[{\"name\":\"m\",\"image\":\"two\"}]},"
        "\"status\":{\"phase\":\"Running\",\"startTime\":\"2026-11-22T09:00:01.5Z\","
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
        "\"containerStatuses\":[{\"name\":\"m\",\"restartCount\":2,"
        "\"state\":{\"running\":{\"startedAt\":\"2026-11-22T09:00:09Z\"}}}]}}");
    ASSERT_STR(p.name, "p");
    ASSERT_STR(p.namespace, "ns");
    ASSERT_STR(p.uid, "u");
    ASSERT_STR(p.version, "12");
    ASSERT_STR(p.node, "n");
    ASSERT_STR(kube_pod_value(p.labels, "a", &memory), "b\n");
    ASSERT_STR(kube_pod_value(p.labels, "c", &memory), "d");
    ASSERT_STR(kube_pod_value(p.labels, "e", &memory), "");
    ASSERT_STR(kube_pod_value(p.annotations, "n", &memory), "");
    ASSERT_STR(kube_pod_value((struct str){0}, "n", &memory), "");
    assert_int_equal(p.created_at.ms, at("2026-11-22T09:00:00Z").ms);
    assert_int_equal(p.started_at.ms, at("2026-11-22T09:00:01.500Z").ms);
    assert_false(instant_is_set(p.deleted_at));
    assert_int_equal(p.grace.ms, 7000);
    assert_true(p.has_init);
    assert_int_equal(p.container_count, 2);
    assert_true(p.containers[0].init);
    ASSERT_STR(p.containers[0].image, "one");
    assert_false(p.containers[0].running || p.containers[0].waiting || p.containers[0].end.is);
    ASSERT_STR(p.containers[1].image, "two");
    assert_true(p.containers[1].running);
    assert_int_equal(p.containers[1].restart_count, 2);
    assert_non_null(kube_pod_is(&p, "Ready"));
    assert_null(kube_pod_condition(&p, "PodScheduled"));
}

static void bad_pods_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum err_code code;
        const char *says;
    } rows[] = {
        {"", ERR_BAD_JSON, ""},
        {"[]", ERR_BAD_TYPE, "expected an object"},
        {"{}", ERR_MISSING_FIELD, "metadata.name is required"},
        {"{\"metadata\":{\"name\":\"p\"}} x", ERR_BAD_JSON, ""},
        {"{\"metadata\":{\"name\":7}}", ERR_BAD_TYPE, "metadata: name: "},
        {"{\"metadata\":{\"name\":\"p\",\"creationTimestamp\":\"soon\"}}", ERR_BAD_VALUE,
         "metadata: creationTimestamp: expected a time like"},
        {"{\"metadata\":{\"name\":\"p\"},\"status\":{\"containerStatuses\":{}}}", ERR_BAD_TYPE,
         "status: containerStatuses: "},
        {"{\"metadata\":{\"name\":\"p\"},\"status\":{\"containerStatuses\":[{\"state\":"
         "{\"terminated\":{\"exitCode\":5000000000}}}]}}",
         ERR_BAD_VALUE, "status: containerStatuses: state: terminated: exitCode: "},
        {"{\"metadata\":{\"name\":\"p\"},\"metadata\":{\"name\":\"q\"}}", ERR_DUPLICATE_FIELD,
         "metadata is given twice"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct kube_pod p;
        struct err e = kube_pod_read(str_from(rows[i].json), &memory, &p);
        if (e.code != rows[i].code || !strstr(e.msg, rows[i].says))
            fail_msg("%s: %d %s", rows[i].json, e.code, e.msg);
    }
}

static void the_number_of_containers_is_limited(void **state)
{
    (void)state;
    struct buf b = {0};
    struct kube_pod p;
    buf_lit(&b, "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[");
    for (int i = 0; i < KUBE_POD_CONTAINERS_MAX; i++)
        buf_print(&b, "%s{\"name\":\"c%d\"}", i ? "," : "", i);
    size_t cut = b.len;
    buf_lit(&b, "]}}");
    assert_int_equal(kube_pod_read(buf_view(&b), &memory, &p).code, ERR_OK);
    assert_int_equal(p.container_count, KUBE_POD_CONTAINERS_MAX);
    b.len = cut;
    buf_lit(&b, ",{\"name\":\"more\"}]}}");
    assert_int_equal(kube_pod_read(buf_view(&b), &memory, &p).code, ERR_TOO_MANY);
    buf_fini(&b);
}

static void grace_is_that_of_the_deletion_then_of_the_spec(void **state)
{
    (void)state;
    static const struct {
        const char *deletion, *spec;
        int64_t ms;
    } rows[] = {
        {"null", "null", 30000}, {"null", "5", 5000},
        {"2", "5", 2000},        {"0", "5", 0},
        {"null", "-1", 0},       {"900000000000000", "1", SPAN_MAX_MS / 1000 * 1000},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"metadata\":{\"name\":\"p\",\"deletionGracePeriodSeconds\":%s},"
                 "\"spec\":{\"terminationGracePeriodSeconds\":%s}}",
                 rows[i].deletion, rows[i].spec);
        assert_int_equal(read_pod(json).grace.ms, rows[i].ms);
    }
}

static void times_say_how_far_it_came(void **state)
{
    (void)state;
    struct kube_pod p = read_pod(
        "{\"metadata\":{\"name\":\"p\",\"creationTimestamp\":\"2026-11-22T09:00:00Z\"},"
        "\"spec\":{\"initContainers\":[{\"name\":\"i\"}],"
        "\"containers\":[{\"name\":\"m\"},{\"name\":\"s\"}]},"
        "\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\","
        "\"lastTransitionTime\":\"2026-11-22T09:00:01Z\"}],"
        "\"initContainerStatuses\":[{\"name\":\"i\",\"state\":{\"terminated\":{\"exitCode\":0,"
        "\"startedAt\":\"2026-11-22T09:00:04Z\",\"finishedAt\":\"2026-11-22T09:00:06Z\"}}}],"
        "\"containerStatuses\":[{\"name\":\"m\",\"state\":{\"running\":{"
        "\"startedAt\":\"2026-11-22T09:00:07Z\"}}},{\"name\":\"s\",\"state\":{\"running\":{"
        "\"startedAt\":\"2026-11-22T09:00:09Z\"}}}]}}");
    struct kube_pod_times t = kube_pod_times(&p);
    assert_int_equal(t.created.ms, at("2026-11-22T09:00:00Z").ms);
    assert_int_equal(t.scheduled.ms, at("2026-11-22T09:00:01Z").ms);
    assert_int_equal(t.pulled.ms, at("2026-11-22T09:00:04Z").ms);
    assert_int_equal(t.running.ms, at("2026-11-22T09:00:09Z").ms);
    assert_int_equal(t.ended.ms, at("2026-11-22T09:00:06Z").ms);
    p = read_pod("{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"m\"},"
                 "{\"name\":\"s\"}]},\"status\":{\"containerStatuses\":[{\"name\":\"m\","
                 "\"state\":{\"running\":{\"startedAt\":\"2026-11-22T09:00:07Z\"}}}]}}");
    t = kube_pod_times(&p);
    assert_false(instant_is_set(t.created) || instant_is_set(t.scheduled));
    assert_true(instant_is_set(t.pulled));
    assert_false(instant_is_set(t.running) || instant_is_set(t.ended));
}

static void only_the_scheduler_says_unschedulable(void **state)
{
    (void)state;
    static const struct {
        const char *node, *condition;
        bool is;
    } rows[] = {
        {"null", "\"status\":\"False\",\"reason\":\"Unschedulable\"", true},
        {"null", "\"status\":\"False\",\"reason\":\"SchedulingGated\"", false},
        {"null", "\"status\":\"True\",\"reason\":\"Unschedulable\"", false},
        {"\"n\"", "\"status\":\"False\",\"reason\":\"Unschedulable\"", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":%s},"
                 "\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",%s}]}}",
                 rows[i].node, rows[i].condition);
        struct kube_pod p = read_pod(json);
        assert_int_equal(kube_pod_unschedulable(&p), rows[i].is);
    }
}

static void a_recheck_is_later_each_time_only_while_it_is_initialized(void **state)
{
    (void)state;
    static const int64_t seconds[] = {30, 40, 50, 60, 70, 80};
    for (uint32_t n = 0; n < COUNT(seconds); n++) {
        assert_int_equal(kube_verdict_recheck(KUBE_VERDICT_INITIALIZING, n).ms, seconds[n] * 1000);
        assert_int_equal(kube_verdict_recheck(KUBE_VERDICT_WAITING, n).ms, 30000);
    }
}

/* --- events --- */

static struct kube_pod_event read_event(const char *json)
{
    struct kube_pod_event e;
    struct err err = kube_pod_event_read(str_from(json), &memory, &e);
    if (err.code != ERR_OK)
        fail_msg("%s", err.msg);
    return e;
}

static void events_of_both_versions_are_read(void **state)
{
    (void)state;
    struct kube_pod_event old = read_event(
        "{\"kind\":\"Event\",\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\",\"namespace\":"
        "\"ns\",\"uid\":\"u\"},\"reason\":\"FailedMount\",\"message\":\"no such volume\",\"type\":"
        "\"Warning\",\"count\":3,\"lastTimestamp\":\"2026-11-22T09:00:00Z\",\"eventTime\":null}");
    ASSERT_STR(old.pod, "p");
    ASSERT_STR(old.namespace, "ns");
    ASSERT_STR(old.uid, "u");
    ASSERT_STR(old.reason, "FailedMount");
    ASSERT_STR(old.message, "no such volume");
    assert_true(old.about_pod && old.warning);
    assert_int_equal(old.count, 3);
    assert_int_equal(old.at.ms, at("2026-11-22T09:00:00Z").ms);
    struct kube_pod_event newer = read_event(
        "{\"regarding\":{\"kind\":\"Node\",\"name\":\"n\"},\"reason\":\"Rebooted\",\"note\":\"x\","
        "\"type\":\"Normal\",\"deprecatedCount\":2,\"series\":{\"count\":5,\"lastObservedTime\":"
        "\"2026-11-22T09:00:02.000001Z\"},\"eventTime\":\"2026-11-22T09:00:01.000000Z\"}");
    ASSERT_STR(newer.message, "x");
    assert_false(newer.about_pod || newer.warning);
    assert_int_equal(newer.count, 5);
    assert_int_equal(newer.at.ms, at("2026-11-22T09:00:02Z").ms);
    assert_int_equal(read_event("{}").count, 1);
    struct kube_pod_event e;
    assert_int_equal(kube_pod_event_read(STR("{\"reason\":1}"), &memory, &e).code, ERR_BAD_TYPE);
}

static struct kube_pod_event event(const char *reason, int64_t ms, bool warning)
{
    return (struct kube_pod_event){.pod = STR("p"),
                                   .uid = STR("u"),
                                   .about_pod = true,
                                   .warning = warning,
                                   .reason = str_from(reason),
                                   .message = STR("so\nit is"),
                                   .count = 1,
                                   .at = {ms}};
}

static void events_that_matter_are_told_in_their_order(void **state)
{
    (void)state;
    struct kube_pod p = read_pod("{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"}}");
    struct kube_pod_event events[] = {
        event("BackOff", 30, true),     event("Scheduled", 1, false),
        event("FailedMount", 10, true), event("Killing", 20, false),
        event("OfAnotherPod", 5, true), event("OfANode", 5, true),
        event("FailedAgain", 10, true),
    };
    events[2].count = 4;
    events[4].uid = STR("v");
    events[5].about_pod = false;
    struct kube_failure f = kube_failure(&p, KUBE_FAILURE_GONE, KUBE_VERDICT_BY_NODE, (span){0},
                                         events, COUNT(events), &memory);
    assert_int_equal(f.event_count, 4);
    ASSERT_STR(f.events[0], "FailedMount: so it is (4 times)");
    ASSERT_STR(f.events[1], "FailedAgain: so it is");
    ASSERT_STR(f.events[2], "Killing: so it is");
    ASSERT_STR(f.events[3], "BackOff: so it is");
}

static void texts_events_and_containers_are_bounded(void **state)
{
    (void)state;
    struct kube_pod_event many[KUBE_FAILURE_EVENTS_MAX + 10];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = event(i < 10 ? "Old" : "New", (int64_t)i, true);
    struct buf b = {0};
    buf_lit(&b, "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"status\":{\"phase\":\"Failed\","
                "\"message\":\"");
    for (int i = 0; i < KUBE_FAILURE_TEXT_MAX; i++)
        buf_lit(&b, "\xc3\xbc");
    buf_lit(&b, "\",\"containerStatuses\":[");
    for (int i = 0; i < KUBE_FAILURE_CONTAINERS_MAX + 5; i++)
        buf_print(&b, "%s{\"name\":\"c%d\",\"state\":{\"terminated\":{\"exitCode\":1}}}",
                  i ? "," : "", i);
    buf_lit(&b, "]}}");
    struct kube_pod p;
    assert_int_equal(kube_pod_read(buf_view(&b), &memory, &p).code, ERR_OK);
    struct kube_failure f = kube_failure(&p, KUBE_FAILURE_ENDED, KUBE_VERDICT_BY_NODE, (span){0},
                                         many, COUNT(many), &memory);
    assert_int_equal(f.event_count, KUBE_FAILURE_EVENTS_MAX);
    ASSERT_STR(f.events[0], "New: so it is");
    assert_int_equal(f.container_count, KUBE_FAILURE_CONTAINERS_MAX);
    assert_true(f.message.len <= KUBE_FAILURE_TEXT_MAX);
    assert_true(f.pod_error.len <= KUBE_FAILURE_TEXT_MAX);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_pod_is_read_whole, tear_down),
        cmocka_unit_test_teardown(bad_pods_are_refused, tear_down),
        cmocka_unit_test_teardown(the_number_of_containers_is_limited, tear_down),
        cmocka_unit_test_teardown(grace_is_that_of_the_deletion_then_of_the_spec, tear_down),
        cmocka_unit_test_teardown(times_say_how_far_it_came, tear_down),
        cmocka_unit_test_teardown(only_the_scheduler_says_unschedulable, tear_down),
        cmocka_unit_test(a_recheck_is_later_each_time_only_while_it_is_initialized),
        cmocka_unit_test_teardown(events_of_both_versions_are_read, tear_down),
        cmocka_unit_test_teardown(events_that_matter_are_told_in_their_order, tear_down),
        cmocka_unit_test_teardown(texts_events_and_containers_are_bounded, tear_down),
    };
    return cmocka_run_group_tests_name("kube_pod", tests, NULL, NULL);
}
