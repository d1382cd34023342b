/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CATEGORIZE_H
#define CORE_CATEGORIZE_H

/* Gives a failure a name (policies may go by it): ordered rules on exit code, condition,
 * termination message, the pod's error and its events; the first that holds says the
 * category, so that onFailureCategory has something to match for every kind of worker. */

#include <stddef.h>

#include "base/str.h"
#include "core/matcher.h"

/* What Armada's executors do with the pod. It is kept, and nothing acts on it. */
enum categorize_action { CATEGORIZE_NO_ACTION, CATEGORIZE_DELETE, CATEGORIZE_RETAIN };

struct categorize_rule {
    struct matcher match;   /* first, as in every rule (policy/fields.h); states no categories */
    struct str category;    /* not empty */
    struct str subcategory; /* or empty */
    struct str hint;        /* for a person: what to do about it; or empty */
    enum categorize_action action;
};

struct categorizer {
    struct str name; /* a DNS label */
    const struct categorize_rule *rules;
    size_t rule_count;
    /* Of a failure for which no rule of any list holds: those of the first list that has any. */
    struct str default_category;    /* or empty */
    struct str default_subcategory; /* or empty */
    bool disabled;                  /* it is kept and says nothing */
};

struct categorize_verdict {
    const struct categorize_rule *rule; /* NULL: none holds */
    struct str category, subcategory;   /* the rule's, a built-in one, or a default; or empty */
    bool over_match_limit; /* a pattern reached its match limit: it counted as no match */
};

/* Looks at their rules in the order of the list, and of containers at every one that failed. A
 * failure that no rule is about has the built-in category that its reporter named, or that it or
 * its outcome means (core/builtin_category.h), else a default.
 * Whether any other category that the worker itself gave comes first is for the caller to say. */
struct categorize_verdict categorize(const struct categorizer *const *list, size_t count,
                                     const struct failure *failure, enum outcome outcome);
/* The same for a failure whose reporter may have named its category, which comes first unless it is
 * a built-in one. The texts are the list's, or literals. */
struct categorize_verdict categorize_name(const struct categorizer *const *list, size_t count,
                                          struct failure *failure, enum outcome outcome);

#endif
