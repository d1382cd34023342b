/* SPDX-License-Identifier: Apache-2.0 */
#include "core/categorize.h"

#include "core/builtin_category.h"

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

/* False if it has none. */
static bool take_builtin(const struct failure *f, enum outcome outcome,
                         struct categorize_verdict *v)
{
    bool named = builtin_category_is(f->category);
    struct str sub = named ? f->subcategory : builtin_category_of(f, outcome);
    if (!named && !sub.len)
        return false;
    v->category = named ? f->category : STR(BUILTIN_CATEGORY_NAME);
    v->subcategory = sub;
    return true;
}

struct categorize_verdict categorize(const struct categorizer *const *list, size_t count,
                                     const struct failure *failure, enum outcome outcome)
{
    struct matcher_subject subject = {.failure = failure, .any_failed = true};
    struct categorize_verdict v = {0};
    for (size_t i = 0; i < count && !v.rule; i++)
        v.rule = list[i]->disabled ? NULL : first_of(list[i], &subject);
    v.over_match_limit = subject.gave_up > 0;
    if (v.rule) {
        v.category = v.rule->category;
        v.subcategory = v.rule->subcategory;
    } else if (!take_builtin(failure, outcome, &v)) {
        take_default(list, count, &v);
    }
    return v;
}

struct categorize_verdict categorize_name(const struct categorizer *const *list, size_t count,
                                          struct failure *failure, enum outcome outcome)
{
    if (failure->category.len && !builtin_category_is(failure->category))
        return (struct categorize_verdict){0};
    struct categorize_verdict v = categorize(list, count, failure, outcome);
    if (!v.category.len)
        return v;
    failure->category = v.category;
    failure->subcategory = v.subcategory;
    failure->hint = v.rule ? v.rule->hint : (struct str){0};
    return v;
}
