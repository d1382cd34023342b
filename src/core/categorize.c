/* SPDX-License-Identifier: Apache-2.0 */
#include "core/categorize.h"

struct categorize_verdict categorize(const struct categorizer *c, const struct failure *failure,
                                     const struct pod_report *pod)
{
    struct matcher_subject subject = {.failure = failure};
    if (pod)
        subject.pod = *pod;
    struct categorize_verdict v = {NULL, false};
    for (size_t i = 0; i < c->rule_count && !v.rule; i++)
        if (matcher_holds(&c->rules[i].match, &subject))
            v.rule = &c->rules[i];
    v.over_match_limit = subject.gave_up > 0;
    return v;
}
