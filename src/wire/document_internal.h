/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_DOCUMENT_INTERNAL_H
#define WIRE_DOCUMENT_INTERNAL_H

/* Shared by the readers of the two formats. */

#include "wire/document.h"

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

/* Whether text is a JSON number. */
bool document_is_number(struct str text);

#endif
