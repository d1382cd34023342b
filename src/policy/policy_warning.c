/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_warning.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

/* Nobody reads more. */
#define WARNINGS_MAX 100
/* So many rules are compared with each other. */
#define COMPARED_MAX 1024

void policy_warning_add(struct document_node *list, struct arena *a, const char *format, ...)
{
    char words[320];
    va_list ap;
    if (list->count > WARNINGS_MAX)
        return;
    va_start(ap, format);
    vsnprintf(words, sizeof words, format, ap);
    va_end(ap);
    if (list->count == WARNINGS_MAX)
        snprintf(words, sizeof words, "there is more of this kind");
    document_add(list, "", document_string(a, arena_copy(a, str_from(words))));
}

/* The rules of a policy by what they match. */
struct alike {
    uint64_t key;
    size_t rule;
};

static int compare_alike(const void *a, const void *b)
{
    const struct alike *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rule < y->rule ? -1 : 1;
}

static const struct alike *sort_alike(const struct policy *p, struct arena *a)
{
    struct alike *list = arena_get(a, (p->rule_count + 1) * sizeof *list);
    for (size_t i = 0; i < p->rule_count; i++)
        list[i] = (struct alike){matcher_key(&p->rules[i].match), i};
    qsort(list, p->rule_count, sizeof *list, compare_alike);
    return list;
}

/* For each rule the first one before it with the same matchers, or itself. */
static const size_t *first_alike(const struct policy *p, struct arena *a)
{
    const struct alike *list = sort_alike(p, a);
    size_t *first = arena_get(a, (p->rule_count + 1) * sizeof *first);
    for (size_t i = 0; i < p->rule_count; i++) {
        bool same = i > 0 && list[i - 1].key == list[i].key;
        first[list[i].rule] = same ? first[list[i - 1].rule] : list[i].rule;
    }
    return first;
}

/* A rule before the i-th because of which that one is never reached, or the i-th itself. With very
 * many rules only those are found that are just like it. */
static size_t covering(const struct policy *p, size_t i, const size_t *first)
{
    size_t j = 0;
    if (first[i] < i)
        return first[i];
    if (i >= COMPARED_MAX)
        return i;
    while (j < i && !matcher_covers(&p->rules[j].match, &p->rules[i].match))
        j++;
    return j;
}

static void check_reach(struct document_node *list, struct arena *a, const struct policy *p,
                        size_t i, const size_t *first, const char *spec)
{
    const char *never = matcher_never(&p->rules[i].match);
    size_t before = covering(p, i, first);
    if (never)
        policy_warning_add(list, a, "%srules[%zu] can never match: %s", spec, i, never);
    else if (before < i)
        policy_warning_add(list, a,
                           "%srules[%zu] can never match: %srules[%zu] before it matches "
                           "everything that it would",
                           spec, i, spec, before);
}

static void check_codes(struct document_node *list, struct arena *a, const struct matcher *m,
                        size_t i, const char *spec)
{
    for (size_t j = 0; j < m->exit_code_count; j++)
        if (m->exit_codes[j] == 0)
            policy_warning_add(list, a, "%srules[%zu].onExitCodes: exit code 0 never matches", spec,
                               i);
}

static void check_action(struct document_node *list, struct arena *a, const struct policy_rule *r,
                         size_t i, const char *spec)
{
    const struct {
        const char *name;
        bool stated;
    } fields[] = {{"retryLimit", r->retry_limit != POLICY_NO_LIMIT},
                  {"retryFor", r->retry_for.ms > 0},
                  {"backoff", r->backoff.shape != CURVE_NONE},
                  {"antiAffinity", r->affinity.mode != POLICY_AFFINITY_UNSET}};
    for (size_t j = 0; r->action == POLICY_FAIL && j < COUNT(fields); j++)
        if (fields[j].stated)
            policy_warning_add(list, a, "%srules[%zu].%s has no effect: the action is Fail", spec,
                               i, fields[j].name);
}

void policy_warning_find(struct document_node *list, struct arena *a, const struct policy *p,
                         const char *spec)
{
    bool retries = p->default_action == POLICY_RETRY;
    const size_t *first = first_alike(p, a);
    for (size_t i = 0; i < p->rule_count; i++) {
        check_reach(list, a, p, i, first, spec);
        check_codes(list, a, &p->rules[i].match, i, spec);
        check_action(list, a, &p->rules[i], i, spec);
        retries = retries || p->rules[i].action == POLICY_RETRY;
    }
    if (!retries && p->retry_limit != POLICY_NO_LIMIT)
        policy_warning_add(list, a, "%sretryLimit has no effect: every action is Fail", spec);
    if (!retries && p->retry_for.ms)
        policy_warning_add(list, a, "%sretryFor has no effect: every action is Fail", spec);
}

/* --- beside the settings --- */

/* Warns of the first rule that is so, and says how many more are. */
static void warn_first(struct document_node *list, struct arena *a, const bool *is, size_t count,
                       const char *what)
{
    size_t first = 0, more = 0;
    while (first < count && !is[first])
        first++;
    for (size_t i = first + 1; i < count; i++)
        more += is[i];
    if (first == count)
        return;
    char others[32] = "";
    if (more)
        snprintf(others, sizeof others, " (and %zu more)", more);
    policy_warning_add(list, a, "rules[%zu]%s %s", first, others, what);
}

static bool is_above(int64_t limit, const struct policy_settings *s)
{
    return limit != POLICY_NO_LIMIT && limit > s->global_max_retries;
}

bool policy_warning_is_above(const struct policy *p, const struct policy_settings *s)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (p->rules[i].action == POLICY_RETRY && is_above(p->rules[i].retry_limit, s))
            return true;
    return is_above(p->retry_limit, s);
}

static void warn_of_limits(struct document_node *list, struct arena *a, const struct policy *p,
                           const struct policy_settings *s)
{
    bool *above = arena_get(a, p->rule_count + 1);
    char what[120];
    for (size_t i = 0; i < p->rule_count; i++)
        above[i] = p->rules[i].action == POLICY_RETRY && is_above(p->rules[i].retry_limit, s);
    snprintf(what, sizeof what,
             "may never reach its retryLimit: globalMaxRetries is %lld, for all retries of a job",
             (long long)s->global_max_retries);
    warn_first(list, a, above, p->rule_count, what);
    if (is_above(p->retry_limit, s))
        policy_warning_add(list, a,
                           "retryLimit %lld is never reached: globalMaxRetries is %lld, for all "
                           "retries of a job",
                           (long long)p->retry_limit, (long long)s->global_max_retries);
}

static void warn_of_pace(struct document_node *list, struct arena *a, const struct policy *p,
                         const struct policy_settings *s)
{
    bool *at_once = arena_get(a, p->rule_count + 1), *in_step = arena_get(a, p->rule_count + 1);
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct curve *c = policy_backoff(p, &p->rules[i], s);
        bool retries = p->rules[i].action == POLICY_RETRY;
        bool delayed = c->shape != CURVE_NONE && c->base.ms > 0;
        bool spread = curve_is_random(c);
        at_once[i] = retries && !delayed && !spread;
        in_step[i] = retries && delayed && !spread;
    }
    warn_first(list, a, at_once, p->rule_count,
               "retries at once: there is neither a delay nor a jitter in its backoff");
    warn_first(list, a, in_step, p->rule_count,
               "retries without jitter: jobs that failed together are tried again together");
    const struct curve *c = policy_backoff(p, NULL, s);
    if (p->default_action == POLICY_RETRY && c->shape != CURVE_NONE && c->base.ms > 0 &&
        !curve_is_random(c))
        policy_warning_add(list, a,
                           "defaultAction retries without jitter: jobs that failed together are "
                           "tried again together");
}

/* From so many retries on, that never wait longer than this, jobs which fail for good keep their
 * workers from others. */
#define STORM_RETRIES 50
#define STORM_WAIT_MS 10000
/* Nobody waits for a job that long. */
#define ENDLESS_DAYS 30
#define ENDLESS_LOOK 10000

/* How many retries that rule may grant, or the default action if r is NULL. */
static int64_t most_retries(const struct policy *p, const struct policy_rule *r,
                            const struct policy_settings *s)
{
    int64_t limit = policy_limit(p, r, s);
    return limit < s->global_max_retries ? limit : s->global_max_retries;
}

static bool is_storm(const struct policy *p, const struct policy_rule *r,
                     const struct policy_settings *s)
{
    int64_t limit = most_retries(p, r, s);
    const struct curve *c = policy_backoff(p, r, s);
    span least, most = {0};
    if (limit < STORM_RETRIES || policy_retry_for(p, r).ms)
        return false;
    if (c->shape != CURVE_NONE)
        curve_range(c, (uint32_t)limit, &least, &most);
    return most.ms <= STORM_WAIT_MS;
}

static bool is_endless(const struct policy *p, const struct policy_rule *r,
                       const struct policy_settings *s)
{
    int64_t limit = most_retries(p, r, s), all = 0;
    const struct curve *c = policy_backoff(p, r, s);
    const int64_t end = (int64_t)ENDLESS_DAYS * 24 * 3600 * 1000;
    if (c->shape == CURVE_NONE || policy_retry_for(p, r).ms)
        return false;
    for (int64_t n = 1; n <= limit && n <= ENDLESS_LOOK && all <= end; n++) {
        span least, most;
        curve_range(c, (uint32_t)n, &least, &most);
        all += most.ms;
    }
    return all > end;
}

static void warn_of_storms(struct document_node *list, struct arena *a, const struct policy *p,
                           const struct policy_settings *s)
{
    static const char storm[] = "may retry very often at short intervals: jobs that fail for good "
                                "take workers from others; a smaller retryLimit, a longer "
                                "maxDelay or a retryFor ends that";
    static const char endless[] =
        "may retry for more than 30 days: a smaller retryLimit or a retryFor ends it sooner";
    bool *storms = arena_get(a, p->rule_count + 1), *without_end = arena_get(a, p->rule_count + 1);
    for (size_t i = 0; i < p->rule_count; i++) {
        bool retries = p->rules[i].action == POLICY_RETRY;
        storms[i] = retries && is_storm(p, &p->rules[i], s);
        without_end[i] = retries && is_endless(p, &p->rules[i], s);
    }
    warn_first(list, a, storms, p->rule_count, storm);
    warn_first(list, a, without_end, p->rule_count, endless);
    if (p->default_action == POLICY_RETRY && is_storm(p, NULL, s))
        policy_warning_add(list, a, "defaultAction %s", storm);
    if (p->default_action == POLICY_RETRY && is_endless(p, NULL, s))
        policy_warning_add(list, a, "defaultAction %s", endless);
}

void policy_warning_settings(struct policy_document *d, const struct policy_settings *s)
{
    warn_of_storms(d->warnings, &d->memory, &d->policy, s);
    warn_of_limits(d->warnings, &d->memory, &d->policy, s);
    if (!d->of_armada)
        warn_of_pace(d->warnings, &d->memory, &d->policy, s);
}

/* What is stored does not say in which form it came, but Armada's has one limit for all rules, and
 * no backoff. */
static bool looks_of_armada(const struct policy *p)
{
    bool backs_off = p->backoff.shape != CURVE_NONE;
    for (size_t i = 0; i < p->rule_count; i++)
        backs_off = backs_off || p->rules[i].backoff.shape != CURVE_NONE;
    return p->counts_together && !backs_off;
}

struct document_node *policy_warning_standing(const struct policy_document *d,
                                              const struct policy_settings *s, struct arena *a)
{
    struct document_node *list = document_list(a);
    for (const struct document_node *n = d->warnings->first; n; n = n->next)
        document_add(list, "", document_string(a, n->text));
    /* Where nothing is retried at all, that is the warning. */
    if (s->global_max_retries)
        warn_of_limits(list, a, &d->policy, s);
    if (!looks_of_armada(&d->policy))
        warn_of_pace(list, a, &d->policy, s);
    warn_of_storms(list, a, &d->policy, s);
    return list;
}
