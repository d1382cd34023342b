/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "executor/pod_view.h"

#define ON_NODE  "\"spec\": {\"nodeName\": \"n1\", \"containers\": [{\"name\": \"main\"}]}"
#define NO_NODE  "\"spec\": {\"containers\": [{\"name\": \"main\"}]}"
#define MAIN(is) "\"containerStatuses\": [{\"name\": \"main\", \"state\": " is "}]"
#define PAST     "\"2026-11-22T09:00:00Z\""
#define ENDS     "\"metadata\": {\"name\": \"p\", \"deletionTimestamp\": " PAST "}, "
#define LIVES    "\"metadata\": {\"name\": \"p\"}, "

static const struct {
    const char *pod, *phase, *reason;
} rows[] = {
    {LIVES NO_NODE, "waiting", ""},
    {LIVES NO_NODE ", \"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": "
                   "\"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\", "
                   "\"message\": \"0/3 nodes\\nare available\"}]}",
     "waiting", "0/3 nodes are available"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Pending\", " MAIN(
         "{\"waiting\": {\"reason\": \"ContainerCreating\"}}") "}",
     "initializing", "ContainerCreating"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Pending\", " MAIN(
         "{\"waiting\": {\"reason\": \"ErrImagePull\", \"message\": \"no such image\"}}") "}",
     "failing", "container main: ErrImagePull: no such image; check your image"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Running\", " MAIN("{\"running\": {}}") "}",
     "running", ""},
    {ENDS ON_NODE ", \"status\": {\"phase\": \"Running\", " MAIN("{\"running\": {}}") "}", "ending",
     ""},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Succeeded\"}", "succeeded", ""},
    {ENDS ON_NODE ", \"status\": {\"phase\": \"Succeeded\"}", "succeeded", ""},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Failed\", " MAIN(
         "{\"terminated\": {\"exitCode\": 3, \"reason\": \"Error\"}}") "}",
     "failed", "main: exit code 3"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Failed\", " MAIN(
         "{\"terminated\": {\"exitCode\": 143, \"reason\": \"Error\"}}") "}",
     "failed", "main: signal 15"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Failed\", " MAIN(
         "{\"terminated\": {\"exitCode\": 137, \"reason\": \"OOMKilled\"}}") "}",
     "failed", "OOMKilled"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"OutOfcpu\", \"message\": "
                   "\"no room\"}",
     "failed", "OutOfcpu: no room"},
    {LIVES ON_NODE ", \"status\": {\"phase\": \"Unknown\"}", "node lost", ""},
};

static void phases_and_reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena a = {0};
        struct kube_pod p;
        struct buf text = {0}, b = {0};
        buf_print(&text, "{%s}", rows[i].pod);
        struct err e = kube_pod_read(buf_view(&text), &a, &p);
        if (e.code != ERR_OK)
            fail_msg("row %zu: %s", i, e.msg);
        assert_string_equal(pod_view_phase(&p, KUBE_VERDICT_BY_NODE), rows[i].phase);
        pod_view_reason(&p, KUBE_VERDICT_BY_NODE, &b);
        if (!str_eq(buf_view(&b), str_from(rows[i].reason)))
            fail_msg("row %zu: expected '%s', found '%.*s'", i, rows[i].reason, (int)b.len, b.at);
        buf_fini(&b);
        buf_fini(&text);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(phases_and_reasons)};
    return cmocka_run_group_tests_name("executor/pod_view", tests, NULL, NULL);
}
