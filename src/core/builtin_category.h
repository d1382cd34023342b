/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BUILTIN_CATEGORY_H
#define CORE_BUILTIN_CATEGORY_H

/* The categories of failures that exist without being configured, as in Armada: category
 * `internal`, with a subcategory for what the server and its executor know by themselves. Pure. */

#include <stdbool.h>

#include "base/str.h"
#include "core/job.h"

#define BUILTIN_CATEGORY_NAME     "internal"
#define BUILTIN_CATEGORY_MAX_RUNS "max-runs-exceeded" /* too many workers lost in a row */

/* The subcategory of a failure, by its condition, its outcome or its error type; empty: none. */
struct str builtin_category_of(const struct failure *f, enum outcome outcome);

/* Names the failure that made a job poison, unless something else has named it. */
void builtin_category_poison(struct failure *f);

/* Whether the name is reserved: "internal", or "internal/..." . */
bool builtin_category_is(struct str category);

/* Whether a rule that lists this category means that one: a rule may name both parts in one,
 * as "internal/lease-expired". */
bool builtin_category_is_meant(struct str listed, struct str category, struct str subcategory);

/* Whether a rule that lists this category is about leases that ran out, by name. */
bool builtin_category_is_of_expired(struct str listed);

#endif
