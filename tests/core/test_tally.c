/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/tally.h"

static void counts_are_kept_per_policy_and_rule(void **state)
{
    (void)state;
    struct arena a = {0};
    const struct tally in[] = {{STR("a"), 7, 1},
                               {STR("b"), 7, 2},
                               {STR("a"), POLICY_DEFAULT_SLOT, 3},
                               {STR("a"), 7, 0x01020304}};
    struct str bytes = {0};
    for (size_t i = 0; i < 4; i++)
        bytes = tally_set(bytes, &in[i], &a);
    struct policy_count *counts;
    assert_int_equal(tally_counts(bytes, &a, &counts), 3);
    assert_int_equal(counts[0].policy, policy_name_hash(STR("a")));
    assert_int_equal(counts[0].rule, 7);
    assert_int_equal(counts[0].count, 0x01020304);
    assert_int_equal(counts[1].policy, policy_name_hash(STR("b")));
    assert_int_equal(counts[1].count, 2);
    assert_int_equal(counts[2].rule, POLICY_DEFAULT_SLOT);
    arena_fini(&a);
}

static void bytes_that_end_early_have_no_further_count(void **state)
{
    (void)state;
    struct arena a = {0};
    const struct tally one = {STR("name"), 9, 5};
    struct str whole = tally_set((struct str){0}, &one, &a);
    for (size_t n = 0; n < whole.len; n++) {
        struct str cut = {whole.at, n};
        struct tally t;
        assert_false(tally_next(&cut, &t));
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_kept_per_policy_and_rule),
        cmocka_unit_test(bytes_that_end_early_have_no_further_count),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
