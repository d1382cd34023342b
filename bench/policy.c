/* SPDX-License-Identifier: Apache-2.0 */

/* How long one verdict takes: 5 policies of 20 rules each, of which only the last one matches, with
 * nothing else to do in between. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/policy.h"
#include "base/must.h"

#define POLICIES  5
#define RULES     20
#define PATTERNS  10
#define TARGET_US 5.0

struct bench {
    struct policy policies[POLICIES];
    const struct policy *list[POLICIES];
    struct policy_rule rules[POLICIES][RULES];
    int64_t codes[POLICIES][RULES];
    struct str categories[POLICIES][RULES];
    char names[POLICIES][RULES][24];
    struct pattern *patterns[PATTERNS];
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A third each on exit codes, conditions and categories. */
static void make_rule(struct bench *b, int p, int r)
{
    struct policy_rule *rule = &b->rules[p][r];
    struct matcher *m = &rule->match;
    *rule = (struct policy_rule){.action = POLICY_RETRY, .retry_limit = 3};
    int n = p * RULES + r;
    if (n == POLICIES * RULES - 1) {
        m->conditions = MATCHER_CONDITION(CONDITION_EVICTED);
    } else if (n % 3 == 0) {
        b->codes[p][r] = 100 + n;
        m->exit_operator = MATCHER_IN;
        m->exit_codes = &b->codes[p][r];
        m->exit_code_count = 1;
    } else if (n % 3 == 1) {
        m->conditions = MATCHER_CONDITION(CONDITION_OOM_KILLED);
        m->container = STR("main");
    } else {
        int len = snprintf(b->names[p][r], sizeof b->names[p][r], "category_%d", n);
        b->categories[p][r] = (struct str){b->names[p][r], (size_t)len};
        m->categories = &b->categories[p][r];
        m->category_count = 1;
    }
}

static void make(struct bench *b)
{
    static const struct str names[POLICIES] = {
        {"infra", 5}, {"ml-training", 11}, {"gpu", 3}, {"storage", 7}, {"extra-retry", 11}};
    for (int p = 0; p < POLICIES; p++) {
        for (int r = 0; r < RULES; r++) {
            make_rule(b, p, r);
            b->rules[p][r].key = policy_rule_key(&b->rules[p][r]);
        }
        b->policies[p] = (struct policy){.name = names[p],
                                         .retry_limit = 10,
                                         .backoff = {CURVE_EXPONENTIAL, {1000}, 2.0, {0}, {600000}},
                                         .rules = b->rules[p],
                                         .rule_count = RULES};
        b->list[p] = &b->policies[p];
    }
}

/* Ten of the rules match the termination message instead. */
static void add_patterns(struct bench *b)
{
    static const char *const texts[PATTERNS] = {
        ".*TRANSIENT.*",
        "(?i)connection (reset|refused|timed out)",
        "CUDA error: .* \\(code \\d+\\)",
        "NCCL (WARN|ERROR).*unhandled",
        "Xid \\d+",
        "^(Read|Write) timeout after \\d+ ms$",
        "no space left on device",
        "\\b(502|503|504)\\b",
        "[Dd]eadline exceeded",
        "rank \\d+ (lost|unreachable)",
    };
    for (int i = 0; i < PATTERNS; i++) {
        must(pattern_new(str_from(texts[i]), &b->patterns[i]).code == ERR_OK);
        struct policy_rule *rule = &b->rules[i / 2][i % 2];
        rule->match = (struct matcher){.message = b->patterns[i]};
    }
}

/* The best of several rounds, in microseconds per verdict: a busy machine only adds to it. */
static double measure(struct bench *b, const struct failure *f, int rounds, int n)
{
    struct policy_settings settings = {.enabled = true, .global_max_retries = 20};
    struct policy_count counts[3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 1}};
    struct rng rng = rng_from_seed(1);
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        double from = now_us();
        for (int j = 0; j < n; j++)
            must(policy_evaluate(b->list, POLICIES, &settings, f, counts, 3, 0, &rng).retry);
        double us = (now_us() - from) / n;
        best = us < best ? us : best;
    }
    return best;
}

int main(void)
{
    static struct bench b;
    static const char log[] =
        "2026-01-05T10:00:00Z INFO step 1200 loss 0.12\n"
        "2026-01-05T10:00:01Z WARN checkpoint is slow: 3120 ms\n"
        "2026-01-05T10:00:02Z ERROR worker 3 ended: assertion failed in reader.c line 120\n";
    struct container_result containers[] = {
        {.name = STR("log-shipper")},
        {.name = STR("main"), .exit_code = 1, .message = {log, sizeof log - 1}}};
    struct failure f = {.condition = CONDITION_EVICTED,
                        .category = STR("nothing_known"),
                        .containers = containers,
                        .container_count = 2};
    make(&b);
    double plain = measure(&b, &f, 20, 5000);
    printf("one verdict, 5 policies of 20 rules, the last matches:  %6.2f us (target %.0f us)\n",
           plain, TARGET_US);
    add_patterns(&b);
    printf("the same with 10 patterns over a message of %zu bytes:  %6.2f us\n", sizeof log - 1,
           measure(&b, &f, 20, 500));
    for (int i = 0; i < PATTERNS; i++)
        pattern_free(b.patterns[i]);
    return plain <= TARGET_US ? 0 : 1;
}
