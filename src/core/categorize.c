/* SPDX-License-Identifier: Apache-2.0 */
#include "core/categorize.h"

static const struct categorize_rule *first_of(const struct categorizer *c,
                                              struct matcher_subject *subject)
{
    for (size_t i = 0; i < c->rule_count; i++)
        if (matcher_holds(&c->rules[i].match, subject))
            return &c->rules[i];
    return NULL;
}

static void take_default(const struct categorizer *const *list, size_t count,
                         struct categorize_verdict *v)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i]->disabled || !list[i]->default_category.len)
            continue;
        v->category = list[i]->default_category;
        v->subcategory = list[i]->default_subcategory;
        return;
    }
}

struct categorize_verdict categorize(const struct categorizer *const *list, size_t count,
                                     const struct failure *failure)
{
    struct matcher_subject subject = {.failure = failure, .any_failed = true};
    struct categorize_verdict v = {0};
    for (size_t i = 0; i < count && !v.rule; i++)
        v.rule = list[i]->disabled ? NULL : first_of(list[i], &subject);
    v.over_match_limit = subject.gave_up > 0;
    if (v.rule) {
        v.category = v.rule->category;
        v.subcategory = v.rule->subcategory;
    } else {
        take_default(list, count, &v);
    }
    return v;
}
