/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_CATEGORY_DOCUMENT_H
#define POLICY_CATEGORY_DOCUMENT_H

/* The resource FailureCategories as a document: like policy_document, for a categorizer. */

#include "core/categorize.h"
#include "wire/document.h"
#include "wire/field.h"

#define CATEGORY_DOCUMENT_KIND "FailureCategories"

/* A categorizer with everything that it points to. */
struct category_document {
    struct categorizer categorizer; /* must be first, see policy/shelf.h */
    int64_t resource_version;       /* metadata.resourceVersion; 0: not stated */
    struct arena memory;
    uint64_t pattern_bytes; /* of its regular expressions, compiled */
};

/* Parses exactly one; on success *out must be freed. */
NODISCARD bool category_document_parse(struct str text, enum document_format format,
                                       struct category_document *out, struct document_fault *fault);
/* The same for one that was accepted before: limits on new documents do not apply. */
NODISCARD bool category_document_parse_stored(struct str text, struct category_document *out,
                                              struct document_fault *fault);
NODISCARD bool category_document_read(const struct document_node *root,
                                      struct category_document *out, struct document_fault *fault);
void category_document_free(struct category_document *d);

/* The canonical tree, in the arena; its texts are those of the categorizer. */
struct document_node *category_document_tree(const struct categorizer *c, int64_t resource_version,
                                             struct arena *a);

/* Its tables, for the description of the API. */
extern const struct field_table category_document_tables[];
extern const size_t category_document_table_count;

#endif
