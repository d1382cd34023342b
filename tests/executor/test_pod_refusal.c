/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "executor/pod_refusal.h"

#define POD                                                                                        \
    "{\"spec\": {\"initContainers\": [{\"name\": \"setup\"}], \"containers\": [{\"name\": "        \
    "\"main\", \"env\": [{\"name\": \"API_KEY\", \"value\": \"hunter22\"}]}, {\"name\": "          \
    "\"side\"}, {\"image\": \"i\"}]}}"

static const struct {
    const char *message, *field; /* "": no cause */
    const char *pod, *says;
} rows[] = {
    {"Pod \"p\" is invalid: spec.containers[0].image: Required value", "", POD,
     "Pod \"p\" is invalid: spec.containers[0].image: Required value (container 'main')"},
    {"[spec.containers[1].name: x, spec.containers[1].image: x, spec.initContainers[0].image: x]",
     "", POD,
     "[spec.containers[1].name: x, spec.containers[1].image: x, spec.initContainers[0].image: x]"
     " (container 'side', init container 'setup')"},
    {"Pod is invalid", "spec.initContainers[0].image", POD,
     "Pod is invalid; spec.initContainers[0].image: wrong (init container 'setup')"},
    {"spec.containers[2].name: Required value", "", POD,
     "spec.containers[2].name: Required value (container 3, which has no name)"},
    {"spec.containers[7].image: x", "", POD,
     "spec.containers[7].image: x (container 8, which has no name)"},
    {"spec.containers[0].env[0].value: hunter22", "", POD,
     "spec.containers[0].env[0].value: *** (container 'main')"},
    {"no entry", "", POD, "no entry"},
    {"containers[0", "", POD, "containers[0"},
    {"containers[]", "", POD, "containers[]"},
    {"ontainers[0]", "", POD, "ontainers[0]"},
    {"spec.containers[0].image: hunter22", "", "no pod", "***"},
};

static void names_the_containers_that_are_counted_and_no_secret(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct kube_answer a = {.message = str_from(rows[i].message)};
        struct buf b = {0};
        if (*rows[i].field)
            a.causes[a.cause_count++] = (struct kube_answer_cause){.field = str_from(rows[i].field),
                                                                   .message = STR("wrong")};
        pod_refusal_write(&a, str_from(rows[i].pod), &b);
        buf_byte(&b, '\0');
        assert_string_equal(b.at, rows[i].says);
        buf_fini(&b);
    }
}

static void names_at_most_eight(void **state)
{
    (void)state;
    struct buf said = {0}, b = {0};
    for (int i = 0; i < 12; i++)
        buf_print(&said, "spec.containers[%d].image ", i);
    struct kube_answer a = {.message = buf_view(&said)};
    pod_refusal_write(&a, STR(POD), &b);
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.at, "container 8, which"));
    assert_null(strstr(b.at, "container 9, which"));
    buf_fini(&said);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_containers_that_are_counted_and_no_secret),
        cmocka_unit_test(names_at_most_eight),
    };
    return cmocka_run_group_tests_name("pod_refusal", tests, NULL, NULL);
}
