/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "client/view.h"
#include "executor/pod_report.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

/* An init container that succeeded, one that failed, one that a signal ended, one that runs. */
static const char pod_text[] =
    "{\"metadata\": {\"name\": \"p\", \"uid\": \"u\"}, \"spec\": {\"nodeName\": \"n1\","
    " \"initContainers\": [{\"name\": \"fetch\"}],"
    " \"containers\": [{\"name\": \"proxy\"}, {\"name\": \"main\", \"env\": [{\"name\": "
    "\"DB_PASSWORD\", \"value\": \"hunter2-hunter2\"}]}, {\"name\": \"side\"},"
    " {\"name\": \"never\"}]},"
    " \"status\": {\"phase\": \"Failed\", \"message\": \"told hunter2-hunter2\","
    " \"initContainerStatuses\": [{\"name\": \"fetch\", \"state\": {\"terminated\": "
    "{\"exitCode\": 0, \"reason\": \"Completed\"}}}],"
    " \"containerStatuses\": ["
    "{\"name\": \"proxy\", \"state\": {\"terminated\": {\"exitCode\": 0, \"signal\": 15}}},"
    "{\"name\": \"main\", \"state\": {\"terminated\": {\"exitCode\": 3, \"reason\": \"Error\", "
    "\"message\": \"ter2 of hunter2-hunter2, hunt\"}}, \"lastState\": {\"terminated\": "
    "{\"exitCode\": 1, \"message\": \"before, too: hunter2-hunter2\"}}},"
    "{\"name\": \"side\", \"state\": {\"running\": {}}},"
    "{\"name\": \"never\", \"state\": {\"waiting\": {\"reason\": \"PodInitializing\"}}}]}}";

/* A container that waits, and says why. */
static const char waiting_text[] =
    "{\"metadata\": {\"name\": \"p\", \"uid\": \"u\"}, \"spec\": {\"containers\": [{\"name\": "
    "\"main\", \"env\": [{\"name\": \"DB_PASSWORD\", \"value\": \"hunter2-hunter2\"}]}]},"
    " \"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": \"Ready\", \"status\": "
    "\"False\", \"message\": \"no hunter2-hunter2\"}], \"containerStatuses\": [{\"name\": "
    "\"main\", "
    "\"state\": {\"waiting\": {\"reason\": \"ErrImagePull\", \"message\": "
    "\"registry:hunter2-hunter2@x\"}}}]}}";

static struct kube_pod read_pod(const char *text)
{
    struct kube_pod p;
    assert_int_equal(kube_pod_read(str_from(text), &memory, &p).code, ERR_OK);
    return p;
}

static struct pod_mask read_mask(const char *text)
{
    struct pod_mask m;
    assert_int_equal(pod_mask_read(str_from(text), &memory, &m).code, ERR_OK);
    return m;
}

static void add(struct pod_report_logs *l, const char *container, const char *text)
{
    static const struct pod_mask none;
    pod_report_logs_add(l, str_from(container), str_from(text), false, &none);
}

/* The report of that pod, as a JSON object. */
static struct str report_of(const struct kube_pod *p, const struct pod_report_logs *logs)
{
    struct kube_failure f =
        kube_failure(p, KUBE_FAILURE_ENDED, KUBE_VERDICT_BY_NODE, (span){0}, NULL, 0, &memory);
    struct buf b = {0};
    buf_lit(&b, "{\"x\":0");
    pod_report_write(&f, p, logs, false, &b);
    buf_byte(&b, '}');
    struct str json = arena_copy(&memory, buf_view(&b));
    buf_fini(&b);
    assert_int_equal(view_check(json, NULL).code, ERR_OK);
    return json;
}

static void assert_member(struct str json, const char *name, const char *want)
{
    struct str found = view_get(json, name);
    if (!str_eq(found, str_from(want)))
        fail_msg("%s: expected %s, found %.*s", name, want, (int)found.len, found.at);
}

static void every_container_is_told_of_with_its_end_and_its_log(void **state)
{
    (void)state;
    struct kube_pod p = read_pod(pod_text);
    struct pod_report_logs logs = {0};
    add(&logs, "main", "the disk is full\n");
    add(&logs, "fetch", "fetched\n");
    add(&logs, "side", "still here\n");
    struct str json = report_of(&p, &logs);
    assert_member(json, "containers",
                  "[{\"name\":\"fetch\",\"init\":true,\"exit_code\":0,\"reason\":\"Completed\","
                  "\"log\":\"fetched\\n\"},"
                  "{\"name\":\"proxy\",\"init\":false,\"exit_code\":0,\"signal\":15},"
                  "{\"name\":\"main\",\"init\":false,\"exit_code\":3,\"reason\":\"Error\","
                  "\"message\":\"ter2 of hunter2-hunter2, hunt\",\"log\":\"the disk is full\\n\"},"
                  "{\"name\":\"side\",\"init\":false,\"log\":\"still here\\n\"}]");
    assert_member(json, "signal", "15");
    assert_member(json, "node", "\"n1\"");
    pod_report_logs_fini(&logs);
}

static void no_text_of_the_pod_shows_a_secret(void **state)
{
    (void)state;
    struct kube_pod p = read_pod(pod_text);
    struct pod_mask mask = read_mask(pod_text);
    struct pod_report_logs logs = {0};
    pod_report_logs_add(&logs, STR("main"), STR("login hunter2-hunter2\n"), false, &mask);
    pod_report_mask(&p, &mask, &memory);
    struct str json = report_of(&p, &logs);
    assert_null(memmem(json.at, json.len, "unter2", 6));
    assert_non_null(memmem(json.at, json.len, "login ***", 9));
    /* Also what is left of one at either end of a termination message. */
    assert_non_null(memmem(json.at, json.len, "*** of ***, ***", 15));
    struct kube_pod_event e = {.message = STR("exec: hunter2-hunter2: not found")};
    pod_report_mask_event(&e, &mask, &memory);
    assert_true(str_eq(e.message, STR("exec: ***: not found")));
    pod_report_logs_fini(&logs);
}

static void what_a_container_said_before_or_waits_for_shows_no_secret(void **state)
{
    (void)state;
    struct kube_pod p = read_pod(pod_text);
    struct pod_mask mask = read_mask(pod_text);
    pod_report_mask(&p, &mask, &memory);
    size_t found = 0;
    for (size_t i = 0; i < p.container_count; i++)
        found += str_eq(p.containers[i].last.message, STR("before, too: ***"));
    assert_int_equal(found, 1);
    p = read_pod(waiting_text);
    pod_report_mask(&p, &mask, &memory);
    assert_true(str_eq(p.containers[0].waiting_message, STR("registry:***@x")));
    assert_true(str_eq(p.conditions[0].message, STR("no ***")));
}

static void of_a_pod_whose_secrets_are_not_known_nothing_is_shown(void **state)
{
    (void)state;
    const struct pod_mask all = {.all = true};
    struct kube_pod p = read_pod(pod_text);
    struct pod_report_logs logs = {0};
    pod_report_logs_add(&logs, STR("main"), STR("anything"), false, &all);
    assert_true(str_eq(pod_report_logs_get(&logs, STR("main")), STR(POD_MASK_TEXT)));
    pod_report_mask(&p, &all, &memory);
    assert_true(str_eq(p.message, STR(POD_MASK_TEXT)));
    pod_report_logs_fini(&logs);
}

static void logs_are_read_of_those_that_failed_first(void **state)
{
    (void)state;
    static const char *const want[] = {"proxy", "main", "fetch", "side"};
    struct kube_pod p = read_pod(pod_text);
    size_t at = 0;
    for (size_t i = 0; i < COUNT(want); i++) {
        const struct kube_pod_container *c = pod_report_next(&p, &at);
        assert_non_null(c);
        assert_true(str_eq(c->name, str_from(want[i])));
    }
    assert_null(pod_report_next(&p, &at));
    assert_null(pod_report_next(&p, &at));
    struct kube_pod none = {0};
    at = 0;
    assert_null(pod_report_next(&none, &at));
}

static void the_level_is_the_highest_that_fits(void **state)
{
    (void)state;
    static const struct {
        size_t lengths[4], count, total, level;
    } rows[] = {
        {{10, 20, 30}, 3, 60, SIZE_MAX},
        {{10, 20, 30}, 3, 59, 29},
        {{10, 20, 30}, 3, 45, 17},
        {{10, 10, 10}, 3, 29, 9},
        {{100, 1, 1, 1}, 4, 50, 47},
        {{5, 5}, 2, 1, 0},
        {{5, 5}, 2, 0, 0},
        {{0}, 0, 0, SIZE_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(pod_report_level(rows[i].lengths, rows[i].count, rows[i].total),
                         rows[i].level);
}

static size_t total_of(const struct pod_report_logs *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->at[i].text.len;
    return n;
}

static void a_log_is_not_lost_because_others_are_long(void **state)
{
    (void)state;
    struct pod_report_logs logs = {0};
    struct buf text = {0};
    char name[8];
    for (int i = 0; text.len < 200000; i++)
        buf_print(&text, "line %d\n", i);
    buf_byte(&text, '\0');
    for (size_t i = 0; i + 1 < POD_REPORT_LOGS_MAX; i++) {
        snprintf(name, sizeof name, "c%zu", i);
        add(&logs, name, text.at);
        assert_true(total_of(&logs) <= POD_REPORT_BYTES_MAX);
        assert_true(pod_report_logs_get(&logs, str_from(name)).len <= POD_REPORT_LOG_MAX);
    }
    add(&logs, "last", "short\n");
    assert_true(str_eq(pod_report_logs_get(&logs, STR("last")), STR("short\n")));
    assert_true(total_of(&logs) > POD_REPORT_BYTES_MAX * 9 / 10);
    assert_true(total_of(&logs) <= POD_REPORT_BYTES_MAX);
    /* Whole lines, at their end. */
    struct str first = pod_report_logs_get(&logs, STR("c0"));
    assert_true(first.len > 4000 && memcmp(first.at, "line ", 5) == 0);
    assert_memory_equal(first.at + first.len - 20, text.at + text.len - 21, 20);
    pod_report_logs_fini(&logs);
    buf_fini(&text);
}

/* Each byte that is no text becomes three. */
static void a_log_that_is_no_text_keeps_the_limit(void **state)
{
    (void)state;
    static const struct pod_mask none;
    struct pod_report_logs logs = {0};
    char bytes[POD_REPORT_LOG_MAX];
    memset(bytes, 0xff, sizeof bytes);
    pod_report_logs_add(&logs, STR("main"), (struct str){bytes, sizeof bytes}, false, &none);
    struct str log = pod_report_logs_get(&logs, STR("main"));
    assert_true(log.len <= POD_REPORT_LOG_MAX && log.len > POD_REPORT_LOG_MAX / 2);
    assert_memory_equal(log.at, "\xef\xbf\xbd", 3);
    pod_report_logs_fini(&logs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_container_is_told_of_with_its_end_and_its_log, tear_down),
        cmocka_unit_test_teardown(no_text_of_the_pod_shows_a_secret, tear_down),
        cmocka_unit_test_teardown(what_a_container_said_before_or_waits_for_shows_no_secret,
                                  tear_down),
        cmocka_unit_test_teardown(of_a_pod_whose_secrets_are_not_known_nothing_is_shown, tear_down),
        cmocka_unit_test_teardown(logs_are_read_of_those_that_failed_first, tear_down),
        cmocka_unit_test(the_level_is_the_highest_that_fits),
        cmocka_unit_test(a_log_is_not_lost_because_others_are_long),
        cmocka_unit_test(a_log_that_is_no_text_keeps_the_limit),
    };
    return cmocka_run_group_tests_name("executor/pod_report", tests, NULL, NULL);
}
