/* SPDX-License-Identifier: Apache-2.0 */
#include "core/depend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_list_of_ids_is_kept_in_its_order(void **state)
{
    (void)state;
    struct arena a = {0};
    struct id x = {1, 2}, y = {UINT64_MAX, 3}, z = {1, 3};
    struct str ids = depend_new(&a, 2);
    assert_int_equal(depend_count(ids), 0);
    assert_false(depend_has(ids, x));
    depend_add(&ids, y);
    depend_add(&ids, x);
    assert_int_equal(depend_count(ids), 2);
    assert_true(id_eq(depend_at(ids, 0), y) && id_eq(depend_at(ids, 1), x));
    assert_true(depend_has(ids, x) && depend_has(ids, y) && !depend_has(ids, z));
    struct str left = depend_without(ids, y, &a);
    assert_true(depend_count(left) == 1 && id_eq(depend_at(left, 0), x));
    assert_int_equal(depend_count(depend_without(left, y, &a)), 1);
    assert_int_equal(depend_count(depend_without(left, x, &a)), 0);
    arena_fini(&a);
}

static void names_are_read_back(void **state)
{
    (void)state;
    enum depend_when w;
    enum depend_death d;
    for (int i = DEPEND_ALL_COMPLETED; i <= DEPEND_ALL_ENDED; i++)
        assert_true(depend_when_parse(str_from(depend_when_name((enum depend_when)i)), &w) &&
                    (int)w == i);
    for (int i = DEPEND_BLOCK; i <= DEPEND_DIE; i++)
        assert_true(depend_death_parse(str_from(depend_death_name((enum depend_death)i)), &d) &&
                    (int)d == i);
    assert_false(depend_when_parse(STR("all"), &w));
    assert_false(depend_death_parse(STR(""), &d));
}

static void an_earlier_job_of_a_request_is_no_id(void **state)
{
    (void)state;
    uint32_t index;
    assert_true(depend_is_earlier(depend_earlier(0), &index) && index == 0);
    assert_true(depend_is_earlier(depend_earlier(7), &index) && index == 7);
    assert_false(depend_is_earlier((struct id){1, 1}, &index));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_ids_is_kept_in_its_order),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(an_earlier_job_of_a_request_is_no_id),
    };
    return cmocka_run_group_tests_name("core/depend", tests, NULL, NULL);
}
