/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_DOCUMENT_INTERNAL_H
#define POLICY_DOCUMENT_INTERNAL_H

/* Between the readers of the two formats. */

#include "policy/document.h"

NODISCARD bool document_read_yaml(struct str text, struct arena *a, struct document_list *out,
                                  struct document_fault *fault);
NODISCARD bool document_read_json(struct str text, struct arena *a, struct document_list *out,
                                  struct document_fault *fault);

/* Appends a node that was read; false with a fault if there are too many. */
NODISCARD bool document_append(struct document_node *parent, struct document_node *child,
                               struct document_fault *fault);
/* False with a fault if the mapping has that key already. */
NODISCARD bool document_check_key(const struct document_node *map, struct str key, uint32_t line,
                                  uint32_t column, struct document_fault *fault);
NODISCARD bool document_append_root(struct document_list *list, struct document_node *root,
                                    struct document_fault *fault);

/* Fills in a fault of the text as such and returns false. */
bool document_refuse(struct document_fault *fault, enum err_code code, uint32_t line,
                     uint32_t column, const char *expected, ...)
    __attribute__((format(printf, 5, 6)));

/* Copies text into a fixed field: cut between characters, with nothing in it that a
 * terminal would obey. */
void document_quote(char *to, size_t size, struct str text);

/* Whether text is a number of JSON. */
bool document_is_number(struct str text);

#endif
