/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_SETTINGS_DOCUMENT_H
#define POLICY_SETTINGS_DOCUMENT_H

/* The retry settings as a document: the body of PUT /settings/retry, and the section retryPolicy of
 * a configuration file. */

#include "core/policy.h"
#include "wire/document.h"
#include "wire/field.h"

/* Reads the members that the mapping states. section is its name in faults; NULL: the whole
 * document. The texts are in the arena. */
NODISCARD bool settings_document_read(const struct document_node *n, const char *section,
                                      struct arena *a, struct policy_change *out,
                                      struct document_fault *fault);
/* Parses a text that is such a mapping; its tree is in the arena, too. */
NODISCARD bool settings_document_parse(struct str text, struct arena *a, struct policy_change *out,
                                       struct document_fault *fault);
/* The same for what was stored, as policy_document_backoff says. */
NODISCARD bool settings_document_parse_stored(struct str text, struct arena *a,
                                              struct policy_change *out,
                                              struct document_fault *fault);
/* What a change states, as text that is equal for equal meanings; in the arena. */
struct str settings_document_canonical(const struct policy_change *c, struct arena *a);
/* All settings, in the arena; its texts are the settings'. */
struct document_node *settings_document_tree(const struct policy_settings *s, struct arena *a);
/* The same as JSON. */
struct str settings_document_text(const struct policy_settings *s, struct arena *a);

/* Their last change: {at, by, old, new}, the latter two as far as they were stated. */
struct document_node *settings_document_changed_tree(const struct policy_changed *c,
                                                     struct arena *a);
struct str settings_document_changed_text(const struct policy_changed *c, struct arena *a);
/* Parses that text; its texts and its tree are in the arena. */
NODISCARD bool settings_document_changed_parse(struct str text, struct arena *a,
                                               struct policy_changed *out,
                                               struct document_fault *fault);

/* Its table, for the description of the API. */
extern const struct field_table settings_document_table;

#endif
