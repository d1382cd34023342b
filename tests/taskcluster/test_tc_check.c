/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "taskcluster/tc_internal.h"

static void slugids_are_random_uuids(void **state)
{
    (void)state;
    static const char *const good[] = {"fN1SbArXTPSVFUUvaOlinQ", "UXGXMWOOTC6IfF-9ZhwO2g",
                                       "AAAAAAAAQACAAAAAAAAAAA"};
    static const char *const bad[] = {"",
                                      "fN1SbArXTPSVFUUvaOlin",
                                      "fN1SbArXTPSVFUUvaOlinQQ",
                                      "fN1SbArXAPSVFUUvaOlinQ",
                                      "fN1SbArXTPAVFUUvaOlinQ",
                                      "fN1SbArXTPSVFUUvaOlinB",
                                      "fN1SbArX/PSVFUUvaOlinQ"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(tc_is_slugid(str_from(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tc_is_slugid(str_from(bad[i])));
}

static void task_queues_have_two_parts(void **state)
{
    (void)state;
    static const char *const good[] = {"a/b", "prov-1_X/worker-type-2", "0/a9"};
    static const char *const bad[] = {"",    "a",    "/",    "a/",    "/b",  "a/b/c",
                                      "a/B", "a/-b", "a/b-", "a b/c", "a/9", "a/b_c"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(tc_is_task_queue_id(str_from(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tc_is_task_queue_id(str_from(bad[i])));
}

static void names_have_at_most_38_characters(void **state)
{
    (void)state;
    char name[40];
    memset(name, 'a', sizeof name);
    assert_true(tc_is_identifier((struct str){name, 38}));
    assert_false(tc_is_identifier((struct str){name, 39}));
    assert_true(tc_is_worker_type((struct str){name, 38}));
    assert_false(tc_is_worker_type((struct str){name, 39}));
    assert_false(tc_is_identifier(STR("")));
    assert_false(tc_is_identifier(STR("a.b")));
}

static void parameters_are_checked_by_their_names(void **state)
{
    (void)state;
    const char *must_be;
    assert_true(tc_check_param(STR("runId"), STR("0"), &must_be));
    assert_false(tc_check_param(STR("runId"), STR("-1"), &must_be));
    assert_false(tc_check_param(STR("taskId"), STR("x"), &must_be));
    assert_false(tc_check_param(STR("name"), STR("a\nb"), &must_be));
    assert_true(tc_check_param(STR("other"), STR("a\nb"), &must_be));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slugids_are_random_uuids),
        cmocka_unit_test(task_queues_have_two_parts),
        cmocka_unit_test(names_have_at_most_38_characters),
        cmocka_unit_test(parameters_are_checked_by_their_names),
    };
    return cmocka_run_group_tests_name("taskcluster/tc_check", tests, NULL, NULL);
}
