/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_FIELD_LIST_H
#define WIRE_FIELD_LIST_H

/* JSON lists that are read element by element. */

#include "wire/field.h"

/* Reads exactly one value. ERR_TOO_MANY: the list has no room for it. */
typedef struct err (*field_element)(void *ctx, struct json_cursor *c);

/* Reads the next value, a list, and sets *count. What is wrong with an element is said with its
 * place ("[3].token: ..."), but ERR_TOO_MANY is about the list. */
NODISCARD struct err field_list(struct json_cursor *c, field_element read, void *ctx,
                                size_t *count);

#endif
