/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/utf8.h"
#include "core/policy.h"

#define BIT(c)  MATCHER_CONDITION(CONDITION_##c)
#define ON(...) .match = {__VA_ARGS__}

/* Policies under test are written without their keys and end with an empty rule. */
struct sketch {
    struct policy policy;
    struct policy_rule rules[8];
};

static const struct policy *draw(struct sketch *s)
{
    size_t n = 0;
    for (; s->rules[n].action != POLICY_ACTION_NONE; n++)
        s->rules[n].key = policy_rule_key(&s->rules[n]);
    s->policy.rules = s->rules;
    s->policy.rule_count = n;
    return &s->policy;
}

/* A job under policies: its counts so far, as the engine keeps them. */
struct trial {
    const struct policy *policies[4];
    size_t policy_count;
    struct policy_settings settings;
    struct policy_count counts[16];
    size_t count_count;
    uint32_t others; /* retries that no rule has granted */
};

static struct trial trial_of(size_t n, struct sketch *const *sketches)
{
    struct trial t = {
        .policy_count = n,
        .settings = {.enabled = true,
                     .global_max_retries = 20,
                     .default_backoff = {CURVE_EXPONENTIAL, {0}, 2.0, {0}, {600000}}}};
    for (size_t i = 0; i < n; i++)
        t.policies[i] = draw(sketches[i]);
    return t;
}
#define TRIAL(...)                                                                                 \
    trial_of(COUNT(((struct sketch *[]){__VA_ARGS__})), (struct sketch *[]){__VA_ARGS__})

static void store(struct trial *t, struct policy_count slot)
{
    for (size_t i = 0; i < t->count_count; i++)
        if (t->counts[i].policy == slot.policy && t->counts[i].rule == slot.rule) {
            assert_int_equal(t->counts[i].count + 1, slot.count);
            t->counts[i] = slot;
            return;
        }
    assert_int_equal(slot.count, 1);
    assert_true(t->count_count < COUNT(t->counts));
    t->counts[t->count_count++] = slot;
}

/* One failure; a retry is counted. Checks that exactly one number was drawn. */
static struct policy_verdict fail_with(struct trial *t, struct failure f)
{
    struct rng rng = rng_from_seed(7), one = rng_from_seed(7);
    (void)rng_next(&one);
    struct policy_verdict v = policy_evaluate(t->policies, t->policy_count, &t->settings, &f,
                                              t->counts, t->count_count, t->others, &rng);
    assert_memory_equal(&rng, &one, sizeof rng);
    assert_true(v.reason[0] != '\0');
    if (v.retry)
        store(t, v.slot);
    return v;
}

static const struct failure preempted = {.condition = CONDITION_PREEMPTED};
static const struct failure evicted = {.condition = CONDITION_EVICTED};
static const struct failure oom = {.condition = CONDITION_OOM_KILLED, .exit_code = 137};
static const struct failure killed = {.exit_code = 137};
static const struct failure user_error = {.exit_code = 1};

static int retries_until_dead(struct trial *t, struct failure f)
{
    int n = 0;
    while (fail_with(t, f).retry)
        assert_true(++n < 1000);
    return n;
}

/* --- the examples of the specification --- */

static struct sketch infra(void)
{
    return (struct sketch){{.name = STR("infra"), .retry_limit = 10},
                           {{.action = POLICY_RETRY,
                             ON(.conditions = BIT(PREEMPTED) | BIT(EVICTED)),
                             .retry_limit = POLICY_NO_LIMIT}}};
}

static struct sketch ml_training(void)
{
    return (struct sketch){
        {.name = STR("ml-training"), .retry_limit = 5},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 3}}};
}

static void preemptions_and_lacks_of_memory_are_counted_independently(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct trial t = TRIAL(&a, &b);
    assert_int_equal(retries_until_dead(&t, preempted), 10);
    assert_int_equal(retries_until_dead(&t, oom), 3);
    assert_int_equal(retries_until_dead(&t, evicted), 0);
    t = TRIAL(&a, &b);
    assert_int_equal(retries_until_dead(&t, oom), 3);
    assert_int_equal(retries_until_dead(&t, preempted), 10);
}

static void the_table_of_effective_limits(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct trial t = TRIAL(&a, &b);
    struct policy_verdict v = fail_with(&t, preempted);
    assert_int_equal(v.limit, 10);
    assert_string_equal(v.reason,
                        "retry 1 of 10 by rule 1 of policy infra (Evicted, Preempted), at once");
    v = fail_with(&t, oom);
    assert_int_equal(v.limit, 3);
    assert_int_equal(v.count, 1);
    assert_int_equal(v.total, 2);
    assert_string_equal(v.reason,
                        "retry 1 of 3 by rule 1 of policy ml-training (OOMKilled), at once");
    v = fail_with(&t, user_error);
    assert_false(v.retry);
    assert_string_equal(v.reason, "dead: no rule matched and no policy states a default action");
}

static void a_job_adds_policies_behind_those_of_its_queue(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct sketch extra = {
        {.name = STR("extra-retry"), .retry_limit = 1},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 100},
         {.action = POLICY_RETRY,
          ON(.conditions = BIT(UNSCHEDULABLE)),
          .retry_limit = POLICY_NO_LIMIT}}};
    struct trial t = TRIAL(&a, &b, &extra);
    /* It adds, but does not replace: the first match is the queue's. */
    assert_int_equal(retries_until_dead(&t, oom), 3);
    assert_int_equal(retries_until_dead(&t, (struct failure){.condition = CONDITION_UNSCHEDULABLE}),
                     1);
    assert_int_equal(fail_with(&t, preempted).policy, 0);
}

static void the_policy_of_the_specification(void **state)
{
    (void)state;
    const int64_t codes[] = {137};
    const struct str categories[] = {STR("cuda_error"), STR("infiniband_error")};
    struct sketch s = {
        {.name = STR("ml-training"),
         .retry_limit = 5,
         .default_action = POLICY_FAIL,
         .backoff = {CURVE_EXPONENTIAL, {0}, 2.0, {0}, {600000}},
         .affinity = {POLICY_AFFINITY_NONE}},
        {{.action = POLICY_RETRY,
          ON(.conditions = BIT(PREEMPTED) | BIT(EVICTED)),
          .retry_limit = POLICY_NO_LIMIT,
          .affinity = {POLICY_AFFINITY_NODE}},
         {.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 3},
         {.action = POLICY_RETRY,
          ON(.exit_operator = MATCHER_IN, .exit_codes = codes, .exit_code_count = 1),
          .retry_limit = POLICY_NO_LIMIT},
         {.action = POLICY_RETRY,
          ON(.categories = categories, .category_count = 2),
          .retry_limit = POLICY_NO_LIMIT}}};
    struct trial t = TRIAL(&s);
    struct policy_verdict v = fail_with(&t, evicted);
    assert_true(v.retry && v.avoid_node && v.rule == 0 && v.limit == 5 && v.delay.ms == 0);
    v = fail_with(&t, oom); /* exit code 137 matches as well, but the first match wins */
    assert_true(v.retry && !v.avoid_node && v.rule == 1 && v.limit == 3);
    v = fail_with(&t, killed);
    assert_true(v.retry && !v.avoid_node && v.rule == 2 && v.limit == 5);
    v = fail_with(&t, (struct failure){.exit_code = 1, .category = STR("infiniband_error")});
    assert_true(v.retry && v.rule == 3 && v.count == 1 && v.total == 4);
    v = fail_with(&t, user_error);
    assert_true(!v.retry && v.policy == 0 && v.rule == -1);
    assert_string_equal(v.reason, "dead: no rule matched and policy ml-training says Fail");
}

/* --- which rule --- */

static void the_first_match_wins_also_when_it_says_fail(void **state)
{
    (void)state;
    struct sketch s = {{.name = STR("p"), .retry_limit = POLICY_NO_LIMIT},
                       {{.action = POLICY_FAIL, ON(.conditions = BIT(OOM_KILLED))},
                        {.action = POLICY_RETRY,
                         ON(.conditions = BIT(OOM_KILLED) | BIT(EVICTED)),
                         .retry_limit = POLICY_NO_LIMIT}}};
    struct trial t = TRIAL(&s);
    struct policy_verdict v = fail_with(&t, oom);
    assert_false(v.retry);
    assert_int_equal(v.rule, 0);
    assert_string_equal(v.reason, "dead: rule 1 of policy p (OOMKilled) says Fail");
    assert_int_equal(fail_with(&t, evicted).rule, 1);
}

static void a_rule_that_is_used_up_does_not_pass_on_to_the_next(void **state)
{
    (void)state;
    struct sketch s = {
        {.name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .default_action = POLICY_RETRY},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 1},
         {.action = POLICY_RETRY,
          ON(.conditions = BIT(OOM_KILLED) | BIT(EVICTED)),
          .retry_limit = 9}}};
    struct trial t = TRIAL(&s);
    assert_int_equal(retries_until_dead(&t, oom), 1);
    struct policy_verdict v = fail_with(&t, oom);
    assert_int_equal(v.count, 1);
    assert_string_equal(v.reason, "dead: rule 1 of policy p (OOMKilled) allows 1 retry");
}

static void a_limit_of_0_allows_nothing(void **state)
{
    (void)state;
    struct sketch s = {
        {.name = STR("p"), .retry_limit = 3},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 0}}};
    struct trial t = TRIAL(&s);
    assert_string_equal(fail_with(&t, oom).reason,
                        "dead: rule 1 of policy p (OOMKilled) allows no retries");
}

/* --- rule ?? policy ?? global --- */

static void the_limit_is_the_rules_else_the_policys_else_the_global_one(void **state)
{
    (void)state;
    static const struct {
        int64_t rule, policy, global, effective, retries;
    } rows[] = {
        {3, 5, 20, 3, 3},    {POLICY_NO_LIMIT, 5, 20, 5, 5},
        {7, 5, 20, 7, 7},    {POLICY_NO_LIMIT, POLICY_NO_LIMIT, 20, 20, 20},
        {30, 5, 20, 30, 20}, {POLICY_NO_LIMIT, 50, 20, 50, 20},
        {3, 5, 0, 3, 0},     {3, 5, 2, 3, 2},
        {0, 5, 20, 0, 0},    {POLICY_NO_LIMIT, 0, 20, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sketch s = {{.name = STR("p"), .retry_limit = rows[i].policy},
                           {{.action = POLICY_RETRY,
                             ON(.conditions = BIT(EVICTED)),
                             .retry_limit = rows[i].rule}}};
        struct trial t = TRIAL(&s);
        t.settings.global_max_retries = rows[i].global;
        assert_int_equal(fail_with(&t, evicted).limit, rows[i].effective);
        t.count_count = 0;
        assert_int_equal(retries_until_dead(&t, evicted), rows[i].retries);
    }
}

static void the_total_of_all_retries_stays_under_the_global_limit(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct trial t = TRIAL(&a, &b);
    t.settings.global_max_retries = 12;
    assert_int_equal(retries_until_dead(&t, preempted), 10);
    assert_int_equal(retries_until_dead(&t, oom), 2);
    struct policy_verdict v = fail_with(&t, oom);
    assert_int_equal(v.total, 12);
    assert_string_equal(v.reason, "dead: 12 retries in all, as many as globalMaxRetries allows, "
                                  "though rule 1 of policy ml-training allows 3");
    b.policy.default_action = POLICY_RETRY;
    b.policy.retry_limit = 7;
    assert_non_null(strstr(fail_with(&t, user_error).reason,
                           "allows, though the default of policy ml-training allows 7"));
    b.policy.retry_limit = POLICY_NO_LIMIT;
    assert_null(strstr(fail_with(&t, user_error).reason, "though"));
    t.settings.global_max_retries = 0;
    assert_string_equal(fail_with(&t, oom).reason,
                        "dead: globalMaxRetries is 0, which stops all retries");
}

static void retries_that_no_rule_has_granted_are_in_the_total(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct trial t = TRIAL(&a, &b);
    t.settings.global_max_retries = 12;
    t.others = 9;
    assert_int_equal(retries_until_dead(&t, preempted), 3);
    assert_int_equal(fail_with(&t, oom).total, 12);
}

static void counts_of_policies_that_no_longer_apply_are_in_the_total(void **state)
{
    (void)state;
    struct sketch a = infra(), b = ml_training();
    struct trial t = TRIAL(&a, &b);
    t.settings.global_max_retries = 10;
    assert_int_equal(retries_until_dead(&t, preempted), 10);
    t.policies[0] = t.policies[1];
    t.policy_count = 1;
    assert_false(fail_with(&t, oom).retry);
}

static void lowering_the_global_limit_stops_jobs_that_are_over_it(void **state)
{
    (void)state;
    struct sketch a = infra();
    struct trial t = TRIAL(&a);
    for (int i = 0; i < 5; i++)
        assert_true(fail_with(&t, preempted).retry);
    t.settings.global_max_retries = 3;
    assert_string_equal(fail_with(&t, preempted).reason,
                        "dead: 5 retries in all, and globalMaxRetries now allows 3, though rule 1 "
                        "of policy infra allows 10");
    t.settings.global_max_retries = 0;
    assert_string_equal(fail_with(&t, preempted).reason,
                        "dead: globalMaxRetries is 0, which stops all retries");
    t.settings.global_max_retries = 6;
    assert_true(fail_with(&t, preempted).retry);
    assert_false(fail_with(&t, preempted).retry);
}

static void absurd_counts_are_no_retries(void **state)
{
    (void)state;
    struct sketch a = infra();
    struct trial t = TRIAL(&a);
    t.settings.global_max_retries = INT64_MAX;
    t.counts[0] = (struct policy_count){1, 2, UINT32_MAX};
    t.counts[1] = (struct policy_count){policy_name_hash(STR("infra")), a.rules[0].key, UINT32_MAX};
    t.count_count = 2;
    assert_false(fail_with(&t, preempted).retry);
}

/* --- default action --- */

static void the_first_policy_that_states_a_default_decides(void **state)
{
    (void)state;
    static const struct {
        enum policy_action stated[3];
        int decider;
        bool retry;
    } rows[] = {
        {{POLICY_ACTION_NONE, POLICY_ACTION_NONE, POLICY_ACTION_NONE}, -1, false},
        {{POLICY_FAIL, POLICY_RETRY, POLICY_RETRY}, 0, false},
        {{POLICY_RETRY, POLICY_FAIL, POLICY_FAIL}, 0, true},
        {{POLICY_ACTION_NONE, POLICY_RETRY, POLICY_FAIL}, 1, true},
        {{POLICY_ACTION_NONE, POLICY_FAIL, POLICY_RETRY}, 1, false},
        {{POLICY_ACTION_NONE, POLICY_ACTION_NONE, POLICY_RETRY}, 2, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sketch s[3];
        static const struct str names[] = {{"a", 1}, {"b", 1}, {"c", 1}};
        for (int j = 0; j < 3; j++) {
            s[j] = infra();
            s[j].policy.name = names[j];
            s[j].policy.default_action = rows[i].stated[j];
        }
        struct trial t = TRIAL(&s[0], &s[1], &s[2]);
        struct policy_verdict v = fail_with(&t, user_error);
        assert_int_equal(v.policy, rows[i].decider);
        assert_int_equal(v.rule, -1);
        assert_int_equal(v.retry, rows[i].retry);
    }
}

static void a_default_retry_has_the_limit_backoff_and_affinity_of_its_policy(void **state)
{
    (void)state;
    struct sketch a = infra();
    struct sketch b = {{.name = STR("tolerant"),
                        .retry_limit = 2,
                        .default_action = POLICY_RETRY,
                        .backoff = {CURVE_EXPONENTIAL, {1000}, 3.0, {0}, {60000}},
                        .affinity = {POLICY_AFFINITY_NODE}}};
    struct trial t = TRIAL(&a, &b);
    assert_true(fail_with(&t, preempted).retry); /* counted elsewhere */
    struct policy_verdict v = fail_with(&t, user_error);
    assert_true(v.retry && v.avoid_node && v.slot.rule == POLICY_DEFAULT_SLOT);
    assert_string_equal(v.reason, "retry 1 of 2 by the default of policy tolerant, in 1 s");
    v = fail_with(&t, user_error);
    assert_int_equal(v.delay.ms, 3000);
    v = fail_with(&t, user_error);
    assert_false(v.retry);
    assert_string_equal(v.reason, "dead: the default of policy tolerant allows 2 retries");
    b.policy.retry_limit = POLICY_NO_LIMIT;
    assert_int_equal(fail_with(&t, user_error).limit, 20);
}

static void without_a_policy_a_job_fails(void **state)
{
    (void)state;
    struct trial t = trial_of(0, NULL);
    struct policy_verdict v = fail_with(&t, preempted);
    assert_true(!v.retry && v.policy == -1 && v.rule == -1 && v.limit == 20);
}

/* --- backoff and affinity --- */

static void the_backoff_is_the_rules_else_the_policys_else_the_global_one(void **state)
{
    (void)state;
    const struct curve none = {CURVE_NONE}, c10 = {CURVE_EXPONENTIAL, {10000}, 2.0, {0}, {300000}},
                       c30 = {CURVE_EXPONENTIAL, {30000}, 3.0, {0}, {600000}},
                       c1 = {CURVE_EXPONENTIAL, {1000}, 1.0, {0}, {600000}};
    const struct {
        struct curve rule, policy, global;
        int64_t ms[4];
    } rows[] = {
        {c30, c10, c1, {30000, 90000, 270000, 600000}},
        {none, c10, c1, {10000, 20000, 40000, 80000}},
        {none, none, c1, {1000, 1000, 1000, 1000}},
        {none, none, none, {0, 0, 0, 0}},
        {c30, none, none, {30000, 90000, 270000, 600000}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sketch s = {
            {.name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .backoff = rows[i].policy},
            {{.action = POLICY_RETRY,
              ON(.conditions = BIT(EVICTED)),
              .retry_limit = POLICY_NO_LIMIT,
              .backoff = rows[i].rule}}};
        struct trial t = TRIAL(&s);
        t.settings.default_backoff = rows[i].global;
        for (size_t n = 0; n < COUNT(rows[i].ms); n++)
            assert_int_equal(fail_with(&t, evicted).delay.ms, rows[i].ms[n]);
    }
}

static void the_delay_grows_with_the_rules_own_count(void **state)
{
    (void)state;
    struct sketch s = {
        {.name = STR("p"),
         .retry_limit = POLICY_NO_LIMIT,
         .backoff = {CURVE_EXPONENTIAL, {1000}, 2.0, {0}, {600000}}},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(EVICTED)), .retry_limit = POLICY_NO_LIMIT},
         {.action = POLICY_RETRY,
          ON(.conditions = BIT(OOM_KILLED)),
          .retry_limit = POLICY_NO_LIMIT}}};
    struct trial t = TRIAL(&s);
    for (int i = 0; i < 5; i++)
        (void)fail_with(&t, evicted);
    assert_int_equal(fail_with(&t, oom).delay.ms, 1000);
    assert_int_equal(fail_with(&t, evicted).delay.ms, 32000);
    struct policy_verdict v = fail_with(&t, oom);
    assert_int_equal(v.delay.ms, 2000);
    assert_string_equal(v.reason, "retry 2 of 20 by rule 2 of policy p (OOMKilled), in 2 s");
}

static void the_affinity_is_the_rules_else_the_policys_else_none(void **state)
{
    (void)state;
    static const struct {
        enum policy_affinity_mode rule, policy;
        bool avoid;
    } rows[] = {
        {POLICY_AFFINITY_UNSET, POLICY_AFFINITY_UNSET, false},
        {POLICY_AFFINITY_UNSET, POLICY_AFFINITY_NONE, false},
        {POLICY_AFFINITY_UNSET, POLICY_AFFINITY_NODE, true},
        {POLICY_AFFINITY_NODE, POLICY_AFFINITY_NONE, true},
        {POLICY_AFFINITY_NODE, POLICY_AFFINITY_UNSET, true},
        {POLICY_AFFINITY_NONE, POLICY_AFFINITY_NODE, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sketch s = {{.name = STR("p"), .retry_limit = 1, .affinity = {rows[i].policy}},
                           {{.action = POLICY_RETRY,
                             ON(.conditions = BIT(EVICTED)),
                             .retry_limit = POLICY_NO_LIMIT,
                             .affinity = {rows[i].rule}}}};
        struct trial t = TRIAL(&s);
        assert_int_equal(fail_with(&t, evicted).avoid_node, rows[i].avoid);
        assert_false(fail_with(&t, evicted).avoid_node); /* dead: nothing to avoid */
    }
}

/* --- identity of counts --- */

static void counts_survive_edits_of_limits_and_order(void **state)
{
    (void)state;
    struct sketch before = {
        {.name = STR("p"), .retry_limit = 5},
        {{.action = POLICY_RETRY, ON(.conditions = BIT(EVICTED)), .retry_limit = 3},
         {.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 3}}};
    struct trial t = TRIAL(&before);
    (void)fail_with(&t, evicted);
    (void)fail_with(&t, evicted);
    struct sketch after = {
        {.name = STR("p"), .retry_limit = 1},
        {{.action = POLICY_FAIL, ON(.conditions = BIT(PREEMPTED))},
         {.action = POLICY_RETRY, ON(.conditions = BIT(OOM_KILLED)), .retry_limit = 3},
         {.action = POLICY_RETRY,
          ON(.conditions = BIT(EVICTED)),
          .retry_limit = 4,
          .affinity = {POLICY_AFFINITY_NODE}}}};
    t.policies[0] = draw(&after);
    assert_int_equal(fail_with(&t, evicted).count, 3);
    assert_int_equal(fail_with(&t, oom).count, 1);
}

static void the_same_rule_of_two_policies_is_counted_apart(void **state)
{
    (void)state;
    struct sketch a = infra(), b = infra();
    b.policy.name = STR("infra2");
    struct trial t = TRIAL(&a);
    assert_true(fail_with(&t, preempted).retry);
    t.policies[0] = draw(&b);
    assert_int_equal(fail_with(&t, preempted).count, 1);
}

static void a_policy_that_is_named_twice_counts_once(void **state)
{
    (void)state;
    struct sketch a = infra();
    struct trial t = TRIAL(&a, &a);
    assert_int_equal(retries_until_dead(&t, preempted), 10);
}

static void a_pattern_that_gives_up_is_no_match_and_is_told(void **state)
{
    (void)state;
    static char text[4096];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    struct pattern *p;
    assert_int_equal(pattern_new(STR("(a+)+$"), &p).code, ERR_OK);
    struct sketch s = {
        {.name = STR("p"), .retry_limit = 5},
        {{.action = POLICY_RETRY, ON(.message = p), .retry_limit = POLICY_NO_LIMIT},
         {.action = POLICY_RETRY, ON(.conditions = BIT(EVICTED)), .retry_limit = 3}}};
    struct trial t = TRIAL(&s);
    struct failure f = {.condition = CONDITION_EVICTED, .termination_message = {text, sizeof text}};
    struct policy_verdict v = fail_with(&t, f);
    assert_true(v.over_match_limit && v.retry && v.rule == 1);
    assert_false(fail_with(&t, evicted).over_match_limit);
    pattern_free(p);
}

static void a_long_reason_is_cut_between_characters(void **state)
{
    (void)state;
    /* 4 categories of 82 bytes: the text is truncated inside of them, at each offset within a
     * character; the decision follows. */
    for (size_t shift = 0; shift < 2; shift++) {
        static char name[82];
        memset(name, 'x', sizeof name);
        for (size_t i = shift; i + 1 < sizeof name; i += 2)
            memcpy(name + i, "\xc3\xa9", 2);
        struct str list[] = {
            {name, 82}, {name, 80 + shift}, {name, 78 + shift}, {name, 76 + shift}};
        struct sketch s = {{.name = STR("p"), .retry_limit = 5},
                           {{.action = POLICY_RETRY,
                             ON(.categories = list, .category_count = 4),
                             .retry_limit = POLICY_NO_LIMIT}}};
        struct trial t = TRIAL(&s);
        struct policy_verdict v = fail_with(&t, (struct failure){.category = list[0]});
        const char *cut = strstr(v.reason, "...), at once");
        assert_non_null(cut);
        assert_int_equal((unsigned char)cut[-1], 0xa9);
        assert_int_equal(utf8_check(str_from(v.reason)), strlen(v.reason));
    }
}

static void a_long_list_of_matchers_leaves_room_for_the_verdict(void **state)
{
    (void)state;
    static char name[251];
    memset(name, 'c', 250);
    const struct str categories[] = {{name, 250}, {name, 249}};
    struct sketch s = {
        {.name = STR("a-policy-with-a-name-of-as-many-bytes-as-a-label-may-have-63-up"),
         .retry_limit = 3},
        {{.action = POLICY_RETRY,
          ON(.categories = categories, .category_count = 2),
          .retry_limit = POLICY_NO_LIMIT}}};
    struct trial t = TRIAL(&s);
    struct failure f = {.category = categories[0]};
    assert_non_null(strstr(fail_with(&t, f).reason, "ccc...), at once"));
    assert_int_equal(retries_until_dead(&t, f), 2);
    assert_non_null(strstr(fail_with(&t, f).reason, "ccc...) allows 3 retries"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preemptions_and_lacks_of_memory_are_counted_independently),
        cmocka_unit_test(the_table_of_effective_limits),
        cmocka_unit_test(a_job_adds_policies_behind_those_of_its_queue),
        cmocka_unit_test(the_policy_of_the_specification),
        cmocka_unit_test(the_first_match_wins_also_when_it_says_fail),
        cmocka_unit_test(a_rule_that_is_used_up_does_not_pass_on_to_the_next),
        cmocka_unit_test(a_limit_of_0_allows_nothing),
        cmocka_unit_test(the_limit_is_the_rules_else_the_policys_else_the_global_one),
        cmocka_unit_test(the_total_of_all_retries_stays_under_the_global_limit),
        cmocka_unit_test(retries_that_no_rule_has_granted_are_in_the_total),
        cmocka_unit_test(counts_of_policies_that_no_longer_apply_are_in_the_total),
        cmocka_unit_test(lowering_the_global_limit_stops_jobs_that_are_over_it),
        cmocka_unit_test(absurd_counts_are_no_retries),
        cmocka_unit_test(the_first_policy_that_states_a_default_decides),
        cmocka_unit_test(a_default_retry_has_the_limit_backoff_and_affinity_of_its_policy),
        cmocka_unit_test(without_a_policy_a_job_fails),
        cmocka_unit_test(the_backoff_is_the_rules_else_the_policys_else_the_global_one),
        cmocka_unit_test(the_delay_grows_with_the_rules_own_count),
        cmocka_unit_test(the_affinity_is_the_rules_else_the_policys_else_none),
        cmocka_unit_test(counts_survive_edits_of_limits_and_order),
        cmocka_unit_test(the_same_rule_of_two_policies_is_counted_apart),
        cmocka_unit_test(a_policy_that_is_named_twice_counts_once),
        cmocka_unit_test(a_pattern_that_gives_up_is_no_match_and_is_told),
        cmocka_unit_test(a_long_reason_is_cut_between_characters),
        cmocka_unit_test(a_long_list_of_matchers_leaves_room_for_the_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
