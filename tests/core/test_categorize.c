/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/categorize.h"

static const int64_t gpu_codes[] = {74, 75};
static struct pattern *mount, *pull, *xid;

static struct categorize_rule rules[4];
static const struct categorizer categorizer = {
    .name = {"default", 7}, .rules = rules, .rule_count = 4};

static int set_up(void **state)
{
    (void)state;
    if (pattern_new(STR("^FailedMount"), &mount).code != ERR_OK ||
        pattern_new(STR("ImagePull"), &pull).code != ERR_OK ||
        pattern_new(STR("Xid \\d+"), &xid).code != ERR_OK)
        return 1;
    rules[0] = (struct categorize_rule){
        .match = {.exit_operator = MATCHER_IN, .exit_codes = gpu_codes, .exit_code_count = 2},
        .category = STR("gpu"),
        .subcategory = STR("driver")};
    rules[1] = (struct categorize_rule){.match = {.message = xid}, .category = STR("gpu")};
    rules[2] = (struct categorize_rule){.match = {.pod_event = mount}, .category = STR("storage")};
    rules[3] = (struct categorize_rule){.match = {.pod_error = pull}, .category = STR("image")};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pattern_free(mount);
    pattern_free(pull);
    pattern_free(xid);
    return 0;
}

static int rule_for(struct failure f)
{
    const struct categorizer *list[] = {&categorizer};
    struct categorize_verdict v = categorize(list, 1, &f, OUTCOME_FAILED);
    return v.rule ? (int)(v.rule - rules) : -1;
}

static void the_first_rule_that_holds_names_the_category(void **state)
{
    (void)state;
    assert_int_equal(rule_for((struct failure){.exit_code = 75}), 0);
    assert_int_equal(
        rule_for((struct failure){.exit_code = 74, .termination_message = STR("Xid 79")}), 0);
    assert_int_equal(
        rule_for((struct failure){.exit_code = 1, .termination_message = STR("Xid 79")}), 1);
    assert_int_equal(rule_for((struct failure){.exit_code = 1}), -1);
}

static void what_the_cluster_said_of_the_pod_is_looked_at(void **state)
{
    (void)state;
    const struct str events[] = {STR("Pulled: ok"), STR("FailedMount: volume")};
    struct failure f = {.exit_code = 1,
                        .pod_error = STR("ErrImagePull"),
                        .pod_events = events,
                        .pod_event_count = 2};
    assert_int_equal(rule_for(f), 2);
    f.pod_event_count = 1;
    assert_int_equal(rule_for(f), 3);
}

static void those_of_an_earlier_categorizer_come_first(void **state)
{
    (void)state;
    const struct categorize_rule own = {
        .match = {.exit_operator = MATCHER_IN, .exit_codes = gpu_codes, .exit_code_count = 1},
        .category = STR("mine")};
    const struct categorizer first = {STR("a"), &own, 1};
    const struct categorizer *list[] = {&first, &categorizer};
    const struct failure both = {.exit_code = 74}, later = {.exit_code = 75};
    assert_ptr_equal(categorize(list, 2, &both, OUTCOME_FAILED).rule, &own);
    assert_ptr_equal(categorize(list, 2, &later, OUTCOME_FAILED).rule, &rules[0]);
    assert_null(categorize(list, 0, &both, OUTCOME_FAILED).rule);
}

static void a_pattern_that_gives_up_is_told(void **state)
{
    (void)state;
    static char text[4096];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    struct pattern *p;
    assert_int_equal(pattern_new(STR("(a+)+$"), &p).code, ERR_OK);
    struct categorize_rule rule = {.match = {.message = p}, .category = STR("x")};
    struct categorizer c = {STR("c"), &rule, 1};
    struct failure f = {.termination_message = {text, sizeof text}};
    const struct categorizer *list[] = {&c};
    struct categorize_verdict v = categorize(list, 1, &f, OUTCOME_FAILED);
    assert_true(!v.rule && v.over_match_limit);
    pattern_free(p);
}

/* Of a container that failed, whichever; never of one that did not. */
static void every_failed_container_is_looked_at(void **state)
{
    (void)state;
    const struct container_result two[] = {{.name = STR("a"), .exit_code = 1},
                                           {.name = STR("b"), .exit_code = 74}};
    const struct container_result init[] = {{.name = STR("i"), .init = true, .exit_code = 75}};
    const struct container_result message[] = {{.name = STR("a"), .message = STR("Xid 79")},
                                               {.name = STR("b"), .exit_code = 1}};
    assert_int_equal(rule_for((struct failure){.containers = two, .container_count = 2}), 0);
    assert_int_equal(rule_for((struct failure){.containers = init, .container_count = 1}), 0);
    assert_int_equal(rule_for((struct failure){.containers = message, .container_count = 2}), -1);
}

static void what_no_rule_names_has_the_first_default(void **state)
{
    (void)state;
    const struct categorizer off = {.default_category = STR("off"), .disabled = true},
                             first = {.default_category = STR("other"),
                                      .default_subcategory = STR("unknown")},
                             later = {.default_category = STR("later")};
    const struct categorizer *list[] = {&off, &categorizer, &first, &later};
    struct failure f = {.exit_code = 1};
    struct categorize_verdict v = categorize(list, 4, &f, OUTCOME_FAILED);
    assert_null(v.rule);
    assert_true(str_eq(v.category, STR("other")) && str_eq(v.subcategory, STR("unknown")));
    f.exit_code = 74;
    assert_true(str_eq(categorize(list, 4, &f, OUTCOME_FAILED).category, STR("gpu")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_container_is_looked_at),
        cmocka_unit_test(what_no_rule_names_has_the_first_default),
        cmocka_unit_test(the_first_rule_that_holds_names_the_category),
        cmocka_unit_test(what_the_cluster_said_of_the_pod_is_looked_at),
        cmocka_unit_test(those_of_an_earlier_categorizer_come_first),
        cmocka_unit_test(a_pattern_that_gives_up_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
