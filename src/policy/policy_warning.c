/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_warning.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"

void policy_warning_add(struct document_node *list, struct arena *a, const char *format, ...)
{
    char words[320];
    va_list ap;
    va_start(ap, format);
    vsnprintf(words, sizeof words, format, ap);
    va_end(ap);
    document_add(list, "", document_string(a, arena_copy(a, str_from(words))));
}

/* The first rule before the i-th because of which that one is never reached, or the i-th itself. */
static size_t covering(const struct policy *p, size_t i)
{
    size_t j = 0;
    while (j < i && !matcher_covers(&p->rules[j].match, &p->rules[i].match))
        j++;
    return j;
}

static void check_reach(struct document_node *list, struct arena *a, const struct policy *p,
                        size_t i, const char *spec)
{
    const char *never = matcher_never(&p->rules[i].match);
    size_t before = covering(p, i);
    if (never)
        policy_warning_add(list, a, "%srules[%zu] can never match: %s", spec, i, never);
    else if (before < i)
        policy_warning_add(list, a,
                           "%srules[%zu] can never match: %srules[%zu] before it matches "
                           "everything that it would",
                           spec, i, spec, before);
}

static void check_action(struct document_node *list, struct arena *a, const struct policy_rule *r,
                         size_t i, const char *spec)
{
    const struct {
        const char *name;
        bool stated;
    } fields[] = {{"retryLimit", r->retry_limit != POLICY_NO_LIMIT},
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
    for (size_t i = 0; i < p->rule_count; i++) {
        check_reach(list, a, p, i, spec);
        check_action(list, a, &p->rules[i], i, spec);
        retries = retries || p->rules[i].action == POLICY_RETRY;
    }
    if (!retries && p->retry_limit != POLICY_NO_LIMIT)
        policy_warning_add(list, a, "%sretryLimit has no effect: every action is Fail", spec);
}
