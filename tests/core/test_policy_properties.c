/* SPDX-License-Identifier: Apache-2.0 */

/* Properties of all policies and failures, tried on seeded random ones. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "core/policy.h"

#define SEEDS        400
#define FAILURES     60
#define POLICIES_MAX 5
#define RULES_MAX    6
#define CODES_MAX    3
#define SLOTS_MAX    (POLICIES_MAX * (RULES_MAX + 1))

static const struct str categories[] = {{"cuda", 4}, {"net", 3}, {"disk", 4}};
static const struct str containers[] = {{"main", 4}, {"side", 4}};
static const struct str messages[] = {{"", 0}, {"TRANSIENT", 9}, {"bug", 3}};
static struct pattern *patterns[2];

struct world {
    struct policy policies[POLICIES_MAX];
    const struct policy *list[POLICIES_MAX];
    struct policy_rule rules[POLICIES_MAX][RULES_MAX];
    int64_t codes[POLICIES_MAX][RULES_MAX][CODES_MAX];
    size_t policy_count;
    struct policy_settings settings;
    struct policy_count counts[SLOTS_MAX];
    size_t count_count;
    struct container_result containers[3];
    struct failure failure;
};

static int32_t some_code(struct rng *r)
{
    static const int32_t codes[] = {1, 2, 137, 143};
    return codes[rng_below(r, COUNT(codes))];
}

static struct curve some_curve(struct rng *r)
{
    if (rng_below(r, 2))
        return (struct curve){CURVE_NONE};
    return (struct curve){CURVE_EXPONENTIAL,
                          {(int64_t)rng_below(r, 5000)},
                          1.0 + (double)rng_below(r, 30) / 10.0,
                          {0},
                          {(int64_t)rng_below(r, 1000000)}};
}

static int64_t some_limit(struct rng *r)
{
    return (int64_t)rng_below(r, 8) - 1;
}

static void some_rule(struct world *w, size_t p, size_t q, struct rng *r)
{
    struct policy_rule *rule = &w->rules[p][q];
    struct matcher *m = &rule->match;
    *rule = (struct policy_rule){.action = rng_below(r, 5) ? POLICY_RETRY : POLICY_FAIL,
                                 .retry_limit = some_limit(r),
                                 .backoff = some_curve(r),
                                 .affinity = {(enum policy_affinity_mode)rng_below(r, 3)}};
    switch (rng_below(r, 4)) {
    case 0:
        m->exit_operator = rng_below(r, 2) ? MATCHER_IN : MATCHER_NOT_IN;
        m->exit_code_count = 1 + rng_below(r, CODES_MAX);
        for (size_t i = 0; i < m->exit_code_count; i++)
            w->codes[p][q][i] = some_code(r);
        m->exit_codes = w->codes[p][q];
        break;
    case 1:
        m->conditions = (unsigned)(1 + rng_below(r, 31)) << CONDITION_OOM_KILLED;
        break;
    case 2:
        m->categories = &categories[rng_below(r, COUNT(categories))];
        m->category_count = 1;
        break;
    default:
        m->message = patterns[rng_below(r, COUNT(patterns))];
    }
    if (rng_below(r, 4) == 0)
        m->container = containers[rng_below(r, COUNT(containers))];
    m->include_init = rng_below(r, 3) == 0;
    rule->key = policy_rule_key(rule);
}

static void some_policies(struct world *w, struct rng *r)
{
    static const struct str names[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}};
    w->policy_count = rng_below(r, POLICIES_MAX + 1);
    /* All of them: tests may make one more apply. */
    for (size_t p = 0; p < POLICIES_MAX; p++) {
        w->policies[p] = (struct policy){.name = names[p],
                                         .retry_limit = some_limit(r),
                                         .default_action = (enum policy_action)rng_below(r, 3),
                                         .backoff = some_curve(r),
                                         .affinity = {(enum policy_affinity_mode)rng_below(r, 3)},
                                         .rules = w->rules[p],
                                         .rule_count = rng_below(r, RULES_MAX + 1)};
        for (size_t q = 0; q < RULES_MAX; q++)
            some_rule(w, p, q, r);
        w->list[p] = &w->policies[p];
    }
}

static enum condition some_condition(struct rng *r)
{
    return rng_below(r, 2) ? CONDITION_NONE : (enum condition)rng_below(r, CONDITION_COUNT);
}

static void some_failure(struct world *w, struct rng *r)
{
    struct failure *f = &w->failure;
    *f = (struct failure){.condition = some_condition(r),
                          .exit_code = rng_below(r, 3) ? some_code(r) : 0,
                          .termination_message = messages[rng_below(r, COUNT(messages))],
                          .containers = w->containers,
                          .container_count = rng_below(r, COUNT(w->containers) + 1)};
    if (rng_below(r, 2))
        f->category = categories[rng_below(r, COUNT(categories))];
    for (size_t i = 0; i < f->container_count; i++)
        w->containers[i] =
            (struct container_result){.name = containers[rng_below(r, COUNT(containers))],
                                      .init = rng_below(r, 3) == 0,
                                      .exit_code = rng_below(r, 2) ? some_code(r) : 0,
                                      .condition = some_condition(r),
                                      .message = messages[rng_below(r, COUNT(messages))]};
}

static struct policy_verdict evaluate(struct world *w, size_t policies)
{
    struct rng rng = rng_from_seed(1), one = rng_from_seed(1);
    (void)rng_next(&one);
    struct policy_verdict v = policy_evaluate(w->list, policies, &w->settings, &w->failure,
                                              w->counts, w->count_count, 0, &rng);
    /* Exactly one draw, whatever the verdict. */
    assert_memory_equal(&rng, &one, sizeof rng);
    return v;
}

static void assert_same(const struct policy_verdict *a, const struct policy_verdict *b)
{
    assert_int_equal(a->retry, b->retry);
    assert_int_equal(a->delay.ms, b->delay.ms);
    assert_int_equal(a->policy, b->policy);
    assert_int_equal(a->rule, b->rule);
    assert_true(a->slot.policy == b->slot.policy && a->slot.rule == b->slot.rule);
    assert_int_equal(a->slot.count, b->slot.count);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->total, b->total);
    assert_int_equal(a->avoid_node, b->avoid_node);
    assert_string_equal(a->reason, b->reason);
}

static struct policy_count *slot_of(struct world *w, struct policy_count slot)
{
    for (size_t i = 0; i < w->count_count; i++)
        if (w->counts[i].policy == slot.policy && w->counts[i].rule == slot.rule)
            return &w->counts[i];
    assert_true(w->count_count < SLOTS_MAX);
    w->counts[w->count_count] = (struct policy_count){slot.policy, slot.rule, 0};
    return &w->counts[w->count_count++];
}

static uint64_t total(const struct world *w)
{
    uint64_t n = 0;
    for (size_t i = 0; i < w->count_count; i++)
        n += w->counts[i].count;
    return n;
}

/* The effective limit, computed independently from the verdict's indexes. */
static int64_t limit_again(const struct world *w, const struct policy_verdict *v)
{
    const struct policy *p = &w->policies[v->policy];
    if (v->rule >= 0 && p->rules[v->rule].retry_limit != POLICY_NO_LIMIT)
        return p->rules[v->rule].retry_limit;
    return p->retry_limit != POLICY_NO_LIMIT ? p->retry_limit : w->settings.global_max_retries;
}

static void check_retry(struct world *w, const struct policy_verdict *v)
{
    assert_true(v->policy >= 0 && v->limit == limit_again(w, v));
    struct policy_count *slot = slot_of(w, v->slot);
    slot->count++;
    assert_int_equal(slot->count, v->slot.count);
    assert_int_equal(slot->count, v->count);
    assert_true((int64_t)slot->count <= v->limit);
    assert_int_equal(total(w), v->total);
    assert_true((int64_t)v->total <= w->settings.global_max_retries);
    assert_true(v->delay.ms >= 0);
}

static void no_sequence_of_failures_exceeds_a_limit_under_any_change_of_the_cap(void **state)
{
    (void)state;
    int retries = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static struct world w;
        w = (struct world){0};
        struct rng r = rng_from_seed(seed);
        some_policies(&w, &r);
        for (int i = 0; i < FAILURES; i++) {
            w.settings.global_max_retries = (int64_t)rng_below(&r, 25);
            w.settings.default_backoff = some_curve(&r);
            some_failure(&w, &r);
            struct policy_verdict v = evaluate(&w, w.policy_count);
            if (v.retry)
                check_retry(&w, &v);
            retries += v.retry;
        }
    }
    assert_in_range(retries, SEEDS, SEEDS * FAILURES / 2); /* both outcomes occur often */
}

static void adding_a_policy_at_the_end_never_changes_what_an_earlier_rule_decides(void **state)
{
    (void)state;
    int decided = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static struct world w;
        w = (struct world){.settings = {.global_max_retries = 15}};
        struct rng r = rng_from_seed(seed);
        some_policies(&w, &r);
        for (int i = 0; i < FAILURES && w.policy_count < POLICIES_MAX; i++) {
            some_failure(&w, &r);
            struct policy_verdict v = evaluate(&w, w.policy_count);
            struct policy_verdict more = evaluate(&w, w.policy_count + 1);
            /* An earlier default also prevails over a later default, though not over a later
             * rule. */
            if (v.policy >= 0 && (v.rule >= 0 || more.rule < 0)) {
                assert_same(&v, &more);
                decided++;
            }
            if (v.rule < 0 && more.rule >= 0)
                assert_int_equal(more.policy, w.policy_count);
            if (v.retry)
                check_retry(&w, &v);
        }
    }
    assert_true(decided > SEEDS);
}

static void the_same_question_has_the_same_answer(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static struct world w;
        w = (struct world){.settings = {.global_max_retries = 15}};
        struct rng r = rng_from_seed(seed);
        some_policies(&w, &r);
        some_failure(&w, &r);
        struct policy_verdict a = evaluate(&w, w.policy_count), b = evaluate(&w, w.policy_count);
        assert_same(&a, &b);
    }
}

int main(void)
{
    if (pattern_new(STR("TRANS.*T"), &patterns[0]).code != ERR_OK ||
        pattern_new(STR("^bug$"), &patterns[1]).code != ERR_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sequence_of_failures_exceeds_a_limit_under_any_change_of_the_cap),
        cmocka_unit_test(adding_a_policy_at_the_end_never_changes_what_an_earlier_rule_decides),
        cmocka_unit_test(the_same_question_has_the_same_answer),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pattern_free(patterns[0]);
    pattern_free(patterns[1]);
    return failed;
}
