/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_ARMADA_CATEGORIES_H
#define POLICY_ARMADA_CATEGORIES_H

/* The section application.errorCategories in the configuration of Armada's executors: categories
 * with a list of rules each. It is read into a struct categorizer like any other, and written as
 * one: FailureCategories can express everything that it can. */

#include "core/categorize.h"
#include "policy/fields.h"

#define ARMADA_CATEGORIES_PLACE "application.errorCategories"
/* Its documents have no name. */
#define ARMADA_CATEGORIES_NAME "armada-executor"

/* The section, or NULL if the document has none. */
const struct document_node *armada_categories_of(const struct document_node *root);
/* Reads the section; warnings: a list, to which it adds the members of the rest of the
 * configuration, which have no use here. */
NODISCARD struct err armada_categories_read(struct json_cursor *c, const struct document_node *root,
                                            struct categorizer *out,
                                            struct document_node *warnings);

/* Its tables, for the description of the API. */
extern const struct field_table armada_categories_tables[];
extern const size_t armada_categories_table_count;

#endif
