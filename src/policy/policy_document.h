/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_POLICY_DOCUMENT_H
#define POLICY_POLICY_DOCUMENT_H

/* The resource RetryPolicy as a document: read into a struct policy, refused as a whole with the
 * first fault in it, and written back in canonical form. Armada's released format
 * (policy/armada_document.h) is read, too. What was accepted once is accepted again when it is
 * written and read. */

#include "core/policy.h"
#include "wire/document.h"
#include "wire/field.h"

#define POLICY_DOCUMENT_KIND "RetryPolicy"

/* A policy with everything that it points to. */
struct policy_document {
    struct policy policy;           /* must be first, see policy/shelf.h */
    int64_t resource_version;       /* metadata.resourceVersion; 0: not stated */
    struct document_node *warnings; /* a list of texts: what is valid but probably not what was
                                     * meant */
    bool of_armada;                 /* in that form, which has no backoff of its own */
    struct arena memory;
    uint64_t pattern_bytes; /* of its regular expressions, compiled */
};

/* Parses a text with exactly one policy. On success *out must be freed; the text is no longer
 * needed. */
NODISCARD bool policy_document_parse(struct str text, enum document_format format,
                                     struct policy_document *out, struct document_fault *fault);
/* The same for one that was accepted before: limits on new documents do not apply. */
NODISCARD bool policy_document_parse_stored(struct str text, struct policy_document *out,
                                            struct document_fault *fault);
/* Reads one document of a text of several; the tree is no longer needed afterwards. */
NODISCARD bool policy_document_read(const struct document_node *root, struct policy_document *out,
                                    struct document_fault *fault);
void policy_document_free(struct policy_document *d);

/* The canonical tree, in the arena; its texts are the policy's. */
struct document_node *policy_document_tree(const struct policy *p, int64_t resource_version,
                                           struct arena *a);

/* The defaults of a backoff that states only its initialDelay. */
#define POLICY_DOCUMENT_MULTIPLIER   2.0
#define POLICY_DOCUMENT_MAX_DELAY_MS 600000

/* Reads {initialDelay, maxDelay, multiplier, jitter}, also for settings; a reader for tables
 * (policy/fields.h). Without a jitter it is full; in documents of Armada's, and in those that were
 * stored when that was the default, there is none. What is written always says. */
struct err policy_document_backoff(struct json_cursor *c, struct arena *a, void *curve);
struct document_node *policy_document_backoff_tree(const struct curve *c, struct arena *a);

/* Its tables, for the description of the API. */
extern const struct field_table policy_document_tables[];
extern const size_t policy_document_table_count;

#endif
