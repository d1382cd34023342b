/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_ARMADA_DOCUMENT_H
#define POLICY_ARMADA_DOCUMENT_H

/* The resource RetryPolicy in the format of Armada's releases: apiVersion armadaproject.io/v1beta1,
 * its fields beside apiVersion and kind instead of under metadata and spec, and rules on one
 * category each. It is read into a struct policy like any other, and written as one: tenax.dev/v1
 * can express everything that it can. */

#include "core/policy.h"
#include "policy/fields.h"

#define ARMADA_DOCUMENT_VERSION "armadaproject.io/v1beta1"

/* Whether the document has that apiVersion and kind. */
bool armada_document_is(const struct document_node *root);
/* warnings: a list, to which it adds what has no effect. */
NODISCARD struct err armada_document_read(struct json_cursor *c, struct policy *p,
                                          struct document_node *warnings);

/* Its tables, for the description of the API. */
extern const struct field_table armada_document_tables[];
extern const size_t armada_document_table_count;

#endif
