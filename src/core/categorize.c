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

struct categorize_verdict categorize(const struct categorizer *const *list, size_t count,
                                     const struct failure *failure)
{
    struct matcher_subject subject = {.failure = failure};
    struct categorize_verdict v = {NULL, false};
    for (size_t i = 0; i < count && !v.rule; i++)
        v.rule = first_of(list[i], &subject);
    v.over_match_limit = subject.gave_up > 0;
    return v;
}
