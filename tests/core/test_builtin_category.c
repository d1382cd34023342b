/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "core/builtin_category.h"
#include "core/categorize.h"

static void each_failure_that_is_known_has_its_subcategory(void **state)
{
    (void)state;
    static const struct {
        struct failure failure;
        enum outcome outcome;
        struct str subcategory;
    } cases[] = {
        {{.condition = CONDITION_LEASE_EXPIRED}, OUTCOME_EXPIRED, STR("lease-expired")},
        {{.condition = CONDITION_DEADLINE_EXCEEDED}, OUTCOME_FAILED, STR("active-deadline")},
        {{.error_type = STR("PodRefused")}, OUTCOME_FAILED, STR("job-creation-failed")},
        {{.error_type = STR("PodMalformed")}, OUTCOME_MALFORMED_PAYLOAD, STR("job-rejected")},
        {{.exit_code = 0}, OUTCOME_MALFORMED_PAYLOAD, STR("job-rejected")},
        {{.error_type = STR("PodDeleted")}, OUTCOME_FAILED, STR("externally-deleted")},
        {{.error_type = STR("PodNodeLost")}, OUTCOME_FAILED, STR("stuck-terminating")},
        {{.exit_code = 1}, OUTCOME_FAILED, STR("")},
        {{.condition = CONDITION_OOM_KILLED}, OUTCOME_FAILED, STR("")},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(
            str_eq(builtin_category_of(&cases[i].failure, cases[i].outcome), cases[i].subcategory));
}

static void a_rule_may_name_both_parts_in_one(void **state)
{
    (void)state;
    const struct str both = STR("internal/pod-missing"), internal = STR("internal"),
                     missing = STR("pod-missing");
    assert_true(builtin_category_is_meant(both, internal, missing));
    assert_false(builtin_category_is_meant(both, internal, STR("pod-missing2")));
    assert_false(builtin_category_is_meant(both, STR("other"), missing));
    assert_false(builtin_category_is_meant(STR("internalXpod-missing"), internal, missing));
    assert_true(builtin_category_is_of_expired(internal));
    assert_true(builtin_category_is_of_expired(STR("internal/lease-expired")));
    assert_false(builtin_category_is_of_expired(both));
    assert_false(builtin_category_is_of_expired(STR("gpu")));
}

static void the_names_are_reserved(void **state)
{
    (void)state;
    assert_true(builtin_category_is(STR("internal")));
    assert_true(builtin_category_is(STR("internal/mine")));
    assert_false(builtin_category_is(STR("internals")));
    assert_false(builtin_category_is(STR("")));
}

static void of_rules_those_that_name_expired_leases_are_for_them(void **state)
{
    (void)state;
    const struct str internal = STR("internal"), missing = STR("internal/pod-missing"),
                     gpu = STR("gpu");
    const struct failure f = {.category = STR("internal"), .subcategory = STR("pod-missing")};
    struct matcher_subject subject = {.failure = &f};
    const struct matcher by_internal = {.categories = &internal, .category_count = 1},
                         by_missing = {.categories = &missing, .category_count = 1},
                         by_gpu = {.categories = &gpu, .category_count = 1};
    assert_true(matcher_is_for_expired(&by_internal));
    assert_false(matcher_is_for_expired(&by_missing));
    assert_false(matcher_is_for_expired(&by_gpu));
    assert_true(matcher_holds(&by_internal, &subject));
    assert_true(matcher_holds(&by_missing, &subject));
    assert_false(matcher_holds(&by_gpu, &subject));
}

static const int64_t codes[] = {74};
static const struct categorize_rule rules[] = {
    {.match = {.exit_operator = MATCHER_IN, .exit_codes = codes, .exit_code_count = 1},
     .category = STR("gpu")},
    {.match = {.conditions = MATCHER_CONDITION(CONDITION_LEASE_EXPIRED)}, .category = STR("lost")},
};
static const struct categorizer with_rules = {.name = STR("a"), .rules = rules, .rule_count = 1};
static const struct categorizer with_lost = {.name = STR("b"), .rules = rules, .rule_count = 2};
static const struct categorizer with_default = {.name = STR("c"), .default_category = STR("other")};

static void assert_named(const struct categorizer *c, struct failure f, enum outcome outcome,
                         const char *category, const char *subcategory)
{
    const struct categorizer *list[] = {c, &with_default};
    (void)categorize_name(list, 2, &f, outcome);
    assert_true(str_eq(f.category, str_from(category)));
    assert_true(str_eq(f.subcategory, str_from(subcategory)));
}

static void rules_come_first_then_builtin_ones_then_defaults(void **state)
{
    (void)state;
    const struct failure expired = {.condition = CONDITION_LEASE_EXPIRED};
    assert_named(&with_rules, expired, OUTCOME_EXPIRED, "internal", "lease-expired");
    assert_named(&with_lost, expired, OUTCOME_EXPIRED, "lost", "");
    assert_named(&with_rules, (struct failure){.exit_code = 1}, OUTCOME_FAILED, "other", "");
}

static void a_reporter_is_overruled_only_where_it_names_a_builtin_one(void **state)
{
    (void)state;
    struct failure f = {
        .exit_code = 74, .category = STR("internal"), .subcategory = STR("pod-missing")};
    assert_named(&with_rules, f, OUTCOME_FAILED, "gpu", "");
    f.exit_code = 1;
    assert_named(&with_rules, f, OUTCOME_FAILED, "internal", "pod-missing");
    f = (struct failure){.exit_code = 74, .category = STR("mine"), .subcategory = STR("x")};
    assert_named(&with_rules, f, OUTCOME_FAILED, "mine", "x");
}

static void poison_keeps_the_name_that_somebody_gave(void **state)
{
    (void)state;
    struct failure none = {0}, expired = {.category = STR("internal")},
                   mine = {.category = STR("mine")};
    builtin_category_poison(&none);
    builtin_category_poison(&expired);
    builtin_category_poison(&mine);
    assert_true(str_eq(none.subcategory, STR(BUILTIN_CATEGORY_MAX_RUNS)));
    assert_true(str_eq(expired.subcategory, STR(BUILTIN_CATEGORY_MAX_RUNS)));
    assert_true(str_eq(mine.category, STR("mine")) && mine.subcategory.len == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_that_is_known_has_its_subcategory),
        cmocka_unit_test(a_rule_may_name_both_parts_in_one),
        cmocka_unit_test(the_names_are_reserved),
        cmocka_unit_test(of_rules_those_that_name_expired_leases_are_for_them),
        cmocka_unit_test(rules_come_first_then_builtin_ones_then_defaults),
        cmocka_unit_test(a_reporter_is_overruled_only_where_it_names_a_builtin_one),
        cmocka_unit_test(poison_keeps_the_name_that_somebody_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
