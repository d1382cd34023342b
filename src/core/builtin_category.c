/* SPDX-License-Identifier: Apache-2.0 */
#include "core/builtin_category.h"

#include <string.h>

#include "base/array.h"

#define LEASE_EXPIRED "lease-expired"

static const struct str internal = STR(BUILTIN_CATEGORY_NAME);

/* The error types of an executor's reports (kube_failure.h, exec_finish.c), and what each means.
 * Where a type does not tell, as with a pod that vanished, the executor states the category. */
static const struct {
    struct str error_type, subcategory;
} types[] = {
    {STR("PodRefused"), STR("job-creation-failed")},
    {STR("PodMalformed"), STR("job-rejected")},
    {STR("PodDeleted"), STR("externally-deleted")},
    {STR("PodNodeLost"), STR("stuck-terminating")},
    {STR("PodDeadlineExceeded"), STR("active-deadline")},
};

struct str builtin_category_of(const struct failure *f, enum outcome outcome)
{
    if (f->condition == CONDITION_LEASE_EXPIRED)
        return STR(LEASE_EXPIRED);
    if (f->condition == CONDITION_DEADLINE_EXCEEDED)
        return STR("active-deadline");
    for (size_t i = 0; i < COUNT(types); i++)
        if (str_eq(f->error_type, types[i].error_type))
            return types[i].subcategory;
    return outcome == OUTCOME_MALFORMED_PAYLOAD ? STR("job-rejected") : (struct str){0};
}

void builtin_category_poison(struct failure *f)
{
    if (f->category.len && !str_eq(f->category, internal))
        return;
    f->category = internal;
    f->subcategory = STR(BUILTIN_CATEGORY_MAX_RUNS);
}

/* What follows "internal/"; false: the text does not begin so. */
static bool split(struct str text, struct str *rest)
{
    bool begins = text.len > internal.len && text.at[internal.len] == '/' &&
                  memcmp(text.at, internal.at, internal.len) == 0;
    if (begins)
        *rest = (struct str){text.at + internal.len + 1, text.len - internal.len - 1};
    return begins;
}

bool builtin_category_is(struct str category)
{
    struct str rest;
    return str_eq(category, internal) || split(category, &rest);
}

bool builtin_category_is_meant(struct str listed, struct str category, struct str subcategory)
{
    struct str rest;
    return str_eq(category, internal) && split(listed, &rest) && str_eq(rest, subcategory);
}

bool builtin_category_is_of_expired(struct str listed)
{
    struct str rest;
    return str_eq(listed, internal) || (split(listed, &rest) && str_eq(rest, STR(LEASE_EXPIRED)));
}
