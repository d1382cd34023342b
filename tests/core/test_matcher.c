/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "core/matcher.h"

#define BIT(c) MATCHER_CONDITION(CONDITION_##c)

static const int64_t kill_or_term[] = {137, 143};
#define IN     .exit_operator = MATCHER_IN, .exit_codes = kill_or_term, .exit_code_count = 2
#define NOT_IN .exit_operator = MATCHER_NOT_IN, .exit_codes = kill_or_term, .exit_code_count = 2

static bool holds(struct matcher m, struct failure f)
{
    struct matcher_subject s = {.failure = &f};
    return matcher_holds(&m, &s);
}

static bool finds(const char *pattern, struct matcher m, struct failure f)
{
    struct pattern *p;
    assert_int_equal(pattern_new(str_from(pattern), &p).code, ERR_OK);
    m.message = p;
    bool found = holds(m, f);
    pattern_free(p);
    return found;
}

/* A pod with these containers. */
#define POD(...)                                                                                   \
    .containers = (const struct container_result[]){__VA_ARGS__},                                  \
    .container_count =                                                                             \
        sizeof((const struct container_result[]){__VA_ARGS__}) / sizeof(struct container_result)
#define NAMED(n)       .name = {(n), sizeof(n) - 1}
#define SAYS(m)        .message = {(m), sizeof(m) - 1}
#define ONLY(n)        .container = {(n), sizeof(n) - 1}
#define FAILURE(...)   ((struct failure){__VA_ARGS__})
#define MATCHER(...)   ((struct matcher){__VA_ARGS__})
#define CONTAINER(...) ((struct container_result){__VA_ARGS__})

static void an_exit_code_in_the_list_matches_in_and_not_notin(void **state)
{
    (void)state;
    assert_true(holds(MATCHER(IN), FAILURE(.exit_code = 137)));
    assert_true(holds(MATCHER(IN), FAILURE(.exit_code = 143)));
    assert_false(holds(MATCHER(IN), FAILURE(.exit_code = 1)));
    assert_false(holds(MATCHER(NOT_IN), FAILURE(.exit_code = 143)));
    assert_true(holds(MATCHER(NOT_IN), FAILURE(.exit_code = 1)));
}

static void exit_code_0_never_matches(void **state)
{
    (void)state;
    assert_false(holds(MATCHER(IN), FAILURE(.exit_code = 0)));
    assert_false(holds(MATCHER(NOT_IN), FAILURE(.exit_code = 0)));
    assert_false(holds(MATCHER(NOT_IN), FAILURE(POD({NAMED("main")}))));
    assert_false(holds(MATCHER(NOT_IN, ONLY("main")), FAILURE(POD({NAMED("main")}))));
}

static void a_signal_is_the_exit_code_that_shells_give_it(void **state)
{
    (void)state;
    assert_true(holds(MATCHER(IN), FAILURE(.signal = 9)));
    assert_true(holds(MATCHER(IN), FAILURE(.signal = 15)));
    assert_false(holds(MATCHER(IN), FAILURE(.signal = 11)));
    assert_true(holds(MATCHER(NOT_IN), FAILURE(.signal = 11)));
    assert_false(holds(MATCHER(IN), FAILURE(.signal = 9, .exit_code = 1)));
    assert_false(holds(MATCHER(NOT_IN), FAILURE(.signal = -1)));
    assert_false(holds(MATCHER(NOT_IN), FAILURE(.signal = INT32_MAX)));
    /* If there are containers, they report it themselves. */
    assert_false(holds(MATCHER(IN), FAILURE(POD({NAMED("main"), .exit_code = 1}), .signal = 9)));
    assert_false(holds(MATCHER(IN, ONLY("main")), FAILURE(.signal = 9)));
}

static void each_condition_matches_itself_only(void **state)
{
    (void)state;
    for (int rule = CONDITION_OOM_KILLED; rule < CONDITION_COUNT; rule++)
        for (int c = CONDITION_NONE; c < CONDITION_COUNT; c++)
            assert_int_equal(holds(MATCHER(.conditions = MATCHER_CONDITION(rule)),
                                   FAILURE(.condition = (enum condition)c)),
                             rule == c);
    struct matcher two = {.conditions = BIT(OOM_KILLED) | BIT(EVICTED)};
    assert_true(holds(two, FAILURE(.condition = CONDITION_EVICTED)));
    assert_false(holds(two, FAILURE(.condition = CONDITION_PREEMPTED)));
}

static void a_category_of_the_list_matches(void **state)
{
    (void)state;
    const struct str list[] = {STR("cuda_error"), STR("infiniband_error")};
    struct matcher m = {.categories = list, .category_count = 2};
    assert_true(holds(m, FAILURE(.category = STR("infiniband_error"))));
    assert_false(holds(m, FAILURE(.category = STR("cuda"))));
    assert_false(holds(m, FAILURE(.exit_code = 1)));
}

static void a_culprit_of_the_list_matches(void **state)
{
    (void)state;
    const struct matcher m = {.culprits =
                                  MATCHER_CULPRIT(CULPRIT_NODE) | MATCHER_CULPRIT(CULPRIT_UNKNOWN)};
    for (int c = CULPRIT_NONE; c < CULPRIT_COUNT; c++) {
        struct failure f = {.culprit = (enum culprit)c};
        assert_int_equal(matcher_holds(&m, &(struct matcher_subject){.failure = &f}),
                         c == CULPRIT_NODE || c == CULPRIT_UNKNOWN);
    }
    assert_true(matcher_is_for_expired(&m));
    assert_false(matcher_is_for_expired(&(struct matcher){.conditions = BIT(EVICTED)}));
}

static void a_matcher_covers_what_it_holds_for_and_is_asked_about(void **state)
{
    (void)state;
    const unsigned node = MATCHER_CULPRIT(CULPRIT_NODE), worker = MATCHER_CULPRIT(CULPRIT_WORKER);
    const struct str list[] = {STR("gpu")};
    const struct matcher both = {.culprits = node | worker}, one = {.culprits = node},
                         gpu = {.categories = list, .category_count = 1},
                         gpu_node = {.categories = list, .category_count = 1, .culprits = node},
                         gpu_node_evicted = {.categories = list,
                                             .category_count = 1,
                                             .culprits = node,
                                             .conditions = BIT(EVICTED)};
    assert_true(matcher_covers(&both, &one));
    assert_false(matcher_covers(&one, &both));
    assert_true(matcher_covers(&both, &gpu_node));
    assert_false(matcher_covers(&both, &gpu));
    /* Only the one that names a culprit is asked about leases that ran out. */
    assert_false(matcher_covers(&gpu, &gpu_node));
    assert_true(matcher_covers(&gpu, &gpu_node_evicted));
}

static void a_message_is_searched_anywhere(void **state)
{
    (void)state;
    struct failure f = {.termination_message = STR("disk: TRANSIENT\n")};
    assert_true(finds(".*TRANSIENT.*", MATCHER(.include_init = false), f));
    assert_true(finds("TRANSIENT", MATCHER(.include_init = false), f));
    assert_false(finds("^TRANSIENT", MATCHER(.include_init = false), f));
    /* The message of the error is not that of the termination log. */
    assert_false(
        finds("TRANSIENT", MATCHER(.include_init = false), FAILURE(.message = STR("TRANSIENT"))));
    /* No message is not an empty message: nothing matches it. */
    assert_false(finds(".*", MATCHER(.include_init = false), FAILURE(.exit_code = 1)));
}

static void all_matchers_of_a_rule_must_hold(void **state)
{
    (void)state;
    const struct str list[] = {STR("gpu")};
    struct matcher m = {IN, .conditions = BIT(OOM_KILLED), .categories = list, .category_count = 1};
    struct failure f = {.exit_code = 137,
                        .condition = CONDITION_OOM_KILLED,
                        .category = STR("gpu"),
                        .termination_message = STR("again")};
    assert_true(finds("again", m, f));
    assert_false(finds("never", m, f));
    struct failure other = f;
    other.exit_code = 1;
    assert_false(finds("again", m, other));
    other = f;
    other.condition = CONDITION_EVICTED;
    assert_false(finds("again", m, other));
    other = f;
    other.category = STR("cpu");
    assert_false(finds("again", m, other));
}

static void without_a_name_the_first_failed_container_counts(void **state)
{
    (void)state;
    struct failure f = {POD({NAMED("fine")}, {NAMED("first"), .exit_code = 1},
                            {NAMED("second"), .exit_code = 137})};
    assert_false(holds(MATCHER(IN), f));
    assert_true(holds(MATCHER(NOT_IN), f));
    struct failure oom = {POD({NAMED("first"), .exit_code = 1},
                              {NAMED("second"), .condition = CONDITION_OOM_KILLED})};
    assert_false(holds(MATCHER(.conditions = BIT(OOM_KILLED)), oom));
}

static void with_a_name_only_that_container_counts(void **state)
{
    (void)state;
    struct failure f = {
        POD({NAMED("log-shipper"), .exit_code = 1, .condition = CONDITION_OOM_KILLED, SAYS("x")},
            {NAMED("main"), .exit_code = 137, SAYS("TRANSIENT")})};
    assert_true(holds(MATCHER(IN, ONLY("main")), f));
    assert_false(holds(MATCHER(IN, ONLY("log-shipper")), f));
    assert_true(holds(MATCHER(.conditions = BIT(OOM_KILLED), ONLY("log-shipper")), f));
    assert_false(holds(MATCHER(.conditions = BIT(OOM_KILLED), ONLY("main")), f));
    assert_true(finds("TRANSIENT", MATCHER(ONLY("main")), f));
    assert_false(finds("TRANSIENT", MATCHER(ONLY("log-shipper")), f));
    assert_false(holds(MATCHER(NOT_IN, ONLY("absent")), f));
}

static void a_named_container_must_have_failed_unless_only_its_message_is_asked(void **state)
{
    (void)state;
    const struct str list[] = {STR("gpu")};
    struct matcher category = {.categories = list, .category_count = 1, ONLY("main")};
    struct failure f = {POD({NAMED("main"), SAYS("TRANSIENT")}, {NAMED("side"), .exit_code = 1}),
                        .category = STR("gpu")};
    assert_false(holds(category, f));
    assert_true(finds("TRANSIENT", MATCHER(ONLY("main")), f));
    category.container = STR("side");
    assert_true(holds(category, f));
}

static void a_rule_for_a_container_passes_over_failures_without_containers(void **state)
{
    (void)state;
    struct failure f = {.exit_code = 137,
                        .condition = CONDITION_OOM_KILLED,
                        .termination_message = STR("TRANSIENT")};
    assert_false(holds(MATCHER(IN, ONLY("main")), f));
    assert_false(holds(MATCHER(.conditions = BIT(OOM_KILLED), ONLY("main")), f));
    assert_false(finds("TRANSIENT", MATCHER(ONLY("main")), f));
}

static void messages_of_all_containers_are_looked_at(void **state)
{
    (void)state;
    struct failure f = {
        POD({NAMED("a"), .exit_code = 1, SAYS("bug")}, {NAMED("b"), SAYS("TRANSIENT")}),
        .termination_message = STR("of the process")};
    assert_true(finds("TRANSIENT", MATCHER(.include_init = false), f));
    assert_false(finds("process", MATCHER(.include_init = false), f));
}

static void init_containers_are_passed_over_unless_asked_for(void **state)
{
    (void)state;
    struct failure f = {POD({NAMED("setup"), .init = true, .exit_code = 137, SAYS("TRANSIENT")},
                            {NAMED("main"), .exit_code = 1})};
    assert_false(holds(MATCHER(IN), f));
    assert_true(holds(MATCHER(IN, .include_init = true), f));
    assert_false(holds(MATCHER(IN, ONLY("setup")), f));
    assert_true(holds(MATCHER(IN, ONLY("setup"), .include_init = true), f));
    assert_false(finds("TRANSIENT", MATCHER(.include_init = false), f));
    assert_true(finds("TRANSIENT", MATCHER(.include_init = true), f));
}

static void a_condition_of_the_pod_matches_whatever_its_containers_say(void **state)
{
    (void)state;
    struct failure f = {POD({NAMED("main"), .exit_code = 1}), .condition = CONDITION_EVICTED};
    assert_true(holds(MATCHER(.conditions = BIT(EVICTED)), f));
    assert_false(holds(MATCHER(.conditions = BIT(EVICTED), ONLY("main")), f));
    struct failure none = {POD({NAMED("main")}), .condition = CONDITION_PREEMPTED};
    assert_true(holds(MATCHER(.conditions = BIT(PREEMPTED)), none));
    /* Memory belongs to a container: only containers can report which one ran out of it. */
    struct failure oom = {POD({NAMED("main"), .exit_code = 1}), .condition = CONDITION_OOM_KILLED};
    assert_false(holds(MATCHER(.conditions = BIT(OOM_KILLED)), oom));
}

static void pod_errors_and_events_are_searched(void **state)
{
    (void)state;
    struct pattern *error, *event;
    assert_int_equal(pattern_new(STR("ErrImagePull"), &error).code, ERR_OK);
    assert_int_equal(pattern_new(STR("^FailedMount"), &event).code, ERR_OK);
    const struct str events[] = {STR("Pulled: image"), STR("FailedMount: volume data")};
    struct failure f = {.exit_code = 1,
                        .pod_error = STR("main: ErrImagePull"),
                        .pod_events = events,
                        .pod_event_count = 2};
    struct matcher_subject s = {.failure = &f, .gave_up = 0};
    struct matcher m = {.pod_error = error, .pod_event = event};
    assert_true(matcher_holds(&m, &s));
    f.pod_event_count = 1;
    assert_false(matcher_holds(&m, &s));
    m.pod_event = NULL;
    assert_true(matcher_holds(&m, &s));
    f.pod_error = STR("");
    assert_false(matcher_holds(&m, &s));
    pattern_free(error);
    pattern_free(event);
}

static void hostile_texts_use_up_the_patience_of_a_subject(void **state)
{
    (void)state;
    static char text[PATTERN_TEXT_MAX];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    struct pattern *bad, *good;
    assert_int_equal(pattern_new(STR("(a|aa)+$"), &bad).code, ERR_OK);
    assert_int_equal(pattern_new(STR("!"), &good).code, ERR_OK);
    struct failure f = {.termination_message = {text, sizeof text}};
    struct matcher_subject s = {.failure = &f};
    struct matcher slow = {.message = bad}, quick = {.message = good};
    for (int i = 0; i < MATCHER_GIVE_UPS_MAX; i++) {
        assert_true(matcher_holds(&quick, &s));
        assert_false(matcher_holds(&slow, &s));
    }
    assert_int_equal(s.gave_up, MATCHER_GIVE_UPS_MAX);
    assert_false(matcher_holds(&quick, &s));
    pattern_free(bad);
    pattern_free(good);
}

/* Each of them is decided just in time. */
static void many_slow_searches_use_it_up_too(void **state)
{
    (void)state;
    enum { CONTAINERS = 100 };
    static char text[1000];
    static struct container_result containers[CONTAINERS];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < CONTAINERS; i++)
        containers[i] = CONTAINER(NAMED("main"), .message = {text, sizeof text});
    struct pattern *slow, *quick;
    assert_int_equal(pattern_new(STR("[ab].*[x-z]"), &slow).code, ERR_OK);
    assert_int_equal(pattern_new(STR("aa"), &quick).code, ERR_OK);
    struct failure f = {.containers = containers, .container_count = CONTAINERS};
    struct matcher_subject s = {.failure = &f};
    assert_false(matcher_holds(&MATCHER(.message = slow), &s));
    assert_int_equal(s.gave_up, MATCHER_GIVE_UPS_MAX);
    assert_int_equal(s.steps, MATCHER_STEPS_MAX);
    assert_false(matcher_holds(&MATCHER(.message = quick), &s));
    f.container_count = 3;
    s = (struct matcher_subject){.failure = &f};
    assert_false(matcher_holds(&MATCHER(.message = slow), &s));
    assert_true(matcher_holds(&MATCHER(.message = quick), &s));
    assert_int_equal(s.gave_up, 0);
    pattern_free(slow);
    pattern_free(quick);
}

static void the_key_is_of_what_is_matched_not_of_its_order(void **state)
{
    (void)state;
    const int64_t turned[] = {143, 137};
    struct matcher a = {IN}, b = {IN};
    b.exit_codes = turned;
    assert_true(matcher_key(&a) == matcher_key(&b));
    struct matcher others[] = {
        {NOT_IN},
        {IN, ONLY("main")},
        {IN, .include_init = true},
        {IN, .conditions = BIT(EVICTED)},
        {.conditions = BIT(EVICTED)},
        {.exit_operator = MATCHER_IN, .exit_codes = kill_or_term, .exit_code_count = 1},
        {.include_init = false},
        {IN, .culprits = MATCHER_CULPRIT(CULPRIT_NODE)},
        {.culprits = MATCHER_CULPRIT(CULPRIT_NODE)},
        {.culprits = MATCHER_CULPRIT(CULPRIT_JOB)},
    };
    for (size_t i = 0; i < COUNT(others); i++)
        for (size_t j = 0; j < i; j++) {
            assert_true(matcher_key(&others[i]) != matcher_key(&a));
            assert_true(matcher_key(&others[i]) != matcher_key(&others[j]));
        }
}

static void keys_are_those_that_are_stored_already(void **state)
{
    (void)state;
    struct pattern *p;
    assert_int_equal(pattern_new(STR(".*TRANSIENT.*"), &p).code, ERR_OK);
    const struct str list[] = {STR("cuda_error"), STR("infiniband_error")};
    struct matcher m = {IN,
                        .conditions = BIT(OOM_KILLED) | BIT(UNSCHEDULABLE),
                        .message = p,
                        .categories = list,
                        .category_count = 2,
                        ONLY("main"),
                        .include_init = true};
    assert_int_equal(matcher_key(&m), 0xa5a26627e12b7427);
    assert_int_equal(matcher_hash(STR("infra")), 0x8f3a7fe0626c56f5);
    pattern_free(p);
}

/* A code of Windows is an int32_t to some programs and a uint32_t to others. */
static void codes_are_compared_as_32_bits(void **state)
{
    (void)state;
    static const int64_t stated[] = {-1073741819, 3221225477};
    for (size_t i = 0; i < COUNT(stated); i++) {
        struct failure f = {.exit_code = (int32_t)stated[0]};
        struct matcher in = {
            .exit_operator = MATCHER_IN, .exit_codes = &stated[i], .exit_code_count = 1};
        struct matcher not_in = in;
        not_in.exit_operator = MATCHER_NOT_IN;
        assert_true(matcher_holds(&in, &(struct matcher_subject){.failure = &f}));
        assert_false(matcher_holds(&not_in, &(struct matcher_subject){.failure = &f}));
        f.exit_code = 5;
        assert_false(matcher_holds(&in, &(struct matcher_subject){.failure = &f}));
    }
    assert_int_equal(
        matcher_key(&(struct matcher){
            .exit_operator = MATCHER_IN, .exit_codes = &stated[0], .exit_code_count = 1}),
        matcher_key(&(struct matcher){
            .exit_operator = MATCHER_IN, .exit_codes = &stated[1], .exit_code_count = 1}));
}

static void a_matcher_is_put_into_words(void **state)
{
    (void)state;
    const int64_t codes[] = {1, 2, 3, 4, 5};
    const struct str list[] = {STR("gpu"), STR("net")};
    struct pattern *p;
    assert_int_equal(
        pattern_new(STR("0123456789 0123456789 0123456789 012345\xc3\xa9 and more"), &p).code,
        ERR_OK);
    struct matcher m = {.exit_operator = MATCHER_NOT_IN,
                        .exit_codes = codes,
                        .exit_code_count = 5,
                        .conditions = BIT(PREEMPTED) | BIT(EVICTED),
                        .categories = list,
                        .category_count = 2,
                        .message = p,
                        ONLY("main")};
    struct buf b = {0};
    matcher_describe(&m, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, "Evicted, Preempted; exit code not in 1, 2, 3, 4, ...; "
                              "category gpu, net; "
                              "message ~ \"0123456789 0123456789 0123456789 012345...\"; "
                              "container main");
    b.len = 0;
    m = (struct matcher){.conditions = BIT(EVICTED),
                         .culprits =
                             MATCHER_CULPRIT(CULPRIT_SERVER) | MATCHER_CULPRIT(CULPRIT_NODE)};
    matcher_describe(&m, &b);
    assert_true(str_eq(buf_view(&b), STR("Evicted; culprit node, server")));
    b.len = 0;
    matcher_describe(&(struct matcher){.include_init = false}, &b);
    assert_true(str_eq(buf_view(&b), STR("any failure")));
    buf_fini(&b);
    pattern_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exit_code_in_the_list_matches_in_and_not_notin),
        cmocka_unit_test(codes_are_compared_as_32_bits),
        cmocka_unit_test(exit_code_0_never_matches),
        cmocka_unit_test(a_signal_is_the_exit_code_that_shells_give_it),
        cmocka_unit_test(each_condition_matches_itself_only),
        cmocka_unit_test(a_category_of_the_list_matches),
        cmocka_unit_test(a_culprit_of_the_list_matches),
        cmocka_unit_test(a_matcher_covers_what_it_holds_for_and_is_asked_about),
        cmocka_unit_test(a_message_is_searched_anywhere),
        cmocka_unit_test(all_matchers_of_a_rule_must_hold),
        cmocka_unit_test(without_a_name_the_first_failed_container_counts),
        cmocka_unit_test(with_a_name_only_that_container_counts),
        cmocka_unit_test(a_named_container_must_have_failed_unless_only_its_message_is_asked),
        cmocka_unit_test(a_rule_for_a_container_passes_over_failures_without_containers),
        cmocka_unit_test(messages_of_all_containers_are_looked_at),
        cmocka_unit_test(init_containers_are_passed_over_unless_asked_for),
        cmocka_unit_test(a_condition_of_the_pod_matches_whatever_its_containers_say),
        cmocka_unit_test(pod_errors_and_events_are_searched),
        cmocka_unit_test(hostile_texts_use_up_the_patience_of_a_subject),
        cmocka_unit_test(many_slow_searches_use_it_up_too),
        cmocka_unit_test(the_key_is_of_what_is_matched_not_of_its_order),
        cmocka_unit_test(keys_are_those_that_are_stored_already),
        cmocka_unit_test(a_matcher_is_put_into_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
