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
    uint64_t pattern_bytes;         /* of its regular expressions, compiled */
    struct document_node *warnings; /* a list of texts: what has no effect */
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

/* Readers of a table's row: the name of a category, {"Delete"|"Retain"} and a hint. */
struct err category_document_name(struct json_cursor *c, struct arena *a, void *str);
NODISCARD struct err category_document_subname(struct json_cursor *c, struct arena *a, void *str);
struct err category_document_action(struct json_cursor *c, struct arena *a, void *action);
struct err category_document_hint(struct json_cursor *c, struct arena *a, void *str);
extern const char *const category_document_actions[];
/* true: the opposite of what it says. */
struct err category_document_enabled(struct json_cursor *c, struct arena *a, void *disabled);
/* Whether a rule of categories says what it is about. */
bool category_document_states(const struct matcher *m);

/* The canonical tree, in the arena; its texts are those of the categorizer. */
struct document_node *category_document_tree(const struct categorizer *c, int64_t resource_version,
                                             struct arena *a);

/* Its tables, for the description of the API. */
extern const struct field_table category_document_tables[];
extern const size_t category_document_table_count;

#endif
